//! Tests that rows over HTTP equal the mapped rows: of every type, in ranges, by columns and conditions, and in all
//! formats.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Compression, Dataset, Format, Value, WriteOptions, Writer, WriterOptions, col, open};
use arrowwood_serve::Options;
use proptest::prelude::*;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::columns;
use crate::support::*;

/// The number of rows of a segment of the table `ticks`.
const SEGMENT_ROWS: u64 = 1_000;

/// Creates the table `ticks` with text, dictionary keys and nulls, over several segments.
fn write_ticks(server: &TestServer, rows: i64) {
    let schema = arrowwood::parse_schema("ts: int not null, symbol: category, price: float, note: text").unwrap();
    let options =
        WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(SEGMENT_ROWS), ..WriterOptions::default() };
    let mut writer = Writer::open(server.path("ticks"), Some(Arc::new(schema)), &options).unwrap();
    for row in 0..rows {
        let symbol = format!("S{}", row / 300);
        let price = if row % 7 == 3 { Value::Null } else { Value::Float64(row as f64 / 4.0) };
        let text = "x".repeat((row % 40) as usize);
        let note = if row % 5 == 0 { Value::Null } else { Value::Str(&text) };
        writer.append_row(&[Value::Int(row), Value::Str(&symbol), price, note]).unwrap();
    }
    writer.close().unwrap();
}

fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn every_type_is_equal_to_the_file() {
    let server = TestServer::start();
    proptest!(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() }, |(
        batch_seeds in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..4),
        start in 0u64..100,
        len in 0u64..300,
        is_compressed in any::<bool>(),
    )| {
        let mut batches = Vec::new();
        for seeds in &batch_seeds {
            batches.push(Dataset::try_from(vec![columns::batch(seeds)]).unwrap());
        }
        let compression = is_compressed.then_some(Compression::Zstd);
        let options = WriteOptions { format: Format::Stream, compression, ..WriteOptions::default() };
        let path = server.path("all.arrows");
        arrowwood::write(&Dataset::concat(&batches).unwrap(), &path, &options).unwrap();
        let mapped = open(&path).unwrap();

        let all_rows = server.get_rows("/v1/tables/all.arrows/rows");
        prop_assert_eq!(columns::rows(&all_rows), columns::rows(&mapped));

        let table_end = mapped.len().unwrap();
        let from = start.min(table_end);
        let to = (start + len).min(table_end);
        let range = server.get_rows(&format!("/v1/tables/all.arrows/rows?from={from}&to={to}"));
        prop_assert_eq!(columns::rows(&range), columns::rows(&mapped.slice(from, to - from).unwrap()));
    });
}

#[test]
fn growing_table_can_be_read_in_any_range() {
    let server = TestServer::start();
    write_ticks(&server, 3_500);
    let mapped = format_values(&open(server.path("ticks")).unwrap());
    assert_eq!(format_values(&server.get_rows("/v1/tables/ticks/rows")), mapped);
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
        let reply = server.get(&format!("/v1/tables/ticks/rows?{query}"));
        assert_eq!((reply.status, reply.is_complete), (200, true), "{query}");
        assert_eq!(reply.header("arrowwood-table-end"), Some("3500"));
        assert_eq!(reply.header("arrowwood-first-row"), Some(range.start.to_string().as_str()), "{query}");
        assert_eq!(format_values(&reply.dataset()), mapped[range], "{query}");
    }
    assert_eq!(server.get("/v1/tables/ticks/rows?from=3501").code(), "beyond_end");

    let rows = server.get_rows("/v1/tables/ticks/rows?columns=price,symbol&from=5&to=6");
    assert_eq!(format_values(&rows), [[mapped[5][2].clone(), mapped[5][1].clone()]]);

    let reply = server.send("HEAD", "/v1/tables/ticks/rows?from=-3", &[], b"");
    assert_eq!((reply.status, reply.header("arrowwood-first-row")), (200, Some("3497")));
}

