//! Queries over files and tables, beside those over the same rows in DataFusion's memory.

mod broken;
mod cluster;
mod conditions;
mod hosts;
mod live;
mod plans;
mod support;
mod tpch;
