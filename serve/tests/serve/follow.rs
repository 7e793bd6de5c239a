//! Tests streams of new rows and events: in order, each once, and durable on request.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrowwood::{StreamReader, Value, Writer, WriterOptions, parse_schema, read_stream, table_stat};
use arrowwood_serve::{Limits, Options, Rights, add_token, revoke_token};

use crate::support::*;

fn follow(served: &Served, query: &str) -> StreamReader<Chunks> {
    let mut client = served.client();
    client.begin("GET", &format!("/v1/tables/t/follow{query}"), &[], b"").unwrap();
    let (status, _) = client.head().unwrap();
    assert_eq!(status, 200);
    read_stream(client.body()).unwrap()
}

fn numbers(batch: &arrow_array::RecordBatch) -> Vec<i64> {
    use arrow_array::cast::AsArray;
    batch.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec()
}

#[test]
fn followers_receive_every_row_once_and_in_order() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int not null, word: category");
    let followers: Vec<_> = (0..4).map(|_| (follow(&served, "?from=0"), Arc::new(AtomicUsize::new(0)))).collect();
    let counts: Vec<_> = followers.iter().map(|(_, count)| count.clone()).collect();
    let readers: Vec<_> = followers
        .into_iter()
        .map(|(follower, count)| {
            thread::spawn(move || {
                let mut seen = Vec::new();
                for batch in follower {
                    seen.extend(numbers(&batch.unwrap()));
                    count.store(seen.len(), Ordering::SeqCst);
                    if seen.len() >= 5_000 {
                        break;
                    }
                }
                seen
            })
        })
        .collect();
    for n in 0..5_000 {
        let word = format!("w{}", n / 100);
        writer.append_row(&[Value::Int(n), Value::Str(&word)]).unwrap();
        if n % 7 == 0 {
            writer.commit().unwrap();
        }
        if n % 500 == 0 {
            let committed = writer.committed_rows() as usize;
            wait_until("committed rows in all followers", || {
                counts.iter().all(|count| count.load(Ordering::SeqCst) >= committed)
            });
        }
    }
    writer.commit().unwrap();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), (0..5_000).collect::<Vec<_>>());
    }
}

#[test]
fn follower_resumes_where_it_stopped() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int not null");
    let mut append = |n: i64| {
        writer.append_row(&[Value::Int(n)]).unwrap();
        writer.commit().unwrap();
    };
    (0..10).for_each(&mut append);
    let mut late = follow(&served, "");
    append(10);
    assert_eq!(numbers(&late.next().unwrap().unwrap()), [10]);
    let mut resumed = follow(&served, "?from=7&columns=n");
    assert_eq!(numbers(&resumed.next().unwrap().unwrap()), [7, 8, 9, 10]);
    append(11);
    assert_eq!(numbers(&resumed.next().unwrap().unwrap()), [11]);
    assert_eq!(served.get("/v1/tables/t/follow?from=13").code(), "beyond_end");
    assert_eq!(served.get("/v1/tables/t/follow?columns=x").status, 400);
}

#[test]
fn followers_of_durable_rows_are_never_ahead_of_the_disk() {
    let served = Served::start();
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    let options = WriterOptions { sync: arrowwood::SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(served.path("t"), Some(schema), &options).unwrap();
    let mut durable = follow(&served, "?from=0&durable=true");
    let mut visible = follow(&served, "?from=0");
    for round in 0..20 {
        writer.append_row(&[Value::Int(2 * round)]).unwrap();
        writer.commit().unwrap();
        assert_eq!(numbers(&visible.next().unwrap().unwrap()), [2 * round]);
        writer.append_row(&[Value::Int(2 * round + 1)]).unwrap();
        writer.commit().unwrap();
        assert_eq!(numbers(&visible.next().unwrap().unwrap()), [2 * round + 1]);
        writer.sync().unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let batch = durable.next().unwrap().unwrap();
            let end = table_stat(served.path("t")).unwrap().unwrap().durable_end;
            seen.extend(numbers(&batch));
            assert!(seen.iter().all(|&n| (n as u64) < end), "{seen:?} of {end}");
        }
        assert_eq!(seen, [2 * round, 2 * round + 1]);
    }
}

