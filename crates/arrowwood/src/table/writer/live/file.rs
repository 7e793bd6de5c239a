//! Makes the commits of one segment durable. Shared by the writer, the background thread, and threads that wait for
//! durable commits.
//!
//! A segment has two durable records, written in turns, and a log. A commit of few bytes is appended to the log, with
//! the bytes of its rows, and synced by one small write. Any other commit is made durable by a durable record after its
//! rows, whose sync covers both. It covers all entries of the log as well, which begins anew.
//!
//! Before data is written that the disk may not get, a note in the live page says so ([`UnsyncedMarker`]). Every
//! process that sees the data sees the note. It is removed once the sync has succeeded, and stays if the sync fails or
//! the process is killed. Without it, the next writer would take the rows for durable, and never write them again:
//! after a failed fsync(2) the kernel marks the pages clean.
//!
//! Locks: `durable` is held while a commit is made durable, and in it the lock of `base` for an instant. `footer` is
//! held while a footer is published, and is never held together with `durable`.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::proof_base::NewestProofBase;
use crate::error::{Error, Result};
use crate::map::{ChangeCheck, MutexExt, SharedFile, guard, with_change_check};
use crate::rows::Plan;
use crate::table::format::{Header, PAGE, RENEWED_PROOF, Record, STAMPED, SYNCED, UNSYNCED, WAITING};
use crate::table::protocol::log::LogEntry;
use crate::table::protocol::proof::proof_of;
use crate::table::protocol::{FooterRing, FooterSizes, PATIENCE, is_published};
use crate::table::reader::{UnsyncedMarker, check_record, damaged_record, delta_checksum, visible};

/// The number of bytes of the log that are prepared for the first commit that goes there.
const FIRST_LOG_BYTES: u64 = 32 << 10;
/// The first page in a note where all entries of the log are on the disk.
const NO_LOG_PAGE: u32 = u32::MAX;
/// The factor by which more of the log is prepared each time.
const LOG_GROWTH: u64 = 4;

/// The parts of a segment that its writer shares with other threads. Rows and visible commits are written by the writer
/// alone.
#[derive(Debug)]
pub(in crate::table) struct LiveFile {
    /// The segment's file, mapped.
    pub store: SharedFile,
    pub header: Header,
    /// The plan of the segment's schema, with its zones.
    pub plan: Arc<Plan>,
    /// The footers for other Arrow readers.
    footer: Mutex<FooterRing>,
    durable: Mutex<DurableState>,
    /// The newest durable record, since which visible commits are proven.
    pub(super) base: NewestProofBase,
}

/// The durable state of a segment.
#[derive(Debug, Default)]
pub(super) struct DurableState {
    /// The number of the newest durable record. Its parity is the record's place in the file.
    pub number: u64,
    /// The newest durable record; without counters if no further record can be based on it.
    pub record: Record,
    /// The newest durable commit, which may be in the log.
    pub newest: Record,
    /// The largest number of a durable commit so far.
    pub sequence: u64,
    pub log: LogState,
    /// True while a sync has begun and has not succeeded: no other one may follow.
    pub is_in_doubt: bool,
}

/// The log for its writer.
#[derive(Debug, Default)]
pub(super) struct LogState {
    /// True if commits may be logged: only after a durable record covers the entries of an earlier process.
    pub is_open: bool,
    /// The number of bytes already written and synced: overwriting them changes no metadata of the file.
    pub ready: u64,
    /// The offset of the next entry. Earlier entries are not in a durable record yet.
    pub next: u64,
}

/// The destination of durable commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum SyncTarget {
    /// The log if they are small, else the columns.
    LogOrColumns,
    /// The columns, including the commits in the log.
    Columns,
    /// The columns, for rows that are valid only once the previous segments are durable.
    ProvisionalColumns,
}

impl LiveFile {
    pub(super) fn new(
        store: SharedFile,
        header: Header,
        plan: &Arc<Plan>,
        footer: Mutex<FooterRing>,
        durable: Mutex<DurableState>,
    ) -> LiveFile {
        LiveFile { store, header, plan: plan.clone(), footer, durable, base: NewestProofBase::default() }
    }

    /// Gives the file a new time of modification, by [`stamp`].
    pub fn stamp(&self) {
        stamp(&self.store, self.header.live);
    }

