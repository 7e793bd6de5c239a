//! Golden vectors: small tables in `tests/vectors`, each with what a reader must make of it in its `expected.json`, for
//! those who write a reader of their own from `docs/format.md`. They are made anew, with the dump of bytes on that page, by
//! `UPDATE_VECTORS=1 cargo test --test recovery vectors -- --test-threads=1`.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, simulate_boot, simulate_mount};
use arrowwood::{ErrorKind, LatePolicy, Value, Writer, WriterOptions, open, parse_schema};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value as Json, json};

use crate::tables::{copy_table, unsynced};

mod bytes;
mod rows;

use bytes::{Segment, dump, without_chance, without_footers};
use rows::{every_type, json_rows, simple, types_that_refer, with_long_text};

/// The boots in which vectors are written, and in which those of another boot are read.
const WRITING: [u8; 16] = *b"boot of a writer";
const LATER: [u8; 16] = *b"boot of a reader";
/// The mounts through which vectors are written, and through which those of another mount are read.
const WRITERS_MOUNT: u64 = 4242;
const READERS_MOUNT: u64 = 4243;

/// What a reader makes of a vector.
enum Expected {
    Table {
        rows: Vec<Json>,
        first_row: u64,
        positions: BTreeMap<&'static str, i64>,
    },
    /// The reason.
    Refused(&'static str),
}

/// What `check` has to say.
enum Check {
    Good,
    /// No damage, and a note with these words.
    Note(&'static str),
    /// Damage, told by these words.
    Damage(&'static str),
}

struct Vector {
    name: &'static str,
    shows: &'static str,
    /// The boot that a reader takes for the present one.
    boot: [u8; 16],
    /// The mount through which a reader takes the table to be opened.
    mount: u64,
    /// Makes the table at a path.
    make: fn(&Path) -> Expected,
    check: Check,
    /// The number of the row behind the last one that the next writer finds, where it is not what readers see.
    next_writer: Option<u64>,
}

const fn vector(name: &'static str, shows: &'static str, boot: [u8; 16], make: fn(&Path) -> Expected) -> Vector {
    Vector { name, shows, boot, mount: WRITERS_MOUNT, make, check: Check::Good, next_writer: None }
}

const VECTORS: &[Vector] = &[
    vector(
        "nulls_and_text",
        "One live segment: numbers, text with nulls and bits with nulls, in three commits.",
        WRITING,
        |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            let rows = commits(&mut writer, &[3, 1, 2]);
            drop(writer);
            table_of(rows)
        },
    ),
    vector(
        "every_type",
        "Types whose rows have a place of their own, text and lists, with nulls and without, in two commits.",
        WRITING,
        |table| {
            let all = every_type(0..11);
            let options = WriterOptions { segment_rows: Some(16), ..unsynced(8) };
            let mut writer = writer(table, all.schema(), &options);
            for (start, rows) in [(0, 3), (3, 8)] {
                writer.append(&all.slice(start, rows)).unwrap();
                writer.commit().unwrap();
            }
            drop(writer);
            table_of(json_rows(&all))
        },
    ),
    vector(
        "more_types",
        "List views, maps, unions, nulls, and dictionaries with keys and values of many types, over the end of a segment.",
        WRITING,
        |table| {
            let all = types_that_refer(0..12);
            let mut writer = writer(table, all.schema(), &unsynced(8));
            for (start, rows) in [(0, 3), (3, 9)] {
                writer.append(&all.slice(start, rows)).unwrap();
                writer.commit().unwrap();
            }
            drop(writer);
            table_of(json_rows(&all))
        },
    ),
    vector(
        "rollover",
        "Two sealed segments and a live one. A commit went over the end of each; the dictionary's entries go along.",
        WRITING,
        |table| {
            let options = WriterOptions { dictionary: vec!["s".into()], ..unsynced(8) };
            let mut writer = writer(table, simple_schema(), &options);
            let rows = commits(&mut writer, &[5, 7, 8]);
            drop(writer);
            table_of(rows)
        },
    ),
    vector(
        "zones",
        "Two columns with zones of three rows: numbers, and texts with nulls. A segment of eight rows has two of each, the \
         live one of five rows one.",
        WRITING,
        |table| {
            let index = Some(vec!["n".into(), "s".into()]);
            let mut writer =
                writer(table, simple_schema(), &WriterOptions { index, zone_rows: Some(3), ..unsynced(8) });
            let rows = commits(&mut writer, &[2, 5, 6]);
            drop(writer);
            table_of(rows)
        },
    ),
    vector(
        "late",
        "A table that accepts late rows: the fourth and the ninth row are less than those before. Its numbers have zones of \
         four rows.",
        WRITING,
        |table| {
            let (sorted_by, late) = (Some("n".into()), Some(LatePolicy::Accept));
            let options = WriterOptions { sorted_by, late, zone_rows: Some(4), ..unsynced(8) };
            let mut writer = writer(table, simple_schema(), &options);
            let mut rows = Vec::new();
            for part in [10..13, 2..3, 13..17, 5..6, 17..20] {
                let batch = simple(part);
                writer.append(&batch).unwrap();
                writer.commit().unwrap();
                rows.extend(json_rows(&batch));
            }
            drop(writer);
            table_of(rows)
        },
    ),
    Vector {
        check: Check::Note("begun by a commit that never came about"),
        ..vector(
            "provisional",
            "A disk refused a name in the middle of a commit, and to take the others back: two segments behind the first \
             are provisional, the first is not sealed, so they don't count.",
            WRITING,
            |table| {
                let witness = Renames::refusing(3);
                let mut writer = writer(table, simple_schema(), &watched(&witness));
                let rows = commits(&mut writer, &[4]);
                writer.append(&simple(4..28)).unwrap();
                writer.commit().unwrap_err();
                drop(writer);
                table_of(rows)
            },
        )
    },
    Vector {
        next_writer: Some(21),
        // Of a table that nobody writes to, other Arrow readers see rows that are not committed yet.
        check: Check::Note("other readers see 8 rows, committed are 4"),
        ..vector(
            "prepared",
            "A writer was killed before the store that makes a commit visible: its new segments have their names, and the \
             record that seals the first is whole, in the place of the next commit. A reader looks at the commit that \
             `sequence` says; the next writer of this boot goes forward.",
            WRITING,
            |table| {
                let witness = Renames::copying(2, table);
                let being_written = table.with_file_name("being written");
                let mut writer = writer(&being_written, simple_schema(), &watched(&witness));
                let rows = commits(&mut writer, &[4]);
                writer.append(&simple(4..21)).unwrap();
                writer.commit().unwrap();
                drop(writer);
                table_of(rows)
            },
        )
    },
    vector(
        "other_boot",
        "The machine was started again. The newest durable record counts, the checksum of its delta is right; the two rows \
         that were committed behind it are lost.",
        LATER,
        |table| {
            synced_by_a_record(table);
            table_of(json_rows(&simple(0..5)))
        },
    ),
    vector(
        "other_boot_wrong_delta",
        "As other_boot, but the pages of the delta did not reach the disk: the durable record before counts.",
        LATER,
        |table| {
            synced_by_a_record(table);
            edit(table, 0, |segment| segment.clear_values(0, 8 * 3..8 * 5));
            table_of(json_rows(&simple(0..3)))
        },
    ),
    Vector {
        mount: READERS_MOUNT,
        ..vector(
            "other_mount",
            "The table is read through another mount than it was written through: the rows are compared with the proof of \
             the newest visible record, and count.",
            WRITING,
            |table| {
                synced_by_a_record(table);
                table_of(json_rows(&simple(0..7)))
            },
        )
    },
    Vector {
        mount: READERS_MOUNT,
        ..vector(
            "other_mount_lost",
            "As other_mount, but the pages of the last two rows did not reach the disk, as in a snapshot of the volume: \
             the newest durable record counts, though its boot is this one.",
            WRITING,
            |table| {
                synced_by_a_record(table);
                edit(table, 0, |segment| segment.clear_values(0, 8 * 5..8 * 7));
                table_of(json_rows(&simple(0..5)))
            },
        )
    },
    vector(
        "other_boot_overwritten",
        "The newest durable record is torn, and was written over the one that `previous` of the other names: that one was \
         on the disk, and counts.",
        LATER,
        |table| {
            synced_by_a_record(table);
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            writer.sync().unwrap();
            drop(writer);
            edit(table, 0, |segment| segment.tear_newest_durable());
            table_of(json_rows(&simple(0..5)))
        },
    ),
    vector(
        "other_boot_chain",
        "A commit over the end of a segment, which was never synced: the first segment ends before the next one begins, \
         so that one does not count.",
        LATER,
        |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            let rows = commits(&mut writer, &[6]);
            writer.sync().unwrap();
            writer.append(&simple(6..13)).unwrap();
            writer.commit().unwrap();
            drop(writer);
            table_of(rows)
        },
    ),
    vector(
        "other_boot_sealed",
        "Three durable segments of a writer that was closed: each durable record says that it is sealed, the last one \
         that it is not.",
        LATER,
        |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            let rows = commits(&mut writer, &[5, 13]);
            writer.close().unwrap();
            table_of(rows)
        },
    ),
    vector(
        "log",
        "Durable commits that only the log has: no durable record, two whole entries, the second of two pages; a third \
         that is torn. No byte of the rows is in the columns.",
        LATER,
        |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            for (rows, name) in [(0..3, "a"), (3..5, "b"), (5..6, "a")] {
                let rows = with_long_text(&simple(rows), 4);
                writer.append(&rows).unwrap();
                writer.commit_with(&[(name, writer.rows() as i64)]).unwrap();
                writer.sync().unwrap();
            }
            drop(writer);
            edit(table, 0, |segment| {
                segment.clear_columns();
                // Behind the first entry, of one page, and the second, of two.
                segment.flip(segment.log() + 3 * 4096 + 70);
            });
            let rows = json_rows(&with_long_text(&simple(0..5), 4));
            Expected::Table { rows, first_row: 0, positions: [("a", 3), ("b", 5)].into() }
        },
    ),
    vector(
        "log_behind_record",
        "A durable record of four rows, an entry of the log that goes on from it, and one of before it, which it has.",
        LATER,
        |table| {
            let mut first = writer(table, simple_schema(), &unsynced(8));
            for rows in [0..1, 1..2, 2..3] {
                first.append(&simple(rows)).unwrap();
                first.commit().unwrap();
                first.sync().unwrap();
            }
            drop(first);
            let mut second = writer(table, simple_schema(), &unsynced(8));
            for rows in [3..4, 4..6] {
                second.append(&simple(rows)).unwrap();
                second.commit().unwrap();
                second.sync().unwrap();
            }
            drop(second);
            edit(table, 0, |segment| segment.clear_values(0, 8 * 4..8 * 6));
            table_of(json_rows(&simple(0..6)))
        },
    ),
    vector(
        "dense",
        "All segments were made dense, the last one too: it has the table's settings and positions in its schema's \
         metadata.",
        WRITING,
        |table| {
            let options = WriterOptions { sorted_by: Some("n".into()), ..unsynced(8) };
            let mut writer = writer(table, simple_schema(), &options);
            let rows = commits(&mut writer, &[5, 6]);
            writer.commit_with(&[("kafka/ticks/0", -7), ("the sensor in the hall", 1 << 40)]).unwrap();
            writer.close().unwrap();
            arrowwood::compact(table, |_, _| ()).unwrap();
            let positions = [("kafka/ticks/0", -7), ("the sensor in the hall", 1 << 40)].into();
            Expected::Table { rows, first_row: 0, positions }
        },
    ),
    vector("dense_then_live", "A dense segment, a sealed one and a live one.", WRITING, |table| {
        let mut writer = writer(table, simple_schema(), &unsynced(8));
        let mut rows = commits(&mut writer, &[8, 3]);
        writer.compact(|_, _| ()).unwrap();
        writer.append(&simple(11..18)).unwrap();
        writer.commit().unwrap();
        drop(writer);
        rows.extend(json_rows(&simple(11..18)));
        table_of(rows)
    }),
    vector(
        "merged",
        "The first four segments were merged, and two of them are still there: the dense one has their rows, too.",
        WRITING,
        |table| {
            let mut small = writer(table, simple_schema(), &unsynced(8));
            let rows = commits(&mut small, &[8, 8, 8, 8, 2]);
            small.close().unwrap();
            let kept = [16, 24].map(|row| format!("{row:020}.arrow"));
            kept.iter().for_each(|name| _ = std::fs::copy(table.join(name), table.with_extension(name)).unwrap());
            let larger = WriterOptions { segment_rows: Some(32), ..unsynced(8) };
            let mut live = Writer::open(table, None, &larger).unwrap();
            // The live segment keeps its size; the next one says how many rows a segment may have.
            let more = simple(34..41);
            live.append(&more).unwrap();
            live.commit().unwrap();
            assert_eq!(live.compact(|_, _| ()).unwrap(), 5);
            drop(live);
            kept.iter().for_each(|name| std::fs::rename(table.with_extension(name), table.join(name)).unwrap());
            table_of([rows, json_rows(&more)].concat())
        },
    ),
    vector(
        "schemas",
        "Three segments, each with a newer schema than the one before: wider numbers, more columns, nulls where there were \
         none. The last one has no rows.",
        WRITING,
        |table| {
            let schema = |text: &str| Arc::new(parse_schema(text).unwrap());
            let mut writer = writer(table, schema("n: int8 not null, u: uint16, f: float32"), &unsynced(8));
            for row in [
                [Value::Int(-128), Value::UInt(65_535), Value::Float32(0.1)],
                [Value::Int(127), Value::Null, Value::Null],
            ] {
                writer.append_row(&row).unwrap();
            }
            writer.commit().unwrap();
            writer.alter(&schema("s: utf8, n: int64, u: int32, f: float64")).unwrap();
            for row in [
                [Value::Int(1 << 40), Value::Int(-7), Value::Float64(0.1), Value::Str("a")],
                [Value::Null, Value::Null, Value::Null, Value::Null],
            ] {
                writer.append_row(&row).unwrap();
            }
            writer.commit().unwrap();
            writer.alter(&schema("n: int64, u: int64, f: float64, s: utf8, d: category, l: list<int32>")).unwrap();
            drop(writer);
            table_of(vec![
                json!({"n": -128, "u": 65_535, "f": f64::from(0.1_f32), "s": null, "d": null, "l": null}),
                json!({"n": 127, "u": null, "f": null, "s": null, "d": null, "l": null}),
                json!({"n": 1_u64 << 40, "u": -7, "f": 0.1, "s": "a", "d": null, "l": null}),
                json!({"n": null, "u": null, "f": null, "s": null, "d": null, "l": null}),
            ])
        },
    ),
    vector("dropped", "The first two segments were dropped: the rows keep their numbers.", WRITING, |table| {
        let mut writer = writer(table, simple_schema(), &unsynced(8));
        let rows = commits(&mut writer, &[20]);
        writer.drop_before(18).unwrap();
        drop(writer);
        Expected::Table { rows: rows[16..].to_vec(), first_row: 16, positions: BTreeMap::new() }
    }),
    vector(
        "positions",
        "Positions of three producers, the third one named by the last commit, which has no rows, behind the end of a \
         segment.",
        WRITING,
        |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            writer.append(&simple(0..4)).unwrap();
            writer.commit_with(&[("kafka/ticks/0", 41_872), ("żółć", -1)]).unwrap();
            writer.append(&simple(4..10)).unwrap();
            writer.commit_with(&[("kafka/ticks/0", 41_878)]).unwrap();
            writer.commit_with(&[("sensor-7", 12)]).unwrap();
            drop(writer);
            let positions = [("kafka/ticks/0", 41_878), ("sensor-7", 12), ("żółć", -1)].into();
            Expected::Table { rows: json_rows(&simple(0..10)), first_row: 0, positions }
        },
    ),
    vector("newer_minor", "A header of format version 1.7 with a field that 1.0 does not know.", WRITING, |table| {
        let mut writer = writer(table, simple_schema(), &unsynced(8));
        let rows = commits(&mut writer, &[2]);
        drop(writer);
        edit(table, 0, Segment::lengthen_header);
        table_of(rows)
    }),
    Vector {
        check: Check::Damage("the newest commit record"),
        ..vector(
            "torn_record",
            "The newest visible record is torn, as by somebody who wrote over it: the other one, of this boot, counts.",
            WRITING,
            |table| {
                let mut writer = writer(table, simple_schema(), &unsynced(8));
                let mut rows = commits(&mut writer, &[3, 2]);
                drop(writer);
                edit(table, 0, |segment| segment.flip(segment.visible() + 64));
                rows.truncate(3);
                table_of(rows)
            },
        )
    },
    Vector {
        check: Check::Damage("the newest commit record"),
        ..vector(
            "torn_record_synced",
            "The newest visible record is torn, and a durable record and an entry of the log, both of this boot and synced, \
             have its rows and those before: they count.",
            WRITING,
            |table| {
                let mut first = writer(table, simple_schema(), &unsynced(8));
                commits(&mut first, &[2]);
                drop(first);
                let mut second = writer(table, simple_schema(), &unsynced(8));
                for rows in [2..4, 4..6] {
                    second.append(&simple(rows)).unwrap();
                    second.commit().unwrap();
                    second.sync().unwrap();
                }
                drop(second);
                edit(table, 0, |segment| segment.flip(segment.visible() + 64));
                table_of(json_rows(&simple(0..6)))
            },
        )
    },
    Vector {
        check: Check::Damage("checksum"),
        ..vector("refused_header", "A header with a wrong checksum.", WRITING, |table| {
            let mut writer = writer(table, simple_schema(), &unsynced(8));
            commits(&mut writer, &[3]);
            drop(writer);
            edit(table, 0, |segment| segment.flip(segment.header() + 33));
            Expected::Refused("the checksum of the header is wrong")
        })
    },
    Vector {
        check: Check::Damage("expected 8 at most, got 9"),
        ..vector(
            "refused_record",
            "A visible record with a right checksum, and more rows than `capacity`: no writer has written it, and the \
             commit before is not taken in its place.",
            WRITING,
            |table| {
                let mut writer = writer(table, simple_schema(), &unsynced(8));
                commits(&mut writer, &[3, 2]);
                drop(writer);
                edit(table, 0, |segment| segment.set_counter(segment.visible(), 0, 9));
                Expected::Refused("the counter of rows is above its limit")
            },
        )
    },
];

