//! The rows of a source, with columns that are not in its files: those of a partition.

use std::any::Any;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};

use super::constant::ConstantColumn;
use super::dataset::Dataset;
use super::pushed::PushedRows;
use super::source::{Footprint, Location, Piece, Plain, Source, Widths};
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::Unchecked;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// The rows of a source, followed by columns that have one value each.
#[derive(Debug)]
struct WithConstants {
    stored: Arc<dyn Source>,
    schema: SchemaRef,
    constants: Arc<[ConstantColumn]>,
    /// The constants of each batch.
    made: OnceLock<Box<[OnceLock<ArrayData>]>>,
}

impl WithConstants {
    fn stored_columns(&self) -> usize {
        self.stored.schema().fields().len()
    }

    /// The constant column number `column`, counted from the first column of the source.
    fn of_batch(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let missing = || Error::argument(format!("batch {batch}, column {column}"));
        let number = column - self.stored_columns();
        let constant = self.constants.get(number).ok_or_else(missing)?;
        let made = match self.made.get() {
            Some(made) => made,
            None => {
                let count = self.stored.num_batches()? * self.constants.len();
                self.made.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect())
            }
        };
        let place = made.get(batch * self.constants.len() + number).ok_or_else(missing)?;
        if let Some(array) = place.get() {
            return Ok(array);
        }
        let span = self.stored.span(batch)?.ok_or_else(missing)?;
        let array = constant.of_len((span.end - span.start) as usize)?;
        Ok(place.get_or_init(|| array))
    }
}

impl Source for WithConstants {
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
        if column < self.stored_columns() {
            self.stored.column(batch, column)
        } else {
            self.of_batch(batch, column).map(Unchecked::of)
        }
    }

    fn checked(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        if column < self.stored_columns() { self.stored.checked(batch, column) } else { self.of_batch(batch, column) }
    }

    fn check(&self, batch: usize, column: usize) -> Result<()> {
        if column < self.stored_columns() { self.stored.check(batch, column) } else { Ok(()) }
    }

    fn stored_value(&self, batch: usize, row: usize, column: usize, width: usize) -> Option<&[u8]> {
        if column < self.stored_columns() { self.stored.stored_value(batch, row, column, width) } else { None }
    }

    fn plain<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: Widths<'_>,
        keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let wanted: Vec<(usize, usize)> = columns.collect();
        // Runs are those of the source, since it finds all columns of a batch at once.
        let is_stored = |&(column, _): &(usize, usize)| column < self.stored_columns();
        for run in wanted.chunk_by(|a, b| is_stored(a) == is_stored(b)) {
            if run.first().is_some_and(is_stored) {
                self.stored.plain(batch, rows, &mut run.iter().copied(), keep, into)?;
            } else {
                into.extend(run.iter().map(|_| None));
            }
        }
        Ok(())
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        match column.checked_sub(self.stored_columns()) {
            None => self.stored.dictionary(column),
            Some(number) => Ok(self.constants.get(number).and_then(ConstantColumn::dictionary).cloned()),
        }
    }

    fn footprint(&self) -> Footprint {
        self.stored.footprint()
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

    fn behind(&self, row: u64) -> Result<Option<Location<'_>>> {
        self.stored.behind(row)
    }

    fn sorted_by(&self) -> Option<usize> {
        self.stored.sorted_by()
    }

    fn late_by(&self) -> Option<usize> {
        self.stored.late_by()
    }

    fn constants(&self) -> &[ConstantColumn] {
        &self.constants
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool {
        column < self.stored_columns() && self.stored.has_zones(column)
    }

    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>> {
        if column < self.stored_columns() { self.stored.zones(batch, column) } else { Ok(None) }
    }

    fn as_any(&self) -> &dyn Any {
        self.stored.as_any()
    }
}

impl Dataset {
    /// The dataset with `constants` after its columns, which must be all columns of its sources, in order.
    pub(crate) fn with_constants(&self, constants: &Arc<[ConstantColumn]>) -> Dataset {
        let schema = with_fields(self.schema(), constants.iter().map(ConstantColumn::field));
        let stored = self.num_columns();
        let widen = |piece: &Piece| {
            debug_assert_eq!(piece.source.schema().fields().len(), stored, "a dataset of some columns of its sources");
            let constants = constants.clone();
            let source = WithConstants {
                stored: piece.source.clone(),
                schema: schema.clone(),
                constants,
                made: OnceLock::new(),
            };
            let columns = (0..schema.fields().len()).collect();
            Piece { source: Arc::new(source), columns, ..piece.clone() }
        };
        Dataset::of_pieces(schema.clone(), self.pieces().iter().map(widen).collect())
    }
}

/// `schema` with more fields after its own.
pub(crate) fn with_fields<'a>(schema: &'a Schema, more: impl Iterator<Item = &'a FieldRef>) -> SchemaRef {
    let fields: Fields = schema.fields().iter().chain(more).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
