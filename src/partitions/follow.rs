//! Follows the new rows of all partitions, including new partitions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::origin::{LeafPartition, Partitions, partitions_of};
use crate::dataset::{ConstantColumn, Dataset, Origin, SourceSlice, resolve_columns};
use crate::directory::{FileId, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::map::WaitSet;
use crate::table::{TableFollower, WakeEvent, follow};

/// The shortest time between two polls of all partitions while rows arrive.
const BLINK: Duration = Duration::from_micros(500);
/// The longest such time, after which the follower sleeps until it is woken. If it can't be woken, it keeps polling at
/// this interval.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest sleep: some ways of removing files wake no one.
const SLEEP: Duration = Duration::from_secs(30);

/// The start of following a partitioned table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowFrom {
    /// Rows committed from now on.
    Now,
    /// The first row of each partition.
    First,
    /// The next row of each partition, by its directory such as `host=a1/day=3`; other partitions are new, and begin
    /// with their first row, as one that was renamed does. See [`PartitionsFollower::next_rows`].
    ///
    /// The numbers are those of the directory that has the name now: if its partition was sorted, or dropped and made
    /// again, since they were noted, they are numbers of other rows. Leave it out to begin with its first row.
    Rows(BTreeMap<String, u64>),
}

/// Iterates over new rows of a partitioned table, partition by partition: those of each in order, each once. New
/// partitions are found within milliseconds, and begin with their first row.
///
/// Between commits it sleeps, in one thread per 127 partitions that ends with it, and takes no processor time: a
/// commit, or a created or removed partition, wakes it. If the system can't do that, or the files are not writable, it
/// polls all partitions every 20 ms.
#[derive(Debug)]
pub struct PartitionsFollower {
    /// The whole dataset, which finds new partitions.
    partitions: Partitions,
    schema: arrow_schema::SchemaRef,
    columns: Arc<[usize]>,
    followed: Vec<FollowedPartition>,
    /// The partition to poll first.
    turn: usize,
    pause: Duration,
    /// The pending sleep and its start: as long as it is not woken, there are no new rows.
    sleep: Option<(WaitSet, Instant)>,
    /// Whether it can't be woken, so that it has to poll.
    has_to_look: bool,
    /// Whether partitions that were found could not be followed, and are tried again.
    has_missed: bool,
}

#[derive(Debug)]
struct FollowedPartition {
    name: String,
    identity: FileId,
    constants: Arc<[ConstantColumn]>,
    path: PathBuf,
    follow: TableFollower,
    /// Whether its directory was removed, or replaced by another one of the same name.
    is_gone: bool,
    /// Whether it is gone, and all of its rows have been returned.
    has_ended: bool,
}

/// The rows of another directory of the same name, beside those that were followed.
enum DirectoryChange {
    /// They go on with the same rows.
    Same,
    /// They may be the same in another order, of which none was returned yet.
    Unread,
    /// They are another table's.
    Other,
}

impl FollowedPartition {
    /// What the rows of `leaf`, of the same name, are.
    ///
    /// # Errors
    /// `FileChanged` if it may have rows that were returned before, under other numbers.
    fn compared(&self, leaf: &LeafPartition) -> Result<DirectoryChange> {
        if self.identity == leaf.identity {
            return Ok(DirectoryChange::Same);
        }
        // Another directory of the same name: the rows were sorted, or the partition was dropped and created again.
        let Err(e) = self.follow.check_continues_in(&leaf.stored) else { return Ok(DirectoryChange::Same) };
        let first = leaf.stored.first_row();
        let next = self.follow.next_row();
        match next {
            _ if next <= first => Ok(DirectoryChange::Unread),
            _ if next <= first + leaf.stored.len()? => Err(e),
            _ => Ok(DirectoryChange::Other),
        }
    }

    fn poll(&mut self) -> Result<Option<Dataset>> {
        let polled = self.follow.poll(Duration::ZERO);
        let why = polled.as_ref().err().map(Error::kind);
        // It may have been dropped since partitions were listed.
        self.is_gone |= why == Some(ErrorKind::NotFound) && !exists(&self.path)?;
        // Segments that were not mapped are gone with the directory, or another table has their names.
        let is_over = matches!(why, Some(ErrorKind::NotFound | ErrorKind::FileChanged));
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
    let missing = || Error::invalid_argument("only a whole partitioned dataset can be followed so");
    let partitions = partitions_of(&whole).ok_or_else(missing)?.clone();
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
        pause: BLINK,
        sleep: None,
        has_to_look: false,
        has_missed: false,
    };
    follower.take_leaves(from)?;
    Ok(follower)
}

