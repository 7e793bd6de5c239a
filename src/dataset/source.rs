//! [`Source`]: the origin of a dataset's rows, and the pieces of sources that make up a dataset.
//!
//! A source has one trait for each of its roles: [`Batches`] (rows and arrays), [`Source`] (what is known of them), and [`ViewSource`]
//! for a source that shows another dataset's rows. [`Facts`] tells about its rows as a whole, and [`Files`] about its files.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::constant::ConstantColumn;
use super::pushed_rows::PushedRows;
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::{UncheckedArray, slice};
use crate::error::Result;
use crate::map::{ChangeCheck, guard, with_change_check};

/// Record batches of one schema, found and decoded on demand.
pub(crate) trait Batches {
    fn schema(&self) -> &SchemaRef;

    /// Finds batches until one holds row `until` or there are no more; returns the number of known rows.
    fn count_until(&self, until: u64) -> Result<u64>;

    fn num_batches(&self) -> Result<usize>;

    /// The rows of batch `batch`; `None` past the last.
    fn span(&self, batch: usize) -> Result<Option<Range<u64>>>;

    /// The batch that holds `row`; `None` past the last row.
    fn locate(&self, row: u64) -> Result<Option<usize>>;

    /// Batch and row inside it of the row `back` rows before the end; 1 is the last.
    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>>;

    /// A column of a batch, with unchecked values.
    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray>;

    /// A column of a batch with checked values; good values are checked once.
    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData>;

    /// Tells that all values of these columns are about to be used.
    fn prepare(&self, columns: &[usize]) -> Result<()>;

    /// Checks the values of a column of a batch.
    fn validate_column(&self, batch: usize, column: usize) -> Result<()>;

    /// Finds the first `rows` values of fixed-width columns (given with their widths) of a batch, as bytes to copy; keys are
    /// not checked. Nothing is decoded; `keep` caches their offsets. Pushes `None` if a column's values are not in place: use
    /// `checked`.
    fn fixed_width_values<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: ColumnWidths<'_>,
        keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()>;

    /// `locate_from_end` for batches that know where rows are from the start: counts all rows first.
    fn locate_by_len(&self, back: u64) -> Result<Option<(usize, usize)>> {
        let Some(row) = self.count_until(u64::MAX)?.checked_sub(back) else { return Ok(None) };
        let Some(batch) = self.locate(row)? else { return Ok(None) };
        let start = self.span(batch)?.map_or(row, |span| span.start);
        Ok(Some((batch, (row - start) as usize)))
    }

    /// The bytes of row `row` of a column of a primitive type, in which no value is null: found as by `plain`, without
    /// making arrays. `None` if they are not known so: use `column`.
    fn value_bytes(&self, batch: usize, row: usize, column: usize, width: usize) -> Option<&[u8]>;

    /// The dictionary of a column's keys, checked as by `checked`, if all batches are known to share it.
    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>>;

    fn footprint(&self) -> Footprint;

    /// Checks that the files of opened batches have not changed.
    ///
    /// # Errors
    /// `FileChanged`.
    fn check_unchanged(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()>;

    /// Mapped bytes that are in physical memory now.
    fn resident(&self) -> Result<u64>;
}

/// The origin of a dataset's rows: batches, and what is known of them.
///
/// Nothing has a default, as a default in a source that wraps another one hides what that one knows.
pub(crate) trait Source: Batches + Any + Debug + Send + Sync {
    fn facts(&self) -> Facts<'_>;

    /// The columns with one value in all rows, which are the last ones. Each cell that is read asks.
    fn constants(&self) -> &[ConstantColumn];

    /// The source as a view of another dataset, if it is one.
    fn view(&self) -> Option<&dyn ViewSource>;

    /// The source whose rows this one shows with other columns.
    fn adapted(&self) -> Option<&dyn Source>;

    /// The number of a column in [`adapted`](Source::adapted), if it is passed on as it is.
    fn adapted_column(&self, column: usize) -> Option<usize>;

    /// Whether batches may have zones of column `column`; opens no file.
    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool;

    /// The zones of column `column` in batch `batch`, if there are any.
    ///
    /// # Errors
    /// `InvalidData` if they can't be those of the column.
    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>>;
}

impl dyn Source {
    /// The column `column`, if it has one value in all rows. Its arrays are as long as a batch, so they are only for those
    /// who need one.
    pub(crate) fn constant(&self, column: usize) -> Option<&ConstantColumn> {
        let constants = self.constants();
        // Most sources have none, and each cell that is read asks.
        if constants.is_empty() {
            return None;
        }
        let stored = self.schema().fields().len().checked_sub(constants.len())?;
        constants.get(column.checked_sub(stored)?)
    }

