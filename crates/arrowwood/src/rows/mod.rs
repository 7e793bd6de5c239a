//! Stores rows as columns, in files and in memory.
//!
//! A [`Plan`] numbers the buffers of a schema. Rows go into these buffers through a [`RowSink`], which is a segment's
//! file or memory, and [`arrays`] makes arrays over them. A [`FillState`] counts how far the buffers are filled: rows
//! exist once they are counted, so bytes after that are never seen.
//!
//! The modules, in reading order: `plan` (the buffers of a schema), `arrays` (arrays over them), `read_rows` (some rows
//! of a column, read back), `dictionary_entries` and `dictionary_keys` (dictionaries), `sink` (the destination of
//! rows), `decode` (values of runs and dictionaries), `normalize` and `children` (which rows of children belong to
//! which rows), `append` (batches), `append_row` (one row at a time), `builder` (rows in memory), `collect` (a dataset
//! as one batch), `read_all` (a stream as one batch). Uses `ipc` and what is below it; `table` is built on it.

mod append;
mod append_row;
pub(crate) mod arrays;
mod builder;
mod children;
mod collect;
mod decode;
mod dictionary_entries;
mod dictionary_keys;
#[cfg(test)]
mod fault_injection;
mod normalize;
mod plan;
mod read_all;
mod read_rows;
mod sink;

pub(crate) use append::{IncomingRows, batch_arrays, is_appendable_type};
pub(crate) use append_row::{check_values, has_room, intern_keys, put_row, row_counters};
pub use builder::DatasetBuilder;
pub(crate) use children::member_numbers;
pub(crate) use dictionary_entries::DictionaryEntries;
pub(crate) use plan::{
    ALIGNMENT, BufferGrowth, Extent, MOST_COUNTED, Plan, PlanDictionary, PlanNode, PlanZones, ROWS, Region, Storage,
    ZONE, ZoneMap, supports_zones,
};
pub(crate) use read_rows::read_rows;
pub(crate) use sink::{FillState, RowSink};
