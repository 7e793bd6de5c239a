//! Limits and relatives of this process.
#![allow(unsafe_code)]

use std::os::windows::process::CommandExt;
use std::process::{Command, ExitStatus};

use windows_sys::Win32::Foundation::STATUS_STACK_BUFFER_OVERRUN;
use windows_sys::Win32::System::SystemInformation::{ComputerNameDnsHostname, GetComputerNameExW};
use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;

use super::errors::check;

/// Returns the maximum, as sizes of files are not limited.
pub(crate) fn file_size_limit() -> u64 {
    u64::MAX
}

/// Returns `None`, as open files are not limited.
pub fn open_files_limit() -> Option<usize> {
    None
}

/// Does nothing, as open files are not limited.
pub fn raise_open_files_limit() {}

/// Does nothing, as there is no such signal.
pub fn ignore_file_size_signal() {}

/// Returns the name of this machine in its network; `None` if the system doesn't tell.
pub fn host_name() -> Option<String> {
    /// More than the maximum.
    const MAX_LEN: usize = 1024;
    let mut name = [0u16; MAX_LEN];
    let mut len = MAX_LEN as u32;
    // SAFETY: the array has as many words as the call is told, and lives through it.
    check(unsafe { GetComputerNameExW(ComputerNameDnsHostname, name.as_mut_ptr(), &raw mut len) }).ok()?;
    String::from_utf16(name.get(..len as usize)?).ok()
}

/// Makes `command` start a process that does not get the signals which a terminal sends to this process.
pub fn separate_process_group(command: &mut Command) -> &mut Command {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP)
}

/// Returns true if a process ended itself at once, as it does if it can't allocate.
pub fn was_aborted(status: ExitStatus) -> bool {
    // The status by which Rust's programs end at once, whatever the reason.
    status.code() == Some(STATUS_STACK_BUFFER_OVERRUN)
}

/// Returns false, as the status is what the other process has chosen.
pub fn was_killed(_status: ExitStatus) -> bool {
    false
}
