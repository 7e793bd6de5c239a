//! Defines the permitted accesses to the bytes of a mapping.

use crate::error::{Error, Result};

/// The mode of a mapping, in NumPy's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `"r"`: shared, read-only.
    Read,
    /// `"r+"`: shared, read-write; stores reach the file and every other mapping of it at once.
    ReadWrite,
    /// `"c"`: private copy-on-write; stores never reach the file.
    CopyOnWrite,
}

impl Mode {
    /// Parses `"r"`, `"r+"` or `"c"`.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for anything else.
    pub fn parse(letters: &str) -> Result<Mode> {
        match letters {
            "r" => Ok(Mode::Read),
            "r+" => Ok(Mode::ReadWrite),
            "c" => Ok(Mode::CopyOnWrite),
            other => Err(Error::invalid_argument(format!("mode must be 'r', 'r+' or 'c', got '{other}'"))),
        }
    }

    /// Returns true if elements can be stored in this mode.
    pub fn is_writable(self) -> bool {
        self != Mode::Read
    }
}
