//! Receives rows in several formats, with one queue for each table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, ErrorKind, LatePolicy, REPLICA, WriterOptions, is_replica};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::decode::{BodyFormat, RequestedSchema, check_bound, cost, decode};
use crate::describe::facts_of;
use crate::limits::Limits;
use crate::line_protocol::{LineError, LineRows, Precision, rows_of};
use crate::problem::{Problem, Result, ResultExt};
use crate::producers::{BatchId, FIRST_EPOCH, MAX_NUMBER, position_in};
use crate::query::{Query, header, header_number, short};
use crate::queue::{Ack, AppendRequest, AppendResults, Receipt};
use crate::request_body::{ReceivedBody, SMALL, is_small, receive, share_bytes};
use crate::response::{allow, empty, json_response, with_type};
use crate::response_body::ResponseBody;
use crate::session::{ServerState, Session, Trace};
use crate::size_bound::SizeBound;
use crate::table::{Kind, Table};

/// The maximum number of rows that the receiving thread commits itself.
const MAX_INLINE_ROWS: u64 = 64;
/// The maximum memory in bytes of rows whose lines the receiving thread parses itself.
const MAX_INLINE_BYTES: u64 = 4 << 20;
/// The maximum number of characters in a producer's name.
const MAX_PRODUCER_CHARS: usize = 200;

