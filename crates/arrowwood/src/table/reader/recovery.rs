//! Recovers segments after a system crash: falls back on durable records and the log.
//!
//! Three kinds of commits are found in a segment: the visible one, durable records, and entries of the log. Which of
//! them is the newest valid one depends on the page cache:
//!
//! - If the visible record is of this boot, and the page cache is the writer's, it counts ([`Segment::newest`]). If it
//!   is torn, the other visible record counts, or a durable commit that has more.
//! - Otherwise the system has crashed since. The newest durable record whose bytes are on the disk counts, followed by
//!   the entries of the log that continue it ([`recover`]).
//!
//! A durable record contains a checksum of the bytes appended since the previous durable record, so record and data can
//! go to the disk with one fdatasync(2), in any order: if the record arrived and its data did not, the checksum doesn't
//! match, and the previous record is valid.

use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use crate::error::{Error, ErrorKind, Result};
use crate::map::{Mapping, Mode, boot_id, read_boot_id};
use crate::rows::Plan;
use crate::table::format::{MOST_SEQUENCE, NO_BOOT, PAGE, Record, SYNCED, UNSYNCED};
use crate::table::protocol::log::{AppendedBytes, LogEntry, appended_bytes, entries, entries_after};
use crate::table::reader::segment::{RecoveredState, Segment};

/// Returns the checksum of the bytes that were appended between commits with counters `from` and `to`, buffer by
/// buffer.
///
/// # Errors
/// Returns the errors of `copy`, which fills its last argument with the bytes of a region from an offset on.
pub(in crate::table) fn delta_checksum(
    plan: &Plan,
    from: &[u64],
    to: &[u64],
    mut copy: impl FnMut(usize, u64, &mut [u8]) -> Result<()>,
) -> Result<u32> {
    appended_bytes(plan, from, to)?.into_iter().try_fold(0, |crc, piece| piece.checksum(crc, &mut copy))
}

/// Checks that the system's boot has an id, without which commits lost in a system crash could not be told from others.
///
/// # Errors
/// `Unsupported` if it has none, or the errors of reading it.
pub(in crate::table) fn check_boot_id() -> Result<()> {
    let id = read_boot_id().map_err(|e| Error::io("reading the id of the machine's boot", &e))?;
    if id != [0; 16] {
        return Ok(());
    }
    let message = "the machine's boot has no id (in /proc/sys/kernel/random/boot_id), by which growing tables know \
                   what a crash of the machine may have cost; mount /proc";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// A note in the segment of data that may not be on the disk: its sync is in progress, has failed, or was interrupted
/// by the writer's death.
///
/// The writer stores the note before it writes the data, and clears it after the sync. A reader loads the data, then an
/// acquire fence, then the note: if it has seen unsynced data, it sees the note, or a later one. The note is one word,
/// so it is never torn; it contains a checksum of the boot's id, so that a note of an earlier boot counts for nothing:
/// after a reboot, the file has the contents of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct UnsyncedMarker {
    /// The number of the durable record, 0 or 1, that may not be on the disk.
    pub record: Option<u64>,
    /// The first page of the log from which on entries may not be on the disk; `u32::MAX` if all are.
    pub log_page: u32,
}

/// The durability of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitDurability {
    /// A power cut may lose the commit.
    NotDurable,
    /// The commit is on the disk, and valid if the previous segment is durable.
    Provisional,
    /// The commit is on the disk, and valid whatever becomes of other segments.
    Standalone,
}

impl UnsyncedMarker {
    /// The bits of a note that tell which durable record it is about; the other bits below the log page are those of
    /// the boot's checksum. A word without a note is 0.
    const RECORD_BITS: u32 = 3;
    /// The value of these bits for no durable record. Records 0 and 1 have the values 1 and 2.
    const NO_RECORD: u64 = 3;
    /// The number of bits after which the log page follows.
    const LOG_PAGE_SHIFT: u32 = 32;

