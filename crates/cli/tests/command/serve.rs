//! Tests of `arrowwood serve`, `token`, `pull` and `promote` as processes: their output, their exit, and the tables
//! that they leave when they are killed.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

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

    /// Starts a server whose standard error is `errors`.
    fn logging(directory: &Path, options: &[&str], errors: Stdio) -> Server {
        Server::with(directory, options, errors, &[])
    }

    /// Starts a server whose standard error is `errors`, with variables in its environment.
    pub fn with(directory: &Path, options: &[&str], errors: Stdio, variables: &[(&str, String)]) -> Server {
        let mut command = Command::new(PROGRAM);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.arg("serve");
        if !options.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
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

/// Sends a request, and reads its response; returns the status and the body.
pub fn request(stream: &mut BufReader<TcpStream>, head: &str, body: &str) -> io::Result<(u16, String)> {
    let head = format!("{head}\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(head.as_bytes())?;
    read_response(stream)
}

/// Reads a response with a length; returns its status and body.
pub fn read_response(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, String)> {
    let status_line = read_line(stream)?;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let mut len = 0;
    loop {
        let line = read_line(stream)?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => len = value.parse().map_err(io::Error::other)?,
            Some(_) => (),
            None => break,
        }
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok((status, body))
}

/// Reads a line; the end of the connection is an error.
fn read_line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line)
}

/// Requests a path on a new connection, and reads the body up to the end of the connection, as it may have no length.
fn get_to_end(address: &str, path: &str) -> String {
    let mut client = connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\n\r\n");
    client.get_mut().write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
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

#[track_caller]
fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Asserts that a run failed with a message.
#[track_caller]
fn assert_failure(output: &Output, message: &str) {
    let errors = text(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains(message), "{errors}");
}

/// Adds a token with the command; returns the token.
pub fn add_token(file: &Path, name: &str, rights: &[&str]) -> String {
    let file = file.display().to_string();
    let output = run(&[&["token", "add", name, "--token-file", &file], rights].concat());
    assert_success(&output);
    text(&output.stdout).trim_end().to_owned()
}

/// Replicates a table with the command.
fn pull(url: &str, replica: &Path) -> Output {
    run(&["pull", url, &replica.display().to_string()])
}

/// Creates a temporary directory with an empty directory `data`.
fn create_data_directory() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    (folder, data)
}

/// Returns the first line of a request for the tables with a token, and the header of the token.
fn list_tables_head(token: &str) -> String {
    format!("GET /v1/tables HTTP/1.1\r\nauthorization: Bearer {token}")
}

fn get_status(client: &mut BufReader<TcpStream>, head: &str) -> u16 {
    request(client, head, "").unwrap().0
}

#[test]
fn serve_prints_its_url_and_ends_on_signals() {
    let folder = tempfile::tempdir().unwrap();
    let schema = parse_schema("n: int not null").unwrap();
    Writer::open(folder.path().join("t"), Some(schema.into()), &WriterOptions::default()).unwrap().close().unwrap();
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
    assert_eq!(stat.end, 2);
    assert_eq!(stat.durable_end, 2);
    assert_eq!(stat.writer, None);
}

#[test]
fn query_limits_of_the_command_apply_to_views() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = create_table(&folder.path().join("t"));
    append(&mut writer, 0, 1_000);
    for (options, expected) in [(["--query-memory", "4096"], "query_memory"), (["--query-timeout", "0"], "\"view\"")] {
        let server = Server::start(folder.path(), &options);
        let response = get_to_end(&server.address, "/v1/tables/t/views?sort=n");
        assert!(response.contains(expected), "{options:?}: {response}");
    }
}

/// Returns the private memory of a process in bytes.
fn anonymous_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kilobytes << 10
}

