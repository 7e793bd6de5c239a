//! Expressions translated for a dataset's columns, and evaluated a few thousand rows at a time: what stands between two
//! operations stays in the caches.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};
use chrono::{DateTime, Datelike, FixedOffset};

use super::computed::{
    ComputedNumbers, ScalarOrVec, floats, integers, load_floats, load_integers, load_whole_parts, overflows, truncated,
};
use super::expression::{Arithmetic, DEEPEST, Expression, ExpressionNode, LARGEST, TimePart};
use super::literal::{LiteralValue, NumberLiteral};
use super::mask::{Mask, null_mask};
use crate::array::ArrayParts;
use crate::compute::frame::Frame;
use crate::error::{Error, Result};
use crate::types::layout::per_second;
use crate::types::type_name;

/// The rows that are evaluated at once.
pub(in crate::compute) const AT_ONCE: usize = 1 << 12;

const DAY: i64 = 86_400;

/// An expression of numbers.
#[derive(Clone, Debug)]
pub(in crate::compute) struct BoundExpression {
    node: BoundNode,
    kind: NumberKind,
    width: Width,
    /// The expression, for messages.
    shown: Arc<str>,
}

#[derive(Clone, Debug)]
enum BoundNode {
    Column(usize),
    Integer(i64),
    Float(f64),
    Arithmetic(Box<BoundExpression>, Arithmetic, Box<BoundExpression>),
    /// A column of unsigned integers of 64 bits, as the signed ones of the same order.
    Ordered(usize),
    /// The whole parts of a column of decimals.
    Whole(usize),
    Part(usize, TimePart, TimeEncoding),
    Cast(Box<BoundExpression>),
}

/// The numbers that a formula makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberKind {
    Integer,
    Float32,
    Float64,
}

/// What decides about the kind of what is computed with it: integers of 8 and 16 bits, and values, fit into floats of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Value,
    Narrow,
    Wide,
}

/// How the integers of a column are times.
#[derive(Clone, Copy, Debug)]
struct TimeEncoding {
    /// Of these is a second, or, if days are counted, none.
    per_second: Option<i64>,
    /// Seconds east of UTC.
    east: i64,
}

/// The rows to evaluate for: of a batch, those for which `wanted`, counted from the first, is true. Others may overflow.
pub(in crate::compute) struct EvalContext<'f, 'a> {
    pub frame: &'f Frame<'a>,
    pub part: usize,
    pub rows: Range<usize>,
    pub wanted: &'f dyn Fn(usize) -> bool,
}

/// ComputedNumbers, and which of them are not null.
pub(super) struct NullableNumbers {
    pub numbers: ComputedNumbers,
    pub valid: Option<Mask>,
}

// ---- translation ----

impl BoundExpression {
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for types that are no numbers, naming what can compute with them.
    pub(in crate::compute) fn bind(
        expression: &Expression,
        schema: &Schema,
        index_of: &dyn Fn(&str) -> Result<usize>,
    ) -> Result<BoundExpression> {
        let shown: Arc<str> = expression.to_string().into();
        let made = |node, kind, width| Ok(BoundExpression { node, kind, width, shown: shown.clone() });
        let beyond = |what: String| beyond(&format!("{shown}: {what}"));
        let inner = |expression: &Expression| BoundExpression::bind(expression, schema, index_of);
        match &expression.0 {
            ExpressionNode::Column(name) => {
                let column = index_of(name)?;
                match number_of(schema.field(column).data_type()) {
                    Some((kind, width)) => made(BoundNode::Column(column), kind, width),
                    None => {
                        let found = type_name(schema.field(column).data_type());
                        Err(beyond(format!("a column of numbers is expected, got one of type {found}")))
                    }
                }
            }
            ExpressionNode::Literal(literal) => {
                let (node, kind) =
                    number_in(&literal.0).ok_or_else(|| beyond("a number of 64 bits is expected".into()))?;
                made(node, kind, Width::Value)
            }
            ExpressionNode::TooLarge => Err(Error::invalid_argument(format!(
                "an expression has at most {DEEPEST} operations inside of one another, and at most {LARGEST} of them"
            ))),
            ExpressionNode::Arithmetic(a, operation, b) => {
                let (a, b) = (inner(a)?, inner(b)?);
                let (kind, width) = common(&a, *operation, &b);
                made(BoundNode::Arithmetic(a.into(), *operation, b.into()), kind, width)
            }
            ExpressionNode::Part(of, part) => {
                let name = of.name().ok_or_else(|| beyond("parts of times are those of columns".into()))?;
                let column = index_of(name)?;
                let clock = TimeEncoding::for_type(schema.field(column).data_type(), *part).map_err(beyond)?;
                let width = if *part == TimePart::Year { Width::Wide } else { Width::Narrow };
                made(BoundNode::Part(column, *part, clock), NumberKind::Integer, width)
            }
            ExpressionNode::Cast(of, data_type) => {
                let unknown =
                    || beyond(format!("a cast is to int64, float32 or float64, got {}", type_name(data_type)));
                let kind = kind_named(data_type).ok_or_else(unknown)?;
                let Some(name) = of.name() else {
                    return made(BoundNode::Cast(inner(of)?.into()), kind, Width::Wide);
                };
                let column = index_of(name)?;
                let stored = schema.field(column).data_type();
                let none = || beyond(format!("a column of type {} has no numbers", type_name(stored)));
                let loaded = cast_of(stored, kind).ok_or_else(none)?;
                let is_exact = loaded == NumberKind::Integer && is_decimal(stored);
                let node = if is_exact { BoundNode::Whole(column) } else { BoundNode::Column(column) };
                let own = made(node, loaded, Width::Wide)?;
                made(BoundNode::Cast(own.into()), kind, Width::Wide)
            }
        }
    }

