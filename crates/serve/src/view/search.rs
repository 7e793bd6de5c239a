//! Searches for rows that match a condition, in their order or sorted, and reports the progress. A [`Search`] ends when
//! its client disconnects.

use std::io;

use arrowwood::{Dataset, Predicate};
use bytes::Bytes;
use serde_json::{Value as Json, json};

use super::state::ViewSession;
use crate::catalog::Snapshot;
use crate::http::{BodyPart, Problem, Query, Result, ResultExt};
use crate::ops::{Budget, Share};
use crate::read::parse_condition_on;

pub(crate) const PARAMETERS: &[&str] = &["where", "sort", "descending"];

/// The maximum number of rows in a view, which keeps their numbers of 8 bytes each.
const MAX_ROWS: usize = 2_000_000;
/// The number of rows searched between two reports.
const BLOCK_ROWS: u64 = 1 << 22;
/// The maximum number of rows sorted without a condition.
const MAX_SORTED_ROWS: u64 = 1 << 25;
/// The memory in bytes for sorting a row, without its value.
const SORT_BYTES: u128 = 24;

/// A search in progress.
pub(crate) struct Search {
    page: ViewSession,
    snapshot: Snapshot,
    condition: Option<Predicate>,
    sort: Option<SortKey>,
    /// The part of the rows that may match.
    candidates: Dataset,
    /// The number of candidates that were searched.
    searched: u64,
    /// The numbers of the matching rows.
    matches: Vec<u64>,
    budget: Budget,
}

/// The order of a view.
struct SortKey {
    column: String,
    is_descending: bool,
}

impl Search {
    /// Prepares the search that `query` requests. Blocks.
    pub fn from_query(snapshot: Snapshot, query: &Query, page: ViewSession) -> Result<Search> {
        let rows = &snapshot.rows;
        let condition = query.get("where")?.map(|text| parse_condition_on(text, rows)).transpose()?;
        let is_descending = query.flag("descending")?;
        let sort = query.get("sort")?.map(|column| SortKey { column: column.to_owned(), is_descending });
        if let Some(SortKey { column, is_descending }) = &sort {
            // Sorting no rows checks the name and the type of the column.
            let no_rows = rows.head(0).or_table_problem()?;
            no_rows.sort_indices(&[(column, *is_descending)]).or_table_problem()?;
        }
        if condition.is_none() && sort.is_none() {
            return Err(Problem::bad_request("where or sort is expected"));
        }
        let len = rows.len().or_table_problem()?;
        if condition.is_none() && len > MAX_SORTED_ROWS {
            let detail =
                format!("{len} rows are too many to sort for a look, at most {MAX_SORTED_ROWS}: set a condition first");
            return Err(Problem::bad_request(detail));
        }
        let candidates = match &condition {
            Some(condition) => rows.prune_contiguous(condition).or_table_problem()?,
            None => rows.clone(),
        };
        let budget = page.session.budget();
        Ok(Search { page, snapshot, condition, sort, candidates, searched: 0, matches: Vec::new(), budget })
    }

    pub async fn step(self) -> io::Result<BodyPart<Search>> {
        let session = self.page.session.clone();
        if session.is_stopping() || !session.is_valid() {
            return Err(io::Error::other("the server is stopping"));
        }
        let mut budget = self.budget.clone();
        let searched = budget.run_blocking(budget.step(), move |share| self.search(share)).await;
        // The response has begun, so an error is its last line.
        let (search, report) = searched.unwrap_or_else(|refusal| (None, session.error_line(refusal)));
        let line = Bytes::from(report.to_string() + "\n");
        Ok((vec![line], search.map(|search| Search { budget, ..search })))
    }

    /// Searches the next rows, or ends the search. Returns the state if it goes on, and a report of the progress.
    /// Blocks.
    fn search(mut self, share: &mut Share) -> Result<(Option<Search>, Json)> {
        let candidate_count = self.candidates.len().or_table_problem()?;
        assert!(self.searched <= candidate_count, "{} of {candidate_count} rows are searched", self.searched);
        if let Some(condition) = &self.condition
            && self.searched < candidate_count
            && self.matches.len() < MAX_ROWS
        {
            let rows = BLOCK_ROWS.min(candidate_count - self.searched);
            let first_row = self.candidates.first_row() + self.searched;
            let block = self.candidates.slice(self.searched, rows).or_table_problem()?;
            let matches = block.matching_rows(condition).or_table_problem()?;
            self.matches.extend(matches.into_iter().map(|row| first_row + row).take(MAX_ROWS - self.matches.len()));
            debug_assert!(self.matches.is_sorted(), "matching rows are not in their order");
            self.searched += rows;
            let report = json!({"searched": self.searched, "of": candidate_count, "found": self.matches.len()});
            return Ok((Some(self), report));
        }

        let is_whole = self.searched == candidate_count || self.condition.is_none();
        share.grow(self.sort_bytes().or_table_problem()?)?;
        self.sort().or_table_problem()?;
        let rows = self.matches.len();
        let id = self.page.state.views.add(&self.snapshot, self.matches);
        let report =
            json!({"view": id, "rows": rows, "searched": self.searched, "of": candidate_count, "whole": is_whole});
        Ok((None, report))
    }

    /// Returns the memory for sorting in bytes: numbers of rows, their order, and keys; and the column, if only some
    /// rows are sorted.
    fn sort_bytes(&self) -> arrowwood::Result<usize> {
        let Some(SortKey { column, .. }) = &self.sort else { return Ok(0) };
        let table_rows = self.snapshot.rows.len()?.max(1);
        let rows = if self.condition.is_some() { self.matches.len() as u64 } else { table_rows };
        let column_bytes = u128::from(self.snapshot.rows.select(&[column])?.nbytes()?);
        let bytes = u128::from(rows) * SORT_BYTES + column_bytes * u128::from(rows) / u128::from(table_rows);
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    fn sort(&mut self) -> arrowwood::Result<()> {
        let first_row = self.snapshot.rows.first_row();
        let Some(SortKey { column, is_descending }) = &self.sort else { return Ok(()) };
        let keys = [(column, *is_descending)];
        if self.condition.is_none() {
            self.matches = self.snapshot.rows.sort_indices(&keys)?.into_iter().map(|row| first_row + row).collect();
            return Ok(());
        }
        let indices: Vec<u64> = self.matches.iter().map(|row| row - first_row).collect();
        // Only the column itself is gathered.
        let order = self.snapshot.rows.select(&[column])?.rows_at(&indices)?.sort_indices(&keys)?;
        assert_eq!(order.len(), self.matches.len(), "sorting has lost or added rows");
        self.matches = order.into_iter().map(|index| self.matches[index as usize]).collect();
        Ok(())
    }
}
