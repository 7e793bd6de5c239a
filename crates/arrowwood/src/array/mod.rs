//! Holds bytes and arrays, reads single values, and checks all values of an array.
//!
//! The files in reading order: `byte_order` (big-endian processors), `fetch` (bytes in an object store), `buffer`
//! (bytes, and arrays cut to rows), `unchecked` (arrays with unvalidated values), `value` (one cell, every load
//! bounded), `value_bytes` (a value as the bytes its column stores), `decimal` (decimals as the nearest floats),
//! `validate` (the checks), `checked` (turns unchecked arrays into trusted ones), `stable_copies` (arrays for kernels
//! of arrow-rs), `prefetch` (requests pages before they are read), `widen` (converts numbers to a wider type), `access`
//! (an array's values by row), `gather` (rows of several arrays as one array), `merge_dictionaries` (several
//! dictionaries as one). Uses `map`, `types` and `error`.

#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod access;
pub(crate) mod buffer;
mod byte_order;
mod checked;
mod decimal;
mod fetch;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod gather;
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) mod merge_dictionaries;
mod prefetch;
mod stable_copies;
mod unchecked;
mod validate;
mod value;
pub(crate) mod value_bytes;
mod widen;

pub use buffer::Bytes;
#[cfg(any(feature = "compute", feature = "text"))]
pub(crate) use buffer::check_memory;
#[cfg(feature = "write")]
pub(crate) use buffer::room_for_bits;
pub(crate) use buffer::{
    aligned, build_buffer, fits_one_array, has_room, keys_suffice, normalize_offsets, nulls, room_for, slice, to_array,
    touch_pages,
};
pub(crate) use byte_order::{count_ones, require_little_endian};
pub(crate) use checked::{IncrementalCheck, LazyCheckedArray, struct_from_columns};
pub use decimal::decimal_to_f64;
#[cfg(feature = "compute")]
pub(crate) use decimal::{decimal_quotient, decimal_to_f32};
pub use fetch::Fetch;
pub(crate) use fetch::ensure;
pub(crate) use prefetch::{prefetch, prefetch_text, prefetch_value};
pub(crate) use stable_copies::StableCopies;
pub(crate) use unchecked::{ArrayParts, UncheckedArray, byte_size, offset_range};
pub(crate) use validate::{check_null_counts, is_trivial};
#[cfg(feature = "collect")]
pub(crate) use value::find_run;
pub use value::{Items, Members, Value, time_zone_advice};
pub(crate) use value::{field_value, key, stored_value, value};
#[cfg(feature = "table")]
pub(crate) use widen::narrowed;
pub(crate) use widen::{is_wider, widened};
