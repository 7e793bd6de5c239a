//! Rows that a predicate leaves out without a look at them: those of partitions whose columns with one value make it false
//! or unknown, and of blocks whose zones do.

use std::ops::Range;

use arrow_schema::DataType;

use super::compare::{TextMatcher, ValuePredicate};
use super::expression::Expression;
use super::literal::Operator;
use super::predicate::{Predicate, PredicateNode, balanced, too_deep};
use crate::array::Value;
use crate::dataset::{ComparableValue, ConstantColumn, Dataset, SourceSlice, Zone, ZoneBound, Zones};
use crate::error::{Error, Result};
use crate::types::is_ordered;

/// A predicate translated for the columns of partitions, and for those with zones.
enum PruningPredicate {
    /// The test of the column with this number in the dataset.
    Value(usize, ValuePredicate),
    IsNull(usize),
    And(Box<PruningPredicate>, Box<PruningPredicate>),
    Or(Box<PruningPredicate>, Box<PruningPredicate>),
    Not(Box<PruningPredicate>),
    Unknown,
}

/// What a condition may be for some rows. For null it is neither.
#[derive(Clone, Copy)]
struct PossibleOutcomes {
    is_true: bool,
    is_false: bool,
}

const ANYTHING: PossibleOutcomes = PossibleOutcomes { is_true: true, is_false: true };

/// The pieces of `dataset` that may have rows for which `predicate` is true, by the columns of partitions.
pub(super) fn pruned(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    if dataset.pieces().iter().all(|piece| piece.source.constants().is_empty()) {
        return Ok(dataset.clone());
    }
    let sieve = PruningPredicate::bind(dataset, &predicate.0)?;
    let mut kept = Vec::with_capacity(dataset.pieces().len());
    for piece in dataset.pieces() {
        let zones = constants(dataset, piece)?;
        if sieve.possible(&|column: usize| zones.get(column)?.as_ref()).is_true {
            kept.push(piece.clone());
        }
    }
    if kept.len() == dataset.pieces().len() {
        return Ok(dataset.clone());
    }
    Ok(Dataset::from_slices(dataset.schema().clone(), kept))
}

/// The blocks of `dataset` that may have rows for which `predicate` is true.
pub(super) fn pruned_blocks(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    let sieve = PruningPredicate::bind(dataset, &predicate.0)?;
    let mut columns = Vec::new();
    sieve.columns(&mut columns);
    let has_zones = |piece: &SourceSlice| columns.iter().any(|&column| piece.source.has_zones(piece.columns[column]));
    if !dataset.pieces().iter().any(has_zones) {
        return Ok(dataset.clone());
    }
    let mut kept = Vec::with_capacity(dataset.pieces().len());
    let mut is_whole = true;
    for piece in dataset.pieces() {
        match if has_zones(piece) { blocks_of(dataset, piece, (&sieve, &columns))? } else { None } {
            Some(blocks) => {
                is_whole = false;
                kept.extend(blocks);
            }
            None => kept.push(piece.clone()),
        }
    }
    if is_whole {
        return Ok(dataset.clone());
    }
    Ok(Dataset::from_slices(dataset.schema().clone(), kept))
}

/// The parts of a piece that may have rows; `None` if that is all of it.
fn blocks_of(
    dataset: &Dataset,
    piece: &SourceSlice,
    (sieve, columns): (&PruningPredicate, &[usize]),
) -> Result<Option<Vec<SourceSlice>>> {
    let constants = constants(dataset, piece)?;
    let mut zones: Vec<Option<Zones>> = vec![None; dataset.num_columns()];
    let mut kept: Vec<Range<u64>> = Vec::new();
    let mut is_whole = true;
    for part in piece.parts() {
        let part = part?;
        for &column in columns {
            zones[column] = piece.source.zones(part.batch, piece.columns[column])?;
        }
        let batch = piece.source.span(part.batch)?.map_or(0, |span| span.start);
        let mut row = part.rows.start as u64;
        let last = part.rows.end as u64;
        while row < last {
            let of = |column: usize| zones.get(column)?.as_ref()?.at(row);
            let end = columns.iter().filter_map(|&column| of(column)).map(|(_, end)| end).min();
            let end = end.unwrap_or(last).clamp(row + 1, last);
            let zone = |column: usize| of(column).map(|(zone, _)| zone).or_else(|| constants.get(column)?.as_ref());
            let may_be = sieve.possible(&zone).is_true;
            is_whole &= may_be;
            match kept.last_mut().filter(|last| last.end == batch + row) {
                Some(last) if may_be => last.end = batch + end,
                _ if may_be => kept.push(batch + row..batch + end),
                _ => (),
            }
            row = end;
        }
    }
    let cut = |rows: Range<u64>| SourceSlice { start: rows.start, rows: Some(rows.end - rows.start), ..piece.clone() };
    Ok((!is_whole).then(|| kept.into_iter().map(cut).collect()))
}

