//! Tests that invalid, broken-off and meaningless calls of Arrow Flight end with a status, and the server goes on.
//! `tests/python/test_flight.py` tests stock clients.

use std::sync::Arc;
use std::time::Duration;

use crate::support::flight::{Data, Descriptor, METHODS, SERVICE, call, frame, framed};
use crate::support::{Served, flight, options, values};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Dataset, NUMBERING, Value, Writer, WriterOptions, open};
use arrowwood_serve::{Limits, Options};
use proptest::prelude::*;
use prost::Message;

fn batch(start: i64, rows: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + rows));
    let words: ArrayRef =
        Arc::new(StringArray::from_iter((start..start + rows).map(|n| (n % 3 > 0).then(|| format!("word {n}")))));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("word", words, true)]).unwrap()
}

/// Encodes a `DoPut` of some batches to table `t`.
fn put(batches: &[RecordBatch]) -> Vec<Data> {
    flight::put(Descriptor::path("t"), batches)
}

/// Neither an announced size nor a slow transfer may reserve memory.
#[test]
fn calls_without_rights_or_rows_hold_no_memory() {
    let reading = Served::with(|_| Options { read_only: true, ..options() });
    for method in ["DoPut", "DoExchange"] {
        let call_result = call(&reading, method, frame(&vec![0; 100 << 10]));
        assert!(call_result.message.contains("at most 65536 bytes"), "{call_result:?}");
    }
    let limits = Limits { part: Duration::from_millis(50), ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let call_result = flight::trickled(&served, "DoPut", frame(&[0; 600]), Duration::from_millis(20));
    assert!(call_result.message.contains("no part of a message came"), "{call_result:?}");
}

/// Dictionaries are kept for the whole call, in addition to the limit of its rows.
#[test]
fn dictionaries_of_a_call_count_as_memory() {
    let limits = Limits { ingest_memory: 1 << 20, ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let texts = |of: &str| {
        let words = (0..400).map(|n| format!("{of}{n:01000}")).collect::<Vec<_>>();
        let keys: arrow_array::DictionaryArray<arrow_array::types::Int32Type> =
            words.iter().map(String::as_str).collect();
        RecordBatch::try_from_iter([("word", std::sync::Arc::new(keys) as ArrayRef)]).unwrap()
    };
    served.writer("words", "word: text").close().unwrap();
    let all = flight::put(Descriptor::path("words"), &["a", "b", "c", "d"].map(texts));
    // Sends each dictionary without the batch that would follow it.
    let (schema, rest) = all.split_first().unwrap();
    let dictionaries = rest.iter().step_by(2).cloned();
    let calls = std::iter::once(schema.clone()).chain(dictionaries).collect::<Vec<_>>();
    let call_result = call(&served, "DoPut", framed(&calls));
    assert!(call_result.message.contains("the memory for rows"), "{call_result:?}");
    let call_result = call(&served, "DoPut", framed(&calls[..2]));
    assert_eq!(call_result.status, 0, "{call_result:?}");
    // The schema counts as well.
    let batch = texts("a");
    let metadata = [("about".to_owned(), "x".repeat(700_000))].into();
    let schema = batch.schema().as_ref().clone().with_metadata(metadata);
    let batch = batch.with_schema(schema.into()).unwrap();
    let calls = flight::put(Descriptor::path("words"), &[batch]);
    for method in ["DoPut", "DoExchange"] {
        let call_result = call(&served, method, framed(&calls[..2]));
        assert!(call_result.message.contains("the memory for rows"), "{method}: {call_result:?}");
    }
}

fn table(served: &Served) -> Vec<Vec<String>> {
    values(&open(served.path("t")).unwrap())
}

#[test]
fn batches_before_an_invalid_one_stay() {
    let served = Served::start();
    served.writer("t", "n: int, word: text").close().unwrap();
    let good = put(&[batch(0, 5), batch(5, 7)]);
    let call_result = call(&served, "DoPut", framed(&good));
    assert_eq!((call_result.status, call_result.answers.len()), (0, 2), "{}", call_result.message);
    let mut messages = put(&[batch(12, 3), batch(15, 3)]);
    // The offsets of this batch's text are not ascending.
    messages[2].body.truncate(64);
    let call_result = call(&served, "DoPut", framed(&messages));
    assert_eq!((call_result.status, call_result.answers.len()), (3, 1), "{}", call_result.message);
    let all = Dataset::try_from(vec![batch(0, 15)]).unwrap();
    assert_eq!(table(&served), values(&all));
}

/// Parses the answers of a call.
fn answers(call_result: &flight::CallResult) -> Vec<serde_json::Value> {
    let text = |answer: &Vec<u8>| answer[answer.iter().position(|&byte| byte == b'{').unwrap()..].to_vec();
    call_result.answers.iter().map(|answer| serde_json::from_slice(&text(answer)).unwrap()).collect()
}

/// Makes a call of a producer whose batches all arrive at once.
fn numbered(served: &Served, sequence: usize, batches: &[RecordBatch]) -> flight::CallResult {
    let command = Descriptor::command(&format!("t?producer=p&sequence={sequence}"));
    call(served, "DoPut", framed(&flight::put(command, batches)))
}

/// A replica has no positions of the producers of its rows.
#[test]
fn replica_rejects_numbered_batches_until_it_is_promoted() {
    let mut served = Served::start();
    let mut writer = served.writer("t", "n: int, word: text");
    writer.append_row(&[Value::Int(0), Value::Null]).unwrap();
    writer.commit_with(&[(NUMBERING, 1)]).unwrap();
    writer.close().unwrap();
    let command = Descriptor::command("t?producer=p&sequence=4&follow=false");
    let exchanged = |served: &Served| call(served, "DoExchange", framed(&flight::put(command.clone(), &[batch(4, 1)])));
    for call_result in [numbered(&served, 4, &[batch(4, 1)]), numbered(&served, 0, &[batch(0, 1)]), exchanged(&served)]
    {
        assert_eq!((call_result.status, call_result.answers.len()), (9, 0), "{}", call_result.message);
        assert!(
            call_result.message.starts_with("replica: ") && call_result.message.contains("arrowwood promote"),
            "{call_result:?}"
        );
    }
    assert_eq!(table(&served).len(), 1);
    // Rows without a number are not deduplicated, so they are accepted.
    let plain = call(&served, "DoPut", framed(&put(&[batch(1, 2)])));
    assert_eq!((plain.status, table(&served).len()), (0, 3), "{}", plain.message);
    served.stop();
    let mut writer = Writer::open(served.path("t"), None, &WriterOptions::default()).unwrap();
    writer.promote(&[("producer:p", 4)]).unwrap();
    writer.close().unwrap();
    let served = served.restarted();
    for (sequence, is_duplicate) in [(4, true), (5, false)] {
        let call_result = numbered(&served, sequence, &[batch(sequence as i64, 1)]);
        assert_eq!(call_result.status, 0, "{}", call_result.message);
        assert_eq!(answers(&call_result)[0]["duplicate"], is_duplicate, "{sequence}");
    }
    assert_eq!(numbered(&served, 7, &[batch(7, 1)]).status, 9, "one is missing");
    assert_eq!(table(&served).len(), 4);
}

/// Batches that arrive together share a commit, but each has its own number, acknowledgement and rows.
#[test]
fn batches_that_arrive_together_are_acknowledged_one_by_one() {
    let served = Served::start();
    served.writer("t", "n: int, word: text").close().unwrap();
    // From one row to more than are received at a time.
    let sizes: Vec<i64> = (0..600).map(|n| [1, 2, 3, 1, 1, 40][n % 6] + if n == 301 { 9_000 } else { 0 }).collect();
    let starts: Vec<i64> = sizes.iter().scan(0, |end, size| Some(std::mem::replace(end, *end + size))).collect();
    let batches: Vec<_> = starts.iter().zip(&sizes).map(|(start, size)| batch(*start, *size)).collect();
    let sent = |range: std::ops::Range<usize>| numbered(&served, range.start, &batches[range]);
    assert_eq!(sent(0..250).status, 0);
    // Resends some batches with new ones; the first one is a duplicate.
    for (range, known) in [(100..600, 150), (599..600, 1), (20..30, 10)] {
        let call_result = sent(range.clone());
        assert_eq!((call_result.status, call_result.answers.len()), (0, range.len()), "{}", call_result.message);
        for (at, answer) in answers(&call_result).into_iter().enumerate() {
            let number = range.start + at;
            assert_eq!((&answer["sequence"], &answer["duplicate"]), (&number.into(), &(at < known).into()));
            assert!(answer["durable"].as_i64().unwrap() >= starts[number] + sizes[number], "{answer}");
            if at >= known {
                assert_eq!((&answer["first_row"], &answer["rows"]), (&starts[number].into(), &sizes[number].into()));
            }
        }
    }
    assert_eq!(sent(0..250).answers.len(), 250);
    assert_eq!(numbered(&served, 601, &batches[..2]).status, 9, "a gap");
    assert_eq!(table(&served), values(&Dataset::try_from(batches).unwrap()));
}

/// An invalid batch ends its call. The batches before it stay, and none after it is appended, even if it has arrived.
#[test]
fn no_batch_after_an_invalid_one_is_appended() {
    let served = Served::start();
    let options = arrowwood::WriterOptions { sorted_by: Some("n".into()), ..Default::default() };
    let schema = Arc::new(arrowwood::parse_schema("n: int, word: text").unwrap());
    arrowwood::Writer::open(served.path("t"), Some(schema), &options).unwrap().close().unwrap();
    for (round, producer) in ["", "?producer=p&sequence=0"].into_iter().enumerate() {
        let first = 1_000 * round as i64;
        let mut batches: Vec<_> = (first..first + 400).map(|n| batch(n, 1)).collect();
        // The writer rejects this batch, because its row belongs before others.
        batches[33] = batch(first, 1);
        let command = Descriptor::command(&format!("t{producer}"));
        let call_result = call(&served, "DoPut", framed(&flight::put(command, &batches)));
        assert_eq!((call_result.status, call_result.answers.len()), (3, 33), "{}", call_result.message);
        let rows = open(served.path("t")).unwrap();
        assert_eq!(rows.len().unwrap(), 33 * (round as u64 + 1));
    }
    // The decoder rejects this batch.
    let mut messages = put(&(2_000..2_400).map(|n| batch(n, 1)).collect::<Vec<_>>());
    messages[34].header.truncate(40);
    let call_result = call(&served, "DoPut", framed(&messages));
    assert_eq!((call_result.status, call_result.answers.len()), (3, 33), "{}", call_result.message);
    assert_eq!(open(served.path("t")).unwrap().len().unwrap(), 99);
}

/// The bytes of received rows are limited. A call waits for its own rows to be written, so it may send more in total.
#[test]
fn call_may_send_more_than_the_memory_for_rows() {
    let served = Served::with(|_| {
        let mut options = options();
        options.limits.ingest_memory = 192 << 10;
        options
    });
    served.writer("t", "n: int, word: text").close().unwrap();
    let batches: Vec<_> = (0..500).map(|n| batch(50 * n, 50)).collect();
    let call_result = numbered(&served, 0, &batches);
    assert_eq!((call_result.status, call_result.answers.len()), (0, 500), "{}", call_result.message);
    assert_eq!(table(&served), values(&Dataset::try_from(batches).unwrap()));
}

#[test]
fn invalid_calls_end_with_a_status() {
    let served = Served::with(|_| {
        let mut options = options();
        options.limits = crate::support::impatient();
        options
    });
    served.numbers("t", 10);
    let lies = [
        vec![],
        vec![0],
        vec![0, 0, 0, 0],
        vec![0, 0, 0, 0, 0],
        vec![1, 0, 0, 0, 0],
        vec![0, 0xff, 0xff, 0xff, 0xff],
        vec![0, 0, 0, 0, 9, 8, 1],
        frame(&[0xff; 40]),
        frame(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        frame(&Data { header: vec![7; 3], ..Data::default() }.encode_to_vec()),
        frame(&Descriptor { kind: 1, command: vec![], path: vec!["t".into(); 9] }.encode_to_vec()),
        frame(&Descriptor { kind: 7, command: vec![0; 9], path: vec![] }.encode_to_vec()),
    ];
    for method in METHODS {
        for lie in &lies {
            let call_result = call(&served, method, lie.clone());
            let is_question = !["ListFlights", "ListActions"].contains(&method);
            assert!(!is_question || call_result.status > 0, "{method} {lie:?}: {call_result:?}");
        }
    }
    assert_eq!(call(&served, "Nothing", frame(&[])).status, 12);
    // Calls need HTTP/2 and POST.
    for verb in ["GET", "POST"] {
        let reply =
            served.send(verb, &format!("{SERVICE}/DoGet"), &[("content-type", "application/grpc")], &frame(&[]));
        assert_ne!(reply.header("grpc-status"), Some("0"), "{verb}");
    }
    assert_eq!(served.get("/healthz").status, 200);
}

/// A message whose announced length exceeds the memory for rows is refused before it is received.
#[test]
fn message_larger_than_the_memory_is_refused_before_it_is_received() {
    let served = Served::with(|_| {
        let mut options = options();
        options.limits.ingest_memory = 1 << 20;
        options
    });
    served.writer("t", "n: int, word: text").close().unwrap();
    let mut body = framed(&put(&[batch(0, 5)])[..1]);
    body.extend([0, 0, 0x40, 0, 0]);
    body.resize(body.len() + (4 << 20), 0);
    let call_result = call(&served, "DoPut", body);
    // The status must not invite a repeat: the limit never grows.
    assert_eq!(call_result.status, 8, "{}", call_result.message);
    assert_eq!(call(&served, "DoPut", framed(&put(&[batch(0, 5)]))).status, 0);
}

/// A condition that takes too long ends with a status that says so, before and after the first rows were found.
#[test]
fn condition_has_a_time_limit() {
    let served = Served::with(|_| {
        let mut options = options();
        options.limits.query_timeout = std::time::Duration::from_nanos(1);
        options
    });
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000_000));
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", column)]).unwrap()]).unwrap();
    arrowwood::write(&rows, served.path("t.arrow"), &arrowwood::WriteOptions::default()).unwrap();
    for (condition, has_rows) in [("n < 0", false), ("n >= 0", true)] {
        let ticket = format!("t.arrow?where={condition}");
        let mut message = vec![0x0a, ticket.len() as u8];
        message.extend(ticket.as_bytes());
        let call_result = call(&served, "DoGet", frame(&message));
        assert_eq!((call_result.status, !call_result.answers.is_empty()), (4, has_rows), "{}", call_result.message);
        assert!(call_result.message.starts_with("query_timeout: "), "{}", call_result.message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// After any corruption, the table has the rows of whole batches, or a status names the error.
    #[test]
    fn corrupted_puts_are_refused_or_append_whole_batches(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        (method, command) in prop::sample::select(vec![("DoPut", "t"), ("DoExchange", "t?follow=false"), ("DoExchange", "t")]),
    ) {
        let served = Served::start();
        served.writer("t", "n: int, word: text").close().unwrap();
        let mut messages = put(&[batch(0, 4), batch(4, 4)]);
        messages[0].descriptor = Some(Descriptor::command(command));
        let is_silent = command != "t" || method == "DoPut";
        let mut bytes = framed(&messages);
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let call_result = call(&served, method, bytes);
        let rows = open(served.path("t")).unwrap();
        rows.validate(|_, _| ()).unwrap();
        if is_silent {
            prop_assert!(call_result.answers.len() <= 2);
            prop_assert_eq!(rows.is_empty().unwrap(), call_result.answers.is_empty());
        }
        prop_assert_eq!(served.get("/healthz").status, 200);
    }

    #[test]
    fn tickets_of_any_bytes_are_answered(text in "t?\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let served = Served::start();
        served.numbers("t", 10);
        for ticket in [text.into_bytes(), bytes] {
            let mut ticket_message = vec![0x0a, ticket.len() as u8];
            ticket_message.extend(&ticket);
            call(&served, "DoGet", frame(&ticket_message));
        }
        prop_assert_eq!(served.get("/healthz").status, 200);
    }
}

/// Encodes a message of Flight SQL, as commands, tickets and actions contain it.
fn sql_message(name: &str, value: &[u8]) -> Vec<u8> {
    let url = format!("type.googleapis.com/arrow.flight.protocol.sql.{name}");
    let mut bytes = vec![0x0a, u8::try_from(url.len()).unwrap()];
    bytes.extend(url.into_bytes());
    bytes.push(0x12);
    bytes.push(u8::try_from(value.len()).unwrap());
    bytes.extend(value);
    bytes
}

#[test]
fn sql_without_an_engine_names_the_package_to_install() {
    let served = Served::start();
    served.numbers("t", 10);
    let statement = b"\x0a\x08select 1";
    for name in ["CommandStatementQuery", "CommandGetTables", "CommandGetSqlInfo", "TicketStatementQuery"] {
        let command = sql_message(name, if name == "CommandStatementQuery" { statement } else { b"" });
        let request_message = frame(&Descriptor { kind: 2, command: command.clone(), path: vec![] }.encode_to_vec());
        let fetched = frame(&crate::support::flight::Ticket { ticket: command }.encode_to_vec());
        for (method, message) in
            [("GetFlightInfo", &request_message), ("GetSchema", &request_message), ("DoGet", &fetched)]
        {
            let call_result = call(&served, method, message.clone());
            assert_eq!(call_result.status, 12, "{method} {name}: {call_result:?}");
            assert!(call_result.message.contains("arrowwood-datafusion"), "{method} {name}: {call_result:?}");
        }
    }
    let reply = served.send("GET", "/v1/sql?query=select+1", &[], &[]);
    assert_eq!(reply.status, 501, "{}", reply.text());
    // Invalid messages are refused earlier, and tables are still served.
    for value in [&b"\xff\xff"[..], b"\x0a\x7fshort", &[0x0a, 2, 0xff, 0xfe]] {
        let command = sql_message("CommandStatementQuery", value);
        let request_message = frame(&Descriptor { kind: 2, command, path: vec![] }.encode_to_vec());
        assert_eq!(call(&served, "GetFlightInfo", request_message).status, 3, "{value:?}");
    }
    let request_message = frame(&crate::support::flight::Ticket { ticket: b"t?limit=2".to_vec() }.encode_to_vec());
    assert_eq!(call(&served, "DoGet", request_message).status, 0);
}