    /// Encodes the note of this boot, as a word of the live page.
    pub fn word(self) -> u64 {
        let record = self.record.map_or(Self::NO_RECORD, |number| 1 + (number & 1));
        let boot = crc32c::crc32c(&boot_id()) & !Self::RECORD_BITS;
        u64::from(self.log_page) << Self::LOG_PAGE_SHIFT | u64::from(boot) | record
    }

    /// Returns the note of this boot in `word`, if there is one.
    pub fn from_word(word: u64) -> Option<UnsyncedMarker> {
        let log_page = (word >> Self::LOG_PAGE_SHIFT) as u32;
        let notes = [Some(0), Some(1), None].map(|record| UnsyncedMarker { record, log_page });
        notes.into_iter().find(|note| note.word() == word)
    }

    /// Returns true if durable record `number` may not be on the disk.
    pub fn has_record(self, number: u64) -> bool {
        self.record == Some(number & 1)
    }

    /// Returns true if an entry of the log may not be on the disk.
    fn has_entry(self, entry: &LogEntry) -> bool {
        entry.start / PAGE >= u64::from(self.log_page)
    }
}

impl Segment {
    /// Returns the durability of the commit of `record`.
    ///
    /// # Errors
    /// Returns the errors of [`Segment::record_at`].
    pub fn durability(&self, record: &Record) -> Result<CommitDurability> {
        let mut durability = CommitDurability::NotDurable;
        let durable = self.both_durable()?;
        for durable in synced_records(durable, self.unsynced()) {
            if durable.has_same_state(record) {
                if !durable.provisional {
                    return Ok(CommitDurability::Standalone);
                }
                durability = CommitDurability::Provisional;
            }
        }
        Ok(durability)
    }

    /// Returns the number of rows that would survive a power cut, as far as the file shows.
    ///
    /// # Errors
    /// `InvalidData` if an intact record can't belong to the segment.
    pub fn durable_rows(&self) -> Result<u64> {
        if let Some(left) = self.left_by_a_crash()? {
            return Ok(left.record.rows());
        }
        let (base, mut logged) = self.synced()?;
        Ok(logged.pop().map(|entry| entry.record).or(base).map_or(0, |record| record.rows()))
    }

    /// Returns true if the commit of `record`, the segment's newest one, is in a durable record or a log that is on the
    /// disk.
    ///
    /// # Errors
    /// `InvalidData` if an intact record can't belong to the segment.
    #[cfg(feature = "compute")]
    pub(super) fn is_synced(&self, record: &Record) -> Result<bool> {
        if self.left_by_a_crash()?.is_some() {
            return Ok(true);
        }
        let (base, mut logged) = self.synced()?;
        let newest = logged.pop().map(|entry| entry.record).or(base);
        Ok(newest.is_some_and(|newest| newest.has_same_contents(record)))
    }

    /// Returns the newest durable record that was synced, and the synced entries of the log that follow it.
    fn synced(&self) -> Result<(Option<Record>, Vec<LogEntry>)> {
        let durable = self.both_durable()?;
        let mut logged = self.log_entries()?;
        let unsynced = self.unsynced();
        let base = synced_records(durable, unsynced).max_by_key(|record| record.sequence);
        let base = base.map(|record| self.checked_record(record)).transpose()?;
        logged.retain(|entry| !unsynced.is_some_and(|note| note.has_entry(entry)));
        let logged = entries_behind(self, base.as_ref(), logged);
        Ok((base, logged))
    }

    /// Loads the note of unsynced data. Call it after the data was read that it covers.
    fn unsynced(&self) -> Option<UnsyncedMarker> {
        // A durable record or entry that was read before is noted here, unless it was synced since.
        fence(Ordering::Acquire);
        UnsyncedMarker::from_word(self.mapping.load64((self.header.live + UNSYNCED) as usize))
    }

