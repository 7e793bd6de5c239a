//! All partitions of a directory as one dataset, which finds new ones.

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

/// Opens the rows of one partition.
pub(crate) trait PartitionOpener: Debug + Send + Sync {
    /// Returns the rows in `directory`; `None` if it contains neither a table nor Arrow files.
    fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>>;
}

/// A partition: a directory with rows.
#[derive(Clone, Debug)]
pub(super) struct LeafPartition {
    pub path: PathBuf,
    pub identity: FileId,
    pub keys: Vec<PartitionKey>,
    pub constants: Arc<[ConstantColumn]>,
    /// The rows with the columns of the files.
    pub stored: Dataset,
    /// The same with all columns.
    pieces: Vec<SourceSlice>,
}

/// The partitions of a directory.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    root: PathBuf,
    opener: Arc<dyn PartitionOpener>,
    fields: Arc<[FieldRef]>,
    schema: SchemaRef,
    /// The directories of partitions, and those without a file, whose writer may be about to create one.
    listed: Vec<DirectoryListing>,
    leaves: Vec<LeafPartition>,
    /// The first reason why new directories are not among them.
    failed: Option<Error>,
}

/// A new partition.
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
    /// The new ones.
    new: Vec<NewPartition>,
    /// The numbers of known ones.
    known: Vec<usize>,
    /// The first reason why others can't be opened.
    failed: Option<Error>,
}

/// Opens the dataset of the partitions in `root`, with the types of `given` for the columns named there; `None` if
/// there is no partition.
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
    if list(&root)?.1.is_empty() {
        return Ok(None);
    }
    let found = look(&root, opener.as_ref(), &[])?;
    found.failed.clone().map_or(Ok(()), Err)?;
    let Some(first) = found.new.first() else {
        return Err(Error::new(ErrorKind::NotFound, "no partition has a file yet").at(&root));
    };
    let fields = fields_of(&found, &first.keys, given).map_err(|e| e.at(&root))?;
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
        failed: None,
    };
    partitions.take(found)?;
    Ok(Some(partitions.complete()?.dataset()))
}

/// The partition columns of a piece with their values; empty if it is of no partition.
pub(crate) fn partition_values(piece: &SourceSlice) -> Result<Vec<(FieldRef, Value<'_>)>> {
    piece.source.constants().iter().map(|constant| Ok((constant.field().clone(), constant.value()?))).collect()
}

/// The rows of one partition with its columns, from their values as text.
pub(crate) fn with_partition_columns(stored: &Dataset, partition: &[(FieldRef, Option<String>)]) -> Result<Dataset> {
    if partition.is_empty() {
        return Ok(stored.clone());
    }
    let constant = |(field, text): &(FieldRef, Option<String>)| {
        ConstantColumn::new(field.clone(), &values::parse(field, text.as_deref())?)
    };
    let constants: Vec<_> = partition.iter().map(constant).collect::<Result<_>>()?;
    Ok(stored.with_constants(&constants.into()))
}

/// The partition columns, with types that fit the values of all partitions.
fn fields_of(found: &PartitionScan, keys: &[PartitionKey], given: &Schema) -> Result<Vec<FieldRef>> {
    let names: Vec<&String> = keys.iter().map(|(name, _)| name).collect();
    if let Some(unknown) = given.fields().iter().find(|field| !names.contains(&field.name())) {
        let message =
            format!("a type is given for '{}', which is no partition column; there are {names:?}", unknown.name());
        return Err(Error::new(ErrorKind::ColumnNotFound, message));
    }
    let field = |(number, name): (usize, &&String)| {
        let texts = found.new.iter().map(|leaf| leaf.keys.get(number).and_then(|(_, text)| text.as_deref()));
        let data_type = match given.column_with_name(name) {
            Some((_, field)) if values::is_supported(field.data_type()) => field.data_type().clone(),
            Some((_, field)) => {
                let message = format!("partition column '{name}' can't be of type {}", field.data_type());
                return Err(Error::invalid_argument(message));
            }
            None => values::infer(texts),
        };
        Ok(Arc::new(Field::new(*name, data_type, true)))
    };
    names.iter().enumerate().map(field).collect()
}

impl PartitionScan {
    fn fail(&mut self, why: Error) {
        self.failed.get_or_insert(why);
    }
}

