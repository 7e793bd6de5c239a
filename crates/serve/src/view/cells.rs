//! Renders the cells of a window of rows as text, cut to the width of a column on a screen.
//!
//! The cells are text and not Arrow, because the window is small and values need not be: a dictionary of a million
//! words, or a cell of a gigabyte, would be sent with each screen.

use arrowwood::readable::ellipsize;
use arrowwood::{Dataset, Value, field_type_name};
use serde_json::{Value as Json, json};

use super::views::Views;
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, Result, ResultExt};
use crate::read::check_start;

pub(crate) const PARAMETERS: &[&str] = &["from", "to", "at", "view", "width"];

/// The maximum number of rows in a response.
const MAX_ROWS: u64 = 2_000;
/// The maximum number of columns in a response.
const MAX_COLUMNS: usize = 1_000;
/// The maximum number of cells in a response.
const MAX_CELLS: u64 = 50_000;
/// The maximum number of characters of a cell, unless the client asks for more or fewer.
const DEFAULT_WIDTH: usize = 100;
/// The maximum number of characters of a cell that a client may ask for.
const MAX_WIDTH: usize = 1_000;

/// Renders the cells of a range of rows. If the rows are a view, `from` and `to` count its rows. Blocks.
pub(crate) fn cells(views: &Views, snapshot: &Snapshot, query: &Query) -> Result<Json> {
    let rows = &snapshot.rows;
    let view = query.get("view")?.map(|id| views.get(id, snapshot)).transpose()?;
    let len = rows.len().or_table_problem()?;
    let (first, end) = match &view {
        Some(view) => (0, view.rows.len() as u64),
        None => (rows.first_row(), rows.first_row() + len),
    };
    let from = query.number::<u64>("from")?.unwrap_or(first);
    check_start(from, first, end)?;
    let to = query.number::<u64>("to")?.unwrap_or(end).min(end).max(from);
    let columns = columns(rows, query)?;
    let to = to.min(from + MAX_ROWS).min(from + MAX_CELLS / columns.len().max(1) as u64);
    assert!(first <= from && from <= to && to <= end, "rows {from} to {to} of {first} to {end}");
    let width = query.number::<usize>("width")?.unwrap_or(DEFAULT_WIDTH).clamp(1, MAX_WIDTH);

    let numbers: Vec<u64> = match &view {
        Some(view) => view.rows[from as usize..to as usize].to_vec(),
        None => (from..to).collect(),
    };
    prefetch(rows, &columns, &numbers)?;
    let mut cells = Vec::with_capacity(numbers.len());
    for &number in &numbers {
        cells.push(match number.checked_sub(rows.first_row()) {
            Some(index) => {
                let row = rows.row(index).or_table_problem()?;
                columns.iter().map(|&column| cell(row.get(column), width)).collect()
            }
            // The table has dropped this row of the view.
            None => vec![Json::Null; columns.len()],
        });
    }
    Ok(json!({"first_row": first, "end": end, "from": from, "rows": numbers, "cells": cells}))
}

/// Prefetches the pages of the rows with these numbers all at once, before they are read one by one.
fn prefetch(rows: &Dataset, columns: &[usize], numbers: &[u64]) -> Result<()> {
    let selected = rows.select_at(columns).or_table_problem()?;
    for run in numbers.chunk_by(|number, next| number.checked_add(1) == Some(*next)) {
        // Rows that the table has dropped have no pages.
        let Some(start) = run[0].checked_sub(rows.first_row()) else { continue };
        selected.slice(start, run.len() as u64).or_table_problem()?.prefetch();
    }
    Ok(())
}

/// Renders columns and cells of the few rows of a computed result; the first `exact_columns` columns with all digits.
pub(crate) fn table(rows: &Dataset, exact_columns: usize) -> arrowwood::Result<Json> {
    let fields = rows.schema().fields().iter();
    let columns: Vec<Json> =
        fields.map(|field| json!({"name": field.name(), "type": field_type_name(field)})).collect();
    let mut cells = Vec::new();
    for row in rows.rows() {
        let values = row?.iter().map(|(_, value)| value).enumerate();
        let row_cells: Vec<Json> = values
            .map(|(column, value)| if column < exact_columns { exact_cell(value) } else { cell(value, DEFAULT_WIDTH) })
            .collect();
        cells.push(row_cells);
    }
    Ok(json!({"columns": columns, "cells": cells}))
}

/// Renders a cell as text; null as null; an unreadable value as an object with the error.
fn cell(value: arrowwood::Result<Value<'_>>, width: usize) -> Json {
    match value {
        Ok(Value::Null) => Json::Null,
        // Text has no quotes: the client tells it from null and from errors by the type of JSON.
        Ok(value) => ellipsize(&value, width).into(),
        Err(e) => json!({"error": e.message()}),
    }
}

/// Renders a cell with all digits.
fn exact_cell(value: arrowwood::Result<Value<'_>>) -> Json {
    match value {
        Ok(value) if !value.is_null() => ellipsize(format_args!("{value}"), DEFAULT_WIDTH).into(),
        other => cell(other, DEFAULT_WIDTH),
    }
}

/// Returns the numbers of the requested columns.
pub(crate) fn columns(rows: &Dataset, query: &Query) -> Result<Vec<usize>> {
    let num_columns = rows.num_columns();
    let Some(list) = query.get("at")? else { return Ok((0..num_columns.min(MAX_COLUMNS)).collect()) };
    let mut numbers: Vec<usize> = Vec::new();
    for text in list.split(',').filter(|text| !text.is_empty()) {
        match text.parse() {
            Ok(number) if number < num_columns => numbers.push(number),
            _ => {
                let detail = format!("at: numbers of columns below {num_columns} are expected, with commas");
                return Err(Problem::bad_request(detail));
            }
        }
    }
    if numbers.len() > MAX_COLUMNS {
        return Err(Problem::bad_request(format!("at: at most {MAX_COLUMNS} columns are expected")));
    }
    Ok(numbers)
}

/// Returns the number of the only requested column.
pub(crate) fn one_column(rows: &Dataset, query: &Query) -> Result<usize> {
    match columns(rows, query)?[..] {
        [only] if query.get("at")?.is_some() => Ok(only),
        _ => Err(Problem::bad_request("at: the number of one column is expected")),
    }
}
