//! What each step does to the bytes of a table: scripts in `tests/tables/scripts`, lines that begin with `>`, under each a dump
//! of what it changed. `UPDATE_GOLDEN=1 cargo test --test tables script` writes the dumps anew.
//!
//! `..` stands for a byte that stayed as it was, `##` for one that differs from run to run: process and boot ids, times,
//! and the checksums of records, which cover a boot id.
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

const ROW: usize = 16;
const PAGE: usize = 4096;
/// The place of a published footer rests so long before it is used again, so that no footer takes another one however long
/// a script takes.
const REST: Duration = Duration::from_secs(3600);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, true)]))
}

/// Files by name, with their bytes.
type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &Path) -> Files {
    let Ok(entries) = std::fs::read_dir(folder) else { return Files::new() };
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_string(), std::fs::read(&path).unwrap())
    };
    entries.map(entry).collect()
}

/// The places of a segment, from its header, as `docs/format.md` has it.
struct Places {
    named: Vec<(String, Range<usize>)>,
    /// What differs from run to run, and of that the times of published footers.
    masks: Vec<Range<usize>>,
    times: Vec<Range<usize>>,
}

impl Places {
    fn of(bytes: &[u8]) -> Option<Places> {
        let header = (0..bytes.len()).step_by(PAGE).find(|&at| bytes[at..].starts_with(b"ArrwWood"))?;
        let word = |at: usize| u64::from_le_bytes(bytes[header + at..header + at + 8].try_into().unwrap()) as usize;
        let half = |at: usize| u32::from_le_bytes(bytes[header + at..header + at + 4].try_into().unwrap()) as usize;
        let (slots, live, record, ring, slot) = (half(20), word(40), word(48), word(56), word(64));
        let (tail, footer, regions) = (word(72), word(80), half(96));
        let mut places = vec![
            ("schema".into(), 0..header),
            ("header".into(), header..live),
            ("live page".into(), live..live + PAGE),
        ];
        let writer = live + 128..live + 132;
        // Which file it is, and when it was closed.
        let mut masks = vec![writer, live + 320..live + 336];
        let mut times = Vec::new();
        for (number, name) in ["visible A", "visible B", "durable A", "durable B"].into_iter().enumerate() {
            let start = live + PAGE + number * record;
            places.push((name.into(), start..start + record));
            masks.push(start + 12..start + 32);
            // The mount.
            masks.push(start + 56..start + 64);
        }
        places.push(("ring".into(), ring..ring + slots * slot));
        places.extend((0..regions).map(|k| {
            let (offset, capacity) = (word(128 + 16 * k), word(136 + 16 * k));
            (format!("buffer {k}"), offset..offset + capacity.next_multiple_of(65536))
        }));
        // Some footers give their place to the schema of the others.
        let zones = u16::from_le_bytes(bytes[header + 108..header + 110].try_into().unwrap()) as usize;
        let shared = word(128 + 16 * regions + 8 * (half(100) + zones));
        for k in (shared..slots).rev() {
            let end = tail - k * footer;
            places.push((format!("footer {k}"), end - footer..end));
            times.push(end - 8..end);
        }
        places.push(("schema of footers".into(), tail - shared * footer..tail));
        masks.extend(times.iter().cloned());
        places.push(("footer's length and magic".into(), tail..bytes.len()));
        Some(Places { named: places, masks, times })
    }
}

/// What is new in a file.
fn dump(out: &mut String, before: &[u8], after: &[u8]) {
    let Some(Places { named, masks, .. }) = Places::of(after) else {
        return writeln!(out, "  {} bytes, not growable", after.len()).unwrap();
    };
    let old = |at: usize| before.get(at).copied().unwrap_or(0);
    for (name, place) in named {
        let changed = |at: &usize| after[*at] != old(*at);
        if !place.clone().any(|at| changed(&at)) {
            continue;
        }
        writeln!(out, "  {name}").unwrap();
        for start in place.clone().step_by(ROW) {
            let row = start..(start + ROW).min(place.end);
            if !row.clone().any(|at| changed(&at)) {
                continue;
            }
            let byte = |at: usize| match (masks.iter().any(|mask| mask.contains(&at)), changed(&at)) {
                (true, _) => "##".to_string(),
                (_, false) => "..".to_string(),
                (_, true) => format!("{:02x}", after[at]),
            };
            let bytes: Vec<String> = row.map(byte).collect();
            writeln!(out, "    {:06x} +{:03x}  {}", start, start - place.start, bytes.join(" ")).unwrap();
        }
    }
}

