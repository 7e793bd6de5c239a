//! A column split into blocks of 65,536 rows, the last one shorter, independent of batches. A block is one thread's
//! unit of work; it is found by its number, as a list of blocks might exceed memory.

use std::marker::PhantomData;
use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;

use super::frame::{AT_ONCE, BLOCK, Frame};
use crate::array::access::fixed_width;
use crate::dataset::{Column, FixedWidthValues};
use crate::error::Result;
use crate::parallel;

/// The number of batches from which the cost of making arrays shows.
const MANY: usize = 64;

/// A column's rows in blocks.
#[derive(Debug)]
pub(super) struct Blocks<'a, C = &'a ArrayData> {
    /// One per batch with rows.
    chunks: Vec<ColumnChunk<'a, C>>,
    rows: u64,
    bytes_per_row: usize,
}

/// Rows of one array, with checked values.
#[derive(Clone, Debug)]
pub(super) struct ColumnChunk<'a, C = &'a ArrayData> {
    pub array: C,
    pub rows: Range<usize>,
    /// The first one's row in the column.
    pub first: u64,
    /// `C` alone does not determine the lifetime of its values.
    life: PhantomData<&'a ()>,
}

/// Fixed-width values, and which of them are null.
pub(super) trait FixedWidthBytes<'a>: Copy + Send + Sync {
    /// The bytes from the first row on.
    fn bytes(self, width: usize) -> &'a [u8];
    fn nulls(self) -> Option<&'a NullBuffer>;
}

impl<'a> FixedWidthBytes<'a> for &'a ArrayData {
    fn bytes(self, width: usize) -> &'a [u8] {
        let start = self.offset().saturating_mul(width);
        self.buffers().first().and_then(|buffer| buffer.get(start..)).unwrap_or_default()
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        ArrayData::nulls(self)
    }
}

/// Bytes of the batch in place, without nulls.
impl<'a> FixedWidthBytes<'a> for &'a [u8] {
    fn bytes(self, _width: usize) -> &'a [u8] {
        self
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        None
    }
}

impl<'a> Blocks<'a, &'a [u8]> {
    /// For a column of numbers in many batches, without making arrays; `None` if arrays do as well, or a batch has more
    /// than its values.
    pub(super) fn fixed_width(column: &'a Column) -> Result<Option<Blocks<'a, &'a [u8]>>> {
        let Some(width) = fixed_width(column.data_type()) else { return Ok(None) };
        let frame = Frame::try_new(column.as_dataset())?;
        if frame.num_parts() < MANY {
            return Ok(None);
        }
        let bytes = usize::try_from(frame.num_rows()).unwrap_or(usize::MAX).saturating_mul(width);
        let found = parallel::map(frame.num_parts().div_ceil(AT_ONCE), bytes, |job| {
            let mut found = Vec::with_capacity(AT_ONCE);
            let mut parts = job * AT_ONCE..frame.num_parts().min((job + 1) * AT_ONCE);
            parts.try_for_each(|part| frame.fixed_width_columns(part, std::iter::once((0, width)), &mut found))?;
            Ok(found)
        });
        let found = found.into_iter().collect::<Result<Vec<_>>>()?;
        let chunk = |(part, plain): (usize, Option<FixedWidthValues<'a>>)| {
            let array = plain.filter(|plain| !plain.has_nulls)?.values;
            Some(ColumnChunk { array, rows: frame.rows_of(part), first: frame.start(part), life: PhantomData })
        };
        let chunks = found.into_iter().flatten().enumerate().map(chunk).collect::<Option<Vec<_>>>();
        Ok(chunks.map(|chunks| Blocks { chunks, rows: frame.num_rows(), bytes_per_row: width }))
    }
}

