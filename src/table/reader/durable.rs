//! What survives a crash of the machine: durable records, and how to fall back on them.
//!
//! A durable record carries a checksum of the bytes appended since the durable record before it, so record and data can
//! go to the disk with one fdatasync(2), in any order: if the record arrived and its data did not, the checksum says so,
//! and the record before counts.

use crate::error::{Error, Result};
use crate::map::{Words, boot_id};
use crate::rows::Plan;
use crate::table::format::{FAILED_SYNC, MOST_SEQUENCE, Record};
use crate::table::reader::Segment;

/// The checksum of the bytes that `to` has and `from` has not, buffer after buffer.
pub(in crate::table) fn delta(
    plan: &Plan,
    from: &[u64],
    to: &[u64],
    mut copy: impl FnMut(usize, u64, &mut [u8]) -> Result<()>,
) -> Result<u32> {
    let mut crc = 0;
    let mut chunk = vec![0; 1 << 16];
    let (before, after) = (plan.extents(from)?, plan.extents(to)?);
    for (old, new) in before.into_iter().zip(after) {
        debug_assert_eq!(old.region, new.region, "the extents of one plan");
        let mut at = match (old.bits, old.bytes) {
            (Some(bits), _) => bits / 8,
            // The first offset of all is 0 and was never appended.
            (None, bytes) => bytes.min(new.bytes),
        };
        while at < new.bytes {
            let len = (new.bytes - at).min(chunk.len() as u64);
            let part = &mut chunk[..len as usize];
            copy(new.region, at, part)?;
            at += len;
            if let Some(bits) = new.bits.filter(|bits| at == new.bytes && !bits.is_multiple_of(8)) {
                part[len as usize - 1] &= !(0xff << (bits % 8));
            }
            crc = crc32c::crc32c_append(crc, part);
        }
    }
    Ok(crc)
}

/// What stands in a segment of which a sync has failed: a number of this boot. What is there after another one is on the
/// disk.
pub(in crate::table) fn failed_sync_boot() -> u32 {
    crc32c::crc32c(&boot_id()) | 1
}

impl Segment {
    /// Whether all that the record says is on the disk, and there is nothing says otherwise.
    pub fn is_durable(&self, record: &Record) -> bool {
        let is_same = |durable: Record| durable.sealed == record.sealed && durable.counters == record.counters;
        let word = self.mapping.load32(self.header.live + FAILED_SYNC);
        word != failed_sync_boot() && (0..2).filter_map(|number| self.durable(number)).any(is_same)
    }

    /// The newest commit that counts: after a crash of the machine, the newest durable one.
    ///
    /// # Errors
    /// `InvalidData` where a record is whole and can't be one of the segment: then nothing is known of what was committed.
    pub fn newest(&self) -> Result<Record> {
        let seen = match self.visible_within(1)? {
            // Nobody has committed since the machine was started: nobody is in the middle of it.
            None if !self.whole_records().any(|record| record.boot == boot_id()) => None,
            None => self.visible()?,
            seen => seen,
        };
        match seen {
            Some(record) if record.boot == boot_id() => Ok(record),
            Some(record) => recover(self, record.sequence),
            // The pages of sequence and records reach the disk, or a copy, in any order: then the commit before counts.
            None => match self.other_visible()? {
                Some(record) => Ok(record),
                None => recover(self, self.sane_sequence()?),
            },
        }
    }

    fn whole_records(&self) -> impl Iterator<Item = Record> {
        (0..2).filter_map(|number| self.record_at(self.header.page().record(number)))
    }

    /// The number on the live page, which has no checksum.
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

    /// A whole visible record of this boot, where the newest one is not whole.
    fn other_visible(&self) -> Result<Option<Record>> {
        let newest = self.whole_records().filter(|record| record.boot == boot_id()).max_by_key(|r| r.sequence);
        let Some(record) = newest else { return Ok(None) };
        let record = self.checked_record(record)?;
        let sequence = record.sequence.max(self.sane_sequence()?);
        Ok(Some(Record { sequence, ..record }))
    }

    /// The durable records that are whole, the newest first.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn durable_records(&self) -> Result<Vec<Record>> {
        let whole = (0..2).filter_map(|number| self.durable(number));
        let mut found = whole.map(|record| self.checked_record(record)).collect::<Result<Vec<_>>>()?;
        found.sort_by_key(|record| std::cmp::Reverse(record.sequence));
        Ok(found)
    }
}

/// The newest commit that can be relied on when the newest visible one, of number `visible`, was made before the machine
/// last started. It gets a number behind all that there are.
fn recover(segment: &Segment, visible: u64) -> Result<Record> {
    let found = segment.durable_records()?;
    let mut best = Record { counters: vec![0; segment.header.limits.len()], ..Record::default() };
    for record in &found {
        if is_on_disk(segment, record, &found)? {
            best = record.clone();
            break;
        }
    }
    let sequence = found.iter().map(|record| record.sequence).fold(visible, u64::max);
    debug_assert!(sequence < MOST_SEQUENCE, "numbers of records are checked");
    Ok(Record { sequence, ..best })
}

/// Whether what a durable record says has reached the disk with it.
fn is_on_disk(segment: &Segment, record: &Record, all: &[Record]) -> Result<bool> {
    let before = match record.previous {
        0 => vec![0; record.counters.len()],
        previous => match all.iter().find(|other| other.sequence == previous) {
            Some(before) => before.counters.clone(),
            // The other area may hold a newer record that was torn; then nothing says where the delta began, but a newer
            // one is only begun when this one is on the disk.
            None => return Ok(true),
        },
    };
    Ok(checksum(segment, &before, record)? == record.delta)
}

/// The checksum of what `record` has and `before` has not, as the segment holds it.
pub(in crate::table) fn checksum(segment: &Segment, before: &[u64], record: &Record) -> Result<u32> {
    let offset = |region: usize, at: u64| segment.header.regions[region].offset + at;
    delta(&segment.plan, before, &record.counters, |region, at, into| {
        segment.mapping.read_at(offset(region, at) as usize, into)
    })
}

/// The rows that a crash of the machine has cost the segment.
pub(in crate::table) fn dropped(segment: &Segment, kept: &Record) -> Result<u64> {
    let visible = segment.visible()?.map_or(0, |visible| visible.rows());
    Ok(visible.saturating_sub(kept.rows()))
}
