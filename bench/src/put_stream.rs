//! A minimal client for Arrow Flight's `DoPut` over a plain socket.
//!
//! It implements as much of HTTP/2 and gRPC as one call needs, so that the client's own cost stays small.

use std::io::{Read, Write};
use std::net::TcpStream;

use arrowwood::{Dataset, EncodedMessage, StreamEncoder};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The types of HTTP/2 frames that are handled.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Flags of frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The setting for the initial window of streams, big-endian.
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
const DEFAULT_WINDOW: u32 = 65_535;
const MAX_WINDOW: u32 = (1 << 31) - 1;
/// The largest payload that every peer accepts.
const MAX_FRAME: usize = 16 << 10;
const FRAME_HEAD: usize = 9;
/// The length of the head of a gRPC message: a compression flag, and four bytes with the message's length.
const MESSAGE_HEAD: usize = 5;
/// The only stream, as the client has only one call.
const STREAM: u32 = 1;

/// A call over which record batches are sent without waiting for their answers.
pub struct PutStream {
    stream: TcpStream,
    encoder: StreamEncoder,
    /// Messages to be sent.
    pending: Vec<u8>,
    /// Bytes that the server accepts: on the connection, and on the stream.
    windows: [i64; 2],
    /// Received bytes that are no complete frame yet.
    received: Vec<u8>,
    /// The payload of answers that are not complete yet.
    answers: Vec<u8>,
}

impl PutStream {
    /// Begins a call for the table and parameters in `command`, with the schema of `template`.
    ///
    /// # Panics
    /// If that fails, as all methods do.
    pub fn begin(address: &str, command: &str, template: &Dataset) -> PutStream {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let encoder = StreamEncoder::new(template.schema().clone()).expect("a schema");
        // A descriptor of type CMD.
        let descriptor = [&[1 << 3, 2][..], &field(2, command.as_bytes())].concat();
        let first_message = [field(1, &descriptor), field(2, &encoder.schema_message().metadata)].concat();
        let mut put = PutStream {
            stream,
            encoder,
            pending: Vec::new(),
            windows: [i64::from(DEFAULT_WINDOW); 2],
            received: Vec::new(),
            answers: Vec::new(),
        };
        // With the largest windows, the server never waits for us to accept answers.
        let settings = [&INITIAL_WINDOW_SIZE[..], &MAX_WINDOW.to_be_bytes()].concat();
        let window_increment = (MAX_WINDOW - DEFAULT_WINDOW).to_be_bytes();
        // Indexed headers of HPACK's static table: POST, http.
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
        let frames = [
            frame(SETTINGS, 0, 0, &settings),
            frame(WINDOW_UPDATE, 0, 0, &window_increment),
            frame(HEADERS, END_HEADERS, STREAM, &header),
        ];
        put.stream.write_all(&[PREFACE, &frames.concat()].concat()).expect("it is taken");
        put.push_message(&first_message);
        put
    }

    /// Adds a batch to the ones to be sent.
    pub fn add(&mut self, batch: &Dataset) {
        let (messages, _) = self.encoder.encode(batch, 1 << 20).expect("messages");
        for EncodedMessage { metadata, body, .. } in messages {
            let mut bytes = Vec::new();
            for buffer in &body {
                bytes.extend_from_slice(buffer);
                bytes.resize(bytes.len().next_multiple_of(64), 0);
            }
            self.push_message(&[field(2, &metadata), field(1000, &bytes)].concat());
        }
    }

    fn push_message(&mut self, message: &[u8]) {
        self.pending.push(0);
        self.pending.extend((message.len() as u32).to_be_bytes());
        self.pending.extend_from_slice(message);
    }

    /// Sends pending messages, as far as the server's windows permit.
    pub fn send(&mut self) {
        let window = usize::try_from(self.windows[0].min(self.windows[1])).unwrap_or(0);
        let rest = self.pending.split_off(window.min(self.pending.len()));
        let sent = std::mem::replace(&mut self.pending, rest);
        let frames: Vec<u8> = sent.chunks(MAX_FRAME).flat_map(|part| frame(DATA, 0, STREAM, part)).collect();
        self.stream.write_all(&frames).expect("it is taken");
        self.windows = self.windows.map(|window| window - sent.len() as i64);
    }

    /// Waits for bytes from the server; returns the answers that are complete, as JSON.
    pub fn receive(&mut self) -> Vec<String> {
        let mut buffer = [0; 64 << 10];
        let len = self.stream.read(&mut buffer).expect("frames");
        assert!(len > 0, "the connection was closed");
        self.received.extend_from_slice(&buffer[..len]);
        let mut start = 0;
        while let Some(head) = self.received.get(start..start + FRAME_HEAD) {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let payload_start = start + FRAME_HEAD;
            let Some(payload) = self.received.get(payload_start..payload_start + len) else { break };
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let reply = match (head[3], head[4]) {
                (DATA, _) => {
                    self.answers.extend_from_slice(payload);
                    None
                }
                (SETTINGS, 0) => {
                    for setting in payload.chunks_exact(6) {
                        if setting[..2] == INITIAL_WINDOW_SIZE {
                            let window = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                            self.windows[1] += i64::from(window) - i64::from(DEFAULT_WINDOW);
                        }
                    }
                    Some(frame(SETTINGS, ACK, 0, &[]))
                }
                (PING, 0) => Some(frame(PING, ACK, 0, payload)),
                (WINDOW_UPDATE, _) => {
                    let increment = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]);
                    self.windows[usize::from(stream > 0)] += i64::from(increment);
                    None
                }
                // Headers at the start of the answer don't end the stream, trailers do.
                (HEADERS, flags) => {
                    assert!(flags & END_STREAM == 0, "the call has ended: {}", String::from_utf8_lossy(payload));
                    None
                }
                (SETTINGS | PING, _) => None,
                (kind, _) => panic!("a frame of kind {kind}"),
            };
            start = payload_start + len;
            if let Some(reply) = reply {
                self.stream.write_all(&reply).expect("it is taken");
            }
        }
        self.received.drain(..start);
        self.take_complete_answers()
    }

    fn take_complete_answers(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        let mut start = 0;
        while let Some(head) = self.answers.get(start..start + MESSAGE_HEAD) {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let message_start = start + MESSAGE_HEAD;
            let Some(message) = self.answers.get(message_start..message_start + len) else { break };
            // A `PutResult` has one field, whose text begins with the first brace.
            let text_start = message.iter().position(|&byte| byte == b'{').expect("an object");
            answers.push(String::from_utf8(message[text_start..].to_vec()).expect("text"));
            start = message_start + len;
        }
        self.answers.drain(..start);
        answers
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a protobuf field that is bytes, or a message.
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
