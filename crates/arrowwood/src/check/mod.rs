//! Full checks of a file or table: damage and repair (`report`), and logical checks (`logical`). Above all other
//! modules.

mod logical;
mod report;

pub use report::{Report, check, check_bytes, repair};
