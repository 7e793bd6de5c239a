//! Tests of repairs of tables that killed writers, interrupted compactions and interrupted repairs have left.
//!
//! A repair must keep every row that has a good copy, add none that was not committed, and make durable what it keeps.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::simulate::simulate_boot;
use arrowwood::{Dataset, Finding, RepairReport, WriteOptions, Writer, check, compact, open, repair, write};
use tempfile::TempDir;

use crate::tables::unsynced;
use crate::without_mount_ids::are_mount_ids_off;

/// Rows per segment of most tables.
const SEGMENT_ROWS: u64 = 50;
const PAGE: usize = 4096;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, false)]))
}

fn text_of(row: impl std::fmt::Display) -> String {
    format!("row-{row:0>6}")
}

/// Returns the rows `start..end`: their numbers, and their texts.
fn rows(start: i64, end: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(start..end);
    let texts = StringArray::from_iter_values((start..end).map(text_of));
    RecordBatch::try_new(schema(), vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
}

fn open_writer(table: &Path, segment_rows: u64) -> Writer {
    Writer::open(table, Some(schema()), &unsynced(segment_rows)).unwrap()
}

/// Creates a table `t` of `count` rows in a new folder. No checksum covers the rows yet, as nothing is synced.
fn create_table(count: i64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = open_writer(&table, SEGMENT_ROWS);
    writer.append(&rows(0, count)).unwrap();
    writer.commit().unwrap();
    if are_mount_ids_off() {
        // Damage to rows that were not synced can't be told from their loss. Of a segment that was synced, repairs keep no
        // rows behind a wrong checksum, which is that of all its rows here.
        writer.close().unwrap();
    } else {
        drop(writer);
    }
    (folder, table)
}

fn segment_path(table: &Path, first_row: u64) -> PathBuf {
    table.join(format!("{first_row:020}.arrow"))
}

/// Returns the offset of the last copy of a text: an earlier one is in the log.
fn find_text(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).rposition(|window| window == text.as_bytes()).unwrap()
}

/// Damages the segment such that the row with this text, and all rows behind it, can't be read: the end of the text is
/// beyond all texts.
fn damage_offset(segment: &Path, text: &str) {
    let mut bytes = fs::read(segment).unwrap();
    let (text_offset, text_len) = (find_text(&bytes, text), text.len());
    // All texts have the same length, so the row's number in the segment is the number of texts before it.
    let texts_before = (1..=text_offset / text_len)
        .take_while(|&distance| bytes[text_offset - text_len * distance..].starts_with(&text.as_bytes()[..4]))
        .count();
    let offsets = [texts_before, texts_before + 1].map(|row| ((text_len * row) as u32).to_le_bytes()).concat();
    let offsets_place = bytes.windows(8).rposition(|window| window == offsets).unwrap();
    bytes[offsets_place + 7] = 0x7f;
    fs::write(segment, bytes).unwrap();
}

/// Damages only this text: it gets a byte that is not UTF-8.
fn damage_utf8(segment: &Path, text: &str) {
    let mut bytes = fs::read(segment).unwrap();
    let text_offset = find_text(&bytes, text);
    bytes[text_offset + 4] = 0xff;
    fs::write(segment, bytes).unwrap();
}

/// Damages the magic at the end of a file, which costs no row.
fn damage_last_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Repairs a table, and checks that it is good then.
fn repair_table(table: &Path) -> RepairReport {
    let report = repair(table, |_, _| ()).unwrap();
    assert!(check(table, |_, _| ()).unwrap().is_good());
    assert_eq!(open(table).unwrap().len().unwrap(), report.rows);
    report.repaired.unwrap()
}

/// Checks that damage to rows which were not synced is noted, as they may be lost with the page cache instead, and that the
/// durable rows are there.
fn assert_is_noted_as_lost_or_damaged(table: &Path, durable_rows: u64) {
    let report = check(table, |_, _| ()).unwrap();
    let is_noted =
        report.findings.iter().any(|finding| finding.message.contains("lost with the page cache, or damaged"));
    assert!(report.is_good() && is_noted, "{report:?}");
    let kept = open(table).unwrap().len().unwrap();
    assert!(kept >= durable_rows, "{kept} rows");
    assert_rows(table, kept);
}

fn read_text(table: &Path, row: u64) -> String {
    open(table).unwrap().row(row).unwrap().get(1).unwrap().to_string()
}

#[track_caller]
fn assert_rows(table: &Path, count: u64) {
    assert_eq!(open(table).unwrap().len().unwrap(), count);
    for row in 0..count {
        assert_eq!(read_text(table, row), text_of(row));
    }
}

