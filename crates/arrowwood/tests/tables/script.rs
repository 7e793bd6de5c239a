//! Tests of the bytes that each operation changes in a table, as golden files.
//!
//! The scripts are in `tests/tables/scripts`: a line that begins with `>` is a command, and a hex dump of its changes
//! follows. `UPDATE_GOLDEN=1 cargo test --test tables script` updates the dumps. In a dump, `..` is an unchanged byte,
//! and `##` one that differs between runs: process and boot ids, times, and the checksums of records, which cover a
//! boot id.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::simulate_rest;
use arrowwood::{SyncPolicy, Value, Writer, WriterOptions, open};

use crate::tables::{copy_table, wait_for_background_syncs};

/// The number of bytes in a line of a dump.
const LINE: usize = 16;
const PAGE: usize = 4096;
/// The simulated time until a footer's slot may be reused: longer than a script takes, so that slots don't depend on
/// its speed.
const SLOT_REST: Duration = Duration::from_secs(3600);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, true)]))
}

/// The contents of files, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn read_files(folder: &Path) -> Files {
    let mut files = Files::new();
    // The folder doesn't exist before the first step.
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        files.insert(name, std::fs::read(&path).unwrap());
    }
    files
}

/// The parts of a segment, from its header; see `docs/format.md`.
struct Layout {
    parts: Vec<Part>,
    /// The ranges that differ between runs, including `times`.
    masks: Vec<Range<usize>>,
    /// The times of published footers.
    times: Vec<Range<usize>>,
}

struct Part {
    name: String,
    range: Range<usize>,
}

/// The header of a segment, at an offset in its bytes.
struct Header<'a> {
    bytes: &'a [u8],
    start: usize,
}

impl Header<'_> {
    fn find(bytes: &[u8]) -> Option<Header<'_>> {
        let start = (0..bytes.len()).step_by(PAGE).find(|&page| bytes[page..].starts_with(b"ArrwWood"))?;
        Some(Header { bytes, start })
    }

    fn u16_at(&self, offset: usize) -> usize {
        u16::from_le_bytes(self.array_at(offset)).into()
    }

    fn u32_at(&self, offset: usize) -> usize {
        u32::from_le_bytes(self.array_at(offset)) as usize
    }

    fn u64_at(&self, offset: usize) -> usize {
        u64::from_le_bytes(self.array_at(offset)) as usize
    }

    fn array_at<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes[self.start + offset..][..N].try_into().unwrap()
    }
}

impl Layout {
    fn parse(bytes: &[u8]) -> Option<Layout> {
        let header = Header::find(bytes)?;
        let slots = header.u32_at(20);
        let live = header.u64_at(40);
        let record_size = header.u64_at(48);
        let ring = header.u64_at(56);
        let slot_size = header.u64_at(64);
        let tail = header.u64_at(72);
        let footer_size = header.u64_at(80);
        let buffers = header.u32_at(96);
        let counters = header.u32_at(100);
        let zones = header.u16_at(108);

        let mut layout = Layout { parts: Vec::new(), masks: Vec::new(), times: Vec::new() };
        layout.add("schema", 0..header.start);
        layout.add("header", header.start..live);
        layout.add("live page", live..live + PAGE);
        let process_id = live + 128..live + 132;
        let file_id_and_close_time = live + 320..live + 336;
        layout.masks.extend([process_id, file_id_and_close_time]);
        for (number, name) in ["visible A", "visible B", "durable A", "durable B"].into_iter().enumerate() {
            let start = live + PAGE + number * record_size;
            layout.add(name, start..start + record_size);
            let checksum_and_boot = start + 12..start + 32;
            let mount = start + 56..start + 64;
            layout.masks.extend([checksum_and_boot, mount]);
        }
        layout.add("ring", ring..ring + slots * slot_size);
        for number in 0..buffers {
            let offset = header.u64_at(128 + 16 * number);
            let capacity = header.u64_at(136 + 16 * number);
            layout.add(&format!("buffer {number}"), offset..offset + capacity.next_multiple_of(65536));
        }
        // The first slots hold the schema that all footers share.
        let shared_slots = header.u64_at(128 + 16 * buffers + 8 * (counters + zones));
        for number in (shared_slots..slots).rev() {
            let end = tail - number * footer_size;
            layout.add(&format!("footer {number}"), end - footer_size..end);
            layout.times.push(end - 8..end);
        }
        layout.add("schema of footers", tail - shared_slots * footer_size..tail);
        layout.masks.extend(layout.times.iter().cloned());
        layout.add("footer's length and magic", tail..bytes.len());
        Some(layout)
    }