fn dump_all(before: &Files, after: &Files) -> String {
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
        dump(&mut out, old.map_or(&[], |old| old), bytes);
    }
    if out.is_empty() { "nothing\n".into() } else { out }
}

/// A table that a script is about.
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

    /// Does what a line says; what it changed.
    fn step(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let (command, rest): (_, Vec<&str>) = (words.next().unwrap(), words.collect());
        let said = self.act(command, &rest);
        if self.writer.is_some() {
            // What a commit leaves to the thread is published by then.
            wait_for_background_syncs();
        }
        let now = files(&self.folder);
        let changes = dump_all(&self.files, &now);
        self.files = now;
        said + &changes
    }

    fn act(&mut self, command: &str, rest: &[&str]) -> String {
        let number = || rest[0].parse::<u64>().unwrap();
        match command {
            "open" => {
                let options = WriterOptions {
                    sync: SyncPolicy::Never,
                    segment_rows: rest.first().map(|rows| rows.parse().unwrap()),
                    dictionary: vec!["s".into()],
                    sorted_by: Some("n".into()),
                    ..WriterOptions::default()
                };
                self.rest();
                self.writer = Some(Writer::open(&self.folder, Some(schema()), &options).unwrap());
            }
            "append" => self.writer().append(&batch(rest)).unwrap(),
            "row" => {
                let (n, s) = cells(rest[0]);
                self.writer().append_row(&[Value::Int(n), s.map_or(Value::Null, Value::Str)]).unwrap();
            }
            "commit" => self.writer().commit().unwrap(),
            "rollback" => self.writer().rollback(),
            "sync" => self.writer().sync().unwrap(),
            "compact" => drop(self.writer().compact(|_, _| ()).unwrap()),
            "drop" => drop(self.writer().drop_before(number()).unwrap()),
            "close" => self.writer.take().unwrap().close().unwrap(),
            "kill" => self.kill(),
            "read" => return format!("{}\n", self.read()),
            other => panic!("no command {other}"),
        }
        String::new()
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    /// Takes the times of published footers away, as if they had rested.
    fn rest(&mut self) {
        for (name, bytes) in &mut self.files {
            for time in Places::of(bytes).map_or(Vec::new(), |places| places.times) {
                bytes[time].fill(0);
            }
            std::fs::write(self.folder.join(name), bytes).unwrap();
        }
    }

    /// Goes on with a copy, which is what a killed writer leaves behind.
    fn kill(&mut self) {
        let copy = self.home.path().join(self.folder.file_name().unwrap().to_str().unwrap().to_string() + "x");
        copy_table(&self.folder, &copy);
        self.folder = copy;
        std::mem::forget(self.writer.take());
    }

    fn read(&self) -> String {
        let dataset = open(&self.folder).unwrap();
        dataset.validate(|_, _| ()).unwrap();
        let row = |row: arrowwood::Result<arrowwood::Row<'_>>| {
            let row = row.unwrap();
            format!("{}:{}", row.get(0).unwrap(), row.get(1).unwrap())
        };
        let rows: Vec<String> = dataset.rows().map(row).collect();
        format!("from row {}: {}", dataset.first_row(), rows.join(" "))
    }
}

fn cells(text: &str) -> (i64, Option<&str>) {
    let (n, s) = text.split_once(':').unwrap();
    (n.parse().unwrap(), Some(s).filter(|s| *s != "null"))
}

fn batch(rows: &[&str]) -> RecordBatch {
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| cells(row).0))),
        Arc::new(StringArray::from_iter(rows.iter().map(|row| cells(row).1))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

/// The script with the dumps that it makes here.
fn run(script: &str) -> String {
    let (mut out, mut table) = (String::new(), Script::new());
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            write!(out, "{line}\n{}\n", table.step(command)).unwrap();
        } else if line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        }
    }
    out.trim_end().to_string() + "\n"
}

#[test]
fn scripts_change_the_bytes_that_their_dumps_say() {
    alone!();
    simulate_rest(REST);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/scripts");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    for path in scripts {
        let expected = std::fs::read_to_string(&path).unwrap();
        let got = run(&expected);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, got).unwrap();
            continue;
        }
        let differs = expected.lines().zip(got.lines()).enumerate().find(|(_, (a, b))| a != b);
        if let Some((number, (want, have))) = differs {
            panic!("{}:{}: expected\n{want}\ngot\n{have}", path.display(), number + 1);
        }
        assert_eq!(expected.lines().count(), got.lines().count(), "{}", path.display());
    }
}
