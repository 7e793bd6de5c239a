//! Counts the distinct values of groups in sets of integers that lie close together, with a bit for each integer.

use crate::array::Value;
use crate::compute::kernels::OUT;
use crate::dataset::Dataset;
use crate::error::{Error, Result};

/// The number of rows of the first step of a scan. Where values are far apart, a few rows nearly always show it.
const FIRST_STEP: u64 = 1 << 14;
/// The number of rows of each later step of a scan.
const STEP: u64 = 1 << 24;

/// The number of bits of a word of a set.
const WORD: usize = u64::BITS as usize;

/// The range from the minimum to the maximum of a column of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) struct IntegerRange {
    first: i128,
    /// The distance of the last integer from the first.
    width: usize,
    /// The maximum number of groups that may have sets, 0 until [`with_max_bytes`](IntegerRange::with_max_bytes) sets
    /// it. The first rows do not tell how many groups there are, and sets of more would take too much memory.
    max_groups: usize,
}

/// For each of some groups, a set whose elements are null and the integers of a range. If there are more groups than
/// the range allows, the sets are dropped, and the caller has to count in another way.
#[derive(Clone, Debug)]
pub(in crate::compute::group) struct IntegerSets {
    range: IntegerRange,
    /// The bits of each group: one for each integer, and one behind them for null. A group begins with a new word.
    words: Vec<u64>,
    /// True if an integer of a group was outside of the range.
    is_outside: bool,
    /// True if there were too many groups. There are no bits then.
    is_too_large: bool,
}

/// The maximum number of words of a block's sets for each of its rows. With as many groups as the first block has,
/// there is at most one word for each row.
const WORDS_PER_ROW: usize = 4;

impl IntegerRange {
    /// Returns the range of column `column`, which has integers; `None` if a set would have more than `max_bits` bits.
    /// Calls `watch` before every few million rows.
    pub(in crate::compute::group) fn scan(
        dataset: &Dataset,
        column: usize,
        max_bits: usize,
        watch: impl Fn() -> Result<()>,
    ) -> Result<Option<IntegerRange>> {
        let mut range: Option<IntegerRange> = None;
        let mut next = 0;
        while next < dataset.len()? {
            watch()?;
            let len = if next == 0 { FIRST_STEP } else { STEP };
            let rows = dataset.slice(next, len)?.column_at(column)?;
            next += len;
            let min = rows.min()?;
            let max = rows.max()?;
            if matches!(min, Value::Null) {
                continue;
            }
            let (first, last) = match (stored_integer(&min), stored_integer(&max), range) {
                (Some(first), Some(last), None) => (first, last),
                (Some(first), Some(last), Some(range)) => (first.min(range.first), last.max(range.last())),
                _ => return Err(Error::internal(format!("{min} and {max} are no integers"))),
            };
            range = usize::try_from(last - first).ok().map(|width| IntegerRange { first, width, max_groups: 0 });
            if range.is_none_or(|range| range.width >= max_bits || range.words() * WORD > max_bits) {
                return Ok(None);
            }
        }
        let range = range.unwrap_or(IntegerRange { first: 0, width: 0, max_groups: 0 });
        Ok(Some(range).filter(|range| range.words() * WORD <= max_bits))
    }

    /// Limits the number of groups, so that all sets take at most `max_bytes` bytes.
    pub(in crate::compute::group) fn with_max_bytes(self, max_bytes: usize) -> IntegerRange {
        IntegerRange { max_groups: max_bytes / self.bytes(), ..self }
    }

    /// Returns true if `groups` groups may have sets.
    pub(in crate::compute::group) fn fits(&self, groups: usize) -> bool {
        groups <= self.max_groups
    }

    fn last(&self) -> i128 {
        self.first + self.width as i128
    }

    /// Returns the number of words of a set.
    fn words(&self) -> usize {
        // A bit for each integer, and one for null.
        (self.width + 2).div_ceil(WORD)
    }

    /// Returns the number of bytes of a set.
    pub(in crate::compute::group) fn bytes(&self) -> usize {
        self.words() * size_of::<u64>()
    }
}

/// Returns the integer that a value is stored as.
fn stored_integer(value: &Value<'_>) -> Option<i128> {
    Some(match value {
        Value::Bool(value) => i128::from(*value),
        Value::UInt(number) => i128::from(*number),
        Value::Int(number) => i128::from(*number),
        Value::Date(days) => i128::from(*days),
        Value::Time(time, _) | Value::Timestamp(time, ..) | Value::Duration(time, _) => i128::from(*time),
        Value::Decimal { digits, .. } => digits.to_i128()?,
        _ => return None,
    })
}

