//! Arrowwood's files and tables as tables of DataFusion, which reads them in place.
//!
//! A [`Table`] is a file, a table that grows, a directory of partitions, or the files that match a pattern. Each query
//! reads one commit, the newest when it is planned:
//! ```
//! use std::sync::Arc;
//!
//! use arrowwood::{Writer, WriterOptions};
//! use arrowwood_datafusion::Table;
//! use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("ticks");
//! let times: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
//! let batch = RecordBatch::try_from_iter([("ts", times)])?;
//! let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
//! let mut writer = Writer::open(&path, Some(batch.schema()), &options)?;
//! writer.append(&batch)?;
//! writer.commit()?;
//!
//! let context = SessionContext::new();
//! context.register_table("ticks", Arc::new(Table::open(&path)?))?;
//! let batches = context.sql("select count(*) as n from ticks where ts >= 990").await?.collect().await?;
//! assert_eq!(batches[0].column(0).as_ref(), &Int64Array::from(vec![10]));
//! # Ok(())
//! # }
//! ```
//! Projections, limits and conditions are pushed down to the scan: rows of a sorted column are found by binary search,
//! and partitions and blocks without matching rows are skipped. The statistics for DataFusion's planner are exact: the
//! number of rows, and the order, minimum and maximum of a sorted column.
//!
//! [`follow`] returns a table as an unbounded stream.
//!
//! `QueryEngine` (with the feature `engine`, which is on by default) answers the SQL of `arrowwood serve` and of the
//! command; the program `arrowwood-datafusion` is the whole command with this engine.
//!
//! A query fails if rows are dropped from a table before it has read them: run it again.
//!
//! # Trust
//! Values are checked before DataFusion sees them, and damaged data is an error. Batches are mapped memory of the
//! files: a file that is truncated while DataFusion reads it ends the process, as for all [arrays handed to
//! others](arrowwood#trust). [`Table::copied`] copies the rows first, and returns an error in all cases.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(missing_docs)]
#![deny(unsafe_code)]

#[cfg(feature = "engine")]
mod bounded_function;
#[cfg(feature = "engine")]
mod bounded_statements;
mod cancel_token;
#[cfg(feature = "engine")]
mod catalog;
#[cfg(feature = "engine")]
mod cluster;
#[cfg(feature = "engine")]
mod command;
#[cfg(feature = "engine")]
mod concat_op;
#[cfg(feature = "engine")]
mod constants;
#[cfg(feature = "engine")]
mod engine;
mod exact_size;
mod follow;
#[cfg(feature = "engine")]
mod parameters;
#[cfg(feature = "engine")]
mod planners;
#[cfg(feature = "engine")]
mod processes;
#[cfg(feature = "engine")]
mod projection_rule;
mod pushdown;
#[cfg(feature = "engine")]
mod query_pool;
#[cfg(feature = "engine")]
mod result_bounds;
#[cfg(feature = "engine")]
mod result_budget;
mod scan;
#[cfg(feature = "engine")]
mod served_plan;
#[cfg(feature = "engine")]
mod sliced_sort;
#[cfg(feature = "engine")]
mod statement_limits;
mod statistics;
mod table;
#[cfg(feature = "engine")]
mod value_bytes;

#[cfg(feature = "engine")]
pub use cluster::{Cluster, ClusterAnswer, PeerOptions, Worker, WorkerOptions};
#[cfg(feature = "engine")]
pub use command::CommandEngine;
#[cfg(feature = "engine")]
pub use engine::QueryEngine;
pub use follow::follow;
#[cfg(feature = "engine")]
pub use processes::{ProcessEngine, WORKER, run_query_process};
pub use scan::Scan;
pub use table::Table;

/// Converts an error of Arrowwood to an error of DataFusion.
pub(crate) fn to_external_error(error: arrowwood::Error) -> datafusion::error::DataFusionError {
    datafusion::error::DataFusionError::External(Box::new(error))
}
