//! Collects rows in memory, laid out as a segment without a file. The buffers never move while they grow, and `finish`
//! makes arrays of them in place. **Fence**: these arrays are trusted without a check.
#![allow(unsafe_code)]

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_data::ArrayData;
use arrow_schema::{FieldRef, SchemaRef};

use super::append::{IncomingRows, batch_arrays};
use super::append_row::{check_values, has_room, intern_keys, put_row};
use super::arrays::{self, Bitmaps};
use super::dictionary_entries::DictionaryEntries;
use super::plan::{MOST_IN_MEMORY, Plan, PlanDictionary, PlanNode, Storage};
use super::sink::{FillState, RowSink};
use crate::array::{Bytes, Value, require_little_endian, to_array};
use crate::dataset::Dataset;
use crate::error::{Error, Result, catch_panic};
use crate::map::{ChangeCheck, GrowableBuffer, guard};

/// A builder of one contiguous record batch in memory, from rows, batches and datasets.
///
/// Supports the column types of [`Writer`](crate::Writer). Begins a new batch after 2 GiB of text in one column, unless
/// its offsets have 64 bits.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_schema::{DataType, Field, Schema};
/// # use arrowwood::{DatasetBuilder, Value};
/// let fields = vec![Field::new("n", DataType::Int64, false), Field::new("text", DataType::Utf8, true)];
/// let mut builder = DatasetBuilder::new(Arc::new(Schema::new(fields)))?;
/// builder.append_row(&[Value::Int(5), Value::Str("five")])?;
/// builder.append_row(&[Value::Int(6), Value::Null])?;
/// let dataset = builder.finish()?;
/// assert_eq!((dataset.len()?, dataset.num_batches()?), (2, 1));
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub struct DatasetBuilder {
    schema: SchemaRef,
    /// The batch that grows.
    live: BatchBuffers,
    /// The maximum of each counter of a batch.
    limits: Vec<u64>,
    /// The dictionaries, which all batches share: each batch has a prefix of their entries.
    entries: Vec<DictionaryEntries>,
    /// Full batches.
    done: Vec<RecordBatch>,
    done_rows: u64,
    /// Memory for the dictionary keys of one row, which saves allocations.
    row_keys: Vec<u32>,
    /// The error after which nothing more can be appended.
    broken: Option<Error>,
}

/// Shows the columns and the number of rows.
impl fmt::Debug for DatasetBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DatasetBuilder");
        shown.field("schema", &self.schema).field("rows", &self.rows()).finish_non_exhaustive()
    }
}

impl DatasetBuilder {
    /// Creates an empty builder.
    ///
    /// # Errors
    /// `Unsupported`, naming the column, for types that a table can't store.
    pub fn new(schema: SchemaRef) -> Result<DatasetBuilder> {
        let plan = Arc::new(Plan::for_schema(&schema)?);
        let limits = plan.limits_in_memory();
        let entries = plan.dictionaries.iter().map(PlanDictionary::new_entries).collect();
        let live = BatchBuffers::new(plan)?;
        Ok(DatasetBuilder {
            schema,
            live,
            limits,
            entries,
            done: Vec::new(),
            done_rows: 0,
            row_keys: Vec::new(),
            broken: None,
        })
    }

    /// Returns the schema of the rows that are collected.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows appended so far.
    pub fn rows(&self) -> u64 {
        self.done_rows + self.live.now.rows()
    }

