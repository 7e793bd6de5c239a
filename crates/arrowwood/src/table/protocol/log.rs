//! Encodes and decodes the log of a segment: small durable commits, each in one place, so that one write makes it
//! durable.
//!
//! ```text
//! entry   record │ counters before │ bytes appended          cut into pages of 4096 bytes;
//!         page 0 │ 00×8 page 1     │ 00×8 page 2             all but the first begin with 8 zeros
//! ```
//! An entry is a durable record with the bytes that were appended since the previous counters, buffer by buffer, in the
//! order of a durable record's checksum. A system crash loses the pages of the columns and keeps the entry, so the
//! bytes are restored from it. Entries may be overwritten once their bytes are in the columns and covered by a durable
//! record.
//!
//! Entries form no chain. Committed bytes never change, so any whole entry of a boot can be applied that begins at or
//! before the known rows and ends after them.

use crate::error::Result;
use crate::rows::{Extent, Plan};
use crate::table::format::{PAGE, Record, positions_of, record_len};

/// The maximum length of an entry in bytes.
pub(in crate::table) const MOST_ENTRY: usize = 64 << 10;
/// The number of zeros at the start of an entry's second and later pages: no entry begins with them.
const MARK: usize = 8;
/// The size of a counter in bytes.
const COUNTER: usize = size_of::<u64>();
/// The maximum number of bytes that are read at a time for a checksum.
const CHUNK: u64 = 64 << 10;

