//! Binds expressions to a dataset's columns, and evaluates them a few thousand rows at a time: intermediate results
//! stay in the caches.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};
use chrono::{DateTime, Datelike, FixedOffset, NaiveDate};

use super::computed::{
    ComputedNumbers, FloatWidth, ScalarOrVec, compute_floats, compute_integers, load_floats, load_integers,
    load_whole_parts, overflows, truncate,
};
use super::expression::{Arithmetic, Expression, ExpressionNode, MAX_DEPTH, MAX_OPERATIONS, TimePart};
use super::literal::{LiteralValue, NumberLiteral};
use crate::array::ArrayParts;
use crate::compute::scan::Frame;
use crate::compute::selection::{Mask, valid_mask};
use crate::error::{Error, Result};
use crate::types::layout::per_second;
use crate::types::layout::{MILLIS_PER_SECOND, SECONDS_PER_DAY};
use crate::types::type_name;

/// The number of rows that are evaluated at once.
pub(in crate::compute) const AT_ONCE: usize = 1 << 12;

const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_MINUTE: i64 = 60;
const MINUTES_PER_HOUR: i64 = 60;

/// An expression whose columns are known by their numbers, and whose results are numbers.
#[derive(Clone, Debug)]
pub(in crate::compute) struct BoundExpression {
    node: BoundNode,
    kind: NumberKind,
    width: Width,
    /// The expression as text, for messages.
    text: Arc<str>,
}

/// What an expression computes. Columns have numbers.
#[derive(Clone, Debug)]
enum BoundNode {
    Column(usize),
    Integer(i64),
    Float(f64),
    Arithmetic(Box<BoundExpression>, Arithmetic, Box<BoundExpression>),
    /// A column of unsigned integers of 64 bits, mapped to signed integers with the same order.
    Ordered(usize),
    /// The whole parts of a column of decimals.
    Whole(usize),
    /// A part of the times of a column.
    Part(usize, TimePart, TimeEncoding),
    /// A conversion to the kind of the expression.
    Cast(Box<BoundExpression>),
}

/// The type of an expression's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberKind {
    Integer,
    Float32,
    Float64,
}

impl NumberKind {
    /// Returns the width of floats of this kind. Integers are converted to floats of 64 bits.
    fn float_width(self) -> FloatWidth {
        match self {
            NumberKind::Float32 => FloatWidth::F32,
            NumberKind::Integer | NumberKind::Float64 => FloatWidth::F64,
        }
    }
}

/// The width of an operand, which decides about the kind of a result: integers of 8 and 16 bits, and literals, fit into
/// floats of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// A literal.
    Value,
    /// Integers of 8 or 16 bits.
    Narrow,
    /// All other numbers.
    Wide,
}

/// The encoding of times as integers in a column.
#[derive(Clone, Copy, Debug)]
struct TimeEncoding {
    /// The number of units per second; `None` if the unit is a day.
    units_per_second: Option<i64>,
    /// The offset of the time zone, in seconds east of UTC.
    offset_seconds: i64,
}

/// The rows of a batch for which an expression is evaluated.
pub(in crate::compute) struct EvalContext<'f, 'a> {
    pub frame: &'f Frame<'a>,
    pub part: usize,
    pub rows: Range<usize>,
    /// Returns true if the result of a row, counted from the first of `rows`, is needed. An overflow in other rows is
    /// no error.
    pub wanted: &'f dyn Fn(usize) -> bool,
}

/// Numbers, and which of them are not null; `None` if no number is null.
pub(super) struct NullableNumbers {
    pub numbers: ComputedNumbers,
    pub valid: Option<Mask>,
}

// ---- binding ----

