//! Tests of `arrowwood serve`, `token`, `pull` and `promote` as processes: what they print, how they end, and what kills leave.

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

/// A server that is killed when this is dropped.
pub struct Server {
    pub process: Running,
    url: String,
    pub address: String,
}

impl Server {
    fn start(directory: &Path, options: &[&str]) -> Server {
        Server::logging(directory, options, Stdio::piped())
    }

    /// Starts a server with this standard error.
    fn logging(directory: &Path, options: &[&str], errors: Stdio) -> Server {
        Server::with(directory, options, errors, &[])
    }

    /// Starts a server with this standard error and variables in its environment.
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

    /// Waits for the end; returns the exit status and what was written to standard error.
    fn end(self) -> (Option<i32>, String) {
        let output = self.process.end();
        (output.status.code(), text(&output.stderr))
    }
}

/// Sends a request, and reads its response.
pub fn request(stream: &mut BufReader<TcpStream>, head: &str, body: &str) -> io::Result<(u16, String)> {
    let head = format!("{head}\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(head.as_bytes())?;
    let (mut line, mut len) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let unexpected_end = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(unexpected_end)?;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(unexpected_end());
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
fn serve_prints_its_url_and_ends_on_signals() {
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
    // Acknowledged rows are there, and durable.
    let stat = arrowwood::table_stat(folder.path().join("t")).unwrap().unwrap();
    assert_eq!((stat.end, stat.durable_end, stat.writer), (2, 2, None));
}

#[test]
fn query_limits_of_the_command_apply_to_views() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = create_table(&folder.path().join("t"));
    append(&mut writer, 0, 1_000);
    for (options, expected) in
        [(&["--query-memory", "4096"][..], "query_memory"), (&["--query-timeout", "0"], "\"view\"")]
    {
        let server = Server::start(folder.path(), options);
        let mut client = connect(&server.address).unwrap();
        // The response has no length, as its lines are sent when they are ready: read to the end.
        let head = "GET /v1/tables/t/views?sort=n HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n";
        client.get_mut().write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(expected), "{options:?}: {answer}");
    }
}

/// The memory of groups was reserved only after they were made, and the memory of their distinct values not at all.
#[test]
fn groups_respect_the_limit_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let column = |value: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..2_000_000).map(value))) as ArrayRef;
    let columns = [("n", column(|row| row * 7919)), ("few", column(|row| row % 7))];
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
    write(&rows, folder.path().join("t.arrow"), &WriteOptions::default()).unwrap();
    let server = Server::start(folder.path(), &["--query-memory", &(32 << 20).to_string()]);
    let status = format!("/proc/{}/status", server.process.id());
    let anonymous_memory = || -> u64 {
        let text = fs::read_to_string(&status).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    };
    for query in ["at=0&of=sum:1", "of=n_unique:0", "at=1&of=n_unique:0"] {
        let mut client = connect(&server.address).unwrap();
        let head =
            format!("GET /v1/tables/t.arrow/groups?{query} HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n");
        client.get_mut().write_all(head.as_bytes()).unwrap();
        let reading = std::thread::spawn(move || {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer
        });
        let before = anonymous_memory();
        let mut max = before;
        while !reading.is_finished() {
            max = max.max(anonymous_memory());
        }
        let answer = reading.join().unwrap();
        assert!(answer.contains("query_memory"), "{query}: {answer}");
        assert!(max - before < 44 << 20, "{query} took {} bytes", max - before);
    }
    // Few groups fit into the limit.
    let mut client = connect(&server.address).unwrap();
    let head = "GET /v1/tables/t.arrow/groups?at=1&of=sum:0 HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n";
    client.get_mut().write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"groups\":7"), "{answer}");
}

