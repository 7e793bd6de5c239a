//! SQL over the shown data, if the program that serves has an engine: the first rows of the result.

use std::sync::Arc;

use arrowwood::{Dataset, Error};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use crate::cells::table;
use crate::engine::SqlEngine;
use crate::export::{ExportFormat, saved};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response::json_response;
use crate::response_body::ResponseBody;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::statement::{RunningQuery, Statement, engine_of};
use crate::table::Table;

pub(crate) const PARAMETERS: &[&str] = &["query", "format"];

/// The maximum number of rows of a shown result, and of a saved one.
const MOST: u64 = 1_000;
const SAVED: u64 = 2_000_000;

fn text(query: &Query) -> Result<String> {
    let text = query.get("query")?.ok_or_else(|| Problem::bad_request("query: a statement is expected"))?;
    Ok(text.to_owned())
}

/// The rows of a statement over all tables.
pub(crate) async fn statement(session: &Session, query: &Query) -> Result<RunningQuery> {
    let engine = engine_of(session)?;
    let statement = Statement { text: text(query)?, parameters: None, most: None, own: None };
    RunningQuery::begin(session, engine.as_ref(), statement, 0).await
}

/// The first rows of a query, or all of them as a file. Ends when the client disconnects.
pub(crate) async fn sql(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Response<ResponseBody>> {
    let text = text(query)?;
    let form = ExportFormat::from_query(query)?;
    let Some(engine) = session.shared.sql.clone() else {
        let detail = "SQL needs the Python package and DuckDB: pip install 'arrowwood[sql]', and its command `arrowwood view`; or \
             the program `arrowwood-datafusion`";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "no_engine", detail));
    };
    let most = if form.is_some() { SAVED } else { MOST };
    let found = first_rows(session, engine, (text, snapshot.table.clone()), most + 1).await?;
    // The engine opens the path by itself.
    session.run_blocking(move |_| snapshot.check_current()).await?;
    let of_table = |e: Error| Problem::from_table_error(&e);
    let len = found.len().map_err(of_table)?;
    if let Some(form) = form {
        if len > SAVED {
            let detail = format!(
                "the answer has more than {SAVED} rows, the most that the page saves; `arrowwood sql` prints any number"
            );
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_rows", detail));
        }
        return saved(session, found, form).await;
    }
    let tell = move |_: &Session| {
        let mut told = table(&found.head(MOST).map_err(of_table)?, 0).map_err(of_table)?;
        told["whole"] = json!(len <= MOST);
        Ok(told)
    };
    let told: Json = session.run_blocking(tell).await?;
    Ok(json_response(StatusCode::OK, &told))
}

/// The first rows of a statement, up to the given number.
async fn first_rows(
    session: &Session,
    engine: Arc<dyn SqlEngine>,
    (text, of): (String, Arc<Table>),
    most: u64,
) -> Result<Dataset> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let statement = Statement { text, parameters: None, most: Some(most), own: Some(of) };
    let mut running = RunningQuery::begin(session, engine.as_ref(), statement, 0).await?;
    let mut found = Vec::new();
    let mut len = 0;
    while len < most
        && let Some(rows) = running.next().await?
    {
        len += rows.len().map_err(of_table)?;
        found.push(rows);
    }
    if found.is_empty() {
        return Dataset::from_batches(running.schema(), Vec::new()).map_err(of_table);
    }
    session.run_blocking(move |_| Dataset::concat(&found).and_then(|found| found.head(most)).map_err(of_table)).await
}
