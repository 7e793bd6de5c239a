//! The rows of a source, with columns that are not in its files: those of a partition.

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
    /// The constants of each batch.
    made: OnceLock<Box<[OnceLock<ArrayData>]>>,
}

impl PartitionSource {
    fn stored_columns(&self) -> usize {
        self.stored.schema().fields().len()
    }
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

    /// The constant column number `column`, counted from the first column of the source.
    fn derived_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let missing = || Error::invalid_argument(format!("batch {batch}, column {column}"));
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
        let array = constant.array_with_len((span.end - span.start) as usize)?;
        Ok(place.get_or_init(|| array))
    }

    fn derived_dictionary(&self, column: usize) -> Option<&ArrayData> {
        self.constants.get(column - self.stored_columns())?.dictionary()
    }

    /// None: the columns are in no file.
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
    /// The dataset with `constants` after its columns, which must be all columns of its sources, in order.
    pub(crate) fn with_constants(&self, constants: &Arc<[ConstantColumn]>) -> Dataset {
        let schema = append_fields(self.schema(), constants.iter().map(ConstantColumn::field));
        let stored = self.num_columns();
        let widen = |piece: &SourceSlice| {
            debug_assert_eq!(piece.source.schema().fields().len(), stored, "a dataset of some columns of its sources");
            let constants = constants.clone();
            let source = PartitionSource {
                stored: piece.source.clone(),
                schema: schema.clone(),
                constants,
                made: OnceLock::new(),
            };
            let columns = (0..schema.fields().len()).collect();
            SourceSlice { source: Arc::new(source), columns, ..piece.clone() }
        };
        Dataset::from_slices(schema.clone(), self.pieces().iter().map(widen).collect())
    }
}

/// `schema` with more fields after its own.
pub(crate) fn append_fields<'a>(schema: &'a Schema, more: impl Iterator<Item = &'a FieldRef>) -> SchemaRef {
    let fields: Fields = schema.fields().iter().chain(more).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
