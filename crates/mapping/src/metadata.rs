//! Looks up files and directories by path. A call that fails returns an error, where [`Path::exists`] returns false.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::os::FileInfo;

/// As [`metadata_at`], with the error of the system.
pub(crate) fn stat(path: &Path) -> io::Result<Option<FileInfo>> {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    match FileInfo::from_path(path) {
        Ok(metadata) => Ok(Some(metadata)),
        // No file can have such a name.
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the metadata of the file or directory at `path`; `None` if there is none.
///
/// # Errors
/// `PermissionDenied` or `Io` if the system call fails, for which [`Path::exists`] returns false.
pub fn metadata_at(path: &Path) -> Result<Option<FileInfo>> {
    stat(path).map_err(|e| Error::io("looking for the path", &e).at(path))
}

/// Returns true if there is a file or directory at `path`.
///
/// ```
/// use arrowwood_mapping::exists;
///
/// assert!(exists("/".as_ref())? && !exists("/no/such/file".as_ref())?);
/// # Ok::<(), arrowwood_mapping::Error>(())
/// ```
///
/// # Errors
/// As [`metadata_at`].
pub fn exists(path: &Path) -> Result<bool> {
    Ok(metadata_at(path)?.is_some())
}

/// Returns true if there is a directory at `path`.
///
/// # Errors
/// As [`metadata_at`].
pub fn is_directory(path: &Path) -> Result<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| metadata.is_dir()))
}

/// Returns true if there is a regular file at `path`.
///
/// # Errors
/// As [`metadata_at`].
pub fn is_file(path: &Path) -> Result<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| metadata.is_file()))
}
