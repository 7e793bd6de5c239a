//! Tests `arrowwood view`: access only with its token and only to its path, and responses that equal the file.

use std::fs;
use std::io::{Seek, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_schema::TimeUnit;
use arrowwood::{Dataset, LatePolicy, Value, WriteOptions, Writer, WriterOptions, parse_schema, write};
use arrowwood_serve::{AuditLog, BlockingEngine, BlockingQuery, Options, Server, SqlEngine, Stopper};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::support::{Client, PATIENCE, Reply, append_numbers, options, wait_until};

/// The server of a page over one path, in a thread.
pub struct ViewServer {
    port: u16,
    token: String,
    stopper: Stopper,
    /// The thread that runs the server; `None` once it was joined.
    thread: Option<JoinHandle<arrowwood::Result<()>>>,
}

impl ViewServer {
    pub fn open(path: impl AsRef<Path>) -> ViewServer {
        ViewServer::open_with_sql(path, None)
    }

    pub fn open_with_sql(path: impl AsRef<Path>, sql: Option<Arc<dyn SqlEngine>>) -> ViewServer {
        let options = Options { audit: AuditLog::new(|_| ()), sql, ..options() };
        let server = Server::view(path, &options).unwrap();
        let (address, token) = server.url().split_once("/?token=").unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        let token = token.to_owned();
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run());
        ViewServer { port, token, stopper, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request without the token.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        Client::new(self.connect()).send(method, path, headers, b"").unwrap()
    }

    /// Returns the cookie that contains the token.
    fn cookie(&self) -> String {
        format!("arrowwood-{}={}", self.port, self.token)
    }

    /// Sends a request with the token.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[("cookie", &self.cookie())])
    }

    /// Returns a response of one JSON value.
    pub fn get_json(&self, path: &str) -> Json {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// Returns the last line of a response in lines, which follows the lines about its progress.
    pub fn get_last_line(&self, path: &str) -> Json {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_str(reply.text().lines().last().unwrap()).unwrap()
    }

    /// Asserts that a request is refused with a status and a message that contains `message`.
    #[track_caller]
    pub fn assert_refused(&self, path: &str, status: u16, message: &str) {
        let reply = self.get(path);
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(reply.text().contains(message), "{path}: {}", reply.text());
    }
}

impl Drop for ViewServer {
    /// Stops the server, and ignores its errors, as the test may be panicking already.
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns rows of three columns: `n` from 0 on, `x` = n / 4 with a NaN and a null, and `a "word"`, with a null in
/// every fifth row.
fn sample_rows(len: i64) -> Dataset {
    let words = [Some("<b>"), Some("it's"), Some("null"), Some(""), None];
    let mut x_values = Vec::new();
    let mut word_values = Vec::new();
    for n in 0..len {
        x_values.push(match n {
            3 => Some(f64::NAN),
            7 => None,
            _ => Some(n as f64 / 4.0),
        });
        word_values.push(words[n as usize % words.len()]);
    }
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("n", Arc::new(Int64Array::from_iter_values(0..len)), true),
        ("x", Arc::new(Float64Array::from(x_values)), true),
        ("a \"word\"", Arc::new(StringArray::from(word_values)), true),
    ];
    Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]).unwrap()
}

fn write_dataset(path: &Path, dataset: &Dataset) {
    write(dataset, path, &WriteOptions::default()).unwrap();
}

fn write_batch(path: &Path, batch: RecordBatch) {
    write_dataset(path, &Dataset::try_from(vec![batch]).unwrap());
}

/// Writes [`sample_rows`] to `a.arrow`; returns its path.
fn write_sample_file(folder: &Path, len: i64) -> PathBuf {
    let path = folder.join("a.arrow");
    write_dataset(&path, &sample_rows(len));
    path
}

fn array_len(json: &Json) -> usize {
    json.as_array().unwrap().len()
}

#[test]
fn requests_without_the_token_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 20));
    let wrong_token = format!("arrowwood-{}={}0", server.port, server.token);
    let other_port = format!("arrowwood-1={}", server.token);
    for route in ["", "/a.arrow", "/a.arrow/cells", "/a.arrow/rows", "/a.arrow/cell?row=0&at=0", "/a.arrow/messages"] {
        let path = format!("/v1/tables{route}");
        assert_eq!(server.send("GET", &path, &[]).status, 401, "{path}");
        assert_eq!(server.send("GET", &path, &[("cookie", &wrong_token)]).status, 401, "{path}");
        assert_eq!(server.send("GET", &path, &[("cookie", &other_port)]).status, 401, "{path}");
        assert_eq!(server.get(&path).status, 200, "{path}");
    }

    // The page itself contains no data, and may load only its own resources.
    let page = server.send("GET", "/", &[]);
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'self';"));
    assert!(!page.text().contains("a.arrow"));

    // With the token, the page contains the first rows, as text that can't end an HTML element.
    let path = folder.path().join("<script>.arrow");
    write_dataset(&path, &sample_rows(200));
    let server = ViewServer::open(&path);
    let wrong_token = format!("{}0", server.cookie());
    let page = server.send("GET", "/", &[("cookie", &wrong_token)]).text();
    assert!(!page.contains("script>.arrow"));
    let page = server.get("/").text();
    let (_, after_tag) = page.split_once("<script type=\"application/json\" id=\"first\">").unwrap();
    let (data, _) = after_tag.split_once("</script>").unwrap();
    assert!(!data.contains('<'));
    let data: Json = serde_json::from_str(data).unwrap();
    let facts = server.get_json("/v1/tables/%3Cscript%3E.arrow");
    let cells = server.get_json("/v1/tables/%3Cscript%3E.arrow/cells?to=64&at=0,1,2&width=120");
    assert_eq!(data, json!({"facts": facts, "cells": cells}));

    for (name, media_type) in [("view.js", "text/javascript"), ("view.css", "text/css"), ("icon.svg", "image/svg+xml")]
    {
        let reply = server.send("GET", &format!("/{name}"), &[]);
        assert!(reply.header("content-type").unwrap().starts_with(media_type), "{name}");
    }
}

