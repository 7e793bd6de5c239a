//! Minimal runs that reproduce defects found by the random runs of `power.rs`.
//!
//! Random runs with other seeds may miss these defects. Each scenario is cut before each of its operations and after the
//! last. Of the names that the disk may not know yet, each image has at most two, or all but at most two.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::tables::unsynced;

/// Rows per segment of all scenarios.
const SEGMENT_ROWS: u64 = 4;

/// A table and its writer, with segments of four rows that are only synced on demand.
struct Scenario {
    run: Run,
    writer: Option<Writer>,
    /// The disk before the operations that are cut.
    disk: Disk,
    /// The number of power cuts before these operations.
    depth: u32,
}

impl Scenario {
    fn new() -> Scenario {
        Scenario::with_columns(Columns::Id32)
    }

    fn with_columns(columns: Columns) -> Scenario {
        Scenario::with_options(columns, WriterOptions::default())
    }

    fn with_late_rows() -> Scenario {
        let options =
            WriterOptions { sorted_by: Some("id".into()), late: Some(LatePolicy::Accept), ..WriterOptions::default() };
        Scenario::with_options(Columns::Id32, options)
    }

    fn with_options(columns: Columns, options: WriterOptions) -> Scenario {
        let mut scenario = Scenario::without_table(columns, options);
        scenario.open();
        scenario
    }

    fn without_table(columns: Columns, options: WriterOptions) -> Scenario {
        simulate_next_boot();
        let mut run = Run::new(1);
        run.columns = columns;
        run.options = WriterOptions {
            zone_rows: run.options.zone_rows,
            medium: run.options.medium,
            sync: SyncPolicy::Never,
            segment_rows: Some(SEGMENT_ROWS),
            ..options
        };
        run.recorder.track_durable_rows(run.table());
        Scenario { run, writer: None, disk: Disk::default(), depth: 0 }
    }