    fn add(&mut self, name: &str, range: Range<usize>) {
        self.parts.push(Part { name: name.to_string(), range });
    }
}

/// Dumps the changes of a file, part by part.
fn dump_file(out: &mut String, before: &[u8], after: &[u8]) {
    let Some(layout) = Layout::parse(after) else {
        return writeln!(out, "  {} bytes, not growable", after.len()).unwrap();
    };
    for Part { name, range } in &layout.parts {
        if !has_changed(range, before, after) {
            continue;
        }
        writeln!(out, "  {name}").unwrap();
        for start in range.clone().step_by(LINE) {
            let line = start..(start + LINE).min(range.end);
            if has_changed(&line, before, after) {
                let bytes: Vec<String> = line.map(|i| format_byte(i, &layout.masks, before, after)).collect();
                writeln!(out, "    {start:06x} +{:03x}  {}", start - range.start, bytes.join(" ")).unwrap();
            }
        }
    }
}

/// Returns true if a byte in the range has changed; a missing byte counts as zero.
fn has_changed(range: &Range<usize>, before: &[u8], after: &[u8]) -> bool {
    range.clone().any(|i| after[i] != before.get(i).copied().unwrap_or(0))
}

fn format_byte(i: usize, masks: &[Range<usize>], before: &[u8], after: &[u8]) -> String {
    if masks.iter().any(|mask| mask.contains(&i)) {
        "##".to_string()
    } else if has_changed(&(i..i + 1), before, after) {
        format!("{:02x}", after[i])
    } else {
        "..".to_string()
    }
}

fn dump_files(before: &Files, after: &Files) -> String {
    let mut out = String::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        writeln!(out, "{name}: removed").unwrap();
    }
    for (name, bytes) in after {
        match before.get(name) {
            Some(old) if old == bytes => continue,
            Some(old) if old.len() == bytes.len() => writeln!(out, "{name}").unwrap(),
            Some(_) => writeln!(out, "{name}: replaced").unwrap(),
            None => writeln!(out, "{name}: created, {} bytes", bytes.len()).unwrap(),
        }
        let old = before.get(name).filter(|old| old.len() == bytes.len());
        dump_file(&mut out, old.map_or(&[], |old| old), bytes);
    }
    if out.is_empty() { "nothing\n".into() } else { out }
}

/// The state of a script.
struct Script {
    home: tempfile::TempDir,
    folder: PathBuf,
    writer: Option<Writer>,
    files: Files,
}

impl Script {
    fn new() -> Script {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("0");
        Script { home, folder, writer: None, files: Files::new() }
    }

    /// Runs a command; returns its output and a dump of the changes.
    fn step(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let command = words.next().unwrap();
        let arguments: Vec<&str> = words.collect();
        let output = self.run_command(command, &arguments);
        if self.writer.is_some() {
            // The background thread may have to publish the commit.
            wait_for_background_syncs();
        }
        let files = read_files(&self.folder);
        let changes = dump_files(&self.files, &files);
        self.files = files;
        output + &changes
    }

