//! Tests `arrowwood view`: access only with its token and only to its path, and responses that equal the file.

use std::fs;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrowwood::{Dataset, LatePolicy, Value, WriteOptions, Writer, WriterOptions, parse_schema, write};
use arrowwood_serve::{AuditLog, BlockingEngine, Options, Server, SqlEngine, Stopper};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::support::{Client, PATIENCE, Reply, options, wait_until};

/// The server of a page, over a path.
pub struct Viewed {
    port: u16,
    token: String,
    stopper: Stopper,
    thread: Option<JoinHandle<arrowwood::Result<()>>>,
}

impl Viewed {
    pub fn open(path: impl AsRef<Path>) -> Viewed {
        Viewed::with_sql(path, None)
    }

    pub fn with_sql(path: impl AsRef<Path>, sql: Option<Arc<dyn SqlEngine>>) -> Viewed {
        let server = Server::view(path, &Options { audit: AuditLog::new(|_| ()), sql, ..options() }).unwrap();
        let (address, token) = server.url().split_once("/?token=").unwrap();
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        let token = token.to_owned();
        let stopper = server.stopper();
        Viewed { port, token, stopper, thread: Some(std::thread::spawn(move || server.run())) }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client::new(stream).send(method, path, headers, b"").unwrap()
    }

    fn cookie(&self) -> String {
        format!("arrowwood-{}={}", self.port, self.token)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[("cookie", &self.cookie())])
    }

    pub fn json(&self, path: &str) -> Json {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_str(&reply.text()).unwrap()
    }

    /// Returns the last line of a view's response.
    pub fn view(&self, path: &str) -> Json {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        serde_json::from_str(reply.text().lines().last().unwrap()).unwrap()
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns rows of three columns: `n` from 0 on, `x` = n / 4 with a NaN and a null, and `word`, of which some are null.
fn rows(len: i64) -> Dataset {
    let words = ["<b>", "it's", "null", ""];
    let x = (0..len).map(|n| if n == 7 { None } else { Some(if n == 3 { f64::NAN } else { n as f64 / 4.0 }) });
    let word = (0..len).map(|n| (n % 5 != 4).then(|| words[(n % 5) as usize]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..len))),
        ("x", Arc::new(x.collect::<Float64Array>())),
        ("a \"word\"", Arc::new(word.collect::<StringArray>())),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]).unwrap()
}

fn file(folder: &Path, len: i64) -> std::path::PathBuf {
    let path = folder.join("a.arrow");
    write(&rows(len), &path, &WriteOptions::default()).unwrap();
    path
}

#[test]
fn requests_without_the_token_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 20));
    let wrong = format!("arrowwood-{}={}0", viewed.port, viewed.token);
    let other_port = format!("arrowwood-1={}", viewed.token);
    for path in ["", "/a.arrow", "/a.arrow/cells", "/a.arrow/rows", "/a.arrow/cell?row=0&at=0", "/a.arrow/messages"] {
        let path = format!("/v1/tables{path}");
        assert_eq!(viewed.send("GET", &path, &[]).status, 401, "{path}");
        assert_eq!(viewed.send("GET", &path, &[("cookie", &wrong)]).status, 401, "{path}");
        assert_eq!(viewed.send("GET", &path, &[("cookie", &other_port)]).status, 401, "{path}");
        assert_eq!(viewed.get(&path).status, 200, "{path}");
    }
    // The page itself contains no data, and may load only its own resources.
    let page = viewed.send("GET", "/", &[]);
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'self';"));
    assert!(!page.text().contains("a.arrow"));
    // With the token, the page contains the first rows, as text that can't end an HTML element.
    let path = folder.path().join("<script>.arrow");
    write(&rows(200), &path, &WriteOptions::default()).unwrap();
    let viewed = Viewed::open(&path);
    assert!(!viewed.send("GET", "/", &[("cookie", &format!("{}0", viewed.cookie()))]).text().contains("script>.arrow"));
    let page = viewed.send("GET", "/", &[("cookie", &viewed.cookie())]).text();
    let data = page.split_once("<script type=\"application/json\" id=\"first\">").unwrap().1;
    let data = data.split_once("</script>").unwrap().0;
    assert!(!data.contains('<'));
    let data: Json = serde_json::from_str(data).unwrap();
    let [facts, cells] = ["", "/cells?to=64&at=0,1,2&width=120"]
        .map(|route| viewed.json(&format!("/v1/tables/%3Cscript%3E.arrow{route}")));
    assert_eq!(data, json!({"facts": facts, "cells": cells}));
    for (name, media) in [("view.js", "text/javascript"), ("view.css", "text/css"), ("icon.svg", "image/svg+xml")] {
        let reply = viewed.send("GET", &format!("/{name}"), &[]);
        assert!(reply.header("content-type").unwrap().starts_with(media), "{name}");
    }
}

#[test]
fn browser_gets_the_token_as_a_cookie_once() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 20));
    let reply = viewed.send("GET", &format!("/?token={}", viewed.token), &[]);
    assert_eq!((reply.status, reply.header("location")), (303, Some("/")));
    let cookie = reply.header("set-cookie").unwrap();
    assert_eq!(cookie, format!("{}; Path=/; HttpOnly; SameSite=Strict", viewed.cookie()));
    let reply = viewed.send("GET", &format!("/?token={}x", viewed.token), &[]);
    assert_eq!((reply.status, reply.header("set-cookie")), (401, None));
    // No other route accepts a token in the query.
    assert_eq!(viewed.send("GET", &format!("/v1/tables?token={}", viewed.token), &[]).status, 401);
}

