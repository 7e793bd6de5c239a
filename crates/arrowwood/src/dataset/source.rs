//! [`Source`]: the origin of a dataset's rows, and the pieces of sources that make up a dataset.
//!
//! A source has one trait for each of its roles: [`Batches`] (rows and arrays), [`Source`] (facts about them), and
//! [`ViewSource`] for a source that shows another dataset's rows. [`Facts`] describes its rows as a whole, and
//! [`Files`] its files.
//!
//! A dataset is a list of *pieces* ([`SourceSlice`]), each a range of rows of one source with some of its columns. The
//! *parts* of a piece ([`BatchSlice`]) are its rows in each of the source's batches.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::constant::ConstantColumn;
use super::pushed_rows::PushedRows;
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::{UncheckedArray, prefetch, slice};
use crate::error::{Error, Result};
use crate::map::{ChangeCheck, guard, with_change_check};

/// Record batches of one schema, found and decoded on demand.
///
/// A method has a default only if the default is right for all batches, and another implementation is merely faster.
/// For example, values that [`fixed_width_values`](Batches::fixed_width_values) doesn't find in place are read through
/// [`checked_column`](Batches::checked_column).
pub(crate) trait Batches {
    fn schema(&self) -> &SchemaRef;

    /// Finds batches until one holds row `until` or there are no more. Returns the number of rows found so far.
    fn count_until(&self, until: u64) -> Result<u64>;

    fn num_batches(&self) -> Result<usize>;

    /// Returns the span of batch `batch`: the numbers that its rows have in the source; `None` past the last batch.
    fn span(&self, batch: usize) -> Result<Option<Range<u64>>>;

    /// Returns the batch that holds `row`; `None` past the last row.
    fn locate(&self, row: u64) -> Result<Option<usize>>;

    /// Locates the row `back` rows before the end; 1 is the last. Returns the batch, and the row inside it.
    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>>;

    /// Returns a column of a batch, with unchecked values.
    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray>;

    /// Returns a column of a batch, with checked values. Good values are checked only once.
    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData>;

    /// Announces that all values of these columns are about to be used.
    fn prepare(&self, _columns: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Checks the values of a column of a batch.
    fn validate_column(&self, batch: usize, column: usize) -> Result<()> {
        self.checked_column(batch, column).map(drop)
    }

    /// Finds the first `rows` values of fixed-width columns of a batch, as bytes to copy. Dictionary keys are not
    /// checked.
    ///
    /// Nothing is decoded; `keep` caches the offsets of the values. Pushes one entry per column: `None` if its values
    /// are not in place, so that [`checked_column`](Batches::checked_column) has to be used.
    fn fixed_width_values<'a>(
        &'a self,
        _batch: usize,
        _rows: usize,
        columns: ColumnWidths<'_>,
        _keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        into.extend(columns.map(|_| None));
        Ok(())
    }

    /// Implements `locate_from_end` for batches that locate rows counted from the start. Counts all rows first.
    fn locate_by_len(&self, back: u64) -> Result<Option<(usize, usize)>> {
        let Some(row) = self.count_until(u64::MAX)?.checked_sub(back) else { return Ok(None) };
        let Some(batch) = self.locate(row)? else { return Ok(None) };
        let Some(span) = self.span(batch)? else { return Err(Error::internal("a located batch without rows")) };
        debug_assert!(span.contains(&row), "row {row} was located in batch {batch} of rows {span:?}");
        Ok(Some((batch, (row - span.start) as usize)))
    }

    /// Returns the bytes of row `row` of a column of a primitive type in which no value is null, without making an
    /// array. `None` if the values are not in place, so that [`column`](Batches::column) has to be used.
    fn value_bytes(&self, _batch: usize, _row: usize, _column: usize, _width: usize) -> Option<&[u8]> {
        None
    }

    /// Returns the dictionary of a column's keys, with checked values, if all batches are known to share it.
    fn dictionary(&self, _column: usize) -> Result<Option<ArrayData>> {
        Ok(None)
    }

    /// Returns the number of bytes that are mapped, and that were copied.
    fn footprint(&self) -> Footprint;

    /// Checks that the files of opened batches have not changed.
    ///
    /// # Errors
    /// `FileChanged`.
    fn check_unchanged(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()>;

    /// Returns the number of mapped bytes that are in physical memory now.
    fn resident(&self) -> Result<u64>;
}

/// The origin of a dataset's rows: batches, and facts about them.
///
/// No method has a default: a source that wraps another one has to pass on each fact, or to withhold it explicitly.
pub(crate) trait Source: Batches + Any + Debug + Send + Sync {
    fn facts(&self) -> Facts<'_>;

