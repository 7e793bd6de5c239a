//! The command as its users run it.

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

/// Rows `from .. to`: a name, a number that is null at each third, and a list.
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

/// A directory with `a.arrow`, 30 rows in 2 batches, and `b.arrow`, a stream of the 5 rows after them.
fn data() -> TempDir {
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

/// What a run that succeeds prints.
fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{out}");
    out.into_owned()
}

/// The one line that a run prints which fails.
fn failed(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.starts_with("arrowwood: "), "{err}");
    err
}

fn json_lines(output: &Output) -> Vec<Json> {
    printed(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn head_and_tail_print_tables_csv_and_json() {
    let data = data();
    let expected = "\
name  number  list
utf8   int64  list<int32>
────  ──────  ───────────
n\"0        0  [0, null]
n\"1        1  [1, null]
n\"2     null  [2, null]
";
    assert_eq!(printed(&run(&data, &["head", "-n", "3", "a.arrow"])), expected);
    assert_eq!(printed(&run(&data, &["head", "a.arrow"])).lines().count(), 3 + 10);
    let expected = "name,number,list\n\"n\"\"28\",28,\"[28,null]\"\n\"n\"\"29\",,\"[29,null]\"\n";
    assert_eq!(printed(&run(&data, &["tail", "-n", "2", "--csv", "a.arrow"])), expected);
    let rows = json_lines(&run(&data, &["tail", "-n", "2", "--json", "a.arrow", "b.arrow"]));
    assert_eq!(rows[0], json!({"name": "n\"33", "number": 33, "list": [33, null]}));
    assert_eq!(rows.len(), 2);
    assert!(printed(&run(&data, &["head", "--json", "b.arrow"])).starts_with("{\"name\":\"n\\\"30\",\"number\":30,"));
}

#[test]
fn globs_directories_and_standard_input_are_read() {
    let data = data();
    for path in ["*.arrow", "."] {
        assert!(printed(&run(&data, &["tail", "-n", "1", path])).contains("n\"34"));
    }
    for bytes in [file(&[batch(0, 5)]), stream(&[batch(0, 5)])] {
        assert!(printed(&run_with_input(&data, &["tail", "-n", "1", "-"], &bytes)).contains("n\"4"));
    }
    let nothing = failed(&run_with_input(&data, &["head", "-"], b""));
    assert!(nothing.contains("standard input: "), "{nothing}");
}

#[test]
fn schema_cuts_long_metadata_except_in_json() {
    let data = data();
    let text = printed(&run(&data, &["schema", "a.arrow"]));
    assert!(text.starts_with("name    utf8         not null\nnumber  int64\nlist    list<int32>\n"), "{text}");
    assert!(text.contains("\nmetadata:\n  pandas: xxx") && text.ends_with("x… (1000 bytes)\n"), "{text}");
    let schema = &json_lines(&run(&data, &["schema", "--json", "a.arrow"]))[0];
    assert_eq!(schema["fields"][1], json!({"name": "number", "type": "int64", "nullable": true, "metadata": {}}));
    assert_eq!(schema["metadata"]["pandas"].as_str().unwrap().len(), 1000);
}

#[test]
fn stat_counts_and_finds_the_range() {
    let data = data();
    let text = printed(&run(&data, &["stat", "a.arrow"]));
    assert!(text.starts_with("rows         30\nbatches      2\n"), "{text}");
    assert!(text.contains("\nnumber  int64        10     0    28\n"), "{text}");
    assert!(text.contains("\nlist    list<int32>  0      -    -\n"), "{text}");
    let stat = &json_lines(&run(&data, &["stat", "--json", "*.arrow"]))[0];
    assert_eq!((&stat["rows"], &stat["batches"], &stat["format"]), (&json!(35), &json!(3), &json!("file, stream")));
    assert_eq!(stat["columns"][1], json!({"name": "number", "type": "int64", "nulls": 11, "min": 0, "max": 34}));
}

#[test]
fn messages_lists_the_messages_of_a_file() {
    let data = data();
    let text = printed(&run(&data, &["messages", "a.arrow"]));
    assert!(text.starts_with("Schema at "), "{text}");
    let messages = json_lines(&run(&data, &["messages", "--json", "a.arrow"]));
    let kinds: Vec<_> = messages.iter().map(|message| &message["kind"]).collect();
    assert_eq!(kinds, ["Schema", "RecordBatch", "RecordBatch"]);
}

#[test]
fn check_tells_the_good_from_the_bad() {
    let data = data();
    assert_eq!(printed(&run(&data, &["check", "a.arrow"])), "a.arrow: ok, 30 rows, 2 batches\n");
    let mut bytes = file(&[batch(0, 5)]);
    let at = bytes.windows(3).position(|three| three == b"n\"3").unwrap();
    bytes[at] = 0xff;
    fs::write(data.path().join("bad.arrow"), bytes).unwrap();
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
    let found = json_lines(&run(&data, &["check", "--json", "a.arrow", "b.arrow"]));
    assert_eq!(found[1], json!({"path": "b.arrow", "ok": true, "rows": 5, "batches": 1, "findings": []}));
    let found: Json = serde_json::from_slice(&run(&data, &["check", "--json", "bad.arrow"]).stdout).unwrap();
    assert_eq!((&found["ok"], &found["findings"][0]["path"]), (&json!(false), &json!("bad.arrow")));
    assert!(found["findings"][0]["offset"].is_u64(), "{found}");
    let damaged = failed(&run(&data, &["cat", "--csv", "bad.arrow"]));
    assert!(damaged.contains("column 'name'"), "{damaged}");
}

#[test]
fn check_repairs_a_copy() {
    let data = data();
    let mut bytes = file(&[batch(0, 5), batch(5, 9)]);
    let at = bytes.windows(3).position(|three| three == b"n\"7").unwrap();
    bytes[at] = 0xff;
    fs::write(data.path().join("bad.arrow"), &bytes).unwrap();
    for aside in ["bad.arrow.damaged", "bad.arrow.damaged-2"] {
        let output = run(&data, &["check", "--repair", "bad.arrow"]);
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(1), &b""[..]));
        let text = String::from_utf8(output.stdout).unwrap();
        let last = format!("bad.arrow: repaired, 5 rows kept, 4 given up; damaged files: {aside}");
        assert_eq!(text.lines().last(), Some(&last[..]), "{text}");
        assert_eq!(fs::read(data.path().join(aside)).unwrap(), bytes);
        assert_eq!(printed(&run(&data, &["check", "--repair", "bad.arrow"])), "bad.arrow: ok, 5 rows, 1 batch\n");
        fs::write(data.path().join("bad.arrow"), &bytes).unwrap();
    }
    assert_eq!(run(&data, &["check", "--repair", "-"]).status.code(), Some(2));
}

