//! The rows of a source in a newer schema: for a partition whose schema is older than that of others.

use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::adapter::Adapter;
use super::constant::ConstantColumn;
use super::dataset::Dataset;
use super::schema_conversion::{ConvertedColumns, SchemaConversion};
use super::source::{Facts, Source, SourceSlice};
use crate::error::{Error, Result};

/// The rows of a source in another schema.
#[derive(Debug)]
struct ConvertedSource {
    stored: Arc<dyn Source>,
    schema: SchemaRef,
    fit: SchemaConversion,
    /// The columns of each batch.
    batches: OnceLock<Box<[OnceLock<ConvertedColumns>]>>,
}

impl ConvertedSource {
    fn batch(&self, batch: usize) -> Result<&ConvertedColumns> {
        let missing = || Error::invalid_argument(format!("there is no batch {batch}"));
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
        Ok(place.get_or_init(|| ConvertedColumns::new(self.fit.clone(), (span.end - span.start) as usize)))
    }

    /// The column that column `own` of the source has become.
    fn column_from(&self, own: usize) -> Option<usize> {
        (0..self.schema.fields().len()).find(|&column| self.fit.source_column(column) == Some(own))
    }
}

impl Adapter for ConvertedSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn stored(&self) -> &dyn Source {
        self.stored.as_ref()
    }

    fn stored_column(&self, column: usize) -> Option<usize> {
        self.fit.unchanged_column(column)
    }

    fn derived_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.batch(batch)?.checked(column, |number| self.stored.checked_column(batch, number))
    }

    /// None: dictionaries are converted batch by batch.
    fn derived_dictionary(&self, _column: usize) -> Option<&ArrayData> {
        None
    }

    fn derived_bytes(&self) -> u64 {
        self.batches.get().into_iter().flatten().filter_map(OnceLock::get).map(ConvertedColumns::copied).sum()
    }

    /// None: `Dataset::with_constants` comes after `Dataset::fitted`.
    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn facts(&self) -> Facts<'_> {
        let stored = self.stored.facts();
        Facts {
            sorted_by: stored.sorted_by.and_then(|column| self.column_from(column)),
            late_by: stored.late_by.and_then(|column| self.column_from(column)),
            ..stored
        }
    }
}

impl Dataset {
    /// The rows in `schema`, the dataset's or a newer one; all columns of its sources must be selected.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't be converted.
    pub(crate) fn fitted(&self, schema: &SchemaRef) -> Result<Dataset> {
        let Some(fit) = SchemaConversion::try_new(schema, self.schema())? else { return Ok(self.clone()) };
        let columns: Arc<[usize]> = (0..schema.fields().len()).collect();
        let fitted = |piece: &SourceSlice| {
            let (stored, fit) = (piece.source.clone(), fit.clone());
            let source = ConvertedSource { stored, schema: schema.clone(), fit, batches: OnceLock::new() };
            SourceSlice { source: Arc::new(source), columns: columns.clone(), ..piece.clone() }
        };
        Ok(Dataset::from_slices(schema.clone(), self.pieces().iter().map(fitted).collect()))
    }
}
