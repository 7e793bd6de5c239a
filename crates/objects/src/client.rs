//! [`Connector`]: an HTTP client that follows redirects without leaking secrets.
//!
//! After a redirect to another host, the request has none of the headers that only the first host may see: no
//! signature, token or password, and no `Referer` with the URL of the first host.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, LOCATION, RANGE, USER_AGENT,
};
use reqwest::{Method, StatusCode, redirect};
use url::Url;

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 10;
/// The headers that are sent to another host. All others may be secret.
const PUBLIC_HEADERS: [HeaderName; 5] = [ACCEPT, IF_MATCH, IF_NONE_MATCH, RANGE, USER_AGENT];

/// The settings of connections to a store.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub connect_timeout: Duration,
    /// The header with the user and the password of the URL.
    pub authorization: Option<HeaderValue>,
    /// True if the end of a multipart upload must not replace an object. A single request has `PutMode::Create` for
    /// this, but multipart uploads have no such mode.
    pub creates_only: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // These are the options of a store, or of the service for the credentials of a machine, which has no TLS.
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let builder = reqwest::Client::builder()
            .user_agent(concat!("arrowwood/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .https_only(!allows_http)
            .http1_only();
        // A compressed response would have another length than the object.
        let client = builder.no_gzip().no_brotli().no_zstd().no_deflate().build();
        let client = client.map_err(|e| object_store::Error::Generic { store: "http", source: Box::new(e) })?;
        Ok(HttpClient::new(Client { client, settings: self.clone() }))
    }
}

/// Returns the header `Authorization` for the user and the password of a URL, if it has any.
pub(crate) fn authorization_header(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    // Builds the header; nothing is sent.
    let request = reqwest::Client::new().get(url.as_str()).build().ok()?;
    let mut header = request.headers().get(AUTHORIZATION)?.clone();
    header.set_sensitive(true);
    Some(header)
}

#[derive(Clone, Debug)]
struct Client {
    client: reqwest::Client,
    settings: Connector,
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
        let completes_upload = request.uri().query().is_some_and(|query| query.contains("uploadId="));
        if self.settings.creates_only && completes_upload && request.method() == Method::POST {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(authorization) = &self.settings.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        for _ in 0..MAX_REDIRECTS {
            let original = request.clone();
            let response = HttpService::call(&self.client, request).await?;
            match redirected_request(original, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(redirect_error(RedirectError::TooMany))
    }
}

/// Returns the request that follows the redirect in `response`; `None` if there is no redirect.
///
/// # Errors
/// A `RedirectError` if the redirect must not be followed.
fn redirected_request(request: HttpRequest, response: &HttpResponse) -> Result<Option<HttpRequest>, HttpError> {
    let status = response.status();
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let changes_method = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
    let Some(location) = response.headers().get(LOCATION).filter(|_| keeps_method || changes_method) else {
        return Ok(None);
    };
    let source = Url::parse(&request.uri().to_string()).map_err(|_| redirect_error(RedirectError::Nowhere))?;
    let target = location.to_str().ok().and_then(|location| source.join(location).ok());
    let mut target = target.ok_or_else(|| redirect_error(RedirectError::Nowhere))?;
    // These fail for URLs that can't have a user or password.
    let _ = target.set_username("");
    let _ = target.set_password(None);
    target.set_fragment(None);
    let host = target.host_str().unwrap_or("").to_owned();
    match (source.scheme(), target.scheme()) {
        ("http" | "https", "https") | ("http", "http") => (),
        _ => return Err(redirect_error(RedirectError::WithoutTls(host))),
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_same_host = source.origin() == target.origin();
    let may_follow = is_read || is_same_host && keeps_method;
    if !may_follow {
        return Err(redirect_error(RedirectError::OfWrite(host)));
    }
    let (mut parts, body) = request.into_parts();
    parts.uri = target.as_str().parse().map_err(|_| redirect_error(RedirectError::Nowhere))?;
    if !is_same_host {
        let mut public = HeaderMap::new();
        for name in PUBLIC_HEADERS {
            if let Some(value) = parts.headers.remove(&name) {
                public.insert(name, value);
            }
        }
        parts.headers = public;
    }
    Ok(Some(HttpRequest::from_parts(parts, body)))
}

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedirectError {
    /// There are more than [`MAX_REDIRECTS`].
    TooMany,
    /// The location is not a URL.
    Nowhere,
    /// The redirect leads from `https` to `http`, or to another scheme, on this host.
    WithoutTls(String),
    /// The redirect leads a write to this host, which must not get the signature of the request.
    OfWrite(String),
}

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedirectError::TooMany => write!(f, "the server redirects more than {MAX_REDIRECTS} times"),
            RedirectError::Nowhere => f.write_str("the server redirects to what is no URL"),
            RedirectError::WithoutTls(host) => {
                write!(f, "the server redirects to '{host}' without TLS, or to no web server")
            }
            RedirectError::OfWrite(host) => write!(
                f,
                "the store redirects what is written to '{host}', which is not told the signature; set AWS_REGION to \
                 the region of the bucket, or AWS_ENDPOINT_URL to its host"
            ),
        }
    }
}

impl std::error::Error for RedirectError {}

fn redirect_error(error: RedirectError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}
