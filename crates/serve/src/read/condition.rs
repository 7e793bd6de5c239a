//! Parses conditions on rows, as written in a URL: `price > 100 and symbol in ('IBM')`.
//!
//! ```text
//! any        := all ("or" all)*
//! all        := not ("and" not)*
//! not        := "not" not | comparison
//! comparison := sum (operator sum | ["not"] "in" list | "is" ["not"] kind)?
//! sum        := product (("+" | "-") product)*
//! product    := factor (("*" | "/" | "%") factor)*
//! factor     := "-" factor | "(" any ")" | number | column | text | "true" | "false" | "null" | "nan"
//! list       := "(" value ("," value)* ")"
//! kind       := "null" | "nan" | "as in row" number
//! ```
//!
//! [`Parser::expr`] parses all of these, with a [`Power`] for each of the first seven rules. What it parses is a
//! condition, a computed value, or a single token. The token's meaning depends on what stands beside it: in
//! `day = '2024-01-01'` the text is a date.

use std::iter::Peekable;
use std::str::CharIndices;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, Expression, JsonOptions, Literal, Operator, Predicate, Value, col, read_json_from};

use crate::http::Problem;

/// The maximum length of a condition in bytes.
const MAX_BYTES: usize = 8 << 10;
/// The maximum number of values in a condition.
const MAX_VALUES: usize = 1_000;
/// The maximum nesting depth of parentheses and `not`.
const MAX_DEPTH: usize = 64;
/// The maximum number of columns that are listed in an error.
const MAX_LISTED_COLUMNS: usize = 20;
/// The maximum total size in bytes of the values that a condition takes from rows (`is as in row`).
pub(crate) const MAX_ROW_VALUE_BYTES: usize = 32 << 20;

/// The problem with a condition, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError(String);

impl std::fmt::Display for ConditionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConditionError {}

impl From<ConditionError> for Problem {
    fn from(e: ConditionError) -> Problem {
        Problem::bad_request(format!("where: {e}"))
    }
}

type Result<T> = std::result::Result<T, ConditionError>;

fn error<T>(message: impl Into<String>) -> Result<T> {
    Err(ConditionError(message.into()))
}

/// Parses `text` as a predicate over rows of `schema`.
///
/// # Errors
/// The expected token and its position; or the name of a column that does not exist, or can't be compared with the
/// value.
pub fn parse_condition(text: &str, schema: &Arc<Schema>) -> Result<Predicate> {
    parse(text, schema, None)
}

/// Parses `text` as a predicate over `rows`, which may take values from these rows by their numbers. Blocks.
///
/// # Errors
/// The errors of [`parse_condition`], and an error for a row that does not exist.
pub(crate) fn parse_condition_on(text: &str, rows: &Dataset) -> Result<Predicate> {
    parse(text, rows.schema(), Some(rows))
}

fn parse(text: &str, schema: &Arc<Schema>, rows: Option<&Dataset>) -> Result<Predicate> {
    if text.len() > MAX_BYTES {
        return error(format!("a condition has at most {MAX_BYTES} bytes, got {}", text.len()));
    }
    let mut parser = Parser { tokens: tokens(text)?, position: 0, values: 0, row_value_bytes: 0, schema, rows };
    let whole = parser.expr(Power::Any, 0)?;
    let predicate = parser.condition(whole)?;
    if let Some(token) = parser.peek() {
        return expected("'and', 'or' or the end", Some(token));
    }
    check_types(&predicate, schema)?;
    Ok(predicate)
}

/// Checks that the columns can be compared this way, by filtering no rows.
fn check_types(predicate: &Predicate, schema: &Arc<Schema>) -> Result<()> {
    match Dataset::from_batches(schema.clone(), Vec::new()).and_then(|empty| empty.filter(predicate)) {
        Ok(_) => Ok(()),
        Err(e) => error(e.message()),
    }
}

// ---- tokens ----

/// A token, and where it is, for errors.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    kind: TokenKind,
    /// The number of its first character, counted from 1.
    start: usize,
}

/// The kind of a token, with its text.
#[derive(Clone, Debug, PartialEq)]
enum TokenKind {
    Word(String),
    /// `"…"`: a column, or text, if it is a value after a column.
    Quoted(String),
    /// `'…'`: text.
    Text(String),
    Number(String),
    Operator(Operator),
    /// `*`, `/` or `%`, and a separate `+` or `-`.
    Sign(char),
    Open,
    Close,
    Comma,
}

impl Token {
    fn is_word(&self, keyword: &str) -> bool {
        matches!(&self.kind, TokenKind::Word(word) if word.eq_ignore_ascii_case(keyword))
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            TokenKind::Word(word) | TokenKind::Number(word) => write!(f, "'{word}'")?,
            TokenKind::Quoted(text) => write!(f, "\"{text}\"")?,
            TokenKind::Text(text) => write!(f, "'{text}'")?,
            TokenKind::Operator(operator) => write!(f, "'{operator}'")?,
            TokenKind::Sign(sign) => write!(f, "'{sign}'")?,
            TokenKind::Open => f.write_str("'('")?,
            TokenKind::Close => f.write_str("')'")?,
            TokenKind::Comma => f.write_str("','")?,
        }
        write!(f, " at character {}", self.start)
    }
}

