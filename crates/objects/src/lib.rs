//! Arrow files in object stores and on web servers, read by ranges of bytes.
//!
//! ```no_run
//! let ticks = arrowwood_objects::open("s3://bucket/ticks/00000000000000000000.arrow")?;
//! println!("{} rows, one of them {:?}", ticks.len()?, ticks.row(1_000_000)?);
//! println!("{:?}", ticks.column("price")?.sum()?); // fetches this column
//! # Ok::<(), arrowwood::Error>(())
//! ```
//! The end of a file, which lists its batches, is read when it is opened; what a call looks at, is fetched when it does. It
//! comes into a sparse file that is mapped, so that everything works as on a local file.
//!
//! # Inside
//! In reading order: `range_set` (which bytes are there), `client` (requests as they are sent), `error` (what went
//! wrong, in a sentence), `runtime` (threads),
//! `location` (URLs and stores), `object` (one object, read by ranges), `fetcher` (what is asked for, into a sparse file),
//! `open`, `upload` (rows as an object), `push`.
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