    /// The numbers that column `column`, called `name`, of times or booleans is stored as.
    pub(super) fn raw(column: usize, name: &str) -> BoundExpression {
        BoundExpression {
            node: BoundNode::Column(column),
            kind: NumberKind::Integer,
            width: Width::Wide,
            shown: name.into(),
        }
    }

    /// The unsigned integers of 64 bits of column `column`, called `name`, to compare with others of them.
    pub(super) fn ordered(column: usize, name: &str) -> BoundExpression {
        BoundExpression { node: BoundNode::Ordered(column), ..BoundExpression::raw(column, name) }
    }

    pub(in crate::compute) fn data_type(&self) -> DataType {
        match self.kind {
            NumberKind::Integer => DataType::Int64,
            NumberKind::Float32 => DataType::Float32,
            NumberKind::Float64 => DataType::Float64,
        }
    }

    pub(in crate::compute) fn shown(&self) -> &str {
        &self.shown
    }
}

/// What an expression can't do, and what can.
pub(super) fn beyond(what: &str) -> Error {
    Error::unsupported(format!(
        "{what}; beyond numbers, dates and times of columns, ask DuckDB or Polars over the same dataset: ds.sql(…), \
         aw.scan(ds)"
    ))
}

/// The numbers of a column that may be computed with.
fn number_of(data_type: &DataType) -> Option<(NumberKind, Width)> {
    use DataType::*;
    Some(match data_type {
        Dictionary(_, values) if !matches!(**values, Dictionary(..)) => return number_of(values),
        Int8 | UInt8 | Int16 | UInt16 => (NumberKind::Integer, Width::Narrow),
        Int32 | UInt32 | Int64 | UInt64 => (NumberKind::Integer, Width::Wide),
        Float16 | Float32 => (NumberKind::Float32, Width::Wide),
        Float64 => (NumberKind::Float64, Width::Wide),
        _ => return None,
    })
}

/// The number that a literal is.
fn number_in(literal: &LiteralValue) -> Option<(BoundNode, NumberKind)> {
    match literal {
        LiteralValue::Int(number) => Some((BoundNode::Integer(i64::try_from(*number).ok()?), NumberKind::Integer)),
        LiteralValue::Float(float) | LiteralValue::Number(NumberLiteral { float, .. }) => {
            Some((BoundNode::Float(*float), NumberKind::Float64))
        }
        _ => None,
    }
}

/// The kind that a cast is to.
fn kind_named(data_type: &DataType) -> Option<NumberKind> {
    match data_type {
        DataType::Int64 => Some(NumberKind::Integer),
        DataType::Float32 => Some(NumberKind::Float32),
        DataType::Float64 => Some(NumberKind::Float64),
        _ => None,
    }
}

/// The kind that a column is loaded as, to be cast to `kind`.
fn cast_of(data_type: &DataType, kind: NumberKind) -> Option<NumberKind> {
    use DataType::*;
    match data_type {
        Dictionary(_, values) if !matches!(**values, Dictionary(..)) => cast_of(values, kind),
        // Its values need not fit into integers of 64 bits.
        UInt64 if kind != NumberKind::Integer => Some(kind),
        Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Some(NumberKind::Integer),
        other if is_decimal(other) => Some(kind),
        other => number_of(other).map(|(kind, _)| kind),
    }
}

/// Whether the values are decimals, maybe of a dictionary.
fn is_decimal(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_decimal(values),
        other => other.is_decimal(),
    }
}

