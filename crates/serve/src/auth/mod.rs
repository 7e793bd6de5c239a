//! Authenticates callers, and tells what they may do.
//!
//! Read in this order: `rights` (which tables a token may read and write), `token` (the file of tokens), `access` (the
//! caller of a request, and the checks of its rights).
//!
//! It may use `http` and `ops`.

pub(crate) mod access;
pub(crate) mod rights;
pub(crate) mod token;
