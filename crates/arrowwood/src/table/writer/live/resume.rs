//! Brings a segment back to the commit that counts, after a writer that died or a crash of the machine, and finds out
//! what of it is durable.

use std::io;

use super::file::DurableState;
use crate::error::{Error, Result};
use crate::map::{SharedFile, SharedWords, boot_id};
use crate::rows::Plan;
use crate::table::format::{Header, NO_BOOT, RECORD, Record, SYNCED, UNSYNCED};
use crate::table::protocol::log::LogEntry;
use crate::table::reader::{Segment, UnsyncedMarker};

/// The number of bytes that are rewritten at once.
const CHUNK: usize = 64 << 10;

/// The number before the first commit.
const NO_COMMIT: u64 = 0;

/// A segment, and its commit to continue from.
#[derive(Clone, Copy)]
pub(super) struct ResumePoint<'a> {
    pub segment: &'a Segment,
    pub record: &'a Record,
}

/// Returns the error of a segment that can't be opened.
pub(super) fn opening_failed(e: io::Error) -> Error {
    Error::io("opening the segment to go on writing", &e)
}

impl ResumePoint<'_> {
    /// Returns true if a durable record has no more than the commit to continue from.
    pub fn covers(self, durable: &Record) -> bool {
        durable.counters.iter().zip(&self.record.counters).all(|(durable, own)| durable <= own)
    }

    /// Erases the records that don't count, and writes the bytes of the log to their places. Visible records are erased
    /// only if rows are `to_be_appended`.
    pub fn discard_other_commits(self, store: &SharedFile, to_be_appended: bool) -> Result<()> {
        let header = &self.segment.header;
        if let Some(number) = self.segment.abandoned_record(self.record)? {
            // Otherwise it would become valid again if equal rows were appended.
            store.write(header.durable(number), &vec![0; header.record as usize]).map_err(opening_failed)?;
            store.sync().map_err(opening_failed)?;
        }
        // First: with the bytes of the log, the proof of rows that are lost may hold again.
        for offset in self.stale_records(store, to_be_appended)? {
            // With its checksum: the next record may begin with the same number.
            SharedWords::store_words(store, offset, &[0; RECORD]);
            // If a page cache is lost later, the disk may have the record that is written next as it was before.
            store.sync().map_err(opening_failed)?;
        }
        let entries = self.segment.replayed.iter().flat_map(|replayed| &replayed.entries);
        for (piece, bytes) in entries.flat_map(LogEntry::parts) {
            store.write(header.regions[piece.region].offset + piece.at, bytes).map_err(opening_failed)?;
        }
        Ok(())
    }

    /// Returns the offsets of the visible records to erase, in the order in which to erase them: those that are torn,
    /// and, if rows are `to_be_appended`, the records of commits that never count.
    fn stale_records(self, store: &SharedFile, to_be_appended: bool) -> Result<Vec<u64>> {
        let offsets = [0, 1].map(|number| self.segment.header.page().record(number));
        let mut stale = Vec::new();
        for (offset, other) in offsets.into_iter().zip(self.segment.records_at(offsets)?) {
            match other {
                Some(other) if other.boot == boot_id() => {
                    let never_counts = self.record.boot == NO_BOOT || other.sequence > self.record.sequence;
                    if to_be_appended && never_counts {
                        stale.push((other.sequence, offset));
                    }
                }
                // A record of another boot doesn't count, whatever its rows are.
                Some(_) => (),
                None => {
                    // The number of one record and the rest of another, which the number of the next record may make
                    // whole.
                    let mut start = [0; RECORD];
                    store.read(offset, &mut start).map_err(opening_failed)?;
                    if start != [0; RECORD] {
                        stale.push((0, offset));
                    }
                }
            }
        }
        // The newer one tells that the older one does not count.
        stale.sort_unstable();
        Ok(stale.into_iter().map(|(_, offset)| offset).collect())
    }

    /// Returns the durable state of the segment. Its log stays closed until a durable record covers all entries.
    pub fn durable_state(self) -> Result<DurableState> {
        let base = match &self.segment.replayed {
            // The other one was torn, though the log may continue after it.
            Some(replayed) => replayed.base.clone(),
            None => self.segment.durable_records()?.into_iter().find(|durable| self.covers(durable)),
        };
        let logged = self.segment.log_entries()?.into_iter().map(|entry| entry.record.sequence).max();
        let Some(base) = base else {
            return Ok(DurableState { sequence: logged.unwrap_or(NO_COMMIT), ..DurableState::default() });
        };
        let sequence = logged.map_or(base.sequence, |logged| logged.max(base.sequence));
        for (number, durable) in (0..).zip(self.segment.both_durable()?) {
            if durable.is_some_and(|durable| durable.sequence == base.sequence) {
                let newest = base.clone();
                return Ok(DurableState { number, newest, record: base, sequence, ..DurableState::default() });
            }
        }
        Err(Error::internal("a durable record has gone").at(self.segment.path()))
    }

    /// Resolves a dead writer's note of what it was syncing, if it has left one; returns the durable state after that.
    pub fn resolve_unsynced(self, store: &SharedFile, plan: &Plan, durable: DurableState) -> Result<DurableState> {
        let header = &self.segment.header;
        if self.record.boot == NO_BOOT {
            // A note of this boot in a page cache that is gone: what is there now was read from the disk.
            store.publish64(header.live + UNSYNCED, 0);
        }
        let Some(unsynced) = UnsyncedMarker::from_word(store.load64(header.live + UNSYNCED)) else {
            return Ok(durable);
        };
        rewrite_rows(store, header, plan, &self.record.counters)?;
        let Some(number) = unsynced.record else { return Ok(durable) };
        let noted = self.segment.durable(number)?.filter(|noted| !self.segment.is_same() && self.covers(noted));
        if let Some(noted) = noted
            && self.segment.has_delta_of(&noted)?
        {
            // It may be on the disk, and earlier segments may rely on it: a page cache that was lost leaves notes of
            // syncs that ended. It becomes durable as it is.
            let mut bytes = Vec::new();
            noted.encode(&mut bytes);
            store.write(header.durable(number), &bytes).map_err(opening_failed)?;
            store.sync().map_err(opening_failed)?;
            store.publish64(header.live + SYNCED, noted.sequence);
            store.publish64(header.live + UNSYNCED, 0);
            return Ok(durable);
        }
        // The next durable record overwrites the one that may not be on the disk; the other one is.
        let other = self.segment.durable(number + 1)?.filter(|other| self.covers(other));
        Ok(DurableState {
            number: number + 1,
            sequence: durable.sequence,
            // Without one, no row is known to be durable.
            newest: other.unwrap_or_default(),
            ..DurableState::default()
        })
    }
}

/// Rewrites the existing rows in place: after a failed sync the system would not write them again, and if a process was
/// killed during a sync, it is unknown whether it failed.
fn rewrite_rows(store: &SharedFile, header: &Header, plan: &Plan, counters: &[u64]) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    for used in plan.extents(counters)? {
        for start in (0..used.bytes).step_by(CHUNK) {
            let part = &mut chunk[..(used.bytes - start).min(CHUNK as u64) as usize];
            let offset = header.regions[used.region].offset + start;
            store.read(offset, part).map_err(opening_failed)?;
            store.write(offset, part).map_err(opening_failed)?;
        }
    }
    Ok(())
}
