//! Writing Arrow IPC, dense: `encode` (a column as buffers), `unify` (dictionaries on their way out), `writer` (files
//! and streams), `encoder` (messages for somebody else to send). Uses `framing`, not `read`.

mod encode;
mod encoder;
mod unify;
mod writer;

pub use encoder::{EncodedMessage, StreamEncoder};
pub use writer::{StreamWriter, WriteOptions, write, write_to};
