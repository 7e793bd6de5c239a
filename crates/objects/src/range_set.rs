//! Sets of byte ranges, and the requests that fetch them.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes, as the ranges that they form. Ranges do not touch each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    /// The end of each range, by its start.
    ends: BTreeMap<usize, usize>,
}

impl RangeSet {
    /// Adds a range, and joins it with ranges that it touches.
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&other_start, &other_end)) = self.ends.range(..=end).next_back()
            && other_end >= start
        {
            self.ends.remove(&other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back()
            && end > range.start
        {
            self.ends.remove(&start);
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            if start < range.start {
                self.ends.insert(start, range.start);
                return;
            }
        }
    }

    /// Removes all ranges.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Returns the parts of `range` that are missing, in order.
    pub(crate) fn missing(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut missing = Vec::new();
        let mut position = range.start;
        let before = self.ends.range(..=range.start).next_back();
        for (&start, &end) in before.into_iter().chain(self.ends.range(range.start + 1..)) {
            if start >= range.end {
                break;
            }
            if start > position {
                missing.push(position..start);
            }
            position = position.max(end);
        }
        if position < range.end {
            missing.push(position..range.end);
        }
        missing
    }

    /// Returns the parts of all of `ranges` that are missing, in order and without overlap.
    pub(crate) fn missing_of(&self, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut missing = RangeSet::default();
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            for part in self.missing(range.clone()) {
                missing.insert(part);
            }
        }
        missing.iter().collect()
    }

    /// Returns the ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }
}

/// The maximum gap between two ranges that are fetched by one request, as a request costs as much as some 100 KiB.
const MAX_GAP: usize = 128 << 10;
/// The minimum bytes of a request.
const MIN_REQUEST: usize = 4 << 10;
/// The maximum bytes of a request.
const MAX_REQUEST: usize = 8 << 20;

/// Returns the ranges to request so as to fetch `missing`, which is in order, from an object of `size` bytes. Close
/// ranges are joined, short ones extended, and long ones cut.
pub(crate) fn plan_requests(missing: &[Range<usize>], size: usize) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in missing {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MAX_GAP) => last.end = last.end.max(range.end),
            _ => joined.push(range.clone()),
        }
    }
    let mut requests = Vec::with_capacity(joined.len());
    for range in joined {
        let end = range.end.max(range.start.saturating_add(MIN_REQUEST)).min(size);
        for start in (range.start..end).step_by(MAX_REQUEST) {
            requests.push(start..end.min(start + MAX_REQUEST));
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{RangeSet, plan_requests};

    /// A generator of random numbers that are the same in each run.
    struct Random(u64);

    impl Random {
        /// Returns a random number below `end`.
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % end
        }

        /// Returns a random range within the bytes of the model.
        fn range(&mut self) -> Range<usize> {
            let start = self.below(BYTES);
            start..start + self.below(BYTES + 1 - start)
        }
    }

    const BYTES: usize = 40;

    /// Compares sets with a model that has a flag for each byte.
    #[test]
    fn sets_match_a_model() {
        let mut random = Random(7);
        for _ in 0..300 {
            let mut set = RangeSet::default();
            let mut flags = [false; BYTES];
            for _ in 0..20 {
                let range = random.range();
                let is_added = random.below(3) > 0;
                flags[range.clone()].fill(is_added);
                if is_added {
                    set.insert(range)
                } else {
                    set.remove(range)
                }
                let range = random.range();
                let missing: Vec<usize> = set.missing(range.clone()).into_iter().flatten().collect();
                assert_eq!(missing, range.filter(|&byte| !flags[byte]).collect::<Vec<_>>());
                let missing: Vec<usize> = set.missing_of(&[3..9, 5..12, 30..31]).into_iter().flatten().collect();
                assert_eq!(missing, (3..12).chain(30..31).filter(|&byte| !flags[byte]).collect::<Vec<_>>());
                let ranges: Vec<Range<usize>> = set.iter().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
            }
        }
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn requests_join_close_ranges_and_cut_long_ones() {
        const K: usize = 1 << 10;
        const M: usize = 1 << 20;
        assert_eq!(plan_requests(&[0..K, 9 * K..10 * K, 900 * K..901 * K], 1 << 30), [0..10 * K, 900 * K..904 * K]);
        assert_eq!(plan_requests(&[0..20 * M], 20 * M), [0..8 * M, 8 * M..16 * M, 16 * M..20 * M]);
        assert_eq!(plan_requests(&[10..11], 100), [10..100]);
    }
}
