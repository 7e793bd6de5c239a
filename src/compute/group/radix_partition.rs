//! Groups rows in partitions by the hashes of their keys, where there are very many groups.
//!
//! The groups of a partition fit into the cache of a thread. As no group is in two partitions, the results of threads
//! need no merge.
//!
//! Rows are processed in waves. First, each chunk of a wave is sorted by partition, with the columns that are needed.
//! Then each partition groups its rows of all chunks, in their order. Therefore the result depends only on the rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::block::ComputedColumns;
use super::groups::{GroupScratch, Groups, group, key_part, word_of_2, word_of_4};
use super::interner::{KeyPart, LONG, pack_short_text, pack_text};
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

/// The maximum number of bytes and of rows of a wave.
const MAX_WAVE_BYTES: usize = 1 << 28;
const MAX_WAVE_ROWS: usize = 1 << 23;

/// The columns that groups and their states need, by their numbers in the dataset.
pub(super) struct InputColumns {
    columns: Vec<usize>,
    keys: Vec<usize>,
    kinds: Vec<StateKind>,
    schema: SchemaRef,
    dataset_schema: SchemaRef,
    /// For one key of integers that lie close together, the number of low bits that do not determine the partition, so
    /// that the keys of a partition lie close together, too. `None` if the hash of the keys determines the partition.
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
    /// The schema of the columns in partitions.
    schema: SchemaRef,
    /// The maximum number of groups of a job so far, as the next one has about as many.
    expected: AtomicUsize,
}

/// A column in the order of each chunk.
enum WaveColumn {
    /// One array for all chunks, each of which begins at a multiple of `CHUNK`.
    Whole(ArrayData),
    Chunks(Vec<ArrayData>),
    /// Views of texts, which stay in the dataset.
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
        let keys = keys.iter().map(|&key| column_index(&columns, key)).collect::<Result<_>>()?;
        let kinds = kinds.iter().map(|kind| kind.with_column(|column| column_index(&columns, column)));
        let kinds = kinds.collect::<Result<_>>()?;
        let fields = dataset.schema().fields();
        let schema = Arc::new(Schema::new(columns.iter().map(|&column| fields[column].clone()).collect::<Vec<_>>()));
        Ok(InputColumns { columns, keys, kinds, schema, dataset_schema: dataset.schema().clone(), shift })
    }

    /// Returns the number of rows of a wave, whose copy takes at most `MAX_WAVE_BYTES` bytes.
    pub(super) fn wave_rows(&self, dataset: &Dataset) -> usize {
        /// The bytes of a row besides its values: its number in its chunk's order, and its hash.
        const ORDER_BYTES: usize = 16;
        let mut row_bytes = ORDER_BYTES;
        for &column in &self.columns {
            row_bytes += dataset.column_at(column).map_or(0, |column| column.bytes_per_row());
        }
        (MAX_WAVE_BYTES / row_bytes).clamp(CHUNK, MAX_WAVE_ROWS)
    }

    /// Computes the partition of each row of a block. `hashes` is reused memory.
    fn partitions(&self, frame: &Frame<'_>, block: usize, hashes: &mut Vec<u64>) -> Result<Vec<u8>> {
        let len = frame.spans(block).map(|(_, rows)| rows.len()).sum();
        let mut partitions = vec![0; len];
        if let (&[key], Some(shift)) = (&self.keys[..], self.shift) {
            let mut rest = &mut partitions[..];
            for (array, rows) in block_spans(frame, block, self.columns[key])? {
                let (span, after) = rest.split_at_mut(rows.len());
                for_each_word(array, &rows, span, |partition, word| {
                    *partition = (word >> shift) as u8 % PARTITIONS as u8;
                })?;
                // Nulls are one group, whatever values lie under them.
                if array.null_count() > 0 {
                    for (partition, row) in span.iter_mut().zip(rows) {
                        if array.is_null(row) {
                            *partition = 0;
                        }
                    }
                }
                rest = after;
            }
            assert!(rest.is_empty(), "{} rows of a block have no partition", rest.len());
            return Ok(partitions);
        }
        hashes.clear();
        hashes.resize(len, 0);
        for &key in &self.keys {
            let mut rest = &mut hashes[..];
            for (array, rows) in block_spans(frame, block, self.columns[key])? {
                let (span, after) = rest.split_at_mut(rows.len());
                add_hashes(array, rows, span)?;
                rest = after;
            }
            assert!(rest.is_empty(), "{} rows of a block have no hash", rest.len());
        }
        for (partition, hash) in partitions.iter_mut().zip(&*hashes) {
            *partition = (hash >> (64 - PARTITIONS.ilog2())) as u8;
        }
        Ok(partitions)
    }
}

