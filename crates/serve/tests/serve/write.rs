//! Tests appends over HTTP: atomic, without duplicates, and durable once acknowledged as such.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, Format, Value, WriteOptions, Writer, WriterOptions, compact, open, table_stat};
use arrowwood_serve::{Limits, Options};
use serde_json::json;

use crate::support::*;

const JSON: (&str, &str) = ("content-type", "application/x-ndjson");
const CSV: (&str, &str) = ("content-type", "text/csv");
const ARROW_STREAM: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");
const ARROW_FILE: (&str, &str) = ("content-type", "application/vnd.apache.arrow.file");

type Headers<'a> = &'a [(&'a str, &'a str)];

/// Encodes a batch of the columns `word` and `n`.
fn encode_arrow(numbers: &[i64], words: &[Option<&str>], format: Format) -> Vec<u8> {
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("word", Arc::new(StringArray::from(words.to_vec())), true),
        ("n", Arc::new(Int64Array::from(numbers.to_vec())), false),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let rows = Dataset::try_from(vec![batch]).unwrap();
    let options = WriteOptions { format, ..WriteOptions::default() };
    let mut bytes = Vec::new();
    arrowwood::write_to(&rows, &mut bytes, &options).unwrap();
    bytes
}

fn compress_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn count_rows(served: &TestServer, table: &str) -> u64 {
    open(served.path(table)).unwrap().len().unwrap()
}

/// Asserts the status of a response and the code of its problem.
fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(reply.code(), code, "{}", reply.text());
}

#[test]
fn rows_in_every_format_are_appended() {
    let served = TestServer::start();
    served.writer("t", "n: int not null, word: category").close().unwrap();
    let stream = encode_arrow(&[1, 2], &[Some("a"), None], Format::Stream);
    let file = encode_arrow(&[3], &[Some("b")], Format::File);
    let gzip = compress_gzip(b"{\"n\":6}\n");
    let zstd = zstd::bulk::compress(b"{\"n\":7}\n", 3).unwrap();
    let requests: [(Headers<'_>, &[u8], u64); 6] = [
        (&[ARROW_STREAM], &stream, 2),
        (&[ARROW_FILE], &file, 1),
        (&[("content-type", "application/json; charset=utf-8")], b"{\"word\":\"a\",\"n\":4}\n", 1),
        (&[CSV], b"word,n\n\"c,d\",5\n", 1),
        (&[JSON, ("content-encoding", "gzip")], &gzip, 1),
        (&[JSON, ("content-encoding", "zstd")], &zstd, 1),
    ];
    let mut client = served.client();
    let mut first_row = 0;
    for (headers, body, rows) in requests {
        let reply = client.send("POST", "/v1/tables/t/rows", headers, body).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        let end = first_row + rows;
        let expected = format!(
            r#"{{"first_row":{first_row},"rows":{rows},"committed":{end},"durable":{end},"sequence":null,"duplicate":false}}"#
        );
        assert_eq!(reply.text().trim_end(), expected);
        // The table's own records must confirm durability.
        assert_eq!(table_stat(served.path("t")).unwrap().unwrap().durable_end, end);
        first_row = end;
    }
    let expected = [["1", "a"], ["2", "null"], ["3", "b"], ["4", "a"], ["5", "c,d"], ["6", "null"], ["7", "null"]];
    assert_eq!(format_values(&open(served.path("t")).unwrap()), expected);
}

/// Without an offset, the time zone of a time is unknown, in rows as in conditions.
#[test]
fn times_without_an_offset_are_refused_where_the_column_has_a_zone() {
    let served = TestServer::start();
    served.writer("t", "ts: timestamp[us, UTC] not null").close().unwrap();
    for (content_type, body) in [
        (JSON, "{\"ts\":\"2026-01-31T12:00:00\"}\n"),
        (JSON, "{\"ts\":\"2026-01-31\"}\n"),
        (CSV, "ts\n2026-01-31 12:00:00\n"),
    ] {
        let reply = served.send("POST", "/v1/tables/t/rows", &[content_type], body.as_bytes());
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.text().contains("the column has a time zone: write the time's offset"), "{}", reply.text());
    }
    assert_eq!(served.post_json("t", "{\"ts\":\"2026-01-31T12:00:00+01:00\"}\n").status, 200);

    let found = served.get("/v1/tables/t/rows?where=ts%3D'2026-01-31T11:00:00Z'&format=csv");
    assert!(found.text().contains("2026-01-31"), "{}", found.text());
    let refused = served.get("/v1/tables/t/rows?where=ts%3D'2026-01-31T11:00:00'&format=csv");
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("the column has a time zone"), "{}", refused.text());
}

