//! Prunes rows that a predicate rules out, without reading them.
//!
//! A *zone* has the smallest and the largest value of a column in some consecutive rows, and whether there are nulls
//! and NaN; columns with an index have zones, and a column of a partition, which has one value, is one zone. For each
//! range of rows, the predicate is evaluated with zones instead of values: it yields the outcomes that are possible for
//! a row, and the range is kept if one of them is true.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_schema::DataType;

use super::expression::Expression;
use super::literal::Operator;
use super::predicate::{Predicate, PredicateNode, balanced, too_deep};
use super::value_predicate::{TextMatcher, ValuePredicate};
use crate::array::Value;
use crate::dataset::{ComparableValue, Dataset, SourceSlice, Zone, ZoneBound, Zones};
use crate::error::{Error, Result};
use crate::types::is_ordered;

/// A predicate translated for the columns of partitions, and for those with zones.
enum PruningPredicate {
    /// A test of the column with this number in the dataset.
    Value(usize, ValuePredicate),
    IsNull(usize),
    And(Box<PruningPredicate>, Box<PruningPredicate>),
    Or(Box<PruningPredicate>, Box<PruningPredicate>),
    Not(Box<PruningPredicate>),
    /// A part about which zones tell nothing: any outcome is possible.
    Unknown,
}

/// The outcomes that a condition may have for some rows. The outcome for null is neither.
#[derive(Clone, Copy)]
struct PossibleOutcomes {
    is_true: bool,
    is_false: bool,
}

impl PossibleOutcomes {
    /// Zones rule out nothing.
    const ANY: PossibleOutcomes = PossibleOutcomes { is_true: true, is_false: true };
    /// Neither true nor false, as for nulls.
    const NONE: PossibleOutcomes = PossibleOutcomes { is_true: false, is_false: false };
    const FALSE: PossibleOutcomes = PossibleOutcomes { is_true: false, is_false: true };

    /// Returns the outcome of a test of one value.
    fn of_value(is_true: bool) -> PossibleOutcomes {
        PossibleOutcomes { is_true, is_false: !is_true }
    }

    fn and(self, other: PossibleOutcomes) -> PossibleOutcomes {
        PossibleOutcomes { is_true: self.is_true && other.is_true, is_false: self.is_false || other.is_false }
    }

    fn or(self, other: PossibleOutcomes) -> PossibleOutcomes {
        PossibleOutcomes { is_true: self.is_true || other.is_true, is_false: self.is_false && other.is_false }
    }

    fn negated(self) -> PossibleOutcomes {
        PossibleOutcomes { is_true: self.is_false, is_false: self.is_true }
    }

    /// Returns the outcomes for rows that each belong to one of two groups.
    fn union(self, other: PossibleOutcomes) -> PossibleOutcomes {
        PossibleOutcomes { is_true: self.is_true || other.is_true, is_false: self.is_false || other.is_false }
    }
}

/// Returns the pieces of `dataset` that may have rows for which `predicate` is true, by the columns of partitions.
pub(in crate::compute) fn prune_partitions(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    if dataset.pieces().iter().all(|piece| piece.source.constants().is_empty()) {
        return Ok(dataset.clone());
    }
    let predicate = PruningPredicate::bind(dataset, &predicate.node)?;
    let mut pieces = Vec::with_capacity(dataset.pieces().len());
    for piece in dataset.pieces() {
        let zones = constant_zones(dataset, piece)?;
        if predicate.possible(&|column: usize| zones.get(column)?.as_ref()).is_true {
            pieces.push(piece.clone());
        }
    }
    if pieces.len() == dataset.pieces().len() {
        return Ok(dataset.clone());
    }
    Ok(Dataset::from_slices(dataset.schema().clone(), pieces))
}