type Chars<'a> = Peekable<std::iter::Enumerate<CharIndices<'a>>>;

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut chars = text.char_indices().enumerate().peekable();
    let mut tokens = Vec::new();
    while let Some(&(number, (start, first))) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let kind = match first {
            '(' | ')' | ',' => {
                chars.next();
                match first {
                    '(' => TokenKind::Open,
                    ')' => TokenKind::Close,
                    _ => TokenKind::Comma,
                }
            }
            '*' | '/' | '%' => {
                chars.next();
                TokenKind::Sign(first)
            }
            '\'' => TokenKind::Text(quoted(&mut chars, number)?),
            '"' => TokenKind::Quoted(quoted(&mut chars, number)?),
            '=' | '!' | '<' | '>' => TokenKind::Operator(operator(&mut chars, number)?),
            _ if first.is_alphabetic() || first == '_' => {
                TokenKind::Word(take_while(text, start, &mut chars, is_word_char))
            }
            _ if first.is_ascii_digit() || "+-.".contains(first) => {
                match take_while(text, start, &mut chars, |c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
                    sign if ["+", "-"].contains(&sign.as_str()) => TokenKind::Sign(first),
                    digits => TokenKind::Number(digits),
                }
            }
            other => return error(format!("unexpected '{}' at character {}", other.escape_debug(), number + 1)),
        };
        tokens.push(Token { kind, start: number + 1 });
    }
    Ok(tokens)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Consumes the characters from byte `start` of `text` on for which `belongs` is true.
fn take_while(text: &str, start: usize, chars: &mut Chars<'_>, belongs: impl Fn(char) -> bool) -> String {
    let mut end = start;
    while let Some((_, (offset, c))) = chars.next_if(|(_, (_, c))| belongs(*c)) {
        end = offset + c.len_utf8();
    }
    text[start..end].to_owned()
}

/// Consumes a text between two quotes; a doubled quote inside stands for one.
fn quoted(chars: &mut Chars<'_>, number: usize) -> Result<String> {
    let quote = chars.next().map_or('\'', |(_, (_, c))| c);
    let mut text = String::new();
    while let Some((_, (_, c))) = chars.next() {
        if c != quote {
            text.push(c);
        } else if chars.next_if(|(_, (_, next))| *next == quote).is_some() {
            text.push(quote);
        } else {
            return Ok(text);
        }
    }
    error(format!("the quote at character {} is not closed", number + 1))
}

fn operator(chars: &mut Chars<'_>, number: usize) -> Result<Operator> {
    let first = chars.next().map_or('=', |(_, (_, c))| c);
    let second = chars.next_if(|(_, (_, c))| *c == '=' || (first == '<' && *c == '>')).map(|(_, (_, c))| c);
    match (first, second) {
        ('=', _) => Ok(Operator::Eq),
        ('!', Some(_)) | ('<', Some('>')) => Ok(Operator::Ne),
        ('<', None) => Ok(Operator::Lt),
        ('<', Some(_)) => Ok(Operator::Le),
        ('>', None) => Ok(Operator::Gt),
        ('>', Some(_)) => Ok(Operator::Ge),
        _ => error(format!("expected '!=' at character {}", number + 1)),
    }
}

// ---- grammar ----

/// The rules of the grammar by the power of their operators, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Power {
    Any,
    All,
    Not,
    Comparison,
    Sum,
    Product,
    Factor,
}

impl Power {
    /// Returns the power of the operator that `kind` is after an operand. The `-1` in `a -1` is one too, although it is
    /// a token of its own.
    fn from_token(kind: &TokenKind) -> Option<Power> {
        match kind {
            TokenKind::Word(word) => match word.to_ascii_lowercase().as_str() {
                "or" => Some(Power::Any),
                "and" => Some(Power::All),
                "is" | "in" | "not" => Some(Power::Comparison),
                _ => None,
            },
            TokenKind::Operator(_) => Some(Power::Comparison),
            TokenKind::Sign('*' | '/' | '%') => Some(Power::Product),
            TokenKind::Sign(_) => Some(Power::Sum),
            TokenKind::Number(digits) if digits.starts_with(['+', '-']) => Some(Power::Sum),
            _ => None,
        }
    }
}

/// A part of a condition.
enum Expr {
    Condition(Predicate),
    Computed(Expression),
    /// A column or a value, without parentheses.
    Token(Token),
}

impl Expr {
    /// Returns the name, if the part may be a column without parentheses.
    fn name(&self) -> Option<&str> {
        match self {
            Expr::Token(Token { kind: TokenKind::Word(name) | TokenKind::Quoted(name), .. }) => Some(name),
            _ => None,
        }
    }
}