#[test]
fn invalid_requests_append_nothing() {
    let served = TestServer::start();
    served.writer("t", "n: int not null, word: text").close().unwrap();
    served.write_numbers("sorted", 0);
    for (headers, body, status, code) in [
        (&[JSON][..], "{\"n\":1}\n{\"n\":null}\n", 400, "bad_request"),
        (&[JSON], "{\"n\":1}\n{\"n\":\"x\"}\n", 400, "bad_request"),
        (&[JSON], "{\"n\":1,\"x\":1}\n", 400, "bad_request"),
        (&[CSV], "n,word,x\n1,a,2\n", 400, "bad_request"),
        (&[ARROW_STREAM], "no arrow", 400, "bad_request"),
        (&[("content-type", "text/plain")], "1", 415, "unsupported_media_type"),
        (&[], "1", 415, "unsupported_media_type"),
        (&[JSON, ("content-encoding", "br")], "1", 415, "unsupported_media_type"),
        (&[JSON, ("ack", "now")], "{\"n\":1}", 400, "bad_request"),
        (&[JSON, ("producer", "p")], "{\"n\":1}", 400, "bad_request"),
        (&[JSON, ("producer-sequence", "1")], "{\"n\":1}", 400, "bad_request"),
        (&[JSON, ("producer", "p"), ("producer-sequence", "-1")], "{\"n\":1}", 400, "bad_request"),
        (&[JSON, ("producer", "a b"), ("producer-sequence", "1")], "{\"n\":1}", 400, "bad_request"),
    ] {
        let reply = served.send("POST", "/v1/tables/t/rows", headers, body.as_bytes());
        assert_eq!(reply.status, status, "{headers:?} {body}: {}", reply.text());
        assert_eq!(reply.code(), code, "{headers:?} {body}: {}", reply.text());
    }
    let with_another_schema = encode_arrow(&[1], &[None], Format::Stream);
    let reply = served.send("POST", "/v1/tables/sorted/rows", &[ARROW_STREAM], &with_another_schema);
    assert_eq!(reply.code(), "schema_mismatch");
    let truncated = &with_another_schema[..with_another_schema.len() / 2];
    let reply = served.send("POST", "/v1/tables/sorted/rows", &[ARROW_STREAM], truncated);
    assert_eq!(reply.code(), "bad_request");
    assert_eq!(served.post_json("nothing", "{}").status, 404);
    assert_eq!(served.send("POST", "/v1/tables/t/rows?x=1", &[JSON], b"{}").status, 400);
    assert_eq!(count_rows(&served, "t"), 0);
    assert_eq!(count_rows(&served, "sorted"), 0);
}

#[test]
fn invalid_batch_does_not_affect_others_of_its_commit() {
    const CLIENTS: u64 = 40;
    const LARGEST: u64 = 1_000_000;
    let served = TestServer::start();
    let schema = Arc::new(arrowwood::parse_schema("n: int not null").unwrap());
    let options = WriterOptions { sorted_by: Some("n".into()), ..WriterOptions::default() };
    Writer::open(served.path("t"), Some(schema), &options).unwrap().close().unwrap();
    assert_eq!(served.post_json("t", &format!("{{\"n\":{LARGEST}}}")).status, 200);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let served = &served;
            scope.spawn(move || {
                // Half of the batches are out of order, in whichever commit they are.
                let is_late = client % 2 == 0;
                let n = if is_late { client } else { LARGEST };
                let reply = served.post_json("t", &format!("{{\"n\":{n}}}"));
                assert_eq!(reply.status, if is_late { 400 } else { 200 }, "client {client}");
            });
        }
    });
    assert_eq!(count_rows(&served, "t"), 1 + CLIENTS / 2);
}

/// Sends a numbered batch to the table `t`.
fn send_numbered(client: &mut Client, producer: &str, epoch: u64, sequence: u64, body: &str) -> Reply {
    let epoch = epoch.to_string();
    let sequence = sequence.to_string();
    let headers = [JSON, ("producer", producer), ("producer-epoch", &epoch), ("producer-sequence", &sequence)];
    client.send("POST", "/v1/tables/t/rows", &headers, body.as_bytes()).unwrap()
}

