//! Stores a set of a dataset's rows, such as the rows that satisfy a condition, in blocks: few rows as their numbers,
//! many as bits.

use std::ops::Range;

use super::mask::Mask;
use crate::compute::scan::{BLOCK, Frame, RowRanks};
use crate::error::Result;
use crate::parallel;

/// The maximum number of rows of a block that are stored as numbers. So many numbers take as many bytes as a bit for
/// each row of the block.
const MAX_NUMBERS: usize = BLOCK / u16::BITS as usize;
/// The numbers of a block's rows fit into 16 bits.
const _: () = assert!(BLOCK <= 1 << u16::BITS);

/// A set of a dataset's rows. A row is known by its number in the dataset, or by its number in the set, which is its
/// rank among the rows of the set.
#[derive(Debug)]
pub(in crate::compute) struct RowSet {
    /// The rows of each block of [`BLOCK`] rows of the dataset.
    blocks: Vec<BlockSet>,
    /// The number of rows of the set up to the end of each block.
    ends: Vec<u64>,
}

/// The rows of one block that are in the set.
#[derive(Debug)]
enum BlockSet {
    /// The numbers of the rows in the block, in order.
    Numbers(Vec<u16>),
    Bits(Mask),
}

impl BlockSet {
    /// Stores the rows whose bits are set, in the form that takes fewer bytes.
    fn from_mask(mask: Mask) -> BlockSet {
        if mask.count() <= MAX_NUMBERS {
            BlockSet::Numbers(mask.rows().map(|row| row as u16).collect())
        } else {
            BlockSet::Bits(mask)
        }
    }

    /// Returns the number of rows.
    fn count(&self) -> usize {
        match self {
            BlockSet::Numbers(rows) => rows.len(),
            BlockSet::Bits(mask) => mask.count(),
        }
    }

    /// Returns a bit for each of `rows`.
    fn mask(&self, rows: Range<usize>) -> Mask {
        match self {
            BlockSet::Bits(mask) => mask.slice(rows),
            BlockSet::Numbers(numbers) => {
                let mut mask = Mask::all(rows.len(), false);
                for &row in &numbers[self.count_before(rows.start)..self.count_before(rows.end)] {
                    mask.set(usize::from(row) - rows.start);
                }
                mask
            }
        }
    }

    /// Returns the number of rows of the set before row `row`.
    fn count_before(&self, row: usize) -> usize {
        match self {
            BlockSet::Numbers(numbers) => numbers.partition_point(|&number| usize::from(number) < row),
            BlockSet::Bits(mask) => mask.count_before(row),
        }
    }

    /// Returns row number `number` of the set; `None` past the last.
    fn get(&self, number: usize) -> Option<usize> {
        match self {
            BlockSet::Numbers(numbers) => numbers.get(number).map(|&row| row.into()),
            BlockSet::Bits(mask) => mask.nth(number),
        }
    }

    /// Returns the rows in order.
    fn rows(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            BlockSet::Numbers(numbers) => Box::new(numbers.iter().map(|&row| row.into())),
            BlockSet::Bits(mask) => Box::new(mask.rows()),
        }
    }
}

impl RowSet {
    /// Builds the set of the rows whose bits are set. `mask` returns the bits of a range of rows of a batch.
    pub(in crate::compute) fn build(
        frame: &Frame<'_>,
        mask: impl Fn(usize, &Range<usize>) -> Result<Mask> + Sync,
    ) -> Result<RowSet> {
        assert!(frame.block_rows() == BLOCK, "blocks of {} rows", frame.block_rows());
        let bytes = usize::try_from(frame.num_rows()).unwrap_or(usize::MAX).saturating_mul(8);
        let blocks = parallel::map(frame.num_blocks(), bytes, |block| {
            let mut block_mask: Option<Mask> = None;
            for (part, rows) in frame.spans(block) {
                let mask = mask(part, &rows)?;
                assert!(mask.len() == rows.len(), "{} bits for {} rows", mask.len(), rows.len());
                match &mut block_mask {
                    None => block_mask = Some(mask),
                    Some(block_mask) => block_mask.append(&mask),
                }
            }
            Ok(BlockSet::from_mask(block_mask.unwrap_or_else(|| Mask::all(0, false))))
        });
        Ok(RowSet::from_blocks(blocks.into_iter().collect::<Result<_>>()?))
    }

