//! Converts integers and floats to a wider type that contains all of their values.

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

use super::buffer::to_array;

/// Generates the two functions below from one list of types.
macro_rules! widenings {
    ($($from:ident as $from_type:ty, back by $back:expr => $($to:ident as $to_type:ty),+;)+) => {
        /// Returns true if `to` is a wider type that contains all values of `from`.
        pub(crate) fn is_wider(from: &DataType, to: &DataType) -> bool {
            matches!((from, to), $($((DataType::$from, DataType::$to))|+)|+)
        }

        /// Returns the values of `array` converted to the wider type `to`; `None` if it is not wider.
        pub(crate) fn widened(array: &ArrayData, to: &DataType) -> Option<ArrayData> {
            match (array.data_type(), to) {
                $($((DataType::$from, DataType::$to) => copied::<$from_type, $to_type>(array, Into::into),)+)+
                _ => None,
            }
        }

        /// Returns the values of `array`, which were widened, converted back to their previous type; `None` if its type
        /// is not wider than `to`.
        #[cfg(feature = "table")]
        pub(crate) fn narrowed(array: &ArrayData, to: &DataType) -> Option<ArrayData> {
            match (array.data_type(), to) {
                $($((DataType::$to, DataType::$from) => copied::<$to_type, $from_type>(array, $back),)+)+
                _ => None,
            }
        }
    };
}

widenings! {
    Int8 as Int8Type, back by |wide| wide as i8 => Int16 as Int16Type, Int32 as Int32Type, Int64 as Int64Type;
    Int16 as Int16Type, back by |wide| wide as i16 => Int32 as Int32Type, Int64 as Int64Type;
    Int32 as Int32Type, back by |wide| wide as i32 => Int64 as Int64Type;
    UInt8 as UInt8Type, back by |wide| wide as u8 => UInt16 as UInt16Type, UInt32 as UInt32Type, UInt64 as UInt64Type,
        Int16 as Int16Type, Int32 as Int32Type, Int64 as Int64Type;
    UInt16 as UInt16Type, back by |wide| wide as u16 => UInt32 as UInt32Type, UInt64 as UInt64Type, Int32 as Int32Type,
        Int64 as Int64Type;
    UInt32 as UInt32Type, back by |wide| wide as u32 => UInt64 as UInt64Type, Int64 as Int64Type;
    Float16 as Float16Type, back by f16::from_f32 => Float32 as Float32Type;
    Float16 as Float16Type, back by f16::from_f64 => Float64 as Float64Type;
    Float32 as Float32Type, back by |wide| wide as f32 => Float64 as Float64Type;
}

fn copied<F: ArrowPrimitiveType, T: ArrowPrimitiveType>(
    array: &ArrayData,
    convert: impl Fn(F::Native) -> T::Native,
) -> Option<ArrayData> {
    // The buffers may be unaligned.
    let aligned: ArrayRef = to_array(array.clone());
    let typed = aligned.as_any().downcast_ref::<PrimitiveArray<F>>()?;
    let values = typed.values().iter().map(|&value| convert(value)).collect();
    let converted: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values, typed.nulls().cloned()));
    assert_eq!(converted.len(), array.len(), "conversion has lost or added values");
    Some(converted.to_data())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Int8Array, UInt32Array};

    use super::*;
    use crate::array::{UncheckedArray, slice, value};

    #[test]
    fn widening_keeps_values() {
        let arrays: [ArrayRef; 3] = [
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(-1), Some(0), Some(i8::MAX)])),
            Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX), Some(1), Some(1 << 31)])),
            Arc::new(Float32Array::from(vec![Some(0.1), None, Some(f32::MAX), Some(f32::MIN_POSITIVE), Some(-0.0)])),
        ];
        let number = |array: &ArrayData, row: usize| {
            value(UncheckedArray::from_ref(array), row).unwrap().to_string().parse::<f64>().ok().map(f64::to_bits)
        };
        for array in arrays {
            // The first value of a slice isn't the first of its buffer.
            let data = slice(&array.to_data(), 1, 4);
            for to in [DataType::Int16, DataType::Int32, DataType::Int64, DataType::UInt64] {
                assert_eq!(widened(&data, &to).is_some(), is_wider(data.data_type(), &to));
                let Some(wider) = widened(&data, &to) else { continue };
                assert_eq!((wider.data_type(), wider.len()), (&to, 4));
                #[cfg(feature = "table")]
                assert_eq!(narrowed(&wider, data.data_type()), Some(to_array(data.clone()).to_data()));
                for row in 0..4 {
                    assert_eq!(number(&wider, row), number(&data, row), "{data:?}");
                }
            }
        }
        let floats = Float32Array::from(vec![0.1, f32::MAX, f32::INFINITY]).to_data();
        let wider = widened(&floats, &DataType::Float64).unwrap();
        let expected = [f64::from(0.1_f32), f64::from(f32::MAX), f64::INFINITY];
        assert_eq!(PrimitiveArray::<Float64Type>::from(wider).values()[..], expected);
    }

    #[test]
    fn types_that_lack_values_are_not_wider() {
        use DataType::*;
        let lossy =
            [(Int64, Int32), (Int64, Float64), (UInt32, Int32), (UInt64, Int64), (Int8, UInt16), (Float64, Float32)];
        for (from, to) in lossy.iter().chain(&[(Int32, Int32), (Utf8, LargeUtf8)]) {
            assert!(!is_wider(from, to), "{from} to {to}");
        }
    }
}
