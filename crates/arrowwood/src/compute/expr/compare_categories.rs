//! Compares ordered categories with literals, by their order.

use super::literal::{Literal, LiteralValue, Operator};
use super::value_predicate::ValuePredicate;
use crate::array::Value;
use crate::compute::scan::Categories;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::escape::escape_hidden;

/// The maximum number of categories that an error shows.
const MAX_SHOWN: usize = 20;

/// Creates the test that compares column number `column`, called `name`, with `literal`. Ordered categories are
/// compared by their order.
///
/// # Errors
/// As [`ValuePredicate::for_comparison`]; `InvalidArgument` if ordered categories are compared by order with a
/// `literal` that is none of them.
pub(super) fn comparison_predicate(
    dataset: &Dataset,
    (column, name): (usize, &str),
    operator: Operator,
    literal: &Literal,
) -> Result<ValuePredicate> {
    if operator.is_order()
        && !matches!(literal.0, LiteralValue::Null)
        && let Some(categories) = Categories::load(dataset, column)?
    {
        return order_predicate(&categories, name, operator, literal);
    }
    ValuePredicate::for_comparison(name, dataset.schema().field(column).data_type(), operator, literal)
}

/// Creates the test of column `name` for values before or behind `literal`, which must be one of the categories.
fn order_predicate(
    categories: &Categories,
    name: &str,
    operator: Operator,
    literal: &Literal,
) -> Result<ValuePredicate> {
    let equal = ValuePredicate::for_comparison(name, categories.data_type(), Operator::Eq, literal)?;
    let values = (0..categories.len()).map(|rank| categories.stored_value(rank)).collect::<Result<Vec<_>>>()?;
    if values.is_empty() {
        return Ok(ValuePredicate::Unknown);
    }
    let Some(rank) = values.iter().position(|value| equal.holds(value)) else {
        let values = (0..values.len()).map(|rank| categories.value(rank)).collect::<Result<Vec<_>>>()?;
        return Err(Error::invalid_argument(format!(
            "column '{name}': {literal} is none of its ordered categories {}",
            display_categories(&values)
        )));
    };
    let mut passing: Vec<Literal> = Vec::new();
    for (other, value) in values.into_iter().enumerate() {
        if operator.holds(other.cmp(&rank)) {
            passing.push(value.into());
        }
    }
    ValuePredicate::for_any(name, categories.data_type(), &passing)
}

/// Returns the first of `values`, which are in order, as text for messages.
fn display_categories(values: &[Value<'_>]) -> String {
    let categories: Vec<String> =
        values.iter().take(MAX_SHOWN).map(|value| escape_hidden(&value.to_string()).into()).collect();
    format!("{}{}", categories.join(" < "), if values.len() > MAX_SHOWN { " < …" } else { "" })
}
