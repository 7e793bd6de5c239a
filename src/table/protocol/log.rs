//! The log of a segment: small durable commits, each in one place, so that one write makes it durable.
//!
//! ```text
//! entry   record │ counters before │ bytes appended          cut into pages of 4096 bytes;
//!         page 0 │ 00×8 page 1     │ 00×8 page 2             all but the first begin with 8 zeros
//! ```
//! An entry is a durable record with its bytes: those within the record's counters but not within the previous ones,
//! buffer by buffer, as for the checksum of a durable record. A system crash loses the pages of the columns and keeps
//! the entry, so the bytes are restored from it. Entries may be overwritten once their bytes are in the columns and
//! covered by a durable record.

use crate::error::Result;
use crate::rows::{Extent, Plan};
use crate::table::format::{PAGE, Record, positions_of, record_len};

/// The maximum length of an entry in bytes.
pub(in crate::table) const MOST_ENTRY: usize = 64 << 10;
/// The zeros at the start of an entry's second and later pages: no entry begins with them.
const MARK: usize = 8;

/// Bytes of a region that one record has and another has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct AppendedBytes {
    pub region: usize,
    /// Their offset in the region.
    pub at: u64,
    pub len: u64,
    /// The number of valid bits in the last byte, if not all are.
    pub bits: Option<u32>,
}

impl AppendedBytes {
    /// Clears the unused bits of the piece's last byte.
    pub fn clear_unused(&self, bytes: &mut [u8]) {
        if let (Some(bits), Some(last)) = (self.bits, bytes.last_mut()) {
            *last &= !(0xff << bits);
        }
    }

    /// Continues the CRC-32C `crc` with the piece's bytes, without unused bits; `copy` fills its last argument with the bytes
    /// of a region from an offset on.
    ///
    /// # Errors
    /// Those of `copy`.
    pub fn checksum(&self, mut crc: u32, copy: &mut impl FnMut(usize, u64, &mut [u8]) -> Result<()>) -> Result<u32> {
        let mut chunk = vec![0; self.len.min(1 << 16) as usize];
        let mut done = 0;
        while done < self.len {
            let len = (self.len - done).min(chunk.len() as u64);
            let part = &mut chunk[..len as usize];
            copy(self.region, self.at + done, part)?;
            done += len;
            if done == self.len {
                self.clear_unused(part);
            }
            crc = crc32c::crc32c_append(crc, part);
        }
        Ok(crc)
    }
}

/// The bytes that `to` has and `from` has not, region by region. For bits that grow from `m` to `n`, those from byte
/// ⌊m/8⌋ on.
pub(in crate::table) fn appended_bytes(plan: &Plan, from: &[u64], to: &[u64]) -> Result<Vec<AppendedBytes>> {
    let before = plan.extents(from)?;
    let after = plan.extents(to)?;
    let piece = |(old, new): (Extent, Extent)| {
        debug_assert_eq!(old.region, new.region, "the extents of one plan");
        let at = match old.bits {
            Some(bits) => bits / 8,
            // The very first offset is 0 and was never appended.
            None => old.bytes.min(new.bytes),
        };
        let bits = new.bits.map(|bits| (bits % 8) as u32).filter(|&bits| bits > 0);
        AppendedBytes { region: new.region, at, len: new.bytes.saturating_sub(at), bits }
    };
    Ok(before.into_iter().zip(after).map(piece).filter(|piece| piece.len > 0).collect())
}

/// An intact entry.
#[derive(Clone, Debug)]
pub(in crate::table) struct LogEntry {
    /// Its offset in the log, in bytes.
    pub start: u64,
    pub record: Record,
    /// The counters of the previous durable commit.
    pub before: Vec<u64>,
    pub pieces: Vec<AppendedBytes>,
    /// The bytes of the pieces, concatenated.
    pub bytes: Vec<u8>,
}

impl LogEntry {
    /// The entry's encoded bytes, in whole pages. `None` if there are too many.
    ///
    /// Sets `record.delta`; `copy` fills its last argument with the bytes of a region from an offset on.
    pub fn encode(
        plan: &Plan,
        before: &[u64],
        mut record: Record,
        mut copy: impl FnMut(usize, u64, &mut [u8]) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        let pieces = appended_bytes(plan, before, &record.counters)?;
        let sizes = pieces.iter().map(|piece| piece.len).sum::<u64>();
        let head = record_len(record.counters.len(), record.positions.len());
        if sizes > (MOST_ENTRY - (head + 8 * before.len()).min(MOST_ENTRY)) as u64 {
            return Ok(None);
        }
        let mut rest: Vec<u8> = before.iter().flat_map(|counter| counter.to_le_bytes()).collect();
        for piece in &pieces {
            let from = rest.len();
            rest.resize(from + piece.len as usize, 0);
            copy(piece.region, piece.at, &mut rest[from..])?;
            piece.clear_unused(&mut rest[from..]);
        }
        record.delta = crc32c::crc32c(&rest);
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes.extend(rest);
        Ok(Some(paged(&bytes)))
    }

