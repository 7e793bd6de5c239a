//! Tests that rows over HTTP equal the mapped rows: of every type, in ranges, by columns and conditions, and in all
//! formats.

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Compression, Dataset, Format, Value, WriteOptions, Writer, WriterOptions, col, open};
use arrowwood_serve::Options;
use proptest::prelude::*;

use crate::support::*;

/// Creates a table with text, dictionary keys and nulls, over several segments.
fn ticks(served: &Served, rows: i64) {
    let schema = arrowwood::parse_schema("ts: int not null, symbol: category, price: float, note: text").unwrap();
    let options = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(served.path("ticks"), Some(Arc::new(schema)), &options).unwrap();
    for row in 0..rows {
        let (symbol, note) = (format!("S{}", row / 300), "x".repeat((row % 40) as usize));
        let price = if row % 7 == 3 { Value::Null } else { Value::Float64(row as f64 / 4.0) };
        let note = if row % 5 == 0 { Value::Null } else { Value::Str(&note) };
        writer.append_row(&[Value::Int(row), Value::Str(&symbol), price, note]).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn every_type_is_equal_to_the_file() {
    let served = Served::start();
    proptest!(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() }, |(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4),
        start in 0u64..100, len in 0u64..300, packed in any::<bool>(),
    )| {
        let parts: Vec<_> = batches.iter().map(|seeds| Dataset::try_from(vec![crate::columns::batch(seeds)]).unwrap()).collect();
        let compression = packed.then_some(Compression::Zstd);
        let options = WriteOptions { format: Format::Stream, compression, ..WriteOptions::default() };
        arrowwood::write(&Dataset::concat(&parts).unwrap(), served.path("all.arrows"), &options).unwrap();
        let mapped = open(served.path("all.arrows")).unwrap();
        prop_assert_eq!(crate::columns::rows(&served.rows("/v1/tables/all.arrows/rows")), crate::columns::rows(&mapped));
        let all = mapped.len().unwrap();
        let (from, to) = (start.min(all), (start + len).min(all));
        let part = served.rows(&format!("/v1/tables/all.arrows/rows?from={from}&to={to}"));
        prop_assert_eq!(crate::columns::rows(&part), crate::columns::rows(&mapped.slice(from, to - from).unwrap()));
    });
}

#[test]
fn growing_table_can_be_read_in_any_range() {
    let served = Served::start();
    ticks(&served, 3_500);
    let mapped = values(&open(served.path("ticks")).unwrap());
    assert_eq!(values(&served.rows("/v1/tables/ticks/rows")), mapped);
    for (query, range) in [
        ("from=999&to=1001", 999..1001),
        ("from=-10", 3490..3500),
        ("from=-10&to=-5", 3490..3495),
        ("from=3500", 3500..3500),
        ("from=10&to=5", 10..10),
        ("to=99999999", 0..3500),
        ("from=-99999", 0..3500),
        ("limit=0", 0..0),
        ("from=990&limit=1500", 990..2490),
    ] {
        let reply = served.get(&format!("/v1/tables/ticks/rows?{query}"));
        assert_eq!((reply.status, reply.is_whole), (200, true), "{query}");
        assert_eq!(values(&reply.dataset()), mapped[range.clone()], "{query}");
        assert_eq!(reply.header("arrowwood-table-end"), Some("3500"));
        assert_eq!(reply.header("arrowwood-first-row"), Some(range.start.to_string().as_str()), "{query}");
    }
    assert_eq!(served.get("/v1/tables/ticks/rows?from=3501").code(), "beyond_end");
    let some = served.rows("/v1/tables/ticks/rows?columns=price,symbol&from=5&to=6");
    assert_eq!(values(&some), [[mapped[5][2].clone(), mapped[5][1].clone()]]);
    let head = served.send("HEAD", "/v1/tables/ticks/rows?from=-3", &[], b"");
    assert_eq!((head.status, head.header("arrowwood-first-row")), (200, Some("3497")));
}