    fn open(&mut self) {
        self.writer = Some(self.run.open().unwrap());
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    /// Drops the writer without closing it, which leaves the files as a kill does.
    fn kill(&mut self) {
        drop(self.writer.take());
    }

    fn kill_and_reopen(&mut self) {
        self.kill();
        self.open();
    }

    fn apply_recorded_events(&mut self) {
        for event in self.run.recorder.take() {
            self.disk.apply(&event);
        }
    }

    /// Kills the writer, and lets all operations fail after the next `after` ones. Operations so far are not cut.
    fn kill_and_fail_after(&mut self, after: u64) {
        self.kill();
        self.apply_recorded_events();
        self.run.recorder.fail(after, libc::EIO, true);
    }

    /// Appends and commits `rows` rows.
    fn commit(&mut self, rows: u64) {
        let ids = self.run.take_ids(rows);
        self.commit_ids(&ids);
    }

    fn commit_ids(&mut self, ids: &[u64]) {
        let writer = self.writer.as_mut().unwrap();
        writer.append(&batch(self.run.columns, ids)).unwrap();
        self.run.model.pending.extend(ids);
        self.run.commit(writer).unwrap();
    }

    fn sync(&mut self) {
        self.run.sync(self.writer.as_mut().unwrap()).unwrap();
    }

    /// Waits until all rows are durable, as a thread with a durability handle does.
    fn wait_for_durability(&mut self) {
        self.writer().durability().wait().unwrap();
        self.run.mark_durable();
    }

    /// Adds a column with the open writer.
    fn alter(&mut self) {
        let columns = Columns::Changed(self.run.next_id);
        self.run.record_mark();
        assert!(self.writer().alter(&schema(columns)).unwrap());
        self.run.columns = columns;
    }

    /// Adds a column by opening another writer with the new schema.
    fn reopen_with_new_schema(&mut self) {
        self.kill();
        self.run.columns = Columns::Changed(self.run.next_id);
        self.open();
    }

    fn fail_to_sync(&mut self) {
        self.run.recorder.fail_syncs(true);
        self.writer().sync().unwrap_err();
        self.run.recorder.fail_syncs(false);
        // The disk would sync again, but the writer must not claim that the lost pages are durable.
        self.writer().durability().wait().unwrap_err();
        self.assert_durable_end_is_not_ahead();
    }

    /// Kills the writer in the middle of a sync, and opens another one.
    fn kill_in_sync(&mut self) {
        self.run.recorder.kill_in_sync(self.run.table());
        self.writer().sync().unwrap_err();
        self.kill();
        self.run.recorder.restore_killed_files();
        self.assert_durable_end_is_not_ahead();
        self.open();
        assert!(self.writer().durable_rows() <= self.run.model.mark.durable);
    }

    #[track_caller]
    fn assert_durable_end_is_not_ahead(&self) {
        assert!(self.durable_end() <= self.run.model.mark.durable, "{}, {:?}", self.durable_end(), self.run.model.mark);
    }

    /// Returns the number of the row after the last durable one, as readers see it.
    fn durable_end(&self) -> u64 {
        table_stat(self.run.table()).unwrap().unwrap().durable_end
    }

    fn drop_before(&mut self, row: u64) {
        self.run.model.mark.dropped = row;
        self.run.record_mark();
        self.writer().drop_before(row).unwrap();
    }

    fn compact(&mut self) {
        self.writer().compact(|_, _| ()).unwrap();
    }

    /// Kills the writer and compacts the table without one, as the command does.
    fn kill_and_compact(&mut self) {
        self.kill();
        self.run.compact_without_writer().unwrap();
    }

    fn sort_beside_writer(&mut self) {
        self.run.sort(self.writer.as_mut()).unwrap();
    }

    fn kill_and_sort(&mut self) {
        self.kill();
        self.run.sort(None).unwrap();
    }

    fn segment(&self, first_row: u64) -> PathBuf {
        self.run.table().join(format!("{first_row:020}.arrow"))
    }

    /// Simulates a power cut after which the segment is missing, and everything else is on the disk.
    fn cut_without_segment(&mut self, first_row: u64) {
        self.kill();
        let recorder = self.run.recorder.clone();
        let (segment, table) = (self.segment(first_row), self.run.table());
        // Stored pages are written back at some time.
        for entry in table.read_dir().unwrap() {
            let file = entry.unwrap().metadata().unwrap().ino();
            recorder.before_op(FsOp::Sync { file }).unwrap();
            recorder.before_op(FsOp::Synced { file }).unwrap();
        }
        recorder.before_op(FsOp::Remove { path: &segment }).unwrap();
        std::fs::remove_file(&segment).unwrap();
        // Segments of a commit that spans several wait for their names in the parent folder.
        for path in [&table, table.parent().unwrap()] {
            recorder.before_op(FsOp::SyncFolder { path }).unwrap();
            recorder.before_op(FsOp::SyncedFolder { path }).unwrap();
        }
        self.apply_recorded_events();
        assert!(self.disk.is_synced());

        self.run.model.commit_ends.insert(first_row);
        self.run.has_positions = false;
        self.run.model.rows.truncate(first_row as usize);
        self.run.model.mark = Mark { exists: true, durable: first_row, intended: first_row, ..Mark::default() };
        self.depth = 1;
        simulate_next_boot();
    }

    /// Loses unsynced pages at each operation, and checks what is left.
    #[track_caller]
    fn lose_at_each_operation(self) -> Counts {
        let counts = self.lose_at_later_operations();
        assert!(counts.images > 100, "{counts:?}");
        counts
    }

    /// As `lose_at_each_operation`, with fewer images if some operations were applied to the disk before.
    #[track_caller]
    fn lose_at_later_operations(mut self) -> Counts {
        self.kill();
        let folder = std::fs::canonicalize(self.run.folder.path()).unwrap();
        let (events, mut counts) = (self.run.recorder.take(), Counts::default());
        let orders = self.run.model.orders();
        // The page cache comes first, as it needs the boot in which the table was written.
        for loss in [Loss::PageCache, Loss::Power] {
            let expected = self.expected(&folder, &orders, loss);
            let result = check_few_or_most_names(&expected, self.disk.clone(), &events, &mut counts, self.depth);
            result.unwrap_or_else(|e| panic!("{loss:?}: {e}"));
        }
        simulate_boot(None);
        simulate_mount(None);
        assert!(counts.images > 20, "{counts:?}");
        counts
    }

    /// Loses the page cache after the last operation, and again at each operation of the writer that follows. The first
    /// time, the disk has everything, and then the events that `spoil` returns, which stand for what was lost.
    #[track_caller]
    fn lose_twice(mut self, spoil: impl FnOnce(&[Event]) -> Vec<Event>) {
        self.kill();
        let events = self.run.recorder.take();
        for event in events.iter().chain(&spoil(&events)) {
            self.disk.apply(event);
        }
        let folder = std::fs::canonicalize(self.run.folder.path()).unwrap();
        let orders = self.run.model.orders();
        let expected = self.expected(&folder, &orders, Loss::PageCache);
        let (mut dice, mut counts) = (Dice::new(1), Counts::default());
        let image = self.disk.image(Luck::Everything, &mut dice);
        let mark = Mark { committed: 0, ..self.disk.mark };
        let result = expected.check_image(mark, image, NextStep::WriteAndCut, &mut dice, &mut counts, 0);
        result.unwrap_or_else(|e| panic!("{e}"));
        simulate_boot(None);
        simulate_mount(None);
        assert!(counts.cut_twice > 50, "{counts:?}");
    }

    fn expected<'a>(&'a self, recorded_folder: &'a Path, orders: &'a [Vec<u64>], loss: Loss) -> Expected<'a> {
        Expected {
            columns: self.run.columns,
            orders,
            commit_ends: self.run.model.commit_ends.clone(),
            has_positions: self.run.has_positions,
            options: &self.run.options,
            recorded_folder,
            loss,
            checked: RefCell::default(),
        }
    }
}