#[test]
fn conditions_match_like_the_library() {
    let server = TestServer::start();
    write_ticks(&server, 3_500);
    let mapped = open(server.path("ticks")).unwrap();
    for (condition, predicate) in [
        ("price > 100 and symbol in ('S1', 'S7')", col("price").gt(100) & col("symbol").is_in(["S1", "S7"])),
        ("ts >= 1200 and ts < 1300", col("ts").ge(1200) & col("ts").lt(1300)),
        ("note is null or not price <= 800", col("note").is_null() | !col("price").le(800)),
        ("symbol = 'nowhere'", col("symbol").eq("nowhere")),
        ("ts < 0", col("ts").lt(0)),
    ] {
        let path = format!("/v1/tables/ticks/rows?where={}", percent_encode(condition));
        let expected = format_values(&mapped.filter(&predicate).unwrap());
        assert_eq!(format_values(&server.get_rows(&path)), expected, "{condition}");

        let first_rows = server.get_rows(&format!("{path}&limit=3&columns=ts"));
        let expected: Vec<_> = expected.iter().take(3).map(|row| vec![row[0].clone()]).collect();
        assert_eq!(format_values(&first_rows), expected, "{condition}");

        let rows_of_range = server.get_rows(&format!("{path}&from=1000&to=2000"));
        let expected = mapped.slice(1_000, 1_000).unwrap().filter(&predicate).unwrap();
        assert_eq!(format_values(&rows_of_range), format_values(&expected), "{condition}");
    }

    let reply = server.get("/v1/tables/ticks/rows?where=symbol%20%3D");
    assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"));
    assert!(reply.text().contains("where: expected a value at the end"));
}

#[test]
fn text_formats_equal_the_command_line() {
    let server = TestServer::start();
    let mut writer = server.writer("t", "n: int, word: text");
    for word in [Value::Null, Value::Str(""), Value::Str("a,\"b\"\n"), Value::Str("żółć")] {
        writer.append_row(&[Value::Int(1), word]).unwrap();
    }
    writer.close().unwrap();
    let csv = "n,word\n1,\n1,\"\"\n1,\"a,\"\"b\"\"\n\"\n1,żółć\n";
    let json = concat!(
        "{\"n\":1,\"word\":null}\n",
        "{\"n\":1,\"word\":\"\"}\n",
        "{\"n\":1,\"word\":\"a,\\\"b\\\"\\n\"}\n",
        "{\"n\":1,\"word\":\"żółć\"}\n",
    );
    for (accept, media_type, expected) in [
        ("text/csv", "text/csv; charset=utf-8", csv),
        ("application/x-ndjson", "application/x-ndjson", json),
        ("text/html, application/json;q=0.9, */*;q=0.1", "application/x-ndjson", json),
    ] {
        let reply = server.send("GET", "/v1/tables/t/rows", &[("accept", accept)], b"");
        assert_eq!(reply.header("content-type"), Some(media_type), "{accept}");
        assert_eq!(reply.text(), expected, "{accept}");
    }
    assert_eq!(server.get("/v1/tables/t/rows?format=csv&from=3").text(), "n,word\n1,żółć\n");
    for accept in ["text/html", "image/*", "text/csv;q=0"] {
        let reply = server.send("GET", "/v1/tables/t/rows", &[("accept", accept)], b"");
        assert_eq!((reply.status, reply.code().as_str()), (406, "not_acceptable"), "{accept}");
    }
}

#[test]
fn large_rows_are_sent_in_pieces() {
    let server = TestServer::start();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000_000).map(|n| format!("w{}", n % 1_000))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("w", words)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    for (name, compression) in [("plain.arrow", None), ("packed.arrow", Some(Compression::Lz4))] {
        let options = WriteOptions { compression, max_rows: Some(300_000), ..WriteOptions::default() };
        arrowwood::write(&dataset, server.path(name), &options).unwrap();

        let rows = server.get_rows(&format!("/v1/tables/{name}/rows"));
        assert!(rows.num_batches().unwrap() > 5);
        assert_eq!(rows.column("n").unwrap().sum().unwrap().to_string(), "499999500000");
        assert_eq!(rows.column("w").unwrap().n_unique().unwrap(), 1_000);

        let filtered = server.get_rows(&format!("/v1/tables/{name}/rows?where=w%3D'w7'&columns=n"));
        assert_eq!(filtered.len().unwrap(), 1_000);
        let last_row = filtered.row_from_end(1).unwrap();
        assert_eq!(last_row.get(0).unwrap().to_string(), "999007");
    }
}

#[test]
fn facts_equal_the_files() {
    let server = TestServer::start();
    write_ticks(&server, 2_500);
    let facts = server.get("/v1/tables/ticks").json();
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
    assert_eq!(facts["path"], server.path("ticks").canonicalize().unwrap().display().to_string());

    // A segment is a complete Arrow file.
    fs::copy(server.path("ticks").join("00000000000000000000.arrow"), server.path("a b.arrow")).unwrap();
    let tables = server.get("/v1/tables").json();
    assert_eq!(
        tables.to_string(),
        r#"{"tables":[{"name":"a b.arrow","kind":"file"},{"name":"ticks","kind":"table"}]}"#
    );
    let facts = server.get("/v1/tables/a%20b.arrow").json();
    assert_eq!(facts["kind"], "file");
    assert_eq!(facts["end"], SEGMENT_ROWS);
    assert_eq!(facts["writable"], false);
    assert_eq!(server.get_rows("/v1/tables/a%20b.arrow/rows").len().unwrap(), SEGMENT_ROWS);
}

