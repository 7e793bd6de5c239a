//! Whether the page cache is the one that a segment was written to.
//!
//! The pages of a killed writer stay in the page cache, and the commits that it made visible count. But a machine that was
//! not booted again may have lost a page cache all the same: that of a volume that was detached, or that failed, or whose
//! snapshot is mounted. So a commit of this boot counts only if the segment was opened through the very mount of its
//! writer, or its rows are those of its [proof](crate::table::protocol::proof).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::chain;
use super::recovery::{is_on_disk, recover, says_more};
use super::segment::{HAS_ROWS, SAME, Segment, UNKNOWN};
use crate::error::{Error, ErrorKind, Result};
use crate::map::{Mapping, Mode, MountInfo, boot_id};
use crate::table::format::{RENEWED_PROOF, Record};
use crate::table::protocol::proof::proof_of;

/// What this process has compared with its checksum: files, by mount, device and inode, and the number of a durable record
/// or 0. What is written since is written to the same page cache.
static KNOWN: Mutex<Option<HashSet<VerifiedKey>>> = Mutex::new(None);

type VerifiedKey = (MountInfo, (u64, u64), u64);

/// The maximum number of files in `KNOWN`.
const MOST_KNOWN: usize = 1 << 16;

/// The most segments of one commit that are opened to find out whether all are there.
const MOST_OF_COMMIT: usize = 1 << 16;

impl Segment {
    /// Whether a visible commit was made in this boot, and its rows are there. Compares them only if nothing else tells, and
    /// once.
    ///
    /// # Errors
    /// Those of reading rows.
    #[inline]
    pub fn is_current(&self, record: &Record) -> Result<bool> {
        if record.boot != boot_id() {
            return Ok(false);
        }
        match self.page_cache.0.load(Ordering::Relaxed) {
            UNKNOWN => self.find_page_cache(record),
            SAME | HAS_ROWS => Ok(true),
            // A newer one is that of a writer that has opened the segment as it is now.
            lost => Ok(record.sequence > lost),
        }
    }

    /// Whether a record, visible or durable, is of this boot, and the page cache that of its writer, as far as that was asked.
    pub fn is_present(&self, record: &Record) -> bool {
        record.boot == boot_id() && !(self.is_lost() && record.sequence <= self.page_cache.0.load(Ordering::Relaxed))
    }

    /// Whether commits of this boot are not there as they were made.
    pub fn is_lost(&self) -> bool {
        self.page_cache.0.load(Ordering::Relaxed) < HAS_ROWS
    }

    /// Whether the rows of the newest commit are known to be there only because they were compared with its proof: those of
    /// earlier segments may not be.
    pub fn is_doubtful(&self) -> bool {
        !matches!(self.page_cache.0.load(Ordering::Relaxed), UNKNOWN | SAME)
    }

    /// Whether the page cache is known to be that of the writer of the newest commit.
    pub fn is_same(&self) -> bool {
        self.page_cache.0.load(Ordering::Relaxed) == SAME
    }

    /// Whether bytes beside the rows of `record`, the newest commit, may be lost, as they were written to a page cache that may
    /// be gone.
    pub fn may_lack_bytes(&self, record: &Record) -> bool {
        record.boot != boot_id() || self.is_doubtful()
    }

    #[cold]
    fn find_page_cache(&self, record: &Record) -> Result<bool> {
        let mount = self.mapping.mount_info()?.mount;
        // Early writers gave no proof; a writer whose mount is unknown has 0.
        let is_same = record.proof.is_none_or(|proof| proof.mount == mount && mount != 0);
        // Where the log was read, there was no commit of this boot: it was made since, to this page cache. The private pages
        // are not what its proof is of.
        let is_newer = self.replayed.as_ref().is_some_and(|left| record.sequence > left.record.sequence);
        let found = if is_same || is_newer {
            SAME
        } else if self
            .once(0, || Ok(self.has_rows_of(record)? && self.has_all_of(record)? && self.is_newest(record)?))?
        {
            HAS_ROWS
        } else if self.visible_within(1)?.is_some_and(|now| now.sequence > record.sequence) {
            // A writer has committed meanwhile, to this page cache, and has written over what its last commit was proven by.
            SAME
        } else {
            self.newest_number()?
        };
        self.page_cache.0.store(found, Ordering::Relaxed);
        Ok(found >= HAS_ROWS)
    }

    /// Returns whether the bytes of the segment are as `compare` expects them. What was found once holds as long as the
    /// process reads the file through the same mount; `number` is that of a durable record, or 0.
    fn once(&self, number: u64, compare: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let mounted = self.mapping.mount_info()?;
        let key = self.mapping.identity().filter(|_| mounted.mount != 0).map(|identity| (mounted, identity, number));
        let is_known = |key| KNOWN.lock().is_ok_and(|known| known.as_ref().is_some_and(|known| known.contains(&key)));
        if key.is_some_and(is_known) {
            return Ok(true);
        }
        let is_right = compare()?;
        if is_right && let (Some(key), Ok(mut known)) = (key, KNOWN.lock()) {
            let known = known.get_or_insert_default();
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(key);
        }
        Ok(is_right)
    }

