//! [`Dataset`]: an immutable table of rows over one or many record batches, in place.
//!
//! ```text
//! Dataset ── pieces ──▶ SourceSlice { source, columns, start, rows } ── source ──▶ batches ──▶ columns
//! ```
//! A dataset owns only its list of pieces. Slicing, selecting and concatenating make new lists; a source (an IPC file,
//! an IPC stream, arrays in memory) finds its batches and decodes their columns on first use, and caches them.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};

use super::batch_index::BatchIndex;
use super::column::Column;
use super::constant::ConstantColumn;
use super::row::Row;
use super::source::{BatchSlice, Footprint, Origin, RowLocation, Source, SourceSlice};
use crate::array::{require_little_endian, touch_pages};
use crate::error::{Error, ErrorKind, Result};
use crate::map::{ChangeCheck, MutexExt, guard, with_change_check};
use crate::parallel;
use crate::types::type_name;

/// The maximum number of bytes of a buffer that [`Dataset::prefetch`] asks for.
const MAX_PREFETCH_BYTES: usize = 1 << 20;

/// An immutable, zero-copy table of rows over one or many record batches. Clones are cheap.
///
/// [`open`](crate::open) and [`Writer`](crate::Writer) are where datasets usually come from; record batches of arrow-rs
/// become one by `Dataset::try_from`, and [`Dataset::from_batches`].
///
/// ```
/// use arrowwood::{Dataset, Value};
/// # use arrowwood::{CsvOptions, read_csv_from};
/// # let text = "symbol,price\nAAPL,223.02\nIBM,125.55\nMSFT,\n";
/// # let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
/// # let dataset = Dataset::from_batches(schema, batches)?;
///
/// assert_eq!((dataset.len()?, dataset.num_columns()), (3, 2));
/// let row = dataset.row(1)?;
/// assert!(matches!((row.get(0)?, row.get(1)?), (Value::Str("IBM"), Value::Float64(125.55))));
/// let first_two = dataset.slice(0, 2)?.select(&["price"])?; // copies nothing
/// for row in first_two.rows() {
///     for (name, value) in row?.iter() {
///         println!("{name}: {}", value?);
///     }
/// }
/// # Ok::<(), arrowwood::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    schema: SchemaRef,
    pieces: Arc<[SourceSlice]>,
    counts: Arc<RowCounts>,
    /// The origin of a whole partitioned dataset.
    origin: Option<Arc<dyn Origin>>,
}

/// Shows the columns, and the number of rows if they have been counted.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Dataset");
        shown.field("schema", &self.schema).field("len", &self.counts.len.get()).finish_non_exhaustive()
    }
}

/// The numbers of rows in the pieces of a dataset, as far as they have been counted. Clones share them.
///
/// The mutex of `ends` is held while a piece is counted. The piece's source may take its own locks for that, or those
/// of the dataset that it is a view of; neither takes this one.
#[derive(Debug, Default)]
struct RowCounts {
    /// The row after each piece's last, for the pieces counted so far.
    ends: Mutex<Vec<u64>>,
    /// The number of all rows.
    len: OnceLock<u64>,
    /// See [`Dataset::index`].
    index: OnceLock<BatchIndex>,
}

impl Dataset {
    pub(crate) fn from_source(source: Arc<dyn Source>) -> Dataset {
        let schema = source.schema().clone();
        let columns = (0..schema.fields().len()).collect();
        let pieces = Arc::new([SourceSlice { source, columns, start: 0, rows: None }]);
        Dataset { schema, pieces, counts: Arc::default(), origin: None }
    }

    pub(crate) fn from_slices(schema: SchemaRef, pieces: Vec<SourceSlice>) -> Dataset {
        debug_assert!(
            pieces.iter().all(|piece| piece.columns.len() == schema.fields().len()),
            "a column of each piece for each field"
        );
        Dataset { schema, pieces: pieces.into(), counts: Arc::default(), origin: None }
    }

    /// Creates a dataset of all partitions of `origin`.
    pub(crate) fn from_origin(schema: SchemaRef, pieces: Vec<SourceSlice>, origin: Arc<dyn Origin>) -> Dataset {
        Dataset { origin: Some(origin), ..Dataset::from_slices(schema, pieces) }
    }

