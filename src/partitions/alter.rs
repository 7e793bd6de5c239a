//! The schema of a table, or of each partition of a directory, is changed.

use std::path::{Path, PathBuf};

use arrow_schema::Schema;

use super::names::parse;
use super::tree::partition_directories;
use crate::error::{Error, ErrorKind, Result};
use crate::table::alter as alter_table;

/// As many partitions that were not changed are named.
const NAMED: usize = 5;

/// Changes the schema of the table at `path`, which nobody else may be writing: adds the columns of `add`, which may be null,
/// behind the others, gives those of `widen` their wider types, and lets those called `nullable` hold nulls. What is so
/// already stays. Of a directory of partitions each is changed, by a commit of its own. Returns whether a schema was changed.
/// See [`Writer::alter`](crate::Writer::alter).
///
/// # Errors
/// As [`Writer::open`](crate::Writer::open) and [`Writer::alter`](crate::Writer::alter); `ColumnNotFound` if a column of
/// `widen` or `nullable` does not exist; `SchemaMismatch` if one of `add` does, with another type. Of partitions, the error of
/// the first that could not be changed, which names them; the others are changed.
pub fn alter(path: impl AsRef<Path>, add: &Schema, widen: &Schema, nullable: &[String]) -> Result<bool> {
    let path = path.as_ref();
    let directories = if path.is_dir() { partition_directories(path)? } else { Vec::new() };
    if directories.is_empty() {
        return alter_table(path, add, widen, nullable);
    }
    refuse_keys(path, &directories, add)?;
    let mut is_changed = false;
    let mut left = Vec::new();
    for directory in &directories {
        match alter_table(directory, add, widen, nullable) {
            Ok(changed) => is_changed |= changed,
            Err(e) => left.push((directory, e)),
        }
    }
    match left.first() {
        None => Ok(is_changed),
        Some((_, first)) => Err(Error::new(first.kind(), incomplete(path, directories.len(), &left)).at(path)),
    }
}

/// Refuses a new column that the names of directories have.
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

/// What is said where some partitions were not changed.
fn incomplete(root: &Path, count: usize, left: &[(&PathBuf, Error)]) -> String {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let named: Vec<_> = left.iter().take(NAMED).map(|(path, e)| format!("{}: {}", name(path), e.message())).collect();
    let more = left.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!(
        "{} of {count} partitions were not changed; do it again once that is mended: {}{more}",
        left.len(),
        named.join("; ")
    )
}
