//! Runs SQL statements of a session over the tables that it may read, within the memory and the time of a query.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::Dataset;
use arrowwood::mapping::MutexExt;
use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::blocking_engine::SELF;
use super::engine::{SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables};
use super::running_statements::{StatementGuard, StatementSlot};
use super::state::{SqlSession, SqlState};
use crate::catalog::Table;
use crate::http::{Problem, Result};
use crate::ops::{Memory, UNIT, share_bytes, too_long};
use crate::session::Session;

/// The number of queries that may each take their maximum of memory at once.
const QUERIES_IN_MEMORY: usize = 2;
/// The id of a statement that clients can't cancel.
pub(crate) const NO_ID: u64 = 0;

/// A statement and the values of its parameters.
pub(crate) struct Statement {
    pub text: String,
    pub parameters: Option<RecordBatch>,
    /// The maximum number of rows.
    pub max_rows: Option<u64>,
    /// The table named `self`.
    pub self_table: Option<Arc<Table>>,
}

impl Statement {
    fn into_query(self, session: &Session, slot: &StatementSlot) -> SqlQuery {
        let memory = QueryMemory::new(&session.shared.queries, session.shared.limits.query_memory / QUERIES_IN_MEMORY);
        SqlQuery {
            text: self.text,
            parameters: self.parameters,
            tables: Arc::new(SessionTables { session: session.clone(), self_table: self.self_table }),
            memory: Arc::new(QueryMemory { _guard: Some(slot.guard()), ..memory }),
            most: self.max_rows,
        }
    }
}

/// Returns the engine that answers statements.
///
/// # Errors
/// 501 if the program has none.
pub(crate) fn require_engine(state: &SqlState) -> Result<Arc<dyn SqlEngine>> {
    state.engine.clone().filter(|engine| engine.has_plans()).ok_or_else(|| {
        let detail = "this server has no SQL: start it by `arrowwood-datafusion serve` (cargo install --path \
                      crates/query)";
        Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail)
    })
}

/// Takes a slot among the running statements.
fn take_slot(sql: &SqlSession, id: u64) -> Result<StatementSlot> {
    let SqlSession { session, state } = sql;
    state.running.begin(session.caller.name(), id, session.shared.limits.statements)
}

/// Returns the columns and the parameters of a statement.
pub(crate) async fn plan(sql: &SqlSession, engine: &dyn SqlEngine, statement: Statement) -> Result<SqlPlan> {
    let session = &sql.session;
    let slot = take_slot(sql, NO_ID)?;
    let time_limit = session.shared.limits.query_timeout;
    let planned = timeout(time_limit, engine.plan(statement.into_query(session, &slot))).await;
    planned.map_err(|_| too_long(time_limit))?.map_err(sql_problem)
}

/// A running query. Only the engine's time counts, not the client's.
pub(crate) struct RunningQuery {
    rows: Box<dyn SqlRows>,
    session: Session,
    remaining: Duration,
    slot: StatementSlot,
}

impl RunningQuery {
    /// Runs a statement, which callers that know `id` can cancel.
    pub async fn begin(
        sql: &SqlSession,
        engine: &dyn SqlEngine,
        statement: Statement,
        id: u64,
    ) -> Result<RunningQuery> {
        let session = &sql.session;
        let mut remaining = session.shared.limits.query_timeout;
        let mut slot = take_slot(sql, id)?;
        let run = engine.run(statement.into_query(session, &slot));
        let rows = within_limits(session, &mut slot, &mut remaining, run).await?;
        Ok(RunningQuery { rows, session: session.clone(), remaining, slot })
    }

    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Returns the next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Dataset>> {
        within_limits(&self.session, &mut self.slot, &mut self.remaining, self.rows.next()).await
    }
}

/// Waits for the engine until it is done, out of time or cancelled, or the server stops.
async fn within_limits<T>(
    session: &Session,
    slot: &mut StatementSlot,
    remaining: &mut Duration,
    work: SqlFuture<'_, T>,
) -> Result<T> {
    let start = Instant::now();
    let done = tokio::select! {
        done = timeout(*remaining, work) => done,
        () = slot.cancelled() => {
            return Err(Problem::new(StatusCode::GONE, "cancelled", "the query was cancelled"));
        }
        () = session.wait_for_stop() => return Err(Problem::unavailable("the server is stopping")),
    };
    // The last step may have taken a little longer than the remaining time.
    *remaining = remaining.saturating_sub(start.elapsed());
    done.map_err(|_| too_long(session.shared.limits.query_timeout))?.map_err(sql_problem)
}

