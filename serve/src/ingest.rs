//! Receives rows in several formats, with one queue for each table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, ErrorKind, LatePolicy, REPLICA, WriterOptions, is_replica};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::decode::{BodyFormat, RequestedSchema, check_weight, cost, decode};
use crate::describe::facts_of;
use crate::limits::Limits;
use crate::line_protocol::{LineError, LineRows, Precision, rows_of};
use crate::problem::{Problem, Result, ResultExt};
use crate::producers::{BatchId, LARGEST, position_in};
use crate::query::{Query, header, header_number, short};
use crate::queue::{Ack, AppendRequest, AppendResults, Receipt};
use crate::request_body::{ReceivedBody, SMALL, UNIT, is_small, receive};
use crate::response::{allow, empty, json_response, with_type};
use crate::response_body::ResponseBody;
use crate::session::{ServerState, Session, Trace};
use crate::size_bound::SizeBound;
use crate::table::{Kind, Table};

/// The maximum number of rows that the thread that has received them commits itself.
const FEW: u64 = 64;
/// The maximum memory in bytes of rows that the thread that has received their lines parses itself.
const FEW_BYTES: u64 = 4 << 20;
/// The maximum number of characters in a producer's name.
const PRODUCER: usize = 200;

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
    let ack = ack_of(header(&parts.headers, "ack")?)?;
    let numbered = numbered_of(parts)?;
    let table = growing(&session, name).await?;
    let schema = schema_of(&session, &table).await?;
    let shared = session.shared.clone();
    let received = receive(&parts.headers, body, &shared.limits, &shared.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let (rows, share) = decoded(&session, received, form, schema).await?;
    let sequence = numbered.as_ref().map(|numbered| numbered.sequence);
    let receipt = append(&session, &table, rows, ack, numbered, share).await?;
    trace.rows = Some(if receipt.is_duplicate { 0 } else { receipt.rows });
    Ok(with_type(StatusCode::OK, "application/json", ResponseBody::new(receipt.answer(sequence) + "\n")))
}

impl Receipt {
    /// The answer to a producer's batch, in JSON.
    pub fn answer(&self, sequence: Option<u64>) -> String {
        let Receipt { first_row, rows, committed, durable, is_duplicate } = self;
        let number = |number: Option<u64>| number.map_or("null".into(), |number| number.to_string());
        let (first_row, sequence) = (number(*first_row), number(sequence));
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
    /// The number of the next batch.
    numbered: Option<BatchId>,
    is_over: Arc<AtomicBool>,
}

/// Batches passed to a table's writer, which answers them.
pub(crate) struct PendingBatches {
    pub answers: oneshot::Receiver<AppendResults>,
    /// The number of the first batch.
    pub sequence: Option<u64>,
    /// The memory that they have until then.
    pub bytes: usize,
}

impl Destination {
    /// Table `name`, by the parameters `ack`, `producer`, `epoch` and `sequence`.
    pub async fn open(session: &Session, name: &str, query: &Query) -> Result<Destination> {
        session.check_write(name)?;
        let ack = ack_of(query.get("ack")?)?;
        let numbered = numbered(query.get("producer")?, query.number("epoch")?, query.number("sequence")?)?;
        let table = growing(session, name).await?;
        let schema = schema_of(session, &table).await?;
        Ok(Destination { table, schema, ack, numbered, is_over: Arc::default() })
    }