    /// Returns the columns with one value in all rows, which are the last ones. Called for each cell that is read.
    fn constants(&self) -> &[ConstantColumn];

    /// Returns the source as a view of another dataset, if it is one.
    fn view(&self) -> Option<&dyn ViewSource>;

    /// Returns the source whose rows this one shows with other columns.
    fn adapted(&self) -> Option<&dyn Source>;

    /// Returns the number of a column in [`adapted`](Source::adapted), if it is passed on unchanged.
    fn adapted_column(&self, column: usize) -> Option<usize>;

    /// Returns true if batches may have zones of column `column`. Opens no file.
    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool;

    /// Returns the zones of column `column` in batch `batch`, if there are any.
    ///
    /// # Errors
    /// `InvalidData` if the zones don't fit the column.
    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>>;
}

impl dyn Source {
    /// Returns column `column` if it has one value in all rows, without making an array as long as a batch.
    pub(crate) fn constant(&self, column: usize) -> Option<&ConstantColumn> {
        let constants = self.constants();
        // Most sources have none, and this is called for each cell that is read.
        if constants.is_empty() {
            return None;
        }
        let stored = self.schema().fields().len().checked_sub(constants.len())?;
        constants.get(column.checked_sub(stored)?)
    }

    /// Finds a source of type `T`: this one, or the one whose rows it shows with other columns.
    pub(crate) fn find<T: Source>(&self) -> Option<&T> {
        let source: &dyn Any = self;
        source.downcast_ref().or_else(|| self.adapted()?.find())
    }
}

/// Facts about a source's rows as a whole.
///
/// An adapter writes `Facts { sorted_by: …, ..stored.facts() }`, so that facts are passed on by default and dropped
/// explicitly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    /// The path as it was given.
    pub path: Option<&'a Path>,
    /// The path, independent of later changes of the working directory.
    pub absolute_path: Option<&'a Path>,
    /// The absolute path or URL that opens the source from anywhere, including the secrets of a URL.
    pub address: Option<&'a Path>,
    pub files: Option<&'a dyn Files>,
    /// The number of the first row in its table.
    pub first_row: u64,
    /// The rows of a table that the source has, if it is an object that was pushed to a store.
    pub pushed_rows: Option<&'a PushedRows>,
    /// The column whose values never decrease.
    pub sorted_by: Option<usize>,
    /// The column that would be sorted, if late rows were refused.
    pub late_by: Option<usize>,
    /// True if the source keeps other rows than its own alive.
    pub holds_others: bool,
}

impl<'a> Facts<'a> {
    /// Creates facts about rows in files at `path`, which is `absolute` as an absolute path, if known.
    pub(crate) fn new(path: Option<&'a Path>, absolute: Option<&'a Path>) -> Facts<'a> {
        let absolute_path = absolute.or(path);
        Facts { path, absolute_path, address: absolute_path, ..Facts::default() }
    }
}

/// The files of a source.
pub(crate) trait Files: Debug {
    /// Returns the files, if there are several or the source's path is a directory.
    fn list(&self) -> Vec<PathBuf>;

    /// Returns a text that distinguishes the content of the files from other content at the same path; `None` if
    /// nothing does.
    fn version(&self) -> Option<String>;

    /// Returns true if the files may be merged, as a table's files are, so that one has the rows of several.
    fn are_merged(&self) -> bool;

    /// Returns the file that may have the rows of `file` now, one of the files that has been removed.
    fn successor(&self, file: &Path) -> Result<Option<PathBuf>>;
}

/// A source that shows rows of another dataset.
pub(crate) trait ViewSource {
    /// Locates row `row` in the other dataset.
    fn resolve_row(&self, row: u64) -> Result<Option<RowLocation<'_>>>;

    /// Returns the rows `rows` as a source, if the view would otherwise gather more rows than these.
    fn slice(&self, rows: Range<u64>) -> Option<Arc<dyn Source>>;

    /// Returns the pieces of the other dataset, and the numbers that the rows `rows` have there. The rows must exist.
    /// `None` if the view doesn't gather rows.
    #[cfg(feature = "compute")]
    fn resolve_rows(&self, rows: &mut dyn Iterator<Item = u64>) -> Option<(&[SourceSlice], Vec<u64>)>;
}

/// The origin of a dataset of several partitions, to which more may be added.
pub(crate) trait Origin: Any + Debug + Send + Sync {
    /// Returns true if [`refresh`](Origin::refresh) would find nothing new.
    fn is_newest(&self) -> bool;

