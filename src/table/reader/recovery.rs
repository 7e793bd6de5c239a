//! Recovery after a system crash: durable records, and how to fall back on them.
//!
//! A durable record contains a checksum of the bytes appended since the previous durable record, so record and data can
//! go to the disk with one fdatasync(2), in any order: if the record arrived and its data did not, the checksum doesn't
//! match, and the previous record is valid.

use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use crate::error::{Error, ErrorKind, Result};
use crate::map::{Mapping, Mode, boot_id, read_boot_id};
use crate::rows::Plan;
use crate::table::format::{MOST_SEQUENCE, NO_BOOT, PAGE, Record, UNSYNCED};
use crate::table::protocol::log::{AppendedBytes, LogEntry, appended_bytes, entries, entries_after};
use crate::table::reader::segment::{RecoveredState, Segment};

/// The checksum of the bytes that `to` has and `from` has not, buffer by buffer.
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
/// `Unsupported`; those of reading it.
pub(in crate::table) fn check_boot_id() -> Result<()> {
    let id = read_boot_id().map_err(|e| Error::io("reading the id of the machine's boot", &e))?;
    if id != [0; 16] {
        return Ok(());
    }
    let message = "the machine's boot has no id (in /proc/sys/kernel/random/boot_id), by which growing tables know what a \
                   crash of the machine may have cost; mount /proc";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Written data that may not be on the disk: its sync is in progress, has failed, or was interrupted by the writer's
/// death. Noted in the segment before the data is written, so that every process that sees the data also sees the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct UnsyncedMarker {
    /// The number of the durable record, 0 or 1.
    pub record: Option<u64>,
    /// The first page of the log from which on entries may not be on the disk; `u32::MAX` if all are.
    pub log_page: u32,
}

/// Whether a commit is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitDurability {
    NotDurable,
    /// The commit is valid if the previous segment is durable.
    Provisional,
    Standalone,
}

impl UnsyncedMarker {
    /// The encoded note in the live page. It is valid for this boot: after the next boot, the file has the contents of
    /// the disk.
    pub fn word(self) -> u64 {
        let kind = self.record.map_or(3, |number| 1 + (number & 1));
        u64::from(self.log_page) << 32 | u64::from(crc32c::crc32c(&boot_id()) & !3) | kind
    }

    /// Returns the note of this boot in `word`, if there is one.
    pub fn from_word(word: u64) -> Option<UnsyncedMarker> {
        let log_page = (word >> 32) as u32;
        let notes = [Some(0), Some(1), None].map(|record| UnsyncedMarker { record, log_page });
        notes.into_iter().find(|note| note.word() == word)
    }

    /// Whether durable record `number` may not be on the disk.
    pub fn has_record(self, number: u64) -> bool {
        self.record == Some(number & 1)
    }

    /// Whether an entry of the log may not be on the disk.
    fn has_entry(self, entry: &LogEntry) -> bool {
        entry.start / PAGE >= u64::from(self.log_page)
    }
}

impl Segment {
    /// Returns whether the commit of `record` is on the disk.
    ///
    /// # Errors
    /// As [`Segment::record_at`].
    pub fn durability(&self, record: &Record) -> Result<CommitDurability> {
        let there = self.both_durable()?;
        let unsynced = self.unsynced();
        let is_synced = |number: u64| !unsynced.is_some_and(|note| note.has_record(number));
        let synced = (0..2).zip(there).filter(|&(number, _)| is_synced(number)).filter_map(|(_, durable)| durable);
        let is_same = |durable: &Record| {
            let has_all = durable.counters == record.counters && durable.positions == record.positions;
            has_all && durable.sealed == record.sealed
        };
        let mut found = CommitDurability::NotDurable;
        for durable in synced.filter(is_same) {
            if !durable.provisional {
                return Ok(CommitDurability::Standalone);
            }
            found = CommitDurability::Provisional;
        }
        Ok(found)
    }

