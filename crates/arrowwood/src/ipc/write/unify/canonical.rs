//! Compares dictionaries and their values by a canonical encoding.
//!
//! The canonical encoding of a value consists of the array's own bytes, each variable part after its length. Two values
//! of one type have the same encoding exactly if they have the same bits: a NaN with another payload is another value,
//! and so is a date64 with another time of the same day.

use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::{Value, key, value};
use crate::error::{Error, Result};
use crate::ipc::write::encode::{child_of, list_items, run_at, union_slot};
use crate::types::{BufferRole, fixed_size, layout};

/// Limits the work of comparing and copying values.
///
/// A small file can describe endless values with rows without bytes, and with lists that share their items. Real
/// dictionaries are never far larger than their bytes.
///
/// Each value costs 1, and each of its bytes 1. A budget starts with enough for any small dictionary, and
/// [`grant`](Budget::grant) adds a multiple of the bytes of each dictionary that is compared.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Budget {
        /// The work that may always be done.
        const FREE_WORK: usize = 1 << 24;
        Budget(FREE_WORK)
    }

    /// Adds the work that the values of `dictionary` may take.
    pub(super) fn grant(&mut self, dictionary: &ArrayData) {
        /// The work that a byte of a dictionary justifies.
        const WORK_PER_BYTE: usize = 256;
        self.0 = self.0.saturating_add(buffer_bytes(dictionary).saturating_mul(WORK_PER_BYTE));
    }

    /// Takes `work` from the budget.
    ///
    /// # Errors
    /// `Unsupported` if less is left.
    pub(super) fn spend(&mut self, work: usize) -> Result<()> {
        let Some(left) = self.0.checked_sub(work) else {
            return Err(Error::unsupported(
                "putting dictionaries together whose values are far larger than the bytes they are in",
            ));
        };
        self.0 = left;
        Ok(())
    }
}

/// Returns the length of all buffers of an array and its children in bytes.
fn buffer_bytes(array: &ArrayData) -> usize {
    let nulls = array.nulls().map_or(0, |nulls| nulls.buffer().len());
    let children = array.child_data().iter().map(buffer_bytes);
    array.buffers().iter().map(|buffer| buffer.len()).chain(children).fold(nulls, usize::saturating_add)
}

/// Returns the identity of an array in memory. Of two arrays of one type with the same identity, the shorter is a
/// prefix of the longer.
pub(super) fn identity(array: &ArrayData) -> Box<[usize]> {
    let mut identity = Vec::new();
    add_identity(array, &mut identity);
    identity.into()
}

fn add_identity(array: &ArrayData, identity: &mut Vec<usize>) {
    let (nulls, offset) = array.nulls().map_or((0, 0), |nulls| (nulls.buffer().as_ptr() as usize, nulls.offset()));
    identity.extend([array.offset(), nulls, offset, array.buffers().len()]);
    identity.extend(array.buffers().iter().map(|buffer| buffer.as_ptr() as usize));
    for child in array.child_data() {
        add_identity(child, identity);
    }
}

/// Returns true if two arrays of one type have the same bytes. Fast, and never true for different values.
pub(super) fn are_copies(a: &ArrayData, b: &ArrayData) -> bool {
    (a.len(), a.offset()) == (b.len(), b.offset())
        && a.nulls() == b.nulls()
        && a.buffers() == b.buffers()
        && a.child_data().len() == b.child_data().len()
        && a.child_data().iter().zip(b.child_data()).all(|(a, b)| are_copies(a, b))
}

/// Returns true if the first `rows` values of two arrays of one type are the same.
pub(super) fn agree(a: &ArrayData, b: &ArrayData, rows: usize) -> Result<bool> {
    assert!(rows <= a.len() && rows <= b.len(), "{rows} values of arrays of {} and {}", a.len(), b.len());
    if a.len() == b.len() && are_copies(a, b) {
        return Ok(true);
    }
    let mut budget = Budget::new();
    budget.grant(a);
    budget.grant(b);
    let mut left = Vec::new();
    let mut right = Vec::new();
    for row in 0..rows {
        left.clear();
        right.clear();
        encode_value(a, row, &mut left, &mut budget)?;
        encode_value(b, row, &mut right, &mut budget)?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first byte of the encoding of a null.
const NULL: u8 = 0;
/// The first byte of the encoding of a value.
const VALID: u8 = 1;

/// Appends the canonical encoding of row `row`.
pub(super) fn encode_value(array: &ArrayData, row: usize, into: &mut Vec<u8>, budget: &mut Budget) -> Result<()> {
    use DataType::*;
    budget.spend(1)?;
    if is_null(array, row)? {
        into.push(NULL);
        return charge_null(array, row, budget);
    }
    let index = array.offset() + row;
    match array.data_type() {
        Dictionary(..) => return encode_value(child_of(array, 0)?, key(array, index)?, into, budget),
        RunEndEncoded(..) => {
            let run = run_at(child_of(array, 0)?, index)?;
            return encode_value(child_of(array, 1)?, run, into, budget);
        }
        _ => into.push(VALID),
    }
    match array.data_type() {
        Null => Ok(()),
        Struct(_) => array.child_data().iter().try_for_each(|child| encode_value(child, row, into, budget)),
        Union(..) => {
            let slot = union_slot(array, row)?;
            into.push(slot.id.cast_unsigned());
            encode_value(child_of(array, slot.number)?, slot.row, into, budget)
        }
        List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) | Map(..) => {
            let items = list_items(array, row)?;
            let child = child_of(array, 0)?;
            into.extend_from_slice(&items.len().to_le_bytes());
            items.into_iter().try_for_each(|item| encode_value(child, item, into, budget))
        }
        _ => {
            let bytes = value_bytes(array, row)?;
            budget.spend(bytes.len())?;
            into.extend_from_slice(&bytes.len().to_le_bytes());
            into.extend_from_slice(bytes);
            Ok(())
        }
    }
}

/// Spends the work of copying a null: structs and fixed-size lists have values below it.
fn charge_null(array: &ArrayData, row: usize, budget: &mut Budget) -> Result<()> {
    let rows = match array.data_type() {
        DataType::Struct(_) => row..row + 1,
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size(*size)?;
            let start = (array.offset() + row).saturating_mul(size);
            start..start.saturating_add(size)
        }
        _ => return Ok(()),
    };
    let mut unused = Vec::new();
    for child in array.child_data() {
        for row in rows.clone() {
            unused.clear();
            encode_value(child, row, &mut unused, budget)?;
        }
    }
    Ok(())
}

/// Returns true if row `row` is null by the validity bitmap; an error if there is no such row.
fn is_null(array: &ArrayData, row: usize) -> Result<bool> {
    if row >= array.len() {
        return Err(Error::invalid(format!("row {row} of an array of {} rows", array.len())));
    }
    Ok(array.nulls().is_some_and(|nulls| nulls.is_null(row)))
}

/// Returns the bytes of a value that is neither nested nor null.
fn value_bytes(array: &ArrayData, row: usize) -> Result<&[u8]> {
    if let Some(BufferRole::Values { width, .. }) = layout(array.data_type()).value_roles().next() {
        let start = (array.offset() + row).checked_mul(width);
        let buffer = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
        let bytes = start.and_then(|start| buffer.get(start..start.checked_add(width)?));
        return bytes.ok_or_else(|| Error::invalid("fewer values than rows"));
    }
    Ok(match value(array, row)? {
        Value::Str(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        Value::Bool(false) => &[0],
        Value::Bool(true) => &[1],
        other => return Err(Error::internal(format_args!("{other} has no bytes of its own"))),
    })
}
