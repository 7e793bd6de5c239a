//! Tests of tables whose last commits were written in an earlier boot of the machine, or through another mount.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrowwood::simulate::{simulate_boot, simulate_mount};
use arrowwood::{Value, Writer, WriterOptions, check, follow, open, parse_schema, table_stat};

use crate::tables::{copy_table, read_numbers};
use crate::wait::PATIENCE;

/// The id of the simulated boot after the one in which a table was written.
const NEXT_BOOT: [u8; 16] = [9; 16];

/// The distance between the live page and the visible records, and between two records.
const PAGE: usize = 4096;

fn open_writer(table: &Path) -> Writer {
    let schema = Arc::new(parse_schema("n: int64").unwrap());
    Writer::open(table, Some(schema), &WriterOptions::default()).unwrap()
}

/// Writes one row for each number, and commits each.
fn commit_rows(writer: &mut Writer, numbers: Range<i64>) {
    for number in numbers {
        writer.append_row(&[Value::Int(number)]).unwrap();
        writer.commit().unwrap();
    }
}

/// Writes five rows: three in a durable record, and two in a log entry each.
fn commit_record_and_log(writer: &mut Writer) {
    for numbers in [0..3, 3..4, 4..5] {
        commit_rows(writer, numbers);
        writer.sync().unwrap();
    }
}

/// Creates a table of five rows, three of which are durable, as a killed writer leaves it. The rows are written through
/// mount 1, which stays the simulated mount.
fn create_table_of_killed_writer(folder: &Path) -> PathBuf {
    let original = folder.join("original");
    simulate_mount(Some(1));
    let mut writer = open_writer(&original);
    commit_rows(&mut writer, 0..3);
    writer.sync().unwrap();
    commit_rows(&mut writer, 3..5);
    let copy = folder.join("copy");
    copy_table(&original, &copy);
    copy
}

/// The bytes of a table's first segment.
struct Segment {
    bytes: Vec<u8>,
    path: PathBuf,
}

/// The ways in which tests make a commit record incomplete.
#[derive(Clone, Copy)]
enum RecordDamage {
    /// The beginning is zero, as if a writer had erased it.
    Erased,
    /// The checksum is wrong, as if the record had been overwritten in part.
    Torn,
}

impl Segment {
    fn read(table: &Path) -> Segment {
        let path = table.join(format!("{:020}.arrow", 0));
        Segment { bytes: std::fs::read(&path).unwrap(), path }
    }

    fn live_page_offset(&self) -> usize {
        let header = self.bytes.windows(8).position(|window| window == b"ArrwWood").unwrap();
        u64::from_le_bytes(self.bytes[header + 40..][..8].try_into().unwrap()) as usize
    }

    /// Returns the number of the newest visible commit.
    fn sequence(&self) -> u64 {
        u64::from_le_bytes(self.bytes[self.live_page_offset()..][..8].try_into().unwrap())
    }

    fn write_sequence(mut self, sequence: u64) {
        let live = self.live_page_offset();
        self.bytes[live..live + 8].copy_from_slice(&sequence.to_le_bytes());
        std::fs::write(&self.path, &self.bytes).unwrap();
    }

    /// Overwrites adjacent numbers of the column with zeros, in the log, too.
    fn clear_numbers(mut self, numbers: Range<i64>) {
        let stored: Vec<u8> = numbers.flat_map(i64::to_le_bytes).collect();
        let find = |bytes: &[u8]| bytes.windows(stored.len()).position(|window| window == stored);
        assert!(find(&self.bytes).is_some());
        while let Some(offset) = find(&self.bytes) {
            self.bytes[offset..][..stored.len()].fill(0);
        }
        std::fs::write(&self.path, &self.bytes).unwrap();
    }