/// Follows `leaf` from `from` on, unless `known` does, which has followed a directory of this name.
///
/// # Errors
/// Those of [`FollowedPartition::compared`], which are told again and again instead of rows that may have been returned
/// before; those of [`follow`].
fn take(
    leaf: &LeafPartition,
    name: &str,
    known: Option<&mut FollowedPartition>,
    from: &FollowFrom,
) -> Result<Option<FollowedPartition>> {
    if let Some(known) = known {
        match known.compared(leaf)? {
            DirectoryChange::Same => {
                known.identity = leaf.identity;
                return Ok(None);
            }
            DirectoryChange::Unread => {
                // Not both: each would return the rows.
                begin(leaf, name, Some(known.follow.next_row()))?.into_iter().for_each(|newer| *known = newer);
                return Ok(None);
            }
            DirectoryChange::Other => known.is_gone = true,
        }
    }
    let first = leaf.stored.first_row();
    let start = match from {
        FollowFrom::Now => None,
        FollowFrom::First => Some(first),
        FollowFrom::Rows(rows) => Some(rows.get(name).copied().unwrap_or(first)),
    };
    begin(leaf, name, start)
}

/// Follows `leaf` from row `start` on; `None` if it was dropped since it was listed.
fn begin(leaf: &LeafPartition, name: &str, start: Option<u64>) -> Result<Option<FollowedPartition>> {
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
    /// Returns the next rows, and the directory of their partition, such as `host=a1`; `None` if there are none within
    /// `timeout`.
    ///
    /// # Errors
    /// Those of [`TableFollower::poll`], and of opening new partitions, which are told once no other partition has rows. What
    /// failed is tried again by the next call.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<(String, Dataset)>> {
        let deadline = Instant::now().checked_add(timeout);
        let left = || deadline.map_or(PAUSE, |deadline| deadline.saturating_duration_since(Instant::now()));
        loop {
            // At the end in any case: whoever wakes this one may not have had its turn since the rows were committed.
            let is_last = left().is_zero();
            let is_asleep = self.is_asleep();
            if is_last || !is_asleep {
                let looked = self.look();
                let found = self.next_of_any();
                if !is_asleep || !matches!(found, Ok(None)) {
                    self.sleep = None;
                }
                if let Some(rows) = found? {
                    self.pause = BLINK;
                    return Ok(Some(rows));
                }
                // Only now: it must not keep others from their rows.
                looked?;
            }
            if is_last {
                return Ok(None);
            }
            let left = left();
            if self.pause < PAUSE || !self.fall_asleep()? {
                std::thread::sleep(left.min(self.pause));
                self.pause = PAUSE.min(2 * self.pause);
            } else if let Some((sleep, since)) = &self.sleep
                && sleep.wait(left.min(SLEEP.saturating_sub(since.elapsed())))
            {
                self.pause = BLINK;
            }
        }
    }

    /// Whether nothing has happened since the last poll of all partitions.
    fn is_asleep(&self) -> bool {
        self.sleep.as_ref().is_some_and(|(sleep, since)| !sleep.has_changed() && since.elapsed() < SLEEP)
    }

    /// Starts to sleep until a partition has rows, is created or removed; returns false if it can't, or if there is
    /// news.
    fn fall_asleep(&mut self) -> Result<bool> {
        if self.sleep.is_some() {
            return Ok(true);
        }
        if self.has_to_look {
            return Ok(false);
        }
        let mut words = Vec::with_capacity(self.followed.len());
        let mut directories: Vec<PathBuf> = self.partitions.directories().map(Path::to_path_buf).collect();
        let mut ended = Vec::new();
        for (number, followed) in self.followed.iter_mut().enumerate() {
            match followed.follow.wake_event() {
                Ok(Some(WakeEvent::Word(word))) => words.push(word),
                Ok(Some(WakeEvent::Names(directory))) => {
                    directories.push(directory);
                    ended.push(number);
                }
                Ok(None) => {
                    self.has_to_look = true;
                    return Ok(false);
                }
                // The next poll finds the reason.
                Err(_) => return Ok(false),
            }
        }
        let Ok(sleep) = WaitSet::new(words, &directories) else {
            self.has_to_look = true;
            return Ok(false);
        };
        // Check for changes made before the watch began.
        if !self.partitions.is_settled() || !ended.iter().all(|&number| self.followed[number].follow.is_newest()) {
            return Ok(false);
        }
        self.sleep = Some((sleep, Instant::now()));
        Ok(true)
    }

    /// Returns the rows of the first partition with new rows, beginning after the partition that was first last time.
    fn next_of_any(&mut self) -> Result<Option<(String, Dataset)>> {
        let count = self.followed.len();
        let mut found = None;
        for number in (0..count).map(|ahead| (self.turn + ahead) % count) {
            let polled = self.followed[number].poll();
            if let Some(polled) = polled.transpose() {
                // After an error, too: it must not keep others from their rows.
                self.turn = number + 1;
                found = Some((number, polled));
                break;
            }
        }
        let rows = found.map(|(number, stored)| self.fitted(number, &stored?)).transpose();
        // All rows of these, whatever they were, have been returned.
        self.followed.retain(|followed| !followed.has_ended);
        rows
    }

    /// New rows of partition `number`, with all columns. After an error they come again.
    fn fitted(&mut self, number: usize, stored: &Dataset) -> Result<(String, Dataset)> {
        let fitted = self.with_all_columns(number, stored);
        if fitted.is_err() {
            self.followed[number].follow.put_back(stored);
        }
        fitted
    }

    fn with_all_columns(&mut self, number: usize, stored: &Dataset) -> Result<(String, Dataset)> {
        let followed = &self.followed[number];
        let older = self.partitions.schema().clone();
        let newer = self.partitions.including(stored.schema(), &followed.path)?;
        let (schema, columns) = match &newer {
            Some(newer) => resolve_columns(&self.schema, &self.columns, &older, newer)?,
            None => (self.schema.clone(), self.columns.clone()),
        };
        let own = self.partitions.stored_of(newer.as_ref().unwrap_or(&older));
        let whole = stored.fitted(&own)?.with_constants(&followed.constants);
        let narrow = |piece: &SourceSlice| SourceSlice { columns: columns.clone(), ..piece.clone() };
        let rows = Dataset::from_slices(schema.clone(), whole.pieces().iter().map(narrow).collect());
        // Nothing of this is kept where the rows don't fit.
        self.schema = schema;
        self.columns = columns;
        newer.into_iter().for_each(|newer| self.partitions.widen(newer));
        Ok((followed.name.clone(), rows))
    }

    /// Finds created and removed partitions, and tries again to follow those for which it failed.
    fn look(&mut self) -> Result<()> {
        let listed = self.list();
        let taken = if self.has_missed { self.take_leaves(&FollowFrom::First) } else { Ok(()) };
        listed.and(taken)
    }

    fn list(&mut self) -> Result<()> {
        if self.partitions.is_settled() {
            return Ok(());
        }
        let looked = self.partitions.looked()?;
        let older = self.partitions.schema();
        if older.fields() != looked.schema().fields() {
            (self.schema, self.columns) = resolve_columns(&self.schema, &self.columns, older, looked.schema())?;
        }
        self.partitions = looked;
        self.has_missed = true;
        // The others are followed meanwhile.
        self.partitions.left_out()
    }

    /// Follows the listed partitions, each from `from` on if it is new.
    ///
    /// # Errors
    /// The first one, after all others are followed.
    fn take_leaves(&mut self, from: &FollowFrom) -> Result<()> {
        let followed = self.followed.iter().enumerate().filter(|(_, followed)| !followed.is_gone);
        let known: HashMap<String, usize> = followed.map(|(number, f)| (f.name.clone(), number)).collect();
        let mut there = HashSet::new();
        let mut new = Vec::new();
        let mut all = Ok(());
        for leaf in self.partitions.leaves() {
            let name = self.partitions.name_of(leaf);
            let known = known.get(&name).map(|&number| &mut self.followed[number]);
            match take(leaf, &name, known, from) {
                Ok(followed) => new.extend(followed),
                Err(e) => all = all.and(Err(e)),
            }
            there.insert(name);
        }
        for followed in &mut self.followed {
            followed.is_gone |= !there.contains(&followed.name);
        }
        self.followed.extend(new);
        self.has_missed = all.is_err();
        all
    }

    /// Returns the next row number of each partition by its directory, for resuming later. They don't tell a
    /// partition from another one that has its name then: see [`FollowFrom::Rows`].
    pub fn next_rows(&self) -> BTreeMap<String, u64> {
        let next = |followed: &FollowedPartition| (followed.name.clone(), followed.follow.next_row());
        self.followed.iter().map(next).collect()
    }
}

