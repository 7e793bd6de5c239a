//! Tests of the command with tables, which several processes use at a time.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::running::{Running, output};
use crate::support::{command, expect_failure, run};
use crate::wait::wait_until;

const SCHEMA: &str = "n: int not null, symbol: category, price: float";

fn run_with_input(folder: &TempDir, args: &[&str], input: &[u8]) -> Output {
    output(command(folder.path(), args).stdin(Stdio::piped()), input)
}

/// Starts a command that runs until its input ends, or until it is killed or interrupted.
///
/// SIGINT gets its default action: a shell that runs the tests in the background lets them, and their children, ignore
/// it.
fn start(folder: &TempDir, args: &[&str]) -> Running {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_arrowwood")]).args(args).current_dir(folder.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(&mut command)
}

/// Asserts that a run succeeded, without messages except for what it appended; returns what it printed.
#[track_caller]
fn expect_success(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let is_appended = stderr.lines().count() == 1 && stderr.contains(" appended, the next one is number ");
    assert!(stderr.is_empty() || is_appended, "{stderr}");
    stdout
}

/// Asserts that a run failed with a message.
#[track_caller]
fn assert_failure(output: &Output, message: &str) {
    let error = expect_failure(output);
    assert!(error.contains(message), "{error}");
}

/// Runs the command, and asserts that it succeeded; returns what it printed.
#[track_caller]
fn run_ok(folder: &TempDir, args: &[&str]) -> String {
    expect_success(&run(folder, args))
}

/// Runs the command, and asserts that it succeeded; returns the JSON value that it printed.
#[track_caller]
fn run_json(folder: &TempDir, args: &[&str]) -> Json {
    parse_json(run_ok(folder, args).as_bytes())
}

/// Appends rows to a table through a pipe.
#[track_caller]
fn append_input(folder: &TempDir, table: &str, input: &[u8]) {
    expect_success(&run_with_input(folder, &["append", table], input));
}

/// Returns the number of rows of a table.
fn count_rows(folder: &TempDir, table: &str) -> usize {
    let header_lines = 1;
    cat_csv(folder, table).lines().count() - header_lines
}

/// Returns the number in the column `n` of a row in JSON.
fn number_in(line: &str) -> Json {
    parse_json(line.as_bytes())["n"].clone()
}

#[track_caller]
fn json_of_success(output: &Output) -> Json {
    parse_json(expect_success(output).as_bytes())
}

fn cat_csv(folder: &TempDir, table: &str) -> String {
    expect_success(&run(folder, &["cat", "--csv", table]))
}

/// Creates a table of one row, with the columns of `SCHEMA`.
fn create_table(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    run_ok(&folder, &["create", name, "--schema", SCHEMA]);
    append_input(&folder, name, b"{\"n\": 0, \"symbol\": \"A\", \"price\": 0.5}\n");
    folder
}

/// Returns rows `from .. to`: a number, and a text in a dictionary.
fn batch(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let keys = Int8Array::from_iter_values((from..to).map(|n| (n % 3) as i8));
    let texts = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["t0", "t1", "t2"])));
    RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(texts) as ArrayRef)]).unwrap()
}

fn encode_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn encode_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn write_file(folder: &TempDir, name: &str, contents: impl AsRef<[u8]>) {
    fs::write(folder.path().join(name), contents).unwrap();
}

/// Returns what `stat` prints about a table.
fn table_facts(folder: &TempDir, table: &str) -> Json {
    run_json(folder, &["stat", "--json", table])["table"].clone()
}

