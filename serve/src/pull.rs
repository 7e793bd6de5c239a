//! Maintains a local table that is always a prefix of a server's table, and reports rows only once they are durable.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrowwood::{
    COMPARED_ROWS, Dataset, Error, ErrorKind, LatePolicy, NUMBERING, PROMOTED, Result, Writer, WriterOptions, open,
    read_stream, rows_equal,
};
use serde_json::Value as Json;

use crate::client::{Client, ClientOptions, RequestError};

/// Pauses between attempts to reach a server: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// After an attempt that lasted this long, pauses begin with the first one again.
const CALM: Duration = Duration::from_secs(10);
/// Rows become durable at least every so many bytes.
const BURST: usize = 64 << 20;

/// The progress of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The rows of the local table, all of them durable.
    pub rows: u64,
    /// The durable rows of the server's table at the last request.
    pub there: u64,
}

/// Fetches the rows of the table at `url` that the table at `path` lacks, which is created if it does not exist. With
/// `follow`, continues as the server's table grows, across broken connections, until `told` returns false. `told` is
/// called whenever more rows are durable here.
///
/// Only rows that are durable on the server are fetched: the local table is a prefix of the server's whatever happens
/// to either machine.
///
/// # Errors
/// `InvalidArgument` for a URL that names no table; `SchemaMismatch` and `InvalidData` if the local table is not a
/// prefix; `RowOutOfRange` if rows were dropped before they were fetched; `FileChanged` without `follow` if the
/// server's rows are sorted meanwhile; `Busy` while another process writes the local table; `NotFound`,
/// `PermissionDenied`, and without `follow` `Io`, as the server answers.
pub fn pull(
    url: &str,
    path: &Path,
    options: &ClientOptions,
    follow: bool,
    mut told: impl FnMut(PullProgress) -> bool,
) -> Result<PullProgress> {
    let client = Client::new(url, options)?;
    let mut pause = PAUSES.0;
    loop {
        let begun = Instant::now();
        match once(&client, path, follow, &mut told) {
            Ok(Some(pulled)) => return Ok(pulled),
            Err(RequestError::Permanent(e)) => return Err(e),
            Err(RequestError::Transient(e)) if !follow => return Err(e),
            // The server was stopped, or can't be reached.
            Ok(None) | Err(RequestError::Transient(_)) => (),
        }
        if begun.elapsed() > CALM {
            pause = PAUSES.0;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Pulls over one connection; returns the result if the pull has ended, or `None` if there may be more.
fn once(
    client: &Client,
    path: &Path,
    follow: bool,
    told: &mut impl FnMut(PullProgress) -> bool,
) -> std::result::Result<Option<PullProgress>, RequestError> {
    let facts = TableInfo::from_json(&client.facts()?).map_err(RequestError::Permanent)?;
    let here = local_rows(path).map_err(RequestError::Permanent)?;
    let known = here.as_ref().map_or(Ok(0), Dataset::len).map_err(RequestError::Permanent)?;
    check_range(known, &facts).map_err(|e| RequestError::Permanent(e.at(path)))?;
    let noted = here.as_ref().map_or(Ok(None), noted).map_err(RequestError::Permanent)?;
    if let Some(here) = here.filter(|_| known > 0) {
        let from = first_compared(known, &facts, noted).map_err(|e| RequestError::Permanent(e.at(path)))?;
        compare(client, path, &here, from..known, &facts)?;
    }
    let request = if follow {
        format!("/follow?from={known}&durable=true&numbering={:016x}", facts.numbering)
    } else {
        let to = facts.durable_end.max(known);
        format!("/rows?from={known}&to={to}&numbering={:016x}", facts.numbering)
    };
    let answer = client.stream(&request)?;
    let waiting = answer.waiting();
    let mut stream = read_stream(answer).map_err(of_stream)?;
    let late = facts.is_late.then_some(LatePolicy::Accept);
    let options = WriterOptions { sorted_by: facts.sorted_by.clone(), late, ..WriterOptions::default() };
    let writer = Writer::open(path, Some(stream.schema().clone()), &options).map_err(RequestError::Permanent)?;
    let mut local = LocalTable { writer, unsynced: 0, there: facts.durable_end };
    if local.writer.rows() != known {
        // Another process wrote in between.
        return Ok(None);
    }
    if noted != Some(facts.numbering) || !local.writer.is_replica() {
        local.note(facts.numbering).map_err(RequestError::Permanent)?;
    }
    let ended = loop {
        match stream.next() {
            None => break None,
            Some(Err(e)) => break Some(of_stream(e)),
            Some(Ok(batch)) => local.append(&batch).map_err(RequestError::Permanent)?,
        }
        // While more rows are available, they become durable together.
        if waiting.load(Ordering::Acquire) == 0 || local.unsynced > BURST {
            let pulled = local.sync().map_err(RequestError::Permanent)?;
            if !told(pulled) {
                return Ok(Some(pulled));
            }
        }
    };
    // Rows received before a connection broke are kept.
    let pulled = local.sync().map_err(RequestError::Permanent)?;
    local.writer.close().map_err(RequestError::Permanent)?;
    let goes_on = told(pulled);
    match ended {
        Some(failed) => Err(failed),
        None if follow && goes_on => Ok(None),
        None => Ok(Some(pulled)),
    }
}

/// The local table and its writer.
struct LocalTable {
    writer: Writer,
    unsynced: usize,
    there: u64,
}

impl LocalTable {
    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.append(batch)?;
        self.writer.commit()?;
        self.unsynced += batch.get_array_memory_size();
        Ok(())
    }

    /// Records the numbering by which rows are pulled; the existing rows have it.
    fn note(&mut self, numbering: u64) -> Result<()> {
        let mut positions = vec![(NUMBERING, numbering.cast_signed())];
        // What was a table of its own becomes a replica again.
        if self.writer.positions().contains_key(PROMOTED) {
            positions.push((PROMOTED, 0));
        }
        self.writer.commit_with(&positions)?;
        self.writer.sync()
    }

    fn sync(&mut self) -> Result<PullProgress> {
        if self.unsynced > 0 {
            self.writer.sync()?;
            self.unsynced = 0;
        }
        let rows = self.writer.durable_rows();
        Ok(PullProgress { rows, there: self.there.max(rows) })
    }
}

/// The server's facts about its table.
struct TableInfo {
    first_row: u64,
    end: u64,
    durable_end: u64,
    /// Identifies the numbering: another one if row numbers may have changed.
    numbering: u64,
    sorted_by: Option<String>,
    is_late: bool,
}

impl TableInfo {
    fn from_json(told: &Json) -> Result<TableInfo> {
        let wrong = |name: &str| {
            let message = format!("the server has not said what '{name}' is; is it a table, and `arrowwood serve`?");
            Error::new(ErrorKind::InvalidArgument, message)
        };
        let number = |name: &str| told[name].as_u64().ok_or_else(|| wrong(name));
        let numbering = told["numbering"].as_str().and_then(|text| u64::from_str_radix(text, 16).ok());
        let numbering = numbering.ok_or_else(|| wrong("numbering"))?;
        let sorted_by = told["sorted_by"].as_str().map(str::to_owned);
        let [first_row, end, durable_end] = [number("first_row")?, number("end")?, number("durable_end")?];
        let is_late = told["late"] == true;
        Ok(TableInfo { first_row, end, durable_end, numbering, sorted_by, is_late })
    }
}

/// The local table; `None` if it does not exist.
fn local_rows(path: &Path) -> Result<Option<Dataset>> {
    match open(path) {
        Ok(rows) if rows.first_row() > 0 => {
            let message = "the local table's first rows were dropped; pull into another one";
            Err(Error::new(ErrorKind::InvalidArgument, message).at(path))
        }
        Ok(rows) => Ok(Some(rows)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn check_range(known: u64, facts: &TableInfo) -> Result<()> {
    if known < facts.first_row {
        let message = format!(
            "rows {known} to {} were dropped from the server's table before they were fetched",
            facts.first_row
        );
        return Err(Error::new(ErrorKind::RowOutOfRange, message));
    }
    if known > facts.end {
        let message = format!("{known} rows are here and {} there: it is no prefix of the server's table", facts.end);
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// The numbering by which the rows of the local table were pulled, if recorded.
fn noted(here: &Dataset) -> Result<Option<u64>> {
    Ok(here.positions()?.get(NUMBERING).map(|numbering| numbering.cast_unsigned()))
}

/// The first of `known` rows to compare with the server's: if row numbers may have changed since, all that the server
/// still has.
fn first_compared(known: u64, facts: &TableInfo, noted: Option<u64>) -> Result<u64> {
    let last = known.saturating_sub(COMPARED_ROWS);
    if noted == Some(facts.numbering) {
        return Ok(last.max(facts.first_row));
    }
    if facts.first_row > last {
        let message = format!(
            "the server's table was replaced, or its rows put in order, and the rows before {} that would tell whether this is \
             still a prefix of it were dropped there; pull into another table",
            facts.first_row
        );
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(facts.first_row)
}

/// Compares rows of the local table with the server's rows of the same numbers.
fn compare(
    client: &Client,
    path: &Path,
    here: &Dataset,
    range: Range<u64>,
    facts: &TableInfo,
) -> std::result::Result<(), RequestError> {
    let Range { start: mut at, end } = range;
    let request = format!("/rows?from={at}&to={end}&numbering={:016x}", facts.numbering);
    let answer = client.stream(&request).map_err(|failed| match failed {
        // Rows were dropped since the server's facts were requested.
        RequestError::Permanent(e) if e.kind() == ErrorKind::RowOutOfRange => RequestError::Transient(e),
        other => other,
    })?;
    for batch in read_stream(answer).map_err(of_stream)? {
        let there = Dataset::try_from(vec![batch.map_err(of_stream)?]).map_err(RequestError::Permanent)?;
        let len = there.len().map_err(RequestError::Permanent)?;
        let same = here.slice(at, len).and_then(|here| rows_equal(&here, &there));
        if !same.map_err(RequestError::Permanent)? {
            break;
        }
        at += len;
    }
    if at == end {
        return Ok(());
    }
    let message =
        format!("among the rows from number {at} on some are others than the server's: it is no prefix of that table");
    Err(RequestError::Permanent(Error::new(ErrorKind::InvalidData, message).at(path)))
}

/// The error for an answer that broke off, or is not a stream.
fn of_stream(e: Error) -> RequestError {
    match e.kind() {
        ErrorKind::Io => RequestError::Transient(e),
        _ => RequestError::Permanent(e),
    }
}
