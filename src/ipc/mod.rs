//! Arrow IPC: the file and stream formats, read in place and written dense.
//!
//! The code here sees [`Bytes`](crate::Bytes), never maps, so it reads a mapping, a `Vec` or a static alike. In
//! reading order: `flat` (flatbuffers, every access checked), `front`, `message` (framing), `schema`, `body` (compression,
//! byte order), `decode` (a column in place), `dictionary`, `footer` (of files), `read` (files and streams as sources
//! of batches), `plain` (numbers to be copied), `stream` (from a pipe), `anatomy` (messages as data), `check` (all of a
//! file, and what is wrong with it), `write`.

mod anatomy;
mod body;
mod check;
mod decode;
mod dictionary;
mod encode;
mod flat;
mod footer;
mod front;
mod guess;
mod message;
mod metadata;
mod plain;
mod read;
mod schema;
mod shelf;
mod stream;
mod unify;
mod write;

pub use anatomy::{BufferInfo, FieldInfo, Message, NodeInfo};
pub(crate) use check::{Sound, read_batch, read_footer, same_schema};
pub(crate) use decode::zeros;
pub(crate) use front::{Front, SEGMENT, front};
pub(crate) use message::BatchHeader;
pub use message::{Compression, Kind};
pub(crate) use metadata::{BatchMetadata, Block, batch_metadata, empty_metadata, footer, schema_metadata};
pub use read::Validate;
pub(crate) use read::{Ipc, Options};
pub(crate) use schema::{IpcSchema, Node};
pub(crate) use stream::{Arrived, Places};
pub use stream::{StreamReader, read_stream};
pub use write::{Format, StreamWriter, WriteOptions, write, write_to};
