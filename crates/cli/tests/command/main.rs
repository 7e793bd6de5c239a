//! Tests that run the command `arrowwood` as a process.

#[path = "../../../../tests/support/running.rs"]
mod running;
#[cfg(feature = "serve")]
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod cli;
#[cfg(feature = "serve")]
mod faults;
#[cfg(feature = "serve")]
mod kills;
#[cfg(feature = "serve")]
mod serve;
mod support;
mod table;
