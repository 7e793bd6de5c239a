//! A client of a server of tables: requests over separate connections, and streamed answers.

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
use hyper::{Request, Response, Uri, header};
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

/// The maximum time for a server to connect, and to begin an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum size of facts and errors in bytes.
const SMALL: usize = 16 << 20;
/// The number of pieces of an answer that wait to be read.
const WAITING: usize = 16;

/// The server, and the credentials.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The token, sent with each request.
    pub token: Option<String>,
    /// Trusted certificates, in PEM, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// Whether to send the token to another machine without TLS.
    pub insecure: bool,
}

/// A server, and a table of it.
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
    /// The server can't be reached, or broke off: it may answer later.
    Transient(Error),
    /// A retry would get the same answer.
    Permanent(Error),
}

impl Client {
    /// A client of the table at `url`: `http://HOST:PORT/T` or `https://…`, or the whole path, `…/v1/tables/T`.
    pub fn new(url: &str, options: &ClientOptions) -> Result<Client> {
        let wrong = |why: &str| {
            let expected = "expected http://HOST:PORT/TABLE or https://HOST:PORT/TABLE";
            Error::new(ErrorKind::InvalidArgument, format!("'{url}' {why}; {expected}"))
        };
        let uri: Uri = url.parse().map_err(|_| wrong("is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("is no URL of a server")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong("has a user or a query"));
        }
        let host = authority.host().to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let name = uri.path().strip_prefix("/v1/tables/").or_else(|| uri.path().strip_prefix('/')).unwrap_or_default();
        if name.is_empty() || name.contains('/') {
            return Err(wrong("names no table"));
        }
        if options.token.is_some() && !is_tls && !options.insecure && !is_loopback(&host) {
            return Err(wrong("would get the token without TLS, where others can read it: use https, or --insecure"));
        }
        let tls = if is_tls { Some(connector(options.cafile.as_deref())?) } else { None };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|e| Error::io("starting a thread", &e))?;
        let token = options.token.clone();
        let table = format!("/v1/tables/{name}");
        Ok(Client { runtime, host, port, tls, token, table, url: url.to_owned() })
    }

    /// The server's facts about the table.
    pub fn facts(&self) -> Result<Json, RequestError> {
        self.runtime.block_on(async {
            let answer = self.ask("").await?;
            let body = Limited::new(answer.into_body(), SMALL).collect().await;
            let bytes = body.map_err(|e| self.broken(&causes(&*e)))?.to_bytes();
            let told = serde_json::from_slice::<Json>(&bytes).ok().filter(Json::is_object);
            told.ok_or_else(|| {
                RequestError::Permanent(self.error("the answer is no object of JSON; is it `arrowwood serve`?"))
            })
        })
    }

    /// The streamed answer to a request below the table.
    pub fn stream(&self, below: &str) -> Result<ResponseReader, RequestError> {
        let answer = self.runtime.block_on(self.ask(below))?;
        let (sender, coming) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        self.runtime.spawn(pass_on(answer.into_body(), sender, waiting.clone()));
        Ok(ResponseReader { coming, waiting, piece: Bytes::new() })
    }

    fn error(&self, what: &str) -> Error {
        Error::new(ErrorKind::Io, format!("asking {}: {what}", self.url))
    }

    fn broken(&self, what: &str) -> RequestError {
        RequestError::Transient(self.error(what))
    }

