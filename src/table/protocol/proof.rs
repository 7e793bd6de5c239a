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
#[derive(Clone, Debug)]
pub(in crate::table) struct Checksums {
    counted: Vec<CountedBuffers>,
    buffers: Vec<(Growth, u64)>,
    runs: Vec<ByteRun>,
    proof: u32,
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
        let mut sums = Checksums { counted: Vec::new(), buffers: Vec::new(), runs: Vec::new(), proof: 0 };
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
            sums.buffers.push((growth, offset));
            sums.runs.push(ByteRun { upto: offset + bytes, turn: turn(growth.region), ..ByteRun::default() });
        }
        sums
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
                take_many(buffers, runs, count, store)?;
            }
            let end = |number: usize| {
                let (growth, offset) = &buffers[number];
                let (bytes, bits) = growth.end_at(count);
                ByteRunEnd { upto: offset + bytes, bits }
            };
            debug_assert!((0..runs.len()).all(|number| runs[number].upto <= end(number).upto), "committed rows stay");
            self.proof ^= store.checksum(runs, end);
            counted.count = count;
        }
        Ok(self.proof)
    }
}

/// Takes in the whole bytes of runs that have many.
#[cold]
fn take_many(buffers: &[(Growth, u64)], runs: &mut [ByteRun], count: u64, store: &Store) -> Result<()> {
    for ((growth, offset), run) in buffers.iter().zip(runs) {
        let upto = offset + growth.end_at(count).0;
        if upto > run.upto + MANY {
            let crc = store.crc32c(run.crc, run.upto, upto - run.upto);
            (run.crc, run.upto) = (crc.map_err(|e| Error::io("reading rows back", &e))?, upto);
        }
    }
    Ok(())
}
