//! Tests all parsers of input from the network with random mutations: JSON lines, CSV, line protocol, conditions, URL
//! parameters, the numbers of producers, and tickets and descriptors of Flight. Each input is rejected with a message,
//! or means what a naive reading of it means; none makes the server fail.
//!
//! `ARROWWOOD_SERVE_FUZZ` is the number of mutations for each parser, and each `ARROWWOOD_SERVE_SEED` gives others
//! (`make torture-serve`). The targets in `fuzz/` look for new inputs by coverage.

use std::collections::{BTreeMap, HashMap};

use arrowwood::{Dataset, Value, open};
use arrowwood_serve::parse_condition;
use prost::Message;
use serde_json::Value as Json;

use crate::dice::Dice;
use crate::support::flight::{Descriptor, Ticket, call, frame};
use crate::support::*;

const SCHEMA: &str =
    "n: int not null, x: float, word: text, key: category, flag: bool, at: timestamp[us, UTC], list: list<int>";

fn rounds() -> u64 {
    std::env::var("ARROWWOOD_SERVE_FUZZ").map_or(400, |rounds| rounds.parse().unwrap())
}

/// Returns one of `seeds`, with some pieces changed, doubled, removed, or taken from `words` and from another seed.
fn mutate(dice: &mut Dice, seeds: &[&str], words: &[&str]) -> Vec<u8> {
    let any = |dice: &mut Dice, all: &[&str]| all[dice.below(all.len() as u64) as usize].as_bytes().to_vec();
    let mut bytes = any(dice, seeds);
    for _ in 0..dice.below(4) {
        let from = dice.below(bytes.len() as u64 + 1) as usize;
        let to = (from + dice.below(12) as usize).min(bytes.len());
        let piece = match dice.below(8) {
            0 => Vec::new(),
            1 => [&bytes[from..to], &bytes[from..to]].concat(),
            2 => bytes[from..to].iter().map(|byte| byte ^ (1 << dice.below(8))).collect(),
            3 => vec![dice.below(256) as u8],
            4 => {
                let other = any(dice, seeds);
                let at = dice.below(other.len() as u64 + 1) as usize;
                other[at..].to_vec()
            }
            _ => [&any(dice, words)[..], &bytes[from..to]].concat(),
        };
        bytes.splice(from..to, piece);
    }
    bytes
}

/// A server that receives mutated requests.
struct FuzzedServer {
    served: Served,
    client: Client,
    dice: Dice,
    statuses: BTreeMap<u16, u64>,
}

impl FuzzedServer {
    fn start(seed: u64, schema: &str) -> FuzzedServer {
        let served = Served::start();
        served.writer("t", schema).close().unwrap();
        let client = served.client();
        let first: u64 = std::env::var("ARROWWOOD_SERVE_SEED").map_or(0, |first| first.parse().unwrap());
        FuzzedServer { served, client, dice: Dice::new(first + seed), statuses: BTreeMap::new() }
    }

    /// Returns the response, which must not be an internal error; `None` if the connection was closed instead.
    fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Reply> {
        let Ok(reply) = self.client.send(method, path, headers, body) else {
            self.client = self.served.client();
            return None;
        };
        assert!(reply.status < 500 || reply.status == 503, "{method} {path} {headers:?} {body:?}: {}", reply.text());
        *self.statuses.entry(reply.status).or_default() += 1;
        if reply.header("connection") == Some("close") {
            self.client = self.served.client();
        }
        Some(reply)
    }

    /// Appends a body; returns the new rows if it was accepted.
    fn append(&mut self, content_type: &str, body: &[u8]) -> Option<Dataset> {
        let table = self.served.path("t");
        let before = open(&table).unwrap().len().unwrap();
        let reply =
            self.send("POST", "/v1/tables/t/rows", &[("content-type", content_type), ("ack", "visible")], body)?;
        let rows = open(&table).unwrap();
        let after = rows.len().unwrap();
        if reply.status != 200 {
            assert_eq!(after, before, "{}: {}", String::from_utf8_lossy(body), reply.text());
            return None;
        }
        let acknowledgement = reply.json();
        assert_eq!(
            (acknowledgement["first_row"].as_u64(), acknowledgement["rows"].as_u64()),
            (Some(before), Some(after - before))
        );
        let new = rows.slice(before, after - before).unwrap();
        new.validate(|_, _| ()).unwrap();
        Some(new)
    }

