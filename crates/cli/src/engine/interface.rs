//! The interface of engines: what the command needs, and the program or package with an engine provides.

use std::path::Path;
#[cfg(feature = "serve")]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::Dataset;
#[cfg(feature = "serve")]
use arrowwood_serve::{ClientOptions, SqlEngine, WorkerEngine};

/// The error of programs without an engine for clusters.
#[cfg(feature = "serve")]
pub(crate) const NO_CLUSTER: &str = "queries over several servers need the program arrowwood-datafusion: cargo install \
                                     --path crates/query";

/// The servers of a cluster, and the options of requests to them.
#[cfg(feature = "serve")]
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The file that lists them.
    pub hosts: PathBuf,
    /// The options of requests.
    pub client: ClientOptions,
}

/// Runs SQL and converts Parquet for the command, which this library can't do. Errors are messages for the user.
pub trait Engine: Sync {
    /// Returns the name of the engine for SQL, which `arrowwood --version` prints.
    fn name(&self) -> String;

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
