//! A table's writer.
//!
//! In reading order: `options`, `base` (what commits are proven since), `durability` (what of a segment is durable),
//! `growing` (a segment for its writer), `ahead` (the next one), `turns` (the background thread of all writers),
//! `background` (its work for one writer), `prepared` (commits left unfinished by a killed writer), `opening`, `change` (permitted changes of a schema), `writer`, `alter` (continuing with another schema),
//! `append_row`, `positions`, `dense` (segments that don't grow), `sort` (sorting rows across segments), `compact`
//! (merging small segments). Uses `format`, `protocol` and `reader`.

mod ahead;
mod alter;
mod append_row;
mod background;
mod base;
mod change;
mod compact;
mod dense;
mod durability;
mod growing;
#[cfg(feature = "compute")]
mod left;
mod opening;
mod options;
mod positions;
mod prepared;
mod remove;
mod sort;
mod turns;
#[allow(clippy::module_inception)]
mod writer;

pub(crate) use alter::{alter, altered_schema};
pub use background::Durability;
pub use compact::{CompactOptions, compact, compact_on, compact_with};
pub(crate) use dense::write_part;
pub(super) use dense::{finish_merges, with_settings};
pub(super) use growing::{LiveSegment, encode_front};
#[cfg(feature = "compute")]
pub(crate) use left::sync_leftovers;
pub(super) use opening::{sync_segments, first_segment, restore_footers, acquire_lock};
pub use options::{LatePolicy, SyncPolicy, WriterOptions};
pub use positions::{NUMBERING, PROMOTED, REPLICA, is_replica};
pub(super) use prepared::finish_commit;
pub(crate) use remove::remove_table;
pub use writer::Writer;
