//! Limits the rows of a batch of a view, so that offsets of 32 bits can count their bytes and items.

use std::ops::Range;

use arrow_schema::DataType;

use super::row_order::RowOrder;
use crate::array::{UncheckedArray, offset_range};
use crate::compute::scan::Frame;
use crate::dataset::{Dataset, SourceSlice};
use crate::error::Result;
use crate::parallel;
use crate::types::fixed_size_or_zero;
use crate::types::layout::children;

/// The maximum number of bytes or items of a batch: half of what an offset counts, as a batch of a slice of a view may
/// have rows of two batches of the view.
const MAX_OFFSET: u64 = i32::MAX as u64 / 2;

/// Returns how many rows, `max_rows` or fewer, each batch of the rows `order` of `dataset` may have.
///
/// # Errors
/// If an array can't be read.
pub(super) fn rows_that_fit(dataset: &Dataset, order: &RowOrder, max_rows: usize) -> Result<usize> {
    rows_within(MAX_OFFSET, dataset, order, max_rows)
}

/// Returns true if the piece is part of a view that gathers its rows batch by batch.
pub(super) fn gathers(piece: &SourceSlice) -> bool {
    piece.source.view().is_some_and(|view| view.resolve_rows(&mut std::iter::empty()).is_some())
}

/// Does [`rows_that_fit`] for offsets of at most `limit`.
fn rows_within(limit: u64, dataset: &Dataset, order: &RowOrder, max_rows: usize) -> Result<usize> {
    assert!(max_rows > 0, "a batch has rows");
    let fields = dataset.schema().fields().iter().enumerate();
    let narrow: Vec<usize> =
        fields.filter(|(_, field)| has_narrow_offsets(field.data_type())).map(|(n, _)| n).collect();
    if narrow.is_empty() {
        return Ok(max_rows);
    }
    if let Some(view) = dataset.pieces().iter().find(|piece| gathers(piece)) {
        // The batches of a view fit, and reading its arrays would gather all of them.
        let Some(first) = view.source.span(0)? else { return Ok(max_rows) };
        return Ok(usize::try_from(first.end - first.start).map_or(max_rows, |rows| rows.clamp(1, max_rows)));
    }
    let has_repeats = order.len() > dataset.len()?;
    let frame = Frame::try_new(dataset)?;
    let mut rows = max_rows;
    for column in narrow {
        let arrays = (0..frame.num_parts()).map(|part| frame.unchecked(part, column)).collect::<Result<Vec<_>>>()?;
        let mut counts = OffsetCounts::default();
        for (part, array) in arrays.iter().enumerate() {
            counts.add(array, frame.rows_of(part));
        }
        if counts.max() <= limit && !has_repeats {
            continue;
        }
        while rows > 1 {
            let largest = largest_batch(&frame, &arrays, order, rows);
            if largest <= limit {
                break;
            }
            let share = (rows as u128 * u128::from(limit) / u128::from(largest)) as usize;
            rows = share.clamp(1, rows - 1);
        }
    }
    Ok(rows)
}

/// Returns true if arrays of the type, or of a type nested in it, have offsets of 32 bits.
fn has_narrow_offsets(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | Binary | List(_) | Map(..))
        || children(data_type).into_iter().any(|child| has_narrow_offsets(child.data_type()))
}

/// The approximate number of bytes that are read to find the offsets of a row.
const BYTES_PER_ROW: usize = 16;

/// Returns the largest count of any batch, if each has `rows` rows.
fn largest_batch(frame: &Frame<'_>, arrays: &[&UncheckedArray], order: &RowOrder, rows: usize) -> u64 {
    let batches = order.len().div_ceil(rows as u64) as usize;
    let counts = parallel::map(batches, (order.len() as usize).saturating_mul(BYTES_PER_ROW), |batch| {
        let start = batch as u64 * rows as u64;
        let mut counts = OffsetCounts::default();
        // The part of the last row, and the rows of the dataset that it holds.
        let mut part = 0;
        let mut part_rows = 0..0;
        for row in (start..order.len().min(start + rows as u64)).filter_map(|row| order.get(row)) {
            if !part_rows.contains(&row) {
                let Some(number) = frame.part_at(row) else { continue };
                part = number;
                part_rows = frame.start(part)..frame.start(part) + frame.rows_of(part).len() as u64;
            }
            let inside = frame.rows_of(part).start + (row - part_rows.start) as usize;
            counts.add(arrays[part], inside..inside + 1);
        }
        counts.max()
    });
    counts.into_iter().fold(0, u64::max)
}

