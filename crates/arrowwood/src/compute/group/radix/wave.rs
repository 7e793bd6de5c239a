//! Groups rows in partitions by the hashes of their keys, where there are very many groups.
//!
//! The groups of a partition fit into the cache of a thread. As no group is in two partitions, the results of threads
//! need no merge.
//!
//! Rows are processed in waves of many chunks. First, each chunk of a wave is sorted by partition, with the columns
//! that are needed. Then each partition groups its rows of all chunks, in their order. Therefore the result depends
//! only on the rows.
//!
//! A row has a number in each of these: in the frame, which has all rows; in its wave, which begins at row
//! [`Wave::start`] of the frame; in its chunk, by 16 bits; and in its [`PartitionJob`], which has the rows of one
//! partition in several chunks. [`JobRows`] translates the last into rows of the wave.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::chunk_order::{CHUNK, ChunkOrder, PARTITIONS, block_spans, exclude, lost_row};
use super::key_hash::{add_hashes, for_each_word, integers_width};
use super::text_views::TextViewBuilder;
use crate::array::access::{Texts, fixed_width};
use crate::array::{ArrayParts, build_buffer, slice};
use crate::compute::gather::RowSelection;
use crate::compute::group::keys::{GroupScratch, Groups, KeyPart, group, key_part};
use crate::compute::group::state::{ComputedColumns, GroupState, GroupTable, StateKind};
use crate::compute::scan::Frame;
use crate::compute::selection::Mask;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::parallel;
use crate::types::{VIEW_WIDTH, is_text_or_binary};

/// The maximum number of bytes of a wave.
const MAX_WAVE_BYTES: usize = 1 << 28;
/// The maximum number of rows of a wave.
const MAX_WAVE_ROWS: usize = 1 << 23;
/// The approximate number of bytes that are read and written to sort a row by partition, or to copy a value.
const BYTES_PER_ROW: usize = 16;
/// The maximum width of values that are copied into partitions.
const MAX_VALUE_WIDTH: usize = 32;
/// The minimum number of rows of a partition that is split into several jobs.
const MIN_SPLIT_ROWS: usize = 1 << 18;
/// The minimum number of rows of a partition that is split, as a multiple of the average.
const MIN_SPLIT_FACTOR: usize = 4;

/// The columns that groups and their states need.
pub(in crate::compute::group) struct InputColumns {
    /// The numbers of the columns in the dataset, in order. `keys` and `kinds` have indices in this list.
    columns: Vec<usize>,
    keys: Vec<usize>,
    kinds: Vec<StateKind>,
    /// The schema of `columns`.
    schema: SchemaRef,
    dataset_schema: SchemaRef,
    /// For one key of integers that lie close together, the number of low bits that do not determine the partition, so
    /// that the keys of a partition lie close together, too. `None` if the hash of the keys determines the partition.
    shift: Option<u32>,
}

/// A wave: the selected rows of consecutive chunks, in partitions. [`Wave::jobs`] divides the partitions into jobs,
/// which threads group independently of each other.
pub(in crate::compute::group) struct Wave<'w, 'a> {
    frame: &'w Frame<'a>,
    needed: &'w InputColumns,
    /// The wave's first row.
    start: u64,
    /// The order of the rows of each chunk.
    orders: Vec<ChunkOrder>,
    /// The copies of [`InputColumns::columns`].
    columns: Vec<WaveColumn>,
    /// The schema of the columns in partitions.
    schema: SchemaRef,
    /// The maximum number of groups of a job so far, as the next one has about as many. It only decides how much memory
    /// is allocated at first, so threads read and write it with relaxed ordering.
    expected: AtomicUsize,
}

/// A column in the order of each chunk.
enum WaveColumn {
    /// One array for all chunks, each of which begins at a multiple of `CHUNK`.
    Whole(ArrayData),
    /// An array for each chunk.
    Chunks(Vec<ArrayData>),
    /// An array for each chunk, with views of texts that stay in the dataset.
    Views(Vec<ArrayData>),
}

impl WaveColumn {
    /// Returns `len` rows of a chunk from position `start` of its order on.
    fn rows(&self, chunk: usize, start: usize, len: usize) -> ArrayData {
        match self {
            WaveColumn::Whole(array) => slice(array, chunk * CHUNK + start, len),
            WaveColumn::Chunks(arrays) | WaveColumn::Views(arrays) => slice(&arrays[chunk], start, len),
        }
    }
}

