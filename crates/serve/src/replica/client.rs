//! A client of a server of tables: requests over separate connections, and streamed answers.

use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrowwood::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::http::set_options;

/// The maximum time for a server to connect, and to begin a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The ports of a URL that names none.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
/// The maximum size of facts and errors in bytes.
const MAX_JSON_BYTES: usize = 16 << 20;
/// The maximum number of received chunks that wait to be read.
const MAX_WAITING_CHUNKS: usize = 16;

/// Options of requests to servers.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// The token, sent with each request.
    pub token: Option<String>,
    /// Trusted certificates, in PEM, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// Whether to send the token to another machine without TLS.
    pub insecure: bool,
}

/// Shows whether there is a token, not the token.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClientOptions");
        shown.field("has_token", &self.token.is_some()).field("cafile", &self.cafile);
        shown.field("insecure", &self.insecure).finish()
    }
}

/// A client of one table of a server.
pub(crate) struct Client {
    runtime: Runtime,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    token: Option<String>,
    /// The path of the table, `/v1/tables/T`.
    table: String,
    url: String,
}

/// The reason of a failed request.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server can't be reached, or broke off: a retry may succeed.
    Transient(Error),
    /// A retry would get the same response.
    Permanent(Error),
}

impl Client {
    /// Creates a client of the table at `url`: `http://HOST:PORT/T` or `https://…`, or with the whole path,
    /// `…/v1/tables/T`.
    pub fn new(url: &str, options: &ClientOptions) -> Result<Client> {
        let uri: Uri = url.parse().map_err(|_| invalid_url(url, "is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid_url(url, "is no URL of a server")),
        };
        let authority = uri.authority().ok_or_else(|| invalid_url(url, "names no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(invalid_url(url, "has a user or a query"));
        }
        let host = authority.host().to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { HTTPS_PORT } else { HTTP_PORT });
        let path = uri.path();
        let name = path.strip_prefix("/v1/tables/").or_else(|| path.strip_prefix('/')).unwrap_or("");
        if name.is_empty() || name.contains('/') {
            return Err(invalid_url(url, "names no table"));
        }
        if options.token.is_some() && !is_tls && !options.insecure && !is_loopback(&host) {
            let why = "would get the token without TLS, where others can read it: use https, or --insecure";
            return Err(invalid_url(url, why));
        }
        let tls = if is_tls { Some(tls_connector(options.cafile.as_deref())?) } else { None };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| Error::io("starting a thread", &e))?;
        let token = options.token.clone();
        let table = format!("/v1/tables/{name}");
        Ok(Client { runtime, host, port, tls, token, table, url: url.to_owned() })
    }

    /// Returns the server's facts about the table.
    pub fn facts(&self) -> Result<Json, RequestError> {
        self.runtime.block_on(async {
            let response = self.request("").await?;
            let body = Limited::new(response.into_body(), MAX_JSON_BYTES).collect().await;
            let bytes = body.map_err(|e| self.transient(&causes(&*e)))?.to_bytes();
            match serde_json::from_slice::<Json>(&bytes) {
                Ok(facts) if facts.is_object() => Ok(facts),
                _ => Err(self.permanent("the answer is no object of JSON; is it `arrowwood serve`?")),
            }
        })
    }

    /// Returns the streamed response to a request for `subpath` of the table.
    pub fn stream(&self, subpath: &str) -> Result<ResponseReader, RequestError> {
        let response = self.runtime.block_on(self.request(subpath))?;
        let (sender, chunks) = mpsc::channel(MAX_WAITING_CHUNKS);
        let waiting = Arc::new(AtomicUsize::new(0));
        self.runtime.spawn(forward_body(response.into_body(), sender, waiting.clone()));
        Ok(ResponseReader { chunks, waiting, chunk: Bytes::new() })
    }

    fn error(&self, what: &str) -> Error {
        Error::new(ErrorKind::Io, format!("asking {}: {what}", self.url))
    }

    fn transient(&self, what: &str) -> RequestError {
        RequestError::Transient(self.error(what))
    }

    fn permanent(&self, what: &str) -> RequestError {
        RequestError::Permanent(self.error(what))
    }

    /// Sends a request for `subpath` of the table over a new connection, and waits for the head of the response.
    async fn request(&self, subpath: &str) -> Result<Response<Incoming>, RequestError> {
        let timed_out = || self.transient(&format!("no answer within {} seconds", RESPONSE_TIMEOUT.as_secs()));
        let address = self.host.trim_matches(['[', ']']);
        let connected = timeout(RESPONSE_TIMEOUT, TcpStream::connect((address, self.port))).await;
        let stream = connected.map_err(|_| timed_out())?.map_err(|e| self.transient(&e.to_string()))?;
        set_options(&stream);
        let response = async {
            let Some(tls) = &self.tls else { return self.send(stream, subpath).await };
            let name = ServerName::try_from(address.to_owned()).map_err(|e| self.permanent(&e.to_string()))?;
            match tls.connect(name, stream).await {
                Ok(stream) => self.send(stream, subpath).await,
                // The certificate is not trusted.
                Err(e) if e.kind() == io::ErrorKind::InvalidData => Err(self.permanent(&e.to_string())),
                Err(e) => Err(self.transient(&e.to_string())),
            }
        };
        timeout(RESPONSE_TIMEOUT, response).await.map_err(|_| timed_out())?
    }

