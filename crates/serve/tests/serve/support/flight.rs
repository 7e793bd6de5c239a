//! A client of Arrow Flight that can also send what no real client would.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrowwood::{Dataset, StreamEncoder};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::time::Interval;

use super::{PATIENCE, TestServer};

pub const SERVICE: &str = "/arrow.flight.protocol.FlightService";
pub const METHODS: [&str; 8] =
    ["ListFlights", "GetFlightInfo", "GetSchema", "DoGet", "DoPut", "DoAction", "ListActions", "DoExchange"];

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub command: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    pub path: Vec<String>,
}

impl Descriptor {
    pub fn path(name: &str) -> Descriptor {
        Descriptor { kind: 1, command: Vec::new(), path: vec![name.into()] }
    }

    pub fn command(text: &str) -> Descriptor {
        Descriptor { kind: 2, command: text.into(), path: Vec::new() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Ticket {
    #[prost(bytes = "vec", tag = "1")]
    pub ticket: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Data {
    #[prost(message, optional, tag = "1")]
    pub descriptor: Option<Descriptor>,
    #[prost(bytes = "vec", tag = "2")]
    pub header: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub app_metadata: Vec<u8>,
    #[prost(bytes = "vec", tag = "1000")]
    pub body: Vec<u8>,
}

/// The end of a call, and the messages of its response.
#[derive(Debug)]
pub struct CallResult {
    pub status: u16,
    pub message: String,
    pub answers: Vec<Vec<u8>>,
}

pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

/// A request body that sends one byte after each `tick`.
pub struct Trickle {
    rest: VecDeque<u8>,
    tick: Interval,
}

impl Trickle {
    /// Must be called within a runtime.
    fn new(bytes: Vec<u8>, tick: Duration) -> Trickle {
        Trickle { rest: bytes.into(), tick: tokio::time::interval(tick) }
    }
}

impl Body for Trickle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.tick.poll_tick(context));
        Poll::Ready(self.rest.pop_front().map(|byte| Ok(Frame::data(Bytes::copy_from_slice(&[byte])))))
    }
}

/// Makes a call with an arbitrary request body.
pub fn call(served: &TestServer, method: &str, body: Vec<u8>) -> CallResult {
    call_with_body(served, method, || Full::new(Bytes::from(body)))
}

/// Makes a call whose request is sent byte by byte.
pub fn trickled(served: &TestServer, method: &str, body: Vec<u8>, tick: Duration) -> CallResult {
    call_with_body(served, method, || Trickle::new(body, tick))
}

fn call_with_body<B>(served: &TestServer, method: &str, body: impl FnOnce() -> B) -> CallResult
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::post(format!("http://127.0.0.1:{}{SERVICE}/{method}", served.port))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body())
            .unwrap();
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        assert_eq!(response.status(), 200, "{method}");
        let mut headers = response.headers().clone();
        let collected = tokio::time::timeout(PATIENCE, response.into_body().collect()).await.unwrap().unwrap();
        headers.extend(collected.trailers().cloned().unwrap_or_default());
        connection.abort();
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut bytes = &collected.to_bytes()[..];
        let mut answers = Vec::new();
        while let Some((prefix, rest)) = bytes.split_first_chunk::<5>() {
            assert_eq!(prefix[0], 0);
            let (answer, rest) = rest.split_at(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize);
            answers.push(answer.to_vec());
            bytes = rest;
        }
        assert!(bytes.is_empty(), "whole messages");
        let status = text("grpc-status").expect("a status").parse().unwrap();
        CallResult { status, message: text("grpc-message").unwrap_or_default(), answers }
    })
}

/// Encodes the messages of a `DoPut` of some batches.
pub fn put(descriptor: Descriptor, batches: &[RecordBatch]) -> Vec<Data> {
    let whole = Dataset::try_from(batches.to_vec()).unwrap();
    let mut encoder = StreamEncoder::new(whole.schema().clone()).unwrap();
    let header = encoder.schema_message().metadata;
    let mut messages = vec![Data { descriptor: Some(descriptor), header, ..Data::default() }];
    for batch in batches {
        let (encoded, _) = encoder.encode(&Dataset::try_from(vec![batch.clone()]).unwrap(), 1 << 20).unwrap();
        messages.extend(encoded.into_iter().map(|message| {
            let mut body = Vec::new();
            for buffer in &message.body {
                body.extend_from_slice(buffer);
                body.resize(body.len().next_multiple_of(64), 0);
            }
            Data { header: message.metadata, body, ..Data::default() }
        }));
    }
    messages
}

pub fn framed(messages: &[Data]) -> Vec<u8> {
    messages.iter().flat_map(|message| frame(&message.encode_to_vec())).collect()
}

/// Encodes messages as an Arrow stream.
pub fn stream(messages: &[Data]) -> Vec<u8> {
    let mut stream = Vec::new();
    for Data { header, body, .. } in messages {
        let len = header.len().next_multiple_of(8);
        stream.extend(u32::MAX.to_le_bytes());
        stream.extend((len as u32).to_le_bytes());
        stream.extend(header);
        stream.resize(stream.len() + len - header.len(), 0);
        stream.extend(body);
    }
    stream.extend([u32::MAX.to_le_bytes(), [0; 4]].as_flattened());
    stream
}

/// Requests rows with `DoGet`; returns them as an Arrow stream.
pub fn get(served: &TestServer, ticket: &str) -> Vec<u8> {
    let call_result = call(served, "DoGet", frame(&Ticket { ticket: ticket.into() }.encode_to_vec()));
    assert_eq!(call_result.status, 0, "{ticket}: {}", call_result.message);
    stream(&call_result.answers.iter().map(|answer| Data::decode(&answer[..]).unwrap()).collect::<Vec<_>>())
}
