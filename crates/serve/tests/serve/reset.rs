//! Tests thousands of HTTP/2 streams that are opened and reset at once, with hand-written frames. Work begun for them
//! must end within the limits of other requests, and other clients are served meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arrowwood_serve::{Limits, Options};

use crate::support::*;

const HEADERS: u8 = 1;
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags of frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Headers in the static table of HPACK, by their indexes.
const METHOD_GET: u8 = 0x82;
const METHOD_POST: u8 = 0x83;
const SCHEME_HTTP: u8 = 0x86;
/// Headers whose value is a literal.
const LITERAL_HEADER: u8 = 0x00;
const LITERAL_AUTHORITY: u8 = 0x01;
const LITERAL_PATH: u8 = 0x04;
/// The maximum payload of a frame.
const MAX_FRAME: usize = 16_384;
/// The error code for streams that are no longer needed.
const CANCEL: u32 = 8;
/// The initial window of streams in the server's settings.
const STREAM_WINDOW: i64 = 1 << 20;

/// The number of streams that are opened together.
const BURST: u32 = 60;

/// The state of a connection that depends on frames from the server.
#[derive(Default)]
struct Received {
    /// The window of the connection.
    connection_window: AtomicI64,
    /// The window of the stream that sends rows.
    stream_window: AtomicI64,
    pongs: AtomicU64,
    /// True if the connection has ended.
    is_over: AtomicBool,
}

impl Received {
    /// Returns the number of bytes that the stream may send.
    fn window(&self) -> i64 {
        let connection_window = self.connection_window.load(Ordering::SeqCst);
        let stream_window = self.stream_window.load(Ordering::SeqCst);
        connection_window.min(stream_window)
    }
}

/// An HTTP/2 connection.
struct RawConnection {
    stream: TcpStream,
    received: Arc<Received>,
    next_stream: u32,
    pings: u64,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads frames until the connection ends.
fn read_frames(mut stream: TcpStream, received: &Received) {
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
        let kind = head[3];
        let flags = head[4];
        let is_for_connection = head[5..9] == [0; 4];
        match kind {
            PING if flags == ACK => {
                received.pongs.fetch_add(1, Ordering::SeqCst);
            }
            GO_AWAY => break,
            WINDOW_UPDATE => {
                let increment = i64::from(u32::from_be_bytes(payload[..4].try_into().unwrap()));
                let window = if is_for_connection { &received.connection_window } else { &received.stream_window };
                window.fetch_add(increment, Ordering::SeqCst);
            }
            _ => (),
        }
    }
    received.is_over.store(true, Ordering::SeqCst);
}

