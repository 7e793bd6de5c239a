//! Reads tables, even while they are written.
//!
//! A table is a directory of *segments*: files whose names are the numbers of their first rows. The last one is *live*,
//! which means that rows are appended to it. The others are *sealed*: their rows are final. A sealed segment is
//! *growable*, as its writer has left it, or *dense*, an ordinary Arrow file that compaction has made of one or more
//! growable ones.
//!
//! A growable segment stores a *record* for a commit: how far its buffers are filled, by the counters of
//! [`Plan`](crate::rows::Plan). It has places for two *visible* records, which are in the page cache and written
//! alternately, for two *durable* ones, and a *log* of small durable commits. As long as the page cache is there, the
//! visible record counts; after a crash of the system, the newest durable commit does.
//!
//! The files, in reading order: `segment` (one file), `recovery` (recovery after a crash), `page_cache` (whether
//! commits of this boot are there), `chain` (the segments of a table), `sealed_source` (sealed segments as a source),
//! `live` (the live one), `table` (both), `contiguous` (columns over several segments), `recount` (counters recomputed
//! from the values), `table_stat`, `segment_stat`, `waker`, `follow`, `incremental` (aggregations of growing tables).
//! Uses `format` and `protocol`.

pub(super) mod chain;
mod contiguous;
mod follow;
#[cfg(feature = "compute")]
mod incremental;
mod live;
mod page_cache;
mod page_cache_state;
mod recount;
mod recovery;
mod sealed_source;
pub(super) mod segment;
mod segment_stat;
pub(super) mod table;
mod table_stat;
mod waker;

pub(super) use chain::SegmentChain;
pub(crate) use chain::{is_segment_name, is_table_directory};
pub(crate) use follow::WakeEvent;
pub use follow::{TableFollower, follow};
pub(super) use recount::{Damage, count_nulls, end_of_list_views, members_of, offset_at, recount};
pub(super) use recovery::{
    UnsyncedMarker, check_boot_id, checksum, delta_checksum, lost_rows, open_mapping, open_newest, open_segment,
};
pub(super) use sealed_source::{dense_settings, dense_zones, without_settings};
pub(super) use segment::{Segment, check_record, damaged_record, visible};
pub use segment_stat::{RecordKind, RecordStat, SegmentStat, segment_stat};
pub(crate) use table::{close_files, open as open_table};
pub(super) use table::{converted_segment_dataset, first_row, segment_dataset};
#[cfg(feature = "compute")]
pub(crate) use table_stat::is_durable;
pub(super) use table_stat::is_locked;
pub use table_stat::{TableStat, sealed_rows, table_stat};
pub use waker::FollowWaker;
