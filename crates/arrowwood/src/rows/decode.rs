//! Converts runs and dictionaries to the values that a column without them has.

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};

use crate::array::access::entry_lookup;
use crate::array::gather::{Pick, gather};
use crate::array::{UncheckedArray, find_run, nulls, room_for};
use crate::error::{Error, Result};
use crate::types::layout::children;

/// Returns the type to which values of type `have` are decoded for a column of type `want`: without runs, and with
/// dictionaries only where `want` has them. Dictionaries of text stay in any case, and runs of text become such ones:
/// text is copied value by value when it is appended.
pub(super) fn decoded_type(want: &DataType, have: &DataType) -> DataType {
    use DataType::*;
    let field = |want: &FieldRef, have: &FieldRef| -> FieldRef {
        have.as_ref().clone().with_data_type(decoded_type(want.data_type(), have.data_type())).into()
    };
    let inside = |have: &FieldRef| item_of(want).map_or_else(|| have.clone(), |want| field(want, have));

    match (want, have) {
        (_, RunEndEncoded(_, values)) => match decoded_type(want, values.data_type()) {
            text if is_text(&text) => Dictionary(Box::new(Int64), Box::new(text)),
            other => other,
        },
        (Dictionary(_, want), Dictionary(keys, values)) => {
            Dictionary(keys.clone(), Box::new(decoded_type(want, values)))
        }
        (_, Dictionary(_, values)) if !is_text(values) => decoded_type(want, values),
        (_, List(item)) => List(inside(item)),
        (_, LargeList(item)) => LargeList(inside(item)),
        (_, ListView(item)) => ListView(inside(item)),
        (_, LargeListView(item)) => LargeListView(inside(item)),
        (_, FixedSizeList(item, size)) => FixedSizeList(inside(item), *size),
        (_, Map(entries, is_sorted)) => Map(inside(entries), *is_sorted),
        (Struct(want), Struct(have)) if want.len() == have.len() => {
            Struct(want.iter().zip(have).map(|(want, have)| field(want, have)).collect())
        }
        (Union(want, _), Union(have, mode)) if want.len() == have.len() => {
            let members = want.iter().zip(have.iter());
            Union(members.map(|((_, want), (id, have))| (id, field(want, have))).collect(), *mode)
        }
        _ => have.clone(),
    }
}

/// Returns the field of the items of a list or map.
fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    use DataType::*;
    match data_type {
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) | Map(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

/// Returns true for text and false for binary data, in any encoding; `None` for other types.
pub(super) fn text_kind(data_type: &DataType) -> Option<bool> {
    use DataType::*;
    match data_type {
        Utf8 | LargeUtf8 | Utf8View => Some(true),
        Binary | LargeBinary | BinaryView => Some(false),
        Dictionary(_, values) => text_kind(values),
        _ => None,
    }
}

/// Returns true if the type is text or bytes, in no dictionary.
fn is_text(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Dictionary(..)) && text_kind(data_type).is_some()
}

/// Returns the array as one of `data_type`, the [`decoded_type`] of its own type.
///
/// # Errors
/// `Io` if there is no memory for the values, `Unsupported` if they are too many for the offsets of the type.
pub(super) fn decoded(array: &ArrayData, data_type: &DataType) -> Result<ArrayData> {
    use DataType::*;
    if array.data_type() == data_type {
        return Ok(array.clone());
    }
    match (array.data_type(), data_type) {
        (RunEndEncoded(_, values), _) if is_text(values.data_type()) => run_numbers(array, data_type),
        (RunEndEncoded(..), _) => values_of_runs(array, data_type),
        (Dictionary(..), Dictionary(_, values)) => with_children(array, data_type, &[values]),
        (Dictionary(..), _) => values_of_keys(array, data_type),
        (_, other) => {
            let types: Vec<_> = children(other).into_iter().map(|field| field.data_type()).collect();
            with_children(array, other, &types)
        }
    }
}

/// Returns the array with its children decoded to these types, which are the ones that `data_type` has.
fn with_children(array: &ArrayData, data_type: &DataType, types: &[&DataType]) -> Result<ArrayData> {
    let children = array.child_data().iter().zip(types).map(|(child, own)| decoded(child, own));
    let built = array.clone().into_builder().data_type(data_type.clone()).child_data(children.collect::<Result<_>>()?);
    // A file may align values to 8 bytes, and some types need 16.
    built.align_buffers(true).build().map_err(broken)
}