/// Loses unsynced pages before each of the events and after the last, with few or most of the unsynced names.
fn check_few_or_most_names(
    expected: &Expected<'_>,
    mut disk: Disk,
    events: &[Event],
    counts: &mut Counts,
    depth: u32,
) -> Result<(), String> {
    let mut dice = Dice::new(1);
    for number in 0..=events.len() {
        let event = events.get(number);
        // Between stores nothing is cut: the images of the next cut include the earlier states of pages.
        if !matches!(event, Some(Event::Put(..) | Event::Mark(_))) && !disk.is_synced() {
            expected.loss.simulate();
            let cut = format!("cut {number} of {}", events.len());
            for luck in Luck::ALL {
                let result = expected.check_disk(&disk, luck, &mut dice, counts, 1);
                result.map_err(|e| format!("{cut}, {luck:?}: {e}"))?;
            }
            let mark = Mark { committed: 0, ..disk.mark };
            for names in few_or_most(disk.namings()) {
                for luck in [Luck::Nothing, Luck::Everything] {
                    let image = disk.image_with(&names, luck, &mut dice);
                    let result = expected.check_image(mark, image, NextStep::Write, &mut dice, counts, depth);
                    result.map_err(|e| format!("{cut}, {luck:?}: names {names:?}: {e}"))?;
                }
            }
        }
        if let Some(event) = event {
            disk.apply(event);
        }
    }
    Ok(())
}

/// Returns the subsets of `0..count` that have at most two elements, or all but at most two.
fn few_or_most(count: usize) -> BTreeSet<BTreeSet<usize>> {
    let mut subsets = BTreeSet::new();
    // `count` itself stands for no element.
    for first in 0..=count {
        for second in first..=count {
            let few: BTreeSet<usize> = [first, second].into_iter().filter(|&number| number < count).collect();
            let most = (0..count).filter(|number| !few.contains(number)).collect();
            subsets.extend([few, most]);
        }
    }
    subsets
}

/// After a failed sync, the system took the pages for written and did not write them again. The durable record among them
/// made the next writer report its rows as durable, and a power cut lost them. Now the segment stores that a sync failed
/// (`unsynced`, in its live page), and a writer that opens it in the same boot writes its rows again.
#[test]
fn rows_of_a_sync_that_failed_are_not_durable() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(1);
    scenario.sync();
    scenario.commit(2);
    scenario.fail_to_sync();
    scenario.kill_and_reopen();
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// A writer was killed after it had written a durable record or an entry of the log, and before its sync ended. The next
/// writer found it in the page cache, took it for durable, and answered a sync without doing anything; a power cut lost the
/// rows. Followers of durable rows got them before their sync, too. Now the segment stores what is being synced
/// (`unsynced`).
#[test]
fn rows_of_a_sync_whose_writer_was_killed_are_not_durable() {
    alone!();
    // The first sync writes a record, the second one an entry of the log, and a sync of many rows a record again.
    for commits in [&[3][..], &[1, 1], &[1, 1, 1], &[1, 9], &[4, 1], &[3, 6, 1]] {
        let mut scenario = Scenario::new();
        let (last_rows, synced_commits) = commits.split_last().unwrap();
        for &rows in synced_commits {
            scenario.commit(rows);
            scenario.sync();
        }
        scenario.commit(*last_rows);
        scenario.kill_in_sync();
        scenario.sync();
        scenario.lose_at_later_operations();
    }
}

