//! Wraps the system calls on files and directories that a writer needs.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

/// The size of a page, if the system doesn't tell.
pub(crate) const DEFAULT_PAGE_SIZE: usize = 4096;

/// A path, relative to an open directory if there is one. It leads into that directory regardless of the directory's
/// name.
#[derive(Clone, Debug)]
pub(crate) struct RelativePath {
    pub folder: Option<Arc<DirectoryHandle>>,
    pub path: PathBuf,
}

impl RelativePath {
    pub(crate) fn new(path: &Path) -> RelativePath {
        RelativePath { folder: None, path: path.to_path_buf() }
    }

    fn descriptor(&self) -> i32 {
        self.folder.as_ref().map_or(libc::AT_FDCWD, |folder| folder.file().as_raw_fd())
    }

    fn text(&self) -> io::Result<CString> {
        Ok(CString::new(self.path.as_os_str().as_bytes())?)
    }

    /// Opens the file or directory (openat(2)), with these permissions if it is created.
    pub(crate) fn open(&self, flags: i32, mode: u32) -> io::Result<File> {
        let path = self.text()?;
        loop {
            // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
            let opened = unsafe { libc::openat(self.descriptor(), path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
            match owned(opened) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                opened => return opened.map(File::from),
            }
        }
    }

    /// Returns true if the directory was removed, and is still open.
    #[cfg(target_os = "linux")]
    fn is_removed(&self) -> bool {
        let opened = self.open_folder().and_then(|folder| folder.metadata());
        opened.is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) == 0)
    }

    /// Opens the directory.
    pub(crate) fn open_folder(&self) -> io::Result<File> {
        self.open(libc::O_RDONLY | libc::O_DIRECTORY, 0)
    }

    /// Returns device and inode number of the file or directory, or of a link's target (fstatat(2)).
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        let path = self.text()?;
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path ends in zero and lives through the call, as does the descriptor; `stat` has room for the one
        // structure the call writes.
        check(unsafe { libc::fstatat(self.descriptor(), path.as_ptr(), stat.as_mut_ptr(), 0) })?;
        // SAFETY: fstatat(2) has succeeded, so it has filled the structure.
        let stat = unsafe { stat.assume_init() };
        // Not every system has 64 bits for both.
        #[allow(clippy::unnecessary_cast)]
        Ok((stat.st_dev as u64, stat.st_ino as u64))
    }

    /// Returns true if this process may add and remove names in the directory (faccessat(2)).
    pub(crate) fn is_writable(&self) -> bool {
        let Ok(path) = self.text() else { return false };
        let access = libc::W_OK | libc::X_OK;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        unsafe { libc::faccessat(self.descriptor(), path.as_ptr(), access, libc::AT_EACCESS) == 0 }
    }

    /// Returns true if there is nothing at the path (faccessat(2)). Unlike fstatat(2), this does not ask for the file's
    /// times, and so doesn't slow down the next write to the file.
    pub(crate) fn is_missing(&self) -> io::Result<bool> {
        let path = self.text()?;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        match check(unsafe { libc::faccessat(self.descriptor(), path.as_ptr(), libc::F_OK, 0) }) {
            Ok(()) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Removes the name (unlinkat(2)).
    pub(crate) fn unlink(&self) -> io::Result<()> {
        let path = self.text()?;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        check(unsafe { libc::unlinkat(self.descriptor(), path.as_ptr(), 0) })
    }

    /// Gives the file a second name (linkat(2)).
    pub(crate) fn link(&self, to: &RelativePath) -> io::Result<()> {
        let from = self.text()?;
        let name = to.text()?;
        // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `self` and
        // `to`.
        check(unsafe { libc::linkat(self.descriptor(), from.as_ptr(), to.descriptor(), name.as_ptr(), 0) })
    }

    /// Renames the file. Replaces the one at `to` (renameat(2)).
    pub(crate) fn rename(&self, to: &RelativePath) -> io::Result<()> {
        let from = self.text()?;
        let name = to.text()?;
        // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `self` and
        // `to`.
        check(unsafe { libc::renameat(self.descriptor(), from.as_ptr(), to.descriptor(), name.as_ptr()) })
    }

    /// Renames the file; `AlreadyExists` if there is one at `to`.
    pub(crate) fn rename_to_free(&self, to: &RelativePath) -> io::Result<()> {
        match self.rename_with(to, NO_REPLACE) {
            // The file system has no such call, but links that replace nothing.
            Err(e) if is_unsupported(&e) || e.kind() == io::ErrorKind::Unsupported => match self.link(to) {
                Ok(()) => self.unlink(),
                // The process may have been killed before the old name was removed.
                Err(_) if self.is_same_as(to) => self.unlink(),
                Err(e) if e.raw_os_error() != Some(libc::EPERM) && !is_unsupported(&e) => Err(e),
                Err(_) => match to.identity() {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(e) if e.kind() == io::ErrorKind::NotFound => self.rename(to),
                    Err(e) => Err(e),
                },
            },
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.is_same_as(to) => self.unlink(),
            renamed => renamed,
        }
    }

    fn is_same_as(&self, other: &RelativePath) -> bool {
        matches!((self.identity(), other.identity()), (Ok(one), Ok(two)) if one == two)
    }

    /// Exchanges two names, atomically (renameat2(2)).
    pub(crate) fn exchange(&self, other: &RelativePath) -> io::Result<()> {
        self.rename_with(other, EXCHANGE)
    }

    #[cfg(target_os = "linux")]
    fn rename_with(&self, to: &RelativePath, flags: u32) -> io::Result<()> {
        let from = self.text()?;
        let name = to.text()?;
        let from_descriptor = self.descriptor();
        let to_descriptor = to.descriptor();
        // A direct call, as not every C library has the function.
        // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `self` and
        // `to`.
        let result = unsafe {
            libc::syscall(libc::SYS_renameat2, from_descriptor, from.as_ptr(), to_descriptor, name.as_ptr(), flags)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    #[cfg(not(target_os = "linux"))]
    fn rename_with(&self, _to: &RelativePath, _flags: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
const NO_REPLACE: u32 = libc::RENAME_NOREPLACE;
#[cfg(target_os = "linux")]
const EXCHANGE: u32 = libc::RENAME_EXCHANGE;
#[cfg(not(target_os = "linux"))]
const NO_REPLACE: u32 = 1;
#[cfg(not(target_os = "linux"))]
const EXCHANGE: u32 = 2;

/// Allocates blocks for the bytes `offset .. offset + len` of `file`, so that a store through a mapping can't fail
/// because the disk is full. Returns false if the file system has no such call. A failed call releases its blocks.
pub(crate) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    match fallocate(file, KEEP_SIZE, offset, len) {
        Ok(()) => Ok(true),
        Err(e) if is_unsupported(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Writes `bytes` at `offset` and syncs them to the disk (pwritev2(2), `RWF_DSYNC`). Syncs only these pages, not other
/// writes to the file, but the whole file if the system has no such call.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        let part = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let rest_offset = libc::off_t::try_from(offset + written as u64).map_err(|_| too_large())?;
        // SAFETY: the one part is `rest`, which outlives the call and is only read by it.
        let count = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const part, 1, rest_offset, libc::RWF_DSYNC) };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                assert!(count <= rest.len(), "the system wrote {count} bytes of {}", rest.len());
                written += count;
            }
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => (),
                e if is_unsupported(&e) => return write_and_sync(file, rest_offset as u64, rest),
                e => return Err(e),
            },
        }
    }
    Ok(())
}

