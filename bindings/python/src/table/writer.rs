//! `writer`: a table that grows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use arrowwood::readable::escape_hidden;
use arrowwood::{CompactOptions, Error, ErrorKind, LatePolicy, SyncPolicy, Value, WriterOptions};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use super::partitions::{PartitionArg, PartitionedWriter};
use super::retention::{Retention, RetentionPolicy, first_row_at_least};
use super::shared_writer::SharedWriter;
use crate::arguments::describe::describe_object;
use crate::arguments::names::name_list;
use crate::arguments::numbers::{count, extract_u64, positive, seconds};
use crate::dataset::dataset::bound_value;
use crate::exchange::capsule::extract_schema;
use crate::incoming::append::AppendConverter;
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument, type_error};
use crate::interpreter::progress::with_progress;
use crate::interpreter::py_call::guard;
use crate::io::path::check_not_url;
use crate::types::schema::Schema;

/// The single writer of a growing table; made by :func:`writer`.
///
/// Appended rows become visible to readers when they are committed: all of them or none. As a context manager it
/// commits at the end, or rolls back after an exception. Rows that are neither committed nor rolled back are a
/// ``ResourceWarning`` when the writer is gone.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Writer {
    inner: SharedWriter<arrowwood::Writer>,
    columns: AppendConverter,
    retention: Option<Retention>,
}

/// Open a growing table for writing, or create one.
///
/// Args:
///     path: the table's directory.
///     schema: names and types of the columns: text such as ``"ts: timestamp[us] not null, price: float64"``, a dict
///         of such types by name, or anything with ``__arrow_c_schema__``; required to create a table. For an
///         existing table, it may have more nullable columns, wider numbers, and columns made nullable: then the
///         table's schema is changed, as by :func:`alter`. Text keeps its type in the table.
///     sync: when commits are brought to the disk: ``"never"`` except on request, with every ``"commit"``, or at an
///         interval in seconds.
///     segment_rows: the maximum number of rows in a segment; by default that of the existing table, or 4,194,304.
///     dictionary: names of text columns to store as ``dictionary<int32, utf8>``. A table that has text keeps it, and
///         so does a new partition beside others.
///     sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
///     index: names of columns to index: conditions on them, as in :meth:`Dataset.filter`, read only blocks of
///         65,536 rows that may match. By default those of the existing table; a different choice applies from the
///         next segment on.
///     late: the treatment of rows less than earlier ones in the column `sorted_by`: ``"refuse"``, which is the
///         default, or ``"accept"``. Late rows are kept in order of arrival, and found by the column's index.
///     wait: how many seconds to wait for another writer to close the table; by default none.
///     keep: the rows to keep after each commit: rows within a time of the newest in the sorted column, as a
///         ``timedelta`` or text such as ``"1h"`` or ``"30 days"``, or the newest segments up to a size, as ``"10
///         GB"``. Segments with no such rows are removed; checked at most once a second.
///     force: write on file systems where mappings on several machines are inconsistent, such as NFS.
///     partition: write one partition of the table, such as ``{"host": "a1"}``: the table ``path/host=a1``, with its
///         own writer.
///     partition_by: split rows by a column, such as ``"host"``, by ``"day(ts)"``, ``"month(ts)"`` or ``"year(ts)"``
///         of a time, in UTC, or by a list of those: then this is a :class:`PartitionedWriter`.
///
/// Raises:
///     Busy: another process still writes the table after `wait` seconds; the message names it.
///     SchemaMismatch: the table's schema can't be changed to the given one; the message names each column.
///     NotFound: there is neither a table nor a schema.
///     Unsupported: a column's type cannot grow, or the file system is a network's.
#[pyfunction]
#[pyo3(signature = (
    path, schema = None, *, sync = None, segment_rows = None, dictionary = None, sorted_by = None, late = None,
    index = None, wait = None, keep = None, force = false, partition = None, partition_by = None
))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub fn writer<'py>(
    py: Python<'py>,
    path: PathBuf,
    schema: Option<&Bound<'_, PyAny>>,
    sync: Option<&Bound<'_, PyAny>>,
    segment_rows: Option<i64>,
    dictionary: Option<&Bound<'_, PyAny>>,
    sorted_by: Option<String>,
    late: Option<&str>,
    index: Option<&Bound<'_, PyAny>>,
    wait: Option<&Bound<'_, PyAny>>,
    keep: Option<&Bound<'_, PyAny>>,
    force: bool,
    partition: Option<&Bound<'_, PyDict>>,
    partition_by: Option<&Bound<'_, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    check_not_url("writer", &path)?;
    let mut options = WriterOptions::default();
    if let Some(sync) = sync {
        options.sync = policy(sync)?;
    }
    options.segment_rows = segment_rows.map(|rows| positive("segment_rows", rows)).transpose()?;
    options.dictionary = name_list("writer: dictionary", dictionary)?;
    options.sorted_by = sorted_by;
    options.late = late.map(late_rows).transpose()?;
    options.index = index.map(|names| name_list("writer: index", Some(names))).transpose()?;
    options.force = force;
    let schema = schema.map(extract_schema).transpose()?.map(Arc::new);
    let keep = keep.map(|keep| RetentionPolicy::parse(py, keep)).transpose()?;
    if let Some(by) = partition_by {
        if partition.is_some() || keep.is_some() || wait.is_some() {
            return Err(invalid_argument("writer: partition_by goes with neither partition, nor keep, nor wait"));
        }
        return Ok(Bound::new(py, PartitionedWriter::open(py, path, schema, by, &options)?)?.into_any());
    }
    let wait = seconds("writer: wait", wait)?.unwrap_or(Duration::ZERO);
    let table = TableTarget { path: &path, partition: partition.map(PartitionArg::from_dict).transpose()? };
    let inner = opened(py, &table, schema, &options, wait)?;
    let path = inner.path().to_path_buf();
    let retention = keep.map(|keep| Retention::new(keep, &path)).transpose()?;
    let columns = AppendConverter::new(py, inner.schema().clone());
    Ok(Bound::new(py, Writer { inner: SharedWriter::new(inner, path), columns, retention })?.into_any())
}