    pub(crate) fn origin(&self) -> Option<&Arc<dyn Origin>> {
        self.origin.as_ref()
    }

    pub(crate) fn pieces(&self) -> &[SourceSlice] {
        &self.pieces
    }

    /// Returns true if the dataset keeps other rows than its own alive, such as the rows that it was filtered from.
    pub(crate) fn retains_other_rows(&self) -> bool {
        self.pieces.iter().any(|piece| piece.source.facts().holds_others)
    }

    /// Returns the index of batches by row. The first call counts all rows.
    pub(crate) fn index(&self) -> Result<&BatchIndex> {
        if let Some(index) = self.counts.index.get() {
            return Ok(index);
        }
        let index = BatchIndex::build(&self.pieces)?;
        Ok(self.counts.index.get_or_init(|| index))
    }

    /// Runs `work` on the dataset, then checks that its files have not changed.
    #[inline]
    pub(crate) fn with_change_check<T>(&self, when: ChangeCheck, work: impl FnOnce() -> Result<T>) -> Result<T> {
        with_change_check(when, |when| self.pieces.iter().try_for_each(|piece| piece.check_unchanged(when)), work)
            .map_err(|e| if e.is_bad_address() { self.find_truncated_file().unwrap_or(e) } else { e })
    }

    /// Explains a failed system call that was passed the dataset's bytes: the system only says that their address is
    /// bad. Touching all pages gives an error that names the truncated file, even if the arrays came from another
    /// library.
    #[cold]
    fn find_truncated_file(&self) -> Option<Error> {
        let touched = guard(|| {
            for part in self.parts() {
                let part = part?;
                for &column in part.piece.columns.iter() {
                    touch_pages(part.checked(column)?);
                }
            }
            Ok::<(), Error>(())
        });
        touched.err().filter(|e| e.kind() == ErrorKind::FileChanged)
    }
}

/// # Size and schema
impl Dataset {
    /// Returns names, types and metadata of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of columns.
    pub fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// Returns the number of rows. The first call walks the messages of a stream, or the blocks of a file.
    ///
    /// # Errors
    /// `InvalidData` if a message is damaged or truncated; `FileChanged`.
    pub fn len(&self) -> Result<u64> {
        if let Some(len) = self.counts.len.get() {
            return Ok(*len);
        }
        // Counting makes a change check of its own; a commit record has a checksum.
        let len = self.with_change_check(ChangeCheck::Seldom, || {
            let mut sum = 0u64;
            for piece in self.pieces.iter() {
                sum = sum.checked_add(piece.rows()?).ok_or_else(|| Error::invalid("more than 2^64 rows"))?;
            }
            Ok(sum)
        })?;
        Ok(*self.counts.len.get_or_init(|| len))
    }

    /// Returns true if there are no rows. Reads no further than the first row.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn is_empty(&self) -> Result<bool> {
        self.with_change_check(ChangeCheck::Seldom, || Ok(self.rows_until(1)? == 0))
    }

    /// Returns the number of the dataset's first row in its table.
    ///
    /// Rows keep their numbers when earlier ones are dropped. 0 if the dataset is not a table, or partitioned.
    pub fn first_row(&self) -> u64 {
        if self.origin.is_some() {
            return 0;
        }
        self.pieces.first().map_or(0, |piece| piece.source.facts().first_row + piece.start)
    }

    /// Returns the absolute path of the file or table directory that contains the rows.
    ///
    /// `None` for rows in memory, and for rows of several files.
    pub fn path(&self) -> Option<&Path> {
        let mut paths = self.pieces.iter().map(|piece| piece.source.facts().absolute_path);
        let first = paths.next()??;
        paths.all(|path| path == Some(first)).then_some(first)
    }

    /// Returns the number of record batches with rows in the dataset.
    ///
    /// Empty batches of a whole source count.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn num_batches(&self) -> Result<usize> {
        self.with_change_check(ChangeCheck::Seldom, || {
            let mut count = 0;
            for piece in self.pieces.iter() {
                if piece.is_whole() {
                    count += piece.source.num_batches()?;
                    continue;
                }
                for part in piece.parts() {
                    part?;
                    count += 1;
                }
            }
            Ok(count)
        })
    }
}

