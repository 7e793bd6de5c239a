//! Tables that grow: one process appends, any number of others read, and every segment is an Arrow file all the time.
//!
//! In reading order: `format` (bytes), `plan` (which buffers a schema has), `arrays` (made of them), `place` (where rows are put), `publish` (how a
//! commit gets to its readers), `face` (what stock readers see), `segment`
//! (a segment as its readers hold it), `durable` (what survives a crash), `entries` (dictionaries), `growing` (a segment
//! as its writer holds it), `append`, `cells` (a value as bytes), `builder` (rows in memory), `collect`, `arrive` (streams as one batch), `sorted`, `folder`, `table` (a table as its readers see
//! it), `stat`, `contiguous` (columns over several segments), `follow`, `keeper` (the writer's thread), `writer`, `rows`
//! (one row at a time), `compact`, `shown` (the face, read back), `check`, `repair`. `docs/format.md` has the bytes.

mod append;
mod arrays;
mod arrive;
mod builder;
mod cells;
mod check;
mod collect;
mod compact;
mod contiguous;
mod durable;
mod entries;
mod face;
mod folder;
mod follow;
mod format;
mod growing;
mod keeper;
mod place;
mod plan;
pub mod publish;
mod repair;
mod rows;
mod segment;
mod shown;
mod sorted;
mod stat;
#[allow(clippy::module_inception)]
mod table;
mod writer;

pub use builder::Builder;
pub(crate) use check::{TableCheck, check_segment, check_table, is_table};
pub(crate) use compact::write_part;
pub use compact::{compact, compact_on};
pub use follow::{Follow, follow};
pub use repair::Repaired;
pub(crate) use repair::{beside, keep_aside, repair_table, sync_folder};
pub use stat::{TableStat, table_stat};
pub(crate) use table::open as open_table;
pub use writer::{Sync, Writer, WriterOptions};
