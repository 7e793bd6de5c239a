//! The verbs, a file each.
//!
//! The rooms, in reading order:
//! - `inspect`: read data and print;
//! - `convert`: convert files;
//! - `table`: change tables;
//! - `network`: servers, browsers and object stores;
//! - `usage`: this command itself.
//!
//! They don't use each other. Use `engine`, `rows` and `shell`.

pub(crate) mod convert;
pub(crate) mod inspect;
pub(crate) mod network;
pub(crate) mod table;
pub(crate) mod usage;
