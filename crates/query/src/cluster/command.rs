//! The functions of the command `arrowwood` that use a cluster.

use std::sync::Arc;

use arrowwood::Dataset;
use arrowwood_cli::ClusterOptions;
use arrowwood_serve::WorkerEngine;

use crate::cluster::peers::PeerOptions;
use crate::cluster::query::Cluster;
use crate::cluster::worker::{Worker, WorkerOptions};

fn peer_options(cluster: &ClusterOptions) -> PeerOptions {
    PeerOptions { token: cluster.token.clone(), cafile: cluster.cafile.clone(), insecure: cluster.insecure }
}

/// Returns the rows that `arrowwood sql --cluster` prints.
///
/// # Errors
/// Messages of the errors of [`Cluster::open`] and [`Cluster::sql`].
pub(crate) fn query_cluster(statement: &str, options: &ClusterOptions) -> Result<Dataset, String> {
    let cluster = Cluster::open(&options.hosts, &peer_options(options)).map_err(|e| e.to_string())?;
    cluster.sql(statement).map_err(|e| e.to_string())
}

/// Creates the engine of `arrowwood serve --worker`.
///
/// # Errors
/// Messages of the errors of [`Worker::new`].
pub(crate) fn create_worker(options: &ClusterOptions, memory: usize) -> Result<Arc<dyn WorkerEngine>, String> {
    let worker_options = WorkerOptions { memory, peers: peer_options(options), ..WorkerOptions::default() };
    Ok(Arc::new(Worker::new(&options.hosts, &worker_options).map_err(|e| e.to_string())?))
}
