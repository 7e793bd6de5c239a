//! Power cuts: random runs of a writer on a disk that is watched, and the table opened again from what the disk may hold
//! after a cut at each moment of the run; once as after a cut of the power, and once on a machine that was not booted again
//! and has lost its page cache, as where a snapshot of the volume is mounted. `ARROWWOOD_POWER_RUNS` makes it take longer, `ARROWWOOD_POWER_SEED` is
//! the first seed: see `make torture`.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on, simulate_boot, simulate_mount};
use arrowwood::{
    CompactOptions, Dataset, LatePolicy, SyncPolicy, Value, Writer, WriterOptions, col, open, segment_stat, table_stat,
};

mod stories;

use crate::dice::Dice;
use crate::simulated_disk::{Disk, Event, Image, Luck, Mark, Recorder};
use crate::tables::folder_in_memory;

/// Which columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// A number of 32 bits.
    Number,
    Plain,
    Nested,
    /// That of `Number` of twice the bits, and a price from the row of this id on.
    Changed(u64),
}

fn schema(width: Width) -> SchemaRef {
    let id = if width == Width::Number { DataType::Int32 } else { DataType::Int64 };
    let mut fields = vec![Field::new("id", id, false)];
    if let Width::Changed(_) = width {
        fields.push(Field::new("price", DataType::Float64, true));
        return Arc::new(Schema::new(fields));
    }
    if width != Width::Number {
        fields.push(Field::new("text", DataType::Utf8, true));
        fields.push(Field::new("price", DataType::Float64, true));
        fields.push(Field::new("flag", DataType::Boolean, false));
    }
    if width == Width::Nested {
        fields.push(Field::new("symbol", DataType::Utf8, true));
        fields.push(Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int64, true))), true));
    }
    Arc::new(Schema::new(fields))
}

/// A row whose text is longer than what a first segment has room for.
const LONG: u64 = 7_000_000;

fn text(id: u64) -> Option<String> {
    if id == LONG {
        return Some("long".repeat(300_000));
    }
    (id % 5 != 2).then(|| format!("text {id}").repeat(id as usize % 3))
}

fn price(id: u64) -> Option<f64> {
    (id % 7 != 3).then_some(id as f64 / 8.0)
}

fn symbol(id: u64) -> Option<String> {
    (id % 11 != 4).then(|| format!("S{}", id % 9))
}

fn items(id: u64) -> Option<Vec<Option<i64>>> {
    (id % 6 != 1).then(|| (0..id % 4).map(|k| (k != 2).then_some((id * k) as i64)).collect())
}

fn batch(width: Width, ids: &[u64]) -> RecordBatch {
    let id: ArrayRef = match width {
        Width::Number => Arc::new(Int32Array::from_iter_values(ids.iter().map(|&id| id as i32))),
        _ => Arc::new(Int64Array::from_iter_values(ids.iter().map(|&id| id as i64))),
    };
    let mut columns = vec![id];
    if let Width::Changed(_) = width {
        columns.push(Arc::new(Float64Array::from_iter(ids.iter().map(|&id| price(id)))));
        return RecordBatch::try_new(schema(width), columns).unwrap();
    }
    if width != Width::Number {
        columns.push(Arc::new(StringArray::from_iter(ids.iter().map(|&id| text(id)))));
        columns.push(Arc::new(Float64Array::from_iter(ids.iter().map(|&id| price(id)))));
        columns.push(Arc::new(BooleanArray::from_iter(ids.iter().map(|&id| Some(id.is_multiple_of(3))))));
    }
    if width == Width::Nested {
        columns.push(Arc::new(StringArray::from_iter(ids.iter().map(|&id| symbol(id)))));
        let lists = ids.iter().map(|&id| items(id));
        columns.push(Arc::new(ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(lists)));
    }
    RecordBatch::try_new(schema(width), columns).unwrap()
}

/// Whether row `row` of a table is what `id` says.
fn is_row(row: &arrowwood::Row<'_>, width: Width, id: u64) -> bool {
    let cell = |number: usize| row.get(number).unwrap();
    let is_text = |value: Value<'_>, expected: Option<String>| match value {
        Value::Null => expected.is_none(),
        Value::Str(text) => expected.as_deref() == Some(text),
        _ => false,
    };
    let is_plain = || {
        is_text(cell(1), text(id))
            && match cell(2) {
                Value::Null => price(id).is_none(),
                Value::Float64(value) => price(id) == Some(value),
                _ => false,
            }
            && matches!(cell(3), Value::Bool(flag) if flag == id.is_multiple_of(3))
    };
    let is_nested = || {
        let list = items(id).map(|items| {
            let items = items.iter().map(|item| item.map_or("null".into(), |item| item.to_string()));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        });
        is_text(cell(4), symbol(id)) && cell(5).to_string() == list.unwrap_or("null".into())
    };
    if let Width::Changed(first) = width {
        // The table has the older schema as long as it has no row of the newer one.
        let is_price = match row.get(1) {
            Err(_) => id < first,
            Ok(Value::Float64(value)) => id >= first && price(id) == Some(value),
            Ok(_) => id < first || price(id).is_none(),
        };
        return is_price && matches!(cell(0), Value::Int(value) if value == id as i64);
    }
    matches!(cell(0), Value::Int(value) if value == id as i64)
        && (width == Width::Number || is_plain())
        && (width != Width::Nested || is_nested())
}

