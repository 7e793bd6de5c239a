//! Describes expressions: columns, and computations on them row by row.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use arrow_schema::DataType;

use super::literal::{Literal, LiteralValue};
use crate::array::Value;
use crate::escape::escape_hidden;
use crate::types::type_name;

/// A column, a value, or a computation on them for each row: `col("price") * col("qty")`.
///
/// A comparison with another expression is a [`Predicate`](crate::Predicate);
/// [`Aggregation::expression_as`](crate::Aggregation::expression_as) aggregates the results.
///
/// A result is null where one of its parts is. Integers of any width are computed in 64 bits, and a result that does
/// not fit is an error. `/` divides floats; `%` has the sign of its divisor, and is null for an integer by 0. Floats of
/// 32 bits keep their width with each other, with integers of 8 or 16 bits and with values; otherwise floats have 64
/// bits.
#[derive(Clone, Debug)]
pub struct Expression {
    pub(super) node: ExpressionNode,
    size: ExpressionSize,
}

/// The maximum number of nested operations.
pub(super) const MAX_DEPTH: usize = 256;
/// The maximum number of operations. One that is used twice counts twice.
pub(super) const MAX_OPERATIONS: usize = 4096;

/// The number of operations of an expression.
#[derive(Clone, Copy, Debug, Default)]
struct ExpressionSize {
    /// The number of nested operations.
    depth: usize,
    /// The number of all operations.
    count: usize,
}

/// An expression whose operands are expressions.
#[derive(Clone, Debug)]
pub(super) enum ExpressionNode {
    Column(String),
    Literal(Literal),
    Arithmetic(Box<Expression>, Arithmetic, Box<Expression>),
    Part(Box<Expression>, TimePart),
    Cast(Box<Expression>, DataType),
    /// More nested operations than fit the stack, or more operations than a query has.
    TooLarge,
}

/// An operation on numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A part of a date or a time, as an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// The year.
    Year,
    /// The month, from 1.
    Month,
    /// The day of the month, from 1.
    Day,
    /// The day of the week: Monday is 1, Sunday 7.
    Weekday,
    /// The hour, from 0 to 23.
    Hour,
    /// The minute, from 0 to 59.
    Minute,
    /// The second, from 0 to 59, without its fraction.
    Second,
}

/// Returns the column called `name`.
///
/// Its methods make conditions, operators make computations:
/// ```
/// use arrowwood::{Dataset, col};
/// # use arrowwood::{CsvOptions, read_csv_from};
/// # let text = "symbol,price,qty\nAAPL,223.02,2\nIBM,125.55,10\nMSFT,28.8,3\n";
/// # let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
/// # let dataset = Dataset::from_batches(schema, batches)?;
///
/// let large = (col("price") * col("qty")).gt(400.0) & !col("symbol").eq("IBM");
/// assert_eq!(dataset.filter(&large)?.len()?, 1);
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub fn col(name: impl Into<String>) -> Expression {
    Expression { node: ExpressionNode::Column(name.into()), size: ExpressionSize::default() }
}

impl Expression {
    /// Returns the name of the column, if the expression is one.
    pub fn name(&self) -> Option<&str> {
        match &self.node {
            ExpressionNode::Column(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the value, if the expression is one.
    pub(super) fn literal(&self) -> Option<&Literal> {
        match &self.node {
            ExpressionNode::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// Returns a part of a date or a time.
    ///
    /// Times in UTC, with an offset, or without a zone have hours; times in zones such as `Europe/Paris` are an error
    /// when rows are evaluated.
    pub fn part(self, part: TimePart) -> Expression {
        let size = self.size;
        Expression::operation(size, || ExpressionNode::Part(self.into(), part))
    }

    /// Casts to `Int64`, `Float32` or `Float64`.
    ///
    /// Numbers can be cast, booleans (to 0 and 1), decimals, and the stored numbers of dates and times. Fractions are
    /// cut off, and a number that does not fit is an error.
    pub fn cast(self, data_type: DataType) -> Expression {
        let size = self.size;
        Expression::operation(size, || ExpressionNode::Cast(self.into(), data_type))
    }

    fn arithmetic(self, operation: Arithmetic, other: Expression) -> Expression {
        let depth = self.size.depth.max(other.size.depth);
        let count = self.size.count.saturating_add(other.size.count);
        Expression::operation(ExpressionSize { depth, count }, || {
            ExpressionNode::Arithmetic(self.into(), operation, other.into())
        })
    }

    /// Creates an operation on operands of `size`, or [`ExpressionNode::TooLarge`].
    fn operation(operands: ExpressionSize, node: impl FnOnce() -> ExpressionNode) -> Expression {
        let size = ExpressionSize { depth: operands.depth.saturating_add(1), count: operands.count.saturating_add(1) };
        let is_small = size.depth <= MAX_DEPTH && size.count <= MAX_OPERATIONS;
        Expression { node: if is_small { node() } else { ExpressionNode::TooLarge }, size }
    }
}

impl<L: Into<Literal>> From<L> for Expression {
    fn from(literal: L) -> Expression {
        Expression { node: ExpressionNode::Literal(literal.into()), size: ExpressionSize::default() }
    }
}

macro_rules! operations {
    ($($operator:ident $method:ident $operation:ident;)*) => {
        $(impl<E: Into<Expression>> $operator<E> for Expression {
            type Output = Expression;

            fn $method(self, other: E) -> Expression {
                self.arithmetic(Arithmetic::$operation, other.into())
            }
        })*
    };
}

operations! {
    Add add Add;
    Sub sub Subtract;
    Mul mul Multiply;
    Div div Divide;
    Rem rem Remainder;
}

impl Neg for Expression {
    type Output = Expression;

    fn neg(self) -> Expression {
        // A literal keeps its type, and the smallest integer has no positive counterpart.
        if let ExpressionNode::Literal(Literal(LiteralValue::Int(number))) = self.node {
            return Literal(LiteralValue::Int(number.saturating_neg())).into();
        }
        if let ExpressionNode::Literal(Literal(LiteralValue::Number(number))) = self.node {
            return Literal(LiteralValue::Number(number.negated())).into();
        }
        // A product with −1 rather than a difference from 0: the negative of the float 0 is −0.
        self.arithmetic(Arithmetic::Multiply, Value::Int(-1).into())
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        })
    }
}

impl fmt::Display for TimePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimePart::Year => "year",
            TimePart::Month => "month",
            TimePart::Day => "day",
            TimePart::Weekday => "weekday",
            TimePart::Hour => "hour",
            TimePart::Minute => "minute",
            TimePart::Second => "second",
        })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            ExpressionNode::Column(name) => f.write_str(&escape_hidden(name)),
            ExpressionNode::Literal(literal) => literal.fmt(f),
            ExpressionNode::Arithmetic(a, operation, b) => write!(f, "({a} {operation} {b})"),
            ExpressionNode::Part(inner, part) => write!(f, "{part}({inner})"),
            ExpressionNode::Cast(inner, data_type) => write!(f, "cast({inner}, {})", type_name(data_type)),
            ExpressionNode::TooLarge => f.write_str("…"),
        }
    }
}
