//! The rows of a source in a newer schema: for a partition whose schema is older than that of others.

use std::any::Any;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::dataset::Dataset;
use super::fit::{Fit, FittedColumns};
use super::pushed::PushedRows;
use super::source::{Footprint, Piece, Plain, Source, Widths};
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::Unchecked;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// The rows of a source in another schema.
#[derive(Debug)]
struct Fitted {
    stored: Arc<dyn Source>,
    schema: SchemaRef,
    fit: Fit,
    /// The columns of each batch.
    batches: OnceLock<Box<[OnceLock<FittedColumns>]>>,
}

impl Fitted {
    fn batch(&self, batch: usize) -> Result<&FittedColumns> {
        let missing = || Error::argument(format!("there is no batch {batch}"));
        let batches = match self.batches.get() {
            Some(batches) => batches,
            None => {
                let count = self.stored.num_batches()?;
                self.batches.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect())
            }
        };
        let place = batches.get(batch).ok_or_else(missing)?;
        if let Some(columns) = place.get() {
            return Ok(columns);
        }
        let span = self.stored.span(batch)?.ok_or_else(missing)?;
        Ok(place.get_or_init(|| FittedColumns::new(self.fit.clone(), (span.end - span.start) as usize)))
    }

    /// The column that column `own` of the source has become.
    fn column_from(&self, own: usize) -> Option<usize> {
        (0..self.schema.fields().len()).find(|&column| self.fit.comes_from(column) == Some(own))
    }
}

impl Source for Fitted {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn walk(&self, until: u64) -> Result<u64> {
        self.stored.walk(until)
    }

    fn num_batches(&self) -> Result<usize> {
        self.stored.num_batches()
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        self.stored.span(batch)
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        self.stored.locate(row)
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.stored.locate_from_end(back)
    }

    fn holds_others(&self) -> bool {
        self.stored.holds_others()
    }

    fn column(&self, batch: usize, column: usize) -> Result<&Unchecked> {
        match self.fit.as_it_is(column) {
            Some(number) => self.stored.column(batch, number),
            None => self.checked(batch, column).map(Unchecked::of),
        }
    }

    fn checked(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        match self.fit.as_it_is(column) {
            Some(number) => self.stored.checked(batch, number),
            None => self.batch(batch)?.checked(column, |number| self.stored.checked(batch, number)),
        }
    }

    fn plain<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: Widths<'_>,
        keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let wanted: Vec<(Option<usize>, usize)> =
            columns.map(|(column, width)| (self.fit.as_it_is(column), width)).collect();
        // Runs are those of the source, since it finds all columns of a batch at once.
        for run in wanted.chunk_by(|a, b| a.0.is_some() == b.0.is_some()) {
            let mut stored = run.iter().filter_map(|&(column, width)| Some((column?, width)));
            if run.first().is_some_and(|first| first.0.is_some()) {
                self.stored.plain(batch, rows, &mut stored, keep, into)?;
            } else {
                into.extend(run.iter().map(|_| None));
            }
        }
        Ok(())
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        match self.fit.as_it_is(column) {
            Some(number) => self.stored.dictionary(number),
            None => Ok(None),
        }
    }

    fn footprint(&self) -> Footprint {
        let made = self.batches.get().into_iter().flatten().filter_map(OnceLock::get);
        let copied = made.map(FittedColumns::copied).sum();
        [self.stored.footprint(), Footprint { mapped: 0, copied }].into_iter().sum()
    }

    fn look(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.stored.look(batches, when)
    }

    fn resident(&self) -> Result<u64> {
        self.stored.resident()
    }

    fn path(&self) -> Option<&Path> {
        self.stored.path()
    }

    fn absolute_path(&self) -> Option<&Path> {
        self.stored.absolute_path()
    }

    fn address(&self) -> Option<&Path> {
        self.stored.address()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.stored.files()
    }

    fn merges_files(&self) -> bool {
        true
    }

    fn successor(&self, file: &Path) -> Result<Option<PathBuf>> {
        self.stored.successor(file)
    }

    fn pushed_rows(&self) -> Option<&PushedRows> {
        self.stored.pushed_rows()
    }

    fn first_row(&self) -> u64 {
        self.stored.first_row()
    }

    fn sorted_by(&self) -> Option<usize> {
        self.column_from(self.stored.sorted_by()?)
    }

    fn late_by(&self) -> Option<usize> {
        self.column_from(self.stored.late_by()?)
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool {
        self.fit.as_it_is(column).is_some_and(|number| self.stored.has_zones(number))
    }

    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>> {
        // Zones are of the stored values.
        self.fit.as_it_is(column).map_or(Ok(None), |number| self.stored.zones(batch, number))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Dataset {
    /// The rows in `schema`, the dataset's or a newer one; all columns of its sources must be selected.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't be converted.
    pub(crate) fn fitted(&self, schema: &SchemaRef) -> Result<Dataset> {
        let Some(fit) = Fit::of(schema, self.schema())? else { return Ok(self.clone()) };
        let columns: Arc<[usize]> = (0..schema.fields().len()).collect();
        let fitted = |piece: &Piece| {
            let (stored, fit) = (piece.source.clone(), fit.clone());
            let source = Fitted { stored, schema: schema.clone(), fit, batches: OnceLock::new() };
            Piece { source: Arc::new(source), columns: columns.clone(), ..piece.clone() }
        };
        Ok(Dataset::of_pieces(schema.clone(), self.pieces().iter().map(fitted).collect()))
    }
}