impl RawConnection {
    fn connect(served: &TestServer) -> RawConnection {
        let mut stream = served.connect();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat()).unwrap();
        let received = Arc::new(Received { connection_window: AtomicI64::new(65_535), ..Received::default() });
        let reader = stream.try_clone().unwrap();
        let received_by_reader = received.clone();
        thread::spawn(move || read_frames(reader, &received_by_reader));
        RawConnection { stream, received, next_stream: 1, pings: 0 }
    }

    fn is_over(&self) -> bool {
        self.received.is_over.load(Ordering::SeqCst)
    }

    /// Sends frames; returns true if the connection is still open.
    fn send(&mut self, frames: &[u8]) -> bool {
        self.stream.write_all(frames).is_ok() && !self.is_over()
    }

    /// Returns the number of a new stream, and the frame that opens it with a GET request.
    fn get_frame(&mut self, path: &str) -> (u32, Vec<u8>) {
        let number = self.take_stream_number();
        let block = header_block(METHOD_GET, path);
        (number, frame(HEADERS, END_HEADERS | END_STREAM, number, &block))
    }

    /// Returns the number of a new stream, and the frame that opens it with a POST request of rows.
    fn post_frame(&mut self, path: &str) -> (u32, Vec<u8>) {
        let number = self.take_stream_number();
        let mut block = header_block(METHOD_POST, path);
        block.push(LITERAL_HEADER);
        block.extend(literal("content-type"));
        block.extend(literal("application/x-ndjson"));
        (number, frame(HEADERS, END_HEADERS, number, &block))
    }

    /// Returns the number of the next stream. Streams of clients have odd numbers.
    fn take_stream_number(&mut self) -> u32 {
        let number = self.next_stream;
        self.next_stream += 2;
        number
    }

    /// Sends all rows on a new stream; returns its number.
    fn send_rows(&mut self, path: &str, body: &[u8]) -> u32 {
        let (number, opening) = self.post_frame(path);
        self.received.stream_window.store(STREAM_WINDOW, Ordering::SeqCst);
        assert!(self.send(&opening));
        let mut rest = body;
        while !rest.is_empty() {
            let piece;
            (piece, rest) = rest.split_at(rest.len().min(MAX_FRAME));
            assert!(self.wait_until(|received| received.window() >= MAX_FRAME as i64));
            self.received.connection_window.fetch_sub(piece.len() as i64, Ordering::SeqCst);
            self.received.stream_window.fetch_sub(piece.len() as i64, Ordering::SeqCst);
            let flags = if rest.is_empty() { END_STREAM } else { 0 };
            assert!(self.send(&frame(DATA, flags, number, piece)));
        }
        assert!(self.ping());
        number
    }

    /// Waits until the server has received everything, which the answer to a ping shows.
    fn ping(&mut self) -> bool {
        self.pings += 1;
        if !self.send(&frame(PING, 0, 0, &[7; 8])) {
            return false;
        }
        self.wait_until(|received| received.pongs.load(Ordering::SeqCst) >= self.pings)
    }

    /// Waits until the condition holds, or until the connection ends; returns true if the condition holds.
    fn wait_until(&self, condition: impl Fn(&Received) -> bool) -> bool {
        wait_for("a frame of the server", || {
            if condition(&self.received) {
                Some(true)
            } else if self.is_over() {
                Some(false)
            } else {
                None
            }
        })
    }
}

/// Encodes the headers of a request: method and scheme by their indexes, path and authority as literals.
fn header_block(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![method, SCHEME_HTTP, LITERAL_PATH];
    block.extend(literal(path));
    block.push(LITERAL_AUTHORITY);
    block.extend(literal("localhost"));
    block
}

