//! Orders rows for training: the order is computed, not stored.

use std::ops::Range;

use super::generator::mix;
use super::permutation::Permutation;
use crate::error::{Error, Result};

/// The number of consecutive blocks of an order whose rows are mixed with each other.
const MIXED_BLOCKS: u64 = 16;

/// The order in which the rows of an epoch come.
///
/// It takes no memory, and depends on nothing but its arguments.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    rows: u64,
    mode: ShuffleMode,
}

/// How an order is made.
#[derive(Clone, Debug)]
enum ShuffleMode {
    InOrder,
    /// Any row may be at any position.
    Shuffled(Permutation),
    /// Blocks of rows in a random order. Rows are mixed with the rows of the blocks next to them in it.
    Blocks {
        /// The number of rows of a block.
        size: u64,
        blocks: Permutation,
        seed: u64,
    },
}

impl EpochOrder {
    /// Creates the order in which `rows` rows are stored.
    pub fn in_order(rows: u64) -> EpochOrder {
        EpochOrder { rows, mode: ShuffleMode::InOrder }
    }

    /// Creates a random order of `rows` rows, another one for each seed and epoch.
    pub fn shuffled(rows: u64, seed: u64, epoch: u64) -> EpochOrder {
        EpochOrder { rows, mode: ShuffleMode::Shuffled(Permutation::new(rows, mix_seed(seed, epoch))) }
    }

    /// Shuffles blocks of `size` rows, and then the rows of each 16 consecutive blocks.
    ///
    /// Blocks of a file that is not in memory are read as a whole. The rows after the last whole block come last.
    ///
    /// # Errors
    /// `InvalidArgument` for blocks of no rows.
    pub fn shuffled_blocks(rows: u64, size: u64, seed: u64, epoch: u64) -> Result<EpochOrder> {
        if size == 0 {
            return Err(Error::invalid_argument("blocks to shuffle must have a row or more"));
        }
        let seed = mix_seed(seed, epoch);
        let blocks = Permutation::new(rows / size, mix(seed));
        Ok(EpochOrder { rows, mode: ShuffleMode::Blocks { size, blocks, seed } })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the numbers of the rows at some positions of the order; positions past the end are left out.
    pub fn rows(&self, positions: Range<u64>) -> Vec<u64> {
        let positions = positions.start.min(self.rows)..positions.end.min(self.rows);
        match &self.mode {
            ShuffleMode::InOrder => positions.collect(),
            ShuffleMode::Shuffled(order) => positions.map(|position| order.get(position)).collect(),
            ShuffleMode::Blocks { size, blocks, seed } => {
                let whole_blocks = self.rows / size;
                let mut window = ShuffleWindow::for_position(0, self.rows, *size, *seed);
                let mut rows = Vec::with_capacity(positions.size_hint().0);
                for position in positions {
                    if !window.positions.contains(&position) {
                        window = ShuffleWindow::for_position(position, self.rows, *size, *seed);
                    }
                    let start = window.positions.start;
                    let row = start + window.order.get(position - start);
                    // The rows after the last whole block stay behind all others.
                    let is_in_block = row / size < whole_blocks;
                    rows.push(if is_in_block { blocks.get(row / size) * size + row % size } else { row });
                }
                rows
            }
        }
    }
}

/// Positions whose rows are mixed with each other.
struct ShuffleWindow {
    /// The positions in the order of blocks.
    positions: Range<u64>,
    /// The order of the rows among these positions.
    order: Permutation,
}

impl ShuffleWindow {
    /// Creates the window of a position among `rows` rows in blocks of `size`.
    fn for_position(position: u64, rows: u64, size: u64, seed: u64) -> ShuffleWindow {
        let whole = rows / size * size;
        let positions = if position < whole {
            let len = size.saturating_mul(MIXED_BLOCKS);
            let start = position / len * len;
            start..start.saturating_add(len).min(whole)
        } else {
            whole..rows
        };
        let order = Permutation::new(positions.end - positions.start, mix_seed(seed, positions.start));
        ShuffleWindow { positions, order }
    }
}

/// Returns another seed for each number.
fn mix_seed(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: &EpochOrder, batch: usize) -> Vec<u64> {
        (0..order.len()).step_by(batch).flat_map(|at| order.rows(at..at + batch as u64)).collect()
    }

    #[test]
    fn every_row_occurs_once_for_all_batch_sizes() {
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
                let order_rows = all(order, 256);
                assert_eq!(order_rows, all(order, 3));
                let mut sorted = order_rows.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..rows), "{order:?}");
                if rows > 100 && !matches!(order.mode, ShuffleMode::InOrder) {
                    assert_ne!(order_rows, all(next, 256), "each epoch has its own order");
                    assert_ne!(order_rows, (0..rows).collect::<Vec<_>>());
                }
            }
        }
        assert!(EpochOrder::shuffled_blocks(10, 0, 0, 0).is_err());
    }

    #[test]
    fn rows_of_a_batch_come_from_few_blocks() {
        let order = EpochOrder::shuffled_blocks(1_000_000, 100, 1, 0).unwrap();
        let blocks: std::collections::HashSet<u64> = order.rows(3_200..4_800).iter().map(|row| row / 100).collect();
        assert_eq!(blocks.len(), 16);
    }
}