impl BoundExpression {
    /// Binds an expression to the columns of `schema`, whose numbers `index_of` returns.
    ///
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for types that are no numbers, naming what can compute with them.
    pub(in crate::compute) fn bind(
        expression: &Expression,
        schema: &Schema,
        index_of: &dyn Fn(&str) -> Result<usize>,
    ) -> Result<BoundExpression> {
        let text: Arc<str> = expression.to_string().into();
        let (node, kind, width) = match &expression.node {
            ExpressionNode::Column(name) => {
                let column = index_of(name)?;
                let data_type = schema.field(column).data_type();
                let Some((kind, width)) = column_kind(data_type) else {
                    return Err(unsupported(&format!(
                        "{text}: a column of numbers is expected, got one of type {}",
                        type_name(data_type)
                    )));
                };
                (BoundNode::Column(column), kind, width)
            }
            ExpressionNode::Literal(literal) => {
                let Some((node, kind)) = bind_literal(&literal.0) else {
                    return Err(unsupported(&format!("{text}: a number of 64 bits is expected")));
                };
                (node, kind, Width::Value)
            }
            ExpressionNode::TooLarge => {
                return Err(Error::invalid_argument(format!(
                    "an expression has at most {MAX_DEPTH} operations inside of one another, and at most \
                     {MAX_OPERATIONS} of them"
                )));
            }
            ExpressionNode::Arithmetic(a, operation, b) => {
                let a = BoundExpression::bind(a, schema, index_of)?;
                let b = BoundExpression::bind(b, schema, index_of)?;
                let (kind, width) = result_kind(&a, *operation, &b);
                (BoundNode::Arithmetic(a.into(), *operation, b.into()), kind, width)
            }
            ExpressionNode::Part(inner, part) => {
                let Some(name) = inner.name() else {
                    return Err(unsupported(&format!("{text}: parts of times are those of columns")));
                };
                let column = index_of(name)?;
                let encoding = TimeEncoding::for_type(schema.field(column).data_type(), *part)
                    .map_err(|reason| unsupported(&format!("{text}: {reason}")))?;
                let width = if *part == TimePart::Year { Width::Wide } else { Width::Narrow };
                (BoundNode::Part(column, *part, encoding), NumberKind::Integer, width)
            }
            ExpressionNode::Cast(inner, data_type) => {
                let Some(kind) = cast_kind(data_type) else {
                    return Err(unsupported(&format!(
                        "{text}: a cast is to int64, float32 or float64, got {}",
                        type_name(data_type)
                    )));
                };
                let inner = match inner.name() {
                    Some(name) => bind_cast_column(index_of(name)?, schema, kind, &text)?,
                    None => BoundExpression::bind(inner, schema, index_of)?,
                };
                (BoundNode::Cast(inner.into()), kind, Width::Wide)
            }
        };
        Ok(BoundExpression { node, kind, width, text })
    }

    /// Reads the numbers that are stored for column `column`, called `name`, of times or booleans.
    pub(super) fn raw(column: usize, name: &str) -> BoundExpression {
        BoundExpression {
            node: BoundNode::Column(column),
            kind: NumberKind::Integer,
            width: Width::Wide,
            text: name.into(),
        }
    }

    /// Reads the unsigned integers of 64 bits of column `column`, called `name`, to compare them with each other.
    pub(super) fn ordered(column: usize, name: &str) -> BoundExpression {
        BoundExpression { node: BoundNode::Ordered(column), ..BoundExpression::raw(column, name) }
    }

    /// Returns the type of the results.
    pub(in crate::compute) fn data_type(&self) -> DataType {
        match self.kind {
            NumberKind::Integer => DataType::Int64,
            NumberKind::Float32 => DataType::Float32,
            NumberKind::Float64 => DataType::Float64,
        }
    }

    /// Returns the expression as text, for messages.
    pub(in crate::compute) fn shown(&self) -> &str {
        &self.text
    }
}

/// Binds a column to be cast to `kind`; `text` is the cast expression.
fn bind_cast_column(column: usize, schema: &Schema, kind: NumberKind, text: &Arc<str>) -> Result<BoundExpression> {
    let data_type = schema.field(column).data_type();
    let Some(kind) = loaded_kind(data_type, kind) else {
        return Err(unsupported(&format!("{text}: a column of type {} has no numbers", type_name(data_type))));
    };
    let is_truncated = kind == NumberKind::Integer && is_decimal(data_type);
    let node = if is_truncated { BoundNode::Whole(column) } else { BoundNode::Column(column) };
    Ok(BoundExpression { node, kind, width: Width::Wide, text: text.clone() })
}

/// Creates the error for a computation that is not supported, with advice.
pub(super) fn unsupported(what: &str) -> Error {
    Error::unsupported(format!(
        "{what}; beyond numbers, dates and times of columns, ask DuckDB or Polars over the same dataset: ds.sql(…), \
         aw.scan(ds)"
    ))
}

/// Returns the kind and the width of a column's numbers; `None` if it has none.
fn column_kind(data_type: &DataType) -> Option<(NumberKind, Width)> {
    use DataType::*;
    Some(match data_type {
        Dictionary(_, values) if !matches!(**values, Dictionary(..)) => return column_kind(values),
        Int8 | UInt8 | Int16 | UInt16 => (NumberKind::Integer, Width::Narrow),
        Int32 | UInt32 | Int64 | UInt64 => (NumberKind::Integer, Width::Wide),
        Float16 | Float32 => (NumberKind::Float32, Width::Wide),
        Float64 => (NumberKind::Float64, Width::Wide),
        _ => return None,
    })
}

