//! A server and its producers are killed by SIGKILL, one of them or all, again and again, while batches are under way over HTTP and
//! Arrow Flight. Producers send again what was not acknowledged. What an oracle knows: each producer's batches are in the
//! table in their order, whole, once, and at least as far as they were acknowledged.
//!
//! `ARROWWOOD_SERVE_KILLS` is the number of rounds (`make torture-serve`).

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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
use crate::wait::{PATIENCE, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_arrowwood");
/// Those with even numbers speak HTTP, the others Flight.
const PRODUCERS: usize = 4;
/// What makes a process of this program a producer: its number, and the folder of the campaign.
const NUMBER: &str = "ARROWWOOD_KILLS_PRODUCER";
const FOLDER: &str = "ARROWWOOD_KILLS_FOLDER";

/// The rows of a batch: one to three.
fn copies(sequence: i64) -> i64 {
    1 + sequence % 3
}

// ---- producers, as processes of their own ----

/// What a producer's log says: batches that were acknowledged, a line each.
fn log_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("producer-{number}.log"))
}

/// A batch that was acknowledged.
struct Acknowledged {
    sequence: i64,
    first_row: Option<i64>,
    is_duplicate: bool,
}

fn acknowledged(folder: &Path, number: usize) -> Vec<Acknowledged> {
    let text = fs::read_to_string(log_of(folder, number)).unwrap_or_default();
    // A line that has no end was being written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let parse = |line: &str| {
        let json: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("producer {number}: {line}"));
        Acknowledged {
            sequence: json["sequence"].as_i64().unwrap(),
            first_row: json["first_row"].as_i64(),
            is_duplicate: json["duplicate"].as_bool().unwrap(),
        }
    };
    whole.lines().map(parse).collect()
}

struct Producer {
    folder: PathBuf,
    number: usize,
    /// The next batch, and whether it was sent before.
    sequence: i64,
    is_repeat: bool,
    log: File,
}

/// Not a test, but a process of the one below.
#[test]
fn a_producer() {
    let (Ok(number), Ok(folder)) = (std::env::var(NUMBER), std::env::var(FOLDER)) else { return };
    let number: usize = number.parse().unwrap();
    let folder = PathBuf::from(folder);
    let sequence = acknowledged(&folder, number).last().map_or(0, |last| last.sequence + 1);
    let mut log = File::options().create(true).append(true).open(log_of(&folder, number)).unwrap();
    // What a killed one has begun to write is no line.
    if fs::read(log_of(&folder, number)).unwrap().last().is_some_and(|&byte| byte != b'\n') {
        log = cut(&log_of(&folder, number), log);
    }
    let mut producer = Producer { folder, number, sequence, is_repeat: false, log };
    loop {
        // Whatever breaks is begun again, at the server that is there then.
        let _ = if number.is_multiple_of(2) { producer.send_by_http() } else { producer.send_by_flight() };
        // The server may not be there for a while: no wait for anything, but time for others.
        thread::sleep(Duration::from_millis(2));
    }
}

/// The log without the line that has no end.
fn cut(path: &Path, log: File) -> File {
    let text = fs::read(path).unwrap();
    let len = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    log.set_len(len as u64).unwrap();
    log
}

impl Producer {
    fn address(&self) -> io::Result<String> {
        fs::read_to_string(self.folder.join("address"))
    }

    /// Takes an answer in, and goes on to the next batch; every fifth is sent again, as if the answer had been lost.
    fn take(&mut self, answer: &str) {
        let json: serde_json::Value = serde_json::from_str(answer).unwrap();
        let is_next = json["sequence"].as_i64() == Some(self.sequence);
        let end = json["first_row"].as_i64().unwrap_or(0) + json["rows"].as_i64().unwrap_or(0);
        let is_durable = json["durable"].as_i64().is_some_and(|durable| durable >= end);
        let is_right = is_next && is_durable && (!self.is_repeat || json["duplicate"] == true);
        self.log.write_all(format!("{}{answer}\n", if is_right { "" } else { "wrong: " }).as_bytes()).unwrap();
        self.is_repeat = self.sequence % 5 == 0 && !self.is_repeat;
        self.sequence += i64::from(!self.is_repeat);
    }

    /// Notes an answer that should not be; the campaign finds it.
    fn refused(&mut self, answer: &str) -> io::Error {
        if !answer.contains("unavailable") {
            self.log.write_all(format!("refused: {answer}\n").as_bytes()).unwrap();
        }
        io::Error::other("refused")
    }

