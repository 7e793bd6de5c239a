//! A table's writer.
//!
//! In reading order: `growing` (a segment as its writer holds it), `background` (the writer's thread), `writer`,
//! `append_row`, `positions`, `compact` (small segments into one). Uses `format`, `protocol` and `reader` of the table's rooms.

mod append_row;
mod background;
mod compact;
mod growing;
mod positions;
#[allow(clippy::module_inception)]
mod writer;

pub use background::Durability;
pub(super) use compact::with_settings;
pub(crate) use compact::write_part;
pub use compact::{compact, compact_on};
pub(super) use growing::{Growing, front_of};
pub use writer::{Sync, Writer, WriterOptions};
pub(super) use writer::{first_segment, take_lock};
