//! Finds the rows of children to which rows of an array refer.

use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

use super::plan::PlanNode;
use crate::error::{Error, Result};
use crate::types::fixed_size;

/// Calls `visit` with each child, and the rows of it that belong to `rows` of the array.
pub(super) fn each_child(
    node: &PlanNode,
    array: &ArrayData,
    rows: &Range<usize>,
    mut visit: impl FnMut(&PlanNode, &ArrayData, Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut children = node.children.iter().zip(array.child_data()).enumerate();
    children.try_for_each(|(number, (child, values))| visit(child, values, child_range(array, number, rows)?))
}

/// The number that ids of no member have.
const NO_MEMBER: usize = usize::MAX;

/// The number of type ids: all values of a byte.
const TYPE_IDS: usize = 1 << u8::BITS;

/// Maps each type id of a union, as an unsigned byte, to the number of its member. Ids of no member have a number that
/// is beyond any list of members.
pub(crate) fn member_numbers(data_type: &DataType) -> [usize; TYPE_IDS] {
    let mut numbers = [NO_MEMBER; TYPE_IDS];
    if let DataType::Union(members, _) = data_type {
        for (number, (id, _)) in members.iter().enumerate() {
            numbers[usize::from(id.cast_unsigned())] = number;
        }
    }
    numbers
}

/// Returns the rows of child number `child` that belong to `rows` of an array, which must be
/// [`straight`](super::normalize::straight).
pub(super) fn child_range(array: &ArrayData, child: usize, rows: &Range<usize>) -> Result<Range<usize>> {
    let range = match array.data_type() {
        DataType::List(_) | DataType::Map(..) => offset_range(array, rows, size_of::<i32>())?,
        DataType::LargeList(_) => offset_range(array, rows, size_of::<i64>())?,
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size(*size)?;
            (array.offset() + rows.start).saturating_mul(size)..(array.offset() + rows.end).saturating_mul(size)
        }
        DataType::Struct(_) => rows.clone(),
        DataType::Union(_, UnionMode::Sparse) => array.offset() + rows.start..array.offset() + rows.end,
        DataType::Union(_, UnionMode::Dense) => rows_of_member(array, child, rows)?,
        DataType::ListView(_) | DataType::LargeListView(_) => {
            return Err(Error::internal("list views, whose items are in no order"));
        }
        _ => return Ok(0..0),
    };
    let len = array.child_data().get(child).map_or(0, ArrayData::len);
    if range.start <= range.end && range.end <= len {
        Ok(range)
    } else {
        Err(Error::invalid("a list's offsets are not in order inside its items"))
    }
}

/// Returns the rows of member number `member` of a dense union to which `rows` of it refer. The union must be
/// [`straight`](super::normalize::straight).
///
/// Looks at these rows only, because it is called for each single row if others are null.
fn rows_of_member(array: &ArrayData, member: usize, rows: &Range<usize>) -> Result<Range<usize>> {
    let [ids, offsets] = array.buffers() else { return Err(Error::invalid("a dense union without offsets")) };
    let DataType::Union(members, _) = array.data_type() else { return Err(Error::internal("a union that is none")) };
    let id = members.iter().nth(member).map(|(id, _)| id.cast_unsigned());
    let start = array.offset() + rows.start;
    let ids = ids.get(start..array.offset() + rows.end).ok_or_else(|| Error::invalid("fewer type ids than rows"))?;
    let mut member_rows = (start..).zip(ids).filter(|&(_, &other)| Some(other) == id).map(|(row, _)| row);
    let Some(first) = member_rows.next() else { return Ok(0..0) };
    let (last, count) = member_rows.fold((first, 1), |(_, count), row| (row, count + 1));
    let offset = |row: usize| {
        let offset = offsets.as_chunks().0.get(row).map(|&raw| u32::from_le_bytes(raw) as usize);
        offset.ok_or_else(|| Error::invalid("fewer offsets than rows"))
    };
    let first = offset(first)?;
    if offset(last)? + 1 == first + count {
        Ok(first..first + count)
    } else {
        Err(Error::internal("a dense union whose members are in no order"))
    }
}

/// Returns the items of lists, whose offsets have `width` bytes.
fn offset_range(array: &ArrayData, rows: &Range<usize>, width: usize) -> Result<Range<usize>> {
    Ok(offset_at(array, rows.start, width)?..offset_at(array, rows.end, width)?)
}

/// Returns offset number `row` of an array, whose offsets have `width` bytes; 0 for an empty array without offsets.
pub(super) fn offset_at(array: &ArrayData, row: usize, width: usize) -> Result<usize> {
    let bytes = array.buffers().first().map_or(&[][..], |offsets| offsets.as_slice());
    if array.is_empty() && bytes.is_empty() {
        return Ok(0);
    }
    let at = (array.offset() + row) * width;
    let offset = bytes.get(at..at + width).and_then(|raw| match raw.first_chunk() {
        Some(raw) => Some(i64::from_le_bytes(*raw)),
        None => raw.first_chunk().map(|raw| i32::from_le_bytes(*raw).into()),
    });
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| Error::invalid(format!("row {row}: an offset is missing or negative")))
}
