//! Tests that slow, silent, greedy and malicious clients don't affect other clients.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Compression, Dataset, Format, Value, WriteOptions, Writer, open};
use arrowwood_serve::{Limits, Options};

use crate::support::*;

const JSON: (&str, &str) = ("content-type", "application/json");
const CSV: (&str, &str) = ("content-type", "text/csv");
const ARROW_STREAM: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");

fn serve_with_short_timeouts() -> TestServer {
    TestServer::start_with(|_| Options { limits: short_timeouts(), ..options() })
}

/// Asserts that the server closes the connection; returns what it sent before.
fn read_until_closed(mut stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    // A reset ends the connection, too; a timeout does not.
    if let Err(error) = stream.read_to_end(&mut received) {
        assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    }
    received
}

/// Sends a header byte by byte, each within the timeout of reads; returns how long the server allowed that.
fn send_endless_header(served: &TestServer) -> Duration {
    let mut stream = served.connect();
    let start_time = Instant::now();
    let head = b"GET /v1/tables HTTP/1.1\r\nhost: localhost\r\nx: ";
    for byte in head.iter().chain(std::iter::repeat(&b'y')) {
        if stream.write_all(&[*byte]).is_err() || start_time.elapsed() > PATIENCE {
            break;
        }
        // Simulates a slow client.
        thread::sleep(Duration::from_millis(20));
    }
    start_time.elapsed()
}

fn encode(batch: RecordBatch, options: &WriteOptions) -> Vec<u8> {
    let rows = Dataset::try_from(vec![batch]).unwrap();
    let mut bytes = Vec::new();
    arrowwood::write_to(&rows, &mut bytes, options).unwrap();
    bytes
}

/// Returns a batch of one column of equal numbers.
fn repeated_number(column: &str, number: i64, rows: usize) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![number; rows]));
    RecordBatch::try_from_iter([(column, numbers)]).unwrap()
}

fn count_rows(served: &TestServer, table: &str) -> u64 {
    open(served.path(table)).unwrap().len().unwrap()
}

fn post_lines(served: &TestServer, lines: &str) -> Reply {
    served.send("POST", "/write", &[], lines.as_bytes())
}

/// Returns a JSON array of empty objects, which are rows of nulls.
fn array_of_empty_rows(rows: usize) -> String {
    format!("[{}]", vec!["{}"; rows].join(","))
}

#[test]
fn slow_headers_time_out() {
    let served = serve_with_short_timeouts();
    served.write_numbers("t", 3);
    assert!(send_endless_header(&served) < PATIENCE, "a header that never ends");
    // Sends the first bytes of each HTTP version, and then nothing.
    for beginning in [&b"GET /"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * ", b""] {
        let mut stream = served.connect();
        stream.write_all(beginning).unwrap();
        read_until_closed(stream);
    }
    // Keeps a connection for a next request, which never comes.
    let mut client = served.client();
    assert_eq!(client.send("GET", "/healthz", &[], b"").unwrap().status, 200);
    read_until_closed(client.stream.into_inner());
    // Announces a body of which only a part is sent.
    let mut client = served.client();
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.read_reply("POST").unwrap().status, 408);
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn long_request_is_not_idle() {
    let served = serve_with_short_timeouts();
    served.write_numbers("t", 3);
    let mut client = served.client();
    client.send_request("GET", "/v1/tables/t/follow?from=3", &[], b"").unwrap();
    client.read_head().unwrap();
    client.read_chunk().unwrap();
    // The row comes after all of the (shorter) timeouts have passed.
    thread::sleep(2 * short_timeouts().idle);
    assert_eq!(served.post_json("t", "{\"n\":3}").status, 200);
    assert!(client.read_chunk().unwrap().is_some());
}

