//! Binds values to the parameters of statements, which are written `?`, `$1` or `$name`.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Replaces each `?` of a statement by `$1`, `$2`, …, as DataFusion knows only these.
pub(crate) fn number_placeholders(statement: &str) -> Result<String> {
    if !statement.contains('?') {
        return Ok(statement.to_owned());
    }
    // The tokenizer tells placeholders from question marks in texts, names and comments.
    let tokens = Tokenizer::new(&GenericDialect {}, statement).tokenize_with_location();
    let tokens = tokens.map_err(|e| DataFusionError::Plan(format!("reading the statement: {e}")))?;
    let placeholders = tokens.iter().filter(|token| matches!(&token.token, Token::Placeholder(mark) if mark == "?"));
    let mut placeholders = placeholders.map(|token| token.span.start).peekable();
    let mut numbered = String::with_capacity(statement.len());
    let mut count = 0;
    for (line_number, line) in (1..).zip(statement.split_inclusive('\n')) {
        for (column_number, character) in (1..).zip(line.chars()) {
            let location = (line_number, column_number);
            if placeholders.next_if(|placeholder| (placeholder.line, placeholder.column) == location).is_some() {
                count += 1;
                numbered.push_str(&format!("${count}"));
            } else {
                numbered.push(character);
            }
        }
    }
    Ok(numbered)
}

/// Returns the name of a parameter without `$`, with its number as the first part of a sort key. Names follow numbers.
fn sort_key(id: &str) -> (usize, &str) {
    let name = id.trim_start_matches('$');
    (name.parse().unwrap_or(usize::MAX), name)
}

/// Returns the parameters of a plan in order; parameters of unknown type have the type null.
pub(crate) fn parameter_schema(plan: &LogicalPlan) -> Result<SchemaRef> {
    let mut types: Vec<_> = plan.get_parameter_types()?.into_iter().collect();
    types.sort_by(|(a, _), (b, _)| sort_key(a).cmp(&sort_key(b)));
    let mut fields = Vec::with_capacity(types.len());
    for (id, data_type) in types {
        let (_, name) = sort_key(&id);
        fields.push(Field::new(name, data_type.unwrap_or(DataType::Null), true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Binds the columns of `values` to the parameters of a plan: by position if all are numbered, and by name otherwise.
pub(crate) fn bind_values(plan: LogicalPlan, values: &RecordBatch) -> Result<LogicalPlan> {
    let parameters = parameter_schema(&plan)?;
    let count = parameters.fields().len();
    if values.num_rows() != 1 || values.num_columns() != count {
        return plan_err!(
            "one row of {count} parameters is expected, got {} rows of {}",
            values.num_rows(),
            values.num_columns()
        );
    }
    let is_numbered = parameters.fields().iter().all(|field| field.name().parse::<usize>().is_ok());
    let mut named = Vec::with_capacity(count);
    for (number, field) in parameters.fields().iter().enumerate() {
        let column = if is_numbered { Some(values.column(number)) } else { values.column_by_name(field.name()) };
        let Some(column) = column else { return plan_err!("parameter ${} has no value", field.name()) };
        let mut value = ScalarValue::try_from_array(column, 0)?;
        if *field.data_type() != DataType::Null && value.data_type() != *field.data_type() {
            value = cast_exactly(&value, field)?;
        }
        named.push((field.name().clone(), value));
    }
    let values = if is_numbered {
        ParamValues::from(named.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
    } else {
        ParamValues::from(named)
    };
    plan.with_param_values(values)
}

/// Casts a value to the type of a parameter. Rejects casts that change the value, except between types of floats.
fn cast_exactly(value: &ScalarValue, field: &Field) -> Result<ScalarValue> {
    let from = value.data_type();
    let to = field.data_type();
    let cast = value.cast_to(to)?;
    let must_be_exact = is_number_or_time(&from) && is_number_or_time(to) && !(from.is_floating() && to.is_floating());
    if must_be_exact && cast.cast_to(&from)? != *value {
        let name = field.name();
        return plan_err!(
            "parameter ${name}: a value of type {to} is expected, got {value}; write cast(${name} as …) for another type"
        );
    }
    Ok(cast)
}

fn is_number_or_time(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn placeholders_are_numbered_outside_of_texts_and_comments() {
        for (statement, expected) in [
            ("select 1", "select 1"),
            (
                "select ?, '?', \"?\" -- ?\n from t where a = ? /* ? */ and b > ?",
                "select $1, '?', \"?\" -- ?\n from t where a = $2 /* ? */ and b > $3",
            ),
            ("select 'ü?', ?", "select 'ü?', $1"),
        ] {
            assert_eq!(number_placeholders(statement).unwrap(), expected);
        }
        assert!(number_placeholders("select '?").is_err());
    }

    fn micros(value: i64) -> ScalarValue {
        ScalarValue::TimestampMicrosecond(Some(value), None)
    }

    #[test]
    fn casts_that_change_a_value_are_rejected() {
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        for (value, to, is_exact) in [
            (ScalarValue::Float64(Some(2.0)), DataType::Int64, true),
            (ScalarValue::Float64(Some(2.5)), DataType::Int64, false),
            (ScalarValue::Float64(Some(0.1)), DataType::Float32, true),
            (ScalarValue::Float64(Some(0.25)), DataType::Decimal128(10, 2), true),
            (ScalarValue::Float64(Some(0.125)), DataType::Decimal128(10, 2), false),
            (ScalarValue::Int64(Some(1 << 60)), DataType::Float64, true),
            (ScalarValue::Int64(Some((1 << 60) + 1)), DataType::Float64, false),
            (ScalarValue::Int64(None), DataType::Float64, true),
            (micros(1_000_000), millis.clone(), true),
            (micros(1_000_001), millis, false),
            (micros(86_400_000_000), DataType::Date32, true),
            (micros(86_400_000_001), DataType::Date32, false),
            (ScalarValue::from("2.50"), DataType::Float64, true),
        ] {
            match cast_exactly(&value, &Field::new("1", to.clone(), true)) {
                Ok(cast) => assert!(is_exact && cast.data_type() == to, "{value:?} {cast:?}"),
                Err(e) => assert!(!is_exact && e.to_string().contains("parameter $1"), "{value:?}: {e}"),
            }
        }
    }
}