/// Parses the treatment of late rows.
fn late_rows(policy: &str) -> Result<LatePolicy> {
    match policy {
        "refuse" => Ok(LatePolicy::Refuse),
        "accept" => Ok(LatePolicy::Accept),
        other => Err(invalid_argument(format!("writer: late: expected 'refuse' or 'accept', got {other:?}"))),
    }
}

/// The target of a writer: a table, or a partition of one.
struct TableTarget<'a> {
    path: &'a Path,
    partition: Option<PartitionArg>,
}

impl TableTarget<'_> {
    fn open(&self, schema: Option<SchemaRef>, options: &WriterOptions) -> arrowwood::Result<arrowwood::Writer> {
        match &self.partition {
            Some(partition) => arrowwood::partition_writer(self.path, &partition.values(), schema, options),
            None => arrowwood::Writer::open(self.path, schema, options),
        }
    }
}

/// Opens a writer, as soon as no other writer has the table.
fn opened(
    py: Python<'_>,
    table: &TableTarget<'_>,
    schema: Option<SchemaRef>,
    options: &WriterOptions,
    wait: Duration,
) -> Result<arrowwood::Writer> {
    const PAUSE: Duration = Duration::from_millis(10);
    let deadline = Instant::now().checked_add(wait);
    loop {
        match py.detach(|| table.open(schema.clone(), options)) {
            Err(e) if e.kind() == ErrorKind::Busy && deadline.is_none_or(|deadline| Instant::now() < deadline) => {
                py.check_signals()?;
                py.detach(|| std::thread::sleep(PAUSE));
            }
            Err(e) if e.kind() == ErrorKind::Busy => return Err(still_busy(&e, wait).into()),
            done => return Ok(done?),
        }
    }
}

