//! Describes predicates: comparisons of columns and expressions, combined by and, or, not.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};
use std::sync::{Arc, Mutex, MutexGuard};

use super::expression::Expression;
use super::literal::{Literal, Operator};
use super::pattern::Pattern;
use crate::error::{Error, Result};
use crate::map::MutexExt;

impl Expression {
    /// Returns the condition that a value is equal to `other`.
    pub fn eq(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Eq, other)
    }

    /// Returns the condition that a value is not equal to `other`; null is neither.
    pub fn ne(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Ne, other)
    }

    /// Returns the condition that a value is less than `other`.
    pub fn lt(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Lt, other)
    }

    /// Returns the condition that a value is less than or equal to `other`.
    pub fn le(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Le, other)
    }

    /// Returns the condition that a value is greater than `other`.
    pub fn gt(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Gt, other)
    }

    /// Returns the condition that a value is greater than or equal to `other`.
    pub fn ge(self, other: impl Into<Expression>) -> Predicate {
        self.compare(Operator::Ge, other)
    }

    /// Returns the condition that a value is one of `values`.
    pub fn is_in<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Predicate {
        Predicate::new(PredicateNode::IsIn(self, values.into_iter().map(Into::into).collect()))
    }

    /// Returns the condition that a value is null.
    pub fn is_null(self) -> Predicate {
        Predicate::new(PredicateNode::IsNull(self))
    }

    /// Returns the condition that a value is not null.
    pub fn is_not_null(self) -> Predicate {
        !self.is_null()
    }

    /// Returns the condition that a text contains `text` literally.
    ///
    /// See [`matches`](Expression::matches) for patterns.
    pub fn contains(self, text: impl Into<String>) -> Predicate {
        Predicate::new(PredicateNode::Matches(self, TextMatch::Contains, text.into()))
    }

    /// Returns the condition that the regular expression `pattern` matches anywhere in a text.
    ///
    /// It has the syntax of the crate `regex`, without look-around and backreferences; a match takes time that is
    /// linear in the text.
    ///
    /// # Errors
    /// `InvalidArgument` if `pattern` is no regular expression, or takes too much memory.
    pub fn matches(self, pattern: &str) -> Result<Predicate> {
        Pattern::parse(pattern)?;
        Ok(Predicate::new(PredicateNode::Matches(self, TextMatch::Pattern, pattern.into())))
    }

    /// Returns the condition that a text starts with `text`.
    pub fn starts_with(self, text: impl Into<String>) -> Predicate {
        Predicate::new(PredicateNode::Matches(self, TextMatch::StartsWith, text.into()))
    }

    /// Returns the condition that a text ends with `text`.
    pub fn ends_with(self, text: impl Into<String>) -> Predicate {
        Predicate::new(PredicateNode::Matches(self, TextMatch::EndsWith, text.into()))
    }

    /// Returns the condition that compares by `operator` with `other`, a value or an expression.
    pub fn compare(self, operator: Operator, other: impl Into<Expression>) -> Predicate {
        let other = other.into();
        Predicate::new(match (self.literal(), other.literal()) {
            (_, Some(literal)) => PredicateNode::Compare(self, operator, literal.clone()),
            (Some(literal), None) => PredicateNode::Compare(other, operator.turned(), literal.clone()),
            (None, None) => PredicateNode::Pair(self, operator, other),
        })
    }
}

/// How a text is searched for in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum TextMatch {
    Contains,
    /// The text is a regular expression, which may match anywhere.
    Pattern,
    StartsWith,
    EndsWith,
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextMatch::Contains => "contains",
            TextMatch::Pattern => "matches",
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
/// The right side of `&` or `|` is evaluated only for rows that the left side does not decide. Any number of predicates
/// may be combined by `&`, or by `|`; at most 500 may be nested, such as by `!`, or as `&` in `|`. A clone is cheap,
/// and shares its parts.
#[derive(Clone, Debug)]
pub struct Predicate {
    pub(super) node: Arc<PredicateNode>,
    /// The number of nested combinations, where a chain of parts counts as a balanced tree.
    depth: usize,
}

