//! Opening a table for writing: the lock, the schema, the segment to continue, and segments left by a dead writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};

use super::live::{LiveFile, LiveSegment, OPEN, SegmentShape, SyncTarget, make_durable, stamp};
use super::options::{LatePolicy, WriterOptions};
use crate::dataset::{Dataset, order};
use crate::directory::is_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{DirectoryLock, FileSystem, Mapping, Mode, SharedFile, os, remote_file_system};
use crate::rows::{DictionaryEntries, Plan, PlanDictionary, supports_zones};
use crate::table::format::{DEFAULT_ROWS, OWN_FILE, ROWS, Record, STAMPED, SYNCED, TableSettings, ZONE_ROWS};
use crate::table::protocol::{FooterSizes, is_published};
use crate::table::reader::{
    Segment, SegmentChain, chain, dense_settings, first_row, lost_rows, open_newest, recount, without_settings,
};
use crate::types::field_type_name;

/// The rows of a table's first segment; each next one has room for twice as many.
pub(super) const FIRST_ROWS: u64 = 64 << 10;

/// The number of times a lock that is held is tried again.
const LOCK_ATTEMPTS: usize = 20;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The minimum room for entries of a dictionary in a segment sized without an earlier one.
const MIN_ENTRIES: u64 = 1 << 16;
/// The minimum room for text or list items in such a segment, in bytes or items.
const MIN_ITEMS: u64 = 1 << 20;
/// The room for text or list items per row in such a segment, in bytes or items.
const ITEMS_PER_ROW: u64 = 64;
/// The maximum number of rows in a segment that a caller can choose.
const MAX_SEGMENT_ROWS: u64 = 1 << 40;

/// Returns the error for a path without a table, if none can be created.
pub(super) fn no_table() -> Error {
    Error::new(ErrorKind::NotFound, "there is no table, and no schema to make one; give a schema")
}

/// Returns the error of a table's directory that can't be created.
pub(super) fn creating_directory_failed(path: &Path, error: &std::io::Error) -> Error {
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) if error.kind() == std::io::ErrorKind::NotFound => {
            Error::io(&format!("making the table's directory in {}, which does not exist", parent.display()), error)
        }
        _ => Error::io("making the table's directory", error),
    }
}

/// Refuses a directory on a file system where mappings of several machines are inconsistent, unless `force`.
pub(crate) fn refuse_remote(path: &Path, force: bool) -> Result<()> {
    if force {
        return Ok(());
    }
    match remote_file_system(path).map_err(|e| Error::io("asking for the kind of file system", &e))? {
        None => Ok(()),
        Some(kind) => Err(Error::unsupported(format!(
            "the directory is on {kind}, where mappings of other machines don't see what is written; \
             write to a local disk, or force it if all readers are on this machine"
        ))),
    }
}

/// Refuses to change tables where that is impossible: on a big-endian processor, as a table's bytes are little-endian,
/// and writers store values and counters as they lie in memory; and on a system that can't lock a directory.
pub(super) fn refuse_machine() -> Result<()> {
    if cfg!(target_endian = "big") {
        let processor = std::env::consts::ARCH;
        return Err(Error::unsupported(format!(
            "tables are little-endian, and this processor ({processor}) is big-endian; write on another processor"
        )));
    }
    if !os::CAN_LOCK_DIRECTORIES {
        let system = std::env::consts::OS;
        return Err(Error::unsupported(format!(
            "tables can only be read on this system ({system}), which can't lock a directory for its one writer; \
             write on another system"
        )));
    }
    Ok(())
}

/// Plans a table with this schema.
pub(super) fn plan_table(schema: &Schema) -> Result<Plan> {
    refuse_duplicate_names(schema)?;
    Plan::for_schema(schema)
}

/// Checks that a table with this schema can be made.
///
/// # Errors
/// Those of [`Writer::open`](super::Writer::open) that depend on the schema and the options alone.
pub(crate) fn check_new_table(schema: &SchemaRef, options: &WriterOptions) -> Result<()> {
    refuse_machine()?;
    let schema = with_dictionaries(schema, &options.dictionary)?;
    options.settings(&plan_table(&schema)?).map(|_| ())
}

