//! Arrow IPC: reads the file and stream formats in place, and writes them.
//!
//! The code uses [`Bytes`](crate::Bytes), not mappings, so it reads a mapping, a `Vec` or a static alike. In reading
//! order: `framing` (messages and metadata), `read`, `write`. `ipc`, `compute`, `text` and `cdata` are all built on
//! `dataset` and independent of each other.

mod framing;
mod read;
#[cfg(feature = "write")]
mod write;

#[cfg(feature = "table")]
pub(crate) use framing::ZONES;
#[cfg(feature = "check")]
pub(crate) use framing::begins_as_arrow;
#[cfg(not(feature = "table"))]
pub(crate) use framing::is_segment;
pub(crate) use framing::{BatchHeader, IpcSchema, KnownSchema, Node, SEGMENT, SegmentProbe, probe_segment};
#[cfg(feature = "write")]
pub(crate) use framing::{BatchMetadata, Block, batch_metadata, empty_metadata, footer, schema_metadata};
pub use framing::{Compression, Format, Kind};
#[cfg(feature = "table")]
pub(crate) use framing::{FOOTER_BATCH, footer_of_shared, footer_of_shared_len, shared_schema};
pub(crate) use read::{Arrived, Ipc, ReadOptions, Shard, ValuePlaces, zeros};
pub use read::{BufferInfo, FieldInfo, Message, NodeInfo, StreamReader, Validate, read_stream};
#[cfg(feature = "check")]
pub(crate) use read::{Sound, read_batch, read_footer, read_schema, same_schema};
#[cfg(feature = "table")]
pub(crate) use write::write_noted;
#[cfg(feature = "write")]
pub use write::{
    EncodedMessage, FileWriter, StreamEncoder, StreamWriter, WriteOptions, write, write_indexed, write_pushed, write_to,
};
