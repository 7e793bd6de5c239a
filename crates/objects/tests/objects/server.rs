//! [`Server`]: a web server with one object, which counts its requests and responses and may misbehave.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood_objects::Options;

use super::wait::{PATIENCE, within_patience};

/// How the server misbehaves. The first response is correct, unless a variant says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Sends the whole object, whatever was requested. Includes the first response.
    WholeObject,
    /// Sends this status, and no content. Includes the first response.
    Status(u16),
    /// Reports another size of the object. Includes the first response.
    Size(u64),
    /// Reports another range than was requested.
    OtherRange,
    /// Sends less than the header says, and closes the connection.
    Short,
    /// Sends less than was requested, as the header says.
    ShortLength,
    /// Sends more than was requested.
    Long,
    /// Never begins the response.
    Silent,
    /// Sends half of the response.
    Stall,
    /// Reports that the object was replaced, if the request has a condition.
    Replaced,
    /// Reports another version of the object, and ignores the condition of the request.
    ReplacedSilently,
    /// Sends other bytes of the same version.
    OtherBytes,
    /// Sends headers without end.
    EndlessHeader,
    /// Sends neither a tag nor a time. Includes the first response.
    NoTag,
}

/// Fills a buffer with the bytes of an object from an offset on.
pub type Content = Arc<dyn Fn(u64, &mut [u8]) + Send + Sync>;

pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
}

/// The number of requests and of sent bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    pub requests: u64,
    pub bytes: u64,
}

struct State {
    size: u64,
    content: Content,
    fault: Mutex<Fault>,
    requests: AtomicU64,
    sent_bytes: AtomicU64,
    concurrent: AtomicU64,
    max_concurrent: AtomicU64,
    has_ended: AtomicBool,
    delay: Mutex<Duration>,
    /// The number of concurrent requests before which none is answered.
    min_concurrent: AtomicU64,
}

/// The headers of a request that the server uses.
#[derive(Default)]
struct Request {
    range: Option<Range<u64>>,
    /// The tag that the object must have.
    if_match: Option<String>,
}

impl Server {
    pub fn of_bytes(bytes: Vec<u8>) -> Server {
        let size = bytes.len() as u64;
        Server::new(
            size,
            Arc::new(move |offset, buffer| {
                let start = offset as usize;
                buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
            }),
        )
    }

