//! `stream_writer` and `read_stream`: record batches through files, pipes, sockets and memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use arrowwood::{Compression, Error, ErrorKind, Open, guard};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::errors::{Failure, Problem, Result};
use crate::exchange::schema_of;
use crate::incoming::dataset_from;
use crate::memory::bytes_of;
use crate::open::path_of;
use crate::schema::Schema;
use crate::sink::{Sink, Source, open_pipe};
use crate::write::codec;

/// Writes an Arrow stream; made by :func:`stream_writer`. As a context manager it ends the stream, except after an
/// exception, so that the reader sees that it is incomplete.
#[pyclass(frozen, module = "arrowwood")]
pub struct StreamWriter {
    state: Mutex<State>,
    schema: Mutex<Option<SchemaRef>>,
    compression: Option<Compression>,
    problem: Problem,
}

enum State {
    /// Nothing was sent: the schema is that of the first rows.
    New(Sink),
    Begun(Box<arrowwood::StreamWriter<Sink>>),
    Closed,
}

/// Write record batches to a file, a pipe, a socket or memory, one by one.
///
/// Args:
///     sink: a path (an existing file is replaced), an object with ``write(bytes)``, a file descriptor, a socket, or
///         writable memory (``bytearray``, a NumPy array, a :class:`Mapping`).
///     schema: names and types of the columns, anything with ``__arrow_c_schema__``; by default those of the first rows.
///     compression: the codec of the data; without one it can be opened in place.
///
/// Raises:
///     NotFound, PermissionDenied, IoError: the sink cannot be written to.
#[pyfunction]
#[pyo3(signature = (sink, schema = None, *, compression = None))]
pub fn stream_writer(
    py: Python<'_>,
    sink: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    compression: Option<&str>,
) -> Result<StreamWriter> {
    let compression = compression.map(codec).transpose()?;
    let schema = schema.map(schema_of).transpose()?.map(Arc::new);
    let problem = Problem::default();
    let sink = Sink::of(sink, &problem)?;
    let state = match &schema {
        Some(schema) => State::Begun(begin(py, sink, schema, compression, &problem)?),
        None => State::New(sink),
    };
    Ok(StreamWriter { state: Mutex::new(state), schema: Mutex::new(schema), compression, problem })
}