    async fn send<S>(&self, stream: S, subpath: &str) -> Result<Response<Incoming>, RequestError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|e| self.transient(&causes(&e)))?;
        // The response, or its body, reports the connection's errors.
        tokio::spawn(async move { drop(connection.await) });
        let mut request = Request::get(format!("{}{subpath}", self.table))
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::ACCEPT, "application/vnd.apache.arrow.stream");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|e| self.permanent(&e.to_string()))?;
        let response = sender.send_request(request).await.map_err(|e| self.transient(&causes(&e)))?;
        if response.status().is_success() { Ok(response) } else { Err(self.error_from_response(response).await) }
    }

    /// Converts an error response to an error.
    async fn error_from_response(&self, response: Response<Incoming>) -> RequestError {
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_JSON_BYTES).collect().await;
        // Proxies answer without a body of JSON: then the status says what is known.
        let problem = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()).unwrap_or(Json::Null);
        let detail = problem["detail"].as_str().or(status.canonical_reason()).unwrap_or("refused");
        let message = format!("asking {}: {detail} (HTTP {})", self.url, status.as_u16());
        let kind = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => {
                ErrorKind::PermissionDenied
            }
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            StatusCode::GONE | StatusCode::RANGE_NOT_SATISFIABLE => ErrorKind::RowOutOfRange,
            StatusCode::CONFLICT if problem["code"] == "file_changed" => {
                return RequestError::Transient(Error::new(ErrorKind::FileChanged, message));
            }
            status if is_transient(status) => return RequestError::Transient(Error::new(ErrorKind::Io, message)),
            _ => ErrorKind::InvalidArgument,
        };
        RequestError::Permanent(Error::new(kind, message))
    }
}

/// Returns true for a status that may be another one when the request is repeated.
fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::REQUEST_TIMEOUT || status.as_u16() >= StatusCode::INTERNAL_SERVER_ERROR.as_u16()
}

fn invalid_url(url: &str, why: &str) -> Error {
    let expected = "expected http://HOST:PORT/TABLE or https://HOST:PORT/TABLE";
    Error::new(ErrorKind::InvalidArgument, format!("'{url}' {why}; {expected}"))
}

/// Returns the messages of an error and of its causes, such as the system's error that ended a connection.
fn causes(e: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(e), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Sends the chunks of a body to a [`ResponseReader`], until the end or an error.
async fn forward_body(mut body: Incoming, sender: mpsc::Sender<io::Result<Bytes>>, waiting: Arc<AtomicUsize>) {
    loop {
        let chunk = match body.frame().await {
            None => return,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => Ok(data),
                // An empty chunk would look like the end of the stream, and trailers have no data.
                _ => continue,
            },
            Some(Err(e)) => Err(io::Error::other(causes(&e))),
        };
        let is_over = chunk.is_err();
        waiting.fetch_add(1, Ordering::AcqRel);
        if sender.send(chunk).await.is_err() || is_over {
            return;
        }
    }
}

/// Reads a streamed response, in a thread that may block.
///
/// A task of the client's runtime receives the chunks and sends them through a channel. It counts a chunk in `waiting`
/// before it sends it, and the reader takes it off after it has received it: so the count is never too small. If it is
/// 0, there is no chunk to be read without waiting, although one may be about to arrive.
pub(crate) struct ResponseReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    waiting: Arc<AtomicUsize>,
    /// The unread rest of the current chunk.
    chunk: Bytes,
}

impl ResponseReader {
    /// Returns the number of received chunks that are not read yet.
    pub fn waiting(&self) -> Arc<AtomicUsize> {
        self.waiting.clone()
    }
}

impl Read for ResponseReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            let Some(chunk) = self.chunks.blocking_recv() else { return Ok(0) };
            let waiting = self.waiting.fetch_sub(1, Ordering::AcqRel);
            assert!(waiting > 0, "a chunk is counted before it is sent");
            self.chunk = chunk?;
        }
        let part = self.chunk.split_to(into.len().min(self.chunk.len()));
        into[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

/// Creates a connector that trusts the certificates in `cafile`, or else the system's.
fn tls_connector(cafile: Option<&Path>) -> Result<TlsConnector> {
    let certificates: Vec<CertificateDer<'static>> = match cafile {
        Some(file) => {
            CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect()).map_err(|e| {
                Error::new(ErrorKind::InvalidArgument, format!("certificates in PEM are expected: {e}")).at(file)
            })?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let message = "there is no certificate to trust; name a file of certificates with --cafile";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
    let config = config.map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str, options: &ClientOptions) -> String {
        Client::new(url, options).map(|_| ()).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_url_names_a_server_and_a_table() {
        let none = ClientOptions::default();
        for (url, host, port, table) in [
            ("http://localhost:7447/ticks", "localhost", 7447, "/v1/tables/ticks"),
            ("http://[::1]:7447/v1/tables/a%20b", "[::1]", 7447, "/v1/tables/a%20b"),
            ("http://data.example.org/ticks", "data.example.org", 80, "/v1/tables/ticks"),
        ] {
            let client = Client::new(url, &none).unwrap();
            assert_eq!((client.host.as_str(), client.port, client.table.as_str()), (host, port, table));
        }
        for url in ["ticks", "ftp://h/t", "http://h", "http://h/", "http://h/a/b", "http://u@h/t", "http://h/t?x=1", ""]
        {
            assert!(error(url, &none).contains("expected http://"), "{url}");
        }
        let token = ClientOptions { token: Some("aw_1".into()), ..ClientOptions::default() };
        assert!(!format!("{token:?}").contains("aw_1"), "{token:?}");
        assert!(error("http://data.example.org/ticks", &token).contains("without TLS"));
        assert!(Client::new("http://127.0.0.1:1/ticks", &token).is_ok());
        assert!(Client::new("http://h/ticks", &ClientOptions { insecure: true, ..token }).is_ok());
    }
}
