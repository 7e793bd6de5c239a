//! The order of values, for sorted columns of tables.

use std::sync::Arc;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, Schema, TimeUnit};

use super::comparable_value::ComparableValue;
use super::dataset::Dataset;
use super::source::SourceSlice;
use crate::array::{Value, value, value_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::types::layout::zones_agree;

/// Whether columns of the type can be sorted.
pub(crate) fn is_sortable(data_type: &DataType) -> bool {
    use DataType::*;
    let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
    is_text || data_type.is_integer() || data_type.is_floating() || data_type.is_decimal() || {
        matches!(data_type, Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_) | Duration(_) | FixedSizeBinary(_))
    }
}

/// The key of the last row, if no row of `array` is less than the previous one or than `last`.
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
    let mut before = last.cloned();
    for row in 0..array.len() {
        let found = value(array, row)?;
        let key = ComparableValue::from_value(&found).ok_or_else(|| {
            let message = format!("column '{name}', row {row}: {found} in the column that the table is sorted by");
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        if before.as_ref().is_some_and(|before| key < *before) {
            let message = format!(
                "column '{name}', row {row}: {found} is less than the row before, and the table is sorted by it; leave the \
                 row out, or create the table with late=\"accept\""
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        before = Some(key);
    }
    Ok(before)
}

/// First and last of 64-bit numbers without nulls that never decrease; `None` for anything else.
fn ascending_words(array: &ArrayData) -> Option<(i64, i64)> {
    use DataType::{Duration, Int64, Time64, Timestamp};
    // A date64 is compared by its day.
    let is_signed = matches!(array.data_type(), Int64 | Timestamp(..) | Time64(_) | Duration(_));
    if !is_signed || array.null_count() > 0 {
        return None;
    }
    let bytes = array.buffers().first()?.get(8 * array.offset()..8 * (array.offset() + array.len()))?;
    let words = bytes.as_chunks::<8>().0;
    let pairs = words.iter().zip(words.iter().skip(1));
    let sorted = pairs.fold(true, |so_far, (&a, &b)| so_far & (i64::from_le_bytes(a) <= i64::from_le_bytes(b)));
    let ends = (i64::from_le_bytes(*words.first()?), i64::from_le_bytes(*words.last()?));
    sorted.then_some(ends)
}

impl Dataset {
    /// The column by which the rows are sorted, if the dataset is a table created with one, or part of it; with its
    /// name in this dataset. `None` if only another column has its name, and for tables that accept late rows.
    pub fn sorted_by(&self) -> Option<FieldRef> {
        let column = self.sorted_column().ok()?;
        let number = column.pieces().first()?.columns.first()?;
        let own = self.pieces().first()?.columns.iter().position(|own| own == number);
        let field = match own {
            Some(own) => self.schema().fields().get(own),
            None => column.schema().fields().first(),
        };
        let is_taken =
            own.is_none() && field.is_some_and(|field| self.schema().column_with_name(field.name()).is_some());
        field.filter(|_| !is_taken).cloned()
    }

    /// The column by which rows of the dataset's table may be late: its rows are unordered.
    pub fn late_by(&self) -> Option<FieldRef> {
        let number = self.late_column()?;
        let own = self.pieces().first()?.columns.iter().position(|&own| own == number)?;
        self.schema().fields().get(own).cloned()
    }

    /// The same, even if it is not one of the dataset's columns.
    #[doc(hidden)]
    pub fn late_column_field(&self) -> Option<FieldRef> {
        let source = &self.pieces().first()?.source;
        source.schema().fields().get(self.late_column()?).cloned()
    }

    /// The number of the column in all sources.
    pub(crate) fn late_column(&self) -> Option<usize> {
        let number = self.pieces().first()?.source.facts().late_by?;
        self.pieces().iter().all(|piece| piece.source.facts().late_by == Some(number)).then_some(number)
    }

    /// The rows of each path, if there are several, one after the other.
    #[doc(hidden)]
    pub fn split_by_path(&self) -> Vec<Dataset> {
        let runs = self.pieces().chunk_by(|a, b| a.source.facts().path == b.source.facts().path);
        runs.map(|pieces| Dataset::from_slices(self.schema().clone(), pieces.to_vec())).collect()
    }

    /// Whether no part of the rows begins before the previous one ends, each being in the order of
    /// [`sorted_by`](Dataset::sorted_by): parts of tables created at one path, one after the other, look like parts of
    /// one.
    #[doc(hidden)]
    pub fn is_ascending(&self) -> bool {
        self.sorted_column().and_then(|column| column.ascends()).unwrap_or(false)
    }

    /// The same for a dataset of that column alone.
    pub(crate) fn ascends(&self) -> Result<bool> {
        if self.pieces().len() < 2 {
            return Ok(true);
        }
        let mut ends = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let part = Dataset::from_slices(self.schema().clone(), vec![piece.clone()]);
            let Some(end) = part.len()?.checked_sub(1) else { continue };
            ends.push([part.slice(0, 1)?, part.slice(end, 1)?]);
        }
        // All at once, and nothing around them: each is a page of its own.
        ends.iter().flatten().for_each(Dataset::prefetch);
        let mut last: Option<ComparableValue> = None;
        for ends in &ends {
            let [first, end] =
                ends.each_ref().map(|row| row.row(0)?.get(0).map(|value| ComparableValue::from_value(&value)));
            let first = first?;
            if last.is_some_and(|last| first.is_none_or(|first| first < last)) {
                return Ok(false);
            }
            last = end?;
        }
        Ok(true)
    }

    /// The column by which the rows are sorted; all must be of one table.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub(crate) fn sorted_column(&self) -> Result<Dataset> {
        let unsorted = || Error::invalid_argument("between needs a table created with sorted_by, or a part of one");
        let first = self.pieces().first().ok_or_else(unsorted)?;
        let table = first.source.facts();
        let number = table.sorted_by.ok_or_else(unsorted)?;
        let mut next = table.first_row + first.start;
        for piece in self.pieces() {
            let facts = piece.source.facts();
            let here = facts.first_row + piece.start;
            if facts.path != table.path || facts.sorted_by != Some(number) || here != next {
                return Err(unsorted());
            }
            next = here + piece.rows.map_or_else(|| piece.source.count_until(u64::MAX), Ok)?;
        }
        let field = first.source.schema().fields()[number].clone();
        let narrow = |piece: &SourceSlice| SourceSlice { columns: Arc::from([number]), ..piece.clone() };
        let schema = Arc::new(Schema::new(vec![field]));
        Ok(Dataset::from_slices(schema, self.pieces().iter().map(narrow).collect()))
    }
}

/// The key of a value for comparison with a column of the type.
pub(crate) fn comparable_value(data_type: &DataType, value: &Value<'_>) -> Option<ComparableValue> {
    use DataType::*;
    let number = matches!(value, Value::Int(_) | Value::UInt(_));
    match (data_type, value) {
        (Timestamp(own, column), Value::Timestamp(n, unit, zone)) if zones_agree(column.as_deref(), *zone) => {
            scaled_down(*n, *unit, *own)
        }
        (Duration(own), Value::Duration(n, unit)) | (Time32(own) | Time64(own), Value::Time(n, unit)) => {
            scaled_down(*n, *unit, *own)
        }
        (Timestamp(..) | Duration(_) | Time32(_) | Time64(_), _) if number => ComparableValue::from_value(value),
        (Date32, Value::Date(_)) => ComparableValue::from_value(value),
        (Date64, Value::Date(days)) => Some(ComparableValue::Int(i128::from(*days))),
        (Date64, Value::Int(millis)) => Some(ComparableValue::Int(millis.div_euclid(86_400_000).into())),
        (Date32, _) if number => ComparableValue::from_value(value),
        (Float16 | Float32 | Float64, _) => stored_float(data_type, value),
        (Utf8 | LargeUtf8 | Utf8View, Value::Str(_)) => ComparableValue::from_value(value),
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Value::Bytes(_)) => ComparableValue::from_value(value),
        (own, _) if own.is_decimal() => {
            value_bytes::encode_fixed(own, value).map(|(raw, width)| stored_decimal(raw, width))
        }
        (own, _) if own.is_integer() && number => ComparableValue::from_value(value),
        _ => None,
    }
}

fn scaled_down(n: i64, unit: TimeUnit, own: TimeUnit) -> Option<ComparableValue> {
    value_bytes::rescale(n, unit, own).map(ComparableValue::Int)
}

/// The float as the column stores it.
fn stored_float(data_type: &DataType, value: &Value<'_>) -> Option<ComparableValue> {
    let (raw, _) = value_bytes::encode_fixed(data_type, value)?;
    let x = match data_type {
        DataType::Float16 => half::f16::from_le_bytes([raw[0], raw[1]]).to_f64(),
        DataType::Float32 => f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]).into(),
        _ => f64::from_le_bytes(*raw.first_chunk()?),
    };
    (!x.is_nan()).then_some(ComparableValue::Float(x))
}

/// The digits of a decimal of `width` bytes.
fn stored_decimal(mut raw: [u8; 32], width: usize) -> ComparableValue {
    let sign = if raw[width.clamp(1, 32) - 1] >= 0x80 { 0xff } else { 0 };
    raw[width.min(32)..].fill(sign);
    ComparableValue::Decimal(i256::from_le_bytes(raw))
}
