//! Stores rows as columns, in files and in memory.
//!
//! In reading order: `plan` (the buffers of a schema), `arrays` (arrays over them), `entries` (dictionaries), `sink`
//! (the destination of rows), `append` (batches), `row` (one row at a time), `builder` (rows in memory), `collect` (a
//! dataset as one batch), `read_all` (a stream as one batch). Uses `ipc` and what is below it; `table` is built on it.

mod append;
pub(crate) mod arrays;
#[cfg(test)]
mod broken;
mod builder;
mod collect;
mod entries;
mod plan;
mod read_all;
mod row;
mod sink;
mod straight;

pub(crate) use append::{IncomingRows, arrays_of, is_alike, member_numbers};
pub use builder::Builder;
pub(crate) use entries::Entries;
pub(crate) use plan::{ALIGNMENT, Extent, Plan, PlanDictionary, PlanNode, Region, Storage};
pub(crate) use row::{check_values, find_keys, has_room, put_row, row_needs};
pub(crate) use sink::{Mark, RowSink};