/// Encodes a text with its length.
fn literal(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

fn reset_frame(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// The moment at which streams are reset.
#[derive(Clone, Copy, Debug)]
enum Reset {
    /// Each stream immediately after its headers.
    AtOnce,
    /// After the server has received the headers.
    WhenReceived,
}

/// Opens and resets this many streams, over as many connections as needed.
fn open_and_reset(served: &TestServer, path: &str, streams: u32, reset: Reset) {
    let mut opened = 0;
    while opened < streams {
        let mut connection = RawConnection::connect(served);
        let mut is_open = true;
        while is_open {
            is_open = open_and_reset_burst(&mut connection, path, reset);
            opened += BURST;
            if opened >= streams {
                break;
            }
        }
    }
}

/// Opens and resets some streams; returns true if the connection is still open.
fn open_and_reset_burst(connection: &mut RawConnection, path: &str, reset: Reset) -> bool {
    let mut openings = Vec::new();
    let mut resets = Vec::new();
    let mut alternating = Vec::new();
    for _ in 0..BURST {
        let (number, opening) = connection.get_frame(path);
        alternating.extend_from_slice(&opening);
        alternating.extend(reset_frame(number));
        openings.extend(opening);
        resets.extend(reset_frame(number));
    }
    match reset {
        Reset::AtOnce => connection.send(&alternating),
        Reset::WhenReceived => connection.send(&openings) && connection.ping() && connection.send(&resets),
    }
}

/// Resets before and after the server has begun: requests for rows with and without a condition, streams that go on,
/// and requests that are answered immediately.
#[test]
fn streams_reset_at_once_cost_nothing() {
    alone!();
    let streams: u32 = std::env::var("ARROWWOOD_SERVE_RESETS").map_or(1_200, |streams| streams.parse().unwrap());
    let served = TestServer::start();
    served.write_numbers("t", 200_000);
    let paths = ["/v1/tables/t/rows?where=n%3C0", "/v1/tables/t/rows", "/v1/tables/t/follow?from=0", "/healthz"];
    // Runs once before measuring, to create what all requests share.
    for path in paths {
        open_and_reset(&served, path, BURST, Reset::WhenReceived);
    }
    let before = private_memory_bytes();
    for reset in [Reset::AtOnce, Reset::WhenReceived] {
        for path in paths {
            open_and_reset(&served, path, streams, reset);
            assert_eq!(served.get_rows("/v1/tables/t/rows?where=n%3D7").len().unwrap(), 1, "{path}");
        }
    }
    wait_until("all are done", || metric(&served, "requests") == 1 && metric(&served, "followers") == 0);
    let growth = private_memory_bytes().saturating_sub(before);
    eprintln!("{growth} bytes more after {} streams", 8 * streams);
    assert!(growth < 64 << 20, "{growth} bytes more");
}

/// The memory for rows in the test below.
const MEMORY: usize = 16 << 20;

/// Returns true if rows are refused, because other rows take all of the memory.
fn is_memory_taken(served: &TestServer) -> bool {
    let reply = served.post_json("t", "{\"n\":1}");
    assert!([200, 503].contains(&reply.status), "{}", reply.text());
    reply.status == 503
}

/// Returns the number of rows; 0 if there is no table yet.
fn count_rows(served: &TestServer, path: &str) -> u64 {
    if served.get(path).status == 200 { served.get_rows(path).len().unwrap() } else { 0 }
}

/// Sends rows to a route, and resets the stream.
struct ResetUpload<'a> {
    served: &'a TestServer,
    /// The route that the rows are sent to.
    path: &'static str,
    /// The route that returns them.
    rows_path: &'static str,
    body: String,
}

impl ResetUpload<'_> {
    /// Resets an upload some time after it was sent; returns true if its rows held the memory while they were parsed.
    fn holds_memory_after(&self, delay: Duration) -> bool {
        let rows_before = count_rows(self.served, self.rows_path);
        let mut connection = RawConnection::connect(self.served);
        let number = connection.send_rows(self.path, self.body.as_bytes());
        thread::sleep(delay);
        assert!(connection.send(&reset_frame(number)));
        // The request has ended when the only one is that for the metrics.
        wait_until("the request is given up", || metric(self.served, "requests") == 1);
        let is_held = is_memory_taken(self.served);
        wait_until("all of the memory was given back", || !is_memory_taken(self.served));
        // Appended rows were in the queue, which holds their memory whatever happens to the request.
        let is_appended = count_rows(self.served, self.rows_path) > rows_before;
        is_held && !is_appended
    }
}

/// Rows that were completely sent before the reset are still parsed. Until that is done, they count towards the memory
/// for rows, so that no more is begun than there is memory for. Here they take all of it, and other requests are
/// refused meanwhile.
#[test]
fn rows_of_reset_streams_hold_memory_until_they_are_parsed() {
    const JSON_LINE: &str = "{\"n\":123456}\n";
    const INFLUX_LINE: &str = "cpu,host=a usage=0.5 1\n";
    const JSON_ROWS: &str = "/v1/tables/t/rows?where=n%3D123456";
    const MIN_TRIES: u64 = 12;
    alone!();
    let limits = Limits { ingest_memory: MEMORY, ..Limits::default() };
    let served = TestServer::start_with(|_| Options { limits, ..options() });
    served.writer("t", "n: int not null").close().unwrap();
    for (path, line, rows_path) in
        [("/v1/tables/t/rows", JSON_LINE, JSON_ROWS), ("/write", INFLUX_LINE, "/v1/tables/cpu/rows")]
    {
        let upload = ResetUpload { served: &served, path, rows_path, body: line.repeat(MEMORY / line.len()) };
        // The test can't see when exactly the parser begins: each try resets at another moment, the first ones soon and
        // later ones, for slow machines, later and later.
        let mut tries = 0;
        let mut is_seen = false;
        wait_until("rows that are given up while they are parsed", || {
            is_seen |= upload.holds_memory_after(Duration::from_millis(2 * tries));
            tries += 1;
            tries >= MIN_TRIES && is_seen
        });
    }
    // An upload is appended as a whole or not at all.
    let rows_per_upload = (MEMORY / JSON_LINE.len()) as u64;
    assert_eq!(count_rows(&served, JSON_ROWS) % rows_per_upload, 0);
}
