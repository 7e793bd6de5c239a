//! Arrays in memory as a [`Dataset`].

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::constant::ConstantColumn;
use super::dataset::{Dataset, schema_difference};
use super::source::{Batches, Facts, Footprint, Source, ViewSource};
#[cfg(feature = "compute")]
use super::zone::Zones;
use crate::array::{LazyCheckedArray, UncheckedArray, require_little_endian};
use crate::error::{Error, ErrorKind, Result};
use crate::map::ChangeCheck;

/// Arrays in memory as a source.
#[derive(Debug)]
struct MemorySource {
    schema: SchemaRef,
    /// The columns of each batch.
    batches: Vec<Vec<LazyCheckedArray>>,
    /// The row after each batch's last.
    ends: Vec<u64>,
}

impl MemorySource {
    fn new<A: Into<LazyCheckedArray>>(schema: SchemaRef, batches: Vec<(usize, Vec<A>)>) -> MemorySource {
        let mut source = MemorySource { schema, batches: Vec::with_capacity(batches.len()), ends: Vec::new() };
        let mut end = 0;
        for (rows, columns) in batches {
            assert_eq!(columns.len(), source.schema.fields().len(), "a column for each field");
            end += rows as u64;
            source.ends.push(end);
            source.batches.push(columns.into_iter().map(Into::into).collect());
        }
        source
    }

    fn array(&self, batch: usize, column: usize) -> Result<&LazyCheckedArray> {
        let array = self.batches.get(batch).and_then(|columns| columns.get(column));
        array.ok_or_else(|| Error::invalid_argument(format!("batch {batch}, column {column}")))
    }
}

impl Batches for MemorySource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn count_until(&self, _until: u64) -> Result<u64> {
        Ok(self.ends.last().map_or(0, |&end| end))
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(self.batches.len())
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        let Some(&end) = self.ends.get(batch) else { return Ok(None) };
        let start = batch.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(Some(start..end))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        let batch = self.ends.partition_point(|&end| end <= row);
        Ok((batch < self.ends.len()).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.locate_by_len(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        Ok(self.array(batch, column)?.unchecked())
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        // Arrays made by this crate are right, so an error is the fault of the caller who passed the array.
        self.array(batch, column)?.checked(|| Ok(Vec::new())).map_err(|e| {
            Error::invalid_argument(format!("column '{}': {}", self.schema.field(column).name(), e.message()))
        })
    }

    /// Checks arrays even if their values are trusted otherwise.
    fn validate_column(&self, batch: usize, column: usize) -> Result<()> {
        self.column(batch, column)?.check(&[])
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn check_unchanged(&self, _batches: Range<usize>, _when: ChangeCheck) -> Result<()> {
        Ok(())
    }

    fn resident(&self) -> Result<u64> {
        Ok(0)
    }
}

impl Source for MemorySource {
    fn facts(&self) -> Facts<'_> {
        Facts::default()
    }

    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn view(&self) -> Option<&dyn ViewSource> {
        None
    }

    fn adapted(&self) -> Option<&dyn Source> {
        None
    }

    fn adapted_column(&self, _column: usize) -> Option<usize> {
        None
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, _column: usize) -> bool {
        false
    }

    #[cfg(feature = "compute")]
    fn zones(&self, _batch: usize, _column: usize) -> Result<Option<Zones>> {
        Ok(None)
    }
}

impl Dataset {
    /// Creates a dataset of batches of `schema`, each with its number of rows and its columns, whose values are
    /// checked.
    pub(crate) fn from_arrays(schema: SchemaRef, batches: Vec<(usize, Vec<ArrayData>)>) -> Dataset {
        Dataset::from_source(Arc::new(MemorySource::new(schema, batches)))
    }

    /// As [`from_arrays`](Dataset::from_arrays), with values that are checked when they are first used.
    pub(crate) fn from_unchecked(schema: SchemaRef, batches: Vec<(usize, Vec<UncheckedArray>)>) -> Dataset {
        Dataset::from_source(Arc::new(MemorySource::new(schema, batches)))
    }
}

impl TryFrom<Vec<RecordBatch>> for Dataset {
    type Error = Error;

    /// Creates a dataset of the batches, without copying. There must be at least one, all with the same schema.
    fn try_from(batches: Vec<RecordBatch>) -> Result<Dataset> {
        let schema = batches.first().map(RecordBatch::schema);
        let schema = schema.ok_or_else(|| Error::invalid_argument("no record batch, so no schema"))?;
        Dataset::from_batches(schema, batches)
    }
}

/// # Record batches in memory
impl Dataset {
    /// Creates a dataset of `batches` of `schema`, without copying. `batches` may be empty.
    ///
    /// # Errors
    /// `SchemaMismatch` with the first difference if a batch has another schema.
    pub fn from_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Dataset> {
        require_little_endian("reading record batches")?;
        let mut parts = Vec::with_capacity(batches.len());
        for batch in &batches {
            if let Some(difference) = schema_difference(&schema, &batch.schema()) {
                let message = format!("a batch has another schema than the dataset: {difference}");
                return Err(Error::new(ErrorKind::SchemaMismatch, message));
            }
            let columns = batch.columns().iter().map(|column| column.to_data()).collect();
            parts.push((batch.num_rows(), columns));
        }
        Ok(Dataset::from_arrays(schema, parts))
    }
}