#[test]
fn browser_gets_the_token_as_a_cookie_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 20));

    let reply = server.send("GET", &format!("/?token={}", server.token), &[]);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")));
    let cookie = reply.header("set-cookie").unwrap();
    assert_eq!(cookie, format!("{}; Path=/; HttpOnly; SameSite=Strict", server.cookie()));

    let reply = server.send("GET", &format!("/?token={}x", server.token), &[]);
    assert_eq!((reply.status, reply.header("set-cookie")), (401, None));
    // No other route accepts a token in the query.
    assert_eq!(server.send("GET", &format!("/v1/tables?token={}", server.token), &[]).status, 401);
}

#[test]
fn foreign_origins_and_hosts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 20));
    let cookie = server.cookie();
    for (name, value, status) in [
        ("host", "evil.example", 421),
        ("host", "127.0.0.1.evil.example", 421),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let reply = server.send("GET", "/v1/tables", &[("cookie", &cookie), (name, value)]);
        assert_eq!(reply.status, status, "{name}: {value}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[test]
fn view_serves_only_its_path_and_is_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_sample_file(folder.path(), 20);
    write_dataset(&folder.path().join("secret.arrow"), &sample_rows(3));
    let bytes = fs::read(&path).unwrap();
    let server = ViewServer::open(&path);

    for name in ["secret.arrow", "..%2Fa.arrow", "%2e%2e/a.arrow", "a.arrow%2F..%2Fsecret.arrow", "a.arrow%00", "."] {
        let status = server.get(&format!("/v1/tables/{name}/rows")).status;
        assert!([400, 404].contains(&status), "{name}: {status}");
    }
    for path in ["/../Cargo.toml", "/..%2f..%2fetc/passwd", "/view.js/..", "/page/view.js", "//etc/passwd"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }

    let bearer = format!("Bearer {}", server.token);
    for (method, path) in
        [("PUT", "/v1/tables/new"), ("PUT", "/v1/tables/a.arrow"), ("POST", "/v1/tables/a.arrow/rows")]
    {
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/csv")];
        let reply = server.send(method, path, &headers);
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text());
        assert_eq!(server.send(method, path, &[("cookie", &server.cookie())]).status, 401);
    }
    assert_eq!(array_len(&server.get_json("/v1/tables")["tables"]), 1);
    assert_eq!(fs::read(&path).unwrap(), bytes);

    let all_interfaces = Options { listen: "0.0.0.0:0".into(), insecure: true, ..Options::default() };
    let error = Server::view(&path, &all_interfaces).map(drop).unwrap_err();
    assert!(error.to_string().contains("other machines"));
}

#[test]
fn cells_equal_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 300));

    let response = server.get_json("/v1/tables/a.arrow/cells?from=2&to=9&at=1,2,0");
    assert_eq!(response["rows"], json!([2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(response["end"], 300);
    assert_eq!(response["cells"][1], json!(["NaN", "", "3"]));
    assert_eq!(response["cells"][0], json!(["0.5", "null", "2"]));
    assert_eq!(response["cells"][5], json!([null, "null", "7"]));
    assert_eq!(response["cells"][2][1], Json::Null);

    for (query, status) in [
        ("from=301", 416),
        ("at=3", 400),
        ("at=-1", 400),
        ("at=x", 400),
        ("from=-1", 400),
        ("width=x", 400),
        ("view=9", 404),
        ("colums=n", 400),
        ("at=18446744073709551616", 400),
    ] {
        assert_eq!(server.get(&format!("/v1/tables/a.arrow/cells?{query}")).status, status, "{query}");
    }

    // Responses are small, however much is requested.
    let many_columns = vec!["0"; 1_000].join(",");
    let response = server.get_json(&format!("/v1/tables/a.arrow/cells?at={many_columns}"));
    assert_eq!(array_len(&response["rows"]), 50);
}

#[test]
fn views_filter_and_sort_rows() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 1_000));

    let query = "where=x%20%3E%3D%20240%20and%20n%20%21%3D%20970&sort=n&descending=true";
    let response = server.get_last_line(&format!("/v1/tables/a.arrow/views?{query}"));
    assert_eq!(response["rows"], 39);
    assert_eq!(response["whole"], true);
    let first_view = response["view"].as_str().unwrap();
    let cells = server.get_json(&format!("/v1/tables/a.arrow/cells?view={first_view}&from=0&to=2&at=0"));
    assert_eq!(cells["rows"], json!([999, 998]));
    assert_eq!(cells["cells"], json!([["999"], ["998"]]));
    assert_eq!(cells["end"], 39);

    // Sorts all rows, with nulls last.
    let response = server.get_last_line("/v1/tables/a.arrow/views?sort=x");
    let view = response["view"].as_str().unwrap();
    let cells = server.get_json(&format!("/v1/tables/a.arrow/cells?view={view}&from=996&at=1"));
    assert_eq!(cells["cells"], json!([["249.5"], ["249.75"], ["NaN"], [null]]));

    // A condition without matching rows is no error.
    assert_eq!(server.get_last_line("/v1/tables/a.arrow/views?where=n%20%3C%200")["rows"], 0);
    for query in ["", "where=nothing%20%3D%201", "where=n%20%3D", "sort=nothing"] {
        assert_eq!(server.get(&format!("/v1/tables/a.arrow/views?{query}")).status, 400, "{query}");
    }

    // Views that have not been used for long are dropped.
    for n in 0..4 {
        server.get_last_line(&format!("/v1/tables/a.arrow/views?where=n%20%3D%20{n}"));
    }
    assert_eq!(server.get(&format!("/v1/tables/a.arrow/cells?view={first_view}")).status, 404);
}

