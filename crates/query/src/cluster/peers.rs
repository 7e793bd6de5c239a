//! [`Peers`]: connects to the servers of a cluster, and only to these.

use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Error, ErrorKind};
use arrowwood_serve::ClientOptions;
use async_trait::async_trait;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel, WorkerResolver};
use tonic::transport::{Certificate, Channel, ClientTlsConfig};
use url::Url;

use crate::cluster::hosts::is_loopback;

/// The maximum time to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a TCP connection is silent before the system probes it.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// The time between two HTTP/2 pings, and the maximum time of the answer to one.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// The maximum bytes of a stream that were received and not read yet.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The maximum bytes of a connection that were received and not read yet.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// The servers of a cluster, in the order of its list.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    urls: Arc<[Url]>,
    authority: Option<Certificate>,
}

impl Peers {
    /// Creates the peers at `urls`.
    ///
    /// # Errors
    /// `InvalidArgument` for another machine without TLS; `Io` if the certificates can't be read.
    pub fn new(urls: Vec<Url>, options: &ClientOptions) -> arrowwood::Result<Peers> {
        let unencrypted = urls.iter().find(|url| url.scheme() == "http" && !is_loopback(url));
        if let Some(url) = unencrypted.filter(|_| !options.insecure) {
            let message =
                format!("{url} is another machine, and others can read what it is sent: use https, or --insecure");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let mut authority = None;
        if let Some(path) = &options.cafile {
            let pem = std::fs::read(path).map_err(|e| Error::io("reading certificates", &e).at(path))?;
            authority = Some(Certificate::from_pem(pem));
        }
        Ok(Peers { urls: urls.into(), authority })
    }

    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Opens a connection to a server. Connections are not shared, as streams on one could wait for each other.
    pub async fn connect(&self, url: &Url) -> Result<Channel> {
        if !self.urls.contains(url) {
            return Err(exec_datafusion_err!("{url} is not among the servers of this cluster"));
        }
        let endpoint = Channel::from_shared(url.to_string()).map_err(|e| connect_error(url, &e))?;
        let mut endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(TCP_KEEPALIVE))
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if url.scheme() == "https" {
            let tls = match &self.authority {
                Some(authority) => ClientTlsConfig::new().ca_certificate(authority.clone()),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(|e| connect_error(url, &e))?;
        }
        endpoint.connect().await.map_err(|e| connect_error(url, &e))
    }
}

/// Converts an error, with its innermost cause as the reason.
fn connect_error(url: &Url, error: &dyn std::error::Error) -> DataFusionError {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        reason = deeper.to_string();
        source = deeper.source();
    }
    exec_datafusion_err!("connecting to {url}: {reason}")
}

#[async_trait]
impl ChannelResolver for Peers {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        Ok(create_worker_client(BoxCloneSyncChannel::new(self.connect(url).await?)))
    }
}

impl WorkerResolver for Peers {
    /// Returns the servers in order. A single one is returned twice, as the engine distributes nothing to one.
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(match self.urls.as_ref() {
            [only] => vec![only.clone(), only.clone()],
            urls => urls.to_vec(),
        })
    }
}
