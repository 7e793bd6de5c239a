//! [`CommandEngine`]: the command `arrowwood` with DataFusion as its engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::mapping::os;
use arrowwood::{Dataset, ErrorKind};
use arrowwood_cli::{ClusterOptions, Engine};
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlQuery, SqlTables, WorkerEngine};

use crate::cluster::{Cluster, Worker, WorkerOptions};
use crate::engine::QueryEngine;
use crate::processes::ProcessEngine;

/// The memory of a query if the system does not report its own.
const DEFAULT_MEMORY: usize = 4 << 30;
/// The error of this command for Parquet files, which only the Python package reads and writes.
const NO_PARQUET: &str = "Parquet needs the command of the Python package: pip install 'arrowwood[parquet]'";

/// The engine of the command `arrowwood-datafusion`.
pub struct CommandEngine {
    /// The engine for the statements of the user, who is trusted.
    engine: Arc<QueryEngine>,
    /// The engine for the clients of a server.
    server: Arc<ProcessEngine>,
}

impl CommandEngine {
    /// Creates the engine of a program that calls [`run_query_process`](crate::run_query_process) if it is started as a
    /// query process.
    pub fn new(engine: QueryEngine) -> CommandEngine {
        let engine = Arc::new(engine);
        let server = Arc::new(ProcessEngine::new(engine.clone(), os::current_program()));
        CommandEngine { engine, server }
    }

    fn run(&self, text: &str, tables: PathTables, max_rows: Option<u64>) -> Result<Dataset, String> {
        let memory = Arc::new(SingleQueryMemory { max_bytes: half_of_memory() });
        let query =
            SqlQuery { text: text.to_owned(), parameters: None, tables: Arc::new(tables), memory, most: max_rows };
        self.engine.collect(query).map_err(|e| e.to_string())
    }
}

impl Engine for CommandEngine {
    fn name(&self) -> String {
        format!("DataFusion {}", datafusion::DATAFUSION_VERSION)
    }

    fn sql(&self, query: &str) -> Result<Dataset, String> {
        self.run(query, PathTables { only: None }, None)
    }

    fn sql_on_path(&self, query: &str, path: &Path, max_rows: u64, _: &Arc<AtomicBool>) -> Result<Dataset, String> {
        self.run(query, PathTables { only: Some(path.to_path_buf()) }, Some(max_rows))
    }

    fn server_engine(&self) -> Option<Arc<dyn SqlEngine>> {
        Some(self.server.clone())
    }

    fn sql_on_cluster(&self, query: &str, cluster: &ClusterOptions) -> Result<Dataset, String> {
        let cluster = Cluster::open(&cluster.hosts, &cluster.client).map_err(|e| e.to_string())?;
        cluster.sql(query).map_err(|e| e.to_string())
    }

    fn worker_engine(&self, cluster: &ClusterOptions, memory_limit: usize) -> Result<Arc<dyn WorkerEngine>, String> {
        let options = WorkerOptions { memory: memory_limit, peers: cluster.client.clone(), ..WorkerOptions::default() };
        Ok(Arc::new(Worker::new(&cluster.hosts, &options).map_err(|e| e.to_string())?))
    }

    fn read_parquet(&self, _: &Path) -> Result<Dataset, String> {
        Err(NO_PARQUET.into())
    }

    fn write_parquet(&self, _: &Dataset, _: &Path) -> Result<(), String> {
        Err(NO_PARQUET.into())
    }
}

/// The tables that a statement can name: any by its path, or only one, by the name `self`.
struct PathTables {
    /// The path of the only table; `None` if tables are named by their paths.
    only: Option<PathBuf>,
}

impl SqlTables for PathTables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(self.only.iter().map(|_| "self".to_owned()).collect())
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        let Some(path) = self.path(name) else { return Ok(None) };
        match arrowwood::open(&path) {
            Ok(rows) => Ok(Some(rows)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match &self.only {
            Some(path) => (name == "self").then(|| path.clone()),
            None => Some(name.into()),
        }
    }
}

/// The memory of the only query of the process.
struct SingleQueryMemory {
    max_bytes: usize,
}

impl SqlMemory for SingleQueryMemory {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn free(&self) -> usize {
        self.max_bytes
    }

    fn take(&self, _: usize) -> bool {
        // The query's memory pool has the same limit already.
        true
    }

    fn release(&self, _: usize) {}
}

/// Returns half of the system's memory in bytes.
fn half_of_memory() -> usize {
    let half = os::total_memory().and_then(|bytes| usize::try_from(bytes / 2).ok());
    half.unwrap_or(DEFAULT_MEMORY)
}
