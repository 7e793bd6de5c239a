//! Open files, their metadata and permissions.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileType, Metadata, OpenOptions, Permissions};
use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown,
};
use std::path::Path;
use std::time::SystemTime;

use crate::os::system;

/// The permissions of a file that only its owner can read and write.
pub(in crate::os) const PRIVATE_FILE: u32 = 0o600;
/// The permissions of a directory that only its owner can use.
const PRIVATE_DIRECTORY: u32 = 0o700;
/// The permission to write of anyone but the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// How often the system is asked about a name that other files take.
const MAX_QUESTIONS: usize = 16;
/// The unit of sizes on the disk, in bytes.
const BLOCK: u64 = 512;

/// What the system tells about a file or directory.
#[derive(Clone, Debug)]
pub struct FileInfo {
    metadata: Metadata,
    created: Option<SystemTime>,
}

/// The file or directory that the system is asked about.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    File(&'a File),
    /// What is at the path, or where the link there leads to.
    Path(&'a Path),
    /// What is at the path, which may be a link.
    Link(&'a Path),
}

impl Asked<'_> {
    #[inline]
    fn metadata(self) -> io::Result<Metadata> {
        match self {
            Asked::File(file) => file.metadata(),
            Asked::Path(path) => fs::metadata(path),
            Asked::Link(path) => fs::symlink_metadata(path),
        }
    }
}

/// When a file or directory was made, if its file system tells.
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    pub inode: u64,
    pub time: Option<SystemTime>,
}

/// Returns when the file or directory was made about which the system has told `metadata`.
///
/// # Errors
/// Errors of the system.
#[inline]
#[cfg_attr(all(target_os = "linux", not(target_env = "gnu")), allow(dead_code))]
pub fn creation(metadata: &Metadata, _: Asked<'_>) -> io::Result<Creation> {
    Ok(Creation { inode: metadata.ino(), time: metadata.created().ok() })
}

impl FileInfo {
    /// Asks about the open file or directory.
    ///
    /// # Errors
    /// Errors of the system.
    #[inline]
    pub fn from_file(file: &File) -> io::Result<FileInfo> {
        FileInfo::ask(Asked::File(file))
    }

    /// Asks about what is at `path`, or where the link there leads to.
    ///
    /// # Errors
    /// Errors of the system.
    #[inline]
    pub fn from_path(path: &Path) -> io::Result<FileInfo> {
        FileInfo::ask(Asked::Path(path))
    }

    /// Asks about what is at `path`, which may be a link.
    ///
    /// # Errors
    /// Errors of the system.
    #[inline]
    pub fn from_link(path: &Path) -> io::Result<FileInfo> {
        FileInfo::ask(Asked::Link(path))
    }

    #[inline]
    fn ask(asked: Asked<'_>) -> io::Result<FileInfo> {
        for _ in 0..MAX_QUESTIONS {
            let metadata = asked.metadata()?;
            let creation = system::creation(&metadata, asked)?;
            // Otherwise another file has taken the name in between.
            if creation.inode == metadata.ino() {
                return Ok(FileInfo { metadata, created: creation.time });
            }
        }
        Ok(FileInfo { metadata: asked.metadata()?, created: None })
    }

    /// Returns when the file or directory was made, if its file system tells. Programs can't set it.
    #[inline]
    pub fn created(&self) -> Option<SystemTime> {
        self.created
    }
}

impl Deref for FileInfo {
    type Target = Metadata;

    #[inline]
    fn deref(&self) -> &Metadata {
        &self.metadata
    }
}

