//! Sums and compares fixed-width values of any alignment. Sums of floats use a fixed tree, so that a result depends
//! only on the values and their order:
//!
//! ```text
//! 65,536 values = 64 leaves of 1,024 = 64 steps of 16 lanes
//! lanes are added up alone, then in pairs; leaves in pairs; blocks in pairs
//! ```
//! A value's place in the tree is its row in the column, independent of batches. Sixteen lanes saturate one core's
//! memory bandwidth with any vector width. Tried and rejected: 8 lanes (latency-bound with AVX-512), 32 lanes (exceed
//! the registers of SSE2).
//!
//! Each kernel is compiled for several instruction sets and selects one when called; the order of additions is the same
//! in all, as tests against naive twins verify.

use half::f16;
use multiversion::multiversion;

use crate::compute::scan::Number;

/// The values of a leaf, which are in the nearest cache.
pub(in crate::compute) const LEAF: usize = 1 << 10;
/// The number of partial sums of a leaf: value `i` is added to lane `i % LANES`.
const LANES: usize = 16;

/// The bits of the lower half of an integer of 64 bits.
const LOW_HALF: u64 = u32::MAX as u64;

/// A running sum of floats, by the tree that the module's documentation draws. Values are added in the order of rows,
/// in parts of any length; [`total`](FloatSum::total) ends the last leaf.
#[derive(Clone, Debug, Default)]
pub(in crate::compute) struct FloatSum {
    /// The lanes of the current leaf.
    lanes: [f64; LANES],
    /// The number of values in the current leaf.
    filled: usize,
    /// The sums of full leaves.
    leaves: PairwiseSum,
}

/// Adds f64 without nulls.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn add_f64(sum: &mut FloatSum, values: &[[u8; 8]]) {
    sum.add(values, |raw| f64::from_le_bytes(*raw));
}

/// Adds f32, as f64, without nulls.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn add_f32(sum: &mut FloatSum, values: &[[u8; 4]]) {
    sum.add(values, |raw| f32::from_le_bytes(*raw).into());
}

/// Returns the mean of the f64 of a leaf, and the sum of the squares of their distances from it. The leaf has a value
/// or more.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn moments_f64(values: &[[u8; 8]]) -> (f64, f64) {
    debug_assert!(!values.is_empty() && values.len() <= LEAF, "a leaf of {} values", values.len());
    let mean = leaf_sum(values, |raw| f64::from_le_bytes(*raw)) / values.len() as f64;
    let squares = squares_from(values, mean);
    if squares.is_finite() || !mean.is_finite() {
        return (mean, squares);
    }
    // The rounding error of a mean of large values may be too large to be squared, where all distances are small.
    let mean = mean + leaf_sum(values, |raw| f64::from_le_bytes(*raw) - mean) / values.len() as f64;
    (mean, squares_from(values, mean))
}

/// Sums the squares of the distances of a leaf's numbers from `mean`.
#[inline(always)]
fn squares_from(values: &[[u8; 8]], mean: f64) -> f64 {
    leaf_sum(values, |raw| {
        let distance = f64::from_le_bytes(*raw) - mean;
        distance * distance
    })
}

/// Sums the numbers of a leaf, or of a part of one.
#[inline(always)]
fn leaf_sum<const N: usize>(values: &[[u8; N]], number: impl Fn(&[u8; N]) -> f64 + Copy) -> f64 {
    let (steps, tail) = values.as_chunks::<LANES>();
    let mut lanes = add_steps([0.0; LANES], steps, number);
    add_each(&mut lanes, tail, number);
    sum_lanes(lanes)
}

/// Adds f16, as f64, without nulls.
pub(in crate::compute) fn add_f16(sum: &mut FloatSum, values: &[[u8; 2]]) {
    sum.add(values, |raw| f16::from_le_bytes(*raw).to_f64());
}

