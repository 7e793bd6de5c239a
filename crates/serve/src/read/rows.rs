//! Selects rows of a table by range, columns and condition, and sends them as an Arrow stream, JSON lines or CSV.

use std::io;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, Error, ErrorKind, JsonLines, Predicate, StreamEncoder, csv_header, push_csv_row};
use bytes::Bytes;
use hyper::header::{self, HeaderMap};

use super::condition::parse_condition_on;
use super::frames::{Framing, frames};
use crate::catalog::{Kind, Snapshot, Table, snapshot};
use crate::http::{BodyPart, Problem, Query, ResponseBody, Result, ResultExt, header, media_type};
use crate::ops::{Budget, Share};
use crate::session::Session;

/// The maximum size of a record batch's body in bytes.
const MAX_BATCH_BYTES: usize = 2 << 20;
/// The size in bytes after which a chunk of text ends.
const TEXT_CHUNK_BYTES: usize = 256 << 10;
/// The maximum number of rows for which a condition is evaluated at once.
const MAX_SEARCHED_ROWS: u64 = 1 << 20;
/// The number of copies of searched rows that may be in memory: the rows, and the matching ones, which may be all.
const SEARCH_COPIES: u64 = 2;
/// The number of decompressed bytes, which are kept as long as a file is open, after which it is reopened.
const MAX_DECOMPRESSED_BYTES: u64 = 64 << 20;

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
    /// Returns the requested format: the one of the parameter, or else the best accepted one.
    pub fn negotiate(query: &Query, headers: &HeaderMap) -> Result<RowFormat> {
        if query.get("format")?.is_some() {
            return RowFormat::named(query);
        }
        let accept = header(headers, header::ACCEPT.as_str())?.unwrap_or("*/*");
        let mut best: Option<(f32, RowFormat)> = None;
        for range in accept.split(',') {
            let quality = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
            let quality: f32 = quality.map_or(1.0, |text| text.trim().parse().unwrap_or(0.0));
            if let Some(form) = RowFormat::from_media_range(&media_type(range))
                && quality > best.map_or(0.0, |(quality, _)| quality)
            {
                best = Some((quality, form));
            }
        }
        best.map(|(_, form)| form).ok_or_else(|| {
            let detail = "rows can be had as application/vnd.apache.arrow.stream, application/x-ndjson and text/csv";
            Problem::new(hyper::StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail)
        })
    }

    /// Returns the format named by the parameter.
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

/// The requested rows, which are taken batch by batch.
///
/// `rest` are the rows that were not taken yet, and `batch` is what is left of the last batch taken from them, if a
/// condition is evaluated block by block. `limit` decreases as rows are taken.
pub(crate) struct Selection {
    table: Arc<Table>,
    /// The numbers of the columns in the table; `None` for all columns.
    columns: Option<Vec<usize>>,
    condition: Option<Predicate>,
    /// The maximum number of rows that are still to be sent.
    limit: u64,
    /// The schema of the rows to send.
    schema: SchemaRef,
    /// The part of the current batch that was not searched yet, with all columns.
    batch: Option<Dataset>,
    /// The first matching rows, found before the response began.
    first_matches: Option<Dataset>,
    /// The rows after the current batch.
    rest: Dataset,
    /// The number of the first row of `rest`.
    next_row: u64,
    /// The number of the first requested row.
    pub first_row: u64,
    /// The row after the last requested one.
    pub end_row: u64,
    /// The row after the table's last one.
    pub table_end: u64,
    /// Identifies the [`Snapshot`].
    pub id: String,
}

impl Selection {
    /// Selects the rows that `query` requests. Blocks.
    pub fn open(table: Arc<Table>, query: &Query) -> Result<Selection> {
        let Snapshot { table, rows, id } = Snapshot::load_for_query(table, query)?;
        table.check_numbering(query.get("numbering")?)?;
        let table_start = rows.first_row();
        let table_end = table_start + rows.len().or_table_problem()?;
        let first_row = match query.number("from")? {
            Some(number) => absolute_row(number, table_start, table_end),
            None => table_start,
        };
        check_start(first_row, table_start, table_end)?;
        let end_row = match query.number("to")? {
            Some(number) => absolute_row(number, table_start, table_end).clamp(first_row, table_end),
            None => table_end,
        };
        assert!(
            table_start <= first_row && first_row <= end_row && end_row <= table_end,
            "a range outside of the table"
        );

        let columns = query.columns().map(|names| numbers(&rows, &names)).transpose()?;
        let condition = query.get("where")?.map(|text| parse_condition_on(text, &rows)).transpose()?;
        let limit = query.number::<u64>("limit")?.unwrap_or(u64::MAX);
        let mut rest = rows.slice(first_row - table_start, end_row - first_row).or_table_problem()?;
        if let Some(condition) = &condition {
            rest = rest.prune_contiguous(condition).or_table_problem()?;
        }
        let schema = selected(&rest, columns.as_deref()).or_table_problem()?.schema().clone();
        let next_row = if rest.is_empty().or_table_problem()? { end_row } else { rest.first_row().max(first_row) };
        Ok(Selection {
            table,
            columns,
            condition,
            limit,
            schema,
            batch: None,
            first_matches: None,
            rest,
            next_row,
            first_row,
            end_row,
            table_end,
            id,
        })
    }

