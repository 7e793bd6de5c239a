//! Sums of floats by the keys of one small dictionary, including the filter, in one loop over the rows: no masks, no
//! group numbers; only the sums are written. They equal those of [`GroupState`] bit for bit, so that any block may use
//! either.

use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use multiversion::multiversion;

use super::groups::{Groups, key_part};
use super::interner::KeyPart;
use super::state::{GroupState, NeumaierSum, StateKind};
use crate::array::UncheckedArray;
use crate::array::access::{Keys, dictionary_of, fixed_values};
use crate::compute::frame::Frame;
use crate::compute::reduce::LANES;
use crate::compute::select::{BoundPredicate, Mask, RowSet, ValuePredicate};
use crate::error::Result;

/// The number of keys that fit into a byte.
const KEYS: usize = 256;
/// Rows tested together for having one key.
const RUN: usize = 32;

/// Sum and count of each lane of each key.
type LaneSums = [[[f64; 2]; LANES]; KEYS];
type Raw = [u8; 8];

/// A query of this kind.
pub(super) struct FusedSum<'a> {
    key: usize,
    dictionary: &'a ArrayData,
    cells: Vec<KeyPart<'a>>,
    condition: FusedFilter,
    /// The column that is summed.
    value: usize,
    kinds: &'a [StateKind],
}

/// The rows that are looked at.
enum FusedFilter {
    All,
    /// The column whose floats lie between two others.
    Range(usize, f64, f64),
    RowSet(Arc<RowSet>),
}

/// The columns of some rows.
struct FusedRows<'a> {
    keys: &'a [[u8; 1]],
    values: &'a [Raw],
    wanted: FusedMask<'a>,
}

/// Which of them are looked at.
enum FusedMask<'a> {
    All,
    Range(RangeFilter<'a>),
    Bits(Mask),
}

/// Tells which rows are looked at.
trait RowFilter {
    fn is_wanted(&self, row: usize) -> bool;

    /// The same of the rows from `first` on.
    fn run(&self, first: usize) -> [bool; RUN];
}

/// All rows.
struct AllRows;

impl RowFilter for AllRows {
    #[inline(always)]
    fn is_wanted(&self, _row: usize) -> bool {
        true
    }

    #[inline(always)]
    fn run(&self, _first: usize) -> [bool; RUN] {
        [true; RUN]
    }
}

/// Rows with a float between two others.
struct RangeFilter<'a> {
    tested: &'a [Raw],
    low: f64,
    high: f64,
}

impl RangeFilter<'_> {
    #[inline(always)]
    fn holds(&self, raw: Raw) -> bool {
        let number = f64::from_le_bytes(raw);
        (number >= self.low) & (number <= self.high)
    }
}

impl RowFilter for RangeFilter<'_> {
    #[inline(always)]
    fn is_wanted(&self, row: usize) -> bool {
        self.tested.get(row).is_some_and(|&raw| self.holds(raw))
    }

    #[inline(always)]
    fn run(&self, first: usize) -> [bool; RUN] {
        match self.tested.get(first..).and_then(|rest| rest.first_chunk::<RUN>()) {
            Some(raws) => raws.map(|raw| self.holds(raw)),
            None => [false; RUN],
        }
    }
}

impl RowFilter for Mask {
    #[inline(always)]
    fn is_wanted(&self, row: usize) -> bool {
        self.is_set(row)
    }

    #[inline(always)]
    fn run(&self, first: usize) -> [bool; RUN] {
        let (at, shift) = (first / 64, first % 64);
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        let bits = (u128::from(word(at)) | u128::from(word(at + 1)) << 64) >> shift;
        std::array::from_fn(|row| bits as u32 >> row & 1 == 1)
    }
}

