//! [`rows_equal`] compares the rows of two datasets; [`Dataset::pushed_rows`] identifies rows of a table.

use arrow_array::ArrayRef;

use super::dataset::Dataset;
use super::pushed_rows::PushedRows;
use crate::array::Value;
use crate::error::Result;

/// # Rows of an object store
impl Dataset {
    /// Returns which rows of which table these are, if they lie in an object that was pushed to a store.
    pub fn pushed_rows(&self) -> Option<PushedRows> {
        let piece = self.pieces().first()?;
        let pushed = piece.source.facts().pushed_rows?;
        Some(PushedRows { first_row: pushed.first_row.checked_add(piece.start)?, table: pushed.table.clone() })
    }
}

/// Returns true if the rows are the same.
///
/// `there` may have a newer schema: more columns, which must be null, and wider numbers. A NaN is the same as itself.
///
/// # Errors
/// Errors of reading the rows.
pub fn rows_equal(here: &Dataset, there: &Dataset) -> Result<bool> {
    if here.len()? != there.len()? || here.schema().fields().iter().any(|field| there.column(field.name()).is_err()) {
        return Ok(false);
    }
    // Comparing whole arrays is faster than comparing values. It only succeeds if both are divided into the same
    // batches, and is refused on big-endian processors.
    let names_here = here.schema().fields().iter().map(|field| field.name());
    let names_there = there.schema().fields().iter().map(|field| field.name());
    let is_comparable = cfg!(target_endian = "little") && names_here.eq(names_there);
    if is_comparable && record_batch_columns(here)? == record_batch_columns(there)? {
        return Ok(true);
    }

    let columns_here: Vec<Option<usize>> =
        there.schema().fields().iter().map(|field| here.schema().index_of(field.name()).ok()).collect();
    for (here, there) in here.rows().zip(there.rows()) {
        let here = here?;
        let there = there?;
        for (column_there, &column_here) in columns_here.iter().enumerate() {
            let value = match column_here {
                Some(column) => here.get(column)?,
                None => Value::Null,
            };
            if !values_equal(value, there.get(column_there)?)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn record_batch_columns(rows: &Dataset) -> Result<Vec<Vec<ArrayRef>>> {
    rows.to_record_batches().map(|batch| Ok(batch?.columns().to_vec())).collect()
}

fn values_equal(a: Value<'_>, b: Value<'_>) -> Result<bool> {
    match (widest(a), widest(b)) {
        // Compared by their items: the debug text of nested values has the addresses of their buffers.
        (Value::List(a), Value::List(b)) | (Value::Map(a), Value::Map(b)) => {
            Ok(a.len() == b.len() && all_equal(a.iter().zip(b.iter()))?)
        }
        (Value::Struct(a), Value::Struct(b)) => {
            let names_equal = a.iter().map(|(field, _)| field.name()).eq(b.iter().map(|(field, _)| field.name()));
            Ok(names_equal && all_equal(a.iter().zip(b.iter()).map(|((_, a), (_, b))| (a, b)))?)
        }
        (Value::Union(member, a), Value::Union(other, b)) => Ok(member.name() == other.name() && values_equal(*a, *b)?),
        // Compared as text, so that a NaN equals itself.
        (a, b) => Ok(format!("{a:?}") == format!("{b:?}")),
    }
}

fn all_equal<'a>(pairs: impl Iterator<Item = (Result<Value<'a>>, Result<Value<'a>>)>) -> Result<bool> {
    for (a, b) in pairs {
        if !values_equal(a?, b?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Converts a number to the widest type.
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
    use arrow_array::{Array, Float32Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StructArray};

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

    /// Nested values were compared by the addresses of their buffers, so that a table with lists wasn't a prefix of an
    /// altered one.
    #[test]
    fn nested_values_are_compared_by_content() {
        let items = || (0..5).map(|n| n as f32);
        let narrow: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5));
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5));
        let here = dataset(vec![("n", narrow.clone()), ("list", lists(items())), ("struct", structs(items()))]);
        let nested = |list: ArrayRef, of_struct: ArrayRef| {
            let new: ArrayRef = Arc::new(NullArray::new(5));
            dataset(vec![("n", wide.clone()), ("list", list), ("struct", of_struct), ("new", new)])
        };
        let others = || items().map(|item| if item == 2.0 { 2.5 } else { item });
        assert!(rows_equal(&here, &nested(lists(items()), structs(items()))).unwrap());
        assert!(!rows_equal(&here, &nested(lists(others()), structs(items()))).unwrap());
        assert!(!rows_equal(&here, &nested(lists(items()), structs(others()))).unwrap());
        // The same columns, in other batches.
        let halves = Dataset::concat(&[here.slice(0, 2).unwrap(), here.slice(2, 3).unwrap()]).unwrap();
        assert!(rows_equal(&here, &halves).unwrap());
    }
}