    /// Asserts that some inputs were accepted and some rejected; otherwise the test would show nothing.
    fn end(self, name: &str, rounds: u64) {
        eprintln!("{name}: {:?}", self.statuses);
        let count =
            |first: u16| self.statuses.iter().filter(|(status, _)| **status / 100 == first).map(|(_, n)| n).sum();
        let (taken, refused): (u64, u64) = (count(2), count(4));
        assert!(taken > rounds / 50 && refused > rounds / 50, "{name}: {:?}", self.statuses);
        assert_eq!(self.served.get("/healthz").status, 200);
    }
}

/// Returns true if a cell has the value of a JSON line, as far as that can be compared simply.
fn is_said(cell: &Value<'_>, said: Option<&Json>) -> bool {
    match (cell, said) {
        (Value::Null, None | Some(Json::Null)) => true,
        (Value::Int(number), Some(said)) => said.as_i64().is_none_or(|said| said == *number),
        (Value::Float64(number), Some(said)) => said.as_f64().is_none_or(|said| said == *number),
        (Value::Bool(flag), Some(said)) => said.as_bool() == Some(*flag),
        (Value::Str(text), Some(said)) => said.as_str() == Some(text),
        (Value::Null, _) | (_, None | Some(Json::Null)) => false,
        // Times and lists have several representations.
        _ => true,
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
        // An independent reading: values one after the other, or an array of them.
        let text = String::from_utf8_lossy(&body);
        let text = text.trim_start_matches('\u{feff}');
        let values: Result<Vec<Json>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        let values = values.unwrap_or_else(|e| panic!("{text:?} was taken: {e}"));
        let values = match &values[..] {
            [Json::Array(all)] => all.clone(),
            _ => values,
        };
        assert_eq!(rows.len().unwrap(), values.len() as u64, "{text:?}");
        for (row, said) in rows.rows().zip(&values) {
            let row = row.unwrap();
            for (name, cell) in row.iter() {
                assert!(is_said(&cell.unwrap(), said.get(name)), "{text:?}: {name} of {row:?}");
            }
        }
    }
    fuzzed.end("JSON", rounds());
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
            let ends = body.iter().filter(|byte| b"\r\n".contains(byte)).count() as u64;
            assert!(rows.len().unwrap() <= ends, "{}", String::from_utf8_lossy(&body));
        }
    }
    fuzzed.end("CSV", rounds());
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
    let rows_of = |served: &Served, name: &str| open(served.path(name)).map_or(0, |rows| rows.len().unwrap());
    for _ in 0..rounds() {
        let body = mutate(&mut fuzzed.dice, &seeds, &words);
        let before: Vec<_> = ["cpu", "mem"].map(|name| rows_of(&fuzzed.served, name)).into();
        let Some(reply) = fuzzed.send("POST", "/write", &[("ack", "visible")], &body) else { continue };
        let after: Vec<_> = ["cpu", "mem"].map(|name| rows_of(&fuzzed.served, name)).into();
        let mut lines: HashMap<String, u64> = HashMap::new();
        let parsed = std::str::from_utf8(&body).is_ok_and(|text| {
            let each = |line: &arrowwood_serve::Line<'_>| {
                *lines.entry(line.measurement.to_string()).or_default() += 1;
                Ok(())
            };
            arrowwood_serve::each_line(text, each).is_ok()
        });
        if reply.status == 204 {
            assert!(parsed, "{}", String::from_utf8_lossy(&body));
            for (number, name) in ["cpu", "mem"].into_iter().enumerate() {
                assert_eq!(
                    after[number] - before[number],
                    lines.get(name).copied().unwrap_or(0),
                    "{}",
                    String::from_utf8_lossy(&body)
                );
            }
        } else if !parsed {
            assert_eq!(after, before, "{}", String::from_utf8_lossy(&body));
        }
    }
    fuzzed.end("line protocol", rounds());
}