    /// Decodes the entry at byte `at` of a log, and returns it with its length in the log; `None` if there is no intact
    /// entry.
    ///
    /// # Errors
    /// `InvalidData` if its checksums are right but it can't belong to the segment: see `check`.
    fn decode(
        plan: &Plan,
        log: &[u8],
        at: usize,
        check: impl Fn(&Record) -> Result<()>,
    ) -> Result<Option<(LogEntry, usize)>> {
        let counters = plan.counters;
        let Some(fixed) = unpaged(log, at, record_len(0, 0)) else { return Ok(None) };
        let head = record_len(counters, positions_of(&fixed));
        let Some(bytes) = unpaged(log, at, head + 8 * counters) else { return Ok(None) };
        let Some(record) = Record::decode(&bytes, counters) else { return Ok(None) };
        check(&record)?;
        let before: Vec<u64> = bytes[head..].as_chunks().0.iter().map(|&raw| u64::from_le_bytes(raw)).collect();
        if before.iter().zip(&record.counters).any(|(before, after)| before > after) {
            // Its second checksum may show that it is torn; otherwise no writer wrote it.
            return Ok(None);
        }
        let pieces = appended_bytes(plan, &before, &record.counters)?;
        let Ok(size) = usize::try_from(pieces.iter().map(|piece| piece.len).sum::<u64>()) else { return Ok(None) };
        let Some(whole) = head.checked_add(8 * counters + size).and_then(|len| unpaged(log, at, len)) else {
            return Ok(None);
        };
        if crc32c::crc32c(&whole[head..]) != record.delta {
            return Ok(None);
        }
        let pages = whole.len().saturating_sub(PAGE as usize).div_ceil(PAGE as usize - MARK) + 1;
        let bytes = whole[head + 8 * counters..].to_vec();
        Ok(Some((LogEntry { start: at as u64, record, before, pieces, bytes }, pages * PAGE as usize)))
    }

    /// Each piece with its bytes.
    pub fn parts(&self) -> impl Iterator<Item = (&AppendedBytes, &[u8])> {
        let mut rest = &self.bytes[..];
        self.pieces.iter().map(move |piece| {
            let (part, more) = rest.split_at(piece.len as usize);
            rest = more;
            (piece, part)
        })
    }
}

/// The intact entries of a log, in the order of their offsets.
///
/// # Errors
/// As [`LogEntry::decode`].
pub(in crate::table) fn entries(
    plan: &Plan,
    log: &[u8],
    check: impl Fn(&Record) -> Result<()>,
) -> Result<Vec<LogEntry>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < log.len() {
        match LogEntry::decode(plan, log, at, &check)? {
            Some((entry, len)) => {
                found.push(entry);
                at += len;
            }
            None => at += PAGE as usize,
        }
    }
    Ok(found)
}

/// The intact entries of a log, in the order of their commits, that follow a durable commit with these counters: each
/// begins at or before the current end and ends after it.
pub(in crate::table) fn entries_after(
    mut entries: Vec<LogEntry>,
    boot: Option<[u8; 16]>,
    base: &Record,
) -> Vec<LogEntry> {
    entries.sort_by_key(|entry| entry.record.sequence);
    let mut found: Vec<LogEntry> = Vec::new();
    let mut last = base.clone();
    let mut boot = boot;
    for entry in entries {
        let is_reached = entry.before.iter().zip(&last.counters).all(|(before, there)| before <= there);
        let is_newer = entry.record.sequence > last.sequence && is_ahead(&entry.record, &last);
        if is_reached && is_newer && *boot.get_or_insert(entry.record.boot) == entry.record.boot {
            last = entry.record.clone();
            found.push(entry);
        }
    }
    found
}

/// Whether `newer` has everything that `older` has, and more.
fn is_ahead(newer: &Record, older: &Record) -> bool {
    let has_all = older.counters.iter().zip(&newer.counters).all(|(old, new)| old <= new);
    has_all && (newer.counters != older.counters || newer.positions != older.positions)
}

/// Cuts bytes into pages.
fn paged(bytes: &[u8]) -> Vec<u8> {
    let (first, rest) = bytes.split_at(bytes.len().min(PAGE as usize));
    let mut paged = first.to_vec();
    paged.resize(PAGE as usize, 0);
    for part in rest.chunks(PAGE as usize - MARK) {
        paged.extend([0; MARK]);
        paged.extend(part);
        paged.resize(paged.len().next_multiple_of(PAGE as usize), 0);
    }
    paged
}

/// The first `len` bytes of the content of the pages from byte `at` on; `None` if the log ends before.
fn unpaged(log: &[u8], at: usize, len: usize) -> Option<Vec<u8>> {
    let first = len.min(PAGE as usize);
    let mut bytes = log.get(at..at.checked_add(first)?)?.to_vec();
    let mut page = at + PAGE as usize;
    while bytes.len() < len {
        let part = (len - bytes.len()).min(PAGE as usize - MARK);
        if log.get(page..page.checked_add(MARK)?)? != [0; MARK] {
            return None;
        }
        bytes.extend(log.get(page + MARK..page.checked_add(MARK + part)?)?);
        page += PAGE as usize;
    }
    Some(bytes)
}