    /// Locks the footers for other Arrow readers.
    pub fn footer(&self) -> MutexGuard<'_, FooterRing> {
        // Publishing leaves the footer unchanged, or changed completely.
        self.footer.lock_ignoring_poison()
    }

    /// Returns the newest visible commit.
    pub fn visible(&self) -> Result<Record> {
        let check = |when| Ok(self.store.check_unchanged(when)?);
        with_change_check(ChangeCheck::Seldom, check, || {
            let record = visible(&self.header, &self.store, PATIENCE).ok_or_else(damaged_record)?;
            check_record(&record, &self.header, &self.plan)?;
            Ok(record)
        })
    }

    /// Renews the proof of the visible commit `record`: it is then proven since `newest`, the newest durable record.
    /// Called before a durable record is written over the one that the commit was proven since.
    fn renew_proof(&self, record: &Record, newest: &Record) -> Result<()> {
        let Some(proof) = record.proof else { return Ok(()) };
        if proof.base == 0 || proof.base == newest.sequence {
            return Ok(());
        }
        let word = proof_of(&self.plan, &newest.counters, &record.counters, |region, at, into| {
            self.read_part(region, at, into)
        })?;
        let [number, base, proof] = RENEWED_PROOF.map(|offset| self.header.live + offset);
        self.store.publish64(number, 0);
        self.store.publish64(base, newest.sequence);
        self.store.publish64(proof, word.into());
        self.store.publish64(number, record.sequence);
        Ok(())
    }

    /// Reads bytes of a region, from byte `at` of it on.
    fn read_part(&self, region: usize, at: u64, into: &mut [u8]) -> Result<()> {
        self.store.read(self.header.regions[region].offset + at, into).map_err(syncing_failed)
    }

    fn durable(&self) -> MutexGuard<'_, DurableState> {
        // After a panic no more commits become durable.
        self.durable.lock_ignoring_poison()
    }

    /// Returns the number of rows of the newest durable commit.
    pub fn durable_rows(&self) -> u64 {
        self.durable().newest.rows()
    }

    /// Returns true if the newest durable record is known to be on the disk.
    pub(in crate::table::writer) fn has_durable_record(&self) -> bool {
        !self.durable().record.counters.is_empty()
    }

    /// Makes the commit of `record` durable. Returns at once if it already is.
    pub fn make_durable(&self, record: &Record, target: SyncTarget) -> Result<()> {
        let mut last = self.durable();
        let mut counters = last.newest.counters.iter().zip(&record.counters);
        assert!(counters.all(|(durable, count)| durable <= count), "an older commit is made durable after a newer one");
        let newest = if target == SyncTarget::LogOrColumns { &last.newest } else { &last.record };
        let has_all = newest.has_same_state(record);
        if has_all && (target == SyncTarget::ProvisionalColumns || !newest.provisional) {
            return Ok(());
        }
        if target == SyncTarget::LogOrColumns && !record.sealed && self.log(&mut last, record)? {
            return Ok(());
        }
        self.write_durable(
            &mut last,
            Record { provisional: target == SyncTarget::ProvisionalColumns, ..record.clone() },
        )
    }

    /// Records that the previous segments are durable, so that this one is valid by itself.
    pub fn mark_standalone(&self) {
        let mut last = self.durable();
        last.record.provisional = false;
        last.newest.provisional = false;
    }

    /// Settles a segment that is closed: writes another durable record after a sync, and releases the log. The record
    /// adds no rows to the previous one, so recovery has no data to verify.
    pub fn settle(&self) -> Result<()> {
        let mut last = self.durable();
        let record = self.visible()?;
        self.write_durable(&mut last, record)?;
        self.release_log(&mut last.log);
        Ok(())
    }

    /// Writes a small commit to the log; returns false if it doesn't fit.
    fn log(&self, last: &mut DurableState, record: &Record) -> Result<bool> {
        if !last.log.is_open || self.header.log == 0 {
            return Ok(false);
        }
        // Not each time: see `CHECK_INTERVAL` in the background thread.
        self.store.check_unchanged(ChangeCheck::Seldom)?;

        let zeros = vec![0; record.counters.len()];
        let before = if last.newest.counters.is_empty() { &zeros } else { &last.newest.counters };
        let sequence = record.sequence.max(last.sequence + 1);
        let entry = Record { sequence, previous: 0, provisional: false, goes_on: false, proof: None, ..record.clone() };
        let encoded =
            LogEntry::encode(&self.plan, before, entry.clone(), |region: usize, at: u64, into: &mut [u8]| {
                self.store.copy_out(self.header.regions[region].offset + at, into);
                Ok(())
            })?;
        let Some(bytes) = encoded else { return Ok(false) };
        // The bytes are zeros if their pages were lost.
        self.store.check_stored()?;

        let end = last.log.next + bytes.len() as u64;
        if end > self.header.log || self.unsynced().is_some() {
            return Ok(false);
        }

        let log_page = u32::try_from(last.log.next / PAGE).map_err(|_| Error::internal("a log of 16 TiB"))?;
        self.begin_sync(last, UnsyncedMarker { record: None, log_page })?;
        self.prepare_log(&mut last.log, end)?;
        assert!(end <= last.log.ready && last.log.ready <= self.header.log, "an entry is written inside the log");
        let written = self.store.write_synced(self.header.log_start() + last.log.next, &bytes);
        written.map_err(syncing_failed)?;
        self.end_sync(last, sequence);

        last.log.next = end;
        last.newest = entry;
        last.sequence = sequence;
        Ok(true)
    }

    /// Writes zeros over the log up to byte `end` at least, once, and further than that, so that it is rarely needed.
    fn prepare_log(&self, log: &mut LogState, end: u64) -> Result<()> {
        if end <= log.ready {
            return Ok(());
        }
        let to = (LOG_GROWTH * log.ready).max(FIRST_LOG_BYTES).max(end).min(self.header.log);
        let zeros = vec![0; (to - log.ready) as usize];
        self.store.write(self.header.log_start() + log.ready, &zeros).map_err(syncing_failed)?;
        // The sync of the first entry follows.
        self.store.order().map_err(syncing_failed)?;
        log.ready = to;
        Ok(())
    }

    /// Notes, for readers and the next writer, data about to be written that may not be on the disk. The note stays if
    /// the sync fails or this process is killed.
    fn begin_sync(&self, last: &mut DurableState, unsynced: UnsyncedMarker) -> Result<()> {
        if last.is_in_doubt {
            return Err(Error::internal("a sync after one that has failed"));
        }
        last.is_in_doubt = true;
        self.store.publish64(self.header.live + UNSYNCED, unsynced.word());
        Ok(self.store.check_stored()?)
    }

    /// Removes the note, as the sync has succeeded, and stores that the durable commit `sequence` is on the disk.
    fn end_sync(&self, last: &mut DurableState, sequence: u64) {
        assert!(last.is_in_doubt, "the end of a sync that has not begun");
        self.store.publish64(self.header.live + SYNCED, sequence);
        self.store.publish64(self.header.live + UNSYNCED, 0);
        last.is_in_doubt = false;
    }

    /// Returns the note, of this process or a dead one, of data that may not be on the disk.
    fn unsynced(&self) -> Option<UnsyncedMarker> {
        UnsyncedMarker::from_word(self.store.load64(self.header.live + UNSYNCED))
    }

    /// Writes the durable record of the commit of `record` over the older one, and syncs the file.
    fn write_durable(&self, last: &mut DurableState, record: Record) -> Result<()> {
        self.store.check_unchanged(ChangeCheck::Now)?;

        let zeros = vec![0; record.counters.len()];
        let is_first = last.record.counters.is_empty();
        let before = if is_first { &zeros } else { &last.record.counters };
        let previous = if is_first { 0 } else { last.record.sequence };
        let delta =
            delta_checksum(&self.plan, before, &record.counters, |region, at, into| self.read_part(region, at, into))?;
        let sequence = record.sequence.max(last.sequence + 1);
        if !is_first {
            self.renew_proof(&record, &last.record)?;
        }
        assert!(previous < sequence, "commit {sequence} is based on commit {previous}");

        let durable = Record { previous, delta, sequence, goes_on: false, proof: None, ..record };
        let mut bytes = Vec::new();
        durable.encode(&mut bytes);

        // Unsynced log entries stay in doubt until this sync ends.
        let log_page = match self.unsynced() {
            Some(unsynced) => unsynced.log_page,
            None => NO_LOG_PAGE,
        };
        let number = last.number + 1;
        self.begin_sync(last, UnsyncedMarker { record: Some(number % 2), log_page })?;
        self.store.write(self.header.durable(number), &bytes).map_err(syncing_failed)?;
        self.store.sync().map_err(syncing_failed)?;
        self.end_sync(last, sequence);
        self.base.set(&durable);

        // The record now covers all entries of the log.
        last.log.is_open = true;
        last.log.next = 0;
        if durable.sealed {
            self.release_log(&mut last.log);
        }
        last.number = number;
        last.sequence = sequence;
        last.newest = durable.clone();
        last.record = durable;
        Ok(())
    }

    /// Releases the space of the log, whose entries are in a durable record.
    fn release_log(&self, log: &mut LogState) {
        assert_eq!(log.next, 0, "all entries are in a durable record");
        if log.ready > 0 {
            // Blocks that stay allocated only cost space.
            let _ = self.store.release(self.header.log_start(), self.header.log);
            log.ready = 0;
        }
    }

    /// Releases the space of published footers that no reader uses any more.
    pub fn trim_footers(&self) -> io::Result<()> {
        let unused = self.footer().unused(&self.header);
        for (from, to) in unused {
            self.release(from, to)?;
        }
        Ok(())
    }

    /// Releases the whole pages of a part of the file.
    pub(in crate::table::writer) fn release(&self, from: u64, to: u64) -> io::Result<()> {
        let from = from.next_multiple_of(PAGE);
        let to = to - to % PAGE;
        if from < to { self.store.release(from, to - from) } else { Ok(()) }
    }

    /// Publishes `counters` before their commit, whose number will be `sequence`.
    pub fn publish_ahead(&self, counters: &[u64], sequence: u64) -> Result<()> {
        let mut footer = self.footer();
        std::thread::sleep(footer.wait_if_urgent());
        self.put_footer(&mut footer, counters, sequence)
    }

    /// Returns true if other Arrow readers find `counters`.
    pub fn is_published(&self, counters: &[u64]) -> Result<bool> {
        let Some(sizes) = FooterSizes::for_header(&self.header, &self.plan) else { return Ok(false) };
        is_published(&sizes, &self.plan, &self.header, counters, |at: u64, into: &mut [u8]| self.store.read(at, into))
            .map_err(|e| Error::io("reading the footer for other readers", &e))
    }

    /// Publishes the footer of the commit `sequence`, which has `counters`.
    pub(super) fn put_footer(&self, footer: &mut FooterRing, counters: &[u64], sequence: u64) -> Result<()> {
        self.store.check_unchanged(ChangeCheck::Now)?;
        let published = footer.publish(&self.store, &self.plan, &self.header, counters, sequence);
        published.map_err(|e| Error::io("writing the footer for other readers", &e))
    }

    /// Publishes the footer of the newest commit.
    pub fn publish(&self) -> Result<()> {
        let mut footer = self.footer();
        let record = self.visible()?;
        // A published footer may be ahead of its commit: see `publish_ahead`.
        if record.sequence <= footer.published {
            return Ok(());
        }
        self.put_footer(&mut footer, &record.counters, record.sequence)
    }
}

