//! A column at a glance: nulls, extremes, mean, a histogram or the most frequent values; of some blocks of rows first, of all
//! when the client asks for it.

use std::cmp::Ordering;
use std::time::Instant;

use arrowwood::{Column, Dataset, Error, ErrorKind, Value, ellipsize};
use serde_json::{Value as Json, json};

use crate::budget::{Budget, Share};
use crate::cells::{columns, one_column};
use crate::downsample::by_threads;
use crate::numbers::{both, each_number, ends, is_number, text_of};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::value_condition;

pub(crate) const PARAMETERS: &[&str] = &["at", "sample"];

/// Blocks of a sample, and the rows of each.
const SAMPLE: (u64, u64) = (64, 1_024);
/// Rows between two looks whether the client is still there.
const BLOCK: u64 = 1 << 24;
/// Columns of which samples are looked at before that.
const AT_ONCE: usize = 16;
/// Bars of a histogram.
const BARS: usize = 32;
/// Values that are listed, rows of which all values are counted, and characters of a value.
const TOP: u64 = 10;
const COUNTED: u64 = 1 << 23;
/// Bytes of a value that is counted.
const VALUE: usize = 48;
const WIDTH: usize = 60;

/// What is known of the rows that were looked at.
#[derive(Debug, Default)]
struct ColumnSummary {
    rows: u64,
    nulls: u64,
    /// The least and the greatest value, to compare and as text.
    min: Option<(OrderKey, String)>,
    max: Option<(OrderKey, String)>,
    sum: f64,
    numbers: u64,
}

/// What values of a column are compared by.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum OrderKey {
    Number(i128),
    Float(f64),
    Digits(arrow_buffer::i256),
    Bytes(Vec<u8>),
}

impl OrderKey {
    fn is_nan(&self) -> bool {
        matches!(self, OrderKey::Float(x) if x.is_nan())
    }
}

fn key(value: &Value<'_>) -> Option<OrderKey> {
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

/// A result; `None` where the column's type has none.
fn if_supported<T>(result: arrowwood::Result<T>) -> arrowwood::Result<Option<T>> {
    match result {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument) => Ok(None),
        other => other.map(Some),
    }
}

impl ColumnSummary {
    fn compute(column: &Column) -> arrowwood::Result<ColumnSummary> {
        let shown = |value: Value<'_>| key(&value).map(|key| (key, shown(&value)));
        let nulls = column.null_count()?;
        let mean = if is_number(column.data_type()) { if_supported(column.mean())?.flatten() } else { None };
        let rows = column.len()?;
        Ok(ColumnSummary {
            rows,
            nulls,
            min: if_supported(column.min())?.and_then(shown),
            max: if_supported(column.max())?.and_then(shown),
            sum: mean.unwrap_or_default() * (rows - nulls) as f64,
            numbers: if mean.is_some() { rows - nulls } else { 0 },
        })
    }

    fn and(self, other: ColumnSummary) -> ColumnSummary {
        let which = |a: Option<(OrderKey, String)>, b: Option<(OrderKey, String)>, wanted| match (a, b) {
            // NaN is the least and the largest only where there is nothing else.
            (Some(a), Some(b)) if a.0.is_nan() || b.0.partial_cmp(&a.0) == Some(wanted) => Some(b),
            (a, b) => a.or(b),
        };
        ColumnSummary {
            rows: self.rows + other.rows,
            nulls: self.nulls + other.nulls,
            min: which(self.min, other.min, Ordering::Less),
            max: which(self.max, other.max, Ordering::Greater),
            sum: self.sum + other.sum,
            numbers: self.numbers + other.numbers,
        }
    }

    fn to_json(&self) -> Json {
        let text = |end: &Option<(OrderKey, String)>| end.as_ref().map(|(_, text)| text.clone());
        let mean = (self.numbers > 0).then(|| self.sum / self.numbers as f64).filter(|mean| mean.is_finite());
        json!({"rows": self.rows, "nulls": self.nulls, "min": text(&self.min), "max": text(&self.max), "mean": mean})
    }
}

/// A value with all digits.
fn shown(value: &Value<'_>) -> String {
    ellipsize(format_args!("{value}"), WIDTH)
}

/// The place in `len` rows of the row at a place in their sample.
fn sampled(len: u64, place: u64) -> u64 {
    let (blocks, size) = SAMPLE;
    if len <= blocks * size { place } else { block_start(len, place / size) + place % size }
}

/// Where a block of a sample of `len` rows begins.
fn block_start(len: u64, block: u64) -> u64 {
    let (blocks, size) = SAMPLE;
    (u128::from(len - size) * u128::from(block) / u128::from(blocks - 1)) as u64
}

/// Some rows from everywhere, or all if they are few.
fn sample(rows: &Dataset) -> arrowwood::Result<Dataset> {
    let len = rows.len()?;
    let (blocks, size) = SAMPLE;
    if len <= blocks * size {
        return Ok(rows.clone());
    }
    let parts =
        (0..blocks).map(|block| rows.slice(block_start(len, block), size)).collect::<arrowwood::Result<Vec<_>>>()?;
    let sample = Dataset::concat(&parts)?;
    sample.prefetch();
    Ok(sample)
}

