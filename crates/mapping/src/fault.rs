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
    /// Device and inode; `None` for a region of several files.
    identity: Option<(u64, u64)>,
    /// The file of a writer, which may have no name yet.
    file: Option<Arc<File>>,
    /// Whether bytes of the region can be stored to the file.
    is_stored_to: bool,
}

impl MappedOrigin {
    /// The file at `path`, of this device and inode.
    pub fn new(path: &Path, identity: (u64, u64), mode: Mode) -> MappedOrigin {
        let is_stored_to = mode == Mode::ReadWrite;
        MappedOrigin { path: path.to_path_buf(), identity: Some(identity), file: None, is_stored_to }
    }

    /// Several files, the first of which is at `path`.
    pub fn joined(path: &Path) -> MappedOrigin {
        MappedOrigin { path: path.to_path_buf(), identity: None, file: None, is_stored_to: false }
    }

    /// The file of a writer, which is at `path`, or will be.
    pub fn with_file(path: &Path, file: &Arc<File>) -> MappedOrigin {
        MappedOrigin { path: path.to_path_buf(), identity: None, file: Some(file.clone()), is_stored_to: true }
    }

    /// The error of the system because of which byte `offset` could not be touched. `None` if the file has become shorter, if
    /// another one has its path, or if all is well now, as after it was truncated and has grown again.
    pub fn cause(&self, offset: u64) -> Option<io::Error> {
        let file = self.file.clone().or_else(|| self.open())?;
        if file.metadata().ok()?.len() <= offset {
            return None;
        }
        if let Err(e) = file.read_exact_at(&mut [0], offset) {
            return (e.kind() != io::ErrorKind::UnexpectedEof).then_some(e);
        }
        let space = os::space(&file).ok()?;
        // In a hole, a file system in memory makes a page for who only reads.
        ((self.is_stored_to || space.is_in_memory) && space.available < ROOM).then(os::no_space)
    }

    fn open(&self) -> Option<Arc<File>> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path).ok()?;
        let metadata = file.metadata().ok()?;
        (Some((metadata.dev(), metadata.ino())) == self.identity).then(|| Arc::new(file))
    }
}
