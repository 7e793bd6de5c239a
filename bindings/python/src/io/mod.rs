//! Opens, reads, writes and checks files, streams and text.
//!
//! The modules, in reading order:
//! - `path`: paths that Python gives;
//! - `open`: paths, URLs and bytes as a dataset;
//! - `bytes`: destinations and sources of bytes;
//! - `write`: a table as a file;
//! - `stream`: record batches, one after the other;
//! - `read_text`: CSV and JSON;
//! - `check`: finds damage, and keeps the good rows.
//!
//! Uses `incoming`, `dataset` and lower rooms.

pub mod bytes;
pub mod check;
pub mod open;
pub mod path;
pub mod read_text;
pub mod stream;
pub mod write;
