//! Filters, groups and sums in one loop over the rows, where floats are summed by the keys of one small dictionary.
//!
//! The loop needs no masks and no group numbers; it writes only sums. These equal the sums of [`GroupState`] bit for
//! bit, so that each block may use either.
//!
//! It is 1.5 to 3 times as fast as the general path for sums and means by symbol, the most frequent queries. Other
//! types, several columns and extremes would gain nothing.

use std::ops::Range;
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use multiversion::multiversion;

use super::keys::{Groups, KeyPart, key_part};
use super::state::{GroupState, NeumaierSum, StateKind};
use crate::array::UncheckedArray;
use crate::array::access::{Keys, dictionary_of, fixed_values};
use crate::compute::expr::{BoundPredicate, ValuePredicate};
use crate::compute::kernels::LANES;
use crate::compute::scan::Frame;
use crate::compute::selection::{Mask, RowSet};
use crate::error::Result;

/// The number of keys of one byte.
const KEYS: usize = 1 << u8::BITS;
/// The number of bits of a word of a mask.
const WORD: usize = u64::BITS as usize;
/// The number of rows that are tested at once for having the same key.
const RUN: usize = 32;

/// The sum and the count of each lane of each key.
type LaneSums = [[[f64; 2]; LANES]; KEYS];
/// The bytes of a float.
type Raw = [u8; 8];

/// A query that the fused loop can answer: sums and counts of one column of floats, by a key of one small dictionary,
/// for all rows or the rows of a [`FusedFilter`].
pub(super) struct FusedSum<'a> {
    /// The column that rows are grouped by.
    key: usize,
    /// Its dictionary, which all batches must share.
    dictionary: &'a ArrayData,
    /// The values of the dictionary, which are different.
    cells: Vec<KeyPart<'a>>,
    condition: FusedFilter,
    /// The column that is summed.
    value: usize,
    kinds: &'a [StateKind],
}

/// The rows that a query includes.
enum FusedFilter {
    All,
    /// Rows with a float of `column` from `low` to `high`.
    Range {
        column: usize,
        low: f64,
        high: f64,
    },
    RowSet(Arc<RowSet>),
}

/// The columns of some rows.
struct FusedRows<'a> {
    keys: &'a [[u8; 1]],
    values: &'a [Raw],
    included: FusedMask<'a>,
}

/// The filter of some rows.
enum FusedMask<'a> {
    All,
    Range(RangeFilter<'a>),
    Bits(Mask),
}

trait RowFilter {
    /// Returns true if the row is included.
    fn includes(&self, row: usize) -> bool;

    /// Returns for each of the rows from `first` on whether it is included.
    fn includes_run(&self, first: usize) -> [bool; RUN];
}

/// A filter that includes all rows.
struct AllRows;

impl RowFilter for AllRows {
    #[inline(always)]
    fn includes(&self, _row: usize) -> bool {
        true
    }

    #[inline(always)]
    fn includes_run(&self, _first: usize) -> [bool; RUN] {
        [true; RUN]
    }
}

/// A filter that includes rows with a float from `low` to `high`.
struct RangeFilter<'a> {
    tested: &'a [Raw],
    low: f64,
    high: f64,
}

impl RangeFilter<'_> {
    #[inline(always)]
    fn contains(&self, raw: Raw) -> bool {
        let number = f64::from_le_bytes(raw);
        (number >= self.low) & (number <= self.high)
    }
}

impl RowFilter for RangeFilter<'_> {
    #[inline(always)]
    fn includes(&self, row: usize) -> bool {
        self.tested.get(row).is_some_and(|&raw| self.contains(raw))
    }

    #[inline(always)]
    fn includes_run(&self, first: usize) -> [bool; RUN] {
        match self.tested.get(first..).and_then(|rest| rest.first_chunk::<RUN>()) {
            Some(raws) => raws.map(|raw| self.contains(raw)),
            None => [false; RUN],
        }
    }
}

impl RowFilter for Mask {
    #[inline(always)]
    fn includes(&self, row: usize) -> bool {
        self.is_set(row)
    }