#[test]
fn followers_of_durable_rows_keep_up_with_a_busy_table() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int not null");
    let mut durable = follow(&served, "?from=0&durable=true");
    let is_over = AtomicBool::new(false);
    let (seen, rested) = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let start_time = Instant::now();
            for n in 0.. {
                writer.append_row(&[Value::Int(n)]).unwrap();
                writer.commit().unwrap();
                if n % 50 == 0 {
                    writer.sync().unwrap();
                }
                // Writes a thousand rows per second, so that the table never rests.
                thread::sleep(Duration::from_millis(1));
                if is_over.load(Ordering::Relaxed) || start_time.elapsed() > PATIENCE / 2 {
                    break;
                }
            }
            !is_over.load(Ordering::Relaxed)
        });
        let mut seen = Vec::new();
        while seen.len() < 200 {
            seen.extend(numbers(&durable.next().unwrap().unwrap()));
        }
        is_over.store(true, Ordering::Relaxed);
        (seen, writing.join().unwrap())
    });
    // Rows must have arrived while others were written, not only after the last one.
    assert!(!rested && seen.iter().zip(0..).all(|(&n, row)| n == row), "{} rows", seen.len());
}

#[test]
fn stream_ends_completely_when_the_server_stops() {
    // The grace period is longer than the test.
    let limits = Limits { grace: 2 * PATIENCE, ..Limits::default() };
    let mut served = Served::with(|_| Options { limits, ..options() });
    served.numbers("t", 3);
    let mut stream = follow(&served, "?from=0");
    assert_eq!(numbers(&stream.next().unwrap().unwrap()), [0, 1, 2]);
    let mut events = served.client();
    events.begin("GET", "/v1/tables/t/events", &[], b"").unwrap();
    assert_eq!(events.head().unwrap().0, 200);
    events.chunk().unwrap();
    let start_time = Instant::now();
    served.stop();
    assert!(stream.next().is_none(), "the stream has its end");
    while events.chunk().unwrap().is_some() {}
    assert!(start_time.elapsed() < PATIENCE, "it has waited for what could go on");
    assert!(std::net::TcpStream::connect(("127.0.0.1", served.port)).is_err());
}

#[test]
fn stream_breaks_off_when_its_table_is_removed() {
    let served = Served::start();
    served.numbers("t", 3);
    let mut stream = follow(&served, "?from=0");
    assert_eq!(numbers(&stream.next().unwrap().unwrap()), [0, 1, 2]);
    let mut events = served.client();
    events.begin("GET", "/v1/tables/t/events", &[], b"").unwrap();
    events.head().unwrap();
    fs::remove_dir_all(served.path("t")).unwrap();
    assert!(stream.next().unwrap().is_err());
    let mut text = String::new();
    events.body().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("event: rows\nid: 3\ndata: {\"first_row\":0,\"end\":3,\"durable_end\":3}\n\n"), "{text}");
    assert!(text.ends_with("event: end\ndata: {}\n\n"), "{text}");
    // A new table with the same name is another table.
    served.numbers("t", 2);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 2);
    assert_eq!(numbers(&follow(&served, "?from=0").next().unwrap().unwrap()), [0, 1]);
}

#[test]
fn stream_ends_when_its_token_is_revoked() {
    let served = Served::with(|folder| Options {
        token_file: Some(folder.join("tokens.json")),
        ..{
            add_token(folder.join("tokens.json"), "other", Rights::all()).unwrap();
            options()
        }
    });
    served.numbers("t", 3);
    let file = served.folder.path().join("tokens.json");
    let token = add_token(&file, "reader", Rights { read: vec!["t".into()], write: vec![] }).unwrap();
    let bearer = format!("Bearer {token}");
    let mut client = served.client();
    wait_until("the token is known", || {
        served.send("GET", "/v1/tables/t", &[("authorization", &bearer)], b"").status == 200
    });
    client.begin("GET", "/v1/tables/t/follow?from=0", &[("authorization", &bearer)], b"").unwrap();
    assert_eq!(client.head().unwrap().0, 200);
    let mut stream = read_stream(client.body()).unwrap();
    assert_eq!(numbers(&stream.next().unwrap().unwrap()), [0, 1, 2]);
    revoke_token(&file, "reader").unwrap();
    assert!(stream.next().is_none());
}

#[test]
fn events_report_progress_at_limited_rate() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int not null");
    let mut client = served.client();
    client.begin("GET", "/v1/tables/t/events?interval=50", &[], b"").unwrap();
    let (status, headers) = client.head().unwrap();
    assert_eq!(status, 200);
    assert!(headers.contains(&("content-type".into(), "text/event-stream".into())));
    let start_time = Instant::now();
    let appended = thread::spawn(move || {
        for n in 0..2_000 {
            writer.append_row(&[Value::Int(n)]).unwrap();
            writer.commit().unwrap();
            // Writes for as long as several intervals of events.
            thread::sleep(Duration::from_micros(200));
        }
        writer.close().unwrap();
    });
    let mut events = Vec::new();
    loop {
        let event = String::from_utf8(client.chunk().unwrap().unwrap()).unwrap();
        let end = event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().parse::<u64>().unwrap();
        let data: serde_json::Value =
            serde_json::from_str(event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
        assert_eq!(data["end"].as_u64(), Some(end));
        events.push(end);
        if end == 2_000 && data["durable_end"].as_u64() == Some(2_000) {
            break;
        }
    }
    appended.join().unwrap();
    assert!(events.is_sorted() && events.len() as u128 <= 2 + start_time.elapsed().as_millis() / 50, "{events:?}");
    for query in ["interval=1", "interval=x", "from=1"] {
        assert_eq!(served.get(&format!("/v1/tables/t/events?{query}")).status, 400, "{query}");
    }
}