/// Parses by the powers of operators.
struct Parser<'a> {
    tokens: Vec<Token>,
    /// The index of the next token.
    position: usize,
    /// The number of values so far.
    values: usize,
    /// The bytes of the values so far that were taken from rows.
    row_value_bytes: usize,
    schema: &'a Schema,
    /// The rows that `is as in row` refers to; `None` if there are none.
    rows: Option<&'a Dataset>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position)
    }

    fn next(&mut self) -> Option<Token> {
        self.position += 1;
        self.tokens.get(self.position - 1).cloned()
    }

    /// Consumes the next token if it is `keyword`, and returns true if it was.
    fn eat(&mut self, keyword: &str) -> bool {
        let is_next = self.peek().is_some_and(|token| token.is_word(keyword));
        self.position += usize::from(is_next);
        is_next
    }

    fn require(&mut self, kind: &TokenKind, what: &str) -> Result<()> {
        match self.next() {
            Some(token) if token.kind == *kind => Ok(()),
            other => expected(what, other.as_ref()),
        }
    }

    fn count_value(&mut self) -> Result<()> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return error(format!("a condition has at most {MAX_VALUES} values"));
        }
        Ok(())
    }

    /// Returns the number of column `name`, and its field.
    fn column(&self, name: &str) -> Result<(usize, &'a Field)> {
        if let Some(column) = self.schema.column_with_name(name) {
            return Ok(column);
        }
        let fields = self.schema.fields().iter().take(MAX_LISTED_COLUMNS);
        let names: Vec<_> = fields.map(|field| format!("'{}'", field.name())).collect();
        error(format!("there is no column '{name}'; there are {}", names.join(", ")))
    }

    /// Parses operands, and the operators between them that have at least the power `min`.
    fn expr(&mut self, min: Power, depth: usize) -> Result<Expr> {
        let mut left = self.operand(min, depth)?;
        while let Some(power) = self.peek().and_then(|token| Power::from_token(&token.kind)) {
            // Conditions can't be compared.
            if power < min || (power >= Power::Comparison && matches!(left, Expr::Condition(_))) {
                break;
            }
            left = match power {
                Power::Any => Expr::Condition(self.chain("or", left, Power::All, depth)?),
                Power::All => Expr::Condition(self.chain("and", left, Power::Not, depth)?),
                Power::Not | Power::Comparison => Expr::Condition(self.comparison(left, depth)?),
                Power::Sum | Power::Product | Power::Factor => Expr::Computed(self.arithmetic(left, depth)?),
            };
        }
        Ok(left)
    }

    /// Parses what an operator of a lower power than `min` can't be in: a token, a part in parentheses, or a part after
    /// `not` or `-`.
    fn operand(&mut self, min: Power, depth: usize) -> Result<Expr> {
        if depth > MAX_DEPTH {
            return error(format!("a condition is at most {MAX_DEPTH} deep"));
        }
        if min <= Power::Not && self.eat("not") {
            let inner = self.expr(Power::Not, depth + 1)?;
            return Ok(Expr::Condition(!self.condition(inner)?));
        }
        let what = match min {
            Power::Any | Power::All | Power::Not => "a column, 'not' or '('",
            Power::Comparison | Power::Sum => "a value",
            Power::Product | Power::Factor => "a number, a column or '('",
        };
        let Some(token) = self.next() else { return expected(what, None) };
        match token.kind {
            TokenKind::Open => {
                // A computed value has no conditions in it.
                let inner = self.expr(if min > Power::Comparison { Power::Sum } else { Power::Any }, depth + 1)?;
                self.require(&TokenKind::Close, "')'")?;
                if let Expr::Condition(_) = inner {
                    return Ok(inner);
                }
                self.count_value()?;
                self.computed(inner).map(Expr::Computed)
            }
            TokenKind::Sign('-') => {
                self.count_value()?;
                let inner = self.expr(Power::Factor, depth + 1)?;
                Ok(Expr::Computed(-self.computed(inner)?))
            }
            TokenKind::Operator(_) | TokenKind::Sign(_) | TokenKind::Close | TokenKind::Comma => {
                expected(what, Some(&token))
            }
            _ => Ok(Expr::Token(token)),
        }
    }

    /// Parses the rest of parts that are joined by `keyword`, and have operators of at least the power `min`.
    fn chain(&mut self, keyword: &str, first: Expr, min: Power, depth: usize) -> Result<Predicate> {
        let mut parts = vec![self.condition(first)?];
        while self.eat(keyword) {
            let part = self.expr(min, depth)?;
            parts.push(self.condition(part)?);
        }
        balanced(parts, if keyword == "or" { |a, b| a | b } else { |a, b| a & b })
    }

    /// Parses the rest of a comparison.
    fn comparison(&mut self, left: Expr, depth: usize) -> Result<Predicate> {
        let field = left.name().map(|name| self.column(name)).transpose()?.map(|(_, field)| field);
        if let Some(&Token { kind: TokenKind::Operator(operator), .. }) = self.peek() {
            self.position += 1;
            let right = self.expr(Power::Sum, depth)?;
            return match (field, right) {
                (Some(field), Expr::Token(token)) if !self.is_column(&token) => {
                    Ok(col(field.name()).compare(operator, self.value(Some(token), field)?))
                }
                (_, right) => Ok(self.computed(left)?.compare(operator, self.computed(right)?)),
            };
        }
        let Some(field) = field else { return expected("a comparison", self.peek()) };
        let is_kind = self.eat("is");
        let is_negated = self.eat("not");
        let predicate = if is_kind {
            self.kind_of_value(field.name())?
        } else if self.eat("in") {
            self.list(field)?
        } else {
            return expected("'in'", self.peek());
        };
        Ok(if is_negated { !predicate } else { predicate })
    }

    /// Returns true if the value after a comparison is a column. Quoted text is a value, and so are `true`, `nan` and
    /// the like, whatever columns exist.
    fn is_column(&self, token: &Token) -> bool {
        let is_value = ["true", "false", "null", "nan"].iter().any(|value| token.is_word(value));
        matches!(&token.kind, TokenKind::Word(name) if !is_value && self.schema.column_with_name(name).is_some())
    }

    /// Parses the sign after `left`, and what belongs to it.
    fn arithmetic(&mut self, left: Expr, depth: usize) -> Result<Expression> {
        let left = self.computed(left)?;
        let sign = match self.tokens.get_mut(self.position) {
            // The sign of a number after an operand is an operator, before what is left of the number.
            Some(Token { kind: TokenKind::Number(digits), start }) => {
                *start += 1;
                digits.remove(0)
            }
            Some(Token { kind: TokenKind::Sign(sign), .. }) => {
                self.position += 1;
                *sign
            }
            other => return expected("an operator", other.as_deref()),
        };
        let right = self.expr(if "+-".contains(sign) { Power::Product } else { Power::Factor }, depth)?;
        let right = self.computed(right)?;
        Ok(match sign {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            '/' => left / right,
            _ => left % right,
        })
    }

    /// Returns a part as a condition.
    fn condition(&self, part: Expr) -> Result<Predicate> {
        if let Some(name) = part.name() {
            self.column(name)?;
            return expected("a comparison, 'in' or 'is'", self.peek());
        }
        match part {
            Expr::Condition(predicate) => Ok(predicate),
            _ => expected("a comparison", self.peek()),
        }
    }

    /// Returns a part as a value of arithmetic, or of a comparison that has some.
    fn computed(&mut self, part: Expr) -> Result<Expression> {
        let token = match part {
            Expr::Computed(expression) => return Ok(expression),
            Expr::Condition(_) => return expected("'and', 'or' or the end", self.peek()),
            Expr::Token(token) => token,
        };
        self.count_value()?;
        match &token.kind {
            TokenKind::Number(digits) => number(digits, "", &DataType::Float64).map(Expression::from),
            TokenKind::Word(name) | TokenKind::Quoted(name) => Ok(col(self.column(name)?.1.name())),
            _ => expected("a number, a column or '('", Some(&token)),
        }
    }

    /// Parses the rest of a comparison of column `name` after `is` or `is not`.
    fn kind_of_value(&mut self, name: &str) -> Result<Predicate> {
        if self.eat("null") {
            return Ok(col(name).is_null());
        }
        if self.eat("nan") {
            return Ok(is_nan(name));
        }
        if !(self.eat("as") && self.eat("in") && self.eat("row")) {
            return expected("'null', 'nan' or 'as in row'", self.peek());
        }
        let token = self.next();
        let number = match token.as_ref().map(|token| &token.kind) {
            Some(TokenKind::Number(digits)) => digits.parse::<u64>().ok(),
            _ => None,
        };
        let Some(number) = number else { return expected("the number of a row", token.as_ref()) };
        self.as_in_row(name, number)
    }

    /// Returns the predicate for rows with the value that column `name` has in row `number`.
    fn as_in_row(&mut self, name: &str, number: u64) -> Result<Predicate> {
        let Some(rows) = self.rows else { return error("rows have no numbers here, but in their table or file") };
        let (column, field) = self.column(name)?;
        let first = rows.first_row();
        let end = first.saturating_add(rows.len().map_err(|e| row_error(number, &e))?);
        if number < first || number >= end {
            return error(format!("there is no row {number}; there are rows {first} to before {end}"));
        }
        let row = rows.row(number - first).map_err(|e| row_error(number, &e))?;
        let value = row.get(column).map_err(|e| row_error(number, &e))?;
        self.values += 1;
        self.row_value_bytes = self.row_value_bytes.saturating_add(size_of_value(&value));
        if self.values > MAX_VALUES || self.row_value_bytes > MAX_ROW_VALUE_BYTES {
            return error(format!(
                "a condition has at most {MAX_VALUES} values, and those of rows at most {MAX_ROW_VALUE_BYTES} bytes"
            ));
        }
        match equal(name, &value) {
            Some(predicate) => Ok(predicate),
            None => {
                let data_type = arrowwood::type_name(field.data_type());
                error(format!("column '{name}' of type {data_type} can't be compared with its value in row {number}"))
            }
        }
    }

    fn list(&mut self, field: &Field) -> Result<Predicate> {
        self.require(&TokenKind::Open, "'('")?;
        let mut values = Vec::new();
        loop {
            let value = self.next();
            values.push(self.value(value, field)?);
            match self.next() {
                Some(Token { kind: TokenKind::Comma, .. }) => (),
                Some(Token { kind: TokenKind::Close, .. }) => return Ok(col(field.name()).is_in(values)),
                other => return expected("',' or ')'", other.as_ref()),
            }
        }
    }

    /// Returns the value that `token` is beside the column of `field`.
    fn value(&mut self, token: Option<Token>, field: &Field) -> Result<Literal> {
        self.count_value()?;
        match token.as_ref().map(|token| &token.kind) {
            Some(TokenKind::Number(digits)) => number(digits, field.name(), field.data_type()),
            Some(TokenKind::Text(text) | TokenKind::Quoted(text)) => text_value(text, field.name(), field.data_type()),
            Some(TokenKind::Word(word)) => match word.to_ascii_lowercase().as_str() {
                "true" => Ok(true.into()),
                "false" => Ok(false.into()),
                "null" => Ok(Value::Null.into()),
                "nan" => Ok(f64::NAN.into()),
                _ => expected("a value (text stands in quotes)", token.as_ref()),
            },
            _ => expected("a value", token.as_ref()),
        }
    }
}

