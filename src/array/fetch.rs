//! [`Fetch`]: bytes that are somewhere else until they are asked for.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::blocking::{check_may_block, is_nonblocking};
use crate::error::Result;

/// Brings bytes of an object in a store into a sparse file that is mapped: see [`Bytes::from_fetch`](crate::Bytes::fetched).
///
/// Bytes of the mapping that were never brought read as zeros, so all access is by calls that ask for them first.
pub trait Fetch: Debug + Send + Sync {
    /// Returns when all bytes of `ranges` are in the mapped file. Ranges lie inside of the object, and may overlap.
    ///
    /// # Errors
    /// `FileChanged` if the object is no longer the one that was opened, `Io`, and what else the store answers. None of
    /// the bytes may be looked at then.
    fn ensure(&self, ranges: &[Range<usize>]) -> Result<()>;

    /// Whether all bytes of `ranges` are in the mapped file. Doesn't wait.
    fn has(&self, ranges: &[Range<usize>]) -> bool;

    /// Checks that nothing says that the object has changed. Asks nobody.
    ///
    /// # Errors
    /// `FileChanged`.
    fn check_unchanged(&self) -> Result<()>;
}

/// Returns when all bytes of `ranges` are there, as [`Fetch::ensure`], unless this thread must not wait.
///
/// # Errors
/// Those of [`Fetch::ensure`]; `Busy` if it would have to wait, and must not.
pub(crate) fn ensure(fetch: &Arc<dyn Fetch>, ranges: &[Range<usize>]) -> Result<()> {
    if is_nonblocking() && !fetch.has(ranges) {
        let later = fetch.clone();
        let ranges = ranges.to_vec();
        check_may_block(move || later.ensure(&ranges))?;
    }
    fetch.ensure(ranges)
}
