//! Operates the server: limits of requests, memory and threads that they share, and what operators see.
//!
//! Read in this order: `limits`, `memory` (shares of the memory for rows), `budget` (memory and time of a request that
//! reads rows), `blocking` (threads); `readiness` (whether the disk takes rows), `metrics`, `log`, `audit`.
//!
//! It may use `http`.

mod audit;
mod blocking;
mod budget;
mod limits;
pub(crate) mod log;
mod memory;
mod metrics;
mod readiness;

pub use audit::AuditLog;
pub(crate) use audit::{AuditLine, time_text};
pub(crate) use blocking::blocking;
pub(crate) use budget::{Budget, Share, too_long, too_much};
pub use limits::Limits;
pub(crate) use memory::{Memory, UNIT, share_bytes};
pub(crate) use metrics::Metrics;
pub(crate) use readiness::Readiness;
