//! A writer that Python threads share, until it is closed.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use arrowwood::mapping::MutexExt;
use arrowwood::readable::escape_hidden;
use arrowwood::{Error, ErrorKind, blocking, mapping};
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;

use crate::interpreter::errors::{PyArrowwoodError, Result};

/// The time between the first attempts to lock a writer, which doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_micros(10);
const MAX_PAUSE: Duration = Duration::from_millis(1);

/// A writer of the table at `path`, and none when it is closed.
pub struct SharedWriter<W> {
    inner: Mutex<Option<W>>,
    path: PathBuf,
    process: u32,
}

impl<W: Send> SharedWriter<W> {
    pub fn new(writer: W, path: PathBuf) -> SharedWriter<W> {
        SharedWriter { inner: Mutex::new(Some(writer)), path, process: std::process::id() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the writer, for calls that are faster than letting other threads run.
    pub fn lock(&self, py: Python<'_>) -> Result<MutexGuard<'_, Option<W>>> {
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                // Another thread is writing, and may need the interpreter to go on.
                Err(TryLockError::WouldBlock) => py.detach(|| self.wait_for_lock().map(drop))?,
            }
        }
    }

    /// Waits until no other thread has the writer, and locks it. A signal ends the wait of Python's main thread.
    fn wait_for_lock(&self) -> arrowwood::Result<MutexGuard<'_, Option<W>>> {
        if !mapping::is_main_thread() {
            return Ok(self.inner.lock_ignoring_poison());
        }
        let mut pause = FIRST_PAUSE;
        let mut last_check = Instant::now();
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(MAX_PAUSE);
            if last_check.elapsed() >= blocking::POLL_INTERVAL {
                blocking::check_interrupt()?;
                last_check = Instant::now();
            }
        }
    }

    /// Does `work`, during which other Python threads run.
    pub fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut W) -> arrowwood::Result<T> + Send) -> Result<T> {
        let done = py.detach(|| {
            let mut inner = self.wait_for_lock()?;
            Ok::<_, Error>(inner.as_mut().map(work))
        })?;
        Ok(done.ok_or_else(|| self.closed())??)
    }

    /// Does `work`, which closes the writer, during which other Python threads run; nothing if it was closed before.
    pub fn close(&self, py: Python<'_>, work: impl FnOnce(W) -> arrowwood::Result<()> + Send) -> Result<()> {
        Ok(py.detach(|| match self.wait_for_lock()?.take() {
            Some(writer) => work(writer),
            None => Ok(()),
        })?)
    }

    pub fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        Ok(self.lock(py)?.is_none())
    }

    pub fn closed(&self) -> PyArrowwoodError {
        Error::new(ErrorKind::Closed, "the writer is closed; open the table anew").at(&self.path).into()
    }

    /// Warns of rows that are discarded with the Python object, which is about to be destroyed. `uncommitted` returns
    /// the number of uncommitted rows of an open writer.
    pub fn warn_if_uncommitted(&self, uncommitted: impl FnOnce(&W) -> u64) {
        // A fork has a copy of what its parent may still commit.
        if self.process != std::process::id() {
            return;
        }
        // Objects are destroyed by a thread that is attached to the interpreter, even when it ends. No other thread has
        // the object, so a lock that is held was leaked.
        let Ok(inner) = self.inner.try_lock() else { return };
        let rows = inner.as_ref().map_or(0, uncommitted);
        if rows > 0 {
            #[expect(clippy::disallowed_methods, reason = "the thread holds the lock")]
            let _ = Python::try_attach(|py| resource_warning(py, &self.path, rows));
        }
    }
}

/// Issues a `ResourceWarning`, and restores an exception that is already set.
fn resource_warning(py: Python<'_>, path: &Path, rows: u64) {
    let pending = PyErr::take(py);
    let table = escape_hidden(&path.to_string_lossy()).replace('\0', "\\0");
    let message = format!(
        "{table}: rows that were appended and not committed are discarded: {rows}; call commit() or close(), or use \
         the writer in a with block; rollback() discards them without a word"
    );
    if let Ok(message) = CString::new(message)
        && let Err(problem) = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &message, 1)
    {
        // If warnings are errors, there is no caller who could catch this one.
        problem.write_unraisable(py, None);
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}
