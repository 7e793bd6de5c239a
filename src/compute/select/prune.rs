//! Partitions that a predicate leaves out: those whose columns with one value make it false or unknown for all rows.

use super::compare::Test;
use super::predicate::{Predicate, PredicateNode};
use crate::array::Value;
use crate::dataset::{ConstantColumn, Dataset, Piece};
use crate::error::Result;

/// A predicate translated for the columns of partitions.
enum Sieve {
    /// The test of the partition column with this number in the dataset.
    Test(usize, Test),
    IsNull(usize),
    And(Box<Sieve>, Box<Sieve>),
    Or(Box<Sieve>, Box<Sieve>),
    Not(Box<Sieve>),
    /// Of other columns, about which a partition says nothing.
    Unknown,
}

/// What a condition may be for rows of a partition. For null it is neither.
#[derive(Clone, Copy)]
struct Possible {
    is_true: bool,
    is_false: bool,
}

/// The pieces of `dataset` that may have rows for which `predicate` is true.
pub(super) fn pruned(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    if dataset.pieces().iter().all(|piece| piece.source.constants().is_empty()) {
        return Ok(dataset.clone());
    }
    let sieve = Sieve::of(dataset, &predicate.0)?;
    let mut kept = Vec::with_capacity(dataset.pieces().len());
    for piece in dataset.pieces() {
        if sieve.possible(piece)?.is_true {
            kept.push(piece.clone());
        }
    }
    if kept.len() == dataset.pieces().len() {
        return Ok(dataset.clone());
    }
    Ok(Dataset::of_pieces(dataset.schema().clone(), kept))
}

impl Sieve {
    fn of(dataset: &Dataset, node: &PredicateNode) -> Result<Sieve> {
        let boxed = |node| Sieve::of(dataset, node).map(Box::new);
        let column = |name: &str| -> Result<(usize, &arrow_schema::DataType)> {
            let number = dataset.index_of(name)?;
            Ok((number, dataset.schema().field(number).data_type()))
        };
        let is_constant = |name: &str| {
            dataset
                .index_of(name)
                .is_ok_and(|number| dataset.pieces().iter().any(|piece| constant(piece, number).is_some()))
        };
        Ok(match node {
            PredicateNode::And(a, b) => Sieve::And(boxed(a)?, boxed(b)?),
            PredicateNode::Or(a, b) => Sieve::Or(boxed(a)?, boxed(b)?),
            PredicateNode::Not(a) => Sieve::Not(boxed(a)?),
            PredicateNode::Compare(name, operator, literal) if is_constant(name) => {
                let (number, data_type) = column(name)?;
                Sieve::Test(number, Test::of(name, data_type, *operator, literal)?)
            }
            PredicateNode::IsIn(name, literals) if is_constant(name) => {
                let (number, data_type) = column(name)?;
                Sieve::Test(number, Test::any(name, data_type, literals)?)
            }
            PredicateNode::IsNull(name) if is_constant(name) => Sieve::IsNull(column(name)?.0),
            _ => Sieve::Unknown,
        })
    }

    fn possible(&self, piece: &Piece) -> Result<Possible> {
        Ok(match self {
            Sieve::And(a, b) => {
                let a = a.possible(piece)?;
                let b = b.possible(piece)?;
                Possible { is_true: a.is_true && b.is_true, is_false: a.is_false || b.is_false }
            }
            Sieve::Or(a, b) => {
                let a = a.possible(piece)?;
                let b = b.possible(piece)?;
                Possible { is_true: a.is_true || b.is_true, is_false: a.is_false && b.is_false }
            }
            Sieve::Not(a) => {
                let Possible { is_true, is_false } = a.possible(piece)?;
                Possible { is_true: is_false, is_false: is_true }
            }
            Sieve::Test(number, test) => of_constant(piece, *number, |value| match value {
                Value::Null => Possible { is_true: false, is_false: false },
                value => {
                    let holds = test.holds(value);
                    // Whether it is false or unknown, as compared with null, need not be known.
                    Possible { is_true: holds, is_false: !holds }
                }
            })?,
            Sieve::IsNull(number) => of_constant(piece, *number, |value| {
                let is_null = matches!(value, Value::Null);
                Possible { is_true: is_null, is_false: !is_null }
            })?,
            Sieve::Unknown => Possible { is_true: true, is_false: true },
        })
    }
}

/// The column with one value that is column number `number` of the dataset.
fn constant(piece: &Piece, number: usize) -> Option<&ConstantColumn> {
    let constants = piece.source.constants();
    let stored = piece.source.schema().fields().len() - constants.len();
    constants.get(piece.columns.get(number)?.checked_sub(stored)?)
}

fn of_constant(piece: &Piece, number: usize, possible: impl Fn(&Value<'_>) -> Possible) -> Result<Possible> {
    match constant(piece, number) {
        Some(constant) => Ok(possible(&constant.value()?)),
        None => Ok(Possible { is_true: true, is_false: true }),
    }
}
