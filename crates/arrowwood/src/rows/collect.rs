//! Copies many batches into one, with all threads; each column gets memory of its own.
//!
//! The positions of fixed-width values are known in advance, so rows are divided into blocks that the threads take in
//! turn; a page is first touched by the thread that copies into it. Text, lists and other types are appended column by
//! column, by the code that appends to tables.
//!
//! Each thread has slices of its own to copy into. What threads share is a flag for each column, which is set when a
//! null was found. It is stored relaxed: while they copy, threads only use it to stop early, and the caller reads it
//! after all threads have ended.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{Array, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, Schema};

use super::append::IncomingRows;
use super::builder::{BatchBuffers, batch};
use super::plan::{Plan, PlanDictionary};
use crate::array::gather::{Pick, gather_column};
use crate::array::{
    ArrayParts, Bytes, StableCopies, UncheckedArray, fits_one_array, keys_suffice, require_little_endian, room_for,
    room_for_bits, slice, to_array,
};
use crate::dataset::{BatchIndex, BatchSlice, Dataset, FixedWidthValues, SourceSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSource, ReadOptions, WriteOptions, write_to};
use crate::map::{ChangeCheck, GrowableBuffer, copy_nontemporal, store_fence};
use crate::parallel;
use crate::types::layout;

/// The number of bytes that a thread copies at a time.
const BLOCK: usize = 1 << 20;
/// Copies of more bytes than this have left the caches before they are read: they are stored past the caches.
const BEYOND_CACHES: usize = 32 << 20;

/// # Copies in memory
impl Dataset {
    /// Copies all rows into one record batch in memory.
    ///
    /// A dataset of one batch is returned as it is, unless it holds the rows that it was filtered from. More than 2 GiB
    /// of text in one column takes several batches, unless its offsets have 64 bits.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value, `Io` if memory runs out, `Unsupported` if the batches' dictionaries can't be
    /// merged.
    pub fn collect(&self) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Now, || collect(self))
    }

    /// Copies columns of fixed width, column after column, into one buffer.
    ///
    /// `None` if a column has nulls or a width other than `width` bytes.
    ///
    /// # Errors
    /// The errors of [`Dataset::collect`].
    pub fn to_column_major(&self, width: usize) -> Result<Option<GrowableBuffer>> {
        self.with_change_check(ChangeCheck::Now, || column_major(self, width))
    }
}

/// See [`Dataset::collect`].
fn collect(dataset: &Dataset) -> Result<Dataset> {
    require_little_endian("copying rows")?;
    let rows = BatchRows::try_new(dataset)?;
    if rows.index.len() < 2 && !dataset.retains_other_rows() {
        return Ok(dataset.clone());
    }
    if rows.count == 0 {
        return Dataset::try_from(vec![RecordBatch::new_empty(dataset.schema().clone())]);
    }
    let fields = dataset.schema().fields();
    let widths = (0..fields.len()).map(|column| rows.width(column, fields[column].data_type()));
    let widths = widths.collect::<Result<Vec<_>>>()?;
    let (fixed, rest): (Vec<usize>, Vec<usize>) = (0..fields.len()).partition(|&column| widths[column].is_some());
    let fixed = fixed.into_iter().filter_map(|column| Some(CopiedColumn { column, width: widths[column]? }));
    let fixed: Vec<CopiedColumn> = fixed.collect();
    let buffers = fixed.iter().map(|copied| uninit_buffer(rows.count, copied.width));
    let mut buffers = buffers.collect::<Result<Vec<_>>>()?;
    let copying = ColumnCopy::new(&fixed, fields.len());
    rows.copy(&copying, buffers.iter_mut().map(GrowableBuffer::as_mut_slice).collect())?;
    let mut values: Vec<Option<Buffer>> = vec![None; fields.len()];

    for (&CopiedColumn { column, width }, buffer) in fixed.iter().zip(buffers) {
        let whole = Bytes::from(buffer).slice(0, rows.count * width);
        values[column] = Some(whole.ok_or_else(|| Error::internal("a buffer is shorter than it was made"))?);
    }
    let bytes = usize::try_from(dataset.select_at(&rest)?.nbytes()?).unwrap_or(usize::MAX);
    let columns = (0..fields.len()).map(Ok::<_, Error>);
    let weight = bytes / fields.len().max(1);
    let make = |column: usize| match &values[column] {
        Some(values) => rows.fixed(column, values.clone(), fields[column].data_type(), copying.met_nulls(column)),
        None => rows.gathered(column, &fields[column]),
    };
    let arrays = parallel::try_map(columns, bytes, |_| weight, make, || ())?;

    match arrays.into_iter().collect::<Option<Vec<_>>>() {
        Some(arrays) => {
            Dataset::from_batches(dataset.schema().clone(), vec![batch(dataset.schema(), rows.count, arrays)?])
        }
        // More text than 32-bit offsets can address: make two batches.
        None => {
            let all = rows.count as u64;
            let half = all / 2;
            Dataset::concat(&[collect(&dataset.slice(0, half)?)?, collect(&dataset.slice(half, all - half)?)?])
        }
    }
}

