//! A server in a thread, and an HTTP client that can also send invalid or incomplete requests.
#![allow(dead_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use arrowwood::{Dataset, Value, Writer, WriterOptions, parse_schema};
use arrowwood_serve::{AuditLog, Limits, Options, Server, Stopper};

pub mod flight;

pub use crate::wait::{PATIENCE, wait_for, wait_until};

/// A server with its own data directory.
pub struct TestServer {
    /// The parent of the data directory, which a test may use for other files.
    pub folder: tempfile::TempDir,
    pub port: u16,
    /// The lines of the audit log.
    pub audit: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    /// The thread that runs the server; `None` once it was joined.
    thread: Option<JoinHandle<arrowwood::Result<()>>>,
}

/// Returns the default options with the loopback address and any free port.
pub fn options() -> Options {
    Options { listen: "127.0.0.1:0".into(), ..Options::default() }
}

/// Returns limits whose timeouts are short enough for tests.
pub fn short_timeouts() -> Limits {
    Limits {
        greeting: Duration::from_millis(300),
        part: Duration::from_millis(300),
        idle: Duration::from_millis(700),
        stall: Duration::from_millis(700),
        grace: Duration::from_secs(1),
        writer: Duration::from_millis(200),
        ..Limits::default()
    }
}

impl TestServer {
    /// Starts a server with the default options and a new, empty data directory.
    pub fn start() -> TestServer {
        TestServer::start_with(|_| options())
    }

    /// Starts a server with a new, empty data directory.
    ///
    /// `options` is called with the parent of the data directory, where it can write files that the options name.
    pub fn start_with(options: impl FnOnce(&Path) -> Options) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let options = options(folder.path());
        TestServer::start_in(folder, options)
    }

    /// Starts a server for the existing directory `data` in `folder`.
    pub fn start_in(folder: tempfile::TempDir, mut options: Options) -> TestServer {
        let audit: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = audit.clone();
        options.audit = AuditLog::new(move |line| log.lock().unwrap().push(line.to_owned()));
        let server = Server::bind(folder.path().join("data"), &options).unwrap();
        let (_, port) = server.url().rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run());
        TestServer { folder, port, audit, stopper, thread: Some(thread) }
    }

    /// Stops the server, and starts another one with the same directory.
    pub fn restart(mut self) -> TestServer {
        self.stop();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        TestServer::start_in(folder, options())
    }

    /// Returns the path of a table or file in the data directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// Creates a table with a writer in this process.
    pub fn writer(&self, name: &str, schema: &str) -> Writer {
        let schema = Arc::new(parse_schema(schema).unwrap());
        Writer::open(self.path(name), Some(schema), &WriterOptions::default()).unwrap()
    }

    /// Creates a table of one column `n` with the numbers from 0 on.
    pub fn write_numbers(&self, name: &str, rows: i64) {
        let mut writer = self.writer(name, "n: int not null");
        for n in 0..rows {
            writer.append_row(&[Value::Int(n)]).unwrap();
        }
        writer.close().unwrap();
    }

    /// Opens a connection whose reads time out.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Returns a client with a new connection.
    pub fn client(&self) -> Client {
        Client::new(self.connect())
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    /// Sends a request over a connection of its own, and returns the response.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.client().send(method, path, headers, body).unwrap()
    }

    /// Appends rows given as JSON lines.
    pub fn post_json(&self, table: &str, body: &str) -> Reply {
        let path = format!("/v1/tables/{table}/rows");
        self.send("POST", &path, &[("content-type", "application/x-ndjson")], body.as_bytes())
    }

    /// Requests rows as an Arrow stream, and decodes them.
    pub fn get_rows(&self, path: &str) -> Dataset {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.dataset()
    }

    /// Stops the server, and panics if it failed.
    pub fn stop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Returns the lines of the audit log.
    pub fn audit(&self) -> Vec<String> {
        self.audit.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    /// Stops the server, and ignores its errors, as the test may be panicking already.
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Appends rows of one number, and commits them.
pub fn append_numbers(writer: &mut Writer, numbers: Range<i64>) {
    for n in numbers {
        writer.append_row(&[Value::Int(n)]).unwrap();
    }
    writer.commit().unwrap();
}

/// Returns the private memory of this process in bytes, without pages of files such as a writer's tables.
pub fn private_memory_bytes() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    1024 * (parse_kibibytes(&rollup, "Anonymous:") + parse_kibibytes(&rollup, "Swap:"))
}

