//! Opens one partition for writing. A new partition must have the columns and the levels of existing ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::directory_names::{PartitionKey, keys_of};
use super::listing::{list, partition_directories};
use super::place::{place_of, root_of};
use crate::array::Value;
use crate::blocking::check_interrupt;
use crate::dataset::merge_schemas;
use crate::directory::{exists, is_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::ReadOptions;
use crate::map::DirectoryLock;
use crate::table::{Writer, WriterOptions, check_new_table, is_table_directory, open_table, refuse_remote};
use crate::types::layout::is_text;

/// Opens the partition of `table` with these values for writing, or creates it.
///
/// To create it, there must be a schema, or another partition to take the schema from. A partition is a table of its
/// own, with one writer at a time. Partition columns in the schema are not stored. Text is stored as in the other
/// partitions, with dictionaries or without, whatever the options say.
///
/// ```
/// use arrowwood::{Value, WriterOptions, open, parse_schema, partition_writer};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks");
/// let schema = parse_schema("price: float64")?.into();
/// let host = [("host", Value::Str("a1"))];
/// let mut writer = partition_writer(&path, &host, Some(schema), &WriterOptions::default())?;
/// writer.append_row(&[Value::Float64(1.5)])?;
/// writer.commit()?;
/// assert!(path.join("host=a1").is_dir());
/// assert_eq!(open(&path)?.num_columns(), 2); // with the column of the directories' names
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Writer::open`] and [`partition_path`](crate::partition_path); `SchemaMismatch` if other partitions have other
/// columns; `InvalidArgument` if `table` is a table without partitions; `Busy` if another process has been creating a
/// partition for 30 seconds.
pub fn partition_writer(
    table: impl AsRef<Path>,
    partition: &[(&str, Value<'_>)],
    schema: Option<SchemaRef>,
    options: &WriterOptions,
) -> Result<Writer> {
    let root = root_of(table.as_ref());
    let keys = keys_of(partition)?;
    let path = place_of(root, &keys)?;
    let names: Vec<&str> = partition.iter().map(|(name, _)| *name).collect();
    let mut options = options.clone();
    options.dictionary.retain(|name| !names.contains(&name.as_str()));
    let stored = schema.map(|schema| without_columns(&schema, &names)).transpose()?;
    if is_table_directory(root)? {
        let message = "the directory is a table without partitions, and can't have both; choose another";
        return Err(Error::invalid_argument(message).at(root));
    }
    let sibling = find_sibling(root, &names)?;
    let stored = match (stored, sibling) {
        (Some(schema), Some(sibling)) => {
            let schema = adapt_to_sibling(&schema, &sibling, &mut options)?;
            let is_known = schema.fields().iter().all(|field| has_type_of(&sibling.schema, field));
            if is_known || is_table_directory(&path)? {
                Some(schema)
            } else {
                // Other siblings may have columns or types that this one lacks.
                let mut schema = schema;
                for sibling in siblings(root)? {
                    schema = adapt_to_sibling(&schema, &sibling, &mut options)?;
                }
                Some(schema)
            }
        }
        (Some(schema), None) => Some(schema),
        // An existing partition keeps its columns. Its siblings may lack some, if an `alter` failed half way.
        (None, _) if is_table_directory(&path)? => None,
        (None, sibling) => sibling.map(|sibling| sibling.schema),
    };

    match stored {
        Some(schema) if !is_table_directory(&path)? => create_partition(root, &keys, schema, &options),
        stored => Writer::open(path, stored, &options),
    }
}

/// The maximum time to wait for another process that creates a partition, which takes it a few syncs.
const MAX_NAMING_WAIT: Duration = Duration::from_secs(30);
/// The time between two attempts to lock the table's directory.
const NAMING_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Creates a partition and opens it.
fn create_partition(root: &Path, keys: &[PartitionKey], schema: SchemaRef, options: &WriterOptions) -> Result<Writer> {
    // A table that can't be made leaves no directory behind.
    check_new_table(&schema, options).map_err(|e| e.at(root))?;
    if !exists(root)? {
        create_levels(root, root, options)?;
    }
    refuse_remote(root, options.force).map_err(|e| e.at(root))?;
    let path = {
        // Meanwhile no other process chooses a name, which could be equal on a file system that ignores case.
        let _naming = lock_names(root, options)?;
        let path = place_of(root, keys)?;
        create_levels(root, &path, options)?;
        path
    };
    Writer::open(path, Some(schema), options)
}

/// Creates `directory`, and those above it.
fn create_levels(root: &Path, directory: &Path, options: &WriterOptions) -> Result<()> {
    let created = options.medium().create_dir_levels(root, directory);
    created.map_err(|e| Error::io("making the partition's directory", &e).at(directory))
}

/// Locks the directory of the partitions, in which names are chosen.
fn lock_names(root: &Path, options: &WriterOptions) -> Result<DirectoryLock> {
    let begun = Instant::now();
    loop {
        let lock = DirectoryLock::try_acquire(&options.medium(), root);
        if let Some(lock) = lock.map_err(|e| Error::io("locking the directory of partitions", &e).at(root))? {
            return Ok(lock);
        }
        check_interrupt()?;
        if begun.elapsed() > MAX_NAMING_WAIT {
            let message = "another process is creating a partition, and doesn't finish; try again";
            return Err(Error::new(ErrorKind::Busy, message).at(root));
        }
        std::thread::sleep(NAMING_RETRY_INTERVAL);
    }
}

/// An existing partition.
struct Sibling {
    directory: PathBuf,
    /// The stored columns.
    schema: SchemaRef,
}

/// Returns `schema` with the dictionaries of `sibling`, and keeps options from making dictionaries that it doesn't
/// have.
///
/// # Errors
/// `SchemaMismatch` if the schemas differ otherwise.
fn adapt_to_sibling(schema: &SchemaRef, sibling: &Sibling, options: &mut WriterOptions) -> Result<SchemaRef> {
    options.dictionary.retain(|name| !is_plain_text(&sibling.schema, name));
    with_dictionaries_of(schema, &sibling.schema).map_err(|e| e.at(&sibling.directory))
}

/// Returns `schema` without the columns named `names`.
pub(super) fn without_columns(schema: &SchemaRef, names: &[&str]) -> Result<SchemaRef> {
    let stored: Vec<FieldRef> =
        schema.fields().iter().filter(|field| !names.contains(&field.name().as_str())).cloned().collect();
    if stored.is_empty() {
        return Err(Error::invalid_argument(
            "all columns are those of partitions; the table needs another one to store",
        ));
    }
    Ok(Arc::new(Schema::new_with_metadata(stored, schema.metadata().clone())))
}

/// Checks that the partitions below `root` have the partition columns `names`. Returns one of them that has a file.
fn find_sibling(root: &Path, names: &[&str]) -> Result<Option<Sibling>> {
    check_levels(root, names, 0)
}

/// Does the same as [`find_sibling`] below `directory`, which is at level `depth`: 0 is the root.
fn check_levels(directory: &Path, names: &[&str], depth: usize) -> Result<Option<Sibling>> {
    if !is_directory(directory)? {
        return Ok(None);
    }
    let (_, children) = list(directory)?;
    let Some(first) = children.first() else {
        let table = if depth > 0 { open_table(directory, ReadOptions::default())? } else { None };
        return Ok(table.map(|table| Sibling { directory: directory.to_path_buf(), schema: table.schema().clone() }));
    };
    let name = names.get(depth).copied().unwrap_or("none");
    let (first_column, _) = &first.key;
    if name != first_column {
        let message = format!(
            "partitions there have the column '{first_column}' at this level, and the new one has {name}; give the \
             same columns in the same order"
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(directory));
    }

    // A partition may have no file yet, so the first one with a file is used.
    for child in &children {
        if let Some(sibling) = check_levels(&child.path, names, depth + 1)? {
            return Ok(Some(sibling));
        }
    }

    Ok(None)
}

/// Returns all partitions of `root` with a file.
fn siblings(root: &Path) -> Result<Vec<Sibling>> {
    let mut siblings = Vec::new();
    for directory in partition_directories(root)? {
        match open_table(&directory, ReadOptions::default()) {
            Ok(Some(table)) => siblings.push(Sibling { directory, schema: table.schema().clone() }),
            Ok(None) => (),
            Err(e) if e.kind() == ErrorKind::NotFound => (),
            Err(e) => return Err(e.at(&directory)),
        }
    }
    Ok(siblings)
}

/// Returns true if the sibling has a column with the name and type of `field`.
fn has_type_of(sibling: &Schema, field: &Field) -> bool {
    sibling.field_with_name(field.name()).is_ok_and(|other| other.data_type() == field.data_type())
}

/// Returns true if the column `name` of a sibling is text without a dictionary, which it is in all of them then.
fn is_plain_text(sibling: &Schema, name: &str) -> bool {
    sibling.field_with_name(name).is_ok_and(|field| is_text(field.data_type()))
}

/// Returns `schema` with dictionaries for text columns that are dictionaries in a sibling.
fn with_dictionaries_of(schema: &SchemaRef, sibling: &SchemaRef) -> Result<SchemaRef> {
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    for field in &mut fields {
        if let Ok(other) = sibling.field_with_name(field.name())
            && let DataType::Dictionary(_, values) = other.data_type()
            && is_text(field.data_type())
            && is_text(values)
        {
            *field = Arc::new(field.as_ref().clone().with_data_type(other.data_type().clone()));
        }
    }
    let adapted = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    merge_schemas(sibling, &adapted)
        .map_err(|e| e.context("the schemas of another partition and of the new one differ"))?;
    Ok(adapted)
}
