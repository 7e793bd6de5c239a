//! The served tables and files.
//!
//! Read in this order: `directory` (finds a table by its name), `table` (its newest rows and its progress), `snapshot`
//! (the rows that one request is answered from), `describe` (the facts about a table).
//!
//! It may use `http` and `ops`. Rows are read here and never written.

pub(crate) mod describe;
pub(crate) mod directory;
pub(crate) mod snapshot;
pub(crate) mod table;
