//! The comparable form of values.

use arrow_buffer::i256;

use crate::array::Value;

/// An owned form of a value, for comparisons. Only values of the same variant can be compared: values of one column, or
/// of two columns of the same type.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(crate) enum ComparableValue {
    Int(i128),
    Float(f64),
    Decimal(i256),
    Bytes(Vec<u8>),
}

impl ComparableValue {
    /// Returns the key of a value; `None` for nulls, NaN and types without an order.
    pub fn from_value(value: &Value<'_>) -> Option<ComparableValue> {
        Some(match value {
            Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
                ComparableValue::Int((*n).into())
            }
            Value::UInt(n) => ComparableValue::Int((*n).into()),
            Value::Bool(b) => ComparableValue::Int((*b).into()),
            Value::Float32(x) if !x.is_nan() => ComparableValue::Float((*x).into()),
            Value::Float64(x) if !x.is_nan() => ComparableValue::Float(*x),
            Value::Decimal { digits, .. } => ComparableValue::Decimal(*digits),
            Value::Str(text) => ComparableValue::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => ComparableValue::Bytes(bytes.to_vec()),
            Value::Uuid(bytes) => ComparableValue::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_ordered_by_their_bytes() {
        let [low, high] = [[0; 16], [1; 16]].map(|bytes| ComparableValue::from_value(&Value::Uuid(&bytes)));
        assert!(low.is_some() && low < high);
    }
}
