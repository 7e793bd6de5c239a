//! The next segment, created by the background thread before it is needed: creating one takes milliseconds, during
//! which the writer would wait for the disk.

use std::fmt;
use std::sync::Mutex;

use crate::error::Result;
use crate::map::{MutexExt, guard};
use crate::table::writer::live::LiveSegment;

/// Creates a segment without a name.
pub(super) type SegmentFactory = Box<dyn FnOnce() -> Result<LiveSegment> + Send>;

/// A request of the writer to the background thread.
#[derive(Default)]
pub(super) struct NextSegment {
    request: Mutex<Option<SegmentFactory>>,
    /// Locked while a segment is created.
    created: Mutex<Option<LiveSegment>>,
}

impl NextSegment {
    /// Requests a segment from the thread.
    pub fn request(&self, factory: SegmentFactory) {
        *self.request.lock_ignoring_poison() = Some(factory);
    }

    /// Creates the requested segment.
    pub fn create(&self) {
        let mut created = self.created.lock_ignoring_poison();
        if let Some(factory) = self.request.lock_ignoring_poison().take() {
            // After an error the writer creates one itself, and gets the same error.
            *created = guard(factory).ok();
        }
    }

    /// Takes the requested segment, waiting for it if its creation has begun. `None` if it has not begun, or failed.
    pub fn take(&self) -> Option<LiveSegment> {
        let is_begun = self.request.lock_ignoring_poison().take().is_none();
        if is_begun { self.created.lock_ignoring_poison().take() } else { None }
    }
}

impl fmt::Debug for NextSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextSegment").finish_non_exhaustive()
    }
}
