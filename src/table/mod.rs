//! Tables that grow: one process appends, any number of others read, and every segment is an Arrow file all the time.
//!
//! In reading order: `format` (bytes), `placement` (where they stand), `zones` (what blocks of rows lie between), `protocol` (how a commit gets to its readers), `reader` (a table as its readers
//! see it, and what survives a crash), `writer`, `check` (all of a table, and what can be kept). `docs/format.md` has the
//! bytes. Uses `rows`, `ipc` and what is below them.

#[cfg(feature = "check")]
mod check;
mod format;
mod placement;
mod protocol;
mod reader;
mod writer;
mod zones;

#[cfg(feature = "check")]
pub use check::Repaired;
#[cfg(feature = "check")]
pub(crate) use check::{
    TableCheck, beside, check_segment, check_table, is_table, keep_aside, repair_table, sync_folder,
};
pub use protocol::publish;
pub use reader::{Follow, RecordPlace, RecordStat, SegmentStat, TableStat, follow, segment_stat, table_stat};
pub(crate) use reader::{WakeUp, close_files, holds_table, is_segment_name, open_table};
pub(crate) use writer::alter;
pub use writer::{Compaction, Durability, Late, Sync, Writer, WriterOptions, compact, compact_on, compact_with};
pub(crate) use writer::{remove_table, write_part};
