//! Describes the values that columns are compared with, and the comparisons.

use std::fmt;

use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

use crate::array::{Value, time_zone_advice};
use crate::escape::escape_hidden;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Operator {
    /// Returns true for a comparison by order, and false for equality and inequality.
    pub(super) fn is_order(self) -> bool {
        !matches!(self, Operator::Eq | Operator::Ne)
    }

    /// Returns the comparison that holds where this one does not.
    pub(super) fn negated(self) -> Operator {
        match self {
            Operator::Eq => Operator::Ne,
            Operator::Ne => Operator::Eq,
            Operator::Lt => Operator::Ge,
            Operator::Le => Operator::Gt,
            Operator::Gt => Operator::Le,
            Operator::Ge => Operator::Lt,
        }
    }

    /// Returns the comparison that holds for the same two sides when these are exchanged.
    pub(super) fn turned(self) -> Operator {
        match self {
            Operator::Lt => Operator::Gt,
            Operator::Le => Operator::Ge,
            Operator::Gt => Operator::Lt,
            Operator::Ge => Operator::Le,
            Operator::Eq | Operator::Ne => self,
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Eq => "==",
            Operator::Ne => "!=",
            Operator::Lt => "<",
            Operator::Le => "<=",
            Operator::Gt => ">",
            Operator::Ge => ">=",
        })
    }
}

/// An owned value for comparisons with columns.
///
/// A [`Value::Timestamp`] with an empty zone can be compared with columns in UTC and without a zone.
#[derive(Clone, Debug)]
pub struct Literal(pub(in crate::compute) LiteralValue);

/// The value of a literal. Integers of all widths are of one kind, and so are floats.
#[derive(Clone, Debug)]
pub(in crate::compute) enum LiteralValue {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Decimal(i256, i8),
    Number(NumberLiteral),
    Str(String),
    Bytes(Vec<u8>),
    Date(i64),
    Time(i64, TimeUnit),
    /// With its time zone, as in [`Value::Timestamp`].
    Timestamp(i64, TimeUnit, Option<String>),
    Duration(i64, TimeUnit),
    /// Describes a value that can't be compared.
    Other(String),
}

/// A number in decimal notation: the nearest float, and exactly `digits × 10^exponent`.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute) struct NumberLiteral {
    pub float: f64,
    pub digits: i256,
    pub exponent: i32,
}

impl NumberLiteral {
    /// Parses digits with or without a sign, a point and an exponent; `None` for other text, and for more digits than
    /// 76.
    fn parse(text: &str) -> Option<NumberLiteral> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        let digits = format!("{whole}{fraction}");
        let digits = if fraction.is_empty() && ["", "-", "+"].contains(&whole) { "0" } else { &digits };
        Some(NumberLiteral { float: text.parse().ok()?, digits: i256::from_string(digits)?, exponent })
    }

    /// Returns the number with the opposite sign.
    pub(super) fn negated(self) -> NumberLiteral {
        // The number has at most 76 digits, so its negative fits.
        NumberLiteral { float: -self.float, digits: self.digits.wrapping_neg(), ..self }
    }
}

impl From<Value<'_>> for Literal {
    fn from(value: Value<'_>) -> Literal {
        Literal(match value {
            Value::Null => LiteralValue::Null,
            Value::Bool(flag) => LiteralValue::Bool(flag),
            Value::Int(number) => LiteralValue::Int(number.into()),
            Value::UInt(number) => LiteralValue::Int(number.into()),
            Value::Int128(number) => LiteralValue::Int(number),
            Value::Float32(number) => LiteralValue::Float(number.into()),
            Value::Float64(number) => LiteralValue::Float(number),
            Value::Decimal { digits, scale } => LiteralValue::Decimal(digits, scale),
            Value::Str(text) => LiteralValue::Str(text.into()),
            Value::Bytes(bytes) => LiteralValue::Bytes(bytes.into()),
            Value::Uuid(bytes) => LiteralValue::Bytes(bytes.to_vec()),
            Value::Date(days) => LiteralValue::Date(days),
            Value::Time(time, unit) => LiteralValue::Time(time, unit),
            Value::Timestamp(time, unit, zone) => LiteralValue::Timestamp(time, unit, zone.map(Into::into)),
            Value::Duration(length, unit) => LiteralValue::Duration(length, unit),
            other => LiteralValue::Other(other.to_string()),
        })
    }
}

