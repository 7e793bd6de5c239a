//! Receives rows of one table in several formats, and creates tables. `line_endpoint` receives rows of several tables.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, ErrorKind, LatePolicy, WriterOptions, refuse_replica};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::decode::{BodyFormat, RequestedSchema, cost, decode};
use super::group_commit::TableWriter;
use super::producers::{BatchId, FIRST_EPOCH, MAX_NUMBER, position_in};
use super::queue::{Ack, AppendRequest, AppendResults, Receipt};
use super::request_body::{ReceivedBody, SMALL, is_small, receive};
use super::state::{IngestSession, IngestState};
use crate::catalog::{Kind, Snapshot, Table};
use crate::http::{
    Problem, Query, ResponseBody, Result, ResultExt, allow, header, header_number, json_response, short, with_type,
};
use crate::ops::{Limits, share_bytes};
use crate::session::{ServerState, Session, Trace};

/// The maximum number of rows that the receiving thread commits itself.
const MAX_INLINE_ROWS: u64 = 64;
/// The maximum size in bytes of the schema of a new table.
const MAX_SCHEMA_LEN: usize = 128 << 10;
/// The maximum number of characters in a producer's name.
const MAX_PRODUCER_CHARS: usize = 200;

/// `POST /v1/tables/T/rows`
pub(crate) async fn rows(
    ingest: IngestSession,
    parts: &Parts,
    body: Incoming,
    name: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    let IngestSession { session, state } = &ingest;
    trace.is_write = true;
    session.check_write(name)?;
    Query::parse(parts.uri.query(), &[])?;
    let form = BodyFormat::from_content_type(header(&parts.headers, "content-type")?)?;
    let ack = parse_ack(header(&parts.headers, "ack")?)?;
    let batch_id = parse_batch_id(
        header(&parts.headers, "producer")?,
        header_number(&parts.headers, "producer-epoch")?,
        header_number(&parts.headers, "producer-sequence")?,
    )?;
    let table = growing_table(session, name).await?;
    let writer = state.writers.writer(&table);
    let schema = table_schema(session, &writer).await?;
    let received = receive(&parts.headers, body, &session.shared.limits, &state.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let (rows, share) = decode_body(&ingest, received, form, schema).await?;
    let sequence = batch_id.as_ref().map(|id| id.sequence);
    let receipt = append(&writer, rows, ack, batch_id, share).await?;
    trace.rows = Some(if receipt.is_duplicate { 0 } else { receipt.rows });
    Ok(with_type(StatusCode::OK, "application/json", ResponseBody::new(receipt.answer(sequence) + "\n")))
}

impl Receipt {
    /// Returns the response to a producer's batch, in JSON with the members in this order.
    pub fn answer(&self, sequence: Option<u64>) -> String {
        let Receipt { rows, committed, durable, is_duplicate, .. } = self;
        let first_row = Json::from(self.first_row);
        let sequence = Json::from(sequence);
        format!(
            "{{\"first_row\":{first_row},\"rows\":{rows},\"committed\":{committed},\"durable\":{durable},\
             \"sequence\":{sequence},\"duplicate\":{is_duplicate}}}"
        )
    }
}

/// The destination of a call's batches, their acknowledgement and numbering.
pub(crate) struct Destination {
    writer: TableWriter,
    schema: SchemaRef,
    ack: Ack,
    /// The identity of the next batch, if they are numbered.
    next_id: Option<BatchId>,
    is_over: Arc<AtomicBool>,
}

/// Batches passed to a table's writer, which answers them.
pub(crate) struct PendingBatches {
    pub answers: oneshot::Receiver<AppendResults>,
    /// The number of the first batch.
    pub sequence: Option<u64>,
    /// The memory that they take until they are answered.
    pub bytes: usize,
}

impl Destination {
    /// Opens table `name`, with the parameters `ack`, `producer`, `epoch` and `sequence`.
    pub async fn open(ingest: &IngestSession, name: &str, query: &Query) -> Result<Destination> {
        let IngestSession { session, state } = ingest;
        session.check_write(name)?;
        let ack = parse_ack(query.get("ack")?)?;
        let next_id = parse_batch_id(query.get("producer")?, query.number("epoch")?, query.number("sequence")?)?;
        let table = growing_table(session, name).await?;
        let writer = state.writers.writer(&table);
        let schema = table_schema(session, &writer).await?;
        Ok(Destination { writer, schema, ack, next_id, is_over: Arc::default() })
    }

    /// Passes the `count` batches of an Arrow stream to the table's writer.
    pub async fn submit(
        &mut self,
        ingest: &IngestSession,
        received: ReceivedBody,
        count: usize,
    ) -> Result<PendingBatches> {
        if self.next_id.as_ref().is_some_and(|id| !id.can_number(count)) {
            return Err(too_large_number());
        }
        let (rows, share) = decode_body(ingest, received, BodyFormat::Arrow, self.schema.clone()).await?;
        let ends = if count == 1 { vec![rows.len().or_input_problem()?] } else { batch_ends(&rows, count)? };
        let (reply, answers) = oneshot::channel();
        let sequence = self.next_id.as_ref().map(|id| id.sequence);
        let bytes = share_bytes(&share);
        let request = AppendRequest {
            rows,
            ends,
            ack: self.ack,
            numbered: self.next_id.clone(),
            share: Arc::new(share),
            is_over: self.is_over.clone(),
            reply,
        };
        self.writer.append(request)?;
        self.next_id = self.next_id.as_ref().map(|id| id.nth_after(count));
        Ok(PendingBatches { answers, sequence, bytes })
    }
}

/// Returns the row after the last one of each batch.
fn batch_ends(rows: &Dataset, count: usize) -> Result<Vec<u64>> {
    let mut ends = Vec::with_capacity(count);
    let mut end = 0;
    for batch in rows.batches() {
        end += batch.and_then(|batch| batch.len()).or_input_problem()?;
        ends.push(end);
    }
    if ends.len() != count || end != rows.len().or_input_problem()? {
        return Err(Problem::internal("messages are expected to be batches"));
    }
    Ok(ends)
}

/// Returns table `name`, unless it is a file, which can't be appended to.
async fn growing_table(session: &Session, name: &str) -> Result<Arc<Table>> {
    let table = session.table(name).await?;
    match table.kind {
        Kind::Table => Ok(table),
        Kind::File | Kind::Files => Err(Problem::bad_request("a file does not grow; append to a table")),
    }
}

async fn table_schema(session: &Session, writer: &TableWriter) -> Result<SchemaRef> {
    if let Some(schema) = writer.schema() {
        return Ok(schema);
    }
    let table = writer.table.clone();
    session.run_blocking(move |_| table.rows().map(|rows| rows.schema().clone()).or_table_problem()).await
}

/// Parses when a batch is acknowledged: once it is durable, unless the client asks otherwise.
pub(crate) fn parse_ack(name: Option<&str>) -> Result<Ack> {
    match name {
        None | Some("durable") => Ok(Ack::Durable),
        Some("visible") => Ok(Ack::Visible),
        Some(_) => Err(Problem::bad_request("Ack: durable or visible is expected")),
    }
}

/// Returns the identity of a batch, if its producer numbers its batches.
fn parse_batch_id(producer: Option<&str>, epoch: Option<u64>, sequence: Option<u64>) -> Result<Option<BatchId>> {
    let Some(producer) = producer else {
        return match (epoch, sequence) {
            (None, None) => Ok(None),
            _ => Err(Problem::bad_request("Producer-Epoch and Producer-Sequence need a Producer")),
        };
    };
    let is_name = (1..=MAX_PRODUCER_CHARS).contains(&producer.len()) && producer.bytes().all(|b| b.is_ascii_graphic());
    if !is_name {
        let detail = format!("Producer: 1 to {MAX_PRODUCER_CHARS} visible ASCII characters are expected");
        return Err(Problem::bad_request(detail));
    }
    let sequence = sequence.ok_or_else(|| Problem::bad_request("a Producer needs a Producer-Sequence"))?;
    // A producer that is never replaced needs no epoch.
    let epoch = epoch.unwrap_or(FIRST_EPOCH);
    if sequence.max(epoch) > MAX_NUMBER {
        return Err(too_large_number());
    }
    Ok(Some(BatchId { producer: producer.to_owned(), epoch, sequence }))
}

fn too_large_number() -> Problem {
    Problem::bad_request("Producer-Epoch and Producer-Sequence are less than 2^63")
}

/// Decodes the rows of a body; returns them with their share of the memory.
async fn decode_body(
    ingest: &IngestSession,
    received: ReceivedBody,
    form: BodyFormat,
    schema: SchemaRef,
) -> Result<(Dataset, OwnedSemaphorePermit)> {
    let limits = &ingest.session.shared.limits;
    let ReceivedBody { bytes, share } = received;
    let cost = cost(&bytes, form, &schema, limits).or_input_problem()?;
    if cost <= SMALL as u64 {
        // Decodes in this thread, unless few bytes are decompressed to many.
        let small = Limits { unpacked: SMALL, ..limits.clone() };
        match decode(bytes.clone(), form, &schema, &small) {
            Err(e) if e.kind() == ErrorKind::Unsupported => (),
            decoded => return decoded.map(|rows| (rows, share)).or_input_problem(),
        }
    }
    let permit = wait_to_decode(&ingest.state).await?;
    let decode_large = move |ingest: &IngestSession| {
        // The closure keeps its permit and its memory until it ends, even if the client has aborted the request.
        let _permit = permit;
        let mut share = share;
        let rows = decode(bytes, form, &schema, &ingest.session.shared.limits).or_input_problem()?;
        grow_share(&ingest.state, &mut share, rows.nbytes().or_input_problem()?)?;
        Ok((rows, share))
    };
    ingest.run_blocking(decode_large).await
}

/// Waits for a permit to decode a large body.
pub(crate) async fn wait_to_decode(state: &IngestState) -> Result<OwnedSemaphorePermit> {
    let permit = state.decoding.clone().acquire_owned().await;
    permit.map_err(|_| Problem::unavailable("the server is stopping"))
}

/// Grows a share of the memory to at least `bytes`.
pub(crate) fn grow_share(state: &IngestState, share: &mut OwnedSemaphorePermit, bytes: u64) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let shared = share_bytes(share);
    if bytes > shared {
        share.merge(state.memory.share(bytes - shared)?);
        assert!(share_bytes(share) >= bytes, "a share of {} units for {bytes} bytes", share.num_permits());
    }
    Ok(())
}

