//! Text: CSV and JSON into record batches, and datasets as tables, CSV and JSON.
//!
//! In reading order: `display` (values), `preview` (tables); with the feature `text` `to_json` (values for programs),
//! `rows` (lines of text out of rows), `scalar` (values from text), `columns` (columns of them), `stream` (rows as they
//! arrive), `pipeline` (several threads, one order), `chunks` (rows for them), `parse` (rows and their types), `text_file` (files, compressed or not), `csv`, `json`. One of the four wings on `dataset` (`ipc`, `compute`, `text`, `cdata`), which don't know
//! each other.

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
#[doc(hidden)]
pub use display::{ellipsize, format_bytes, format_count, plural};
#[cfg(feature = "text")]
pub use json::{JsonOptions, read_json_from, read_json_in_order, stream_json};
#[cfg(feature = "text")]
pub use parse::{TextBatches, TextTarget};
pub use preview::Preview;
#[doc(hidden)]
#[cfg(feature = "text")]
pub use rows::{JsonLines, csv_header, push_csv_row};
#[doc(hidden)]
#[cfg(feature = "text")]
pub use scalar::{parse_time, utc_offset_hint};
#[cfg(feature = "text")]
pub use stream::TextStream;
#[cfg(feature = "text")]
pub use text_file::{TextFile, decompress_reader};
