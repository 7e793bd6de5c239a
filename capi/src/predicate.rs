//! Which rows are asked for.

use arrowwood::{Literal, Operator, Predicate, Result, col};

use crate::error::argument;
use crate::ffi::*;
use crate::value::from_c;

/// `arrowwood_predicate`.
pub struct CPredicate {
    predicate: Predicate,
    /// How deep predicates are nested; evaluating and dropping them recurses.
    depth: usize,
}

/// The deepest nesting, far from what a thread's stack holds.
const DEEPEST: usize = 500;

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

    /// `predicate`, which is made of `parts`.
    fn of(parts: &[&CPredicate], make: impl FnOnce() -> Predicate) -> Result<CPredicate> {
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        if depth > DEEPEST {
            let message = format!(
                "predicates are nested more than {DEEPEST} deep; combine them in pairs, or use arrowwood_predicate_in for \
                 many values"
            );
            return Err(argument(message));
        }
        Ok(CPredicate { predicate: make(), depth })
    }
}

fn operator(code: i32) -> Result<Operator> {
    Ok(match code {
        1 => Operator::Eq,
        2 => Operator::Ne,
        3 => Operator::Lt,
        4 => Operator::Le,
        5 => Operator::Gt,
        6 => Operator::Ge,
        other => return Err(argument(format!("there is no operator {other}"))),
    })
}

export_infallible! {
    /// Frees a predicate.
    fn arrowwood_predicate_free(predicate: Owned<CPredicate>) {
        predicate.free();
    }
}

export! {
    /// A column compared with a value.
    fn arrowwood_predicate_compare(
        column: Text, operator_code: i32, value: In<CValueIn>, predicate: HandleOut<CPredicate>,
    ) {
        let compared = col(column).compare(operator(operator_code)?, from_c(value)?);
        predicate.put(CPredicate::simple(compared));
        Ok(())
    }

    /// A column that is one of some values.
    fn arrowwood_predicate_in(column: Text, values[count]: Many<CValueIn>, predicate: HandleOut<CPredicate>) {
        let literals = values.iter().map(|value| from_c(value).map(Literal::from)).collect::<Result<Vec<_>>>()?;
        predicate.put(CPredicate::simple(col(column).is_in(literals)));
        Ok(())
    }

    /// A column that is null.
    fn arrowwood_predicate_null(column: Text, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::simple(col(column).is_null()));
        Ok(())
    }

    /// Both.
    fn arrowwood_predicate_and(a: Ref<CPredicate>, b: Ref<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::of(&[a, b], || a.predicate.clone() & b.predicate.clone())?);
        Ok(())
    }

    /// One or both.
    fn arrowwood_predicate_or(a: Ref<CPredicate>, b: Ref<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::of(&[a, b], || a.predicate.clone() | b.predicate.clone())?);
        Ok(())
    }

    /// The other rows, those with nulls apart.
    fn arrowwood_predicate_not(a: Ref<CPredicate>, predicate: HandleOut<CPredicate>) {
        predicate.put(CPredicate::of(&[a], || !a.predicate.clone())?);
        Ok(())
    }

    /// A predicate as text.
    fn arrowwood_predicate_text(predicate: Ref<CPredicate>, text: TextOut) {
        text.put(predicate.predicate.to_string());
        Ok(())
    }
}
