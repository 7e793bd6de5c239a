//! A column over time: bins of equal lengths of time, of each the value of its first time, the least, the greatest, and the value
//! of its last time. Of rows that are sorted by time a bin's rows are found by binary search; of others all are looked at.

use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrowwood::{Column, Dataset, Error, Operator, Value, col, ellipsize};
use serde_json::{Value as Json, json};

use crate::budget::{Budget, Share};
use crate::condition::parse_condition;
use crate::downsample::{BinRequest, SAMPLE, Span, by_threads, looked_at, to_json};
use crate::numbers::{M4Summary, each_number, each_time, is_time, time_of};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::table::Kind;
use crate::value_condition::name_of;

/// Characters of a time.
const WIDTH: usize = 60;
/// Rows whose times and values are held at once, and rows between two looks whether the client is still there.
const PIECE: u64 = 1 << 16;
const BLOCK: u64 = 1 << 24;
/// Blocks of a sample, and the rows of each.
const BLOCKS: u64 = 256;
const ROWS: u64 = 1_024;

/// Bins of time: `start`, and the ends of each. A bin has the times before its end, and the last of all times, behind which
/// there is none.
struct TimeBins {
    start: i64,
    ends: Vec<i64>,
}

impl TimeBins {
    /// At most `count` bins from `start` to before `stop`.
    fn new(start: i64, stop: i64, count: u64) -> TimeBins {
        let long = (i128::from(stop) - i128::from(start)).max(0);
        let count = i128::from(count).min(long);
        let end = |bin: i128| (i128::from(start) + long * (bin + 1) / count) as i64;
        TimeBins { start, ends: (0..count).map(end).collect() }
    }