impl PruningPredicate {
    fn bind(dataset: &Dataset, node: &PredicateNode) -> Result<PruningPredicate> {
        let sieve = |node: &PredicateNode| PruningPredicate::bind(dataset, node);
        let column = |name: &str| -> Result<(usize, &DataType)> {
            let number = dataset.index_of(name)?;
            Ok((number, dataset.schema().field(number).data_type()))
        };
        let test = |of: &Expression, test: &dyn Fn(&str, &DataType) -> Result<ValuePredicate>| {
            let Some(name) = of.name() else { return Ok(PruningPredicate::Unknown) };
            let (number, data_type) = column(name)?;
            Ok::<_, Error>(
                test(name, data_type).map_or(PruningPredicate::Unknown, |test| PruningPredicate::Value(number, test)),
            )
        };
        Ok(match node {
            PredicateNode::And(chain) => balanced(&chain.parts(), &sieve, PruningPredicate::And)?,
            PredicateNode::Or(chain) => balanced(&chain.parts(), &sieve, PruningPredicate::Or)?,
            PredicateNode::Not(a) => PruningPredicate::Not(sieve(a)?.into()),
            PredicateNode::TooDeep => return Err(too_deep()),
            // What can't be compared is an error where values are looked at.
            PredicateNode::Compare(of, operator, _) if operator.is_order() && has_categories(dataset, of)? => {
                PruningPredicate::Unknown
            }
            PredicateNode::Compare(of, operator, literal) => {
                test(of, &|name, data_type| ValuePredicate::for_comparison(name, data_type, *operator, literal))?
            }
            PredicateNode::IsIn(of, literals) => {
                test(of, &|name, data_type| ValuePredicate::for_any(name, data_type, literals))?
            }
            PredicateNode::Matches(of, place, text) => {
                test(of, &|name, data_type| ValuePredicate::for_text_match(name, data_type, *place, text))?
            }
            PredicateNode::IsNull(of) => match of.name() {
                Some(name) => PruningPredicate::IsNull(column(name)?.0),
                None => PruningPredicate::Unknown,
            },
            PredicateNode::Pair(..) => PruningPredicate::Unknown,
        })
    }

    /// The columns that it is about.
    fn columns(&self, into: &mut Vec<usize>) {
        match self {
            PruningPredicate::Value(column, _) | PruningPredicate::IsNull(column) => into.push(*column),
            PruningPredicate::And(a, b) | PruningPredicate::Or(a, b) => {
                [a, b].into_iter().for_each(|inner| inner.columns(into))
            }
            PruningPredicate::Not(a) => a.columns(into),
            PruningPredicate::Unknown => (),
        }
    }

    /// What it may be for rows of which `zone` says what is known of a column.
    fn possible<'a>(&self, zone: &dyn Fn(usize) -> Option<&'a Zone>) -> PossibleOutcomes {
        match self {
            PruningPredicate::And(a, b) => {
                let a = a.possible(zone);
                let b = b.possible(zone);
                PossibleOutcomes { is_true: a.is_true && b.is_true, is_false: a.is_false || b.is_false }
            }
            PruningPredicate::Or(a, b) => {
                let a = a.possible(zone);
                let b = b.possible(zone);
                PossibleOutcomes { is_true: a.is_true || b.is_true, is_false: a.is_false && b.is_false }
            }
            PruningPredicate::Not(a) => {
                let PossibleOutcomes { is_true, is_false } = a.possible(zone);
                PossibleOutcomes { is_true: is_false, is_false: is_true }
            }
            PruningPredicate::Unknown => ANYTHING,
            // For a null it is unknown.
            PruningPredicate::Value(column, test) => zone(*column).map_or(ANYTHING, |zone| possible(test, zone)),
            PruningPredicate::IsNull(column) => zone(*column).map_or(ANYTHING, |zone| PossibleOutcomes {
                is_true: zone.nulls > 0,
                is_false: zone.has_nan || zone.bounds.is_some(),
            }),
        }
    }
}

