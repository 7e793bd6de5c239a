//! Implements `arrowwood sql`.

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

/// The error of programs without an engine for clusters.
#[cfg(feature = "serve")]
pub(crate) const NO_CLUSTER: &str = "queries over several servers need the program arrowwood-datafusion: cargo install \
                                     --path crates/datafusion";

/// The servers of a cluster, and the options of requests to them.
#[cfg(feature = "serve")]
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The file that lists them.
    pub hosts: PathBuf,
    /// Sent with each request.
    pub token: Option<String>,
    /// Certificates to trust, in PEM, instead of the system's.
    pub cafile: Option<PathBuf>,
    /// Permits requests to other machines without TLS.
    pub insecure: bool,
}

/// Runs SQL and converts Parquet for the command, which this library can't do. Errors are messages for the user.
pub trait Engine: Sync {
    /// Runs a query, and returns its rows.
    ///
    /// # Errors
    /// If the query is wrong or fails.
    fn sql(&self, query: &str) -> Result<Dataset, String>;

    /// Runs one statement that reads only the data at `path`, as a table named `self`. Returns its first rows, at most
    /// `max_rows`. Stops once `given_up` is set.
    ///
    /// # Errors
    /// If the query is wrong or fails.
    fn sql_on_path(
        &self,
        query: &str,
        path: &Path,
        max_rows: u64,
        given_up: &Arc<AtomicBool>,
    ) -> Result<Dataset, String>;

    /// Returns the engine for `arrowwood serve` and the page of `arrowwood view`, or `None` if clients of a server
    /// can't use this one.
    #[cfg(feature = "serve")]
    fn server_engine(&self) -> Option<Arc<dyn SqlEngine>> {
        None
    }

    /// Runs a statement on the tables of all servers of a cluster, and returns its rows.
    ///
    /// # Errors
    /// If the statement is wrong, or a server fails.
    #[cfg(feature = "serve")]
    fn sql_on_cluster(&self, _query: &str, _cluster: &ClusterOptions) -> Result<Dataset, String> {
        Err(NO_CLUSTER.into())
    }

    /// Creates the engine that answers queries of a cluster in `arrowwood serve --worker`. It sends requests to the
    /// other servers as `cluster` says, and uses at most `memory` bytes.
    ///
    /// # Errors
    /// If there is no such engine, or the servers can't be listed.
    #[cfg(feature = "serve")]
    fn worker_engine(&self, _cluster: &ClusterOptions, _memory: usize) -> Result<Arc<dyn WorkerEngine>, String> {
        Err(NO_CLUSTER.into())
    }

    /// Reads a Parquet file, with the types of the Arrow schema that it may contain.
    ///
    /// # Errors
    /// If the file can't be read.
    fn read_parquet(&self, path: &Path) -> Result<Dataset, String>;

    /// Writes a Parquet file, which gets its name when it is complete.
    ///
    /// # Errors
    /// If the file can't be written.
    fn write_parquet(&self, dataset: &Dataset, path: &Path) -> Result<(), String>;
}

/// Run an SQL query by DuckDB, or by DataFusion.
///
/// Name tables by their path in quotes: any PATH of the other verbs, and with DuckDB Parquet, CSV and JSON files.
/// DuckDB comes with the Python package: pip install 'arrowwood[sql]'; DataFusion is in the program
/// arrowwood-datafusion, which this command becomes where it is installed.
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
            let rows = engine.sql_on_cluster(&self.read_query()?, &cluster).map_err(query_error)?;
            return print(&rows, &self.form, out);
        }
        let Some(engine) = engine else {
            return Err(CliError::new(
                "sql needs the Python package: pip install 'arrowwood[sql]'; or the program arrowwood-datafusion",
            ));
        };
        let rows = engine.sql(&self.read_query()?).map_err(query_error)?;
        print(&rows, &self.form, out)
    }

    fn read_query(&self) -> CliResult<String> {
        if self.query != "-" {
            return Ok(self.query.clone());
        }
        let mut text = String::new();
        reader(Path::new("-"))?
            .read_to_string(&mut text)
            .map_err(|e| Error::io("reading the query from standard input", &e))?;
        Ok(text)
    }
}

/// Converts the message of an engine.
fn query_error(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Reads the token in a file.
#[cfg(feature = "serve")]
pub(crate) fn read_token(file: &Path) -> CliResult<String> {
    let text = std::fs::read_to_string(file).map_err(|e| Error::io("reading the token", &e).at(file))?;
    Ok(text.trim().to_owned())
}
