//! Rows that a predicate leaves out without a look at them: those of partitions whose columns with one value make it false
//! or unknown, and of blocks whose zones do.

use std::ops::Range;

use arrow_schema::DataType;

use super::compare::{Test, TextTest};
use super::expression::Expression;
use super::literal::Operator;
use super::predicate::{Predicate, PredicateNode, balanced, too_deep};
use crate::array::Value;
use crate::dataset::{Bound, ConstantColumn, Dataset, Key, Piece, Zone, Zones};
use crate::error::{Error, Result};
use crate::types::is_ordered;

/// A predicate translated for the columns of partitions, and for those with zones.
enum Sieve {
    /// The test of the column with this number in the dataset.
    Test(usize, Test),
    IsNull(usize),
    And(Box<Sieve>, Box<Sieve>),
    Or(Box<Sieve>, Box<Sieve>),
    Not(Box<Sieve>),
    Unknown,
}

/// What a condition may be for some rows. For null it is neither.
#[derive(Clone, Copy)]
struct Possible {
    is_true: bool,
    is_false: bool,
}

const ANYTHING: Possible = Possible { is_true: true, is_false: true };

/// The pieces of `dataset` that may have rows for which `predicate` is true, by the columns of partitions.
pub(super) fn pruned(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    if dataset.pieces().iter().all(|piece| piece.source.constants().is_empty()) {
        return Ok(dataset.clone());
    }
    let sieve = Sieve::of(dataset, &predicate.0)?;
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
    Ok(Dataset::of_pieces(dataset.schema().clone(), kept))
}

/// The blocks of `dataset` that may have rows for which `predicate` is true.
pub(super) fn pruned_blocks(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    let sieve = Sieve::of(dataset, &predicate.0)?;
    let mut columns = Vec::new();
    sieve.columns(&mut columns);
    let has_zones = |piece: &Piece| columns.iter().any(|&column| piece.source.has_zones(piece.columns[column]));
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
    Ok(Dataset::of_pieces(dataset.schema().clone(), kept))
}

/// The parts of a piece that may have rows; `None` if that is all of it.
fn blocks_of(dataset: &Dataset, piece: &Piece, (sieve, columns): (&Sieve, &[usize])) -> Result<Option<Vec<Piece>>> {
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
    let cut = |rows: Range<u64>| Piece { start: rows.start, rows: Some(rows.end - rows.start), ..piece.clone() };
    Ok((!is_whole).then(|| kept.into_iter().map(cut).collect()))
}

impl Sieve {
    fn of(dataset: &Dataset, node: &PredicateNode) -> Result<Sieve> {
        let sieve = |node: &PredicateNode| Sieve::of(dataset, node);
        let column = |name: &str| -> Result<(usize, &DataType)> {
            let number = dataset.index_of(name)?;
            Ok((number, dataset.schema().field(number).data_type()))
        };
        let test = |of: &Expression, test: &dyn Fn(&str, &DataType) -> Result<Test>| {
            let Some(name) = of.name() else { return Ok(Sieve::Unknown) };
            let (number, data_type) = column(name)?;
            Ok::<_, Error>(test(name, data_type).map_or(Sieve::Unknown, |test| Sieve::Test(number, test)))
        };
        Ok(match node {
            PredicateNode::And(chain) => balanced(&chain.parts(), &sieve, Sieve::And)?,
            PredicateNode::Or(chain) => balanced(&chain.parts(), &sieve, Sieve::Or)?,
            PredicateNode::Not(a) => Sieve::Not(sieve(a)?.into()),
            PredicateNode::TooDeep => return Err(too_deep()),
            // What can't be compared is an error where values are looked at.
            PredicateNode::Compare(of, operator, _) if operator.is_order() && has_categories(dataset, of)? => {
                Sieve::Unknown
            }
            PredicateNode::Compare(of, operator, literal) => {
                test(of, &|name, data_type| Test::of(name, data_type, *operator, literal))?
            }
            PredicateNode::IsIn(of, literals) => test(of, &|name, data_type| Test::any(name, data_type, literals))?,
            PredicateNode::Matches(of, place, text) => {
                test(of, &|name, data_type| Test::matches(name, data_type, *place, text))?
            }
            PredicateNode::IsNull(of) => match of.name() {
                Some(name) => Sieve::IsNull(column(name)?.0),
                None => Sieve::Unknown,
            },
            PredicateNode::Pair(..) => Sieve::Unknown,
        })
    }

