//! Rows in partitions by the hashes of their keys, where there are very many groups: the groups of a partition fit into the
//! cache of a thread, and as no group is in two partitions, threads have nothing to merge one after the other.
//!
//! Rows are taken in waves. First, each chunk of a wave is sorted by partition, with the columns that are needed; then each
//! partition groups its rows of all chunks, in their order. So the result depends only on the rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::block::ComputedColumns;
use super::groups::{GroupScratch, Groups, group, key_part, word_of_2, word_of_4};
use super::interner::{KeyPart, LONG, packed, with_len};
use super::state::{GroupState, StateKind, is_stored_as_integer};
use super::table::GroupTable;
use super::text_views::{ArraySpan, TextViewBuilder, VIEW, put};
use crate::array::access::{Texts, fixed_values, fixed_width};
use crate::array::{ArrayParts, build_buffer, slice};
use crate::compute::frame::Frame;
use crate::compute::select::{Mask, RowSelection};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::parallel;
use crate::types::is_text_or_binary;

/// The number of partitions, a power of two.
pub(super) const PARTITIONS: usize = 64;
/// The rows of a chunk.
pub(super) const CHUNK: usize = 1 << 16;

/// The most bytes and rows of a wave.
const WAVE_BYTES: usize = 1 << 28;
const WAVE_ROWS: usize = 1 << 23;

/// The columns that groups and their states need, by their numbers in the dataset.
pub(super) struct InputColumns {
    columns: Vec<usize>,
    keys: Vec<usize>,
    kinds: Vec<StateKind>,
    schema: SchemaRef,
    /// The dataset's schema.
    of: SchemaRef,
    /// Of one column of integers that lie close together: the bits behind those that tell the partition, so that the keys of a
    /// partition lie close together too.
    shift: Option<u32>,
}

/// A wave's rows in partitions.
pub(super) struct Wave<'w, 'a> {
    frame: &'w Frame<'a>,
    needed: &'w InputColumns,
    /// The wave's first row.
    start: u64,
    orders: Vec<ChunkOrder>,
    columns: Vec<WaveColumn>,
    /// The columns as they are in partitions.
    schema: SchemaRef,
    /// The most groups of a partition so far: others have about as many.
    expected: AtomicUsize,
}

/// A column in the order of each chunk.
enum WaveColumn {
    /// Of all chunks, each of which begins at a multiple of `CHUNK`.
    Whole(ArrayData),
    Chunks(Vec<ArrayData>),
    /// Texts where they are.
    Views(Vec<ArrayData>),
}

impl WaveColumn {
    fn rows(&self, chunk: usize, start: usize, len: usize) -> ArrayData {
        match self {
            WaveColumn::Whole(array) => slice(array, chunk * CHUNK + start, len),
            WaveColumn::Chunks(arrays) | WaveColumn::Views(arrays) => slice(&arrays[chunk], start, len),
        }
    }
}

impl InputColumns {
    pub(super) fn build(
        dataset: &Dataset,
        frame: &Frame<'_>,
        keys: &[usize],
        kinds: &[StateKind],
    ) -> Result<InputColumns> {
        let width = if let &[key] = keys { integers_width(frame, key)? } else { None };
        let shift = width.map(|width| (width / PARTITIONS + 1).next_power_of_two().ilog2());
        let mut columns: Vec<usize> = keys.iter().copied().chain(kinds.iter().filter_map(StateKind::column)).collect();
        columns.sort_unstable();
        columns.dedup();
        let place = |column: usize| {
            let lost = |_| Error::internal(format!("column {column} is none of those that groups need"));
            columns.binary_search(&column).map_err(lost)
        };
        let keys = keys.iter().map(|&key| place(key)).collect::<Result<_>>()?;
        let kinds = kinds.iter().map(|kind| kind.with_column(place)).collect::<Result<_>>()?;
        let fields = dataset.schema().fields();
        let schema = Arc::new(Schema::new(columns.iter().map(|&column| fields[column].clone()).collect::<Vec<_>>()));
        Ok(InputColumns { columns, keys, kinds, schema, of: dataset.schema().clone(), shift })
    }

    /// The rows of a wave: as many as take some memory, which a wave copies.
    pub(super) fn wave_rows(&self, dataset: &Dataset) -> usize {
        let bytes = |&column: &usize| dataset.column_at(column).map_or(0, |column| column.bytes_per_row());
        let row = self.columns.iter().map(bytes).sum::<usize>() + 16;
        (WAVE_BYTES / row).clamp(CHUNK, WAVE_ROWS)
    }

    /// The partition of each row of a block. `hashes` is memory for them, which other blocks have used.
    fn partitions(&self, frame: &Frame<'_>, block: usize, hashes: &mut Vec<u64>) -> Result<Vec<u8>> {
        let len = frame.spans(block).map(|(_, rows)| rows.len()).sum();
        let mut partitions = vec![0; len];
        if let (&[key], Some(shift)) = (&self.keys[..], self.shift) {
            let mut rest = &mut partitions[..];
            for (array, rows) in spans_of(frame, block, self.columns[key])? {
                let (own, after) = rest.split_at_mut(rows.len());
                each_word(array, &rows, own, |own, word| *own = (word >> shift) as u8 % PARTITIONS as u8)?;
                // Whatever lies under nulls, they are one group.
                if array.null_count() > 0 {
                    own.iter_mut().zip(rows).filter(|(_, row)| array.is_null(*row)).for_each(|(own, _)| *own = 0);
                }
                rest = after;
            }
            return Ok(partitions);
        }
        hashes.clear();
        hashes.resize(len, 0);
        for &key in &self.keys {
            let mut rest = &mut hashes[..];
            for (array, rows) in spans_of(frame, block, self.columns[key])? {
                let (own, after) = rest.split_at_mut(rows.len());
                add_hashes(array, rows, own)?;
                rest = after;
            }
        }
        let partition = |hash: &u64| (hash >> (64 - PARTITIONS.ilog2())) as u8;
        partitions.iter_mut().zip(&*hashes).for_each(|(own, hash)| *own = partition(hash));
        Ok(partitions)
    }
}

