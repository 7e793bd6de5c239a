//! Tests streams of new rows and of events: they are in order, without duplicates, and durable on request.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrowwood::{StreamReader, SyncPolicy, Value, Writer, WriterOptions, parse_schema, read_stream, table_stat};
use arrowwood_serve::{Limits, Options, Rights, add_token, revoke_token};

use crate::support::*;

fn follow(served: &TestServer, query: &str) -> StreamReader<BodyReader> {
    let mut client = served.client();
    client.send_request("GET", &format!("/v1/tables/t/follow{query}"), &[], b"").unwrap();
    let (status, _) = client.read_head().unwrap();
    assert_eq!(status, 200);
    read_stream(client.body()).unwrap()
}

/// Opens a stream of events.
fn listen(served: &TestServer, table: &str, query: &str) -> Client {
    let mut client = served.client();
    client.send_request("GET", &format!("/v1/tables/{table}/events{query}"), &[], b"").unwrap();
    let (status, headers) = client.read_head().unwrap();
    assert_eq!(status, 200);
    assert!(headers.contains(&("content-type".into(), "text/event-stream".into())), "{headers:?}");
    client
}

fn next_event(events: &mut Client) -> String {
    String::from_utf8(events.read_chunk().unwrap().unwrap()).unwrap()
}

fn numbers_in(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// Returns the numbers in the next batch of a stream.
fn next_numbers(stream: &mut StreamReader<BodyReader>) -> Vec<i64> {
    numbers_in(&stream.next().unwrap().unwrap())
}

fn append_number(writer: &mut Writer, n: i64) {
    writer.append_row(&[Value::Int(n)]).unwrap();
    writer.commit().unwrap();
}

/// Opens a writer of a new table `t` of one column `n`.
fn create_table_of_numbers(served: &TestServer, options: &WriterOptions) -> Writer {
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    Writer::open(served.path("t"), Some(schema), options).unwrap()
}

/// A thread that follows a table.
struct Follower {
    received: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Vec<i64>>,
}

impl Follower {
    /// Starts a thread that receives `rows` rows.
    fn start(served: &TestServer, rows: usize) -> Follower {
        let stream = follow(served, "?from=0");
        let received = Arc::new(AtomicUsize::new(0));
        let counter = received.clone();
        let thread = thread::spawn(move || {
            let mut numbers = Vec::new();
            for batch in stream {
                numbers.extend(numbers_in(&batch.unwrap()));
                counter.store(numbers.len(), Ordering::SeqCst);
                if numbers.len() >= rows {
                    break;
                }
            }
            numbers
        });
        Follower { received, thread }
    }
}

#[test]
fn followers_receive_every_row_once_and_in_order() {
    const ROWS: i64 = 5_000;
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int not null, word: category");
    let followers: Vec<_> = (0..4).map(|_| Follower::start(&served, ROWS as usize)).collect();
    for n in 0..ROWS {
        let word = format!("w{}", n / 100);
        writer.append_row(&[Value::Int(n), Value::Str(&word)]).unwrap();
        if n % 7 == 0 {
            writer.commit().unwrap();
        }
        if n % 500 == 0 {
            let committed = writer.committed_rows() as usize;
            wait_until("committed rows in all followers", || {
                followers.iter().all(|follower| follower.received.load(Ordering::SeqCst) >= committed)
            });
        }
    }
    writer.commit().unwrap();
    for follower in followers {
        assert_eq!(follower.thread.join().unwrap(), (0..ROWS).collect::<Vec<_>>());
    }
}

#[test]
fn follower_resumes_where_it_stopped() {
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int not null");
    for n in 0..10 {
        append_number(&mut writer, n);
    }
    let mut from_end = follow(&served, "");
    append_number(&mut writer, 10);
    assert_eq!(next_numbers(&mut from_end), [10]);
    let mut resumed = follow(&served, "?from=7&columns=n");
    assert_eq!(next_numbers(&mut resumed), [7, 8, 9, 10]);
    append_number(&mut writer, 11);
    assert_eq!(next_numbers(&mut resumed), [11]);
    assert_eq!(served.get("/v1/tables/t/follow?from=13").code(), "beyond_end");
    assert_eq!(served.get("/v1/tables/t/follow?columns=x").status, 400);
}

#[test]
fn followers_of_durable_rows_are_never_ahead_of_the_disk() {
    let served = TestServer::start();
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = create_table_of_numbers(&served, &options);
    let mut durable = follow(&served, "?from=0&durable=true");
    let mut visible = follow(&served, "?from=0");
    for round in 0..20 {
        let expected = [2 * round, 2 * round + 1];
        for n in expected {
            append_number(&mut writer, n);
            assert_eq!(next_numbers(&mut visible), [n]);
        }
        writer.sync().unwrap();
        let mut received = Vec::new();
        while received.len() < expected.len() {
            let numbers = next_numbers(&mut durable);
            let durable_end = table_stat(served.path("t")).unwrap().unwrap().durable_end;
            assert!(numbers.iter().all(|&n| (n as u64) < durable_end), "{numbers:?} of {durable_end}");
            received.extend(numbers);
        }
        assert_eq!(received, expected);
    }
}

/// Appends numbers and syncs some of them, until `is_over` is true or half of the patience has passed; returns true in
/// the first case.
fn append_until(writer: &mut Writer, is_over: &AtomicBool) -> bool {
    let start_time = Instant::now();
    for n in 0.. {
        append_number(writer, n);
        if n % 50 == 0 {
            writer.sync().unwrap();
        }
        // Writes a thousand rows per second, so that the table never rests.
        thread::sleep(Duration::from_millis(1));
        if is_over.load(Ordering::Relaxed) {
            return true;
        }
        if start_time.elapsed() > PATIENCE / 2 {
            return false;
        }
    }
    unreachable!("numbers are endless")
}

#[test]
fn followers_of_durable_rows_keep_up_with_a_busy_table() {
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int not null");
    let mut durable = follow(&served, "?from=0&durable=true");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| append_until(&mut writer, &is_over));
        let mut received = Vec::new();
        while received.len() < 200 {
            received.extend(next_numbers(&mut durable));
        }
        is_over.store(true, Ordering::Relaxed);
        let came_while_writing = writing.join().unwrap();
        assert!(came_while_writing, "rows came only after the last one was written");
        assert_eq!(received, (0..received.len() as i64).collect::<Vec<_>>());
    });
}

