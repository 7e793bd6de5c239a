//! [`Writer`]: appends rows to a table, and commits them.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_data::ArrayData;
use arrow_schema::{FieldRef, SchemaRef};

use super::background::BackgroundWork;
use super::live::{Durability, LiveFile, LiveSegment, OPEN, SyncTarget, cannot_go_on, removed};
use super::open::{
    acquire_lock, creating_directory_failed, first_segment, give_name, known_settings, live_segment, no_table,
    plan_table, read_entries, refuse_file, refuse_machine, refuse_remote, take_over, with_dictionaries,
};
use super::options::{SyncPolicy, WriterOptions};
use super::prepared_commit;
use super::schema_change::evolve_schema;
use crate::dataset::{ComparableValue, Dataset, order};
use crate::directory::{exists, is_empty_directory};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{ChangeCheck, DirectoryLock, FileSystem, guard, is_moved_directory, remove_leftovers};
use crate::rows::{DictionaryEntries, FillState, IncomingRows, Plan, PlanDictionary, batch_arrays};
use crate::table::format::TableSettings;
use crate::table::placement::MOST_ROWS;
use crate::table::reader::{SegmentChain, chain, table, without_settings};

/// The maximum number of commits between checks that the live segment still exists.
const CHECK_FILE_EVERY: u32 = 64;

/// The maximum number of segments of a commit, each of which holds a descriptor and a mapping until then.
const MAX_UNCOMMITTED_SEGMENTS: u64 = 1 << 15;

/// The single writer of a growing table.
///
/// Appended rows become visible to readers when they are committed: all of them or none. Uncommitted rows are lost when
/// the writer is dropped.
///
/// ```
/// use arrowwood::{Value, Writer, WriterOptions, open, parse_schema};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks");
///
/// let schema = parse_schema("symbol: category, price: float64")?;
/// let mut writer = Writer::open(&path, Some(schema.into()), &WriterOptions::default())?;
/// writer.append_row(&[Value::Str("AAPL"), Value::Float64(223.02)])?;
/// assert_eq!(open(&path)?.len()?, 0);
/// writer.commit()?;
/// assert_eq!(open(&path)?.len()?, 1);
/// writer.sync()?; // now the row would survive a power cut
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A failed assertion, which is a bug of this library, is an error of kind `Internal`. After it every call is: nothing
/// more is written, and the committed rows stay as they are.
pub struct Writer {
    /// The table's directory, without symbolic links.
    folder: PathBuf,
    /// The plan of the table's schema.
    pub(super) plan: Arc<Plan>,
    /// The live segment, and after it the segments of uncommitted rows. Never empty.
    pub(super) segments: Vec<LiveSegment>,
    /// The entries of each dictionary, including the entries of uncommitted rows.
    pub(super) entries: Vec<DictionaryEntries>,
    /// The keys of the row being appended, kept to save allocations.
    pub(super) row_keys: Vec<u32>,
    pub(super) newest_key: NewestKey,
    /// The column by which the table is sorted, unless it accepts late rows.
    pub(super) sorted_by: Option<usize>,
    /// The settings of future segments.
    pub(super) settings: TableSettings,
    /// The names of positions, in the order of their values.
    pub(super) names: Vec<String>,
    pub(super) medium: FileSystem,
    pub(super) background: BackgroundWork,
    pub(super) sync: SyncPolicy,
    /// The error of all further calls, once nothing can be written any more.
    broken: Option<Error>,
    /// See [`Writer::dropped_rows`].
    dropped: u64,
    /// The number of commits since the last check that the live segment still exists.
    unchecked_commits: u32,
    /// The number of rows in the live segment at which the next one is requested.
    pub(super) request_next_at: u64,
}

/// Shows the table, not the rows and dictionaries in memory.
impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Writer");
        shown.field("path", &self.folder).field("schema", self.schema()).finish_non_exhaustive()
    }
}

/// The newest value of the column by which the table is sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct NewestKey {
    /// The value of the newest row.
    pub appended: Option<ComparableValue>,
    /// The value of the newest committed row.
    pub committed: Option<ComparableValue>,
}

