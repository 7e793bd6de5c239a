//! A column over rows, for a picture as wide as so many pixels: of the rows of each pixel the first, the last, the least and
//! the greatest value (M4), so that the picture is that of all points.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrowwood::{Column, Dataset, Error, ErrorKind};
use serde_json::{Value as Json, json};

use crate::budget::{Budget, Share};
use crate::cells::one_column;
use crate::numbers::{M4Summary, both, ends, is_number, text_of};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::row_stream::check_start;
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["at", "from", "to", "count", "sample", "over", "start", "stop"];

/// Bins of an answer: unless the client says otherwise, and at most.
const COUNT: (u64, u64) = (500, 4_000);
/// Rows of a bin that a sample reads.
pub(crate) const SAMPLE: u64 = 512;
/// Rows between two looks whether the client is still there.
const BLOCK: u64 = 1 << 24;

/// What is asked for, and where.
pub(crate) struct BinRequest {
    pub rows: Dataset,
    /// The column, and its number.
    pub column: Column,
    pub number: usize,
    /// The number of the first row of all, and the range of rows by their numbers.
    pub first_row: u64,
    pub from: u64,
    pub to: u64,
    pub count: u64,
    pub is_sample: bool,
}

impl BinRequest {
    /// What `query` asks for.
    pub fn from_query(snapshot: Snapshot, query: &Query) -> Result<BinRequest> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let rows = snapshot.rows;
        let first_row = rows.first_row();
        let end = first_row + rows.len().map_err(of_table)?;
        let from = query.number::<u64>("from")?.unwrap_or(first_row);
        check_start(from, first_row, end)?;
        let to = query.number::<u64>("to")?.unwrap_or(end).clamp(from, end);
        let count = query.number::<u64>("count")?.unwrap_or(COUNT.0).clamp(1, COUNT.1);
        let is_sample = query.flag("sample")?;
        let number = one_column(&rows, query)?;
        let column = rows.column_at(number).map_err(of_table)?;
        if !is_number(column.data_type()) {
            return Err(Problem::bad_request("bins: a column of numbers or times is expected"));
        }
        Ok(BinRequest { rows, column, number, first_row, from, to, count, is_sample })
    }

    /// The least and the greatest of all bins as text.
    pub fn range(&self, found: &[Option<M4Summary>]) -> Option<[String; 2]> {
        let all = found.iter().copied().fold(None, both)?;
        Some([text_of(self.column.data_type(), all.min), text_of(self.column.data_type(), all.max)])
    }
}

/// Places of rows in their dataset.
pub(crate) type Span = std::ops::Range<u64>;

/// The places of `count` bins of `rows`.
fn spans(rows: &Span, count: u64) -> Vec<Span> {
    let len = u128::from(rows.end - rows.start);
    let at = |bin: u64| rows.start + (len * u128::from(bin) / u128::from(count.max(1))) as u64;
    (0..count).map(|bin| at(bin)..at(bin + 1)).collect()
}

/// What `one` makes of parts, of which several threads take each the next that is left; in the order of the parts.
pub(crate) fn by_threads<P: Sync, T: Send>(
    parts: &[P],
    one: impl Fn(&P) -> arrowwood::Result<T> + Sync,
) -> arrowwood::Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else { return done };
            done.push((number, one(part)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        let gone = || (usize::MAX, Err(Error::new(ErrorKind::Internal, "a thread that looked at rows panicked")));
        others.into_iter().for_each(|other| done.extend(other.join().unwrap_or_else(|_| vec![gone()])));
        done
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

/// What a column has in `spans`; of a sample, in the middle of each. Ends when the client goes.
pub(crate) async fn looked_at(
    budget: &mut Budget,
    column: &Column,
    spans: Vec<Span>,
    is_sample: bool,
) -> Result<Vec<Option<M4Summary>>> {
    let mut found = Vec::with_capacity(spans.len());
    let mut left = spans.into_iter().peekable();
    while left.peek().is_some() {
        let mut some: Vec<Span> = Vec::new();
        let mut rows = 0;
        while let Some(span) =
            left.next_if(|span| some.is_empty() || is_sample || rows + (span.end - span.start) <= BLOCK)
        {
            rows += span.end - span.start;
            some.push(span);
        }
        let column = column.clone();
        let look = move |_: &mut Share| {
            let part = |span: &Span| {
                let rows = span.end - span.start;
                let size = if is_sample { rows.min(SAMPLE) } else { rows };
                column.slice(span.start + (rows - size) / 2, size)
            };
            if is_sample {
                some.iter().filter_map(|span| part(span).ok()).for_each(|part| part.as_dataset().prefetch());
            }
            let one = |span: &Span| Ok(part(span)?.map_reduce(ends, both)?.flatten());
            by_threads(&some, one).map_err(|e| Problem::from_table_error(&e))
        };
        found.extend(budget.run_blocking(budget.step(), look).await?);
    }
    Ok(found)
}

/// Bins as an answer has them.
pub(crate) fn to_json(found: Vec<Option<M4Summary>>) -> Json {
    found.into_iter().map(|bin| bin.map_or(Json::Null, |bin| json!([bin.first, bin.min, bin.max, bin.last]))).collect()
}

/// The bins over rows that `query` asks for. Ends when the client goes.
pub(crate) async fn bins(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    if let Some(wrong) = ["start", "stop"].iter().find(|name| query.all(name).next().is_some()) {
        return Err(Problem::bad_request(format!(
            "{wrong}: over, the number of a column of times, is expected with it"
        )));
    }
    let asked = BinRequest::from_query(snapshot, query)?;
    let BinRequest { from, to, first_row, is_sample, .. } = asked;
    let spans = spans(&(from - first_row..to - first_row), asked.count.min(to - from));
    let is_exact = !is_sample || spans.iter().all(|span| span.end - span.start <= SAMPLE);
    let found = looked_at(&mut session.budget(), &asked.column, spans, is_sample).await?;
    let range = asked.range(&found);
    Ok(json!({"from": from, "to": to, "bins": to_json(found), "range": range, "exact": is_exact}))
}