    fn send_by_http(&mut self) -> io::Result<()> {
        let stream = TcpStream::connect(self.address()?)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        loop {
            let (number, sequence) = (self.number, self.sequence);
            let rows: Vec<_> = (0..copies(sequence))
                .map(|copy| format!("{{\"producer\":{number},\"sequence\":{sequence},\"copy\":{copy}}}"))
                .collect();
            let body = rows.join("\n");
            let request = format!(
                "POST /v1/tables/t/rows HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nproducer: p{number}\r\n\
                 producer-sequence: {sequence}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.get_mut().write_all(request.as_bytes())?;
            match read_answer(&mut stream)? {
                (200, answer) => self.take(answer.trim_end()),
                (_, answer) => return Err(self.refused(answer.trim_end())),
            }
        }
    }

    fn send_by_flight(&mut self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { tokio::time::timeout(PATIENCE, self.put()).await.map_err(io::Error::other)? })
    }

    /// A call of `DoPut` that goes on. A batch is sent when the one before it was answered.
    async fn put(&mut self) -> io::Result<()> {
        let address = self.address()?;
        let stream = TokioIo::new(tokio::net::TcpStream::connect(&address).await?);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        // What is sent again has the number that it had: a call for each repeat.
        let command = format!("t?producer=p{}&sequence={}", self.number, self.sequence);
        let (outgoing, body) = mpsc::channel(1);
        let request = Request::post(format!("http://{address}/arrow.flight.protocol.FlightService/DoPut"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        let [schema, first] = messages(self.number, self.sequence);
        let descriptor = [varint_field(1, 2), field(2, command.as_bytes())].concat();
        let opening = frame(&[field(1, &descriptor), schema].concat());
        outgoing.send([opening, frame(&first)].concat()).await.map_err(io::Error::other)?;
        let response = sender.send_request(request.body(Coming(body)).map_err(io::Error::other)?);
        let response = response.await.map_err(io::Error::other)?;
        let status = response.headers().get("grpc-message").map(|text| format!("{text:?}"));
        if let Some(status) = status {
            return Err(self.refused(&status));
        }
        let mut answers = Answers { body: response.into_body(), buffer: Vec::new() };
        loop {
            match answers.next().await? {
                Ok(answer) => self.take(&answer),
                Err(status) => return Err(self.refused(&status)),
            }
            if self.is_repeat {
                return Ok(());
            }
            let [_, batch] = messages(self.number, self.sequence);
            outgoing.send(frame(&batch)).await.map_err(io::Error::other)?;
        }
    }
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, String)> {
    let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (mut line, mut len) = (String::new(), 0);
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(ended)?;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(ended());
        }
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => len = value.parse().map_err(io::Error::other)?,
            Some(_) => (),
            None => break,
        }
    }
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer)?;
    String::from_utf8(answer).map(|answer| (status, answer)).map_err(io::Error::other)
}

// ---- Flight, as far as it is needed ----

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

/// A field of protobuf that is bytes, or a message.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

/// The schema and a batch, each as the fields of a `FlightData`.
fn messages(number: usize, sequence: i64) -> [Vec<u8>; 2] {
    let rows = copies(sequence) as usize;
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let columns = [
        ("producer", column(vec![number as i64; rows])),
        ("sequence", column(vec![sequence; rows])),
        ("copy", column((0..rows as i64).collect())),
    ];
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

/// A body that is sent as it comes.
struct Coming(mpsc::Receiver<Vec<u8>>);

impl Body for Coming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes.into()))))
    }
}

struct Answers {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Answers {
    /// The next answer, or the status that there is instead.
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
            let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
            let frame = self.body.frame().await.ok_or_else(ended)?.map_err(io::Error::other)?;
            match frame.into_data() {
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
    /// Rows that were looked at, and of each producer the batch and the copy that are to come.
    rows: u64,
    next: [(i64, i64); PRODUCERS],
    kills: u64,
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
    command.args(["--exact", "kills::a_producer"]).env(NUMBER, number.to_string()).env(FOLDER, folder);
    Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
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
        Campaign { folder, server, producers, rows: 0, next: [(0, 0); PRODUCERS], kills: 0 }
    }