    /// Encodes the schema of the sent rows as a message of a stream.
    pub fn schema_message(&self) -> arrowwood::Result<Vec<u8>> {
        StreamEncoder::new(self.schema.clone())?.schema_message().head()
    }

    /// Returns true if no rows are left to search.
    fn is_over(&self) -> bool {
        // An error counts as rows left, so that reading them reports it.
        self.limit == 0 || self.batch.is_none() && matches!(self.rest.is_empty(), Ok(true))
    }

    /// Searches one block for the first rows. Returns true once some are found, or no rows are left.
    fn find_first(&mut self, share: &mut Share) -> Result<bool> {
        let Some(rows) = self.take(Some(share))? else { return Ok(true) };
        if rows.is_empty().or_table_problem()? {
            return Ok(false);
        }
        self.first_matches = Some(rows);
        Ok(true)
    }

    /// Takes the next rows to send, or `None` at the end. They are empty if a condition matches none in a block.
    fn take(&mut self, share: Option<&mut Share>) -> Result<Option<Dataset>> {
        if let Some(rows) = self.first_matches.take() {
            return Ok(Some(rows));
        }
        let batch = match self.batch.take() {
            Some(batch) => Some(batch),
            None => self.next_batch().or_table_problem()?,
        };
        let Some(batch) = batch else { return Ok(None) };
        if self.limit == 0 {
            return Ok(None);
        }
        let Some(condition) = &self.condition else {
            return Ok(Some(self.take_batch(&batch).or_table_problem()?));
        };

        let share = share.ok_or_else(|| Problem::internal("rows are searched without a share of the memory"))?;
        let block = batch.head(MAX_SEARCHED_ROWS).or_table_problem()?;
        let (block, bytes) = block.head_within(share.bytes() as u64 / SEARCH_COPIES).or_table_problem()?;
        share.grow(usize::try_from(bytes.saturating_mul(SEARCH_COPIES)).unwrap_or(usize::MAX))?;
        let matches = block.filter(condition).or_table_problem()?.head(self.limit).or_table_problem()?;
        self.count_down(matches.len().or_table_problem()?);

        let searched = block.len().or_table_problem()?;
        let len = batch.len().or_table_problem()?;
        assert!(0 < searched || len == 0, "a block without rows: the search would never end");
        if searched < len {
            self.batch = Some(batch.slice(searched, len).or_table_problem()?);
        }
        Ok(Some(selected(&matches, self.columns.as_deref()).or_table_problem()?))
    }

    /// Takes all rows of a batch, up to the limit.
    fn take_batch(&mut self, batch: &Dataset) -> arrowwood::Result<Dataset> {
        let rows = selected(&batch.head(self.limit)?, self.columns.as_deref())?;
        self.count_down(rows.len()?);
        Ok(rows)
    }

    fn count_down(&mut self, rows: u64) {
        assert!(rows <= self.limit, "{rows} rows are sent, {} more than the limit", rows - self.limit);
        self.limit -= rows;
    }

    fn next_batch(&mut self) -> arrowwood::Result<Option<Dataset>> {
        if self.table.kind != Kind::Table && self.rest.footprint().copied > MAX_DECOMPRESSED_BYTES {
            self.reopen()?;
        }
        let batch = self.rest.batches().next().transpose()?;
        let Some(batch) = batch else { return Ok(None) };
        let rows = batch.len()?;
        self.rest = self.rest.slice(rows, u64::MAX)?;
        self.next_row += rows;
        Ok(Some(batch))
    }

