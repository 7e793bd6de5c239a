//! Computes the zones of rows, and encodes and decodes them.
//!
//! ```text
//! 0   nulls u32 │ flags u8 │ length of the smallest u8, of the largest u8 │ 0
//! 8   the smallest value, 32 bytes
//! 40  the largest value, 32 bytes
//! ```
//! A zone describes a block of rows of one column: how many nulls it has, whether it has a NaN, and between which
//! bounds its other values are. A search skips the blocks whose zones exclude a match. A dense segment has the same as
//! text in its footer. A number, a time or a bool is an integer of 32 bytes, a float has 64 bits, and a text is cut to
//! its first 32 bytes.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::access::{Texts, entry_lookup, fixed_values};
use crate::array::{Value, slice, value};
use crate::dataset::{ComparableValue, Zone, ZoneBound};
use crate::error::{Error, Result};
use crate::rows::ZONE;

/// The maximum size of a value in bytes.
const BOUND: usize = 32;

// The offsets of the fields of a zone.
const NULLS: usize = 0;
const FLAGS: usize = 4;
const MIN_LEN: usize = 5;
const MAX_LEN: usize = 6;
const RESERVED: usize = 7;
const BOUNDS: usize = 8;

// The flags of a zone.
const HAS_VALUES: u8 = 1;
const HAS_NAN: u8 = 2;
const MIN_IS_CUT: u8 = 4;
const MAX_IS_CUT: u8 = 8;
const ALL_FLAGS: u8 = HAS_VALUES | HAS_NAN | MIN_IS_CUT | MAX_IS_CUT;

/// Computes the zone of an array's rows.
///
/// # Errors
/// `Internal` for types without an order.
pub(super) fn zone_of(array: &ArrayData) -> Result<Zone> {
    let data_type = array.data_type();
    let mut zone = match data_type {
        DataType::Dictionary(_, values) if is_bytes(values) => return dictionary_zone(array),
        DataType::Dictionary(..) => return generic_zone(array),
        DataType::Float32 => float_zone(array, |raw: [u8; 4]| f32::from_le_bytes(raw).into()),
        DataType::Float64 => float_zone(array, f64::from_le_bytes),
        _ if is_bytes(data_type) => text_zone(array)?,
        _ => match integer_zone(array) {
            Some(zone) => zone,
            None => generic_zone(array)?,
        },
    };
    zone.nulls = array.null_count() as u64;
    Ok(zone)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Returns the numbers of the rows that are not null.
fn valid_rows(array: &ArrayData) -> impl Iterator<Item = usize> + '_ {
    let nulls = array.nulls();
    (0..array.len()).filter(move |&row| nulls.is_none_or(|nulls| nulls.is_valid(row)))
}

/// Returns the zone of an integer column; `None` for types stored as neither integers of up to 64 bits nor decimal
/// digits of up to 128.
fn integer_zone(array: &ArrayData) -> Option<Zone> {
    use DataType::*;
    let range = match array.data_type() {
        Int8 => integer_range(array, i8::from_le_bytes),
        UInt8 => integer_range(array, u8::from_le_bytes),
        Int16 => integer_range(array, i16::from_le_bytes),
        UInt16 => integer_range(array, u16::from_le_bytes),
        Int32 | Date32 | Time32(_) | Decimal32(..) => integer_range(array, i32::from_le_bytes),
        UInt32 => integer_range(array, u32::from_le_bytes),
        UInt64 => integer_range(array, u64::from_le_bytes),
        // Conditions compare a date64 by its milliseconds.
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            integer_range(array, i64::from_le_bytes)
        }
        Decimal128(..) => integer_range(array, i128::from_le_bytes),
        _ => return None,
    };
    let is_decimal = array.data_type().is_decimal();
    let bounds = range.map(|(min, max)| (integer_bound(min, is_decimal), integer_bound(max, is_decimal)));
    Some(Zone { bounds, ..Zone::default() })
}

fn integer_bound(value: i128, is_decimal: bool) -> ZoneBound {
    ZoneBound::exact(if is_decimal {
        ComparableValue::Decimal(i256::from_i128(value))
    } else {
        ComparableValue::Int(value)
    })
}

