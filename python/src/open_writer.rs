//! A writer that Python threads share, until it is closed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use arrowwood::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::errors::{Failure, Result};

/// A writer of the table at `path`, and none when it is closed.
pub struct OpenWriter<W> {
    inner: Mutex<Option<W>>,
    path: PathBuf,
}

impl<W: Send> OpenWriter<W> {
    pub fn new(writer: W, path: PathBuf) -> OpenWriter<W> {
        OpenWriter { inner: Mutex::new(Some(writer)), path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The writer, for calls that are faster than letting other threads run.
    pub fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<W>> {
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // Another thread is writing, and may need the interpreter to go on.
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.inner.lock())),
            }
        }
    }

    /// Does `work`, during which other Python threads run.
    pub fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut W) -> arrowwood::Result<T> + Send) -> Result<T> {
        let done = py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_mut().map(work)
        });
        Ok(done.ok_or_else(|| self.closed())??)
    }

    /// Does `work`, which closes the writer, during which other Python threads run; nothing if it was closed before.
    pub fn close(&self, py: Python<'_>, work: impl FnOnce(W) -> arrowwood::Result<()> + Send) -> Result<()> {
        let close = || {
            let taken = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            taken.map_or(Ok(()), work)
        };
        Ok(py.detach(close)?)
    }

    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.lock(py).is_none()
    }

    pub fn closed(&self) -> Failure {
        Error::new(ErrorKind::Closed, "the writer is closed; open the table anew").at(&self.path).into()
    }
}
