//! Tests that footers lost in a crash are written again.
//!
//! A growing segment publishes footers for other Arrow readers without syncs, so the disk may have the word that selects a
//! footer, but not the pages of the footer itself.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::FileReader;
use arrowwood::simulate::{simulate_boot, simulate_mount};
use arrowwood::{Value, Writer, WriterOptions, check, open, parse_schema, repair};

use crate::tables::{copy_table, read_numbers, unsynced};
use crate::wait::wait_until;

/// The mount through which all tables are written.
const WRITERS_MOUNT: u64 = 1;
const OTHER_MOUNT: u64 = 2;
/// The id of the simulated boot after the one in which a table was written.
const NEXT_BOOT: [u8; 16] = [9; 16];

fn open_writer(table: &Path, options: &WriterOptions) -> Writer {
    Writer::open(table, Some(Arc::new(parse_schema("n: int64").unwrap())), options).unwrap()
}

fn commit_rows(writer: &mut Writer, numbers: Range<i64>) {
    for number in numbers {
        writer.append_row(&[Value::Int(number)]).unwrap();
    }
    writer.commit().unwrap();
}

fn list_segments(table: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Counts the rows that arrow-rs finds in a segment; returns `None` if it can't read the file.
fn count_arrow_rs_rows(path: &Path) -> Option<usize> {
    let reader = FileReader::try_new(std::fs::File::open(path).unwrap(), None).ok()?;
    reader.map(|batch| batch.ok().map(|batch| batch.num_rows())).sum()
}

fn count_arrow_rs_rows_by_segment(table: &Path) -> Vec<Option<usize>> {
    list_segments(table).iter().map(|path| count_arrow_rs_rows(path)).collect()
}

/// The pages of a segment that a test loses.
#[derive(Clone, Copy, Debug)]
enum LostPart {
    Footer,
    /// The messages that the footer points to.
    Messages,
    /// The schema that all footers share. No crash loses it, as it is synced before the segment gets its name.
    Schema,
}

/// Clears the published footer of a segment, or what it refers to.
fn clear_part(path: &Path, part: LostPart) {
    let mut bytes = std::fs::read(path).unwrap();
    let header = bytes.windows(8).position(|window| window == b"ArrwWood").unwrap();
    let header_len = read_u32(&bytes, header + 12);
    let (tail, footer_len) = (read_u64(&bytes, header + 72), read_u64(&bytes, header + 80));
    let shared_footers = read_u64(&bytes, header + header_len - 8);
    let footer = tail - read_u32(&bytes, tail);
    let messages = read_u64(&bytes, footer + 40);
    let cleared = match part {
        LostPart::Footer => footer..footer + footer_len,
        LostPart::Messages => messages..messages + 64,
        LostPart::Schema => tail - shared_footers * footer_len..tail,
    };
    bytes[cleared].fill(0);
    std::fs::write(path, bytes).unwrap();
}

fn read_u64(bytes: &[u8], offset: usize) -> usize {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap()) as usize
}

fn read_u32(bytes: &[u8], offset: usize) -> usize {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap()) as usize
}

/// A crash between write-backs can keep the word that selects the newest footer and lose the footer. That was reported as
/// damage, and a repair moved the segment away, sometimes with all rows.
#[test]
fn lost_footer_is_no_damage_after_a_crash_and_is_written_again() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    simulate_mount(Some(WRITERS_MOUNT));
    let mut killed_writer = open_writer(&original, &unsynced(1000));
    let mut case_number = 0;
    for is_durable in [false, true] {
        commit_rows(&mut killed_writer, 0..3);
        if is_durable {
            killed_writer.sync().unwrap();
        }
        let rows = killed_writer.rows() as usize;
        wait_until("the footer of the newest commit", || {
            count_arrow_rs_rows(&list_segments(&original)[0]) == Some(rows)
        });
        for lost_part in [LostPart::Footer, LostPart::Messages] {
            for (boot, mount) in [(None, WRITERS_MOUNT), (None, OTHER_MOUNT), (Some(NEXT_BOOT), WRITERS_MOUNT)] {
                case_number += 1;
                let case = format!("{lost_part:?}, durable: {is_durable}, boot {boot:?}, mount {mount}");
                let copies = [0, 1].map(|copy| folder.path().join(format!("{case_number}-{copy}")));
                for copy in &copies {
                    copy_table(&original, copy);
                    clear_part(&list_segments(copy)[0], lost_part);
                }

                simulate_boot(boot);
                simulate_mount(Some(mount));
                let has_rows = boot.is_none() || is_durable;
                let expected_rows = if has_rows { rows } else { 0 };
                // The writer's page cache has seen no crash: a lost footer must be damage there.
                let is_good = (boot, mount) != (None, WRITERS_MOUNT);
                assert_lost_footer_is_reported(&copies[0], expected_rows, is_good, &case);
                if is_good {
                    assert_repair_restores_footer(&copies[0], expected_rows, &case);
                    assert_writer_restores_footer(&copies[1], expected_rows, &case);
                }
                simulate_boot(None);
                simulate_mount(Some(WRITERS_MOUNT));
            }
        }
    }
    drop(killed_writer);
    simulate_mount(None);
}

