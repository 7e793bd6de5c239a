//! What a check of a whole table has found, segment by segment.

use arrow_schema::SchemaRef;

use crate::error::Finding;

/// The findings about a segment.
#[derive(Debug, Default)]
pub(super) struct SegmentCheck {
    pub start: u64,
    /// The rows of its newest commit; `None` if unreadable.
    pub rows: Option<u64>,
    pub sealed: bool,
    pub dense: bool,
    /// The rows in the file: those of a dense one may go on behind the next segment's first.
    pub in_file: u64,
    pub schema: Option<SchemaRef>,
    /// Whether its schema is none of the table.
    pub is_foreign: bool,
    /// Whether a crash has lost its footer for other readers.
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
    /// Whether other segments were there at the end than at the beginning.
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

    /// The first rows of the sound segments whose footers for other readers a crash has lost.
    pub(super) fn without_footers(&self) -> Vec<u64> {
        let lacking = self.segments.iter().filter(|segment| segment.lacks_footer && !segment.has_damage());
        lacking.map(|segment| segment.start).collect()
    }

    /// The number of rows from the start of a segment to that of the next one, if there is one.
    pub(super) fn rows_to_next(&self, number: usize) -> Option<u64> {
        self.segments.get(number + 1).map(|next| next.start - self.segments[number].start)
    }

    pub(super) fn is_damaged(&self, start: u64) -> bool {
        self.segments.iter().any(|segment| segment.start == start && segment.has_damage())
    }

    /// The row up to which the segments before segment `number` reach without it. After a compaction that was cut off, a
    /// dense one has the rows of those that follow.
    pub(super) fn reach(&self, number: usize) -> u64 {
        let before = &self.segments[..number];
        let ends = before.iter().map(|segment| segment.start + segment.rows.unwrap_or(0).max(segment.in_file));
        ends.max().unwrap_or(0)
    }

    /// Whether the first `rows` rows of a segment are all that the table has in it, so that the next one can stay.
    pub(super) fn is_whole(&self, number: usize, rows: u64) -> bool {
        self.rows_to_next(number) == Some(rows) && !self.segments[number].is_foreign
    }

    /// Whether the rows of a segment are unknown, by damage that was not found again.
    pub(super) fn lacks_rows(&self) -> bool {
        self.segments.iter().any(|segment| segment.rows.is_none())
    }

    /// Goes on with the segments `starts` where that with row `row` was there no more: without what was dropped, or from the
    /// dense one on that has its rows, if that was not looked at since. Returns the number of the next segment.
    pub(super) fn go_on_without(&mut self, row: u64, starts: &[u64]) -> usize {
        let first = starts.first().copied().unwrap_or(row);
        self.segments.retain(|looked| looked.start >= first);
        let next = starts.partition_point(|&start| start <= row);
        let Some(owner) = next.checked_sub(1) else { return 0 };
        let has_rows = |looked: &SegmentCheck| looked.start == starts[owner] && looked.start + looked.in_file > row;
        if self.segments.last().is_some_and(has_rows) {
            return next;
        }
        self.segments.retain(|looked| looked.start < starts[owner]);
        owner
    }

    /// Drops damage that `before` did not have.
    pub(super) fn keep_known(&mut self, before: &TableCheck) {
        for segment in &mut self.segments {
            let known = before.segments.iter().find(|other| other.start == segment.start);
            segment.findings.retain(|finding| {
                let is_same = |other: &Finding| other.is_damage && other.offset == finding.offset;
                !finding.is_damage || known.is_some_and(|known| known.findings.iter().any(is_same))
            });
        }
    }
}
