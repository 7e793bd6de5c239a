//! [`PushedRows`]: identifies the rows of a table that were pushed to a store as an object, by a note in the object's
//! footer.

use std::fmt::{Display, Formatter};

/// The rows of a table that an object of a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedRows {
    /// The number of the object's first row in the table.
    pub first_row: u64,
    /// The identity of the table among others on its machine: [`table_identity`]. Empty if unknown.
    ///
    /// [`table_identity`]: crate::table_identity
    pub table: String,
}

impl PushedRows {
    /// Parses the note; returns `None` for another text.
    pub(crate) fn parse(note: &str) -> Option<PushedRows> {
        let (first_row, table) = note.split_once(' ')?;
        Some(PushedRows { first_row: first_row.parse().ok()?, table: table.into() })
    }
}

impl Display for PushedRows {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.first_row, self.table)
    }
}
