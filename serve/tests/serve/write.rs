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

type Headers<'a> = &'a [(&'a str, &'a str)];

fn arrow(numbers: &[i64], words: &[Option<&str>], format: Format) -> Vec<u8> {
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("word", Arc::new(StringArray::from(words.to_vec())), true),
        ("n", Arc::new(Int64Array::from(numbers.to_vec())), false),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut bytes = Vec::new();
    let options = WriteOptions { format, ..WriteOptions::default() };
    arrowwood::write_to(&Dataset::try_from(vec![batch]).unwrap(), &mut bytes, &options).unwrap();
    bytes
}

#[test]
fn rows_in_every_format_are_appended() {
    let served = Served::start();
    served.writer("t", "n: int not null, word: category").close().unwrap();
    let stream = arrow(&[1, 2], &[Some("a"), None], Format::Stream);
    let file = arrow(&[3], &[Some("b")], Format::File);
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"{\"n\":6}\n").unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::bulk::compress(b"{\"n\":7}\n", 3).unwrap();
    let sent: [(Headers<'_>, &[u8], u64); 6] = [
        (&[("content-type", "application/vnd.apache.arrow.stream")], &stream, 2),
        (&[("content-type", "application/vnd.apache.arrow.file")], &file, 1),
        (&[("content-type", "application/json; charset=utf-8")], b"{\"word\":\"a\",\"n\":4}\n", 1),
        (&[("content-type", "text/csv")], b"word,n\n\"c,d\",5\n", 1),
        (&[JSON, ("content-encoding", "gzip")], &gzip, 1),
        (&[JSON, ("content-encoding", "zstd")], &zstd, 1),
    ];
    let mut client = served.client();
    let mut first_row = 0;
    for (headers, body, rows) in sent {
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
    assert_eq!(values(&open(served.path("t")).unwrap()), expected);
}

/// Such times may be local to any place, in rows as in conditions.
#[test]
fn times_without_an_offset_are_refused_where_the_column_has_a_zone() {
    let served = Served::start();
    served.writer("t", "ts: timestamp[us, UTC] not null").close().unwrap();
    let mut client = served.client();
    let mut send =
        |headers: Headers<'_>, body: &str| client.send("POST", "/v1/tables/t/rows", headers, body.as_bytes()).unwrap();
    const CSV: (&str, &str) = ("content-type", "text/csv");
    for (headers, body) in [
        (&[JSON][..], "{\"ts\":\"2026-01-31T12:00:00\"}\n"),
        (&[JSON], "{\"ts\":\"2026-01-31\"}\n"),
        (&[CSV], "ts\n2026-01-31 12:00:00\n"),
    ] {
        let reply = send(headers, body);
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.text().contains("the column has a time zone: write the time's offset"), "{}", reply.text());
    }
    assert_eq!(send(&[JSON], "{\"ts\":\"2026-01-31T12:00:00+01:00\"}\n").status, 200);
    let mut found = |condition: &str| {
        client.send("GET", &format!("/v1/tables/t/rows?where=ts%3D'{condition}'&format=csv"), &[], b"").unwrap()
    };
    assert!(found("2026-01-31T11:00:00Z").text().contains("2026-01-31"));
    let refused = found("2026-01-31T11:00:00");
    assert!(refused.status == 400 && refused.text().contains("the column has a time zone"), "{}", refused.text());
}

#[test]
fn invalid_requests_append_nothing() {
    let served = Served::start();
    served.writer("t", "n: int not null, word: text").close().unwrap();
    served.numbers("sorted", 0);
    for (headers, body, status, code) in [
        (&[JSON][..], "{\"n\":1}\n{\"n\":null}\n", 400, "bad_request"),
        (&[JSON], "{\"n\":1}\n{\"n\":\"x\"}\n", 400, "bad_request"),
        (&[JSON], "{\"n\":1,\"x\":1}\n", 400, "bad_request"),
        (&[("content-type", "text/csv")], "n,word,x\n1,a,2\n", 400, "bad_request"),
        (&[("content-type", "application/vnd.apache.arrow.stream")], "no arrow", 400, "bad_request"),
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
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{headers:?} {body}: {}", reply.text());
    }
    let mut other = arrow(&[1], &[None], Format::Stream);
    let reply = |body: &[u8]| {
        served.send("POST", "/v1/tables/sorted/rows", &[("content-type", "application/vnd.apache.arrow.stream")], body)
    };
    assert_eq!(reply(&other).code(), "schema_mismatch");
    other.truncate(other.len() / 2);
    assert_eq!(reply(&other).code(), "bad_request");
    assert_eq!(served.post_json("nothing", "{}").status, 404);
    assert_eq!(served.send("POST", "/v1/tables/t/rows?x=1", &[JSON], b"{}").status, 400);
    assert_eq!(open(served.path("t")).unwrap().len().unwrap() + open(served.path("sorted")).unwrap().len().unwrap(), 0);
}

