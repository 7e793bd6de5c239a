//! How large a statement may be. DataFusion plans chains of operators by recursion, and in a time that grows with their
//! square; neither can be interrupted.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// The most operators and keywords.
const OPERATORS: usize = 2_000;
/// The most operators that compute: a chain of these takes the longest, about a second.
const COMPUTING: usize = 1_000;
/// The most mentions of tables.
const TABLES: usize = 64;

/// Refuses a statement with too many operators and keywords.
pub(crate) fn check_text(text: &str) -> Result<()> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.map_err(|e| DataFusionError::Plan(format!("reading the statement: {e}")))?;
    let tokens: Vec<_> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let mut linking = Vec::new();
    let (mut last, mut second) = (&Token::EOF, &Token::EOF);
    for token in tokens {
        if links(token, last, second) {
            linking.push(token);
        }
        (last, second) = (token, last);
    }
    let count = linking.len();
    if count > OPERATORS {
        return plan_err!("the statement has {count} operators and keywords; at most {OPERATORS} are expected");
    }
    let computing = linking.iter().filter(|token| computes(token)).count();
    if computing > COMPUTING {
        return plan_err!("the statement has {computing} operators that compute; at most {COMPUTING} are expected");
    }
    Ok(())
}

/// Returns true if a token may make an expression or a query deeper; `last` and `second` are the tokens before it.
fn links(token: &Token, last: &Token, second: &Token) -> bool {
    match token {
        Token::Word(word) => {
            !matches!(word.keyword, Keyword::NoKeyword | Keyword::AS | Keyword::NULL | Keyword::TRUE | Keyword::FALSE)
        }
        // A column of a table, and not a field of a field.
        Token::Period => !matches!(last, Token::Word(_)) || *second == Token::Period,
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

/// Returns true if an operator does more than compare.
fn computes(token: &Token) -> bool {
    let is_comparison = matches!(token, Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq);
    !is_comparison && !matches!(token, Token::Word(_))
}

/// Refuses a plan of too many tables, whose joins would be put in order.
pub(crate) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let mut tables = 0;
    plan.apply_with_subqueries(|node| {
        tables += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if tables > TABLES {
        return plan_err!("the statement mentions tables {tables} times; at most {TABLES} are expected");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_refused_and_lists_are_not() {
        let many = 3_000;
        let numbers = (0..many).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let columns = (0..many).map(|n| format!("t.c{n} as d{n}")).collect::<Vec<_>>().join(", ");
        let rows = (0..many).map(|n| format!("({n}, 'and', null, true)")).collect::<Vec<_>>().join(", ");
        for text in [
            format!("select a from t where b in ({numbers})"),
            format!("select {columns} from t"),
            format!("select * from (values {rows}) v"),
            "select 1 -- + + +".into(),
        ] {
            check_text(&text).unwrap();
        }
        for next in [" + 1", "||'a'"] {
            let refused = check_text(&format!("select 1{}", next.repeat(1_500))).unwrap_err();
            assert!(refused.to_string().contains("at most 1000"), "{next}: {refused}");
        }
        check_text(&format!("select a from t where b = 1{}", " or b = 1".repeat(900))).unwrap();
        for (first, next) in [
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
            check_text(&format!("{first}{}", next.repeat(100))).unwrap();
            let refused = check_text(&format!("{first}{}", next.repeat(many))).unwrap_err();
            assert!(refused.to_string().contains("at most 2000"), "{next}: {refused}");
        }
    }
}
