//! What the campaigns found, each by the few acts that show it. The random runs of `power.rs` met these again and again
//! while they were not mended, but a run of another seed may not.
//!
//! The power is cut before each act of a story and after the last, and of the names that the disk may not know of all
//! are left out but two, or two.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::tables::unsynced;

/// A writer of segments of four rows that syncs when it is told to.
struct Story {
    run: Run,
    writer: Option<Writer>,
    /// The disk before the acts that are judged.
    disk: Disk,
    /// How many power cuts were before these acts.
    depth: u32,
}

impl Story {
    fn new() -> Story {
        Story::of(Width::Number)
    }

    fn of(width: Width) -> Story {
        Story::with(width, WriterOptions::default())
    }

    /// Of a table that accepts late rows.
    fn of_late_rows() -> Story {
        let (sorted_by, late) = (Some("id".into()), Some(LatePolicy::Accept));
        Story::with(Width::Number, WriterOptions { sorted_by, late, ..WriterOptions::default() })
    }

    fn with(width: Width, wanted: WriterOptions) -> Story {
        let mut story = Story::without_table(width, wanted);
        story.open();
        story
    }

    fn without_table(width: Width, wanted: WriterOptions) -> Story {
        another_boot();
        let mut run = Run::new(1);
        run.width = width;
        let WriterOptions { zone_rows, medium, .. } = run.options;
        run.options = WriterOptions { zone_rows, medium, sync: SyncPolicy::Never, segment_rows: Some(4), ..wanted };
        run.recorder.track_durable_rows(run.table());
        Story { run, writer: None, disk: Disk::default(), depth: 0 }
    }

