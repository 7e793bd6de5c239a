//! What a thread does for writers in the background.
//!
//! In reading order: `next_segment` (a segment created ahead), `scheduler` (the background thread of all writers),
//! `work` (its work for one writer). Uses `live`.

mod next_segment;
mod scheduler;
mod work;

pub(super) use work::BackgroundWork;