impl IntegerSets {
    /// Creates empty sets of `groups` groups, or none if there are too many groups.
    pub(super) fn empty(range: IntegerRange, groups: usize) -> IntegerSets {
        IntegerSets::with_max_words(range, groups, range.max_groups.saturating_mul(range.words()))
    }

    /// Creates empty sets of `groups` groups of a block of `rows` rows, or none if there are too many groups.
    pub(super) fn for_block(range: IntegerRange, groups: usize, rows: usize) -> IntegerSets {
        IntegerSets::with_max_words(range, groups, rows.saturating_mul(WORDS_PER_ROW))
    }

    fn with_max_words(range: IntegerRange, groups: usize, max_words: usize) -> IntegerSets {
        match groups.checked_mul(range.words()) {
            Some(words) if words <= max_words => {
                IntegerSets { range, words: vec![0; words], is_outside: false, is_too_large: false }
            }
            _ => IntegerSets { range, words: Vec::new(), is_outside: false, is_too_large: true },
        }
    }

    /// Returns true if there were too many groups, so that there are no sets.
    pub(super) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Adds a number to the set of a group.
    #[inline(always)]
    pub(super) fn insert(&mut self, group: usize, number: i128) {
        let bit = number.wrapping_sub(self.range.first) as u128;
        if bit <= self.range.width as u128 {
            self.set(group, bit as usize);
        } else {
            // Anything may lie under nulls, which are excluded.
            self.is_outside |= group != OUT as usize;
        }
    }

    /// Adds null to the set of a group.
    pub(super) fn insert_null(&mut self, group: usize) {
        self.set(group, self.range.width + 1);
    }

    #[inline(always)]
    fn set(&mut self, group: usize, bit: usize) {
        if let Some(word) = self.words.get_mut(group * self.range.words() + bit / WORD) {
            *word |= 1 << (bit % WORD);
        }
    }

    /// Merges each group of `others` into the group of `self` whose number is in `to`. Afterwards there are `count`
    /// groups.
    pub(super) fn merge(&mut self, to: &[usize], count: usize, others: &IntegerSets) {
        assert_eq!(self.range, others.range, "merged sets have the same range");
        if self.is_too_large || others.is_too_large || !self.range.fits(count) {
            self.is_too_large = true;
            self.words = Vec::new();
            return;
        }
        let width = self.range.words();
        assert_eq!(others.words.len(), to.len() * width, "each merged set has a group");
        self.words.resize((count * width).max(self.words.len()), 0);
        for (&group, other) in to.iter().zip(others.words.chunks_exact(width)) {
            let set = &mut self.words[group * width..][..width];
            set.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
        }
    }

    /// Drops group 0, of excluded rows.
    ///
    /// # Errors
    /// `Internal` if a number was outside of the range.
    pub(super) fn without_first(mut self) -> Result<IntegerSets> {
        if self.is_outside {
            return Err(Error::internal("an integer is outside of the range of its column"));
        }
        self.words.drain(..self.range.words().min(self.words.len()));
        Ok(self)
    }