    fn open(&mut self) {
        self.writer = Some(self.run.open().unwrap());
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    /// Ends the writer as a kill does, and opens the table anew.
    fn reopen(&mut self) {
        self.kill();
        self.open();
    }

    fn kill(&mut self) {
        drop(self.writer.take());
    }

    /// Ends the writer; the acts so far are done, and of those that come, the one behind the next `after` and all behind it fail.
    fn kill_at_act(&mut self, after: u64) {
        self.kill();
        self.run.recorder.take().iter().for_each(|event| self.disk.apply(event));
        self.run.recorder.fail(after, libc::EIO, true);
    }

    fn commit(&mut self, rows: u64) {
        let ids = self.run.fresh(rows);
        self.commit_ids(&ids);
    }

    fn commit_ids(&mut self, ids: &[u64]) {
        let writer = self.writer.as_mut().unwrap();
        writer.append(&batch(self.run.width, ids)).unwrap();
        self.run.twin.pending.extend(ids);
        self.run.commit(writer).unwrap();
    }

    fn sync(&mut self) {
        self.run.sync(self.writer.as_mut().unwrap()).unwrap();
    }

    /// Waits, as a thread that has a handle does, until all rows are durable.
    fn wait(&mut self) {
        self.writer().durability().wait().unwrap();
        self.run.twin.mark.durable = self.run.twin.rows.len() as u64;
        self.run.note();
    }

    /// Goes on with one column more: by the writer itself, or as it is opened again.
    fn alter(&mut self, opens_again: bool) {
        let width = Width::Changed(self.run.next);
        if opens_again {
            self.kill();
            self.run.width = width;
            self.open();
        } else {
            self.run.note();
            assert!(self.writer().alter(&schema(width)).unwrap());
            self.run.width = width;
        }
    }

    fn fail_to_sync(&mut self) {
        self.run.recorder.fail_syncs(true);
        self.writer().sync().unwrap_err();
        self.run.recorder.fail_syncs(false);
        // Syncs would succeed again.
        self.writer().durability().wait().unwrap_err();
        assert!(self.durable_end() <= self.run.twin.mark.durable, "{}, {:?}", self.durable_end(), self.run.twin.mark);
    }

    /// The writer is killed in the middle of the sync, and another one goes on.
    fn kill_in_sync(&mut self) {
        self.run.recorder.kill_in_sync(self.run.table());
        self.writer().sync().unwrap_err();
        self.kill();
        self.run.recorder.restore_killed_files();
        assert!(self.durable_end() <= self.run.twin.mark.durable, "{}, {:?}", self.durable_end(), self.run.twin.mark);
        self.open();
        assert!(self.writer().durable_rows() <= self.run.twin.mark.durable);
    }

    /// The row after the last durable one, as others see it.
    fn durable_end(&self) -> u64 {
        table_stat(self.run.table()).unwrap().unwrap().durable_end
    }

    fn drop_before(&mut self, row: u64) {
        self.run.twin.mark.dropped = row;
        self.run.note();
        self.writer().drop_before(row).unwrap();
    }

    fn compact(&mut self) {
        self.writer().compact(|_, _| ()).unwrap();
    }

    /// As the command does, when there is no writer.
    fn compact_from_outside(&mut self) {
        self.kill();
        compact_on(&self.run.options.medium, self.run.table(), CompactOptions::default(), |_, _| ()).unwrap();
    }

    fn sort(&mut self, is_beside_a_writer: bool) {
        let mut writer = self.writer.take().filter(|_| is_beside_a_writer);
        self.run.sort(writer.as_mut()).unwrap();
        self.writer = writer;
    }

    fn segment(&self, first_row: u64) -> PathBuf {
        self.run.table().join(format!("{first_row:020}.arrow"))
    }

    /// A disk on which the file never was, from the acts on that come now.
    fn forget(&mut self, first_row: u64) {
        self.kill();
        let (path, folder) = (self.segment(first_row), self.run.table());
        // What is no more than stored reaches the disk some time.
        for entry in folder.read_dir().unwrap() {
            let file = entry.unwrap().metadata().unwrap().ino();
            self.run.recorder.before_op(FsOp::Sync { file }).unwrap();
            self.run.recorder.before_op(FsOp::Synced { file }).unwrap();
        }
        self.run.recorder.before_op(FsOp::Remove { path: &path }).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The segments of a commit over the end of one waited for their names beside the folder.
        for path in [&folder, folder.parent().unwrap()] {
            self.run.recorder.before_op(FsOp::SyncFolder { path }).unwrap();
            self.run.recorder.before_op(FsOp::SyncedFolder { path }).unwrap();
        }
        self.run.recorder.take().iter().for_each(|event| self.disk.apply(event));
        assert!(self.disk.is_synced());
        self.run.twin.ends.insert(first_row);
        self.run.has_positions = false;
        self.run.twin.rows.truncate(first_row as usize);
        self.run.twin.mark = Mark { exists: true, durable: first_row, intended: first_row, ..Mark::default() };
        self.depth = 1;
        another_boot();
    }

    /// Cuts the power at each of the acts.
    #[track_caller]
    fn judge(self) -> Count {
        let count = self.judge_rest();
        assert!(count.images > 100, "{count:?}");
        count
    }

    /// The same where some acts were applied to the disk before.
    #[track_caller]
    fn judge_rest(mut self) -> Count {
        self.kill();
        let from = std::fs::canonicalize(self.run.home.path()).unwrap();
        let (events, mut count) = (self.run.recorder.take(), Count::default());
        let orders = self.run.twin.orders();
        for loss in [Loss::PageCache, Loss::Power] {
            let case = self.case(&from, &orders, loss);
            // A machine that is booted again stays so: what was written in its boot is asked first.
            let judged = cut_everywhere(&case, self.disk.clone(), &events, &mut count, self.depth);
            judged.unwrap_or_else(|e| panic!("{loss:?}: {e}"));
        }
        simulate_boot(None);
        simulate_mount(None);
        assert!(count.images > 20, "{count:?}");
        count
    }

    /// Loses the page cache, and once more at each act of the writer that goes on then. The first time the disk has all of the
    /// acts, and what `spoil` makes of them.
    #[track_caller]
    fn lose_twice(mut self, spoil: impl FnOnce(&[Event]) -> Vec<Event>) {
        self.kill();
        let events = self.run.recorder.take();
        events.iter().chain(&spoil(&events)).for_each(|event| self.disk.apply(event));
        let (from, orders) = (std::fs::canonicalize(self.run.home.path()).unwrap(), self.run.twin.orders());
        let case = self.case(&from, &orders, Loss::PageCache);
        let (mut dice, mut count) = (Dice::new(1), Count::default());
        let image = self.disk.image(Luck::Everything, &mut dice);
        let mark = Mark { committed: 0, ..self.disk.mark };
        case.judge_image(mark, &image, Then::CutAgain, &mut dice, &mut count, 0).unwrap_or_else(|e| panic!("{e}"));
        simulate_boot(None);
        simulate_mount(None);
        assert!(count.twice > 50, "{count:?}");
    }

    fn case<'a>(&'a self, from: &'a Path, orders: &'a [Vec<u64>], loss: Loss) -> Case<'a> {
        Case {
            width: self.run.width,
            orders,
            ends: self.run.twin.ends.clone(),
            has_positions: self.run.has_positions,
            options: &self.run.options,
            from,
            loss,
        }
    }
}

