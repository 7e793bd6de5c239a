//! Tests that slow, silent, greedy and lying clients cost the others nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use arrowwood::{Value, open};
use arrowwood_serve::{Limits, Options};

use crate::support::*;

fn serve_with_short_timeouts() -> Served {
    Served::with(|_| Options { limits: impatient(), ..options() })
}

/// Asserts that the server closes the connection; returns what it sent before.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut came = Vec::new();
    // A reset ends the connection, too; a timeout does not.
    if let Err(e) = stream.read_to_end(&mut came) {
        assert!(!matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{e}");
    }
    came
}

#[test]
fn slow_headers_time_out() {
    let served = serve_with_short_timeouts();
    served.numbers("t", 3);
    // Sends byte by byte, each within the timeout of reads.
    let mut slow = served.connect();
    let start_time = Instant::now();
    for byte in b"GET /v1/tables HTTP/1.1\r\nhost: localhost\r\nx: ".iter().chain(std::iter::repeat(&b'y')) {
        if slow.write_all(&[*byte]).is_err() || start_time.elapsed() > PATIENCE {
            break;
        }
        // Simulates a slow client.
        thread::sleep(Duration::from_millis(20));
    }
    assert!(start_time.elapsed() < PATIENCE, "a header that never ends");
    // Sends the first bytes of each HTTP version, and then nothing.
    for beginning in [&b"GET /"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * ", b""] {
        let mut stream = served.connect();
        stream.write_all(beginning).unwrap();
        closed(stream);
    }
    // Keeps a connection for a next request, which never comes.
    let mut client = served.client();
    assert_eq!(client.send("GET", "/healthz", &[], b"").unwrap().status, 200);
    closed(client.stream.into_inner());
    // Announces a body of which only a part is sent.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.reply("POST").unwrap().status, 408);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn long_request_is_not_idle() {
    let served = serve_with_short_timeouts();
    served.numbers("t", 3);
    let mut client = served.client();
    client.begin("GET", "/v1/tables/t/follow?from=3", &[], b"").unwrap();
    client.head().unwrap();
    client.chunk().unwrap();
    // The row comes after all of the (shorter) timeouts have passed.
    thread::sleep(2 * impatient().idle);
    assert_eq!(served.post_json("t", "{\"n\":3}").status, 200);
    assert!(client.chunk().unwrap().is_some());
}