/// Returns the number of committed rows of the partitions of `dataset` from `next` on, the next row of each partition
/// by its directory.
///
/// # Errors
/// As [`Dataset::refresh`].
#[doc(hidden)]
pub fn partitions_lag(dataset: &Dataset, next: &BTreeMap<String, u64>) -> Result<u64> {
    let now = dataset.refresh()?;
    let Some(partitions) = partitions_of(&now) else { return Ok(0) };
    let mut all = 0;
    for leaf in partitions.leaves() {
        let first = leaf.stored.first_row();
        let end = first + leaf.stored.len()?;
        all += end.saturating_sub(next.get(&partitions.name_of(leaf)).copied().unwrap_or(first));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Writer, WriterOptions};
    use crate::{Value, open, parse_schema};

    /// The thread that was to wake the follower had not had its turn when the time was over.
    #[test]
    fn rows_that_were_committed_before_are_found_though_nobody_has_said_so() {
        let root = tempfile::tempdir().unwrap();
        let schema = std::sync::Arc::new(parse_schema("n: int64").unwrap());
        let place = root.path().join("day=1");
        let mut writer = Writer::open(&place, Some(schema), &WriterOptions::default()).unwrap();
        writer.commit().unwrap();
        let mut follower = follow_partitions(&open(root.path()).unwrap(), &FollowFrom::Now).unwrap();
        // Nothing ends this sleep. On an older system there is none, and the follower looks each time.
        follower.sleep = WaitSet::new(Vec::new(), &[]).ok().map(|sleep| (sleep, Instant::now()));
        assert!(follower.poll(Duration::ZERO).unwrap().is_none());
        writer.append_row(&[Value::Int(1)]).unwrap();
        writer.commit().unwrap();
        let (name, rows) = follower.poll(Duration::ZERO).unwrap().unwrap();
        assert_eq!((name.as_str(), rows.len().unwrap()), ("day=1", 1));
        assert!(follower.poll(Duration::ZERO).unwrap().is_none());
    }
}
