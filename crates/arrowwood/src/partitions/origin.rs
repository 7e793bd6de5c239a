//! Opens all partitions of a directory as one dataset, which finds new ones when it is refreshed.
//!
//! A *partition*, or leaf, is a directory with rows. Above it are directories named by the partition columns, one level
//! for each. A *scan* lists all levels and opens the leaves that are not known yet; [`Partitions`] keeps the others as
//! they are. A directory that can't be opened doesn't make the scan fail: its error is kept in `failure`, and reported
//! once the other partitions were found.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Field, FieldRef, Schema, SchemaRef};

use super::directory_names::PartitionKey;
use super::listing::{DirectoryListing, list};
use super::values;
use crate::array::Value;
use crate::dataset::{ComparableValue, ConstantColumn, Dataset, Origin, SourceSlice, append_fields, merge_schemas};
use crate::directory::{FileId, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::parallel;
#[cfg(feature = "table")]
use crate::table::close_files;

/// The maximum number of repeated listings while partitions are being dropped.
const MAX_RETRIES: usize = 3;

/// Opens the rows of one partition.
pub(crate) trait PartitionOpener: Debug + Send + Sync {
    /// Returns the rows in `directory`; `None` if it contains neither a table nor Arrow files.
    fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>>;
}

/// A partition: a directory with rows.
#[derive(Clone, Debug)]
pub(super) struct LeafPartition {
    pub path: PathBuf,
    /// The directory that was opened: another one may get its name.
    pub identity: FileId,
    /// The partition columns and their values as text, one for each level.
    pub keys: Vec<PartitionKey>,
    /// The same columns, with typed values.
    pub constants: Arc<[ConstantColumn]>,
    /// The rows with the columns of the files.
    pub stored: Dataset,
    /// The rows with all columns of the partitions; empty until [`fit`](LeafPartition::fit) was called.
    pieces: Vec<SourceSlice>,
}

/// The partitions of a directory.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    root: PathBuf,
    opener: Arc<dyn PartitionOpener>,
    /// The partition columns.
    fields: Arc<[FieldRef]>,
    /// All columns: those in files, then the partition columns.
    schema: SchemaRef,
    /// The directories of partitions, and directories without a file, whose writer may be about to create one.
    listed: Vec<DirectoryListing>,
    /// The partitions in the order of their values.
    leaves: Vec<LeafPartition>,
    /// The first reason why a new directory is not among the leaves.
    failure: Option<Error>,
}

/// A partition that a scan has found and opened, whose keys were not compared with the partition columns yet.
struct NewPartition {
    path: PathBuf,
    identity: FileId,
    keys: Vec<PartitionKey>,
    stored: Dataset,
}

/// The result of listing the tree of directories.
#[derive(Default)]
struct PartitionScan {
    listed: Vec<DirectoryListing>,
    new: Vec<NewPartition>,
    /// The numbers of the known partitions that still exist.
    known: Vec<usize>,
    /// The first reason why another partition can't be opened.
    failure: Option<Error>,
}

/// Opens the dataset of the partitions in `root`, with the types of `given` for the columns named there. Returns `None`
/// if there is no partition.
///
/// # Errors
/// `NotFound` if no partition has a file; `InvalidData` for directories that contain both partitions and files;
/// `SchemaMismatch` if partitions differ in their columns; `InvalidArgument` for an unsupported type of a partition
/// column.
pub(crate) fn open_partitions(
    root: &Path,
    given: &Schema,
    opener: Arc<dyn PartitionOpener>,
) -> Result<Option<Dataset>> {
    let root = std::path::absolute(root).map_err(|e| Error::io("finding the directory", &e))?;
    if !has_partitions(&root)? {
        return Ok(None);
    }
    let scan = scan_directories(&root, opener.as_ref(), &[])?;
    if let Some(failure) = &scan.failure {
        return Err(failure.clone());
    }
    let Some(first) = scan.new.first() else {
        return Err(Error::new(ErrorKind::NotFound, "no partition has a file yet").at(&root));
    };
    let fields = partition_fields(&scan.new, &first.keys, given).map_err(|e| e.at(&root))?;
    if let Some(twice) = fields.iter().find(|field| first.stored.schema().column_with_name(field.name()).is_some()) {
        let message = format!("column '{}' is in the files and in the names of directories; rename one", twice.name());
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&root));
    }
    let schema = append_fields(first.stored.schema(), fields.iter());
    let mut partitions = Partitions {
        root,
        opener,
        fields: fields.into(),
        schema,
        listed: Vec::new(),
        leaves: Vec::new(),
        failure: None,
    };

    partitions.apply_scan(scan)?;
    partitions.check_complete()?;
    Ok(Some(partitions.into_dataset()))
}