/// Returns the blocks of `dataset` that may have rows for which `predicate` is true.
pub(in crate::compute) fn prune_blocks(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    let predicate = PruningPredicate::bind(dataset, &predicate.node)?;
    let mut columns = Vec::new();
    predicate.add_columns(&mut columns);
    if !dataset.pieces().iter().any(|piece| has_zones(piece, &columns)) {
        return Ok(dataset.clone());
    }
    let mut pieces = Vec::with_capacity(dataset.pieces().len());
    let mut is_whole = true;
    for piece in dataset.pieces() {
        match prune_piece(dataset, piece, &predicate, &columns)? {
            Some(blocks) => {
                is_whole = false;
                pieces.extend(blocks);
            }
            None => pieces.push(piece.clone()),
        }
    }
    if is_whole {
        return Ok(dataset.clone());
    }
    Ok(Dataset::from_slices(dataset.schema().clone(), pieces))
}

/// Returns true if one of the dataset's columns `columns` has zones in the piece.
fn has_zones(piece: &SourceSlice, columns: &[usize]) -> bool {
    columns.iter().any(|&column| piece.source.has_zones(piece.columns[column]))
}

/// Returns the parts of a piece that may have rows for which a predicate on `columns` is true; `None` if that is all of
/// it, or if none of the columns has zones.
fn prune_piece(
    dataset: &Dataset,
    piece: &SourceSlice,
    predicate: &PruningPredicate,
    columns: &[usize],
) -> Result<Option<Vec<SourceSlice>>> {
    if !has_zones(piece, columns) {
        return Ok(None);
    }

    let constants = constant_zones(dataset, piece)?;
    let mut zones: Vec<Option<Zones>> = vec![None; dataset.num_columns()];
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut is_whole = true;
    for part in piece.parts() {
        let part = part?;
        for &column in columns {
            zones[column] = piece.source.zones(part.batch, piece.columns[column])?;
        }
        let Some(span) = piece.source.span(part.batch)? else {
            return Err(Error::internal("a piece has a batch that its source has not"));
        };

        let mut row = part.rows.start as u64;
        let part_end = part.rows.end as u64;
        while row < part_end {
            // The zones of the columns may end at different rows: take the rows up to the first end.
            let mut end = part_end;
            for &column in columns {
                if let Some((_, zone_end)) = zones[column].as_ref().and_then(|zones| zones.at(row)) {
                    end = end.min(zone_end);
                }
            }
            let end = end.max(row + 1);
            let may_be_true = predicate
                .possible(&|column: usize| match zones.get(column)?.as_ref().and_then(|zones| zones.at(row)) {
                    Some((zone, _)) => Some(zone),
                    None => constants.get(column)?.as_ref(),
                })
                .is_true;
            if may_be_true {
                let rows = span.start + row..span.start + end;
                match ranges.last_mut() {
                    Some(last) if last.end == rows.start => last.end = rows.end,
                    _ => ranges.push(rows),
                }
            } else {
                is_whole = false;
            }
            row = end;
        }
    }
    if is_whole {
        return Ok(None);
    }

    debug_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "ranges out of order: {ranges:?}");
    let mut blocks = Vec::with_capacity(ranges.len());
    for rows in ranges {
        blocks.push(SourceSlice { start: rows.start, rows: Some(rows.end - rows.start), ..piece.clone() });
    }
    Ok(Some(blocks))
}