/// The state before an append, to return to if it fails.
struct Savepoint {
    /// The number of segments.
    segments: usize,
    /// The last of the segments, which the append may replace if it is empty.
    live: Arc<LiveFile>,
    /// How far that segment was filled.
    filled: FillState,
    newest_key: Option<ComparableValue>,
    /// The number of entries of each dictionary.
    entry_counts: Vec<usize>,
}

impl Writer {
    /// Opens the table at `path` for writing, or creates it if there is none and a schema is given.
    ///
    /// If the schema has more nullable columns than the table, wider numbers, or columns made nullable, the table's
    /// schema is changed: see [`Writer::alter`]. Text keeps its type in the table.
    ///
    /// # Errors
    /// `Busy` while another process writes, naming it; `SchemaMismatch` with all differences; `NotFound` where there
    /// is neither a table nor a schema; `Unsupported` for types that don't grow, on network file systems, on
    /// big-endian processors, and on Windows.
    pub fn open(path: impl AsRef<Path>, schema: Option<SchemaRef>, options: &WriterOptions) -> Result<Writer> {
        let path = path.as_ref();
        catch_panic(|| guard(|| Writer::open_at(path, schema, options))).map_err(|e| e.at(path))
    }

    fn open_at(path: &Path, schema: Option<SchemaRef>, options: &WriterOptions) -> Result<Writer> {
        refuse_machine()?;
        let schema = schema.map(|schema| with_dictionaries(&schema, &options.dictionary)).transpose()?;
        let is_there = exists(path)?;
        if let Some(schema) = &schema {
            let plan = plan_table(schema)?;
            if !is_there {
                // A table that can't be made leaves no folder behind.
                options.settings(&plan)?;
            }
        }

        // True once this process has made the directory, and brought its name to the disk.
        let mut is_named = false;
        if !is_there {
            if schema.is_none() {
                return Err(no_table());
            }
            match options.medium().create_dir(path) {
                Ok(()) => is_named = true,
                // Another process was faster, and is creating the table.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => (),
                Err(e) => return Err(creating_directory_failed(path, &e)),
            }
        }
        refuse_file(path)?;

        // The process may change its working directory, and the path may be a symbolic link.
        let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's directory", &e))?;
        refuse_remote(path, options.force)?;
        let lock = acquire_lock(&options.medium(), path)?;
        // Finds the table's files in the locked directory.
        let medium = &lock.medium().clone();
        remove_leftovers(medium, path).map_err(syncing_parent_failed)?;

        if let Some(chain) = prepared_commit::open(medium, path)? {
            let reopened = Writer::reopen(path, chain, schema, options, lock);
            return prepared_commit::map_home_error(medium, reopened);
        }
        if !is_empty_directory(path)? {
            return Err(chain::foreign_files_error(path));
        }
        if !is_named {
            // The process that made it may have been killed before its name was on the disk.
            medium.sync_parent(path).map_err(syncing_parent_failed)?;
        }
        Writer::create(path, schema, options, lock)
    }

    /// Creates a table in an empty directory, and opens it.
    fn create(path: &Path, schema: Option<SchemaRef>, options: &WriterOptions, lock: DirectoryLock) -> Result<Writer> {
        let schema = without_settings(&schema.ok_or_else(no_table)?);
        let plan = Arc::new(Plan::for_schema(&schema)?);
        let live = first_segment(lock.medium(), path, &plan, 0, options.settings(&plan)?)?;
        give_name(&live, path)?;
        // A created table survives a power cut.
        lock.sync().map_err(|e| Error::io("syncing the directory", &e))?;
        let entries = plan.dictionaries.iter().map(PlanDictionary::new_entries).collect();
        Writer::start(path, plan, (Vec::new(), live), entries, options, lock)
    }

