//! [`Writer`]: appends to a table.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_data::ArrayData;
use arrow_schema::{FieldRef, SchemaRef};

use super::background::{BackgroundWork, Durability, cannot_go_on, removed};
use super::live_file::{LiveFile, SyncTarget};
use super::live_segment::{LiveSegment, OPEN, SEALED, SegmentShape};
use super::open::{
    FIRST_ROWS, acquire_lock, dictionary_counter, first_guess, first_segment, give_name, known_settings, live_segment,
    no_table, not_made, read_entries, refuse_file, refuse_remote, refuse_twins, replace_name, take_on,
    with_dictionaries,
};
use super::options::{SyncPolicy, WriterOptions};
use super::prepared_commit;
use super::schema_change::changed;
use crate::dataset::{ComparableValue, Dataset, order};
use crate::directory::{exists, is_empty_directory};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{ChangeCheck, DirectoryLock, FileSystem, guard, is_moved_directory, remove_leftovers};
use crate::rows::{DictionaryEntries, FillState, IncomingRows, Plan, PlanDictionary, RowSink, batch_arrays};
use crate::table::format::{CommitState, TableSettings};
use crate::table::placement::MOST_ROWS;
use crate::table::reader::{SegmentChain, chain, table, without_settings};

/// The maximum number of commits between checks that the live segment still exists.
const LOOK_EVERY: u32 = 64;

/// The maximum number of segments of a commit, each of which holds a descriptor and a mapping until then.
const MOST_UNCOMMITTED: u64 = 1 << 15;

/// The single writer of a growing table.
///
/// Appended rows become visible to readers when they are committed: all of them or none. Uncommitted rows are lost when
/// the writer is dropped.
///
/// A failed assertion, which is a bug of this library, is an error of kind `Internal`. After it every call is: nothing more is
/// written, and the committed rows stay as they are.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    pub(super) plan: Arc<Plan>,
    /// The live segment, then those of uncommitted rows.
    pub(super) segments: Vec<LiveSegment>,
    pub(super) entries: Vec<DictionaryEntries>,
    /// The keys of the row being appended, kept to save allocations.
    pub(super) row_keys: Vec<u32>,
    /// The newest value of the column by which the table is sorted: appended, and committed.
    pub(super) last: (Option<ComparableValue>, Option<ComparableValue>),
    pub(super) sorted_by: Option<usize>,
    /// For future segments.
    pub(super) settings: TableSettings,
    /// The names of positions, in the order of their values.
    pub(super) names: Vec<String>,
    medium: FileSystem,
    pub(super) background: BackgroundWork,
    pub(super) sync: SyncPolicy,
    /// The error of all further calls, once nothing can be written any more.
    broken: Option<Error>,
    dropped: u64,
    /// The number of commits since the last check that the live segment still exists.
    unlooked: u32,
    /// The number of rows in the live segment at which the next one is requested.
    order_at: u64,
}

/// The state before an append, to return to if it fails.
struct Savepoint {
    segments: usize,
    /// The last of the segments, which the append may replace if it is empty.
    live: Arc<LiveFile>,
    /// How far it was filled.
    mark: FillState,
    /// The newest value of the column by which the table is sorted.
    last: Option<ComparableValue>,
    /// The number of entries of each dictionary.
    known: Vec<usize>,
}

impl Writer {
    /// Opens the table at `path` for writing, or creates it if there is none and a schema is given. If the schema has
    /// more nullable columns than the table, wider numbers, or columns made nullable, the table's schema is changed:
    /// see [`Writer::alter`]. Text keeps its type in the table.
    ///
    /// # Errors
    /// `Busy` while another process writes, naming it; `SchemaMismatch` with all differences; `NotFound` where there
    /// is neither a table nor a schema; `Unsupported` for types that don't grow, and on network file systems.
    pub fn open(path: impl AsRef<Path>, schema: Option<SchemaRef>, options: &WriterOptions) -> Result<Writer> {
        let path = path.as_ref();
        catch_panic(|| guard(|| Writer::open_at(path, schema, options))).map_err(|e| e.at(path))
    }