    /// The source as one of type `T`, which it is or whose rows it shows with other columns.
    pub(crate) fn find<T: Source>(&self) -> Option<&T> {
        let own: &dyn Any = self;
        own.downcast_ref().or_else(|| self.adapted()?.find())
    }
}

/// What is known of a source's rows as a whole.
///
/// An adapter writes `Facts { sorted_by: …, ..stored.facts() }`: passing on is the default, and leaving out is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    /// The path as it was given.
    pub path: Option<&'a Path>,
    /// The path, independent of later changes of the working directory.
    pub absolute_path: Option<&'a Path>,
    /// What opens it from anywhere: the absolute path, or a URL, with what is secret in it.
    pub address: Option<&'a Path>,
    pub files: Option<&'a dyn Files>,
    /// The number of the first row in its table.
    pub first_row: u64,
    /// Which rows of which table it has, if it is an object that was pushed to a store.
    pub pushed_rows: Option<&'a PushedRows>,
    /// The column whose values never decrease.
    pub sorted_by: Option<usize>,
    /// The column that would be sorted, if late rows were refused.
    pub late_by: Option<usize>,
    /// Whether the source keeps rows of another one in memory beside its own.
    pub holds_others: bool,
}

impl<'a> Facts<'a> {
    /// Facts of rows in files at `path`, which opens from anywhere as `absolute`, if that is known.
    pub(crate) fn new(path: Option<&'a Path>, absolute: Option<&'a Path>) -> Facts<'a> {
        let absolute_path = absolute.or(path);
        Facts { path, absolute_path, address: absolute_path, ..Facts::default() }
    }
}

/// The files of a source.
pub(crate) trait Files: Debug {
    /// The files, if there are several or the source's path is a directory.
    fn list(&self) -> Vec<PathBuf>;

    /// What tells their content from another one at the same path; `None` if it can't be told.
    fn version(&self) -> Option<String>;

    /// Whether the files may be merged, as a table's files are, so that one has the rows of several.
    fn are_merged(&self) -> bool;

    /// The file that has the rows of `file`, one of the files that is there no more, if one may have them.
    fn successor(&self, file: &Path) -> Result<Option<PathBuf>>;
}

/// A source that shows rows of another dataset.
pub(crate) trait ViewSource {
    /// The location of row `row` in the other dataset.
    fn resolve_row(&self, row: u64) -> Result<Option<RowLocation<'_>>>;

    /// The rows `rows` as a source, if the view would otherwise gather more rows than these.
    fn slice(&self, rows: Range<u64>) -> Option<Arc<dyn Source>>;

    /// The pieces of the other dataset, and the numbers of the rows `rows`, which must exist, there. `None` if the view
    /// doesn't gather rows.
    #[cfg(feature = "compute")]
    fn resolve_rows(&self, rows: &mut dyn Iterator<Item = u64>) -> Option<(&[SourceSlice], Vec<u64>)>;
}

/// The origin of a dataset of several partitions, to which more may be added.
pub(crate) trait Origin: Any + Debug + Send + Sync {
    /// Whether [`refresh`](Origin::refresh) would find nothing new.
    fn is_newest(&self) -> bool;

    /// The current pieces, with all columns, and the origin for the next refresh.
    fn refresh(&self) -> Result<(Vec<SourceSlice>, Arc<dyn Origin>)>;

    /// The schema of all columns.
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
#[derive(Clone, Debug)]
pub(crate) struct SourceSlice {
    pub source: Arc<dyn Source>,
    pub columns: Arc<[usize]>,
    pub start: u64,
    pub rows: Option<u64>,
}

/// Part of one batch, from which a chunk of a column is made.
#[derive(Clone, Debug)]
pub(crate) struct BatchSlice<'a> {
    pub piece: &'a SourceSlice,
    pub batch: usize,
    /// Rows inside the batch.
    pub rows: Range<usize>,
}

impl SourceSlice {
    pub(crate) fn rows(&self) -> Result<u64> {
        match self.rows {
            Some(rows) => Ok(rows),
            None => Ok(self.source.count_until(u64::MAX)?.saturating_sub(self.start)),
        }
    }