#[test]
fn invalid_batch_does_not_affect_others_of_its_commit() {
    let served = Served::start();
    let schema = Arc::new(arrowwood::parse_schema("n: int not null").unwrap());
    let options = WriterOptions { sorted_by: Some("n".into()), ..WriterOptions::default() };
    Writer::open(served.path("t"), Some(schema), &options).unwrap().close().unwrap();
    assert_eq!(served.post_json("t", "{\"n\":1000000}").status, 200);
    // Half of the batches are out of order, in whichever commit they are.
    let statuses: Vec<_> = thread::scope(|scope| {
        let sent = (0..40).map(|number| {
            let served = &served;
            scope.spawn(move || {
                let n = if number % 2 == 0 { number } else { 1_000_000 };
                (number, served.post_json("t", &format!("{{\"n\":{n}}}")).status)
            })
        });
        sent.collect::<Vec<_>>().into_iter().map(|sent| sent.join().unwrap()).collect()
    });
    for (number, status) in statuses {
        assert_eq!(status, if number % 2 == 0 { 400 } else { 200 }, "{number}");
    }
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 21);
}

fn numbered(client: &mut Client, producer: &str, epoch: u64, sequence: u64, body: &str) -> Reply {
    let (epoch, sequence) = (epoch.to_string(), sequence.to_string());
    let headers = [JSON, ("producer", producer), ("producer-epoch", &epoch), ("producer-sequence", &sequence)];
    client.send("POST", "/v1/tables/t/rows", &headers, body.as_bytes()).unwrap()
}