fn cut_everywhere(
    case: &Case<'_>,
    mut disk: Disk,
    events: &[Event],
    count: &mut Count,
    depth: u32,
) -> Result<(), String> {
    let mut dice = Dice::new(1);
    for number in 0..=events.len() {
        // What a page was before and between stores is tried by the cut behind them.
        if !matches!(events.get(number), Some(Event::Put(..) | Event::Mark(_))) && !disk.is_synced() {
            case.loss.happens();
            let failed = |luck: Luck, e: String| format!("cut {number} of {}, {luck:?}: {e}", events.len());
            for luck in Luck::ALL {
                case.judge(&disk, luck, &mut dice, count, 1).map_err(|e| failed(luck, e))?;
            }
            for there in few_or_most(disk.namings()) {
                for luck in [Luck::Nothing, Luck::Everything] {
                    let image = disk.image_with(&there, luck, &mut dice);
                    let judged = case.judge_image(
                        Mark { committed: 0, ..disk.mark },
                        &image,
                        Then::WriteOn,
                        &mut dice,
                        count,
                        depth,
                    );
                    judged.map_err(|e| failed(luck, format!("names {there:?}: {e}")))?;
                }
            }
        }
        events.get(number).into_iter().for_each(|event| disk.apply(event));
    }
    Ok(())
}

/// The sets of at most two of so many, and of all but two at most.
fn few_or_most(count: usize) -> BTreeSet<BTreeSet<usize>> {
    let pairs = (0..=count).flat_map(|a| (a..=count).map(move |b| [a, b]));
    let few = pairs.map(|pair| pair.into_iter().filter(|&number| number < count).collect::<BTreeSet<_>>());
    few.flat_map(|few| [(0..count).filter(|number| !few.contains(number)).collect(), few]).collect()
}

/// A sync failed, and the writer was opened anew, as its error asks for. The system had taken the pages for written, so
/// nothing wrote them any more; but the record among them said that its rows were durable, and so said the new writer.
/// A power cut then took them. Now the segment remembers that a sync has failed (`unsynced`, in its live page), and who
/// opens it in the same boot writes its rows again.
#[test]
fn rows_of_a_sync_that_failed_are_not_durable() {
    alone!();
    let mut story = Story::new();
    story.commit(1);
    story.sync();
    story.commit(2);
    story.fail_to_sync();
    story.reopen();
    story.sync();
    story.judge();
}

/// A writer was killed when it had written a durable record, or an entry of the log, and its sync had not ended. The next one
/// found it in the page cache and took it for durable: what it was asked to sync, it said to be on the disk without having
/// done anything. A power cut took the rows. And who followed durable rows had them before their sync, killed or not. Now the
/// segment notes what is being synced (`unsynced`).
#[test]
fn rows_of_a_sync_whose_writer_was_killed_are_not_durable() {
    alone!();
    // The first sync writes a record, the next one an entry of the log, and one of many rows a record again.
    for commits in [&[3][..], &[1, 1], &[1, 1, 1], &[1, 9], &[4, 1], &[3, 6, 1]] {
        let mut story = Story::new();
        let (last, before) = commits.split_last().unwrap();
        for &rows in before {
            story.commit(rows);
            story.sync();
        }
        story.commit(*last);
        story.kill_in_sync();
        story.sync();
        story.judge_rest();
    }
}