/// Counts of the values between `low` and `high`, in bars of the same width.
fn bars(column: &Column, low: f64, high: f64) -> arrowwood::Result<Vec<u64>> {
    let scale = BARS as f64 / (high - low);
    let count = |array: &arrow_data::ArrayData| {
        let mut bars = vec![0u64; BARS];
        each_number(array, |x| {
            let Some(x) = x.filter(|x| *x >= low && *x <= high) else { return };
            bars[(((x - low) * scale) as usize).min(BARS - 1)] += 1;
        });
        bars
    };
    let add = |mut a: Vec<u64>, b: Vec<u64>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    Ok(column.map_reduce(count, add)?.unwrap_or_else(|| vec![0; BARS]))
}

/// The least and the greatest number that are finite.
fn finite(column: &Column) -> arrowwood::Result<Option<(f64, f64)>> {
    let found = column.map_reduce(ends, both)?;
    Ok(found.flatten().map(|ends| (ends.min, ends.max)))
}

/// The most frequent values of the rows, how often each comes, and the condition for it; and how many values there are.
/// `number_of` has the number of the row at a place in the column.
fn top(column: &Column, number_of: &dyn Fn(u64) -> u64) -> arrowwood::Result<Option<Json>> {
    // Its name could be that of the counts.
    let renamed = column.as_dataset().with_names(&["value"])?.column_at(0)?;
    let Some(counts) = if_supported(renamed.value_counts())? else { return Ok(None) };
    let most = counts.head(TOP)?;
    let within = column.as_dataset();
    let begun = Instant::now();
    let conditions =
        value_condition::conditions((within.schema(), 0), &most.select_at(&[0])?, within, number_of, || {
            begun.elapsed() < value_condition::PATIENCE
        })?;
    let mut listed = Vec::new();
    for (row, condition) in most.rows().zip(conditions) {
        let row = row?;
        let value = row.get(0)?;
        let text = if value.is_null() { Json::Null } else { shown(&value).into() };
        listed.push(json!([text, row.get(1)?.to_json()?, condition]));
    }
    Ok(Some(json!({"values": listed, "distinct": counts.len()?, "of": column.len()?})))
}

/// What pictures a column: a histogram of numbers, the most frequent of other values. Of `column`, or of its sample.
fn picture(
    column: &Column,
    ends: Option<(f64, f64)>,
    number_of: &dyn Fn(u64) -> u64,
) -> arrowwood::Result<Vec<(&'static str, Json)>> {
    if !is_number(column.data_type()) {
        return Ok(top(column, number_of)?.map(|top| ("top", top)).into_iter().collect());
    }
    let Some((low, high)) = ends else { return Ok(Vec::new()) };
    let counts = bars(column, low, if high > low { high } else { low + 1.0 })?;
    let texts = [text_of(column.data_type(), low), text_of(column.data_type(), high)];
    let histogram = ("histogram", json!({"counts": counts, "ends": texts}));
    Ok(std::iter::once(histogram).chain(unique(column)?.map(|unique| ("unique", unique))).collect())
}

/// How many numbers there are in a column.
fn unique(column: &Column) -> arrowwood::Result<Option<Json>> {
    let of = column.len()?;
    Ok(if_supported(column.n_unique())?.map(|distinct| json!({"distinct": distinct, "of": of})))
}

fn of_sample(rows: &Dataset) -> arrowwood::Result<Json> {
    let column = sample(rows)?.column_at(0)?;
    let mut told = ColumnSummary::compute(&column)?.to_json();
    let ends = if is_number(column.data_type()) { finite(&column)? } else { None };
    let len = rows.len()?;
    let number_of = |place| rows.first_row() + sampled(len, place);
    picture(&column, ends, &number_of)?.into_iter().for_each(|(name, json)| told[name] = json);
    Ok(told)
}

/// Statistics of the columns that are asked for: of one as such, of several as a list. Of all rows they take as long as
/// reading them, and end when the client goes.
pub(crate) async fn statistics(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let rows = snapshot.rows;
    let is_list = query.get("at")?.is_some_and(|at| at.contains(','));
    let numbers = if is_list { columns(&rows, query)? } else { vec![one_column(&rows, query)?] };
    let is_sample = query.flag("sample")?;
    let len = rows.len().map_err(of_table)?;
    let schema = rows.schema().clone();
    let selected = numbers.iter().map(|&number| rows.select_at(&[number]).map_err(of_table));
    let selected = selected.collect::<Result<Vec<_>>>()?;
    let mut budget = session.budget();
    let mut told = samples(&mut budget, &selected).await?;
    let is_exact = !is_sample || len <= SAMPLE.0 * SAMPLE.1;
    if !is_sample && len > SAMPLE.0 * SAMPLE.1 {
        for (rows, told) in selected.iter().zip(&mut told) {
            exact(&mut budget, rows, len, told).await?;
        }
    }
    for ((rows, number), told) in selected.iter().zip(numbers).zip(&mut told) {
        if value_condition::name_of(&schema, number).is_none()
            && let Some(values) = told.pointer_mut("/top/values").and_then(Json::as_array_mut)
        {
            values.iter_mut().for_each(|value| value[2] = Json::Null);
        }
        let field = rows.schema().field(0);
        told["name"] = field.name().as_str().into();
        told["type"] = arrowwood::field_type_name(field).into();
        told["exact"] = is_exact.into();
        told["of"] = len.into();
    }
    if is_list {
        return Ok(json!({"columns": told}));
    }
    told.pop().ok_or_else(|| Problem::internal("a column has no statistics"))
}

