//! Follows the new rows of all partitions, including new partitions.
//!
//! A [`PartitionsFollower`] has one [`TableFollower`] for each partition, and alternates between two modes:
//!
//! - While rows arrive, it polls all partitions, with pauses that double from [`MIN_PAUSE`] to [`MAX_PAUSE`].
//! - Then it sleeps: a [`WaitSet`] waits in the kernel for the words of all live segments, and for names added to or
//!   removed from the directories. It is created first, and then everything is looked at once more, so that no change
//!   in between is missed.
//!
//! All state belongs to the calling thread; the threads of the `WaitSet` only wake it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;

use super::origin::{LeafPartition, Partitions, partitions_of};
use crate::dataset::{ConstantColumn, Dataset, Origin, SourceSlice, resolve_columns};
use crate::directory::{FileId, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::map::WaitSet;
use crate::table::{TableFollower, WakeEvent, follow};

/// The minimum time between two polls of all partitions, while rows arrive.
const MIN_PAUSE: Duration = Duration::from_micros(500);
/// The maximum time between two polls, after which the follower sleeps until it is woken. If it can't be woken, it
/// keeps polling at this interval.
const MAX_PAUSE: Duration = Duration::from_millis(20);
/// The maximum duration of a sleep: some ways of removing files don't wake the follower.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// The start of following a partitioned table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowFrom {
    /// Rows committed from now on.
    Now,
    /// The first row of each partition.
    First,
    /// The next row of each partition, by its directory such as `host=a1/day=3`; see [`PartitionsFollower::next_rows`].
    ///
    /// Partitions that are not in the map, such as renamed ones, are new and begin with their first row.
    ///
    /// The numbers refer to the directory that has the name now. If its partition was sorted, or dropped and created
    /// again, since the numbers were noted, they refer to other rows. Leave a partition out to begin with its first
    /// row.
    Rows(BTreeMap<String, u64>),
}

/// An iterator over the new rows of a partitioned table, partition by partition.
///
/// The rows of each partition come in order, each once. New partitions are found within milliseconds, and begin with
/// their first row.
///
/// Between commits the follower sleeps and takes no processor time: a commit, or a created or removed partition, wakes
/// it. Waiting needs one thread per 127 partitions, which ends with the follower. If the system can't wake it, or the
/// files are not writable, it polls all partitions every 20 ms.
#[derive(Debug)]
pub struct PartitionsFollower {
    /// The whole dataset, which finds new partitions.
    partitions: Partitions,
    /// The schema of the returned rows. New columns of partitions are added.
    schema: SchemaRef,
    /// The numbers of these columns among all columns of the partitions.
    columns: Arc<[usize]>,
    followed: Vec<FollowedPartition>,
    /// The number of the partition to poll first, so that no partition keeps the others from their turn.
    turn: usize,
    /// The time until the next poll, while the follower does not sleep.
    pause: Duration,
    /// The pending sleep and its start: as long as it is not woken, there are no new rows.
    sleep: Option<(WaitSet, Instant)>,
    /// True if the follower can't be woken, so that it has to poll.
    must_poll: bool,
    /// True if a partition could not be followed, which is tried again.
    has_missed: bool,
}

/// A partition, and how far it was followed.
#[derive(Debug)]
struct FollowedPartition {
    /// The path of its directory below the root, such as `host=a1`.
    name: String,
    /// The directory that is followed: another one may have its name by now.
    identity: FileId,
    /// The partition columns.
    constants: Arc<[ConstantColumn]>,
    path: PathBuf,
    follow: TableFollower,
    /// True if its directory was removed, or replaced by another one of the same name.
    is_gone: bool,
    /// True if it is gone, and all of its rows have been returned.
    has_ended: bool,
}

/// The relation of the rows in a directory to the rows that were followed under the same name.
enum DirectoryChange {
    /// The directory continues the same rows.
    Same,
    /// The directory may have the same rows in another order, but none of them was returned yet.
    Unread,
    /// The directory has the rows of another table.
    Other,
}

impl FollowedPartition {
    /// Compares the followed rows with the rows of `leaf`, which has the same name.
    ///
    /// # Errors
    /// `FileChanged` if `leaf` may have rows that were returned before, under other numbers.
    fn compare(&self, leaf: &LeafPartition) -> Result<DirectoryChange> {
        if self.identity == leaf.identity {
            return Ok(DirectoryChange::Same);
        }
        // Another directory of the same name: the rows were sorted, or the partition was dropped and created again.
        let Err(e) = self.follow.check_continues_in(&leaf.stored) else { return Ok(DirectoryChange::Same) };
        let first_row = leaf.stored.first_row();
        let next_row = self.follow.next_row();
        if next_row <= first_row {
            Ok(DirectoryChange::Unread)
        } else if next_row <= first_row + leaf.stored.len()? {
            Err(e)
        } else {
            Ok(DirectoryChange::Other)
        }
    }

