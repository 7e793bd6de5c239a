//! What differs on big-endian processors. The arrays of this library are little-endian on each processor, as files are,
//! and are read byte by byte. Other code that gets its arrays expects the processor's order of bytes, and so does
//! arrow-rs.

use arrow_buffer::BooleanBuffer;

use crate::error::{Error, Result};

/// Refuses `action` on a big-endian processor: it exchanges arrays with other code, or isn't known to work there.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn require_little_endian(action: &str) -> Result<()> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    let processor = std::env::consts::ARCH;
    Err(Error::unsupported(format!(
        "{action} is not supported: Arrow data is little-endian, and this processor ({processor}) is big-endian; use \
         another processor"
    )))
}

/// Returns the number of ones.
pub(crate) fn count_ones(bits: &BooleanBuffer) -> usize {
    if cfg!(target_endian = "little") {
        return bits.count_set_bits();
    }
    // arrow-rs 59 cuts the first and the last word as if they were little-endian.
    bits.bit_chunks().iter_padded().map(|word| word.count_ones() as usize).sum()
}
