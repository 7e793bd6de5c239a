//! [`Catalog`]: the tables and files of one directory. Names come from requests, paths never do.

use arrowwood::mapping::MutexExt;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use arrow_schema::SchemaRef;
use arrowwood::{Error, ErrorKind, Writer, WriterOptions, is_directory, metadata_at};

use crate::problem::{Problem, Result};
use crate::table::{FileIdentity, Kind, Table};

/// The limit of decompressed data of a single file, kept while the file is open.
const KEPT: u64 = 64 << 20;
/// The longest name of a table or file, in bytes.
const LONGEST: usize = 200;
/// File systems record times with a granularity of at most a second, by a clock that may be slightly late: a change
/// longer ago has another time than a change now.
const STEP: Duration = Duration::from_millis(1_100);
/// The extensions of served files.
const FILES: [&str; 4] = [".arrow", ".arrows", ".feather", ".ipc"];

/// An entry of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub kind: Kind,
}

/// The tables and files of a directory, or a single one.
pub(crate) struct Catalog {
    directory: PathBuf,
    /// The only entry, if there is one: other entries beside it are not served.
    only: Option<Entry>,
    known: Mutex<HashMap<String, CachedTable>>,
    /// The number of tables whose files may be open at once.
    most: usize,
    making: Mutex<()>,
}

/// A table that was requested.
struct CachedTable {
    table: Arc<Table>,
    /// The time of the last change of its directory's entries before it was listed; `None` if a later change could have
    /// the same time.
    changed: Option<(i64, i64)>,
}

/// The last known state of a name.
struct EntryState {
    kind: Kind,
    path: PathBuf,
    identity: FileIdentity,
    changed: Option<(i64, i64)>,
}

impl EntryState {
    fn from_metadata(kind: Kind, path: PathBuf, data: &Metadata) -> EntryState {
        EntryState { kind, path, identity: FileIdentity::from_metadata(data), changed: changed(data) }
    }
}

/// The time of a directory's last change, unless that was a moment ago.
fn changed(data: &Metadata) -> Option<(i64, i64)> {
    let (seconds, nanos) = (data.ctime(), data.ctime_nsec());
    let since_epoch = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
    let then = SystemTime::UNIX_EPOCH.checked_add(since_epoch)?;
    let is_past = SystemTime::now().duration_since(then).is_ok_and(|since| since > STEP);
    is_past.then_some((seconds, nanos))
}

impl Catalog {
    /// The catalog of the tables and files in `directory`.
    ///
    /// # Errors
    /// `NotFound`, `InvalidArgument` if it is not a directory.
    pub fn open(directory: &Path) -> arrowwood::Result<Catalog> {
        let failed = |path: &Path, e: &io::Error| Error::io("opening the directory to be served", e).at(path);
        let directory = fs::canonicalize(directory).map_err(|e| failed(directory, &e))?;
        if !is_directory(&directory)? {
            let message = "a directory of tables is served, and this is a file; give the directory that it is in";
            return Err(Error::new(ErrorKind::InvalidArgument, message).at(directory));
        }
        if has_segments(&directory).map_err(|e| failed(&directory, &e))? {
            let message = "this is a table; give the directory that it is in";
            return Err(Error::new(ErrorKind::InvalidArgument, message).at(directory));
        }
        Ok(Catalog { directory, only: None, known: Mutex::default(), most: usize::MAX, making: Mutex::default() })
    }

    /// The same, with the files of `most` tables open at once, besides those that are being used.
    pub fn opening(self, most: usize) -> Catalog {
        Catalog { most, ..self }
    }

    /// The served directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A catalog of a single file or table; a pattern or a directory of files is served as one file.
    ///
    /// # Errors
    /// As [`arrowwood::open`].
    pub fn single(path: &Path) -> arrowwood::Result<Catalog> {
        // The error for a missing path names it as given.
        let rows = arrowwood::open(path)?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let failed = |e: io::Error| Error::io("listing the directory", &e).at(&path);
        // A pattern is none of both.
        let kind = match metadata_at(&path)? {
            Some(data) if data.is_file() => Kind::File,
            Some(data) if data.is_dir() && has_segments(&path).map_err(failed)? => Kind::Table,
            _ => Kind::Files,
        };
        drop(rows);
        Ok(Catalog {
            directory: path,
            only: Some(Entry { name, kind }),
            known: Mutex::default(),
            most: usize::MAX,
            making: Mutex::default(),
        })
    }

