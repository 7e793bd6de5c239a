//! A table's writer.
//!
//! In reading order: `options`, `proof_base` (the commit since which others are proven), `live_file` (makes commits
//! durable), `segment_layout` (the front and header of a new file), `resume_segment` (recovery of a segment to be
//! continued), `region_space` (allocation), `commit_writer` (makes commits visible), `live_segment` (all of these: a
//! segment for its writer), `resting` (sealed segments whose footers may be in use), `durability` (makes commits
//! across segments durable), `next_segment` (a segment created ahead), `scheduler` (the background thread of all
//! writers), `background` (its work for one writer), `prepared_commit` (commits left unfinished by a killed writer),
//! `open`, `schema_change` (permitted changes of a schema), `writer`, `roll` (continuing in the next segment),
//! `commit_segments` (commits across the end of a segment), `alter` (continuing with another schema), `append_row`,
//! `positions`, `dense` (segments that don't grow), `sort` (sorting rows across segments), `compact` (merging small
//! segments). Uses `format`, `protocol` and `reader`.

mod alter;
mod append_row;
mod background;
mod commit_segments;
mod commit_writer;
mod compact;
mod dense;
mod durability;
#[cfg(feature = "compute")]
mod leftovers;
mod live_file;
mod live_segment;
mod next_segment;
mod open;
mod options;
mod positions;
mod prepared_commit;
mod proof_base;
mod region_space;
mod remove;
mod resting;
mod resume_segment;
mod roll;
mod scheduler;
mod schema_change;
mod segment_layout;
mod sort;
#[allow(clippy::module_inception)]
mod writer;

pub(crate) use alter::{alter, altered_schema};
pub use compact::{CompactOptions, compact, compact_on, compact_with};
pub(crate) use dense::write_part;
pub(super) use dense::{finish_merges, with_settings};
pub use durability::Durability;
#[cfg(feature = "compute")]
pub(crate) use leftovers::sync_leftovers;
pub(super) use live_segment::LiveSegment;
pub(super) use open::{acquire_lock, first_segment, restore_footers, sync_segments};
pub use options::{LatePolicy, SyncPolicy, WriterOptions};
pub use positions::{NUMBERING, PROMOTED, REPLICA, is_replica};
pub(super) use prepared_commit::finish_commit;
pub(crate) use remove::remove_table;
pub(super) use segment_layout::encode_front;
pub use writer::Writer;
