//! Opens Apache Arrow data of any size **in place**, by memory mapping, in microseconds, and makes tables that
//! **grow**: one process appends and commits, others map the same Arrow files and see each commit at once.
//!
//! # Opening
//! [`open`] takes the path of an Arrow IPC file or stream, a directory of files, or a pattern, and reads metadata only.
//! A [`Dataset`] is rows over the mapped bytes: cheap to clone, `Send` and `Sync`. Cells are [`Value`]s that borrow
//! from it.
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
//! use arrowwood::{Dataset, Value, WriteOptions, open, write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("prices.arrow");
//! let symbols: ArrayRef = Arc::new(StringArray::from(vec!["AAPL", "IBM", "MSFT"]));
//! let prices: ArrayRef = Arc::new(Float64Array::from(vec![223.02, 125.55, 28.8]));
//! let batch = RecordBatch::try_from_iter([("symbol", symbols), ("price", prices)])?;
//! write(&Dataset::try_from(vec![batch])?, &path, &WriteOptions::default())?;
//!
//! let dataset = open(&path)?;
//! assert_eq!(dataset.len()?, 3);
//! assert!(matches!(dataset.row(1)?.get(0)?, Value::Str("IBM")));
//! assert_eq!(dataset.column("price")?.mean()?, Some((223.02 + 125.55 + 28.8) / 3.0));
//! assert_eq!(dataset.footprint().copied, 0);
//! for batch in dataset.to_record_batches() {
//!     assert_eq!(batch?.num_columns(), 2); // arrow-rs arrays over the same memory
//! }
//! # Ok(())
//! # }
//! ```
//! Arrays and batches are those of the crates `arrow-array` and `arrow-schema`, version 59.
//!
//! # Tables that grow
//! A table is a directory of Arrow files with one [`Writer`]. Appended rows are invisible until [`Writer::commit`],
//! which makes all of them visible at once. A committed row survives the process; a synced one survives a power cut.
//! ```
//! # use std::sync::Arc;
//! # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
//! use arrowwood::{Writer, WriterOptions, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("ticks");
//! # let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! # let batch = RecordBatch::try_from_iter([("n", numbers)])?;
//! let mut writer = Writer::open(&path, Some(batch.schema()), &WriterOptions::default())?;
//! writer.append(&batch)?;
//! writer.commit()?;
//! let seen = open(&path)?; // in another process just as well
//! writer.append(&batch)?;
//! writer.commit()?;
//! assert_eq!((seen.len()?, seen.refresh()?.len()?), (3, 6)); // a dataset never changes
//! # Ok(())
//! # }
//! ```
//!
//! # Items by task
//! | task | begin with |
//! |---|---|
//! | open files, tables and patterns | [`open`], [`OpenOptions`] |
//! | read columns, rows and cells | [`Dataset`], [`Column`], [`Row`], [`Value`] |
//! | filter, sort, group | [`Dataset::filter`], [`col`], [`Dataset::sort`], [`Dataset::aggregate`] |
//! | write a file | [`write()`], [`WriteOptions`], [`FileWriter`]; [`DatasetBuilder`] collects rows |
//! | read and write streams in pipes and sockets | [`read_stream`], [`StreamWriter`], [`StreamEncoder`] |
//! | append to a table | [`Writer`], [`WriterOptions`] |
//! | see new rows | [`Dataset::refresh`], [`follow`] |
//! | keep a table for each key or day | [`partition_writer`], [`PartitionedWriter`], [`follow_partitions`] |
//! | maintain a table | [`compact`], [`alter`], [`table_stat`], [`check()`], [`repair`] |
//! | convert CSV and JSON | [`read_csv_from`], [`read_json_from`], [`stream_csv`], [`stream_json`] |
//! | print | [`Dataset::preview`], [`readable`] |
//! | exchange rows with other Arrow libraries | [`Dataset::to_record_batches`], [`Dataset::export_stream`] |
//! | write types and schemas as text | [`parse_schema`], [`type_name`] |
//! | map a file of numbers | [`Mapping`], [`View`] |
//! | call from an interpreter that has a lock | [`mod@blocking`] |
//!
//! # Trust
//! - **Any bytes give values or an error**, never a panic, and no allocation that the size of the file does not
//!   justify. Structure is always checked; values are checked before a column is first exported as an array, and each
//!   cell when it is read.
//! - **A file must not be rewritten while it is open.** Growing it and replacing it by a rename are fine. If it is
//!   rewritten or truncated, calls return [`ErrorKind::FileChanged`] as soon as they notice; until then values may be
//!   wrong, but nothing outside the mapping is read. Arrays handed to other libraries are memory of the file, without
//!   that protection. [`OpenOptions::copy`] reads the file into memory first.
//! - The first mapping installs a handler for SIGBUS, which turns the faults of truncated files into errors. Other
//!   faults go to the previously installed handler. After [`disable_sigbus_handler`] none is installed.
//!
//! # Errors
//! Everything that can fail returns [`Result`]. An [`Error`] has an [`ErrorKind`] to match on, a sentence that says
//! what was expected and what was found, and the path. Documentation lists kinds by name: `NotFound` is
//! [`ErrorKind::NotFound`].
//! ```
//! use arrowwood::{ErrorKind, open};
//!
//! let error = open("missing.arrow").unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::NotFound);
//! assert_eq!(error.path(), Some("missing.arrow".as_ref()));
//! ```
//! On big-endian processors most functions that take, make or compare arrays return [`ErrorKind::Unsupported`].
//!
//! # Units
//! Rows are counted in `u64` from 0, columns in `usize`; sizes are bytes unless a name says otherwise. Times are
//! numbers with an [`arrow_schema::TimeUnit`], since 1970-01-01 00:00:00 UTC or since midnight; dates are days since
//! 1970-01-01.
//!
//! # Features
//! All but `internal` are on by default. With `default-features = false` the crate only opens and reads: [`open`], [`OpenOptions`],
//! [`Dataset`], [`Row`], [`Column`], [`Value`], [`read_stream`], [`Mapping`], and the Arrow C data interface. An
//! operation that needs a missing feature, such as opening a compressed file, returns an error that names it.
//!
//! | feature | what it adds | with |
//! |---|---|---|
//! | `write` | [`write()`], [`write_to`], [`StreamWriter`] | |
//! | `collect` | [`DatasetBuilder`], [`Dataset::collect`], [`StreamReader::read_all`] | `write` |
//! | `table` | tables that grow: [`Writer`], [`follow`], [`Dataset::refresh`], [`compact`], [`partition_writer`], and [`open`] of them | `collect` |
//! | `check` | [`check()`], [`repair`] | `table` |
//! | `compute` | [`Column::sum`], [`Column::quantile`], [`Dataset::take`], [`Dataset::filter`], [`Dataset::between`], [`Dataset::aggregate`] | |
//! | `text` | CSV and JSON: [`read_csv_from`], [`read_json_from`], [`stream_csv`], [`stream_json`], [`Value::to_json`] | `write` |
//! | `compression` | bodies compressed with lz4 and zstd, read and written | |
//! | `glob` | [`open`] of patterns such as `ticks-*.arrow` | |
//! | `internal` | what the project's own tests, fuzzers, model and benchmarks need: simulated disks, reboots and times, the protocol of commits, small zones. It may change at any time | |