#[test]
fn segments_behind_damage_without_lost_rows_stay() {
    let (_folder, table) = create_table(120);
    for first_row in [0, 50] {
        damage_last_byte(&segment_path(&table, first_row));
        let repaired = repair_table(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (120, Some(0), 1));
    }
    assert_rows(&table, 120);
    open_writer(&table, SEGMENT_ROWS).append(&rows(120, 130)).unwrap();
}

/// Text that is not UTF-8 used to cost the rows behind it, and all later segments.
#[test]
fn text_that_is_not_utf8_costs_no_other_row() {
    if are_mount_ids_off() {
        return; // See `create_table`.
    }
    for is_dense in [false, true] {
        let (_folder, table) = create_table(120);
        if is_dense {
            compact(&table, |_, _| ()).unwrap();
        }
        for (segment, row) in [(0, 20), (0, 30), (50, 99), (100, 119)] {
            damage_utf8(&segment_path(&table, segment), &text_of(row));
        }
        let repaired = repair_table(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (120, Some(0), 3));
        for row in 0..120 {
            let first_digit = if [20, 30, 99, 119].contains(&row) { "?" } else { "0" };
            assert_eq!(read_text(&table, row), format!("row-{first_digit}{row:05}"));
        }
        let mut writer = open_writer(&table, SEGMENT_ROWS);
        writer.append(&rows(120, 130)).unwrap();
        writer.close().unwrap();
        assert!(check(&table, |_, _| ()).unwrap().is_good());
    }
}

/// Creates a table of 160 rows as an interrupted compaction leaves it: the segment of row 0 has the rows of the segments 50
/// and 100 too, which are still there. Row 150 begins the growing segment.
fn create_interrupted_merge() -> (TempDir, PathBuf) {
    let (folder, table) = create_table(75);
    let mut small_writer = open_writer(&table, SEGMENT_ROWS);
    small_writer.append(&rows(75, 150)).unwrap();
    small_writer.close().unwrap();
    let mut merging_writer = open_writer(&table, 1000);
    merging_writer.append(&rows(150, 160)).unwrap();
    merging_writer.commit().unwrap();
    let leftovers = [50, 100].map(|first_row| {
        let path = segment_path(&table, first_row);
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    });
    merging_writer.compact(|_, _| ()).unwrap();
    merging_writer.close().unwrap();
    for (path, bytes) in leftovers {
        assert!(!path.exists());
        fs::write(path, bytes).unwrap();
    }
    assert_rows(&table, 160);
    (folder, table)
}

/// The replacement of a damaged leftover hid rows of the merged segment, and the next merge took the merged segment's rows
/// for rows appended since.
#[test]
fn damaged_leftovers_of_a_merge_cost_no_row() {
    for leftover in [50, 100] {
        let (_folder, table) = create_interrupted_merge();
        damage_offset(&segment_path(&table, leftover), &text_of(leftover + 20));
        let repaired = repair_table(&table);
        assert_eq!((repaired.kept, repaired.given_up), (160, Some(0)));
        let mut writer = open_writer(&table, 25);
        writer.append(&rows(160, 260)).unwrap();
        writer.close().unwrap();
        compact(&table, |_, _| ()).unwrap();
        assert_rows(&table, 260);
    }
}

#[test]
fn rows_of_a_damaged_merged_segment_are_taken_from_leftovers() {
    for damaged_row in [70, 120] {
        let (_folder, table) = create_interrupted_merge();
        damage_offset(&segment_path(&table, 0), &text_of(damaged_row));
        let repaired = repair_table(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (160, Some(0), 1));
        compact(&table, |_, _| ()).unwrap();
        assert_rows(&table, 160);
    }
    // No leftover has this row.
    let (_folder, table) = create_interrupted_merge();
    damage_offset(&segment_path(&table, 0), &text_of(20));
    assert_eq!(repair_table(&table).kept, 20);
}

/// A segment within the rows of a merged one that does not begin where one of the merged segments did is no leftover.
#[test]
fn compact_keeps_segments_that_are_no_leftovers() {
    let (_folder, table) = create_interrupted_merge();
    fs::rename(segment_path(&table, 100), segment_path(&table, 110)).unwrap();
    assert!(compact(&table, |_, _| ()).is_err());
    assert!(segment_path(&table, 50).exists() && segment_path(&table, 110).exists());
}

#[test]
fn repair_makes_rows_before_the_damage_durable() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = open_writer(&table, SEGMENT_ROWS);
    writer.append(&rows(0, 60)).unwrap();
    writer.commit().unwrap();
    // The first segment and ten rows of the second one are durable before the repair.
    writer.sync().unwrap();
    writer.append(&rows(60, 120)).unwrap();
    writer.commit().unwrap();
    drop(writer);
    damage_offset(&segment_path(&table, 100), &text_of(110));
    if are_mount_ids_off() {
        assert_is_noted_as_lost_or_damaged(&table, 60);
        return;
    }
    assert_eq!(repair_table(&table).kept, 110);
    simulate_boot(Some([7; 16]));
    assert_rows(&table, 110);
    simulate_boot(None);
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

