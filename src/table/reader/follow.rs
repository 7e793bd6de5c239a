//! [`follow`]: new rows of a table, as they are committed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sealed_source::{SealedSource, SegmentEntry};
use super::segment::Segment;
use super::table::{can_grow, check_goes_on, close_files, has_sealed, let_go, reopened, still_there, wait_target};
use super::waker::FollowWaker;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{AwaitedWord, Mapping, Mode, guard, mappings_are_scarce};
use crate::table::protocol::publish;
use crate::text::plural;

/// The longest sleep: nothing wakes the followers of a directory that was removed.
const LOOK: Duration = Duration::from_millis(500);
/// The sleep between polls of a reader that can't write to the file, and so can't ask the writer to wake it.
const POLL: Duration = Duration::from_millis(1);
/// Polls before a follower sleeps: sleeping and waking takes longer than these.
const SPINS: usize = 100;
/// The shortest time between two wake-ups. To wake a process takes its writer some 4 µs: a follower of more frequent commits
/// looks this often instead of asking to be woken.
const NAP: Duration = Duration::from_micros(250);

/// Attempts to open a table while its rows are being dropped.
const TRIES: usize = 3;

/// An iterator over the new rows of a table, as datasets. These keep their segments open, and can still be read after the
/// rows are dropped from the table.
#[derive(Debug)]
pub struct TableFollower {
    dataset: Dataset,
    /// The number of the first row not returned yet.
    next: u64,
    timeout: Option<Duration>,
    /// A mapping of the live segment's file to sleep on, writable if permitted.
    bed: Option<Mapping>,
    /// The time of the last wake-up by the writer.
    woken: Option<Instant>,
    /// Whether commits are so frequent that the follower looks for them instead of being woken.
    naps: bool,
    /// The time of the last check that the table still exists.
    looked: Instant,
    waker: Option<FollowWaker>,
}

/// Iterates over the rows of the table `dataset` from row number `start` on, or over those committed from now on. Each item
/// contains the rows committed since the previous one. Ends after `timeout` without new rows, or never.
///
/// # Errors
/// `InvalidArgument` for a dataset that can't grow; `RowOutOfRange` if rows from `start` on were dropped, or if the table
/// ends before `start`.
pub fn follow(dataset: &Dataset, start: Option<u64>, timeout: Option<Duration>) -> Result<TableFollower> {
    if dataset.origin().is_some() {
        let message = "the dataset has partitions: follow the directory of one, or all of them by follow_partitions";
        return Err(Error::invalid_argument(message));
    }
    if !can_grow(dataset) {
        let message = "only a whole table can be followed: its directory, or a dataset of all of its rows";
        return Err(match dataset.path() {
            Some(path) => Error::invalid_argument(message).at(path),
            None => Error::invalid_argument(message),
        });
    }
    let dataset = dataset.refresh()?;
    let end = dataset.first_row() + dataset.len()?;
    let next = start.unwrap_or(end);
    let looked = Instant::now();
    let follow = TableFollower { dataset, next, timeout, bed: None, woken: None, naps: false, looked, waker: None };
    follow.check_gap()?;
    if next > end {
        return Err(follow.beyond(end));
    }
    Ok(follow)
}

