//! Implements `arrowwood serve`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Error, ErrorKind};
use arrowwood_serve::{ClientOptions, Limits, Options, Server, WorkerEngine};
use clap::Args;

use crate::engine::{ClusterOptions, Engine, NO_CLUSTER};
use crate::shell::{CliError, CliResult, Stdout};

/// Serve the tables and Arrow files of a directory over HTTP.
///
/// Prints its URL as the first line. Without tokens any client may read and append, so it serves only this machine
/// unless --tls-cert, --tls-key and --token-file are given.
#[derive(Args)]
#[command(after_help = "Example: arrowwood serve data\n\
                  Example: curl 'http://127.0.0.1:7447/v1/tables/ticks/rows?from=-10' | arrowwood head -")]
pub(crate) struct Serve {
    /// Address to listen on; port 0 selects a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7447")]
    listen: String,
    /// The certificate chain, in PEM. Renewal needs no restart.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Tokens and their rights to read and write tables: see `arrowwood token`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Refuse all writes.
    #[arg(long)]
    read_only: bool,
    /// Maximum concurrent connections.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// An additional host name to accept in requests; may be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Memory for received rows that are not yet committed, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().ingest_memory)]
    ingest_memory: usize,
    /// Memory for all requests that look at rows (conditions, groups, statistics, SQL), in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().query_memory)]
    query_memory: usize,
    /// Seconds that the server works on one such request; 0 for no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().query_timeout.as_secs())]
    query_timeout: u64,
    /// Take part in queries over several servers (`arrowwood sql --cluster`), which the file lists: one URL a line. The
    /// server asks no others. Needs the program arrowwood-datafusion.
    #[arg(long, value_name = "FILE")]
    worker: Option<PathBuf>,
    /// Certificates of the other servers to trust, in PEM, instead of the system's.
    #[arg(long, value_name = "FILE", requires = "worker")]
    worker_cafile: Option<PathBuf>,
    /// Serve other machines without TLS or tokens.
    #[arg(long)]
    insecure: bool,
    /// The directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Serve {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&dyn Engine>) -> CliResult {
        let limits = Limits {
            connections: self.max_connections,
            ingest_memory: self.ingest_memory,
            query_memory: self.query_memory,
            query_timeout: if self.query_timeout == 0 {
                Duration::MAX
            } else {
                Duration::from_secs(self.query_timeout)
            },
            ..Limits::default()
        };
        let worker = match &self.worker {
            Some(hosts) => Some(self.worker_engine(hosts, engine)?),
            None => None,
        };
        let options = Options {
            listen: self.listen.clone(),
            tls: self.tls_cert.clone().zip(self.tls_key.clone()),
            token_file: self.token_file.clone(),
            read_only: self.read_only,
            insecure: self.insecure,
            hosts: self.host.clone(),
            limits,
            sql: engine.and_then(Engine::server_engine),
            worker,
            ..Options::default()
        };
        let server = Server::bind(&self.directory, &options)?;
        server.handle_signals()?;
        writeln!(out, "{}", server.url())?;
        out.flush()?;
        Ok(server.run()?)
    }

    /// Creates the engine for queries of the cluster whose servers are listed in the file `hosts`.
    fn worker_engine(&self, hosts: &Path, engine: Option<&dyn Engine>) -> CliResult<Arc<dyn WorkerEngine>> {
        let Some(engine) = engine else { return Err(CliError::new(NO_CLUSTER)) };
        let cafile = self.worker_cafile.clone();
        let client = ClientOptions { token: None, cafile, insecure: self.insecure };
        let cluster = ClusterOptions { hosts: hosts.to_path_buf(), client };
        let worker = engine.worker_engine(&cluster, self.query_memory);
        Ok(worker.map_err(|problem| Error::new(ErrorKind::InvalidArgument, problem))?)
    }
}
