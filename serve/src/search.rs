//! [`Search`]: rows matching a condition, in their order or sorted. Reports its progress, and ends when its client
//! disconnects.

use std::io;

use arrowwood::{Dataset, Error, Predicate};
use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::budget::{Budget, Share};
use crate::condition::parse_condition_on;
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response_body::{BodySource, BodyStep};
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["where", "sort", "descending"];

/// The maximum number of rows kept of a view, eight bytes each.
const MOST: usize = 2_000_000;
/// Rows searched between two reports, and rows sorted without a condition.
const BLOCK: u64 = 1 << 22;
const SORTED: u64 = 1 << 25;
/// The memory for sorting a row, in bytes.
const SORTING: u128 = 24;

/// A search in progress.
pub(crate) struct Search {
    session: Session,
    snapshot: Snapshot,
    condition: Option<Predicate>,
    sort: Option<(String, bool)>,
    /// The part of the rows that may match, and the number searched.
    inside: Dataset,
    searched: u64,
    found: Vec<u64>,
    budget: Budget,
}

impl Search {
    /// Parses the request `query`. Blocks.
    pub fn from_query(snapshot: Snapshot, query: &Query, session: Session) -> Result<Search> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let rows = &snapshot.rows;
        let condition = query.get("where")?.map(|text| parse_condition_on(text, rows)).transpose()?;
        let sort = query.get("sort")?.map(str::to_owned);
        let descending = query.flag("descending")?;
        if let Some(name) = &sort {
            // An invalid name or type is an error of the request.
            rows.head(0).and_then(|none| none.sort_indices(&[(name, descending)])).map_err(of_table)?;
        }
        if condition.is_none() && sort.is_none() {
            return Err(Problem::bad_request("where or sort is expected"));
        }
        let len = rows.len().map_err(of_table)?;
        if condition.is_none() && len > SORTED {
            let detail = format!("{len} rows are too many to sort for a look, at most {SORTED}: set a condition first");
            return Err(Problem::bad_request(detail));
        }
        let inside = match &condition {
            Some(condition) => rows.prune_contiguous(condition).map_err(of_table)?,
            None => rows.clone(),
        };
        let sort = sort.map(|name| (name, descending));
        let budget = session.budget();
        Ok(Search { session, snapshot, condition, sort, inside, searched: 0, found: Vec::new(), budget })
    }

    /// Searches the next rows; returns a line with the progress. Blocks.
    fn search(mut self, share: &mut Share) -> Result<(Option<Search>, Json)> {
        let of_table = |e: Error| Problem::from_table_error(&e);
        let all = self.inside.len().map_err(of_table)?;
        if let Some(condition) = &self.condition
            && self.searched < all
            && self.found.len() < MOST
        {
            let rows = BLOCK.min(all - self.searched);
            let before = self.inside.first_row() + self.searched;
            let block = self.inside.slice(self.searched, rows).map_err(of_table)?;
            let found = block.matching_rows(condition).map_err(of_table)?;
            self.found.extend(found.into_iter().map(|row| before + row).take(MOST - self.found.len()));
            self.searched += rows;
            let report = json!({"searched": self.searched, "of": all, "found": self.found.len()});
            return Ok((Some(self), report));
        }
        let is_whole = self.searched == all || self.condition.is_none();
        share.grow(self.sorting().map_err(of_table)?)?;
        self.sort().map_err(of_table)?;
        let rows = self.found.len();
        let id = self.session.shared.views.add(&self.snapshot, self.found);
        Ok((None, json!({"view": id, "rows": rows, "searched": self.searched, "of": all, "whole": is_whole})))
    }

    /// The memory for sorting in bytes: numbers of rows, their order, and keys; and the column, if only some rows are
    /// sorted.
    fn sorting(&self) -> arrowwood::Result<usize> {
        let Some((name, _)) = &self.sort else { return Ok(0) };
        let all = self.snapshot.rows.len()?.max(1);
        let rows = if self.condition.is_some() { self.found.len() as u64 } else { all };
        let column = u128::from(self.snapshot.rows.select(&[name])?.nbytes()?) * u128::from(rows) / u128::from(all);
        Ok(usize::try_from(u128::from(rows) * SORTING + column).unwrap_or(usize::MAX))
    }

    fn sort(&mut self) -> arrowwood::Result<()> {
        let first = self.snapshot.rows.first_row();
        let Some((name, descending)) = &self.sort else { return Ok(()) };
        let by = [(name, *descending)];
        if self.condition.is_none() {
            self.found = self.snapshot.rows.sort_indices(&by)?.into_iter().map(|row| first + row).collect();
            return Ok(());
        }
        let numbers: Vec<u64> = self.found.iter().map(|row| row - first).collect();
        // Only the column itself is gathered.
        let order = self.snapshot.rows.select(&[name])?.rows_at(&numbers)?.sort_indices(&by)?;
        self.found = order.into_iter().filter_map(|at| self.found.get(usize::try_from(at).ok()?).copied()).collect();
        Ok(())
    }
}

impl BodySource for Search {
    async fn step(self) -> BodyStep<Search> {
        let session = self.session.clone();
        if session.is_stopping() || !session.is_valid() {
            return BodyStep::Failed(io::Error::other("the server is stopping"));
        }
        let line = |json: Json| vec![Bytes::from(json.to_string() + "\n")];
        let mut budget = self.budget.clone();
        match budget.run_blocking(budget.step(), move |share| self.search(share)).await {
            Ok((Some(search), report)) => BodyStep::Data(Search { budget, ..search }, line(report)),
            Ok((None, report)) => BodyStep::End(line(report)),
            // The answer has begun: the last line has the error.
            Err(refusal) => BodyStep::End(line(session.error_line(refusal))),
        }
    }
}
