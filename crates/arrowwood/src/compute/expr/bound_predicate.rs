//! Binds predicates to a dataset's columns, and finds the rows for which they are true.
//!
//! A predicate is true, false or unknown for a row. Negation exchanges true and false and leaves unknown as it is, so
//! the evaluator does not negate bitmaps: it is asked for the rows of one [`Outcome`], and a negated predicate for
//! those of the other.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::bound_expression::{AT_ONCE, BoundExpression, EvalContext, NullableNumbers, unsupported};
use super::compare_categories::comparison_predicate;
use super::compare_kernels::{Outcome, test_rows};
use super::computed::{ComputedNumbers, ScalarOrVec};
use super::expression::Expression;
use super::literal::Operator;
use super::predicate::{Predicate, PredicateNode, balanced, too_deep};
use super::value_predicate::ValuePredicate;
use crate::array::access::{Texts, dictionary_of, entry_lookup};
use crate::compute::scan::Frame;
use crate::compute::selection::{Mask, RowSet, valid_mask};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::types::layout::is_text;
use crate::types::{is_ordered, is_text_or_binary, type_name};

/// A predicate on a dataset's columns, which have numbers instead of names.
#[derive(Debug)]
pub(in crate::compute) enum BoundPredicate {
    /// A test of the values of a column.
    Value(usize, ValuePredicate),
    /// True where a column is null.
    IsNull(usize),
    /// A test of the results of an expression.
    Computed(Box<BoundExpression>, ValuePredicate),
    /// True where an expression is null.
    ComputedIsNull(Box<BoundExpression>),
    /// A comparison of the results of two expressions.
    Pair(Box<BoundExpression>, Operator, Box<BoundExpression>),
    /// A comparison of two columns of text or bytes.
    TextPair(usize, Operator, usize),
    /// A set of rows that was computed before.
    Rows(Arc<RowSet>),
    And(Box<BoundPredicate>, Box<BoundPredicate>),
    Or(Box<BoundPredicate>, Box<BoundPredicate>),
    Not(Box<BoundPredicate>),
}

/// Translates the names of columns in predicates to the numbers that columns have in a dataset.
struct Binder<'a> {
    dataset: &'a Dataset,
}

