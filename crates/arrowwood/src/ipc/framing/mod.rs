//! Frames Arrow IPC: parses and builds messages, footers and their metadata, and converts the bytes of bodies.
//!
//! The files in reading order: `flatbuffer` (flatbuffers, every access checked), `fields` (the numbers of the fields of
//! tables), `message`, `schema`, `footer` (reads the footer of a file), `metadata` (builds metadata), `codec` (lz4 and
//! zstd), `body` (compression, byte order), `probe` (recognizes segments of a table), `sniff` (recognizes files of
//! other formats). Uses [`Bytes`](crate::Bytes), but neither mappings nor datasets; `read` and `write` are built on it.

pub(super) mod body;
#[cfg_attr(not(feature = "compression"), path = "codec_missing.rs")]
mod codec;
pub(super) mod fields;
mod flatbuffer;
mod footer;
mod message;
#[cfg(feature = "write")]
pub(super) mod metadata;
mod probe;
mod schema;
pub(super) mod sniff;

pub(super) use body::DecompressedBuffer;
#[cfg(feature = "write")]
pub(super) use body::compress;
pub(super) use flatbuffer::FlatTable;
#[cfg(feature = "table")]
pub(crate) use footer::ZONES;
pub(super) use footer::{FIRST_MESSAGE, Footer, FooterBlock, FooterBlocks, MAGIC, first_message, read_footer};
#[cfg(feature = "write")]
pub(super) use footer::{ROWS, TABLE, rows_note};
pub(crate) use message::BatchHeader;
pub(super) use message::{
    CONTINUATION, DictionaryHeader, END_OF_STREAM, LEGACY_PREFIX, MIN_ALIGNMENT, MessageFrame, MessageHeader,
    NextMessage, PREFIX, V5, Window, find_message, length, row_count,
};
pub use message::{Compression, Format, MessageKind};
#[cfg(feature = "write")]
pub(crate) use metadata::{BatchMetadata, Block, batch_metadata, empty_metadata, footer, schema_metadata};
#[cfg(feature = "table")]
pub(crate) use metadata::{FOOTER_BATCH, footer_with_shared_schema, footer_with_shared_schema_len, shared_schema};
pub(crate) use probe::{SEGMENT, SegmentProbe, is_segment, probe_segment};
pub(super) use schema::{BatchShare, buffer_roles, has_legacy_validity};
pub(crate) use schema::{IpcSchema, Node, SchemaCache};
pub(super) use sniff::not_arrow_error;
#[cfg(feature = "check")]
pub(crate) use sniff::{has_arrow_signature, has_file_magic};