impl TableFollower {
    /// Returns the next rows; `None` if there are none within `timeout`, or before it is [woken](Follow::waker).
    ///
    /// # Errors
    /// `RowOutOfRange` if rows were dropped before they were read: then call [`follow`] again from the table's first
    /// row. `FileChanged` if the live segment was truncated, or the table was removed, at the latest after half a
    /// second; otherwise as [`Dataset::refresh`].
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Dataset>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let newest = self.newest()?;
            let is_woken = self.waker.as_ref().is_some_and(FollowWaker::take);
            if newest.is_some() || is_woken {
                return Ok(newest);
            }
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                guard(|| {
                    let there = still_there(&self.dataset)?;
                    check_goes_on(&self.dataset, &there, self.next)?;
                    self.dataset = there;
                    Ok::<_, Error>(())
                })?;
            }
            guard(|| self.sleep(left.min(LOOK)))?;
        }
    }

    /// What ends a wait from another thread.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use arrowwood::{Writer, WriterOptions, follow, open, parse_schema};
    /// # let folder = tempfile::tempdir()?;
    /// # let table = folder.path().join("t");
    /// # Writer::open(&table, Some(parse_schema("n: int64")?.into()), &WriterOptions::default())?.close()?;
    /// let mut rows = follow(&open(&table)?, None, None)?;
    /// let waker = rows.waker();
    /// let waiting = std::thread::spawn(move || rows.poll(Duration::MAX));
    /// waker.wake();
    /// assert!(waiting.join().unwrap()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waker(&mut self) -> FollowWaker {
        self.waker.get_or_insert_with(FollowWaker::new).clone()
    }

    /// The committed rows not returned yet.
    fn newest(&mut self) -> Result<Option<Dataset>> {
        let next = self.next;
        // Rows of which a page was lost are not returned.
        guard(|| self.find_new()).inspect_err(|_| self.next = next)
    }

    fn find_new(&mut self) -> Result<Option<Dataset>> {
        let mut found = self.dataset.refresh().and_then(|newest| self.take(newest));
        for _ in 0..TRIES {
            // Known segments may have been dropped before they were opened, which is not an error of the table.
            if !matches!(&found, Err(e) if e.kind() == ErrorKind::NotFound) {
                break;
            }
            found = reopened(&self.dataset).and_then(|newest| self.take(newest));
        }
        found
    }

    /// Continues with `newest`: takes the rows from the next one on.
    fn take(&mut self, newest: Dataset) -> Result<Option<Dataset>> {
        check_goes_on(&self.dataset, &newest, self.next)?;
        self.dataset = newest;
        self.check_gap()?;
        let first = self.dataset.first_row();
        let from = self.next;
        let end = first + self.dataset.len()?;
        if from >= end {
            return Ok(None);
        }
        let rows = held(&self.dataset.slice(from - first, end - from)?)?;
        self.next = from + rows.len()?;
        if has_sealed(&rows) {
            self.dataset = let_go(&self.dataset, self.next);
        }
        Ok(Some(rows))
    }

    /// Refuses to continue after rows that were dropped: followers rely on missing none.
    fn check_gap(&self) -> Result<()> {
        let first = self.dataset.first_row();
        let Some(missed) = first.checked_sub(self.next).filter(|&missed| missed > 0) else { return Ok(()) };
        let message = format!(
            "following from row {}: {} dropped before being read, as by drop_before; the first row there is now is \
             {first}: follow the table from there to go on without them",
            self.next,
            plural(missed, "row was", "rows were")
        );
        Err(self.out_of_range(message))
    }

    /// Refuses to wait for a row far ahead: earlier rows would be missed. A reader that stored a row number lost in a
    /// power cut gets this error.
    fn beyond(&self, end: u64) -> Error {
        let first = self.dataset.first_row();
        self.out_of_range(format!(
            "following from row {}: the table has {} so far, and the next one is number {end}: follow the table from there to get it",
            self.next,
            plural(end - first, "row", "rows")
        ))
    }

    fn out_of_range(&self, message: String) -> Error {
        let error = Error::new(ErrorKind::RowOutOfRange, message);
        match self.dataset.pieces().first().and_then(|piece| piece.source.facts().path) {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// Whether the rows not returned yet are those of `now` from the same number on: another directory may have
    /// replaced the table's.
    ///
    /// # Errors
    /// `FileChanged` if they may be different rows.
    pub(crate) fn check_continues_in(&self, now: &Dataset) -> Result<()> {
        check_goes_on(&self.dataset, now, self.next)
    }

    /// Returns `rows`, the last returned ones, again with the next poll.
    pub(crate) fn put_back(&mut self, rows: &Dataset) {
        debug_assert!(rows.first_row() <= self.next);
        self.next = rows.first_row();
    }

    /// The number of the row after the last returned one.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let target = wait_target(&self.dataset);
        let bed = target.map(|(segment, ..)| bed_of(&mut self.bed, &segment.mapping)).transpose()?.flatten();
        let Some(((segment, page, sequence), bed)) = target.zip(bed) else {
            std::thread::sleep(timeout.min(POLL));
            return Ok(());
        };
        let word = page.sequence() as usize;
        for _ in 0..SPINS {
            if bed.load64(word) != sequence {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        if self.naps {
            std::thread::sleep(timeout.min(NAP));
            self.naps = bed.load64(word) != sequence;
            return Ok(());
        }
        let timeout = if bed.mode() == Mode::ReadWrite { timeout } else { timeout.min(POLL) };
        publish::request_wake(bed, page);
        let words = quiet(segment, bed);
        let sleep = || publish::wait(words, page, sequence, timeout);
        match &self.waker {
            Some(waker) => waker.asleep(words, page.sequence(), sleep),
            None => sleep(),
        }
        if bed.load64(word) != sequence {
            let before = self.woken.replace(Instant::now());
            self.naps = before.is_some_and(|before| before.elapsed() < NAP);
        }
        Ok(())
    }
}

/// The event to wait for.
pub(crate) enum WakeEvent {
    /// A word changes.
    Word(AwaitedWord),
    /// A name is added to the directory of a table whose writer is gone and left a file that doesn't grow.
    Names(PathBuf),
}

impl TableFollower {
    /// Returns the event that announces new rows. From now on the writer wakes those who wait for it; rows committed
    /// before must be looked for afterwards. `None` if the writer can't wake this process, for lack of permissions or
    /// mappings.
    pub(crate) fn wake_event(&mut self) -> Result<Option<WakeEvent>> {
        guard(|| {
            let Some((segment, page, sequence)) = wait_target(&self.dataset) else {
                let source = self.dataset.pieces().last().and_then(|piece| piece.source.facts().path);
                return Ok(source.map(|folder| WakeEvent::Names(folder.to_path_buf())));
            };
            if !self.bed.as_ref().is_some_and(|bed| bed.is_same_file(&segment.mapping)) && mappings_are_scarce() {
                return Ok(None);
            }
            let replaced = || Error::new(ErrorKind::FileChanged, "another file has taken the live segment's name");
            let bed = bed_of(&mut self.bed, &segment.mapping)?.ok_or_else(replaced)?;
            if bed.mode() != Mode::ReadWrite {
                return Ok(None);
            }
            // Only its words are needed: thousands of tables have thousands of files.
            bed.close_file();
            publish::request_wake(bed, page);
            let offset = page.sequence() as usize;
            let mapping = quiet(segment, bed).clone();
            Ok(Some(WakeEvent::Word(AwaitedWord { mapping, offset, value: sequence as u32 })))
        })
    }

    /// Closes the files of known segments, which stay mapped.
    pub(crate) fn close_files(&self) {
        close_files(&self.dataset);
    }

    /// Whether all committed rows have been seen.
    pub(crate) fn is_newest(&self) -> bool {
        self.dataset.is_newest()
    }
}

/// The mapping to wait on: where it is writable, waiting for a word of it counts as a store (Linux), which changes the file's time of
/// modification. Patched pages are this process's own, and don't change; neither do those of a file of a lower layer.
fn quiet<'a>(segment: &'a Segment, bed: &'a Mapping) -> &'a Mapping {
    if segment.mapping.is_patched() || segment.is_on_overlay { bed } else { &segment.mapping }
}

/// The mapping to be woken by: `known` if it is of the file of the live segment, which is mapped as `segment`, else a new one,
/// writable if permitted, so that the writer can be notified. `None` if another file has the segment's name by now, as
/// where a larger one took the place of an empty one: its words are others.
fn bed_of<'a>(known: &'a mut Option<Mapping>, segment: &Mapping) -> Result<Option<&'a Mapping>> {
    if !known.as_ref().is_some_and(|bed| bed.is_same_file(segment)) {
        let bed = |path| Mapping::open(path, Mode::ReadWrite).or_else(|_| Mapping::open(path, Mode::Read));
        *known = segment.path().map(bed).transpose()?;
    }
    Ok(known.as_ref().filter(|bed| bed.is_same_file(segment)))
}