    /// The largest number of any commit, visible or durable.
    fn newest_number(&self) -> Result<u64> {
        let logged = self.log_entries()?.into_iter().map(|entry| entry.record);
        let records = self.whole_records()?.into_iter().chain(self.both_durable()?.into_iter().flatten()).chain(logged);
        let number = records.map(|record| record.sequence).max().unwrap_or(0).max(self.sequence());
        Ok(number.min(HAS_ROWS - 1))
    }

    /// Whether the rows of a visible commit are those of its proof.
    ///
    /// # Errors
    /// Those of reading rows.
    pub(super) fn has_rows_of(&self, record: &Record) -> Result<bool> {
        let mount = self.mapping.mount_info()?.mount;
        let Some(proof) = record.proof.filter(|proof| proof.mount == 0 || proof.mount != mount) else {
            return Ok(true);
        };
        let durable = self.durable_records()?;
        let counters_of = |base: u64| match base {
            0 => Some(vec![0; record.counters.len()]),
            base => durable.iter().find(|durable| durable.sequence == base).map(|durable| durable.counters.clone()),
        };
        let is_up_to = |from: &Vec<u64>| from.iter().zip(&record.counters).all(|(from, to)| from <= to);
        let renewed = || {
            let [number, base, word] = RENEWED_PROOF.map(|at| self.mapping.load64((self.header.live + at) as usize));
            (number == record.sequence).then(|| counters_of(base).map(|from| (from, word as u32))).flatten()
        };
        let since = counters_of(proof.base).map(|from| (from, proof.word)).or_else(renewed);
        if let Some((from, word)) = since.filter(|(from, _)| is_up_to(from)) {
            return Ok(proof_of(&self.plan, &from, &record.counters, |region, at, into| {
                self.read_region(region, at, into)
            })? == word);
        }
        // The record that it is since was written over by one that has all of it.
        self.is_on_disk_as(record, false)
    }

    /// Whether a durable record has all that `record` has, and its rows are on the disk; if `alone`, whatever the segments
    /// before are.
    ///
    /// # Errors
    /// Those of reading rows.
    pub(super) fn is_on_disk_as(&self, record: &Record, alone: bool) -> Result<bool> {
        let all = self.durable_records()?;
        let has_all = |durable: &&Record| {
            let is_same = durable.counters == record.counters && durable.positions == record.positions;
            is_same && durable.sealed == record.sealed && !(alone && durable.provisional)
        };
        let Some(durable) = all.iter().find(has_all) else { return Ok(false) };
        self.once(durable.sequence, || is_on_disk(self, durable, &all))
    }

    /// Whether rows of the segment are on the disk: then those of their commit in later segments are, too.
    fn has_durable_rows(&self) -> Result<bool> {
        Ok(recover(self, 0)?.record.rows() > 0)
    }

    /// Whether no durable commit has more: a visible record that was lost leaves the one before, whose rows are there.
    fn is_newest(&self, record: &Record) -> Result<bool> {
        let has_all =
            |durable: &Record| durable.counters.iter().zip(&record.counters).all(|(durable, seen)| durable >= seen);
        let has_moved = |durable: &Record| durable.sequence > record.sequence && durable.positions != record.positions;
        let has_more = |durable: &Record| says_more(durable, record) || has_all(durable) && has_moved(durable);
        let logged = self.log_entries()?.into_iter().map(|entry| entry.record);
        let mut durable = self.both_durable()?.into_iter().flatten().chain(logged);
        Ok(!durable.any(|durable| has_more(&durable)) || !has_more(&recover(self, record.sequence)?.record))
    }

    /// Whether the rest of a commit that goes on in later segments is there, too.
    fn has_all_of(&self, record: &Record) -> Result<bool> {
        if !record.goes_on || self.is_on_disk_as(record, true)? {
            return Ok(true);
        }
        let Some(folder) = self.path().parent() else { return Ok(true) };
        let mut end = self.header.first_row + record.rows();
        for _ in 0..MOST_OF_COMMIT {
            let path = chain::path(folder, end);
            let mapping = match Mapping::open(&path, Mode::Read).map_err(Error::from) {
                Ok(mapping) => mapping,
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(e),
            };
            // One that was made dense was on the disk before.
            let Some(next) = Segment::open(mapping).map_err(|e| e.at(&path))? else { return Ok(true) };
            let newest = next.visible()?.filter(|newest| newest.boot == boot_id());
            let newest = newest.map_or_else(|| next.newest_whole(), |newest| Ok(Some(newest)))?;
            let is_of_commit = |newest: &Record| !newest.provisional || newest.rows() > 0;
            let Some(newest) = newest.filter(is_of_commit).filter(|newest| next.check_record(newest).is_ok()) else {
                return next.has_durable_rows();
            };
            if !next.has_rows_of(&newest)? {
                return next.has_durable_rows();
            }
            if !newest.goes_on || next.is_on_disk_as(&newest, true)? {
                return Ok(true);
            }
            end = next.header.first_row + newest.rows();
        }
        Ok(false)
    }
}
