//! Rows that come in and go out: datasets to open, rows to append, rows printed.
//!
//! The modules, in reading order:
//! - `open`: paths and standard input as datasets;
//! - `text_args`: arguments about CSV and JSON;
//! - `detect_format`: formats by their first bytes;
//! - `input`: rows to append;
//! - `output`: rows as a table, CSV or JSON.
//!
//! Uses `shell`.

pub(crate) mod detect_format;
pub(crate) mod input;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod text_args;
