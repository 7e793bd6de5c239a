//! Arrowwood opens Apache Arrow data of any size **in place**, by memory mapping, in microseconds.
//!
//! The rooms, from the ground up: `error`; `map` (files as memory) and `types` ([`layout`](mod@layout): which buffers a
//! type has); `array` (bytes with an owner, one value, validation) and `parallel`; `dataset` (rows over batches); the
//! four wings `ipc`, `compute`, `text` and `cdata`, which don't know each other; `rows` (rows into columns); `table`
//! (those that grow); `open`; `check`. Each uses those below it; `ARCHITECTURE.md` has the picture.
//!
//! # Features
//! All are on by default. With `default-features = false` there is what opening and reading takes: [`open`], [`Open`],
//! [`Dataset`], [`Row`], [`Column`], [`Value`], [`read_stream`], [`Mapping`], and the Arrow C data interface. What needs a
//! feature that is missing, such as a file that is compressed, is an error that names it.
//!
//! | feature | what it adds | with |
//! |---|---|---|
//! | `write` | [`write()`], [`write_to`], [`StreamWriter`] | |
//! | `collect` | [`Builder`], [`Dataset::collect`], [`StreamReader::read_all`] | `write` |
//! | `table` | tables that grow: [`Writer`], [`follow`], [`Dataset::refresh`], [`compact`], and [`open`] of them | `collect` |
//! | `check` | [`check()`], [`repair`] | `table` |
//! | `compute` | [`Column::sum`], [`Column::quantile`], [`Dataset::take`], [`Dataset::filter`], [`Dataset::aggregate`] | |
//! | `text` | CSV and JSON: [`read_csv_from`], [`read_json_from`], [`stream_csv`], [`stream_json`], [`Value::to_json`] | |
//! | `compression` | bodies compressed with lz4 and zstd, read and written | |
//! | `glob` | [`open`] of patterns such as `ticks-*.arrow` | |

// What a build without some features has too much of, it has for them.
#![cfg_attr(
    not(all(
        feature = "write",
        feature = "collect",
        feature = "table",
        feature = "check",
        feature = "compute",
        feature = "text",
        feature = "compression",
        feature = "glob"
    )),
    allow(dead_code, unused_imports, rustdoc::broken_intra_doc_links)
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod array;
mod cdata;
#[cfg(feature = "check")]
mod check;
#[cfg(feature = "compute")]
mod compute;
mod dataset;
mod error;
mod ipc;
mod map;
mod open;
mod parallel;
#[cfg(feature = "collect")]
mod rows;
#[cfg(feature = "table")]
mod table;
mod text;
mod types;

pub use array::{Bytes, Items, Members, Value};
pub use cdata::{Export, PlainChunk};
#[cfg(feature = "check")]
pub use check::{Report, check, check_bytes, repair};
#[cfg(feature = "compute")]
pub use compute::{Aggregation, Col, Function, Literal, Operator, Predicate, col};
pub use dataset::{Column, Dataset, Footprint, Row};
pub use error::{Error, ErrorKind, Finding, Result};
pub use ipc::{
    BufferInfo, Compression, FieldInfo, Format, Kind, Message, NodeInfo, StreamReader, Validate, read_stream,
};
#[cfg(feature = "write")]
pub use ipc::{StreamWriter, WriteOptions, write, write_to};
#[doc(hidden)]
pub use map::ignore_file_size_signal;
pub use map::{Element, GrowableBuffer, Mapping, Mode, View, guard, leave_sigbus_alone};
pub use open::{Open, Place, open};
#[cfg(feature = "collect")]
pub use rows::Builder;
#[cfg(feature = "check")]
pub use table::Repaired;
#[doc(hidden)]
#[cfg(feature = "table")]
pub use table::publish;
#[cfg(feature = "table")]
pub use table::{Follow, Sync, TableStat, Writer, WriterOptions, compact, follow, table_stat};
pub use text::Preview;
#[cfg(feature = "text")]
pub use text::{CsvOptions, Incoming, JsonOptions, read_csv_from, read_json_from, stream_csv, stream_json};
#[doc(hidden)]
pub use text::{bytes_text, count_text, cut, plural};
pub use types::{field_type_name, layout, parse_schema, parse_type, type_name};

/// For tests: disks that are watched, and machines that are started again.
#[cfg(feature = "table")]
#[doc(hidden)]
pub mod simulate {
    pub use crate::map::{Act, Medium, Witness, pretend_boot};
    pub use crate::table::compact_on;
}
