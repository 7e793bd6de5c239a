//! Verbs that convert files.

pub(crate) mod export;
pub(crate) mod import;
