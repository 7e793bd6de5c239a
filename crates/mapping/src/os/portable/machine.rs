//! What is known of the machine and its memory.

use std::io;

/// Returns `None`, as boots have no ids.
pub fn boot_id_text() -> io::Result<Option<String>> {
    Ok(None)
}

/// Returns the maximum, as mappings are not limited.
pub fn max_mappings() -> usize {
    usize::MAX
}

/// Returns `None`, as it is not known.
pub fn total_memory() -> Option<u64> {
    None
}

/// Returns `None`, as there are no control groups.
pub fn memory_limit() -> Option<u64> {
    None
}

/// Returns `None`, as it is not known.
pub fn free_memory() -> Option<u64> {
    None
}
