//! `stream_writer` and `read_stream`: record batches through files, pipes, sockets and memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use arrowwood::mapping::MutexExt;
use arrowwood::{Compression, Error, ErrorKind, OpenOptions};
use pyo3::prelude::*;

use super::bytes::{Sink, Source, open_pipe};
use super::path::extract_path;
use super::write::codec;
use crate::dataset::dataset::Dataset;
use crate::exchange::capsule::extract_schema;
use crate::exchange::memory::buffer_bytes;
use crate::incoming::from_python::convert_to_dataset;
use crate::interpreter::errors::{PendingException, PyArrowwoodError, Result};
use crate::interpreter::py_call::guard;
use crate::types::schema::Schema;

/// The state of a stream, which a call takes out while it works: a file object's methods may use the stream too.
struct ExclusiveState<T>(Mutex<Slot<T>>);

enum Slot<T> {
    Free(T),
    /// A call has it.
    Taken,
    /// A call has it, and the stream was closed meanwhile.
    Closing,
    Closed,
}

/// The state while a call has it; `None` if the stream is closed. Dropping it puts the state back.
struct StateGuard<'a, T> {
    state: Option<T>,
    owner: &'a ExclusiveState<T>,
}

impl<T> ExclusiveState<T> {
    fn new(state: T) -> ExclusiveState<T> {
        ExclusiveState(Mutex::new(Slot::Free(state)))
    }

    /// # Errors
    /// `Busy` while another call has the state.
    fn take(&self, doing: &str) -> Result<StateGuard<'_, T>> {
        let mut slot = self.0.lock_ignoring_poison();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Free(state) => Ok(StateGuard { state: Some(state), owner: self }),
            Slot::Closed => {
                *slot = Slot::Closed;
                Ok(StateGuard { state: None, owner: self })
            }
            taken => {
                *slot = taken;
                let message = format!(
                    "{doing}: another call is using the stream, which serves one at a time; use it in one thread, or \
                     let threads take turns by a lock"
                );
                Err(Error::new(ErrorKind::Busy, message).into())
            }
        }
    }

    /// Closes the stream, at the end of the call that has the state.
    fn close(&self) {
        let mut slot = self.0.lock_ignoring_poison();
        let is_taken = matches!(*slot, Slot::Taken | Slot::Closing);
        let before = std::mem::replace(&mut *slot, if is_taken { Slot::Closing } else { Slot::Closed });
        drop(slot);
        // Without the lock, as dropping a file object runs Python.
        drop(before);
    }
}

impl<T> Drop for StateGuard<'_, T> {
    fn drop(&mut self) {
        let mut slot = self.owner.0.lock_ignoring_poison();
        *slot = match *slot {
            Slot::Taken => self.state.take().map_or(Slot::Closed, Slot::Free),
            _ => Slot::Closed,
        };
    }
}

/// Writes an Arrow stream; made by :func:`stream_writer`. As a context manager it ends the stream, except after an
/// exception, so that the reader sees that it is incomplete. Calls during a call in another thread raise :class:`Busy`.
#[pyclass(frozen, module = "arrowwood")]
pub struct StreamWriter {
    state: ExclusiveState<StreamState>,
    /// The bytes sent by finished calls.
    sent: AtomicUsize,
    schema: Mutex<Option<SchemaRef>>,
    compression: Option<Compression>,
    problem: PendingException,
}

enum StreamState {
    /// Nothing was sent: the first rows determine the schema.
    New(Sink),
    Started(Box<arrowwood::StreamWriter<Sink>>),
}

/// Write record batches to a file, a pipe, a socket or memory, one by one.
///
/// Args:
///     sink: a path (an existing file is replaced), an object with ``write(bytes)``, a file descriptor, a socket, or
///         writable memory (``bytearray``, a NumPy array, a :class:`Mapping`).
///     schema: names and types of the columns, anything with ``__arrow_c_schema__``; by default those of the
///         first rows.
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
    let schema = schema.map(extract_schema).transpose()?.map(Arc::new);
    let problem = PendingException::default();
    let sink = Sink::open(sink, &problem)?;
    let mut sent = AtomicUsize::new(0);
    let state = match &schema {
        Some(schema) => {
            let writer = begin(py, sink, schema, compression, &problem)?;
            *sent.get_mut() = writer.nbytes();
            StreamState::Started(writer)
        }
        None => StreamState::New(sink),
    };
    Ok(StreamWriter { state: ExclusiveState::new(state), sent, schema: Mutex::new(schema), compression, problem })
}

fn begin(
    py: Python<'_>,
    sink: Sink,
    schema: &SchemaRef,
    compression: Option<Compression>,
    problem: &PendingException,
) -> Result<Box<arrowwood::StreamWriter<Sink>>> {
    problem.take_or(py.detach(|| arrowwood::StreamWriter::new(sink, schema.clone(), compression).map(Box::new)))
}

fn closed() -> PyArrowwoodError {
    Error::new(ErrorKind::Closed, "the stream was closed").into()
}

