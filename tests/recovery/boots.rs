//! Tables of an earlier boot of the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrowwood::simulate::{simulate_boot, simulate_mount};
use arrowwood::{Value, Writer, WriterOptions, check, follow, open, parse_schema, table_stat};

use crate::tables::{copy_table, read_numbers};
use crate::wait::PATIENCE;

fn writer(table: &Path) -> Writer {
    let schema = Arc::new(parse_schema("n: int64").unwrap());
    Writer::open(table, Some(schema), &WriterOptions::default()).unwrap()
}

fn write(writer: &mut Writer, numbers: std::ops::Range<i64>) {
    for number in numbers {
        writer.append_row(&[Value::Int(number)]).unwrap();
        writer.commit().unwrap();
    }
}

/// A table of five rows in `folder`, three of which are durable, as a writer leaves it that is killed. It was written through mount 1,
/// which tests go on to pretend.
fn killed_through_mount_1(folder: &Path) -> PathBuf {
    let written = folder.join("written");
    simulate_mount(Some(1));
    let mut killed = writer(&written);
    write(&mut killed, 0..3);
    killed.sync().unwrap();
    write(&mut killed, 3..5);
    let copied = folder.join("copied");
    copy_table(&written, &copied);
    copied
}

/// How far the live page and the visible records are apart.
const PAGE: usize = 4096;

/// The bytes of a table's first segment.
struct Segment {
    bytes: Vec<u8>,
    path: PathBuf,
}

impl Segment {
    fn of(table: &Path) -> Segment {
        let path = table.join(format!("{:020}.arrow", 0));
        Segment { bytes: std::fs::read(&path).unwrap(), path }
    }

    /// Where the live page begins.
    fn live(&self) -> usize {
        let header = self.bytes.windows(8).position(|window| window == b"ArrwWood").unwrap();
        u64::from_le_bytes(self.bytes[header + 40..][..8].try_into().unwrap()) as usize
    }

    /// The number of the newest visible commit.
    fn sequence(&self) -> u64 {
        u64::from_le_bytes(self.bytes[self.live()..][..8].try_into().unwrap())
    }

    fn set_sequence(mut self, sequence: u64) {
        let live = self.live();
        self.bytes[live..live + 8].copy_from_slice(&sequence.to_le_bytes());
        std::fs::write(&self.path, &self.bytes).unwrap();
    }

    /// Makes both visible records incomplete: erased from their beginnings, or as if written over.
    fn spoil_records(mut self, is_erased: bool) {
        let newest = self.sequence();
        for number in [newest, newest - 1] {
            let record = self.live() + PAGE + (number & 1) as usize * PAGE;
            assert_eq!(self.bytes[record..][..8], number.to_le_bytes());
            match is_erased {
                true => self.bytes[record..][..64].fill(0),
                false => self.bytes[record + 8] ^= 1,
            }
        }
        std::fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// What was recovered has a larger number than the live page says, where the durable record has: a follower took each look for
/// a newer commit, and never slept.
#[test]
fn a_table_of_an_earlier_boot_is_the_newest_until_somebody_writes() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    let mut one = writer(&closed);
    write(&mut one, 0..5);
    one.close().unwrap();
    // Durable rows, and one more that is lost; the writer stays, as if it had been killed.
    let lost = folder.path().join("lost");
    let mut killed = writer(&lost);
    write(&mut killed, 0..5);
    killed.sync().unwrap();
    write(&mut killed, 5..6);
    let copied = folder.path().join("copy");
    copy_table(&lost, &copied);
    simulate_boot(Some([9; 16]));
    for table in [closed, copied] {
        let dataset = open(&table).unwrap();
        assert!(dataset.len().unwrap() == 5 && dataset.is_newest(), "{table:?}");
        let mut follower = follow(&dataset, None, None).unwrap();
        assert!(follower.poll(Duration::from_millis(5)).unwrap().is_none());
        let mut writer = writer(&table);
        write(&mut writer, 5..7);
        assert!(!dataset.is_newest());
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 7);
        assert!(dataset.refresh().unwrap().is_newest());
        let found = follower.poll(PATIENCE).unwrap().unwrap();
        assert_eq!(found.column("n").unwrap().get(0).unwrap().to_string(), "5");
    }
    simulate_boot(None);
}

