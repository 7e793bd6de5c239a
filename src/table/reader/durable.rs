//! What survives a crash of the machine: durable records, and how to fall back on them.
//!
//! A durable record carries a checksum of the bytes appended since the durable record before it, so record and data can
//! go to the disk with one fdatasync(2), in any order: if the record arrived and its data did not, the checksum says so,
//! and the record before counts.

use crate::error::Result;
use crate::map::boot_id;
use crate::rows::Plan;
use crate::table::format::{DOUBT, Record};
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
    for (old, new) in plan.extents(from).into_iter().zip(plan.extents(to)) {
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
pub(in crate::table) fn doubt() -> u32 {
    crc32c::crc32c(&boot_id()) | 1
}

impl Segment {
    /// Whether all that the record says is on the disk, and there is no doubt about it.
    pub fn is_durable(&self, record: &Record) -> bool {
        let is_same = |durable: Record| durable.sealed == record.sealed && durable.counters == record.counters;
        let word = self.mapping.load64((self.header.live + DOUBT) as usize) as u32;
        word != doubt() && (0..2).filter_map(|number| self.durable(number)).any(is_same)
    }

    /// The newest commit that counts: after a crash of the machine, the newest durable one.
    pub fn newest(&self) -> Result<Record> {
        let seen =
            self.visible_within(1).or_else(|e| match self.whole_records().any(|record| record.boot == boot_id()) {
                true => self.visible(),
                // Nobody has committed since the machine was started: nobody is in the middle of it.
                false => Err(e),
            });
        match seen {
            Ok(record) if record.boot == boot_id() => Ok(record),
            Ok(record) => recover(self, record.sequence),
            // The pages of sequence and records reach the disk, or a copy, in any order: then the commit before counts.
            Err(_) => match self.other_visible() {
                Some(record) => Ok(record),
                None => recover(self, self.sequence()),
            },
        }
    }

    fn whole_records(&self) -> impl Iterator<Item = Record> {
        (0..2).filter_map(|number| self.record_at(self.header.page().record(number)))
    }

    /// A whole visible record of this boot, where the newest one is not whole.
    fn other_visible(&self) -> Option<Record> {
        let sound = self.whole_records().filter(|record| record.boot == boot_id() && self.check_record(record).is_ok());
        let record = sound.max_by_key(|record| record.sequence)?;
        let sequence = record.sequence.max(self.sequence());
        Some(Record { sequence, ..record })
    }
}

/// The newest commit that can be relied on when the newest visible one, of number `visible`, was made before the machine
/// last started. It gets a number behind all that there are.
fn recover(segment: &Segment, visible: u64) -> Result<Record> {
    let mut found: Vec<Record> = (0..2).filter_map(|number| segment.durable(number)).collect();
    found.sort_by_key(|record| std::cmp::Reverse(record.sequence));
    let zeros = vec![0; segment.header.limits.len()];
    let before = |record: &Record| match record.previous {
        0 => Some(zeros.clone()),
        sequence => found.iter().find(|other| other.sequence == sequence).map(|other| other.counters.clone()),
    };
    let good = |record: &&Record| {
        let is_sound = segment.check_record(record).is_ok();
        // The other area may hold a newer record that was torn; then nothing says where the delta began, but a newer
        // one is only begun when this one is on the disk.
        let Some(before) = before(record) else { return is_sound };
        is_sound && checksum(segment, &before, record).is_ok_and(|crc| crc == record.delta)
    };
    let best = found.iter().find(good).cloned();
    let best = best.unwrap_or(Record { counters: zeros.clone(), ..Record::default() });
    let sequence = found.iter().map(|record| record.sequence).fold(visible, u64::max);
    Ok(Record { sequence, ..best })
}

/// The checksum of what `record` has and `before` has not, as the segment holds it.
pub(in crate::table) fn checksum(segment: &Segment, before: &[u64], record: &Record) -> Result<u32> {
    let offset = |region: usize, at: u64| segment.header.regions[region].offset + at;
    delta(&segment.plan, before, &record.counters, |region, at, into| {
        segment.mapping.read_at(offset(region, at) as usize, into)
    })
}

/// The rows that a crash of the machine has cost the segment.
pub(in crate::table) fn dropped(segment: &Segment, kept: &Record) -> u64 {
    segment.visible().map_or(0, |visible| visible.rows().saturating_sub(kept.rows()))
}
