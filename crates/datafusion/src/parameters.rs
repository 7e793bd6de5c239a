//! Parameters of statements: `?` in their order, `$1`, or `$name`.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The statement with `$1`, `$2`, … for each `?`.
pub(crate) fn numbered(text: &str) -> Result<String> {
    if !text.contains('?') {
        return Ok(text.to_owned());
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|e| DataFusionError::Plan(format!("reading the statement: {e}")))?;
    let marks = tokens.iter().filter(|token| matches!(&token.token, Token::Placeholder(mark) if mark == "?"));
    let mut marks = marks.map(|token| token.span.start).peekable();
    let mut written = String::with_capacity(text.len() + 16);
    let mut count = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        for (column, character) in (1..).zip(content.chars()) {
            if marks.next_if(|mark| (mark.line, mark.column) == (line, column)).is_some() {
                count += 1;
                written.push_str(&format!("${count}"));
            } else {
                written.push(character);
            }
        }
    }
    Ok(written)
}

/// The order of a parameter, and its name in a schema.
fn order(id: &str) -> (usize, &str) {
    let name = id.trim_start_matches('$');
    (name.parse().unwrap_or(usize::MAX), name)
}

/// Returns the parameters of a plan in their order; parameters of unknown type have the type null.
pub(crate) fn schema(plan: &LogicalPlan) -> Result<SchemaRef> {
    let mut types: Vec<_> = plan.get_parameter_types()?.into_iter().collect();
    types.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
    let field =
        |(id, known): (String, Option<DataType>)| Field::new(order(&id).1, known.unwrap_or(DataType::Null), true);
    Ok(Arc::new(Schema::new(types.into_iter().map(field).collect::<Vec<_>>())))
}

/// The plan with `values` for its parameters: those with numbers in the order of columns, others by name.
pub(crate) fn bound(plan: LogicalPlan, values: &RecordBatch) -> Result<LogicalPlan> {
    let parameters = schema(&plan)?;
    let wanted = parameters.fields().len();
    if values.num_rows() != 1 || values.num_columns() != wanted {
        let (rows, columns) = (values.num_rows(), values.num_columns());
        let message = format!("one row of {wanted} parameters is expected, got {rows} rows of {columns}");
        return Err(DataFusionError::Plan(message));
    }
    let is_numbered = parameters.fields().iter().all(|field| field.name().parse::<usize>().is_ok());
    let mut named = Vec::with_capacity(wanted);
    for (number, field) in parameters.fields().iter().enumerate() {
        let column = if is_numbered { Some(values.column(number)) } else { values.column_by_name(field.name()) };
        let Some(column) = column else { return plan_err!("parameter ${} has no value", field.name()) };
        let mut value = ScalarValue::try_from_array(column, 0)?;
        if *field.data_type() != DataType::Null && value.data_type() != *field.data_type() {
            value = exactly(&value, field)?;
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

/// A value as one of a parameter's type. Floats are rounded to other floats.
fn exactly(value: &ScalarValue, field: &Field) -> Result<ScalarValue> {
    let (from, to) = (value.data_type(), field.data_type());
    let cast = value.cast_to(to)?;
    let may_lose = is_counted(&from) && is_counted(to) && !(from.is_floating() && to.is_floating());
    if may_lose && cast.cast_to(&from)? != *value {
        let name = field.name();
        return plan_err!(
            "parameter ${name}: a value of type {to} is expected, got {value}; write cast(${name} as …) for another type"
        );
    }
    Ok(cast)
}

fn is_counted(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn marks_are_numbered_where_they_are_no_text() {
        for (text, expected) in [
            ("select 1", "select 1"),
            (
                "select ?, '?', \"?\" -- ?\n from t where a = ? /* ? */ and b > ?",
                "select $1, '?', \"?\" -- ?\n from t where a = $2 /* ? */ and b > $3",
            ),
            ("select 'ü?', ?", "select 'ü?', $1"),
        ] {
            assert_eq!(numbered(text).unwrap(), expected);
        }
        assert!(numbered("select '?").is_err());
    }

    #[test]
    fn values_keep_what_they_are_in_the_type_of_a_parameter() {
        let time = |micros: i64| ScalarValue::TimestampMicrosecond(Some(micros), None);
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        for (value, to, is_same) in [
            (ScalarValue::Float64(Some(2.0)), DataType::Int64, true),
            (ScalarValue::Float64(Some(2.5)), DataType::Int64, false),
            (ScalarValue::Float64(Some(0.1)), DataType::Float32, true),
            (ScalarValue::Float64(Some(0.25)), DataType::Decimal128(10, 2), true),
            (ScalarValue::Float64(Some(0.125)), DataType::Decimal128(10, 2), false),
            (ScalarValue::Int64(Some(1 << 60)), DataType::Float64, true),
            (ScalarValue::Int64(Some((1 << 60) + 1)), DataType::Float64, false),
            (ScalarValue::Int64(None), DataType::Float64, true),
            (time(1_000_000), millis.clone(), true),
            (time(1_000_001), millis, false),
            (time(86_400_000_000), DataType::Date32, true),
            (time(86_400_000_001), DataType::Date32, false),
            (ScalarValue::from("2.50"), DataType::Float64, true),
        ] {
            let found = exactly(&value, &Field::new("1", to.clone(), true));
            match found {
                Ok(found) => assert!(is_same && found.data_type() == to, "{value:?} {found:?}"),
                Err(e) => assert!(!is_same && e.to_string().contains("parameter $1"), "{value:?}: {e}"),
            }
        }
    }
}