/// A writer was killed, and the next one was asked to wait for durable rows. It took none of them for its own commits, and
/// returned at once; a power cut took them. Now what a writer finds counts as a commit that is not durable yet.
#[test]
fn who_waits_behind_a_killed_writer_waits_for_its_rows() {
    alone!();
    for rows in [2, 9] {
        let mut story = Story::new();
        story.commit(1);
        story.sync();
        story.commit(rows);
        story.reopen();
        story.wait();
        story.judge();
    }
}

/// The same in a segment that was full: the new writer looked for the sealed segments that were not durable, from the
/// last one back, and stopped at one whose record said that it was. The rows behind it became durable without those in
/// it, and a power cut took both.
#[test]
fn a_full_segment_whose_sync_failed_is_not_durable() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    story.commit(6);
    story.fail_to_sync();
    story.reopen();
    story.sync();
    story.judge();
}

/// All rows of a segment were durable, then the next commit sealed it. The writer died, and the next one took the segment
/// for durable, since its rows were. But its seal was not: after a power cut the segment had not ended, so the durable
/// rows behind it did not count. Now a segment is durable when its rows are and its seal is.
#[test]
fn a_seal_is_durable_before_rows_behind_it() {
    alone!();
    let mut story = Story::new();
    story.commit(4);
    story.sync();
    story.commit(1);
    story.reopen();
    story.sync();
    story.judge();
}

/// A sync wrote the rows of segments, and then their names. A power cut between kept the name of the last one and not of
/// one in the middle; the last one was durable, and the one before it was and reached it, so it was believed, and the
/// table had a gap that no reader gets over. Now names come first.
#[test]
fn names_are_durable_before_rows() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    assert_eq!(story.durable_end(), 3);
    story.commit(12);
    assert_eq!(story.durable_end(), 3);
    story.sync();
    assert_eq!(story.durable_end(), 15);
    story.judge();
}

/// The oldest segments were removed one after the other and the disk was told of that once. After a power cut the second
/// one was gone and the first was back. Now each removal is on the disk before the next one.
#[test]
fn removals_reach_the_disk_one_after_the_other() {
    alone!();
    let mut story = Story::new();
    story.commit(14);
    story.sync();
    story.drop_before(14);
    story.judge();
}

/// A segment was removed when the one behind it was not durable yet, not even its name. After a power cut there was
/// neither, and so no table. Now all that stays is durable before anything goes.
#[test]
fn what_stays_is_durable_before_what_was_there_goes() {
    alone!();
    let mut story = Story::new();
    story.commit(2);
    story.sync();
    story.commit(4);
    story.drop_before(4);
    story.judge();
}

/// Segments whose rows were not durable were compacted. A dense file is an ordinary Arrow file, which counts after a
/// power cut as it is; what was before it had lost its rows. Now all is synced before anything is made dense.
#[test]
fn rows_are_durable_before_segments_are_made_dense() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    story.commit(10);
    story.compact();
    story.commit(3);
    story.sync();
    story.judge();
}

/// The same from outside, behind a writer that was killed before its sync: `compact` brought its rows to the disk, and not
/// the names of its segments. A power cut kept the last one, durable, and not one in the middle: a gap. Now names come
/// first here, too.
#[test]
fn rows_of_a_dead_writer_are_durable_before_segments_are_made_dense() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    story.commit(12);
    story.compact_from_outside();
    story.judge();
}

/// A table was compacted as a whole, the next writer began a segment behind it and filled that. A power cut kept the
/// name of the second new segment and not of the first; the second one was believed, since there was a dense one before
/// it. Now a dense segment must reach up to the next one, as any other must.
#[test]
fn a_dense_segment_reaches_up_to_the_next() {
    alone!();
    let mut story = Story::new();
    story.commit(6);
    story.sync();
    story.compact_from_outside();
    story.open();
    story.commit(9);
    story.judge();
}