    /// Returns the rows since the last poll, if there are any. Notes whether the partition is gone.
    fn poll(&mut self) -> Result<Option<Dataset>> {
        let polled = self.follow.poll(Duration::ZERO);
        let error_kind = polled.as_ref().err().map(Error::kind);
        // The directory may have been dropped since partitions were listed.
        self.is_gone |= error_kind == Some(ErrorKind::NotFound) && !exists(&self.path)?;
        // Segments that were not mapped are gone with the directory, or another table has their names.
        let is_over = matches!(error_kind, Some(ErrorKind::NotFound | ErrorKind::FileChanged));
        self.has_ended = self.is_gone && (is_over || matches!(polled, Ok(None)));
        if matches!(polled, Ok(Some(_))) {
            // Only mappings are needed: thousands of partitions have thousands of files.
            self.follow.close_files();
        }
        if self.has_ended { Ok(None) } else { polled }
    }
}

/// Follows all partitions of `dataset` from `from` on.
///
/// # Errors
/// `InvalidArgument` if it is not a whole partitioned dataset, or a partition contains files that don't grow;
/// `RowOutOfRange` if requested rows were dropped.
pub fn follow_partitions(dataset: &Dataset, from: &FollowFrom) -> Result<PartitionsFollower> {
    let whole = dataset.refresh()?;
    let Some(partitions) = partitions_of(&whole).cloned() else {
        return Err(Error::invalid_argument("only a whole partitioned dataset can be followed so"));
    };
    let columns = match whole.pieces().first() {
        Some(piece) => piece.columns.clone(),
        None => (0..whole.num_columns()).collect(),
    };
    let schema = whole.schema().clone();
    let mut follower = PartitionsFollower {
        partitions,
        schema,
        columns,
        followed: Vec::new(),
        turn: 0,
        pause: MIN_PAUSE,
        sleep: None,
        must_poll: false,
        has_missed: false,
    };
    follower.follow_leaves(from)?;
    Ok(follower)
}

/// Follows `leaf` from `from` on, unless `followed` does, which has followed a directory of this name.
///
/// # Errors
/// Errors of [`FollowedPartition::compare`], which are reported again and again instead of rows that may have been
/// returned before; errors of [`follow`].
fn follow_leaf(
    leaf: &LeafPartition,
    name: &str,
    followed: Option<&mut FollowedPartition>,
    from: &FollowFrom,
) -> Result<Option<FollowedPartition>> {
    if let Some(followed) = followed {
        match followed.compare(leaf)? {
            DirectoryChange::Same => {
                followed.identity = leaf.identity;
                return Ok(None);
            }
            DirectoryChange::Unread => {
                // Replaces the follower: if both were kept, each would return the rows.
                if let Some(newer) = follow_from_row(leaf, name, Some(followed.follow.next_row()))? {
                    *followed = newer;
                }
                return Ok(None);
            }
            DirectoryChange::Other => followed.is_gone = true,
        }
    }
    let first_row = leaf.stored.first_row();
    let start = match from {
        FollowFrom::Now => None,
        FollowFrom::First => Some(first_row),
        FollowFrom::Rows(rows) => Some(rows.get(name).copied().unwrap_or(first_row)),
    };
    follow_from_row(leaf, name, start)
}

/// Follows `leaf` from row `start` on, or from now on. Returns `None` if it was dropped since it was listed.
fn follow_from_row(leaf: &LeafPartition, name: &str, start: Option<u64>) -> Result<Option<FollowedPartition>> {
    let follow = match follow(&leaf.stored, start, None) {
        Ok(follow) => follow,
        Err(e) if e.kind() == ErrorKind::NotFound && !exists(&leaf.path)? => return Ok(None),
        Err(e) => return Err(e.at(&leaf.path)),
    };
    Ok(Some(FollowedPartition {
        name: name.to_owned(),
        identity: leaf.identity,
        constants: leaf.constants.clone(),
        path: leaf.path.clone(),
        follow,
        is_gone: false,
        has_ended: false,
    }))
}

