//! Maintains a local table that is always a prefix of a server's table, and reports rows only once they are durable.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrowwood::{
    Dataset, Error, ErrorKind, LatePolicy, NUMBERING, PROMOTED, Result, Writer, WriterOptions, open, read_stream,
    rows_equal,
};
use serde_json::Value as Json;

use super::client::{Client, ClientOptions, RequestError};

/// The first pause between two attempts to reach a server; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The maximum pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The duration of a connection after which pauses begin with the first one again.
const STABLE_CONNECTION: Duration = Duration::from_secs(10);
/// The maximum number of bytes received before they are synced.
const MAX_UNSYNCED_BYTES: usize = 64 << 20;
/// The number of rows that are compared with the server's, unless row numbers may have changed.
const MAX_COMPARED_ROWS: u64 = 100;

/// The progress of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullProgress {
    /// The rows of the local table, all of them durable.
    pub rows: u64,
    /// The durable rows of the server's table at the last request.
    pub there: u64,
}

/// Fetches the rows of the table at `url` that the table at `path` lacks.
///
/// The table at `path` is created if it does not exist. With `follow`, continues as the server's table grows, across
/// broken connections, until `on_progress` returns false. `on_progress` is called whenever more rows are durable in the
/// local table.
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
    mut on_progress: impl FnMut(PullProgress) -> bool,
) -> Result<PullProgress> {
    let client = Client::new(url, options)?;
    let mut pause = FIRST_PAUSE;
    loop {
        let start = Instant::now();
        match pull_once(&client, path, follow, &mut on_progress) {
            Ok(Some(pulled)) => return Ok(pulled),
            Err(RequestError::Permanent(e)) => return Err(e),
            Err(RequestError::Transient(e)) if !follow => return Err(e),
            // The server was stopped, or can't be reached.
            Ok(None) | Err(RequestError::Transient(_)) => (),
        }
        if start.elapsed() > STABLE_CONNECTION {
            pause = FIRST_PAUSE;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

/// Pulls over one connection. Returns the result if the pull has ended, or `None` if there may be more rows.
fn pull_once(
    client: &Client,
    path: &Path,
    follow: bool,
    on_progress: &mut impl FnMut(PullProgress) -> bool,
) -> std::result::Result<Option<PullProgress>, RequestError> {
    let server_table = TableInfo::from_json(&client.facts()?).map_err(RequestError::Permanent)?;
    let local_rows = open_local(path).map_err(RequestError::Permanent)?;
    let mut local_len = 0;
    let mut local_numbering = None;
    if let Some(rows) = &local_rows {
        local_len = rows.len().map_err(RequestError::Permanent)?;
        local_numbering = recorded_numbering(rows).map_err(RequestError::Permanent)?;
    }

    check_range(local_len, &server_table).map_err(|e| RequestError::Permanent(e.at(path)))?;
    if let Some(rows) = local_rows
        && local_len > 0
    {
        let first = first_compared_row(local_len, &server_table, local_numbering)
            .map_err(|e| RequestError::Permanent(e.at(path)))?;
        compare(client, path, &rows, first..local_len, &server_table)?;
    }

    let request = if follow {
        format!("/follow?from={local_len}&durable=true&numbering={:016x}", server_table.numbering)
    } else {
        let to = server_table.durable_end.max(local_len);
        format!("/rows?from={local_len}&to={to}&numbering={:016x}", server_table.numbering)
    };
    let answer = client.stream(&request)?;
    let waiting = answer.waiting();
    let mut stream = read_stream(answer).map_err(stream_error)?;

    let late = if server_table.is_late { Some(LatePolicy::Accept) } else { None };
    let options = WriterOptions { sorted_by: server_table.sorted_by.clone(), late, ..WriterOptions::default() };
    let writer = Writer::open(path, Some(stream.schema().clone()), &options).map_err(RequestError::Permanent)?;
    let mut local = LocalTable { writer, unsynced_bytes: 0, server_durable_end: server_table.durable_end };
    if local.writer.rows() != local_len {
        // Another process wrote in between.
        return Ok(None);
    }
    if local_numbering != Some(server_table.numbering) || !local.writer.is_replica() {
        local.record_numbering(server_table.numbering).map_err(RequestError::Permanent)?;
    }

    let failure = loop {
        match stream.next() {
            None => break None,
            Some(Err(e)) => break Some(stream_error(e)),
            Some(Ok(batch)) => local.append(&batch).map_err(RequestError::Permanent)?,
        }
        // While more rows are available, they are synced together.
        if waiting.load(Ordering::Acquire) == 0 || local.unsynced_bytes > MAX_UNSYNCED_BYTES {
            let progress = local.sync().map_err(RequestError::Permanent)?;
            if !on_progress(progress) {
                return Ok(Some(progress));
            }
        }
    };

    // Rows received before a connection broke are kept.
    let progress = local.sync().map_err(RequestError::Permanent)?;
    local.writer.close().map_err(RequestError::Permanent)?;
    let may_continue = on_progress(progress);
    match failure {
        Some(failure) => Err(failure),
        None if follow && may_continue => Ok(None),
        None => Ok(Some(progress)),
    }
}

/// The local table and its writer.
struct LocalTable {
    writer: Writer,
    unsynced_bytes: usize,
    /// The row after the server's last durable one, at the last request.
    server_durable_end: u64,
}

impl LocalTable {
    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = self.writer.rows() + batch.num_rows() as u64;
        self.writer.append(batch)?;
        self.writer.commit()?;
        // The next request begins with the row after the last local one.
        assert_eq!(self.writer.committed_rows(), rows, "a batch was not appended as a whole");
        self.unsynced_bytes += batch.get_array_memory_size();
        Ok(())
    }

    /// Records the numbering by which rows are pulled, which the existing rows have, too.
    fn record_numbering(&mut self, numbering: u64) -> Result<()> {
        let mut positions = vec![(NUMBERING, numbering.cast_signed())];
        // A table that was promoted becomes a replica again.
        if self.writer.positions().contains_key(PROMOTED) {
            positions.push((PROMOTED, 0));
        }
        self.writer.commit_with(&positions)?;
        self.writer.sync()
    }

    fn sync(&mut self) -> Result<PullProgress> {
        if self.unsynced_bytes > 0 {
            self.writer.sync()?;
            self.unsynced_bytes = 0;
        }
        let rows = self.writer.durable_rows();
        let committed = self.writer.committed_rows();
        assert!(rows <= committed, "{rows} rows are durable, and only {committed} committed");
        Ok(PullProgress { rows, there: self.server_durable_end.max(rows) })
    }
}

/// The server's description of its table.
struct TableInfo {
    first_row: u64,
    end: u64,
    durable_end: u64,
    /// Identifies the numbering of rows. It changes if row numbers may have changed.
    numbering: u64,
    sorted_by: Option<String>,
    is_late: bool,
}

impl TableInfo {
    fn from_json(json: &Json) -> Result<TableInfo> {
        let numbering = json["numbering"].as_str().and_then(|text| u64::from_str_radix(text, 16).ok());
        Ok(TableInfo {
            first_row: number_member(json, "first_row")?,
            end: number_member(json, "end")?,
            durable_end: number_member(json, "durable_end")?,
            numbering: numbering.ok_or_else(|| missing_member("numbering"))?,
            sorted_by: json["sorted_by"].as_str().map(str::to_owned),
            is_late: json["late"] == true,
        })
    }
}

fn number_member(json: &Json, name: &str) -> Result<u64> {
    json[name].as_u64().ok_or_else(|| missing_member(name))
}

fn missing_member(name: &str) -> Error {
    let message = format!("the server has not said what '{name}' is; is it a table, and `arrowwood serve`?");
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Opens the local table. Returns `None` if it does not exist.
fn open_local(path: &Path) -> Result<Option<Dataset>> {
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

/// Checks that the server's table has the row after the last local one, or ends there.
fn check_range(local_len: u64, server_table: &TableInfo) -> Result<()> {
    if local_len < server_table.first_row {
        let message = format!(
            "rows {local_len} to {} were dropped from the server's table before they were fetched",
            server_table.first_row
        );
        return Err(Error::new(ErrorKind::RowOutOfRange, message));
    }
    if local_len > server_table.end {
        let end = server_table.end;
        let message = format!("{local_len} rows are here and {end} there: it is no prefix of the server's table");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// Returns the numbering by which the rows of the local table were pulled, if recorded.
fn recorded_numbering(rows: &Dataset) -> Result<Option<u64>> {
    Ok(rows.positions()?.get(NUMBERING).map(|numbering| numbering.cast_unsigned()))
}

/// Returns the first local row to compare with the server's: some of the last rows, or if row numbers may have changed,
/// all that the server still has.
fn first_compared_row(local_len: u64, server_table: &TableInfo, local_numbering: Option<u64>) -> Result<u64> {
    // A shorter table is compared from its first row on.
    let first = local_len.saturating_sub(MAX_COMPARED_ROWS);
    if local_numbering == Some(server_table.numbering) {
        return Ok(first.max(server_table.first_row));
    }
    if server_table.first_row > first {
        let message = format!(
            "the server's table was replaced, or its rows put in order, and the rows before {} that would tell whether \
             this is still a prefix of it were dropped there; pull into another table",
            server_table.first_row
        );
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(server_table.first_row)
}

/// Compares rows of the local table with the server's rows of the same numbers.
fn compare(
    client: &Client,
    path: &Path,
    local_rows: &Dataset,
    range: Range<u64>,
    server_table: &TableInfo,
) -> std::result::Result<(), RequestError> {
    let Range { start: mut row, end } = range;
    let request = format!("/rows?from={row}&to={end}&numbering={:016x}", server_table.numbering);
    let answer = client.stream(&request).map_err(|error| match error {
        // Rows were dropped since the server has described its table.
        RequestError::Permanent(e) if e.kind() == ErrorKind::RowOutOfRange => RequestError::Transient(e),
        other => other,
    })?;
    for batch in read_stream(answer).map_err(stream_error)? {
        let server_rows = Dataset::try_from(vec![batch.map_err(stream_error)?]).map_err(RequestError::Permanent)?;
        let len = server_rows.len().map_err(RequestError::Permanent)?;
        let are_equal = local_rows.slice(row, len).and_then(|local| rows_equal(&local, &server_rows));
        if !are_equal.map_err(RequestError::Permanent)? {
            break;
        }
        row += len;
    }
    if row == end {
        return Ok(());
    }
    let message =
        format!("among the rows from number {row} on some are others than the server's: it is no prefix of that table");
    Err(RequestError::Permanent(Error::new(ErrorKind::InvalidData, message).at(path)))
}

/// Converts the error of a response that broke off, or is not a stream.
fn stream_error(e: Error) -> RequestError {
    match e.kind() {
        ErrorKind::Io => RequestError::Transient(e),
        _ => RequestError::Permanent(e),
    }
}