/// The maximum number of nested predicates.
pub(super) const MAX_DEPTH: usize = 500;

/// The maximum number of values of [`PredicateNode::IsIn`] that are displayed.
const MAX_DISPLAYED_VALUES: usize = 5;

/// A predicate, or a part of one.
#[derive(Debug)]
pub(super) enum PredicateNode {
    /// A comparison with a literal.
    Compare(Expression, Operator, Literal),
    /// True for values that are equal to one of the literals.
    IsIn(Expression, Vec<Literal>),
    IsNull(Expression),
    /// A search for a text.
    Matches(Expression, TextMatch, String),
    /// A comparison of two expressions, of which none is a literal.
    Pair(Expression, Operator, Expression),
    And(PredicateChain),
    Or(PredicateChain),
    Not(Arc<PredicateNode>),
    /// More nested predicates than fit the stack.
    TooDeep,
}

impl PredicateNode {
    /// Returns true for a combination of other predicates.
    fn is_combined(&self) -> bool {
        matches!(self, PredicateNode::And(_) | PredicateNode::Or(_) | PredicateNode::Not(_))
    }

    /// Returns necessary conditions on column `name`: its comparisons that are combined by `and`.
    fn comparisons_with(&self, name: &str) -> Vec<(Operator, Literal)> {
        match self {
            PredicateNode::Compare(column, operator, literal) if column.name() == Some(name) => {
                vec![(*operator, literal.clone())]
            }
            PredicateNode::And(chain) => chain.parts().iter().flat_map(|part| part.comparisons_with(name)).collect(),
            _ => Vec::new(),
        }
    }
}

impl Predicate {
    /// Returns necessary conditions on column `name`: its comparisons that are combined by `and`.
    pub(in crate::compute) fn comparisons_with(&self, name: &str) -> Vec<(Operator, Literal)> {
        self.node.comparisons_with(name)
    }

    fn new(node: PredicateNode) -> Predicate {
        Predicate { node: node.into(), depth: 0 }
    }

    /// Creates a predicate of `depth` levels, or [`PredicateNode::TooDeep`].
    fn with_depth(depth: usize, node: PredicateNode) -> Predicate {
        if depth <= MAX_DEPTH {
            Predicate { node: node.into(), depth }
        } else {
            Predicate { node: PredicateNode::TooDeep.into(), depth: MAX_DEPTH }
        }
    }

    /// Combines the parts of both by `combine`. `chain` returns the parts of a predicate that was combined by it.
    fn combine(
        self,
        other: Predicate,
        chain: impl Fn(&PredicateNode) -> Option<&PredicateChain>,
        combine: impl FnOnce(PredicateChain) -> PredicateNode,
    ) -> Predicate {
        let (depth, parts) = self.into_parts(&chain);
        let (other_depth, other_parts) = other.into_parts(&chain);
        let parts = parts.append(&other_parts);
        Predicate::with_depth(depth.max(other_depth) + levels(parts.len), combine(parts))
    }

    /// Returns the maximum depth of the parts, and the parts; the predicate itself, if it has no `chain` of parts.
    fn into_parts(self, chain: impl Fn(&PredicateNode) -> Option<&PredicateChain>) -> (usize, PredicateChain) {
        let Predicate { node, depth } = self;
        match chain(&node) {
            Some(chain) => {
                debug_assert!(levels(chain.len) <= depth, "{} parts in {depth} levels", chain.len);
                (depth - levels(chain.len), chain.clone())
            }
            None => (depth, PredicateChain::new(vec![node])),
        }
    }
}