/// Locks the table's directory for its one writer.
///
/// # Errors
/// `Busy`, naming the process that writes the table; `Io`; `Unsupported` on a big-endian processor, and on Windows.
pub(in crate::table) fn acquire_lock(medium: &FileSystem, path: &Path) -> Result<DirectoryLock> {
    refuse_machine()?;
    // `table_stat` holds the lock for an instant.
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(lock) = try_lock(medium, path)? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
    if let Some(lock) = try_lock(medium, path)? {
        return Ok(lock);
    }
    let chain = SegmentChain::open(path).ok().flatten();
    let who = match chain.and_then(|chain| chain.last) {
        Some((segment, _)) => format!("process {}", segment.writer()),
        None => "another process".into(),
    };
    let message = format!("the table is being written by {who}; a table has one writer at a time");
    Err(Error::new(ErrorKind::Busy, message))
}

fn try_lock(medium: &FileSystem, path: &Path) -> Result<Option<DirectoryLock>> {
    DirectoryLock::try_acquire(medium, path).map_err(|e| Error::io("locking the directory", &e))
}

/// Refuses a path that is no directory.
pub(super) fn refuse_file(path: &Path) -> Result<()> {
    if is_directory(path)? {
        return Ok(());
    }
    Err(Error::invalid_argument("a table is a directory, and this is a file; choose another path"))
}

/// Refuses a schema in which two columns have the same name.
pub(super) fn refuse_duplicate_names(schema: &Schema) -> Result<()> {
    let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
    match names.iter().enumerate().find(|(number, name)| names[..*number].contains(name)) {
        Some((_, name)) => {
            Err(Error::invalid_argument(format!("two columns are called '{name}', and rows are matched by name")))
        }
        None => Ok(()),
    }
}

/// Returns the schema with the columns `names` as dictionaries of text.
///
/// # Errors
/// `ColumnNotFound`.
pub(super) fn with_dictionaries(schema: &SchemaRef, names: &[String]) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    for name in names {
        let number = find_column(schema, name, "dictionary")?;
        let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        fields[number] = Arc::new(fields[number].as_ref().clone().with_data_type(encoded));
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Returns the number of the column that `option` names.
fn find_column(schema: &Schema, name: &str, option: &str) -> Result<usize> {
    schema
        .fields()
        .iter()
        .position(|field| field.name() == name)
        .ok_or_else(|| Error::new(ErrorKind::ColumnNotFound, format!("{option}: there is no column '{name}'")))
}

/// Returns the number of the column that `sorted_by` names.
///
/// # Errors
/// `ColumnNotFound`; `InvalidArgument` if its values have no order.
pub(super) fn sorted_column(schema: &Schema, name: &str) -> Result<usize> {
    let column = find_column(schema, name, "sorted_by")?;
    let field = schema.field(column);
    if order::is_sortable(field.data_type()) {
        return Ok(column);
    }
    let data_type = field_type_name(field);
    Err(Error::invalid_argument(format!("sorted_by: column '{name}' is {data_type}, which has no order here")))
}

/// Returns the number of the dictionary whose entries or bytes `counter` counts.
pub(super) fn dictionary_counter(plan: &Plan, counter: usize) -> Option<usize> {
    plan.dictionaries.iter().position(|entry| entry.entries == counter || entry.bytes() == Some(counter))
}

/// Returns the default limit of a counter in a segment of `rows` rows, without an earlier segment to derive it from.
pub(super) fn first_guess(plan: &Plan, counter: usize, rows: u64) -> u64 {
    match plan.dictionaries.iter().find(|dictionary| dictionary.entries == counter) {
        Some(_) => rows.max(MIN_ENTRIES),
        None => (ITEMS_PER_ROW * rows).max(MIN_ITEMS),
    }
}

/// Names a segment, unless something that was stored to it is not in its file.
pub(super) fn give_name(segment: &LiveSegment, folder: &Path) -> Result<()> {
    let name = chain::path(folder, segment.first_row());
    segment.shared.store.check_stored()?;
    segment.shared.store.link_at(&name).map_err(|e| {
        let doing = match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "naming a segment, where another program has put a file, which stays; open the table anew"
            }
            _ => "naming a segment",
        };
        Error::io(doing, &e).at(&name)
    })
}

/// Gives a segment the name of an empty one, which begins with the same row.
pub(super) fn replace_name(segment: &LiveSegment, folder: &Path) -> Result<()> {
    let name = chain::path(folder, segment.first_row());
    segment.shared.store.check_stored()?;
    segment.shared.store.replace(&name).map_err(|e| Error::io("replacing an empty segment", &e).at(&name))
}

/// Returns the number of rows of a segment requested by the caller, within the limits of a header.
pub(super) fn within_bounds(segment_rows: u64) -> u64 {
    segment_rows.clamp(1, MAX_SEGMENT_ROWS)
}