impl InputColumns {
    /// Finds the columns that groups by the columns `keys` and states of `kinds` need.
    pub(in crate::compute::group) fn build(
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
    pub(in crate::compute::group) fn wave_rows(&self, dataset: &Dataset) -> Result<usize> {
        /// The bytes of a row besides its values: its number in its chunk's order, and its hash.
        const ORDER_BYTES: usize = 16;
        let mut row_bytes = ORDER_BYTES;
        for &column in &self.columns {
            row_bytes += dataset.column_at(column)?.bytes_per_row();
        }
        Ok((MAX_WAVE_BYTES / row_bytes).clamp(CHUNK, MAX_WAVE_ROWS))
    }

    /// Computes the partition of each row of a block. `hashes` is reused memory.
    fn partitions(&self, frame: &Frame<'_>, block: usize, hashes: &mut Vec<u64>) -> Result<Vec<u8>> {
        let len = frame.spans(block).map(|(_, rows)| rows.len()).sum();
        match (&self.keys[..], self.shift) {
            (&[key], Some(shift)) => self.partitions_by_value(frame, block, (key, shift), len),
            _ => self.partitions_by_hash(frame, block, hashes, len),
        }
    }

    /// Computes the partitions of `len` rows by key number `key`, an integer, without its `shift` low bits.
    fn partitions_by_value(
        &self,
        frame: &Frame<'_>,
        block: usize,
        (key, shift): (usize, u32),
        len: usize,
    ) -> Result<Vec<u8>> {
        let mut partitions = vec![0; len];
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
        Ok(partitions)
    }

    /// Computes the partitions of `len` rows by the upper bits of the hashes of all keys.
    fn partitions_by_hash(
        &self,
        frame: &Frame<'_>,
        block: usize,
        hashes: &mut Vec<u64>,
        len: usize,
    ) -> Result<Vec<u8>> {
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
        Ok(hashes.iter().map(|hash| (hash >> (u64::BITS - PARTITIONS.ilog2())) as u8).collect())
    }
}

/// Returns the index of column number `column` among the sorted `columns`.
fn column_index(columns: &[usize], column: usize) -> Result<usize> {
    let index = columns.binary_search(&column);
    index.map_err(|_| Error::internal(format!("column {column} is none of those that groups need")))
}

impl<'w, 'a> Wave<'w, 'a> {
    /// Sorts the rows of `chunks`, blocks of `frame`; `masks` has the selected rows of each span of a block.
    pub(in crate::compute::group) fn build(
        frame: &'w Frame<'a>,
        needed: &'w InputColumns,
        chunks: Range<usize>,
        masks: impl Fn(usize) -> Result<Vec<Option<Mask>>> + Sync,
    ) -> Result<Wave<'w, 'a>> {
        let start = frame.block_start(chunks.start);
        let bytes = chunks.len().saturating_mul(BYTES_PER_ROW * CHUNK);
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
        let bytes = self.orders.len().saturating_mul(BYTES_PER_ROW * CHUNK);
        let arrays = parallel::map(self.orders.len(), bytes, |chunk| {
            self.orders[chunk].column(self.frame, first + chunk, column, &self.needed.dataset_schema)
        });
        Ok(WaveColumn::Chunks(arrays.into_iter().collect::<Result<_>>()?))
    }

    /// Returns true if column number `column` of the dataset has a null in a batch of the wave.
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