/// Returns true if `directory` contains directories named `key=value`.
fn has_partitions(directory: &Path) -> Result<bool> {
    let (_, children) = list(directory)?;
    Ok(!children.is_empty())
}

/// Returns the partition columns of a piece with their values; none if it is not part of a partition.
pub(crate) fn partition_values(piece: &SourceSlice) -> Result<Vec<(FieldRef, Value<'_>)>> {
    piece.source.constants().iter().map(|constant| Ok((constant.field().clone(), constant.value()?))).collect()
}

/// Returns the rows of one partition with its columns, whose values are given as text.
pub(crate) fn with_partition_columns(stored: &Dataset, partition: &[(FieldRef, Option<String>)]) -> Result<Dataset> {
    if partition.is_empty() {
        return Ok(stored.clone());
    }
    let mut constants = Vec::with_capacity(partition.len());
    for (field, text) in partition {
        constants.push(parse_constant(field, text.as_deref())?);
    }
    Ok(stored.with_constants(&constants.into()))
}

/// Parses a value in a directory's name to a column.
fn parse_constant(field: &FieldRef, text: Option<&str>) -> Result<ConstantColumn> {
    ConstantColumn::new(field.clone(), &values::parse(field, text)?)
}

/// Returns the partition columns `keys`, with the types of `given`, or types that fit the values of all partitions.
fn partition_fields(partitions: &[NewPartition], keys: &[PartitionKey], given: &Schema) -> Result<Vec<FieldRef>> {
    let names: Vec<&String> = keys.iter().map(|(name, _)| name).collect();
    if let Some(unknown) = given.fields().iter().find(|field| !names.contains(&field.name())) {
        let message =
            format!("a type is given for '{}', which is no partition column; there are {names:?}", unknown.name());
        return Err(Error::new(ErrorKind::ColumnNotFound, message));
    }
    let mut fields: Vec<FieldRef> = Vec::with_capacity(names.len());
    for (number, &name) in names.iter().enumerate() {
        let data_type = match given.column_with_name(name) {
            Some((_, field)) if values::is_supported(field.data_type()) => field.data_type().clone(),
            Some((_, field)) => {
                let message = format!("partition column '{name}' can't be of type {}", field.data_type());
                return Err(Error::invalid_argument(message));
            }
            None => values::infer(partitions.iter().map(|partition| partition.text(number))),
        };
        fields.push(Arc::new(Field::new(name, data_type, true)));
    }
    Ok(fields)
}

impl NewPartition {
    /// Returns the text of key number `number`; `None` for null, or if the partition has fewer keys.
    fn text(&self, number: usize) -> Option<&str> {
        let (_, text) = self.keys.get(number)?;
        text.as_deref()
    }
}

impl PartitionScan {
    /// Notes an error, unless there was one before.
    fn fail(&mut self, failure: Error) {
        self.failure.get_or_insert(failure);
    }
}

/// The number of bytes whose copying takes as long as opening a directory.
const OPENING_WORK: usize = 64 << 10;