/// The memory of groups was reserved only after they were made, and the memory of their distinct values not at all.
#[test]
fn groups_respect_the_limit_of_memory() {
    const ROWS: i64 = 2_000_000;
    const LIMIT: u64 = 32 << 20;
    /// The limit, and the memory of the request itself.
    const MAX_GROWTH: u64 = 44 << 20;
    let folder = tempfile::tempdir().unwrap();
    let many: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * 7919)));
    let few: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 7)));
    let batch = RecordBatch::try_from_iter([("n", many), ("few", few)]).unwrap();
    let rows = Dataset::try_from(vec![batch]).unwrap();
    write(&rows, folder.path().join("t.arrow"), &WriteOptions::default()).unwrap();
    let server = Server::start(folder.path(), &["--query-memory", &LIMIT.to_string()]);
    for query in ["at=0&of=sum:1", "of=n_unique:0", "at=1&of=n_unique:0"] {
        let address = server.address.clone();
        let path = format!("/v1/tables/t.arrow/groups?{query}");
        let before = anonymous_memory(server.process.id());
        let mut max = before;
        let reading = thread::spawn(move || get_to_end(&address, &path));
        while !reading.is_finished() {
            max = max.max(anonymous_memory(server.process.id()));
        }
        let response = reading.join().unwrap();
        assert!(response.contains("query_memory"), "{query}: {response}");
        assert!(max - before < MAX_GROWTH, "{query} took {} bytes", max - before);
    }
    // Few groups fit into the limit.
    let response = get_to_end(&server.address, "/v1/tables/t.arrow/groups?at=1&of=sum:0");
    assert!(response.contains("\"groups\":7"), "{response}");
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
        assert_failure(&output, expected);
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn token_is_printed_once_and_can_be_revoked() {
    let (folder, data) = create_data_directory();
    let token_path = folder.path().join("tokens.json");
    let token = add_token(&token_path, "s1", &["--read", "*", "--write", "ticks"]);
    assert!(token.starts_with("aw_"), "{token}");
    let token_file = token_path.display().to_string();
    let listed = run(&["token", "list", "--token-file", &token_file]);
    assert_eq!(text(&listed.stdout), "s1  read: *  write: ticks\n");

    let server = Server::start(&data, &["--token-file", &token_file]);
    let mut client = connect(&server.address).unwrap();
    let head = list_tables_head(&token);
    assert_eq!(get_status(&mut client, "GET /v1/tables HTTP/1.1"), 401);
    assert_eq!(get_status(&mut client, &head), 200);
    assert_success(&run(&["token", "revoke", "s1", "--token-file", &token_file]));
    wait_until("the end of a revoked token", || get_status(&mut client, &head) != 200);
    server.process.signal("TERM");
    let (_, errors) = server.end();
    let token_without_prefix = &token["aw_".len()..];
    assert!(!errors.contains(token_without_prefix), "{errors}");
}