#[test]
fn clients_that_do_not_read_are_disconnected() {
    const ROWS: i64 = 40_000;
    const TEXT_LEN: usize = 1_000;
    let limits = Limits { stall: short_timeouts().stall, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    let mut writer = served.writer("t", "n: int not null, text: text");
    let text = "x".repeat(TEXT_LEN);
    for n in 0..ROWS {
        writer.append_row(&[Value::Int(n), Value::Str(&text)]).unwrap();
    }
    writer.close().unwrap();
    for path in ["/v1/tables/t/rows", "/v1/tables/t/follow?from=0", "/v1/tables/t/rows?format=csv"] {
        let mut client = served.client();
        client.send_request("GET", path, &[], b"").unwrap();
        assert_eq!(client.read_head().unwrap().0, 200, "{path}");
        // The connection that requests the metrics counts as well.
        wait_until("the end of an answer that is not read", || metric(&served, "requests") == 1);
        let received = read_until_closed(client.stream.into_inner()).len();
        assert!(received > 0 && received < ROWS as usize * TEXT_LEN, "{path}: received {received} bytes");
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
        let received = read_until_closed(stream);
        let text = String::from_utf8_lossy(&received);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn invalid_requests_are_refused() {
    let served = serve_with_short_timeouts();
    served.write_numbers("t", 3);
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
        let received = read_until_closed(stream);
        let text = String::from_utf8_lossy(&received);
        assert!(!text.contains(" 200 "), "{:?}: {text}", String::from_utf8_lossy(request));
    }
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
}

#[test]
fn connection_limit_applies_until_connections_close() {
    const MAX_CONNECTIONS: usize = 5;
    let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    let mut clients = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut client = served.client();
        assert_eq!(client.send("GET", "/healthz", &[], b"").unwrap().status, 200);
        clients.push(client);
    }
    let refused = served.get("/v1/tables");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.code(), "unavailable", "{}", refused.text());
    drop(clients);
    wait_until("a connection is accepted again", || {
        let reply = served.client().send("GET", "/v1/tables", &[], b"");
        reply.is_ok_and(|reply| reply.status == 200)
    });
}

#[test]
fn decompression_bombs_are_refused() {
    let limits = Limits { body: 1 << 20, unpacked: 1 << 20, rows: (4 << 20, 1 << 20), ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    served.writer("t", "n: int, text: text").close().unwrap();
    let float_columns: Vec<String> = (0..2_000).map(|number| format!("c{number}: float")).collect();
    served.writer("wide", &float_columns.join(", ")).close().unwrap();

    let spaces = vec![b' '; 64 << 20];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&spaces).unwrap();
    let gzip = encoder.finish().unwrap();
    let zstd = zstd::bulk::compress(&spaces, 3).unwrap();
    for (encoding, bomb) in [("gzip", &gzip), ("zstd", &zstd)] {
        for path in ["/v1/tables/t/rows", "/write"] {
            let reply = served.send("POST", path, &[JSON, ("content-encoding", encoding)], bomb);
            assert_eq!(reply.code(), "too_large", "{encoding} {path}");
        }
    }
    let short_lines_of_many_columns = "{}\n".repeat(1_000);
    assert_eq!(served.post_json("wide", &short_lines_of_many_columns).code(), "too_large");
    let options =
        WriteOptions { format: Format::Stream, compression: Some(Compression::Zstd), ..WriteOptions::default() };
    let zeros = encode(repeated_number("n", 0, 1 << 19), &options);
    assert!(zeros.len() < 10_000);
    assert_eq!(served.send("POST", "/v1/tables/t/rows", &[ARROW_STREAM], &zeros).code(), "too_large");
    let nested = "(".repeat(5_000);
    let negated = "not%20".repeat(1_000);
    let long = "n%3D1%20or%20".repeat(1_000);
    for condition in [nested, negated, long] {
        assert_eq!(served.get(&format!("/v1/tables/t/rows?where={condition}")).status, 400);
    }
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
    assert_eq!(count_rows(&served, "t"), 1);
}

