//! Datasets and their columns.
//!
//! The modules, in reading order:
//! - `reopen`: how a dataset was opened;
//! - `column`: one column;
//! - `predicate`: conditions, and what is computed of columns;
//! - `dataset`: rows in place;
//! - `compute`: rows by number and by predicate, statistics;
//! - `aggregate`: aggregates of groups;
//! - `sort_unique`: rows in order;
//! - `loader`: batches for training;
//! - `polars`: rows as Polars takes them;
//! - `engines`: SQL, splits, DataFusion.
//!
//! Each file adds the methods of its topic to `Dataset` and `Column`. Uses `convert`, `types`, `exchange`, `arguments`
//! and `interpreter`.

pub mod aggregate;
pub mod column;
pub mod compute;
#[allow(clippy::module_inception)]
pub mod dataset;
pub mod engines;
pub mod loader;
pub mod polars;
pub mod predicate;
pub mod reopen;
pub mod sort_unique;
