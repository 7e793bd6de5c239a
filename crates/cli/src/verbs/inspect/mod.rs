//! Verbs that read data and print.

pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod head;
pub(crate) mod messages;
pub(crate) mod schema;
pub(crate) mod sql;
pub(crate) mod stat;
pub(crate) mod tail;
