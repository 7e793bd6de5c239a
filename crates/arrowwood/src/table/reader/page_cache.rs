//! Finds out whether the page cache is the one that a segment was written to.
//!
//! The pages of a killed writer stay in the page cache, and the commits that it made visible count. But a machine may
//! lose a page cache without a reboot: when a volume is detached or fails, or when a snapshot of it is mounted. So a
//! commit of this boot counts only if the segment was opened through the same mount as its writer's, if it is known to be
//! on the disk, or if its rows match its [proof](crate::table::protocol::proof).
//!
//! Where mounts have no ids (before Linux 6.8, and on other systems), rows that were never synced and don't match are
//! lost or damaged, which nothing can tell: they don't count, and `check` names both causes. Rows that were synced can
//! only be damaged.
//!
//! The answer is a [`PageCacheState`](super::page_cache_state::PageCacheState) of the open segment, which the first reader of a commit finds out. It depends on
//! nothing that may change later: whoever commits after that has opened the file through the same page cache.

use std::collections::HashSet;
use std::sync::Mutex;

use super::chain;
use super::page_cache_state::{PageCache, UNKNOWN_MOUNT};
use super::recovery::{has_more, is_on_disk, recover};
use super::segment::Segment;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{Mapping, Mode, MountInfo, MutexExt, boot_id};
use crate::table::format::{RENEWED_PROOF, Record};
use crate::table::protocol::proof::proof_of;

/// The commits whose bytes this process has compared with their checksums. Later bytes are written to the same page
/// cache.
static VERIFIED: Mutex<Option<HashSet<VerifiedKey>>> = Mutex::new(None);

/// A file, as opened through a mount, and a commit of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct VerifiedKey {
    mount: MountInfo,
    /// Device and inode.
    file: (u64, u64),
    /// The number of a durable record, or [`VISIBLE`].
    sequence: u64,
}

/// Stands for the visible commit in a [`VerifiedKey`]: no record has this number.
const VISIBLE: u64 = 0;

/// The maximum number of keys in `VERIFIED`.
const MAX_VERIFIED: usize = 1 << 16;

/// The maximum number of segments of one commit that are opened to find out whether all are there.
const MAX_COMMIT_SEGMENTS: usize = 1 << 16;

impl Segment {
    /// Returns true if a visible commit was made in this boot, and its rows are there. Compares the rows with their
    /// proof only if that can't be known otherwise, and only once.
    ///
    /// # Errors
    /// Returns the errors of reading rows.
    #[inline]
    pub fn is_current(&self, record: &Record) -> Result<bool> {
        if record.boot != boot_id() {
            return Ok(false);
        }
        match self.page_cache.load() {
            PageCache::Unknown => self.find_page_cache(record),
            PageCache::Same | PageCache::Synced | PageCache::HasRows => Ok(true),
            // The writer of a newer commit has opened the segment as it is now.
            PageCache::Lost(sequence) => Ok(record.sequence > sequence),
        }
    }

    /// Returns true if a record, visible or durable, is of this boot, and the page cache is not known to be another
    /// than its writer's.
    pub fn is_present(&self, record: &Record) -> bool {
        let is_lost = matches!(self.page_cache.load(), PageCache::Lost(sequence) if record.sequence <= sequence);
        record.boot == boot_id() && !is_lost
    }

    /// Returns true if commits of this boot are known to be lost.
    pub fn is_lost(&self) -> bool {
        matches!(self.page_cache.load(), PageCache::Lost(_))
    }

    /// Returns true if the rows of the newest commit are known to be there only because they match its proof: rows of
    /// earlier segments may be lost.
    pub fn is_doubtful(&self) -> bool {
        matches!(self.page_cache.load(), PageCache::HasRows | PageCache::Lost(_))
    }

