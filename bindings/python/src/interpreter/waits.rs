//! Waits for bytes in a store, while other Python threads run.

use arrowwood::blocking;
use pyo3::prelude::*;

use super::errors::Result;

/// Does `work` with what is here, without letting other threads run, which would take longer than a value. If bytes are
/// missing, waits for them while other threads run, and does `work` again from its beginning.
pub fn retry_until_fetched<T>(py: Python<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    if !blocking::may_block() {
        return work();
    }
    loop {
        let (done, missed) = blocking::try_without_blocking(&mut work);
        match missed {
            Some(missed) => py.detach(|| missed.wait())?,
            None => return done,
        }
    }
}
