//! Predicates: comparisons of columns with values, combined by and, or, not.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

use crate::array::{Value, zone_advice};
use crate::visible::visible;

/// A column in a predicate: `col("price").gt(100)`.
#[derive(Clone, Debug)]
pub struct Col(String);

/// The column called `name`, for a [`Predicate`].
pub fn col(name: impl Into<String>) -> Col {
    Col(name.into())
}

impl Col {
    /// The column's name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Equal to `value`.
    pub fn eq(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Eq, value)
    }

    /// Not equal to `value`; null is neither.
    pub fn ne(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Ne, value)
    }

    /// Less than `value`.
    pub fn lt(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Lt, value)
    }

    /// Less than or equal to `value`.
    pub fn le(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Le, value)
    }

    /// Greater than `value`.
    pub fn gt(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Gt, value)
    }

    /// Greater than or equal to `value`.
    pub fn ge(self, value: impl Into<Literal>) -> Predicate {
        self.compare(Operator::Ge, value)
    }

    /// Equal to one of `values`.
    pub fn is_in<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Predicate {
        Predicate(PredicateNode::IsIn(self.0, values.into_iter().map(Into::into).collect()))
    }

    /// Null.
    pub fn is_null(self) -> Predicate {
        Predicate(PredicateNode::IsNull(self.0))
    }

    /// Not null.
    pub fn is_not_null(self) -> Predicate {
        !self.is_null()
    }

    /// The comparison by `operator` with `value`.
    pub fn compare(self, operator: Operator, value: impl Into<Literal>) -> Predicate {
        Predicate(PredicateNode::Compare(self.0, operator, value.into()))
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// A condition on rows, made with [`col`] and combined by `&`, `|` and `!`.
///
/// A comparison with null is neither true nor false, and so is its negation: such rows are not selected, as in SQL. NaN
/// is not equal to, less than or greater than anything. Numbers are compared by value: 2.5 with integers, times with
/// times of another unit. Nothing is rounded: no `f32` equals 0.1. For comparison with decimals a float with a fraction
/// is converted to the decimal that it prints as.
#[derive(Clone, Debug)]
pub struct Predicate(pub(super) PredicateNode);

#[derive(Clone, Debug)]
pub(super) enum PredicateNode {
    Compare(String, Operator, Literal),
    IsIn(String, Vec<Literal>),
    IsNull(String),
    And(Box<PredicateNode>, Box<PredicateNode>),
    Or(Box<PredicateNode>, Box<PredicateNode>),
    Not(Box<PredicateNode>),
}

impl Operator {
    /// The comparison that holds where this one does not.
    pub(super) fn negated(self) -> Operator {
        match self {
            Operator::Eq => Operator::Ne,
            Operator::Ne => Operator::Eq,
            Operator::Lt => Operator::Ge,
            Operator::Le => Operator::Gt,
            Operator::Gt => Operator::Le,
            Operator::Ge => Operator::Lt,
        }
    }
}

impl PredicateNode {
    /// Necessary conditions on column `name`: its comparisons combined by `and`.
    pub(super) fn comparisons_with(&self, name: &str) -> Vec<(Operator, Literal)> {
        match self {
            PredicateNode::Compare(column, operator, literal) if column == name => vec![(*operator, literal.clone())],
            PredicateNode::And(a, b) => [a, b].into_iter().flat_map(|side| side.comparisons_with(name)).collect(),
            _ => Vec::new(),
        }
    }
}

impl BitAnd for Predicate {
    type Output = Predicate;

    fn bitand(self, other: Predicate) -> Predicate {
        Predicate(PredicateNode::And(self.0.into(), other.0.into()))
    }
}

impl BitOr for Predicate {
    type Output = Predicate;

    fn bitor(self, other: Predicate) -> Predicate {
        Predicate(PredicateNode::Or(self.0.into(), other.0.into()))
    }
}

impl Not for Predicate {
    type Output = Predicate;

    fn not(self) -> Predicate {
        Predicate(PredicateNode::Not(self.0.into()))
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Eq => "==",
            Operator::Ne => "!=",
            Operator::Lt => "<",
            Operator::Le => "<=",
            Operator::Gt => ">",
            Operator::Ge => ">=",
        })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PredicateNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PredicateNode::Compare(name, operator, literal) => write!(f, "{} {operator} {literal}", visible(name)),
            PredicateNode::IsIn(name, literals) => {
                let shown: Vec<_> = literals.iter().take(5).map(Literal::to_string).collect();
                let more = if literals.len() > shown.len() { ", …" } else { "" };
                write!(f, "{} is in [{}{more}]", visible(name), shown.join(", "))
            }
            PredicateNode::IsNull(name) => write!(f, "{} is null", visible(name)),
            PredicateNode::And(a, b) => write!(f, "({a}) & ({b})"),
            PredicateNode::Or(a, b) => write!(f, "({a}) | ({b})"),
            PredicateNode::Not(a) => write!(f, "~({a})"),
        }
    }
}

