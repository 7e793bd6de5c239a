//! Splits a column into blocks of 65,536 rows, the last one shorter, independent of batches. A block is one thread's
//! unit of work; it is found by its number, as a list of blocks might exceed memory.
//!
//! [`Blocks`] has the column as chunks, one for each batch. A block is read as the parts of chunks that lie in it.

use std::marker::PhantomData;
use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;

use super::frame::{BATCHES_AT_ONCE, BLOCK, Frame};
use crate::array::access::{fixed_values, fixed_width};
use crate::dataset::{Column, FixedWidthValues};
use crate::error::Result;
use crate::parallel;

/// The minimum number of batches for which making an array of each takes a noticeable part of the time.
const MIN_BATCHES_WITHOUT_ARRAYS: usize = 64;

/// A column's rows in blocks. `C` has the values of a batch: an array, or its bytes.
#[derive(Debug)]
pub(in crate::compute) struct Blocks<'a, C = &'a ArrayData> {
    /// One for each batch with rows, in order.
    chunks: Vec<ColumnChunk<'a, C>>,
    rows: u64,
    bytes_per_row: usize,
}

/// Consecutive rows of a column that lie in one array, with checked values.
#[derive(Clone, Debug)]
pub(in crate::compute) struct ColumnChunk<'a, C = &'a ArrayData> {
    pub array: C,
    /// The rows in the array.
    pub rows: Range<usize>,
    /// The number that the first of `rows` has in the column.
    pub first: u64,
    /// `C` alone does not determine the lifetime of its values.
    life: PhantomData<&'a ()>,
}

/// Fixed-width values, and which of them are null.
pub(in crate::compute) trait FixedWidthBytes<'a>: Copy + Send + Sync {
    /// Returns the bytes of values of `width` bytes, from the first row on.
    fn bytes(self, width: usize) -> &'a [u8];
    /// Returns the validity of the rows; `None` without nulls.
    fn nulls(self) -> Option<&'a NullBuffer>;
}

impl<'a> FixedWidthBytes<'a> for &'a ArrayData {
    fn bytes(self, width: usize) -> &'a [u8] {
        match self.buffers() {
            [values, ..] => {
                let start = self.offset() * width;
                debug_assert!(start <= values.len(), "row {} of {} bytes", self.offset(), values.len());
                &values[start.min(values.len())..]
            }
            [] => &[],
        }
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        ArrayData::nulls(self)
    }
}

/// The values of a batch without nulls, in place.
impl<'a> FixedWidthBytes<'a> for &'a [u8] {
    fn bytes(self, _width: usize) -> &'a [u8] {
        self
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        None
    }
}

impl<'a> Blocks<'a, &'a [u8]> {
    /// Splits a column of numbers in many batches without making arrays. Returns `None` if arrays do as well, or if a
    /// batch has nulls or no values in place.
    pub(in crate::compute) fn fixed_width(column: &'a Column) -> Result<Option<Blocks<'a, &'a [u8]>>> {
        let Some(width) = fixed_width(column.data_type()) else { return Ok(None) };
        let frame = Frame::try_new(column.as_dataset())?;
        if frame.num_parts() < MIN_BATCHES_WITHOUT_ARRAYS {
            return Ok(None);
        }
        let bytes = usize::try_from(frame.num_rows()).unwrap_or(usize::MAX).saturating_mul(width);
        let groups = parallel::map(frame.num_parts().div_ceil(BATCHES_AT_ONCE), bytes, |group| {
            let mut values = Vec::with_capacity(BATCHES_AT_ONCE);
            for part in group * BATCHES_AT_ONCE..frame.num_parts().min((group + 1) * BATCHES_AT_ONCE) {
                frame.fixed_width_columns(part, std::iter::once((0, width)), &mut values)?;
            }
            Ok(values)
        });
        let mut chunks = Vec::with_capacity(frame.num_parts());
        for values in groups.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            let Some(FixedWidthValues { values, has_nulls: false }) = values else { return Ok(None) };
            let part = chunks.len();
            let rows = frame.rows_of(part);
            chunks.push(ColumnChunk { array: values, rows, first: frame.start(part), life: PhantomData });
        }
        assert!(chunks.len() == frame.num_parts(), "{} chunks of {} batches", chunks.len(), frame.num_parts());
        Ok(Some(Blocks { chunks, rows: frame.num_rows(), bytes_per_row: width }))
    }
}

impl<'a> Blocks<'a> {
    /// Splits a column of any type. Checks its values.
    pub(in crate::compute) fn build(column: &'a Column) -> Result<Blocks<'a>> {
        let mut chunks =
            column.map_chunks(|array, rows| Ok(ColumnChunk { array, rows, first: 0, life: PhantomData }))?;
        chunks.retain(|chunk| !chunk.rows.is_empty());
        let mut rows = 0u64;
        for chunk in &mut chunks {
            chunk.first = rows;
            rows = rows.saturating_add(chunk.rows.len() as u64);
        }
        Ok(Blocks { chunks, rows, bytes_per_row: column.bytes_per_row() })
    }

    /// Returns the column's rows batch by batch.
    pub(in crate::compute) fn chunks(&self) -> &[ColumnChunk<'a>] {
        &self.chunks
    }

    /// Returns the same chunks, with other arrays for the same rows.
    pub(in crate::compute) fn with_arrays<'b>(&self, arrays: &'b [ArrayData]) -> Blocks<'b> {
        assert!(arrays.len() == self.chunks.len(), "{} arrays for {} chunks", arrays.len(), self.chunks.len());
        let mut chunks = Vec::with_capacity(arrays.len());
        for (chunk, array) in self.chunks.iter().zip(arrays) {
            assert!(array.len() == chunk.array.len(), "an array of {} rows for {}", array.len(), chunk.array.len());
            chunks.push(ColumnChunk { array, rows: chunk.rows.clone(), first: chunk.first, life: PhantomData });
        }
        Blocks { chunks, ..*self }
    }
}

