//! Logical checks beyond the checks that make values safe to read: decimals within their precision, whole days in date64,
//! times within a day. Some software writes values that fail them, in arrays that are sound otherwise, so these checks are
//! only made on request.

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::{Value, value};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::types::per_second;

const MILLISECONDS_PER_DAY: i64 = 86_400_000;

impl Dataset {
    /// Runs [`Dataset::validate`], and then the logical checks: digits of decimals, whole days of date64, times of day.
    ///
    /// # Errors
    /// `InvalidData` naming batch, column, row and what was expected.
    pub fn validate_logical(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.validate(&mut progress)?;
        self.with_change_check(ChangeCheck::Now, || self.check_meaning())
    }

    fn check_meaning(&self) -> Result<()> {
        for part in self.parts() {
            let part = part?;
            for (&column, field) in part.piece.columns.iter().zip(self.schema().fields()) {
                check(&part.column(column)?).map_err(|e| {
                    let e = e.context(format_args!("batch {}, column '{}'", part.batch, field.name()));
                    part.piece.source.facts().path.map_or(e.clone(), |path| e.at(path))
                })?;
            }
        }
        Ok(())
    }
}

fn check(array: &ArrayData) -> Result<()> {
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
            let day = 86_400 * per_second(*unit);
            check_rows(array, |value| match value {
                Value::Time(time, _) if !(0..day).contains(&time) => Some(format!("{time} is not a time within a day")),
                _ => None,
            })?;
        }
        _ => {}
    }
    array.child_data().iter().try_for_each(check)
}

fn check_rows(array: &ArrayData, wrong: impl Fn(Value<'_>) -> Option<String>) -> Result<()> {
    for row in 0..array.len() {
        if let Some(what) = wrong(value(array, row)?) {
            return Err(Error::invalid(format!("row {row}: {what}")));
        }
    }
    Ok(())
}

/// Checks the milliseconds of date64 in the buffer, as cells show days.
fn check_days(array: &ArrayData) -> Result<()> {
    let values = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice()).as_chunks::<8>().0;
    for row in 0..array.len() {
        let is_null = array.nulls().is_some_and(|nulls| nulls.is_null(row));
        let milliseconds = values.get(array.offset() + row).map_or(0, |raw| i64::from_le_bytes(*raw));
        if !is_null && milliseconds % MILLISECONDS_PER_DAY != 0 {
            return Err(Error::invalid(format!("row {row}: a date of {milliseconds} ms is not a whole day")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Dataset;
    use arrow_array::{ArrayRef, Date64Array, Decimal128Array, RecordBatch, Time32SecondArray};
    use std::sync::Arc;

    fn outcome(array: ArrayRef) -> Result<(), String> {
        let dataset =
            Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()]).unwrap();
        dataset.validate(|_, _| ()).unwrap();
        dataset.validate_logical(|_, _| ()).map_err(|e| e.to_string())
    }

    #[test]
    fn logical_errors_name_the_value() {
        let decimal =
            |digits| Arc::new(Decimal128Array::from(vec![None, Some(digits)]).with_precision_and_scale(3, 1).unwrap());
        assert_eq!(outcome(decimal(-999)), Ok(()));
        assert_eq!(outcome(decimal(1000)), Err("batch 0, column 'c': row 1: 1000 has more than 3 digits".into()));
        assert_eq!(outcome(Arc::new(Date64Array::from(vec![86_400_000, -86_400_000]))), Ok(()));
        assert!(outcome(Arc::new(Date64Array::from(vec![0, 1]))).unwrap_err().contains("not a whole day"));
        assert!(outcome(Arc::new(Time32SecondArray::from(vec![86_399, 86_400]))).unwrap_err().contains("row 1"));
    }
}
