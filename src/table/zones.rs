//! Zones as bytes, and computing the zone of some rows.
//!
//! ```text
//! 0   nulls u32 │ flags u8 │ length of the smallest u8, of the largest u8 │ 0
//! 8   the smallest value, 32 bytes
//! 40  the largest value, 32 bytes
//! ```
//! A dense segment has the same as text in its footer. A number, a time or a bool is an integer of 32 bytes, a float
//! has 64 bits, a text its first 32 bytes.

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

const HAS_VALUES: u8 = 1;
const HAS_NAN: u8 = 2;
const LEAST_IS_CUT: u8 = 4;
const MOST_IS_CUT: u8 = 8;

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

/// The numbers of the rows that are not null.
fn valid_rows(array: &ArrayData) -> impl Iterator<Item = usize> + '_ {
    let nulls = array.nulls();
    (0..array.len()).filter(move |&row| nulls.is_none_or(|nulls| nulls.is_valid(row)))
}

fn exact(least: ComparableValue, most: ComparableValue) -> Zone {
    Zone { bounds: Some((ZoneBound::exact(least), ZoneBound::exact(most))), ..Zone::default() }
}

/// `None` for types stored as neither integers of up to 64 bits nor decimal digits of up to 128.
fn integer_zone(array: &ArrayData) -> Option<Zone> {
    use DataType::*;
    let int = |(least, most): (i128, i128)| exact(ComparableValue::Int(least), ComparableValue::Int(most));
    let digits = |(least, most): (i128, i128)| {
        exact(ComparableValue::Decimal(i256::from_i128(least)), ComparableValue::Decimal(i256::from_i128(most)))
    };
    let ends = match array.data_type() {
        Int8 => ends(array, i8::from_le_bytes),
        UInt8 => ends(array, u8::from_le_bytes),
        Int16 => ends(array, i16::from_le_bytes),
        UInt16 => ends(array, u16::from_le_bytes),
        Int32 | Date32 | Time32(_) => ends(array, i32::from_le_bytes),
        UInt32 => ends(array, u32::from_le_bytes),
        UInt64 => ends(array, u64::from_le_bytes),
        // Conditions compare a date64 by its milliseconds.
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => ends(array, i64::from_le_bytes),
        Decimal32(..) => return Some(ends(array, i32::from_le_bytes).map_or_else(Zone::default, digits)),
        Decimal64(..) => return Some(ends(array, i64::from_le_bytes).map_or_else(Zone::default, digits)),
        Decimal128(..) => return Some(ends(array, i128::from_le_bytes).map_or_else(Zone::default, digits)),
        _ => return None,
    };
    Some(ends.map_or_else(Zone::default, int))
}

/// The smallest and the largest value.
fn ends<const N: usize, T: Ord + Copy + Into<i128>>(
    array: &ArrayData,
    number: impl Fn([u8; N]) -> T,
) -> Option<(i128, i128)> {
    let values = fixed_values::<N>(array);
    let wider = |ends: Option<(T, T)>, value: T| match ends {
        Some((least, most)) => Some((least.min(value), most.max(value))),
        None => Some((value, value)),
    };
    let ends = if array.null_count() == 0 {
        let first = number(*values.first()?);
        let least = values.iter().fold(first, |least, &raw| least.min(number(raw)));
        Some((least, values.iter().fold(first, |most, &raw| most.max(number(raw)))))
    } else {
        valid_rows(array).filter_map(|row| values.get(row)).fold(None, |ends, &raw| wider(ends, number(raw)))
    };
    ends.map(|(least, most)| (least.into(), most.into()))
}

fn float_zone<const N: usize>(array: &ArrayData, number: impl Fn([u8; N]) -> f64) -> Zone {
    let values = fixed_values::<N>(array);
    let mut has_nan = false;
    let mut ends: Option<(f64, f64)> = None;
    for &raw in valid_rows(array).filter_map(|row| values.get(row)) {
        let value = number(raw);
        has_nan |= value.is_nan();
        if !value.is_nan() {
            ends = Some(ends.map_or((value, value), |(least, most)| (least.min(value), most.max(value))));
        }
    }
    // Zeros are stored with one sign.
    let bound = |x: f64| ZoneBound::exact(ComparableValue::Float(x + 0.0));
    Zone { nulls: 0, has_nan, bounds: ends.map(|(least, most)| (bound(least), bound(most))) }
}

