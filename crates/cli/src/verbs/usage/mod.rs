//! Verbs about this command.

pub(crate) mod completions;
pub(crate) mod man;
