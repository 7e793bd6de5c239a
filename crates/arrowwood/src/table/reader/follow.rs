//! Follows the new rows of a table, as they are committed: see [`follow`].
//!
//! Between commits a [`TableFollower`] sleeps on the word of the live segment that has the number of the newest commit:
//!
//! 1. It reads the word a few times, as commits often come at once.
//! 2. If the last wake-up was a moment ago, it sleeps for a fixed time instead of asking to be woken.
//! 3. Otherwise it sets the segment's `waiting` flag and sleeps until the word changes. The writer clears the flag and
//!    wakes all sleepers of the word. [`publish`] describes why no wake-up is missed.
//!
//! To set the flag, it maps the file writable. If it has no permission to write, it polls. Once the segment is sealed,
//! or if the last file doesn't grow, there is no word to sleep on, and it polls as well. A [`FollowWaker`] ends a sleep
//! from another thread. As removing a directory wakes nobody, no sleep is longer than [`MAX_SLEEP`], after which the
//! follower checks that the table is still there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::sealed_source::SealedSource;
use super::segment::Segment;
use super::table::{
    WaitTarget, can_grow, check_goes_on, check_still_there, close_files, has_sealed, release_segments, reopen,
    wait_target,
};
use super::waker::FollowWaker;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{AwaitedWord, Mapping, Mode, guard, mappings_are_scarce, os};
use crate::table::protocol::publish;
use crate::text::plural;

/// The longest sleep: nothing wakes the followers of a directory that was removed.
const MAX_SLEEP: Duration = Duration::from_millis(500);
/// The sleep between polls of a reader that can't write to the file, and so can't ask the writer to wake it.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The interval at which a follower looks for what another machine has synced.
const SYNC_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of polls before a follower sleeps. They take less time than going to sleep and waking up.
const MAX_SPINS: usize = 100;
/// The shortest time between two wake-ups. Waking a process takes its writer some 4 µs: a follower of more frequent
/// commits polls this often instead of asking to be woken.
const MIN_WAKE_INTERVAL: Duration = Duration::from_micros(250);

/// The maximum number of attempts to open a table again while its rows are being dropped.
const MAX_REOPENS: usize = 3;

/// An iterator over the new rows of a table, as datasets.
///
/// These keep their segments open, and can still be read after the rows are dropped from the table.
#[derive(Debug)]
pub struct TableFollower {
    dataset: Dataset,
    /// The number of the first row not returned yet.
    next: u64,
    /// The time without rows after which the iterator ends.
    timeout: Option<Duration>,
    /// A mapping of the live segment's file to be woken by, writable if permitted.
    wake_mapping: Option<Mapping>,
    /// The time at which the word last changed during a sleep.
    last_wake: Option<Instant>,
    /// True if commits are so frequent that the follower polls for them instead of being woken.
    has_frequent_commits: bool,
    /// The time of the last check that the table still exists.
    last_check: Instant,
    /// The handle that ends a wait, once it was asked for.
    waker: Option<FollowWaker>,
}

/// Iterates over the rows of the table `dataset` as they are committed.
///
/// The first one is row number `start`, or the first that is committed from now on. Each item contains the rows
/// committed since the previous one. Ends after `timeout` without new rows, or never.
///
/// ```
/// use std::time::Duration;
///
/// use arrowwood::{Value, Writer, WriterOptions, follow, open, parse_schema};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks");
/// let mut writer = Writer::open(&path, Some(parse_schema("n: int64")?.into()), &WriterOptions::default())?;
/// for n in 0..3 {
///     writer.append_row(&[Value::Int(n)])?;
/// }
/// writer.commit()?;
/// let mut rows = 0;
/// for newer in follow(&open(&path)?, Some(1), Some(Duration::ZERO))? {
///     rows += newer?.len()?;
/// }
/// assert_eq!(rows, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `InvalidArgument` for a dataset that can't grow; `RowOutOfRange` if rows from `start` on were dropped, or if the
/// table ends before `start`.
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
    let follower = TableFollower {
        dataset,
        next,
        timeout,
        wake_mapping: None,
        last_wake: None,
        has_frequent_commits: false,
        last_check: Instant::now(),
        waker: None,
    };

    follower.check_gap()?;
    if next > end {
        return Err(follower.beyond(end));
    }
    Ok(follower)
}

