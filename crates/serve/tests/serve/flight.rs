//! Tests that invalid and interrupted calls of Arrow Flight end with a status, and the server goes on.
//!
//! `tests/python/test_flight.py` tests stock clients.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrowwood::{Dataset, NUMBERING, Value, WriteOptions, Writer, WriterOptions, open};
use arrowwood_serve::{Limits, Options};
use proptest::prelude::*;
use prost::Message;

use crate::support::flight::{CallResult, Data, Descriptor, METHODS, SERVICE, Ticket, call, frame, framed};
use crate::support::{TestServer, flight, format_values, options, short_timeouts};

// Statuses of gRPC.
const OK: u16 = 0;
const INVALID_ARGUMENT: u16 = 3;
const DEADLINE_EXCEEDED: u16 = 4;
const RESOURCE_EXHAUSTED: u16 = 8;
const FAILED_PRECONDITION: u16 = 9;
const UNIMPLEMENTED: u16 = 12;

/// Returns rows of the numbers from `start` on, and texts of which each third is null.
fn batch(start: i64, rows: i64) -> RecordBatch {
    let range = start..start + rows;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone()));
    let words = range.map(|n| if n % 3 == 0 { None } else { Some(format!("word {n}")) });
    let words: ArrayRef = Arc::new(StringArray::from_iter(words));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("word", words, true)]).unwrap()
}

