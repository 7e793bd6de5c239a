//! Cells as text, for a window of rows: what a terminal and a notebook show, cut to what fits.
//!
//! Text and not Arrow, because the window is small and values need not be: a dictionary of a million words, or a cell of a
//! gigabyte, would be sent with each screen.

use arrowwood::{Dataset, Error, Value, ellipsize, field_type_name};
use serde_json::{Value as Json, json};

use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::row_stream::check_start;
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["from", "to", "at", "view", "width"];

/// The most rows, columns and cells of an answer.
const MOST: (u64, usize, u64) = (2_000, 1_000, 50_000);
/// Characters of a cell: unless the client says otherwise, and at most.
const WIDTH: (usize, usize) = (100, 1_000);

/// The cells of a range of rows. Of a view, `from` and `to` count its rows. Blocks.
pub(crate) fn cells(session: &Session, snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let rows = &snapshot.rows;
    let view = query.get("view")?.map(|id| session.shared.views.get(id, snapshot)).transpose()?;
    let len = rows.len().map_err(of_table)?;
    let (first, end) = match &view {
        Some(view) => (0, view.rows.len() as u64),
        None => (rows.first_row(), rows.first_row() + len),
    };
    let from = query.number::<u64>("from")?.unwrap_or(first);
    check_start(from, first, end)?;
    let to = query.number::<u64>("to")?.unwrap_or(end).min(end).max(from);
    let columns = columns(rows, query)?;
    let to = to.min(from + MOST.0).min(from + MOST.2 / columns.len().max(1) as u64);
    let width = query.number::<usize>("width")?.unwrap_or(WIDTH.0).clamp(1, WIDTH.1);
    let number = |at: u64| match &view {
        Some(view) => usize::try_from(at).ok().and_then(|at| view.rows.get(at)).copied().unwrap_or(at),
        None => at,
    };
    let numbers: Vec<u64> = (from..to).map(number).collect();
    prefetch(rows, &columns, &numbers)?;
    let mut found = Vec::with_capacity(numbers.len());
    for &number in &numbers {
        let at = number.checked_sub(rows.first_row());
        let row = at.map(|at| rows.row(at)).transpose().map_err(of_table)?;
        let cell = |&column: &usize| row.as_ref().map_or(Json::Null, |row| cell(row.get(column), width));
        found.push(columns.iter().map(cell).collect::<Vec<_>>());
    }
    Ok(json!({"first_row": first, "end": end, "from": from, "rows": numbers, "cells": found}))
}

/// Asks for the pages of the rows called `numbers` all at once, before they are read one by one.
fn prefetch(rows: &Dataset, columns: &[usize], numbers: &[u64]) -> Result<()> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let selected = rows.select_at(columns).map_err(of_table)?;
    for run in numbers.chunk_by(|number, next| number.checked_add(1) == Some(*next)) {
        // Rows that the table has dropped have none.
        let Some(start) = run[0].checked_sub(rows.first_row()) else { continue };
        selected.slice(start, run.len() as u64).map_err(of_table)?.prefetch();
    }
    Ok(())
}

/// Columns and cells of the few rows that something was computed to; those of the first `exact` columns with all digits.
pub(crate) fn table(rows: &Dataset, exact: usize) -> arrowwood::Result<Json> {
    let fields = rows.schema().fields().iter();
    let columns: Vec<Json> =
        fields.map(|field| json!({"name": field.name(), "type": field_type_name(field)})).collect();
    let shown = |(number, (_, value))| if number < exact { exact_cell(value) } else { cell(value, WIDTH.0) };
    let cells = rows.rows().map(|row| Ok(row?.iter().enumerate().map(shown).collect::<Vec<_>>()));
    let cells = cells.collect::<arrowwood::Result<Vec<_>>>()?;
    Ok(json!({"columns": columns, "cells": cells}))
}

/// The text of a cell; null; or an object with an error.
fn cell(value: arrowwood::Result<Value<'_>>, width: usize) -> Json {
    match value {
        Ok(Value::Null) => Json::Null,
        // Text stands for itself, and is not the word of something else.
        Ok(value) => ellipsize(&value, width).into(),
        Err(e) => json!({"error": e.message()}),
    }
}

/// The same, with all digits.
fn exact_cell(value: arrowwood::Result<Value<'_>>) -> Json {
    match value {
        Ok(value) if !value.is_null() => ellipsize(format_args!("{value}"), WIDTH.0).into(),
        other => cell(other, WIDTH.0),
    }
}

/// The numbers of the columns that are asked for.
pub(crate) fn columns(rows: &Dataset, query: &Query) -> Result<Vec<usize>> {
    let all = rows.num_columns();
    let Some(list) = query.get("at")? else { return Ok((0..all.min(MOST.1)).collect()) };
    let wrong = || Problem::bad_request(format!("at: numbers of columns below {all} are expected, with commas"));
    let numbers = list.split(',').filter(|text| !text.is_empty()).map(|text| text.parse().map_err(|_| wrong()));
    let numbers = numbers.collect::<Result<Vec<usize>>>()?;
    if numbers.len() > MOST.1 {
        return Err(Problem::bad_request(format!("at: at most {} columns are expected", MOST.1)));
    }
    if numbers.iter().any(|&number| number >= all) { Err(wrong()) } else { Ok(numbers) }
}

/// The number of the one column that is asked for.
pub(crate) fn one_column(rows: &Dataset, query: &Query) -> Result<usize> {
    match columns(rows, query)?[..] {
        [only] if query.get("at")?.is_some() => Ok(only),
        _ => Err(Problem::bad_request("at: the number of one column is expected")),
    }
}
