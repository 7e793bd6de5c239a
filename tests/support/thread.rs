//! CPU time and scheduling state of threads, as reported by the system.
#![allow(dead_code, unsafe_code, reason = "some test programs use only one of these; a system call")]

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the CPU time of the calling thread, which unlike elapsed time doesn't depend on the load of the machine.
#[cfg(unix)]
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the one struct, which lives until it returns.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns zero, so that only elapsed time is limited.
#[cfg(not(unix))]
pub fn thread_time() -> Duration {
    Duration::ZERO
}

/// A thread of this process, as its directory in `/proc`.
#[derive(Clone, Debug)]
pub struct Thread(PathBuf);

impl Thread {
    /// Returns the calling thread.
    pub fn current() -> Thread {
        Thread(Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap()))
    }

    /// Returns true if the thread sleeps until another thread or a timer wakes it.
    ///
    /// A thread that waits for a processor or a disk isn't asleep.
    pub fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(self.0.join("stat")).unwrap();
        // The state follows the thread's name in parentheses, which may itself contain parentheses.
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }
}
