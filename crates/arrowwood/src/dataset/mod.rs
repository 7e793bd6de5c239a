//! Datasets: rows over one or many record batches, in place.
//!
//! The modules, in reading order:
//! - `constant`: columns with one value in all rows;
//! - `source`: the origin of rows;
//! - `dataset`: rows over pieces of sources;
//! - `column`, `row`, and `iter_rows_at`, which reads scattered rows;
//! - `batch_index`: finds the batch of a row;
//! - `comparable_value`: the comparable form of values;
//! - `order`: the order of a sorted column;
//! - `zone`: the smallest and largest values of a block;
//! - `memory_source`: arrays in memory as a source;
//! - `adapter`: a source with other columns than the source that it wraps;
//! - `partition_source`: an adapter with constant columns;
//! - `schema_conversion`: converts columns of an older schema to a newer one;
//! - `converted_source`: an adapter with converted columns;
//! - `equality`: compares rows of two datasets;
//! - `pushed_rows`: the rows of an object of a store;
//! - `version`: detects replaced files.
//!
//! Knows no file format; uses `array`, `types`, `parallel`, `map`, `directory` and `error`.

// The documentation shows the methods of `Dataset` in the order of these modules.
#[allow(clippy::module_inception)]
mod dataset;

mod adapter;
mod batch_index;
mod column;
mod comparable_value;
mod constant;
mod converted_source;
mod equality;
mod iter_rows_at;
mod memory_source;
pub(crate) mod order;
mod partition_source;
mod pushed_rows;
mod row;
mod schema_conversion;
mod source;
mod version;
#[cfg(any(feature = "table", feature = "compute"))]
mod zone;

pub(crate) use batch_index::BatchIndex;
pub use column::Column;
pub(crate) use comparable_value::ComparableValue;
pub(crate) use constant::ConstantColumn;
pub use dataset::Dataset;
#[cfg(any(feature = "table", feature = "write"))]
pub(crate) use dataset::schema_difference;
pub use equality::rows_equal;
pub(crate) use partition_source::append_fields;
pub use pushed_rows::PushedRows;
pub use row::Row;
pub(crate) use schema_conversion::merge_schemas;
#[cfg(feature = "table")]
pub(crate) use schema_conversion::{ConvertedColumns, SchemaConversion, resolve_columns};
pub use source::Footprint;
pub(crate) use source::{
    BatchSlice, Batches, ColumnWidths, Facts, Files, FixedWidthValues, Origin, RowLocation, Source, SourceSlice,
    ViewSource,
};
pub(crate) use version::stream_version;
#[cfg(feature = "compute")]
pub(crate) use zone::Zones;
#[cfg(any(feature = "table", feature = "compute"))]
pub(crate) use zone::{Zone, ZoneBound};