/// The bytes or items that each array of 32-bit offsets counts, in a column and the arrays nested in it.
#[derive(Default)]
struct OffsetCounts(Vec<u64>);

impl OffsetCounts {
    fn max(&self) -> u64 {
        self.0.iter().copied().fold(0, u64::max)
    }

    /// Adds the counts of rows `rows` of `array`.
    fn add(&mut self, array: &UncheckedArray, rows: Range<usize>) {
        self.add_nested(array, rows, &mut 0);
    }

    fn count(&mut self, number: &mut usize, count: usize) {
        if self.0.len() <= *number {
            self.0.resize(*number + 1, 0);
        }
        self.0[*number] = self.0[*number].saturating_add(count as u64);
        *number += 1;
    }

    fn add_nested(&mut self, array: &UncheckedArray, rows: Range<usize>, number: &mut usize) {
        debug_assert!(rows.start <= rows.end);
        let items = match array.data_type() {
            DataType::Utf8 | DataType::Binary => {
                self.count(number, offset_range::<4>(array, rows.start, rows.end).len());
                return;
            }
            DataType::List(_) | DataType::Map(..) => {
                let items = offset_range::<4>(array, rows.start, rows.end);
                self.count(number, items.len());
                items
            }
            DataType::LargeList(_) => offset_range::<8>(array, rows.start, rows.end),
            DataType::FixedSizeList(_, size) => {
                let size = fixed_size_or_zero(*size);
                let start = array.offset().saturating_add(rows.start).saturating_mul(size);
                start..start.saturating_add(rows.len().saturating_mul(size))
            }
            DataType::Struct(_) => rows,
            _ => return,
        };
        for child in array.child_data() {
            self.add_nested(child, items.clone(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{ArrayRef, RecordBatch};

    use super::*;

    /// Returns batches of text, lists of text and maps to text, whose row `n` has `lens[n]` bytes in as many items.
    fn dataset(lens: &[usize], batch: usize) -> Dataset {
        let batches = lens.chunks(batch).map(|lens| {
            let mut texts = StringBuilder::new();
            let mut lists = ListBuilder::new(StringBuilder::new());
            let mut maps = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
            for &len in lens {
                texts.append_value("x".repeat(len));
                for item in 0..len {
                    lists.values().append_value("yy");
                    maps.keys().append_value(item as i32);
                    maps.values().append_value("zzz");
                }
                lists.append(true);
                maps.append(true).unwrap();
            }
            let columns: [(&str, ArrayRef); 3] = [
                ("text", Arc::new(texts.finish())),
                ("list", Arc::new(lists.finish())),
                ("map", Arc::new(maps.finish())),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        });
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn batches_have_as_many_rows_as_their_offsets_count() {
        let lens: Vec<usize> = (0..1000).map(|row| if row % 97 == 0 { 300 } else { row % 7 }).collect();
        let rows = dataset(&lens, 64);
        let orders = [
            RowOrder::try_from_rows(1000, 0..1000).unwrap(),
            RowOrder::try_from_rows(1000, (0..1000).rev()).unwrap(),
            RowOrder::try_from_rows(1000, (0..1000).map(|row| row * 97 % 1000)).unwrap(),
            // Repeats the large rows.
            RowOrder::try_from_rows(1000, (0..2000).map(|row| row * 97 % 970)).unwrap(),
        ];
        for (number, order) in orders.iter().enumerate() {
            for limit in [100, 1000, 2000, 10_000] {
                let fits = rows_within(limit, &rows, order, 512).unwrap();
                let numbers: Vec<usize> = (0..order.len()).map(|row| order.get(row).unwrap() as usize).collect();
                // Maps to texts of three bytes have the largest count.
                let largest =
                    |fits: usize| numbers.chunks(fits).map(|rows| rows.iter().map(|&row| 3 * lens[row]).sum()).max();
                let largest: u64 = largest(fits).map_or(0, |most: usize| most as u64);
                assert!(largest <= limit || fits == 1, "order {number}, {limit}: {largest} in {fits} rows");
            }
            assert_eq!(rows_within(1 << 40, &rows, order, 512).unwrap(), 512);
            assert!(rows_within(2000, &rows, order, 512).unwrap() > 1);
        }
    }
}
