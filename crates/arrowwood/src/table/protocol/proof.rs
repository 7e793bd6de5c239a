//! Computes the proof of a visible commit: a checksum of the bytes appended since a durable record.
//!
//! A commit is visible as soon as it is in the page cache. The machine may stay up and lose the page cache of a file
//! system, as when a snapshot of its volume is mounted. A reader that can't rule this out compares the rows with the
//! proof.
//!
//! ```text
//! buffer 0   ├──── durable ────┼── appended ──┤   CRC-32C     ┐
//! buffer 1   ├─ durable ─┼───── appended ─────┤   CRC-32C ⟲ 1 ┼ ⊕ the proof
//! buffer 2   ├──── durable ────┼── appended ──┤   CRC-32C ⟲ 2 ┘
//! ```
//! Each of the checksums goes on where it ended at the last commit, so a commit pays for its own rows only.

use crate::error::{Error, Result};
use crate::map::{ByteRun, ByteRunEnd, SharedFile};
use crate::rows::{BufferGrowth, Plan};
use crate::table::format::Header;
use crate::table::protocol::log::appended_bytes;

/// Returns the proof of a commit with counters `to` since one with counters `from`; `copy` fills its last argument with
/// the bytes of a region from an offset on.
///
/// # Errors
/// Returns the errors of `copy`.
pub(in crate::table) fn proof_of(
    plan: &Plan,
    from: &[u64],
    to: &[u64],
    mut copy: impl FnMut(usize, u64, &mut [u8]) -> Result<()>,
) -> Result<u32> {
    appended_bytes(plan, from, to)?.into_iter().try_fold(0, |proof, piece| {
        let crc = piece.checksum(0, &mut copy)?;
        Ok(proof ^ crc.rotate_left(turn(piece.region)))
    })
}

/// Returns the number of bits by which the checksum of a region is rotated.
fn turn(region: usize) -> u32 {
    (region % u32::BITS as usize) as u32
}

/// Computes the proof of each commit for the writer, as [`proof_of`] would, with checksums that continue where they
/// ended at the last commit.
#[derive(Clone, Debug, Default)]
pub(in crate::table) struct Checksums {
    /// The buffers that have bytes, in the order of their regions.
    buffers: Vec<CountedBuffer>,
    /// The checksum of each buffer so far, and the offset up to which it goes.
    runs: Vec<ByteRun>,
    /// The bytes written behind each of the runs since the last commit, if any.
    written: Vec<Option<WrittenBytes>>,
    /// The number of each region's run, in the order of the regions; [`NO_RUN`] for regions without one.
    numbers: Vec<usize>,
    /// The proof of the last commit.
    proof: u32,
}

/// Stands for no run in [`Checksums::numbers`]: it is the number of none.
const NO_RUN: usize = usize::MAX;

/// Bytes that were written and not committed. Their checksum is taken from memory, as reading them back costs as much
/// as writing them.
#[derive(Clone, Copy, Debug)]
struct WrittenBytes {
    /// The offset of their last byte.
    upto: u64,
    /// The CRC-32C from the start of the run up to there.
    crc: u32,
    /// The byte at `upto`, which is not in `crc`: it may be written again with more bits.
    last: u8,
}

/// A buffer whose length follows from a counter.
#[derive(Clone, Copy, Debug)]
struct CountedBuffer {
    growth: BufferGrowth,
    /// Its offset in the file.
    offset: u64,
}

impl CountedBuffer {
    #[inline]
    fn end(&self, counters: &[u64]) -> ByteRunEnd {
        let (bytes, bits) = self.growth.end(counters);
        ByteRunEnd { upto: self.offset + bytes, bits }
    }
}

/// The maximum number of new bytes of a buffer that are read through the mapping. More bytes are read at once from the
/// file, as they may have been written without the mapping.
const MAX_MAPPED_BYTES: u64 = 1 << 10;