/// # Memory
impl Dataset {
    /// Returns the number of bytes of the dataset's rows in its buffers.
    ///
    /// Bitmaps and offsets are counted, dictionaries are not.
    ///
    /// # Errors
    /// `InvalidData` if the structure of a batch is damaged.
    pub fn nbytes(&self) -> Result<u64> {
        self.sum_bytes(ConstantColumn::nbytes)
    }

    /// Returns [`nbytes`](Dataset::nbytes) without columns with one value, which are in no file.
    #[cfg(feature = "compute")]
    pub(crate) fn stored_bytes(&self) -> Result<u64> {
        self.sum_bytes(|_, _| 0)
    }

    fn sum_bytes(&self, constant_bytes: impl Fn(&ConstantColumn, usize) -> u64) -> Result<u64> {
        self.with_change_check(ChangeCheck::Now, || {
            let mut sum = 0u64;
            for part in self.parts() {
                let part = part?;
                let source = &part.piece.source;
                for &column in part.piece.columns.iter() {
                    let bytes = match source.constant(column) {
                        Some(constant) => constant_bytes(constant, part.rows.len()),
                        None => crate::array::byte_size(source.column(part.batch, column)?, part.rows.clone()),
                    };
                    sum = sum.saturating_add(bytes);
                }
            }
            Ok(sum)
        })
    }

    /// Returns how many bytes are mapped, and how many were copied.
    pub fn footprint(&self) -> Footprint {
        self.sources().map(|source| source.footprint()).sum()
    }

    /// Returns how many of the mapped bytes are in physical memory now, whichever process loaded them.
    ///
    /// Queries every page.
    ///
    /// # Errors
    /// `Io` if the system call fails.
    pub fn resident(&self) -> Result<u64> {
        self.sources().map(|source| source.resident()).sum()
    }

    /// Asks the system to load the bytes of all rows, and nothing around them, without waiting for them.
    ///
    /// Useful for a few rows of a mapped file that are about to be read: the first touch of a page loads as much around
    /// it as the device reads ahead, which may be megabytes. [`Dataset::slice`] and [`Dataset::select`] choose the rows
    /// and columns.
    ///
    /// This is a hint: errors are reported when the rows are read. Does nothing for rows seen through a view, such as
    /// the rows that a condition has found.
    pub fn prefetch(&self) {
        for piece in self.pieces.iter() {
            if !matches!(resolve_view(piece, 0), Ok(None)) {
                continue;
            }
            for part in piece.parts().map_while(Result::ok) {
                drop(guard(|| {
                    part.prefetch(MAX_PREFETCH_BYTES);
                    Ok::<(), Error>(())
                }));
            }
        }
    }

    /// Returns each source once, even if several pieces share it.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Arc<dyn Source>> {
        let mut seen = HashSet::new();
        let sources = self.pieces.iter().map(|piece| &piece.source);
        sources.filter(move |source| seen.insert(Arc::as_ptr(source).cast::<()>()))
    }
}

/// # Columns
impl Dataset {
    /// Returns the column named `name`.
    ///
    /// # Errors
    /// `ColumnNotFound`, naming the existing columns; `InvalidArgument` if several columns have the name.
    pub fn column(&self, name: &str) -> Result<Column> {
        self.column_at(self.index_of(name)?)
    }

    /// Returns column number `index`, counted from 0.
    ///
    /// # Errors
    /// `ColumnNotFound`, naming the columns there are.
    pub fn column_at(&self, index: usize) -> Result<Column> {
        Column::new(self.select_at(&[index])?)
    }

