//! The limits that a query process sets for itself.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::functions::{UNKNOWN_BYTES, status_bytes};

/// Returns the data size of the process, which [`limit_data`] limits: private memory other than mapped files. Zero
/// where the system does not report it.
pub(super) fn data_bytes() -> u64 {
    status_bytes("VmData:").unwrap_or(UNKNOWN_BYTES)
}

/// Limits the data size of the process, including the stacks that threads have already.
///
/// # Errors
/// `Io` if the system refuses.
pub(super) fn limit_data(bytes: u64) -> io::Result<()> {
    set_limit(Resource::Data, bytes)
}

/// Makes the system kill this process before others when memory runs out, and write no core dump of it.
///
/// # Errors
/// `Io` if the system refuses.
pub(super) fn yield_to_others() -> io::Result<()> {
    // Some systems lack this file. The limits hold without it.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    set_limit(Resource::Core, 0)
}

fn set_limit(resource: Resource, bytes: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(bytes, |maximum| bytes.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}