/// Writes `bytes` and syncs the whole file, as this system can't sync a part.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    write_and_sync(file, offset, bytes)
}

fn write_and_sync(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)?;
    file.sync_data()
}

/// Releases blocks; their bytes read as zeros from now on. Does nothing if the file system has no such call.
pub(crate) fn release(file: &File, offset: u64, len: u64) -> io::Result<()> {
    match fallocate(file, PUNCH_HOLE | KEEP_SIZE, offset, len) {
        Err(e) if !is_unsupported(&e) => Err(e),
        _ => Ok(()),
    }
}

/// Returns the offset of the first byte from `offset` on that is not in a hole; `None` if there is none. If the file
/// system can't report holes, no byte counts as in one.
#[cfg(target_os = "linux")]
pub(crate) fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    let start = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: takes numbers only.
    let data = unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_DATA) };
    if let Ok(data) = u64::try_from(data) {
        return Ok(Some(data));
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        e if is_unsupported(&e) => Ok(Some(offset)),
        e => Err(e),
    }
}

/// Returns the offset of the first byte from `offset` on that is in a hole, or the end of the file; `None` if the file
/// system can't report holes, or `offset` is not before the end.
#[cfg(target_os = "linux")]
pub(crate) fn next_hole(file: &File, offset: u64) -> Option<u64> {
    let start = libc::off_t::try_from(offset).ok()?;
    // SAFETY: takes numbers only.
    u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_HOLE) }).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn next_hole(_file: &File, _offset: u64) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn next_data(_file: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}

