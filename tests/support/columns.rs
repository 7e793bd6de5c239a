//! Batches with columns of many types, and rows as text.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{Field, UnionFields};
use arrowwood::Dataset;

/// Returns all rows, each as the JSON texts of its values.
pub fn rows(dataset: &Dataset) -> Vec<String> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        rows.push(row.iter().map(|(_, value)| format!("{} ", value.unwrap().to_json().unwrap())).collect());
    }
    rows
}

fn nullable_item(array: &dyn Array) -> Arc<Field> {
    Arc::new(Field::new("item", array.data_type().clone(), true))
}

/// Returns a text of up to ten characters, or `None` for every fifth seed.
fn text(seed: &u8) -> Option<String> {
    (!seed.is_multiple_of(5)).then(|| "é".repeat(usize::from(seed % 11)))
}

/// Returns a large number, or `None` for every fourth seed.
fn number(seed: &u8) -> Option<i64> {
    (!seed.is_multiple_of(4)).then(|| i64::from(*seed) << 40)
}

/// Returns a batch with columns of many types, whose values are derived from `seeds`.
pub fn batch(seeds: &[u8]) -> RecordBatch {
    let len = seeds.len();
    let rows = len as i32;
    let strings: StringArray = seeds.iter().map(text).collect();
    let views: StringViewArray = seeds.iter().map(text).collect();
    let dictionary: DictionaryArray<Int16Type> = strings.iter().collect();
    let large_dictionary: DictionaryArray<Int32Type> = strings.iter().collect();
    let flags: BooleanArray = seeds.iter().map(|seed| (seed % 3 != 0).then_some(seed % 2 == 0)).collect();
    let numbers: Int64Array = seeds.iter().map(|&seed| Some(i64::from(seed))).collect();
    let nullable_numbers: Int64Array = seeds.iter().map(number).collect();
    let decimals = Decimal128Array::from_iter(seeds.iter().map(|seed| number(seed).map(i128::from)));

    let children: Vec<ArrayRef> = vec![Arc::new(dictionary.clone()), Arc::new(flags)];
    let fields: Vec<_> = children.iter().map(|array| nullable_item(array)).collect();
    let nulls = Some(NullBuffer::from_iter(seeds.iter().map(|seed| seed % 7 != 0)));
    let structs = StructArray::new(fields.into(), children, nulls.clone());
    let struct_dictionary = DictionaryArray::<Int32Type>::new((0..rows).rev().collect(), Arc::new(structs.clone()));

    let one_each = OffsetBuffer::from_lengths(vec![1; len]);
    let lists = ListArray::new(nullable_item(&structs), one_each, Arc::new(structs.clone()), nulls);
    let starts: Vec<_> = seeds.iter().map(|&seed| i32::from(seed) % rows).collect();
    let list_views = ListViewArray::new(
        nullable_item(&struct_dictionary),
        starts.clone().into(),
        vec![1; len].into(),
        Arc::new(struct_dictionary.clone()),
        None,
    );
    let fixed_size_lists = FixedSizeListArray::new(nullable_item(&strings), 1, Arc::new(strings.clone()), None);
    let runs = RunArray::<Int32Type>::try_new(&(1..=rows).collect(), &strings).unwrap();

    let members: UnionFields =
        [(4, nullable_item(&struct_dictionary)), (2, nullable_item(&strings))].into_iter().collect();
    let type_ids: Vec<i8> = seeds.iter().map(|seed| 2 + seed % 2 * 2).map(u8::cast_signed).collect();
    let member_values: Vec<ArrayRef> = vec![Arc::new(struct_dictionary.clone()), Arc::new(strings.clone())];
    let dense_union =
        UnionArray::try_new(members.clone(), type_ids.clone().into(), Some(starts.into()), member_values.clone());
    let sparse_union = UnionArray::try_new(members, type_ids.into(), None, member_values);

    let columns: Vec<ArrayRef> = vec![
        Arc::new(strings),
        Arc::new(views),
        Arc::new(dictionary),
        Arc::new(structs),
        Arc::new(struct_dictionary),
        Arc::new(lists),
        Arc::new(list_views),
        Arc::new(fixed_size_lists),
        Arc::new(runs),
        Arc::new(dense_union.unwrap()),
        Arc::new(sparse_union.unwrap()),
        Arc::new(numbers),
        Arc::new(nullable_numbers),
        Arc::new(decimals),
        Arc::new(large_dictionary),
    ];
    let columns = columns.into_iter().enumerate().map(|(i, column)| (i.to_string(), column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}