fn text_zone(array: &ArrayData) -> Result<Zone> {
    let texts = Texts::try_new(array)?;
    let mut ends: Option<(&[u8], &[u8])> = None;
    for row in valid_rows(array) {
        let text = texts.get(row)?;
        ends = Some(ends.map_or((text, text), |(least, most)| (least.min(text), most.max(text))));
    }
    Ok(Zone { bounds: ends.map(|(least, most)| (begin_of(least), begin_of(most))), ..Zone::default() })
}

fn begin_of(text: &[u8]) -> ZoneBound {
    let begin = &text[..text.len().min(BOUND)];
    ZoneBound { key: ComparableValue::Bytes(begin.to_vec()), is_cut: text.len() > BOUND }
}

/// For a dictionary: the entries that occur, each once.
fn dictionary_zone(array: &ArrayData) -> Result<Zone> {
    let mut used = valid_rows(array).map(entry_lookup(array)).collect::<Result<Vec<_>>>()?;
    let values = array.child_data().first().ok_or_else(|| Error::internal("a dictionary without values"))?;
    // A file of another program may have a null among the entries, whose rows are null.
    used.retain(|&key| values.is_valid(key));
    let count = used.len() as u64;
    used.sort_unstable();
    used.dedup();
    let mut ends: Option<(&[u8], &[u8])> = None;
    for key in used {
        match value(values, key)? {
            Value::Str(text) => {
                let text = text.as_bytes();
                ends = Some(ends.map_or((text, text), |(least, most)| (least.min(text), most.max(text))));
            }
            other => return Err(Error::internal(format_args!("zones of a dictionary with an entry {other}"))),
        }
    }
    let bounds = ends.map(|(least, most)| (begin_of(least), begin_of(most)));
    Ok(Zone { nulls: array.len() as u64 - count, has_nan: false, bounds })
}

/// For any type, value by value.
fn generic_zone(array: &ArrayData) -> Result<Zone> {
    let mut zone = Zone::default();
    let mut ends: Option<(ComparableValue, ComparableValue)> = None;
    for row in 0..array.len() {
        let found = value(array, row)?;
        match (ComparableValue::from_value(&found), &mut ends) {
            (None, _) if found.is_null() => zone.nulls += 1,
            (None, _) if matches!(found, Value::Float32(_) | Value::Float64(_)) => zone.has_nan = true,
            (None, _) => return Err(Error::internal(format_args!("zones of values without an order, as {found}"))),
            (Some(key), None) => ends = Some((key.clone(), key)),
            (Some(key), Some((least, _))) if key < *least => *least = key,
            (Some(key), Some((_, most))) if key > *most => *most = key,
            (Some(_), Some(_)) => (),
        }
    }
    let settled =
        |key: ComparableValue| if let ComparableValue::Float(x) = key { ComparableValue::Float(x + 0.0) } else { key };
    zone.bounds = ends.map(|(least, most)| (ZoneBound::exact(settled(least)), ZoneBound::exact(settled(most))));
    Ok(zone)
}

/// Encodes a zone.
///
/// # Errors
/// `Internal` if it has more nulls than a zone has rows.
pub(super) fn encode(zone: &Zone) -> Result<[u8; ZONE as usize]> {
    let mut bytes = [0; ZONE as usize];
    let nulls = u32::try_from(zone.nulls).map_err(|_| Error::internal("a zone of more than 2^32 nulls"))?;
    bytes[..4].copy_from_slice(&nulls.to_le_bytes());
    bytes[4] = if zone.has_nan { HAS_NAN } else { 0 };
    if let Some((least, most)) = &zone.bounds {
        bytes[4] |=
            HAS_VALUES | if least.is_cut { LEAST_IS_CUT } else { 0 } | if most.is_cut { MOST_IS_CUT } else { 0 };
        let (first, second) = bytes[8..].split_at_mut(BOUND);
        let least = put(&least.key, first)?;
        let most = put(&most.key, second)?;
        bytes[5..7].copy_from_slice(&[least, most]);
    }
    Ok(bytes)
}

