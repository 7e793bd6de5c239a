//! Tests all parsers of network input with random mutations: JSON lines, CSV, line protocol, conditions, URL
//! parameters, the numbers of producers, and the tickets and descriptors of Flight.
//!
//! Each input is rejected with a message, or read as a naive parser reads it; none makes the server fail.
//! `ARROWWOOD_SERVE_FUZZ` is the number of mutations for each parser, and each `ARROWWOOD_SERVE_SEED` gives others
//! (`make torture-serve`). The targets in `fuzz/` look for new inputs by coverage.

use std::collections::{BTreeMap, HashMap};

use arrowwood::{Dataset, Value, open};
use arrowwood_serve::{each_line, parse_condition};
use prost::Message;
use serde_json::Value as Json;

use crate::dice::Dice;
use crate::support::flight::{Descriptor, Ticket, call, frame};
use crate::support::*;

const SCHEMA: &str =
    "n: int not null, x: float, word: text, key: category, flag: bool, at: timestamp[us, UTC], list: list<int>";

const GRPC_OK: u16 = 0;
const GRPC_UNKNOWN: u16 = 2;
const GRPC_INVALID_ARGUMENT: u16 = 3;
const GRPC_INTERNAL: u16 = 13;

/// The maximum length of a producer's name.
const MAX_PRODUCER_NAME: usize = 200;

/// Returns the number of mutations for each parser.
fn rounds() -> u64 {
    std::env::var("ARROWWOOD_SERVE_FUZZ").map_or(400, |rounds| rounds.parse().unwrap())
}

/// Returns a random position from 0 to `len`.
fn random_position(dice: &mut Dice, len: usize) -> usize {
    dice.below(len as u64 + 1) as usize
}

fn random_text<'a>(dice: &mut Dice, texts: &[&'a str]) -> &'a [u8] {
    texts[dice.below(texts.len() as u64) as usize].as_bytes()
}

/// Returns one of `seeds` with up to three mutations, which change, double or remove a piece, or insert one of `words`
/// or a part of another seed.
fn mutate(dice: &mut Dice, seeds: &[&str], words: &[&str]) -> Vec<u8> {
    let mut bytes = random_text(dice, seeds).to_vec();
    for _ in 0..dice.below(4) {
        let start = random_position(dice, bytes.len());
        let end = (start + dice.below(12) as usize).min(bytes.len());
        let piece = &bytes[start..end];
        let replacement = match dice.below(8) {
            0 => Vec::new(),
            1 => [piece, piece].concat(),
            2 => piece.iter().map(|byte| byte ^ (1 << dice.below(8))).collect(),
            3 => vec![dice.below(256) as u8],
            4 => {
                let other = random_text(dice, seeds);
                other[random_position(dice, other.len())..].to_vec()
            }
            _ => [random_text(dice, words), piece].concat(),
        };
        bytes.splice(start..end, replacement);
    }
    bytes
}

/// A server that receives mutated requests.
struct FuzzedServer {
    server: TestServer,
    client: Client,
    dice: Dice,
    /// The number of responses with each status.
    statuses: BTreeMap<u16, u64>,
}

impl FuzzedServer {
    fn start(seed: u64, schema: &str) -> FuzzedServer {
        let server = TestServer::start();
        server.writer("t", schema).close().unwrap();
        let client = server.client();
        let base_seed: u64 = std::env::var("ARROWWOOD_SERVE_SEED").map_or(0, |seed| seed.parse().unwrap());
        FuzzedServer { server, client, dice: Dice::new(base_seed + seed), statuses: BTreeMap::new() }
    }

    /// Sends a request, and returns the response, or `None` if the connection was closed instead.
    ///
    /// Panics if the response is an internal error.
    fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Reply> {
        let Ok(reply) = self.client.send(method, path, headers, body) else {
            self.client = self.server.client();
            return None;
        };
        assert!(reply.status < 500 || reply.status == 503, "{method} {path} {headers:?} {body:?}: {}", reply.text());
        *self.statuses.entry(reply.status).or_default() += 1;
        if reply.header("connection") == Some("close") {
            self.client = self.server.client();
        }
        Some(reply)
    }

