//! Kills a server and its producers with SIGKILL, one of them or all, while batches are sent over HTTP and Flight.
//!
//! Producers resend what was not acknowledged. The table must have each producer's batches in order, complete, without
//! duplicates, and at least up to the last acknowledged one.
//!
//! `ARROWWOOD_SERVE_KILLS` is the number of rounds (`make torture-serve`).

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{Dataset, StreamEncoder, Value, Writer, WriterOptions, open, parse_schema};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;

use crate::running::Running;
use crate::serve::{connect, read_response};
use crate::wait::{PATIENCE, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood");
/// The number of producers. Even ones use HTTP, odd ones Flight.
const PRODUCERS: usize = 4;
/// Environment variables of producers, which are processes of this program: their number, and the campaign's folder.
const NUMBER: &str = "ARROWWOOD_KILLS_PRODUCER";
const FOLDER: &str = "ARROWWOOD_KILLS_FOLDER";

/// Returns the number of rows of a batch: one to three.
fn row_count(sequence: i64) -> i64 {
    1 + sequence % 3
}

// ---- producers, each a process ----

/// Returns the path of a producer's log, which has a line for each acknowledged batch.
fn log_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("producer-{number}.log"))
}

/// The acknowledgement of a batch.
struct Acknowledgement {
    sequence: i64,
    first_row: Option<i64>,
    is_duplicate: bool,
}

fn read_log(folder: &Path, number: usize) -> Vec<Acknowledgement> {
    let text = fs::read_to_string(log_path(folder, number)).unwrap_or_default();
    // A last line without an end was being written by a killed producer.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let mut acknowledgements = Vec::new();
    for line in complete.lines() {
        let json: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("producer {number}: {line}"));
        acknowledgements.push(Acknowledgement {
            sequence: json["sequence"].as_i64().unwrap(),
            first_row: json["first_row"].as_i64(),
            is_duplicate: json["duplicate"].as_bool().unwrap(),
        });
    }
    acknowledgements
}

struct Producer {
    folder: PathBuf,
    number: usize,
    /// The number of the next batch.
    sequence: i64,
    /// True if this batch was acknowledged already, and is sent again.
    is_repeat: bool,
    log: File,
}

/// Runs a producer of the test below. Passes if it is not started by that test.
#[test]
fn producer_process() {
    let Ok(number) = std::env::var(NUMBER) else { return };
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let number: usize = number.parse().unwrap();
    let folder = PathBuf::from(folder);
    let sequence = read_log(&folder, number).last().map_or(0, |last| last.sequence + 1);
    let log = File::options().create(true).append(true).open(log_path(&folder, number)).unwrap();
    remove_incomplete_line(&log_path(&folder, number), &log);
    let mut producer = Producer { folder, number, sequence, is_repeat: false, log };
    loop {
        let result = if number.is_multiple_of(2) { producer.send_by_http() } else { producer.send_by_flight() };
        // Errors are expected when the server is killed: the producer connects to the next one.
        let _ = result;
        // Leaves the processor to others while there is no server.
        thread::sleep(Duration::from_millis(2));
    }
}

/// Removes a last line without an end, which a killed producer has left.
fn remove_incomplete_line(path: &Path, log: &File) {
    let text = fs::read(path).unwrap();
    let complete_len = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    log.set_len(complete_len as u64).unwrap();
}

