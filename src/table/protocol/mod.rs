//! The protocol between a table's writer and its readers: `publish` (making a commit visible), `footer` (the published
//! footer, for other Arrow readers), `log` (small durable commits), `proof` (whether the rows of a commit are there). Of `table`, uses `format` only.

pub(super) mod footer;
pub(super) mod log;
pub(super) mod proof;
pub mod publish;

pub use footer::pretend_rest;
pub(super) use footer::{PublishedFooter, Sizes, rest};
pub(super) use publish::PATIENCE;