/// Gives the file of a segment a time of modification that no copy of it has seen, in whole seconds. `rsync -a` and `cp
/// -u` leave out a file of the same size and second; stores through a mapping may leave its time as it was.
///
/// Best effort: only the owner of the file may choose its times. The next writer checks whether it was done.
pub(in crate::table::writer) fn stamp(store: &SharedFile, live: u64) {
    let _ = guard(|| {
        // Readers that begin to wait find the flag set, and don't change the time again.
        store.publish32(live + WAITING, 1);
        let last = store.load64(live + STAMPED);
        let seconds = store.next_modified_time(if is_plausible_time(last) { last } else { 0 });
        let seconds = seconds.map_err(|e| Error::io("asking for a file's times", &e))?;
        store.publish64(live + STAMPED, seconds);
        store.set_modified_time(seconds).map_err(|e| Error::io("setting a file's times", &e))
    });
}

/// Returns true if a note of a time, in seconds since 1970, may be by a writer: tables that are closed more often than
/// once a second get ahead of the clock.
fn is_plausible_time(stamped: u64) -> bool {
    const MAX_AHEAD: u64 = 10 * 366 * 24 * 3600;
    // A clock before 1970 is at its beginning.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    stamped < now.saturating_add(MAX_AHEAD)
}

fn syncing_failed(e: io::Error) -> Error {
    Error::io("syncing rows to the disk", &e)
}