async fn append(
    writer: &TableWriter,
    rows: Dataset,
    ack: Ack,
    batch_id: Option<BatchId>,
    share: OwnedSemaphorePermit,
) -> Result<Receipt> {
    // Few bytes may be many rows, for example of a dictionary.
    let is_small = is_small(&share) && rows.len().is_ok_and(|rows| rows <= MAX_INLINE_ROWS);
    let (request, answers) = single_batch(rows, ack, batch_id, Arc::new(share))?;
    if is_small {
        writer.append_here(request)?;
    } else {
        writer.append(request)?;
    }
    single_receipt(answers.await)
}

/// Returns a request to append all rows as one batch, and the receiver of its results.
pub(crate) fn single_batch(
    rows: Dataset,
    ack: Ack,
    batch_id: Option<BatchId>,
    share: Arc<OwnedSemaphorePermit>,
) -> Result<(AppendRequest, oneshot::Receiver<AppendResults>)> {
    let (reply, answers) = oneshot::channel();
    let ends = vec![rows.len().or_input_problem()?];
    let is_over = Arc::default();
    Ok((AppendRequest { rows, ends, ack, numbered: batch_id, share, is_over, reply }, answers))
}

/// Returns the result of a request's only batch.
pub(crate) fn single_receipt(answers: Result<AppendResults, oneshot::error::RecvError>) -> Result<Receipt> {
    let AppendResults { receipts, refusal } = answers.map_err(|_| lost())?;
    match refusal {
        Some(refusal) => Err(refusal),
        None => {
            assert!(receipts.len() == 1, "{} receipts for one batch", receipts.len());
            receipts.into_iter().next().ok_or_else(lost)
        }
    }
}