const SORT: CompactOptions = CompactOptions { rewrite: false, sort: true };

/// A table as it should be.
#[derive(Clone, Debug, Default)]
struct Twin {
    /// What each committed row is, by number, those that were dropped too.
    rows: Vec<u64>,
    /// What they were before each time that rows were put in order.
    before: Vec<Vec<u64>>,
    /// The number of rows behind each commit that was tried.
    ends: BTreeSet<u64>,
    pending: Vec<u64>,
    mark: Mark,
}

impl Twin {
    /// All rows as they were before each time that they were put in order, and as they are.
    fn orders(&self) -> Vec<Vec<u64>> {
        let now = self.rows.iter().chain(&self.pending).copied().collect();
        self.before.iter().cloned().chain([now]).collect()
    }
}

/// The rows as they are when those of the sealed segments are put in order, beside a writer, or all.
fn in_order(table: &Path, rows: &[u64], is_beside_a_writer: bool) -> Vec<u64> {
    let files = std::fs::read_dir(table).into_iter().flatten().map(|file| file.unwrap().path());
    let start = |file: PathBuf| file.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
    let starts: BTreeSet<usize> = files.filter_map(start).filter(|&start| start <= rows.len()).collect();
    let end = starts.last().copied().filter(|_| is_beside_a_writer).unwrap_or(rows.len());
    let mut rows = rows.to_vec();
    rows[starts.first().map_or(0, |&start| start.min(end))..end].sort_unstable();
    rows
}

/// A random run of a writer.
struct Run {
    home: tempfile::TempDir,
    recorder: Arc<Recorder>,
    dice: Dice,
    width: Width,
    options: WriterOptions,
    /// Whether each commit says how many rows there are by a position.
    has_positions: bool,
    next: u64,
    twin: Twin,
}

impl Run {
    fn new(seed: u64) -> Run {
        let recorder = Arc::new(Recorder::default());
        Run::watched(seed, recorder.clone(), recorder)
    }

    fn watched(seed: u64, recorder: Arc<Recorder>, witness: Arc<dyn FsObserver>) -> Run {
        let mut dice = Dice::new(seed);
        let width = [Width::Number, Width::Plain, Width::Nested][dice.below(3) as usize];
        let index = match (dice.below(3), width) {
            (0, _) => None,
            (1, _) | (_, Width::Number) => Some(vec!["id".into()]),
            _ => Some(vec!["id".into(), "text".into(), "price".into(), "flag".into()]),
        };
        let is_late = dice.below(3) == 0;
        let options = WriterOptions {
            index,
            zone_rows: Some(1 + dice.below(9) as u32),
            sorted_by: is_late.then(|| "id".into()),
            late: is_late.then_some(LatePolicy::Accept),
            sync: if dice.below(3) == 0 { SyncPolicy::Commit } else { SyncPolicy::Never },
            segment_rows: Some(2 + dice.below(40)),
            dictionary: if width == Width::Nested { vec!["symbol".into()] } else { Vec::new() },
            medium: FileSystem::with_observer(witness),
            ..WriterOptions::default()
        };
        let has_positions = dice.below(2) == 0;
        Run { home: folder_in_memory(), recorder, dice, width, options, has_positions, next: 1, twin: Twin::default() }
    }

    fn table(&self) -> PathBuf {
        std::fs::canonicalize(self.home.path()).unwrap().join("ticks")
    }

    fn note(&self) {
        self.recorder.mark(self.twin.mark);
    }

    fn open(&mut self) -> arrowwood::Result<Writer> {
        self.note();
        let writer = Writer::open(self.table(), Some(schema(self.width)), &self.options)?;
        self.twin.mark.exists = true;
        self.twin.pending.clear();
        self.note();
        Ok(writer)
    }

    fn fresh(&mut self, count: u64) -> Vec<u64> {
        self.next += count;
        let ids = self.next - count..self.next;
        if self.options.late.is_some() { ids.rev().collect() } else { ids.collect() }
    }

    fn append(&mut self, writer: &mut Writer) -> arrowwood::Result<()> {
        let most = if self.dice.below(6) == 0 { 3 * self.options.segment_rows.unwrap_or(1) } else { 6 };
        let count = 1 + self.dice.below(most);
        let ids = self.fresh(count);
        if self.width == Width::Number && count < 4 {
            for id in ids {
                writer.append_row(&[Value::Int(id as i64)])?;
                self.twin.pending.push(id);
            }
            return Ok(());
        }
        writer.append(&self.batch_for(writer, &ids))?;
        self.twin.pending.extend(ids);
        Ok(())
    }

