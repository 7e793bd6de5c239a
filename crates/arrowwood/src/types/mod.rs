//! Types: the buffers of each (`layout`), and types from text (`parse`). Uses `error` and `escape` only.

pub mod layout;
mod parse;

#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) use layout::has_bits;
#[cfg(feature = "write")]
pub(crate) use layout::number_width;
pub(crate) use layout::{
    BufferRole, Layout, MAX_INLINE, MILLIS_PER_DAY, MIXED_WORDS, NANOS_PER_MILLI, VIEW_WIDTH, fixed_size,
    fixed_size_or_zero, is_ordered, is_text_or_binary, layout, per_second, unit_name,
};
pub use layout::{field_type_name, type_name};
pub use parse::{parse_schema, parse_type};
