//! Converts decimals to the nearest floats.

use std::fmt::Write;

use arrow_buffer::i256;

/// The powers of ten that are floats.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// The largest integer up to which every integer is a float.
const EXACT: u64 = 1 << 53;
/// The number of digits of a quotient after which a remainder can't change the nearest float: a quotient of 10^-76 /
/// 2^64 is at least 10^-132 away from the middle of two floats, unless it is the middle.
const QUOTIENT_DIGITS: i32 = 7 * CHUNK_DIGITS;
/// The number of digits that are divided at once: a remainder of 64 bits times 10^19 fits into 128 bits.
const CHUNK_DIGITS: i32 = 19;
const CHUNK: u128 = 10u128.pow(CHUNK_DIGITS as u32);

/// Returns the float nearest to `digits × 10^-scale`.
#[inline]
pub fn decimal_to_f64(digits: i256, scale: i8) -> f64 {
    decimal_quotient(digits, scale, 1)
}

/// Returns the float of 32 bits nearest to `digits × 10^-scale`. Rounding to 64 bits first may yield another one.
#[cfg(feature = "compute")]
pub(crate) fn decimal_to_f32(digits: i256, scale: i8) -> f32 {
    // Digits with an exponent are read to the nearest float, however many there are.
    format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f32::NAN)
}

/// Returns the float nearest to `digits × 10^-scale / count`; NaN for a `count` of 0.
#[inline]
pub(crate) fn decimal_quotient(digits: i256, scale: i8, count: u64) -> f64 {
    match small_quotient(digits, scale, count) {
        Some(quotient) => quotient,
        None => long_quotient(digits, scale, count),
    }
}

/// Returns the quotient if all numbers are floats, so that a single operation rounds it; `None` otherwise.
#[inline]
fn small_quotient(digits: i256, scale: i8, count: u64) -> Option<f64> {
    let digits = i64::try_from(digits.to_i128()?).ok()?;
    let power = *POWERS.get(usize::from(scale.unsigned_abs()))?;
    if digits.unsigned_abs() > EXACT {
        return None;
    }
    match count {
        1 if scale < 0 => Some(digits as f64 * power),
        1 => Some(digits as f64 / power),
        0 => None,
        _ if scale < 0 => None,
        // Floats up to 2^53 were not rounded.
        _ => {
            Some(count as f64 * power).filter(|&divisor| divisor < EXACT as f64).map(|divisor| digits as f64 / divisor)
        }
    }
}

