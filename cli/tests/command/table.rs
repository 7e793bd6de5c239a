//! Tests of the command on tables, with several processes at a time.

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
use crate::wait::wait_until;

const SCHEMA: &str = "n: int not null, symbol: category, price: float";

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn command(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrowwood"));
    command.args(args).current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &TempDir, args: &[&str]) -> Output {
    output(&mut command(folder, args), b"")
}

fn run_with_input(folder: &TempDir, args: &[&str], input: &[u8]) -> Output {
    output(command(folder, args).stdin(Stdio::piped()), input)
}

/// Starts a command that runs until its input ends, or until it is killed or interrupted. SIGINT gets its default action,
/// as a shell that runs the tests in the background lets them, and their children, ignore it.
fn start(folder: &TempDir, args: &[&str]) -> Running {
    let program = [&["--default-signal=INT", env!("CARGO_BIN_EXE_arrowwood")], args].concat();
    let mut command = Command::new("env");
    command
        .args(program)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::start(&mut command)
}

/// Asserts that a run succeeded, without messages except for what it appended; returns what it printed.
fn expect_success(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let is_appended = stderr.lines().count() == 1 && stderr.contains(" appended, the next one is number ");
    assert!(stderr.is_empty() || is_appended, "{stderr}");
    stdout.into_owned()
}

/// Asserts that a run failed with one line on standard error; returns that line.
fn expect_failure(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("arrowwood: "), "{stderr}");
    stderr
}

fn json_of_success(output: &Output) -> Json {
    serde_json::from_str(&expect_success(output)).unwrap()
}

fn cat_csv(folder: &TempDir, table: &str) -> String {
    expect_success(&run(folder, &["cat", "--csv", table]))
}

/// Creates a table of one row, with the columns of `SCHEMA`.
fn create_table(name: &str) -> TempDir {
    let folder = folder();
    expect_success(&run(&folder, &["create", name, "--schema", SCHEMA]));
    expect_success(&run_with_input(&folder, &["append", name], b"{\"n\": 0, \"symbol\": \"A\", \"price\": 0.5}\n"));
    folder
}

/// Returns rows `from .. to`: a number, and a text in a dictionary.
fn batch(from: i64, to: i64) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let keys = Int8Array::from_iter_values((from..to).map(|i| (i % 3) as i8));
    let texts = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec!["t0", "t1", "t2"])));
    RecordBatch::try_from_iter([("n", numbers), ("text", Arc::new(texts) as ArrayRef)]).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn stat(folder: &TempDir, table: &str) -> Json {
    json_of_success(&run(folder, &["stat", "--json", table]))
}