    fn open_at(path: &Path, schema: Option<SchemaRef>, options: &WriterOptions) -> Result<Writer> {
        let schema = schema.map(|schema| with_dictionaries(&schema, &options.dictionary)).transpose()?;
        let is_there = exists(path)?;
        if let Some(schema) = &schema {
            refuse_twins(schema)?;
            // A table that can't be made leaves no folder behind.
            let plan = Plan::for_schema(schema)?;
            if !is_there {
                options.settings(&plan)?;
            }
        }
        let mut is_named = false;
        if !is_there {
            if schema.is_none() {
                return Err(no_table());
            }
            match options.medium.create_dir(path) {
                // Another process was faster, and is creating the table.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => (),
                made => made.map(|()| is_named = true).map_err(|e| not_made(path, &e))?,
            }
        }
        refuse_file(path)?;
        // The process may change its working directory, and the path may be a symbolic link.
        let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's directory", &e))?;
        refuse_remote(path, options.force)?;
        let lock = acquire_lock(&options.medium, path)?;
        let options = &WriterOptions { medium: lock.medium().clone(), ..options.clone() };
        remove_leftovers(&options.medium, path)
            .map_err(|e| Error::io("syncing the directory that the table is in", &e))?;
        match prepared_commit::open(&options.medium, path)? {
            Some(chain) => {
                prepared_commit::map_home_error(&options.medium, Writer::reopen(path, chain, schema, options, lock))
            }
            None if !is_empty_directory(path)? => Err(chain::foreign_files_error(path)),
            None => {
                if !is_named {
                    // Whoever made it may have been killed before its name was on the disk.
                    let synced = options.medium.sync_parent(path);
                    synced.map_err(|e| Error::io("syncing the directory that the table is in", &e))?;
                }
                Writer::create(path, schema, options, lock)
            }
        }
    }

    fn create(path: &Path, schema: Option<SchemaRef>, options: &WriterOptions, lock: DirectoryLock) -> Result<Writer> {
        let schema = without_settings(&schema.ok_or_else(no_table)?);
        let plan = Arc::new(Plan::for_schema(&schema)?);
        let live = first_segment(&options.medium, path, &plan, 0, options.settings(&plan)?)?;
        give_name(&live, path)?;
        // A created table survives a power cut.
        lock.sync().map_err(|e| Error::io("syncing the directory", &e))?;
        let entries = plan.dictionaries.iter().map(PlanDictionary::new_entries).collect();
        Writer::start(path, plan, (Vec::new(), live), entries, options, lock)
    }

    fn start(
        path: &Path,
        plan: Arc<Plan>,
        (pending, live): (Vec<Arc<LiveFile>>, LiveSegment),
        entries: Vec<DictionaryEntries>,
        options: &WriterOptions,
        lock: DirectoryLock,
    ) -> Result<Writer> {
        let every = match options.sync {
            SyncPolicy::Every(every) => Some(every.max(Duration::from_millis(1))),
            _ => None,
        };
        let header = &live.shared.header;
        let sorted_by = header.order().map(|column| column as usize);
        let settings = options.over(header.settings(), &plan)?;
        let pending = pending.into_iter().chain([live.shared.clone()]).collect();
        let background = BackgroundWork::start(lock, path, pending, every)?;
        let mut writer = Writer {
            folder: path.to_path_buf(),
            plan,
            segments: vec![live],
            entries,
            row_keys: Vec::new(),
            last: (None, None),
            sorted_by,
            settings,
            names: Vec::new(),
            medium: options.medium.clone(),
            background,
            sync: options.sync,
            broken: None,
            dropped: 0,
            unlooked: 0,
            order_at: u64::MAX,
        };
        writer.expect_next();
        Ok(writer)
    }