/// Writes to standard error fail, or block forever, while the file of tokens is removed. Requests must be refused then,
/// and the server must end on SIGTERM.
#[test]
fn tokens_are_void_without_their_file_even_if_nothing_can_be_logged() {
    let (folder, data) = create_data_directory();
    let token_path = folder.path().join("tokens.json");
    let token_file = token_path.display().to_string();
    let head = list_tables_head(&add_token(&token_path, "s1", &["--read", "*"]));
    let full_device = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (unread, full_pipe) = io::pipe().unwrap();
    fill(&full_pipe);
    for errors in [Stdio::from(full_device), Stdio::from(full_pipe)] {
        let mut server = Server::logging(&data, &["--token-file", &token_file], errors);
        let mut client = connect(&server.address).unwrap();
        assert_eq!(get_status(&mut client, &head), 200);
        let saved = folder.path().join("saved.json");
        fs::rename(&token_path, &saved).unwrap();
        wait_until("the end of a token", || get_status(&mut client, &head) == 401);
        assert_eq!(get_status(&mut client, "GET /readyz HTTP/1.1"), 503);
        fs::rename(&saved, &token_path).unwrap();
        wait_until("the token again", || get_status(&mut client, &head) == 200);
        assert_eq!(get_status(&mut client, "GET /readyz HTTP/1.1"), 200);
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

/// Programs that renew certificates send SIGHUP to a server, and closing terminals send it to a view.
#[test]
fn sighup_reloads_tokens_and_ends_a_view() {
    let (folder, data) = create_data_directory();
    let token_path = folder.path().join("tokens.json");
    add_token(&token_path, "s1", &["--read", "*"]);
    let server = Server::start(&data, &["--token-file", &token_path.display().to_string()]);
    let head = list_tables_head(&add_token(&token_path, "s2", &["--read", "*"]));
    let mut client = connect(&server.address).unwrap();
    server.process.signal("HUP");
    wait_until("the new token", || get_status(&mut client, &head) == 200);
    server.process.signal("TERM");
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(errors.contains("SIGHUP: reading the tokens and the certificate again"), "{errors}");

    let table = folder.path().join("t");
    let mut writer = create_table(&table);
    append(&mut writer, 0, 10);
    let mut command = Command::new(PROGRAM);
    command.args(["view", "--no-browser"]).arg(&table).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut view = Running::start(&mut command);
    view.line();
    view.signal("HUP");
    assert_eq!(view.status().code(), Some(0));
}

/// Writes a certificate that is valid until the end of a year, and its key.
fn write_certificate(cert_path: &Path, key_path: &Path, year: i32) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let key = rcgen::KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    fs::write(key_path, key.serialize_pem()).unwrap();
    fs::write(cert_path, cert.pem()).unwrap();
}

fn count_in_file(path: &Path, text: &str) -> usize {
    fs::read_to_string(path).unwrap().matches(text).count()
}

#[test]
fn expired_certificate_is_logged_once_and_sighup_loads_a_new_one() {
    let (folder, data) = create_data_directory();
    let cert_path = folder.path().join("cert.pem");
    let key_path = folder.path().join("key.pem");
    let log_path = folder.path().join("log");
    write_certificate(&cert_path, &key_path, 2020);
    let options = ["--tls-cert", cert_path.to_str().unwrap(), "--tls-key", key_path.to_str().unwrap()];
    let server = Server::logging(&data, &options, fs::File::create(&log_path).unwrap().into());
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let expired = "cert.pem: the certificate was valid until 2020-12-31T00:00:00Z, and clients refuse it";
    wait_until("the line of the expired certificate", || count_in_file(&log_path, expired) == 1);
    write_certificate(&cert_path, &key_path, 4_000);
    server.process.signal("HUP");
    wait_until("the new certificate", || count_in_file(&log_path, "the certificate was renewed") == 1);
    server.process.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    assert_eq!(count_in_file(&log_path, expired), 1);
    assert_eq!(count_in_file(&log_path, "the certificate was valid until"), 1);
}

/// A server must not block on a log that nobody reads. The lines of the log must be complete once it is read.
#[test]
fn unread_log_blocks_neither_requests_nor_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, pipe) = io::pipe().unwrap();
    let mut server = Server::logging(folder.path(), &[], Stdio::from(pipe));
    let mut client = connect(&server.address).unwrap();
    // Each request is logged: together ten times as much as fits into a pipe.
    for _ in 0..5_000 {
        assert_eq!(get_status(&mut client, "GET /v1/tables/nothing HTTP/1.1"), 404);
    }
    assert_eq!(get_status(&mut client, "GET /healthz HTTP/1.1"), 200);
    let (_, metrics) = request(&mut client, "GET /metrics HTTP/1.1", "").unwrap();
    assert!(metrics.contains("\narrowwood_log_dropped_lines_total 0\n"), "{metrics}");
    let mut beginning = vec![0; 4 << 10];
    log.read_exact(&mut beginning).unwrap();
    let beginning = text(&beginning);
    assert!(beginning.lines().take(10).all(|line| line.ends_with("\"code\":\"not_found\"}")), "{beginning}");
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
    commit_and_sync(writer);
}

fn commit_and_sync(writer: &mut Writer) {
    writer.commit().unwrap();
    writer.sync().unwrap();
}

/// Creates a table with the rows `from .. to`.
fn create_table_of(path: &Path, from: i64, to: i64) {
    let mut writer = create_table(path);
    append(&mut writer, from, to);
    writer.close().unwrap();
}

fn assert_same_schema(first: &Path, second: &Path) {
    assert_eq!(open(first).unwrap().schema(), open(second).unwrap().schema());
}

#[test]
fn pull_follows_schema_changes() {
    let (folder, data) = create_data_directory();
    let table = data.join("t");
    let schema = parse_schema("n: int32, u: uint16, x: float32").unwrap();
    let mut writer = Writer::open(&table, Some(schema.into()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(0), Value::UInt(7), Value::Float32(0.1)]).unwrap();
    commit_and_sync(&mut writer);
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let replica = folder.path().join("copy");
    assert_success(&pull(&url, &replica));

    let wider = parse_schema("n: int64, u: int32, x: float64, word: text").unwrap();
    writer.alter(&Arc::new(wider)).unwrap();
    writer.append_row(&[Value::Int(1), Value::Int(8), Value::Float64(0.1), Value::Str("w")]).unwrap();
    commit_and_sync(&mut writer);
    assert_success(&pull(&url, &replica));
    assert_eq!(numbers(&replica), [0, 1]);
    assert_same_schema(&replica, &table);
    assert_success(&pull(&url, &replica));
}