#[test]
fn create_accepts_a_schema_or_an_example_file() {
    let folder = folder();
    expect_success(&run(
        &folder,
        &["create", "ticks", "--schema", SCHEMA, "--sorted-by", "n", "--segment-rows", "100"],
    ));
    let schema = expect_success(&run(&folder, &["schema", "ticks"]));
    assert_eq!(schema, "n       int64                    not null\nsymbol  dictionary<int32, utf8>\nprice   float64\n");
    let stat = &stat(&folder, "ticks")["table"];
    assert_eq!((&stat["sorted_by"], &stat["segment_rows"], &stat["live"]), (&json!("n"), &json!(100), &json!(true)));
    let late = b"{\"n\": 5}\n{\"n\": 4}\n";
    assert!(expect_failure(&run_with_input(&folder, &["append", "ticks"], late)).contains("column 'n'"));

    fs::write(folder.path().join("a.arrow"), file(&[batch(0, 5)])).unwrap();
    expect_success(&run(&folder, &["create", "like", "--like", "a.arrow"]));
    assert!(expect_success(&run(&folder, &["schema", "like"])).contains("text  dictionary<int32, utf8>"));
    expect_success(&run(&folder, &["create", "coded", "--schema", "a: str, b: str, c: str", "--dictionary", "a,c"]));
    assert_eq!(expect_success(&run(&folder, &["schema", "coded"])).matches("dictionary").count(), 2);

    assert!(
        expect_failure(&run(&folder, &["create", "ticks", "--schema", SCHEMA]))
            .contains("ticks: the path exists already")
    );
    assert!(
        expect_failure(&run(&folder, &["create", "a.arrow", "--schema", SCHEMA]))
            .contains("a.arrow: the path exists already")
    );
    assert!(expect_failure(&run(&folder, &["create", "x", "--like", "none.arrow"])).contains("none.arrow"));
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
    fs::write(folder.path().join("a.csv"), "price,n,symbol\n1.5,1,B\n,2,\n").unwrap();
    fs::write(folder.path().join("b.tsv"), "price\tn\tsymbol\n3\t3\tA\n").unwrap();
    fs::write(folder.path().join("c.jsonl"), "{\"n\": 4, \"symbol\": \"C\"}\n\n{\"n\": 5}\n").unwrap();
    let output = run(&folder, &["append", "--json", "ticks", "a.csv", "b.tsv", "c.jsonl"]);
    assert_eq!(json_of_success(&output), json!({"table": "ticks", "appended": 5, "end": 6, "dropped": 0}));
    let expected = "n,symbol,price\n0,A,0.5\n1,B,1.5\n2,,\n3,A,3.0\n4,C,\n5,,\n";
    assert_eq!(cat_csv(&folder, "ticks"), expected);
    // A table can be appended to another one, which is created if it is missing.
    let output = run(&folder, &["append", "copy", "ticks", "--dictionary", "symbol"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "copy: 6 rows appended, the next one is number 6\n");
    assert_eq!(cat_csv(&folder, "copy"), expected);
    // Types are inferred if there is no table.
    expect_success(&run(&folder, &["append", "new", "a.csv", "c.jsonl", "--dictionary", "symbol"]));
    assert_eq!(cat_csv(&folder, "new"), "price,n,symbol\n1.5,1,B\n,2,\n,4,C\n,5,\n");
}

#[test]
fn append_reads_arrow_data_from_files_and_pipes() {
    let folder = folder();
    fs::write(folder.path().join("a.arrow"), file(&[batch(0, 5), batch(5, 9)])).unwrap();
    fs::write(folder.path().join("b"), stream(&[batch(9, 12)])).unwrap();
    expect_success(&run(&folder, &["append", "t", "a.arrow", "b"]));
    expect_success(&run_with_input(&folder, &["append", "t", "-"], &stream(&[batch(12, 20), batch(20, 21)])));
    expect_success(&run_with_input(&folder, &["append", "t"], &file(&[batch(21, 30)])));
    let rows: Vec<String> = cat_csv(&folder, "t").lines().skip(1).map(String::from).collect();
    assert_eq!(rows, (0..30).map(|i| format!("{i},t{}", i % 3)).collect::<Vec<_>>());
    // The output of `cat` can be appended, also from another machine (`ssh host arrowwood cat … | arrowwood append t -`).
    fs::write(folder.path().join("c.arrow"), file(&[batch(30, 33)])).unwrap();
    let stream_of_cat = run(&folder, &["cat", "c.arrow"]).stdout;
    expect_success(&run_with_input(&folder, &["append", "t", "-"], &stream_of_cat));
    assert_eq!(cat_csv(&folder, "t").lines().last(), Some("32,t2"));
    // A stream from a pipe creates a table, too.
    expect_success(&run_with_input(&folder, &["append", "u", "--format", "ipc"], &stream(&[batch(0, 3)])));
    assert_eq!(cat_csv(&folder, "u").lines().count(), 4);
}

#[test]
fn files_are_appended_atomically() {
    let folder = create_table("ticks");
    fs::write(folder.path().join("good.csv"), "n,symbol,price\n1,A,1\n").unwrap();
    fs::write(folder.path().join("bad.csv"), "n,symbol,price\n2,A,1\nx,A,1\n").unwrap();
    let error = expect_failure(&run(&folder, &["append", "ticks", "good.csv", "bad.csv"]));
    assert!(error.contains("bad.csv: 1 row appended, then: reading CSV, line 3"), "{error}");
    assert_eq!(cat_csv(&folder, "ticks"), "n,symbol,price\n0,A,0.5\n1,A,1.0\n");
    assert_eq!(stat(&folder, "ticks")["table"]["durable_end"], 2);
    // Rows that came through a pipe before an error stay.
    let error = expect_failure(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": 2}\n{\"n\": true}\n"));
    assert!(error.starts_with("arrowwood: standard input: 1 row appended, then: reading JSON lines"), "{error}");
    assert_eq!(cat_csv(&folder, "ticks").lines().count(), 4);
    let error = expect_failure(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": null}\n"));
    assert!(error.contains("n") && !error.contains("appended"), "{error}");
    fs::write(folder.path().join("other.arrow"), file(&[batch(0, 3)])).unwrap();
    let error = expect_failure(&run(&folder, &["append", "ticks", "other.arrow"]));
    assert!(error.contains("ticks: other.arrow: column 'symbol' of the table is missing"), "{error}");
    for args in [["--sync", "often"], ["--sync", "-1"], ["--commit-rows", "0"], ["--format", "xml"]] {
        assert_eq!(run(&folder, &[&["append", "ticks"][..], &args].concat()).status.code(), Some(2), "{args:?}");
    }
    assert!(expect_failure(&run(&folder, &["append", "none"])).contains("--schema"));
    assert!(!folder.path().join("none").exists());
}