    /// Reopens the file, which releases its decompressed data.
    fn reopen(&mut self) -> arrowwood::Result<()> {
        let (rows, id) = self.table.identified_rows()?;
        if id != self.id || self.next_row < rows.first_row() {
            return Err(replaced());
        }
        let len = self.rest.len()?;
        self.rest = rows.slice(self.next_row - rows.first_row(), len)?;
        if self.rest.len()? == len { Ok(()) } else { Err(replaced()) }
    }
}

fn replaced() -> Error {
    Error::new(ErrorKind::FileChanged, "the file was replaced while it was read")
}

/// Returns the row that a client means: a negative number counts from the end.
fn absolute_row(number: i64, table_start: u64, table_end: u64) -> u64 {
    match u64::try_from(number) {
        Ok(number) => number,
        // A number before the first row means the first.
        Err(_) => table_end.saturating_sub(number.unsigned_abs()).max(table_start),
    }
}

/// Checks that a range begins with a row of the table, or at its end.
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

/// Returns the numbers of the columns named `names`.
pub(crate) fn numbers(rows: &Dataset, names: &[String]) -> Result<Vec<usize>> {
    let selected = rows.select(names).map_err(|e| Problem::bad_request(e.message()))?;
    let fields = rows.schema().fields();
    let mut numbers = Vec::with_capacity(names.len());
    for column in selected.schema().fields() {
        numbers.extend(fields.iter().position(|field| field.name() == column.name()));
    }
    Ok(numbers)
}

/// Selects columns by their numbers; `None` for all columns.
pub(crate) fn selected(rows: &Dataset, columns: Option<&[usize]>) -> arrowwood::Result<Dataset> {
    match columns {
        Some(columns) => rows.select_at(columns),
        None => Ok(rows.clone()),
    }
}

/// Encodes rows in one of the formats.
pub(crate) enum RowEncoder {
    Arrow(Box<StreamEncoder>, Framing),
    JsonLines(JsonLines),
    Csv,
}

impl RowEncoder {
    /// Creates an encoder for one of the formats over HTTP.
    pub fn try_new(form: RowFormat, schema: &SchemaRef) -> arrowwood::Result<RowEncoder> {
        match form {
            RowFormat::Arrow => RowEncoder::arrow(schema, Framing::STREAM),
            RowFormat::JsonLines => Ok(RowEncoder::JsonLines(JsonLines::new(schema)?)),
            RowFormat::Csv => Ok(RowEncoder::Csv),
        }
    }

    /// Creates an encoder of an Arrow stream with the given framing.
    pub fn arrow(schema: &SchemaRef, framing: Framing) -> arrowwood::Result<RowEncoder> {
        Ok(RowEncoder::Arrow(Box::new(StreamEncoder::new(schema.clone())?), framing))
    }

    /// Encodes the first of `rows`. Returns the bytes, and the number of encoded rows.
    pub fn encode_chunk(&mut self, rows: &Dataset) -> arrowwood::Result<(Vec<Bytes>, u64)> {
        if let RowEncoder::Arrow(encoder, framing) = self {
            let (messages, count) = encoder.encode(rows, MAX_BATCH_BYTES)?;
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
            if text.len() >= TEXT_CHUNK_BYTES {
                break;
            }
        }
        Ok((vec![text.into()], count))
    }

    /// Returns the bytes before all rows, if the format has any.
    pub fn heading(&self, schema: &SchemaRef) -> arrowwood::Result<Option<Bytes>> {
        Ok(match self {
            RowEncoder::Arrow(encoder, framing) => Some(framing.head(&encoder.schema_message())?.into()),
            RowEncoder::JsonLines(_) => None,
            RowEncoder::Csv => Some((csv_header(schema) + "\n").into()),
        })
    }

    /// Returns the bytes after all rows, if the format has any.
    pub fn end(&self) -> Option<Bytes> {
        match self {
            RowEncoder::Arrow(_, framing) => Some(Bytes::from_static(framing.end())),
            _ => None,
        }
    }
}

/// The state of a response with selected rows.
struct RowStream {
    selection: Selection,
    encoder: RowEncoder,
    session: Session,
    /// The budget for evaluating the condition.
    budget: Budget,
    /// The rows being sent.
    current: Option<Dataset>,
    has_begun: bool,
}

/// Creates the body of a response with selected rows. It returns when the first rows are found, so that a condition
/// that takes too long is refused with an error status.
pub(crate) async fn body(selection: Selection, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::try_new(form, &selection.schema).or_table_problem()?;
    stream(selection, encoder, session).await
}