/// Returns the first row that an acknowledgement names.
fn first_row(reply: &Reply) -> Option<u64> {
    reply.json()["first_row"].as_u64()
}

fn is_duplicate(reply: &Reply) -> bool {
    reply.json()["duplicate"].as_bool().unwrap()
}

#[test]
fn repeated_batches_are_ignored_and_gaps_refused() {
    let served = TestServer::start();
    served.write_numbers("t", 0);
    let mut client = served.client();
    assert_eq!(served.get("/v1/tables/t/producers/p").status, 404);

    let first = send_numbered(&mut client, "p", 1, 5, "{\"n\":1}\n{\"n\":2}");
    assert_eq!(first_row(&first), Some(0));
    assert!(!is_duplicate(&first));
    let repeated = send_numbered(&mut client, "p", 1, 5, "{\"n\":1}\n{\"n\":2}").json();
    assert_eq!(
        repeated.to_string(),
        r#"{"first_row":0,"rows":2,"committed":2,"durable":2,"sequence":5,"duplicate":true}"#
    );
    let older = send_numbered(&mut client, "p", 1, 3, "{\"n\":0}");
    assert_eq!(first_row(&older), None);
    assert!(is_duplicate(&older));
    let gap = send_numbered(&mut client, "p", 1, 7, "{\"n\":3}");
    assert_problem(&gap, 409, "sequence_gap");
    assert_eq!(gap.json()["expected"].as_u64(), Some(6));
    // A refused batch does not count as sent.
    assert_eq!(send_numbered(&mut client, "p", 1, 6, "{\"n\":null}").status, 400);

    assert_eq!(send_numbered(&mut client, "p", 2, 6, "{\"n\":3}").status, 200);
    let fenced = send_numbered(&mut client, "p", 1, 7, "{\"n\":4}");
    assert_problem(&fenced, 409, "old_epoch");
    assert_eq!(fenced.json()["epoch"].as_u64(), Some(2));
    // A producer that takes over and only repeats the last batch also fences off the earlier one.
    assert!(is_duplicate(&send_numbered(&mut client, "p", 9, 6, "{\"n\":3}")));
    assert_eq!(send_numbered(&mut client, "p", 2, 7, "{\"n\":4}").code(), "old_epoch");
    assert_eq!(first_row(&send_numbered(&mut client, "q", 0, 0, "{\"n\":5}")), Some(3));

    let position = served.get("/v1/tables/t/producers/p").json();
    assert_eq!(position.to_string(), r#"{"producer":"p","epoch":9,"sequence":6,"rows":3,"persistent":true}"#);
    assert_eq!(format_values(&open(served.path("t")).unwrap()), [["1"], ["2"], ["3"], ["5"]]);
}

#[test]
fn producers_resume_with_another_server() {
    let served = TestServer::start();
    served.write_numbers("t", 0);
    let mut client = served.client();
    assert_eq!(send_numbered(&mut client, "p", 3, 0, "{\"n\":1}").status, 200);
    assert_eq!(send_numbered(&mut client, "p", 3, 1, "{\"n\":2}\n{\"n\":3}").status, 200);
    assert_eq!(send_numbered(&mut client, "q", 0, 7, "{\"n\":4}").status, 200);
    // Fences off the earlier producer without sending anything new.
    assert!(is_duplicate(&send_numbered(&mut client, "p", 4, 1, "{\"n\":2}")));
    drop(client);

    let served = served.restart();
    let position = served.get("/v1/tables/t/producers/p").json();
    assert_eq!(position.to_string(), r#"{"producer":"p","epoch":4,"sequence":1,"rows":null,"persistent":true}"#);
    let mut client = served.client();
    let repeated = send_numbered(&mut client, "p", 4, 1, "{\"n\":2}\n{\"n\":3}").json();
    assert_eq!(
        repeated.to_string(),
        r#"{"first_row":null,"rows":0,"committed":4,"durable":4,"sequence":1,"duplicate":true}"#
    );
    assert_eq!(send_numbered(&mut client, "p", 3, 2, "{\"n\":5}").code(), "old_epoch");
    assert_eq!(send_numbered(&mut client, "q", 0, 9, "{\"n\":5}").code(), "sequence_gap");
    assert_eq!(first_row(&send_numbered(&mut client, "q", 0, 8, "{\"n\":5}")), Some(4));

    let rows = open(served.path("t")).unwrap();
    assert_eq!(format_values(&rows), [["1"], ["2"], ["3"], ["4"], ["5"]]);
    let expected = [("producer-epoch:p", 4), ("producer:p", 1), ("producer:q", 8)];
    let expected: BTreeMap<String, i64> = expected.map(|(name, value)| (name.to_owned(), value)).into();
    assert_eq!(rows.positions().unwrap(), expected);
}

#[test]
fn too_many_producers_are_refused() {
    const MAX_PRODUCERS: u64 = 256;
    let served = TestServer::start();
    served.write_numbers("t", 0);
    let mut client = served.client();
    for number in 0..MAX_PRODUCERS {
        assert_eq!(send_numbered(&mut client, &format!("p{number}"), 0, 0, "{\"n\":1}").status, 200);
    }
    let refused = send_numbered(&mut client, "one more", 0, 0, "{\"n\":1}");
    assert_eq!(refused.status, 400, "a name has no spaces");
    let refused = send_numbered(&mut client, "more", 0, 0, "{\"n\":1}");
    assert_problem(&refused, 409, "too_many_producers");
    assert_eq!(send_numbered(&mut client, "p0", 0, 1, "{\"n\":1}").status, 200);
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
    assert_eq!(count_rows(&served, "t"), MAX_PRODUCERS + 2);
    let beyond_max_sequence = send_numbered(&mut client, "p0", 0, u64::MAX, "{\"n\":1}");
    assert_problem(&beyond_max_sequence, 400, "bad_request");
}

#[test]
fn position_outlives_the_writer() {
    let limits = Limits { writer: short_timeouts().writer, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    served.write_numbers("t", 0);
    let mut client = served.client();
    assert_eq!(send_numbered(&mut client, "p", 0, 0, "{\"n\":1}").status, 200);
    // The server closes the table, and another process writes to it.
    let mut writer = wait_for("the server to close the table", || {
        Writer::open(served.path("t"), None, &WriterOptions::default()).ok()
    });
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.commit().unwrap();
    let busy = served.post_json("t", "{\"n\":3}");
    assert_problem(&busy, 409, "busy");
    assert!(busy.text().contains("process"), "{}", busy.text());
    writer.close().unwrap();
    let mut client = served.client();
    assert!(is_duplicate(&send_numbered(&mut client, "p", 0, 0, "{\"n\":1}")));
    assert_eq!(first_row(&send_numbered(&mut client, "p", 0, 1, "{\"n\":3}")), Some(2));
    assert_eq!(format_values(&open(served.path("t")).unwrap()), [["1"], ["2"], ["3"]]);
}

/// Sends numbered batches of one row, and repeats each third; returns the largest end that was acknowledged.
fn produce(served: &TestServer, producer: u64, batches: u64) -> u64 {
    let name = format!("p{producer}");
    let mut client = served.client();
    let mut max_end = 0;
    for sequence in 0..batches {
        let body = format!("{{\"producer\":{producer},\"sequence\":{sequence}}}");
        let reply = send_numbered(&mut client, &name, 0, sequence, &body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let acknowledgement = reply.json();
        let end = acknowledgement["first_row"].as_u64().unwrap() + 1;
        assert!(acknowledgement["durable"].as_u64().unwrap() >= end, "{acknowledgement}");
        assert!(acknowledgement["committed"].as_u64().unwrap() >= end, "{acknowledgement}");
        max_end = max_end.max(end);
        if sequence % 3 == 0 {
            assert!(is_duplicate(&send_numbered(&mut client, &name, 0, sequence, &body)));
        }
    }
    max_end
}

#[test]
fn concurrent_producers_share_commits() {
    const PRODUCERS: u64 = 16;
    const BATCHES: u64 = 20;
    let served = TestServer::start();
    served.writer("t", "producer: int not null, sequence: int not null").close().unwrap();
    let durable_end = AtomicU64::new(0);
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let served = &served;
            let durable_end = &durable_end;
            scope.spawn(move || durable_end.fetch_max(produce(served, producer, BATCHES), Ordering::Relaxed));
        }
    });

    let rows = format_values(&open(served.path("t")).unwrap());
    assert_eq!(rows.len() as u64, PRODUCERS * BATCHES);
    assert_eq!(durable_end.load(Ordering::Relaxed), PRODUCERS * BATCHES);
    let mut by_producer: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in rows {
        by_producer.entry(row[0].clone()).or_default().push(row[1].parse().unwrap());
    }
    for (producer, sequences) in by_producer {
        assert_eq!(sequences, (0..BATCHES).collect::<Vec<_>>(), "producer {producer}");
    }
    let commits = metric(&served, "commits_total");
    assert_eq!(metric(&served, "rows_total"), (PRODUCERS * BATCHES) as i64);
    assert!(commits <= metric(&served, "batches_total"), "{commits} commits");
    assert!(metric(&served, "syncs_total") <= commits, "{commits} commits");
}

#[test]
fn visible_acknowledgements_come_before_the_sync() {
    let served = TestServer::start();
    served.write_numbers("t", 0);
    let reply = served.send("POST", "/v1/tables/t/rows", &[JSON, ("ack", "visible")], b"{\"n\":1}").json();
    assert_eq!(reply["committed"].as_u64(), Some(1));
    assert_eq!(reply["first_row"].as_u64(), Some(0));
    assert_eq!(count_rows(&served, "t"), 1);
    // All rows are synced once a second, requested or not.
    wait_until("the row is durable", || served.get("/v1/tables/t").json()["durable_end"].as_u64() == Some(1));
}

#[test]
fn oversized_requests_are_refused_before_they_are_received() {
    let limits = Limits { body: 1_000, ingest_memory: 64 << 10, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    served.write_numbers("t", 0);
    let rows = "{\"n\":1}\n".repeat(200);
    assert_eq!(served.post_json("t", &rows).code(), "too_large");
    // A chunked body has no announced length.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = format!("{:x}\r\n{rows}\r\n0\r\n\r\n", rows.len());
    client.stream.get_mut().write_all(format!("{head}{chunks}").as_bytes()).unwrap();
    assert_eq!(client.read_reply("POST").unwrap().status, 413);
    // The announced length suffices for a refusal.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n";
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.read_reply("POST").unwrap().status, 413);
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
}

#[test]
fn memory_of_requests_is_released() {
    let limits = Limits { ingest_memory: 128 << 10, part: short_timeouts().part, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    served.write_numbers("t", 0);
    // Announces as much as there is memory, and sends one byte.
    let request = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 131072\r\n\r\n{";
    let mut greedy_clients = Vec::new();
    wait_until("the memory is taken", || {
        let mut client = served.client();
        client.stream.get_mut().write_all(request.as_bytes()).unwrap();
        greedy_clients.push(client);
        let reply = served.post_json("t", "{\"n\":1}");
        assert!(reply.status == 200 || reply.header("retry-after") == Some("1"));
        reply.status == 503
    });
    wait_until("the memory is given back", || served.post_json("t", "{\"n\":2}").status == 200);
    let mut statuses = Vec::new();
    for mut client in greedy_clients {
        statuses.push(client.read_reply("POST").unwrap().status);
    }
    assert!(statuses.contains(&408), "{statuses:?}");
    assert!(statuses.iter().all(|status| [408, 503].contains(status)), "{statuses:?}");
}

/// Asserts the settings of the table below.
fn assert_accepts_late_rows(reply: &Reply) {
    let description = reply.json();
    assert_eq!(description["sorted_by"], json!("ts"));
    assert_eq!(description["late"], json!(true));
    assert_eq!(description["index"], json!(["symbol", "ts"]));
}

/// A table created over HTTP can accept late rows, and finds rows by its zones, also after a compaction.
#[test]
fn table_can_be_created_for_late_rows() {
    let mut served = TestServer::start();
    let create = "/v1/tables/t?sorted_by=ts&late=accept&index=symbol&dictionary=symbol";
    let schema = b"ts: int64 not null, symbol: text";
    let created = served.send("PUT", create, &[], schema);
    assert_eq!(created.status, 201, "{}", created.text());
    assert_accepts_late_rows(&created);
    let on_time = "{\"ts\":5,\"symbol\":\"A\"}\n{\"ts\":7,\"symbol\":\"B\"}";
    let late = "{\"ts\":6,\"symbol\":\"A\"}";
    assert_eq!(served.post_json("t", on_time).status, 200);
    assert_eq!(served.post_json("t", late).status, 200);
    let found = served.get_rows("/v1/tables/t/rows?where=ts%3E5%20and%20symbol%3D'A'");
    assert_eq!(format_values(&found), [["6", "A"]]);
    assert_eq!(served.send("PUT", create, &[], schema).status, 200);
    let refused = served.send("PUT", "/v1/tables/t?sorted_by=ts&late=refuse&dictionary=symbol", &[], schema);
    assert_eq!(refused.code(), "schema_mismatch");

    // Dense segments have the same settings.
    served.stop();
    compact(served.path("t"), |_, _| ()).unwrap();
    let served = served.restart();
    assert_accepts_late_rows(&served.get("/v1/tables/t"));
    assert_eq!(served.send("PUT", create, &[], schema).status, 200);
}

/// Requests a table `t` with an Arrow schema.
fn put_schema(served: &TestServer, schema: &Schema) -> Reply {
    served.send("PUT", "/v1/tables/t", &[ARROW_STREAM], &encode_nulls(schema, 0))
}

/// An Arrow schema can express more than text: extension types, ordered categories, and members without nulls.
#[test]
fn table_can_be_created_from_an_arrow_schema() {
    let served = TestServer::start();
    let category = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let extension = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
    let members = vec![Field::new("a", DataType::Int32, false)];
    let id = Field::new("id", DataType::FixedSizeBinary(16), true);
    let level = Field::new("level", category, true);
    let uuid = id.clone().with_metadata(extension.into());
    let ordered_level = level.clone().with_dict_is_ordered(true);
    let record = Field::new("s", DataType::Struct(members.clone().into()), true);
    let schema = Schema::new(vec![uuid.clone(), ordered_level.clone(), record.clone()]);

    assert_eq!(put_schema(&served, &schema).status, 201);
    let created = open(served.path("t")).unwrap();
    let fields = created.schema().fields().clone();
    assert_eq!(fields[0].extension_type_name(), Some("arrow.uuid"));
    assert_eq!(fields[1].dict_is_ordered(), Some(true));
    assert_eq!(fields[2].data_type(), &DataType::Struct(members.into()));
    assert_eq!(put_schema(&served, &schema).status, 200);

    // Members are nullable in a schema as text.
    let text = b"id: fixed_size_binary[16], level: dictionary<int8, utf8>, s: struct<a: int32>";
    assert_eq!(served.send("PUT", "/v1/tables/t", &[], text).code(), "schema_mismatch");
    let without_extension = Schema::new(vec![id, ordered_level, record.clone()]);
    assert_eq!(put_schema(&served, &without_extension).code(), "schema_mismatch");
    let without_order = Schema::new(vec![uuid, level, record]);
    assert_eq!(put_schema(&served, &without_order).code(), "schema_mismatch");
}

#[test]
fn invalid_schemas_create_no_table() {
    const MAX_SCHEMA_BYTES: usize = 128 << 10;
    let served = TestServer::start();
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let valid = encode_nulls(&schema, 0);
    let run_end_encoded = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Int64, true)),
    );
    let mut invalid = vec![
        Vec::new(),
        b"n: int".to_vec(),
        encode_nulls(&schema, 1),
        encode_nulls(&Schema::new(vec![Field::new("n", run_end_encoded, true)]), 0),
        vec![0xff; 1000],
    ];
    for len in (1..valid.len() - 8).step_by(7) {
        invalid.push(valid[..len].to_vec());
    }
    for body in invalid {
        let reply = served.send("PUT", "/v1/tables/t", &[ARROW_STREAM], &body);
        assert!((400..500).contains(&reply.status), "{}: {body:?}", reply.status);
        assert!(!served.path("t").exists());
    }
    // A corrupted byte may leave a valid schema with another name.
    for offset in 0..valid.len() {
        let mut body = valid.clone();
        body[offset] ^= 0xff;
        let reply = served.send("PUT", &format!("/v1/tables/broken{offset}"), &[ARROW_STREAM], &body);
        assert!(reply.status == 201 || (400..500).contains(&reply.status), "byte {offset}: {}", reply.status);
    }
    let oversized = vec![0; MAX_SCHEMA_BYTES + 1];
    assert_eq!(served.send("PUT", "/v1/tables/t", &[ARROW_STREAM], &oversized).status, 413);
    assert_eq!(served.send("PUT", "/v1/tables/t", &[], b"n: int").status, 201);
}

