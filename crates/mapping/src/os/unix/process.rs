//! Limits, signals and relatives of this process.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use super::errors::check;

/// Returns the limit of file sizes for this process (`ulimit -f`). Writing beyond it raises a signal that ends the
/// process, or is an error if the signal is ignored.
pub(crate) fn file_size_limit() -> u64 {
    soft_limit(libc::RLIMIT_FSIZE)
}

/// Returns the number of files that this process may have open (`ulimit -n`); `None` if it is unlimited, or the system
/// doesn't tell.
pub fn open_files_limit() -> Option<usize> {
    let limit = soft_limit(libc::RLIMIT_NOFILE);
    if limit == libc::RLIM_INFINITY { None } else { usize::try_from(limit).ok() }
}

/// Lets this process have as many files open as the system allows, where it has only few by default.
///
/// Programs may call this, libraries should not.
#[cfg(not(target_os = "macos"))]
pub fn raise_open_files_limit() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

fn soft_limit(resource: Resource) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` has room for the one structure the call writes; if the call fails, nothing is limited.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    limit.rlim_cur
}

/// Makes growing a file beyond the process's limit (`ulimit -f`) an error instead of a signal that ends the process.
///
/// Programs may call this, libraries should not.
pub fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, the signal is only ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns the name of this machine in its network; `None` if the system doesn't tell.
pub fn host_name() -> Option<String> {
    /// More than the maximum of any system.
    const MAX_LEN: usize = 1024;
    let mut name = [0u8; MAX_LEN];
    // SAFETY: the array has as many bytes as the call is told, and lives through it.
    check(unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) }).ok()?;
    Some(CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?.to_owned())
}

/// Makes `command` start a process that does not get the signals which a terminal sends to this process.
pub fn separate_process_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Returns true if a process ended itself at once (SIGABRT), as it does if it can't allocate.
pub fn was_aborted(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGABRT)
}

/// Returns true if another process or the system ended a process, which it can't prevent (SIGKILL).
pub fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}
