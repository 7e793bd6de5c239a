//! A client of Arrow Flight's `DoPut` over a plain socket: HTTP/2 and gRPC as far as one call needs them.

use std::io::{Read, Write};
use std::net::TcpStream;

use arrowwood::{Dataset, EncodedMessage, StreamEncoder};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The kinds of frames that matter here.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// The largest payload of a frame, and the largest window.
const FRAME: usize = 16 << 10;
const WINDOW: u32 = (1 << 31) - 1;

/// A call to which record batches are sent without waiting for their answers.
pub struct PutStream {
    stream: TcpStream,
    encoder: StreamEncoder,
    /// Messages to be sent.
    ready: Vec<u8>,
    /// Bytes that the server takes: of the connection, of the stream.
    windows: [i64; 2],
    received: Vec<u8>,
    /// Parts of answers.
    answers: Vec<u8>,
}

impl PutStream {
    /// Begins a call for the table and parameters in `command`, with rows like those of `like`.
    ///
    /// # Panics
    /// If that fails, as all methods do.
    pub fn begin(address: &str, command: &str, like: &Dataset) -> PutStream {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let encoder = StreamEncoder::new(like.schema().clone()).expect("a schema");
        let descriptor = [&[1 << 3, 2][..], &field(2, command.as_bytes())].concat();
        let first = [field(1, &descriptor), field(2, &encoder.schema_message().metadata)].concat();
        let windows = [65_535; 2];
        let mut put =
            PutStream { stream, encoder, ready: Vec::new(), windows, received: Vec::new(), answers: Vec::new() };
        // Any number of answers may be sent.
        let settings = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
        let more = (WINDOW - 65_535).to_be_bytes();
        let mut header = vec![0x83, 0x86];
        for (name, value) in [
            (":authority", "localhost"),
            (":path", "/arrow.flight.protocol.FlightService/DoPut"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ] {
            header
                .extend([&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat());
        }
        let opening =
            [frame(SETTINGS, 0, 0, &settings), frame(WINDOW_UPDATE, 0, 0, &more), frame(HEADERS, 4, 1, &header)];
        put.stream.write_all(&[PREFACE, &opening.concat()].concat()).expect("it is taken");
        put.push(&first);
        put
    }

    /// Adds a batch to those to be sent.
    pub fn add(&mut self, batch: &Dataset) {
        let (messages, _) = self.encoder.encode(batch, 1 << 20).expect("messages");
        for EncodedMessage { metadata, body, .. } in messages {
            let mut bytes = Vec::new();
            for buffer in &body {
                bytes.extend_from_slice(buffer);
                bytes.resize(bytes.len().next_multiple_of(64), 0);
            }
            self.push(&[field(2, &metadata), field(1000, &bytes)].concat());
        }
    }

    fn push(&mut self, message: &[u8]) {
        self.ready.push(0);
        self.ready.extend((message.len() as u32).to_be_bytes());
        self.ready.extend_from_slice(message);
    }

    /// Sends what was added, as far as the server takes it.
    pub fn send(&mut self) {
        let room = usize::try_from(self.windows[0].min(self.windows[1])).unwrap_or(0);
        let rest = self.ready.split_off(room.min(self.ready.len()));
        let sent = std::mem::replace(&mut self.ready, rest);
        let frames: Vec<u8> = sent.chunks(FRAME).flat_map(|part| frame(DATA, 0, 1, part)).collect();
        self.stream.write_all(&frames).expect("it is taken");
        self.windows = self.windows.map(|window| window - sent.len() as i64);
    }

    /// Waits for answers; returns those that have come, as JSON.
    pub fn receive(&mut self) -> Vec<String> {
        let mut part = [0; 64 << 10];
        let len = self.stream.read(&mut part).expect("frames");
        assert!(len > 0, "the connection was closed");
        self.received.extend_from_slice(&part[..len]);
        let mut at = 0;
        while let Some(head) = self.received.get(at..at + 9) {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = self.received.get(at + 9..at + 9 + len) else { break };
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let reply = match (head[3], head[4]) {
                (DATA, _) => {
                    self.answers.extend_from_slice(payload);
                    None
                }
                (SETTINGS, 0) => {
                    for setting in payload.chunks_exact(6) {
                        // The initial window of streams.
                        if setting[..2] == [0, 4] {
                            let window = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                            self.windows[1] += i64::from(window) - 65_535;
                        }
                    }
                    Some(frame(SETTINGS, 1, 0, &[]))
                }
                (PING, 0) => Some(frame(PING, 1, 0, payload)),
                (WINDOW_UPDATE, _) => {
                    let more = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                    self.windows[usize::from(stream > 0)] += i64::from(more);
                    None
                }
                // The header of the answer; that of its end has another flag.
                (HEADERS, flags) => {
                    assert!(flags & 1 == 0, "the call has ended: {}", String::from_utf8_lossy(payload));
                    None
                }
                (SETTINGS | PING, _) => None,
                (kind, _) => panic!("a frame of kind {kind}"),
            };
            at += 9 + len;
            if let Some(reply) = reply {
                self.stream.write_all(&reply).expect("it is taken");
            }
        }
        self.received.drain(..at);
        self.whole()
    }

    /// The answers that are complete.
    fn whole(&mut self) -> Vec<String> {
        let (mut at, mut answers) = (0, Vec::new());
        while let Some(head) = self.answers.get(at..at + 5) {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let Some(message) = self.answers.get(at + 5..at + 5 + len) else { break };
            // A `PutResult` has one field, whose text begins with the first brace.
            let start = message.iter().position(|&byte| byte == b'{').expect("an object");
            answers.push(String::from_utf8(message[start..].to_vec()).expect("text"));
            at += 5 + len;
        }
        self.answers.drain(..at);
        answers
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field of protobuf that is bytes, or a message.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