/// A few kilobytes became terabytes, and the server was aborted: rows were estimated by counting line ends only, and
/// wide types like narrow ones.
#[test]
fn short_texts_of_very_large_rows_are_refused() {
    alone!();
    let served = serve_with_little_memory();
    let columns = column_schemas(1_000);
    served.writer("wide", &columns).close().unwrap();
    let blob = "time: timestamp[ns, UTC] not null, f: float, v: fixed_size_binary[100000]";
    served.writer("blob", blob).close().unwrap();
    served.writer("lists", &format!("a: list<struct<{columns}>>")).close().unwrap();
    let before = private_memory_bytes();

    let many_rows = array_of_empty_rows(100_000);
    assert_eq!(served.post_json("wide", &many_rows).code(), "too_large");
    assert_eq!(served.post_json("lists", &format!("{{\"a\":{many_rows}}}")).code(), "too_large");
    assert_eq!(served.post_json("blob", &"{\"time\":0}\n".repeat(1_000)).code(), "too_large");
    // Lines of CSV may end with a carriage return only.
    let column_names: Vec<_> = (0..1_000).map(|n| format!("c{n}")).collect();
    let csv = format!("{}\r{}", column_names.join(","), "1\r".repeat(100_000));
    assert_eq!(served.send("POST", "/v1/tables/wide/rows", &[CSV], csv.as_bytes()).code(), "too_large");
    // Fields of the first line are null in all others, and every row has all columns of the table.
    let sparse = format!("m {}\n{}", line_fields(999), "m f0=1\n".repeat(20_000));
    assert_eq!(post_lines(&served, &sparse).code(), "too_large");
    assert_eq!(post_lines(&served, &"blob f=1\n".repeat(1_000)).code(), "too_large");
    let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    let stream = encode(repeated_number("c0", 1, 100_000), &options);
    assert_eq!(served.send("POST", "/v1/tables/wide/rows", &[ARROW_STREAM], &stream).code(), "too_large");
    assert!(private_memory_bytes() < before + (256 << 20), "{} bytes more", private_memory_bytes() - before);

    // Rows that fit into memory are accepted, as an array and as lines.
    assert_eq!(served.post_json("wide", &array_of_empty_rows(100)).status, 200);
    assert_eq!(post_lines(&served, "blob f=1\nblob f=2\n").status, 204);
    assert_eq!(count_rows(&served, "wide"), 100);
    assert_eq!(count_rows(&served, "blob"), 2);
}

fn serve_with_little_memory() -> TestServer {
    let limits = Limits { rows: (16 << 20, 1 << 20), ..Limits::default() };
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// Returns a schema of columns `c0`, `c1` and so on.
fn column_schemas(count: usize) -> String {
    let columns: Vec<String> = (0..count).map(|number| format!("c{number}: int")).collect();
    columns.join(", ")
}

/// Returns fields `f0`, `f1` and so on of the line protocol.
fn line_fields(count: usize) -> String {
    let fields: Vec<String> = (0..count).map(|number| format!("f{number}=1")).collect();
    fields.join(",")
}

/// The rows of an array after a byte order mark were counted as one.
#[test]
fn json_array_may_follow_a_byte_order_mark() {
    let served = serve_with_little_memory();
    served.writer("wide", &column_schemas(1_000)).close().unwrap();
    let many_rows = format!("\u{feff}{}", array_of_empty_rows(20_000));
    assert_eq!(served.post_json("wide", &many_rows).code(), "too_large");
    assert_eq!(served.post_json("wide", "\u{feff}[{},{}]").status, 200);
    assert_eq!(count_rows(&served, "wide"), 2);
}

/// The lines of each table alone fit into memory, but not all together.
#[test]
fn lines_of_many_tables_share_one_memory_limit() {
    let served = serve_with_little_memory();
    let names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let schema = format!("time: timestamp[ns, UTC] not null, f: float, {}", column_schemas(900));
    let mut lines = String::new();
    let mut many_lines = String::new();
    for name in &names {
        served.writer(name, &schema).close().unwrap();
        let line = format!("{name} f=1\n");
        many_lines += &line.repeat(1_000);
        lines += &line;
    }
    assert_eq!(post_lines(&served, &many_lines).code(), "too_large");
    assert_eq!(post_lines(&served, &lines).status, 204);
    for name in &names {
        assert_eq!(count_rows(&served, name), 1, "{name}");
    }
}

/// Each column used to reserve memory for a thousand rows before it had any.
#[test]
fn wide_tables_of_few_rows_take_little_memory() {
    alone!();
    let served = serve_with_little_memory();
    let before = private_memory_bytes();
    let fields = line_fields(999);
    let lines: String = (0..100).map(|number| format!("m{number} {fields}\n")).collect();
    assert_eq!(post_lines(&served, &lines).code(), "too_large");
    assert!(private_memory_bytes() < before + (64 << 20), "{} bytes more", private_memory_bytes() - before);
    assert_eq!(post_lines(&served, &format!("m {fields}\n")).status, 204);
    assert_eq!(count_rows(&served, "m"), 1);
}

/// The statuses of sent streams, with their counts.
#[derive(Default)]
struct StatusCounts(BTreeMap<u16, u64>);

impl StatusCounts {
    fn send(&mut self, client: &mut Client, stream: &[u8]) {
        let reply = client.send("POST", "/v1/tables/t/rows", &[ARROW_STREAM], stream).unwrap();
        assert!([200, 400, 409, 413].contains(&reply.status), "{}: {}", reply.status, reply.text());
        *self.0.entry(reply.status).or_insert(0) += 1;
    }
}

/// Returns the inputs that fuzzing of other Arrow libraries has found; none without a copy of them.
fn read_fuzzing_corpus() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/arrow-testing");
    let mut inputs = Vec::new();
    for folder in ["fuzz-stream", "fuzz-file"] {
        let Ok(files) = fs::read_dir(corpus.join(folder)) else { continue };
        for file in files {
            // Folders can't be read, and are sent as an empty body.
            inputs.push(fs::read(file.unwrap().path()).unwrap_or_default());
        }
    }
    inputs
}