    /// Returns the columns named `names`, in that order.
    ///
    /// # Errors
    /// As [`Dataset::column`], for any of the names.
    pub fn select<N: AsRef<str>>(&self, names: &[N]) -> Result<Dataset> {
        let columns = names.iter().map(|name| self.index_of(name.as_ref())).collect::<Result<Vec<_>>>()?;
        self.select_at(&columns)
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<usize> {
        let mut matches = (0..self.num_columns()).filter(|&i| self.schema.field(i).name() == name);
        match (matches.next(), matches.next()) {
            (Some(index), None) => Ok(index),
            (Some(a), Some(b)) => Err(Error::invalid_argument(format!(
                "columns {a} and {b} are both called '{name}'; take them by number"
            ))),
            (None, _) => Err(self.no_column(&format!("'{name}'"))),
        }
    }

    /// Returns the error for a column that doesn't exist, with the first columns that do.
    fn no_column(&self, wanted: &str) -> Error {
        /// The limit of names in an error.
        const MAX_NAMES: usize = 20;
        let names: Vec<_> =
            self.schema.fields().iter().take(MAX_NAMES).map(|field| format!("'{}'", field.name())).collect();
        let more = if self.num_columns() > names.len() { ", …" } else { "" };
        Error::new(ErrorKind::ColumnNotFound, format!("no column {wanted}; there are {}{more}", names.join(", ")))
    }

    /// Returns columns by number, counted from 0, in that order.
    ///
    /// # Errors
    /// `ColumnNotFound`, naming the columns there are.
    pub fn select_at(&self, columns: &[usize]) -> Result<Dataset> {
        if let Some(missing) = columns.iter().find(|&&column| column >= self.num_columns()) {
            return Err(self.no_column(&format!("number {missing}")));
        }
        let schema = self.schema.project(columns).map_err(|e| Error::invalid_argument(e.to_string()))?;
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.iter() {
            pieces.push(piece.with_columns(columns.iter().map(|&column| piece.columns[column]).collect()));
        }
        Ok(Dataset { schema: Arc::new(schema), pieces: pieces.into(), ..self.clone() })
    }

    /// Returns the same columns renamed to `names`, in their order.
    ///
    /// # Errors
    /// `InvalidArgument` if there are more or fewer names than columns, or two equal names.
    pub fn with_names<N: AsRef<str>>(&self, names: &[N]) -> Result<Dataset> {
        if names.len() != self.num_columns() {
            let message = format!("{} names for {} columns", names.len(), self.num_columns());
            return Err(Error::invalid_argument(message));
        }
        let mut fields: Vec<FieldRef> = Vec::with_capacity(names.len());
        let mut seen: HashSet<&str> = HashSet::new();
        for (field, name) in self.schema.fields().iter().zip(names) {
            let name = name.as_ref();
            if !seen.insert(name) {
                return Err(Error::invalid_argument(format!("two columns would be called '{name}'")));
            }
            fields.push(Arc::new(field.as_ref().clone().with_name(name)));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        Ok(Dataset { schema, ..self.clone() })
    }

    /// Returns true if columns have other names than in their files.
    pub fn is_renamed(&self) -> bool {
        self.pieces.iter().any(|piece| {
            let stored = piece.source.schema().fields();
            piece.columns.iter().zip(self.schema.fields()).any(|(&number, field)| stored[number].name() != field.name())
        })
    }

    /// Returns the same rows with `column` appended to the columns, so that a predicate can name it.
    ///
    /// The dataset itself if it has the column. `None` if `column` has other rows, or if another column has its name.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn with_column(&self, column: &Column) -> Result<Option<Dataset>> {
        let added = column.as_dataset();
        if !self.has_rows_of(added)? {
            return Ok(None);
        }
        if let Ok(number) = self.index_of(column.name()) {
            let existing = self.select_at(&[number])?;
            let is_same = existing.pieces.iter().zip(added.pieces.iter()).all(|(a, b)| a.columns == b.columns);
            return Ok(is_same.then(|| self.clone()));
        }
        let fields = self.schema.fields().iter().chain([column.field()]).cloned().collect::<Fields>();
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for (piece, added) in self.pieces.iter().zip(added.pieces.iter()) {
            pieces.push(piece.with_columns(piece.columns.iter().chain(added.columns.iter()).copied().collect()));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        Ok(Some(Dataset { schema, pieces: pieces.into(), ..self.clone() }))
    }

    /// Returns true if both have the same rows of the same sources, regardless of columns.
    fn has_rows_of(&self, other: &Dataset) -> Result<bool> {
        if self.pieces.len() != other.pieces.len() {
            return Ok(false);
        }
        for (a, b) in self.pieces.iter().zip(other.pieces.iter()) {
            if !Arc::ptr_eq(&a.source, &b.source) || a.start != b.start {
                return Ok(false);
            }
            // The same rows may be counted in one, and all that follow in the other.
            if a.rows != b.rows && a.rows()? != b.rows()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// # Rows and batches
impl Dataset {
    /// Returns rows `start .. start + len`, cut at the end. Walks no further than `start + len`.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn slice(&self, start: u64, len: u64) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Seldom, || self.cut(start, len))
    }

    fn cut(&self, start: u64, len: u64) -> Result<Dataset> {
        let end = start.saturating_add(len);
        let mut pieces = Vec::new();
        let mut before = 0u64;
        for piece in self.pieces.iter() {
            if before >= end {
                break;
            }
            let rows = piece.rows_until(end - before)?;
            let piece_start = start.saturating_sub(before).min(rows);
            let piece_end = (end - before).min(rows);
            if piece_start < piece_end {
                pieces.push(piece.cut(piece_start..piece_end));
            }
            before = before.saturating_add(rows);
        }
        Ok(Dataset::from_slices(self.schema.clone(), pieces))
    }

    /// Returns the first `n` rows.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn head(&self, n: u64) -> Result<Dataset> {
        self.slice(0, n)
    }

    /// Returns as many of the first rows as take at most `max_bytes`, and their size in bytes.
    ///
    /// It is one row if that takes more. Sizes are those of [`Dataset::nbytes`].
    ///
    /// # Errors
    /// As [`Dataset::nbytes`].
    pub fn head_within(&self, max_bytes: u64) -> Result<(Dataset, u64)> {
        let mut rows = self.clone();
        loop {
            let len = rows.len()?;
            let bytes = rows.nbytes()?;
            if bytes <= max_bytes || len <= 1 {
                return Ok((rows, bytes));
            }
            // The number that would fit if all rows had the same size. It is halved at least, so that the loop ends
            // soon.
            let fit = u128::from(len) * u128::from(max_bytes) / u128::from(bytes);
            rows = rows.head(fit.clamp(1, u128::from(len / 2)) as u64)?;
        }
    }

    /// Returns the last `n` rows.
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn tail(&self, n: u64) -> Result<Dataset> {
        let len = self.len()?;
        self.slice(len.saturating_sub(n), n)
    }

    /// Returns row number `row`, counted from 0.
    ///
    /// # Errors
    /// `RowOutOfRange` past the end; `InvalidData` if a value is damaged.
    pub fn row(&self, row: u64) -> Result<Row<'_>> {
        match guard(|| self.find_row(row)) {
            Ok(row) => Ok(row),
            // The row may be missing because bytes were overwritten.
            Err(e) => self.with_change_check(ChangeCheck::Now, || Err(e)),
        }
    }

    fn find_row(&self, row: u64) -> Result<Row<'_>> {
        let (piece, within) = self.piece_of(row)?;
        if let Some(location) = resolve_view(piece, within)? {
            return Ok(Row::from_view(&self.schema, location, &piece.columns));
        }
        let location = piece.locate(within)?.ok_or_else(|| self.row_out_of_range(row))?;
        Ok(Row::new(&self.schema, location))
    }

    /// Locates row `row`; `None` if it is seen through a view.
    pub(crate) fn location(&self, row: u64) -> Result<Option<RowLocation<'_>>> {
        let location = guard(|| {
            let (piece, within) = self.piece_of(row)?;
            if resolve_view(piece, within)?.is_some() {
                return Ok(None);
            }
            piece.locate(within)?.map(Some).ok_or_else(|| self.row_out_of_range(row))
        });
        // The row may be missing because bytes were overwritten.
        location.or_else(|e| self.with_change_check(ChangeCheck::Now, || Err(e)))
    }

