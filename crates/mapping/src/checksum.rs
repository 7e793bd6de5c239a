//! CRC-32C of a few bytes, and of what was appended to files, by the instructions of the processor where it has some.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use crate::sys::MemoryRegion;

/// The bytes of a file that are in a checksum. The combination of several is the exclusive or of all, each rotated to the left.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteRun {
    /// The offset behind them.
    pub upto: u64,
    /// Their CRC-32C.
    pub crc: u32,
    /// Their CRC-32C with the bits behind them as a byte, if there are any.
    pub whole: u32,
    /// By how many bits `whole` is rotated.
    pub turn: u32,
}

/// Where a run ends.
#[derive(Clone, Copy, Debug)]
pub struct ByteRunEnd {
    /// The offset behind its whole bytes.
    pub upto: u64,
    /// The number of bits behind those, less than 8.
    pub bits: u32,
}

/// What became of runs whose bytes were taken in.
#[derive(Clone, Copy, Debug)]
pub struct ByteRunChange {
    /// What that changes of the combination of their checksums: the exclusive or of the new one and the one before.
    pub changed: u32,
    /// Whether a run has more bytes than were to be taken in, and is as it was.
    pub has_left: bool,
}

/// The CRC-32C of a few bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { crc32c_by_sse(bytes) };
    }
    crc32c::crc32c(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_by_sse(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, last) = bytes.as_chunks::<8>();
    let state = words.iter().fold(u32::MAX.into(), |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
    !last.iter().fold(state as u32, |state, &byte| _mm_crc32_u8(state, byte))
}

impl MemoryRegion {
    /// Takes the bytes up to the end of each run into its checksum, if those are no more than `most`. Panics if a run is not
    /// inside, which callers rule out.
    #[inline]
    pub(crate) fn checksum(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        most: u64,
    ) -> ByteRunChange {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.checksum_by_sse(runs, ends, most) };
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("crc") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.checksum_by_crc(runs, ends, most) };
        }
        let step = |state: u32, bytes: &[u8]| !crc32c::crc32c_append(!state, bytes);
        let word = |state: u32, word: u64| step(state, &word.to_le_bytes());
        let half = |state: u32, half: u32| step(state, &half.to_le_bytes());
        self.checksum_by(runs, (ends, most), (word, half, |state, byte| step(state, &[byte])))
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse4.2")]
    fn checksum_by_sse(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        most: u64,
    ) -> ByteRunChange {
        use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
        let word = |state: u32, word: u64| _mm_crc32_u64(state.into(), word) as u32;
        let half = |state: u32, half: u32| _mm_crc32_u32(state, half);
        self.checksum_by(runs, (ends, most), (word, half, |state, byte| _mm_crc32_u8(state, byte)))
    }

    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "crc")]
    fn checksum_by_crc(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        most: u64,
    ) -> ByteRunChange {
        use std::arch::aarch64::{__crc32cb, __crc32cd, __crc32cw};
        let word = |state: u32, word: u64| __crc32cd(state, word);
        let half = |state: u32, half: u32| __crc32cw(state, half);
        self.checksum_by(runs, (ends, most), (word, half, |state, byte| __crc32cb(state, byte)))
    }

    /// As [`MemoryRegion::checksum`], with the steps of the checksum for 8, 4 and 1 little-endian bytes.
    #[inline(always)]
    fn checksum_by(
        &self,
        runs: &mut [ByteRun],
        (ends, most): (impl Iterator<Item = ByteRunEnd>, u64),
        (word, half, byte): (impl Fn(u32, u64) -> u32, impl Fn(u32, u32) -> u32, impl Fn(u32, u8) -> u32),
    ) -> ByteRunChange {
        let (mut changed, mut has_left) = (0, false);
        for (run, ByteRunEnd { upto, bits }) in runs.iter_mut().zip(ends) {
            let (from, len) = (run.upto as usize, upto.saturating_sub(run.upto) as usize);
            if len == 0 && bits == 0 && run.whole == run.crc {
                continue;
            }
            if len as u64 > most {
                has_left = true;
                continue;
            }
            let mut state = !run.crc;
            if len == 8 && from.is_multiple_of(8) {
                // A number, which is what most cells are.
                state = word(state, u64::from_le(self.word64(from).load(Ordering::Relaxed)));
            } else if len == 4 && from.is_multiple_of(4) {
                state = half(state, u32::from_le(self.word32(from).load(Ordering::Relaxed)));
            } else if len < 8 {
                state =
                    self.atoms8(from, len).iter().fold(state, |state, next| byte(state, next.load(Ordering::Relaxed)));
            } else {
                let (first, words, last) = self.atoms(from, len);
                state = first.iter().fold(state, |state, next| byte(state, next.load(Ordering::Relaxed)));
                state = words.iter().fold(state, |state, next| word(state, u64::from_le(next.load(Ordering::Relaxed))));
                state = last.iter().fold(state, |state, next| byte(state, next.load(Ordering::Relaxed)));
            }
            (run.upto, run.crc) = (upto, !state);
            if bits > 0 {
                let next = self.atoms8(upto as usize, 1)[0].load(Ordering::Relaxed);
                state = byte(state, next & !(0xff << bits));
            }
            changed ^= (run.whole ^ !state).rotate_left(run.turn);
            run.whole = !state;
        }
        ByteRunChange { changed, has_left }
    }
}