impl BoundPredicate {
    /// Binds a predicate to the columns of `dataset`.
    ///
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` for values that can't be compared with the column; `Unsupported` for
    /// computations that are not supported.
    pub(in crate::compute) fn bind(predicate: &Predicate, dataset: &Dataset) -> Result<BoundPredicate> {
        Binder { dataset }.bind(&predicate.node)
    }
}

impl Binder<'_> {
    fn column(&self, name: &str) -> Result<(usize, &DataType)> {
        let column = self.dataset.index_of(name)?;
        Ok((column, self.dataset.schema().field(column).data_type()))
    }

    fn bind_expression(&self, expression: &Expression) -> Result<Box<BoundExpression>> {
        BoundExpression::bind(expression, self.dataset.schema(), &|name| self.dataset.index_of(name)).map(Box::new)
    }

    fn bind(&self, node: &PredicateNode) -> Result<BoundPredicate> {
        Ok(match node {
            PredicateNode::Compare(tested, operator, literal) => match tested.name() {
                Some(name) => {
                    let column = self.dataset.index_of(name)?;
                    BoundPredicate::Value(
                        column,
                        comparison_predicate(self.dataset, (column, name), *operator, literal)?,
                    )
                }
                None => self.bind_test(tested, |name, data_type| {
                    ValuePredicate::for_comparison(name, data_type, *operator, literal)
                })?,
            },
            PredicateNode::IsIn(tested, literals) => {
                self.bind_test(tested, |name, data_type| ValuePredicate::for_any(name, data_type, literals))?
            }
            PredicateNode::IsNull(tested) => match tested.name() {
                Some(name) => BoundPredicate::IsNull(self.column(name)?.0),
                None => BoundPredicate::ComputedIsNull(self.bind_expression(tested)?),
            },
            PredicateNode::Matches(tested, kind, text) => {
                let Some(name) = tested.name() else {
                    return Err(unsupported(&format!("{tested} is no column of text")));
                };
                let (column, data_type) = self.column(name)?;
                BoundPredicate::Value(column, ValuePredicate::for_text_match(name, data_type, *kind, text)?)
            }
            PredicateNode::Pair(a, operator, b) => self.bind_pair(a, *operator, b)?,
            PredicateNode::And(chain) => balanced(&chain.parts(), &|part| self.bind(part), BoundPredicate::And)?,
            PredicateNode::Or(chain) => balanced(&chain.parts(), &|part| self.bind(part), BoundPredicate::Or)?,
            PredicateNode::Not(inner) => BoundPredicate::Not(self.bind(inner)?.into()),
            PredicateNode::TooDeep => return Err(too_deep()),
        })
    }

    /// Binds a test of a column or an expression, which `test` creates for its name and type.
    fn bind_test(
        &self,
        tested: &Expression,
        test: impl Fn(&str, &DataType) -> Result<ValuePredicate>,
    ) -> Result<BoundPredicate> {
        if let Some(name) = tested.name() {
            let (column, data_type) = self.column(name)?;
            return Ok(BoundPredicate::Value(column, test(name, data_type)?));
        }
        let expression = self.bind_expression(tested)?;
        let test = test(expression.shown(), &expression.data_type())?;
        Ok(BoundPredicate::Computed(expression, test))
    }

    fn bind_pair(&self, a: &Expression, operator: Operator, b: &Expression) -> Result<BoundPredicate> {
        match (a.name(), b.name()) {
            (Some(a_name), Some(b_name)) => match self.bind_column_pair(a_name, operator, b_name)? {
                Some(predicate) => Ok(predicate),
                None => Ok(BoundPredicate::Pair(self.bind_expression(a)?, operator, self.bind_expression(b)?)),
            },
            _ => Ok(BoundPredicate::Pair(self.bind_expression(a)?, operator, self.bind_expression(b)?)),
        }
    }

    /// Binds a comparison of two columns; `None` if they are compared like other expressions.
    fn bind_column_pair(&self, a: &str, operator: Operator, b: &str) -> Result<Option<BoundPredicate>> {
        let (a_column, a_type) = self.column(a)?;
        let (b_column, b_type) = self.column(b)?;
        let fields = self.dataset.schema().fields();
        if operator.is_order() && (is_ordered(&fields[a_column]) || is_ordered(&fields[b_column])) {
            return Err(unsupported(&format!("the ordered categories of '{a}' and '{b}' can't be compared")));
        }
        let a_values = value_type(a_type);
        let b_values = value_type(b_type);
        if is_text_or_binary(a_values) && is_text_or_binary(b_values) && is_text(a_values) == is_text(b_values) {
            return Ok(Some(BoundPredicate::TextPair(a_column, operator, b_column)));
        }
        if *a_values == DataType::UInt64 && *b_values == DataType::UInt64 {
            let a = BoundExpression::ordered(a_column, a);
            let b = BoundExpression::ordered(b_column, b);
            return Ok(Some(BoundPredicate::Pair(a.into(), operator, b.into())));
        }
        if a_values == b_values && is_stored_as_integers(a_values) {
            let a = BoundExpression::raw(a_column, a);
            let b = BoundExpression::raw(b_column, b);
            return Ok(Some(BoundPredicate::Pair(a.into(), operator, b.into())));
        }
        if !a_values.is_numeric() || !b_values.is_numeric() {
            let (a_type, b_type) = (type_name(a_type), type_name(b_type));
            return Err(unsupported(&format!(
                "columns '{a}' of type {a_type} and '{b}' of type {b_type} can't be compared"
            )));
        }
        Ok(None)
    }
}

/// Returns the type of a column's values, or of its dictionary's values.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Returns true if values of the type are compared as the integers that are stored for them.
fn is_stored_as_integers(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
        || matches!(data_type, Decimal32(..) | Decimal64(..))
}

impl BoundPredicate {
    /// Returns the rows among `rows` of batch `part` for which the predicate is true.
    pub(in crate::compute) fn mask(&self, frame: &Frame<'_>, part: usize, rows: &Range<usize>) -> Result<Mask> {
        PredicateEvaluator { frame, part, rows, open: None }.mask(self, Outcome::True)
    }
}

/// Evaluates predicates for some rows of a batch.
struct PredicateEvaluator<'c, 'a> {
    frame: &'c Frame<'a>,
    part: usize,
    rows: &'c Range<usize>,
    /// The rows that an outer condition has not decided about; `None` for all rows. The bits of other rows are
    /// arbitrary, and an overflow in them is no error.
    open: Option<&'c Mask>,
}

impl PredicateEvaluator<'_, '_> {
    /// Returns the rows for which the condition has the outcome `wanted`.
    fn mask(&self, condition: &BoundPredicate, wanted: Outcome) -> Result<Mask> {
        let PredicateEvaluator { frame, part, rows, .. } = *self;
        match condition {
            BoundPredicate::Value(column, test) => {
                let (array, rows) = frame.checked_rows(part, *column, rows)?;
                test_rows(&array, &rows, test, wanted)
            }
            BoundPredicate::IsNull(column) => {
                let (array, rows) = frame.checked_rows(part, *column, rows)?;
                null_test(&array, &rows, wanted)
            }
            BoundPredicate::Computed(expression, test) => self.mask_in_steps(|step| {
                let array = expression.array(step)?;
                test_rows(&array, &(0..array.len()), test, wanted)
            }),
            BoundPredicate::ComputedIsNull(expression) => self.mask_in_steps(|step| {
                let array = expression.array(step)?;
                null_test(&array, &(0..array.len()), wanted)
            }),
            BoundPredicate::Pair(a, operator, b) => self.mask_in_steps(|step| {
                Ok(pair_mask(&a.evaluate(step)?, *operator, &b.evaluate(step)?, step.rows.len(), wanted))
            }),
            BoundPredicate::TextPair(a, operator, b) => {
                let a = frame.checked_rows(part, *a, rows)?;
                let b = frame.checked_rows(part, *b, rows)?;
                text_pair_mask((&a.0, &a.1), *operator, (&b.0, &b.1), wanted)
            }
            BoundPredicate::Rows(set) => {
                let start = frame.row_number(part, rows.start);
                let mut mask = set.mask(start..start + rows.len() as u64);
                if wanted == Outcome::False {
                    mask.flip();
                }
                Ok(mask)
            }
            // `a & b` is true where both are, and false where one is; `a | b` is the other way round.
            BoundPredicate::And(a, b) => match wanted {
                Outcome::True => self.rows_of_both(a, b, wanted),
                Outcome::False => self.rows_of_either(a, b, wanted),
            },
            BoundPredicate::Or(a, b) => match wanted {
                Outcome::True => self.rows_of_either(a, b, wanted),
                Outcome::False => self.rows_of_both(a, b, wanted),
            },
            BoundPredicate::Not(a) => self.mask(a, wanted.negated()),
        }
    }

    /// Returns the rows for which both predicates have the outcome `wanted`. The second is evaluated only for rows that
    /// the first leaves open.
    fn rows_of_both(&self, a: &BoundPredicate, b: &BoundPredicate, wanted: Outcome) -> Result<Mask> {
        let mut mask = self.mask(a, wanted)?;
        let other = self.mask_of_open(mask.clone(), b, wanted)?;
        mask.and(&other);
        Ok(mask)
    }

    /// Returns the rows for which one of the predicates, or both, have the outcome `wanted`. The second is evaluated
    /// only for rows that the first leaves open.
    fn rows_of_either(&self, a: &BoundPredicate, b: &BoundPredicate, wanted: Outcome) -> Result<Mask> {
        let mut mask = self.mask(a, wanted)?;
        let mut open = mask.clone();
        open.flip();
        let other = self.mask_of_open(open, b, wanted)?;
        mask.or(&other);
        Ok(mask)
    }

    /// Evaluates a condition for the rows `open`, as far as outer conditions have not decided about them.
    fn mask_of_open(&self, mut open: Mask, condition: &BoundPredicate, wanted: Outcome) -> Result<Mask> {
        if let Some(outer) = self.open {
            open.and(outer);
        }
        PredicateEvaluator { open: Some(&open), ..*self }.mask(condition, wanted)
    }

    /// Evaluates `mask` for a few thousand rows at a time. In steps without open rows it is not called, and no bit is
    /// set.
    fn mask_in_steps(&self, mask: impl Fn(&EvalContext<'_, '_>) -> Result<Mask>) -> Result<Mask> {
        let PredicateEvaluator { frame, part, rows, open } = *self;
        let mut all = Mask::all(0, false);
        for start in rows.clone().step_by(AT_ONCE) {
            let first = start - rows.start;
            let rows = start..rows.end.min(start + AT_ONCE);
            let len = rows.len();
            let step_mask = match open {
                Some(open) if !open.has_any(first..first + len) => Mask::all(len, false),
                Some(open) => mask(&EvalContext { frame, part, rows, wanted: &|row| open.is_set(first + row) })?,
                None => mask(&EvalContext { frame, part, rows, wanted: &|_| true })?,
            };
            assert!(step_mask.len() == len, "{} bits for {len} rows", step_mask.len());
            all.extend(&step_mask);
        }
        Ok(all)
    }
}

/// Returns the rows for which the test for null has the outcome `wanted`. The test is never unknown.
fn null_test(array: &ArrayData, rows: &Range<usize>, wanted: Outcome) -> Result<Mask> {
    let mut mask = valid_mask(array, rows)?;
    if wanted == Outcome::True {
        mask.flip();
    }
    Ok(mask)
}

/// Returns the rows among `len` for which the comparison has the outcome `wanted`.
fn pair_mask(a: &NullableNumbers, operator: Operator, b: &NullableNumbers, len: usize, wanted: Outcome) -> Mask {
    let mut mask = match (&a.numbers, &b.numbers) {
        (ComputedNumbers::Integers(a), ComputedNumbers::Integers(b)) => {
            compare_numbers(a, operator, b, len, |a, b| Some(a.cmp(&b)))
        }
        (ComputedNumbers::Floats(a), ComputedNumbers::Floats(b)) => {
            compare_numbers(a, operator, b, len, |a, b| a.partial_cmp(&b))
        }
        (ComputedNumbers::Integers(a), ComputedNumbers::Floats(b)) => {
            compare_numbers(a, operator, b, len, compare_with_float)
        }
        (ComputedNumbers::Floats(a), ComputedNumbers::Integers(b)) => {
            compare_numbers(a, operator, b, len, |a, b| compare_with_float(b, a).map(Ordering::reverse))
        }
    };
    if wanted == Outcome::False {
        mask.flip();
    }
    for valid in [&a.valid, &b.valid].into_iter().flatten() {
        mask.and(valid);
    }
    mask
}

/// Returns the rows for which the comparison is true. `compare` returns `None` for NaN.
#[inline]
fn compare_numbers<A: Copy, B: Copy>(
    a: &ScalarOrVec<A>,
    operator: Operator,
    b: &ScalarOrVec<B>,
    len: usize,
    compare: impl Fn(A, B) -> Option<Ordering>,
) -> Mask {
    Mask::collect(len, |row| match a.get(row).zip(b.get(row)).and_then(|(a, b)| compare(a, b)) {
        Some(order) => operator.holds(order),
        None => operator == Operator::Ne,
    })
}

/// Compares an integer with a float, by value; `None` for NaN.
#[inline]
fn compare_with_float(number: i64, float: f64) -> Option<Ordering> {
    match (number as f64).partial_cmp(&float) {
        // The nearest float to an integer may be another number. Both are exact in 128 bits.
        Some(Ordering::Equal) => Some(i128::from(number).cmp(&(float as i128))),
        order => order,
    }
}

/// Rows of an array.
type ArrayRows<'a> = (&'a ArrayData, &'a Range<usize>);

/// Returns the rows for which the comparison of texts has the outcome `wanted`.
fn text_pair_mask(a: ArrayRows<'_>, operator: Operator, b: ArrayRows<'_>, wanted: Outcome) -> Result<Mask> {
    let (a_array, a_rows) = a;
    let (b_array, b_rows) = b;
    assert!(a_rows.len() == b_rows.len(), "{} rows are compared with {}", a_rows.len(), b_rows.len());
    let a_text = text_lookup(a_array)?;
    let b_text = text_lookup(b_array)?;
    let mut mask = Mask::all(a_rows.len(), false);
    for (row, (a_row, b_row)) in a_rows.clone().zip(b_rows.clone()).enumerate() {
        if let (Some(a), Some(b)) = (a_text(a_row)?, b_text(b_row)?)
            && operator.holds(a.cmp(b)) == (wanted == Outcome::True)
        {
            mask.set(row);
        }
    }
    Ok(mask)
}

/// Returns a function that looks up the text or bytes of a row of an array; `None` for nulls.
fn text_lookup<'a>(array: &'a ArrayData) -> Result<impl Fn(usize) -> Result<Option<&'a [u8]>>> {
    let (entry, values) = match array.data_type() {
        DataType::Dictionary(..) => (Some(entry_lookup(array)), dictionary_of(array)?),
        _ => (None, array),
    };
    let texts = Texts::try_new(values)?;
    Ok(move |row: usize| {
        if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let row = match &entry {
            Some(entry) => entry(row)?,
            None => row,
        };
        if texts.is_null(row) { Ok(None) } else { texts.get(row).map(Some) }
    })
}