/// Converts an engine's error to the client's message.
pub(crate) fn sql_problem(error: SqlError) -> Problem {
    match error {
        SqlError::Statement(message) => Problem::new(StatusCode::BAD_REQUEST, "sql", message),
        SqlError::Memory(message) => {
            let detail = format!("the query takes more memory than it may (--query-memory): {message}");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query_memory", detail)
        }
        SqlError::Unsupported(message) => Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message),
        SqlError::Table(error) => Problem::from_table_error(&error),
        SqlError::Engine(message) => {
            let error = arrowwood::Error::new(arrowwood::ErrorKind::Internal, message);
            Problem::internal("the query failed; the server's log says more").with_error(&error)
        }
    }
}

/// The tables that a session may read.
struct SessionTables {
    session: Session,
    /// The readable table named `self`.
    self_table: Option<Arc<Table>>,
}

impl SessionTables {
    /// Returns the table named `name`, if the caller may read it.
    fn table(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let Session { shared, caller, .. } = &self.session;
        if name == SELF
            && let Some(table) = &self.self_table
        {
            return Ok(Some(table.clone()));
        }
        if !caller.rights().may_read(name) {
            return Ok(None);
        }
        match shared.catalog.get(name) {
            Ok(table) => Ok(Some(table)),
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }
}

fn table_error(refusal: &Problem) -> SqlError {
    match refusal.error() {
        Some(error) => SqlError::Table(error.clone()),
        None => SqlError::Engine(refusal.to_string()),
    }
}

impl SqlTables for SessionTables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        let Session { shared, caller, .. } = &self.session;
        let entries = shared.catalog.list().map_err(|refusal| table_error(&refusal))?;
        Ok(entries.into_iter().map(|entry| entry.name).filter(|name| caller.rights().may_read(name)).collect())
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        let table = self.table(name).map_err(|refusal| table_error(&refusal))?;
        Ok(table.map(|table| table.rows()).transpose()?)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.table(name).ok()??.path.clone())
    }
}

/// The memory of one query, a part of the memory of all queries.
struct QueryMemory {
    all_queries: Memory,
    max_bytes: usize,
    reservation: Mutex<Reservation>,
    /// Counts the query as running as long as the engine holds its memory.
    _guard: Option<Arc<StatementGuard>>,
}

/// The memory that a query has taken.
#[derive(Default)]
struct Reservation {
    bytes: usize,
    /// Covers `bytes`, rounded up to units.
    permit: Option<OwnedSemaphorePermit>,
}

impl QueryMemory {
    fn new(all_queries: &Memory, max_bytes: usize) -> QueryMemory {
        QueryMemory { all_queries: all_queries.clone(), max_bytes, reservation: Mutex::default(), _guard: None }
    }
}

impl SqlMemory for QueryMemory {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn free(&self) -> usize {
        self.all_queries.free()
    }

    fn take(&self, bytes: usize) -> bool {
        let mut reservation = self.reservation.lock_ignoring_poison();
        let total = match reservation.bytes.checked_add(bytes) {
            Some(total) if total <= self.max_bytes => total,
            _ => return false,
        };
        let covered = reservation.permit.as_ref().map_or(0, share_bytes);
        if total > covered {
            let Some(more) = self.all_queries.try_share(total - covered) else { return false };
            match &mut reservation.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        reservation.bytes = total;
        true
    }

    fn release(&self, bytes: usize) {
        let mut reservation = self.reservation.lock_ignoring_poison();
        // An engine outside this crate may release more than it took, which would take memory away from other queries.
        reservation.bytes = reservation.bytes.saturating_sub(bytes);
        let needed = reservation.bytes.div_ceil(UNIT);
        if let Some(permit) = &mut reservation.permit {
            assert!(needed <= permit.num_permits(), "{needed} units are covered by {}", permit.num_permits());
            drop(permit.split(permit.num_permits() - needed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_reserves_and_releases_memory() {
        let all = Memory::new(16 * UNIT);
        let query = QueryMemory::new(&all, 8 * UNIT);
        assert!(query.take(UNIT / 2) && query.take(UNIT / 2) && query.take(7 * UNIT));
        assert!(!query.take(1), "it has its maximum");
        let other = all.try_share(8 * UNIT).unwrap();
        assert!(all.try_share(1).is_none());
        query.release(3 * UNIT + 1);
        assert!(all.try_share(3 * UNIT).is_some() && all.try_share(4 * UNIT).is_none());
        let more = all.try_share(3 * UNIT).unwrap();
        assert!(!query.take(2), "others have it");
        drop((other, more, query));
        assert!(all.try_share(16 * UNIT).is_some());
    }
}
