//! Downsamples a column over time, into bins of equal lengths of time.
//!
//! Each bin has the value at its first time, the smallest, the largest, and the value at its last time. If the rows are
//! sorted by time, the rows of a bin are found by binary search; otherwise all rows are read.
//!
//! With bins of equal numbers of rows, a quiet night would be a moment, as rows come in bursts.

use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrowwood::readable::ellipsize;
use arrowwood::{Column, Dataset, Operator, Value, col};
use serde_json::{Value as Json, json};

use super::downsample::{
    BinRequest, MAX_SAMPLED_ROWS, MAX_STEP_ROWS, MAX_THREADS, Span, by_threads, summarize, to_json,
};
use super::numbers::{M4Summary, each_number, each_time, is_time, time_of};
use crate::catalog::{Kind, Snapshot};
use crate::http::{Problem, Query, Result, ResultExt};
use crate::ops::{Budget, Share};
use crate::read::parse_condition;
use crate::session::Session;
use crate::view::value_condition::name_of;

/// The maximum number of characters of a time.
const MAX_TIME_CHARS: usize = 60;
/// The number of rows whose times and values are in memory at once.
const CHUNK_ROWS: u64 = 1 << 16;
/// The number of rows in a block, several of which are read at once in a step.
const BLOCK_ROWS: u64 = MAX_STEP_ROWS / MAX_THREADS as u64;
/// The number of blocks of a sample, and the rows of each.
const SAMPLE_BLOCKS: u64 = 256;
const SAMPLE_ROWS: u64 = 1_024;

/// Bins of time. A bin has the times before its end; a bin that ends at `i64::MAX` has that time, too, as it is the
/// last one that exists.
struct TimeBins {
    /// The start of the first bin.
    start: i64,
    /// The end of each bin, which is the start of the next one.
    ends: Vec<i64>,
}

impl TimeBins {
    /// Creates at most `count` bins from `start` to before `stop`.
    fn new(start: i64, stop: i64, count: u64) -> TimeBins {
        let length = (i128::from(stop) - i128::from(start)).max(0);
        let count = i128::from(count).min(length);
        let ends: Vec<i64> = (1..=count).map(|bin| (i128::from(start) + length * bin / count) as i64).collect();
        debug_assert!(ends.is_sorted(), "bins of time are in order");
        TimeBins { start, ends }
    }

    /// Returns the number of the bin that a time is in.
    fn bin(&self, time: i64) -> Option<usize> {
        let stop = *self.ends.last()?;
        if time < self.start || !is_before(time, stop) {
            return None;
        }
        // The position computed with floats may be off by one.
        let share = time.abs_diff(self.start) as f64 / stop.abs_diff(self.start) as f64;
        let mut bin = ((share * self.ends.len() as f64) as usize).min(self.ends.len() - 1);
        while bin > 0 && self.ends[bin - 1] > time {
            bin -= 1;
        }
        while !is_before(time, self.ends[bin]) {
            bin += 1;
        }
        Some(bin)
    }
}

fn is_before(time: i64, end: i64) -> bool {
    time < end || end == i64::MAX
}

/// The summary of the rows of a bin, and the times of its first and its last value.
#[derive(Clone, Copy)]
struct TimedBin {
    summary: M4Summary,
    first_time: i64,
    last_time: i64,
}

impl TimedBin {
    /// Creates the bin of a single row.
    fn new(time: i64, x: f64) -> TimedBin {
        TimedBin { summary: M4Summary::new(x), first_time: time, last_time: time }
    }

    /// Merges the bins of these rows, and of rows after them in the dataset.
    fn and(self, next: TimedBin) -> TimedBin {
        let mut summary = self.summary.and(next.summary);
        summary.first = if next.first_time < self.first_time { next.summary.first } else { self.summary.first };
        summary.last = if next.last_time >= self.last_time { next.summary.last } else { self.summary.last };
        TimedBin {
            summary,
            first_time: self.first_time.min(next.first_time),
            last_time: self.last_time.max(next.last_time),
        }
    }
}

/// The bins of some rows.
struct PartialBins {
    bins: Vec<Option<TimedBin>>,
    /// The number of rows with a time in the bins.
    rows: u64,
}

impl PartialBins {
    fn new(times: &TimeBins) -> PartialBins {
        PartialBins { bins: vec![None; times.ends.len()], rows: 0 }
    }

    fn add(&mut self, number: usize, next: TimedBin) {
        let bin = &mut self.bins[number];
        *bin = Some(bin.map_or(next, |bin| bin.and(next)));
    }

    fn and(mut self, next: PartialBins) -> PartialBins {
        assert!(self.bins.len() == next.bins.len(), "{} and {} bins", self.bins.len(), next.bins.len());
        for (number, bin) in next.bins.into_iter().enumerate() {
            if let Some(bin) = bin {
                self.add(number, bin);
            }
        }
        PartialBins { rows: self.rows + next.rows, ..self }
    }

