//! Tests objects on a web server that counts requests, sends wrong responses, stalls and breaks off, against the same
//! files on disk; and tables that are pushed to a folder.

mod faults;
mod operations;
mod push;
mod requests;
mod server;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/wait.rs"]
mod wait;
