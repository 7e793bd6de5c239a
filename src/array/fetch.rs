//! [`Fetch`]: bytes that are somewhere else until they are asked for.

use std::fmt::Debug;
use std::ops::Range;

use crate::error::Result;

/// Brings bytes of an object in a store into a sparse file that is mapped: see [`Bytes::fetched`](crate::Bytes::fetched).
///
/// Bytes of the mapping that were never brought read as zeros, so all access is by calls that ask for them first.
pub trait Fetch: Debug + Send + Sync {
    /// Returns when all bytes of `ranges` are in the mapped file. Ranges lie inside of the object, and may overlap.
    ///
    /// # Errors
    /// `FileChanged` if the object is no longer the one that was opened, `Io`, and what else the store answers. None of
    /// the bytes may be looked at then.
    fn ensure(&self, ranges: &[Range<usize>]) -> Result<()>;

    /// Checks that nothing says that the object has changed. Asks nobody.
    ///
    /// # Errors
    /// `FileChanged`.
    fn look(&self) -> Result<()>;
}
