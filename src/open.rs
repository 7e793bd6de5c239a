//! [`open`]: a path, several, a glob, or bytes, as a [`Dataset`].

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_schema::{FieldRef, Schema};

use crate::array::{Bytes, Value};
use crate::dataset::{Dataset, tails_equal};
use crate::directory::{is_directory, table_identity};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{arrow_files, expand_glob, is_glob, local_path};
use crate::ipc::{IpcSource, ReadOptions, SchemaCache, Shard, Validation};
use crate::map::{Mapping, Mode, guard, mapped_file_count};
use crate::parallel;
use crate::partitions::{PartitionOpener, open_partitions, partition_values, with_partition_columns};
#[cfg(feature = "table")]
use crate::table::{close_files, open_table};

/// The most files of one dataset that are mapped, and kept open, from the start.
const MAPPED: usize = 256;

/// Opens the Arrow IPC file or stream at `path` in place. Metadata is read, no value is touched.
///
/// # Trust
/// The file must not be rewritten while it is open; a file that only grows, or that is replaced by a rename, is fine.
/// If it is rewritten or truncated, calls answer `FileChanged` as soon as they detect it (`docs/reliability.md` says
/// when); until then values may be wrong, but nothing outside the mapping is ever read. Use [`OpenOptions::copy`] for files
/// that untrusted processes can write.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, `InvalidData` with what the file looks like instead, `Unsupported`, `Io`.
pub fn open(path: impl AsRef<Path>) -> Result<Dataset> {
    OpenOptions::new().path(path)
}

/// What opens URLs: the crate `arrowwood-objects`, if its `install` was called.
#[derive(Clone, Copy, Debug)]
pub struct UrlOpener {
    /// Whether it opens such a URL.
    pub takes: fn(&str) -> bool,
    /// Opens what is there.
    pub open: fn(&str, OpenOptions) -> Result<Dataset>,
}

static URLS: OnceLock<UrlOpener> = OnceLock::new();

/// Sets what opens paths that are URLs and no names of files, for the whole process. The first call counts.
pub fn open_urls_with(opener: UrlOpener) {
    URLS.get_or_init(|| opener);
}

/// Whether `path` is a URL that [`open`] takes.
pub fn is_url(path: &Path) -> bool {
    url_of(path).is_some()
}

/// The URL that `path` is, and what opens it.
fn url_of(path: &Path) -> Option<(&str, &'static UrlOpener)> {
    let text = path.to_str().filter(|text| text.contains("://"))?;
    Some((text, URLS.get().filter(|opener| (opener.takes)(text))?))
}

/// Options for opening: `Open::new().validate(Validate::Full).path("ticks.arrow")`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    options: ReadOptions,
    copy: bool,
}

impl OpenOptions {
    /// The defaults of [`open`].
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
    pub fn partial(mut self, partial: bool) -> OpenOptions {
        self.options.partial = partial;
        self
    }

