//! Sends rows of a table: a range, columns, a condition; as an Arrow stream, JSON lines or CSV.

use std::io;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, Error, ErrorKind, JsonLines, Predicate, StreamEncoder, csv_header, push_csv_row};
use bytes::Bytes;
use hyper::header::{self, HeaderMap};

use crate::budget::{Budget, Share};
use crate::condition::parse_condition_on;
use crate::frames::{Framing, frames};
use crate::problem::{Problem, Result};
use crate::query::{Query, header, media_type};
use crate::response_body::{BodySource, BodyStep, ResponseBody};
use crate::session::Session;
use crate::snapshot::{self, Snapshot};
use crate::table::{Kind, Table};

/// The maximum size of a record batch's body in bytes.
const PIECE: usize = 2 << 20;
/// Bytes of text made at once.
const TEXT: usize = 256 << 10;
/// The rows for which a condition is evaluated at once; their bytes are half of a step's, since all of them may match.
const BLOCK: u64 = 1 << 20;
/// A file is reopened after this much of it was decompressed, which is kept as long as it is open.
const UNPACKED: u64 = 64 << 20;

/// The parameters of a request for rows.
pub(crate) const PARAMETERS: &[&str] =
    &["from", "to", "columns", "column", "where", "limit", "format", "numbering", snapshot::PARAMETER];

/// The format of sent rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    Arrow,
    JsonLines,
    Csv,
}

impl RowFormat {
    /// The requested format.
    pub fn negotiate(query: &Query, headers: &HeaderMap) -> Result<RowFormat> {
        if query.get("format")?.is_some() {
            return RowFormat::named(query);
        }
        let accept = header(headers, header::ACCEPT.as_str())?.unwrap_or("*/*");
        let mut best: Option<(f32, RowFormat)> = None;
        for range in accept.split(',') {
            let quality = range.split(';').filter_map(|part| part.trim().strip_prefix("q=")).next();
            let quality: f32 = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
            if let Some(form) = RowFormat::from_media_range(&media_type(range))
                && quality > best.map_or(0.0, |(best, _)| best)
            {
                best = Some((quality, form));
            }
        }
        best.map(|(_, form)| form).ok_or_else(|| {
            let detail = "rows can be had as application/vnd.apache.arrow.stream, application/x-ndjson and text/csv";
            Problem::new(hyper::StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail)
        })
    }

    /// The format named in a request.
    pub fn named(query: &Query) -> Result<RowFormat> {
        match query.get("format")? {
            Some("arrow") => Ok(RowFormat::Arrow),
            Some("jsonl") => Ok(RowFormat::JsonLines),
            Some("csv") => Ok(RowFormat::Csv),
            _ => Err(Problem::bad_request("format: arrow, jsonl or csv is expected")),
        }
    }

