//! The order of values, for sorted columns of tables.

use std::sync::Arc;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};

use super::comparable_value::ComparableValue;
use super::dataset::Dataset;
use crate::array::{Value, value, value_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::types::MILLIS_PER_DAY;
use crate::types::layout::zones_agree;

/// Returns true if columns of the type can be sorted.
pub(crate) fn is_sortable(data_type: &DataType) -> bool {
    use DataType::*;
    let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
    is_text || data_type.is_integer() || data_type.is_floating() || data_type.is_decimal() || {
        matches!(data_type, Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_) | Duration(_) | FixedSizeBinary(_))
    }
}

/// Checks that no row of `array` is less than the row before it, and the first not less than `last`. Returns the key of
/// the last row.
///
/// # Errors
/// `InvalidArgument` with the first row that is less, or that has no key.
pub(crate) fn check_ascending(
    name: &str,
    array: &ArrayData,
    last: Option<&ComparableValue>,
) -> Result<Option<ComparableValue>> {
    if array.is_empty() {
        return Ok(last.cloned());
    }
    if let Some((first, end)) = ascending_words(array) {
        let first = ComparableValue::Int(first.into());
        if last.is_none_or(|last| *last <= first) {
            return Ok(Some(ComparableValue::Int(end.into())));
        }
    }

    let mut previous = last.cloned();
    for row in 0..array.len() {
        let cell = value(array, row)?;
        let Some(key) = ComparableValue::from_value(&cell) else {
            let message = format!("column '{name}', row {row}: {cell} in the column that the table is sorted by");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        };
        if previous.as_ref().is_some_and(|previous| key < *previous) {
            let message = format!(
                "column '{name}', row {row}: {cell} is less than the row before, and the table is sorted by it; leave \
                 the row out, or create the table with late=\"accept\""
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        previous = Some(key);
    }
    Ok(previous)
}

/// Returns the first and the last of 64-bit numbers without nulls that never decrease; `None` for anything else.
fn ascending_words(array: &ArrayData) -> Option<(i64, i64)> {
    use DataType::{Duration, Int64, Time64, Timestamp};
    // A date64 is compared by its day.
    let is_signed = matches!(array.data_type(), Int64 | Timestamp(..) | Time64(_) | Duration(_));
    if !is_signed || array.null_count() > 0 {
        return None;
    }
    let words = array.buffers().first()?.as_chunks::<{ size_of::<i64>() }>().0;
    let words = words.get(array.offset()..array.offset() + array.len())?;
    let pairs = words.iter().zip(words.iter().skip(1));
    // Without an early return, so that the loop is vectorized.
    let is_sorted = pairs.fold(true, |sorted, (&a, &b)| sorted & (i64::from_le_bytes(a) <= i64::from_le_bytes(b)));
    let ends = (i64::from_le_bytes(*words.first()?), i64::from_le_bytes(*words.last()?));
    is_sorted.then_some(ends)
}

/// # Order of the rows
impl Dataset {
    /// Returns the column by which the rows are sorted, if their table was created with one.
    ///
    /// It has its name in this dataset. `None` if only another column has its name, and for tables that accept late rows.
    pub fn sorted_by(&self) -> Option<FieldRef> {
        let sorted = self.sorted_column().ok()?;
        let number = *sorted.pieces().first()?.columns.first()?;
        if let Some(position) = self.position_of(number) {
            return self.schema().fields().get(position).cloned();
        }
        // The column is not selected: it has the name of its source, unless another column has been given that name.
        let field = sorted.schema().fields().first()?;
        if self.schema().column_with_name(field.name()).is_some() {
            return None;
        }
        Some(field.clone())
    }

    /// Returns the column by which rows of the dataset's table may be late: its rows are unordered.
    pub fn late_by(&self) -> Option<FieldRef> {
        let position = self.position_of(self.late_column()?)?;
        self.schema().fields().get(position).cloned()
    }

    /// Returns the position in the dataset of its source's column `number`; `None` if it is not selected.
    fn position_of(&self, number: usize) -> Option<usize> {
        self.pieces().first()?.columns.iter().position(|&column| column == number)
    }

    /// The column that `Dataset::between` searches, even if it is not one of the dataset's columns: that of
    /// [`sorted_by`](Dataset::sorted_by) or [`late_by`](Dataset::late_by), for several tables that of the first. `None`
    /// for anything but tables with such a column.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_schema::{DataType, Field, Schema};
    /// # use arrowwood::{Writer, WriterOptions};
    /// # let folder = std::env::temp_dir().join(format!("searched-{}", std::process::id()));
    /// # let fields = ["at", "price"].map(|name| Field::new(name, DataType::Int64, false));
    /// # let schema = Arc::new(Schema::new(fields.to_vec()));
    /// let options = WriterOptions { sorted_by: Some("at".into()), ..WriterOptions::default() };
    /// Writer::open(&folder, Some(schema), &options)?.close()?;
    /// let prices = arrowwood::open(&folder)?.select(&["price"])?;
    /// assert_eq!(prices.searched_column().unwrap().name(), "at");
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    pub fn searched_column(&self) -> Option<FieldRef> {
        if let Some(field) = self.split_by_path().first().and_then(Dataset::sorted_by) {
            return Some(field);
        }
        let source = &self.pieces().first()?.source;
        source.schema().fields().get(self.late_column()?).cloned()
    }

    /// Returns the number in all sources of the column by which rows may be late.
    pub(crate) fn late_column(&self) -> Option<usize> {
        let number = self.pieces().first()?.source.facts().late_by?;
        self.pieces().iter().all(|piece| piece.source.facts().late_by == Some(number)).then_some(number)
    }

    /// Splits the dataset where the path of its rows changes.
    pub fn split_by_path(&self) -> Vec<Dataset> {
        let runs = self.pieces().chunk_by(|a, b| a.source.facts().path == b.source.facts().path);
        runs.map(|pieces| Dataset::from_slices(self.schema().clone(), pieces.to_vec())).collect()
    }

    /// Returns true if no piece of the rows begins before the previous one ends.
    ///
    /// Each piece is in the order of [`sorted_by`](Dataset::sorted_by), but pieces of tables that were created at one
    /// path, one after the other, look like pieces of one table.
    pub fn is_ascending(&self) -> bool {
        self.sorted_column().and_then(|column| column.ascends()).unwrap_or(false)
    }

    /// As [`is_ascending`](Dataset::is_ascending), for a dataset that has only the sorted column.
    pub(crate) fn ascends(&self) -> Result<bool> {
        debug_assert_eq!(self.num_columns(), 1, "a dataset of the sorted column");
        if self.pieces().len() < 2 {
            return Ok(true);
        }
        let mut ends = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let part = Dataset::from_slices(self.schema().clone(), vec![piece.clone()]);
            let Some(last_row) = part.len()?.checked_sub(1) else { continue };
            ends.push([part.slice(0, 1)?, part.slice(last_row, 1)?]);
        }

        // Loads all ends at once, and nothing around them: each is on a page of its own.
        ends.iter().flatten().for_each(Dataset::prefetch);
        let mut previous: Option<ComparableValue> = None;
        for [first, last] in &ends {
            let first = first.first_key()?;
            if previous.is_some_and(|previous| first.is_none_or(|first| first < previous)) {
                return Ok(false);
            }
            previous = last.first_key()?;
        }
        Ok(true)
    }

    /// Returns the key of the first column in the first row.
    fn first_key(&self) -> Result<Option<ComparableValue>> {
        Ok(ComparableValue::from_value(&self.row(0)?.get(0)?))
    }

    /// Returns the column by which the rows are sorted. All rows must be of one table, without gaps.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub(crate) fn sorted_column(&self) -> Result<Dataset> {
        let first = self.pieces().first().ok_or_else(unsorted)?;
        let table = first.source.facts();
        let number = table.sorted_by.ok_or_else(unsorted)?;
        let mut next_row = table.first_row + first.start;
        for piece in self.pieces() {
            let facts = piece.source.facts();
            let first_row = facts.first_row + piece.start;
            if facts.path != table.path || facts.sorted_by != Some(number) || first_row != next_row {
                return Err(unsorted());
            }
            next_row = match piece.rows {
                Some(rows) => first_row + rows,
                None => first_row + piece.source.count_until(u64::MAX)?,
            };
        }

        let field = first.source.schema().fields()[number].clone();
        let pieces = self.pieces().iter().map(|piece| piece.with_columns(Arc::from([number]))).collect();
        Ok(Dataset::from_slices(Arc::new(Schema::new(vec![field])), pieces))
    }
}