#[pymethods]
impl StreamWriter {
    /// Send rows: Arrow data, a dict of columns, row dicts, or a data frame. Each record batch is one message, sent
    /// at once.
    ///
    /// Raises:
    ///     SchemaMismatch, ColumnNotFound, InvalidArgument: the rows do not fit the schema; nothing was sent.
    ///     IoError: the sink failed; nothing more can be sent.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let schema = self.schema.lock_ignoring_poison().clone();
        // Arrow data with the stream's schema is sent unchanged.
        let as_it_is = data.cast::<Dataset>().ok().map(|data| data.get().inner().clone());
        let dataset = match as_it_is.filter(|data| schema.as_ref().is_none_or(|schema| data.schema() == schema)) {
            Some(dataset) => dataset,
            None => guard(|| convert_to_dataset(data, schema.as_ref()))?,
        };
        let mut stream = self.state.take("writing to the stream")?;
        let mut writer = match stream.state.take().ok_or_else(closed)? {
            StreamState::Started(writer) => writer,
            StreamState::New(sink) => {
                let writer = begin(py, sink, dataset.schema(), self.compression, &self.problem)?;
                *self.schema.lock_ignoring_poison() = Some(dataset.schema().clone());
                writer
            }
        };
        let done = self.problem.take_or(py.detach(|| writer.write(&dataset)));
        self.sent.store(writer.nbytes(), Ordering::Relaxed);
        stream.state = Some(StreamState::Started(writer));
        done
    }

    /// End the stream; does nothing if already closed.
    ///
    /// Raises:
    ///     IoError: the sink failed.
    fn close(&self, py: Python<'_>) -> Result<()> {
        match self.state.take("ending the stream")?.state.take() {
            Some(StreamState::Started(writer)) => self.problem.take_or(py.detach(|| writer.finish().map(drop))),
            _ => Ok(()),
        }
    }

    /// Names and types of the columns; ``None`` before the first rows if none was given.
    #[getter]
    fn schema(&self) -> Option<Schema> {
        self.schema.lock_ignoring_poison().clone().map(Schema)
    }

    /// The number of bytes sent, without the mark of the end.
    #[getter]
    fn nbytes(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
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
            Some(_) => {
                self.state.close();
                Ok(())
            }
        }
    }
}

/// Iterates over the record batches of an Arrow stream, each as a dataset, as they arrive; made by
/// :func:`read_stream`. Calls during a call in another thread raise :class:`Busy`.
#[pyclass(frozen, module = "arrowwood")]
pub struct StreamReader {
    schema: SchemaRef,
    batches: ExclusiveState<BatchSource>,
    problem: PendingException,
}

enum BatchSource {
    /// The batches of a stream in memory or of a mapped file.
    InPlace(std::vec::IntoIter<arrowwood::Dataset>),
    Streamed(Box<arrowwood::StreamReader<Source>>),
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
    let problem = PendingException::default();
    if let Some(coming) = Source::open(source, &problem)? {
        return coming_from(py, coming, problem);
    }
    let dataset = match extract_path(source)? {
        Some(path) => {
            if let Some(pipe) = open_pipe(py, &path, "O_RDONLY")? {
                return coming_from(py, Source::File(pipe, problem.clone()), problem);
            }
            py.detach(|| OpenOptions::new().path(path))?
        }
        None => {
            let bytes = buffer_bytes(source)?;
            py.detach(|| guard(|| OpenOptions::new().bytes(bytes)))?
        }
    };
    let batches = py.detach(|| dataset.batches().collect::<Result<Vec<_>, _>>())?;
    let batches = ExclusiveState::new(BatchSource::InPlace(batches.into_iter()));
    Ok(StreamReader { schema: dataset.schema().clone(), batches, problem })
}

fn coming_from(py: Python<'_>, source: Source, problem: PendingException) -> Result<StreamReader> {
    let stream = problem.take_or(py.detach(|| arrowwood::read_stream(source)))?;
    Ok(StreamReader {
        schema: stream.schema().clone(),
        batches: ExclusiveState::new(BatchSource::Streamed(Box::new(stream))),
        problem,
    })
}

#[pymethods]
impl StreamReader {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Dataset>> {
        let mut stream = self.batches.take("reading the next batch of the stream")?;
        let Some(mut batches) = stream.state.take() else { return Ok(None) };
        let next = match &mut batches {
            BatchSource::InPlace(left) => left.next(),
            BatchSource::Streamed(coming) => match self.problem.take_or(py.detach(|| coming.next().transpose()))? {
                Some(batch) => Some(arrowwood::Dataset::from_batches(self.schema.clone(), vec![batch])?),
                None => None,
            },
        };
        // After its end, or an error, the stream is closed.
        stream.state = next.is_some().then_some(batches);
        Ok(next.map(Dataset::new))
    }

    /// Read all remaining batches as one, in memory: values go from the source directly to their column.
    ///
    /// Raises:
    ///     InvalidData, IoError: the stream is damaged or incomplete. To keep the earlier batches, iterate instead.
    fn read_all(&self, py: Python<'_>) -> Result<Dataset> {
        let mut stream = self.batches.take("reading all of the stream")?;
        let dataset = match stream.state.take() {
            Some(BatchSource::InPlace(left)) if left.len() > 0 => {
                py.detach(|| arrowwood::Dataset::concat(left.as_slice())?.collect()).map_err(PyArrowwoodError::from)
            }
            Some(BatchSource::Streamed(coming)) => self.problem.take_or(py.detach(|| coming.read_all())),
            _ => arrowwood::Dataset::from_batches(self.schema.clone(), Vec::new()).map_err(PyArrowwoodError::from),
        };
        dataset.map(Dataset::new)
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }

    /// Close the source, so that its sender notices that nobody is reading any more. While another thread waits for
    /// a batch, the source is closed as soon as that has arrived.
    fn close(&self) {
        self.batches.close();
    }
}
