//! [`Row`]: one row of a dataset, read in place.

use arrow_schema::Schema;

use super::source::RowLocation;
use crate::array::{UncheckedArray, Value, field_value, prefetch_text, prefetch_value, stored_value};
use crate::error::{Error, Result};
use crate::map::{self, ChangeCheck, with_change_check};
use crate::types::is_text_or_binary;

/// One row of a dataset.
///
/// Its values are read when they are asked for: [`Row::get`] reads one, [`Row::iter`] all.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    schema: &'a Schema,
    location: RowLocation<'a>,
    /// The columns of the row among the columns of the location's piece, if the row is seen through a view.
    view_columns: Option<&'a [usize]>,
    /// True for one of many scattered rows: values are read where they are stored, if that is known, without making an
    /// array for each column of each batch.
    is_random_access: bool,
}

impl<'a> Row<'a> {
    pub(crate) fn new(schema: &'a Schema, location: RowLocation<'a>) -> Row<'a> {
        Row { schema, location, view_columns: None, is_random_access: false }
    }

    /// Creates a row of a view, with columns `columns` of `location`.
    pub(super) fn from_view(schema: &'a Schema, location: RowLocation<'a>, columns: &'a [usize]) -> Row<'a> {
        debug_assert_eq!(columns.len(), schema.fields().len(), "a column for each field");
        Row { schema, location, view_columns: Some(columns), is_random_access: false }
    }

    /// Returns the same row, to be read as one of many scattered rows.
    pub(super) fn for_random_access(self) -> Row<'a> {
        Row { is_random_access: true, ..self }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.schema.fields().len()
    }

    /// Returns true if there are no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of column number `column`, counted from 0.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such column, `InvalidData` if the value is damaged, `FileChanged` if the file
    /// was overwritten. Text and nested values are in place: see [`guard`](crate::guard).
    pub fn get(&self, column: usize) -> Result<Value<'a>> {
        let RowLocation { piece, batch, .. } = self.location;
        with_change_check(
            ChangeCheck::Seldom,
            |when| piece.source.check_unchanged(batch..batch + 1, when),
            || self.read(column),
        )
    }

    fn read(&self, column: usize) -> Result<Value<'a>> {
        let RowLocation { piece, batch, index } = self.location;
        let Some(number) = self.source_column(column) else {
            return Err(Error::invalid_argument(format!("column {column} of {}", self.len())));
        };
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

    /// Returns the number that a column has in the source.
    fn source_column(&self, column: usize) -> Option<usize> {
        let columns = &self.location.piece.columns;
        match self.view_columns {
            None => columns.get(column).copied(),
            Some(view_columns) => view_columns.get(column).and_then(|&column| columns.get(column)).copied(),
        }
    }

    /// Returns the bytes of column number `column`, which is column `number` of the source, if they are known without
    /// an array.
    #[inline]
    fn stored_bytes(&self, column: usize, number: usize) -> Option<&'a [u8]> {
        if !self.is_random_access {
            return None;
        }
        let RowLocation { piece, batch, index } = self.location;
        let width = self.schema.field(column).data_type().primitive_width()?;
        piece.source.value_bytes(batch, index, number, width)
    }

    /// Asks the processor to load the values, without waiting for them. Texts are loaded by
    /// [`load_texts_soon`](Row::load_texts_soon), once their offsets are there.
    pub(super) fn load_soon(&self) {
        for column in 0..self.len() {
            if let Some(number) = self.source_column(column)
                && let Some(bytes) = self.stored_bytes(column, number)
            {
                map::prefetch_line(bytes);
            } else if let Some((array, row)) = self.stored(column) {
                prefetch_value(array, row);
            }
        }
    }

    /// Asks the processor to load texts, without waiting for them.
    pub(super) fn load_texts_soon(&self) {
        for column in 0..self.len() {
            if is_text_or_binary(self.schema.field(column).data_type())
                && let Some((array, row)) = self.stored(column)
            {
                prefetch_text(array, row);
            }
        }
    }

    /// Returns the array of a column, and the row in it. Errors are reported by the read.
    #[inline]
    fn stored(&self, column: usize) -> Option<(&'a UncheckedArray, usize)> {
        let RowLocation { piece, batch, index } = self.location;
        let number = self.source_column(column).filter(|&number| piece.source.constant(number).is_none())?;
        Some((piece.source.column(batch, number).ok()?, index))
    }

    /// Returns an iterator over the name and the value of each column.
    ///
    /// # Errors
    /// For a value: as [`Row::get`].
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Result<Value<'a>>)> + use<'a> {
        let row = *self;
        (0..row.len()).map(move |column| (row.schema.field(column).name().as_str(), row.get(column)))
    }
}