    /// The number of rows that would survive a power cut, as far as the file shows.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn durable_rows(&self) -> Result<u64> {
        if let Some(left) = self.left_by_a_crash()? {
            return Ok(left.record.rows());
        }
        let (base, mut logged) = self.synced()?;
        Ok(logged.pop().map(|entry| entry.record).or(base).map_or(0, |record| record.rows()))
    }

    /// Whether the commit of `record`, the segment's newest one, is in a durable record or a log that is on the disk.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    #[cfg(feature = "compute")]
    pub(super) fn is_synced(&self, record: &Record) -> Result<bool> {
        if self.left_by_a_crash()?.is_some() {
            return Ok(true);
        }
        let (base, mut logged) = self.synced()?;
        let newest = logged.pop().map(|entry| entry.record).or(base);
        Ok(newest.is_some_and(|newest| newest.counters == record.counters && newest.positions == record.positions))
    }

    /// The newest durable record that was synced, and the synced entries of the log that follow it.
    fn synced(&self) -> Result<(Option<Record>, Vec<LogEntry>)> {
        let there = self.both_durable()?;
        let mut logged = self.log_entries()?;
        let unsynced = self.unsynced();
        logged.retain(|entry| !unsynced.is_some_and(|note| note.has_entry(entry)));
        let is_synced = |number: u64| !unsynced.is_some_and(|note| note.has_record(number));
        let synced = (0..2).zip(there).filter(|&(number, _)| is_synced(number)).filter_map(|(_, record)| record);
        let base = synced.max_by_key(|record| record.sequence).map(|record| self.checked_record(record)).transpose()?;
        let logged = logged_behind(self, base.as_ref(), logged);
        Ok((base, logged))
    }

    /// The note of unsynced data. Loaded after the data it covers was read.
    fn unsynced(&self) -> Option<UnsyncedMarker> {
        // A durable record or entry read before is noted here, unless it was synced since.
        fence(Ordering::Acquire);
        UnsyncedMarker::from_word(self.mapping.load64((self.header.live + UNSYNCED) as usize))
    }

    /// The newest valid commit: after a system crash, the newest durable one.
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
            // The pages of sequence and records reach the disk, or a copy, in any order: then the previous commit is
            // valid.
            None => match self.other_visible()? {
                Some(record) => Ok(record),
                None => self.recovered(self.sane_sequence()?),
            },
        }
    }

    /// The commit after `newest` that seals the segment, if a writer of this boot has prepared but not published it.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn prepared(&self, newest: &Record) -> Result<Option<Record>> {
        let number = newest.sequence + 1;
        let is_live = |record: &Record| record.boot == boot_id() && !record.provisional;
        let Some(record) = self.record_at(self.header.page().record(number))? else { return Ok(None) };
        let has_all = record.counters.iter().zip(&newest.counters).all(|(next, now)| next >= now);
        let is_next = record.sequence == number && record.sealed && has_all && self.sequence() == newest.sequence;
        if !is_next || newest.sealed || !is_live(newest) || !is_live(&record) {
            return Ok(None);
        }
        // Whether all of its segments are there is known only of a page cache that is the writer's.
        if self.is_doubtful() {
            return Ok(None);
        }
        self.checked_record(record).map(Some)
    }

    /// The newest durable commit, with the bytes from its log in place.
    fn recovered(&self, visible: u64) -> Result<Record> {
        if let Some(replayed) = &self.replayed {
            return Ok(replayed.record.clone());
        }
        let RecoveredState { record, entries, .. } = recover(self, visible)?;
        if entries.is_empty() {
            return Ok(record);
        }
        Err(Error::internal("the log of a segment was not read when the segment was opened").at(self.path()))
    }

    /// The state recovered after a system crash; `None` if a commit was made since.
    pub(super) fn left_by_a_crash(&self) -> Result<Option<RecoveredState>> {
        let visible = match self.visible_within(1)? {
            Some(record) if self.is_current(&record)? => return Ok(None),
            // Whatever the other one is: the first writer of this boot may be in its first commit, or was killed in it.
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
        let mut segment = self.with_bytes_of(&left.entries)?;
        segment.page_cache = self.page_cache.clone();
        segment.replayed = Some(left);
        Ok(segment)
    }

    /// The segment with the bytes of the log's intact entries of this boot in place of what is in the columns now; `None`
    /// if there are none. Each entry has a checksum of its bytes, and what was committed does not change.
    pub fn with_log(&self) -> Result<Option<Segment>> {
        let mut entries = self.log_entries()?;
        entries.retain(|entry| entry.record.boot == boot_id());
        entries.sort_by_key(|entry| entry.record.sequence);
        for entry in &mut entries {
            let mut end = 0;
            for piece in &entry.pieces {
                end += piece.len as usize;
                // Later rows have the other bits of a bitmap's last byte.
                if let Some((bits, last)) = piece.bits.zip(entry.bytes[..end].last_mut()) {
                    let mut there = [0];
                    let at = self.header.regions[piece.region].offset + piece.at + piece.len - 1;
                    self.mapping.read_at(at as usize, &mut there)?;
                    *last |= there[0] & 0xff << bits;
                }
            }
        }
        if entries.is_empty() { Ok(None) } else { self.with_bytes_of(&entries).map(Some) }
    }

    fn with_bytes_of(&self, entries: &[LogEntry]) -> Result<Segment> {
        let place = |piece: &AppendedBytes| {
            let region = self.header.regions[piece.region];
            debug_assert!(piece.at + piece.len <= region.capacity, "counters of entries are checked");
            (region.offset + piece.at) as usize
        };
        let parts = entries.iter().flat_map(LogEntry::parts);
        let over: Vec<(usize, &[u8])> = parts.map(|(piece, bytes)| (place(piece), bytes)).collect();
        if over.iter().any(|(at, bytes)| at + bytes.len() > self.mapping.len()) {
            return Err(Error::internal("an entry of the log goes beyond its buffer"));
        }
        let mapping = Mapping::open_patched(self.path(), over.into_iter())?;
        let gone = || Error::new(ErrorKind::FileChanged, "the segment was replaced while it was opened; open it anew");
        Segment::open(mapping)?.filter(|segment| segment.header == self.header).ok_or_else(gone)
    }

    /// The intact entries of the log, in the order of their offsets.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn log_entries(&self) -> Result<Vec<LogEntry>> {
        let mut log = vec![0; PAGE.min(self.header.log) as usize];
        self.mapping.read_at(self.header.log_start() as usize, &mut log)?;
        // Entries are written from the start on: most logs were never used.
        if log.iter().all(|&byte| byte == 0) {
            return Ok(Vec::new());
        }
        log.resize(self.header.log as usize, 0);
        self.mapping.read_at(self.header.log_start() as usize, &mut log)?;
        entries(&self.plan, &log, |record| self.check_record(record))
    }

    /// Both durable records, unchecked.
    pub fn both_durable(&self) -> Result<[Option<Record>; 2]> {
        self.records_at([0, 1].map(|number| self.header.durable(number)))
    }

    /// The intact visible records.
    pub fn whole_records(&self) -> Result<Vec<Record>> {
        let both = self.records_at([0, 1].map(|number| self.header.page().record(number)))?;
        Ok(both.into_iter().flatten().collect())
    }

    /// The intact visible record of this boot with the largest number.
    pub(super) fn newest_whole(&self) -> Result<Option<Record>> {
        let whole = self.whole_records()?.into_iter().filter(|record| record.boot == boot_id());
        Ok(whole.max_by_key(|record| record.sequence))
    }

    /// The number in the live page, which has no checksum.
    fn sane_sequence(&self) -> Result<u64> {
        let sequence = self.sequence();
        if sequence < MOST_SEQUENCE {
            return Ok(sequence);
        }
        let message = format!(
            "the number of the newest commit: expected less than 2^62, got {sequence}; restore the file, or let \
             `arrowwood check --repair` keep what is good"
        );
        Err(Error::invalid(message).at(self.path()))
    }

    /// The newest commit of this boot, if its visible record is torn: the other visible one, or a durable one that has
    /// more.
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

    /// The newest durable commit, if it was synced in this boot, has more than `seen`, and its bytes are in the columns:
    /// those of a copy may not be.
    ///
    /// Numbers don't tell which of the two is newer, as durable commits may have larger ones than the visible commits
    /// that they are of; counters do, as they never decrease. Where only positions differ, a smaller number is that of an
    /// older commit; with a larger one, nothing that was synced is newer than the durable commit.
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
        let has_all =
            |durable: &Record| durable.counters.iter().zip(&seen.counters).all(|(durable, seen)| durable >= seen);
        let has_moved = |durable: &Record| {
            let may_follow = durable.sequence > seen.sequence && (durable.sealed || !seen.sealed);
            may_follow && durable.positions != seen.positions
        };
        let is_behind = |durable: &Record| {
            durable.boot == boot_id() && has_all(durable) && (says_more(durable, seen) || has_moved(durable))
        };
        Ok(newest.filter(is_behind))
    }

    /// Whether the bytes of an entry of the log are in the columns.
    fn has_bytes(&self, entry: &LogEntry) -> Result<bool> {
        for (piece, bytes) in entry.parts() {
            let mut there = vec![0; bytes.len()];
            self.mapping.read_at((self.header.regions[piece.region].offset + piece.at) as usize, &mut there)?;
            piece.clear_unused(&mut there);
            if there != bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of a durable record whose bytes did not all reach the disk, so that `kept`, an earlier commit, is
    /// valid after a system crash.
    ///
    /// # Errors
    /// As [`Segment::record_at`].
    pub fn abandoned_record(&self, kept: &Record) -> Result<Option<u64>> {
        let there = self.both_durable()?;
        let is_given_up = |durable: &Record| kept.boot != boot_id() && says_more(durable, kept);
        Ok(there.iter().position(|durable| durable.as_ref().is_some_and(is_given_up)).map(|number| number as u64))
    }

    /// Whether the bytes that a durable record has and the one before has not are there.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn has_delta_of(&self, record: &Record) -> Result<bool> {
        is_on_disk(self, record, &self.durable_records()?)
    }

    /// The intact durable records, the newest first.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn durable_records(&self) -> Result<Vec<Record>> {
        let whole = self.both_durable()?.into_iter().flatten();
        let mut found = whole.map(|record| self.checked_record(record)).collect::<Result<Vec<_>>>()?;
        found.sort_by_key(|record| std::cmp::Reverse(record.sequence));
        Ok(found)
    }
}

