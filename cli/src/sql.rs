//! `arrowwood sql`.

use std::io::Read;
use std::path::Path;
#[cfg(feature = "serve")]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::{Dataset, Error, ErrorKind};
#[cfg(feature = "serve")]
use arrowwood_serve::{SqlEngine, WorkerEngine};
use clap::Args;

use crate::output::{OutputArgs, print};
use crate::shell::{CliError, CliResult, Stdout, reader};

/// What programs without such an engine say.
#[cfg(feature = "serve")]
pub(crate) const NO_CLUSTER: &str = "queries over several servers need the program arrowwood-datafusion: cargo install \
                                     --path crates/datafusion";

/// The servers of a cluster, and how they are asked.
#[cfg(feature = "serve")]
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The file that lists them.
    pub hosts: PathBuf,
    /// Sent with each request.
    pub token: Option<String>,
    /// Certificates to trust, in PEM, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// Whether to ask other machines without TLS.
    pub insecure: bool,
}

/// What the program that runs the command can do besides this library: SQL and Parquet. Errors are messages.
pub trait Engine: Sync {
    /// The rows that a query asks for.
    ///
    /// # Errors
    /// What is wrong with the query.
    fn sql(&self, query: &str) -> Result<Dataset, String>;

    /// The first rows, at most `most`, that one statement asks for which reads only the data at `path`, there called self.
    /// Ends when `given_up` is set.
    ///
    /// # Errors
    /// What is wrong with the query.
    fn sql_on_path(&self, query: &str, path: &Path, most: u64, given_up: &Arc<AtomicBool>) -> Result<Dataset, String>;

    /// The engine that `arrowwood serve` has, and the page of `arrowwood view` if there is one; `None` where SQL is not for
    /// clients of a server.
    #[cfg(feature = "serve")]
    fn server_engine(&self) -> Option<Arc<dyn SqlEngine>> {
        None
    }

    /// The rows that a statement asks of the tables of all servers of a cluster.
    ///
    /// # Errors
    /// What is wrong with the statement, or with a server.
    #[cfg(feature = "serve")]
    fn sql_on_cluster(&self, _query: &str, _cluster: &ClusterOptions) -> Result<Dataset, String> {
        Err(NO_CLUSTER.into())
    }

    /// What answers the queries of a cluster in `arrowwood serve --worker`: `cluster` is how it asks the other servers.
    ///
    /// # Errors
    /// Why it can't.
    #[cfg(feature = "serve")]
    fn worker_engine(&self, _cluster: &ClusterOptions, _memory: usize) -> Result<Arc<dyn WorkerEngine>, String> {
        Err(NO_CLUSTER.into())
    }

    /// The rows of a Parquet file, of the types that Arrow has noted there.
    ///
    /// # Errors
    /// What is wrong with the file.
    fn read_parquet(&self, path: &Path) -> Result<Dataset, String>;

    /// Writes a Parquet file, which gets its name when it is complete.
    ///
    /// # Errors
    /// Why that was not possible.
    fn write_parquet(&self, dataset: &Dataset, path: &Path) -> Result<(), String>;
}

/// Run an SQL query by DuckDB, or by DataFusion.
///
/// Name tables by their path in quotes: any PATH of the other verbs, and with DuckDB Parquet, CSV and JSON files. DuckDB comes
/// with the Python package: pip install 'arrowwood[sql]'; DataFusion is in the program arrowwood-datafusion, which this command
/// becomes where it is installed.
///
/// With --cluster, tables are those of the servers, by name; one that several servers have is the rows of all.
#[derive(Args)]
#[command(after_help = "Example: arrowwood sql 'select symbol, avg(price) from \"ticks/\" group by symbol' --csv\n\
                  Example: arrowwood sql --cluster hosts.txt 'select symbol, avg(price) from ticks group by symbol'")]
pub(crate) struct Sql {
    #[command(flatten)]
    form: OutputArgs,
    /// A file with the URLs of servers, http://HOST:PORT or https://HOST:PORT, one a line.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// A file with the token for all of them, as `arrowwood token add` has printed it.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    token_file: Option<PathBuf>,
    /// Certificates to trust, in PEM, instead of the system's.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    cafile: Option<PathBuf>,
    /// Ask other machines without TLS.
    #[cfg(feature = "serve")]
    #[arg(long, requires = "cluster")]
    insecure: bool,
    /// One or several statements; prints the rows of the last; - is standard input.
    #[arg(value_name = "QUERY")]
    query: String,
}

impl Sql {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&dyn Engine>) -> CliResult {
        #[cfg(feature = "serve")]
        if let Some(hosts) = &self.cluster {
            let engine = engine.ok_or_else(|| CliError::new(NO_CLUSTER))?;
            let token = self.token_file.as_deref().map(read_token).transpose()?;
            let cluster =
                ClusterOptions { hosts: hosts.clone(), token, cafile: self.cafile.clone(), insecure: self.insecure };
            let answer = engine.sql_on_cluster(&self.text()?, &cluster);
            return print(&answer.map_err(|problem| Error::new(ErrorKind::InvalidArgument, problem))?, &self.form, out);
        }
        let missing = || {
            CliError::new(
                "sql needs the Python package: pip install 'arrowwood[sql]'; or the program arrowwood-datafusion",
            )
        };
        let answer = engine.ok_or_else(missing)?.sql(&self.text()?);
        print(&answer.map_err(|problem| Error::new(ErrorKind::InvalidArgument, problem))?, &self.form, out)
    }

    fn text(&self) -> CliResult<String> {
        if self.query != "-" {
            return Ok(self.query.clone());
        }
        let mut text = String::new();
        let read = reader(Path::new("-"))?.read_to_string(&mut text);
        read.map_err(|e| Error::io("reading the query from standard input", &e))?;
        Ok(text)
    }
}

/// The token in a file.
#[cfg(feature = "serve")]
pub(crate) fn read_token(file: &Path) -> CliResult<String> {
    let read = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
    read.map_err(|e| CliError::from(Error::io("reading the token", &e).at(file)))
}
