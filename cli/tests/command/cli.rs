//! Tests of the command on files, streams and text.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::running::{self, Running};
use crate::wait::wait_until;

/// Returns rows `from .. to`: a name, a number of which each third is null, and a list.
fn batch(from: i64, to: i64) -> RecordBatch {
    let names: StringArray = (from..to).map(|i| Some(format!("n\"{i}"))).collect();
    let numbers: Int64Array = (from..to).map(|i| (i % 3 != 2).then_some(i)).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((from..to).map(|i| Some([Some(i as i32), None])));
    let list_type = DataType::new_list(DataType::Int32, true);
    let fields = vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("number", DataType::Int64, true),
        Field::new("list", list_type, true),
    ];
    let metadata = [("pandas".to_string(), "x".repeat(1000))].into();
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(numbers), Arc::new(lists)];
    RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), columns).unwrap()
}

fn file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
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
    fs::write(directory.path().join("a.arrow"), file(&[batch(0, 20), batch(20, 30)])).unwrap();
    fs::write(directory.path().join("b.arrow"), stream(&[batch(30, 35)])).unwrap();
    directory
}

fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrowwood"));
    command.args(args).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(directory: &TempDir, args: &[&str]) -> Output {
    running::output(&mut command(directory.path(), args), b"")
}

fn run_with_input(directory: &TempDir, args: &[&str], input: &[u8]) -> Output {
    let input = input.to_vec();
    let mut command = command(directory.path(), args);
    let (output, sent) = running::run_with_input(command.stdin(Stdio::piped()), move |pipe| pipe.write_all(&input));
    sent.unwrap();
    output
}

/// Asserts that a run succeeded without warnings; returns what it printed.
fn expect_success(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{stdout}");
    stdout.into_owned()
}

/// Asserts that a run failed with one line on standard error; returns that line.
fn expect_failure(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("arrowwood: "), "{stderr}");
    stderr
}

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
    assert!(
        expect_success(&run(&data, &["head", "--json", "b.arrow"])).starts_with("{\"name\":\"n\\\"30\",\"number\":30,")
    );
}

#[test]
fn paths_may_be_globs_directories_or_standard_input() {
    let data = create_data();
    for path in ["*.arrow", "."] {
        assert!(expect_success(&run(&data, &["tail", "-n", "1", path])).contains("n\"34"));
    }
    for bytes in [file(&[batch(0, 5)]), stream(&[batch(0, 5)])] {
        assert!(expect_success(&run_with_input(&data, &["tail", "-n", "1", "-"], &bytes)).contains("n\"4"));
    }
    let error = expect_failure(&run_with_input(&data, &["head", "-"], b""));
    assert!(error.contains("standard input: "), "{error}");
}

#[test]
fn schema_cuts_long_metadata_except_in_json() {
    let data = create_data();
    let text = expect_success(&run(&data, &["schema", "a.arrow"]));
    assert!(text.starts_with("name    utf8         not null\nnumber  int64\nlist    list<int32>\n"), "{text}");
    assert!(text.contains("\nmetadata:\n  pandas: xxx") && text.ends_with("x… (1000 bytes)\n"), "{text}");
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
    assert_eq!((&stat["rows"], &stat["batches"], &stat["format"]), (&json!(35), &json!(3), &json!("file, stream")));
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
    fs::write(data.path().join("bad.arrow"), damage_text(file(&[batch(0, 5)]), "n\"3")).unwrap();
    let output = run(&data, &["check", "bad.arrow", "b.arrow", "none.arrow"]);
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(2), &b""[..]));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("bad.arrow: byte ") && lines[0].contains(": batch 0, column 'name': "), "{text}");
    assert_eq!(lines[1], "bad.arrow: damaged, 1 finding, 5 rows, 1 batch");
    assert_eq!(lines[2], "b.arrow: ok, 5 rows, 1 batch");
    assert!(lines[3].starts_with("none.arrow: ") && lines.len() == 4, "{text}");
    assert_eq!(run(&data, &["check", "bad.arrow", "b.arrow"]).status.code(), Some(1));
    assert_eq!(run_with_input(&data, &["check", "-"], &file(&[batch(0, 5)])).status.code(), Some(0));
    let reports = json_lines(&run(&data, &["check", "--json", "a.arrow", "b.arrow"]));
    assert_eq!(reports[1], json!({"path": "b.arrow", "ok": true, "rows": 5, "batches": 1, "findings": []}));
    let report: Json = serde_json::from_slice(&run(&data, &["check", "--json", "bad.arrow"]).stdout).unwrap();
    assert_eq!((&report["ok"], &report["findings"][0]["path"]), (&json!(false), &json!("bad.arrow")));
    assert!(report["findings"][0]["offset"].is_u64(), "{report}");
    let error = expect_failure(&run(&data, &["cat", "--csv", "bad.arrow"]));
    assert!(error.contains("column 'name'"), "{error}");
}

