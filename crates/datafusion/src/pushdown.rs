//! DataFusion's conditions as ours: what they leave out for sure, or exactly the same rows.
//!
//! Both know null as neither true nor false. DataFusion orders floats by their bits, with NaN before and behind all
//! others and -0.0 less than 0.0; for those, ours is a wider condition.

use arrowwood::{Dataset, Expression, Literal, Operator, Predicate, Value, col};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::expr::{BinaryExpr, InList, Like};
use datafusion::logical_expr::{Between, Expr, Operator as SqlOperator};
use datafusion::scalar::ScalarValue;

/// One of DataFusion's conditions, as ours.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// True for every row for which DataFusion's is.
    pub predicate: Predicate,
    /// True if the predicate holds for no other row.
    pub is_exact: bool,
    /// The column, if it is nothing but bounds on one.
    pub bounded: Option<String>,
    /// The columns that it is about.
    pub columns: Vec<String>,
}

impl Condition {
    /// The condition `expr` on rows of `dataset`; `None` if none of ours says anything about it.
    pub fn bind(expr: &Expr, dataset: &Dataset) -> Option<Condition> {
        let condition = from_expr(expr, dataset.schema())?;
        // DataFusion keeps the conditions that the columns can't be compared by.
        dataset.head(0).ok()?.filter(&condition.predicate).ok()?;
        Some(condition)
    }

    fn exact(name: &str, predicate: Predicate) -> Condition {
        Condition { predicate, is_exact: true, bounded: None, columns: vec![name.to_owned()] }
    }

    fn inexact(self) -> Condition {
        Condition { is_exact: false, ..self }
    }

    fn and(self, other: Condition) -> Condition {
        let bounded = self.bounded.clone().filter(|_| self.bounded == other.bounded);
        Condition { predicate: self.predicate.clone() & other.predicate.clone(), bounded, ..self.with(other) }
    }

    fn or(self, other: Condition) -> Condition {
        Condition { predicate: self.predicate.clone() | other.predicate.clone(), bounded: None, ..self.with(other) }
    }

    /// Merges the columns and the exactness of both.
    fn with(mut self, other: Condition) -> Condition {
        self.columns.extend(other.columns);
        Condition { is_exact: self.is_exact && other.is_exact, ..self }
    }

    /// The opposite: known only where it is exact.
    fn not(self) -> Option<Condition> {
        self.is_exact.then(|| Condition { predicate: !self.predicate.clone(), bounded: None, ..self })
    }
}

/// `conditions` as one predicate; `None` without any.
pub(crate) fn all<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Option<Predicate> {
    conditions.into_iter().map(|condition| condition.predicate.clone()).reduce(|a, b| a & b)
}

fn from_expr(expr: &Expr, schema: &Schema) -> Option<Condition> {
    match expr {
        Expr::Alias(alias) => from_expr(&alias.expr, schema),
        Expr::BinaryExpr(binary) => from_binary(binary, schema),
        Expr::Not(inner) => from_expr(inner, schema)?.not(),
        Expr::Column(_) => {
            let (name, data_type) = column(expr, schema)?;
            let is_flag = *data_type == DataType::Boolean;
            is_flag.then(|| Condition::exact(name, col(name).eq(true)))
        }
        Expr::IsNull(inner) => from_null_check(inner, schema),
        Expr::IsNotNull(inner) => from_null_check(inner, schema)?.not(),
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
            (one, other) => one.or(other).map(Condition::inexact),
        },
        SqlOperator::Or => Some(from_expr(left, schema)?.or(from_expr(right, schema)?)),
        _ => match (left.as_ref(), right.as_ref()) {
            (of, Expr::Literal(value, _)) => compared(of, *op, value, schema),
            (Expr::Literal(value, _), of) => compared(of, op.swap()?, value, schema),
            _ => None,
        },
    }
}

