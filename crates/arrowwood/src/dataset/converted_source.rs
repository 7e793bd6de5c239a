//! [`ConvertedSource`]: the rows of a source in a newer schema, for a partition whose schema is older than others.

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
    conversion: SchemaConversion,
    /// The columns of each batch.
    batches: OnceLock<Box<[OnceLock<ConvertedColumns>]>>,
}

impl ConvertedSource {
    fn batch(&self, batch: usize) -> Result<&ConvertedColumns> {
        let batches = match self.batches.get() {
            Some(batches) => batches,
            None => {
                let count = self.stored.num_batches()?;
                self.batches.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect())
            }
        };
        let columns = batches.get(batch).ok_or_else(|| no_batch(batch))?;
        if let Some(columns) = columns.get() {
            return Ok(columns);
        }
        let span = self.stored.span(batch)?.ok_or_else(|| no_batch(batch))?;
        let rows = (span.end - span.start) as usize;
        Ok(columns.get_or_init(|| ConvertedColumns::new(self.conversion.clone(), rows)))
    }

    /// Returns the number here of the stored source's column `stored`.
    fn column_from(&self, stored: usize) -> Option<usize> {
        (0..self.schema.fields().len()).find(|&column| self.conversion.source_column(column) == Some(stored))
    }
}

fn no_batch(batch: usize) -> Error {
    Error::invalid_argument(format!("there is no batch {batch}"))
}

impl Adapter for ConvertedSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn stored(&self) -> &dyn Source {
        self.stored.as_ref()
    }

    fn stored_column(&self, column: usize) -> Option<usize> {
        self.conversion.unchanged_column(column)
    }

    fn derived_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.batch(batch)?.checked(column, |number| self.stored.checked_column(batch, number))
    }

    /// Returns `None`: dictionaries are converted batch by batch.
    fn derived_dictionary(&self, _column: usize) -> Option<&ArrayData> {
        None
    }

    fn derived_bytes(&self) -> u64 {
        self.batches.get().into_iter().flatten().filter_map(OnceLock::get).map(ConvertedColumns::copied).sum()
    }

    /// Returns no column: `Dataset::with_constants` is called after `Dataset::fitted`.
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
    /// Returns the rows in `schema`, the dataset's or a newer one. All columns of the dataset's sources must be
    /// selected.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first column that can't be converted.
    pub(crate) fn fitted(&self, schema: &SchemaRef) -> Result<Dataset> {
        let Some(conversion) = SchemaConversion::try_new(schema, self.schema())? else { return Ok(self.clone()) };
        let columns: Arc<[usize]> = (0..schema.fields().len()).collect();
        let mut pieces = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let stored_columns = piece.source.schema().fields().len();
            assert_eq!(stored_columns, self.num_columns(), "a dataset of some columns of its sources");
            let source = ConvertedSource {
                stored: piece.source.clone(),
                schema: schema.clone(),
                conversion: conversion.clone(),
                batches: OnceLock::new(),
            };
            pieces.push(SourceSlice { source: Arc::new(source), columns: columns.clone(), ..piece.clone() });
        }
        Ok(Dataset::from_slices(schema.clone(), pieces))
    }
}
