//! Commits rows that cross the end of a segment, in one step for all readers.
//!
//! ```text
//! 1  the later segments are written, each marked provisional, without names
//! 2  the record that seals the first one is prepared, and the later ones get hidden names: from now on the next writer
//!    finishes the commit if this one is killed (`prepared_commit`)
//! 3  the first one's last footer is published for other Arrow readers, and the later ones get their names
//! 4  sealing the first segment makes all rows visible; the later ones lose their marks
//! ```

use super::live::SEALED;
use super::open::give_name;
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::table::format::CommitState;
use crate::table::reader::chain;

/// An error of naming the segments of a commit.
struct NamingError {
    /// The number of segments that had got their names before.
    named: usize,
    error: Error,
}

impl Writer {
    /// Commits the rows of all segments.
    pub(super) fn commit_all(&mut self) -> Result<()> {
        assert!(self.segments.len() > 1, "a commit across the end of a segment has several");
        for pair in self.segments.windows(2) {
            let (end, next) = (pair[0].end(), pair[1].first_row());
            assert_eq!(end, next, "a segment begins with the row after the previous one");
        }
        let last = self.segments.len() - 1;
        for (number, segment) in self.segments.iter_mut().enumerate().skip(1) {
            let is_full = number < last;
            segment.make_visible(CommitState { sealed: is_full, provisional: true, goes_on: is_full })?;
            segment.shared.publish()?;
        }
        // A segment of a new schema begins without rows.
        let sealed = CommitState { goes_on: self.segments[1].rows() > 0, ..SEALED };
        self.prepare_commit(sealed)?;
        let first = &self.segments[0];
        // A reader that lists the directory and finds the next segment must find this one's last footer.
        if let Err(e) = first.shared.publish_ahead(&first.now.counters, first.sequence() + 1) {
            first.forget_prepared();
            return Err(e);
        }
        if let Err(NamingError { named, error }) = self.name_all() {
            let first = &self.segments[0];
            first.forget_prepared();
            // Other Arrow readers must not keep seeing uncommitted rows.
            let taken_back = first.shared.publish_ahead(&first.committed.counters, first.sequence());
            if named > 0 || taken_back.is_err() {
                self.give_up(&format!("a segment could not be given its name ({})", error.message()));
            }
            return Err(error);
        }
        self.background.add_segments(self.segments[1..].iter().map(|segment| segment.shared.clone()).collect());
        if let Err(e) = self.show_all(sealed) {
            // The names are there, and what they stand for is unknown to this writer now.
            self.give_up(e.message());
            return Err(e);
        }
        self.background.on_rolled();
        for done in self.segments.drain(..last) {
            assert_eq!(done.committed_end(), done.end(), "a sealed segment has no uncommitted rows");
            let _ = done.trim();
            self.background.on_sealed(done.shared);
        }
        self.background.on_commit(&self.segments[0].shared);
        self.schedule_next_segment();
        Ok(())
    }

    /// Makes the rows of all segments visible; the first one is sealed in state `sealed`.
    fn show_all(&mut self, sealed: CommitState) -> Result<()> {
        let last = self.segments.len() - 1;
        self.segments[0].make_visible(sealed)?;
        for (number, segment) in self.segments.iter_mut().enumerate().skip(1).rev() {
            let is_full = number < last;
            segment.make_visible(CommitState { sealed: is_full, provisional: false, goes_on: is_full })?;
        }
        Ok(())
    }

    /// Lets the next writer finish the commit if this one is killed from now on.
    fn prepare_commit(&mut self, sealed: CommitState) -> Result<()> {
        for segment in &self.segments[1..] {
            let path = chain::prepared_path(&self.medium, self.path(), segment.first_row());
            let named = segment.shared.store.link_temporarily(&path);
            named.map_err(|e| Error::io("naming a segment for now", &e).at(&path))?;
        }
        self.segments[0].prepare(sealed)
    }

    /// Gives all segments but the first their names.
    fn name_all(&self) -> Result<(), NamingError> {
        let unnamed = &self.segments[1..];
        for (number, segment) in unnamed.iter().enumerate() {
            if let Err(error) = give_name(segment, self.path()) {
                // Other Arrow readers must not see the rows of segments that have theirs. The first error is enough.
                for named in unnamed[..number].iter().rev() {
                    let _ = self.medium.remove(&chain::path(self.path(), named.first_row()));
                }
                return Err(NamingError { named: number, error });
            }
        }
        Ok(())
    }
}
