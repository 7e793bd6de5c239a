//! Tests that rows are equal whether they come from the mapping, over HTTP or over Arrow Flight: of every growable
//! type, in ranges, of empty tables, and while dictionaries grow. Responses are read by arrow-rs.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{Field, Schema};
use arrowwood::{Dataset, ErrorKind, Value, Writer, WriterOptions, open};

use crate::support::*;

/// Rows as text, and the names of their columns.
type Rows = (Vec<(String, String, bool)>, Vec<String>);

fn format_rows(rows: &Dataset) -> Rows {
    let column = |field: &Arc<Field>| (field.name().clone(), format!("{}", field.data_type()), field.is_nullable());
    (rows.schema().fields().iter().map(column).collect(), crate::columns::rows(rows))
}

/// Reads a stream with arrow-rs.
fn read_with_arrow_rs(stream: Vec<u8>) -> Rows {
    let reader = StreamReader::try_new(Cursor::new(stream), None).unwrap();
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().unwrap();
    format_rows(&Dataset::from_batches(schema, batches).unwrap())
}

/// Asserts that ranges of a table are equal over all transports.
#[track_caller]
fn assert_equal_in_all_transports(served: &Served, name: &str, ranges: &[(u64, u64)]) {
    for &(from, to) in ranges {
        let mapped = format_rows(&open(served.path(name)).unwrap().slice(from, to - from).unwrap());
        assert_eq!(mapped.1.len() as u64, to - from, "{name}");
        let reply = served.get(&format!("/v1/tables/{name}/rows?from={from}&to={to}"));
        assert_eq!((reply.status, reply.is_whole), (200, true), "{name}: {}", reply.text());
        assert_eq!(read_with_arrow_rs(reply.body), mapped, "{name} over HTTP, rows {from} to {to}");
        let by_flight = flight::get(served, &format!("{name}?from={from}&to={to}"));
        assert_eq!(read_with_arrow_rs(by_flight), mapped, "{name} by Flight, rows {from} to {to}");
    }
}

fn single_column(array: &ArrayRef) -> RecordBatch {
    let field = Field::new("x", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()]).unwrap()
}

#[test]
fn every_growable_type_is_equal_in_all_transports() {
    let served = Served::start();
    let (mut growable_count, mut unsupported) = (0, Vec::new());
    for (number, sample) in crate::samples::samples().iter().enumerate() {
        let name = format!("t{number}");
        let options = WriterOptions { segment_rows: Some(8), ..WriterOptions::default() };
        let mut writer = match Writer::open(served.path(&name), Some(single_column(sample).schema()), &options) {
            Ok(writer) => writer,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                unsupported.push(sample.data_type().to_string());
                continue;
            }
        };
        growable_count += 1;
        assert_equal_in_all_transports(&served, &name, &[(0, 0)]);
        for (start, len) in [(0, 2), (2, 1), (1, 2), (0, 3), (0, 3), (1, 1)] {
            writer.append(&single_column(&sample.slice(start, len))).unwrap();
            writer.commit().unwrap();
        }
        // All rows, rows across segments, rows of one batch, and none.
        assert_equal_in_all_transports(&served, &name, &[(0, 12), (1, 11), (7, 9), (5, 5)]);
    }
    eprintln!("{growable_count} types; those that don't grow: {unsupported:?}");
    assert!(growable_count > 40, "{growable_count} types, without {unsupported:?}");
}

/// Keys of a growing dictionary must have the same meaning in a response of any range and in a stream that goes on.
#[test]
fn growing_dictionaries_are_equal_in_all_transports() {
    let served = Served::start();
    let schema = "n: int not null, word: category, other: category";
    let schema = Arc::new(arrowwood::parse_schema(schema).unwrap());
    let options = WriterOptions { segment_rows: Some(20), ..WriterOptions::default() };
    let mut writer = Writer::open(served.path("t"), Some(schema), &options).unwrap();
    assert_equal_in_all_transports(&served, "t", &[(0, 0)]);
    let mut client = served.client();
    client.begin("GET", "/v1/tables/t/follow?from=0", &[], b"").unwrap();
    assert_eq!(client.head().unwrap().0, 200);
    let mut followed = StreamReader::try_new(client.body(), None).unwrap();
    let mut seen = Vec::new();
    for n in 0..50 {
        let (word, other) = (format!("word {}", n * n % 37), format!("{}", n / 9));
        let other = if n % 5 == 2 { Value::Null } else { Value::Str(&other) };
        writer.append_row(&[Value::Int(n), Value::Str(&word), other]).unwrap();
        if n % 3 > 0 {
            continue;
        }
        writer.commit().unwrap();
        let end = n as u64 + 1;
        assert_equal_in_all_transports(&served, "t", &[(0, end), (end / 2, end), (end - 1, end)]);
        while (seen.len() as u64) < end {
            let batch = followed.next().unwrap().unwrap();
            seen.extend(crate::columns::rows(&Dataset::try_from(vec![batch]).unwrap()));
        }
        assert_eq!(seen, crate::columns::rows(&open(served.path("t")).unwrap()));
    }
}

/// Tables without rows: one that never had any, one whose rows were all dropped, and a file without batches.
#[test]
fn empty_tables_are_equal_in_all_transports() {
    let served = Served::start();
    let schema = Arc::new(
        arrowwood::parse_schema("n: int not null, word: category, list: list<int>, at: timestamp[us, UTC]").unwrap(),
    );
    let make = |name: &str| Writer::open(served.path(name), Some(schema.clone()), &WriterOptions::default()).unwrap();
    make("never").close().unwrap();
    let none = Dataset::from_batches(schema.clone(), Vec::new()).unwrap();
    arrowwood::write(&none, served.path("none.arrow"), &arrowwood::WriteOptions::default()).unwrap();
    for name in ["never", "none.arrow"] {
        assert_equal_in_all_transports(&served, name, &[(0, 0)]);
        let filtered = flight::get(&served, &format!("{name}?where=n > 3&columns=word,n"));
        assert_eq!(
            read_with_arrow_rs(filtered),
            read_with_arrow_rs(served.get(&format!("/v1/tables/{name}/rows?where=n%3E3&columns=word,n")).body)
        );
        // The schema alone, which all rows have that come later.
        let body = served.get(&format!("/v1/tables/{name}/rows?limit=0")).body;
        assert_eq!(read_with_arrow_rs(body), format_rows(&open(served.path(name)).unwrap()));
    }
    assert_eq!(served.post_json("never", "{\"n\":1}").status, 200);
    assert_equal_in_all_transports(&served, "never", &[(0, 1), (1, 1)]);
}
