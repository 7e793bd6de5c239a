//! A table as its readers see it.
//!
//! In reading order: `segment` (one file), `durable` (recovery after a crash), `page_cache` (whether
//! commits of this boot are there), `chain` (the segments of a table),
//! `history` (sealed segments as a source), `live` (the live one), `table` (both), `contiguous` (columns over several segments),
//! `stat`, `segment_stat`, `waker`, `follow`, `incremental` (aggregations of growing tables). Uses `format` and `protocol`.

pub(super) mod chain;
mod contiguous;
mod durable;
mod follow;
mod history;
#[cfg(feature = "compute")]
mod incremental;
mod live;
mod page_cache;
mod recount;
pub(super) mod segment;
mod segment_stat;
mod stat;
pub(super) mod table;
mod waker;

pub(super) use chain::SegmentChain;
pub(crate) use chain::{is_table_directory, is_segment_name};
pub(super) use durable::{UnsyncedMarker, check_boot_id, checksum, delta_checksum, lost_rows, open_mapping, open_newest, open_segment};
pub(crate) use follow::WakeEvent;
pub use follow::{TableFollower, follow};
pub(super) use history::{dense_zones, dense_settings, without_settings};
pub(super) use recount::{Damage, count_nulls, end_of_list_views, members_of, offset_at, recount};
pub(super) use segment::{Segment, check_record, damaged_record, visible};
pub use segment_stat::{RecordKind, RecordStat, SegmentStat, segment_stat};
pub(super) use stat::is_locked;
#[cfg(feature = "compute")]
pub(crate) use stat::is_durable;
pub use stat::{TableStat, sealed_rows, table_stat};
pub(crate) use table::{close_files, open as open_table};
pub(super) use table::{first_row, converted_segment_dataset, segment_dataset};
pub use waker::FollowWaker;