#[test]
fn foreign_origins_and_hosts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 20));
    let cookie = viewed.cookie();
    for (name, value, expected) in [
        ("host", "evil.example", 421),
        ("host", "127.0.0.1.evil.example", 421),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let reply = viewed.send("GET", "/v1/tables", &[("cookie", &cookie), (name, value)]);
        assert_eq!(reply.status, expected, "{name}: {value}");
        assert_eq!(reply.header("access-control-allow-origin"), None);
    }
}

#[test]
fn view_serves_only_its_path_and_is_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 20);
    write(&rows(3), folder.path().join("secret.arrow"), &WriteOptions::default()).unwrap();
    let before = fs::read(&path).unwrap();
    let viewed = Viewed::open(&path);
    for name in ["secret.arrow", "..%2Fa.arrow", "%2e%2e/a.arrow", "a.arrow%2F..%2Fsecret.arrow", "a.arrow%00", "."] {
        let status = viewed.get(&format!("/v1/tables/{name}/rows")).status;
        assert!([400, 404].contains(&status), "{name}: {status}");
    }
    for path in ["/../Cargo.toml", "/..%2f..%2fetc/passwd", "/view.js/..", "/page/view.js", "//etc/passwd"] {
        assert_eq!(viewed.get(path).status, 404, "{path}");
    }
    let bearer = format!("Bearer {}", viewed.token);
    for (method, path) in
        [("PUT", "/v1/tables/new"), ("PUT", "/v1/tables/a.arrow"), ("POST", "/v1/tables/a.arrow/rows")]
    {
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/csv")];
        let reply = viewed.send(method, path, &headers);
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text());
        assert_eq!(viewed.send(method, path, &[("cookie", &viewed.cookie())]).status, 401);
    }
    assert_eq!(viewed.json("/v1/tables")["tables"].as_array().unwrap().len(), 1);
    assert_eq!(fs::read(&path).unwrap(), before);
    let foreign = Options { listen: "0.0.0.0:0".into(), insecure: true, ..Options::default() };
    assert!(Server::view(&path, &foreign).map(drop).unwrap_err().to_string().contains("other machines"));
}

#[test]
fn cells_equal_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 300);
    let viewed = Viewed::open(&path);
    let response = viewed.json("/v1/tables/a.arrow/cells?from=2&to=9&at=1,2,0");
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
        assert_eq!(viewed.get(&format!("/v1/tables/a.arrow/cells?{query}")).status, status, "{query}");
    }
    // Responses are small, however much is requested.
    let many = vec!["0"; 1_000].join(",");
    let response = viewed.json(&format!("/v1/tables/a.arrow/cells?at={many}"));
    assert_eq!(response["rows"].as_array().unwrap().len(), 50);
}

#[test]
fn views_filter_and_sort_rows() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 1_000));
    let response =
        viewed.view("/v1/tables/a.arrow/views?where=x%20%3E%3D%20240%20and%20n%20%21%3D%20970&sort=n&descending=true");
    assert_eq!((&response["rows"], &response["whole"]), (&json!(39), &json!(true)));
    let id = response["view"].as_str().unwrap();
    let cells = viewed.json(&format!("/v1/tables/a.arrow/cells?view={id}&from=0&to=2&at=0"));
    assert_eq!(
        (&cells["rows"], &cells["cells"], &cells["end"]),
        (&json!([999, 998]), &json!([["999"], ["998"]]), &json!(39))
    );
    // Sorts all rows, with nulls last.
    let response = viewed.view("/v1/tables/a.arrow/views?sort=x");
    let cells =
        viewed.json(&format!("/v1/tables/a.arrow/cells?view={}&from=996&at=1", response["view"].as_str().unwrap()));
    assert_eq!(cells["cells"], json!([["249.5"], ["249.75"], ["NaN"], [null]]));
    // A condition without matching rows is no error.
    assert_eq!(viewed.view("/v1/tables/a.arrow/views?where=n%20%3C%200")["rows"], 0);
    for (query, status) in [("", 400), ("where=nothing%20%3D%201", 400), ("where=n%20%3D", 400), ("sort=nothing", 400)]
    {
        assert_eq!(viewed.get(&format!("/v1/tables/a.arrow/views?{query}")).status, status, "{query}");
    }
    // Views that have not been used for long are dropped.
    (0..4).for_each(|n| drop(viewed.view(&format!("/v1/tables/a.arrow/views?where=n%20%3D%20{n}"))));
    assert_eq!(viewed.get(&format!("/v1/tables/a.arrow/cells?view={id}")).status, 404);
}