/// See [`Dataset::to_column_major`].
fn column_major(dataset: &Dataset, width: usize) -> Result<Option<GrowableBuffer>> {
    require_little_endian("copying values")?;
    let rows = BatchRows::try_new(dataset)?;
    let columns: Vec<_> = (0..dataset.num_columns()).map(|column| CopiedColumn { column, width }).collect();
    if dataset.schema().fields().iter().any(|field| fixed_width(field.data_type()) != Some(width)) {
        return Ok(None);
    }
    let mut buffer = uninit_buffer(rows.count, width * columns.len())?;
    let slices = buffer.as_mut_slice().chunks_mut(rows.count.saturating_mul(width).max(1)).collect();
    let copying = ColumnCopy { until_nulls: true, ..ColumnCopy::new(&columns, columns.len()) };
    rows.copy(&copying, slices)?;
    Ok((!copying.is_over()).then_some(buffer))
}

/// Returns a buffer for `rows` values of `width` bytes, with arbitrary contents.
fn uninit_buffer(rows: usize, width: usize) -> Result<GrowableBuffer> {
    let len =
        rows.checked_mul(width).ok_or_else(|| Error::invalid_argument(format!("{rows} rows of {width} bytes")))?;
    Ok(GrowableBuffer::with_len(len)?)
}

/// Returns the bytes per row of a type whose only buffer, apart from validity, holds fixed-width values.
pub(super) fn fixed_width(data_type: &DataType) -> Option<usize> {
    let is_dictionary = matches!(data_type, DataType::Dictionary(..));
    layout(data_type).plain_width().filter(|_| !is_dictionary)
}

/// Returns the values of an array of fixed width.
fn decoded(array: &ArrayData, width: usize) -> FixedWidthValues<'_> {
    let values = array.buffers().first().and_then(|values| values.get(array.offset() * width..));
    FixedWidthValues { values: values.unwrap_or_default(), has_nulls: array.nulls().is_some() }
}

/// The rows of a dataset, batch by batch.
struct BatchRows<'a> {
    pieces: &'a [SourceSlice],
    index: &'a BatchIndex,
    count: usize,
}

/// A column whose values are copied as bytes.
#[derive(Clone, Copy)]
struct CopiedColumn {
    /// Its number in the dataset.
    column: usize,
    /// The bytes of a value.
    width: usize,
}

/// The copying of columns, by several threads.
struct ColumnCopy<'a> {
    columns: &'a [CopiedColumn],
    /// For each column of the dataset: true if a null was found in it.
    nulls: Vec<AtomicBool>,
    /// True to stop at the first null.
    until_nulls: bool,
}

