//! Generates random numbers, reproducible on every machine: the splitmix64 generator (Steele, Lea and Flood, *Fast
//! Splittable Pseudorandom Number Generators*), reduced to a range without bias (Lemire, *Fast Random Integer
//! Generation in an Interval*).

use std::collections::HashMap;

use crate::array::room_for;
use crate::error::{Error, Result};

/// A generator of random numbers.
pub(in crate::compute) struct SplitMix64 {
    state: u64,
}

/// The amount by which the state grows: the fraction of the golden ratio, made odd.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns a number whose bits all depend on all bits of `number`.
pub(super) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl SplitMix64 {
    /// Creates a generator. The same seed gives the same numbers.
    pub(in crate::compute) fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// Returns a number of 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        mix(self.state)
    }

    /// Returns a number less than `limit`, which must not be 0.
    pub(in crate::compute) fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "no number is below 0");
        let mut wide = u128::from(self.next()) * u128::from(limit);
        // Few products begin below the threshold: they would make some numbers more frequent than others.
        if (wide as u64) < limit {
            let threshold = limit.wrapping_neg() % limit;
            while (wide as u64) < threshold {
                wide = u128::from(self.next()) * u128::from(limit);
            }
        }
        (wide >> u64::BITS) as u64
    }

    /// Shuffles `items` uniformly.
    pub(in crate::compute) fn shuffle<T>(&mut self, items: &mut [T]) {
        for left in (2..=items.len()).rev() {
            items.swap(left - 1, self.below(left as u64) as usize);
        }
    }

    /// Returns `n` distinct numbers less than `limit`: the beginning of a shuffle, storing only moved items.
    ///
    /// # Errors
    /// `Io` if there is no memory for them.
    pub(in crate::compute) fn sample(&mut self, n: u64, limit: u64) -> Result<Vec<u64>> {
        assert!(n <= limit, "{n} distinct numbers below {limit}");
        let mut drawn = room_for(n, "rows of a sample")?;
        // The items that are no longer at their own position, by position.
        let mut moved = HashMap::new();
        for position in 0..n {
            if moved.try_reserve(1).is_err() {
                return Err(Error::out_of_memory(format!("no memory for a sample of {n} rows")));
            }
            let other = position + self.below(limit - position);
            let item = moved.remove(&position).unwrap_or(position);
            drawn.push(if other == position { item } else { moved.insert(other, item).unwrap_or(other) });
        }
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_equal_the_reference_implementation() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn samples_have_distinct_and_equally_likely_rows() {
        let mut hits = [0; 20];
        for seed in 0..4_000u64 {
            let drawn = SplitMix64::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d)).sample(5, 20).unwrap();
            assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 5);
            drawn.iter().for_each(|&row| hits[row as usize] += 1);
        }
        // Each row is expected a thousand times; five standard deviations are 137.
        assert!(hits.iter().all(|&count: &i32| (count - 1000).abs() < 137), "{hits:?}");
        let mut all = SplitMix64::new(7).sample(100, 100).unwrap();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
    }

    #[test]
    fn shuffles_are_equally_likely() {
        let mut orders = HashMap::new();
        let mut random = SplitMix64::new(42);
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *orders.entry(items).or_insert(0) += 1;
        }
        assert_eq!(orders.len(), 6);
        assert!(orders.values().all(|&count: &i32| (count - 1000).abs() < 150), "{orders:?}");
    }
}