/// A power cut had cost the segment in the middle, when names did not come before rows. The next writer removed the one
/// behind it, and wrote other rows up to where that had begun. After another cut it was back, and durable, and so counted,
/// with rows of the time before. Now the removal is on the disk before anything is written, and all names are before rows.
#[test]
fn a_segment_that_was_given_up_does_not_come_back() {
    alone!();
    let mut story = Story::new();
    story.commit(10);
    story.sync();
    story.forget(4);
    story.open();
    assert!(!story.segment(8).exists());
    story.commit(6);
    story.sync();
    story.judge();
}

/// A sync was cut: its durable record reached the disk, and some of its rows did not. The next writer appended rows that were
/// equal to them, and a power cut before their commit brought the old record back: rows that had been given up, and a part
/// of a commit. Now such a record is taken away before anything else is written.
#[test]
fn rows_that_were_given_up_do_not_come_back_with_equal_ones() {
    alone!();
    another_boot();
    let home = folder_in_memory();
    let table = home.path().join("ticks");
    let options = unsynced(4);
    let rows = || open(&table).unwrap().len().unwrap();
    for ids in [&[1, 2][..], &[1_000_001, 1_000_002, 5]] {
        let mut writer = Writer::open(&table, Some(schema(Width::Number)), &options).unwrap();
        writer.append(&batch(Width::Number, ids)).unwrap();
        writer.close().unwrap();
    }
    assert_eq!(rows(), 5);
    // A cut before the sync was done: of the second commit the record is there, a row is not, and the next segment is not.
    let first = table.join(format!("{:020}.arrow", 0));
    std::fs::remove_file(table.join(format!("{:020}.arrow", 4))).unwrap();
    let mut bytes = std::fs::read(&first).unwrap();
    let at = bytes.windows(4).position(|window| window == 1_000_001u32.to_le_bytes()).unwrap();
    bytes[at..at + 4].fill(0);
    std::fs::write(&first, &bytes).unwrap();
    another_boot();
    assert_eq!(rows(), 2);
    let mut writer = Writer::open(&table, None, &options).unwrap();
    writer.append(&batch(Width::Number, &[1_000_001, 1_000_002])).unwrap();
    drop(writer);
    another_boot();
    assert_eq!(rows(), 2);
    simulate_boot(None);
}

/// Found by reading: of the ways to make a segment, one did not sync it before it was to get its name. A power cut then
/// leaves a file of zeros, and where an empty segment makes room for a larger one, that is all of the table. Now every
/// segment is synced where it is made. A row that is too long for a first segment shows it.
#[test]
fn a_larger_segment_is_on_the_disk_before_it_takes_the_name_of_an_empty_one() {
    alone!();
    let mut story = Story::of(Width::Plain);
    story.commit_ids(&[LONG]);
    story.sync();
    story.judge();
}

/// A power cut that cost whole segments was said to have cost only the rows of the one that was left. Now the rows of
/// segments that are given up count too.
#[test]
fn rows_lost_in_whole_segments_are_counted() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    story.commit(10);
    assert_eq!(story.judge().most_dropped, 10);
}

/// A commit went over the end of a segment, and its sync was cut behind the first of its files. After another boot both
/// this reader and another one saw the rows up to that end: a part of a commit. Now the last segment becomes durable first,
/// to count only with the first.
#[test]
fn a_sync_that_was_cut_leaves_all_of_a_commit_or_nothing() {
    alone!();
    let mut story = Story::new();
    story.commit(3);
    story.sync();
    story.commit(9);
    story.sync();
    story.commit(2);
    story.sync();
    story.judge();
}

/// Durable commits that are small are in the log, and nowhere else on the disk.
#[test]
fn rows_of_the_log_survive_a_power_cut() {
    alone!();
    let mut story = Story::of(Width::Nested);
    for _ in 0..3 {
        story.commit(1);
        story.sync();
    }
    story.judge();
}

