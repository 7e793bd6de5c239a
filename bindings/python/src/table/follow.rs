//! `follow`: new rows of tables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind, FollowFrom, PartitionsFollower};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::arguments::numbers::{extract_u64, seconds};
use crate::dataset::dataset::Dataset;
use crate::interpreter::errors::{Result, invalid_argument, type_error};
use crate::interpreter::py_call::CallPy;
use crate::io::path::extract_path;

/// The interval at which a wait checks Python's signals, and whether the follower was closed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait for one of several tables, since only that one can wake the thread.
const WAIT_PER_TABLE: Duration = Duration::from_millis(5);

/// Iterates over new rows of one table or several, dataset by dataset; made by :func:`follow`.
///
/// It can be used with ``with``, which closes it, and with ``async for``, which waits in a thread of its own. Rows
/// that arrive while a task is cancelled are kept for the next one.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Follow {
    // No two of the locks are held at the same time, and the interpreter is never waited for while one is held.
    /// Locked by the thread that waits for rows.
    state: Mutex<FollowState>,
    /// The tables as they were at first, to ask how far they are now; none when it is closed.
    tables: Mutex<Vec<arrowwood::Dataset>>,
    /// The number after the last returned row, of each table.
    next_rows: Mutex<Vec<FollowPosition>>,
    timeout: Option<Duration>,
    is_closed: AtomicBool,
}

/// The followed tables, and rows that one of them has had.
struct FollowState {
    tables: Vec<FollowSource>,
    /// The table that is asked first.
    turn: usize,
    /// Rows received, but not returned yet.
    ready: Option<ReceivedRows>,
}

/// Rows of a table by its number, and of a partition by its directory.
struct ReceivedRows {
    table: usize,
    partition: Option<String>,
    rows: arrowwood::Dataset,
}

/// The followed tables.
enum FollowSource {
    Table(Box<arrowwood::TableFollower>),
    Partitions(Box<PartitionsFollower>),
}

/// The start of following: a row, or one of each partition by its directory.
#[derive(Clone, FromPyObject, IntoPyObject)]
pub enum FollowPosition {
    Row(u64),
    Rows(BTreeMap<String, u64>),
}

impl FollowSource {
    fn open(
        table: &arrowwood::Dataset,
        start: Option<FollowPosition>,
        timeout: Option<Duration>,
    ) -> Result<FollowSource> {
        let is_partitioned = !table.partitions().is_empty();
        let from = match start {
            None => FollowFrom::Now,
            Some(FollowPosition::Row(0)) => FollowFrom::First,
            Some(FollowPosition::Rows(rows)) if is_partitioned => FollowFrom::Rows(rows),
            Some(FollowPosition::Row(_)) if is_partitioned => {
                return Err(invalid_argument(
                    "follow: the rows of partitions are numbered in each of them; start with 0 for all rows, or with \
                     next_row of an earlier follower, a dict by directory",
                ));
            }
            Some(FollowPosition::Rows(_)) => {
                return Err(invalid_argument("follow: start is a dict, and the table has no partitions"));
            }
            Some(FollowPosition::Row(row)) => {
                return Ok(FollowSource::Table(Box::new(arrowwood::follow(table, Some(row), timeout)?)));
            }
        };
        Ok(match from {
            from if is_partitioned => FollowSource::Partitions(Box::new(arrowwood::follow_partitions(table, &from)?)),
            FollowFrom::Now => FollowSource::Table(Box::new(arrowwood::follow(table, None, timeout)?)),
            _ => FollowSource::Table(Box::new(arrowwood::follow(table, Some(0), timeout)?)),
        })
    }

    /// Waits for rows of table number `table`, which this is, for at most `timeout`.
    fn poll(&mut self, table: usize, timeout: Duration) -> arrowwood::Result<Option<ReceivedRows>> {
        match self {
            FollowSource::Table(follow) => {
                Ok(follow.poll(timeout)?.map(|rows| ReceivedRows { table, partition: None, rows }))
            }
            FollowSource::Partitions(follow) => {
                let received = follow.poll(timeout)?;
                Ok(received.map(|(name, rows)| ReceivedRows { table, partition: Some(name), rows }))
            }
        }
    }

    /// Returns the number of the next row, or of that of each partition.
    fn next(&self) -> FollowPosition {
        match self {
            FollowSource::Table(follow) => FollowPosition::Row(follow.next_row()),
            FollowSource::Partitions(follow) => FollowPosition::Rows(follow.next_rows()),
        }
    }
}

