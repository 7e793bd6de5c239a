//! Tests the limits of time and memory of queries: one that exceeds them is refused in one sentence, and the connection
//! goes on.

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

fn limited(memory: usize, timeout: Duration) -> Served {
    let limits = Limits { query_memory: memory, query_timeout: timeout, ..Limits::default() };
    Served::with(|_| Options { limits, ..options() })
}

fn write_numbers(path: &Path) {
    let column = Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
}

/// Parses the last line of a response in lines.
fn last(reply: &Reply) -> Json {
    serde_json::from_str(reply.text().trim_end().lines().last().unwrap()).unwrap()
}

#[test]
fn timeout_is_refused_and_keeps_the_connection() {
    let served = limited(1 << 30, Duration::from_nanos(1));
    write_numbers(&served.path("t.arrow"));
    let mut client = served.client();
    let mut get = |path: &str| client.send("GET", &format!("/v1/tables/t.arrow/{path}"), &[], b"").unwrap();
    for heavy in
        ["rows?where=n%20%3C%200", "rows?where=n%20%3C%200&format=csv", "statistics?at=0", "seek?at=0&value=4999999"]
    {
        let reply = get(heavy);
        assert_eq!((reply.status, reply.code().as_str()), (422, "query_timeout"), "{heavy}: {}", reply.text());
        assert!(reply.text().contains("--query-timeout"), "{}", reply.text());
    }
    for heavy in ["groups?of=sum:0", "views?where=n%20%3C%200", "views?where=n%20%3E%200&sort=n"] {
        let reply = get(heavy);
        assert_eq!((reply.status, last(&reply)["code"].as_str()), (200, Some("query_timeout")), "{heavy}");
    }
    // Responses that are as fast as their client have no such limit, nor have queries of one step.
    assert_eq!(get("rows").dataset().len().unwrap(), ROWS as u64);
    assert_eq!(get("rows?from=4999990&where=n%20%3E%204999995").dataset().len().unwrap(), 4);
    assert_eq!(served.audit().iter().filter(|line| line.contains("query_timeout")).count(), 4);
}

/// Rows found before the timeout are sent, and then the response breaks off, so that it never seems complete.
#[test]
fn started_response_breaks_off_at_the_timeout() {
    let served = limited(1 << 30, Duration::from_nanos(1));
    write_numbers(&served.path("t.arrow"));
    let reply = served.get("/v1/tables/t.arrow/rows?where=n%20%3E%3D%200");
    assert_eq!((reply.status, reply.is_whole), (200, false));
    assert!(!reply.body.is_empty());
    // A row limit that the first step reaches is met in time.
    assert_eq!(served.rows("/v1/tables/t.arrow/rows?where=n%20%3E%3D%207&limit=3").len().unwrap(), 3);
    assert_eq!(served.send("HEAD", "/v1/tables/t.arrow/rows?where=n%20%3C%200", &[], b"").status, 200);
}

#[test]
fn queries_over_the_memory_limit_are_refused() {
    let served = limited(1 << 20, Duration::MAX);
    write_numbers(&served.path("t.arrow"));
    let mut client = served.client();
    let mut get = |path: &str| client.send("GET", &format!("/v1/tables/t.arrow/{path}"), &[], b"").unwrap();
    for heavy in ["groups?at=0&where=n%20%3C%20500000", "groups?of=median:0", "views?sort=n&descending=true"] {
        let reply = get(heavy);
        let last = last(&reply);
        assert_eq!((reply.status, last["code"].as_str()), (200, Some("query_memory")), "{heavy}: {last}");
        assert!(last["error"].as_str().unwrap().contains("--query-memory"), "{last}");
    }
    assert_eq!(get("rows?where=n%20%3E%204999995").dataset().len().unwrap(), 4);
    assert_eq!(last(&get("groups?of=sum:0"))["cells"][0][1], (ROWS * (ROWS - 1) / 2).to_string());
    // Blocks shrink to one row, and a single row may still be too large.
    let long = "x".repeat(1 << 20);
    let column = Arc::new(StringArray::from(vec!["a", &long, "b"])) as ArrayRef;
    let numbers = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("word", column), ("n", numbers)]).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), served.path("long.arrow"), &WriteOptions::default()).unwrap();
    let mut get = |path: &str| client.send("GET", &format!("/v1/tables/long.arrow/{path}"), &[], b"").unwrap();
    let reply = get("rows?where=n%20%3D%203");
    assert_eq!((reply.status, reply.code().as_str()), (422, "query_memory"), "{}", reply.text());
    assert_eq!(get("rows?where=n%20%3D%203&from=2").dataset().len().unwrap(), 1);
    assert_eq!(get("rows").dataset().len().unwrap(), 3);
}

/// Each group used to count with the same size, however long its key was.
#[test]
fn memory_of_groups_includes_their_texts() {
    let served = limited(1 << 20, Duration::MAX);
    let texts =
        |len: usize| Arc::new(StringArray::from_iter_values((0..300).map(|n| format!("{n:0len$}")))) as ArrayRef;
    for (name, len) in [("short.arrow", 20), ("long.arrow", 20_000)] {
        let batch = RecordBatch::try_from_iter([("word", texts(len))]).unwrap();
        write(&Dataset::try_from(vec![batch]).unwrap(), served.path(name), &WriteOptions::default()).unwrap();
    }
    assert_eq!(last(&served.get("/v1/tables/short.arrow/groups?at=0"))["groups"], 300);
    let refused = last(&served.get("/v1/tables/long.arrow/groups?at=0"));
    assert_eq!(refused["code"].as_str(), Some("query_memory"), "{refused}");
}

/// Many concurrent requests take turns, and all are answered.
#[test]
fn concurrent_requests_share_the_memory() {
    let served = limited(1 << 20, Duration::MAX);
    let mut writer = served.writer("t", "n: int not null, word: text");
    for n in 0..30_000 {
        writer.append_row(&[Value::Int(n), Value::Str("some text that is found")]).unwrap();
    }
    writer.close().unwrap();
    std::thread::scope(|scope| {
        for wanted in 0..16 {
            let served = &served;
            scope.spawn(move || {
                let rows = served.rows(&format!("/v1/tables/t/rows?where=n%20%3E%3D%20{wanted}"));
                assert_eq!(rows.len().unwrap(), 30_000 - wanted);
            });
        }
    });
}
