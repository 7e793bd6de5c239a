//! The protocol between a table's writer and its readers: `publish` (how a commit gets to them), `footer` (the
//! published footer, for other Arrow readers), `log` (small durable commits). Uses `format` of the table's rooms.

pub(super) mod footer;
pub(super) mod log;
pub mod publish;

pub(super) use footer::{PublishedFooter, REST, Sizes};
pub(super) use publish::PATIENCE;
