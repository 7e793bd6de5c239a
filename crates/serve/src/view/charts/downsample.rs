//! Downsamples a column over rows, for a chart of a given number of pixels.
//!
//! Each pixel gets the first, the last, the smallest and the largest value of its rows (M4), so that the chart looks as
//! if all points were drawn.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrowwood::{Column, Dataset, Error, ErrorKind};
use serde_json::{Value as Json, json};

use super::numbers::{M4Summary, both, ends, is_number, text_of};
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, Result, ResultExt};
use crate::ops::{Budget, Share};
use crate::read::check_start;
use crate::session::Session;
use crate::view::cells::one_column;

pub(crate) const PARAMETERS: &[&str] = &["at", "from", "to", "count", "sample", "over", "start", "stop"];

/// The number of bins, unless the client asks for more or fewer.
const DEFAULT_COUNT: u64 = 500;
const MAX_COUNT: u64 = 4_000;
/// The maximum number of rows of a bin that a sample reads.
pub(crate) const MAX_SAMPLED_ROWS: u64 = 512;
/// The maximum number of rows in a step, after which the request checks that the client is still there.
pub(crate) const MAX_STEP_ROWS: u64 = 1 << 24;
/// The maximum number of threads that read rows for a request.
pub(crate) const MAX_THREADS: usize = 4;

/// A parsed request.
pub(crate) struct BinRequest {
    pub rows: Dataset,
    pub column: Column,
    /// The number of the column.
    pub number: usize,
    /// The number of the table's first row.
    pub first_row: u64,
    /// The requested rows, by their numbers.
    pub from: u64,
    pub to: u64,
    /// The requested number of bins.
    pub count: u64,
    pub is_sample: bool,
}

impl BinRequest {
    /// Parses `query`.
    pub fn from_query(snapshot: Snapshot, query: &Query) -> Result<BinRequest> {
        let rows = snapshot.rows;
        let first_row = rows.first_row();
        let end = first_row + rows.len().or_table_problem()?;
        let from = query.number::<u64>("from")?.unwrap_or(first_row);
        check_start(from, first_row, end)?;
        let to = query.number::<u64>("to")?.unwrap_or(end).clamp(from, end);
        let count = query.number::<u64>("count")?.unwrap_or(DEFAULT_COUNT).clamp(1, MAX_COUNT);
        let is_sample = query.flag("sample")?;
        let number = one_column(&rows, query)?;
        let column = rows.column_at(number).or_table_problem()?;
        if !is_number(column.data_type()) {
            return Err(Problem::bad_request("bins: a column of numbers or times is expected"));
        }
        Ok(BinRequest { rows, column, number, first_row, from, to, count, is_sample })
    }

    /// Returns the smallest and the largest value of all bins, as text.
    pub fn range(&self, bins: &[Option<M4Summary>]) -> Option<[String; 2]> {
        let all = bins.iter().copied().fold(None, both)?;
        Some([text_of(self.column.data_type(), all.min), text_of(self.column.data_type(), all.max)])
    }
}

/// A range of rows, by their indices in a dataset.
pub(crate) type Span = std::ops::Range<u64>;

/// Divides `rows` into `count` spans of equal length.
fn divide(rows: &Span, count: u64) -> Vec<Span> {
    let len = u128::from(rows.end - rows.start);
    let mut spans = Vec::with_capacity(count as usize);
    let mut start = rows.start;
    for bin in 1..=count {
        let end = rows.start + (len * u128::from(bin) / u128::from(count)) as u64;
        spans.push(start..end);
        start = end;
    }
    assert!(count == 0 || start == rows.end, "bins end at row {start} of {rows:?}");
    spans
}