    fn from_blocks(blocks: Vec<BlockSet>) -> RowSet {
        let mut ends = Vec::with_capacity(blocks.len());
        let mut end = 0;
        for block in &blocks {
            end += block.count() as u64;
            ends.push(end);
        }
        RowSet { blocks, ends }
    }

    /// Returns the rows of this set whose numbers in the set are in `numbers`.
    pub(in crate::compute) fn subset(&self, numbers: &RowSet) -> RowSet {
        let mut blocks = Vec::with_capacity(self.blocks.len());
        // The number in the set of the next row.
        let mut next = 0;
        for (block, &end) in self.blocks.iter().zip(&self.ends) {
            let mut rows = block.rows();
            let mut mask = Mask::all(BLOCK, false);
            // The numbers of a block's rows may be in several blocks of `numbers`.
            while next < end {
                let numbers_block = next / BLOCK as u64;
                let first = (next % BLOCK as u64) as usize;
                let last = (end - numbers_block * BLOCK as u64).min(BLOCK as u64) as usize;
                let is_in_subset = numbers.mask(next..next + (last - first) as u64);
                for (number, row) in rows.by_ref().take(last - first).enumerate() {
                    if is_in_subset.is_set(number) {
                        mask.set(row);
                    }
                }
                next += (last - first) as u64;
            }
            assert!(rows.next().is_none(), "a block has more rows than were counted");
            blocks.push(BlockSet::from_mask(mask));
        }
        RowSet::from_blocks(blocks)
    }

    /// Returns the number of rows in the set.
    pub(in crate::compute) fn len(&self) -> u64 {
        self.before_block(self.blocks.len())
    }

    /// Returns the number of rows of the set before block `block`.
    pub(in crate::compute) fn before_block(&self, block: usize) -> u64 {
        debug_assert_eq!(self.blocks.len(), self.ends.len());
        match block.min(self.ends.len()) {
            0 => 0,
            block => self.ends[block - 1],
        }
    }

    /// Returns the dataset's row with number `number` in the set.
    pub(in crate::compute) fn get(&self, number: u64) -> Option<u64> {
        let block = self.ends.partition_point(|&end| end <= number);
        let row = self.blocks.get(block)?.get((number - self.before_block(block)) as usize)?;
        Some(block as u64 * BLOCK as u64 + row as u64)
    }

    /// Returns a bit for each of the dataset's rows `rows`.
    pub(in crate::compute) fn mask(&self, rows: Range<u64>) -> Mask {
        let mut mask: Option<Mask> = None;
        let mut row = rows.start;
        while row < rows.end {
            let block = row / BLOCK as u64;
            let first = (row % BLOCK as u64) as usize;
            let last = (rows.end - block * BLOCK as u64).min(BLOCK as u64) as usize;
            let block_mask = match self.blocks.get(block as usize) {
                Some(block) => block.mask(first..last),
                None => Mask::all(last - first, false),
            };
            row += (last - first) as u64;
            match &mut mask {
                None => mask = Some(block_mask),
                Some(mask) => mask.append(&block_mask),
            }
        }
        mask.unwrap_or_else(|| Mask::all(0, false))
    }
}

