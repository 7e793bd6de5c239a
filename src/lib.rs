//! Arrowwood opens Apache Arrow data of any size **in place**, by memory mapping, in microseconds.
//!
//! In reading order: `error`, `map` (files as memory), `parallel`, [`layout`] (which buffers a type has), `parse` (types
//! out of text), `buffer` (bytes with an owner), `value` (one cell), `validate`, `column` and `dataset`, `memory` (arrays
//! as one), `meaning`, `display`,
//! `text` (values out of it), `sink` (columns of them), `feed` (rows as they come), `csv`, `json`, `ipc`, `table` (those
//! that grow), `open`, `check`, `compute`, `cdata`. Each uses those before it and nothing behind it; `ARCHITECTURE.md` has the
//! picture.

mod buffer;
mod cdata;
mod check;
mod column;
mod compute;
mod csv;
mod dataset;
mod display;
mod error;
mod feed;
mod index;
mod ipc;
mod json;
pub mod layout;
mod map;
mod meaning;
mod memory;
mod open;
mod parallel;
mod parse;
mod row;
mod sink;
mod table;
mod text;
mod validate;
mod value;

pub use crate::csv::{CsvOptions, read_csv_from, stream_csv};
pub use buffer::Bytes;
pub use check::{Report, check, check_bytes, repair};
pub use column::Column;
pub use compute::{Aggregation, Col, Function, Literal, Operator, Predicate, col};
pub use dataset::{Dataset, Footprint};
pub use display::Preview;
#[doc(hidden)]
pub use display::{bytes_text, count_text, cut, plural};
pub use error::{Error, ErrorKind, Finding, Result};
pub use feed::Incoming;
pub use ipc::{
    BufferInfo, Compression, FieldInfo, Format, Kind, Message, NodeInfo, StreamReader, StreamWriter, Validate,
    WriteOptions, read_stream, write, write_to,
};
pub use json::{JsonOptions, read_json_from, stream_json};
pub use layout::{field_type_name, type_name};
#[doc(hidden)]
pub use map::ignore_file_size_signal;
pub use map::{Element, GrowableBuffer, Mapping, Mode, View, guard};
pub use open::{Open, Place, open};
pub use parse::{parse_schema, parse_type};
pub use row::Row;
#[doc(hidden)]
pub use table::publish;
pub use table::{Builder, Follow, Repaired, Sync, TableStat, Writer, WriterOptions, compact, follow, table_stat};
pub use value::{Items, Members, Value};

/// For tests: disks that are watched, and machines that are started again.
#[doc(hidden)]
pub mod simulate {
    pub use crate::map::{Act, Medium, Witness, pretend_boot};
    pub use crate::table::compact_on;
}