    /// Appends a body to the table `t`; returns the new rows if it was accepted.
    fn append(&mut self, content_type: &str, body: &[u8]) -> Option<Dataset> {
        let table = self.server.path("t");
        let len_before = open(&table).unwrap().len().unwrap();
        let headers = [("content-type", content_type), ("ack", "visible")];
        let reply = self.send("POST", "/v1/tables/t/rows", &headers, body)?;
        let rows = open(&table).unwrap();
        let appended = rows.len().unwrap() - len_before;
        if reply.status != 200 {
            assert_eq!(appended, 0, "{}: {}", String::from_utf8_lossy(body), reply.text());
            return None;
        }
        let acknowledgement = reply.json();
        assert_eq!(acknowledgement["first_row"], len_before);
        assert_eq!(acknowledgement["rows"], appended);
        let new_rows = rows.slice(len_before, appended).unwrap();
        new_rows.validate(|_, _| ()).unwrap();
        Some(new_rows)
    }

    /// Appends JSON lines that must be accepted.
    fn append_json(&mut self, lines: &str) {
        assert!(self.append("application/x-ndjson", lines.as_bytes()).is_some());
    }

    /// Returns the number of responses whose status begins with `first_digit`.
    fn count_statuses(&self, first_digit: u16) -> u64 {
        let mut total = 0;
        for (status, count) in &self.statuses {
            if status / 100 == first_digit {
                total += count;
            }
        }
        total
    }

    /// Asserts that the server still answers, and that it accepted some inputs and rejected some; otherwise the test
    /// would show nothing.
    fn finish(self, parser: &str, rounds: u64) {
        eprintln!("{parser}: {:?}", self.statuses);
        let accepted = self.count_statuses(2);
        let rejected = self.count_statuses(4);
        assert!(accepted > rounds / 50 && rejected > rounds / 50, "{parser}: {:?}", self.statuses);
        assert_eq!(self.server.get("/healthz").status, 200);
    }
}

/// Returns true if a cell has the value of a JSON line, as far as that can be compared simply.
fn is_equal_to_json(cell: &Value<'_>, json: Option<&Json>) -> bool {
    match (cell, json) {
        (Value::Null, None | Some(Json::Null)) => true,
        (Value::Int(number), Some(json)) => json.as_i64().is_none_or(|expected| expected == *number),
        (Value::Float64(number), Some(json)) => json.as_f64().is_none_or(|expected| expected == *number),
        (Value::Bool(flag), Some(json)) => json.as_bool() == Some(*flag),
        (Value::Str(text), Some(json)) => json.as_str() == Some(text),
        (Value::Null, _) | (_, None | Some(Json::Null)) => false,
        // Times and lists have several representations.
        _ => true,
    }
}

/// Parses JSON values that follow each other, or an array of them.
fn parse_json_rows(text: &str) -> Result<Vec<Json>, serde_json::Error> {
    let values: Vec<Json> = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>()?;
    match &values[..] {
        [Json::Array(rows)] => Ok(rows.clone()),
        _ => Ok(values),
    }
}

#[test]
fn mutated_json_is_read_correctly_or_refused() {
    let mut fuzzed = FuzzedServer::start(1, SCHEMA);
    let seeds = [
        "{\"n\":1,\"x\":2.5,\"word\":\"a\",\"key\":\"k\",\"flag\":true,\"at\":\"2024-01-01T00:00:00Z\",\"list\":[1,2]}\n",
        "{\"n\":-9223372036854775808}\n{\"n\":9223372036854775807,\"x\":1e300}\n",
        "{\"word\":\"\\u017c\\ud83d\\ude00\\\"\",\"n\":3}\n\n{\"n\":4,\"list\":[]}",
        "[{\"n\":5},{\"n\":6,\"flag\":null}]",
        " {\"n\" : 7 , \"list\" : [ null , 8 ] } \r\n",
    ];
    let words = [
        "\"", "\\", "{", "}", "[", "]", ",", ":", "null", "1e999", "\"n\":1", "\\ud800", "\n", "[[[[[[[[", "0.1", "-",
        "\u{feff}", "\0",
    ];
    for _ in 0..rounds() {
        let body = mutate(&mut fuzzed.dice, &seeds, &words);
        let Some(rows) = fuzzed.append("application/x-ndjson", &body) else { continue };
        let text = String::from_utf8_lossy(&body);
        let text = text.trim_start_matches('\u{feff}');
        let expected_rows = parse_json_rows(text).unwrap_or_else(|e| panic!("{text:?} was accepted: {e}"));
        assert_eq!(rows.len().unwrap(), expected_rows.len() as u64, "{text:?}");
        for (row, expected) in rows.rows().zip(&expected_rows) {
            let row = row.unwrap();
            for (name, cell) in row.iter() {
                assert!(is_equal_to_json(&cell.unwrap(), expected.get(name)), "{text:?}: {name} of {row:?}");
            }
        }
    }
    fuzzed.finish("JSON", rounds());
}

