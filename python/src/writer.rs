//! `writer`: a table that grows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use arrowwood::{Error, ErrorKind, Sync, Value, WriterOptions, guard, visible};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::errors::{Failure, Result, argument};
use crate::exchange::schema_of;
use crate::index::count;
use crate::progress::watched;
use crate::rows::Columns;
use crate::schema::Schema;

/// The single writer of a growing table, made by :func:`writer`.
///
/// Rows are appended, and seen by others when they are committed: all of them or none. Used with ``with``, it commits
/// at the end, and rolls back when there was an exception.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Writer {
    inner: Mutex<Option<arrowwood::Writer>>,
    columns: Columns,
    path: PathBuf,
}

/// Open a growing table for writing, or make one.
///
/// Args:
///     path: the table's folder.
///     schema: names and types of the columns, anything with ``__arrow_c_schema__``; needed where there is no table
///         yet, compared where there is one.
///     sync: when commits are brought to the disk: ``"never"`` but when asked, with every ``"commit"``, or every so many
///         seconds.
///     segment_rows: the most rows of a segment; 4,194,304 by default, or what the table was made with.
///     dictionary: names of text columns to store as ``dictionary<int32, utf8>``.
///     sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
///     force: write on file systems on which mappings of several machines do not agree, such as NFS.
///
/// Raises:
///     Busy: another process writes the table; the message names it.
///     SchemaMismatch: the table has another schema; the message says which column differs.
///     NotFound: there is neither a table nor a schema.
///     Unsupported: a column's type cannot grow, or the file system is a network's.
#[pyfunction]
#[pyo3(signature = (path, schema = None, *, sync = None, segment_rows = None, dictionary = None, sorted_by = None, force = false))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn writer(
    py: Python<'_>,
    path: PathBuf,
    schema: Option<&Bound<'_, PyAny>>,
    sync: Option<&Bound<'_, PyAny>>,
    segment_rows: Option<i64>,
    dictionary: Option<Vec<String>>,
    sorted_by: Option<String>,
    force: bool,
) -> Result<Writer> {
    let mut options = WriterOptions::default();
    if let Some(sync) = sync {
        options.sync = policy(sync)?;
    }
    options.segment_rows = segment_rows.map(|rows| count("segment_rows", rows)).transpose()?;
    options.dictionary = dictionary.unwrap_or_default();
    options.sorted_by = sorted_by;
    options.force = force;
    let schema = schema.map(schema_of).transpose()?.map(Arc::new);
    let inner = py.detach(|| arrowwood::Writer::open(&path, schema, &options))?;
    let columns = Columns::new(py, inner.schema().clone());
    Ok(Writer { inner: Mutex::new(Some(inner)), columns, path })
}

fn policy(sync: &Bound<'_, PyAny>) -> Result<Sync> {
    let wrong = || argument(format!("sync must be 'never', 'commit' or a number of seconds above 0, got {sync}"));
    if let Ok(name) = sync.cast::<PyString>() {
        return match name.to_str()? {
            "never" => Ok(Sync::Never),
            "commit" => Ok(Sync::Commit),
            _ => Err(wrong()),
        };
    }
    let seconds = sync.extract::<f64>().map_err(|_| wrong())?;
    if seconds == 0.0 || sync.is_instance_of::<PyBool>() {
        return Err(wrong());
    }
    Ok(Sync::Every(Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?))
}

/// Rewrite all segments of a table as dense Arrow files, while readers go on; how many were rewritten.
///
/// Raises:
///     Busy: the table is being written; use :meth:`Writer.compact`.
///     NotFound: there is no table.
#[pyfunction]
pub fn compact(py: Python<'_>, path: PathBuf) -> Result<u64> {
    watched(py, ("compacting", "pieces"), |progress| arrowwood::compact(&path, progress))
}

impl Writer {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<arrowwood::Writer>> {
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // Another thread is writing, and may need the interpreter to go on.
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.inner.lock())),
            }
        }
    }

    fn closed(&self) -> Failure {
        Error::new(ErrorKind::Closed, "the writer is closed; open the table anew").at(&self.path).into()
    }

    /// Does `work`, during which other Python threads run.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut arrowwood::Writer) -> arrowwood::Result<T> + Send,
    ) -> Result<T> {
        let done = py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_mut().map(work)
        });
        Ok(done.ok_or_else(|| self.closed())??)
    }
}