    /// Passes the `count` batches of an Arrow stream to the table's writer.
    pub async fn submit(&mut self, session: &Session, received: ReceivedBody, count: usize) -> Result<PendingBatches> {
        let (rows, share) = decoded(session, received, BodyFormat::Arrow, self.schema.clone()).await?;
        let ends = if count == 1 { vec![len_of(&rows)?] } else { ends_of(&rows, count)? };
        let (reply, answers) = oneshot::channel();
        let sequence = self.numbered.as_ref().map(|numbered| numbered.sequence);
        let (ack, numbered, is_over) = (self.ack, self.numbered.clone(), self.is_over.clone());
        let bytes = share.num_permits() * UNIT;
        let batches = AppendRequest { rows, ends, ack, numbered, _share: Arc::new(share), is_over, reply };
        self.table.append(batches, &session.shared.writing)?;
        self.numbered = self.numbered.as_ref().map(|numbered| numbered.at(count));
        Ok(PendingBatches { answers, sequence, bytes })
    }
}

fn len_of(rows: &Dataset) -> Result<u64> {
    rows.len().or_input_problem()
}

/// The row after the last one of each batch.
fn ends_of(rows: &Dataset, count: usize) -> Result<Vec<u64>> {
    let mut end = 0;
    let ends = rows.batches().map(|batch| {
        end += batch.and_then(|batch| batch.len())?;
        Ok(end)
    });
    let ends: Vec<u64> = ends.collect::<arrowwood::Result<_>>().or_input_problem()?;
    let all = ends.len() == count && ends.last().copied() == Some(len_of(rows)?);
    all.then_some(ends).ok_or_else(|| Problem::internal("messages are expected to be batches"))
}

async fn growing(session: &Session, name: &str) -> Result<Arc<Table>> {
    let table = session.table(name).await?;
    match table.kind {
        Kind::Table => Ok(table),
        Kind::File | Kind::Files => Err(Problem::bad_request("a file does not grow; append to a table")),
    }
}

async fn schema_of(session: &Session, table: &Arc<Table>) -> Result<SchemaRef> {
    if let Some(schema) = table.schema_written() {
        return Ok(schema);
    }
    let table = table.clone();
    session
        .run_blocking(move |_| {
            table.rows().map(|rows| rows.schema().clone()).map_err(|e| Problem::from_table_error(&e))
        })
        .await
}

fn ack_of(name: Option<&str>) -> Result<Ack> {
    match name {
        None | Some("durable") => Ok(Ack::Durable),
        Some("visible") => Ok(Ack::Visible),
        Some(_) => Err(Problem::bad_request("Ack: durable or visible is expected")),
    }
}

fn numbered_of(parts: &Parts) -> Result<Option<BatchId>> {
    let producer = header(&parts.headers, "producer")?;
    let epoch = header_number(&parts.headers, "producer-epoch")?;
    let sequence = header_number(&parts.headers, "producer-sequence")?;
    numbered(producer, epoch, sequence)
}

/// A batch's number among those of its producer.
fn numbered(producer: Option<&str>, epoch: Option<u64>, sequence: Option<u64>) -> Result<Option<BatchId>> {
    let Some(producer) = producer else {
        return match (epoch, sequence) {
            (None, None) => Ok(None),
            _ => Err(Problem::bad_request("Producer-Epoch and Producer-Sequence need a Producer")),
        };
    };
    let is_name = !producer.is_empty() && producer.len() <= PRODUCER && producer.bytes().all(|b| b.is_ascii_graphic());
    if !is_name {
        return Err(Problem::bad_request(format!("Producer: 1 to {PRODUCER} visible ASCII characters are expected")));
    }
    let sequence = sequence.ok_or_else(|| Problem::bad_request("a Producer needs a Producer-Sequence"))?;
    let epoch = epoch.unwrap_or(0);
    if sequence.max(epoch) > LARGEST {
        return Err(Problem::bad_request("Producer-Epoch and Producer-Sequence are less than 2^63"));
    }
    Ok(Some(BatchId { producer: producer.to_owned(), epoch, sequence }))
}

/// The rows of a body, with their share of the memory.
async fn decoded(
    session: &Session,
    received: ReceivedBody,
    form: BodyFormat,
    schema: SchemaRef,
) -> Result<(Dataset, OwnedSemaphorePermit)> {
    let limits = &session.shared.limits;
    let ReceivedBody { bytes, share } = received;
    let cost = cost(&bytes, form, &schema, limits).or_input_problem()?;
    let is_small = cost <= SMALL as u64;
    if is_small {
        // Without a thread, unless few bytes are decompressed to many.
        let small = Limits { unpacked: SMALL, ..limits.clone() };
        match decode(bytes.clone(), form, &schema, &small) {
            Err(e) if e.kind() == ErrorKind::Unsupported => (),
            done => return done.map(|rows| (rows, share)).or_input_problem(),
        }
    }
    let turn = turn(session).await?;
    // The work keeps its permit and its memory until it ends, even if the client has aborted the request.
    let work = move |session: &Session| {
        let _turn = turn;
        let rows = decode(bytes, form, &schema, &session.shared.limits).or_input_problem()?;
        let share = enlarged(session, share, [&rows].into_iter())?;
        Ok((rows, share))
    };
    session.run_blocking(work).await
}

/// A permit for decoding a large body.
async fn turn(session: &Session) -> Result<OwnedSemaphorePermit> {
    let closed = |_| Problem::unavailable("the server is stopping");
    session.shared.decoding.clone().acquire_owned().await.map_err(closed)
}

/// The share of the memory that `rows` take, which is at least `share`.
fn enlarged<'a>(
    session: &Session,
    mut share: OwnedSemaphorePermit,
    mut rows: impl Iterator<Item = &'a Dataset>,
) -> Result<OwnedSemaphorePermit> {
    let taken = rows.try_fold(0u64, |sum, rows| Ok(sum.saturating_add(rows.nbytes()?))).or_input_problem()?;
    enlarge(session, &mut share, taken)?;
    Ok(share)
}

