//! Tests the engine of the command and of servers, and queries over several servers.

mod cluster;
mod cluster_tpch;
mod engine;
mod hosts;
#[allow(dead_code)]
#[path = "../../../datafusion/tests/support/queries.rs"]
mod support;
#[path = "../../../datafusion/tests/support/tpch_rows.rs"]
mod tpch_rows;
