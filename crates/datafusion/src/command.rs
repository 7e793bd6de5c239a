//! [`CommandEngine`]: the command `arrowwood` with DataFusion as its engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::{Dataset, ErrorKind};
use arrowwood_cli::{ClusterOptions, Engine};
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlQuery, SqlTables, WorkerEngine};

use crate::apart::ProcessEngine;
use crate::cluster::{ask_cluster, worker_of};
use crate::engine::QueryEngine;

/// The memory of a query where the system doesn't say how much there is.
const MEMORY: usize = 4 << 30;
const NO_PARQUET: &str = "Parquet needs the command of the Python package: pip install 'arrowwood[parquet]'";

/// The engine of the command `arrowwood-datafusion`.
pub struct CommandEngine {
    engine: Arc<QueryEngine>,
    /// The engine for clients of a server.
    server: Arc<ProcessEngine>,
}

impl CommandEngine {
    /// The command with `engine`, in a program that calls [`run_query_process`](crate::run_query_process), too.
    pub fn new(engine: QueryEngine) -> CommandEngine {
        let engine = Arc::new(engine);
        // The same program, though another may be in its place by now.
        let server = Arc::new(ProcessEngine::new(engine.clone(), "/proc/self/exe"));
        CommandEngine { engine, server }
    }

    fn ask(&self, text: &str, tables: PathTables, most: Option<u64>) -> Result<Dataset, String> {
        let memory = Arc::new(SingleQueryMemory(half_of_memory()));
        let query = SqlQuery { text: text.to_owned(), parameters: None, tables: Arc::new(tables), memory, most };
        self.engine.collect(query).map_err(|e| e.to_string())
    }
}

impl Engine for CommandEngine {
    fn sql(&self, query: &str) -> Result<Dataset, String> {
        self.ask(query, PathTables { own: None }, None)
    }

    fn sql_on_path(&self, query: &str, path: &Path, most: u64, _: &Arc<AtomicBool>) -> Result<Dataset, String> {
        self.ask(query, PathTables { own: Some(path.to_path_buf()) }, Some(most))
    }

    fn server_engine(&self) -> Option<Arc<dyn SqlEngine>> {
        Some(self.server.clone())
    }

    fn sql_on_cluster(&self, query: &str, cluster: &ClusterOptions) -> Result<Dataset, String> {
        ask_cluster(query, cluster)
    }

    fn worker_engine(&self, cluster: &ClusterOptions, memory_limit: usize) -> Result<Arc<dyn WorkerEngine>, String> {
        worker_of(cluster, memory_limit)
    }

    fn read_parquet(&self, _: &Path) -> Result<Dataset, String> {
        Err(NO_PARQUET.into())
    }

    fn write_parquet(&self, _: &Dataset, _: &Path) -> Result<(), String> {
        Err(NO_PARQUET.into())
    }
}

/// Tables by their paths; or only one, as `self`.
struct PathTables {
    own: Option<PathBuf>,
}

impl SqlTables for PathTables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(self.own.iter().map(|_| "self".to_owned()).collect())
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
        match &self.own {
            Some(own) => (name == "self").then(|| own.clone()),
            None => Some(name.into()),
        }
    }
}

/// The memory of the only query there is.
struct SingleQueryMemory(usize);

impl SqlMemory for SingleQueryMemory {
    fn max_bytes(&self) -> usize {
        self.0
    }

    fn free(&self) -> usize {
        self.0
    }

    fn take(&self, _: usize) -> bool {
        // The pool bounds the parts of the query together already.
        true
    }

    fn release(&self, _: usize) {}
}

fn half_of_memory() -> usize {
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let total = meminfo.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("MemTotal:")));
    let kilobytes = total.and_then(|total| total.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kilobytes.map_or(MEMORY, |kilobytes| kilobytes * 1024 / 2)
}
