//! What is written is what is read back, however it is cut and whatever dictionaries its batches bring.

use std::sync::Arc;

use arrow_array::*;
use arrowwood::{Bytes, Compression, Dataset, Format, OpenOptions, WriteOptions, write_to};
use proptest::prelude::*;

use crate::columns::{batch, rows};

fn written(dataset: &Dataset, options: &WriteOptions) -> Dataset {
    let mut bytes = Vec::new();
    write_to(dataset, &mut bytes, options).unwrap();
    OpenOptions::new().validate(arrowwood::Validation::Full).bytes(Bytes::from(bytes)).unwrap()
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

/// A part of a view has another dictionary than the whole where all of its keys are null, or of one batch.
#[test]
fn views_are_written_in_pieces_of_any_size() {
    let batch = |keys: Vec<Option<i8>>, values: Vec<&str>| {
        let column = DictionaryArray::new(Int8Array::from(keys), Arc::new(StringArray::from(values)));
        RecordBatch::try_from_iter_with_nullable([("c", Arc::new(column) as ArrayRef, true)]).unwrap()
    };
    let batches =
        vec![batch(vec![None, Some(1)], vec!["unused", "a"]), batch(vec![Some(0), None], vec!["b", "never used"])];
    let whole = Dataset::try_from(batches).unwrap();
    let empty = Dataset::try_from(vec![batch(vec![], vec![]), batch(vec![], vec!["unused"])]).unwrap();
    assert_eq!(written(&empty, &WriteOptions::default()).len().unwrap(), 0);
    for view in [
        whole.slice_with_step(0..4, -1).unwrap(),
        whole.sort(&[("c", true)]).unwrap(),
        whole.slice_with_step(0..4, 3).unwrap(),
    ] {
        for (format, max_rows) in [(Format::File, 1), (Format::File, 2), (Format::File, 3), (Format::Stream, 1)] {
            let read = written(&view, &WriteOptions { format, max_rows: Some(max_rows), ..WriteOptions::default() });
            assert_eq!(rows(&read), rows(&view));
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
