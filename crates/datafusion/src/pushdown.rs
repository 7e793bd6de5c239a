//! Translates conditions of DataFusion into predicates of Arrowwood, which select the same rows or more.
//!
//! Both treat null as neither true nor false. DataFusion orders floats by their bits, with NaN before or after all
//! others and -0.0 less than 0.0; the predicates for floats are therefore wider.

use arrowwood::{Dataset, Expression, Literal, Operator, Predicate, Value, col};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::expr::{BinaryExpr, InList, Like};
use datafusion::logical_expr::{Between, Expr, Operator as SqlOperator};
use datafusion::scalar::ScalarValue;

/// A condition of DataFusion as a predicate of Arrowwood, which a [`Scan`](crate::Scan) applies.
#[derive(Clone, Debug)]
pub struct Condition {
    /// A predicate that is true for every row for which DataFusion's condition is.
    pub(crate) predicate: Predicate,
    /// True if the predicate is true for no other row.
    pub(crate) is_exact: bool,
    /// The column that the condition is a range of, if it is one.
    pub(crate) bounded: Option<String>,
    /// The columns that the condition uses.
    pub(crate) columns: Vec<String>,
}

impl Condition {
    /// Translates `expr` for the columns of `dataset`. Returns `None` if no predicate is implied by it.
    pub fn bind(expr: &Expr, dataset: &Dataset) -> Option<Condition> {
        let condition = from_expr(expr, dataset.schema())?;
        // Try it on no rows: DataFusion has to evaluate what our types can't be compared by.
        dataset.head(0).ok()?.filter(&condition.predicate).ok()?;
        Some(condition)
    }

    /// Returns true if a scan returns exactly the rows for which the condition is true. Otherwise it only skips some of
    /// the other rows, and the condition has to be evaluated again.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn exact(name: &str, predicate: Predicate) -> Condition {
        Condition { predicate, is_exact: true, bounded: None, columns: vec![name.to_owned()] }
    }

    fn into_inexact(self) -> Condition {
        Condition { is_exact: false, ..self }
    }

    fn and(self, other: Condition) -> Condition {
        let bounded = self.bounded.clone().filter(|_| self.bounded == other.bounded);
        Condition { predicate: self.predicate.clone() & other.predicate.clone(), bounded, ..self.merge_columns(other) }
    }

    fn or(self, other: Condition) -> Condition {
        Condition {
            predicate: self.predicate.clone() | other.predicate.clone(),
            bounded: None,
            ..self.merge_columns(other)
        }
    }

    /// Adds the columns of `other`. The result is exact if both are.
    fn merge_columns(mut self, other: Condition) -> Condition {
        self.columns.extend(other.columns);
        Condition { is_exact: self.is_exact && other.is_exact, ..self }
    }

    /// Negates an exact condition. The negation of a wider one would miss rows.
    fn negated(self) -> Option<Condition> {
        self.is_exact.then(|| Condition { predicate: !self.predicate.clone(), bounded: None, ..self })
    }
}

/// Joins the predicates of `conditions` with "and". Returns `None` if there are no conditions.
pub(crate) fn conjunction<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Option<Predicate> {
    conditions.into_iter().map(|condition| condition.predicate.clone()).reduce(|a, b| a & b)
}

fn from_expr(expr: &Expr, schema: &Schema) -> Option<Condition> {
    match expr {
        Expr::Alias(alias) => from_expr(&alias.expr, schema),
        Expr::BinaryExpr(binary) => from_binary(binary, schema),
        Expr::Not(inner) => from_expr(inner, schema)?.negated(),
        Expr::Column(_) => {
            let (name, data_type) = column(expr, schema)?;
            let is_flag = *data_type == DataType::Boolean;
            is_flag.then(|| Condition::exact(name, col(name).eq(true)))
        }
        Expr::IsNull(inner) => from_null_check(inner, schema),
        Expr::IsNotNull(inner) => from_null_check(inner, schema)?.negated(),
        Expr::Between(between) => from_between(between, schema),
        Expr::InList(list) => from_list(list, schema),
        Expr::Like(like) => from_like(like, schema),
        _ => None,
    }
}