/// Returns the smallest and the largest value; `None` if all are null.
fn integer_range<const N: usize, T: Ord + Copy + Into<i128>>(
    array: &ArrayData,
    parse: impl Fn([u8; N]) -> T,
) -> Option<(i128, i128)> {
    let values = fixed_values::<N>(array);
    if array.null_count() == 0 {
        // Two simple passes, which can be vectorized.
        let first = parse(*values.first()?);
        let min = values.iter().fold(first, |min, &raw| min.min(parse(raw)));
        let max = values.iter().fold(first, |max, &raw| max.max(parse(raw)));
        return Some((min.into(), max.into()));
    }
    let mut range: Option<(T, T)> = None;
    for &raw in valid_rows(array).filter_map(|row| values.get(row)) {
        let value = parse(raw);
        range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
    }
    range.map(|(min, max)| (min.into(), max.into()))
}

fn float_zone<const N: usize>(array: &ArrayData, parse: impl Fn([u8; N]) -> f64) -> Zone {
    let values = fixed_values::<N>(array);
    let mut has_nan = false;
    let mut range: Option<(f64, f64)> = None;
    for &raw in valid_rows(array).filter_map(|row| values.get(row)) {
        let value = parse(raw);
        has_nan |= value.is_nan();
        if !value.is_nan() {
            range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
        }
    }
    Zone { nulls: 0, has_nan, bounds: range.map(|(min, max)| (float_bound(min), float_bound(max))) }
}

fn float_bound(value: f64) -> ZoneBound {
    // Adding zero gives both zeros the same sign.
    ZoneBound::exact(ComparableValue::Float(value + 0.0))
}

fn text_zone(array: &ArrayData) -> Result<Zone> {
    let texts = Texts::try_new(array)?;
    let mut range: Option<(&[u8], &[u8])> = None;
    for row in valid_rows(array) {
        let text = texts.get(row)?;
        range = Some(range.map_or((text, text), |(min, max)| (min.min(text), max.max(text))));
    }
    Ok(Zone { bounds: range.map(|(min, max)| (text_bound(min), text_bound(max))), ..Zone::default() })
}

/// Returns the bound for a text, which is cut if it is longer than a bound.
fn text_bound(text: &[u8]) -> ZoneBound {
    let prefix = &text[..text.len().min(BOUND)];
    ZoneBound { key: ComparableValue::Bytes(prefix.to_vec()), is_cut: text.len() > BOUND }
}

/// Returns the zone of a dictionary of texts, and reads each entry that occurs only once.
fn dictionary_zone(array: &ArrayData) -> Result<Zone> {
    let mut used = valid_rows(array).map(entry_lookup(array)).collect::<Result<Vec<_>>>()?;
    let values = array.child_data().first().ok_or_else(|| Error::internal("a dictionary without values"))?;
    // A file of another program may have a null among the entries, whose rows are null.
    used.retain(|&key| values.is_valid(key));
    let count = used.len() as u64;
    used.sort_unstable();
    used.dedup();
    let mut range: Option<(&[u8], &[u8])> = None;
    for key in used {
        match value(values, key)? {
            Value::Str(text) => {
                let text = text.as_bytes();
                range = Some(range.map_or((text, text), |(min, max)| (min.min(text), max.max(text))));
            }
            other => return Err(Error::internal(format_args!("zones of a dictionary with an entry {other}"))),
        }
    }
    let bounds = range.map(|(min, max)| (text_bound(min), text_bound(max)));
    Ok(Zone { nulls: array.len() as u64 - count, has_nan: false, bounds })
}