impl<'w, 'a> Wave<'w, 'a> {
    /// Sorts the rows of `chunks`, blocks of `frame`; `masks` has the selected rows of each span of a block.
    pub(super) fn build(
        frame: &'w Frame<'a>,
        needed: &'w InputColumns,
        chunks: Range<usize>,
        masks: impl Fn(usize) -> Result<Vec<Option<Mask>>> + Sync,
    ) -> Result<Wave<'w, 'a>> {
        let start = frame.block_start(chunks.start);
        let bytes = chunks.len().saturating_mul(16 * CHUNK);
        let orders = parallel::map_with(chunks.len(), bytes, Vec::new, |hashes, job| {
            let mut partitions = needed.partitions(frame, chunks.start + job, hashes)?;
            exclude(&mut partitions, frame, chunks.start + job, &masks(chunks.start + job)?);
            Ok(ChunkOrder::from_partitions(&partitions))
        });
        let orders = orders.into_iter().collect::<Result<Vec<_>>>()?;
        let mut wave = Wave {
            frame,
            needed,
            start,
            orders,
            columns: Vec::new(),
            schema: needed.schema.clone(),
            expected: AtomicUsize::new(0),
        };
        for &column in &needed.columns {
            let column = wave.column(chunks.start, column)?;
            wave.columns.push(column);
        }
        let field = |(field, column): (&FieldRef, &WaveColumn)| match column {
            WaveColumn::Views(_) => Arc::new(Field::new(field.name(), DataType::BinaryView, true)),
            WaveColumn::Whole(_) | WaveColumn::Chunks(_) => field.clone(),
        };
        let fields = needed.schema.fields().iter().zip(&wave.columns).map(field);
        wave.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        wave.orders.iter_mut().for_each(|order| order.places = Vec::new());
        Ok(wave)
    }

    /// Column number `column` of the dataset, of chunks that begin with block `first`.
    fn column(&self, first: usize, column: usize) -> Result<WaveColumn> {
        let data_type = self.needed.of.field(column).data_type();
        let width = fixed_width(data_type).filter(|width| matches!(width, 1 | 2 | 4 | 8 | 16));
        let blocks = || (0..self.orders.len()).map(|chunk| first + chunk);
        let is_plain = |(part, _)| Ok(self.frame.checked(part, column)?.null_count() == 0);
        let mut spans = blocks().flat_map(|block| self.frame.spans(block)).map(is_plain);
        if let Some(width) = width
            && spans.try_fold(true, |all, one: Result<bool>| one.map(|one| all && one))?
        {
            let rows = self.orders.len() * CHUNK;
            let buffer = build_buffer(rows * width, |out| {
                let jobs = out.chunks_mut(CHUNK * width).zip(self.orders.iter().zip(blocks())).map(Ok);
                let sort = |(out, (order, block)): (&mut [u8], (&ChunkOrder, usize))| {
                    order.values(width, &spans_of(self.frame, block, column)?, out)
                };
                parallel::try_map(jobs, rows * width, |_| CHUNK * width, sort, || ()).map(|_| ())
            })?;
            let parts = ArrayParts {
                data_type: data_type.clone(),
                len: rows,
                validity: None,
                buffers: vec![buffer],
                children: Vec::new(),
            };
            return Ok(WaveColumn::Whole(parts.assemble().checked(&[])?));
        }
        if let Some(views) = self.views(first, column)? {
            return Ok(WaveColumn::Views(views));
        }
        self.check_size(first, column)?;
        let bytes = self.orders.len().saturating_mul(16 * CHUNK);
        let arrays = parallel::map(self.orders.len(), bytes, |chunk| {
            self.orders[chunk].column(self.frame, first + chunk, column, &self.needed.of)
        });
        Ok(WaveColumn::Chunks(arrays.into_iter().collect::<Result<_>>()?))
    }

