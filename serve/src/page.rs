//! The page of `arrowwood view`, and how a browser gets its token: from the URL once, then as a cookie.
//!
//! The files come from `view/`, built into `serve/page/` and compiled in: nothing is fetched from anywhere.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::access::Access;
use crate::cells;
use crate::describe::facts;
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response::{allow, empty, with_type};
use crate::response_body::ResponseBody;
use crate::session::{Peer, ServerState, Session};
use crate::snapshot::Snapshot;

/// What the page may load: its own files, and pictures it draws itself.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, media type and bytes of each file.
const FILES: &[(&str, &str, &[u8])] = &[
    ("", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    ("view.js", "text/javascript; charset=utf-8", include_bytes!("../page/view.js")),
    ("view.css", "text/css; charset=utf-8", include_bytes!("../page/view.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("../page/icon.svg")),
];

/// Where the page has its first rows, and how many rows and columns these are.
const FIRST: &str = "<!--first-->";
const ROWS: u64 = 64;
const COLUMNS: usize = 16;
/// Characters of a cell.
const WIDTH: usize = 120;
/// How long the page waits for its first rows, which may have to be decompressed; then it goes without, and asks for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The answer, if a file of the page is asked for.
///
/// # Errors
/// 401 for a token that is not that of the server.
pub(crate) async fn answer(
    shared: &Arc<ServerState>,
    peer: &Peer,
    parts: &Parts,
    names: &[&str],
) -> Result<Option<Response<ResponseBody>>> {
    let [name] = names else { return Ok(None) };
    let Some((path, media_type, bytes)) = FILES.iter().find(|(path, ..)| path == name) else { return Ok(None) };
    allow(parts, &[Method::GET])?;
    if path.is_empty() {
        let query = Query::parse(parts.uri.query(), &["token"])?;
        if let Some(token) = query.get("token")? {
            return enter(&shared.access, token).map(Some);
        }
    }
    let first = if path.is_empty() { first(shared, peer, parts).await } else { None };
    let body = first.map_or_else(|| ResponseBody::new(*bytes), |first| ResponseBody::new(with_first(bytes, &first)));
    let mut response = with_type(StatusCode::OK, media_type, body);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(Some(response))
}

/// What the page asks for first, for whoever has the token: so it is there together with the page. What is wrong with the
/// rows is told when the page asks for them.
async fn first(shared: &Arc<ServerState>, peer: &Peer, parts: &Parts) -> Option<Json> {
    let caller = Arc::new(shared.access.caller(&parts.method, &parts.headers).ok()?);
    let session = Session { shared: shared.clone(), caller, peer: peer.clone() };
    let look = |session: &Session| {
        let listed = session.shared.catalog.list()?;
        let name = &listed.first().ok_or_else(|| Problem::not_found("there is no table"))?.name;
        session.check_read(name)?;
        let table = session.shared.catalog.get(name)?;
        let snapshot = Snapshot::load(table)?;
        let facts = facts(session, &snapshot)?;
        let number = |name: &str| facts[name].as_u64().unwrap_or_default();
        let to = number("first_row").saturating_add(ROWS).min(number("end"));
        let count = facts["columns"].as_array().map_or(0, Vec::len);
        let at = (0..count.min(COLUMNS)).map(|column| column.to_string()).collect::<Vec<_>>().join(",");
        let query = Query::parse(Some(&format!("to={to}&at={at}&width={WIDTH}")), cells::PARAMETERS)?;
        let cells = cells::cells(session, &snapshot, &query)?;
        Ok(json!({"facts": facts, "cells": cells}))
    };
    timeout(PATIENCE, session.run_blocking(look)).await.ok()?.ok()
}

/// The page with its first rows, as data that nothing in it can end.
fn with_first(page: &[u8], first: &Json) -> Vec<u8> {
    let data = first.to_string().replace('<', "\\u003c");
    let element = format!(r#"<script type="application/json" id="first">{data}</script>"#);
    String::from_utf8_lossy(page).replacen(FIRST, &element, 1).into_bytes()
}

/// Hands the token over as a cookie, and takes it out of the URL, which is kept by the browser's history.
fn enter(access: &Access, token: &str) -> Result<Response<ResponseBody>> {
    let unknown = || {
        let detail = "this token is not that of the server; open the URL that `arrowwood view` printed last";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    };
    let cookie = access.cookie_of(token).ok_or_else(unknown)?;
    let cookie = HeaderValue::try_from(cookie).map_err(|_| unknown())?;
    let mut response = empty(StatusCode::SEE_OTHER);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