/// After a kill, the next writer did not count the rows that it found as its own commits, so a wait for durable rows
/// returned at once, and a power cut lost them. Now they count as a commit that is not durable yet.
#[test]
fn durability_wait_includes_rows_of_a_killed_writer() {
    alone!();
    for rows in [2, 9] {
        let mut scenario = Scenario::new();
        scenario.commit(1);
        scenario.sync();
        scenario.commit(rows);
        scenario.kill_and_reopen();
        scenario.wait_for_durability();
        scenario.lose_at_each_operation();
    }
}

/// As `rows_of_a_sync_that_failed_are_not_durable`, with a full segment. The next writer looked for sealed segments that
/// were not durable from the last one back, and stopped at one whose record claimed durability. The rows after it became
/// durable without the rows in it, and a power cut lost both.
#[test]
fn a_full_segment_whose_sync_failed_is_not_durable() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    scenario.commit(6);
    scenario.fail_to_sync();
    scenario.kill_and_reopen();
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// All rows of a segment were durable when the next commit sealed it and the writer died. The next writer took the segment
/// for durable because of its rows. But its seal was lost in a power cut, so the segment had no end, and durable rows after
/// it did not count. Now a segment is durable when its rows and its seal are.
#[test]
fn a_seal_is_durable_before_rows_behind_it() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(4);
    scenario.sync();
    scenario.commit(1);
    scenario.kill_and_reopen();
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// A sync wrote the rows of segments before their names. A power cut in between kept the name of the last segment and lost
/// one in the middle. The last one was durable, and the durable one before it reached up to it, so it was accepted, and the
/// table had a gap that no reader could pass. Now names are synced first.
#[test]
fn names_are_durable_before_rows() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    assert_eq!(scenario.durable_end(), 3);
    scenario.commit(12);
    assert_eq!(scenario.durable_end(), 3);
    scenario.sync();
    assert_eq!(scenario.durable_end(), 15);
    scenario.lose_at_each_operation();
}

/// Several old segments were removed before the folder was synced once. After a power cut, the second one was gone and the
/// first one was back. Now each removal is synced before the next one.
#[test]
fn removals_reach_the_disk_one_after_the_other() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(14);
    scenario.sync();
    scenario.drop_before(14);
    scenario.lose_at_each_operation();
}

/// A segment was removed before the next one, or even its name, was durable. After a power cut there was neither, and so no
/// table. Now all remaining segments are synced before one is removed.
#[test]
fn remaining_segments_are_durable_before_old_ones_are_removed() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(2);
    scenario.sync();
    scenario.commit(4);
    scenario.drop_before(4);
    scenario.lose_at_each_operation();
}

/// Segments were compacted before their rows were durable. A dense file is an ordinary Arrow file, which counts after a
/// power cut, while the segment before it had lost its rows. Now everything is synced before anything is made dense.
#[test]
fn rows_are_durable_before_segments_are_made_dense() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    scenario.commit(10);
    scenario.compact();
    scenario.commit(3);
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// `compact` after a writer killed before its sync wrote the rows to the disk, but not the names of the segments. A power
/// cut kept the last, durable one and lost one in the middle. Now names are synced first here, too.
#[test]
fn rows_of_a_dead_writer_are_durable_before_segments_are_made_dense() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    scenario.commit(12);
    scenario.kill_and_compact();
    scenario.lose_at_each_operation();
}

/// The next writer after a full compaction filled a segment and began another. A power cut kept the name of the second new
/// segment and lost the first. The second was accepted because the segment before it was dense. Now a dense segment must
/// reach up to the next one, as any other segment must.
#[test]
fn a_dense_segment_reaches_up_to_the_next() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(6);
    scenario.sync();
    scenario.kill_and_compact();
    scenario.open();
    scenario.commit(9);
    scenario.lose_at_each_operation();
}