    /// A column of text or bytes of any length, as views; `None` for others, and if that can't be.
    fn views(&self, first: usize, column: usize) -> Result<Option<Vec<ArrayData>>> {
        let data_type = self.needed.of.field(column).data_type();
        if !is_text_or_binary(data_type) || matches!(data_type, DataType::FixedSizeBinary(_)) {
            return Ok(None);
        }
        let chunks =
            (0..self.orders.len()).map(|chunk| TextViewBuilder::try_new(spans_of(self.frame, first + chunk, column)?));
        let Some(chunks) = chunks.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        let width = CHUNK * VIEW;
        let bytes = chunks.len() * width;
        // The memory of all at once is in larger pages.
        let views = build_buffer(bytes, |out| {
            let jobs = out.chunks_mut(width).zip(chunks.iter().zip(&self.orders)).map(Ok);
            let put = |(out, (chunk, order)): (&mut [u8], (&TextViewBuilder<'_>, &ChunkOrder))| {
                chunk.put(&order.places, &mut out[..order.rows.len() * VIEW])
            };
            parallel::try_map(jobs, bytes, |_| width, put, || ()).map(|_| ())
        })?;
        let arrays = chunks.into_iter().zip(&self.orders).enumerate().map(Ok);
        let array = |(number, (chunk, order)): (usize, (TextViewBuilder<'_>, &ChunkOrder))| {
            let own = views.slice_with_length(number * width, order.rows.len() * VIEW);
            chunk.array(own, &order.places, order.rows.len())
        };
        parallel::try_map(arrays, bytes, |_| width, array, || ()).map(Some)
    }

    /// Checks that a column may be copied.
    ///
    /// # Errors
    /// `Unsupported` for long texts, for nested values and for wide ones.
    fn check_size(&self, first: usize, column: usize) -> Result<()> {
        let data_type = self.needed.of.field(column).data_type();
        if !is_text_or_binary(data_type) {
            let is_small = matches!(data_type, DataType::Boolean | DataType::Null | DataType::Dictionary(..));
            let is_small = is_small || fixed_width(data_type).is_some_and(|width| width <= 32);
            return if is_small { Ok(()) } else { Err(Error::unsupported("large values in partitions")) };
        }
        let bytes = self.orders.len().saturating_mul(16 * CHUNK);
        let sizes = parallel::map(self.orders.len(), bytes, |chunk| {
            let mut size = 0usize;
            for (array, rows) in spans_of(self.frame, first + chunk, column)? {
                let texts = Texts::try_new(array)?;
                for row in rows {
                    size = size.saturating_add(texts.get(row)?.len());
                }
            }
            Ok(size)
        });
        let size = sizes.into_iter().sum::<Result<usize>>()?;
        if size > WAVE_BYTES { Err(Error::unsupported("long texts in partitions")) } else { Ok(()) }
    }

    /// The number of the wave's selected rows.
    pub(super) fn rows(&self) -> usize {
        self.orders.iter().map(|order| order.rows.len()).sum()
    }

    /// The partitions in the order in which to group them, the largest first. One that has many times the rows of others, as
    /// those of a frequent key, is several jobs.
    pub(super) fn jobs(&self) -> Vec<PartitionJob> {
        let most = (4 * self.rows() / PARTITIONS).max(LARGE);
        let mut jobs = Vec::with_capacity(PARTITIONS);
        for partition in 0..PARTITIONS {
            let first = jobs.len();
            let mut job = PartitionJob { partition, chunks: 0..0, rows: 0, is_whole: true };
            for (chunk, order) in self.orders.iter().enumerate() {
                job.rows += order.rows_of(partition).len();
                job.chunks.end = chunk + 1;
                if job.rows >= most {
                    let next = PartitionJob { chunks: chunk + 1..chunk + 1, rows: 0, ..job };
                    jobs.push(std::mem::replace(&mut job, next));
                }
            }
            if jobs.len() == first || job.rows > 0 {
                jobs.push(job);
            }
            let is_whole = jobs.len() - first == 1;
            jobs[first..].iter_mut().for_each(|job| job.is_whole = is_whole);
        }
        jobs.sort_by_key(|job| std::cmp::Reverse(job.rows));
        jobs
    }

    /// The columns of a partition, chunk by chunk.
    fn partition(&self, job: &PartitionJob) -> Vec<(usize, Vec<ArrayData>)> {
        let mut parts = Vec::with_capacity(job.chunks.len());
        for chunk in job.chunks.clone() {
            let (start, rows) = (self.orders[chunk].starts[job.partition], self.orders[chunk].rows_of(job.partition));
            if !rows.is_empty() {
                let columns = self.columns.iter().map(|column| column.rows(chunk, start, rows.len()));
                parts.push((rows.len(), columns.collect()));
            }
        }
        parts
    }

    /// The groups of a job's rows, with their first rows in the wave, and their states.
    pub(super) fn groups(
        &self,
        job: &PartitionJob,
        memory: &mut GroupScratch,
    ) -> Result<(Groups<'a>, Vec<GroupState<'a>>)> {
        self.with_groups(job, memory, |_, own, firsts, states| Ok((self.moved(own, firsts)?, states)))
    }

    /// The groups of a whole partition, with their keys, where there is no other wave.
    pub(super) fn table(&self, job: &PartitionJob, memory: &mut GroupScratch) -> Result<GroupTable<'a>> {
        self.with_groups(job, memory, |frame, own, firsts, states| {
            let rows = own.firsts.iter().map(|&first| first.into());
            let picked = RowSelection::from_rows(frame, rows);
            let key = |&key: &usize| {
                if own.firsts.is_empty() {
                    return Ok(ArrayData::new_empty(self.schema.field(key).data_type()));
                }
                let plains = picked.fixed_width_columns(frame, &self.schema, Some(key))?;
                picked.gather_column(frame, &plains, &self.schema, key)
            };
            // Texts are gathered from where they are, in the order of groups.
            let is_view = |&key: &usize| matches!(self.columns[key], WaveColumn::Views(_));
            let has_views = self.needed.keys.iter().any(is_view);
            let keys = self.needed.keys.iter().filter(|_| !has_views).map(key).collect::<Result<_>>()?;
            let firsts = firsts.into_iter().map(|first| self.start + u64::from(first)).collect();
            Ok(GroupTable::from_parts(keys, firsts, states))
        })
    }

    /// Calls `work` with a job's rows, their groups, the groups' first rows in the wave, and their states.
    fn with_groups<T>(
        &self,
        job: &PartitionJob,
        memory: &mut GroupScratch,
        work: impl FnOnce(&Frame<'_>, &Groups<'_>, Vec<u32>, Vec<GroupState<'a>>) -> Result<T>,
    ) -> Result<T> {
        let parts = self.partition(job);
        let masks = vec![None; parts.len()];
        let dataset = Dataset::from_arrays(self.schema.clone(), parts);
        let frame = Frame::try_new(&dataset)?.with_block_rows(usize::MAX);
        memory.expected = self.expected.load(Ordering::Relaxed);
        let mut own = group(&frame, 0, &self.needed.keys, &masks, memory)?;
        self.expected.fetch_max(own.count(), Ordering::Relaxed);
        let mut states = Vec::with_capacity(self.needed.kinds.len());
        let rows = JobRows::new(&self.orders, job);
        let row = |own: u64| rows.row(own).map(|row| self.start + u64::from(row));
        let nothing = ComputedColumns { columns: self.needed.columns.len(), formulas: &[] };
        for &kind in &self.needed.kinds {
            let text = |own: u64| match kind.column() {
                Some(column) => self.cell(self.needed.columns[column], row(own)?),
                None => Ok(KeyPart::Null),
            };
            states.push(GroupState::from_block(kind, &frame, 0, &own, &nothing)?.moved(kind.end(), row, text)?);
        }
        let firsts = rows.rows(&own.firsts)?;
        let done = work(&frame, &own, firsts, states);
        memory.reuse(&mut own);
        done
    }

    /// Groups of which the cells are those of the dataset instead of the chunks.
    fn moved(&self, own: &Groups<'_>, firsts: Vec<u32>) -> Result<Groups<'a>> {
        let mut cells = Vec::with_capacity(own.cells.len());
        for (number, &first) in firsts.iter().enumerate() {
            for (cell, &key) in own.cells_of(number).iter().zip(&self.needed.keys) {
                cells.push(match *cell {
                    KeyPart::Null => KeyPart::Null,
                    KeyPart::Word(word) => KeyPart::Word(word),
                    KeyPart::Bytes(_) => self.cell(self.needed.columns[key], self.start + u64::from(first))?,
                });
            }
        }
        Ok(Groups { ids: Vec::new(), cells, width: own.width, firsts, is_sparse: false })
    }

    fn cell(&self, column: usize, row: u64) -> Result<KeyPart<'a>> {
        let (part, inside) = self.frame.locate(row, 0).ok_or_else(|| Error::internal("a group has no row"))?;
        key_part(self.frame.checked(part, column)?, inside)
    }
}

/// The rows of a partition that are grouped at once.
#[derive(Clone, Debug)]
pub(super) struct PartitionJob {
    pub partition: usize,
    /// The chunks that its rows are of.
    pub chunks: Range<usize>,
    rows: usize,
    /// Whether these are all rows of the partition.
    pub is_whole: bool,
}

/// Where the rows of a job are in the wave.
struct JobRows<'w> {
    /// The number of each chunk with its rows, and the number of rows before these.
    chunks: Vec<(usize, usize, &'w [u16])>,
}

impl<'w> JobRows<'w> {
    fn new(orders: &'w [ChunkOrder], job: &PartitionJob) -> JobRows<'w> {
        let mut before = 0;
        let mut chunks = Vec::with_capacity(job.chunks.len());
        for chunk in job.chunks.clone() {
            let rows = orders[chunk].rows_of(job.partition);
            chunks.push((before, chunk, rows));
            before += rows.len();
        }
        JobRows { chunks }
    }

    /// The rows in the wave that are rows `own` of the job, which ascend.
    fn rows(&self, own: &[u32]) -> Result<Vec<u32>> {
        let mut all = Vec::with_capacity(own.len());
        let mut own = own.iter().map(|&own| own as usize).peekable();
        for &(before, chunk, rows) in &self.chunks {
            while let Some(row) = own.next_if(|own| *own < before + rows.len()) {
                all.push((chunk * CHUNK) as u32 + u32::from(rows[row - before]));
            }
        }
        if own.next().is_some() { Err(lost_row()) } else { Ok(all) }
    }

    /// The row in the wave that is row `own` of the job.
    fn row(&self, own: u64) -> Result<u32> {
        let own = own as usize;
        let chunk = self.chunks.partition_point(|&(before, ..)| before <= own).checked_sub(1);
        let found = chunk.and_then(|chunk| {
            let (before, chunk, rows) = *self.chunks.get(chunk)?;
            Some((chunk * CHUNK) as u32 + u32::from(*rows.get(own - before)?))
        });
        found.ok_or_else(lost_row)
    }
}

fn lost_row() -> Error {
    Error::internal("a group has no row in its partition")
}

/// The fewest rows of a partition that are several jobs.
const LARGE: usize = 1 << 18;

/// The partition of rows that are not selected.
const NONE: u8 = u8::MAX;

fn exclude(partitions: &mut [u8], frame: &Frame<'_>, block: usize, masks: &[Option<Mask>]) {
    let mut at = 0;
    for ((_, rows), mask) in frame.spans(block).zip(masks) {
        let own = &mut partitions[at..at + rows.len()];
        at += rows.len();
        if let Some(mask) = mask {
            own.iter_mut().enumerate().filter(|(row, _)| !mask.is_set(*row)).for_each(|(_, own)| *own = NONE);
        }
    }
}

/// The order of a chunk's rows by partition, as they are within each.
struct ChunkOrder {
    rows: Vec<u16>,
    /// The place of each row in that order; `u16::MAX`, where no other can be, for rows that are not selected. Columns are read as
    /// they are, and written to the places: those of each partition are neighbours.
    places: Vec<u16>,
    /// Where each partition begins, and where the last one ends.
    starts: Vec<usize>,
}

impl ChunkOrder {
    /// Of at most `CHUNK` rows.
    fn from_partitions(partitions: &[u8]) -> ChunkOrder {
        let mut counts = [0usize; NONE as usize + 1];
        partitions.iter().for_each(|&partition| counts[usize::from(partition)] += 1);
        let mut next = [usize::MAX; NONE as usize + 1];
        let mut starts = Vec::with_capacity(PARTITIONS + 1);
        let mut end = 0;
        for (count, next) in counts[..PARTITIONS].iter().zip(&mut next) {
            starts.push(end);
            *next = end;
            end += count;
        }
        starts.push(end);
        let mut rows = vec![0; end];
        let mut places = vec![u16::MAX; partitions.len()];
        for ((row, &partition), place) in partitions.iter().enumerate().zip(&mut places) {
            let next = &mut next[usize::from(partition)];
            let Some(selected) = rows.get_mut(*next) else { continue };
            *selected = row as u16;
            *place = *next as u16;
            *next += 1;
        }
        ChunkOrder { rows, places, starts }
    }

    fn rows_of(&self, partition: usize) -> &[u16] {
        &self.rows[self.starts[partition]..self.starts[partition + 1]]
    }

    /// Column number `column` of block `block` in this order.
    fn column(&self, frame: &Frame<'_>, block: usize, column: usize, schema: &SchemaRef) -> Result<ArrayData> {
        let start = frame.block_start(block);
        let picked = RowSelection::from_rows(frame, self.rows.iter().map(|&row| start + u64::from(row)));
        picked.gather_column(frame, &picked.fixed_width_columns(frame, schema, Some(column))?, schema, column)
    }

    /// Writes values of `width` bytes, of the chunk's rows in `spans`, to `out` in this order.
    fn values(&self, width: usize, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        match width {
            1 => self.put::<1>(spans, out),
            2 => self.put::<2>(spans, out),
            4 => self.put::<4>(spans, out),
            8 => self.put::<8>(spans, out),
            _ => self.put::<16>(spans, out),
        }
    }

    fn put<const N: usize>(&self, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        let out = out.as_chunks_mut::<N>().0.get_mut(..self.rows.len()).ok_or_else(lost_row)?;
        let mut places = &self.places[..];
        for (array, rows) in spans {
            let values = fixed_values::<N>(array).get(rows.clone()).ok_or_else(lost_row)?;
            let (own, rest) = places.split_at_checked(values.len()).ok_or_else(lost_row)?;
            values.iter().zip(own).for_each(|(value, &place)| put(out, place, *value));
            places = rest;
        }
        if places.is_empty() { Ok(()) } else { Err(lost_row()) }
    }
}

fn spans_of<'a>(frame: &Frame<'a>, block: usize, column: usize) -> Result<Vec<ArraySpan<'a>>> {
    frame.spans(block).map(|(part, rows)| Ok((frame.checked(part, column)?, rows))).collect()
}

/// The width of the range of the integers in the first block of column `key`, if they lie so close together that a table of all
/// of them has at most four places for each row of the dataset.
fn integers_width(frame: &Frame<'_>, key: usize) -> Result<Option<usize>> {
    let mut range: Option<(i64, i64)> = None;
    for (array, rows) in spans_of(frame, 0, key)? {
        if !is_stored_as_integer(array.data_type()) || !matches!(fixed_width(array.data_type()), Some(2 | 4 | 8)) {
            return Ok(None);
        }
        let mut words = vec![0; rows.len()];
        each_word(array, &rows, &mut words, |own, word| *own = word as i64)?;
        // Anything may lie under nulls.
        let valid = Mask::from_validity(array, &rows);
        let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.is_set(row));
        for (_, &word) in words.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
            let (low, high) = range.unwrap_or((word, word));
            range = Some((low.min(word), high.max(word)));
        }
    }
    let width = range.map(|(low, high)| high.wrapping_sub(low) as u64).filter(|width| width / 4 <= frame.num_rows());
    Ok(width.and_then(|width| usize::try_from(width).ok()))
}