#[test]
fn create_accepts_a_schema_or_an_example_file() {
    let folder = TempDir::new().unwrap();
    run_ok(&folder, &["create", "ticks", "--schema", SCHEMA, "--sorted-by", "n", "--segment-rows", "100"]);
    let schema = run_ok(&folder, &["schema", "ticks"]);
    assert_eq!(schema, "n       int64                    not null\nsymbol  dictionary<int32, utf8>\nprice   float64\n");
    let facts = table_facts(&folder, "ticks");
    assert_eq!(facts["sorted_by"], "n");
    assert_eq!(facts["segment_rows"], 100);
    assert_eq!(facts["live"], true);
    let out_of_order = b"{\"n\": 5}\n{\"n\": 4}\n";
    assert_failure(&run_with_input(&folder, &["append", "ticks"], out_of_order), "column 'n'");

    write_file(&folder, "a.arrow", encode_file(&[batch(0, 5)]));
    run_ok(&folder, &["create", "like", "--like", "a.arrow"]);
    assert!(run_ok(&folder, &["schema", "like"]).contains("text  dictionary<int32, utf8>"));
    run_ok(&folder, &["create", "coded", "--schema", "a: str, b: str, c: str", "--dictionary", "a,c"]);
    assert_eq!(run_ok(&folder, &["schema", "coded"]).matches("dictionary").count(), 2);

    for existing in ["ticks", "a.arrow"] {
        let output = run(&folder, &["create", existing, "--schema", SCHEMA]);
        assert_failure(&output, &format!("{existing}: the path exists already"));
    }
    assert_failure(&run(&folder, &["create", "x", "--like", "none.arrow"]), "none.arrow");
    for args in [
        &["create", "x"][..],
        &["create", "x", "--schema", "a: in"],
        &["create", "x", "--schema", SCHEMA, "--like", "y"],
    ] {
        assert_eq!(run(&folder, args).status.code(), Some(2), "{args:?}");
    }
    assert!(!folder.path().join("x").exists());
}

#[test]
fn append_reads_files_of_all_formats() {
    let folder = create_table("ticks");
    write_file(&folder, "a.csv", "price,n,symbol\n1.5,1,B\n,2,\n");
    write_file(&folder, "b.tsv", "price\tn\tsymbol\n3\t3\tA\n");
    write_file(&folder, "c.jsonl", "{\"n\": 4, \"symbol\": \"C\"}\n\n{\"n\": 5}\n");
    let output = run(&folder, &["append", "--json", "ticks", "a.csv", "b.tsv", "c.jsonl"]);
    assert_eq!(json_of_success(&output), json!({"table": "ticks", "appended": 5, "end": 6, "dropped": 0}));
    let expected = "n,symbol,price\n0,A,0.5\n1,B,1.5\n2,,\n3,A,3.0\n4,C,\n5,,\n";
    assert_eq!(cat_csv(&folder, "ticks"), expected);
    // A table can be appended to another one, which is created if it is missing.
    let output = run(&folder, &["append", "copy", "ticks", "--dictionary", "symbol"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "copy: 6 rows appended, the next one is number 6\n");
    assert_eq!(cat_csv(&folder, "copy"), expected);
    // Types are inferred if there is no table.
    run_ok(&folder, &["append", "new", "a.csv", "c.jsonl", "--dictionary", "symbol"]);
    assert_eq!(cat_csv(&folder, "new"), "price,n,symbol\n1.5,1,B\n,2,\n,4,C\n,5,\n");
}

#[test]
fn append_reads_arrow_data_from_files_and_pipes() {
    let folder = TempDir::new().unwrap();
    write_file(&folder, "a.arrow", encode_file(&[batch(0, 5), batch(5, 9)]));
    write_file(&folder, "b", encode_stream(&[batch(9, 12)]));
    run_ok(&folder, &["append", "t", "a.arrow", "b"]);
    let stream = encode_stream(&[batch(12, 20), batch(20, 21)]);
    expect_success(&run_with_input(&folder, &["append", "t", "-"], &stream));
    append_input(&folder, "t", &encode_file(&[batch(21, 30)]));
    let mut expected = "n,text\n".to_owned();
    for n in 0..30 {
        expected += &format!("{n},t{}\n", n % 3);
    }
    assert_eq!(cat_csv(&folder, "t"), expected);
    // The output of `cat` can be appended, also from another machine:
    // `ssh host arrowwood cat … | arrowwood append t -`
    write_file(&folder, "c.arrow", encode_file(&[batch(30, 33)]));
    let stream_of_cat = run(&folder, &["cat", "c.arrow"]).stdout;
    expect_success(&run_with_input(&folder, &["append", "t", "-"], &stream_of_cat));
    assert_eq!(cat_csv(&folder, "t").lines().last(), Some("32,t2"));
    // A stream from a pipe creates a table, too.
    let stream = encode_stream(&[batch(0, 3)]);
    expect_success(&run_with_input(&folder, &["append", "u", "--format", "ipc"], &stream));
    assert_eq!(count_rows(&folder, "u"), 3);
}

#[test]
fn files_are_appended_atomically() {
    let folder = create_table("ticks");
    write_file(&folder, "good.csv", "n,symbol,price\n1,A,1\n");
    write_file(&folder, "bad.csv", "n,symbol,price\n2,A,1\nx,A,1\n");
    let output = run(&folder, &["append", "ticks", "good.csv", "bad.csv"]);
    assert_failure(&output, "bad.csv: 1 row appended, then: reading CSV, line 3");
    assert_eq!(cat_csv(&folder, "ticks"), "n,symbol,price\n0,A,0.5\n1,A,1.0\n");
    assert_eq!(table_facts(&folder, "ticks")["durable_end"], 2);
    // Rows that came through a pipe before an error stay.
    let error = expect_failure(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": 2}\n{\"n\": true}\n"));
    assert!(error.starts_with("arrowwood: standard input: 1 row appended, then: reading JSON lines"), "{error}");
    assert_eq!(count_rows(&folder, "ticks"), 3);
    let error = expect_failure(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": null}\n"));
    assert!(error.contains("n"), "{error}");
    assert!(!error.contains("appended"), "{error}");
    write_file(&folder, "other.arrow", encode_file(&[batch(0, 3)]));
    let output = run(&folder, &["append", "ticks", "other.arrow"]);
    assert_failure(&output, "ticks: other.arrow: column 'symbol' of the table is missing");
    for [option, value] in [["--sync", "often"], ["--sync", "-1"], ["--commit-rows", "0"], ["--format", "xml"]] {
        let output = run(&folder, &["append", "ticks", option, value]);
        assert_eq!(output.status.code(), Some(2), "{option} {value}");
    }
    assert_failure(&run(&folder, &["append", "none"]), "--schema");
    assert!(!folder.path().join("none").exists());
}