/// Predicates that are combined by the same operator, in order.
///
/// A chain that extends another shares its parts: each has a prefix of one list. A chain of comparisons that grows by
/// one at a time thus takes linear time and memory, even if all of the shorter chains are kept.
///
/// The list only ever grows, and only by a chain that has all of it; another chain that is extended copies its prefix.
/// Therefore the parts of a chain never change. A thread holds the lock of one list at a time.
#[derive(Clone)]
pub(super) struct PredicateChain {
    shared: Arc<Mutex<Vec<Arc<PredicateNode>>>>,
    /// The number of parts, which are the first ones of the list.
    len: usize,
}

impl PredicateChain {
    fn new(parts: Vec<Arc<PredicateNode>>) -> PredicateChain {
        PredicateChain { len: parts.len(), shared: Arc::new(Mutex::new(parts)) }
    }

    fn shared(&self) -> MutexGuard<'_, Vec<Arc<PredicateNode>>> {
        self.shared.lock_ignoring_poison()
    }

    /// Returns the parts in order.
    pub(super) fn parts(&self) -> Vec<Arc<PredicateNode>> {
        self.shared()[..self.len].to_vec()
    }

    /// Returns the parts of this chain, followed by the parts of `other`.
    fn append(self, other: &PredicateChain) -> PredicateChain {
        // This must precede the lock, as both may share one list.
        let appended = other.parts();
        let mut parts = self.shared();
        assert!(parts.len() >= self.len, "{} shared parts of {}", parts.len(), self.len);
        // The list can't be shared if another chain has extended it. A combination may have this chain as a part, and
        // the two would keep each other alive.
        if parts.len() > self.len || appended.iter().any(|part| part.is_combined()) {
            let mut copy = parts[..self.len].to_vec();
            copy.extend(appended);
            return PredicateChain::new(copy);
        }
        parts.extend(appended);
        let len = parts.len();
        drop(parts);
        PredicateChain { len, ..self }
    }
}

impl fmt::Debug for PredicateChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

/// Returns the number of levels of a balanced tree with `leaves` leaves.
fn levels(leaves: usize) -> usize {
    leaves.next_power_of_two().ilog2() as usize
}

/// Binds each of `parts`, and combines the results pairwise by `combine` into a tree with as few levels as possible.
pub(super) fn balanced<T>(
    parts: &[Arc<PredicateNode>],
    bind: &dyn Fn(&PredicateNode) -> Result<T>,
    combine: fn(Box<T>, Box<T>) -> T,
) -> Result<T> {
    match parts {
        [] => Err(Error::internal("a predicate that is combined of none")),
        [only] => bind(only),
        parts => {
            let (left, right) = parts.split_at(parts.len() / 2);
            Ok(combine(balanced(left, bind, combine)?.into(), balanced(right, bind, combine)?.into()))
        }
    }
}

/// Creates the error for [`PredicateNode::TooDeep`].
pub(super) fn too_deep() -> Error {
    Error::invalid_argument(format!(
        "predicates are at most {MAX_DEPTH} deep inside of one another; combine more of them by & alone, or by | \
         alone, or use is_in for many values"
    ))
}

impl BitAnd for Predicate {
    type Output = Predicate;

    fn bitand(self, other: Predicate) -> Predicate {
        self.combine(
            other,
            |node| if let PredicateNode::And(chain) = node { Some(chain) } else { None },
            PredicateNode::And,
        )
    }
}

impl BitOr for Predicate {
    type Output = Predicate;

    fn bitor(self, other: Predicate) -> Predicate {
        self.combine(
            other,
            |node| if let PredicateNode::Or(chain) = node { Some(chain) } else { None },
            PredicateNode::Or,
        )
    }
}

impl Not for Predicate {
    type Output = Predicate;

