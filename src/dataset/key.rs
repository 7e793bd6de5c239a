//! The comparable form of values.

use arrow_buffer::i256;

use crate::array::Value;

/// An owned, comparable form of a value.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(crate) enum Key {
    Int(i128),
    Float(f64),
    Decimal(i256),
    Bytes(Vec<u8>),
}

impl Key {
    /// The key of a value; `None` for nulls, NaN and types without an order.
    pub fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
                Key::Int((*n).into())
            }
            Value::UInt(n) => Key::Int((*n).into()),
            Value::Bool(b) => Key::Int((*b).into()),
            Value::Float32(x) if !x.is_nan() => Key::Float((*x).into()),
            Value::Float64(x) if !x.is_nan() => Key::Float(*x),
            Value::Decimal { digits, .. } => Key::Decimal(*digits),
            Value::Str(text) => Key::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => Key::Bytes(bytes.to_vec()),
            Value::Uuid(bytes) => Key::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_in_the_order_of_their_bytes() {
        let [low, high] = [[0; 16], [1; 16]].map(|bytes| Key::of(&Value::Uuid(&bytes)));
        assert!(low.is_some() && low < high);
    }
}