/// Encodes rows of nulls as an Arrow stream.
fn encode_nulls(schema: &Schema, rows: usize) -> Vec<u8> {
    let schema = Arc::new(schema.clone());
    let columns = schema.fields().iter().map(|field| arrow_array::new_null_array(field.data_type(), rows)).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let rows = Dataset::from_batches(schema, vec![batch]).unwrap();
    let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    let mut bytes = Vec::new();
    arrowwood::write_to(&rows, &mut bytes, &options).unwrap();
    bytes
}

/// Requests a table with a schema as text.
fn put_table(served: &TestServer, name: &str, query: &str, schema: &str) -> Reply {
    served.send("PUT", &format!("/v1/tables/{name}{query}"), &[], schema.as_bytes())
}

#[test]
fn table_can_be_created_once() {
    let served = TestServer::start();
    let schema = "ts: timestamp[us] not null, symbol: text, price: float";
    let created = put_table(&served, "t", "?sorted_by=ts&dictionary=symbol&segment_rows=1000", schema);
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["sorted_by"], "ts");
    assert_eq!(created.json()["columns"][1]["type"], "dictionary<int32, utf8>");
    assert_eq!(put_table(&served, "t", "?sorted_by=ts&dictionary=symbol", schema).status, 200);
    for (query, schema) in [
        ("?dictionary=symbol&late=accept", schema),
        ("?dictionary=symbol&sorted_by=price", schema),
        ("", schema),
        ("?dictionary=symbol", "ts: int"),
    ] {
        assert_eq!(put_table(&served, "t", query, schema).code(), "schema_mismatch", "{query} {schema}");
    }
    for (name, query, schema) in [
        ("u", "", "n: nothing"),
        ("u", "", ""),
        ("u", "?sorted_by=x", "n: int"),
        ("u", "?segment_rows=many", "n: int"),
        ("u", "?typo=1", "n: int"),
        ("u", "?sorted_by=n&late=perhaps", "n: int"),
        ("u", "?late=accept", "n: int"),
        ("u", "?index=x", "n: int"),
        (".u", "", "n: int"),
        ("%2e%2e%2fu", "", "n: int"),
        ("u%00", "", "n: int"),
    ] {
        let reply = put_table(&served, name, query, schema);
        assert_eq!(reply.status, 400, "{name} {query} {schema}");
        assert_eq!(reply.code(), "bad_request", "{name} {query} {schema}");
    }
    let files = std::fs::read_dir(served.path("")).unwrap();
    let file_names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(file_names, ["t"]);
    let row = "{\"ts\":\"2024-01-01T00:00:00\",\"symbol\":\"IBM\",\"price\":1}";
    assert_eq!(served.post_json("t", row).status, 200);
}