#[test]
fn rows_from_a_pipe_are_committed_before_it_ends() {
    let folder = create_table("ticks");
    let mut tail = start(&folder, &["tail", "-f", "--json", "ticks"]);
    assert_eq!(number_in(&tail.line()), 0);
    let mut append = start(&folder, &["append", "ticks", "-", "--commit-ms", "20"]);
    for number in 1..6 {
        append.send(&format!("{{\"n\": {number}, \"symbol\": \"S{number}\"}}\n"));
        assert_eq!(number_in(&tail.line()), number);
        // A reader that opens the table now sees the row, too.
        assert_eq!(count_rows(&folder, "ticks"), 1 + number);
    }
    assert_eq!(table_facts(&folder, "ticks")["writer"], append.id());
    let output = append.end();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "ticks: 5 rows appended, the next one is number 6\n");
    assert_eq!(table_facts(&folder, "ticks")["writer"], Json::Null);
    // Commits may also be by rows instead of by time.
    let mut append = start(&folder, &["append", "ticks", "--commit-ms", "3600000", "--commit-rows", "2"]);
    append.send("n,symbol,price\n6,A,1\n7,A,2\n");
    assert_eq!(number_in(&tail.line()), 6);
    assert_eq!(number_in(&tail.line()), 7);
    append.send("8,A,3\n");
    assert_eq!(append.end().status.code(), Some(0));
    assert_eq!(number_in(&tail.line()), 8);
}

#[test]
fn tail_prints_its_heading_once_while_following() {
    let folder = create_table("ticks");
    let mut table_tail = start(&folder, &["tail", "-f", "ticks"]);
    let mut csv_tail = start(&folder, &["tail", "-f", "--csv", "-n0", "ticks"]);
    for expected in [
        "    n  symbol                     price",
        "int64  dictionary<int32, utf8>  float64",
        "─────  ───────────────────────  ───────",
        "    0  A                            0.5",
    ] {
        assert_eq!(table_tail.line(), expected);
    }
    // The other process must follow, too, before rows are appended.
    assert_eq!(csv_tail.line(), "n,symbol,price");
    for number in [1, 2] {
        append_input(&folder, "ticks", format!("{{\"n\": {number}}}").as_bytes());
        assert_eq!(table_tail.line(), format!("    {number}  null                        null"));
        assert_eq!(csv_tail.line(), format!("{number},,"));
    }
    // SIGINT ends it at once, as it ends `tail`.
    table_tail.signal("INT");
    assert_eq!(table_tail.status().signal(), Some(2));
    // After its reader has closed the pipe, the next row ends it.
    let mut child = command(folder.path(), &["tail", "-f", "ticks"]).spawn().unwrap();
    drop(child.stdout.take());
    append_input(&folder, "ticks", b"{\"n\": 3}");
    assert_eq!(Running::from_child(child, "tail -f".into()).status().code(), Some(0));
}