fn find_header(bytes: &[u8]) -> usize {
    (0..).step_by(PAGE).find(|&offset| &bytes[offset..offset + 8] == b"ArrwWood").unwrap()
}

/// Returns the offset of the live page, which begins with the number of the newest commit.
fn find_live_page(bytes: &[u8]) -> usize {
    read_u64(bytes, find_header(bytes) + 40) as usize
}

/// Returns the offset of the second durable record.
fn find_second_durable_record(bytes: &[u8]) -> usize {
    let record_size = read_u64(bytes, find_header(bytes) + 48) as usize;
    find_live_page(bytes) + PAGE + 3 * record_size
}

/// Undoes the last store of the newest commit, which makes it visible.
fn hide_newest_commit(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    let live = find_live_page(&bytes);
    let previous = read_u64(&bytes, live) - 1;
    bytes[live..live + 8].copy_from_slice(&previous.to_le_bytes());
    fs::write(segment, bytes).unwrap();
}

/// A writer was killed before a commit that spans segments was visible. The repair kept only the rows in the first segment.
#[test]
fn prepared_commit_is_kept_as_a_whole_or_not_at_all() {
    struct Case {
        has_second_segment: bool,
        /// False if the first segment is damaged such that nothing may be written into it.
        is_writable: bool,
    }
    if are_mount_ids_off() {
        // No commit counts as prepared then: its segments may be lost with the page cache.
        return;
    }
    for case in [
        Case { has_second_segment: true, is_writable: true },
        Case { has_second_segment: false, is_writable: true },
        Case { has_second_segment: true, is_writable: false },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let first_segment = segment_path(&table, 0);
        let mut writer = open_writer(&table, SEGMENT_ROWS);
        writer.append(&rows(0, 10)).unwrap();
        writer.commit().unwrap();
        writer.append(&rows(10, 70)).unwrap();
        writer.commit().unwrap();
        drop(writer);
        hide_newest_commit(&first_segment);
        // The second segment has not got its name yet.
        let unnamed_segment = folder.path().join(format!(".t.{:020}.next", 50));
        fs::rename(segment_path(&table, 50), &unnamed_segment).unwrap();
        if !case.has_second_segment {
            fs::remove_file(&unnamed_segment).unwrap();
        }
        assert!(check(&table, |_, _| ()).unwrap().is_good());
        if case.is_writable {
            let mut bytes = fs::read(&first_segment).unwrap();
            let record = find_second_durable_record(&bytes);
            bytes[record] = 1;
            fs::write(&first_segment, &bytes).unwrap();
        } else {
            damage_last_byte(&first_segment);
        }

        let kept = if case.has_second_segment && case.is_writable { 70 } else { 10 };
        assert_eq!(repair_table(&table).kept, kept);
        assert_rows(&table, kept);
        assert_eq!(open_writer(&table, SEGMENT_ROWS).rows(), kept);
        assert!(!unnamed_segment.exists());
    }
}

/// A writer killed between the record of a commit and its number was reported as damage, and the repair added the rows and
/// dropped the positions.
#[test]
fn record_of_an_invisible_commit_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let segment = segment_path(&table, 0);
    let mut writer = open_writer(&table, SEGMENT_ROWS);
    writer.append(&rows(0, 10)).unwrap();
    writer.commit_with(&[("p", 10)]).unwrap();
    writer.sync().unwrap();
    writer.append(&rows(10, 20)).unwrap();
    let mut killed_bytes = fs::read(&segment).unwrap();
    writer.commit_with(&[("p", 20)]).unwrap();
    // Copies the rows and the record of the commit, but neither its number nor its footer.
    let committed_bytes = fs::read(&segment).unwrap();
    let records = find_live_page(&committed_bytes) + PAGE;
    let tail = committed_bytes.len() - 10;
    killed_bytes[records..tail].copy_from_slice(&committed_bytes[records..tail]);
    drop(writer);
    fs::write(&segment, &killed_bytes).unwrap();

    let report = check(&table, |_, _| ()).unwrap();
    let is_note = |finding: &Finding| finding.message.contains("whose record of 20 rows is whole, got");
    assert!(report.is_good() && report.findings.iter().any(is_note), "{report:?}");
    assert_eq!(repair(&table, |_, _| ()).unwrap().repaired, None);
    assert_eq!(open(&table).unwrap().positions().unwrap()["p"], 10);
    // Damage elsewhere must not make the commit visible either.
    damage_last_byte(&segment);
    assert_eq!(repair_table(&table).kept, 10);
}

