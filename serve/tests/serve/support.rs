//! A server in a thread, and a client simple enough to do what real clients should not.
#![allow(dead_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use arrowwood::{Dataset, Value, Writer, WriterOptions, parse_schema};
use arrowwood_serve::{AuditLog, Limits, Options, Server, Stopper};

pub mod flight;

pub use crate::wait::{PATIENCE, wait_for, wait_until};

/// A server with its own data directory.
pub struct Served {
    pub folder: tempfile::TempDir,
    pub port: u16,
    pub audit: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    thread: Option<JoinHandle<arrowwood::Result<()>>>,
}

/// The loopback address with any free port.
pub fn options() -> Options {
    Options { listen: "127.0.0.1:0".into(), ..Options::default() }
}

/// Timeouts short enough for tests.
pub fn impatient() -> Limits {
    let ms = Duration::from_millis;
    Limits {
        greeting: ms(300),
        part: ms(300),
        idle: ms(700),
        stall: ms(700),
        grace: ms(1_000),
        writer: ms(200),
        ..Limits::default()
    }
}

impl Served {
    pub fn start() -> Served {
        Served::with(|_| options())
    }

    pub fn with(options: impl FnOnce(&Path) -> Options) -> Served {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let options = options(folder.path());
        Served::over(folder, options)
    }

    /// Starts a server with an existing directory.
    pub fn over(folder: tempfile::TempDir, mut options: Options) -> Served {
        let audit: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = audit.clone();
        options.audit = AuditLog::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let server = Server::bind(folder.path().join("data"), &options).unwrap();
        let port = server.url().rsplit_once(':').unwrap().1.parse().unwrap();
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.run()));
        Served { folder, port, audit, stopper, thread }
    }

    /// Stops the server, and starts another one with the same directory.
    pub fn restarted(mut self) -> Served {
        self.stop();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        Served::over(folder, options())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    /// Creates a table with a writer in this process.
    pub fn writer(&self, name: &str, schema: &str) -> Writer {
        let schema = Arc::new(parse_schema(schema).unwrap());
        Writer::open(self.path(name), Some(schema), &WriterOptions::default()).unwrap()
    }

    /// Creates a table of one column `n` with the numbers from 0 on.
    pub fn numbers(&self, name: &str, rows: i64) {
        let mut writer = self.writer(name, "n: int not null");
        (0..rows).for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
        writer.close().unwrap();
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn client(&self) -> Client {
        Client::new(self.connect())
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.client().send(method, path, headers, body).unwrap()
    }

    pub fn post_json(&self, table: &str, body: &str) -> Reply {
        self.send(
            "POST",
            &format!("/v1/tables/{table}/rows"),
            &[("content-type", "application/x-ndjson")],
            body.as_bytes(),
        )
    }

    /// Requests rows as an Arrow stream.
    pub fn rows(&self, path: &str) -> Dataset {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.dataset()
    }

    pub fn stop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    pub fn audit(&self) -> Vec<String> {
        self.audit.lock().unwrap().clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the private memory of this process in bytes, without pages of files such as a writer's tables.
pub fn private() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    };
    1024 * (of("Anonymous:") + of("Swap:"))
}

/// Returns the value of a metric.
pub fn metric(served: &Served, name: &str) -> i64 {
    let text = served.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("arrowwood_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// True if the body was complete.
    pub is_whole: bool,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn dataset(&self) -> Dataset {
        dataset(&self.body)
    }

    /// Returns the code of a problem response.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub fn dataset(stream: &[u8]) -> Dataset {
    let reader = arrowwood::read_stream(stream).unwrap();
    let schema = reader.schema().clone();
    Dataset::from_batches(schema, reader.collect::<Result<Vec<_>, _>>().unwrap()).unwrap()
}

/// Formats all values as text.
pub fn values(rows: &Dataset) -> Vec<Vec<String>> {
    rows.rows().map(|row| row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect()).collect()
}

/// A client with one connection.
pub struct Client<S = TcpStream> {
    pub stream: BufReader<S>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        self.begin(method, path, headers, body)?;
        self.reply(method)
    }

    pub fn begin(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
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

    pub fn head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(closed)?;
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

    pub fn reply(&mut self, method: &str) -> io::Result<Reply> {
        let (status, headers) = self.head()?;
        let mut reply = Reply { status, headers, body: Vec::new(), is_whole: true };
        if method == "HEAD" || status == 204 {
            return Ok(reply);
        }
        if let Some(len) = reply.header("content-length") {
            reply.body = vec![0; len.parse().unwrap()];
            self.stream.read_exact(&mut reply.body)?;
        } else if reply.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().unwrap_or_else(|_| {
                reply.is_whole = false;
                None
            }) {
                reply.body.extend(chunk);
            }
        }
        Ok(reply)
    }

    /// Reads the next chunk of a body; `None` at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let len = usize::from_str_radix(line.trim_end(), 16).map_err(|_| broken())?;
        let mut chunk = vec![0; len + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(len);
        Ok((len > 0).then_some(chunk))
    }

    /// Returns a reader of the body.
    pub fn body(self) -> Chunks<S> {
        Chunks { client: self, rest: Vec::new(), at: 0, is_ended: false, is_broken: false }
    }
}

/// A reader of a chunked body.
pub struct Chunks<S = TcpStream> {
    pub client: Client<S>,
    rest: Vec<u8>,
    at: usize,
    pub is_ended: bool,
    pub is_broken: bool,
}

impl<S: Read + Write> Read for Chunks<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.rest.len() && !self.is_ended {
            match self.client.chunk() {
                Ok(Some(chunk)) => (self.rest, self.at) = (chunk, 0),
                Ok(None) => self.is_ended = true,
                Err(e) => {
                    self.is_broken = true;
                    return Err(e);
                }
            }
        }
        let len = into.len().min(self.rest.len() - self.at);
        into[..len].copy_from_slice(&self.rest[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}
