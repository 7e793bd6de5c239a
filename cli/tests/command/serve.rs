//! `arrowwood serve` and `token` as processes: what is printed, how they end, and what is left when they are killed.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{
    CompactOptions, Dataset, LatePolicy, Value, WriteOptions, Writer, WriterOptions, compact_with, open, parse_schema,
    write,
};

use crate::running::{Running, output};
use crate::tables::{copy_table, read_numbers};
use crate::wait::{PATIENCE, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood");

pub struct Server {
    pub process: Running,
    url: String,
    pub address: String,
}

impl Server {
    fn start(directory: &Path, options: &[&str]) -> Server {
        Server::logging(directory, options, Stdio::piped())
    }

    /// As [`Server::start`], with its standard error.
    fn logging(directory: &Path, options: &[&str], errors: Stdio) -> Server {
        Server::with(directory, options, errors, &[])
    }

    /// As [`Server::logging`], with variables of its environment.
    pub fn with(directory: &Path, options: &[&str], errors: Stdio, variables: &[(&str, String)]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.arg("serve").args(if options.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] });
        command.args(options).arg(directory).stdout(Stdio::piped()).stderr(errors);
        let mut process = Running::start(&mut command);
        let url = process.line();
        let address = url.rsplit_once('/').map(|(_, address)| address.to_owned()).unwrap_or_default();
        Server { process, url, address }
    }

    /// Waits for the end, and gives what was written to standard error.
    fn end(self) -> (Option<i32>, String) {
        let ended = self.process.end();
        (ended.status.code(), text(&ended.stderr))
    }
}

/// Sends a request over a connection of its own, or over one that is kept.
pub fn request(stream: &mut BufReader<TcpStream>, head: &str, body: &str) -> io::Result<(u16, String)> {
    let head = format!("{head}\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(head.as_bytes())?;
    let (mut line, mut len) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(ended)?;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(ended());
        }
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => len = value.parse().unwrap(),
            Some(_) => (),
            None => break,
        }
    }
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer)?;
    Ok((status, String::from_utf8(answer).unwrap()))
}

pub fn connect(address: &str) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

pub fn run(args: &[&str]) -> Output {
    output(Command::new(PROGRAM).args(args), b"")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_first_line_is_the_url_and_sigterm_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let schema = || Some(parse_schema("n: int not null").unwrap().into());
    Writer::open(folder.path().join("t"), schema(), &WriterOptions::default()).unwrap().close().unwrap();
    for name in ["TERM", "INT"] {
        let server = Server::start(folder.path(), &[]);
        assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
        let mut client = connect(&server.address).unwrap();
        let head = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/json\r\nack: visible";
        assert_eq!(request(&mut client, head, "{\"n\":1}").unwrap().0, 200);
        server.process.signal(name);
        let (code, errors) = server.end();
        assert_eq!(code, Some(0), "{errors}");
        assert!(errors.contains("\"rows\":1"), "{errors}");
    }
    // What was acknowledged is there, and on the disk.
    let stat = arrowwood::table_stat(folder.path().join("t")).unwrap().unwrap();
    assert_eq!((stat.end, stat.durable_end, stat.writer), (2, 2, None));
}

#[test]
fn what_looks_at_rows_has_the_limits_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = table(&folder.path().join("t"));
    append(&mut writer, 0, 1_000);
    for (options, says) in [(&["--query-memory", "4096"][..], "query_memory"), (&["--query-timeout", "0"], "\"view\"")]
    {
        let server = Server::start(folder.path(), options);
        let mut client = connect(&server.address).unwrap();
        // Lines that come as they are made.
        let head = "GET /v1/tables/t/views?sort=n HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n";
        client.get_mut().write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(says), "{options:?}: {answer}");
    }
}

