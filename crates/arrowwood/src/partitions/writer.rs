//! Writes rows of any partitions, each to its own partition.
//!
//! Each partition is a table of its own, whose writer holds a lock, files and mappings. So at most
//! [`max_open`](PartitionedWriter::max_open) are open at once:
//!
//! - Rows of an open partition go to its writer.
//! - If another partition gets rows, the least recently used one without uncommitted rows is closed to make room.
//! - If all of them have uncommitted rows, the new rows *wait* in memory, in order. The commit first commits the open
//!   partitions, and then opens, writes and commits each waiting one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use arrow_schema::{DataType, SchemaRef, TimeUnit};

use super::directory_names::{PartitionKey, directory_names, text_of};
use super::open_writer::{partition_writer, without_columns};
use super::place::find_partitions;
use super::unsynced::UnsyncedPartitions;
use crate::array::Value;
use crate::dataset::{Column, Dataset};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::table::{SyncPolicy, Writer, WriterOptions};
use crate::types::layout::SECONDS_PER_DAY;
use crate::types::{per_second, type_name};

/// A key by which rows are split: a column, or a part of a time or date.
///
/// The values of a column are then in the directories' names and not stored. A time or date stays stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionBy {
    /// The values of the column.
    Column(String),
    /// The day of a time, in UTC: `day=2026-01-31`.
    Day(String),
    /// The month: `month=2026-01`.
    Month(String),
    /// The year: `year=2026`.
    Year(String),
}

impl FromStr for PartitionBy {
    type Err = Error;

    /// Parses `host`, `day(ts)`, `month(ts)` or `year(ts)`.
    fn from_str(text: &str) -> Result<PartitionBy> {
        let Some((function, column)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
            return Ok(PartitionBy::Column(text.to_owned()));
        };
        match function {
            "day" => Ok(PartitionBy::Day(column.to_owned())),
            "month" => Ok(PartitionBy::Month(column.to_owned())),
            "year" => Ok(PartitionBy::Year(column.to_owned())),
            _ => {
                let message =
                    format!("partition_by: got '{text}', expected a column, day(…), month(…) or year(…) of one");
                Err(Error::invalid_argument(message))
            }
        }
    }
}

impl PartitionBy {
    /// Returns the name of the partition column.
    fn key(&self) -> &str {
        match self {
            PartitionBy::Column(name) => name,
            PartitionBy::Day(_) => "day",
            PartitionBy::Month(_) => "month",
            PartitionBy::Year(_) => "year",
        }
    }

    /// Returns the name of the column of the rows from which the key is made.
    fn column(&self) -> &str {
        let (PartitionBy::Column(name) | PartitionBy::Day(name) | PartitionBy::Month(name) | PartitionBy::Year(name)) =
            self;
        name
    }

    fn check(&self, schema: &SchemaRef) -> Result<()> {
        let Ok(field) = schema.field_with_name(self.column()) else {
            let message = format!("partition_by: there is no column '{}'", self.column());
            return Err(Error::new(ErrorKind::ColumnNotFound, message));
        };
        let data_type = field.data_type();
        let fits = match (self, data_type) {
            (PartitionBy::Column(_), DataType::Dictionary(_, values)) => has_directory_names(values),
            (PartitionBy::Column(_), other) => has_directory_names(other),
            (_, other) => matches!(other, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64),
        };
        if fits {
            return Ok(());
        }
        let expected = match self {
            PartitionBy::Column(_) => "text, integers, dates or booleans; of a time, name a part, such as day(ts)",
            _ => "a timestamp or a date",
        };
        let name = self.column();
        let got = type_name(data_type);
        Err(Error::invalid_argument(format!("partition_by: column '{name}' is {got}, expected {expected}")))
    }

    /// Returns the key of a row with `value` in the column: a day for a part of a time, else the value itself.
    fn key_value<'a>(&self, value: Value<'a>) -> Value<'a> {
        if matches!(self, PartitionBy::Column(_)) {
            return value;
        }
        match value {
            Value::Date(days) => Value::Date(days),
            Value::Timestamp(time, unit, _) => Value::Date(days_of(time, unit)),
            _ => Value::Null,
        }
    }

    /// Returns the text of a key in a directory's name; `None` for null.
    fn text(&self, key: &Value<'_>) -> Result<Option<String>> {
        let Some(mut text) = text_of(self.key(), key)? else { return Ok(None) };
        // A day is written as 2026-01-31. The year may have a sign, so the parts are removed from the end.
        let removed_parts = match self {
            PartitionBy::Column(_) | PartitionBy::Day(_) => 0,
            PartitionBy::Month(_) => 1,
            PartitionBy::Year(_) => 2,
        };
        for _ in 0..removed_parts {
            let Some(end) = text.rfind('-') else {
                return Err(Error::internal(format!("a day without a month: '{text}'")));
            };
            text.truncate(end);
        }
        Ok(Some(text))
    }
}