/// Scripts and tables of other formats lost their names to `check --repair *`.
#[test]
fn check_repairs_nothing_that_is_no_arrow_data() {
    let data = data();
    let head = |bytes: &[u8]| file(&[batch(0, 5)])[..bytes.len().max(40)].to_vec();
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
    fs::write(data.path().join("cut.arrow"), head(b"")).unwrap();
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
    // In a directory, it keeps no other file from being repaired.
    let folder = data.path().join("both");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.arrow"), "precious").unwrap();
    let mut bytes = file(&[batch(0, 5), batch(5, 9)]);
    let at = bytes.windows(3).position(|three| three == b"n\"7").unwrap();
    bytes[at] = 0xff;
    fs::write(folder.join("b.arrow"), &bytes).unwrap();
    assert_eq!(run(&data, &["check", "--repair", "both"]).status.code(), Some(2));
    assert_eq!(fs::read(folder.join("a.arrow")).unwrap(), b"precious");
    assert_eq!(fs::read(folder.join("b.arrow.damaged")).unwrap(), bytes);
}

#[test]
fn cat_writes_a_stream_csv_or_json() {
    let data = data();
    let output = run(&data, &["cat", "a.arrow", "b.arrow"]);
    let batches: Vec<_> =
        arrow_ipc::reader::StreamReader::try_new(&output.stdout[..], None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches, [batch(0, 20), batch(20, 30), batch(30, 35)]);
    let csv = printed(&run(&data, &["cat", "--csv", "*.arrow"]));
    assert_eq!(csv.lines().count(), 1 + 35);
    assert_eq!(json_lines(&run(&data, &["cat", "--json", "*.arrow"])).len(), 35);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let data = data();
    fs::write(data.path().join("large.arrow"), file(&[batch(0, 100_000)])).unwrap();
    for form in [&["cat", "large.arrow"][..], &["cat", "--csv", "large.arrow"], &["head", "-n99999", "large.arrow"]] {
        let mut child = command(data.path(), form).spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        let child = Running::from_child(child, format!("{form:?}"));
        let reading = std::thread::spawn(move || reader.read_exact(&mut [0; 10]));
        wait_until("the first bytes", || reading.is_finished());
        reading.join().unwrap().unwrap();
        let output = child.end();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{form:?}");
    }
}