#[test]
fn statistics_of_a_sample_and_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 100_000));
    let response = viewed.json("/v1/tables/a.arrow/statistics?at=0");
    assert_eq!(
        (&response["min"], &response["max"], &response["nulls"], &response["exact"]),
        (&json!("0"), &json!("99999"), &json!(0), &json!(true))
    );
    assert_eq!(response["mean"], 49_999.5);
    let counts: Vec<u64> =
        response["histogram"]["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (32, 100_000));
    assert!(counts.iter().all(|count| (3_100..3_200).contains(count)), "{counts:?}");
    let sample = viewed.json("/v1/tables/a.arrow/statistics?at=0&sample=true");
    assert_eq!((&sample["exact"], &sample["rows"], &sample["of"]), (&json!(false), &json!(65_536), &json!(100_000)));
    // The rows with the minimum and the maximum are part of the sample.
    assert_eq!((&sample["min"], &sample["max"]), (&json!("0"), &json!("99999")));
    let words = viewed.json("/v1/tables/a.arrow/statistics?at=2");
    assert_eq!((&words["top"]["distinct"], &words["nulls"]), (&json!(5), &json!(20_000)));
    assert_eq!(words["top"]["values"][0], json!(["<b>", 20_000, "\"a \"\"word\"\"\" == '<b>'"]));
    assert_eq!(viewed.json("/v1/tables/a.arrow/statistics?at=1")["nulls"], 1);
    // Statistics of several columns equal those of each.
    let several = viewed.json("/v1/tables/a.arrow/statistics?at=2,0&sample=true");
    let alone = [2, 0].map(|at| viewed.json(&format!("/v1/tables/a.arrow/statistics?at={at}&sample=true")));
    assert_eq!(several, json!({"columns": alone}));
    assert_eq!(viewed.json("/v1/tables/a.arrow/statistics?at=0,2")["columns"][0]["mean"], 49_999.5);
    for query in ["at=0,9", "at=0,x", "", "at="] {
        assert_eq!(viewed.get(&format!("/v1/tables/a.arrow/statistics?{query}")).status, 400, "{query}");
    }
}

/// Computes bins naively, row by row.
fn naive_bins(rows: &Dataset, from: u64, to: u64, count: u64) -> Vec<Json> {
    let at = |bin: u64| from + (to - from) * bin / count;
    let value = |row: u64| match rows.row(row).unwrap().get(1).unwrap() {
        Value::Float64(x) if !x.is_nan() => Some(x),
        _ => None,
    };
    let bin = |bin: u64| {
        let values: Vec<f64> = (at(bin)..at(bin + 1)).filter_map(value).collect();
        let min_value = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max_value = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match (values.first(), values.last()) {
            (Some(first), Some(last)) => json!([first, min_value, max_value, last]),
            _ => Json::Null,
        }
    };
    (0..count).map(bin).collect()
}

#[test]
fn bins_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 10_000));
    let rows = rows(10_000);
    for (from, to, count) in [(0, 10_000, 7), (0, 10, 10), (2, 9, 3), (3, 4, 1), (9_000, 10_000, 333)] {
        let response = viewed.json(&format!("/v1/tables/a.arrow/bins?at=1&from={from}&to={to}&count={count}"));
        assert_eq!(response["bins"], Json::from(naive_bins(&rows, from, to, count)), "{from} {to} {count}");
        assert_eq!(response["exact"], true);
    }
    // There are never more bins than rows, and a sample is marked.
    assert_eq!(viewed.json("/v1/tables/a.arrow/bins?at=1&from=5&to=9&count=100")["bins"].as_array().unwrap().len(), 4);
    assert_eq!(viewed.json("/v1/tables/a.arrow/bins?at=1&count=2&sample=true")["exact"], false);
    assert_eq!(viewed.json("/v1/tables/a.arrow/bins?at=1&from=10000")["bins"], json!([]));
    assert_eq!(viewed.get("/v1/tables/a.arrow/bins?at=2").status, 400);
}

/// Computes bins over time naively, from the times and values of rows, from `start` to before `stop`.
fn naive_timeline(rows: &[(Option<i64>, Option<f64>)], (start, stop): (i64, i64), count: u64) -> Json {
    let count = i128::from(count).min(i128::from(stop) - i128::from(start));
    let end = |bin: i128| (i128::from(start) + (i128::from(stop) - i128::from(start)) * bin / count) as i64;
    let bin = |bin: i128| {
        let inside = |(time, x): &(Option<i64>, Option<f64>)| {
            // There is no bin after the last time.
            let time = time.filter(|time| *time >= end(bin) && (*time < end(bin + 1) || end(bin + 1) == i64::MAX))?;
            Some((time, x.filter(|x| x.is_finite())?))
        };
        let mut found: Vec<(i64, f64)> = rows.iter().filter_map(inside).collect();
        found.sort_by_key(|(time, _)| *time);
        let min_value = found.iter().map(|(_, x)| *x).reduce(f64::min);
        let max_value = found.iter().map(|(_, x)| *x).reduce(f64::max);
        found.first().zip(found.last()).map(|(first, last)| json!([first.1, min_value, max_value, last.1]))
    };
    (0..count).map(|number| bin(number).unwrap_or(Json::Null)).collect()
}

/// Returns rows with times in nanoseconds, which floats can't distinguish, and very different steps between them.
fn timed(len: i64) -> Vec<(Option<i64>, Option<f64>)> {
    let mut time = 1_700_000_000_000_000_000;
    let mut row = |n: i64| {
        time += if n % 97 == 0 { 40_000_000_000 } else { n * 7_919 % 5 };
        let x = if n % 11 == 3 { None } else { Some(if n % 13 == 5 { f64::NAN } else { (n * 7_907 % 1_009) as f64 }) };
        (Some(time), x)
    };
    let mut rows: Vec<_> = (0..len).map(&mut row).collect();
    rows.extend([(Some(i64::MAX - 1), Some(-1.0)), (Some(i64::MAX), Some(-2.0))]);
    rows
}