    /// Makes both visible records incomplete.
    fn damage_visible_records(mut self, damage: RecordDamage) {
        let newest = self.sequence();
        for number in [newest, newest - 1] {
            let record = self.live_page_offset() + PAGE + (number & 1) as usize * PAGE;
            assert_eq!(self.bytes[record..][..8], number.to_le_bytes());
            match damage {
                RecordDamage::Erased => self.bytes[record..][..64].fill(0),
                RecordDamage::Torn => self.bytes[record + 8] ^= 1,
            }
        }
        std::fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// A recovered commit has a larger number than the live page if the durable record has. Followers took that for a newer
/// commit at each poll, and never slept.
#[test]
fn table_of_an_earlier_boot_is_newest_until_it_is_written() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let closed_table = folder.path().join("closed");
    let mut closed_writer = open_writer(&closed_table);
    commit_rows(&mut closed_writer, 0..5);
    closed_writer.close().unwrap();
    // Five durable rows and one that the boot loses. The writer stays open, as if it had been killed.
    let original = folder.path().join("original");
    let mut killed_writer = open_writer(&original);
    commit_rows(&mut killed_writer, 0..5);
    killed_writer.sync().unwrap();
    commit_rows(&mut killed_writer, 5..6);
    let killed_table = folder.path().join("killed");
    copy_table(&original, &killed_table);

    simulate_boot(Some(NEXT_BOOT));
    for table in [closed_table, killed_table] {
        let dataset = open(&table).unwrap();
        assert!(dataset.len().unwrap() == 5 && dataset.is_newest(), "{table:?}");
        let mut follower = follow(&dataset, None, None).unwrap();
        assert!(follower.poll(Duration::from_millis(5)).unwrap().is_none());

        let mut writer = open_writer(&table);
        commit_rows(&mut writer, 5..7);
        assert!(!dataset.is_newest());
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 7);
        assert!(dataset.refresh().unwrap().is_newest());
        let new_rows = follower.poll(PATIENCE).unwrap().unwrap();
        assert_eq!(new_rows.column("n").unwrap().get(0).unwrap().to_string(), "5");
    }
    simulate_boot(None);
}

/// A reader copies rows of the log to private pages, which miss later stores. Commits of the new boot were compared with
/// their proofs on these pages, so a refresh through another mount than the writer's never found one.
#[test]
fn refresh_through_another_mount_finds_commits_of_a_new_boot_behind_a_log() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    let mut first_writer = open_writer(&original);
    commit_record_and_log(&mut first_writer);
    let table = folder.path().join("copy");
    copy_table(&original, &table);

    simulate_boot(Some(NEXT_BOOT));
    let (readers_mount, writers_mount) = (Some(1), Some(2));
    simulate_mount(readers_mount);
    let dataset = open(&table).unwrap();
    assert_eq!(read_numbers(&dataset), (0..5).collect::<Vec<_>>());
    simulate_mount(writers_mount);
    let mut second_writer = open_writer(&table);
    commit_rows(&mut second_writer, 5..7);
    simulate_mount(readers_mount);
    let refreshed = dataset.refresh().unwrap();
    assert_eq!(read_numbers(&refreshed), (0..7).collect::<Vec<_>>());
    simulate_mount(writers_mount);
    commit_rows(&mut second_writer, 7..8);
    simulate_mount(readers_mount);
    assert_eq!(read_numbers(&refreshed.refresh().unwrap()), (0..8).collect::<Vec<_>>());
    assert_eq!(read_numbers(&dataset), (0..5).collect::<Vec<_>>());
    simulate_mount(None);
    simulate_boot(None);
}

/// A volume that lost its page cache may have the number of a commit without its record, as after a crash. A check
/// reported that as damage, and a repair moved the segment away.
#[test]
fn lost_record_is_no_damage_where_proofs_verify_rows() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = create_table_of_killed_writer(folder.path());
    // The records on the disk are older than the sequence.
    let segment = Segment::read(&table);
    let newest = segment.sequence();
    segment.write_sequence(newest + 2);
    for (mount, is_good) in [(1, false), (2, true)] {
        simulate_mount(Some(mount));
        let report = check(&table, |_, _| ()).unwrap();
        assert_eq!(report.is_good(), is_good, "mount {mount}: {report:?}");
        assert_eq!((report.rows, report.findings.len()), (5, 1), "mount {mount}: {report:?}");
    }
    simulate_mount(None);
}

