//! Continues a table in its next segment: what size it has, when it is created, and what it takes over.

use super::live_segment::{LiveSegment, SEALED};
use super::open::{FIRST_ROWS, dictionary_counter, first_guess, replace_name};
use super::segment_layout::SegmentShape;
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::rows::RowSink;

/// The maximum room for text, list items or entries in a new segment, in bytes or elements, that is expected from the
/// rows of the last one.
const MAX_EXPECTED: u64 = 1 << 34;
/// The room for them in a new segment beyond what is expected.
const SPARE: u64 = 64 << 10;

impl Writer {
    /// Continues in a new segment, with room for a row that needs `needed`.
    pub(super) fn roll(&mut self, needed: &[u64]) -> Result<()> {
        let shape = self.next_shape(needed)?;
        if self.live().rows() == 0 {
            return self.replace_empty(shape);
        }
        let mut next = match self.background.take_next().filter(|next| self.is_fitting(next, &shape, needed)) {
            Some(next) => next,
            None => LiveSegment::create(&self.medium, self.path(), &self.plan, shape, true)?,
        };
        self.carry_over(&mut next, &self.live().entry_counts())?;
        self.push_segment(next);
        Ok(())
    }

    /// Returns true if a segment that was created ahead is the next one, and has room for a row that needs `needed`.
    fn is_fitting(&self, next: &LiveSegment, shape: &SegmentShape, needed: &[u64]) -> bool {
        if next.first_row() != shape.first_row || next.limits()[0] != shape.limits[0] {
            return false;
        }
        let full = &self.live().now.counters;
        next.limits().iter().zip(needed).enumerate().all(|(counter, (&limit, &needed))| {
            // All entries of dictionaries are carried over, which may be many more than when it was requested.
            let carried = match dictionary_counter(&self.plan, counter) {
                Some(_) => full[counter],
                None => 0,
            };
            limit >= needed.max(carried)
        })
    }

    /// Appends a segment for the rows that follow.
    pub(super) fn push_segment(&mut self, next: LiveSegment) {
        assert_eq!(next.first_row(), self.live().end(), "a segment begins with the row after the previous one");
        assert_eq!(next.rows(), 0, "a segment begins without rows");
        self.segments.push(next);
    }

    /// Copies the shared state to the next segment: the first entries of each dictionary, as many as `entry_counts`
    /// says, since keys mean the same in all segments, and the positions.
    pub(super) fn carry_over(&self, next: &mut LiveSegment, entry_counts: &[usize]) -> Result<()> {
        assert_eq!(self.names.len(), self.live().positions.len(), "each position has a name");
        assert_eq!(entry_counts.len(), self.entries.len(), "a number for each dictionary");
        for (number, (entries, &count)) in self.entries.iter().zip(entry_counts).enumerate() {
            next.put_entries(number, entries, count)?;
        }
        next.put_names(&self.names)?;
        next.positions.clone_from(&self.live().positions);
        next.committed = next.now.clone();
        Ok(())
    }

    /// Returns the shape of the segment after the last one, based on its contents; it has room for a row that needs
    /// `needed`.
    fn next_shape(&self, needed: &[u64]) -> Result<SegmentShape> {
        let full = self.live();
        let rows = (2 * full.limits()[0]).min(self.settings.segment_rows).max(1);
        let limits = self.plan.limits(|counter| {
            if counter == 0 {
                return rows;
            }
            let used = full.now.counters[counter];
            if dictionary_counter(&self.plan, counter).is_some() {
                let carried = needed[counter].max(used);
                return (2 * carried).max(first_guess(&self.plan, counter, rows.min(FIRST_ROWS)));
            }
            let per_row = used as f64 / full.rows().max(1) as f64;
            let expected = ((per_row * rows as f64 * 1.25) as u64).min(MAX_EXPECTED) + SPARE;
            expected.max(needed[counter])
        });
        if limits.iter().zip(needed).any(|(limit, needed)| limit < needed) {
            return Err(Error::invalid_argument(
                "a single row is larger than its column's type can hold in one segment",
            ));
        }
        Ok(SegmentShape { first_row: full.end(), limits, settings: self.settings.clone() })
    }

    /// Asks the background thread to create the next segment, when the live one is half full. A segment that turns out
    /// not to fit is discarded.
    #[cold]
    pub(super) fn request_next_segment(&mut self) {
        self.request_next_at = u64::MAX;
        let live = self.live();
        let first_row = live.first_row() + live.limits()[0];
        let Ok(shape) = self.next_shape(&vec![0; self.plan.counters]) else { return };
        let shape = SegmentShape { first_row, ..shape };
        let medium = self.medium.clone();
        let folder = self.path().to_path_buf();
        let plan = self.plan.clone();
        self.background.request_next(Box::new(move || LiveSegment::create(&medium, &folder, &plan, shape, true)));
    }

    /// Sets the row at which to request the next segment. After a small segment it is created when it is needed.
    pub(super) fn schedule_next_segment(&mut self) {
        let rows = self.segments[0].limits()[0];
        self.request_next_at = if rows >= FIRST_ROWS { rows / 2 } else { u64::MAX };
    }

    /// Replaces the last segment, which is empty, by a larger one, which begins with the same row and so has its name.
    pub(super) fn replace_empty(&mut self, shape: SegmentShape) -> Result<()> {
        assert_eq!(self.live().rows(), 0, "only an empty segment is replaced");
        assert_eq!(shape.first_row, self.live().first_row(), "both have one name");
        let is_named = self.segments.len() == 1;
        let mut next = LiveSegment::create(&self.medium, self.path(), &self.plan, shape, !is_named)?;
        self.carry_over(&mut next, &self.live().entry_counts())?;
        next.commit_initial(!is_named)?;
        if is_named {
            replace_name(&next, self.path())?;
            self.background.on_replaced(next.shared.clone());
        }
        // The writer always has a segment, also if sealing the empty one fails.
        let mut empty = std::mem::replace(self.live_mut(), next);
        self.schedule_next_segment();
        if is_named {
            // Waiting followers learn that it has ended.
            empty.rollback();
            empty.make_visible(SEALED)?;
        }
        Ok(())
    }
}