/// Returns runs of text as keys of a dictionary, whose entries are the values of the runs.
fn run_numbers(array: &ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let (ends, values) = parts_of(array)?;
    let mut keys = room_for::<i64>(array.len() as u64, "keys of runs")?;
    for row in 0..array.len() {
        keys.push(find_run(UncheckedArray::from_ref(ends), array.offset() + row)? as i64);
    }
    let built = ArrayData::builder(data_type.clone()).len(array.len()).add_buffer(Buffer::from_vec(keys));
    built.add_child_data(values.clone()).align_buffers(true).build().map_err(broken)
}

/// Returns the value of each row of an array of runs.
fn values_of_runs(array: &ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let (ends, values) = parts_of(array)?;
    let mut picks = room_for::<Pick>(array.len() as u64, "values of runs")?;
    for row in 0..array.len() {
        picks.push((0, find_run(UncheckedArray::from_ref(ends), array.offset() + row)?));
    }
    gather(data_type, &[UncheckedArray::from_ref(&decoded(values, data_type)?)], &picks)?.checked(&[])
}

/// Returns the ends of the runs and their values.
fn parts_of(array: &ArrayData) -> Result<(&ArrayData, &ArrayData)> {
    match array.child_data() {
        [ends, values] => Ok((ends, values)),
        _ => Err(Error::invalid("runs without ends and values")),
    }
}

/// Returns the value of each row of a dictionary array.
fn values_of_keys(array: &ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let Some(values) = array.child_data().first() else { return Err(Error::invalid("keys without a dictionary")) };
    let values = decoded(values, data_type)?;
    let null = nulls(data_type, 1)?;
    let entry_of = entry_lookup(array);
    let mut picks = room_for::<Pick>(array.len() as u64, "values of keys")?;
    for row in 0..array.len() {
        picks.push(if array.is_null(row) { (1, 0) } else { (0, entry_of(row)?) });
    }
    gather(data_type, &[UncheckedArray::from_ref(&values), UncheckedArray::from_ref(&null)], &picks)?.checked(&[])
}