#[test]
fn rows_from_a_pipe_are_committed_before_it_ends() {
    let folder = create_table("ticks");
    let mut tail = start(&folder, &["tail", "-f", "--json", "ticks"]);
    let number_in = |line: String| serde_json::from_str::<Json>(&line).unwrap()["n"].clone();
    assert_eq!(number_in(tail.line()), 0);
    let mut append = start(&folder, &["append", "ticks", "-", "--commit-ms", "20"]);
    for number in 1..6 {
        append.send(&format!("{{\"n\": {number}, \"symbol\": \"S{number}\"}}\n"));
        assert_eq!(number_in(tail.line()), number);
        // A reader that opens the table now sees the row, too.
        assert_eq!(cat_csv(&folder, "ticks").lines().count() as i64, 2 + number);
    }
    let writer = &stat(&folder, "ticks")["table"]["writer"];
    assert_eq!(*writer, append.id());
    let output = append.end();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "ticks: 5 rows appended, the next one is number 6\n");
    assert_eq!(stat(&folder, "ticks")["table"]["writer"], Json::Null);
    // Commits may also be by rows instead of by time.
    let mut append = start(&folder, &["append", "ticks", "--commit-ms", "3600000", "--commit-rows", "2"]);
    append.send("n,symbol,price\n6,A,1\n7,A,2\n");
    assert_eq!((number_in(tail.line()), number_in(tail.line())), (json!(6), json!(7)));
    append.send("8,A,3\n");
    assert_eq!(append.end().status.code(), Some(0));
    assert_eq!(number_in(tail.line()), 8);
}

#[test]
fn tail_prints_its_heading_once_while_following() {
    let folder = create_table("ticks");
    let mut tails: Vec<Running> = [&["tail", "-f", "ticks"][..], &["tail", "-f", "--csv", "-n0", "ticks"]]
        .map(|args| start(&folder, args))
        .into();
    assert_eq!(
        (0..4).map(|_| tails[0].line()).collect::<Vec<_>>(),
        [
            "    n  symbol                     price",
            "int64  dictionary<int32, utf8>  float64",
            "─────  ───────────────────────  ───────",
            "    0  A                            0.5",
        ]
    );
    // The other process must follow, too, before rows are appended.
    assert_eq!(tails[1].line(), "n,symbol,price");
    for number in [1, 2] {
        expect_success(&run_with_input(&folder, &["append", "ticks"], format!("{{\"n\": {number}}}").as_bytes()));
        assert_eq!(tails[0].line(), format!("    {number}  null                        null"));
    }
    assert_eq!((tails[1].line(), tails[1].line()), ("1,,".into(), "2,,".into()));
    // SIGINT ends it at once, as it ends `tail`.
    tails[0].signal("INT");
    assert_eq!(tails[0].status().signal(), Some(2));
    // After its reader has closed the pipe, the next row ends it.
    let mut child = command(&folder, &["tail", "-f", "ticks"]).spawn().unwrap();
    drop(child.stdout.take());
    expect_success(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": 3}"));
    assert_eq!(Running::from_child(child, "tail -f".into()).status().code(), Some(0));

    fs::write(folder.path().join("a.arrow"), file(&[batch(0, 5)])).unwrap();
    assert!(
        expect_failure(&run(&folder, &["tail", "-f", "a.arrow"]))
            .contains("a.arrow: only a whole table can be followed")
    );
    assert!(
        expect_failure(&run(&folder, &["compact", "a.arrow"]))
            .contains("a.arrow: a table is a directory, and this is a file")
    );
    assert!(expect_failure(&run(&folder, &["tail", "-f", "ticks", "ticks"])).contains("one table"));
}