    /// Returns the row `back` rows before the end; 1 is the last.
    ///
    /// Reads only the last batches of an IPC file, while [`Dataset::len`] would count them all.
    ///
    /// # Errors
    /// As [`Dataset::row`].
    pub fn row_from_end(&self, back: u64) -> Result<Row<'_>> {
        self.with_change_check(ChangeCheck::Seldom, || self.find_from_end(back))
    }

    fn find_from_end(&self, back: u64) -> Result<Row<'_>> {
        if back == 0 {
            return Err(self.row_out_of_range(back));
        }
        if let Some(piece) = self.pieces.last()
            && piece.is_whole()
            && let Some((batch, index)) = piece.source.locate_from_end(back)?
        {
            return Ok(Row::new(&self.schema, RowLocation { piece, batch, index }));
        }
        match self.len()?.checked_sub(back) {
            Some(row) => self.find_row(row),
            None => Err(self.row_out_of_range(back)),
        }
    }

    /// Returns an iterator over all rows, in order.
    ///
    /// # Errors
    /// Per row: as [`Dataset::len`]; the iterator ends after an error.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row<'_>>> {
        let schema: &Schema = &self.schema;
        self.parts().flat_map(move |part| {
            let (part, error) = match part {
                Ok(part) => (Some(part), None),
                Err(e) => (None, Some(Err(e))),
            };
            let rows = part.into_iter().flat_map(move |BatchSlice { piece, batch, rows }| {
                rows.map(move |index| Ok(Row::new(schema, RowLocation { piece, batch, index })))
            });
            error.into_iter().chain(rows)
        })
    }

    /// Returns an iterator over the batches, each as a dataset.
    ///
    /// # Errors
    /// Per batch: as [`Dataset::len`]; the iterator ends after an error.
    pub fn batches(&self) -> impl Iterator<Item = Result<Dataset>> {
        self.parts().map(|part| self.batch_dataset(&part?))
    }

    /// Returns batch number `number` of [`Dataset::batches`], counted from 0.
    ///
    /// Takes constant time if the dataset is not sliced.
    ///
    /// # Errors
    /// `RowOutOfRange` past the last.
    pub fn batch(&self, number: usize) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Seldom, || {
            let mut before = 0;
            for piece in self.pieces.iter() {
                let (part, count) = piece.nth_part(number - before)?;
                if let Some(part) = part {
                    return self.batch_dataset(&part);
                }
                before += count;
            }
            Err(Error::new(ErrorKind::RowOutOfRange, format!("batch {number} of a dataset of {before} batches")))
        })
    }

    fn batch_dataset(&self, part: &BatchSlice<'_>) -> Result<Dataset> {
        let Some(span) = part.piece.source.span(part.batch)? else {
            return Err(Error::internal("a part of a batch that doesn't exist"));
        };
        let start = span.start + part.rows.start as u64;
        let piece = SourceSlice { start, rows: Some(part.rows.len() as u64), ..part.piece.clone() };
        Ok(Dataset::from_slices(self.schema.clone(), vec![piece]))
    }

    /// Returns the batches as record batches of arrow-rs.
    ///
    /// Values are checked. Buffers are shared unless arrow-rs needs them aligned.
    ///
    /// # Errors
    /// Per batch: `InvalidData` naming batch, column, row and what was expected.
    pub fn to_record_batches(&self) -> impl Iterator<Item = Result<RecordBatch>> {
        self.parts().map(|part| {
            require_little_endian("making record batches")?;
            let part = part?;
            let columns =
                part.with_change_check(|| Ok(part.columns()?.into_iter().map(crate::array::to_array).collect()))?;
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(part.rows.len()));
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
                .map_err(|e| Error::invalid(format!("making an arrow-rs record batch: {e}")))
        })
    }
}

