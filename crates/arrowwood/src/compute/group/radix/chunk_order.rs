//! Orders the rows of a chunk by partition, and copies columns in that order.

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::text_views::{ArraySpan, put};
use crate::array::access::fixed_values;
use crate::compute::gather::RowSelection;
use crate::compute::scan::Frame;
use crate::compute::selection::Mask;
use crate::error::{Error, Result};

/// The number of partitions, a power of two.
pub(in crate::compute::group) const PARTITIONS: usize = 64;
/// The number of rows of a chunk, which are numbered by 16 bits.
pub(in crate::compute::group) const CHUNK: usize = 1 << 16;

/// The partition of rows that are not selected.
const NO_PARTITION: u8 = u8::MAX;
/// The number of values that the partition of a row may have.
const PARTITION_VALUES: usize = NO_PARTITION as usize + 1;

/// Removes the rows of a block that `masks` does not select from their partitions.
pub(super) fn exclude(partitions: &mut [u8], frame: &Frame<'_>, block: usize, masks: &[Option<Mask>]) {
    let mut start = 0;
    for ((_, rows), mask) in frame.spans(block).zip(masks) {
        let end = start + rows.len();
        if let Some(mask) = mask {
            for (row, partition) in partitions[start..end].iter_mut().enumerate() {
                if !mask.is_set(row) {
                    *partition = NO_PARTITION;
                }
            }
        }
        start = end;
    }
    assert_eq!(start, partitions.len(), "each row of a block has a partition");
}

/// The selected rows of a chunk, ordered by partition. The rows of a partition keep their order.
///
/// The order is stored both ways: `rows` has the row at each position, and `positions` the position of each row.
pub(super) struct ChunkOrder {
    /// The selected rows in that order.
    pub rows: Vec<u16>,
    /// The position of each row in that order; `NO_POSITION` for rows that are not selected. Columns are read in
    /// sequence, and written to these positions: values of a partition are written next to each other. It is emptied
    /// when all columns are copied.
    pub positions: Vec<u16>,
    /// The position where each partition begins, and where the last one ends.
    pub starts: Vec<usize>,
}

/// The position of rows that are not selected. It is the position of a row, too, but only if all rows of a full chunk
/// are selected, and then there are no others.
const NO_POSITION: u16 = u16::MAX;

impl ChunkOrder {
    /// Sorts the rows of a chunk, of which there are at most `CHUNK`, by partition. Counts the rows of each partition,
    /// and then puts each row behind the rows of its partition before it.
    pub(super) fn from_partitions(partitions: &[u8]) -> ChunkOrder {
        assert!(partitions.len() <= CHUNK, "{} rows of a chunk", partitions.len());
        let mut counts = [0usize; PARTITION_VALUES];
        partitions.iter().for_each(|&partition| counts[usize::from(partition)] += 1);

        // The position of the next row of each partition. Rows that are not selected have none.
        let mut next = [usize::MAX; PARTITION_VALUES];
        let mut starts = Vec::with_capacity(PARTITIONS + 1);
        let mut end = 0;
        for (count, first) in counts[..PARTITIONS].iter().zip(&mut next) {
            starts.push(end);
            *first = end;
            end += count;
        }
        starts.push(end);

        let mut rows = vec![0; end];
        let mut positions = vec![NO_POSITION; partitions.len()];
        for ((row, &partition), position) in partitions.iter().enumerate().zip(&mut positions) {
            let position_of_next = &mut next[usize::from(partition)];
            let Some(selected) = rows.get_mut(*position_of_next) else { continue };
            *selected = row as u16;
            *position = *position_of_next as u16;
            *position_of_next += 1;
        }
        ChunkOrder { rows, positions, starts }
    }

    /// Returns the rows of a partition.
    pub(super) fn rows_of(&self, partition: usize) -> &[u16] {
        &self.rows[self.starts[partition]..self.starts[partition + 1]]
    }

    /// Copies column number `column` of block `block` in this order.
    pub(super) fn column(
        &self,
        frame: &Frame<'_>,
        block: usize,
        column: usize,
        schema: &SchemaRef,
    ) -> Result<ArrayData> {
        let start = frame.block_start(block);
        let selection = RowSelection::from_rows(frame, self.rows.iter().map(|&row| start + u64::from(row)));
        let fixed_width_columns = selection.fixed_width_columns(frame, schema, Some(column))?;
        selection.gather_column(frame, &fixed_width_columns, schema, column)
    }

    /// Writes the values of `width` bytes of the chunk's rows in `spans` to `out` in this order.
    pub(super) fn copy_values(&self, width: usize, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        match width {
            1 => self.copy_fixed::<1>(spans, out),
            2 => self.copy_fixed::<2>(spans, out),
            4 => self.copy_fixed::<4>(spans, out),
            8 => self.copy_fixed::<8>(spans, out),
            _ => self.copy_fixed::<16>(spans, out),
        }
    }

    fn copy_fixed<const N: usize>(&self, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        let out = out.as_chunks_mut::<N>().0.get_mut(..self.rows.len()).ok_or_else(lost_row)?;
        let mut positions = &self.positions[..];
        for (array, rows) in spans {
            let values = fixed_values::<N>(array).get(rows.clone()).ok_or_else(lost_row)?;
            let (span_positions, rest) = positions.split_at_checked(values.len()).ok_or_else(lost_row)?;
            for (value, &position) in values.iter().zip(span_positions) {
                put(out, position, *value);
            }
            positions = rest;
        }
        if positions.is_empty() { Ok(()) } else { Err(lost_row()) }
    }
}

/// Returns the array and the rows of each span of a block.
pub(super) fn block_spans<'a>(frame: &Frame<'a>, block: usize, column: usize) -> Result<Vec<ArraySpan<'a>>> {
    frame.spans(block).map(|(part, rows)| Ok((frame.checked(part, column)?, rows))).collect()
}

/// Creates the error for rows that columns, chunks or partitions do not agree about.
pub(super) fn lost_row() -> Error {
    Error::internal("a group has no row in its partition")
}