/// Whether it is a column of ordered categories, whose order is not that of the bounds of zones.
fn has_categories(dataset: &Dataset, of: &Expression) -> Result<bool> {
    let Some(name) = of.name() else { return Ok(false) };
    let column = dataset.index_of(name)?;
    Ok(is_ordered(dataset.schema().field(column)))
}

/// What a test may be for the values of a zone.
fn possible(test: &ValuePredicate, zone: &Zone) -> PossibleOutcomes {
    let of_bounds = zone.bounds.as_ref().map(|bounds| bounds_outcomes(test, bounds));
    let neither = PossibleOutcomes { is_true: false, is_false: false };
    let of_nan = if zone.has_nan { nan_outcomes(test) } else { neither };
    let of_bounds = of_bounds.unwrap_or(neither);
    PossibleOutcomes { is_true: of_bounds.is_true || of_nan.is_true, is_false: of_bounds.is_false || of_nan.is_false }
}

/// What it is for a float that is no number.
fn nan_outcomes(test: &ValuePredicate) -> PossibleOutcomes {
    let is_true = test.holds(&Value::Float64(f64::NAN));
    PossibleOutcomes { is_true, is_false: !is_true }
}

/// What it may be for values of which these are the smallest and the largest.
fn bounds_outcomes(test: &ValuePredicate, bounds: &(ZoneBound, ZoneBound)) -> PossibleOutcomes {
    let (least, most) = bounds;
    match test {
        ValuePredicate::Unknown => PossibleOutcomes { is_true: false, is_false: false },
        ValuePredicate::Never => PossibleOutcomes { is_true: false, is_false: true },
        ValuePredicate::Not(test) => {
            let PossibleOutcomes { is_true, is_false } = bounds_outcomes(test, bounds);
            PossibleOutcomes { is_true: is_false, is_false: is_true }
        }
        ValuePredicate::Any(tests) => {
            let each = tests.iter().map(|test| bounds_outcomes(test, bounds));
            let none = PossibleOutcomes { is_true: false, is_false: true };
            let either = |a: PossibleOutcomes, b: PossibleOutcomes| PossibleOutcomes {
                is_true: a.is_true || b.is_true,
                is_false: a.is_false && b.is_false,
            };
            each.fold(none, either)
        }
        ValuePredicate::Integers(numbers) => match (digits(&least.key), digits(&most.key)) {
            (Some(least), Some(most)) => among(numbers, (least, most)),
            _ => ANYTHING,
        },
        ValuePredicate::OneOfFloats(numbers) => match (&least.key, &most.key) {
            (ComparableValue::Float(least), ComparableValue::Float(most)) => among(numbers, (*least, *most)),
            _ => ANYTHING,
        },
        ValuePredicate::Range(low, high) => match (digits(&least.key), digits(&most.key)) {
            (Some(least), Some(most)) => within((*low, *high), (least, most)),
            _ => ANYTHING,
        },
        ValuePredicate::Floats(low, high) => match (&least.key, &most.key) {
            (ComparableValue::Float(least), ComparableValue::Float(most)) => within((*low, *high), (*least, *most)),
            _ => ANYTHING,
        },
        ValuePredicate::Text(operator, text) => match (&least.key, &most.key) {
            (ComparableValue::Bytes(_), ComparableValue::Bytes(_)) => text_outcomes(*operator, text, least, most),
            _ => ANYTHING,
        },
        ValuePredicate::Texts(texts) => match (&least.key, &most.key) {
            (ComparableValue::Bytes(_), ComparableValue::Bytes(_)) => {
                let each = || texts.iter().map(|text| text_outcomes(Operator::Eq, text, least, most));
                PossibleOutcomes { is_true: each().any(|one| one.is_true), is_false: each().all(|one| one.is_false) }
            }
            _ => ANYTHING,
        },
        ValuePredicate::Matches(test) => match_outcomes(test, bounds),
    }
}