fn unsorted() -> Error {
    Error::invalid_argument("between needs a table created with sorted_by, or a part of one")
}

/// Returns the key of a value for comparison with a column of the type; `None` if they can't be compared.
pub(crate) fn comparable_value(data_type: &DataType, value: &Value<'_>) -> Option<ComparableValue> {
    use DataType::*;
    let is_number = matches!(value, Value::Int(_) | Value::UInt(_));
    match (data_type, value) {
        (Timestamp(column_unit, column_zone), Value::Timestamp(n, unit, zone))
            if zones_agree(column_zone.as_deref(), *zone) =>
        {
            scaled_down(*n, *unit, *column_unit)
        }
        (Duration(column_unit), Value::Duration(n, unit))
        | (Time32(column_unit) | Time64(column_unit), Value::Time(n, unit)) => scaled_down(*n, *unit, *column_unit),
        (Timestamp(..) | Duration(_) | Time32(_) | Time64(_), _) if is_number => ComparableValue::from_value(value),
        (Date32, Value::Date(_)) => ComparableValue::from_value(value),
        (Date64, Value::Date(days)) => Some(ComparableValue::Int(i128::from(*days))),
        (Date64, Value::Int(millis)) => Some(ComparableValue::Int(millis.div_euclid(MILLIS_PER_DAY).into())),
        (Date32, _) if is_number => ComparableValue::from_value(value),
        (Float16 | Float32 | Float64, _) => stored_float(data_type, value),
        (Utf8 | LargeUtf8 | Utf8View, Value::Str(_)) => ComparableValue::from_value(value),
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Value::Bytes(_)) => ComparableValue::from_value(value),
        _ if data_type.is_decimal() => {
            let (raw, width) = value_bytes::encode_fixed(data_type, value)?;
            Some(stored_decimal(raw, width))
        }
        _ if data_type.is_integer() && is_number => ComparableValue::from_value(value),
        _ => None,
    }
}

fn scaled_down(n: i64, unit: TimeUnit, column_unit: TimeUnit) -> Option<ComparableValue> {
    value_bytes::rescale(n, unit, column_unit).map(ComparableValue::Int)
}

/// Returns the float as the column stores it.
fn stored_float(data_type: &DataType, value: &Value<'_>) -> Option<ComparableValue> {
    let (raw, _) = value_bytes::encode_fixed(data_type, value)?;
    let x = match data_type {
        DataType::Float16 => half::f16::from_le_bytes([raw[0], raw[1]]).to_f64(),
        DataType::Float32 => f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]).into(),
        _ => f64::from_le_bytes(*raw.first_chunk()?),
    };
    (!x.is_nan()).then_some(ComparableValue::Float(x))
}

/// Extends the sign of a decimal of `width` bytes.
fn stored_decimal(mut raw: [u8; 32], width: usize) -> ComparableValue {
    assert!((1..=raw.len()).contains(&width), "a decimal of {width} bytes");
    let sign = if raw[width - 1] >= 0x80 { 0xff } else { 0 };
    raw[width..].fill(sign);
    ComparableValue::Decimal(i256::from_le_bytes(raw))
}
