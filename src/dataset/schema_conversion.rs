//! Converts columns of an older schema to a newer one: new columns are null, numbers are widened. Made on demand, since
//! files are never changed.

use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{FieldRef, Schema, SchemaRef};

use super::dataset::schema_difference;
#[cfg(feature = "table")]
use crate::array::narrowed;
use crate::array::{is_wider, nulls, widened};
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
    /// None: all values are null.
    Null,
}

/// The conversion of an older schema's columns to a newer schema.
#[derive(Clone, Debug)]
pub(crate) struct SchemaConversion {
    schema: SchemaRef,
    columns: Box<[ColumnConversion]>,
}

impl SchemaConversion {
    /// The conversion from `older` to `newer`; `None` if they are the same.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't be converted.
    pub fn try_new(newer: &SchemaRef, older: &Schema) -> Result<Option<SchemaConversion>> {
        let Some(difference) = schema_difference(newer, older) else { return Ok(None) };
        let mismatch = |message: String| Error::new(ErrorKind::SchemaMismatch, message);
        if let Some(field) = older.fields().iter().find(|field| newer.index_of(field.name()).is_err()) {
            let name = field.name();
            return Err(mismatch(format!("{difference}; and the newer one has no column '{name}'")));
        }
        let column = |number: usize| {
            let field = newer.field(number);
            let name = field.name();
            match older.index_of(name) {
                Ok(found) if older.field(found).data_type() == field.data_type() => Ok(ColumnConversion::Same(found)),
                Ok(found) if is_wider(older.field(found).data_type(), field.data_type()) => {
                    Ok(ColumnConversion::Wider(found))
                }
                Ok(found) => {
                    let from = type_name(older.field(found).data_type());
                    let to = type_name(field.data_type());
                    Err(mismatch(format!("column '{name}' is {from}, which is not read as {to}")))
                }
                Err(_) if field.is_nullable() => Ok(ColumnConversion::Null),
                Err(_) => Err(mismatch(format!("column '{name}' is missing, and has no nulls"))),
            }
        };
        let columns = (0..newer.fields().len()).map(column).collect::<Result<_>>()?;
        Ok(Some(SchemaConversion { schema: newer.clone(), columns }))
    }
}

#[cfg(feature = "table")]
impl SchemaConversion {
    /// The conversion to `older` from `newer`, with which its rows were rewritten.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't have been rewritten this way.
    pub fn try_reverse(older: &SchemaRef, newer: &Schema) -> Result<SchemaConversion> {
        let column = |field: &FieldRef| {
            let to = field.data_type();
            let found = newer.index_of(field.name()).ok().map(|number| (number, newer.field(number).data_type()));
            match found {
                Some((number, from)) if from == to => Ok(ColumnConversion::Same(number)),
                Some((number, from)) if is_wider(from, to) => Ok(ColumnConversion::Wider(number)),
                Some((number, from)) if is_wider(to, from) => Ok(ColumnConversion::Narrower(number)),
                _ => {
                    let message = format!("column '{}' is not there as {}", field.name(), type_name(to));
                    Err(Error::new(ErrorKind::SchemaMismatch, message))
                }
            }
        };
        let columns = older.fields().iter().map(column).collect::<Result<_>>()?;
        Ok(SchemaConversion { schema: older.clone(), columns })
    }
}

impl SchemaConversion {
    /// The number of the original column of column `column`, if it is unchanged.
    pub fn unchanged_column(&self, column: usize) -> Option<usize> {
        match self.columns.get(column) {
            Some(ColumnConversion::Same(number)) => Some(*number),
            _ => None,
        }
    }

    /// The number of the original column of column `column`.
    pub fn source_column(&self, column: usize) -> Option<usize> {
        match self.columns.get(column) {
            Some(ColumnConversion::Same(number) | ColumnConversion::Wider(number)) => Some(*number),
            _ => None,
        }
    }
}