#[test]
fn statistics_of_a_sample_and_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 100_000));

    let numbers = server.get_json("/v1/tables/a.arrow/statistics?at=0");
    assert_eq!(numbers["min"], "0");
    assert_eq!(numbers["max"], "99999");
    assert_eq!(numbers["nulls"], 0);
    assert_eq!(numbers["exact"], true);
    assert_eq!(numbers["mean"], 49_999.5);
    let counts: Vec<u64> = serde_json::from_value(numbers["histogram"]["counts"].clone()).unwrap();
    assert_eq!(counts.len(), 32);
    assert_eq!(counts.iter().sum::<u64>(), 100_000);
    assert!(counts.iter().all(|count| (3_100..3_200).contains(count)), "{counts:?}");

    let sample = server.get_json("/v1/tables/a.arrow/statistics?at=0&sample=true");
    assert_eq!(sample["exact"], false);
    assert_eq!(sample["rows"], 65_536);
    assert_eq!(sample["of"], 100_000);
    // The rows with the minimum and the maximum are part of the sample.
    assert_eq!(sample["min"], "0");
    assert_eq!(sample["max"], "99999");

    let words = server.get_json("/v1/tables/a.arrow/statistics?at=2");
    assert_eq!(words["top"]["distinct"], 5);
    assert_eq!(words["nulls"], 20_000);
    assert_eq!(words["top"]["values"][0], json!(["<b>", 20_000, "\"a \"\"word\"\"\" == '<b>'"]));
    assert_eq!(server.get_json("/v1/tables/a.arrow/statistics?at=1")["nulls"], 1);

    // Several columns in one request have the same statistics as each column alone.
    let columns = server.get_json("/v1/tables/a.arrow/statistics?at=2,0&sample=true");
    let words = server.get_json("/v1/tables/a.arrow/statistics?at=2&sample=true");
    let numbers = server.get_json("/v1/tables/a.arrow/statistics?at=0&sample=true");
    assert_eq!(columns, json!({"columns": [words, numbers]}));
    assert_eq!(server.get_json("/v1/tables/a.arrow/statistics?at=0,2")["columns"][0]["mean"], 49_999.5);
    for query in ["at=0,9", "at=0,x", "", "at="] {
        assert_eq!(server.get(&format!("/v1/tables/a.arrow/statistics?{query}")).status, 400, "{query}");
    }
}

/// Computes one bin of the column `x` naively: its first, smallest, greatest and last value, or null without values.
fn naive_bin(dataset: &Dataset, rows: Range<u64>) -> Json {
    let mut values = Vec::new();
    for row in rows {
        match dataset.row(row).unwrap().get(1).unwrap() {
            Value::Float64(x) if !x.is_nan() => values.push(x),
            _ => (),
        }
    }
    format_bin(&values)
}

/// Returns the first, smallest, greatest and last of some values as JSON, or null if there are none.
fn format_bin(values: &[f64]) -> Json {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Json::Null;
    };
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    json!([first, min, max, last])
}

/// Computes `count` bins of some rows naively.
fn naive_bins(dataset: &Dataset, rows: Range<u64>, count: u64) -> Json {
    let len = rows.end - rows.start;
    let mut bins = Vec::new();
    for bin in 0..count {
        let start = rows.start + len * bin / count;
        let end = rows.start + len * (bin + 1) / count;
        bins.push(naive_bin(dataset, start..end));
    }
    Json::Array(bins)
}

#[test]
fn bins_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 10_000));
    let rows = sample_rows(10_000);
    for (from, to, count) in [(0, 10_000, 7), (0, 10, 10), (2, 9, 3), (3, 4, 1), (9_000, 10_000, 333)] {
        let response = server.get_json(&format!("/v1/tables/a.arrow/bins?at=1&from={from}&to={to}&count={count}"));
        assert_eq!(response["bins"], naive_bins(&rows, from..to, count), "{from} {to} {count}");
        assert_eq!(response["exact"], true);
    }

    // There are never more bins than rows, and a sample is marked.
    let response = server.get_json("/v1/tables/a.arrow/bins?at=1&from=5&to=9&count=100");
    assert_eq!(array_len(&response["bins"]), 4);
    assert_eq!(server.get_json("/v1/tables/a.arrow/bins?at=1&count=2&sample=true")["exact"], false);
    assert_eq!(server.get_json("/v1/tables/a.arrow/bins?at=1&from=10000")["bins"], json!([]));
    assert_eq!(server.get("/v1/tables/a.arrow/bins?at=2").status, 400);
}

/// A row of a table with times in nanoseconds.
#[derive(Clone, Copy)]
struct TimedRow {
    time: Option<i64>,
    x: Option<f64>,
}

/// Returns true if a time is in a range. A range up to the last possible time includes it.
fn is_in_range(time: i64, range: &Range<i64>) -> bool {
    range.contains(&time) || range.end == i64::MAX && time >= range.start
}

fn count_rows(rows: &[TimedRow], range: &Range<i64>) -> usize {
    rows.iter().filter(|row| row.time.is_some_and(|time| is_in_range(time, range))).count()
}

/// Computes at most `count` bins over a range of times naively.
fn naive_timeline(rows: &[TimedRow], range: &Range<i64>, count: u64) -> Json {
    let start = i128::from(range.start);
    let len = i128::from(range.end) - start;
    let count = i128::from(count).min(len);
    let mut bins = Vec::new();
    for bin in 0..count {
        let bin_start = (start + len * bin / count) as i64;
        let bin_end = (start + len * (bin + 1) / count) as i64;
        bins.push(naive_timeline_bin(rows, &(bin_start..bin_end)));
    }
    Json::Array(bins)
}

fn naive_timeline_bin(rows: &[TimedRow], range: &Range<i64>) -> Json {
    let mut found = Vec::new();
    for row in rows {
        if let (Some(time), Some(x)) = (row.time, row.x)
            && is_in_range(time, range)
            && x.is_finite()
        {
            found.push((time, x));
        }
    }
    found.sort_by_key(|(time, _)| *time);
    let values: Vec<f64> = found.into_iter().map(|(_, x)| x).collect();
    format_bin(&values)
}