#[cold]
fn long_quotient(digits: i256, scale: i8, count: u64) -> f64 {
    let divisor = i256::from_i128(count.into());
    let (Some(whole), Some(rest)) = (digits.checked_div(divisor), digits.checked_rem(divisor)) else { return f64::NAN };
    let sign = if digits.is_negative() { "-" } else { "" };
    let mut text = match whole.to_i128() {
        Some(whole) => format!("{sign}{}", whole.unsigned_abs()),
        None => whole.to_string(),
    };
    let mut rest = rest.wrapping_abs().as_i128().unsigned_abs();
    let mut exponent = -i32::from(scale);
    while rest > 0 && exponent > -i32::from(scale) - QUOTIENT_DIGITS {
        debug_assert!(rest < u128::from(count), "the remainder of a division by {count} is {rest}");
        // Writing to a string never fails.
        let _ = write!(text, "{:0width$}", rest * CHUNK / u128::from(count), width = CHUNK_DIGITS as usize);
        rest = rest * CHUNK % u128::from(count);
        exponent -= CHUNK_DIGITS;
    }
    if rest > 0 {
        text.push('1');
        exponent -= 1;
    }
    let _ = write!(text, "e{exponent}");
    // Digits with an exponent are read to the nearest float, however many there are.
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    /// Returns `number × 10^tens × 2^twos` as little-endian digits of 32 bits.
    fn big_product(mut number: u128, tens: u32, twos: u32) -> Vec<u32> {
        let mut digits = Vec::new();
        while number > 0 {
            digits.push(number as u32);
            number >>= 32;
        }
        let mut times = |factor: u64| {
            let mut carry = 0;
            for digit in &mut digits {
                let product = u64::from(*digit) * factor + carry;
                *digit = product as u32;
                carry = product >> 32;
            }
            if carry > 0 {
                digits.push(carry as u32);
            }
        };
        (0..tens).for_each(|_| times(10));
        (0..twos).for_each(|_| times(2));
        digits
    }

    /// Returns `a × b`.
    fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
        let mut digits = vec![0u32; a.len() + b.len() + 1];
        for (i, &x) in a.iter().enumerate() {
            let mut carry = 0;
            for (j, &y) in b.iter().chain([&0, &0]).enumerate().take(digits.len() - i) {
                let sum = u64::from(digits[i + j]) + u64::from(x) * u64::from(y) + carry;
                digits[i + j] = sum as u32;
                carry = sum >> 32;
            }
        }
        digits
    }

    fn compare(a: &[u32], b: &[u32]) -> Ordering {
        let digit = |digits: &[u32], i: usize| digits.get(i).copied().unwrap_or(0);
        (0..a.len().max(b.len()))
            .rev()
            .map(|i| digit(a, i).cmp(&digit(b, i)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Compares `digits / 10^scale / count` with the middle of `float`, which is positive, and the next float.
    fn compare_with_middle(digits: u128, scale: i8, count: u64, float: f64) -> Ordering {
        let exponent = (float.to_bits() >> 52) as i32 - 1075;
        let middle = u128::from(float.to_bits() & ((1 << 52) - 1) | 1 << 52) * 2 + 1;
        let up = |exponent: i32| exponent.max(0) as u32;
        // Compares digits × 10^-scale with middle × 2^(exponent - 1) × count, both multiplied until they are integers.
        let number = big_product(digits, up(-i32::from(scale)), up(1 - exponent));
        let middle = big_product(middle, up(i32::from(scale)), up(exponent - 1));
        let middle = multiply(&middle, &big_product(count.into(), 0, 0));
        compare(&number, &middle)
    }

    #[test]
    fn few_digits_give_the_float_of_their_literal() {
        for (digits, scale, expected) in [
            (5 * 10i128.pow(36), 37, 0.5),
            (10i128.pow(24), 25, 0.1),
            (1, 38, 1e-38),
            (-123, 2, -1.23),
            (7, -3, 7e3),
            (7, -40, 7e40),
            (0, 76, 0.0),
            (9_007_199_254_740_993, 0, 9_007_199_254_740_992.0),
            (i128::MAX, 0, 2f64.powi(127)),
            (i128::MIN, 0, -(2f64.powi(127))),
        ] {
            assert_eq!(decimal_to_f64(i256::from_i128(digits), scale), expected, "{digits} {scale}");
        }
        assert_eq!(decimal_to_f64(i256::MIN, 0), -(2f64.powi(255)));
        assert_eq!(decimal_to_f64(i256::MAX, 0), 2f64.powi(255));
        assert!(decimal_quotient(i256::ONE, 0, 0).is_nan());
    }

    #[test]
    fn a_quotient_is_rounded_once() {
        let quotient = |digits: i128, scale, count| decimal_quotient(i256::from_i128(digits), scale, count);
        // As floats, 0.6 / 3 isn't 0.2.
        assert_eq!(quotient(6, 1, 3), 0.2);
        assert_eq!(quotient(6 * 10i128.pow(29), 30, 3), 0.2);
        assert_eq!(quotient(-1, 0, 3), -1.0 / 3.0);
        assert_eq!(quotient(3 << 53, 0, 3), 2f64.powi(53));
        assert_eq!(quotient(7, -2, 7), 100.0);
    }

    proptest! {
        #[test]
        fn quotients_are_the_nearest_floats(
            digits in 1..i128::MAX, shift in 0u32..127, scale in -20i8..77, count in 1..u64::MAX, few in 0u32..64,
        ) {
            let (digits, count) = ((digits >> shift).max(1), (count >> few).max(1));
            let float = decimal_quotient(i256::from_i128(digits), scale, count);
            let is_even = float.to_bits() & 1 == 0;
            let above = compare_with_middle(digits.unsigned_abs(), scale, count, float);
            prop_assert!(above.is_lt() || above.is_eq() && is_even, "{float}");
            let below = compare_with_middle(digits.unsigned_abs(), scale, count, float.next_down());
            prop_assert!(below.is_gt() || below.is_eq() && is_even, "{float}");
            let negative = decimal_quotient(i256::from_i128(-digits), scale, count);
            prop_assert_eq!(negative, -float);
        }

        #[test]
        fn floats_of_32_bits_are_rounded_once(digits in any::<i64>(), shift in 0u32..63, scale in 0i8..38) {
            let digits = i256::from_i128((digits >> shift).into());
            let float = decimal_to_f32(digits, scale);
            let exact = decimal_to_f64(digits, scale);
            prop_assert!((f64::from(float) - exact).abs() <= (f64::from(float.next_up()) - f64::from(float)).abs());
        }
    }
}
