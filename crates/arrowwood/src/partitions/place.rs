//! Finds the directory of a partition, or chooses the name of a new one.
//!
//! A directory that has the values in any form is used: earlier versions and other programs encode other characters.
//! The name of a new one must not equal another name in the same directory after folding, so that both can be copied
//! to a file system that ignores case, and be created on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::directory_names::{NULL, PartitionKey, are_folded_alike, directory_names, keys_of, parse};
use super::listing::unreadable;
use crate::array::Value;
use crate::directory::{exists, is_directory};
use crate::error::{Error, Result};

/// Returns the directory of a partition of `table`: `ticks/host=a1` for the column `host` and the value `a1`.
///
/// If there is none, returns the one that a writer would create, with characters percent-encoded that not all systems
/// allow. Create it by [`partition_writer`](crate::partition_writer): two programs that use this function at the same
/// time don't know of each other's names.
///
/// # Errors
/// `InvalidArgument` without columns, for empty or duplicate names, for values without a text of one line (floats,
/// times, bytes, nested values), for days beyond the calendar, and for names of more than 255 bytes; `Io`.
pub fn partition_path(table: impl AsRef<Path>, partition: &[(&str, Value<'_>)]) -> Result<PathBuf> {
    place_of(root_of(table.as_ref()), &keys_of(partition)?)
}

/// Returns the directory of a table, which is the current one if its path is empty.
pub(super) fn root_of(table: &Path) -> &Path {
    if table == Path::new("") { Path::new(".") } else { table }
}

/// Returns the directory of the partition with these keys below `directory`, or the one to create if there is none.
pub(super) fn place_of(directory: &Path, keys: &[PartitionKey]) -> Result<PathBuf> {
    let Some((key, deeper)) = keys.split_first() else { return Ok(directory.to_path_buf()) };
    let entries = entries(directory)?;
    let existing = directories_with(directory, &entries, key)?;
    for path in &existing {
        if let Some(partition) = find_partitions(path, deeper)?.into_iter().next() {
            return Ok(partition);
        }
    }
    match existing.first() {
        Some(path) => place_of(path, deeper),
        None => {
            let name =
                new_name(key, &entries, |name| Ok(exists(&directory.join(name))?)).map_err(|e| e.at(directory))?;
            place_of(&directory.join(name), deeper)
        }
    }
}

/// Returns all directories of the partition with these keys below `directory`. There are several if its values are
/// encoded in several ways.
pub(super) fn find_partitions(directory: &Path, keys: &[PartitionKey]) -> Result<Vec<PathBuf>> {
    let Some((key, deeper)) = keys.split_first() else { return Ok(vec![directory.to_path_buf()]) };
    let mut partitions = Vec::new();
    for path in directories_with(directory, &entries(directory)?, key)? {
        partitions.extend(find_partitions(&path, deeper)?);
    }
    Ok(partitions)
}

/// Returns the names in `directory`; none if it doesn't exist.
fn entries(directory: &Path) -> Result<Vec<OsString>> {
    if !is_directory(directory)? {
        return Ok(Vec::new());
    }
    let entries =
        std::fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    entries.map_err(|e| unreadable(directory, &e))
}

/// Returns the directories of a key among `entries`: the one that would be created now, then others by name.
fn directories_with(directory: &Path, entries: &[OsString], key: &PartitionKey) -> Result<Vec<PathBuf>> {
    let (column, value) = key;
    let plain = OsString::from(format!("{column}={}", value.as_deref().unwrap_or(NULL)));
    let mut names = Vec::new();
    for name in entries {
        let is_encoded = name.as_encoded_bytes().contains(&b'%');
        // A name that isn't UTF-8 is no partition with these values.
        let may_be_it = is_encoded || *name == plain;
        if may_be_it && parse(name).ok().flatten().as_ref() == Some(key) && is_directory(&directory.join(name))? {
            names.push(name);
        }
    }
    // A directory of an earlier version may have a name that would be too long now.
    let preferred =
        directory_names(column, value.as_deref()).ok().and_then(|mut names| names.next()).map(OsString::from);
    names.sort_by_key(|&name| (Some(name) != preferred.as_ref(), name));
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

/// Returns the name of a new directory of a key beside `entries`. `is_taken` says whether the file system has something
/// of a name, which it may also take for one of `entries`.
///
/// # Errors
/// `InvalidArgument` if there is no name left, which only long values can cause; errors of `is_taken`.
fn new_name(
    key: &PartitionKey,
    entries: &[OsString],
    mut is_taken: impl FnMut(&str) -> Result<bool>,
) -> Result<String> {
    let (column, value) = key;
    let mut free = None;
    for name in directory_names(column, value.as_deref())? {
        if is_taken(&name)? {
            continue;
        }
        if !entries.iter().any(|entry| are_folded_alike(&name, &entry.to_string_lossy())) {
            return Ok(name);
        }
        free.get_or_insert(name);
    }
    // It is free here, though not on other file systems.
    free.ok_or_else(|| {
        let mut names = directory_names(column, value.as_deref()).into_iter().flatten();
        if let Some(name) = names.find(|name| entries.iter().any(|entry| entry == name.as_str())) {
            return Error::invalid_argument(format!("'{name}' is no directory, and in the way of the partition"));
        }
        let value = value.as_deref().unwrap_or("null");
        Error::invalid_argument(format!(
            "the directory of {column} = '{value}' can't have a name, as this file system takes its names for those of \
             other partitions; shorten the value"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A directory of a file system that ignores case, and removes dots and spaces at the end of names, as Windows
    /// does.
    #[derive(Default)]
    struct FoldingDirectory {
        /// Names by what they are compared by, each with the value of the rows inside.
        names: BTreeMap<String, (OsString, Option<String>)>,
    }

    impl FoldingDirectory {
        /// Returns what names are compared by. Characters beyond ASCII are refused, as their equality depends on the
        /// file system.
        fn compared(name: &str) -> String {
            assert!(name.is_ascii() && !name.contains(['<', '>', ':', '"', '/', '\\', '|', '?', '*']), "{name}");
            assert!(!name.bytes().any(|byte| byte < 0x20), "{name}");
            name.trim_end_matches(['.', ' ']).to_ascii_lowercase()
        }

        fn write(&mut self, value: Option<&str>) {
            let key = ("k".to_owned(), value.map(str::to_owned));
            let entries: Vec<OsString> = self.names.values().map(|(name, _)| name.clone()).collect();
            if entries.iter().any(|name| parse(name).unwrap().as_ref() == Some(&key)) {
                return;
            }
            let is_taken = |name: &str| Ok(self.names.contains_key(&FoldingDirectory::compared(name)));
            let name = new_name(&key, &entries, is_taken).unwrap();
            let before = self.names.insert(FoldingDirectory::compared(&name), (name.into(), key.1));
            assert_eq!(before, None, "rows of two values in one directory");
        }
    }

    /// Values of which many differ only in case, in normal form, or at the end.
    fn values() -> impl Strategy<Value = Option<String>> {
        prop::option::weighted(
            0.95,
            prop_oneof![
                4 => "[aAbB]{1,3}",
                1 => "[aA%6]{0,5}[. ]{0,2}",
                1 => "(é|e\u{301}|É|ß|ss|SS|ſ|K|k|İ|ı|i|I|\u{1e9b}\u{323}|ﬁ|fi|\u{200d}|東){1,3}",
                1 => "(CON|nul|Com1|LPT9)(\\.txt)?",
                1 => "__(HIVE_DEFAULT_PARTITION|hive_default_partition|Hive_Default_Partition)__",
                1 => "\\PC{0,12}",
                1 => "[\\x00-\\x7f]{0,6}",
            ],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn values_have_different_directories_whatever_case_is_ignored(
            written in prop::collection::vec(values(), 1..40),
        ) {
            let mut directory = FoldingDirectory::default();
            written.iter().for_each(|value| directory.write(value.as_deref()));
            let mut listed = Vec::new();
            for (name, value) in directory.names.values() {
                prop_assert_eq!(&parse(name).unwrap().unwrap(), &("k".to_owned(), value.clone()));
                listed.push(value.clone());
            }
            let mut expected = written.clone();
            expected.sort();
            expected.dedup();
            listed.sort();
            prop_assert_eq!(listed, expected);
        }
    }

    #[test]
    fn a_letter_is_encoded_only_beside_a_name_of_other_case() {
        let free = |_: &str| Ok(false);
        let name = |value: &str, entries: &[&str]| {
            let entries: Vec<OsString> = entries.iter().map(OsString::from).collect();
            new_name(&("k".to_owned(), Some(value.to_owned())), &entries, free).unwrap()
        };
        assert_eq!(name("AAPL", &["k=MSFT"]), "k=AAPL");
        assert_eq!(name("AAPL", &["k=aapl"]), "k=%41APL");
        assert_eq!(name("Aapl", &["k=aapl", "k=%41APL"]), "k=%41%61pl");
        // Of earlier versions.
        assert_eq!(name("strasse", &["k=straße"]), "k=%73trasse");
        // A file system on which names are equal that differ here.
        let is_taken = |name: &str| Ok(name == "k=a");
        assert_eq!(new_name(&("k".to_owned(), Some("a".to_owned())), &[], is_taken).unwrap(), "k=%61");
        assert!(new_name(&("k".to_owned(), None), &[], |_| Ok(true)).is_err());
    }
}
