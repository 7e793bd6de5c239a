//! What the system tells about this process.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Returns true if this is the thread that the process began with, or, in a fork, the one that forked.
///
/// Returns true as well if the system doesn't tell.
pub fn is_main_thread() -> bool {
    // SAFETY: takes no argument.
    unsafe { libc::pthread_main_np() != 0 }
}

/// Lets this process have as many files open as the system allows without asking its administrator.
pub fn raise_open_files_limit() {
    /// The maximum that setrlimit(2) takes where more are allowed (`OPEN_MAX`).
    const MAX_OPEN_FILES: libc::rlim_t = 10_240;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has room for the one structure the call writes.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= MAX_OPEN_FILES {
        return;
    }
    limit.rlim_cur = limit.rlim_max.min(MAX_OPEN_FILES);
    // SAFETY: `limit` is only read. If the call fails, the limit stays, with which everything works, for fewer files.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// Returns milliseconds of a monotonic clock, which is read in little time.
pub fn millis() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the one structure the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW_APPROX, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000)
}

/// Returns the bytes of memory of this process that are of no file, compressed ones included; `None` if the system
/// doesn't tell.
pub fn anonymous_memory() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage_info_v0>::uninit();
    // SAFETY: takes no argument, and does not fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: `usage` has room for the one structure the call writes, which is of the named version.
    if unsafe { libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V0, usage.as_mut_ptr().cast()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has filled the structure.
    Some(unsafe { usage.assume_init() }.ri_phys_footprint)
}

/// Returns true if this process ignores the signal that the end of a terminal sends (SIGHUP).
pub fn is_hangup_ignored() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks for the current action, for which there is room.
    if unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, so it has filled the structure.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
