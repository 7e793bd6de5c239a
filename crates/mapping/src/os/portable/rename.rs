//! Renames with conditions.

use std::io;

#[cfg(unix)]
use crate::os::unix::names::RelativePath;
#[cfg(windows)]
use crate::os::windows::names::RelativePath;

/// Fails, so that the caller gives the file a second name and removes the first.
pub fn rename_noreplace(_from: &RelativePath, _to: &RelativePath) -> io::Result<()> {
    note!("rename_noreplace");
    Err(io::ErrorKind::Unsupported.into())
}

/// True if the system can exchange two names in one step.
pub const CAN_EXCHANGE: bool = false;

/// Fails, as two names can't be exchanged in one step.
pub fn exchange(_one: &RelativePath, _other: &RelativePath) -> io::Result<()> {
    note!("exchange");
    Err(io::ErrorKind::Unsupported.into())
}
