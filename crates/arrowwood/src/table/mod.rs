//! Tables that grow: one process appends, any number of others read, and every segment is an Arrow file all the time.
//!
//! In reading order: `format` (bytes), `placement` (their offsets), `zones` (the smallest and largest values of blocks
//! of rows), `protocol` (publishing commits to readers), `reader` (a table as its readers see it, and recovery after a
//! crash), `writer`, `check` (damage, and repair). `docs/format.md` specifies the bytes. Uses `rows`, `ipc` and the
//! modules below them.

#[cfg(feature = "check")]
mod check;
mod format;
mod placement;
mod protocol;
mod reader;
mod writer;
mod zones;

#[cfg(feature = "check")]
pub use check::RepairReport;
#[cfg(feature = "check")]
pub(crate) use check::{
    TableCheck, check_segment, check_table, damaged_path, is_table, link_aside, repair_table, sync_folder,
};
#[cfg(feature = "internal")]
pub use protocol::{publish, simulate_elapsed, simulate_rest};
#[cfg(feature = "compute")]
pub(crate) use reader::is_durable;
pub use reader::{
    FollowWaker, RecordKind, RecordStat, SegmentStat, TableFollower, TableStat, follow, sealed_rows, segment_stat,
    table_stat,
};
pub(crate) use reader::{WakeEvent, close_files, is_segment_name, is_table_directory, open_table};
#[cfg(feature = "internal")]
pub use writer::compact_on;
#[cfg(feature = "compute")]
pub(crate) use writer::sync_leftovers;
pub use writer::{
    CompactOptions, Durability, LatePolicy, NUMBERING, PROMOTED, SyncPolicy, Writer, WriterOptions, compact,
    compact_with, is_replica, refuse_replica,
};
pub(crate) use writer::{alter, altered_schema, check_new_table, refuse_remote, remove_table, write_part};
