//! The proof of a visible commit: a checksum of what was appended since a durable record.
//!
//! A commit is visible as soon as it is in the page cache. The machine may stay up and lose the page cache of a file system,
//! as when a snapshot of its volume is mounted. Who can't tell whether that happened compares the rows with the proof.
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

/// The proof of a commit with counters `to`, since one with counters `from`; `copy` fills its last argument with the bytes of a
/// region from an offset on.
///
/// # Errors
/// Those of `copy`.
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

/// By how many bits the checksum of a region is rotated.
fn turn(region: usize) -> u32 {
    (region % 32) as u32
}

/// The proof of the newest commit, for its writer: as [`proof_of`], with checksums that go on where they ended at the last
/// commit.
#[derive(Clone, Debug, Default)]
pub(in crate::table) struct Checksums {
    buffers: Vec<CountedBuffer>,
    runs: Vec<ByteRun>,
    /// What was written behind each of the runs, if anything was.
    written: Vec<Option<WrittenBytes>>,
    /// The number of each region's run, in the order of the regions; `usize::MAX` of those that have none.
    numbers: Vec<usize>,
    proof: u32,
}

/// Bytes that were written and not committed. Their checksum is taken from memory, as reading them back costs as much as
/// writing them.
#[derive(Clone, Copy, Debug)]
struct WrittenBytes {
    /// The offset behind them.
    upto: u64,
    /// The CRC-32C from the start of the run on.
    crc: u32,
    /// The byte at `upto`. It may be written anew with more bits.
    last: u8,
}

/// A buffer whose length follows from a counter.
#[derive(Clone, Copy, Debug)]
struct CountedBuffer {
    growth: BufferGrowth,
    /// Where it begins in the file.
    offset: u64,
}

impl CountedBuffer {
    #[inline]
    fn end(&self, counters: &[u64]) -> ByteRunEnd {
        let (bytes, bits) = self.growth.end(counters);
        ByteRunEnd { upto: self.offset + bytes, bits }
    }
}

/// More bytes than this are read at once, not through the mapping: they may have been written without it.
const MANY: u64 = 1 << 10;

impl Checksums {
    /// Those that begin where a commit with these counters ends; bitmaps begin with the byte that its last bits are in.
    pub fn since(plan: &Plan, header: &Header, counters: &[u64]) -> Checksums {
        let mut sums = Checksums::default();
        sums.numbers.resize(plan.regions, usize::MAX);
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

    /// Before bytes of a region are stored from `offset` on: forgets what was written there. Returns the offset behind the
    /// bytes that are not forgotten.
    pub fn forget_written(&mut self, region: usize, offset: u64) -> u64 {
        let Some(written) = self.written.get_mut(self.numbers[region]) else { return 0 };
        *written = written.filter(|written| written.upto < offset);
        written.map_or(0, |written| written.upto + 1)
    }

    /// Takes in the bytes up to a commit with these counters, and returns its proof.
    ///
    /// # Errors
    /// Those of reading the bytes.
    #[inline]
    pub fn advance(&mut self, counters: &[u64], store: &SharedFile) -> Result<u32> {
        let ends = self.buffers.iter().map(|buffer| buffer.end(counters));
        debug_assert!(ends.clone().zip(&self.runs).all(|(end, run)| run.upto <= end.upto), "committed rows stay");
        let few = store.checksum(&mut self.runs, ends.clone(), MANY);
        self.proof ^= few.changed;
        if few.has_left {
            take_many(&mut self.runs, ends.clone(), &mut self.written, store)?;
            self.proof ^= store.checksum(&mut self.runs, ends, u64::MAX).changed;
        }
        Ok(self.proof)
    }
}

/// Takes in the whole bytes of runs that have many: from memory those that were written, from the file all others.
#[cold]
fn take_many(
    runs: &mut [ByteRun],
    ends: impl Iterator<Item = ByteRunEnd>,
    written: &mut [Option<WrittenBytes>],
    store: &SharedFile,
) -> Result<()> {
    for ((run, ByteRunEnd { upto, .. }), written) in runs.iter_mut().zip(ends).zip(written) {
        if let Some(written) = written.take().filter(|written| (run.upto..=upto).contains(&written.upto)) {
            (run.crc, run.upto) = (written.crc, written.upto);
            if written.upto < upto {
                (run.crc, run.upto) = (crc32c::crc32c_append(run.crc, &[written.last]), written.upto + 1);
            }
        }
        if upto > run.upto + MANY {
            let crc = store.crc32c(run.crc, run.upto, upto - run.upto);
            (run.crc, run.upto) = (crc.map_err(|e| Error::io("reading rows back", &e))?, upto);
        }
    }
    Ok(())
}
