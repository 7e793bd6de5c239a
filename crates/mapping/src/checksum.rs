//! Computes CRC-32C of a few bytes, and of bytes appended to files, with the processor's instructions if it has them.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use crate::sys::MemoryRegion;

/// Consecutive bytes of a file, and their checksum.
///
/// The checksums of several runs are combined by rotating each to the left, and the exclusive or of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteRun {
    /// The offset after the last byte.
    pub upto: u64,
    /// The CRC-32C of the bytes.
    pub crc: u32,
    /// The CRC-32C of the bytes and of one more with the bits after them, or `crc` if there are no such bits.
    pub whole: u32,
    /// The number of bits by which `whole` is rotated.
    pub turn: u32,
}

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub struct ByteRunEnd {
    /// The offset after the last whole byte.
    pub upto: u64,
    /// The number of bits after the last whole byte, less than 8.
    pub bits: u32,
}

/// The result of extending runs.
#[derive(Clone, Copy, Debug)]
pub struct ByteRunChange {
    /// The exclusive or of the combined checksum before and after.
    pub changed: u32,
    /// True if a run was left as it was, because it has more new bytes than the maximum.
    pub has_left: bool,
}

/// Returns the CRC-32C of a few bytes.
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

/// The steps of a checksum: each takes the state and 8, 4 or 1 little-endian bytes, and returns the next state.
struct Crc32cSteps<W, H, B> {
    word: W,
    half: H,
    byte: B,
}

/// Extends a state in software.
fn extend_portably(state: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!state, bytes)
}

impl MemoryRegion {
    /// Extends the checksum of each run up to its end, if it has at most `max_len` new bytes. Panics if a run is not
    /// inside the region, which callers rule out.
    #[inline]
    pub(crate) fn checksum(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        max_len: u64,
    ) -> ByteRunChange {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("sse4.2") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.checksum_by_sse(runs, ends, max_len) };
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("crc") {
            // SAFETY: the processor has the instructions.
            return unsafe { self.checksum_by_crc(runs, ends, max_len) };
        }
        let steps = Crc32cSteps {
            word: |state, word: u64| extend_portably(state, &word.to_le_bytes()),
            half: |state, half: u32| extend_portably(state, &half.to_le_bytes()),
            byte: |state, byte| extend_portably(state, &[byte]),
        };
        self.checksum_by(runs, ends, max_len, steps)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse4.2")]
    fn checksum_by_sse(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        max_len: u64,
    ) -> ByteRunChange {
        use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
        let steps = Crc32cSteps {
            word: |state: u32, word| _mm_crc32_u64(state.into(), word) as u32,
            half: |state, half| _mm_crc32_u32(state, half),
            byte: |state, byte| _mm_crc32_u8(state, byte),
        };
        self.checksum_by(runs, ends, max_len, steps)
    }

    #[cfg(target_arch = "aarch64")]
    #[target_feature(enable = "crc")]
    fn checksum_by_crc(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        max_len: u64,
    ) -> ByteRunChange {
        use std::arch::aarch64::{__crc32cb, __crc32cd, __crc32cw};
        let steps = Crc32cSteps {
            word: |state, word| __crc32cd(state, word),
            half: |state, half| __crc32cw(state, half),
            byte: |state, byte| __crc32cb(state, byte),
        };
        self.checksum_by(runs, ends, max_len, steps)
    }

    /// As [`MemoryRegion::checksum`], by the given steps.
    #[inline(always)]
    fn checksum_by<W, H, B>(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        max_len: u64,
        Crc32cSteps { word, half, byte }: Crc32cSteps<W, H, B>,
    ) -> ByteRunChange
    where
        W: Fn(u32, u64) -> u32,
        H: Fn(u32, u32) -> u32,
        B: Fn(u32, u8) -> u32,
    {
        let mut changed = 0;
        let mut has_left = false;
        for (run, ByteRunEnd { upto, bits }) in runs.iter_mut().zip(ends) {
            debug_assert!(bits < 8, "{bits} bits after the last whole byte of a run");
            // A run whose last rows were taken back has no new bytes.
            let (from, len) = (run.upto as usize, upto.saturating_sub(run.upto) as usize);
            if len == 0 && bits == 0 && run.whole == run.crc {
                continue;
            }
            if len as u64 > max_len {
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
