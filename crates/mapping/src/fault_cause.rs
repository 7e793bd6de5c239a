//! Why a page of a mapped file could not be touched. SIGBUS does not tell: a file that was truncated, a disk that fails, or one
//! without room for a page that was stored to, all raise it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mode::Mode;
use crate::os;

/// Less than this is left where a store raises the signal for want of space: a file system may want blocks for all pages that it
/// keeps together in memory, 8 MiB of them (ext4 since Linux 6.16).
const ROOM: u64 = 16 << 20;

/// The file of a region, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct MappedOrigin {
    pub path: PathBuf,
    /// Device and inode, if the file is looked for by its path.
    identity: Option<(u64, u64)>,
    /// The file of a writer, which may have no name yet.
    file: Option<Arc<File>>,
    /// Whether bytes of the region can be stored to the file.
    is_stored_to: bool,
    /// The parts of a region of several files, in their order.
    parts: Vec<JoinedPart>,
}

/// A part of a file in a region of several.
#[derive(Clone, Debug)]
pub(crate) struct JoinedPart {
    /// Where it begins in the region.
    pub start: u64,
    /// Where it begins in its file.
    pub offset: u64,
    pub origin: MappedOrigin,
}

impl MappedOrigin {
    /// The file at `path`, of this device and inode.
    pub fn new(path: &Path, identity: (u64, u64), mode: Mode) -> MappedOrigin {
        let is_stored_to = mode == Mode::ReadWrite;
        MappedOrigin { path: path.to_path_buf(), identity: Some(identity), file: None, is_stored_to, parts: Vec::new() }
    }

    /// Several files, the first of which is at `path`.
    pub fn joined(path: &Path, parts: Vec<JoinedPart>) -> MappedOrigin {
        MappedOrigin { path: path.to_path_buf(), identity: None, file: None, is_stored_to: false, parts }
    }

    /// The file of a writer, which is at `path`, or will be.
    pub fn with_file(path: &Path, file: &Arc<File>) -> MappedOrigin {
        let path = path.to_path_buf();
        MappedOrigin { path, identity: None, file: Some(file.clone()), is_stored_to: true, parts: Vec::new() }
    }

    /// The file of byte `offset` of the region, and the byte's offset in it.
    pub fn file_of(&self, offset: u64) -> (&MappedOrigin, u64) {
        let before = self.parts.partition_point(|part| part.start <= offset);
        match before.checked_sub(1).and_then(|number| self.parts.get(number)) {
            Some(part) => part.origin.file_of(offset - part.start + part.offset),
            None => (self, offset),
        }
    }

    /// The system's error for byte `offset` of the file, which could not be touched, or the error of asking for it. `None` if
    /// the file has become shorter, if another file or none has its path, or if all is well now, as after it was truncated
    /// and has grown again.
    pub fn cause(&self, offset: u64) -> Option<io::Error> {
        self.find_cause(offset).unwrap_or_else(Some)
    }

    fn find_cause(&self, offset: u64) -> io::Result<Option<io::Error>> {
        let Some(file) = self.file()? else { return Ok(None) };
        if file.metadata()?.len() <= offset {
            return Ok(None);
        }
        if let Err(e) = file.read_exact_at(&mut [0], offset) {
            return Ok((e.kind() != io::ErrorKind::UnexpectedEof).then_some(e));
        }
        let space = os::space(&file)?;
        // In a hole, a file system in memory makes a page for who only reads.
        let wants_space = self.is_stored_to || space.is_in_memory;
        Ok((wants_space && space.available < ROOM).then(os::no_space))
    }

    /// The file, if it is still at its path.
    fn file(&self) -> io::Result<Option<Arc<File>>> {
        if let Some(file) = &self.file {
            return Ok(Some(file.clone()));
        }
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        Ok((Some((metadata.dev(), metadata.ino())) == self.identity).then(|| Arc::new(file)))
    }
}
