//! Copies rows side by side: `gather`.

use super::row_selection::RowSelection;
use super::take::resolve_views;
use crate::array::require_little_endian;
use crate::compute::scan::Frame;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::map::{ChangeCheck, GrowableBuffer};

/// Rows that were copied by [`Dataset::gather`].
#[derive(Debug)]
pub struct GatheredRows {
    /// The values of each column, row by row; `None` for columns that can't be copied as bytes, such as those with
    /// nulls, text, or values in compressed files.
    pub blocks: Vec<Option<GrowableBuffer>>,
    /// The columns without a block, as [`Dataset::take`] returns them.
    pub rest: Dataset,
}

/// # Copies of some rows, as bytes
impl Dataset {
    /// Copies rows `rows` of all columns, numbers side by side in new memory.
    ///
    /// So are lists of one length of numbers. Other columns are returned as a dataset.
    ///
    /// # Errors
    /// `RowOutOfRange`; the errors of [`Dataset::take`].
    pub fn gather(&self, rows: &[u64]) -> Result<GatheredRows> {
        require_little_endian("gathering rows")?;
        self.with_change_check(ChangeCheck::Seldom, || {
            let len = self.len()?;
            if let Some(&row) = rows.iter().find(|&&row| row >= len) {
                return Err(self.row_out_of_range(row));
            }
            let (dataset, base_rows) = resolve_views(self, rows.to_vec())?;
            let frame = Frame::try_new(&dataset)?;
            let selection = RowSelection::from_rows(&frame, base_rows.iter().copied());
            let fixed_width = selection.fixed_width_columns(&frame, dataset.schema(), None)?;
            let mut blocks = Vec::with_capacity(self.num_columns());
            let mut other_columns = Vec::new();
            for column in 0..self.num_columns() {
                let block = selection.block(&fixed_width, column)?;
                if block.is_none() {
                    other_columns.push(column);
                }
                blocks.push(block);
            }
            let rest = self.select_at(&other_columns)?;
            let signed: Vec<i64> = rows.iter().map(|row| row.cast_signed()).collect();
            let rest = if rest.num_columns() == 0 { rest.slice(0, 0)? } else { rest.take(&signed)? };
            Ok(GatheredRows { blocks, rest })
        })
    }
}