#[test]
fn stream_ends_completely_when_the_server_stops() {
    // The grace period is longer than the test.
    let limits = Limits { grace: 2 * PATIENCE, ..Limits::default() };
    let mut served = TestServer::start_with(|_| Options { limits, ..options() });
    served.write_numbers("t", 3);
    let mut stream = follow(&served, "?from=0");
    assert_eq!(next_numbers(&mut stream), [0, 1, 2]);
    let mut events = listen(&served, "t", "");
    events.read_chunk().unwrap();
    let start_time = Instant::now();
    served.stop();
    assert!(stream.next().is_none(), "the stream has its end");
    while events.read_chunk().unwrap().is_some() {}
    assert!(start_time.elapsed() < PATIENCE, "the server waited for endless streams");
    assert!(TcpStream::connect(("127.0.0.1", served.port)).is_err());
}

#[test]
fn stream_breaks_off_when_its_table_is_removed() {
    let served = TestServer::start();
    served.write_numbers("t", 3);
    let mut stream = follow(&served, "?from=0");
    assert_eq!(next_numbers(&mut stream), [0, 1, 2]);
    let events = listen(&served, "t", "");
    fs::remove_dir_all(served.path("t")).unwrap();
    assert!(stream.next().unwrap().is_err());
    let mut text = String::new();
    events.body().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("event: rows\nid: 3\ndata: {\"first_row\":0,\"end\":3,\"durable_end\":3}\n\n"), "{text}");
    assert!(text.ends_with("event: end\ndata: {}\n\n"), "{text}");
    // A new table with the same name is another table.
    served.write_numbers("t", 2);
    assert_eq!(served.get_rows("/v1/tables/t/rows").len().unwrap(), 2);
    assert_eq!(next_numbers(&mut follow(&served, "?from=0")), [0, 1]);
}

