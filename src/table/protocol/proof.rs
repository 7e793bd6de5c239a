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

use std::ops::Range;

use crate::error::{Error, Result};
use crate::map::{ByteRun, ByteRunEnd, Store};
use crate::rows::{Growth, Plan};
use crate::table::format::Header;
use crate::table::protocol::log::appended;

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
    appended(plan, from, to)?.into_iter().try_fold(0, |proof, piece| {
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
    counted: Vec<CountedBuffers>,
    buffers: Vec<(Growth, u64)>,
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

/// The buffers whose length follows from one counter.
#[derive(Clone, Debug)]
struct CountedBuffers {
    counter: usize,
    count: u64,
    /// Their numbers in `Checksums::buffers`.
    buffers: Range<usize>,
    /// More of the counter than this are many bytes of one of them.
    few: u64,
}

/// More bytes than this are read at once, not through the mapping: they may have been written without it.
const MANY: u64 = 1 << 10;

impl Checksums {
    /// Those that begin where a commit with these counters ends; bitmaps begin with the byte that its last bits are in.
    pub fn since(plan: &Plan, header: &Header, counters: &[u64]) -> Checksums {
        let mut growth = plan.growth();
        growth.sort_by_key(|growth| growth.counter);
        let mut sums = Checksums::default();
        sums.numbers.resize(plan.regions, usize::MAX);
        for growth in growth {
            let offset = header.regions[growth.region].offset;
            let (bytes, bits) = growth.end(counters);
            // The bits before are part of the first byte.
            let is_known = bits == 0;
            let number = sums.buffers.len();
            let few = MANY / growth.most().max(1);
            let count = if is_known { counters[growth.counter] } else { u64::MAX };
            match sums.counted.last_mut().filter(|last| last.counter == growth.counter) {
                Some(last) => {
                    last.buffers.end = number + 1;
                    last.few = last.few.min(few);
                    last.count = last.count.max(count);
                }
                None => {
                    let buffers = number..number + 1;
                    sums.counted.push(CountedBuffers { counter: growth.counter, count, buffers, few });
                }
            }
            sums.numbers[growth.region] = number;
            sums.written.push(None);
            sums.buffers.push((growth, offset));
            sums.runs.push(ByteRun { upto: offset + bytes, turn: turn(growth.region), ..ByteRun::default() });
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
    pub fn advance(&mut self, counters: &[u64], store: &Store) -> Result<u32> {
        for counted in &mut self.counted {
            let count = counters[counted.counter];
            if count == counted.count {
                continue;
            }
            let buffers = &self.buffers[counted.buffers.clone()];
            let runs = &mut self.runs[counted.buffers.clone()];
            if count.wrapping_sub(counted.count) > counted.few {
                take_many(buffers, runs, &mut self.written[counted.buffers.clone()], count, store)?;
            }
            let ends = buffers.iter().map(|(growth, offset)| {
                let (bytes, bits) = growth.end_at(count);
                ByteRunEnd { upto: offset + bytes, bits }
            });
            debug_assert!(ends.clone().zip(&*runs).all(|(end, run)| run.upto <= end.upto), "committed rows stay");
            self.proof ^= store.checksum(runs, ends);
            counted.count = count;
        }
        Ok(self.proof)
    }
}

/// Takes in the whole bytes of runs that have many: from memory those that were written, from the file all others.
#[cold]
fn take_many(
    buffers: &[(Growth, u64)],
    runs: &mut [ByteRun],
    written: &mut [Option<WrittenBytes>],
    count: u64,
    store: &Store,
) -> Result<()> {
    for (((growth, offset), run), written) in buffers.iter().zip(runs).zip(written) {
        let upto = offset + growth.end_at(count).0;
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
