//! What the system tells about this process.
#![allow(unsafe_code)]

use std::fs;
use std::path::PathBuf;

/// Returns true if this is the thread that the process began with, or, in a fork, the one that forked.
///
/// Returns true as well if the system doesn't tell.
pub fn is_main_thread() -> bool {
    // SAFETY: takes no argument, and does not fail.
    let thread = unsafe { libc::gettid() };
    // SAFETY: as above.
    let process = unsafe { libc::getpid() };
    thread == process
}

/// Returns milliseconds of a monotonic clock, which is read in little time.
pub fn millis() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for the one structure the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1000).wrapping_add(time.tv_nsec as u64 / 1_000_000)
}

/// Returns the bytes of memory of this process that are of no file; `None` if the system doesn't tell.
pub fn anonymous_memory() -> Option<u64> {
    size_of_status("RssAnon:")
}

/// Returns the bytes of private memory of this process other than mapped files, used or not; `None` if the system
/// doesn't tell.
pub fn data_size() -> Option<u64> {
    size_of_status("VmData:")
}

fn size_of_status(field: &str) -> Option<u64> {
    status_field(field)?.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

fn status_field(field: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(field)?.trim().to_owned()))
}

/// Returns true if this process began with the signal ignored that the end of a terminal sends (SIGHUP).
pub fn is_hangup_ignored() -> bool {
    /// The bit of SIGHUP in a mask of signals, whose lowest bit is signal 1.
    const HANGUP_BIT: u64 = 1 << (libc::SIGHUP - 1);
    let ignored = status_field("SigIgn:").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    ignored.is_some_and(|ignored| ignored & HANGUP_BIT != 0)
}

/// Returns a path by which this program can be started again, even if its file was replaced.
pub fn current_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Asks the system to end this process before others when memory runs out. A hint.
pub fn offer_to_be_killed() {
    // Some systems lack this file.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}
