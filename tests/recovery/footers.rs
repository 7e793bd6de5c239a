//! Footers for other Arrow readers after a crash that came before their pages were on the disk, and after those that point to
//! them were.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::FileReader;
use arrowwood::simulate::{simulate_boot, simulate_mount};
use arrowwood::{Value, Writer, WriterOptions, check, open, parse_schema, repair};

use crate::tables::{copy_table, read_numbers, unsynced};
use crate::wait::wait_until;

fn writer(table: &Path, options: &WriterOptions) -> Writer {
    Writer::open(table, Some(Arc::new(parse_schema("n: int64").unwrap())), options).unwrap()
}

fn write(writer: &mut Writer, numbers: std::ops::Range<i64>) {
    for number in numbers {
        writer.append_row(&[Value::Int(number)]).unwrap();
    }
    writer.commit().unwrap();
}

fn segments(table: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The rows that another Arrow reader finds; `None` where it finds no file.
fn stock_rows(path: &Path) -> Option<usize> {
    let reader = FileReader::try_new(std::fs::File::open(path).unwrap(), None).ok()?;
    reader.map(|batch| batch.ok().map(|batch| batch.num_rows())).sum()
}

/// What was not written to the disk.
#[derive(Clone, Copy, Debug)]
enum Unwritten {
    Footer,
    Messages,
    /// Nothing that a crash may leave: it was there before the segment had a name.
    Schema,
}

/// Puts zeros where the published footer of a segment is, or the messages that it points to.
fn lose(path: &Path, what: Unwritten) {
    let mut bytes = std::fs::read(path).unwrap();
    let header = bytes.windows(8).position(|window| window == b"ArrwWood").unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (tail, size, len) = (word(header + 72), word(header + 80), word(header + 12) as u32 as usize);
    let shared = word(header + len - 8);
    let footer = tail - u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    let messages = word(footer + 40);
    let (at, len) = match what {
        Unwritten::Footer => (footer, size),
        Unwritten::Messages => (messages, 64),
        Unwritten::Schema => (tail - shared * size, shared * size),
    };
    bytes[at..at + len].fill(0);
    std::fs::write(path, bytes).unwrap();
}

/// A crash that came before the page of the newest footer was written back, and behind the store that selects it, was damage,
/// and a repair set the segment aside, with its rows, or without any.
#[test]
fn a_footer_that_a_crash_has_lost_is_no_damage_and_is_written_again() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    simulate_mount(Some(1));
    let mut killed = writer(&written, &unsynced(1000));
    let mut number = 0;
    for is_durable in [false, true] {
        write(&mut killed, 0..3);
        if is_durable {
            killed.sync().unwrap();
        }
        let rows = killed.rows() as usize;
        wait_until("the footer of the newest commit", || stock_rows(&segments(&written)[0]) == Some(rows));
        for what in [Unwritten::Footer, Unwritten::Messages] {
            for (boot, mount) in [(None, 1), (None, 2), (Some([9; 16]), 1)] {
                number += 1;
                let copies = [0, 1].map(|copy| folder.path().join(format!("{number}-{copy}")));
                for copy in &copies {
                    copy_table(&written, copy);
                    lose(&segments(copy)[0], what);
                }
                simulate_boot(boot);
                simulate_mount(Some(mount));
                let case = format!("{what:?}, durable: {is_durable}, boot {boot:?}, mount {mount}");
                let is_there = boot.is_none() || is_durable;
                let expected = if is_there { rows } else { 0 };
                assert_eq!(open(&copies[0]).unwrap().len().unwrap() as usize, expected, "{case}");
                let report = check(&copies[0], |_, _| ()).unwrap();
                assert_eq!(report.rows as usize, expected, "{case}: {report:?}");
                // In the page cache of the writer it can only be damage.
                let is_good = (boot, mount) != (None, 1);
                assert_eq!(report.is_good(), is_good, "{case}: {report:?}");
                assert!(!report.findings.is_empty(), "{case}: other readers find no file");
                if is_good {
                    let before = segments(&copies[0]);
                    let report = repair(&copies[0], |_, _| ()).unwrap();
                    assert!(report.is_good() && report.repaired.is_none(), "{case}: {report:?}");
                    assert_eq!(segments(&copies[0]), before, "{case}");
                    assert_eq!(stock_rows(&before[0]), Some(expected), "{case}");
                    let report = check(&copies[0], |_, _| ()).unwrap();
                    assert!(report.findings.is_empty(), "{case}: {report:?}");
                    assert_eq!(read_numbers(&open(&copies[0]).unwrap()).len(), expected, "{case}");
                    let next = writer(&copies[1], &unsynced(1000));
                    assert_eq!(
                        (next.rows() as usize, stock_rows(&segments(&copies[1])[0])),
                        (expected, Some(expected))
                    );
                    drop(next);
                    let report = check(&copies[1], |_, _| ()).unwrap();
                    assert!(report.findings.is_empty(), "{case}: {report:?}");
                }
                simulate_boot(None);
                simulate_mount(Some(1));
            }
        }
    }
    drop(killed);
    simulate_mount(None);
}

/// The footer of a sealed segment, too, whose rows are known by their proof, or are on the disk.
#[test]
fn footers_of_sealed_segments_that_a_crash_has_lost_are_written_again() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    for is_durable in [false, true] {
        let written = folder.path().join(format!("written-{is_durable}"));
        simulate_mount(Some(1));
        let mut killed = writer(&written, &unsynced(2));
        write(&mut killed, 0..5);
        if is_durable {
            killed.sync().unwrap();
        }
        let rows = |table: &Path| segments(table).iter().map(|path| stock_rows(path)).collect::<Vec<_>>();
        wait_until("the footers", || rows(&written) == [Some(2), Some(2), Some(1)]);
        for boot in [None, Some([9; 16])].into_iter().take(1 + usize::from(is_durable)) {
            number += 1;
            let copies = [0, 1].map(|copy| folder.path().join(format!("{number}-{copy}")));
            for copy in &copies {
                copy_table(&written, copy);
                segments(copy).iter().for_each(|path| lose(path, Unwritten::Footer));
            }
            simulate_boot(boot);
            simulate_mount(Some(2));
            let report = check(&copies[0], |_, _| ()).unwrap();
            assert!(report.is_good() && report.rows == 5 && report.findings.len() == 3, "{report:?}");
            repair(&copies[0], |_, _| ()).unwrap();
            drop(writer(&copies[1], &unsynced(2)));
            for copy in &copies {
                assert_eq!(rows(copy), [Some(2), Some(2), Some(1)], "durable: {is_durable}, boot {boot:?}, {copy:?}");
                let report = check(copy, |_, _| ()).unwrap();
                assert!(report.findings.is_empty(), "durable: {is_durable}, boot {boot:?}, {copy:?}: {report:?}");
            }
            simulate_boot(None);
            simulate_mount(Some(1));
        }
    }
    simulate_mount(None);
}

/// The schema of all footers never changes, so no crash has lost it.
#[test]
fn a_lost_schema_of_footers_is_damage_behind_a_crash() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut killed = writer(&table, &unsynced(1000));
    write(&mut killed, 0..3);
    killed.close().unwrap();
    lose(&segments(&table)[0], Unwritten::Schema);
    simulate_boot(Some([9; 16]));
    let report = check(&table, |_, _| ()).unwrap();
    assert!(!report.is_good() && report.rows == 3, "{report:?}");
    simulate_boot(None);
}