    /// Returns the current pieces, with all columns, and the origin for the next refresh.
    fn refresh(&self) -> Result<(Vec<SourceSlice>, Arc<dyn Origin>)>;

    /// Returns the schema of all columns.
    fn schema(&self) -> &SchemaRef;
}

/// The location of a row: the batch in a piece's source, and the row's number in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLocation<'a> {
    pub piece: &'a SourceSlice,
    pub batch: usize,
    pub index: usize,
}

/// Numbers of columns, and their widths in bytes.
pub(crate) type ColumnWidths<'a> = &'a mut dyn Iterator<Item = (usize, usize)>;

/// A column's values in one batch, contiguous, with arbitrary bytes for nulls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedWidthValues<'a> {
    pub values: &'a [u8],
    pub has_nulls: bool,
}

/// The bytes of a dataset by their location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes mapped from files.
    pub mapped: u64,
    /// Bytes that had to be copied: decompressed, byte-swapped, or dictionaries merged from deltas.
    pub copied: u64,
}

impl std::iter::Sum for Footprint {
    fn sum<I: Iterator<Item = Footprint>>(parts: I) -> Footprint {
        parts.fold(Footprint::default(), |a, b| Footprint { mapped: a.mapped + b.mapped, copied: a.copied + b.copied })
    }
}

/// Rows `start ..` of a source, `rows` of them or all that follow, and a selection of its columns.
#[derive(Clone)]
pub(crate) struct SourceSlice {
    pub source: Arc<dyn Source>,
    pub columns: Arc<[usize]>,
    pub start: u64,
    pub rows: Option<u64>,
}

/// The rows of a piece that are in one batch, from which a chunk of a column is made.
#[derive(Clone, Debug)]
pub(crate) struct BatchSlice<'a> {
    pub piece: &'a SourceSlice,
    pub batch: usize,
    /// Rows inside the batch.
    pub rows: Range<usize>,
}

/// Shows which rows of its source the slice has, not the source, which may be gigabytes in memory.
impl fmt::Debug for SourceSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SourceSlice");
        shown.field("columns", &self.columns).field("start", &self.start).field("rows", &self.rows);
        shown.finish_non_exhaustive()
    }
}

impl SourceSlice {
    /// Returns the slice with the source's columns `columns`.
    pub(super) fn with_columns(&self, columns: Arc<[usize]>) -> SourceSlice {
        debug_assert!(columns.iter().all(|&column| column < self.source.schema().fields().len()), "no such column");
        SourceSlice { source: self.source.clone(), columns, start: self.start, rows: self.rows }
    }