fn from_binary(binary: &BinaryExpr, schema: &Schema) -> Option<Condition> {
    let BinaryExpr { left, op, right } = binary;
    match op {
        SqlOperator::And => match (from_expr(left, schema), from_expr(right, schema)) {
            (Some(a), Some(b)) => Some(a.and(b)),
            (one, other) => one.or(other).map(Condition::into_inexact),
        },
        SqlOperator::Or => Some(from_expr(left, schema)?.or(from_expr(right, schema)?)),
        _ => match (left.as_ref(), right.as_ref()) {
            (operand, Expr::Literal(value, _)) => from_comparison(operand, *op, value, schema),
            (Expr::Literal(value, _), operand) => from_comparison(operand, op.swap()?, value, schema),
            _ => None,
        },
    }
}

fn from_comparison(operand: &Expr, op: SqlOperator, value: &ScalarValue, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(operand, schema)?;
    let literal = to_literal(data_type, value)?;
    if is_float(data_type) {
        return from_float_comparison(name, op, literal);
    }
    let operator = match op {
        SqlOperator::Eq => Operator::Eq,
        SqlOperator::NotEq => Operator::Ne,
        SqlOperator::Lt => Operator::Lt,
        SqlOperator::LtEq => Operator::Le,
        SqlOperator::Gt => Operator::Gt,
        SqlOperator::GtEq => Operator::Ge,
        _ => return None,
    };
    let bounded = (operator != Operator::Ne).then(|| name.to_owned());
    Some(Condition { bounded, ..Condition::exact(name, col(name).compare(operator, literal)) })
}

/// Translates a comparison with a float. The result includes NaN, which may be the minimum or the maximum, and zeros of
/// both signs.
fn from_float_comparison(name: &str, op: SqlOperator, literal: Literal) -> Option<Condition> {
    let predicate = match op {
        SqlOperator::Eq => col(name).eq(Expression::from(literal)),
        SqlOperator::Lt | SqlOperator::LtEq => !col(name).gt(Expression::from(literal)),
        SqlOperator::Gt | SqlOperator::GtEq => !col(name).lt(Expression::from(literal)),
        _ => return None,
    };
    Some(Condition::exact(name, predicate).into_inexact())
}

fn from_null_check(inner: &Expr, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(inner, schema)?;
    let values = value_type(data_type);
    let is_supported = values.is_primitive() || is_text_or_binary(values) || *values == DataType::Boolean;
    is_supported.then(|| Condition::exact(name, col(name).is_null()))
}

fn from_between(between: &Between, schema: &Schema) -> Option<Condition> {
    let Between { expr, negated, low, high } = between;
    if *negated {
        let below = from_bound(expr, SqlOperator::Lt, low, schema)?;
        return Some(below.or(from_bound(expr, SqlOperator::Gt, high, schema)?));
    }
    let low = from_bound(expr, SqlOperator::GtEq, low, schema);
    let high = from_bound(expr, SqlOperator::LtEq, high, schema);
    match (low, high) {
        (Some(low), Some(high)) => Some(low.and(high)),
        (one, other) => one.or(other).map(Condition::into_inexact),
    }
}

fn from_bound(expr: &Expr, op: SqlOperator, value: &Expr, schema: &Schema) -> Option<Condition> {
    match value {
        Expr::Literal(value, _) => from_comparison(expr, op, value, schema),
        _ => None,
    }
}

fn from_list(list: &InList, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(&list.expr, schema)?;
    let mut values = Vec::new();
    let mut has_null = false;
    for value in &list.list {
        let Expr::Literal(value, _) = value else { return None };
        if value.is_null() {
            has_null = true;
        } else {
            values.push(to_literal(data_type, value)?);
        }
    }
    let mut condition = Condition::exact(name, col(name).is_in(values));
    // With a null in the list, a value that is not in it compares as null rather than false.
    if is_float(data_type) || has_null {
        condition = condition.into_inexact();
    }
    if list.negated { condition.negated() } else { Some(condition) }
}

