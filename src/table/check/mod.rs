//! All of a table: `footer_check` (the published footer, read back), `segments` (what is damaged), `repair` (what can
//! be kept). Uses all of the table's rooms.

mod footer_check;
mod repair;
mod segments;

pub use repair::Repaired;
pub(crate) use repair::{beside, keep_aside, repair_table, sync_folder};
pub(crate) use segments::{TableCheck, check_segment, check_table, is_table};