    /// Finds the newest valid commit: after a system crash, the newest durable one.
    ///
    /// # Errors
    /// `InvalidData` if an intact record can't belong to the segment; the newest commit is unknown then.
    pub fn newest(&self) -> Result<Record> {
        let seen = match self.visible_within(1)? {
            // No intact record is of this boot, so no writer is in the middle of a commit.
            None if !self.whole_records()?.iter().any(|record| record.boot == boot_id()) => None,
            None => self.visible()?,
            seen => seen,
        };
        match seen {
            Some(record) if self.is_current(&record)? => Ok(record),
            Some(record) => self.recovered(record.sequence),
            // The pages of sequence and records reach the disk, or a copy, in any order, so the record may be older
            // than its number: the previous commit is valid then.
            None => match self.other_visible()? {
                Some(record) => Ok(record),
                None => self.recovered(self.sane_sequence()?),
            },
        }
    }

    /// Finds the commit after `newest` that seals the segment, if a writer of this boot has prepared but not published
    /// it.
    ///
    /// # Errors
    /// `InvalidData` if an intact record can't belong to the segment.
    pub fn prepared(&self, newest: &Record) -> Result<Option<Record>> {
        assert!(newest.sequence < MOST_SEQUENCE, "numbers of records are checked");
        let sequence = newest.sequence + 1;
        let Some(record) = self.record_at(self.header.page().record(sequence))? else { return Ok(None) };
        if newest.boot != boot_id() || newest.provisional || record.boot != boot_id() || record.provisional {
            return Ok(None);
        }
        let is_next = record.sequence == sequence && record.has_all_counted_in(newest);
        if !is_next || newest.sealed || !record.sealed || self.sequence() != newest.sequence {
            return Ok(None);
        }
        // Some of the commit's segments may be missing in another page cache than the writer's.
        if !self.is_same() {
            return Ok(None);
        }
        self.checked_record(record).map(Some)
    }

    /// Returns true if there may be a newer durable commit than `kept`, which was recovered: another machine writes the
    /// table, and has synced rows since. Opening the segment again finds out if their bytes are there.
    ///
    /// # Errors
    /// As [`Segment::newest`].
    pub(super) fn may_recover_more(&self, kept: &Record) -> Result<bool> {
        if !self.has_changed_since_opening() {
            return Ok(false);
        }
        let durable = self.durable_records()?;
        let logged = self.log_entries()?;
        let records = durable.iter().chain(logged.iter().map(|entry| &entry.record));
        let newest = records.max_by_key(|record| record.sequence);
        Ok(newest.is_some_and(|newest| newest.has_all_counted_in(kept) && !newest.has_same_state(kept)))
    }

    /// Returns the newest durable commit, with the bytes from its log in place.
    fn recovered(&self, visible: u64) -> Result<Record> {
        if let Some(replayed) = &self.replayed {
            return Ok(replayed.record.clone());
        }
        let RecoveredState { record, entries, .. } = recover(self, visible)?;
        // A writer on another machine may have added entries since. Opening the segment again reads them.
        if entries.is_empty() || self.has_changed_since_opening() {
            return Ok(record);
        }
        Err(Error::internal("the log of a segment was not read when the segment was opened").at(self.path()))
    }

    /// Returns the state recovered after a system crash; `None` if a commit was made since.
    pub(super) fn left_by_a_crash(&self) -> Result<Option<RecoveredState>> {
        let visible = match self.visible_within(1)? {
            Some(record) if self.is_current(&record)? => return Ok(None),
            // The other record doesn't matter: it may be that of the first commit of this boot, which is being made, or
            // whose writer was killed.
            Some(record) => record.sequence,
            None => match self.newest_whole()? {
                Some(record) if self.is_current(&record)? => return Ok(None),
                _ => self.sane_sequence()?,
            },
        };
        recover(self, visible).map(Some)
    }

    /// Maps the segment again, with the bytes of the log in place.
    fn replay(self, left: RecoveredState) -> Result<Segment> {
        let mut segment = self.with_logged_bytes(&left.entries)?;
        segment.page_cache = self.page_cache.clone();
        segment.replayed = Some(left);
        Ok(segment)
    }

