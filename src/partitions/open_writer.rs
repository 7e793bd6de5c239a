//! The requirements that existing partitions put on a new one: their schema and their keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::directory_names::partition_path;
use super::listing::{list, partition_directories};
use crate::array::Value;
use crate::dataset::merge_schemas;
use crate::directory::is_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::ReadOptions;
use crate::table::{Writer, WriterOptions, is_table_directory, open_table};

/// Opens the partition of `table` with these values for writing, or creates it if there is a schema, or another
/// partition to take the schema from. A partition is a table of its own, with one writer at a time. Partition columns
/// in the schema are not stored. Text is stored as in the other partitions, with dictionaries or without, whatever the
/// options say.
///
/// # Errors
/// As [`Writer::open`] and [`partition_path`]; `SchemaMismatch` if other partitions have other columns; `InvalidArgument` if
/// `table` is a table without partitions.
pub fn partition_writer(
    table: impl AsRef<Path>,
    partition: &[(&str, Value<'_>)],
    schema: Option<SchemaRef>,
    options: &WriterOptions,
) -> Result<Writer> {
    let root = table.as_ref();
    let path = partition_path(root, partition)?;
    let names: Vec<&str> = partition.iter().map(|(name, _)| *name).collect();
    let mut options = options.clone();
    options.dictionary.retain(|name| !names.contains(&name.as_str()));
    let stored = schema.map(|schema| without_columns(&schema, &names)).transpose()?;
    if is_table_directory(root)? {
        let message = "the directory is a table without partitions, and can't have both; choose another";
        return Err(Error::invalid_argument(message).at(root));
    }
    let sibling = check_levels(root, &names, 0)?;
    let stored = match (stored, sibling) {
        (Some(given), Some(found)) => {
            let mut fit = |given, (other, there): &(PathBuf, SchemaRef)| {
                options.dictionary.retain(|name| !is_plain_text(there, name));
                fitted(&given, there).map_err(|e| e.at(other))
            };
            let given = fit(given, &found)?;
            // Others may have columns or types that the found one lacks.
            let is_known = given.fields().iter().all(|field| has_type_of(&found.1, field));
            let others = if is_known || is_table_directory(&path)? { Vec::new() } else { siblings(root)? };
            Some(others.iter().try_fold(given, fit)?)
        }
        (Some(given), None) => Some(given),
        // It keeps its own columns, of which others may lack some, as where changing them failed half way.
        (None, _) if is_table_directory(&path)? => None,
        (None, sibling) => sibling.map(|(_, there)| there),
    };
    if stored.is_some() && !is_table_directory(&path)? {
        let parent = path.parent().unwrap_or(root);
        options
            .medium
            .create_dir_levels(root, parent)
            .map_err(|e| Error::io("making the partition's directory", &e).at(parent))?;
    }
    Writer::open(path, stored, &options)
}

/// `schema` without the columns named `names`.
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

/// Checks that partitions with columns named `names` fit those below `directory`, which is at level `depth`, and finds
/// one of these with a file: its directory and its stored columns.
fn check_levels(directory: &Path, names: &[&str], depth: usize) -> Result<Option<(PathBuf, SchemaRef)>> {
    if !is_directory(directory)? {
        return Ok(None);
    }
    let (_, children) = list(directory)?;
    let Some(first) = children.first() else {
        let table = if depth > 0 { open_table(directory, ReadOptions::default())? } else { None };
        return Ok(table.map(|table| (directory.to_path_buf(), table.schema().clone())));
    };
    let own = names.get(depth).copied().unwrap_or("none");
    if own != first.key.0 {
        let message = format!(
            "partitions there have the column '{}' at this level, and the new one has {own}; give the same columns in the \
             same order",
            first.key.0
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(directory));
    }
    // The newest may have no file yet.
    let mut found = children.iter().map(|child| check_levels(&child.path, names, depth + 1));
    found.find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
}

/// All partitions of `root` with a file: their directories and their stored columns.
fn siblings(root: &Path) -> Result<Vec<(PathBuf, SchemaRef)>> {
    let mut found = Vec::new();
    for directory in partition_directories(root)? {
        match open_table(&directory, ReadOptions::default()) {
            Ok(table) => found.extend(table.map(|table| (directory, table.schema().clone()))),
            Err(e) if e.kind() == ErrorKind::NotFound => (),
            Err(e) => return Err(e.at(&directory)),
        }
    }
    Ok(found)
}

/// Whether the column of another partition has the type of `given`.
fn has_type_of(there: &Schema, given: &Field) -> bool {
    there.field_with_name(given.name()).is_ok_and(|known| known.data_type() == given.data_type())
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether the column `name` of another partition is text without a dictionary: then it is so in all of them.
fn is_plain_text(there: &Schema, name: &str) -> bool {
    there.field_with_name(name).is_ok_and(|known| is_text(known.data_type()))
}

/// `given` with dictionaries for text columns that are dictionaries in another partition.
fn fitted(given: &SchemaRef, there: &Schema) -> Result<SchemaRef> {
    let fit = |field: &FieldRef| match there.field_with_name(field.name()).map(|known| known.data_type()) {
        Ok(known @ DataType::Dictionary(_, values)) if is_text(field.data_type()) && is_text(values) => {
            Arc::new(field.as_ref().clone().with_data_type(known.clone()))
        }
        _ => field.clone(),
    };
    let fields: Vec<FieldRef> = given.fields().iter().map(fit).collect();
    let fitted = Arc::new(Schema::new_with_metadata(fields, given.metadata().clone()));
    merge_schemas(&Arc::new(there.clone()), &fitted)
        .map(|_| fitted)
        .map_err(|e| e.context("the schemas of another partition and of the new one differ"))
}
