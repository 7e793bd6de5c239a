//! Renames files and directories without replacing any.

use std::io;

use super::errors::{is_forbidden, is_unsupported};
use super::names::RelativePath;
use crate::os::calls;

impl RelativePath {
    /// Renames the file; `AlreadyExists` if there is one at `to`.
    pub(crate) fn rename_to_free(&self, to: &RelativePath) -> io::Result<()> {
        match calls::rename_noreplace(self, to) {
            // The file system has no such call, but links that replace nothing.
            Err(e) if is_unsupported(&e) || e.kind() == io::ErrorKind::Unsupported => match self.link(to) {
                Ok(()) => self.unlink(),
                // The process may have been killed before the old name was removed.
                Err(_) if self.is_same_as(to) => self.unlink(),
                Err(e) if !is_forbidden(&e) && !is_unsupported(&e) => Err(e),
                Err(_) => match to.identity() {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => self.rename(to),
                    Err(e) => Err(e),
                },
            },
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.is_same_as(to) => self.unlink(),
            renamed => renamed,
        }
    }

    /// Exchanges two names, atomically.
    ///
    /// # Errors
    /// Errors of the system; `Unsupported` if it can't.
    pub(crate) fn exchange(&self, other: &RelativePath) -> io::Result<()> {
        calls::exchange(self, other)
    }
}