#[test]
fn invalid_arguments_are_rejected_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().display().to_string();
    for (args, expected) in [
        (&["serve", "--listen", "0.0.0.0:0", &directory][..], "can be reached from other machines"),
        (&["serve", "--token-file", "/nonexistent.json", &directory], "/nonexistent.json"),
        (&["serve", "/nonexistent"], "opening the directory"),
        (&["serve", "--tls-cert", "x", &directory], "--tls-key"),
        (&["token", "add", "x", "--token-file", "/nonexistent/t"], "without rights"),
        (&["token", "revoke", "x", "--token-file", "/nonexistent/t"], "/nonexistent/t"),
    ] {
        let output = run(args);
        assert!(
            !output.status.success() && text(&output.stderr).contains(expected),
            "{args:?}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn token_is_printed_once_and_can_be_revoked() {
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

/// Writes to standard error fail, or block forever, while the file of tokens is removed. Requests must be refused then, and the
/// server must end on SIGTERM.
#[test]
fn tokens_are_void_without_their_file_even_if_nothing_can_be_logged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json");
    let path = file.display().to_string();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let added = run(&["token", "add", "s1", "--token-file", &path, "--read", "*"]);
    let head = format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {}", text(&added.stdout).trim_end());
    let full_device = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (unread, pipe) = io::pipe().unwrap();
    fill(&pipe);
    for errors in [Stdio::from(full_device), Stdio::from(pipe)] {
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

/// Fills a pipe, so that the next write to it blocks.
pub fn fill(pipe: &io::PipeWriter) {
    const O_NONBLOCK: i32 = 0o4000;
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut pipe = fs::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(path).unwrap();
    while pipe.write(&[b'x'; 1 << 12]).is_ok() {}
}

/// Closing terminals send SIGHUP, and so do programs that renew certificates.
#[test]
fn sighup_reloads_tokens_and_ends_a_view() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens.json").display().to_string();
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    let add_token = |name: &str| text(&run(&["token", "add", name, "--token-file", &file, "--read", "*"]).stdout);
    add_token("s1");
    let server = Server::start(&directory, &["--token-file", &file]);
    let head = format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {}", add_token("s2").trim_end());
    let mut client = connect(&server.address).unwrap();
    server.process.signal("HUP");
    wait_until("the new token", || request(&mut client, &head, "").unwrap().0 == 200);
    server.process.signal("TERM");
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(errors.contains("SIGHUP: reading the tokens and the certificate again"), "{errors}");
    let path = folder.path().join("t");
    let mut writer = create_table(&path);
    append(&mut writer, 0, 10);
    let mut command = Command::new(PROGRAM);
    command.args(["view", "--no-browser"]).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut view = Running::start(&mut command);
    view.line();
    view.signal("HUP");
    assert_eq!(view.status().code(), Some(0));
}

/// Writes a certificate that is valid until the end of a year, and its key.
fn write_certificate([cert, key]: [&Path; 2], year: i32) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let pair = rcgen::KeyPair::generate().unwrap();
    fs::write(key, pair.serialize_pem()).unwrap();
    fs::write(cert, params.self_signed(&pair).unwrap().pem()).unwrap();
}

#[test]
fn expired_certificate_is_logged_once_and_sighup_loads_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let [cert, key, log] = ["cert.pem", "key.pem", "log"].map(|name| folder.path().join(name));
    let directory = folder.path().join("data");
    fs::create_dir(&directory).unwrap();
    write_certificate([&cert, &key], 2020);
    let args = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let server = Server::logging(&directory, &args, fs::File::create(&log).unwrap().into());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let count_in_log = |text: &str| fs::read_to_string(&log).unwrap().matches(text).count();
    let expired = "cert.pem: the certificate was valid until 2020-12-31T00:00:00Z, and clients refuse it";
    wait_until("the line of the expired certificate", || count_in_log(expired) == 1);
    write_certificate([&cert, &key], 4_000);
    server.process.signal("HUP");
    wait_until("the new certificate", || count_in_log("the certificate was renewed") == 1);
    server.process.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert_eq!((count_in_log(expired), count_in_log("the certificate was valid until")), (1, 1));
}

/// A server must not block on a log that nobody reads. The lines of the log must be complete once it is read.
#[test]
fn unread_log_blocks_neither_requests_nor_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (mut unread, pipe) = io::pipe().unwrap();
    let mut server = Server::logging(folder.path(), &[], Stdio::from(pipe));
    let mut client = connect(&server.address).unwrap();
    // Each request is logged: together ten times as much as fits into a pipe.
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