    /// Returns the segment with the bytes of the log's intact entries of this boot in place of the bytes in the
    /// columns; `None` if there are no such entries. Each entry has a checksum of its bytes, and committed bytes never
    /// change.
    pub fn with_log(&self) -> Result<Option<Segment>> {
        let mut entries = self.log_entries()?;
        entries.retain(|entry| entry.record.boot == boot_id());
        entries.sort_by_key(|entry| entry.record.sequence);
        for entry in &mut entries {
            let mut end = 0;
            for piece in &entry.pieces {
                end += piece.len as usize;
                // The other bits of a bitmap's last byte belong to later rows.
                if let Some((bits, last)) = piece.bits.zip(entry.bytes[..end].last_mut()) {
                    let mut stored = [0];
                    let offset = self.offset_of(piece) + piece.len - 1;
                    self.mapping.read_at(offset as usize, &mut stored)?;
                    *last |= stored[0] & 0xff << bits;
                }
            }
        }
        if entries.is_empty() { Ok(None) } else { self.with_logged_bytes(&entries).map(Some) }
    }

    fn with_logged_bytes(&self, entries: &[LogEntry]) -> Result<Segment> {
        let mut patches: Vec<(usize, &[u8])> = Vec::new();
        for (piece, bytes) in entries.iter().flat_map(LogEntry::parts) {
            let offset = self.offset_of(piece) as usize;
            if offset + bytes.len() > self.mapping.len() {
                return Err(Error::internal("an entry of the log goes beyond its buffer"));
            }
            patches.push((offset, bytes));
        }
        let mapping = Mapping::open_patched(self.path(), patches.into_iter())?;
        match Segment::open(mapping)? {
            Some(segment) if segment.header == self.header => Ok(segment),
            _ => {
                let message = "the segment was replaced while it was opened; open it anew";
                Err(Error::new(ErrorKind::FileChanged, message))
            }
        }
    }

    /// Returns the offset in the file of bytes that a checked record has.
    fn offset_of(&self, piece: &AppendedBytes) -> u64 {
        let region = self.header.regions[piece.region];
        debug_assert!(piece.at + piece.len <= region.capacity, "counters of records are checked");
        region.offset + piece.at
    }

    /// Reads the intact entries of the log, in the order of their offsets.
    ///
    /// # Errors
    /// `InvalidData` if an intact entry can't belong to the segment, or the errors of reading the file.
    pub fn log_entries(&self) -> Result<Vec<LogEntry>> {
        let mut log = vec![0; PAGE.min(self.header.log) as usize];
        self.mapping.read_at(self.header.log_start() as usize, &mut log)?;
        // The first entry begins the log, and most logs were never used.
        if log.iter().all(|&byte| byte == 0) {
            return Ok(Vec::new());
        }
        log.resize(self.header.log as usize, 0);
        self.mapping.read_at(self.header.log_start() as usize, &mut log)?;
        entries(&self.plan, &log, |record| self.check_record(record))
    }

    /// Reads both durable records, unchecked.
    pub fn both_durable(&self) -> Result<[Option<Record>; 2]> {
        self.records_at([0, 1].map(|number| self.header.durable(number)))
    }

    /// Reads the intact visible records.
    pub fn whole_records(&self) -> Result<Vec<Record>> {
        let both = self.records_at([0, 1].map(|number| self.header.page().record(number)))?;
        Ok(both.into_iter().flatten().collect())
    }

    /// Returns the intact visible record of this boot with the largest number.
    pub(super) fn newest_whole(&self) -> Result<Option<Record>> {
        let whole = self.whole_records()?.into_iter().filter(|record| record.boot == boot_id());
        Ok(whole.max_by_key(|record| record.sequence))
    }