#[test]
fn second_writer_is_refused() {
    let folder = create_table("ticks");
    let mut first = start(&folder, &["append", "ticks"]);
    first.send("{\"n\": 1}\n");
    wait_until("the first row", || cat_csv(&folder, "ticks").lines().count() == 3);
    let pid = format!("ticks: the table is being written by process {}", first.id());
    for args in [&["append", "ticks"][..], &["compact", "ticks"]] {
        let error = expect_failure(&run(&folder, args));
        assert!(error.contains(&pid), "{error}");
        assert_eq!(error.contains("--wait 10 waits"), args[0] == "append", "{error}");
    }
    let error = expect_failure(&run(&folder, &["append", "ticks", "--wait", "0.1"]));
    assert!(error.contains("waited 0.1 seconds"), "{error}");
    assert_eq!(first.end().status.code(), Some(0));
    expect_success(&run_with_input(&folder, &["append", "ticks"], b"{\"n\": 2}"));
}

#[test]
fn table_of_a_killed_appender_can_be_read_and_written() {
    let folder = create_table("ticks");
    for round in 0..3 {
        let mut appender = start(&folder, &["append", "ticks", "--commit-ms", "10"]);
        let mut rows = String::new();
        for n in 1 + 1000 * round..1 + 1000 * (round + 1) {
            rows += &format!("{{\"n\": {n}, \"symbol\": \"S{}\", \"price\": {n}}}\n", n % 5);
        }
        appender.send(&rows);
        wait_until("all rows", || cat_csv(&folder, "ticks").lines().count() == 2 + 1000 * (round + 1));
        // Half a row, which must never be seen.
        appender.send("{\"n\": 99");
        appender.kill();
        let end = 1 + 1000 * (round + 1);
        let report = expect_success(&run(&folder, &["check", "ticks"]));
        assert_eq!(report, format!("ticks: ok, {} rows, 1 batch\n", with_separators(end)));
        assert_eq!(stat(&folder, "ticks")["table"]["writer"], Json::Null);
        let last = expect_success(&run(&folder, &["tail", "-n1", "--csv", "ticks"]));
        assert!(last.contains(&format!("\n{},S{},", end - 1, (end - 1) % 5)), "{last}");
    }
}

/// Formats 1234 as 1,234.
fn with_separators(number: usize) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

#[test]
fn all_verbs_read_tables() {
    let folder = folder();
    expect_success(&run(
        &folder,
        &["create", "t", "--schema", "n: int not null, s: str", "--segment-rows", "10", "--sorted-by", "n"],
    ));
    let rows: String = (0..25).map(|n| format!("{{\"n\": {n}, \"s\": \"text {n}\"}}\n")).collect();
    expect_success(&run_with_input(&folder, &["append", "t"], rows.as_bytes()));
    assert_eq!(expect_success(&run(&folder, &["check", "t"])), "t: ok, 25 rows, 3 batches\n");
    assert!(expect_success(&run(&folder, &["head", "-n1", "t"])).ends_with("    0  text 0\n"));
    assert!(expect_success(&run(&folder, &["tail", "-n1", "t"])).ends_with("   24  text 24\n"));
    assert_eq!(cat_csv(&folder, "t").lines().count(), 26);
    let copied = run_with_input(&folder, &["cat", "--csv", "-"], &run(&folder, &["cat", "t"]).stdout);
    assert_eq!(expect_success(&copied), cat_csv(&folder, "t"));
    let kinds: Vec<Json> = expect_success(&run(&folder, &["messages", "--json", "t"]))
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["Schema", "RecordBatch", "Schema", "RecordBatch", "Schema", "RecordBatch"]);

    let facts = stat(&folder, "t");
    assert_eq!((&facts["rows"], &facts["columns"][0]["max"]), (&json!(25), &json!(24)));
    let stat = &facts["table"];
    for (fact, value) in [
        ("segments", json!(3)),
        ("dense", json!(0)),
        ("live", json!(true)),
        ("first_row", json!(0)),
        ("end", json!(25)),
        ("durable_end", json!(25)),
        ("writer", Json::Null),
        ("sorted_by", json!("n")),
    ] {
        assert_eq!(stat[fact], value, "{fact}: {stat}");
    }
    assert!(stat["disk"].as_u64() < stat["apparent"].as_u64() && stat["sequence"].as_u64() > Some(0), "{stat}");
    let text = expect_success(&run(&folder, &["stat", "t"]));
    for line in ["segments     3, 0 of them dense, the last one grows\n", "\nwriter       none\n", "\nsorted by    n\n"]
    {
        assert!(text.contains(line), "{text}");
    }
    fs::write(folder.path().join("a.arrow"), file(&[batch(0, 5)])).unwrap();
    assert_eq!(json_of_success(&run(&folder, &["stat", "--json", "a.arrow"]))["table"], Json::Null);
}

