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
//! A query fails if rows are dropped from a table before it has read them: run it again.
//!
//! # Tables of your own
//! A [`TableProvider`](datafusion::catalog::TableProvider) for rows that are found in another way, such as those of
//! several servers, returns a [`Scan`] of them: [`Scan::try_new`] makes it, and a [`Condition`] says whether it takes
//! a condition over. [`Scan::with_options`] makes a scan that a [`CancelToken`] ends, or whose batches count at their
//! own size in DataFusion's memory; [`shrink_to_fit`] does that for other batches.
//!
//! The crate `arrowwood-query` is the program `arrowwood-datafusion`, with which `arrowwood serve` and `arrowwood sql`
//! answer SQL.
//!
//! # Trust
//! Values are checked before DataFusion sees them, and damaged data is an error. Batches are mapped memory of the
//! files: a file that is truncated while DataFusion reads it ends the process, as for all [arrays handed to
//! others](arrowwood#trust). [`Table::copied`] copies the rows first, and returns an error in all cases.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod cancel_token;
mod error;
mod exact_size;
mod follow;
mod pushdown;
mod scan;
mod statistics;
mod table;

pub use cancel_token::CancelToken;
pub use exact_size::shrink_to_fit;
pub use follow::follow;
pub use pushdown::Condition;
pub use scan::{Scan, ScanOptions, ScanRequest};
pub use table::Table;
