//! Finds the keys of values in the dictionaries of a table.

use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::dictionary_entries::DictionaryEntries;
use crate::array::access::entry_lookup;
use crate::array::merge_dictionaries::CategoryOrder;
use crate::array::{Value, value};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{has_bits, layout};

/// Returns the bytes of a text; `None` for a null.
pub(super) fn text_at(array: &ArrayData, row: usize) -> Result<Option<&[u8]>> {
    match value(array, row)? {
        Value::Str(text) => Ok(Some(text.as_bytes())),
        Value::Bytes(bytes) => Ok(Some(bytes)),
        Value::Null => Ok(None),
        other => Err(Error::internal(format_args!("row {row} of a column of text is {other}"))),
    }
}

/// Returns the bytes of a value that a dictionary can have; `None` for a null.
fn bytes_at(array: &ArrayData, row: usize) -> Result<Option<&[u8]>> {
    let Some(width) = layout(array.data_type()).plain_width() else { return text_at(array, row) };
    if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(None);
    }
    let at = (array.offset() + row) * width;
    let bytes = array.buffers().first().and_then(|values| values.get(at..at + width));
    bytes.map(Some).ok_or_else(|| Error::invalid("fewer values than rows"))
}

/// Adds all values of an ordered dictionary, in their order, which is the order in which they are compared.
///
/// # Errors
/// `SchemaMismatch` if the values that were added before have another order.
pub(super) fn add_categories(array: &ArrayData, entries: &mut DictionaryEntries) -> Result<()> {
    let values = match array.child_data().first() {
        // Values without bytes are all equal, and may be any number.
        Some(values) if matches!(array.data_type(), DataType::Dictionary(..)) && has_bits(values.data_type()) => values,
        _ => return Ok(()),
    };
    let mut order = CategoryOrder::default();
    for row in 0..values.len() {
        let Some(value) = bytes_at(values, row)? else { continue };
        let key = entries.key(value).ok_or_else(|| entries.full_error())?;
        if !order.accepts(key.into()) {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                "the ordered categories are in another order than those of the rows before; new ones can only be \
                 added behind them",
            ));
        }
    }
    Ok(())
}

/// Keys are noted for arrays whose dictionaries have at most about this many values for each row.
const MAX_VALUES_PER_ROW: usize = 64;

/// Returns the dictionary keys of values in any encoding; 0 for nulls. Inlined into a larger function, the loop would
/// take an instruction more for each row.
#[inline(never)]
pub(super) fn keys_of(array: &ArrayData, rows: Range<usize>, entries: &mut DictionaryEntries) -> Result<Vec<u32>> {
    let mut key_of = |value: &[u8]| match entries.key(value) {
        Some(key) => Ok(key),
        None => Err(entries.full_error()),
    };
    let DataType::Dictionary(..) = array.data_type() else {
        let key = |row| bytes_at(array, row)?.map_or(Ok(0), &mut key_of);
        return rows.map(key).collect();
    };
    let values = array.child_data().first().ok_or_else(|| Error::invalid("a dictionary without values"))?;

    // The key of each value is noted, but not of many values for a few rows: values without bytes may be any number.
    let is_worthwhile = values.len() / MAX_VALUES_PER_ROW <= rows.len();
    let mut known: Vec<Option<u32>> = vec![None; if is_worthwhile { values.len() } else { 0 }];
    let entry_of = entry_lookup(array);
    let nulls = array.nulls();
    let mut keys = Vec::with_capacity(rows.len());

    for row in rows {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            keys.push(0);
            continue;
        }
        let number = entry_of(row)?;
        if let Some(Some(key)) = known.get(number) {
            keys.push(*key);
            continue;
        }
        let value = bytes_at(values, number)?;
        let key = key_of(value.ok_or_else(|| Error::internal("a null entry of a dictionary that is straight"))?)?;
        if let Some(known) = known.get_mut(number) {
            *known = Some(key);
        }
        keys.push(key);
    }

    Ok(keys)
}