#[test]
fn mutated_csv_is_read_correctly_or_refused() {
    let mut fuzzed = FuzzedServer::start(2, "n: int not null, x: float, word: text");
    let seeds = [
        "n,x,word\n1,2.5,a\n-9223372036854775808,,\n",
        "word,n,x\n\"b,\"\"c\"\"\n\",2,1e300\n,3,\n",
        "x,word,n\r\n,\"\",4\r\n-0.5,x,5\r\n",
        "n,x,word\n6,7,8",
    ];
    let words =
        ["\"", ",", "\n", "\r", "\"\"", "1e999", "9223372036854775808", "\u{feff}", "\0", "n", ",,,,,,,,", "nan"];
    for _ in 0..rounds() {
        let body = mutate(&mut fuzzed.dice, &seeds, &words);
        if let Some(rows) = fuzzed.append("text/csv", &body) {
            // There must be as many line ends as rows, except for the last row.
            let line_ends = body.iter().filter(|byte| b"\r\n".contains(byte)).count() as u64;
            assert!(rows.len().unwrap() <= line_ends, "{}", String::from_utf8_lossy(&body));
        }
    }
    fuzzed.finish("CSV", rounds());
}

/// The measurements in the seeds, each of which has a table of its name.
const MEASUREMENTS: [&str; 2] = ["cpu", "mem"];

/// Returns the number of rows of each measurement's table.
fn count_measurement_rows(server: &TestServer) -> [u64; 2] {
    MEASUREMENTS.map(|name| open(server.path(name)).map_or(0, |rows| rows.len().unwrap()))
}

/// Counts the lines of each measurement; returns `None` if they can't be parsed.
fn count_measurement_lines(body: &[u8]) -> Option<[u64; 2]> {
    let text = std::str::from_utf8(body).ok()?;
    let mut counts = [0; 2];
    each_line(text, |line| {
        if let Some(number) = MEASUREMENTS.iter().position(|name| *name == line.measurement) {
            counts[number] += 1;
        }
        Ok(())
    })
    .ok()?;
    Some(counts)
}

#[test]
fn mutated_line_protocol_is_read_correctly_or_refused() {
    let mut fuzzed = FuzzedServer::start(3, SCHEMA);
    let seeds = [
        "cpu,host=a usage=1.5,n=2i,ok=t 17\n",
        "cpu usage=2 18\ncpu,host=b\\ c n=3i\n",
        "mem note=\"x, \\\"y\\\"\" 5\r\n",
        "# none\n",
    ];
    let words = [
        ",",
        "=",
        " ",
        "\\",
        "\"",
        "i",
        "u",
        "t",
        "\n",
        "usage=1",
        "host=",
        "1e999",
        "nan",
        "99999999999999999999",
        "#",
    ];
    for _ in 0..rounds() {
        let body = mutate(&mut fuzzed.dice, &seeds, &words);
        let text = String::from_utf8_lossy(&body);
        let rows_before = count_measurement_rows(&fuzzed.server);
        let Some(reply) = fuzzed.send("POST", "/write", &[("ack", "visible")], &body) else { continue };
        let rows_after = count_measurement_rows(&fuzzed.server);
        let lines = count_measurement_lines(&body);
        if reply.status == 204 {
            let lines = lines.unwrap_or_else(|| panic!("accepted: {text}"));
            for number in 0..MEASUREMENTS.len() {
                assert_eq!(rows_after[number] - rows_before[number], lines[number], "{text}");
            }
        } else if lines.is_none() {
            assert_eq!(rows_after, rows_before, "{text}");
        }
    }
    fuzzed.finish("line protocol", rounds());
}