/// Creates a segment sized without an earlier one, without a name.
pub(in crate::table) fn first_segment(
    medium: &FileSystem,
    path: &Path,
    plan: &Arc<Plan>,
    first_row: u64,
    settings: TableSettings,
) -> Result<LiveSegment> {
    let rows = FIRST_ROWS.min(settings.segment_rows);
    let limits = plan.limits(|counter| if counter == ROWS { rows } else { first_guess(plan, counter, rows) });
    LiveSegment::create(medium, path, plan, SegmentShape { first_row, limits, settings }, OPEN)
}

/// Returns the settings in the last segment of a table.
pub(super) fn known_settings(chain: &SegmentChain, dataset: &Dataset) -> Result<TableSettings> {
    match &chain.last {
        Some((segment, _)) => Ok(segment.header.settings()),
        None => dense_settings(dataset.schema()),
    }
}

/// Checks that the counters of the commit to continue from match its values: with a count too small, new rows would
/// overwrite committed ones.
fn check_counters(segment: &Segment, record: &Record) -> Result<()> {
    let Some((at, wrong)) = recount(segment, &record.counters).into_iter().next() else { return Ok(()) };
    let message = format!(
        "the record of commit {} does not fit its rows: byte {at}: {wrong}; let `arrowwood check --repair` keep \
         what is good",
        record.sequence
    );
    Err(Error::invalid(message).at(segment.path()))
}

impl WriterOptions {
    /// Returns the options without indexes of columns that are not in `schema`.
    pub(super) fn for_columns_of(&self, schema: &Schema) -> WriterOptions {
        let mut options = self.clone();
        if let Some(index) = &mut options.index {
            index.retain(|name| schema.column_with_name(name).is_some());
        }
        options
    }

    /// Returns the settings `known` of a table, changed by these options.
    ///
    /// # Errors
    /// `InvalidArgument` for a choice that a table can't change; `ColumnNotFound`.
    pub(super) fn apply_to(&self, known: TableSettings, plan: &Plan) -> Result<TableSettings> {
        if let Some(name) = &self.sorted_by
            && known.sorted_by != Some(sorted_column(&plan.schema.schema, name)? as u32)
        {
            return Err(Error::invalid_argument(format!("the table was not made to be sorted by '{name}'")));
        }

        let mut index = match &self.index {
            Some(names) => indexed_columns(&plan.schema.schema, names)?,
            None => known.index.clone(),
        };

        let accepts_late = match self.late {
            Some(late) => late == LatePolicy::Accept,
            None => known.is_late,
        };
        if accepts_late != known.is_late {
            let is = if known.is_late { "accepts" } else { "refuses" };
            let message =
                format!("late: the table {is} late rows, as it was created; leave late out, or create another");
            return Err(Error::invalid_argument(message));
        }

        // Late rows can only be found by the index.
        if let Some(column) = known.sorted_by
            && known.is_late
            && !index.contains(&column)
        {
            index.push(column);
        }

        let segment_rows = self.segment_rows.map_or(known.segment_rows, within_bounds);
        Ok(TableSettings { segment_rows, index, zone_rows: self.zone_rows(), ..known })
    }

    /// Returns the settings of a new table.
    pub(in crate::table) fn settings(&self, plan: &Plan) -> Result<TableSettings> {
        let schema = &plan.schema.schema;
        let sorted_by = self.sorted_by.as_deref().map(|name| sorted_column(schema, name)).transpose()?;
        let sorted_by = sorted_by.map(|column| column as u32);
        let is_late = self.late == Some(LatePolicy::Accept);
        if is_late && sorted_by.is_none() {
            return Err(Error::invalid_argument("late: rows are late in the column that sorted_by names; name one"));
        }
        let defaults =
            TableSettings { sorted_by, is_late, segment_rows: DEFAULT_ROWS, index: Vec::new(), zone_rows: ZONE_ROWS };
        self.apply_to(defaults, plan)
    }
}

/// Returns the numbers of the columns to have zones.
fn indexed_columns(schema: &Schema, names: &[String]) -> Result<Vec<u32>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = find_column(schema, name, "index")?;
        let field = schema.field(column);
        if !supports_zones(field.data_type()) {
            let data_type = field_type_name(field);
            return Err(Error::invalid_argument(format!(
                "index: column '{name}' is {data_type}, which has no order here"
            )));
        }
        if columns.contains(&(column as u32)) {
            return Err(Error::invalid_argument(format!("index: column '{name}' is named twice")));
        }
        columns.push(column as u32);
    }
    Ok(columns)
}

