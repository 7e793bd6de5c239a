//! Checks and repairs whole tables: `footer_check` (the published footer, read back), `segments` (finding damage),
//! `repair` (keeping the good rows). Uses all other modules of `table`.

mod footer_check;
mod repair;
mod segments;

pub use repair::Repaired;
pub(crate) use repair::{beside, keep_aside, repair_table, sync_folder};
pub(crate) use segments::{TableCheck, check_segment, check_table, is_table};