/// Returns `len + 2` rows with increasing times that floats can't distinguish, with very different steps between them.
/// The last two rows have the last possible times.
fn timed_rows(len: i64) -> Vec<TimedRow> {
    let mut time = 1_700_000_000_000_000_000;
    let mut rows = Vec::new();
    for n in 0..len {
        time += if n % 97 == 0 { 40_000_000_000 } else { n * 7_919 % 5 };
        let x = if n % 11 == 3 {
            None
        } else if n % 13 == 5 {
            Some(f64::NAN)
        } else {
            Some((n * 7_907 % 1_009) as f64)
        };
        rows.push(TimedRow { time: Some(time), x });
    }
    rows.push(TimedRow { time: Some(i64::MAX - 1), x: Some(-1.0) });
    rows.push(TimedRow { time: Some(i64::MAX), x: Some(-2.0) });
    rows
}

fn timed_batch(rows: &[TimedRow], is_nullable: bool) -> RecordBatch {
    let times: TimestampNanosecondArray = rows.iter().map(|row| row.time).collect();
    let x_values: Float64Array = rows.iter().map(|row| row.x).collect();
    let columns: [(&str, ArrayRef, bool); 2] =
        [("ts", Arc::new(times.with_timezone("UTC")), is_nullable), ("x", Arc::new(x_values), true)];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Creates a table in which `ts` is declared to be sorted, with a few hundred rows in each segment.
fn write_timed_table(path: &Path, rows: &[TimedRow], late: Option<LatePolicy>) -> Writer {
    let batch = timed_batch(rows, false);
    let options =
        WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(700), late, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(batch.schema()), &options).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    writer
}

/// Requests bins of `x` over a range of `ts`.
fn get_timeline(server: &ViewServer, table: &str, range: &Range<i64>, count: u64) -> Json {
    let Range { start, end } = range;
    server.get_json(&format!("/v1/tables/{table}/bins?at=1&over=0&start={start}&stop={end}&count={count}"))
}

/// Returns ranges of times: all rows of [`timed_rows`] but the last two, a few rows, no rows, and all rows.
fn time_ranges(rows: &[TimedRow]) -> [Range<i64>; 5] {
    let times: Vec<i64> = rows.iter().map(|row| row.time.unwrap()).collect();
    let last_regular = times.len() - 3;
    [
        times[0]..times[last_regular] + 1,
        times[0] + 1..times[0] + 9,
        times[1_000]..times[1_010] + 1,
        0..10,
        i64::MIN..i64::MAX,
    ]
}

#[test]
fn bins_over_time_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let rows = timed_rows(4_998);
    let ranges = time_ranges(&rows);

    // A sorted table of several segments, which is open for writing.
    let path = folder.path().join("sorted");
    let _writer = write_timed_table(&path, &rows, None);
    let server = ViewServer::open(&path);
    for range in &ranges {
        for count in [1, 7, 333] {
            let response = get_timeline(&server, "sorted", range, count);
            assert_eq!(response["bins"], naive_timeline(&rows, range, count), "{range:?} {count}");
            assert_eq!(response["rows"], count_rows(&rows, range));
            assert_eq!(response["sorted"], true);
            assert_eq!(response["exact"], true);
            let first_row = rows.iter().position(|row| row.time.unwrap() >= range.start).unwrap_or(rows.len());
            assert_eq!(response["first_row"], first_row);
        }
    }
    // Without bounds, all times are used; they are sent as text, so that no digit is lost.
    let response = server.get_json("/v1/tables/sorted/bins?at=1&over=0&count=10");
    let first_time = rows[0].time.unwrap();
    assert_eq!(response["start"], first_time.to_string());
    assert_eq!(response["stop"], i64::MAX.to_string());
    assert_eq!(response["bins"], naive_timeline(&rows, &(first_time..i64::MAX), 10));
    assert_eq!(server.get_json("/v1/tables/sorted/bins?at=1&over=0&from=20&to=21")["rows"], 1);

    // Unsorted times with nulls: files declare no order, and tables may accept late rows.
    let mut shuffled: Vec<TimedRow> = (0..5_000).map(|n| rows[n * 1_237 % 5_000]).collect();
    for row in shuffled.iter_mut().step_by(50) {
        row.time = None;
    }
    write_batch(&folder.path().join("mixed.arrow"), timed_batch(&shuffled, true));
    let without_nulls: Vec<TimedRow> = shuffled.iter().copied().filter(|row| row.time.is_some()).collect();
    write_timed_table(&folder.path().join("late"), &without_nulls, Some(LatePolicy::Accept)).close().unwrap();
    for (name, rows) in [("mixed.arrow", &shuffled), ("late", &without_nulls)] {
        let server = ViewServer::open(folder.path().join(name));
        for range in &ranges {
            let response = get_timeline(&server, name, range, 40);
            assert_eq!(response["bins"], naive_timeline(rows, range, 40), "{name} {range:?}");
            assert_eq!(response["sorted"], false);
            assert_eq!(response["first_row"], Json::Null);
            assert_eq!(response["rows"], count_rows(rows, range));
        }
        for (query, message) in [
            ("at=1&over=1", "number of a column of times"),
            ("at=1&over=9", "number of a column of times"),
            ("at=1&over=0&start=x", "whole number"),
            ("at=1&start=3", "over"),
        ] {
            server.assert_refused(&format!("/v1/tables/{name}/bins?{query}"), 400, message);
        }
    }

    // All times are null.
    let path = folder.path().join("none.arrow");
    write_batch(&path, timed_batch(&[TimedRow { time: None, x: Some(1.0) }], true));
    let response = ViewServer::open(&path).get_json("/v1/tables/none.arrow/bins?at=1&over=0");
    assert_eq!(response["bins"], json!([]));
    assert_eq!(response["start"], Json::Null);
    assert_eq!(response["ends"], Json::Null);
}

