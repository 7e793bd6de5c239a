//! [`follow`]: new rows of a table, as they come.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::table::{can_grow, still_there, watched};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::{Mapping, Mode, guard};
use crate::table::protocol::publish;

/// The longest sleep without a look: a folder that was removed wakes nobody.
const LOOK: Duration = Duration::from_millis(500);
/// How long a reader sleeps that may not write to the file, and so can't tell the writer that it sleeps.
const POLL: Duration = Duration::from_millis(1);
/// How often a follower looks before it sleeps: sleeping and being woken takes longer than this.
const SPINS: usize = 100;

/// New rows of a table, dataset after dataset.
#[derive(Debug)]
pub struct Follow {
    dataset: Dataset,
    /// The number of the first row that was not handed out.
    next: u64,
    timeout: Option<Duration>,
    bed: Option<(PathBuf, Mapping)>,
    /// When it was last made sure that the table is still there.
    looked: Instant,
}

/// The rows of `dataset`, a table, from row number `start` on, or those that come from now on; each dataset holds what
/// was committed since the one before. It ends when nothing came for `timeout`, or never.
///
/// # Errors
/// `InvalidArgument` for a dataset that can't grow.
pub fn follow(dataset: &Dataset, start: Option<u64>, timeout: Option<Duration>) -> Result<Follow> {
    if !can_grow(dataset) {
        return Err(Error::argument("only a whole table can be followed"));
    }
    let dataset = dataset.refresh()?;
    let next = start.unwrap_or(dataset.first_row() + dataset.len()?);
    Ok(Follow { dataset, next, timeout, bed: None, looked: Instant::now() })
}

impl Follow {
    /// The next rows; `None` when none came for `timeout`.
    ///
    /// # Errors
    /// `FileChanged` when the live segment was truncated, or when the table was removed, at the latest after half a second;
    /// else as [`Dataset::refresh`].
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Dataset>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            self.dataset = self.dataset.refresh()?;
            let (first, rows) = (self.dataset.first_row(), self.dataset.len()?);
            let from = self.next.max(first);
            if from < first + rows {
                self.next = first + rows;
                return self.dataset.slice(from - first, first + rows - from).map(Some);
            }
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                self.dataset = still_there(&self.dataset)?;
            }
            guard(|| self.sleep(left.min(LOOK)))?;
        }
    }

    /// The number of the row behind the last that was handed out.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let Some((path, page, sequence)) = watched(&self.dataset) else {
            std::thread::sleep(timeout.min(POLL));
            return Ok(());
        };
        if self.bed.as_ref().is_none_or(|(known, _)| known != path) {
            self.bed = Some((path.to_path_buf(), bed(path)?));
        }
        let Some((_, bed)) = &self.bed else { return Ok(()) };
        let word = page.sequence() as usize;
        for _ in 0..SPINS {
            if bed.load64(word) != sequence {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let timeout = if bed.mode() == Mode::ReadWrite { timeout } else { timeout.min(POLL) };
        publish::sleep(bed, page, sequence, timeout);
        Ok(())
    }
}

/// A mapping to sleep on, writable if we may, so that the writer can be told.
fn bed(path: &Path) -> Result<Mapping> {
    Mapping::open(path, Mode::ReadWrite).or_else(|_| Mapping::open(path, Mode::Read))
}

impl Iterator for Follow {
    type Item = Result<Dataset>;

    fn next(&mut self) -> Option<Result<Dataset>> {
        self.poll(self.timeout.unwrap_or(Duration::MAX)).transpose()
    }
}
