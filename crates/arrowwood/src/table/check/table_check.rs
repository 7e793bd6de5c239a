//! Holds the findings of a check of a whole table, segment by segment.

use arrow_schema::SchemaRef;

use crate::error::Finding;

/// The findings about a segment.
#[derive(Debug, Default)]
pub(super) struct SegmentCheck {
    /// The segment's first row, by its name.
    pub start: u64,
    /// The rows of its newest commit; `None` if unreadable.
    pub rows: Option<u64>,
    /// True if no more rows are appended to it.
    pub sealed: bool,
    /// True for an ordinary Arrow file, as left by compaction.
    pub dense: bool,
    /// The number of rows in a dense file, which may contain the rows of later segments, too; 0 for other files.
    pub in_file: u64,
    /// The schema; `None` if it can't be read.
    pub schema: Option<SchemaRef>,
    /// True if its schema can't be converted to the table's.
    pub is_foreign: bool,
    /// True if a crash has lost its footer for other readers.
    pub lacks_footer: bool,
    pub findings: Vec<Finding>,
}

impl SegmentCheck {
    pub fn has_damage(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_damage)
    }
}

/// The findings about a table.
#[derive(Debug, Default)]
pub(crate) struct TableCheck {
    pub(super) segments: Vec<SegmentCheck>,
    /// Findings about the folder as a whole.
    pub(super) folder: Vec<Finding>,
    /// True if the segments at the end of the check differ from those at its beginning.
    pub(super) has_changed: bool,
}

impl TableCheck {
    pub(crate) fn rows(&self) -> u64 {
        self.segments.iter().filter_map(|segment| segment.rows).sum()
    }

    pub(crate) fn num_segments(&self) -> u64 {
        self.segments.len() as u64
    }

    pub(crate) fn into_findings(self) -> Vec<Finding> {
        self.segments.into_iter().flat_map(|segment| segment.findings).chain(self.folder).collect()
    }

    pub(super) fn has_damage(&self) -> bool {
        self.segments.iter().any(SegmentCheck::has_damage)
    }

    /// Returns the first rows of the sound segments whose footers for other readers a crash has lost.
    pub(super) fn without_footers(&self) -> Vec<u64> {
        let lacking = self.segments.iter().filter(|segment| segment.lacks_footer && !segment.has_damage());
        lacking.map(|segment| segment.start).collect()
    }

    /// Returns the number of rows from the start of a segment to the start of the next one, if there is one.
    pub(super) fn rows_to_next(&self, number: usize) -> Option<u64> {
        let next = self.segments.get(number + 1)?;
        let start = self.segments[number].start;
        assert!(start < next.start, "the segments at {start} and {} are in order", next.start);
        Some(next.start - start)
    }

    pub(super) fn is_damaged(&self, start: u64) -> bool {
        self.segments.iter().any(|segment| segment.start == start && segment.has_damage())
    }

    /// Returns the row after the last one in the files before segment `number`. After a compaction that was cut off, a
    /// dense file has the rows of later segments, too.
    pub(super) fn end_before(&self, number: usize) -> u64 {
        let mut end = 0;
        for segment in &self.segments[..number] {
            let rows = segment.rows.map_or(segment.in_file, |rows| rows.max(segment.in_file));
            end = end.max(segment.start + rows);
        }
        end
    }

    /// Returns true if segment number `number` has only `rows` rows before the next one begins, and a schema that fits
    /// the table, so that the next segment can stay when this one is replaced by these rows.
    pub(super) fn is_whole(&self, number: usize, rows: u64) -> bool {
        self.rows_to_next(number) == Some(rows) && !self.segments[number].is_foreign
    }

    /// Returns true if the rows of a segment are unknown because of damage that was not found again.
    pub(super) fn lacks_rows(&self) -> bool {
        self.segments.iter().any(|segment| segment.rows.is_none())
    }

    /// Prepares to continue the check when the segment that begins with row `row` is gone, and the table's segments are
    /// `starts` now. The findings about dropped segments are forgotten. So are those about the dense segment that has
    /// the rows now and about all later ones, unless it was checked after the merge. Returns the number of the next
    /// segment to check.
    pub(super) fn continue_without(&mut self, row: u64, starts: &[u64]) -> usize {
        debug_assert!(starts.is_sorted(), "segments are listed in order");
        let first = starts.first().copied().unwrap_or(row);
        self.segments.retain(|segment| segment.start >= first);
        let next = starts.partition_point(|&start| start <= row);
        let Some(owner) = next.checked_sub(1) else { return 0 };
        if let Some(last) = self.segments.last()
            && last.start == starts[owner]
            && last.start + last.in_file > row
        {
            return next;
        }
        self.segments.retain(|segment| segment.start < starts[owner]);
        owner
    }

    /// Drops damage that `before` did not have at the same offset.
    pub(super) fn retain_damage_of(&mut self, before: &TableCheck) {
        for segment in &mut self.segments {
            let earlier = match before.segments.iter().find(|other| other.start == segment.start) {
                Some(earlier) => &earlier.findings[..],
                None => &[],
            };
            segment.findings.retain(|finding| {
                !finding.is_damage || earlier.iter().any(|other| other.is_damage && other.offset == finding.offset)
            });
        }
    }
}
