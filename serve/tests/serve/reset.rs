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
/// The maximum payload of a frame.
const MAX_FRAME: usize = 16_384;
/// The error code for streams that are no longer needed.
const CANCEL: u32 = 8;
/// The initial window of streams in the server's settings.
const STREAM_WINDOW: i64 = 1 << 20;

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
        match head[3] {
            PING if head[4] == ACK => drop(received.pongs.fetch_add(1, Ordering::SeqCst)),
            GO_AWAY => break,
            WINDOW_UPDATE => {
                let increment = i64::from(u32::from_be_bytes(payload[..4].try_into().unwrap()));
                let window = if head[5..9] == [0; 4] { &received.connection_window } else { &received.stream_window };
                window.fetch_add(increment, Ordering::SeqCst);
            }
            _ => (),
        }
    }
    received.is_over.store(true, Ordering::SeqCst);
}

impl RawConnection {
    fn connect(served: &Served) -> RawConnection {
        let mut stream = served.connect();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat()).unwrap();
        let received = Arc::new(Received { connection_window: AtomicI64::new(65_535), ..Received::default() });
        let (reader, shared) = (stream.try_clone().unwrap(), received.clone());
        thread::spawn(move || read_frames(reader, &shared));
        RawConnection { stream, received, next_stream: 1, pings: 0 }
    }

    fn is_over(&self) -> bool {
        self.received.is_over.load(Ordering::SeqCst)
    }

    /// Sends frames; returns true if the connection is still open.
    fn send(&mut self, frames: &[u8]) -> bool {
        self.stream.write_all(frames).is_ok() && !self.is_over()
    }

    /// Returns a frame that opens a stream, and the number of the stream.
    fn headers_frame(&mut self, is_post: bool, path: &str) -> (u32, Vec<u8>) {
        let number = self.next_stream;
        self.next_stream += 2;
        let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        // Method and scheme are indexed, the other headers are literals.
        let mut block = vec![if is_post { 0x83 } else { 0x82 }, 0x86, 0x04];
        block.extend(literal(path));
        block.extend([&[0x01], &literal("localhost")[..]].concat());
        if is_post {
            block.extend([&[0x00], &literal("content-type")[..], &literal("application/x-ndjson")].concat());
        }
        let flags = if is_post { END_HEADERS } else { END_HEADERS | END_STREAM };
        (number, frame(HEADERS, flags, number, &block))
    }

    /// Sends all rows on a new stream; returns its number.
    fn send_rows(&mut self, path: &str, body: &[u8]) -> u32 {
        let (number, opening) = self.headers_frame(true, path);
        self.received.stream_window.store(STREAM_WINDOW, Ordering::SeqCst);
        assert!(self.send(&opening));
        let pieces = body.chunks(MAX_FRAME);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let windows = |received: &Received| {
                received.connection_window.load(Ordering::SeqCst).min(received.stream_window.load(Ordering::SeqCst))
            };
            assert!(self.wait_until(|received, _| windows(received) >= MAX_FRAME as i64));
            self.received.connection_window.fetch_sub(piece.len() as i64, Ordering::SeqCst);
            self.received.stream_window.fetch_sub(piece.len() as i64, Ordering::SeqCst);
            assert!(self.send(&frame(DATA, if index == last { END_STREAM } else { 0 }, number, piece)));
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
        self.wait_until(|received, raw| received.pongs.load(Ordering::SeqCst) >= raw.pings)
    }

    /// Waits until the condition holds, or until the connection ends; returns true if the condition holds.
    fn wait_until(&self, condition: impl Fn(&Received, &RawConnection) -> bool) -> bool {
        wait_for("what the server says", || {
            if condition(&self.received, self) { Some(true) } else { self.is_over().then_some(false) }
        })
    }
}

