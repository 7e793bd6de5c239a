//! A writer that Python threads share, until it is closed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arrowwood::{Error, ErrorKind, mapping, waits};
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
    pub fn lock(&self, py: Python<'_>) -> Result<MutexGuard<'_, Option<W>>> {
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                // Another thread is writing, and may need the interpreter to go on.
                Err(TryLockError::WouldBlock) => py.detach(|| self.turn().map(drop))?,
            }
        }
    }

    /// The writer, as soon as no other thread has it, or until a signal ends the wait of Python's main thread.
    fn turn(&self) -> arrowwood::Result<MutexGuard<'_, Option<W>>> {
        if !mapping::is_first_thread() {
            return Ok(self.inner.lock().unwrap_or_else(PoisonError::into_inner));
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
            if asked.elapsed() >= waits::TURN {
                waits::check()?;
                asked = Instant::now();
            }
        }
    }

    /// Does `work`, during which other Python threads run.
    pub fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut W) -> arrowwood::Result<T> + Send) -> Result<T> {
        let done = py.detach(|| {
            let mut inner = self.turn()?;
            Ok::<_, Error>(inner.as_mut().map(work))
        })?;
        Ok(done.ok_or_else(|| self.closed())??)
    }

    /// Does `work`, which closes the writer, during which other Python threads run; nothing if it was closed before.
    pub fn close(&self, py: Python<'_>, work: impl FnOnce(W) -> arrowwood::Result<()> + Send) -> Result<()> {
        let close = || {
            let taken = self.turn()?.take();
            taken.map_or(Ok(()), work)
        };
        Ok(py.detach(close)?)
    }

    pub fn is_closed(&self, py: Python<'_>) -> Result<bool> {
        Ok(self.lock(py)?.is_none())
    }

    pub fn closed(&self) -> Failure {
        Error::new(ErrorKind::Closed, "the writer is closed; open the table anew").at(&self.path).into()
    }
}