impl FloatSum {
    /// Adds values, leaf by leaf.
    #[inline(always)]
    fn add<const N: usize>(&mut self, values: &[[u8; N]], number: impl Fn(&[u8; N]) -> f64 + Copy) {
        let mut rest = values;
        while !rest.is_empty() {
            let (leaf, after) = rest.split_at(rest.len().min(LEAF - self.filled));
            self.fill(leaf, number);
            rest = after;
        }
    }

    /// Adds values that fit into the leaf.
    #[inline(always)]
    fn fill<const N: usize>(&mut self, values: &[[u8; N]], number: impl Fn(&[u8; N]) -> f64 + Copy) {
        debug_assert!(self.filled + values.len() <= LEAF, "{} more values than {}", values.len(), self.filled);
        let lane = self.filled % LANES;
        let (head, values) = values.split_at(if lane == 0 { 0 } else { values.len().min(LANES - lane) });
        let (steps, tail) = values.as_chunks::<LANES>();
        add_each(&mut self.lanes[lane..], head, number);
        self.lanes = add_steps(self.lanes, steps, number);
        add_each(&mut self.lanes, tail, number);
        self.filled += head.len() + steps.len() * LANES + tail.len();
        if self.filled == LEAF {
            self.close_leaf();
        }
    }

    /// Adds the sum of the current leaf to the leaves before it, and begins another.
    #[inline]
    fn close_leaf(&mut self) {
        self.leaves.add(sum_lanes(std::mem::take(&mut self.lanes)));
        self.filled = 0;
    }

    /// Returns the sum of all values.
    pub(in crate::compute) fn total(mut self) -> f64 {
        if self.filled > 0 {
            self.close_leaf();
        }
        self.leaves.total()
    }
}

/// Adds each value to the lane of the same index.
#[inline(always)]
fn add_each<const N: usize>(lanes: &mut [f64], values: &[[u8; N]], number: impl Fn(&[u8; N]) -> f64) {
    lanes.iter_mut().zip(values).for_each(|(lane, raw)| *lane += number(raw));
}

/// Adds steps of a value for each lane. The lanes are passed by value, which keeps them in registers.
#[inline(always)]
fn add_steps<const N: usize>(
    mut lanes: [f64; LANES],
    steps: &[[[u8; N]; LANES]],
    number: impl Fn(&[u8; N]) -> f64,
) -> [f64; LANES] {
    for step in steps {
        for (lane, raw) in lanes.iter_mut().zip(step) {
            *lane += number(raw);
        }
    }
    lanes
}

/// Adds up the lanes in pairs, pairs of pairs, and so on.
#[inline(always)]
fn sum_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Adds numbers in pairs, pairs of pairs, and so on, as they arrive: a binary counter whose digits are partial sums.
#[derive(Clone, Debug, Default)]
pub(in crate::compute) struct PairwiseSum {
    /// The sum of a complete subtree of 2^level numbers; `None` where the count of numbers has a bit of 0.
    levels: Vec<Option<f64>>,
}

impl PairwiseSum {
    #[inline]
    pub(in crate::compute) fn add(&mut self, number: f64) {
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

    /// Returns the sum of all numbers: of the subtrees, from the smallest on.
    pub(in crate::compute) fn total(&self) -> f64 {
        self.levels.iter().flatten().fold(0.0, |sum, level| level + sum)
    }
}

/// Sums a block of i32, whose sum fits i64.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn sum_i32(block: &[[u8; 4]]) -> i64 {
    block.iter().map(|&raw| i64::from(i32::from_le_bytes(raw))).sum()
}

/// Sums a block of u32, whose sum fits u64.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn sum_u32(block: &[[u8; 4]]) -> u64 {
    block.iter().map(|&raw| u64::from(u32::from_le_bytes(raw))).sum()
}

/// Sums a block of i64 exactly: upper and lower halves are summed separately, and neither can overflow.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn sum_i64(block: &[[u8; 8]]) -> i128 {
    debug_assert!(block.len() <= 1 << 31, "{} halves may overflow", block.len());
    let mut high = 0i64;
    let mut low = 0u64;
    for &raw in block {
        let value = i64::from_le_bytes(raw);
        high += value >> u32::BITS;
        low += value as u64 & LOW_HALF;
    }
    (i128::from(high) << u32::BITS) + i128::from(low)
}