/// Returns the value of an entry of `smaps_rollup`.
fn parse_kibibytes(rollup: &str, entry: &str) -> u64 {
    let value = rollup.lines().find_map(|line| line.strip_prefix(entry)).unwrap();
    value.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Returns the value of a metric.
pub fn metric(server: &TestServer, name: &str) -> i64 {
    let metrics = server.get("/metrics").text();
    let prefix = format!("arrowwood_{name} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// The names, in lower case, and values of the headers.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// True if the body was complete.
    pub is_complete: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(header, _)| header == name)?;
        Some(value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Decodes the body as an Arrow stream.
    pub fn dataset(&self) -> Dataset {
        decode_stream(&self.body)
    }

    /// Returns the code of a problem response.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Decodes a complete Arrow stream.
pub fn decode_stream(stream: &[u8]) -> Dataset {
    let reader = arrowwood::read_stream(stream).unwrap();
    let schema = reader.schema().clone();
    let batches = reader.collect::<Result<Vec<_>, _>>().unwrap();
    Dataset::from_batches(schema, batches).unwrap()
}

/// Formats all values as text, row by row.
pub fn format_values(dataset: &Dataset) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        rows.push(row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect());
    }
    rows
}

/// A client with one connection.
pub struct Client<S = TcpStream> {
    pub stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a request, and returns the response.
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        self.send_request(method, path, headers, body)?;
        self.read_reply(method)
    }

    /// Sends a request without reading the response.
    pub fn send_request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += "host: localhost\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || ["POST", "PUT"].contains(&method) {
            head += &format!("content-length: {}\r\n", body.len());
        }
        let stream = self.stream.get_mut();
        stream.write_all(&[head.as_bytes(), b"\r\n", body].concat())?;
        stream.flush()
    }

    /// Reads the status and the headers of a response.
    pub fn read_head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None => return Ok((status, headers)),
            }
        }
    }

    /// Reads the response to a request with `method`.
    pub fn read_reply(&mut self, method: &str) -> io::Result<Reply> {
        let (status, headers) = self.read_head()?;
        let mut reply = Reply { status, headers, body: Vec::new(), is_complete: true };
        if method == "HEAD" || status == 204 {
            return Ok(reply);
        }
        if let Some(len) = reply.header("content-length") {
            reply.body = vec![0; len.parse().unwrap()];
            self.stream.read_exact(&mut reply.body)?;
        } else if reply.header("transfer-encoding").is_some() {
            loop {
                match self.read_chunk() {
                    Ok(Some(chunk)) => reply.body.extend(chunk),
                    Ok(None) => break,
                    Err(_) => {
                        reply.is_complete = false;
                        break;
                    }
                }
            }
        }
        Ok(reply)
    }

    /// Reads the next chunk of a body; returns `None` at its end.
    pub fn read_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let len = usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        // A line end follows each chunk, the empty last one too.
        let mut chunk = vec![0; len + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(len);
        Ok((len > 0).then_some(chunk))
    }

    /// Returns a reader of the body.
    pub fn body(self) -> BodyReader<S> {
        BodyReader { client: self, chunk: Vec::new(), position: 0, is_ended: false, is_broken: false }
    }
}

/// A reader of a chunked body.
pub struct BodyReader<S = TcpStream> {
    pub client: Client<S>,
    chunk: Vec<u8>,
    /// How much of `chunk` was read.
    position: usize,
    /// True once the body was read to its end.
    pub is_ended: bool,
    /// True if the body broke off.
    pub is_broken: bool,
}

impl<S: Read + Write> Read for BodyReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.chunk.len() && !self.is_ended {
            match self.client.read_chunk() {
                Ok(Some(chunk)) => {
                    self.chunk = chunk;
                    self.position = 0;
                }
                Ok(None) => self.is_ended = true,
                Err(e) => {
                    self.is_broken = true;
                    return Err(e);
                }
            }
        }
        let unread = &self.chunk[self.position..];
        let len = buffer.len().min(unread.len());
        buffer[..len].copy_from_slice(&unread[..len]);
        self.position += len;
        Ok(len)
    }
}