#[test]
fn tail_and_compact_refuse_files() {
    let folder = create_table("ticks");
    write_file(&folder, "a.arrow", encode_file(&[batch(0, 5)]));
    let output = run(&folder, &["tail", "-f", "a.arrow"]);
    assert_failure(&output, "a.arrow: only a whole table can be followed");
    let output = run(&folder, &["compact", "a.arrow"]);
    assert_failure(&output, "a.arrow: a table is a directory, and this is a file");
    assert_failure(&run(&folder, &["tail", "-f", "ticks", "ticks"]), "one table");
}

#[test]
fn second_writer_is_refused() {
    let folder = create_table("ticks");
    let mut first = start(&folder, &["append", "ticks"]);
    first.send("{\"n\": 1}\n");
    wait_until("the first row", || count_rows(&folder, "ticks") == 2);
    let busy = format!("ticks: the table is being written by process {}", first.id());
    let error = expect_failure(&run(&folder, &["append", "ticks"]));
    assert!(error.contains(&busy), "{error}");
    assert!(error.contains("--wait 10 waits"), "{error}");
    let error = expect_failure(&run(&folder, &["compact", "ticks"]));
    assert!(error.contains(&busy), "{error}");
    assert!(!error.contains("--wait 10 waits"), "{error}");
    assert_failure(&run(&folder, &["append", "ticks", "--wait", "0.1"]), "waited 0.1 seconds");
    assert_eq!(first.end().status.code(), Some(0));
    append_input(&folder, "ticks", b"{\"n\": 2}");
}

#[test]
fn table_of_a_killed_appender_can_be_read_and_written() {
    const BATCH_ROWS: usize = 1000;
    let folder = create_table("ticks");
    let mut end = 1;
    for _ in 0..3 {
        let mut appender = start(&folder, &["append", "ticks", "--commit-ms", "10"]);
        let mut rows = String::new();
        for n in end..end + BATCH_ROWS {
            rows += &format!("{{\"n\": {n}, \"symbol\": \"S{}\", \"price\": {n}}}\n", n % 5);
        }
        end += BATCH_ROWS;
        appender.send(&rows);
        wait_until("all rows", || count_rows(&folder, "ticks") == end);
        // Half a row, which must never be seen.
        appender.send("{\"n\": 99");
        appender.kill();
        let report = run_ok(&folder, &["check", "ticks"]);
        assert_eq!(report, format!("ticks: ok, {} rows, 1 batch\n", with_separators(end)));
        assert_eq!(table_facts(&folder, "ticks")["writer"], Json::Null);
        let last = run_ok(&folder, &["tail", "-n1", "--csv", "ticks"]);
        assert!(last.contains(&format!("\n{},S{},", end - 1, (end - 1) % 5)), "{last}");
    }
}

/// Formats 1234 as 1,234.
fn with_separators(number: usize) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

/// Formats rows of the columns `n` and `s` as JSON lines.
fn json_rows(from: u32, to: u32) -> String {
    (from..to).map(|n| format!("{{\"n\": {n}, \"s\": \"t{n}\"}}\n")).collect()
}

#[test]
fn all_verbs_read_tables() {
    let folder = TempDir::new().unwrap();
    let schema = "n: int not null, s: str";
    run_ok(&folder, &["create", "t", "--schema", schema, "--segment-rows", "10", "--sorted-by", "n"]);
    append_rows(&folder, 0, 25);
    assert_eq!(run_ok(&folder, &["check", "t"]), "t: ok, 25 rows, 3 batches\n");
    assert!(run_ok(&folder, &["head", "-n1", "t"]).ends_with("    0  t0\n"));
    assert!(run_ok(&folder, &["tail", "-n1", "t"]).ends_with("   24  t24\n"));
    assert_eq!(count_rows(&folder, "t"), 25);
    let stream = run(&folder, &["cat", "t"]).stdout;
    let csv_of_stream = run_with_input(&folder, &["cat", "--csv", "-"], &stream);
    assert_eq!(expect_success(&csv_of_stream), cat_csv(&folder, "t"));
    let messages = run_ok(&folder, &["messages", "--json", "t"]);
    let kinds: Vec<Json> = messages.lines().map(|line| parse_json(line.as_bytes())["kind"].clone()).collect();
    assert_eq!(kinds, ["Schema", "RecordBatch", "Schema", "RecordBatch", "Schema", "RecordBatch"]);
}

