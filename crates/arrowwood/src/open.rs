//! [`open`]: opens a path, several paths, a glob, or bytes as a [`Dataset`].

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_schema::{FieldRef, Schema};

use crate::array::Bytes;
use crate::dataset::{Dataset, rows_equal};
use crate::directory::{is_directory, table_identity};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{arrow_files, expand_glob, is_glob, local_path};
use crate::ipc::{IpcSource, ReadOptions, SchemaCache, Shard, Validation};
use crate::map::{Mapping, Mode, guard, mapped_file_count, os};
use crate::parallel;
use crate::partitions::{PartitionOpener, open_partitions, partition_values, with_partition_columns};
use crate::redact::redact_url;
#[cfg(feature = "table")]
use crate::table::{close_files, open_table};

/// The maximum number of files of one dataset that are mapped, and kept open, from the start.
const MAX_EAGER_FILES: usize = 256;
/// The part of the files that a process may have open which one dataset may keep open from the start: a process may have
/// 1,024 open on most systems, but 256 on macOS.
const EAGER_PART: usize = 4;
/// The maximum number of rows that are compared to find if two sources have rows of one table.
const MAX_COMPARED_ROWS: u64 = 100;

/// Opens the Arrow IPC file or stream at `path` in place.
///
/// Metadata is read, no value is touched. `path` may also be that of a table or of a directory of files, or a pattern;
/// several files are one dataset.
///
/// ```
/// # use arrowwood::{CsvOptions, Dataset, WriteOptions, open, read_csv_from, write};
/// # let folder = tempfile::tempdir()?;
/// # for (name, text) in [("ticks-1.arrow", "price\n1.5\n2.5\n"), ("ticks-2.arrow", "price\n8.0\n")] {
/// #     let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
/// #     write(&Dataset::from_batches(schema, batches)?, folder.path().join(name), &WriteOptions::default())?;
/// # }
/// # let folder = folder.path();
/// let one = open(folder.join("ticks-1.arrow"))?;
/// let all = open(folder.join("ticks-*.arrow"))?;
/// assert_eq!((one.len()?, all.len()?), (2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Trust
/// The file must not be rewritten while it is open; a file that only grows, or that is replaced by a rename, is fine.
/// If it is rewritten or truncated, calls return `FileChanged` as soon as they detect it (`docs/reliability.md` says
/// when); until then values may be wrong, but nothing outside the mapping is ever read. Use [`OpenOptions::copy`] for
/// files that untrusted processes can write.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, `InvalidData` with what the file looks like instead, `Unsupported`, `Io`.
pub fn open(path: impl AsRef<Path>) -> Result<Dataset> {
    OpenOptions::new().path(path)
}

/// The functions that open URLs, for [`open_urls_with`].
#[derive(Clone, Copy, Debug)]
pub struct UrlOpener {
    /// Returns true if it opens such a URL.
    pub takes: fn(&str) -> bool,
    /// Opens the object at the URL.
    pub open: fn(&str, OpenOptions) -> Result<Dataset>,
}

static URL_OPENER: OnceLock<UrlOpener> = OnceLock::new();

/// Sets the opener of paths that are URLs and not names of files, for the whole process.
///
/// Only the first call has an effect.
pub fn open_urls_with(opener: UrlOpener) {
    URL_OPENER.get_or_init(|| opener);
}

/// Returns true if `path` is a URL that [`open`] takes.
pub fn is_url(path: &Path) -> bool {
    find_url_opener(path).is_some()
}

/// Returns `path` as a URL, and its opener, if it is a URL that can be opened.
fn find_url_opener(path: &Path) -> Option<(&str, &'static UrlOpener)> {
    let url = path.to_str().filter(|text| text.contains("://"))?;
    let opener = URL_OPENER.get()?;
    (opener.takes)(url).then_some((url, opener))
}

/// Options for opening files.
///
/// ```
/// use arrowwood::{OpenOptions, Validation};
/// # use arrowwood::{CsvOptions, Dataset, WriteOptions, read_csv_from, write};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks.arrow");
/// # let (schema, batches) = read_csv_from("price\n1.5\n2.5\n".as_bytes(), &CsvOptions::default())?;
/// # write(&Dataset::from_batches(schema, batches)?, &path, &WriteOptions::default())?;
///
/// let ticks = OpenOptions::new().validate(Validation::Full).copy(true).path(&path)?;
/// std::fs::write(&path, "other bytes")?; // the rows are in memory
/// assert_eq!(ticks.column("price")?.mean()?, Some(2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    options: ReadOptions,
    copy: bool,
}