/// What samples of columns tell, several at once.
async fn samples(budget: &mut Budget, selected: &[Dataset]) -> Result<Vec<Json>> {
    let mut told = Vec::with_capacity(selected.len());
    for some in selected.chunks(AT_ONCE) {
        let some = some.to_vec();
        let look = move |_: &mut Share| by_threads(&some, of_sample).map_err(|e| Problem::from_table_error(&e));
        told.extend(budget.run_blocking(budget.step(), look).await?);
    }
    Ok(told)
}

/// Replaces what a sample told by what all rows tell.
async fn exact(budget: &mut Budget, rows: &Dataset, len: u64, told: &mut Json) -> Result<()> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let mut all = ColumnSummary::default();
    let mut ends: Option<(f64, f64)> = None;
    let mut histogram: Vec<u64> = vec![0; BARS];
    for start in (0..len).step_by(BLOCK as usize) {
        let block = rows.slice(start, BLOCK).map_err(of_table)?;
        let look = move |_: &mut Share| {
            let column = block.column_at(0).map_err(of_table)?;
            let ends = if is_number(column.data_type()) { finite(&column).map_err(of_table)? } else { None };
            Ok((ColumnSummary::compute(&column).map_err(of_table)?, ends))
        };
        let (glance, own) = budget.run_blocking(budget.step(), look).await?;
        all = all.and(glance);
        ends = match (ends, own) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
    let data_type = rows.schema().field(0).data_type().clone();
    if let Some((low, high)) = ends {
        for start in (0..len).step_by(BLOCK as usize) {
            let block = rows.slice(start, BLOCK).map_err(of_table)?;
            let high = if high > low { high } else { low + 1.0 };
            let look =
                move |_: &mut Share| block.column_at(0).and_then(|column| bars(&column, low, high)).map_err(of_table);
            let counts = budget.run_blocking(budget.step(), look).await?;
            histogram.iter_mut().zip(counts).for_each(|(all, own)| *all += own);
        }
        told["histogram"] = json!({"counts": histogram, "ends": [text_of(&data_type, low), text_of(&data_type, high)]});
    }
    let is_number = is_number(&data_type);
    let name = if is_number { "unique" } else { "top" };
    if len <= COUNTED && repeats(told, name) {
        let rows = rows.clone();
        let first = rows.first_row();
        let number_of = move |place| first + place;
        let count = move |column: Column| if is_number { unique(&column) } else { top(&column, &number_of) };
        let look = move |_: &mut Share| rows.column_at(0).and_then(count).map_err(of_table);
        // At most so many rows are counted, and less than half of their values differ.
        if let Some(counted) = budget.run_blocking(len as usize * VALUE, look).await? {
            told[name] = counted;
        }
    }
    if let (Some(told), Json::Object(all)) = (told.as_object_mut(), all.to_json()) {
        told.extend(all);
    }
    Ok(())
}

/// Whether the sample's values repeat: if each is another, all of them would be kept in memory to be counted.
fn repeats(told: &Json, counted: &str) -> bool {
    let number = |name: &str| told.get(counted).and_then(|found| found.get(name)).and_then(Json::as_u64);
    number("distinct").zip(number("of")).is_some_and(|(distinct, of)| distinct < of / 2)
}

#[cfg(test)]
mod tests {
    use arrow_array::Float32Array;

    use super::*;

    /// What is the least in one part of the rows is compared with that of others: NaN is less than no number.
    #[test]
    fn parts_of_nothing_but_nan_hide_no_numbers() {
        let of = |values: Vec<f32>| {
            let column: arrow_array::ArrayRef = std::sync::Arc::new(Float32Array::from(values));
            let batch = arrow_array::RecordBatch::try_from_iter([("x", column)]).unwrap();
            ColumnSummary::compute(&arrowwood::Dataset::try_from(vec![batch]).unwrap().column("x").unwrap()).unwrap()
        };
        let ends = |glance: ColumnSummary| [glance.min, glance.max].map(|end| end.unwrap().1);
        let (nan, some) = (|| of(vec![f32::NAN; 3]), || of(vec![0.0, 999.0, f32::NAN]));
        assert_eq!(ends(nan().and(some())), ["0.0", "999.0"]);
        assert_eq!(ends(some().and(nan())), ["0.0", "999.0"]);
        assert_eq!(ends(nan().and(nan())), ["NaN", "NaN"]);
    }
}