/// Creates the body of a response with selected rows as a framed Arrow stream, as [`body`] does.
pub(crate) async fn framed_body(selection: Selection, framing: Framing, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::arrow(&selection.schema, framing).or_table_problem()?;
    stream(selection, encoder, session).await
}

async fn stream(mut selection: Selection, encoder: RowEncoder, session: Session) -> Result<ResponseBody> {
    let mut budget = session.budget();
    let mut is_ready = selection.condition.is_none();
    while !is_ready {
        (selection, is_ready) = budget
            .run_blocking(budget.step(), move |share: &mut Share| {
                let is_ready = selection.find_first(share)?;
                Ok((selection, is_ready))
            })
            .await?;
    }
    let state = RowStream { selection, encoder, session, budget, current: None, has_begun: false };
    Ok(ResponseBody::steps(state, RowStream::step))
}

impl RowStream {
    async fn step(self) -> io::Result<BodyPart<RowStream>> {
        let session = self.session.clone();
        if !session.is_valid() {
            return Err(io::Error::other("the token was revoked"));
        }
        let selection = &self.selection;
        let has_rows = self.current.is_some() || selection.first_matches.is_some();
        let is_searching = selection.condition.is_some() && !has_rows && !selection.is_over();
        let chunk = if is_searching {
            let mut budget = self.budget.clone();
            let chunk = budget.run_blocking(budget.step(), move |share| self.next_chunk(Some(share))).await;
            chunk.map(|(bytes, rows)| (bytes, rows.map(|rows| RowStream { budget, ..rows })))
        } else {
            session.run_blocking(move |_| self.next_chunk(None)).await
        };
        chunk.map_err(|refusal| session.break_off(refusal))
    }

    /// Makes the next bytes, with a share of memory if rows have to be searched. Blocks.
    fn next_chunk(mut self, share: Option<&mut Share>) -> Result<BodyPart<RowStream>> {
        let mut bytes = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            bytes.extend(self.encoder.heading(&self.selection.schema).or_table_problem()?);
        }
        let current = match self.current.take() {
            Some(current) => Some(current),
            None => self.selection.take(share)?,
        };
        let Some(current) = current else {
            bytes.extend(self.encoder.end());
            return Ok((bytes, None));
        };
        let (chunk, rows) = self.encoder.encode_chunk(&current).or_table_problem()?;
        bytes.extend(chunk);
        let len = current.len().or_table_problem()?;
        assert!(rows > 0 || len == 0, "a chunk without rows: the response would never end");
        if rows < len {
            self.current = Some(current.slice(rows, len).or_table_problem()?);
        }
        Ok((bytes, Some(self)))
    }
}

/// Creates the body of a response with all rows of a dataset.
pub(crate) fn whole_body(rows: Dataset, form: RowFormat, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::try_new(form, rows.schema()).or_table_problem()?;
    Ok(whole_stream(rows, encoder, session))
}

/// Creates the body of a response with all rows of a dataset as a framed Arrow stream.
pub(crate) fn whole_framed_body(rows: Dataset, framing: Framing, session: Session) -> Result<ResponseBody> {
    let encoder = RowEncoder::arrow(rows.schema(), framing).or_table_problem()?;
    Ok(whole_stream(rows, encoder, session))
}

fn whole_stream(rows: Dataset, encoder: RowEncoder, session: Session) -> ResponseBody {
    ResponseBody::steps(DatasetStream { rows, encoder, session, has_begun: false }, DatasetStream::step)
}

/// The state of a response with all rows of a dataset.
struct DatasetStream {
    /// The rows that are not sent yet.
    rows: Dataset,
    encoder: RowEncoder,
    session: Session,
    has_begun: bool,
}

impl DatasetStream {
    async fn step(self) -> io::Result<BodyPart<DatasetStream>> {
        let session = self.session.clone();
        let chunk = session.run_blocking(move |_| self.next_chunk().or_table_problem()).await;
        chunk.map_err(|refusal| session.break_off(refusal))
    }

    fn next_chunk(mut self) -> arrowwood::Result<BodyPart<DatasetStream>> {
        let mut bytes = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            bytes.extend(self.encoder.heading(self.rows.schema())?);
        }
        if self.rows.is_empty()? {
            bytes.extend(self.encoder.end());
            return Ok((bytes, None));
        }
        let (chunk, rows) = self.encoder.encode_chunk(&self.rows)?;
        assert!(rows > 0, "a chunk without rows: the response would never end");
        bytes.extend(chunk);
        self.rows = self.rows.slice(rows, u64::MAX)?;
        Ok((bytes, Some(self)))
    }
}
