//! Tests of reading, computing on and writing data that doesn't change: files, streams and arrays in memory.

#[path = "../support/columns.rs"]
mod columns;
#[path = "../support/handmade.rs"]
mod handmade;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/thread.rs"]
mod thread;
#[path = "../support/wait.rs"]
mod wait;

mod compute;
mod conditions;
mod corpus;
mod coverage;
mod encoder;
mod expressions;
mod golden;
mod golden_json;
mod memory;
mod peers;
mod prefetch;
mod regressions;
mod shards;
mod streams;
mod write;