fn expected<T>(what: &str, got: Option<&Token>) -> Result<T> {
    match got {
        Some(token) => error(format!("expected {what}, got {token}")),
        None => error(format!("expected {what} at the end")),
    }
}

fn row_error(number: u64, e: &arrowwood::Error) -> ConditionError {
    ConditionError(format!("row {number}: {}", e.message()))
}

/// Returns the predicate for rows with `value`, which may be null or NaN, in column `name`; `None` if values of this
/// kind can't be compared.
pub(crate) fn equal(name: &str, value: &Value<'_>) -> Option<Predicate> {
    Some(match value {
        value if value.is_null() => col(name).is_null(),
        Value::Float32(x) if x.is_nan() => is_nan(name),
        Value::Float64(x) if x.is_nan() => is_nan(name),
        Value::List(_) | Value::Map(_) | Value::Struct(_) | Value::Union(..) | Value::Interval { .. } => return None,
        value => col(name).eq(Literal::from(value.clone())),
    })
}

/// Returns the predicate for rows with NaN in column `name`: NaN is not null, and above or equal to no number.
fn is_nan(name: &str) -> Predicate {
    !col(name).ge(f64::NEG_INFINITY)
}

/// Returns the bytes that a value takes as a literal.
pub(crate) fn size_of_value(value: &Value<'_>) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => size_of::<Literal>(),
    }
}

