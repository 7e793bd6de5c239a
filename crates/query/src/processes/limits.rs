//! The limits that a query process sets for itself.

use std::io;

use arrowwood::mapping::os;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::functions::UNKNOWN_BYTES;

/// Returns the data size of the process, which [`limit_data`] limits: private memory other than mapped files. Zero
/// where the system does not report it.
pub(super) fn data_bytes() -> u64 {
    os::data_size().unwrap_or(UNKNOWN_BYTES)
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
    // The limits hold without it, too.
    os::offer_to_be_killed();
    set_limit(Resource::Core, 0)
}

fn set_limit(resource: Resource, bytes: u64) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(bytes, |maximum| bytes.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}