/// Finds all partitions below `root`, level by level, and opens the ones that are not in `known`.
fn scan_directories(root: &Path, opener: &dyn PartitionOpener, known: &[LeafPartition]) -> Result<PartitionScan> {
    let known: HashMap<&Path, (usize, FileId)> =
        known.iter().enumerate().map(|(number, leaf)| (leaf.path.as_path(), (number, leaf.identity))).collect();
    let mut scan = PartitionScan::default();
    let mut level: Vec<(PathBuf, Vec<PartitionKey>)> = vec![(root.to_path_buf(), Vec::new())];

    while !level.is_empty() {
        let mut candidates = Vec::new();
        for (directory, keys) in std::mem::take(&mut level) {
            let (listing, children) = match list(&directory) {
                Ok(listed) => listed,
                // The directory was dropped since it was listed.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            scan.listed.push(listing);
            for child in children {
                match known.get(child.path.as_path()) {
                    Some(&(number, identity)) if FileId::find(&child.path)? == Some(identity) => {
                        scan.known.push(number);
                    }
                    _ => match child.keys_below(&keys) {
                        Ok(keys) => candidates.push((child, keys)),
                        Err(e) => scan.fail(e),
                    },
                }
            }
        }
        let opened = parallel::map(candidates.len(), candidates.len() * OPENING_WORK, |job| {
            let (child, _) = &candidates[job];
            open_child(opener, &child.path)
        });
        assert_eq!(opened.len(), candidates.len(), "a result for each directory");
        for ((child, keys), opened) in candidates.into_iter().zip(opened) {
            match opened {
                Ok(DirectoryContents::Rows(identity, stored)) => {
                    scan.new.push(NewPartition { path: child.path, identity, keys, stored })
                }
                Ok(DirectoryContents::Partitions) => level.push((child.path, keys)),
                Ok(DirectoryContents::Nothing(listing)) => scan.listed.extend(listing),
                Err(e) => {
                    // The directory may continue the rows of the known partition that it has replaced.
                    if let Some(&(number, _)) = known.get(child.path.as_path()) {
                        scan.known.push(number);
                    }
                    scan.fail(e);
                }
            }
        }
    }

    Ok(scan)
}

/// The contents of a directory.
enum DirectoryContents {
    /// The rows of a partition, in this directory.
    Rows(FileId, Dataset),
    /// Directories of the next level.
    Partitions,
    /// No file. The listing is `None` if the directory is gone.
    Nothing(Option<DirectoryListing>),
}

/// Opens a directory, again if it changes meanwhile.
fn open_child(opener: &dyn PartitionOpener, path: &Path) -> Result<DirectoryContents> {
    let mut opened = open_once(opener, path);
    for _ in 0..MAX_RETRIES {
        match &opened {
            // The partition was dropped, or its segments were replaced or dropped while it was being opened.
            Err(e) if e.kind() == ErrorKind::NotFound && !exists(path)? => return Ok(DirectoryContents::Nothing(None)),
            Err(e) if e.kind() == ErrorKind::NotFound => opened = open_once(opener, path),
            _ => break,
        }
    }
    opened
}

fn open_once(opener: &dyn PartitionOpener, path: &Path) -> Result<DirectoryContents> {
    let identity = FileId::from_path(path).map_err(|e| Error::io("looking at the directory", &e).at(path))?;
    // The time of the last change is read first, so that a file created from now on changes it.
    let listing = DirectoryListing::read(path)?;
    match opener.open_partition(path)? {
        Some(rows) => Ok(DirectoryContents::Rows(identity, rows)),
        None if has_partitions(path)? => Ok(DirectoryContents::Partitions),
        None => Ok(DirectoryContents::Nothing(Some(listing))),
    }
}

impl LeafPartition {
    /// Makes the pieces with all columns, from rows converted to the stored columns of all partitions.
    fn fit(&mut self, stored_schema: &SchemaRef) -> Result<()> {
        let fitted = self.stored.fitted(stored_schema).map_err(|e| e.at(&self.path))?;
        self.pieces = fitted.with_constants(&self.constants).pieces().to_vec();
        Ok(())
    }

    /// Returns the values of the partition columns, by which partitions are sorted.
    fn sort_key(&self) -> Result<Vec<Option<ComparableValue>>> {
        let mut key = Vec::with_capacity(self.constants.len());
        for constant in self.constants.iter() {
            key.push(ComparableValue::from_value(&constant.value()?));
        }
        Ok(key)
    }
}

impl Partitions {
    /// Returns the columns in files.
    fn stored_schema(&self) -> SchemaRef {
        self.stored_of(&self.schema)
    }

    /// Returns the columns in files, if `all` are all columns of the partitions.
    pub(super) fn stored_of(&self, all: &Schema) -> SchemaRef {
        assert!(all.fields().ends_with(&self.fields), "the partition columns are the last ones");
        let count = all.fields().len() - self.fields.len();
        Arc::new(Schema::new_with_metadata(all.fields()[..count].to_vec(), all.metadata().clone()))
    }

    /// Adds the columns of a partition's rows, in `path`, to the schema. Returns true if the schema has changed.
    fn include(&mut self, stored: &Schema, path: &Path) -> Result<bool> {
        let Some(newer) = self.including(stored, path)? else { return Ok(false) };
        self.schema = newer;
        Ok(true)
    }

    /// Replaces the schema by one that [`including`](Partitions::including) has returned.
    #[cfg(feature = "table")]
    pub(super) fn widen(&mut self, all: SchemaRef) {
        assert!(all.fields().len() >= self.schema.fields().len(), "a schema never loses columns");
        self.schema = all;
    }

    /// Returns the schema with the columns of a partition's rows, in `path`; `None` if it has them already.
    pub(super) fn including(&self, stored: &Schema, path: &Path) -> Result<Option<SchemaRef>> {
        let stored_schema = self.stored_schema();
        let all = merge_schemas(&stored_schema, stored).map_err(|e| self.differs(&e, stored, path))?;
        if all.fields() == stored_schema.fields() {
            return Ok(None);
        }
        if let Some(twice) = self.fields.iter().find(|field| all.index_of(field.name()).is_ok()) {
            let message =
                format!("column '{}' is in the files and in the names of directories; rename one", twice.name());
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(path));
        }
        Ok(Some(append_fields(&all, self.fields.iter())))
    }

    /// Returns the error for a partition whose columns are incompatible with another partition.
    fn differs(&self, error: &Error, stored: &Schema, path: &Path) -> Error {
        let other = self
            .leaves
            .iter()
            .find(|leaf| leaf.path != path && merge_schemas(leaf.stored.schema(), stored).is_err())
            .map_or("others".into(), |leaf| leaf.path.display().to_string());
        let message = format!("the schemas of {other} and of this partition differ: {}", error.message());
        Error::new(ErrorKind::SchemaMismatch, message).at(path)
    }

    /// Makes the pieces of all partitions again, after a change of schema.
    fn fit_all(&mut self) -> Result<()> {
        let stored_schema = self.stored_schema();
        self.leaves.iter_mut().try_for_each(|leaf| leaf.fit(&stored_schema))
    }

    /// Continues with the scanned partitions: the known ones that still exist, and the new ones that fit them.
    fn apply_scan(&mut self, scan: PartitionScan) -> Result<()> {
        let known = scan.known.iter().map(|&number| self.leaves[number].clone()).collect::<Vec<_>>();
        let older_leaves = std::mem::replace(&mut self.leaves, known);
        let older_schema = self.schema.clone();

        // Most partitions have the same schema, so it is only included when it changes.
        let mut included: Option<SchemaRef> = None;
        self.failure = scan.failure;
        for new in scan.new {
            let path = new.path.clone();
            match self.include_partition(new, &mut included) {
                Ok(leaf) => self.leaves.push(leaf),
                Err(e) => {
                    // A known partition stays as long as its replacement can't be used.
                    self.leaves.extend(older_leaves.iter().find(|leaf| leaf.path == path).cloned());
                    self.failure.get_or_insert(e);
                }
            }
        }

        if older_schema.fields() != self.schema.fields() {
            self.fit_all()?;
        } else {
            let stored_schema = self.stored_schema();
            for leaf in self.leaves.iter_mut().filter(|leaf| leaf.pieces.is_empty()) {
                leaf.fit(&stored_schema)?;
            }
        }

        let mut ordered = Vec::with_capacity(self.leaves.len());
        for leaf in self.leaves.drain(..) {
            ordered.push((leaf.sort_key()?, leaf));
        }
        ordered.sort_by(|(a, _), (b, _)| compare(a, b));
        self.leaves = ordered.into_iter().map(|(_, leaf)| leaf).collect();
        self.listed = scan.listed;
        Ok(())
    }

    /// Adds the columns of a new partition to the schema, unless it has the schema `included`, which was added last.
    /// Returns the partition, without pieces yet.
    fn include_partition(&mut self, new: NewPartition, included: &mut Option<SchemaRef>) -> Result<LeafPartition> {
        let leaf = self.new_leaf(new)?;
        if !included.as_ref().is_some_and(|included| Arc::ptr_eq(included, leaf.stored.schema())) {
            self.include(leaf.stored.schema(), &leaf.path)?;
            *included = Some(leaf.stored.schema().clone());
        }
        Ok(leaf)
    }

    /// Creates a partition without pieces.
    ///
    /// # Errors
    /// `SchemaMismatch` if it has other keys than these partitions; `InvalidData` if a value is not of the column's
    /// type.
    fn new_leaf(&self, new: NewPartition) -> Result<LeafPartition> {
        let NewPartition { path, identity, keys, stored } = new;
        let key_names: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
        let field_names: Vec<&str> = self.fields.iter().map(|field| field.name().as_str()).collect();
        if key_names != field_names {
            let got = key_names.join(", ");
            let expected = field_names.join(", ");
            let message = format!("the partition has the columns {got}, others have {expected}; each needs the same");
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&path));
        }
        let mut constants = Vec::with_capacity(keys.len());
        for ((_, text), field) in keys.iter().zip(self.fields.iter()) {
            constants.push(parse_constant(field, text.as_deref()).map_err(|e| e.at(&path))?);
        }
        Ok(LeafPartition { path, identity, keys, constants: constants.into(), stored, pieces: Vec::new() })
    }

    /// Returns the rows of all partitions.
    fn pieces(&self) -> Vec<SourceSlice> {
        self.leaves.iter().flat_map(|leaf| leaf.pieces.iter().cloned()).collect()
    }

    fn into_dataset(self) -> Dataset {
        let schema = self.schema.clone();
        let pieces = self.pieces();
        Dataset::from_origin(schema, pieces, Arc::new(self))
    }

    /// Returns the path of a partition's directory below the root.
    pub(super) fn name_of(&self, leaf: &LeafPartition) -> String {
        leaf.path.strip_prefix(&self.root).unwrap_or(&leaf.path).to_string_lossy().into_owned()
    }

    pub(super) fn leaves(&self) -> &[LeafPartition] {
        &self.leaves
    }

    /// Returns the directories that contain partitions, or nothing yet.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.listed.iter().map(DirectoryListing::path)
    }

    /// Returns true if a rescan would find nothing new: no directory was created or removed since the scan, and all
    /// partitions were opened.
    pub(super) fn is_settled(&self) -> bool {
        self.failure.is_none() && !self.listed.iter().any(DirectoryListing::may_have_changed)
    }

    /// Returns the current partitions. Known partitions keep their rows. Partitions that can't be opened, or don't fit
    /// the others, are left out, which [`check_complete`](Partitions::check_complete) reports.
    pub(super) fn rescan(&self) -> Result<Partitions> {
        let mut newer = self.clone();
        if !self.is_settled() {
            newer.apply_scan(scan_directories(&self.root, self.opener.as_ref(), &self.leaves)?)?;
        }
        Ok(newer)
    }

    /// Checks that no partition was left out.
    ///
    /// # Errors
    /// The reason why the first one was left out.
    pub(super) fn check_complete(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        }
    }

    /// Returns the current partitions with their current rows.
    #[cfg(feature = "table")]
    fn refreshed(&self) -> Result<Partitions> {
        let mut newer = self.rescan()?;
        newer.check_complete()?;
        let mut is_changed = false;
        for number in 0..newer.leaves.len() {
            if !newer.leaves[number].stored.is_newest() {
                let stored = newer.leaves[number].stored.refresh()?;
                close_files(&stored);
                let path = newer.leaves[number].path.clone();
                is_changed |= newer.include(stored.schema(), &path)?;
                newer.leaves[number].stored = stored;
                let stored_schema = newer.stored_schema();
                newer.leaves[number].fit(&stored_schema)?;
            }
        }
        if is_changed {
            newer.fit_all()?;
        }
        Ok(newer)
    }

    #[cfg(not(feature = "table"))]
    fn refreshed(&self) -> Result<Partitions> {
        let newer = self.rescan()?;
        newer.check_complete()?;
        Ok(newer)
    }
}