/// Sends lines of InfluxDB's line protocol.
fn write_lines(served: &TestServer, path: &str, lines: &str) -> Reply {
    served.send("POST", path, &[], lines.as_bytes())
}

/// Returns the name and type of each column of a table.
fn describe_columns(served: &TestServer, table: &str) -> Vec<String> {
    let description = served.get(&format!("/v1/tables/{table}")).json();
    let mut columns = Vec::new();
    for column in description["columns"].as_array().unwrap() {
        let name = column["name"].as_str().unwrap();
        let data_type = column["type"].as_str().unwrap();
        columns.push(format!("{name}: {data_type}"));
    }
    columns
}

#[test]
fn line_protocol_creates_tables() {
    let served = TestServer::start();
    let first = "# a comment\n\
                 cpu,host=a\\ b,region=eu usage=1.5,n=2i,ok=t 1700000000000000001\n\
                 mem total=12u,note=\"x, \\\"y\\\" \" 5\r\n\
                 cpu,region=us,host=c usage=-2e3 1700000000000000002\n";
    assert_eq!(write_lines(&served, "/write?db=x&u=&p=", first).status, 204);
    let in_milliseconds = "/api/v2/write?org=o&bucket=b&precision=ms";
    assert_eq!(write_lines(&served, in_milliseconds, "cpu,host=c n=3i 1700000000001").status, 204);
    assert_eq!(
        describe_columns(&served, "cpu"),
        [
            "time: timestamp[ns, UTC]",
            "host: dictionary<int32, utf8>",
            "region: dictionary<int32, utf8>",
            "n: int64",
            "ok: bool",
            "usage: float64",
        ]
    );
    assert_eq!(
        served.get("/v1/tables/cpu/rows?format=csv").text(),
        "time,host,region,n,ok,usage\n\
        2023-11-14T22:13:20.000000001Z,a b,eu,2,true,1.5\n\
        2023-11-14T22:13:20.000000002Z,c,us,,,-2000.0\n\
        2023-11-14T22:13:20.001000000Z,c,,3,,\n"
    );
    assert_eq!(
        served.get("/v1/tables/mem/rows?format=csv").text(),
        "time,note,total\n1970-01-01T00:00:00.000000005Z,\"x, \"\"y\"\" \",12\n"
    );
    for (lines, status, message) in [
        ("cpu new=1", 400, "no column 'new'"),
        ("cpu,more=x usage=1", 400, "no column 'more'"),
        ("cpu usage=1i", 409, "column 'usage'"),
        ("cpu usage=1\ncpu usage=1i", 400, "line 2: field 'usage' is int64 here, and float64 in another line"),
        ("cpu usage=1,usage=2", 400, "'usage' comes twice"),
        ("cpu", 400, "a space and fields"),
        ("cpu usage=x", 400, "'x' is no value"),
        ("cpu usage=nan", 400, "'nan' is no value"),
        ("cpu usage=1 2 3", 400, "the end of the line"),
        ("cpu usage=1 9999999999999999999", 400, "a timestamp"),
        ("../x usage=1", 400, "a table's name"),
        ("cpu,time=1 usage=1", 400, "'time'"),
    ] {
        let reply = write_lines(&served, "/write", lines);
        assert_eq!(reply.status, status, "{lines}: {}", reply.text());
        assert!(reply.json()["detail"].as_str().unwrap().contains(message), "{lines}: {}", reply.text());
    }
    assert_eq!(write_lines(&served, "/write?precision=days", "cpu usage=1").status, 400);
    assert_eq!(write_lines(&served, "/write?precision=s", "cpu usage=1 9223372036854775807").status, 400);
    assert_eq!(write_lines(&served, "/write?precision=h", "cpu usage=1 1").status, 204);
    assert_eq!(write_lines(&served, "/write", "").status, 204);
    assert_eq!(served.get("/ping").status, 204);
    assert_eq!(served.get_rows("/v1/tables/cpu/rows").len().unwrap(), 4);
}