    fn reopen(
        path: &Path,
        chain: SegmentChain,
        schema: Option<SchemaRef>,
        options: &WriterOptions,
        lock: DirectoryLock,
    ) -> Result<Writer> {
        chain.remove_orphans(&options.medium, path)?;
        let dataset = table::open(path, Default::default())?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the table has gone"))?;
        prepared_commit::check_home(&options.medium)?;
        let there = without_settings(dataset.schema());
        let newer = schema.map_or(Ok(None), |schema| changed(&there, &schema))?;
        let newer_plan = newer.as_deref().map(Plan::for_schema).transpose()?;
        let plan = Arc::new(Plan::for_schema(&there)?);
        // Until the schema is changed, the table has none of the new columns.
        let before = newer.as_ref().map(|_| options.for_columns_of(&there));
        let before = before.as_ref().unwrap_or(options);
        // Options that the table can't have are refused before anything is changed.
        let settings = before.over(known_settings(&chain, &dataset)?, &plan)?;
        newer_plan.as_ref().map_or(Ok(()), |newer| options.over(settings.clone(), newer).map(drop))?;
        let (live, dropped) = live_segment(&options.medium, path, &chain, &dataset, (&plan, settings))?;
        let entries = read_entries(&live)?;
        let pending = take_on(&lock, path, &chain, &live, &plan)?;
        let mut writer = Writer::start(path, plan, (pending, live), entries, before, lock)?;
        writer.dropped = dropped;
        writer.names = dataset.position_names()?;
        if let Some(column) = writer.sorted_by
            && dataset.len()? > 0
        {
            let key = ComparableValue::from_value(&dataset.row_from_end(1)?.get(column)?);
            writer.last = (key.clone(), key);
        }
        if let Some((newer, plan)) = newer.zip(newer_plan) {
            writer.settings = options.over(writer.settings.clone(), &plan)?;
            writer.go_on_with(&newer)?;
        }
        Ok(writer)
    }