/// The memory of groups was asked for when they were there, and that of distinct values in them not at all.
#[test]
fn groups_take_no_more_memory_than_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let column = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..2_000_000).map(of))) as ArrayRef;
    let columns = [("n", column(|row| row * 7919)), ("few", column(|row| row % 7))];
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
    write(&rows, folder.path().join("t.arrow"), &WriteOptions::default()).unwrap();
    let server = Server::start(folder.path(), &["--query-memory", &(32 << 20).to_string()]);
    let status = format!("/proc/{}/status", server.process.id());
    let taken = || -> u64 {
        let text = fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    };
    for asked in ["at=0&of=sum:1", "of=n_unique:0", "at=1&of=n_unique:0"] {
        let mut client = connect(&server.address).unwrap();
        let head =
            format!("GET /v1/tables/t.arrow/groups?{asked} HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n");
        client.get_mut().write_all(head.as_bytes()).unwrap();
        let answering = std::thread::spawn(move || {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer
        });
        let before = taken();
        let mut most = before;
        while !answering.is_finished() {
            most = most.max(taken());
        }
        let answer = answering.join().unwrap();
        assert!(answer.contains("query_memory"), "{asked}: {answer}");
        assert!(most - before < 44 << 20, "{asked} took {} bytes", most - before);
    }
    // Few groups need little.
    let mut client = connect(&server.address).unwrap();
    let head = "GET /v1/tables/t.arrow/groups?at=1&of=sum:0 HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n";
    client.get_mut().write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"groups\":7"), "{answer}");
}

#[test]
fn what_makes_no_sense_is_said_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().display().to_string();
    for (args, says) in [
        (&["serve", "--listen", "0.0.0.0:0", &directory][..], "can be reached from other machines"),
        (&["serve", "--token-file", "/nonexistent.json", &directory], "/nonexistent.json"),
        (&["serve", "/nonexistent"], "opening the directory"),
        (&["serve", "--tls-cert", "x", &directory], "--tls-key"),
        (&["token", "add", "x", "--token-file", "/nonexistent/t"], "without rights"),
        (&["token", "revoke", "x", "--token-file", "/nonexistent/t"], "/nonexistent/t"),
    ] {
        let output = run(args);
        assert!(!output.status.success() && text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_token_is_shown_once_and_can_be_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json").display().to_string();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let added = run(&["token", "add", "s1", "--token-file", &file, "--read", "*", "--write", "ticks"]);
    let token = text(&added.stdout).trim_end().to_owned();
    assert!(token.starts_with("aw_") && added.status.success(), "{}", text(&added.stderr));
    let listed = text(&run(&["token", "list", "--token-file", &file]).stdout);
    assert_eq!(listed, "s1  read: *  write: ticks\n");
    let server = Server::start(&directory, &["--token-file", &file]);
    let mut client = connect(&server.address).unwrap();
    let head = format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {token}");
    assert_eq!(request(&mut client, "GET /v1/tables HTTP/1.1", "").unwrap().0, 401);
    assert_eq!(request(&mut client, &head, "").unwrap().0, 200);
    assert!(run(&["token", "revoke", "s1", "--token-file", &file]).status.success());
    wait_until("the end of a revoked token", || request(&mut client, &head, "").unwrap().0 != 200);
    server.process.signal("TERM");
    let (_, errors) = server.end();
    assert!(!errors.contains(&token[3..]), "{errors}");
}

/// Writes to standard error fail, or wait forever, while the file of tokens is removed: nobody may be let in, and the server ends
/// when it is told to.
#[test]
fn tokens_end_with_their_file_whatever_becomes_of_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let path = file.display().to_string();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let added = run(&["token", "add", "s1", "--token-file", &path, "--read", "*"]);
    let head = format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {}", text(&added.stdout).trim_end());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (unread, pipe) = io::pipe().unwrap();
    fill(&pipe);
    for errors in [Stdio::from(full), Stdio::from(pipe)] {
        let mut server = Server::logging(&directory, &["--token-file", &path], errors);
        let mut client = connect(&server.address).unwrap();
        assert_eq!(request(&mut client, &head, "").unwrap().0, 200);
        let saved = folder.path().join("saved.json");
        fs::rename(&file, &saved).unwrap();
        wait_until("the end of a token", || request(&mut client, &head, "").unwrap().0 == 401);
        assert_eq!(request(&mut client, "GET /readyz HTTP/1.1", "").unwrap().0, 503);
        fs::rename(&saved, &file).unwrap();
        wait_until("the token again", || request(&mut client, &head, "").unwrap().0 == 200);
        assert_eq!(request(&mut client, "GET /readyz HTTP/1.1", "").unwrap().0, 200);
        server.process.signal("TERM");
        assert_eq!(server.process.status().code(), Some(0));
    }
    drop(unread);
}