/// Binds a literal; `None` if it is no number, or does not fit.
fn bind_literal(literal: &LiteralValue) -> Option<(BoundNode, NumberKind)> {
    match literal {
        LiteralValue::Int(number) => Some((BoundNode::Integer(i64::try_from(*number).ok()?), NumberKind::Integer)),
        LiteralValue::Float(float) | LiteralValue::Number(NumberLiteral { float, .. }) => {
            Some((BoundNode::Float(*float), NumberKind::Float64))
        }
        _ => None,
    }
}

/// Returns the kind of the results of a cast to `data_type`; `None` if there is no such cast.
fn cast_kind(data_type: &DataType) -> Option<NumberKind> {
    match data_type {
        DataType::Int64 => Some(NumberKind::Integer),
        DataType::Float32 => Some(NumberKind::Float32),
        DataType::Float64 => Some(NumberKind::Float64),
        _ => None,
    }
}

/// Returns the kind as which a column is loaded, to be cast to `kind`; `None` if it has no numbers.
fn loaded_kind(data_type: &DataType, kind: NumberKind) -> Option<NumberKind> {
    use DataType::*;
    match data_type {
        Dictionary(_, values) if !matches!(**values, Dictionary(..)) => loaded_kind(values, kind),
        // The values need not fit into signed integers.
        UInt64 if kind != NumberKind::Integer => Some(kind),
        Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Some(NumberKind::Integer),
        other if is_decimal(other) => Some(kind),
        other => column_kind(other).map(|(kind, _)| kind),
    }
}

/// Returns true for decimals, and for dictionaries of decimals.
fn is_decimal(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_decimal(values),
        other => other.is_decimal(),
    }
}

/// Returns the kind and the width of an operation's results.
fn result_kind(a: &BoundExpression, operation: Arithmetic, b: &BoundExpression) -> (NumberKind, Width) {
    use NumberKind::{Float32, Float64, Integer};
    let kind = match (a.kind, b.kind) {
        (Integer, Integer) if operation == Arithmetic::Divide => Float64,
        (Integer, Integer) => Integer,
        (Float32, Float32) => Float32,
        (Float32, _) if b.width != Width::Wide => Float32,
        (_, Float32) if a.width != Width::Wide => Float32,
        _ => Float64,
    };
    let width = match (a.width, b.width) {
        (Width::Value, other) | (other, Width::Value) => other,
        (Width::Narrow, Width::Narrow) if kind == Integer => Width::Narrow,
        _ => Width::Wide,
    };
    // Floats of 64 bits are values, or wide.
    (kind, if kind != Integer && width == Width::Narrow { Width::Wide } else { width })
}

impl TimeEncoding {
    /// Returns the encoding of a column of `data_type` that has the part `part`; the reason if it has not.
    fn for_type(data_type: &DataType, part: TimePart) -> std::result::Result<TimeEncoding, String> {
        let is_time_of_day = matches!(part, TimePart::Hour | TimePart::Minute | TimePart::Second);
        let (units_per_second, offset_seconds) = match data_type {
            DataType::Dictionary(_, values) => return TimeEncoding::for_type(values, part),
            DataType::Date32 if !is_time_of_day => (None, 0),
            DataType::Date64 if !is_time_of_day => (Some(MILLIS_PER_SECOND), 0),
            DataType::Time32(unit) | DataType::Time64(unit) if is_time_of_day => (Some(per_second(*unit)), 0),
            DataType::Timestamp(unit, zone) => match utc_offset(zone.as_deref()) {
                Some(offset_seconds) => (Some(per_second(*unit)), offset_seconds),
                None => return Err(format!("the hours of {} take a database of time zones", type_name(data_type))),
            },
            other => return Err(format!("a column of type {} has no {part}", type_name(other))),
        };
        Ok(TimeEncoding { units_per_second, offset_seconds })
    }

    /// Returns the part of a value; `None` beyond the calendar.
    #[inline]
    fn part(self, value: i64, part: TimePart) -> Option<i64> {
        let seconds = match self.units_per_second {
            Some(units) => value.div_euclid(units).checked_add(self.offset_seconds)?,
            None => value.checked_mul(SECONDS_PER_DAY)?,
        };
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        Some(match part {
            TimePart::Hour => second_of_day / SECONDS_PER_HOUR,
            TimePart::Minute => second_of_day / SECONDS_PER_MINUTE % MINUTES_PER_HOUR,
            TimePart::Second => second_of_day % SECONDS_PER_MINUTE,
            // 1970 began with a Thursday.
            TimePart::Weekday => (seconds.div_euclid(SECONDS_PER_DAY) + 3).rem_euclid(7) + 1,
            TimePart::Year => date(seconds)?.year().into(),
            TimePart::Month => date(seconds)?.month().into(),
            TimePart::Day => date(seconds)?.day().into(),
        })
    }
}

