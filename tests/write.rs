//! What is written is what is read back, however it is cut and whatever dictionaries its batches bring.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{Field, UnionFields};
use arrowwood::{Bytes, Compression, Dataset, Format, Open, WriteOptions, write_to};
use proptest::prelude::*;

fn written(dataset: &Dataset, options: &WriteOptions) -> Dataset {
    let mut bytes = Vec::new();
    write_to(dataset, &mut bytes, options).unwrap();
    Open::new().validate(arrowwood::Validate::Full).bytes(Bytes::from(bytes)).unwrap()
}

fn rows(dataset: &Dataset) -> Vec<String> {
    dataset
        .rows()
        .map(|row| row.unwrap().iter().map(|(_, v)| format!("{} ", v.unwrap().to_json().unwrap())).collect())
        .collect()
}

/// Columns of many kinds whose values follow from `seeds`.
fn batch(seeds: &[u8]) -> RecordBatch {
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
    let columns: Vec<&dyn Array> =
        vec![&strings, &views, &dictionary, &structs, &outer, &lists, &list_views, &fixed, &runs, &dense, &sparse];
    let columns = columns.into_iter().map(|column| make_array(column.to_data())).enumerate();
    RecordBatch::try_from_iter_with_nullable(columns.map(|(i, column)| (i.to_string(), column, true))).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 1..5),
        (start, len, max_rows) in (0u64..20, 1u64..40, prop::option::of(1u64..6)),
    ) {
        let whole = Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap();
        let cut = whole.slice(start, len).unwrap();
        for (format, compression) in [(Format::File, None), (Format::Stream, Some(Compression::Lz4))] {
            let first = written(&cut, &WriteOptions { format, compression, max_rows });
            prop_assert_eq!(rows(&first), rows(&cut));
            let files = Dataset::concat(&[first.clone(), written(&whole, &WriteOptions::default()), first]).unwrap();
            prop_assert_eq!(rows(&written(&files, &WriteOptions { format, max_rows, compression })), rows(&files));
        }
    }
}

#[test]
fn dictionaries_grow_by_deltas_and_values_differ_by_their_bits() {
    let bits = [0, 1 << 63, 0x7ff8 << 48, (0x7ff8 << 48) + 1, 1];
    let all = Float64Array::from_iter_values(bits.map(f64::from_bits));
    let batch = |(from, len): (usize, usize)| {
        let column = DictionaryArray::new(Int16Array::from_iter_values(0..len as i16), Arc::new(all.slice(from, len)));
        RecordBatch::try_from_iter([("c", Arc::new(column) as ArrayRef)]).unwrap()
    };
    let parts = [(0, 1), (0, 3), (0, 2), (0, 5), (2, 3)];
    let dataset = Dataset::try_from(parts.map(batch).to_vec()).unwrap();
    let want: Vec<u64> = parts.iter().flat_map(|&(from, len)| bits[from..from + len].to_vec()).collect();
    let stream = [(false, 1), (true, 2), (true, 2), (false, 3)];
    for (format, sent) in [(Format::Stream, &stream[..]), (Format::File, &[(false, 5)])] {
        let read = written(&dataset, &WriteOptions { format, ..WriteOptions::default() });
        let batches = read.messages().unwrap();
        assert_eq!(batches.iter().filter_map(|m| Some((m.dictionary?.1, m.rows?))).collect::<Vec<_>>(), sent);
        let got = read.rows().map(|row| match row.unwrap().get(0).unwrap() {
            arrowwood::Value::Float64(value) => value.to_bits(),
            other => panic!("{other:?}"),
        });
        assert_eq!(got.collect::<Vec<_>>(), want);
    }
}