/// A sync of the log failed, and the durable record that it goes on from is on the disk: the next writer must not write
/// over that one.
#[test]
fn a_sync_of_the_log_that_failed_costs_no_durable_row() {
    alone!();
    let mut story = Story::new();
    story.commit(1);
    story.sync();
    story.reopen();
    story.commit(1);
    story.sync();
    story.commit(1);
    story.sync();
    story.commit(1);
    story.fail_to_sync();
    story.reopen();
    story.sync();
    story.judge();
}

/// A schema is changed: after a power cut the table has the old one or the new one, and no row is lost that was durable.
#[test]
fn a_change_of_the_schema_is_there_as_a_whole_or_not_at_all() {
    alone!();
    for opens_again in [false, true] {
        let mut story = Story::new();
        story.commit(3);
        story.sync();
        story.commit(1);
        story.alter(opens_again);
        story.commit(2);
        story.sync();
        story.commit(3);
        story.sync();
        story.judge();
    }
}

/// The same where the live segment has no rows, and one of the new schema takes its name.
#[test]
fn a_change_of_an_empty_segments_schema_costs_no_row() {
    alone!();
    let mut story = Story::new();
    story.commit(4);
    story.sync();
    story.commit(4);
    story.compact();
    story.alter(true);
    story.commit(2);
    story.sync();
    story.judge();
}

/// Rows of several segments are put in order, beside a writer and without one: after a power cut the table is as it was, or
/// sorted, and has all rows.
#[test]
fn rows_are_in_their_order_or_in_the_one_before() {
    alone!();
    for is_beside_a_writer in [true, false] {
        let mut story = Story::of_late_rows();
        story.commit_ids(&[3, 1, 2, 4, 6, 5]);
        story.commit_ids(&[8, 7, 9]);
        story.sort(is_beside_a_writer);
        if !is_beside_a_writer {
            story.open();
        }
        story.commit_ids(&[10, 12, 11, 0]);
        story.sync();
        story.sort(is_beside_a_writer);
        story.judge();
    }
}

/// `compact` was killed when it had sealed the last segment, and before that was on the disk. The next writer began a segment
/// behind it, whose rows were durable, and the seal was not: a power cut took them. Now the writer brings the seal to the disk
/// first.
#[test]
fn a_seal_of_who_was_killed_is_durable_before_rows_behind_it() {
    alone!();
    for after in 0.. {
        let mut story = Story::new();
        story.commit(6);
        story.sync();
        story.kill_at_act(after);
        let is_done =
            compact_on(&story.run.options.medium, story.run.table(), CompactOptions::default(), |_, _| ()).is_ok();
        story.run.recorder.clear_fault();
        story.open();
        story.commit(2);
        story.sync();
        story.judge_rest();
        if is_done {
            break;
        }
    }
}

/// A sort that is killed at each of its acts, a writer that goes on, and then a power cut: rows that were durable are there,
/// whichever of the two directories was the table.
#[test]
fn durable_rows_stay_behind_a_sort_that_was_killed() {
    alone!();
    for after in 0.. {
        let mut story = Story::of_late_rows();
        story.commit_ids(&[3, 1, 2, 4, 6, 5]);
        story.sync();
        story.kill_at_act(after);
        let is_done = story.run.sort(None).is_ok();
        story.run.recorder.clear_fault();
        // What stands beside the table may be either.
        story.open();
        let sorts = story.run.twin.before.len();
        let is_sorted = story.run.twin.rows != story.run.twin.before[sorts - 1];
        story.commit_ids(&[10, 12]);
        story.sync();
        story.run.twin.mark.orders = if is_sorted { [sorts; 2] } else { [sorts - 1; 2] };
        if !is_sorted {
            let rows = story.run.twin.rows.clone();
            story.run.twin.before[sorts - 1] = rows;
        }
        story.run.note();
        story.judge_rest();
        if is_done {
            break;
        }
    }
}

