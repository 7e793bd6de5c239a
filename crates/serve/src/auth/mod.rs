//! Authenticates callers, and tells what they may do.
//!
//! Read in this order: `rights` (which tables a token may read and write), `token` (the file of tokens), `access` (the
//! caller of a request, and the checks of its rights).
//!
//! It may use `http` and `ops`.

mod access;
mod rights;
mod token;

pub(crate) use access::{Access, Caller, password_of};
pub use rights::Rights;
pub(crate) use token::Tokens;
pub use token::{TokenEntry, add_token, list_tokens, revoke_token};
