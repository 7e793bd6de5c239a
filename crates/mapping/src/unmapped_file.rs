//! Reads files that are mapped only if more than their metadata is needed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::change_check::{Stamp, stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::os::{self, FileInfo};

/// A file, its size and its modification time at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Device and inode.
    identity: (u64, u64),
    stamp: Stamp,
}

impl FileState {
    pub(crate) fn new(identity: (u64, u64), stamp: Stamp) -> FileState {
        FileState { identity, stamp }
    }

    /// Returns the file's size in bytes.
    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// Returns the size, the modification time and the inode as text.
    pub fn version(&self) -> String {
        let Stamp { size, modified: (seconds, nanoseconds) } = self.stamp;
        format!("{size} bytes of {seconds}.{nanoseconds:09}, inode {}", self.identity.1)
    }

    /// Returns true if this is a later state than `before` of the same file, if that file may only grow.
    pub fn has_grown_from(&self, before: &FileState) -> bool {
        self.identity == before.identity && self.size() > before.size()
    }
}

/// An open file that is not mapped: it takes neither a mapping nor addresses.
#[derive(Debug)]
pub struct UnmappedFile {
    file: File,
    state: FileState,
    len: usize,
    /// The first bytes, read at once: small files need no other call.
    front: Vec<u8>,
}

/// The maximum number of bytes that are read when a file is opened.
const FRONT_LEN: usize = 4 << 10;

impl UnmappedFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The errors of [`Mapping::open`](crate::Mapping::open), except the errors of mapping the file.
    pub fn open(path: &Path) -> Result<UnmappedFile> {
        let (file, metadata, len) = open_regular(path, false).map_err(|e| e.at(path))?;
        let state = FileState::new(os::file_identity(&metadata), stamp(&metadata));
        let mut front = vec![0; len.min(FRONT_LEN)];
        read_file(&file, 0, &mut front).map_err(|e| e.at(path))?;
        Ok(UnmappedFile { file, state, len, front })
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the state of the file when it was opened.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `OutOfBounds` if the file ended before when it was opened, `FileChanged` if it has become shorter, `Io`.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> Result<()> {
        check_bounds(offset, buffer.len(), self.len)?;
        match self.front.get(offset..offset + buffer.len()) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => read_file(&self.file, offset, buffer),
        }
    }
}

/// Opens the regular file at `path`, and returns its metadata and size.
pub(crate) fn open_regular(path: &Path, write: bool) -> Result<(File, FileInfo, usize)> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    // Otherwise opening a pipe would wait for its other end, and Python's signals would not end the wait.
    let mut opened = os::open_without_waiting(&options, path);
    if let Err(e) = &opened
        && e.kind() == io::ErrorKind::WouldBlock
        && path.is_file()
    {
        // Another process holds a lease on the file (fcntl(2)), and gives it up soon.
        opened = options.open(path);
    }
    let file = opened.map_err(|e| Error::io("opening the file to map it", &e))?;
    let metadata = FileInfo::from_file(&file).map_err(|e| Error::io("asking for the file's size", &e))?;
    check_regular(&metadata)?;
    let len = usize::try_from(metadata.len())
        .map_err(|_| Error::invalid_argument("the file is larger than the address space"))?;
    Ok((file, metadata, len))
}

/// Returns an error if the file is not a regular one.
fn check_regular(metadata: &FileInfo) -> Result<()> {
    let message = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if os::is_pipe(kind) => return Err(Error::new(ErrorKind::IsPipe, "a pipe can't be mapped")),
        kind if kind.is_dir() => "only regular files can be mapped, and this is a directory; name a file in it",
        _ => "only regular files can be mapped; read this one into memory instead",
    };
    Err(Error::invalid_argument(message))
}

/// Checks that there are `wanted` bytes from `offset` on in a file of `len` bytes.
pub(crate) fn check_bounds(offset: usize, wanted: usize, len: usize) -> Result<()> {
    if offset.checked_add(wanted).is_some_and(|end| end <= len) {
        return Ok(());
    }
    let message = format!("reading {wanted} bytes at offset {offset} of only {len}");
    Err(Error::new(ErrorKind::OutOfBounds, message))
}

pub(crate) fn read_file(file: &File, offset: usize, buffer: &mut [u8]) -> Result<()> {
    os::read_exact_at(file, buffer, offset as u64).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::new(
            ErrorKind::FileChanged,
            format!("reading {} bytes at offset {offset}: the file was truncated after it was opened", buffer.len()),
        ),
        _ => Error::io("reading the file", &e),
    })
}