// The modules, in the order of the picture in `ARCHITECTURE.md`; each uses only earlier ones:
// - `append_vec`, `redact`, `escape`, `error`;
// - `map` (files as memory, re-exported from the crate `arrowwood-mapping`), `types` (the buffers of each type), and
//   `blocking` (waits for remote data);
// - `directory` (files and tables at a path);
// - `array` (bytes with an owner, single values, validation), and `parallel`;
// - `dataset` (rows over batches);
// - `ipc`, `compute`, `text` and `cdata`, which are independent of each other;
// - `rows` (rows into columns), and `table` (growing tables);
// - `files`, `partitions` (several tables as one dataset), `open`, and `check`.

// Some items are unused in builds without some features, which need them otherwise.
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
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

// The documentation shows the methods of `Dataset` and `Column` in the order of these modules.
mod dataset;

#[cfg(feature = "compute")]
mod compute;

#[cfg(feature = "collect")]
mod rows;
#[cfg(feature = "table")]
mod table;

mod partitions;
mod text;

#[cfg(feature = "check")]
mod check;
mod ipc;
mod open;

mod cdata;

mod append_vec;
mod array;
pub mod blocking;
mod directory;
mod error;
mod escape;
mod files;
mod map;
mod parallel;
mod redact;
mod types;

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