#[test]
fn sampled_bins_over_time_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let rows: Vec<TimedRow> =
        (0..600_000).map(|n| TimedRow { time: Some(n * 1_000), x: Some((n % 1_000) as f64) }).collect();
    write_batch(&path, timed_batch(&rows, false));
    let server = ViewServer::open(&path);

    let sample = server.get_json("/v1/tables/a.arrow/bins?at=1&over=0&count=20&sample=true");
    assert_eq!(sample["exact"], false);
    assert_eq!(sample["rows"], Json::Null);
    assert!(sample["bins"].as_array().unwrap().iter().all(Json::is_array), "{sample}");

    let exact = server.get_json("/v1/tables/a.arrow/bins?at=1&over=0&count=20");
    assert_eq!(exact["exact"], true);
    assert_eq!(exact["rows"], 600_000);
    assert_eq!(exact["bins"], naive_timeline(&rows, &(0..599_999_001), 20));
}

/// Creates a view of the table `t`; returns its name.
fn create_view(server: &ViewServer, query: &str) -> String {
    let response = server.get_last_line(&format!("/v1/tables/t/views?{query}"));
    response["view"].as_str().unwrap().to_owned()
}

#[test]
fn row_can_be_found_by_its_time() {
    /// The time of the first row, 2024-01-01, in microseconds.
    const FIRST_TIME: i64 = 1_704_067_200_000_000;
    /// The time between two rows in microseconds.
    const STEP: i64 = 90_000_000;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("symbol: str, ts: timestamp[us, UTC] not null").unwrap());
    let options = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    for row in 0..2_500 {
        let symbol = if row % 3 == 0 { "A" } else { "B" };
        let time = Value::Timestamp(FIRST_TIME + row * STEP, TimeUnit::Microsecond, Some("UTC"));
        writer.append_row(&[Value::Str(symbol), time]).unwrap();
    }
    writer.close().unwrap();
    let server = ViewServer::open(&path);

    for (time, row) in [
        ("2024-01-01", 0),
        ("2024-01-02", 960),
        ("2024-01-02%2000:00:01", 961),
        ("2024-01-02T00:01", 961),
        ("2024-01-02T00:01:30Z", 961),
        ("2024-01-02T02:01:30%2B02:00", 961),
        ("1999-12-31", 0),
    ] {
        let response = server.get_json(&format!("/v1/tables/t/seek?value={time}"));
        assert_eq!(response, json!({"row": row, "column": "ts"}), "{time}");
    }
    assert_eq!(server.get_json("/v1/tables/t/seek?value=2025-01-01")["row"], Json::Null);

    // A filtered view returns the position in the view; another order returns none.
    let filtered = create_view(&server, "where=symbol%20%3D%20'A'");
    let response = server.get_json(&format!("/v1/tables/t/seek?value=2024-01-02&view={filtered}"));
    assert_eq!(response["row"], 320);
    let descending = create_view(&server, "sort=ts&descending=true");
    for (query, message) in [
        (format!("value=2024-01-02&view={descending}"), "another order"),
        ("value=tomorrow".into(), "can't be compared with 'tomorrow'"),
        ("".into(), "a time is expected"),
    ] {
        server.assert_refused(&format!("/v1/tables/t/seek?{query}"), 400, message);
    }

    // A file declares no order, so the first matching row is returned.
    let server = ViewServer::open(write_sample_file(folder.path(), 100));
    assert_eq!(server.get_json("/v1/tables/a.arrow/seek?at=1&value=10.1")["row"], 41);
    assert!(server.get("/v1/tables/a.arrow/seek?value=2024-01-01").text().contains("none has times"));
}

/// The rows with one word.
struct WordGroup {
    word: Json,
    row_count: u64,
    /// The sum of `n`.
    sum: i64,
}

/// Groups rows from `from` on by their word naively, row by row, in the order of their first rows.
fn naive_groups(dataset: &Dataset, from: u64) -> Vec<WordGroup> {
    let mut groups: Vec<WordGroup> = Vec::new();
    for row in dataset.slice(from, u64::MAX).unwrap().rows() {
        let row = row.unwrap();
        let word = match row.get(2).unwrap() {
            Value::Str(word) => Json::from(word),
            _ => Json::Null,
        };
        let Value::Int(n) = row.get(0).unwrap() else { panic!("n is an integer") };
        match groups.iter_mut().find(|group| group.word == word) {
            Some(group) => {
                group.row_count += 1;
                group.sum += n;
            }
            None => groups.push(WordGroup { word, row_count: 1, sum: n }),
        }
    }
    groups
}

/// Formats groups as the cells of a response.
fn format_groups(groups: &[WordGroup]) -> Json {
    groups.iter().map(|group| json!([group.word, group.row_count.to_string(), group.sum.to_string()])).collect()
}

fn get_groups(server: &ViewServer, query: &str) -> Json {
    server.get_last_line(&format!("/v1/tables/a.arrow/groups?{query}"))
}

#[test]
fn groups_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let server = ViewServer::open(write_sample_file(folder.path(), 10_000));
    let rows = sample_rows(10_000);
    for (query, from) in [("at=2&of=sum:0", 0), ("at=2&of=sum:0&where=n%20%3E=%204321", 4321)] {
        let expected = format_groups(&naive_groups(&rows, from));
        assert_eq!(get_groups(&server, query)["cells"], expected, "{query}");
    }

    let mut sorted = naive_groups(&rows, 17);
    sorted.sort_by_key(|group| -group.sum);
    let response = get_groups(&server, "at=2&of=sum:0&where=n%20%3E=%2017&sort=2&descending=true");
    assert_eq!(response["cells"], format_groups(&sorted));
    assert_eq!(response["groups"], 5);
    assert_eq!(response["keys"], 1);
    assert_eq!(response["columns"][2], json!({"name": "sum of n", "type": "int64"}));

    // All rows as one group, and more groups than a response has, with the last ones first.
    let response = get_groups(&server, "of=mean:0&of=min:0&of=n_unique:2");
    assert_eq!(response["cells"], json!([["10000", "4999.5", "0", "5"]]));
    let response = get_groups(&server, "of=first:0&of=last:0&where=n%20%3E=%2017");
    assert_eq!(response["cells"], json!([["9983", "17", "9999"]]));
    let response = get_groups(&server, "at=0,2&sort=0&descending=true");
    assert_eq!(response["groups"], 10_000);
    assert_eq!(array_len(&response["cells"]), 1_000);
    assert_eq!(response["cells"][0], json!(["9999", null, "1"]));

    for (query, message) in [
        ("of=sum:2", "sum of column 'a \\\"word\\\"' of type utf8 is not supported"),
        ("of=total:0", "'total'"),
        ("of=sum", "mean:3"),
        ("of=sum:3", "mean:3"),
        ("at=3", "below 3"),
        ("at=0&sort=2", "below 2"),
        ("at=0,0,0,0,0,0,0,0,0", "at most 8"),
        ("where=m%20%3D%201", "'m'"),
        ("group=0", "'group'"),
    ] {
        server.assert_refused(&format!("/v1/tables/a.arrow/groups?{query}"), 400, message);
    }
}

