//! `arrowwood._arrowwood`: the Python face of arrowwood. One noun or verb, one file; `_arrowwood.pyi` documents them
//! for users, so comments here say only what concerns this side.
//!
//! The reading order is `signals`, `errors`, `waits`, `index` (keys in brackets), `dtype`, `memory` (other objects'
//! memory, by the buffer protocol), `mapping`, `buffer` (memory that grows), `buffer_protocol` (our memory, by the
//! buffer protocol), `value` (one cell), `capsule` (Arrow capsules), `schema`, `reopen` (how a dataset was opened),
//! `column`, `dataset`, `open`, `from_arrow` (datasets from other libraries' tables), `incoming` (Python's own tables),
//! `compute`, `sort_unique` (rows in order), `engines` (SQL and splits), `byte_io` (destinations and sources of bytes),
//! `write`, `stream`, `read_text`, `append` (appended rows), `builder`, `retention` (dropping old rows), `partitions`,
//! `writer` (growing tables), `follow`, `aggregation` (of groups), `check`.

mod aggregation;
mod append;
mod buffer;
mod buffer_protocol;
mod builder;
mod byte_io;
mod capsule;
mod check;
mod column;
mod compute;
mod dataset;
mod dtype;
mod engines;
mod errors;
mod follow;
mod from_arrow;
mod incoming;
mod index;
mod loader;
mod mapping;
mod memory;
mod open;
mod partitions;
mod predicate;
mod progress;
mod py_call;
mod read_text;
mod reopen;
mod retention;
mod schema;
mod shared_writer;
mod signals;
mod sort_unique;
mod stream;
mod tensor;
mod value;
mod waits;
mod write;
mod writer;

/// Small allocations that fail would end the process.
#[global_allocator]
static ALLOCATOR: arrowwood::ReserveAllocator = arrowwood::ReserveAllocator;

/// The extension module.
#[pyo3::pymodule]
mod _arrowwood {
    use std::ffi::OsString;

    use pyo3::prelude::*;
    use pyo3::types::{PyCFunction, PyDict, PyTuple};

    use crate::dataset;

    #[pymodule_export]
    use crate::aggregation::{Aggregation, aggregation};
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::buffer_protocol::{Block, ValuesBuffer};
    #[pymodule_export]
    use crate::builder::Builder;
    #[pymodule_export]
    use crate::check::{check, repair};
    #[pymodule_export]
    use crate::column::Column;
    #[pymodule_export]
    use crate::dataset::Dataset;
    #[pymodule_export]
    use crate::follow::{Follow, follow};
    #[pymodule_export]
    use crate::from_arrow::{concat, from_arrow};
    #[pymodule_export]
    use crate::loader::BatchReader;
    #[pymodule_export]
    use crate::mapping::{Mapping, map};
    #[pymodule_export]
    use crate::open::{_open_places, open};
    #[pymodule_export]
    use crate::partitions::{PartitionedWriter, drop_partition};
    #[pymodule_export]
    use crate::predicate::{Expression, Predicate, TextConditions, TimeParts, col};
    #[pymodule_export]
    use crate::read_text::{read_csv, read_json};
    #[pymodule_export]
    use crate::schema::{Field, Schema};
    #[pymodule_export]
    use crate::stream::{StreamReader, StreamWriter, read_stream, stream_writer};
    #[pymodule_export]
    use crate::write::write;
    #[pymodule_export]
    use crate::writer::{Writer, alter, compact, writer};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Makes everything that opens a path open URLs.
    #[cfg(feature = "objects")]
    #[pymodule_init]
    #[expect(clippy::unnecessary_wraps, reason = "the signature that PyO3 asks for")]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        arrowwood_objects::install();
        arrowwood::ReserveAllocator::fill();
        crate::signals::install();
        Ok(())
    }

    /// `text` with escapes for control characters, changes of direction and invisible characters.
    #[pyfunction]
    fn _visible(text: &str) -> String {
        arrowwood::escape_hidden_lines(text).into_owned()
    }

    /// `text` with the URLs in it without passwords and signatures.
    #[pyfunction]
    fn _without_secrets(text: &str) -> String {
        arrowwood::redact_urls(text).into_owned()
    }

    /// For tests: lets it be so much later for what a writer publishes to other Arrow readers.
    #[pyfunction]
    fn _pretend_later(microseconds: u64) {
        arrowwood::simulate::simulate_elapsed(std::time::Duration::from_micros(microseconds));
    }

    /// The local path that a text names.
    #[pyfunction]
    fn _local_path(text: std::path::PathBuf) -> crate::errors::Result<std::path::PathBuf> {
        Ok(arrowwood::local_path(&text)?.unwrap_or(text))
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
            crate::py_call::attach(|py| {
                let answer = call(py).and_then(|answer| Ok(answer.cast::<dataset::Dataset>()?.get().inner().clone()));
                answer.map_err(|problem| with_notes(problem.value(py)))
            })
        }
    }

    impl arrowwood_cli::Engine for PythonEngine {
        fn sql(&self, query: &str) -> Result<arrowwood::Dataset, String> {
            PythonEngine::ask(|py| py.import("arrowwood._sql")?.call_method1("sql", (query,)))
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
                py.import("arrowwood._sql")?.call_method1("query_file", (query, path, max_rows, is_given_up))
            })
        }

        fn read_parquet(&self, path: &std::path::Path) -> Result<arrowwood::Dataset, String> {
            PythonEngine::ask(|py| py.import("arrowwood._parquet")?.call_method1("read_parquet", (path,)))
        }

        fn write_parquet(&self, dataset: &arrowwood::Dataset, path: &std::path::Path) -> Result<(), String> {
            crate::py_call::attach(|py| {
                let none: Option<u64> = None;
                let dataset = dataset::Dataset::new(dataset.clone());
                let module = py.import("arrowwood._parquet");
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