fn broken(error: ArrowError) -> Error {
    Error::invalid(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::types::{Int8Type, Int32Type, Int64Type};
    use arrow_array::*;
    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::DatasetBuilder;
    use crate::error::ErrorKind;

    /// Appends an array to a column of type `target`, and returns the stored array.
    fn append_as(target: &DataType, array: &ArrayRef) -> crate::Result<ArrayRef> {
        let schema = Arc::new(Schema::new(vec![Field::new("x", target.clone(), true)]));
        let mut builder = DatasetBuilder::new(schema)?;
        builder.append(&RecordBatch::try_from_iter([("x", array.clone())]).unwrap())?;
        let rows = builder.finish()?.to_record_batches().collect::<crate::Result<Vec<_>>>()?;
        Ok(rows.first().map_or_else(|| new_null_array(target, 0), |batch| batch.column(0).clone()))
    }

    fn runs(ends: Vec<i32>, values: &dyn Array) -> ArrayRef {
        Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), values).unwrap())
    }

    fn dictionary(keys: Vec<Option<i8>>, values: ArrayRef) -> ArrayRef {
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(keys), values))
    }

    fn lists(rows: &[Option<&[i32]>]) -> ListArray {
        let mut builder = ListBuilder::new(Int32Builder::new());
        for row in rows {
            if let Some(items) = row {
                builder.values().append_slice(items);
            }
            builder.append(row.is_some());
        }
        builder.finish()
    }

    #[test]
    fn runs_and_dictionaries_become_their_values() {
        let words = StringArray::from(vec![Some("a"), None, Some("c")]);
        let words_in_rows: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("a"), None, Some("c")]));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        let inner = Field::new("a", DataType::Int32, true);
        let structs = |numbers: Vec<Option<i32>>, valid: Vec<bool>| -> ArrayRef {
            let numbers: ArrayRef = Arc::new(Int32Array::from(numbers));
            Arc::new(StructArray::new(vec![inner.clone()].into(), vec![numbers], Some(valid.into())))
        };
        let cases: Vec<(ArrayRef, ArrayRef)> = vec![
            (runs(vec![2, 3, 4], &words), words_in_rows.clone()),
            (runs(vec![2, 3, 4], &words).slice(1, 2), words_in_rows.slice(1, 2)),
            (runs(vec![2, 3, 4], &dictionary(vec![Some(0), None, Some(2)], Arc::new(words.clone()))), words_in_rows),
            (
                runs(vec![1, 3], &Int64Array::from(vec![None, Some(7)])),
                Arc::new(Int64Array::from(vec![None, Some(7), Some(7)])),
            ),
            (runs(vec![2, 3], &lists(&[Some(&[1, 2]), None])), Arc::new(lists(&[Some(&[1, 2]), Some(&[1, 2]), None]))),
            (
                dictionary(vec![Some(2), None, Some(1), Some(0)], flags),
                Arc::new(BooleanArray::from(vec![Some(false), None, None, Some(true)])),
            ),
            (
                dictionary(vec![Some(1), Some(1), None], Arc::new(lists(&[None, Some(&[5])]))),
                Arc::new(lists(&[Some(&[5]), Some(&[5]), None])),
            ),
            (
                dictionary(vec![Some(1), None, Some(0)], structs(vec![Some(1), None], vec![true, true])),
                structs(vec![None, None, Some(1)], vec![true, false, true]),
            ),
            (
                dictionary(vec![None, Some(0)], Arc::new(Date32Array::from(vec![9]))),
                Arc::new(Date32Array::from(vec![None, Some(9)])),
            ),
        ];

        for (array, expected) in cases {
            let stored = append_as(expected.data_type(), &array).unwrap();
            assert_eq!(stored.to_data(), expected.to_data(), "{array:?}");
            let e = append_as(&DataType::Time64(arrow_schema::TimeUnit::Nanosecond), &array).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::SchemaMismatch);
            assert!(e.to_string().contains(&crate::type_name(array.data_type())), "{e}");
        }
    }

    #[test]
    fn runs_in_lists_and_structs_become_their_values() {
        let item = |data_type: &DataType| Arc::new(Field::new("item", data_type.clone(), true));
        let encoded = runs(vec![3, 4], &Int64Array::from(vec![Some(1), None]));
        let plain: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(1), None]));
        let list = |items: &ArrayRef| -> ArrayRef {
            let offsets = arrow_buffer::OffsetBuffer::new(vec![0, 2, 2, 4].into());
            Arc::new(ListArray::new(item(items.data_type()), offsets, items.clone(), None))
        };
        let member = |items: &ArrayRef| -> ArrayRef {
            Arc::new(StructArray::new(vec![item(items.data_type())].into(), vec![items.clone()], None))
        };
        for (array, expected) in [(list(&encoded), list(&plain)), (member(&encoded), member(&plain))] {
            for start in 0..2 {
                let expected = expected.slice(start, 2);
                let stored = append_as(expected.data_type(), &array.slice(start, 2)).unwrap();
                assert_eq!(stored.to_data(), expected.to_data());
            }
        }
    }

    #[test]
    fn dictionary_columns_accept_runs_of_their_values() {
        let dictionary_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int64));
        let runs = runs(vec![2, 3], &Int64Array::from(vec![7, 8]));
        let stored = append_as(&dictionary_type, &runs).unwrap();
        assert_eq!(stored.data_type(), &dictionary_type);
        let values = decoded(&stored.to_data(), &DataType::Int64).unwrap();
        assert_eq!(values, Int64Array::from(vec![7, 7, 8]).to_data());
    }

    /// A run may have any number of rows.
    #[test]
    fn rows_that_exceed_memory_are_rejected() {
        let ends = Int64Array::from(vec![1 << 50]);
        let numbers: ArrayRef = Arc::new(RunArray::<Int64Type>::try_new(&ends, &Int64Array::from(vec![7])).unwrap());
        let texts: ArrayRef = Arc::new(RunArray::<Int64Type>::try_new(&ends, &StringArray::from(vec!["a"])).unwrap());
        for (target, array) in [(DataType::Int64, numbers), (DataType::Utf8, texts)] {
            let e = append_as(&target, &array).unwrap_err();
            assert!(e.to_string().contains("have no room in memory"), "{e}");
        }
    }
}