impl OpenOptions {
    /// Returns the options of [`open`]: values are checked lazily, and files are mapped.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets when values are checked; lazily by default.
    pub fn validate(mut self, validate: Validation) -> OpenOptions {
        self.options.validate = validate;
        self
    }

    /// Sets whether to read everything into memory first: sound even if the file is being overwritten.
    pub fn copy(mut self, copy: bool) -> OpenOptions {
        self.copy = copy;
        self
    }

    /// Sets whether to refuse data that needs a copy, with `CopyNeeded` naming the buffer.
    pub fn strict(mut self, strict: bool) -> OpenOptions {
        self.options.strict = strict;
        self
    }

    /// Sets whether to accept truncated data, up to its last whole batch.
    ///
    /// Files whose first bytes are damaged are accepted, too.
    pub fn partial(mut self, partial: bool) -> OpenOptions {
        self.options.partial = partial;
        self
    }

    /// Sets the maximum total size of decompressed buffers, in bytes.
    ///
    /// A small hostile file may ask for any amount of memory. Decompressing more returns `Unsupported`.
    pub fn max_decompressed_bytes(mut self, bytes: u64) -> OpenOptions {
        self.options.max_unpacked = Some(bytes);
        self
    }

    /// Opens the file at `path`, or every file that matches if `path` is a glob.
    ///
    /// # Errors
    /// As [`open`]; `CopyNeeded` with [`OpenOptions::strict`].
    pub fn path(self, path: impl AsRef<Path>) -> Result<Dataset> {
        let path = path.as_ref();
        let opened = Mapping::open(path, Mode::Read).map_err(Error::from);
        if let (Err(_), Some((url, opener))) = (&opened, find_url_opener(path)) {
            return guard(|| (opener.open)(url, self));
        }
        match opened {
            Ok(mapping) => self.mapping(mapping).map_err(|e| e.at(path)),
            Err(e) if e.kind() == ErrorKind::NotFound && is_glob(path) => self.paths(&expand_glob(path)?),
            Err(_) if is_directory(path)? => self.directory(path),
            Err(e) => match local_path(path)? {
                Some(local) => self.path(local),
                None => Err(e),
            },
        }
    }