/// Iterate over the new rows of a table: each dataset contains the rows committed since the previous one.
///
/// For several tables, each dataset has rows of one of them, named by its :attr:`Dataset.path`; likewise for
/// partitions, each row once and in order, including partitions created later. Rows dropped before they were read
/// are an error: to continue without them, follow the table again from its :attr:`Dataset.first_row`.
///
/// Args:
///     table: a table's directory, or a dataset of one; or a list of those.
///     start: the number of the first row to return, at most that of the next row to be committed; for several
///         tables a list of those. By default only rows committed from now on. For a partitioned table 0, which is
///         all rows, or :attr:`Follow.next_row` of an earlier follower: a partition that is not in it, as one that
///         was renamed, begins with its first row. Leave out those that were sorted, or dropped and made again, since
///         then: other rows have these numbers now.
///     timeout: the seconds without new rows after which the iteration ends; by default it never ends.
///
/// Raises:
///     InvalidArgument: the dataset is not a whole table.
///     NotFound: there is no table.
///     RowOutOfRange: rows from `start` on were dropped, or the table ends before `start`; also during iteration, if
///         the writer drops unread rows. The message has the number of existing or dropped rows.
#[pyfunction]
#[pyo3(signature = (table, start = None, timeout = None))]
pub fn follow(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    start: Option<&Bound<'_, PyAny>>,
    timeout: Option<&Bound<'_, PyAny>>,
) -> Result<Follow> {
    let timeout = seconds("follow: timeout", timeout)?;
    let is_list = table.is_instance_of::<PyList>() || table.is_instance_of::<PyTuple>();
    let tables: Vec<arrowwood::Dataset> = if is_list {
        table.try_iter()?.map(|one| open_table("follow", py, &one?)).collect::<Result<_>>()?
    } else {
        vec![open_table("follow", py, table)?]
    };
    if tables.is_empty() {
        return Err(invalid_argument("follow needs a table"));
    }
    let starts: Vec<Option<FollowPosition>> = match start {
        None => vec![None; tables.len()],
        Some(start) if is_list => starts_of(start)?,
        Some(start) => vec![Some(start_of(start)?)],
    };
    if starts.len() != tables.len() {
        return Err(invalid_argument(format!("follow: {} first rows for {} tables", starts.len(), tables.len())));
    }
    let followed = tables.iter().zip(starts).map(|(table, start)| FollowSource::open(table, start, timeout));
    let followed = followed.collect::<Result<Vec<_>>>()?;
    let next_rows = Mutex::new(followed.iter().map(FollowSource::next).collect());
    let state = Mutex::new(FollowState { tables: followed, turn: 0, ready: None });
    Ok(Follow { state, tables: Mutex::new(tables), next_rows, timeout, is_closed: AtomicBool::new(false) })
}

/// Extracts the first row of a table, or the first rows of partitions by their directories.
fn start_of(object: &Bound<'_, PyAny>) -> Result<FollowPosition> {
    if !object.is_instance_of::<PyDict>() {
        return Ok(FollowPosition::Row(extract_u64("follow: start", "the number of a row", object)?));
    }
    match object.extract() {
        Ok(rows) => Ok(FollowPosition::Rows(rows)),
        Err(_) => Err(type_error("follow: expected start to be a dict of rows' numbers by directory")),
    }
}

/// Extracts the first rows of several tables; `None` means rows committed from now on.
fn starts_of(object: &Bound<'_, PyAny>) -> Result<Vec<Option<FollowPosition>>> {
    if !object.is_instance_of::<PyList>() && !object.is_instance_of::<PyTuple>() {
        let message = format!("follow: expected start to be a list of one row's number for each table, got {object}");
        return Err(type_error(message));
    }
    let mut starts = Vec::new();
    for start in object.try_iter()? {
        let start = start?;
        starts.push(if start.is_none() { None } else { Some(start_of(&start)?) });
    }
    Ok(starts)
}

/// Returns the dataset `table`, or opens the table in the directory `table`.
pub fn open_table(what: &str, py: Python<'_>, table: &Bound<'_, PyAny>) -> Result<arrowwood::Dataset> {
    if let Ok(dataset) = table.cast::<Dataset>() {
        return Ok(dataset.get().inner().clone());
    }
    let path = extract_path(table)?
        .ok_or_else(|| invalid_argument(format!("{what} takes a table's directory, or a dataset of one")))?;
    Ok(py.detach(|| arrowwood::open(path))?)
}

impl FollowState {
    /// Waits for rows, no longer than `timeout`, and returns true if some are ready; false if it is closed.
    fn wait(&mut self, timeout: Duration) -> arrowwood::Result<bool> {
        let deadline = Instant::now() + timeout;
        loop {
            let count = self.tables.len();
            if count == 0 {
                return Ok(false);
            }
            for number in (0..count).map(|ahead| (self.turn + ahead) % count) {
                if self.ready.is_some() {
                    return Ok(true);
                }
                self.ready = self.tables[number].poll(number, Duration::ZERO)?;
            }
            // Tables take turns, so that a busy one doesn't keep others waiting.
            self.turn = (self.turn + 1) % count;
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ready.is_some() || left.is_zero() {
                return Ok(self.ready.is_some());
            }
            let wait = if count == 1 { left } else { left.min(WAIT_PER_TABLE) };
            self.ready = self.tables[self.turn].poll(self.turn, wait)?;
        }
    }
}

impl Follow {
    fn lock(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock_ignoring_poison()
    }