fn percent_encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// Returns sixty JSON lines with few different values in each column but `n`.
fn condition_rows() -> String {
    let mut lines = String::new();
    for n in 0..60 {
        let x = n / 3;
        let word = n % 7;
        let key = n % 3;
        let flag = n % 2 == 0;
        lines += &format!("{{\"n\":{n},\"x\":{x}.5,\"word\":\"w{word}\",\"key\":\"k{key}\",\"flag\":{flag}}}\n");
    }
    lines
}

/// Returns the rows that match a condition.
fn filter_rows(rows: &Dataset, condition: &str) -> Result<Dataset, String> {
    let condition = parse_condition(condition, rows.schema()).map_err(|e| e.to_string())?;
    rows.filter(&condition).map_err(|e| e.to_string())
}

#[test]
fn mutated_conditions_match_correctly_or_are_refused() {
    let mut fuzzed = FuzzedServer::start(4, SCHEMA);
    fuzzed.append_json(&condition_rows());
    let rows = open(fuzzed.server.path("t")).unwrap();
    let seeds = [
        "n > 3 and not (x <= 10.5 or word = 'w3')",
        "key in ('k1', 'k2') and n not in (1, 2, 3)",
        "flag = true or at is null and word is not null",
        "at >= '2024-01-01T00:00:00Z' or n != 5",
        "\"n\" = 7",
    ];
    let words = [
        "(",
        ")",
        "not ",
        " and ",
        " or ",
        "'",
        "''",
        "\"",
        "in (",
        ",",
        "is null",
        "<>",
        ">=",
        "=",
        "-1",
        "1e400",
        "99999999999999999999",
        "list",
        "ż",
        "\0",
    ];
    for _ in 0..rounds() {
        let bytes = mutate(&mut fuzzed.dice, &seeds, &words);
        let text = String::from_utf8_lossy(&bytes);
        let path = format!("/v1/tables/t/rows?format=jsonl&columns=n&where={}", percent_encode(&bytes));
        let Some(reply) = fuzzed.send("GET", &path, &[], b"") else { continue };
        let expected = filter_rows(&rows, &text);
        match reply.status {
            200 => {
                let expected = expected.unwrap_or_else(|e| panic!("{text} was accepted: {e}"));
                assert_eq!(reply.text().lines().count() as u64, expected.len().unwrap(), "{text}");
            }
            400 => assert!(expected.is_err(), "{text}"),
            status => panic!("{status}: {text}"),
        }
    }
    fuzzed.finish("conditions", rounds());
}

#[test]
fn mutated_urls_are_read_correctly_or_refused() {
    let mut fuzzed = FuzzedServer::start(5, SCHEMA);
    fuzzed.append_json(&"{\"n\":7}\n".repeat(10));
    let seeds = [
        "t/rows?from=2&to=5",
        "t/rows?columns=n,word&limit=3",
        "t/rows?from=-3&format=csv",
        "t",
        "t/producers/p",
        "t/rows?column=n&where=n%3E3",
    ];
    let words = [
        "from=",
        "to=",
        "&",
        "=",
        "?",
        "/",
        "..",
        "%2f",
        "%00",
        "%",
        "+",
        "-1",
        "18446744073709551616",
        "columns=",
        "format=jsonl",
        "rows",
        "t",
        "limit=0",
    ];
    for _ in 0..rounds() {
        let target = mutate(&mut fuzzed.dice, &seeds, &words);
        // Requests without a valid request line are tested in `hostile.rs`.
        let allowed: Vec<u8> = target.into_iter().filter(|byte| byte.is_ascii_graphic() && *byte != b'#').collect();
        let target = format!("/v1/tables/{}", String::from_utf8(allowed).unwrap());
        // A response that follows a table has no end.
        if target.contains("follow") {
            continue;
        }
        if let Some(reply) = fuzzed.send("GET", &target, &[], b"") {
            assert!(reply.is_complete, "{target}");
        }
    }
    fuzzed.finish("URLs", rounds());
}

/// The last accepted batch of a producer.
struct ProducerPosition {
    epoch: u64,
    sequence: u64,
}

