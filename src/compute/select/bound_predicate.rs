//! Predicates translated for a dataset's columns, and the rows for which they hold, a bit each.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::bound_expression::{AT_ONCE, BoundExpression, EvalContext, NullableNumbers, beyond};
use super::categories::comparison_predicate;
use super::compare::ValuePredicate;
use super::computed::ComputedNumbers;
use super::expression::Expression;
use super::literal::Operator;
use super::mask::{Mask, holds, null_mask};
use super::predicate::{Predicate, PredicateNode, balanced, too_deep};
use super::row_set::RowSet;
use crate::array::access::{Texts, dictionary_of, entry_lookup};
use crate::compute::frame::Frame;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::types::{is_ordered, is_text_or_binary, type_name};

/// A predicate on a dataset's columns, by number.
#[derive(Debug)]
pub(in crate::compute) enum BoundPredicate {
    Value(usize, ValuePredicate),
    IsNull(usize),
    /// The same of what is computed.
    Computed(Box<BoundExpression>, ValuePredicate),
    ComputedIsNull(Box<BoundExpression>),
    Pair(Box<BoundExpression>, Operator, Box<BoundExpression>),
    /// Columns of text or bytes.
    TextPair(usize, Operator, usize),
    /// Rows that are known.
    Rows(Arc<RowSet>),
    And(Box<BoundPredicate>, Box<BoundPredicate>),
    Or(Box<BoundPredicate>, Box<BoundPredicate>),
    Not(Box<BoundPredicate>),
}

/// The columns that a predicate is translated for.
struct Binder<'a> {
    dataset: &'a Dataset,
}

