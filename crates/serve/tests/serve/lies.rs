//! Tests inconsistent Arrow messages over `DoPut` and `POST`: each is refused, or its rows equal those that arrow-rs
//! reads from the same bytes, and the server goes on.
//!
//! `ARROWWOOD_SERVE_FUZZ` changes every byte of the metadata (`make torture-serve`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::*;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field, Fields};
use arrowwood::{Dataset, Writer, WriterOptions, open};

use crate::handmade;
use crate::support::flight::{Data, Descriptor, call, framed, put, stream};
use crate::support::*;

const ROWS: i64 = 9;
const ARROW_STREAM: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");

// Statuses of gRPC.
const OK: u16 = 0;
const UNKNOWN: u16 = 2;
const INVALID_ARGUMENT: u16 = 3;
const RESOURCE_EXHAUSTED: u16 = 8;
const FAILED_PRECONDITION: u16 = 9;
const INTERNAL: u16 = 13;

/// Returns rows of numbers, text, dictionary keys, flags, lists, views and structs, with nulls.
fn batch() -> RecordBatch {
    let numbers = Int64Array::from_iter((0..ROWS).map(|n| if n % 3 == 1 { None } else { Some(n) }));
    let flags = BooleanArray::from_iter((0..ROWS).map(|n| if n % 5 == 1 { None } else { Some(n % 2 == 0) }));
    let words = StringArray::from_iter((0..ROWS).map(nullable_text));
    let views = StringViewArray::from_iter((0..ROWS).map(|n| nullable_text(2 * n)));
    let keys: DictionaryArray<Int32Type> = (0..ROWS).map(|n| ["a", "bc", "def"][n as usize % 3]).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(nullable_list));
    let decimals = (0..ROWS).map(|n| if n > 2 { Some(i128::from(n) << 70) } else { None });
    let decimals = Decimal128Array::from_iter(decimals);
    let members: Vec<(Arc<Field>, ArrayRef)> = vec![
        (Arc::new(Field::new("f", DataType::Boolean, true)), Arc::new(flags.clone())),
        (Arc::new(Field::new("w", DataType::Utf8, true)), Arc::new(words.clone())),
    ];
    let structs = StructArray::from(members);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("n", Arc::new(numbers), true),
        ("flag", Arc::new(flags), true),
        ("word", Arc::new(words), true),
        ("view", Arc::new(views), true),
        ("key", Arc::new(keys), true),
        ("list", Arc::new(lists), true),
        ("decimal", Arc::new(decimals), true),
        ("struct", Arc::new(structs), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns a text of `n` letters of two bytes each, or null.
fn nullable_text(n: i64) -> Option<String> {
    if n % 4 == 1 { None } else { Some("ż".repeat(n as usize)) }
}

/// Returns up to three numbers, or null instead of an empty list.
fn nullable_list(n: i64) -> Option<Vec<Option<i64>>> {
    let len = n % 4;
    if len == 0 { None } else { Some((0..len).map(Some).collect()) }
}

/// Reads a stream with arrow-rs; returns `None` if it finds an error, or panics.
fn read_with_arrow_rs(bytes: &[u8]) -> Option<Vec<String>> {
    let result = catch_unwind(|| {
        let reader = StreamReader::try_new(Cursor::new(bytes), None).ok()?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().ok()?;
        let rows = Dataset::from_batches(schema, batches).ok()?;
        Some(crate::columns::rows(&rows))
    });
    result.ok().flatten()
}

/// The numbers of requests of a route, by outcome.
#[derive(Debug, Default)]
struct Outcomes {
    refused: u64,
    accepted: u64,
    /// Accepted requests that arrow-rs rejects.
    rejected_by_arrow_rs: u64,
}

/// A table of a server that receives inconsistent messages.
struct CorruptionTest {
    served: TestServer,
    client: Client,
    /// The number of rows that were checked.
    row_count: u64,
    /// The rows of the unchanged messages.
    original: Vec<String>,
    outcomes: BTreeMap<&'static str, Outcomes>,
}

impl CorruptionTest {
    fn start() -> CorruptionTest {
        let served = TestServer::start();
        Writer::open(served.path("t"), Some(batch().schema()), &WriterOptions::default()).unwrap().close().unwrap();
        let client = served.client();
        let original = crate::columns::rows(&Dataset::try_from(vec![batch()]).unwrap());
        CorruptionTest { served, client, row_count: 0, original, outcomes: BTreeMap::new() }
    }

    /// Sends messages over `DoPut` and over `POST`.
    fn send_over_both_routes(&mut self, description: &str, messages: &[Data]) {
        let bytes = stream(messages);
        let call_result = call(&self.served, "DoPut", framed(messages));
        let statuses = [OK, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION];
        assert!(statuses.contains(&call_result.status), "{description}: {call_result:?}");
        self.check_result("DoPut", description, &bytes, !call_result.answers.is_empty());
        let reply = self.client.send("POST", "/v1/tables/t/rows", &[ARROW_STREAM], &bytes).unwrap();
        assert!([200, 400, 409, 413].contains(&reply.status), "{description}: {}", reply.text());
        self.check_result("POST", description, &bytes, reply.status == 200);
    }

    /// Compares the appended rows with those that arrow-rs reads.
    fn check_result(&mut self, route: &'static str, description: &str, bytes: &[u8], is_accepted: bool) {
        let outcomes = self.outcomes.entry(route).or_default();
        let table = open(self.served.path("t")).unwrap();
        let start = self.row_count;
        let end = table.len().unwrap();
        self.row_count = end;
        if !is_accepted {
            outcomes.refused += 1;
            assert_eq!(end, start, "{description} by {route}: refused, and rows of it are there");
            return;
        }
        outcomes.accepted += 1;
        let appended = table.slice(start, end - start).unwrap();
        appended.validate(|_, _| ()).unwrap();
        let actual = crate::columns::rows(&appended);
        match read_with_arrow_rs(bytes) {
            Some(expected) => assert_eq!(actual, expected, "{description} by {route}"),
            // The changed byte has no effect: a version, or a count that follows from others.
            None => {
                outcomes.rejected_by_arrow_rs += 1;
                assert_eq!(actual, self.original, "{description} by {route}");
            }
        }
    }

    /// Sends copies of the messages with a changed byte in the header of message `number`.
    fn corrupt_header(&mut self, messages: &[Data], number: usize, step: usize) {
        for offset in (0..messages[number].header.len()).step_by(step) {
            let mut corrupted = messages.to_vec();
            corrupted[number].header[offset] ^= [0x01, 0x80, 0xff, 0x10, 0x08][offset % 5];
            self.send_over_both_routes(&format!("byte {offset} of the metadata of message {number}"), &corrupted);
        }
    }

    /// Sends copies of the messages with a changed byte in the body of message `number`.
    fn corrupt_body(&mut self, messages: &[Data], number: usize, step: usize) {
        for offset in (0..messages[number].body.len()).step_by(step) {
            let mut corrupted = messages.to_vec();
            corrupted[number].body[offset] ^= [0x80, 0x01, 0xff][offset % 3];
            self.send_over_both_routes(&format!("byte {offset} of the body of message {number}"), &corrupted);
        }
    }
}

/// Changes each byte of the metadata of a record batch and a dictionary, and some bytes of their bodies.
#[test]
fn corrupted_batches_are_refused_or_read_like_arrow_rs() {
    let step = if std::env::var_os("ARROWWOOD_SERVE_FUZZ").is_some() { 1 } else { 3 };
    let mut test = CorruptionTest::start();
    let original = put(Descriptor::path("t"), &[batch()]);
    test.send_over_both_routes("the original", &original);
    assert_eq!(test.row_count, 2 * ROWS as u64);
    for number in 1..original.len() {
        test.corrupt_header(&original, number, step);
        test.corrupt_body(&original, number, 5 * step);
        let mut messages = original.clone();
        messages[number].body.truncate(64);
        test.send_over_both_routes(&format!("message {number} with a short body"), &messages);
        messages.remove(number);
        test.send_over_both_routes(&format!("without message {number}"), &messages);
    }
    eprintln!("{:?}", test.outcomes);
    for outcomes in test.outcomes.values() {
        assert!(outcomes.refused > 100, "{outcomes:?}");
        assert!(outcomes.accepted > 20, "{outcomes:?}");
    }
    test.send_over_both_routes("the original", &original);
    assert_eq!(test.served.get("/healthz").status, 200);
}

/// Splits a stream into messages, as far as its lengths are consistent.
fn split_stream(mut stream: &[u8]) -> Vec<Data> {
    const CONTINUATION: [u8; 4] = [0xff; 4];
    let mut messages = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<8>() {
        let header_len = u32::from_le_bytes(prefix[4..].try_into().unwrap()) as usize;
        if prefix[..4] != CONTINUATION || header_len == 0 || header_len > rest.len() {
            break;
        }
        let (header, rest) = rest.split_at(header_len);
        // The body extends to where the next message seems to begin.
        let next_message = rest.chunks_exact(8).position(|word| word.starts_with(&CONTINUATION));
        let body_len = next_message.map_or(rest.len(), |words| 8 * words);
        let (body, rest) = rest.split_at(body_len);
        messages.push(Data { header: header.into(), body: body.into(), ..Data::default() });
        stream = rest;
    }
    messages
}

/// Sends the inputs that fuzzing of other Arrow libraries has found, if there is a copy.
#[test]
fn fuzzing_corpus_streams_are_refused_or_read_like_arrow_rs() {
    let original = stream(&put(Descriptor::path("t"), &[batch()]));
    assert_eq!(stream(&split_stream(&original)), original, "messages are split as they were joined");
    let test = CorruptionTest::start();
    let mut stream_count = 0;
    let mut max_messages = 0;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/arrow-testing/fuzz-stream");
    for file in fs::read_dir(corpus).into_iter().flatten() {
        // A folder can't be read, and has no messages.
        let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
        let mut messages = split_stream(&bytes);
        let Some(first) = messages.first_mut() else { continue };
        first.descriptor = Some(Descriptor::path("t"));
        let call_result = call(&test.served, "DoPut", framed(&messages));
        assert!(![INTERNAL, UNKNOWN].contains(&call_result.status), "{call_result:?}");
        stream_count += 1;
        max_messages = max_messages.max(messages.len());
    }
    eprintln!("{stream_count} streams, of {max_messages} messages at most");
    open(test.served.path("t")).unwrap().validate(|_, _| ()).unwrap();
    assert_eq!(test.served.get("/healthz").status, 200);
}

/// A dictionary may claim any number of values that take no bytes. A bit was allocated for each, and the process was
/// aborted.
#[test]
fn dictionaries_of_absurd_length_are_refused() {
    const ABSURD_LEN: i64 = 1 << 60;
    let schema = handmade::one(handmade::coded(DataType::Struct(Fields::empty())));
    let small = handmade::dictionary(0, false, handmade::batch(2, &[(2, 1)], &[&[2]]));
    let absurd = handmade::dictionary(0, true, handmade::batch(ABSURD_LEN, &[(ABSURD_LEN, 0)], &[&[]]));
    let bytes = handmade::stream(&schema, &[small, handmade::key(1), absurd, handmade::key(1)]);
    let test = CorruptionTest::start();
    let reply = test.served.send("POST", "/v1/tables/t/rows", &[ARROW_STREAM], &bytes);
    assert_eq!(reply.status, 400, "{}", reply.text());
    let mut messages = split_stream(&bytes);
    messages[0].descriptor = Some(Descriptor::path("t"));
    let call_result = call(&test.served, "DoPut", framed(&messages));
    let statuses = [INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION];
    assert!(statuses.contains(&call_result.status), "{call_result:?}");
    assert_eq!(test.served.get("/healthz").status, 200);
}
