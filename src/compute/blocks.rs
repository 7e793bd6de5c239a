//! A column cut into blocks of 65,536 rows, the last one shorter, wherever batches begin and end. A block is what one
//! thread works on at a time; it is found from its number, as rows may be more than there is memory to list them.

use std::ops::Range;

use arrow_data::ArrayData;

use crate::column::Column;
use crate::error::Result;
use crate::parallel;

/// The rows of a block.
pub(super) const BLOCK: usize = 1 << 16;

/// A column's rows in blocks.
#[derive(Debug)]
pub(super) struct Blocks<'a> {
    /// One for each batch that has rows.
    chunks: Vec<Piece<'a>>,
    rows: u64,
    bytes_per_row: usize,
}

/// Rows of one array, values checked.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub array: &'a ArrayData,
    pub rows: Range<usize>,
    /// Where they begin among the column's rows.
    first: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn of(column: &'a Column) -> Result<Blocks<'a>> {
        let mut chunks = column.each_chunk(|array, rows| Ok(Piece { array, rows, first: 0 }))?;
        chunks.retain(|chunk| !chunk.rows.is_empty());
        let mut rows = 0u64;
        for chunk in &mut chunks {
            chunk.first = rows;
            rows = rows.saturating_add(chunk.rows.len() as u64);
        }
        Ok(Blocks { chunks, rows, bytes_per_row: column.bytes_per_row() })
    }

    /// The number of blocks.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.rows.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX)
    }

    /// About how many bytes the column takes.
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(usize::MAX).saturating_mul(self.bytes_per_row)
    }

    /// The column's rows batch by batch.
    pub(super) fn chunks(&self) -> &[Piece<'a>] {
        &self.chunks
    }

    /// The same chunks with other arrays of the same rows.
    pub(super) fn with_arrays<'b>(&self, arrays: &'b [ArrayData]) -> Blocks<'b> {
        let swap = |(chunk, array): (&Piece<'a>, &'b ArrayData)| Piece { array, rows: chunk.rows.clone(), ..*chunk };
        Blocks { chunks: self.chunks.iter().zip(arrays).map(swap).collect(), ..*self }
    }

    /// Block `block`, in pieces of one batch each.
    pub(super) fn pieces(&self, block: usize) -> impl Iterator<Item = Piece<'a>> + use<'a, '_> {
        let start = block as u64 * BLOCK as u64;
        let end = start.saturating_add(BLOCK as u64);
        let chunk = self.chunks.partition_point(|chunk| chunk.first <= start).saturating_sub(1);
        self.chunks[chunk..].iter().take_while(move |chunk| chunk.first < end).map(move |chunk| chunk.cut(start..end))
    }

    /// `work` on each block in parallel, results in order.
    pub(super) fn each<T: Send>(&self, work: impl Fn(&mut dyn Iterator<Item = Piece<'a>>) -> T + Sync) -> Vec<T> {
        self.each_of(0..self.count(), work)
    }

    /// `work` on each of some blocks in parallel, results in order.
    pub(super) fn each_of<T: Send>(
        &self,
        blocks: Range<usize>,
        work: impl Fn(&mut dyn Iterator<Item = Piece<'a>>) -> T + Sync,
    ) -> Vec<T> {
        let bytes = (blocks.len() * BLOCK).saturating_mul(self.bytes_per_row);
        parallel::map(blocks.len(), bytes, |job| work(&mut self.pieces(blocks.start + job)))
    }
}

impl<'a> Piece<'a> {
    /// Those of the piece's rows that are among rows `rows` of the column.
    fn cut(&self, rows: Range<u64>) -> Piece<'a> {
        let inside = |row: u64| self.rows.len().min(row.saturating_sub(self.first) as usize);
        let (from, to) = (inside(rows.start), inside(rows.end));
        let first = self.first + from as u64;
        Piece { array: self.array, rows: self.rows.start + from..self.rows.start + to, first }
    }

    /// The values, nulls among them, wherever they are aligned; as many as there are bytes for.
    pub(super) fn values<const N: usize>(&self) -> &'a [[u8; N]] {
        let bytes = self.array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
        let at = self.array.offset();
        bytes.as_chunks().0.get(at + self.rows.start..at + self.rows.end).unwrap_or_default()
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