/// # Rows of several datasets
impl Dataset {
    /// Concatenates the rows of all `datasets`, without copying.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first difference if their schemas differ, `InvalidArgument` if `datasets` is empty.
    pub fn concat(datasets: &[Dataset]) -> Result<Dataset> {
        let first = datasets.first().ok_or_else(|| Error::invalid_argument("there is nothing to concatenate"))?;
        for other in &datasets[1..] {
            if let Some(difference) = schema_difference(&first.schema, &other.schema) {
                let a = first.name();
                let b = other.name();
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the schemas of {a} and {b} differ: {difference}"),
                ));
            }
        }
        let pieces = datasets.iter().flat_map(|dataset| dataset.pieces.iter().cloned()).collect();
        Ok(Dataset::from_slices(nullable_where_any(datasets), pieces))
    }
}

/// # Checks of the values
impl Dataset {
    /// Checks all values now, in parallel.
    ///
    /// `progress(done, total)` is called periodically on the caller's thread, with numbers of rows.
    ///
    /// # Errors
    /// `InvalidData` for the first bad value, naming path, batch, column, row and what was expected.
    pub fn validate(&self, progress: impl FnMut(u64, u64)) -> Result<()> {
        self.with_change_check(ChangeCheck::Now, || self.check_all(progress))
    }