impl ColumnCopy<'_> {
    /// Creates the copying of some columns of a dataset, which has `num_columns`.
    fn new(columns: &[CopiedColumn], num_columns: usize) -> ColumnCopy<'_> {
        ColumnCopy { columns, nulls: (0..num_columns).map(|_| AtomicBool::new(false)).collect(), until_nulls: false }
    }

    /// Returns true if a null was found in a column.
    fn met_nulls(&self, column: usize) -> bool {
        self.nulls[column].load(Ordering::Relaxed)
    }

    /// Returns true if a null was found and the copying stops then.
    fn is_over(&self) -> bool {
        self.until_nulls && self.nulls.iter().any(|met| met.load(Ordering::Relaxed))
    }
}

/// The rows of a block, and the destination of each column.
struct CopyBlock<'a> {
    rows: Range<usize>,
    into: Vec<&'a mut [u8]>,
}

impl<'a> BatchRows<'a> {
    fn try_new(dataset: &'a Dataset) -> Result<BatchRows<'a>> {
        let index = dataset.index()?;
        let count =
            usize::try_from(index.rows()).map_err(|_| Error::unsupported("more rows than there are addresses"))?;
        Ok(BatchRows { pieces: dataset.pieces(), index, count })
    }

    fn part(&self, number: usize) -> BatchSlice<'a> {
        self.index.part(self.pieces, number)
    }

