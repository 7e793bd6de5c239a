//! Limits the size of statements.
//!
//! DataFusion plans chains of operators by recursion and in quadratic time, and planning can't be interrupted.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The maximum number of operators and keywords.
const MAX_OPERATORS: usize = 2_000;
/// The maximum number of operators other than comparisons. A chain of these takes longest to plan: about a second.
const MAX_COMPUTING_OPERATORS: usize = 1_000;
/// The maximum number of mentions of tables.
const MAX_TABLES: usize = 64;

/// Returns an error for a statement with too many operators and keywords.
pub(crate) fn check_text(text: &str) -> Result<()> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.map_err(|e| DataFusionError::Plan(format!("reading the statement: {e}")))?;
    let mut operators = 0;
    let mut computing = 0;
    let mut last = &Token::EOF;
    let mut second_last = &Token::EOF;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        if deepens_tree(token, last, second_last) {
            operators += 1;
            computing += usize::from(is_computing_operator(token));
        }
        (last, second_last) = (token, last);
    }
    if operators > MAX_OPERATORS {
        return plan_err!("the statement has {operators} operators and keywords; at most {MAX_OPERATORS} are expected");
    }
    if computing > MAX_COMPUTING_OPERATORS {
        return plan_err!(
            "the statement has {computing} operators that compute; at most {MAX_COMPUTING_OPERATORS} are expected"
        );
    }
    Ok(())
}

/// Returns true if a token may make the tree of an expression or a query deeper. It follows `last`, and that follows
/// `second_last`.
fn deepens_tree(token: &Token, last: &Token, second_last: &Token) -> bool {
    match token {
        Token::Word(word) => {
            !matches!(word.keyword, Keyword::NoKeyword | Keyword::AS | Keyword::NULL | Keyword::TRUE | Keyword::FALSE)
        }
        // The period of `table.column` does not, but further ones are fields of fields.
        Token::Period => !matches!(last, Token::Word(_)) || *second_last == Token::Period,
        Token::Number(..)
        | Token::Char(_)
        | Token::Comma
        | Token::LParen
        | Token::RParen
        | Token::RBracket
        | Token::SemiColon
        | Token::Placeholder(_)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::EOF => false,
        _ => true,
    }
}

/// Returns true for operators other than comparisons and keywords.
fn is_computing_operator(token: &Token) -> bool {
    let is_comparison = matches!(token, Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq);
    !is_comparison && !matches!(token, Token::Word(_))
}

/// Returns an error for a plan with too many tables, as the optimizer would order their joins.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let mut tables = 0;
    plan.apply_with_subqueries(|node| {
        tables += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if tables > MAX_TABLES {
        return plan_err!("the statement mentions tables {tables} times; at most {MAX_TABLES} are expected");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_are_rejected_and_long_lists_accepted() {
        let len = 3_000;
        let numbers = (0..len).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let columns = (0..len).map(|n| format!("t.c{n} as d{n}")).collect::<Vec<_>>().join(", ");
        let rows = (0..len).map(|n| format!("({n}, 'and', null, true)")).collect::<Vec<_>>().join(", ");
        for statement in [
            format!("select a from t where b in ({numbers})"),
            format!("select {columns} from t"),
            format!("select * from (values {rows}) v"),
            "select 1 -- + + +".into(),
        ] {
            check_text(&statement).unwrap();
        }
        for operator in [" + 1", "||'a'"] {
            let error = check_text(&format!("select 1{}", operator.repeat(1_500))).unwrap_err();
            assert!(error.to_string().contains("at most 1000"), "{operator}: {error}");
        }
        check_text(&format!("select a from t where b = 1{}", " or b = 1".repeat(900))).unwrap();
        for (first, operator) in [
            ("select 1", " + 1"),
            ("select a from t where b = 1", " or b = 1"),
            ("select 'a'", "||'a'"),
            ("select 1", "::int"),
            ("select [1]", "[1]"),
            ("select (s)", ".a"),
            ("select t.s", ".a"),
            ("select true", " is true"),
            ("select a", " at time zone 'utc'"),
            ("select 1", " union select 1"),
        ] {
            check_text(&format!("{first}{}", operator.repeat(100))).unwrap();
            let error = check_text(&format!("{first}{}", operator.repeat(len))).unwrap_err();
            assert!(error.to_string().contains("at most 2000"), "{operator}: {error}");
        }
    }
}
