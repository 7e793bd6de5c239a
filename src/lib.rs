//! Arrowwood opens Apache Arrow data of any size **in place**, by memory mapping, in microseconds.
//!
//! The rooms, from the ground up: `error`; `map` (files as memory) and `types` ([`layout`](mod@layout): which buffers a
//! type has); `array` (bytes with an owner, one value, validation) and `parallel`; `dataset` (rows over batches); the
//! four wings `ipc`, `compute`, `text` and `cdata`, which don't know each other; `rows` (rows into columns); `table`
//! (those that grow); `open`; `check`. Each uses those below it; `ARCHITECTURE.md` has the picture.

mod array;
mod cdata;
mod check;
mod compute;
mod dataset;
mod error;
mod ipc;
mod map;
mod open;
mod parallel;
mod rows;
mod table;
mod text;
mod types;

pub use array::{Bytes, Items, Members, Value};
pub use check::{Report, check, check_bytes, repair};
pub use compute::{Aggregation, Col, Function, Literal, Operator, Predicate, col};
pub use dataset::{Column, Dataset, Footprint, Row};
pub use error::{Error, ErrorKind, Finding, Result};
pub use ipc::{
    BufferInfo, Compression, FieldInfo, Format, Kind, Message, NodeInfo, StreamReader, StreamWriter, Validate,
    WriteOptions, read_stream, write, write_to,
};
#[doc(hidden)]
pub use map::ignore_file_size_signal;
pub use map::{Element, GrowableBuffer, Mapping, Mode, View, guard};
pub use open::{Open, Place, open};
pub use rows::Builder;
#[doc(hidden)]
pub use table::publish;
pub use table::{Follow, Repaired, Sync, TableStat, Writer, WriterOptions, compact, follow, table_stat};
pub use text::{CsvOptions, Incoming, JsonOptions, Preview, read_csv_from, read_json_from, stream_csv, stream_json};
#[doc(hidden)]
pub use text::{bytes_text, count_text, cut, plural};
pub use types::{field_type_name, layout, parse_schema, parse_type, type_name};

/// For tests: disks that are watched, and machines that are started again.
#[doc(hidden)]
pub mod simulate {
    pub use crate::map::{Act, Medium, Witness, pretend_boot};
    pub use crate::table::compact_on;
}