/// Creates a table `t` of `rows` rows, with ten rows per segment.
fn create_segmented_table(schema: &str, rows: u32) -> TempDir {
    let folder = folder();
    expect_success(&run(&folder, &["create", "t", "--schema", schema, "--segment-rows", "10"]));
    append_rows(&folder, 0, rows);
    folder
}

/// Appends rows `from .. to` to the table `t`: a number and a text.
fn append_rows(folder: &TempDir, from: u32, to: u32) {
    let rows: String = (from..to).map(|n| format!("{{\"n\": {n}, \"s\": \"t{n}\"}}\n")).collect();
    expect_success(&run_with_input(folder, &["append", "t"], rows.as_bytes()));
}

#[test]
fn alter_adds_widens_and_makes_columns_nullable() {
    let folder = TempDir::new().unwrap();
    expect_success(&run(&folder, &["create", "t", "--schema", "n: int32 not null, s: category"]));
    append_rows(&folder, 0, 2);
    let alter = ["alter", "t", "--add", "vol: int64, venue: text", "--add", "flag: bool", "--widen", "n: int64"];
    let text = expect_success(&run(&folder, &[&alter[..], &["--nullable", "n"]].concat()));
    assert_eq!(text, "t: has now n: int64, s: dictionary<int32, utf8>, vol: int64, venue: utf8, flag: bool\n");
    // Repeating a change changes nothing, so that scripts can run again.
    let repeated = json_of_success(&run(&folder, &[&alter[..], &["--json"]].concat()));
    assert_eq!((&repeated["changed"], &repeated["columns"][2]["name"]), (&json!(false), &json!("vol")));
    let more = br#"{"n": 5000000000, "s": "t1", "vol": 7, "flag": true}"#;
    expect_success(&run_with_input(&folder, &["append", "t"], more));
    assert_eq!(cat_csv(&folder, "t"), "n,s,vol,venue,flag\n0,t0,,,\n1,t1,,,\n5000000000,t1,7,,true\n");
    assert_eq!(expect_success(&run(&folder, &["check", "t"])), "t: ok, 3 rows, 2 batches\n");
    assert_eq!(json_of_success(&run(&folder, &["compact", "--rewrite", "--json", "t"]))["rewritten"], 2);
    assert_eq!(expect_success(&run(&folder, &["check", "t"])), "t: ok, 3 rows, 1 batch\n");
    for (args, message) in [
        (["--widen", "n: int32"], "'n' is int64 and int32"),
        (["--add", "n: text"], "there is a column 'n' already, of int64"),
        (["--add", "m: int64 not null"], "'m' is new and not null"),
        (["--widen", "x: int64"], "no column 'x'"),
        (["--nullable", "x"], "no column 'x'"),
    ] {
        let error = expect_failure(&run(&folder, &[&["alter", "t"][..], &args].concat()));
        assert!(error.contains(message), "{error}");
    }
    assert!(expect_failure(&run(&folder, &["alter", "none", "--add", "n: int64"])).contains("no table"));
}