/// Returns true if values of the type can be names of directories.
fn has_directory_names(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, LargeUtf8, Utf8, Utf8View};
    data_type.is_integer() || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Boolean | Date32)
}

/// Returns the day of a time, counted from 1970, in UTC.
fn days_of(time: i64, unit: TimeUnit) -> i64 {
    time.div_euclid(per_second(unit) * SECONDS_PER_DAY)
}

/// The values of a partition, as text.
type PartitionValues = Vec<Option<String>>;

/// An open partition.
#[derive(Debug)]
struct OpenPartition {
    writer: Writer,
    /// True if rows were appended since the last commit.
    has_rows: bool,
    /// The number of the last append that used the partition.
    last_append: u64,
}

/// A writer of a partitioned table: each row goes to its partition, which is created if necessary.
///
/// Each partition is a table with one writer, and a commit is atomic within one partition: a reader, or a crash in
/// between, may find it in one partition and not yet in another.
///
/// A failed assertion, which is a bug of this library, is an error of kind `Internal`, and so are all later calls, as
/// with [`Writer`].
#[derive(Debug)]
pub struct PartitionedWriter {
    root: PathBuf,
    by: Vec<PartitionBy>,
    /// All columns.
    schema: SchemaRef,
    /// The numbers of the stored columns: all but those that are in the directories' names.
    stored: Vec<usize>,
    /// The options of each partition's writer.
    options: WriterOptions,
    /// The maximum number of open partitions.
    max_open: usize,
    open: HashMap<PartitionValues, OpenPartition>,
    /// The partitions with rows that wait for the commit, because of the limit, in the order of their first rows.
    waiting: VecDeque<PartitionValues>,
    /// The rows that wait, by partition.
    waiting_rows: HashMap<PartitionValues, VecDeque<Dataset>>,
    /// The closed partitions with committed rows that may not be on the disk, with the reasons.
    unsynced: BTreeMap<PartitionValues, Error>,
    /// Partitions that earlier writers may have left without a sync.
    leftovers: UnsyncedPartitions,
    /// The number of appends so far.
    appends: u64,
    /// The reason why nothing can be committed before a rollback.
    broken: Option<String>,
    /// The error of a failed assertion, here or in a partition, after which nothing more is written.
    failure: Option<Error>,
}

/// The default of [`PartitionedWriter::max_open`].
const DEFAULT_MAX_OPEN: usize = 64;