#[pymethods]
impl Writer {
    /// Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by the names of the columns.
    ///
    /// Raises:
    ///     SchemaMismatch: a column is missing or of another type.
    ///     ColumnNotFound: the table has no column of that name.
    ///     InvalidArgument: a null where there are none, a value out of range, or a row out of order; the message names
    ///         column and row. In all these cases nothing was appended.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let dataset = guard(|| self.columns.dataset(py, data))?;
        self.with(py, |writer| writer.append_dataset(&dataset))
    }

    /// Append one row; a column that is not named is null.
    ///
    /// Raises:
    ///     InvalidArgument: a value is not of its column's type, or null where there are none; nothing was appended.
    ///     ColumnNotFound: the table has no column of that name.
    #[pyo3(signature = (**values))]
    fn append_row(&self, py: Python<'_>, values: Option<&Bound<'_, PyDict>>) -> Result<()> {
        let quick = |row: &[Value<'_>]| {
            let mut inner = self.lock(py);
            let writer = inner.as_mut().ok_or_else(|| self.closed())?;
            Ok(writer.append_row(row)?)
        };
        self.columns.append_row(py, values, quick, |rows| self.append(py, rows))
    }

    /// Make all appended rows visible to others, in one step; with `durable`, return when they would survive a power cut.
    ///
    /// `positions` are named 64-bit numbers that are part of the commit: seen with its rows, durable with them, and there again
    /// after any crash as :attr:`positions`. Those that are not named keep their values, and there may be no new rows. So a
    /// producer that notes how far it has read, and goes on from there, neither misses nor repeats anything.
    ///
    /// Of many threads that commit durably at the same time, one syncs for all of them.
    ///
    /// Raises:
    ///     IoError: none of them is visible, or they could not be brought to the disk.
    ///     ValueError: a name is empty, longer than 255 bytes or has control characters, or there are more than 256.
    #[pyo3(signature = (*, durable = false, positions = None))]
    fn commit(&self, py: Python<'_>, durable: bool, positions: Option<BTreeMap<String, i64>>) -> Result<()> {
        if durable || positions.is_some() {
            let positions: Vec<(String, i64)> = positions.into_iter().flatten().collect();
            let durability = self.with(py, |writer| {
                let named: Vec<_> = positions.iter().map(|(name, value)| (&name[..], *value)).collect();
                writer.commit_with(&named).map(|()| writer.durability())
            })?;
            // Without the lock: others commit meanwhile, and one sync is for all of them.
            return if durable { Ok(py.detach(|| durability.wait())?) } else { Ok(()) };
        }
        let mut inner = self.lock(py);
        let writer = inner.as_mut().ok_or_else(|| self.closed())?;
        match writer.is_quick() {
            true => Ok(writer.commit()?),
            false => {
                drop(inner);
                self.with(py, arrowwood::Writer::commit)
            }
        }
    }

    /// Bring all committed rows to the disk: they survive a power cut when this returns.
    ///
    /// Raises:
    ///     IoError: after that nothing more can be written; open the table anew.
    fn sync(&self, py: Python<'_>) -> Result<()> {
        self.with(py, arrowwood::Writer::sync)
    }

    /// Wait until all rows before number ``row``, or all that are committed, would survive a power cut.
    ///
    /// Of many threads that wait at the same time, one syncs for all of them.
    ///
    /// Raises:
    ///     IoError: after that nothing more can be written; open the table anew.
    #[pyo3(signature = (row = None))]
    fn wait_durable(&self, py: Python<'_>, row: Option<u64>) -> Result<()> {
        let durability = self.with(py, |writer| Ok(writer.durability()))?;
        if row.is_some_and(|row| durability.rows() >= row) {
            return Ok(());
        }
        Ok(py.detach(|| durability.wait())?)
    }

    /// Positions of the newest commit, by name: how far producers have read. See :meth:`commit`.
    #[getter]
    fn positions(&self, py: Python<'_>) -> Result<BTreeMap<String, i64>> {
        self.lock(py).as_ref().map(arrowwood::Writer::positions).ok_or_else(|| self.closed())
    }

    /// Forget what was appended since the last commit.
    fn rollback(&self, py: Python<'_>) -> Result<()> {
        self.with(py, |writer| {
            writer.rollback();
            Ok(())
        })
    }

    /// Commit, sync, and let others write; does nothing when it was closed before.
    fn close(&self, py: Python<'_>) -> Result<()> {
        let close = || self.inner.lock().unwrap_or_else(PoisonError::into_inner).take().map(arrowwood::Writer::close);
        Ok(py.detach(close).unwrap_or(Ok(()))?)
    }

    /// Rewrite all sealed segments as dense Arrow files, while readers go on; how many were rewritten.
    fn compact(&self, py: Python<'_>) -> Result<u64> {
        self.with(py, |writer| writer.compact(|_, _| ()))
    }

    /// Remove the segments that hold no row from number `row` on; how many rows were removed.
    ///
    /// Readers that have looked at one of their rows keep them. Rows keep their numbers: see :attr:`Dataset.first_row`.
    fn drop_before(&self, py: Python<'_>, row: u64) -> Result<u64> {
        self.with(py, |writer| writer.drop_before(row))
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.columns.schema.clone())
    }

    /// The table's folder.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether the writer was closed.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> bool {
        self.lock(py).is_none()
    }

    /// The number of the row behind the last one appended.
    #[getter]
    fn rows(&self, py: Python<'_>) -> Result<u64> {
        self.lock(py).as_ref().map(arrowwood::Writer::rows).ok_or_else(|| self.closed())
    }

    /// The number of the row behind the last one that others can see.
    #[getter]
    fn committed_rows(&self, py: Python<'_>) -> Result<u64> {
        self.lock(py).as_ref().map(arrowwood::Writer::committed_rows).ok_or_else(|| self.closed())
    }

    /// The number of the row behind the last one that would survive a power cut.
    #[getter]
    fn durable_rows(&self, py: Python<'_>) -> Result<u64> {
        self.lock(py).as_ref().map(arrowwood::Writer::durable_rows).ok_or_else(|| self.closed())
    }

    /// How many rows, committed but never synced, a crash of the machine has cost before this writer was opened.
    #[getter]
    fn dropped_rows(&self, py: Python<'_>) -> Result<u64> {
        self.lock(py).as_ref().map(arrowwood::Writer::dropped_rows).ok_or_else(|| self.closed())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<()> {
        if !kind.is_none() && !self.is_closed(py) {
            self.rollback(py)?;
        }
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let rows = self.lock(py).as_ref().map(arrowwood::Writer::rows);
        let rows = rows.map_or("closed".into(), |rows| format!("{rows} rows"));
        format!("<arrowwood.Writer {}: {rows}>", visible(&self.path.to_string_lossy()))
    }
}