    /// Builds the bins of the rows `span`, a chunk at a time.
    fn build(times: &TimeBins, over: &Column, values: &Column, span: Span) -> arrowwood::Result<PartialBins> {
        let mut bins = PartialBins::new(times);
        for start in (span.start..span.end).step_by(CHUNK_ROWS as usize) {
            let rows = CHUNK_ROWS.min(span.end - start);
            let points = to_vec(&over.slice(start, rows)?, |array, into| each_time(array, |time| into.push(time)))?;
            let numbers = to_vec(&values.slice(start, rows)?, |array, into| each_number(array, |x| into.push(x)))?;
            debug_assert!(points.len() == numbers.len(), "{} times, {} values", points.len(), numbers.len());
            for (time, x) in points.into_iter().zip(numbers) {
                let Some((time, bin)) = time.and_then(|time| Some((time, times.bin(time)?))) else { continue };
                bins.rows += 1;
                if let Some(x) = x.filter(|x| x.is_finite()) {
                    bins.add(bin, TimedBin::new(time, x));
                }
            }
        }
        Ok(bins)
    }
}

/// Collects the values of a short column.
fn to_vec<T: Send>(column: &Column, push: impl Fn(&ArrayData, &mut Vec<T>) + Sync) -> arrowwood::Result<Vec<T>> {
    let values = column.map_reduce(
        |array| {
            let mut values = Vec::with_capacity(array.len());
            push(array, &mut values);
            values
        },
        |mut values, next| {
            values.extend(next);
            values
        },
    )?;
    // A column without rows has no arrays.
    Ok(values.unwrap_or_default())
}

/// Returns a point in time as a number, in the column's unit.
fn time_number(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Date(n) | Value::Timestamp(n, ..) => Some(*n),
        _ => None,
    }
}

