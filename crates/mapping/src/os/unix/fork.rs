//! Directories that this process may lock, and forks, which must not inherit the locks.
#![allow(unsafe_code)]

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

/// True if a process can lock a directory, as the one writer of a table does.
pub const CAN_LOCK_DIRECTORIES: bool = true;

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
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Releases the lock.
    pub(crate) fn unlock(&self) {
        // There is nothing to do about a failure.
        let _ = self.file.unlock();
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
/// A descriptor of a pipe, which replaces the ones of directories in forked children.
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
fn release_parent_locks() {
    let Some(placeholder) = PLACEHOLDER.get() else { return };
    let mut next = Some(&OPEN_DIRECTORIES);
    while let Some(table) = next {
        for entry in &table.entries {
            let descriptor = entry.load(Ordering::Acquire);
            if descriptor != NO_DESCRIPTOR {
                // SAFETY: takes numbers only, and is allowed between fork and exec. A `DirectoryHandle` owns the
                // descriptor, and continues to: it stays open, but refers to an object that is no directory.
                unsafe { libc::dup2(placeholder.as_raw_fd(), descriptor) };
                // SAFETY: as above. The child has one thread, which can't start a program in between.
                unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
        }
        next = table.next.get().map(Box::as_ref);
    }
}

fn open_placeholder() {
    if let Ok((placeholder, _)) = io::pipe() {
        // If there is one already, this one is closed.
        let _ = PLACEHOLDER.set(placeholder.into());
    }
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
        // SAFETY: the handler only uses atomics, dup2(2) and fcntl(2), which is allowed between fork and exec. It is
        // accepted that registering it may fail without memory: then a forked writer is not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}