/// `POST /v1/tables/T/rows`
pub(crate) async fn rows(
    session: Session,
    parts: &Parts,
    body: Incoming,
    name: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
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
    let table = growing_table(&session, name).await?;
    let schema = table_schema(&session, &table).await?;
    let shared = session.shared.clone();
    let received = receive(&parts.headers, body, &shared.limits, &shared.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let (rows, share) = decode_body(&session, received, form, schema).await?;
    let sequence = batch_id.as_ref().map(|id| id.sequence);
    let receipt = append(&session, &table, rows, ack, batch_id, share).await?;
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
    table: Arc<Table>,
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
    pub async fn open(session: &Session, name: &str, query: &Query) -> Result<Destination> {
        session.check_write(name)?;
        let ack = parse_ack(query.get("ack")?)?;
        let next_id = parse_batch_id(query.get("producer")?, query.number("epoch")?, query.number("sequence")?)?;
        let table = growing_table(session, name).await?;
        let schema = table_schema(session, &table).await?;
        Ok(Destination { table, schema, ack, next_id, is_over: Arc::default() })
    }

    /// Passes the `count` batches of an Arrow stream to the table's writer.
    pub async fn submit(&mut self, session: &Session, received: ReceivedBody, count: usize) -> Result<PendingBatches> {
        let (rows, share) = decode_body(session, received, BodyFormat::Arrow, self.schema.clone()).await?;
        let ends = if count == 1 { vec![rows.len().or_input_problem()?] } else { batch_ends(&rows, count)? };
        let (reply, answers) = oneshot::channel();
        if self.next_id.as_ref().is_some_and(|id| !id.can_number(count)) {
            return Err(too_large_number());
        }
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
        self.table.append(request, &session.shared.writing)?;
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

async fn table_schema(session: &Session, table: &Arc<Table>) -> Result<SchemaRef> {
    if let Some(schema) = table.schema_written() {
        return Ok(schema);
    }
    let table = table.clone();
    session.run_blocking(move |_| table.rows().map(|rows| rows.schema().clone()).or_table_problem()).await
}

fn parse_ack(name: Option<&str>) -> Result<Ack> {
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
    session: &Session,
    received: ReceivedBody,
    form: BodyFormat,
    schema: SchemaRef,
) -> Result<(Dataset, OwnedSemaphorePermit)> {
    let limits = &session.shared.limits;
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
    let permit = wait_to_decode(session).await?;
    let decode_large = move |session: &Session| {
        // The closure keeps its permit and its memory until it ends, even if the client has aborted the request.
        let _permit = permit;
        let mut share = share;
        let rows = decode(bytes, form, &schema, &session.shared.limits).or_input_problem()?;
        grow_share(session, &mut share, rows.nbytes().or_input_problem()?)?;
        Ok((rows, share))
    };
    session.run_blocking(decode_large).await
}

/// Waits for a permit to decode a large body.
async fn wait_to_decode(session: &Session) -> Result<OwnedSemaphorePermit> {
    let permit = session.shared.decoding.clone().acquire_owned().await;
    permit.map_err(|_| Problem::unavailable("the server is stopping"))
}

/// Grows a share of the memory to at least `bytes`.
fn grow_share(session: &Session, share: &mut OwnedSemaphorePermit, bytes: u64) -> Result<()> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let shared = share_bytes(share);
    if bytes > shared {
        share.merge(session.shared.memory.share(bytes - shared)?);
        assert!(share_bytes(share) >= bytes, "a share of {} units for {bytes} bytes", share.num_permits());
    }
    Ok(())
}

async fn append(
    session: &Session,
    table: &Arc<Table>,
    rows: Dataset,
    ack: Ack,
    batch_id: Option<BatchId>,
    share: OwnedSemaphorePermit,
) -> Result<Receipt> {
    // Few bytes may be many rows, for example of a dictionary.
    let is_small = is_small(&share) && rows.len().is_ok_and(|rows| rows <= MAX_INLINE_ROWS);
    let (request, answers) = single_batch(rows, ack, batch_id, Arc::new(share))?;
    if is_small {
        table.append_here(request, &session.shared.writing)?;
    } else {
        table.append(request, &session.shared.writing)?;
    }
    single_receipt(answers.await)
}

/// Returns a request to append all rows as one batch, and the receiver of its results.
fn single_batch(
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
fn single_receipt(answers: Result<AppendResults, oneshot::error::RecvError>) -> Result<Receipt> {
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
    session: Session,
    parts: &Parts,
    name: &str,
    producer: &str,
) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_facts(name)?;
    let table = growing_table(&session, name).await?;
    let producer = producer.to_owned();
    let answer = session.run_blocking(move |_| {
        let positions = table.rows().and_then(|rows| rows.positions()).or_table_problem()?;
        if is_replica(&positions) {
            return Err(Problem::conflict("replica", REPLICA));
        }
        let Some(position) = position_in(&positions, &producer) else {
            return Err(Problem::not_found("the producer is not known"));
        };
        // The rows of the last batch are known only if this server has committed it.
        let state = table.producers.get(&producer).filter(|state| state.sequence == position.sequence);
        let end = state.and_then(|state| state.rows).map(|rows| rows.end);
        Ok(json!({
            "producer": producer, "epoch": position.epoch, "sequence": position.sequence, "rows": end,
            "persistent": true,
        }))
    });
    Ok(json_response(StatusCode::OK, &answer.await?))
}

/// The parameters for creating a table.
pub(crate) const CREATE_PARAMETERS: &[&str] = &["dictionary", "sorted_by", "late", "index", "segment_rows"];

/// Parses the options for creating a table.
pub(crate) fn table_options(query: &Query) -> Result<WriterOptions> {
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
        ..WriterOptions::default()
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
pub(crate) fn create(
    session: &Session,
    name: &str,
    requested: &RequestedSchema,
    options: &WriterOptions,
) -> Result<(bool, Json)> {
    let is_new = create_on_disk(session, name, Arc::new(requested.schema.clone()), options)?;
    let facts = facts_of(session, name)?;
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

/// Creates a table on the server's disk; returns false if it exists. Blocks.
fn create_on_disk(session: &Session, name: &str, schema: SchemaRef, options: &WriterOptions) -> Result<bool> {
    let ServerState { catalog, writing, readiness, .. } = &*session.shared;
    let options = WriterOptions { medium: writing.medium.clone(), ..options.clone() };
    let created = catalog.create(name, schema, &options);
    if let Err(problem) = &created
        && let Some(e) = problem.error()
    {
        readiness.on_failure(e);
    }
    created
}

// ---- line protocol ----

/// A version of InfluxDB's interface, which determines the names of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineApi {
    V1,
    V2,
}

/// `POST /write` and `POST /api/v2/write`
pub(crate) async fn line_protocol(
    session: Session,
    parts: &Parts,
    body: Incoming,
    trace: &mut Trace,
    api: LineApi,
) -> Result<Response<ResponseBody>> {
    trace.is_write = true;
    allow(parts, &[Method::POST])?;
    session.check_writer()?;
    // Clients send parameters of any version of InfluxDB, so unknown ones are ignored.
    let parameters = form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes());
    let precision = parameters.into_iter().find(|(name, _)| name == "precision").map(|(_, value)| value);
    let precision = parse_precision(precision.as_deref(), api)?;
    let ack = parse_ack(header(&parts.headers, "ack")?)?;
    let shared = session.shared.clone();
    let ReceivedBody { bytes, share } = receive(&parts.headers, body, &shared.limits, &shared.memory).await?;
    session.check_valid()?;
    let text = String::from_utf8(bytes).map_err(|_| Problem::bad_request("line protocol is UTF-8"))?;

    let now = nanos_since_epoch();
    let parsed = if is_small(&share) {
        match rows_of(&text, precision, now, MAX_INLINE_BYTES) {
            // Few lines may become many bytes.
            Err(LineError::TooMuch(_)) => None,
            parsed => Some(parsed.map_err(line_problem)?),
        }
    } else {
        None
    };
    // The blocking closures keep their permit and their memory until they end, even if the client has aborted the
    // request.
    let (measurements, share, permit) = match parsed {
        Some(measurements) => (measurements, share, None),
        None => {
            let permit = wait_to_decode(&session).await?;
            let (max_bytes, _) = shared.limits.rows;
            let parse = move |_: &Session| {
                let measurements = rows_of(&text, precision, now, max_bytes).map_err(line_problem)?;
                Ok((measurements, share, Some(permit)))
            };
            session.run_blocking(parse).await?
        }
    };

    // Either all rows may be appended, or none is.
    for name in measurements.keys() {
        session.check_write(name)?;
    }
    let build_batches = move |session: &Session| {
        let _permit = permit;
        let mut share = share;
        let batches = batches_for_tables(session, measurements, &mut share)?;
        let mut bytes = 0u64;
        for (_, rows) in &batches {
            bytes = bytes.saturating_add(rows.nbytes().or_input_problem()?);
        }
        grow_share(session, &mut share, bytes)?;
        Ok((share, batches))
    };
    let (share, batches) = session.run_blocking(build_batches).await?;

    let outcomes = append_to_all(&shared, batches, ack, share).await?;
    let appended = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()).map(|receipt| receipt.rows).sum();
    trace.rows = Some(appended);
    match partial_write_problem(outcomes) {
        Some(problem) => Err(problem),
        None => Ok(empty(StatusCode::NO_CONTENT)),
    }
}

/// Appends rows to each table; to no table if one of them can't be opened for writing.
async fn append_to_all(
    shared: &ServerState,
    batches: Vec<(Arc<Table>, Dataset)>,
    ack: Ack,
    share: OwnedSemaphorePermit,
) -> Result<Vec<(String, Result<Receipt>)>> {
    let share = Arc::new(share);
    let slots = batches.iter().map(|(table, _)| table.reserve_slot(&shared.writing)).collect::<Result<Vec<_>>>()?;
    assert!(slots.len() == batches.len(), "{} slots for {} tables", slots.len(), batches.len());
    let mut submitted = Vec::with_capacity(batches.len());
    for ((table, rows), slot) in batches.into_iter().zip(slots) {
        let answers = match single_batch(rows, ack, None, share.clone()) {
            Ok((request, answers)) => table.append_in(Some(slot), request, &shared.writing).map(|()| answers),
            Err(problem) => Err(problem),
        };
        submitted.push((table.name.clone(), answers));
    }
    // The memory is free once the last of the batches is answered.
    drop(share);
    let mut outcomes = Vec::with_capacity(submitted.len());
    for (name, answers) in submitted {
        let outcome = match answers {
            Ok(answers) => single_receipt(answers.await),
            Err(problem) => Err(problem),
        };
        outcomes.push((name, outcome));
    }
    Ok(outcomes)
}

/// Returns the reason why not all lines of a request were appended; `None` if they were.
///
/// A client that sends all lines again doubles the lines that were appended. If there are any, the status is one that
/// clients do not retry automatically.
fn partial_write_problem(outcomes: Vec<(String, Result<Receipt>)>) -> Option<Problem> {
    let mut appended = Vec::new();
    let mut not_appended = Vec::new();
    let mut unknown = Vec::new();
    let mut reasons = Vec::new();
    let mut first_problem = None;
    for (name, outcome) in outcomes {
        let Err(problem) = outcome else {
            appended.push(name);
            continue;
        };
        reasons.push(format!("{name}: {}", problem.detail()));
        if problem.is_outcome_known() {
            not_appended.push(name);
        } else {
            unknown.push(name);
        }
        first_problem.get_or_insert(problem);
    }

    let first_problem = first_problem?;
    if appended.is_empty() && unknown.is_empty() {
        return Some(first_problem);
    }

    let mut parts = Vec::new();
    for (what, names) in
        [("appended to", &appended), ("not appended to", &not_appended), ("not known whether appended to", &unknown)]
    {
        if !names.is_empty() {
            parts.push(format!("{what} {}", names.join(", ")));
        }
    }
    let detail = format!(
        "partial write: {}; send only the lines of tables that were not appended to again ({})",
        parts.join("; "),
        reasons.join("; ")
    );
    let problem = Problem::new(StatusCode::BAD_REQUEST, "partial_write", detail).with_error_of(&first_problem);
    Some(
        problem
            .with_member("appended", appended)
            .with_member("not_appended", not_appended)
            .with_member("unknown", unknown),
    )
}

/// Returns the problem for rows that were passed to a writer which has ended.
pub(crate) fn lost() -> Problem {
    let detail = "the table's writer has stopped; whether the rows were appended is not known";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown", detail)
}

/// Parses the unit of timestamps; without one they are nanoseconds.
fn parse_precision(name: Option<&str>, api: LineApi) -> Result<Precision> {
    const MICROSECOND: i64 = 1_000;
    const MILLISECOND: i64 = 1_000 * MICROSECOND;
    const SECOND: i64 = 1_000 * MILLISECOND;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    let unit = match (name, api) {
        (None | Some("ns" | ""), _) => 1,
        (Some("us"), _) => MICROSECOND,
        (Some("ms"), _) => MILLISECOND,
        (Some("s"), _) => SECOND,
        (Some("n"), LineApi::V1) => 1,
        (Some("u" | "µ"), LineApi::V1) => MICROSECOND,
        (Some("m"), LineApi::V1) => MINUTE,
        (Some("h"), LineApi::V1) => HOUR,
        (Some(_), _) => return Err(Problem::bad_request("precision: ns, us, ms or s is expected")),
    };
    Ok(Precision { unit })
}

/// Returns the current time in nanoseconds since 1970; 0 if the clock is set to an earlier time.
fn nanos_since_epoch() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}

