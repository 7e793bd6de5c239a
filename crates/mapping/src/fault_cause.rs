//! Finds out why a page of a mapped file could not be touched.
//!
//! SIGBUS does not tell: it is raised if a file was truncated, if a disk fails, and if a disk has no room for a page
//! that was stored to.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mode::Mode;
use crate::os;

/// The maximum space that is left if a store raises the signal because the disk is full. More than zero, because a file
/// system may need blocks for all pages that it keeps together in memory, 8 MiB of them (ext4 since Linux 6.16).
const MAX_SPACE_WHEN_FULL: u64 = 16 << 20;

/// The file of a region, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct MappedOrigin {
    pub path: PathBuf,
    /// Device and inode, if the file is opened by its path.
    identity: Option<(u64, u64)>,
    /// The file of a writer, which may have no name yet.
    file: Option<Arc<File>>,
    /// True if stores to the region reach the file.
    is_stored_to: bool,
    /// The parts of a region of several files, ordered by `start`.
    parts: Vec<JoinedPart>,
}

/// A part of a file in a region of several.
#[derive(Clone, Debug)]
pub(crate) struct JoinedPart {
    /// The offset of its first byte in the region.
    pub start: u64,
    /// The offset of its first byte in its file.
    pub offset: u64,
    pub origin: MappedOrigin,
}

impl MappedOrigin {
    /// Creates the origin of a region of the file at `path`, with this device and inode.
    pub fn new(path: &Path, identity: (u64, u64), mode: Mode) -> MappedOrigin {
        let is_stored_to = mode == Mode::ReadWrite;
        MappedOrigin { path: path.to_path_buf(), identity: Some(identity), file: None, is_stored_to, parts: Vec::new() }
    }

    /// Creates the origin of a region of several files, the first of which is at `path`.
    pub fn joined(path: &Path, parts: Vec<JoinedPart>) -> MappedOrigin {
        assert!(parts.is_sorted_by_key(|part| part.start), "the parts of a region are not in order");
        MappedOrigin { path: path.to_path_buf(), identity: None, file: None, is_stored_to: false, parts }
    }

    /// Creates the origin of a region of a writer's file, which is at `path`, or will be.
    pub fn with_file(path: &Path, file: &Arc<File>) -> MappedOrigin {
        let path = path.to_path_buf();
        MappedOrigin { path, identity: None, file: Some(file.clone()), is_stored_to: true, parts: Vec::new() }
    }

    /// Returns the file of byte `offset` of the region, and the byte's offset in it.
    pub fn file_of(&self, offset: u64) -> (&MappedOrigin, u64) {
        let count = self.parts.partition_point(|part| part.start <= offset);
        match self.parts[..count].last() {
            Some(part) => part.origin.file_of(offset - part.start + part.offset),
            None => (self, offset),
        }
    }

    /// Returns the system's error for byte `offset` of the file, which could not be touched, or the error of asking for
    /// it. Returns `None` if the file has become shorter, if its path leads to another file or none, or if the byte can
    /// be touched again, for example because the file was truncated and has grown.
    pub fn cause(&self, offset: u64) -> Option<io::Error> {
        self.find_cause(offset).unwrap_or_else(Some)
    }

    fn find_cause(&self, offset: u64) -> io::Result<Option<io::Error>> {
        let Some(file) = self.file()? else { return Ok(None) };
        if file.metadata()?.len() <= offset {
            return Ok(None);
        }
        if let Err(e) = os::read_exact_at(&file, &mut [0], offset) {
            return Ok((e.kind() != io::ErrorKind::UnexpectedEof).then_some(e));
        }
        let space = os::free_space(&file)?;
        // A file system in memory allocates pages of holes even for reads.
        let needs_space = self.is_stored_to || space.is_in_memory;
        Ok((needs_space && space.available < MAX_SPACE_WHEN_FULL).then(os::no_space))
    }

    /// Returns the file, if it is still at its path.
    fn file(&self) -> io::Result<Option<Arc<File>>> {
        if let Some(file) = &self.file {
            return Ok(Some(file.clone()));
        }
        let opened = os::open_without_waiting(OpenOptions::new().read(true), &self.path);
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = os::FileInfo::from_file(&file)?;
        Ok((Some(os::file_identity(&metadata)) == self.identity).then(|| Arc::new(file)))
    }
}
