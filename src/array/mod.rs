//! Arrays: bytes with an owner, one value of them, and what is checked about all values once.
//!
//! In reading order: `buffer` (bytes, and arrays made of them), `value` (one cell, every load bounded), `cells` (one
//! as the bytes that its column stores), `validate` (whole columns), `access` (an array's values by their row), `gather`
//! (rows of several arrays as one), `merge` (of their dictionaries one). Uses `map`, `types` and `error`.

#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod access;
pub(crate) mod buffer;
pub(crate) mod cells;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod gather;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod merge;
pub(crate) mod validate;
mod value;

pub use buffer::Bytes;
pub(crate) use buffer::{Parts, aligned, bytes_of, filled, slice, to_array};
pub(crate) use validate::{check_null_counts, is_trivial};
pub use value::{Items, Members, Value};
pub(crate) use value::{field_value, key, value};