    /// The bin that a time is in.
    fn bin(&self, time: i64) -> Option<usize> {
        let stop = *self.ends.last()?;
        if time < self.start || !is_before(time, stop) {
            return None;
        }
        // A float may miss it by one.
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

/// What is known of the rows of a bin: its ends, and the times of the first and the last value.
#[derive(Clone, Copy)]
struct TimedBin {
    ends: M4Summary,
    first: i64,
    last: i64,
}

impl TimedBin {
    /// Of these rows, and of others behind them.
    fn and(self, next: TimedBin) -> TimedBin {
        let [first, last] = [next.first < self.first, next.last >= self.last];
        let mut ends = self.ends.and(next.ends);
        ends.first = if first { next.ends.first } else { self.ends.first };
        ends.last = if last { next.ends.last } else { self.ends.last };
        TimedBin { ends, first: self.first.min(next.first), last: self.last.max(next.last) }
    }
}

/// The bins of some rows, and how many of these have a time in them.
struct PartialBins {
    bins: Vec<Option<TimedBin>>,
    rows: u64,
}

impl PartialBins {
    fn add(&mut self, bin: usize, found: TimedBin) {
        if let Some(own) = self.bins.get_mut(bin) {
            *own = Some(own.map_or(found, |own| own.and(found)));
        }
    }

    fn and(mut self, next: PartialBins) -> PartialBins {
        next.bins
            .into_iter()
            .enumerate()
            .for_each(|(bin, found)| found.into_iter().for_each(|found| self.add(bin, found)));
        PartialBins { rows: self.rows + next.rows, ..self }
    }

    /// Of the rows `span`, a piece at a time.
    fn build(times: &TimeBins, over: &Column, values: &Column, span: Span) -> arrowwood::Result<PartialBins> {
        let mut found = PartialBins { bins: vec![None; times.ends.len()], rows: 0 };
        for start in (span.start..span.end).step_by(PIECE as usize) {
            let rows = PIECE.min(span.end - start);
            let points = listed(&over.slice(start, rows)?, |array, into| each_time(array, |time| into.push(time)))?;
            let numbers = listed(&values.slice(start, rows)?, |array, into| each_number(array, |x| into.push(x)))?;
            for (time, x) in points.into_iter().zip(numbers) {
                let Some((time, bin)) = time.and_then(|time| Some((time, times.bin(time)?))) else { continue };
                found.rows += 1;
                if let Some(x) = x.filter(|x| x.is_finite()) {
                    let ends = M4Summary { first: x, last: x, min: x, max: x };
                    found.add(bin, TimedBin { ends, first: time, last: time });
                }
            }
        }
        Ok(found)
    }
}

/// The values of a short column.
fn listed<T: Send>(column: &Column, each: impl Fn(&ArrayData, &mut Vec<T>) + Sync) -> arrowwood::Result<Vec<T>> {
    let values = |array: &ArrayData| {
        let mut into = Vec::with_capacity(array.len());
        each(array, &mut into);
        into
    };
    let join = |mut a: Vec<T>, b: Vec<T>| {
        a.extend(b);
        a
    };
    Ok(column.map_reduce(values, join)?.unwrap_or_default())
}

fn number(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Date(n) | Value::Timestamp(n, ..) => Some(*n),
        _ => None,
    }
}

/// The first of the places `span` whose time is not before `time`, in a sorted column.
fn first_at(over: &Column, span: &Span, time: i64) -> arrowwood::Result<u64> {
    let Span { mut start, mut end } = *span;
    while start < end {
        let middle = start + (end - start) / 2;
        over.slice(middle, 1)?.as_dataset().prefetch();
        if number(&over.get(middle)?).is_some_and(|at| at < time) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    Ok(start)
}

/// The places of the rows of each bin, in a sorted column; the first half before the others, so that few rows are touched.
fn sorted_spans(over: &Column, rows: Span, times: &TimeBins) -> arrowwood::Result<Vec<Span>> {
    let mut at = vec![None; times.ends.len()];
    let mut left = vec![(0, times.ends.len(), first_at(over, &rows, times.start)?..rows.end)];
    while let Some((low, high, inside)) = left.pop() {
        if low >= high {
            continue;
        }
        let middle = (low + high) / 2;
        let end = times.ends[middle];
        let found = if end == i64::MAX { inside.end } else { first_at(over, &inside, end)? };
        at[middle] = Some(found);
        left.push((low, middle, inside.start..found));
        left.push((middle + 1, high, found..inside.end));
    }
    let first = first_at(over, &rows, times.start)?;
    let ends = at.into_iter().map(|end| end.unwrap_or(first));
    Ok(ends.scan(first, |start, end| Some(std::mem::replace(start, end)..end)).collect())
}

/// The rows, the column of times, and what is asked of them.
struct Timeline {
    asked: BinRequest,
    over: Column,
    /// The number of the column of times.
    number: usize,
    /// The places of the rows.
    rows: Span,
    is_sorted: bool,
}

/// Bins, as far as they are known.
struct TimelineBins {
    bins: Vec<Option<M4Summary>>,
    /// How many rows have a time in them, if all were looked at or they are sorted.
    rows: Option<u64>,
    /// The number of the first of the rows, if they are sorted.
    first_row: Option<u64>,
    is_exact: bool,
}

impl Timeline {
    fn from_query(snapshot: Snapshot, query: &Query) -> Result<Timeline> {
        let kind = snapshot.table.kind;
        let asked = BinRequest::from_query(snapshot, query)?;
        let wrong = || Problem::bad_request("over: the number of a column of times is expected");
        let number =
            query.number::<usize>("over")?.filter(|over| *over < asked.rows.num_columns()).ok_or_else(wrong)?;
        let over = asked.rows.column_at(number).map_err(|e| Problem::from_table_error(&e))?;
        if !is_time(over.data_type()) {
            return Err(wrong());
        }
        // Several tables are each in an order of their own; days of a date64 are in order, its milliseconds need not be.
        let is_one =
            kind == Kind::Table && asked.rows.split_by_path().len() == 1 && *over.data_type() != DataType::Date64;
        let is_sorted = is_one && asked.rows.sorted_by().is_some_and(|by| by.name() == over.name());
        let rows = asked.from - asked.first_row..asked.to - asked.first_row;
        Ok(Timeline { asked, over, number, rows, is_sorted })
    }

    /// The condition that holds for the rows with times from `start` to before `stop`.
    fn condition(&self, start: i64, stop: i64) -> Option<String> {
        let name = name_of(self.asked.rows.schema(), self.number)?;
        let last = if stop == i64::MAX { stop } else { stop - 1 };
        let bound = |time| Some(format!("'{}'", time_of(self.over.data_type(), time).to_json().ok()?.as_str()?));
        let text = format!("{name} >= {} and {name} <= {}", bound(start)?, bound(last)?);
        // Times beyond the calendar have no text.
        parse_condition(&text, self.asked.rows.schema()).is_ok().then_some(text)
    }

    /// The first time and the last; of rows in no order, by looking at all times.
    async fn extremes(&self, budget: &mut Budget) -> Result<Option<(i64, i64)>> {
        let Span { start, end } = self.rows;
        let wider = |a: Option<(i64, i64)>, b: Option<(i64, i64)>| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        let mut found = None;
        let mut at = start;
        while at < end {
            let rows = if self.is_sorted { 1 } else { BLOCK.min(end - at) };
            let block = self.over.slice(at, rows).map_err(|e| Problem::from_table_error(&e))?;
            let look = move |_: &mut Share| {
                let extremes = |array: &ArrayData| {
                    let mut seen = None;
                    each_time(array, |time| seen = wider(seen, time.map(|time| (time, time))));
                    seen
                };
                block.map_reduce(extremes, wider).map(Option::flatten).map_err(|e| Problem::from_table_error(&e))
            };
            found = wider(found, budget.run_blocking(budget.step(), look).await?);
            at = if self.is_sorted && at + 1 < end { end - 1 } else { at + rows };
        }
        Ok(found)
    }

    /// The bins of sorted rows.
    async fn in_order(&self, budget: &mut Budget, times: TimeBins) -> Result<TimelineBins> {
        let over = self.over.clone();
        let rows = self.rows.clone();
        let search = move |_: &mut Share| sorted_spans(&over, rows, &times).map_err(|e| Problem::from_table_error(&e));
        let spans = budget.run_blocking(budget.step(), search).await?;
        let ends = spans.first().map(|first| first.start).zip(spans.last().map(|last| last.end));
        let is_sample = self.asked.is_sample;
        let is_exact = !is_sample || spans.iter().all(|span| span.end - span.start <= SAMPLE);
        let bins = looked_at(budget, &self.asked.column, spans, is_sample).await?;
        let first_row = ends.map(|(start, _)| self.asked.first_row + start);
        Ok(TimelineBins { bins, rows: ends.map(|(start, end)| end - start), first_row, is_exact })
    }

    /// The rows that may have times of the bins, without blocks of rows that have none where the table knows them.
    fn narrowed(&self, times: &TimeBins) -> arrowwood::Result<Dataset> {
        let rows = self.asked.rows.slice(self.rows.start, self.rows.end - self.rows.start)?;
        let name = self.over.name();
        let is_alone = rows.schema().fields().iter().filter(|field| field.name() == name).count() == 1;
        let Some(stop) = times.ends.last().filter(|_| is_alone && *self.over.data_type() != DataType::Date64) else {
            return Ok(rows);
        };
        let bound = |operator, time| col(name).compare(operator, time_of(self.over.data_type(), time));
        let before = if *stop == i64::MAX { Operator::Le } else { Operator::Lt };
        rows.prune(&(bound(Operator::Ge, times.start) & bound(before, *stop)))
    }

    /// The bins of rows in no order; of a sample, of some blocks of them.
    async fn scattered(&self, budget: &mut Budget, times: TimeBins) -> Result<TimelineBins> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let rows = self.narrowed(&times).map_err(of_table)?;
        let len = rows.len().map_err(of_table)?;
        let over = rows.column_at(self.number).map_err(of_table)?;
        let values = rows.column_at(self.asked.number).map_err(of_table)?;
        let is_exact = !self.asked.is_sample || len <= BLOCKS * ROWS;
        // Blocks one behind the other, or some from everywhere.
        let size = if is_exact { BLOCK / 4 } else { ROWS };
        let count = if is_exact { len.div_ceil(size) } else { BLOCKS };
        let span = move |block: u64| {
            let free = u128::from(len.saturating_sub(ROWS));
            let start =
                if is_exact { block * size } else { (free * u128::from(block) / u128::from(BLOCKS - 1)) as u64 };
            start..len.min(start + size)
        };
        let times = Arc::new(times);
        let mut all = PartialBins { bins: vec![None; times.ends.len()], rows: 0 };
        let at_once = if is_exact { 4 } else { BLOCKS };
        for block in (0..count).step_by(at_once as usize) {
            let [over, values] = [over.clone(), values.clone()];
            let times = times.clone();
            let work = move |_: &mut Share| {
                let spans: Vec<Span> = (block..count.min(block + at_once)).map(span).collect();
                if !is_exact {
                    let parts = spans.iter().flat_map(|span| [&over, &values].map(|of| of.slice(span.start, ROWS)));
                    parts.filter_map(Result::ok).for_each(|part| part.as_dataset().prefetch());
                }
                by_threads(&spans, |span| PartialBins::build(&times, &over, &values, span.clone())).map_err(of_table)
            };
            all = budget.run_blocking(budget.step(), work).await?.into_iter().fold(all, PartialBins::and);
        }
        let bins = all.bins.into_iter().map(|bin| bin.map(|bin| bin.ends)).collect();
        Ok(TimelineBins { bins, rows: is_exact.then_some(all.rows), first_row: None, is_exact })
    }
}

/// The bins over time that `query` asks for. Ends when the client goes.
pub(crate) async fn bins(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let timeline = Timeline::from_query(snapshot, query)?;
    let mut budget = session.budget();
    let given = [query.number::<i64>("start")?, query.number::<i64>("stop")?];
    let (start, stop) = match given {
        [Some(start), Some(stop)] => (start, stop.max(start)),
        [start, stop] => {
            let (first, last) = timeline.extremes(&mut budget).await?.unwrap_or((0, -1));
            let start = start.unwrap_or(first);
            (start, stop.unwrap_or(last.saturating_add(1)).max(start))
        }
    };
    let times = TimeBins::new(start, stop, timeline.asked.count);
    let found = if timeline.is_sorted {
        timeline.in_order(&mut budget, times).await?
    } else {
        timeline.scattered(&mut budget, times).await?
    };
    let text = |time: i64| ellipsize(time_of(timeline.over.data_type(), time), WIDTH);
    let is_empty = start == stop;
    Ok(json!({
        "from": timeline.asked.from,
        "to": timeline.asked.to,
        // As text, as these may have more digits than a float.
        "start": (!is_empty).then(|| start.to_string()),
        "stop": (!is_empty).then(|| stop.to_string()),
        "ends": (!is_empty).then(|| [text(start), text(if stop == i64::MAX { stop } else { stop - 1 })]),
        "condition": if is_empty { None } else { timeline.condition(start, stop) },
        "sorted": timeline.is_sorted,
        "rows": found.rows,
        "first_row": found.first_row,
        "range": timeline.asked.range(&found.bins),
        "exact": found.is_exact,
        "bins": to_json(found.bins),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_time_is_in_the_bin_between_its_ends(start: i64, long in 1i64.., count in 1u64..50, share in 0.0f64..1.0) {
            let stop = start.saturating_add(long);
            let times = TimeBins::new(start, stop, count);
            let inside = (start as i128 + ((stop as i128 - start as i128) as f64 * share) as i128).clamp(start.into(), stop.into());
            let time = inside as i64;
            let expected = times.ends.iter().position(|end| time < *end || *end == i64::MAX);
            proptest::prop_assert_eq!(times.bin(time), expected);
            proptest::prop_assert_eq!(times.bin(stop).is_none(), stop < i64::MAX);
            proptest::prop_assert_eq!(start.checked_sub(1).and_then(|before| times.bin(before)), None);
        }
    }
}