    fn check_all(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        /// The bytes that a value is assumed to have.
        const APPROXIMATE_WIDTH: usize = 4;
        let total = self.len()?;
        let parts = self.parts().collect::<Result<Vec<_>>>()?;
        let columns = self.num_columns().max(1);
        // Each job checks one column of one batch. Counts rows times columns.
        let checked = AtomicU64::new(0);
        // The number of bytes is not known beforehand; the number of rows is, and few rows are not worth a thread.
        let bytes = usize::try_from(total).unwrap_or(usize::MAX).saturating_mul(APPROXIMATE_WIDTH * columns);
        parallel::try_map(
            (0..parts.len() * columns).map(Ok),
            bytes,
            |&job| parts[job / columns].rows.len().saturating_mul(APPROXIMATE_WIDTH),
            |job| {
                let part = &parts[job / columns];
                // A dataset without columns has one job per batch, too, so that it reports progress.
                if let Some(&column) = part.piece.columns.get(job % columns) {
                    part.piece.source.validate_column(part.batch, column)?;
                }
                checked.fetch_add(part.rows.len() as u64, Ordering::Relaxed);
                Ok::<(), Error>(())
            },
            || progress(checked.load(Ordering::Relaxed) / columns as u64, total),
        )?;
        progress(total, total);
        Ok(())
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<BatchSlice<'_>>> {
        self.pieces.iter().flat_map(SourceSlice::parts)
    }

    /// Counts rows until there are `until` or more.
    fn rows_until(&self, until: u64) -> Result<u64> {
        let mut rows = 0u64;
        for piece in self.pieces.iter() {
            rows = rows.saturating_add(piece.rows_until(until)?);
            if rows >= until {
                break;
            }
        }
        Ok(rows)
    }

    /// Returns the piece of row `row`, and the row's number in it.
    #[inline]
    fn piece_of(&self, row: u64) -> Result<(&SourceSlice, u64)> {
        if let [piece] = &self.pieces[..] {
            return Ok((piece, row));
        }
        let mut ends = self.counts.ends.lock_ignoring_poison();
        while ends.last().is_none_or(|&end| end <= row) && ends.len() < self.pieces.len() {
            let start = ends.last().map_or(0, |&end| end);
            let rows = self.pieces[ends.len()].rows()?;
            ends.push(start.saturating_add(rows));
        }
        let number = ends.partition_point(|&end| end <= row);
        let before = if number == 0 { 0 } else { ends[number - 1] };
        match self.pieces.get(number) {
            Some(piece) => Ok((piece, row - before)),
            None => Err(Error::new(ErrorKind::RowOutOfRange, format!("row {row} of {before}"))),
        }
    }

    pub(crate) fn row_out_of_range(&self, row: u64) -> Error {
        match self.len() {
            Ok(len) => Error::new(ErrorKind::RowOutOfRange, format!("row {row} of a dataset of {len} rows")),
            Err(e) => e,
        }
    }

    fn name(&self) -> String {
        let path = self.pieces.first().and_then(|piece| piece.source.facts().path);
        path.map_or_else(|| "a dataset in memory".into(), |path| path.display().to_string())
    }
}

