//! Reads Arrow files in object stores and on web servers, by ranges of bytes.
//!
//! ```no_run
//! let ticks = arrowwood_objects::open("s3://bucket/ticks/00000000000000000000.arrow")?;
//! println!("{} rows, one of them {:?}", ticks.len()?, ticks.row(1_000_000)?);
//! println!("{:?}", ticks.column("price")?.sum()?); // fetches this column
//! # Ok::<(), arrowwood::Error>(())
//! ```
//! The end of a file, which lists its batches, is read when the file is opened. Other ranges are fetched by the calls
//! that need them, into a sparse file that is mapped, so that everything works as on a local file.
//!
//! # Inside
//! The modules in reading order: `range_set` (sets of ranges), `client` (sends requests), `error` (messages), `runtime`
//! (threads), `location` (URLs and stores), `object` (one object, read by ranges), `fetcher` (fetches ranges into a
//! sparse file), `open`, `upload` (rows as an object), `push`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod client;
mod error;
mod fetcher;
mod location;
mod object;
mod open;
mod push;
mod range_set;
mod runtime;
mod upload;

pub use location::Options;
pub use open::{install, open, open_with};
pub use push::{PushOptions, PushResult, push};
