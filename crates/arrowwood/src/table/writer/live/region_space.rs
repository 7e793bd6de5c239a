//! The space of a segment's regions: which part of each takes stores through the mapping, and which has blocks for
//! large pieces.
//!
//! A piece is what a caller puts at once: a value, or the values of a batch. Small pieces are stored through the
//! mapping, and larger ones written by pwrite(2), which is faster for them.
//!
//! Space for both is taken in steps that grow with the table. A store into a hole of the file could raise a signal if
//! the disk is full, so the blocks come first; and the kernel writes twice as fast into blocks that are already there.

use std::io;

use crate::map::SharedFile;
use crate::rows::Region;
use crate::table::format::PAGE;

/// Pieces of at least this many bytes are written by pwrite(2) at once; space for smaller ones is prepared for stores.
pub(super) const LARGE: usize = 1 << 10;
/// Pieces of fewer bytes than this are stored where space is prepared.
const MAX_STORED: usize = 16 * LARGE;
/// The first step in which space is prepared for stores: a table of a few rows is small.
const FIRST_PREPARED: u64 = PAGE;
/// The largest step in which space is prepared for stores.
const MAX_PREPARED: u64 = 1 << 20;
/// The first step in which blocks are reserved for large pieces.
const FIRST_RESERVED: u64 = 64 << 10;
/// The largest step in which blocks are reserved for large pieces.
const MAX_RESERVED: u64 = 16 << 20;
/// The factor by which each step is larger than the previous one: a growing table soon takes the largest.
const STEP_GROWTH: u64 = 4;

/// A part of a region that is prepared for stores. Offsets are relative to the region.
#[derive(Clone, Copy, Debug)]
struct PreparedRange {
    /// The first byte that may be stored to. Bytes before it may have been written, and their checksum taken.
    start: u64,
    end: u64,
    /// The number of bytes to prepare next.
    step: u64,
    /// The offset of the region in the file.
    region_offset: u64,
}

/// The first bytes of a region, which have blocks for large pieces.
#[derive(Clone, Copy, Debug)]
struct ReservedRange {
    /// The number of bytes, from the region's start on, that have blocks.
    end: u64,
    /// The number of bytes to reserve next.
    step: u64,
}

/// The space of all regions of a segment.
#[derive(Debug)]
pub(super) struct RegionSpace {
    prepared: Vec<PreparedRange>,
    reserved: Vec<ReservedRange>,
}

/// A piece to be stored in a region. Offsets are relative to the region.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallPiece {
    pub start: u64,
    pub len: u64,
    /// The end of bytes before the piece that were written, not stored, and that no commit has yet.
    pub written_end: u64,
    /// True if the first byte may hold committed bits of a bitmap.
    pub shares_byte: bool,
}

impl RegionSpace {
    /// Creates the space of `regions`, of which nothing is prepared or reserved.
    pub fn new(regions: &[Region]) -> RegionSpace {
        let prepared = regions
            .iter()
            .map(|region| PreparedRange { start: 0, end: 0, step: FIRST_PREPARED, region_offset: region.offset })
            .collect();
        RegionSpace { prepared, reserved: vec![ReservedRange { end: 0, step: FIRST_RESERVED }; regions.len()] }
    }

    /// Returns the offset in the file of byte `start` of a region if `len` bytes from there on can be stored through
    /// the mapping.
    #[inline]
    pub fn store_offset(&self, region: usize, start: u64, len: usize) -> Option<u64> {
        let prepared = &self.prepared[region];
        let is_prepared = start >= prepared.start && start + len as u64 <= prepared.end && len < MAX_STORED;
        is_prepared.then_some(prepared.region_offset + start)
    }

    /// Reserves blocks for a large piece of region number `number`, and for what may follow it.
    pub fn reserve(&mut self, store: &SharedFile, number: usize, region: Region, start: u64, len: u64) {
        let reserved = &mut self.reserved[number];
        let end = start + len;
        if end <= reserved.end {
            return;
        }
        let to = (end + reserved.step.max(len)).min(region.capacity.next_multiple_of(PAGE)).max(end);
        let from = start.max(reserved.end);
        // If that much can't be reserved, the write itself shows whether there is room.
        let _ = store.reserve(region.offset + from, to - from);
        *reserved = ReservedRange { end: to, step: (STEP_GROWTH * reserved.step).min(MAX_RESERVED) };
    }

    /// Records that a region was written up to `end`: nothing before it is stored to any more.
    pub fn on_written(&mut self, number: usize, end: u64) {
        let prepared = &mut self.prepared[number];
        prepared.start = prepared.start.max(end);
    }

    /// Prepares space for stores, with room for `piece` in region number `number`. Returns false if the file system
    /// can't; then the piece has to be written.
    ///
    /// # Errors
    /// The error of the disk, which may be full.
    pub fn prepare(
        &mut self,
        store: &SharedFile,
        number: usize,
        region: Region,
        piece: SmallPiece,
    ) -> io::Result<bool> {
        assert!(piece.written_end <= piece.start, "a store over bytes whose checksum is taken: {piece:?}");
        let step = self.prepared[number].step;
        let start = (piece.start - piece.start % PAGE).max(piece.written_end);
        let end = (start + step).min(region.capacity.next_multiple_of(PAGE)).max(piece.start + piece.len);
        // A piece at the start of a page begins with a byte that may have committed bits.
        let fresh = (piece.start + u64::from(piece.shares_byte)).next_multiple_of(PAGE);
        if !store.prepare(region.offset + start, end - start, region.offset + fresh)? {
            return Ok(false);
        }
        let step = (STEP_GROWTH * step).min(MAX_PREPARED);
        self.prepared[number] = PreparedRange { start, end, step, region_offset: region.offset };
        Ok(true)
    }
}