/// Locates the row that row `within` of the piece shows, if the piece belongs to a view.
fn resolve_view(piece: &SourceSlice, within: u64) -> Result<Option<RowLocation<'_>>> {
    if piece.rows.is_some_and(|rows| within >= rows) {
        return Ok(None);
    }
    let Some(view) = piece.source.view() else { return Ok(None) };
    view.resolve_row(piece.start.saturating_add(within))
}

/// Returns the first dataset's schema, with columns nullable if they are in any dataset.
fn nullable_where_any(datasets: &[Dataset]) -> SchemaRef {
    let first = &datasets[0].schema;
    let mut fields: Vec<FieldRef> = first.fields().to_vec();
    for (number, field) in fields.iter_mut().enumerate() {
        if !field.is_nullable() && datasets.iter().any(|dataset| dataset.schema.field(number).is_nullable()) {
            *field = Arc::new(field.as_ref().clone().with_nullable(true));
        }
    }
    Arc::new(Schema::new_with_metadata(fields, first.metadata().clone()))
}

/// Describes the first difference between two schemas; `None` if there is none. Metadata may differ.
pub(crate) fn schema_difference(a: &Schema, b: &Schema) -> Option<String> {
    if std::ptr::eq(a, b) {
        return None;
    }
    for (number, (left, right)) in a.fields().iter().zip(b.fields()).enumerate() {
        if left.name() != right.name() {
            return Some(format!("column {number} is called '{}' and '{}'", left.name(), right.name()));
        }
        if left.data_type() != right.data_type() {
            let left_type = type_name(left.data_type());
            let right_type = type_name(right.data_type());
            return Some(format!("column '{}' is {left_type} and {right_type}", left.name()));
        }
    }
    let left = a.fields().len();
    let right = b.fields().len();
    (left != right).then(|| format!("they have {left} and {right} columns"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;
    use crate::{Bytes, Format, OpenOptions, WriteOptions, write_to};

    fn numbers(rows: std::ops::Range<i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn batches_by_number_equal_batches_in_order() {
        let memory = Dataset::try_from(vec![numbers(0..5), numbers(5..5), numbers(5..12), numbers(12..20)]).unwrap();
        let mut bytes = Vec::new();
        write_to(&memory, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        let stream = || OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap();
        let sliced = stream().slice(3, 11).unwrap();
        let joined = Dataset::concat(&[stream(), sliced.clone(), memory.clone(), memory.slice(7, 2).unwrap()]).unwrap();
        for dataset in [memory.clone(), stream(), sliced, joined, memory.slice(20, 5).unwrap()] {
            let all: Vec<String> = dataset.batches().map(|batch| batch.unwrap().to_string()).collect();
            let by_number: Vec<String> =
                (0..all.len()).map(|number| dataset.batch(number).unwrap().to_string()).collect();
            assert_eq!(by_number, all);
            for past in [all.len(), usize::MAX] {
                assert_eq!(dataset.batch(past).unwrap_err().kind(), ErrorKind::RowOutOfRange);
            }
        }
    }

    #[test]
    fn rows_from_the_end_equal_rows_from_the_start() {
        let memory = Dataset::try_from(vec![numbers(0..5), numbers(5..5), numbers(5..12)]).unwrap();
        for format in [Format::File, Format::Stream] {
            let mut bytes = Vec::new();
            write_to(&memory, &mut bytes, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
            for (whole, rows) in [(0..12, 12), (2..9, 7)] {
                for back in 1..=rows {
                    // Reopens the stream each time, as batches that were walked once are remembered.
                    let opened = OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap();
                    let part = if rows == 12 { opened } else { opened.slice(whole.start, rows).unwrap() };
                    let value = part.row_from_end(back).unwrap().get(0).unwrap();
                    assert_eq!(value.to_string(), (whole.end - back).to_string());
                    assert_eq!(part.row_from_end(rows + 1).unwrap_err().kind(), ErrorKind::RowOutOfRange);
                    assert_eq!(part.row_from_end(0).unwrap_err().kind(), ErrorKind::RowOutOfRange);
                }
            }
        }
    }
}
