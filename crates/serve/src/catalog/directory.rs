//! The catalog of the tables and files of one directory. Names come from requests, paths never do.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_schema::SchemaRef;
use arrowwood::mapping::os::FileInfo;
use arrowwood::mapping::{MutexExt, is_directory, metadata_at};
use arrowwood::{Error, ErrorKind, Writer, WriterOptions};

use super::table::{FileIdentity, Kind, Table, segment_digits};
use crate::change_time::ChangeTime;
use crate::http::{Problem, Result, ResultExt};

/// The maximum size in bytes of decompressed data of a single file that is cached while the file is open.
const MAX_CACHED_BYTES: u64 = 64 << 20;
/// The maximum length in bytes of the name of a table or file.
const MAX_NAME_BYTES: usize = 200;
/// The share of the open tables that are closed together, as finding the least recently used ones takes a pass over all
/// tables: one in so many.
const CLOSED_SHARE: usize = 8;
/// The extensions of served files.
const EXTENSIONS: [&str; 4] = [".arrow", ".arrows", ".feather", ".ipc"];

/// An entry of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Kind,
}

/// The tables and files of a directory, or a single one.
///
/// A table is found in the directory for every request, and cached with its open files while its identity is the same.
/// A lookup by [`Catalog::get`] blocks: it reads the directory, and waits while another table is opened. Threads that
/// must not block try [`Catalog::unchanged`] first.
pub(crate) struct Catalog {
    /// The served directory, or the path of the only entry.
    directory: PathBuf,
    /// The only entry, if a single file or table is served.
    only: Option<Entry>,
    /// The tables that were requested. Locked while a table is opened, so that no table is opened twice.
    tables: Mutex<HashMap<String, CachedTable>>,
    /// The maximum number of tables whose files are open at once.
    max_open: usize,
    /// Locked while a table is created, so that a name is not given twice. Never locked together with `tables`.
    creating: Mutex<()>,
}

/// A table that was requested.
struct CachedTable {
    table: Arc<Table>,
    /// The time of the last change of its directory's entries before it was listed; `None` if a later change could have
    /// the same time.
    changed: Option<ChangeTime>,
}

/// The current state of an entry.
struct EntryState {
    kind: Kind,
    path: PathBuf,
    identity: FileIdentity,
    changed: Option<ChangeTime>,
}

impl EntryState {
    fn from_metadata(kind: Kind, path: PathBuf, data: &FileInfo) -> EntryState {
        EntryState { kind, path, identity: FileIdentity::from_metadata(data), changed: change_time(data) }
    }
}

/// Returns the time of a directory's last change; `None` if a later change could have the same time.
fn change_time(data: &FileInfo) -> Option<ChangeTime> {
    Some(ChangeTime::from_metadata(data)).filter(|time| time.is_distinct())
}

impl Catalog {
    /// Opens the catalog of the tables and files in `directory`.
    ///
    /// # Errors
    /// `NotFound`, or `InvalidArgument` if `directory` is a file or a table.
    pub fn open(directory: &Path) -> arrowwood::Result<Catalog> {
        const OPENING: &str = "opening the directory to be served";
        let directory = fs::canonicalize(directory).map_err(|e| Error::io(OPENING, &e).at(directory))?;
        if !is_directory(&directory)? {
            let message = "a directory of tables is served, and this is a file; give the directory that it is in";
            return Err(Error::new(ErrorKind::InvalidArgument, message).at(directory));
        }
        if has_segments(&directory).map_err(|e| Error::io(OPENING, &e).at(&directory))? {
            let message = "this is a table; give the directory that it is in";
            return Err(Error::new(ErrorKind::InvalidArgument, message).at(directory));
        }
        Ok(Catalog::new(directory, None))
    }

    fn new(directory: PathBuf, only: Option<Entry>) -> Catalog {
        Catalog { directory, only, tables: Mutex::default(), max_open: usize::MAX, creating: Mutex::default() }
    }

    /// Limits the number of tables whose files are open at once, besides the tables in use.
    pub fn opening(self, max_open: usize) -> Catalog {
        Catalog { max_open, ..self }
    }

    /// Returns the served directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens a catalog of a single file or table; a pattern or a directory of files is served as one file.
    ///
    /// # Errors
    /// As [`arrowwood::open`].
    pub fn single(path: &Path) -> arrowwood::Result<Catalog> {
        // The error for a missing path names it as given.
        let rows = arrowwood::open(path)?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let kind = match metadata_at(&path)? {
            Some(data) if data.is_file() => Kind::File,
            Some(data)
                if data.is_dir()
                    && has_segments(&path).map_err(|e| Error::io("listing the directory", &e).at(&path))? =>
            {
                Kind::Table
            }
            // A directory of files, or a pattern, which is no path.
            _ => Kind::Files,
        };
        drop(rows);
        Ok(Catalog::new(path, Some(Entry { name, kind })))
    }