#[test]
fn check_repair_keeps_the_damaged_file_aside() {
    let data = create_data();
    let bytes = damage_text(file(&[batch(0, 5), batch(5, 9)]), "n\"7");
    fs::write(data.path().join("bad.arrow"), &bytes).unwrap();
    for aside in ["bad.arrow.damaged", "bad.arrow.damaged-2"] {
        let output = run(&data, &["check", "--repair", "bad.arrow"]);
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(1), &b""[..]));
        let text = String::from_utf8(output.stdout).unwrap();
        let last_line = format!("bad.arrow: repaired, 5 rows kept, 4 given up; damaged files: {aside}");
        assert_eq!(text.lines().last(), Some(&last_line[..]), "{text}");
        assert_eq!(fs::read(data.path().join(aside)).unwrap(), bytes);
        assert_eq!(
            expect_success(&run(&data, &["check", "--repair", "bad.arrow"])),
            "bad.arrow: ok, 5 rows, 1 batch\n"
        );
        fs::write(data.path().join("bad.arrow"), &bytes).unwrap();
    }
    assert_eq!(run(&data, &["check", "--repair", "-"]).status.code(), Some(2));
}

/// `check --repair *` used to rename scripts and files of other formats.
#[test]
fn check_repair_leaves_files_that_are_no_arrow_data() {
    let data = create_data();
    let cut_file = &file(&[batch(0, 5)])[..40];
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
    fs::write(data.path().join("cut.arrow"), cut_file).unwrap();
    let names: Vec<_> = others.iter().map(|(name, _)| *name).chain(["cut.arrow", "a.arrow"]).collect();
    let output = run(&data, &[&["check", "--repair"], &names[..]].concat());
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(2), &b""[..]));
    let text = String::from_utf8(output.stdout).unwrap();
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
    let bytes = damage_text(file(&[batch(0, 5), batch(5, 9)]), "n\"7");
    fs::write(folder.join("b.arrow"), &bytes).unwrap();
    assert_eq!(run(&data, &["check", "--repair", "both"]).status.code(), Some(2));
    assert_eq!(fs::read(folder.join("a.arrow")).unwrap(), b"precious");
    assert_eq!(fs::read(folder.join("b.arrow.damaged")).unwrap(), bytes);
}

#[test]
fn cat_writes_streams_csv_and_json() {
    let data = create_data();
    let output = run(&data, &["cat", "a.arrow", "b.arrow"]);
    let batches: Vec<_> =
        arrow_ipc::reader::StreamReader::try_new(&output.stdout[..], None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches, [batch(0, 20), batch(20, 30), batch(30, 35)]);
    let csv = expect_success(&run(&data, &["cat", "--csv", "*.arrow"]));
    assert_eq!(csv.lines().count(), 1 + 35);
    assert_eq!(json_lines(&run(&data, &["cat", "--json", "*.arrow"])).len(), 35);
}