/// Finds the first row of `span` whose time is not before `time`, in a sorted column.
fn first_at(over: &Column, span: &Span, time: i64) -> arrowwood::Result<u64> {
    let Span { mut start, mut end } = *span;
    while start < end {
        let middle = start + (end - start) / 2;
        over.slice(middle, 1)?.as_dataset().prefetch();
        if time_number(&over.get(middle)?).is_some_and(|other| other < time) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    Ok(start)
}

/// Finds the rows of each bin, in a sorted column. The end of the middle bin is found first, then the ends before and
/// after it, so that each search touches few rows.
fn sorted_spans(over: &Column, rows: Span, times: &TimeBins) -> arrowwood::Result<Vec<Span>> {
    let first = first_at(over, &rows, times.start)?;
    let mut ends = vec![first; times.ends.len()];
    let mut searches = vec![(0..ends.len(), first..rows.end)];
    while let Some((bins, span)) = searches.pop() {
        if bins.is_empty() {
            continue;
        }
        let middle = (bins.start + bins.end) / 2;
        let time = times.ends[middle];
        let end = if time == i64::MAX { span.end } else { first_at(over, &span, time)? };
        ends[middle] = end;
        searches.push((bins.start..middle, span.start..end));
        searches.push((middle + 1..bins.end, end..span.end));
    }
    let mut spans = Vec::with_capacity(ends.len());
    let mut start = first;
    for end in ends {
        assert!(start <= end, "a bin ends at row {end}, before it begins at row {start}");
        spans.push(start..end);
        start = end;
    }
    Ok(spans)
}

/// A request for bins over time.
struct Timeline {
    request: BinRequest,
    /// The column of times, and its number.
    over: Column,
    number: usize,
    /// The requested rows.
    rows: Span,
    is_sorted: bool,
}

/// The bins, and what is known about their rows.
struct TimelineBins {
    bins: Vec<Option<M4Summary>>,
    /// The number of rows with a time in the bins, if all rows were read or they are sorted.
    rows: Option<u64>,
    /// The number of the first of these rows, if they are sorted.
    first_row: Option<u64>,
    is_exact: bool,
}

impl Timeline {
    fn from_query(snapshot: Snapshot, query: &Query) -> Result<Timeline> {
        let kind = snapshot.table.kind;
        let request = BinRequest::from_query(snapshot, query)?;
        let over = match query.number::<usize>("over")? {
            Some(number) if number < request.rows.num_columns() => {
                let over = request.rows.column_at(number).or_table_problem()?;
                is_time(over.data_type()).then_some((number, over))
            }
            _ => None,
        };
        let Some((number, over)) = over else {
            return Err(Problem::bad_request("over: the number of a column of times is expected"));
        };
        // Several files are each in an order of their own. A date64 is ordered by its days, and not of its
        // milliseconds.
        let has_one_order =
            kind == Kind::Table && request.rows.split_by_path().len() == 1 && *over.data_type() != DataType::Date64;
        let is_sorted = has_one_order && request.rows.sorted_by().is_some_and(|by| by.name() == over.name());
        let rows = request.from - request.first_row..request.to - request.first_row;
        Ok(Timeline { request, over, number, rows, is_sorted })
    }

    /// Returns the condition that is true for rows with times from `start` to before `stop`.
    fn condition(&self, start: i64, stop: i64) -> Option<String> {
        let name = name_of(self.request.rows.schema(), self.number)?;
        let first = time_of(self.over.data_type(), start).to_json().ok()?;
        let last = time_of(self.over.data_type(), last_time(stop)).to_json().ok()?;
        let text = format!("{name} >= '{}' and {name} <= '{}'", first.as_str()?, last.as_str()?);
        // Times beyond the calendar have no text.
        parse_condition(&text, self.request.rows.schema()).is_ok().then_some(text)
    }

    /// Returns the first and the last time. If the rows are not sorted, it reads all times.
    async fn extremes(&self, budget: &mut Budget) -> Result<Option<(i64, i64)>> {
        let Span { start, end } = self.rows;
        let mut extremes = None;
        let mut row = start;
        while row < end {
            let rows = if self.is_sorted { 1 } else { MAX_STEP_ROWS.min(end - row) };
            let block = self.over.slice(row, rows).or_table_problem()?;
            let read = move |_: &mut Share| block_extremes(&block).or_table_problem();
            extremes = widest(extremes, budget.run_blocking(budget.step(), read).await?);
            // In sorted rows, the last row follows the first.
            row = if self.is_sorted && row + 1 < end { end - 1 } else { row + rows };
        }
        Ok(extremes)
    }

    /// Returns the bins of sorted rows.
    async fn sorted_bins(&self, budget: &mut Budget, times: TimeBins) -> Result<TimelineBins> {
        let over = self.over.clone();
        let rows = self.rows.clone();
        let search = move |_: &mut Share| sorted_spans(&over, rows, &times).or_table_problem();
        let spans = budget.run_blocking(budget.step(), search).await?;
        let rows = match (spans.first(), spans.last()) {
            (Some(first), Some(last)) => Some(first.start..last.end),
            _ => None,
        };
        let is_sample = self.request.is_sample;
        let is_exact = !is_sample || spans.iter().all(|span| span.end - span.start <= MAX_SAMPLED_ROWS);
        let bins = summarize(budget, &self.request.column, spans, is_sample).await?;
        let first_row = rows.as_ref().map(|rows| self.request.first_row + rows.start);
        Ok(TimelineBins { bins, rows: rows.map(|rows| rows.end - rows.start), first_row, is_exact })
    }

    /// Returns the requested rows without blocks of rows that have no time in the bins, as far as the table knows them.
    fn prune(&self, times: &TimeBins) -> arrowwood::Result<Dataset> {
        let rows = self.request.rows.slice(self.rows.start, self.rows.end - self.rows.start)?;
        let name = self.over.name();
        let is_unique = rows.schema().fields().iter().filter(|field| field.name() == name).count() == 1;
        let Some(&stop) = times.ends.last().filter(|_| is_unique && *self.over.data_type() != DataType::Date64) else {
            return Ok(rows);
        };
        let before_stop = if stop == i64::MAX { Operator::Le } else { Operator::Lt };
        let first = time_of(self.over.data_type(), times.start);
        let stop = time_of(self.over.data_type(), stop);
        rows.prune(&(col(name).compare(Operator::Ge, first) & col(name).compare(before_stop, stop)))
    }

    /// Returns the bins of rows that are not sorted; a sample reads only some blocks of them.
    async fn unsorted_bins(&self, budget: &mut Budget, times: TimeBins) -> Result<TimelineBins> {
        let rows = self.prune(&times).or_table_problem()?;
        let len = rows.len().or_table_problem()?;
        let over = rows.column_at(self.number).or_table_problem()?;
        let values = rows.column_at(self.request.number).or_table_problem()?;
        let is_exact = !self.request.is_sample || len <= SAMPLE_BLOCKS * SAMPLE_ROWS;
        let spans = if is_exact { blocks(len) } else { sample_blocks(len) };
        let times = Arc::new(times);
        let mut all = PartialBins::new(&times);
        let spans_in_step = if is_exact { MAX_THREADS } else { spans.len() };
        for step in spans.chunks(spans_in_step) {
            let (over, values, times, step) = (over.clone(), values.clone(), times.clone(), step.to_vec());
            let work = move |_: &mut Share| {
                if !is_exact {
                    // The pages of a sample are scattered: they are read at once, and not one after the other.
                    for span in &step {
                        for column in [&over, &values] {
                            if let Ok(part) = column.slice(span.start, span.end - span.start) {
                                part.as_dataset().prefetch();
                            }
                        }
                    }
                }
                by_threads(&step, |span| PartialBins::build(&times, &over, &values, span.clone())).or_table_problem()
            };
            all = budget.run_blocking(budget.step(), work).await?.into_iter().fold(all, PartialBins::and);
        }
        let bins = all.bins.into_iter().map(|bin| bin.map(|bin| bin.summary)).collect();
        Ok(TimelineBins { bins, rows: is_exact.then_some(all.rows), first_row: None, is_exact })
    }
}

/// Divides `len` rows into blocks.
fn blocks(len: u64) -> Vec<Span> {
    (0..len.div_ceil(BLOCK_ROWS)).map(|block| block * BLOCK_ROWS..len.min((block + 1) * BLOCK_ROWS)).collect()
}

/// Returns the blocks of a sample, evenly distributed over `len` rows.
fn sample_blocks(len: u64) -> Vec<Span> {
    assert!(len >= SAMPLE_ROWS, "a sample of {len} rows");
    let last_start = u128::from(len - SAMPLE_ROWS);
    (0..SAMPLE_BLOCKS)
        .map(|block| {
            let start = (last_start * u128::from(block) / u128::from(SAMPLE_BLOCKS - 1)) as u64;
            start..start + SAMPLE_ROWS
        })
        .collect()
}

/// Returns the first and the last time in a block.
fn block_extremes(block: &Column) -> arrowwood::Result<Option<(i64, i64)>> {
    let extremes = block.map_reduce(
        |array| {
            let mut extremes = None;
            each_time(array, |time| extremes = widest(extremes, time.map(|time| (time, time))));
            extremes
        },
        widest,
    )?;
    Ok(extremes.flatten())
}

/// Returns the first time and the last time of both.
fn widest(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some((a_first, a_last)), Some((b_first, b_last))) => Some((a_first.min(b_first), a_last.max(b_last))),
        (a, b) => a.or(b),
    }
}

