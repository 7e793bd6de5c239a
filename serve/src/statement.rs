//! SQL statements of a session: over the tables that it may read, within the memory and the time of a query.

use arrowwood::mapping::MutexExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::Dataset;
use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::blocking_engine::SELF;
use crate::budget::too_long;
use crate::engine::{SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables};
use crate::problem::{Problem, Result};
use crate::request_body::{Memory, UNIT};
use crate::running_statements::{StatementGuard, StatementSlot};
use crate::session::Session;
use crate::table::Table;

/// A statement and the values of its parameters.
pub(crate) struct Statement {
    pub text: String,
    pub parameters: Option<RecordBatch>,
    /// The maximum number of rows.
    pub most: Option<u64>,
    /// The table named `self`.
    pub own: Option<Arc<Table>>,
}

impl Statement {
    fn query(self, session: &Session, place: &StatementSlot) -> SqlQuery {
        let memory = QueryMemory::new(&session.shared.queries, session.shared.limits.query_memory / 2);
        SqlQuery {
            text: self.text,
            parameters: self.parameters,
            tables: Arc::new(SessionTables { session: session.clone(), own: self.own }),
            memory: Arc::new(QueryMemory { _place: Some(place.held()), ..memory }),
            most: self.most,
        }
    }
}

/// The engine that answers statements.
///
/// # Errors
/// 501 if the program has none.
pub(crate) fn engine_of(session: &Session) -> Result<Arc<dyn SqlEngine>> {
    session.shared.sql.clone().filter(|engine| engine.has_plans()).ok_or_else(|| {
        let detail = "this server has no SQL: start it by `arrowwood-datafusion serve`, or put that program beside \
                      `arrowwood` (cargo install --path crates/datafusion)";
        Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail)
    })
}

/// A place among the running statements.
fn place(session: &Session, id: u64) -> Result<StatementSlot> {
    session.shared.statements.begin(session.caller.name(), id, session.shared.limits.statements)
}

/// The columns and the parameters of a statement.
pub(crate) async fn plan(session: &Session, engine: &dyn SqlEngine, statement: Statement) -> Result<SqlPlan> {
    let place = place(session, 0)?;
    let most = session.shared.limits.query_timeout;
    let planned = timeout(most, engine.plan(statement.query(session, &place))).await;
    planned.map_err(|_| too_long(most))?.map_err(refused)
}

/// An answer in progress. Its time is the engine's, not the client's.
pub(crate) struct RunningQuery {
    rows: Box<dyn SqlRows>,
    session: Session,
    left: Duration,
    place: StatementSlot,
}

impl RunningQuery {
    /// Runs a statement, which callers that know `id` can cancel.
    pub async fn begin(
        session: &Session,
        engine: &dyn SqlEngine,
        statement: Statement,
        id: u64,
    ) -> Result<RunningQuery> {
        let mut left = session.shared.limits.query_timeout;
        let mut place = place(session, id)?;
        let run = engine.run(statement.query(session, &place));
        let rows = within(session, &mut place, &mut left, run).await?;
        Ok(RunningQuery { rows, session: session.clone(), left, place })
    }

    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The next rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Dataset>> {
        within(&self.session, &mut self.place, &mut self.left, self.rows.next()).await
    }
}

/// Waits for the engine until it is done, out of time or cancelled, or the server stops.
async fn within<T>(
    session: &Session,
    place: &mut StatementSlot,
    left: &mut Duration,
    work: SqlFuture<'_, T>,
) -> Result<T> {
    let begun = Instant::now();
    let done = tokio::select! {
        done = timeout(*left, work) => done,
        () = place.cancelled() => {
            return Err(Problem::new(StatusCode::GONE, "cancelled", "the query was cancelled"));
        }
        () = session.wait_for_stop() => return Err(Problem::unavailable("the server is stopping")),
    };
    *left = left.saturating_sub(begun.elapsed());
    done.map_err(|_| too_long(session.shared.limits.query_timeout))?.map_err(refused)
}

/// The client's message for an engine's error.
pub(crate) fn refused(error: SqlError) -> Problem {
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

// ---- tables and memory of a statement ----

/// The tables that a session may read.
struct SessionTables {
    session: Session,
    /// The readable table named `self`.
    own: Option<Arc<Table>>,
}

impl SessionTables {
    /// The table named `name`, if it may be read.
    fn table(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let Session { shared, caller, .. } = &self.session;
        if let Some(own) = self.own.as_ref().filter(|_| name == SELF) {
            return Ok(Some(own.clone()));
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
    refusal.error().map_or_else(|| SqlError::Engine(refusal.to_string()), |error| SqlError::Table(error.clone()))
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
    all: Memory,
    most: usize,
    taken: Mutex<Reservation>,
    /// The query counts as running as long as the engine holds its memory.
    _place: Option<Arc<StatementGuard>>,
}

#[derive(Default)]
struct Reservation {
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

impl QueryMemory {
    fn new(all: &Memory, most: usize) -> QueryMemory {
        QueryMemory { all: all.clone(), most, taken: Mutex::default(), _place: None }
    }
}

impl SqlMemory for QueryMemory {
    fn max_bytes(&self) -> usize {
        self.most
    }

    fn free(&self) -> usize {
        self.all.free()
    }

    fn take(&self, bytes: usize) -> bool {
        let mut taken = self.taken.lock_ignoring_poison();
        let Some(all) = taken.bytes.checked_add(bytes).filter(|all| *all <= self.most) else { return false };
        let has = taken.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * UNIT;
        if all > has {
            let Some(more) = self.all.try_share(all - has) else { return false };
            match &mut taken.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
        taken.bytes = all;
        true
    }

    fn release(&self, bytes: usize) {
        let mut taken = self.taken.lock_ignoring_poison();
        taken.bytes = taken.bytes.saturating_sub(bytes);
        let needed = taken.bytes.div_ceil(UNIT);
        if let Some(permit) = &mut taken.permit {
            drop(permit.split(permit.num_permits().saturating_sub(needed)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_its_part_of_the_memory_and_gives_it_back() {
        let all = Memory::new(16 * UNIT);
        let query = QueryMemory::new(&all, 8 * UNIT);
        assert!(query.take(UNIT / 2) && query.take(UNIT / 2) && query.take(7 * UNIT));
        assert!(!query.take(1), "it has its most");
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