    /// The number of known rows, if only rows up to `until` matter.
    pub(super) fn rows_until(&self, until: u64) -> Result<u64> {
        match self.rows {
            Some(rows) => Ok(rows),
            None => Ok(self.source.count_until(self.start.saturating_add(until))?.saturating_sub(self.start)),
        }
    }

    /// The location of the piece's row `row`; `None` past the end.
    pub(super) fn locate(&self, row: u64) -> Result<Option<RowLocation<'_>>> {
        if self.rows.is_some_and(|rows| row >= rows) {
            return Ok(None);
        }
        let row = self.start.saturating_add(row);
        let Some(batch) = self.source.locate(row)? else { return Ok(None) };
        let span = self.source.span(batch)?.unwrap_or(row..row);
        Ok(Some(RowLocation { piece: self, batch, index: (row - span.start) as usize }))
    }

    /// The part of batch `batch` in the piece; `None` if the piece ends before.
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

    /// The piece's rows `rows`, which must exist.
    pub(super) fn cut(&self, rows: Range<u64>) -> SourceSlice {
        debug_assert!(rows.start <= rows.end, "rows in order");
        let start = self.start + rows.start;
        let len = rows.end - rows.start;
        match self.source.view().and_then(|view| view.slice(start..start + len)) {
            Some(source) => SourceSlice { source, columns: self.columns.clone(), start: 0, rows: None },
            None => SourceSlice { start, rows: Some(len), ..self.clone() },
        }
    }

    /// [`Batches::check_unchanged`] for the piece's part of its source.
    pub(super) fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        let Some(rows) = self.rows else { return self.source.check_unchanged(0..usize::MAX, when) };
        // If a batch is not found, all of them are checked.
        let first = self.source.locate(self.start).ok().flatten().unwrap_or(0);
        let last = self.source.locate(self.start.saturating_add(rows).saturating_sub(1)).ok().flatten();
        self.source.check_unchanged(first..last.map_or(usize::MAX, |last| last + 1), when)
    }

    /// Part number `number`; if there is none, the number of parts.
    pub(super) fn nth_part(&self, number: usize) -> Result<(Option<BatchSlice<'_>>, usize)> {
        if self.start == 0 && self.rows.is_none() {
            let found = self.part(number)?;
            let count = if found.is_none() { self.source.num_batches()? } else { 0 };
            return Ok((found, count));
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

    /// The parts of the piece in order. Includes batches without rows only if the piece is its whole source.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<BatchSlice<'_>>> {
        let mut next = guard(|| self.first_batch());
        let mut left = self.rows;
        std::iter::from_fn(move || {
            let batch = match &mut next {
                Ok(batch) => *batch,
                Err(e) => {
                    let e = e.clone();
                    next = Ok(usize::MAX);
                    return Some(Err(e));
                }
            };
            // Data after the piece may be damaged.
            if batch == usize::MAX || left == Some(0) {
                return None;
            }
            let part = guard(|| self.part(batch));
            if let (Some(left), Ok(Some(part))) = (&mut left, &part) {
                *left = left.saturating_sub(part.rows.len() as u64);
            }
            next = Ok(if part.is_ok() { batch + 1 } else { usize::MAX });
            part.transpose()
        })
        .filter(|part| self.rows.is_none() || part.as_ref().map_or(true, |part| !part.rows.is_empty()))
    }
}

impl<'a> BatchSlice<'a> {
    /// Runs `work` on the part, then checks that its file has not changed.
    pub(crate) fn with_change_check<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        with_change_check(
            ChangeCheck::Now,
            |when| self.piece.source.check_unchanged(self.batch..self.batch + 1, when),
            work,
        )
    }

    /// The part's columns, with checked values.
    pub(crate) fn columns(&self) -> Result<Vec<ArrayData>> {
        self.piece.source.prepare(&self.piece.columns)?;
        self.piece.columns.iter().map(|&column| self.column(column)).collect()
    }

    /// Column `column` of the source, with checked values, cut to the part.
    pub(crate) fn column(&self, column: usize) -> Result<ArrayData> {
        Ok(slice(self.checked(column)?, self.rows.start, self.rows.len()))
    }

    /// Column `column` of the source, with checked values and all rows of the batch.
    pub(crate) fn checked(&self, column: usize) -> Result<&'a ArrayData> {
        self.piece.source.checked_column(self.batch, column)
    }
}
