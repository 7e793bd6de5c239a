//! Writes Arrow IPC.
//!
//! The files in reading order: `encode` (encodes a column as buffers), `unify` (dictionaries), `message_sink`
//! (messages), `writer` (files and streams), `encoder` (messages for the caller to send). Uses `framing`, not `read`.

mod encode;
mod encoder;
mod message_sink;
mod unify;
mod writer;

pub use encoder::{EncodedMessage, StreamEncoder};
#[cfg(feature = "table")]
pub(crate) use writer::write_with_metadata;
pub use writer::{FileWriter, StreamWriter, WriteOptions, write, write_indexed, write_pushed, write_to};
