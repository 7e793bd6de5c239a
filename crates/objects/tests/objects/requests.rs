//! Tests of which bytes are fetched, and by how many requests.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrowwood::{Dataset, OpenOptions, Value, WriteOptions, write_indexed, write_to};
use arrowwood_objects::open_with;

use super::server::{Content, Counts, Server, options};

const NO_REQUESTS: Counts = Counts { requests: 0, bytes: 0 };

/// Returns columns `c0`, `c1` and so on of consecutive numbers, row by row: integers and floats in turns.
pub fn numbers(rows: i64, columns: i64) -> Dataset {
    let mut arrays: Vec<(String, ArrayRef)> = Vec::new();
    for column in 0..columns {
        let values = (0..rows).map(|row| row * columns + column);
        let array: ArrayRef = if column % 2 == 0 {
            Arc::new(Int64Array::from_iter_values(values))
        } else {
            Arc::new(Float64Array::from_iter_values(values.map(|value| value as f64)))
        };
        arrays.push((format!("c{column}"), array));
    }
    Dataset::try_from(vec![RecordBatch::try_from_iter(arrays).unwrap()]).unwrap()
}

/// Returns the file that `push` writes, with batches of `batch_rows` rows.
pub fn indexed_file(dataset: &Dataset, batch_rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_indexed(dataset, &mut bytes, batch_rows).unwrap();
    bytes
}

/// Returns a file without an index of its rows, as other libraries write it.
fn file_without_index(dataset: &Dataset, batch_rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = WriteOptions { max_rows: Some(batch_rows), ..WriteOptions::default() };
    write_to(dataset, &mut bytes, &options).unwrap();
    bytes
}

fn sum(dataset: &Dataset, name: &str) -> String {
    dataset.column(name).unwrap().sum().unwrap().to_string()
}

#[test]
fn a_row_is_read_by_one_request_and_columns_by_few() {
    let local = numbers(200_000, 4);
    let server = Server::of_bytes(indexed_file(&local, 10_000));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    assert_eq!(server.take_counts(), Counts { requests: 1, bytes: 64 << 10 });
    assert_eq!(remote.len().unwrap(), 200_000);
    assert_eq!(server.take_counts(), NO_REQUESTS);

    assert!(matches!(remote.row(123_456).unwrap().get(2).unwrap(), Value::Int(493_826)));
    let counts = server.take_counts();
    assert_eq!(counts.requests, 1);
    assert!(counts.bytes < 330_000, "{} bytes for a batch of 320,000", counts.bytes);

    for name in ["c0", "c1", "c2"] {
        assert_eq!(sum(&remote, name), sum(&local, name));
    }
    let counts = server.take_counts();
    assert!(counts.requests <= 8, "{} requests for all batches", counts.requests);
    assert!(counts.bytes <= 6_600_000, "{} bytes for all batches", counts.bytes);
}

#[test]
fn a_column_of_large_batches_is_fetched_alone() {
    let local = numbers(1_000_000, 10);
    let server = Server::of_bytes(indexed_file(&local, 250_000));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    server.take_counts();
    assert_eq!(sum(&remote, "c3"), sum(&local, "c3"));
    let counts = server.take_counts();
    assert!(counts.bytes < 8_100_000, "{} bytes for a column of 8,000,000", counts.bytes);
    assert!(counts.requests <= 10, "{} requests", counts.requests);
    // The second time, it is there.
    sum(&remote, "c3");
    assert_eq!(server.take_counts(), NO_REQUESTS);
}

#[test]
fn batches_of_a_file_without_index_are_listed_by_concurrent_requests() {
    let local = numbers(100_000, 40);
    let server = Server::of_bytes(file_without_index(&local, 500));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    server.take_counts();
    server.slow_down(3, Duration::from_millis(5));
    assert_eq!(remote.len().unwrap(), 100_000);
    let Counts { requests, bytes } = server.take_counts();
    assert!(requests <= 210 && bytes < 1 << 20, "{requests} requests, {bytes} bytes");
    let concurrent = server.max_concurrent();
    assert!(concurrent > 2 && concurrent <= 16, "{concurrent} concurrent requests");
    assert!(matches!(remote.row(99_999).unwrap().get(0).unwrap(), Value::Int(3_999_960)));
}

const HUGE_BATCH_ROWS: u64 = 15_360;

/// A file of any size that is in no memory: it repeats one batch. The first column is the number of the row in its
/// batch, times the number of columns.
struct HugeFile {
    head: Vec<u8>,
    batch: Vec<u8>,
    batch_count: u64,
    tail: Vec<u8>,
}