    #[inline(always)]
    fn includes_run(&self, first: usize) -> [bool; RUN] {
        const NO_BITS: u64 = 0;
        let index = first / WORD;
        let word = self.words.get(index).copied().unwrap_or(NO_BITS);
        let next_word = self.words.get(index + 1).copied().unwrap_or(NO_BITS);
        let bits = (u128::from(word) | u128::from(next_word) << WORD) >> (first % WORD);
        std::array::from_fn(|row| bits as u32 >> row & 1 == 1)
    }
}

impl<'a> FusedSum<'a> {
    /// Creates a fused loop for a query; `None` if it needs the general path.
    pub(in crate::compute) fn try_new(
        frame: &Frame<'a>,
        keys: &[usize],
        condition: Option<&BoundPredicate>,
        kinds: &'a [StateKind],
    ) -> Result<Option<FusedSum<'a>>> {
        let (&[key], Some((part, _))) = (keys, frame.spans(0).next()) else { return Ok(None) };
        let condition = match condition {
            None => FusedFilter::All,
            Some(BoundPredicate::Value(column, ValuePredicate::Floats(low, high))) => {
                FusedFilter::Range { column: *column, low: *low, high: *high }
            }
            Some(BoundPredicate::Rows(rows)) => FusedFilter::RowSet(rows.clone()),
            Some(_) => return Ok(None),
        };
        let summed =
            kinds.iter().find_map(|kind| if let StateKind::Floats(column) = kind { Some(*column) } else { None });
        let Some(value) = summed else { return Ok(None) };
        let supported = [StateKind::RowCount, StateKind::Count(value), StateKind::Floats(value)];
        let array = frame.checked(part, key)?;
        if !kinds.iter().all(|kind| supported.contains(kind)) || !matches!(array.data_type(), DataType::Dictionary(..))
        {
            return Ok(None);
        }
        let dictionary = dictionary_of(array)?;
        if dictionary.len() > KEYS || !matches!(Keys::new(array), Keys::Bytes(_)) {
            return Ok(None);
        }
        let mut cells = Vec::with_capacity(dictionary.len());
        for key in 0..dictionary.len() {
            let cell = key_part(dictionary, key)?;
            if cells.contains(&cell) {
                // Two keys would be one group.
                return Ok(None);
            }
            cells.push(cell);
        }
        Ok(Some(FusedSum { key, dictionary, cells, condition, value, kinds }))
    }

    /// Returns the groups of a block, in order of their keys, and their states; `None` if a row needs the general path.
    /// Determines neither the groups of rows nor the first rows of groups.
    pub(super) fn aggregate_block(
        &self,
        frame: &Frame<'a>,
        block: usize,
    ) -> Result<Option<(Groups<'a>, Vec<GroupState<'a>>)>> {
        let mut sums: LaneSums = [[[0.0; 2]; LANES]; KEYS];
        let mut num_rows = 0;
        for (part, rows) in frame.spans(block) {
            let len = rows.len();
            let lane = num_rows % LANES;
            let Some(rows) = self.rows(frame, part, rows)? else { return Ok(None) };
            match &rows.included {
                FusedMask::All => add_all(rows.keys, rows.values, lane, &mut sums),
                FusedMask::Range(range) => add_in_range(rows.keys, rows.values, range, lane, &mut sums),
                FusedMask::Bits(mask) => add_masked(rows.keys, rows.values, mask, lane, &mut sums),
            }
            num_rows += len;
        }
        let mut used_keys = Vec::new();
        for (key, lanes) in sums.iter().enumerate() {
            if lanes.iter().any(|[_, count]| *count > 0.0) {
                if key >= self.cells.len() {
                    // A key outside the dictionary is an error, which the general path reports.
                    return Ok(None);
                }
                used_keys.push(key);
            }
        }
        Ok(Some(self.groups(&sums, &used_keys)))
    }

    /// Returns the groups of the keys `used_keys`, and their states.
    fn groups(&self, sums: &LaneSums, used_keys: &[usize]) -> (Groups<'a>, Vec<GroupState<'a>>) {
        let sums: Vec<NeumaierSum> = used_keys.iter().map(|&key| NeumaierSum::from_lanes(&sums[key])).collect();
        let mut states = Vec::with_capacity(self.kinds.len());
        for kind in self.kinds {
            states.push(match kind {
                StateKind::Floats(_) => GroupState::Floats(sums.clone()),
                _ => GroupState::Counts(sums.iter().map(|sum| sum.count).collect()),
            });
        }
        let cells = used_keys.iter().map(|&key| self.cells[key]).collect();
        let firsts = vec![0; used_keys.len()];
        (Groups { ids: Vec::new(), cells, width: 1, firsts, is_sparse: false }, states)
    }

    /// Returns the columns of some rows; `None` if they need the general path.
    fn rows(&self, frame: &Frame<'a>, part: usize, rows: Range<usize>) -> Result<Option<FusedRows<'a>>> {
        let keys = frame.checked(part, self.key)?;
        let Keys::Bytes(bytes) = Keys::new(keys) else { return Ok(None) };
        if has_nulls(keys)
            || !UncheckedArray::from_ref(dictionary_of(keys)?).is_same(UncheckedArray::from_ref(self.dictionary))
        {
            return Ok(None);
        }
        let Some(keys) = bytes.get(rows.clone()) else { return Ok(None) };
        let Some(values) = floats(frame.checked(part, self.value)?, &rows) else { return Ok(None) };
        let included = match &self.condition {
            FusedFilter::All => FusedMask::All,
            FusedFilter::Range { column, low, high } => {
                let Some(tested) = floats(frame.checked(part, *column)?, &rows) else { return Ok(None) };
                FusedMask::Range(RangeFilter { tested, low: *low, high: *high })
            }
            FusedFilter::RowSet(set) => {
                let start = frame.row_number(part, rows.start);
                FusedMask::Bits(set.mask(start..start + rows.len() as u64))
            }
        };
        Ok(Some(FusedRows { keys, values, included }))
    }
}