impl RowRanks for RowSet {
    fn rank(&self, row: u64) -> u64 {
        let number = (row / BLOCK as u64) as usize;
        match self.blocks.get(number) {
            Some(block) => self.before_block(number) + block.count_before((row % BLOCK as u64) as usize) as u64,
            None => self.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
    use proptest::prelude::*;

    use super::*;
    use crate::{AggregateFunction, Dataset, col};

    /// Returns rows in batches of `batch` rows, with numbers and texts that depend on the row.
    fn dataset(flags: &[bool], batch: usize) -> Dataset {
        let numbers = |step: usize| (0..flags.len()).map(move |row| (row * 7919 % 1009 / step) as i64);
        let columns: [(&str, ArrayRef); 5] = [
            ("flag", Arc::new(BooleanArray::from(flags.to_vec()))),
            ("row", Arc::new(Int64Array::from_iter_values(0..flags.len() as i64))),
            ("n", Arc::new(numbers(1).map(|n| (n % 11 > 0).then_some(n)).collect::<Int64Array>())),
            ("x", Arc::new(numbers(1).map(|n| Some(n as f64 / 3.0)).collect::<Float64Array>())),
            ("text", Arc::new(numbers(100).map(|n| Some(format!("name {n}"))).collect::<StringArray>())),
        ];
        let all_rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let batches = (0..flags.len()).step_by(batch).map(|at| all_rows.slice(at, batch.min(flags.len() - at)));
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    /// Generates flags in runs, over several blocks: sparse, dense and all alike.
    fn flags() -> impl Strategy<Value = Vec<bool>> {
        let run = (prop_oneof![1usize..100, 20_000usize..70_000], 0u32..5).prop_map(|(len, kind)| {
            (0..len).map(move |row| match kind {
                0 => false,
                1 => true,
                2 => row % 1000 == 7,
                3 => row % 3 == 1,
                _ => row % 64 < 50,
            })
        });
        prop::collection::vec(run, 1..8).prop_map(|runs| runs.into_iter().flatten().collect())
    }

    fn cells(dataset: &Dataset) -> Vec<Vec<String>> {
        let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| format!("{:?}", value.unwrap())).collect();
        dataset.rows().map(|found| row(found.unwrap())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn sets_equal_a_naive_list(
            flags in flags(),
            others in flags(),
            batch in prop_oneof![1000usize..9999, Just(1 << 20)],
        ) {
            let dataset = dataset(&flags, batch);
            let frame = Frame::try_new(&dataset).unwrap();
            let naive: Vec<u64> = (0..flags.len() as u64).filter(|&row| flags[row as usize]).collect();
            let set = RowSet::build(&frame, |part, rows| {
                let start = frame.row_number(part, rows.start) as usize;
                Ok(Mask::collect(rows.len(), |row| flags[start + row]))
            }).unwrap();
            prop_assert_eq!(set.len(), naive.len() as u64);
            let sampled: Vec<u64> = (0..set.len()).step_by(97).map(|number| set.get(number).unwrap()).collect();
            prop_assert_eq!(sampled, naive.iter().copied().step_by(97).collect::<Vec<_>>());
            prop_assert_eq!(set.get(set.len()), None);
            for (number, &row) in naive.iter().enumerate().step_by(89) {
                prop_assert_eq!(set.rank(row), number as u64);
            }
            for start in (0..flags.len()).step_by(31_337) {
                let end = flags.len().min(start + 100_003);
                let expected = Mask::collect(end - start, |row| flags[start + row]);
                prop_assert_eq!(set.mask(start as u64..end as u64), expected);
            }

            // A subset of the set.
            let numbers = |part: usize, rows: &Range<usize>| {
                let start = frame.row_number(part, rows.start) as usize;
                Ok(Mask::collect(rows.len(), |row| start + row < naive.len() && others.get(start + row) == Some(&true)))
            };
            let some = set.subset(&RowSet::build(&frame, numbers).unwrap());
            let rows_in_both = naive.iter().zip(&others).filter(|(_, is_in)| **is_in);
            let expected: Vec<u64> = rows_in_both.map(|(row, _)| *row).collect();
            prop_assert_eq!((0..some.len()).map(|number| some.get(number).unwrap()).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn groups_of_found_rows_equal_groups_of_a_condition(
            flags in flags(), batch in prop_oneof![1000usize..9999, Just(1 << 20)], limit in 0i64..1100,
        ) {
            let dataset = dataset(&flags, batch);
            let (flag, number) = (|| col("flag").eq(true), || col("n").lt(limit));
            let filtered = dataset.filter(&flag()).unwrap();
            let twice = filtered.filter(&number()).unwrap();
            let copied = Dataset::try_from(twice.to_record_batches().map(Result::unwrap).collect::<Vec<_>>());
            prop_assert_eq!(cells(&twice), cells(&dataset.filter(&(flag() & number())).unwrap()));
            prop_assert_eq!(copied.map_or(0, |copied| copied.len().unwrap()), twice.len().unwrap());
            for by in [&["text"][..], &["n"], &["text", "flag"], &[]] {
                let ask = |dataset: &Dataset, condition: Option<crate::Predicate>| {
                    let aggregation = dataset
                        .aggregate(by)
                        .count_rows("rows")
                        .column_as("mean", "x", AggregateFunction::Mean)
                        .column_as("least", "text", AggregateFunction::Min)
                        .column_as("first", "row", AggregateFunction::First)
                        .column_as("distinct", "n", AggregateFunction::NUnique)
                        .column_as("var", "x", AggregateFunction::Var)
                        .expression_as("double", col("row") * 2, AggregateFunction::Sum);
                    let aggregation = condition.into_iter().fold(aggregation, crate::Aggregation::filter);
                    cells(&aggregation.finish().unwrap())
                };
                prop_assert_eq!(ask(&filtered, None), ask(&dataset, Some(flag())));
                prop_assert_eq!(ask(&filtered, Some(number())), ask(&dataset, Some(flag() & number())));
                prop_assert_eq!(ask(&twice, None), ask(&dataset, Some(flag() & number())));
            }
        }

        #[test]
        fn found_rows_are_equal_in_all_ways_of_reading(
            flags in flags(),
            batch in prop_oneof![1000usize..9999, Just(1 << 20)],
        ) {
            let dataset = dataset(&flags, batch);
            let filter_rows = || dataset.filter(&col("flag").eq(true)).unwrap();
            let naive: Vec<i64> = (0..flags.len() as i64).filter(|&row| flags[row as usize]).collect();
            let rows = filter_rows();
            prop_assert_eq!(rows.len().unwrap(), naive.len() as u64);
            prop_assert_eq!(rows.is_empty().unwrap(), naive.is_empty());
            rows.validate(|_, _| ()).unwrap();
            let number = |row: crate::Row<'_>| row.get(1).unwrap().to_string().parse::<i64>().unwrap();
            prop_assert_eq!(rows.rows().map(|row| number(row.unwrap())).collect::<Vec<_>>(), naive.clone());
            // Single rows are read before columns are copied.
            let single = filter_rows();
            for place in (0..naive.len()).step_by(1009) {
                prop_assert_eq!(number(single.row(place as u64).unwrap()), naive[place]);
                prop_assert_eq!(number(single.row_from_end(place as u64 + 1).unwrap()), naive[naive.len() - 1 - place]);
            }
            prop_assert!(single.row(naive.len() as u64).is_err());
            let (start, len) = (naive.len() as u64 / 3, naive.len() as u64 / 2);
            let part = filter_rows().slice(start, len).unwrap();
            let expected = &naive[start as usize..(start + len) as usize];
            prop_assert_eq!(part.rows().map(|row| number(row.unwrap())).collect::<Vec<_>>(), expected);
            let groups = part.aggregate(&["row"]).finish().unwrap();
            prop_assert_eq!(groups.len().unwrap(), len);
            let places: Vec<i64> = (0..naive.len() as i64).step_by(501).collect();
            let taken = filter_rows().take(&places).unwrap();
            let expected: Vec<i64> = places.iter().map(|&row| naive[row as usize]).collect();
            prop_assert_eq!(taken.rows().map(|row| number(row.unwrap())).collect::<Vec<_>>(), expected);
            let batches = filter_rows().to_record_batches().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
            prop_assert_eq!(batches, naive.len());
        }
    }

    #[test]
    fn errors_about_found_rows_count_from_the_first_found_row() {
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values([0, 5, 1, 6, i64::MAX, 2]));
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n)]).unwrap()]).unwrap();
        let doubled = |dataset: &Dataset| {
            let aggregation =
                dataset.aggregate::<&str>(&[]).expression_as("double", col("n") * 2, AggregateFunction::Sum);
            aggregation.finish().map(|_| ()).unwrap_err().to_string()
        };
        let filtered = dataset.filter(&col("n").gt(4)).unwrap();
        assert!(doubled(&dataset).contains("in row 4;"), "{}", doubled(&dataset));
        assert!(doubled(&filtered).contains("in row 2;"), "{}", doubled(&filtered));
    }
}
