//! [`Scan`]: the rows of a query, in splits that DataFusion reads in parallel.

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
use crate::exact_size::{BufferOrigin, DictionaryCache};
use crate::pushdown::{Condition, all};
use crate::{external, statistics};

/// Rows that are filtered or copied at once: few enough for one thread and its caches.
const CHUNK: u64 = 1 << 17;
/// The most bytes of rows that are copied at once.
const COPIED: u64 = 64 << 20;
/// Fewer rows than these are not worth another split.
const SPLIT: u64 = 1 << 14;

/// The columns and rows that a query reads of a table.
pub(crate) struct ScanRequest {
    pub snapshot: Arc<Dataset>,
    /// The columns, by number.
    pub columns: Vec<usize>,
    pub schema: SchemaRef,
    pub conditions: Vec<Condition>,
    pub limit: Option<usize>,
    /// How many splits there should be.
    pub splits: usize,
    pub is_copied: bool,
}

/// The rows of a table that one query reads: [`Table`](crate::Table) makes it.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Held so that other mentions of the table in the query are of the same rows.
    snapshot: Arc<Dataset>,
    /// The rows to be read of each split, with the columns that the condition needs behind those that are asked for.
    splits: Arc<[Dataset]>,
    /// The condition that is left for each row.
    condition: Option<Predicate>,
    schema: SchemaRef,
    is_copied: bool,
    /// True if operators that read the rows keep account of their memory.
    is_counted: bool,
    /// True if batches may have more rows than the session wants.
    is_whole: bool,
    stop: CancelToken,
    fetch: Option<usize>,
    /// The statistics of all splits together, and then of each.
    statistics: Arc<[Arc<Statistics>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Scan {
    pub(crate) fn try_new(request: ScanRequest) -> Result<Scan> {
        let ScanRequest { snapshot, columns, schema, conditions, limit, splits, is_copied } = request;
        let order = order_of(&snapshot, &schema, &conditions);
        let keys = keys_of(&snapshot);
        let mut left = Vec::new();
        for condition in &conditions {
            if condition.is_exact && !is_settled(order.as_ref(), &keys, condition) {
                left.push(condition);
            }
        }
        let condition = all(left.iter().copied());
        let mut rows = match all(&conditions) {
            Some(predicate) => snapshot.prune(&predicate).map_err(external)?,
            None => snapshot.as_ref().clone(),
        };
        if let (Some(limit), None) = (limit, &condition) {
            rows = rows.head(limit as u64).map_err(external)?;
        }
        let mut read = columns;
        for name in left.iter().flat_map(|condition| &condition.columns) {
            let number = snapshot.schema().index_of(name)?;
            if !read.contains(&number) {
                read.push(number);
            }
        }
        let sorted = order.and_then(|field| sorted_column(&field, &schema));
        let rows = rows.select_at(&read).map_err(external)?;
        let len = rows.len().map_err(external)?;
        if len <= CHUNK && len < snapshot.len().map_err(external)? {
            // The first touch of each column would load as much as the device reads ahead, for a few rows.
            rows.prefetch();
        }
        let splits = split(&rows, splits)?;
        let statistics = known(&rows, &splits, (&schema, sorted), condition.is_some())?;
        assert_eq!(statistics.len(), splits.len() + 1, "all rows and each split have statistics");
        let properties = properties(&schema, sorted, splits.len());
        Ok(Scan {
            snapshot,
            splits: splits.into(),
            condition,
            schema,
            is_copied,
            is_counted: false,
            is_whole: false,
            stop: CancelToken::default(),
            fetch: limit,
            statistics,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

#[cfg(feature = "engine")]
impl Scan {
    /// The same until `stop`. With `is_counted`, rows count at their size for operators that keep account; with
    /// `is_whole`, a batch has as many rows as are read at once.
    pub(crate) fn served(&self, stop: CancelToken, is_counted: bool, is_whole: bool) -> Scan {
        Scan { stop, is_counted, is_whole, ..self.clone() }
    }

    /// The bytes of a row: of the widest of some, each the mean of the first ones of a split.
    pub(crate) fn width(&self) -> Result<u64> {
        const FEW: u64 = 1 << 10;
        let mut widest = 0;
        for split in self.splits.iter() {
            let first = split.head(FEW).map_err(external)?;
            let rows = first.len().map_err(external)?.max(1);
            widest = widest.max(first.nbytes().map_err(external)? / rows);
        }
        Ok(widest)
    }
}

/// The column in whose order all rows are, if it is shown or has bounds. Other queries need not look at the ends of
/// segments.
fn order_of(snapshot: &Dataset, schema: &SchemaRef, conditions: &[Condition]) -> Option<FieldRef> {
    let field = snapshot.sorted_by()?;
    let is_shown = schema.column_with_name(field.name()).is_some();
    let has_bounds = conditions.iter().any(|condition| condition.bounded.as_ref() == Some(field.name()));
    ((is_shown || has_bounds) && snapshot.is_ascending()).then_some(field)
}

/// The columns of partitions whose values say all about their rows.
fn keys_of(snapshot: &Dataset) -> Vec<String> {
    // Partitions know their columns by the names that these had.
    if snapshot.is_renamed() {
        return Vec::new();
    }
    let is_compared =
        |name: &String| snapshot.schema().field_with_name(name).is_ok_and(|field| is_compared_whole(field.data_type()));
    let first = snapshot.partitions().into_iter().next();
    first.into_iter().flat_map(|first| first.keys).map(|(name, _)| name).filter(is_compared).collect()
}

/// Returns true if [`Dataset::prune`] leaves exactly the rows of the condition.
fn is_settled(order: Option<&FieldRef>, keys: &[String], condition: &Condition) -> bool {
    assert!(!condition.columns.is_empty(), "a condition without columns would be left out");
    let sorted = order.filter(|field| *field.data_type() != DataType::Date64);
    let is_bounds = sorted.is_some_and(|field| condition.bounded.as_ref() == Some(field.name()));
    is_bounds || condition.columns.iter().all(|name| keys.contains(name))
}

/// Returns true if the condition on a partition's value says all about its rows.
fn is_compared_whole(data_type: &DataType) -> bool {
    let values = match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    values.is_integer() || matches!(values, DataType::Utf8 | DataType::Date32)
}

/// The number in `schema` of the column in whose order all rows are, if DataFusion orders them so.
fn sorted_column(field: &FieldRef, schema: &SchemaRef) -> Option<usize> {
    let (number, _) = schema.column_with_name(field.name()).filter(|_| is_ordered_alike(field.data_type()))?;
    Some(number)
}

/// Returns true if DataFusion orders values of a sorted column as its table does: not NaN, nor the milliseconds of a
/// day.
pub(crate) fn is_ordered_alike(data_type: &DataType) -> bool {
    !data_type.is_floating() && *data_type != DataType::Date64
}

/// `rows` as ranges of about one size, `wanted` of them where there are enough rows.
fn split(rows: &Dataset, wanted: usize) -> Result<Vec<Dataset>> {
    let len = rows.len().map_err(external)?;
    let count = len.div_ceil(SPLIT).clamp(1, wanted.max(1) as u64);
    if count == 1 {
        return Ok(vec![rows.clone()]);
    }
    let mut splits = Vec::with_capacity(count as usize);
    let mut start = 0;
    for number in 1..=count {
        let end = (u128::from(len) * u128::from(number) / u128::from(count)) as u64;
        assert!(start <= end && end <= len, "split {number} of {count} is rows {start}..{end} of {len}");
        splits.push(rows.slice(start, end - start).map_err(external)?);
        start = end;
    }
    assert_eq!(start, len, "the splits have all rows");
    Ok(splits)
}

/// The statistics of all rows, and then of each split; if a condition is left, an estimate.
fn known(
    rows: &Dataset,
    splits: &[Dataset],
    (schema, sorted): (&SchemaRef, Option<usize>),
    is_filtered: bool,
) -> Result<Arc<[Arc<Statistics>]>> {
    let shown: Vec<usize> = (0..schema.fields().len()).collect();
    let mut all = Vec::with_capacity(splits.len() + 1);
    for rows in std::iter::once(rows).chain(splits) {
        let rows = rows.select_at(&shown).map_err(external)?;
        let statistics = statistics::compute(&rows, sorted).map_err(external)?;
        all.push(Arc::new(if is_filtered { statistics.to_inexact() } else { statistics }));
    }
    Ok(all.into())
}

fn properties(schema: &SchemaRef, sorted: Option<usize>, splits: usize) -> PlanProperties {
    let mut orders = Vec::new();
    if let Some(number) = sorted {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(number).name(), number));
        // A column without nulls is in both orders.
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
        let rows = self.splits.iter().try_fold(0, |sum, split| Ok::<_, arrowwood::Error>(sum + split.len()?));
        let of = self.snapshot.len();
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "ArrowwoodScan: rows={} of {}", rows.unwrap_or_default(), of.unwrap_or_default())?;
        write!(f, ", splits={}, projection=[{}]", self.splits.len(), names.join(", "))?;
        if let Some(condition) = &self.condition {
            write!(f, ", where={condition}")?;
        }
        if let Some(order) = self.properties.output_ordering() {
            write!(f, ", ordering=[{order}]")?;
        }
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
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
        let mut batches = SplitReader {
            rows: rows.clone(),
            next: 0,
            condition: self.condition.clone(),
            schema: self.schema.clone(),
            is_copied: self.is_copied,
            counted: self.is_counted.then_some(BufferOrigin::Owned),
            values: DictionaryCache::default(),
            is_partitioned: !self.snapshot.partitions().is_empty(),
            size: if self.is_whole { usize::MAX } else { context.session_config().batch_size().max(1) },
            left: self.fetch.unwrap_or(usize::MAX),
            ready: VecDeque::new(),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let stop = self.stop.clone();
        let polled = poll_fn(move |context| {
            if let Err(e) = stop.check() {
                return Poll::Ready(Some(Err(e)));
            }
            let batch = batches.poll();
            match &batch {
                Poll::Ready(Some(Ok(batch))) => metrics.record_output(batch.num_rows()),
                // Others have their turn before the next rows are looked at.
                Poll::Pending => context.waker().wake_by_ref(),
                Poll::Ready(_) => (),
            }
            batch.map(|batch| batch.map(|batch| batch.map_err(external)))
        });
        let stream = RecordBatchStreamAdapter::new(self.schema.clone(), polled);
        Ok(Box::pin(cooperative(stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let number = args.partition().map_or(0, |partition| partition + 1);
        let Some(known) = self.statistics.get(number) else {
            return internal_err!("statistics of split {number} of {}", self.splits.len());
        };
        let Some(fetch) = self.fetch else { return Ok(known.clone()) };
        // Each split gives as many rows.
        let splits = args.partition().map_or(&self.splits[..], |partition| &self.splits[partition..=partition]);
        let most = splits.iter().try_fold(0, |sum: usize, split| {
            let len = usize::try_from(split.len()?).unwrap_or(usize::MAX);
            Ok::<_, arrowwood::Error>(sum.saturating_add(len.min(fetch)))
        });
        Ok(Arc::new(known.as_ref().clone().with_fetch(Some(most.map_err(external)?), 0, 1)?))
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

/// The batches of one split.
struct SplitReader {
    rows: Dataset,
    /// The first row that was not read yet.
    next: u64,
    condition: Option<Predicate>,
    schema: SchemaRef,
    is_copied: bool,
    /// The memory that the rows are in, where operators keep account of it.
    counted: Option<BufferOrigin>,
    /// The dictionaries of the batches before.
    values: DictionaryCache,
    is_partitioned: bool,
    /// The most rows of a batch.
    size: usize,
    /// How many rows are still wanted.
    left: usize,
    ready: VecDeque<RecordBatch>,
}

impl SplitReader {
    /// Reads the next rows.
    fn read(&mut self) -> arrowwood::Result<()> {
        let mut rows = self.rows.slice(self.next, CHUNK)?;
        if self.condition.is_some() || self.is_copied {
            (rows, _) = rows.head_within(COPIED)?;
        }
        let count = rows.len()?;
        assert!(count > 0, "rows are read from row {}, and none come", self.next);
        self.next += count;
        if let Some(condition) = &self.condition {
            rows = rows.filter(condition)?;
            if (self.left as u64) < rows.len()? {
                rows = rows.head(self.left as u64)?;
            }
        } else if self.is_copied {
            // To collect one batch would copy nothing.
            rows = rows.take(&(0..rows.len()? as i64).collect::<Vec<_>>())?;
        }
        let shown: Vec<usize> = (0..self.schema.fields().len()).collect();
        let batches = rows.select_at(&shown)?.to_record_batches().collect::<arrowwood::Result<Vec<_>>>()?;
        if self.counted.is_some() {
            // A filter makes new rows, and the values of partitions are made, too.
            let footprint = rows.footprint();
            let is_mapped = footprint.mapped > 0 && footprint.copied == 0 && !self.is_partitioned;
            self.counted = Some(if is_mapped { BufferOrigin::Mapped } else { BufferOrigin::Owned });
        }
        self.ready.extend(batches.into_iter().filter(|batch| batch.num_rows() > 0));
        Ok(())
    }

    /// The next batch; pending where none of the rows that were read is wanted.
    fn poll(&mut self) -> Poll<Option<arrowwood::Result<RecordBatch>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if self.ready.is_empty() {
            let is_done = self.rows.len().map(|len| self.next >= len);
            match is_done.and_then(|is_done| if is_done { Ok(true) } else { self.read().map(|()| false) }) {
                Ok(false) => (),
                Ok(true) => return Poll::Ready(None),
                Err(e) => {
                    // Nothing comes behind an error.
                    self.left = 0;
                    return Poll::Ready(Some(Err(e)));
                }
            }
        }
        self.cut().map_or(Poll::Pending, |batch| Poll::Ready(Some(batch)))
    }

    /// The next batch of those that were read.
    fn cut(&mut self) -> Option<arrowwood::Result<RecordBatch>> {
        let mut batch = self.ready.pop_front()?;
        let max_rows = self.size.min(self.left);
        if batch.num_rows() > max_rows {
            self.ready.push_front(batch.slice(max_rows, batch.num_rows() - max_rows));
            batch = batch.slice(0, max_rows);
        }
        assert!(batch.num_rows() <= self.left, "{} rows of {} that are wanted", batch.num_rows(), self.left);
        self.left -= batch.num_rows();
        let batch = match self.counted {
            Some(memory) => memory.counted_with(&batch, &mut self.values).map_err(|e| {
                let message = format!("making a batch that DataFusion can keep: {e}");
                arrowwood::Error::new(arrowwood::ErrorKind::InvalidData, message)
            }),
            None => Ok(batch),
        };
        Some(batch.and_then(|batch| adopted(batch, &self.schema)))
    }
}

/// The columns of `batch` under `schema`.
pub(crate) fn adopted(batch: RecordBatch, schema: &SchemaRef) -> arrowwood::Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options).map_err(|e| {
        let message = format!("making a batch for DataFusion: {e}");
        arrowwood::Error::new(arrowwood::ErrorKind::InvalidData, message)
    })
}