impl PartitionsFollower {
    /// Returns the next rows and their partition's directory, such as `host=a1`.
    ///
    /// `None` if there are no rows within `timeout`.
    ///
    /// # Errors
    /// Errors of [`TableFollower::poll`], and of opening new partitions, which are reported once no other partition has
    /// rows. The next call tries again.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<(String, Dataset)>> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // The last poll reads all partitions even if no event has come: the thread that wakes this one may not have
            // run since the rows were committed.
            let is_last = time_left(deadline).is_zero();
            let is_asleep = self.is_asleep();
            if is_last || !is_asleep {
                let updated = self.update_partitions();
                let polled = self.poll_in_turn();
                if !is_asleep || !matches!(polled, Ok(None)) {
                    self.sleep = None;
                }
                if let Some(rows) = polled? {
                    self.pause = MIN_PAUSE;
                    return Ok(Some(rows));
                }
                // Reported last, as a partition that can't be opened must not keep others from their rows.
                updated?;
            }
            if is_last {
                return Ok(None);
            }
            let time_left = time_left(deadline);
            if self.pause < MAX_PAUSE || !self.fall_asleep()? {
                std::thread::sleep(time_left.min(self.pause));
                self.pause = MAX_PAUSE.min(2 * self.pause);
            } else if let Some((sleep, since)) = &self.sleep
                && sleep.wait(time_left.min(MAX_SLEEP.saturating_sub(since.elapsed())))
            {
                self.pause = MIN_PAUSE;
            }
        }
    }

    /// Returns true if nothing has happened since the last poll of all partitions.
    fn is_asleep(&self) -> bool {
        self.sleep.as_ref().is_some_and(|(sleep, since)| !sleep.has_changed() && since.elapsed() < MAX_SLEEP)
    }

    /// Starts to sleep until a partition has rows, is created or removed. Returns false if the follower can't be woken,
    /// or if something has happened already.
    fn fall_asleep(&mut self) -> Result<bool> {
        if self.sleep.is_some() {
            return Ok(true);
        }
        if self.must_poll {
            return Ok(false);
        }
        let mut words = Vec::with_capacity(self.followed.len());
        let mut directories: Vec<PathBuf> = self.partitions.directories().map(Path::to_path_buf).collect();
        let mut without_word = Vec::new();

        for (number, followed) in self.followed.iter_mut().enumerate() {
            match followed.follow.wake_event() {
                Ok(Some(WakeEvent::Word(word))) => words.push(word),
                Ok(Some(WakeEvent::Names(directory))) => {
                    directories.push(directory);
                    without_word.push(number);
                }
                Ok(None) => {
                    self.must_poll = true;
                    return Ok(false);
                }
                // The next poll finds the reason.
                Err(_) => return Ok(false),
            }
        }

        let Ok(sleep) = WaitSet::new(words, &directories) else {
            self.must_poll = true;
            return Ok(false);
        };

        // Check for changes made before the watch began.
        if !self.partitions.is_settled() || !without_word.iter().all(|&number| self.followed[number].follow.is_newest())
        {
            return Ok(false);
        }
        self.sleep = Some((sleep, Instant::now()));
        Ok(true)
    }

    /// Returns the rows of the first partition with new rows, beginning after the partition that was returned last.
    fn poll_in_turn(&mut self) -> Result<Option<(String, Dataset)>> {
        let polled = self.poll_each();
        // All rows of these partitions have been returned.
        self.followed.retain(|followed| !followed.has_ended);
        polled
    }

    /// Polls the partitions in turn until one has rows or an error.
    fn poll_each(&mut self) -> Result<Option<(String, Dataset)>> {
        let count = self.followed.len();
        let turn = self.turn;
        for number in (0..count).map(|ahead| (turn + ahead) % count) {
            let polled = self.followed[number].poll();
            if matches!(polled, Ok(None)) {
                continue;
            }
            // The turn advances after an error, too, so that the partition doesn't keep others from their rows.
            self.turn = number + 1;
            let Some(stored) = polled? else { continue };
            let rows = self.with_all_columns(number, &stored);
            if rows.is_err() {
                // The next poll returns these rows again.
                self.followed[number].follow.put_back(&stored);
            }
            return rows.map(Some);
        }
        Ok(None)
    }

    /// Returns new rows of partition `number` with its name and all columns of the follower, to which it adds new
    /// columns.
    fn with_all_columns(&mut self, number: usize, stored: &Dataset) -> Result<(String, Dataset)> {
        let followed = &self.followed[number];
        let older = self.partitions.schema().clone();
        let newer = self.partitions.including(stored.schema(), &followed.path)?;
        let (schema, columns) = match &newer {
            Some(newer) => resolve_columns(&self.schema, &self.columns, &older, newer)?,
            None => (self.schema.clone(), self.columns.clone()),
        };
        let stored_schema = self.partitions.stored_of(newer.as_ref().unwrap_or(&older));
        let whole = stored.fitted(&stored_schema)?.with_constants(&followed.constants);
        let mut pieces = Vec::with_capacity(whole.pieces().len());
        for piece in whole.pieces() {
            pieces.push(SourceSlice { columns: columns.clone(), ..piece.clone() });
        }
        let rows = Dataset::from_slices(schema.clone(), pieces);
        // The schema is only changed now that the rows are known to fit.
        self.schema = schema;
        self.columns = columns;
        if let Some(newer) = newer {
            self.partitions.widen(newer);
        }
        Ok((followed.name.clone(), rows))
    }

    /// Finds created and removed partitions, and tries again to follow partitions that could not be followed.
    fn update_partitions(&mut self) -> Result<()> {
        let rescanned = self.rescan();
        let followed = if self.has_missed { self.follow_leaves(&FollowFrom::First) } else { Ok(()) };
        rescanned.and(followed)
    }

    /// Lists the partitions again if directories may have changed.
    fn rescan(&mut self) -> Result<()> {
        if self.partitions.is_settled() {
            return Ok(());
        }
        let newer = self.partitions.rescan()?;
        let older_schema = self.partitions.schema();
        if older_schema.fields() != newer.schema().fields() {
            (self.schema, self.columns) = resolve_columns(&self.schema, &self.columns, older_schema, newer.schema())?;
        }
        self.partitions = newer;
        self.has_missed = true;
        // Reported after the update, so that the other partitions are followed.
        self.partitions.check_complete()
    }

    /// Follows the listed partitions, each from `from` on if it is new.
    ///
    /// # Errors
    /// The first error, after all other partitions are followed.
    fn follow_leaves(&mut self, from: &FollowFrom) -> Result<()> {
        let mut followed: HashMap<String, usize> = HashMap::with_capacity(self.followed.len());
        for (number, partition) in self.followed.iter().enumerate().filter(|(_, partition)| !partition.is_gone) {
            let previous = followed.insert(partition.name.clone(), number);
            assert!(previous.is_none(), "the partition {} is followed twice", partition.name);
        }
        let mut existing = HashSet::new();
        let mut new = Vec::new();
        let mut result = Ok(());
        for leaf in self.partitions.leaves() {
            let name = self.partitions.name_of(leaf);
            let followed = followed.get(&name).map(|&number| &mut self.followed[number]);
            match follow_leaf(leaf, &name, followed, from) {
                Ok(partition) => new.extend(partition),
                Err(e) => result = result.and(Err(e)),
            }
            existing.insert(name);
        }
        for followed in &mut self.followed {
            followed.is_gone |= !existing.contains(&followed.name);
        }
        self.followed.extend(new);
        self.has_missed = result.is_err();
        result
    }

    /// Returns the next row number of each partition by its directory, for resuming later.
    ///
    /// A partition that has the directory's name by then may be another one: see [`FollowFrom::Rows`].
    pub fn next_rows(&self) -> BTreeMap<String, u64> {
        self.followed.iter().map(|followed| (followed.name.clone(), followed.follow.next_row())).collect()
    }
}