fn batch_of(rows: &[(Option<i64>, Option<f64>)], is_nullable: bool) -> RecordBatch {
    let times = rows.iter().map(|(time, _)| *time).collect::<TimestampNanosecondArray>().with_timezone("UTC");
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("ts", Arc::new(times), is_nullable),
        ("x", Arc::new(rows.iter().map(|(_, x)| *x).collect::<Float64Array>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn bins_over_time_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let rows = timed(4_998);
    let [first, last] = [rows[0].0.unwrap(), rows[4_997].0.unwrap()];
    let ask = |viewed: &Viewed, name: &str, (start, stop): (i64, i64), count: u64| {
        viewed.json(&format!("/v1/tables/{name}/bins?at=1&over=0&start={start}&stop={stop}&count={count}"))
    };
    let ranges = [
        (first, last + 1),
        (first + 1, first + 9),
        (rows[1_000].0.unwrap(), rows[1_010].0.unwrap() + 1),
        (0, 10),
        (i64::MIN, i64::MAX),
    ];

    // A sorted table of several segments, some of which were dropped.
    let path = folder.path().join("sorted");
    let batch = batch_of(&rows, false);
    let options = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(700), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(batch.schema()), &options).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let viewed = Viewed::open(&path);
    for range in ranges {
        for count in [1, 7, 333] {
            let response = ask(&viewed, "sorted", range, count);
            assert_eq!(response["bins"], naive_timeline(&rows, range, count), "{range:?} {count}");
            let inside = |time: i64| (range.0..range.1).contains(&time) || range.1 == i64::MAX && time >= range.0;
            let expected = rows.iter().filter(|(time, _)| inside(time.unwrap())).count();
            assert_eq!(
                (&response["rows"], &response["sorted"], &response["exact"]),
                (&json!(expected), &json!(true), &json!(true))
            );
            let before = rows.iter().position(|(time, _)| time.unwrap() >= range.0).unwrap_or(5_000);
            assert_eq!(response["first_row"], before);
        }
    }
    // Without bounds, all times are used; they are sent as text, so that no digit is lost.
    let response = viewed.json("/v1/tables/sorted/bins?at=1&over=0&count=10");
    assert_eq!((&response["start"], &response["stop"]), (&json!(first.to_string()), &json!(i64::MAX.to_string())));
    assert_eq!(response["bins"], naive_timeline(&rows, (first, i64::MAX), 10));
    assert_eq!(viewed.json("/v1/tables/sorted/bins?at=1&over=0&from=20&to=21")["rows"], 1);

    // Unsorted times with nulls: files declare no order, and tables may accept late rows.
    let mut mixed: Vec<_> = (0..5_000).map(|n| rows[n * 1_237 % 5_000]).collect();
    mixed.iter_mut().step_by(50).for_each(|row| row.0 = None);
    write(
        &Dataset::try_from(vec![batch_of(&mixed, true)]).unwrap(),
        folder.path().join("mixed.arrow"),
        &WriteOptions::default(),
    )
    .unwrap();
    let late = folder.path().join("late");
    let timely: Vec<_> = mixed.iter().copied().filter(|(time, _)| time.is_some()).collect();
    let batch = batch_of(&timely, false);
    let options = WriterOptions { late: Some(LatePolicy::Accept), ..options };
    let mut writer = Writer::open(&late, Some(batch.schema()), &options).unwrap();
    writer.append(&batch).unwrap();
    writer.close().unwrap();
    for (name, rows) in [("mixed.arrow", &mixed), ("late", &timely)] {
        let viewed = Viewed::open(folder.path().join(name));
        for range in ranges {
            let response = ask(&viewed, name, range, 40);
            assert_eq!(response["bins"], naive_timeline(rows, range, 40), "{name} {range:?}");
            assert_eq!((&response["sorted"], &response["first_row"]), (&json!(false), &Json::Null));
            let is_inside = |time: i64| (range.0..range.1).contains(&time) || range.1 == i64::MAX && time >= range.0;
            let inside = rows.iter().filter(|(time, _)| time.is_some_and(is_inside));
            assert_eq!(response["rows"], inside.count());
        }
        for (query, says) in [
            ("at=1&over=1", "number of a column of times"),
            ("at=1&over=9", "number of a column of times"),
            ("at=1&over=0&start=x", "whole number"),
            ("at=1&start=3", "over"),
        ] {
            let reply = viewed.get(&format!("/v1/tables/{name}/bins?{query}"));
            assert_eq!((reply.status, reply.text().contains(says)), (400, true), "{query}: {}", reply.text());
        }
    }
    // All times are null.
    write(
        &Dataset::try_from(vec![batch_of(&[(None, Some(1.0))], true)]).unwrap(),
        folder.path().join("none.arrow"),
        &WriteOptions::default(),
    )
    .unwrap();
    let response = Viewed::open(folder.path().join("none.arrow")).json("/v1/tables/none.arrow/bins?at=1&over=0");
    assert_eq!((&response["bins"], &response["start"], &response["ends"]), (&json!([]), &Json::Null, &Json::Null));
}

#[test]
fn sampled_bins_over_time_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (0..600_000).map(|n| (Some(n * 1_000), Some((n % 1_000) as f64))).collect();
    let dataset = Dataset::try_from(vec![batch_of(&rows, false)]).unwrap();
    write(&dataset, folder.path().join("a.arrow"), &WriteOptions::default()).unwrap();
    let viewed = Viewed::open(folder.path().join("a.arrow"));
    let response = viewed.json("/v1/tables/a.arrow/bins?at=1&over=0&count=20&sample=true");
    assert_eq!((&response["exact"], &response["rows"]), (&json!(false), &Json::Null));
    assert!(response["bins"].as_array().unwrap().iter().all(Json::is_array), "{response}");
    let response = viewed.json("/v1/tables/a.arrow/bins?at=1&over=0&count=20");
    assert_eq!((&response["exact"], &response["rows"]), (&json!(true), &json!(600_000)));
    assert_eq!(response["bins"], naive_timeline(&rows, (0, 599_999_001), 20));
}