#[cfg(target_os = "linux")]
const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
#[cfg(target_os = "linux")]
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE;
#[cfg(not(target_os = "linux"))]
const KEEP_SIZE: i32 = 1;
#[cfg(not(target_os = "linux"))]
const PUNCH_HOLE: i32 = 2;

/// The mount through which a file was opened, and the time at which the file was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MountInfo {
    /// No other mount has this id, or gets it before the next boot; 0 if the system has none, or does not tell.
    pub mount: u64,
    /// Seconds and nanoseconds since 1970, zeros if unknown.
    ///
    /// It tells a file from a later one with the same inode number.
    pub made: (i64, u32),
}

/// Asks through which mount `file` was opened (statx(2), Linux 6.8).
///
/// # Errors
/// Errors of the system. One without that call, or that forbids it, tells nothing.
#[cfg(target_os = "linux")]
pub(crate) fn mounted(file: &File) -> io::Result<MountInfo> {
    const UNIQUE_MOUNT_ID: u32 = 0x4000;
    let mut statx = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH;
    let mask = UNIQUE_MOUNT_ID | libc::STATX_BTIME;
    // A direct call, as not every C library has the function.
    // SAFETY: the path is empty and ends in zero, the descriptor is open as long as `file` lives, and `statx` has room
    // for the one structure that the call writes.
    let result =
        unsafe { libc::syscall(libc::SYS_statx, file.as_raw_fd(), c"".as_ptr(), flags, mask, statx.as_mut_ptr()) };
    // SAFETY: a structure of numbers, all of which may be zero, as they were before the call.
    let statx = unsafe { statx.assume_init() };
    if result != 0 {
        let e = io::Error::last_os_error();
        let is_unavailable = is_unsupported(&e) || e.raw_os_error() == Some(libc::EPERM);
        return if is_unavailable { Ok(MountInfo::default()) } else { Err(e) };
    }
    if statx.stx_mask & UNIQUE_MOUNT_ID == 0 {
        return Ok(MountInfo::default());
    }
    Ok(MountInfo { mount: statx.stx_mnt_id, made: (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec) })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mounted(_file: &File) -> io::Result<MountInfo> {
    Ok(MountInfo::default())
}

/// Returns true if `file`, on the device `device`, is on an overlay file system (fstatfs(2)).
#[cfg(target_os = "linux")]
pub(crate) fn is_on_overlay(file: &File, device: u64) -> io::Result<bool> {
    // Overlays have no device of their own; most other file systems need not be asked.
    if libc::major(device) != 0 {
        return Ok(false);
    }
    Ok(file_system(file)?.f_type == libc::OVERLAYFS_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_on_overlay(_file: &File, _device: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn fallocate(file: &File, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
    let (Ok(offset), Ok(len)) = range else { return Err(io::Error::from_raw_os_error(libc::EFBIG)) };
    // SAFETY: takes numbers only; the descriptor is open as long as `file` lives.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) })
}

#[cfg(not(target_os = "linux"))]
fn fallocate(_file: &File, _mode: i32, _offset: u64, _len: u64) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
}

/// Creates a file without a name, with these permissions, in the directory `folder`. Returns `None` if the file system
/// has no such files.
#[cfg(target_os = "linux")]
pub(crate) fn unnamed(folder: &RelativePath, mode: u32) -> io::Result<Option<File>> {
    match folder.open(libc::O_RDWR | libc::O_TMPFILE, mode) {
        Ok(file) => Ok(Some(file)),
        Err(e) if is_unsupported(&e) || e.raw_os_error() == Some(libc::EISDIR) => Ok(None),
        // ext4 returns this error if the directory was removed.
        Err(e) if e.raw_os_error() == Some(libc::EPERM) && folder.is_removed() => {
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        }
        Err(e) => Err(e),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn unnamed(_folder: &RelativePath, _mode: u32) -> io::Result<Option<File>> {
    Ok(None)
}

/// Names a file that has no name, atomically; `AlreadyExists` if another file has the name.
pub(crate) fn name(file: &File, to: &RelativePath) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = to.text()?;
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both paths end in zero and live through the call; the descriptor is open as long as `to` lives.
    check(unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), to.descriptor(), name.as_ptr(), follow) })
}

/// Returns the limit of file sizes for this process (`ulimit -f`). Writing beyond it raises a signal that ends the
/// process, or is an error if the signal is ignored.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` has room for the one structure the call writes; if the call fails, nothing is limited.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Returns the error of a file beyond the limit.
pub(crate) fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

/// Returns the error of a full disk.
pub(crate) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// The space of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystemSpace {
    /// Bytes that are free for unprivileged users.
    pub available: u64,
    /// True if its files are in memory (tmpfs).
    pub is_in_memory: bool,
}

