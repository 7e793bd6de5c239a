//! Statements before they run.
//!
//! In reading order: `size_limits` rejects statements that would take too long to plan, `parameters` binds values, and
//! `bounded` decides whether a statement may run in the process of a server. Uses `functions`.

pub(crate) mod bounded;
pub(crate) mod parameters;
pub(crate) mod size_limits;
