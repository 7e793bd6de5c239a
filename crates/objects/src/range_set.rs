//! Keeps sets of byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes, none of which touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet(BTreeMap<usize, usize>);

impl RangeSet {
    /// Adds a range, and joins it with ranges that it touches.
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&other, &until)) = self.0.range(..=end).next_back()
            && until >= start
        {
            self.0.remove(&other);
            start = start.min(other);
            end = end.max(until);
        }
        self.0.insert(start, end);
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.0.range(..range.end).next_back()
            && end > range.start
        {
            self.0.remove(&start);
            if end > range.end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
                return;
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the parts of `range` that are missing, in order.
    pub(crate) fn missing(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = range.start;
        let before = self.0.range(..=range.start).next_back();
        for (&start, &end) in before.into_iter().chain(self.0.range(range.start + 1..)) {
            if start >= range.end {
                break;
            }
            if start > at {
                found.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            found.push(at..range.end);
        }
        found
    }

    /// Returns the parts of all of `ranges` that are missing, in order and without overlap.
    pub(crate) fn missing_of(&self, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut wanted = RangeSet::default();
        let missing = ranges.iter().filter(|range| !range.is_empty()).flat_map(|range| self.missing(range.clone()));
        missing.for_each(|part| wanted.insert(part));
        wanted.iter().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().map(|(&start, &end)| start..end)
    }
}

/// Requests for `missing`, which is in order: ranges with less than `gap` bytes between them as one, of up to `most`
/// bytes each; short ones of `least` bytes, where the object has as many.
pub(crate) fn requests(missing: &[Range<usize>], size: usize) -> Vec<Range<usize>> {
    /// A request costs as much as some 100 KiB.
    const GAP: usize = 128 << 10;
    const LEAST: usize = 4 << 10;
    const MOST: usize = 8 << 20;
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in missing {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => joined.push(range.clone()),
        }
    }
    let longer = |range: Range<usize>| range.start..range.end.max(range.start.saturating_add(LEAST)).min(size);
    let cut = |range: Range<usize>| {
        let end = range.end;
        range.step_by(MOST).map(move |start| start..end.min(start + MOST))
    };
    joined.into_iter().map(longer).flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{RangeSet, requests};

    /// The same by a flag for each byte, over all short ranges.
    #[test]
    fn ranges_are_those_of_flags() {
        let mut seed = 7u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for _ in 0..300 {
            let mut ranges = RangeSet::default();
            let mut flags = [false; 40];
            for _ in 0..20 {
                let start = random(40);
                let range = start..start + random(41 - start);
                let is_added = random(3) > 0;
                flags[range.clone()].fill(is_added);
                if is_added {
                    ranges.insert(range)
                } else {
                    ranges.remove(range)
                }
                let start = random(40);
                let asked = start..start + random(41 - start);
                let mut missing: Vec<usize> = ranges.missing(asked.clone()).into_iter().flatten().collect();
                assert_eq!(missing, asked.filter(|&at| !flags[at]).collect::<Vec<_>>());
                missing = ranges.missing_of(&[3..9, 5..12, 30..31]).into_iter().flatten().collect();
                assert_eq!(missing, (3..12).chain(30..31).filter(|&at| !flags[at]).collect::<Vec<_>>());
                let known: Vec<Range<usize>> = ranges.iter().collect();
                assert!(known.windows(2).all(|pair| pair[0].end < pair[1].start), "{known:?}");
            }
        }
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn neighbours_are_one_request_and_long_ranges_are_several() {
        const K: usize = 1 << 10;
        assert_eq!(requests(&[0..K, 9 * K..10 * K, 900 * K..901 * K], 1 << 30), [0..10 * K, 900 * K..904 * K]);
        assert_eq!(requests(&[0..20 << 20], 20 << 20), [0..8 << 20, 8 << 20..16 << 20, 16 << 20..20 << 20]);
        assert_eq!(requests(&[10..11], 100), [10..100]);
    }
}