#[test]
fn closed_output_pipe_is_no_error() {
    let data = create_data();
    fs::write(data.path().join("large.arrow"), file(&[batch(0, 100_000)])).unwrap();
    for args in [&["cat", "large.arrow"][..], &["cat", "--csv", "large.arrow"], &["head", "-n99999", "large.arrow"]] {
        let mut child = command(data.path(), args).spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        let child = Running::from_child(child, format!("{args:?}"));
        let reading = std::thread::spawn(move || reader.read_exact(&mut [0; 10]));
        wait_until("the first bytes", || reading.is_finished());
        reading.join().unwrap().unwrap();
        let output = child.end();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{args:?}");
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
    assert!(error.contains("bad.jsonl") && error.contains("line 2"), "{error}");
}

/// Arrays used to be read as CSV, with columns named `[{"a": 1}` and so on, without a warning.
#[test]
fn json_arrays_are_read_like_json_lines() {
    let data = create_data();
    let lines = "{\"a\": 1, \"b\": \"x,]\"}\n{\"a\": 2, \"b\": null}\n";
    let arrays = [
        "[{\"a\":1,\"b\":\"x,]\"},{\"a\":2}]",
        "\u{feff}[\n  {\n    \"a\": 1,\n    \"b\": \"x,]\"\n  },\n  {\"a\": 2}\n]\n",
    ];
    let expected = [json!({"a": 1, "b": "x,]"}), json!({"a": 2, "b": null})];
    for (number, text) in [lines, arrays[0], arrays[1]].into_iter().enumerate() {
        for name in ["in.json", "in.txt"] {
            fs::write(data.path().join(name), text).unwrap();
            expect_success(&run(&data, &["import", name, "out.arrow"]));
            assert_eq!(json_lines(&run(&data, &["cat", "--json", "out.arrow"])), expected, "{text}");
        }
        let table = format!("table{number}");
        expect_success(&run(&data, &["create", &table, "--schema", "a: int64, b: utf8"]));
        let appended = run_with_input(&data, &["append", &table, "-"], text.as_bytes());
        assert!(appended.status.success(), "{}", String::from_utf8_lossy(&appended.stderr));
        assert_eq!(json_lines(&run(&data, &["cat", "--json", &table])), expected, "{text}");
    }
    fs::write(data.path().join("cut.json"), "[{\"a\": 1}, {\"a\"").unwrap();
    let error = expect_failure(&run(&data, &["import", "cut.json", "cut.arrow"]));
    assert!(error.contains("cut.json") && error.contains("ends inside of its array"), "{error}");
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
    let csv = expect_success(&run_with_input(&data, &["cat", "--csv", "-"], &stream(&[two_columns])));
    assert_eq!(csv, "a,b\n\"\",\"\"\n,\n\"a,b\n\",\"a,b\n\"\n");
    let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let one = RecordBatch::try_from_iter_with_nullable([("a", null, true)]).unwrap();
    assert_eq!(expect_success(&run_with_input(&data, &["cat", "--csv", "-"], &stream(&[one]))), "a\n\n");
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
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{args:?}");
    }
}

/// Returns the verbs that the command's help lists.
fn verbs_in_help(help: &str) -> impl Iterator<Item = &str> {
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let verbs = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help")
}