#[test]
fn stream_ends_when_its_token_is_revoked() {
    let served = TestServer::start_with(|folder| {
        let file = folder.join("tokens.json");
        add_token(&file, "other", Rights::all()).unwrap();
        Options { token_file: Some(file), ..options() }
    });
    served.write_numbers("t", 3);
    let file = served.folder.path().join("tokens.json");
    let token = add_token(&file, "reader", Rights { read: vec!["t".into()], write: vec![] }).unwrap();
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let mut client = served.client();
    wait_until("the token is known", || served.send("GET", "/v1/tables/t", &headers, b"").status == 200);
    client.send_request("GET", "/v1/tables/t/follow?from=0", &headers, b"").unwrap();
    assert_eq!(client.read_head().unwrap().0, 200);
    let mut stream = read_stream(client.body()).unwrap();
    assert_eq!(next_numbers(&mut stream), [0, 1, 2]);
    revoke_token(&file, "reader").unwrap();
    assert!(stream.next().is_none());
}

/// Returns the value of a field of an event.
fn event_field<'a>(event: &'a str, name: &str) -> &'a str {
    let prefix = format!("{name}: ");
    event.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("no {name} in {event}"))
}

#[test]
fn events_report_progress_at_limited_rate() {
    const ROWS: u64 = 2_000;
    const INTERVAL_MS: u128 = 50;
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int not null");
    let mut client = listen(&served, "t", &format!("?interval={INTERVAL_MS}"));
    let start_time = Instant::now();
    let writing = thread::spawn(move || {
        for n in 0..ROWS {
            append_number(&mut writer, n as i64);
            // Writes for as long as several intervals of events.
            thread::sleep(Duration::from_micros(200));
        }
        writer.close().unwrap();
    });
    let mut ends = Vec::new();
    loop {
        let event = next_event(&mut client);
        let end: u64 = event_field(&event, "id").parse().unwrap();
        let data: serde_json::Value = serde_json::from_str(event_field(&event, "data")).unwrap();
        assert_eq!(data["end"], end);
        ends.push(end);
        if end == ROWS && data["durable_end"] == ROWS {
            break;
        }
    }
    writing.join().unwrap();
    assert!(ends.is_sorted(), "{ends:?}");
    let max_events = 2 + start_time.elapsed().as_millis() / INTERVAL_MS;
    assert!(ends.len() as u128 <= max_events, "{ends:?}");
    for query in ["interval=1", "interval=x", "from=1"] {
        assert_eq!(served.get(&format!("/v1/tables/t/events?{query}")).status, 400, "{query}");
    }
}

#[test]
fn dropped_rows_break_a_stream_off() {
    let served = TestServer::start();
    let options = WriterOptions { segment_rows: Some(100), ..WriterOptions::default() };
    let mut writer = create_table_of_numbers(&served, &options);
    for n in 0..350 {
        writer.append_row(&[Value::Int(n)]).unwrap();
    }
    writer.commit().unwrap();
    let mut stream = follow(&served, "?from=350");
    writer.drop_before(350).unwrap();
    append_number(&mut writer, 350);
    assert_eq!(next_numbers(&mut stream), [350]);
    let gone = served.get("/v1/tables/t/follow?from=0");
    assert_eq!(gone.status, 410, "{}", gone.text());
    assert_eq!(gone.json()["first_row"], 300);
}

