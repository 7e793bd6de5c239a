//! [`PushedRows`]: the rows of a table that an object of a store has, as a note in its footer says.

use std::fmt::{Display, Formatter};

/// The rows of a table that an object of a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedRows {
    /// The number of the first one in the table.
    pub first_row: u64,
    /// What tells the table from others on its machine: [`table_identity`]. Empty if unknown.
    ///
    /// [`table_identity`]: crate::table_identity
    pub table: String,
}

impl PushedRows {
    /// Parses the note; `None` for another text.
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