/// Returns the time until `deadline`, or until the next poll if the deadline is too far away to be represented.
fn time_left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(MAX_PAUSE, |deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Returns the number of committed rows of the partitions of `dataset` from `next` on.
///
/// `next` has the next row of each partition, by its directory.
///
/// # Errors
/// As [`Dataset::refresh`].
pub fn partitions_lag(dataset: &Dataset, next: &BTreeMap<String, u64>) -> Result<u64> {
    let newest = dataset.refresh()?;
    let Some(partitions) = partitions_of(&newest) else { return Ok(0) };
    let mut lag = 0;
    for leaf in partitions.leaves() {
        let first_row = leaf.stored.first_row();
        let end = first_row + leaf.stored.len()?;
        let next_row = next.get(&partitions.name_of(leaf)).copied().unwrap_or(first_row);
        // A caller's number may be beyond the end, if the partition was created again.
        lag += end.saturating_sub(next_row);
    }
    Ok(lag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Writer, WriterOptions};
    use crate::{Value, open, parse_schema};

    /// The follower missed committed rows if the thread that wakes it had not run before the timeout.
    #[test]
    fn poll_finds_committed_rows_without_a_wake_up() {
        let root = tempfile::tempdir().unwrap();
        let schema = Arc::new(parse_schema("n: int64").unwrap());
        let partition = root.path().join("day=1");
        let mut writer = Writer::open(&partition, Some(schema), &WriterOptions::default()).unwrap();
        writer.commit().unwrap();
        let mut follower = follow_partitions(&open(root.path()).unwrap(), &FollowFrom::Now).unwrap();
        // Nothing wakes this sleep. Older systems don't support it, and the follower polls each time.
        follower.sleep = WaitSet::new(Vec::new(), &[]).ok().map(|sleep| (sleep, Instant::now()));
        assert!(follower.poll(Duration::ZERO).unwrap().is_none());
        writer.append_row(&[Value::Int(1)]).unwrap();
        writer.commit().unwrap();
        let (name, rows) = follower.poll(Duration::ZERO).unwrap().unwrap();
        assert_eq!(name, "day=1");
        assert_eq!(rows.len().unwrap(), 1);
        assert!(follower.poll(Duration::ZERO).unwrap().is_none());
    }
}
