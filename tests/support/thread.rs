//! What the system knows of a thread: how long it has run, and whether it waits.
#![allow(dead_code, unsafe_code, reason = "some programs of tests use one half of it; a system call")]

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the calling thread has run: a busy machine may make anything wait.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes the one struct, which lives until it returns.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A thread of this process.
#[derive(Clone, Debug)]
pub struct Thread(PathBuf);

impl Thread {
    /// The calling one.
    pub fn current() -> Thread {
        Thread(Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap()))
    }

    /// Whether it sleeps until another thread, or the clock, wakes it. One that waits for a processor or a disk does not.
    pub fn is_asleep(&self) -> bool {
        let stat = std::fs::read_to_string(self.0.join("stat")).unwrap();
        // The state follows the name, which may contain anything.
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }
}
