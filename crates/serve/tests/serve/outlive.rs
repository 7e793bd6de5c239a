//! Tests requests whose table is replaced, or whose token is revoked, before they end.

use std::fs;
use std::io::Write;
use std::time::Duration;

use arrowwood::{Writer, WriterOptions, open};
use arrowwood_serve::{Limits, Options, Rights, add_token, revoke_token};
use bytes::Bytes;
use hyper::HeaderMap;
use tokio::time::timeout;

use crate::support::flight::{Descriptor, SERVICE, framed, put};
use crate::support::*;
use crate::tables::number_batch;

/// Starts a server that closes written tables soon.
fn serve_closing_tables_soon() -> TestServer {
    let limits = Limits { writer: Duration::from_millis(200), ..Limits::default() };
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// Waits until no process has the table open for writing.
fn wait_until_released(served: &TestServer, name: &str) {
    wait_until("the table is free", || Writer::open(served.path(name), None, &WriterOptions::default()).is_ok());
}

/// Replaces a table by another one with its name. The old directory is kept, so that the new one can't get its inode
/// number.
fn replace_table(served: &TestServer, name: &str) {
    fs::rename(served.path(name), served.folder.path().join("removed")).unwrap();
    served.write_numbers(name, 0);
}

/// Begins a request, and waits until the server has checked its table and token, and asks for the body.
fn begin_request(served: &TestServer, method: &str, path: &str, headers: &[&str]) -> Client {
    let mut client = served.client();
    let headers = headers.join("\r\n");
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n{headers}\r\n\r\n");
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.read_head().unwrap().0, 100);
    client
}

/// A `DoPut` in progress.
struct PutCall {
    request: h2::SendStream<Bytes>,
    response: h2::RecvStream,
}

/// The end of a call.
#[derive(Debug)]
struct CallStatus {
    code: String,
    message: String,
}

impl PutCall {
    /// Begins a call with the first part of its request.
    async fn begin(served: &TestServer, first: Vec<u8>) -> PutCall {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::post(format!("http://127.0.0.1:{}{SERVICE}/DoPut", served.port));
        let request = request.header("content-type", "application/grpc").body(()).unwrap();
        let mut sender = sender.ready().await.unwrap();
        let (response, mut request) = sender.send_request(request, false).unwrap();
        request.send_data(first.into(), false).unwrap();
        PutCall { request, response: response.await.unwrap().into_body() }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.request.send_data(bytes.into(), false).unwrap();
    }

    /// Waits for the next answer; `None` at the end.
    async fn next_answer(&mut self) -> Option<Bytes> {
        let data = timeout(PATIENCE, self.response.data()).await.expect("an answer");
        data.map(Result::unwrap)
    }

    async fn wait_for_status(&mut self) -> CallStatus {
        let trailers = self.response.trailers().await.unwrap().expect("trailers");
        CallStatus { code: header_text(&trailers, "grpc-status"), message: header_text(&trailers, "grpc-message") }
    }
}

/// Returns the value of a header; an empty text if it is missing.
fn header_text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
}

fn list_tables(served: &TestServer, authorization: &str) -> Reply {
    served.send("GET", "/v1/tables", &[("authorization", authorization)], b"")
}

#[test]
fn put_does_not_write_to_a_recreated_table() {
    const FAILED_PRECONDITION: &str = "9";
    let served = serve_closing_tables_soon();
    served.write_numbers("t", 0);
    let messages = put(Descriptor::path("t"), &[number_batch([0]), number_batch([1])]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = async {
        let mut call = PutCall::begin(&served, framed(&messages[..2])).await;
        assert!(call.next_answer().await.is_some(), "the first batch is answered");
        wait_until_released(&served, "t");
        replace_table(&served, "t");
        wait_until_released(&served, "t");
        call.send(framed(&messages[2..]));
        assert_eq!(call.next_answer().await, None);
        let status = call.wait_for_status().await;
        assert_eq!(status.code, FAILED_PRECONDITION, "{status:?}");
        assert!(status.message.contains("removed or replaced"), "{status:?}");
        // The unfinished call does not keep the table open.
        wait_until_released(&served, "t");
        assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 0);
        assert_eq!(served.post_json("t", "{\"n\":7}").status, 200);
        assert_eq!(format_values(&served.get_rows("/v1/tables/t/rows")), [["7"]]);
    };
    runtime.block_on(async { timeout(2 * PATIENCE, client).await.expect("the client ends") });
}

#[test]
fn post_does_not_write_to_a_recreated_table() {
    let served = serve_closing_tables_soon();
    served.write_numbers("t", 0);
    let headers = ["content-type: application/json", "content-length: 7"];
    let mut client = begin_request(&served, "POST", "/v1/tables/t/rows", &headers);
    replace_table(&served, "t");
    client.stream.get_mut().write_all(b"{\"n\":1}").unwrap();
    let reply = client.read_reply("POST").unwrap();
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert_eq!(reply.code(), "file_changed", "{}", reply.text());
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 0);
}

/// Neither the writer that notices the truncation nor the next one may reject the rows as invalid.
#[test]
fn truncated_table_is_reported_as_an_error_of_the_server() {
    let served = TestServer::start_with(|_| options());
    served.write_numbers("t", 0);
    assert_eq!(served.post_json("t", "{\"n\":1}").status, 200);
    for entry in fs::read_dir(served.path("t")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "arrow") {
            fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
        }
    }
    for _ in 0..3 {
        let reply = served.post_json("t", "{\"n\":2}");
        assert_eq!(reply.status, 500, "{}", reply.text());
    }
}

#[test]
fn revoked_token_creates_no_table() {
    let served = TestServer::start_with(|folder| {
        add_token(folder.join("tokens.json"), "other", Rights::all()).unwrap();
        Options { token_file: Some(folder.join("tokens.json")), ..options() }
    });
    let file = served.folder.path().join("tokens.json");
    let bearer = format!("Bearer {}", add_token(&file, "maker", Rights::all()).unwrap());
    wait_until("the token is known", || list_tables(&served, &bearer).status == 200);
    let headers = [&format!("authorization: {bearer}"), "content-length: 6"];
    let mut client = begin_request(&served, "PUT", "/v1/tables/t", &headers);
    revoke_token(&file, "maker").unwrap();
    wait_until("the token is revoked", || list_tables(&served, &bearer).status == 401);
    client.stream.get_mut().write_all(b"n: int").unwrap();
    assert_eq!(client.read_reply("PUT").unwrap().status, 401);
    assert!(!served.path("t").exists());
}