/// Calls `work` for each of the parts in up to [`MAX_THREADS`] threads. Returns the results in the order of the parts.
///
/// The threads take the numbers of parts from one counter, so that a thread with little work takes more parts. The
/// counter gives each number once, whatever its ordering, and the results are read after the threads have ended.
pub(crate) fn by_threads<P: Sync, T: Send>(
    parts: &[P],
    work: impl Fn(&P) -> arrowwood::Result<T> + Sync,
) -> arrowwood::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let mut results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| take_parts(parts, &next, &work))).collect();
        let mut results = take_parts(parts, &next, &work);
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(_) => {
                    let e = Error::new(ErrorKind::Internal, "a thread that looked at rows panicked");
                    results.push((usize::MAX, Err(e)));
                }
            }
        }
        results
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Calls `work` for parts that no other thread has taken, until none is left. Returns their numbers and results.
fn take_parts<P, T>(
    parts: &[P],
    next: &AtomicUsize,
    work: impl Fn(&P) -> arrowwood::Result<T>,
) -> Vec<(usize, arrowwood::Result<T>)> {
    let mut results = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(part) = parts.get(number) else { return results };
        results.push((number, work(part)));
    }
}

/// Summarizes a column in each of `spans`; a sample reads the rows in the middle of each. Ends when the client
/// disconnects.
pub(crate) async fn summarize(
    budget: &mut Budget,
    column: &Column,
    spans: Vec<Span>,
    is_sample: bool,
) -> Result<Vec<Option<M4Summary>>> {
    let mut summaries = Vec::with_capacity(spans.len());
    let mut spans = spans.into_iter().peekable();
    while spans.peek().is_some() {
        let mut step: Vec<Span> = Vec::new();
        let mut rows = 0;
        while let Some(span) =
            spans.next_if(|span| step.is_empty() || is_sample || rows + (span.end - span.start) <= MAX_STEP_ROWS)
        {
            rows += span.end - span.start;
            step.push(if is_sample { middle(&span) } else { span });
        }
        let column = column.clone();
        let work = move |_: &mut Share| summarize_spans(&column, &step, is_sample).or_table_problem();
        summaries.extend(budget.run_blocking(budget.step(), work).await?);
    }
    Ok(summaries)
}

/// Returns the [`MAX_SAMPLED_ROWS`] rows in the middle of a span.
fn middle(span: &Span) -> Span {
    let rows = span.end - span.start;
    let size = rows.min(MAX_SAMPLED_ROWS);
    let start = span.start + (rows - size) / 2;
    start..start + size
}

fn summarize_spans(column: &Column, spans: &[Span], is_sample: bool) -> arrowwood::Result<Vec<Option<M4Summary>>> {
    if is_sample {
        // The pages of a sample are scattered: they are read at once, and not one after the other.
        for span in spans {
            if let Ok(part) = column.slice(span.start, span.end - span.start) {
                part.as_dataset().prefetch();
            }
        }
    }
    by_threads(spans, |span| Ok(column.slice(span.start, span.end - span.start)?.map_reduce(ends, both)?.flatten()))
}

/// Converts bins to JSON: `[first, min, max, last]`, or null for a bin without values.
pub(crate) fn to_json(bins: Vec<Option<M4Summary>>) -> Json {
    bins.into_iter().map(|bin| bin.map_or(Json::Null, |bin| json!([bin.first, bin.min, bin.max, bin.last]))).collect()
}

/// Returns the bins over rows that `query` requests. Ends when the client disconnects.
pub(crate) async fn bins(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    if let Some(parameter) = ["start", "stop"].iter().find(|name| query.all(name).next().is_some()) {
        return Err(Problem::bad_request(format!(
            "{parameter}: over, the number of a column of times, is expected with it"
        )));
    }
    let request = BinRequest::from_query(snapshot, query)?;
    let BinRequest { from, to, first_row, is_sample, .. } = request;
    let spans = divide(&(from - first_row..to - first_row), request.count.min(to - from));
    let is_exact = !is_sample || spans.iter().all(|span| span.end - span.start <= MAX_SAMPLED_ROWS);
    let bins = summarize(&mut session.budget(), &request.column, spans, is_sample).await?;
    let range = request.range(&bins);
    Ok(json!({"from": from, "to": to, "bins": to_json(bins), "range": range, "exact": is_exact}))
}
