//! Datasets: rows over one or many record batches, in place.
//!
//! In reading order: `constant` (columns with one value in all rows), `source` (the origin of rows), `dataset` (rows
//! over pieces of sources), `column`, `row`, `each_row` (rows anywhere), `index` (finding the batch of a row), `key` (the comparable form of
//! values), `order` (of a sorted column), `zone` (the smallest and largest values of a block), `memory` (arrays in
//! memory as a source), `adapter` (a source with other columns than the one it wraps), `partition` (one with constant columns),
//! `fit` (converting columns of an older schema to a newer one), `fitted` (an adapter with such columns), `same` (whether rows are the same), `pushed` (the rows of an object
//! of a store), `version` (whether files were replaced). Knows no file format; uses `array`, `types`, `parallel`, `map`,
//! `directory` and `error`.

mod adapter;
mod column;
mod constant;
#[allow(clippy::module_inception)]
mod dataset;
mod each_row;
mod fit;
mod fitted;
mod index;
mod key;
mod memory;
pub(crate) mod order;
mod partition;
mod pushed;
mod row;
mod same;
mod source;
mod version;
#[cfg(any(feature = "table", feature = "compute"))]
mod zone;

pub use column::Column;
pub(crate) use constant::ConstantColumn;
pub use dataset::Dataset;
#[cfg(any(feature = "table", feature = "write"))]
pub(crate) use dataset::schema_difference;
pub(crate) use fit::merge_schemas;
#[cfg(feature = "table")]
pub(crate) use fit::{SchemaConversion, ConvertedColumns, resolve_columns};
pub(crate) use index::BatchIndex;
pub(crate) use key::ComparableValue;
pub(crate) use partition::append_fields;
pub use pushed::PushedRows;
pub use row::Row;
pub use same::{COMPARED_ROWS, tails_equal, rows_equal};
pub use source::Footprint;
pub(crate) use source::{Batches, Facts, Files, RowLocation, Origin, BatchSlice, SourceSlice, FixedWidthValues, Source, ViewSource, ColumnWidths};
pub(crate) use version::stream_version;
#[cfg(feature = "compute")]
pub(crate) use zone::Zones;
#[cfg(any(feature = "table", feature = "compute"))]
pub(crate) use zone::{ZoneBound, Zone};