#[test]
fn groups_over_the_memory_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let column = Arc::new(Int64Array::from_iter_values(0..6_000_000)) as ArrayRef;
    write_batch(&path, RecordBatch::try_from_iter([("n", column)]).unwrap());
    let server = ViewServer::open(&path);
    let response = get_groups(&server, "at=0");
    assert!(response["error"].as_str().unwrap().contains("more than 1000000 groups"), "{response}");
    assert_eq!(get_groups(&server, "at=0&where=n%20%3C%205")["groups"], 5);
}

/// Returns a buffer from the place of a cell.
fn find_buffer<'a>(cell: &'a Json, name: &str) -> &'a Json {
    let buffers = cell["place"]["buffers"].as_array().unwrap();
    buffers.iter().find(|buffer| buffer["name"] == name).unwrap()
}

/// Returns the offset in the file of a cell's value in a buffer.
fn value_offset(buffer: &Json) -> usize {
    buffer["at"].as_u64().unwrap() as usize
}

/// Asserts that a request is refused as invalid, or because something in it doesn't exist.
#[track_caller]
fn assert_bad_request_or_not_found(server: &ViewServer, path: &str) {
    let status = server.get(path).status;
    assert!([400, 404].contains(&status), "{path}: {status}");
}

#[test]
fn bytes_of_a_cell_are_located_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_sample_file(folder.path(), 100);
    let server = ViewServer::open(&path);
    let bytes = fs::read(&path).unwrap();

    let number = server.get_json("/v1/tables/a.arrow/cell?row=42&at=0");
    assert_eq!(number["value"], "42");
    let buffer = find_buffer(&number, "values");
    assert_eq!(bytes[value_offset(buffer)..][..8], 42i64.to_le_bytes());
    assert_eq!(buffer["hex"], "2a 00 00 00 00 00 00 00");

    let word = server.get_json("/v1/tables/a.arrow/cell?row=41&at=2");
    assert_eq!(word["value"], "it's");
    let buffer = find_buffer(&word, "data");
    assert_eq!(&bytes[value_offset(buffer)..][..4], b"it's");
    for query in ["row=100&at=0", "row=0&at=3", "at=0", "row=0"] {
        assert_bad_request_or_not_found(&server, &format!("/v1/tables/a.arrow/cell?{query}"));
    }

    // Messages cover the file, and bodies cover their buffers.
    let response = server.get_json("/v1/tables/a.arrow/messages?file=0");
    assert_eq!(response["size"], bytes.len());
    assert_eq!(response["total"], 2);
    let message = server.get_json("/v1/tables/a.arrow/messages?file=0&message=1");
    let body_end = message["body_offset"].as_u64().unwrap() + message["body_length"].as_u64().unwrap();
    for buffer in message["buffers"].as_array().unwrap() {
        let buffer_end = buffer["offset"].as_u64().unwrap() + buffer["length"].as_u64().unwrap();
        assert!(buffer_end <= body_end, "{buffer}");
    }
    let residency = server.get_json("/v1/tables/a.arrow/messages?file=0&residency=1000");
    assert_eq!(array_len(&residency["shares"]), bytes.len().div_ceil(4_096));
    for query in ["file=1", "file=0&message=2", "file=x"] {
        assert_bad_request_or_not_found(&server, &format!("/v1/tables/a.arrow/messages?{query}"));
    }
}

/// Returns the rows of the table that a query calls `self`.
fn read_self(query: &BlockingQuery) -> Dataset {
    arrowwood::open(&query.path).unwrap()
}

/// Returns an engine that knows two queries: `from self`, and `wait`, which sets `is_started`, runs until it is
/// cancelled, and then sets `is_cancelled`.
fn waiting_engine(is_started: Arc<AtomicBool>, is_cancelled: Arc<AtomicBool>) -> BlockingEngine {
    BlockingEngine::new(move |query| match query.text.as_str() {
        "from self" => Ok(read_self(query).head(query.most).unwrap()),
        "wait" => {
            is_started.store(true, Ordering::SeqCst);
            wait_until("the end of a query", || query.given_up.load(Ordering::Relaxed));
            is_cancelled.store(true, Ordering::SeqCst);
            Err("given up".into())
        }
        other => Err(format!("what is {other}?")),
    })
}

#[test]
fn sql_runs_in_the_engine_and_is_cancelled_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_sample_file(folder.path(), 5_000);
    let is_started = Arc::new(AtomicBool::new(false));
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let engine = waiting_engine(is_started.clone(), is_cancelled.clone());
    let server = ViewServer::open_with_sql(&path, Some(Arc::new(engine)));

    let response = server.get_json("/v1/tables/a.arrow/sql?query=from+self");
    assert_eq!(array_len(&response["cells"]), 1_000);
    assert_eq!(response["whole"], false);
    assert_eq!(response["cells"][7], json!(["7", null, "null"]));
    assert_eq!(response["columns"][1], json!({"name": "x", "type": "float64"}));
    server.assert_refused("/v1/tables/a.arrow/sql?query=nothing", 400, "what is nothing?");
    assert_eq!(server.get("/v1/tables/a.arrow/sql").status, 400);

    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let head = "GET /v1/tables/a.arrow/sql?query=wait HTTP/1.1\r\nhost: 127.0.0.1";
    write!(client, "{head}\r\ncookie: {}\r\n\r\n", server.cookie()).unwrap();
    wait_until("the beginning of the query", || is_started.load(Ordering::SeqCst));
    // The query goes on while other clients connect and disconnect.
    assert_eq!(server.get("/v1/tables/a.arrow/sql?query=nothing").status, 400);
    assert!(!is_cancelled.load(Ordering::SeqCst));
    drop(client);
    wait_until("the end of the query of a client that has gone", || is_cancelled.load(Ordering::SeqCst));

    // Without an engine, a message names the package to install.
    let server = ViewServer::open(&path);
    server.assert_refused("/v1/tables/a.arrow/sql?query=from+self", 501, "pip install 'arrowwood[sql]'");
}