#[test]
fn import_makes_files_and_streams_of_csv() {
    let data = data();
    let text = "symbol;price\nA;1.5\nB;\nA;-2\n";
    fs::write(data.path().join("in.csv"), text).unwrap();
    let args = ["import", "in.csv", "out.arrow", "--delimiter", ";", "--dictionary", "symbol", "--compression", "lz4"];
    assert_eq!(printed(&run(&data, &args)), "");
    let schema = printed(&run(&data, &["schema", "out.arrow"]));
    assert!(schema.starts_with("symbol  dictionary<int8, utf8>\nprice   float64\n"), "{schema}");
    assert!(printed(&run(&data, &["stat", "out.arrow"])).contains("\ncompression  lz4\n"));
    let streamed = run_with_input(&data, &["import", "-", "-", "--delimiter", ";"], text.as_bytes());
    let csv = run_with_input(&data, &["cat", "--csv", "-"], &streamed.stdout);
    assert_eq!(printed(&csv), "symbol,price\nA,1.5\nB,\nA,-2.0\n");
    printed(&run(&data, &["import", "in.csv", "out.arrow", "--stream"]));
    assert_eq!(json_lines(&run(&data, &["stat", "--json", "out.arrow"]))[0]["format"], "stream");
    assert!(failed(&run(&data, &["import", "none.csv", "out.arrow"])).contains("none.csv"));
}

#[test]
fn import_takes_json_lines() {
    let data = data();
    let text = "{\"symbol\": \"A\", \"tags\": [1, 2]}\n{\"price\": 1.5, \"symbol\": \"B\"}\n";
    for name in ["in.jsonl", "in.ndjson", "in.txt"] {
        fs::write(data.path().join(name), text).unwrap();
        printed(&run(&data, &["import", name, "out.arrow", "--dictionary", "symbol"]));
        let schema = printed(&run(&data, &["schema", "out.arrow"]));
        assert!(
            schema.starts_with("symbol  dictionary<int8, utf8>\ntags    list<int64>\nprice   float64\n"),
            "{schema}"
        );
    }
    let streamed = run_with_input(&data, &["import", "-", "-"], text.as_bytes());
    let lines = json_lines(&run_with_input(&data, &["cat", "--json", "-"], &streamed.stdout));
    assert_eq!(lines[0], json!({"symbol": "A", "tags": [1, 2], "price": null}));
    fs::write(data.path().join("bad.jsonl"), "{}\nnull\n").unwrap();
    let failure = failed(&run(&data, &["import", "bad.jsonl", "out.arrow"]));
    assert!(failure.contains("bad.jsonl") && failure.contains("line 2"), "{failure}");
}