/// Fills a pipe, so that the next write to it waits.
pub fn fill(pipe: &io::PipeWriter) {
    const O_NONBLOCK: i32 = 0o4000;
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut pipe = fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path).unwrap();
    while pipe.write(&[b'x'; 1 << 12]).is_ok() {}
}

/// It is what terminals send that are closed, and what programs that renew certificates send.
#[test]
fn sighup_reads_the_tokens_again_and_ends_a_view() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json").display().to_string();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let add = |name: &str| text(&run(&["token", "add", name, "--token-file", &file, "--read", "*"]).stdout);
    add("s1");
    let server = Server::start(&directory, &["--token-file", &file]);
    let head = format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {}", add("s2").trim_end());
    let mut client = connect(&server.address).unwrap();
    server.process.signal("HUP");
    wait_until("the new token", || request(&mut client, &head, "").unwrap().0 == 200);
    server.process.signal("TERM");
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(errors.contains("SIGHUP: reading the tokens and the certificate again"), "{errors}");
    let path = folder.path().join("t");
    let mut writer = table(&path);
    append(&mut writer, 0, 10);
    let mut command = Command::new(PROGRAM);
    command.args(["view", "--no-browser"]).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut view = Running::start(&mut command);
    view.line();
    view.signal("HUP");
    assert_eq!(view.status().code(), Some(0));
}

/// Writes a certificate that is valid until the end of a year, and its key.
fn certify([cert, key]: [&Path; 2], year: i32) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let pair = rcgen::KeyPair::generate().unwrap();
    fs::write(key, pair.serialize_pem()).unwrap();
    fs::write(cert, params.self_signed(&pair).unwrap().pem()).unwrap();
}

#[test]
fn an_expired_certificate_stands_in_the_log_once_and_sighup_reads_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key, log] = ["cert.pem", "key.pem", "log"].map(|name| folder.path().join(name));
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    certify([&cert, &key], 2020);
    let args = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = Server::logging(&directory, &args, fs::File::create(&log).unwrap().into());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let count = |what: &str| fs::read_to_string(&log).unwrap().matches(what).count();
    let expired = "cert.pem: the certificate was valid until 2020-12-31T00:00:00Z, and clients refuse it";
    wait_until("the line of the expired certificate", || count(expired) == 1);
    certify([&cert, &key], 4_000);
    server.process.signal("HUP");
    wait_until("the new certificate", || count("the certificate was renewed") == 1);
    server.process.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert_eq!((count(expired), count("the certificate was valid until")), (1, 1));
}

