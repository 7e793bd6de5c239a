//! Makes datasets of the Python package `arrowwood` tables of the Python package `datafusion`:
//! `context.register_table("ticks", aw.open("ticks"))`.
//!
//! The two packages are built separately, so that neither can use the other's Rust objects. A dataset is passed as the
//! parts of its files, which are opened again here. A table is returned in a capsule, with DataFusion's stable
//! interface.
//!
//! A table keeps its rows. The interface doesn't pass the start of a query, so a table joined to itself could otherwise
//! be of two commits.
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

/// Rows of a file as Python passes them: path, first row, number of rows, columns, and the partition's columns.
type FileSliceTuple = (PathBuf, u64, u64, Vec<usize>, Vec<PartitionColumn>);
/// The name and the type of a partition's column, and its value as text.
type PartitionColumn = (String, String, Option<String>);
/// The arguments of `aw.open`: validate, copy, strict, partial.
type OpenArguments = (String, bool, bool, bool);

/// Returns the capsule of a table with the rows at `places`, opened with the options `how`. The columns are renamed to
/// `names`, if there are any. `session` is the session that the table is for, or its codec.
#[pyfunction]
#[pyo3(signature = (session, places, how, names = None))]
fn table_provider<'py>(
    session: &Bound<'py, PyAny>,
    places: Vec<FileSliceTuple>,
    how: OpenArguments,
    names: Option<Vec<String>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = session.py();
    let options = open_options(how)?;
    let table = py.detach(|| open_table(options, places, names)).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let codec = codec::from_session(session)?;
    // Without a runtime, as batches are read on the thread that polls them.
    let provider = FFI_TableProvider::new_with_ffi_codec(Arc::new(table), true, None, codec);
    PyCapsule::new_with_value(py, provider, c"datafusion_table_provider")
}

/// Converts the arguments of `aw.open` to options.
fn open_options((validate, copy, strict, partial): OpenArguments) -> PyResult<OpenOptions> {
    let validate = match validate.as_str() {
        "lazy" => Validation::Lazy,
        "full" => Validation::Full,
        other => return Err(PyValueError::new_err(format!("validate must be 'lazy' or 'full', got '{other}'"))),
    };
    Ok(OpenOptions::new().validate(validate).copy(copy).strict(strict).partial(partial))
}

/// Opens a table of the rows at `places`, which ignores later commits: through the stable interface, mentions of a
/// table in one query could not agree on a newer commit.
fn open_table(
    options: OpenOptions,
    places: Vec<FileSliceTuple>,
    names: Option<Vec<String>>,
) -> arrowwood::Result<Table> {
    let slices = places.into_iter().map(file_slice).collect::<arrowwood::Result<Vec<_>>>()?;
    let rows: Dataset = options.file_slices(&slices)?;
    let rows = match names {
        Some(names) => rows.with_names(&names)?,
        None => rows,
    };
    Ok(Table::new(rows)?.fixed())
}

fn file_slice((path, start, rows, columns, partition_columns): FileSliceTuple) -> arrowwood::Result<FileSlice> {
    let mut partition = Vec::with_capacity(partition_columns.len());
    for (name, data_type, text) in partition_columns {
        partition.push((FieldRef::new(Field::new(name, parse_type(&data_type)?, true)), text));
    }
    Ok(FileSlice { path, start, rows, columns, partition })
}

/// The major version of DataFusion whose sessions accept the capsules.
const DATAFUSION_VERSION: u64 = 55;

#[pymodule]
fn arrowwood_datafusion(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("DATAFUSION_VERSION", DATAFUSION_VERSION)?;
    module.add_function(wrap_pyfunction!(table_provider, module)?)
}