    /// Opens all `paths`, whose schemas must match, as one dataset.
    ///
    /// # Errors
    /// As [`OpenOptions::path`], naming the path; `SchemaMismatch`; `InvalidArgument` without any path, and for rows of
    /// a table that are in two of them, as in the table and in objects that were pushed from it.
    pub fn paths<P: AsRef<Path>>(self, paths: &[P]) -> Result<Dataset> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        concat_opened(&paths, &self.each(&paths, paths.len())?)
    }

    /// Opens each of `paths`, which belong to a dataset of `count` files. If there are many, a file is mapped when its
    /// values are read.
    fn each(self, paths: &[&Path], count: usize) -> Result<Vec<Dataset>> {
        /// Opening a file takes about as long as copying this many bytes.
        const BYTES_PER_FILE: usize = 16 << 10;
        let is_eager = self.copy || self.options.partial || self.options.validate == Validation::Full;
        if is_eager || count <= max_eager_files() {
            return paths.iter().map(|path| self.path(path)).collect();
        }
        let absolute = absolute_paths(paths);
        assert_eq!(absolute.len(), paths.len(), "an absolute path for each path");
        let schemas = SchemaCache::default();
        let opened = parallel::map(paths.len(), paths.len() * BYTES_PER_FILE, |number| {
            match Shard::open(paths[number], absolute[number].clone(), self.options, &schemas) {
                Ok(Some(shard)) => Ok(Dataset::from_source(Arc::new(shard))),
                Ok(None) => self.segment(paths[number]).map_err(|e| e.at(paths[number])),
                // Directories, URLs, errors.
                Err(_) => self.path(paths[number]),
            }
        });
        opened.into_iter().collect()
    }

    /// Opens bytes that are an IPC file or stream.
    ///
    /// # Errors
    /// `InvalidData`, `Unsupported`; `CopyNeeded` with [`OpenOptions::strict`].
    pub fn bytes(self, bytes: Bytes) -> Result<Dataset> {
        // The bytes may lie in a mapped file, as values of a column.
        guard(|| self.source(bytes, None))
    }

    /// As [`OpenOptions::bytes`], for bytes that errors and [`Dataset::file_slices`] call `name`, such as a URL.
    ///
    /// # Errors
    /// As [`OpenOptions::bytes`], with the name.
    pub fn named_bytes(self, bytes: Bytes, name: impl AsRef<Path>) -> Result<Dataset> {
        let name = name.as_ref();
        let bytes = if self.copy { bytes.to_memory().map_err(|e| e.at(name))? } else { bytes };
        self.source(bytes, Some(name)).map_err(|e| e.at(name))
    }

    fn mapping(self, mapping: Mapping) -> Result<Dataset> {
        let path = mapping.path().map(Path::to_path_buf);
        let bytes = if self.copy { Bytes::copy_of_mapping(&mapping)? } else { Bytes::from_mapping(mapping)? };
        self.source(bytes, path.as_deref())
    }

    /// Maps a segment of a live table, one of many files, and closes it.
    fn segment(self, path: &Path) -> Result<Dataset> {
        let mapping = Mapping::open(path, Mode::Read)?;
        let dataset = self.mapping(mapping.clone())?;
        mapping.close_file();
        Ok(dataset)
    }

    fn source(self, bytes: Bytes, path: Option<&Path>) -> Result<Dataset> {
        self.validated(Dataset::from_source(Arc::new(IpcSource::open(bytes, path, self.options)?)))
    }

    fn validated(self, dataset: Dataset) -> Result<Dataset> {
        if self.options.validate == Validation::Full {
            dataset.validate(|_, _| ())?;
        }
        Ok(dataset)
    }

    fn directory(self, path: &Path) -> Result<Dataset> {
        if let Some(dataset) = open_table(path, self.options)? {
            return self.validated(dataset);
        }
        if let Some(dataset) = open_partitions(path, &Schema::empty(), Arc::new(self))? {
            return self.validated(dataset);
        }
        let files = arrow_files(path)?;
        let count = files.len();
        self.files_of(path, files, count)
    }

    /// Opens the `files` in a directory, which belong to a dataset of `count` files.
    fn files_of(self, directory: &Path, files: Vec<PathBuf>, count: usize) -> Result<Dataset> {
        // Files that appeared since the first check may be the first segments of a table.
        match open_table(directory, self.options)? {
            Some(dataset) => self.validated(dataset),
            None => joined(&self.each(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>(), count)?),
        }
    }

    /// Opens the directory of partitions at `path` as [`open`] does, with types for partition columns.
    ///
    /// Its directories are named `key=value`. By default types are inferred from all values: integers, dates, else
    /// text. Supported are dictionaries of text, text, integers, floats, booleans and dates.
    ///
    /// # Errors
    /// As [`OpenOptions::path`]; `NotFound` if there are no partitions; `ColumnNotFound` for a column that is not a
    /// partition column; `InvalidArgument` for an unsupported type; `InvalidData` for values that are not of the type.
    pub fn partitions(self, path: impl AsRef<Path>, types: &Schema) -> Result<Dataset> {
        let path = path.as_ref();
        let Some(dataset) = open_partitions(path, types, Arc::new(self))? else {
            let message = "the directory has no partitions, which are directories called key=value";
            return Err(Error::new(ErrorKind::NotFound, message).at(path));
        };
        self.validated(dataset)
    }
}

/// Rows of a table in one of several sources.
struct SourceRows<'a> {
    name: &'a Path,
    rows: &'a Dataset,
    /// The numbers of the rows in the table.
    numbers: Range<u64>,
    /// The identity of the table; `None` if unknown.
    table: Option<String>,
    is_pushed: bool,
}

impl<'a> SourceRows<'a> {
    /// Returns the rows of a source; `None` if it is neither a table nor an object that was pushed from one.
    fn find(name: &'a Path, rows: &'a Dataset) -> Result<Option<SourceRows<'a>>> {
        let is_pushed;
        let first_row;
        let table;
        if let Some(pushed) = rows.pushed_rows() {
            is_pushed = true;
            first_row = pushed.first_row;
            table = Some(pushed.table).filter(|table| !table.is_empty());
        } else {
            let Some(directory) = rows.path() else { return Ok(None) };
            if rows.origin().is_some() || !is_directory(directory)? {
                return Ok(None);
            }
            is_pushed = false;
            first_row = rows.first_row();
            table = table_identity(directory)?;
        }
        let numbers = first_row..first_row.saturating_add(rows.len()?);
        Ok(Some(SourceRows { name, rows, numbers, table, is_pushed }))
    }

    /// Returns the numbers of rows that are provably in both sources: the sources have rows of one table, or the last
    /// rows with the same numbers are equal.
    fn shared_with(&self, other: &SourceRows<'a>) -> Result<Option<Range<u64>>> {
        let both = self.numbers.start.max(other.numbers.start)..self.numbers.end.min(other.numbers.end);
        let has_schema = self.rows.schema().fields() == other.rows.schema().fields();
        if both.is_empty() || !(self.is_pushed || other.is_pushed) || !has_schema {
            return Ok(None);
        }
        if let (Some(table), Some(other_table)) = (&self.table, &other.table) {
            if table == other_table {
                return Ok(Some(both));
            }
            if self.is_pushed && other.is_pushed {
                return Ok(None);
            }
        }
        // A copy of a table has another identity, and the same rows.
        let compared = both.start.max(both.end.saturating_sub(MAX_COMPARED_ROWS))..both.end;
        Ok(rows_equal(&self.rows_at(&compared)?, &other.rows_at(&compared)?)?.then_some(both))
    }

    /// Returns the rows with these numbers.
    fn rows_at(&self, numbers: &Range<u64>) -> Result<Dataset> {
        self.rows.slice(numbers.start - self.numbers.start, numbers.end - numbers.start)
    }
}

