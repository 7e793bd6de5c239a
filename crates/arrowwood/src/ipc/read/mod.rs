//! Reads Arrow IPC: files and streams in place as sources of a dataset, and streams from a pipe.
//!
//! The files in reading order: `decode` (decodes a column in place), `data` (bytes, schema and footer, which never
//! change), `prefetch` (fetches bytes from a store), `dictionary`, `plain` (numbers for copying), `source` (the walk;
//! files and streams as sources of batches), `shard` (one of many files), `message_reader` and `stream_dictionaries`
//! (the messages and the dictionaries of a pipe), `stream` (reads from a pipe), `messages` (lists messages;
//! `messages_json` as JSON), `check` (checks a whole file). Uses `framing`, not `write`.

#[cfg(feature = "check")]
mod check;
mod data;
mod decode;
mod dictionary;
mod message_reader;
mod messages;
#[cfg(feature = "text")]
mod messages_json;
mod plain;
mod prefetch;
mod shard;
mod source;
mod stream;
mod stream_dictionaries;

#[cfg(feature = "check")]
pub(crate) use check::{CheckSummary, read_batch, read_footer, read_schema, same_schema};
pub(crate) use data::ReadOptions;
pub use data::Validation;
pub(crate) use decode::count_zero_bits;
pub use messages::{BufferInfo, FieldInfo, Message, NodeInfo};
pub(crate) use shard::Shard;
pub(crate) use source::IpcSource;
pub(crate) use stream::{ReceivedBatch, ValueDestination};
pub use stream::{StreamReader, read_stream};
