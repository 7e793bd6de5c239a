//! Authenticates callers, and checks that a request is meant for this server.

use std::net::IpAddr;
use std::sync::Arc;

use arrowwood::mapping::os;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};

use super::rights::Rights;
use super::token::{TokenEntry, Tokens};
use crate::http::{Problem, Result};

/// The name of the cookie in which the server's own page keeps the token.
const COOKIE: &str = "arrowwood";

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// `None` if the server has no tokens, and each caller has all rights.
    entry: Option<Arc<TokenEntry>>,
    all_rights: Arc<Rights>,
}

impl Caller {
    /// Returns the name of the token.
    pub fn name(&self) -> Option<&str> {
        self.entry.as_ref().map(|entry| entry.name.as_str())
    }

    pub fn rights(&self) -> &Rights {
        self.entry.as_ref().map_or(&self.all_rights, |entry| &entry.rights)
    }
}

/// The rules by which requests are accepted.
#[derive(Debug)]
pub(crate) struct Access {
    tokens: Option<Tokens>,
    read_only: bool,
    /// The name of the page's cookie. It contains the port, as browsers send a host's cookies to all of its ports.
    cookie: String,
    /// The accepted host names of requests, in lower case.
    hosts: Vec<String>,
    all_rights: Arc<Rights>,
}

impl Access {
    pub fn new(tokens: Option<Tokens>, read_only: bool, hosts: Vec<String>, port: u16) -> Access {
        let mut hosts: Vec<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        hosts.push("localhost".into());
        hosts.extend(os::host_name().map(|name| name.to_ascii_lowercase()));
        hosts.retain(|host| !host.is_empty());
        Access { tokens, read_only, cookie: format!("{COOKIE}-{port}"), hosts, all_rights: Arc::new(Rights::all()) }
    }

    /// Refuses requests addressed to other hosts, or from pages of other origins.
    pub fn check_target<B>(&self, request: &Request<B>) -> Result<()> {
        let host = requested_host(request).ok_or_else(|| Problem::bad_request("a request names its host"))?;
        if !self.is_accepted_host(host_name(host)) {
            let detail = "the request names a host that this server is not; start it with --host if it is";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail));
        }
        let headers = request.headers();
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if origin.is_none_or(|(_, origin_host)| !origin_host.eq_ignore_ascii_case(host)) {
                return Err(Problem::forbidden("requests from pages of another origin are refused"));
            }
        }
        match headers.get(HeaderName::from_static("sec-fetch-site")).map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) if request.uri().path() == "/" && request.method() == Method::GET => Ok(()),
            Some(_) => Err(Problem::forbidden("requests from pages of another site are refused")),
        }
    }

    /// Returns true for addresses, and for the names that this server has.
    fn is_accepted_host(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address || name.ends_with(".localhost") || self.hosts.iter().any(|host| matches_host(host, &name))
    }

    /// Authenticates the caller.
    ///
    /// # Errors
    /// 401 without a valid token, if there are tokens.
    pub fn caller(&self, method: &Method, headers: &HeaderMap) -> Result<Caller> {
        let all_rights = self.all_rights.clone();
        let Some(tokens) = &self.tokens else { return Ok(Caller { entry: None, all_rights }) };
        match find_token(method, headers, &self.cookie).and_then(|token| tokens.find(&token)) {
            Some(entry) => Ok(Caller { entry: Some(entry), all_rights }),
            None => {
                let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "a valid token is needed");
                Err(problem.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
        }
    }

    /// Reads the tokens again. Blocks.
    pub fn reload(&self) {
        if let Some(tokens) = &self.tokens {
            tokens.reload();
        }
    }

    /// Returns true if no token is valid, because their file can't be read.
    pub fn lacks_tokens(&self) -> bool {
        self.tokens.as_ref().is_some_and(Tokens::has_problem)
    }

    /// Returns the value of a `Set-Cookie` header for `token`, if it is valid.
    pub fn cookie_of(&self, token: &str) -> Option<String> {
        self.tokens.as_ref()?.find(token)?;
        Some(format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", self.cookie))
    }

    /// Returns true if the caller's token has neither been revoked nor changed since the request began.
    pub fn is_valid(&self, caller: &Caller) -> bool {
        match (&self.tokens, &caller.entry) {
            (Some(tokens), Some(entry)) => tokens.is_valid(entry),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// Refuses reading of table `name` without the right to it. The refusal doesn't reveal if the table exists.
    pub fn check_read(&self, caller: &Caller, name: &str) -> Result<()> {
        if caller.rights().may_read(name) {
            Ok(())
        } else {
            Err(Problem::forbidden("the token has no right to read this table"))
        }
    }

    /// Refuses the facts about table `name` without a right to it; the right to write includes them. The refusal
    /// doesn't reveal if the table exists.
    pub fn check_facts(&self, caller: &Caller, name: &str) -> Result<()> {
        if self.may_write(caller, name) { Ok(()) } else { self.check_read(caller, name) }
    }

    /// Refuses writing of table `name` without the right to it. The refusal doesn't reveal if the table exists.
    pub fn check_write(&self, caller: &Caller, name: &str) -> Result<()> {
        if !caller.rights().may_write(name) {
            return Err(Problem::forbidden("the token has no right to write this table"));
        }
        if self.read_only {
            return Err(Problem::forbidden("the server is read-only"));
        }
        Ok(())
    }

    /// Refuses a caller that may not write any table, before the body is read that names the table.
    pub fn check_writer(&self, caller: &Caller) -> Result<()> {
        if caller.rights().writes_nothing() || self.read_only {
            return Err(Problem::forbidden("the token has no right to write a table, or the server is read-only"));
        }
        Ok(())
    }

    /// Returns true if the caller may append to table `name`.
    pub fn may_write(&self, caller: &Caller, name: &str) -> bool {
        self.check_write(caller, name).is_ok()
    }
}

/// Returns true if `pattern`, a host name that may begin with `*.` for any one label, matches `name`.
fn matches_host(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => name.strip_suffix(suffix).is_some_and(|label| !label.is_empty() && !label.contains('.')),
        None => pattern == name,
    }
}

/// Returns the host and port that the request is addressed to.
fn requested_host<B>(request: &Request<B>) -> Option<&str> {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    // A header with other bytes than visible ASCII is the name of no host, like an empty one.
    let header = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or(""));
    // A header that differs from an absolute URI could be an attack.
    match (authority, header) {
        (Some(authority), Some(header)) if !authority.eq_ignore_ascii_case(header) => None,
        (authority, header) => authority.or(header),
    }
}

/// Removes the port.
fn host_name(host: &str) -> &str {
    let Some((name, port)) = host.rsplit_once(':') else { return host };
    // The last colon may be inside an IPv6 address.
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']'));
    if is_port { name } else { host }
}

