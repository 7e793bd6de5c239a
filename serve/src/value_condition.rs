//! Conditions that hold for the rows with the same value as a given one: what a click on a value asks for. They are made of the
//! value, never of the text that is shown for it, and tried on it before they are offered.

use std::collections::HashMap;
use std::time::Duration;

use arrow_schema::Schema;
use arrowwood::{Dataset, Literal, Value, col};

use crate::condition::{OF_ROWS, parse_condition_on, size_of_value};
use crate::exact_text::hex;

/// The longest text, in bytes, that a condition repeats: longer ones are named by a row.
const LONGEST: usize = 200;
/// The time for which rows are looked for that have values which can't be typed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Rows that are looked through at once, at first and at most.
const BLOCK: (u64, u64) = (1 << 12, 1 << 20);
/// Words with a meaning of their own.
const KEYWORDS: [&str; 10] = ["and", "as", "false", "in", "is", "nan", "not", "null", "or", "true"];

/// The column `number` of a schema in a condition; `None` if no name says which column is meant, or if it can't be typed.
pub(crate) fn name_of(schema: &Schema, number: usize) -> Option<String> {
    let field = schema.fields().get(number)?;
    let is_alone = schema.fields().iter().filter(|other| other.name() == field.name()).count() == 1;
    if !is_alone || field.name().contains(char::is_control) || field.name().len() > LONGEST {
        return None;
    }
    let mut letters = field.name().chars();
    let is_word = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(field.name()));
    Some(if is_word { field.name().clone() } else { format!("\"{}\"", field.name().replace('"', "\"\"")) })
}

/// The condition that holds for the rows with the value that the only cell of `own` has, in column `number` of rows of `schema`. `row`
/// has it too, and names values that can't be typed. `None` where no condition holds for just these rows.
pub(crate) fn same(schema: &Schema, number: usize, own: &Dataset, row: Option<u64>) -> Option<String> {
    let name = name_of(schema, number)?;
    let own = own.with_names(&[schema.field(number).name()]).ok()?;
    let cell = own.row(0).ok()?;
    let value = cell.get(0).ok()?;
    let typed = typed(&value).map(|test| format!("{name} {test}")).filter(|text| holds(&own, text));
    let by_row = || {
        let row = row.filter(|_| size_of_value(&value) <= OF_ROWS)?;
        // The only row of `own` stands for it.
        let is_equal = holds(&own, &format!("{name} is as in row {}", own.first_row()));
        is_equal.then(|| format!("{name} is as in row {row}"))
    };
    typed.or_else(by_row)
}

/// Whether a condition holds for a row. What is equal to its value is then equal to the condition's.
fn holds(own: &Dataset, text: &str) -> bool {
    let predicate = parse_condition_on(text, own);
    predicate.is_ok_and(|predicate| own.filter(&predicate).and_then(|found| found.len()).is_ok_and(|len| len == 1))
}

/// The test for a value that people could have typed.
fn typed(value: &Value<'_>) -> Option<String> {
    let float = |x: f64| match x {
        x if x.is_nan() => "is nan".to_owned(),
        // The parser's infinity.
        x if x.is_infinite() => format!("== {}1e999", if x < 0.0 { "-" } else { "" }),
        x => format!("== {x:?}"),
    };
    let quoted = |text: &str| format!("== '{}'", text.replace('\'', "''"));
    Some(match value {
        value if value.is_null() => "is null".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Int128(_) => format!("== {value}"),
        Value::Float32(x) => float((*x).into()),
        Value::Float64(x) => float(*x),
        Value::Str(text) if text.len() <= LONGEST && !text.contains(char::is_control) => quoted(text),
        Value::Bytes(bytes) if bytes.len() <= LONGEST / 2 => quoted(&hex(bytes)),
        Value::Decimal { .. } | Value::Date(_) | Value::Time(..) | Value::Timestamp(..) | Value::Duration(..) => {
            quoted(value.to_json().ok()?.as_str()?)
        }
        _ => return None,
    })
}

/// The condition for each value in the only column of `values`, as by [`same`]. Rows that have those that can't be typed are looked for
/// in the only column of `within`; `number_of` has the number of the row at a place there. The search ends, with conditions missing,
/// once `goes_on` is false.
///
/// # Errors
/// Those of damaged values.
pub(crate) fn conditions(
    (schema, number): (&Schema, usize),
    values: &Dataset,
    within: &Dataset,
    number_of: impl Fn(u64) -> u64,
    goes_on: impl Fn() -> bool,
) -> arrowwood::Result<Vec<Option<String>>> {
    let own = (0..values.len()?).map(|value| values.slice(value, 1)).collect::<arrowwood::Result<Vec<_>>>()?;
    let mut found: Vec<_> = own.iter().map(|own| same(schema, number, own, None)).collect();
    let mut wanted = HashMap::new();
    let mut bytes = 0;
    // A row of their own shows which others a row would name.
    let left = own
        .iter()
        .zip(&found)
        .enumerate()
        .filter(|(_, (own, found))| found.is_none() && same(schema, number, own, Some(0)).is_some());
    for (at, (own, _)) in left {
        let row = own.row(0)?;
        let value = row.get(0)?;
        bytes += size_of_value(&value);
        if bytes <= OF_ROWS {
            wanted.insert(key(&value), at);
        }
    }
    for (value, place) in places(within, values, wanted, goes_on)? {
        found[value] = own.get(value).and_then(|own| same(schema, number, own, Some(number_of(place))));
    }
    Ok(found)
}

/// What values of a column are told apart by.
fn key(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::Str(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        value => value.to_string().into_bytes(),
    }
}

/// The places of `wanted` in `values`, each with the first place in `within` that has the same value.
fn places(
    within: &Dataset,
    values: &Dataset,
    mut wanted: HashMap<Vec<u8>, usize>,
    goes_on: impl Fn() -> bool,
) -> arrowwood::Result<Vec<(usize, u64)>> {
    let name = "value";
    let within = within.with_names(&[name])?;
    let len = within.len()?;
    let mut found = Vec::new();
    let (mut start, mut size) = (0, BLOCK.0);
    while start < len && !wanted.is_empty() && goes_on() {
        let block = within.slice(start, size)?;
        let mut literals = Vec::with_capacity(wanted.len());
        for at in wanted.values() {
            literals.push(Literal::from(values.row(*at as u64)?.get(0)?));
        }
        for place in block.matching_rows(&col(name).is_in(literals))? {
            if let Some(at) = wanted.remove(&key(&block.row(place)?.get(0)?)) {
                found.push((at, start + place));
            }
        }
        start += size;
        size = (2 * size).min(BLOCK.1);
    }
    Ok(found)
}
