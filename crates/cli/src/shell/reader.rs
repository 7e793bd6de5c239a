//! Reads files, pipes and standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use arrowwood::Error;
use arrowwood::mapping::metadata_at;
use arrowwood::readable::format_bytes;

use super::error::CliResult;
use super::printable::{is_dash, stdin_or_path};

/// Returns an error of reading `path`, or standard input.
pub(crate) fn reading_error(error: &io::Error, path: &Path) -> Error {
    Error::io("reading", error).at(stdin_or_path(path))
}

/// Returns true for pipes, as in `arrowwood head <(zcat ticks.arrow.gz)`, which can be read but not mapped.
pub(crate) fn is_pipe(path: &Path) -> CliResult<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()))
}

/// Opens a file, or a pipe that fails before its input takes all memory.
pub(crate) fn reader(path: &Path) -> CliResult<Box<dyn Read>> {
    if is_dash(path) {
        return Ok(Box::new(BoundedReader::new(io::stdin().lock())));
    }
    let file = fs::File::open(path).map_err(|e| Error::io("opening", &e).at(path))?;
    if is_pipe(path)? {
        return Ok(Box::new(BoundedReader::new(file)));
    }
    Ok(Box::new(file))
}

/// A reader that fails before its input takes all memory.
pub(crate) struct BoundedReader<R> {
    source: R,
    bytes_read: u64,
    /// Reading more is an error.
    max_bytes: u64,
}

impl<R: Read> BoundedReader<R> {
    pub(crate) fn new(source: R) -> BoundedReader<R> {
        // A quarter of the memory is left for the results computed from the input.
        let max_bytes = arrowwood::mapping::free_memory().map_or(u64::MAX, |bytes| bytes / 4 * 3);
        BoundedReader { source, bytes_read: 0, max_bytes }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(into)?;
        self.bytes_read += len as u64;
        if self.bytes_read > self.max_bytes {
            let limit = format_bytes(self.max_bytes);
            let message = format!("more came than there is memory for, {limit}; write it to a file, which is mapped");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        Ok(len)
    }
}

/// Reads the token in a file.
#[cfg(feature = "serve")]
pub(crate) fn read_token(file: &Path) -> CliResult<String> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::io("reading the token", &e).at(file))?;
    Ok(text.trim().to_owned())
}