#[test]
fn dropped_rows_are_refused() {
    let server = TestServer::start();
    write_ticks(&server, 3_500);
    assert_eq!(server.get_rows("/v1/tables/ticks/rows?to=1").len().unwrap(), 1);
    let mut writer = Writer::open(server.path("ticks"), None, &WriterOptions::default()).unwrap();
    writer.drop_before(2_100).unwrap();
    writer.append_row(&[Value::Int(3_500), Value::Null, Value::Null, Value::Null]).unwrap();
    writer.close().unwrap();

    // Only segments of which no row remains are dropped.
    let reply = server.get("/v1/tables/ticks/rows?from=1999");
    assert_eq!(reply.status, 410);
    assert_eq!(reply.json()["first_row"], 2_000);
    let rows = format_values(&server.get_rows("/v1/tables/ticks/rows?from=2000"));
    assert_eq!(rows.len(), 1_501);
    assert_eq!(rows[0][0], "2000");
    assert_eq!(rows[1_500][0], "3500");
    assert_eq!(format_values(&server.get_rows("/v1/tables/ticks/rows?columns=ts&from=-1")), [["3500"]]);
}

#[test]
fn truncated_file_breaks_the_response_off() {
    let cert = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    for with_tls in [false, true] {
        let server = TestServer::start_with(|folder| {
            let chain_path = folder.join("cert.pem");
            let key_path = folder.join("key.pem");
            fs::write(&chain_path, cert.cert.pem()).unwrap();
            fs::write(&key_path, cert.signing_key.serialize_pem()).unwrap();
            Options { tls: with_tls.then_some((chain_path, key_path)), ..options() }
        });
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8_000_000));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        arrowwood::write(&dataset, server.path("n.arrow"), &WriteOptions::default()).unwrap();

        let stream = server.connect();
        let is_broken = if with_tls {
            breaks_off_when_truncated(Client::new(connect_tls(stream, &cert.cert)), &server)
        } else {
            breaks_off_when_truncated(Client::new(stream), &server)
        };
        assert!(is_broken, "TLS: {with_tls}");

        // The server still answers.
        fs::remove_file(server.path("n.arrow")).unwrap();
        if !with_tls {
            server.write_numbers("t", 3);
            assert_eq!(server.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
        }
    }
}

/// Reads the first chunk of a response, truncates the file, and reads on; returns true if the response breaks off.
fn breaks_off_when_truncated<S: Read + Write>(mut client: Client<S>, server: &TestServer) -> bool {
    client.send_request("GET", "/v1/tables/n.arrow/rows", &[], b"").unwrap();
    let (status, _) = client.read_head().unwrap();
    assert_eq!(status, 200);
    client.read_chunk().unwrap();
    let file = fs::File::options().write(true).open(server.path("n.arrow")).unwrap();
    file.set_len(4096).unwrap();
    loop {
        match client.read_chunk() {
            Ok(Some(_)) => (),
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Returns a TLS connection that trusts only `cert`.
fn connect_tls(stream: TcpStream, cert: &rcgen::Certificate) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    StreamOwned::new(connection, stream)
}

/// Each partition is a table; the directory of partitions is none.
#[test]
fn partitioned_table_is_refused_but_its_partitions_are_served() {
    let server = TestServer::start();
    fs::create_dir(server.path("ticks")).unwrap();
    server.write_numbers("ticks/host=1", 3);

    let reply = server.get("/v1/tables/ticks/rows");
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert!(reply.text().contains("has partitions"), "{}", reply.text());
    let headers = [("content-type", "application/json")];
    let reply = server.send("PUT", "/v1/tables/ticks", &headers, b"{\"schema\":\"n: int\"}");
    assert!((400..500).contains(&reply.status), "{}", reply.text());

    let server_of_partitions = TestServer::start_with(|folder| {
        fs::rename(server.path("ticks/host=1"), folder.join("data/host=1")).unwrap();
        options()
    });
    assert_eq!(server_of_partitions.get_rows("/v1/tables/host=1/rows").len().unwrap(), 3);
}
