//! Computes a random order of the numbers below `len`, number by number: nothing is stored, however many there are.
//!
//! A Feistel network permutes the numbers of the next even count of bits; a result that is too large is permuted again
//! until it is not (cycle walking; J. Black and P. Rogaway, *Ciphers with Arbitrary Finite Domains*). The choice among
//! all orders is not uniform, as there are more orders than seeds, but it is as good for batches.

use super::generator::{SplitMix64, mix};

/// The number of rounds of the network.
const ROUNDS: usize = 6;
/// The minimum number of bits of a half: there are too few functions on smaller halves to choose from.
const MIN_HALF_BITS: u32 = 4;

/// An order of the numbers below `len`, which takes no memory however many there are.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    len: u64,
    /// The number of bits of each of both halves of a number.
    half_bits: u32,
    /// The random key of each round.
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Chooses one of the orders of the numbers below `len`.
    pub(super) fn new(len: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let mut random = SplitMix64::new(seed);
        Permutation {
            len,
            half_bits: bits.div_ceil(2).max(MIN_HALF_BITS),
            keys: std::array::from_fn(|_| random.next()),
        }
    }

    /// Returns number `index` of the order. `index` must be less than `len`.
    pub(super) fn get(&self, index: u64) -> u64 {
        assert!(index < self.len, "number {index} of a permutation of {}", self.len);
        let mut number = index;
        loop {
            number = self.step(number);
            // The walk ends, as it returns to `index`, which is less than `len`, at the latest.
            if number < self.len {
                return number;
            }
        }
    }

    /// Permutes the numbers of both halves' bits.
    fn step(&self, number: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.half_bits);
        let mut left = number >> self.half_bits;
        let mut right = number & mask;
        for key in self.keys {
            let next = left ^ (mix(right ^ key) & mask);
            left = right;
            right = next;
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_number_occurs_once() {
        for len in [1, 2, 3, 10, 255, 256, 257, 5_000] {
            for seed in 0..20 {
                let order = Permutation::new(len, seed);
                let mut all: Vec<u64> = (0..len).map(|at| order.get(at)).collect();
                assert!(len < 10 || all.iter().zip(0..).any(|(number, at)| *number != at), "in order");
                all.sort_unstable();
                assert!(all.into_iter().eq(0..len), "{len} {seed}");
            }
        }
        let large = Permutation::new(u64::MAX, 7);
        assert!((u64::MAX - 1000..u64::MAX).all(|at| large.get(at) < u64::MAX));
    }

    #[test]
    fn permutations_of_few_numbers_are_equally_likely() {
        let mut orders = HashMap::new();
        for seed in 0..6_000u64 {
            let order = Permutation::new(3, mix(seed));
            *orders.entry([0, 1, 2].map(|at| order.get(at))).or_insert(0) += 1;
        }
        // Each order is expected a thousand times; five standard deviations are 144.
        assert!(orders.len() == 6 && orders.values().all(|&count: &i32| (count - 1000).abs() < 150), "{orders:?}");
    }

    #[test]
    fn positions_and_numbers_are_uncorrelated() {
        // The mean of a batch must be within five standard errors of the column's mean.
        let len = 1_000_000;
        for seed in 0..20 {
            let order = Permutation::new(len, seed);
            for start in [0, 1_000, 999_000] {
                let mean = (start..start + 1_000).map(|at| order.get(at) as f64).sum::<f64>() / 1_000.0;
                assert!((mean - 500_000.0).abs() < 5.0 * 288_675.0 / 1_000f64.sqrt(), "{seed} {start} {mean}");
            }
            let pairs = (0..10_000).filter(|&at| order.get(at) < order.get(at + 1)).count();
            assert!((4_700..5_300).contains(&pairs), "{pairs}");
        }
    }
}
