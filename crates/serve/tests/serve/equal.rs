//! Tests that rows are equal whether they come from the mapping, over HTTP or over Arrow Flight: of every growable
//! type, in ranges, of empty tables, and while dictionaries grow. Responses are read by arrow-rs.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{Field, Schema, SchemaRef};
use arrowwood::{Dataset, ErrorKind, Value, WriteOptions, Writer, WriterOptions, open, parse_schema};

use crate::columns;
use crate::support::*;

/// A table as text.
#[derive(Debug, PartialEq)]
struct TableText {
    columns: Vec<ColumnText>,
    rows: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct ColumnText {
    name: String,
    data_type: String,
    is_nullable: bool,
}

fn format_table(dataset: &Dataset) -> TableText {
    let mut columns = Vec::new();
    for field in dataset.schema().fields() {
        columns.push(ColumnText {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            is_nullable: field.is_nullable(),
        });
    }
    TableText { columns, rows: columns::rows(dataset) }
}

/// Reads a stream with arrow-rs.
fn read_with_arrow_rs(stream: Vec<u8>) -> TableText {
    let reader = StreamReader::try_new(Cursor::new(stream), None).unwrap();
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().unwrap();
    format_table(&Dataset::from_batches(schema, batches).unwrap())
}

/// Asserts that some rows of a table are equal over all transports.
#[track_caller]
fn assert_equal_in_all_transports(server: &TestServer, table: &str, rows: Range<u64>) {
    let Range { start, end } = rows;
    let mapped = open(server.path(table)).unwrap().slice(start, end - start).unwrap();
    let mapped = format_table(&mapped);
    assert_eq!(mapped.rows.len() as u64, end - start, "{table}");

    let reply = server.get(&format!("/v1/tables/{table}/rows?from={start}&to={end}"));
    assert_eq!((reply.status, reply.is_complete), (200, true), "{table}: {}", reply.text());
    assert_eq!(read_with_arrow_rs(reply.body), mapped, "{table} over HTTP, rows {start} to {end}");

    let stream = flight::get(server, &format!("{table}?from={start}&to={end}"));
    assert_eq!(read_with_arrow_rs(stream), mapped, "{table} by Flight, rows {start} to {end}");
}

/// Returns a batch with one column.
fn single_column(array: &ArrayRef) -> RecordBatch {
    let field = Field::new("x", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()]).unwrap()
}

fn open_writer(server: &TestServer, table: &str, schema: SchemaRef, segment_rows: u64) -> arrowwood::Result<Writer> {
    let options = WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() };
    Writer::open(server.path(table), Some(schema), &options)
}

#[test]
fn every_growable_type_is_equal_in_all_transports() {
    let server = TestServer::start();
    let mut growable_count = 0;
    let mut unsupported = Vec::new();
    for (number, sample) in crate::samples::samples().iter().enumerate() {
        let table = format!("t{number}");
        let mut writer = match open_writer(&server, &table, single_column(sample).schema(), 8) {
            Ok(writer) => writer,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                unsupported.push(sample.data_type().to_string());
                continue;
            }
        };
        growable_count += 1;
        assert_equal_in_all_transports(&server, &table, 0..0);
        for rows in [0..2, 2..3, 1..3, 0..3, 0..3, 1..2] {
            writer.append(&single_column(&sample.slice(rows.start, rows.len()))).unwrap();
            writer.commit().unwrap();
        }
        // All rows, rows across segments, rows of one batch, and none.
        for rows in [0..12, 1..11, 7..9, 5..5] {
            assert_equal_in_all_transports(&server, &table, rows);
        }
    }
    eprintln!("{growable_count} types; those that don't grow: {unsupported:?}");
    assert!(growable_count > 40, "{growable_count} types, without {unsupported:?}");
}

/// Keys of a growing dictionary must have the same meaning in a response of any range and in a stream that goes on.
#[test]
fn growing_dictionaries_are_equal_in_all_transports() {
    let server = TestServer::start();
    let schema = Arc::new(parse_schema("n: int not null, word: category, other: category").unwrap());
    let mut writer = open_writer(&server, "t", schema, 20).unwrap();
    assert_equal_in_all_transports(&server, "t", 0..0);
    let mut client = server.client();
    client.send_request("GET", "/v1/tables/t/follow?from=0", &[], b"").unwrap();
    let (status, _) = client.read_head().unwrap();
    assert_eq!(status, 200);
    let mut followed = StreamReader::try_new(client.body(), None).unwrap();
    let mut followed_rows = Vec::new();

    for n in 0..50 {
        let word = format!("word {}", n * n % 37);
        let other = format!("{}", n / 9);
        let other = if n % 5 == 2 { Value::Null } else { Value::Str(&other) };
        writer.append_row(&[Value::Int(n), Value::Str(&word), other]).unwrap();
        if n % 3 > 0 {
            continue;
        }
        writer.commit().unwrap();
        let end = n as u64 + 1;
        for start in [0, end / 2, end - 1] {
            assert_equal_in_all_transports(&server, "t", start..end);
        }
        while (followed_rows.len() as u64) < end {
            let batch = followed.next().unwrap().unwrap();
            followed_rows.extend(columns::rows(&Dataset::try_from(vec![batch]).unwrap()));
        }
        assert_eq!(followed_rows, columns::rows(&open(server.path("t")).unwrap()));
    }
}

/// Tables without rows are a table that never had any, and a file without batches.
#[test]
fn empty_tables_are_equal_in_all_transports() {
    let server = TestServer::start();
    let schema = "n: int not null, word: category, list: list<int>, at: timestamp[us, UTC]";
    server.writer("never", schema).close().unwrap();
    let without_batches = Dataset::from_batches(Arc::new(parse_schema(schema).unwrap()), Vec::new()).unwrap();
    arrowwood::write(&without_batches, server.path("none.arrow"), &WriteOptions::default()).unwrap();

    for table in ["never", "none.arrow"] {
        assert_equal_in_all_transports(&server, table, 0..0);
        let by_flight = flight::get(&server, &format!("{table}?where=n > 3&columns=word,n"));
        let by_http = server.get(&format!("/v1/tables/{table}/rows?where=n%3E3&columns=word,n"));
        assert_eq!(read_with_arrow_rs(by_flight), read_with_arrow_rs(by_http.body));
        // The response contains the schema of the rows that come later.
        let reply = server.get(&format!("/v1/tables/{table}/rows?limit=0"));
        assert_eq!(read_with_arrow_rs(reply.body), format_table(&open(server.path(table)).unwrap()));
    }

    assert_eq!(server.post_json("never", "{\"n\":1}").status, 200);
    for rows in [0..1, 1..1] {
        assert_equal_in_all_transports(&server, "never", rows);
    }
}