/// Advises what to do about a table that has another writer.
fn still_busy(error: &Error, wait: Duration) -> Error {
    let advice = if wait.is_zero() {
        "aw.writer(…, wait=10) waits up to ten seconds for it".to_string()
    } else {
        format!("waited {} seconds for it: wait= sets how many", wait.as_secs_f64())
    };
    let advised = Error::new(ErrorKind::Busy, format!("{}; {advice}", error.message()));
    match error.path() {
        Some(path) => advised.at(path),
        None => advised,
    }
}

fn policy(sync: &Bound<'_, PyAny>) -> Result<SyncPolicy> {
    if let Ok(name) = sync.cast::<PyString>() {
        match name.to_str()? {
            "never" => return Ok(SyncPolicy::Never),
            "commit" => return Ok(SyncPolicy::Commit),
            _ => (),
        }
    } else if let Ok(seconds) = sync.extract::<f64>()
        && let Ok(interval) = Duration::try_from_secs_f64(seconds)
        && seconds != 0.0
        && !sync.is_instance_of::<PyBool>()
    {
        return Ok(SyncPolicy::Every(interval));
    }
    Err(invalid_argument(format!("sync must be 'never', 'commit' or a number of seconds above 0, got {sync}")))
}

/// Change the schema of a table without a writer; return whether anything was changed.
///
/// The change is a commit like any other. Existing rows are null in new columns, and are widened when they are read;
/// open datasets don't change, and their :meth:`Dataset.refresh` has the new schema. Changes already made are
/// skipped.
///
/// Args:
///     path: the table's directory, or a directory of partitions, each of which is changed by its own commit.
///     add: columns to add after the others, as a schema of :func:`writer`: ``{"vol": "int64"}`` or ``"vol:
///         int64"``.
///     widen: columns and their wider types, such as ``{"qty": "int64"}`` for one of ``int32``.
///     nullable: names of columns to make nullable.
///
/// Raises:
///     Busy: the table is being written; give the new schema to :func:`writer`.
///     SchemaMismatch: a type is not wider, or a new column is ``not null``; the message names each.
///     ColumnNotFound: a column to widen or to make nullable does not exist.
///     NotFound: there is no table. For partitions, the error of the first that was not changed; the message names
///         all of them.
#[pyfunction]
#[pyo3(signature = (path, *, add = None, widen = None, nullable = None))]
pub fn alter(
    py: Python<'_>,
    path: PathBuf,
    add: Option<&Bound<'_, PyAny>>,
    widen: Option<&Bound<'_, PyAny>>,
    nullable: Option<&Bound<'_, PyAny>>,
) -> Result<bool> {
    let add = add.map_or(Ok(ArrowSchema::empty()), extract_schema)?;
    let widen = widen.map_or(Ok(ArrowSchema::empty()), extract_schema)?;
    let nullable = name_list("alter: nullable", nullable)?;
    Ok(py.detach(|| arrowwood::alter(&path, &add, &widen, &nullable))?)
}

/// Rewrite all segments of a table as dense Arrow files, without affecting readers; return the number of rewritten
/// segments.
///
/// Small segments are merged into one of up to `segment_rows` rows and 128 MiB, which is held in memory meanwhile.
/// Rows keep their numbers. Other Arrow readers that list the directory meanwhile may find rows twice.
///
/// Args:
///     path: the table's directory.
///     rewrite: give all segments the table's schema, including dense ones, after it was changed: see :func:`alter`.
///         Otherwise each keeps its own.
///     sort: first sort the rows of all segments by the column by which the table is sorted, so that late rows are
///         in place; equal values keep their order, nulls are last. Row numbers change: a reader that has the table
///         open gets `FileChanged` if it could meet other rows. Segments already in order stay as they are; the
///         others are first written beside the table, and replaced in one step. Takes at most four bytes of memory
///         per moved row, and one new segment of up to 128 MiB with sixteen bytes per row.
///
/// Raises:
///     Busy: the table is being written; use :meth:`Writer.compact`.
///     InvalidArgument: `sort` for a table created without `sorted_by`.
///     NotFound: there is no table.
#[pyfunction]
#[pyo3(signature = (path, *, rewrite = false, sort = false))]
pub fn compact(py: Python<'_>, path: PathBuf, rewrite: bool, sort: bool) -> Result<u64> {
    with_progress(py, ("compacting", "pieces"), |progress| {
        arrowwood::compact_with(&path, CompactOptions { rewrite, sort }, progress)
    })
}

