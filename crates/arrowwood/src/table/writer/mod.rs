//! A table's writer.
//!
//! In reading order: `options`, `live` (the segment that grows), `background` (what a thread does meanwhile),
//! `prepared_commit` (commits left unfinished by a killed writer), `open`, `schema_change` (permitted changes of a
//! schema), `writer`, `roll` (continuing in the next segment), `commit_segments` (commits across the end of a segment),
//! `alter` (continuing with another schema), `append_row`, `positions`, `dense` (segments that don't grow), `sort`
//! (sorting rows across segments), `compact` (merging small segments), `remove` (removing a table), `leftovers` (commits
//! that a writer has left). `live` and `background` use none of the files here. Uses `format`, `protocol` and `reader`.

// The documentation shows the methods of `Writer` in the order of these modules.
#[allow(clippy::module_inception)]
mod writer;

mod append_row;
mod positions;

mod alter;
mod compact;

mod background;
mod commit_segments;
mod dense;
#[cfg(feature = "compute")]
mod leftovers;
mod live;
mod open;
mod options;
mod prepared_commit;
mod remove;
mod roll;
mod schema_change;
mod sort;

pub(crate) use alter::{alter, altered_schema};
#[cfg(feature = "internal")]
pub use compact::compact_on;
pub use compact::{CompactOptions, compact, compact_with};
pub(crate) use dense::write_part;
pub(super) use dense::{finish_merges, with_settings};
#[cfg(feature = "compute")]
pub(crate) use leftovers::sync_leftovers;
pub use live::Durability;
pub(super) use live::{LiveSegment, encode_front};
pub(super) use open::{acquire_lock, first_segment, restore_footers, sync_segments};
pub(crate) use open::{check_new_table, refuse_remote};
pub use options::{LatePolicy, SyncPolicy, WriterOptions};
pub use positions::{NUMBERING, PROMOTED, is_replica, refuse_replica};
pub(super) use prepared_commit::finish_commit;
pub(crate) use remove::remove_table;
pub use writer::Writer;