    /// The rows as the writer takes them: one that could not change the schema goes on without the price.
    fn batch_for(&mut self, writer: &Writer, ids: &[u64]) -> RecordBatch {
        if matches!(self.width, Width::Changed(_)) && writer.schema().fields().len() == 1 {
            self.width = Width::Changed(self.next);
            return batch(Width::Number, ids);
        }
        batch(self.width, ids)
    }

    /// Has the next writer change the schema, where there is one to change to, and perhaps the index with it.
    fn widen(&mut self) {
        if self.width == Width::Number {
            self.width = Width::Changed(self.next);
            if self.options.index.is_some() && self.dice.below(2) == 0 {
                self.options.index = Some(vec!["id".into(), "price".into()]);
            }
        }
    }

    /// Changes the schema under the writer.
    fn alter(&mut self, writer: &mut Writer) -> arrowwood::Result<()> {
        if self.width != Width::Number {
            return Ok(());
        }
        // Changing it commits, without saying how many rows there are.
        self.commit(writer)?;
        self.width = Width::Changed(self.next);
        writer.alter(&schema(self.width))?;
        if self.options.sync == SyncPolicy::Commit {
            self.twin.mark.durable = self.twin.rows.len() as u64;
            self.note();
        }
        Ok(())
    }

    fn commit(&mut self, writer: &mut Writer) -> arrowwood::Result<()> {
        self.twin.mark.intended = (self.twin.rows.len() + self.twin.pending.len()) as u64;
        self.twin.ends.insert(self.twin.mark.intended);
        self.note();
        let done = commit(writer, self.has_positions, self.twin.mark.intended);
        if done.is_ok() || writer.committed_rows() == self.twin.mark.intended {
            self.twin.rows.append(&mut self.twin.pending);
            self.twin.mark.committed = self.twin.rows.len() as u64;
            self.note();
        }
        done?;
        if self.options.sync == SyncPolicy::Commit {
            self.twin.mark.durable = self.twin.rows.len() as u64;
            self.note();
        }
        Ok(())
    }

    fn sync(&mut self, writer: &mut Writer) -> arrowwood::Result<()> {
        writer.sync()?;
        assert_eq!(writer.durable_rows(), self.twin.rows.len() as u64);
        self.twin.mark.durable = self.twin.rows.len() as u64;
        self.note();
        Ok(())
    }

    fn drop_some(&mut self, writer: &mut Writer) -> arrowwood::Result<()> {
        let upto = self.dice.below(self.twin.rows.len() as u64 + 1);
        self.twin.mark.dropped = self.twin.mark.dropped.max(upto);
        self.note();
        writer.drop_before(upto)?;
        Ok(())
    }

    /// Puts the rows in order: of the sealed segments beside a writer, or of all.
    fn sort(&mut self, writer: Option<&mut Writer>) -> arrowwood::Result<()> {
        let sorted = in_order(&self.table(), &self.twin.rows, writer.is_some());
        self.twin.before.push(std::mem::replace(&mut self.twin.rows, sorted));
        let sorts = self.twin.before.len();
        self.twin.mark.orders = [sorts - 1, sorts];
        self.note();
        self.recorder.is_sorting.store(true, Ordering::SeqCst);
        let done = match writer {
            Some(writer) => writer.compact_with(SORT, |_, _| ()),
            None => compact_on(&self.options.medium, self.table(), SORT, |_, _| ()),
        };
        self.recorder.is_sorting.store(false, Ordering::SeqCst);
        if done.is_err() && !self.is_in_order()? {
            self.twin.rows.clone_from(&self.twin.before[sorts - 1]);
        }
        done?;
        self.twin.mark.orders = [sorts; 2];
        self.note();
        Ok(())
    }

    /// Whether the table's rows are those that should be there.
    fn is_in_order(&self) -> arrowwood::Result<bool> {
        let dataset = open(self.table())?;
        let rows = &self.twin.rows[dataset.first_row() as usize..];
        Ok(dataset.rows().zip(rows).all(|(row, &id)| row.is_ok_and(|row| is_row(&row, self.width, id))))
    }

    fn close(&mut self, mut writer: Writer) -> arrowwood::Result<()> {
        self.commit(&mut writer)?;
        writer.close()?;
        self.twin.mark.durable = self.twin.rows.len() as u64;
        self.note();
        Ok(())
    }

