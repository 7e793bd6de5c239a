//! Checks and repairs whole tables: `footer_check` (the published footer, read back), `table_check` (what was found),
//! `segments` (finding damage), `repair` (keeping the good rows). Uses all other modules of `table`.

mod footer_check;
mod repair;
mod segments;
mod table_check;

pub use repair::RepairReport;
pub(crate) use repair::{damaged_path, link_aside, repair_table, sync_folder};
pub(crate) use segments::{check_segment, check_table, is_table};
pub(crate) use table_check::TableCheck;