fn percent_encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn mutated_conditions_match_correctly_or_are_refused() {
    let mut fuzzed = FuzzedServer::start(4, SCHEMA);
    let line = |n: i64| {
        format!(
            "{{\"n\":{n},\"x\":{}.5,\"word\":\"w{}\",\"key\":\"k{}\",\"flag\":{}}}\n",
            n / 3,
            n % 7,
            n % 3,
            n % 2 == 0
        )
    };
    assert!(fuzzed.append("application/x-ndjson", (0..60).map(line).collect::<String>().as_bytes()).is_some());
    let rows = open(fuzzed.served.path("t")).unwrap();
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
        let text = mutate(&mut fuzzed.dice, &seeds, &words);
        let path = format!("/v1/tables/t/rows?format=jsonl&columns=n&where={}", percent_encode(&text));
        let Some(reply) = fuzzed.send("GET", &path, &[], b"") else { continue };
        let expected = parse_condition(&String::from_utf8_lossy(&text), rows.schema());
        match (reply.status, expected) {
            (200, Ok(condition)) => {
                let lines = reply.text().lines().count() as u64;
                assert_eq!(
                    lines,
                    rows.filter(&condition).unwrap().len().unwrap(),
                    "{}",
                    String::from_utf8_lossy(&text)
                );
            }
            (400, found) => {
                assert!(found.is_err() || rows.filter(&found.unwrap()).is_err(), "{}", String::from_utf8_lossy(&text))
            }
            (status, found) => panic!("{status}, {found:?}: {}", String::from_utf8_lossy(&text)),
        }
    }
    fuzzed.end("conditions", rounds());
}

#[test]
fn mutated_urls_are_read_correctly_or_refused() {
    let mut fuzzed = FuzzedServer::start(5, SCHEMA);
    assert!(fuzzed.append("application/x-ndjson", "{\"n\":7}\n".repeat(10).as_bytes()).is_some());
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
        let plain: Vec<u8> = target.into_iter().filter(|byte| byte.is_ascii_graphic() && *byte != b'#').collect();
        let target = format!("/v1/tables/{}", String::from_utf8(plain).unwrap());
        if target.contains("follow") {
            continue;
        }
        if let Some(reply) = fuzzed.send("GET", &target, &[], b"") {
            assert!(reply.is_whole, "{target}");
        }
    }
    fuzzed.end("URLs", rounds());
}

/// Compares the server's handling of batch numbers with a naive model.
#[test]
fn mutated_producer_headers_are_read_correctly_or_refused() {
    let (mut seed, mut left) = (6, rounds());
    while left > 0 {
        left -= some_producers(seed, left);
        seed += 1;
    }
}