    /// All entries, by name. Blocks.
    pub fn list(&self) -> Result<Vec<Entry>> {
        if let Some(only) = &self.only {
            return Ok(vec![only.clone()]);
        }
        let failed =
            |e: io::Error| Problem::from_table_error(&Error::io("listing the directory", &e).at(&self.directory));
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
            if let Some(EntryState { kind, .. }) = self.look(&name)? {
                found.push(Entry { name, kind });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The entry `name`, if it may be served.
    ///
    /// # Errors
    /// Those of the system: that it can't be looked at now does not mean that it is not there.
    fn look(&self, name: &str) -> Result<Option<EntryState>> {
        let Some(path) = self.path_of(name) else { return Ok(None) };
        if let Some(only) = &self.only {
            if only.kind == Kind::Files {
                return Ok(Some(EntryState {
                    kind: only.kind,
                    path,
                    identity: FileIdentity::default(),
                    changed: None,
                }));
            }
            let data = metadata_at(&path).map_err(|e| Problem::from_table_error(&e))?;
            return Ok(data.map(|data| EntryState::from_metadata(only.kind, path, &data)));
        }
        let failed = |e: io::Error| Problem::from_table_error(&Error::io("looking for the table", &e).at(&path));
        let Some(data) = present(fs::symlink_metadata(&path)).map_err(failed)? else { return Ok(None) };
        let is_file = data.is_file() && FILES.iter().any(|ending| name.ends_with(ending));
        let is_table = data.is_dir() && has_segments(&path).map_err(failed)?;
        let kind = match (is_table, is_file) {
            (true, _) => Kind::Table,
            (false, true) => Kind::File,
            (false, false) => return Ok(None),
        };
        Ok(Some(EntryState::from_metadata(kind, path, &data)))
    }

    /// The path of `name`, if it is a valid name.
    fn path_of(&self, name: &str) -> Option<PathBuf> {
        match &self.only {
            Some(only) => (only.name == name).then(|| self.directory.clone()),
            None => is_name(name).then(|| self.directory.join(name)),
        }
    }

    /// The table named `name`, if it is known and its directory's entries have not changed since they were listed. This
    /// only reads the directory's own attributes, which are kept in memory while the table is appended to. `None` for a
    /// table that has been closed.
    pub fn unchanged(&self, name: &str) -> Option<Arc<Table>> {
        let (table, changed_then) = {
            // Held while a table is opened, which is not waited for here: this is for threads that must not block.
            let known = self.known.try_lock().ok()?;
            let known = known.get(name)?;
            (known.table.clone(), known.changed?)
        };
        let data = fs::symlink_metadata(&table.path).ok()?;
        let is_same = table.kind == Kind::Table && FileIdentity::from_metadata(&data) == table.identity;
        // A table that gets rows is used, too.
        (is_same && changed(&data) == Some(changed_then) && table.touch()).then_some(table)
    }

    /// The refusal of an unknown name.
    fn missing(&self, name: &str) -> Problem {
        if self.only.is_none() && is_name(name) && has_partitions(&self.directory.join(name)) {
            return Problem::not_found(
                "the table has partitions, which are not served as one; serve its directory, in which each is a table",
            );
        }
        Problem::not_found("there is no such table")
    }

    /// The table named `name`. Blocks.
    pub fn get(&self, name: &str) -> Result<Arc<Table>> {
        let EntryState { kind, path, identity, changed } = self.look(name)?.ok_or_else(|| self.missing(name))?;
        let mut all = self.known.lock_ignoring_poison();
        if let Some(known) = all.get_mut(name).filter(|known| known.table.identity == identity) {
            known.changed = changed;
            let table = known.table.clone();
            if table.is_closed() {
                self.make_room(&all);
            }
            return Ok(table);
        }
        self.make_room(&all);
        let keeps = if self.only.is_some() { KEPT } else { 0 };
        let table = Table::open(name, path, kind, identity).map_err(|e| Problem::from_table_error(&e))?;
        let table = Arc::new(table.keeping(keeps));
        // A table that was removed and recreated is another one; users of the old one get an error.
        all.insert(name.to_owned(), CachedTable { table: table.clone(), changed });
        Ok(table)
    }

    /// Closes the tables that were not used for the longest time, if there is no room for another one.
    fn make_room(&self, known: &HashMap<String, CachedTable>) {
        let tables = known.values().map(|known| &known.table);
        let mut unused: Vec<_> = tables.filter_map(|table| Some((table.unused_since()?, table))).collect();
        if unused.len() >= self.most {
            unused.sort_by_key(|(since, _)| *since);
            // Several together: they are looked for among all.
            let count = unused.len() - self.most + self.most / 8 + 1;
            unused.iter().take(count).for_each(|(_, table)| table.close_unused());
        }
    }

    /// Creates a table; returns false if it exists. Blocks.
    pub fn create(&self, name: &str, schema: SchemaRef, options: &WriterOptions) -> Result<bool> {
        if self.only.is_some() {
            return Err(Problem::forbidden("no table is made beside a single one"));
        }
        if !is_name(name) {
            let detail = format!(
                "a table's name has 1 to {LONGEST} bytes, no control characters and none of / \\ ? # %, and does not \
                 begin with a dot"
            );
            return Err(Problem::bad_request(detail));
        }
        let path = self.directory.join(name);
        let _alone = self.making.lock_ignoring_poison();
        if self.look(name)?.is_some() {
            return Ok(false);
        }
        // An empty directory is what a crash may have left of a creation.
        if let Err(e) = present(fs::remove_dir(&path)) {
            use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory, ResourceBusy};
            if matches!(e.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory | ResourceBusy) {
                return Err(Problem::conflict("exists", "something that is not a table has this name"));
            }
            return Err(Problem::from_table_error(&Error::io("making the table", &e).at(&path)));
        }
        let made = Writer::open(&path, Some(schema), options).and_then(Writer::close);
        made.map_err(|e| {
            // A failed creation may have left an empty directory; nothing else is removed by this.
            let _ = fs::remove_dir(&path);
            Problem::from_table_error(&e)
        })?;
        Ok(true)
    }

    /// Forgets the tables that were removed or replaced, and closes files opened longer than `age` ago that may have been
    /// removed since. Blocks.
    pub fn close_outdated(&self, age: Duration) {
        for table in self.known() {
            // Rows that a thread has still to bring to the disk are waited for when the server stops.
            let is_there = table.is_same().unwrap_or(true);
            if is_there || table.is_written() {
                table.close_outdated(age);
                continue;
            }
            let mut known = self.known.lock_ignoring_poison();
            if known.get(&table.name).is_some_and(|known| Arc::ptr_eq(&known.table, &table)) {
                known.remove(&table.name);
            }
        }
    }

    /// All tables requested so far, but for those that were forgotten since.
    pub fn known(&self) -> Vec<Arc<Table>> {
        let known = self.known.lock_ignoring_poison();
        known.values().map(|known| known.table.clone()).collect()
    }
}

/// Whether `name` can be the name of a table or file.
pub(crate) fn is_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || "/\\?#%".contains(c);
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.') && !name.contains(forbidden)
}