/// An array was read as CSV, whose columns were called `[{"a": 1}` and so on, and nobody said so.
#[test]
fn json_arrays_are_rows_as_lines_are() {
    let data = data();
    let lines = "{\"a\": 1, \"b\": \"x,]\"}\n{\"a\": 2, \"b\": null}\n";
    let arrays = [
        "[{\"a\":1,\"b\":\"x,]\"},{\"a\":2}]",
        "\u{feff}[\n  {\n    \"a\": 1,\n    \"b\": \"x,]\"\n  },\n  {\"a\": 2}\n]\n",
    ];
    let expected = [json!({"a": 1, "b": "x,]"}), json!({"a": 2, "b": null})];
    for (number, text) in [lines, arrays[0], arrays[1]].into_iter().enumerate() {
        for name in ["in.json", "in.txt"] {
            fs::write(data.path().join(name), text).unwrap();
            printed(&run(&data, &["import", name, "out.arrow"]));
            assert_eq!(json_lines(&run(&data, &["cat", "--json", "out.arrow"])), expected, "{text}");
        }
        let table = format!("table{number}");
        printed(&run(&data, &["create", &table, "--schema", "a: int64, b: utf8"]));
        let appended = run_with_input(&data, &["append", &table, "-"], text.as_bytes());
        assert!(appended.status.success(), "{}", String::from_utf8_lossy(&appended.stderr));
        assert_eq!(json_lines(&run(&data, &["cat", "--json", &table])), expected, "{text}");
    }
    fs::write(data.path().join("cut.json"), "[{\"a\": 1}, {\"a\"").unwrap();
    let failure = failed(&run(&data, &["import", "cut.json", "cut.arrow"]));
    assert!(failure.contains("cut.json") && failure.contains("ends inside of its array"), "{failure}");
    assert!(!data.path().join("cut.arrow").exists());
    // A name in brackets is no array.
    fs::write(data.path().join("in.txt"), "[a],b\n1,2\n").unwrap();
    printed(&run(&data, &["import", "in.txt", "out.arrow"]));
    assert_eq!(json_lines(&run(&data, &["cat", "--json", "out.arrow"])), [json!({"[a]": 1, "b": 2})]);
}

#[test]
fn csv_tells_null_from_empty_text() {
    let data = data();
    let of = |values: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let texts = || of(vec![Some(""), None, Some("a,b\n")]);
    let two = RecordBatch::try_from_iter_with_nullable([("a", texts(), true), ("b", texts(), true)]).unwrap();
    let csv = printed(&run_with_input(&data, &["cat", "--csv", "-"], &stream(&[two])));
    assert_eq!(csv, "a,b\n\"\",\"\"\n,\n\"a,b\n\",\"a,b\n\"\n");
    let one = RecordBatch::try_from_iter_with_nullable([("a", of(vec![None]), true)]).unwrap();
    assert_eq!(printed(&run_with_input(&data, &["cat", "--csv", "-"], &stream(&[one]))), "a\n\n");
    fs::write(data.path().join("one.csv"), "a\n\n\"\"\nx\n").unwrap();
    printed(&run(&data, &["import", "one.csv", "one.arrow"]));
    assert_eq!(printed(&run(&data, &["cat", "--csv", "one.arrow"])), "a\n\n\"\"\nx\n");
}

#[test]
fn failures_are_one_line_and_usage_errors_exit_with_2() {
    let data = data();
    assert!(failed(&run(&data, &["head", "none.arrow"])).contains("none.arrow: "));
    fs::write(data.path().join("in.csv"), "a,b\n1,2\n3,4\n").unwrap();
    assert!(failed(&run(&data, &["head", "in.csv"])).contains("looks like CSV"));
    assert!(failed(&run(&data, &["sql", "select 1"])).contains("pip install 'arrowwood[sql]'"));
    for args in
        [&[][..], &["frobnicate"], &["head"], &["head", "-n", "x", "a.arrow"], &["head", "--csv", "--json", "a"]]
    {
        let output = run(&data, args);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{args:?}");
    }
}

/// The verbs that the command's help lists.
fn verbs_of(help: &str) -> impl Iterator<Item = &str> {
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let verbs = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help")
}