/// Checks that no rows of a table are in two of the sources: in the table, and in objects that were pushed from it.
///
/// # Errors
/// `InvalidArgument`, naming both.
fn check_overlaps(paths: &[&Path], opened: &[Dataset]) -> Result<()> {
    if opened.len() < 2 || !opened.iter().any(|rows| rows.pushed_rows().is_some()) {
        return Ok(());
    }
    assert_eq!(paths.len(), opened.len(), "a name for each source");
    let mut sources: Vec<SourceRows<'_>> = Vec::new();
    for (name, rows) in paths.iter().zip(opened) {
        sources.extend(SourceRows::find(name, rows)?);
    }
    sources.sort_by_key(|source| source.numbers.start);
    for (number, source) in sources.iter().enumerate() {
        // Sources that begin at the end of this one, or later, can't overlap.
        for other in sources[number + 1..].iter().take_while(|other| other.numbers.start < source.numbers.end) {
            let Some(Range { start, end }) = source.shared_with(other)? else { continue };
            let message = format!(
                "rows {start} to {end} of one table are in {} as well, and would count twice: open one of the two, or \
                 concatenate them without the rows that both have",
                source.name.display()
            );
            return Err(Error::invalid_argument(message).at(other.name));
        }
    }
    Ok(())
}

/// Concatenates datasets that were opened one by one, with these names for errors.
///
/// # Errors
/// As [`OpenOptions::paths`], without the errors of opening.
pub fn concat_opened(names: &[&Path], opened: &[Dataset]) -> Result<Dataset> {
    check_overlaps(names, opened)?;
    joined(opened)
}

fn joined(opened: &[Dataset]) -> Result<Dataset> {
    match opened {
        [only] => Ok(only.clone()),
        several => Dataset::concat(several),
    }
}

/// Returns the absolute path of each relative path; `None` for absolute paths.
fn absolute_paths(paths: &[&Path]) -> Vec<Option<PathBuf>> {
    let mut absolute_paths = Vec::with_capacity(paths.len());
    // The directory of the previous file, as it was given and as an absolute path: most files are in the same one.
    let mut previous: Option<(&Path, PathBuf)> = None;
    for path in paths {
        let (false, Some(directory), Some(name)) = (path.is_absolute(), path.parent(), path.file_name()) else {
            absolute_paths.push(None);
            continue;
        };
        if previous.as_ref().is_none_or(|(previous, _)| *previous != directory) {
            let absolute = std::path::absolute(Path::new(".").join(directory)).ok();
            previous = absolute.map(|absolute| (directory, absolute));
        }
        absolute_paths.push(previous.as_ref().map(|(_, directory)| directory.join(name)));
    }
    absolute_paths
}

/// Returns the maximum number of files of one dataset that are mapped, and kept open, from the start.
fn max_eager_files() -> usize {
    os::open_files_limit().map_or(MAX_EAGER_FILES, |limit| MAX_EAGER_FILES.min(limit / EAGER_PART))
}

