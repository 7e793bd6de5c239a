//! [`Location`]: a parsed URL, and the connection to the store that it names.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::readable::redact_urls;
use arrowwood::{Error, ErrorKind, Result};
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use reqwest::header::HeaderValue;
use url::Url;

use crate::client::{Connector, authorization_header};
use crate::error::request_error;

/// The location of an object or a folder in a store.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// The URL for messages, without parts that may be secret.
    pub name: String,
    /// The path in the store; empty for a web server, where the URL is the path.
    pub path: Path,
    /// The URL without user, password and fragment.
    url: Url,
    /// The header with the user and the password of the URL.
    authorization: Option<HeaderValue>,
    /// The original URL without the version, including its secret parts.
    original: Url,
    /// The version that the object must have.
    version: Option<String>,
}

/// The prefix of an object's version in the fragment of its URL, which is not sent to servers.
const VERSION_PREFIX: &str = "arrowwood-version=";

/// The time before a request is sent again, which doubles with each attempt up to [`MAX_BACKOFF`].
const INIT_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How often a request is sent again.
const MAX_RETRIES: usize = 3;
/// How long to wait for a connection.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The default of [`Options::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

impl Location {
    /// Parses a URL.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not the URL of an object or a folder. The message has no secret parts of it.
    pub(crate) fn parse(text: &str) -> Result<Location> {
        let mut url = Url::parse(text).map_err(|e| invalid_syntax(text, e))?;
        if url.scheme() == "s3a" {
            url = Url::parse(&url.as_str().replacen("s3a", "s3", 1)).map_err(|e| invalid_syntax(text, e))?;
        }
        if url.scheme() == "s3" && url.host_str().is_none_or(str::is_empty) {
            return Err(invalid_url(text, "expected s3://BUCKET/PATH"));
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user && url.scheme() == "s3" {
            let message = "a URL of a bucket has no user and password: credentials are taken from AWS_ACCESS_KEY_ID, \
                           AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN";
            return Err(invalid_url(text, message));
        }
        use_ring();
        let authorization = authorization_header(&url);
        let version = url.fragment().and_then(|fragment| fragment.strip_prefix(VERSION_PREFIX)).map(String::from);
        let mut original = url.clone();
        original.set_fragment(None);
        // These fail for URLs that can't have a user or password.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        let mut name = url.clone();
        name.set_query(None);
        let path = match url.scheme() {
            "s3" | "file" => {
                Path::from_url_path(url.path()).map_err(|e| invalid_url(text, &format!("a path of no object: {e}")))?
            }
            _ => Path::default(),
        };
        Ok(Location { name: name.into(), path, url, authorization, original, version })
    }

    /// Returns the URL of the object in this version, including its secret parts.
    pub(crate) fn address(&self, version: &str) -> String {
        let mut url = self.original.clone();
        if self.is_bucket()
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.clear().extend(self.path.parts().map(|part| part.as_ref().to_owned()));
        }
        url.set_fragment(Some(&format!("{VERSION_PREFIX}{version}")));
        url.into()
    }

    /// Returns true if the URL names this version, or none.
    pub(crate) fn allows_version(&self, version: &str) -> bool {
        let mut url = self.original.clone();
        url.set_fragment(Some(version));
        self.version.is_none() || self.version.as_deref() == url.fragment()
    }

    /// Returns true if it is in a bucket, which can list its objects, rather than on a web server.
    pub(crate) fn is_bucket(&self) -> bool {
        self.url.scheme() == "s3"
    }