impl<'a> FusedSum<'a> {
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
                FusedFilter::Range(*column, *low, *high)
            }
            Some(BoundPredicate::Rows(rows)) => FusedFilter::RowSet(rows.clone()),
            Some(_) => return Ok(None),
        };
        let value =
            kinds.iter().find_map(|kind| if let StateKind::Floats(column) = kind { Some(*column) } else { None });
        let Some(value) = value else { return Ok(None) };
        let is_known = |kind: &StateKind| {
            matches!(kind, StateKind::RowCount) || [StateKind::Count(value), StateKind::Floats(value)].contains(kind)
        };
        let array = frame.checked(part, key)?;
        if !kinds.iter().all(is_known) || !matches!(array.data_type(), DataType::Dictionary(..)) {
            return Ok(None);
        }
        let dictionary = dictionary_of(array)?;
        if dictionary.len() > KEYS || !matches!(Keys::new(array), Keys::Bytes(_)) {
            return Ok(None);
        }
        let cells = (0..dictionary.len()).map(|key| key_part(dictionary, key)).collect::<Result<Vec<_>>>()?;
        let is_twice = (1..cells.len()).any(|key| cells[..key].contains(&cells[key]));
        Ok((!is_twice).then_some(FusedSum { key, dictionary, cells, condition, value, kinds }))
    }

    /// The groups of a block, in order of their keys, and their states; `None` if a row needs the general path. The
    /// rows' groups and the groups' first rows are not determined.
    pub(super) fn block(&self, frame: &Frame<'a>, block: usize) -> Result<Option<(Groups<'a>, Vec<GroupState<'a>>)>> {
        let mut sums: LaneSums = [[[0.0; 2]; LANES]; KEYS];
        let mut at = 0;
        for (part, rows) in frame.spans(block) {
            let len = rows.len();
            let Some(rows) = self.rows(frame, part, rows)? else { return Ok(None) };
            match &rows.wanted {
                FusedMask::All => add_all(rows.keys, rows.values, at % LANES, &mut sums),
                FusedMask::Range(range) => add_tested(rows.keys, rows.values, range, at % LANES, &mut sums),
                FusedMask::Bits(mask) => add_known(rows.keys, rows.values, mask, at % LANES, &mut sums),
            }
            at += len;
        }
        // A key outside the dictionary is an error, which the general path reports.
        let is_used = |key: usize| sums[key].iter().any(|lane| lane[1] > 0.0);
        let used: Vec<usize> = (0..KEYS).filter(|&key| is_used(key)).collect();
        Ok(used.iter().all(|&key| key < self.cells.len()).then(|| self.outcome(&sums, &used)))
    }

    fn outcome(&self, sums: &LaneSums, used: &[usize]) -> (Groups<'a>, Vec<GroupState<'a>>) {
        let sums: Vec<NeumaierSum> = used.iter().map(|&key| NeumaierSum::from_lanes(&sums[key])).collect();
        let state = |kind: &StateKind| match kind {
            StateKind::Floats(_) => GroupState::Floats(sums.clone()),
            _ => GroupState::Counts(sums.iter().map(|sum| sum.count).collect()),
        };
        let cells = used.iter().map(|&key| self.cells[key]).collect();
        let firsts = vec![0; used.len()];
        let groups = Groups { ids: Vec::new(), cells, width: 1, firsts, is_sparse: false };
        (groups, self.kinds.iter().map(state).collect())
    }

    fn rows(&self, frame: &Frame<'a>, part: usize, rows: std::ops::Range<usize>) -> Result<Option<FusedRows<'a>>> {
        let keys = frame.checked(part, self.key)?;
        let Keys::Bytes(bytes) = Keys::new(keys) else { return Ok(None) };
        if has_nulls(keys)
            || !UncheckedArray::from_ref(dictionary_of(keys)?).is_same(UncheckedArray::from_ref(self.dictionary))
        {
            return Ok(None);
        }
        let floats = |column: usize| -> Result<Option<&'a [Raw]>> {
            let array = frame.checked(part, column)?;
            let is_plain = matches!(array.data_type(), DataType::Float64) && !has_nulls(array);
            Ok(if is_plain { fixed_values(array).get(rows.clone()) } else { None })
        };
        let (Some(keys), Some(values)) = (bytes.get(rows.clone()), floats(self.value)?) else { return Ok(None) };
        let wanted = match &self.condition {
            FusedFilter::All => FusedMask::All,
            FusedFilter::Range(column, low, high) => {
                let Some(tested) = floats(*column)? else { return Ok(None) };
                FusedMask::Range(RangeFilter { tested, low: *low, high: *high })
            }
            FusedFilter::RowSet(set) => {
                let start = frame.row_number(part, rows.start);
                FusedMask::Bits(set.mask(start..start + rows.len() as u64))
            }
        };
        Ok(Some(FusedRows { keys, values, wanted }))
    }
}

fn has_nulls(array: &ArrayData) -> bool {
    array.nulls().is_some_and(|nulls| nulls.null_count() > 0)
}

