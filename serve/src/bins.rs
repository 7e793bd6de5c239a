//! A column over rows, for a picture as wide as so many pixels: of the rows of each pixel the first, the last, the least and
//! the greatest value (M4), so that the picture is that of all points.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::{Column, Error, ErrorKind};
use serde_json::{Value as Json, json};

use crate::budget::Share;
use crate::cells::one_column;
use crate::numbers::{Ends, both, ends, is_number, text_of};
use crate::query::Query;
use crate::reading::check_start;
use crate::refusal::{Refusal, Result};
use crate::session::Session;
use crate::table::Table;

pub(crate) const PARAMETERS: &[&str] = &["at", "from", "to", "count", "sample"];

/// Bins of an answer: unless the client says otherwise, and at most.
const COUNT: (u64, u64) = (500, 4_000);
/// Rows of a bin that a sample reads.
const SAMPLE: u64 = 512;
/// Rows between two looks whether the client is still there.
const BLOCK: u64 = 1 << 24;

/// The rows of bin `bin`, counted from `from`.
fn span(from: u64, to: u64, count: u64, bin: u64) -> (u64, u64) {
    let at = |bin: u64| from + (u128::from(to - from) * u128::from(bin) / u128::from(count.max(1))) as u64;
    (at(bin), at(bin + 1))
}

/// The bins `bins` of `count` over the column's rows `from .. to`, by several threads.
fn some(
    column: &Column,
    (from, to): (u64, u64),
    count: u64,
    bins: std::ops::Range<u64>,
    is_sample: bool,
) -> arrowwood::Result<Vec<Option<Ends>>> {
    let one = |bin: u64| -> arrowwood::Result<Option<Ends>> {
        let (start, end) = span(from, to, count, bin);
        let rows = end - start;
        let some = if is_sample { rows.min(SAMPLE) } else { rows };
        Ok(column.slice(start + (rows - some) / 2, some)?.map_reduce(ends, both)?.flatten())
    };
    let next = AtomicU64::new(bins.start);
    let work = || {
        let mut done = Vec::new();
        loop {
            let bin = next.fetch_add(1, Ordering::Relaxed);
            if bin >= bins.end {
                return done;
            }
            done.push((bin, one(bin)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        let gone = || (u64::MAX, Err(Error::new(ErrorKind::Internal, "a thread that looked at rows panicked")));
        others.into_iter().for_each(|other| done.extend(other.join().unwrap_or_else(|_| vec![gone()])));
        done
    });
    done.sort_by_key(|(bin, _)| *bin);
    done.into_iter().map(|(_, bin)| bin).collect()
}

/// The bins that `query` asks for. Ends when the client goes.
pub(crate) async fn bins(session: &Session, table: Arc<Table>, query: &Query) -> Result<Json> {
    let of_table = |e: Error| Refusal::of_table(&e);
    let rows = session.work(move |_| table.rows().map_err(of_table)).await?;
    let first_row = rows.first_row();
    let end = first_row + rows.len().map_err(of_table)?;
    let from = query.number::<u64>("from")?.unwrap_or(first_row);
    check_start(from, first_row, end)?;
    let to = query.number::<u64>("to")?.unwrap_or(end).clamp(from, end);
    let count = query.number::<u64>("count")?.unwrap_or(COUNT.0).clamp(1, COUNT.1).min(to - from);
    let is_sample = query.flag("sample")?;
    let column = rows.column_at(one_column(&rows, query)?).map_err(of_table)?;
    let data_type = column.data_type().clone();
    if !is_number(&data_type) {
        return Err(Refusal::bad_request("bins: a column of numbers or times is expected"));
    }
    let range = (from - first_row, to - first_row);
    let per_bin = (to - from).div_ceil(count.max(1)).max(1);
    let at_once = if is_sample { count } else { (BLOCK / per_bin).max(1) };
    let mut found = Vec::new();
    let mut budget = session.budget();
    let mut next = 0;
    while next < count {
        let some_of = next..(next + at_once).min(count);
        next = some_of.end;
        let column = column.clone();
        let work = move |_: &mut Share| some(&column, range, count, some_of, is_sample).map_err(of_table);
        found.extend(budget.work(budget.step(), work).await?);
    }
    let all = found.iter().copied().fold(None, both);
    let texts = all.map(|all| [text_of(&data_type, all.min), text_of(&data_type, all.max)]);
    let is_whole = !is_sample || per_bin <= SAMPLE;
    let found: Vec<Json> = found
        .into_iter()
        .map(|bin| bin.map_or(Json::Null, |bin| json!([bin.first, bin.min, bin.max, bin.last])))
        .collect();
    Ok(json!({"from": from, "to": to, "bins": found, "range": texts, "exact": is_whole}))
}