/// Extracts positions by name from a dict of integers of 64 bits; none if it is not given.
fn extract_positions(object: Option<&Bound<'_, PyAny>>) -> Result<Vec<(String, i64)>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    let Ok(dict) = object.cast::<PyDict>() else { return Err(positions_error("numbers by name", object)) };
    let mut positions = Vec::with_capacity(dict.len());
    for (name, number) in dict {
        let name: String = name.extract().map_err(|_| positions_error("numbers by name", &name))?;
        if number.is_instance_of::<PyBool>() {
            return Err(positions_error("integers", &number));
        }
        let position = number.extract().map_err(|problem: PyErr| {
            if problem.is_instance_of::<PyOverflowError>(number.py()) {
                return invalid_argument(format!("commit: the position '{name}' must fit into 64 bits, got {number}"));
            }
            positions_error("integers", &number)
        })?;
        positions.push((name, position));
    }
    Ok(positions)
}

fn positions_error(expected: &str, got: &Bound<'_, PyAny>) -> PyArrowwoodError {
    type_error(format!("commit: expected positions to be a dict of {expected}, got {}", describe_object(got)))
}

impl Writer {
    /// Drops old rows, if a check is due.
    fn retain(&self, py: Python<'_>) -> Result<()> {
        let Some(retention) = self.retention.as_ref().filter(|retention| retention.is_due()) else { return Ok(()) };
        match py.detach(|| retention.first_row_at_least(self.inner.path()))? {
            Some(row) => self.inner.with(py, |writer| writer.drop_before(row)).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.inner.warn_if_uncommitted(|writer| writer.rows().saturating_sub(writer.committed_rows()));
    }
}

#[pymethods]
impl Writer {
    /// Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by column names.
    ///
    /// Raises:
    ///     SchemaMismatch: a column is missing, of another type, or has ordered categories in another order.
    ///     ColumnNotFound: the table has no column of that name.
    ///     InvalidArgument: a null in a non-nullable column, a value out of range, or a row out of order; the
    ///         message names column and row. In all these cases nothing was appended.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let dataset = guard(|| self.columns.dataset(py, data))?;
        self.inner.with(py, |writer| writer.append_dataset(&dataset))
    }

    /// Append one row; columns not given are null.
    ///
    /// Raises:
    ///     InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
    ///         appended.
    ///     ColumnNotFound: the table has no column of that name.
    #[pyo3(signature = (**values))]
    fn append_row(&self, py: Python<'_>, values: Option<&Bound<'_, PyDict>>) -> Result<()> {
        self.columns.append_row(
            py,
            values,
            |row| {
                let mut inner = self.inner.lock(py)?;
                let writer = inner.as_mut().ok_or_else(|| self.inner.closed())?;
                Ok(writer.append_row(row)?)
            },
            |rows| self.append(py, rows),
        )
    }

    /// Make a replica, which `arrowwood pull` has made, a table of its own.
    ///
    /// A replica has the rows of another table, and not how far its producers were. Until it is promoted, commits with
    /// `positions` are refused: a producer that begins anew would append again what is there. `positions` are those
    /// that are known; the others begin anew. The change is durable when this returns.
    ///
    /// Raises:
    ///     InvalidArgument: the table is no replica, or was promoted before.
    #[pyo3(signature = (positions = None))]
    fn promote(&self, py: Python<'_>, positions: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let positions = extract_positions(positions)?;
        self.inner.with(py, |writer| {
            writer.promote(&positions.iter().map(|(name, value)| (&name[..], *value)).collect::<Vec<_>>())
        })?;
        self.retain(py)
    }