impl<'a, C: FixedWidthBytes<'a>> Blocks<'a, C> {
    /// Returns the number of blocks.
    pub(in crate::compute) fn num_blocks(&self) -> usize {
        usize::try_from(self.rows.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX)
    }

    /// Returns the approximate number of bytes of the column.
    pub(in crate::compute) fn bytes(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(usize::MAX).saturating_mul(self.bytes_per_row)
    }

    /// Returns the rows of block `block`, a chunk for each batch.
    pub(in crate::compute) fn pieces(&self, block: usize) -> impl Iterator<Item = ColumnChunk<'a, C>> + use<'a, '_, C> {
        let start = block as u64 * BLOCK as u64;
        let end = start.saturating_add(BLOCK as u64);
        // The first chunk begins at row 0, unless there is none.
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= start).saturating_sub(1);
        self.chunks[chunk..].iter().take_while(move |chunk| chunk.first < end).map(move |chunk| chunk.cut(start..end))
    }

    /// Runs `work` on each block in parallel. Returns the results in order.
    pub(in crate::compute) fn par_map<T: Send>(
        &self,
        work: impl Fn(&mut dyn Iterator<Item = ColumnChunk<'a, C>>) -> T + Sync,
    ) -> Vec<T> {
        self.par_map_range(0..self.num_blocks(), work)
    }

    /// Runs `work` on each of some blocks in parallel. Returns the results in order.
    pub(in crate::compute) fn par_map_range<T: Send>(
        &self,
        blocks: Range<usize>,
        work: impl Fn(&mut dyn Iterator<Item = ColumnChunk<'a, C>>) -> T + Sync,
    ) -> Vec<T> {
        let bytes = (blocks.len() * BLOCK).saturating_mul(self.bytes_per_row);
        parallel::map(blocks.len(), bytes, |job| work(&mut self.pieces(blocks.start + job)))
    }
}

/// Returns the values of `N` bytes in some rows of a checked array, nulls included.
#[inline]
pub(in crate::compute) fn values_in<const N: usize>(array: &ArrayData, rows: Range<usize>) -> &[[u8; N]] {
    let values = fixed_values(array);
    debug_assert!(rows.end <= values.len(), "rows {rows:?} of {} values", values.len());
    values.get(rows).unwrap_or(&[])
}

impl<'a, C: FixedWidthBytes<'a>> ColumnChunk<'a, C> {
    /// Returns the chunk's rows that are among rows `rows` of the column.
    fn cut(&self, rows: Range<u64>) -> ColumnChunk<'a, C> {
        debug_assert!(rows.start <= rows.end);
        let from = self.rows_before(rows.start);
        let to = self.rows_before(rows.end);
        ColumnChunk {
            array: self.array,
            rows: self.rows.start + from..self.rows.start + to,
            first: self.first + from as u64,
            life: PhantomData,
        }
    }

    /// Returns the number of the chunk's rows that come before row `row` of the column.
    fn rows_before(&self, row: u64) -> usize {
        self.rows.len().min(row.saturating_sub(self.first) as usize)
    }

    /// Returns the values, nulls included, whatever their alignment. Empty if the array has no bytes for all of them.
    pub(in crate::compute) fn values<const N: usize>(&self) -> &'a [[u8; N]] {
        let values = self.array.bytes(N).as_chunks().0;
        debug_assert!(self.rows.end <= values.len(), "rows {:?} of {} values", self.rows, values.len());
        values.get(self.rows.clone()).unwrap_or(&[])
    }

    /// Calls `kernel` with the values, nulls replaced by `neutral`.
    pub(in crate::compute) fn with_values<const N: usize, T>(
        &self,
        neutral: [u8; N],
        kernel: impl FnOnce(&[[u8; N]]) -> T,
    ) -> T {
        let values = self.values();
        let Some(nulls) = self.array.nulls() else { return kernel(values) };
        let bits = nulls.inner().slice(self.rows.start, self.rows.len());
        let mut filled = Vec::with_capacity(values.len());
        for (word, values) in bits.bit_chunks().iter_padded().zip(values.chunks(u64::BITS as usize)) {
            if word == u64::MAX {
                filled.extend_from_slice(values);
            } else {
                filled.extend(values.iter().enumerate().map(|(i, &v)| if word >> i & 1 == 1 { v } else { neutral }));
            }
        }
        kernel(&filled)
    }

    /// Returns true if row `row` of the array is not null.
    pub(in crate::compute) fn is_valid(&self, row: usize) -> bool {
        self.array.nulls().is_none_or(|nulls| nulls.is_valid(row))
    }
}
