//! The page of `arrowwood view`, and how a browser gets its token: from the URL once, then as a cookie.
//!
//! The files come from `view/`, built into `serve/page/` and compiled in: nothing is fetched from anywhere.

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use crate::access::Access;
use crate::outgoing::Outgoing;
use crate::query::Query;
use crate::refusal::{Refusal, Result};
use crate::response::{allow, empty, with_type};

/// What the page may load: its own files, and pictures it draws itself.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, media type and bytes of each file.
const FILES: &[(&str, &str, &[u8])] = &[
    ("", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    ("view.js", "text/javascript; charset=utf-8", include_bytes!("../page/view.js")),
    ("view.css", "text/css; charset=utf-8", include_bytes!("../page/view.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("../page/icon.svg")),
];

/// The answer, if a file of the page is asked for.
///
/// # Errors
/// 401 for a token that is not that of the server.
pub(crate) fn answer(access: &Access, parts: &Parts, names: &[&str]) -> Result<Option<Response<Outgoing>>> {
    let [name] = names else { return Ok(None) };
    let Some((path, media_type, bytes)) = FILES.iter().find(|(path, ..)| path == name) else { return Ok(None) };
    allow(parts, &[Method::GET])?;
    if path.is_empty() {
        let query = Query::parse(parts.uri.query(), &["token"])?;
        if let Some(token) = query.get("token")? {
            return enter(access, token).map(Some);
        }
    }
    let mut response = with_type(StatusCode::OK, media_type, Outgoing::of(*bytes));
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(Some(response))
}

/// Hands the token over as a cookie, and takes it out of the URL, which is kept by the browser's history.
fn enter(access: &Access, token: &str) -> Result<Response<Outgoing>> {
    let unknown = || {
        let detail = "this token is not that of the server; open the URL that `arrowwood view` printed last";
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    };
    let cookie = access.cookie_of(token).ok_or_else(unknown)?;
    let cookie = HeaderValue::try_from(cookie).map_err(|_| unknown())?;
    let mut response = empty(StatusCode::SEE_OTHER);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}
