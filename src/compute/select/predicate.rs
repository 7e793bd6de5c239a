//! Predicates: comparisons of columns, and of what is computed of them, combined by and, or, not.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

use super::expression::Expression;
use super::literal::{Literal, Operator};
use crate::error::{Error, Result};

impl Expression {
    /// Equal to `other`.
    pub fn eq(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Eq, other)
    }

    /// Not equal to `other`; null is neither.
    pub fn ne(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Ne, other)
    }

    /// Less than `other`.
    pub fn lt(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Lt, other)
    }

    /// Less than or equal to `other`.
    pub fn le(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Le, other)
    }

    /// Greater than `other`.
    pub fn gt(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Gt, other)
    }

    /// Greater than or equal to `other`.
    pub fn ge(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Ge, other)
    }

    /// Equal to one of `values`.
    pub fn is_in<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Predicate {
        Predicate::of(PredicateNode::IsIn(self, values.into_iter().map(Into::into).collect()))
    }

    /// Null.
    pub fn is_null(self) -> Predicate {
        Predicate::of(PredicateNode::IsNull(self))
    }

    /// Not null.
    pub fn is_not_null(self) -> Predicate {
        !self.is_null()
    }

    /// Text in which `text` stands anywhere, as it is: no pattern.
    pub fn contains(self, text: impl Into<String>) -> Predicate {
        Predicate::of(PredicateNode::Matches(self, TextMatch::Contains, text.into()))
    }

    /// Text that starts with `text`.
    pub fn starts_with(self, text: impl Into<String>) -> Predicate {
        Predicate::of(PredicateNode::Matches(self, TextMatch::StartsWith, text.into()))
    }

    /// Text that ends with `text`.
    pub fn ends_with(self, text: impl Into<String>) -> Predicate {
        Predicate::of(PredicateNode::Matches(self, TextMatch::EndsWith, text.into()))
    }

    /// The comparison by `operator` with `other`, a value or an expression.
    pub fn compare(self, operator: Operator, other: impl Into<Expression>) -> Predicate {
        let other = other.into();
        Predicate::of(match (self.literal(), other.literal()) {
            (_, Some(literal)) => PredicateNode::Compare(self, operator, literal.clone()),
            (Some(literal), None) => PredicateNode::Compare(other, operator.turned(), literal.clone()),
            (None, None) => PredicateNode::Pair(self, operator, other),
        })
    }
}

/// Where a text stands in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum TextMatch {
    Contains,
    StartsWith,
    EndsWith,
}

impl TextMatch {
    /// Whether `wanted` stands there in `bytes`.
    #[inline]
    pub(super) fn holds(self, bytes: &[u8], wanted: &[u8]) -> bool {
        match self {
            TextMatch::StartsWith => bytes.starts_with(wanted),
            TextMatch::EndsWith => bytes.ends_with(wanted),
            TextMatch::Contains => match wanted {
                [] => true,
                [first, rest @ ..] => {
                    let last = bytes.len().saturating_sub(rest.len());
                    let mut starts = bytes[..last].iter().enumerate();
                    starts.any(|(at, byte)| byte == first && bytes[at + 1..].starts_with(rest))
                }
            },
        }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextMatch::Contains => "contains",
            TextMatch::StartsWith => "starts with",
            TextMatch::EndsWith => "ends with",
        })
    }
}

/// A condition on rows, made of [`Expression`]s and combined by `&`, `|` and `!`.
///
/// A comparison with null is neither true nor false, and so is its negation: such rows are not selected, as in SQL. NaN
/// is not equal to, less than or greater than anything. Numbers are compared by value: 2.5 with integers, times with
/// times of another unit. Nothing is rounded: no `f32` equals 0.1. For comparison with decimals a float with a fraction
/// is converted to the decimal that it prints as.
///
/// What is right of `&` or `|` is computed only of rows about which the left has not decided. Any number of predicates may be
/// combined by `&`, or by `|`; inside of one another, as of `!`, or of `&` in `|`, there are at most 500.
#[derive(Clone, Debug)]
pub struct Predicate(pub(super) PredicateNode, usize);

/// The most predicates inside of one another.
pub(super) const DEEPEST: usize = 500;

#[derive(Clone, Debug)]
pub(super) enum PredicateNode {
    Compare(Expression, Operator, Literal),
    IsIn(Expression, Vec<Literal>),
    IsNull(Expression),
    Matches(Expression, TextMatch, String),
    /// A comparison of two expressions, of which none is a literal.
    Pair(Expression, Operator, Expression),
    And(Vec<PredicateNode>),
    Or(Vec<PredicateNode>),
    Not(Box<PredicateNode>),
    /// More predicates inside of one another than fit the stack.
    TooDeep,
}