#[test]
fn pull_extends_prefixes_and_rejects_other_tables() {
    let (folder, data) = create_data_directory();
    let table = data.join("t");
    let mut writer = create_table(&table);
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let replica = folder.path().join("copy");
    assert_success(&pull(&url, &replica));
    assert_eq!(numbers(&replica), Vec::<i64>::new());
    for (from, to) in [(0, 100), (100, 101), (101, 1000)] {
        append(&mut writer, from, to);
        let output = pull(&url, &replica);
        assert_success(&output);
        assert!(text(&output.stderr).contains("all on the disk"), "{}", text(&output.stderr));
        assert_eq!(numbers(&replica), (0..to).collect::<Vec<_>>());
        let stat = arrowwood::table_stat(&replica).unwrap().unwrap();
        assert_eq!(stat.end, to as u64);
        assert_eq!(stat.durable_end, to as u64);
    }
    assert_same_schema(&replica, &table);

    // Tables that are no prefix of the server's are left alone.
    let other = folder.path().join("other");
    create_table_of(&other, 5, 10);
    let longer = folder.path().join("longer");
    create_table_of(&longer, 0, 2000);
    for path in [&other, &longer] {
        let before = numbers(path);
        assert_failure(&pull(&url, path), "no prefix");
        assert_eq!(numbers(path), before);
    }
    // Dropped rows can't be pulled any more.
    writer.drop_before(500).unwrap();
    let late = pull(&url, &folder.path().join("late"));
    assert!(text(&late.stderr).contains("dropped"), "{}", text(&late.stderr));
    assert_success(&pull(&url, &replica));

    let missing_table = format!("{}/nothing", server.url);
    let new_replica = folder.path().join("none");
    for (url, message) in
        [(missing_table.as_str(), "404"), (&server.url, "names no table"), ("http://127.0.0.1:1/t", "refused")]
    {
        assert_failure(&pull(url, &new_replica), message);
        assert!(!new_replica.exists());
    }
}

/// Sends a request on a new connection; returns the status and the body of its response.
fn send(server: &Server, head: &str, body: &str) -> (u16, String) {
    request(&mut connect(&server.address).unwrap(), head, body).unwrap()
}

const APPEND_HEAD: &str = "POST /v1/tables/t/rows HTTP/1.1\r\ncontent-type: application/x-ndjson";

/// Sends a numbered batch of one row.
fn send_numbered(server: &Server, n: u64) -> (u16, String) {
    let head = format!("{APPEND_HEAD}\r\nproducer: p\r\nproducer-sequence: {n}");
    send(server, &head, &format!("{{\"n\": {n}}}\n"))
}

/// A replica has no positions of producers: a resent batch was appended twice, and an acknowledged one was skipped.
#[test]
fn replica_rejects_numbered_batches_until_it_is_promoted() {
    let folder = tempfile::tempdir().unwrap();
    let source_data = folder.path().join("a");
    let replica_data = folder.path().join("b");
    fs::create_dir(&source_data).unwrap();
    fs::create_dir(&replica_data).unwrap();
    let source = Server::start(&source_data, &[]);
    assert_eq!(send(&source, "PUT /v1/tables/t HTTP/1.1", "n: int64").0, 201);
    for n in 0..10 {
        assert_eq!(send_numbered(&source, n).0, 200);
    }
    let url = format!("{}/t", source.url);
    let replica = replica_data.join("t");
    assert_success(&pull(&url, &replica));
    let second_replica = folder.path().join("kept");
    copy_table(&replica, &second_replica);

    let replica_server = Server::start(&replica_data, &[]);
    for (status, answer) in [
        send_numbered(&replica_server, 9),
        send_numbered(&replica_server, 12),
        // A producer must not learn a wrong position either.
        send(&replica_server, "GET /v1/tables/t/producers/p HTTP/1.1", ""),
    ] {
        assert_eq!(status, 409, "{answer}");
        assert!(answer.contains("\"replica\""), "{answer}");
        assert!(answer.contains("arrowwood promote TABLE"), "{answer}");
    }
    // Rows without a number are not deduplicated, so they are accepted.
    assert_eq!(send(&replica_server, APPEND_HEAD, "{\"n\": 100}\n").0, 200);
    drop(replica_server);
    let mut writer = Writer::open(&replica, None, &WriterOptions::default()).unwrap();
    let refused = writer.commit_with(&[("kafka/t/0", 5)]).unwrap_err();
    assert!(refused.to_string().contains("arrowwood promote TABLE"), "{refused}");
    drop(writer);

    let replica_path = replica.display().to_string();
    let output = run(&["promote", "--producer", "p=9", "--position", "kafka/t/0=5", &replica_path]);
    assert!(text(&output.stdout).contains("t: promoted, 11 rows; 2 positions are known"), "{output:?}");
    assert!(!run(&["promote", &replica_path]).status.success(), "it is no replica any more");
    let promoted = Server::start(&replica_data, &[]);
    let (status, answer) = send_numbered(&promoted, 9);
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("\"duplicate\":true"), "{answer}");
    assert_eq!(send_numbered(&promoted, 10).0, 200);
    assert_eq!(send_numbered(&promoted, 12).0, 409, "one is missing");
    drop(promoted);
    assert_eq!(numbers(&replica), (0..10).chain([100, 10]).collect::<Vec<_>>());

    // A promoted table becomes a replica again when it is pulled.
    assert_success(&run(&["promote", &second_replica.display().to_string()]));
    assert_success(&pull(&url, &second_replica));
    assert!(arrowwood::is_replica(&open(&second_replica).unwrap().positions().unwrap()));
}

