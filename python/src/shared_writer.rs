//! A writer that Python threads share, until it is closed.

use arrowwood::mapping::MutexExt;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use arrowwood::{Error, ErrorKind, blocking, escape_hidden, mapping};
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;

use crate::errors::{PyArrowwoodError, Result};

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

    /// The writer, for calls that are faster than letting other threads run.
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

    /// The writer, as soon as no other thread has it, or until a signal ends the wait of Python's main thread.
    fn wait_for_lock(&self) -> arrowwood::Result<MutexGuard<'_, Option<W>>> {
        if !mapping::is_main_thread() {
            return Ok(self.inner.lock_ignoring_poison());
        }
        let mut pause = Duration::from_micros(10);
        let mut asked = Instant::now();
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(1));
            if asked.elapsed() >= blocking::TURN {
                blocking::check_interrupt()?;
                asked = Instant::now();
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
        let close = || {
            let taken = self.wait_for_lock()?.take();
            taken.map_or(Ok(()), work)
        };
        Ok(py.detach(close)?)
    }

    pub fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        Ok(self.lock(py)?.is_none())
    }

    pub fn closed(&self) -> PyArrowwoodError {
        Error::new(ErrorKind::Closed, "the writer is closed; open the table anew").at(&self.path).into()
    }

    /// Warns of rows that are discarded with the object of a writer that nobody has any more: `uncommitted` says how many
    /// there are in one that is open.
    pub fn warn_if_uncommitted(&self, uncommitted: impl FnOnce(&W) -> u64) {
        // A fork has a copy of what its parent may still commit.
        if self.process != std::process::id() {
            return;
        }
        // What is destroyed is so with the interpreter at hand, also when it ends. A lock that is held is one that was
        // forgotten: nobody else has the object.
        let Ok(inner) = self.inner.try_lock() else { return };
        let rows = inner.as_ref().map_or(0, uncommitted);
        if rows > 0 {
            let _ = Python::try_attach(|py| resource_warning(py, &self.path, rows));
        }
    }
}

/// Issues a `ResourceWarning`, by which an exception that is on its way is not lost.
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
        // Where warnings are errors: nobody calls this who could catch it.
        problem.write_unraisable(py, None);
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}
