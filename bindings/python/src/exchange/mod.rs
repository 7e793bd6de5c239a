//! Memory and Arrow data that are shared with other code of the process.
//!
//! The modules, in reading order:
//! - `memory`: other objects' memory, by the buffer protocol;
//! - `dtype`: types of elements in a mapping;
//! - `mapping`: a file as typed memory;
//! - `buffer`: memory that grows;
//! - `buffer_protocol`: our memory for others;
//! - `capsule`: Arrow capsules.
//!
//! Has all of the crate's unsafe code. Knows no dataset; uses `arguments` and `interpreter`.

pub mod buffer;
pub mod buffer_protocol;
pub mod capsule;
pub mod dtype;
pub mod mapping;
pub mod memory;