/// Returns the date of a time in seconds since 1970; `None` beyond the calendar.
#[inline]
fn date(seconds: i64) -> Option<NaiveDate> {
    DateTime::from_timestamp(seconds, 0).map(|time| time.date_naive())
}

/// Returns the seconds by which a zone is east of UTC; `None` if they depend on the time.
fn utc_offset(zone: Option<&str>) -> Option<i64> {
    match zone {
        None | Some("UTC" | "Etc/UTC" | "Z") => Some(0),
        Some(zone) => zone.parse::<FixedOffset>().ok().map(|offset| offset.local_minus_utc().into()),
    }
}

// ---- evaluation ----

impl BoundExpression {
    /// Returns the results for some rows, as an array.
    pub(in crate::compute) fn array(&self, rows: &EvalContext<'_, '_>) -> Result<ArrayData> {
        let len = rows.rows.len();
        let NullableNumbers { numbers, valid } = self.evaluate(rows)?;
        let buffer = match (numbers, self.kind) {
            (ComputedNumbers::Integers(values), NumberKind::Integer) => Buffer::from_vec(values.into_vec(len)),
            (numbers, NumberKind::Float32) => {
                let values = numbers.into_floats(FloatWidth::F32).into_vec(len);
                Buffer::from_vec(values.into_iter().map(|number| number as f32).collect::<Vec<_>>())
            }
            (numbers, _) => Buffer::from_vec(numbers.into_floats(FloatWidth::F64).into_vec(len)),
        };
        let validity = match valid {
            Some(valid) if valid.count() < len => {
                assert!(valid.len() == len, "{} bits of validity for {len} rows", valid.len());
                let bits = BooleanBuffer::collect_bool(len, |row| valid.is_set(row));
                Some((bits.into_inner(), len - valid.count()))
            }
            _ => None,
        };
        let parts =
            ArrayParts { data_type: self.data_type(), len, validity, buffers: vec![buffer], children: Vec::new() };
        parts.assemble().checked(&[])
    }

