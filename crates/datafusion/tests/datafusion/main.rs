//! Tests that queries over files and tables return the same as queries over the same rows in DataFusion's memory.

mod conditions;
mod damaged;
mod live;
mod plans;
mod random;
#[path = "../support/queries.rs"]
mod support;
mod tpch;
#[path = "../support/tpch_rows.rs"]
mod tpch_rows;
