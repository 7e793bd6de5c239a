//! Types: the buffers of each (`layout`), and types from text (`parse`). Uses `error` and `visible` only.

pub mod layout;
mod parse;

pub(crate) use layout::{Layout, Role, layout, per_second, unit_name};
pub use layout::{field_type_name, type_name};
#[cfg(feature = "write")]
pub(crate) use layout::{list_size, number_width};
pub use parse::{parse_schema, parse_type};
