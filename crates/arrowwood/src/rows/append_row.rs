//! Appends one row at a time: values go straight into the mapped window of each buffer, without an allocation.

use arrow_schema::DataType;

use super::dictionary_entries::DictionaryEntries;
use super::plan::{Plan, PlanNode, ROWS, Storage};
use super::sink::RowSink;
use crate::array::value_bytes::{WIDEST, encode_fixed, encode_view, is_signed_word};
use crate::array::{Value, time_zone_advice};
use crate::error::{Error, Result};
use crate::map::check_pages;
use crate::types::{MAX_INLINE, VIEW_WIDTH};

/// Checks that there is a value for each column and that it fits the column.
pub(crate) fn check_values(plan: &Plan, row: &[Value<'_>]) -> Result<()> {
    if row.len() != plan.columns.len() {
        return Err(Error::invalid_argument(format!(
            "a row of {} values for {} columns",
            row.len(),
            plan.columns.len()
        )));
    }
    match plan.columns.iter().zip(row).find(|(node, value)| !fits(node, value)) {
        Some((node, value)) => Err(unfit(node, value)),
        None => Ok(()),
    }
}

/// Finds the keys of the dictionary-encoded values, in the order of the columns. New values are added.
pub(crate) fn intern_keys(
    plan: &Plan,
    entries: &mut [DictionaryEntries],
    row: &[Value<'_>],
    keys: &mut Vec<u32>,
) -> Result<()> {
    keys.clear();
    for &column in &plan.text_columns {
        let node = &plan.columns[column];
        if let (Storage::Keys { number, .. }, Some(entry)) = (node.kind, entry_of(node, &row[column])) {
            let entries = &mut entries[number];
            let Some(key) = entries.key(entry.bytes()) else {
                let name = node.field.name();
                return Err(entries.full_error().context(format_args!("column '{name}'")));
            };
            keys.push(key);
        }
    }
    #[cfg(test)]
    super::fault_injection::forget_key(keys);
    Ok(())
}

/// Writes a row that [`check_values`] has passed and that [`has_room`].
#[inline]
pub(crate) fn put_row(
    into: &mut impl RowSink,
    plan: &Plan,
    entries: &[DictionaryEntries],
    row: &[Value<'_>],
    keys: &[u32],
) -> Result<()> {
    debug_assert_eq!(row.len(), plan.columns.len(), "`check_values` has passed the row");
    let at = into.fill_state().rows();
    let mut keys = keys.iter();
    for (node, value) in plan.columns.iter().zip(row) {
        if let Storage::Keys { number, width } = node.kind
            && !matches!(value, Value::Null)
        {
            let key = *keys.next().ok_or_else(|| unwritable(node, value))?;
            into.put_entries(number, &entries[number], key as usize + 1)?;
            into.put(node.values_region(), width as u64 * at, &u64::from(key).to_le_bytes()[..width])?;
            put_bit(into, node, node.region, at, true)?;
        } else {
            put_value(into, node, at, value)?;
        }
    }

    // A value of a mapped file that was truncated reads as zeros.
    check_pages()?;

    // Nothing can fail from here on: a row is counted as a whole or not at all.
    let counters = &mut into.fill_state().counters;
    for &column in &plan.text_columns {
        count_text(counters, &plan.columns[column], &row[column]);
    }

    // Each null has a counter: `put_value` fails where there is none.
    let nulls = plan.columns.iter().zip(row).filter(|(_, value)| matches!(value, Value::Null));
    for counter in nulls.filter_map(|(node, _)| node.nulls) {
        counters[counter] += 1;
    }
    counters[ROWS] += 1;
    Ok(())
}

/// Returns true if a row fits into a segment filled up to `counters`. A value without a key counts as empty;
/// [`put_row`] refuses it.
pub(crate) fn has_room(
    plan: &Plan,
    entries: &[DictionaryEntries],
    row: &[Value<'_>],
    keys: &[u32],
    counters: &[u64],
    limits: &[u64],
) -> bool {
    if counters[ROWS] >= limits[ROWS] {
        return false;
    }
    let mut keys = keys.iter();
    plan.text_columns.iter().all(|&column| match (plan.columns[column].kind, &row[column]) {
        (_, Value::Null) => true,
        (Storage::Bytes { counter, .. } | Storage::Views { counter }, value) => {
            text_of(value).is_none_or(|text| counters[counter] + text.len() as u64 <= limits[counter])
        }
        (Storage::Keys { number, .. }, _) => {
            let count = keys.next().map_or(0, |&key| key as usize + 1);
            let dictionary = &plan.dictionaries[number];
            count as u64 <= limits[dictionary.entries]
                && dictionary.bytes().is_none_or(|bytes| entries[number].bytes(count) <= limits[bytes])
        }
        _ => true,
    })
}

/// Returns the counters of a segment with this row alone. A value without a key is left out; [`put_row`] refuses it.
pub(crate) fn row_counters(plan: &Plan, entries: &[DictionaryEntries], row: &[Value<'_>], keys: &[u32]) -> Vec<u64> {
    let mut needed = vec![0; plan.counters];
    needed[ROWS] = 1;
    let mut keys = keys.iter();
    for (node, value) in plan.columns.iter().zip(row) {
        match (node.kind, value) {
            (_, Value::Null) => (),
            (Storage::Bytes { counter, .. } | Storage::Views { counter }, value) => {
                needed[counter] = text_of(value).map_or(0, |text| text.len() as u64)
            }
            (Storage::Keys { number, .. }, _) => {
                let count = keys.next().map_or(0, |&key| key as usize + 1);
                let dictionary = &plan.dictionaries[number];
                needed[dictionary.entries] = count as u64;
                if let Some(bytes) = dictionary.bytes() {
                    needed[bytes] = entries[number].bytes(count);
                }
            }
            _ => (),
        }
    }
    needed
}

/// Returns the bytes of a text; `None` for other values.
fn text_of<'a>(value: &'a Value<'_>) -> Option<&'a [u8]> {
    match value {
        Value::Str(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

/// A value as its bytes in a dictionary.
enum EntryBytes<'a> {
    Text(&'a [u8]),
    Fixed([u8; WIDEST], usize),
}

impl EntryBytes<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            EntryBytes::Text(bytes) => bytes,
            EntryBytes::Fixed(bytes, len) => &bytes[..*len],
        }
    }
}

/// Returns the value as an entry of the column's dictionary; `None` for a null, and for a value of another type.
fn entry_of<'a>(node: &PlanNode, value: &'a Value<'_>) -> Option<EntryBytes<'a>> {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let DataType::Dictionary(_, values) = node.field.data_type() else { return None };
    match (&**values, value) {
        (Utf8 | LargeUtf8 | Utf8View, Value::Str(text)) => Some(EntryBytes::Text(text.as_bytes())),
        (Binary | LargeBinary | BinaryView, Value::Bytes(bytes)) => Some(EntryBytes::Text(bytes)),
        (FixedSizeBinary(width), Value::Bytes(bytes)) => {
            (usize::try_from(*width) == Ok(bytes.len())).then_some(EntryBytes::Text(bytes))
        }
        (other, value) => encode_fixed(other, value).map(|(bytes, len)| EntryBytes::Fixed(bytes, len)),
    }
}

/// Returns true if a value can be stored in a column.
fn fits(node: &PlanNode, value: &Value<'_>) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (node.kind, value) {
        // Most values.
        (Storage::Fixed { .. }, Value::Int(_)) if is_signed_word(node.field.data_type()) => return true,
        (Storage::Fixed { .. }, Value::Float64(_)) if matches!(node.field.data_type(), DataType::Float64) => {
            return true;
        }
        _ => (),
    }

    if let Value::Null = value {
        return node.kind == Storage::Nothing || node.nulls.is_some() && node.children.is_empty();
    }
    let is_text = || matches!(node.field.data_type(), Utf8 | LargeUtf8 | Utf8View);
    let is_binary = || matches!(node.field.data_type(), Binary | LargeBinary | BinaryView);

    match (node.kind, value) {
        (Storage::Bits, Value::Bool(_)) => true,
        (Storage::Keys { .. }, value) => entry_of(node, value).is_some(),
        (Storage::Bytes { .. } | Storage::Views { .. }, Value::Str(_)) => is_text(),
        (Storage::Bytes { .. } | Storage::Views { .. }, Value::Bytes(_)) => is_binary(),
        (Storage::Fixed { width }, Value::Bytes(bytes)) => {
            bytes.len() == width && matches!(node.field.data_type(), DataType::FixedSizeBinary(_))
        }
        (Storage::Fixed { width: 1 }, Value::Bool(_)) => node.field.extension_type_name() == Some("arrow.bool8"),
        (Storage::Fixed { .. }, value) => encode_fixed(node.field.data_type(), value).is_some(),
        _ => false,
    }
}

/// Returns the error for a value that can't be stored in a column.
fn unfit(node: &PlanNode, value: &Value<'_>) -> Error {
    let name = node.field.name();
    let data_type = crate::types::field_type_name(&node.field);
    let what = match value {
        Value::Null if !node.children.is_empty() => "null".into(),
        Value::Null => {
            return Error::invalid_argument(format!("column '{name}': null, and the column is declared without nulls"));
        }
        other => format!("{other}"),
    };
    if !node.children.is_empty() {
        return Error::invalid_argument(format!("column '{name}' is {data_type}; append it in batches"));
    }
    let stored = match node.field.data_type() {
        DataType::Dictionary(_, values) => values,
        own => own,
    };
    let advice = time_zone_advice(stored, value);
    Error::invalid_argument(format!("column '{name}': {what} is no {data_type}, or out of its range{advice}"))
}

/// Returns the error for a value that [`check_values`] or [`intern_keys`] should have refused.
#[cold]
fn unwritable(node: &PlanNode, value: &Value<'_>) -> Error {
    let name = node.field.name();
    Error::internal(format_args!("{value} can't be written into column '{name}', which is {:?}", node.kind))
}

/// Writes a value as row `at` of its column; dictionary-encoded values are written by [`put_row`].
#[inline]
fn put_value(live: &mut impl RowSink, node: &PlanNode, at: u64, value: &Value<'_>) -> Result<()> {
    if node.nulls.is_some() {
        put_bit(live, node, node.region, at, !matches!(value, Value::Null))?;
    } else if matches!(value, Value::Null) && node.kind != Storage::Nothing {
        return Err(unwritable(node, value));
    }

    match (node.kind, value) {
        (Storage::Fixed { width: 8 }, Value::Int(n)) if is_signed_word(node.field.data_type()) => {
            live.put(node.values_region(), 8 * at, &n.to_le_bytes())
        }
        (Storage::Fixed { width: 8 }, Value::Float64(x)) if matches!(node.field.data_type(), DataType::Float64) => {
            live.put(node.values_region(), 8 * at, &x.to_le_bytes())
        }
        (Storage::Fixed { width }, Value::Null) => live.put(node.values_region(), at * width as u64, &vec![0; width]),
        (Storage::Fixed { width }, Value::Bytes(bytes)) if bytes.len() == width => {
            live.put(node.values_region(), at * width as u64, bytes)
        }
        (Storage::Fixed { width: 1 }, Value::Bool(flag)) => live.put(node.values_region(), at, &[u8::from(*flag)]),
        (Storage::Fixed { width }, _) => {
            let bytes = encode_fixed(node.field.data_type(), value).filter(|&(_, len)| len == width);
            let (bytes, _) = bytes.ok_or_else(|| unwritable(node, value))?;
            live.put(node.values_region(), at * width as u64, &bytes[..width])
        }
        (Storage::Bits, Value::Bool(bit)) => put_bit(live, node, node.values_region(), at, *bit),
        (Storage::Bits, Value::Null) => put_bit(live, node, node.values_region(), at, false),
        (Storage::Bytes { width, counter }, _) => {
            let text = text_or_empty(node, value)?;
            let base = live.fill_state().counters[counter];
            live.put(node.text_region(), base, text)?;
            let end = base + text.len() as u64;
            debug_assert!(width == 8 || end <= i32::MAX as u64, "`has_room` keeps to the limits");
            live.put(node.values_region(), (at + 1) * width as u64, &end.to_le_bytes()[..width])
        }
        (Storage::Views { counter }, _) => {
            let text = text_or_empty(node, value)?;
            let base = live.fill_state().counters[counter];
            if text.len() > MAX_INLINE {
                live.put(node.text_region(), base, text)?;
            }
            live.put(node.values_region(), VIEW_WIDTH as u64 * at, &encode_view(text, base))
        }
        (Storage::Keys { width, .. }, Value::Null) => {
            live.put(node.values_region(), width as u64 * at, &[0; 8][..width])
        }
        (Storage::Nothing, Value::Null) => Ok(()),
        // Other nested values are appended in batches.
        (Storage::Struct, Value::Null) if node.children.is_empty() => Ok(()),
        _ => Err(unwritable(node, value)),
    }
}

/// Returns the bytes of a text; none for a null.
#[inline]
fn text_or_empty<'a>(node: &PlanNode, value: &'a Value<'_>) -> Result<&'a [u8]> {
    match value {
        Value::Null => Ok(&[]),
        _ => text_of(value).ok_or_else(|| unwritable(node, value)),
    }
}

/// Writes bit `at` of a bitmap: its byte, with the bits below it as they were.
#[inline]
fn put_bit(live: &mut impl RowSink, node: &PlanNode, region: usize, at: u64, bit: bool) -> Result<()> {
    if region == node.region && node.nulls.is_none() {
        return Ok(());
    }
    let shift = at % 8;
    let byte = live.fill_state().tails[region] & !(0xff << shift) | u8::from(bit) << shift;
    live.fill_state().tails[region] = byte;
    live.put(region, at / 8, &[byte])
}

/// Adds the text of a written row to the counters.
#[inline]
fn count_text(counters: &mut [u64], node: &PlanNode, value: &Value<'_>) {
    match (node.kind, text_of(value)) {
        (Storage::Bytes { counter, .. }, Some(text)) => counters[counter] += text.len() as u64,
        (Storage::Views { counter }, Some(text)) if text.len() > MAX_INLINE => counters[counter] += text.len() as u64,
        _ => (),
    }
}