#[test]
fn repeated_batches_are_ignored_and_gaps_refused() {
    let served = Served::start();
    served.numbers("t", 0);
    let mut client = served.client();
    assert_eq!(served.get("/v1/tables/t/producers/p").status, 404);
    let first = numbered(&mut client, "p", 1, 5, "{\"n\":1}\n{\"n\":2}").json();
    assert_eq!((first["first_row"].as_u64(), first["duplicate"].as_bool()), (Some(0), Some(false)));
    let repeated = numbered(&mut client, "p", 1, 5, "{\"n\":1}\n{\"n\":2}").json();
    assert_eq!(
        repeated.to_string(),
        r#"{"first_row":0,"rows":2,"committed":2,"durable":2,"sequence":5,"duplicate":true}"#
    );
    let older = numbered(&mut client, "p", 1, 3, "{\"n\":0}").json();
    assert_eq!((older["first_row"].as_u64(), older["duplicate"].as_bool()), (None, Some(true)));
    let gap = numbered(&mut client, "p", 1, 7, "{\"n\":3}");
    assert_eq!((gap.status, gap.code().as_str(), gap.json()["expected"].as_u64()), (409, "sequence_gap", Some(6)));
    // A refused batch does not count as sent.
    assert_eq!(numbered(&mut client, "p", 1, 6, "{\"n\":null}").status, 400);
    assert_eq!(numbered(&mut client, "p", 2, 6, "{\"n\":3}").status, 200);
    let old = numbered(&mut client, "p", 1, 7, "{\"n\":4}");
    assert_eq!((old.status, old.code().as_str(), old.json()["epoch"].as_u64()), (409, "old_epoch", Some(2)));
    // A producer that takes over and only repeats the last batch also fences off the earlier one.
    assert_eq!(numbered(&mut client, "p", 9, 6, "{\"n\":3}").json()["duplicate"].as_bool(), Some(true));
    assert_eq!(numbered(&mut client, "p", 2, 7, "{\"n\":4}").code(), "old_epoch");
    assert_eq!(numbered(&mut client, "q", 0, 0, "{\"n\":5}").json()["first_row"].as_u64(), Some(3));
    let position = served.get("/v1/tables/t/producers/p").json();
    assert_eq!(position.to_string(), r#"{"producer":"p","epoch":9,"sequence":6,"rows":3,"persistent":true}"#);
    assert_eq!(values(&open(served.path("t")).unwrap()), [["1"], ["2"], ["3"], ["5"]]);
}

#[test]
fn producers_resume_with_another_server() {
    let served = Served::start();
    served.numbers("t", 0);
    let mut client = served.client();
    assert_eq!(numbered(&mut client, "p", 3, 0, "{\"n\":1}").status, 200);
    assert_eq!(numbered(&mut client, "p", 3, 1, "{\"n\":2}\n{\"n\":3}").status, 200);
    assert_eq!(numbered(&mut client, "q", 0, 7, "{\"n\":4}").status, 200);
    // Fences off the earlier producer without sending anything new.
    assert_eq!(numbered(&mut client, "p", 4, 1, "{\"n\":2}").json()["duplicate"].as_bool(), Some(true));
    drop(client);
    let served = served.restarted();
    let position = served.get("/v1/tables/t/producers/p").json();
    assert_eq!(position.to_string(), r#"{"producer":"p","epoch":4,"sequence":1,"rows":null,"persistent":true}"#);
    let mut client = served.client();
    let repeated = numbered(&mut client, "p", 4, 1, "{\"n\":2}\n{\"n\":3}").json();
    assert_eq!(
        repeated.to_string(),
        r#"{"first_row":null,"rows":0,"committed":4,"durable":4,"sequence":1,"duplicate":true}"#
    );
    assert_eq!(numbered(&mut client, "p", 3, 2, "{\"n\":5}").code(), "old_epoch");
    assert_eq!(numbered(&mut client, "q", 0, 9, "{\"n\":5}").code(), "sequence_gap");
    assert_eq!(numbered(&mut client, "q", 0, 8, "{\"n\":5}").json()["first_row"].as_u64(), Some(4));
    let rows = open(served.path("t")).unwrap();
    assert_eq!(values(&rows), [["1"], ["2"], ["3"], ["4"], ["5"]]);
    let positions = rows.positions().unwrap();
    let expected = [("producer-epoch:p", 4), ("producer:p", 1), ("producer:q", 8)];
    assert_eq!(positions, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

#[test]
fn too_many_producers_are_refused() {
    let served = Served::start();
    served.numbers("t", 0);
    let mut client = served.client();
    for number in 0..256 {
        assert_eq!(numbered(&mut client, &format!("p{number}"), 0, 0, "{\"n\":1}").status, 200);
    }
    let refused = numbered(&mut client, "one more", 0, 0, "{\"n\":1}");
    assert_eq!(refused.status, 400, "a name has no spaces");
    let refused = numbered(&mut client, "more", 0, 0, "{\"n\":1}");
    assert_eq!((refused.status, refused.code().as_str()), (409, "too_many_producers"));
    assert_eq!(numbered(&mut client, "p0", 0, 1, "{\"n\":1}").status, 200);
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 258);
    let large = numbered(&mut client, "p0", 0, u64::MAX, "{\"n\":1}");
    assert_eq!((large.status, large.code().as_str()), (400, "bad_request"));
}

#[test]
fn position_outlives_the_writer() {
    let limits = Limits { writer: impatient().writer, ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    served.numbers("t", 0);
    let mut client = served.client();
    assert_eq!(numbered(&mut client, "p", 0, 0, "{\"n\":1}").status, 200);
    // The server closes the table, and another process writes to it.
    let mut writer = None;
    wait_until("the table is let go", || {
        writer = Writer::open(served.path("t"), None, &WriterOptions::default()).ok();
        writer.is_some()
    });
    let mut writer = writer.unwrap();
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.commit().unwrap();
    let busy = served.post_json("t", "{\"n\":3}");
    assert_eq!((busy.status, busy.code().as_str()), (409, "busy"));
    assert!(busy.text().contains("process"), "{}", busy.text());
    writer.close().unwrap();
    let mut client = served.client();
    assert_eq!(numbered(&mut client, "p", 0, 0, "{\"n\":1}").json()["duplicate"].as_bool(), Some(true));
    assert_eq!(numbered(&mut client, "p", 0, 1, "{\"n\":3}").json()["first_row"].as_u64(), Some(2));
    assert_eq!(values(&open(served.path("t")).unwrap()), [["1"], ["2"], ["3"]]);
}

#[test]
fn concurrent_producers_share_commits() {
    let served = Served::start();
    served.writer("t", "producer: int not null, sequence: int not null").close().unwrap();
    let (producers, batches) = (16, 20);
    let durable = AtomicU64::new(0);
    thread::scope(|scope| {
        for producer in 0..producers {
            let (served, durable) = (&served, &durable);
            scope.spawn(move || {
                let mut client = served.client();
                for sequence in 0..batches {
                    let body = format!("{{\"producer\":{producer},\"sequence\":{sequence}}}");
                    let name = format!("p{producer}");
                    let reply = numbered(&mut client, &name, 0, sequence, &body);
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    let receipt = reply.json();
                    let end = receipt["first_row"].as_u64().unwrap() + 1;
                    assert!(
                        receipt["durable"].as_u64().unwrap() >= end && receipt["committed"].as_u64().unwrap() >= end
                    );
                    durable.fetch_max(end, Ordering::Relaxed);
                    if sequence % 3 == 0 {
                        assert_eq!(
                            numbered(&mut client, &name, 0, sequence, &body).json()["duplicate"].as_bool(),
                            Some(true)
                        );
                    }
                }
            });
        }
    });
    let rows = values(&open(served.path("t")).unwrap());
    assert_eq!(rows.len() as u64, producers * batches);
    assert_eq!(durable.load(Ordering::Relaxed), producers * batches);
    let mut by_producer: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in rows {
        by_producer.entry(row[0].clone()).or_default().push(row[1].parse().unwrap());
    }
    assert!(by_producer.into_values().all(|sequences| sequences == (0..batches).collect::<Vec<_>>()));
    let metrics = served.get("/metrics").text();
    let count = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("arrowwood_{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    };
    assert_eq!(count("rows_total"), producers * batches);
    assert!(count("commits_total") <= count("batches_total") && count("syncs_total") <= count("commits_total"));
}

#[test]
fn visible_acknowledgements_come_before_the_sync() {
    let served = Served::start();
    served.numbers("t", 0);
    let reply = served.send("POST", "/v1/tables/t/rows", &[JSON, ("ack", "visible")], b"{\"n\":1}").json();
    assert_eq!((reply["committed"].as_u64(), reply["first_row"].as_u64()), (Some(1), Some(0)));
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 1);
    // All rows are synced once a second, requested or not.
    wait_until("the row is durable", || served.get("/v1/tables/t").json()["durable_end"].as_u64() == Some(1));
}

#[test]
fn oversized_requests_are_refused_before_they_are_received() {
    let limits = Limits { body: 1_000, ingest_memory: 64 << 10, ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    served.numbers("t", 0);
    let many = "{\"n\":1}\n".repeat(200);
    assert_eq!(served.post_json("t", &many).code(), "too_large");
    // The same without an announced length.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = format!("{:x}\r\n{many}\r\n0\r\n\r\n", many.len());
    client.stream.get_mut().write_all((head.to_owned() + &chunks).as_bytes()).unwrap();
    assert_eq!(client.reply("POST").unwrap().status, 413);
    // The same if only the length is sent.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n";
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.reply("POST").unwrap().status, 413);
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
}

#[test]
fn memory_of_requests_is_released() {
    let limits = Limits { ingest_memory: 128 << 10, part: impatient().part, ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    served.numbers("t", 0);
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 131072\r\n\r\n{";
    let mut greedy = Vec::new();
    wait_until("the memory is taken", || {
        // A client announces much, and sends little.
        let mut client = served.client();
        client.stream.get_mut().write_all(head.as_bytes()).unwrap();
        greedy.push(client);
        let reply = served.post_json("t", "{\"n\":1}");
        assert!(reply.status == 200 || reply.header("retry-after") == Some("1"));
        reply.status == 503
    });
    wait_until("the memory is given back", || served.post_json("t", "{\"n\":2}").status == 200);
    let statuses: Vec<_> = greedy.into_iter().map(|mut client| client.reply("POST").unwrap().status).collect();
    assert!(statuses.contains(&408) && statuses.iter().all(|status| [408, 503].contains(status)), "{statuses:?}");
}

/// A table created over HTTP can accept late rows, and finds rows by its zones, also after a compaction.
#[test]
fn table_can_be_created_for_late_rows() {
    let mut served = Served::start();
    let query = "?sorted_by=ts&late=accept&index=symbol&dictionary=symbol";
    let schema = b"ts: int64 not null, symbol: text";
    let created = served.send("PUT", &format!("/v1/tables/t{query}"), &[], schema);
    let facts = |reply: &Reply| {
        let told = reply.json();
        (told["sorted_by"].clone(), told["late"].clone(), told["index"].clone())
    };
    let expected = (json!("ts"), json!(true), json!(["symbol", "ts"]));
    assert_eq!((created.status, facts(&created)), (201, expected.clone()));
    for rows in ["{\"ts\":5,\"symbol\":\"A\"}\n{\"ts\":7,\"symbol\":\"B\"}", "{\"ts\":6,\"symbol\":\"A\"}"] {
        assert_eq!(served.post_json("t", rows).status, 200);
    }
    let found = served.rows("/v1/tables/t/rows?where=ts%3E5%20and%20symbol%3D'A'");
    assert_eq!(values(&found), [["6", "A"]]);
    assert_eq!(served.send("PUT", &format!("/v1/tables/t{query}"), &[], schema).status, 200);
    let refused = served.send("PUT", "/v1/tables/t?sorted_by=ts&late=refuse&dictionary=symbol", &[], schema);
    assert_eq!(refused.code(), "schema_mismatch");
    // Dense segments have the same settings.
    let folder = served.path("t");
    served.stop();
    compact(&folder, |_, _| ()).unwrap();
    let served = served.restarted();
    assert_eq!(facts(&served.get("/v1/tables/t")), expected);
    assert_eq!(served.send("PUT", &format!("/v1/tables/t{query}"), &[], schema).status, 200);
}

/// An Arrow schema can express more than text: extension types, ordered categories, and members without nulls.
#[test]
fn table_can_be_created_from_an_arrow_schema() {
    let served = Served::start();
    let of_arrow = [("content-type", "application/vnd.apache.arrow.stream")];
    let put = |schema: &Schema| served.send("PUT", "/v1/tables/t", &of_arrow, &stream_of(schema, 0));
    let encoded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let extension = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
    let members = vec![Field::new("a", DataType::Int32, false)];
    let schema = Schema::new(vec![
        Field::new("id", DataType::FixedSizeBinary(16), true).with_metadata(extension.clone().into()),
        Field::new("level", encoded.clone(), true).with_dict_is_ordered(true),
        Field::new("s", DataType::Struct(members.clone().into()), true),
    ]);
    assert_eq!(put(&schema).status, 201);
    let created = arrowwood::open(served.path("t")).unwrap();
    let fields = created.schema().fields().clone();
    assert_eq!(fields[0].extension_type_name(), Some("arrow.uuid"));
    assert_eq!(fields[1].dict_is_ordered(), Some(true));
    assert_eq!(fields[2].data_type(), &DataType::Struct(members.into()));
    assert_eq!(put(&schema).status, 200);
    // Members are nullable in a schema as text.
    let text = b"id: fixed_size_binary[16], level: dictionary<int8, utf8>, s: struct<a: int32>";
    assert_eq!(served.send("PUT", "/v1/tables/t", &[], text).code(), "schema_mismatch");
    for number in 0..2 {
        let mut other: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        other[number] = match number {
            0 => Field::new("id", DataType::FixedSizeBinary(16), true),
            _ => Field::new("level", encoded.clone(), true),
        };
        assert_eq!(put(&Schema::new(other)).code(), "schema_mismatch");
    }
}

/// An invalid schema is refused, and no table is created.
#[test]
fn invalid_schemas_create_no_table() {
    let served = Served::start();
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let sound = stream_of(&schema, 0);
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Int64, true)),
    );
    let mut bodies = vec![
        Vec::new(),
        b"n: int".to_vec(),
        stream_of(&schema, 1),
        stream_of(&Schema::new(vec![Field::new("n", runs, true)]), 0),
        vec![0xff; 1000],
    ];
    // Truncates the message, and corrupts each of its bytes, which may leave a valid schema with another name.
    bodies.extend((1..sound.len() - 8).step_by(7).map(|len| sound[..len].to_vec()));
    for body in bodies {
        let of_arrow = [("content-type", "application/vnd.apache.arrow.stream")];
        let reply = served.send("PUT", "/v1/tables/t", &of_arrow, &body);
        assert!((400..500).contains(&reply.status), "{}: {body:?}", reply.status);
        assert!(!served.path("t").exists());
    }
    for at in 0..sound.len() {
        let mut body = sound.clone();
        body[at] ^= 0xff;
        let of_arrow = [("content-type", "application/vnd.apache.arrow.stream")];
        let reply = served.send("PUT", &format!("/v1/tables/broken{at}"), &of_arrow, &body);
        assert!(reply.status == 201 || (400..500).contains(&reply.status), "byte {at}: {}", reply.status);
    }
    let large = vec![0; (128 << 10) + 1];
    let of_arrow = [("content-type", "application/vnd.apache.arrow.stream")];
    assert_eq!(served.send("PUT", "/v1/tables/t", &of_arrow, &large).status, 413);
    assert_eq!(served.send("PUT", "/v1/tables/t", &[], b"n: int").status, 201);
}

/// Encodes an Arrow stream of rows of nulls.
fn stream_of(schema: &Schema, rows: usize) -> Vec<u8> {
    let schema = Arc::new(schema.clone());
    let nulls = schema.fields().iter().map(|field| arrow_array::new_null_array(field.data_type(), rows)).collect();
    let batch = RecordBatch::try_new(schema.clone(), nulls).unwrap();
    let rows = arrowwood::Dataset::from_batches(schema, vec![batch]).unwrap();
    let mut bytes = Vec::new();
    let options = arrowwood::WriteOptions { format: arrowwood::Format::Stream, ..Default::default() };
    arrowwood::write_to(&rows, &mut bytes, &options).unwrap();
    bytes
}

#[test]
fn table_can_be_created_once() {
    let served = Served::start();
    let put = |name: &str, query: &str, schema: &str| {
        served.send("PUT", &format!("/v1/tables/{name}{query}"), &[], schema.as_bytes())
    };
    let schema = "ts: timestamp[us] not null, symbol: text, price: float";
    let created = put("t", "?sorted_by=ts&dictionary=symbol&segment_rows=1000", schema);
    assert_eq!((created.status, created.json()["sorted_by"].as_str()), (201, Some("ts")));
    assert_eq!(created.json()["columns"][1]["type"], "dictionary<int32, utf8>");
    assert_eq!(put("t", "?sorted_by=ts&dictionary=symbol", schema).status, 200);
    assert_eq!(put("t", "?dictionary=symbol&late=accept", schema).code(), "schema_mismatch");
    for (query, schema) in
        [("?dictionary=symbol&sorted_by=price", schema), ("", schema), ("?dictionary=symbol", "ts: int")]
    {
        assert_eq!(put("t", query, schema).code(), "schema_mismatch", "{query} {schema}");
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
        let reply = put(name, query, schema);
        assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"), "{name} {query} {schema}");
    }
    let left: Vec<_> = std::fs::read_dir(served.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["t"]);
    assert_eq!(served.post_json("t", "{\"ts\":\"2024-01-01T00:00:00\",\"symbol\":\"IBM\",\"price\":1}").status, 200);
}

#[test]
fn line_protocol_creates_tables() {
    let served = Served::start();
    let mut client = served.client();
    let mut write = |path: &str, text: &str| client.send("POST", path, &[], text.as_bytes()).unwrap();
    let first = "# a comment\n\
                 cpu,host=a\\ b,region=eu usage=1.5,n=2i,ok=t 1700000000000000001\n\
                 mem total=12u,note=\"x, \\\"y\\\" \" 5\r\n\
                 cpu,region=us,host=c usage=-2e3 1700000000000000002\n";
    assert_eq!(write("/write?db=x&u=&p=", first).status, 204);
    assert_eq!(write("/api/v2/write?org=o&bucket=b&precision=ms", "cpu,host=c n=3i 1700000000001").status, 204);
    let facts = served.get("/v1/tables/cpu").json();
    let columns: Vec<_> = facts["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{}: {}", c["name"].as_str().unwrap(), c["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        columns,
        [
            "time: timestamp[ns, UTC]",
            "host: dictionary<int32, utf8>",
            "region: dictionary<int32, utf8>",
            "n: int64",
            "ok: bool",
            "usage: float64",
        ]
    );
    let csv = served.get("/v1/tables/cpu/rows?format=csv").text();
    assert_eq!(
        csv,
        "time,host,region,n,ok,usage\n\
        2023-11-14T22:13:20.000000001Z,a b,eu,2,true,1.5\n\
        2023-11-14T22:13:20.000000002Z,c,us,,,-2000.0\n\
        2023-11-14T22:13:20.001000000Z,c,,3,,\n"
    );
    assert_eq!(
        served.get("/v1/tables/mem/rows?format=csv").text(),
        "time,note,total\n1970-01-01T00:00:00.000000005Z,\"x, \"\"y\"\" \",12\n"
    );
    for (text, says) in [
        ("cpu new=1", "no column 'new'"),
        ("cpu,more=x usage=1", "no column 'more'"),
        ("cpu usage=1i", "column 'usage'"),
        ("cpu usage=1\ncpu usage=1i", "line 2: field 'usage' is int64 here, and float64 in another line"),
        ("cpu usage=1,usage=2", "'usage' comes twice"),
        ("cpu", "a space and fields"),
        ("cpu usage=x", "'x' is no value"),
        ("cpu usage=nan", "'nan' is no value"),
        ("cpu usage=1 2 3", "the end of the line"),
        ("cpu usage=1 9999999999999999999", "a timestamp"),
        ("../x usage=1", "a table's name"),
        ("cpu,time=1 usage=1", "'time'"),
    ] {
        let reply = write("/write", text);
        assert_eq!(reply.status, if says.contains("column 'usage'") { 409 } else { 400 }, "{text}: {}", reply.text());
        assert!(reply.json()["detail"].as_str().unwrap().contains(says), "{text}: {}", reply.text());
    }
    assert_eq!(write("/write?precision=days", "cpu usage=1").status, 400);
    assert_eq!(write("/write?precision=s", "cpu usage=1 9223372036854775807").status, 400);
    assert_eq!(write("/write?precision=h", "cpu usage=1 1").status, 204);
    assert_eq!(write("/write", "").status, 204);
    assert_eq!(served.get("/ping").status, 204);
    assert_eq!(served.rows("/v1/tables/cpu/rows").len().unwrap(), 4);
}

/// Lines of several tables, some of which can't be appended. No client may resend the lines that were appended.
#[test]
fn partially_appended_lines_are_reported() {
    let served = Served::start();
    let write = |text: &str| served.send("POST", "/write", &[], text.as_bytes());
    let rows = |table: &str| open(served.path(table)).unwrap().len().unwrap();
    assert_eq!(write("a x=1 1\nb x=1 1\nc x=1 1").status, 204);
    let names = |reply: &Reply, list: &str| reply.json()[list].to_string();
    // Other types are only noticed at the append.
    let reply = write("a x=2 2\nb x=2i 2\nc x=2 2\na x=3 3");
    assert_eq!((reply.status, reply.code().as_str()), (400, "partial_write"), "{}", reply.text());
    assert_eq!((names(&reply, "appended"), names(&reply, "not_appended")), (r#"["a","c"]"#.into(), r#"["b"]"#.into()));
    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("partial write: appended to a, c; not appended to b; ") && detail.contains("column 'x'")
    );
    assert_eq!([rows("a"), rows("b"), rows("c")], [3, 1, 2]);
    let line = served.audit().into_iter().find(|line| line.contains("partial_write")).unwrap();
    assert!(line.contains("\"rows\":3") && line.contains("\"status\":400"), "{line}");
    // If nothing was appended, the response is that of a single table.
    let reply = write("b x=2i 2");
    assert_eq!((reply.status, reply.code().as_str()), (409, "schema_mismatch"), "{}", reply.text());
    let reply = write("b x=2i 2\nc x=2i 2");
    assert_eq!((reply.status, reply.code().as_str()), (409, "schema_mismatch"), "{}", reply.text());
    assert_eq!([rows("a"), rows("b"), rows("c")], [3, 1, 2]);
}
