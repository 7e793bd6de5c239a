//! Makes arrays *straight*: each row's items and members follow the previous row's.
//!
//! In Arrow, list views and dense unions may refer to their children in any order. The buffers of a segment are
//! appended to, and so need them in the order of the rows. In a straight array, moreover, no key refers to a null entry
//! of a dictionary: such a value is null itself.

use arrow_buffer::BooleanBufferBuilder;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef, UnionMode};

use crate::array::access::entry_lookup;
use crate::array::gather::{Pick, gather};
use crate::array::{UncheckedArray, room_for};
use crate::error::{Error, Result};

/// Returns the array as a straight one: with list views converted to lists, with the members of dense unions in the
/// order of their rows, and with nulls for keys of null entries.
pub(super) fn straight(array: &ArrayData) -> Result<ArrayData> {
    if has_null_entries(array) { in_order(&without_null_entries(array)?) } else { in_order(array) }
}

/// Returns the array with its items and members in the order of the rows.
fn in_order(array: &ArrayData) -> Result<ArrayData> {
    let data_type = straight_type(array.data_type());
    let is_straight = data_type == *array.data_type() && !has_dense_unions(&data_type);
    if is_straight {
        return Ok(array.clone());
    }
    let mut rows = room_for::<Pick>(array.len() as u64, "rows to put in order")?;
    rows.extend((0..array.len()).map(|row| (0, row)));
    gather(&data_type, &[UncheckedArray::from_ref(array)], &rows)?.checked(&[])
}

/// Returns true if the dictionary of a part has entries that are null.
fn has_null_entries(array: &ArrayData) -> bool {
    let is_dictionary = matches!(array.data_type(), DataType::Dictionary(..));
    array.child_data().iter().any(|child| is_dictionary && child.null_count() > 0 || has_null_entries(child))
}

/// Returns the array with nulls instead of keys of null entries.
///
/// Buffers are copied where a file aligns them to fewer bytes than their values have.
fn without_null_entries(array: &ArrayData) -> Result<ArrayData> {
    let invalid = |e: ArrowError| Error::invalid(e.to_string());
    if !matches!(array.data_type(), DataType::Dictionary(..)) {
        let children = array.child_data().iter().map(without_null_entries).collect::<Result<_>>()?;
        return array.clone().into_builder().child_data(children).align_buffers(true).build().map_err(invalid);
    }
    let Some(values) = array.child_data().first() else { return Ok(array.clone()) };
    let entry_of = entry_lookup(array);
    let mut valid = BooleanBufferBuilder::new(0);
    for row in 0..array.len() {
        valid.append(!array.is_null(row) && !values.is_null(entry_of(row)?));
    }
    // The bitmap begins at the array's own offset.
    let mut bits = BooleanBufferBuilder::new(0);
    bits.append_n(array.offset(), false);
    bits.append_buffer(&valid.finish());
    let built = array.clone().into_builder().null_bit_buffer(Some(bits.finish().into_inner()));
    // A file may align values to 8 bytes, and views and decimals need 16.
    built.align_buffers(true).build().map_err(invalid)
}

/// Returns the type with lists instead of list views.
fn straight_type(data_type: &DataType) -> DataType {
    use DataType::*;
    let inside = |field: &FieldRef| -> FieldRef {
        let data_type = straight_type(field.data_type());
        if data_type == *field.data_type() {
            field.clone()
        } else {
            field.as_ref().clone().with_data_type(data_type).into()
        }
    };
    match data_type {
        List(item) | ListView(item) => List(inside(item)),
        LargeList(item) | LargeListView(item) => LargeList(inside(item)),
        FixedSizeList(item, size) => FixedSizeList(inside(item), *size),
        Map(entries, is_sorted) => Map(inside(entries), *is_sorted),
        Struct(fields) => Struct(fields.iter().map(inside).collect()),
        Union(members, mode) => Union(members.iter().map(|(id, member)| (id, inside(member))).collect(), *mode),
        other => other.clone(),
    }
}

fn has_dense_unions(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Union(_, UnionMode::Dense) => true,
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => has_dense_unions(item.data_type()),
        Struct(fields) => fields.iter().any(|field| has_dense_unions(field.data_type())),
        Union(members, _) => members.iter().any(|(_, member)| has_dense_unions(member.data_type())),
        _ => false,
    }
}