/// A naive model of how a table handles the batch numbers of producers.
#[derive(Default)]
struct ProducerModel {
    positions: HashMap<String, ProducerPosition>,
    row_count: u64,
}

impl ProducerModel {
    /// Appends a batch of one row; returns the status of the response.
    fn append(&mut self, headers: &ProducerHeaders) -> u16 {
        let numbers = (parse_number(&headers.sequence), parse_number(&headers.epoch));
        let (Some(sequence), Some(epoch)) = numbers else {
            return 400;
        };
        if !is_producer_name(&headers.name) {
            return 400;
        }
        let Some(position) = self.positions.get_mut(&headers.name) else {
            self.positions.insert(headers.name.clone(), ProducerPosition { epoch, sequence });
            self.row_count += 1;
            return 200;
        };
        if epoch < position.epoch || sequence > position.sequence + 1 {
            return 409;
        }
        // A batch that was accepted before is acknowledged again, but not appended.
        if sequence > position.sequence {
            position.sequence = sequence;
            self.row_count += 1;
        }
        position.epoch = epoch;
        200
    }
}

/// Parses the number of a batch or an epoch.
fn parse_number(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok()?;
    (number <= i64::MAX as u64 && !text.starts_with('+')).then_some(number)
}

fn is_producer_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_PRODUCER_NAME && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The headers of a batch with a number.
struct ProducerHeaders {
    name: String,
    sequence: String,
    epoch: String,
}

impl ProducerHeaders {
    /// Returns mutated headers. Batch numbers are often near the `last_sequence` of a producer.
    fn mutated(dice: &mut Dice, last_sequence: u64) -> ProducerHeaders {
        let name = mutate(dice, &["a", "bc", "producer"], &[" ", "\t", "é", ":", "%00", "a"]);
        let sequences = [0, last_sequence, last_sequence + 1, last_sequence + 2, i64::MAX as u64, u64::MAX];
        let sequences = sequences.map(|number| number.to_string());
        let sequences: Vec<&str> = sequences.iter().map(String::as_str).collect();
        let sequence = mutate(dice, &sequences, &["0", "-", "+", " ", ".", "e1"]);
        let epoch = mutate(dice, &["0", "0", "1", "2"], &["0", "-", "x", ""]);
        ProducerHeaders {
            name: remove_controls(&name),
            sequence: remove_controls(&sequence),
            epoch: remove_controls(&epoch),
        }
    }

    /// Returns the values without surrounding white space, which does not belong to a header's value.
    fn trimmed(&self) -> ProducerHeaders {
        ProducerHeaders {
            name: trim_header(&self.name),
            sequence: trim_header(&self.sequence),
            epoch: trim_header(&self.epoch),
        }
    }
}

fn remove_controls(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(|c: char| c.is_control(), "")
}

fn trim_header(value: &str) -> String {
    value.trim_matches([' ', '\t']).to_owned()
}

/// Compares the server's handling of batch numbers with a naive model.
#[test]
fn mutated_producer_headers_are_read_correctly_or_refused() {
    let mut seed = 6;
    let mut remaining = rounds();
    while remaining > 0 {
        remaining -= fuzz_producers(seed, remaining);
        seed += 1;
    }
}