/// Compares partitions by their values, null last.
fn compare(a: &[Option<ComparableValue>], b: &[Option<ComparableValue>]) -> Ordering {
    debug_assert_eq!(a.len(), b.len(), "partitions have the same columns");
    for (a, b) in a.iter().zip(b) {
        let order = match (a, b) {
            (Some(a), Some(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            _ => b.is_some().cmp(&a.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl Origin for Partitions {
    fn is_newest(&self) -> bool {
        #[cfg(feature = "table")]
        let are_newest = self.leaves.iter().all(|leaf| leaf.stored.is_newest());
        #[cfg(not(feature = "table"))]
        let are_newest = true;
        are_newest && self.is_settled()
    }

    fn refresh(&self) -> Result<(Vec<SourceSlice>, Arc<dyn Origin>)> {
        let mut refreshed = self.refreshed();
        for _ in 0..MAX_RETRIES {
            // A partition may have been dropped, or replaced by its sorted rows, between the two listings.
            if !matches!(&refreshed, Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::FileChanged)) {
                break;
            }
            refreshed = self.refreshed();
        }
        let newer = refreshed?;
        Ok((newer.pieces(), Arc::new(newer)))
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Returns the partitions of a whole partitioned dataset.
pub(super) fn partitions_of(dataset: &Dataset) -> Option<&Partitions> {
    let origin: &dyn Any = dataset.origin()?.as_ref();
    origin.downcast_ref()
}

/// # Partitions
impl Dataset {
    /// Returns the rows with the columns of a partition added.
    ///
    /// Each has its field, and its value as text, or `None` for null: what another process knows of a partition.
    ///
    /// # Errors
    /// `InvalidData` if a value is not of its field's type.
    pub fn with_partition_columns(&self, partition: &[(FieldRef, Option<String>)]) -> Result<Dataset> {
        with_partition_columns(self, partition)
    }

    /// Returns the partitions of a partitioned dataset in order.
    ///
    /// Each has its directory, its values by column, and its rows with all columns. Other datasets, and parts of
    /// partitioned ones, have none.
    pub fn partitions(&self) -> Vec<Partition> {
        let Some(partitions) = partitions_of(self) else { return Vec::new() };
        let mut list = Vec::with_capacity(partitions.leaves.len());
        for leaf in &partitions.leaves {
            list.push(Partition {
                name: partitions.name_of(leaf),
                path: leaf.path.clone(),
                keys: leaf.keys.clone(),
                rows: Dataset::from_slices(partitions.schema.clone(), leaf.pieces.clone()),
            });
        }
        list
    }
}

/// One partition of a dataset.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The path of its directory below the dataset's directory, such as `host=a1/day=3`.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its columns and their values as text; `None` is null.
    pub keys: Vec<PartitionKey>,
    /// Its rows, with all columns.
    pub rows: Dataset,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition is a directory with a file `rows`.
    #[derive(Debug)]
    struct Files;

    impl PartitionOpener for Files {
        fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>> {
            let schema = Arc::new(Schema::new(vec![Field::new("n", arrow_schema::DataType::Int64, true)]));
            let rows = || Dataset::from_batches(schema, Vec::new());
            directory.join("rows").exists().then(rows).transpose()
        }
    }

    /// Checks that a rescan costs little while a directory stays empty, and finds a file that is created there.
    #[test]
    fn an_empty_directory_is_scanned_again_only_when_its_entries_change() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| root.path().join(name);
        for name in ["host=a", "host=b", "host=c"] {
            std::fs::create_dir(directory(name)).unwrap();
        }
        std::fs::write(directory("host=a/rows"), "").unwrap();
        let dataset = open_partitions(root.path(), &Schema::empty(), Arc::new(Files)).unwrap().unwrap();
        let mut partitions = partitions_of(&dataset).unwrap().clone();
        let settled = |mut partitions: Partitions| {
            let begun = std::time::Instant::now();
            loop {
                partitions = partitions.rescan().unwrap();
                if partitions.is_settled() {
                    return partitions;
                }
                assert!(begun.elapsed().as_secs() < 120, "an empty directory is looked at for ever");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };

        partitions = settled(partitions);
        for (count, name) in [(2, "host=c/rows"), (3, "host=b/rows")] {
            std::fs::write(directory(name), "").unwrap();
            assert!(!partitions.is_settled());
            partitions = settled(partitions);
            assert_eq!(partitions.leaves().len(), count);
        }
    }

    /// `refresh` failed if a partition of sealed segments was replaced by its sorted rows after the partitions were
    /// listed and before its segments were opened.
    #[cfg(feature = "table")]
    #[test]
    fn refresh_finds_a_partition_that_is_replaced_meanwhile() {
        use std::sync::Mutex;

        use crate::ipc::ReadOptions;
        use crate::table::{Writer, WriterOptions, compact, open_table};

        /// Replaces a directory by another one when a third one is opened for the first time.
        #[derive(Debug)]
        struct Replacing {
            when_opened: PathBuf,
            /// The new directory and the one that it replaces; `None` once it has.
            replacement: Mutex<Option<(PathBuf, PathBuf)>>,
        }

        impl PartitionOpener for Replacing {
            fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>> {
                if directory == self.when_opened
                    && let Some((newer, replaced)) = self.replacement.lock().unwrap().take()
                {
                    std::fs::rename(&replaced, replaced.with_file_name(".older")).unwrap();
                    std::fs::rename(newer, replaced).unwrap();
                }
                open_table(directory, ReadOptions::default())
            }
        }

        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| root.path().join(name);
        let make = |name: &str, numbers: &[i64]| {
            let schema = Arc::new(Schema::new(vec![Field::new("n", arrow_schema::DataType::Int64, false)]));
            let mut writer = Writer::open(directory(name), Some(schema), &WriterOptions::default()).unwrap();
            numbers.iter().for_each(|&n| writer.append_row(&[Value::Int(n)]).unwrap());
            writer.close().unwrap();
            compact(directory(name), |_, _| ()).unwrap();
        };

        make("day=1", &[2, 1]);
        let opener = Replacing {
            when_opened: directory("day=2"),
            replacement: Mutex::new(Some((directory(".newer"), directory("day=1")))),
        };
        let dataset = open_partitions(root.path(), &Schema::empty(), Arc::new(opener)).unwrap().unwrap();
        make(".newer", &[1, 2]);
        make("day=2", &[3]);
        let newer = dataset.refresh().unwrap();
        let numbers: Vec<_> = newer.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
        assert_eq!(numbers, ["1", "2", "3"]);
    }
}
