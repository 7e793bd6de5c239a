//! Writing Arrow IPC, dense: `encode` (a column as buffers), `unify` (dictionaries on their way out), `writer` (files
//! and streams). Uses `framing`, not `read`.

mod encode;
mod unify;
mod writer;

pub use writer::{StreamWriter, WriteOptions, write, write_to};