/// Returns the zone of an array of any type, compared value by value.
fn generic_zone(array: &ArrayData) -> Result<Zone> {
    let mut zone = Zone::default();
    let mut range: Option<(ComparableValue, ComparableValue)> = None;
    for row in 0..array.len() {
        let cell = value(array, row)?;
        match (ComparableValue::from_value(&cell), &mut range) {
            (None, _) if cell.is_null() => zone.nulls += 1,
            (None, _) if matches!(cell, Value::Float32(_) | Value::Float64(_)) => zone.has_nan = true,
            (None, _) => return Err(Error::internal(format_args!("zones of values without an order, as {cell}"))),
            (Some(key), None) => range = Some((key.clone(), key)),
            (Some(key), Some((min, _))) if key < *min => *min = key,
            (Some(key), Some((_, max))) if key > *max => *max = key,
            (Some(_), Some(_)) => (),
        }
    }
    zone.bounds = range.map(|(min, max)| (exact_bound(min), exact_bound(max)));
    Ok(zone)
}

fn exact_bound(key: ComparableValue) -> ZoneBound {
    match key {
        ComparableValue::Float(value) => float_bound(value),
        key => ZoneBound::exact(key),
    }
}

/// Encodes a zone.
///
/// # Errors
/// `Internal` if it has more nulls than a zone has rows.
pub(super) fn encode(zone: &Zone) -> Result<[u8; ZONE as usize]> {
    let mut bytes = [0; ZONE as usize];
    let nulls = u32::try_from(zone.nulls).map_err(|_| Error::internal("a zone of more than 2^32 nulls"))?;
    bytes[NULLS..FLAGS].copy_from_slice(&nulls.to_le_bytes());
    bytes[FLAGS] = if zone.has_nan { HAS_NAN } else { 0 };
    if let Some((min, max)) = &zone.bounds {
        assert!(min.key <= max.key, "the bounds of a zone are in order");
        bytes[FLAGS] |= HAS_VALUES;
        bytes[FLAGS] |= if min.is_cut { MIN_IS_CUT } else { 0 };
        bytes[FLAGS] |= if max.is_cut { MAX_IS_CUT } else { 0 };
        let (first, second) = bytes[BOUNDS..].split_at_mut(BOUND);
        let min_len = encode_bound(&min.key, first)?;
        let max_len = encode_bound(&max.key, second)?;
        bytes[MIN_LEN] = min_len;
        bytes[MAX_LEN] = max_len;
    }
    Ok(bytes)
}

/// Writes the bytes of a value to the start of `into`, and returns their number.
fn encode_bound(key: &ComparableValue, into: &mut [u8]) -> Result<u8> {
    let bytes = match key {
        ComparableValue::Int(n) => i256::from_i128(*n).to_le_bytes().to_vec(),
        ComparableValue::Decimal(digits) => digits.to_le_bytes().to_vec(),
        ComparableValue::Float(x) => x.to_le_bytes().to_vec(),
        ComparableValue::Bytes(text) => text.clone(),
    };
    let target = into.get_mut(..bytes.len()).ok_or_else(|| Error::internal("a zone's text was not cut"))?;
    target.copy_from_slice(&bytes);
    Ok(bytes.len() as u8)
}

/// Decodes the zone of `rows` rows of a column of type `data_type`.
///
/// # Errors
/// A description of the part that no writer has written.
pub(super) fn decode(bytes: &[u8; ZONE as usize], data_type: &DataType, rows: u64) -> Result<Zone, String> {
    let mut nulls = [0; FLAGS - NULLS];
    nulls.copy_from_slice(&bytes[NULLS..FLAGS]);
    let nulls = u64::from(u32::from_le_bytes(nulls));
    let [flags, min_len, max_len, rest] = [bytes[FLAGS], bytes[MIN_LEN], bytes[MAX_LEN], bytes[RESERVED]];
    let has_values = flags & HAS_VALUES != 0;
    let has_nan = flags & HAS_NAN != 0;
    if flags > ALL_FLAGS || rest != 0 || has_nan && !data_type.is_floating() {
        return Err(format!("flags {flags} and {rest}, which no zone of {data_type} has"));
    }
    if nulls > rows || (nulls == rows) == (has_values || has_nan) {
        return Err(format!("{nulls} nulls in {rows} rows, and flags {flags}"));
    }

    if !has_values {
        let is_blank = bytes[MIN_LEN..].iter().all(|&byte| byte == 0) && flags & !HAS_NAN == 0;
        return if is_blank { Ok(Zone { nulls, has_nan, bounds: None }) } else { Err("bounds of no values".into()) };
    }

    let (first, second) = bytes[BOUNDS..].split_at(BOUND);
    let Some(min) = decode_bound(first, min_len, flags & MIN_IS_CUT != 0, data_type) else {
        return Err(format!("the smallest value is none of {data_type}"));
    };
    let Some(max) = decode_bound(second, max_len, flags & MAX_IS_CUT != 0, data_type) else {
        return Err(format!("the largest value is none of {data_type}"));
    };
    let is_min_longer = min.key == max.key && min.is_cut && !max.is_cut;
    if min.key.partial_cmp(&max.key).is_none_or(Ordering::is_gt) || is_min_longer {
        return Err("the smallest value is larger than the largest".into());
    }
    Ok(Zone { nulls, has_nan, bounds: Some((min, max)) })
}

