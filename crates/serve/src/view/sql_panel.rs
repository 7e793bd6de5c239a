//! Runs SQL statements for the page, if the program that serves has an engine.

use std::sync::Arc;

use arrowwood::Dataset;
use hyper::{Response, StatusCode};

use super::cells::table;
use super::export::{ExportFormat, saved};
use super::state::ViewSession;
use crate::catalog::{Snapshot, Table};
use crate::http::{Problem, Query, ResponseBody, Result, ResultExt, json_response};
use crate::sql::{NO_ID, RunningQuery, SqlEngine, SqlSession, Statement, statement_text};

/// The maximum number of rows of a result on the page.
const MAX_SHOWN_ROWS: u64 = 1_000;
/// The maximum number of rows of a result in a file.
const MAX_SAVED_ROWS: u64 = 2_000_000;

/// Returns the first rows of a query's result, or all of them as a file. Stops when the client disconnects.
pub(crate) async fn sql(page: &ViewSession, snapshot: Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let ViewSession { session, state } = page;
    let text = statement_text(query)?;
    let form = ExportFormat::from_query(query)?;
    let Some(engine) = state.sql.engine.clone() else {
        let detail = "SQL needs the Python package and DuckDB: pip install 'arrowwood[sql]', and its command \
                      `arrowwood view`; or `arrowwood-datafusion view`";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail));
    };
    let max_rows = if form.is_some() { MAX_SAVED_ROWS } else { MAX_SHOWN_ROWS };
    // A row more shows that the result is larger.
    let rows = first_rows(&page.sql(), engine, (text, snapshot.table.clone()), max_rows + 1).await?;
    // The engine opens the path by itself, where another file may be.
    session.run_blocking(move |_| snapshot.check_current()).await?;
    let len = rows.len().or_table_problem()?;
    if let Some(form) = form {
        if len > MAX_SAVED_ROWS {
            let detail = format!(
                "the answer has more than {MAX_SAVED_ROWS} rows, the most that the page saves; `arrowwood sql` prints \
                 any number"
            );
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail));
        }
        return saved(page, rows, form).await;
    }
    let json = session
        .run_blocking(move |_| {
            let mut json = table(&rows.head(MAX_SHOWN_ROWS).or_table_problem()?, 0).or_table_problem()?;
            json["whole"] = (len <= MAX_SHOWN_ROWS).into();
            Ok(json)
        })
        .await?;
    Ok(json_response(StatusCode::OK, &json))
}

/// Returns the first rows of a statement on one table, at most `max_rows`.
async fn first_rows(
    sql: &SqlSession,
    engine: Arc<dyn SqlEngine>,
    (text, table): (String, Arc<Table>),
    max_rows: u64,
) -> Result<Dataset> {
    let statement = Statement { text, parameters: None, max_rows: Some(max_rows), self_table: Some(table) };
    let mut running = RunningQuery::begin(sql, engine.as_ref(), statement, NO_ID).await?;
    let mut parts = Vec::new();
    let mut len = 0;
    while len < max_rows
        && let Some(rows) = running.next().await?
    {
        len += rows.len().or_table_problem()?;
        parts.push(rows);
    }
    if parts.is_empty() {
        return Dataset::from_batches(running.schema(), Vec::new()).or_table_problem();
    }
    sql.session
        .run_blocking(move |_| Dataset::concat(&parts).and_then(|rows| rows.head(max_rows)).or_table_problem())
        .await
}
