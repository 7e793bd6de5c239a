//! Converts columns of an older schema to a newer one: new columns are null, numbers are widened. The columns are
//! converted when they are read, since files are never changed.

use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{FieldRef, Schema, SchemaRef};

use super::dataset::schema_difference;
#[cfg(feature = "table")]
use crate::array::narrowed;
use crate::array::{is_wider, nulls, require_little_endian, widened};
use crate::error::{Error, ErrorKind, Result};
use crate::types::type_name;

/// The origin of a column of the newer schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnConversion {
    /// The column of that number, unchanged.
    Same(usize),
    /// The column of that number, widened.
    Wider(usize),
    /// The column of that number, narrowed to its previous type.
    #[cfg(feature = "table")]
    Narrower(usize),
    /// A column without an origin: all values are null.
    Null,
}

/// The conversion of an older schema's columns to a newer schema.
#[derive(Clone, Debug)]
pub(crate) struct SchemaConversion {
    schema: SchemaRef,
    columns: Box<[ColumnConversion]>,
}

impl SchemaConversion {
    /// Returns the conversion from `older` to `newer`; `None` if they are the same.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't be converted.
    pub fn try_new(newer: &SchemaRef, older: &Schema) -> Result<Option<SchemaConversion>> {
        let Some(difference) = schema_difference(newer, older) else { return Ok(None) };
        if let Some(field) = older.fields().iter().find(|field| newer.index_of(field.name()).is_err()) {
            let name = field.name();
            return Err(mismatch(format!("{difference}; and the newer one has no column '{name}'")));
        }
        let mut columns = Vec::with_capacity(newer.fields().len());
        for field in newer.fields() {
            let name = field.name();
            let Ok(number) = older.index_of(name) else {
                if !field.is_nullable() {
                    return Err(mismatch(format!("column '{name}' is missing, and has no nulls")));
                }
                columns.push(ColumnConversion::Null);
                continue;
            };
            let from = older.field(number).data_type();
            let to = field.data_type();
            if from == to {
                columns.push(ColumnConversion::Same(number));
            } else if is_wider(from, to) {
                columns.push(ColumnConversion::Wider(number));
            } else {
                let from = type_name(from);
                let to = type_name(to);
                return Err(mismatch(format!("column '{name}' is {from}, which is not read as {to}")));
            }
        }
        Ok(Some(SchemaConversion { schema: newer.clone(), columns: columns.into() }))
    }
}

fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::SchemaMismatch, message)
}

#[cfg(feature = "table")]
impl SchemaConversion {
    /// Returns the conversion back to `older` of rows that were rewritten in the schema `newer`.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't have been rewritten this way.
    pub fn try_reverse(older: &SchemaRef, newer: &Schema) -> Result<SchemaConversion> {
        let mut columns = Vec::with_capacity(older.fields().len());
        for field in older.fields() {
            let to = field.data_type();
            let origin = newer.index_of(field.name()).ok().map(|number| (number, newer.field(number).data_type()));
            columns.push(match origin {
                Some((number, from)) if from == to => ColumnConversion::Same(number),
                Some((number, from)) if is_wider(from, to) => ColumnConversion::Wider(number),
                Some((number, from)) if is_wider(to, from) => ColumnConversion::Narrower(number),
                _ => return Err(mismatch(format!("column '{}' is not there as {}", field.name(), type_name(to)))),
            });
        }
        Ok(SchemaConversion { schema: older.clone(), columns: columns.into() })
    }
}

