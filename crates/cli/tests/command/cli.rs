//! Tests of the command with files, streams and text.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::running::{self, Running};
use crate::support::{command, expect_failure, run};
use crate::wait::wait_until;

/// Returns rows `from .. to`: a name, a number of which each third is null, and a list.
fn batch(from: i64, to: i64) -> RecordBatch {
    let names: StringArray = (from..to).map(|n| Some(format!("n\"{n}"))).collect();
    let numbers: Int64Array = (from..to).map(|n| if n % 3 == 2 { None } else { Some(n) }).collect();
    let lists = (from..to).map(|n| Some([Some(n as i32), None]));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let fields = vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("number", DataType::Int64, true),
        Field::new("list", DataType::new_list(DataType::Int32, true), true),
    ];
    let metadata = [("pandas".to_string(), "x".repeat(1000))].into();
    let schema = Schema::new_with_metadata(fields, metadata);
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(numbers), Arc::new(lists)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn encode_file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn encode_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// Replaces the first byte of a text by one that is not UTF-8.
fn damage_text(mut bytes: Vec<u8>, text: &str) -> Vec<u8> {
    let offset = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[offset] = 0xff;
    bytes
}

/// Creates a directory with `a.arrow`, 30 rows in 2 batches, and `b.arrow`, a stream of the 5 rows after them.
fn create_data() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.arrow"), encode_file(&[batch(0, 20), batch(20, 30)])).unwrap();
    fs::write(directory.path().join("b.arrow"), encode_stream(&[batch(30, 35)])).unwrap();
    directory
}

fn run_with_input(directory: &TempDir, args: &[&str], input: &[u8]) -> Output {
    let input = input.to_vec();
    let mut command = command(directory.path(), args);
    command.stdin(Stdio::piped());
    let (output, write_result) = running::run_with_input(&mut command, move |pipe| pipe.write_all(&input));
    write_result.unwrap();
    output
}

/// Asserts that a run succeeded without warnings; returns what it printed.
#[track_caller]
fn expect_success(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert_eq!(stderr, "", "{stdout}");
    stdout
}

