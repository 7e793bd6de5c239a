//! Sealed segments whose last footers may still be in use by other Arrow readers.
//!
//! A footer *rests* from the moment it is no longer the published one, or its segment is sealed: a reader that has
//! found it may be decoding what it points to for as long as
//! [`FooterRing::rest`](crate::table::protocol::FooterRing::rest). Only after that may its bytes be released.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::file::LiveFile;
use crate::map::MutexExt;

/// The maximum number of segments that wait for the end of the rest, since each holds a descriptor.
const MAX_RESTING: usize = 32;

/// A sealed segment whose last footers rest.
#[derive(Debug)]
struct RestingSegment {
    segment: Arc<LiveFile>,
    since: Instant,
    rest: Duration,
    /// True if the space of all other footers is released, or about to be.
    is_trimmed: bool,
}

impl RestingSegment {
    /// Returns the time until no reader uses the last footers any more.
    fn time_left(&self) -> Duration {
        self.rest.saturating_sub(self.since.elapsed())
    }
}

/// The segments of a writer whose last footers rest, in the order in which they were sealed.
///
/// The space of a segment's footers is released in two steps: at the first opportunity that of all footers but the
/// last, and that of the last ones at the end of their rest. [`RestingSegments::take_due`] returns the segments of
/// which space is to be released now.
#[derive(Debug, Default)]
pub(in crate::table::writer) struct RestingSegments(Mutex<Vec<RestingSegment>>);

impl RestingSegments {
    /// Adds a segment that was just sealed. Returns the oldest one if there are too many: it is no longer waited for.
    pub fn push(&self, segment: Arc<LiveFile>) -> Option<Arc<LiveFile>> {
        let rest = segment.footer().rest();
        let mut resting = self.0.lock_ignoring_poison();
        resting.push(RestingSegment { segment, since: Instant::now(), rest, is_trimmed: false });
        if resting.len() > MAX_RESTING { Some(resting.remove(0).segment) } else { None }
    }

    /// Returns the segments of which space is to be released, and forgets those whose last footers have rested.
    pub fn take_due(&self) -> Vec<Arc<LiveFile>> {
        let mut due = Vec::new();
        self.0.lock_ignoring_poison().retain_mut(|resting| {
            let has_rested = resting.time_left().is_zero();
            if has_rested || !resting.is_trimmed {
                resting.is_trimmed = true;
                due.push(resting.segment.clone());
            }
            !has_rested
        });
        due
    }

    /// Returns the time until space of one more segment is to be released; `Duration::MAX` if there is none.
    pub fn time_left(&self) -> Duration {
        let resting = self.0.lock_ignoring_poison();
        resting.iter().map(RestingSegment::time_left).min().unwrap_or(Duration::MAX)
    }

    /// Returns true if `segment` was sealed, and no space of its footers is released yet.
    pub fn has_untrimmed(&self, segment: &Arc<LiveFile>) -> bool {
        let resting = self.0.lock_ignoring_poison();
        resting.iter().any(|resting| !resting.is_trimmed && Arc::ptr_eq(&resting.segment, segment))
    }

    /// Takes all segments, whatever is left of their rest.
    pub fn take_all(&self) -> Vec<Arc<LiveFile>> {
        let resting = std::mem::take(&mut *self.0.lock_ignoring_poison());
        resting.into_iter().map(|resting| resting.segment).collect()
    }
}