#[test]
fn stat_shows_facts_of_tables() {
    let folder = TempDir::new().unwrap();
    let schema = "n: int not null, s: str";
    run_ok(&folder, &["create", "t", "--schema", schema, "--segment-rows", "10", "--sorted-by", "n"]);
    append_rows(&folder, 0, 25);
    let stat = run_json(&folder, &["stat", "--json", "t"]);
    assert_eq!(stat["rows"], 25);
    assert_eq!(stat["columns"][0]["max"], 24);
    let facts = &stat["table"];
    for (name, expected) in [
        ("segments", json!(3)),
        ("dense", json!(0)),
        ("live", json!(true)),
        ("first_row", json!(0)),
        ("end", json!(25)),
        ("durable_end", json!(25)),
        ("writer", Json::Null),
        ("sorted_by", json!("n")),
    ] {
        assert_eq!(facts[name], expected, "{name}: {facts}");
    }
    assert!(facts["disk"].as_u64() < facts["apparent"].as_u64(), "{facts}");
    assert!(facts["sequence"].as_u64() > Some(0), "{facts}");
    let text = run_ok(&folder, &["stat", "t"]);
    for line in ["segments     3, 0 of them dense, the last one grows\n", "\nwriter       none\n", "\nsorted by    n\n"]
    {
        assert!(text.contains(line), "{text}");
    }
    write_file(&folder, "a.arrow", encode_file(&[batch(0, 5)]));
    assert_eq!(table_facts(&folder, "a.arrow"), Json::Null);
}

/// Creates a table `t` of `rows` rows, with ten rows per segment.
fn create_segmented_table(schema: &str, rows: u32) -> TempDir {
    let folder = TempDir::new().unwrap();
    run_ok(&folder, &["create", "t", "--schema", schema, "--segment-rows", "10"]);
    append_rows(&folder, 0, rows);
    folder
}

/// Appends rows `from .. to` to the table `t`: a number and a text.
fn append_rows(folder: &TempDir, from: u32, to: u32) {
    append_input(folder, "t", json_rows(from, to).as_bytes());
}