/// Asserts the exit status of a run without messages; returns what it printed.
#[track_caller]
fn expect_exit(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Parses what a successful run printed, one JSON value per line.
fn json_lines(output: &Output) -> Vec<Json> {
    expect_success(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn head_and_tail_print_tables_csv_and_json() {
    let data = create_data();
    let expected = "\
name  number  list
utf8   int64  list<int32>
────  ──────  ───────────
n\"0        0  [0, null]
n\"1        1  [1, null]
n\"2     null  [2, null]
";
    assert_eq!(expect_success(&run(&data, &["head", "-n", "3", "a.arrow"])), expected);
    assert_eq!(expect_success(&run(&data, &["head", "a.arrow"])).lines().count(), 3 + 10);
    let expected = "name,number,list\n\"n\"\"28\",28,\"[28,null]\"\n\"n\"\"29\",,\"[29,null]\"\n";
    assert_eq!(expect_success(&run(&data, &["tail", "-n", "2", "--csv", "a.arrow"])), expected);
    let rows = json_lines(&run(&data, &["tail", "-n", "2", "--json", "a.arrow", "b.arrow"]));
    assert_eq!(rows[0], json!({"name": "n\"33", "number": 33, "list": [33, null]}));
    assert_eq!(rows.len(), 2);
    let json = expect_success(&run(&data, &["head", "--json", "b.arrow"]));
    assert!(json.starts_with("{\"name\":\"n\\\"30\",\"number\":30,"), "{json}");
}

#[test]
fn paths_may_be_globs_directories_or_standard_input() {
    let data = create_data();
    for path in ["*.arrow", "."] {
        let last_row = expect_success(&run(&data, &["tail", "-n", "1", path]));
        assert!(last_row.contains("n\"34"), "{path}: {last_row}");
    }
    for bytes in [encode_file(&[batch(0, 5)]), encode_stream(&[batch(0, 5)])] {
        let last_row = expect_success(&run_with_input(&data, &["tail", "-n", "1", "-"], &bytes));
        assert!(last_row.contains("n\"4"), "{last_row}");
    }
    let error = expect_failure(&run_with_input(&data, &["head", "-"], b""));
    assert!(error.contains("standard input: "), "{error}");
}

#[test]
fn schema_cuts_long_metadata_except_in_json() {
    let data = create_data();
    let text = expect_success(&run(&data, &["schema", "a.arrow"]));
    assert!(text.starts_with("name    utf8         not null\nnumber  int64\nlist    list<int32>\n"), "{text}");
    assert!(text.contains("\nmetadata:\n  pandas: xxx"), "{text}");
    assert!(text.ends_with("x… (1000 bytes)\n"), "{text}");
    let schema = &json_lines(&run(&data, &["schema", "--json", "a.arrow"]))[0];
    assert_eq!(schema["fields"][1], json!({"name": "number", "type": "int64", "nullable": true, "metadata": {}}));
    assert_eq!(schema["metadata"]["pandas"].as_str().unwrap().len(), 1000);
}

#[test]
fn stat_shows_counts_and_ranges() {
    let data = create_data();
    let text = expect_success(&run(&data, &["stat", "a.arrow"]));
    assert!(text.starts_with("rows         30\nbatches      2\n"), "{text}");
    assert!(text.contains("\nnumber  int64        10     0    28\n"), "{text}");
    assert!(text.contains("\nlist    list<int32>  0      -    -\n"), "{text}");
    let stat = &json_lines(&run(&data, &["stat", "--json", "*.arrow"]))[0];
    assert_eq!(stat["rows"], 35);
    assert_eq!(stat["batches"], 3);
    assert_eq!(stat["format"], "file, stream");
    assert_eq!(stat["columns"][1], json!({"name": "number", "type": "int64", "nulls": 11, "min": 0, "max": 34}));
}

#[test]
fn messages_lists_the_messages_of_a_file() {
    let data = create_data();
    let text = expect_success(&run(&data, &["messages", "a.arrow"]));
    assert!(text.starts_with("Schema at "), "{text}");
    let messages = json_lines(&run(&data, &["messages", "--json", "a.arrow"]));
    let kinds: Vec<_> = messages.iter().map(|message| &message["kind"]).collect();
    assert_eq!(kinds, ["Schema", "RecordBatch", "RecordBatch"]);
}

#[test]
fn check_reports_damage_and_sets_the_exit_status() {
    let data = create_data();
    assert_eq!(expect_success(&run(&data, &["check", "a.arrow"])), "a.arrow: ok, 30 rows, 2 batches\n");
    fs::write(data.path().join("bad.arrow"), damage_text(encode_file(&[batch(0, 5)]), "n\"3")).unwrap();
    let text = expect_exit(&run(&data, &["check", "bad.arrow", "b.arrow", "none.arrow"]), 2);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].starts_with("bad.arrow: byte "), "{text}");
    assert!(lines[0].contains(": batch 0, column 'name': "), "{text}");
    assert_eq!(lines[1], "bad.arrow: damaged, 1 finding, 5 rows, 1 batch");
    assert_eq!(lines[2], "b.arrow: ok, 5 rows, 1 batch");
    assert!(lines[3].starts_with("none.arrow: "), "{text}");
    assert_eq!(run(&data, &["check", "bad.arrow", "b.arrow"]).status.code(), Some(1));
    assert_eq!(run_with_input(&data, &["check", "-"], &encode_file(&[batch(0, 5)])).status.code(), Some(0));
    let reports = json_lines(&run(&data, &["check", "--json", "a.arrow", "b.arrow"]));
    assert_eq!(reports[1], json!({"path": "b.arrow", "ok": true, "rows": 5, "batches": 1, "findings": []}));
    let report: Json = serde_json::from_slice(&run(&data, &["check", "--json", "bad.arrow"]).stdout).unwrap();
    assert_eq!(report["ok"], false, "{report}");
    assert_eq!(report["findings"][0]["path"], "bad.arrow", "{report}");
    assert!(report["findings"][0]["offset"].is_u64(), "{report}");
    let error = expect_failure(&run(&data, &["cat", "--csv", "bad.arrow"]));
    assert!(error.contains("column 'name'"), "{error}");
}

#[test]
fn check_repair_keeps_the_damaged_file_aside() {
    let data = create_data();
    let damaged = damage_text(encode_file(&[batch(0, 5), batch(5, 9)]), "n\"7");
    for moved_to in ["bad.arrow.damaged", "bad.arrow.damaged-2"] {
        fs::write(data.path().join("bad.arrow"), &damaged).unwrap();
        let text = expect_exit(&run(&data, &["check", "--repair", "bad.arrow"]), 1);
        let summary = format!("bad.arrow: repaired, 5 rows kept, 4 given up; damaged files: {moved_to}");
        assert_eq!(text.lines().last(), Some(summary.as_str()), "{text}");
        assert_eq!(fs::read(data.path().join(moved_to)).unwrap(), damaged);
        let second_run = expect_success(&run(&data, &["check", "--repair", "bad.arrow"]));
        assert_eq!(second_run, "bad.arrow: ok, 5 rows, 1 batch\n");
    }
    assert_eq!(run(&data, &["check", "--repair", "-"]).status.code(), Some(2));
}

/// `check --repair *` used to rename scripts and files of other formats.
#[test]
fn check_repair_leaves_files_that_are_no_arrow_data() {
    let data = create_data();
    let truncated_file = &encode_file(&[batch(0, 5)])[..40];
    let others: [(&str, &[u8]); 7] = [
        ("script.py", b"print('precious')\n"),
        ("data.csv", b"a,b\n1,2\n"),
        ("t.parquet", b"PAR1\x15\x04\x15\x10PAR1"),
        ("zeros", &[0; 4096]),
        ("ones", &[0xff; 4096]),
        ("short", b"ARR"),
        ("empty", b""),
    ];
    for (name, bytes) in others {
        fs::write(data.path().join(name), bytes).unwrap();
    }
    fs::write(data.path().join("cut.arrow"), truncated_file).unwrap();
    let mut args = vec!["check", "--repair"];
    args.extend(others.iter().map(|(name, _)| *name));
    args.extend(["cut.arrow", "a.arrow"]);
    let text = expect_exit(&run(&data, &args), 2);
    for (name, bytes) in others {
        assert_eq!(fs::read(data.path().join(name)).unwrap(), bytes, "{name}");
        assert!(!data.path().join(format!("{name}.damaged")).exists(), "{name}");
        assert!(text.lines().any(|line| line.starts_with(&format!("{name}: "))), "{text}");
    }
    assert!(text.contains("left as it is"), "{text}");
    assert_eq!(text.lines().last(), Some("a.arrow: ok, 30 rows, 2 batches"));
    assert!(data.path().join("cut.arrow.damaged").exists(), "it begins as an Arrow file");
    // Another file in the same directory is repaired all the same.
    let folder = data.path().join("both");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.arrow"), "precious").unwrap();
    let bytes = damage_text(encode_file(&[batch(0, 5), batch(5, 9)]), "n\"7");
    fs::write(folder.join("b.arrow"), &bytes).unwrap();
    assert_eq!(run(&data, &["check", "--repair", "both"]).status.code(), Some(2));
    assert_eq!(fs::read(folder.join("a.arrow")).unwrap(), b"precious");
    assert_eq!(fs::read(folder.join("b.arrow.damaged")).unwrap(), bytes);
}

#[test]
fn cat_writes_streams_csv_and_json() {
    let data = create_data();
    let output = run(&data, &["cat", "a.arrow", "b.arrow"]);
    let reader = StreamReader::try_new(&output.stdout[..], None).unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(batches, [batch(0, 20), batch(20, 30), batch(30, 35)]);
    let csv = expect_success(&run(&data, &["cat", "--csv", "*.arrow"]));
    assert_eq!(csv.lines().count(), 1 + 35);
    assert_eq!(json_lines(&run(&data, &["cat", "--json", "*.arrow"])).len(), 35);
}

#[test]
fn closed_output_pipe_is_no_error() {
    let data = create_data();
    fs::write(data.path().join("large.arrow"), encode_file(&[batch(0, 100_000)])).unwrap();
    for args in [&["cat", "large.arrow"][..], &["cat", "--csv", "large.arrow"], &["head", "-n99999", "large.arrow"]] {
        let mut child = command(data.path(), args).spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        let child = Running::from_child(child, format!("{args:?}"));
        let reading = thread::spawn(move || reader.read_exact(&mut [0; 10]));
        wait_until("the first bytes", || reading.is_finished());
        reading.join().unwrap().unwrap();
        expect_exit(&child.end(), 0);
    }
}

#[test]
fn import_converts_csv_to_files_and_streams() {
    let data = create_data();
    let text = "symbol;price\nA;1.5\nB;\nA;-2\n";
    fs::write(data.path().join("in.csv"), text).unwrap();
    let args = ["import", "in.csv", "out.arrow", "--delimiter", ";", "--dictionary", "symbol", "--compression", "lz4"];
    assert_eq!(expect_success(&run(&data, &args)), "");
    let schema = expect_success(&run(&data, &["schema", "out.arrow"]));
    assert!(schema.starts_with("symbol  dictionary<int8, utf8>\nprice   float64\n"), "{schema}");
    assert!(expect_success(&run(&data, &["stat", "out.arrow"])).contains("\ncompression  lz4\n"));
    let streamed = run_with_input(&data, &["import", "-", "-", "--delimiter", ";"], text.as_bytes());
    let csv = run_with_input(&data, &["cat", "--csv", "-"], &streamed.stdout);
    assert_eq!(expect_success(&csv), "symbol,price\nA,1.5\nB,\nA,-2.0\n");
    expect_success(&run(&data, &["import", "in.csv", "out.arrow", "--stream"]));
    assert_eq!(json_lines(&run(&data, &["stat", "--json", "out.arrow"]))[0]["format"], "stream");
    assert!(expect_failure(&run(&data, &["import", "none.csv", "out.arrow"])).contains("none.csv"));
}

#[test]
fn import_takes_json_lines() {
    let data = create_data();
    let text = "{\"symbol\": \"A\", \"tags\": [1, 2]}\n{\"price\": 1.5, \"symbol\": \"B\"}\n";
    for name in ["in.jsonl", "in.ndjson", "in.txt"] {
        fs::write(data.path().join(name), text).unwrap();
        expect_success(&run(&data, &["import", name, "out.arrow", "--dictionary", "symbol"]));
        let schema = expect_success(&run(&data, &["schema", "out.arrow"]));
        assert!(
            schema.starts_with("symbol  dictionary<int8, utf8>\ntags    list<int64>\nprice   float64\n"),
            "{schema}"
        );
    }
    let streamed = run_with_input(&data, &["import", "-", "-"], text.as_bytes());
    let lines = json_lines(&run_with_input(&data, &["cat", "--json", "-"], &streamed.stdout));
    assert_eq!(lines[0], json!({"symbol": "A", "tags": [1, 2], "price": null}));
    fs::write(data.path().join("bad.jsonl"), "{}\nnull\n").unwrap();
    let error = expect_failure(&run(&data, &["import", "bad.jsonl", "out.arrow"]));
    assert!(error.contains("bad.jsonl"), "{error}");
    assert!(error.contains("line 2"), "{error}");
}

/// Arrays used to be read as CSV, with columns named `[{"a": 1}` and so on, without a warning.
#[test]
fn json_arrays_are_read_like_json_lines() {
    let data = create_data();
    let lines = "{\"a\": 1, \"b\": \"x,]\"}\n{\"a\": 2, \"b\": null}\n";
    let array = "[{\"a\":1,\"b\":\"x,]\"},{\"a\":2}]";
    let indented = "\u{feff}[\n  {\n    \"a\": 1,\n    \"b\": \"x,]\"\n  },\n  {\"a\": 2}\n]\n";
    let expected = [json!({"a": 1, "b": "x,]"}), json!({"a": 2, "b": null})];
    for (number, text) in [lines, array, indented].into_iter().enumerate() {
        for name in ["in.json", "in.txt"] {
            fs::write(data.path().join(name), text).unwrap();
            expect_success(&run(&data, &["import", name, "out.arrow"]));
            assert_eq!(json_lines(&run(&data, &["cat", "--json", "out.arrow"])), expected, "{text}");
        }
        let table = format!("table{number}");
        expect_success(&run(&data, &["create", &table, "--schema", "a: int64, b: utf8"]));
        let appended = run_with_input(&data, &["append", &table, "-"], text.as_bytes());
        assert_eq!(appended.status.code(), Some(0), "{}", String::from_utf8_lossy(&appended.stderr));
        assert_eq!(json_lines(&run(&data, &["cat", "--json", &table])), expected, "{text}");
    }
    fs::write(data.path().join("cut.json"), "[{\"a\": 1}, {\"a\"").unwrap();
    let error = expect_failure(&run(&data, &["import", "cut.json", "cut.arrow"]));
    assert!(error.contains("cut.json"), "{error}");
    assert!(error.contains("ends inside of its array"), "{error}");
    assert!(!data.path().join("cut.arrow").exists());
    // CSV may have a column name in brackets.
    fs::write(data.path().join("in.txt"), "[a],b\n1,2\n").unwrap();
    expect_success(&run(&data, &["import", "in.txt", "out.arrow"]));
    assert_eq!(json_lines(&run(&data, &["cat", "--json", "out.arrow"])), [json!({"[a]": 1, "b": 2})]);
}

#[test]
fn csv_distinguishes_null_from_empty_text() {
    let data = create_data();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("a,b\n")]));
    let two_columns =
        RecordBatch::try_from_iter_with_nullable([("a", texts.clone(), true), ("b", texts, true)]).unwrap();
    let csv = expect_success(&run_with_input(&data, &["cat", "--csv", "-"], &encode_stream(&[two_columns])));
    assert_eq!(csv, "a,b\n\"\",\"\"\n,\n\"a,b\n\",\"a,b\n\"\n");
    let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let one_column = RecordBatch::try_from_iter_with_nullable([("a", null, true)]).unwrap();
    let csv = expect_success(&run_with_input(&data, &["cat", "--csv", "-"], &encode_stream(&[one_column])));
    assert_eq!(csv, "a\n\n");
    fs::write(data.path().join("one.csv"), "a\n\n\"\"\nx\n").unwrap();
    expect_success(&run(&data, &["import", "one.csv", "one.arrow"]));
    assert_eq!(expect_success(&run(&data, &["cat", "--csv", "one.arrow"])), "a\n\n\"\"\nx\n");
}

