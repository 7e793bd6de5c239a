//! A table's writer.
//!
//! In reading order: `options`, `growing` (a segment as its writer holds it), `ahead` (the next one), `turns` (the background
//! thread of all writers), `background` (what it does for one), `prepared` (commits that a killed writer has left half made), `opening`, `change` (what may change of a schema), `writer`, `alter`
//! (goes on with another schema), `append_row`, `positions`, `dense` (segments that don't grow), `sort` (rows in order, across segments), `compact`
//! (small segments into one). Uses `format`, `protocol` and `reader` of the table's rooms.

mod ahead;
mod alter;
mod append_row;
mod background;
mod change;
mod compact;
mod dense;
mod growing;
mod opening;
mod options;
mod positions;
mod prepared;
mod remove;
mod sort;
mod turns;
#[allow(clippy::module_inception)]
mod writer;

pub(crate) use alter::alter;
pub use background::Durability;
pub use compact::{Compaction, compact, compact_on, compact_with};
pub(super) use dense::with_settings;
pub(crate) use dense::write_part;
pub(super) use growing::{Growing, front_of};
pub(super) use opening::{first_segment, take_lock};
pub use options::{Late, Sync, WriterOptions};
pub(crate) use remove::remove_table;
pub use writer::Writer;
