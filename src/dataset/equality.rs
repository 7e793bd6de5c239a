//! [`same_rows`], [`same_end`]: whether two datasets have the same rows; and which rows of a table a dataset has.

use std::ops::Range;

use super::dataset::Dataset;
use super::pushed_rows::PushedRows;
use crate::array::{Members, Value};
use crate::error::Result;

impl Dataset {
    /// Which rows of which table these are, from the first one on, where they are those of an object that was pushed to a
    /// store.
    #[doc(hidden)]
    pub fn pushed_rows(&self) -> Option<PushedRows> {
        let piece = self.pieces().first()?;
        let pushed = piece.source.facts().pushed_rows?;
        Some(PushedRows { first_row: pushed.first_row.checked_add(piece.start)?, table: pushed.table.clone() })
    }
}

/// How many rows at the end of a range are compared to find out whether they are of the same table.
pub const COMPARED_ROWS: u64 = 100;

/// Compares the last rows before row number `end` that both datasets have, up to [`COMPARED_ROWS`]. Each dataset is given with the
/// number of its first row. Returns the numbers of the rows that were compared, and whether they are the same.
///
/// # Errors
/// Those of reading the rows.
pub fn tails_equal(here: (&Dataset, u64), there: (&Dataset, u64), end: u64) -> Result<(Range<u64>, bool)> {
    let start = here.1.max(there.1).max(end.saturating_sub(COMPARED_ROWS)).min(end);
    if start == end {
        return Ok((start..end, true));
    }
    let last = |(rows, first): (&Dataset, u64)| rows.slice(start - first, end - start);
    Ok((start..end, rows_equal(&last(here)?, &last(there)?)?))
}

/// Whether the rows are the same, where `there` may have a newer schema: more columns, which must be null, and wider numbers.
/// A NaN is the same as itself.
///
/// # Errors
/// Those of reading the rows.
pub fn rows_equal(here: &Dataset, there: &Dataset) -> Result<bool> {
    if here.len()? != there.len()? || here.schema().fields().iter().any(|own| there.column(own.name()).is_err()) {
        return Ok(false);
    }
    let columns = |rows: &Dataset| -> Result<Vec<_>> {
        rows.to_record_batches().map(|batch| Ok(batch?.columns().to_vec())).collect()
    };
    let names = |rows: &Dataset| rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    if names(here) == names(there) && columns(here)? == columns(there)? {
        return Ok(true);
    }
    let own = there.schema().fields().iter().map(|field| here.schema().index_of(field.name()).ok());
    let own: Vec<Option<usize>> = own.collect();
    for (a, b) in here.rows().zip(there.rows()) {
        let a = a?;
        let b = b?;
        for (column, own) in own.iter().enumerate() {
            let value = own.map_or(Ok(Value::Null), |own| a.get(own))?;
            if !is_same_value(value, b.get(column)?)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_same_value(a: Value<'_>, b: Value<'_>) -> Result<bool> {
    match (widest(a), widest(b)) {
        // Shown for debugging, these have the addresses of their buffers.
        (Value::List(a), Value::List(b)) | (Value::Map(a), Value::Map(b)) => {
            Ok(a.len() == b.len() && are_same(a.iter().zip(b.iter()))?)
        }
        (Value::Struct(a), Value::Struct(b)) => {
            let names =
                |members: &Members<'_>| members.iter().map(|(field, _)| field.name().clone()).collect::<Vec<_>>();
            let values = a.iter().zip(b.iter()).map(|((_, a), (_, b))| (a, b));
            Ok(names(&a) == names(&b) && are_same(values)?)
        }
        (Value::Union(member, a), Value::Union(other, b)) => {
            Ok(member.name() == other.name() && is_same_value(*a, *b)?)
        }
        // As text, so that a NaN equals itself.
        (a, b) => Ok(format!("{a:?}") == format!("{b:?}")),
    }
}

fn are_same<'a>(mut pairs: impl Iterator<Item = (Result<Value<'a>>, Result<Value<'a>>)>) -> Result<bool> {
    pairs.try_fold(true, |same, (a, b)| Ok(same && is_same_value(a?, b?)?))
}

/// A number of the widest type.
fn widest(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Int(n) => Value::Int128(n.into()),
        Value::UInt(n) => Value::Int128(n.into()),
        Value::Float32(x) => Value::Float64(x.into()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Float32Type;
    use arrow_array::{
        Array, ArrayRef, Float32Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StructArray,
    };

    use super::*;

    fn lists(items: impl Iterator<Item = f32>) -> ArrayRef {
        let item = |item: f32| (item < 3.0 || item.is_nan()).then_some(vec![Some(item), None, Some(f32::NAN)]);
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(items.map(item)))
    }

    fn structs(items: impl Iterator<Item = f32>) -> ArrayRef {
        let (lists, numbers): (Vec<_>, Vec<_>) = items.map(|item| (item, item)).unzip();
        let members: [(&str, ArrayRef); 2] =
            [("x", Arc::new(Float32Array::from(numbers))), ("list", self::lists(lists.into_iter()))];
        Arc::new(StructArray::from(
            members
                .map(|(name, array)| (Arc::new(arrow_schema::Field::new(name, array.data_type().clone(), true)), array))
                .to_vec(),
        ))
    }

    fn dataset(columns: Vec<(&str, ArrayRef)>) -> Dataset {
        Dataset::try_from(vec![
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap(),
        ])
        .unwrap()
    }

    /// They were compared with the addresses of their buffers: a table with lists was no prefix of an altered one.
    #[test]
    fn nested_values_are_the_same_wherever_they_lie() {
        let items = || (0..5).map(|n| n as f32);
        let narrow: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5));
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5));
        let here = dataset(vec![("n", narrow.clone()), ("list", lists(items())), ("struct", structs(items()))]);
        let there = |list: ArrayRef, of_struct: ArrayRef| {
            let new: ArrayRef = Arc::new(NullArray::new(5));
            dataset(vec![("n", wide.clone()), ("list", list), ("struct", of_struct), ("new", new)])
        };
        let others = || items().map(|item| if item == 2.0 { 2.5 } else { item });
        assert!(rows_equal(&here, &there(lists(items()), structs(items()))).unwrap());
        assert!(!rows_equal(&here, &there(lists(others()), structs(items()))).unwrap());
        assert!(!rows_equal(&here, &there(lists(items()), structs(others()))).unwrap());
        // The same columns, divided elsewhere.
        let halves = Dataset::concat(&[here.slice(0, 2).unwrap(), here.slice(2, 3).unwrap()]).unwrap();
        assert!(rows_equal(&here, &halves).unwrap());
    }
}