#[test]
fn conditions_match_like_the_library() {
    let served = Served::start();
    ticks(&served, 3_500);
    let mapped = open(served.path("ticks")).unwrap();
    let cases = [
        ("price > 100 and symbol in ('S1', 'S7')", col("price").gt(100) & col("symbol").is_in(["S1", "S7"])),
        ("ts >= 1200 and ts < 1300", col("ts").ge(1200) & col("ts").lt(1300)),
        ("note is null or not price <= 800", col("note").is_null() | !col("price").le(800)),
        ("symbol = 'nowhere'", col("symbol").eq("nowhere")),
        ("ts < 0", col("ts").lt(0)),
    ];
    for (text, predicate) in cases {
        let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let expected = values(&mapped.filter(&predicate).unwrap());
        assert_eq!(values(&served.rows(&format!("/v1/tables/ticks/rows?where={query}"))), expected, "{text}");
        let few = served.rows(&format!("/v1/tables/ticks/rows?where={query}&limit=3&columns=ts"));
        let expected: Vec<_> = expected.iter().take(3).map(|row| vec![row[0].clone()]).collect();
        assert_eq!(values(&few), expected, "{text}");
        let range = values(&mapped.slice(1_000, 1_000).unwrap().filter(&predicate).unwrap());
        let found = served.rows(&format!("/v1/tables/ticks/rows?where={query}&from=1000&to=2000"));
        assert_eq!(values(&found), range, "{text}");
    }
    let refused = served.get("/v1/tables/ticks/rows?where=symbol%20%3D");
    assert_eq!((refused.status, refused.code().as_str()), (400, "bad_request"));
    assert!(refused.text().contains("where: expected a value at the end"));
}

#[test]
fn text_formats_equal_the_command_line() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int, word: text");
    for word in [Value::Null, Value::Str(""), Value::Str("a,\"b\"\n"), Value::Str("żółć")] {
        writer.append_row(&[Value::Int(1), word]).unwrap();
    }
    writer.close().unwrap();
    let csv = "n,word\n1,\n1,\"\"\n1,\"a,\"\"b\"\"\n\"\n1,żółć\n";
    let json = "{\"n\":1,\"word\":null}\n{\"n\":1,\"word\":\"\"}\n{\"n\":1,\"word\":\"a,\\\"b\\\"\\n\"}\n{\"n\":1,\"word\":\"żółć\"}\n";
    for (accept, media_type, expected) in [
        ("text/csv", "text/csv; charset=utf-8", csv),
        ("application/x-ndjson", "application/x-ndjson", json),
        ("text/html, application/json;q=0.9, */*;q=0.1", "application/x-ndjson", json),
    ] {
        let reply = served.send("GET", "/v1/tables/t/rows", &[("accept", accept)], b"");
        assert_eq!((reply.header("content-type"), reply.text().as_str()), (Some(media_type), expected), "{accept}");
    }
    assert_eq!(served.get("/v1/tables/t/rows?format=csv&from=3").text(), "n,word\n1,żółć\n");
    for accept in ["text/html", "image/*", "text/csv;q=0"] {
        let reply = served.send("GET", "/v1/tables/t/rows", &[("accept", accept)], b"");
        assert_eq!((reply.status, reply.code().as_str()), (406, "not_acceptable"), "{accept}");
    }
}