impl Literal {
    /// Parses a number such as `12.50` or `-1e-3`.
    ///
    /// Integers and decimals are compared with exactly that number, if it has up to 76 digits, and floats with the
    /// nearest float. Returns `None` if `text` is no number; the names of special floats are no numbers.
    pub fn parse_number(text: &str) -> Option<Literal> {
        if let Ok(whole) = text.parse::<i128>() {
            return Some(Literal(LiteralValue::Int(whole)));
        }
        let float = text.parse::<f64>().ok().filter(|_| text.contains(|c: char| c.is_ascii_digit()))?;
        Some(Literal(NumberLiteral::parse(text).map_or(LiteralValue::Float(float), LiteralValue::Number)))
    }

    /// Returns true if no value comes before or after it.
    pub(in crate::compute) fn is_unordered(&self) -> bool {
        matches!(&self.0, LiteralValue::Null | LiteralValue::Other(_))
            || matches!(&self.0, LiteralValue::Float(number) if number.is_nan())
    }

    /// Returns advice for an error: what to do about a column that can't be compared with the literal.
    pub(super) fn advice(&self, data_type: &DataType) -> &'static str {
        match &self.0 {
            LiteralValue::Timestamp(time, unit, zone) => {
                time_zone_advice(data_type, &Value::Timestamp(*time, *unit, zone.as_deref()))
            }
            LiteralValue::Date(days) => time_zone_advice(data_type, &Value::Date(*days)),
            LiteralValue::Str(_) if data_type.is_temporal() => {
                "; compare it with a time instead of text, as by datetime.fromisoformat(…) in Python"
            }
            _ => "",
        }
    }
}

macro_rules! literals {
    ($($type:ty => $variant:ident;)*) => {
        $(impl From<$type> for Literal {
            fn from(value: $type) -> Literal {
                Literal(LiteralValue::$variant(value.into()))
            }
        })*
    };
}

literals! {
    bool => Bool;
    i32 => Int;
    u32 => Int;
    i64 => Int;
    u64 => Int;
    f32 => Float;
    f64 => Float;
    &str => Str;
    String => Str;
    Vec<u8> => Bytes;
    &[u8] => Bytes;
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LiteralValue::Null => f.write_str("null"),
            LiteralValue::Bool(flag) => write!(f, "{flag}"),
            LiteralValue::Int(number) => write!(f, "{number}"),
            LiteralValue::Float(number) => write!(f, "{number:?}"),
            LiteralValue::Number(NumberLiteral { digits, exponent, .. }) => {
                match i8::try_from(exponent.saturating_neg()) {
                    Ok(scale) => write!(f, "{}", Value::Decimal { digits: *digits, scale }),
                    Err(_) => write!(f, "{digits}e{exponent}"),
                }
            }
            LiteralValue::Decimal(digits, scale) => write!(f, "{}", Value::Decimal { digits: *digits, scale: *scale }),
            LiteralValue::Str(text) => write!(f, "{text:?}"),
            LiteralValue::Bytes(bytes) => write!(f, "{bytes:?}"),
            LiteralValue::Date(days) => write!(f, "{}", Value::Date(*days)),
            LiteralValue::Time(time, unit) => write!(f, "{}", Value::Time(*time, *unit)),
            LiteralValue::Timestamp(time, unit, zone) => {
                let zone = zone.as_deref().filter(|zone| !zone.is_empty());
                write!(f, "{}", escape_hidden(&Value::Timestamp(*time, *unit, zone).to_string()))
            }
            LiteralValue::Duration(length, unit) => write!(f, "{}", Value::Duration(*length, *unit)),
            LiteralValue::Other(shown) => f.write_str(&escape_hidden(shown)),
        }
    }
}