/// Whether `path` is a directory, not a link, that contains directories named `key=value`.
fn has_partitions(path: &Path) -> bool {
    let is_partition = |entry: fs::DirEntry| {
        let is_named_so = entry.file_name().as_encoded_bytes().contains(&b'=');
        is_named_so && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let is_directory = fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    is_directory && fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(is_partition))
}

/// Whether a directory contains segments of a table, and no links to the outside. One that may not be listed has none for this
/// process.
fn has_segments(path: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        listed => present(listed)?,
    };
    let mut found = false;
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        if present(entry.file_type())?.is_some_and(|kind| kind.is_symlink()) {
            return Ok(false);
        }
        found |= entry.file_name().to_str().is_some_and(is_segment);
    }
    Ok(found)
}

/// What a call found at a path; `None` if nothing is there, as when it was removed meanwhile.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn is_segment(name: &str) -> bool {
    let number = name.strip_suffix(".arrow").unwrap_or_default();
    number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use arrowwood::parse_schema;

    use super::*;

    #[test]
    fn only_what_lies_in_the_directory_is_found() {
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
        // What a crash may have left of a creation is in nobody's way.
        assert!(catalog.create("empty", schema(), &WriterOptions::default()).unwrap());
        assert!(catalog.create("made", schema(), &WriterOptions::default()).unwrap());
        assert!(!catalog.create("made", schema(), &WriterOptions::default()).unwrap());
    }

    #[test]
    fn a_table_that_was_made_anew_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        catalog.create("t", schema.clone(), &WriterOptions::default()).unwrap();
        let first = catalog.get("t").unwrap();
        assert!(Arc::ptr_eq(&first, &catalog.get("t").unwrap()));
        // Its directory is kept until the other one exists, which could reuse its inode number.
        fs::rename(folder.path().join("t"), folder.path().join("old")).unwrap();
        assert_eq!(catalog.get("t").map(drop).unwrap_err().status().as_u16(), 404);
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        assert!(!Arc::ptr_eq(&first, &catalog.get("t").unwrap()));
    }

    /// Checking a directory's attributes is enough as long as they have not changed; a link to the outside changes
    /// them.
    #[test]
    fn a_table_is_looked_through_again_when_its_directory_has_changed() {
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
    fn a_table_is_not_waited_for_where_nothing_may_block() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        catalog.create("t", schema, &WriterOptions::default()).unwrap();
        catalog.get("t").unwrap();
        let (done, waited) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let opening = catalog.known.lock().unwrap();
            scope.spawn(|| done.send(catalog.unchanged("t").is_none()));
            let found = waited.recv_timeout(Duration::from_secs(120));
            // Before anything fails, so that the thread ends.
            drop(opening);
            assert_eq!(found, Ok(true));
        });
    }

    #[test]
    fn what_is_no_directory_of_tables_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Arc::new(parse_schema("n: int").unwrap());
        let table = folder.path().join("t");
        Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap().close().unwrap();
        assert!(Catalog::open(&table).map(drop).unwrap_err().to_string().contains("this is a table"));
        assert_eq!(Catalog::open(&folder.path().join("x")).map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