impl Checksums {
    /// Creates checksums that begin where a commit with these counters ends. Bitmaps begin with the byte that contains
    /// the commit's last bits.
    pub fn since(plan: &Plan, header: &Header, counters: &[u64]) -> Checksums {
        assert_eq!(header.regions.len(), plan.regions, "a segment has a region for each buffer");
        let mut sums = Checksums::default();
        sums.numbers.resize(plan.regions, NO_RUN);
        for growth in plan.growth() {
            let buffer = CountedBuffer { growth, offset: header.regions[growth.region].offset };
            sums.numbers[growth.region] = sums.buffers.len();
            sums.buffers.push(buffer);
            sums.written.push(None);
            let upto = buffer.end(counters).upto;
            sums.runs.push(ByteRun { upto, turn: turn(growth.region), ..ByteRun::default() });
        }
        sums
    }

    /// Notes that `bytes` were written to a region, at byte `offset` of the file.
    pub fn note_written(&mut self, region: usize, offset: u64, bytes: &[u8]) {
        let number = self.numbers[region];
        let (Some(run), Some((&last, whole))) = (self.runs.get(number), bytes.split_last()) else { return };
        let crc = match self.written[number] {
            Some(before) if before.upto + 1 == offset => crc32c::crc32c_append(before.crc, &[before.last]),
            Some(before) if before.upto == offset => before.crc,
            _ if run.upto == offset => run.crc,
            _ => return self.written[number] = None,
        };
        let upto = offset + whole.len() as u64;
        self.written[number] = Some(WrittenBytes { upto, crc: crc32c::crc32c_append(crc, whole), last });
    }

    /// Forgets the bytes of a region that were written at `offset` or later, before others are stored there. Returns
    /// the offset behind the bytes that are still known.
    pub fn forget_written(&mut self, region: usize, offset: u64) -> u64 {
        let Some(written) = self.written.get_mut(self.numbers[region]) else { return 0 };
        *written = written.filter(|written| written.upto < offset);
        written.map_or(0, |written| written.upto + 1)
    }

    /// Advances the checksums to a commit with these counters, and returns its proof.
    ///
    /// # Errors
    /// `Io` if the bytes can't be read.
    #[inline]
    pub fn advance(&mut self, counters: &[u64], store: &SharedFile) -> Result<u32> {
        let ends = self.buffers.iter().map(|buffer| buffer.end(counters));
        debug_assert!(ends.clone().zip(&self.runs).all(|(end, run)| run.upto <= end.upto), "committed rows stay");
        let few = store.checksum(&mut self.runs, ends.clone(), MAX_MAPPED_BYTES);
        self.proof ^= few.changed;
        if few.has_left {
            take_many(&mut self.runs, ends.clone(), &mut self.written, store)?;
            self.proof ^= store.checksum(&mut self.runs, ends, u64::MAX).changed;
        }
        Ok(self.proof)
    }
}

/// Advances runs with many new bytes over all whole ones. Bytes that were written are taken from memory, all others
/// from the file.
#[cold]
fn take_many(
    runs: &mut [ByteRun],
    ends: impl Iterator<Item = ByteRunEnd>,
    written: &mut [Option<WrittenBytes>],
    store: &SharedFile,
) -> Result<()> {
    assert_eq!(runs.len(), written.len(), "each run has its written bytes");
    for ((run, ByteRunEnd { upto, .. }), written) in runs.iter_mut().zip(ends).zip(written) {
        if let Some(written) = written.take().filter(|written| (run.upto..=upto).contains(&written.upto)) {
            (run.crc, run.upto) = (written.crc, written.upto);
            if written.upto < upto {
                (run.crc, run.upto) = (crc32c::crc32c_append(run.crc, &[written.last]), written.upto + 1);
            }
        }
        if upto > run.upto + MAX_MAPPED_BYTES {
            let crc = store.crc32c(run.crc, run.upto, upto - run.upto);
            (run.crc, run.upto) = (crc.map_err(|e| Error::io("reading rows back", &e))?, upto);
        }
    }
    Ok(())
}
