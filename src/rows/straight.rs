//! Converts arrays whose parts refer to each other in any order into arrays with each row's parts after those of the
//! previous row.

use std::borrow::Cow;

use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef, UnionMode};

use crate::array::access::{dictionary_of, entry_of};
use crate::array::gather::{Pick, gather};
use crate::array::{Unchecked, room_for};
use crate::error::Result;

/// The array with list views converted to lists, and with the members of dense unions in the order of their rows.
pub(super) fn straight(array: &ArrayData) -> Result<ArrayData> {
    let data_type = straight_type(array.data_type());
    let is_straight = data_type == *array.data_type() && !has_dense_unions(&data_type);
    if is_straight {
        return Ok(array.clone());
    }
    let mut rows = room_for::<Pick>(array.len() as u64, "rows to put in order")?;
    rows.extend((0..array.len()).map(|row| (0, row)));
    gather(&data_type, &[Unchecked::of(array)], &rows)?.checked(&[])
}

/// Which rows are null: in a dictionary also those of a null entry.
pub(super) fn nulls_of(array: &ArrayData) -> Result<Option<Cow<'_, NullBuffer>>> {
    let own = array.nulls().map(Cow::Borrowed);
    if !matches!(array.data_type(), DataType::Dictionary(..)) {
        return Ok(own);
    }
    let Some(entries) = dictionary_of(array)?.nulls().filter(|entries| entries.null_count() > 0) else {
        return Ok(own);
    };
    let entry = entry_of(array);
    let mut valid: Vec<bool> = room_for(array.len() as u64, "rows of a dictionary with a null entry")?;
    for row in 0..array.len() {
        let is_valid = array.nulls().is_none_or(|nulls| nulls.is_valid(row));
        valid.push(is_valid && entry(row).map(|entry| entries.is_valid(entry))?);
    }
    Ok(Some(Cow::Owned(NullBuffer::new(BooleanBuffer::from(valid)))))
}

/// The type with lists instead of list views.
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
