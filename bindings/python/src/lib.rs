//! `arrowwood._arrowwood`: the Python face of arrowwood. One noun or verb, one file; `_arrowwood.pyi` documents them
//! for users, so comments here say only what concerns this side.
//!
//! The rooms, in reading order: each uses only earlier ones.
//! - `interpreter`: calls of Python code, signals, exceptions, progress;
//! - `arguments`: keys, numbers and names that Python gives;
//! - `exchange`: memory and Arrow data shared with other code;
//! - `types`: schemas;
//! - `convert`: values and columns between Python and Arrow;
//! - `dataset`: datasets and their columns;
//! - `incoming`: datasets made of other tables, and of rows;
//! - `io`: files, streams and text;
//! - `table`: growing tables.

mod arguments;
mod convert;
mod dataset;
mod exchange;
mod incoming;
mod interpreter;
mod io;
mod table;
mod types;

/// Small allocations that fail would end the process.
#[global_allocator]
static ALLOCATOR: arrowwood::mapping::ReserveAllocator = arrowwood::mapping::ReserveAllocator;

/// The extension module.
#[pyo3::pymodule]
mod _arrowwood {
    use std::ffi::OsString;

    use pyo3::prelude::*;
    use pyo3::types::{PyCFunction, PyDict, PyTuple};

    use crate::dataset::dataset;

    #[pymodule_export]
    use crate::dataset::column::Column;
    #[pymodule_export]
    use crate::dataset::dataset::Dataset;
    #[pymodule_export]
    use crate::dataset::loader::BatchReader;
    #[pymodule_export]
    use crate::dataset::predicate::{Expression, Predicate, TextConditions, TimeParts, col};
    #[pymodule_export]
    use crate::exchange::buffer::Buffer;
    #[pymodule_export]
    use crate::exchange::buffer_protocol::{Block, ValuesBuffer};
    #[pymodule_export]
    use crate::exchange::mapping::{Mapping, map};
    #[pymodule_export]
    use crate::incoming::builder::Builder;
    #[pymodule_export]
    use crate::incoming::from_arrow::{concat, from_arrow};
    #[pymodule_export]
    use crate::io::check::{check, repair};
    #[pymodule_export]
    use crate::io::open::{_open_places, open};
    #[pymodule_export]
    use crate::io::read_text::{read_csv, read_json};
    #[pymodule_export]
    use crate::io::stream::{StreamReader, StreamWriter, read_stream, stream_writer};
    #[pymodule_export]
    use crate::io::write::write;
    #[pymodule_export]
    use crate::table::aggregation::{Aggregation, aggregation};
    #[pymodule_export]
    use crate::table::follow::{Follow, follow};
    #[pymodule_export]
    use crate::table::partitions::{PartitionedWriter, drop_partition};
    #[pymodule_export]
    use crate::table::writer::{Writer, alter, compact, writer};
    #[pymodule_export]
    use crate::types::schema::{Field, Schema};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Makes everything that opens a path open URLs.
    #[cfg(feature = "objects")]
    #[pymodule_init]
    #[expect(clippy::unnecessary_wraps, reason = "the signature that PyO3 asks for")]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        arrowwood_objects::install();
        arrowwood::mapping::ReserveAllocator::fill();
        crate::interpreter::signals::install();
        Ok(())
    }

    /// `text` with escapes for control characters, changes of direction and invisible characters.
    #[pyfunction]
    fn _visible(text: &str) -> String {
        arrowwood::readable::escape_hidden_lines(text).into_owned()
    }

    /// `text` with the URLs in it without passwords and signatures.
    #[pyfunction]
    fn _without_secrets(text: &str) -> String {
        arrowwood::readable::redact_urls(text).into_owned()
    }

    /// The local path that a text names.
    #[pyfunction]
    fn _local_path(text: std::path::PathBuf) -> crate::interpreter::errors::Result<std::path::PathBuf> {
        Ok(arrowwood::local_path(&text)?.unwrap_or(text))
    }

    /// Text that identifies a file across machines, as the server tells it.
    #[pyfunction]
    fn _place_of(path: std::path::PathBuf) -> Option<String> {
        arrowwood::mapping::os::place_of(&path).ok()
    }

    /// Returns the message of an exception, and the notes added to it.
    fn with_notes(problem: &Bound<'_, PyAny>) -> String {
        let notes = problem.getattr("__notes__").and_then(|notes| notes.extract::<Vec<String>>());
        // Most exceptions have no notes.
        std::iter::once(problem.to_string()).chain(notes.into_iter().flatten()).collect::<Vec<_>>().join(" ")
    }

    /// The parts of the package used by the command: `sql`, `read_parquet` and `write`.
    struct PythonEngine;

    impl PythonEngine {
        /// Calls a function of the package that returns a dataset.
        fn ask(call: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyAny>>) -> Result<arrowwood::Dataset, String> {
            crate::interpreter::py_call::attach(|py| {
                let answer = call(py).and_then(|answer| Ok(answer.cast::<dataset::Dataset>()?.get().inner().clone()));
                answer.map_err(|problem| with_notes(problem.value(py)))
            })
        }
    }

    impl arrowwood_cli::Engine for PythonEngine {
        fn name(&self) -> String {
            "DuckDB".to_owned()
        }

        fn sql(&self, query: &str) -> Result<arrowwood::Dataset, String> {
            PythonEngine::ask(|py| py.import("arrowwood._engines.duckdb")?.call_method1("sql", (query,)))
        }

        fn sql_on_path(
            &self,
            query: &str,
            path: &std::path::Path,
            max_rows: u64,
            given_up: &std::sync::Arc<std::sync::atomic::AtomicBool>,
        ) -> Result<arrowwood::Dataset, String> {
            let given_up = given_up.clone();
            PythonEngine::ask(|py| {
                let is_given_up = PyCFunction::new_closure(
                    py,
                    None,
                    None,
                    move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                        given_up.load(std::sync::atomic::Ordering::Relaxed)
                    },
                )?;
                py.import("arrowwood._engines.duckdb")?.call_method1("query_file", (query, path, max_rows, is_given_up))
            })
        }

        fn read_parquet(&self, path: &std::path::Path) -> Result<arrowwood::Dataset, String> {
            PythonEngine::ask(|py| py.import("arrowwood._engines.parquet")?.call_method1("read_parquet", (path,)))
        }

        fn write_parquet(&self, dataset: &arrowwood::Dataset, path: &std::path::Path) -> Result<(), String> {
            crate::interpreter::py_call::attach(|py| {
                let none: Option<u64> = None;
                let dataset = dataset::Dataset::new(dataset.clone());
                let module = py.import("arrowwood._engines.parquet");
                let written = module.and_then(|module| module.call_method1("write", (dataset, path, none, none)));
                written.map(drop).map_err(|problem| problem.value(py).to_string())
            })
        }
    }

    /// Run the command line; the exit code.
    #[pyfunction]
    fn _run_cli(py: Python<'_>, arguments: Vec<OsString>) -> i32 {
        py.detach(|| arrowwood_cli::run_with(arguments, Some(&PythonEngine)))
    }
}