    fn from_media_range(range: &str) -> Option<RowFormat> {
        match range {
            "application/vnd.apache.arrow.stream" | "application/*" | "*/*" | "" => Some(RowFormat::Arrow),
            "application/x-ndjson" | "application/jsonl" | "application/json" => Some(RowFormat::JsonLines),
            "text/csv" | "text/*" => Some(RowFormat::Csv),
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            RowFormat::Arrow => "application/vnd.apache.arrow.stream",
            RowFormat::JsonLines => "application/x-ndjson",
            RowFormat::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// The requested rows.
pub(crate) struct Selection {
    table: Arc<Table>,
    /// The columns, by their numbers in the table.
    columns: Option<Vec<usize>>,
    condition: Option<Predicate>,
    limit: u64,
    /// The columns to send.
    schema: SchemaRef,
    /// The rest of one batch not searched yet, with all columns.
    batch: Option<Dataset>,
    /// The rows found before the answer began.
    found: Option<Dataset>,
    /// The rows after that batch, and the number of the first of them.
    rest: Dataset,
    next: u64,
    pub first_row: u64,
    pub end_row: u64,
    pub table_end: u64,
    /// Identifies the [`Snapshot`].
    pub id: String,
}

impl Selection {
    /// Parses the request `query`. Blocks.
    pub fn open(table: Arc<Table>, query: &Query) -> Result<Selection> {
        let Snapshot { table, rows, id } = Snapshot::load_for_query(table, query)?;
        table.check_numbering(query.get("numbering")?)?;
        let len = rows.len().map_err(|e| Problem::from_table_error(&e))?;
        let first = rows.first_row();
        let table_end = rows.first_row() + len;
        let at = |number: i64| match u64::try_from(number) {
            Ok(number) => number,
            Err(_) => table_end.saturating_sub(number.unsigned_abs()).max(first),
        };
        let first_row = query.number::<i64>("from")?.map_or(first, at);
        check_start(first_row, first, table_end)?;
        let end_row = query.number::<i64>("to")?.map_or(table_end, at).min(table_end).max(first_row);
        let columns = query.columns().map(|names| numbers(&rows, &names)).transpose()?;
        let condition = query.get("where")?.map(|text| parse_condition_on(text, &rows)).transpose()?;
        let limit = query.number::<u64>("limit")?.unwrap_or(u64::MAX);
        let mut rest = rows.slice(first_row - first, end_row - first_row).map_err(|e| Problem::from_table_error(&e))?;
        if let Some(condition) = &condition {
            rest = rest.prune_contiguous(condition).map_err(|e| Problem::from_table_error(&e))?;
        }
        let schema = selected(&rest, columns.as_deref()).map_err(|e| Problem::from_table_error(&e))?.schema().clone();
        let next = if rest.is_empty().unwrap_or(true) { end_row } else { rest.first_row().max(first_row) };
        Ok(Selection {
            table,
            columns,
            condition,
            limit,
            schema,
            batch: None,
            found: None,
            rest,
            next,
            first_row,
            end_row,
            table_end,
            id,
        })
    }

    /// The schema of the sent rows, as a message of a stream.
    pub fn schema_message(&self) -> arrowwood::Result<Vec<u8>> {
        StreamEncoder::new(self.schema.clone())?.schema_message().head()
    }

    /// Whether no rows are left to search.
    fn is_over(&self) -> bool {
        self.limit == 0 || self.batch.is_none() && self.rest.is_empty().unwrap_or(false)
    }

    /// Searches for the first rows, one step: returns whether there are some, or none at all.
    fn look(&mut self, share: &mut Share) -> Result<bool> {
        let Some(rows) = self.take(Some(share))? else { return Ok(true) };
        let is_found = !rows.is_empty().map_err(|e| Problem::from_table_error(&e))?;
        self.found = is_found.then_some(rows);
        Ok(is_found)
    }

    /// The next rows to send; `None` at the end. They may be empty if a condition matches none for a while.
    fn take(&mut self, share: Option<&mut Share>) -> Result<Option<Dataset>> {
        if let Some(found) = self.found.take() {
            return Ok(Some(found));
        }
        let of_table = |e: Error| Problem::from_table_error(&e);
        let batch = match self.batch.take() {
            Some(batch) => Some(batch),
            None => self.next_batch().map_err(of_table)?,
        };
        let Some(batch) = batch.filter(|_| self.limit > 0) else { return Ok(None) };
        let Some(condition) = &self.condition else { return self.plain(&batch).map(Some).map_err(of_table) };
        let share = share.ok_or_else(|| Problem::internal("rows are looked for without a share of the memory"))?;
        let block = batch.head(BLOCK).and_then(|block| block.head_within((share.bytes() / 2) as u64));
        let (block, bytes) = block.map_err(of_table)?;
        share.grow(usize::try_from(2 * bytes).unwrap_or(usize::MAX))?;
        let found = block.filter(condition).and_then(|found| found.head(self.limit)).map_err(of_table)?;
        self.limit -= found.len().map_err(of_table)?;
        let looked_at = block.len().map_err(of_table)?;
        let all = batch.len().map_err(of_table)?;
        if looked_at < all {
            self.batch = Some(batch.slice(looked_at, all).map_err(of_table)?);
        }
        selected(&found, self.columns.as_deref()).map(Some).map_err(of_table)
    }

    /// All rows of a batch, up to the limit.
    fn plain(&mut self, batch: &Dataset) -> arrowwood::Result<Dataset> {
        let rows = selected(&batch.head(self.limit)?, self.columns.as_deref())?;
        self.limit -= rows.len()?;
        Ok(rows)
    }

    fn next_batch(&mut self) -> arrowwood::Result<Option<Dataset>> {
        if self.table.kind != Kind::Table && self.rest.footprint().copied > UNPACKED {
            self.reopen()?;
        }
        let batch = self.rest.batches().next().transpose()?;
        let Some(batch) = batch else { return Ok(None) };
        let rows = batch.len()?;
        self.rest = self.rest.slice(rows, u64::MAX)?;
        self.next += rows;
        Ok(Some(batch))
    }

    /// Releases decompressed data.
    fn reopen(&mut self) -> arrowwood::Result<()> {
        let changed = || Error::new(ErrorKind::FileChanged, "the file was replaced while it was read");
        let (rows, id) = self.table.identified_rows()?;
        if id != self.id {
            return Err(changed());
        }
        let left = self.rest.len()?;
        let start = self.next.checked_sub(rows.first_row()).ok_or_else(changed)?;
        self.rest = rows.slice(start, left)?;
        if self.rest.len()? == left { Ok(()) } else { Err(changed()) }
    }
}

/// Refuses a range that begins before the first row, or after the last.
pub(crate) fn check_start(start: u64, first: u64, end: u64) -> Result<()> {
    if start < first {
        let detail = format!("rows before number {first} were dropped");
        return Err(Problem::new(hyper::StatusCode::GONE, "dropped", detail).with_member("first_row", first));
    }
    if start > end {
        let detail = format!("the table ends with row {end}, and the range begins with row {start}");
        let status = hyper::StatusCode::RANGE_NOT_SATISFIABLE;
        return Err(Problem::new(status, "beyond_end", detail).with_member("end", end));
    }
    Ok(())
}

/// The numbers of the columns named `names`.
pub(crate) fn numbers(rows: &Dataset, names: &[String]) -> Result<Vec<usize>> {
    let selected = rows.select(names).map_err(|e| Problem::bad_request(e.message()))?;
    let fields = rows.schema().fields();
    let number = |name: &String| fields.iter().position(|field| field.name() == name);
    let found = selected.schema().fields().iter().filter_map(|field| number(field.name())).collect();
    Ok(found)
}

pub(crate) fn selected(rows: &Dataset, columns: Option<&[usize]>) -> arrowwood::Result<Dataset> {
    columns.map_or_else(|| Ok(rows.clone()), |columns| rows.select_at(columns))
}

/// Encodes rows as bytes.
pub(crate) enum RowEncoder {
    Arrow(Box<StreamEncoder>, Framing),
    JsonLines(JsonLines),
    Csv,
}

impl RowEncoder {
    /// For one of the formats over HTTP.
    pub fn try_new(form: RowFormat, schema: &SchemaRef) -> arrowwood::Result<RowEncoder> {
        match form {
            RowFormat::Arrow => RowEncoder::arrow(schema, Framing::Stream),
            RowFormat::JsonLines => Ok(RowEncoder::JsonLines(JsonLines::new(schema)?)),
            RowFormat::Csv => Ok(RowEncoder::Csv),
        }
    }

    pub fn arrow(schema: &SchemaRef, framing: Framing) -> arrowwood::Result<RowEncoder> {
        Ok(RowEncoder::Arrow(Box::new(StreamEncoder::new(schema.clone())?), framing))
    }

    /// The first of `rows`, as bytes, and their number.
    pub fn piece(&mut self, rows: &Dataset) -> arrowwood::Result<(Vec<Bytes>, u64)> {
        if let RowEncoder::Arrow(encoder, framing) = self {
            let (messages, count) = encoder.encode(rows, PIECE)?;
            return Ok((frames(messages, *framing)?, count));
        }
        let mut text = String::new();
        let mut count = 0;
        for row in rows.rows() {
            match self {
                RowEncoder::JsonLines(lines) => lines.push(&row?, &mut text)?,
                _ => push_csv_row(&row?, &mut text)?,
            }
            text.push('\n');
            count += 1;
            if text.len() >= TEXT {
                break;
            }
        }
        Ok((vec![text.into()], count))
    }
}

impl RowEncoder {
    /// The bytes before rows.
    pub fn heading(&self, schema: &SchemaRef) -> arrowwood::Result<Option<Bytes>> {
        Ok(match self {
            RowEncoder::Arrow(encoder, framing) => Some(framing.head(&encoder.schema_message())?.into()),
            RowEncoder::JsonLines(_) => None,
            RowEncoder::Csv => Some((csv_header(schema) + "\n").into()),
        })
    }

    /// The bytes after them.
    pub fn end(&self) -> Option<Bytes> {
        match self {
            RowEncoder::Arrow(_, framing) => Some(Bytes::from_static(framing.end())),
            _ => None,
        }
    }
}

/// The state of an answer with rows.
struct RowStream {
    selection: Selection,
    maker: RowEncoder,
    session: Session,
    /// The budget of a condition.
    budget: Budget,
    /// Rows being sent.
    current: Option<Dataset>,
    is_begun: bool,
}

/// The body of an answer with rows. It begins when rows are found, so that a condition that takes too long is refused.
pub(crate) async fn body(selection: Selection, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::try_new(form, &selection.schema).map_err(|e| Problem::from_table_error(&e))?;
    stream(selection, maker, session).await
}

/// The body of Flight's answer with rows.
pub(crate) async fn flight_body(selection: Selection, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::arrow(&selection.schema, Framing::Flight).map_err(|e| Problem::from_table_error(&e))?;
    stream(selection, maker, session).await
}

async fn stream(mut selection: Selection, maker: RowEncoder, session: Session) -> Result<ResponseBody> {
    let mut budget = session.budget();
    let mut is_found = selection.condition.is_none();
    while !is_found {
        let look = move |share: &mut Share| selection.look(share).map(|is_found| (selection, is_found));
        (selection, is_found) = budget.run_blocking(budget.step(), look).await?;
    }
    Ok(ResponseBody::steps(RowStream { selection, maker, session, budget, current: None, is_begun: false }))
}

impl BodySource for RowStream {
    async fn step(self) -> BodyStep<RowStream> {
        let session = self.session.clone();
        if !session.is_valid() {
            return BodyStep::Failed(io::Error::other("the token was revoked"));
        }
        let selection = &self.selection;
        let has_rows = self.current.is_some() || selection.found.is_some();
        let looks = selection.condition.is_some() && !has_rows && !selection.is_over();
        let made = if looks {
            let mut budget = self.budget.clone();
            let made = budget.run_blocking(budget.step(), move |share| self.make(Some(share))).await;
            made.map(|(rows, bytes)| (rows.map(|rows| RowStream { budget, ..rows }), bytes))
        } else {
            session.run_blocking(move |_| self.make(None)).await
        };
        match made {
            Ok((Some(rows), bytes)) => BodyStep::Data(rows, bytes),
            Ok((None, bytes)) => BodyStep::End(bytes),
            Err(refusal) => {
                session.on_failure(&refusal);
                BodyStep::Failed(io::Error::other(refusal))
            }
        }
    }
}

/// The body of an answer with existing rows.
pub(crate) fn whole_body(rows: Dataset, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::try_new(form, rows.schema()).map_err(|e| Problem::from_table_error(&e))?;
    Ok(ResponseBody::steps(DatasetStream { rows, maker, session, is_begun: false }))
}

/// The same for Flight's answer.
pub(crate) fn whole_flight_body(rows: Dataset, session: Session) -> Result<ResponseBody> {
    let maker = RowEncoder::arrow(rows.schema(), Framing::Flight).map_err(|e| Problem::from_table_error(&e))?;
    Ok(ResponseBody::steps(DatasetStream { rows, maker, session, is_begun: false }))
}

/// The state of an answer with existing rows.
struct DatasetStream {
    rows: Dataset,
    maker: RowEncoder,
    session: Session,
    is_begun: bool,
}

impl DatasetStream {
    fn make(mut self) -> arrowwood::Result<NextChunk<DatasetStream>> {
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            bytes.extend(self.maker.heading(self.rows.schema())?);
        }
        if self.rows.is_empty()? {
            bytes.extend(self.maker.end());
            return Ok((None, bytes));
        }
        let (made, rows) = self.maker.piece(&self.rows)?;
        bytes.extend(made);
        self.rows = self.rows.slice(rows, u64::MAX)?;
        Ok((Some(self), bytes))
    }
}

impl BodySource for DatasetStream {
    async fn step(self) -> BodyStep<DatasetStream> {
        let session = self.session.clone();
        match session.run_blocking(move |_| self.make().map_err(|e| Problem::from_table_error(&e))).await {
            Ok((Some(rows), bytes)) => BodyStep::Data(rows, bytes),
            Ok((None, bytes)) => BodyStep::End(bytes),
            Err(refusal) => {
                session.on_failure(&refusal);
                BodyStep::Failed(io::Error::other(refusal))
            }
        }
    }
}

/// The next state, unless it was the end, and bytes.
type NextChunk<S> = (Option<S>, Vec<Bytes>);

impl RowStream {
    /// The next bytes, with a share of the memory if rows are searched.
    fn make(mut self, share: Option<&mut Share>) -> Result<NextChunk<RowStream>> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            bytes.extend(self.maker.heading(&self.selection.schema).map_err(of_table)?);
        }
        let current = match self.current.take() {
            Some(current) => Some(current),
            None => self.selection.take(share)?,
        };
        let Some(current) = current else {
            bytes.extend(self.maker.end());
            return Ok((None, bytes));
        };
        let (made, rows) = self.maker.piece(&current).map_err(of_table)?;
        bytes.extend(made);
        let all = current.len().map_err(of_table)?;
        if rows < all {
            self.current = Some(current.slice(rows, all).map_err(of_table)?);
        }
        Ok((Some(self), bytes))
    }
}