/// Joins all parts in a tree as shallow as possible, as predicates are evaluated recursively.
fn balanced(mut parts: Vec<Predicate>, join: impl Fn(Predicate, Predicate) -> Predicate) -> Result<Predicate> {
    while parts.len() > 1 {
        let mut joined = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(first) = rest.next() {
            joined.push(match rest.next() {
                Some(second) => join(first, second),
                None => first,
            });
        }
        parts = joined;
    }
    parts.pop().map_or_else(|| error("expected a condition"), Ok)
}

// ---- values ----

fn number(digits: &str, name: &str, data_type: &DataType) -> Result<Literal> {
    if is_temporal(data_type) {
        return typed(digits, digits, name, data_type);
    }
    Literal::parse_number(digits).ok_or_else(|| ConditionError(format!("'{digits}' is not a number")))
}

/// Converts text to a value of the column's type, for types without literals of their own.
fn text_value(text: &str, name: &str, data_type: &DataType) -> Result<Literal> {
    if let DataType::Dictionary(_, values) = data_type {
        return text_value(text, name, values);
    }
    if data_type.is_decimal() {
        return Literal::parse_number(text).ok_or_else(|| incomparable(text, name, data_type));
    }
    let has_own_form =
        is_temporal(data_type) || matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    if has_own_form {
        typed(&serde_json::Value::from(text).to_string(), text, name, data_type)
    } else {
        Ok(text.into())
    }
}

/// Returns true for dates, times and durations, which are written as text or as numbers.
pub(crate) fn is_temporal(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_))
}

/// Converts `json` to a value of the column's type, as in a row of JSON lines; errors quote it as `text`.
fn typed(json: &str, text: &str, name: &str, data_type: &DataType) -> Result<Literal> {
    let mut options = JsonOptions::default();
    options.schema = Some(Arc::new(Schema::new(vec![Field::new("value", data_type.clone(), true)])));
    let line = format!("{{\"value\":{json}}}");
    let read = read_json_from(line.as_bytes(), &options).and_then(|(_, batches)| {
        let row = Dataset::try_from(batches)?;
        let value = row.row(0)?.get(0)?;
        Ok(Literal::from(value))
    });
    read.map_err(|_| incomparable(text, name, data_type))
}

