//! Reads the file and stream formats of Arrow IPC in place, and writes them.
//!
//! The code uses [`Bytes`](crate::Bytes), not mappings, so it reads a mapping, a `Vec` or a static alike. The modules
//! in reading order: `framing` (messages and metadata), `read`, `write`. `ipc`, `compute`, `text` and `cdata` are all
//! built on `dataset` and independent of each other.

mod framing;
mod read;
#[cfg(feature = "write")]
mod write;

#[cfg(feature = "table")]
pub(crate) use framing::ZONES;
#[cfg(not(feature = "table"))]
pub(crate) use framing::is_segment;
pub(crate) use framing::{BatchHeader, IpcSchema, Node, SEGMENT, SchemaCache, SegmentProbe, probe_segment};
#[cfg(feature = "write")]
pub(crate) use framing::{BatchMetadata, Block, batch_metadata, empty_metadata, footer, schema_metadata};
pub use framing::{Compression, Format, MessageKind};
#[cfg(feature = "table")]
pub(crate) use framing::{FOOTER_BATCH, footer_with_shared_schema, footer_with_shared_schema_len, shared_schema};
#[cfg(feature = "check")]
pub(crate) use framing::{has_arrow_signature, has_file_magic};
pub use read::{BufferInfo, FieldInfo, Message, NodeInfo, StreamReader, Validation, read_stream};
#[cfg(feature = "check")]
pub(crate) use read::{CheckSummary, read_batch, read_footer, read_schema, same_schema};
pub(crate) use read::{IpcSource, ReadOptions, ReceivedBatch, Shard, ValueDestination, count_zero_bits};
#[cfg(feature = "table")]
pub(crate) use write::write_with_metadata;
#[cfg(feature = "write")]
pub use write::{
    EncodedMessage, FileWriter, StreamEncoder, StreamWriter, WriteOptions, write, write_indexed, write_pushed, write_to,
};