/// Adds the values of rows in a range.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_tested(keys: &[[u8; 1]], values: &[Raw], range: &RangeFilter<'_>, lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, range);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_known(keys: &[[u8; 1]], values: &[Raw], mask: &Mask, lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, mask);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_all(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums) {
    add(keys, values, lane, sums, &AllRows);
}

/// Adds values to their keys' lanes, zeros for excluded ones.
#[inline(always)]
fn add(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums, wanted: &impl RowFilter) {
    // Starts at the first lane, so that the lanes of each step are known.
    let head = ((LANES - lane) % LANES).min(keys.len());
    let (first, keys) = keys.split_at(head);
    let (before, values) = values.split_at(head);
    add_each(first, before, lane, sums, |row| wanted.is_wanted(row));
    let (keys, last) = keys.as_chunks::<RUN>();
    let (values, after) = values.as_chunks::<RUN>();
    let mut at = head;
    for (keys, values) in keys.iter().zip(values) {
        let flags = wanted.run(at);
        at += RUN;
        let mut numbers = [0.0; RUN];
        let mut ones = [0.0; RUN];
        for row in 0..RUN {
            numbers[row] = if flags[row] { f64::from_le_bytes(values[row]) } else { 0.0 };
            ones[row] = if flags[row] { 1.0 } else { 0.0 };
        }
        let differ = keys.iter().fold(0, |differ, key| differ | (key[0] ^ keys[0][0]));
        match differ {
            0 => add_run(&numbers, &ones, &mut sums[usize::from(keys[0][0])]),
            _ => add_steps(keys, &numbers, &ones, sums),
        }
    }
    add_each(last, after, 0, sums, |row| wanted.is_wanted(at + row));
}

#[inline(always)]
fn add_each(keys: &[[u8; 1]], values: &[Raw], lane: usize, sums: &mut LaneSums, is_wanted: impl Fn(usize) -> bool) {
    for (row, (key, &raw)) in keys.iter().zip(values).enumerate() {
        let sum = &mut sums[usize::from(key[0])][(lane + row) % LANES];
        if is_wanted(row) {
            *sum = [sum[0] + f64::from_le_bytes(raw), sum[1] + 1.0];
        }
    }
}

#[inline(always)]
fn add_steps(keys: &[[u8; 1]; RUN], numbers: &[f64; RUN], ones: &[f64; RUN], sums: &mut LaneSums) {
    for row in 0..RUN {
        let sum = &mut sums[usize::from(keys[row][0])][row % LANES];
        *sum = [sum[0] + numbers[row], sum[1] + ones[row]];
    }
}

/// Rows of one key: the lanes stay in registers.
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

    /// Runs of rows with one key, as dictionary keys and as text, in batches that begin at `cuts`.
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
        let whole = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let count = whole.num_rows();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (count + 1)).chain([0, count]).collect();
        ends.sort_unstable();
        let batches = ends.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0]));
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    fn cells(asked: &Aggregation<'_>) -> Vec<Vec<String>> {
        let asked = asked
            .clone()
            .column_as("mean", "x", AggregateFunction::Mean)
            .column_as("n", "x", AggregateFunction::Count)
            .count_rows("rows");
        let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| format!("{:?}", value.unwrap())).collect();
        asked.finish().unwrap().rows().map(|found| row(found.unwrap())).collect()
    }

    proptest! {
        /// Text is never done this way.
        #[test]
        fn fused_sums_are_those_of_groups_bit_for_bit(
            runs in prop::collection::vec(
                (any::<u8>(), prop::option::weighted(0.95, prop_oneof![-1e3..1e3f64, Just(f64::NAN)]), 0usize..400), 0..80,
            ),
            cuts in prop::collection::vec(any::<usize>(), 0..5),
            limit in -1e3..1e3f64,
        ) {
            for with_nulls in [false, true] {
                let runs: Vec<_> = runs.iter().copied().filter(|run| with_nulls || run.1.is_some()).collect();
                let dataset = dataset(&runs, &cuts);
                for predicate in [None, Some(col("x").gt(limit)), Some(col("x").le(limit))] {
                    let [key, text] = ["key", "text"].map(|key| {
                        let asked = dataset.aggregate(&[key]);
                        cells(&match &predicate { Some(predicate) => asked.filter(predicate.clone()), None => asked })
                    });
                    prop_assert_eq!(key, text);
                }
            }
        }
    }
}
