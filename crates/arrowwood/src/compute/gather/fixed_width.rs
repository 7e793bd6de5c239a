//! Gathers columns of numbers, and of keys of one dictionary, from the bytes of each batch: rows of thousands of small
//! batches are gathered without making arrays.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use crate::array::access::row_width;
use crate::array::gather::{Pick, gather_fixed_bytes, gather_fixed_into};
use crate::array::{ArrayParts, UncheckedArray};
use crate::compute::scan::{BATCHES_AT_ONCE, Frame, RANDOM_ACCESS_BYTES};
use crate::compute::selection::SelectedRows;
use crate::compute::selection::compress;
use crate::dataset::FixedWidthValues;
use crate::error::{Error, Result};
use crate::map::GrowableBuffer;
use crate::parallel;

/// The number of bytes that a thread copies at a time.
const COPY_BYTES: usize = 1 << 18;

/// The columns of some batches whose values can be copied as bytes, without making arrays: numbers, lists of one length
/// of numbers, and the keys of one dictionary. Columns that can't are absent, and are gathered from arrays.
#[derive(Debug, Default)]
pub(in crate::compute) struct FixedWidthColumns<'a> {
    columns: Vec<FixedWidthColumn<'a>>,
}

/// A column of some batches as bytes.
#[derive(Debug)]
struct FixedWidthColumn<'a> {
    /// The number of the column in the dataset.
    number: usize,
    /// The number of bytes of a row.
    width: usize,
    /// The dictionary that all batches share, if the values are keys.
    dictionary: Option<ArrayData>,
    /// The bytes of each batch; `None` if a batch has nulls, or needs the general path.
    batches: Option<Vec<&'a [u8]>>,
}

impl<'a> FixedWidthColumns<'a> {
    /// Finds some columns in the batches `parts`.
    pub(in crate::compute) fn load(
        frame: &Frame<'a>,
        schema: &SchemaRef,
        numbers: Range<usize>,
        parts: &[usize],
    ) -> Result<FixedWidthColumns<'a>> {
        let mut columns = Vec::new();
        for (number, field) in numbers.clone().zip(&schema.fields()[numbers]) {
            let (width, dictionary) = match field.data_type() {
                DataType::Dictionary(index, _) => (index.primitive_width(), frame.dictionary(number)?),
                other => (row_width(other), None),
            };
            let needs_dictionary = matches!(field.data_type(), DataType::Dictionary(..));
            if let Some(width) = width
                && (dictionary.is_some() || !needs_dictionary)
            {
                columns.push(FixedWidthColumn { number, width, dictionary, batches: Some(Vec::new()) });
            }
        }
        if columns.is_empty() {
            return Ok(FixedWidthColumns::default());
        }
        let widths: Vec<_> = columns.iter().map(|column| (column.number, column.width)).collect();
        let chunks: Vec<_> = parts.chunks(BATCHES_AT_ONCE).collect();
        let bytes = parts.len() * columns.len() * RANDOM_ACCESS_BYTES;
        let chunks_columns = parallel::map(chunks.len(), bytes, |chunk| load_batches(frame, &widths, chunks[chunk]));
        for chunk_columns in chunks_columns {
            for (column, chunk_batches) in columns.iter_mut().zip(chunk_columns?) {
                match (&mut column.batches, chunk_batches) {
                    (Some(batches), Some(chunk_batches)) if batches.is_empty() => *batches = chunk_batches,
                    (Some(batches), Some(chunk_batches)) => batches.extend(chunk_batches),
                    _ => column.batches = None,
                }
            }
        }
        for batches in columns.iter().filter_map(|column| column.batches.as_ref()) {
            assert!(batches.len() == parts.len(), "bytes of {} batches of {}", batches.len(), parts.len());
        }
        Ok(FixedWidthColumns { columns })
    }

    /// Returns the column and its bytes in each batch.
    fn column(&self, number: usize) -> Option<(&FixedWidthColumn<'a>, &[&'a [u8]])> {
        let column = self.columns.iter().find(|column| column.number == number)?;
        Some((column, column.batches.as_deref()?))
    }

    /// Copies the rows `picks` of column number `column`.
    pub(super) fn gather(&self, data_type: &DataType, column: usize, picks: &[Pick]) -> Result<Option<ArrayData>> {
        let Some((column, from)) = self.column(column) else { return Ok(None) };
        column.array(data_type, picks.len(), gather_fixed_bytes(column.width, from, picks)?).map(Some)
    }

    /// Copies the rows `picks` of column number `column` as bytes side by side.
    pub(super) fn block(&self, column: usize, picks: &[Pick]) -> Result<Option<GrowableBuffer>> {
        let Some((column, from)) = self.column(column) else { return Ok(None) };
        let width = column.width;
        let bytes = picks.len().checked_mul(width).ok_or_else(|| Error::unsupported("more bytes than addresses"))?;
        let mut block = GrowableBuffer::with_len(bytes)?;
        let rows = (COPY_BYTES / width).max(1);
        let jobs = block.as_mut_slice().chunks_mut(rows.saturating_mul(width)).zip(picks.chunks(rows)).map(Ok);
        parallel::try_map(
            jobs,
            bytes,
            |(out, _)| out.len(),
            |(out, picks)| {
                assert!(out.len() == picks.len() * width, "{} bytes for {} rows of {width}", out.len(), picks.len());
                gather_fixed_into(width, from, picks, out)
            },
            || (),
        )?;
        Ok(Some(block))
    }

    /// Copies the `count` selected rows of column number `column`.
    pub(super) fn compress(
        &self,
        data_type: &DataType,
        column: usize,
        spans: &[SelectedRows],
        count: usize,
    ) -> Result<Option<ArrayData>> {
        let Some((column, from)) = self.column(column) else { return Ok(None) };
        let Some(values) = compress::values(column.width, from, spans, count)? else { return Ok(None) };
        column.array(data_type, count, values).map(Some)
    }
}

