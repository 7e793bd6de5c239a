//! Finds the first row at or after a value, such as a time. If rows are sorted by the column, only the part that may
//! match is scanned.

use arrow_schema::{DataType, Field};
use arrowwood::{Dataset, Predicate};
use serde_json::{Value as Json, json};

use super::cells::one_column;
use super::state::ViewSession;
use crate::catalog::Snapshot;
use crate::http::{Problem, Query, Result, ResultExt};
use crate::read::{ConditionError, is_temporal, parse_condition};

pub(crate) const PARAMETERS: &[&str] = &["value", "at", "view"];

/// The number of rows between two checks for a disconnected client.
const BLOCK_ROWS: u64 = 1 << 22;

/// Returns the number of the column to search: the requested one, the one by which rows are sorted, or the first one
/// with times.
fn column(rows: &Dataset, query: &Query) -> Result<usize> {
    if query.has("at") {
        return one_column(rows, query);
    }
    let fields = rows.schema().fields();
    if let Some(sorted) = rows.sorted_by()
        && let Some(number) = fields.iter().position(|field| field.name() == sorted.name())
    {
        return Ok(number);
    }
    fields.iter().position(|field| is_temporal(field.data_type())).ok_or_else(|| {
        Problem::bad_request("rows are sorted by no column, and none has times: the number of a row is expected")
    })
}

/// Returns the forms that a time may be an abbreviation of: a day means its beginning, and UTC can be omitted.
fn time_forms(value: &str, data_type: &DataType) -> Vec<String> {
    let value = value.trim();
    let time = value.replacen(' ', "T", 1);
    let mut forms = vec![value.to_owned(), time.clone(), format!("{time}:00"), format!("{time}T00:00:00")];
    if matches!(data_type, DataType::Timestamp(_, Some(zone)) if ["UTC", "+00:00"].contains(&zone.as_ref())) {
        let in_utc: Vec<String> = forms.iter().map(|form| format!("{form}Z")).collect();
        forms.extend(in_utc);
    }
    forms
}

/// Returns the condition that holds for rows at or after the value.
fn at_or_after(rows: &Dataset, field: &Field, value: &str) -> Result<Predicate> {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        plain => plain,
    };
    if is_temporal(data_type) {
        for form in time_forms(value, data_type) {
            if let Ok(condition) = parse_at_or_after(rows, field, &quoted(&form)) {
                return Ok(condition);
            }
        }
    }
    // An error shows the text of the request.
    let is_number = data_type.is_numeric() && !is_temporal(data_type);
    let literal = if is_number { value.to_owned() } else { quoted(value) };
    Ok(parse_at_or_after(rows, field, &literal)?)
}

fn parse_at_or_after(rows: &Dataset, field: &Field, literal: &str) -> Result<Predicate, ConditionError> {
    let name = field.name().replace('"', "\"\"");
    parse_condition(&format!("\"{name}\" >= {literal}"), rows.schema())
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the number of the first row at or after a value, or its position in a view.
pub(crate) async fn seek(page: &ViewSession, snapshot: Snapshot, query: &Query) -> Result<Json> {
    let ViewSession { session, state } = page;
    let view = query.get("view")?.map(|id| state.views.get(id, &snapshot)).transpose()?;
    if view.as_ref().is_some_and(|view| !view.rows.is_sorted()) {
        return Err(Problem::bad_request("the rows are in another order; go to a time before you sort them"));
    }
    let value = query.get("value")?.ok_or_else(|| Problem::bad_request("value: a time is expected"))?.to_owned();
    let rows = snapshot.rows;
    let column = column(&rows, query)?;
    let field = rows.schema().field(column).clone();
    let condition = at_or_after(&rows, &field, &value)?;
    let prune_condition = condition.clone();
    let candidates = session.run_blocking(move |_| rows.prune_contiguous(&prune_condition).or_table_problem()).await?;
    let len = candidates.len().or_table_problem()?;
    let mut first_match = None;
    let mut budget = session.budget();
    for start in (0..len).step_by(BLOCK_ROWS as usize) {
        let condition = condition.clone();
        let block = candidates.slice(start, BLOCK_ROWS).or_table_problem()?;
        let matches =
            budget.run_blocking(budget.step(), move |_| block.matching_rows(&condition).or_table_problem()).await?;
        if let Some(row) = matches.first() {
            first_match = Some(candidates.first_row() + start + row);
            break;
        }
    }
    let row = match (first_match, &view) {
        (Some(row), Some(view)) => {
            let position = view.rows.partition_point(|view_row| *view_row < row);
            if position < view.rows.len() { Some(position as u64) } else { None }
        }
        (row, _) => row,
    };
    Ok(json!({"row": row, "column": field.name()}))
}