    fn not(self) -> Predicate {
        Predicate::with_depth(self.depth + 1, PredicateNode::Not(self.node))
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl fmt::Display for PredicateNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PredicateNode::Compare(tested, operator, literal) => write!(f, "{tested} {operator} {literal}"),
            PredicateNode::Pair(a, operator, b) => write!(f, "{a} {operator} {b}"),
            PredicateNode::Matches(tested, kind, text) => write!(f, "{tested} {kind} {text:?}"),
            PredicateNode::IsIn(tested, literals) => {
                let texts: Vec<_> = literals.iter().take(MAX_DISPLAYED_VALUES).map(Literal::to_string).collect();
                let more = if literals.len() > texts.len() { ", …" } else { "" };
                write!(f, "{tested} is in [{}{more}]", texts.join(", "))
            }
            PredicateNode::IsNull(tested) => write!(f, "{tested} is null"),
            PredicateNode::And(chain) => write_joined(f, &chain.parts(), " & "),
            PredicateNode::Or(chain) => write_joined(f, &chain.parts(), " | "),
            PredicateNode::Not(inner) => write!(f, "~({inner})"),
            PredicateNode::TooDeep => f.write_str("…"),
        }
    }
}

/// Writes the parts in parentheses, with `separator` between them.
fn write_joined(f: &mut fmt::Formatter<'_>, parts: &[Arc<PredicateNode>], separator: &str) -> fmt::Result {
    for (number, part) in parts.iter().enumerate() {
        write!(f, "{}({part})", if number > 0 { separator } else { "" })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::col;
    use super::*;

    #[test]
    fn literals_on_the_left_reverse_the_comparison() {
        let pairs = [
            (Operator::Lt, Operator::Gt),
            (Operator::Le, Operator::Ge),
            (Operator::Gt, Operator::Lt),
            (Operator::Ge, Operator::Le),
            (Operator::Eq, Operator::Eq),
            (Operator::Ne, Operator::Ne),
        ];
        for (operator, turned) in pairs {
            let left = Expression::from(5i64).compare(operator, col("n"));
            assert_eq!(left.to_string(), col("n").compare(turned, 5i64).to_string());
        }
    }

    /// A loop in Python that extends a chain keeps the previous one alive, so that each step copied all parts.
    #[test]
    fn extended_chains_share_their_parts() {
        let part = |number: i64| col("n").ne(number);
        let format_chain = |numbers: &[i64]| {
            numbers.iter().map(|&number| format!("({})", part(number))).collect::<Vec<_>>().join(" & ")
        };
        let chain = |predicate: &Predicate| match &*predicate.node {
            PredicateNode::And(chain) => chain.clone(),
            other => panic!("{other}"),
        };
        let mut steps = vec![part(0) & part(1)];
        (2..50).for_each(|number| steps.push(steps[steps.len() - 1].clone() & part(number)));
        let last = chain(&steps[48]);
        for (number, step) in steps.iter().enumerate() {
            assert!(Arc::ptr_eq(&chain(step).shared, &last.shared));
            assert_eq!(step.to_string(), format_chain(&(0..number as i64 + 2).collect::<Vec<_>>()));
        }
        // Two chains extend the same one, which is also combined with itself.
        let (one, other) = (steps[0].clone() & part(7), steps[0].clone() & part(8));
        assert_eq!([one.to_string(), other.to_string()], [format_chain(&[0, 1, 7]), format_chain(&[0, 1, 8])]);
        let twice = one.clone() & one.clone();
        assert_eq!(twice.to_string(), format_chain(&[0, 1, 7, 0, 1, 7]));
        // A chain nested below another predicate stays one part.
        let nested = twice.clone() & !twice.clone() & (twice.clone() | part(9));
        assert_eq!(nested.to_string(), format!("{twice} & (~({twice})) & (({twice}) | {})", format_chain(&[9])));
        assert!(format!("{nested:?}").starts_with("Predicate { node: And(["));
        let shared = [&twice, &nested].map(|predicate| Arc::downgrade(&chain(predicate).shared));
        drop((steps, last, one, other, twice, nested));
        assert!(shared.iter().all(|shared| shared.upgrade().is_none()));
    }
}
