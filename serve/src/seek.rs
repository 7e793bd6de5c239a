//! Finds the first row at or after a value, such as a time: by binary search if rows are sorted by it, else by
//! scanning.

use arrow_schema::{DataType, Field};
use arrowwood::{Dataset, Error, Predicate};
use serde_json::{Value as Json, json};

use crate::cells::one_column;
use crate::condition::{ConditionError, is_temporal, parse_condition};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::session::Session;
use crate::snapshot::Snapshot;

pub(crate) const PARAMETERS: &[&str] = &["value", "at", "view"];

/// Rows between two checks whether the client is still connected.
const BLOCK: u64 = 1 << 22;

/// The column to search: that of the request, that by which rows are sorted, or the first column of times.
fn column(rows: &Dataset, query: &Query) -> Result<usize> {
    if query.get("at")?.is_some() {
        return one_column(rows, query);
    }
    let fields = rows.schema().fields();
    let sorted = rows.sorted_by().and_then(|sorted| fields.iter().position(|field| field.name() == sorted.name()));
    let times = || fields.iter().position(|field| is_temporal(field.data_type()));
    sorted.or_else(times).ok_or_else(|| {
        Problem::bad_request("rows are sorted by no column, and none has times: the number of a row is expected")
    })
}

/// Accepted forms of a time: a day is its beginning, and UTC need not be written.
fn meant(value: &str, data_type: &DataType) -> Vec<String> {
    let whole = value.trim().replacen(' ', "T", 1);
    let days = [value.trim().to_owned(), whole.clone(), format!("{whole}:00"), format!("{whole}T00:00:00")];
    let is_utc = matches!(data_type, DataType::Timestamp(_, Some(zone)) if ["UTC", "+00:00"].contains(&zone.as_ref()));
    let in_utc = days.iter().filter(|_| is_utc).map(|day| format!("{day}Z")).collect::<Vec<_>>();
    days.into_iter().chain(in_utc).collect()
}

/// The condition of rows at or after the value.
fn condition(rows: &Dataset, field: &Field, value: &str) -> Result<Predicate> {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        own => own,
    };
    let name = field.name().replace('"', "\"\"");
    let parse = |value: &str| -> Result<Predicate, ConditionError> {
        let is_number = data_type.is_numeric() && !is_temporal(data_type);
        let value = if is_number { value.to_owned() } else { format!("'{}'", value.replace('\'', "''")) };
        parse_condition(&format!("\"{name}\" >= {value}"), rows.schema())
    };
    let mut forms = vec![value.to_owned()];
    if is_temporal(data_type) {
        forms = meant(value, data_type);
    }
    let found = forms.iter().find_map(|form| parse(form).ok());
    // The error is that of the original text.
    found.map_or_else(|| Ok(parse(value)?), Ok)
}

/// The number of the first row at or after a value; in a view, its position there.
pub(crate) async fn seek(session: &Session, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let of_table = |e: Error| Problem::from_table_error(&e);
    let view = query.get("view")?.map(|id| session.shared.views.get(id, &snapshot)).transpose()?;
    if view.as_ref().is_some_and(|view| !view.rows.is_sorted()) {
        return Err(Problem::bad_request("the rows are in another order; go to a time before you sort them"));
    }
    let value = query.get("value")?.ok_or_else(|| Problem::bad_request("value: a time is expected"))?.to_owned();
    let rows = snapshot.rows;
    let column = column(&rows, query)?;
    let field = rows.schema().field(column).clone();
    let condition = condition(&rows, &field, &value)?;
    let wanted = condition.clone();
    let inside = session.run_blocking(move |_| rows.prune_contiguous(&wanted).map_err(of_table)).await?;
    let len = inside.len().map_err(of_table)?;
    let mut found = None;
    let mut budget = session.budget();
    for start in (0..len).step_by(BLOCK as usize) {
        let wanted = condition.clone();
        let block = inside.slice(start, BLOCK).map_err(of_table)?;
        let rows = budget.run_blocking(budget.step(), move |_| block.matching_rows(&wanted).map_err(of_table)).await?;
        found = rows.first().copied();
        if let Some(row) = found.as_mut() {
            *row += inside.first_row() + start;
            break;
        }
    }
    let place = |row: u64| match &view {
        Some(view) => Some(view.rows.partition_point(|of| *of < row) as u64).filter(|at| *at < view.rows.len() as u64),
        None => Some(row),
    };
    Ok(json!({"row": found.and_then(place), "column": field.name()}))
}