    fn run_command(&mut self, command: &str, arguments: &[&str]) -> String {
        match command {
            "open" => {
                let options = WriterOptions {
                    sync: SyncPolicy::Never,
                    segment_rows: arguments.first().map(|rows| rows.parse().unwrap()),
                    dictionary: vec!["s".into()],
                    sorted_by: Some("n".into()),
                    ..WriterOptions::default()
                };
                self.clear_footer_times();
                self.writer = Some(Writer::open(&self.folder, Some(schema()), &options).unwrap());
            }
            "append" => self.writer().append(&batch(arguments)).unwrap(),
            "row" => {
                let (n, s) = parse_row(arguments[0]);
                self.writer().append_row(&[Value::Int(n), s.map_or(Value::Null, Value::Str)]).unwrap();
            }
            "commit" => self.writer().commit().unwrap(),
            "rollback" => self.writer().rollback(),
            "sync" => self.writer().sync().unwrap(),
            "compact" => drop(self.writer().compact(|_, _| ()).unwrap()),
            "drop" => drop(self.writer().drop_before(arguments[0].parse().unwrap()).unwrap()),
            "close" => self.writer.take().unwrap().close().unwrap(),
            "kill" => self.kill(),
            "read" => return format!("{}\n", self.read_rows()),
            other => panic!("no command {other}"),
        }
        String::new()
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    /// Clears the times of published footers, so that their slots may be reused.
    fn clear_footer_times(&mut self) {
        for (name, bytes) in &mut self.files {
            for time in Layout::parse(bytes).map_or(Vec::new(), |layout| layout.times) {
                bytes[time].fill(0);
            }
            std::fs::write(self.folder.join(name), bytes).unwrap();
        }
    }

    /// Continues with a copy of the table, as a killed writer leaves it.
    fn kill(&mut self) {
        let copy = self.home.path().join(self.folder.file_name().unwrap().to_str().unwrap().to_string() + "x");
        copy_table(&self.folder, &copy);
        self.folder = copy;
        // Dropping the writer would change the files of the original.
        std::mem::forget(self.writer.take());
    }

    fn read_rows(&self) -> String {
        let dataset = open(&self.folder).unwrap();
        dataset.validate(|_, _| ()).unwrap();
        let mut rows = Vec::new();
        for row in dataset.rows() {
            let row = row.unwrap();
            rows.push(format!("{}:{}", row.get(0).unwrap(), row.get(1).unwrap()));
        }
        format!("from row {}: {}", dataset.first_row(), rows.join(" "))
    }
}

/// Parses a row such as `7:text` or `7:null`.
fn parse_row(text: &str) -> (i64, Option<&str>) {
    let (n, s) = text.split_once(':').unwrap();
    (n.parse().unwrap(), Some(s).filter(|s| *s != "null"))
}

fn batch(rows: &[&str]) -> RecordBatch {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| parse_row(row).0))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| parse_row(row).1))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

/// Runs a script; returns it with the actual dumps.
fn run_script(text: &str) -> String {
    let mut out = String::new();
    let mut script = Script::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            write!(out, "{line}\n{}\n", script.step(command)).unwrap();
        } else if line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        }
    }
    out.trim_end().to_string() + "\n"
}

/// Returns the lines of a dump without the bytes that become zeros, and without parts that have no others.
fn without_new_zeros(dump: &str) -> Vec<&str> {
    let has_other_bytes = |line: &&str| {
        let bytes = line.trim_start().split("  ").nth(1);
        bytes.is_none_or(|bytes| bytes.split(' ').any(|byte| byte != "00" && byte != ".."))
    };
    let is_part = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    let mut lines: Vec<&str> = Vec::new();
    for line in dump.lines().filter(has_other_bytes) {
        if !line.starts_with("   ") && lines.last().is_some_and(|last| is_part(last)) {
            lines.pop();
        }
        lines.push(line);
    }
    lines
}

#[test]
fn scripts_change_the_bytes_in_their_dumps() {
    alone!();
    simulate_rest(SLOT_REST);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/scripts");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    for path in scripts {
        let expected = std::fs::read_to_string(&path).unwrap();
        let actual = run_script(&expected);
        if cfg!(arrowwood_portable) {
            // Blocks that are released become zeros, and stay as they are on a system that can't release any.
            assert_eq!(without_new_zeros(&actual), without_new_zeros(&expected), "{}", path.display());
            continue;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, actual).unwrap();
            continue;
        }
        for (number, (expected, actual)) in expected.lines().zip(actual.lines()).enumerate() {
            assert_eq!(expected, actual, "{}:{}", path.display(), number + 1);
        }
        assert_eq!(expected.lines().count(), actual.lines().count(), "{}", path.display());
    }
}