/// Finds all partitions below `root`, and opens those that `known` does not have.
fn look(root: &Path, opener: &dyn PartitionOpener, known: &[LeafPartition]) -> Result<PartitionScan> {
    let known: HashMap<&Path, (usize, FileId)> =
        known.iter().enumerate().map(|(number, leaf)| (leaf.path.as_path(), (number, leaf.identity))).collect();
    let mut found = PartitionScan::default();
    let mut level: Vec<(PathBuf, Vec<PartitionKey>)> = vec![(root.to_path_buf(), Vec::new())];
    while !level.is_empty() {
        let mut candidates = Vec::new();
        for (directory, keys) in std::mem::take(&mut level) {
            // It may have been dropped since it was listed.
            let Some((listed, children)) = if_there(list(&directory))? else { continue };
            found.listed.push(listed);
            for child in children {
                match known.get(child.path.as_path()) {
                    Some(&(number, identity)) if FileId::find(&child.path)? == Some(identity) => {
                        found.known.push(number);
                    }
                    _ => match child.keys_below(&keys) {
                        Ok(keys) => candidates.push((child, keys)),
                        Err(e) => found.fail(e),
                    },
                }
            }
        }
        /// Equivalent to copying this many bytes.
        const WORK: usize = 64 << 10;
        let opened = parallel::map(candidates.len(), candidates.len() * WORK, |job| {
            let (child, _) = &candidates[job];
            open_child(opener, &child.path)
        });
        for ((child, keys), opened) in candidates.into_iter().zip(opened) {
            match opened {
                Ok(DirectoryContents::Rows(identity, stored)) => {
                    found.new.push(NewPartition { path: child.path, identity, keys, stored })
                }
                Ok(DirectoryContents::Partitions) => level.push((child.path, keys)),
                Ok(DirectoryContents::Nothing(listed)) => found.listed.extend(listed),
                Err(e) => {
                    // What is there in place of a known one may go on with its rows.
                    found.known.extend(known.get(child.path.as_path()).map(|&(number, _)| number));
                    found.fail(e);
                }
            }
        }
    }
    Ok(found)
}

/// The contents of a directory.
enum DirectoryContents {
    Rows(FileId, Dataset),
    Partitions,
    /// No file; `None` for a directory that is gone.
    Nothing(Option<DirectoryListing>),
}

fn open_child(opener: &dyn PartitionOpener, path: &Path) -> Result<DirectoryContents> {
    let mut opened = open_once(opener, path);
    for _ in 0..TRIES {
        match &opened {
            // It was dropped, or its segments were replaced or dropped while it was being opened.
            Err(e) if e.kind() == ErrorKind::NotFound && !exists(path)? => return Ok(DirectoryContents::Nothing(None)),
            Err(e) if e.kind() == ErrorKind::NotFound => opened = open_once(opener, path),
            _ => break,
        }
    }
    opened
}

fn open_once(opener: &dyn PartitionOpener, path: &Path) -> Result<DirectoryContents> {
    let identity = FileId::from_path(path).map_err(|e| Error::io("looking at the directory", &e).at(path))?;
    // A file created after this moment changes the noted time.
    let listed = DirectoryListing::read(path)?;
    match opener.open_partition(path)? {
        Some(rows) => Ok(DirectoryContents::Rows(identity, rows)),
        None if list(path)?.1.is_empty() => Ok(DirectoryContents::Nothing(Some(listed))),
        None => Ok(DirectoryContents::Partitions),
    }
}

/// `None` if it is gone.
fn if_there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

impl LeafPartition {
    /// Makes the pieces with all columns from those with the columns of files.
    fn fit(&mut self, own: &SchemaRef) -> Result<()> {
        let fitted = self.stored.fitted(own).map_err(|e| e.at(&self.path))?;
        self.pieces = fitted.with_constants(&self.constants).pieces().to_vec();
        Ok(())
    }
}

impl Partitions {
    /// The columns in files.
    fn stored_schema(&self) -> SchemaRef {
        self.stored_of(&self.schema)
    }

    /// The columns in files, of all columns of the partitions.
    pub(super) fn stored_of(&self, all: &Schema) -> SchemaRef {
        let count = all.fields().len() - self.fields.len();
        Arc::new(Schema::new_with_metadata(all.fields()[..count].to_vec(), all.metadata().clone()))
    }

    /// Adds the columns of a partition's rows, in `path`, to those of all; returns whether these have changed.
    fn include(&mut self, stored: &Schema, path: &Path) -> Result<bool> {
        let newer = self.including(stored, path)?;
        let is_changed = newer.is_some();
        self.schema = newer.unwrap_or_else(|| self.schema.clone());
        Ok(is_changed)
    }