/// Decodes a value of a zone; `None` if it is not valid for the type.
fn decode_bound(bytes: &[u8], len: u8, is_cut: bool, data_type: &DataType) -> Option<ZoneBound> {
    use DataType::*;
    let (used, unused) = bytes.split_at_checked(len.into())?;
    if unused.iter().any(|&byte| byte != 0) || is_cut && used.len() < BOUND {
        return None;
    }
    let key = match data_type {
        Dictionary(_, values) => return decode_bound(bytes, len, is_cut, values),
        Float16 | Float32 | Float64 => ComparableValue::Float(f64::from_le_bytes(used.try_into().ok()?)),
        _ if is_bytes(data_type) => ComparableValue::Bytes(used.to_vec()),
        _ if data_type.is_decimal() => ComparableValue::Decimal(i256::from_le_bytes(used.try_into().ok()?)),
        _ => ComparableValue::Int(i256::from_le_bytes(used.try_into().ok()?).to_i128()?),
    };
    let is_right = match &key {
        ComparableValue::Float(x) => can_hold_float(data_type, *x),
        ComparableValue::Int(n) => type_range(data_type).contains(n),
        ComparableValue::Decimal(digits) => can_hold_decimal(data_type, *digits),
        ComparableValue::Bytes(text) => can_hold_text(data_type, text, is_cut),
    };
    let is_text = matches!(key, ComparableValue::Bytes(_));
    (is_right && (is_text || !is_cut)).then_some(ZoneBound { key, is_cut })
}

/// Returns true if a zone of the type can have the bound.
fn can_hold_float(data_type: &DataType, x: f64) -> bool {
    let stored = match data_type {
        DataType::Float16 => half::f16::from_f64(x).to_f64(),
        DataType::Float32 => f64::from(x as f32),
        _ => x,
    };
    // Zeros have one sign here, and NaN is not a bound.
    stored == x && (x != 0.0 || x.is_sign_positive())
}

/// Returns the integers that a column of the type can hold.
fn type_range(data_type: &DataType) -> std::ops::RangeInclusive<i128> {
    use DataType::*;
    match data_type {
        Boolean => 0..=1,
        Int8 => i8::MIN.into()..=i8::MAX.into(),
        UInt8 => 0..=u8::MAX.into(),
        Int16 => i16::MIN.into()..=i16::MAX.into(),
        UInt16 => 0..=u16::MAX.into(),
        Int32 | Date32 | Time32(_) => i32::MIN.into()..=i32::MAX.into(),
        UInt32 => 0..=u32::MAX.into(),
        UInt64 => 0..=u64::MAX.into(),
        _ => i64::MIN.into()..=i64::MAX.into(),
    }
}

/// Returns true if a zone of the type can have the bound.
fn can_hold_decimal(data_type: &DataType, digits: i256) -> bool {
    match data_type {
        DataType::Decimal32(..) => digits.to_i128().is_some_and(|digits| i32::try_from(digits).is_ok()),
        DataType::Decimal64(..) => digits.to_i128().is_some_and(|digits| i64::try_from(digits).is_ok()),
        DataType::Decimal128(..) => digits.to_i128().is_some(),
        _ => true,
    }
}