#[test]
fn shells_learn_every_verb() {
    let data = data();
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&run(&data, &["completions", shell]));
        for word in verbs_of(&printed(&run(&data, &["--help"]))).chain(["repair"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let bash = data.path().join("complete");
    fs::write(&bash, printed(&run(&data, &["completions", "bash"]))).unwrap();
    let ask = "source ./complete; COMP_WORDS=(arrowwood comp); COMP_CWORD=1; _arrowwood arrowwood comp arrowwood; echo ${COMPREPLY[@]}";
    let Ok(answer) = Command::new("bash").args(["-c", ask]).current_dir(data.path()).output() else { return };
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "compact completions");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let data = data();
    let help = printed(&run(&data, &["--help"]));
    let verbs: Vec<&str> = verbs_of(&help).collect();
    assert!(verbs.len() > 15 && verbs.contains(&"head"), "{help}");
    for verb in verbs {
        let help = printed(&run(&data, &[verb, "--help"]));
        assert!(help.contains(&format!("Example: arrowwood {verb}")), "{help}");
    }
    assert!(printed(&run(&data, &["--version"])).starts_with("arrowwood "));
}

/// What a run prints that is fed `head` and then `more` for as long as it takes any.
fn fed(directory: &TempDir, args: &[&str], head: &[u8], more: &[u8]) -> Output {
    run_without_end(command(directory.path(), args).stdin(Stdio::piped()), head, more)
}

fn run_without_end(command: &mut Command, head: &[u8], more: &[u8]) -> Output {
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
fn inputs_without_an_end_are_found_out_by_their_beginning() {
    let data = data();
    for verb in ["head", "tail", "schema", "messages", "stat", "cat"] {
        for (more, looks_like) in [("y\n", "text"), ("a,b\n", "CSV"), ("{\"a\": 1}\n", "JSON"), ("\0", "zeros")] {
            let said = failed(&fed(&data, &[verb, "-"], b"", more.as_bytes()));
            assert!(said.contains("standard input: not Arrow data") && said.contains(looks_like), "{verb}: {said}");
        }
        let said = failed(&run(&data, &[verb, "/dev/zero"]));
        assert!(said.contains("/dev/zero: not Arrow data: it begins with zeros"), "{verb}: {said}");
    }
    let checked = fed(&data, &["check", "-"], b"", b"y\n");
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    // A schema that is larger than the first look, and one that is cut off.
    let fields: Vec<_> = (0..5_000).map(|n| Field::new(format!("column {n}"), DataType::Int8, true)).collect();
    let wide = stream(&[RecordBatch::new_empty(Arc::new(Schema::new(fields)))]);
    assert!(wide.len() > 256 << 10);
    assert!(printed(&run_with_input(&data, &["schema", "-"], &wide)).contains("column 4999"));
    let cut = &stream(&[batch(0, 9)])[..100];
    assert!(failed(&run_with_input(&data, &["head", "-"], cut)).contains("truncated"));
}

#[test]
fn no_more_is_read_than_there_is_memory_for() {
    let data = data();
    let limited = |verb: &str, head: &[u8], more: &[u8]| {
        let arrowwood = env!("CARGO_BIN_EXE_arrowwood");
        fs::write(data.path().join("limited"), format!("ulimit -v 1000000; exec {arrowwood} {verb}")).unwrap();
        let mut command = Command::new("sh");
        command.arg("limited").current_dir(data.path()).stdin(Stdio::piped());
        failed(&run_without_end(&mut command, head, more))
    };
    let begun = stream(&[batch(0, 9)]);
    assert!(limited("head -", &begun, b"\0").contains("memory"));
    assert!(limited("head -", b"ARROW1\0\0", b"\0").contains("memory"));
    assert!(limited("import - out.arrow", b"a,b\n", b"1,2\n").contains("memory"));
    assert!(limited("append new -", b"a,b\n", b"1,2\n").contains("memory"));
    assert!(limited("append new -", b"", b" ").contains("memory"));
    printed(&run(&data, &["create", "table", "--schema", "a: int64, b: utf8"]));
    assert!(limited("append table - --format csv", b"a,b\n1,\"", b"x").contains("256 MiB"));
    assert!(limited("append table - --format json", b"{\"b\": \"", b"x").contains("256 MiB"));
}