    /// Continues with all columns of [`including`](Partitions::including).
    #[cfg(feature = "table")]
    pub(super) fn widen(&mut self, all: SchemaRef) {
        self.schema = all;
    }

    /// The columns of all partitions with those of a partition's rows, in `path`; `None` if these are among them.
    pub(super) fn including(&self, stored: &Schema, path: &Path) -> Result<Option<SchemaRef>> {
        let own = self.stored_schema();
        let all = merge_schemas(&own, stored).map_err(|e| self.differs(&e, stored, path))?;
        if all.fields() == own.fields() {
            return Ok(None);
        }
        if let Some(twice) = self.fields.iter().find(|field| all.index_of(field.name()).is_ok()) {
            let message =
                format!("column '{}' is in the files and in the names of directories; rename one", twice.name());
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(path));
        }
        Ok(Some(append_fields(&all, self.fields.iter())))
    }

    /// The error for a partition with columns incompatible with those of another one.
    fn differs(&self, why: &Error, stored: &Schema, path: &Path) -> Error {
        let clashes = |leaf: &&LeafPartition| leaf.path != path && merge_schemas(leaf.stored.schema(), stored).is_err();
        let other = self.leaves.iter().find(clashes).map_or("others".into(), |leaf| leaf.path.display().to_string());
        let message = format!("the schemas of {other} and of this partition differ: {}", why.message());
        Error::new(ErrorKind::SchemaMismatch, message).at(path)
    }

    /// Makes the pieces of all partitions again, after a change of schema.
    fn fit_all(&mut self) -> Result<()> {
        let own = self.stored_schema();
        self.leaves.iter_mut().try_for_each(|leaf| leaf.fit(&own))
    }

    /// Continues with the listed partitions: the known ones that still exist, and the new ones that fit them.
    fn take(&mut self, found: PartitionScan) -> Result<()> {
        let known = found.known.iter().map(|&number| self.leaves[number].clone()).collect::<Vec<_>>();
        let older = std::mem::replace(&mut self.leaves, known);
        let before = self.schema.clone();
        let mut included: Option<SchemaRef> = None;
        self.failed = found.failed;
        for new in found.new {
            let path = new.path.clone();
            match self.included(new, &mut included) {
                Ok(leaf) => self.leaves.push(leaf),
                Err(e) => {
                    // As long as what is in its place can't be used, a known one stays.
                    self.leaves.extend(older.iter().find(|leaf| leaf.path == path).cloned());
                    self.failed.get_or_insert(e);
                }
            }
        }
        if before.fields() != self.schema.fields() {
            self.fit_all()?;
        } else {
            let own = self.stored_schema();
            let mut new = self.leaves.iter_mut().filter(|leaf| leaf.pieces.is_empty());
            new.try_for_each(|leaf| leaf.fit(&own))?;
        }
        let mut ordered = Vec::with_capacity(self.leaves.len());
        for leaf in self.leaves.drain(..) {
            let order = leaf
                .constants
                .iter()
                .map(|constant| Ok(ComparableValue::from_value(&constant.value()?)))
                .collect::<Result<Vec<_>>>()?;
            ordered.push((order, leaf));
        }
        ordered.sort_by(|(a, _), (b, _)| compare(a, b));
        self.leaves = ordered.into_iter().map(|(_, leaf)| leaf).collect();
        self.listed = found.listed;
        Ok(())
    }

    /// A partition, without pieces yet, whose columns are among those of all now. `included` is the schema of the one
    /// before: most have the same.
    fn included(&mut self, new: NewPartition, included: &mut Option<SchemaRef>) -> Result<LeafPartition> {
        let leaf = self.leaf(new)?;
        if !included.as_ref().is_some_and(|known| Arc::ptr_eq(known, leaf.stored.schema())) {
            self.include(leaf.stored.schema(), &leaf.path)?;
            *included = Some(leaf.stored.schema().clone());
        }
        Ok(leaf)
    }

    /// A partition, without pieces yet.
    fn leaf(&self, new: NewPartition) -> Result<LeafPartition> {
        let NewPartition { path, identity, keys, stored } = new;
        let fits =
            keys.len() == self.fields.len() && keys.iter().zip(self.fields.iter()).all(|((a, _), b)| a == b.name());
        if !fits {
            let names = |names: Vec<&str>| names.join(", ");
            let got = names(keys.iter().map(|(name, _)| name.as_str()).collect());
            let expected = names(self.fields.iter().map(|field| field.name().as_str()).collect());
            let message = format!("the partition has the columns {got}, others have {expected}; each needs the same");
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&path));
        }
        let constants = keys.iter().zip(self.fields.iter()).map(|((_, text), field)| {
            let value = values::parse(field, text.as_deref())?;
            ConstantColumn::new(field.clone(), &value)
        });
        let constants: Arc<[ConstantColumn]> = constants.collect::<Result<Vec<_>>>().map_err(|e| e.at(&path))?.into();
        Ok(LeafPartition { path, identity, keys, constants, stored, pieces: Vec::new() })
    }

    fn pieces(&self) -> Vec<SourceSlice> {
        self.leaves.iter().flat_map(|leaf| leaf.pieces.iter().cloned()).collect()
    }

    fn dataset(self) -> Dataset {
        let schema = self.schema.clone();
        let pieces = self.pieces();
        Dataset::from_origin(schema, pieces, Arc::new(self))
    }

    /// The name of a partition's directory, from the root on.
    pub(super) fn name_of(&self, leaf: &LeafPartition) -> String {
        leaf.path.strip_prefix(&self.root).unwrap_or(&leaf.path).to_string_lossy().into_owned()
    }

    pub(super) fn leaves(&self) -> &[LeafPartition] {
        &self.leaves
    }

    /// The directories that contain partitions, or nothing yet.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.listed.iter().map(DirectoryListing::path)
    }

    /// Whether the same directories exist, and each that is a partition was opened.
    pub(super) fn is_settled(&self) -> bool {
        self.failed.is_none() && !self.listed.iter().any(DirectoryListing::may_have_changed)
    }

    /// The current partitions; known ones keep their rows. Those that can't be opened, or don't fit the others, are left
    /// out: [`complete`](Partitions::complete) tells why.
    pub(super) fn looked(&self) -> Result<Partitions> {
        let mut newer = self.clone();
        if !self.is_settled() {
            newer.take(look(&self.root, self.opener.as_ref(), &self.leaves)?)?;
        }
        Ok(newer)
    }

    /// The partitions, if none was left out.
    ///
    /// # Errors
    /// The reason why the first one was.
    pub(super) fn complete(self) -> Result<Partitions> {
        self.left_out().map(|()| self)
    }

    /// As [`complete`](Partitions::complete).
    pub(super) fn left_out(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    #[cfg(feature = "table")]
    fn refreshed(&self) -> Result<Partitions> {
        let mut newer = self.looked()?.complete()?;
        let mut is_changed = false;
        for number in 0..newer.leaves.len() {
            if !newer.leaves[number].stored.is_newest() {
                let stored = newer.leaves[number].stored.refresh()?;
                close_files(&stored);
                let path = newer.leaves[number].path.clone();
                is_changed |= newer.include(stored.schema(), &path)?;
                newer.leaves[number].stored = stored;
                let own = newer.stored_schema();
                newer.leaves[number].fit(&own)?;
            }
        }
        if is_changed {
            newer.fit_all()?;
        }
        Ok(newer)
    }

    #[cfg(not(feature = "table"))]
    fn refreshed(&self) -> Result<Partitions> {
        self.looked()?.complete()
    }
}