impl SchemaConversion {
    /// Returns the number of the original column of column `column`, if it is unchanged.
    pub fn unchanged_column(&self, column: usize) -> Option<usize> {
        match self.columns.get(column) {
            Some(ColumnConversion::Same(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the number of the original column of column `column`, if it has the same values.
    pub fn source_column(&self, column: usize) -> Option<usize> {
        match self.columns.get(column) {
            Some(ColumnConversion::Same(number) | ColumnConversion::Wider(number)) => Some(*number),
            _ => None,
        }
    }
}

/// Returns a schema with the columns of both schemas, with the wider type where they differ. A column is nullable if it
/// is nullable in either schema or missing in one.
///
/// # Errors
/// `SchemaMismatch` with the first column for which neither type is wider.
pub(crate) fn merge_schemas(first: &SchemaRef, second: &Schema) -> Result<SchemaRef> {
    if first.fields() == second.fields() {
        return Ok(first.clone());
    }
    let mut fields: Vec<FieldRef> = Vec::with_capacity(first.fields().len());
    for field in first.fields() {
        let Ok(other) = second.field_with_name(field.name()) else {
            fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            continue;
        };
        let first_type = field.data_type();
        let second_type = other.data_type();
        let wider = if first_type == second_type || is_wider(second_type, first_type) {
            first_type
        } else if is_wider(first_type, second_type) {
            second_type
        } else {
            let name = field.name();
            return Err(mismatch(format!(
                "column '{name}' is {} and {}",
                type_name(first_type),
                type_name(second_type)
            )));
        };
        let is_nullable = field.is_nullable() || other.is_nullable();
        fields.push(Arc::new(field.as_ref().clone().with_data_type(wider.clone()).with_nullable(is_nullable)));
    }
    let added = second.fields().iter().filter(|field| first.index_of(field.name()).is_err());
    fields.extend(added.map(|field| Arc::new(field.as_ref().clone().with_nullable(true))));
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// Finds the columns of a dataset in a newer schema of its source. If all were selected, new columns are selected as
/// well.
///
/// `dataset` is the dataset's schema, and `columns` are the numbers of its columns in `older`. Returns the numbers in
/// `newer`, and the dataset's new schema, in which columns that it has renamed keep their names.
///
/// # Errors
/// `SchemaMismatch` if a column is missing.
#[cfg(feature = "table")]
pub(crate) fn resolve_columns(
    dataset: &Schema,
    columns: &[usize],
    older: &Schema,
    newer: &Schema,
) -> Result<(SchemaRef, Arc<[usize]>)> {
    assert_eq!(columns.len(), dataset.fields().len(), "a column of the source for each column of the dataset");
    let mut moved = Vec::with_capacity(columns.len());
    for &column in columns {
        let name = older.field(column).name();
        let Ok(number) = newer.index_of(name) else {
            return Err(mismatch(format!("there is no column '{name}' any more; open it anew")));
        };
        moved.push(number);
    }

    let is_whole = columns.iter().copied().eq(0..older.fields().len());
    let selected: Arc<[usize]> = if is_whole { (0..newer.fields().len()).collect() } else { moved.clone().into() };
    let mut fields = Vec::with_capacity(selected.len());
    for &column in selected.iter() {
        let field = newer.field(column).clone();
        fields.push(match moved.iter().position(|&number| number == column) {
            Some(position) => field.with_name(dataset.field(position).name()),
            None => field,
        });
    }
    Ok((Arc::new(Schema::new_with_metadata(fields, newer.metadata().clone())), selected))
}

/// The columns of one batch in a newer schema, each converted when it is first used.
#[derive(Debug)]
pub(crate) struct ConvertedColumns {
    conversion: SchemaConversion,
    rows: usize,
    converted: Box<[OnceLock<ArrayData>]>,
}

impl ConvertedColumns {
    /// Creates the columns of a batch of `rows` rows, without converting any.
    pub fn new(conversion: SchemaConversion, rows: usize) -> ConvertedColumns {
        assert_eq!(conversion.columns.len(), conversion.schema.fields().len(), "a conversion for each column");
        let converted = conversion.columns.iter().map(|_| OnceLock::new()).collect();
        ConvertedColumns { conversion, rows, converted }
    }

    /// See [`SchemaConversion::unchanged_column`].
    #[cfg(feature = "table")]
    pub fn unchanged_column(&self, column: usize) -> Option<usize> {
        self.conversion.unchanged_column(column)
    }

    /// Returns column `column`; `checked` returns original columns by number.
    ///
    /// # Errors
    /// Errors of `checked`; `InvalidArgument` if there is no such column.
    pub fn checked<'a>(
        &'a self,
        column: usize,
        checked: impl FnOnce(usize) -> Result<&'a ArrayData>,
    ) -> Result<&'a ArrayData> {
        let Some(&conversion) = self.conversion.columns.get(column) else {
            return Err(Error::invalid_argument(format!("there is no column {column}")));
        };
        let converted = &self.converted[column];
        if let Some(array) = converted.get() {
            return Ok(array);
        }

        if !matches!(conversion, ColumnConversion::Same(_) | ColumnConversion::Null) {
            require_little_endian("converting values to another type")?;
        }
        let field = self.conversion.schema.field(column);
        let array = match conversion {
            ColumnConversion::Same(number) => return checked(number),
            ColumnConversion::Wider(number) => widened(checked(number)?, field.data_type())
                .ok_or_else(|| Error::internal("a column that is not widened as its schema says"))?,
            #[cfg(feature = "table")]
            ColumnConversion::Narrower(number) => narrowed(checked(number)?, field.data_type())
                .ok_or_else(|| Error::internal("a column that is not narrowed as its schema says"))?,
            ColumnConversion::Null => {
                nulls(field.data_type(), self.rows).map_err(|e| e.context(format_args!("column '{}'", field.name())))?
            }
        };
        Ok(converted.get_or_init(|| array))
    }

    /// Returns the size in bytes of the columns that were converted.
    pub fn copied(&self) -> u64 {
        self.converted.iter().filter_map(OnceLock::get).map(|array| array.get_buffer_memory_size() as u64).sum()
    }
}
