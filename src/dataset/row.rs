//! [`Row`]: one row of a dataset, its values read where they lie.

use arrow_schema::Schema;

use super::source::Piece;
use crate::array::{Value, field_value};
use crate::error::{Error, Result};
use crate::map::{Look, watched};

/// One row of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    schema: &'a Schema,
    piece: &'a Piece,
    batch: usize,
    index: usize,
    /// Which of the piece's columns, where the row is seen through a view.
    seen: Option<&'a [usize]>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(schema: &'a Schema, piece: &'a Piece, batch: usize, index: usize) -> Row<'a> {
        Row { schema, piece, batch, index, seen: None }
    }

    /// The same row with columns `columns` only, and their schema. It is not seen through a view itself.
    pub(crate) fn seen_by<'b>(self, schema: &'b Schema, columns: &'b [usize]) -> Row<'b>
    where
        'a: 'b,
    {
        Row { schema, seen: Some(columns), ..self }
    }

    /// Whether the row is seen through a view.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen.is_some()
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
    /// `InvalidData` where it is damaged, `FileChanged` where somebody has written to the file. Text and what is nested
    /// lies in place: see [`guard`](crate::guard).
    pub fn get(&self, column: usize) -> Result<Value<'a>> {
        let look = |when| self.piece.source.look(self.batch..self.batch + 1, when);
        watched(Look::Seldom, look, || self.read(column))
    }

    fn read(&self, column: usize) -> Result<Value<'a>> {
        let inside = match self.seen {
            None => self.piece.columns.get(column),
            Some(seen) => seen.get(column).and_then(|&column| self.piece.columns.get(column)),
        };
        let &number = inside.ok_or_else(|| Error::argument(format!("column {column} of {}", self.len())))?;
        field_value(self.schema.field(column), self.piece.source.column(self.batch, number)?, self.index)
            .map_err(|e| e.context(format_args!("batch {}, column '{}'", self.batch, self.schema.field(column).name())))
    }

    /// Name and value of each column.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Result<Value<'a>>)> + use<'a> {
        let row = *self;
        (0..row.len()).map(move |column| (row.schema.field(column).name().as_str(), row.get(column)))
    }
}