impl PredicateNode {
    /// Necessary conditions on column `name`: its comparisons combined by `and`.
    pub(super) fn comparisons_with(&self, name: &str) -> Vec<(Operator, Literal)> {
        match self {
            PredicateNode::Compare(column, operator, literal) if column.name() == Some(name) => {
                vec![(*operator, literal.clone())]
            }
            PredicateNode::And(parts) => parts.iter().flat_map(|part| part.comparisons_with(name)).collect(),
            _ => Vec::new(),
        }
    }
}

impl Predicate {
    fn of(node: PredicateNode) -> Predicate {
        Predicate(node, 0)
    }

    /// A predicate of `depth` levels.
    fn deep(depth: usize, node: PredicateNode) -> Predicate {
        if depth <= DEEPEST { Predicate(node, depth) } else { Predicate(PredicateNode::TooDeep, DEEPEST) }
    }

    /// All parts of both, combined by `combine`; `parts` finds those of what was combined by it before.
    fn with(
        self,
        other: Predicate,
        parts: impl Fn(&mut PredicateNode) -> Option<&mut Vec<PredicateNode>>,
        combine: impl FnOnce(Vec<PredicateNode>) -> PredicateNode,
    ) -> Predicate {
        let apart = |Predicate(mut node, depth)| match parts(&mut node) {
            Some(parts) => (depth - levels(parts.len()), std::mem::take(parts)),
            None => (depth, vec![node]),
        };
        let (own, mut all) = apart(self);
        let (others, more) = apart(other);
        all.extend(more);
        Predicate::deep(own.max(others) + levels(all.len()), combine(all))
    }
}

/// The levels of a tree that has so many leaves.
fn levels(leaves: usize) -> usize {
    leaves.next_power_of_two().ilog2() as usize
}

/// What `make` makes of each of `parts`, two by two combined by `combine`: as few levels as there can be.
pub(super) fn balanced<T>(
    parts: &[PredicateNode],
    make: &dyn Fn(&PredicateNode) -> Result<T>,
    combine: fn(Box<T>, Box<T>) -> T,
) -> Result<T> {
    match parts {
        [] => Err(Error::internal("a predicate that is combined of none")),
        [only] => make(only),
        parts => {
            let (left, right) = parts.split_at(parts.len() / 2);
            Ok(combine(balanced(left, make, combine)?.into(), balanced(right, make, combine)?.into()))
        }
    }
}

/// The error for [`PredicateNode::TooDeep`].
pub(super) fn too_deep() -> Error {
    Error::argument(format!(
        "predicates are at most {DEEPEST} deep inside of one another; combine more of them by & alone, or by | alone, or use \
         is_in for many values"
    ))
}

impl BitAnd for Predicate {
    type Output = Predicate;

    fn bitand(self, other: Predicate) -> Predicate {
        self.with(
            other,
            |node| if let PredicateNode::And(parts) = node { Some(parts) } else { None },
            PredicateNode::And,
        )
    }
}

impl BitOr for Predicate {
    type Output = Predicate;

    fn bitor(self, other: Predicate) -> Predicate {
        self.with(other, |node| if let PredicateNode::Or(parts) = node { Some(parts) } else { None }, PredicateNode::Or)
    }
}

impl Not for Predicate {
    type Output = Predicate;

    fn not(self) -> Predicate {
        Predicate::deep(self.1 + 1, PredicateNode::Not(self.0.into()))
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
            PredicateNode::Compare(of, operator, literal) => write!(f, "{of} {operator} {literal}"),
            PredicateNode::Pair(a, operator, b) => write!(f, "{a} {operator} {b}"),
            PredicateNode::Matches(of, place, text) => write!(f, "{of} {place} {text:?}"),
            PredicateNode::IsIn(of, literals) => {
                let shown: Vec<_> = literals.iter().take(5).map(Literal::to_string).collect();
                let more = if literals.len() > shown.len() { ", …" } else { "" };
                write!(f, "{of} is in [{}{more}]", shown.join(", "))
            }
            PredicateNode::IsNull(of) => write!(f, "{of} is null"),
            PredicateNode::And(parts) => joined(f, parts, " & "),
            PredicateNode::Or(parts) => joined(f, parts, " | "),
            PredicateNode::Not(a) => write!(f, "~({a})"),
            PredicateNode::TooDeep => f.write_str("…"),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[PredicateNode], by: &str) -> fmt::Result {
    parts.iter().enumerate().try_for_each(|(number, part)| write!(f, "{}({part})", if number > 0 { by } else { "" }))
}