/// What a match may be for texts of which these are the smallest and the largest.
fn match_outcomes(test: &TextMatcher, (least, most): &(ZoneBound, ZoneBound)) -> PossibleOutcomes {
    let (ComparableValue::Bytes(first), ComparableValue::Bytes(last)) = (&least.key, &most.key) else {
        return ANYTHING;
    };
    // One text, which says all.
    if first == last && !least.is_cut && !most.is_cut {
        let is_true = test.holds(first);
        return PossibleOutcomes { is_true, is_false: !is_true };
    }
    let TextMatcher::StartsWith(text) = test else { return ANYTHING };
    // What starts with a text comes behind it, and before the next text of that length.
    let is_before = match next_text(text) {
        Some(next) => text_outcomes(Operator::Lt, &next, least, most).is_true,
        None => true,
    };
    PossibleOutcomes { is_true: is_before && text_outcomes(Operator::Ge, text, least, most).is_true, is_false: true }
}

/// The first text behind all that start with `text`, if there is one.
fn next_text(text: &[u8]) -> Option<Vec<u8>> {
    let last = text.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut next = text.get(..=last)?.to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    Some(next)
}

fn digits(key: &ComparableValue) -> Option<arrow_buffer::i256> {
    match key {
        ComparableValue::Int(number) => Some(arrow_buffer::i256::from_i128(*number)),
        ComparableValue::Decimal(digits) => Some(*digits),
        ComparableValue::Float(_) | ComparableValue::Bytes(_) => None,
    }
}

/// Whether values from `least` to `most` may be in the range, or outside of it.
fn within<T: PartialOrd>((low, high): (T, T), (least, most): (T, T)) -> PossibleOutcomes {
    PossibleOutcomes { is_true: low <= high && low <= most && least <= high, is_false: least < low || most > high }
}

/// Whether values from `least` to `most` may be one of `numbers`, which are in order, or none of them.
fn among<T: PartialOrd + Copy>(numbers: &[T], (least, most): (T, T)) -> PossibleOutcomes {
    let first = numbers.get(numbers.partition_point(|number| *number < least));
    PossibleOutcomes {
        is_true: first.is_some_and(|first| *first <= most),
        is_false: least < most || first != Some(&least),
    }
}

fn text_outcomes(operator: Operator, text: &[u8], least: &ZoneBound, most: &ZoneBound) -> PossibleOutcomes {
    let may = |operator: Operator| match operator {
        Operator::Lt => may_be(least, text).contains(&Operator::Lt),
        Operator::Le => may_be(least, text).iter().any(|order| *order != Operator::Gt),
        Operator::Gt => may_be(most, text).contains(&Operator::Gt),
        Operator::Ge => may_be(most, text).iter().any(|order| *order != Operator::Lt),
        Operator::Eq => {
            let reaches_down = may_be(least, text).iter().any(|order| *order != Operator::Gt);
            reaches_down && may_be(most, text).iter().any(|order| *order != Operator::Lt)
        }
        Operator::Ne => [least, most].into_iter().any(|bound| may_be(bound, text) != [Operator::Eq]),
    };
    PossibleOutcomes { is_true: may(operator), is_false: may(operator.negated()) }
}

/// How a bound may compare with a text: `Lt`, `Eq` and `Gt`.
fn may_be(bound: &ZoneBound, text: &[u8]) -> &'static [Operator] {
    let ComparableValue::Bytes(begin) = &bound.key else { return &[Operator::Lt, Operator::Eq, Operator::Gt] };
    // Of a text that is longer than what is known of it, the rest is anything but nothing.
    let same = &text[..text.len().min(begin.len())];
    match begin.as_slice().cmp(if bound.is_cut { same } else { text }) {
        std::cmp::Ordering::Less => &[Operator::Lt],
        std::cmp::Ordering::Greater => &[Operator::Gt],
        std::cmp::Ordering::Equal if !bound.is_cut => &[Operator::Eq],
        std::cmp::Ordering::Equal if text.len() <= begin.len() => &[Operator::Gt],
        std::cmp::Ordering::Equal => &[Operator::Lt, Operator::Eq, Operator::Gt],
    }
}

/// The zones of a piece by the dataset's columns: of those with one value alone.
fn constants(dataset: &Dataset, piece: &SourceSlice) -> Result<Vec<Option<Zone>>> {
    if piece.source.constants().is_empty() {
        return Ok(Vec::new());
    }
    let zone = |number| match constant(piece, number) {
        Some(constant) => Ok(Zone::from_value(&constant.value()?)),
        None => Ok(None),
    };
    (0..dataset.num_columns()).map(zone).collect()
}

/// The column with one value that is column number `number` of the dataset.
fn constant(piece: &SourceSlice, number: usize) -> Option<&ConstantColumn> {
    piece.source.constant(*piece.columns.get(number)?)
}