fn simple_schema() -> SchemaRef {
    let fields = [
        Field::new("n", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ];
    Arc::new(Schema::new(fields.to_vec()))
}

fn watched(witness: &Arc<Renames>) -> WriterOptions {
    WriterOptions { medium: FileSystem::with_observer(witness.clone()), ..unsynced(8) }
}

fn writer(table: &Path, schema: SchemaRef, options: &WriterOptions) -> Writer {
    Writer::open(table, Some(schema), options).unwrap()
}

/// Commits of so many rows each; all of them.
fn commits(writer: &mut Writer, rows: &[u64]) -> Vec<Json> {
    for &rows in rows {
        writer.append(&simple(writer.rows()..writer.rows() + rows)).unwrap();
        writer.commit().unwrap();
    }
    json_rows(&simple(0..writer.rows()))
}

fn table_of(rows: Vec<Json>) -> Expected {
    Expected::Table { rows, first_row: 0, positions: BTreeMap::new() }
}

/// Three rows of a writer that was closed, two of one that was killed behind their sync, and two that it never synced.
fn synced_by_a_record(table: &Path) {
    let mut first = writer(table, simple_schema(), &unsynced(8));
    commits(&mut first, &[3]);
    first.close().unwrap();
    let mut second = writer(table, simple_schema(), &unsynced(8));
    commits(&mut second, &[2]);
    second.sync().unwrap();
    commits(&mut second, &[2]);
}

/// Counts the segments that get their names in a commit, refuses one of them, or copies the table once all have theirs.
#[derive(Debug, Default)]
struct Renames {
    named: AtomicU32,
    refused: Option<u32>,
    /// At how many, and where to.
    copied: Option<(u32, PathBuf)>,
}

impl Renames {
    fn refusing(number: u32) -> Arc<Renames> {
        Arc::new(Renames { refused: Some(number), ..Renames::default() })
    }

    fn copying(number: u32, to: &Path) -> Arc<Renames> {
        Arc::new(Renames { copied: Some((number, to.to_path_buf())), ..Renames::default() })
    }
}

impl FsObserver for Renames {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        match act {
            FsOp::Rename { from, .. } if from.extension().is_some_and(|end| end == "next") => {
                let number = self.named.fetch_add(1, Ordering::Relaxed) + 1;
                if self.refused == Some(number) { Err(std::io::Error::other("a disk that refuses")) } else { Ok(()) }
            }
            FsOp::StoreMapped { .. } => {
                let now = self.named.load(Ordering::Relaxed);
                if let Some((_, to)) = self.copied.as_ref().filter(|(number, to)| *number == now && !to.exists()) {
                    copy_table(&to.with_file_name("being written"), to);
                }
                Ok(())
            }
            // What has names by then keeps them.
            FsOp::Remove { .. } if self.refused.is_some_and(|number| self.named.load(Ordering::Relaxed) >= number) => {
                Err(std::io::Error::other("a disk that refuses"))
            }
            _ => Ok(()),
        }
    }
}