impl PartitionOpener for OpenOptions {
    fn open_partition(&self, directory: &Path) -> Result<Option<Dataset>> {
        if let Some(dataset) = open_table(directory, self.options)? {
            // There may be more partitions than a process may have open files.
            #[cfg(feature = "table")]
            close_files(&dataset);
            return Ok(Some(dataset));
        }
        match arrow_files(directory) {
            Ok(files) => {
                // The number of partitions is unknown here, so all mapped files of the process are counted.
                let count = files.len() + mapped_file_count();
                self.files_of(directory, files, count).map(Some)
            }
            Err(e) if e.kind() == ErrorKind::NotFound && e.path() == Some(directory) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Rows of a file or table by number: the information another process needs to open the same rows.
#[derive(Clone, PartialEq, Eq)]
pub struct FileSlice {
    /// The absolute path of the file or table directory.
    ///
    /// An object in a store has its URL here, with the password or the signature that it was opened with, and its
    /// version: opening it is an error if the object was replaced.
    pub path: PathBuf,
    /// The number of the first row; in a table, counted from the first ever written.
    pub start: u64,
    /// The number of rows.
    pub rows: u64,
    /// The columns, by their numbers in the file, followed by the partition's.
    pub columns: Vec<usize>,
    /// The partition's columns, and their values as text, `None` for null; empty if the rows are in no partition.
    pub partition: Vec<(FieldRef, Option<String>)>,
}

/// Shows the path without the secrets of a URL.
impl fmt::Debug for FileSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FileSlice");
        shown.field("path", &redact_url(&self.path.to_string_lossy())).field("start", &self.start);
        shown.field("rows", &self.rows).field("columns", &self.columns).field("partition", &self.partition).finish()
    }
}

/// # The same rows in another process
impl Dataset {
    /// Returns the ranges of the dataset's rows in files, for [`OpenOptions::file_slices`].
    ///
    /// The ranges of a growing table end with this snapshot.
    ///
    /// # Errors
    /// `Unsupported` if some rows are in memory only.
    pub fn file_slices(&self) -> Result<Vec<FileSlice>> {
        let mut slices: Vec<FileSlice> = Vec::new();
        for piece in self.pieces() {
            let Some(path) = piece.source.facts().address else {
                return Err(Error::unsupported("rows in memory are in no file"));
            };
            let start = piece.source.facts().first_row.saturating_add(piece.start);
            let rows = piece.rows()?;
            let columns = piece.columns.to_vec();
            let mut partition = Vec::new();
            for (field, value) in partition_values(piece)? {
                let text = if value.is_null() { None } else { Some(value.to_string()) };
                partition.push((field, text));
            }
            match slices.last_mut() {
                Some(last) if last.path == path && last.start + last.rows == start && last.columns == columns => {
                    last.rows += rows;
                }
                _ => slices.push(FileSlice { path: path.to_path_buf(), start, rows, columns, partition }),
            }
        }
        if slices.is_empty() {
            return Err(Error::unsupported("a dataset without rows has no range in a file"));
        }
        Ok(slices)
    }
}

impl OpenOptions {
    /// Opens the rows of `slices`, one after the other.
    ///
    /// # Errors
    /// As [`path`](OpenOptions::path); `RowOutOfRange` if a file or table no longer has the rows.
    pub fn file_slices(self, slices: &[FileSlice]) -> Result<Dataset> {
        let paths: Vec<&Path> = slices.iter().map(|slice| slice.path.as_path()).collect();
        let opened = self.each(&paths, paths.len())?;
        let mut rows = Vec::with_capacity(slices.len());
        for (slice, stored) in slices.iter().zip(&opened) {
            rows.push(slice.rows_of(stored)?);
        }
        joined(&rows)
    }
}

impl FileSlice {
    /// Returns the rows and columns of this slice in its file or table, which was opened as `stored`.
    fn rows_of(&self, stored: &Dataset) -> Result<Dataset> {
        let whole = with_partition_columns(stored, &self.partition).map_err(|e| e.at(&self.path))?;
        if let Some(start) = self.start.checked_sub(whole.first_row()) {
            let rows = whole.slice(start, self.rows)?;
            if rows.len()? == self.rows {
                return rows.select_at(&self.columns);
            }
        }
        let end = self.start.saturating_add(self.rows);
        let message = format!("rows {} to {end} no longer exist", self.start);
        Err(Error::new(ErrorKind::RowOutOfRange, message).at(&self.path))
    }
}

/// Refuses directories of tables: without the feature `table`, their segments would be opened with fewer rows.
#[cfg(not(feature = "table"))]
fn open_table(directory: &Path, _options: ReadOptions) -> Result<Option<Dataset>> {
    for path in arrow_files(directory)? {
        // A file that can't be opened is reported when it is opened as data.
        let Ok(file) = std::fs::File::open(&path) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        if crate::ipc::is_segment(&file, metadata.len()) {
            return Err(Error::missing_feature("a table that grows", "table").at(directory));
        }
    }
    Ok(None)
}