    /// Starts a writer whose live segment is `live`; commits in the segments `pending` are not durable yet.
    fn start(
        path: &Path,
        plan: Arc<Plan>,
        (pending, live): (Vec<Arc<LiveFile>>, LiveSegment),
        entries: Vec<DictionaryEntries>,
        options: &WriterOptions,
        lock: DirectoryLock,
    ) -> Result<Writer> {
        let sync_interval = match options.sync {
            SyncPolicy::Every(interval) => Some(interval.max(Duration::from_millis(1))),
            SyncPolicy::Never | SyncPolicy::Commit => None,
        };
        let header = &live.shared.header;
        let sorted_by = header.order().map(|column| column as usize);
        let settings = options.apply_to(header.settings(), &plan)?;
        assert_eq!(entries.len(), plan.dictionaries.len(), "entries of each dictionary");
        let pending = pending.into_iter().chain([live.shared.clone()]).collect();
        let medium = lock.medium().clone();
        let background = BackgroundWork::start(lock, path, pending, sync_interval)?;
        let mut writer = Writer {
            folder: path.to_path_buf(),
            plan,
            segments: vec![live],
            entries,
            row_keys: Vec::new(),
            newest_key: NewestKey::default(),
            sorted_by,
            settings,
            names: Vec::new(),
            medium,
            background,
            sync: options.sync,
            broken: None,
            dropped: 0,
            unchecked_commits: 0,
            request_next_at: u64::MAX,
        };
        writer.schedule_next_segment();
        Ok(writer)
    }

    /// Opens an existing table, and changes its schema if `schema` has more or wider columns.
    fn reopen(
        path: &Path,
        chain: SegmentChain,
        schema: Option<SchemaRef>,
        options: &WriterOptions,
        lock: DirectoryLock,
    ) -> Result<Writer> {
        chain.remove_orphans(lock.medium(), path)?;
        let dataset = table::open(path, Default::default())?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the table has gone"))?;
        prepared_commit::check_home(lock.medium())?;

        let old_schema = without_settings(dataset.schema());
        let plan = Arc::new(Plan::for_schema(&old_schema)?);
        let new_schema = match schema {
            Some(schema) => evolve_schema(&old_schema, &schema)?,
            None => None,
        };
        let new_plan = new_schema.as_deref().map(Plan::for_schema).transpose()?;

        // Until the schema is changed, the table has none of the new columns.
        let old_options = match &new_schema {
            Some(_) => &options.for_columns_of(&old_schema),
            None => options,
        };
        // Options that the table can't have are refused before anything is changed.
        let settings = old_options.apply_to(known_settings(&chain, &dataset)?, &plan)?;
        if let Some(new_plan) = &new_plan {
            options.apply_to(settings.clone(), new_plan)?;
        }

        let (live, dropped) = live_segment(lock.medium(), path, &chain, &dataset, (&plan, settings))?;
        let entries = read_entries(&live)?;
        let pending = take_over(&lock, path, &chain, &live, &plan)?;
        let mut writer = Writer::start(path, plan, (pending, live), entries, old_options, lock)?;

        writer.dropped = dropped;
        writer.names = dataset.position_names()?;
        if writer.names.len() != writer.live().positions.len() {
            let message = "the positions changed while the table was opened; open it anew";
            return Err(Error::new(ErrorKind::FileChanged, message));
        }
        if let Some(column) = writer.sorted_by
            && dataset.len()? > 0
        {
            let key = ComparableValue::from_value(&dataset.row_from_end(1)?.get(column)?);
            writer.newest_key = NewestKey { appended: key.clone(), committed: key };
        }

        if let Some((new_schema, new_plan)) = new_schema.zip(new_plan) {
            writer.settings = options.apply_to(writer.settings.clone(), &new_plan)?;
            writer.go_on_with(&new_schema)?;
        }
        Ok(writer)
    }

