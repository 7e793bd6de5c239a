//! `follow`: new rows of a table, as they come.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::errors::{Result, argument};
use crate::open::path_of;

/// How long a wait goes on without a look at Python's signals.
const LOOK: Duration = Duration::from_millis(100);

/// New rows of a table, dataset after dataset, made by :func:`follow`.
#[pyclass(frozen, module = "arrowwood")]
pub struct Follow {
    inner: Mutex<arrowwood::Follow>,
    timeout: Option<Duration>,
}

/// Iterate over the new rows of a table as they come: each dataset holds what was committed since the one before.
///
/// Args:
///     table: a table's folder, or a dataset of one.
///     start: the number of the first row wanted; by default those that come from now on.
///     timeout: the seconds without new rows after which the iteration ends; by default it never does.
///
/// Raises:
///     InvalidArgument: the dataset is not a whole table.
///     NotFound: there is no table.
#[pyfunction]
#[pyo3(signature = (table, start = None, timeout = None))]
pub fn follow(py: Python<'_>, table: &Bound<'_, PyAny>, start: Option<u64>, timeout: Option<f64>) -> Result<Follow> {
    let wrong = |_| argument("timeout must be a number of seconds that is not negative");
    let timeout = timeout.map(Duration::try_from_secs_f64).transpose().map_err(wrong)?;
    let dataset = match table.cast::<Dataset>() {
        Ok(dataset) => dataset.get().inner().clone(),
        Err(_) => {
            let path = path_of(table)?.ok_or_else(|| argument("follow takes a table's folder, or a dataset of one"))?;
            py.detach(|| arrowwood::open(path))?
        }
    };
    let inner = arrowwood::follow(&dataset, start, timeout)?;
    Ok(Follow { inner: Mutex::new(inner), timeout })
}

#[pymethods]
impl Follow {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Dataset>> {
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            let poll = || self.inner.lock().unwrap_or_else(PoisonError::into_inner).poll(left.min(LOOK));
            if let Some(found) = py.detach(poll)? {
                return Ok(Some(Dataset::new(found)));
            }
            py.check_signals()?;
            if left <= LOOK && deadline.is_some() {
                return Ok(None);
            }
        }
    }

    /// The number of the row behind the last that was handed out.
    #[getter]
    fn next_row(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).next_row()
    }
}