/// Whether a durable record has rows, bytes or a seal that `kept` has not.
pub(super) fn says_more(durable: &Record, kept: &Record) -> bool {
    let has_more = durable.counters.iter().zip(&kept.counters).any(|(durable, kept)| durable > kept);
    has_more || durable.sealed && !kept.sealed
}

/// Finds the newest reliable commit after a reboot. `visible` is the number of the newest visible commit, made before
/// it.
pub(super) fn recover(segment: &Segment, visible: u64) -> Result<RecoveredState> {
    let found = segment.durable_records()?;
    let mut base = None;
    for record in &found {
        if is_on_disk(segment, record, &found)? {
            base = Some(record.clone());
            break;
        }
    }
    let highest = found.iter().map(|record| record.sequence).fold(visible, u64::max);
    let zeros = || Record { counters: vec![0; segment.header.limits.len()], ..Record::default() };
    let last = base.clone().unwrap_or_else(zeros);
    // A sealed segment has all bytes in its columns.
    let logged = if last.sealed { Vec::new() } else { segment.log_entries()? };
    let sequence = logged.iter().map(|entry| entry.record.sequence).fold(highest, u64::max);
    debug_assert!(sequence < MOST_SEQUENCE, "numbers of records are checked");
    let entries = entries_after(logged, base.as_ref().map(|record| record.boot), &last);
    let newest = entries.last().map_or(&last, |entry| &entry.record).clone();
    // A commit of this boot whose page cache is gone is none of this boot.
    let boot = if segment.is_lost() { NO_BOOT } else { newest.boot };
    Ok(RecoveredState { base, record: Record { sequence, provisional: last.provisional, boot, ..newest }, entries })
}