#[test]
fn failures_are_one_line_and_usage_errors_exit_with_2() {
    let data = create_data();
    assert!(expect_failure(&run(&data, &["head", "none.arrow"])).contains("none.arrow: "));
    fs::write(data.path().join("in.csv"), "a,b\n1,2\n3,4\n").unwrap();
    assert!(expect_failure(&run(&data, &["head", "in.csv"])).contains("looks like CSV"));
    assert!(expect_failure(&run(&data, &["sql", "select 1"])).contains("pip install 'arrowwood[sql]'"));
    for args in
        [&[][..], &["frobnicate"], &["head"], &["head", "-n", "x", "a.arrow"], &["head", "--csv", "--json", "a"]]
    {
        let output = run(&data, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Returns the verbs that the command's help lists.
fn verbs_in_help(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("Commands:").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap_or((list, ""));
    let mut verbs = Vec::new();
    for line in list.lines() {
        // Lines that continue a description are indented further.
        let is_verb = line.starts_with("  ") && !line.starts_with("   ");
        let first_word = line.split_whitespace().next();
        if is_verb && first_word != Some("help") {
            verbs.extend(first_word);
        }
    }
    verbs
}

#[test]
fn completion_scripts_contain_every_verb() {
    let data = create_data();
    let help = expect_success(&run(&data, &["--help"]));
    for shell in ["bash", "zsh", "fish"] {
        let script = expect_success(&run(&data, &["completions", shell]));
        for verb in verbs_in_help(&help) {
            assert!(script.contains(verb), "{shell}: no {verb}");
        }
        assert!(script.contains("repair"), "{shell}: no option of a verb");
    }
    fs::write(data.path().join("complete"), expect_success(&run(&data, &["completions", "bash"]))).unwrap();
    let script = "source ./complete; COMP_WORDS=(arrowwood comp); COMP_CWORD=1; _arrowwood arrowwood comp arrowwood; echo ${COMPREPLY[@]}";
    // Not every machine has bash.
    let Ok(output) = Command::new("bash").args(["-c", script]).current_dir(data.path()).output() else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "compact completions");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let data = create_data();
    let help = expect_success(&run(&data, &["--help"]));
    let verbs = verbs_in_help(&help);
    assert!(verbs.len() > 15, "{help}");
    assert!(verbs.contains(&"head"), "{help}");
    for verb in verbs {
        let help = expect_success(&run(&data, &[verb, "--help"]));
        assert!(help.contains(&format!("Example: arrowwood {verb}")), "{help}");
    }
    let version = expect_success(&run(&data, &["--version"]));
    assert_eq!(version, format!("arrowwood {}\nSQL: none\n", env!("CARGO_PKG_VERSION")));
}

/// Runs the command with endless input: `head`, and then repetitions of `more`.
fn run_with_endless_input(directory: &TempDir, args: &[&str], head: &[u8], more: &[u8]) -> Output {
    feed_endlessly(command(directory.path(), args).stdin(Stdio::piped()), head, more)
}

fn feed_endlessly(command: &mut Command, head: &[u8], more: &[u8]) -> Output {
    let head = head.to_vec();
    let block = more.repeat((1 << 20) / more.len());
    let (output, _) = running::run_with_input(command, move |pipe| write_endlessly(pipe, &head, &block));
    output
}

/// Writes until the command closes its input.
fn write_endlessly(pipe: &mut ChildStdin, head: &[u8], block: &[u8]) -> io::Result<()> {
    pipe.write_all(head)?;
    loop {
        pipe.write_all(block)?;
    }
}

#[test]
fn endless_input_is_rejected_by_its_beginning() {
    let data = create_data();
    for verb in ["head", "tail", "schema", "messages", "stat", "cat"] {
        for (more, looks_like) in [("y\n", "text"), ("a,b\n", "CSV"), ("{\"a\": 1}\n", "JSON"), ("\0", "zeros")] {
            let error = expect_failure(&run_with_endless_input(&data, &[verb, "-"], b"", more.as_bytes()));
            assert!(error.contains("standard input: not Arrow data"), "{verb}: {error}");
            assert!(error.contains(looks_like), "{verb}: {error}");
        }
        let error = expect_failure(&run(&data, &[verb, "/dev/zero"]));
        assert!(error.contains("/dev/zero: not Arrow data: it begins with zeros"), "{verb}: {error}");
    }
    let output = run_with_endless_input(&data, &["check", "-"], b"", b"y\n");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A schema may be larger than the bytes that are inspected first, or cut off.
    let fields: Vec<_> = (0..5_000).map(|n| Field::new(format!("column {n}"), DataType::Int8, true)).collect();
    let wide = encode_stream(&[RecordBatch::new_empty(Arc::new(Schema::new(fields)))]);
    assert!(wide.len() > 256 << 10);
    assert!(expect_success(&run_with_input(&data, &["schema", "-"], &wide)).contains("column 4999"));
    let truncated = &encode_stream(&[batch(0, 9)])[..100];
    assert!(expect_failure(&run_with_input(&data, &["head", "-"], truncated)).contains("truncated"));
}

/// Runs the command with little memory and endless input; returns the line of its failure.
fn fail_with_little_memory(directory: &TempDir, args: &str, head: &[u8], more: &[u8]) -> String {
    let script = format!("ulimit -v 1000000; exec {} {args}", env!("CARGO_BIN_EXE_arrowwood"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(directory.path()).stdin(Stdio::piped());
    expect_failure(&feed_endlessly(&mut command, head, more))
}

#[test]
fn running_out_of_memory_is_an_error() {
    let data = create_data();
    let stream = encode_stream(&[batch(0, 9)]);
    for (args, head, more) in [
        ("head -", &stream[..], &b"\0"[..]),
        ("head -", b"ARROW1\0\0", b"\0"),
        ("import - out.arrow", b"a,b\n", b"1,2\n"),
        ("append new -", b"a,b\n", b"1,2\n"),
        ("append new -", b"", b" "),
    ] {
        let error = fail_with_little_memory(&data, args, head, more);
        assert!(error.contains("memory"), "{args}: {error}");
    }
    // A single record has a limit below the memory.
    expect_success(&run(&data, &["create", "table", "--schema", "a: int64, b: utf8"]));
    let error = fail_with_little_memory(&data, "append table - --format csv", b"a,b\n1,\"", b"x");
    assert!(error.contains("256 MiB"), "{error}");
    let error = fail_with_little_memory(&data, "append table - --format json", b"{\"b\": \"", b"x");
    assert!(error.contains("256 MiB"), "{error}");
}
