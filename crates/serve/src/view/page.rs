//! Serves the page of `arrowwood view`. A browser gets its token from the URL once, and then as a cookie.
//!
//! The files come from `web/`, built into `crates/serve/page/` and compiled in, so that nothing is fetched from elsewhere.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use super::cells;
use super::state::ViewState;
use crate::auth::Access;
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, ResponseBody, Result, ResultExt, allow, empty, with_type};
use crate::session::{Peer, ServerState, Session};

/// Permits the page to load its own files only.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct PageFile {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const fn file(path: &'static str, media_type: &'static str, bytes: &'static [u8]) -> PageFile {
    PageFile { path, media_type, bytes }
}

/// The files; the page itself has no path.
const FILES: &[PageFile] = &[
    file("", "text/html; charset=utf-8", include_bytes!("../../page/index.html")),
    file("view.js", "text/javascript; charset=utf-8", include_bytes!("../../page/view.js")),
    file("view.css", "text/css; charset=utf-8", include_bytes!("../../page/view.css")),
    file("icon.svg", "image/svg+xml", include_bytes!("../../page/icon.svg")),
];

/// The place of the first rows in the page.
const FIRST_ROWS_MARK: &str = "<!--first-->";
/// The number of rows sent together with the page. Each request takes a browser some ten milliseconds, and the first
/// rows would otherwise take four in sequence.
const FIRST_ROWS: u64 = 64;
/// The maximum number of columns sent together with the page.
const MAX_COLUMNS: usize = 16;
/// The maximum number of characters of a cell.
const CELL_WIDTH: usize = 120;
/// The maximum time to read the first rows, which may have to be decompressed. After it the page is sent without them,
/// and requests them itself.
const FIRST_ROWS_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers a request for a file of the page. Returns `None` for other paths.
///
/// # Errors
/// 401 for a token that the server did not make.
pub(crate) async fn answer(
    shared: &Arc<ServerState>,
    state: &Arc<ViewState>,
    peer: &Peer,
    parts: &Parts,
    names: &[&str],
) -> Result<Option<Response<ResponseBody>>> {
    let [name] = names else { return Ok(None) };
    let Some(PageFile { path, media_type, bytes }) = FILES.iter().find(|file| file.path == *name) else {
        return Ok(None);
    };
    allow(parts, &[Method::GET])?;
    if path.is_empty() {
        let query = Query::parse(parts.uri.query(), &["token"])?;
        if let Some(token) = query.get("token")? {
            return set_cookie(&shared.access, token).map(Some);
        }
    }
    let first_rows = if path.is_empty() { first_rows(shared, state, peer, parts).await } else { None };
    let body = match first_rows {
        Some(rows) => ResponseBody::new(insert_first_rows(bytes, &rows)),
        None => ResponseBody::new(*bytes),
    };
    let mut response = with_type(StatusCode::OK, media_type, body);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(Some(response))
}

/// Reads what the page requests first, so that it arrives together with the page. Returns `None` without a valid token,
/// and after an error, which the page gets when it requests the rows itself.
async fn first_rows(shared: &Arc<ServerState>, state: &Arc<ViewState>, peer: &Peer, parts: &Parts) -> Option<Json> {
    let caller = Arc::new(shared.access.caller(&parts.method, &parts.headers).ok()?);
    let session = Session { shared: shared.clone(), caller, peer: peer.clone() };
    let state = state.clone();
    let first_rows = session.run_blocking(move |session| read_first_rows(session, &state));
    timeout(FIRST_ROWS_TIMEOUT, first_rows).await.ok()?.ok()
}

/// Reads the facts and the first rows of the first table. Blocks.
fn read_first_rows(session: &Session, state: &ViewState) -> Result<Json> {
    let tables = session.shared.catalog.list()?;
    let Some(first) = tables.first() else { return Err(Problem::not_found("there is no table")) };
    session.check_read(&first.name)?;
    let snapshot = Snapshot::load(session.shared.catalog.get(&first.name)?)?;
    let facts = session.facts(&snapshot)?;
    let first_row = snapshot.rows.first_row();
    let rows = snapshot.rows.len().or_table_problem()?.min(FIRST_ROWS);
    let columns = snapshot.rows.num_columns().min(MAX_COLUMNS);
    let at = (0..columns).map(|column| column.to_string()).collect::<Vec<_>>().join(",");
    let parameters = format!("to={}&at={at}&width={CELL_WIDTH}", first_row + rows);
    let query = Query::parse(Some(&parameters), cells::PARAMETERS)?;
    let cells = cells::cells(&state.views, &snapshot, &query)?;
    Ok(json!({"facts": facts, "cells": cells}))
}

/// Inserts the first rows into the page. `<` is escaped, so that no value can end the element.
fn insert_first_rows(page: &[u8], first_rows: &Json) -> Vec<u8> {
    let data = first_rows.to_string().replace('<', "\\u003c");
    let element = format!(r#"<script type="application/json" id="first">{data}</script>"#);
    String::from_utf8_lossy(page).replacen(FIRST_ROWS_MARK, &element, 1).into_bytes()
}

/// Sends the token back as a cookie, and redirects to the URL without it, as browsers keep URLs in their history.
fn set_cookie(access: &Access, token: &str) -> Result<Response<ResponseBody>> {
    let Some(cookie) = access.cookie_of(token).and_then(|cookie| HeaderValue::try_from(cookie).ok()) else {
        let detail = "this token is not that of the server; open the URL that `arrowwood view` printed last";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    };
    let mut response = empty(StatusCode::SEE_OTHER);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