    /// Make all appended rows visible to readers, in one step; with `durable`, return once they would survive a
    /// power cut.
    ///
    /// `positions` are named 64-bit numbers that are part of the commit: visible with its rows, as durable as they
    /// are, and restored as :attr:`positions` after any crash. Other positions keep their values, and there may be
    /// no new rows. A producer that stores its progress here, and continues from it, neither misses nor repeats
    /// anything.
    ///
    /// When many threads commit durably at the same time, one syncs for all of them.
    ///
    /// Raises:
    ///     IoError: none of the rows is visible, or they could not be brought to the disk.
    ///     ValueError: a name is empty, longer than 255 bytes or has control characters, or there are more than 256.
    #[pyo3(signature = (*, durable = false, positions = None))]
    fn commit(&self, py: Python<'_>, durable: bool, positions: Option<&Bound<'_, PyAny>>) -> Result<()> {
        if durable || positions.is_some() {
            let positions = extract_positions(positions)?;
            let durability = self.inner.with(py, |writer| {
                let named: Vec<_> = positions.iter().map(|(name, value)| (&name[..], *value)).collect();
                writer.commit_with(&named).map(|()| writer.durability())
            })?;
            // Without the lock: others commit meanwhile, and one sync is for all of them.
            if durable {
                py.detach(|| durability.wait())?;
            }
            return self.retain(py);
        }
        let mut inner = self.inner.lock(py)?;
        let writer = inner.as_mut().ok_or_else(|| self.inner.closed())?;
        if writer.is_commit_cheap() {
            writer.commit()?;
            drop(inner);
        } else {
            drop(inner);
            self.inner.with(py, arrowwood::Writer::commit)?;
        }
        self.retain(py)
    }

    /// Bring all committed rows to the disk: they survive a power cut once this returns.
    ///
    /// Raises:
    ///     IoError: after that nothing more can be written; open the table again.
    fn sync(&self, py: Python<'_>) -> Result<()> {
        self.inner.with(py, arrowwood::Writer::sync)
    }

    /// Wait until all rows before number ``row``, or all committed rows, would survive a power cut.
    ///
    /// When many threads wait at the same time, one syncs for all of them.
    ///
    /// Raises:
    ///     InvalidArgument: rows before number `row` are not committed.
    ///     IoError: after that nothing more can be written; open the table again.
    #[pyo3(signature = (row = None))]
    fn wait_durable(&self, py: Python<'_>, row: Option<&Bound<'_, PyAny>>) -> Result<()> {
        let row = row.map(|row| extract_u64("wait_durable", "the number of a row", row)).transpose()?;
        let (durability, committed) =
            self.inner.with(py, |writer| Ok((writer.durability(), writer.committed_rows())))?;
        if let Some(row) = row.filter(|&row| row > committed) {
            let message = format!("waiting for {row} durable rows, and {committed} are committed; commit them first");
            return Err(invalid_argument(message));
        }
        if row.is_some_and(|row| durability.rows() >= row) {
            return Ok(());
        }
        Ok(py.detach(|| durability.wait())?)
    }

    /// Positions of the newest commit, by name: the progress of producers. See :meth:`commit`.
    #[getter]
    fn positions(&self, py: Python<'_>) -> Result<BTreeMap<String, i64>> {
        self.inner.lock(py)?.as_ref().map(arrowwood::Writer::positions).ok_or_else(|| self.inner.closed())
    }

    /// Discard the rows appended since the last commit.
    fn rollback(&self, py: Python<'_>) -> Result<()> {
        self.inner.with(py, |writer| {
            writer.rollback();
            Ok(())
        })
    }

    /// Commit, sync, and release the table to other writers; does nothing if already closed.
    fn close(&self, py: Python<'_>) -> Result<()> {
        self.inner.close(py, |mut writer| {
            if let Some(retention) = &self.retention {
                writer.commit()?;
                retention.first_row_at_least(self.inner.path())?.map(|row| writer.drop_before(row)).transpose()?;
            }
            writer.close()
        })
    }

