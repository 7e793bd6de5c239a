//! Objects on a web server that counts, lies, stalls and breaks off, beside the same file on the disk.

mod equal;
mod lies;
mod pushed;
mod requests;
mod server;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/wait.rs"]
mod wait;
