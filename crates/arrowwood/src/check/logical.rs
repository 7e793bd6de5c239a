//! Logical checks: whether values that are safe to read also mean something.
//!
//! | type | check |
//! |---|---|
//! | decimals | no more digits than the precision |
//! | date64 | a whole number of days |
//! | time32, time64 | a time within a day |
//!
//! Some software writes values that fail them, in arrays that are sound otherwise, so these checks are only made on
//! request.

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::{Value, value};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::types::layout::{MILLIS_PER_DAY, SECONDS_PER_DAY};
use crate::types::per_second;

/// # Checks of the values' meaning
impl Dataset {
    /// Checks values as [`Dataset::validate`] does, and that their type gives them a meaning.
    ///
    /// Decimals have no more digits than their precision, values of `date64` are whole days, and times are within a
    /// day.
    ///
    /// # Errors
    /// `InvalidData` naming batch, column, row and what was expected. For a value inside of a list, struct or other
    /// nested column, the row is the value's position in the child array.
    pub fn validate_logical(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.validate(&mut progress)?;
        self.with_change_check(ChangeCheck::Now, || self.check_all_logical())
    }

    fn check_all_logical(&self) -> Result<()> {
        for part in self.parts() {
            let part = part?;
            for (&column, field) in part.piece.columns.iter().zip(self.schema().fields()) {
                check_array(&part.column(column)?).map_err(|e| {
                    let e = e.context(format_args!("batch {}, column '{}'", part.batch, field.name()));
                    match part.piece.source.facts().path {
                        Some(path) => e.at(path),
                        None => e,
                    }
                })?;
            }
        }
        Ok(())
    }
}

/// Checks the values of an array, and of its children. Errors count rows in the array that has the value.
fn check_array(array: &ArrayData) -> Result<()> {
    use DataType::*;
    match array.data_type() {
        Decimal32(precision, _) | Decimal64(precision, _) | Decimal128(precision, _) | Decimal256(precision, _) => {
            let limit = i256::from_i128(10).checked_pow(u32::from(*precision)).unwrap_or(i256::MAX);
            check_rows(array, |value| match value {
                Value::Decimal { digits, .. } if digits >= limit || digits <= -limit => {
                    Some(format!("{digits} has more than {precision} digits"))
                }
                _ => None,
            })?;
        }
        Date64 => check_days(array)?,
        Time32(unit) | Time64(unit) => {
            let day = SECONDS_PER_DAY * per_second(*unit);
            check_rows(array, |value| match value {
                Value::Time(time, _) if !(0..day).contains(&time) => Some(format!("{time} is not a time within a day")),
                _ => None,
            })?;
        }
        _ => {}
    }
    array.child_data().iter().try_for_each(check_array)
}

/// Returns the error of the first row whose value has a defect, which `find_defect` describes.
fn check_rows(array: &ArrayData, find_defect: impl Fn(Value<'_>) -> Option<String>) -> Result<()> {
    for row in 0..array.len() {
        if let Some(defect) = find_defect(value(array, row)?) {
            return Err(Error::invalid(format!("row {row}: {defect}")));
        }
    }
    Ok(())
}

/// Checks that values of date64 are whole days. Reads the milliseconds from the buffer, because [`Value::Date`] is
/// rounded to days.
fn check_days(array: &ArrayData) -> Result<()> {
    let values = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice()).as_chunks::<8>().0;
    for row in 0..array.len() {
        if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        let raw = values.get(array.offset() + row);
        let raw = raw.ok_or_else(|| Error::internal(format_args!("no date in row {row} of a validated array")))?;
        let milliseconds = i64::from_le_bytes(*raw);
        if milliseconds % MILLIS_PER_DAY != 0 {
            return Err(Error::invalid(format!("row {row}: a date of {milliseconds} ms is not a whole day")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Date64Array, Decimal128Array, RecordBatch, Time32SecondArray};

    use crate::Dataset;

    fn validate(array: ArrayRef) -> Result<(), String> {
        let dataset =
            Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()]).unwrap();
        dataset.validate(|_, _| ()).unwrap();
        dataset.validate_logical(|_, _| ()).map_err(|e| e.to_string())
    }

    #[test]
    fn logical_errors_name_the_value() {
        let decimal =
            |digits| Arc::new(Decimal128Array::from(vec![None, Some(digits)]).with_precision_and_scale(3, 1).unwrap());
        assert_eq!(validate(decimal(-999)), Ok(()));
        assert_eq!(validate(decimal(1000)), Err("batch 0, column 'c': row 1: 1000 has more than 3 digits".into()));
        assert_eq!(validate(Arc::new(Date64Array::from(vec![86_400_000, -86_400_000]))), Ok(()));
        assert!(validate(Arc::new(Date64Array::from(vec![0, 1]))).unwrap_err().contains("not a whole day"));
        assert!(validate(Arc::new(Time32SecondArray::from(vec![86_399, 86_400]))).unwrap_err().contains("row 1"));
    }
}