#[test]
fn compact_sorts_late_rows() {
    let folder = tempfile::tempdir().unwrap();
    let create =
        ["create", "t", "--schema", "n: int not null", "--sorted-by", "n", "--late", "accept", "--segment-rows", "4"];
    expect_success(&run(&folder, &create));
    let rows: String = [1, 5, 3, 2, 8, 6, 4, 9, 7].map(|n| format!("{{\"n\": {n}}}\n")).concat();
    expect_success(&run_with_input(&folder, &["append", "t"], rows.as_bytes()));
    assert!(json_of_success(&run(&folder, &["compact", "--sort", "--json", "t"]))["rewritten"].as_u64() > Some(0));
    assert_eq!(cat_csv(&folder, "t"), "n\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    assert_eq!(json_of_success(&run(&folder, &["compact", "--sort", "--json", "t"]))["rewritten"], 0);
    expect_success(&run(&folder, &["create", "plain", "--schema", "n: int"]));
    assert!(expect_failure(&run(&folder, &["compact", "--sort", "plain"])).contains("sorted_by"));
}

#[test]
fn compacted_tables_can_be_appended_to_and_followed() {
    let folder = create_segmented_table("n: int not null, s: category", 25);
    let before = cat_csv(&folder, "t");
    let mut tail = start(&folder, &["tail", "-f", "--csv", "-n1", "t"]);
    assert_eq!((tail.line(), tail.line()), ("n,s".into(), "24,t24".into()));
    let text = expect_success(&run(&folder, &["compact", "t"]));
    assert!(text.starts_with("t: 3 files rewritten, "), "{text}");
    assert_eq!(cat_csv(&folder, "t"), before);
    let stat = stat(&folder, "t")["table"].clone();
    assert_eq!((&stat["dense"], &stat["live"], &stat["end"]), (&json!(3), &json!(false), &json!(25)));
    assert_eq!(expect_success(&run(&folder, &["check", "t"])), "t: ok, 25 rows, 3 batches\n");
    assert_eq!(json_of_success(&run(&folder, &["compact", "--json", "t"]))["rewritten"], 0);
    // Followers get the rows that are appended after the compaction.
    append_rows(&folder, 25, 27);
    assert_eq!((tail.line(), tail.line()), ("25,t25".into(), "26,t26".into()));
    assert_eq!(cat_csv(&folder, "t"), before + "25,t25\n26,t26\n");
    // An empty table has nothing to compact.
    expect_success(&run(&folder, &["create", "empty", "--schema", "n: int"]));
    assert_eq!(json_of_success(&run(&folder, &["compact", "--json", "empty"]))["rewritten"], 0);
    expect_success(&run_with_input(&folder, &["append", "empty"], b"{\"n\": 1}"));
    assert_eq!(cat_csv(&folder, "empty"), "n\n1\n");
    assert!(expect_failure(&run(&folder, &["compact", "none"])).contains("none: "));
    assert!(Path::new(&folder.path().join("t")).is_dir());
}

#[test]
fn check_repair_moves_damaged_segments_beside_the_table() {
    let folder = create_segmented_table("n: int not null, s: str", 35);
    let before = cat_csv(&folder, "t");
    let name = format!("t/{:020}.arrow", 10);
    let damaged = folder.path().join(&name);
    let mut bytes = fs::read(&damaged).unwrap();
    let text_offset = bytes.windows(3).position(|window| window == b"t14").unwrap();
    bytes[text_offset] = 0xff;
    fs::write(&damaged, &bytes).unwrap();

    let checked = run(&folder, &["check", "--json", "t"]);
    assert_eq!(checked.status.code(), Some(1));
    let finding = parse_json(&checked.stdout)["findings"][0].clone();
    assert_eq!((&finding["path"], &finding["damage"]), (&json!(name), &json!(true)), "{finding}");
    // A table that is being written can't be repaired.
    let mut writer = start(&folder, &["append", "t"]);
    writer.send("{\"n\": 99}\n");
    wait_until("the row", || last_row_as_csv(&folder).contains("\n99,"));
    assert_eq!(run(&folder, &["check", "--repair", "t"]).status.code(), Some(2));
    writer.end();

    let repaired = run(&folder, &["check", "--repair", "--json", "t/"]);
    assert_eq!(repaired.status.code(), Some(1));
    let repaired = parse_json(&repaired.stdout)["repaired"].clone();
    assert_eq!((&repaired["kept"], &repaired["given_up"]), (&json!(10), &json!(26)), "{repaired}");
    assert_eq!(repaired["moved"][0], json!(format!("t.damaged/{:020}.arrow", 10)));
    assert_eq!(fs::read(folder.path().join(format!("t.damaged/{:020}.arrow", 10))).unwrap(), bytes);
    assert_eq!(expect_success(&run(&folder, &["check", "t"])), "t: ok, 10 rows, 1 batch\n");
    append_rows(&folder, 10, 35);
    assert_eq!(cat_csv(&folder, "t"), before);
    assert_eq!(run(&folder, &["check", "t"]).status.code(), Some(0));
}

fn parse_json(text: &[u8]) -> Json {
    serde_json::from_slice(text).unwrap()
}

fn last_row_as_csv(folder: &TempDir) -> String {
    expect_success(&run(folder, &["tail", "-n1", "--csv", "t"]))
}