/// A log that nobody reads stops neither answers nor the end; once it is read its lines are whole.
#[test]
fn nobody_waits_for_whoever_reads_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (mut unread, pipe) = io::pipe().unwrap();
    let mut server = Server::logging(folder.path(), &[], Stdio::from(pipe));
    let mut client = connect(&server.address).unwrap();
    // Each one has a line in the log, together ten times what fits into a pipe.
    for _ in 0..5_000 {
        assert_eq!(request(&mut client, "GET /v1/tables/nothing HTTP/1.1", "").unwrap().0, 404);
    }
    assert_eq!(request(&mut client, "GET /healthz HTTP/1.1", "").unwrap().0, 200);
    let metrics = request(&mut client, "GET /metrics HTTP/1.1", "").unwrap().1;
    assert!(metrics.contains("\narrowwood_log_dropped_lines_total 0\n"), "{metrics}");
    let mut read = vec![0; 4 << 10];
    unread.read_exact(&mut read).unwrap();
    assert!(text(&read).lines().take(10).all(|line| line.ends_with("\"code\":\"not_found\"}")), "{}", text(&read));
    server.process.signal("TERM");
    assert_eq!(server.process.status().code(), Some(0));
}

/// The numbers in column `n` of a table.
pub fn numbers(path: &Path) -> Vec<i64> {
    let rows = open(path).unwrap();
    rows.validate(|_, _| ()).unwrap();
    read_numbers(&rows)
}

fn table(path: &Path) -> Writer {
    let schema = parse_schema("n: int not null, symbol: category, x: float").unwrap();
    let options = WriterOptions { segment_rows: Some(64), sorted_by: Some("n".into()), ..WriterOptions::default() };
    Writer::open(path, Some(schema.into()), &options).unwrap()
}

fn append(writer: &mut Writer, from: i64, to: i64) {
    for n in from..to {
        let symbol = format!("S{}", n % 7);
        writer.append_row(&[Value::Int(n), Value::Str(&symbol), Value::Float64(f64::NAN)]).unwrap();
    }
    writer.commit().unwrap();
    writer.sync().unwrap();
}

#[test]
fn a_pulled_table_changes_its_schema_as_the_servers_does() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let schema = |text: &str| std::sync::Arc::new(parse_schema(text).unwrap());
    let options = WriterOptions::default();
    let mut writer = Writer::open(data.join("t"), Some(schema("n: int32, u: uint16, x: float32")), &options).unwrap();
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let copy = folder.path().join("copy");
    let pull = || run(&["pull", &url, &copy.display().to_string()]);
    let row = [Value::Int(0), Value::UInt(7), Value::Float32(0.1)];
    writer.append_row(&row).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    assert!(pull().status.success());
    writer.alter(&schema("n: int64, u: int32, x: float64, word: text")).unwrap();
    writer.append_row(&[Value::Int(1), Value::Int(8), Value::Float64(0.1), Value::Str("w")]).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    let done = pull();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(numbers(&copy), [0, 1]);
    assert_eq!(open(&copy).unwrap().schema(), open(data.join("t")).unwrap().schema());
    assert!(pull().status.success());
}

