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
const NAMED: usize = 5;

/// Changes the schema of the table at `path`, which must not have a writer: adds the columns of `add`, which must be
/// nullable, after the others, widens the columns of `widen` to the given types, and makes the columns `nullable`
/// nullable. Changes already made are skipped. In a directory of partitions each partition is changed, by its own
/// commit, if all of them can have the change and be read together after it. Returns whether a schema was changed. See
/// [`Writer::alter`](crate::Writer::alter).
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
    let mut left = Vec::new();
    for directory in &directories {
        match alter_table(directory, add, widen, nullable) {
            Ok(changed) => is_changed |= changed,
            Err(e) => left.push((directory, e)),
        }
    }
    let Some((_, first)) = left.first() else { return Ok(is_changed) };
    let message = format!(
        "{} of {} partitions were not changed; do it again once that is mended: {}",
        left.len(),
        directories.len(),
        named(path, &left)
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

/// Refuses a change that a partition can't have, or after which the partitions could not be read together: `altered` is
/// the schema of one after it.
fn check_all(root: &Path, directories: &[PathBuf], altered: impl Fn(&Path) -> Result<Option<SchemaRef>>) -> Result<()> {
    let mut all: Option<SchemaRef> = None;
    let mut refused = Vec::new();
    for directory in directories {
        let include = |schema: SchemaRef| match &all {
            None => Ok(schema),
            Some(all) => merge_schemas(all, &schema).map_err(|e| e.context("it would differ from other partitions")),
        };
        match altered(directory).and_then(|schema| schema.map(include).transpose()) {
            Ok(newer) => all = newer.or(all),
            Err(e) => refused.push((directory, e)),
        }
    }
    let Some((_, first)) = refused.first() else { return Ok(()) };
    let message = format!(
        "no partition was changed, since {} of {} partitions can't have this: {}",
        refused.len(),
        directories.len(),
        named(root, &refused)
    );
    Err(Error::new(first.kind(), message).at(root))
}

/// The partitions that can't be changed, with the reasons.
fn named(root: &Path, left: &[(&PathBuf, Error)]) -> String {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let named: Vec<_> = left.iter().take(NAMED).map(|(path, e)| format!("{}: {}", name(path), e.message())).collect();
    let more = left.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", named.join("; "))
}