impl TableFollower {
    /// Returns the next rows; `None` if there are none within `timeout`, or before it is [woken](TableFollower::waker).
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
            let left = deadline.map_or(MAX_SLEEP, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            if self.last_check.elapsed() >= MAX_SLEEP {
                self.last_check = Instant::now();
                guard(|| self.check_still_there())?;
            }
            guard(|| self.sleep(left.min(MAX_SLEEP)))?;
        }
    }

    /// Checks that the table still exists, which nothing else would notice during a sleep.
    fn check_still_there(&mut self) -> Result<()> {
        let newest = check_still_there(&self.dataset)?;
        check_goes_on(&self.dataset, &newest, self.next)?;
        self.dataset = newest;
        Ok(())
    }

    /// Returns a handle that ends a wait from another thread.
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

    /// Returns the committed rows not returned yet.
    fn newest(&mut self) -> Result<Option<Dataset>> {
        let next = self.next;
        // An error returns no rows, such as for a lost page: the next poll begins with the same row.
        guard(|| self.take_new()).inspect_err(|_| self.next = next)
    }

    /// Refreshes the dataset and takes its new rows.
    fn take_new(&mut self) -> Result<Option<Dataset>> {
        let mut rows = self.dataset.refresh().and_then(|newest| self.take(newest));
        for _ in 0..MAX_REOPENS {
            // Known segments may have been dropped before they were opened, which is not an error of the table.
            if !matches!(&rows, Err(e) if e.kind() == ErrorKind::NotFound) {
                break;
            }
            rows = reopen(&self.dataset).and_then(|newest| self.take(newest));
        }
        rows
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
        let rows = with_open_segments(&self.dataset.slice(from - first, end - from)?)?;
        self.next = from + rows.len()?;
        assert!(self.next <= end, "rows up to {} of a table that ends with {end}", self.next);
        if has_sealed(&rows) {
            self.dataset = release_segments(&self.dataset, self.next);
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
            "following from row {}: the table has {} so far, and the next one is number {end}: follow the table from \
             there to get it",
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

    /// Checks that the rows not returned yet are the same in `newest`: another directory may have replaced the table's.
    ///
    /// # Errors
    /// `FileChanged` if they may be different rows.
    pub(crate) fn check_continues_in(&self, newest: &Dataset) -> Result<()> {
        check_goes_on(&self.dataset, newest, self.next)
    }

    /// Returns `rows`, the last returned ones, again with the next poll.
    pub(crate) fn put_back(&mut self, rows: &Dataset) {
        assert!(rows.first_row() <= self.next, "rows that were not returned are put back");
        self.next = rows.first_row();
    }

    /// Returns the number of the row after the last returned one.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    /// Sleeps until there may be new rows, at most for `timeout`.
    fn sleep(&mut self, timeout: Duration) -> Result<()> {
        let target = wait_target(&self.dataset);
        if target.is_some_and(|target| target.awaits_sync) {
            std::thread::sleep(timeout.min(SYNC_POLL_INTERVAL));
            return Ok(());
        }
        let mapping = match target {
            Some(target) => open_wake_mapping(&mut self.wake_mapping, &target.segment.mapping)?,
            None => None,
        };
        let Some((WaitTarget { segment, page, sequence, .. }, mapping)) = target.zip(mapping) else {
            std::thread::sleep(timeout.min(POLL_INTERVAL));
            return Ok(());
        };
        let word = page.sequence() as usize;

        for _ in 0..MAX_SPINS {
            if mapping.load64(word) != sequence {
                return Ok(());
            }
            std::hint::spin_loop();
        }

        if self.has_frequent_commits {
            std::thread::sleep(timeout.min(MIN_WAKE_INTERVAL));
            self.has_frequent_commits = mapping.load64(word) != sequence;
            return Ok(());
        }

        let timeout = if mapping.mode() == Mode::ReadWrite { timeout } else { timeout.min(POLL_INTERVAL) };
        publish::request_wake(mapping, page);
        let words = mapping_to_wait_on(segment, mapping);
        match &self.waker {
            Some(waker) => {
                waker.sleep_with(words, page.sequence(), || publish::wait(words, page, sequence, timeout));
            }
            None => publish::wait(words, page, sequence, timeout),
        }

        if mapping.load64(word) != sequence {
            let last_wake = self.last_wake.replace(Instant::now());
            self.has_frequent_commits = last_wake.is_some_and(|last_wake| last_wake.elapsed() < MIN_WAKE_INTERVAL);
        }
        Ok(())
    }
}

/// The event to wait for.
pub(crate) enum WakeEvent {
    /// The word with the number of the newest commit changes.
    Word(AwaitedWord),
    /// A name is added to this directory of a table, whose last file doesn't grow.
    Names(PathBuf),
}

impl TableFollower {
    /// Returns the event that announces new rows. From now on the writer wakes its waiters; the caller must poll for
    /// rows committed before. `None` if the writer can't wake this process, for lack of permissions or mappings.
    pub(crate) fn wake_event(&mut self) -> Result<Option<WakeEvent>> {
        guard(|| self.request_wake())
    }

    fn request_wake(&mut self) -> Result<Option<WakeEvent>> {
        let Some(WaitTarget { segment, page, sequence, awaits_sync }) = wait_target(&self.dataset) else {
            let folder = self.dataset.pieces().last().and_then(|piece| piece.source.facts().path);
            return Ok(folder.map(|folder| WakeEvent::Names(folder.to_path_buf())));
        };
        if awaits_sync {
            return Ok(None);
        }
        let is_mapped = self.wake_mapping.as_ref().is_some_and(|mapping| mapping.is_same_file(&segment.mapping));
        if !is_mapped && mappings_are_scarce() {
            return Ok(None);
        }
        let Some(mapping) = open_wake_mapping(&mut self.wake_mapping, &segment.mapping)? else {
            return Err(Error::new(ErrorKind::FileChanged, "another file has taken the live segment's name"));
        };
        if mapping.mode() != Mode::ReadWrite {
            return Ok(None);
        }
        // Only its words are needed: thousands of tables have thousands of files.
        mapping.close_file();
        publish::request_wake(mapping, page);
        let offset = page.sequence() as usize;
        let mapping = mapping_to_wait_on(segment, mapping).clone();
        Ok(Some(WakeEvent::Word(AwaitedWord { mapping, offset, value: sequence as u32 })))
    }

    /// Closes the files of known segments, which stay mapped.
    pub(crate) fn close_files(&self) {
        close_files(&self.dataset);
    }

    /// Returns true if there are no committed rows that this follower has not seen.
    pub(crate) fn is_newest(&self) -> bool {
        self.dataset.is_newest()
    }
}

/// Returns the mapping to wait on: the segment's, which is read-only, unless its words never change. Linux treats a
/// wait on a writable mapping as a store, which changes the file's modification time. Patched pages belong to this
/// process, and don't change, and neither do pages of a file in a lower layer.
fn mapping_to_wait_on<'a>(segment: &'a Segment, wake_mapping: &'a Mapping) -> &'a Mapping {
    if segment.mapping.is_patched() || segment.is_on_overlay { wake_mapping } else { &segment.mapping }
}

/// Returns a mapping of the file that is mapped as `segment`, writable if permitted, so that the writer can be
/// notified: `wake_mapping`, or a new one in its place. `None` if another file has the segment's name by now, as when a
/// larger segment has replaced an empty one: it has other words.
fn open_wake_mapping<'a>(wake_mapping: &'a mut Option<Mapping>, segment: &Mapping) -> Result<Option<&'a Mapping>> {
    if !wake_mapping.as_ref().is_some_and(|mapping| mapping.is_same_file(segment)) {
        *wake_mapping = match segment.path() {
            // What a process stores that can't write tables may not reach the writer, which may run elsewhere.
            Some(path) if !os::CAN_LOCK_DIRECTORIES => Some(Mapping::open(path, Mode::Read)?),
            Some(path) => Some(Mapping::open(path, Mode::ReadWrite).or_else(|_| Mapping::open(path, Mode::Read))?),
            None => None,
        };
    }
    Ok(wake_mapping.as_ref().filter(|mapping| mapping.is_same_file(segment)))
}