    /// Returns the number in the live page, which has no checksum, if it is possible.
    fn sane_sequence(&self) -> Result<u64> {
        let sequence = self.sequence();
        if sequence < MOST_SEQUENCE {
            return Ok(sequence);
        }
        Err(self.impossible_sequence(sequence))
    }

    #[cold]
    fn impossible_sequence(&self, sequence: u64) -> Error {
        let message = format!(
            "the number of the newest commit: expected less than 2^62, got {sequence}; restore the file, or let \
             `arrowwood check --repair` keep what is good"
        );
        Error::invalid(message).at(self.path())
    }

    /// Returns the newest commit of this boot if its visible record is torn: the other visible one, or a durable one
    /// that has more.
    fn other_visible(&self) -> Result<Option<Record>> {
        let Some(record) = self.newest_whole()? else { return Ok(None) };
        let record = self.checked_record(record)?;
        if !self.is_current(&record)? {
            return Ok(None);
        }
        let sequence = record.sequence.max(self.sane_sequence()?);
        let record = self.synced_behind(&record)?.unwrap_or(record);
        Ok(Some(Record { sequence, previous: 0, delta: 0, ..record }))
    }

    /// Returns the newest durable commit, if it was synced in this boot, has more than `seen`, and its bytes are in the
    /// columns; in a copy of the file they may be missing.
    ///
    /// Numbers don't tell which of the two is newer, as a durable record may have a larger number than the visible
    /// record of the same commit; counters do, as they never decrease. If only positions differ, a smaller number
    /// belongs to an older commit; with a larger one, nothing that was synced is newer than the durable commit.
    fn synced_behind(&self, seen: &Record) -> Result<Option<Record>> {
        let (mut newest, logged) = self.synced()?;
        if let Some(base) = &newest
            && !is_on_disk(self, base, &self.durable_records()?)?
        {
            return Ok(None);
        }
        for entry in logged {
            if !self.has_bytes(&entry)? {
                break;
            }
            newest = Some(entry.record);
        }
        let Some(newest) = newest.filter(|durable| durable.boot == boot_id() && durable.has_all_counted_in(seen))
        else {
            return Ok(None);
        };
        let may_follow = newest.sequence > seen.sequence && (newest.sealed || !seen.sealed);
        let has_moved = may_follow && newest.positions != seen.positions;
        Ok(if has_more(&newest, seen) || has_moved { Some(newest) } else { None })
    }