    /// Returns the results for some rows. Those of rows that are null are arbitrary.
    pub(super) fn evaluate(&self, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        match &self.node {
            BoundNode::Integer(number) => {
                Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Scalar(*number)), valid: None })
            }
            BoundNode::Float(number) => {
                Ok(NullableNumbers { numbers: ComputedNumbers::Floats(ScalarOrVec::Scalar(*number)), valid: None })
            }
            BoundNode::Column(column) => self.load_column(*column, rows),
            BoundNode::Ordered(column) => {
                let (values, valid) = load_column_integers(*column, rows)?;
                let values = values.into_iter().map(|value| value ^ i64::MIN).collect();
                Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
            }
            BoundNode::Whole(column) => {
                let array = rows.frame.checked(rows.part, *column)?;
                self.require_fit(load_whole_parts(array, &rows.rows)?, valid_rows(array, &rows.rows)?, rows)
            }
            BoundNode::Part(column, part, encoding) => {
                let (values, valid) = load_column_integers(*column, rows)?;
                let parts = values.iter().map(|&value| encoding.part(value, *part)).collect::<Vec<_>>();
                let has_part = Mask::collect(parts.len(), |row| parts[row].is_some());
                let values = parts.into_iter().map(|part| part.unwrap_or(ANY_NUMBER)).collect();
                Ok(NullableNumbers {
                    numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)),
                    valid: both(valid, Some(has_part)),
                })
            }
            BoundNode::Cast(inner) => self.cast(inner.evaluate(rows)?, rows),
            BoundNode::Arithmetic(a, operation, b) => {
                self.arithmetic(a.evaluate(rows)?, *operation, b.evaluate(rows)?, rows)
            }
        }
    }

    /// Loads a column as integers or floats.
    fn load_column(&self, column: usize, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        if self.kind != NumberKind::Integer {
            let array = rows.frame.checked(rows.part, column)?;
            let numbers = ComputedNumbers::Floats(load_floats(array, &rows.rows, self.kind.float_width())?);
            return Ok(NullableNumbers { numbers, valid: valid_rows(array, &rows.rows)? });
        }
        let (values, valid) = load_column_integers(column, rows)?;
        let is_unsigned = match rows.frame.checked(rows.part, column)?.data_type() {
            DataType::Dictionary(_, values) => **values == DataType::UInt64,
            other => *other == DataType::UInt64,
        };
        if is_unsigned && values.iter().any(|&value| value < 0) {
            self.refuse(rows, valid.as_ref(), |row| values[row] < 0, "does not fit an integer of 64 bits with a sign")?;
        }
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
    }

    /// Converts the results of another expression to the kind of this one.
    fn cast(&self, inner: NullableNumbers, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        let NullableNumbers { numbers, valid } = inner;
        let numbers = match (self.kind, numbers) {
            (NumberKind::Integer, ComputedNumbers::Floats(values)) => {
                let values = values.into_vec(rows.rows.len());
                return self.require_fit(values.iter().map(|&number| truncate(number)).collect(), valid, rows);
            }
            (NumberKind::Integer, numbers) => numbers,
            (kind, numbers) => ComputedNumbers::Floats(numbers.into_floats(kind.float_width())),
        };
        Ok(NullableNumbers { numbers, valid })
    }

    /// Returns integers, given as `None` if they do not fit: an error, unless the row is null or not wanted.
    fn require_fit(
        &self,
        integers: Vec<Option<i64>>,
        valid: Option<Mask>,
        rows: &EvalContext<'_, '_>,
    ) -> Result<NullableNumbers> {
        if integers.contains(&None) {
            self.refuse(rows, valid.as_ref(), |row| integers[row].is_none(), "does not fit an integer of 64 bits")?;
        }
        let values = integers.into_iter().map(|number| number.unwrap_or(ANY_NUMBER)).collect();
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
    }

    /// Computes an operation on two results. Errors name only rows that are not null and are wanted.
    fn arithmetic(
        &self,
        a: NullableNumbers,
        operation: Arithmetic,
        b: NullableNumbers,
        rows: &EvalContext<'_, '_>,
    ) -> Result<NullableNumbers> {
        let valid = both(a.valid, b.valid);
        let (a, b) = match (a.numbers, b.numbers) {
            (ComputedNumbers::Integers(a), ComputedNumbers::Integers(b)) if self.kind == NumberKind::Integer => (a, b),
            (a, b) => {
                let width = self.kind.float_width();
                let results = compute_floats(operation, &a.into_floats(width), &b.into_floats(width), width);
                return Ok(NullableNumbers { numbers: ComputedNumbers::Floats(results), valid });
            }
        };
        let (results, has_overflow) = compute_integers(operation, &a, &b);
        if has_overflow {
            self.refuse(
                rows,
                valid.as_ref(),
                |row| a.get(row).zip(b.get(row)).is_some_and(|(a, b)| overflows(operation, a, b)),
                "does not fit an integer of 64 bits",
            )?;
        }
        let valid = if operation == Arithmetic::Remainder {
            both(valid, Some(Mask::collect(rows.rows.len(), |row| b.get(row) != Some(0))))
        } else {
            valid
        };
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(results), valid })
    }

    /// Returns the error `problem` for the first row that is wrong, unless it is null or not wanted.
    fn refuse(
        &self,
        rows: &EvalContext<'_, '_>,
        valid: Option<&Mask>,
        is_wrong: impl Fn(usize) -> bool,
        problem: &str,
    ) -> Result<()> {
        for row in 0..rows.rows.len() {
            if is_wrong(row) && valid.is_none_or(|valid| valid.is_set(row)) && (rows.wanted)(row) {
                let row = rows.frame.original_row(rows.part, rows.rows.start + row)?;
                let advice = "compute with floats, as by a cast to float64";
                return Err(Error::invalid_argument(format!("{} {problem} in row {row}; {advice}", self.text)));
            }
        }
        Ok(())
    }
}

/// The number for a row whose result is null, or not wanted.
const ANY_NUMBER: i64 = 0;

/// Loads the integers that are stored for some rows of a column, and which of them are not null.
fn load_column_integers(column: usize, rows: &EvalContext<'_, '_>) -> Result<(Vec<i64>, Option<Mask>)> {
    let array = rows.frame.checked(rows.part, column)?;
    let values = load_integers(array, &rows.rows)?.into_vec(rows.rows.len());
    Ok((values, valid_rows(array, &rows.rows)?))
}

fn valid_rows(array: &ArrayData, rows: &Range<usize>) -> Result<Option<Mask>> {
    match array.data_type() {
        DataType::Dictionary(..) => valid_mask(array, rows).map(Some),
        _ => Ok(Mask::from_validity(array, rows)),
    }
}

fn both(a: Option<Mask>, b: Option<Mask>) -> Option<Mask> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.and(&b);
            Some(a)
        }
        (one, other) => one.or(other),
    }
}
