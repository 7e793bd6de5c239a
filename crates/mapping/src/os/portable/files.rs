//! Files and disks.

use std::fs::File;
use std::io;
use std::path::PathBuf;

#[cfg(unix)]
use crate::os::unix::{files::write_and_sync, names::RelativePath};
#[cfg(windows)]
use crate::os::windows::{files::write_and_sync, names::RelativePath};

/// Returns false, as no blocks can be allocated.
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    note!("allocate");
    Ok(false)
}

/// Does nothing, as no blocks can be released.
pub fn release(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    note!("release");
    Ok(())
}

/// Returns `offset`, as no byte counts as in a hole.
pub fn next_data(_file: &File, offset: u64) -> io::Result<Option<u64>> {
    note!("next_data");
    Ok(Some(offset))
}

/// Returns `None`, as holes can't be found. Nothing calls it, as no page is refused in advance.
pub fn next_hole(_file: &File, _offset: u64) -> Option<u64> {
    None
}

/// Returns `None`, as each file has a name.
pub fn create_unnamed_in(_folder: &RelativePath, _mode: u32) -> io::Result<Option<File>> {
    note!("create_unnamed_in");
    Ok(None)
}

/// Returns false, as each file has a name.
pub fn can_name_unnamed() -> bool {
    note!("can_name_unnamed");
    false
}

/// Fails. Nothing calls it, as each file has a name.
pub fn name_unnamed(_file: &File, _to: &RelativePath) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `None`, as the paths of open files are not known.
pub fn path_of(_file: &File) -> Option<PathBuf> {
    note!("path_of");
    None
}

/// Writes `bytes` at `offset`, and syncs the whole file.
pub fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    note!("write_synced");
    write_and_sync(file, offset, bytes)
}

#[cfg(all(test, arrowwood_portable))]
mod tests {
    use super::*;

    #[test]
    fn a_synced_write_is_synced() {
        // It takes all bytes, and can't be synced.
        let device = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(write_synced(&device, 0, &[1]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