/// Returns an engine that knows `from self`, and answers other queries with more rows than a download may have. It
/// writes Arrow streams in place of Parquet files.
fn download_engine() -> BlockingEngine {
    let engine = BlockingEngine::new(|query| {
        let rows = read_self(query);
        if query.text == "from self" {
            return Ok(rows.head(query.most).unwrap());
        }
        let copies: Vec<Dataset> = std::iter::repeat_n(rows, 300).collect();
        Ok(Dataset::concat(&copies).unwrap().head(query.most).unwrap())
    });
    engine.with_parquet(|rows| {
        let mut file = tempfile::tempfile().unwrap();
        let options = WriteOptions { format: arrowwood::Format::Stream, ..WriteOptions::default() };
        arrowwood::write_to(rows, &mut file, &options).map_err(|e| e.message().to_owned())?;
        file.rewind().unwrap();
        Ok(file)
    })
}

/// Downloads JSON lines.
fn download_lines(server: &ViewServer, path: &str) -> Vec<Json> {
    let reply = server.get(&format!("/v1/tables/a.arrow/{path}"));
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the column `n` of JSON lines.
fn column_n(lines: &[Json]) -> Vec<i64> {
    lines.iter().map(|line| line["n"].as_i64().unwrap()).collect()
}

/// Opens a downloaded Arrow stream.
fn open_body(reply: &Reply) -> Dataset {
    arrowwood::OpenOptions::new().bytes(reply.body.clone().into()).unwrap()
}

#[test]
fn downloads_contain_all_rows_in_the_shown_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_sample_file(folder.path(), 10_000);
    let server = ViewServer::open_with_sql(&path, Some(Arc::new(download_engine())));
    let ascending: Vec<i64> = (0..10_000).collect();
    let descending: Vec<i64> = (0..10_000).rev().collect();

    // A filtered and sorted view.
    let response = server.get_last_line("/v1/tables/a.arrow/views?where=n%20%3E=%207000&sort=n&descending=true");
    let view = response["view"].as_str().unwrap();
    let lines = download_lines(&server, &format!("save?view={view}&format=jsonl"));
    assert_eq!(column_n(&lines), descending[..3_000]);
    let stream = server.get(&format!("/v1/tables/a.arrow/save?view={view}&format=arrow"));
    assert_eq!(stream.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    let rows = open_body(&stream);
    assert_eq!(rows.len().unwrap(), 3_000);
    assert_eq!(rows.schema(), sample_rows(10_000).schema());
    assert!(matches!(rows.row(0).unwrap().get(0).unwrap(), Value::Int(9_999)));
    let parquet = server.get(&format!("/v1/tables/a.arrow/save?view={view}&format=parquet"));
    assert_eq!(parquet.header("content-type"), Some("application/vnd.apache.parquet"));
    assert_eq!(open_body(&parquet).len().unwrap(), 3_000);
    let parquet = server.get("/v1/tables/a.arrow/save?format=parquet");
    assert_eq!(open_body(&parquet).len().unwrap(), 10_000);

    // All groups, of which a page shows a thousand, without duplicate column names.
    let groups = download_lines(&server, "groups?at=0&of=sum:0&of=sum:0&sort=0&descending=true&format=jsonl");
    assert_eq!(column_n(&groups), descending);
    assert_eq!(groups[3], json!({"n": 9_996, "rows": 1, "sum of n": 9_996, "sum of n 2": 9_996}));
    let csv = server.get("/v1/tables/a.arrow/groups?at=2&where=n%20%3C%205&format=csv").text();
    assert_eq!(csv.lines().next(), Some("\"a \"\"word\"\"\",rows"));
    assert_eq!(csv.lines().count(), 6);

    // Either all rows of a query, or none.
    let lines = download_lines(&server, "sql?query=from+self&format=jsonl");
    assert_eq!(column_n(&lines), ascending);
    for (path, status, message) in [
        ("sql?query=endless&format=csv", 422, "more than 2000000 rows"),
        ("sql?query=from+self&format=xml", 400, "arrow, jsonl or csv"),
        ("groups?at=0&format=xml", 400, "arrow, jsonl or csv"),
        ("save?format=csv", 400, "view"),
        ("save?view=none&format=csv", 404, "search again"),
        ("save?view=none", 400, "format"),
    ] {
        server.assert_refused(&format!("/v1/tables/a.arrow/{path}"), status, message);
    }
    assert_eq!(server.get_json("/v1/tables/a.arrow")["parquet"], true);

    // Without an engine there is no Parquet, and a message names the package to install.
    let server = ViewServer::open(&path);
    assert_eq!(server.get_json("/v1/tables/a.arrow")["parquet"], false);
    server.assert_refused("/v1/tables/a.arrow/save?format=parquet", 501, "pip install 'arrowwood[parquet]'");
}

#[test]
fn only_images_are_served_as_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.arrow");
    let pictures: Vec<Option<&[u8]>> = vec![Some(b"GIF89a and more"), Some(b"<svg onload='x'/>"), None, Some(b"")];
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("p", Arc::new(arrow_array::BinaryArray::from_opt_vec(pictures)), true),
        ("t", Arc::new(StringArray::from(vec!["GIF89a"; 4])), true),
    ];
    write_batch(&path, RecordBatch::try_from_iter_with_nullable(columns).unwrap());
    let server = ViewServer::open(&path);

    let reply = server.get("/v1/tables/p.arrow/image?row=0&at=0");
    assert_eq!((reply.status, reply.text().as_ref()), (200, "GIF89a and more"));
    assert_eq!(reply.header("content-type"), Some("image/gif"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("content-security-policy"), Some("default-src 'none'"));

    assert_eq!(server.get_json("/v1/tables/p.arrow/cell?row=0&at=0")["image"], "image/gif");
    assert_eq!(server.get_json("/v1/tables/p.arrow/cell?row=1&at=0")["image"], Json::Null);
    for query in ["row=1&at=0", "row=2&at=0", "row=3&at=0", "row=0&at=1", "row=4&at=0"] {
        assert_eq!(server.get(&format!("/v1/tables/p.arrow/image?{query}")).status, 404, "{query}");
    }
}