fn assert_lost_footer_is_reported(table: &Path, expected_rows: usize, is_good: bool, case: &str) {
    assert_eq!(open(table).unwrap().len().unwrap() as usize, expected_rows, "{case}");
    let report = check(table, |_, _| ()).unwrap();
    assert_eq!(report.rows as usize, expected_rows, "{case}: {report:?}");
    assert_eq!(report.is_good(), is_good, "{case}: {report:?}");
    assert!(!report.findings.is_empty(), "{case}: other readers can't read the file");
}

fn assert_repair_restores_footer(table: &Path, expected_rows: usize, case: &str) {
    let segments = list_segments(table);
    let report = repair(table, |_, _| ()).unwrap();
    assert!(report.is_good() && report.repaired.is_none(), "{case}: {report:?}");
    assert_eq!(list_segments(table), segments, "{case}");
    assert_eq!(count_arrow_rs_rows(&segments[0]), Some(expected_rows), "{case}");
    let report = check(table, |_, _| ()).unwrap();
    assert!(report.findings.is_empty(), "{case}: {report:?}");
    assert_eq!(read_numbers(&open(table).unwrap()).len(), expected_rows, "{case}");
}

fn assert_writer_restores_footer(table: &Path, expected_rows: usize, case: &str) {
    let writer = open_writer(table, &unsynced(1000));
    assert_eq!(writer.rows() as usize, expected_rows, "{case}");
    assert_eq!(count_arrow_rs_rows(&list_segments(table)[0]), Some(expected_rows), "{case}");
    drop(writer);
    let report = check(table, |_, _| ()).unwrap();
    assert!(report.findings.is_empty(), "{case}: {report:?}");
}

/// Sealed segments get their footers back too: their rows are either verified by proofs or durable.
#[test]
fn lost_footers_of_sealed_segments_are_written_again() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let expected_rows = [Some(2), Some(2), Some(1)];
    let mut case_number = 0;
    for is_durable in [false, true] {
        let original = folder.path().join(format!("original-{is_durable}"));
        simulate_mount(Some(WRITERS_MOUNT));
        let mut killed_writer = open_writer(&original, &unsynced(2));
        commit_rows(&mut killed_writer, 0..5);
        if is_durable {
            killed_writer.sync().unwrap();
        }
        wait_until("the footers", || count_arrow_rs_rows_by_segment(&original) == expected_rows);
        // Rows that are not durable don't survive a boot.
        let boots: &[_] = if is_durable { &[None, Some(NEXT_BOOT)] } else { &[None] };
        for &boot in boots {
            case_number += 1;
            let copies = [0, 1].map(|copy| folder.path().join(format!("{case_number}-{copy}")));
            for copy in &copies {
                copy_table(&original, copy);
                for segment in list_segments(copy) {
                    clear_part(&segment, LostPart::Footer);
                }
            }

            simulate_boot(boot);
            simulate_mount(Some(OTHER_MOUNT));
            let report = check(&copies[0], |_, _| ()).unwrap();
            assert!(report.is_good() && report.rows == 5 && report.findings.len() == 3, "{report:?}");
            repair(&copies[0], |_, _| ()).unwrap();
            drop(open_writer(&copies[1], &unsynced(2)));
            for copy in &copies {
                let case = format!("durable: {is_durable}, boot {boot:?}, {copy:?}");
                assert_eq!(count_arrow_rs_rows_by_segment(copy), expected_rows, "{case}");
                let report = check(copy, |_, _| ()).unwrap();
                assert!(report.findings.is_empty(), "{case}: {report:?}");
            }
            simulate_boot(None);
            simulate_mount(Some(WRITERS_MOUNT));
        }
    }
    simulate_mount(None);
}

/// The schema of all footers never changes, so no crash can lose it.
#[test]
fn lost_schema_of_footers_is_damage_even_after_a_crash() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = open_writer(&table, &unsynced(1000));
    commit_rows(&mut writer, 0..3);
    writer.close().unwrap();
    clear_part(&list_segments(&table)[0], LostPart::Schema);
    simulate_boot(Some(NEXT_BOOT));
    let report = check(&table, |_, _| ()).unwrap();
    assert!(!report.is_good() && report.rows == 3, "{report:?}");
    simulate_boot(None);
}
