//! The served tables and files.
//!
//! Read in this order: `directory` (finds a table by its name), `table` (its newest rows and its progress), `snapshot`
//! (the rows that one request is answered from), `describe` (the facts about a table).
//!
//! It may use `http` and `ops`. Rows are read here and never written.

pub(crate) mod describe;
mod directory;
pub(crate) mod snapshot;
mod table;

pub(crate) use describe::{Audience, kind_name, stat_of};
pub(crate) use directory::Catalog;
pub(crate) use snapshot::Snapshot;
pub(crate) use table::{Kind, Progress, Table, segment_digits};