/// Makes a share of the memory one of at least `bytes`.
fn enlarge(session: &Session, share: &mut OwnedSemaphorePermit, bytes: u64) -> Result<()> {
    let more = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(share.num_permits() * UNIT);
    if more > 0 {
        share.merge(session.shared.memory.share(more)?);
    }
    Ok(())
}

async fn append(
    session: &Session,
    table: &Arc<Table>,
    rows: Dataset,
    ack: Ack,
    numbered: Option<BatchId>,
    share: OwnedSemaphorePermit,
) -> Result<Receipt> {
    // Few bytes may hold many: those of a dictionary.
    let is_small = is_small(&share) && rows.len().is_ok_and(|rows| rows <= FEW);
    let (batches, answers) = whole(rows, ack, numbered, Arc::new(share))?;
    if is_small {
        table.append_here(batches, &session.shared.writing)?;
    } else {
        table.append(batches, &session.shared.writing)?;
    }
    only(answers.await)
}

/// All rows as one batch, and its answer.
fn whole(
    rows: Dataset,
    ack: Ack,
    numbered: Option<BatchId>,
    share: Arc<OwnedSemaphorePermit>,
) -> Result<(AppendRequest, oneshot::Receiver<AppendResults>)> {
    let (reply, answers) = oneshot::channel();
    let ends = vec![len_of(&rows)?];
    Ok((AppendRequest { rows, ends, ack, numbered, _share: share, is_over: Arc::default(), reply }, answers))
}