/// Commits of the new boot were compared with their proof on pages in which a reader has put the bytes of the log, and
/// which miss what is written later: through another mount than the writer's, a refresh never found one.
#[test]
fn commits_of_a_new_boot_are_found_behind_a_log_through_another_mount() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    let mut first = writer(&written);
    // One durable record, and two commits in the log behind it.
    for numbers in [0..3, 3..4, 4..5] {
        write(&mut first, numbers);
        first.sync().unwrap();
    }
    let cut = folder.path().join("cut");
    copy_table(&written, &cut);
    simulate_boot(Some([9; 16]));
    simulate_mount(Some(1));
    let dataset = open(&cut).unwrap();
    assert_eq!(read_numbers(&dataset), (0..5).collect::<Vec<_>>());
    simulate_mount(Some(2));
    let mut second = writer(&cut);
    write(&mut second, 5..7);
    simulate_mount(Some(1));
    let newer = dataset.refresh().unwrap();
    assert_eq!(read_numbers(&newer), (0..7).collect::<Vec<_>>());
    simulate_mount(Some(2));
    write(&mut second, 7..8);
    simulate_mount(Some(1));
    assert_eq!(read_numbers(&newer.refresh().unwrap()), (0..8).collect::<Vec<_>>());
    assert_eq!(read_numbers(&dataset), (0..5).collect::<Vec<_>>());
    simulate_mount(None);
    simulate_boot(None);
}

/// A volume whose page cache was lost may have the number of a commit and not its record, as after a crash. A check took
/// that for damage, and a repair set the segment aside.
#[test]
fn a_lost_record_is_no_damage_where_rows_are_known_by_their_proof() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let copied = killed_through_mount_1(folder.path());
    // The records are those of the commits before.
    let segment = Segment::of(&copied);
    let newest = segment.sequence();
    segment.set_sequence(newest + 2);
    for (mount, is_good) in [(1, false), (2, true)] {
        simulate_mount(Some(mount));
        let report = check(&copied, |_, _| ()).unwrap();
        assert_eq!(report.is_good(), is_good, "mount {mount}: {report:?}");
        assert_eq!((report.rows, report.findings.len()), (5, 1), "mount {mount}: {report:?}");
    }
    simulate_mount(None);
}

/// A writer that goes back behind commits that were lost with the page cache erases their records; it died before its first
/// commit. A check took that for damage, as the durable record is of this boot, and a repair set the segment aside.
#[test]
fn records_that_were_erased_or_lost_with_a_page_cache_are_no_damage() {
    alone!();
    for is_erased in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let copied = killed_through_mount_1(folder.path());
        Segment::of(&copied).spoil_records(is_erased);
        simulate_mount(Some(2));
        let report = check(&copied, |_, _| ()).unwrap();
        assert!(report.is_good(), "{report:?}");
        assert_eq!(report.rows, 3, "{report:?}");
        assert_eq!(read_numbers(&open(&copied).unwrap()), (0..3).collect::<Vec<_>>());
        simulate_mount(None);
    }
}

/// The first writer after a power cut was killed when the record of its first commit was whole and not yet the newest one.
/// That record was taken for a commit of this boot, so the log was not read; the commit that counts was that of the boot
/// before, which needs it. Nobody could open the table until the machine was started again.
#[test]
fn rows_of_the_log_outlive_a_kill_in_the_first_commit_of_a_boot() {
    alone!();
    // Commits behind the last sync are lost, and the commit before the one that was killed is of one of them.
    for lost in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let written = folder.path().join("written");
        let mut first = writer(&written);
        // One durable record, and two commits in the log behind it.
        for numbers in [0..3, 3..4, 4..5] {
            write(&mut first, numbers);
            first.sync().unwrap();
        }
        write(&mut first, 5..5 + lost);
        let cut = folder.path().join("cut");
        copy_table(&written, &cut);
        simulate_boot(Some([9; 16]));
        let before = Segment::of(&cut).sequence();
        let second = writer(&cut);
        let killed = folder.path().join("killed");
        copy_table(&cut, &killed);
        drop(second);
        let segment = Segment::of(&killed);
        assert_eq!(segment.sequence(), before + 1, "the record of the commit before is still there");
        segment.set_sequence(before);
        assert_eq!(read_numbers(&open(&killed).unwrap()), (0..5).collect::<Vec<_>>());
        assert_eq!(table_stat(&killed).unwrap().unwrap().durable_end, 5);
        let report = check(&killed, |_, _| ()).unwrap();
        assert!(report.is_good(), "{report:?}");
        // A dataset of that moment goes on with the writer's commits, without the private pages that have the log's bytes.
        let dataset = open(&killed).unwrap();
        let mut third = writer(&killed);
        assert_eq!((third.rows(), third.dropped_rows()), (5, lost as u64));
        write(&mut third, 5..7);
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 7);
        assert_eq!(read_numbers(&open(&killed).unwrap()), (0..7).collect::<Vec<_>>());
        simulate_boot(None);
    }
}
