//! Repairs of tables that killed writers, cut-off merges and interrupted repairs have left: no row goes that has a good
//! copy, none comes that was not committed, and what is kept is on the disk.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::simulate::simulate_boot;
use arrowwood::{Dataset, RepairReport, WriteOptions, Writer, check, compact, open, repair, write};

use crate::tables::unsynced;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, false)]))
}

fn rows(what: &str, from: i64, to: i64) -> RecordBatch {
    let n = Int64Array::from_iter_values(from..to);
    let s = StringArray::from_iter_values((from..to).map(|n| format!("{what}-{n:06}")));
    RecordBatch::try_new(schema(), vec![Arc::new(n), Arc::new(s)]).unwrap()
}

fn writer(table: &Path, segment_rows: u64) -> Writer {
    Writer::open(table, Some(schema()), &unsynced(segment_rows)).unwrap()
}

/// A directory with a table `t` of so many rows, in segments of 50, and the table's path. No checksum covers the rows yet.
fn table(count: i64) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let mut writer = writer(&table, 50);
    writer.append(&rows("row", 0, count)).unwrap();
    writer.commit().unwrap();
    drop(writer);
    (home, table)
}

fn segment(table: &Path, row: u64) -> PathBuf {
    table.join(format!("{row:020}.arrow"))
}

/// The offset of the last copy of a row's text: that of the log comes first.
fn place_of(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).rposition(|there| there == text.as_bytes()).unwrap()
}

/// Puts the end of a row's text beyond all text.
fn damage(file: &Path, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let (at, len) = (place_of(&bytes, text), text.len());
    let is_before = |&number: &usize| bytes[at - len * number..].starts_with(&text.as_bytes()[..4]);
    let number = (1..=at / len).take_while(is_before).count();
    let offsets = [number, number + 1].map(|row| ((len * row) as u32).to_le_bytes()).concat();
    let at = bytes.windows(8).rposition(|there| there == offsets).unwrap();
    bytes[at + 7] = 0x7f;
    fs::write(file, bytes).unwrap();
}

/// Puts a byte that is no text into a row's.
fn poison(file: &Path, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let at = place_of(&bytes, text);
    bytes[at + 4] = 0xff;
    fs::write(file, bytes).unwrap();
}

fn repaired(table: &Path) -> RepairReport {
    let report = repair(table, |_, _| ()).unwrap();
    assert!(check(table, |_, _| ()).unwrap().is_good());
    assert_eq!(open(table).unwrap().len().unwrap(), report.rows);
    report.repaired.unwrap()
}

fn text(table: &Path, row: u64) -> String {
    open(table).unwrap().row(row).unwrap().get(1).unwrap().to_string()
}

/// Checks that the table has these rows, and no others.
fn has_rows(table: &Path, what: &str, count: u64) {
    assert_eq!(open(table).unwrap().len().unwrap(), count);
    (0..count).for_each(|row| assert_eq!(text(table, row), format!("{what}-{row:06}")));
}