fn serve_with_limits(limits: Limits) -> TestServer {
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// Starts a server with an empty table `t` for rows of [`batch`].
fn serve_words(limits: Limits) -> TestServer {
    let served = serve_with_limits(limits);
    served.writer("t", "n: int, word: text").close().unwrap();
    served
}

/// Asserts the status of a call, and the number of its answers.
#[track_caller]
fn assert_answers(call_result: &CallResult, status: u16, answers: usize) {
    assert_eq!(call_result.status, status, "{}", call_result.message);
    assert_eq!(call_result.answers.len(), answers, "{}", call_result.message);
}

/// Encodes a `DoPut` of some batches to table `t`.
fn put(batches: &[RecordBatch]) -> Vec<Data> {
    flight::put(Descriptor::path("t"), batches)
}

/// Neither an announced size nor a slow transfer may reserve memory.
#[test]
fn calls_without_rights_or_rows_hold_no_memory() {
    let read_only = TestServer::start_with(|_| Options { read_only: true, ..options() });
    for method in ["DoPut", "DoExchange"] {
        let call_result = call(&read_only, method, frame(&vec![0; 100 << 10]));
        assert!(call_result.message.contains("at most 65536 bytes"), "{call_result:?}");
    }
    let served = serve_with_limits(Limits { part: Duration::from_millis(50), ..Limits::default() });
    let call_result = flight::trickled(&served, "DoPut", frame(&[0; 600]), Duration::from_millis(20));
    assert!(call_result.message.contains("no part of a message came"), "{call_result:?}");
}

/// Returns 400 texts of a kilobyte in a dictionary.
fn batch_with_dictionary(prefix: &str) -> RecordBatch {
    let words: Vec<_> = (0..400).map(|n| format!("{prefix}{n:01000}")).collect();
    let keys: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
    RecordBatch::try_from_iter([("word", Arc::new(keys) as ArrayRef)]).unwrap()
}

/// Dictionaries are kept for the whole call, in addition to the limit of its rows.
#[test]
fn dictionaries_of_a_call_count_as_memory() {
    let served = serve_with_limits(Limits { ingest_memory: 1 << 20, ..Limits::default() });
    served.writer("words", "word: text").close().unwrap();
    let batches = ["a", "b", "c", "d"].map(batch_with_dictionary);
    let messages = flight::put(Descriptor::path("words"), &batches);
    // Sends each dictionary without the batch that would follow it.
    let (schema, rest) = messages.split_first().unwrap();
    let mut dictionaries = vec![schema.clone()];
    dictionaries.extend(rest.iter().step_by(2).cloned());
    let call_result = call(&served, "DoPut", framed(&dictionaries));
    assert!(call_result.message.contains("the memory for rows"), "{call_result:?}");
    let call_result = call(&served, "DoPut", framed(&dictionaries[..2]));
    assert_eq!(call_result.status, OK, "{call_result:?}");
}

#[test]
fn schema_of_a_call_counts_as_memory() {
    let served = serve_with_limits(Limits { ingest_memory: 1 << 20, ..Limits::default() });
    served.writer("words", "word: text").close().unwrap();
    let batch = batch_with_dictionary("a");
    let metadata = [("about".to_owned(), "x".repeat(700_000))].into();
    let schema = batch.schema().as_ref().clone().with_metadata(metadata);
    let batch = batch.with_schema(schema.into()).unwrap();
    let messages = flight::put(Descriptor::path("words"), &[batch]);
    for method in ["DoPut", "DoExchange"] {
        let call_result = call(&served, method, framed(&messages[..2]));
        assert!(call_result.message.contains("the memory for rows"), "{method}: {call_result:?}");
    }
}

fn read_table(served: &TestServer) -> Vec<Vec<String>> {
    format_values(&open(served.path("t")).unwrap())
}

#[test]
fn batches_before_an_invalid_one_stay() {
    let served = serve_words(Limits::default());
    let call_result = call(&served, "DoPut", framed(&put(&[batch(0, 5), batch(5, 7)])));
    assert_answers(&call_result, OK, 2);
    let mut messages = put(&[batch(12, 3), batch(15, 3)]);
    // The offsets of this batch's text are not ascending.
    messages[2].body.truncate(64);
    let call_result = call(&served, "DoPut", framed(&messages));
    assert_answers(&call_result, INVALID_ARGUMENT, 1);
    let expected = Dataset::try_from(vec![batch(0, 15)]).unwrap();
    assert_eq!(read_table(&served), format_values(&expected));
}

/// Parses the answers of a call.
fn parse_answers(call_result: &CallResult) -> Vec<serde_json::Value> {
    let mut answers = Vec::new();
    for answer in &call_result.answers {
        // A `PutResult` has one field, whose JSON begins with the first brace.
        let json_start = answer.iter().position(|&byte| byte == b'{').unwrap();
        answers.push(serde_json::from_slice(&answer[json_start..]).unwrap());
    }
    answers
}

/// Makes a call of a producer whose batches all arrive at once.
fn put_numbered(served: &TestServer, sequence: usize, batches: &[RecordBatch]) -> CallResult {
    let command = Descriptor::command(&format!("t?producer=p&sequence={sequence}"));
    call(served, "DoPut", framed(&flight::put(command, batches)))
}

fn exchange_numbered(served: &TestServer, sequence: usize, batches: &[RecordBatch]) -> CallResult {
    let command = Descriptor::command(&format!("t?producer=p&sequence={sequence}&follow=false"));
    call(served, "DoExchange", framed(&flight::put(command, batches)))
}

/// A replica has no positions of the producers of its rows.
#[test]
fn replica_rejects_numbered_batches_until_it_is_promoted() {
    let mut served = TestServer::start();
    let mut writer = served.writer("t", "n: int, word: text");
    writer.append_row(&[Value::Int(0), Value::Null]).unwrap();
    writer.commit_with(&[(NUMBERING, 1)]).unwrap();
    writer.close().unwrap();
    for call_result in [
        put_numbered(&served, 4, &[batch(4, 1)]),
        put_numbered(&served, 0, &[batch(0, 1)]),
        exchange_numbered(&served, 4, &[batch(4, 1)]),
    ] {
        assert_answers(&call_result, FAILED_PRECONDITION, 0);
        assert!(call_result.message.starts_with("replica: "), "{call_result:?}");
        assert!(call_result.message.contains("arrowwood promote"), "{call_result:?}");
    }
    assert_eq!(read_table(&served).len(), 1);
    // Rows without a number are not deduplicated, so they are accepted.
    let unnumbered = call(&served, "DoPut", framed(&put(&[batch(1, 2)])));
    assert_eq!(unnumbered.status, OK, "{}", unnumbered.message);
    assert_eq!(read_table(&served).len(), 3);

    served.stop();
    let mut writer = Writer::open(served.path("t"), None, &WriterOptions::default()).unwrap();
    writer.promote(&[("producer:p", 4)]).unwrap();
    writer.close().unwrap();
    let served = served.restart();
    let repeated = put_numbered(&served, 4, &[batch(4, 1)]);
    assert_eq!(repeated.status, OK, "{}", repeated.message);
    assert_eq!(parse_answers(&repeated)[0]["duplicate"], true);
    let next = put_numbered(&served, 5, &[batch(5, 1)]);
    assert_eq!(next.status, OK, "{}", next.message);
    assert_eq!(parse_answers(&next)[0]["duplicate"], false);
    let after_a_gap = put_numbered(&served, 7, &[batch(7, 1)]);
    assert_eq!(after_a_gap.status, FAILED_PRECONDITION);
    assert_eq!(read_table(&served).len(), 4);
}

/// The batches of a producer.
struct Batches {
    sizes: Vec<i64>,
    /// The number of the first row of each batch.
    starts: Vec<i64>,
    batches: Vec<RecordBatch>,
}

impl Batches {
    fn new(sizes: Vec<i64>) -> Batches {
        let mut starts = Vec::new();
        let mut batches = Vec::new();
        let mut end = 0;
        for &size in &sizes {
            starts.push(end);
            batches.push(batch(end, size));
            end += size;
        }
        Batches { sizes, starts, batches }
    }

    fn put(&self, served: &TestServer, range: Range<usize>) -> CallResult {
        put_numbered(served, range.start, &self.batches[range])
    }

    /// Asserts that the batches of a call were acknowledged, and that the first ones were duplicates.
    fn assert_acknowledged(&self, call_result: &CallResult, range: Range<usize>, duplicates: usize) {
        assert_answers(call_result, OK, range.len());
        for (number, answer) in range.clone().zip(parse_answers(call_result)) {
            let is_duplicate = number - range.start < duplicates;
            assert_eq!(answer["sequence"], number);
            assert_eq!(answer["duplicate"], is_duplicate);
            assert!(answer["durable"].as_i64().unwrap() >= self.starts[number] + self.sizes[number], "{answer}");
            if !is_duplicate {
                assert_eq!(answer["first_row"], self.starts[number]);
                assert_eq!(answer["rows"], self.sizes[number]);
            }
        }
    }
}

/// Batches that arrive together share a commit, but each has its own number, acknowledgement and rows.
#[test]
fn batches_that_arrive_together_are_acknowledged_one_by_one() {
    let served = serve_words(Limits::default());
    let mut sizes: Vec<i64> = [1, 2, 3, 1, 1, 40].repeat(100);
    // One batch has more rows than are received at a time.
    sizes[301] += 9_000;
    let batches = Batches::new(sizes);
    assert_eq!(batches.put(&served, 0..250).status, OK);
    // Resends some batches with new ones; the first one is a duplicate.
    for (range, duplicates) in [(100..600, 150), (599..600, 1), (20..30, 10)] {
        let call_result = batches.put(&served, range.clone());
        batches.assert_acknowledged(&call_result, range, duplicates);
    }
    assert_eq!(batches.put(&served, 0..250).answers.len(), 250);
    let after_a_gap = put_numbered(&served, 601, &batches.batches[..2]);
    assert_eq!(after_a_gap.status, FAILED_PRECONDITION);
    assert_eq!(read_table(&served), format_values(&Dataset::try_from(batches.batches).unwrap()));
}

/// Returns batches of one row, from number `start` on.
fn single_row_batches(start: i64) -> Vec<RecordBatch> {
    (start..start + 400).map(|n| batch(n, 1)).collect()
}

fn count_rows(served: &TestServer) -> u64 {
    open(served.path("t")).unwrap().len().unwrap()
}

/// An invalid batch ends its call. The batches before it stay, and none after it is appended, even if it has arrived.
#[test]
fn no_batch_after_an_invalid_one_is_appended() {
    let served = TestServer::start();
    let options = WriterOptions { sorted_by: Some("n".into()), ..WriterOptions::default() };
    let schema = Arc::new(arrowwood::parse_schema("n: int, word: text").unwrap());
    Writer::open(served.path("t"), Some(schema), &options).unwrap().close().unwrap();
    for (command, first, expected_rows) in [("t", 0, 33), ("t?producer=p&sequence=0", 1_000, 66)] {
        let mut batches = single_row_batches(first);
        // The writer rejects this batch, because its row belongs before others.
        batches[33] = batch(first, 1);
        let messages = flight::put(Descriptor::command(command), &batches);
        let call_result = call(&served, "DoPut", framed(&messages));
        assert_answers(&call_result, INVALID_ARGUMENT, 33);
        assert_eq!(count_rows(&served), expected_rows);
    }
    // The decoder rejects this batch.
    let mut messages = put(&single_row_batches(2_000));
    messages[34].header.truncate(40);
    let call_result = call(&served, "DoPut", framed(&messages));
    assert_answers(&call_result, INVALID_ARGUMENT, 33);
    assert_eq!(count_rows(&served), 99);
}

/// The bytes of received rows are limited. A call waits for its own rows to be written, so it may send more in total.
#[test]
fn call_may_send_more_than_the_memory_for_rows() {
    let served = serve_words(Limits { ingest_memory: 192 << 10, ..Limits::default() });
    let batches: Vec<_> = (0..500).map(|number| batch(50 * number, 50)).collect();
    let call_result = put_numbered(&served, 0, &batches);
    assert_answers(&call_result, OK, 500);
    assert_eq!(read_table(&served), format_values(&Dataset::try_from(batches).unwrap()));
}

#[test]
fn invalid_calls_end_with_a_status() {
    let served = serve_with_limits(short_timeouts());
    served.write_numbers("t", 10);
    let invalid_bodies = [
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
        let needs_message = !["ListFlights", "ListActions"].contains(&method);
        for body in &invalid_bodies {
            let call_result = call(&served, method, body.clone());
            assert!(!needs_message || call_result.status != OK, "{method} {body:?}: {call_result:?}");
        }
    }
    assert_eq!(call(&served, "Nothing", frame(&[])).status, UNIMPLEMENTED);
    // Calls need HTTP/2 and POST.
    for http_method in ["GET", "POST"] {
        let path = format!("{SERVICE}/DoGet");
        let reply = served.send(http_method, &path, &[("content-type", "application/grpc")], &frame(&[]));
        assert_ne!(reply.header("grpc-status"), Some("0"), "{http_method}");
    }
    assert_eq!(served.get("/healthz").status, 200);
}

/// A message whose announced length exceeds the memory for rows is refused before it is received.
#[test]
fn message_larger_than_the_memory_is_refused_before_it_is_received() {
    let served = serve_words(Limits { ingest_memory: 1 << 20, ..Limits::default() });
    let messages = put(&[batch(0, 5)]);
    let mut body = framed(&messages[..1]);
    let large_message = frame(&vec![0; 4 << 20]);
    body.extend(large_message);
    let call_result = call(&served, "DoPut", body);
    // The status must not invite a repeat: the limit never grows.
    assert_eq!(call_result.status, RESOURCE_EXHAUSTED, "{}", call_result.message);
    assert_eq!(call(&served, "DoPut", framed(&messages)).status, OK);
}

/// Requests the rows of a ticket.
fn get(served: &TestServer, ticket: &[u8]) -> CallResult {
    call(served, "DoGet", frame(&Ticket { ticket: ticket.to_vec() }.encode_to_vec()))
}

/// A condition that takes too long ends with a status that says so, before and after the first rows were found.
#[test]
fn condition_has_a_time_limit() {
    let served = serve_with_limits(Limits { query_timeout: Duration::from_nanos(1), ..Limits::default() });
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000_000));
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", column)]).unwrap()]).unwrap();
    arrowwood::write(&rows, served.path("t.arrow"), &WriteOptions::default()).unwrap();
    for (ticket, has_rows) in [("t.arrow?where=n < 0", false), ("t.arrow?where=n >= 0", true)] {
        let call_result = get(&served, ticket.as_bytes());
        assert_eq!(call_result.status, DEADLINE_EXCEEDED, "{}", call_result.message);
        assert_eq!(!call_result.answers.is_empty(), has_rows, "{}", call_result.message);
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
        let served = TestServer::start();
        served.writer("t", "n: int, word: text").close().unwrap();
        let mut messages = put(&[batch(0, 4), batch(4, 4)]);
        messages[0].descriptor = Some(Descriptor::command(command));
        // An exchange that follows also answers with rows.
        let answers_only_batches = command != "t" || method == "DoPut";
        let mut bytes = framed(&messages);
        for (index, byte) in &changes {
            let offset = index.index(bytes.len());
            bytes[offset] = *byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let call_result = call(&served, method, bytes);
        let rows = open(served.path("t")).unwrap();
        rows.validate(|_, _| ()).unwrap();
        if answers_only_batches {
            prop_assert!(call_result.answers.len() <= 2);
            prop_assert_eq!(rows.is_empty().unwrap(), call_result.answers.is_empty());
        }
        prop_assert_eq!(served.get("/healthz").status, 200);
    }

    #[test]
    fn tickets_of_any_bytes_are_answered(text in "t?\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let served = TestServer::start();
        served.write_numbers("t", 10);
        for ticket in [text.into_bytes(), bytes] {
            get(&served, &ticket);
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

fn get_info(served: &TestServer, method: &str, command: &[u8]) -> CallResult {
    let descriptor = Descriptor { kind: 2, command: command.to_vec(), path: vec![] };
    call(served, method, frame(&descriptor.encode_to_vec()))
}

#[test]
fn sql_without_an_engine_names_the_package_to_install() {
    let served = TestServer::start();
    served.write_numbers("t", 10);
    let statement: &[u8] = b"\x0a\x08select 1";
    for (name, value) in [
        ("CommandStatementQuery", statement),
        ("CommandGetTables", b""),
        ("CommandGetSqlInfo", b""),
        ("TicketStatementQuery", b""),
    ] {
        let command = sql_message(name, value);
        for call_result in [
            get_info(&served, "GetFlightInfo", &command),
            get_info(&served, "GetSchema", &command),
            get(&served, &command),
        ] {
            assert_eq!(call_result.status, UNIMPLEMENTED, "{name}: {call_result:?}");
            assert!(call_result.message.contains("arrowwood-datafusion"), "{name}: {call_result:?}");
        }
    }
    let reply = served.send("GET", "/v1/sql?query=select+1", &[], &[]);
    assert_eq!(reply.status, 501, "{}", reply.text());
    // Invalid messages are refused earlier, and tables are still served.
    for value in [&b"\xff\xff"[..], b"\x0a\x7fshort", &[0x0a, 2, 0xff, 0xfe]] {
        let command = sql_message("CommandStatementQuery", value);
        assert_eq!(get_info(&served, "GetFlightInfo", &command).status, INVALID_ARGUMENT, "{value:?}");
    }
    assert_eq!(get(&served, b"t?limit=2").status, OK);
}
