//! Columns of C values as a batch: `arrowwood_column` of the header.

use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::{ArrayRef, BooleanArray, NullArray, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrowwood::{Error, ErrorKind, Result, guard, type_name};

use crate::error::invalid_argument;
use crate::ffi::*;

structs! {
    /// `arrowwood_column`.
    struct CColumn {
        values: InSlice<u8>,
        offsets: InSlice<i64>,
        valid: InSlice<u8>,
    }
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CColumn>() == 48 && offset_of!(CColumn, offsets) == 16 && offset_of!(CColumn, valid) == 32);
};

/// Builds a batch of `rows` rows with the values of `columns`, one for each field of `schema`. All are copied.
///
/// # Errors
/// `InvalidArgument` for other columns or another number of values, and for text that is not UTF-8, naming column and
/// row; `Unsupported` for nested types; `FileChanged` if the values lie in a mapped file that was truncated.
pub fn build_batch(schema: &Schema, rows: u64, columns: &[CColumn]) -> Result<RecordBatch> {
    let fields = schema.fields();
    if columns.len() != fields.len() {
        let expected = fields.len();
        let got = columns.len();
        let message = format!("'columns': expected {expected} columns, those of the schema, got {got}");
        return Err(invalid_argument(message));
    }
    let rows =
        usize::try_from(rows).map_err(|_| invalid_argument(format!("'rows': {rows} rows don't fit into memory")))?;
    let mut arrays = Vec::with_capacity(columns.len());
    for (field, column) in fields.iter().zip(columns) {
        let array = guard(|| RawColumn::try_new(column, rows)?.array(field.data_type()));
        arrays.push(array.map_err(|e| e.context(format_args!("column '{}'", field.name())))?);
    }
    assert!(arrays.iter().all(|array| array.len() == rows), "each array must have {rows} rows");
    let fields =
        fields.iter().zip(&arrays).map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(broken)
}

fn broken(error: ArrowError) -> Error {
    invalid_argument(error.to_string())
}

/// The values of a column, each of which may lie in a mapped file: only inside of a guard.
struct RawColumn<'a> {
    rows: usize,
    bytes: &'a [u8],
    offsets: &'a [i64],
    nulls: Option<NullBuffer>,
}

impl RawColumn<'_> {
    fn try_new(column: &CColumn, rows: usize) -> Result<RawColumn<'_>> {
        let valid = column.valid.to_rust("valid")?;
        if !valid.is_empty() && valid.len() != rows {
            return Err(invalid_argument(format!(
                "valid_count: expected {rows}, a byte for each row, got {}",
                valid.len()
            )));
        }
        let nulls = BooleanBuffer::collect_bool(valid.len(), |row| valid[row] != 0);
        Ok(RawColumn {
            rows,
            bytes: column.values.to_rust("values")?,
            offsets: column.offsets.to_rust("offsets")?,
            nulls: Some(NullBuffer::new(nulls)).filter(|nulls| nulls.null_count() > 0),
        })
    }

    fn array(self, data_type: &DataType) -> Result<ArrayRef> {
        use DataType::*;
        match data_type {
            Dictionary(_, values) => return self.array(values),
            Utf8 | LargeUtf8 | Utf8View => return self.texts(),
            Binary | LargeBinary | BinaryView => return self.binary(),
            _ if !self.offsets.is_empty() => {
                let name = type_name(data_type);
                return Err(invalid_argument(format!(
                    "offsets are those of text and bytes; values of {name} have none"
                )));
            }
            _ => (),
        }
        match data_type {
            Null => self.check_size(0).map(|()| Arc::new(NullArray::new(self.rows)) as ArrayRef),
            Boolean => {
                self.check_size(1)?;
                let bits = BooleanBuffer::collect_bool(self.rows, |row| self.bytes[row] != 0);
                Ok(Arc::new(BooleanArray::new(bits, self.nulls)))
            }
            FixedSizeBinary(width) => match usize::try_from(*width) {
                Ok(width) => self.fixed(data_type, width),
                Err(_) => Err(invalid_argument(format!("values of {} can't have a width", type_name(data_type)))),
            },
            other => match other.primitive_width() {
                Some(width) => self.fixed(data_type, width),
                None => {
                    let name = type_name(other);
                    let message = format!("{name} has no plain values; append it as Arrow data");
                    Err(Error::new(ErrorKind::Unsupported, message))
                }
            },
        }
    }

    fn check_size(&self, width: usize) -> Result<()> {
        if self.rows.checked_mul(width) == Some(self.bytes.len()) {
            return Ok(());
        }
        let (rows, got) = (self.rows, self.bytes.len());
        Err(invalid_argument(format!("size: expected {width} bytes for each of {rows} rows, got {got} bytes")))
    }

    fn fixed(self, data_type: &DataType, width: usize) -> Result<ArrayRef> {
        self.check_size(width)?;
        let built = ArrayData::builder(data_type.clone()).len(self.rows).nulls(self.nulls);
        Ok(make_array(built.add_buffer(Buffer::from(self.bytes)).build().map_err(broken)?))
    }

    fn texts(self) -> Result<ArrayRef> {
        let mut builder = LargeStringBuilder::with_capacity(self.rows, self.bytes.len());
        self.each(|row, bytes| {
            let text = bytes.map(std::str::from_utf8).transpose();
            builder.append_option(text.map_err(|e| invalid_argument(format!("row {row}: a text is not UTF-8: {e}")))?);
            Ok(())
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn binary(self) -> Result<ArrayRef> {
        let mut builder = LargeBinaryBuilder::with_capacity(self.rows, self.bytes.len());
        self.each(|_, bytes| {
            builder.append_option(bytes);
            Ok(())
        })?;
        Ok(Arc::new(builder.finish()))
    }

    /// Calls `visit` with the number and the bytes of each row, `None` for a null.
    fn each(&self, mut visit: impl FnMut(usize, Option<&[u8]>) -> Result<()>) -> Result<()> {
        let expected = if self.rows == 0 { self.offsets.len().min(1) } else { self.rows.saturating_add(1) };
        if self.offsets.len() != expected {
            let (rows, got) = (self.rows, self.offsets.len());
            return Err(invalid_argument(format!("offset_count: expected one more than {rows} rows, got {got}")));
        }
        for (row, ends) in self.offsets.windows(2).enumerate() {
            let [from, to] = [ends[0], ends[1]];
            let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            let bytes = range.and_then(|(from, to)| self.bytes.get(from..to)).ok_or_else(|| {
                let size = self.bytes.len();
                invalid_argument(format!("row {row}: offsets {from} and {to} are not in order inside of {size} bytes"))
            })?;
            let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            visit(row, (!is_null).then_some(bytes))?;
        }
        Ok(())
    }
}
