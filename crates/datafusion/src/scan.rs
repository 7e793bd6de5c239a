//! [`Scan`]: the execution plan that reads a table in splits, which DataFusion runs in parallel.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use arrowwood::{Dataset, Predicate};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use futures::stream::poll_fn;

use crate::cancel_token::CancelToken;
use crate::error::to_external_error;
use crate::exact_size::{BufferOrigin, DictionaryCache};
use crate::pushdown::{Condition, conjunction};
use crate::statistics;

/// The maximum number of rows that are filtered or copied at once: few enough for the caches of one core.
const CHUNK_ROWS: u64 = 1 << 17;
/// The maximum bytes of rows that are filtered or copied at once.
const MAX_CHUNK_BYTES: u64 = 64 << 20;
/// The minimum number of rows of a split, as fewer are not worth a task.
const MIN_SPLIT_ROWS: u64 = 1 << 14;

/// The columns and rows that a query reads of a table.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The rows of the table. Each scan of a query gets the same `Arc`.
    pub snapshot: Arc<Dataset>,
    /// The indices of the columns to return.
    pub columns: Vec<usize>,
    /// The schema of these columns.
    pub schema: SchemaRef,
    /// The conditions that rows have to satisfy, bound to `snapshot`. Those that are not
    /// [exact](Condition::is_exact()) may leave other rows, too.
    pub conditions: Vec<Condition>,
    /// The maximum number of rows to return; `None` for all.
    pub limit: Option<usize>,
    /// The number of splits to make if there are enough rows.
    pub target_splits: usize,
    /// True if rows are copied before DataFusion sees them.
    pub is_copied: bool,
}

/// The execution plan that reads the rows of a [`Table`](crate::Table) for one query.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Held so that other mentions of the table in the query read the same rows.
    snapshot: Arc<Dataset>,
    /// The rows of each split: the requested columns, followed by the other columns of the condition.
    splits: Arc<[Dataset]>,
    /// The condition that is evaluated for each row, as pruning does not settle it.
    condition: Option<Predicate>,
    schema: SchemaRef,
    is_copied: bool,
    options: ScanOptions,
    fetch: Option<usize>,
    /// The statistics of all splits together, followed by the statistics of each split.
    statistics: Arc<[Arc<Statistics>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// Settings of a scan in a query that a server answers.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Ends the scan before it reads the next rows.
    pub cancel: CancelToken,
    /// True if operators that read the rows account for their memory: a buffer then counts as the bytes in use.
    pub has_exact_buffers: bool,
    /// True to return all rows that were read at once in one batch, even if the session wants fewer.
    pub is_unsliced: bool,
}