/// Some tables may accept their lines and others not. No client may resend the lines that were appended.
#[test]
fn partially_appended_lines_are_reported() {
    let served = TestServer::start();
    assert_eq!(write_lines(&served, "/write", "a x=1 1\nb x=1 1\nc x=1 1").status, 204);
    // A type that differs from the table's is only noticed at the append.
    let reply = write_lines(&served, "/write", "a x=2 2\nb x=2i 2\nc x=2 2\na x=3 3");
    assert_problem(&reply, 400, "partial_write");
    let problem = reply.json();
    assert_eq!(problem["appended"], json!(["a", "c"]));
    assert_eq!(problem["not_appended"], json!(["b"]));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("partial write: appended to a, c; not appended to b; "), "{detail}");
    assert!(detail.contains("column 'x'"), "{detail}");
    assert_eq!(["a", "b", "c"].map(|table| count_rows(&served, table)), [3, 1, 2]);
    let audit_line = served.audit().into_iter().find(|line| line.contains("partial_write")).unwrap();
    assert!(audit_line.contains("\"rows\":3"), "{audit_line}");
    assert!(audit_line.contains("\"status\":400"), "{audit_line}");
    // If nothing was appended, the response is the same as for a single table.
    let reply = write_lines(&served, "/write", "b x=2i 2");
    assert_problem(&reply, 409, "schema_mismatch");
    let reply = write_lines(&served, "/write", "b x=2i 2\nc x=2i 2");
    assert_problem(&reply, 409, "schema_mismatch");
    assert_eq!(["a", "b", "c"].map(|table| count_rows(&served, table)), [3, 1, 2]);
}