/// Returns two numbers that identify a file or directory while it exists: device and inode.
#[inline]
pub fn file_identity(metadata: &FileInfo) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns the time of the last write to a file, in seconds and nanoseconds since 1970. Programs can set it.
#[inline]
pub fn modified_time(metadata: &FileInfo) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Returns the time of the last change of a file, its name or its metadata, in seconds and nanoseconds since 1970.
/// Programs can't set it.
#[inline]
pub fn changed_time(metadata: &FileInfo) -> (i64, i64) {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Returns the number of bytes that a file takes on its disk, which holes do not.
#[inline]
pub fn allocated_bytes(metadata: &FileInfo) -> u64 {
    metadata.blocks().saturating_mul(BLOCK)
}

/// Returns true if an open file or directory has no name any more.
#[inline]
pub fn is_removed(metadata: &FileInfo) -> bool {
    metadata.nlink() == 0
}

/// Returns true if other users than the owner may write to a file.
pub fn is_writable_by_others(metadata: &FileInfo) -> bool {
    metadata.mode() & WRITABLE_BY_OTHERS != 0
}

/// Returns true for a pipe that has a name.
pub fn is_pipe(kind: FileType) -> bool {
    kind.is_fifo()
}

/// Returns true for a device that takes or gives bytes one after another, such as a terminal.
pub fn is_character_device(kind: FileType) -> bool {
    kind.is_char_device()
}

/// Fills `bytes` with the bytes of a file from `offset` on. Does not use the file's position.
///
/// # Errors
/// Errors of the system; `UnexpectedEof` past the end.
#[inline]
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Writes `bytes` to a file at `offset`. Does not use the file's position.
///
/// # Errors
/// Errors of the system.
#[inline]
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Syncs the bytes of a file to the disk.
#[cfg(not(target_os = "macos"))]
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Makes the bytes of a file reach the disk before all that is written from now on. Returns once they are there.
#[cfg(not(target_os = "macos"))]
pub(crate) fn order_writes(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Syncs a file, or the names in a directory, to the disk.
#[cfg(not(target_os = "macos"))]
pub(crate) fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Writes `bytes` and syncs the whole file.
pub(in crate::os) fn write_and_sync(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    system::sync_data(file)
}

/// Makes `options` create a file that only its owner can read and write.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(PRIVATE_FILE)
}

/// Creates a directory that only its owner can use.
///
/// # Errors
/// Errors of the system; `AlreadyExists` if something is at `path`.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path)
}

/// Opens a file as `options` say. Does not wait for the other end of a pipe, but fails if a file can't be opened at
/// once.
pub(crate) fn open_without_waiting(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.clone().custom_flags(libc::O_NONBLOCK).open(path)
}

/// Returns the permissions with which a copy of a file is created.
pub(crate) fn permissions_of(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o777
}

/// Gives a new file the permissions of the one that it is to replace, and its owner and group if this process may set
/// them.
pub(crate) fn take_over(file: &File, replaced: &Metadata) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mut mode = permissions_of(replaced);
    if metadata.gid() != replaced.gid() && fchown(file, None, Some(replaced.gid())).is_err() {
        // Another group than the replaced file's gets no more rights than all others have.
        mode = mode & 0o707 | (mode & 0o007) << 3;
    }
    if metadata.uid() != replaced.uid() {
        // Only root can.
        let _ = fchown(file, Some(replaced.uid()), None);
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Gives a new directory the permissions of the one that it is to replace, and its owner and group if this process may
/// set them.
pub(crate) fn take_over_directory(path: &Path, replaced: &Metadata) -> io::Result<()> {
    // Only root can change the owner.
    let _ = chown(path, Some(replaced.uid()), Some(replaced.gid()));
    std::fs::set_permissions(path, replaced.permissions())
}

/// Returns the path that has these bytes, as [`OsStr::as_encoded_bytes`] returns them.
///
/// # Errors
/// `InvalidInput` if no path has them, which is never so on Unix.
pub fn path_from_bytes(bytes: &[u8]) -> io::Result<&Path> {
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Opens the standard error of this process once more, so that writing to it takes no lock.
///
/// # Errors
/// Errors of the system, such as too many open files.
pub fn open_stderr() -> io::Result<File> {
    Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?))
}