/// The columns of both schemas: with the wider type where they differ, and nullable if either is nullable or lacks the
/// column.
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
        let types = (field.data_type(), other.data_type());
        let wider = if types.0 == types.1 || is_wider(types.1, types.0) { types.0 } else { types.1 };
        if wider != types.0 && !is_wider(types.0, types.1) {
            let name = field.name();
            let message = format!("column '{name}' is {} and {}", type_name(types.0), type_name(types.1));
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        let is_nullable = field.is_nullable() || other.is_nullable();
        fields.push(Arc::new(field.as_ref().clone().with_data_type(wider.clone()).with_nullable(is_nullable)));
    }
    let added = second.fields().iter().filter(|field| first.index_of(field.name()).is_err());
    fields.extend(added.map(|field| Arc::new(field.as_ref().clone().with_nullable(true))));
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// Columns of a dataset in a newer schema of its source: the same ones, or all if all were selected; and its schema
/// with the column names there.
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
    let find = |&column: &usize| {
        let name = older.field(column).name();
        let missing = |_| {
            let message = format!("there is no column '{name}' any more; open it anew");
            Error::new(ErrorKind::SchemaMismatch, message)
        };
        newer.index_of(name).map_err(missing)
    };
    let found = columns.iter().map(find).collect::<Result<Vec<_>>>()?;
    let is_whole = columns.iter().copied().eq(0..older.fields().len());
    let chosen: Arc<[usize]> = if is_whole { (0..newer.fields().len()).collect() } else { found.clone().into() };
    let field = |column: &usize| {
        let field = newer.field(*column).clone();
        match found.iter().position(|known| known == column) {
            Some(number) => field.with_name(dataset.field(number).name()),
            None => field,
        }
    };
    let fields: Vec<_> = chosen.iter().map(field).collect();
    Ok((Arc::new(Schema::new_with_metadata(fields, newer.metadata().clone())), chosen))
}

/// The columns of one batch in a newer schema, each made when it is first used.
#[derive(Debug)]
pub(crate) struct ConvertedColumns {
    fit: SchemaConversion,
    rows: usize,
    made: Box<[OnceLock<ArrayData>]>,
}

impl ConvertedColumns {
    /// The columns of a batch of `rows` rows.
    pub fn new(fit: SchemaConversion, rows: usize) -> ConvertedColumns {
        let made = fit.columns.iter().map(|_| OnceLock::new()).collect();
        ConvertedColumns { fit, rows, made }
    }

    /// [`SchemaConversion::unchanged_column`].
    #[cfg(feature = "table")]
    pub fn unchanged_column(&self, column: usize) -> Option<usize> {
        self.fit.unchanged_column(column)
    }

    /// Returns column `column`; `checked` returns original columns by number.
    ///
    /// # Errors
    /// Those of `checked`; `InvalidArgument` if there is no such column.
    pub fn checked<'a>(
        &'a self,
        column: usize,
        checked: impl FnOnce(usize) -> Result<&'a ArrayData>,
    ) -> Result<&'a ArrayData> {
        let missing = || Error::invalid_argument(format!("there is no column {column}"));
        let (fit, place) = self.fit.columns.get(column).zip(self.made.get(column)).ok_or_else(missing)?;
        if let ColumnConversion::Same(number) = fit {
            return checked(*number);
        }
        if let Some(array) = place.get() {
            return Ok(array);
        }
        let data_type = self.fit.schema.field(column).data_type();
        let array = match fit {
            ColumnConversion::Wider(number) => {
                let internal = || Error::internal("a column that is not widened as its schema says");
                widened(checked(*number)?, data_type).ok_or_else(internal)?
            }
            #[cfg(feature = "table")]
            ColumnConversion::Narrower(number) => {
                let internal = || Error::internal("a column that is not narrowed as its schema says");
                narrowed(checked(*number)?, data_type).ok_or_else(internal)?
            }
            _ => nulls(data_type, self.rows)
                .map_err(|e| e.context(format_args!("column '{}'", self.fit.schema.field(column).name())))?,
        };
        Ok(place.get_or_init(|| array))
    }

    /// The bytes of the columns that were made.
    pub fn copied(&self) -> u64 {
        self.made.iter().filter_map(OnceLock::get).map(|array| array.get_buffer_memory_size() as u64).sum()
    }
}