/// Footers show only committed rows, so a footer that is ahead of the number proves that the number was changed. Without
/// it, a killed writer could have left this number.
#[test]
fn commit_number_behind_the_footer_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = open_writer(&table, SEGMENT_ROWS);
    for start in [0, 10] {
        writer.append(&rows(start, start + 10)).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    hide_newest_commit(&segment_path(&table, 0));
    assert!(!check(&table, |_, _| ()).unwrap().is_good());
    assert_eq!(repair_table(&table).kept, 20);
    assert_rows(&table, 20);
}

/// An interrupted repair had given the damaged segment its second name, and there is damage before it now. Moving it by a
/// rename would do nothing, as both names are of the same file.
#[test]
fn segment_linked_by_an_interrupted_repair_is_moved() {
    if are_mount_ids_off() {
        return; // See `create_table`.
    }
    let (folder, table) = create_table(150);
    damage_offset(&segment_path(&table, 100), &text_of(110));
    let aside = folder.path().join("t.damaged");
    fs::create_dir(&aside).unwrap();
    fs::hard_link(segment_path(&table, 100), segment_path(&aside, 100)).unwrap();
    damage_offset(&segment_path(&table, 50), &text_of(60));
    assert_eq!(repair_table(&table).kept, 60);
    assert_rows(&table, 60);
    assert!(segment_path(&aside, 100).exists());
}

fn part_paths(folder: &Path, name: &str) -> Vec<PathBuf> {
    (0..50).map(|number| folder.join(format!(".{name}.{}.{number}.part", std::process::id()))).collect()
}

/// A killed process may have had our process id, as in a container where it is always the same.
#[test]
fn incomplete_files_of_a_process_with_our_id_do_not_stop_a_repair() {
    if are_mount_ids_off() {
        return; // See `create_table`.
    }
    let (folder, table) = create_table(40);
    damage_offset(&segment_path(&table, 0), &text_of(20));
    let table_parts = part_paths(folder.path(), "t");
    table_parts.iter().for_each(|part| fs::write(part, "").unwrap());
    assert_eq!(repair_table(&table).kept, 20);
    assert!(table_parts.iter().all(|part| !part.exists()));

    // A file has no lock, so nothing shows that these files are abandoned.
    let file = folder.path().join("x.arrow");
    fs::copy(segment_path(&table, 0), &file).unwrap();
    damage_offset(&file, &text_of(10));
    let file_parts = part_paths(folder.path(), "x.arrow");
    file_parts.iter().for_each(|part| fs::write(part, "").unwrap());
    assert_eq!(repair_table(&file).kept, 0);
    assert!(file_parts.iter().all(|part| part.exists()));
}

/// The log has a copy of each small durable commit, with a checksum.
#[test]
fn damaged_rows_are_restored_from_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let segment = segment_path(&table, 0);
    let mut writer = open_writer(&table, SEGMENT_ROWS);
    for start in [0, 10, 20, 30] {
        writer.append(&rows(start, start + 10)).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    damage_offset(&segment, &text_of(25));
    if are_mount_ids_off() {
        // The bytes may be lost with the page cache. Readers take those of the log.
        assert!(check(&table, |_, _| ()).unwrap().is_good());
        assert_rows(&table, 40);
        return;
    }
    let damaged_bytes = fs::read(&segment).unwrap();
    assert_eq!(repair_table(&table).kept, 40);
    assert_rows(&table, 40);
    assert_eq!(fs::read(segment_path(&folder.path().join("t.damaged"), 0)).unwrap(), damaged_bytes);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn replacements_have_the_permissions_of_what_they_replace() {
    if are_mount_ids_off() {
        return; // See `create_table`.
    }
    // A repair that keeps rows writes a dense segment; one that keeps none creates a growing segment.
    for damaged_row in [20, 0] {
        let (folder, table) = create_table(40);
        set_mode(&segment_path(&table, 0), 0o600);
        set_mode(&table, 0o750);
        damage_offset(&segment_path(&table, 0), &text_of(damaged_row));
        assert_eq!(repair_table(&table).kept, damaged_row);
        assert_eq!(mode_of(&segment_path(&table, 0)), 0o600);
        assert_eq!(mode_of(&folder.path().join("t.damaged")), 0o750);
    }

    let (folder, table) = create_table(40);
    set_mode(&segment_path(&table, 0), 0o600);
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(mode_of(&segment_path(&table, 0)), 0o600);

    let file = folder.path().join("x.arrow");
    let batches = [0, 10].map(|start| rows(start, start + 10)).to_vec();
    write(&Dataset::try_from(batches).unwrap(), &file, &WriteOptions::default()).unwrap();
    set_mode(&file, 0o600);
    damage_offset(&file, &text_of(15));
    assert_eq!(repair_table(&file).kept, 10);
    assert_eq!(mode_of(&file), 0o600);
}
