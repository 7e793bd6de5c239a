//! Continues a table in its next segment: what size it has, when it is created, and what it takes over.

use super::live::{LiveSegment, OPEN, PROVISIONAL, SEALED, SegmentShape};
use super::open::{FIRST_ROWS, dictionary_counter, first_guess, replace_name};
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::rows::RowSink;
use crate::table::format::ROWS;

/// The factor by which a segment has room for more rows than the previous one, up to the table's maximum. Dictionaries
/// get room for so many times the entries that are carried over.
pub(super) const GROWTH: u64 = 2;
/// The room for text and list items is what as many rows of the previous segment take, times this.
const MARGIN: f64 = 1.25;
/// The room for text and list items beyond that, in bytes or items: rows may differ much in a small segment.
const SPARE: u64 = 64 << 10;
/// The maximum room for text or list items that is derived from the rows of the previous segment, in bytes or items. A
/// segment for one row that needs more gets more.
const MAX_EXPECTED: u64 = 1 << 34;

impl Writer {
    /// Continues in a new segment, which gets room for the next row: its limits are at least `min_limits`, the counters
    /// of a segment that has this row alone.
    pub(super) fn roll(&mut self, min_limits: &[u64]) -> Result<()> {
        let shape = self.next_shape(min_limits)?;
        if self.live().rows() == 0 {
            return self.replace_empty(shape);
        }

        let mut next = match self.background.take_next().filter(|next| self.fits(next, &shape, min_limits)) {
            Some(next) => next,
            None => LiveSegment::create(&self.medium, self.path(), &self.plan, shape, PROVISIONAL)?,
        };
        self.carry_over(&mut next, &self.live().entry_counts())?;
        self.push_segment(next);
        Ok(())
    }

    /// Returns true if a segment that was created ahead is the next one, of the given shape, and its limits are at
    /// least `min_limits`.
    fn fits(&self, next: &LiveSegment, shape: &SegmentShape, min_limits: &[u64]) -> bool {
        if next.first_row() != shape.first_row || next.capacity() != shape.capacity() {
            return false;
        }
        let full = &self.live().now.counters;
        next.limits().iter().zip(min_limits).enumerate().all(|(counter, (&limit, &min_limit))| {
            // All entries of dictionaries are carried over, which may be many more than when it was requested.
            let carried = match dictionary_counter(&self.plan, counter) {
                Some(_) => full[counter],
                None => 0,
            };
            limit >= min_limit.max(carried)
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

    /// Returns the shape of the segment after the last one, based on its contents, with limits of at least
    /// `min_limits`.
    ///
    /// # Errors
    /// `InvalidArgument` if no segment has such limits.
    fn next_shape(&self, min_limits: &[u64]) -> Result<SegmentShape> {
        let full = self.live();
        let rows = (GROWTH * full.capacity()).min(self.settings.segment_rows).max(1);
        let limits = self.plan.limits(|counter| match counter {
            ROWS => rows,
            _ if dictionary_counter(&self.plan, counter).is_some() => {
                let carried = full.now.counters[counter].max(min_limits[counter]);
                (GROWTH * carried).max(first_guess(&self.plan, counter, rows.min(FIRST_ROWS)))
            }
            _ => expected_count(full.now.counters[counter], full.rows(), rows).max(min_limits[counter]),
        });

        if limits.iter().zip(min_limits).any(|(limit, min_limit)| limit < min_limit) {
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
        let first_row = live.first_row() + live.capacity();
        // The next row is not known yet.
        let min_limits = vec![0; self.plan.counters];
        let Ok(shape) = self.next_shape(&min_limits) else { return };
        let shape = SegmentShape { first_row, ..shape };
        let medium = self.medium.clone();
        let folder = self.path().to_path_buf();
        let plan = self.plan.clone();
        let factory = move || LiveSegment::create(&medium, &folder, &plan, shape, PROVISIONAL);
        self.background.request_next(Box::new(factory));
    }

    /// Sets the row at which to request the next segment. After a small segment it is created when it is needed.
    pub(super) fn schedule_next_segment(&mut self) {
        let rows = self.segments[0].capacity();
        self.request_next_at = if rows >= FIRST_ROWS { rows / 2 } else { u64::MAX };
    }

    /// Replaces the last segment, which is empty, by a larger one, which begins with the same row and so has its name.
    pub(super) fn replace_empty(&mut self, shape: SegmentShape) -> Result<()> {
        assert_eq!(self.live().rows(), 0, "only an empty segment is replaced");
        assert_eq!(shape.first_row, self.live().first_row(), "both have one name");
        // Segments after the first have no names yet, and belong to the commit that will seal it.
        let is_named = self.segments.len() == 1;
        let state = if is_named { OPEN } else { PROVISIONAL };

        let mut next = LiveSegment::create(&self.medium, self.path(), &self.plan, shape, state)?;
        self.carry_over(&mut next, &self.live().entry_counts())?;
        next.commit_initial(state)?;
        if is_named {
            replace_name(&next, self.path())?;
            self.background.on_replaced(next.shared.clone());
        }

        // The writer always has a segment, even if sealing the empty one fails.
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

/// Returns what a counter is expected to be in a segment of `rows` rows, with some room to spare, if it is `count` in
/// one of `counted_rows`.
fn expected_count(count: u64, counted_rows: u64, rows: u64) -> u64 {
    let per_row = count as f64 / counted_rows.max(1) as f64;
    ((per_row * rows as f64 * MARGIN) as u64).min(MAX_EXPECTED) + SPARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_counts_have_room_to_spare_and_a_maximum() {
        let cases = [
            // An empty segment tells nothing.
            ((0, 0, 1000), SPARE),
            ((100, 10, 20), 250 + SPARE),
            ((1, 1000, 2000), 2 + SPARE),
            // One long text in a table of few rows.
            ((1 << 31, 1, 1 << 22), MAX_EXPECTED + SPARE),
            ((u64::MAX, 1, u64::MAX), MAX_EXPECTED + SPARE),
        ];
        for ((count, counted_rows, rows), expected) in cases {
            let actual = expected_count(count, counted_rows, rows);
            assert_eq!(actual, expected, "{count} in {counted_rows} rows, for {rows}");
        }
    }
}
