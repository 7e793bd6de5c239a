//! Sends requests, and follows redirects without giving away secrets.
//!
//! After a redirect, another host is sent the request for the object, but nothing that only the first host may know: no
//! signature, token or password in headers, and no URL of the first host as a `Referer`.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, LOCATION, RANGE, USER_AGENT,
};
use reqwest::{Method, StatusCode, redirect};
use url::Url;

/// The maximum number of redirects of one request.
const REDIRECTS: usize = 10;
/// The headers that are sent to another host. All others may be secret.
const TOLD: [HeaderName; 5] = [ACCEPT, IF_MATCH, IF_NONE_MATCH, RANGE, USER_AGENT];

/// The settings of connections to a store.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub connect_timeout: Duration,
    /// The user and the password of the URL, for its host.
    pub authorization: Option<HeaderValue>,
    /// True if an upload in parts must not replace an object. An object that is sent at once has `PutMode::Create` for
    /// this, but the end of an upload has no such mode.
    pub creates_only: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The options of a store, or of the service for the credentials of a machine. That service is asked without
        // TLS, and answers at once or never.
        let is_plain = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|allowed| allowed == "true");
        let builder = reqwest::Client::builder()
            .user_agent(concat!("arrowwood/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .https_only(!is_plain)
            .http1_only();
        // A compressed answer would have another length than the object.
        let client = builder.no_gzip().no_brotli().no_zstd().no_deflate().build();
        let broken = |e| object_store::Error::Generic { store: "http", source: Box::new(e) };
        Ok(HttpClient::new(Client { client: client.map_err(broken)?, how: self.clone() }))
    }
}

/// Returns the header `Authorization` for the user and the password of a URL, if it has any.
pub(crate) fn authorization_of(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    // This builds the header, and sends nothing.
    let request = reqwest::Client::new().get(url.as_str()).build().ok()?;
    let mut header = request.headers().get(AUTHORIZATION)?.clone();
    header.set_sensitive(true);
    Some(header)
}

#[derive(Clone, Debug)]
struct Client {
    client: reqwest::Client,
    how: Connector,
}

impl HttpService for Client {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
    {
        Box::pin(self.send(request))
    }
}

impl Client {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let ends_upload = request.uri().query().is_some_and(|query| query.contains("uploadId="));
        if self.how.creates_only && ends_upload && request.method() == Method::POST {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(authorization) = &self.how.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        for _ in 0..REDIRECTS {
            let again = request.clone();
            let answer = HttpService::call(&self.client, request).await?;
            match elsewhere(again, &answer)? {
                Some(next) => request = next,
                None => return Ok(answer),
            }
        }
        Err(refused(RedirectError::TooMany))
    }
}

/// Returns the request that follows the redirect in `answer`; `None` if it is no redirect.
///
/// # Errors
/// `RedirectError` if it would be a different request, or would give away a secret.
fn elsewhere(request: HttpRequest, answer: &HttpResponse) -> Result<Option<HttpRequest>, HttpError> {
    let keeps_method = matches!(answer.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let changes_method =
        matches!(answer.status(), StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
    let Some(location) = answer.headers().get(LOCATION).filter(|_| keeps_method || changes_method) else {
        return Ok(None);
    };
    let here = Url::parse(&request.uri().to_string()).map_err(|_| refused(RedirectError::Nowhere))?;
    let there = location.to_str().ok().and_then(|location| here.join(location).ok());
    let mut there = there.ok_or_else(|| refused(RedirectError::Nowhere))?;
    // Fails where there can be no user or password.
    let _ = (there.set_username(""), there.set_password(None));
    there.set_fragment(None);
    let host = there.host_str().unwrap_or_default().to_owned();
    match (here.scheme(), there.scheme()) {
        ("http" | "https", "https") | ("http", "http") => (),
        _ => return Err(refused(RedirectError::WithoutTls(host))),
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_same = here.origin() == there.origin();
    let may_follow = is_read || is_same && keeps_method;
    if !may_follow {
        return Err(refused(RedirectError::OfWrite(host)));
    }
    let (mut parts, body) = request.into_parts();
    parts.uri = there.as_str().parse().map_err(|_| refused(RedirectError::Nowhere))?;
    if !is_same {
        let told = TOLD.into_iter().filter_map(|name| parts.headers.remove(&name).map(|value| (name, value)));
        parts.headers = told.collect();
    }
    Ok(Some(HttpRequest::from_parts(parts, body)))
}

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedirectError {
    /// There are more than [`REDIRECTS`].
    TooMany,
    /// The location is no URL.
    Nowhere,
    /// The redirect leads from `https` to `http`, or to another scheme, on this host.
    WithoutTls(String),
    /// A write would have to be sent to this host, with a signature that only the first host may know.
    OfWrite(String),
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedirectError::TooMany => write!(f, "the server redirects more than {REDIRECTS} times"),
            RedirectError::Nowhere => f.write_str("the server redirects to what is no URL"),
            RedirectError::WithoutTls(host) => {
                write!(f, "the server redirects to '{host}' without TLS, or to no web server")
            }
            RedirectError::OfWrite(host) => write!(
                f,
                "the store redirects what is written to '{host}', which is not told the signature; set AWS_REGION to the region \
                 of the bucket, or AWS_ENDPOINT_URL to its host"
            ),
        }
    }
}

impl std::error::Error for RedirectError {}

fn refused(why: RedirectError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, why)
}
