//! Text: CSV and JSON into record batches, and datasets as tables, CSV and JSON.
//!
//! In reading order: `display` (values), `preview` (tables); with the feature `text` `to_json` (values for programs),
//! `rows` (lines of text out of rows), `scalar` (values from text), `columns` (columns of them), `lines` (rows as they
//! arrive), `belt` (several threads, one order), `chunks` (rows for them), `once` (rows and their types), `source` (files, compressed or not), `csv`, `json`. One of the four wings on `dataset` (`ipc`, `compute`, `text`, `cdata`), which don't know
//! each other.

#[cfg(feature = "text")]
mod belt;
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
mod lines;
#[cfg(feature = "text")]
mod once;
mod preview;
#[cfg(feature = "text")]
mod rows;
#[cfg(feature = "text")]
mod scalar;
#[cfg(feature = "text")]
mod source;
#[cfg(feature = "text")]
mod to_json;

#[cfg(feature = "text")]
pub use self::csv::{CsvOptions, read_csv_from, read_csv_in_order, stream_csv};
#[doc(hidden)]
pub use display::{format_bytes, format_count, ellipsize, plural};
#[cfg(feature = "text")]
pub use json::{JsonOptions, read_json_from, read_json_in_order, stream_json};
#[cfg(feature = "text")]
pub use lines::TextStream;
#[cfg(feature = "text")]
pub use once::{TextBatches, TextTarget};
pub use preview::Preview;
#[doc(hidden)]
#[cfg(feature = "text")]
pub use rows::{JsonLines, csv_header, push_csv_row};
#[doc(hidden)]
#[cfg(feature = "text")]
pub use scalar::{utc_offset_hint, parse_time};
#[cfg(feature = "text")]
pub use source::{TextFile, decompress_reader};