    /// The table's schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema.schema
    }

    pub(super) fn medium(&self) -> &FileSystem {
        &self.medium
    }

    /// The table's folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The number of the row after the last one appended. Rows keep their numbers when earlier ones are dropped.
    pub fn rows(&self) -> u64 {
        self.segments.last().map_or(0, LiveSegment::end)
    }

    /// The number of the row after the last one that others can see.
    pub fn committed_rows(&self) -> u64 {
        self.segments.first().map_or(0, |live| live.first_row() + live.committed.counters[0])
    }

    /// The number of the row after the last one that would survive a power cut.
    pub fn durable_rows(&self) -> u64 {
        self.background.durable_rows()
    }

    /// Returns a handle for waiting, on any thread, until commits become durable.
    pub fn durability(&self) -> Durability {
        self.background.durability()
    }

    /// The number of committed but unsynced rows lost in a system crash before this writer was opened.
    pub fn dropped_rows(&self) -> u64 {
        self.dropped
    }

    /// Appends the rows of a batch, whose columns are matched by name.
    ///
    /// # Errors
    /// `SchemaMismatch` and `InvalidArgument`, naming column and row; `Io` for a full disk. Then nothing was appended.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.stop_at_panic(|writer| writer.append_arrays(schema.fields(), &batch_arrays(batch), batch.num_rows()))
    }

    /// Appends all rows of a dataset.
    ///
    /// # Errors
    /// As [`Writer::append`]; then nothing was appended.
    pub fn append_dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.check()?;
        self.stop_at_panic(|writer| {
            let before = writer.savepoint();
            let appended = dataset.with_change_check(ChangeCheck::Now, || writer.append_parts(dataset));
            if appended.is_err() {
                writer.restore(before);
            }
            appended
        })
    }

    fn append_parts(&mut self, dataset: &Dataset) -> Result<()> {
        for part in dataset.parts() {
            let part = part?;
            self.append_arrays(dataset.schema().fields(), &part.columns()?, part.rows.len())?;
        }
        Ok(())
    }

    fn append_arrays(&mut self, fields: &[FieldRef], arrays: &[ArrayData], rows: usize) -> Result<()> {
        self.check()?;
        self.check_row_count(rows as u64).map_err(|e| e.at(&self.folder))?;
        let before = self.savepoint();
        let appended = guard(|| {
            let incoming = IncomingRows::new(&self.plan, fields, arrays, rows, &mut self.entries)?;
            if let Some(column) = self.sorted_by {
                let name = self.plan.columns[column].field.name();
                self.last.0 = order::check_ascending(name, &incoming.arrays[column], self.last.0.as_ref())?;
            }
            self.write(&incoming)
        });
        if appended.is_err() {
            self.restore(before);
        }
        appended.map_err(|e| e.at(&self.folder))
    }

    /// Refuses more rows than a table or a commit can have: without bytes, as of the null type, a small file may claim
    /// any number.
    fn check_row_count(&self, rows: u64) -> Result<()> {
        if self.rows().saturating_add(rows) >= MOST_ROWS {
            return Err(Error::invalid_argument(format!("appending {rows} rows: a table has less than 2^62 rows")));
        }
        let most = self.settings.segment_rows;
        let segments = self.segments.len() as u64 + rows / most;
        if segments > MOST_UNCOMMITTED {
            return Err(Error::invalid_argument(format!(
                "appending {rows} rows: they would take {segments} segments of up to {most} rows, and a commit has \
                 {MOST_UNCOMMITTED} at most; append them in parts, and commit each"
            )));
        }
        Ok(())
    }

    fn write(&mut self, incoming: &IncomingRows) -> Result<()> {
        let mut from = 0;
        while from < incoming.rows {
            let live = self.live();
            let counters = &live.now.counters;
            let limits = live.limits();
            let room = incoming.rows_that_fit(&self.plan, from, counters, limits, &self.entries)?;
            if room == 0 {
                let zeros = vec![0; self.plan.counters];
                let needed = incoming.counters_after(&self.plan, from..from + 1, &zeros, &self.entries)?;
                self.roll(&needed)?;
                continue;
            }
            let entries = std::mem::take(&mut self.entries);
            let written = self.live_mut().and_then(|live| {
                let before = live.rows();
                incoming.write(from..from + room, live, &entries)?;
                live.put_zones(before)
            });
            self.entries = entries;
            written?;
            from += room;
        }
        Ok(())
    }

    pub(super) fn live(&self) -> &LiveSegment {
        &self.segments[self.segments.len() - 1]
    }

    #[inline]
    pub(super) fn live_mut(&mut self) -> Result<&mut LiveSegment> {
        self.segments.last_mut().ok_or_else(no_segment)
    }

    /// Continues in a new segment, with room for a row that needs `needed`.
    pub(super) fn roll(&mut self, needed: &[u64]) -> Result<()> {
        let shape = self.next_shape(needed)?;
        let full = self.live();
        if full.rows() == 0 {
            return self.replace_empty(shape);
        }
        let fits = |ahead: &LiveSegment| {
            let is_next = ahead.first_row() == shape.first_row && ahead.limits()[0] == shape.limits[0];
            // All entries of dictionaries go along, which may be many more than when it was ordered.
            let carried = |counter| dictionary_counter(&self.plan, counter).map_or(0, |_| full.now.counters[counter]);
            let mut limits = ahead.limits().iter().zip(needed).enumerate();
            is_next && limits.all(|(counter, (&limit, &needed))| limit >= needed.max(carried(counter)))
        };
        let mut next = match self.background.ordered().filter(fits) {
            Some(ahead) => ahead,
            None => LiveSegment::create(&self.medium, &self.folder, &self.plan, shape, true)?,
        };
        self.carry_over(&mut next, &self.live().entry_counts())?;
        self.segments.push(next);
        Ok(())
    }

    /// Copies the shared state to the next segment: the first `known` entries of each dictionary, since keys mean the
    /// same in all segments, and the positions.
    pub(super) fn carry_over(&self, next: &mut LiveSegment, known: &[usize]) -> Result<()> {
        for (number, (entries, &known)) in self.entries.iter().zip(known).enumerate() {
            next.put_entries(number, entries, known)?;
        }
        next.put_names(&self.names)?;
        next.positions.clone_from(&self.live().positions);
        next.committed = next.now.clone();
        Ok(())
    }

    /// The shape of the segment after the last one, based on its contents; it has room for a row that needs `needed`.
    fn next_shape(&self, needed: &[u64]) -> Result<SegmentShape> {
        let full = self.live();
        let rows = (2 * full.limits()[0]).min(self.settings.segment_rows).max(1);
        let observed = |counter: usize| {
            let per_row = full.now.counters[counter] as f64 / full.rows().max(1) as f64;
            ((per_row * rows as f64 * 1.25) as u64).min(1 << 34) + (64 << 10)
        };
        let guess = |counter: usize| match dictionary_counter(&self.plan, counter) {
            _ if counter == 0 => rows,
            Some(_) => (2 * needed[counter].max(full.now.counters[counter])).max(first_guess(
                &self.plan,
                counter,
                rows.min(FIRST_ROWS),
            )),
            None => observed(counter).max(needed[counter]),
        };
        let limits = self.plan.limits(guess);
        if limits.iter().zip(needed).any(|(limit, needed)| limit < needed) {
            return Err(Error::invalid_argument(
                "a single row is larger than its column's type can hold in one segment",
            ));
        }
        Ok(SegmentShape { first_row: full.end(), limits, settings: self.settings.clone() })
    }

    /// Asks the background thread to create the next segment, when the live one is half full. A segment that turns out
    /// not to fit is discarded.
    #[cold]
    fn order_next(&mut self) {
        self.order_at = u64::MAX;
        let live = self.live();
        let first_row = live.first_row() + live.limits()[0];
        let Ok(shape) = self.next_shape(&vec![0; self.plan.counters]) else { return };
        let shape = SegmentShape { first_row, ..shape };
        let medium = self.medium.clone();
        let folder = self.folder.clone();
        let plan = self.plan.clone();
        self.background.order(Box::new(move || LiveSegment::create(&medium, &folder, &plan, shape, true)));
    }

    /// Sets the row at which to request the next segment. After a small segment it is created when it is needed.
    pub(super) fn expect_next(&mut self) {
        let rows = self.segments.first().map_or(0, |live| live.limits()[0]);
        self.order_at = if rows >= FIRST_ROWS { rows / 2 } else { u64::MAX };
    }

    /// An empty segment is replaced by a larger one, which begins with the same row and so has its name.
    pub(super) fn replace_empty(&mut self, shape: SegmentShape) -> Result<()> {
        let is_named = self.segments.len() == 1;
        let mut next = LiveSegment::create(&self.medium, &self.folder, &self.plan, shape, !is_named)?;
        self.carry_over(&mut next, &self.live().entry_counts())?;
        next.commit_initial(!is_named)?;
        if is_named {
            replace_name(&next, &self.folder)?;
            self.background.replaced(next.shared.clone());
        }
        // The writer always has a segment, also if sealing the empty one fails.
        let replaced = self.segments.last_mut().map(|last| std::mem::replace(last, next));
        self.expect_next();
        if let Some(mut empty) = replaced.filter(|_| is_named) {
            // Waiting followers learn that it has ended.
            empty.rollback();
            empty.make_visible(SEALED)?;
        }
        Ok(())
    }

    /// Makes all appended rows visible to readers, in one step.
    ///
    /// # Errors
    /// `Io`; then none of the rows is visible, unless it was a sync that failed, which [`SyncPolicy::Commit`] makes: then they
    /// are, as [`Writer::committed_rows`] says, and a power cut may take them. `FileChanged` if another program has
    /// truncated or overwritten the live segment, which is detected at the latest when rows are next published to other
    /// Arrow readers or synced: after that nothing more can be written.
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        self.check()?;
        match self.stop_at_panic(|writer| guard(|| writer.commit_rows(false))) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.note(e)),
        }
    }

    /// Records the error that ends the writer. After a store that could not be made, none is.
    #[cold]
    pub(super) fn note(&mut self, e: Error) -> Error {
        let is_stored = |segment: &LiveSegment| segment.shared.store.check_stored().is_ok();
        if e.kind() == ErrorKind::FileChanged || !self.segments.iter().all(is_stored) {
            self.give_up(e.message());
        }
        e.at(&self.folder)
    }

    #[inline]
    fn commit_rows(&mut self, has_moved: bool) -> Result<()> {
        self.show_rows(has_moved)?;
        self.sync_commit()
    }

    /// Syncs a commit that is visible, if each is to be.
    #[inline]
    pub(super) fn sync_commit(&mut self) -> Result<()> {
        if self.sync == SyncPolicy::Commit { self.sync() } else { Ok(()) }
    }

    /// Makes the appended rows visible, or none of them.
    #[inline]
    pub(super) fn show_rows(&mut self, has_moved: bool) -> Result<()> {
        self.unlooked += 1;
        let is_due = self.background.is_look_due();
        if is_due || self.unlooked >= LOOK_EVERY {
            self.look_for_file(is_due)?;
        }
        match &mut self.segments[..] {
            [live] if !has_moved && live.now.counters[0] == live.committed.counters[0] => (),
            [live] => {
                live.make_visible(OPEN)?;
                self.background.committed(&live.shared);
                if live.committed.counters[0] >= self.order_at {
                    self.order_next();
                }
            }
            _ => self.commit_all()?,
        }
        if self.sorted_by.is_some() {
            self.last.1.clone_from(&self.last.0);
        }
        Ok(())
    }

    /// Tells readers that segments were dropped, by a commit of no rows: they know segments by name, and look at names only
    /// where they have a reason. Rows that are not committed stay so.
    pub(super) fn show_drop(&mut self) -> Result<()> {
        let live = self.segments.first_mut().ok_or_else(no_segment)?;
        let now = std::mem::replace(&mut live.now, live.committed.clone());
        let shown = live.make_visible(OPEN);
        live.now = now;
        shown?;
        self.background.committed(&live.shared);
        Ok(())
    }

    /// Checks that the live segment still exists, and its directory where it was: readers don't see commits to a removed
    /// file, and look for the table at its path.
    #[cold]
    fn look_for_file(&mut self, has_time: bool) -> Result<()> {
        self.unlooked = 0;
        let Some(live) = self.segments.first().map(|live| (&live.shared.store, live.first_row())) else {
            return Ok(());
        };
        let failed = |e| Error::io("committing", &e);
        if live.0.is_removed().map_err(failed)? {
            return Err(removed());
        }
        if !has_time {
            return Ok(());
        }
        match self.medium.check_directory() {
            Err(e) if is_moved_directory(&e) => Err(failed(e)),
            // It may have other names, as in a backup of links.
            Ok(()) if live.0.is_not_at(&chain::path(&self.folder, live.1)).map_err(failed)? => Err(removed()),
            // A path that this process can't look at may still be the directory's.
            _ => Ok(()),
        }
    }

    /// Whether a commit takes only microseconds: no segment is full, and nothing is synced.
    pub fn is_commit_cheap(&self) -> bool {
        self.segments.len() == 1 && self.sync != SyncPolicy::Commit
    }

    /// Commits rows that cross the end of a segment. Sealing the first segment makes them all visible; until then, the
    /// later segments are marked provisional.
    pub(super) fn commit_all(&mut self) -> Result<()> {
        let last = self.segments.len() - 1;
        for (number, segment) in self.segments.iter_mut().enumerate().skip(1) {
            let is_full = number < last;
            segment.make_visible(CommitState { sealed: is_full, provisional: true, goes_on: is_full })?;
            segment.shared.publish()?;
        }
        // A segment of a new schema begins without rows.
        let sealed = CommitState { goes_on: self.segments[1].rows() > 0, ..SEALED };
        self.prepare(sealed)?;
        let first = &self.segments[0];
        // A reader that lists the directory and finds the next segment must find this one's last footer.
        let published = first.shared.publish_ahead(&first.now.counters, first.sequence + 1);
        published.inspect_err(|_| first.forget_prepared())?;
        if let Err((named, e)) = self.name_all() {
            let first = &self.segments[0];
            first.forget_prepared();
            // Other Arrow readers must not keep seeing uncommitted rows.
            let taken_back = first.shared.publish_ahead(&first.committed.counters, first.sequence);
            if named > 0 || taken_back.is_err() {
                self.give_up(&format!("a segment could not be given its name ({})", e.message()));
            }
            return Err(e);
        }
        self.background.goes_on(self.segments[1..].iter().map(|segment| segment.shared.clone()).collect());
        let shown = self.show_all(sealed);
        // The names are there, and what they stand for is unknown to this writer now.
        shown.inspect_err(|e| self.give_up(e.message()))?;
        self.background.rolled();
        for done in self.segments.drain(..last) {
            let _ = done.trim();
            self.background.sealed(done.shared);
        }
        self.background.committed(&self.segments[0].shared);
        self.expect_next();
        Ok(())
    }

    /// Makes the rows of all segments visible, the first of which is sealed in state `sealed`.
    fn show_all(&mut self, sealed: CommitState) -> Result<()> {
        let last = self.segments.len() - 1;
        self.segments[0].make_visible(sealed)?;
        self.segments.iter_mut().enumerate().skip(1).rev().try_for_each(|(number, segment)| {
            let is_full = number < last;
            segment.make_visible(CommitState { sealed: is_full, provisional: false, goes_on: is_full })
        })
    }

    /// Lets the next writer finish the commit if this one is killed from now on.
    fn prepare(&mut self, sealed: CommitState) -> Result<()> {
        for segment in &self.segments[1..] {
            let path = chain::prepared_path(&self.medium, &self.folder, segment.first_row());
            let named = segment.shared.store.link_temporarily(&path);
            named.map_err(|e| Error::io("naming a segment for now", &e).at(&path))?;
        }
        self.segments[0].prepare(sealed)
    }

    /// Gives all segments but the first their names; an error comes with how many had one by then.
    fn name_all(&self) -> Result<(), (usize, Error)> {
        let behind = &self.segments[1..];
        for (number, segment) in behind.iter().enumerate() {
            if let Err(e) = give_name(segment, &self.folder) {
                // Other Arrow readers must not see the rows of those that have theirs. The first error is enough.
                for named in behind[..number].iter().rev() {
                    let _ = self.medium.remove(&chain::path(&self.folder, named.first_row()));
                }
                return Err((number, e));
            }
        }
        Ok(())
    }

    /// Discards the rows appended since the last commit.
    pub fn rollback(&mut self) {
        // After a failed assertion the rows may be in any state, and none can be committed.
        if !self.has_panicked() {
            let _ = self.stop_at_panic(|writer| {
                writer.discard_uncommitted();
                Ok(())
            });
        }
    }

    fn discard_uncommitted(&mut self) {
        self.segments.truncate(1);
        if let Some(live) = self.segments.first_mut() {
            live.rollback();
            for (entries, dictionary) in self.entries.iter_mut().zip(&self.plan.dictionaries) {
                entries.truncate(live.committed.counters[dictionary.entries] as usize);
            }
        }
        self.last.0.clone_from(&self.last.1);
    }

    fn savepoint(&self) -> Savepoint {
        let live = self.live();
        Savepoint {
            segments: self.segments.len(),
            live: live.shared.clone(),
            mark: live.now.clone(),
            last: self.last.0.clone(),
            known: self.entries.iter().map(DictionaryEntries::len).collect(),
        }
    }

    fn restore(&mut self, before: Savepoint) {
        self.segments.truncate(before.segments);
        if let Ok(live) = self.live_mut() {
            if Arc::ptr_eq(&live.shared, &before.live) {
                live.now = before.mark;
            } else {
                // It has replaced an empty one, and the mark is of the other file.
                live.rollback();
            }
        }
        self.last.0 = before.last;
        self.entries.iter_mut().zip(before.known).for_each(|(entries, known)| entries.truncate(known));
    }

    /// Brings all committed rows to the disk: they survive a power cut when this returns.
    ///
    /// # Errors
    /// `Io`. After that nothing more can be written, since the contents of the disk are unknown: open the table again.
    /// `FileChanged` if the table, or a segment with rows that were to be synced, was removed.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        // A panic in a sync, which any thread may make, is caught there.
        self.background.sync(SyncTarget::LogOrColumns).map_err(|e| e.at(&self.folder))
    }

    /// Commits, syncs, and publishes the last rows to other Arrow readers.
    ///
    /// # Errors
    /// As [`Writer::commit`] and [`Writer::sync`].
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        self.stop_at_panic(|writer| {
            let live = &writer.segments[0];
            writer.background.publish_now(&live.shared);
            writer.background.settle(&live.shared).map_err(|e| e.at(&writer.folder))?;
            let _ = live.trim();
            let _ = live.shared.trim_footers();
            Ok(())
        })
    }

    /// Stops writing, for the first such reason.
    #[cold]
    pub(super) fn give_up(&mut self, why: &str) {
        self.broken.get_or_insert_with(|| cannot_go_on(ErrorKind::Closed, why));
    }

    /// Runs the body of a public method. A panic in it becomes an error, and after it every call fails: an assertion fails
    /// where going on could lose or invent rows.
    #[inline]
    pub(super) fn stop_at_panic<T>(&mut self, body: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(|| body(self))) {
            Ok(result) => result,
            Err(panic) => Err(self.on_panic(&*panic)),
        }
    }

    #[cold]
    fn on_panic(&mut self, panic: &(dyn Any + Send)) -> Error {
        let e = Error::from_panic(panic);
        self.background.stop_with(e.clone());
        self.broken = Some(cannot_go_on(e.kind(), e.message()));
        e.at(&self.folder)
    }

    /// Whether an assertion has failed in this writer.
    fn has_panicked(&self) -> bool {
        self.broken.as_ref().is_some_and(|e| e.kind() == ErrorKind::Internal)
    }

    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.can_write() { Ok(()) } else { self.refuse() }
    }

    #[inline]
    fn can_write(&self) -> bool {
        self.background.is_ours() && self.broken.is_none() && !self.background.has_failed()
    }

    /// Returns the reason why nothing more can be written.
    #[cold]
    fn refuse(&self) -> Result<()> {
        if !self.background.is_ours() {
            let message = "the writer belongs to the process that opened it, and this is a fork; open another table";
            return Err(Error::new(ErrorKind::Busy, message).at(&self.folder));
        }
        let refused = self.broken.as_ref().map_or_else(|| self.background.check(), |e| Err(e.clone()));
        refused.map_err(|e| e.at(&self.folder))
    }
}

#[cold]
pub(super) fn no_segment() -> Error {
    Error::internal("a writer without a segment")
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.can_write() {
            // A panic here would end the process if another one is under way.
            let _ = self.stop_at_panic(|writer| {
                writer.background.publish_now(&writer.segments[0].shared);
                Ok(())
            });
        }
    }
}
