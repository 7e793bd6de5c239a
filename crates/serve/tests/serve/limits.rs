//! Tests the limits of time and memory of queries: a query that exceeds them is refused with a message, and the
//! connection goes on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Dataset, Value, WriteOptions, write};
use arrowwood_serve::{Limits, Options};
use serde_json::Value as Json;

use crate::support::*;

/// More rows than one step of a query processes.
const ROWS: i64 = 5_000_000;

/// A timeout that is over after the first step of a query.
const SHORT_TIMEOUT: Duration = Duration::from_nanos(1);

const MIB: usize = 1 << 20;

fn start_with_limits(query_memory: usize, query_timeout: Duration) -> TestServer {
    let limits = Limits { query_memory, query_timeout, ..Limits::default() };
    TestServer::start_with(|_| Options { limits, ..options() })
}

fn write_columns(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
}

/// Writes [`ROWS`] numbers from 0 on.
fn write_many_numbers(path: &Path) {
    write_columns(path, vec![("n", Arc::new(Int64Array::from_iter_values(0..ROWS)))]);
}

/// Sends a request about a table over an existing connection.
fn get(client: &mut Client, table: &str, request: &str) -> Reply {
    client.send("GET", &format!("/v1/tables/{table}/{request}"), &[], b"").unwrap()
}

/// Parses the last line of a response in lines.
fn parse_last_line(reply: &Reply) -> Json {
    serde_json::from_str(reply.text().trim_end().lines().last().unwrap()).unwrap()
}

#[test]
fn timeout_is_refused_and_keeps_the_connection() {
    let server = start_with_limits(1 << 30, SHORT_TIMEOUT);
    write_many_numbers(&server.path("t.arrow"));
    let mut client = server.client();
    for request in
        ["rows?where=n%20%3C%200", "rows?where=n%20%3C%200&format=csv", "statistics?at=0", "seek?at=0&value=4999999"]
    {
        let reply = get(&mut client, "t.arrow", request);
        assert_eq!((reply.status, reply.code().as_str()), (422, "query_timeout"), "{request}: {}", reply.text());
        assert!(reply.text().contains("--query-timeout"), "{}", reply.text());
    }
    // Responses in lines have begun, so that the last line contains the error.
    for request in ["groups?of=sum:0", "views?where=n%20%3C%200", "views?where=n%20%3E%200&sort=n"] {
        let reply = get(&mut client, "t.arrow", request);
        assert_eq!(reply.status, 200, "{request}");
        assert_eq!(parse_last_line(&reply)["code"], "query_timeout", "{request}");
    }

    // Responses that are as fast as their client have no such limit, nor have queries of one step.
    assert_eq!(get(&mut client, "t.arrow", "rows").dataset().len().unwrap(), ROWS as u64);
    let last_rows = get(&mut client, "t.arrow", "rows?from=4999990&where=n%20%3E%204999995");
    assert_eq!(last_rows.dataset().len().unwrap(), 4);
    let refusals = server.audit().iter().filter(|line| line.contains("query_timeout")).count();
    assert_eq!(refusals, 4);
}

/// Rows found before the timeout are sent, and then the response breaks off, so that it never seems complete.
#[test]
fn started_response_breaks_off_at_the_timeout() {
    let server = start_with_limits(1 << 30, SHORT_TIMEOUT);
    write_many_numbers(&server.path("t.arrow"));
    let reply = server.get("/v1/tables/t.arrow/rows?where=n%20%3E%3D%200");
    assert_eq!((reply.status, reply.is_complete), (200, false));
    assert!(!reply.body.is_empty());

    // A row limit that the first step reaches is met in time.
    assert_eq!(server.get_rows("/v1/tables/t.arrow/rows?where=n%20%3E%3D%207&limit=3").len().unwrap(), 3);
    assert_eq!(server.send("HEAD", "/v1/tables/t.arrow/rows?where=n%20%3C%200", &[], b"").status, 200);
}

#[test]
fn queries_over_the_memory_limit_are_refused() {
    let server = start_with_limits(MIB, Duration::MAX);
    write_many_numbers(&server.path("t.arrow"));
    let mut client = server.client();
    for request in ["groups?at=0&where=n%20%3C%20500000", "groups?of=median:0", "views?sort=n&descending=true"] {
        let reply = get(&mut client, "t.arrow", request);
        let last_line = parse_last_line(&reply);
        assert_eq!(reply.status, 200, "{request}: {last_line}");
        assert_eq!(last_line["code"], "query_memory", "{request}: {last_line}");
        assert!(last_line["error"].as_str().unwrap().contains("--query-memory"), "{last_line}");
    }
    let last_rows = get(&mut client, "t.arrow", "rows?where=n%20%3E%204999995");
    assert_eq!(last_rows.dataset().len().unwrap(), 4);
    let sum = get(&mut client, "t.arrow", "groups?of=sum:0");
    assert_eq!(parse_last_line(&sum)["cells"][0][1], (ROWS * (ROWS - 1) / 2).to_string());

    // Blocks shrink to one row, and a single row may still be too large.
    let long_text = "x".repeat(MIB);
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", &long_text, "b"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    write_columns(&server.path("long.arrow"), vec![("word", words), ("n", numbers)]);
    let reply = get(&mut client, "long.arrow", "rows?where=n%20%3D%203");
    assert_eq!((reply.status, reply.code().as_str()), (422, "query_memory"), "{}", reply.text());
    let last_row = get(&mut client, "long.arrow", "rows?where=n%20%3D%203&from=2");
    assert_eq!(last_row.dataset().len().unwrap(), 1);
    assert_eq!(get(&mut client, "long.arrow", "rows").dataset().len().unwrap(), 3);
}

/// Writes a column of 300 different texts of `len` digits.
fn write_texts(path: &Path, len: usize) {
    let texts = StringArray::from_iter_values((0..300).map(|n| format!("{n:0len$}")));
    write_columns(path, vec![("word", Arc::new(texts))]);
}

/// Each group used to count with the same size, however long its key was.
#[test]
fn memory_of_groups_includes_their_texts() {
    let server = start_with_limits(MIB, Duration::MAX);
    write_texts(&server.path("short.arrow"), 20);
    write_texts(&server.path("long.arrow"), 20_000);
    let accepted = server.get("/v1/tables/short.arrow/groups?at=0");
    assert_eq!(parse_last_line(&accepted)["groups"], 300);
    let refused = server.get("/v1/tables/long.arrow/groups?at=0");
    assert_eq!(parse_last_line(&refused)["code"], "query_memory", "{}", refused.text());
}

/// Many concurrent requests take turns, and all are answered.
#[test]
fn concurrent_requests_share_the_memory() {
    const TEXT_ROWS: u64 = 30_000;

    let server = start_with_limits(MIB, Duration::MAX);
    let mut writer = server.writer("t", "n: int not null, word: text");
    for n in 0..TEXT_ROWS {
        writer.append_row(&[Value::Int(n as i64), Value::Str("some text that is found")]).unwrap();
    }
    writer.close().unwrap();
    std::thread::scope(|scope| {
        for first_row in 0..16 {
            let server = &server;
            scope.spawn(move || {
                let rows = server.get_rows(&format!("/v1/tables/t/rows?where=n%20%3E%3D%20{first_row}"));
                assert_eq!(rows.len().unwrap(), TEXT_ROWS - first_row);
            });
        }
    });
}
