//! Parses URLs, and connects to the stores that they name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Error, ErrorKind, Result, redact_urls};
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use reqwest::header::HeaderValue;
use url::Url;

use crate::client::{Connector, authorization_of};
use crate::error::failed;

/// The location of an object, or of a folder, in a store.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// The URL without parts that may be secret, for messages.
    pub name: String,
    /// The path in the store; empty on a web server, where the URL is enough.
    pub path: Path,
    /// The URL without user, password and fragment.
    url: Url,
    /// The user and the password that the URL had.
    authorization: Option<HeaderValue>,
    /// The URL as it was given, but for the version.
    given: Url,
    /// The version that the object must have.
    version: Option<String>,
}

/// The prefix of an object's version in the fragment of its URL, which is not sent to servers.
const VERSION: &str = "arrowwood-version=";

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Location> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidArgument, what).at(redact_urls(text).as_ref());
        let no_url = |e| wrong(format!("expected a URL such as s3://BUCKET/PATH or file:///PATH: {e}"));
        let mut url = Url::parse(text).map_err(no_url)?;
        if url.scheme() == "s3a" {
            url = Url::parse(&url.as_str().replacen("s3a", "s3", 1)).map_err(no_url)?;
        }
        if url.scheme() == "s3" && url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("expected s3://BUCKET/PATH".into()));
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user && url.scheme() == "s3" {
            let message = "a URL of a bucket has no user and password: credentials are taken from AWS_ACCESS_KEY_ID, \
                           AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN";
            return Err(wrong(message.into()));
        }
        use_ring();
        let authorization = authorization_of(&url);
        let version = url.fragment().and_then(|fragment| fragment.strip_prefix(VERSION)).map(String::from);
        let mut given = url.clone();
        given.set_fragment(None);
        // Fails where there can be no user or password.
        let _ = (url.set_username(""), url.set_password(None));
        url.set_fragment(None);
        let mut shown = url.clone();
        shown.set_query(None);
        let path = match url.scheme() {
            "s3" | "file" => Path::from_url_path(url.path()).map_err(|e| wrong(format!("a path of no object: {e}")))?,
            _ => Path::default(),
        };
        Ok(Location { name: shown.into(), path, url, authorization, given, version })
    }

    /// Returns the URL of the object in this version, including its secret parts.
    pub(crate) fn address(&self, version: &str) -> String {
        let mut url = self.given.clone();
        if self.is_listed()
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.clear().extend(self.path.parts().map(|part| part.as_ref().to_owned()));
        }
        url.set_fragment(Some(&format!("{VERSION}{version}")));
        url.into()
    }

    /// Returns true if the URL allows an object of this version.
    pub(crate) fn is_version(&self, version: &str) -> bool {
        let mut url = self.given.clone();
        url.set_fragment(Some(version));
        self.version.is_none() || self.version.as_deref() == url.fragment()
    }

    /// Returns true if the store can list its objects.
    pub(crate) fn is_listed(&self) -> bool {
        self.url.scheme() == "s3"
    }

    /// Returns true if objects can be created there.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.url.scheme(), "s3" | "file")
    }

    /// Returns true if it is a file of this machine.
    pub(crate) fn is_file(&self) -> bool {
        self.url.scheme() == "file"
    }

    /// Returns the path in the same folder whose name is this one's between a dot and `suffix`.
    pub(crate) fn beside(&self, suffix: &str) -> Path {
        let name = self.path.filename().unwrap_or_default();
        let folder: Path = self.path.parts().take(self.path.parts_count().saturating_sub(1)).collect();
        folder.join(format!(".{name}{suffix}"))
    }

    /// Returns true if the URL names a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.url.path().ends_with('/')
    }

    /// Returns the location of `name` in this folder.
    pub(crate) fn child(&self, name: &str) -> Location {
        self.listed(self.path.clone().join(name))
    }

    /// Returns the location of the object in this folder that the store lists as `path`.
    pub(crate) fn listed(&self, path: Path) -> Location {
        let folder = self.name.trim_end_matches('/');
        let name = format!("{folder}/{}", path.filename().unwrap_or_default());
        Location { name, path, ..self.clone() }
    }

    /// Creates a store, whose connections belong to the runtime that uses them.
    pub(crate) fn store(&self, timeout: Duration) -> Result<Arc<dyn ObjectStore>> {
        let failed = |e| failed("preparing requests", &e, self.is_listed()).at(&self.name);
        if self.is_file() {
            return Ok(Arc::new(LocalFileSystem::new().with_fsync(true)));
        }
        use_ring();
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            ..BackoffConfig::default()
        };
        let retry = RetryConfig { backoff, max_retries: 3, retry_timeout: timeout };
        let connections = Connector {
            connect_timeout: timeout.min(Duration::from_secs(10)),
            authorization: self.authorization.clone(),
            creates_only: self.is_listed(),
        };
        // Callers limit the time of whole requests, depending on their size.
        let options = |is_plain| ClientOptions::new().with_timeout_disabled().with_allow_http(is_plain);
        if self.is_listed() {
            let endpoint =
                ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"].map(|name| std::env::var(name).ok());
            let endpoint = endpoint.into_iter().flatten().find(|endpoint| !endpoint.is_empty());
            // An endpoint with this scheme was chosen on purpose.
            let is_plain = endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http://"));
            let mut builder = AmazonS3Builder::from_env()
                .with_bucket_name(self.url.host_str().unwrap_or_default())
                .with_client_options(options(is_plain))
                .with_http_connector(connections)
                .with_retry(retry);
            if let Some(endpoint) = endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            return Ok(Arc::new(builder.build().map_err(failed)?));
        }
        let is_plain = self.url.scheme() == "http";
        let builder = HttpBuilder::new().with_url(self.url.as_str()).with_retry(retry);
        let builder = builder.with_client_options(options(is_plain)).with_http_connector(connections);
        Ok(Arc::new(builder.build().map_err(failed)?))
    }
}

/// Makes TLS use the cryptography that this crate is built with.
fn use_ring() {
    // An error says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// How objects are read and written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the files that hold what was fetched: `$TMPDIR`, or `/var/tmp`. The files have no names, and
    /// end with the process.
    pub cache: Option<PathBuf>,
    /// How long an answer may take to begin, and each of its pieces to come: 30 seconds.
    pub timeout: Duration,
    /// For tests: what the bytes are that were not fetched; otherwise zeros.
    #[doc(hidden)]
    pub poison: Option<u8>,
}

impl Default for Options {
    fn default() -> Options {
        Options { cache: None, timeout: Duration::from_secs(30), poison: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_place_is_told_without_secrets() {
        for text in ["http://user:hush@[broken/a?X-Amz-Signature=hush", "s3://user:hush@/a?hush"] {
            let error = Location::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
        }
        assert_eq!(Location::parse("S3A://bucket/a b").unwrap().name, "s3://bucket/a%20b");
        assert_eq!(Location::parse(" s3a://bucket/a").unwrap().name, "s3://bucket/a");
    }
}
