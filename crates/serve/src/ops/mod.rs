//! Operates the server: limits of requests, memory and threads that they share, and what operators see.
//!
//! Read in this order: `limits`, `memory` (shares of the memory for rows), `budget` (memory and time of a request that
//! reads rows), `blocking` (threads); `readiness` (whether the disk takes rows), `metrics`, `log`, `audit`.
//!
//! It may use `http`.

pub(crate) mod audit;
pub(crate) mod blocking;
pub(crate) mod budget;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod readiness;
