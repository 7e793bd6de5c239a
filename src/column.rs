//! [`Column`]: one column of a dataset.

use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::value::Value;

/// One column of a dataset, over one or many batches.
#[derive(Clone, Debug)]
pub struct Column {
    dataset: Dataset,
    field: FieldRef,
}

impl Column {
    pub(crate) fn new(dataset: Dataset) -> Result<Column> {
        match &dataset.schema().fields()[..] {
            [field] => Ok(Column { field: field.clone(), dataset }),
            fields => Err(Error::argument(format!("a column is a dataset of one column, not {}", fields.len()))),
        }
    }

    /// Name, type, nullability and metadata.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        self.field.name()
    }

    /// The type of the values.
    pub fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// The number of rows.
    pub fn len(&self) -> Result<u64> {
        self.dataset.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> Result<bool> {
        self.dataset.is_empty()
    }

    /// The column as a dataset of one column.
    pub fn as_dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The value of row `row`.
    pub fn get(&self, row: u64) -> Result<Value<'_>> {
        self.dataset.row(row)?.get(0)
    }

    /// Rows `start .. start + len`, or as many of them as there are.
    pub fn slice(&self, start: u64, len: u64) -> Result<Column> {
        Column::new(self.dataset.slice(start, len)?)
    }

    /// All values in order.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'_>>> {
        self.dataset.rows().map(|row| row?.get(0))
    }

    /// The number of nulls, from the bitmaps.
    pub fn null_count(&self) -> Result<u64> {
        let chunks = self.chunks()?;
        Ok(chunks
            .iter()
            .map(|chunk| if chunk.data_type() == &DataType::Null { chunk.len() } else { chunk.null_count() } as u64)
            .sum())
    }

    /// The column as arrays, one per batch, values checked, nothing copied.
    pub fn chunks(&self) -> Result<Vec<ArrayData>> {
        self.dataset.parts().map(|part| part.and_then(|part| part.column(part.piece.columns[0]))).collect()
    }

    /// The error of an operation that this type does not have.
    pub(crate) fn not_possible(&self, what: &str) -> Error {
        let (name, data_type) = (self.name(), self.data_type());
        Error::new(ErrorKind::Unsupported, format!("{what} of column '{name}' of type {data_type} is not supported"))
    }
}