fn reset_frame(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Opens and resets so many streams, over as many connections as needed. With `waits`, the server has received their
/// headers before they are reset.
fn open_and_reset(served: &Served, path: &str, streams: u32, waits: bool) {
    let mut opened = 0;
    while opened < streams {
        let mut raw = RawConnection::connect(served);
        loop {
            let burst: Vec<_> = (0..60).map(|_| raw.headers_frame(false, path)).collect();
            opened += 60;
            let is_open = if waits {
                let opening = burst.iter().flat_map(|(_, frame)| frame.clone()).collect::<Vec<_>>();
                let resets = burst.iter().flat_map(|(number, _)| reset_frame(*number)).collect::<Vec<_>>();
                raw.send(&opening) && raw.ping() && raw.send(&resets)
            } else {
                let both = burst.into_iter().flat_map(|(number, frame)| [frame, reset_frame(number)].concat());
                raw.send(&both.collect::<Vec<_>>())
            };
            if !is_open || opened >= streams {
                break;
            }
        }
    }
}

/// Resets before and after the server has begun: requests for rows with and without a condition, streams that go on,
/// and requests that are answered immediately.
#[test]
fn streams_reset_at_once_cost_nothing() {
    alone!();
    let streams: u32 = std::env::var("ARROWWOOD_SERVE_RESETS").map_or(1_200, |streams| streams.parse().unwrap());
    let served = Served::start();
    served.numbers("t", 200_000);
    let paths = ["/v1/tables/t/rows?where=n%3C0", "/v1/tables/t/rows", "/v1/tables/t/follow?from=0", "/healthz"];
    // Runs once before measuring, to create what all requests share.
    paths.iter().for_each(|path| open_and_reset(&served, path, 60, true));
    let before = private();
    for waits in [false, true] {
        for path in paths {
            open_and_reset(&served, path, streams, waits);
            assert_eq!(served.rows("/v1/tables/t/rows?where=n%3D7").len().unwrap(), 1, "{path}");
        }
    }
    wait_until("all are done", || metric(&served, "requests") == 1 && metric(&served, "followers") == 0);
    let more = private().saturating_sub(before);
    eprintln!("{more} bytes more after {} streams", 8 * streams);
    assert!(more < 64 << 20, "{more} bytes more");
}

/// Rows that were completely sent before the reset are still parsed. Until that is done, they count towards the memory
/// for rows, so that no more is begun than there is memory for. Here they take all of it, and other requests are
/// refused meanwhile.
#[test]
fn rows_of_reset_streams_hold_memory_until_they_are_parsed() {
    const MEMORY: usize = 16 << 20;
    alone!();
    let served =
        Served::with(|_| Options { limits: Limits { ingest_memory: MEMORY, ..Limits::default() }, ..options() });
    served.writer("t", "n: int not null").close().unwrap();
    let rows = "/v1/tables/t/rows?where=n%3D123456";
    for (path, line, rows) in
        [("/v1/tables/t/rows", "{\"n\":123456}\n", rows), ("/write", "cpu,host=a usage=0.5 1\n", "/v1/tables/cpu/rows")]
    {
        let body = line.repeat(MEMORY / line.len());
        let is_refused = || {
            let reply = served.post_json("t", "{\"n\":1}");
            assert!([200, 503].contains(&reply.status), "{}", reply.text());
            reply.status == 503
        };
        let appended = || if served.get(rows).status == 200 { served.rows(rows).len().unwrap() } else { 0 };
        // Appended rows were in the queue, which holds their memory whatever happens to the request.
        let is_held_by_parser_after = |time: Duration| {
            let before = appended();
            let mut raw = RawConnection::connect(&served);
            let number = raw.send_rows(path, body.as_bytes());
            thread::sleep(time);
            assert!(raw.send(&reset_frame(number)));
            // The request has ended when the only one is that for the metrics.
            wait_until("it is given up", || metric(&served, "requests") == 1);
            let is_held = is_refused();
            wait_until("all of the memory was given back", || !is_refused());
            is_held && appended() == before
        };
        // The test can't see when exactly the parser begins: each try resets at another moment, the first 12 soon and
        // later ones, for slow machines, later and later.
        let mut tries = 0;
        let mut held = 0;
        wait_until("rows that are given up while they are parsed", || {
            held += u32::from(is_held_by_parser_after(Duration::from_millis(2 * tries)));
            tries += 1;
            tries >= 12 && held > 0
        });
    }
    // Requests that were reset before their rows were in the queue were not appended.
    let numbers = served.rows(rows).len().unwrap();
    assert_eq!(numbers % (MEMORY / "{\"n\":123456}\n".len()) as u64, 0);
}