pub use array::decimal_to_f64;
pub use array::{Bytes, Fetch, Items, Members, Value};
/// Files and memory as bytes: the crate of [`Mapping`], [`View`], [`GrowableBuffer`] and [`guard`].
#[doc(no_inline)]
pub use arrowwood_mapping as mapping;
pub use cdata::{
    ExportOptions, FixedWidthChunk, export_field, export_schema, import_array_and_field, import_arrays, import_schema,
};
#[cfg(feature = "check")]
pub use check::{Report, check, check_bytes, repair};
#[cfg(feature = "compute")]
pub use compute::{
    AggregateFunction, Aggregation, AggregationProgress, EpochOrder, Expression, GatheredRows, IncrementalAggregation,
    Literal, Operator, Predicate, TimePart, col,
};
pub use dataset::{Column, Dataset, Footprint, PushedRows, Row, rows_equal};
pub use directory::table_identity;
pub use error::{Error, ErrorKind, Finding, Result};
pub use files::local_path;
pub use ipc::{
    BufferInfo, Compression, FieldInfo, Format, Message, MessageKind, NodeInfo, StreamReader, Validation, read_stream,
};
#[cfg(feature = "write")]
pub use ipc::{
    EncodedMessage, FileWriter, StreamEncoder, StreamWriter, WriteOptions, write, write_indexed, write_pushed, write_to,
};
/// All functions of this crate that return a [`Result`] are guarded. Reading their results in place (text of a
/// [`Value`], arrays of [`Column::chunks`]) is safe from truncation only inside a guard, on the thread that entered it.
///
/// ```
/// # use std::sync::Arc;
/// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["ash", "elm"]));
/// # let batch = arrow_array::RecordBatch::try_from_iter([("tree", array)]).unwrap();
/// # let dataset = arrowwood::Dataset::try_from(vec![batch])?;
/// let texts = arrowwood::guard(|| {
///     dataset.rows().map(|row| Ok(row?.get(0)?.to_string())).collect::<arrowwood::Result<Vec<_>>>()
/// })?;
/// assert_eq!(texts, ["ash", "elm"]);
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub use map::guard;
pub use map::{Element, GrowableBuffer, Mapping, Mode, View, disable_sigbus_handler};
pub use open::{FileSlice, OpenOptions, UrlOpener, concat_opened, is_url, open, open_urls_with};
#[cfg(feature = "table")]
pub use partitions::{
    FollowFrom, PartitionsFollower, alter, drop_partition, follow_partitions, partition_writer, partitions_lag,
};
pub use partitions::{Partition, PartitionKey, partition_path};
#[cfg(all(feature = "table", feature = "compute"))]
pub use partitions::{PartitionBy, PartitionedWriter};
#[cfg(feature = "collect")]
pub use rows::DatasetBuilder;
#[cfg(feature = "check")]
pub use table::RepairReport;
#[cfg(all(feature = "table", feature = "internal"))]
pub use table::publish;
#[cfg(feature = "table")]
pub use table::{
    CompactOptions, Durability, FollowWaker, LatePolicy, NUMBERING, PROMOTED, RecordKind, RecordStat, SegmentStat,
    SyncPolicy, TableFollower, TableStat, Writer, WriterOptions, compact, compact_with, follow, is_replica,
    refuse_replica, sealed_rows, segment_stat, table_stat,
};
pub use text::Preview;
#[cfg(feature = "text")]
pub use text::{
    CsvOptions, JsonLines, JsonOptions, TextBatches, TextFile, TextStream, TextTarget, csv_header, decompress_reader,
    parse_time, push_csv_row, read_csv_from, read_csv_in_order, read_json_from, read_json_in_order, stream_csv,
    stream_json,
};
pub use types::layout::zones_agree;
pub use types::{field_type_name, layout, parse_schema, parse_type, type_name};

/// Text that people read: sizes, counts, names without hidden characters or secrets, and advice for errors.
pub mod readable {
    pub use crate::array::time_zone_advice;
    pub use crate::escape::{escape_hidden, escape_hidden_json, escape_hidden_lines};
    pub use crate::redact::redact_urls;
    #[cfg(feature = "text")]
    pub use crate::text::utc_offset_advice;
    pub use crate::text::{ellipsize, format_bytes, format_count, plural};
}

/// Observed disks, and simulated reboots and times, for tests.
#[cfg(all(feature = "table", feature = "internal"))]
pub mod simulate {
    pub use arrowwood_mapping::{FileSystem, FsObserver, FsOp, limit_mappings, simulate_boot, simulate_mount};

    pub use crate::table::{compact_on, simulate_elapsed, simulate_rest};
}
