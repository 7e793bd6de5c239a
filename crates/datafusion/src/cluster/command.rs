//! The cluster as the command asks it.

use std::sync::Arc;

use arrowwood::Dataset;
use arrowwood_serve::WorkerEngine;

use crate::cluster::peers::PeerOptions;
use crate::cluster::query::Cluster;
use crate::cluster::worker::{Worker, WorkerOptions};

fn options(of: &arrowwood_cli::ClusterOptions) -> PeerOptions {
    PeerOptions { token: of.token.clone(), cafile: of.cafile.clone(), insecure: of.insecure }
}

/// Returns the rows that `arrowwood sql --cluster` prints.
///
/// # Errors
/// As [`Cluster::sql`], as messages.
pub(crate) fn ask_cluster(statement: &str, of: &arrowwood_cli::ClusterOptions) -> Result<Dataset, String> {
    let cluster = Cluster::open(&of.hosts, &options(of)).map_err(|e| e.to_string())?;
    cluster.sql(statement).map_err(|e| e.to_string())
}

/// Creates the engine of `arrowwood serve --worker`.
///
/// # Errors
/// As [`Worker::new`], as messages.
pub(crate) fn worker_of(of: &arrowwood_cli::ClusterOptions, memory: usize) -> Result<Arc<dyn WorkerEngine>, String> {
    let options = WorkerOptions { memory, peers: options(of), ..WorkerOptions::default() };
    Ok(Arc::new(Worker::new(&of.hosts, &options).map_err(|e| e.to_string())?))
}