/// Sends batches of random producers, until the table has no room for another name or `max_rounds` were sent; returns
/// their number.
fn fuzz_producers(seed: u64, max_rounds: u64) -> u64 {
    let mut fuzzed = FuzzedServer::start(seed, SCHEMA);
    let mut model = ProducerModel::default();
    let mut rounds = 0;
    while rounds < max_rounds {
        rounds += 1;
        let last_sequence = model.positions.get("a").map_or(0, |position| position.sequence);
        let sent = ProducerHeaders::mutated(&mut fuzzed.dice, last_sequence);
        let headers = [
            ("content-type", "application/x-ndjson"),
            ("ack", "visible"),
            ("producer", sent.name.as_str()),
            ("producer-epoch", sent.epoch.as_str()),
            ("producer-sequence", sent.sequence.as_str()),
        ];
        let Some(reply) = fuzzed.send("POST", "/v1/tables/t/rows", &headers, b"{\"n\":1}") else { continue };
        let received = sent.trimmed();
        // A table has room for some hundred names. The row of this producer was not appended.
        if reply.status == 409 && reply.code() == "too_many_producers" {
            assert!(model.positions.len() > 100 && !model.positions.contains_key(&received.name));
            break;
        }
        let expected = model.append(&received);
        let ProducerHeaders { name, sequence, epoch } = &received;
        assert_eq!(reply.status, expected, "{name:?} {epoch:?} {sequence:?}: {}", reply.text());
    }

    let table = open(fuzzed.server.path("t")).unwrap();
    assert_eq!(table.len().unwrap(), model.row_count);
    let positions = table.positions().unwrap();
    for (name, expected) in &model.positions {
        let sequence = positions.get(&format!("producer:{name}")).copied();
        let epoch = positions.get(&format!("producer-epoch:{name}")).copied();
        assert_eq!(sequence, Some(expected.sequence as i64), "{name}");
        assert_eq!(epoch.unwrap_or(0), expected.epoch as i64, "{name}");
    }
    fuzzed.finish("producers", rounds);
    rounds
}

/// Mutates tickets and descriptors both before and after they are encoded.
#[test]
fn mutated_tickets_and_descriptors_get_a_status() {
    let mut fuzzed = FuzzedServer::start(7, SCHEMA);
    fuzzed.append_json(&"{\"n\":7}\n".repeat(10));
    let seeds =
        ["t", "t?from=2&to=5", "t?columns=n,word&limit=3", "t?where=n > 3 and word is null", "t?column=n&from=-2"];
    let words = [
        "from=",
        "to=",
        "&",
        "=",
        "?",
        "/",
        "..",
        "%00",
        "%",
        "+",
        "-1",
        "18446744073709551616",
        "columns=",
        "where=",
        "ack=visible",
    ];
    let methods = ["DoGet", "GetFlightInfo", "GetSchema", "DoPut"];
    let mut statuses: BTreeMap<(&str, u16), u64> = BTreeMap::new();
    for round in 0..rounds() {
        let method = methods[round as usize % methods.len()];
        let text = mutate(&mut fuzzed.dice, &seeds, &words);
        let mut message = encode_flight_message(&mut fuzzed.dice, method, text);
        if fuzzed.dice.below(3) == 0 {
            splice_random_bytes(&mut fuzzed.dice, &mut message);
        }
        let call_result = call(&fuzzed.server, method, frame(&message));
        assert!(![GRPC_UNKNOWN, GRPC_INTERNAL].contains(&call_result.status), "{method} {message:?}: {call_result:?}");
        *statuses.entry((method, call_result.status)).or_default() += 1;
    }
    eprintln!("Flight: {statuses:?}");
    for method in &methods[..3] {
        assert!(statuses.contains_key(&(method, GRPC_OK)), "{statuses:?}");
        assert!(statuses.contains_key(&(method, GRPC_INVALID_ARGUMENT)), "{statuses:?}");
    }
    assert_eq!(fuzzed.server.get("/healthz").status, 200);
}

/// Encodes a ticket for `DoGet`, and a descriptor for other methods: mostly a command, else a path, or an invalid mix.
fn encode_flight_message(dice: &mut Dice, method: &str, text: Vec<u8>) -> Vec<u8> {
    let choice = dice.below(4);
    if method == "DoGet" {
        return Ticket { ticket: text }.encode_to_vec();
    }
    let descriptor = match choice {
        0 => Descriptor::path(&String::from_utf8_lossy(&text)),
        1 => Descriptor { kind: dice.below(4) as i32, command: text, path: vec!["t".into()] },
        _ => Descriptor { kind: 2, command: text, path: Vec::new() },
    };
    descriptor.encode_to_vec()
}

/// Replaces up to three bytes of a message by up to three random ones.
fn splice_random_bytes(dice: &mut Dice, message: &mut Vec<u8>) {
    let start = random_position(dice, message.len());
    let random_bytes = dice.below(1 << 40).to_le_bytes();
    let end = (start + dice.below(4) as usize).min(message.len());
    let replacement = &random_bytes[..dice.below(4) as usize];
    message.splice(start..end, replacement.iter().copied());
}
