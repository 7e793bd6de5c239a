//! Checks and repairs whole tables: `footer_check` (the published footer, read back), `looked` (what was found),
//! `segments` (finding damage), `repair` (keeping the good rows). Uses all other modules of `table`.

mod footer_check;
mod looked;
mod repair;
mod segments;

pub(crate) use looked::TableCheck;
pub use repair::RepairReport;
pub(crate) use repair::{damaged_path, link_aside, repair_table, sync_folder};
pub(crate) use segments::{check_segment, check_table, is_table};