/// Returns the number that a replica has for the order of its rows.
fn read_numbering(replica: &Path) -> i64 {
    open(replica).unwrap().positions().unwrap()["arrowwood/numbering"]
}

/// Replaces a table by a copy in another directory, as a restored backup does.
fn restore_from_backup(table: &Path, backup: &Path) {
    copy_table(table, backup);
    fs::remove_dir_all(table).unwrap();
    fs::rename(backup, table).unwrap();
}

#[test]
fn pull_notices_that_the_servers_rows_were_sorted() {
    let (folder, data) = create_data_directory();
    let table = data.join("t");
    let schema = parse_schema("n: int not null").unwrap();
    let options = WriterOptions {
        segment_rows: Some(64),
        sorted_by: Some("n".into()),
        late: Some(LatePolicy::Accept),
        ..WriterOptions::default()
    };
    let mut writer = Writer::open(&table, Some(schema.into()), &options).unwrap();
    // Two early rows are late; the last hundred rows, which are compared each time, are in order.
    let unsorted: Vec<i64> = (2..130).chain([0, 1]).chain(130..400).collect();
    for &n in &unsorted {
        writer.append_row(&[Value::Int(n)]).unwrap();
    }
    writer.close().unwrap();
    let sorted: Vec<i64> = (0..400).collect();
    let server = Server::start(&data, &[]);
    let url = format!("{}/t", server.url);
    let replica = folder.path().join("copy");
    assert_success(&pull(&url, &replica));
    let first_numbering = read_numbering(&replica);

    // A restored table has the same rows in another directory.
    restore_from_backup(&table, &folder.path().join("saved"));
    assert_success(&pull(&url, &replica));
    assert_eq!(numbers(&replica), unsorted);
    let restored_numbering = read_numbering(&replica);
    assert_ne!(restored_numbering, first_numbering);

    compact_with(&table, CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ()).unwrap();
    assert_eq!(numbers(&table), sorted);
    assert_failure(&pull(&url, &replica), "rows from number 0 on some");
    assert_eq!(numbers(&replica), unsorted);
    assert_eq!(read_numbering(&replica), restored_numbering);
    let new_replica = folder.path().join("again");
    assert_success(&pull(&url, &new_replica));
    assert_eq!(numbers(&new_replica), sorted);
    assert_ne!(read_numbering(&new_replica), restored_numbering);

    // The rows to compare are dropped on the server: the old replica can't be compared any more, the new one can go on.
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    writer.drop_before(384).unwrap();
    writer.close().unwrap();
    assert_failure(&pull(&url, &replica), "into another table");
    assert_success(&pull(&url, &new_replica));
}

/// Starts a process that replicates a table until it is killed.
fn start_following(address: &str, replica: &Path) -> Running {
    let url = format!("http://{address}/t");
    Running::start(Command::new(PROGRAM).args(["pull", "--follow", &url]).arg(replica).stderr(Stdio::null()))
}

/// A replica follows while its process and the server are killed repeatedly. It must be a prefix at each moment, and
/// complete in the end.
#[test]
fn a_replica_survives_kills_of_both_sides() {
    let rounds: i64 = std::env::var("ARROWWOOD_SERVE_KILLS").map_or(8, |rounds| rounds.parse().unwrap());
    let (folder, data) = create_data_directory();
    let mut writer = create_table(&data.join("t"));
    append(&mut writer, 0, 10);
    let mut end = 10;
    let replica = folder.path().join("copy");
    let mut server = Server::start(&data, &[]);
    let address = server.address.clone();
    let mut follower = start_following(&address, &replica);
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
            follower.kill();
            if replica.exists() {
                let pulled = numbers(&replica);
                assert_eq!(pulled, (0..pulled.len() as i64).collect::<Vec<_>>());
            }
            follower = start_following(&address, &replica);
        }
    }
    wait_until("all rows in the replica", || replica.exists() && open(&replica).unwrap().len().unwrap() >= end as u64);
    follower.kill();
    assert_eq!(numbers(&replica), (0..end).collect::<Vec<_>>());
}
