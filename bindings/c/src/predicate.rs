//! Conditions on rows.

use arrowwood::{Literal, Operator, Predicate, Result, col};

use crate::error::invalid_argument;
use crate::ffi::*;
use crate::value::{with_value, with_values};

/// `arrowwood_predicate`.
pub struct CPredicate {
    predicate: Predicate,
    /// The number of nested predicates, at most [`MAX_DEPTH`]: evaluating and dropping one recurses.
    depth: usize,
}

/// The maximum depth, far below the limit of a thread's stack.
const MAX_DEPTH: usize = 500;

/// `arrowwood_operator`.
mod operator_code {
    pub const EQ: i32 = 1;
    pub const NE: i32 = 2;
    pub const LT: i32 = 3;
    pub const LE: i32 = 4;
    pub const GT: i32 = 5;
    pub const GE: i32 = 6;
}

impl Opaque for CPredicate {
    const NAME: &'static str = "arrowwood_predicate";
    const TAG: u64 = u64::from_le_bytes(*b"aw_predi");
}

impl CPredicate {
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    fn simple(predicate: Predicate) -> CPredicate {
        CPredicate { predicate, depth: 1 }
    }

    /// Combines `parts` by `make`.
    fn combine(parts: &[&CPredicate], make: impl FnOnce() -> Predicate) -> Result<CPredicate> {
        let depth = 1 + parts.iter().map(|part| part.depth).fold(0, Ord::max);
        if depth > MAX_DEPTH {
            let message = format!(
                "predicates are nested more than {MAX_DEPTH} deep; combine them in pairs, or use \
                 arrowwood_predicate_in for many values"
            );
            return Err(invalid_argument(message));
        }
        Ok(CPredicate { predicate: make(), depth })
    }
}

/// Returns the operator for a code of the header.
fn operator(code: i32) -> Result<Operator> {
    Ok(match code {
        operator_code::EQ => Operator::Eq,
        operator_code::NE => Operator::Ne,
        operator_code::LT => Operator::Lt,
        operator_code::LE => Operator::Le,
        operator_code::GT => Operator::Gt,
        operator_code::GE => Operator::Ge,
        other => return Err(invalid_argument(format!("there is no operator {other}"))),
    })
}

export_infallible! {
    /// Frees a predicate.
    fn arrowwood_predicate_free(predicate: OwnedHandle<CPredicate>) {
        predicate.free();
    }
}

export! {
    /// A comparison of a column with a value.
    fn arrowwood_predicate_compare(
        column: CText, operator_code: i32, value: InPtr<CValueIn>, predicate: HandleOut<CPredicate>,
    ) {
        let operator = operator(operator_code)?;
        let compared = with_value(value, |value| Ok(col(column).compare(operator, value.clone())))?;
        predicate.put(CPredicate::simple(compared));
        Ok(())
    }

    /// True where a column equals any of some values.
    fn arrowwood_predicate_in(column: CText, values[count]: InArray<CValueIn>, predicate: HandleOut<CPredicate>) {
        let literals = with_values(values, |values| Ok(values.into_iter().map(Literal::from).collect::<Vec<_>>()))?;
        predicate.put(CPredicate::simple(col(column).is_in(literals)));
        Ok(())
    }

    /// True where a column is null.
    fn arrowwood_predicate_null(column: CText, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::simple(col(column).is_null()));
        Ok(())
    }

    /// True where both are true.
    fn arrowwood_predicate_and(a: HandleRef<CPredicate>, b: HandleRef<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::combine(&[a, b], || a.predicate.clone() & b.predicate.clone())?);
        Ok(())
    }

    /// True where at least one is true.
    fn arrowwood_predicate_or(a: HandleRef<CPredicate>, b: HandleRef<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::combine(&[a, b], || a.predicate.clone() | b.predicate.clone())?);
        Ok(())
    }

    /// The negation, which rows with nulls don't match either.
    fn arrowwood_predicate_not(a: HandleRef<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::combine(&[a], || !a.predicate.clone())?);
        Ok(())
    }

    /// A predicate as text.
    fn arrowwood_predicate_text(predicate: HandleRef<CPredicate>, text: StringOut) {
        text.put(predicate.predicate.to_string());
        Ok(())
    }
}