fn begin(
    py: Python<'_>,
    sink: Sink,
    schema: &SchemaRef,
    compression: Option<Compression>,
    problem: &Problem,
) -> Result<Box<arrowwood::StreamWriter<Sink>>> {
    problem.or(py.detach(|| arrowwood::StreamWriter::new(sink, schema.clone(), compression).map(Box::new)))
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> Failure {
    Error::new(ErrorKind::Closed, "the stream was closed").into()
}

impl StreamWriter {
    /// Sends appended rows, with the state taken out: a file object's methods may use the writer.
    fn with<T>(&self, work: impl FnOnce(State) -> (State, Result<T>)) -> Result<T> {
        let state = std::mem::replace(&mut *lock(&self.state), State::Closed);
        let (state, done) = work(state);
        *lock(&self.state) = state;
        done
    }
}

#[pymethods]
impl StreamWriter {
    /// Send rows: Arrow data, a dict of columns, row dicts, or a data frame. Each record batch is one message, sent at once.
    ///
    /// Raises:
    ///     SchemaMismatch, ColumnNotFound, InvalidArgument: the rows do not fit the schema; nothing was sent.
    ///     IoError: the sink failed; nothing more can be sent.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let schema = lock(&self.schema).clone();
        // Arrow data with the stream's schema is sent unchanged.
        let as_it_is = data.cast::<Dataset>().ok().map(|data| data.get().inner().clone());
        let dataset = match as_it_is.filter(|data| schema.as_ref().is_none_or(|schema| data.schema() == schema)) {
            Some(dataset) => dataset,
            None => guard(|| dataset_from(data, schema.as_ref()))?,
        };
        let problem = self.problem.clone();
        let compression = self.compression;
        self.with(|state| {
            let mut writer = match state {
                State::Begun(writer) => writer,
                State::New(sink) => match begin(py, sink, dataset.schema(), compression, &problem) {
                    Ok(writer) => {
                        *lock(&self.schema) = Some(dataset.schema().clone());
                        writer
                    }
                    Err(e) => return (State::Closed, Err(e)),
                },
                State::Closed => return (State::Closed, Err(closed())),
            };
            let done = problem.or(py.detach(|| writer.write(&dataset)));
            (State::Begun(writer), done)
        })
    }

    /// End the stream; does nothing if already closed.
    ///
    /// Raises:
    ///     IoError: the sink failed.
    fn close(&self, py: Python<'_>) -> Result<()> {
        let problem = self.problem.clone();
        self.with(|state| match state {
            State::Begun(writer) => (State::Closed, problem.or(py.detach(|| writer.finish().map(drop)))),
            _ => (State::Closed, Ok(())),
        })
    }

    /// Names and types of the columns; ``None`` before the first rows if none was given.
    #[getter]
    fn schema(&self) -> Option<Schema> {
        lock(&self.schema).clone().map(Schema)
    }

    /// The number of bytes sent.
    #[getter]
    fn nbytes(&self) -> usize {
        match &*lock(&self.state) {
            State::Begun(writer) => writer.nbytes(),
            _ => 0,
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, value, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let _ = (value, traceback);
        match kind {
            None => self.close(py),
            Some(_) => self.with(|_| (State::Closed, Ok(()))),
        }
    }
}

/// Iterates over the record batches of an Arrow stream, each as a dataset, as they arrive; made by
/// :func:`read_stream`.
#[pyclass(frozen, module = "arrowwood")]
pub struct StreamReader {
    schema: SchemaRef,
    batches: Mutex<Batches>,
    problem: Problem,
}

enum Batches {
    /// Those of a stream in memory or of a mapped file.
    InPlace(std::vec::IntoIter<arrowwood::Dataset>),
    Coming(arrowwood::StreamReader<Source>),
    Ended,
}

/// Read an Arrow stream, batch by batch as it arrives.
///
/// Args:
///     source: a path or an object with the buffer protocol, whose batches are read in place; or the sender of a
///         stream: an object with ``read(size)``, a file descriptor, a socket.
///
/// Raises:
///     NotFound, PermissionDenied, IoError: the source cannot be read.
///     InvalidData: it is not an Arrow stream; the message says what it looks like instead.
#[pyfunction]
pub fn read_stream(py: Python<'_>, source: &Bound<'_, PyAny>) -> Result<StreamReader> {
    let problem = Problem::default();
    if let Some(coming) = Source::of(source, &problem)? {
        return coming_from(py, coming, problem);
    }
    let dataset = match path_of(source)? {
        Some(path) => {
            if let Some(pipe) = open_pipe(py, &path, "O_RDONLY")? {
                return coming_from(py, Source::File(pipe, problem.clone()), problem);
            }
            py.detach(|| Open::new().path(path))?
        }
        None => {
            let bytes = bytes_of(source)?;
            py.detach(|| guard(|| Open::new().bytes(bytes)))?
        }
    };
    let batches = py.detach(|| dataset.batches().collect::<Result<Vec<_>, _>>())?;
    let batches = Mutex::new(Batches::InPlace(batches.into_iter()));
    Ok(StreamReader { schema: dataset.schema().clone(), batches, problem })
}

fn coming_from(py: Python<'_>, source: Source, problem: Problem) -> Result<StreamReader> {
    let stream = problem.or(py.detach(|| arrowwood::read_stream(source)))?;
    Ok(StreamReader { schema: stream.schema().clone(), batches: Mutex::new(Batches::Coming(stream)), problem })
}

#[pymethods]
impl StreamReader {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Dataset>> {
        // Taken out, as a file object's methods may use the reader.
        let mut batches = std::mem::replace(&mut *lock(&self.batches), Batches::Ended);
        let next = match &mut batches {
            Batches::InPlace(left) => Ok(left.next()),
            Batches::Coming(stream) => self.problem.or(py.detach(|| stream.next().transpose())).and_then(|batch| {
                let dataset = batch.map(|batch| arrowwood::Dataset::from_batches(self.schema.clone(), vec![batch]));
                Ok(dataset.transpose()?)
            }),
            Batches::Ended => Ok(None),
        };
        if let Ok(Some(_)) = next {
            *lock(&self.batches) = batches;
        }
        Ok(next?.map(Dataset::new))
    }

    /// Read all remaining batches as one, in memory: values go from the source directly to their column.
    ///
    /// Raises:
    ///     InvalidData, IoError: the stream is damaged or incomplete. To keep the earlier batches, iterate instead.
    fn read_all(&self, py: Python<'_>) -> Result<Dataset> {
        let batches = std::mem::replace(&mut *lock(&self.batches), Batches::Ended);
        let none = || arrowwood::Dataset::from_batches(self.schema.clone(), Vec::new());
        let dataset = match batches {
            Batches::InPlace(left) if left.len() > 0 => {
                py.detach(|| arrowwood::Dataset::concat(left.as_slice())?.collect()).map_err(Failure::from)
            }
            Batches::Coming(stream) => self.problem.or(py.detach(|| stream.read_all())),
            _ => none().map_err(Failure::from),
        };
        dataset.map(Dataset::new)
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }

    /// Close the source, so that its sender notices that nobody is reading any more.
    fn close(&self) {
        *lock(&self.batches) = Batches::Ended;
    }
}