#[test]
fn clients_that_do_not_read_are_disconnected() {
    let limits = Limits { stall: impatient().stall, ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let mut writer = served.writer("t", "n: int not null, text: text");
    let text = "x".repeat(1_000);
    for n in 0..40_000 {
        writer.append_row(&[Value::Int(n), Value::Str(&text)]).unwrap();
    }
    writer.close().unwrap();
    for path in ["/v1/tables/t/rows", "/v1/tables/t/follow?from=0", "/v1/tables/t/rows?format=csv"] {
        let mut client = served.client();
        client.begin("GET", path, &[], b"").unwrap();
        assert_eq!(client.head().unwrap().0, 200, "{path}");
        // The connection that requests the metrics counts as well.
        wait_until("the end of an answer that is not read", || metric(&served, "requests") == 1);
        let came = closed(client.stream.into_inner());
        assert!(!came.is_empty() && came.len() < 40_000_000, "{path}: {} bytes came", came.len());
    }
}

#[test]
fn headers_have_a_size_limit() {
    let served = serve_with_short_timeouts();
    let huge = "y".repeat(100_000);
    for request in [
        format!("GET /{huge} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {huge}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(200)),
        format!("{huge}{huge}"),
    ] {
        let mut stream = served.connect();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(request.as_bytes());
        let came = String::from_utf8_lossy(&closed(stream)).into_owned();
        assert!(came.is_empty() || came.starts_with("HTTP/1.1 4"), "{came}");
    }
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn invalid_requests_are_refused() {
    let served = serve_with_short_timeouts();
    served.numbers("t", 3);
    for request in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}",
        b"POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nhost: evil.example:80\r\n\r\n",
        b"GET http://evil.example/v1/tables HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut stream = served.connect();
        stream.write_all(request).unwrap();
        let came = closed(stream);
        let text = String::from_utf8_lossy(&came);
        assert!(!text.contains(" 200 "), "{:?}: {text}", String::from_utf8_lossy(request));
    }
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn connection_limit_applies_until_connections_close() {
    let served = Served::with(|_| Options { limits: Limits { connections: 5, ..Limits::default() }, ..options() });
    let mut held: Vec<_> = (0..5).map(|_| served.client()).collect();
    for client in &mut held {
        assert_eq!(client.send("GET", "/healthz", &[], b"").unwrap().status, 200);
    }
    let refused = served.get("/v1/tables");
    assert_eq!((refused.status, refused.code().as_str()), (503, "unavailable"), "{}", refused.text());
    drop(held);
    wait_until("there is a place again", || {
        served.client().send("GET", "/v1/tables", &[], b"").is_ok_and(|reply| reply.status == 200)
    });
}

#[test]
fn decompression_bombs_are_refused() {
    let limits = Limits { body: 1 << 20, unpacked: 1 << 20, rows: (4 << 20, 1 << 20), ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    served.writer("t", "n: int, text: text").close().unwrap();
    let wide: Vec<String> = (0..2_000).map(|number| format!("c{number}: float")).collect();
    served.writer("wide", &wide.join(", ")).close().unwrap();
    let zeros = vec![b' '; 64 << 20];
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&zeros).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::bulk::compress(&zeros, 3).unwrap();
    let json = ("content-type", "application/json");
    for (encoding, bomb) in [("gzip", &gzip), ("zstd", &zstd)] {
        for path in ["/v1/tables/t/rows", "/write"] {
            let reply = served.send("POST", path, &[json, ("content-encoding", encoding)], bomb);
            assert_eq!(reply.code(), "too_large", "{encoding} {path}");
        }
    }
    // Short lines for a table of many columns.
    assert_eq!(served.post_json("wide", &"{}\n".repeat(1_000)).code(), "too_large");
    // A stream of compressed zeros.
    let values: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int64Array::from(vec![0; 1 << 19]));
    let batch = arrow_array::RecordBatch::try_from_iter([("n", values)]).unwrap();
    let options = arrowwood::WriteOptions {
        format: arrowwood::Format::Stream,
        compression: Some(arrowwood::Compression::Zstd),
        ..Default::default()
    };
    let mut stream = Vec::new();
    arrowwood::write_to(&arrowwood::Dataset::try_from(vec![batch]).unwrap(), &mut stream, &options).unwrap();
    assert!(stream.len() < 10_000);
    let reply =
        served.send("POST", "/v1/tables/t/rows", &[("content-type", "application/vnd.apache.arrow.stream")], &stream);
    assert_eq!(reply.code(), "too_large");
    // A deeply nested condition, and a long one.
    for condition in ["(".repeat(5_000), "not%20".repeat(1_000), "n%3D1%20or%20".repeat(1_000)] {
        assert_eq!(served.get(&format!("/v1/tables/t/rows?where={condition}")).status, 400);
    }
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 1);
}

