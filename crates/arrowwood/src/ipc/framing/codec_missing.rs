//! Replaces `codec` in builds without the feature `compression`: every call is an error that names it.

use std::io;

use super::message::Compression;
use crate::error::{Error, Result};

/// Returns the error that names the missing feature.
///
/// # Errors
/// `Unsupported`, always.
pub(super) fn expect(codec: Compression) -> Result<()> {
    Err(Error::missing_feature(&format!("{} compression", codec.name()), "compression"))
}

/// Never reached: [`expect`] fails before.
pub(super) fn decompress(_: &[u8], _: Compression, _: &mut [u8], _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never reached: [`expect`] fails before.
pub(super) fn compress(_: &[u8], _: Compression, _: &mut Vec<u8>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