    /// Returns true if the slice has all rows of its source.
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && self.rows.is_none()
    }

    pub(crate) fn rows(&self) -> Result<u64> {
        self.rows_until(u64::MAX)
    }

    /// Returns the number of known rows, if only rows up to `until` matter.
    pub(super) fn rows_until(&self, until: u64) -> Result<u64> {
        match self.rows {
            Some(rows) => Ok(rows),
            // A source may end before the slice starts.
            None => Ok(self.source.count_until(self.start.saturating_add(until))?.saturating_sub(self.start)),
        }
    }

    /// Locates row `row` of the slice; `None` past the end.
    pub(super) fn locate(&self, row: u64) -> Result<Option<RowLocation<'_>>> {
        if self.rows.is_some_and(|rows| row >= rows) {
            return Ok(None);
        }
        let row = self.start.saturating_add(row);
        let Some(batch) = self.source.locate(row)? else { return Ok(None) };
        let Some(span) = self.source.span(batch)? else { return Err(Error::internal("a located batch without rows")) };
        debug_assert!(span.contains(&row), "row {row} was located in batch {batch} of rows {span:?}");
        Ok(Some(RowLocation { piece: self, batch, index: (row - span.start) as usize }))
    }

    /// Returns the part of batch `batch` in the slice; `None` if the slice ends before.
    fn part(&self, batch: usize) -> Result<Option<BatchSlice<'_>>> {
        let Some(span) = self.source.span(batch)? else { return Ok(None) };
        let end = self.rows.map_or(u64::MAX, |rows| self.start.saturating_add(rows));
        if span.start >= end {
            return Ok(None);
        }
        let from = span.start.max(self.start);
        let to = span.end.min(end);
        let rows = (from - span.start) as usize..(to.max(from) - span.start) as usize;
        Ok(Some(BatchSlice { piece: self, batch, rows }))
    }

    /// Returns the slice's rows `rows`, which must exist.
    pub(super) fn cut(&self, rows: Range<u64>) -> SourceSlice {
        assert!(rows.start <= rows.end, "rows {rows:?}");
        assert!(self.rows.is_none_or(|count| rows.end <= count), "rows {rows:?} of {:?}", self.rows);
        let start = self.start + rows.start;
        let len = rows.end - rows.start;
        match self.source.view().and_then(|view| view.slice(start..start + len)) {
            Some(source) => SourceSlice { source, columns: self.columns.clone(), start: 0, rows: None },
            None => SourceSlice { start, rows: Some(len), ..self.clone() },
        }
    }

    /// Checks that the files of the slice's batches have not changed; see [`Batches::check_unchanged`].
    pub(super) fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        let Some(rows) = self.rows else { return self.source.check_unchanged(0..usize::MAX, when) };
        let last_row = self.start.saturating_add(rows).saturating_sub(1);
        // Where a row is not found, because of an error or as its batch is gone, all batches on its side are checked.
        let first = match self.source.locate(self.start) {
            Ok(Some(batch)) => batch,
            Ok(None) | Err(_) => 0,
        };
        let end = match self.source.locate(last_row) {
            Ok(Some(batch)) => batch + 1,
            Ok(None) | Err(_) => usize::MAX,
        };
        self.source.check_unchanged(first..end, when)
    }

    /// Returns part number `number`; if there is none, the number of parts.
    pub(super) fn nth_part(&self, number: usize) -> Result<(Option<BatchSlice<'_>>, usize)> {
        if self.is_whole() {
            let part = self.part(number)?;
            let count = if part.is_none() { self.source.num_batches()? } else { 0 };
            return Ok((part, count));
        }
        let mut count = 0;
        for part in self.parts() {
            let part = part?;
            if count == number {
                return Ok((Some(part), count));
            }
            count += 1;
        }
        Ok((None, count))
    }

    fn first_batch(&self) -> Result<usize> {
        if self.start == 0 {
            return Ok(0);
        }
        match self.source.locate(self.start)? {
            Some(batch) => Ok(batch),
            None => self.source.num_batches(),
        }
    }

    /// Returns the parts of the slice in order, up to the first error. Includes batches without rows only if the slice
    /// is its whole source.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<BatchSlice<'_>>> {
        let mut next = guard(|| self.first_batch());
        let mut rows_left = self.rows;
        std::iter::from_fn(move || {
            let batch = match &mut next {
                Ok(batch) => *batch,
                Err(e) => {
                    let e = e.clone();
                    next = Ok(usize::MAX);
                    return Some(Err(e));
                }
            };
            // The batch after the last row is not read, as it may be damaged.
            if batch == usize::MAX || rows_left == Some(0) {
                return None;
            }
            let part = guard(|| self.part(batch));
            if let (Some(left), Ok(Some(part))) = (&mut rows_left, &part) {
                debug_assert!(part.rows.len() as u64 <= *left, "batch {batch} has more rows than are left");
                *left -= part.rows.len() as u64;
            }
            next = Ok(if part.is_ok() { batch + 1 } else { usize::MAX });
            part.transpose()
        })
        .filter(|part| self.rows.is_none() || part.as_ref().map_or(true, |part| !part.rows.is_empty()))
    }
}

impl<'a> BatchSlice<'a> {
    /// Asks the system to load the part's values, at most `max_bytes` of each buffer, without waiting for them.
    pub(super) fn prefetch(&self, max_bytes: usize) {
        let source = &self.piece.source;
        for &column in self.piece.columns.iter() {
            if source.constant(column).is_some() {
                continue;
            }
            // An error is reported when the column is read.
            if let Ok(array) = source.column(self.batch, column) {
                prefetch(array, self.rows.clone(), max_bytes);
            }
        }
    }

    /// Runs `work` on the part, then checks that its file has not changed.
    pub(crate) fn with_change_check<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        with_change_check(
            ChangeCheck::Now,
            |when| self.piece.source.check_unchanged(self.batch..self.batch + 1, when),
            work,
        )
    }

    /// Returns the part's columns, with checked values.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayData>> {
        self.piece.source.prepare(&self.piece.columns)?;
        self.piece.columns.iter().map(|&column| self.column(column)).collect()
    }

    /// Returns column `column` of the source, with checked values, cut to the part.
    pub(crate) fn column(&self, column: usize) -> Result<ArrayData> {
        Ok(slice(self.checked(column)?, self.rows.start, self.rows.len()))
    }

    /// Returns column `column` of the source, with checked values and all rows of the batch.
    pub(crate) fn checked(&self, column: usize) -> Result<&'a ArrayData> {
        self.piece.source.checked_column(self.batch, column)
    }
}