#[test]
fn completion_scripts_contain_every_verb() {
    let data = create_data();
    for shell in ["bash", "zsh", "fish"] {
        let script = expect_success(&run(&data, &["completions", shell]));
        for word in verbs_in_help(&expect_success(&run(&data, &["--help"]))).chain(["repair"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let bash = data.path().join("complete");
    fs::write(&bash, expect_success(&run(&data, &["completions", "bash"]))).unwrap();
    let script = "source ./complete; COMP_WORDS=(arrowwood comp); COMP_CWORD=1; _arrowwood arrowwood comp arrowwood; echo ${COMPREPLY[@]}";
    let Ok(output) = Command::new("bash").args(["-c", script]).current_dir(data.path()).output() else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "compact completions");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let data = create_data();
    let help = expect_success(&run(&data, &["--help"]));
    let verbs: Vec<&str> = verbs_in_help(&help).collect();
    assert!(verbs.len() > 15 && verbs.contains(&"head"), "{help}");
    for verb in verbs {
        let help = expect_success(&run(&data, &[verb, "--help"]));
        assert!(help.contains(&format!("Example: arrowwood {verb}")), "{help}");
    }
    assert!(expect_success(&run(&data, &["--version"])).starts_with("arrowwood "));
}

/// Runs the command with endless input: `head`, and then repetitions of `more`.
fn run_with_endless_input(directory: &TempDir, args: &[&str], head: &[u8], more: &[u8]) -> Output {
    feed_endlessly(command(directory.path(), args).stdin(Stdio::piped()), head, more)
}

fn feed_endlessly(command: &mut Command, head: &[u8], more: &[u8]) -> Output {
    let head = head.to_vec();
    let block = more.repeat((1 << 20) / more.len());
    let feed = move |pipe: &mut ChildStdin| {
        pipe.write_all(&head)?;
        loop {
            pipe.write_all(&block)?;
        }
    };
    running::run_with_input(command, feed).0
}

#[test]
fn endless_input_is_rejected_by_its_beginning() {
    let data = create_data();
    for verb in ["head", "tail", "schema", "messages", "stat", "cat"] {
        for (more, looks_like) in [("y\n", "text"), ("a,b\n", "CSV"), ("{\"a\": 1}\n", "JSON"), ("\0", "zeros")] {
            let error = expect_failure(&run_with_endless_input(&data, &[verb, "-"], b"", more.as_bytes()));
            assert!(error.contains("standard input: not Arrow data") && error.contains(looks_like), "{verb}: {error}");
        }
        let error = expect_failure(&run(&data, &[verb, "/dev/zero"]));
        assert!(error.contains("/dev/zero: not Arrow data: it begins with zeros"), "{verb}: {error}");
    }
    let output = run_with_endless_input(&data, &["check", "-"], b"", b"y\n");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A schema may be larger than the bytes that are inspected first, or cut off.
    let fields: Vec<_> = (0..5_000).map(|n| Field::new(format!("column {n}"), DataType::Int8, true)).collect();
    let wide = stream(&[RecordBatch::new_empty(Arc::new(Schema::new(fields)))]);
    assert!(wide.len() > 256 << 10);
    assert!(expect_success(&run_with_input(&data, &["schema", "-"], &wide)).contains("column 4999"));
    let cut = &stream(&[batch(0, 9)])[..100];
    assert!(expect_failure(&run_with_input(&data, &["head", "-"], cut)).contains("truncated"));
}

#[test]
fn running_out_of_memory_is_an_error() {
    let data = create_data();
    let run_limited = |verb: &str, head: &[u8], more: &[u8]| {
        let arrowwood = env!("CARGO_BIN_EXE_arrowwood");
        fs::write(data.path().join("limited"), format!("ulimit -v 1000000; exec {arrowwood} {verb}")).unwrap();
        let mut command = Command::new("sh");
        command.arg("limited").current_dir(data.path()).stdin(Stdio::piped());
        expect_failure(&feed_endlessly(&mut command, head, more))
    };
    let stream = stream(&[batch(0, 9)]);
    assert!(run_limited("head -", &stream, b"\0").contains("memory"));
    assert!(run_limited("head -", b"ARROW1\0\0", b"\0").contains("memory"));
    assert!(run_limited("import - out.arrow", b"a,b\n", b"1,2\n").contains("memory"));
    assert!(run_limited("append new -", b"a,b\n", b"1,2\n").contains("memory"));
    assert!(run_limited("append new -", b"", b" ").contains("memory"));
    expect_success(&run(&data, &["create", "table", "--schema", "a: int64, b: utf8"]));
    assert!(run_limited("append table - --format csv", b"a,b\n1,\"", b"x").contains("256 MiB"));
    assert!(run_limited("append table - --format json", b"{\"b\": \"", b"x").contains("256 MiB"));
}