/// When rows were synced before names, a power cut lost a segment in the middle. The next writer removed the one after it
/// and wrote other rows up to its first row. After a second cut, the removed one was back, durable, and so valid, with old
/// rows. Now the removal is synced before anything is written, and names are synced before rows.
#[test]
fn a_segment_that_was_given_up_does_not_come_back() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(10);
    scenario.sync();
    scenario.cut_without_segment(4);
    scenario.open();
    assert!(!scenario.segment(8).exists());
    scenario.commit(6);
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// A cut in a sync left the durable record on the disk, but not all of its rows. The next writer appended equal rows, and a
/// power cut before their commit made the old record valid again: lost rows came back, and only a part of their commit.
/// Now such a record is erased before anything else is written.
#[test]
fn rows_that_were_given_up_do_not_come_back_with_equal_ones() {
    alone!();
    simulate_next_boot();
    let folder = folder_in_memory();
    let table = folder.path().join("ticks");
    let options = unsynced(SEGMENT_ROWS);
    for ids in [&[1, 2][..], &[1_000_001, 1_000_002, 5]] {
        let mut writer = Writer::open(&table, Some(schema(Columns::Id32)), &options).unwrap();
        writer.append(&batch(Columns::Id32, ids)).unwrap();
        writer.close().unwrap();
    }
    assert_eq!(count_rows(&table), 5);

    // The disk has the record of the second commit, but lacks a row and the next segment.
    let first_segment = table.join(format!("{:020}.arrow", 0));
    std::fs::remove_file(table.join(format!("{:020}.arrow", 4))).unwrap();
    let mut bytes = std::fs::read(&first_segment).unwrap();
    let row_offset = bytes.windows(4).position(|window| window == 1_000_001u32.to_le_bytes()).unwrap();
    bytes[row_offset..row_offset + 4].fill(0);
    std::fs::write(&first_segment, &bytes).unwrap();
    simulate_next_boot();
    assert_eq!(count_rows(&table), 2);

    let mut writer = Writer::open(&table, None, &options).unwrap();
    writer.append(&batch(Columns::Id32, &[1_000_001, 1_000_002])).unwrap();
    drop(writer);
    simulate_next_boot();
    assert_eq!(count_rows(&table), 2);
    simulate_boot(None);
}

fn count_rows(table: &Path) -> u64 {
    open(table).unwrap().len().unwrap()
}

/// Found by review: one of the ways to create a segment did not sync it before it got its name, so a power cut could leave
/// a file of zeros. Where a larger segment replaces an empty one, this is the whole table. Now every segment is synced
/// where it is created. A row that is too long for a first segment takes this way.
#[test]
fn a_larger_segment_is_on_the_disk_before_it_takes_the_name_of_an_empty_one() {
    alone!();
    let mut scenario = Scenario::with_columns(Columns::Flat);
    scenario.commit_ids(&[LONG_TEXT_ID]);
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// A power cut that lost whole segments was reported as a loss of only the rows in the remaining one.
#[test]
fn rows_lost_in_whole_segments_are_counted() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    scenario.commit(10);
    assert_eq!(scenario.lose_at_each_operation().most_dropped, 10);
}

/// A cut in the sync of a commit that spans segments left only its first file durable. After the next boot, our reader and
/// arrow-rs saw the rows up to the end of that file: a part of a commit. Now the last segment becomes durable first, and
/// counts only together with the first.
#[test]
fn a_cut_in_a_sync_leaves_all_of_a_commit_or_nothing() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(3);
    scenario.sync();
    scenario.commit(9);
    scenario.sync();
    scenario.commit(2);
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// Small durable commits are on the disk only in the log.
#[test]
fn rows_of_the_log_survive_a_power_cut() {
    alone!();
    let mut scenario = Scenario::with_columns(Columns::Nested);
    for _ in 0..3 {
        scenario.commit(1);
        scenario.sync();
    }
    scenario.lose_at_each_operation();
}

/// After a failed sync of the log, the next writer must not overwrite the durable record that the log continues from.
#[test]
fn a_failed_sync_of_the_log_costs_no_durable_row() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(1);
    scenario.sync();
    scenario.kill_and_reopen();
    scenario.commit(1);
    scenario.sync();
    scenario.commit(1);
    scenario.sync();
    scenario.commit(1);
    scenario.fail_to_sync();
    scenario.kill_and_reopen();
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// After a power cut during a change of the schema, the table has the old or the new one, and all durable rows.
#[test]
fn schema_changes_are_atomic() {
    alone!();
    for reopens in [false, true] {
        let mut scenario = Scenario::new();
        scenario.commit(3);
        scenario.sync();
        scenario.commit(1);
        if reopens {
            scenario.reopen_with_new_schema();
        } else {
            scenario.alter();
        }
        scenario.commit(2);
        scenario.sync();
        scenario.commit(3);
        scenario.sync();
        scenario.lose_at_each_operation();
    }
}

