//! What is read, computed and written: files, streams, arrays in memory, and what is asked of their rows.

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