/// Returns the last time of bins that end at `stop`, which is not in them unless it is the last time that exists.
fn last_time(stop: i64) -> i64 {
    if stop == i64::MAX { stop } else { stop - 1 }
}

/// Returns the bins over time that `query` requests. Ends when the client disconnects.
pub(crate) async fn bins(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let timeline = Timeline::from_query(snapshot, query)?;
    let mut budget = session.budget();
    let (start, stop) = match (query.number::<i64>("start")?, query.number::<i64>("stop")?) {
        (Some(start), Some(stop)) => (start, stop.max(start)),
        (start, stop) => {
            let (first, last) = timeline.extremes(&mut budget).await?.unwrap_or((0, -1));
            let start = start.unwrap_or(first);
            (start, stop.unwrap_or(last.saturating_add(1)).max(start))
        }
    };
    let times = TimeBins::new(start, stop, timeline.request.count);
    let TimelineBins { bins, rows, first_row, is_exact } = if timeline.is_sorted {
        timeline.sorted_bins(&mut budget, times).await?
    } else {
        timeline.unsorted_bins(&mut budget, times).await?
    };
    let is_empty = start == stop;
    let ends = [start, last_time(stop)].map(|time| ellipsize(time_of(timeline.over.data_type(), time), MAX_TIME_CHARS));
    Ok(json!({
        "from": timeline.request.from,
        "to": timeline.request.to,
        // Numbers of 64 bits are sent as text, as they have more digits than a float.
        "start": (!is_empty).then(|| start.to_string()),
        "stop": (!is_empty).then(|| stop.to_string()),
        "ends": (!is_empty).then_some(ends),
        "condition": if is_empty { None } else { timeline.condition(start, stop) },
        "sorted": timeline.is_sorted,
        "rows": rows,
        "first_row": first_row,
        "range": timeline.request.range(&bins),
        "exact": is_exact,
        "bins": to_json(bins),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn times_fall_into_the_bin_between_its_bounds(
            start: i64, length in 1i64.., count in 1u64..50, share in 0.0f64..1.0,
        ) {
            let stop = start.saturating_add(length);
            let times = TimeBins::new(start, stop, count);
            let offset = ((i128::from(stop) - i128::from(start)) as f64 * share) as i128;
            let time = (i128::from(start) + offset).clamp(start.into(), stop.into()) as i64;
            let expected = times.ends.iter().position(|end| time < *end || *end == i64::MAX);
            proptest::prop_assert_eq!(times.bin(time), expected);
            proptest::prop_assert_eq!(times.bin(stop).is_none(), stop < i64::MAX);
            proptest::prop_assert_eq!(start.checked_sub(1).and_then(|before| times.bin(before)), None);
        }
    }
}