/// Sends batches of random producers, until the table has no room for another name or `most` were sent; returns their
/// number.
fn some_producers(seed: u64, most: u64) -> u64 {
    let mut fuzzed = FuzzedServer::start(seed, SCHEMA);
    let mut expected_positions: HashMap<String, (u64, u64)> = HashMap::new();
    let (mut rows, mut rounds) = (0, 0);
    while rounds < most {
        rounds += 1;
        let name = mutate(&mut fuzzed.dice, &["a", "bc", "producer"], &[" ", "\t", "é", ":", "%00", "a"]);
        let near = expected_positions.get("a").map_or(0, |position| position.1);
        let numbers = [0, near, near + 1, near + 2, i64::MAX as u64, u64::MAX].map(|number| number.to_string());
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let sequence = mutate(&mut fuzzed.dice, &numbers, &["0", "-", "+", " ", ".", "e1"]);
        let epoch = mutate(&mut fuzzed.dice, &["0", "0", "1", "2"], &["0", "-", "x", ""]);
        let clean = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(|c: char| c.is_control(), "");
        let (name, sequence, epoch) = (clean(name), clean(sequence), clean(epoch));
        let headers = [
            ("content-type", "application/x-ndjson"),
            ("ack", "visible"),
            ("producer", &*name),
            ("producer-epoch", &*epoch),
            ("producer-sequence", &*sequence),
        ];
        let Some(reply) = fuzzed.send("POST", "/v1/tables/t/rows", &headers, b"{\"n\":1}") else { continue };
        // A table has room for some hundred names. The row of this producer was not appended.
        if reply.status == 409 && reply.code() == "too_many_producers" {
            assert!(expected_positions.len() > 100 && !expected_positions.contains_key(name.trim_matches([' ', '\t'])));
            break;
        }
        // White space around a header's value does not belong to it.
        let [name, sequence, epoch] = [&name, &sequence, &epoch].map(|text| text.trim_matches([' ', '\t']).to_owned());
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n <= i64::MAX as u64 && !text.starts_with('+'));
        let is_name = !name.is_empty() && name.len() <= 200 && name.bytes().all(|byte| byte.is_ascii_graphic());
        let expected = match (is_name, number(&sequence), number(&epoch)) {
            (true, Some(sequence), Some(epoch)) => match expected_positions.get(&name).copied() {
                Some((fence, _)) if epoch < fence => 409,
                Some((_, last)) if sequence > last + 1 => 409,
                Some((_, last)) => {
                    rows += u64::from(sequence > last);
                    expected_positions.insert(name.clone(), (epoch, last.max(sequence)));
                    200
                }
                None => {
                    rows += 1;
                    expected_positions.insert(name.clone(), (epoch, sequence));
                    200
                }
            },
            _ => 400,
        };
        assert_eq!(reply.status, expected, "{name:?} {epoch:?} {sequence:?}: {}", reply.text());
    }
    let table = open(fuzzed.served.path("t")).unwrap();
    assert_eq!(table.len().unwrap(), rows);
    let positions = table.positions().unwrap();
    for (name, (epoch, sequence)) in &expected_positions {
        assert_eq!(positions.get(&format!("producer:{name}")), Some(&(*sequence as i64)), "{name}");
        assert_eq!(positions.get(&format!("producer-epoch:{name}")).copied().unwrap_or(0), *epoch as i64, "{name}");
    }
    fuzzed.end("producers", rounds);
    rounds
}

/// Mutates tickets and descriptors both before and after they are encoded.
#[test]
fn mutated_tickets_and_descriptors_get_a_status() {
    let mut fuzzed = FuzzedServer::start(7, SCHEMA);
    assert!(fuzzed.append("application/x-ndjson", "{\"n\":7}\n".repeat(10).as_bytes()).is_some());
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
    let mut statuses: BTreeMap<(&str, u16), u64> = BTreeMap::new();
    let methods = ["DoGet", "GetFlightInfo", "GetSchema", "DoPut"];
    for round in 0..rounds() {
        let method = methods[round as usize % methods.len()];
        let text = mutate(&mut fuzzed.dice, &seeds, &words);
        let message = match fuzzed.dice.below(4) {
            _ if method == "DoGet" => Ticket { ticket: text }.encode_to_vec(),
            0 => Descriptor { kind: 1, command: Vec::new(), path: vec![String::from_utf8_lossy(&text).into()] }
                .encode_to_vec(),
            1 => {
                Descriptor { kind: fuzzed.dice.below(4) as i32, command: text, path: vec!["t".into()] }.encode_to_vec()
            }
            _ => Descriptor { kind: 2, command: text, path: Vec::new() }.encode_to_vec(),
        };
        let message = if fuzzed.dice.below(3) == 0 {
            let mut message = message;
            let at = fuzzed.dice.below(message.len() as u64 + 1) as usize;
            let more = fuzzed.dice.below(1 << 40).to_le_bytes();
            let until = (at + fuzzed.dice.below(4) as usize).min(message.len());
            message.splice(at..until, more[..fuzzed.dice.below(4) as usize].iter().copied());
            message
        } else {
            message
        };
        let call_result = call(&fuzzed.served, method, frame(&message));
        assert!(![2, 13].contains(&call_result.status), "{method} {message:?}: {call_result:?}");
        *statuses.entry((method, call_result.status)).or_default() += 1;
    }
    eprintln!("Flight: {statuses:?}");
    for method in &methods[..3] {
        assert!(statuses.contains_key(&(method, 0)) && statuses.contains_key(&(method, 3)), "{statuses:?}");
    }
    assert_eq!(fuzzed.served.get("/healthz").status, 200);
}