/// Writes the bytes of a value to `into`; returns their number.
fn put(key: &ComparableValue, into: &mut [u8]) -> Result<u8> {
    let int = |digits: i256| digits.to_le_bytes().to_vec();
    let bytes = match key {
        ComparableValue::Int(n) => int(i256::from_i128(*n)),
        ComparableValue::Decimal(digits) => int(*digits),
        ComparableValue::Float(x) => x.to_le_bytes().to_vec(),
        ComparableValue::Bytes(text) => text.clone(),
    };
    let place = into.get_mut(..bytes.len()).ok_or_else(|| Error::internal("a zone's text was not cut"))?;
    place.copy_from_slice(&bytes);
    Ok(bytes.len() as u8)
}

/// Decodes the zone of `rows` rows of a column of type `data_type`.
///
/// # Errors
/// A description of the impossible part, which no writer has written.
pub(super) fn decode(bytes: &[u8; ZONE as usize], data_type: &DataType, rows: u64) -> Result<Zone, String> {
    let nulls = u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let [flags, least_len, most_len, rest] = [bytes[4], bytes[5], bytes[6], bytes[7]];
    let has_values = flags & HAS_VALUES != 0;
    let has_nan = flags & HAS_NAN != 0;
    if flags > 15 || rest != 0 || has_nan && !data_type.is_floating() {
        return Err(format!("flags {flags} and {rest}, which no zone of {data_type} has"));
    }
    if nulls > rows || (nulls == rows) == (has_values || has_nan) {
        return Err(format!("{nulls} nulls in {rows} rows, and flags {flags}"));
    }
    if !has_values {
        let is_blank = bytes[5..].iter().all(|&byte| byte == 0) && flags & !HAS_NAN == 0;
        return if is_blank { Ok(Zone { nulls, has_nan, bounds: None }) } else { Err("bounds of no values".into()) };
    }
    let (first, second) = bytes[8..].split_at(BOUND);
    let wrong = |what: &str| format!("the {what} value is none of {data_type}");
    let least = bound(first, least_len, flags & LEAST_IS_CUT != 0, data_type).ok_or_else(|| wrong("smallest"))?;
    let most = bound(second, most_len, flags & MOST_IS_CUT != 0, data_type).ok_or_else(|| wrong("largest"))?;
    let is_longer = least.key == most.key && least.is_cut && !most.is_cut;
    if least.key.partial_cmp(&most.key).is_none_or(Ordering::is_gt) || is_longer {
        return Err("the smallest value is larger than the largest".into());
    }
    Ok(Zone { nulls, has_nan, bounds: Some((least, most)) })
}

/// Decodes a value of a zone; `None` if it is not valid for the type.
fn bound(bytes: &[u8], len: u8, is_cut: bool, data_type: &DataType) -> Option<ZoneBound> {
    use DataType::*;
    let (used, unused) = bytes.split_at_checked(len.into())?;
    if unused.iter().any(|&byte| byte != 0) || is_cut && used.len() < BOUND {
        return None;
    }
    let key = match data_type {
        Dictionary(_, values) => return bound(bytes, len, is_cut, values),
        Float16 | Float32 | Float64 => ComparableValue::Float(f64::from_le_bytes(used.try_into().ok()?)),
        own if is_bytes(own) => ComparableValue::Bytes(used.to_vec()),
        own if own.is_decimal() => ComparableValue::Decimal(i256::from_le_bytes(used.try_into().ok()?)),
        _ => ComparableValue::Int(i256::from_le_bytes(used.try_into().ok()?).to_i128()?),
    };
    let is_right = match &key {
        ComparableValue::Float(x) => is_float_of(data_type, *x),
        ComparableValue::Int(n) => range_of(data_type).contains(n),
        ComparableValue::Decimal(digits) => is_decimal_of(data_type, *digits),
        ComparableValue::Bytes(text) => is_text_of(data_type, text, is_cut),
    };
    let is_text = matches!(key, ComparableValue::Bytes(_));
    (is_right && (is_text || !is_cut)).then_some(ZoneBound { key, is_cut })
}

