//! Makes conditions that hold for the rows with a given value, for clicks on a value in the page. They are made from
//! the value itself, not from its printed text, and are tried on it before they are offered.

use std::collections::HashMap;
use std::time::Duration;

use arrow_schema::Schema;
use arrowwood::{Dataset, Literal, Value, col};

use crate::hex::hex;
use crate::read::{MAX_ROW_VALUE_BYTES, parse_condition_on, size_of_value};

/// The maximum length in bytes of a text that a condition repeats; a longer one is named by a row.
const MAX_TEXT_LEN: usize = 200;
/// The maximum time to search rows for values that can't be typed.
pub(crate) const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of rows in the first block that is searched; each further block is twice as large.
const FIRST_BLOCK_ROWS: u64 = 1 << 12;
/// The maximum number of rows in a searched block.
const MAX_BLOCK_ROWS: u64 = 1 << 20;
/// Words with a meaning of their own.
const KEYWORDS: [&str; 10] = ["and", "as", "false", "in", "is", "nan", "not", "null", "or", "true"];

/// Returns the name of column `number` in a condition; `None` if another column has the same name, or if it can't be
/// typed.
pub(crate) fn name_of(schema: &Schema, number: usize) -> Option<String> {
    let field = schema.fields().get(number)?;
    let is_unique = schema.fields().iter().filter(|other| other.name() == field.name()).count() == 1;
    if !is_unique || field.name().contains(char::is_control) || field.name().len() > MAX_TEXT_LEN {
        return None;
    }
    let mut letters = field.name().chars();
    let is_word = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(field.name()));
    Some(if is_word { field.name().clone() } else { format!("\"{}\"", field.name().replace('"', "\"\"")) })
}

/// Returns the condition that holds for the rows with the value in the only cell of `cell`, which belongs to column
/// `number` of `schema`. A value that can't be typed is named by `row`, which must have the same value. `None` if no
/// condition holds for just these rows.
pub(crate) fn same(schema: &Schema, number: usize, cell: &Dataset, row: Option<u64>) -> Option<String> {
    let name = name_of(schema, number)?;
    let cell = cell.with_names(&[schema.field(number).name()]).ok()?;
    let cell_row = cell.row(0).ok()?;
    let value = cell_row.get(0).ok()?;
    if let Some(test) = typed_test(&value) {
        let condition = format!("{name} {test}");
        if holds(&cell, &condition) {
            return Some(condition);
        }
    }
    let row = row?;
    // The row of `cell` stands for `row`, as both have the same value.
    if size_of_value(&value) <= MAX_ROW_VALUE_BYTES
        && holds(&cell, &format!("{name} is as in row {}", cell.first_row()))
    {
        return Some(format!("{name} is as in row {row}"));
    }
    None
}

/// Returns true if a condition holds for the only row of `cell`, so that its literal is equal to the value there.
fn holds(cell: &Dataset, condition: &str) -> bool {
    let Ok(predicate) = parse_condition_on(condition, cell) else { return false };
    cell.filter(&predicate).and_then(|rows| rows.len()).is_ok_and(|len| len == 1)
}

/// Returns the test for a value that people could have typed.
fn typed_test(value: &Value<'_>) -> Option<String> {
    Some(match value {
        value if value.is_null() => "is null".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Int128(_) => format!("== {value}"),
        Value::Float32(x) => float_test((*x).into()),
        Value::Float64(x) => float_test(*x),
        Value::Str(text) if text.len() <= MAX_TEXT_LEN && !text.contains(char::is_control) => quoted_test(text),
        Value::Bytes(bytes) if bytes.len() <= MAX_TEXT_LEN / 2 => quoted_test(&hex(bytes)),
        Value::Decimal { .. } | Value::Date(_) | Value::Time(..) | Value::Timestamp(..) | Value::Duration(..) => {
            quoted_test(value.to_json().ok()?.as_str()?)
        }
        _ => return None,
    })
}

fn float_test(x: f64) -> String {
    if x.is_nan() {
        return "is nan".to_owned();
    }
    if x.is_infinite() {
        // The parser reads a number that is too large as infinity.
        return format!("== {}1e999", if x < 0.0 { "-" } else { "" });
    }
    format!("== {x:?}")
}

fn quoted_test(text: &str) -> String {
    format!("== '{}'", text.replace('\'', "''"))
}

/// Returns the condition for each value in the only column of `values`, as [`same`] does.
///
/// The only column of `within` is searched for values that can't be typed; `row_number` maps an index there to the
/// number of the row. The search ends, with conditions missing, once `may_continue` returns false.
///
/// # Errors
/// If a value is damaged.
pub(crate) fn conditions(
    (schema, number): (&Schema, usize),
    values: &Dataset,
    within: &Dataset,
    row_number: impl Fn(u64) -> u64,
    may_continue: impl Fn() -> bool,
) -> arrowwood::Result<Vec<Option<String>>> {
    let mut conditions = Vec::new();
    // The values that only a row can name, each with its index in `values`.
    let mut untyped = HashMap::new();
    let mut untyped_bytes = 0;
    for index in 0..values.len()? {
        let cell = values.slice(index, 1)?;
        let condition = same(schema, number, &cell, None);
        // Any row shows if a condition on a row is possible.
        if condition.is_none() && same(schema, number, &cell, Some(0)).is_some() {
            let row = cell.row(0)?;
            let value = row.get(0)?;
            untyped_bytes += size_of_value(&value);
            if untyped_bytes <= MAX_ROW_VALUE_BYTES {
                untyped.insert(value_key(&value), index);
            }
        }
        conditions.push(condition);
    }
    for (index, position) in find_first_rows(within, values, untyped, may_continue)? {
        let cell = values.slice(index, 1)?;
        conditions[index as usize] = same(schema, number, &cell, Some(row_number(position)));
    }
    Ok(conditions)
}

/// Returns bytes that differ for different values of a column.
fn value_key(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::Str(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        value => value.to_string().into_bytes(),
    }
}

/// Finds the first row in `within` with each of the `wanted` values, which have an index in `values`. Returns the index
/// of each value that was found, and of the row in `within`.
fn find_first_rows(
    within: &Dataset,
    values: &Dataset,
    mut wanted: HashMap<Vec<u8>, u64>,
    may_continue: impl Fn() -> bool,
) -> arrowwood::Result<Vec<(u64, u64)>> {
    let name = "value";
    let within = within.with_names(&[name])?;
    let len = within.len()?;
    let mut first_rows = Vec::new();
    let mut start = 0;
    let mut block_rows = FIRST_BLOCK_ROWS;
    while start < len && !wanted.is_empty() && may_continue() {
        let block = within.slice(start, block_rows)?;
        let mut literals = Vec::with_capacity(wanted.len());
        for index in wanted.values() {
            literals.push(Literal::from(values.row(*index)?.get(0)?));
        }
        for row in block.matching_rows(&col(name).is_in(literals))? {
            if let Some(index) = wanted.remove(&value_key(&block.row(row)?.get(0)?)) {
                first_rows.push((index, start + row));
            }
        }
        start += block_rows;
        block_rows = (2 * block_rows).min(MAX_BLOCK_ROWS);
    }
    Ok(first_rows)
}