    fn parts(&self) -> impl Iterator<Item = BatchSlice<'a>> {
        (0..self.index.len()).map(|number| self.part(number))
    }

    fn array(&self, part: usize, column: usize) -> Result<&'a ArrayData> {
        let part = self.part(part);
        part.checked(part.piece.columns[column])
    }

    /// Returns the bytes per row of a column that can be copied as bytes. That includes dictionary keys if all batches
    /// share one dictionary.
    fn width(&self, column: usize, data_type: &DataType) -> Result<Option<usize>> {
        let DataType::Dictionary(key, _) = data_type else { return Ok(fixed_width(data_type)) };
        let values = |part| self.array(part, column).map(|array| array.child_data().first());
        let Some(first) = values(0)? else { return Ok(None) };
        for part in 1..self.index.len() {
            if values(part)?.is_none_or(|values| !values.ptr_eq(first)) {
                return Ok(None);
            }
        }
        Ok(key.primitive_width())
    }

    /// Copies the values of columns into `into`, one slice for each column.
    fn copy(&self, copying: &ColumnCopy<'_>, into: Vec<&mut [u8]>) -> Result<()> {
        let per_row: usize = copying.columns.iter().map(|copied| copied.width).sum();
        // Values without bytes are only looked at batch by batch: they may be any number.
        let step = BLOCK.checked_div(per_row).unwrap_or(self.count).max(1);
        let mut rest = into;
        let blocks = (0..self.count).step_by(step).map(|start| {
            let rows = start..(start + step).min(self.count);
            let mut into = Vec::with_capacity(rest.len());
            for (slice, copied) in rest.iter_mut().zip(copying.columns) {
                let (front, back) = std::mem::take(slice).split_at_mut(rows.len() * copied.width);
                into.push(front);
                *slice = back;
            }
            Ok(CopyBlock { rows, into })
        });
        let weight = |block: &CopyBlock<'_>| block.rows.len() * per_row;
        let copy = if self.count * per_row > BEYOND_CACHES { copy_nontemporal } else { <[u8]>::copy_from_slice };
        let work = |block| self.copy_block(copying, block, copy).map(|()| store_fence());
        parallel::try_map(blocks, self.count * per_row, weight, work, || ()).map(drop)
    }

    fn copy_block(&self, copying: &ColumnCopy<'_>, mut block: CopyBlock<'_>, copy: fn(&mut [u8], &[u8])) -> Result<()> {
        let mut at = block.rows.start;
        let first = self.index.locate(at as u64, 0);
        let mut part = first.ok_or_else(|| Error::internal(format_args!("row {at} is in no batch")))?;
        let mut found = Vec::with_capacity(copying.columns.len());

        while at < block.rows.end && !copying.is_over() {
            let inside = at - self.index.start(part) as usize;
            let rows = self.index.rows_of(part);
            let len = (rows.len() - inside).min(block.rows.end - at);
            let start = rows.start + inside;
            self.plain(part, copying.columns, &mut found)?;
            for ((into, &CopiedColumn { column, width }), plain) in
                block.into.iter_mut().zip(copying.columns).zip(found.iter().flatten())
            {
                let values = plain.values.get(start * width..(start + len) * width);
                let values = values.ok_or_else(|| Error::invalid("fewer values than rows"))?;
                let (front, back) = std::mem::take(into).split_at_mut(values.len());
                copy(front, values);
                *into = back;
                if plain.has_nulls && (!copying.until_nulls || self.nulls(part, column)?.is_some()) {
                    copying.nulls[column].store(true, Ordering::Relaxed);
                }
            }
            at += len;
            part += 1;
        }

        Ok(())
    }

    /// Finds the values of columns in a part's batch.
    fn plain(
        &self,
        part: usize,
        columns: &[CopiedColumn],
        found: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let BatchSlice { piece, batch, rows } = self.part(part);
        found.clear();
        let mut own = columns.iter().map(|copied| (piece.columns[copied.column], copied.width));
        piece.source.fixed_width_values(batch, rows.end, &mut own, false, found)?;
        if found.len() != columns.len() {
            let got = found.len();
            return Err(Error::internal(format_args!("values of {got} columns, asked for {}", columns.len())));
        }
        for (plain, &CopiedColumn { column, width }) in found.iter_mut().zip(columns) {
            if plain.is_none() {
                *plain = Some(decoded(self.array(part, column)?, width));
            }
        }
        Ok(())
    }

    /// Makes an array of a column from its copied values.
    fn fixed(&self, column: usize, values: Buffer, data_type: &DataType, met_nulls: bool) -> Result<Option<ArrayData>> {
        let known: Vec<&ArrayData> = match data_type {
            DataType::Dictionary(..) => self.array(0, column)?.child_data().iter().collect(),
            _ => Vec::new(),
        };
        let children = known.iter().map(|&values| UncheckedArray::from(values.clone())).collect();
        let data_type = data_type.clone();
        let len = self.count;
        let validity = if met_nulls { self.validity(column)? } else { None };
        let parts = ArrayParts { data_type, len, validity, buffers: vec![values], children };
        parts.assemble().checked(&known).map(Some)
    }

    /// Returns the validity of a part's rows; `None` if none of them is null.
    fn nulls(&self, part: usize, column: usize) -> Result<Option<NullBuffer>> {
        let Some(nulls) = self.array(part, column)?.nulls() else { return Ok(None) };
        let rows = self.index.rows_of(part);
        Ok(Some(nulls.slice(rows.start, rows.len())).filter(|nulls| nulls.null_count() > 0))
    }

    /// Returns the validity bitmap of a whole column, and its number of nulls; `None` if there are none.
    fn validity(&self, column: usize) -> Result<Option<(Buffer, usize)>> {
        let mut bits = room_for_bits(self.count)?;
        for (number, part) in self.parts().enumerate() {
            match self.nulls(number, column)? {
                Some(nulls) => bits.append_buffer(nulls.inner()),
                None => bits.append_n(part.rows.len(), true),
            }
        }
        let bits = bits.finish();
        let nulls = self.count - bits.count_set_bits();
        Ok((nulls > 0).then(|| (bits.into_inner(), nulls)))
    }

    /// Concatenates a column of any type; `None` if it doesn't fit into one array.
    fn gathered(&self, column: usize, field: &FieldRef) -> Result<Option<ArrayData>> {
        match self.appended(column, field) {
            Err(e) if e.kind() == ErrorKind::Unsupported => self.concatenated(column, field),
            // Ordered categories, and later batches have new ones between the categories of the first.
            Err(e) if e.kind() == ErrorKind::SchemaMismatch => in_turn(&self.arrays(column)?, field).map(Some),
            done => done,
        }
    }

    /// Concatenates a column by the code that appends to tables.
    fn appended(&self, column: usize, field: &FieldRef) -> Result<Option<ArrayData>> {
        let plan = Arc::new(Plan::for_schema(&Schema::new(vec![field.clone()]))?);
        let limits = plan.limits_in_memory();
        let mut entries: Vec<_> = plan.dictionaries.iter().map(PlanDictionary::new_entries).collect();
        let mut gathered = BatchBuffers::new(plan.clone())?;
        for part in self.parts() {
            let array = part.column(part.piece.columns[column])?;
            let fields = std::slice::from_ref(field);
            let incoming = IncomingRows::new(&plan, fields, &[array], part.rows.len(), &mut entries)?;
            if incoming.rows_that_fit(&plan, 0, &gathered.now.counters, &limits, &entries)? < part.rows.len() {
                return Ok(None);
            }
            incoming.write(0..part.rows.len(), &mut gathered, &entries)?;
        }
        let array = gathered.arrays()?.pop();
        array.map(Some).ok_or_else(|| Error::internal("a column was gathered into none"))
    }

    /// Returns the column's rows of each batch, which no longer change.
    fn arrays(&self, column: usize) -> Result<Vec<ArrayData>> {
        let mut steady = StableCopies::default();
        let arrays = self.parts().map(|part| {
            let whole = steady.stable_copy(UncheckedArray::from_ref(part.checked(part.piece.columns[column])?))?;
            Ok(slice(&whole, part.rows.start, part.rows.len()))
        });
        arrays.collect()
    }

    /// Concatenates a column of a type that tables don't support.
    fn concatenated(&self, column: usize, field: &FieldRef) -> Result<Option<ArrayData>> {
        let mut arrays = self.arrays(column)?;
        if !keys_suffice(&arrays.iter().collect::<Vec<_>>()) {
            arrays = with_one_dictionary(arrays, field)?;
        }
        if !keys_suffice(&arrays.iter().collect::<Vec<_>>()) {
            return in_turn(&arrays, field).map(Some);
        }
        if !fits_one_array(&arrays.iter().collect::<Vec<_>>(), false)? {
            return Ok(None);
        }
        let arrays: Vec<_> = arrays.into_iter().map(to_array).collect();
        let references: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        let whole = arrow_select::concat::concat(&references);
        whole
            .map(|whole| Some(whole.to_data()))
            .map_err(|e| Error::unsupported(format!("putting batches together: {e}")))
    }
}