/// Whoever makes a table is killed, or fails, at each of the acts; a writer that never syncs opens it, and then the power is cut.
/// The name of the first segment was not on the disk where the sync of the directory was what had failed, so that a table that
/// was open was gone. Now a writer that finds no durable record syncs the names, as the one does that makes a table.
#[test]
fn a_table_whose_making_was_cut_short_is_there_once_it_is_open() {
    alone!();
    for (after, lasting) in (0..).flat_map(|after| [(after, true), (after, false)]) {
        let mut story = Story::without_table(Width::Number, WriterOptions::default());
        story.run.recorder.fail(after, libc::EIO, lasting);
        drop(story.run.open());
        let has_failed = story.run.recorder.clear_fault();
        story.open();
        story.commit(2);
        story.judge_rest();
        if !has_failed {
            break;
        }
    }
}

/// A segment noted which durable record may not be on the disk, and the sync of it ended; a lost page cache left the note and
/// none of the visible records. The next writer wrote its first durable record over the noted one, which earlier segments
/// rely on: a second loss took their rows.
#[test]
fn a_note_of_a_sync_that_ended_costs_no_durable_row() {
    alone!();
    let mut story = Story::new();
    story.commit(6);
    story.sync();
    let last = story.segment(4).metadata().unwrap().ino();
    story.lose_twice(|events| {
        // That a durable record may not be on the disk, and no entry of the log.
        let note = |event: &Event| match event {
            Event::Put(file, at, bytes) if *file == last && bytes.len() == 8 && bytes.ends_with(&[255; 4]) => {
                Some((*at, bytes.clone()))
            }
            _ => None,
        };
        let (at, note) = events.iter().rev().find_map(note).unwrap();
        let records = at - at % 4096 + 4096;
        vec![Event::Put(last, at, note), Event::Put(last, records, vec![0; 2 * 4096])]
    });
}

/// The two newest commits did not count, as the newer one had lost a page with the page cache, or both lack what only the log
/// has. Their records were erased, the newer one first, or when the bytes of the log were in place again. After a second loss
/// the older one was proven, or both: rows came back that a writer had told as lost.
#[test]
fn rows_that_were_told_as_lost_do_not_come_back() {
    alone!();
    // The rows without a bit of their own don't change with the bytes of the log.
    for (ids, lost) in [([367, 4], "text 4"), ([367, 2677], "text 1")] {
        let mut story = Story::of(Width::Nested);
        for id in [3, 1] {
            story.commit_ids(&[id]);
            story.sync();
        }
        for id in ids {
            story.commit_ids(&[id]);
        }
        story.lose_twice(|events| {
            let text = |event: &Event| match event {
                Event::Put(file, at, bytes) if bytes == lost.as_bytes() => Some(Event::Put(*file, *at, vec![0; 6])),
                _ => None,
            };
            vec![events.iter().find_map(text).unwrap()]
        });
    }
}

/// Records were being written over when the page cache was lost: each had its next number already, and the rest was that of a
/// commit before. The next writer began with the number that one of these had had, which made its record whole until the rest was
/// written, too: rows came back that a writer had gone on without.
#[test]
fn a_torn_record_does_not_become_whole_again() {
    alone!();
    let mut story = Story::new();
    story.commit(2);
    story.sync();
    story.commit(1);
    story.lose_twice(|events| {
        let record = |events: &[Event]| match events {
            // The number, the rest, and that it is the newest.
            [Event::Put(file, place, one), Event::Put(_, rest, _), Event::Put(_, live, number)]
                if *rest == place + 8 && one == number =>
            {
                Some((*file, *place, *live, u64::from_le_bytes(number[..].try_into().unwrap())))
            }
            _ => None,
        };
        let put = |file, at, number: u64| Event::Put(file, at, number.to_le_bytes().to_vec());
        let mut records = events.windows(3).rev().filter_map(record);
        let (file, place, live, newest) = records.next().unwrap();
        let (_, other, _, number) = records.next().unwrap();
        vec![put(file, place, newest + 2), put(file, other, number + 2), put(file, live, number)]
    });
}