    /// Returns true if nothing tells whether rows of `record`, the newest visible commit, that are not there are lost or
    /// damaged: they were written in this boot, and this system or its writer's has no ids of mounts.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_cause_unknown(&self, record: &Record) -> Result<bool> {
        let mount = self.mapping.mount_info()?.mount;
        let is_mount_known = record.proof.is_none_or(|proof| proof.mount != UNKNOWN_MOUNT && mount != UNKNOWN_MOUNT);
        Ok(record.boot == boot_id() && !is_mount_known)
    }

    /// Returns true if the page cache is known to be the one of the newest commit's writer.
    pub fn is_same(&self) -> bool {
        self.page_cache.load() == PageCache::Same
    }

    /// Returns true if other bytes than the rows of `record`, the newest commit, may be lost, as they were written to a
    /// page cache that may be gone.
    pub fn may_lack_bytes(&self, record: &Record) -> bool {
        record.boot != boot_id() || !matches!(self.page_cache.load(), PageCache::Unknown | PageCache::Same)
    }

    /// Finds out and stores the state of the page cache. Returns true if `record`, which is visible and of this boot,
    /// counts.
    #[cold]
    fn find_page_cache(&self, record: &Record) -> Result<bool> {
        let mount = self.mapping.mount_info()?.mount;
        // Early writers stored no proof; a writer that didn't know its mount stored 0.
        let is_same = record.proof.is_none_or(|proof| proof.mount == mount && mount != UNKNOWN_MOUNT);
        // If the log was replayed, there was no commit of this boot when the segment was opened: this one was made
        // since, to this page cache. Its proof doesn't cover the private pages.
        let is_newer = self.replayed.as_ref().is_some_and(|left| record.sequence > left.record.sequence);
        let state = if is_same || is_newer {
            PageCache::Same
        } else if self.was_synced(record)? {
            PageCache::Synced
        } else if self.verify_once(VISIBLE, || {
            Ok(self.has_rows_of(record)? && self.has_all_of(record)? && self.is_newest(record)?)
        })? {
            PageCache::HasRows
        } else if self.visible_within(1)?.is_some_and(|visible| visible.sequence > record.sequence) {
            // A writer has committed meanwhile, to this page cache, and has overwritten the record that the proof began
            // at.
            PageCache::Same
        } else {
            PageCache::Lost(self.newest_sequence()?)
        };
        self.page_cache.store(state);
        Ok(!matches!(state, PageCache::Lost(_)))
    }

    /// Returns true if a visible commit with rows is known to be on the disk, with all segments before, and no durable
    /// commit has more.
    fn was_synced(&self, record: &Record) -> Result<bool> {
        // A durable record without rows may be written before the segments before it are durable.
        if record.rows() == 0 {
            return Ok(false);
        }
        let durable = self.durable_records()?;
        let same: Vec<&Record> = durable.iter().filter(|durable| durable.has_same_state(record)).collect();
        // One that is not provisional is written once all segments before are durable.
        if same.iter().all(|durable| durable.provisional) {
            return Ok(false);
        }
        for durable_record in same {
            if self.has_reached_disk(durable_record, &durable)? {
                return self.is_newest(record);
            }
        }
        Ok(false)
    }

    /// Returns true if `compare` does, now or in an earlier call for the same file, mount and `sequence`, which is the
    /// number of a durable record, or [`VISIBLE`]. Later bytes are written to the same page cache, so the answer stays
    /// true.
    fn verify_once(&self, sequence: u64, compare: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let mount = self.mapping.mount_info()?;
        // Without the time at which a file was made, another one may have got its inode number.
        let is_known = mount.mount != UNKNOWN_MOUNT && mount.made != MountInfo::default().made;
        let file = self.mapping.identity().filter(|_| is_known);
        let key = file.map(|file| VerifiedKey { mount, file, sequence });
        if let Some(key) = key
            && VERIFIED.lock_ignoring_poison().as_ref().is_some_and(|verified| verified.contains(&key))
        {
            return Ok(true);
        }
        let is_equal = compare()?;
        if let Some(key) = key
            && is_equal
        {
            let mut verified = VERIFIED.lock_ignoring_poison();
            let verified = verified.get_or_insert_default();
            if verified.len() >= MAX_VERIFIED {
                verified.clear();
            }
            verified.insert(key);
        }
        Ok(is_equal)
    }

    /// Returns the largest number of any commit, visible or durable.
    fn newest_sequence(&self) -> Result<u64> {
        let logged = self.log_entries()?.into_iter().map(|entry| entry.record);
        let records = self.whole_records()?.into_iter().chain(self.both_durable()?.into_iter().flatten()).chain(logged);
        Ok(records.map(|record| record.sequence).fold(self.sequence(), u64::max))
    }

    /// Returns true if the rows of a visible commit match its proof.
    ///
    /// # Errors
    /// Returns the errors of reading rows.
    pub(super) fn has_rows_of(&self, record: &Record) -> Result<bool> {
        let mount = self.mapping.mount_info()?.mount;
        let Some(proof) = record.proof.filter(|proof| proof.mount == UNKNOWN_MOUNT || proof.mount != mount) else {
            return Ok(true);
        };
        let durable = self.durable_records()?;
        let mut word = proof.word;
        let mut base = self.proof_base(&durable, proof.base);
        if base.is_none() {
            // The record that the proof begins at was overwritten; the writer may have stored another proof before.
            let [sequence, renewed_base, renewed_word] =
                RENEWED_PROOF.map(|offset| self.mapping.load64((self.header.live + offset) as usize));
            if sequence == record.sequence {
                word = renewed_word as u32;
                base = self.proof_base(&durable, renewed_base);
            }
        }

        if let Some(base) = base.filter(|base| record.has_all_counted_in(base)) {
            let computed = proof_of(&self.plan, &base.counters, &record.counters, |region, at, into| {
                self.read_region(region, at, into)
            })?;
            return Ok(computed == word && self.has_rows_of_base(&base, &durable)?);
        }

        // The overwriting record has all of the commit.
        self.is_on_disk_as(record, |_| true)
    }

    /// Returns true if the rows of a durable record that a proof begins at are there. The writer's file has them on the
    /// disk; a copy may have only some of its bytes.
    fn has_rows_of_base(&self, base: &Record, durable: &[Record]) -> Result<bool> {
        Ok(base.rows() == 0 || self.is_known_original_file() || is_on_disk(self, base, durable)?)
    }

    /// Returns the durable record with number `base`, or the empty one for 0; `None` if it was overwritten.
    fn proof_base(&self, durable: &[Record], base: u64) -> Option<Record> {
        match base {
            0 => Some(self.empty_record()),
            base => durable.iter().find(|record| record.sequence == base).cloned(),
        }
    }

    /// Returns true if a durable record has the same contents as `record`, its rows are on the disk, and it does not
    /// depend on the segments before.
    ///
    /// # Errors
    /// Returns the errors of reading rows.
    pub(super) fn is_on_disk_alone(&self, record: &Record) -> Result<bool> {
        self.is_on_disk_as(record, |durable| !durable.provisional)
    }

    /// Returns true if a durable record that `is_accepted` has the same contents as `record`, and its rows are on the
    /// disk.
    fn is_on_disk_as(&self, record: &Record, is_accepted: impl Fn(&Record) -> bool) -> Result<bool> {
        let durable = self.durable_records()?;
        let same = durable.iter().find(|durable| durable.has_same_state(record) && is_accepted(durable));
        match same {
            Some(same) => self.verify_once(same.sequence, || is_on_disk(self, same, &durable)),
            None => Ok(false),
        }
    }

    /// Returns true if rows of the segment are on the disk: then the rows of their commit in later segments are, too.
    fn has_durable_rows(&self) -> Result<bool> {
        Ok(recover(self, 0)?.record.rows() > 0)
    }

    /// Returns true if no durable commit has more. If a visible record is lost, the one before is found, whose rows are
    /// there.
    fn is_newest(&self, record: &Record) -> Result<bool> {
        let logged = self.log_entries()?.into_iter().map(|entry| entry.record);
        let mut durable = self.both_durable()?.into_iter().flatten().chain(logged);
        if !durable.any(|durable| is_newer(&durable, record)) {
            return Ok(true);
        }
        Ok(!is_newer(&recover(self, record.sequence)?.record, record))
    }

    /// Returns true if the rest of a commit that continues in later segments is there, too.
    fn has_all_of(&self, record: &Record) -> Result<bool> {
        if !record.goes_on || self.is_on_disk_alone(record)? {
            return Ok(true);
        }
        let Some(folder) = self.path().parent() else { return Ok(true) };
        let mut end = self.header.first_row + record.rows();

        for _ in 0..MAX_COMMIT_SEGMENTS {
            let path = chain::path(folder, end);
            let mapping = match Mapping::open(&path, Mode::Read).map_err(Error::from) {
                Ok(mapping) => mapping,
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
                Err(e) => return Err(e),
            };
            // A segment that was made dense was on the disk before.
            let Some(next) = Segment::open(mapping).map_err(|e| e.at(&path))? else { return Ok(true) };
            let newest = match next.visible()? {
                Some(newest) if newest.boot == boot_id() => Some(newest),
                _ => next.newest_whole()?,
            };
            // A provisional record without rows is no part of the commit.
            let newest = newest.filter(|newest| !newest.provisional || newest.rows() > 0);
            let Some(newest) = newest.filter(|newest| next.check_record(newest).is_ok()) else {
                return next.has_durable_rows();
            };
            if !next.has_rows_of(&newest)? {
                return next.has_durable_rows();
            }
            if !newest.goes_on || next.is_on_disk_alone(&newest)? {
                return Ok(true);
            }
            end = next.header.first_row + newest.rows();
        }

        Ok(false)
    }
}

/// Returns true if a durable record has more than the visible `record`, or newer positions.
fn is_newer(durable: &Record, record: &Record) -> bool {
    let has_moved = durable.sequence > record.sequence && durable.positions != record.positions;
    has_more(durable, record) || durable.has_all_counted_in(record) && has_moved
}