impl Producer {
    fn address(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("address"))
    }

    /// Logs an acknowledgement, and goes on to the next batch. Every fifth batch is sent again, as if its
    /// acknowledgement had been lost.
    fn on_acknowledged(&mut self, answer: &str) {
        let json: serde_json::Value = serde_json::from_str(answer).unwrap();
        let is_next = json["sequence"].as_i64() == Some(self.sequence);
        let end = json["first_row"].as_i64().unwrap_or(0) + json["rows"].as_i64().unwrap_or(0);
        let is_durable = json["durable"].as_i64().is_some_and(|durable| durable >= end);
        let is_expected = is_next && is_durable && (!self.is_repeat || json["duplicate"] == true);
        // The campaign fails at lines that are no JSON.
        let prefix = if is_expected { "" } else { "wrong: " };
        self.log.write_all(format!("{prefix}{answer}\n").as_bytes()).unwrap();
        self.is_repeat = self.sequence % 5 == 0 && !self.is_repeat;
        self.sequence += i64::from(!self.is_repeat);
    }

    /// Logs a refusal that must not happen, for the campaign to find. A server may be unavailable while it ends.
    fn on_refused(&mut self, answer: &str) -> io::Error {
        if !answer.contains("unavailable") {
            self.log.write_all(format!("refused: {answer}\n").as_bytes()).unwrap();
        }
        io::Error::other("refused")
    }

    fn send_by_http(&mut self) -> io::Result<()> {
        let mut stream = connect(&self.address()?)?;
        loop {
            let number = self.number;
            let sequence = self.sequence;
            let mut body = String::new();
            for copy in 0..row_count(sequence) {
                body += &format!("{{\"producer\":{number},\"sequence\":{sequence},\"copy\":{copy}}}\n");
            }
            let request = format!(
                "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nproducer: p{number}\r\n\
                 producer-sequence: {sequence}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.get_mut().write_all(request.as_bytes())?;
            let (status, answer) = read_response(&mut stream)?;
            if status != 200 {
                return Err(self.on_refused(answer.trim_end()));
            }
            self.on_acknowledged(answer.trim_end());
        }
    }

    fn send_by_flight(&mut self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let call = tokio::time::timeout(PATIENCE, self.put()).await;
            call.map_err(io::Error::other)?
        })
    }

    /// Sends batches over one call of `DoPut`, each when the one before it was acknowledged.
    async fn put(&mut self) -> io::Result<()> {
        let address = self.address()?;
        let stream = TokioIo::new(tokio::net::TcpStream::connect(&address).await?);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        // The numbers of a call's batches ascend, so each repeat needs a call of its own.
        let command = format!("t?producer=p{}&sequence={}", self.number, self.sequence);
        let (outgoing, body) = mpsc::channel(1);
        let request = Request::post(format!("http://{address}/arrow.flight.protocol.FlightService/DoPut"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let [schema, first_batch] = encode_messages(self.number, self.sequence);
        let descriptor = [varint_field(1, 2), field(2, command.as_bytes())].concat();
        let opening = frame(&[field(1, &descriptor), schema].concat());
        outgoing.send([opening, frame(&first_batch)].concat()).await.map_err(io::Error::other)?;
        let response = sender.send_request(request.body(ChannelBody(body)).map_err(io::Error::other)?);
        let response = response.await.map_err(io::Error::other)?;
        let status = response.headers().get("grpc-message").map(|text| format!("{text:?}"));
        if let Some(status) = status {
            return Err(self.on_refused(&status));
        }
        let mut answers = Answers { body: response.into_body(), buffer: Vec::new() };
        loop {
            match answers.next().await? {
                Ok(answer) => self.on_acknowledged(&answer),
                Err(status) => return Err(self.on_refused(&status)),
            }
            if self.is_repeat {
                return Ok(());
            }
            let [_, batch] = encode_messages(self.number, self.sequence);
            outgoing.send(frame(&batch)).await.map_err(io::Error::other)?;
        }
    }
}

// ---- a minimal client of Flight ----

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn varint_field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// Encodes a protobuf field that is bytes, or a message.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// Encodes the schema and a batch, each as the fields of a `FlightData`.
fn encode_messages(number: usize, sequence: i64) -> [Vec<u8>; 2] {
    let rows = row_count(sequence);
    let producers: ArrayRef = Arc::new(Int64Array::from(vec![number as i64; rows as usize]));
    let sequences: ArrayRef = Arc::new(Int64Array::from(vec![sequence; rows as usize]));
    let copies: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let columns = [("producer", producers), ("sequence", sequences), ("copy", copies)];
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
    let mut encoder = StreamEncoder::new(rows.schema().clone()).unwrap();
    let schema = field(2, &encoder.schema_message().metadata);
    let (encoded, _) = encoder.encode(&rows, 1 << 20).unwrap();
    let [message] = &encoded[..] else { panic!("one message") };
    let mut body = Vec::new();
    for buffer in &message.body {
        body.extend_from_slice(buffer);
        body.resize(body.len().next_multiple_of(64), 0);
    }
    [schema, [field(2, &message.metadata), field(1000, &body)].concat()]
}

/// A request body whose frames come from a channel.
struct ChannelBody(mpsc::Receiver<Vec<u8>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes.into()))))
    }
}