    /// Sets the maximum total size of decompressed buffers: a small hostile file may ask for any amount of memory.
    /// Decompressing more returns `Unsupported`.
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
        if let (Err(_), Some((url, opener))) = (&opened, url_of(path)) {
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
    /// As [`OpenOptions::path`], naming the path; `SchemaMismatch`; `InvalidArgument` without any path, and for rows of a table that are
    /// in two of them, as in the table and in objects that were pushed from it.
    pub fn paths<P: AsRef<Path>>(self, paths: &[P]) -> Result<Dataset> {
        let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        concat_opened(&paths, &self.each(&paths, paths.len())?)
    }

    /// Opens each of `paths`, of a dataset of `count` files: each of many is mapped when its values are read.
    fn each(self, paths: &[&Path], count: usize) -> Result<Vec<Dataset>> {
        /// Equivalent to copying this many bytes.
        const WORK: usize = 16 << 10;
        let is_eager = self.copy || self.options.partial || self.options.validate == Validation::Full;
        if is_eager || count <= MAPPED {
            return paths.iter().map(|path| self.path(path)).collect();
        }
        let absolute = absolute_paths(paths);
        let known = SchemaCache::default();
        let opened = parallel::map(paths.len(), paths.len() * WORK, |number| {
            match Shard::open(paths[number], absolute[number].clone(), self.options, &known) {
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
        // They may be those of a mapped file, as values of a column.
        guard(|| self.source(bytes, None))
    }

    /// As [`OpenOptions::bytes`], of what errors and [`Dataset::file_slices`] call `name`: a URL.
    ///
    /// # Errors
    /// Those of [`OpenOptions::bytes`], which name it.
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

    /// Opens the `files` in a directory, of a dataset of `count` files.
    fn files_of(self, directory: &Path, files: Vec<PathBuf>, count: usize) -> Result<Dataset> {
        // If they appeared since the first check, they are the first segments of a table.
        match open_table(directory, self.options)? {
            Some(dataset) => self.validated(dataset),
            None => joined(&self.each(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>(), count)?),
        }
    }

    /// Opens the directory at `path`, whose directories are named `key=value`, as [`open`] does, with `types` for the
    /// given partition columns. By default types are inferred from all values: integers, dates, else text. Supported
    /// are dictionaries of text, text, integers, floats, booleans and dates.
    ///
    /// # Errors
    /// As [`OpenOptions::path`]; `NotFound` if there are no partitions; `ColumnNotFound` for a column that is not a partition
    /// column; `InvalidArgument` for an unsupported type; `InvalidData` for values that are not of the type.
    pub fn partitions(self, path: impl AsRef<Path>, types: &Schema) -> Result<Dataset> {
        let path = path.as_ref();
        let missing = || {
            let message = "the directory has no partitions, which are directories called key=value";
            Error::new(ErrorKind::NotFound, message).at(path)
        };
        self.validated(open_partitions(path, types, Arc::new(self))?.ok_or_else(missing)?)
    }
}

/// Rows of a table in one of several sources.
struct SourceRows<'a> {
    name: &'a Path,
    rows: &'a Dataset,
    numbers: Range<u64>,
    /// What tells the table from others; empty if unknown.
    table: String,
    is_pushed: bool,
}

impl<'a> SourceRows<'a> {
    /// Returns the rows of a source; `None` if it is neither a table nor an object that was pushed from one.
    fn find(name: &'a Path, rows: &'a Dataset) -> Result<Option<SourceRows<'a>>> {
        let (first, table, is_pushed) = match (rows.pushed_rows(), rows.path()) {
            (Some(pushed), _) => (pushed.first_row, pushed.table, true),
            (None, Some(folder)) if rows.origin().is_none() && is_directory(folder)? => {
                (rows.first_row(), table_identity(folder)?.unwrap_or_default(), false)
            }
            _ => return Ok(None),
        };
        let numbers = first..first.saturating_add(rows.len()?);
        Ok(Some(SourceRows { name, rows, numbers, table, is_pushed }))
    }

    /// The numbers of rows that both have, which are provably the same: of one table, or the last of them are equal.
    fn shared_with(&self, other: &SourceRows<'a>) -> Result<Option<Range<u64>>> {
        let both = self.numbers.start.max(other.numbers.start)..self.numbers.end.min(other.numbers.end);
        let has_schema = self.rows.schema().fields() == other.rows.schema().fields();
        if both.is_empty() || !(self.is_pushed || other.is_pushed) || !has_schema {
            return Ok(None);
        }
        let are_known = !self.table.is_empty() && !other.table.is_empty();
        if are_known && (self.table == other.table || self.is_pushed && other.is_pushed) {
            return Ok((self.table == other.table).then_some(both));
        }
        let numbered = |source: &SourceRows<'a>| (source.rows, source.numbers.start);
        let (_, are_same) = tails_equal(numbered(self), numbered(other), both.end)?;
        Ok(are_same.then_some(both))
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
    let found = paths.iter().zip(opened).map(|(name, rows)| SourceRows::find(name, rows));
    let mut sources: Vec<SourceRows<'_>> = found.filter_map(Result::transpose).collect::<Result<_>>()?;
    sources.sort_by_key(|source| source.numbers.start);
    for (number, source) in sources.iter().enumerate() {
        // Those behind begin later.
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

/// Concatenates what was opened one by one, with these names for errors.
///
/// # Errors
/// As [`OpenOptions::paths`], but those of opening.
#[doc(hidden)]
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

/// The absolute paths of those of `paths` that are relative.
fn absolute_paths<'a>(paths: &[&'a Path]) -> Vec<Option<PathBuf>> {
    // Most files are in the directory of the one before.
    let mut last: Option<(&Path, PathBuf)> = None;
    let mut absolute = |path: &'a Path| {
        if path.is_absolute() {
            return None;
        }
        let (directory, name) = (path.parent()?, path.file_name()?);
        if last.as_ref().is_none_or(|(known, _)| *known != directory) {
            last = std::path::absolute(Path::new(".").join(directory)).ok().map(|found| (directory, found));
        }
        last.as_ref().map(|(_, directory)| directory.join(name))
    };
    paths.iter().map(|path| absolute(path)).collect()
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
                // Nobody knows how many partitions there will be.
                let count = files.len() + mapped_file_count();
                self.files_of(directory, files, count).map(Some)
            }
            Err(e) if e.kind() == ErrorKind::NotFound && e.path() == Some(directory) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Rows of a file or table by number: the information another process needs to open the same rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSlice {
    /// The absolute path of the file or table directory. For an object in a store its URL, with the password or the signature that
    /// it was opened with, and its version: opening it is an error if the object is another by then.
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

impl Dataset {
    /// The ranges of the dataset's rows, for [`OpenOptions::file_slices`]. For a growing table, those in this snapshot.
    ///
    /// # Errors
    /// `Unsupported` if some rows are in memory only.
    pub fn file_slices(&self) -> Result<Vec<FileSlice>> {
        let mut places: Vec<FileSlice> = Vec::new();
        for piece in self.pieces() {
            let missing = || Error::unsupported("rows in memory are in no file");
            let path = piece.source.facts().address.ok_or_else(missing)?.to_path_buf();
            let start = piece.source.facts().first_row.saturating_add(piece.start);
            let rows = piece.rows()?;
            let columns = piece.columns.to_vec();
            let text = |(field, value): (FieldRef, Value<'_>)| {
                let text = (!matches!(value, Value::Null)).then(|| value.to_string());
                (field, text)
            };
            let partition: Vec<_> = partition_values(piece)?.into_iter().map(text).collect();
            match places.last_mut() {
                Some(last) if last.path == path && last.start + last.rows == start && last.columns == columns => {
                    last.rows += rows;
                }
                _ => places.push(FileSlice { path, start, rows, columns, partition }),
            }
        }
        if places.is_empty() {
            return Err(Error::unsupported("a dataset without rows has no range in a file"));
        }
        Ok(places)
    }
}

impl OpenOptions {
    /// Opens the rows of `places`, one after the other.
    ///
    /// # Errors
    /// Those of [`path`](Open::path); `RowOutOfRange` if a file or table no longer has the rows.
    pub fn file_slices(self, places: &[FileSlice]) -> Result<Dataset> {
        let stored = self.each(&places.iter().map(|place| place.path.as_path()).collect::<Vec<_>>(), places.len())?;
        let rows = places.iter().zip(&stored).map(|(place, stored)| self.place(place, stored));
        joined(&rows.collect::<Result<Vec<_>>>()?)
    }

    fn place(self, place: &FileSlice, stored: &Dataset) -> Result<Dataset> {
        let whole = with_partition_columns(stored, &place.partition).map_err(|e| e.at(&place.path))?;
        let start = place.start.checked_sub(whole.first_row());
        let found = start.map(|start| whole.slice(start, place.rows)).transpose()?;
        match found {
            Some(rows) if rows.len()? == place.rows => rows.select_at(&place.columns),
            _ => {
                let start = place.start;
                let end = start.saturating_add(place.rows);
                let message = format!("rows {start} to {end} no longer exist");
                Err(Error::new(ErrorKind::RowOutOfRange, message).at(&place.path))
            }
        }
    }
}

/// Without the feature `table` directories of tables are refused; plain segments would have fewer rows.
#[cfg(not(feature = "table"))]
fn open_table(directory: &Path, _options: ReadOptions) -> Result<Option<Dataset>> {
    let is_segment = |file: &PathBuf| {
        let file = std::fs::File::open(file)?;
        let len = file.metadata()?.len();
        Ok::<_, std::io::Error>(crate::ipc::is_segment(&file, len))
    };
    if arrow_files(directory)?.iter().any(|file| is_segment(file).unwrap_or(false)) {
        return Err(Error::missing_feature("a table that grows", "table").at(directory));
    }
    Ok(None)
}