    fn next_rows(&self) -> MutexGuard<'_, Vec<FollowPosition>> {
        self.next_rows.lock_ignoring_poison()
    }

    fn tables(&self) -> MutexGuard<'_, Vec<arrowwood::Dataset>> {
        self.tables.lock_ignoring_poison()
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Releases the tables' files, unless another thread waits: then that thread releases them when it notices.
    fn release(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            *state = FollowState { tables: Vec::new(), turn: 0, ready: None };
        }
    }

    /// Wraps rows of a table for Python, and counts them as returned.
    fn mark_returned(&self, ReceivedRows { table, partition, rows }: ReceivedRows) -> Result<Dataset> {
        let end = rows.first_row() + rows.len()?;
        let mut next_rows = self.next_rows();
        assert!(table < next_rows.len(), "rows of table {table} of {} followed tables", next_rows.len());
        match (&mut next_rows[table], partition) {
            (FollowPosition::Rows(next), Some(partition)) => drop(next.insert(partition, end)),
            (next, _) => *next = FollowPosition::Row(end),
        }
        Ok(Dataset::new(rows))
    }
}

#[pymethods]
impl Follow {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Dataset>> {
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map_or(CHECK_INTERVAL, |deadline| deadline.saturating_duration_since(Instant::now()));
            let received = py.detach(|| {
                let mut state = self.lock();
                state.wait(left.min(CHECK_INTERVAL)).map(|_| state.ready.take())
            })?;
            if !self.is_closed()
                && let Some(received) = received
            {
                return self.mark_returned(received).map(Some);
            }
            py.check_signals()?;
            if self.is_closed() {
                self.release();
                return Ok(None);
            }
            if left <= CHECK_INTERVAL && deadline.is_some() {
                return Ok(None);
            }
        }
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        let timeout = slf.get().timeout.map(|timeout| timeout.as_secs_f64());
        let module = slf.py().import("arrowwood._follow")?;
        Ok(module.call_py_method("advance", (slf, timeout))?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<()> {
        Follow::close(slf)
    }

    /// End the iteration, even if it waits in another thread or task, and release files and threads; does nothing if
    /// already closed. Datasets already returned are not affected.
    fn close(slf: &Bound<'_, Self>) -> Result<()> {
        let this = slf.get();
        this.is_closed.store(true, Ordering::Release);
        slf.py().detach(|| {
            this.tables().clear();
            this.release();
        });
        slf.py().import("arrowwood._follow")?.call_py_method("release", (slf,))?;
        Ok(())
    }

    /// Whether it is closed.
    #[getter]
    fn _is_closed(&self) -> bool {
        self.is_closed()
    }

    /// Wait for rows, at most the given number of seconds. They are kept until they are taken.
    fn _wait(&self, py: Python<'_>, seconds: f64) -> Result<()> {
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(CHECK_INTERVAL);
        py.detach(|| if self.is_closed() { Ok(true) } else { self.lock().wait(timeout) })?;
        if self.is_closed() {
            self.release();
        }
        Ok(())
    }

    /// The rows received, if there are any and no other thread is waiting for them.
    fn _take(&self, py: Python<'_>) -> Result<Option<Dataset>> {
        let received = py.detach(|| match self.state.try_lock() {
            Ok(mut state) if !self.is_closed() => state.wait(Duration::ZERO).map(|_| state.ready.take()),
            _ => Ok(None),
        })?;
        received.map(|rows| self.mark_returned(rows)).transpose()
    }

    /// The number of the row after the last returned one; for a partitioned table a dict of those by directory: by
    /// the name, see `start` of :func:`follow`.
    ///
    /// Raises:
    ///     InvalidArgument: several tables are followed; see :attr:`next_rows`.
    #[getter]
    fn next_row(&self) -> Result<FollowPosition> {
        match &self.next_rows()[..] {
            [next] => Ok(next.clone()),
            _ => Err(invalid_argument("several tables are followed, each with a next row of its own: see next_rows")),
        }
    }

    /// The same for each table, for resuming later: ``follow(tables, start=next_rows)``.
    #[getter(next_rows)]
    fn all_next_rows(&self) -> Vec<FollowPosition> {
        self.next_rows().clone()
    }

    /// The number of committed rows not returned yet, of all tables. Raises :class:`Closed` when closed.
    #[getter]
    fn lag(&self, py: Python<'_>) -> Result<u64> {
        let next_rows = self.next_rows().clone();
        let tables = self.tables().clone();
        if tables.is_empty() {
            return Err(Error::new(ErrorKind::Closed, "the follower is closed; follow the table anew").into());
        }
        assert_eq!(tables.len(), next_rows.len(), "each followed table must have a next row");
        let lag = py.detach(|| {
            let mut lag = 0;
            for (table, next) in tables.iter().zip(next_rows) {
                match next {
                    FollowPosition::Row(next) => {
                        let current = table.refresh()?;
                        // Rows can be read before this call sees their commit.
                        lag += (current.first_row() + current.len()?).saturating_sub(next);
                    }
                    FollowPosition::Rows(next) => lag += arrowwood::partitions_lag(table, &next)?,
                }
            }
            Ok::<_, arrowwood::Error>(lag)
        });
        Ok(lag?)
    }
}
