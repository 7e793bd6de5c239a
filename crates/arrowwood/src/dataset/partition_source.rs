//! The rows of a source, with a partition's columns, which are not in its files.

use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};

use super::adapter::Adapter;
use super::constant::ConstantColumn;
use super::dataset::Dataset;
use super::source::{Facts, Source, SourceSlice};
use crate::error::{Error, Result};

/// The rows of a source, followed by columns that have one value each.
#[derive(Debug)]
struct PartitionSource {
    stored: Arc<dyn Source>,
    schema: SchemaRef,
    constants: Arc<[ConstantColumn]>,
    /// The arrays of the constants, batch by batch.
    arrays: OnceLock<Box<[OnceLock<ArrayData>]>>,
}

impl PartitionSource {
    fn stored_columns(&self) -> usize {
        self.stored.schema().fields().len()
    }
}

fn no_column(batch: usize, column: usize) -> Error {
    Error::invalid_argument(format!("batch {batch}, column {column}"))
}

impl Adapter for PartitionSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn stored(&self) -> &dyn Source {
        self.stored.as_ref()
    }

    fn stored_column(&self, column: usize) -> Option<usize> {
        (column < self.stored_columns()).then_some(column)
    }

    /// Returns the constant column number `column`, counted from the first column of the source.
    fn derived_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        debug_assert!(column >= self.stored_columns(), "column {column} is stored");
        let number = column - self.stored_columns();
        let constant = self.constants.get(number).ok_or_else(|| no_column(batch, column))?;
        let arrays = match self.arrays.get() {
            Some(arrays) => arrays,
            None => {
                let count = self.stored.num_batches()? * self.constants.len();
                self.arrays.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect())
            }
        };
        let array = arrays.get(batch * self.constants.len() + number).ok_or_else(|| no_column(batch, column))?;
        if let Some(array) = array.get() {
            return Ok(array);
        }
        let span = self.stored.span(batch)?.ok_or_else(|| no_column(batch, column))?;
        let constants = constant.array_with_len((span.end - span.start) as usize)?;
        Ok(array.get_or_init(|| constants))
    }

    fn derived_dictionary(&self, column: usize) -> Option<&ArrayData> {
        self.constants.get(column - self.stored_columns())?.dictionary()
    }

    /// Returns 0: batches share the arrays of a constant, which are not copies of data in a file.
    fn derived_bytes(&self) -> u64 {
        0
    }

    fn constants(&self) -> &[ConstantColumn] {
        &self.constants
    }

    fn facts(&self) -> Facts<'_> {
        self.stored.facts()
    }
}

impl Dataset {
    /// Returns the dataset with `constants` after its columns, which must be all columns of its sources, in order.
    pub(crate) fn with_constants(&self, constants: &Arc<[ConstantColumn]>) -> Dataset {
        let schema = append_fields(self.schema(), constants.iter().map(ConstantColumn::field));
        let columns: Arc<[usize]> = (0..schema.fields().len()).collect();
        let mut pieces = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let stored_columns = piece.source.schema().fields().len();
            assert_eq!(stored_columns, self.num_columns(), "a dataset of some columns of its sources");
            let source = PartitionSource {
                stored: piece.source.clone(),
                schema: schema.clone(),
                constants: constants.clone(),
                arrays: OnceLock::new(),
            };
            pieces.push(SourceSlice { source: Arc::new(source), columns: columns.clone(), ..piece.clone() });
        }
        Dataset::from_slices(schema, pieces)
    }
}

/// Returns `schema` with the fields `more` after its own.
pub(crate) fn append_fields<'a>(schema: &'a Schema, more: impl Iterator<Item = &'a FieldRef>) -> SchemaRef {
    let fields: Fields = schema.fields().iter().chain(more).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
