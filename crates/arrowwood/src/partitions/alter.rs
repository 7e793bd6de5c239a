//! Changes the schema of a table, or of each partition of a directory.

use std::path::{Path, PathBuf};

use arrow_schema::{Schema, SchemaRef};

use super::directory_names::parse;
use super::listing::partition_directories;
use crate::dataset::merge_schemas;
use crate::directory::is_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::table::{alter as alter_table, altered_schema};

/// The maximum number of unchanged partitions named in an error.
const MAX_NAMED: usize = 5;

/// Changes the schema of the table at `path`, which must not have a writer.
///
/// Adds the columns of `add`, which must be nullable, after the others, widens the columns of `widen` to the given
/// types, and makes the columns `nullable` nullable. Changes already made are skipped. In a directory of partitions
/// each partition is changed, by its own commit, if all of them can have the change and be read together after it.
/// Returns whether a schema was changed. See [`Writer::alter`](crate::Writer::alter).
///
/// # Errors
/// As [`Writer::open`](crate::Writer::open) and [`Writer::alter`](crate::Writer::alter); `ColumnNotFound` if a column
/// of `widen` or `nullable` does not exist; `SchemaMismatch` if one of `add` exists with another type. For partitions,
/// the error of the first that can't have the change, with the names of all such partitions; then none is changed. If
/// one can't be changed at the moment, such as one with a writer, the error names it likewise, and the others are
/// changed.
pub fn alter(path: impl AsRef<Path>, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<bool> {
    let path = path.as_ref();
    let directories = if is_directory(path)? { partition_directories(path)? } else { Vec::new() };
    if directories.is_empty() {
        return alter_table(path, add, widen, nullable);
    }
    refuse_keys(path, &directories, add)?;
    check_all(path, &directories, |directory| altered_schema(directory, add, widen, nullable))?;
    let mut is_changed = false;
    let mut failures = Vec::new();
    for directory in &directories {
        match alter_table(directory, add, widen, nullable) {
            Ok(changed) => is_changed |= changed,
            Err(e) => failures.push((directory, e)),
        }
    }
    let Some((_, first)) = failures.first() else { return Ok(is_changed) };
    let message = format!(
        "{} of {} partitions were not changed; do it again once that is mended: {}",
        failures.len(),
        directories.len(),
        describe_failures(path, &failures)
    );
    Err(Error::new(first.kind(), message).at(path))
}

/// Refuses a new column that is a partition column.
fn refuse_keys(root: &Path, directories: &[PathBuf], add: &Schema) -> Result<()> {
    let Some(first) = directories.first() else { return Ok(()) };
    for name in first.strip_prefix(root).unwrap_or(first) {
        if let Some((key, _)) = parse(name)?.filter(|(key, _)| add.column_with_name(key).is_some()) {
            let message = format!("column '{key}' is in the names of directories; add one of another name");
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(root));
        }
    }
    Ok(())
}

/// Refuses a change that a partition can't have, or after which the partitions could not be read together. `altered`
/// returns the schema that a partition would have after the change.
fn check_all(root: &Path, directories: &[PathBuf], altered: impl Fn(&Path) -> Result<Option<SchemaRef>>) -> Result<()> {
    let mut merged: Option<SchemaRef> = None;
    let mut failures = Vec::new();
    for directory in directories {
        let schema = match altered(directory) {
            Ok(Some(schema)) => schema,
            Ok(None) => continue,
            Err(e) => {
                failures.push((directory, e));
                continue;
            }
        };
        let Some(others) = &merged else {
            merged = Some(schema);
            continue;
        };
        match merge_schemas(others, &schema) {
            Ok(schema) => merged = Some(schema),
            Err(e) => failures.push((directory, e.context("it would differ from other partitions"))),
        }
    }

    let Some((_, first)) = failures.first() else { return Ok(()) };
    let message = format!(
        "no partition was changed, since {} of {} partitions can't have this: {}",
        failures.len(),
        directories.len(),
        describe_failures(root, &failures)
    );

    Err(Error::new(first.kind(), message).at(root))
}

/// Lists the first partitions that can't be changed, with the reasons.
fn describe_failures(root: &Path, failures: &[(&PathBuf, Error)]) -> String {
    let mut text = String::new();
    for (number, (path, e)) in failures.iter().take(MAX_NAMED).enumerate() {
        if number > 0 {
            text.push_str("; ");
        }
        let name = path.strip_prefix(root).unwrap_or(path);
        text.push_str(&format!("{}: {}", name.display(), e.message()));
    }
    if failures.len() > MAX_NAMED {
        text.push_str(&format!("; and {} more", failures.len() - MAX_NAMED));
    }
    text
}