#[test]
fn row_can_be_found_by_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("symbol: str, ts: timestamp[us, UTC] not null").unwrap());
    let options = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    // One row every 90 seconds, from 2024-01-01 on.
    let time = |row: i64| 1_704_067_200_000_000 + row * 90_000_000;
    for row in 0..2_500 {
        let time = Value::Timestamp(time(row), arrow_schema::TimeUnit::Microsecond, Some("UTC"));
        writer.append_row(&[Value::Str(if row % 3 == 0 { "A" } else { "B" }), time]).unwrap();
    }
    writer.close().unwrap();
    let viewed = Viewed::open(&path);
    let seek = |query: &str| viewed.json(&format!("/v1/tables/t/seek?{query}"));
    for (value, row) in [
        ("2024-01-01", 0),
        ("2024-01-02", 960),
        ("2024-01-02%2000:00:01", 961),
        ("2024-01-02T00:01", 961),
        ("2024-01-02T00:01:30Z", 961),
        ("2024-01-02T02:01:30%2B02:00", 961),
        ("1999-12-31", 0),
    ] {
        assert_eq!(seek(&format!("value={value}")), json!({"row": row, "column": "ts"}), "{value}");
    }
    assert_eq!(seek("value=2025-01-01")["row"], Json::Null);
    // A filtered view returns the position in the view; another order returns none.
    let view = |query: &str| viewed.view(&format!("/v1/tables/t/views?{query}"))["view"].as_str().unwrap().to_owned();
    let found = view("where=symbol%20%3D%20'A'");
    assert_eq!(seek(&format!("value=2024-01-02&view={found}"))["row"], 320);
    let turned = view("sort=ts&descending=true");
    for (query, says) in [
        (format!("value=2024-01-02&view={turned}"), "another order"),
        ("value=tomorrow".into(), "can't be compared with 'tomorrow'"),
        ("".into(), "a time is expected"),
    ] {
        let reply = viewed.get(&format!("/v1/tables/t/seek?{query}"));
        assert_eq!(reply.status, 400, "{query}");
        assert!(reply.text().contains(says), "{query}: {}", reply.text());
    }
    // A file declares no order, so the first matching row is returned.
    let viewed = Viewed::open(file(folder.path(), 100));
    assert_eq!(viewed.json("/v1/tables/a.arrow/seek?at=1&value=10.1")["row"], 41);
    assert!(viewed.get("/v1/tables/a.arrow/seek?value=2024-01-01").text().contains("none has times"));
}

/// Computes the row count and the sum of `n` of each word naively, row by row from `from` on.
fn naive_groups(rows: &Dataset, from: u64) -> Vec<(Json, u64, i64)> {
    let mut groups: Vec<(Json, u64, i64)> = Vec::new();
    for row in rows.slice(from, u64::MAX).unwrap().rows() {
        let row = row.unwrap();
        let word = match row.get(2).unwrap() {
            Value::Str(word) => Json::from(word),
            _ => Json::Null,
        };
        let Value::Int(n) = row.get(0).unwrap() else { panic!() };
        match groups.iter_mut().find(|(known, ..)| *known == word) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + n),
            None => groups.push((word, 1, n)),
        }
    }
    groups
}

#[test]
fn groups_equal_a_naive_count() {
    let folder = tempfile::tempdir().unwrap();
    let viewed = Viewed::open(file(folder.path(), 10_000));
    let expected = |groups: &[(Json, u64, i64)]| -> Json {
        groups.iter().map(|(word, count, sum)| json!([word, count.to_string(), sum.to_string()])).collect()
    };
    let groups = |query: &str| viewed.view(&format!("/v1/tables/a.arrow/groups?{query}"));
    let rows = rows(10_000);
    for (query, from) in [("at=2&of=sum:0", 0), ("at=2&of=sum:0&where=n%20%3E=%204321", 4321)] {
        assert_eq!(groups(query)["cells"], expected(&naive_groups(&rows, from)), "{query}");
    }
    let mut sorted = naive_groups(&rows, 17);
    sorted.sort_by_key(|(_, _, sum)| -sum);
    let response = groups("at=2&of=sum:0&where=n%20%3E=%2017&sort=2&descending=true");
    assert_eq!(
        (&response["cells"], &response["groups"], &response["keys"]),
        (&expected(&sorted), &json!(5), &json!(1))
    );
    assert_eq!(response["columns"][2], json!({"name": "sum of n", "type": "int64"}));
    // All rows as one group, and more groups than a response has, with the last ones first.
    assert_eq!(groups("of=mean:0&of=min:0&of=n_unique:2")["cells"], json!([["10000", "4999.5", "0", "5"]]));
    assert_eq!(groups("of=first:0&of=last:0&where=n%20%3E=%2017")["cells"], json!([["9983", "17", "9999"]]));
    let response = groups("at=0,2&sort=0&descending=true");
    assert_eq!((&response["groups"], response["cells"].as_array().unwrap().len()), (&json!(10_000), 1_000));
    assert_eq!(response["cells"][0], json!(["9999", null, "1"]));
    for (query, says) in [
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
        let reply = viewed.get(&format!("/v1/tables/a.arrow/groups?{query}"));
        assert_eq!(reply.status, 400, "{query}");
        assert!(reply.text().contains(says), "{query}: {}", reply.text());
    }
}