/// The kind of an operation's results.
fn common(a: &BoundExpression, operation: Arithmetic, b: &BoundExpression) -> (NumberKind, Width) {
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
    /// How `part` is found in a column of `data_type`; what is expected if it is not there.
    fn for_type(data_type: &DataType, part: TimePart) -> std::result::Result<TimeEncoding, String> {
        use TimePart::{Hour, Minute, Second};
        let has_clock = matches!(part, Hour | Minute | Second);
        let clock = |per_second| Ok(TimeEncoding { per_second, east: 0 });
        match data_type {
            DataType::Dictionary(_, values) => TimeEncoding::for_type(values, part),
            DataType::Date32 if !has_clock => clock(None),
            DataType::Date64 if !has_clock => clock(Some(1_000)),
            DataType::Time32(unit) | DataType::Time64(unit) if has_clock => clock(Some(per_second(*unit))),
            DataType::Timestamp(unit, zone) => match offset(zone.as_deref()) {
                Some(east) => Ok(TimeEncoding { per_second: Some(per_second(*unit)), east }),
                None => Err(format!("the hours of {} take a database of time zones", type_name(data_type))),
            },
            other => Err(format!("a column of type {} has no {part}", type_name(other))),
        }
    }

    /// The part of a value; `None` beyond the calendar.
    #[inline]
    fn part(self, value: i64, part: TimePart) -> Option<i64> {
        let seconds = match self.per_second {
            Some(per_second) => value.div_euclid(per_second).checked_add(self.east)?,
            None => value.checked_mul(DAY)?,
        };
        let clock = seconds.rem_euclid(DAY);
        let date = || DateTime::from_timestamp(seconds, 0).map(|time| time.date_naive());
        Some(match part {
            TimePart::Hour => clock / 3_600,
            TimePart::Minute => clock / 60 % 60,
            TimePart::Second => clock % 60,
            // 1970 began with a Thursday.
            TimePart::Weekday => (seconds.div_euclid(DAY) + 3).rem_euclid(7) + 1,
            TimePart::Year => date()?.year().into(),
            TimePart::Month => date()?.month().into(),
            TimePart::Day => date()?.day().into(),
        })
    }
}

/// The seconds by which a zone is east of UTC; `None` if that depends on the time.
fn offset(zone: Option<&str>) -> Option<i64> {
    match zone {
        None | Some("UTC" | "Etc/UTC" | "Z") => Some(0),
        Some(zone) => zone.parse::<FixedOffset>().ok().map(|offset| offset.local_minus_utc().into()),
    }
}

// ---- evaluation ----

impl BoundExpression {
    /// The results for some rows, as an array.
    pub(in crate::compute) fn array(&self, rows: &EvalContext<'_, '_>) -> Result<ArrayData> {
        let len = rows.rows.len();
        let NullableNumbers { numbers, valid } = self.evaluate(rows)?;
        let buffer = match (numbers, self.kind) {
            (ComputedNumbers::Integers(values), NumberKind::Integer) => Buffer::from_vec(values.each(len)),
            (numbers, NumberKind::Float32) => {
                let values = numbers.floats(true).each(len);
                Buffer::from_vec(values.into_iter().map(|number| number as f32).collect::<Vec<_>>())
            }
            (numbers, _) => Buffer::from_vec(numbers.floats(false).each(len)),
        };
        let validity = valid.map(|valid| {
            let bits = BooleanBuffer::collect_bool(len, |row| valid.is_set(row));
            (bits.into_inner(), len - valid.count())
        });
        let validity = validity.filter(|(_, nulls)| *nulls > 0);
        let parts =
            ArrayParts { data_type: self.data_type(), len, validity, buffers: vec![buffer], children: Vec::new() };
        parts.assemble().checked(&[])
    }

