//! Arrays: bytes with an owner, one value of them, and what is checked about all values once.
//!
//! In reading order: `buffer` (bytes, and arrays cut to rows), `unchecked` (arrays whose values may be anything), `value`
//! (one cell, every load bounded), `cells` (one as the bytes that its column stores), `validate` (what is checked),
//! `checked` (the way from an unchecked array to one that is trusted), `access` (an array's values by their row), `gather`
//! (rows of several arrays as one), `merge` (of their dictionaries one). Uses `map`, `types` and `error`.

#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod access;
pub(crate) mod buffer;
pub(crate) mod cells;
mod checked;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod gather;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod merge;
mod unchecked;
mod validate;
mod value;

pub use buffer::Bytes;
pub(crate) use buffer::{aligned, filled, slice, to_array};
pub(crate) use checked::{CheckedOnce, CheckedUpTo, struct_of};
pub(crate) use unchecked::{Parts, Unchecked, bytes_of};
pub(crate) use validate::{check_null_counts, is_trivial};
pub use value::{Items, Members, Value};
pub(crate) use value::{field_value, key, value};