/// The messages of a response.
struct Answers {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Answers {
    /// Waits for the next answer, or for the status that ends the call.
    async fn next(&mut self) -> io::Result<Result<String, String>> {
        loop {
            if let Some((prefix, rest)) = self.buffer.split_first_chunk::<5>() {
                let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if rest.len() >= len {
                    // A `PutResult` has one field; its JSON begins with the first brace.
                    let start = rest[..len].iter().position(|&byte| byte == b'{').unwrap_or(0);
                    let answer = String::from_utf8_lossy(&rest[start..len]).into_owned();
                    self.buffer.drain(..5 + len);
                    return Ok(Ok(answer));
                }
            }
            let Some(frame) = self.body.frame().await else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            match frame.map_err(io::Error::other)?.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(trailers) => return Ok(Err(format!("{trailers:?}"))),
            }
        }
    }
}

// ---- the campaign ----

struct Campaign {
    folder: tempfile::TempDir,
    server: Running,
    producers: Vec<Running>,
    /// The number of rows that were checked.
    checked_rows: u64,
    /// The row that must follow for each producer.
    next: [RowId; PRODUCERS],
    kills: u64,
}

/// A row of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowId {
    sequence: i64,
    /// The number of the row in its batch.
    copy: i64,
}

impl RowId {
    fn next(self) -> RowId {
        if self.copy + 1 < row_count(self.sequence) {
            RowId { copy: self.copy + 1, ..self }
        } else {
            RowId { sequence: self.sequence + 1, copy: 0 }
        }
    }
}

fn start_server(folder: &Path) -> Running {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(folder.join("data"));
    let mut server = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let url = server.line();
    let address = url.rsplit_once('/').expect("a URL").1;
    fs::write(folder.join("address.new"), address).unwrap();
    fs::rename(folder.join("address.new"), folder.join("address")).unwrap();
    server
}

fn start_producer(folder: &Path, number: usize) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::producer_process"]).env(NUMBER, number.to_string()).env(FOLDER, folder);
    Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn expect_int(value: Value<'_>) -> i64 {
    match value {
        Value::Int(number) => number,
        other => panic!("{other} is no integer"),
    }
}

impl Campaign {
    fn start() -> Campaign {
        let folder = tempfile::tempdir().unwrap();
        let schema = parse_schema("producer: int not null, sequence: int not null, copy: int not null").unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        let options = WriterOptions { segment_rows: Some(4_096), ..WriterOptions::default() };
        Writer::open(folder.path().join("data/t"), Some(schema.into()), &options).unwrap().close().unwrap();
        let server = start_server(folder.path());
        let producers = (0..PRODUCERS).map(|number| start_producer(folder.path(), number)).collect();
        Campaign { folder, server, producers, checked_rows: 0, next: [RowId::default(); PRODUCERS], kills: 0 }
    }

    /// Kills a producer, and starts it again.
    fn kill_producer(&mut self, number: usize) {
        self.producers[number].kill();
        self.kills += 1;
        self.producers[number] = start_producer(self.folder.path(), number);
    }

    /// Returns the number of acknowledgements of each producer.
    fn acknowledged_counts(&self) -> [usize; PRODUCERS] {
        std::array::from_fn(|number| read_log(self.folder.path(), number).len())
    }

    fn kill_server(&mut self) {
        self.server.kill();
        self.kills += 1;
    }

