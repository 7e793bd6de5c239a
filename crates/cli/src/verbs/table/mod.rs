//! Verbs that change tables.

pub(crate) mod alter;
pub(crate) mod append;
pub(crate) mod compact;
pub(crate) mod create;
pub(crate) mod promote;
