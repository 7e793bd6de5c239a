//! Computes statistics of columns: nulls, extremes, mean, and a histogram or the most frequent values. They come from a
//! sample of rows first, and from all rows when the client requests it.

use std::cmp::Ordering;
use std::time::Instant;

use arrow_schema::DataType;
use arrowwood::readable::ellipsize;
use arrowwood::{Column, Dataset, ErrorKind, Value};
use serde_json::{Value as Json, json};

use super::downsample::by_threads;
use super::numbers::{both, each_number, ends, is_number, text_of};
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, Result, ResultExt};
use crate::ops::{Budget, Share};
use crate::session::Session;
use crate::view::cells::{columns, one_column};
use crate::view::value_condition;

pub(crate) const PARAMETERS: &[&str] = &["at", "sample"];

/// The number of blocks of a sample.
const SAMPLE_BLOCKS: u64 = 64;
/// The number of rows in a block of a sample.
const SAMPLE_BLOCK_ROWS: u64 = 1_024;
/// The number of rows in a sample. All rows are read if there are not more.
const SAMPLE_ROWS: u64 = SAMPLE_BLOCKS * SAMPLE_BLOCK_ROWS;
/// The number of rows read between two checks for a disconnected client.
const BLOCK_ROWS: u64 = 1 << 24;
/// The number of columns sampled between two checks for a disconnected client.
const SAMPLED_COLUMNS: usize = 16;
/// The number of bars in a histogram.
const BARS: usize = 32;
/// The maximum number of listed values.
const MAX_TOP_VALUES: u64 = 10;
/// The maximum number of rows whose values are all counted.
const MAX_COUNTED_ROWS: u64 = 1 << 23;
/// The memory in bytes for counting a value.
const COUNTED_VALUE_BYTES: usize = 48;
/// The maximum number of characters of a value.
const MAX_VALUE_CHARS: usize = 60;
/// The index of the condition in a frequent value's list of text, count and condition.
const CONDITION: usize = 2;

/// The statistics of some rows of a column.
#[derive(Debug, Default)]
struct ColumnSummary {
    rows: u64,
    nulls: u64,
    /// The smallest value; `None` for types without an order.
    min: Option<Extreme>,
    /// The largest value; `None` for types without an order.
    max: Option<Extreme>,
    sum: f64,
    /// The count of numbers in `sum`.
    numbers: u64,
}

/// The smallest or largest value.
#[derive(Debug)]
struct Extreme {
    key: OrderKey,
    text: String,
}

/// A value of a column in a form that can be compared.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum OrderKey {
    Number(i128),
    Float(f64),
    Digits(arrow_buffer::i256),
    Bytes(Vec<u8>),
}

impl OrderKey {
    /// Returns the key of a value, or `None` for types without an order.
    fn new(value: &Value<'_>) -> Option<OrderKey> {
        Some(match value {
            Value::Bool(bit) => OrderKey::Number((*bit).into()),
            Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
                OrderKey::Number((*n).into())
            }
            Value::UInt(n) => OrderKey::Number((*n).into()),
            Value::Float32(x) => OrderKey::Float((*x).into()),
            Value::Float64(x) => OrderKey::Float(*x),
            Value::Decimal { digits, .. } => OrderKey::Digits(*digits),
            Value::Str(text) => OrderKey::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => OrderKey::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }

    fn is_nan(&self) -> bool {
        matches!(self, OrderKey::Float(x) if x.is_nan())
    }
}

impl Extreme {
    fn new(value: &Value<'_>) -> Option<Extreme> {
        let key = OrderKey::new(value)?;
        Some(Extreme { key, text: value_text(value) })
    }

    /// Returns the value of the two that compares to the other as `ordering` says.
    fn choose(a: Option<Extreme>, b: Option<Extreme>, ordering: Ordering) -> Option<Extreme> {
        match (a, b) {
            // NaN is an extreme only if there are no other values.
            (Some(a), Some(b)) => {
                let is_b = a.key.is_nan() || b.key.partial_cmp(&a.key) == Some(ordering);
                Some(if is_b { b } else { a })
            }
            (a, b) => a.or(b),
        }
    }
}

/// Converts the error for types that have no such result to `None`.
fn if_supported<T>(result: arrowwood::Result<T>) -> arrowwood::Result<Option<T>> {
    match result {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument) => Ok(None),
        other => other.map(Some),
    }
}