impl PruningPredicate {
    fn bind(dataset: &Dataset, node: &PredicateNode) -> Result<PruningPredicate> {
        Ok(match node {
            PredicateNode::And(chain) => {
                balanced(&chain.parts(), &|part| PruningPredicate::bind(dataset, part), PruningPredicate::And)?
            }
            PredicateNode::Or(chain) => {
                balanced(&chain.parts(), &|part| PruningPredicate::bind(dataset, part), PruningPredicate::Or)?
            }
            PredicateNode::Not(inner) => PruningPredicate::Not(PruningPredicate::bind(dataset, inner)?.into()),
            PredicateNode::TooDeep => return Err(too_deep()),
            PredicateNode::Compare(tested, operator, _) if operator.is_order() && has_categories(dataset, tested)? => {
                PruningPredicate::Unknown
            }
            PredicateNode::Compare(tested, operator, literal) => {
                PruningPredicate::bind_test(dataset, tested, |name, data_type| {
                    ValuePredicate::for_comparison(name, data_type, *operator, literal)
                })?
            }
            PredicateNode::IsIn(tested, literals) => {
                PruningPredicate::bind_test(dataset, tested, |name, data_type| {
                    ValuePredicate::for_any(name, data_type, literals)
                })?
            }
            PredicateNode::Matches(tested, kind, text) => {
                PruningPredicate::bind_test(dataset, tested, |name, data_type| {
                    ValuePredicate::for_text_match(name, data_type, *kind, text)
                })?
            }
            PredicateNode::IsNull(tested) => match tested.name() {
                Some(name) => PruningPredicate::IsNull(dataset.index_of(name)?),
                None => PruningPredicate::Unknown,
            },
            PredicateNode::Pair(..) => PruningPredicate::Unknown,
        })
    }

    /// Binds a test of a column, which `test` creates for its name and type. The outcome is unknown if `tested` is no
    /// column, or can't be tested like that: the error is reported when values are compared.
    fn bind_test(
        dataset: &Dataset,
        tested: &Expression,
        test: impl Fn(&str, &DataType) -> Result<ValuePredicate>,
    ) -> Result<PruningPredicate> {
        let Some(name) = tested.name() else { return Ok(PruningPredicate::Unknown) };
        let column = dataset.index_of(name)?;
        match test(name, dataset.schema().field(column).data_type()) {
            Ok(test) => Ok(PruningPredicate::Value(column, test)),
            Err(_) => Ok(PruningPredicate::Unknown),
        }
    }

    /// Adds the columns that the predicate tests.
    fn add_columns(&self, columns: &mut Vec<usize>) {
        match self {
            PruningPredicate::Value(column, _) | PruningPredicate::IsNull(column) => columns.push(*column),
            PruningPredicate::And(a, b) | PruningPredicate::Or(a, b) => {
                a.add_columns(columns);
                b.add_columns(columns);
            }
            PruningPredicate::Not(inner) => inner.add_columns(columns),
            PruningPredicate::Unknown => (),
        }
    }

    /// Returns the possible outcomes for some rows. `zone` returns the zone of a column for these rows, if there is
    /// one.
    fn possible<'a>(&self, zone: &dyn Fn(usize) -> Option<&'a Zone>) -> PossibleOutcomes {
        match self {
            PruningPredicate::And(a, b) => a.possible(zone).and(b.possible(zone)),
            PruningPredicate::Or(a, b) => a.possible(zone).or(b.possible(zone)),
            PruningPredicate::Not(inner) => inner.possible(zone).negated(),
            PruningPredicate::Unknown => PossibleOutcomes::ANY,
            PruningPredicate::Value(column, test) => match zone(*column) {
                Some(zone) => zone_outcomes(test, zone),
                None => PossibleOutcomes::ANY,
            },
            PruningPredicate::IsNull(column) => match zone(*column) {
                Some(zone) => {
                    PossibleOutcomes { is_true: zone.nulls > 0, is_false: zone.has_nan || zone.bounds.is_some() }
                }
                None => PossibleOutcomes::ANY,
            },
        }
    }
}

/// Returns true for a column of ordered categories, whose order differs from the order of the bounds of zones.
fn has_categories(dataset: &Dataset, tested: &Expression) -> Result<bool> {
    let Some(name) = tested.name() else { return Ok(false) };
    let column = dataset.index_of(name)?;
    Ok(is_ordered(dataset.schema().field(column)))
}