    /// Does something.
    fn step(&mut self, place: &mut Option<Writer>) -> arrowwood::Result<()> {
        let Some(writer) = place else {
            if self.dice.below(3) == 0 {
                self.widen();
            }
            *place = Some(self.open()?);
            return Ok(());
        };
        match self.dice.below(20) {
            0..8 => self.append(writer)?,
            8..12 => self.commit(writer)?,
            12..15 => self.sync(writer)?,
            15 if self.dice.below(2) == 0 => self.alter(writer)?,
            15 => {
                writer.rollback();
                self.twin.pending.clear();
            }
            16 if self.options.late.is_some() => {
                let mut writer = place.take();
                let done = self.sort(writer.as_mut());
                *place = writer;
                done?;
            }
            16 => drop(writer.compact(|_, _| ())?),
            17 if self.dice.below(2) == 0 => {
                self.recorder.fail_syncs(true);
                let done = writer.sync();
                self.recorder.fail_syncs(false);
                assert!(done.is_ok() || writer.commit().is_err(), "a writer goes on after a failed sync");
                if done.is_err() {
                    drop(place.take());
                }
            }
            17 => self.drop_some(writer)?,
            18 => {
                place.take().map_or(Ok(()), |writer| self.close(writer))?;
                if self.dice.below(3) == 0 {
                    compact_on(&self.options.medium, self.table(), CompactOptions::default(), |_, _| ())?;
                }
            }
            // As a process that ends without a word does; or one that is killed, as far as files go.
            _ => {
                drop(place.take());
                if self.dice.below(4) == 0 {
                    compact_on(&self.options.medium, self.table(), CompactOptions::default(), |_, _| ())?;
                }
                if self.options.late.is_some() && self.dice.below(4) == 0 {
                    self.sort(None)?;
                }
            }
        }
        Ok(())
    }

    fn play(&mut self, steps: u64) -> arrowwood::Result<()> {
        let mut writer = None;
        for _ in 0..steps {
            self.step(&mut writer)?;
        }
        writer.filter(|_| self.dice.below(2) == 0).map_or(Ok(()), |writer| self.close(writer))
    }
}

/// What was found, for the report.
#[derive(Debug, Default)]
struct Count {
    images: u64,
    reopened: u64,
    twice: u64,
    /// Rows that writers said were lost: all in all, and the most of one of them.
    dropped: u64,
    most_dropped: u64,
}

/// What comes after an image was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Stop,
    WriteOn,
    /// A writer goes on, and the power is cut again at each of its acts.
    CutAgain,
}

/// Commits, with a position that says how many rows there are, and one of some others.
fn commit(writer: &mut Writer, has_positions: bool, rows: u64) -> arrowwood::Result<()> {
    match has_positions {
        true => writer.commit_with(&[("rows", rows as i64), (&format!("other-{}", rows % 3), -(rows as i64))]),
        false => writer.commit(),
    }
}

/// What a run leaves to be judged.
struct Case<'a> {
    width: Width,
    /// All rows in each of the orders that they were in, one after the other.
    orders: &'a [Vec<u64>],
    /// What the number of rows may be: a part of a commit is never seen.
    ends: BTreeSet<u64>,
    has_positions: bool,
    options: &'a WriterOptions,
    /// The folder that the table is in.
    from: &'a Path,
    loss: Loss,
}

/// What has lost the pages that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The machine: it is booted again.
    Power,
    /// The page cache of a file system: it is mounted again, in the same boot.
    PageCache,
}

impl Loss {
    /// Everything from now on is behind the loss.
    fn happens(self) {
        match self {
            Loss::Power => another_boot(),
            Loss::PageCache => another_mount(),
        }
    }
}