/// Returns the smallest of `so_far` and the values; NaN is skipped, as comparisons with it are false.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn min<T: Number<N>, const N: usize>(so_far: T, values: &[[u8; N]]) -> T {
    choose(so_far, values, |a, b| if b < a { b } else { a })
}

/// Returns the largest of `so_far` and the values; NaN is skipped.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(in crate::compute) fn max<T: Number<N>, const N: usize>(so_far: T, values: &[[u8; N]]) -> T {
    choose(so_far, values, |a, b| if b > a { b } else { a })
}

/// Folds `so_far` and the values by `better`, which returns the better one of two numbers.
#[inline(always)]
fn choose<T: Number<N>, const N: usize>(so_far: T, values: &[[u8; N]], better: impl Fn(T, T) -> T) -> T {
    // The compiler vectorises integers itself, and better than with lanes. It may not reorder floats.
    if !T::IS_FLOAT {
        return values.iter().fold(so_far, |best, &raw| better(best, T::load(raw)));
    }
    let mut lanes = [so_far; LANES];
    let (steps, rest) = values.as_chunks::<LANES>();
    for step in steps {
        for (lane, &raw) in lanes.iter_mut().zip(step) {
            *lane = better(*lane, T::load(raw));
        }
    }
    let best = lanes.into_iter().fold(so_far, &better);
    rest.iter().fold(best, |best, &raw| better(best, T::load(raw)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the sum by the tree in the module's documentation, value by value.
    fn naive(values: &[f64]) -> f64 {
        let mut leaves = vec![[0.0; LANES]; values.len().div_ceil(LEAF)];
        for (row, value) in values.iter().enumerate() {
            leaves[row / LEAF][row % LANES] += value;
        }
        let mut sums: Vec<f64> = leaves.into_iter().map(|lanes| pairs(&lanes)).collect();
        // Adds complete subtrees first, from the largest.
        let mut total = Vec::new();
        while !sums.is_empty() {
            let rest = sums.split_off(1 << sums.len().ilog2());
            total.push(halves(&sums));
            sums = rest;
        }
        total.into_iter().rev().fold(0.0, |sum, subtree| subtree + sum)
    }

    fn halves(sums: &[f64]) -> f64 {
        match sums {
            [one] => *one,
            _ => halves(&sums[sums.len() / 2..]) + halves(&sums[..sums.len() / 2]),
        }
    }

    fn pairs(lanes: &[f64]) -> f64 {
        let (left, right) = lanes.split_at(lanes.len() / 2);
        let sums: Vec<f64> = left.iter().zip(right).map(|(a, b)| a + b).collect();
        if sums.len() == 1 { sums[0] } else { pairs(&sums) }
    }

    proptest! {
        #[test]
        fn moments_of_a_leaf_equal_the_drawn_tree(values in prop::collection::vec(-1e6..1e6f64, 1..=LEAF)) {
            let raw: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
            let (mean, squares) = moments_f64(&raw);
            prop_assert_eq!(mean.to_bits(), (naive(&values) / values.len() as f64).to_bits());
            let distances: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
            prop_assert_eq!(squares.to_bits(), naive(&distances).to_bits());
        }

        #[test]
        fn sums_equal_the_drawn_tree_for_all_slices(
            values in prop::collection::vec(-1e6..1e6f64, 0..20_000),
            cuts in prop::collection::vec(0usize..2500, 0..40),
        ) {
            let raw: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
            let mut sum = FloatSum::default();
            let mut rest = &raw[..];
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                add_f64(&mut sum, piece);
                rest = after;
            }
            add_f64(&mut sum, rest);
            prop_assert_eq!(sum.total().to_bits(), naive(&values).to_bits());
        }
    }
}