fn is_float_of(data_type: &DataType, x: f64) -> bool {
    let stored = match data_type {
        DataType::Float16 => half::f16::from_f64(x).to_f64(),
        DataType::Float32 => f64::from(x as f32),
        _ => x,
    };
    // Zeros have one sign here, and NaN is not a bound.
    stored == x && (x != 0.0 || x.is_sign_positive())
}

/// The integers that a column of the type can hold.
fn range_of(data_type: &DataType) -> std::ops::RangeInclusive<i128> {
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

fn is_decimal_of(data_type: &DataType, digits: i256) -> bool {
    match data_type {
        DataType::Decimal32(..) => digits.to_i128().is_some_and(|digits| i32::try_from(digits).is_ok()),
        DataType::Decimal64(..) => digits.to_i128().is_some_and(|digits| i64::try_from(digits).is_ok()),
        DataType::Decimal128(..) => digits.to_i128().is_some(),
        _ => true,
    }
}

fn is_text_of(data_type: &DataType, text: &[u8], is_cut: bool) -> bool {
    match data_type {
        DataType::FixedSizeBinary(width) => {
            let width = usize::try_from(*width).unwrap_or(0);
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

/// Encodes the zones of some columns of a dense segment for its footer: the rows of a zone; for each column a line with
/// its number and its zones as hexadecimal digits; the CRC-32C of all that.
///
/// # Errors
/// As [`zone_of`].
pub(super) fn noted(columns: &[(u32, &ArrayData)], rows: u32) -> Result<String> {
    let mut text = format!("{rows}\n");
    for (number, array) in columns {
        text += &format!("{number} ");
        for start in (0..array.len()).step_by(rows.max(1) as usize) {
            let block = slice(array, start, (array.len() - start).min(rows as usize));
            encode(&zone_of(&block)?)?.iter().for_each(|byte| text += &format!("{byte:02x}"));
        }
        text += "\n";
    }
    let crc = crc32c::crc32c(text.as_bytes());
    Ok(text + &format!("{crc:08x}"))
}

/// The rows of a zone, and the zones of column `column`, from a footer for `rows` rows; `None` if it has none.
///
/// # Errors
/// A description of the impossible part.
pub(super) fn parse_zones(
    text: &str,
    column: u32,
    data_type: &DataType,
    rows: u64,
) -> Result<Option<(u64, Vec<Zone>)>, String> {
    let wrong = |what: &str| format!("the zones in the footer: {what}");
    let (lines, crc) = text.rsplit_once('\n').ok_or_else(|| wrong("no lines"))?;
    let said = u32::from_str_radix(crc, 16).map_err(|_| wrong("no checksum"))?;
    if said != crc32c::crc32c(&text.as_bytes()[..lines.len() + 1]) {
        return Err(wrong("the checksum is another one"));
    }
    let mut lines = lines.lines();
    let each = lines.next().and_then(|line| line.parse::<u32>().ok()).filter(|&each| each > 0);
    let each = u64::from(each.ok_or_else(|| wrong("no number of rows"))?);
    let own =
        |line: &str| line.split_once(' ').filter(|(number, _)| number.parse() == Ok(column)).map(|(_, hex)| hex.len());
    let Some(hex) = lines.find(|line| own(line).is_some()).and_then(|line| line.split_once(' ')).map(|(_, hex)| hex)
    else {
        return Ok(None);
    };
    let (entries, rest) = hex.as_bytes().as_chunks::<{ 2 * ZONE as usize }>();
    if !rest.is_empty() || entries.len() as u64 != rows.div_ceil(each) {
        return Err(wrong("not as many as there are blocks"));
    }
    let zone = |(number, digits): (usize, &[u8; 2 * ZONE as usize])| {
        let bytes = unhex(digits).ok_or_else(|| wrong("no hexadecimal digits"))?;
        let in_block = (rows - number as u64 * each).min(each);
        decode(&bytes, data_type, in_block).map_err(|e| wrong(&format!("block {number}: {e}")))
    };
    let list = entries.iter().enumerate().map(zone).collect::<Result<_, _>>()?;
    Ok(Some((each, list)))
}

fn unhex(digits: &[u8; 2 * ZONE as usize]) -> Option<[u8; ZONE as usize]> {
    let mut bytes = [0; ZONE as usize];
    let (pairs, _) = digits.as_chunks::<2>();
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