/// Returns the password of a client with basic authentication.
pub(crate) fn password_of(headers: &HeaderMap) -> Option<String> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    // Some clients omit the padding.
    let decoded = String::from_utf8(STANDARD_NO_PAD.decode(rest.trim().trim_end_matches('=')).ok()?).ok()?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    decoded.split_once(':').filter(|_| is_basic).map(|(_, password)| password.to_owned())
}

/// Returns the token of a request: from the header `Authorization`, or for reading from the page's cookie.
fn find_token(method: &Method, headers: &HeaderMap, cookie: &str) -> Option<String> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        return match scheme.to_ascii_lowercase().as_str() {
            "bearer" | "token" => Some(rest.trim().to_owned()),
            "basic" => password_of(headers),
            _ => None,
        };
    }
    // Browsers send cookies automatically, so they give no right to write.
    if ![Method::GET, Method::HEAD].contains(method) {
        return None;
    }
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
    let mut cookies = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| *name == COOKIE || *name == cookie).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/v1/tables").header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn status(access: &Access, request: &Request<()>) -> u16 {
        access.check_target(request).map_or_else(|problem| problem.status().as_u16(), |()| 200)
    }

    #[test]
    fn requests_for_other_hosts_are_refused() {
        let access = Access::new(None, false, vec!["Data.Example.org".into(), "*.lan".into()], 80);
        for (host, expected) in [
            ("localhost", 200),
            ("LOCALHOST:7447", 200),
            ("x.localhost", 200),
            ("127.0.0.1:80", 200),
            ("[::1]:80", 200),
            ("[::1]", 200),
            ("10.1.2.3", 200),
            ("data.example.org:443", 200),
            ("data.example.org.", 200),
            ("a.lan", 200),
            ("a.b.lan", 421),
            (".lan", 421),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("127.0.0.1:80:evil", 421),
            ("", 421),
        ] {
            assert_eq!(status(&access, &request(host, &[])), expected, "{host}");
        }
        assert_eq!(status(&access, &Request::get("/").body(()).unwrap()), 400);
        let two_hosts = Request::get("http://localhost/").header("host", "evil").body(()).unwrap();
        assert_eq!(status(&access, &two_hosts), 400);
    }

    #[test]
    fn requests_of_foreign_origins_are_refused() {
        let access = Access::new(None, false, Vec::new(), 80);
        for (name, value, expected) in [
            ("origin", "http://localhost:7447", 200),
            ("origin", "https://localhost:7447", 200),
            ("origin", "http://localhost", 403),
            ("origin", "http://evil.example", 403),
            ("origin", "null", 403),
            ("origin", "\u{fc}", 403),
            ("sec-fetch-site", "same-origin", 200),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "same-site", 403),
        ] {
            assert_eq!(status(&access, &request("localhost:7447", &[(name, value)])), expected, "{name} {value}");
        }
    }

    #[test]
    fn tokens_are_accepted_in_the_ways_of_clients() {
        let token = |method: Method, name: &str, value: &str| {
            let request = request("localhost", &[(name, value)]);
            find_token(&method, request.headers(), "arrowwood-80")
        };
        for value in ["Bearer aw_1_2", "bearer  aw_1_2 ", "Token aw_1_2", "Basic dTphd18xXzI=", "basic OmF3XzFfMg=="] {
            assert_eq!(token(Method::POST, "authorization", value).as_deref(), Some("aw_1_2"), "{value}");
        }
        for value in ["aw_1_2", "Digest aw_1_2", "Basic !!", "Basic YQ==", "Bearer"] {
            assert_eq!(token(Method::POST, "authorization", value), None, "{value}");
        }
        assert_eq!(token(Method::GET, "cookie", "a=b; arrowwood=aw_1_2").as_deref(), Some("aw_1_2"));
        assert_eq!(token(Method::GET, "cookie", "arrowwood-81=x; arrowwood-80=aw_1_2").as_deref(), Some("aw_1_2"));
        assert_eq!(token(Method::GET, "cookie", "arrowwood-81=aw_1_2"), None);
        assert_eq!(token(Method::POST, "cookie", "arrowwood=aw_1_2"), None);
    }
}