impl Iterator for TableFollower {
    type Item = Result<Dataset>;

    fn next(&mut self) -> Option<Result<Dataset>> {
        self.poll(self.timeout.unwrap_or(Duration::MAX)).transpose()
    }
}

/// The maximum number of segments that one dataset of a follower keeps open.
const MAX_OPEN_SEGMENTS: usize = 1024;

/// Opens the segments of `rows`, so that they can be read whatever happens to the files. Returns all rows, or the first
/// ones in as many segments as can safely be open at once.
///
/// # Errors
/// `NotFound` if the rows were dropped before.
fn with_open_segments(rows: &Dataset) -> Result<Dataset> {
    let mut count = 0;
    for piece in rows.pieces() {
        let Some(history) = piece.source.find::<SealedSource>() else { break };
        let start = history.start() + piece.start;
        let end = start.saturating_add(piece.rows()?);
        for entry in history.entries() {
            if entry.first_row >= end || entry.first_row + entry.rows <= start {
                continue;
            }
            if count == MAX_OPEN_SEGMENTS {
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

    fn open_writer(table: &Path) -> Writer {
        let schema = Arc::new(parse_schema("text: utf8").unwrap());
        let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
        Writer::open(table, Some(schema), &options).unwrap()
    }

    /// A larger segment replaced an empty one. The follower went on to sleep on the old file, so that it was never
    /// woken, or didn't sleep at all.
    #[test]
    fn follower_sleeps_on_the_file_of_the_next_rows() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = open_writer(&table);
        let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
        follower.sleep(Duration::ZERO).unwrap();
        writer.append_row(&[Value::Str(&"long".repeat(1 << 20))]).unwrap();
        writer.commit().unwrap();
        assert_eq!(follower.poll(Duration::ZERO).unwrap().unwrap().len().unwrap(), 1);
        let path = chain::path(&std::fs::canonicalize(&table).unwrap(), 0);
        follower.sleep(Duration::ZERO).unwrap();
        assert!(follower.wake_mapping.as_ref().is_some_and(|mapping| mapping.is_at(&path).unwrap()));
        let Some(WakeEvent::Word(word)) = follower.wake_event().unwrap() else { panic!("nothing to wait for") };
        assert!(word.mapping.is_at(&path).unwrap());
    }

    /// A compacted file replaced the segment before the follower mapped it to sleep. That file has no word to wait for.
    #[test]
    fn follower_does_not_sleep_on_a_renamed_file() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = open_writer(&table);
        writer.append_row(&[Value::Str("short")]).unwrap();
        writer.close().unwrap();
        let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
        compact(&table, |_, _| ()).unwrap();
        follower.sleep(Duration::ZERO).unwrap();
        assert_eq!(follower.wake_event().err().map(|e| e.kind()), Some(ErrorKind::FileChanged));
    }
}