fn incomparable(text: &str, name: &str, data_type: &DataType) -> ConditionError {
    let advice = arrowwood::readable::utc_offset_advice(data_type, text);
    let data_type = arrowwood::type_name(data_type);
    ConditionError(format!("column '{name}' of type {data_type} can't be compared with '{text}'{advice}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::*;
    use arrow_schema::TimeUnit;

    use super::*;

    fn rows() -> Dataset {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(4)]))),
            ("price", Arc::new(Float64Array::from(vec![0.5, 99.0, 100.5, f64::NAN]))),
            (
                "symbol",
                Arc::new(DictionaryArray::<Int32Type>::from_iter([Some("IBM"), Some("it's"), None, Some("AAPL")])),
            ),
            ("a b,\"c\"", Arc::new(StringArray::from(vec!["x", "y", "z", ""]))),
            (
                "ts",
                Arc::new(TimestampMicrosecondArray::from(vec![0, 1_000_000, 86_400_000_000, -1]).with_timezone("UTC")),
            ),
            ("day", Arc::new(Date32Array::from(vec![0, 1, 2, 3]))),
            (
                "cents",
                Arc::new(Decimal128Array::from(vec![100, 150, 151, -1]).with_precision_and_scale(10, 2).unwrap()),
            ),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
            ("raw", Arc::new(BinaryArray::from(vec![&b"\x01"[..], b"\xff\x00", b"", b"\x02"]))),
        ];
        Dataset::try_from(vec![
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap(),
        ])
        .unwrap()
    }

    /// Returns the numbers of the matching rows.
    fn found(text: &str) -> Vec<u64> {
        let rows = rows();
        let predicate = parse_condition(text, rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let one = |row: &u64| rows.slice(*row, 1).unwrap().filter(&predicate).unwrap().len().unwrap() == 1;
        (0..4).filter(one).collect()
    }

    fn refused(text: &str) -> String {
        parse_condition(text, rows().schema()).map(|p| p.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn comparisons_match_rows() {
        for (text, expected) in [
            ("n = 2", &[1][..]),
            ("n==2", &[1]),
            ("n <> 2", &[0, 3]),
            ("n != 2 ", &[0, 3]),
            ("n >= 2", &[1, 3]),
            ("n < 2.5", &[0, 1]),
            ("n > -9223372036854775809", &[0, 1, 3]),
            ("price <= 9.9e1", &[0, 1]),
            ("price = nan", &[]),
            ("price is nan", &[3]),
            ("price is not nan", &[0, 1, 2]),
            ("n is nan or n = 4", &[3]),
            ("symbol = 'IBM'", &[0]),
            ("symbol = \"IBM\"", &[0]),
            ("symbol = 'it''s'", &[1]),
            ("symbol in ('IBM', \"AAPL\")", &[0, 3]),
            ("symbol not in ('IBM')", &[1, 3]),
            ("symbol is null", &[2]),
            ("symbol is not null", &[0, 1, 3]),
            ("\"a b,\"\"c\"\"\" = 'y'", &[1]),
            ("\"a b,\"\"c\"\"\" = ''", &[3]),
            ("ts >= '1970-01-01T00:00:01Z'", &[1, 2]),
            ("ts < 0", &[3]),
            ("day in ('1970-01-02', '1970-01-04')", &[1, 3]),
            ("cents > 1.5", &[2]),
            ("cents = '1.50'", &[1]),
            ("ok = true", &[0, 3]),
            ("ok = FALSE", &[1]),
            ("ok = null", &[]),
            ("raw = 'ff00'", &[1]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    /// As floats, all of these numbers would be equal.
    #[test]
    fn decimals_are_compared_exactly() {
        let digits = [1_123_456_789_012_345_678, 1_123_456_789_012_345_679, 1_500_000_000_000_000_000];
        let narrow = Decimal128Array::from(digits.to_vec()).with_precision_and_scale(38, 18).unwrap();
        let wide = digits.map(arrow_buffer::i256::from_i128);
        let wide = Decimal256Array::from(wide.to_vec()).with_precision_and_scale(76, 18).unwrap();
        let named = DictionaryArray::<Int32Type>::new(vec![0, 1, 2].into(), Arc::new(narrow.clone()));
        let numbers = Int64Array::from(vec![9_007_199_254_740_992, 9_007_199_254_740_993, 3]);
        let floats = Float64Array::from(vec![0.1, 0.5, 1e300]);
        let rows = RecordBatch::try_from_iter([
            ("m", Arc::new(narrow) as ArrayRef),
            ("wide", Arc::new(wide)),
            ("named", Arc::new(named)),
            ("n", Arc::new(numbers)),
            ("x", Arc::new(floats)),
        ]);
        let rows = Dataset::try_from(vec![rows.unwrap()]).unwrap();
        let check = |text: &str, expected: &[u64]| {
            let predicate = parse_condition(text, rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
            let is_found = |row: &u64| rows.slice(*row, 1).unwrap().filter(&predicate).unwrap().len().unwrap() == 1;
            assert_eq!((0..3).filter(is_found).collect::<Vec<_>>(), expected, "{text}");
        };
        for column in ["m", "wide", "named"] {
            for (condition, expected) in [
                ("= 1.123456789012345678", &[0][..]),
                ("= '1.123456789012345678'", &[0]),
                ("<= 1.123456789012345678", &[0]),
                ("< '1.123456789012345679'", &[0]),
                ("> 1.1234567890123456785", &[1, 2]),
                ("> 1123456789012345678e-18", &[1, 2]),
                ("in (1.123456789012345679, '1.50')", &[1, 2]),
                ("!= 15e-1", &[0, 1]),
                ("= (1.123456789012345679)", &[1]),
                ("> -1.5", &[0, 1, 2]),
                ("< 1e300", &[0, 1, 2]),
                ("< 1e-300", &[]),
            ] {
                check(&format!("{column} {condition}"), expected);
            }
            check(&format!("1.123456789012345678 < {column}"), &[1, 2]);
        }
        check("n > 9007199254740992.5", &[1]);
        check("n >= 9007199254740993.0", &[1]);
        check("x = 0.1", &[0]);
        check("x > 0.1 and x < 1.0e300", &[1]);
        check("x * 2.0 = 0.2", &[0]);
        let refused = |text: &str| parse_condition(text, rows.schema()).unwrap_err().to_string();
        assert!(refused("m = '1.5x'").contains("column 'm' of type decimal128(38, 18) can't be compared with '1.5x'"));
        assert!(refused("m = 1.5x").contains("'1.5x' is not a number"));
    }

    #[test]
    fn arithmetic_can_be_compared() {
        for (text, expected) in [
            ("price * n > 100", &[1][..]),
            ("n + 1 = 3", &[1]),
            ("n -1 = 1", &[1]),
            ("(n + 1) * 2 >= 6", &[1, 3]),
            ("2 * n = 8", &[3]),
            ("8 = n * 2", &[3]),
            ("- n < 0", &[0, 1, 3]),
            ("n % 2 = 0 and n / 4 < 1", &[1]),
            ("not (n - 1 = 0)", &[1, 3]),
            ("n > price", &[0]),
            ("n >= n + 0", &[0, 1, 3]),
            ("(n > price or n = 2)", &[0, 1]),
            ("((n + 1)) > 2 and (price > 1)", &[1]),
            ("cents >= cents", &[]),
            ("ts > ts", &[]),
            ("symbol = symbol", &[0, 1, 3]),
            ("n = 2 -1 % 3", &[0]),
            ("2 -1 % 3 = n", &[0]),
            ("n -1 -1 * 2 = 1", &[3]),
            ("n +1 % 2 = 3", &[1]),
            ("n - -1 = 3", &[1]),
            ("n > - price", &[0, 1]),
            ("n = - (1 -2) + 1", &[1]),
        ] {
            if text.starts_with("cents") {
                assert!(refused(text).contains("ask DuckDB or Polars"));
                continue;
            }
            assert_eq!(found(text), expected, "{text}");
        }
        for (text, says) in [
            ("n * > 1", "expected a number, a column or '(', got '>' at character 5"),
            ("n + 1", "expected a comparison at the end"),
            ("n + 1 in (2)", "expected a comparison, got 'in' at character 7"),
            ("(n + 1 > 2", "expected ')' at the end"),
            ("symbol * 2 > 1", "a column of numbers is expected"),
            ("n * 2 = x", "there is no column 'x'; there are 'n', 'price'"),
        ] {
            let error = refused(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(refused(&format!("{}n{} > 1", "(".repeat(200), " * 2)".repeat(200))).contains("deep"));
        assert!(refused(&format!("n{} > 1", " + 1".repeat(900))).contains("at most 256 operations"));
        assert!(refused(&format!("n{} > 1", " + 1".repeat(1_100))).contains("1000 values"));
    }

    /// Adding a column to a table changes no existing condition.
    #[test]
    fn values_take_precedence_over_columns_of_the_same_name() {
        let texts = |values: [&str; 4]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let rows = RecordBatch::try_from_iter([
            ("symbol", texts(["venue", "b", "c", "d"])),
            ("venue", texts(["x", "b", "y", "z"])),
            ("ok", Arc::new(BooleanArray::from(vec![true, false, true, false])) as ArrayRef),
            ("true", Arc::new(BooleanArray::from(vec![false, true, true, false]))),
            ("n", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
            ("a b", Arc::new(Int64Array::from(vec![2, 2, 2, 2]))),
        ]);
        let rows = Dataset::try_from(vec![rows.unwrap()]).unwrap();
        for (text, expected) in [
            ("symbol = \"venue\"", &[0][..]),
            ("symbol = 'venue'", &[0]),
            ("symbol in (\"venue\")", &[0]),
            ("symbol = venue", &[1]),
            ("symbol = (\"venue\")", &[1]),
            ("\"symbol\" = venue", &[1]),
            ("ok = true", &[0, 2]),
            ("ok = (\"true\")", &[2, 3]),
            ("n > (\"a b\")", &[2, 3]),
            ("n > \"a b\" + 1", &[3]),
            ("n + 1 > \"a b\" * 2", &[3]),
        ] {
            let predicate = parse_condition(text, rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
            let is_found = |row: &u64| rows.slice(*row, 1).unwrap().filter(&predicate).unwrap().len().unwrap() == 1;
            assert_eq!((0..4).filter(is_found).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn not_binds_closest_then_and_then_or() {
        assert_eq!(found("n = 1 or n = 2 and price > 1000"), [0]);
        assert_eq!(found("(n = 1 or n = 2) and price > 50"), [1]);
        assert_eq!(found("not n = 1 and n < 4"), [1]);
        assert_eq!(found("NOT (n = 1 Or n = 2)"), [3]);
        assert_eq!(found("not not n = 1"), [0]);
    }

    #[test]
    fn errors_name_the_expected_token_and_its_position() {
        for (text, says) in [
            ("", "expected a column, 'not' or '(' at the end"),
            ("n", "expected a comparison, 'in' or 'is' at the end"),
            ("n = ", "expected a value at the end"),
            ("n = IBM", "expected a value (text stands in quotes), got 'IBM' at character 5"),
            ("n = 1 n", "expected 'and', 'or' or the end, got 'n' at character 7"),
            ("(n = 1", "expected ')' at the end"),
            ("n in ()", "expected a value, got ')' at character 7"),
            ("n not = 1", "expected 'in', got '==' at character 7"),
            ("n is 1", "expected 'null', 'nan' or 'as in row', got '1' at character 6"),
            ("n is as row 1", "expected 'null', 'nan' or 'as in row', got 'row' at character 9"),
            ("n is as in row", "expected the number of a row at the end"),
            ("n is as in row -1", "expected the number of a row, got '-1' at character 16"),
            ("n is as in row 1", "rows have no numbers here"),
            ("symbol is nan", "can't be compared with -inf"),
            ("x = 1", "there is no column 'x'; there are 'n', 'price'"),
            ("n = 'a", "the quote at character 5 is not closed"),
            ("n ! 1", "expected '!=' at character 3"),
            ("n = 1; drop", "unexpected ';' at character 6"),
            ("n = 1\0", "unexpected '\\0' at character 6"),
            ("n = 1..2", "'1..2' is not a number"),
            ("n = 'x'", "column 'n' of type int64 can't be compared with \"x\""),
            ("ts = 'yesterday'", "column 'ts' of type timestamp[us, UTC] can't be compared with 'yesterday'"),
            ("day = 1.5", "column 'day' of type date32 can't be compared with '1.5'"),
            ("symbol = 1", "can't be compared with 1"),
        ] {
            let error = refused(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    /// Only operators of a value can stand in a value, and conditions can't be compared.
    #[test]
    fn conditions_are_no_values() {
        for (text, says) in [
            ("n = 1 = 2", "expected 'and', 'or' or the end, got '==' at character 7"),
            ("(n = 1) + 1 = 2", "expected 'and', 'or' or the end, got '+' at character 9"),
            ("n = (n = 1)", "expected ')', got '==' at character 8"),
            ("n = not n", "expected a value (text stands in quotes), got 'not' at character 5"),
            ("n in (1) is null", "expected 'and', 'or' or the end, got 'is' at character 10"),
            ("(n) in (1)", "expected a comparison, got 'in' at character 5"),
            ("n + 1 and n = 1", "expected a comparison, got 'and' at character 7"),
            ("not n", "expected a comparison, 'in' or 'is' at the end"),
            ("'IBM' = symbol", "expected a number, a column or '(', got 'IBM' at character 1"),
        ] {
            let error = refused(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn oversized_conditions_are_refused() {
        assert!(refused(&"(".repeat(10_000)).contains("8192 bytes"));
        assert!(refused(&format!("{}n = 1", "not ".repeat(100))).contains("deep"));
        assert!(refused(&"(".repeat(8_000)).contains("deep"));
        assert!(refused(&"- ".repeat(4_000)).contains("deep"));
        let nested = |depth: usize| format!("{}n = 1{}", "n = 3 or n = 2 and (".repeat(depth), ")".repeat(depth));
        assert_eq!(found(&nested(64)), [] as [u64; 0]);
        assert!(refused(&nested(65)).contains("deep"));
        let many = vec!["1"; 1_001].join(",");
        assert!(refused(&format!("n in ({many})")).contains("1000 values"));
        let chain = vec!["n=1"; 1_000].join(" or ");
        assert_eq!(found(&chain), [0]);
    }

    #[test]
    fn times_are_converted_to_the_unit_of_their_column() {
        for unit in [TimeUnit::Second, TimeUnit::Nanosecond] {
            let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Timestamp(unit, None), true)]));
            parse_condition("t > '2024-01-01T00:00:00'", &schema).unwrap();
        }
    }

    /// A part of a random condition: its text, and its values in the four rows of [`numbers`], which are computed here
    /// and not parsed.
    struct Part<T> {
        text: String,
        /// The level of the operator, weakest first.
        level: u8,
        values: [Option<T>; 4],
    }

    const OR: u8 = 0;
    const AND: u8 = 1;
    const NOT: u8 = 2;
    const COMPARISON: u8 = 3;
    const SUM: u8 = 4;
    const PRODUCT: u8 = 5;
    const FACTOR: u8 = 6;

    const A: [Option<i64>; 4] = [Some(1), Some(-2), None, Some(3)];
    const B: [Option<i64>; 4] = [Some(1), None, None, Some(-4)];

    fn numbers() -> Dataset {
        let columns = [("a", A), ("b c", B)].map(|(name, values)| {
            let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            (name, column, true)
        });
        Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]).unwrap()
    }

    impl<T: Copy> Part<T> {
        fn new(text: impl Into<String>, level: u8, values: [Option<T>; 4]) -> Part<T> {
            Part { text: text.into(), level, values }
        }

        /// Returns the text as an operand of an operator, in parentheses if its own operator is weaker than `level`.
        fn within(&self, level: u8) -> String {
            if self.level < level { format!("({})", self.text) } else { self.text.clone() }
        }

        /// Returns the values of an operator, which is null if an operand is null.
        fn zip<R>(&self, other: &Part<T>, operator: impl Fn(T, T) -> R) -> [Option<R>; 4] {
            std::array::from_fn(|row| self.values[row].zip(other.values[row]).map(|(a, b)| operator(a, b)))
        }
    }

    /// Makes a number from random bytes; their end makes a column.
    fn random_number(dice: &mut impl Iterator<Item = u8>, depth: usize) -> Part<i64> {
        let roll = dice.next().unwrap_or(0);
        match roll % 8 {
            3 => {
                let value = i64::from(roll / 8) - 9;
                Part::new(value.to_string(), FACTOR, [Some(value); 4])
            }
            4 if depth > 0 => {
                let inner = random_number(dice, depth - 1);
                Part::new(format!("- {}", inner.within(FACTOR)), FACTOR, inner.values.map(|x| x.map(|x| -x)))
            }
            5.. if depth > 0 => {
                let (left, right) = (random_number(dice, depth - 1), random_number(dice, depth - 1));
                let (sign, level, values) = match roll % 8 {
                    5 => ('+', SUM, left.zip(&right, |a, b| a + b)),
                    6 => ('-', SUM, left.zip(&right, |a, b| a - b)),
                    _ => ('*', PRODUCT, left.zip(&right, |a, b| a * b)),
                };
                Part::new(format!("{} {sign} {}", left.within(level), right.within(level + 1)), level, values)
            }
            1 => Part::new("(\"b c\")", FACTOR, B),
            _ => Part::new("a", FACTOR, A),
        }
    }

    /// Makes a condition from random bytes; their end makes a comparison.
    fn random_condition(dice: &mut impl Iterator<Item = u8>, depth: usize) -> Part<bool> {
        let roll = dice.next().unwrap_or(0);
        match roll % 8 {
            4 if depth > 0 => {
                let inner = random_condition(dice, depth - 1);
                Part::new(format!("not {}", inner.within(NOT)), NOT, inner.values.map(|x| x.map(|x| !x)))
            }
            5 | 6 if depth > 0 => {
                let (left, right) = (random_condition(dice, depth - 1), random_condition(dice, depth - 1));
                let [a, b] = [left.values, right.values];
                // A false part decides about "and" whatever the other one is, as a true one does about "or".
                let (word, level, decides) = if roll % 8 == 5 { ("AND", AND, false) } else { ("or", OR, true) };
                let values = std::array::from_fn(|row| match (a[row], b[row]) {
                    (a, b) if a == Some(decides) || b == Some(decides) => Some(decides),
                    (a, b) => a.and(b).map(|_| !decides),
                });
                Part::new(format!("{} {word} {}", left.within(level), right.within(level)), level, values)
            }
            2 => Part::new("\"b c\" not in (1, -4)", COMPARISON, B.map(|b| b.map(|b| ![1, -4].contains(&b)))),
            3 => Part::new("a is not null", COMPARISON, A.map(|a| Some(a.is_some()))),
            _ => {
                let (left, right) = (random_number(dice, depth), random_number(dice, depth));
                let (operator, values) = match roll / 8 % 3 {
                    0 => ("=", left.zip(&right, |a, b| a == b)),
                    1 => ("<>", left.zip(&right, |a, b| a != b)),
                    _ => (">=", left.zip(&right, |a, b| a >= b)),
                };
                Part::new(format!("{} {operator} {}", left.within(SUM), right.within(SUM)), COMPARISON, values)
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_parses_or_is_rejected(text in "[na('\"=<> !ornotis)0-9.,*%/+-]{0,60}") {
            let _ = parse_condition(&text, rows().schema());
        }

        #[test]
        fn random_conditions_match_the_rows_they_should(dice in proptest::collection::vec(0..=255_u8, 0..80)) {
            let Part { text, values, .. } = random_condition(&mut dice.into_iter(), 5);
            let rows = numbers();
            let predicate = parse_condition(&text, rows.schema()).unwrap_or_else(|e| panic!("{text}: {e}"));
            let expected: Vec<u64> = (0..4).filter(|row| values[*row as usize] == Some(true)).collect();
            proptest::prop_assert_eq!(rows.matching_rows(&predicate).unwrap(), expected, "{}", text);
        }
    }
}