    async fn ask(&self, below: &str) -> Result<Response<Incoming>, RequestError> {
        let connecting = timeout(PATIENCE, TcpStream::connect((self.host.trim_matches(['[', ']']), self.port)));
        let stream = connecting.await.map_err(|_| self.broken("no answer within 30 seconds"))?;
        let stream = stream.map_err(|e| self.broken(&e.to_string()))?;
        // Without these a request may be delayed, and a vanished server is never noticed.
        let _ = stream.set_nodelay(true);
        let alive =
            socket2::TcpKeepalive::new().with_time(Duration::from_secs(45)).with_interval(Duration::from_secs(15));
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&alive.with_retries(3));
        let asked = async {
            match &self.tls {
                None => self.send(stream, below).await,
                Some(tls) => {
                    let name = ServerName::try_from(self.host.trim_matches(['[', ']']).to_owned());
                    let name = name.map_err(|e| RequestError::Permanent(self.error(&e.to_string())))?;
                    // A certificate error is permanent.
                    let secret = tls.connect(name, stream).await;
                    let secret = secret.map_err(|e| match e.kind() {
                        io::ErrorKind::InvalidData => RequestError::Permanent(self.error(&e.to_string())),
                        _ => self.broken(&e.to_string()),
                    })?;
                    self.send(secret, below).await
                }
            }
        };
        timeout(PATIENCE, asked).await.map_err(|_| self.broken("no answer within 30 seconds"))?
    }

    async fn send<S>(&self, stream: S, below: &str) -> Result<Response<Incoming>, RequestError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|e| self.broken(&causes(&e)))?;
        // Its errors are those of the answer.
        tokio::spawn(async move { drop(connection.await) });
        let mut request = Request::get(format!("{}{below}", self.table))
            .header(header::HOST, format!("{}:{}", self.host, self.port))
            .header(header::ACCEPT, "application/vnd.apache.arrow.stream");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|e| RequestError::Permanent(self.error(&e.to_string())))?;
        let answer = sender.send_request(request).await.map_err(|e| self.broken(&causes(&e)))?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.refused(answer).await) }
    }

    /// Converts an error answer to an error.
    async fn refused(&self, answer: Response<Incoming>) -> RequestError {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), SMALL).collect().await;
        let told = body.ok().and_then(|body| serde_json::from_slice::<Json>(&body.to_bytes()).ok()).unwrap_or_default();
        let detail = told["detail"].as_str().or(status.canonical_reason()).unwrap_or("refused");
        let message = format!("asking {}: {detail} (HTTP {})", self.url, status.as_u16());
        let kind = match status.as_u16() {
            401 | 403 | 421 => ErrorKind::PermissionDenied,
            404 => ErrorKind::NotFound,
            410 | 416 => ErrorKind::RowOutOfRange,
            409 if told["code"] == "file_changed" => {
                return RequestError::Transient(Error::new(ErrorKind::FileChanged, message));
            }
            500.. | 408 => return RequestError::Transient(Error::new(ErrorKind::Io, message)),
            _ => ErrorKind::InvalidArgument,
        };
        RequestError::Permanent(Error::new(kind, message))
    }
}

/// An error and what caused it, such as the system's error below that of a connection.
fn causes(e: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(e), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Passes on pieces of an answer, then its end or an error.
async fn pass_on(mut body: Incoming, sender: mpsc::Sender<io::Result<Bytes>>, waiting: Arc<AtomicUsize>) {
    loop {
        let piece = match body.frame().await {
            None => return,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => Ok(data),
                // Trailers.
                Err(_) => continue,
            },
            Some(Err(e)) => Err(io::Error::other(causes(&e))),
        };
        let is_over = piece.is_err();
        waiting.fetch_add(1, Ordering::AcqRel);
        if sender.send(piece).await.is_err() || is_over {
            return;
        }
    }
}

/// A streamed answer, to be read by a thread that may block.
pub(crate) struct ResponseReader {
    coming: mpsc::Receiver<io::Result<Bytes>>,
    waiting: Arc<AtomicUsize>,
    piece: Bytes,
}

impl ResponseReader {
    /// The number of received pieces not read yet.
    pub fn waiting(&self) -> Arc<AtomicUsize> {
        self.waiting.clone()
    }
}

impl Read for ResponseReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            match self.coming.blocking_recv() {
                None => return Ok(0),
                Some(piece) => {
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.piece = piece?;
                }
            }
        }
        let part = self.piece.split_to(into.len().min(self.piece.len()));
        into[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

fn connector(cafile: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let found: Vec<CertificateDer<'static>> = match cafile {
        Some(file) => {
            let invalid = |e: &dyn std::fmt::Display| {
                Error::new(ErrorKind::InvalidArgument, format!("certificates in PEM are expected: {e}")).at(file)
            };
            let found = CertificateDer::pem_file_iter(file).map_err(|e| invalid(&e))?;
            found.collect::<std::result::Result<_, _>>().map_err(|e| invalid(&e))?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(found);
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
        assert!(error("http://data.example.org/ticks", &token).contains("without TLS"));
        assert!(Client::new("http://127.0.0.1:1/ticks", &token).is_ok());
        assert!(Client::new("http://h/ticks", &ClientOptions { insecure: true, ..token }).is_ok());
    }
}
