//! What Python gives as an argument or a key.
//!
//! The modules, in reading order:
//! - `index`: keys in brackets as row numbers.
//!
//! Uses `interpreter`.

pub mod index;