/// Reads a 64-bit integer at an offset that a response names.
fn read_u64(bytes: &[u8], offset: &Json) -> u64 {
    let offset = offset.as_u64().unwrap() as usize;
    u64::from_le_bytes(bytes[offset..][..8].try_into().unwrap())
}

#[test]
fn events_show_the_growth_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    let options = WriterOptions { segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    append_numbers(&mut writer, 0..2_500);
    let server = ViewServer::open(&path);
    assert_eq!(server.get_json("/v1/tables/t")["kind"], "table");
    let response = server.get_json("/v1/tables/t/cells?from=2498");
    assert_eq!(response["cells"], json!([["2498"], ["2499"]]));

    append_numbers(&mut writer, 2_500..2_501);
    let response = server.get_json("/v1/tables/t/cells?from=2498");
    assert_eq!(response["cells"][2], json!(["2500"]));
    assert_eq!(response["end"], 2_501);
    let files = server.get_json("/v1/tables/t/messages");
    assert_eq!(files["total"], 3);
    assert_eq!(files["live"], true);
    assert_eq!(files["files"][1]["first_row"], 1_000);

    // The records of commits are shown as they are in the file, with the newest one and its writer.
    let response = server.get_json("/v1/tables/t/messages?file=2&commits=true");
    let segment = &response["segment"];
    assert_eq!(segment["first_row"], 2_000);
    assert_eq!(response["table"]["writer"], std::process::id());
    let bytes = fs::read(path.join("00000000000000002000.arrow")).unwrap();
    let records = segment["records"].as_array().unwrap();
    let visible: Vec<&Json> = records.iter().filter(|record| record["place"] == "visible").collect();
    for record in &visible {
        assert_eq!(read_u64(&bytes, &record["offset"]), record["sequence"].as_u64().unwrap());
    }
    let newest = visible.iter().find(|record| record["sequence"] == segment["sequence"]).unwrap();
    assert_eq!(newest["end"], 2_501);
    assert_eq!(newest["this_boot"], true);
    assert_eq!(newest["sealed"], false);
    assert!(read_u64(&bytes, &segment["live_page"]["offset"]) >= newest["sequence"].as_u64().unwrap());
    let first_segment = server.get_json("/v1/tables/t/messages?file=0&commits=true");
    assert_eq!(first_segment["segment"]["records"][0]["sealed"], true);

    // The footer shows the row to other readers a moment after the commit.
    wait_until("the row is in the published footer", || {
        let cell = server.get_json("/v1/tables/t/cell?row=2500&at=0");
        assert_eq!(cell["value"], "2500");
        cell["place"]["file"] == 2 && cell["place"]["row_in_batch"].is_u64()
    });
}

#[test]
fn several_files_are_shown_as_one_table() {
    let folder = tempfile::tempdir().unwrap();
    write_dataset(&folder.path().join("1.arrow"), &sample_rows(10));
    write_dataset(&folder.path().join("2.arrow"), &sample_rows(20));
    for path in [folder.path().to_path_buf(), folder.path().join("*.arrow")] {
        let server = ViewServer::open(&path);
        let tables = server.get_json("/v1/tables");
        let name = tables["tables"][0]["name"].as_str().unwrap();
        let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let facts = server.get_json(&format!("/v1/tables/{name}"));
        assert_eq!(facts["kind"], "files");
        assert_eq!(facts["end"], 30);
        let cell = server.get_json(&format!("/v1/tables/{name}/cell?row=12&at=0"));
        assert_eq!(cell["value"], "2");
        assert_eq!(cell["place"]["name"], "2.arrow");
    }
    let error = Server::view(folder.path().join("nothing.arrow"), &options()).map(drop).unwrap_err();
    assert_eq!(error.kind(), arrowwood::ErrorKind::NotFound);
}

#[test]
fn damage_is_reported_as_by_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_sample_file(folder.path(), 1_000);
    let cell = ViewServer::open(&path).get_json("/v1/tables/a.arrow/cell?row=5&at=2");
    let offset = value_offset(find_buffer(&cell, "offsets"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[offset..][..4].copy_from_slice(&i32::MAX.to_le_bytes());
    let damaged = folder.path().join("b.arrow");
    fs::write(&damaged, bytes).unwrap();

    let server = ViewServer::open(&damaged);
    let response = server.get_json("/v1/tables/b.arrow/cells?from=4&to=8");
    assert!(response["cells"][1][2]["error"].as_str().unwrap().contains("offset"), "{response}");
    assert_eq!(response["cells"][1][0], "5");
    server.assert_refused("/v1/tables/b.arrow/statistics?at=2", 500, "offset");
}

/// Returns the paths of the page's sources in their folder, in order.
fn page_sources(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder_below) = folders.pop() {
        for entry in fs::read_dir(folder_below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort_unstable();
    files
}

/// `make view` builds the page. This test, which needs no npm, fails if the source was changed without a build.
#[test]
fn built_page_matches_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../../web/src");
    let mut hash = Sha256::new();
    for name in page_sources(&folder) {
        hash.update(&name);
        hash.update([0]);
        hash.update(fs::read(folder.join(&name)).unwrap());
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let recorded = fs::read_to_string(root.join("page/source.sha256")).unwrap();
    assert_eq!(recorded.trim(), digest, "crates/serve/page is not what web/src gives; run make view");
}