impl PartitionedWriter {
    /// Creates a writer of the partitions of `table`, for rows of `schema`, split by `by`, level by level.
    ///
    /// A partition is opened when it gets rows.
    ///
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` for columns whose values can't be directory names, and for two equal levels.
    pub fn new(
        table: impl AsRef<Path>,
        schema: SchemaRef,
        by: &[PartitionBy],
        options: &WriterOptions,
    ) -> Result<PartitionedWriter> {
        if by.is_empty() {
            return Err(Error::invalid_argument(
                "partition_by: expected a column, such as host, or a part of a time, such as day(ts)",
            ));
        }

        by.iter().try_for_each(|by| by.check(&schema))?;
        let keys: Vec<&str> = by.iter().map(PartitionBy::key).collect();
        for (number, level) in by.iter().enumerate() {
            let is_stored_too = !matches!(level, PartitionBy::Column(_)) && schema.field_with_name(level.key()).is_ok();
            if keys[..number].contains(&level.key()) || is_stored_too {
                let message = format!("partition_by: two columns would be called '{}'", level.key());
                return Err(Error::invalid_argument(message));
            }
        }

        without_columns(&schema, &keys)?;
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let stored = names.enumerate().filter(|(_, name)| !keys.contains(name)).map(|(number, _)| number).collect();
        let root = std::path::absolute(table).map_err(|e| Error::io("finding the directory", &e))?;
        Ok(PartitionedWriter {
            root,
            by: by.to_vec(),
            schema,
            stored,
            options: options.clone(),
            max_open: DEFAULT_MAX_OPEN,
            open: HashMap::new(),
            waiting: VecDeque::new(),
            waiting_rows: HashMap::new(),
            unsynced: BTreeMap::new(),
            leftovers: UnsyncedPartitions::default(),
            appends: 0,
            broken: None,
            failure: None,
        })
    }

    /// Sets the maximum number of open partitions; 64 by default.
    ///
    /// Rows of others wait in memory for the commit.
    pub fn max_open(mut self, partitions: usize) -> PartitionedWriter {
        self.max_open = partitions.max(1);
        self
    }

    /// Names and types of all columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the directory of the partitions.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the number of open partitions.
    pub fn num_open(&self) -> usize {
        self.open.len()
    }

    /// Appends all rows of a dataset, whose columns are matched by name.
    ///
    /// # Errors
    /// `SchemaMismatch`, `InvalidArgument`, `Busy` and `Io` as for [`Writer::append_dataset`], naming the partition. If
    /// other partitions already have rows of the same call, nothing more can be appended or committed before
    /// [`rollback`](PartitionedWriter::rollback).
    pub fn append_dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.check_usable()?;
        self.stop_at_panic(|writer| writer.append_checked(dataset))
    }

    fn append_checked(&mut self, dataset: &Dataset) -> Result<()> {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let rows = dataset.select(&names)?;
        let groups = self.group_rows(&rows)?;
        let stored = rows.select_at(&self.stored)?;
        for (keys, _) in groups.iter().filter(|(keys, _)| !self.open.contains_key(keys)) {
            // A value that is too long for a name is refused before any row is appended.
            let partition: Vec<_> = self.by.iter().map(|by| by.key().to_owned()).zip(keys.iter().cloned()).collect();
            let fits = |(key, value): &PartitionKey| directory_names(key, value.as_deref()).map(|_| ());
            match partition.iter().try_for_each(fits) {
                Err(e) if find_partitions(&self.root, &partition)?.is_empty() => return Err(e),
                _ => (),
            }
        }
        self.appends += 1;
        for (number, (keys, group)) in groups.into_iter().enumerate() {
            let rows = group.select_from(&stored)?;
            debug_assert_eq!(rows.len().ok(), Some(group.len() as u64), "the rows of the group");
            if let Err(e) = self.append_to(keys, rows) {
                if number > 0 {
                    self.broken = Some(format!("appending failed midway ({})", e.message()));
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Appends rows to a partition, or lets them wait for the commit if too many others have uncommitted rows.
    fn append_to(&mut self, keys: PartitionValues, rows: Dataset) -> Result<()> {
        // After a failed commit or append there may be room for a partition whose earlier rows still wait.
        if let Some(earlier) = self.waiting_rows.get_mut(&keys) {
            earlier.push_back(rows);
            return Ok(());
        }
        let has_room = self.open.contains_key(&keys) || self.open.len() < self.max_open || self.close_idle()?;
        if has_room {
            return self.append_now(keys, &rows);
        }
        self.waiting.push_back(keys.clone());
        self.waiting_rows.insert(keys, VecDeque::from([rows]));
        self.check_waiting();
        Ok(())
    }

    /// Asserts that no waiting rows can be lost: each partition with such rows is in the queue once.
    fn check_waiting(&self) {
        assert_eq!(self.waiting.len(), self.waiting_rows.len(), "a partition in the queue for each with waiting rows");
    }

    /// Appends to a partition, which is opened if it is not open.
    fn append_now(&mut self, keys: PartitionValues, rows: &Dataset) -> Result<()> {
        let last_append = self.appends;
        if let Some(partition) = self.open.get_mut(&keys) {
            partition.last_append = last_append;
            partition.has_rows = true;
            return partition.writer.append_dataset(rows);
        }
        let mut writer = self.open_partition(&keys)?;
        let appended = writer.append_dataset(rows);
        let has_rows = appended.is_ok();
        self.open.insert(keys, OpenPartition { writer, has_rows, last_append });
        appended
    }

    fn open_partition(&self, keys: &PartitionValues) -> Result<Writer> {
        assert_eq!(keys.len(), self.by.len(), "a value for each level");
        let texts = keys.iter().map(|text| text.as_deref().map_or(Value::Null, Value::Str));
        let values: Vec<(&str, Value<'_>)> = self.by.iter().map(PartitionBy::key).zip(texts).collect();
        partition_writer(&self.root, &values, Some(self.schema.clone()), &self.options)
    }

    /// Closes the least recently used partition without uncommitted rows; returns false if there is none.
    fn close_idle(&mut self) -> Result<bool> {
        let idle = self.open.iter().filter(|(_, partition)| !partition.has_rows);
        let Some((keys, _)) = idle.min_by_key(|(_, partition)| partition.last_append) else { return Ok(false) };
        let keys = keys.clone();
        if let Some(partition) = self.open.remove(&keys) {
            self.close_partition(keys, partition)?;
        }
        Ok(true)
    }

    /// Closes a partition, and remembers it if its rows may not be on the disk.
    fn close_partition(&mut self, keys: PartitionValues, partition: OpenPartition) -> Result<()> {
        assert!(!partition.has_rows, "closing a partition with rows that were not committed");
        let closed = partition.writer.close();
        match &closed {
            Ok(()) => {
                self.unsynced.remove(&keys);
            }
            Err(e) => {
                self.unsynced.insert(keys, e.clone());
            }
        }
        closed
    }

    /// Returns the error of the first partition that is closed and not synced.
    fn check_closed(&self) -> Result<()> {
        let Some(e) = self.unsynced.values().next() else { return Ok(()) };
        let what =
            "the partition was closed, and its committed rows may not be on the disk; append to it and sync again";
        Err(e.clone().context(what))
    }

    /// Makes all appended rows visible to others, partition by partition, each atomically.
    ///
    /// With [`SyncPolicy::Commit`] all are on the disk when this returns, as after [`sync`](PartitionedWriter::sync).
    ///
    /// # Errors
    /// As [`Writer::commit`] and [`PartitionedWriter::append_dataset`]; partitions before the named one are committed.
    pub fn commit(&mut self) -> Result<()> {
        self.check_usable()?;
        self.stop_at_panic(PartitionedWriter::commit_checked)
    }

    fn commit_checked(&mut self) -> Result<()> {
        self.check_waiting();
        for partition in self.open.values_mut().filter(|partition| partition.has_rows) {
            partition.writer.commit()?;
            partition.has_rows = false;
        }
        while let Some(keys) = self.waiting.front().cloned() {
            self.append_waiting(&keys)?;
            self.waiting.pop_front();
            if let Some(partition) = self.open.get_mut(&keys) {
                partition.writer.commit()?;
                partition.has_rows = false;
            }
        }
        self.check_waiting();
        if self.options.sync == SyncPolicy::Commit { self.sync_leftovers() } else { Ok(()) }
    }

    /// Syncs the rows that earlier writers have left in any partition.
    fn sync_leftovers(&mut self) -> Result<()> {
        self.leftovers.sync(&self.root, &self.options)
    }

    /// Appends the waiting rows of a partition.
    fn append_waiting(&mut self, keys: &PartitionValues) -> Result<()> {
        if self.open.len() >= self.max_open && !self.open.contains_key(keys) {
            self.close_idle()?;
        }
        while let Some(rows) = self.waiting_rows.get(keys).and_then(|rows| rows.front().cloned()) {
            self.append_now(keys.clone(), &rows)?;
            // Removed one by one, as the rows must not be appended again if something fails later.
            self.waiting_rows.get_mut(keys).and_then(VecDeque::pop_front);
        }
        self.waiting_rows.remove(keys);
        Ok(())
    }

    /// Brings all committed rows to the disk, including rows that earlier writers have left in any partition.
    ///
    /// Everything that was committed before this writer was created survives a power cut, too. A partition that another
    /// process is writing now is left to that process.
    ///
    /// # Errors
    /// The first error of [`Writer::sync`], after all open partitions were synced, else the first error of another
    /// partition. If a partition could not be closed, to make room for another one, the error is reported again until
    /// rows are appended to the partition, committed and synced.
    pub fn sync(&mut self) -> Result<()> {
        self.check_failure()?;
        self.stop_at_panic(PartitionedWriter::sync_all)
    }

    fn sync_all(&mut self) -> Result<()> {
        let mut result = Ok(());
        for (keys, partition) in &mut self.open {
            let synced = partition.writer.sync();
            if synced.is_ok() {
                self.unsynced.remove(keys);
            }
            result = result.and(synced);
        }
        result?;
        self.check_closed()?;
        self.sync_leftovers()
    }

    /// Discards the rows appended since the last commit.
    pub fn rollback(&mut self) {
        if self.failure.is_none() {
            let _ = self.stop_at_panic(|writer| {
                writer.discard_uncommitted();
                Ok(())
            });
        }
    }

    fn discard_uncommitted(&mut self) {
        for partition in self.open.values_mut().filter(|partition| partition.has_rows) {
            partition.writer.rollback();
            partition.has_rows = false;
        }
        self.waiting.clear();
        self.waiting_rows.clear();
        self.broken = None;
    }

    /// Commits, syncs, and releases the partitions to other writers.
    ///
    /// # Errors
    /// As [`commit`](PartitionedWriter::commit); otherwise, after all partitions were closed, the first error of
    /// [`Writer::close`], now or, as for [`sync`](PartitionedWriter::sync), when a partition was closed earlier.
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        self.stop_at_panic(PartitionedWriter::close_all)
    }

    fn close_all(&mut self) -> Result<()> {
        let mut result = Ok(());
        for (keys, partition) in std::mem::take(&mut self.open) {
            result = result.and(self.close_partition(keys, partition));
        }
        result?;
        self.check_closed()?;
        self.sync_leftovers()
    }

    /// Runs the body of a public method. A panic in it, which is a failed assertion, becomes an error of kind
    /// `Internal`. After such an error, whether of this writer or of a partition's, every call fails.
    fn stop_at_panic(&mut self, body: impl FnOnce(&mut PartitionedWriter) -> Result<()>) -> Result<()> {
        let result = catch_panic(|| body(self));
        if let Err(e) = &result
            && e.kind() == ErrorKind::Internal
        {
            self.failure.get_or_insert_with(|| e.clone());
        }
        result
    }

    /// Returns an error if an assertion has failed before.
    fn check_failure(&self) -> Result<()> {
        let Some(e) = &self.failure else { return Ok(()) };
        let message = format!("the writer can't go on: {}; open the table anew", e.message());
        Err(Error::new(ErrorKind::Internal, message).at(&self.root))
    }

    /// Returns an error if a failed append has to be rolled back first.
    fn check_usable(&self) -> Result<()> {
        self.check_failure()?;
        match &self.broken {
            None => Ok(()),
            Some(why) => {
                let message = format!("the writer can't go on: {why}; roll back first");
                Err(Error::new(ErrorKind::InvalidArgument, message).at(&self.root))
            }
        }
    }

    /// Groups rows by partition, in the order of their first rows.
    fn group_rows(&self, rows: &Dataset) -> Result<Vec<(PartitionValues, PartitionRows)>> {
        let columns: Vec<Column> = self.by.iter().map(|by| rows.column(by.column())).collect::<Result<_>>()?;
        let mut values: Vec<_> = columns.iter().map(Column::values).collect();
        let mut groups: Vec<(PartitionValues, PartitionRows)> = Vec::new();
        let mut numbers: HashMap<PartitionValues, usize> = HashMap::new();

        // The keys and the group of the previous row: consecutive rows mostly belong to one partition.
        let mut previous: Option<(Vec<Value<'_>>, usize)> = None;
        for row in 0..rows.len()? {
            let mut keys = Vec::with_capacity(values.len());
            for (by, values) in self.by.iter().zip(&mut values) {
                let value = values.next().ok_or_else(|| Error::internal("a column shorter than its dataset"))??;
                keys.push(by.key_value(value));
            }
            if let Some((previous_keys, number)) = &previous
                && previous_keys.iter().zip(&keys).all(|(a, b)| is_same(a, b))
            {
                let (_, group) = &mut groups[*number];
                group.add(row);
                continue;
            }
            let texts = self.by.iter().zip(&keys).map(|(by, key)| by.text(key)).collect::<Result<PartitionValues>>()?;
            let number = *numbers.entry(texts.clone()).or_insert(groups.len());
            if number == groups.len() {
                groups.push((texts, PartitionRows::default()));
            }
            let (_, group) = &mut groups[number];
            group.add(row);
            previous = Some((keys, number));
        }

        let grouped: usize = groups.iter().map(|(_, group)| group.len()).sum();
        assert_eq!(grouped as u64, rows.len()?, "each row is in one partition");
        Ok(groups)
    }
}

/// Returns true if two keys are equal. False for values that are no keys.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) | (Value::Date(a), Value::Date(b)) => a == b,
        (Value::UInt(a), Value::UInt(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

/// Rows of a dataset that belong to one partition, in order.
#[derive(Debug, Default)]
struct PartitionRows {
    /// The numbers of the rows, as [`Dataset::take`] has them.
    rows: Vec<i64>,
}

impl PartitionRows {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn add(&mut self, row: u64) {
        debug_assert!(self.rows.last().is_none_or(|&last| last < row as i64), "rows are added in order");
        self.rows.push(row as i64);
    }

    /// Returns the rows: a slice of the dataset if they are consecutive, else gathered.
    fn select_from(&self, dataset: &Dataset) -> Result<Dataset> {
        let (Some(&first), Some(&last)) = (self.rows.first(), self.rows.last()) else { return dataset.slice(0, 0) };
        if (last - first) as usize + 1 == self.len() {
            return dataset.slice(first as u64, self.len() as u64);
        }
        dataset.take(&self.rows)
    }
}
