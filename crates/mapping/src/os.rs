//! System calls on files and directories for one writer, each wrapped once.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Allocates blocks for the bytes `offset .. offset + len` of `file`, so that a store through a mapping can't fail for
/// want of space. Returns false if the file system has no such call. A failed call releases what it has allocated.
pub(crate) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    match fallocate(file, KEEP_SIZE, offset, len) {
        Ok(()) => Ok(true),
        Err(e) if is_unsupported(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Writes `bytes` at `offset` and syncs them to the disk (pwritev2(2), `RWF_DSYNC`): only those pages, not other writes
/// to the file. Syncs the whole file if the system has no such call.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let part = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let at = libc::off_t::try_from(offset + done as u64).map_err(|_| too_large())?;
        // SAFETY: the one part is `rest`, which outlives the call and is only read by it.
        let written = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const part, 1, at, libc::RWF_DSYNC) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => (),
                e if is_unsupported(&e) => return write_and_sync(file, at as u64, rest),
                e => return Err(e),
            },
        }
    }
    Ok(())
}

/// Syncs the whole file: this system can't sync a part.
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

#[cfg(target_os = "linux")]
const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
#[cfg(target_os = "linux")]
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE;
#[cfg(not(target_os = "linux"))]
const KEEP_SIZE: i32 = 1;
#[cfg(not(target_os = "linux"))]
const PUNCH_HOLE: i32 = 2;

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

/// Creates a file without a name, with these permissions, in the directory `folder`. `None` if the file system has no
/// such files.
#[cfg(target_os = "linux")]
pub(crate) fn unnamed(folder: &Path, mode: u32) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;
    let options = File::options().read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE).open(folder);
    match options {
        Ok(file) => Ok(Some(file)),
        Err(e) if is_unsupported(&e) || e.raw_os_error() == Some(libc::EISDIR) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn unnamed(_folder: &Path, _mode: u32) -> io::Result<Option<File>> {
    Ok(None)
}

/// Names a file that has no name `path`, atomically.
pub(crate) fn name(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both paths are strings that end in zero and live through the call.
    check(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) })
}

/// Exchanges two names, atomically.
#[cfg(target_os = "linux")]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // Not every C library has that function.
    // SAFETY: both paths are strings that end in zero and live through the call.
    let done =
        unsafe { libc::syscall(libc::SYS_renameat2, here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the limit of file sizes for this process (`ulimit -f`). Writing beyond it raises a signal that ends the
/// process, or is an error if the signal is ignored.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` has room for the one structure the call writes; where it fails nothing is limited.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Returns the error of a file beyond the limit.
pub(crate) fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

/// Makes growing a file beyond the process's limit (`ulimit -f`) an error instead of a signal that ends the process.
/// For programs, not for libraries.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, the signal is only ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Locks `file` for as long as it stays open (flock(2)). Returns false if another process has the lock.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: takes numbers only; the descriptor is open as long as `file` lives.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Releases the lock of `file`, even if forked children share it.
pub(crate) fn unlock(file: &File) {
    // SAFETY: takes numbers only; the descriptor is open as long as `file` lives. There is nothing to do about a
    // failure.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Returns the kind of file system of `folder` if mappings on several machines are inconsistent there.
///
/// # Errors
/// Those of the system, such as `NotFound`.
#[cfg(target_os = "linux")]
pub fn remote(folder: &Path) -> io::Result<Option<&'static str>> {
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
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in zero, and `found` has room for the one structure the call writes.
    check(unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) })?;
    // SAFETY: statfs(2) has succeeded, so it has filled the structure.
    let kind = unsafe { found.assume_init() }.f_type as u32;
    Ok(REMOTE.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

#[cfg(not(target_os = "linux"))]
pub fn remote(_folder: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Waits for names to be added to or removed from directories (inotify(7)).
#[derive(Debug)]
pub(crate) struct NameWatch {
    events: OwnedFd,
    end: OwnedFd,
}

#[cfg(target_os = "linux")]
impl NameWatch {
    /// A watch of no directory.
    pub(crate) fn new() -> io::Result<NameWatch> {
        // SAFETY: takes numbers only.
        let events = owned(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
        // SAFETY: takes numbers only.
        let end = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        Ok(NameWatch { events, end })
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

    /// Returns true when names were added or removed, and false after [`NameWatch::end`].
    pub(crate) fn wait(&self) -> bool {
        let poll = |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut list = [poll(&self.events), poll(&self.end)];
        loop {
            // SAFETY: the list has two structures, which the call writes to.
            let answer = unsafe { libc::poll(list.as_mut_ptr(), 2, -1) };
            let is_interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if answer >= 0 || !is_interrupted {
                return list[1].revents == 0;
            }
        }
    }

    /// Ends the wait.
    pub(crate) fn end(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: 8 bytes that live through the call; the descriptor is open as long as `self` lives. It takes them: there
        // is room for 2⁶⁴ - 2 such calls.
        unsafe { libc::write(self.end.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

#[cfg(target_os = "linux")]
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just opened it for the caller, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(not(target_os = "linux"))]
impl NameWatch {
    pub(crate) fn new() -> io::Result<NameWatch> {
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

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of forks between the first caller and this process: a writer belongs to the process that made it.
#[inline]
pub fn forks() -> u64 {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed between fork and exec. That registering it may
        // fail for want of memory is accepted: then a forked writer is not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
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

fn check(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