#[test]
fn large_rows_are_sent_in_pieces() {
    let served = Served::start();
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000_000).map(|i| format!("w{}", i % 1_000))));
    let batch = RecordBatch::try_from_iter([("n", array), ("w", words)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    for (name, compression) in [("plain.arrow", None), ("packed.arrow", Some(Compression::Lz4))] {
        let options = WriteOptions { compression, max_rows: Some(300_000), ..WriteOptions::default() };
        arrowwood::write(&dataset, served.path(name), &options).unwrap();
        let rows = served.rows(&format!("/v1/tables/{name}/rows"));
        assert!(rows.num_batches().unwrap() > 5);
        assert_eq!(rows.column("n").unwrap().sum().unwrap().to_string(), "499999500000");
        assert_eq!(rows.column("w").unwrap().n_unique().unwrap(), 1_000);
        let found = served.rows(&format!("/v1/tables/{name}/rows?where=w%3D'w7'&columns=n"));
        assert_eq!(
            (found.len().unwrap(), found.row_from_end(1).unwrap().get(0).unwrap().to_string()),
            (1_000, "999007".into())
        );
    }
}

#[test]
fn facts_equal_the_files() {
    let served = Served::start();
    ticks(&served, 2_500);
    let facts = served.get("/v1/tables/ticks").json();
    for (name, expected) in [
        ("first_row", "0"),
        ("end", "2500"),
        ("durable_end", "2500"),
        ("sorted_by", "\"ts\""),
        ("writer", "null"),
        ("writable", "true"),
        ("segments", "3"),
    ] {
        assert_eq!(facts[name].to_string(), expected, "{name}");
    }
    assert_eq!(
        facts["columns"][1].to_string(),
        r#"{"name":"symbol","type":"dictionary<int32, utf8>","nullable":true}"#
    );
    assert_eq!(facts["path"], served.path("ticks").canonicalize().unwrap().display().to_string());
    fs::copy(served.path("ticks").join("00000000000000000000.arrow"), served.path("a b.arrow")).unwrap();
    let tables = served.get("/v1/tables").json();
    assert_eq!(
        tables.to_string(),
        r#"{"tables":[{"name":"a b.arrow","kind":"file"},{"name":"ticks","kind":"table"}]}"#
    );
    let facts = served.get("/v1/tables/a%20b.arrow").json();
    assert_eq!(
        (facts["kind"].as_str(), facts["end"].as_u64(), facts["writable"].as_bool()),
        (Some("file"), Some(1_000), Some(false))
    );
    assert_eq!(values(&served.rows("/v1/tables/a%20b.arrow/rows")).len(), 1_000);
}

#[test]
fn dropped_rows_are_refused() {
    let served = Served::start();
    ticks(&served, 3_500);
    assert_eq!(served.rows("/v1/tables/ticks/rows?to=1").len().unwrap(), 1);
    let mut writer = Writer::open(served.path("ticks"), None, &WriterOptions::default()).unwrap();
    writer.drop_before(2_100).unwrap();
    writer.append_row(&[Value::Int(3_500), Value::Null, Value::Null, Value::Null]).unwrap();
    writer.close().unwrap();
    let gone = served.get("/v1/tables/ticks/rows?from=1999");
    assert_eq!((gone.status, gone.json()["first_row"].as_u64()), (410, Some(2_000)));
    let rest = values(&served.rows("/v1/tables/ticks/rows?from=2000"));
    assert_eq!((rest.len(), rest[0][0].as_str(), rest[1_500][0].as_str()), (1_501, "2000", "3500"));
    assert_eq!(values(&served.rows("/v1/tables/ticks/rows?columns=ts&from=-1")), [["3500"]]);
}

#[test]
fn truncated_file_breaks_the_response_off() {
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    for with_tls in [false, true] {
        let served = Served::with(|folder| {
            let (chain, key) = (folder.join("cert.pem"), folder.join("key.pem"));
            fs::write(&chain, cert.cert.pem()).unwrap();
            fs::write(&key, cert.signing_key.serialize_pem()).unwrap();
            Options { tls: with_tls.then_some((chain, key)), ..options() }
        });
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8_000_000));
        let batch = RecordBatch::try_from_iter([("n", array)]).unwrap();
        arrowwood::write(&Dataset::try_from(vec![batch]).unwrap(), served.path("n.arrow"), &WriteOptions::default())
            .unwrap();
        let stream = served.connect();
        let broken = if with_tls {
            breaks_off_when_truncated(Client::new(tls_stream(stream, &cert.cert)), &served)
        } else {
            breaks_off_when_truncated(Client::new(stream), &served)
        };
        assert!(broken, "TLS: {with_tls}");
        // The server still answers.
        fs::remove_file(served.path("n.arrow")).unwrap();
        if !with_tls {
            served.numbers("t", 3);
            assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
        }
    }
}

/// Reads a little, truncates the file, and reads on; returns true if the response breaks off.
fn breaks_off_when_truncated<S: std::io::Read + std::io::Write>(mut client: Client<S>, served: &Served) -> bool {
    client.begin("GET", "/v1/tables/n.arrow/rows", &[], b"").unwrap();
    assert_eq!(client.head().unwrap().0, 200);
    client.chunk().unwrap();
    fs::File::options().write(true).open(served.path("n.arrow")).unwrap().set_len(4096).unwrap();
    loop {
        match client.chunk() {
            Ok(Some(_)) => (),
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

fn tls_stream(
    stream: std::net::TcpStream,
    cert: &rcgen::Certificate,
) -> tokio_rustls::rustls::StreamOwned<tokio_rustls::rustls::ClientConnection, std::net::TcpStream> {
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring::default_provider,
    };
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, stream)
}

/// Each partition is a table; the directory of partitions is none.
#[test]
fn partitioned_table_is_refused_but_its_partitions_are_served() {
    let served = Served::start();
    fs::create_dir(served.path("ticks")).unwrap();
    served.numbers("ticks/host=1", 3);
    let refused = served.get("/v1/tables/ticks/rows");
    assert_eq!((refused.status, refused.text().contains("has partitions")), (404, true), "{}", refused.text());
    let created =
        served.send("PUT", "/v1/tables/ticks", &[("content-type", "application/json")], b"{\"schema\":\"n: int\"}");
    assert!((400..500).contains(&created.status), "{}", created.text());
    let inside = Served::with(|folder| {
        let from = served.path("ticks/host=1");
        fs::rename(from, folder.join("data/host=1")).unwrap();
        options()
    });
    assert_eq!(inside.rows("/v1/tables/host=1/rows").len().unwrap(), 3);
}
