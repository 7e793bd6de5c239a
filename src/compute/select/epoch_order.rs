//! Rows for training: in an order that is computed, copied side by side.

use std::ops::Range;

use super::permutation::Permutation;
use super::random::mix;
use super::take::RowSelection;
use crate::compute::frame::Frame;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::{ChangeCheck, GrowableBuffer};

/// Blocks whose rows are mixed.
const MIXED: u64 = 16;

/// The order in which the rows of an epoch come. It takes no memory, and depends on nothing but what it is made of.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    rows: u64,
    how: ShuffleMode,
}

#[derive(Clone, Debug)]
enum ShuffleMode {
    InOrder,
    Shuffled(Permutation),
    /// Blocks of so many rows in a random order; rows are mixed with those of the blocks next to them in it.
    Blocks {
        size: u64,
        blocks: Permutation,
        seed: u64,
    },
}

impl EpochOrder {
    /// `rows` rows as they stand.
    pub fn in_order(rows: u64) -> EpochOrder {
        EpochOrder { rows, how: ShuffleMode::InOrder }
    }

    /// `rows` rows shuffled: another order for each seed and epoch.
    pub fn shuffled(rows: u64, seed: u64, epoch: u64) -> EpochOrder {
        EpochOrder { rows, how: ShuffleMode::Shuffled(Permutation::new(rows, keyed(seed, epoch))) }
    }

    /// Blocks of `size` rows shuffled, and the rows of every 16 blocks that come after each other: of a file that is not
    /// in memory, blocks are read as a whole. The rows after the last whole block come last.
    ///
    /// # Errors
    /// `InvalidArgument` for blocks of no rows.
    pub fn shuffled_blocks(rows: u64, size: u64, seed: u64, epoch: u64) -> Result<EpochOrder> {
        if size == 0 {
            return Err(Error::invalid_argument("blocks to shuffle must have a row or more"));
        }
        let seed = keyed(seed, epoch);
        let blocks = Permutation::new(rows / size, mix(seed));
        Ok(EpochOrder { rows, how: ShuffleMode::Blocks { size, blocks, seed } })
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The numbers of the rows at `places`; of those that there are.
    pub fn rows(&self, places: Range<u64>) -> Vec<u64> {
        let places = places.start.min(self.rows)..places.end.min(self.rows);
        match &self.how {
            ShuffleMode::InOrder => places.collect(),
            ShuffleMode::Shuffled(order) => places.map(|at| order.get(at)).collect(),
            ShuffleMode::Blocks { size, blocks, seed } => {
                let mut group = ShuffleWindow::for_position(0, self.rows, *size, *seed);
                let mut row = |at: u64| {
                    if !group.places.contains(&at) {
                        group = ShuffleWindow::for_position(at, self.rows, *size, *seed);
                    }
                    let place = group.places.start + group.order.get(at - group.places.start);
                    let block = place / size;
                    // The rows of no whole block stay behind all others.
                    if block < self.rows / size { blocks.get(block) * size + place % size } else { place }
                };
                places.map(&mut row).collect()
            }
        }
    }
}

/// Places whose rows are mixed with each other.
struct ShuffleWindow {
    places: Range<u64>,
    order: Permutation,
}

impl ShuffleWindow {
    /// The group of place `at`.
    fn for_position(at: u64, rows: u64, size: u64, seed: u64) -> ShuffleWindow {
        let whole = rows / size * size;
        let places = if at < whole {
            let len = size.saturating_mul(MIXED);
            let start = at / len * len;
            start..start.saturating_add(len).min(whole)
        } else {
            whole..rows
        };
        let order = Permutation::new(places.end - places.start, keyed(seed, places.start));
        ShuffleWindow { places, order }
    }
}

fn keyed(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number))
}

/// Rows that are copied side by side, with the numbers that they have behind views.
#[derive(Debug)]
pub struct GatheredRows {
    /// For each column its values, `None` where they need more than copying: nulls, text, compressed files.
    pub blocks: Vec<Option<GrowableBuffer>>,
    /// The columns without a block, as [`Dataset::take`] gives them.
    pub rest: Dataset,
}

impl Dataset {
    /// Rows `rows` of all columns: numbers, and lists of one length of numbers, side by side in memory that nobody else
    /// has, and other columns as a dataset.
    ///
    /// # Errors
    /// `RowOutOfRange`; those of [`Dataset::take`].
    pub fn gather(&self, rows: &[u64]) -> Result<GatheredRows> {
        self.with_change_check(ChangeCheck::Seldom, || {
            let len = self.len()?;
            if let Some(&row) = rows.iter().find(|&&row| row >= len) {
                return Err(self.row_out_of_range(row));
            }
            let (dataset, found) = self.behind(rows.to_vec())?;
            let frame = Frame::try_new(&dataset)?;
            let picked = RowSelection::from_rows(&frame, found.iter().copied());
            let plains = picked.fixed_width_columns(&frame, dataset.schema(), None)?;
            let blocks = (0..self.num_columns()).map(|column| picked.block(&plains, column));
            let blocks = blocks.collect::<Result<Vec<_>>>()?;
            let rest: Vec<usize> = (0..blocks.len()).filter(|&column| blocks[column].is_none()).collect();
            let rest = self.select_at(&rest)?;
            let signed: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
            let rest = if rest.num_columns() == 0 { rest.slice(0, 0)? } else { rest.take(&signed)? };
            Ok(GatheredRows { blocks, rest })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: &EpochOrder, batch: usize) -> Vec<u64> {
        (0..order.len()).step_by(batch).flat_map(|at| order.rows(at..at + batch as u64)).collect()
    }

    #[test]
    fn every_row_comes_once_however_batches_are_cut() {
        for rows in [0, 1, 7, 1_000, 4_097] {
            let orders = |epoch| {
                [
                    EpochOrder::in_order(rows),
                    EpochOrder::shuffled(rows, 3, epoch),
                    EpochOrder::shuffled_blocks(rows, 10, 3, epoch).unwrap(),
                    EpochOrder::shuffled_blocks(rows, 5_000, 3, epoch).unwrap(),
                ]
            };
            for (order, next) in orders(0).iter().zip(&orders(1)) {
                let found = all(order, 256);
                assert_eq!(found, all(order, 3));
                let mut sorted = found.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..rows), "{order:?}");
                if rows > 100 && !matches!(order.how, ShuffleMode::InOrder) {
                    assert_ne!(found, all(next, 256), "each epoch has its own order");
                    assert_ne!(found, (0..rows).collect::<Vec<_>>());
                }
            }
        }
        assert!(EpochOrder::shuffled_blocks(10, 0, 0, 0).is_err());
    }

    #[test]
    fn a_batch_comes_of_few_blocks() {
        let order = EpochOrder::shuffled_blocks(1_000_000, 100, 1, 0).unwrap();
        let blocks: std::collections::HashSet<u64> = order.rows(3_200..4_800).iter().map(|row| row / 100).collect();
        assert_eq!(blocks.len(), 16);
    }
}