/// An owned value for comparisons with columns. A [`Value::Timestamp`] with an empty zone can be compared with columns
/// in UTC and without a zone.
#[derive(Clone, Debug)]
pub struct Literal(pub(super) Owned);

#[derive(Clone, Debug)]
pub(super) enum Owned {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Decimal(i256, i8),
    Str(String),
    Bytes(Vec<u8>),
    Date(i64),
    Time(i64, TimeUnit),
    /// With its time zone, as in [`Value::Timestamp`].
    Timestamp(i64, TimeUnit, Option<String>),
    Duration(i64, TimeUnit),
    /// Describes a value that can't be compared.
    Other(String),
}

impl From<Value<'_>> for Literal {
    fn from(value: Value<'_>) -> Literal {
        Literal(match value {
            Value::Null => Owned::Null,
            Value::Bool(flag) => Owned::Bool(flag),
            Value::Int(number) => Owned::Int(number.into()),
            Value::UInt(number) => Owned::Int(number.into()),
            Value::Int128(number) => Owned::Int(number),
            Value::Float32(number) => Owned::Float(number.into()),
            Value::Float64(number) => Owned::Float(number),
            Value::Decimal { digits, scale } => Owned::Decimal(digits, scale),
            Value::Str(text) => Owned::Str(text.into()),
            Value::Bytes(bytes) => Owned::Bytes(bytes.into()),
            Value::Uuid(bytes) => Owned::Bytes(bytes.to_vec()),
            Value::Date(days) => Owned::Date(days),
            Value::Time(time, unit) => Owned::Time(time, unit),
            Value::Timestamp(time, unit, zone) => Owned::Timestamp(time, unit, zone.map(Into::into)),
            Value::Duration(length, unit) => Owned::Duration(length, unit),
            other => Owned::Other(other.to_string()),
        })
    }
}

impl Literal {
    /// Whether nothing comes before or after it.
    pub(super) fn is_unordered(&self) -> bool {
        matches!(&self.0, Owned::Null | Owned::Other(_)) || matches!(&self.0, Owned::Float(number) if number.is_nan())
    }

    /// What to do where a column of times can't be compared with it.
    pub(super) fn advice(&self, data_type: &DataType) -> &'static str {
        match &self.0 {
            Owned::Timestamp(time, unit, zone) => {
                zone_advice(data_type, &Value::Timestamp(*time, *unit, zone.as_deref()))
            }
            Owned::Date(days) => zone_advice(data_type, &Value::Date(*days)),
            Owned::Str(_) if data_type.is_temporal() => {
                "; compare it with a time instead of text, as by datetime.fromisoformat(…) in Python"
            }
            _ => "",
        }
    }
}

macro_rules! literals {
    ($($type:ty => $variant:ident;)*) => {
        $(impl From<$type> for Literal {
            fn from(value: $type) -> Literal {
                Literal(Owned::$variant(value.into()))
            }
        })*
    };
}

literals! {
    bool => Bool;
    i32 => Int;
    u32 => Int;
    i64 => Int;
    u64 => Int;
    f32 => Float;
    f64 => Float;
    &str => Str;
    String => Str;
    Vec<u8> => Bytes;
    &[u8] => Bytes;
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Owned::Null => f.write_str("null"),
            Owned::Bool(flag) => write!(f, "{flag}"),
            Owned::Int(number) => write!(f, "{number}"),
            Owned::Float(number) => write!(f, "{number:?}"),
            Owned::Decimal(digits, scale) => write!(f, "{}", Value::Decimal { digits: *digits, scale: *scale }),
            Owned::Str(text) => write!(f, "{text:?}"),
            Owned::Bytes(bytes) => write!(f, "{bytes:?}"),
            Owned::Date(days) => write!(f, "{}", Value::Date(*days)),
            Owned::Time(time, unit) => write!(f, "{}", Value::Time(*time, *unit)),
            Owned::Timestamp(time, unit, zone) => {
                let zone = zone.as_deref().filter(|zone| !zone.is_empty());
                write!(f, "{}", visible(&Value::Timestamp(*time, *unit, zone).to_string()))
            }
            Owned::Duration(length, unit) => write!(f, "{}", Value::Duration(*length, *unit)),
            Owned::Other(shown) => f.write_str(&visible(shown)),
        }
    }
}