impl Iterator for TableFollower {
    type Item = Result<Dataset>;

    fn next(&mut self) -> Option<Result<Dataset>> {
        self.poll(self.timeout.unwrap_or(Duration::MAX)).transpose()
    }
}

/// Returns the first of `rows`, with their segments opened, so that they can be read whatever happens to the files. All
/// rows, or those of as many segments as can safely be open at once.
///
/// # Errors
/// `NotFound` if the rows were dropped before.
fn held(rows: &Dataset) -> Result<Dataset> {
    const MOST: usize = 1024;
    let mut count = 0;
    for piece in rows.pieces() {
        let Some(history) = piece.source.find::<SealedSource>() else { break };
        let start = history.start() + piece.start;
        let end = start.saturating_add(piece.rows()?);
        let inside = |entry: &&Arc<SegmentEntry>| entry.first_row < end && entry.first_row + entry.rows > start;
        for entry in history.entries().filter(inside) {
            if count == MOST {
                return rows.slice(0, entry.first_row - start);
            }
            entry.open(&history.table)?;
            count += 1;
        }
    }
    Ok(rows.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::array::Value;
    use crate::table::reader::chain;
    use crate::table::{Writer, WriterOptions, compact};
    use crate::{open, parse_schema};

    fn writer(table: &Path) -> Writer {
        let schema = Arc::new(parse_schema("text: utf8").unwrap());
        let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
        Writer::open(table, Some(schema), &options).unwrap()
    }

    /// A larger segment took the name of an empty one, on whose file the follower went on to sleep: it was woken by nobody,
    /// or never slept at all.
    #[test]
    fn a_follower_sleeps_on_the_file_whose_rows_it_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = writer(&table);
        let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
        follower.sleep(Duration::ZERO).unwrap();
        writer.append_row(&[Value::Str(&"long".repeat(1 << 20))]).unwrap();
        writer.commit().unwrap();
        assert_eq!(follower.poll(Duration::ZERO).unwrap().unwrap().len().unwrap(), 1);
        let path = chain::path(&std::fs::canonicalize(&table).unwrap(), 0);
        follower.sleep(Duration::ZERO).unwrap();
        assert!(follower.bed.as_ref().is_some_and(|bed| bed.is_at(&path).unwrap()));
        let Some(WakeEvent::Word(word)) = follower.wake_event().unwrap() else { panic!("nothing to wait for") };
        assert!(word.mapping.is_at(&path).unwrap());
    }

    /// A small file took the name of the segment before the follower mapped it to sleep: it has no words where the follower
    /// looked for them.
    #[test]
    fn a_file_that_took_the_name_of_a_segment_is_none_to_sleep_on() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = writer(&table);
        writer.append_row(&[Value::Str("short")]).unwrap();
        writer.close().unwrap();
        let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
        compact(&table, |_, _| ()).unwrap();
        follower.sleep(Duration::ZERO).unwrap();
        assert_eq!(follower.wake_event().err().map(|e| e.kind()), Some(ErrorKind::FileChanged));
    }
}