    /// Returns the table's schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.plan.schema.schema
    }

    /// Returns the disk, which a test can observe.
    pub(super) fn medium(&self) -> &FileSystem {
        &self.medium
    }

    /// Returns the table's directory.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of the row after the last one appended.
    ///
    /// Rows keep their numbers when earlier ones are dropped.
    pub fn rows(&self) -> u64 {
        self.live().end()
    }

    /// Returns the number of the row after the last one that others can see.
    pub fn committed_rows(&self) -> u64 {
        self.segments[0].committed_end()
    }

    /// Returns the number of the row after the last one that would survive a power cut.
    pub fn durable_rows(&self) -> u64 {
        self.background.durable_rows()
    }

    /// Returns a handle for waiting, on any thread, until commits become durable.
    pub fn durability(&self) -> Durability {
        self.background.durability()
    }

    /// Returns the number of committed rows that a system crash lost before this writer was opened.
    ///
    /// They were not synced.
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
    /// The errors of [`Writer::append`]; then nothing was appended.
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

    /// Appends the rows of a dataset, part by part; after an error, some of them may be appended.
    fn append_parts(&mut self, dataset: &Dataset) -> Result<()> {
        for part in dataset.parts() {
            let part = part?;
            self.append_arrays(dataset.schema().fields(), &part.columns()?, part.rows.len())?;
        }
        Ok(())
    }

    /// Appends `rows` rows of columns, or none of them.
    fn append_arrays(&mut self, fields: &[FieldRef], arrays: &[ArrayData], rows: usize) -> Result<()> {
        self.check()?;
        self.check_row_count(rows as u64).map_err(|e| e.at(&self.folder))?;
        let before = self.savepoint();
        let appended = guard(|| {
            let incoming = IncomingRows::new(&self.plan, fields, arrays, rows, &mut self.entries)?;
            if let Some(column) = self.sorted_by {
                let name = self.plan.columns[column].field.name();
                let newest = self.newest_key.appended.as_ref();
                self.newest_key.appended = order::check_ascending(name, &incoming.arrays[column], newest)?;
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
        let segment_rows = self.settings.segment_rows;
        let segments = self.segments.len() as u64 + rows / segment_rows;
        if segments > MAX_UNCOMMITTED_SEGMENTS {
            return Err(Error::invalid_argument(format!(
                "appending {rows} rows: they would take {segments} segments of up to {segment_rows} rows, and a commit \
                 has {MAX_UNCOMMITTED_SEGMENTS} at most; append them in parts, and commit each"
            )));
        }
        Ok(())
    }

    /// Writes the rows to the newest segment, and to new ones as each is full.
    fn write(&mut self, incoming: &IncomingRows) -> Result<()> {
        let mut from = 0;
        while from < incoming.rows {
            let live = self.live();
            let counters = &live.now.counters;
            let room = incoming.rows_that_fit(&self.plan, from, counters, live.limits(), &self.entries)?;
            if room == 0 {
                let empty = vec![0; self.plan.counters];
                let min_limits = incoming.counters_after(&self.plan, from..from + 1, &empty, &self.entries)?;
                self.roll(&min_limits)?;
                continue;
            }

            assert!(room <= incoming.rows - from, "{room} rows to be written, of {}", incoming.rows - from);
            let last = self.segments.len() - 1;
            let live = &mut self.segments[last];
            let before = live.rows();
            incoming.write(from..from + room, live, &self.entries)?;
            assert_eq!(live.rows(), before + room as u64, "the segment counts the rows that were written");
            live.put_zones(before)?;
            from += room;
        }
        Ok(())
    }

    /// Returns the segment to which rows are appended.
    pub(super) fn live(&self) -> &LiveSegment {
        &self.segments[self.segments.len() - 1]
    }

    /// Returns the segment to which rows are appended.
    #[inline]
    pub(super) fn live_mut(&mut self) -> &mut LiveSegment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Makes all appended rows visible to readers, in one step.
    ///
    /// # Errors
    /// `Io`; then none of the rows is visible, unless it was a sync that failed, which [`SyncPolicy::Commit`] makes:
    /// then they are, as [`Writer::committed_rows`] says, and a power cut may take them. `FileChanged` if another
    /// program has truncated or overwritten the live segment, which is detected at the latest when rows are next
    /// published to other Arrow readers or synced: after that nothing more can be written.
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        self.check()?;
        match self.stop_at_panic(|writer| guard(|| writer.commit_rows())) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.note(e)),
        }
    }

    /// Notes an error of a commit, and gives up writing if it ends the writer: after a store that could not be made, no
    /// other is.
    #[cold]
    pub(super) fn note(&mut self, e: Error) -> Error {
        let is_lost = self.segments.iter().any(|segment| segment.shared.store.check_stored().is_err());
        if is_lost || e.kind() == ErrorKind::FileChanged {
            self.give_up(e.message());
        }
        e.at(&self.folder)
    }

    /// Commits the appended rows. The positions stay as they are.
    #[inline]
    fn commit_rows(&mut self) -> Result<()> {
        let has_moved = false;
        self.show_rows(has_moved)?;
        self.sync_commit()
    }

    /// Syncs a commit that is visible, if each is to be.
    #[inline]
    pub(super) fn sync_commit(&mut self) -> Result<()> {
        if self.sync == SyncPolicy::Commit { self.sync() } else { Ok(()) }
    }

    /// Makes the appended rows visible, or none of them. Without rows, makes a commit only if positions `has_moved`.
    #[inline]
    pub(super) fn show_rows(&mut self, has_moved: bool) -> Result<()> {
        self.unchecked_commits += 1;
        let is_due = self.background.take_check_request();
        if is_due || self.unchecked_commits >= CHECK_FILE_EVERY {
            self.check_file(is_due)?;
        }
        match &mut self.segments[..] {
            [live] if !has_moved && live.rows() == live.committed.rows() => (),
            [live] => {
                live.make_visible(OPEN)?;
                self.background.on_commit(&live.shared);
                if live.committed.rows() >= self.request_next_at {
                    self.request_next_segment();
                }
            }
            _ => self.commit_all()?,
        }
        if self.sorted_by.is_some() {
            self.newest_key.committed.clone_from(&self.newest_key.appended);
        }
        Ok(())
    }

    /// Tells readers that segments were dropped, by a commit of no rows: they know segments by name, and check names
    /// only if they have a reason. Rows that are not committed stay so.
    pub(super) fn show_drop(&mut self) -> Result<()> {
        let live = &mut self.segments[0];
        live.repeat_commit()?;
        self.background.on_commit(&live.shared);
        Ok(())
    }

    /// Checks that the live segment still exists and, if `has_time`, that its directory is where it was: readers don't
    /// see commits to a removed file, and open the table at its path.
    #[cold]
    fn check_file(&mut self, has_time: bool) -> Result<()> {
        self.unchecked_commits = 0;
        let live = &self.segments[0];
        let store = &live.shared.store;
        if store.is_removed().map_err(committing_failed)? {
            return Err(removed());
        }
        if !has_time {
            return Ok(());
        }
        match self.medium.check_directory() {
            Err(e) if is_moved_directory(&e) => Err(committing_failed(e)),
            // A path that this process can't open may still be the directory's.
            Err(_) => Ok(()),
            Ok(()) => {
                let path = chain::path(&self.folder, live.first_row());
                // The file may have other names, as in a backup of links.
                if store.is_not_at(&path).map_err(committing_failed)? { Err(removed()) } else { Ok(()) }
            }
        }
    }

    /// Returns true if a commit takes only microseconds: no segment is full, and nothing is synced.
    pub fn is_commit_cheap(&self) -> bool {
        self.segments.len() == 1 && self.sync != SyncPolicy::Commit
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

    /// Returns to the state of the last commit.
    fn discard_uncommitted(&mut self) {
        self.segments.truncate(1);
        let live = &mut self.segments[0];
        live.rollback();
        for (entries, count) in self.entries.iter_mut().zip(live.entry_counts()) {
            entries.truncate(count);
        }
        self.newest_key.appended.clone_from(&self.newest_key.committed);
    }

    /// Returns the state to return to if an append fails.
    fn savepoint(&self) -> Savepoint {
        let live = self.live();
        Savepoint {
            segments: self.segments.len(),
            live: live.shared.clone(),
            filled: live.now.clone(),
            newest_key: self.newest_key.appended.clone(),
            entry_counts: self.entries.iter().map(DictionaryEntries::len).collect(),
        }
    }

    /// Discards the rows appended since `before`.
    fn restore(&mut self, before: Savepoint) {
        assert!(self.segments.len() >= before.segments, "an append has removed a segment");
        self.segments.truncate(before.segments);
        let live = self.live_mut();
        if Arc::ptr_eq(&live.shared, &before.live) {
            live.now = before.filled;
        } else {
            // It has replaced an empty one.
            live.rollback();
        }
        self.newest_key.appended = before.newest_key;
        for (entries, count) in self.entries.iter_mut().zip(before.entry_counts) {
            entries.truncate(count);
        }
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

    /// Runs the body of a public method. A panic in it becomes an error, and after it every call fails: an assertion
    /// fails where going on could lose or invent rows.
    #[inline]
    pub(super) fn stop_at_panic<T>(&mut self, body: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(|| body(self))) {
            Ok(result) => result,
            Err(panic) => Err(self.on_panic(&*panic)),
        }
    }

    /// Ends the writer after a failed assertion, and returns it as an error.
    #[cold]
    fn on_panic(&mut self, panic: &(dyn Any + Send)) -> Error {
        let e = Error::from_panic(panic);
        self.background.stop_with(e.clone());
        self.broken = Some(cannot_go_on(e.kind(), e.message()));
        e.at(&self.folder)
    }

    /// Returns true if an assertion has failed in this writer.
    fn has_panicked(&self) -> bool {
        self.broken.as_ref().is_some_and(|e| e.kind() == ErrorKind::Internal)
    }

    /// Checks that rows can still be written.
    ///
    /// # Errors
    /// The reason why not.
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

fn committing_failed(e: std::io::Error) -> Error {
    Error::io("committing", &e)
}

fn syncing_parent_failed(e: std::io::Error) -> Error {
    Error::io("syncing the directory that the table is in", &e)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Value;
    use crate::table::format::ROWS;
    use crate::types::parse_schema;

    /// A corruption of the writer's state, and the call whose assertion detects it.
    struct Fault {
        assertion: &'static str,
        cause: fn(&mut Writer),
        call: fn(&mut Writer) -> Result<()>,
    }

    const FAULTS: &[Fault] = &[
        Fault {
            assertion: "committed rows stay",
            cause: |writer| writer.segments[0].now.counters[ROWS] -= 2,
            call: Writer::commit,
        },
        Fault {
            assertion: "each position has a name",
            cause: |writer| writer.names.push("producer".into()),
            call: |writer| writer.commit_with(&[("producer", 1)]),
        },
        Fault {
            assertion: "each position has a name",
            cause: |writer| writer.names.push("producer".into()),
            call: |writer| append(writer, 9),
        },
        Fault {
            assertion: "a segment begins with the row after the previous one",
            cause: |writer| {
                append(writer, 9).unwrap();
                writer.segments[0].now.counters[ROWS] -= 1;
            },
            call: Writer::commit,
        },
    ];

    fn append(writer: &mut Writer, rows: i64) -> Result<()> {
        (0..rows).try_for_each(|n| writer.append_row(&[Value::Int(n)]))
    }

    #[test]
    fn assertions_fail_before_rows_are_lost_or_invented() {
        for Fault { assertion, cause, call } in FAULTS {
            let folder = tempfile::tempdir().unwrap();
            let schema = Arc::new(parse_schema("n: int64 not null").unwrap());
            let options = WriterOptions { segment_rows: Some(4), sync: SyncPolicy::Never, ..WriterOptions::default() };
            let mut writer = Writer::open(folder.path(), Some(schema), &options).unwrap();
            append(&mut writer, 2).unwrap();
            writer.commit().unwrap();
            append(&mut writer, 1).unwrap();
            cause(&mut writer);
            let e = call(&mut writer).unwrap_err();
            assert!(e.kind() == ErrorKind::Internal && e.message().contains(assertion), "{assertion}: {e}");
            for later in [append(&mut writer, 1), writer.commit(), writer.sync()] {
                assert_eq!(later.unwrap_err().kind(), ErrorKind::Internal, "after {assertion}");
            }
            writer.rollback();
            assert_eq!(writer.close().unwrap_err().kind(), ErrorKind::Internal, "after {assertion}");
            let after = Writer::open(folder.path(), None, &WriterOptions::default()).unwrap();
            assert_eq!(after.rows(), 2, "after {assertion}");
        }
    }
}