impl Case<'_> {
    /// Opens the table of one image, as readers and then perhaps as a writer do.
    fn judge(&self, disk: &Disk, luck: Luck, dice: &mut Dice, count: &mut Count, depth: u32) -> Result<(), String> {
        let image = disk.image(luck, dice);
        let then = match depth > 1 || dice.below(4) > 0 {
            true => Then::Stop,
            false if depth == 0 && dice.below(8) == 0 => Then::CutAgain,
            false => Then::WriteOn,
        };
        // The very page cache, through another mount: nothing is lost.
        let is_all = self.loss == Loss::PageCache && luck == Luck::Everything && !disk.has_failed();
        let committed = if is_all { disk.mark.committed } else { 0 };
        self.judge_image(Mark { committed, ..disk.mark }, &image, then, dice, count, depth)
    }

    fn judge_image(
        &self,
        mark: Mark,
        image: &Image,
        then: Then,
        dice: &mut Dice,
        count: &mut Count,
        depth: u32,
    ) -> Result<(), String> {
        let home = folder_in_memory();
        image.write(self.from, home.path());
        count.images += 1;
        let table = home.path().join("ticks");
        if self.loss == Loss::PageCache {
            // No other image has been read through this mount.
            another_mount();
        }
        let rows = match open(&table) {
            Ok(dataset) => self.read(&dataset, mark)?,
            Err(e) if mark.exists => return Err(format!("can't be opened: {e}")),
            Err(_) => Vec::new(),
        };
        let end = rows.len() as u64;
        if then == Then::Stop {
            return Ok(());
        }
        count.reopened += 1;
        let recorder = Arc::new(Recorder::default());
        let options = WriterOptions { medium: FileSystem::with_observer(recorder.clone()), ..self.options.clone() };
        // What is read after a cut of the power was durable. What is proven is there, and is durable when it is synced.
        let durable = if self.loss == Loss::Power { end.max(mark.durable) } else { mark.durable };
        let said = Mark { durable, committed: 0, intended: end, orders: [0; 2], ..mark };
        let home_path = std::fs::canonicalize(home.path()).unwrap();
        let second = image.disk(self.from, &home_path, said);
        let ticks = home_path.join("ticks");
        // A second cut may bring back a record of rows that the first one has cost.
        let intended = if depth == 0 { mark.intended } else { u64::MAX };
        let (rows, marks, dropped) = self.go_on(&ticks, &rows, &options, &recorder, said, intended)?;
        count.dropped += dropped;
        count.most_dropped = count.most_dropped.max(dropped);
        if then == Then::CutAgain {
            let mut ends = self.ends.clone();
            ends.extend([end + 2, end + 3]);
            let (from, has_positions) = (home_path.as_path(), self.has_positions);
            let (options, width, loss) = (self.options, self.width, self.loss);
            let case = Case { orders: &[rows], from, options, width, ends, has_positions, loss };
            let before = count.images;
            judge_all(&case, second, marks, dice, count, depth + 1)?;
            count.twice += count.images - before;
        }
        Ok(())
    }

    /// What the rows are, by number, those that were dropped too.
    fn read(&self, dataset: &Dataset, mark: Mark) -> Result<Vec<u64>, String> {
        let failed = |e: arrowwood::Error| format!("can't be read: {e}");
        dataset.validate(|_, _| ()).map_err(failed)?;
        let (first, rows) = (dataset.first_row(), dataset.len().map_err(failed)?);
        let end = first + rows;
        if first > mark.dropped || end < mark.durable.max(mark.committed) || end > mark.intended {
            let files = records_of(dataset.path().unwrap_or(Path::new("")));
            return Err(format!("rows {first} .. {end}, and {mark:?}, of{files}"));
        }
        if end > 0 && !self.ends.contains(&end) {
            let files = records_of(dataset.path().unwrap_or(Path::new("")));
            return Err(format!(
                "rows {first} .. {end} are a part of a commit, which end at {:?}, of{files}",
                self.ends
            ));
        }
        let positions = dataset.positions().map_err(failed)?;
        let expected = (self.has_positions && end > 0).then_some(end as i64);
        if positions.get("rows").copied().filter(|&rows| rows > 0) != expected {
            let files = records_of(dataset.path().unwrap_or(Path::new("")));
            return Err(format!("rows {first} .. {end}, and positions {positions:?}, of{files}"));
        }
        let mut found = Err("no order of rows is known".into());
        for order in self.orders[mark.orders[0]..=mark.orders[1]].iter().filter(|order| order.len() as u64 >= end) {
            found = self.are_rows(dataset, (first, end), order);
            if found.is_ok() {
                return self
                    .find(dataset, &order[first as usize..end as usize])
                    .map(|()| order[..end as usize].to_vec());
            }
        }
        found.map(|()| Vec::new())
    }

    /// Compares the rows `first .. end`.
    fn are_rows(&self, dataset: &Dataset, (first, end): (u64, u64), order: &[u64]) -> Result<(), String> {
        for (number, row) in (first..end).zip(dataset.rows()) {
            let (row, id) = (row.map_err(|e| format!("can't be read: {e}"))?, order[number as usize]);
            if !is_row(&row, self.width, id) {
                return Err(format!("row {number} is {row:?}, expected that of {id}"));
            }
        }
        Ok(())
    }

    /// What zones say is true of the rows that are left.
    fn find(&self, dataset: &Dataset, rows: &[u64]) -> Result<(), String> {
        let has_price = dataset.schema().column_with_name("price").is_some();
        let price_of = |id: u64| match self.width {
            // Where it is being added, no row has one yet.
            Width::Number => None,
            Width::Changed(first) if id < first => None,
            _ => price(id).filter(|_| has_price),
        };
        for &id in rows.iter().step_by(1 + rows.len() / 8) {
            let by_id = (col("id").eq(id as i64), rows.iter().filter(|&&other| other == id).count());
            let by_price = price_of(id).map(|price| {
                let has_it = |other: &&u64| price_of(**other) == Some(price);
                (col("price").eq(price), rows.iter().filter(has_it).count())
            });
            for (condition, expected) in [Some(by_id), by_price].into_iter().flatten() {
                let found = dataset.filter(&condition).and_then(|found| found.len());
                let found = found.map_err(|e| format!("{condition} can't be asked: {e}"))?;
                if found != expected as u64 {
                    return Err(format!("{condition} finds {found} rows, expected {expected}"));
                }
            }
        }
        Ok(())
    }

    /// Goes on writing; the rows there should be then, and what was done.
    fn go_on(
        &self,
        table: &Path,
        before: &[u64],
        options: &WriterOptions,
        recorder: &Recorder,
        mark: Mark,
        intended: u64,
    ) -> Result<(Vec<u64>, Vec<Event>, u64), String> {
        let failed = |e: arrowwood::Error| format!("can't be written: {e}");
        let end = before.len() as u64;
        let mut writer = Writer::open(table, Some(schema(self.width)), options).map_err(failed)?;
        if writer.rows() != end {
            return Err(format!("a writer goes on from row {}, and a reader saw {end}", writer.rows()));
        }
        let dropped = writer.dropped_rows();
        if end + dropped > intended {
            return Err(format!("{dropped} rows are said to be lost behind row {end}, and {intended} were to be"));
        }
        recorder.mark(Mark { exists: true, ..mark });
        let mut rows = before.to_vec();
        for ids in [&[1_000_001, 1_000_002][..], &[1_000_003]] {
            rows.extend(ids);
            writer.append(&batch(self.width, ids)).map_err(failed)?;
            recorder.mark(Mark { exists: true, intended: rows.len() as u64, ..mark });
            let committed = commit(&mut writer, self.has_positions, rows.len() as u64);
            committed.and_then(|()| writer.sync()).map_err(failed)?;
            recorder.mark(Mark { exists: true, intended: rows.len() as u64, durable: rows.len() as u64, ..mark });
        }
        drop(writer);
        let (ends, has_positions) = ([rows.len() as u64].into(), self.has_positions);
        let orders = [rows];
        let (width, from, loss) = (self.width, self.from, self.loss);
        let whole = Case { orders: &orders, width, options, from, ends, has_positions, loss };
        let len = orders[0].len() as u64;
        let all = Mark { durable: len, intended: len, ..mark };
        whole.read(&open(table).map_err(failed)?, all)?;
        let [rows] = orders;
        Ok((rows, recorder.take(), dropped))
    }
}

