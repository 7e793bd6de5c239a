//! Columns of numbers, and of keys of one dictionary, as the bytes in which they lie in each batch: rows of thousands of
//! small batches are gathered without making arrays of them.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::compress;
use super::frame::Frame;
use super::gather::{Pick, fixed_from};
use super::mask::Span;
use crate::buffer::Parts;
use crate::dataset::Plain;
use crate::error::Result;
use crate::layout::layout;
use crate::validate;

/// The plain columns of some batches.
#[derive(Debug, Default)]
pub(super) struct Plains<'a> {
    columns: Vec<Column>,
    /// Batch by batch, each column.
    found: Vec<Option<Plain<'a>>>,
}

#[derive(Debug)]
struct Column {
    number: usize,
    width: usize,
    dictionary: Option<ArrayData>,
}

impl<'a> Plains<'a> {
    /// Of some columns in the batches `parts`.
    pub(super) fn of(
        frame: &Frame<'a>,
        schema: &SchemaRef,
        numbers: Range<usize>,
        parts: &[usize],
    ) -> Result<Plains<'a>> {
        let mut columns = Vec::new();
        for (number, field) in numbers.clone().zip(&schema.fields()[numbers]) {
            let (width, dictionary) = match field.data_type() {
                DataType::Dictionary(index, _) => (index.primitive_width(), frame.dictionary(number)?),
                other => (fixed_width(other), None),
            };
            let is_known = dictionary.is_some() || !matches!(field.data_type(), DataType::Dictionary(..));
            if let Some(width) = width.filter(|_| is_known) {
                columns.push(Column { number, width, dictionary });
            }
        }
        let mut found = Vec::with_capacity(columns.len() * parts.len());
        if !columns.is_empty() {
            let wanted = || columns.iter().map(|column| (column.number, column.width));
            parts.iter().try_for_each(|&part| frame.plain(part, wanted(), &mut found))?;
        }
        Ok(Plains { columns, found })
    }

    /// The column and its bytes in each batch; `None` where one of them has nulls, or is out of the ordinary.
    fn column(&self, number: usize) -> Option<(&Column, Vec<&'a [u8]>)> {
        let at = self.columns.iter().position(|column| column.number == number)?;
        let batches = self.found.iter().skip(at).step_by(self.columns.len());
        let values = batches.map(|plain| plain.filter(|plain| !plain.has_nulls).map(|plain| plain.values));
        Some((&self.columns[at], values.collect::<Option<_>>()?))
    }

    /// The rows `picks` of column number `column`.
    pub(super) fn gather(&self, data_type: &DataType, column: usize, picks: &[Pick]) -> Result<Option<ArrayData>> {
        let Some((column, from)) = self.column(column) else { return Ok(None) };
        column.array(data_type, picks.len(), fixed_from(column.width, &from, picks)?).map(Some)
    }

    /// The rows of column number `column` that have bits, `count` of them.
    pub(super) fn compress(
        &self,
        data_type: &DataType,
        column: usize,
        spans: &[Span],
        count: usize,
    ) -> Result<Option<ArrayData>> {
        let Some((column, from)) = self.column(column) else { return Ok(None) };
        let Some(values) = compress::values(column.width, &from, spans, count)? else { return Ok(None) };
        column.array(data_type, count, values).map(Some)
    }
}

impl Column {
    fn array(&self, data_type: &DataType, len: usize, values: Buffer) -> Result<ArrayData> {
        let children = self.dictionary.iter().cloned().collect();
        let parts = Parts { data_type: data_type.clone(), len, validity: None, buffers: vec![values], children };
        let array = parts.assemble();
        if self.dictionary.is_some() {
            validate::check(&array)?;
        }
        Ok(array)
    }
}

/// The bytes per row of values that can be anything.
pub(super) fn fixed_width(data_type: &DataType) -> Option<usize> {
    layout(data_type).plain_width().filter(|&width| width > 0 && validate::is_trivial(data_type))
}