/// `GET /v1/tables/T/producers/P`
pub(crate) async fn producer(
    ingest: IngestSession,
    parts: &Parts,
    name: &str,
    producer: &str,
) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    ingest.session.check_facts(name)?;
    let table = growing_table(&ingest.session, name).await?;
    let producer = producer.to_owned();
    let answer = ingest.run_blocking(move |ingest| {
        let positions = table.rows().and_then(|rows| rows.positions()).or_table_problem()?;
        refuse_replica(&positions).map_err(|e| Problem::conflict("replica", e.message()))?;
        let Some(position) = position_in(&positions, &producer) else {
            return Err(Problem::not_found("the producer is not known"));
        };
        // The rows of the last batch are known only if this server has committed it.
        let state =
            ingest.state.writers.producer(&table, &producer).filter(|state| state.sequence == position.sequence);
        let end = state.and_then(|state| state.rows).map(|rows| rows.end);
        Ok(json!({
            "producer": producer, "epoch": position.epoch, "sequence": position.sequence, "rows": end,
            "persistent": true,
        }))
    });
    Ok(json_response(StatusCode::OK, &answer.await?))
}

/// The parameters for creating a table.
const CREATE_PARAMETERS: &[&str] = &["dictionary", "sorted_by", "late", "index", "segment_rows"];