/// Returns true if a zone of the type can have the bound, which is the start of a longer text if it `is_cut`.
fn can_hold_text(data_type: &DataType, text: &[u8], is_cut: bool) -> bool {
    match data_type {
        DataType::FixedSizeBinary(width) => {
            // Arrow has no negative widths, and no text has one.
            let Ok(width) = usize::try_from(*width) else { return false };
            text.len() == width.min(BOUND) && is_cut == (width > BOUND)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match std::str::from_utf8(text) {
            Ok(_) => true,
            // A character may be cut.
            Err(e) => is_cut && e.error_len().is_none(),
        },
        _ => true,
    }
}

/// Encodes the zones of some columns of a dense segment for its footer: a line with the rows of a zone; for each column
/// a line with its number and its zones as hexadecimal digits; the CRC-32C of these lines.
///
/// # Errors
/// The errors of [`zone_of`].
pub(super) fn noted(columns: &[(u32, &ArrayData)], rows: u32) -> Result<String> {
    assert!(rows > 0, "a zone has rows");
    let mut text = format!("{rows}\n");
    for (number, array) in columns {
        text += &format!("{number} ");
        for start in (0..array.len()).step_by(rows as usize) {
            let block = slice(array, start, (array.len() - start).min(rows as usize));
            encode(&zone_of(&block)?)?.iter().for_each(|byte| text += &format!("{byte:02x}"));
        }
        text += "\n";
    }
    let crc = crc32c::crc32c(text.as_bytes());
    Ok(text + &format!("{crc:08x}"))
}

/// Parses the text that [`noted`] has written to the footer of a file of `rows` rows. Returns the rows of a zone, and
/// the zones of column `column`; `None` if the column has none.
///
/// # Errors
/// A description of the part that no writer has written.
pub(super) fn parse_zones(
    text: &str,
    column: u32,
    data_type: &DataType,
    rows: u64,
) -> Result<Option<(u64, Vec<Zone>)>, String> {
    parse_zone_lines(text, column, data_type, rows).map_err(|wrong| format!("the zones in the footer: {wrong}"))
}

/// Parses the text as [`parse_zones`] does.
fn parse_zone_lines(
    text: &str,
    column: u32,
    data_type: &DataType,
    rows: u64,
) -> Result<Option<(u64, Vec<Zone>)>, String> {
    let (lines, crc) = text.rsplit_once('\n').ok_or("no lines")?;
    let crc = u32::from_str_radix(crc, 16).map_err(|_| "no checksum")?;
    if crc != crc32c::crc32c(&text.as_bytes()[..lines.len() + 1]) {
        return Err("the checksum is another one".into());
    }
    let mut lines = lines.lines();
    let zone_rows = lines.next().and_then(|line| line.parse::<u32>().ok()).filter(|&zone_rows| zone_rows > 0);
    let zone_rows = u64::from(zone_rows.ok_or("no number of rows")?);
    let mut columns = lines.filter_map(|line| line.split_once(' '));
    let Some((_, digits)) = columns.find(|(number, _)| number.parse() == Ok(column)) else { return Ok(None) };
    let (entries, rest) = digits.as_bytes().as_chunks::<{ 2 * ZONE as usize }>();
    if !rest.is_empty() || entries.len() as u64 != rows.div_ceil(zone_rows) {
        return Err("not as many as there are blocks".into());
    }
    let mut zones = Vec::with_capacity(entries.len());
    for (number, digits) in entries.iter().enumerate() {
        let bytes = unhex(digits).ok_or("no hexadecimal digits")?;
        let block_rows = (rows - number as u64 * zone_rows).min(zone_rows);
        zones.push(decode(&bytes, data_type, block_rows).map_err(|e| format!("block {number}: {e}"))?);
    }
    Ok(Some((zone_rows, zones)))
}

/// Parses hexadecimal digits; `None` if others are among them.
fn unhex(digits: &[u8; 2 * ZONE as usize]) -> Option<[u8; ZONE as usize]> {
    let mut bytes = [0; ZONE as usize];
    let (pairs, _) = digits.as_chunks::<2>();
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