#[test]
fn files_can_not_be_followed() {
    let served = TestServer::start();
    served.write_numbers("t", 3);
    fs::copy(served.path("t").join("00000000000000000000.arrow"), served.path("f.arrow")).unwrap();
    assert_eq!(served.get("/v1/tables/f.arrow/follow").status, 400);
}

const HEARTBEAT: &str = ": alive\n\n";

/// Opens a stream of events of the snapshot of `f.arrow`; returns it and the name of the snapshot.
fn listen_to_file(served: &TestServer) -> (Client, String) {
    let snapshot = served.get("/v1/tables/f.arrow").json()["snapshot"].as_str().unwrap().to_owned();
    let mut events = listen(served, "f.arrow", &format!("?alive=100&snapshot={snapshot}"));
    let first = next_event(&mut events);
    assert_eq!(first, "event: rows\nid: 3\ndata: {\"first_row\":0,\"end\":3,\"durable_end\":3}\n\n");
    assert_eq!(next_event(&mut events), HEARTBEAT);
    assert_eq!(next_event(&mut events), HEARTBEAT);
    (events, snapshot)
}

fn assert_ends_after_heartbeats(events: &mut Client) {
    let mut event = next_event(events);
    while event == HEARTBEAT {
        event = next_event(events);
    }
    assert_eq!(event, "event: end\ndata: {}\n\n");
}

/// A file has one event, and heartbeats until it is replaced or removed.
#[test]
fn events_of_a_file_are_heartbeats_until_it_is_replaced() {
    let served = TestServer::start();
    served.write_numbers("t", 3);
    let segment = served.path("t").join("00000000000000000000.arrow");
    let file = served.path("f.arrow");

    fs::copy(&segment, &file).unwrap();
    let (mut events, snapshot) = listen_to_file(&served);
    fs::copy(&segment, served.path("g")).unwrap();
    fs::rename(served.path("g"), &file).unwrap();
    assert_ends_after_heartbeats(&mut events);
    let reply = served.get(&format!("/v1/tables/f.arrow/events?snapshot={snapshot}"));
    assert_eq!(reply.status, 409, "{}", reply.text());

    fs::copy(&segment, &file).unwrap();
    let (mut events, snapshot) = listen_to_file(&served);
    fs::remove_file(&file).unwrap();
    assert_ends_after_heartbeats(&mut events);
    let reply = served.get(&format!("/v1/tables/f.arrow/events?snapshot={snapshot}"));
    assert_eq!(reply.status, 404, "{}", reply.text());

    for query in ["alive=99", "alive=60001", "alive=x", "snapshot=other"] {
        let reply = served.get(&format!("/v1/tables/t/events?{query}"));
        assert!([400, 409].contains(&reply.status), "{query}: {}", reply.text());
    }
}

/// A stream has one schema. It ends where the table's schema changes, and a client that requests the next row gets the
/// new one.
#[test]
fn stream_ends_where_the_schema_changes() {
    let served = TestServer::start();
    let mut writer = served.writer("t", "n: int32 not null");
    let mut stream = follow(&served, "?from=0");
    append_number(&mut writer, 0);
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
    writer.alter(&Arc::new(parse_schema("n: int64 not null, word: text").unwrap())).unwrap();
    writer.append_row(&[Value::Int(1 << 40), Value::Str("x")]).unwrap();
    writer.commit().unwrap();
    assert!(stream.next().is_none(), "it ends, and is not broken off");
    let mut stream = follow(&served, "?from=1");
    assert_eq!(stream.schema().fields().len(), 2);
    assert_eq!(next_numbers(&mut stream), [1 << 40]);

    // A stream of selected columns ends only if these change.
    let mut stream = follow(&served, "?from=1&columns=word");
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
    writer.alter(&Arc::new(parse_schema("n: int64 not null, word: text, more: bool").unwrap())).unwrap();
    writer.append_row(&[Value::Int(2), Value::Str("y"), Value::Null]).unwrap();
    writer.commit().unwrap();
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
}