/// The records of a table's segments, for a message.
fn records_of(table: &Path) -> String {
    let files = std::fs::read_dir(table).into_iter().flatten().map(|file| file.unwrap().path());
    let stats = files.filter_map(|file| segment_stat(&file).ok().flatten());
    let record = |record: &arrowwood::RecordStat| {
        let (sealed, provisional) = (record.sealed, record.provisional);
        let (place, number, end) = (record.place, record.sequence, record.end);
        format!(" [{place:?} {number} up to {end}, sealed: {sealed}, provisional: {provisional}]")
    };
    stats
        .map(|stat| {
            let records: String = stat.records.iter().map(record).collect();
            format!("\n  {} at {}:{records}", stat.first_row, stat.sequence)
        })
        .collect()
}

/// Cuts the power before each of the events, and after the last.
fn judge_all(
    case: &Case<'_>,
    mut disk: Disk,
    events: Vec<Event>,
    dice: &mut Dice,
    count: &mut Count,
    depth: u32,
) -> Result<(), String> {
    for number in 0..=events.len() {
        let event = events.get(number);
        let is_act = event.is_some_and(|event| !matches!(event, Event::Mark(_)));
        if event.is_none() || (is_act && !disk.is_synced()) {
            case.loss.happens();
            // All of them where something reaches the disk, and one by turns at each store.
            let turn = number % Luck::ALL.len();
            let is_store = matches!(event, Some(Event::Put(..)));
            for &luck in if is_store { &Luck::ALL[turn..=turn] } else { &Luck::ALL[..] } {
                let torn = event.filter(|_| luck != Luck::Nothing && dice.below(3) == 0);
                let torn = torn.and_then(|event| disk.torn(event, dice));
                let at = torn.as_ref().unwrap_or(&disk);
                let judged = case.judge(at, luck, dice, count, depth);
                if let Err(e) = judged {
                    if std::env::var_os("ARROWWOOD_POWER_SHOW").is_some() {
                        events.iter().take(number + 1).for_each(|event| eprintln!("{event:.200?}"));
                    }
                    return Err(format!("cut {number} of {}, {luck:?}: {e}", events.len()));
                }
            }
        }
        if let Some(event) = event {
            disk.apply(event);
        }
    }
    Ok(())
}

/// The machine is started again.
fn another_boot() {
    static BOOTS: AtomicU64 = AtomicU64::new(1);
    simulate_boot(Some(u128::from(BOOTS.fetch_add(1, Ordering::Relaxed)).to_be_bytes()));
}

/// The file system is mounted again.
fn another_mount() {
    static MOUNTS: AtomicU64 = AtomicU64::new(1);
    simulate_mount(Some(MOUNTS.fetch_add(1, Ordering::Relaxed)));
}

