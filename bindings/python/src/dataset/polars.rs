//! Rows as Polars takes them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{ArrowError, DataType, Fields, Schema};
use arrowwood::{Error, ErrorKind};
use pyo3::prelude::*;

use super::dataset::Dataset;
use crate::interpreter::errors::{Result, import_module};
use crate::interpreter::py_call::{call_function, guard};

#[pymethods]
impl Dataset {
    /// Convert to a Polars data frame; columns of numbers are not copied, text is. Many small batches are combined
    /// first, since Polars takes time for each.
    ///
    /// Decimals of 32 and 64 bits become those of 128, which is the only width of Polars, and times in a zone that
    /// Polars does not know, such as ``+05:30``, the same times in UTC.
    ///
    /// Raises:
    ///     Unsupported: Polars has no such columns: intervals, unions, views of lists, run-end-encoded ones, decimals
    ///         of 256 bits or with a negative scale.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        import_module(slf.py(), "polars", "to_polars()")?;
        guard(|| call_function(slf.py(), "arrowwood._engines.polars", "frame", (slf,)))
    }

    /// The same with decimals of 32 and 64 bits as those of 128, and times in `zones` as the same times in UTC.
    fn _fitted(&self, py: Python<'_>, zones: Vec<String>) -> Result<Dataset> {
        Ok(Dataset::new(py.detach(|| fitted(self.inner(), &zones))?))
    }
}

/// Returns the type that Polars has for values of `data_type`, if it is another one: decimals of 128 bits for decimals
/// of 32 and 64, and UTC for times in one of `zones`.
fn polars_type(data_type: &DataType, zones: &[String]) -> Option<DataType> {
    use DataType::{Decimal32, Decimal64, Decimal128, Timestamp};
    match data_type {
        Decimal32(precision, scale) | Decimal64(precision, scale) => Some(Decimal128(*precision, *scale)),
        Timestamp(unit, Some(zone)) if zones.iter().any(|other| **other == **zone) => {
            Some(Timestamp(*unit, Some("UTC".into())))
        }
        _ => None,
    }
}

fn polars_array(array: &ArrayRef, zones: &[String]) -> arrowwood::Result<ArrayRef> {
    let Some(data_type) = polars_type(array.data_type(), zones) else { return Ok(array.clone()) };
    let digits: Decimal128Array = match array.data_type() {
        DataType::Timestamp(..) => {
            let same = array.to_data().into_builder().data_type(data_type).build();
            return same.map(make_array).map_err(invalid_polars_columns);
        }
        DataType::Decimal32(..) => array.as_primitive::<Decimal32Type>().unary(i128::from),
        _ => array.as_primitive::<Decimal64Type>().unary(i128::from),
    };
    Ok(Arc::new(digits.with_data_type(data_type)))
}

fn invalid_polars_columns(error: ArrowError) -> Error {
    Error::new(ErrorKind::InvalidData, format!("columns for Polars: {error}"))
}

/// Returns `dataset` with the types of [`polars_type`].
fn fitted(dataset: &arrowwood::Dataset, zones: &[String]) -> arrowwood::Result<arrowwood::Dataset> {
    let fields = dataset.schema().fields().iter();
    let fields = fields.map(|field| match polars_type(field.data_type(), zones) {
        Some(data_type) => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        None => field.clone(),
    });
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), dataset.schema().metadata().clone()));
    let mut batches = Vec::new();
    for batch in dataset.to_record_batches() {
        let batch = batch?;
        let columns = batch.columns().iter().map(|array| polars_array(array, zones));
        let columns = columns.collect::<arrowwood::Result<Vec<_>>>()?;
        assert!(
            columns.iter().all(|column| column.len() == batch.num_rows()),
            "converting a column changed its length"
        );
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let fitted = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
        batches.push(fitted.map_err(invalid_polars_columns)?);
    }
    arrowwood::Dataset::from_batches(schema.clone(), batches)
}
