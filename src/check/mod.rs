//! Checks of all of a file or table: what is damaged and what can be kept (`report`), and what values mean (`logical`).
//! Above everything else.

mod logical;
mod report;

pub use report::{Report, check, check_bytes, repair};