/// Returns the [`FixedWidthColumn::batches`] of columns, given with their widths, in the batches `parts`.
fn load_batches<'a>(
    frame: &Frame<'a>,
    widths: &[(usize, usize)],
    parts: &[usize],
) -> Result<Vec<Option<Vec<&'a [u8]>>>> {
    let mut columns: Vec<_> = widths.iter().map(|_| Some(Vec::with_capacity(parts.len()))).collect();
    let mut part_columns = Vec::with_capacity(widths.len());
    for &part in parts {
        part_columns.clear();
        frame.fixed_width_columns(part, widths.iter().copied(), &mut part_columns)?;
        assert!(part_columns.len() == widths.len(), "{} columns of {}", part_columns.len(), widths.len());
        for (batches, values) in columns.iter_mut().zip(&part_columns) {
            match (&mut *batches, values) {
                (Some(batches), Some(FixedWidthValues { values, has_nulls: false })) => batches.push(*values),
                _ => *batches = None,
            }
        }
    }
    Ok(columns)
}

impl FixedWidthColumn<'_> {
    fn array(&self, data_type: &DataType, len: usize, values: Buffer) -> Result<ArrayData> {
        if let DataType::FixedSizeList(..) = data_type {
            return fixed_size_lists(data_type, len, values)?.checked(&[]);
        }
        let children = self.dictionary.iter().cloned().map(UncheckedArray::from).collect();
        let parts = ArrayParts { data_type: data_type.clone(), len, validity: None, buffers: vec![values], children };
        parts.assemble().checked(self.dictionary.as_ref().as_slice())
    }
}

/// Builds `len` lists of one length whose innermost items are `values`.
fn fixed_size_lists(data_type: &DataType, len: usize, values: Buffer) -> Result<UncheckedArray> {
    let data_type = data_type.clone();
    let parts = match &data_type {
        DataType::FixedSizeList(item, size) => {
            let items = usize::try_from(*size).ok().and_then(|size| len.checked_mul(size));
            let Some(items) = items else { return Err(Error::internal("more items than there are addresses")) };
            let children = vec![fixed_size_lists(item.data_type(), items, values)?];
            ArrayParts { data_type, len, validity: None, buffers: Vec::new(), children }
        }
        _ => ArrayParts { data_type, len, validity: None, buffers: vec![values], children: Vec::new() },
    };
    Ok(parts.assemble())
}