/// The result of the only batch.
fn only(answers: Result<AppendResults, oneshot::error::RecvError>) -> Result<Receipt> {
    let AppendResults { receipts, refusal } = answers.map_err(|_| lost())?;
    match refusal {
        Some(refusal) => Err(refusal),
        None => receipts.into_iter().next().ok_or_else(lost),
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
    let table = growing(&session, name).await?;
    let producer = producer.to_owned();
    let answer = session.run_blocking(move |_| {
        let positions = table.rows().and_then(|rows| rows.positions()).map_err(|e| Problem::from_table_error(&e))?;
        if is_replica(&positions) {
            return Err(Problem::conflict("replica", REPLICA));
        }
        let unknown = || Problem::not_found("the producer is not known");
        let position = position_in(&positions, &producer).ok_or_else(unknown)?;
        let known = table.producers.get(&producer).filter(|known| known.sequence == position.sequence);
        let end = known.and_then(|known| known.rows).map(|rows| rows.end);
        Ok(json!({
            "producer": producer, "epoch": position.epoch, "sequence": position.sequence, "rows": end, "persistent": true,
        }))
    });
    Ok(json_response(StatusCode::OK, &answer.await?))
}

/// The parameters for creating a table.
pub(crate) const CREATE_PARAMETERS: &[&str] = &["dictionary", "sorted_by", "late", "index", "segment_rows"];

/// The options for creating a table.
pub(crate) fn table_options(query: &Query) -> Result<WriterOptions> {
    let names = |parameter: &str| {
        let all = query.all(parameter).flat_map(|list| list.split(',')).filter(|name| !name.is_empty());
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let late = match query.get("late")? {
        None => None,
        Some("accept") => Some(LatePolicy::Accept),
        Some("refuse") => Some(LatePolicy::Refuse),
        Some(other) => {
            return Err(Problem::bad_request(format!("late: accept or refuse is expected, got '{}'", short(other))));
        }
    };
    Ok(WriterOptions {
        dictionary: names("dictionary"),
        sorted_by: query.get("sorted_by")?.map(str::to_owned),
        late,
        index: Some(names("index")).filter(|index| !index.is_empty()),
        segment_rows: query.number("segment_rows")?,
        ..WriterOptions::default()
    })
}

/// Creates a table, or finds that it exists: returns whether it is new, and its facts. Blocks.
pub(crate) fn create(
    session: &Session,
    name: &str,
    wanted: &RequestedSchema,
    options: &WriterOptions,
) -> Result<(bool, Json)> {
    let is_new = make(session, name, Arc::new(wanted.schema.clone()), options)?;
    let facts = facts_of(session, name)?;
    if !is_new {
        let table = session.shared.catalog.get(name)?;
        let there = table.rows().map_err(|e| Problem::from_table_error(&e))?;
        let is_same = wanted.is_that_of(there.schema(), &options.dictionary);
        let is_sorted = options.sorted_by.as_deref().is_none_or(|column| facts["sorted_by"] == *column);
        let is_as_late = options.late.is_none_or(|late| facts["late"] == (late == LatePolicy::Accept));
        if table.kind != Kind::Table || !is_same || !is_sorted || !is_as_late {
            return Err(Problem::conflict("schema_mismatch", "the table is there, with another schema"));
        }
        // The index may differ: rows are found without it as well, only more slowly.
    }
    Ok((is_new, facts))
}

/// Makes a table on the server's disk; returns false if it exists. Blocks.
fn make(session: &Session, name: &str, schema: SchemaRef, options: &WriterOptions) -> Result<bool> {
    let ServerState { catalog, writing, readiness, .. } = &*session.shared;
    let options = WriterOptions { medium: writing.medium.clone(), ..options.clone() };
    let made = catalog.create(name, schema, &options);
    made.as_ref().err().and_then(Problem::error).into_iter().for_each(|e| readiness.on_failure(e));
    made
}

// ---- line protocol ----

/// `POST /write` and `POST /api/v2/write`
pub(crate) async fn line_protocol(
    session: Session,
    parts: &Parts,
    body: Incoming,
    trace: &mut Trace,
    is_first_version: bool,
) -> Result<Response<ResponseBody>> {
    trace.is_write = true;
    allow(parts, &[Method::POST])?;
    session.check_writer()?;
    // Clients send parameters of any version of InfluxDB.
    let parameters: Vec<_> = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).collect();
    let precision = parameters.iter().find(|(name, _)| name == "precision").map(|(_, value)| value.as_ref());
    let precision = precision_of(precision, is_first_version)?;
    let ack = ack_of(header(&parts.headers, "ack")?)?;
    let shared = session.shared.clone();
    let ReceivedBody { bytes, share } = receive(&parts.headers, body, &shared.limits, &shared.memory).await?;
    session.check_valid()?;
    let text = String::from_utf8(bytes).map_err(|_| Problem::bad_request("line protocol is UTF-8"))?;
    let now = now();
    let small = match is_small(&share).then(|| rows_of(&text, precision, now, FEW_BYTES)) {
        // Few lines may become many bytes.
        None | Some(Err(LineError::TooMuch(_))) => None,
        Some(done) => Some(done.map_err(of_lines)?),
    };
    // The work on the lines, and on their rows, keeps its permit and its memory until it ends, even if the client has aborted the
    // request.
    let (measurements, share, turn) = match small {
        Some(measurements) => (measurements, share, None),
        None => {
            let turn = turn(&session).await?;
            let most = shared.limits.rows.0;
            let parse =
                move |_: &Session| Ok((rows_of(&text, precision, now, most).map_err(of_lines)?, share, Some(turn)));
            session.run_blocking(parse).await?
        }
    };
    // Nothing is appended unless everything may be.
    measurements.keys().try_for_each(|name| session.check_write(name))?;
    let rows_for = move |session: &Session| {
        let _turn = turn;
        let mut share = share;
        let batches = for_tables(session, measurements, &mut share)?;
        Ok((enlarged(session, share, batches.iter().map(|(_, rows)| rows))?, batches))
    };
    let (share, batches) = session.run_blocking(rows_for).await?;
    let outcomes = append_to_all(&shared, batches, ack, share).await?;
    let appended = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()).map(|receipt| receipt.rows).sum();
    trace.rows = Some(appended);
    match partial(outcomes) {
        Some(refusal) => Err(refusal),
        None => Ok(empty(StatusCode::NO_CONTENT)),
    }
}