/// Changes the bytes of a segment.
fn edit(table: &Path, first_row: u64, change: impl FnOnce(&mut Segment)) {
    let path = table.join(format!("{first_row:020}.arrow"));
    let mut segment = Segment::of(fs::read(&path).unwrap()).unwrap();
    change(&mut segment);
    fs::write(path, segment.bytes).unwrap();
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// The files of a vector, unpacked, by name.
fn unpacked(name: &str) -> BTreeMap<String, Vec<u8>> {
    unpacked_from(&vectors().join(name))
}

fn unpacked_from(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "gz") {
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
            files.insert(path.file_stem().unwrap().to_str().unwrap().to_string(), bytes);
        }
    }
    files
}

/// Makes a vector anew: its files, by name, and its `expected.json`.
fn made(vector: &Vector) -> (BTreeMap<String, Vec<u8>>, String) {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join(vector.name);
    simulate_boot(Some(WRITING));
    simulate_mount(Some(WRITERS_MOUNT));
    let expected = (vector.make)(&table);
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&table).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        files.insert(name, without_chance(bytes));
    }
    (files, expected_json(vector, &expected))
}

/// `expected.json`, a row a line.
fn expected_json(vector: &Vector, expected: &Expected) -> String {
    let boot: String = vector.boot.iter().map(|byte| format!("{byte:02x}")).collect();
    let shows = Json::from(vector.shows);
    let mount = vector.mount;
    let mut lines = vec![format!("\"shows\": {shows}"), format!("\"boot\": \"{boot}\""), format!("\"mount\": {mount}")];
    match expected {
        Expected::Refused(why) => lines.push(format!("\"refused\": {}", Json::from(*why))),
        Expected::Table { rows, first_row, positions } => {
            lines.push(format!("\"first_row\": {first_row}"));
            lines.push(format!("\"positions\": {}", json!(positions)));
            let rows: Vec<String> = rows.iter().map(|row| format!("    {row}")).collect();
            lines.push(format!("\"rows\": [\n{}\n  ]", rows.join(",\n")));
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn update(vector: &Vector) {
    let folder = vectors().join(vector.name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    let (files, expected) = made(vector);
    for (name, bytes) in files {
        let file = File::create(folder.join(format!("{name}.gz"))).unwrap();
        let mut into = GzEncoder::new(file, Compression::best());
        into.write_all(&bytes).unwrap();
        into.finish().unwrap();
    }
    fs::write(folder.join("expected.json"), expected).unwrap();
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_VECTORS").is_some()
}

/// Makes the vectors anew if that is asked for.
fn updated() {
    if is_updating() {
        VECTORS.iter().for_each(update);
    }
}

/// A vector's table in a folder of its own, in the boot that it is to be read in.
fn laid_out(vector: &Vector) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("table");
    fs::create_dir(&table).unwrap();
    for (name, bytes) in unpacked(vector.name) {
        fs::write(table.join(name), bytes).unwrap();
    }
    simulate_boot(Some(vector.boot));
    simulate_mount(Some(vector.mount));
    (home, table)
}

fn expected_of(vector: &Vector) -> Map<String, Json> {
    let text = fs::read_to_string(vectors().join(vector.name).join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A table as `expected.json` has it.
fn read(table: &Path) -> arrowwood::Result<Json> {
    let dataset = open(table)?;
    dataset.validate(|_, _| ())?;
    let batches = dataset.to_record_batches().collect::<arrowwood::Result<Vec<RecordBatch>>>()?;
    let rows: Vec<Json> = batches.iter().flat_map(json_rows).collect();
    Ok(json!({ "first_row": dataset.first_row(), "positions": dataset.positions()?, "rows": rows }))
}

#[test]
fn tables_are_read_as_their_vectors_say() {
    alone!();
    updated();
    let names: Vec<String> = fs::read_dir(vectors())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !VECTORS.iter().any(|vector| vector.name == name))
        .collect();
    assert!(names.is_empty(), "nobody checks {names:?}");
    for vector in VECTORS {
        let (_home, table) = laid_out(vector);
        let expected = expected_of(vector);
        match (read(&table), expected.get("refused")) {
            (Err(e), Some(_)) => assert_eq!(e.kind(), ErrorKind::InvalidData, "{}: {e}", vector.name),
            (Ok(found), Some(_)) => panic!("{}: not refused: {found}", vector.name),
            (Err(e), None) => panic!("{}: {e}", vector.name),
            (Ok(found), None) => {
                for key in ["first_row", "positions", "rows"] {
                    assert_eq!(found[key], expected[key], "{}: {key}", vector.name);
                }
            }
        }
    }
    simulate_boot(None);
    simulate_mount(None);
}

#[test]
fn check_says_what_is_wrong_with_each_vector() {
    alone!();
    updated();
    for vector in VECTORS {
        let (_home, table) = laid_out(vector);
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        let said = |words: &str, is_damage: bool| {
            report.findings.iter().any(|found| found.is_damage == is_damage && found.message.contains(words))
        };
        let is_right = match vector.check {
            Check::Good => report.is_good(),
            Check::Note(words) => report.is_good() && said(words, false),
            Check::Damage(words) => said(words, true),
        };
        assert!(is_right, "{}: {:#?}", vector.name, report.findings);
    }
    simulate_boot(None);
    simulate_mount(None);
}

/// What the next writer finds is what readers see, but for a commit that a killed writer has prepared; and goes on there.
#[test]
fn writers_go_on_from_what_readers_see() {
    alone!();
    updated();
    for vector in VECTORS {
        let expected = expected_of(vector);
        let (_home, table) = laid_out(vector);
        let opened = Writer::open(&table, None, &unsynced(8));
        let Some(rows) = expected.get("rows").and_then(Json::as_array) else {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidData, "{}", vector.name);
            continue;
        };
        let end = expected["first_row"].as_u64().unwrap() + rows.len() as u64;
        let mut writer = opened.unwrap_or_else(|e| panic!("{}: {e}", vector.name));
        assert_eq!(writer.rows(), vector.next_writer.unwrap_or(end), "{}", vector.name);
        assert_eq!(json!(writer.positions()), expected["positions"], "{}", vector.name);
        if *writer.schema() == simple_schema() {
            let end = writer.rows();
            writer.append(&simple(end..end + 20)).unwrap();
            writer.close().unwrap();
            let found = read(&table).unwrap();
            let found = found["rows"].as_array().unwrap();
            assert_eq!(found.len() as u64, end + 20 - expected["first_row"].as_u64().unwrap(), "{}", vector.name);
            assert_eq!(found[..rows.len()], rows[..], "{}", vector.name);
        }
    }
    simulate_boot(None);
    simulate_mount(None);
}

/// What arrow-rs reads of all segments.
fn stock_batches(table: &Path) -> Vec<RecordBatch> {
    let paths = fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path());
    let batches = paths.flat_map(|path| FileReader::try_new(File::open(path).unwrap(), None).unwrap());
    batches.map(|batch| batch.unwrap()).collect()
}

fn stock_rows(table: &Path) -> usize {
    stock_batches(table).iter().map(RecordBatch::num_rows).sum()
}

/// Tables of before there were proofs: their commits count in their boot, through any mount. And of before footers shared
/// a schema: their segments grow as they were made.
#[test]
fn tables_of_early_writers_are_read() {
    alone!();
    let early = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/early");
    for entry in fs::read_dir(early).unwrap() {
        let folder = entry.unwrap().path();
        let expected: Json = serde_json::from_str(&fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap();
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("table");
        fs::create_dir(&table).unwrap();
        for (name, bytes) in unpacked_from(&folder) {
            fs::write(table.join(name), bytes).unwrap();
        }
        let boot = u128::from_str_radix(expected["boot"].as_str().unwrap(), 16).unwrap().to_be_bytes();
        simulate_boot(Some(boot));
        simulate_mount(Some(READERS_MOUNT));
        let found = read(&table).unwrap();
        for key in ["first_row", "positions", "rows"] {
            assert_eq!(found[key], expected[key], "{}: {key}", folder.display());
        }
        let mut writer = Writer::open(&table, None, &unsynced(8)).unwrap();
        let end = writer.rows();
        assert_eq!(end, found["first_row"].as_u64().unwrap() + found["rows"].as_array().unwrap().len() as u64);
        writer.sync().unwrap();
        drop(writer);
        simulate_boot(Some(LATER));
        assert_eq!(read(&table).unwrap()["rows"], expected["rows"], "{}", folder.display());
        assert_eq!(stock_rows(&table) as u64, end - found["first_row"].as_u64().unwrap(), "{}", folder.display());
        let batches = stock_batches(&table);
        let row = batches.iter().find(|batch| batch.num_rows() > 0).unwrap().slice(0, 1);
        let mut writer = Writer::open(&table, None, &unsynced(8)).unwrap();
        for _ in 0..20 {
            writer.append(&row).unwrap();
            writer.commit().unwrap();
        }
        writer.close().unwrap();
        let read = read(&table).unwrap();
        let rows = read["rows"].as_array().unwrap();
        assert_eq!(rows[..rows.len() - 20], expected["rows"].as_array().unwrap()[..], "{}", folder.display());
        assert_eq!(stock_rows(&table), rows.len(), "{}", folder.display());
        assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good(), "{}", folder.display());
    }
    simulate_boot(None);
    simulate_mount(None);
}

/// The vectors in the repository are those that the writer of today makes, byte for byte but for what it publishes to other
/// Arrow readers: how often it does depends on the time.
#[test]
fn vectors_are_what_writers_make() {
    alone!();
    updated();
    for vector in VECTORS {
        let (files, expected) = made(vector);
        let there = fs::read_to_string(vectors().join(vector.name).join("expected.json")).unwrap();
        assert_eq!(there, expected, "{}", vector.name);
        let kept = unpacked(vector.name);
        assert!(kept.keys().eq(files.keys()), "{}: {:?}", vector.name, files.keys());
        for (name, bytes) in &files {
            let now = without_footers(bytes.clone());
            let kept = without_footers(kept[name].clone());
            let differs = now.iter().zip(&kept).position(|(a, b)| a != b);
            assert!(differs.is_none() && now.len() == kept.len(), "{}/{name}: byte {differs:?}", vector.name);
        }
    }
    simulate_boot(None);
    simulate_mount(None);
}

#[test]
fn the_page_names_every_vector() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format.md")).unwrap();
    let section = &text[text.find("## Test vectors").expect("the section of the vectors")..];
    for vector in VECTORS {
        assert!(section.contains(&format!("`{}`", vector.name)), "{}", vector.name);
    }
}

/// The dump in `docs/format.md` is of the first vector.
#[test]
fn the_dump_on_the_page_is_of_a_vector() {
    alone!();
    updated();
    let files = unpacked("nulls_and_text");
    let segment = Segment::of(files.into_values().next().unwrap()).unwrap();
    let now = dump(&segment);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format.md");
    let text = fs::read_to_string(&page).unwrap();
    let place = dumped(&text);
    if is_updating() {
        fs::write(&page, [&text[..place.start], &now, &text[place.end..]].concat()).unwrap();
        return;
    }
    assert_eq!(text[place], now);
}

/// Where the dump stands on the page: the block behind the words that begin it.
fn dumped(text: &str) -> Range<usize> {
    let start = text.find("### Header and record in bytes").expect("the section of the dump");
    let start = start + text[start..].find("```\n").unwrap() + 4;
    start..start + text[start..].find("```").unwrap()
}
