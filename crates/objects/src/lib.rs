//! Reads Arrow files in object stores and on web servers, by ranges of bytes.
//!
//! ```no_run
//! let ticks = arrowwood_objects::open("s3://bucket/ticks/00000000000000000000.arrow")?;
//! println!("{} rows, one of them {:?}", ticks.len()?, ticks.row(1_000_000)?);
//! println!("{:?}", ticks.column("price")?.sum()?); // fetches this column
//! # Ok::<(), arrowwood::Error>(())
//! ```
//! Opening a file reads its end, which lists its batches. Calls that need other ranges fetch them into a sparse file
//! that is mapped, so that everything works as on a local file.
//!
//! | task | use |
//! |---|---|
//! | open an object, or all of a folder | [`open()`], [`open_with`] |
//! | let [`arrowwood::open`] take URLs | [`install`] |
//! | copy a table to a store as it grows | [`push()`], [`PushOptions`] |

// The modules in reading order: `range_set` (sets of byte ranges), `client` (HTTP client), `error` (messages),
// `runtime` (threads), `location` (URLs and stores), `object` (reads ranges of an object), `fetcher` (fetches ranges
// into a sparse file), `open` (opens URLs as datasets), `upload` (writes rows as an object), `push` (copies a table).
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