impl BoundPredicate {
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` for values that can't be compared with the column; `Unsupported` for what can't
    /// be computed.
    pub(in crate::compute) fn bind(predicate: &Predicate, dataset: &Dataset) -> Result<BoundPredicate> {
        Binder { dataset }.condition(&predicate.0)
    }
}

impl Binder<'_> {
    fn column(&self, name: &str) -> Result<(usize, &DataType)> {
        let column = self.dataset.index_of(name)?;
        Ok((column, self.dataset.schema().field(column).data_type()))
    }

    fn formula(&self, of: &Expression) -> Result<Box<BoundExpression>> {
        BoundExpression::bind(of, self.dataset.schema(), &|name| self.dataset.index_of(name)).map(Box::new)
    }

    fn condition(&self, node: &PredicateNode) -> Result<BoundPredicate> {
        Ok(match node {
            PredicateNode::Compare(of, operator, literal) => match of.name() {
                Some(name) => {
                    let column = self.dataset.index_of(name)?;
                    BoundPredicate::Value(
                        column,
                        comparison_predicate(self.dataset, (column, name), *operator, literal)?,
                    )
                }
                None => self
                    .test(of, |name, data_type| ValuePredicate::for_comparison(name, data_type, *operator, literal))?,
            },
            PredicateNode::IsIn(of, literals) => {
                self.test(of, |name, data_type| ValuePredicate::for_any(name, data_type, literals))?
            }
            PredicateNode::IsNull(of) => match of.name() {
                Some(name) => BoundPredicate::IsNull(self.column(name)?.0),
                None => BoundPredicate::ComputedIsNull(self.formula(of)?),
            },
            PredicateNode::Matches(of, place, text) => {
                let name = of.name().ok_or_else(|| beyond(&format!("{of} is no column of text")))?;
                let (column, data_type) = self.column(name)?;
                BoundPredicate::Value(column, ValuePredicate::for_text_match(name, data_type, *place, text)?)
            }
            PredicateNode::Pair(a, operator, b) => self.pair(a, *operator, b)?,
            PredicateNode::And(chain) => balanced(&chain.parts(), &|part| self.condition(part), BoundPredicate::And)?,
            PredicateNode::Or(chain) => balanced(&chain.parts(), &|part| self.condition(part), BoundPredicate::Or)?,
            PredicateNode::Not(a) => BoundPredicate::Not(self.condition(a)?.into()),
            PredicateNode::TooDeep => return Err(too_deep()),
        })
    }

    /// A test of a column, or of what is computed, by its name and type.
    fn test(
        &self,
        of: &Expression,
        test: impl Fn(&str, &DataType) -> Result<ValuePredicate>,
    ) -> Result<BoundPredicate> {
        if let Some(name) = of.name() {
            let (column, data_type) = self.column(name)?;
            return Ok(BoundPredicate::Value(column, test(name, data_type)?));
        }
        let formula = self.formula(of)?;
        let test = test(formula.shown(), &formula.data_type())?;
        Ok(BoundPredicate::Computed(formula, test))
    }

    fn pair(&self, a: &Expression, operator: Operator, b: &Expression) -> Result<BoundPredicate> {
        if let (Some(left), Some(right)) = (a.name(), b.name()) {
            let (first, second) = (self.column(left)?, self.column(right)?);
            let (own, other) = (plain(first.1), plain(second.1));
            let field = |column: usize| self.dataset.schema().field(column);
            if operator.is_order() && (is_ordered(field(first.0)) || is_ordered(field(second.0))) {
                return Err(beyond(&format!("the ordered categories of '{left}' and '{right}' can't be compared")));
            }
            if texts_alike(own, other) {
                return Ok(BoundPredicate::TextPair(first.0, operator, second.0));
            }
            if (own, other) == (&DataType::UInt64, &DataType::UInt64) {
                let (a, b) = (BoundExpression::ordered(first.0, left), BoundExpression::ordered(second.0, right));
                return Ok(BoundPredicate::Pair(a.into(), operator, b.into()));
            }
            if own == other && is_stored_as_integers(own) {
                let (a, b) = (BoundExpression::raw(first.0, left), BoundExpression::raw(second.0, right));
                return Ok(BoundPredicate::Pair(a.into(), operator, b.into()));
            }
            if [own, other].iter().any(|data_type| !data_type.is_numeric()) {
                let (own, other) = (type_name(first.1), type_name(second.1));
                let what = format!("columns '{left}' of type {own} and '{right}' of type {other} can't be compared");
                return Err(beyond(&what));
            }
        }
        Ok(BoundPredicate::Pair(self.formula(a)?, operator, self.formula(b)?))
    }
}

/// The type of a column's values.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn texts_alike(a: &DataType, b: &DataType) -> bool {
    let is_utf8 = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text_or_binary(a) && is_text_or_binary(b) && is_utf8(a) == is_utf8(b)
}

/// Whether values of the type are compared as the integers that they are stored as.
fn is_stored_as_integers(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
        || matches!(data_type, Decimal32(..) | Decimal64(..))
}

impl BoundPredicate {
    /// The rows among `rows` of batch `part` for which it is known to be true, or, unless `wanted`, false.
    pub(in crate::compute) fn mask(
        &self,
        frame: &Frame<'_>,
        part: usize,
        rows: &Range<usize>,
        wanted: bool,
    ) -> Result<Mask> {
        PredicateEvaluator { frame, part, rows, open: None }.mask(self, wanted)
    }
}

/// The rows to find a condition's bits for.
struct PredicateEvaluator<'c, 'a> {
    frame: &'c Frame<'a>,
    part: usize,
    rows: &'c Range<usize>,
    /// Those that another condition has not decided about, if there is one: the bits of others may be any, and what is wrong in
    /// them is no error.
    open: Option<&'c Mask>,
}

impl PredicateEvaluator<'_, '_> {
    fn mask(&self, condition: &BoundPredicate, wanted: bool) -> Result<Mask> {
        let PredicateEvaluator { frame, part, rows, .. } = *self;
        match condition {
            BoundPredicate::Value(column, test) => {
                let (array, rows) = frame.checked_rows(part, *column, rows)?;
                holds(&array, &rows, test, wanted)
            }
            BoundPredicate::IsNull(column) => {
                let (array, rows) = frame.checked_rows(part, *column, rows)?;
                null_mask(&array, &rows, wanted)
            }
            BoundPredicate::Computed(formula, test) => self.in_steps(|some| {
                let array = formula.array(some)?;
                holds(&array, &(0..array.len()), test, wanted)
            }),
            BoundPredicate::ComputedIsNull(formula) => self.in_steps(|some| {
                let array = formula.array(some)?;
                null_mask(&array, &(0..array.len()), wanted)
            }),
            BoundPredicate::Pair(a, operator, b) => self.in_steps(|some| {
                Ok(pair_mask(&a.evaluate(some)?, *operator, &b.evaluate(some)?, some.rows.len(), wanted))
            }),
            BoundPredicate::TextPair(a, operator, b) => {
                let a = frame.checked_rows(part, *a, rows)?;
                let b = frame.checked_rows(part, *b, rows)?;
                text_pair_mask((&a.0, &a.1), *operator, (&b.0, &b.1), wanted)
            }
            BoundPredicate::Rows(set) => {
                let start = frame.row_number(part, rows.start);
                let mut mask = set.mask(start..start + rows.len() as u64);
                if !wanted {
                    mask.flip();
                }
                Ok(mask)
            }
            BoundPredicate::And(a, b) => self.both(a, b, wanted, wanted),
            BoundPredicate::Or(a, b) => self.both(a, b, wanted, !wanted),
            BoundPredicate::Not(a) => self.mask(a, !wanted),
        }
    }

    /// The rows for which both are known to be `wanted`, or one of them. The second is asked about rows only that the first
    /// leaves open.
    fn both(&self, a: &BoundPredicate, b: &BoundPredicate, wanted: bool, is_and: bool) -> Result<Mask> {
        let mut mask = self.mask(a, wanted)?;
        let mut open = mask.clone();
        if !is_and {
            open.flip();
        }
        self.open.iter().for_each(|outer| open.and(outer));
        let other = PredicateEvaluator { open: Some(&open), ..*self }.mask(b, wanted)?;
        if is_and {
            mask.and(&other);
        } else {
            mask.or(&other);
        }
        Ok(mask)
    }

    /// The bits, a few thousand at a time; false where all are decided.
    fn in_steps(&self, mask: impl Fn(&EvalContext<'_, '_>) -> Result<Mask>) -> Result<Mask> {
        let PredicateEvaluator { frame, part, rows, open } = *self;
        let mut all = Mask::all(0, false);
        for start in rows.clone().step_by(AT_ONCE) {
            let (first, rows) = (start - rows.start, start..rows.end.min(start + AT_ONCE));
            let wanted = |row: usize| open.is_none_or(|open| open.is_set(first + row));
            if open.is_some_and(|open| !open.has_any(first..first + rows.len())) {
                all.extend(&Mask::all(rows.len(), false));
            } else {
                all.extend(&mask(&EvalContext { frame, part, rows, wanted: &wanted })?);
            }
        }
        Ok(all)
    }
}

/// The rows for which the comparison is true, or, unless `wanted`, false.
fn pair_mask(a: &NullableNumbers, operator: Operator, b: &NullableNumbers, len: usize, wanted: bool) -> Mask {
    let holds = |order: Option<Ordering>| match order {
        Some(order) => operator.holds(order),
        // One of them is NaN.
        None => operator == Operator::Ne,
    };
    let mut mask = match (&a.numbers, &b.numbers) {
        (ComputedNumbers::Integers(a), ComputedNumbers::Integers(b)) => {
            Mask::collect(len, |row| holds(a.get(row).zip(b.get(row)).map(|(a, b)| a.cmp(&b))))
        }
        (ComputedNumbers::Floats(a), ComputedNumbers::Floats(b)) => {
            Mask::collect(len, |row| holds(a.get(row).zip(b.get(row)).and_then(|(a, b)| a.partial_cmp(&b))))
        }
        (ComputedNumbers::Integers(a), ComputedNumbers::Floats(b)) => {
            Mask::collect(len, |row| holds(a.get(row).zip(b.get(row)).and_then(|(a, b)| order(a, b))))
        }
        (ComputedNumbers::Floats(a), ComputedNumbers::Integers(b)) => Mask::collect(len, |row| {
            holds(a.get(row).zip(b.get(row)).and_then(|(a, b)| order(b, a)).map(Ordering::reverse))
        }),
    };
    if !wanted {
        mask.flip();
    }
    [&a.valid, &b.valid].into_iter().flatten().for_each(|valid| mask.and(valid));
    mask
}

/// The order of an integer and a float, by value.
#[inline]
fn order(number: i64, float: f64) -> Option<Ordering> {
    match (number as f64).partial_cmp(&float) {
        // The nearest float to an integer may be another number; of 64 bits both are exact in 128.
        Some(Ordering::Equal) => Some(i128::from(number).cmp(&(float as i128))),
        order => order,
    }
}

/// Rows of an array.
type ArrayRows<'a> = (&'a ArrayData, &'a Range<usize>);

fn text_pair_mask(a: ArrayRows<'_>, operator: Operator, b: ArrayRows<'_>, wanted: bool) -> Result<Mask> {
    let (first, second) = (text_of(a.0)?, text_of(b.0)?);
    let mut failed = None;
    let mask = Mask::collect(a.1.len(), |row| {
        match first(a.1.start + row).and_then(|text| Ok((text, second(b.1.start + row)?))) {
            Ok((Some(a), Some(b))) => operator.holds(a.cmp(b)) == wanted,
            Ok(_) => false,
            Err(e) => {
                failed = Some(e);
                false
            }
        }
    });
    failed.map_or(Ok(mask), Err)
}

/// The text or bytes of an array by row; `None` for nulls.
fn text_of<'a>(array: &'a ArrayData) -> Result<impl Fn(usize) -> Result<Option<&'a [u8]>>> {
    let keyed = match array.data_type() {
        DataType::Dictionary(..) => Some(entry_lookup(array)),
        _ => None,
    };
    let values = if keyed.is_some() { dictionary_of(array)? } else { array };
    let texts = Texts::try_new(values)?;
    Ok(move |row: usize| {
        if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let row = keyed.as_ref().map_or(Ok(row), |entry| entry(row))?;
        if texts.is_null(row) { Ok(None) } else { texts.get(row).map(Some) }
    })
}