fn run(seed: u64, loss: Loss, count: &mut Count) -> Result<(), String> {
    another_boot();
    another_mount();
    let mut run = Run::new(seed);
    run.recorder.track_durable_rows(run.table());
    let steps = 4 + run.dice.below(30);
    run.play(steps).map_err(|e| format!("{e}"))?;
    let events = run.recorder.take();
    let from = std::fs::canonicalize(run.home.path()).unwrap();
    let orders = run.twin.orders();
    let case = Case {
        width: run.width,
        orders: &orders,
        ends: run.twin.ends.clone(),
        has_positions: run.has_positions,
        options: &run.options,
        from: &from,
        loss,
    };
    judge_all(&case, Disk::default(), events, &mut run.dice, count, 0)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_power_cut_costs_no_durable_row() {
    alone!();
    lose_at_each_moment(Loss::Power);
}

#[test]
fn a_lost_page_cache_costs_no_durable_row() {
    alone!();
    lose_at_each_moment(Loss::PageCache);
}

fn lose_at_each_moment(loss: Loss) {
    let (first, runs) = (number("ARROWWOOD_POWER_SEED", 0), number("ARROWWOOD_POWER_RUNS", 6));
    let mut count = Count::default();
    // One that has found a fault comes first.
    let found = [20].into_iter().filter(|_| first == 0);
    for seed in found.chain(first..first + runs) {
        if seed % 50 == 0 && runs > 50 {
            eprintln!("  seed {seed}: {count:?}");
        }
        if let Err(e) = run(seed, loss, &mut count) {
            panic!("seed {seed}: {e}; repeat it with ARROWWOOD_POWER_SEED={seed} ARROWWOOD_POWER_RUNS=1");
        }
    }
    simulate_boot(None);
    simulate_mount(None);
    eprintln!("  {runs} runs, {loss:?}: {count:?}");
    assert!(count.images > 1000 && count.reopened > 0 && count.dropped > 0);
}

/// A run in which the disk refuses something; how the writer takes it, and what is there afterwards.
fn suffer(seed: u64, after: u64, errno: i32, lasting: bool, steps: u64) -> Result<bool, String> {
    let mut run = Run::new(seed);
    run.recorder.fail(after, errno, lasting);
    let (mut writer, mut failure) = (None, None);
    for _ in 0..steps {
        failure = run.step(&mut writer).err();
        if failure.is_some() {
            break;
        }
    }
    if !run.recorder.clear_fault() {
        return Ok(false);
    }
    if failure.as_ref().is_some_and(|e| e.kind() == arrowwood::ErrorKind::InvalidData) {
        return Err(format!("a failure of the disk is no damage: {failure:?}"));
    }
    look(&run)?;
    if let Some(mut writer) = writer {
        carry_on(&mut run, &mut writer, failure)?;
        look(&run)?;
    }
    let mut writer = run.open().map_err(|e| format!("can't be opened any more: {e}"))?;
    let ids = run.fresh(3);
    run.twin.pending = ids.clone();
    let rows = run.batch_for(&writer, &ids);
    let done = writer.append(&rows).and_then(|()| run.commit(&mut writer));
    done.and_then(|()| run.sync(&mut writer)).map_err(|e| format!("can't be written any more: {e}"))?;
    drop(writer);
    look(&run)?;
    Ok(true)
}

/// What is committed is there, and nothing else.
fn look(run: &Run) -> Result<(), String> {
    let orders = run.twin.orders();
    let (ends, has_positions, from) = (run.twin.ends.clone(), run.has_positions, run.home.path());
    let (width, options, loss) = (run.width, &run.options, Loss::Power);
    let case = Case { width, orders: &orders, options, from, ends, has_positions, loss };
    let committed = run.twin.rows.len() as u64;
    match open(run.table()) {
        Ok(dataset) => {
            let sorts = run.twin.before.len();
            let mark = Mark { durable: committed, intended: committed, orders: [sorts; 2], ..run.twin.mark };
            case.read(&dataset, mark).map(drop)
        }
        Err(_) if committed == 0 => Ok(()),
        Err(e) => Err(format!("can't be opened: {e}")),
    }
}

/// All is well again: the same writer goes on, or says that it doesn't.
fn carry_on(run: &mut Run, writer: &mut Writer, failure: Option<arrowwood::Error>) -> Result<(), String> {
    let was_sync = failure.as_ref().is_some_and(|e| e.message().contains("syncing rows"));
    let ids = run.fresh(2);
    let rows = run.batch_for(writer, &ids);
    let done = writer.append(&rows).and_then(|()| {
        run.twin.pending.extend(&ids);
        run.commit(writer)
    });
    match done {
        Ok(()) if was_sync => Err("a writer goes on after its disk has failed to sync".into()),
        Ok(()) => Ok(()),
        Err(e) if e.kind() == arrowwood::ErrorKind::Closed && e.message().contains("open the table anew") => {
            run.twin.pending.clear();
            Ok(())
        }
        Err(e) => Err(format!("after {failure:?} a writer can't go on: {e}")),
    }
}

#[test]
fn every_failure_of_the_disk_is_an_error_and_costs_nothing() {
    alone!();
    simulate_boot(None);
    let (first, runs) = (number("ARROWWOOD_POWER_SEED", 0), number("ARROWWOOD_ERROR_RUNS", 2));
    let errors =
        [libc::ENOSPC, libc::EIO, libc::ENOMEM, libc::EMFILE, libc::EDQUOT, libc::ENFILE, libc::EACCES, libc::EROFS];
    let (mut cases, mut number) = (0, 0);
    for seed in first..first + runs {
        for lasting in [false, true] {
            for after in 0.. {
                // All of them at each act in the long form, one by turns in the short one.
                let each = if runs > 2 { &errors[..] } else { &errors[number % errors.len()..][..1] };
                number += 1;
                let mut is_over = false;
                for &errno in each {
                    let hit = suffer(seed, after, errno, lasting, 25);
                    is_over |=
                        !hit.unwrap_or_else(|e| panic!("seed {seed}, act {after}, errno {errno}, {lasting}: {e}"));
                    cases += 1;
                }
                if is_over {
                    break;
                }
            }
        }
    }
    eprintln!("  {cases} failures in {runs} runs");
    assert!(cases > 100);
}

/// Reads the table at each act of its writer.
#[derive(Debug, Default)]
struct Onlooker {
    recorder: Arc<Recorder>,
    /// The table, its columns, and what it was before the step that goes on.
    seen: Mutex<Option<(PathBuf, Width, Twin, bool)>>,
    looks: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl FsObserver for Onlooker {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let seen = self.seen.lock().unwrap();
        if let Some((table, width, twin, has_positions)) = &*seen
            && let Ok(dataset) = open(table)
        {
            self.looks.fetch_add(1, Ordering::Relaxed);
            let order = |rows: Vec<u64>| rows.into_iter().chain(twin.pending.iter().copied()).collect::<Vec<_>>();
            let orders =
                [twin.rows.clone(), in_order(table, &twin.rows, true), in_order(table, &twin.rows, false)].map(order);
            let last = if self.recorder.is_sorting.load(Ordering::SeqCst) { 2 } else { 0 };
            let options = WriterOptions::default();
            let (durable, intended) = (twin.rows.len() as u64, orders[0].len() as u64);
            let ends = [durable, intended].into();
            let has_positions = *has_positions;
            let (width, options, loss) = (*width, &options, Loss::Power);
            let case = Case { width, orders: &orders, options, from: table, ends, has_positions, loss };
            let read = case.read(
                &dataset,
                Mark { durable, committed: 0, intended, dropped: intended, exists: true, orders: [0, last] },
            );
            self.wrong.lock().unwrap().extend(read.err().map(|e| format!("before {act:.100?}: {e}")));
        }
        self.recorder.before_op(act)
    }
}

/// Runs a writer step by step, with somebody who reads at each of its acts. `first` rows come before all.
fn be_seen(seed: u64, first: u64, steps: u64) -> u64 {
    let onlooker = Arc::new(Onlooker::default());
    let mut run = Run::watched(seed, onlooker.recorder.clone(), onlooker.clone());
    run.options.zone_rows = Some(1000);
    let mut writer = None;
    if first > 0 {
        (run.width, run.options.segment_rows) = (Width::Plain, Some(1 << 17));
        run.options.dictionary.clear();
        writer = Some(run.open().unwrap());
        run.twin.pending = run.fresh(first);
        let batch = batch(run.width, &run.twin.pending);
        writer.as_mut().unwrap().append(&batch).and_then(|()| run.commit(writer.as_mut().unwrap())).unwrap();
    }
    for _ in 0..steps {
        *onlooker.seen.lock().unwrap() = Some((run.table(), run.width, run.twin.clone(), run.has_positions));
        run.step(&mut writer).unwrap();
        let wrong = onlooker.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong[0]);
    }
    *onlooker.seen.lock().unwrap() = None;
    onlooker.looks.load(Ordering::Relaxed)
}

#[test]
fn committed_rows_are_the_same_at_every_act_of_the_writer() {
    alone!();
    simulate_boot(None);
    let (first, runs) = (number("ARROWWOOD_POWER_SEED", 0), number("ARROWWOOD_SEEN_RUNS", 6));
    let looks: u64 = (first..first + runs).map(|seed| be_seen(seed, 0, 40)).sum();
    eprintln!("  {looks} looks at {runs} runs");
    assert!(looks > 500);
}

/// A simulated power cut found nulls in committed rows. Before single rows are stored through the mapping, their pages
/// are written with zeros; and where a page began with the byte that a bitmap's last committed bits stand in, those were
/// zeros for a moment, for every reader, and for good if the writer was killed in it.
#[test]
fn the_last_byte_of_a_bitmap_is_never_cleared() {
    alone!();
    simulate_boot(None);
    for rows in [3, 32768 + 3] {
        assert!((0..3).map(|seed| be_seen(seed, rows, 6)).sum::<u64>() > 50);
    }
}