/// Returns the rows of `arrays`, one after the other. This is slower than arrow-rs, which refuses dictionaries that
/// together have more values than keys can tell apart, even if no row has them.
fn in_turn(arrays: &[ArrayData], field: &FieldRef) -> Result<ArrayData> {
    let rows = arrays.iter().fold(0usize, |sum, array| sum.saturating_add(array.len()));
    let mut picks = room_for::<Pick>(rows as u64, "rows to put together")?;
    for (number, array) in (0..).zip(arrays) {
        picks.extend((0..array.len()).map(|row| (number, row)));
    }
    let from: Vec<&UncheckedArray> = arrays.iter().map(UncheckedArray::from_ref).collect();
    gather_column(field, &from, &picks)?.checked(&[])
}

/// Returns `arrays` with keys of one dictionary. To merge theirs, they are written as an IPC file, which has only one.
fn with_one_dictionary(arrays: Vec<ArrayData>, field: &FieldRef) -> Result<Vec<ArrayData>> {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let batches = arrays.into_iter().map(|array| (array.len(), vec![array])).collect();
    let mut file = GrowableBuffer::new();
    let written = write_to(&Dataset::from_arrays(schema, batches), &mut file, &WriteOptions::default());
    written.map_err(|e| Error::unsupported(format!("the dictionaries of several batches can't be made one: {e}")))?;
    let opened = Dataset::from_source(Arc::new(IpcSource::open(Bytes::from(file), None, ReadOptions::default())?));
    opened.parts().map(|part| part?.column(0)).collect()
}