#[test]
fn inconsistent_streams_are_refused() {
    let served = TestServer::start();
    served.writer("t", "n: int, text: text").close().unwrap();
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])), true),
        ("text", Arc::new(StringArray::from(vec!["a", "bc", "żółć"])), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut client = served.client();
    let mut counts = StatusCounts::default();
    for format in [Format::Stream, Format::File] {
        let valid = encode(batch.clone(), &WriteOptions { format, ..WriteOptions::default() });
        let reply = client.send("POST", "/v1/tables/t/rows", &[ARROW_STREAM], &valid).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        for offset in (0..valid.len()).step_by(3) {
            let mut corrupted = valid.clone();
            corrupted[offset] ^= [0x01, 0x80, 0xff, 0x7f][offset % 4];
            counts.send(&mut client, &corrupted);
            let truncated = &valid[..offset];
            counts.send(&mut client, truncated);
        }
    }
    for input in read_fuzzing_corpus() {
        counts.send(&mut client, &input);
    }
    assert!(counts.0.get(&400).is_some_and(|&count| count > 100), "{:?}", counts.0);
    // Whatever was accepted must be valid.
    let rows = open(served.path("t")).unwrap();
    rows.validate(|_, _| ()).unwrap();
    assert_eq!(rows.len().unwrap(), served.get_rows("/v1/tables/t/rows").len().unwrap());
}

/// Appends and commits rows of a number and a float.
fn append_floats(writer: &mut Writer, numbers: Range<i64>) {
    for n in numbers {
        writer.append_row(&[Value::Int(n), Value::Float64(n as f64)]).unwrap();
    }
    writer.commit().unwrap();
}

/// Opens a stream of rows, of which only the head is read.
fn begin_following(served: &TestServer, from: i64) -> Client {
    let mut client = served.client();
    client.send_request("GET", &format!("/v1/tables/t/follow?from={from}"), &[], b"").unwrap();
    client.read_head().unwrap();
    client
}

#[test]
fn followers_that_do_not_read_take_little_memory() {
    alone!();
    const FOLLOWERS: u64 = 200;
    const BATCH_ROWS: i64 = 10_000;
    const END: i64 = 300_000;
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int not null, x: float");
    append_floats(&mut writer, 0..100_000);
    // The first follower also creates what all share.
    let _first_follower = begin_following(&served, 0);
    let before = private_memory_bytes();
    let mut stalled: Vec<_> = (0..FOLLOWERS).map(|_| served.client()).collect();
    for client in &mut stalled {
        client.send_request("GET", "/v1/tables/t/follow?from=0", &[], b"").unwrap();
    }
    for client in &mut stalled {
        client.read_head().unwrap();
    }
    for start in (100_000..END).step_by(BATCH_ROWS as usize) {
        append_floats(&mut writer, start..start + BATCH_ROWS);
    }
    wait_until("all are served", || metric(&served, "followers") == FOLLOWERS as i64 + 1);
    // Followers hold more memory the more rows have come, so they get enough time to receive what they can.
    thread::sleep(Duration::from_millis(500));
    let bytes_per_follower = private_memory_bytes().saturating_sub(before) / FOLLOWERS;
    eprintln!("{bytes_per_follower} bytes for each of {FOLLOWERS} followers");
    // The clients are in this process as well: each has a buffer of 8 KiB.
    assert!(bytes_per_follower < 64 << 10, "{bytes_per_follower} bytes for each follower");

    // Other clients are not delayed.
    let reader = begin_following(&served, END - 1);
    append_floats(&mut writer, END..END + 1);
    let mut batches = arrowwood::read_stream(reader.body()).unwrap();
    let mut row_count = 0;
    for _ in 0..2 {
        row_count += batches.next().unwrap().unwrap().num_rows();
    }
    assert_eq!(row_count, 2);
}