    /// Lists all entries, sorted by name. Blocks.
    pub fn list(&self) -> Result<Vec<Entry>> {
        if let Some(only) = &self.only {
            return Ok(vec![only.clone()]);
        }
        let names = entry_names(&self.directory)
            .map_err(|e| Error::io("listing the directory", &e).at(&self.directory))
            .or_table_problem()?;
        let mut entries = Vec::new();
        for name in names {
            if let Some(EntryState { kind, .. }) = self.find(&name)? {
                entries.push(Entry { name, kind });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Finds the entry `name`, if it may be served.
    ///
    /// # Errors
    /// An error of the system: an entry that can't be inspected now may exist all the same.
    fn find(&self, name: &str) -> Result<Option<EntryState>> {
        let Some(path) = self.path_of(name) else { return Ok(None) };
        if let Some(only) = &self.only {
            if only.kind == Kind::Files {
                let identity = FileIdentity::default();
                return Ok(Some(EntryState { kind: only.kind, path, identity, changed: None }));
            }
            let data = metadata_at(&path).map_err(Error::from).or_table_problem()?;
            return Ok(data.map(|data| EntryState::from_metadata(only.kind, path, &data)));
        }
        let entry = inspect(name, &path).map_err(|e| Error::io("looking for the table", &e).at(&path));
        Ok(entry.or_table_problem()?.map(|(kind, data)| EntryState::from_metadata(kind, path, &data)))
    }

    /// Returns the path of `name`, if it is a valid name.
    fn path_of(&self, name: &str) -> Option<PathBuf> {
        if let Some(only) = &self.only {
            return (only.name == name).then(|| self.directory.clone());
        }
        if !is_name(name) {
            return None;
        }
        let path = self.directory.join(name);
        assert!(path.parent() == Some(self.directory.as_path()), "a valid name leaves the served directory");
        Some(path)
    }

    /// Returns the table named `name`, if it is cached, open, and its directory's entries have not changed since they
    /// were listed.
    ///
    /// This only reads the directory's own attributes, which are in memory while the table is appended to: it is for
    /// threads that must not block.
    pub fn unchanged(&self, name: &str) -> Option<Arc<Table>> {
        let (table, listed) = {
            // The lock may be held while another table is opened, which takes time.
            let tables = self.tables.try_lock().ok()?;
            let cached = tables.get(name)?;
            (cached.table.clone(), cached.changed?)
        };
        let data = FileInfo::from_link(&table.path).ok()?;
        let is_same = table.kind == Kind::Table && FileIdentity::from_metadata(&data) == table.identity;
        // Appending counts as use: the table is not the next one to be closed.
        (is_same && change_time(&data) == Some(listed) && table.touch()).then_some(table)
    }

    /// Returns the problem for a name that there is no entry of.
    fn missing(&self, name: &str) -> Problem {
        if self.only.is_none() && is_name(name) && has_partitions(&self.directory.join(name)) {
            return Problem::not_found(
                "the table has partitions, which are not served as one; serve its directory, in which each is a table",
            );
        }
        Problem::not_found("there is no such table")
    }

    /// Returns the table named `name`, opening it if necessary. Blocks.
    pub fn get(&self, name: &str) -> Result<Arc<Table>> {
        let EntryState { kind, path, identity, changed } = self.find(name)?.ok_or_else(|| self.missing(name))?;
        let mut tables = self.tables.lock_ignoring_poison();
        if let Some(cached) = tables.get_mut(name).filter(|cached| cached.table.identity == identity) {
            cached.changed = changed;
            let table = cached.table.clone();
            if table.is_closed() {
                self.make_room(&tables);
            }
            return Ok(table);
        }
        self.make_room(&tables);
        // One user looks at a single file, and reads the same rows again.
        let cached_bytes = if self.only.is_some() { MAX_CACHED_BYTES } else { 0 };
        let table = Table::open(name, path, kind, identity).or_table_problem()?;
        let table = Arc::new(table.keeping(cached_bytes));
        // A table that was removed and recreated is another one; users of the old one get an error.
        tables.insert(name.to_owned(), CachedTable { table: table.clone(), changed });
        Ok(table)
    }

    /// Closes the least recently used tables, if there is no room for another one.
    fn make_room(&self, tables: &HashMap<String, CachedTable>) {
        let tables = tables.values().map(|cached| &cached.table);
        let mut unused: Vec<_> = tables.filter_map(|table| Some((table.unused_since()?, table))).collect();
        if unused.len() >= self.max_open {
            unused.sort_by_key(|(since, _)| *since);
            let count = unused.len() - self.max_open + self.max_open / CLOSED_SHARE + 1;
            unused.iter().take(count).for_each(|(_, table)| table.close_unused());
        }
    }

    /// Creates a table; returns false if it exists. Blocks.
    pub fn create(&self, name: &str, schema: SchemaRef, options: &WriterOptions) -> Result<bool> {
        if self.only.is_some() {
            return Err(Problem::forbidden("no table is made beside a single one"));
        }
        let Some(path) = self.path_of(name) else {
            let detail = format!(
                "a table's name has 1 to {MAX_NAME_BYTES} bytes, no control characters and none of / \\ ? # %, and \
                 does not begin with a dot"
            );
            return Err(Problem::bad_request(detail));
        };
        let _creating = self.creating.lock_ignoring_poison();
        if self.find(name)?.is_some() {
            return Ok(false);
        }
        // A crash during a creation may have left an empty directory.
        if let Err(e) = none_if_missing(fs::remove_dir(&path)) {
            use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory, ResourceBusy};
            if matches!(e.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory | ResourceBusy) {
                return Err(Problem::conflict("exists", "something that is not a table has this name"));
            }
            return Err(Problem::from_table_error(&Error::io("making the table", &e).at(&path)));
        }
        if let Err(e) = Writer::open(&path, Some(schema), options).and_then(Writer::close) {
            // A failed creation may have left an empty directory; nothing else is removed by this.
            let _ = fs::remove_dir(&path);
            return Err(Problem::from_table_error(&e));
        }
        Ok(true)
    }

    /// Forgets the tables that were removed or replaced, unless they are still written, and closes files opened longer
    /// than `age` ago that may have been removed since. Blocks.
    pub fn close_outdated(&self, age: Duration, is_written: impl Fn(&Table) -> bool) {
        for table in self.known() {
            // A table that can't be inspected now may exist all the same.
            let is_there = table.is_same().unwrap_or(true);
            // A table with a writer stays known, as its files are closed later.
            if is_there || is_written(&table) {
                table.close_outdated(age);
                continue;
            }
            let mut tables = self.tables.lock_ignoring_poison();
            if tables.get(&table.name).is_some_and(|cached| Arc::ptr_eq(&cached.table, &table)) {
                tables.remove(&table.name);
            }
        }
    }

    /// Returns all tables that were requested so far and not forgotten since.
    fn known(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.lock_ignoring_poison();
        tables.values().map(|cached| cached.table.clone()).collect()
    }
}

/// Returns true if `name` can be the name of a table or file.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && !name.contains(|c: char| c.is_control() || "/\\?#%".contains(c))
}

/// Returns the names of the entries of a directory, except names that are not UTF-8.
fn entry_names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// Returns kind and metadata of the entry at `path`; `None` if nothing is there, or nothing that is served.
fn inspect(name: &str, path: &Path) -> io::Result<Option<(Kind, FileInfo)>> {
    let Some(data) = none_if_missing(FileInfo::from_link(path))? else { return Ok(None) };
    if data.is_dir() && has_segments(path)? {
        return Ok(Some((Kind::Table, data)));
    }
    if data.is_file() && EXTENSIONS.iter().any(|extension| name.ends_with(extension)) {
        return Ok(Some((Kind::File, data)));
    }
    Ok(None)
}

/// Returns true if `path` is a directory, not a link, that contains directories named `key=value`.
fn has_partitions(path: &Path) -> bool {
    if !fs::symlink_metadata(path).is_ok_and(|data| data.is_dir()) {
        return false;
    }
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.flatten().any(|entry| {
        let is_named_as_one = entry.file_name().as_encoded_bytes().contains(&b'=');
        is_named_as_one && entry.file_type().is_ok_and(|kind| kind.is_dir())
    })
}

/// Returns true if a directory contains segments of a table, and no links to the outside.
///
/// A directory that this process may not list is no table for it.
fn has_segments(path: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        entries => none_if_missing(entries)?,
    };
    let mut has_segments = false;
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        if none_if_missing(entry.file_type())?.is_some_and(|kind| kind.is_symlink()) {
            return Ok(false);
        }
        has_segments |= entry.file_name().to_str().is_some_and(|name| segment_digits(name).is_some());
    }
    Ok(has_segments)
}