/// Calls `work` with something of each row of integers and the row's word; any word for nulls.
fn each_word<T>(array: &ArrayData, rows: &Range<usize>, own: &mut [T], work: impl Fn(&mut T, u64)) -> Result<()> {
    fn each<T, const N: usize>(
        array: &ArrayData,
        rows: &Range<usize>,
        own: &mut [T],
        work: impl Fn(&mut T, u64),
        word: impl Fn([u8; N]) -> u64,
    ) {
        let values = fixed_values::<N>(array).get(rows.clone()).unwrap_or_default();
        own.iter_mut().zip(values).for_each(|(own, raw)| work(own, word(*raw)));
    }
    match fixed_width(array.data_type()) {
        Some(2) => each(array, rows, own, work, word_of_2(array.data_type())),
        Some(4) => each(array, rows, own, work, word_of_4(array.data_type())),
        Some(8) => each(array, rows, own, work, u64::from_le_bytes),
        _ => return Err(Error::internal("keys are no integers")),
    }
    Ok(())
}

/// Mixes the hashes of a column's values, which are equal for equal keys, into those of the columns before it.
fn add_hashes(array: &ArrayData, rows: Range<usize>, into: &mut [u64]) -> Result<()> {
    use DataType::*;
    let has_nulls = array.nulls().is_some_and(|nulls| nulls.null_count() > 0);
    match array.data_type() {
        data_type
            if is_stored_as_integer(data_type) && matches!(fixed_width(data_type), Some(2 | 4 | 8)) && !has_nulls =>
        {
            each_word(array, &rows, into, |hash, word| *hash = mixed(*hash, word))?;
        }
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView if !has_nulls => {
            let texts = Texts::try_new(array)?;
            let mut long = Vec::new();
            let mut at = 0;
            texts.each_short(rows.clone(), |len, bytes| {
                match into.get_mut(at).filter(|_| len < 16) {
                    Some(hash) => *hash = mixed_word(*hash, with_len(len, bytes)),
                    None => long.push(at),
                }
                at += 1;
            })?;
            for at in long {
                into[at] = mixed_bytes(into[at], texts.get(rows.start + at)?);
            }
        }
        _ => {
            for (row, hash) in rows.zip(into) {
                *hash = match key_part(array, row)? {
                    KeyPart::Null => mixed(*hash, 0),
                    KeyPart::Word(word) => mixed(*hash, word),
                    KeyPart::Bytes(bytes) => mixed_bytes(*hash, bytes),
                };
            }
        }
    }
    Ok(())
}