/// An empty live segment is replaced by one with the new schema and the same name.
#[test]
fn schema_change_of_an_empty_segment_costs_no_row() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(4);
    scenario.sync();
    scenario.commit(4);
    scenario.compact();
    scenario.reopen_with_new_schema();
    scenario.commit(2);
    scenario.sync();
    scenario.lose_at_each_operation();
}

/// After a power cut during a sort, the table has all rows, either sorted or in the earlier order.
#[test]
fn sorts_are_atomic() {
    alone!();
    for has_writer in [true, false] {
        let mut scenario = Scenario::with_late_rows();
        scenario.commit_ids(&[3, 1, 2, 4, 6, 5]);
        scenario.commit_ids(&[8, 7, 9]);
        if has_writer {
            scenario.sort_beside_writer();
        } else {
            scenario.kill_and_sort();
            scenario.open();
        }
        scenario.commit_ids(&[10, 12, 11, 0]);
        scenario.sync();
        if has_writer {
            scenario.sort_beside_writer();
        } else {
            scenario.kill_and_sort();
        }
        scenario.lose_at_each_operation();
    }
}

/// `compact` was killed after it had sealed the last segment, and before the seal was durable. The next writer began a
/// segment after it, whose rows became durable without the seal, and a power cut lost them. Now the writer syncs the seal
/// first.
#[test]
fn seal_of_a_killed_compaction_is_durable_before_rows_behind_it() {
    alone!();
    for after in 0.. {
        let mut scenario = Scenario::new();
        scenario.commit(6);
        scenario.sync();
        scenario.kill_and_fail_after(after);
        let has_compacted = scenario.run.compact_without_writer().is_ok();
        scenario.run.recorder.clear_fault();
        scenario.open();
        scenario.commit(2);
        scenario.sync();
        scenario.lose_at_later_operations();
        if has_compacted {
            break;
        }
    }
}

/// A sort swaps two directories. Durable rows must survive a kill at each of its operations, a writer that goes on with
/// either directory, and a power cut.
#[test]
fn durable_rows_survive_a_killed_sort() {
    alone!();
    for after in 0.. {
        let mut scenario = Scenario::with_late_rows();
        scenario.commit_ids(&[3, 1, 2, 4, 6, 5]);
        scenario.sync();
        scenario.kill_and_fail_after(after);
        let has_sorted = scenario.run.sort(None).is_ok();
        scenario.run.recorder.clear_fault();
        scenario.open();
        let sorts = scenario.run.model.rows_before_sorts.len();
        let is_sorted = scenario.run.model.rows != scenario.run.model.rows_before_sorts[sorts - 1];
        scenario.commit_ids(&[10, 12]);
        scenario.sync();
        if is_sorted {
            scenario.run.model.mark.orders = [sorts; 2];
        } else {
            scenario.run.model.mark.orders = [sorts - 1; 2];
            scenario.run.model.rows_before_sorts[sorts - 1] = scenario.run.model.rows.clone();
        }
        scenario.run.record_mark();
        scenario.lose_at_later_operations();
        if has_sorted {
            break;
        }
    }
}

/// The creation of a table fails, or is killed, at each of its operations. Then a writer that never syncs opens the table,
/// and the power is cut. If the sync of the directory had failed, the name of the first segment was not on the disk, and a
/// table that had been open was gone. Now a writer that finds no durable record syncs the names, as one that creates a
/// table does.
#[test]
fn table_of_an_interrupted_creation_survives_once_it_is_open() {
    alone!();
    for (after, is_lasting) in (0..).flat_map(|after| [(after, true), (after, false)]) {
        let mut scenario = Scenario::without_table(Columns::Id32, WriterOptions::default());
        scenario.run.recorder.fail(after, libc::EIO, is_lasting);
        drop(scenario.run.open());
        let has_failed = scenario.run.recorder.clear_fault();
        scenario.open();
        scenario.commit(2);
        scenario.lose_at_later_operations();
        if !has_failed {
            break;
        }
    }
}