/// Returns the possible outcomes of a test for the values of a zone. The outcome for nulls is neither.
fn zone_outcomes(test: &ValuePredicate, zone: &Zone) -> PossibleOutcomes {
    let mut outcomes = PossibleOutcomes::NONE;
    if let Some(bounds) = &zone.bounds {
        outcomes = outcomes.union(bounds_outcomes(test, bounds));
    }
    if zone.has_nan {
        outcomes = outcomes.union(PossibleOutcomes::of_value(test.holds(&Value::Float64(f64::NAN))));
    }
    outcomes
}

/// Returns the possible outcomes of a test for values between a smallest and a largest one.
fn bounds_outcomes(test: &ValuePredicate, bounds: &(ZoneBound, ZoneBound)) -> PossibleOutcomes {
    let (min, max) = bounds;
    match test {
        ValuePredicate::Unknown => PossibleOutcomes::NONE,
        ValuePredicate::Never => PossibleOutcomes::FALSE,
        ValuePredicate::Not(test) => bounds_outcomes(test, bounds).negated(),
        ValuePredicate::Any(tests) => {
            tests.iter().map(|test| bounds_outcomes(test, bounds)).fold(PossibleOutcomes::FALSE, PossibleOutcomes::or)
        }
        ValuePredicate::Integers(numbers) => match (digits(&min.key), digits(&max.key)) {
            (Some(min), Some(max)) => set_outcomes(numbers, min, max),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::OneOfFloats(numbers) => match (&min.key, &max.key) {
            (ComparableValue::Float(min), ComparableValue::Float(max)) => set_outcomes(numbers, *min, *max),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::Range(low, high) => match (digits(&min.key), digits(&max.key)) {
            (Some(min), Some(max)) => range_outcomes((*low, *high), (min, max)),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::Floats(low, high) => match (&min.key, &max.key) {
            (ComparableValue::Float(min), ComparableValue::Float(max)) => range_outcomes((*low, *high), (*min, *max)),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::Text(operator, text) => match (&min.key, &max.key) {
            (ComparableValue::Bytes(_), ComparableValue::Bytes(_)) => text_outcomes(*operator, text, min, max),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::Texts(texts) => match (&min.key, &max.key) {
            (ComparableValue::Bytes(_), ComparableValue::Bytes(_)) => texts
                .iter()
                .map(|text| text_outcomes(Operator::Eq, text, min, max))
                .fold(PossibleOutcomes::FALSE, PossibleOutcomes::or),
            _ => PossibleOutcomes::ANY,
        },
        ValuePredicate::Matches(test) => match_outcomes(test, bounds),
    }
}

/// Returns the possible outcomes of a match for texts between a smallest and a largest one.
fn match_outcomes(test: &TextMatcher, (min, max): &(ZoneBound, ZoneBound)) -> PossibleOutcomes {
    let (ComparableValue::Bytes(first), ComparableValue::Bytes(last)) = (&min.key, &max.key) else {
        return PossibleOutcomes::ANY;
    };
    // All texts are the same.
    if first == last && !min.is_cut && !max.is_cut {
        return PossibleOutcomes::of_value(test.holds(first));
    }
    let TextMatcher::StartsWith(text) = test else { return PossibleOutcomes::ANY };
    // Texts with a prefix come behind the prefix, and before the next text of its length.
    let is_before = match next_text(text) {
        Some(next) => text_outcomes(Operator::Lt, &next, min, max).is_true,
        None => true,
    };
    PossibleOutcomes { is_true: is_before && text_outcomes(Operator::Ge, text, min, max).is_true, is_false: true }
}

/// Returns the first text behind all texts that start with `text`, if there is one.
fn next_text(text: &[u8]) -> Option<Vec<u8>> {
    let last = text.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut next = text[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// Returns the integer, or the digits of the decimal, that bounds a zone; `None` for other bounds.
fn digits(key: &ComparableValue) -> Option<arrow_buffer::i256> {
    match key {
        ComparableValue::Int(number) => Some(arrow_buffer::i256::from_i128(*number)),
        ComparableValue::Decimal(digits) => Some(*digits),
        ComparableValue::Float(_) | ComparableValue::Bytes(_) => None,
    }
}

/// Returns whether values from `min` to `max` may be in the range, and whether they may be outside of it.
fn range_outcomes<T: PartialOrd>((low, high): (T, T), (min, max): (T, T)) -> PossibleOutcomes {
    PossibleOutcomes { is_true: low <= high && low <= max && min <= high, is_false: min < low || max > high }
}

/// Returns whether values from `min` to `max` may be among `numbers`, which are in order, and whether they may be
/// others.
fn set_outcomes<T: PartialOrd + Copy>(numbers: &[T], min: T, max: T) -> PossibleOutcomes {
    debug_assert!(numbers.is_sorted());
    let first = numbers.get(numbers.partition_point(|number| *number < min));
    PossibleOutcomes { is_true: first.is_some_and(|first| *first <= max), is_false: min < max || first != Some(&min) }
}

/// Returns the possible outcomes of a comparison with `text` for texts between a smallest and a largest one.
fn text_outcomes(operator: Operator, text: &[u8], min: &ZoneBound, max: &ZoneBound) -> PossibleOutcomes {
    PossibleOutcomes {
        is_true: may_hold(operator, text, min, max),
        is_false: may_hold(operator.negated(), text, min, max),
    }
}

/// Returns true if a comparison with `text` may be true for a text between `min` and `max`.
fn may_hold(operator: Operator, text: &[u8], min: &ZoneBound, max: &ZoneBound) -> bool {
    match operator {
        Operator::Lt => possible_orders(min, text).contains(&Ordering::Less),
        Operator::Le => possible_orders(min, text).iter().any(|order| order.is_le()),
        Operator::Gt => possible_orders(max, text).contains(&Ordering::Greater),
        Operator::Ge => possible_orders(max, text).iter().any(|order| order.is_ge()),
        Operator::Eq => may_hold(Operator::Le, text, min, max) && may_hold(Operator::Ge, text, min, max),
        Operator::Ne => [min, max].into_iter().any(|bound| possible_orders(bound, text) != [Ordering::Equal]),
    }
}

/// Returns the possible orders of a bound and a text. Only the beginning of the bound may be known.
fn possible_orders(bound: &ZoneBound, text: &[u8]) -> &'static [Ordering] {
    const ANY: &[Ordering] = &[Ordering::Less, Ordering::Equal, Ordering::Greater];
    let ComparableValue::Bytes(start) = &bound.key else { return ANY };
    if !bound.is_cut {
        return match start.as_slice().cmp(text) {
            Ordering::Less => &[Ordering::Less],
            Ordering::Equal => &[Ordering::Equal],
            Ordering::Greater => &[Ordering::Greater],
        };
    }
    // The bound has at least one more byte, of any value, than its known start.
    match start.as_slice().cmp(&text[..text.len().min(start.len())]) {
        Ordering::Less => &[Ordering::Less],
        Ordering::Greater => &[Ordering::Greater],
        Ordering::Equal if text.len() <= start.len() => &[Ordering::Greater],
        Ordering::Equal => ANY,
    }
}

/// Returns zones for the columns of the dataset that have one value in the piece; `None` for other columns.
fn constant_zones(dataset: &Dataset, piece: &SourceSlice) -> Result<Vec<Option<Zone>>> {
    if piece.source.constants().is_empty() {
        return Ok(Vec::new());
    }
    let mut zones = Vec::with_capacity(dataset.num_columns());
    for &column in piece.columns.iter() {
        zones.push(match piece.source.constant(column) {
            Some(constant) => Zone::from_value(&constant.value()?),
            None => None,
        });
    }
    assert!(zones.len() == dataset.num_columns(), "{} of {} columns", zones.len(), dataset.num_columns());
    Ok(zones)
}