/// Translates a pattern that is a prefix, a suffix or a substring. For any other pattern, the condition is its prefix.
fn from_like(like: &Like, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(&like.expr, schema)?;
    let pattern = match like.pattern.as_ref() {
        Expr::Literal(value, _) => value.try_as_str().flatten()?,
        _ => return None,
    };
    let is_utf8 = matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if like.case_insensitive || like.escape_char.is_some() || !is_utf8 {
        return None;
    }
    let prefix = pattern.strip_suffix('%');
    let suffix = pattern.strip_prefix('%');
    let substring = suffix.and_then(|suffix| suffix.strip_suffix('%'));
    let condition = if is_literal(pattern) {
        Condition::exact(name, col(name).eq(pattern))
    } else if let Some(prefix) = prefix.filter(|prefix| is_literal(prefix)) {
        Condition::exact(name, col(name).starts_with(prefix))
    } else if let Some(suffix) = suffix.filter(|suffix| is_literal(suffix)) {
        Condition::exact(name, col(name).ends_with(suffix))
    } else if let Some(substring) = substring.filter(|substring| is_literal(substring)) {
        Condition::exact(name, col(name).contains(substring))
    } else {
        let prefix = pattern.split(SPECIAL_CHARACTERS).next().filter(|prefix| !prefix.is_empty())?;
        Condition::exact(name, col(name).starts_with(prefix)).into_inexact()
    };
    if like.negated { condition.negated() } else { Some(condition) }
}

/// The characters of a pattern that do not stand for themselves.
const SPECIAL_CHARACTERS: [char; 3] = ['%', '_', '\\'];

/// Returns true if a part of a pattern matches only itself.
fn is_literal(text: &str) -> bool {
    !text.contains(SPECIAL_CHARACTERS)
}

/// Returns the name and type of the column that `expr` is.
fn column<'a>(expr: &'a Expr, schema: &'a Schema) -> Option<(&'a str, &'a DataType)> {
    let Expr::Column(column) = expr else { return None };
    let (_, field) = schema.column_with_name(&column.name)?;
    Some((&column.name, field.data_type()))
}

/// Returns the type of the values of a column, which may be dictionary-encoded.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_float(data_type: &DataType) -> bool {
    value_type(data_type).is_floating()
}

fn is_text_or_binary(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// Converts a value of a column's type to a literal, with times in the column's unit. Returns `None` for values of
/// other types, null and NaN.
fn to_literal(data_type: &DataType, value: &ScalarValue) -> Option<Literal> {
    if let ScalarValue::Dictionary(_, inner) = value {
        return to_literal(data_type, inner);
    }
    let values = value_type(data_type);
    if value.data_type() != *values {
        return None;
    }
    if let Some(text) = value.try_as_str() {
        return text.map(Literal::from);
    }
    Some(match value {
        ScalarValue::Boolean(flag) => (*flag)?.into(),
        ScalarValue::Int8(n) => i64::from((*n)?).into(),
        ScalarValue::Int16(n) => i64::from((*n)?).into(),
        ScalarValue::Int32(n) | ScalarValue::Date32(n) => i64::from((*n)?).into(),
        ScalarValue::Time32Second(n) | ScalarValue::Time32Millisecond(n) => i64::from((*n)?).into(),
        ScalarValue::Int64(n) | ScalarValue::Time64Microsecond(n) | ScalarValue::Time64Nanosecond(n) => (*n)?.into(),
        ScalarValue::TimestampSecond(n, _) | ScalarValue::TimestampMillisecond(n, _) => (*n)?.into(),
        ScalarValue::TimestampMicrosecond(n, _) | ScalarValue::TimestampNanosecond(n, _) => (*n)?.into(),
        ScalarValue::DurationSecond(n) | ScalarValue::DurationMillisecond(n) => (*n)?.into(),
        ScalarValue::DurationMicrosecond(n) | ScalarValue::DurationNanosecond(n) => (*n)?.into(),
        ScalarValue::UInt8(n) => u64::from((*n)?).into(),
        ScalarValue::UInt16(n) => u64::from((*n)?).into(),
        ScalarValue::UInt32(n) => u64::from((*n)?).into(),
        ScalarValue::UInt64(n) => (*n)?.into(),
        ScalarValue::Float32(x) => f64::from((*x).filter(|x| !x.is_nan())?).into(),
        ScalarValue::Float64(x) => (*x).filter(|x| !x.is_nan())?.into(),
        ScalarValue::Decimal128(digits, _, scale) => Value::Decimal { digits: (*digits)?.into(), scale: *scale }.into(),
        ScalarValue::Decimal256(digits, _, scale) => Value::Decimal { digits: (*digits)?, scale: *scale }.into(),
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) => bytes.clone()?.into(),
        ScalarValue::BinaryView(bytes) => bytes.clone()?.into(),
        _ => return None,
    })
}