/// Returns the segment to continue, or a new one with `settings` after the last one, and the number of lost rows.
pub(super) fn live_segment(
    medium: &FileSystem,
    path: &Path,
    chain: &SegmentChain,
    dataset: &Dataset,
    (plan, settings): (&Arc<Plan>, TableSettings),
) -> Result<(LiveSegment, u64)> {
    if let Some((segment, record)) = chain.last.as_ref().filter(|(_, record)| !record.sealed) {
        check_counters(segment, record)?;
        let end = segment.header.first_row + record.rows();
        let dropped = lost_rows(segment, record)?.max(chain.lost_end.saturating_sub(end));
        let mut live = LiveSegment::resume(medium, plan, segment, record)?;
        // From now on this is the newest commit, of this boot, whatever was there before.
        live.make_visible(OPEN)?;
        // A writer that died in a commit across the end of a segment may have published more to other Arrow readers.
        live.shared.publish_ahead(&live.now.counters, live.sequence())?;
        return Ok((live, dropped));
    }

    let first_row = first_row(dataset) + dataset.len()?;
    let mut live = first_segment(medium, path, plan, first_row, settings)?;
    let names = dataset.position_names()?;
    let values = dataset.position_values()?;
    live.commit_initial_with(&names, values)?;
    if chain.starts.last() == Some(&first_row) {
        // An empty segment was sealed when its table replaced it, and this directory has a link to it.
        replace_name(&live, path)?;
    } else {
        give_name(&live, path)?;
    }
    Ok((live, chain.lost_end.saturating_sub(first_row)))
}

/// Opens the sealed segments among `starts` whose last commits were not synced before the writer died, in order.
pub(super) fn not_durable(
    medium: &FileSystem,
    path: &Path,
    starts: &[u64],
    plan: &Arc<Plan>,
) -> Result<Vec<Arc<LiveFile>>> {
    open_all(medium, path, chain::non_durable_segments(path, starts)?, Some(plan))
}

/// Does the work that a dead writer may have left in the segments before `live`; returns the segments whose last
/// commits it has not synced, in order.
pub(super) fn take_over(
    lock: &DirectoryLock,
    path: &Path,
    chain: &SegmentChain,
    live: &LiveSegment,
    plan: &Arc<Plan>,
) -> Result<Vec<Arc<LiveFile>>> {
    let before = chain.before(live.first_row());
    let pending = not_durable(lock.medium(), path, before, plan)?;
    assert!(pending.len() <= before.len(), "only segments before the live one are pending");
    stamp_sealed(lock.medium(), path, &before[..before.len() - pending.len()]);
    let is_all = pending.len() == before.len();
    if is_all && !pending.first().unwrap_or(&live.shared).has_durable_record() {
        // Names are synced before a durable record is written. There is none: whoever made the table may have been
        // killed before its first name was on the disk, and a table that was opened survives a power cut.
        lock.sync().map_err(|e| Error::io("syncing the directory", &e))?;
    }
    Ok(pending)
}

/// Gives sealed segments their last time of modification if their writer was killed before it could, or if they are
/// copies: the last one first, up to one that has its time. Publishes a footer again that a crash has lost. Best
/// effort, as [`LiveFile::stamp`].
fn stamp_sealed(medium: &FileSystem, path: &Path, starts: &[u64]) {
    for &start in starts.iter().rev() {
        let file = chain::path(path, start);
        let opened = Mapping::open(&file, Mode::Read).map_err(Error::from).and_then(Segment::open);
        // Dense ones don't change.
        let Ok(opened) = opened else { return };
        let Some(segment) = opened else { continue };
        let Ok(store) = SharedFile::open(medium, &file) else { return };
        if !matches!(store.is_mapped_by(&segment.mapping), Ok(true)) || is_stamped(&store, &segment) {
            return;
        }
        if matches!(lacks_footer(&segment), Ok(true)) {
            let _ = restore_footers(medium, path, &[start]);
        }
        if let Ok(word) = store.file_fingerprint() {
            if !segment.is_known_original_file() {
                store.publish64(segment.header.live + SYNCED, 0);
            }
            store.publish64(segment.header.live + OWN_FILE, word);
        }
        stamp(&store, segment.header.live);
    }
}

/// Returns true if a crash has lost the footer for other Arrow readers.
fn lacks_footer(segment: &Segment) -> Result<bool> {
    let record = segment.newest()?;
    let Some(sizes) = FooterSizes::for_header(&segment.header, &segment.plan) else { return Ok(false) };
    if !segment.may_lack_bytes(&record) {
        return Ok(false);
    }
    let read = |at: u64, into: &mut [u8]| segment.mapping.read_at(at as usize, into);
    Ok(!is_published(&sizes, &segment.plan, &segment.header, &record.counters, read)?)
}

