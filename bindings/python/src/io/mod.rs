//! Opens, reads, writes and checks files, streams and text.
//!
//! The modules, in reading order:
//! - `open`: paths, URLs and bytes as a dataset;
//! - `byte_io`: destinations and sources of bytes;
//! - `write`: a table as a file;
//! - `stream`: record batches, one after the other;
//! - `read_text`: CSV and JSON;
//! - `check`: finds damage, and keeps the good rows.
//!
//! Uses `incoming`, `dataset` and lower rooms.

pub mod byte_io;
pub mod check;
pub mod open;
pub mod read_text;
pub mod stream;
pub mod write;