/// Converts `NotFound` to `None`: another process may remove an entry at any time.
fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use arrowwood::parse_schema;

    use super::*;

    #[test]
    fn lookup_stays_in_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let schema = || Arc::new(parse_schema("n: int").unwrap());
        let make =
            |path: PathBuf| Writer::open(path, Some(schema()), &WriterOptions::default()).unwrap().close().unwrap();
        make(outside.path().join("secret"));
        make(folder.path().join("ticks"));
        make(folder.path().join(".hidden"));
        make(folder.path().join("inner"));
        let segment = "00000000000000000000.arrow";
        fs::create_dir(folder.path().join("linked")).unwrap();
        symlink(outside.path().join("secret").join(segment), folder.path().join("linked").join(segment)).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("secret")).unwrap();
        symlink(outside.path().join("secret").join(segment), folder.path().join("secret.arrow")).unwrap();
        fs::copy(outside.path().join("secret").join(segment), folder.path().join("a.arrow")).unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let names: Vec<_> = catalog.list().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a.arrow", "inner", "ticks"]);
        let outside = outside.path().join("secret").display().to_string();
        for name in [
            "",
            ".",
            "..",
            "../x",
            "ticks/",
            "/ticks",
            "secret",
            "secret.arrow",
            "linked",
            ".hidden",
            "empty",
            "notes.txt",
            "ticks/../ticks",
            "ticks\0",
            "ticks\n",
            &outside,
            &"x".repeat(201),
            "ticks%2f",
            "nothing",
        ] {
            assert!(catalog.get(name).is_err(), "{name:?}");
        }
        assert_eq!(catalog.get("ticks").unwrap().kind, Kind::Table);
        assert_eq!(catalog.get("a.arrow").unwrap().kind, Kind::File);
        for name in ["../made", "", ".made", "a/b", "secret", "linked", "notes.txt"] {
            assert!(catalog.create(name, schema(), &WriterOptions::default()).is_err(), "{name:?}");
        }
        // A crash during a creation may leave an empty directory, which must not prevent another creation.
        assert!(catalog.create("empty", schema(), &WriterOptions::default()).unwrap());
        assert!(catalog.create("made", schema(), &WriterOptions::default()).unwrap());
        assert!(!catalog.create("made", schema(), &WriterOptions::default()).unwrap());
    }

    #[test]
    fn recreated_table_gets_another_identity() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        catalog.create("t", schema.clone(), &WriterOptions::default()).unwrap();
        let first = catalog.get("t").unwrap();
        assert!(Arc::ptr_eq(&first, &catalog.get("t").unwrap()));
        // Keeps the old directory until the new one exists, which could reuse its inode number.
        fs::rename(folder.path().join("t"), folder.path().join("old")).unwrap();
        assert_eq!(catalog.get("t").map(drop).unwrap_err().status().as_u16(), 404);
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        assert!(!Arc::ptr_eq(&first, &catalog.get("t").unwrap()));
    }

    /// Checking a directory's attributes is enough as long as they have not changed; a link to the outside changes
    /// them.
    #[test]
    fn a_table_is_inspected_again_when_its_directory_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        let table = catalog.get("t").unwrap();
        assert!(catalog.unchanged("t").is_none(), "it may change at the time that its directory has");
        assert!(catalog.unchanged("other").is_none());
        let begun = std::time::Instant::now();
        while catalog.unchanged("t").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(120), "it never settles");
            std::thread::sleep(Duration::from_millis(1));
            catalog.get("t").unwrap();
        }
        let used = table.unused_since();
        assert!(Arc::ptr_eq(&table, &catalog.unchanged("t").unwrap()));
        assert!(table.unused_since() > used, "of two tables, the one that gets no rows is closed first");
        symlink(folder.path(), folder.path().join("t").join("out")).unwrap();
        assert!(catalog.unchanged("t").is_none());
        assert_eq!(catalog.get("t").map(drop).unwrap_err().status().as_u16(), 404);
        fs::remove_file(folder.path().join("t").join("out")).unwrap();
        assert!(catalog.unchanged("t").is_none());
        assert!(Arc::ptr_eq(&table, &catalog.get("t").unwrap()));
        fs::rename(folder.path().join("t"), folder.path().join("old")).unwrap();
        assert!(catalog.unchanged("t").is_none());
    }

    /// Threads of the server, of which there are few, would all wait for a table that is slow to open.
    #[test]
    fn nonblocking_lookup_does_not_wait_for_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        catalog.get("t").unwrap();
        let (done, waited) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let opening = catalog.tables.lock().unwrap();
            scope.spawn(|| done.send(catalog.unchanged("t").is_none()));
            let is_none = waited.recv_timeout(Duration::from_secs(120));
            // Unlocks before anything fails, so that the thread ends.
            drop(opening);
            assert_eq!(is_none, Ok(true));
        });
    }

    #[test]
    fn only_a_directory_of_tables_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        let table = folder.path().join("t");
        Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap().close().unwrap();
        assert!(Catalog::open(&table).map(drop).unwrap_err().to_string().contains("this is a table"));
        assert_eq!(Catalog::open(&folder.path().join("x")).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