/// Publishes the footers of the segments `starts` again, which a crash has lost.
pub(in crate::table) fn restore_footers(medium: &FileSystem, path: &Path, starts: &[u64]) -> Result<()> {
    for &start in starts {
        let opened = match open_newest(&chain::path(path, start)) {
            // It was merged with the segment before it.
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            opened => opened?,
        };
        let Some((segment, record)) = opened else { continue };
        let plan = Arc::new(Plan::for_schema(&without_settings(&segment.plan.schema.schema))?);
        LiveSegment::open(medium, &plan, &segment, &record)?;
    }
    Ok(())
}

/// Returns true if a sealed segment has the time that its writer gave it, and is no copy.
fn is_stamped(store: &SharedFile, segment: &Segment) -> bool {
    store.has_modified_time(store.load64(segment.header.live + STAMPED)) && segment.is_original_file()
}

/// Brings the sealed segments `starts` to the disk, with their names: a dense file put behind them is valid after a
/// power cut, whatever is left of them.
pub(in crate::table) fn sync_segments(medium: &FileSystem, path: &Path, starts: &[u64]) -> Result<()> {
    medium.sync_dir(path).map_err(|e| Error::io("syncing the directory", &e).at(path))?;
    let pending = open_all(medium, path, chain::non_durable_segments(path, starts)?, None)?;
    let parts = pending.into_iter().map(|segment| Ok((segment.clone(), segment.visible()?)));
    make_durable(&parts.collect::<Result<Vec<_>>>()?, SyncTarget::Columns)
}

/// Opens the segments `starts`, the last of which comes first, in the order of their rows. One with the schema of
/// `plan` shares it.
fn open_all(
    medium: &FileSystem,
    path: &Path,
    starts: Vec<u64>,
    plan: Option<&Arc<Plan>>,
) -> Result<Vec<Arc<LiveFile>>> {
    let mut pending = Vec::new();
    for start in starts.into_iter().rev() {
        let Some((segment, record)) = open_newest(&chain::path(path, start))? else { break };
        // It may have an older schema than the table.
        let schema = without_settings(&segment.plan.schema.schema);
        let own_plan = match plan {
            Some(plan) if plan.schema.schema.fields() == schema.fields() => plan.clone(),
            _ => Arc::new(Plan::for_schema(&schema)?),
        };
        let mut live = LiveSegment::open(medium, &own_plan, &segment, &record)?;
        live.show_instead(segment.visible_within(1)?, &record)?;
        pending.push(live.shared);
    }
    Ok(pending)
}

/// Loads the dictionaries of a segment into memory.
pub(super) fn read_entries(live: &LiveSegment) -> Result<Vec<DictionaryEntries>> {
    live.shared.plan.dictionaries.iter().map(|dictionary| read_dictionary(live, dictionary)).collect()
}

fn read_dictionary(live: &LiveSegment, dictionary: &PlanDictionary) -> Result<DictionaryEntries> {
    let count = live.now.counters[dictionary.entries];
    let lengths = dictionary.values.lengths(count, &live.now.counters);
    // Regions as Arrow's buffers: the validity, of which entries have none; offsets, or values of a fixed width; text.
    let [_, first_len, data_len] =
        lengths.ok_or_else(|| Error::internal(format_args!("{count} entries can't be addressed")))?;
    let validity_region = dictionary.values.region;
    let first_region = validity_region + 1;
    let data_region = first_region + 1;
    let first = read_region(&live.shared, first_region, first_len)?;
    let data =
        if dictionary.bytes().is_some() { read_region(&live.shared, data_region, data_len)? } else { Vec::new() };
    let values = dictionary.stored(count as usize, &first, &data);
    let mut entries = dictionary.new_entries();
    for value in values.ok_or_else(|| Error::invalid("a dictionary's offsets are damaged"))? {
        entries.key(value);
    }
    if entries.len() as u64 != count {
        return Err(Error::invalid("a dictionary holds a value twice"));
    }
    Ok(entries)
}

/// Reads the first `len` bytes of a region, which may not exist if there are none.
fn read_region(shared: &LiveFile, region: usize, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    if len > 0 {
        let offset = shared.header.regions[region].offset;
        shared.store.read(offset, &mut bytes).map_err(|e| Error::io("reading a dictionary", &e))?;
    }
    Ok(bytes)
}
