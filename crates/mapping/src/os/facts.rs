//! What a system may tell about a file, and is told about faults.

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

/// The space of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSystemSpace {
    /// Bytes that are free for unprivileged users.
    pub available: u64,
    /// True if its files are in memory (tmpfs).
    pub is_in_memory: bool,
}

/// The functions by which a handler of faults decides. They are called on the thread that has touched a page which
/// can't be touched, at any point of its work: they may neither allocate nor wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultHandler {
    /// Replaces the pages that are lost with the one at this address. Returns false if they are not the crate's.
    pub replace_pages: fn(usize) -> bool,
    /// Returns true if the thread is inside of a guarded call.
    #[cfg_attr(windows, expect(dead_code, reason = "exceptions are not raised again"))]
    pub is_guarded: fn() -> bool,
}