impl Scan {
    /// Plans a scan: finds the rows that may satisfy the conditions, and divides them into splits.
    ///
    /// # Errors
    /// `External` with an error of Arrowwood if the rows can't be read; other errors if the columns, their schema or
    /// the conditions are not those of the snapshot.
    pub fn try_new(request: ScanRequest) -> Result<Scan> {
        let ScanRequest { snapshot, columns, schema, conditions, limit, target_splits, is_copied } = request;
        if columns.len() != schema.fields().len() {
            return internal_err!("{} columns have a schema of {}", columns.len(), schema.fields().len());
        }
        let order = order_of(&snapshot, &schema, &conditions);
        let keys = partition_keys(&snapshot);
        let mut unsettled = Vec::new();
        for condition in &conditions {
            if condition.is_exact && !is_settled(order.as_ref(), &keys, condition) {
                unsettled.push(condition);
            }
        }
        let condition = conjunction(unsettled.iter().copied());

        let mut rows = match conjunction(&conditions) {
            Some(predicate) => snapshot.prune(&predicate).map_err(to_external_error)?,
            None => snapshot.as_ref().clone(),
        };
        if let (Some(limit), None) = (limit, &condition) {
            rows = rows.head(limit as u64).map_err(to_external_error)?;
        }

        let mut read_columns = columns;
        for name in unsettled.iter().flat_map(|condition| &condition.columns) {
            let index = snapshot.schema().index_of(name)?;
            if !read_columns.contains(&index) {
                read_columns.push(index);
            }
        }
        let sorted = order.and_then(|field| sorted_column(&field, &schema));
        let rows = rows.select_at(&read_columns).map_err(to_external_error)?;
        let len = rows.len().map_err(to_external_error)?;
        if len <= CHUNK_ROWS && len < snapshot.len().map_err(to_external_error)? {
            // Without this, the first page fault in each column would read ahead far more than these few rows.
            rows.prefetch();
        }

        let splits = split_rows(&rows, target_splits)?;
        let statistics = split_statistics(&rows, &splits, &schema, sorted, condition.is_some())?;
        let properties = plan_properties(&schema, sorted, splits.len());
        Ok(Scan {
            snapshot,
            splits: splits.into(),
            condition,
            schema,
            is_copied,
            options: ScanOptions::default(),
            fetch: limit,
            statistics,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Returns a copy of the scan with other options.
    pub fn with_options(&self, options: ScanOptions) -> Scan {
        Scan { options, ..self.clone() }
    }

    /// Estimates the bytes of a row: the maximum over the splits of the mean width of their first rows.
    ///
    /// # Errors
    /// `External` with an error of Arrowwood if the rows can't be read.
    pub fn row_width(&self) -> Result<u64> {
        /// The number of rows of a split that are looked at.
        const SAMPLE_ROWS: u64 = 1 << 10;
        let mut max_width = 0;
        for split in self.splits.iter() {
            let sample = split.head(SAMPLE_ROWS).map_err(to_external_error)?;
            let rows = sample.len().map_err(to_external_error)?.max(1);
            max_width = max_width.max(sample.nbytes().map_err(to_external_error)? / rows);
        }
        Ok(max_width)
    }
}

/// Returns the column that all rows are sorted by, if it is returned or has bounds. Other queries do not use the order,
/// and finding it would read the first and last rows of segments.
fn order_of(snapshot: &Dataset, schema: &SchemaRef, conditions: &[Condition]) -> Option<FieldRef> {
    let field = snapshot.sorted_by()?;
    let is_returned = schema.column_with_name(field.name()).is_some();
    let has_bounds = conditions.iter().any(|condition| condition.bounded.as_ref() == Some(field.name()));
    ((is_returned || has_bounds) && snapshot.is_ascending()).then_some(field)
}

/// Returns the partition columns on which a condition holds for all rows of a partition or for none.
fn partition_keys(snapshot: &Dataset) -> Vec<String> {
    // Partitions know their columns by the original names.
    if snapshot.is_renamed() {
        return Vec::new();
    }
    let mut keys = Vec::new();
    if let Some(first) = snapshot.partitions().into_iter().next() {
        for (name, _) in first.keys {
            let field = snapshot.schema().field_with_name(&name);
            if field.is_ok_and(|field| has_exact_partition_value(field.data_type())) {
                keys.push(name);
            }
        }
    }
    keys
}

/// Returns true if [`Dataset::prune`] leaves exactly the rows for which the condition is true.
fn is_settled(order: Option<&FieldRef>, keys: &[String], condition: &Condition) -> bool {
    assert!(!condition.columns.is_empty(), "a condition without columns would be left out");
    let sorted = order.filter(|field| *field.data_type() != DataType::Date64);
    let is_bounds = sorted.is_some_and(|field| condition.bounded.as_ref() == Some(field.name()));
    is_bounds || condition.columns.iter().all(|name| keys.contains(name))
}

/// Returns true if a partition's value of this type is compared as its rows would be.
fn has_exact_partition_value(data_type: &DataType) -> bool {
    let values = match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    values.is_integer() || matches!(values, DataType::Utf8 | DataType::Date32)
}

/// Returns the index in `schema` of the column that all rows are sorted by, if DataFusion orders it in the same way.
fn sorted_column(field: &FieldRef, schema: &SchemaRef) -> Option<usize> {
    let (index, _) = schema.column_with_name(field.name()).filter(|_| has_same_order(field.data_type()))?;
    Some(index)
}

/// Returns true if DataFusion orders values of this type as tables do. It orders NaN, and the milliseconds within a
/// day, differently.
pub(crate) fn has_same_order(data_type: &DataType) -> bool {
    !data_type.is_floating() && *data_type != DataType::Date64
}

/// Divides `rows` into `target` ranges of about the same size, or fewer if there are few rows.
fn split_rows(rows: &Dataset, target: usize) -> Result<Vec<Dataset>> {
    let len = rows.len().map_err(to_external_error)?;
    let count = len.div_ceil(MIN_SPLIT_ROWS).clamp(1, target.max(1) as u64);
    if count == 1 {
        return Ok(vec![rows.clone()]);
    }
    let mut splits = Vec::with_capacity(count as usize);
    let mut start = 0;
    for number in 1..=count {
        let end = (u128::from(len) * u128::from(number) / u128::from(count)) as u64;
        assert!(start <= end && end <= len, "split {number} of {count} is rows {start}..{end} of {len}");
        splits.push(rows.slice(start, end - start).map_err(to_external_error)?);
        start = end;
    }
    assert_eq!(start, len, "the splits have all rows");
    Ok(splits)
}

/// Returns the statistics of all rows, followed by the statistics of each split; estimates if rows are still filtered.
fn split_statistics(
    rows: &Dataset,
    splits: &[Dataset],
    schema: &SchemaRef,
    sorted: Option<usize>,
    is_filtered: bool,
) -> Result<Arc<[Arc<Statistics>]>> {
    let returned_columns: Vec<usize> = (0..schema.fields().len()).collect();
    let mut all = Vec::with_capacity(splits.len() + 1);
    for rows in std::iter::once(rows).chain(splits) {
        let rows = rows.select_at(&returned_columns).map_err(to_external_error)?;
        let statistics = statistics::compute(&rows, sorted).map_err(to_external_error)?;
        all.push(Arc::new(if is_filtered { statistics.to_inexact() } else { statistics }));
    }
    assert_eq!(all.len(), splits.len() + 1, "all rows and each split have statistics");
    Ok(all.into())
}

fn plan_properties(schema: &SchemaRef, sorted: Option<usize>, splits: usize) -> PlanProperties {
    let mut orders = Vec::new();
    if let Some(index) = sorted {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(index).name(), index));
        // The column has no nulls, so both orders hold.
        for nulls_first in [false, true] {
            let options = SortOptions { descending: false, nulls_first };
            orders.push(vec![PhysicalSortExpr::new(column.clone(), options)]);
        }
    }
    let equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), orders);
    let partitioning = Partitioning::UnknownPartitioning(splits);
    PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded)
        .with_scheduling_type(SchedulingType::Cooperative)
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Printed for rows that can't be counted: reading them reports the error.
        const UNKNOWN_ROWS: u64 = 0;
        let rows = self.splits.iter().try_fold(0, |sum, split| Ok::<_, arrowwood::Error>(sum + split.len()?));
        let rows = rows.unwrap_or(UNKNOWN_ROWS);
        let snapshot_rows = self.snapshot.len().unwrap_or(UNKNOWN_ROWS);
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ArrowwoodScan: rows={rows} of {snapshot_rows}")?;
        write!(f, ", splits={}, projection=[{}]", self.splits.len(), names.join(", "))?;
        if let Some(condition) = &self.condition {
            write!(f, ", where={condition}")?;
        }
        if let Some(order) = self.properties.output_ordering() {
            write!(f, ", ordering=[{order}]")?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &str {
        "ArrowwoodScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rows) = self.splits.get(partition) else {
            return internal_err!("split {partition} of {}", self.splits.len());
        };
        let mut reader = SplitReader {
            rows: rows.clone(),
            next_row: 0,
            condition: self.condition.clone(),
            schema: self.schema.clone(),
            is_copied: self.is_copied,
            buffer_origin: self.options.has_exact_buffers.then_some(BufferOrigin::Owned),
            dictionaries: DictionaryCache::default(),
            is_partitioned: !self.snapshot.partitions().is_empty(),
            max_batch_rows: if self.options.is_unsliced {
                usize::MAX
            } else {
                context.session_config().batch_size().max(1)
            },
            remaining: self.fetch.unwrap_or(usize::MAX),
            ready: VecDeque::new(),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let cancel = self.options.cancel.clone();
        let batches = poll_fn(move |context| {
            if let Err(e) = cancel.check() {
                return Poll::Ready(Some(Err(e)));
            }
            let batch = reader.poll();
            match &batch {
                Poll::Ready(Some(Ok(batch))) => metrics.record_output(batch.num_rows()),
                // Yield to other tasks before reading the next rows.
                Poll::Pending => context.waker().wake_by_ref(),
                Poll::Ready(_) => (),
            }
            batch.map(|batch| batch.map(|batch| batch.map_err(to_external_error)))
        });
        let stream = RecordBatchStreamAdapter::new(self.schema.clone(), batches);
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let number = args.partition().map_or(0, |partition| partition + 1);
        let Some(statistics) = self.statistics.get(number) else {
            return internal_err!("statistics of split {number} of {}", self.splits.len());
        };
        let Some(fetch) = self.fetch else { return Ok(statistics.clone()) };
        // The limit holds for each split.
        let splits = args.partition().map_or(&self.splits[..], |partition| &self.splits[partition..=partition]);
        let mut max_rows = 0_usize;
        for split in splits {
            let len = usize::try_from(split.len().map_err(to_external_error)?).unwrap_or(usize::MAX);
            max_rows = max_rows.saturating_add(len.min(fetch));
        }
        Ok(Arc::new(statistics.as_ref().clone().with_fetch(Some(max_rows), 0, 1)?))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Scan { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }
}

/// Reads the batches of one split.
struct SplitReader {
    rows: Dataset,
    /// The first row that was not read yet.
    next_row: u64,
    condition: Option<Predicate>,
    schema: SchemaRef,
    is_copied: bool,
    /// The origin of the buffers of the last rows, if operators account for their memory.
    buffer_origin: Option<BufferOrigin>,
    /// The dictionaries of earlier batches.
    dictionaries: DictionaryCache,
    is_partitioned: bool,
    max_batch_rows: usize,
    /// The number of rows until the limit.
    remaining: usize,
    /// Batches that were read and not returned yet.
    ready: VecDeque<RecordBatch>,
}

impl SplitReader {
    /// Reads the next chunk of rows into `ready`.
    fn read_chunk(&mut self) -> arrowwood::Result<()> {
        debug_assert!(self.ready.is_empty(), "{} batches are ready", self.ready.len());
        let mut rows = self.rows.slice(self.next_row, CHUNK_ROWS)?;
        if self.condition.is_some() || self.is_copied {
            (rows, _) = rows.head_within(MAX_CHUNK_BYTES)?;
        }

        let count = rows.len()?;
        assert!(count > 0, "a chunk at row {} has no rows", self.next_row);
        self.next_row += count;
        if let Some(condition) = &self.condition {
            rows = rows.filter(condition)?;
            if (self.remaining as u64) < rows.len()? {
                rows = rows.head(self.remaining as u64)?;
            }
        } else if self.is_copied {
            // `take` always copies; `collect` would return a single batch as it is.
            rows = rows.take(&(0..rows.len()? as i64).collect::<Vec<_>>())?;
        }

        let returned_columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let batches = rows.select_at(&returned_columns)?.to_record_batches().collect::<arrowwood::Result<Vec<_>>>()?;
        if self.buffer_origin.is_some() {
            // Filtered rows and the columns of partitions are in new memory.
            let footprint = rows.footprint();
            let is_mapped = footprint.mapped > 0 && footprint.copied == 0 && !self.is_partitioned;
            self.buffer_origin = Some(if is_mapped { BufferOrigin::Mapped } else { BufferOrigin::Owned });
        }
        self.ready.extend(batches.into_iter().filter(|batch| batch.num_rows() > 0));
        Ok(())
    }

    /// Returns the next batch; pending if no row of the chunk that was read matches the condition.
    fn poll(&mut self) -> Poll<Option<arrowwood::Result<RecordBatch>>> {
        if self.remaining == 0 {
            return Poll::Ready(None);
        }
        if self.ready.is_empty() {
            let is_finished = match self.rows.len() {
                Ok(len) if self.next_row >= len => Ok(true),
                Ok(_) => self.read_chunk().map(|()| false),
                Err(e) => Err(e),
            };
            match is_finished {
                Ok(true) => return Poll::Ready(None),
                Ok(false) => (),
                Err(e) => {
                    // An error ends the stream.
                    self.remaining = 0;
                    return Poll::Ready(Some(Err(e)));
                }
            }
        }
        match self.pop_batch() {
            Some(batch) => Poll::Ready(Some(batch)),
            None => Poll::Pending,
        }
    }

    /// Takes the next batch from `ready`, with at most as many rows as are allowed.
    fn pop_batch(&mut self) -> Option<arrowwood::Result<RecordBatch>> {
        let mut batch = self.ready.pop_front()?;
        let max_rows = self.max_batch_rows.min(self.remaining);
        if batch.num_rows() > max_rows {
            self.ready.push_front(batch.slice(max_rows, batch.num_rows() - max_rows));
            batch = batch.slice(0, max_rows);
        }
        assert!(batch.num_rows() <= self.remaining, "{} rows exceed the limit of {}", batch.num_rows(), self.remaining);
        self.remaining -= batch.num_rows();
        let batch = match self.buffer_origin {
            Some(origin) => origin.with_exact_buffers(&batch, &mut self.dictionaries).map_err(|e| {
                let message = format!("making a batch that DataFusion can keep: {e}");
                arrowwood::Error::new(arrowwood::ErrorKind::InvalidData, message)
            }),
            None => Ok(batch),
        };
        Some(batch.and_then(|batch| replace_schema(batch, &self.schema)))
    }
}

/// Returns the columns of `batch` under `schema`.
pub(crate) fn replace_schema(batch: RecordBatch, schema: &SchemaRef) -> arrowwood::Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options).map_err(|e| {
        let message = format!("making a batch for DataFusion: {e}");
        arrowwood::Error::new(arrowwood::ErrorKind::InvalidData, message)
    })
}