fn line_problem(e: LineError) -> Problem {
    match e {
        LineError::Invalid(message) => Problem::bad_request(message),
        LineError::TooMuch(message) => Problem::too_large(message),
    }
}

/// Returns the table of each measurement, created if it does not exist, and the rows with its schema. Grows `share`
/// before it builds the rows. Blocks.
fn batches_for_tables(
    session: &Session,
    measurements: BTreeMap<String, LineRows>,
    share: &mut OwnedSemaphorePermit,
) -> Result<Vec<(Arc<Table>, Dataset)>> {
    let catalog = &session.shared.catalog;
    let mut batches = Vec::with_capacity(measurements.len());
    let mut new = Vec::new();
    let mut bound = SizeBound::default();
    for (name, rows) in measurements {
        match catalog.get(&name) {
            Ok(table) => batches.push(batch_for_table(session, table, rows, (&mut bound, &mut *share))?),
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => new.push((name, rows)),
            Err(problem) => return Err(problem),
        }
    }
    let mut total = bound;
    for (_, rows) in &new {
        total = total.and(SizeBound::for_rows(rows.len(), &rows.schema()));
    }
    check_bound(total, &session.shared.limits).or_input_problem()?;
    grow_share(session, share, total.bytes)?;
    // Tables are created last, so that none is created if there is another error.
    for (name, rows) in new {
        create_on_disk(session, &name, rows.schema(), &WriterOptions::default())?;
        batches.push(batch_for_table(session, catalog.get(&name)?, rows, (&mut bound, &mut *share))?);
    }
    Ok(batches)
}

/// Builds the rows with the table's schema. Adds the bound of their size to the request's `bound`, and grows `share` to
/// it.
fn batch_for_table(
    session: &Session,
    table: Arc<Table>,
    rows: LineRows,
    (bound, share): (&mut SizeBound, &mut OwnedSemaphorePermit),
) -> Result<(Arc<Table>, Dataset)> {
    let name = &table.name;
    if table.kind != Kind::Table {
        return Err(Problem::bad_request(format!("{name}: a file does not grow")));
    }
    let schema = table.rows().or_table_problem()?.schema().clone();
    // Columns without a field in any line are null, and take memory too.
    *bound = bound.and(SizeBound::for_rows(rows.len(), &schema));
    check_bound(*bound, &session.shared.limits).or_input_problem()?;
    grow_share(session, share, bound.bytes)?;
    let batch = rows.batch(&schema).map_err(|e| Problem::bad_request(format!("{name}: {e}")))?;
    let rows = Dataset::try_from(vec![batch]).or_input_problem()?;
    Ok((table, rows))
}