    /// Appends the rows of a batch. Columns are matched by name.
    ///
    /// # Errors
    /// `SchemaMismatch` or `InvalidArgument`, naming the column and the row; nothing is appended then. `Io` if memory
    /// runs out.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.stop_at_panic(|builder| builder.append_arrays(schema.fields(), &batch_arrays(batch), batch.num_rows()))
    }

    /// Appends all rows of a dataset, batch by batch.
    ///
    /// # Errors
    /// As [`DatasetBuilder::append`], and for reading the dataset. Batches before the failed one stay appended.
    pub fn append_dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.check()?;
        self.stop_at_panic(|builder| dataset.with_change_check(ChangeCheck::Now, || builder.append_parts(dataset)))
    }

    fn append_parts(&mut self, dataset: &Dataset) -> Result<()> {
        for part in dataset.parts() {
            let part = part?;
            self.append_arrays(dataset.schema().fields(), &part.columns()?, part.rows.len())?;
        }
        Ok(())
    }

    /// Appends one row: a value for each column, as for [`Writer::append_row`](crate::Writer::append_row).
    ///
    /// # Errors
    /// `InvalidArgument`, naming the column, for a value of another type or out of range, or a null in a column
    /// declared without nulls; nothing is appended then. `Io` if memory runs out. `Internal` for a failed assertion, a
    /// bug of this library, in this method or any other; then nothing more can be appended.
    pub fn append_row(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.check()?;
        self.stop_at_panic(|builder| builder.put_row(row))
    }

    /// Appends a row to the batch that grows, or to a new one if it has no room.
    fn put_row(&mut self, row: &[Value<'_>]) -> Result<()> {
        let plan = self.live.plan.clone();
        let mut keys = std::mem::take(&mut self.row_keys);
        let put = guard(|| {
            check_values(&plan, row)?;
            intern_keys(&plan, &mut self.entries, row, &mut keys)?;
            if !self.has_room(&plan, row, &keys) {
                self.roll()?;
                if !self.has_room(&plan, row, &keys) {
                    return Err(too_large());
                }
            }
            put_row(&mut self.live, &plan, &self.entries, row, &keys)
        });
        self.row_keys = keys;
        if put.is_err() {
            // Values of a row that was not appended would take the keys of others. Full batches have dictionaries of
            // their own.
            let known: Vec<usize> =
                plan.dictionaries.iter().map(|own| self.live.now.counters[own.entries] as usize).collect();
            forget(&mut self.entries, &known);
        }
        put
    }

    fn has_room(&self, plan: &Plan, row: &[Value<'_>], keys: &[u32]) -> bool {
        has_room(plan, &self.entries, row, keys, &self.live.now.counters, &self.limits)
    }

    /// Appends `rows` rows of columns, which are matched by name. If that fails, nothing is appended, unless a batch
    /// was finished meanwhile.
    pub(super) fn append_arrays(&mut self, fields: &[FieldRef], arrays: &[ArrayData], rows: usize) -> Result<()> {
        self.check()?;
        if self.rows().saturating_add(rows as u64) > MOST_IN_MEMORY {
            return Err(Error::invalid_argument("more than 2^63 rows"));
        }
        let before = self.live.now.clone();
        let known: Vec<usize> = self.entries.iter().map(DictionaryEntries::len).collect();
        let incoming = guard(|| IncomingRows::new(&self.live.plan, fields, arrays, rows, &mut self.entries));
        let incoming = incoming.inspect_err(|_| forget(&mut self.entries, &known))?;
        let batches = self.done.len();
        let written = guard(|| self.write(&incoming));
        if let Err(e) = &written {
            if batches != self.done.len() {
                // Rows in a full batch can't be removed again.
                self.broken = Some(e.clone());
            } else if self.broken.is_none() {
                self.live.now = before;
                forget(&mut self.entries, &known);
            }
        }
        written
    }

    /// Writes rows into the batch that grows, and begins new ones as needed.
    fn write(&mut self, incoming: &IncomingRows) -> Result<()> {
        let plan = self.live.plan.clone();
        let mut from = 0;
        while from < incoming.rows {
            let room = incoming.rows_that_fit(&plan, from, &self.live.now.counters, &self.limits, &self.entries)?;
            if room == 0 {
                self.roll()?;
                continue;
            }
            incoming.write(from..from + room, &mut self.live, &self.entries)?;
            from += room;
        }
        Ok(())
    }

    /// Finishes the batch and begins a new one.
    fn roll(&mut self) -> Result<()> {
        if self.live.now.rows() == 0 {
            return Err(too_large());
        }
        let next = BatchBuffers::new(self.live.plan.clone())?;
        let full = std::mem::replace(&mut self.live, next);
        let rows = full.now.rows();
        let finished = full.finish(&self.schema);
        // On failure the rows of the batch are lost.
        self.done.push(finished.inspect_err(|e| self.broken = Some(e.clone()))?);
        self.done_rows += rows;
        Ok(())
    }

    /// Returns the error after which nothing more can be appended.
    fn check(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Runs the body of a public method. A panic in it, a failed assertion, becomes the error of this call and of all
    /// later ones.
    #[inline]
    fn stop_at_panic(&mut self, body: impl FnOnce(&mut DatasetBuilder) -> Result<()>) -> Result<()> {
        match catch_unwind(AssertUnwindSafe(|| body(self))) {
            Ok(result) => result,
            Err(panic) => Err(self.broken.insert(Error::from_panic(&*panic)).clone()),
        }
    }

    /// Returns the rows as a dataset over the same memory, without a copy.
    ///
    /// # Errors
    /// The error that an earlier append failed with and that lost rows.
    pub fn finish(mut self) -> Result<Dataset> {
        self.check()?;
        catch_panic(|| {
            if self.live.now.rows() > 0 || self.done.is_empty() {
                self.done.push(self.live.finish(&self.schema)?);
            }
            Dataset::from_batches(self.schema, self.done)
        })
    }
}

fn too_large() -> Error {
    Error::invalid_argument("a single row is larger than its column's type can hold")
}

/// Leaves `known` values in each dictionary: values of rows that were refused would take the keys of others.
fn forget(entries: &mut [DictionaryEntries], known: &[usize]) {
    entries.iter_mut().zip(known).for_each(|(entries, &known)| entries.truncate(known));
}

/// The buffers of one batch.
#[derive(Debug)]
pub(super) struct BatchBuffers {
    pub plan: Arc<Plan>,
    pub now: FillState,
    buffers: Vec<GrowableBuffer>,
    scratch: Vec<u8>,
}

impl BatchBuffers {
    pub fn new(plan: Arc<Plan>) -> Result<BatchBuffers> {
        require_little_endian("building arrays")?;
        let now = FillState { counters: vec![0; plan.counters], tails: vec![0; plan.regions] };
        let buffers = (0..plan.regions).map(|_| GrowableBuffer::new()).collect();
        let mut gathered = BatchBuffers { plan: plan.clone(), now, buffers, scratch: Vec::new() };
        // Offsets begin with a 0, which belongs to no row.
        let mut starts = Vec::new();
        let mut visit = |node: &PlanNode| match node.kind {
            Storage::Bytes { width, .. } | Storage::List { width, .. } => starts.push((node.values_region(), width)),
            _ => (),
        };
        plan.columns.iter().for_each(|column| column.each(&mut visit));
        plan.dictionaries.iter().for_each(|dictionary| dictionary.values.each(&mut visit));
        starts.into_iter().try_for_each(|(region, width)| gathered.put(region, 0, &[0; 8][..width]))?;
        Ok(gathered)
    }

    /// Returns the columns, in place and unchecked.
    pub fn arrays(self) -> Result<Vec<ArrayData>> {
        let BatchBuffers { plan, now, buffers, .. } = self;
        let parts: Vec<Bytes> = buffers.into_iter().map(Bytes::from).collect();
        let part = |region: usize, len: u64| parts[region].slice(0, usize::try_from(len).ok()?);
        let column = |node| arrays::column(&plan, node, now.rows(), &now.counters, &part, Bitmaps::WithNulls);
        let columns = plan.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        if cfg!(debug_assertions) {
            columns.iter().try_for_each(|column| column.check(&[]).map_err(Error::internal))?;
        }
        // SAFETY: the buffers are written only by `IncomingRows::write` and `put_row`. Those copy values of arrays that
        // are checked, which is what an `ArrayData` is, and text that is a `&str`; they count offsets, keys, nulls and
        // bytes themselves, from 0 on and in step, and the lengths of the arrays are these counts.
        Ok(columns.into_iter().map(|column| unsafe { column.assume_checked() }).collect())
    }

    pub fn finish(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = self.now.rows() as usize;
        batch(schema, rows, self.arrays()?)
    }
}

impl RowSink for BatchBuffers {
    fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    #[inline]
    fn fill_state(&mut self) -> &mut FillState {
        &mut self.now
    }

    fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    #[inline]
    fn put(&mut self, region: usize, at: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.buffers[region].put(at as usize, bytes)?)
    }
}

/// Makes a record batch of checked arrays.
pub(super) fn batch(schema: &SchemaRef, rows: usize, arrays: Vec<ArrayData>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = arrays.into_iter().map(to_array).collect();
    let made = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
    made.map_err(|e| Error::invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::error::ErrorKind;

    fn builder(data_type: &DataType) -> DatasetBuilder {
        let field = |name| Field::new(name, data_type.clone(), true);
        DatasetBuilder::new(Arc::new(Schema::new(vec![field("a"), field("b")]))).unwrap()
    }

    /// After other rows, such a row began a new batch, in which its offset didn't fit.
    #[test]
    fn rows_too_large_for_a_batch_are_rejected_after_other_rows() {
        for data_type in [DataType::Utf8, DataType::Utf8View] {
            let mut builder = builder(&data_type);
            let limit = 20;
            builder.limits[1..].fill(limit);
            let too_long = "x".repeat(limit as usize + 1);
            for rows in 0..2 {
                let e = builder.append_row(&[Value::Null, Value::Str(&too_long)]).unwrap_err();
                assert!(e.message().contains("larger than its column"), "{e}");
                assert_eq!(builder.rows(), rows);
                builder.append_row(&[Value::Str("short"), Value::Str(&too_long[1..])]).unwrap();
            }
            let built = builder.finish().unwrap();
            assert_eq!((built.len().unwrap(), built.column("b").unwrap().null_count().unwrap()), (2, 0));
        }
    }

    /// Each rejected row took a key in the column that wasn't full.
    #[test]
    fn rejected_rows_take_no_dictionary_keys() {
        let mut builder = builder(&DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)));
        let texts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        for text in &texts[..128] {
            builder.append_row(&[Value::Str("0"), Value::Str(text)]).unwrap();
        }
        for text in &texts[128..] {
            builder.append_row(&[Value::Str(text), Value::Str(text)]).unwrap_err();
        }
        for text in &texts[..128] {
            builder.append_row(&[Value::Str(text), Value::Str("0")]).unwrap();
        }
        assert_eq!(builder.finish().unwrap().len().unwrap(), 256);
    }

    #[test]
    fn calls_after_a_failed_assertion_return_its_error() {
        let mut builder = builder(&DataType::Int64);
        builder.append_row(&[Value::Int(1), Value::Null]).unwrap();
        // The internal state lacks a counter.
        builder.live.now.counters.truncate(1);
        let row = [Value::Int(2), Value::Null];
        for _ in 0..2 {
            let e = builder.append_row(&row).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Internal, "{e}");
        }
        let batch = RecordBatch::new_empty(builder.schema().clone());
        assert_eq!(builder.append(&batch).unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(builder.finish().unwrap_err().kind(), ErrorKind::Internal);
    }
}