fn compared(of: &Expr, op: SqlOperator, value: &ScalarValue, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(of, schema)?;
    let literal = literal(data_type, value)?;
    if is_float(data_type) {
        return from_float(name, op, literal);
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

/// A comparison with a float: NaN, which may be either the least or the greatest, and zeros of both signs are among the
/// rows.
fn from_float(name: &str, op: SqlOperator, literal: Literal) -> Option<Condition> {
    let predicate = match op {
        SqlOperator::Eq => col(name).eq(Expression::from(literal)),
        SqlOperator::Lt | SqlOperator::LtEq => !col(name).gt(Expression::from(literal)),
        SqlOperator::Gt | SqlOperator::GtEq => !col(name).lt(Expression::from(literal)),
        _ => return None,
    };
    Some(Condition::exact(name, predicate).inexact())
}

fn from_null_check(inner: &Expr, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(inner, schema)?;
    let values = values_of(data_type);
    let is_plain = values.is_primitive() || is_text(values) || *values == DataType::Boolean;
    is_plain.then(|| Condition::exact(name, col(name).is_null()))
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
        (one, other) => one.or(other).map(Condition::inexact),
    }
}

fn from_bound(expr: &Expr, op: SqlOperator, value: &Expr, schema: &Schema) -> Option<Condition> {
    match value {
        Expr::Literal(value, _) => compared(expr, op, value, schema),
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
            values.push(literal(data_type, value)?);
        }
    }
    let mut condition = Condition::exact(name, col(name).is_in(values));
    // A value that isn't in the list may be the null.
    if is_float(data_type) || has_null {
        condition = condition.inexact();
    }
    if list.negated { condition.not() } else { Some(condition) }
}

/// A pattern that only says how a text begins or ends, or what is in it; and of any other how the text begins.
fn from_like(like: &Like, schema: &Schema) -> Option<Condition> {
    let (name, data_type) = column(&like.expr, schema)?;
    let pattern = match like.pattern.as_ref() {
        Expr::Literal(value, _) => value.try_as_str().flatten()?,
        _ => return None,
    };
    let is_utf8 = matches!(values_of(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if like.case_insensitive || like.escape_char.is_some() || !is_utf8 {
        return None;
    }
    let end = pattern.strip_prefix('%');
    let condition = match (pattern.strip_suffix('%'), end, end.and_then(|end| end.strip_suffix('%'))) {
        _ if is_plain(pattern) => Condition::exact(name, col(name).eq(pattern)),
        (Some(begin), ..) if is_plain(begin) => Condition::exact(name, col(name).starts_with(begin)),
        (_, Some(end), _) if is_plain(end) => Condition::exact(name, col(name).ends_with(end)),
        (.., Some(part)) if is_plain(part) => Condition::exact(name, col(name).contains(part)),
        _ => {
            let begin = pattern.split(['%', '_', '\\']).next().filter(|begin| !begin.is_empty())?;
            Condition::exact(name, col(name).starts_with(begin)).inexact()
        }
    };
    if like.negated { condition.not() } else { Some(condition) }
}

/// Returns true if a pattern, or a part of one, stands for itself.
fn is_plain(text: &str) -> bool {
    !text.contains(['%', '_', '\\'])
}

fn column<'a>(expr: &'a Expr, schema: &'a Schema) -> Option<(&'a str, &'a DataType)> {
    let Expr::Column(column) = expr else { return None };
    let (_, field) = schema.column_with_name(&column.name)?;
    Some((&column.name, field.data_type()))
}

fn values_of(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_float(data_type: &DataType) -> bool {
    values_of(data_type).is_floating()
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// A value of the column's own type; `None` for others, for null and for NaN. Times are counted in the column's unit.
fn literal(data_type: &DataType, value: &ScalarValue) -> Option<Literal> {
    if let ScalarValue::Dictionary(_, inner) = value {
        return literal(data_type, inner);
    }
    let values = values_of(data_type);
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
