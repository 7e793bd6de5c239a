//! Looks up files and directories by path. A call that fails returns an error, where [`Path::exists`] returns false.

use std::fs::Metadata;
use std::io;
use std::path::Path;

/// Returns the metadata of the file or directory at `path`; `None` if there is none.
///
/// # Errors
/// Errors of the system.
pub fn metadata_at(path: &Path) -> io::Result<Option<Metadata>> {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        // No file can have such a name.
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns true if there is a file or directory at `path`.
///
/// # Errors
/// Errors of the system.
pub fn exists(path: &Path) -> io::Result<bool> {
    Ok(metadata_at(path)?.is_some())
}

/// Returns true if there is a directory at `path`.
///
/// # Errors
/// Errors of the system.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| metadata.is_dir()))
}
