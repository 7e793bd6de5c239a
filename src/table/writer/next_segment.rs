//! The next segment, created by the background thread before it is needed: creating one takes milliseconds, during
//! which the writer would wait for the disk.

use std::fmt;
use std::sync::Mutex;

use super::live_segment::LiveSegment;
use crate::error::Result;
use crate::map::guard;
use crate::parallel::lock;

/// Creates a segment without a name.
pub(super) type SegmentFactory = Box<dyn FnOnce() -> Result<LiveSegment> + Send>;

/// A request of the writer to the background thread.
#[derive(Default)]
pub(super) struct NextSegment {
    order: Mutex<Option<SegmentFactory>>,
    /// Held while a segment is created.
    made: Mutex<Option<LiveSegment>>,
}

impl NextSegment {
    pub fn order(&self, order: SegmentFactory) {
        *lock(&self.order) = Some(order);
    }

    /// Creates the requested segment.
    pub fn make(&self) {
        let mut made = lock(&self.made);
        if let Some(order) = lock(&self.order).take() {
            // The writer creates one itself, and gets the same error.
            *made = guard(order).ok();
        }
    }

    /// The requested segment, if it exists, or as soon as it does.
    pub fn take(&self) -> Option<LiveSegment> {
        let is_begun = lock(&self.order).take().is_none();
        if is_begun { lock(&self.made).take() } else { None }
    }
}

impl fmt::Debug for NextSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").finish_non_exhaustive()
    }
}
