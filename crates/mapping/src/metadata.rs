//! What is at a path. A call that fails is an error, and never absence, as it is for [`Path::exists`].

use std::fs::Metadata;
use std::io;
use std::path::Path;

/// Returns the metadata of the file or directory at `path`; `None` if there is none.
///
/// # Errors
/// Those of the system.
pub fn metadata_at(path: &Path) -> io::Result<Option<Metadata>> {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        // A name that no file can have is none of a file.
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether there is something at `path`.
///
/// # Errors
/// Those of the system.
pub fn exists(path: &Path) -> io::Result<bool> {
    Ok(metadata_at(path)?.is_some())
}

/// Whether there is a directory at `path`.
///
/// # Errors
/// Those of the system.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| metadata.is_dir()))
}