#[test]
fn dropped_rows_break_a_stream_off() {
    let served = Served::start();
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    let options = WriterOptions { segment_rows: Some(100), ..WriterOptions::default() };
    let mut writer = Writer::open(served.path("t"), Some(schema), &options).unwrap();
    (0..350).for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
    writer.commit().unwrap();
    let mut stream = follow(&served, "?from=350");
    writer.drop_before(350).unwrap();
    writer.append_row(&[Value::Int(350)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(numbers(&stream.next().unwrap().unwrap()), [350]);
    let gone = served.get("/v1/tables/t/follow?from=0");
    assert_eq!((gone.status, gone.json()["first_row"].as_u64()), (410, Some(300)));
}

#[test]
fn files_can_not_be_followed() {
    let served = Served::start();
    served.numbers("t", 3);
    fs::copy(served.path("t").join("00000000000000000000.arrow"), served.path("f.arrow")).unwrap();
    assert_eq!(served.get("/v1/tables/f.arrow/follow").status, 400);
}

/// A file has one event, and heartbeats until it is replaced.
#[test]
fn events_of_a_file_are_heartbeats_until_it_is_replaced() {
    let served = Served::start();
    served.numbers("t", 3);
    let segment = served.path("t").join("00000000000000000000.arrow");
    for replace in [0, 1] {
        fs::copy(&segment, served.path("f.arrow")).unwrap();
        let snapshot = served.get("/v1/tables/f.arrow").json()["snapshot"].as_str().unwrap().to_owned();
        let mut events = served.client();
        events.begin("GET", &format!("/v1/tables/f.arrow/events?alive=100&snapshot={snapshot}"), &[], b"").unwrap();
        assert_eq!(events.head().unwrap().0, 200);
        let mut chunk = || String::from_utf8(events.chunk().unwrap().unwrap()).unwrap();
        assert_eq!(chunk(), "event: rows\nid: 3\ndata: {\"first_row\":0,\"end\":3,\"durable_end\":3}\n\n");
        assert_eq!([chunk(), chunk()], [": alive\n\n"; 2]);
        if replace == 0 {
            fs::copy(&segment, served.path("g")).unwrap();
            fs::rename(served.path("g"), served.path("f.arrow")).unwrap();
        } else {
            fs::remove_file(served.path("f.arrow")).unwrap();
        }
        let last = std::iter::repeat_with(chunk).find(|text| text != ": alive\n\n");
        assert_eq!(last.as_deref(), Some("event: end\ndata: {}\n\n"));
        let reply = served.get(&format!("/v1/tables/f.arrow/events?snapshot={snapshot}"));
        assert_eq!(reply.status, if replace == 0 { 409 } else { 404 });
    }
    for query in ["alive=99", "alive=60001", "alive=x", "snapshot=other"] {
        assert!([400, 409].contains(&served.get(&format!("/v1/tables/t/events?{query}")).status), "{query}");
    }
}

/// A stream has one schema. It ends where the table's schema changes, and a client that requests the next row gets the
/// new one.
#[test]
fn stream_ends_where_the_schema_changes() {
    let served = Served::start();
    let mut writer = served.writer("t", "n: int32 not null");
    let mut stream = follow(&served, "?from=0");
    writer.append_row(&[Value::Int(0)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
    writer.alter(&Arc::new(parse_schema("n: int64 not null, word: text").unwrap())).unwrap();
    writer.append_row(&[Value::Int(1 << 40), Value::Str("x")]).unwrap();
    writer.commit().unwrap();
    assert!(stream.next().is_none(), "it ends, and is not broken off");
    let mut stream = follow(&served, "?from=1");
    assert_eq!(stream.schema().fields().len(), 2);
    assert_eq!(numbers(&stream.next().unwrap().unwrap()), [1 << 40]);
    // A stream of selected columns ends only if these change.
    let mut stream = follow(&served, "?from=1&columns=word");
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
    writer.alter(&Arc::new(parse_schema("n: int64 not null, word: text, more: bool").unwrap())).unwrap();
    writer.append_row(&[Value::Int(2), Value::Str("y"), Value::Null]).unwrap();
    writer.commit().unwrap();
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1);
}
