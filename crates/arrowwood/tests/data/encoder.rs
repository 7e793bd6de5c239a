//! Tests of `StreamEncoder`, which encodes a stream piece by piece, as a server sends it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, MessageKind, StreamEncoder, Value, Writer, WriterOptions, open, read_stream};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// The size of an encoded record batch.
#[derive(Debug)]
struct Piece {
    rows: u64,
    body_len: usize,
}

/// Encodes a dataset as the documentation of `StreamEncoder` describes; returns the stream and its record batches.
fn encode_stream(dataset: &Dataset, max_bytes: usize) -> (Vec<u8>, Vec<Piece>) {
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let mut stream = encoder.schema_message().head().unwrap();
    let mut pieces = Vec::new();
    let len = dataset.len().unwrap();
    let mut start = 0;
    while start < len {
        let (messages, rows) = encoder.encode(&dataset.slice(start, len - start).unwrap(), max_bytes).unwrap();
        assert!(rows > 0);
        for message in &messages {
            stream.extend(message.head().unwrap());
            assert_eq!(stream.len() % 64, 0);
            let body_start = stream.len();
            for buffer in &message.body {
                stream.extend_from_slice(buffer);
                stream.resize(stream.len().next_multiple_of(64), 0);
            }
            assert_eq!(stream.len() - body_start, message.body_len());
        }
        assert_eq!(messages.iter().filter(|message| message.kind == MessageKind::RecordBatch).count(), 1);
        pieces.push(Piece { rows, body_len: messages.last().unwrap().body_len() });
        start += rows;
    }
    stream.extend(StreamEncoder::END);
    (stream, pieces)
}

/// Reads a stream of rows of `dataset`.
fn decode_stream(stream: &[u8], dataset: &Dataset) -> Dataset {
    let batches = read_stream(stream).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    Dataset::from_batches(dataset.schema().clone(), batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn pieces_of_any_size_contain_all_rows(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4),
        start in 0u64..100, len in 0u64..500, max_bytes in 1usize..60_000,
    ) {
        let parts: Vec<_> = batches.iter().map(|seeds| Dataset::try_from(vec![batch(seeds)]).unwrap()).collect();
        let dataset = Dataset::concat(&parts).unwrap().slice(start, len).unwrap();
        let (stream, pieces) = encode_stream(&dataset, max_bytes);
        prop_assert_eq!(rows(&decode_stream(&stream, &dataset)), rows(&dataset));
        for piece in pieces {
            prop_assert!(piece.body_len <= max_bytes || piece.rows == 1, "{:?}", piece);
        }
    }
}

const SEGMENT_ROWS: u64 = 3_000;

/// Writes a table with a column of dictionary-encoded texts.
fn write_table(rows: Range<i64>) -> (tempfile::TempDir, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let fields = vec![
        Field::new("n", DataType::Int64, false),
        Field::new("x", DataType::Float64, true),
        Field::new("word", DataType::Utf8, true),
        Field::new("symbol", DataType::Utf8, true),
    ];
    let options = WriterOptions {
        dictionary: vec!["symbol".into()],
        segment_rows: Some(SEGMENT_ROWS),
        ..WriterOptions::default()
    };
    let mut writer = Writer::open(folder.path().join("t"), Some(Arc::new(Schema::new(fields))), &options).unwrap();
    for row in rows {
        let word = format!("word {}", row % 977);
        let symbol = format!("s{}", row / 100);
        let x = if row % 7 == 0 { Value::Null } else { Value::Float64(row as f64 / 2.0) };
        writer.append_row(&[Value::Int(row), x, Value::Str(&word), Value::Str(&symbol)]).unwrap();
    }
    writer.close().unwrap();
    let dataset = open(folder.path().join("t")).unwrap();
    (folder, dataset)
}

#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn tables_are_cut_at_multiples_of_64_rows_of_their_segments() {
    const MAX_BYTES: usize = 10_000;
    let (_folder, table) = write_table(0..10_000);
    let dataset = table.slice(1_001, 8_000).unwrap();
    let (stream, pieces) = encode_stream(&dataset, MAX_BYTES);
    assert_eq!(rows(&decode_stream(&stream, &dataset)), rows(&dataset));
    let mut row = 1_001;
    let mut cuts_inside_segments = 0;
    for piece in &pieces {
        assert!(piece.body_len <= MAX_BYTES, "{piece:?}");
        row += piece.rows;
        let ends_segment = row % SEGMENT_ROWS == 0 || row == 9_001;
        if !ends_segment {
            assert!((row % SEGMENT_ROWS).is_multiple_of(64), "{row}");
            cuts_inside_segments += 1;
        }
    }
    assert!(cuts_inside_segments > 10, "{pieces:?}");
    // The first piece is a guess; the sizes of the following ones are close to the limit.
    let large_pieces = pieces.iter().filter(|piece| piece.body_len > MAX_BYTES / 2).count();
    assert!(large_pieces * 2 > pieces.len(), "{pieces:?}");
}

#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn dictionary_values_are_sent_once() {
    let (_folder, dataset) = write_table(0..10_000);
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let mut start = 0;
    let mut text_len = 0;
    while start < 10_000 {
        let (messages, rows) = encoder.encode(&dataset.slice(start, 500).unwrap(), 1 << 20).unwrap();
        for message in messages.iter().filter(|message| message.kind == MessageKind::DictionaryBatch) {
            text_len += message.body.last().unwrap().len();
        }
        start += rows;
    }
    // "s0" … "s99", each once.
    assert_eq!(text_len, 10 * 2 + 90 * 3);
}

#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn fixed_width_values_and_aligned_bitmaps_are_not_copied() {
    let (_folder, dataset) = write_table(0..2_000);
    let chunks: Vec<_> = (0..2).flat_map(|column| dataset.column_at(column).unwrap().chunks().unwrap()).collect();
    let mapped: Vec<_> = chunks.iter().map(|chunk| chunk.buffers()[0].as_slice().as_ptr_range()).collect();
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    // Row 64 begins a byte of the bitmaps.
    let (messages, rows) = encoder.encode(&dataset.slice(64, 1_000).unwrap(), 1 << 20).unwrap();
    let message = messages.last().unwrap();
    assert_eq!((rows, message.kind), (1_000, MessageKind::RecordBatch));
    // The body begins with a bitmap and values for each of `n` and `x`. The texts after them have rebased offsets.
    for (buffer, range) in [(1, &mapped[0]), (3, &mapped[1])] {
        assert_eq!(message.body[buffer].len(), 8_000);
        assert!(range.contains(&message.body[buffer].as_ptr()));
    }
    let nulls = chunks[1].nulls().unwrap().buffer();
    assert!(nulls.as_slice().as_ptr_range().contains(&message.body[2].as_ptr()), "a bitmap that begins with a byte");
}

#[test]
fn encode_rejects_another_schema() {
    let one_column = |name: &str| {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        Dataset::try_from(vec![RecordBatch::try_from_iter([(name, array)]).unwrap()]).unwrap()
    };
    let mut encoder = StreamEncoder::new(one_column("a").schema().clone()).unwrap();
    let e = encoder.encode(&one_column("b"), 1 << 20).unwrap_err();
    assert_eq!(e.kind(), arrowwood::ErrorKind::SchemaMismatch);
}

#[test]
fn rows_larger_than_the_limit_are_pieces_of_their_own() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(5_000); 3]));
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("w", words)]).unwrap()]).unwrap();
    let (_, pieces) = encode_stream(&dataset, 1_000);
    assert_eq!(pieces.iter().map(|piece| piece.rows).collect::<Vec<_>>(), [1, 1, 1]);
}