impl ColumnSummary {
    fn compute(column: &Column) -> arrowwood::Result<ColumnSummary> {
        let rows = column.len()?;
        let nulls = column.null_count()?;
        assert!(nulls <= rows, "a column of {rows} rows has {nulls} nulls");
        let mean = if is_number(column.data_type()) { if_supported(column.mean())?.flatten() } else { None };
        let numbers = if mean.is_some() { rows - nulls } else { 0 };
        Ok(ColumnSummary {
            rows,
            nulls,
            min: if_supported(column.min())?.and_then(|value| Extreme::new(&value)),
            max: if_supported(column.max())?.and_then(|value| Extreme::new(&value)),
            sum: mean.map_or(0.0, |mean| mean * numbers as f64),
            numbers,
        })
    }

    /// Combines the statistics of two parts of the rows.
    fn merge(self, other: ColumnSummary) -> ColumnSummary {
        ColumnSummary {
            rows: self.rows + other.rows,
            nulls: self.nulls + other.nulls,
            min: Extreme::choose(self.min, other.min, Ordering::Less),
            max: Extreme::choose(self.max, other.max, Ordering::Greater),
            sum: self.sum + other.sum,
            numbers: self.numbers + other.numbers,
        }
    }

    fn to_json(&self) -> Json {
        let mean = if self.numbers > 0 { self.sum / self.numbers as f64 } else { f64::NAN };
        json!({
            "rows": self.rows,
            "nulls": self.nulls,
            "min": self.min.as_ref().map(|min| &min.text),
            "max": self.max.as_ref().map(|max| &max.text),
            "mean": if mean.is_finite() { Some(mean) } else { None },
        })
    }
}

/// Formats a value with all digits.
fn value_text(value: &Value<'_>) -> String {
    ellipsize(format_args!("{value}"), MAX_VALUE_CHARS)
}

/// Maps an index in the sample of `len` rows to the index of the same row among all of them.
fn sampled_index(len: u64, index: u64) -> u64 {
    if len <= SAMPLE_ROWS {
        return index;
    }
    block_start(len, index / SAMPLE_BLOCK_ROWS) + index % SAMPLE_BLOCK_ROWS
}

/// Returns the first row of a block in a sample of `len` rows.
fn block_start(len: u64, block: u64) -> u64 {
    assert!(len > SAMPLE_ROWS && block < SAMPLE_BLOCKS, "there is no block {block} in a sample of {len} rows");
    (u128::from(len - SAMPLE_BLOCK_ROWS) * u128::from(block) / u128::from(SAMPLE_BLOCKS - 1)) as u64
}

/// Selects blocks of rows at equal distances, or all rows if they are few.
fn sample(rows: &Dataset) -> arrowwood::Result<Dataset> {
    let len = rows.len()?;
    if len <= SAMPLE_ROWS {
        return Ok(rows.clone());
    }
    let mut blocks = Vec::new();
    for block in 0..SAMPLE_BLOCKS {
        blocks.push(rows.slice(block_start(len, block), SAMPLE_BLOCK_ROWS)?);
    }
    let sample = Dataset::concat(&blocks)?;
    sample.prefetch();
    Ok(sample)
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    low: f64,
    high: f64,
}

impl NumberRange {
    /// Returns the range of a column's finite numbers, if it has any.
    fn of_column(column: &Column) -> arrowwood::Result<Option<NumberRange>> {
        if !is_number(column.data_type()) {
            return Ok(None);
        }
        let ends = column.map_reduce(ends, both)?.flatten();
        Ok(ends.map(|ends| NumberRange { low: ends.min, high: ends.max }))
    }