#[test]
fn groups_over_the_memory_limit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let column = Arc::new(Int64Array::from_iter_values(0..6_000_000)) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), &path, &WriteOptions::default()).unwrap();
    let viewed = Viewed::open(&path);
    let response = viewed.view("/v1/tables/a.arrow/groups?at=0");
    assert!(response["error"].as_str().unwrap().contains("more than 1000000 groups"), "{response}");
    assert_eq!(viewed.view("/v1/tables/a.arrow/groups?at=0&where=n%20%3C%205")["groups"], 5);
}

#[test]
fn bytes_of_a_cell_are_located_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 100);
    let viewed = Viewed::open(&path);
    let bytes = fs::read(&path).unwrap();
    let response = viewed.json("/v1/tables/a.arrow/cell?row=42&at=0");
    assert_eq!(response["value"], "42");
    let values =
        response["place"]["buffers"].as_array().unwrap().iter().find(|buffer| buffer["name"] == "values").unwrap();
    let at = values["at"].as_u64().unwrap() as usize;
    assert_eq!(bytes[at..at + 8], 42i64.to_le_bytes());
    assert_eq!(values["hex"], "2a 00 00 00 00 00 00 00");
    let response = viewed.json("/v1/tables/a.arrow/cell?row=41&at=2");
    let data = response["place"]["buffers"].as_array().unwrap().iter().find(|buffer| buffer["name"] == "data").unwrap();
    let at = data["at"].as_u64().unwrap() as usize;
    assert_eq!((&bytes[at..at + 4], &response["value"]), (b"it's".as_slice(), &json!("it's")));
    for query in ["row=100&at=0", "row=0&at=3", "at=0", "row=0"] {
        assert!([400, 404].contains(&viewed.get(&format!("/v1/tables/a.arrow/cell?{query}")).status), "{query}");
    }
    // Messages cover the file, and buffers cover their bodies.
    let response = viewed.json("/v1/tables/a.arrow/messages?file=0");
    assert_eq!((&response["size"], &response["total"]), (&json!(bytes.len()), &json!(2)));
    let message = viewed.json("/v1/tables/a.arrow/messages?file=0&message=1");
    let end = message["body_offset"].as_u64().unwrap() + message["body_length"].as_u64().unwrap();
    for buffer in message["buffers"].as_array().unwrap() {
        assert!(buffer["offset"].as_u64().unwrap() + buffer["length"].as_u64().unwrap() <= end, "{buffer}");
    }
    let shares = viewed.json("/v1/tables/a.arrow/messages?file=0&residency=1000")["shares"].as_array().unwrap().clone();
    assert_eq!(shares.len(), bytes.len().div_ceil(4_096));
    for query in ["file=1", "file=0&message=2", "file=x"] {
        assert!([400, 404].contains(&viewed.get(&format!("/v1/tables/a.arrow/messages?{query}")).status), "{query}");
    }
}

#[test]
fn sql_runs_in_the_engine_and_is_cancelled_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 5_000);
    let begun = Arc::new(AtomicBool::new(false));
    let given_up = Arc::new(AtomicBool::new(false));
    let has_begun = begun.clone();
    let seen = given_up.clone();
    // An engine that knows two queries: all rows, and one that never ends.
    let engine = BlockingEngine::new(move |asked| match asked.text.as_str() {
        "from self" => Ok(arrowwood::open(&asked.path).unwrap().head(asked.most).unwrap()),
        "wait" => {
            has_begun.store(true, Ordering::SeqCst);
            wait_until("the end of a query", || asked.given_up.load(Ordering::Relaxed));
            seen.store(true, Ordering::SeqCst);
            Err("given up".into())
        }
        other => Err(format!("what is {other}?")),
    });
    let viewed = Viewed::with_sql(&path, Some(Arc::new(engine)));
    let response = viewed.json("/v1/tables/a.arrow/sql?query=from+self");
    assert_eq!((response["cells"].as_array().unwrap().len(), &response["whole"]), (1_000, &json!(false)));
    assert_eq!(response["cells"][7], json!(["7", null, "null"]));
    assert_eq!(response["columns"][1], json!({"name": "x", "type": "float64"}));
    let reply = viewed.get("/v1/tables/a.arrow/sql?query=nothing");
    assert_eq!((reply.status, reply.text().contains("what is nothing?")), (400, true));
    assert_eq!(viewed.get("/v1/tables/a.arrow/sql").status, 400);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", viewed.port)).unwrap();
    let head = "GET /v1/tables/a.arrow/sql?query=wait HTTP/1.1\r\nhost: 127.0.0.1";
    write!(client, "{head}\r\ncookie: {}\r\n\r\n", viewed.cookie()).unwrap();
    wait_until("the beginning of the query", || begun.load(Ordering::SeqCst));
    // The query goes on while other clients connect and disconnect.
    assert_eq!(viewed.get("/v1/tables/a.arrow/sql?query=nothing").status, 400);
    assert!(!given_up.load(Ordering::SeqCst));
    drop(client);
    wait_until("the end of the query of a client that has gone", || given_up.load(Ordering::SeqCst));
    // Without an engine, a message names the package to install.
    let reply = Viewed::open(&path).get("/v1/tables/a.arrow/sql?query=from+self");
    assert_eq!((reply.status, reply.text().contains("pip install 'arrowwood[sql]'")), (501, true));
}

