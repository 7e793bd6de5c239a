//! What Python gives as an argument or a key.
//!
//! The modules, in reading order:
//! - `describe`: describes objects in messages;
//! - `numbers`: numbers, and times in seconds;
//! - `names`: names of columns;
//! - `index`: keys in brackets as row numbers.
//!
//! Uses `interpreter`.

pub mod describe;
pub mod index;
pub mod names;
pub mod numbers;
