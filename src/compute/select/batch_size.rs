//! How many rows a batch of a view may have: as many as offsets of 32 bits can count the bytes and items of.

use std::ops::Range;

use arrow_schema::DataType;

use super::row_order::RowOrder;
use crate::array::{UncheckedArray, offset_range};
use crate::compute::frame::Frame;
use crate::dataset::{Dataset, SourceSlice};
use crate::error::Result;
use crate::parallel;
use crate::types::fixed_size_or_zero;
use crate::types::layout::children;

/// The most bytes or items of a batch. A cut of a view may have rows of two batches.
const MOST: u64 = i32::MAX as u64 / 2;

/// Returns how many rows, `most` or fewer, each batch of the rows `order` of `dataset` may have. It is the same number for all
/// of them.
///
/// # Errors
/// Those of finding the arrays.
pub(super) fn rows_that_fit(dataset: &Dataset, order: &RowOrder, most: usize) -> Result<usize> {
    rows_within(MOST, dataset, order, most)
}

/// Whether the piece is of a view that gathers its rows batch by batch.
pub(super) fn gathers(piece: &SourceSlice) -> bool {
    piece.source.view().is_some_and(|view| view.resolve_rows(&mut std::iter::empty()).is_some())
}

fn rows_within(limit: u64, dataset: &Dataset, order: &RowOrder, most: usize) -> Result<usize> {
    let fields = dataset.schema().fields().iter().enumerate();
    let narrow: Vec<usize> =
        fields.filter(|(_, field)| has_narrow_offsets(field.data_type())).map(|(n, _)| n).collect();
    if narrow.is_empty() {
        return Ok(most);
    }
    if let Some(view) = dataset.pieces().iter().find(|piece| gathers(piece)) {
        // Its batches fit, and looking at its arrays would gather all of them.
        let first = view.source.span(0)?.map_or(most as u64, |rows| rows.end - rows.start);
        return Ok(usize::try_from(first).map_or(most, |first| first.clamp(1, most)));
    }
    let has_repeats = order.len() > dataset.len()?;
    let frame = Frame::try_new(dataset)?;
    let mut rows = most;
    for column in narrow {
        let arrays = (0..frame.num_parts()).map(|part| frame.unchecked(part, column)).collect::<Result<Vec<_>>>()?;
        let mut all = OffsetCounts::default();
        arrays.iter().enumerate().for_each(|(part, array)| all.add(array, frame.rows_of(part)));
        if all.most() <= limit && !has_repeats {
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

fn has_narrow_offsets(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | Binary | List(_) | Map(..))
        || children(data_type).into_iter().any(|child| has_narrow_offsets(child.data_type()))
}

/// The largest count of a batch of `rows` rows each.
fn largest_batch(frame: &Frame<'_>, arrays: &[&UncheckedArray], order: &RowOrder, rows: usize) -> u64 {
    let batches = order.len().div_ceil(rows as u64) as usize;
    let counts = parallel::map(batches, (order.len() as usize).saturating_mul(16), |batch| {
        let start = batch as u64 * rows as u64;
        let mut counts = OffsetCounts::default();
        let (mut near, mut part) = (0..0, 0);
        for row in (start..order.len().min(start + rows as u64)).filter_map(|row| order.get(row)) {
            if !near.contains(&row) {
                let Some(found) = frame.part_at(row) else { continue };
                part = found;
                near = frame.start(part)..frame.start(part) + frame.rows_of(part).len() as u64;
            }
            let at = frame.rows_of(part).start + (row - near.start) as usize;
            counts.add(arrays[part], at..at + 1);
        }
        counts.most()
    });
    counts.into_iter().max().unwrap_or(0)
}

/// The bytes or items that each array of 32-bit offsets counts, of a column and those nested in it.
#[derive(Default)]
struct OffsetCounts(Vec<u64>);

impl OffsetCounts {
    fn most(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }

    /// Adds those of rows `rows` of `array`.
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
        let child = array.child_data().first();
        match array.data_type() {
            DataType::Utf8 | DataType::Binary => {
                self.count(number, offset_range::<4>(array, rows.start, rows.end).len())
            }
            DataType::List(_) | DataType::Map(..) => {
                let items = offset_range::<4>(array, rows.start, rows.end);
                self.count(number, items.len());
                child.into_iter().for_each(|child| self.add_nested(child, items.clone(), number));
            }
            DataType::LargeList(_) => {
                let items = offset_range::<8>(array, rows.start, rows.end);
                child.into_iter().for_each(|child| self.add_nested(child, items.clone(), number));
            }
            DataType::FixedSizeList(_, size) => {
                let at = |row: usize| (array.offset() + row).saturating_mul(fixed_size_or_zero(*size));
                let items = at(rows.start)..at(rows.end);
                child.into_iter().for_each(|child| self.add_nested(child, items.clone(), number));
            }
            DataType::Struct(_) => {
                array.child_data().iter().for_each(|child| self.add_nested(child, rows.clone(), number));
            }
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{ArrayRef, RecordBatch};

    use super::*;

    /// Batches of text, of lists of text and of maps to text, whose row `n` has `lens[n]` bytes in as many items.
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
            // All of the large ones, again and again.
            RowOrder::try_from_rows(1000, (0..2000).map(|row| row * 97 % 970)).unwrap(),
        ];
        for (number, order) in orders.iter().enumerate() {
            for limit in [100, 1000, 2000, 10_000] {
                let fits = rows_within(limit, &rows, order, 512).unwrap();
                let numbers: Vec<usize> = (0..order.len()).map(|row| order.get(row).unwrap() as usize).collect();
                // Maps to text of three bytes have the most.
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