/// Returns the index of column number `column` among the sorted `columns`.
fn column_index(columns: &[usize], column: usize) -> Result<usize> {
    let index = columns.binary_search(&column);
    index.map_err(|_| Error::internal(format!("column {column} is none of those that groups need")))
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
            let block = chunks.start + job;
            let mut partitions = needed.partitions(frame, block, hashes)?;
            exclude(&mut partitions, frame, block, &masks(block)?);
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
        let mut fields: Vec<FieldRef> = Vec::with_capacity(wave.columns.len());
        for (field, column) in needed.schema.fields().iter().zip(&wave.columns) {
            fields.push(match column {
                WaveColumn::Views(_) => Arc::new(Field::new(field.name(), DataType::BinaryView, true)),
                WaveColumn::Whole(_) | WaveColumn::Chunks(_) => field.clone(),
            });
        }
        wave.schema = Arc::new(Schema::new(fields));
        // Positions are only needed to copy columns.
        wave.orders.iter_mut().for_each(|order| order.positions = Vec::new());
        Ok(wave)
    }

    /// Copies column number `column` of the dataset in the order of each chunk. Chunks begin with block `first`.
    fn column(&self, first: usize, column: usize) -> Result<WaveColumn> {
        let data_type = self.needed.dataset_schema.field(column).data_type();
        if let Some(width @ (1 | 2 | 4 | 8 | 16)) = fixed_width(data_type)
            && !self.has_nulls(first, column)?
        {
            return Ok(WaveColumn::Whole(self.fixed_width_column(first, column, width)?));
        }
        if let Some(views) = self.views(first, column)? {
            return Ok(WaveColumn::Views(views));
        }
        self.check_size(first, column)?;
        let bytes = self.orders.len().saturating_mul(16 * CHUNK);
        let arrays = parallel::map(self.orders.len(), bytes, |chunk| {
            self.orders[chunk].column(self.frame, first + chunk, column, &self.needed.dataset_schema)
        });
        Ok(WaveColumn::Chunks(arrays.into_iter().collect::<Result<_>>()?))
    }

    fn has_nulls(&self, first: usize, column: usize) -> Result<bool> {
        for block in first..first + self.orders.len() {
            for (part, _) in self.frame.spans(block) {
                if self.frame.checked(part, column)?.null_count() > 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Copies a column of values of `width` bytes without nulls.
    fn fixed_width_column(&self, first: usize, column: usize, width: usize) -> Result<ArrayData> {
        let len = self.orders.len() * CHUNK;
        let buffer = build_buffer(len * width, |out| {
            let jobs = out.chunks_mut(CHUNK * width).zip(&self.orders).zip(first..).map(Ok);
            parallel::try_map(
                jobs,
                len * width,
                |_| CHUNK * width,
                |((out, order), block)| order.copy_values(width, &block_spans(self.frame, block, column)?, out),
                || (),
            )
            .map(|_| ())
        })?;
        let data_type = self.needed.dataset_schema.field(column).data_type().clone();
        let parts = ArrayParts { data_type, len, validity: None, buffers: vec![buffer], children: Vec::new() };
        parts.assemble().checked(&[])
    }

    /// Returns a column of texts or bytes of any length, as views of each chunk; `None` for other columns, and for
    /// texts in too many or too large buffers.
    fn views(&self, first: usize, column: usize) -> Result<Option<Vec<ArrayData>>> {
        let data_type = self.needed.dataset_schema.field(column).data_type();
        if !is_text_or_binary(data_type) || matches!(data_type, DataType::FixedSizeBinary(_)) {
            return Ok(None);
        }
        let mut chunks = Vec::with_capacity(self.orders.len());
        for block in first..first + self.orders.len() {
            match TextViewBuilder::try_new(block_spans(self.frame, block, column)?)? {
                Some(chunk) => chunks.push(chunk),
                None => return Ok(None),
            }
        }
        let width = CHUNK * VIEW;
        let bytes = chunks.len() * width;
        // One allocation for all chunks gets larger pages.
        let views = build_buffer(bytes, |out| {
            let jobs = out.chunks_mut(width).zip(chunks.iter().zip(&self.orders)).map(Ok);
            parallel::try_map(
                jobs,
                bytes,
                |_| width,
                |(out, (chunk, order)): (&mut [u8], (&TextViewBuilder<'_>, &ChunkOrder))| {
                    chunk.write(&order.positions, &mut out[..order.rows.len() * VIEW])
                },
                || (),
            )
            .map(|_| ())
        })?;
        parallel::try_map(
            chunks.into_iter().zip(&self.orders).enumerate().map(Ok),
            bytes,
            |_| width,
            |(number, (chunk, order)): (usize, (TextViewBuilder<'_>, &ChunkOrder))| {
                let chunk_views = views.slice_with_length(number * width, order.rows.len() * VIEW);
                chunk.finish(chunk_views, &order.positions, order.rows.len())
            },
            || (),
        )
        .map(Some)
    }

    /// Checks that a column may be copied.
    ///
    /// # Errors
    /// `Unsupported` for long texts, for nested values and for wide ones.
    fn check_size(&self, first: usize, column: usize) -> Result<()> {
        let data_type = self.needed.dataset_schema.field(column).data_type();
        if !is_text_or_binary(data_type) {
            let is_small = matches!(data_type, DataType::Boolean | DataType::Null | DataType::Dictionary(..));
            let is_small = is_small || fixed_width(data_type).is_some_and(|width| width <= 32);
            return if is_small { Ok(()) } else { Err(Error::unsupported("large values in partitions")) };
        }
        let bytes = self.orders.len().saturating_mul(16 * CHUNK);
        let sizes = parallel::map(self.orders.len(), bytes, |chunk| {
            let mut size = 0usize;
            for (array, rows) in block_spans(self.frame, first + chunk, column)? {
                let texts = Texts::try_new(array)?;
                for row in rows {
                    size = size.saturating_add(texts.get(row)?.len());
                }
            }
            Ok(size)
        });
        let size = sizes.into_iter().sum::<Result<usize>>()?;
        if size > MAX_WAVE_BYTES { Err(Error::unsupported("long texts in partitions")) } else { Ok(()) }
    }

    /// Returns the number of the wave's selected rows.
    pub(super) fn rows(&self) -> usize {
        self.orders.iter().map(|order| order.rows.len()).sum()
    }

    /// Returns the jobs of all partitions, the largest first. A partition with many times the rows of others, such as
    /// the partition of a frequent key, has several jobs.
    pub(super) fn jobs(&self) -> Vec<PartitionJob> {
        let max_rows = (4 * self.rows() / PARTITIONS).max(MIN_SPLIT_ROWS);
        let mut jobs = Vec::with_capacity(PARTITIONS);
        for partition in 0..PARTITIONS {
            let first = jobs.len();
            let mut job = PartitionJob { partition, chunks: 0..0, rows: 0, is_whole: true };
            for (chunk, order) in self.orders.iter().enumerate() {
                job.rows += order.rows_of(partition).len();
                job.chunks.end = chunk + 1;
                if job.rows >= max_rows {
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
        let job_rows: usize = jobs.iter().map(|job| job.rows).sum();
        assert_eq!(job_rows, self.rows(), "each selected row of a wave is in one job");
        jobs
    }

    /// Returns the number of rows and the columns of a job, for each chunk with rows of its partition.
    fn job_chunks(&self, job: &PartitionJob) -> Vec<(usize, Vec<ArrayData>)> {
        let mut parts = Vec::with_capacity(job.chunks.len());
        for chunk in job.chunks.clone() {
            let start = self.orders[chunk].starts[job.partition];
            let rows = self.orders[chunk].rows_of(job.partition).len();
            if rows > 0 {
                let columns = self.columns.iter().map(|column| column.rows(chunk, start, rows));
                parts.push((rows, columns.collect()));
            }
        }
        parts
    }

    /// Returns the groups of a job's rows, with their first rows in the wave, and their states.
    pub(super) fn groups(
        &self,
        job: &PartitionJob,
        scratch: &mut GroupScratch,
    ) -> Result<(Groups<'a>, Vec<GroupState<'a>>)> {
        self.with_groups(job, scratch, |_, job_groups, firsts, states| Ok((self.relocate(job_groups, firsts)?, states)))
    }

    /// Returns the groups of a whole partition, with their keys. There must be no other wave.
    pub(super) fn table(&self, job: &PartitionJob, scratch: &mut GroupScratch) -> Result<GroupTable<'a>> {
        assert!(job.is_whole, "a table has all rows of its partition");
        self.with_groups(job, scratch, |frame, job_groups, firsts, states| {
            let firsts = firsts.into_iter().map(|first| self.start + u64::from(first)).collect();
            if self.needed.keys.iter().any(|&key| matches!(self.columns[key], WaveColumn::Views(_))) {
                // Texts are gathered from the dataset later, in the order of groups, and so are the other keys.
                return Ok(GroupTable::from_parts(Vec::new(), firsts, states));
            }
            let selection = RowSelection::from_rows(frame, job_groups.firsts.iter().map(|&first| first.into()));
            let mut keys = Vec::with_capacity(self.needed.keys.len());
            for &key in &self.needed.keys {
                keys.push(if job_groups.firsts.is_empty() {
                    ArrayData::new_empty(self.schema.field(key).data_type())
                } else {
                    let fixed_width_columns = selection.fixed_width_columns(frame, &self.schema, Some(key))?;
                    selection.gather_column(frame, &fixed_width_columns, &self.schema, key)?
                });
            }
            Ok(GroupTable::from_parts(keys, firsts, states))
        })
    }

    /// Calls `work` with a job's rows, their groups, the groups' first rows in the wave, and their states.
    fn with_groups<T>(
        &self,
        job: &PartitionJob,
        scratch: &mut GroupScratch,
        work: impl FnOnce(&Frame<'_>, &Groups<'_>, Vec<u32>, Vec<GroupState<'a>>) -> Result<T>,
    ) -> Result<T> {
        let parts = self.job_chunks(job);
        let masks = vec![None; parts.len()];
        let dataset = Dataset::from_arrays(self.schema.clone(), parts);
        let frame = Frame::try_new(&dataset)?.with_block_rows(usize::MAX);
        scratch.expected = self.expected.load(Ordering::Relaxed);
        let mut job_groups = group(&frame, 0, &self.needed.keys, &masks, scratch)?;
        self.expected.fetch_max(job_groups.count(), Ordering::Relaxed);
        let job_rows = JobRows::new(&self.orders, job);
        let no_formulas = ComputedColumns { columns: self.needed.columns.len(), formulas: &[] };
        let mut states = Vec::with_capacity(self.needed.kinds.len());
        for &kind in &self.needed.kinds {
            let state = GroupState::from_block(kind, &frame, 0, &job_groups, &no_formulas)?;
            states.push(state.relocate(
                kind.end(),
                |job_row| self.frame_row(&job_rows, job_row),
                |job_row| match kind.column() {
                    Some(column) => self.cell(self.needed.columns[column], self.frame_row(&job_rows, job_row)?),
                    None => Ok(KeyPart::Null),
                },
            )?);
        }
        let firsts = job_rows.wave_rows(&job_groups.firsts)?;
        let result = work(&frame, &job_groups, firsts, states);
        scratch.reuse(&mut job_groups);
        result
    }

    /// Returns the row of the frame that is row `job_row` of a job.
    fn frame_row(&self, job_rows: &JobRows<'_>, job_row: u64) -> Result<u64> {
        Ok(self.start + u64::from(job_rows.wave_row(job_row)?))
    }

    /// Replaces the cells of groups, which refer to copied chunks, by cells of the dataset.
    fn relocate(&self, job_groups: &Groups<'_>, firsts: Vec<u32>) -> Result<Groups<'a>> {
        let mut cells = Vec::with_capacity(job_groups.cells.len());
        for (number, &first) in firsts.iter().enumerate() {
            for (cell, &key) in job_groups.key(number).iter().zip(&self.needed.keys) {
                cells.push(match *cell {
                    KeyPart::Null => KeyPart::Null,
                    KeyPart::Word(word) => KeyPart::Word(word),
                    KeyPart::Bytes(_) => self.cell(self.needed.columns[key], self.start + u64::from(first))?,
                });
            }
        }
        Ok(Groups { ids: Vec::new(), cells, width: job_groups.width, firsts, is_sparse: false })
    }

    /// Returns the key in column `column` of row `row` of the frame.
    fn cell(&self, column: usize, row: u64) -> Result<KeyPart<'a>> {
        let (part, part_row) = self.frame.locate(row, 0).ok_or_else(|| Error::internal("a group has no row"))?;
        key_part(self.frame.checked(part, column)?, part_row)
    }
}

/// The rows of a partition, or some of them, which one thread groups.
#[derive(Clone, Debug)]
pub(super) struct PartitionJob {
    pub partition: usize,
    /// The chunks whose rows are grouped.
    pub chunks: Range<usize>,
    rows: usize,
    /// True if the job has all rows of the partition.
    pub is_whole: bool,
}

/// Maps the rows of a job to rows of the wave.
struct JobRows<'w> {
    chunks: Vec<JobChunk<'w>>,
}

/// The rows of a job that are in one chunk.
struct JobChunk<'w> {
    /// The number of the job's rows in earlier chunks.
    start: usize,
    /// The number of the chunk in the wave.
    chunk: usize,
    rows: &'w [u16],
}

impl<'w> JobRows<'w> {
    fn new(orders: &'w [ChunkOrder], job: &PartitionJob) -> JobRows<'w> {
        let mut start = 0;
        let mut chunks = Vec::with_capacity(job.chunks.len());
        for chunk in job.chunks.clone() {
            let rows = orders[chunk].rows_of(job.partition);
            chunks.push(JobChunk { start, chunk, rows });
            start += rows.len();
        }
        JobRows { chunks }
    }

    /// Returns the rows of the wave that are rows `job_rows` of the job, which ascend.
    fn wave_rows(&self, job_rows: &[u32]) -> Result<Vec<u32>> {
        debug_assert!(job_rows.is_sorted(), "rows of a job ascend");
        let mut wave_rows = Vec::with_capacity(job_rows.len());
        let mut remaining = job_rows;
        for chunk in &self.chunks {
            let end = chunk.start + chunk.rows.len();
            let (rows, after) = remaining.split_at(remaining.partition_point(|&row| (row as usize) < end));
            let first_row = (chunk.chunk * CHUNK) as u32;
            wave_rows.extend(rows.iter().map(|&row| first_row + u32::from(chunk.rows[row as usize - chunk.start])));
            remaining = after;
        }
        if remaining.is_empty() { Ok(wave_rows) } else { Err(lost_row()) }
    }

    /// Returns the row of the wave that is row `job_row` of the job.
    fn wave_row(&self, job_row: u64) -> Result<u32> {
        let job_row = job_row as usize;
        let after = self.chunks.partition_point(|chunk| chunk.start <= job_row);
        let chunk = self.chunks[..after].last().ok_or_else(lost_row)?;
        let row = chunk.rows.get(job_row - chunk.start).ok_or_else(lost_row)?;
        Ok((chunk.chunk * CHUNK) as u32 + u32::from(*row))
    }
}

fn lost_row() -> Error {
    Error::internal("a group has no row in its partition")
}

/// The minimum number of rows of a partition that is split into several jobs.
const MIN_SPLIT_ROWS: usize = 1 << 18;

/// The partition of rows that are not selected.
const NONE: u8 = u8::MAX;

/// Moves the rows of a block that `masks` does not select to no partition.
fn exclude(partitions: &mut [u8], frame: &Frame<'_>, block: usize, masks: &[Option<Mask>]) {
    let mut start = 0;
    for ((_, rows), mask) in frame.spans(block).zip(masks) {
        let end = start + rows.len();
        if let Some(mask) = mask {
            for (row, partition) in partitions[start..end].iter_mut().enumerate() {
                if !mask.is_set(row) {
                    *partition = NONE;
                }
            }
        }
        start = end;
    }
    assert_eq!(start, partitions.len(), "each row of a block has a partition");
}

/// The order of a chunk's rows by partition, where the rows of a partition keep their order.
struct ChunkOrder {
    /// The selected rows in that order.
    rows: Vec<u16>,
    /// The position of each row in that order; `NO_POSITION` for rows that are not selected. Columns are read in
    /// sequence, and written to these positions: values of a partition are written next to each other.
    positions: Vec<u16>,
    /// The position where each partition begins, and where the last one ends.
    starts: Vec<usize>,
}

/// The position of rows that are not selected. It is another row's only if all rows of a chunk are selected.
const NO_POSITION: u16 = u16::MAX;

impl ChunkOrder {
    /// Sorts the rows of a chunk, of which there are at most `CHUNK`, by partition.
    fn from_partitions(partitions: &[u8]) -> ChunkOrder {
        assert!(partitions.len() <= CHUNK, "{} rows of a chunk", partitions.len());
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
        let mut positions = vec![NO_POSITION; partitions.len()];
        for ((row, &partition), position) in partitions.iter().enumerate().zip(&mut positions) {
            let next = &mut next[usize::from(partition)];
            let Some(selected) = rows.get_mut(*next) else { continue };
            *selected = row as u16;
            *position = *next as u16;
            *next += 1;
        }
        ChunkOrder { rows, positions, starts }
    }

    fn rows_of(&self, partition: usize) -> &[u16] {
        &self.rows[self.starts[partition]..self.starts[partition + 1]]
    }

    /// Copies column number `column` of block `block` in this order.
    fn column(&self, frame: &Frame<'_>, block: usize, column: usize, schema: &SchemaRef) -> Result<ArrayData> {
        let start = frame.block_start(block);
        let selection = RowSelection::from_rows(frame, self.rows.iter().map(|&row| start + u64::from(row)));
        let fixed_width_columns = selection.fixed_width_columns(frame, schema, Some(column))?;
        selection.gather_column(frame, &fixed_width_columns, schema, column)
    }

    /// Writes the values of `width` bytes of the chunk's rows in `spans` to `out` in this order.
    fn copy_values(&self, width: usize, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        match width {
            1 => self.copy_fixed::<1>(spans, out),
            2 => self.copy_fixed::<2>(spans, out),
            4 => self.copy_fixed::<4>(spans, out),
            8 => self.copy_fixed::<8>(spans, out),
            _ => self.copy_fixed::<16>(spans, out),
        }
    }

    fn copy_fixed<const N: usize>(&self, spans: &[ArraySpan<'_>], out: &mut [u8]) -> Result<()> {
        let out = out.as_chunks_mut::<N>().0.get_mut(..self.rows.len()).ok_or_else(lost_row)?;
        let mut positions = &self.positions[..];
        for (array, rows) in spans {
            let values = fixed_values::<N>(array).get(rows.clone()).ok_or_else(lost_row)?;
            let (span_positions, rest) = positions.split_at_checked(values.len()).ok_or_else(lost_row)?;
            for (value, &position) in values.iter().zip(span_positions) {
                put(out, position, *value);
            }
            positions = rest;
        }
        if positions.is_empty() { Ok(()) } else { Err(lost_row()) }
    }
}

/// Returns the array and the rows of each span of a block.
fn block_spans<'a>(frame: &Frame<'a>, block: usize, column: usize) -> Result<Vec<ArraySpan<'a>>> {
    frame.spans(block).map(|(part, rows)| Ok((frame.checked(part, column)?, rows))).collect()
}

/// Returns the width of the range of the integers in the first block of column `key`. Returns `None` for other columns,
/// and if the range has more than four numbers for each row of the dataset, so that a table with an entry for each is
/// too large.
fn integers_width(frame: &Frame<'_>, key: usize) -> Result<Option<usize>> {
    let mut range: Option<(i64, i64)> = None;
    for (array, rows) in block_spans(frame, 0, key)? {
        if !is_stored_as_integer(array.data_type()) || !matches!(fixed_width(array.data_type()), Some(2 | 4 | 8)) {
            return Ok(None);
        }
        let mut numbers = vec![0; rows.len()];
        for_each_word(array, &rows, &mut numbers, |number, word| *number = word as i64)?;
        let valid = Mask::from_validity(array, &rows);
        for (row, &number) in numbers.iter().enumerate() {
            // The numbers under nulls are not keys.
            if valid.as_ref().is_none_or(|valid| valid.is_set(row)) {
                let (low, high) = range.unwrap_or((number, number));
                range = Some((low.min(number), high.max(number)));
            }
        }
    }
    let Some((low, high)) = range else { return Ok(None) };
    let width = high.wrapping_sub(low) as u64;
    Ok(if width / 4 <= frame.num_rows() { usize::try_from(width).ok() } else { None })
}

/// Calls `work` with the element of `out` and the word of each row of integers. Nulls have arbitrary words.
fn for_each_word<T>(array: &ArrayData, rows: &Range<usize>, out: &mut [T], work: impl Fn(&mut T, u64)) -> Result<()> {
    match fixed_width(array.data_type()) {
        Some(2) => for_each_value(array, rows, out, work, word_of_2(array.data_type())),
        Some(4) => for_each_value(array, rows, out, work, word_of_4(array.data_type())),
        Some(8) => for_each_value(array, rows, out, work, u64::from_le_bytes),
        _ => Err(Error::internal("keys are no integers")),
    }
}

#[inline]
fn for_each_value<T, const N: usize>(
    array: &ArrayData,
    rows: &Range<usize>,
    out: &mut [T],
    work: impl Fn(&mut T, u64),
    word: impl Fn([u8; N]) -> u64,
) -> Result<()> {
    let values = fixed_values::<N>(array).get(rows.clone()).ok_or_else(lost_row)?;
    for (out, raw) in out.iter_mut().zip(values) {
        work(out, word(*raw));
    }
    Ok(())
}

/// Mixes hashes of a column's values, which are equal for equal keys, into the hashes of the columns before it.
fn add_hashes(array: &ArrayData, rows: Range<usize>, hashes: &mut [u64]) -> Result<()> {
    use DataType::*;
    let has_nulls = array.nulls().is_some_and(|nulls| nulls.null_count() > 0);
    match array.data_type() {
        data_type
            if is_stored_as_integer(data_type) && matches!(fixed_width(data_type), Some(2 | 4 | 8)) && !has_nulls =>
        {
            for_each_word(array, &rows, hashes, |hash, word| *hash = mix(*hash, word))?;
        }
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView if !has_nulls => {
            let texts = Texts::try_new(array)?;
            let mut long_texts = Vec::new();
            let mut number = 0;
            texts.each_short(rows.clone(), |len, bytes| {
                match hashes.get_mut(number).filter(|_| len < 16) {
                    Some(hash) => *hash = mix_wide(*hash, pack_short_text(len, bytes)),
                    None => long_texts.push(number),
                }
                number += 1;
            })?;
            for number in long_texts {
                hashes[number] = mix_bytes(hashes[number], texts.get(rows.start + number)?);
            }
        }
        _ => {
            for (row, hash) in rows.zip(hashes) {
                *hash = match key_part(array, row)? {
                    KeyPart::Null => mix(*hash, 0),
                    KeyPart::Word(word) => mix(*hash, word),
                    KeyPart::Bytes(bytes) => mix_bytes(*hash, bytes),
                };
            }
        }
    }
    Ok(())
}

/// Mixes a word into a hash: combines both halves of a product, as its upper bits depend on all others. The hash is the
/// same in each run, so that results are reproducible.
#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash.rotate_left(32) ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn mix_wide(hash: u64, word: u128) -> u64 {
    mix(mix(hash, word as u64), (word >> 64) as u64)
}

fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let packed = pack_text(bytes);
    let (LONG, Some(last)) = (packed, bytes.last_chunk::<8>()) else { return mix_wide(hash, packed) };
    let mut hash = mix(hash, bytes.len() as u64);
    for word in bytes.as_chunks::<8>().0 {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    // The last 8 bytes may overlap the words before them.
    mix(hash, u64::from_le_bytes(*last))
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

    /// Enough rows for two waves of a watched aggregation.
    const ROWS: i64 = 1_100_000;

    type Row = (Option<i64>, Option<i64>, f64);

    /// Returns the key, integer and float of a row; there are about 120,000 keys, most of them in both waves.
    fn row(number: i64) -> Row {
        let random = mix(0, number as u64);
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
            // Values below nulls must be ignored.
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

    /// The key, the number of rows, the sum and count of the integers, the smallest text, the sum of the floats, and the
    /// integer of the last row.
    type Expected = (Option<i64>, i128, i128, i128, Option<String>, f64, Option<i64>);

    /// Returns the expected result of each key, in order of appearance.
    fn naive() -> Vec<Expected> {
        let (mut places, mut groups) = (HashMap::new(), Vec::new());
        for (key, integer, float) in (0..ROWS).map(row).filter(|row| row.2 >= 1000.0) {
            let index = *places.entry(key).or_insert(groups.len());
            if index == groups.len() {
                groups.push((key, 0, 0, 0, None::<String>, 0.0, None));
            }
            let group = &mut groups[index];
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
    fn very_many_groups_equal_a_naive_loop_in_one_wave_and_in_several() {
        let (dataset, expected) = (dataset(), naive());
        let ignore = |_: AggregationProgress| Ok(());
        for by in [&["near"][..], &["narrow"], &["far"], &["real"], &["text"], &["text", "far"]] {
            for is_watched in [false, true] {
                let query = dataset.aggregate(by).filter(col("x").ge(1000.0)).count_rows("rows");
                let query = query.column_as("sum", "n", AggregateFunction::Sum).column_as(
                    "count",
                    "n",
                    AggregateFunction::Count,
                );
                let query = query.column_as("least", "text", AggregateFunction::Min).column_as(
                    "mean",
                    "x",
                    AggregateFunction::Mean,
                );
                let query = query.column_as("last", "n", AggregateFunction::Last);
                let query = if is_watched { query.on_progress(1 << 20, &ignore) } else { query };
                let result = query.column_as("keys", "near", AggregateFunction::Max).finish().unwrap();
                result.validate(|_, _| ()).unwrap();
                assert_eq!(result.len().unwrap(), expected.len() as u64, "{by:?}");
                let column = |name: &str| result.column(name).unwrap();
                let columns = ["keys", "rows", "sum", "count", "least", "mean", "last"].map(column);
                for (number, expected) in expected.iter().enumerate() {
                    let value_in = |column: usize| columns[column].get(number as u64).unwrap();
                    let text = |column: usize| value_in(column).to_string();
                    let or_null = |text: Option<String>| text.unwrap_or("null".into());
                    assert_eq!(text(0), or_null(expected.0.map(|key| key.to_string())), "{by:?}: group {number}");
                    assert_eq!([1, 2, 3].map(text), [expected.1, expected.2, expected.3].map(|n| n.to_string()));
                    assert_eq!(text(4), or_null(expected.4.clone()));
                    assert_eq!(text(6), or_null(expected.6.map(|n| n.to_string())));
                    let mean = value_in(5);
                    let Value::Float64(mean) = mean else { panic!("{mean}") };
                    assert!((mean * expected.1 as f64 / expected.5 - 1.0).abs() < 1e-12);
                }
            }
        }
    }

    /// The partition of a frequent key is divided into several jobs.
    #[test]
    fn frequent_keys_form_one_group() {
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
            let index = *places.entry(key(row)).or_insert(groups.len());
            if index == groups.len() {
                groups.push((key(row), 0, 0.0, 0));
            }
            let (_, count, sum, last) = &mut groups[index];
            (*count, *sum, *last) = (*count + 1, *sum + row as f64 / 3.0, row);
        }
        let dataset = Dataset::try_from(vec![batch(0..100_000), batch(100_000..ROWS)]).unwrap();
        for by in ["far", "text"] {
            let query = dataset.aggregate(&[by]).count_rows("rows").column_as("sum", "x", AggregateFunction::Sum);
            let result = query
                .column_as("last", "n", AggregateFunction::Last)
                .column_as("least", "text", AggregateFunction::Min)
                .finish()
                .unwrap();
            result.validate(|_, _| ()).unwrap();
            assert_eq!(result.len().unwrap(), groups.len() as u64);
            let columns = ["rows", "sum", "last", "least"].map(|name| result.column(name).unwrap());
            for (number, (key, count, sum, last)) in groups.iter().enumerate() {
                let text_in = |column: usize| columns[column].get(number as u64).unwrap().to_string();
                assert_eq!(
                    [text_in(0), text_in(2), text_in(3)],
                    [count.to_string(), last.to_string(), key.to_string()],
                    "{by}"
                );
                assert!((text_in(1).parse::<f64>().unwrap() / sum - 1.0).abs() < 1e-12 || *sum == 0.0);
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
            let result = dataset
                .aggregate(by)
                .count_rows("rows")
                .column_as("sum", "n", AggregateFunction::Sum)
                .finish()
                .unwrap();
            let sums: Vec<i128> =
                result.column("sum").unwrap().values().map(|v| v.unwrap().to_string().parse().unwrap()).collect();
            let counts: Vec<i128> =
                result.column("rows").unwrap().values().map(|v| v.unwrap().to_string().parse().unwrap()).collect();
            assert_eq!(sums.len(), 150_001);
            assert!(
                sums.iter().zip(&counts).zip(n.iter()).all(|((sum, count), n)| *sum == i128::from(n.unwrap()) * count)
            );
        }
    }

    /// Such columns are dictionaries with more values than there are keys, and lists, which are only counted.
    #[test]
    fn columns_that_do_not_fit_partitions_are_grouped_in_place() {
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
            let query = dataset.aggregate(by).count_rows("rows");
            let query =
                count.iter().fold(query, |query, name| query.column_as("count", name, AggregateFunction::Count));
            let result = query.finish().unwrap();
            result.validate(|_, _| ()).unwrap();
            let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string() + " ").collect();
            result.rows().map(|result| row(result.unwrap())).collect()
        };
        assert_eq!(texts(&["n", "kind"], None), texts(&["n", "text"], None));
        let counted = texts(&["n"], Some("items"));
        assert_eq!(counted.len(), 30_011);
        // Rows 0 and 30,011 have the same key; only one of them has a list.
        assert_eq!(counted[..2], ["0 2 1 ", "7919 2 1 "]);
    }

    /// Keys around 0 are mapped to adjacent unsigned words, and values below nulls are ignored.
    #[test]
    fn signed_keys_around_zero_are_dense() {
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

    /// Texts of all lengths lie in views, in the dataset, in more batches than a chunk refers to, and in slices.
    #[test]
    fn texts_in_all_layouts_are_keys() {
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
            let original = Dataset::try_from((0..210_000).step_by(len).map(batch).collect::<Vec<_>>()).unwrap();
            let dataset = original.slice(123, 200_000).unwrap();
            let cells = |by: &[&str]| -> Vec<String> {
                let query =
                    dataset.aggregate(by).filter(col("n").ne(17)).column_as("count", "n", AggregateFunction::Count);
                let query = query.column_as("first", "view", AggregateFunction::Min).column_as(
                    "last",
                    "n",
                    AggregateFunction::Last,
                );
                let result = query.column_as("key", "n", AggregateFunction::Max).finish().unwrap();
                result.validate(|_, _| ()).unwrap();
                let cell = |(name, value): (&str, Result<Value<'_>>)| format!("{name} {} ", value.unwrap());
                let values_of = |row: crate::Row<'_>| row.iter().skip(by.len()).map(cell).collect();
                result.rows().map(|row| values_of(row.unwrap())).collect()
            };
            let expected = cells(&["n"]);
            assert!(expected.len() > 59_900);
            for by in [&["text"][..], &["large"], &["view"], &["bytes"], &["text", "view"]] {
                assert_eq!(cells(by), expected, "{by:?} in batches of {len}");
            }
            let keys = dataset.aggregate(&["large"]).count_rows("rows").finish().unwrap().column("large").unwrap();
            let expected_keys = dataset.aggregate(&["n"]).count_rows("rows").finish().unwrap().column("n").unwrap();
            for (key, n) in keys.values().zip(expected_keys.values()) {
                let n = match n.unwrap() {
                    Value::Int(n) => text(n as usize),
                    other => other.to_string(),
                };
                assert_eq!(key.unwrap().to_string(), n);
            }
        }
    }
}
