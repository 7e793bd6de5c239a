//! Numbers of each width, as they are stored.

use arrow_buffer::i256;
use half::f16;

/// A number of `N` bytes.
pub(in crate::compute) trait Number<const N: usize>: Copy + PartialOrd + Send + Sync {
    /// The smallest number; negative infinity for floats.
    const MIN: Self;
    /// The largest number; infinity for floats.
    const MAX: Self;
    const IS_FLOAT: bool;
    /// Reads a number from its bytes in little-endian order.
    fn load(raw: [u8; N]) -> Self;
    /// Returns the bytes of the number in little-endian order.
    fn store(self) -> [u8; N];
}

macro_rules! numbers {
    ($($number:ty: $width:literal, $is_float:literal, $min:expr, $max:expr;)*) => {
        $(impl Number<$width> for $number {
            const MIN: Self = $min;
            const MAX: Self = $max;
            const IS_FLOAT: bool = $is_float;
            #[inline(always)]
            fn load(raw: [u8; $width]) -> Self {
                <$number>::from_le_bytes(raw)
            }
            #[inline(always)]
            fn store(self) -> [u8; $width] {
                self.to_le_bytes()
            }
        })*
    };
}

numbers! {
    i8: 1, false, i8::MIN, i8::MAX;
    u8: 1, false, u8::MIN, u8::MAX;
    i16: 2, false, i16::MIN, i16::MAX;
    u16: 2, false, u16::MIN, u16::MAX;
    i32: 4, false, i32::MIN, i32::MAX;
    u32: 4, false, u32::MIN, u32::MAX;
    i64: 8, false, i64::MIN, i64::MAX;
    u64: 8, false, u64::MIN, u64::MAX;
    i128: 16, false, i128::MIN, i128::MAX;
    i256: 32, false, i256::MIN, i256::MAX;
    f16: 2, true, f16::NEG_INFINITY, f16::INFINITY;
    f32: 4, true, f32::NEG_INFINITY, f32::INFINITY;
    f64: 8, true, f64::NEG_INFINITY, f64::INFINITY;
}