    /// Rewrite all sealed segments as dense Arrow files, without affecting readers; return the number of rewritten
    /// segments.
    ///
    /// Small segments are merged, `rewrite` gives all segments the table's schema, and `sort` sorts their rows, as
    /// in :func:`compact`.
    #[pyo3(signature = (*, rewrite = false, sort = false))]
    fn compact(&self, py: Python<'_>, rewrite: bool, sort: bool) -> Result<u64> {
        self.inner.with(py, |writer| writer.compact_with(CompactOptions { rewrite, sort }, |_, _| ()))
    }

    /// Remove the segments without rows from number `row` on; return the number of removed rows.
    ///
    /// Whole segments are removed, so up to :func:`writer`'s `segment_rows` more rows may stay. Readers keep the
    /// segments they have read from. Rows keep their numbers: see :attr:`Dataset.first_row`.
    ///
    /// Args:
    ///     row: a row's number, or a time, a date or a text for one: then the first committed row that is not before
    ///         it, in the column by which the table is sorted.
    ///
    /// Raises:
    ///     InvalidArgument: the table is not sorted by a column of such values.
    fn drop_before(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> Result<u64> {
        if row.is_instance_of::<PyBool>() || row.is_none() {
            return Err(type_error(format!(
                "drop_before: expected a row's number or a time, got {}",
                describe_object(row)
            )));
        }
        if let Ok(row) = row.extract::<i64>() {
            let row = count("row", row)?;
            return self.inner.with(py, |writer| writer.drop_before(row));
        }
        let table = py.detach(|| arrowwood::open(self.inner.path()))?;
        let field = table.sorted_by().or_else(|| table.late_by()).ok_or_else(|| {
            invalid_argument(
                "drop_before a value needs a table created with sorted_by; without one, rows are dropped by number",
            )
        })?;
        let value = match bound_value("drop_before", &field, row)? {
            Value::Null => return Err(invalid_argument("drop_before: expected a row's number or a time, got a null")),
            value => value.into(),
        };
        let row = py.detach(|| first_row_at_least(&table, field.name(), value))?;
        self.inner.with(py, |writer| writer.drop_before(row))
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.columns.schema.clone())
    }

    /// The table's directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.path().to_path_buf()
    }

    /// Whether the writer is closed.
    #[getter]
    fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        self.inner.is_closed(py)
    }

    /// The number of the row after the last one appended.
    #[getter]
    fn rows(&self, py: Python<'_>) -> Result<u64> {
        self.inner.lock(py)?.as_ref().map(arrowwood::Writer::rows).ok_or_else(|| self.inner.closed())
    }

    /// The number of the row after the last committed one.
    #[getter]
    fn committed_rows(&self, py: Python<'_>) -> Result<u64> {
        self.inner.lock(py)?.as_ref().map(arrowwood::Writer::committed_rows).ok_or_else(|| self.inner.closed())
    }

    /// The number of the row after the last one that would survive a power cut.
    #[getter]
    fn durable_rows(&self, py: Python<'_>) -> Result<u64> {
        self.inner.lock(py)?.as_ref().map(arrowwood::Writer::durable_rows).ok_or_else(|| self.inner.closed())
    }

    /// The number of rows, committed but never synced, lost in a system crash before this writer was opened.
    #[getter]
    fn dropped_rows(&self, py: Python<'_>) -> Result<u64> {
        self.inner.lock(py)?.as_ref().map(arrowwood::Writer::dropped_rows).ok_or_else(|| self.inner.closed())
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
        if !kind.is_none() && !self.is_closed(py)? {
            self.rollback(py)?;
        }
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let rows = self.inner.lock(py)?.as_ref().map(arrowwood::Writer::rows);
        let rows = rows.map_or("closed".into(), |rows| format!("{rows} rows"));
        Ok(format!("<arrowwood.Writer {}: {rows}>", escape_hidden(&self.inner.path().to_string_lossy())))
    }
}
