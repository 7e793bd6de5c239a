//! Tests of reading, computing on and writing data that doesn't change: files, streams and arrays in memory.

#[path = "../../../../tests/support/columns.rs"]
mod columns;
#[path = "../../../../tests/support/handmade.rs"]
mod handmade;
#[path = "../../../../tests/support/samples.rs"]
mod samples;
#[path = "../../../../tests/support/thread.rs"]
mod thread;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod byte_order;
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