#[test]
fn alter_adds_widens_and_makes_columns_nullable() {
    let folder = TempDir::new().unwrap();
    run_ok(&folder, &["create", "t", "--schema", "n: int32 not null, s: category"]);
    append_rows(&folder, 0, 2);
    let add_and_widen =
        ["alter", "t", "--add", "vol: int64, venue: text", "--add", "flag: bool", "--widen", "n: int64"];
    let text = run_ok(&folder, &[&add_and_widen[..], &["--nullable", "n"]].concat());
    assert_eq!(text, "t: has now n: int64, s: dictionary<int32, utf8>, vol: int64, venue: utf8, flag: bool\n");
    // Repeating a change changes nothing, so that scripts can run again.
    let repeated = run_json(&folder, &[&add_and_widen[..], &["--json"]].concat());
    assert_eq!(repeated["changed"], false);
    assert_eq!(repeated["columns"][2]["name"], "vol");
    append_input(&folder, "t", br#"{"n": 5000000000, "s": "t1", "vol": 7, "flag": true}"#);
    assert_eq!(cat_csv(&folder, "t"), "n,s,vol,venue,flag\n0,t0,,,\n1,t1,,,\n5000000000,t1,7,,true\n");
    assert_eq!(run_ok(&folder, &["check", "t"]), "t: ok, 3 rows, 2 batches\n");
    assert_eq!(run_json(&folder, &["compact", "--rewrite", "--json", "t"])["rewritten"], 2);
    assert_eq!(run_ok(&folder, &["check", "t"]), "t: ok, 3 rows, 1 batch\n");
    for (option, value, message) in [
        ("--widen", "n: int32", "'n' is int64 and int32"),
        ("--add", "n: text", "there is a column 'n' already, of int64"),
        ("--add", "m: int64 not null", "'m' is new and not null"),
        ("--widen", "x: int64", "no column 'x'"),
        ("--nullable", "x", "no column 'x'"),
    ] {
        assert_failure(&run(&folder, &["alter", "t", option, value]), message);
    }
    assert_failure(&run(&folder, &["alter", "none", "--add", "n: int64"]), "no table");
}

#[test]
fn compact_sorts_late_rows() {
    let folder = TempDir::new().unwrap();
    let create =
        ["create", "t", "--schema", "n: int not null", "--sorted-by", "n", "--late", "accept", "--segment-rows", "4"];
    run_ok(&folder, &create);
    let rows: String = [1, 5, 3, 2, 8, 6, 4, 9, 7].map(|n| format!("{{\"n\": {n}}}\n")).concat();
    append_input(&folder, "t", rows.as_bytes());
    let report = run_json(&folder, &["compact", "--sort", "--json", "t"]);
    assert!(report["rewritten"].as_u64() > Some(0), "{report}");
    assert_eq!(cat_csv(&folder, "t"), "n\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_eq!(run_json(&folder, &["compact", "--sort", "--json", "t"])["rewritten"], 0);
    run_ok(&folder, &["create", "plain", "--schema", "n: int"]);
    assert_failure(&run(&folder, &["compact", "--sort", "plain"]), "sorted_by");
}

#[test]
fn compacted_tables_can_be_appended_to_and_followed() {
    let folder = create_segmented_table("n: int not null, s: category", 25);
    let before = cat_csv(&folder, "t");
    let mut tail = start(&folder, &["tail", "-f", "--csv", "-n1", "t"]);
    assert_eq!(tail.line(), "n,s");
    assert_eq!(tail.line(), "24,t24");
    let text = run_ok(&folder, &["compact", "t"]);
    assert!(text.starts_with("t: 3 files rewritten, "), "{text}");
    assert_eq!(cat_csv(&folder, "t"), before);
    let facts = table_facts(&folder, "t");
    assert_eq!(facts["dense"], 3);
    assert_eq!(facts["live"], false);
    assert_eq!(facts["end"], 25);
    assert_eq!(run_ok(&folder, &["check", "t"]), "t: ok, 25 rows, 3 batches\n");
    assert_eq!(run_json(&folder, &["compact", "--json", "t"])["rewritten"], 0);
    // Followers get the rows that are appended after the compaction.
    append_rows(&folder, 25, 27);
    assert_eq!(tail.line(), "25,t25");
    assert_eq!(tail.line(), "26,t26");
    assert_eq!(cat_csv(&folder, "t"), before + "25,t25\n26,t26\n");
    // An empty table has nothing to compact.
    run_ok(&folder, &["create", "empty", "--schema", "n: int"]);
    assert_eq!(run_json(&folder, &["compact", "--json", "empty"])["rewritten"], 0);
    append_input(&folder, "empty", b"{\"n\": 1}");
    assert_eq!(cat_csv(&folder, "empty"), "n\n1\n");
    assert_failure(&run(&folder, &["compact", "none"]), "none: ");
    assert!(folder.path().join("t").is_dir());
}

/// Replaces the first byte of a text in a file by one that is not UTF-8; returns the new contents.
fn damage_text(path: &Path, text: &[u8]) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let offset = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[offset] = 0xff;
    fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn check_repair_moves_damaged_segments_beside_the_table() {
    let folder = create_segmented_table("n: int not null, s: str", 35);
    let before = cat_csv(&folder, "t");
    let segment = "00000000000000000010.arrow";
    let damaged = damage_text(&folder.path().join("t").join(segment), b"t14");
    let checked = run(&folder, &["check", "--json", "t"]);
    assert_eq!(checked.status.code(), Some(1));
    let finding = &parse_json(&checked.stdout)["findings"][0];
    assert_eq!(finding["path"], format!("t/{segment}"), "{finding}");
    assert_eq!(finding["damage"], true, "{finding}");
    // A table that is being written can't be repaired.
    let mut writer = start(&folder, &["append", "t"]);
    writer.send("{\"n\": 99}\n");
    wait_until("the row", || run_ok(&folder, &["tail", "-n1", "--csv", "t"]).contains("\n99,"));
    assert_eq!(run(&folder, &["check", "--repair", "t"]).status.code(), Some(2));
    writer.end();

    let output = run(&folder, &["check", "--repair", "--json", "t/"]);
    assert_eq!(output.status.code(), Some(1));
    let repaired = &parse_json(&output.stdout)["repaired"];
    assert_eq!(repaired["kept"], 10, "{repaired}");
    assert_eq!(repaired["given_up"], 26, "{repaired}");
    let moved = format!("t.damaged/{segment}");
    assert_eq!(repaired["moved"][0], moved);
    assert_eq!(fs::read(folder.path().join(&moved)).unwrap(), damaged);
    assert_eq!(run_ok(&folder, &["check", "t"]), "t: ok, 10 rows, 1 batch\n");
    append_rows(&folder, 10, 35);
    assert_eq!(cat_csv(&folder, "t"), before);
    assert_eq!(run(&folder, &["check", "t"]).status.code(), Some(0));
}

fn parse_json(text: &[u8]) -> Json {
    serde_json::from_slice(text).unwrap()
}
