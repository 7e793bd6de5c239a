//! Batches with columns of many kinds, and their rows as text.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{Field, UnionFields};
use arrowwood::Dataset;

/// All rows, each as text.
pub fn rows(dataset: &Dataset) -> Vec<String> {
    dataset
        .rows()
        .map(|row| row.unwrap().iter().map(|(_, v)| format!("{} ", v.unwrap().to_json().unwrap())).collect())
        .collect()
}

/// Columns of many kinds whose values follow from `seeds`.
pub fn batch(seeds: &[u8]) -> RecordBatch {
    let (n, rows) = (seeds.len(), seeds.len() as i32);
    let item = |array: &dyn Array| Arc::new(Field::new("item", array.data_type().clone(), true));
    let text = |seed: &u8| (!seed.is_multiple_of(5)).then(|| "é".repeat(usize::from(seed % 11)));
    let strings: StringArray = seeds.iter().map(text).collect();
    let views: StringViewArray = seeds.iter().map(text).collect();
    let dictionary: DictionaryArray<Int16Type> = strings.iter().collect();
    let flags: BooleanArray = seeds.iter().map(|seed| (seed % 3 != 0).then_some(seed % 2 == 0)).collect();
    let pair: Vec<ArrayRef> = vec![Arc::new(dictionary.clone()), Arc::new(flags)];
    let fields: Vec<_> = pair.iter().map(|array| item(array)).collect();
    let nulls = Some(NullBuffer::from_iter(seeds.iter().map(|seed| seed % 7 != 0)));
    let structs = StructArray::new(fields.into(), pair, nulls.clone());
    let outer = DictionaryArray::<Int32Type>::new((0..rows).rev().collect(), Arc::new(structs.clone()));
    let starts: Vec<_> = seeds.iter().map(|&seed| i32::from(seed) % rows).collect();
    let one = OffsetBuffer::from_lengths(vec![1; n]);
    let lists = ListArray::new(item(&structs), one, Arc::new(structs.clone()), nulls);
    let sizes = vec![1; n].into();
    let list_views = ListViewArray::new(item(&outer), starts.clone().into(), sizes, Arc::new(outer.clone()), None);
    let fixed = FixedSizeListArray::new(item(&strings), 1, Arc::new(strings.clone()), None);
    let runs = RunArray::<Int32Type>::try_new(&(1..=rows).collect(), &strings).unwrap();
    let members: UnionFields = [(4, item(&outer)), (2, item(&strings))].into_iter().collect();
    let ids: Vec<i8> = seeds.iter().map(|seed| 2 + seed % 2 * 2).map(u8::cast_signed).collect();
    let union = |starts| {
        UnionArray::try_new(
            members.clone(),
            ids.clone().into(),
            starts,
            vec![Arc::new(outer.clone()), Arc::new(strings.clone())],
        )
        .unwrap()
    };
    let (dense, sparse) = (union(Some(starts.into())), union(None));
    let number = |seed: &u8| (!seed.is_multiple_of(4)).then(|| i64::from(*seed) << 40);
    let (numbers, some): (Int64Array, Int64Array) =
        (seeds.iter().map(|&seed| Some(i64::from(seed))).collect(), seeds.iter().map(number).collect());
    let decimals = Decimal128Array::from_iter(seeds.iter().map(|seed| number(seed).map(i128::from)));
    let words: DictionaryArray<Int32Type> = strings.iter().collect();
    let columns: Vec<&dyn Array> = vec![
        &strings,
        &views,
        &dictionary,
        &structs,
        &outer,
        &lists,
        &list_views,
        &fixed,
        &runs,
        &dense,
        &sparse,
        &numbers,
        &some,
        &decimals,
        &words,
    ];
    let columns = columns.into_iter().map(|column| make_array(column.to_data())).enumerate();
    RecordBatch::try_from_iter_with_nullable(columns.map(|(i, column)| (i.to_string(), column, true))).unwrap()
}