/// The order of partitions: by their values, null last.
fn compare(a: &[Option<ComparableValue>], b: &[Option<ComparableValue>]) -> Ordering {
    let one = |(a, b): (&Option<ComparableValue>, &Option<ComparableValue>)| match (a, b) {
        (Some(a), Some(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        _ => b.is_some().cmp(&a.is_some()),
    };
    a.iter().zip(b).map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The number of repeated listings while partitions are being dropped.
const TRIES: usize = 3;

impl Origin for Partitions {
    fn is_newest(&self) -> bool {
        #[cfg(feature = "table")]
        let are_newest = self.leaves.iter().all(|leaf| leaf.stored.is_newest());
        #[cfg(not(feature = "table"))]
        let are_newest = true;
        are_newest && self.is_settled()
    }

    fn refresh(&self) -> Result<(Vec<SourceSlice>, Arc<dyn Origin>)> {
        let mut found = self.refreshed();
        for _ in 0..TRIES {
            // A partition may have been dropped, or replaced by its sorted rows, between the two listings.
            if !matches!(&found, Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::FileChanged)) {
                break;
            }
            found = self.refreshed();
        }
        let found = found?;
        Ok((found.pieces(), Arc::new(found)))
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// The partitions of a whole partitioned dataset.
pub(super) fn partitions_of(dataset: &Dataset) -> Option<&Partitions> {
    let origin: &dyn Any = dataset.origin()?.as_ref();
    origin.downcast_ref()
}

impl Dataset {
    /// The rows with the columns of a partition, from their values as text.
    #[doc(hidden)]
    pub fn with_partition_columns(&self, partition: &[(FieldRef, Option<String>)]) -> Result<Dataset> {
        with_partition_columns(self, partition)
    }

    /// The partitions of a partitioned dataset in order, each with its directory, its values by column, and its rows with
    /// all columns; empty for other datasets, and for parts of partitioned ones.
    pub fn partitions(&self) -> Vec<Partition> {
        let Some(partitions) = partitions_of(self) else { return Vec::new() };
        let partition = |leaf: &LeafPartition| Partition {
            name: partitions.name_of(leaf),
            path: leaf.path.clone(),
            keys: leaf.keys.clone(),
            rows: Dataset::from_slices(partitions.schema.clone(), leaf.pieces.clone()),
        };
        partitions.leaves.iter().map(partition).collect()
    }
}

/// One partition of a dataset.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The name of its directory inside that of the dataset, such as `host=a1/day=3`.
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

    /// Looking for new partitions costs little where one directory stays empty, and finds what comes there.
    #[test]
    fn an_empty_directory_is_looked_at_again_only_when_its_names_change() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        for name in ["host=a", "host=b", "host=c"] {
            std::fs::create_dir(place(name)).unwrap();
        }
        std::fs::write(place("host=a/rows"), "").unwrap();
        let dataset = open_partitions(root.path(), &Schema::empty(), Arc::new(Files)).unwrap().unwrap();
        let mut partitions = partitions_of(&dataset).unwrap().clone();
        let settled = |mut partitions: Partitions| {
            let begun = std::time::Instant::now();
            loop {
                partitions = partitions.looked().unwrap();
                if partitions.is_settled() {
                    return partitions;
                }
                assert!(begun.elapsed().as_secs() < 120, "an empty directory is looked at for ever");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        partitions = settled(partitions);
        for (count, name) in [(2, "host=c/rows"), (3, "host=b/rows")] {
            std::fs::write(place(name), "").unwrap();
            assert!(!partitions.is_settled());
            partitions = settled(partitions);
            assert_eq!(partitions.leaves().len(), count);
        }
    }

    /// A partition of sealed segments was replaced by its sorted rows after the partitions were listed, and before its own
    /// were looked for: then `refresh` failed, though all was there.
    #[cfg(feature = "table")]
    #[test]
    fn a_partition_that_is_replaced_while_others_are_listed_is_found() {
        use std::sync::Mutex;

        use crate::ipc::ReadOptions;
        use crate::table::{Writer, WriterOptions, compact, open_table};

        /// Replaces a directory by another one as soon as a third one is opened.
        #[derive(Debug)]
        struct Replacing(PathBuf, Mutex<Option<(PathBuf, PathBuf)>>);

        impl PartitionOpener for Replacing {
            fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>> {
                if directory == self.0
                    && let Some((newer, there)) = self.1.lock().unwrap().take()
                {
                    std::fs::rename(&there, there.with_file_name(".older")).unwrap();
                    std::fs::rename(newer, there).unwrap();
                }
                open_table(directory, ReadOptions::default())
            }
        }

        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        let make = |name: &str, numbers: &[i64]| {
            let schema = Arc::new(Schema::new(vec![Field::new("n", arrow_schema::DataType::Int64, false)]));
            let mut writer = Writer::open(place(name), Some(schema), &WriterOptions::default()).unwrap();
            numbers.iter().for_each(|&n| writer.append_row(&[Value::Int(n)]).unwrap());
            writer.close().unwrap();
            compact(place(name), |_, _| ()).unwrap();
        };
        make("day=1", &[2, 1]);
        let opener = Replacing(place("day=2"), Mutex::new(Some((place(".newer"), place("day=1")))));
        let dataset = open_partitions(root.path(), &Schema::empty(), Arc::new(opener)).unwrap().unwrap();
        make(".newer", &[1, 2]);
        make("day=2", &[3]);
        let newer = dataset.refresh().unwrap();
        let numbers: Vec<_> = newer.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
        assert_eq!(numbers, ["1", "2", "3"]);
    }
}