/// Returns the file system of `file` (fstatfs(2)).
#[cfg(target_os = "linux")]
fn file_system(file: &File) -> io::Result<libc::statfs> {
    let mut statfs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open as long as `file` lives, and `statfs` has room for the one structure the call
    // writes.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), statfs.as_mut_ptr()) })?;
    // SAFETY: fstatfs(2) has succeeded, so it has filled the structure.
    Ok(unsafe { statfs.assume_init() })
}

/// Returns the space of the file system of `file`.
#[cfg(target_os = "linux")]
pub(crate) fn space(file: &File) -> io::Result<FileSystemSpace> {
    let statfs = file_system(file)?;
    let available = statfs.f_bavail.saturating_mul(u64::try_from(statfs.f_bsize).unwrap_or(u64::MAX));
    Ok(FileSystemSpace { available, is_in_memory: statfs.f_type == libc::TMPFS_MAGIC })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn space(_file: &File) -> io::Result<FileSystemSpace> {
    Ok(FileSystemSpace { available: u64::MAX, is_in_memory: false })
}

/// Makes growing a file beyond the process's limit (`ulimit -f`) an error instead of a signal that ends the process.
///
/// Programs may call this, libraries should not.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, the signal is only ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// An open directory that this process may lock (flock(2)). A forked child doesn't keep the lock, because its copy of
/// the descriptor is replaced.
#[derive(Debug)]
pub(crate) struct DirectoryHandle {
    file: File,
    /// The entry of the descriptor in [`OPEN_DIRECTORIES`].
    entry: &'static AtomicI32,
}

impl DirectoryHandle {
    pub(crate) fn open(path: &Path) -> io::Result<DirectoryHandle> {
        fork_count();
        let file = File::open(path)?;
        let entry = register_directory(file.as_raw_fd());
        Ok(DirectoryHandle { file, entry })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Locks the directory for as long as it stays open. Returns false if another process has the lock.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        // SAFETY: takes numbers only; the descriptor is open as long as `self` lives.
        match check(unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Releases the lock.
    pub(crate) fn unlock(&self) {
        // SAFETY: takes numbers only; the descriptor is open as long as `self` lives. There is nothing to do about a
        // failure.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

impl Drop for DirectoryHandle {
    fn drop(&mut self) {
        // The entry is cleared before the descriptor is closed, and may be assigned to another file.
        self.entry.store(NO_DESCRIPTOR, Ordering::Release);
    }
}

/// Descriptors of open directories, for the handler of forks, as a list of arrays. The handler may neither allocate nor
/// wait, so entries are only added, and used again.
///
/// A [`DirectoryHandle`] claims a free entry with its descriptor when it is opened, before it can be locked, and frees
/// the entry before it closes the descriptor. So in a forked child each entry is free, or has an open descriptor of the
/// child.
#[derive(Debug)]
struct DescriptorTable {
    entries: [AtomicI32; DescriptorTable::LEN],
    next: OnceLock<Box<DescriptorTable>>,
}

/// The content of a free entry.
const NO_DESCRIPTOR: i32 = -1;

impl DescriptorTable {
    /// Number of entries before the next array is needed.
    const LEN: usize = 64;

    const fn new() -> DescriptorTable {
        let entries = [const { AtomicI32::new(NO_DESCRIPTOR) }; DescriptorTable::LEN];
        DescriptorTable { entries, next: OnceLock::new() }
    }
}

static OPEN_DIRECTORIES: DescriptorTable = DescriptorTable::new();
/// A descriptor of no directory, which replaces the ones of directories in forked children.
static PLACEHOLDER: OnceLock<OwnedFd> = OnceLock::new();

/// Adds the descriptor of an open directory to the table, and returns its entry.
fn register_directory(descriptor: i32) -> &'static AtomicI32 {
    let mut table = &OPEN_DIRECTORIES;
    loop {
        for entry in &table.entries {
            if entry.compare_exchange(NO_DESCRIPTOR, descriptor, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return entry;
            }
        }
        table = table.next.get_or_init(|| Box::new(DescriptorTable::new()));
    }
}

/// Gives the locks of the parent process back, in a forked child.
#[cfg(target_os = "linux")]
fn release_parent_locks() {
    let Some(placeholder) = PLACEHOLDER.get() else { return };
    let mut next = Some(&OPEN_DIRECTORIES);
    while let Some(table) = next {
        for entry in &table.entries {
            let descriptor = entry.load(Ordering::Acquire);
            if descriptor != NO_DESCRIPTOR {
                // SAFETY: takes numbers only, and is allowed between fork and exec. A `DirectoryHandle` owns the
                // descriptor, and continues to: it stays open, but refers to an object that is no directory.
                unsafe { libc::dup3(placeholder.as_raw_fd(), descriptor, libc::O_CLOEXEC) };
            }
        }
        next = table.next.get().map(Box::as_ref);
    }
}

#[cfg(target_os = "linux")]
fn open_placeholder() {
    // SAFETY: takes numbers only.
    if let Ok(placeholder) = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }) {
        // If there is one already, this one is closed.
        let _ = PLACEHOLDER.set(placeholder);
    }
}

#[cfg(not(target_os = "linux"))]
fn release_parent_locks() {}

#[cfg(not(target_os = "linux"))]
fn open_placeholder() {}

/// Returns the kind of file system of `folder` if mappings on several machines are inconsistent there.
///
/// # Errors
/// Errors of the system, such as `NotFound`.
#[cfg(target_os = "linux")]
pub fn remote_file_system(folder: &Path) -> io::Result<Option<&'static str>> {
    const REMOTE: [(u32, &str); 8] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "SMB"),
        (0xfe53_4d42, "SMB"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "AFS"),
        (0x00c3_6400, "Ceph"),
    ];
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut statfs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in zero, and `statfs` has room for the one structure the call writes.
    check(unsafe { libc::statfs(path.as_ptr(), statfs.as_mut_ptr()) })?;
    // SAFETY: statfs(2) has succeeded, so it has filled the structure.
    let kind = unsafe { statfs.assume_init() }.f_type as u32;
    Ok(REMOTE.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

#[cfg(not(target_os = "linux"))]
pub fn remote_file_system(_folder: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Waits for names to be added to or removed from directories (inotify(7)).
#[derive(Debug)]
pub(crate) struct DirectoryWatcher {
    events: OwnedFd,
    end: OwnedFd,
}

#[cfg(target_os = "linux")]
impl DirectoryWatcher {
    /// Creates a watcher of no directory.
    pub(crate) fn new() -> io::Result<DirectoryWatcher> {
        // SAFETY: takes numbers only.
        let events = owned(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: takes numbers only.
        let end = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        Ok(DirectoryWatcher { events, end })
    }

    /// Watches `directory`, too.
    pub(crate) fn add(&self, directory: &Path) -> io::Result<()> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        let names = libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_MOVED_TO;
        let itself = libc::IN_DELETE_SELF | libc::IN_MOVE_SELF;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        let watch = unsafe { libc::inotify_add_watch(self.events.as_raw_fd(), path.as_ptr(), names | itself) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns true when names were added or removed, and false after [`DirectoryWatcher::end`].
    pub(crate) fn wait(&self) -> bool {
        let mut polled = [&self.events, &self.end].map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        const NO_TIMEOUT: i32 = -1;
        loop {
            // SAFETY: the array has as many structures as the call is told, which the call writes to.
            let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, NO_TIMEOUT) };
            let is_interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if result >= 0 || !is_interrupted {
                let [_, end] = polled;
                return end.revents == 0;
            }
        }
    }

    /// Ends the wait.
    pub(crate) fn end(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: 8 bytes that live through the call; the descriptor is open as long as `self` lives. The call does not
        // wait, as the counter has room for 2⁶⁴ - 2 such calls.
        unsafe { libc::write(self.end.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just opened it for the caller, and no other code knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(not(target_os = "linux"))]
impl DirectoryWatcher {
    pub(crate) fn new() -> io::Result<DirectoryWatcher> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn add(&self, _directory: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn wait(&self) -> bool {
        false
    }

    pub(crate) fn end(&self) {}
}

/// See [`fork_count`].
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of forks between the process that called this first and the current one.
///
/// A writer compares it to find out if it belongs to this process.
#[inline]
pub fn fork_count() -> u64 {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        release_parent_locks();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        open_placeholder();
        // SAFETY: the handler only uses atomics and dup3(2), which is allowed between fork and exec. It is accepted
        // that registering it may fail without memory: then a forked writer is not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}

/// Returns true if this is the thread that the process began with, or, in a fork, the one that forked.
///
/// Returns true as well if the system doesn't tell.
pub fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: neither call takes an argument, or fails.
    let thread = unsafe { libc::gettid() };
    #[cfg(target_os = "linux")]
    // SAFETY: as above.
    let process = unsafe { libc::getpid() };
    #[cfg(not(target_os = "linux"))]
    let (thread, process) = (0, 0);
    thread == process
}

/// Returns milliseconds of a monotonic clock.
pub(crate) fn millis() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[cfg(target_os = "linux")]
    let clock = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(target_os = "linux"))]
    let clock = libc::CLOCK_MONOTONIC;
    // SAFETY: `time` has room for the one structure the call writes.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000)
}

fn is_unsupported(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL))
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose directory was removed fails to create its next segment. On ext4, that was reported as an error of
    /// permissions.
    #[cfg(target_os = "linux")]
    #[test]
    fn creating_a_file_in_a_removed_directory_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let handle = DirectoryHandle::open(folder.path()).unwrap();
        let inside = RelativePath { folder: Some(Arc::new(handle)), path: PathBuf::from(".") };
        assert!(!inside.is_removed());
        folder.close().unwrap();
        assert!(inside.is_removed());
        // Some file systems create the file, though it can't get a name.
        unnamed(&inside, 0o644).err().inspect(|e| assert_eq!(e.kind(), io::ErrorKind::NotFound, "{e}"));
    }
}