/// A few kilobytes became terabytes, and the server was aborted: rows were estimated by counting line ends only, and
/// wide types like narrow ones.
#[test]
fn short_texts_of_very_large_rows_are_refused() {
    alone!();
    let limits = Limits { rows: (16 << 20, 1 << 20), ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let wide: Vec<String> = (0..1_000).map(|number| format!("c{number}: int")).collect();
    served.writer("wide", &wide.join(", ")).close().unwrap();
    let blob = format!("time: timestamp[ns, UTC] not null, f: float, v: fixed_size_binary[{}]", 100_000);
    served.writer("blob", &blob).close().unwrap();
    served.writer("lists", &format!("a: list<struct<{}>>", wide.join(", "))).close().unwrap();
    let before = private();
    let json = |table: &str, body: &str| served.post_json(table, body).code();
    let items = |count: usize| vec!["{}"; count].join(",");
    assert_eq!(json("wide", &format!("[{}]", items(100_000))), "too_large");
    assert_eq!(json("lists", &format!("{{\"a\":[{}]}}", items(100_000))), "too_large");
    assert_eq!(json("blob", &"{\"time\":0}\n".repeat(1_000)), "too_large");
    let csv = [("content-type", "text/csv")];
    let lines =
        format!("{}\r{}", (0..1_000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(","), "1\r".repeat(100_000));
    assert_eq!(served.send("POST", "/v1/tables/wide/rows", &csv, lines.as_bytes()).code(), "too_large");
    // Fields of the first line are null in all others, and every row has all columns of the table.
    let fields = (0..999).map(|number| format!("f{number}=1")).collect::<Vec<_>>().join(",");
    let sparse = format!("m {fields}\n{}", "m f0=1\n".repeat(20_000));
    for lines in [sparse, "blob f=1\n".repeat(1_000)] {
        assert_eq!(served.send("POST", "/write", &[], lines.as_bytes()).code(), "too_large");
    }
    let column: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::Int64Array::from(vec![1; 100_000]));
    let batch = arrow_array::RecordBatch::try_from_iter([("c0", column)]).unwrap();
    let mut stream = Vec::new();
    let options = arrowwood::WriteOptions { format: arrowwood::Format::Stream, ..Default::default() };
    arrowwood::write_to(&arrowwood::Dataset::try_from(vec![batch]).unwrap(), &mut stream, &options).unwrap();
    let arrow = [("content-type", "application/vnd.apache.arrow.stream")];
    assert_eq!(served.send("POST", "/v1/tables/wide/rows", &arrow, &stream).code(), "too_large");
    assert!(private() < before + (256 << 20), "{} bytes more", private() - before);
    // Rows that fit into memory are accepted, as an array and as lines.
    assert_eq!(served.post_json("wide", &format!("[{}]", items(100))).status, 200);
    assert_eq!(served.send("POST", "/write", &[], b"blob f=1\nblob f=2\n").status, 204);
    assert_eq!(open(served.path("wide")).unwrap().len().unwrap(), 100);
    assert_eq!(open(served.path("blob")).unwrap().len().unwrap(), 2);
}

fn serve_with_little_memory() -> Served {
    let limits = Limits { rows: (16 << 20, 1 << 20), ..Limits::default() };
    Served::with(|_| Options { limits, ..options() })
}

/// Returns the schema of a wide table.
fn columns(count: usize) -> String {
    (0..count).map(|number| format!("c{number}: int")).collect::<Vec<_>>().join(", ")
}

/// The rows of such an array were counted as one.
#[test]
fn json_array_may_follow_a_byte_order_mark() {
    let served = serve_with_little_memory();
    served.writer("wide", &columns(1_000)).close().unwrap();
    let array = format!("\u{feff}[{}]", vec!["{}"; 20_000].join(","));
    assert_eq!(served.post_json("wide", &array).code(), "too_large");
    assert_eq!(served.post_json("wide", "\u{feff}[{},{}]").status, 200);
    assert_eq!(open(served.path("wide")).unwrap().len().unwrap(), 2);
}

/// Each table alone has room for its lines, but all together have not.
#[test]
fn lines_of_many_tables_share_one_memory_limit() {
    let served = serve_with_little_memory();
    let names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let schema = format!("time: timestamp[ns, UTC] not null, f: float, {}", columns(900));
    names.iter().for_each(|name| served.writer(name, &schema).close().unwrap());
    let lines = |count: usize| names.iter().map(|name| format!("{name} f=1\n").repeat(count)).collect::<String>();
    assert_eq!(served.send("POST", "/write", &[], lines(1_000).as_bytes()).code(), "too_large");
    assert_eq!(served.send("POST", "/write", &[], lines(1).as_bytes()).status, 204);
    assert!(names.iter().all(|name| open(served.path(name)).unwrap().len().unwrap() == 1));
}

/// Each column used to reserve room for a thousand rows before it had any.
#[test]
fn wide_tables_of_few_rows_take_little_memory() {
    alone!();
    let served = serve_with_little_memory();
    let before = private();
    let fields = |count: usize| (0..count).map(|number| format!("f{number}=1")).collect::<Vec<_>>().join(",");
    let lines = (0..100).map(|number| format!("m{number} {}\n", fields(999))).collect::<String>();
    assert_eq!(served.send("POST", "/write", &[], lines.as_bytes()).code(), "too_large");
    assert!(private() < before + (64 << 20), "{} bytes more", private() - before);
    assert_eq!(served.send("POST", "/write", &[], format!("m {}\n", fields(999)).as_bytes()).status, 204);
    assert_eq!(open(served.path("m")).unwrap().len().unwrap(), 1);
}

#[test]
fn inconsistent_streams_are_refused() {
    let served = Served::start();
    served.writer("t", "n: int, text: text").close().unwrap();
    let mut seeds = Vec::new();
    let batch = {
        let columns: [(&str, arrow_array::ArrayRef, bool); 2] = [
            ("n", std::sync::Arc::new(arrow_array::Int64Array::from(vec![Some(1), None, Some(3)])), true),
            ("text", std::sync::Arc::new(arrow_array::StringArray::from(vec!["a", "bc", "żółć"])), true),
        ];
        arrow_array::RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    for format in [arrowwood::Format::Stream, arrowwood::Format::File] {
        let mut bytes = Vec::new();
        let options = arrowwood::WriteOptions { format, ..Default::default() };
        arrowwood::write_to(&arrowwood::Dataset::try_from(vec![batch.clone()]).unwrap(), &mut bytes, &options).unwrap();
        seeds.push(bytes);
    }
    let mut client = served.client();
    let mut send = |bytes: &[u8]| {
        let headers = [("content-type", "application/vnd.apache.arrow.stream")];
        let reply = client.send("POST", "/v1/tables/t/rows", &headers, bytes).unwrap();
        assert!([200, 400, 409, 413].contains(&reply.status), "{}: {}", reply.status, reply.text());
        reply.status
    };
    let mut statuses = std::collections::BTreeMap::new();
    for seed in &seeds {
        assert_eq!(send(seed), 200);
        for at in (0..seed.len()).step_by(3) {
            let mut lie = seed.clone();
            lie[at] ^= [0x01, 0x80, 0xff, 0x7f][at % 4];
            *statuses.entry(send(&lie)).or_insert(0) += 1;
            *statuses.entry(send(&seed[..at])).or_insert(0) += 1;
        }
    }
    // Uses the inputs that fuzzing of other Arrow libraries has found, if there is a copy.
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/arrow-testing");
    let files: Vec<_> =
        ["fuzz-stream", "fuzz-file"].iter().filter_map(|name| fs::read_dir(corpus.join(name)).ok()).flatten().collect();
    for file in files {
        let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
        *statuses.entry(send(&bytes)).or_insert(0) += 1;
    }
    assert!(statuses.get(&400).is_some_and(|count| *count > 100), "{statuses:?}");
    // Whatever was accepted must be valid.
    let rows = open(served.path("t")).unwrap();
    rows.validate(|_, _| ()).unwrap();
    assert_eq!(rows.len().unwrap(), served.rows("/v1/tables/t/rows").len().unwrap());
}

#[test]
fn followers_that_do_not_read_take_little_memory() {
    alone!();
    const FOLLOWERS: u64 = 200;
    let served = Served::start();
    let mut writer = served.writer("t", "n: int not null, x: float");
    let mut append = |rows: std::ops::Range<i64>| {
        for n in rows {
            writer.append_row(&[Value::Int(n), Value::Float64(n as f64)]).unwrap();
        }
        writer.commit().unwrap();
    };
    append(0..100_000);
    // The first follower also creates what all share.
    let mut warm = served.client();
    warm.begin("GET", "/v1/tables/t/follow?from=0", &[], b"").unwrap();
    warm.head().unwrap();
    let before = private();
    let mut stalled: Vec<_> = (0..FOLLOWERS).map(|_| served.client()).collect();
    for client in &mut stalled {
        client.begin("GET", "/v1/tables/t/follow?from=0", &[], b"").unwrap();
    }
    for client in &mut stalled {
        client.head().unwrap();
    }
    for round in 0..20 {
        append(100_000 + round * 10_000..110_000 + round * 10_000);
    }
    let followers = || served.get("/metrics").text().contains(&format!("arrowwood_followers {}", FOLLOWERS + 1));
    wait_until("all are served", followers);
    // Followers hold more memory the more rows have come, so they get enough time to receive what they can.
    thread::sleep(Duration::from_millis(500));
    let each = private().saturating_sub(before) / FOLLOWERS;
    eprintln!("{each} bytes for each of {FOLLOWERS} followers");
    // The clients are in this process as well: each has a buffer of 8 KiB.
    assert!(each < 64 << 10, "{each} bytes for each follower");
    // Other clients are not delayed.
    let mut reader = served.client();
    reader.begin("GET", "/v1/tables/t/follow?from=299999", &[], b"").unwrap();
    reader.head().unwrap();
    append(300_000..300_001);
    let mut rows = arrowwood::read_stream(reader.body()).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().num_rows() + rows.next().unwrap().unwrap().num_rows(), 2);
}