    pub(super) fn evaluate(&self, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        match &self.node {
            BoundNode::Integer(number) => {
                Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Scalar(*number)), valid: None })
            }
            BoundNode::Float(number) => {
                Ok(NullableNumbers { numbers: ComputedNumbers::Floats(ScalarOrVec::Scalar(*number)), valid: None })
            }
            BoundNode::Column(column) => self.column(*column, rows),
            BoundNode::Ordered(column) => {
                let (values, valid) = integers_of(*column, rows)?;
                let values = values.into_iter().map(|value| value ^ i64::MIN).collect();
                Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
            }
            BoundNode::Whole(column) => {
                let array = rows.frame.checked(rows.part, *column)?;
                self.whole(load_whole_parts(array, &rows.rows)?, valid_of(array, &rows.rows)?, rows)
            }
            BoundNode::Part(column, part, clock) => {
                let (values, valid) = integers_of(*column, rows)?;
                let parts = values.iter().map(|&value| clock.part(value, *part)).collect::<Vec<_>>();
                let found = Mask::collect(parts.len(), |row| parts[row].is_some());
                let values = parts.into_iter().map(Option::unwrap_or_default).collect();
                Ok(NullableNumbers {
                    numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)),
                    valid: both(valid, Some(found)),
                })
            }
            BoundNode::Cast(of) => self.cast(of.evaluate(rows)?, rows),
            BoundNode::Arithmetic(a, operation, b) => {
                self.arithmetic(a.evaluate(rows)?, *operation, b.evaluate(rows)?, rows)
            }
        }
    }

    fn column(&self, column: usize, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        if self.kind != NumberKind::Integer {
            let array = rows.frame.checked(rows.part, column)?;
            let is_short = self.kind == NumberKind::Float32;
            let numbers = ComputedNumbers::Floats(load_floats(array, &rows.rows, is_short)?);
            return Ok(NullableNumbers { numbers, valid: valid_of(array, &rows.rows)? });
        }
        let (values, valid) = integers_of(column, rows)?;
        let is_unsigned = match rows.frame.checked(rows.part, column)?.data_type() {
            DataType::Dictionary(_, values) => **values == DataType::UInt64,
            other => *other == DataType::UInt64,
        };
        if is_unsigned && values.iter().any(|&value| value < 0) {
            self.refuse(rows, valid.as_ref(), |row| values[row] < 0, "does not fit an integer of 64 bits with a sign")?;
        }
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
    }

    fn cast(&self, of: NullableNumbers, rows: &EvalContext<'_, '_>) -> Result<NullableNumbers> {
        let NullableNumbers { numbers, valid } = of;
        let numbers = match (self.kind, numbers) {
            (NumberKind::Integer, ComputedNumbers::Floats(values)) => {
                let values = values.each(rows.rows.len());
                return self.whole(values.iter().map(|&number| truncated(number)).collect(), valid, rows);
            }
            (NumberKind::Integer, numbers) => numbers,
            (kind, numbers) => ComputedNumbers::Floats(numbers.floats(kind == NumberKind::Float32)),
        };
        Ok(NullableNumbers { numbers, valid })
    }

    /// Integers, of which `None` did not fit.
    fn whole(
        &self,
        whole: Vec<Option<i64>>,
        valid: Option<Mask>,
        rows: &EvalContext<'_, '_>,
    ) -> Result<NullableNumbers> {
        if whole.contains(&None) {
            self.refuse(rows, valid.as_ref(), |row| whole[row].is_none(), "does not fit an integer of 64 bits")?;
        }
        // What did not fit is null, or not asked for.
        let values = whole.into_iter().map(|number| number.unwrap_or(0)).collect();
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(ScalarOrVec::Vec(values)), valid })
    }

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
                let is_short = self.kind == NumberKind::Float32;
                let results = floats(operation, &a.floats(is_short), &b.floats(is_short), is_short);
                return Ok(NullableNumbers { numbers: ComputedNumbers::Floats(results), valid });
            }
        };
        let (results, is_over) = integers(operation, &a, &b);
        if is_over {
            let is_wrong = |row: usize| a.get(row).zip(b.get(row)).is_some_and(|(a, b)| overflows(operation, a, b));
            self.refuse(rows, valid.as_ref(), is_wrong, "does not fit an integer of 64 bits")?;
        }
        let valid = if operation == Arithmetic::Remainder {
            both(valid, Some(Mask::collect(rows.rows.len(), |row| b.get(row) != Some(0))))
        } else {
            valid
        };
        Ok(NullableNumbers { numbers: ComputedNumbers::Integers(results), valid })
    }

    /// An error if a row that is asked for, and is not null, is wrong.
    fn refuse(
        &self,
        rows: &EvalContext<'_, '_>,
        valid: Option<&Mask>,
        is_wrong: impl Fn(usize) -> bool,
        what: &str,
    ) -> Result<()> {
        let is_valid = |row: usize| valid.is_none_or(|valid| valid.is_set(row));
        let wrong = (0..rows.rows.len()).find(|&row| is_wrong(row) && is_valid(row) && (rows.wanted)(row));
        let Some(row) = wrong else { return Ok(()) };
        let row = rows.frame.original_row(rows.part, rows.rows.start + row)?;
        let advice = "compute with floats, as by a cast to float64";
        Err(Error::invalid_argument(format!("{} {what} in row {row}; {advice}", self.shown)))
    }
}

/// The integers of a column that are stored for some rows, and which of them are not null.
fn integers_of(column: usize, rows: &EvalContext<'_, '_>) -> Result<(Vec<i64>, Option<Mask>)> {
    let array = rows.frame.checked(rows.part, column)?;
    let values = load_integers(array, &rows.rows)?.each(rows.rows.len());
    Ok((values, valid_of(array, &rows.rows)?))
}

fn valid_of(array: &ArrayData, rows: &Range<usize>) -> Result<Option<Mask>> {
    match array.data_type() {
        DataType::Dictionary(..) => null_mask(array, rows, false).map(Some),
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