        let chunk_bytes = CHUNK * VIEW_WIDTH;
        let bytes = chunks.len() * chunk_bytes;
        // One allocation for all chunks gets larger pages.
        let views = build_buffer(bytes, |out| {
            let jobs = out.chunks_mut(chunk_bytes).zip(chunks.iter().zip(&self.orders)).map(Ok);
            parallel::try_map(
                jobs,
                bytes,
                |_| chunk_bytes,
                |(out, (chunk, order)): (&mut [u8], (&TextViewBuilder<'_>, &ChunkOrder))| {
                    chunk.write(&order.positions, &mut out[..order.rows.len() * VIEW_WIDTH])
                },
                || (),
            )
            .map(|_| ())
        })?;

        parallel::try_map(
            chunks.into_iter().zip(&self.orders).enumerate().map(Ok),
            bytes,
            |_| chunk_bytes,
            |(number, (chunk, order)): (usize, (TextViewBuilder<'_>, &ChunkOrder))| {
                let chunk_views = views.slice_with_length(number * chunk_bytes, order.rows.len() * VIEW_WIDTH);
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
            let is_small = is_small || fixed_width(data_type).is_some_and(|width| width <= MAX_VALUE_WIDTH);
            return if is_small { Ok(()) } else { Err(Error::unsupported("large values in partitions")) };
        }
        let bytes = self.orders.len().saturating_mul(BYTES_PER_ROW * CHUNK);
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
    pub(in crate::compute::group) fn rows(&self) -> usize {
        self.orders.iter().map(|order| order.rows.len()).sum()
    }

    /// Returns the jobs of all partitions, the largest first. A partition with many times the rows of others, such as
    /// the partition of a frequent key, has several jobs.
    pub(in crate::compute::group) fn jobs(&self) -> Vec<PartitionJob> {
        let max_rows = (MIN_SPLIT_FACTOR * self.rows() / PARTITIONS).max(MIN_SPLIT_ROWS);
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
    pub(in crate::compute::group) fn groups(
        &self,
        job: &PartitionJob,
        scratch: &mut GroupScratch,
    ) -> Result<(Groups<'a>, Vec<GroupState<'a>>)> {
        self.with_groups(job, scratch, |_, job_groups, firsts, states| Ok((self.relocate(job_groups, firsts)?, states)))
    }

    /// Returns the groups of a whole partition, with their keys. There must be no other wave.
    pub(in crate::compute::group) fn table(
        &self,
        job: &PartitionJob,
        scratch: &mut GroupScratch,
    ) -> Result<GroupTable<'a>> {
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
        // The job's rows become a dataset of one block, where all rows are selected.
        let parts = self.job_chunks(job);
        let masks = vec![None; parts.len()];
        let dataset = Dataset::from_arrays(self.schema.clone(), parts);
        let frame = Frame::try_new(&dataset)?.with_block_rows(usize::MAX);

        scratch.expected = self.expected.load(Ordering::Relaxed);
        let mut job_groups = group(&frame, 0, &self.needed.keys, &masks, scratch)?;
        self.expected.fetch_max(job_groups.count(), Ordering::Relaxed);

        // States refer to rows of the job, and then to rows of the frame.
        let job_rows = JobRows::new(&self.orders, job);
        let no_formulas = ComputedColumns { columns: self.needed.columns.len(), formulas: &[] };
        let mut states = Vec::with_capacity(self.needed.kinds.len());
        for &kind in &self.needed.kinds {
            let state = GroupState::from_block(kind, &frame, 0, &job_groups, &no_formulas)?;
            states.push(state.relocate(
                kind,
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
pub(in crate::compute::group) struct PartitionJob {
    pub partition: usize,
    /// The chunks whose rows are grouped.
    pub chunks: Range<usize>,
    /// The number of rows.
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
    /// The rows of the chunk that are rows of the job.
    rows: &'w [u16],
}

impl JobChunk<'_> {
    /// Returns the row of the wave that is the first row of the chunk.
    #[inline]
    fn first_wave_row(&self) -> u32 {
        (self.chunk * CHUNK) as u32
    }
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
            let first_row = chunk.first_wave_row();
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
        Ok(chunk.first_wave_row() + u32::from(*row))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::types::{Int8Type, Int64Type};
    use arrow_array::*;
    use arrow_buffer::NullBuffer;

    use super::*;
    use crate::compute::group::radix::key_hash::mix;
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

    /// The expected result of a group.
    #[derive(Default)]
    struct Expected {
        key: Option<i64>,
        rows: i128,
        sum: i128,
        count: i128,
        /// The same in all rows of the group.
        text: Option<String>,
        float_sum: f64,
        last: Option<i64>,
    }

    /// Returns the expected result of each key, in order of appearance.
    fn naive() -> Vec<Expected> {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::new());
        for (key, integer, float) in (0..ROWS).map(row).filter(|(_, _, float)| *float >= 1000.0) {
            let number = *numbers.entry(key).or_insert(groups.len());
            if number == groups.len() {
                let text = key.map(|key| format!("{key} is a key"));
                groups.push(Expected { key, text, ..Expected::default() });
            }
            let group = &mut groups[number];
            group.rows += 1;
            group.sum += i128::from(integer.unwrap_or(0));
            group.count += i128::from(integer.is_some());
            group.float_sum += float;
            group.last = integer;
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
                let columns =
                    ["keys", "rows", "sum", "count", "least", "last"].map(|name| result.column(name).unwrap());
                let means = result.column("mean").unwrap();
                for (number, expected) in expected.iter().enumerate() {
                    let actual = columns.each_ref().map(|column| column.get(number as u64).unwrap().to_string());
                    let or_null = |text: Option<String>| text.unwrap_or("null".into());
                    let texts = [
                        or_null(expected.key.map(|key| key.to_string())),
                        expected.rows.to_string(),
                        expected.sum.to_string(),
                        expected.count.to_string(),
                        or_null(expected.text.clone()),
                        or_null(expected.last.map(|last| last.to_string())),
                    ];
                    assert_eq!(actual, texts, "{by:?}: group {number}");
                    let mean = means.get(number as u64).unwrap();
                    let Value::Float64(mean) = mean else { panic!("{mean}") };
                    assert!((mean * expected.rows as f64 / expected.float_sum - 1.0).abs() < 1e-12);
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