impl<'a> Blocks<'a> {
    pub(super) fn build(column: &'a Column) -> Result<Blocks<'a>> {
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

    /// The column's rows batch by batch.
    pub(super) fn chunks(&self) -> &[ColumnChunk<'a>] {
        &self.chunks
    }

    /// The same chunks, with other arrays for the same rows.
    pub(super) fn with_arrays<'b>(&self, arrays: &'b [ArrayData]) -> Blocks<'b> {
        let swap = |(chunk, array): (&ColumnChunk<'a>, &'b ArrayData)| {
            let rows = chunk.rows.clone();
            let first = chunk.first;
            ColumnChunk { array, rows, first, life: PhantomData }
        };
        Blocks { chunks: self.chunks.iter().zip(arrays).map(swap).collect(), ..*self }
    }
}

impl<'a, C: FixedWidthBytes<'a>> Blocks<'a, C> {
    /// The number of blocks.
    pub(super) fn num_blocks(&self) -> usize {
        usize::try_from(self.rows.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX)
    }

    /// The approximate number of bytes of the column.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(usize::MAX).saturating_mul(self.bytes_per_row)
    }

    /// Block `block`, in pieces of one batch each.
    pub(super) fn pieces(&self, block: usize) -> impl Iterator<Item = ColumnChunk<'a, C>> + use<'a, '_, C> {
        let start = block as u64 * BLOCK as u64;
        let end = start.saturating_add(BLOCK as u64);
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= start).saturating_sub(1);
        self.chunks[chunk..].iter().take_while(move |chunk| chunk.first < end).map(move |chunk| chunk.cut(start..end))
    }

    /// Runs `work` on each block in parallel; results in order.
    pub(super) fn par_map<T: Send>(
        &self,
        work: impl Fn(&mut dyn Iterator<Item = ColumnChunk<'a, C>>) -> T + Sync,
    ) -> Vec<T> {
        self.par_map_range(0..self.num_blocks(), work)
    }

    /// Runs `work` on each of some blocks in parallel; results in order.
    pub(super) fn par_map_range<T: Send>(
        &self,
        blocks: Range<usize>,
        work: impl Fn(&mut dyn Iterator<Item = ColumnChunk<'a, C>>) -> T + Sync,
    ) -> Vec<T> {
        let bytes = (blocks.len() * BLOCK).saturating_mul(self.bytes_per_row);
        parallel::map(blocks.len(), bytes, |job| work(&mut self.pieces(blocks.start + job)))
    }
}

impl<'a, C: FixedWidthBytes<'a>> ColumnChunk<'a, C> {
    /// The piece's rows among rows `rows` of the column.
    fn cut(&self, rows: Range<u64>) -> ColumnChunk<'a, C> {
        let inside = |row: u64| self.rows.len().min(row.saturating_sub(self.first) as usize);
        let from = inside(rows.start);
        let to = inside(rows.end);
        let first = self.first + from as u64;
        let rows = self.rows.start + from..self.rows.start + to;
        ColumnChunk { array: self.array, rows, first, life: PhantomData }
    }

    /// The values, nulls included, whatever their alignment; as many as there are bytes for.
    pub(super) fn values<const N: usize>(&self) -> &'a [[u8; N]] {
        self.array.bytes(N).as_chunks().0.get(self.rows.clone()).unwrap_or_default()
    }

    /// Calls `kernel` with the values, nulls replaced by `neutral`.
    pub(super) fn with_values<const N: usize, T>(&self, neutral: [u8; N], kernel: impl FnOnce(&[[u8; N]]) -> T) -> T {
        let values = self.values();
        let Some(nulls) = self.array.nulls() else { return kernel(values) };
        let bits = nulls.inner().slice(self.rows.start, self.rows.len());
        let mut filled = Vec::with_capacity(values.len());
        for (word, values) in bits.bit_chunks().iter_padded().zip(values.chunks(64)) {
            match word {
                u64::MAX => filled.extend_from_slice(values),
                word => {
                    filled.extend(values.iter().enumerate().map(|(i, &v)| if word >> i & 1 == 1 { v } else { neutral }))
                }
            }
        }
        kernel(&filled)
    }

    pub(super) fn is_valid(&self, row: usize) -> bool {
        self.array.nulls().is_none_or(|nulls| nulls.is_valid(row))
    }
}