/// The entries of the log that follow durable record `base`, or the empty segment. A sealed segment has all bytes in
/// its columns.
fn logged_behind(segment: &Segment, base: Option<&Record>, logged: Vec<LogEntry>) -> Vec<LogEntry> {
    let nothing = Record { counters: vec![0; segment.header.limits.len()], ..Record::default() };
    let last = base.unwrap_or(&nothing);
    if last.sealed { Vec::new() } else { entries_after(logged, base.map(|record| record.boot), last) }
}

/// Whether a durable record's data has reached the disk with it.
pub(super) fn is_on_disk(segment: &Segment, record: &Record, all: &[Record]) -> Result<bool> {
    let before = match record.previous {
        0 => vec![0; record.counters.len()],
        previous => match all.iter().find(|other| other.sequence == previous) {
            Some(before) => before.counters.clone(),
            // The previous record may be overwritten by a newer, torn one. The start of the delta is unknown then, but
            // this record is on the disk: a newer one is begun only after that.
            None => return Ok(true),
        },
    };
    Ok(checksum(segment, &before, record)? == record.delta)
}

/// The checksum of the bytes in the segment that `record` has and `before` has not.
pub(in crate::table) fn checksum(segment: &Segment, before: &[u64], record: &Record) -> Result<u32> {
    delta_checksum(&segment.plan, before, &record.counters, |region, at, into| segment.read_region(region, at, into))
}

/// The number of rows lost in a system crash.
pub(in crate::table) fn lost_rows(segment: &Segment, kept: &Record) -> Result<u64> {
    let visible = segment.visible()?.map_or(0, |visible| visible.rows());
    Ok(visible.saturating_sub(kept.rows()))
}

/// Opens the segment at `path`. After a system crash, restores the bytes of its log in memory only: a reader writes to
/// no file.
pub(in crate::table) fn open_segment(path: &Path) -> Result<Option<Segment>> {
    let mapping = Mapping::open(path, Mode::Read)?;
    open_mapping(mapping).map_err(|e| e.at(path))
}

/// As [`open_segment`], for a mapped file.
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
    /// What another process does to the table when this thread has opened a segment, and has not read its newest commit.
    pub(in crate::table) static BEFORE_READING: std::cell::Cell<Option<Box<dyn FnOnce()>>>
        = const { std::cell::Cell::new(None) };
}

/// Opens the segment at `path`, with its newest commit.
pub(in crate::table) fn open_newest(path: &Path) -> Result<Option<(Segment, Record)>> {
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
