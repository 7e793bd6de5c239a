//! Files and disks.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::os::facts::{FileSystemSpace, MountInfo};
use crate::os::unix::names::RelativePath;

/// Returns false, as no blocks can be allocated.
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Does nothing, as no blocks can be released.
pub fn release(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

/// Returns `offset`, as no byte counts as in a hole.
pub fn next_data(_file: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}

/// Returns `None`, as holes can't be found.
pub fn next_hole(_file: &File, _offset: u64) -> Option<u64> {
    None
}

/// Returns `None`, as each file has a name.
pub fn create_unnamed_in(_folder: &RelativePath, _mode: u32) -> io::Result<Option<File>> {
    Ok(None)
}

/// Returns false, as each file has a name.
pub fn can_name_unnamed() -> bool {
    false
}

/// Fails, as each file has a name.
pub fn name_unnamed(_file: &File, _to: &RelativePath) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `None`, as the paths of open files are not known.
pub fn path_of(_file: &File) -> Option<PathBuf> {
    None
}

/// Returns a default without information.
pub fn mount_info(_file: &File) -> io::Result<MountInfo> {
    Ok(MountInfo::default())
}

/// Returns `None`, as mounts are not known.
pub fn mount_id(_file: &File) -> Option<u64> {
    None
}

/// Returns false, as there are no overlay file systems.
pub fn is_on_overlay(_file: &File, _device: u64) -> io::Result<bool> {
    Ok(false)
}

/// Returns unlimited space, as the space is not known.
pub fn free_space(_file: &File) -> io::Result<FileSystemSpace> {
    Ok(FileSystemSpace { available: u64::MAX, is_in_memory: false })
}

/// Returns `None`, as the kinds of file systems are not known.
pub fn remote_file_system(_folder: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}
