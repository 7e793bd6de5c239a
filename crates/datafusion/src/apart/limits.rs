//! The limits that a process for queries sets itself.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::result_budget::{UNKNOWN_BYTES, status_bytes};

/// Returns the bytes of memory of the process that are not mapped files, which the system limits; 0 where it does not
/// say.
pub(crate) fn own_data() -> u64 {
    status_bytes("VmData:").unwrap_or(UNKNOWN_BYTES)
}

/// Has the system refuse more than `bytes` of such memory. Mapped files don't count, stacks of threads that are
/// running are there already.
///
/// # Errors
/// `Io` where the system does not let it.
pub(crate) fn limit_data(bytes: u64) -> io::Result<()> {
    set(Resource::Data, bytes)
}

/// Makes the process one that the system ends before others, and without an image of its memory.
///
/// # Errors
/// `Io` where the system does not let it.
pub(crate) fn yield_to_others() -> io::Result<()> {
    // Not all systems have this; the limits do not depend on it.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    set(Resource::Core, 0)
}

fn set(resource: Resource, bytes: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(bytes, |maximum| bytes.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}