/// Damage that costs no row, such as that of a file's last byte.
#[test]
fn segments_behind_one_that_lost_no_row_stay() {
    let (_home, table) = table(120);
    for (row, kept) in [(0, 120), (50, 120)] {
        let mut bytes = fs::read(segment(&table, row)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(segment(&table, row), bytes).unwrap();
        let repaired = repaired(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (kept, Some(0), 1));
    }
    has_rows(&table, "row", 120);
    writer(&table, 50).append(&rows("row", 120, 130)).unwrap();
}

/// Text that is not UTF-8 cost the rows behind it, and all later segments.
#[test]
fn text_that_is_not_utf8_costs_no_other_row() {
    for is_dense in [false, true] {
        let (_home, table) = table(120);
        if is_dense {
            compact(&table, |_, _| ()).unwrap();
        }
        for (first, row) in [(0, 20), (0, 30), (50, 99), (100, 119)] {
            poison(&segment(&table, first), &format!("row-{row:06}"));
        }
        let repaired = repaired(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (120, Some(0), 3));
        for row in 0..120 {
            let first = if [20, 30, 99, 119].contains(&row) { "?" } else { "0" };
            assert_eq!(text(&table, row), format!("row-{first}{row:05}"));
        }
        let mut writer = writer(&table, 50);
        writer.append(&rows("row", 120, 130)).unwrap();
        writer.close().unwrap();
        assert!(check(&table, |_, _| ()).unwrap().is_good());
    }
}

/// A table of segments 0, 50, 100 and a growing one from 150 on, in which a compaction was cut off when the first file had
/// the rows of the first three.
fn merged() -> (tempfile::TempDir, PathBuf) {
    let (home, table) = table(75);
    let mut closed = writer(&table, 50);
    closed.append(&rows("row", 75, 150)).unwrap();
    closed.close().unwrap();
    let mut writer = writer(&table, 1000);
    writer.append(&rows("row", 150, 160)).unwrap();
    writer.commit().unwrap();
    let left = [50, 100].map(|row| (segment(&table, row), fs::read(segment(&table, row)).unwrap()));
    writer.compact(|_, _| ()).unwrap();
    writer.close().unwrap();
    for (path, bytes) in left {
        assert!(!path.exists());
        fs::write(path, bytes).unwrap();
    }
    has_rows(&table, "row", 160);
    (home, table)
}

/// A replacement in the place of a leftover hid rows of the merged file, and the next merge took the merged file's rows
/// for the ones that were appended since.
#[test]
fn damaged_leftovers_of_a_merge_cost_no_row() {
    for damaged in [50, 100] {
        let (_home, table) = merged();
        damage(&segment(&table, damaged), &format!("row-{:06}", damaged + 20));
        let repaired = repaired(&table);
        assert_eq!((repaired.kept, repaired.given_up), (160, Some(0)));
        let mut writer = writer(&table, 25);
        writer.append(&rows("row", 160, 260)).unwrap();
        writer.close().unwrap();
        compact(&table, |_, _| ()).unwrap();
        has_rows(&table, "row", 260);
    }
}

/// The files that are still there have the rows of the merged one.
#[test]
fn a_damaged_merge_costs_no_row_of_its_leftovers() {
    for damaged in [70, 120] {
        let (_home, table) = merged();
        damage(&segment(&table, 0), &format!("row-{damaged:06}"));
        let repaired = repaired(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (160, Some(0), 1));
        compact(&table, |_, _| ()).unwrap();
        has_rows(&table, "row", 160);
    }
    let (_home, table) = merged();
    damage(&segment(&table, 0), "row-000020");
    assert_eq!(repaired(&table).kept, 20);
}

/// A name that the merged file does not end with, in the middle of what it has: no merge has left that.
#[test]
fn segments_that_are_no_leftovers_are_not_removed_by_a_merge() {
    let (_home, table) = merged();
    fs::rename(segment(&table, 100), segment(&table, 110)).unwrap();
    assert!(compact(&table, |_, _| ()).is_err());
    assert!(segment(&table, 50).exists() && segment(&table, 110).exists());
}

#[test]
fn what_is_before_the_damage_is_on_the_disk() {
    alone!();
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let mut writer = writer(&table, 50);
    writer.append(&rows("row", 0, 60)).unwrap();
    writer.commit().unwrap();
    // The first segment is durable, and ten rows of the second.
    writer.sync().unwrap();
    writer.append(&rows("row", 60, 120)).unwrap();
    writer.commit().unwrap();
    drop(writer);
    damage(&segment(&table, 100), "row-000110");
    assert_eq!(repaired(&table).kept, 110);
    simulate_boot(Some([7; 16]));
    has_rows(&table, "row", 110);
    simulate_boot(None);
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The offset of the live page, and the bytes from one record to the next.
fn live_page(bytes: &[u8]) -> (usize, usize) {
    let header = (0..).step_by(4096).find(|&at| &bytes[at..at + 8] == b"ArrwWood").unwrap();
    (word(bytes, header + 40) as usize, word(bytes, header + 48) as usize)
}

/// Takes back the last store of the newest commit.
fn uncount(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let (live, _) = live_page(&bytes);
    let number = word(&bytes, live) - 1;
    bytes[live..live + 8].copy_from_slice(&number.to_le_bytes());
    fs::write(file, bytes).unwrap();
}

/// A commit over the end of a segment, and its writer killed before it counted: the repair kept the rows of the first
/// segment alone.
#[test]
fn a_prepared_commit_is_kept_as_a_whole_or_not_at_all() {
    // All of it is there; its second segment is not; its first one is so damaged that nothing may be written into it.
    for (is_there, is_open) in [(true, true), (false, true), (true, false)] {
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("t");
        let file = segment(&table, 0);
        let mut writer = writer(&table, 50);
        writer.append(&rows("row", 0, 10)).unwrap();
        writer.commit().unwrap();
        writer.append(&rows("row", 10, 70)).unwrap();
        writer.commit().unwrap();
        drop(writer);
        uncount(&file);
        // Its second segment waits for its name.
        let waiting = home.path().join(format!(".t.{:020}.next", 50));
        fs::rename(segment(&table, 50), &waiting).unwrap();
        if !is_there {
            fs::remove_file(&waiting).unwrap();
        }
        assert!(check(&table, |_, _| ()).unwrap().is_good());
        let mut bytes = fs::read(&file).unwrap();
        if is_open {
            let (live, record) = live_page(&bytes);
            // A torn durable record.
            bytes[live + 4096 + 3 * record] = 1;
        } else {
            *bytes.last_mut().unwrap() ^= 1;
        }
        fs::write(&file, bytes).unwrap();
        let kept = if is_there && is_open { 70 } else { 10 };
        assert_eq!(repaired(&table).kept, kept);
        has_rows(&table, "row", kept);
        assert_eq!(self::writer(&table, 50).rows(), kept);
        assert!(!waiting.exists());
    }
}

/// A writer killed between its commit record and the number of the commit was reported as damage, and the repair showed
/// the rows and dropped the positions.
#[test]
fn a_commit_that_does_not_count_yet_is_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let file = segment(&table, 0);
    let mut writer = writer(&table, 50);
    writer.append(&rows("row", 0, 10)).unwrap();
    writer.commit_with(&[("p", 10)]).unwrap();
    writer.sync().unwrap();
    writer.append(&rows("row", 10, 20)).unwrap();
    let mut killed = fs::read(&file).unwrap();
    writer.commit_with(&[("p", 20)]).unwrap();
    // Rows and record are there, number and footer are not.
    let bytes = fs::read(&file).unwrap();
    let (live, _) = live_page(&bytes);
    let tail = bytes.len() - 10;
    killed[live + 4096..tail].copy_from_slice(&bytes[live + 4096..tail]);
    drop(writer);
    fs::write(&file, &killed).unwrap();
    let report = check(&table, |_, _| ()).unwrap();
    let is_noted = |finding: &arrowwood::Finding| finding.message.contains("whose record of 20 rows is whole, got");
    assert!(report.is_good() && report.findings.iter().any(is_noted), "{report:?}");
    assert_eq!(repair(&table, |_, _| ()).unwrap().repaired, None);
    assert_eq!(open(&table).unwrap().positions().unwrap()["p"], 10);
    // Where there is damage, too.
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!(repaired(&table).kept, 10);
}

/// A footer shows committed rows only: without it, this number could be that of a killed writer.
#[test]
fn a_number_behind_what_other_readers_see_is_damage() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let mut writer = writer(&table, 50);
    for from in [0, 10] {
        writer.append(&rows("row", from, from + 10)).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    uncount(&segment(&table, 0));
    assert!(!check(&table, |_, _| ()).unwrap().is_good());
    assert_eq!(repaired(&table).kept, 20);
    has_rows(&table, "row", 20);
}

/// The damaged file had got its second name and not been replaced when the first repair was stopped, and then there is
/// damage before it: a rename between two names of one file does nothing.
#[test]
fn a_segment_that_an_interrupted_repair_named_is_moved() {
    let (home, table) = table(150);
    damage(&segment(&table, 100), "row-000110");
    let aside = home.path().join("t.damaged");
    fs::create_dir(&aside).unwrap();
    fs::hard_link(segment(&table, 100), segment(&aside, 100)).unwrap();
    damage(&segment(&table, 50), "row-000060");
    assert_eq!(repaired(&table).kept, 60);
    has_rows(&table, "row", 60);
    assert!(segment(&aside, 100).exists());
}

/// Files of a killed process that had our process id, as in a container where it is always the same.
#[test]
fn incomplete_files_of_others_do_not_stop_a_repair() {
    let (home, table) = table(40);
    let parts = |name: &str| {
        let part = |n: u32| home.path().join(format!(".{name}.{}.{n}.part", std::process::id()));
        (0..50).map(part).collect::<Vec<_>>()
    };
    damage(&segment(&table, 0), "row-000020");
    parts("t").iter().for_each(|part| fs::write(part, "").unwrap());
    assert_eq!(repaired(&table).kept, 20);
    assert!(parts("t").iter().all(|part| !part.exists()));
    // Beside a file nobody may remove them.
    let file = home.path().join("x.arrow");
    fs::copy(segment(&table, 0), &file).unwrap();
    damage(&file, "row-000010");
    parts("x.arrow").iter().for_each(|part| fs::write(part, "").unwrap());
    assert_eq!(repaired(&file).kept, 0);
    assert!(parts("x.arrow").iter().all(|part| part.exists()));
}

/// A log has a copy of small durable commits, with a checksum each.
#[test]
fn rows_that_the_log_has_are_taken_from_there() {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let file = segment(&table, 0);
    let mut writer = writer(&table, 50);
    for from in [0, 10, 20, 30] {
        writer.append(&rows("row", from, from + 10)).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    damage(&file, "row-000025");
    let bytes = fs::read(&file).unwrap();
    assert_eq!(repaired(&table).kept, 40);
    has_rows(&table, "row", 40);
    assert_eq!(fs::read(segment(&home.path().join("t.damaged"), 0)).unwrap(), bytes);
}

/// What only its owner may read stays so when a new file takes its place.
#[test]
fn new_files_are_as_private_as_those_they_replace() {
    let make_private = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    // Rows, and none: a dense file, and a segment to go on with.
    for damaged in [20, 0] {
        let (home, table) = table(40);
        make_private(&segment(&table, 0));
        fs::set_permissions(&table, fs::Permissions::from_mode(0o750)).unwrap();
        damage(&segment(&table, 0), &format!("row-{damaged:06}"));
        assert_eq!(repaired(&table).kept, damaged);
        assert_eq!(mode(&segment(&table, 0)), 0o600);
        assert_eq!(mode(&home.path().join("t.damaged")), 0o750);
    }
    let (home, table) = table(40);
    make_private(&segment(&table, 0));
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(mode(&segment(&table, 0)), 0o600);
    let file = home.path().join("x.arrow");
    let batches = [0, 10].map(|from| rows("row", from, from + 10)).to_vec();
    write(&Dataset::try_from(batches).unwrap(), &file, &WriteOptions::default()).unwrap();
    make_private(&file);
    damage(&file, "row-000015");
    assert_eq!(repaired(&file).kept, 10);
    assert_eq!(mode(&file), 0o600);
}
