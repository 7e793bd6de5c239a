//! Reads CSV and JSON into record batches, and writes datasets as tables, CSV and JSON.
//!
//! The modules, each of which uses only those before it:
//! - `display` formats values, and `preview` tables, for people.
//! - `to_json` formats values for programs, and `rows` formats rows as lines of CSV and JSON.
//! - `scalar` parses values, and `columns` collects them in arrays.
//! - `stream` parses rows as they arrive.
//! - `pipeline` distributes work over threads, `chunks` divides a text for them, and `parse` parses chunks and infers
//!   types.
//! - `text_file` opens files, compressed or not.
//! - `csv` and `json` have the parsers of both formats.
//!
//! `display` and `preview` are always there, as everyone wants to print values; the others need the feature `text`.
//! This module and `ipc`, `compute` and `cdata` use `dataset`, but not each other.

#[cfg(feature = "text")]
mod chunks;
#[cfg(feature = "text")]
mod columns;
#[cfg(feature = "text")]
mod csv;
mod display;
#[cfg(feature = "text")]
mod json;
#[cfg(feature = "text")]
mod parse;
#[cfg(feature = "text")]
mod pipeline;
mod preview;
#[cfg(feature = "text")]
mod rows;
#[cfg(feature = "text")]
mod scalar;
#[cfg(feature = "text")]
mod stream;
#[cfg(feature = "text")]
mod text_file;
#[cfg(feature = "text")]
mod to_json;

#[cfg(feature = "text")]
pub use self::csv::{CsvOptions, read_csv_from, read_csv_in_order, stream_csv};
pub use display::{ellipsize, format_bytes, format_count, plural};
#[cfg(feature = "text")]
pub use json::{JsonOptions, read_json_from, read_json_in_order, stream_json};
#[cfg(feature = "text")]
pub use parse::{TextBatches, TextTarget};
pub use preview::Preview;
#[cfg(feature = "text")]
pub use rows::{JsonLines, csv_header, push_csv_row};
#[cfg(feature = "text")]
pub use scalar::{parse_time, utc_offset_advice};
#[cfg(feature = "text")]
pub use stream::TextStream;
#[cfg(feature = "text")]
pub use text_file::{TextFile, decompress_reader};