    /// Returns the number of values in the set of each group, where null counts as one.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        let sets = self.words.chunks_exact(self.range.words());
        sets.map(|set| set.iter().map(|word| u64::from(word.count_ones())).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::Arc;

    use arrow_array::types::UInt8Type;
    use arrow_array::*;
    use proptest::prelude::*;

    use crate::{AggregateFunction, Dataset, col};

    type TestRow = (Option<i8>, Option<i8>);

    /// Returns columns of all types that are counted by bitsets, all with the same values.
    fn batch(rows: &[TestRow]) -> RecordBatch {
        let number = || rows.iter().map(|row| row.1);
        let entries: Int32Array = (0..=255).map(|entry| i32::from(entry as u8 as i8) * 3).collect();
        let far = |n: i8| (1u64 << 63).wrapping_add_signed(n.into());
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(rows.iter().map(|row| row.0).collect::<Int8Array>())),
            ("i8", Arc::new(number().collect::<Int8Array>())),
            ("u64", Arc::new(number().map(|n| n.map(far)).collect::<UInt64Array>())),
            ("date", Arc::new(number().map(|n| n.map(i32::from)).collect::<Date32Array>())),
            ("decimal", Arc::new(number().map(|n| n.map(i64::from)).collect::<Decimal64Array>())),
            ("wide", Arc::new(number().map(|n| n.map(|n| i64::from(n) << 50)).collect::<Int64Array>())),
            ("float", Arc::new(number().map(|n| n.map(f64::from)).collect::<Float64Array>())),
            (
                "entry",
                Arc::new(DictionaryArray::<UInt8Type>::new(
                    number().map(|n| n.map(|n| n as u8)).collect(),
                    Arc::new(entries),
                )),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    }

    /// Returns the number of distinct values of each key, in order of appearance.
    fn naive<'r>(rows: impl Iterator<Item = &'r TestRow>) -> Vec<i64> {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::<HashSet<Option<i8>>>::new());
        for (key, number) in rows {
            let group = *numbers.entry(*key).or_insert(groups.len());
            groups.resize(groups.len().max(group + 1), HashSet::new());
            groups[group].insert(*number);
        }
        groups.into_iter().map(|group| group.len() as i64).collect()
    }

    proptest! {
        #[test]
        fn distinct_integers_equal_a_naive_loop_for_all_types(
            rows in prop::collection::vec(
                (prop::option::weighted(0.9, 0i8..4), prop::option::weighted(0.9, any::<i8>())),
                1..200,
            ),
            cut in any::<usize>(),
            most in any::<i8>(),
        ) {
            let (first, rest) = rows.split_at(cut % (rows.len() + 1));
            let dataset = Dataset::try_from(vec![batch(first), batch(rest)]).unwrap();
            let counts = |dataset: Dataset, column: &str| -> Vec<i64> {
                let values_of = |batch: RecordBatch| {
                    batch[column].as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
                };
                dataset.to_record_batches().flat_map(|batch| values_of(batch.unwrap())).collect()
            };
            let is_in = |row: &&TestRow| row.1.is_some_and(|n| n <= most);
            let expected = naive(rows.iter());
            let all = naive(rows.iter().map(|row| (None, row.1)).collect::<Vec<_>>().iter());
            for column in ["i8", "u64", "date", "decimal", "wide", "float", "entry"] {
                let by = |by: &[&str]| {
                    dataset.aggregate(by).column(column, AggregateFunction::NUnique).count_rows("rows")
                };
                prop_assert_eq!(counts(by(&["key"]).finish().unwrap(), column), &expected[..], "{}", column);
                prop_assert_eq!(counts(by(&[]).finish().unwrap(), column), &all[..], "{}", column);
                let some = by(&["key"])
                    .filter(col("i8").le(i64::from(most)))
                    .column_as("again", column, AggregateFunction::NUnique)
                    .finish()
                    .unwrap();
                prop_assert_eq!(counts(some.clone(), column), naive(rows.iter().filter(is_in)), "{}", column);
                prop_assert_eq!(counts(some.clone(), column), counts(some, "again"), "{}", column);
            }
        }
    }

    fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    fn counts(dataset: &Dataset, by: &[&str], memory: u64) -> Vec<String> {
        let result =
            dataset.aggregate(by).column("n", AggregateFunction::NUnique).memory_limit(memory).finish().unwrap();
        result.column("n").unwrap().values().map(|value| value.unwrap().to_string()).collect()
    }

    #[test]
    fn null_values_and_null_keys_are_one_value() {
        let values = Int64Array::from(vec![Some(7), None, Some(9)]);
        let keys = UInt8Array::from(vec![Some(0), Some(1), Some(2), None, Some(1), Some(0)]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::<UInt8Type>::new(keys, Arc::new(values)));
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("k", numbers([0, 0, 0, 1, 1, 1].into_iter()), false),
            ("n", dictionary, true),
        ]);
        let dataset = Dataset::try_from(vec![batch.unwrap()]).unwrap();
        assert_eq!(counts(&dataset, &["k"], 1 << 28), ["3", "2"]);
        assert_eq!(counts(&dataset, &[], 1 << 28), ["3"]);
    }

    /// The memory isn't estimated as a large set for each of the 65,536 groups that are always allowed.
    #[test]
    fn large_sets_of_few_groups_need_no_more_memory_than_they_take() {
        let columns =
            [("k", numbers((0..100_000).map(|row| row % 2))), ("n", numbers((0..100_000).map(|row| row * 5)))];
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
        assert_eq!(counts(&dataset, &["k"], 1 << 28), ["50000", "50000"]);
        assert_eq!(counts(&dataset, &[], 1 << 28), ["100000"]);
    }

    /// The first rows form one group, and each of the others its own. Sets of the size of the first group's would take
    /// 10 GB.
    #[test]
    fn sets_are_abandoned_when_groups_become_many() {
        let key = |row: i64| (row - 20_000).max(0);
        let value = |row: i64| if row < 20_000 { row % 100 * 8_000 } else { row };
        let columns = [("k", numbers((0..120_000).map(key))), ("n", numbers((0..120_000).map(value)))];
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
        let result = counts(&dataset, &["k"], 1 << 28);
        // Row 20,000 also belongs to the first group.
        assert_eq!(result.len(), 100_000);
        assert!(result[0] == "101" && result[1..].iter().all(|count| count == "1"));
    }
}