    /// Returns true if the bytes of an entry of the log are in the columns.
    fn has_bytes(&self, entry: &LogEntry) -> Result<bool> {
        for (piece, bytes) in entry.parts() {
            let mut stored = vec![0; bytes.len()];
            self.mapping.read_at(self.offset_of(piece) as usize, &mut stored)?;
            piece.clear_unused(&mut stored);
            if stored != bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the number, 0 or 1, of a durable record whose bytes did not all reach the disk, so that an earlier
    /// commit, `kept`, is the valid one after a system crash.
    ///
    /// # Errors
    /// Returns the errors of [`Segment::record_at`].
    pub fn abandoned_record(&self, kept: &Record) -> Result<Option<u64>> {
        for (number, durable) in (0..).zip(self.both_durable()?) {
            if durable.is_some_and(|durable| kept.boot != boot_id() && has_more(&durable, kept)) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Returns true if the bytes that were appended between the previous durable record and `record` are in the file.
    ///
    /// # Errors
    /// Returns the errors of reading them.
    pub fn has_delta_of(&self, record: &Record) -> Result<bool> {
        is_on_disk(self, record, &self.durable_records()?)
    }

    /// Returns true if a durable record is known to have reached the disk, with its rows: something is there that is only
    /// written after that. Then a wrong byte in these rows is damage: no loss of a page cache can be its cause. `all` are
    /// the segment's durable records. Of a copy nothing is known: it may have only some of the bytes.
    ///
    /// # Errors
    /// Returns the errors of reading the records.
    pub fn has_reached_disk(&self, record: &Record, all: &[Record]) -> Result<bool> {
        if !self.is_known_original_file() {
            return Ok(false);
        }
        let synced = self.mapping.load64((self.header.live + SYNCED) as usize);
        let is_synced = synced < MOST_SEQUENCE && record.sequence <= synced;
        if is_synced || all.iter().any(|later| later.previous == record.sequence) {
            return Ok(true);
        }
        // A proof begins at a durable record that is on the disk.
        let mut proofs = self.whole_records()?.into_iter().filter_map(|visible| visible.proof);
        Ok(proofs.any(|proof| proof.base == record.sequence))
    }

    /// Reads the intact durable records, the newest first.
    ///
    /// # Errors
    /// `InvalidData` if one can't belong to the segment, or the errors of reading the file.
    pub fn durable_records(&self) -> Result<Vec<Record>> {
        let intact = self.both_durable()?.into_iter().flatten();
        let mut records = intact.map(|record| self.checked_record(record)).collect::<Result<Vec<_>>>()?;
        records.sort_by_key(|record| std::cmp::Reverse(record.sequence));
        Ok(records)
    }
}

/// Iterates over the durable records that were synced.
fn synced_records(durable: [Option<Record>; 2], unsynced: Option<UnsyncedMarker>) -> impl Iterator<Item = Record> {
    let numbered = (0..).zip(durable);
    let synced = numbered.filter(move |&(number, _)| !unsynced.is_some_and(|note| note.has_record(number)));
    synced.filter_map(|(_, record)| record)
}

/// Returns true if a durable record has rows, bytes or a seal that `kept` lacks.
pub(super) fn has_more(durable: &Record, kept: &Record) -> bool {
    !kept.has_all_counted_in(durable) || durable.sealed && !kept.sealed
}

/// The maximum number of times that a segment is recovered again because another machine has synced it meanwhile.
const MAX_RECOVERIES: usize = 100;

/// Finds the newest reliable commit after a reboot. `visible` is the number of the newest visible commit, made before
/// it.
pub(super) fn recover(segment: &Segment, visible: u64) -> Result<RecoveredState> {
    let mut durable = segment.durable_records()?;
    for _ in 1..MAX_RECOVERIES {
        let state = recover_from(segment, visible, &durable)?;
        // A writer on another machine begins its log anew once a durable record has the rows that were there.
        if !segment.has_changed_since_opening() {
            return Ok(state);
        }
        let newer = segment.durable_records()?;
        if newer == durable {
            return Ok(state);
        }
        durable = newer;
    }
    recover_from(segment, visible, &durable)
}

/// Finds the newest reliable commit, given the durable records, which were read before.
fn recover_from(segment: &Segment, visible: u64, durable: &[Record]) -> Result<RecoveredState> {
    let mut base = None;
    for record in durable {
        // Its rows can't be lost with a page cache: if they don't match, `check` reports the damage.
        let is_kept = record.boot == boot_id() && segment.has_reached_disk(record, durable)?;
        if is_kept || is_on_disk(segment, record, durable)? {
            base = Some(record.clone());
            break;
        }
    }
    let last = base.clone().unwrap_or_else(|| segment.empty_record());
    // A sealed segment has all bytes in its columns.
    let logged = if last.sealed { Vec::new() } else { segment.log_entries()? };
    let records = durable.iter().chain(logged.iter().map(|entry| &entry.record));
    let sequence = records.map(|record| record.sequence).fold(visible, u64::max);
    if sequence >= MOST_SEQUENCE {
        return Err(segment.impossible_sequence(sequence));
    }
    let entries = entries_after(logged, base.as_ref().map(|record| record.boot), &last);
    let newest = entries.last().map_or(&last, |entry| &entry.record).clone();
    assert!(newest.has_all_counted_in(&last), "recovery goes back behind a durable record");
    // A commit of this boot whose page cache is gone is treated as one of another boot.
    let boot = if segment.is_lost() { NO_BOOT } else { newest.boot };
    Ok(RecoveredState { base, record: Record { sequence, provisional: last.provisional, boot, ..newest }, entries })
}

/// Returns the entries of the log that follow durable record `base`, or the empty segment. A sealed segment has all
/// bytes in its columns.
fn entries_behind(segment: &Segment, base: Option<&Record>, logged: Vec<LogEntry>) -> Vec<LogEntry> {
    let empty = segment.empty_record();
    let last = base.unwrap_or(&empty);
    if last.sealed { Vec::new() } else { entries_after(logged, base.map(|record| record.boot), last) }
}

/// Returns true if a durable record's data has reached the disk with it. `all` are the segment's durable records.
///
/// A copy may have only some of the bytes, so the data of the previous record is compared, too.
///
/// # Errors
/// Returns the errors of reading the data.
pub(super) fn is_on_disk(segment: &Segment, record: &Record, all: &[Record]) -> Result<bool> {
    let previous = all.iter().find(|other| other.sequence == record.previous);
    let empty = segment.empty_record();
    let before = match previous {
        Some(previous) => previous,
        None if record.previous == 0 => &empty,
        // The previous record may be overwritten by a newer, torn one. The start of the delta is unknown then, but
        // this record is on the disk: a newer one is begun only after that.
        None => return Ok(true),
    };
    if checksum(segment, &before.counters, record)? != record.delta {
        return Ok(false);
    }
    match previous {
        Some(previous) if !segment.is_known_original_file() => is_on_disk(segment, previous, all),
        _ => Ok(true),
    }
}

/// Returns the checksum of the bytes in the segment that were appended between counters `before` and `record`.
pub(in crate::table) fn checksum(segment: &Segment, before: &[u64], record: &Record) -> Result<u32> {
    delta_checksum(&segment.plan, before, &record.counters, |region, at, into| segment.read_region(region, at, into))
}

/// Returns the number of rows lost in a system crash: the visible ones behind `kept`, if there are any.
pub(in crate::table) fn lost_rows(segment: &Segment, kept: &Record) -> Result<u64> {
    Ok(segment.visible_rows()?.saturating_sub(kept.rows()))
}

/// Opens the segment at `path`. After a system crash, restores the bytes of its log in memory only: a reader writes to
/// no file.
pub(in crate::table) fn open_segment(path: &Path) -> Result<Option<Segment>> {
    let mapping = Mapping::open(path, Mode::Read)?;
    open_mapping(mapping).map_err(|e| e.at(path))
}

/// Opens a mapped segment like [`open_segment`].
pub(in crate::table) fn open_mapping(mapping: Mapping) -> Result<Option<Segment>> {
    let Some(segment) = Segment::open(mapping)? else { return Ok(None) };
    check_boot_id()?;
    match segment.left_by_a_crash() {
        Ok(Some(left)) if !left.entries.is_empty() => segment.replay(left).map(Some),
        Ok(_) => Ok(Some(segment)),
        // Damage is reported when the newest commit is requested.
        Err(e) if e.is_corruption() => Ok(Some(segment)),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
thread_local! {
    /// Simulates another process that changes the table when this thread has opened a segment, and has not read its
    /// newest commit.
    pub(in crate::table) static BEFORE_READING: std::cell::Cell<Option<Box<dyn FnOnce()>>>
        = const { std::cell::Cell::new(None) };
}

/// Opens the segment at `path`, with its newest commit.
pub(in crate::table) fn open_newest(path: &Path) -> Result<Option<(Segment, Record)>> {
    // Repeated only if a writer has made the first commit of this boot meanwhile: then nothing is replayed the next
    // time.
    loop {
        let Some(segment) = open_segment(path)? else { return Ok(None) };
        #[cfg(test)]
        BEFORE_READING.take().into_iter().for_each(|act| act());
        let record = segment.newest()?;
        if !segment.is_outdated(&record) {
            return Ok(Some((segment, record)));
        }
    }
}
