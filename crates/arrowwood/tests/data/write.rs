//! Tests that written datasets are read back unchanged, with any slices, batch sizes and dictionaries.

use std::sync::Arc;

use arrow_array::*;
use arrowwood::{Bytes, Compression, Dataset, Format, OpenOptions, WriteOptions, write_to};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// Writes a dataset to memory and opens the result.
fn write_and_open(dataset: &Dataset, options: &WriteOptions) -> Dataset {
    let mut bytes = Vec::new();
    write_to(dataset, &mut bytes, options).unwrap();
    OpenOptions::new().validate(arrowwood::Validation::Full).bytes(Bytes::from(bytes)).unwrap()
}

proptest! {
    #[test]
    fn written_slices_and_concatenations_are_read_back(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 1..5),
        (start, len, max_rows) in (0u64..20, 1u64..40, prop::option::of(1u64..6)),
    ) {
        let dataset = Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap();
        let slice = dataset.slice(start, len).unwrap();
        for (format, compression) in [(Format::File, None), (Format::Stream, Some(Compression::Lz4))] {
            let options = WriteOptions { format, compression, max_rows };
            let reread = write_and_open(&slice, &options);
            prop_assert_eq!(rows(&reread), rows(&slice));

            let parts = [reread.clone(), write_and_open(&dataset, &WriteOptions::default()), reread];
            let concatenated = Dataset::concat(&parts).unwrap();
            prop_assert_eq!(rows(&write_and_open(&concatenated, &options)), rows(&concatenated));
        }
    }
}

/// A piece of a view needs another dictionary than the whole if all of its keys are null, or if it lies in one batch.
#[test]
fn views_are_written_in_pieces_of_any_size() {
    let batch = |keys: Vec<Option<i8>>, values: Vec<&str>| {
        let column = DictionaryArray::new(Int8Array::from(keys), Arc::new(StringArray::from(values)));
        RecordBatch::try_from_iter_with_nullable([("c", Arc::new(column) as ArrayRef, true)]).unwrap()
    };
    let batches =
        vec![batch(vec![None, Some(1)], vec!["unused", "a"]), batch(vec![Some(0), None], vec!["b", "never used"])];
    let dataset = Dataset::try_from(batches).unwrap();
    let empty = Dataset::try_from(vec![batch(vec![], vec![]), batch(vec![], vec!["unused"])]).unwrap();
    assert_eq!(write_and_open(&empty, &WriteOptions::default()).len().unwrap(), 0);
    for view in [
        dataset.slice_with_step(0..4, -1).unwrap(),
        dataset.sort(&[("c", true)]).unwrap(),
        dataset.slice_with_step(0..4, 3).unwrap(),
    ] {
        for (format, max_rows) in [(Format::File, 1), (Format::File, 2), (Format::File, 3), (Format::Stream, 1)] {
            let options = WriteOptions { format, max_rows: Some(max_rows), ..WriteOptions::default() };
            assert_eq!(rows(&write_and_open(&view, &options)), rows(&view));
        }
    }
}

/// The values are floats that compare equal or are NaN, but have different bits. Each batch has a dictionary that
/// extends, repeats or replaces the previous one.
#[test]
fn dictionaries_are_extended_by_deltas_and_floats_keep_their_bits() {
    let value_bits = [0, 1 << 63, 0x7ff8 << 48, (0x7ff8 << 48) + 1, 1];
    let values = Float64Array::from_iter_values(value_bits.map(f64::from_bits));
    let batch = |(start, len): (usize, usize)| {
        let keys = Int16Array::from_iter_values(0..len as i16);
        let column = DictionaryArray::new(keys, Arc::new(values.slice(start, len)));
        RecordBatch::try_from_iter([("c", Arc::new(column) as ArrayRef)]).unwrap()
    };
    let value_ranges = [(0, 1), (0, 3), (0, 2), (0, 5), (2, 3)];
    let dataset = Dataset::try_from(value_ranges.map(batch).to_vec()).unwrap();
    let expected_bits: Vec<u64> =
        value_ranges.iter().flat_map(|&(start, len)| value_bits[start..start + len].to_vec()).collect();

    // Whether each dictionary batch is a delta, and its number of values.
    let in_stream = [(false, 1), (true, 2), (true, 2), (false, 3)];
    let in_file = [(false, 5)];
    for (format, dictionaries) in [(Format::Stream, &in_stream[..]), (Format::File, &in_file)] {
        let reread = write_and_open(&dataset, &WriteOptions { format, ..WriteOptions::default() });
        let messages = reread.messages().unwrap();
        let actual: Vec<_> = messages.iter().filter_map(|m| Some((m.dictionary?.1, m.rows?))).collect();
        assert_eq!(actual, dictionaries);

        let actual_bits = reread.rows().map(|row| match row.unwrap().get(0).unwrap() {
            arrowwood::Value::Float64(value) => value.to_bits(),
            other => panic!("{other:?}"),
        });
        assert_eq!(actual_bits.collect::<Vec<_>>(), expected_bits);
    }
}