/// Appends rows to each table. Those that some table has no place for are appended to none.
async fn append_to_all(
    shared: &ServerState,
    batches: Vec<(Arc<Table>, Dataset)>,
    ack: Ack,
    share: OwnedSemaphorePermit,
) -> Result<Vec<(String, Result<Receipt>)>> {
    let share = Arc::new(share);
    let places = batches.iter().map(|(table, _)| table.place(&shared.writing)).collect::<Result<Vec<_>>>()?;
    let mut waiting = Vec::with_capacity(batches.len());
    for ((table, rows), place) in batches.into_iter().zip(places) {
        let taken = whole(rows, ack, None, share.clone())
            .and_then(|(batches, answers)| table.append_in(place, batches, &shared.writing).map(|()| answers));
        waiting.push((table.name.clone(), taken));
    }
    // Their memory is free with the last of them.
    drop(share);
    let mut outcomes = Vec::with_capacity(waiting.len());
    for (name, taken) in waiting {
        let outcome = match taken {
            Ok(answers) => only(answers.await),
            Err(refusal) => Err(refusal),
        };
        outcomes.push((name, outcome));
    }
    Ok(outcomes)
}

/// The reason why the lines of a request were not all appended; `None` if they were. If a client sends all of them
/// again, it doubles those already appended: in that case the status is one that clients do not retry automatically.
fn partial(outcomes: Vec<(String, Result<Receipt>)>) -> Option<Problem> {
    let (mut appended, mut refused, mut unknown, mut refusals) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, outcome) in outcomes {
        match outcome {
            Ok(_) => appended.push(name),
            Err(refusal) => {
                let list = if refusal.is_outcome_known() { &mut refused } else { &mut unknown };
                list.push(name.clone());
                refusals.push((name, refusal));
            }
        }
    }
    let is_whole = appended.is_empty() && unknown.is_empty();
    let why = refusals.iter().map(|(name, refusal)| format!("{name}: {}", refusal.detail())).collect::<Vec<_>>();
    let (_, first) = refusals.into_iter().next()?;
    if is_whole {
        return Some(first);
    }
    let of = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
    let parts =
        [of("appended to", &appended), of("not appended to", &refused), of("not known whether appended to", &unknown)];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let detail = format!(
        "partial write: {parts}; send only the lines of tables that were not appended to again ({})",
        why.join("; ")
    );
    let refusal = Problem::new(StatusCode::BAD_REQUEST, "partial_write", detail).with_error_of(&first);
    Some(refusal.with_member("appended", appended).with_member("not_appended", refused).with_member("unknown", unknown))
}

