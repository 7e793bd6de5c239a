//! Text: CSV and JSON into record batches, and datasets as tables, CSV and JSON.
//!
//! In reading order: `scalar` (values out of text), `columns` (columns of them), `lines` (rows as they come), `csv`,
//! `json`, `display`. One of the four wings on `dataset` (`ipc`, `compute`, `text`, `cdata`), which don't know each
//! other.

mod columns;
mod csv;
mod display;
mod json;
mod lines;
mod scalar;

pub use self::csv::{CsvOptions, read_csv_from, stream_csv};
pub use display::Preview;
#[doc(hidden)]
pub use display::{bytes_text, count_text, cut, plural};
pub use json::{JsonOptions, read_json_from, stream_json};
pub use lines::Incoming;