    /// Returns true if objects can be created there.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.url.scheme(), "s3" | "file")
    }

    /// Returns true if it is a file on this machine.
    pub(crate) fn is_file(&self) -> bool {
        self.url.scheme() == "file"
    }

    /// Returns the path of a hidden file in the same folder: a dot, the name and `suffix`.
    pub(crate) fn hidden_sibling(&self, suffix: &str) -> Path {
        let name = self.path.filename().unwrap_or("");
        // The root has no parts.
        let folder: Path = self.path.parts().take(self.path.parts_count().saturating_sub(1)).collect();
        folder.join(format!(".{name}{suffix}"))
    }

    /// Returns true if the URL names a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.url.path().ends_with('/')
    }

    /// Returns the location of `name` in this folder.
    pub(crate) fn child(&self, name: &str) -> Location {
        self.listed_object(self.path.clone().join(name))
    }

    /// Returns the location of the object in this folder that the store lists as `path`.
    pub(crate) fn listed_object(&self, path: Path) -> Location {
        let folder = self.name.trim_end_matches('/');
        let name = format!("{folder}/{}", path.filename().unwrap_or(""));
        Location { name, path, ..self.clone() }
    }

    /// Creates a store. Its connections belong to the runtime that uses them.
    pub(crate) fn store(&self, timeout: Duration) -> Result<Arc<dyn ObjectStore>> {
        if self.is_file() {
            return Ok(Arc::new(LocalFileSystem::new().with_fsync(true)));
        }
        use_ring();
        let backoff =
            BackoffConfig { init_backoff: INIT_BACKOFF, max_backoff: MAX_BACKOFF, ..BackoffConfig::default() };
        let retry = RetryConfig { backoff, max_retries: MAX_RETRIES, retry_timeout: timeout };
        let connector = Connector {
            connect_timeout: timeout.min(MAX_CONNECT_TIMEOUT),
            authorization: self.authorization.clone(),
            creates_only: self.is_bucket(),
        };
        let store =
            if self.is_bucket() { self.bucket_store(retry, connector) } else { self.web_store(retry, connector) };
        store.map_err(|e| request_error("preparing requests", &e, self.is_bucket()).at(&self.name))
    }

    fn bucket_store(&self, retry: RetryConfig, connector: Connector) -> object_store::Result<Arc<dyn ObjectStore>> {
        let endpoints =
            ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].map(|name| std::env::var(name).ok());
        let endpoint = endpoints.into_iter().flatten().find(|endpoint| !endpoint.is_empty());
        // An endpoint without TLS was chosen on purpose.
        let allows_http = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(self.url.host_str().unwrap_or(""))
            .with_client_options(client_options(allows_http))
            .with_http_connector(connector)
            .with_retry(retry);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        Ok(Arc::new(builder.build()?))
    }

    fn web_store(&self, retry: RetryConfig, connector: Connector) -> object_store::Result<Arc<dyn ObjectStore>> {
        let allows_http = self.url.scheme() == "http";
        let builder = HttpBuilder::new()
            .with_url(self.url.as_str())
            .with_client_options(client_options(allows_http))
            .with_http_connector(connector)
            .with_retry(retry);
        Ok(Arc::new(builder.build()?))
    }
}

/// Returns options without a timeout, as callers limit the time of requests by their size.
fn client_options(allows_http: bool) -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_allow_http(allows_http)
}

fn invalid_url(text: &str, message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).at(redact_urls(text).as_ref())
}

fn invalid_syntax(text: &str, e: url::ParseError) -> Error {
    invalid_url(text, &format!("expected a URL such as s3://BUCKET/PATH or file:///PATH: {e}"))
}

/// Makes TLS use the cryptographic library that this crate is built with.
fn use_ring() {
    // Fails if the process has chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Options of reading and writing objects.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory for files with fetched ranges; by default `$TMPDIR`, or `/var/tmp`.
    ///
    /// The files have no names, and are removed with the process.
    pub cache: Option<PathBuf>,
    /// How long to wait for the start of a response, and for each of its chunks; by default 30 seconds.
    pub timeout: Duration,
    /// The value of bytes that were not fetched, for tests; by default zero.
    #[cfg(feature = "internal")]
    pub poison: Option<u8>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache: None,
            timeout: DEFAULT_TIMEOUT,
            #[cfg(feature = "internal")]
            poison: None,
        }
    }
}

impl Options {
    /// Returns the value of bytes that were not fetched; `None` for zero.
    #[cfg(feature = "internal")]
    pub(crate) fn poison(&self) -> Option<u8> {
        self.poison
    }

    /// Returns the value of bytes that were not fetched; `None` for zero.
    #[cfg(not(feature = "internal"))]
    pub(crate) fn poison(&self) -> Option<u8> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_parsing_have_no_secrets() {
        for text in ["http://user:hush@[broken/a?X-Amz-Signature=hush", "s3://user:hush@/a?hush"] {
            let error = Location::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
        }
    }

    #[test]
    fn s3a_is_an_alias_of_s3() {
        assert_eq!(Location::parse("S3A://bucket/a b").unwrap().name, "s3://bucket/a%20b");
        assert_eq!(Location::parse(" s3a://bucket/a").unwrap().name, "s3://bucket/a");
    }
}