#[test]
fn downloads_contain_all_rows_in_the_shown_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 10_000);
    let engine = BlockingEngine::new(|asked| match asked.text.as_str() {
        "from self" => Ok(arrowwood::open(&asked.path).unwrap().head(asked.most).unwrap()),
        _ => {
            let endless = (0..300).map(|_| arrowwood::open(&asked.path).unwrap()).collect::<Vec<_>>();
            Ok(Dataset::concat(&endless).unwrap().head(asked.most).unwrap())
        }
    });
    // Arrow streams stand in for Parquet here.
    let engine = engine.with_parquet(|rows| {
        let mut file = tempfile::tempfile().unwrap();
        let options = WriteOptions { format: arrowwood::Format::Stream, ..WriteOptions::default() };
        arrowwood::write_to(rows, &mut file, &options).map_err(|e| e.message().to_owned())?;
        file.rewind().unwrap();
        Ok(file)
    });
    let viewed = Viewed::with_sql(&path, Some(Arc::new(engine)));
    let lines = |path: &str| -> Vec<Json> {
        let reply = viewed.get(&format!("/v1/tables/a.arrow/{path}"));
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let numbers = |lines: &[Json]| lines.iter().map(|line| line["n"].as_i64().unwrap()).collect::<Vec<_>>();
    let all = rows(10_000);

    // A filtered and sorted view, whose order is computed naively.
    let found = viewed.view("/v1/tables/a.arrow/views?where=n%20%3E=%207000&sort=n&descending=true");
    let view = found["view"].as_str().unwrap();
    let saved = lines(&format!("save?view={view}&format=jsonl"));
    assert_eq!(numbers(&saved), (7_000..10_000).rev().collect::<Vec<_>>());
    let reply = viewed.get(&format!("/v1/tables/a.arrow/save?view={view}&format=arrow"));
    assert_eq!(reply.header("content-type"), Some("application/vnd.apache.arrow.stream"));
    let read = arrowwood::OpenOptions::new().bytes(reply.body.clone().into()).unwrap();
    assert_eq!((read.len().unwrap(), read.schema()), (3_000, all.schema()));
    assert!(matches!(read.row(0).unwrap().get(0).unwrap(), Value::Int(9_999)));
    let parquet = viewed.get(&format!("/v1/tables/a.arrow/save?view={view}&format=parquet"));
    assert_eq!(parquet.header("content-type"), Some("application/vnd.apache.parquet"));
    assert_eq!(arrowwood::OpenOptions::new().bytes(parquet.body.into()).unwrap().len().unwrap(), 3_000);
    let parquet = viewed.get("/v1/tables/a.arrow/save?format=parquet");
    assert_eq!(arrowwood::OpenOptions::new().bytes(parquet.body.into()).unwrap().len().unwrap(), 10_000);

    // All groups, of which a page shows a thousand, without duplicate column names.
    let groups = lines("groups?at=0&of=sum:0&of=sum:0&sort=0&descending=true&format=jsonl");
    assert_eq!(numbers(&groups), (0..10_000).rev().collect::<Vec<_>>());
    assert_eq!(groups[3], json!({"n": 9_996, "rows": 1, "sum of n": 9_996, "sum of n 2": 9_996}));
    let text = viewed.get("/v1/tables/a.arrow/groups?at=2&where=n%20%3C%205&format=csv").text();
    assert_eq!(text.lines().next(), Some("\"a \"\"word\"\"\",rows"));
    assert_eq!(text.lines().count(), 6);

    // Either all rows of a query, or none.
    assert_eq!(numbers(&lines("sql?query=from+self&format=jsonl")), (0..10_000).collect::<Vec<_>>());
    for (path, status, says) in [
        ("sql?query=endless&format=csv", 422, "more than 2000000 rows"),
        ("sql?query=from+self&format=xml", 400, "arrow, jsonl or csv"),
        ("groups?at=0&format=xml", 400, "arrow, jsonl or csv"),
        ("save?format=csv", 400, "view"),
        ("save?view=none&format=csv", 404, "search again"),
        ("save?view=none", 400, "format"),
    ] {
        let reply = viewed.get(&format!("/v1/tables/a.arrow/{path}"));
        assert_eq!((reply.status, reply.text().contains(says)), (status, true), "{path}: {}", reply.text());
    }
    assert_eq!(viewed.json("/v1/tables/a.arrow")["parquet"], true);
    // Without an engine there is no Parquet, and a message names the package to install.
    let viewed = Viewed::open(&path);
    assert_eq!(viewed.json("/v1/tables/a.arrow")["parquet"], false);
    let reply = viewed.get("/v1/tables/a.arrow/save?format=parquet");
    assert_eq!((reply.status, reply.text().contains("pip install 'arrowwood[parquet]'")), (501, true));
}

