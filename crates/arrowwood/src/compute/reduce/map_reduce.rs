//! Runs a caller's own loop over a column, in parallel.

use arrow_data::ArrayData;

use crate::array::{buffer, require_little_endian, slice};
use crate::compute::scan::{Blocks, ColumnChunk};
use crate::dataset::Column;
use crate::error::Result;
use crate::parallel;

/// The number of blocks whose results are held until they are combined. A column of rows without bytes may have too
/// many blocks to hold the results of all.
const WAVE_BLOCKS: usize = 1 << 12;

/// One of so many bytes is expected to be copied, as most buffers are aligned already.
const BYTES_PER_COPIED_BYTE: usize = 8;

/// # Computations of your own
impl Column {
    /// Calls `map` with each chunk in parallel, then combines the results by `combine`, in row order.
    ///
    /// A chunk has at most 65,536 rows. Returns `None` if there are no rows. Chunks are in place, or copied if their
    /// buffers are not aligned for their type.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("n", array)]).unwrap();
    /// # let column = Dataset::try_from(vec![batch])?.column("n")?;
    /// let rows = column.map_reduce(|chunk| chunk.len(), |a, b| a + b)?;
    /// assert_eq!(rows, Some(3));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidData` if a value is damaged.
    pub fn map_reduce<R: Send>(
        &self,
        map: impl Fn(&ArrayData) -> R + Sync,
        combine: impl Fn(R, R) -> R,
    ) -> Result<Option<R>> {
        require_little_endian("making arrays of a column")?;
        self.with_change_check(|| fold_chunks(self, map, combine))
    }
}

/// Does [`map_reduce`](Column::map_reduce) without a check for changes.
fn fold_chunks<R: Send>(
    column: &Column,
    map: impl Fn(&ArrayData) -> R + Sync,
    combine: impl Fn(R, R) -> R,
) -> Result<Option<R>> {
    let blocks = Blocks::build(column)?;
    let arrays = parallel::map(blocks.chunks().len(), blocks.bytes() / BYTES_PER_COPIED_BYTE, |chunk| {
        buffer::aligned(blocks.chunks()[chunk].array.clone())
    });
    let blocks = blocks.with_arrays(&arrays);
    let mut result = None;
    for start in (0..blocks.num_blocks()).step_by(WAVE_BLOCKS) {
        let wave = start..blocks.num_blocks().min(start + WAVE_BLOCKS);
        let mapped = blocks.par_map_range(wave, |pieces| {
            pieces.map(|ColumnChunk { array, rows, .. }| map(&slice(array, rows.start, rows.len()))).collect::<Vec<_>>()
        });
        result = result.into_iter().chain(mapped.into_iter().flatten()).reduce(&combine);
    }
    Ok(result)
}