    /// Returns a range that contains both.
    fn union(self, other: NumberRange) -> NumberRange {
        NumberRange { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Counts the numbers of a column in the range, in bars of the same width.
    fn histogram(self, column: &Column) -> arrowwood::Result<Vec<u64>> {
        let NumberRange { low, high } = self;
        debug_assert!(low.is_finite() && high.is_finite(), "a histogram between {low} and {high}");
        let high = if high > low { high } else { low + 1.0 };
        let scale = BARS as f64 / (high - low);
        let counts = column.map_reduce(
            |array| {
                let mut counts = vec![0u64; BARS];
                each_number(array, |x| {
                    if let Some(x) = x
                        && x >= low
                        && x <= high
                    {
                        counts[(((x - low) * scale) as usize).min(BARS - 1)] += 1;
                    }
                });
                counts
            },
            add_counts,
        )?;
        Ok(counts.unwrap_or_else(|| vec![0; BARS]))
    }

    fn to_json(self, data_type: &DataType, counts: &[u64]) -> Json {
        json!({"counts": counts, "ends": [text_of(data_type, self.low), text_of(data_type, self.high)]})
    }
}

fn add_counts(mut a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    assert_eq!(a.len(), b.len(), "two histograms have different numbers of bars");
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
    a
}

/// Returns the most frequent values of the rows, each with its count and the condition for it; and the number of
/// distinct values. `row_number` maps an index in the column to the number of a row. `None` for types without counts.
fn top_values(column: &Column, row_number: &dyn Fn(u64) -> u64) -> arrowwood::Result<Option<Json>> {
    // The column of counts may have the same name.
    let renamed = column.as_dataset().with_names(&["value"])?.column_at(0)?;
    let Some(counts) = if_supported(renamed.value_counts())? else { return Ok(None) };
    let top = counts.head(MAX_TOP_VALUES)?;
    let within = column.as_dataset();
    let start = Instant::now();
    let conditions =
        value_condition::conditions((within.schema(), 0), &top.select_at(&[0])?, within, row_number, || {
            start.elapsed() < value_condition::SEARCH_TIMEOUT
        })?;
    let mut values = Vec::new();
    for (row, condition) in top.rows().zip(conditions) {
        let row = row?;
        let value = row.get(0)?;
        let text = if value.is_null() { Json::Null } else { value_text(&value).into() };
        values.push(json!([text, row.get(1)?.to_json()?, condition]));
    }
    Ok(Some(json!({"values": values, "distinct": counts.len()?, "of": column.len()?})))
}

/// Counts the distinct numbers of a column. `None` for types without counts.
fn unique_count(column: &Column) -> arrowwood::Result<Option<Json>> {
    let rows = column.len()?;
    Ok(if_supported(column.n_unique())?.map(|distinct| json!({"distinct": distinct, "of": rows})))
}

/// Computes the statistics of a sample of the only column of `rows`. Blocks.
fn sample_statistics(rows: &Dataset) -> arrowwood::Result<Json> {
    let column = sample(rows)?.column_at(0)?;
    let mut json = ColumnSummary::compute(&column)?.to_json();
    if !is_number(column.data_type()) {
        let len = rows.len()?;
        if let Some(top) = top_values(&column, &|index| rows.first_row() + sampled_index(len, index))? {
            json["top"] = top;
        }
    } else if let Some(range) = NumberRange::of_column(&column)? {
        json["histogram"] = range.to_json(column.data_type(), &range.histogram(&column)?);
        if let Some(unique) = unique_count(&column)? {
            json["unique"] = unique;
        }
    }
    Ok(json)
}

/// Returns statistics of the requested columns: an object for one, a list for several. Statistics of all rows take as
/// long as reading them, and end when the client disconnects.
pub(crate) async fn statistics(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let rows = snapshot.rows;
    let is_list = query.get("at")?.is_some_and(|at| at.contains(','));
    let numbers = if is_list { columns(&rows, query)? } else { vec![one_column(&rows, query)?] };
    let is_sample = query.flag("sample")?;
    let len = rows.len().or_table_problem()?;
    let schema = rows.schema().clone();
    let mut selected = Vec::with_capacity(numbers.len());
    for &number in &numbers {
        selected.push(rows.select_at(&[number]).or_table_problem()?);
    }

    let mut budget = session.budget();
    let mut statistics = sample_columns(&mut budget, &selected).await?;
    assert_eq!(statistics.len(), selected.len(), "a column has no statistics");
    if !is_sample && len > SAMPLE_ROWS {
        for (rows, statistics) in selected.iter().zip(&mut statistics) {
            add_exact(&mut budget, rows, len, statistics).await?;
        }
    }

    for ((rows, number), statistics) in selected.iter().zip(numbers).zip(&mut statistics) {
        // Conditions need an unambiguous name in the whole schema.
        if value_condition::name_of(&schema, number).is_none()
            && let Some(values) = statistics.pointer_mut("/top/values").and_then(Json::as_array_mut)
        {
            for value in values {
                value[CONDITION] = Json::Null;
            }
        }
        let field = rows.schema().field(0);
        statistics["name"] = field.name().as_str().into();
        statistics["type"] = arrowwood::field_type_name(field).into();
        statistics["exact"] = (!is_sample || len <= SAMPLE_ROWS).into();
        statistics["of"] = len.into();
    }
    if is_list {
        return Ok(json!({"columns": statistics}));
    }
    statistics.pop().ok_or_else(|| Problem::internal("a column has no statistics"))
}

/// Computes the statistics of samples, several columns at once.
async fn sample_columns(budget: &mut Budget, columns: &[Dataset]) -> Result<Vec<Json>> {
    let mut statistics = Vec::with_capacity(columns.len());
    for chunk in columns.chunks(SAMPLED_COLUMNS) {
        let chunk = chunk.to_vec();
        let sampled = budget
            .run_blocking(budget.step(), move |_: &mut Share| by_threads(&chunk, sample_statistics).or_table_problem())
            .await?;
        statistics.extend(sampled);
    }
    Ok(statistics)
}

/// Replaces the statistics of a sample of the only column of `rows` by statistics of all `len` rows.
async fn add_exact(budget: &mut Budget, rows: &Dataset, len: u64, statistics: &mut Json) -> Result<()> {
    let mut summary = ColumnSummary::default();
    let mut range: Option<NumberRange> = None;
    for start in (0..len).step_by(BLOCK_ROWS as usize) {
        let block = rows.slice(start, BLOCK_ROWS).or_table_problem()?;
        let (block_summary, block_range) = budget
            .run_blocking(budget.step(), move |_: &mut Share| {
                let column = block.column_at(0).or_table_problem()?;
                let range = NumberRange::of_column(&column).or_table_problem()?;
                Ok((ColumnSummary::compute(&column).or_table_problem()?, range))
            })
            .await?;
        summary = summary.merge(block_summary);
        range = match (range, block_range) {
            (Some(a), Some(b)) => Some(a.union(b)),
            (a, b) => a.or(b),
        };
    }

    let data_type = rows.schema().field(0).data_type().clone();
    if let Some(range) = range {
        let mut counts = vec![0; BARS];
        for start in (0..len).step_by(BLOCK_ROWS as usize) {
            let block = rows.slice(start, BLOCK_ROWS).or_table_problem()?;
            let block_counts = budget
                .run_blocking(budget.step(), move |_: &mut Share| {
                    let column = block.column_at(0).or_table_problem()?;
                    range.histogram(&column).or_table_problem()
                })
                .await?;
            counts = add_counts(counts, block_counts);
        }
        statistics["histogram"] = range.to_json(&data_type, &counts);
    }

    let is_number = is_number(&data_type);
    let name = if is_number { "unique" } else { "top" };
    if len <= MAX_COUNTED_ROWS && has_repeated_values(&statistics[name]) {
        let rows = rows.clone();
        // Less than half of the values are distinct, so that half of the memory is not used.
        let counts = budget
            .run_blocking(len as usize * COUNTED_VALUE_BYTES, move |_: &mut Share| {
                let column = rows.column_at(0).or_table_problem()?;
                if is_number {
                    return unique_count(&column).or_table_problem();
                }
                top_values(&column, &|index| rows.first_row() + index).or_table_problem()
            })
            .await?;
        if let Some(counts) = counts {
            statistics[name] = counts;
        }
    }

    if let (Some(statistics), Json::Object(exact)) = (statistics.as_object_mut(), summary.to_json()) {
        statistics.extend(exact);
    }
    Ok(())
}

/// Returns true if less than half of a sample's values are distinct. Otherwise counting would keep most values in
/// memory.
fn has_repeated_values(counts: &Json) -> bool {
    match (counts["distinct"].as_u64(), counts["of"].as_u64()) {
        (Some(distinct), Some(rows)) => distinct < rows / 2,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Float32Array;

    use super::*;

    /// The minima and maxima of parts are compared with each other, and NaN compares to nothing.
    #[test]
    fn parts_with_only_nan_do_not_hide_numbers() {
        let summarize = |values: Vec<f32>| {
            let column: arrow_array::ArrayRef = std::sync::Arc::new(Float32Array::from(values));
            let batch = arrow_array::RecordBatch::try_from_iter([("x", column)]).unwrap();
            ColumnSummary::compute(&arrowwood::Dataset::try_from(vec![batch]).unwrap().column("x").unwrap()).unwrap()
        };
        let ends = |summary: ColumnSummary| [summary.min, summary.max].map(|end| end.unwrap().text);
        let nan = || summarize(vec![f32::NAN; 3]);
        let some = || summarize(vec![0.0, 999.0, f32::NAN]);
        assert_eq!(ends(nan().merge(some())), ["0.0", "999.0"]);
        assert_eq!(ends(some().merge(nan())), ["0.0", "999.0"]);
        assert_eq!(ends(nan().merge(nan())), ["NaN", "NaN"]);
    }
}