/// For errors about rows passed to a writer that has ended.
pub(crate) fn lost() -> Problem {
    let detail = "the table's writer has stopped; whether the rows were appended is not known";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown", detail)
}

fn precision_of(name: Option<&str>, is_first_version: bool) -> Result<Precision> {
    let unit = match name {
        None | Some("ns" | "") => 1,
        Some("us") => 1_000,
        Some("ms") => 1_000_000,
        Some("s") => 1_000_000_000,
        Some("n") if is_first_version => 1,
        Some("u" | "µ") if is_first_version => 1_000,
        Some("m") if is_first_version => 60_000_000_000,
        Some("h") if is_first_version => 3_600_000_000_000,
        Some(_) => return Err(Problem::bad_request("precision: ns, us, ms or s is expected")),
    };
    Ok(Precision { unit })
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn of_lines(e: LineError) -> Problem {
    match e {
        LineError::Invalid(message) => Problem::bad_request(message),
        LineError::TooMuch(message) => Problem::too_large(message),
    }
}

/// The table of each measurement, created if it does not exist, and the rows with its schema, for which `share` is enlarged
/// before they are made. Blocks.
fn for_tables(
    session: &Session,
    measurements: BTreeMap<String, LineRows>,
    share: &mut OwnedSemaphorePermit,
) -> Result<Vec<(Arc<Table>, Dataset)>> {
    let catalog = &session.shared.catalog;
    let mut batches = Vec::with_capacity(measurements.len());
    let mut new = Vec::new();
    let mut weight = SizeBound::default();
    for (name, rows) in measurements {
        match catalog.get(&name) {
            Ok(table) => batches.push(for_table(session, table, rows, (&mut weight, &mut *share))?),
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => new.push((name, rows)),
            Err(refusal) => return Err(refusal),
        }
    }
    let of_new = |all: SizeBound, (_, rows): &(_, LineRows)| all.and(SizeBound::for_rows(rows.len(), &rows.schema()));
    let all = new.iter().fold(weight, of_new);
    check_weight(all, &session.shared.limits).or_input_problem()?;
    enlarge(session, share, all.bytes)?;
    // Last, so that no table is created if there is another error.
    for (name, rows) in new {
        make(session, &name, rows.schema(), &WriterOptions::default())?;
        batches.push(for_table(session, catalog.get(&name)?, rows, (&mut weight, &mut *share))?);
    }
    Ok(batches)
}

/// The rows with the table's schema. Adds their weight to that of others of the request.
fn for_table(
    session: &Session,
    table: Arc<Table>,
    rows: LineRows,
    (weight, share): (&mut SizeBound, &mut OwnedSemaphorePermit),
) -> Result<(Arc<Table>, Dataset)> {
    let name = &table.name;
    if table.kind != Kind::Table {
        return Err(Problem::bad_request(format!("{name}: a file does not grow")));
    }
    let schema = table.rows().map_err(|e| Problem::from_table_error(&e))?.schema().clone();
    // Columns without a field in any line are null, and take memory too.
    *weight = weight.and(SizeBound::for_rows(rows.len(), &schema));
    check_weight(*weight, &session.shared.limits).or_input_problem()?;
    enlarge(session, share, weight.bytes)?;
    let batch = rows.batch(&schema).map_err(|e| Problem::bad_request(format!("{name}: {e}")))?;
    let rows = Dataset::try_from(vec![batch]).map_err(|e| Problem::from_input_error(&e))?;
    Ok((table, rows))
}
