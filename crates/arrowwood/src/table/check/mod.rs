//! Checks and repairs whole tables.
//!
//! `segments` finds damage, `footer_check` reads back the published footer, `table_check` has the findings, and
//! `repair` keeps the good rows. Uses all other modules of `table`.

mod footer_check;
mod repair;
mod segments;
mod table_check;

pub use repair::RepairReport;
pub(crate) use repair::{damaged_path, link_aside, repair_table, sync_folder};
pub(crate) use segments::{check_segment, check_table, is_table};
pub(crate) use table_check::TableCheck;