    /// The columns that it is about.
    fn columns(&self, into: &mut Vec<usize>) {
        match self {
            Sieve::Test(column, _) | Sieve::IsNull(column) => into.push(*column),
            Sieve::And(a, b) | Sieve::Or(a, b) => [a, b].into_iter().for_each(|inner| inner.columns(into)),
            Sieve::Not(a) => a.columns(into),
            Sieve::Unknown => (),
        }
    }

    /// What it may be for rows of which `zone` says what is known of a column.
    fn possible<'a>(&self, zone: &dyn Fn(usize) -> Option<&'a Zone>) -> Possible {
        match self {
            Sieve::And(a, b) => {
                let a = a.possible(zone);
                let b = b.possible(zone);
                Possible { is_true: a.is_true && b.is_true, is_false: a.is_false || b.is_false }
            }
            Sieve::Or(a, b) => {
                let a = a.possible(zone);
                let b = b.possible(zone);
                Possible { is_true: a.is_true || b.is_true, is_false: a.is_false && b.is_false }
            }
            Sieve::Not(a) => {
                let Possible { is_true, is_false } = a.possible(zone);
                Possible { is_true: is_false, is_false: is_true }
            }
            Sieve::Unknown => ANYTHING,
            // For a null it is unknown.
            Sieve::Test(column, test) => zone(*column).map_or(ANYTHING, |zone| possible(test, zone)),
            Sieve::IsNull(column) => zone(*column).map_or(ANYTHING, |zone| Possible {
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
fn possible(test: &Test, zone: &Zone) -> Possible {
    let of_bounds = zone.bounds.as_ref().map(|bounds| of_bounds(test, bounds));
    let neither = Possible { is_true: false, is_false: false };
    let of_nan = if zone.has_nan { of_nan(test) } else { neither };
    let of_bounds = of_bounds.unwrap_or(neither);
    Possible { is_true: of_bounds.is_true || of_nan.is_true, is_false: of_bounds.is_false || of_nan.is_false }
}

/// What it is for a float that is no number.
fn of_nan(test: &Test) -> Possible {
    let is_true = test.holds(&Value::Float64(f64::NAN));
    Possible { is_true, is_false: !is_true }
}

/// What it may be for values of which these are the smallest and the largest.
fn of_bounds(test: &Test, bounds: &(Bound, Bound)) -> Possible {
    let (least, most) = bounds;
    match test {
        Test::Unknown => Possible { is_true: false, is_false: false },
        Test::Never => Possible { is_true: false, is_false: true },
        Test::Not(test) => {
            let Possible { is_true, is_false } = of_bounds(test, bounds);
            Possible { is_true: is_false, is_false: is_true }
        }
        Test::Any(tests) => {
            let each = tests.iter().map(|test| of_bounds(test, bounds));
            let none = Possible { is_true: false, is_false: true };
            let either = |a: Possible, b: Possible| Possible {
                is_true: a.is_true || b.is_true,
                is_false: a.is_false && b.is_false,
            };
            each.fold(none, either)
        }
        Test::Integers(numbers) => match (digits(&least.key), digits(&most.key)) {
            (Some(least), Some(most)) => among(numbers, (least, most)),
            _ => ANYTHING,
        },
        Test::OneOfFloats(numbers) => match (&least.key, &most.key) {
            (Key::Float(least), Key::Float(most)) => among(numbers, (*least, *most)),
            _ => ANYTHING,
        },
        Test::Range(low, high) => match (digits(&least.key), digits(&most.key)) {
            (Some(least), Some(most)) => within((*low, *high), (least, most)),
            _ => ANYTHING,
        },
        Test::Floats(low, high) => match (&least.key, &most.key) {
            (Key::Float(least), Key::Float(most)) => within((*low, *high), (*least, *most)),
            _ => ANYTHING,
        },
        Test::Text(operator, text) => match (&least.key, &most.key) {
            (Key::Bytes(_), Key::Bytes(_)) => of_texts(*operator, text, least, most),
            _ => ANYTHING,
        },
        Test::Texts(texts) => match (&least.key, &most.key) {
            (Key::Bytes(_), Key::Bytes(_)) => {
                let each = || texts.iter().map(|text| of_texts(Operator::Eq, text, least, most));
                Possible { is_true: each().any(|one| one.is_true), is_false: each().all(|one| one.is_false) }
            }
            _ => ANYTHING,
        },
        Test::Matches(test) => of_match(test, bounds),
    }
}

/// What a match may be for texts of which these are the smallest and the largest.
fn of_match(test: &TextTest, (least, most): &(Bound, Bound)) -> Possible {
    let (Key::Bytes(first), Key::Bytes(last)) = (&least.key, &most.key) else { return ANYTHING };
    // One text, which says all.
    if first == last && !least.is_cut && !most.is_cut {
        let is_true = test.holds(first);
        return Possible { is_true, is_false: !is_true };
    }
    let TextTest::StartsWith(text) = test else { return ANYTHING };
    // What starts with a text comes behind it, and before the next text of that length.
    let is_before = match next_text(text) {
        Some(next) => of_texts(Operator::Lt, &next, least, most).is_true,
        None => true,
    };
    Possible { is_true: is_before && of_texts(Operator::Ge, text, least, most).is_true, is_false: true }
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

fn digits(key: &Key) -> Option<arrow_buffer::i256> {
    match key {
        Key::Int(number) => Some(arrow_buffer::i256::from_i128(*number)),
        Key::Decimal(digits) => Some(*digits),
        Key::Float(_) | Key::Bytes(_) => None,
    }
}

/// Whether values from `least` to `most` may be in the range, or outside of it.
fn within<T: PartialOrd>((low, high): (T, T), (least, most): (T, T)) -> Possible {
    Possible { is_true: low <= high && low <= most && least <= high, is_false: least < low || most > high }
}

/// Whether values from `least` to `most` may be one of `numbers`, which are in order, or none of them.
fn among<T: PartialOrd + Copy>(numbers: &[T], (least, most): (T, T)) -> Possible {
    let first = numbers.get(numbers.partition_point(|number| *number < least));
    Possible { is_true: first.is_some_and(|first| *first <= most), is_false: least < most || first != Some(&least) }
}

fn of_texts(operator: Operator, text: &[u8], least: &Bound, most: &Bound) -> Possible {
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
    Possible { is_true: may(operator), is_false: may(operator.negated()) }
}

/// How a bound may compare with a text: `Lt`, `Eq` and `Gt`.
fn may_be(bound: &Bound, text: &[u8]) -> &'static [Operator] {
    let Key::Bytes(begin) = &bound.key else { return &[Operator::Lt, Operator::Eq, Operator::Gt] };
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
fn constants(dataset: &Dataset, piece: &Piece) -> Result<Vec<Option<Zone>>> {
    if piece.source.constants().is_empty() {
        return Ok(Vec::new());
    }
    let zone = |number| match constant(piece, number) {
        Some(constant) => Ok(Zone::of_value(&constant.value()?)),
        None => Ok(None),
    };
    (0..dataset.num_columns()).map(zone).collect()
}

/// The column with one value that is column number `number` of the dataset.
fn constant(piece: &Piece, number: usize) -> Option<&ConstantColumn> {
    piece.source.constant(*piece.columns.get(number)?)
}
