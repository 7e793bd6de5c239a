//! The next segment, made by the background thread before it is needed: making one takes milliseconds, in which the writer
//! would wait for the disk.

use std::fmt;
use std::sync::Mutex;

use super::growing::Growing;
use crate::error::Result;
use crate::map::guard;
use crate::parallel::lock;

/// Makes a segment that has no name yet.
pub(super) type MakeSegment = Box<dyn FnOnce() -> Result<Growing> + Send>;

/// What the writer orders and the background thread makes.
#[derive(Default)]
pub(super) struct Ahead {
    order: Mutex<Option<MakeSegment>>,
    /// Held while a segment is made.
    made: Mutex<Option<Growing>>,
}

impl Ahead {
    pub fn order(&self, order: MakeSegment) {
        *lock(&self.order) = Some(order);
    }

    /// Makes what was ordered.
    pub fn make(&self) {
        let mut made = lock(&self.made);
        if let Some(order) = lock(&self.order).take() {
            // The writer makes one itself, and meets the same error.
            *made = guard(order).ok();
        }
    }

    /// The segment that was ordered, if it is made, or as soon as it is.
    pub fn take(&self) -> Option<Growing> {
        let is_begun = lock(&self.order).take().is_none();
        if is_begun { lock(&self.made).take() } else { None }
    }
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").finish_non_exhaustive()
    }
}
