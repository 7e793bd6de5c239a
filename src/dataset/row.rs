//! [`Row`]: one row of a dataset, read in place.

use arrow_schema::Schema;

use super::source::RowLocation;
use crate::array::{UncheckedArray, Value, field_value, prefetch_text, prefetch_value, stored_value};
use crate::error::{Error, Result};
use crate::map::{self, ChangeCheck, with_change_check};
use crate::types::is_text_or_binary;

/// One row of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    schema: &'a Schema,
    at: RowLocation<'a>,
    /// The selected columns of the location, if the row is seen through a view.
    seen: Option<&'a [usize]>,
    /// Whether it is one of many rows: values are read from where they are stored, as far as that is known, without an array for
    /// each column of each batch.
    is_one_of_many: bool,
}

impl<'a> Row<'a> {
    pub(crate) fn new(schema: &'a Schema, at: RowLocation<'a>) -> Row<'a> {
        Row { schema, at, seen: None, is_one_of_many: false }
    }

    /// A row of a view: columns `columns` of the location `at`.
    pub(super) fn from_view(schema: &'a Schema, at: RowLocation<'a>, columns: &'a [usize]) -> Row<'a> {
        Row { schema, at, seen: Some(columns), is_one_of_many: false }
    }

    /// The same row, as one of many that lie anywhere.
    pub(super) fn for_random_access(self) -> Row<'a> {
        Row { is_one_of_many: true, ..self }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.schema.fields().len()
    }

    /// Whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of column number `column`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such column, `InvalidData` if the value is damaged, `FileChanged` if the file
    /// was overwritten. Text and nested values are in place: see [`guard`](crate::guard).
    pub fn get(&self, column: usize) -> Result<Value<'a>> {
        let check = |when| self.at.piece.source.check_unchanged(self.at.batch..self.at.batch + 1, when);
        with_change_check(ChangeCheck::Seldom, check, || self.read(column))
    }

    fn read(&self, column: usize) -> Result<Value<'a>> {
        let RowLocation { piece, batch, index } = self.at;
        let number =
            self.number(column).ok_or_else(|| Error::invalid_argument(format!("column {column} of {}", self.len())))?;
        let field = self.schema.field(column);
        if let Some(constant) = piece.source.constant(number) {
            return field_value(field, constant.one(), 0);
        }
        if let Some(bytes) = self.stored_bytes(column, number)
            && let Some(value) = stored_value(field, bytes)?
        {
            return Ok(value);
        }
        field_value(field, piece.source.column(batch, number)?, index)
            .map_err(|e| e.context(format_args!("batch {batch}, column '{}'", field.name())))
    }

    /// The number that a column has in the source.
    fn number(&self, column: usize) -> Option<usize> {
        let columns = &self.at.piece.columns;
        match self.seen {
            None => columns.get(column).copied(),
            Some(seen) => seen.get(column).and_then(|&column| columns.get(column)).copied(),
        }
    }

    /// The bytes of column number `column`, which has the number `number` in the source, if they are known without an array.
    #[inline]
    fn stored_bytes(&self, column: usize, number: usize) -> Option<&'a [u8]> {
        let RowLocation { piece, batch, index } = self.at;
        let width =
            if self.is_one_of_many { self.schema.field(column).data_type().primitive_width()? } else { return None };
        piece.source.value_bytes(batch, index, number, width)
    }

    /// Asks the processor for the values, without waiting for them; for texts only where they are.
    pub(super) fn load_soon(&self) {
        for column in 0..self.len() {
            match self.number(column).and_then(|number| self.stored_bytes(column, number)) {
                Some(bytes) => map::prefetch_line(bytes),
                None => self.stored(column).into_iter().for_each(|(array, row)| prefetch_value(array, row)),
            }
        }
    }

    /// Asks the processor for texts, without waiting for them.
    pub(super) fn load_texts_soon(&self) {
        let is_text = |&column: &usize| is_text_or_binary(self.schema.field(column).data_type());
        let texts = (0..self.len()).filter(is_text).filter_map(|column| self.stored(column));
        texts.for_each(|(array, row)| prefetch_text(array, row));
    }

    /// The array of a column, and the row in it. An error is that of the read.
    #[inline]
    fn stored(&self, column: usize) -> Option<(&'a UncheckedArray, usize)> {
        let RowLocation { piece, batch, index } = self.at;
        let number = self.number(column).filter(|&number| piece.source.constant(number).is_none())?;
        Some((piece.source.column(batch, number).ok()?, index))
    }

    /// Name and value of each column.
    ///
    /// # Errors
    /// For a value: as [`Row::get`].
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Result<Value<'a>>)> + use<'a> {
        let row = *self;
        (0..row.len()).map(move |column| (row.schema.field(column).name().as_str(), row.get(column)))
    }
}
