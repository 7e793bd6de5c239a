//! Loops over blocks of fixed-width values. Values are loaded wherever they are aligned; validity comes as words of 64
//! bits. Sums of floats go through a fixed tree, so that a result depends on the values and nothing else:
//!
//! ```text
//! block of 65,536 = 64 leaves of 1,024 = 64 steps of 16 lanes
//! lanes are added up alone, then in pairs; leaves in pairs; blocks in pairs
//! ```
//! Sixteen lanes keep one core's path to memory busy with any vector width. Tried and left: 8 lanes (wait for each
//! other with AVX-512), 32 lanes (do not fit the registers of SSE2).
//!
//! Each kernel is compiled for several instruction sets and picks one when first called; the order of additions is the
//! same in all, and the naive twins in the tests hold them to it.

use multiversion::multiversion;

/// Values that are summed up by one thread at a time.
pub(super) const BLOCK: usize = 1 << 16;
const LEAF: usize = 1 << 10;
const LANES: usize = 16;

/// The sum of a block of f64 without nulls.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn sum_f64(block: &[[u8; 8]]) -> f64 {
    sum_leaves(block, |raw| f64::from_le_bytes(*raw))
}

/// The sum of a block of f32, in f64, without nulls.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn sum_f32(block: &[[u8; 4]]) -> f64 {
    sum_leaves(block, |raw| f32::from_le_bytes(*raw).into())
}

#[inline(always)]
fn sum_leaves<const N: usize>(block: &[[u8; N]], number: impl Fn(&[u8; N]) -> f64 + Copy) -> f64 {
    let mut sums = Pairs::default();
    for leaf in block.chunks(LEAF) {
        let mut lanes = [0.0; LANES];
        let (steps, rest) = leaf.as_chunks::<LANES>();
        for step in steps {
            for (lane, raw) in lanes.iter_mut().zip(step) {
                *lane += number(raw);
            }
        }
        for (lane, raw) in lanes.iter_mut().zip(rest) {
            *lane += number(raw);
        }
        sums.add(sum_lanes(lanes));
    }
    sums.total()
}

#[inline(always)]
fn sum_lanes(lanes: [f64; LANES]) -> f64 {
    let mut lanes = lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Adds numbers in pairs, pairs of pairs, and so on, as they come: a binary counter whose digits are partial sums.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    levels: Vec<Option<f64>>,
}

impl Pairs {
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        let mut carry = number;
        for level in &mut self.levels {
            match level.take() {
                None => {
                    *level = Some(carry);
                    return;
                }
                Some(before) => carry += before,
            }
        }
        self.levels.push(Some(carry));
    }

    pub(super) fn total(&self) -> f64 {
        self.levels.iter().flatten().fold(0.0, |sum, level| level + sum)
    }
}

/// Integers narrower than 64 bits: a block's sum fits i64.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn sum_i32(block: &[[u8; 4]]) -> i64 {
    block.iter().map(|&raw| i64::from(i32::from_le_bytes(raw))).sum()
}

/// As `sum_i32`, unsigned.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn sum_u32(block: &[[u8; 4]]) -> u64 {
    block.iter().map(|&raw| u64::from(u32::from_le_bytes(raw))).sum()
}

/// The sum of a block of i64, exact: upper and lower halves are added up apart, neither of which can overflow.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn sum_i64(block: &[[u8; 8]]) -> i128 {
    let (mut high, mut low) = (0i64, 0u64);
    for &raw in block {
        let value = i64::from_le_bytes(raw);
        high += value >> 32;
        low += value as u64 & 0xffff_ffff;
    }
    (i128::from(high) << 32) + i128::from(low)
}

/// The smallest and the largest f64 of a block that are numbers, or (∞, −∞) where none is.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn extremes_f64(block: &[[u8; 8]]) -> (f64, f64) {
    let (mut least, mut most) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (steps, rest) = block.as_chunks::<LANES>();
    for step in steps {
        for ((least, most), &raw) in least.iter_mut().zip(&mut most).zip(step) {
            let value = f64::from_le_bytes(raw);
            // Comparisons with NaN are false, so it is never taken.
            *least = if value < *least { value } else { *least };
            *most = if value > *most { value } else { *most };
        }
    }
    for ((least, most), &raw) in least.iter_mut().zip(&mut most).zip(rest) {
        let value = f64::from_le_bytes(raw);
        *least = if value < *least { value } else { *least };
        *most = if value > *most { value } else { *most };
    }
    let smaller = |a: f64, b: f64| if b < a { b } else { a };
    let larger = |a: f64, b: f64| if b > a { b } else { a };
    (least.into_iter().fold(f64::INFINITY, smaller), most.into_iter().fold(f64::NEG_INFINITY, larger))
}
