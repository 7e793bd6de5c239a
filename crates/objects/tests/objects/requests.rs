//! What is fetched, and in how many requests.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrowwood::{Dataset, OpenOptions, Value, WriteOptions, write_indexed, write_to};
use arrowwood_objects::open_with;

use super::server::{Content, Server, options};

pub fn numbers(rows: i64, columns: i64) -> Dataset {
    let column = |c: i64| {
        let values = (0..rows).map(|row| row * columns + c);
        let array: ArrayRef = match c % 2 {
            0 => Arc::new(Int64Array::from_iter_values(values)),
            _ => Arc::new(Float64Array::from_iter_values(values.map(|value| value as f64))),
        };
        (format!("c{c}"), array)
    };
    Dataset::try_from(vec![RecordBatch::try_from_iter((0..columns).map(column)).unwrap()]).unwrap()
}

/// The file that `push` writes of them.
pub fn indexed(dataset: &Dataset, rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_indexed(dataset, &mut bytes, rows).unwrap();
    bytes
}

fn sum(dataset: &Dataset, name: &str) -> String {
    dataset.column(name).unwrap().sum().unwrap().to_string()
}

fn plain(dataset: &Dataset, rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(dataset, &mut bytes, &WriteOptions { max_rows: Some(rows), ..WriteOptions::default() }).unwrap();
    bytes
}

#[test]
fn a_column_is_summed_and_a_row_is_read() {
    let local = numbers(200_000, 4);
    let server = Server::of_bytes(indexed(&local, 10_000));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    assert_eq!(server.counted(), (1, 64 << 10));
    assert_eq!(remote.len().unwrap(), 200_000);
    assert_eq!(server.counted(), (0, 0));
    assert!(matches!(remote.row(123_456).unwrap().get(2).unwrap(), Value::Int(493_826)));
    let (requests, bytes) = server.counted();
    assert_eq!(requests, 1);
    assert!(bytes < 330_000, "{bytes} bytes for a batch of 320,000");
    for name in ["c0", "c1", "c2"] {
        assert_eq!(sum(&remote, name), sum(&local, name));
    }
    let (requests, bytes) = server.counted();
    assert!(requests <= 8, "{requests} requests for all batches");
    assert!(bytes <= 6_600_000, "{bytes} bytes for all batches");
}

#[test]
fn of_large_batches_a_column_alone_is_fetched() {
    let local = numbers(1_000_000, 10);
    let server = Server::of_bytes(indexed(&local, 250_000));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    server.counted();
    assert_eq!(sum(&remote, "c3"), sum(&local, "c3"));
    let (requests, bytes) = server.counted();
    assert!(bytes < 8_100_000, "{bytes} bytes for a column of 8,000,000");
    assert!(requests <= 10, "{requests} requests");
    sum(&remote, "c3");
    assert_eq!(server.counted(), (0, 0));
}

#[test]
fn files_of_others_are_walked_by_few_requests_at_a_time() {
    let local = numbers(100_000, 40);
    let server = Server::of_bytes(plain(&local, 500));
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    server.counted();
    server.slow(3, Duration::from_millis(5));
    assert_eq!(remote.len().unwrap(), 100_000);
    let (requests, bytes) = server.counted();
    assert!(requests <= 210 && bytes < 1 << 20, "{requests} requests, {bytes} bytes");
    assert!(server.most_at_once() > 2 && server.most_at_once() <= 16, "{} at once", server.most_at_once());
    assert!(matches!(remote.row(99_999).unwrap().get(0).unwrap(), Value::Int(3_999_960)));
}

/// Ten gigabytes, none of which are anywhere: batches of one shape, whose first column is the number of the row.
struct Huge {
    head: Vec<u8>,
    batch: Vec<u8>,
    count: u64,
    end: Vec<u8>,
}

const HUGE_ROWS: u64 = 15_360;

impl Huge {
    /// From a small file of two batches: its head, one batch, and a footer that lists many.
    fn new(size: u64) -> Huge {
        let small = indexed(&numbers(2 * HUGE_ROWS as i64, 4), HUGE_ROWS);
        let messages = OpenOptions::new().bytes(small.clone().into()).unwrap().messages().unwrap();
        let (first, second) = (messages[1].offset as usize, messages[2].offset as usize);
        let batch = small[first..second].to_vec();
        let count = (size - 1_000_000) / batch.len() as u64;
        let blocks: Vec<_> = (0..count)
            .map(|n| {
                let offset = first as i64 + n as i64 * batch.len() as i64;
                let metadata = messages[1].body_offset as i32 - first as i32;
                arrow_ipc::Block::new(offset, metadata, messages[1].body_length as i64)
            })
            .collect();
        let schema = numbers(1, 4).schema().clone();
        Huge { head: small[..first].to_vec(), batch, count, end: end_of(&schema, &blocks, count) }
    }

    fn len(&self) -> u64 {
        self.head.len() as u64 + self.count * self.batch.len() as u64 + self.end.len() as u64
    }

    fn content(self) -> Content {
        Arc::new(move |at, into| {
            let (head, batch) = (self.head.len() as u64, self.batch.len() as u64);
            for (at, byte) in (at..).zip(into.iter_mut()) {
                *byte = match at {
                    at if at < head => self.head[at as usize],
                    at if at < head + self.count * batch => self.batch[((at - head) % batch) as usize],
                    at => self.end[(at - head - self.count * batch) as usize],
                };
            }
        })
    }
}

/// The end of a file: the marker, the footer with the note of rows, its length, the magic.
fn end_of(schema: &arrow_schema::Schema, blocks: &[arrow_ipc::Block], count: u64) -> Vec<u8> {
    use arrow_ipc::convert::IpcSchemaEncoder;
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let key = Some(builder.create_string("arrowwood.rows"));
    let value = Some(builder.create_string(&format!("{count}x{HUGE_ROWS}")));
    let note = arrow_ipc::KeyValue::create(&mut builder, &arrow_ipc::KeyValueArgs { key, value });
    let custom_metadata = Some(builder.create_vector(&[note]));
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
    let mut end = vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    end.extend_from_slice(footer);
    end.extend((footer.len() as i32).to_le_bytes());
    end.extend(b"ARROW1");
    end
}

#[test]
fn a_row_of_ten_gigabytes_is_three_requests_and_a_megabyte() {
    let huge = Huge::new(10_000_000_000);
    let size = huge.len();
    let rows = huge.count * HUGE_ROWS;
    assert!(size > 9_990_000_000, "{size} bytes");
    let server = Server::new(size, huge.content());
    let options = arrowwood_objects::Options { poison: None, ..options() };
    let remote = open_with(&server.url(), OpenOptions::new(), &options).unwrap();
    assert_eq!(remote.len().unwrap(), rows);
    let row = rows / 3 + 17;
    let found = remote.row(row).unwrap().get(0).unwrap().to_string();
    assert_eq!(found, (row % HUGE_ROWS * 4).to_string());
    let (requests, bytes) = server.counted();
    println!("one row of {size} bytes: {requests} requests, {bytes} bytes");
    assert!(requests <= 3, "{requests} requests");
    assert!(bytes <= 1 << 20, "{bytes} bytes");
}
