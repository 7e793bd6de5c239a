//! Messages of a stream made a piece at a time, as a server sends them: every type, any cut, nothing copied.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, MessageKind, StreamEncoder, Value, Writer, WriterOptions, open, read_stream};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// The stream of `dataset`, made as the documentation says, and the rows and body of each record batch.
fn stream(dataset: &Dataset, max_bytes: usize) -> (Vec<u8>, Vec<(u64, usize)>) {
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let mut stream = encoder.schema_message().head().unwrap();
    let (mut from, end, mut pieces) = (0, dataset.len().unwrap(), Vec::new());
    while from < end {
        let (messages, rows) = encoder.encode(&dataset.slice(from, end - from).unwrap(), max_bytes).unwrap();
        assert!(rows > 0);
        for message in &messages {
            stream.extend(message.head().unwrap());
            assert_eq!(stream.len() % 64, 0);
            let begin = stream.len();
            for buffer in &message.body {
                stream.extend_from_slice(buffer);
                stream.resize(stream.len().next_multiple_of(64), 0);
            }
            assert_eq!(stream.len() - begin, message.body_len());
        }
        assert_eq!(messages.iter().filter(|message| message.kind == MessageKind::RecordBatch).count(), 1);
        pieces.push((rows, messages.last().unwrap().body_len()));
        from += rows;
    }
    stream.extend(StreamEncoder::END);
    (stream, pieces)
}

fn read(stream: &[u8], dataset: &Dataset) -> Dataset {
    let batches = read_stream(stream).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    Dataset::from_batches(dataset.schema().clone(), batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn pieces_of_any_size_are_the_rows(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4),
        start in 0u64..100, len in 0u64..500, max_bytes in 1usize..60_000,
    ) {
        let parts: Vec<_> = batches.iter().map(|seeds| Dataset::try_from(vec![batch(seeds)]).unwrap()).collect();
        let dataset = Dataset::concat(&parts).unwrap().slice(start, len).unwrap();
        let (bytes, pieces) = stream(&dataset, max_bytes);
        prop_assert_eq!(rows(&read(&bytes, &dataset)), rows(&dataset));
        for (rows, bytes) in pieces {
            prop_assert!(bytes <= max_bytes || rows == 1, "{rows} rows of {bytes} bytes");
        }
    }
}

fn growing(rows: Range<i64>) -> (tempfile::TempDir, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let fields = vec![
        Field::new("n", DataType::Int64, false),
        Field::new("x", DataType::Float64, true),
        Field::new("word", DataType::Utf8, true),
        Field::new("symbol", DataType::Utf8, true),
    ];
    let options =
        WriterOptions { dictionary: vec!["symbol".into()], segment_rows: Some(3_000), ..WriterOptions::default() };
    let mut writer = Writer::open(folder.path().join("t"), Some(Arc::new(Schema::new(fields))), &options).unwrap();
    for row in rows {
        let (word, symbol) = (format!("word {}", row % 977), format!("s{}", row / 100));
        let x = if row % 7 == 0 { Value::Null } else { Value::Float64(row as f64 / 2.0) };
        writer.append_row(&[Value::Int(row), x, Value::Str(&word), Value::Str(&symbol)]).unwrap();
    }
    writer.close().unwrap();
    let dataset = open(folder.path().join("t")).unwrap();
    (folder, dataset)
}

#[test]
fn a_growing_table_is_cut_at_multiples_of_64_rows_of_its_segments() {
    let (_folder, dataset) = growing(0..10_000);
    let dataset = dataset.slice(1_001, 8_000).unwrap();
    let (bytes, pieces) = stream(&dataset, 10_000);
    assert_eq!(rows(&read(&bytes, &dataset)), rows(&dataset));
    let mut row = 1_001;
    let mut even = 0;
    for (rows, bytes) in &pieces {
        assert!(*bytes <= 10_000, "{bytes}");
        row += rows;
        let ends_segment = row % 3_000 == 0 || row == 9_001;
        even += u64::from((row % 3_000) % 64 == 0 && !ends_segment);
        assert!(ends_segment || (row % 3_000) % 64 == 0, "{row}");
    }
    assert!(even > 10, "{pieces:?}");
    // The first piece is a guess, those behind it are near the limit.
    let large = pieces.iter().filter(|(_, bytes)| *bytes > 5_000).count();
    assert!(large * 2 > pieces.len(), "{pieces:?}");
}

#[test]
fn dictionaries_are_sent_once_and_then_what_is_new() {
    let (_folder, dataset) = growing(0..10_000);
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let (mut from, mut words) = (0, 0);
    while from < 10_000 {
        let (messages, rows) = encoder.encode(&dataset.slice(from, 500).unwrap(), 1 << 20).unwrap();
        for message in messages.iter().filter(|message| message.kind == MessageKind::DictionaryBatch) {
            words += message.body.last().unwrap().len();
        }
        from += rows;
    }
    // "s0" … "s99", each once.
    assert_eq!(words, 10 * 2 + 90 * 3);
}

#[test]
fn values_are_not_copied() {
    let (_folder, dataset) = growing(0..2_000);
    let chunks: Vec<_> = (0..2).flat_map(|column| dataset.column_at(column).unwrap().chunks().unwrap()).collect();
    let mapped: Vec<_> = chunks.iter().map(|chunk| chunk.buffers()[0].as_slice().as_ptr_range()).collect();
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let (messages, rows) = encoder.encode(&dataset.slice(64, 1_000).unwrap(), 1 << 20).unwrap();
    let message = messages.last().unwrap();
    assert_eq!((rows, message.kind), (1_000, MessageKind::RecordBatch));
    // Validity, values; validity, values: of the text behind them the offsets are moved.
    for (buffer, range) in [(1, &mapped[0]), (3, &mapped[1])] {
        assert_eq!(message.body[buffer].len(), 8_000);
        assert!(range.contains(&message.body[buffer].as_ptr()));
    }
    let nulls = chunks[1].nulls().unwrap().buffer();
    assert!(nulls.as_slice().as_ptr_range().contains(&message.body[2].as_ptr()), "a bitmap that begins with a byte");
}

#[test]
fn a_schema_that_differs_is_refused() {
    let column = |name: &str| {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        Dataset::try_from(vec![RecordBatch::try_from_iter([(name, array)]).unwrap()]).unwrap()
    };
    let mut encoder = StreamEncoder::new(column("a").schema().clone()).unwrap();
    let e = encoder.encode(&column("b"), 1 << 20).unwrap_err();
    assert_eq!(e.kind(), arrowwood::ErrorKind::SchemaMismatch);
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(5_000); 3]));
    let large = Dataset::try_from(vec![RecordBatch::try_from_iter([("w", words)]).unwrap()]).unwrap();
    assert_eq!(stream(&large, 1_000).1.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [1, 1, 1]);
}
