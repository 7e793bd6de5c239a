//! Tests that queries over files and tables return the same as queries over the same rows in DataFusion's memory.

mod cluster;
mod cluster_tpch;
mod conditions;
mod damaged;
mod engine;
mod hosts;
mod live;
mod plans;
mod random;
mod support;
mod tpch;
