//! [`Fetch`]: fetches bytes from an object store when they are first used.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::blocking::{check_may_block, is_nonblocking};
use crate::error::Result;

/// Fetches bytes of an object in a store into a sparse file that is mapped: see
/// [`Bytes::from_fetch`](crate::Bytes::from_fetch).
///
/// Bytes of the mapping that were never fetched read as zeros, so all access is by calls that fetch them first.
pub trait Fetch: Debug + Send + Sync {
    /// Waits until all bytes of `ranges` are in the mapped file.
    ///
    /// Ranges lie inside of the object, and may overlap.
    ///
    /// # Errors
    /// `FileChanged` if the object is no longer the one that was opened, `Io`, and other errors of the store. None of
    /// the bytes may be read after an error.
    fn ensure(&self, ranges: &[Range<usize>]) -> Result<()>;

    /// Returns true if all bytes of `ranges` are in the mapped file. Doesn't wait.
    fn has(&self, ranges: &[Range<usize>]) -> bool;

    /// Checks that no answer of the store so far says that the object has changed. Sends no request.
    ///
    /// # Errors
    /// `FileChanged`.
    fn check_unchanged(&self) -> Result<()>;
}

/// Waits until all bytes of `ranges` are in the mapped file, like [`Fetch::ensure`], unless this thread must not wait.
///
/// # Errors
/// The errors of [`Fetch::ensure`]; `Busy` if the thread would have to wait, and must not.
pub(crate) fn ensure(fetch: &Arc<dyn Fetch>, ranges: &[Range<usize>]) -> Result<()> {
    if is_nonblocking() && !fetch.has(ranges) {
        let later = fetch.clone();
        let ranges = ranges.to_vec();
        check_may_block(move || later.ensure(&ranges))?;
    }
    fetch.ensure(ranges)
}
