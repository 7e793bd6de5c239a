//! Datasets: rows over one or many record batches, in place.
//!
//! In reading order: `constant` (columns with one value in all rows), `source` (where rows come from), `dataset` (rows
//! over pieces of sources), `column`, `row`, `index` (which batch holds which rows), `key` (the form in which values are
//! compared), `order` (of a sorted column), `zone` (what a block's values lie between), `memory` (arrays in memory as a
//! source), `partition` (a source with constant columns), `fit` (columns of an older schema as those of a newer one), `fitted`
//! (a source so). Knows no file format; uses `array`, `types`, `parallel`, `map` and `error`.

mod column;
mod constant;
#[allow(clippy::module_inception)]
mod dataset;
mod fit;
mod fitted;
mod index;
mod key;
mod memory;
pub(crate) mod order;
mod partition;
mod row;
mod source;
#[cfg(any(feature = "table", feature = "compute"))]
mod zone;

pub use column::Column;
pub(crate) use constant::ConstantColumn;
pub use dataset::Dataset;
#[cfg(any(feature = "table", feature = "write"))]
pub(crate) use dataset::schema_difference;
pub(crate) use fit::union_of;
#[cfg(feature = "table")]
pub(crate) use fit::{Fit, FittedColumns, renewed};
pub(crate) use index::Index;
pub(crate) use key::Key;
pub(crate) use partition::with_fields;
pub use row::Row;
pub use source::Footprint;
pub(crate) use source::{Location, Origin, Part, Piece, Plain, Source, Widths};
#[cfg(feature = "compute")]
pub(crate) use zone::Zones;
#[cfg(any(feature = "table", feature = "compute"))]
pub(crate) use zone::{Bound, Zone};