    /// Kills the server, some producers or all, and starts them again.
    fn run_round(&mut self, round: u64) {
        // Kills at another moment in each round.
        thread::sleep(Duration::from_millis(10 + (round * 37) % 90));
        let kills_server = round % 3 != 1;
        let kills_producers = !round.is_multiple_of(3);
        if kills_server {
            self.kill_server();
        }
        if kills_producers {
            for number in 0..PRODUCERS {
                // If the server goes on, one producer does, too.
                let is_spared = !kills_server && number as u64 == round % PRODUCERS as u64;
                if !is_spared {
                    self.kill_producer(number);
                }
            }
        }
        self.check_table();
        if kills_server {
            self.server = start_server(self.folder.path());
        }
    }

    /// Checks the new rows of the table, and that no acknowledged batch is missing.
    fn check_table(&mut self) {
        let logs: Vec<_> = (0..PRODUCERS).map(|number| read_log(self.folder.path(), number)).collect();
        let rows = open(self.folder.path().join("data/t")).unwrap();
        let len = rows.len().unwrap();
        assert!(len >= self.checked_rows, "{len} rows, and {} before", self.checked_rows);
        let new_rows = rows.slice(self.checked_rows, len).unwrap();
        for (row, number) in new_rows.rows().zip(self.checked_rows..) {
            let row = row.unwrap();
            let [producer, sequence, copy] = [0, 1, 2].map(|column| expect_int(row.get(column).unwrap()));
            let expected = &mut self.next[producer as usize];
            assert_eq!(RowId { sequence, copy }, *expected, "row {number}, of producer {producer}");
            *expected = expected.next();
        }
        self.checked_rows = len;
        for (number, log) in logs.iter().enumerate() {
            let next = self.next[number];
            assert_eq!(next.copy, 0, "half a batch of producer {number}");
            if let Some(last) = log.last() {
                assert!(last.sequence < next.sequence, "producer {number}: a batch is lost");
            }
        }
    }

    /// Checks that rows are where their acknowledgements say. A batch may be acknowledged several times.
    fn check_logs(&self) {
        let rows = open(self.folder.path().join("data/t")).unwrap();
        for number in 0..PRODUCERS {
            let log = read_log(self.folder.path(), number);
            assert!(log.windows(2).all(|pair| pair[1].sequence - pair[0].sequence <= 1), "producer {number}");
            for acknowledgement in log {
                let Some(first_row) = acknowledgement.first_row else {
                    // A server does not know the rows that an earlier one has committed.
                    assert!(acknowledgement.is_duplicate, "a new batch without a row");
                    continue;
                };
                let row = rows.row(first_row as u64).unwrap();
                let actual = [0, 1, 2].map(|column| expect_int(row.get(column).unwrap()));
                assert_eq!(actual, [number as i64, acknowledgement.sequence, 0]);
            }
        }
    }
}

#[test]
fn batches_survive_kills_exactly_once() {
    let rounds: u64 = std::env::var("ARROWWOOD_SERVE_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let mut campaign = Campaign::start();
    // A kill before the first batches would have nothing to lose.
    wait_until("a batch of each producer", || campaign.acknowledged_counts().iter().all(|&batches| batches > 0));
    for round in 0..rounds {
        campaign.run_round(round);
    }
    // All producers must go on after the last kill.
    let counts_before = campaign.acknowledged_counts();
    wait_until("another batch of each producer", || {
        let counts = campaign.acknowledged_counts();
        (0..PRODUCERS).all(|number| counts[number] > counts_before[number])
    });
    campaign.producers.clear();
    campaign.check_table();
    campaign.check_logs();
    let batches = campaign.next.map(|next| next.sequence);
    let mut repeats = 0;
    for number in 0..PRODUCERS {
        let log = read_log(campaign.folder.path(), number);
        repeats += log.iter().filter(|acknowledgement| acknowledgement.is_duplicate).count();
    }
    println!(
        "{} kills, {batches:?} batches of {PRODUCERS} producers, {repeats} repeats, {} rows",
        campaign.kills, campaign.checked_rows
    );
    assert!(repeats > 0);
}
