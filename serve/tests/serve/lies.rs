//! Tests inconsistent Arrow messages over `DoPut` and `POST`: each is refused, or its rows equal those that arrow-rs
//! reads from the same bytes, and the server goes on.
//!
//! With `ARROWWOOD_SERVE_FUZZ`, every byte of the metadata is changed (`make torture-serve`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Fields};
use arrowwood::{Dataset, Writer, WriterOptions, open};

use crate::support::flight::{Data, Descriptor, call, framed, put, stream};
use crate::support::*;

const ROWS: i64 = 9;

/// Returns rows of numbers, text, dictionary keys, flags, lists, views and structs, with nulls.
fn batch() -> RecordBatch {
    let text = |n: i64| (n % 4 != 1).then(|| "ż".repeat(n as usize));
    let numbers = Int64Array::from_iter((0..ROWS).map(|n| (n % 3 != 1).then_some(n)));
    let flags = BooleanArray::from_iter((0..ROWS).map(|n| (n % 5 != 1).then_some(n % 2 == 0)));
    let words = StringArray::from_iter((0..ROWS).map(text));
    let views = StringViewArray::from_iter((0..ROWS).map(|n| text(2 * n)));
    let keys: DictionaryArray<Int32Type> = (0..ROWS).map(|n| ["a", "bc", "def"][n as usize % 3]).collect();
    let lists = (0..ROWS).map(|n| (n % 4 > 0).then(|| (0..n % 4).map(Some)));
    let lists = ListArray::from_iter_primitive::<types::Int64Type, _, _>(lists);
    let decimals = Decimal128Array::from_iter((0..ROWS).map(|n| (n > 2).then_some(i128::from(n) << 70)));
    let parts: Vec<(Arc<arrow_schema::Field>, ArrayRef)> = vec![
        (Arc::new(arrow_schema::Field::new("f", arrow_schema::DataType::Boolean, true)), Arc::new(flags.clone())),
        (Arc::new(arrow_schema::Field::new("w", arrow_schema::DataType::Utf8, true)), Arc::new(words.clone())),
    ];
    let structs = StructArray::from(parts);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(numbers)),
        ("flag", Arc::new(flags)),
        ("word", Arc::new(words)),
        ("view", Arc::new(views)),
        ("key", Arc::new(keys)),
        ("list", Arc::new(lists)),
        ("decimal", Arc::new(decimals)),
        ("struct", Arc::new(structs)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Reads a stream with arrow-rs; returns `None` if it finds an error, or panics.
fn read_with_arrow_rs(bytes: &[u8]) -> Option<Vec<String>> {
    catch_unwind(|| {
        let reader = StreamReader::try_new(Cursor::new(bytes), None).ok()?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().ok()?;
        Some(crate::columns::rows(&Dataset::from_batches(schema, batches).ok()?))
    })
    .ok()
    .flatten()
}

/// Counts of the outcomes.
#[derive(Debug, Default)]
struct Count {
    refused: u64,
    taken: u64,
    /// Accepted by the server, but not by arrow-rs.
    alone: u64,
}

/// A table of a server that receives inconsistent messages.
struct CorruptionTest {
    served: Served,
    client: Client,
    rows: u64,
    /// The rows of the unchanged messages.
    original: Vec<String>,
    count: BTreeMap<&'static str, Count>,
}

impl CorruptionTest {
    fn start() -> CorruptionTest {
        let served = Served::start();
        Writer::open(served.path("t"), Some(batch().schema()), &WriterOptions::default()).unwrap().close().unwrap();
        let client = served.client();
        let original = crate::columns::rows(&Dataset::try_from(vec![batch()]).unwrap());
        CorruptionTest { served, client, rows: 0, original, count: BTreeMap::new() }
    }

    /// Sends messages over `DoPut` and over `POST`.
    fn send_over_both_routes(&mut self, description: &str, messages: &[Data]) {
        let bytes = stream(messages);
        let call_result = call(&self.served, "DoPut", framed(messages));
        assert!([0, 3, 8, 9].contains(&call_result.status), "{description}: {call_result:?}");
        self.check_result("DoPut", description, &bytes, !call_result.answers.is_empty());
        let headers = [("content-type", "application/vnd.apache.arrow.stream")];
        let reply = self.client.send("POST", "/v1/tables/t/rows", &headers, &bytes).unwrap();
        assert!([200, 400, 409, 413].contains(&reply.status), "{description}: {}", reply.text());
        self.check_result("POST", description, &bytes, reply.status == 200);
    }

    /// Compares the appended rows with those that arrow-rs reads.
    fn check_result(&mut self, route: &'static str, description: &str, bytes: &[u8], is_taken: bool) {
        let count = self.count.entry(route).or_default();
        let table = open(self.served.path("t")).unwrap();
        let (before, after) = (self.rows, table.len().unwrap());
        self.rows = after;
        if !is_taken {
            count.refused += 1;
            assert_eq!(after, before, "{description} by {route}: refused, and rows of it are there");
            return;
        }
        count.taken += 1;
        let new = table.slice(before, after - before).unwrap();
        new.validate(|_, _| ()).unwrap();
        match read_with_arrow_rs(bytes) {
            Some(rows) => assert_eq!(crate::columns::rows(&new), rows, "{description} by {route}"),
            // The changed byte has no effect: a version, or a count that follows from others.
            None => {
                count.alone += 1;
                assert_eq!(crate::columns::rows(&new), self.original, "{description} by {route}");
            }
        }
    }
}

/// Changes each byte of the metadata of a record batch and a dictionary, and some bytes of their bodies.
#[test]
fn corrupted_batches_are_refused_or_read_like_arrow_rs() {
    let step = if std::env::var_os("ARROWWOOD_SERVE_FUZZ").is_some() { 1 } else { 3 };
    let mut target = CorruptionTest::start();
    let original = put(Descriptor::path("t"), &[batch()]);
    target.send_over_both_routes("nothing", &original);
    assert_eq!(target.rows, 2 * ROWS as u64);
    for number in 1..original.len() {
        for offset in (0..original[number].header.len()).step_by(step) {
            let mut messages = original.clone();
            messages[number].header[offset] ^= [0x01, 0x80, 0xff, 0x10, 0x08][offset % 5];
            target.send_over_both_routes(&format!("byte {offset} of the metadata of message {number}"), &messages);
        }
        for offset in (0..original[number].body.len()).step_by(5 * step) {
            let mut messages = original.clone();
            messages[number].body[offset] ^= [0x80, 0x01, 0xff][offset % 3];
            target.send_over_both_routes(&format!("byte {offset} of the body of message {number}"), &messages);
        }
        let mut messages = original.clone();
        messages[number].body.truncate(64);
        target.send_over_both_routes(&format!("message {number} with a short body"), &messages);
        messages.remove(number);
        target.send_over_both_routes(&format!("without message {number}"), &messages);
    }
    eprintln!("{:?}", target.count);
    for count in target.count.values() {
        assert!(count.refused > 100 && count.taken > 20, "{count:?}");
    }
    target.send_over_both_routes("nothing", &original);
    assert_eq!(target.served.get("/healthz").status, 200);
}

/// Splits a stream into messages, as far as its lengths are consistent.
fn split(mut stream: &[u8]) -> Vec<Data> {
    let mut messages = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<8>() {
        let len = u32::from_le_bytes(prefix[4..].try_into().unwrap()) as usize;
        if prefix[..4] != [0xff; 4] || len == 0 || len > rest.len() {
            break;
        }
        let (header, rest) = rest.split_at(len);
        // The body extends to where the next message seems to begin.
        let next = rest.chunks(8).position(|word| word[..4.min(word.len())] == [0xff; 4] && word.len() == 8);
        let (body, rest) = rest.split_at(next.map_or(rest.len(), |words| 8 * words));
        messages.push(Data { header: header.into(), body: body.into(), ..Data::default() });
        stream = rest;
    }
    messages
}

/// Sends the inputs that fuzzing of other Arrow libraries has found, if there is a copy.
#[test]
fn fuzzing_corpus_streams_are_refused_or_read_like_arrow_rs() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/arrow-testing/fuzz-stream");
    let files = fs::read_dir(corpus).into_iter().flatten().map(|file| file.unwrap().path());
    let original = stream(&put(Descriptor::path("t"), &[batch()]));
    assert_eq!(stream(&split(&original)), original, "messages are split as they were joined");
    let target = CorruptionTest::start();
    let (mut calls, mut max_messages) = (0, 0);
    for bytes in files.map(|file| fs::read(file).unwrap_or_default()) {
        let mut messages = split(&bytes);
        let Some(first) = messages.first_mut() else { continue };
        first.descriptor = Some(Descriptor::path("t"));
        let call_result = call(&target.served, "DoPut", framed(&messages));
        assert!(call_result.status != 13 && call_result.status != 2, "{call_result:?}");
        (calls, max_messages) = (calls + 1, max_messages.max(messages.len()));
    }
    eprintln!("{calls} streams, of {max_messages} messages at most");
    open(target.served.path("t")).unwrap().validate(|_, _| ()).unwrap();
    assert_eq!(target.served.get("/healthz").status, 200);
}

/// A dictionary may claim any number of values that take no bytes. A bit was allocated for each, and the process was
/// aborted.
#[test]
fn dictionaries_of_absurd_length_are_refused() {
    use crate::handmade::{coded, dictionary, key, one, stream};
    let schema = one(coded(DataType::Struct(Fields::empty())));
    let few = dictionary(0, false, crate::handmade::batch(2, &[(2, 1)], &[&[2]]));
    let many = dictionary(0, true, crate::handmade::batch(1 << 60, &[(1 << 60, 0)], &[&[]]));
    let bytes = stream(&schema, &[few, key(1), many, key(1)]);
    let target = CorruptionTest::start();
    let headers = [("content-type", "application/vnd.apache.arrow.stream")];
    let reply = target.served.client().send("POST", "/v1/tables/t/rows", &headers, &bytes).unwrap();
    assert_eq!(reply.status, 400, "{}", reply.text());
    let mut messages = split(&bytes);
    messages[0].descriptor = Some(Descriptor::path("t"));
    let call_result = call(&target.served, "DoPut", framed(&messages));
    assert!([3, 8, 9].contains(&call_result.status), "{call_result:?}");
    assert_eq!(target.served.get("/healthz").status, 200);
}
