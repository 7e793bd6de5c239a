//! The route for SQL statements.

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::results;
use super::state::SqlSession;
use super::statement::{NO_ID, RunningQuery, Statement, require_engine};
use crate::http::{Problem, Query, ResponseBody, Result, allow, with_type};
use crate::read::RowFormat;

/// The parameters of a statement.
pub(crate) const PARAMETERS: &[&str] = &["query", "format"];

/// `GET /v1/sql`: runs a statement over the tables that the caller may read.
pub(crate) async fn statement(sql: SqlSession, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    let query = Query::parse(parts.uri.query(), PARAMETERS)?;
    let form = RowFormat::negotiate(&query, &parts.headers)?;
    let running = begin(&sql, &query).await?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { results::body(running, form, sql.session)? };
    Ok(with_type(StatusCode::OK, form.media_type(), body))
}

/// Returns the text of the requested statement.
pub(crate) fn statement_text(query: &Query) -> Result<String> {
    let text = query.get("query")?.ok_or_else(|| Problem::bad_request("query: a statement is expected"))?;
    Ok(text.to_owned())
}

/// Runs a statement over all tables.
async fn begin(sql: &SqlSession, query: &Query) -> Result<RunningQuery> {
    let engine = require_engine(&sql.state)?;
    let statement = Statement { text: statement_text(query)?, parameters: None, max_rows: None, self_table: None };
    RunningQuery::begin(sql, engine.as_ref(), statement, NO_ID).await
}
