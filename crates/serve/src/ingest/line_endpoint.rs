//! Receives rows in InfluxDB's line protocol, for several tables at once.
//!
//! The tables of new measurements are created. Either all rows may be appended, or none is: rights, sizes and slots are
//! checked for all tables before the first one is appended to. After that tables are independent of each other, so that
//! the rows of one may be refused alone, for example because the disk is full; the answer then names the tables.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrowwood::Dataset;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::decode::check_bound;
use super::endpoints::{create_table, grow_share, parse_ack, single_batch, single_receipt, wait_to_decode};
use super::group_commit::TableWriter;
use super::line_protocol::{LineError, LineRows, Precision, rows_of};
use super::queue::{Ack, Receipt};
use super::request_body::{ReceivedBody, is_small, receive};
use super::size_bound::SizeBound;
use super::state::{IngestSession, IngestState};
use crate::catalog::{Kind, Table};
use crate::http::{Problem, ResponseBody, Result, ResultExt, allow, empty, header};
use crate::session::{Session, Trace};

/// The maximum memory in bytes of rows whose lines the receiving thread parses itself.
const MAX_INLINE_BYTES: u64 = 4 << 20;

/// A version of InfluxDB's interface, which determines the names of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineApi {
    V1,
    V2,
}

/// `POST /write` and `POST /api/v2/write`
pub(crate) async fn line_protocol(
    ingest: IngestSession,
    parts: &Parts,
    body: Incoming,
    trace: &mut Trace,
    api: LineApi,
) -> Result<Response<ResponseBody>> {
    let IngestSession { session, state } = &ingest;
    trace.is_write = true;
    allow(parts, &[Method::POST])?;
    session.check_writer()?;
    // Clients send parameters of any version of InfluxDB, so unknown ones are ignored.
    let parameters = form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes());
    let precision = parameters.into_iter().find(|(name, _)| name == "precision").map(|(_, value)| value);
    let precision = parse_precision(precision.as_deref(), api)?;
    let ack = parse_ack(header(&parts.headers, "ack")?)?;
    let limits = &session.shared.limits;
    let ReceivedBody { bytes, share } = receive(&parts.headers, body, limits, &state.memory).await?;
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
            let permit = wait_to_decode(state).await?;
            let (max_bytes, _) = limits.rows;
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
    let build_batches = move |ingest: &IngestSession| {
        let _permit = permit;
        let mut share = share;
        let batches = batches_for_tables(ingest, measurements, &mut share)?;
        let mut bytes = 0u64;
        for (_, rows) in &batches {
            bytes = bytes.saturating_add(rows.nbytes().or_input_problem()?);
        }
        grow_share(&ingest.state, &mut share, bytes)?;
        Ok((share, batches))
    };
    let (share, batches) = ingest.run_blocking(build_batches).await?;

    let outcomes = append_to_all(state, batches, ack, share).await?;
    let appended = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().ok()).map(|receipt| receipt.rows).sum();
    trace.rows = Some(appended);
    match partial_write_problem(outcomes) {
        Some(problem) => Err(problem),
        None => Ok(empty(StatusCode::NO_CONTENT)),
    }
}

/// Appends rows to each table; to no table if one of them can't be opened for writing.
async fn append_to_all(
    state: &IngestState,
    batches: Vec<(Arc<Table>, Dataset)>,
    ack: Ack,
    share: OwnedSemaphorePermit,
) -> Result<Vec<(String, Result<Receipt>)>> {
    let share = Arc::new(share);
    let writers: Vec<_> = batches.iter().map(|(table, _)| state.writers.writer(table)).collect();
    let slots = writers.iter().map(TableWriter::reserve_slot).collect::<Result<Vec<_>>>()?;
    assert!(slots.len() == batches.len(), "{} slots for {} tables", slots.len(), batches.len());
    let mut submitted = Vec::with_capacity(batches.len());
    for (((table, rows), writer), slot) in batches.into_iter().zip(writers).zip(slots) {
        let answers = match single_batch(rows, ack, None, share.clone()) {
            Ok((request, answers)) => writer.append_in(Some(slot), request).map(|()| answers),
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
    ingest: &IngestSession,
    measurements: BTreeMap<String, LineRows>,
    share: &mut OwnedSemaphorePermit,
) -> Result<Vec<(Arc<Table>, Dataset)>> {
    let IngestSession { session, state } = ingest;
    let catalog = &session.shared.catalog;
    let mut batches = Vec::with_capacity(measurements.len());
    let mut new = Vec::new();
    let mut bound = SizeBound::default();
    for (name, rows) in measurements {
        match catalog.get(&name) {
            Ok(table) => batches.push(batch_for_table(ingest, table, rows, (&mut bound, &mut *share))?),
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => new.push((name, rows)),
            Err(problem) => return Err(problem),
        }
    }
    let mut total = bound;
    for (_, rows) in &new {
        total = total.and(SizeBound::for_rows(rows.len(), &rows.schema()));
    }
    check_bound(total, &session.shared.limits).or_input_problem()?;
    grow_share(state, share, total.bytes)?;
    // Tables are created last, so that none is created if there is another error.
    for (name, rows) in new {
        create_table(ingest, &name, rows.schema(), &state.writers.options())?;
        batches.push(batch_for_table(ingest, catalog.get(&name)?, rows, (&mut bound, &mut *share))?);
    }
    Ok(batches)
}

/// Builds the rows with the table's schema. Adds the bound of their size to the request's `bound`, and grows `share` to
/// it.
fn batch_for_table(
    ingest: &IngestSession,
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
    check_bound(*bound, &ingest.session.shared.limits).or_input_problem()?;
    grow_share(&ingest.state, share, bound.bytes)?;
    let batch = rows.batch(&schema).map_err(|e| Problem::bad_request(format!("{name}: {e}")))?;
    let rows = Dataset::try_from(vec![batch]).or_input_problem()?;
    Ok((table, rows))
}