/// Returns the values of a column of floats without nulls; `None` for other columns.
fn floats<'a>(array: &'a ArrayData, rows: &Range<usize>) -> Option<&'a [Raw]> {
    if !matches!(array.data_type(), DataType::Float64) || has_nulls(array) {
        return None;
    }
    fixed_values(array).get(rows.clone())
}

fn has_nulls(array: &ArrayData) -> bool {
    array.nulls().is_some_and(|nulls| nulls.null_count() > 0)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_in_range(keys: &[[u8; 1]], values: &[Raw], range: &RangeFilter<'_>, lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, range);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_masked(keys: &[[u8; 1]], values: &[Raw], mask: &Mask, lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, mask);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_all(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, &AllRows);
}

/// Adds values to their keys' lanes, and zeros for excluded rows.
#[inline(always)]
fn add(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums, filter: &impl RowFilter) {
    debug_assert_eq!(keys.len(), values.len(), "each key has a value");
    // Runs begin with the first lane, so that the lane of each of their rows is a constant.
    let head = ((LANES - lane) % LANES).min(keys.len());
    let (head_keys, keys) = keys.split_at(head);
    let (head_values, values) = values.split_at(head);
    add_each(head_keys, head_values, lane, sums, |row| filter.includes(row));
    let (keys, tail_keys) = keys.as_chunks::<RUN>();
    let (values, tail_values) = values.as_chunks::<RUN>();
    let mut row = head;
    for (keys, values) in keys.iter().zip(values) {
        let flags = filter.includes_run(row);
        row += RUN;
        let mut numbers = [0.0; RUN];
        let mut ones = [0.0; RUN];
        for i in 0..RUN {
            numbers[i] = if flags[i] { f64::from_le_bytes(values[i]) } else { 0.0 };
            ones[i] = if flags[i] { 1.0 } else { 0.0 };
        }
        let differing_bits = keys.iter().fold(0, |bits, key| bits | (key[0] ^ keys[0][0]));
        match differing_bits {
            0 => add_run(&numbers, &ones, &mut sums[usize::from(keys[0][0])]),
            _ => add_mixed(keys, &numbers, &ones, sums),
        }
    }
    add_each(tail_keys, tail_values, 0, sums, |i| filter.includes(row + i));
}

/// Adds the values of a few rows, one by one.
#[inline(always)]
fn add_each(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums, includes: impl Fn(usize) -> bool) {
    for (row, (key, &raw)) in keys.iter().zip(values).enumerate() {
        let sum = &mut sums[usize::from(key[0])][(lane + row) % LANES];
        if includes(row) {
            *sum = [sum[0] + f64::from_le_bytes(raw), sum[1] + 1.0];
        }
    }
}

/// Adds rows of several keys.
#[inline(always)]
fn add_mixed(keys: &[[u8; 1]; RUN], numbers: &[f64; RUN], ones: &[f64; RUN], sums: &mut LaneSums) {
    for row in 0..RUN {
        let sum = &mut sums[usize::from(keys[row][0])][row % LANES];
        *sum = [sum[0] + numbers[row], sum[1] + ones[row]];
    }
}

/// Adds rows of one key: the lanes stay in registers.
#[inline(always)]
fn add_run(numbers: &[f64; RUN], ones: &[f64; RUN], sums: &mut [[f64; 2]; LANES]) {
    for (part, addends) in [numbers, ones].into_iter().enumerate() {
        let mut lanes = [0, 1, 2, 3].map(|lane: usize| sums[lane][part]);
        for step in addends.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                lanes[lane] += step[lane];
            }
        }
        for lane in 0..LANES {
            sums[lane][part] = lanes[lane];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::*;
    use proptest::prelude::*;

    use crate::{AggregateFunction, Aggregation, Dataset, col};

    const WORDS: [&str; 3] = ["fig", "pear", "a word of many letters"];

    /// Returns runs of rows with one key, as dictionary keys and as text, in batches that begin at `cuts`.
    fn dataset(runs: &[(u8, Option<f64>, usize)], cuts: &[usize]) -> Dataset {
        let rows =
            || runs.iter().flat_map(|&(key, x, count)| (0..count).map(move |i| (key % 3, x.map(|x| x + i as f64))));
        let words = Arc::new(StringArray::from(WORDS.to_vec()));
        let keys = rows().map(|(key, _)| Some(key as i8)).collect::<Int8Array>();
        let columns: [(&str, ArrayRef); 3] = [
            ("key", Arc::new(DictionaryArray::<Int8Type>::new(keys, words))),
            ("text", Arc::new(rows().map(|(key, _)| Some(WORDS[usize::from(key)])).collect::<StringArray>())),
            ("x", Arc::new(rows().map(|(_, x)| x).collect::<Float64Array>())),
        ];
        let all_rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let count = all_rows.num_rows();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (count + 1)).chain([0, count]).collect();
        ends.sort_unstable();
        let batches = ends.windows(2).map(|ends| all_rows.slice(ends[0], ends[1] - ends[0]));
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    fn cells(query: &Aggregation<'_>) -> Vec<Vec<String>> {
        let query = query
            .clone()
            .column_as("mean", "x", AggregateFunction::Mean)
            .column_as("n", "x", AggregateFunction::Count)
            .count_rows("rows");
        let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| format!("{:?}", value.unwrap())).collect();
        query.finish().unwrap().rows().map(|result| row(result.unwrap())).collect()
    }

    proptest! {
        /// Groups by text never use the fused loop.
        #[test]
        fn fused_sums_equal_grouped_sums_bit_for_bit(
            runs in prop::collection::vec(
                (any::<u8>(), prop::option::weighted(0.95, prop_oneof![-1e3..1e3f64, Just(f64::NAN)]), 0usize..400),
                0..80,
            ),
            cuts in prop::collection::vec(any::<usize>(), 0..5),
            limit in -1e3..1e3f64,
        ) {
            for with_nulls in [false, true] {
                let runs: Vec<_> = runs.iter().copied().filter(|run| with_nulls || run.1.is_some()).collect();
                let dataset = dataset(&runs, &cuts);
                for predicate in [None, Some(col("x").gt(limit)), Some(col("x").le(limit))] {
                    let [key, text] = ["key", "text"].map(|key| {
                        let query = dataset.aggregate(&[key]);
                        cells(&match &predicate { Some(predicate) => query.filter(predicate.clone()), None => query })
                    });
                    prop_assert_eq!(key, text);
                }
            }
        }
    }
}
