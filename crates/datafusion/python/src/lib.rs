//! Datasets of the Python package `arrowwood` as tables of DataFusion's: `context.register_table("ticks", aw.open("ticks"))`.
//!
//! Two libraries meet here that were built apart, and neither can use the other's Rust objects. A dataset comes as its places, which
//! are opened anew; a table goes out by DataFusion's stable interface, in a capsule.
#![deny(unsafe_code)]

mod codec;

use std::path::PathBuf;
use std::sync::Arc;

use ::arrowwood_datafusion::Table;
use arrowwood::{Dataset, FileSlice, OpenOptions, Validation, parse_type};
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion_ffi::table_provider::FFI_TableProvider;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A place as Python has it: path, first row, number of rows, columns, and those of the partition.
type PlaceParts = (PathBuf, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// Name and type of a partition's column, and its value as text.
type PartitionColumn = (String, String, Option<String>);
/// The arguments of `aw.open`: validate, copy, strict, partial.
type OpenArguments = (String, bool, bool, bool);

/// Returns the capsule of a table that has the rows at `places`, opened as `how` says. Its columns are called `names`, if they were
/// renamed. `session` is the session, or its codec, for which DataFusion asks.
#[pyfunction]
#[pyo3(signature = (session, places, how, names = None))]
fn table_provider<'py>(
    session: &Bound<'py, PyAny>,
    places: Vec<PlaceParts>,
    how: OpenArguments,
    names: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = session.py();
    let open = open_of(how)?;
    let table = py.detach(|| table_of(open, places, names)).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let codec = codec::from_session(session)?;
    // Batches are read by whoever asks for them; no runtime is needed.
    let provider = FFI_TableProvider::new_with_ffi_codec(Arc::new(table), true, None, codec);
    PyCapsule::new_with_value(py, provider, c"datafusion_table_provider")
}

fn open_of((validate, copy, strict, partial): OpenArguments) -> PyResult<OpenOptions> {
    let validate = match validate.as_str() {
        "lazy" => Validation::Lazy,
        "full" => Validation::Full,
        other => return Err(PyValueError::new_err(format!("validate must be 'lazy' or 'full', got '{other}'"))),
    };
    Ok(OpenOptions::new().validate(validate).copy(copy).strict(strict).partial(partial))
}

/// The table of the rows at `places`, and of no later ones: a session that belongs to another library doesn't say which mentions of
/// a table are of one query, so these can't agree on a newer commit.
fn table_of(open: OpenOptions, places: Vec<PlaceParts>, names: Option<Vec<String>>) -> arrowwood::Result<Table> {
    let places = places.into_iter().map(place_of).collect::<arrowwood::Result<Vec<_>>>()?;
    let rows: Dataset = open.file_slices(&places)?;
    let rows = match names {
        Some(names) => rows.with_names(&names)?,
        None => rows,
    };
    Ok(Table::new(rows)?.fixed())
}

fn place_of((path, start, rows, columns, partition): PlaceParts) -> arrowwood::Result<FileSlice> {
    let column = |(name, data_type, text): PartitionColumn| {
        Ok((FieldRef::new(Field::new(name, parse_type(&data_type)?, true)), text))
    };
    let partition = partition.into_iter().map(column).collect::<arrowwood::Result<_>>()?;
    Ok(FileSlice { path, start, rows, columns, partition })
}

/// The major version of DataFusion whose sessions take the capsules.
const DATAFUSION_VERSION: u64 = 55;

#[pymodule]
fn arrowwood_datafusion(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DATAFUSION_VERSION", DATAFUSION_VERSION)?;
    module.add_function(wrap_pyfunction!(table_provider, module)?)
}