/// A segment stores which durable record may not be on the disk, and the sync of it ended. A lost page cache left this note,
/// and none of the visible records. The next writer overwrote the noted record, which earlier segments rely on, with its
/// first durable record, so a second loss took their rows.
#[test]
fn note_of_a_finished_sync_costs_no_durable_row() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(6);
    scenario.sync();
    let last_segment = scenario.segment(4).metadata().unwrap().ino();
    scenario.lose_twice(|events| {
        let (offset, note) = events.iter().rev().find_map(|event| unsynced_record_note(event, last_segment)).unwrap();
        let records = offset - offset % 4096 + 4096;
        vec![Event::Put(last_segment, offset, note), Event::Put(last_segment, records, vec![0; 2 * 4096])]
    });
}

/// Returns the offset and the bytes if `event` notes in `file` that a durable record may not be on the disk, and that no
/// entry of the log may be missing.
fn unsynced_record_note(event: &Event, file: u64) -> Option<(u64, Vec<u8>)> {
    match event {
        Event::Put(event_file, offset, bytes)
            if *event_file == file && bytes.len() == 8 && bytes.ends_with(&[255; 4]) =>
        {
            Some((*offset, bytes.clone()))
        }
        _ => None,
    }
}

/// The two newest commits did not count: the newer one had lost a page with the page cache, or both lacked rows that only
/// the log has. Their records were erased, the newer one first, or after the rows of the log were restored. After a second
/// loss, the proof of the older one, or of both, was valid again: rows came back that a writer had reported as lost.
#[test]
fn rows_reported_as_lost_do_not_come_back() {
    alone!();
    // Rows without bits of their own don't change with the restored rows of the log.
    for (ids, lost_text) in [([367, 4], "text 4"), ([367, 2677], "text 1")] {
        let mut scenario = Scenario::with_columns(Columns::Nested);
        for id in [3, 1] {
            scenario.commit_ids(&[id]);
            scenario.sync();
        }
        for id in ids {
            scenario.commit_ids(&[id]);
        }
        scenario.lose_twice(|events| {
            let clear_text = events.iter().find_map(|event| match event {
                Event::Put(file, offset, bytes) if bytes == lost_text.as_bytes() => {
                    Some(Event::Put(*file, *offset, vec![0; bytes.len()]))
                }
                _ => None,
            });
            vec![clear_text.unwrap()]
        });
    }
}

/// The page cache was lost while records were being overwritten: each had its new number already, but the old content. The
/// next writer began with a number that one of these records had had before, which completed the record until the rest was
/// written, too: rows came back that a writer had dropped.
#[test]
fn a_torn_record_does_not_become_whole_again() {
    alone!();
    let mut scenario = Scenario::new();
    scenario.commit(2);
    scenario.sync();
    scenario.commit(1);
    scenario.lose_twice(|events| {
        let mut commits = events.windows(3).rev().filter_map(CommitStores::from_events);
        let newest = commits.next().unwrap();
        let before = commits.next().unwrap();
        vec![
            put_number(newest.file, newest.record, newest.sequence + 2),
            put_number(newest.file, before.record, before.sequence + 2),
            put_number(newest.file, newest.live_page, before.sequence),
        ]
    });
}

/// The places to which a commit stores.
struct CommitStores {
    file: u64,
    /// The offset of the record.
    record: u64,
    /// The offset of the live page, which begins with the number of the newest commit.
    live_page: u64,
    sequence: u64,
}

impl CommitStores {
    /// Recognizes the three stores of a commit: the number of its record, the rest of it, and the newest number.
    fn from_events(events: &[Event]) -> Option<CommitStores> {
        let [Event::Put(file, record, record_number), Event::Put(_, rest, _), Event::Put(_, live_page, newest_number)] =
            events
        else {
            return None;
        };
        if *rest != record + 8 || record_number != newest_number {
            return None;
        }
        let sequence = u64::from_le_bytes(newest_number[..].try_into().unwrap());
        Some(CommitStores { file: *file, record: *record, live_page: *live_page, sequence })
    }
}

fn put_number(file: u64, offset: u64, number: u64) -> Event {
    Event::Put(file, offset, number.to_le_bytes().to_vec())
}