#[test]
fn only_images_are_served_as_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.arrow");
    let cells: [Option<&[u8]>; 4] = [Some(b"GIF89a and more"), Some(b"<svg onload='x'/>"), None, Some(b"")];
    let columns: [(&str, ArrayRef); 2] = [
        ("p", Arc::new(arrow_array::BinaryArray::from_opt_vec(cells.to_vec()))),
        ("t", Arc::new(StringArray::from(vec!["GIF89a"; 4]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), &path, &WriteOptions::default()).unwrap();
    let viewed = Viewed::open(&path);
    let reply = viewed.get("/v1/tables/p.arrow/image?row=0&at=0");
    assert_eq!((reply.status, reply.text().as_ref()), (200, "GIF89a and more"));
    assert_eq!(reply.header("content-type"), Some("image/gif"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("content-security-policy"), Some("default-src 'none'"));
    assert_eq!(viewed.json("/v1/tables/p.arrow/cell?row=0&at=0")["image"], "image/gif");
    assert_eq!(viewed.json("/v1/tables/p.arrow/cell?row=1&at=0")["image"], Json::Null);
    for query in ["row=1&at=0", "row=2&at=0", "row=3&at=0", "row=0&at=1", "row=4&at=0"] {
        assert_eq!(viewed.get(&format!("/v1/tables/p.arrow/image?{query}")).status, 404, "{query}");
    }
}

#[test]
fn events_show_the_growth_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    let options = WriterOptions { segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    let mut append = |rows: std::ops::Range<i64>| {
        rows.for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
        writer.commit().unwrap();
    };
    append(0..2_500);
    let viewed = Viewed::open(&path);
    assert_eq!(viewed.json("/v1/tables/t")["kind"], "table");
    let response = viewed.json("/v1/tables/t/cells?from=2498");
    assert_eq!(response["cells"], json!([["2498"], ["2499"]]));
    append(2_500..2_501);
    let response = viewed.json("/v1/tables/t/cells?from=2498");
    assert_eq!((&response["cells"][2], &response["end"]), (&json!(["2500"]), &json!(2_501)));
    let files = viewed.json("/v1/tables/t/messages");
    assert_eq!(
        (&files["total"], &files["live"], &files["files"][1]["first_row"]),
        (&json!(3), &json!(true), &json!(1_000))
    );
    // The last commit, its place, and its writer.
    let response = viewed.json("/v1/tables/t/messages?file=2&commits=true");
    let segment = &response["segment"];
    assert_eq!((&segment["first_row"], &response["table"]["writer"]), (&json!(2_000), &json!(std::process::id())));
    let bytes = fs::read(path.join("00000000000000002000.arrow")).unwrap();
    let word = |at: &Json| u64::from_le_bytes(bytes[at.as_u64().unwrap() as usize..][..8].try_into().unwrap());
    let records = segment["records"].as_array().unwrap();
    let visible: Vec<&Json> = records.iter().filter(|record| record["place"] == "visible").collect();
    let newest = visible.iter().find(|record| record["sequence"] == segment["sequence"]).unwrap();
    assert_eq!((&newest["end"], &newest["this_boot"], &newest["sealed"]), (&json!(2_501), &json!(true), &json!(false)));
    visible.iter().for_each(|record| assert_eq!(word(&record["offset"]), record["sequence"].as_u64().unwrap()));
    assert!(word(&segment["live_page"]["offset"]) >= newest["sequence"].as_u64().unwrap());
    assert_eq!(viewed.json("/v1/tables/t/messages?file=0&commits=true")["segment"]["records"][0]["sealed"], true);
    // The footer shows the row to other readers a moment after the commit.
    wait_until("the row is in the published footer", || {
        let response = viewed.json("/v1/tables/t/cell?row=2500&at=0");
        assert_eq!(response["value"], "2500");
        response["place"]["file"] == 2 && response["place"]["row_in_batch"].is_u64()
    });
}

#[test]
fn several_files_are_shown_as_one_table() {
    let folder = tempfile::tempdir().unwrap();
    write(&rows(10), folder.path().join("1.arrow"), &WriteOptions::default()).unwrap();
    write(&rows(20), folder.path().join("2.arrow"), &WriteOptions::default()).unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("*.arrow")] {
        let viewed = Viewed::open(&path);
        let name = viewed.json("/v1/tables")["tables"][0]["name"].as_str().unwrap().to_owned();
        let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let response = viewed.json(&format!("/v1/tables/{name}"));
        assert_eq!((&response["kind"], &response["end"]), (&json!("files"), &json!(30)));
        let cell = viewed.json(&format!("/v1/tables/{name}/cell?row=12&at=0"));
        assert_eq!((&cell["value"], &cell["place"]["name"]), (&json!("2"), &json!("2.arrow")));
    }
    let missing = Server::view(folder.path().join("nothing.arrow"), &options()).map(drop).unwrap_err();
    assert_eq!(missing.kind(), arrowwood::ErrorKind::NotFound);
}

#[test]
fn damage_is_reported_as_by_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), 1_000);
    let viewed = Viewed::open(&path);
    let response = viewed.json("/v1/tables/a.arrow/cell?row=5&at=2");
    let offsets =
        response["place"]["buffers"].as_array().unwrap().iter().find(|buffer| buffer["name"] == "offsets").unwrap();
    let at = offsets["at"].as_u64().unwrap() as usize;
    let mut bytes = fs::read(&path).unwrap();
    bytes[at..at + 4].copy_from_slice(&i32::MAX.to_le_bytes());
    let damaged = folder.path().join("b.arrow");
    fs::write(&damaged, bytes).unwrap();
    let viewed = Viewed::open(&damaged);
    let response = viewed.json("/v1/tables/b.arrow/cells?from=4&to=8");
    assert!(response["cells"][1][2]["error"].as_str().unwrap().contains("offset"), "{response}");
    assert_eq!(response["cells"][1][0], "5");
    let reply = viewed.get("/v1/tables/b.arrow/statistics?at=2");
    assert_eq!(reply.status, 500);
    assert!(reply.text().contains("offset"), "{}", reply.text());
}

/// `make view` builds the page. This test, which needs no npm, fails if the source was changed without a build.
#[test]
fn built_page_matches_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<_> =
        fs::read_dir(root.join("../view/src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut hash = Sha256::new();
    for path in names {
        hash.update(path.file_name().unwrap().to_str().unwrap());
        hash.update([0]);
        hash.update(fs::read(path).unwrap());
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let recorded = fs::read_to_string(root.join("page/source.sha256")).unwrap();
    assert_eq!(recorded.trim(), digest, "serve/page is not what view/src gives; run make view");
}