#[test]
fn a_table_that_is_pulled_is_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut writer = table(&data.join("t"));
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let copy = folder.path().join("copy");
    let pull = |url: &str, to: &Path| run(&["pull", url, &to.display().to_string()]);
    let done = pull(&url, &copy);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(numbers(&copy), Vec::<i64>::new());
    for (from, to) in [(0, 100), (100, 101), (101, 1000)] {
        append(&mut writer, from, to);
        let done = pull(&url, &copy);
        assert!(done.status.success() && text(&done.stderr).contains("all on the disk"), "{}", text(&done.stderr));
        assert_eq!(numbers(&copy), (0..to).collect::<Vec<_>>());
        let stat = arrowwood::table_stat(&copy).unwrap().unwrap();
        assert_eq!((stat.end, stat.durable_end), (to as u64, to as u64));
    }
    assert_eq!(open(&copy).unwrap().schema(), open(data.join("t")).unwrap().schema());
    // Nothing that is no prefix is gone on with.
    let other = folder.path().join("other");
    let mut strange = table(&other);
    append(&mut strange, 5, 10);
    strange.close().unwrap();
    let longer = folder.path().join("longer");
    let mut too_long = table(&longer);
    append(&mut too_long, 0, 2000);
    too_long.close().unwrap();
    for (path, says) in [(&other, "no prefix"), (&longer, "no prefix")] {
        let before = numbers(path);
        let refused = pull(&url, path);
        assert!(!refused.status.success() && text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
        assert_eq!(numbers(path), before);
    }
    // Rows that were dropped can't be had any more.
    writer.drop_before(500).unwrap();
    let late = pull(&url, &folder.path().join("late"));
    assert!(text(&late.stderr).contains("dropped"), "{}", text(&late.stderr));
    assert!(pull(&url, &copy).status.success());
    for (url, says) in [
        (format!("{}/nothing", server.url), "404"),
        (server.url.clone(), "names no table"),
        ("http://127.0.0.1:1/t".into(), "refused"),
    ] {
        let refused = pull(&url, &folder.path().join("none"));
        assert!(!refused.status.success() && text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
        assert!(!folder.path().join("none").exists());
    }
}

/// A replica has no positions of producers: a resent batch was appended twice, and one that had been acknowledged was skipped.
#[test]
fn a_replica_takes_no_numbered_batches_until_it_is_promoted() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    fs::create_dir(&first).unwrap();
    fs::create_dir(&second).unwrap();
    let send = |server: &Server, head: &str, body: &str| {
        let mut stream = BufReader::new(TcpStream::connect(&server.address).unwrap());
        request(&mut stream, head, body).unwrap()
    };
    let numbered = |server: &Server, n: u64| {
        let head = format!(
            "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/x-ndjson\r\nproducer: p\r\nproducer-sequence: {n}"
        );
        send(server, &head, &format!("{{\"n\": {n}}}\n"))
    };
    let server = Server::start(&first, &[]);
    assert_eq!(send(&server, "PUT /v1/tables/t HTTP/1.1", "n: int64").0, 201);
    (0..10).for_each(|n| assert_eq!(numbered(&server, n).0, 200));
    let copy = second.join("t");
    let (url, there) = (format!("{}/t", server.url), copy.display().to_string());
    assert!(run(&["pull", &url, &there]).status.success());
    let kept = folder.path().join("kept");
    copy_table(&copy, &kept);
    let replica = Server::start(&second, &[]);
    // Also of a producer that asks how far it is.
    let ask = "GET /v1/tables/t/producers/p HTTP/1.1";
    for (status, answer) in [numbered(&replica, 9), numbered(&replica, 12), send(&replica, ask, "")] {
        assert_eq!(status, 409, "{answer}");
        assert!(answer.contains("\"replica\"") && answer.contains("arrowwood promote TABLE"), "{answer}");
    }
    // Rows without a number are nobody's resent ones.
    let plain = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/x-ndjson";
    assert_eq!(send(&replica, plain, "{\"n\": 100}\n").0, 200);
    drop(replica);
    let mut writer = Writer::open(&copy, None, &WriterOptions::default()).unwrap();
    let refused = writer.commit_with(&[("kafka/t/0", 5)]).unwrap_err();
    assert!(refused.to_string().contains("arrowwood promote TABLE"), "{refused}");
    drop(writer);
    let done = run(&["promote", "--producer", "p=9", "--position", "kafka/t/0=5", &there]);
    assert!(text(&done.stdout).contains("t: promoted, 11 rows; 2 positions are known"), "{done:?}");
    assert!(!run(&["promote", &there]).status.success(), "it is no replica any more");
    let promoted = Server::start(&second, &[]);
    let (status, answer) = numbered(&promoted, 9);
    assert!(status == 200 && answer.contains("\"duplicate\":true"), "{answer}");
    assert_eq!(numbered(&promoted, 10).0, 200);
    assert_eq!(numbered(&promoted, 12).0, 409, "one is missing");
    drop(promoted);
    assert_eq!(numbers(&copy), (0..10).chain([100, 10]).collect::<Vec<_>>());
    // What was promoted becomes a replica again where it is one.
    assert!(run(&["promote", &kept.display().to_string()]).status.success());
    assert!(run(&["pull", &url, &kept.display().to_string()]).status.success());
    assert!(arrowwood::is_replica(&open(&kept).unwrap().positions().unwrap()));
}