/// A writer erases the records of commits that were lost with the page cache, and may die before its first commit. A check
/// reported that as damage, as the durable record is of this boot, and a repair moved the segment away.
#[test]
fn erased_or_torn_records_are_no_damage_after_a_page_cache_loss() {
    alone!();
    for damage in [RecordDamage::Erased, RecordDamage::Torn] {
        let folder = tempfile::tempdir().unwrap();
        let table = create_table_of_killed_writer(folder.path());
        Segment::read(&table).damage_visible_records(damage);
        simulate_mount(Some(2));
        let report = check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "{report:?}");
        assert_eq!(report.rows, 3, "{report:?}");
        assert_eq!(read_numbers(&open(&table).unwrap()), (0..3).collect::<Vec<_>>());
        simulate_mount(None);
    }
}

/// The first writer after a power cut was killed when the record of its first commit was complete, but not yet selected by
/// the sequence. Readers took this record for a commit of this boot and skipped the log, which the selected commit, of the
/// boot before, needs. The table could not be opened until the next boot.
#[test]
fn log_rows_survive_a_kill_in_the_first_commit_of_a_boot() {
    alone!();
    // Commits after the last sync are lost. With one, the record before the killed commit's belongs to a lost row.
    for lost_rows in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("original");
        let mut first_writer = open_writer(&original);
        commit_record_and_log(&mut first_writer);
        commit_rows(&mut first_writer, 5..5 + lost_rows);
        let after_cut = folder.path().join("after_cut");
        copy_table(&original, &after_cut);

        simulate_boot(Some(NEXT_BOOT));
        let sequence_before = Segment::read(&after_cut).sequence();
        let second_writer = open_writer(&after_cut);
        let after_kill = folder.path().join("after_kill");
        copy_table(&after_cut, &after_kill);
        drop(second_writer);
        let segment = Segment::read(&after_kill);
        assert_eq!(
            segment.sequence(),
            sequence_before + 1,
            "opening a writer commits once, and leaves the record before"
        );
        segment.write_sequence(sequence_before);

        assert_eq!(read_numbers(&open(&after_kill).unwrap()), (0..5).collect::<Vec<_>>());
        assert_eq!(table_stat(&after_kill).unwrap().unwrap().durable_end, 5);
        let report = check(&after_kill, |_, _| ()).unwrap();
        assert!(report.is_good(), "{report:?}");
        // A refresh of this dataset must not read new rows from its private pages with the rows of the log.
        let dataset = open(&after_kill).unwrap();
        let mut third_writer = open_writer(&after_kill);
        assert_eq!((third_writer.rows(), third_writer.dropped_rows()), (5, lost_rows as u64));
        commit_rows(&mut third_writer, 5..7);
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 7);
        assert_eq!(read_numbers(&open(&after_kill).unwrap()), (0..7).collect::<Vec<_>>());
        simulate_boot(None);
    }
}

/// A copy had zeros in place of rows that the original has on the disk. The proof of the newest commit begins behind
/// these rows, so it matched, and readers returned the zeros.
#[test]
fn missing_rows_of_an_incomplete_copy_do_not_count() {
    alone!();
    for (is_closed, later_rows) in [(false, 0), (false, 2), (true, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("original");
        simulate_mount(Some(1));
        let mut writer = open_writer(&original);
        commit_rows(&mut writer, 0..3);
        writer.sync().unwrap();
        commit_rows(&mut writer, 3..3 + later_rows);
        if is_closed {
            writer.close().unwrap();
        }
        let [complete, incomplete] = ["complete", "incomplete"].map(|name| folder.path().join(name));
        copy_table(&original, &complete);
        copy_table(&original, &incomplete);
        Segment::read(&incomplete).clear_numbers(1..3);

        simulate_mount(Some(2));
        let expected_rows: Vec<i64> = (0..3 + later_rows).collect();
        assert_eq!(read_numbers(&open(&complete).unwrap()), expected_rows);
        let case = format!("closed: {is_closed}, {later_rows} later rows");
        assert_eq!(read_numbers(&open(&incomplete).unwrap()), [] as [i64; 0], "{case}");
        assert_eq!(check(&incomplete, |_, _| ()).unwrap().rows, 0, "{case}");
        simulate_mount(None);
    }
}