    pub fn new(size: u64, content: Content) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            size,
            content,
            fault: Mutex::new(Fault::None),
            requests: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            concurrent: AtomicU64::new(0),
            max_concurrent: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            delay: Mutex::new(Duration::ZERO),
            min_concurrent: AtomicU64::new(0),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.has_ended.load(Ordering::Relaxed) {
                    return;
                }
                let state = shared.clone();
                // Ends with an error if the client closes the connection, as many tests do.
                std::thread::spawn(move || state.serve(stream));
            }
        });
        Server { address, state }
    }

    pub fn with_fault(bytes: Vec<u8>, fault: Fault) -> Server {
        let server = Server::of_bytes(bytes);
        server.set_fault(fault);
        server
    }

    pub fn set_fault(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
    }

    /// Answers no request before there are `min_concurrent` at a time, and from then on each after `delay`.
    pub fn slow_down(&self, min_concurrent: u64, delay: Duration) {
        self.state.min_concurrent.store(min_concurrent, Ordering::Relaxed);
        *self.state.delay.lock().unwrap() = delay;
    }

    pub fn url(&self) -> String {
        format!("http://{}/data/file.arrow", self.address)
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&self) -> Counts {
        Counts {
            requests: self.state.requests.swap(0, Ordering::Relaxed),
            bytes: self.state.sent_bytes.swap(0, Ordering::Relaxed),
        }
    }

    pub fn max_concurrent(&self) -> u64 {
        self.state.max_concurrent.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// Returns options with enough time for a busy machine. Bytes that were not fetched are not zero, so that tests notice
/// if they are used.
pub fn options() -> Options {
    Options { timeout: PATIENCE, poison: Some(0xa5), ..Options::default() }
}

/// Returns options for a server that does not answer.
pub fn impatient() -> Options {
    Options { timeout: Duration::from_millis(700), ..options() }
}

/// Sends nothing more, and waits until the client closes the connection.
fn wait_for_close(mut client: &TcpStream) -> io::Result<bool> {
    client.set_read_timeout(Some(PATIENCE))?;
    io::copy(&mut client, &mut io::sink()).map(|_| false)
}

fn half(range: &Range<u64>) -> Range<u64> {
    range.start..range.start + (range.end - range.start) / 2
}

impl State {
    /// Answers the requests of a connection.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?);
        while let Some(request) = self.read_request(&mut input)? {
            let concurrent = self.concurrent.fetch_add(1, Ordering::Relaxed) + 1;
            self.max_concurrent.fetch_max(concurrent, Ordering::Relaxed);
            // Tests check `max_concurrent`, so that it does not matter here if this wait fails.
            within_patience(|| self.has_enough_requests().then_some(()));
            // Simulates a slow server.
            std::thread::sleep(*self.delay.lock().unwrap());
            let keeps_open = self.respond(&stream, request);
            self.concurrent.fetch_sub(1, Ordering::Relaxed);
            if !keeps_open? {
                break;
            }
        }
        Ok(())
    }

    fn has_enough_requests(&self) -> bool {
        self.max_concurrent.load(Ordering::Relaxed) >= self.min_concurrent.load(Ordering::Relaxed)
    }

    /// Reads the headers of a request. Returns `None` if the client has closed the connection.
    fn read_request(&self, input: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut request = Request::default();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(range) = line.strip_prefix("range: bytes=") {
                request.range = Some(self.parse_range(range));
            }
            if let Some(tag) = line.strip_prefix("if-match: ") {
                request.if_match = Some(tag.to_owned());
            }
            if line.is_empty() {
                return Ok(Some(request));
            }
        }
    }

    fn parse_range(&self, text: &str) -> Range<u64> {
        match text.split_once('-').unwrap() {
            ("", suffix) => self.size.saturating_sub(suffix.parse().unwrap())..self.size,
            (first, last) => first.parse().unwrap()..(last.parse::<u64>().unwrap() + 1).min(self.size),
        }
    }

    /// Sends a response. Returns true if the connection stays open.
    fn respond(&self, mut output: &TcpStream, request: Request) -> io::Result<bool> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let mut fault = *self.fault.lock().unwrap();
        let includes_first = matches!(fault, Fault::WholeObject | Fault::Status(_) | Fault::Size(_) | Fault::NoTag);
        if number == 0 && !includes_first {
            fault = Fault::None;
        }
        let tag = if matches!(fault, Fault::Replaced | Fault::ReplacedSilently) { "\"two\"" } else { "\"one\"" };
        let is_other_version = request.if_match.is_some_and(|expected| expected != tag);
        let error_status = match fault {
            Fault::Status(status) => Some(status),
            _ if self.size == 0 => Some(416),
            _ if is_other_version && fault != Fault::ReplacedSilently => Some(412),
            _ => None,
        };
        if let Some(status) = error_status {
            write!(output, "HTTP/1.1 {status} No\r\nContent-Length: 4\r\n\r\nsigh")?;
            return Ok(true);
        }
        match fault {
            Fault::Silent => return wait_for_close(output),
            Fault::EndlessHeader => {
                write!(output, "HTTP/1.1 206 Yes\r\n")?;
                for _ in 0..1 << 24 {
                    write!(output, "X-{0}: {0}\r\n", "a".repeat(4000))?;
                }
                return Ok(false);
            }
            _ => (),
        }
        let tag_header = if fault == Fault::NoTag { String::new() } else { format!("ETag: {tag}\r\n") };
        match request.range {
            Some(range) if fault != Fault::WholeObject => self.send_range(output, range, &tag_header, fault),
            _ => {
                write!(output, "HTTP/1.1 200 Yes\r\n{tag_header}Content-Length: {}\r\n\r\n", self.size)?;
                self.send(output, 0..self.size)?;
                Ok(true)
            }
        }
    }

    /// Sends the response to a request for a range. Returns true if the connection stays open.
    fn send_range(
        &self,
        mut output: &TcpStream,
        range: Range<u64>,
        tag_header: &str,
        fault: Fault,
    ) -> io::Result<bool> {
        const SURPLUS: usize = 1 << 20;
        let requested = range.end - range.start;
        let (reported, reported_size) = match fault {
            Fault::OtherRange => (range.start + 1..range.end + 1, self.size),
            Fault::Size(size) => (size - requested..size, size),
            _ => (range.clone(), self.size),
        };
        let len = match fault {
            Fault::ShortLength => requested / 2,
            Fault::Long => requested + SURPLUS as u64,
            _ => requested,
        };
        write!(output, "HTTP/1.1 206 Yes\r\n{tag_header}Content-Length: {len}\r\n")?;
        write!(output, "Content-Range: bytes {}-{}/{reported_size}\r\n\r\n", reported.start, reported.end - 1)?;
        match fault {
            Fault::Short => {
                self.send(output, half(&range))?;
                Ok(false)
            }
            Fault::ShortLength => {
                self.send(output, half(&range))?;
                Ok(true)
            }
            Fault::Stall => {
                self.send(output, half(&range))?;
                wait_for_close(output)
            }
            Fault::Long => {
                self.send(output, range)?;
                output.write_all(&vec![7; SURPLUS])?;
                Ok(true)
            }
            Fault::OtherBytes => {
                output.write_all(&vec![0xff; len as usize])?;
                Ok(true)
            }
            _ => {
                self.send(output, range)?;
                Ok(true)
            }
        }
    }

    /// Sends bytes of the object, and counts them.
    fn send(&self, mut output: &TcpStream, range: Range<u64>) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        for offset in range.clone().step_by(buffer.len()) {
            let len = (range.end - offset).min(buffer.len() as u64) as usize;
            let chunk = &mut buffer[..len];
            (self.content)(offset, chunk);
            output.write_all(chunk)?;
            self.sent_bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
