//! Datasets out of other libraries' tables: `from_arrow`, `concat`.

use pyo3::intern;
use pyo3::prelude::*;

use crate::dataset::dataset::Dataset;
use crate::exchange::capsule;
use crate::interpreter::errors::{Result, type_error};
use crate::interpreter::py_call::CallPy;

/// A dataset of the batches of any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, without copying.
///
/// A stream is read to its end. Arrays that are not structs, such as a chunked array, a series or a single array,
/// become a dataset with the one column ``values``. A ``Dataset`` of Hugging Face keeps its order, over its mapped
/// files. The producer vouches for the values.
///
/// Raises:
///     InvalidArgument: the producer fails, its data was exported before, or whole rows are null.
#[pyfunction]
pub fn from_arrow(data: &Bound<'_, PyAny>) -> Result<Dataset> {
    extract_dataset(data).map(Dataset::new)
}

/// Returns the dataset `data`, or the dataset that `data` exports.
pub fn extract_dataset(data: &Bound<'_, PyAny>) -> Result<arrowwood::Dataset> {
    if let Ok(dataset) = data.cast::<Dataset>() {
        return Ok(dataset.get().inner().clone());
    }
    if let Some(dataset) = capsule::import_dataset(data)? {
        return Ok(dataset);
    }
    let wrapped = data.py().import("arrowwood._incoming")?.getattr("hugging_face")?.call_py((data,))?;
    if let Ok(dataset) = wrapped.cast::<Dataset>() {
        return Ok(dataset.get().inner().clone());
    }
    let got = data.get_type().name()?;
    let is_lazy = data.hasattr("collect")?;
    let way_out = if is_lazy { "; its rows are those of its method collect()" } else { "" };
    Err(type_error(format!("expected an object with __arrow_c_stream__ or __arrow_c_array__, got {got}{way_out}")))
}

/// Returns true if [`extract_dataset`] takes `data`.
pub fn exports_arrow(data: &Bound<'_, PyAny>) -> Result<bool> {
    let py = data.py();
    Ok(data.is_instance_of::<Dataset>()
        || data.getattr_opt(intern!(py, "__arrow_c_stream__"))?.is_some()
        || data.getattr_opt(intern!(py, "__arrow_c_array__"))?.is_some())
}

/// Concatenate the rows of all `datasets`, without copying.
///
/// Raises:
///     SchemaMismatch: names or types of columns differ; the message has the first difference.
///     InvalidArgument: `datasets` is empty.
#[pyfunction]
pub fn concat(datasets: Vec<Bound<'_, PyAny>>) -> Result<Dataset> {
    let parts = datasets.iter().map(extract_dataset).collect::<Result<Vec<_>>>()?;
    Ok(Dataset::new(arrowwood::Dataset::concat(&parts)?))
}
