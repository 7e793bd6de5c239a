//! A local table that is a true prefix of one of a server, and durable before that is said.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrowwood::{Dataset, Error, ErrorKind, Late, Result, Value, Writer, WriterOptions, open, read_stream};
use serde_json::Value as Json;

use crate::client::{Answer, Client, ClientOptions, Failed};

/// Pauses between attempts to reach a server: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// An attempt that lasted so long begins with the first pause again.
const CALM: Duration = Duration::from_secs(10);
/// So many rows at the end of the local table are compared with those of the server.
const COMPARED: u64 = 100;
/// Rows become durable at the latest after so many bytes.
const BURST: usize = 64 << 20;

/// How far a pull is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The rows of the local table, all of them durable.
    pub rows: u64,
    /// The durable rows of the server's table when it was asked.
    pub there: u64,
}

/// Fetches what the table at `url` has and the one at `path` has not, which is made if it is missing. With `follow`, goes on
/// as the server's table grows, over connections that break, until `told` is false. `told` is called whenever more rows are
/// durable here.
///
/// Only rows that are durable there are fetched: the local table is a prefix of the other one whatever happens to either machine.
///
/// # Errors
/// `InvalidArgument` for a URL that names no table; `SchemaMismatch` and `InvalidData` if the local table is no prefix;
/// `RowOutOfRange` if rows were dropped before they were fetched; `Busy` while another process writes the local table;
/// `NotFound`, `PermissionDenied`, and without `follow` `Io`, as the server answers.
pub fn pull(
    url: &str,
    path: &Path,
    options: &ClientOptions,
    follow: bool,
    mut told: impl FnMut(Pulled) -> bool,
) -> Result<Pulled> {
    let client = Client::new(url, options)?;
    let mut pause = PAUSES.0;
    loop {
        let begun = Instant::now();
        match once(&client, path, follow, &mut told) {
            Ok(Some(pulled)) => return Ok(pulled),
            Err(Failed::ForGood(e)) => return Err(e),
            Err(Failed::ForNow(e)) if !follow => return Err(e),
            // The server has stopped, or can't be reached.
            Ok(None) | Err(Failed::ForNow(_)) => (),
        }
        if begun.elapsed() > CALM {
            pause = PAUSES.0;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// One connection's worth: where the pull has ended, or `None` if there may be more.
fn once(
    client: &Client,
    path: &Path,
    follow: bool,
    told: &mut impl FnMut(Pulled) -> bool,
) -> std::result::Result<Option<Pulled>, Failed> {
    let facts = Facts::of(&client.facts()?).map_err(Failed::ForGood)?;
    let here = local_rows(path).map_err(Failed::ForGood)?;
    let known = here.as_ref().map_or(Ok(0), Dataset::len).map_err(Failed::ForGood)?;
    check_range(known, &facts).map_err(|e| Failed::ForGood(e.at(path)))?;
    if let Some(here) = here.filter(|_| known > 0) {
        compare(client, path, &here, known)?;
    }
    let request = if follow {
        format!("/follow?from={known}&durable=true")
    } else {
        format!("/rows?from={known}&to={}", facts.durable_end.max(known))
    };
    let answer = client.stream(&request)?;
    let waiting = answer.waiting();
    let mut stream = read_stream(answer).map_err(of_stream)?;
    let late = facts.is_late.then_some(Late::Accept);
    let options = WriterOptions { sorted_by: facts.sorted_by.clone(), late, ..WriterOptions::default() };
    let writer = Writer::open(path, Some(stream.schema().clone()), &options).map_err(Failed::ForGood)?;
    let mut local = Local { writer, unsynced: 0, there: facts.durable_end };
    if local.writer.rows() != known {
        // Another process has written in between.
        return Ok(None);
    }
    let ended = loop {
        match stream.next() {
            None => break None,
            Some(Err(e)) => break Some(of_stream(e)),
            Some(Ok(batch)) => local.append(&batch).map_err(Failed::ForGood)?,
        }
        // While more is there already, it becomes durable together.
        if waiting.load(Ordering::Acquire) == 0 || local.unsynced > BURST {
            let pulled = local.sync().map_err(Failed::ForGood)?;
            if !told(pulled) {
                return Ok(Some(pulled));
            }
        }
    };
    // What came before a connection broke is kept.
    let pulled = local.sync().map_err(Failed::ForGood)?;
    local.writer.close().map_err(Failed::ForGood)?;
    let goes_on = told(pulled);
    match ended {
        Some(failed) => Err(failed),
        None if follow && goes_on => Ok(None),
        None => Ok(Some(pulled)),
    }
}

/// The local table as it is written.
struct Local {
    writer: Writer,
    unsynced: usize,
    there: u64,
}

impl Local {
    fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.append(batch)?;
        self.writer.commit()?;
        self.unsynced += batch.get_array_memory_size();
        Ok(())
    }

    fn sync(&mut self) -> Result<Pulled> {
        if self.unsynced > 0 {
            self.writer.sync()?;
            self.unsynced = 0;
        }
        let rows = self.writer.durable_rows();
        Ok(Pulled { rows, there: self.there.max(rows) })
    }
}

/// What the server says of its table.
struct Facts {
    first_row: u64,
    end: u64,
    durable_end: u64,
    sorted_by: Option<String>,
    is_late: bool,
}

impl Facts {
    fn of(told: &Json) -> Result<Facts> {
        let number = |name: &str| {
            let wrong = || {
                let message =
                    format!("the server has not said what '{name}' is; is it a table, and `arrowwood serve`?");
                Error::new(ErrorKind::InvalidArgument, message)
            };
            told[name].as_u64().ok_or_else(wrong)
        };
        let sorted_by = told["sorted_by"].as_str().map(str::to_owned);
        let [first_row, end, durable_end] = [number("first_row")?, number("end")?, number("durable_end")?];
        let is_late = told["late"] == true;
        Ok(Facts { first_row, end, durable_end, sorted_by, is_late })
    }
}

/// The local table; `None` if it is missing.
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

fn check_range(known: u64, facts: &Facts) -> Result<()> {
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

/// Compares the last rows of the local table with those of the same numbers there.
fn compare(client: &Client, path: &Path, rows: &Dataset, known: u64) -> std::result::Result<(), Failed> {
    let here = rows.tail(COMPARED).map_err(Failed::ForGood)?;
    let count = here.len().map_err(Failed::ForGood)?;
    let answer: Answer = client.stream(&format!("/rows?from={}&to={known}", known - count))?;
    let batches: Result<Vec<RecordBatch>> = read_stream(answer).and_then(Iterator::collect);
    let there = Dataset::try_from(batches.map_err(of_stream)?).map_err(Failed::ForGood)?;
    if is_same(&here, &there).map_err(Failed::ForGood)? {
        return Ok(());
    }
    let message = format!("the rows before number {known} are others than the server's: it is no prefix of that table");
    Err(Failed::ForGood(Error::new(ErrorKind::InvalidData, message).at(path)))
}

/// Whether rows are the same, where the server's table may have a newer schema: more columns, which are null then, and
/// wider numbers.
fn is_same(here: &Dataset, there: &Dataset) -> Result<bool> {
    if here.len()? != there.len()? || here.schema().fields().iter().any(|own| there.column(own.name()).is_err()) {
        return Ok(false);
    }
    let own = there.schema().fields().iter().map(|field| here.schema().index_of(field.name()).ok());
    let own: Vec<Option<usize>> = own.collect();
    for (a, b) in here.rows().zip(there.rows()) {
        let a = a?;
        let b = b?;
        for (column, own) in own.iter().enumerate() {
            let value = own.map_or(Ok(Value::Null), |own| a.get(own))?;
            // As they are written, so that a NaN is the same as itself.
            if format!("{:?}", widest(value)) != format!("{:?}", widest(b.get(column)?)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// A number of the widest type there is.
fn widest(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Int(n) => Value::Int128(n.into()),
        Value::UInt(n) => Value::Int128(n.into()),
        Value::Float32(x) => Value::Float64(x.into()),
        other => other,
    }
}

/// The error of an answer that broke off, or is no stream.
fn of_stream(e: Error) -> Failed {
    match e.kind() {
        ErrorKind::Io => Failed::ForNow(e),
        _ => Failed::ForGood(e),
    }
}