/// Bytes of a region that were appended between two commits: the *pieces* of an entry.
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
    /// Clears the unused bits of the last one of `bytes`, which are the piece's.
    pub fn clear_unused(&self, bytes: &mut [u8]) {
        if let (Some(bits), Some(last)) = (self.bits, bytes.last_mut()) {
            *last &= !(0xff << bits);
        }
    }

    /// Continues the CRC-32C `crc` with the piece's bytes, without unused bits; `copy` fills its last argument with the
    /// bytes of a region from an offset on.
    ///
    /// # Errors
    /// Returns the errors of `copy`.
    pub fn checksum(&self, mut crc: u32, copy: &mut impl FnMut(usize, u64, &mut [u8]) -> Result<()>) -> Result<u32> {
        let mut chunk = vec![0; self.len.min(CHUNK) as usize];
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

/// Returns the bytes that were appended between commits with counters `from` and `to`, region by region. If bits grow
/// from `m` to `n`, these are the bytes from ⌊m/8⌋ on.
pub(in crate::table) fn appended_bytes(plan: &Plan, from: &[u64], to: &[u64]) -> Result<Vec<AppendedBytes>> {
    let before = plan.extents(from)?;
    let after = plan.extents(to)?;
    assert_eq!(before.len(), after.len(), "a plan has the same extents for all counters");
    let pieces = before.into_iter().zip(after).map(|(old, new)| appended_to_region(old, new));
    Ok(pieces.filter(|piece| piece.len > 0).collect())
}

#[inline]
fn appended_to_region(old: Extent, new: Extent) -> AppendedBytes {
    debug_assert_eq!(old.region, new.region, "the extents of one plan");
    let at = match old.bits {
        Some(bits) => bits / 8,
        // The very first offset is 0 and was never appended.
        None => old.bytes.min(new.bytes),
    };
    let bits = new.bits.map(|bits| (bits % 8) as u32).filter(|&bits| bits > 0);
    // Counters of damaged records may have decreased: nothing was appended then.
    AppendedBytes { region: new.region, at, len: new.bytes.saturating_sub(at), bits }
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
    /// Encodes `record` as an entry, in whole pages, with the bytes appended since the counters `before`. Returns
    /// `None` if they are too many.
    ///
    /// Sets the record's `delta`; `copy` fills its last argument with the bytes of a region from an offset on.
    ///
    /// # Errors
    /// Returns the errors of `copy`.
    pub fn encode(
        plan: &Plan,
        before: &[u64],
        mut record: Record,
        mut copy: impl FnMut(usize, u64, &mut [u8]) -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        assert_eq!(before.len(), record.counters.len(), "the counters of one segment");

        let pieces = appended_bytes(plan, before, &record.counters)?;
        let size = pieces.iter().map(|piece| piece.len).sum::<u64>();
        let fixed = record_len(record.counters.len(), record.positions.len()) + COUNTER * before.len();
        if size > MOST_ENTRY.saturating_sub(fixed) as u64 {
            return Ok(None);
        }
        let mut rest: Vec<u8> = before.iter().flat_map(|counter| counter.to_le_bytes()).collect();
        for piece in &pieces {
            let start = rest.len();
            rest.resize(start + piece.len as usize, 0);
            copy(piece.region, piece.at, &mut rest[start..])?;
            piece.clear_unused(&mut rest[start..]);
        }
        record.delta = crc32c::crc32c(&rest);
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes.extend(rest);
        assert_eq!(bytes.len() as u64, fixed as u64 + size, "the length of an entry");
        Ok(Some(paged(&bytes)))
    }

    /// Decodes the entry at byte `start` of a log, and returns it with its length in the log; `None` if there is no
    /// intact entry.
    ///
    /// # Errors
    /// `InvalidData` if its checksums are right but `check` finds that it can't belong to the segment.
    fn decode(
        plan: &Plan,
        log: &[u8],
        start: usize,
        check: impl Fn(&Record) -> Result<()>,
    ) -> Result<Option<(LogEntry, usize)>> {
        let counters = plan.counters;
        let Some(fixed) = unpaged(log, start, record_len(0, 0)) else { return Ok(None) };
        let head = record_len(counters, positions_of(&fixed));
        let Some(bytes) = unpaged(log, start, head + COUNTER * counters) else { return Ok(None) };
        let Some(record) = Record::decode(&bytes, counters) else { return Ok(None) };
        check(&record)?;
        let before: Vec<u64> = bytes[head..].as_chunks().0.iter().map(|&raw| u64::from_le_bytes(raw)).collect();
        if before.iter().zip(&record.counters).any(|(before, after)| before > after) {
            // No writer has written an entry like this; it may be torn, as only the record's own checksum was compared
            // so far.
            return Ok(None);
        }
        let pieces = appended_bytes(plan, &before, &record.counters)?;
        let Ok(size) = usize::try_from(pieces.iter().map(|piece| piece.len).sum::<u64>()) else { return Ok(None) };
        let Some(whole) = head.checked_add(COUNTER * counters + size).and_then(|len| unpaged(log, start, len)) else {
            return Ok(None);
        };
        if crc32c::crc32c(&whole[head..]) != record.delta {
            return Ok(None);
        }
        // The first page has no mark.
        let pages = 1 + whole.len().saturating_sub(PAGE as usize).div_ceil(PAGE as usize - MARK);
        let bytes = whole[head + COUNTER * counters..].to_vec();
        Ok(Some((LogEntry { start: start as u64, record, before, pieces, bytes }, pages * PAGE as usize)))
    }

    /// Iterates over the pieces, each with its bytes.
    pub fn parts(&self) -> impl Iterator<Item = (&AppendedBytes, &[u8])> {
        let size = self.pieces.iter().map(|piece| piece.len).sum::<u64>();
        assert_eq!(size, self.bytes.len() as u64, "an entry has the bytes of its pieces");
        let mut rest = &self.bytes[..];
        self.pieces.iter().map(move |piece| {
            let (part, more) = rest.split_at(piece.len as usize);
            rest = more;
            (piece, part)
        })
    }
}

/// Returns the intact entries of a log, in the order of their offsets.
///
/// # Errors
/// `InvalidData` if `check` rejects one of them.
pub(in crate::table) fn entries(
    plan: &Plan,
    log: &[u8],
    check: impl Fn(&Record) -> Result<()>,
) -> Result<Vec<LogEntry>> {
    let mut entries = Vec::new();
    let mut start = 0;
    while start < log.len() {
        match LogEntry::decode(plan, log, start, &check)? {
            Some((entry, len)) => {
                entries.push(entry);
                start += len;
            }
            None => start += PAGE as usize,
        }
    }
    Ok(entries)
}

/// Returns the entries, in the order of their commits, that follow the durable commit `base`: each begins where the
/// commits before it end, or earlier, and has more than they do. `boot` is the boot of the base; `None` if nothing was
/// durable. All returned entries are of one boot.
pub(in crate::table) fn entries_after(
    mut entries: Vec<LogEntry>,
    boot: Option<[u8; 16]>,
    base: &Record,
) -> Vec<LogEntry> {
    entries.sort_by_key(|entry| entry.record.sequence);
    let mut following: Vec<LogEntry> = Vec::new();
    let mut last = base.clone();
    let mut boot = boot;
    for entry in entries {
        let is_reached = entry.before.iter().zip(&last.counters).all(|(before, last)| before <= last);
        let is_newer = entry.record.sequence > last.sequence && is_ahead(&entry.record, &last);
        if is_reached && is_newer && *boot.get_or_insert(entry.record.boot) == entry.record.boot {
            last = entry.record.clone();
            following.push(entry);
        }
    }
    following
}

/// Returns true if `newer` has everything that `older` has, and more.
fn is_ahead(newer: &Record, older: &Record) -> bool {
    let has_all = older.counters.iter().zip(&newer.counters).all(|(old, new)| old <= new);
    has_all && (newer.counters != older.counters || newer.positions != older.positions)
}

/// Cuts an entry into pages: [`unpaged`] puts them together again.
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

/// Returns the first `len` bytes of the entry whose pages begin at byte `start`; `None` if the log or the entry ends
/// before.
fn unpaged(log: &[u8], start: usize, len: usize) -> Option<Vec<u8>> {
    let first_len = len.min(PAGE as usize);
    let mut bytes = log.get(start..start.checked_add(first_len)?)?.to_vec();
    let mut page = start + PAGE as usize;
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