/// A hash that is the same in each run, so that results are: both halves of a product, whose upper bits depend on all others.
#[inline(always)]
fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash.rotate_left(32) ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn mixed_word(hash: u64, word: u128) -> u64 {
    mixed(mixed(hash, word as u64), (word >> 64) as u64)
}

fn mixed_bytes(hash: u64, bytes: &[u8]) -> u64 {
    // The last 8 bytes overlap those before them.
    let (LONG, Some(last)) = (packed(bytes), bytes.last_chunk::<8>()) else { return mixed_word(hash, packed(bytes)) };
    let words = bytes.as_chunks::<8>().0.iter();
    let hash = words.fold(mixed(hash, bytes.len() as u64), |hash, word| mixed(hash, u64::from_le_bytes(*word)));
    mixed(hash, u64::from_le_bytes(*last))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::types::{Int8Type, Int64Type};
    use arrow_array::*;
    use arrow_buffer::NullBuffer;

    use super::*;
    use crate::compute::group::{AggregateFunction, AggregationProgress};
    use crate::{Value, col};

    /// Two waves of a watched aggregation, and batches that end anywhere.
    const ROWS: i64 = 1_100_000;

    type Row = (Option<i64>, Option<i64>, f64);

    /// Key, integer and float of a row; about 120,000 keys, most of them in both waves.
    fn row(number: i64) -> Row {
        let random = mixed(0, number as u64);
        let key = (!random.is_multiple_of(1000)).then_some((random % 120_011) as i64 - 60_000);
        let integer = (random >> 20 & 7 > 0).then_some((random >> 32) as i64 % 1000);
        (key, integer, (random >> 40) as f64 * 0.25)
    }

    fn dataset() -> Dataset {
        let ends = [0, 1, 70_000, 333_333, 333_400, 1_048_000, ROWS];
        let batch = |ends: &[i64]| {
            let rows: Vec<Row> = (ends[0]..ends[1]).map(row).collect();
            let keys = || rows.iter().map(|row| row.0);
            let text = |key: Option<i64>| key.map(|key| format!("{key} is a key"));
            // Anything may lie under nulls.
            let values = rows.iter().zip(ends[0]..).map(|(row, number)| row.0.unwrap_or(number % 90_000));
            let valid = NullBuffer::from_iter(keys().map(|key| key.is_some()));
            let near = Int64Array::new(values.collect(), Some(valid));
            let columns: [(&str, ArrayRef); 7] = [
                ("near", Arc::new(near)),
                ("narrow", Arc::new(keys().map(|key| key.map(|key| key as i32)).collect::<Int32Array>())),
                ("far", Arc::new(keys().map(|key| key.map(|key| key << 40 | 7)).collect::<Int64Array>())),
                ("real", Arc::new(keys().map(|key| key.map(|key| key as f64 / 8.0)).collect::<Float64Array>())),
                ("text", Arc::new(keys().map(text).collect::<StringArray>())),
                ("n", Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>())),
                ("x", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Float64Array>())),
            ];
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
        };
        Dataset::try_from(ends.windows(2).map(batch).collect::<Vec<_>>()).unwrap()
    }

    /// Key, number of rows, sum and count of the integers, smallest text, sum of the floats, and the integer of the last row.
    type Expected = (Option<i64>, i128, i128, i128, Option<String>, f64, Option<i64>);

    /// What is to be found of each key, in order of appearance.
    fn naive() -> Vec<Expected> {
        let (mut places, mut groups) = (HashMap::new(), Vec::new());
        for (key, integer, float) in (0..ROWS).map(row).filter(|row| row.2 >= 1000.0) {
            let place = *places.entry(key).or_insert(groups.len());
            if place == groups.len() {
                groups.push((key, 0, 0, 0, None::<String>, 0.0, None));
            }
            let group = &mut groups[place];
            group.1 += 1;
            group.2 += i128::from(integer.unwrap_or(0));
            group.3 += i128::from(integer.is_some());
            let text = key.map(|key| format!("{key} is a key"));
            group.4 = if group.4.is_none() { text } else { group.4.take() };
            group.5 += float;
            group.6 = integer;
        }
        groups
    }

    #[test]
    fn very_many_groups_are_those_of_a_naive_loop_in_one_wave_and_in_several() {
        let (dataset, expected) = (dataset(), naive());
        let ignore = |_: AggregationProgress| Ok(());
        for by in [&["near"][..], &["narrow"], &["far"], &["real"], &["text"], &["text", "far"]] {
            for is_watched in [false, true] {
                let asked = dataset.aggregate(by).filter(col("x").ge(1000.0)).count_rows("rows");
                let asked = asked.column_as("sum", "n", AggregateFunction::Sum).column_as(
                    "count",
                    "n",
                    AggregateFunction::Count,
                );
                let asked = asked.column_as("least", "text", AggregateFunction::Min).column_as(
                    "mean",
                    "x",
                    AggregateFunction::Mean,
                );
                let asked = asked.column_as("last", "n", AggregateFunction::Last);
                let asked = if is_watched { asked.on_progress(1 << 20, &ignore) } else { asked };
                let found = asked.column_as("keys", "near", AggregateFunction::Max).finish().unwrap();
                found.validate(|_, _| ()).unwrap();
                assert_eq!(found.len().unwrap(), expected.len() as u64, "{by:?}");
                let column = |name: &str| found.column(name).unwrap();
                let columns = ["keys", "rows", "sum", "count", "least", "mean", "last"].map(column);
                for (number, expected) in expected.iter().enumerate() {
                    let own = |column: usize| columns[column].get(number as u64).unwrap();
                    let text = |column: usize| own(column).to_string();
                    let or_null = |text: Option<String>| text.unwrap_or("null".into());
                    assert_eq!(text(0), or_null(expected.0.map(|key| key.to_string())), "{by:?}: group {number}");
                    assert_eq!([1, 2, 3].map(text), [expected.1, expected.2, expected.3].map(|n| n.to_string()));
                    assert_eq!(text(4), or_null(expected.4.clone()));
                    assert_eq!(text(6), or_null(expected.6.map(|n| n.to_string())));
                    let mean = own(5);
                    let Value::Float64(mean) = mean else { panic!("{mean}") };
                    assert!((mean * expected.1 as f64 / expected.5 - 1.0).abs() < 1e-12);
                }
            }
        }
    }

    /// The partition of a frequent key is several jobs.
    #[test]
    fn a_frequent_key_is_a_group_as_others_are() {
        const ROWS: i64 = 700_000;
        let key = |row: i64| if row % 2 == 0 && row > 20_000 { 7 } else { row * 7_919 % 150_001 };
        let batch = |rows: Range<i64>| {
            let rows = || rows.clone();
            let columns: [(&str, ArrayRef); 4] = [
                ("far", Arc::new(rows().map(|row| Some(key(row) << 40 | 1)).collect::<Int64Array>())),
                ("text", Arc::new(rows().map(|row| Some(format!("{}", key(row)))).collect::<StringArray>())),
                ("n", Arc::new(rows().map(Some).collect::<Int64Array>())),
                ("x", Arc::new(rows().map(|row| Some(row as f64 / 3.0)).collect::<Float64Array>())),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let (mut places, mut groups) = (HashMap::new(), Vec::new());
        for row in 0..ROWS {
            let place = *places.entry(key(row)).or_insert(groups.len());
            if place == groups.len() {
                groups.push((key(row), 0, 0.0, 0));
            }
            let (_, count, sum, last) = &mut groups[place];
            (*count, *sum, *last) = (*count + 1, *sum + row as f64 / 3.0, row);
        }
        let dataset = Dataset::try_from(vec![batch(0..100_000), batch(100_000..ROWS)]).unwrap();
        for by in ["far", "text"] {
            let asked = dataset.aggregate(&[by]).count_rows("rows").column_as("sum", "x", AggregateFunction::Sum);
            let found = asked
                .column_as("last", "n", AggregateFunction::Last)
                .column_as("least", "text", AggregateFunction::Min)
                .finish()
                .unwrap();
            found.validate(|_, _| ()).unwrap();
            assert_eq!(found.len().unwrap(), groups.len() as u64);
            let columns = ["rows", "sum", "last", "least"].map(|name| found.column(name).unwrap());
            for (number, (key, count, sum, last)) in groups.iter().enumerate() {
                let own = |column: usize| columns[column].get(number as u64).unwrap().to_string();
                assert_eq!([own(0), own(2), own(3)], [count.to_string(), last.to_string(), key.to_string()], "{by}");
                assert!((own(1).parse::<f64>().unwrap() / sum - 1.0).abs() < 1e-12 || *sum == 0.0);
            }
        }
    }

    #[test]
    fn many_groups_keep_their_order() {
        let n: Int64Array = (0..400_000i64).map(|i| (i * 7_919) % 150_001).collect();
        let text: StringArray = n.iter().map(|n| n.map(|n| format!("the number {n}"))).collect();
        let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(n.clone())), ("text", Arc::new(text))];
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap();
        for by in [&["n"][..], &["text"], &["text", "n"]] {
            let found = dataset
                .aggregate(by)
                .count_rows("rows")
                .column_as("sum", "n", AggregateFunction::Sum)
                .finish()
                .unwrap();
            let sums: Vec<i128> =
                found.column("sum").unwrap().values().map(|v| v.unwrap().to_string().parse().unwrap()).collect();
            let counts: Vec<i128> =
                found.column("rows").unwrap().values().map(|v| v.unwrap().to_string().parse().unwrap()).collect();
            assert_eq!(sums.len(), 150_001);
            assert!(
                sums.iter().zip(&counts).zip(n.iter()).all(|((sum, count), n)| *sum == i128::from(n.unwrap()) * count)
            );
        }
    }

    /// Dictionaries of more values than there are keys, and lists, which are only counted.
    #[test]
    fn what_does_not_fit_into_partitions_stays_where_it_is() {
        let batch = |number: i64| {
            let rows = number * 5_000..(number + 1) * 5_000;
            let values = StringArray::from_iter_values((0..100).map(|value| format!("{number}-{value}")));
            let keys: Int8Array = rows.clone().map(|row| Some((row % 100) as i8)).collect();
            let kind: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(values)));
            let text: StringArray = rows.clone().map(|row| Some(format!("{number}-{}", row % 100))).collect();
            let items = rows.clone().map(|row| (row % 3 > 0).then(|| vec![Some(row)]));
            let items: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items));
            let n: Int64Array = rows.map(|row| Some(row * 7_919 % 30_011)).collect();
            let columns: [(&str, ArrayRef); 4] =
                [("n", Arc::new(n)), ("kind", kind), ("text", Arc::new(text)), ("items", items)];
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
        };
        let dataset = Dataset::try_from((0..8).map(batch).collect::<Vec<_>>()).unwrap();
        let texts = |by: &[&str], count: Option<&str>| -> Vec<String> {
            let asked = dataset.aggregate(by).count_rows("rows");
            let asked =
                count.iter().fold(asked, |asked, name| asked.column_as("count", name, AggregateFunction::Count));
            let found = asked.finish().unwrap();
            found.validate(|_, _| ()).unwrap();
            let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string() + " ").collect();
            found.rows().map(|found| row(found.unwrap())).collect()
        };
        assert_eq!(texts(&["n", "kind"], None), texts(&["n", "text"], None));
        let counted = texts(&["n"], Some("items"));
        assert_eq!(counted.len(), 30_011);
        // Rows 0 and 30,011 have one key, and no list or one.
        assert_eq!(counted[..2], ["0 2 1 ", "7919 2 1 "]);
    }

    /// The words of keys around 0 lie close together, whatever lies under nulls.
    #[test]
    fn integers_with_a_sign_lie_close_together() {
        let valid = NullBuffer::from(vec![true, false, true, true]);
        let columns: [(&str, ArrayRef); 5] = [
            ("narrow", Arc::new(Int16Array::new(vec![-5, i16::MIN, 0, 7].into(), Some(valid.clone())))),
            ("int", Arc::new(Int32Array::new(vec![-5, i32::MIN, 0, 7].into(), Some(valid.clone())))),
            ("long", Arc::new(Int64Array::new(vec![-5, i64::MIN, 0, 7].into(), Some(valid.clone())))),
            ("day", Arc::new(Date32Array::new(vec![-5, i32::MAX, 0, 7].into(), Some(valid)))),
            ("unsigned", Arc::new(UInt32Array::from(vec![u32::MAX, u32::MAX - 3, u32::MAX - 12, u32::MAX - 1]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        let frame = Frame::try_new(&dataset).unwrap();
        for key in 0..5 {
            assert_eq!(integers_width(&frame, key).unwrap(), Some(12), "column {key}");
            let groups = group(&frame, 0, &[key], &[None], &mut GroupScratch::default()).unwrap();
            let cells = (0..4).map(|row| key_part(frame.checked(0, key).unwrap(), row).unwrap());
            assert_eq!(groups.cells, cells.collect::<Vec<_>>());
        }
    }

    /// Texts of any length: in views, in the dataset, in more batches than a chunk refers to, and sliced.
    #[test]
    fn texts_are_keys_wherever_they_are() {
        let key = |row: usize| Some(row * 7_919 % 60_013).filter(|key| key % 1_000 > 0);
        let text = |key: usize| format!("{}{key}", "żó ".repeat(key % 6));
        for len in [70_000, 900] {
            let batch = |start: usize| {
                let rows = || (start..(start + len).min(210_000)).map(key);
                let texts = || rows().map(|key| key.map(text));
                let columns: [(&str, ArrayRef); 5] = [
                    ("n", Arc::new(rows().map(|key| key.map(|key| key as i64)).collect::<Int64Array>())),
                    ("text", Arc::new(texts().collect::<StringArray>())),
                    ("large", Arc::new(texts().collect::<LargeStringArray>())),
                    ("view", Arc::new(texts().collect::<StringViewArray>())),
                    ("bytes", Arc::new(texts().map(|text| text.map(String::into_bytes)).collect::<BinaryArray>())),
                ];
                RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
            };
            let whole = Dataset::try_from((0..210_000).step_by(len).map(batch).collect::<Vec<_>>()).unwrap();
            let dataset = whole.slice(123, 200_000).unwrap();
            let cells = |by: &[&str]| -> Vec<String> {
                let asked =
                    dataset.aggregate(by).filter(col("n").ne(17)).column_as("count", "n", AggregateFunction::Count);
                let asked = asked.column_as("first", "view", AggregateFunction::Min).column_as(
                    "last",
                    "n",
                    AggregateFunction::Last,
                );
                let found = asked.column_as("key", "n", AggregateFunction::Max).finish().unwrap();
                found.validate(|_, _| ()).unwrap();
                let cell = |(name, value): (&str, Result<Value<'_>>)| format!("{name} {} ", value.unwrap());
                let own = |row: crate::Row<'_>| row.iter().skip(by.len()).map(cell).collect();
                found.rows().map(|row| own(row.unwrap())).collect()
            };
            let expected = cells(&["n"]);
            assert!(expected.len() > 59_900);
            for by in [&["text"][..], &["large"], &["view"], &["bytes"], &["text", "view"]] {
                assert_eq!(cells(by), expected, "{by:?} in batches of {len}");
            }
            let keys = dataset.aggregate(&["large"]).count_rows("rows").finish().unwrap().column("large").unwrap();
            let wanted = dataset.aggregate(&["n"]).count_rows("rows").finish().unwrap().column("n").unwrap();
            for (key, n) in keys.values().zip(wanted.values()) {
                let n = match n.unwrap() {
                    Value::Int(n) => text(n as usize),
                    other => other.to_string(),
                };
                assert_eq!(key.unwrap().to_string(), n);
            }
        }
    }
}
