//! Stores rows as columns, in files and in memory.
//!
//! In reading order: `plan` (the buffers of a schema), `arrays` (arrays over them), `block` (some rows of a column, read back), `entries` and `keys` (dictionaries), `sink`
//! (the destination of rows), `decoded` (values of runs and dictionaries), `straight` and `children` (which rows of children belong to which rows), `append` (batches), `row` (one row at a time), `builder` (rows in memory), `collect` (a
//! dataset as one batch), `read_all` (a stream as one batch). Uses `ipc` and what is below it; `table` is built on it.

mod append;
pub(crate) mod arrays;
mod block;
#[cfg(test)]
mod broken;
mod builder;
mod children;
mod collect;
mod decoded;
mod entries;
mod keys;
mod plan;
mod read_all;
mod row;
mod sink;
mod straight;

pub(crate) use append::{IncomingRows, batch_arrays, is_appendable_type};
pub(crate) use block::read_rows;
pub use builder::DatasetBuilder;
pub(crate) use children::member_numbers;
pub(crate) use entries::DictionaryEntries;
pub(crate) use plan::{
    ALIGNMENT, BufferGrowth, Extent, MOST_COUNTED, Plan, PlanDictionary, PlanNode, PlanZones, Region, Storage, ZONE,
    ZoneMap, supports_zones,
};
pub(crate) use row::{check_values, intern_keys, has_room, put_row, row_counters};
pub(crate) use sink::{FillState, RowSink};