    fn kill_producers(&mut self, some: impl Fn(usize) -> bool) {
        for number in (0..PRODUCERS).filter(|&number| some(number)) {
            self.producers[number].kill();
            self.kills += 1;
            self.producers[number] = start_producer(self.folder.path(), number);
        }
    }

    fn kill_server(&mut self) {
        self.server.kill();
        self.kills += 1;
    }

    /// Kills what the round kills, and begins it anew.
    fn round(&mut self, round: u64) {
        // The moment of the kill, which is another one in each round.
        thread::sleep(Duration::from_millis(10 + (round * 37) % 90));
        match round % 3 {
            0 => self.kill_server(),
            1 => self.kill_producers(|number| number as u64 != round % PRODUCERS as u64),
            _ => {
                self.kill_server();
                self.kill_producers(|_| true);
            }
        }
        self.check();
        if round % 3 != 1 {
            self.server = start_server(self.folder.path());
        }
    }

    /// Looks at what is new in the table, and whether all that was acknowledged is there.
    fn check(&mut self) {
        let logs: Vec<_> = (0..PRODUCERS).map(|number| acknowledged(self.folder.path(), number)).collect();
        let rows = open(self.folder.path().join("data/t")).unwrap();
        let len = rows.len().unwrap();
        assert!(len >= self.rows, "{len} rows, and {} before", self.rows);
        let new = rows.slice(self.rows, len).unwrap();
        for (row, number) in new.rows().zip(self.rows..) {
            let row = row.unwrap();
            let [producer, sequence, copy] = [0, 1, 2].map(|column| match row.get(column).unwrap() {
                Value::Int(number) => number,
                other => panic!("{other}"),
            });
            let next = &mut self.next[producer as usize];
            assert_eq!((sequence, copy), *next, "row {number}, of producer {producer}");
            *next = if copy + 1 < copies(sequence) { (sequence, copy + 1) } else { (sequence + 1, 0) };
        }
        self.rows = len;
        for (number, log) in logs.iter().enumerate() {
            let (next, copy) = self.next[number];
            assert_eq!(copy, 0, "half a batch of producer {number}");
            assert!(log.last().is_none_or(|last| last.sequence < next), "producer {number}: a batch is lost");
        }
    }

    /// Whether rows are where their producers were told; how often each was acknowledged is of no matter.
    fn check_logs(&self) {
        let rows = open(self.folder.path().join("data/t")).unwrap();
        for number in 0..PRODUCERS {
            let log = acknowledged(self.folder.path(), number);
            assert!(log.windows(2).all(|pair| pair[1].sequence - pair[0].sequence <= 1), "producer {number}");
            for it in log {
                let Some(first_row) = it.first_row else {
                    assert!(it.is_duplicate, "only a row that an earlier server has committed is not known");
                    continue;
                };
                let row = rows.row(first_row as u64).unwrap();
                let expected = [number as i64, it.sequence, 0];
                let found = [0, 1, 2].map(|column| row.get(column).unwrap().to_string());
                assert_eq!(found, expected.map(|value| value.to_string()));
            }
        }
    }
}

#[test]
fn none_is_lost_and_none_is_there_twice() {
    let rounds: u64 = std::env::var("ARROWWOOD_SERVE_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let mut campaign = Campaign::start();
    // Until each has sent something: otherwise there is nothing to lose.
    let sent = |campaign: &Campaign| {
        let of = |number| acknowledged(campaign.folder.path(), number).len();
        (0..PRODUCERS).map(of).collect::<Vec<_>>()
    };
    wait_until("a batch of each producer", || sent(&campaign).iter().all(|&batches| batches > 0));
    for round in 0..rounds {
        campaign.round(round);
    }
    // All go on after the last kill.
    let before = sent(&campaign);
    wait_until("another batch of each producer", || sent(&campaign).iter().zip(&before).all(|(now, then)| now > then));
    campaign.producers.clear();
    campaign.check();
    campaign.check_logs();
    let batches = campaign.next.map(|(next, _)| next);
    let repeats = (0..PRODUCERS).flat_map(|number| acknowledged(campaign.folder.path(), number));
    let repeats = repeats.filter(|it| it.is_duplicate).count();
    println!(
        "{} kills, {batches:?} batches of {PRODUCERS} producers, {repeats} repeats, {} rows",
        campaign.kills, campaign.rows
    );
    assert!(repeats > 0);
}
