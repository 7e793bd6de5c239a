//! Tests HTTP/2 clients that leave one response unread while the connection is busy with pings and other responses.
//!
//! The server must disconnect them and free their memory; it must not disconnect clients that wait for rows, or that
//! read slowly.

use std::time::Duration;

use arrowwood::Value;
use arrowwood_serve::{Limits, Options};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::support::*;

/// The initial window of HTTP/2.
const WINDOW: u32 = 65_535;

/// A connection of a client.
struct Connection {
    sender: SendRequest<Bytes>,
    pings: PingPong,
    task: tokio::task::JoinHandle<Result<(), h2::Error>>,
    port: u16,
}

impl Connection {
    /// Opens a connection. Each response may be `window` bytes ahead of its reader; all of them together have no limit.
    async fn open(served: &TestServer, window: u32) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(1 << 30);
        let (sender, mut connection) = builder.handshake(stream).await.unwrap();
        let pings = connection.ping_pong().unwrap();
        Connection { sender, pings, task: tokio::spawn(connection), port: served.port }
    }

    fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Sends a request; returns the unread body of the response.
    async fn get(&mut self, path: &str) -> Result<RecvStream, h2::Error> {
        let mut sender = self.sender.clone().ready().await?;
        let uri = format!("http://127.0.0.1:{}{path}", self.port);
        let (response, _) = sender.send_request(hyper::Request::get(uri).body(()).unwrap(), true)?;
        let response = response.await?;
        assert_eq!(response.status(), 200, "{path}");
        Ok(response.into_body())
    }

    async fn ping(&mut self) -> Result<(), h2::Error> {
        self.pings.ping(Ping::opaque()).await.map(drop)
    }
}

/// Reads the next bytes of a response, and releases the window for as many.
async fn read(body: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let result = body.data().await?;
    if let Ok(bytes) = &result {
        body.flow_control().release_capacity(bytes.len()).unwrap();
    }
    Some(result)
}

const ROWS: i64 = 4_000;
const TEXT_LEN: usize = 1_000;

/// Creates a table `t` of [`ROWS`] rows, each with a text of [`TEXT_LEN`] bytes.
fn create_table_of_texts(served: &TestServer) {
    let mut writer = served.writer("t", "n: int not null, text: text");
    let text = "x".repeat(TEXT_LEN);
    for n in 0..ROWS {
        writer.append_row(&[Value::Int(n), Value::Str(&text)]).unwrap();
    }
    writer.close().unwrap();
}

fn serve_with_stall_timeout(stall: Duration) -> TestServer {
    let limits = Limits { stall, greeting: Duration::from_millis(300), ..Limits::default() };
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// Runs the client's side of a test.
fn block_on(client: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(2 * PATIENCE, client).await.expect("the client ends") });
}

/// Leaves a response unread, and keeps the connection busy at a measured pace until the server closes it.
async fn leave_response_unread(served: &TestServer, window: u32, path: &str) {
    let mut client = Connection::open(served, window).await;
    let unread = client.get(path).await.unwrap();
    let start_time = tokio::time::Instant::now();
    while !client.is_over() {
        assert!(start_time.elapsed() < PATIENCE, "{path}: the response is kept");
        // Without a window, no response can be received.
        if window > 0
            && let Ok(mut other) = client.get("/healthz").await
        {
            while let Some(Ok(_)) = read(&mut other).await {}
        }
        // A ping fails when the server has closed the connection, which ends the loop.
        let _ = client.ping().await;
        sleep(Duration::from_millis(10)).await;
    }
    drop(unread);
}

/// The memory, the files and the statement slot of such a client are freed, however busy its connection is.
#[test]
fn client_with_an_unread_response_is_disconnected() {
    let served = serve_with_stall_timeout(Duration::from_millis(700));
    create_table_of_texts(&served);
    for (window, path) in [
        (WINDOW, "/v1/tables/t/rows"),
        (WINDOW, "/v1/tables/t/follow?from=0"),
        // A response that is complete for the server, but not sent yet.
        (WINDOW, "/v1/tables/t/rows?format=csv&to=90"),
        // A response of which no byte may be sent.
        (0, "/v1/tables/t"),
    ] {
        block_on(leave_response_unread(&served, window, path));
        // The connection that requests the metrics counts as well.
        wait_until("the end of the request", || metric(&served, "requests") == 1);
    }
}

#[test]
fn client_waiting_for_rows_is_kept() {
    let stall = Duration::from_millis(300);
    let served = serve_with_stall_timeout(stall);
    served.write_numbers("t", 3);
    block_on(async {
        let mut client = Connection::open(&served, WINDOW).await;
        let mut rows = client.get("/v1/tables/t/follow?from=0").await.unwrap();
        for round in 0..3 {
            let Ok(first) = timeout(PATIENCE, read(&mut rows)).await else { panic!("no rows come in round {round}") };
            assert!(!first.expect("the stream goes on").unwrap().is_empty());
            // The timeout passes three times without rows to send.
            while let Ok(bytes) = timeout(3 * stall, read(&mut rows)).await {
                bytes.expect("the stream goes on").unwrap();
            }
            client.ping().await.unwrap();
            assert_eq!(served.post_json("t", "{\"n\":3}").status, 200);
        }
        assert!(!client.is_over());
    });
}

/// Any progress counts, however small.
#[test]
fn slow_reader_is_kept() {
    let stall = Duration::from_millis(2_000);
    let served = serve_with_stall_timeout(stall);
    create_table_of_texts(&served);
    block_on(async {
        let mut client = Connection::open(&served, WINDOW).await;
        let mut rows = client.get("/v1/tables/t/rows").await.unwrap();
        let start_time = tokio::time::Instant::now();
        let mut received = 0;
        while start_time.elapsed() < 3 * stall {
            received += read(&mut rows).await.unwrap().unwrap().len();
            // Simulates a slow client.
            sleep(Duration::from_millis(100)).await;
        }
        while let Some(bytes) = read(&mut rows).await {
            received += bytes.unwrap().len();
        }
        assert!(received > ROWS as usize * TEXT_LEN, "received {received} bytes");
    });
}