#[test]
fn a_pull_sees_that_the_servers_rows_were_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let path = data.join("t");
    let schema = parse_schema("n: int not null").unwrap();
    let options = WriterOptions {
        segment_rows: Some(64),
        sorted_by: Some("n".into()),
        late: Some(LatePolicy::Accept),
        ..WriterOptions::default()
    };
    let mut writer = Writer::open(&path, Some(schema.into()), &options).unwrap();
    // Two early rows are late; the last hundred rows, which are compared each time, are in order.
    let given: Vec<i64> = (2..130).chain([0, 1]).chain(130..400).collect();
    for &n in &given {
        writer.append_row(&[Value::Int(n)]).unwrap();
    }
    writer.close().unwrap();
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let copy = folder.path().join("copy");
    let pull = || run(&["pull", &url, &copy.display().to_string()]);
    assert!(pull().status.success());
    let numbering = |replica: &Path| open(replica).unwrap().positions().unwrap()["arrowwood/numbering"];
    let before = numbering(&copy);
    // A table that came back from a backup has the same rows in another directory.
    let saved = folder.path().join("saved");
    copy_table(&path, &saved);
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&saved, &path).unwrap();
    let done = pull();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(numbers(&copy), given);
    let restored = numbering(&copy);
    assert_ne!(restored, before);
    compact_with(&path, CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ()).unwrap();
    assert_eq!(numbers(&path), (0..400).collect::<Vec<_>>());
    let refused = pull();
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("rows from number 0 on some"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(numbers(&copy), given);
    assert_eq!(numbering(&copy), restored);
    let again = folder.path().join("again");
    assert!(run(&["pull", &url, &again.display().to_string()]).status.success());
    assert_eq!(numbers(&again), (0..400).collect::<Vec<_>>());
    assert_ne!(numbering(&again), restored);
    // What is to be compared is dropped there: whether the old replica is a prefix can't be told, and the new one goes on.
    let mut writer = Writer::open(&path, None, &WriterOptions::default()).unwrap();
    writer.drop_before(384).unwrap();
    writer.close().unwrap();
    let refused = pull();
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("into another table"),
        "{}",
        text(&refused.stderr)
    );
    assert!(run(&["pull", &url, &again.display().to_string()]).status.success());
}

/// A replica follows while its process and the server are killed again and again: it is a prefix at each moment, and comes
/// right in the end.
#[test]
fn a_replica_survives_kills_of_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut writer = table(&data.join("t"));
    append(&mut writer, 0, 10);
    let copy = folder.path().join("copy");
    let mut server = Server::start(&data, &[]);
    let address = server.address.clone();
    let follow = || {
        let url = format!("http://{address}/t");
        Running::start(Command::new(PROGRAM).args(["pull", "--follow", &url]).arg(&copy).stderr(Stdio::null()))
    };
    let mut replica = follow();
    let mut end = 10;
    let rounds: i64 = std::env::var("ARROWWOOD_SERVE_KILLS").map_or(8, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        for _ in 0..20 {
            append(&mut writer, end, end + 17);
            end += 17;
        }
        if round % 2 == 0 {
            server.process.signal("KILL");
            server.end();
            server = Server::start(&data, &["--listen", &address]);
        } else {
            replica.kill();
            if copy.exists() {
                let there = numbers(&copy);
                assert_eq!(there, (0..there.len() as i64).collect::<Vec<_>>());
            }
            replica = follow();
        }
    }
    wait_until("all rows in the replica", || copy.exists() && open(&copy).unwrap().len().unwrap() >= end as u64);
    replica.kill();
    assert_eq!(numbers(&copy), (0..end).collect::<Vec<_>>());
}