/// Validates a table, and returns the numbers in its column `n`.
pub fn numbers(path: &Path) -> Vec<i64> {
    let rows = open(path).unwrap();
    rows.validate(|_, _| ()).unwrap();
    read_numbers(&rows)
}

fn create_table(path: &Path) -> Writer {
    let schema = parse_schema("n: int not null, symbol: category, x: float").unwrap();
    let options = WriterOptions { segment_rows: Some(64), sorted_by: Some("n".into()), ..WriterOptions::default() };
    Writer::open(path, Some(schema.into()), &options).unwrap()
}

/// Appends rows `from .. to`, and syncs them.
fn append(writer: &mut Writer, from: i64, to: i64) {
    for n in from..to {
        let symbol = format!("S{}", n % 7);
        writer.append_row(&[Value::Int(n), Value::Str(&symbol), Value::Float64(f64::NAN)]).unwrap();
    }
    writer.commit().unwrap();
    writer.sync().unwrap();
}

#[test]
fn pull_follows_schema_changes() {
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
    let output = pull();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(numbers(&copy), [0, 1]);
    assert_eq!(open(&copy).unwrap().schema(), open(data.join("t")).unwrap().schema());
    assert!(pull().status.success());
}

#[test]
fn pull_extends_prefixes_and_rejects_other_tables() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut writer = create_table(&data.join("t"));
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let copy = folder.path().join("copy");
    let pull = |url: &str, to: &Path| run(&["pull", url, &to.display().to_string()]);
    let output = pull(&url, &copy);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(numbers(&copy), Vec::<i64>::new());
    for (from, to) in [(0, 100), (100, 101), (101, 1000)] {
        append(&mut writer, from, to);
        let output = pull(&url, &copy);
        assert!(
            output.status.success() && text(&output.stderr).contains("all on the disk"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(numbers(&copy), (0..to).collect::<Vec<_>>());
        let stat = arrowwood::table_stat(&copy).unwrap().unwrap();
        assert_eq!((stat.end, stat.durable_end), (to as u64, to as u64));
    }
    assert_eq!(open(&copy).unwrap().schema(), open(data.join("t")).unwrap().schema());
    // Tables that are no prefix of the server's are left alone.
    let other = folder.path().join("other");
    let mut other_writer = create_table(&other);
    append(&mut other_writer, 5, 10);
    other_writer.close().unwrap();
    let longer = folder.path().join("longer");
    let mut longer_writer = create_table(&longer);
    append(&mut longer_writer, 0, 2000);
    longer_writer.close().unwrap();
    for (path, expected) in [(&other, "no prefix"), (&longer, "no prefix")] {
        let before = numbers(path);
        let refused = pull(&url, path);
        assert!(!refused.status.success() && text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
        assert_eq!(numbers(path), before);
    }
    // Dropped rows can't be pulled any more.
    writer.drop_before(500).unwrap();
    let late = pull(&url, &folder.path().join("late"));
    assert!(text(&late.stderr).contains("dropped"), "{}", text(&late.stderr));
    assert!(pull(&url, &copy).status.success());
    for (url, expected) in [
        (format!("{}/nothing", server.url), "404"),
        (server.url.clone(), "names no table"),
        ("http://127.0.0.1:1/t".into(), "refused"),
    ] {
        let refused = pull(&url, &folder.path().join("none"));
        assert!(!refused.status.success() && text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
        assert!(!folder.path().join("none").exists());
    }
}

/// A replica has no positions of producers: a resent batch was appended twice, and an acknowledged one was skipped.
#[test]
fn replica_rejects_numbered_batches_until_it_is_promoted() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    fs::create_dir(&first).unwrap();
    fs::create_dir(&second).unwrap();
    let send = |server: &Server, head: &str, body: &str| {
        let mut stream = BufReader::new(TcpStream::connect(&server.address).unwrap());
        request(&mut stream, head, body).unwrap()
    };
    let send_numbered = |server: &Server, n: u64| {
        let head = format!(
            "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/x-ndjson\r\nproducer: p\r\nproducer-sequence: {n}"
        );
        send(server, &head, &format!("{{\"n\": {n}}}\n"))
    };
    let server = Server::start(&first, &[]);
    assert_eq!(send(&server, "PUT /v1/tables/t HTTP/1.1", "n: int64").0, 201);
    (0..10).for_each(|n| assert_eq!(send_numbered(&server, n).0, 200));
    let copy = second.join("t");
    let (url, copy_path) = (format!("{}/t", server.url), copy.display().to_string());
    assert!(run(&["pull", &url, &copy_path]).status.success());
    let second_copy = folder.path().join("kept");
    copy_table(&copy, &second_copy);
    let replica = Server::start(&second, &[]);
    // A producer must not learn a wrong position either.
    let ask = "GET /v1/tables/t/producers/p HTTP/1.1";
    for (status, answer) in [send_numbered(&replica, 9), send_numbered(&replica, 12), send(&replica, ask, "")] {
        assert_eq!(status, 409, "{answer}");
        assert!(answer.contains("\"replica\"") && answer.contains("arrowwood promote TABLE"), "{answer}");
    }
    // Rows without a number are not deduplicated, so they are accepted.
    let unnumbered = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/x-ndjson";
    assert_eq!(send(&replica, unnumbered, "{\"n\": 100}\n").0, 200);
    drop(replica);
    let mut writer = Writer::open(&copy, None, &WriterOptions::default()).unwrap();
    let refused = writer.commit_with(&[("kafka/t/0", 5)]).unwrap_err();
    assert!(refused.to_string().contains("arrowwood promote TABLE"), "{refused}");
    drop(writer);
    let output = run(&["promote", "--producer", "p=9", "--position", "kafka/t/0=5", &copy_path]);
    assert!(text(&output.stdout).contains("t: promoted, 11 rows; 2 positions are known"), "{output:?}");
    assert!(!run(&["promote", &copy_path]).status.success(), "it is no replica any more");
    let promoted = Server::start(&second, &[]);
    let (status, answer) = send_numbered(&promoted, 9);
    assert!(status == 200 && answer.contains("\"duplicate\":true"), "{answer}");
    assert_eq!(send_numbered(&promoted, 10).0, 200);
    assert_eq!(send_numbered(&promoted, 12).0, 409, "one is missing");
    drop(promoted);
    assert_eq!(numbers(&copy), (0..10).chain([100, 10]).collect::<Vec<_>>());
    // A promoted table becomes a replica again when it is pulled.
    assert!(run(&["promote", &second_copy.display().to_string()]).status.success());
    assert!(run(&["pull", &url, &second_copy.display().to_string()]).status.success());
    assert!(arrowwood::is_replica(&open(&second_copy).unwrap().positions().unwrap()));
}

#[test]
fn pull_notices_that_the_servers_rows_were_sorted() {
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
    let unsorted: Vec<i64> = (2..130).chain([0, 1]).chain(130..400).collect();
    for &n in &unsorted {
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
    let output = pull();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(numbers(&copy), unsorted);
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
    assert_eq!(numbers(&copy), unsorted);
    assert_eq!(numbering(&copy), restored);
    let again = folder.path().join("again");
    assert!(run(&["pull", &url, &again.display().to_string()]).status.success());
    assert_eq!(numbers(&again), (0..400).collect::<Vec<_>>());
    assert_ne!(numbering(&again), restored);
    // The rows to compare are dropped on the server: the old replica can't be compared any more, the new one can go on.
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

/// A replica follows while its process and the server are killed repeatedly. It must be a prefix at each moment, and complete in
/// the end.
#[test]
fn a_replica_survives_kills_of_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut writer = create_table(&data.join("t"));
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
                let pulled = numbers(&copy);
                assert_eq!(pulled, (0..pulled.len() as i64).collect::<Vec<_>>());
            }
            replica = follow();
        }
    }
    wait_until("all rows in the replica", || copy.exists() && open(&copy).unwrap().len().unwrap() >= end as u64);
    replica.kill();
    assert_eq!(numbers(&copy), (0..end).collect::<Vec<_>>());
}