/// `PUT /v1/tables/T`
pub(crate) async fn put_table(
    ingest: IngestSession,
    parts: &Parts,
    body: Incoming,
    name: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    let IngestSession { session, state } = &ingest;
    trace.is_write = true;
    session.check_write(name)?;
    let query = Query::parse(parts.uri.query(), CREATE_PARAMETERS)?;
    let limits = Limits { body: MAX_SCHEMA_LEN, ..session.shared.limits.clone() };
    let received = receive(&parts.headers, body, &limits, &state.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let schema = RequestedSchema::parse(received.bytes, content_type)?;
    let options = table_options(&query, state.writers.options())?;
    let name = name.to_owned();
    let (is_new, facts) = ingest.run_blocking(move |ingest| create(ingest, &name, &schema, &options)).await?;
    Ok(json_response(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &facts))
}

/// Parses the options for creating a table; others are those of `base`.
fn table_options(query: &Query, base: WriterOptions) -> Result<WriterOptions> {
    let late = match query.get("late")? {
        None => None,
        Some("accept") => Some(LatePolicy::Accept),
        Some("refuse") => Some(LatePolicy::Refuse),
        Some(other) => {
            return Err(Problem::bad_request(format!("late: accept or refuse is expected, got '{}'", short(other))));
        }
    };
    Ok(WriterOptions {
        dictionary: parse_names(query, "dictionary"),
        sorted_by: query.get("sorted_by")?.map(str::to_owned),
        late,
        index: Some(parse_names(query, "index")).filter(|index| !index.is_empty()),
        segment_rows: query.number("segment_rows")?,
        ..base
    })
}

/// Returns the names in all lists of a repeatable parameter.
fn parse_names(query: &Query, parameter: &str) -> Vec<String> {
    let names = query.all(parameter).flat_map(|list| list.split(','));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Creates a table unless it exists; returns true if it is new, and the facts about it. Blocks.
///
/// # Errors
/// 409 if it exists with another schema.
fn create(
    ingest: &IngestSession,
    name: &str,
    requested: &RequestedSchema,
    options: &WriterOptions,
) -> Result<(bool, Json)> {
    let session = &ingest.session;
    let is_new = create_table(ingest, name, Arc::new(requested.schema.clone()), options)?;
    let facts = session.facts(&Snapshot::load(session.shared.catalog.get(name)?)?)?;
    if !is_new {
        let table = session.shared.catalog.get(name)?;
        let existing = table.rows().or_table_problem()?;
        let has_schema = requested.matches(existing.schema(), &options.dictionary);
        let has_order = options.sorted_by.as_deref().is_none_or(|column| facts["sorted_by"] == *column);
        let has_late_policy = options.late.is_none_or(|late| facts["late"] == (late == LatePolicy::Accept));
        // The index may differ: rows are found without it as well, only more slowly.
        if table.kind != Kind::Table || !has_schema || !has_order || !has_late_policy {
            return Err(Problem::conflict("schema_mismatch", "the table is there, with another schema"));
        }
    }
    Ok((is_new, facts))
}

/// Creates a table; returns false if it exists. Blocks.
pub(crate) fn create_table(
    ingest: &IngestSession,
    name: &str,
    schema: SchemaRef,
    options: &WriterOptions,
) -> Result<bool> {
    let ServerState { catalog, readiness, .. } = &*ingest.session.shared;
    let created = catalog.create(name, schema, options);
    if let Err(problem) = &created
        && let Some(e) = problem.error()
    {
        readiness.on_failure(e);
    }
    created
}

/// Returns the problem for rows that were passed to a writer which has ended.
pub(crate) fn lost() -> Problem {
    let detail = "the table's writer has stopped; whether the rows were appended is not known";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown", detail)
}