impl HugeFile {
    /// Makes a file of almost `size` bytes out of a file of two batches, with a footer that lists many.
    fn new(size: u64) -> HugeFile {
        let small = indexed_file(&numbers(2 * HUGE_BATCH_ROWS as i64, 4), HUGE_BATCH_ROWS);
        let messages = OpenOptions::new().bytes(small.clone().into()).unwrap().messages().unwrap();
        let start = messages[1].offset as usize;
        let end = messages[2].offset as usize;
        let batch = small[start..end].to_vec();
        let metadata_len = messages[1].body_offset as i32 - start as i32;
        let body_len = messages[1].body_length as i64;
        // A megabyte is left for the footer.
        let batch_count = (size - 1_000_000) / batch.len() as u64;
        let mut blocks = Vec::new();
        for number in 0..batch_count {
            let offset = start as i64 + number as i64 * batch.len() as i64;
            blocks.push(arrow_ipc::Block::new(offset, metadata_len, body_len));
        }
        let schema = numbers(1, 4).schema().clone();
        let tail = file_tail(&schema, &blocks, batch_count);
        HugeFile { head: small[..start].to_vec(), batch, batch_count, tail }
    }

    fn len(&self) -> u64 {
        self.tail_start() + self.tail.len() as u64
    }

    fn tail_start(&self) -> u64 {
        self.head.len() as u64 + self.batch_count * self.batch.len() as u64
    }

    fn byte(&self, offset: u64) -> u8 {
        let head_len = self.head.len() as u64;
        if offset < head_len {
            self.head[offset as usize]
        } else if offset < self.tail_start() {
            self.batch[((offset - head_len) % self.batch.len() as u64) as usize]
        } else {
            self.tail[(offset - self.tail_start()) as usize]
        }
    }

    fn content(self) -> Content {
        Arc::new(move |start, buffer| {
            for (offset, byte) in (start..).zip(buffer.iter_mut()) {
                *byte = self.byte(offset);
            }
        })
    }
}

/// Returns the end of a file: the end-of-stream marker, the footer with the number of rows, its length, and the magic
/// bytes.
fn file_tail(schema: &arrow_schema::Schema, blocks: &[arrow_ipc::Block], batch_count: u64) -> Vec<u8> {
    use arrow_ipc::convert::IpcSchemaEncoder;
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let key = Some(builder.create_string("arrowwood.rows"));
    let value = Some(builder.create_string(&format!("{batch_count}x{HUGE_BATCH_ROWS}")));
    let row_count = arrow_ipc::KeyValue::create(&mut builder, &arrow_ipc::KeyValueArgs { key, value });
    let custom_metadata = Some(builder.create_vector(&[row_count]));
    let schema = Some(IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, schema));
    let batches = Some(builder.create_vector(blocks));
    let args = arrow_ipc::FooterArgs {
        version: arrow_ipc::MetadataVersion::V5,
        schema,
        dictionaries: None,
        recordBatches: batches,
        custom_metadata,
    };
    let footer = arrow_ipc::Footer::create(&mut builder, &args);
    builder.finish(footer, None);
    let footer = builder.finished_data();
    let mut tail = vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    tail.extend_from_slice(footer);
    tail.extend((footer.len() as i32).to_le_bytes());
    tail.extend(b"ARROW1");
    tail
}

#[test]
fn a_row_of_ten_gigabytes_needs_three_requests_and_a_megabyte() {
    let file = HugeFile::new(10_000_000_000);
    let size = file.len();
    let rows = file.batch_count * HUGE_BATCH_ROWS;
    assert!(size > 9_990_000_000, "{size} bytes");
    let server = Server::new(size, file.content());
    // Without poison, which would fill the sparse file.
    let options = arrowwood_objects::Options { poison: None, ..options() };
    let remote = open_with(&server.url(), OpenOptions::new(), &options).unwrap();
    assert_eq!(remote.len().unwrap(), rows);
    let row = rows / 3 + 17;
    let value = remote.row(row).unwrap().get(0).unwrap().to_string();
    assert_eq!(value, (row % HUGE_BATCH_ROWS * 4).to_string());
    let Counts { requests, bytes } = server.take_counts();
    println!("one row of {size} bytes: {requests} requests, {bytes} bytes");
    assert!(requests <= 3, "{requests} requests");
    assert!(bytes <= 1 << 20, "{bytes} bytes");
}
