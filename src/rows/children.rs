//! The rows of children that rows of an array refer to.

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

/// Maps each type id of a union, as an unsigned byte, to the number of its member.
///
/// Ids of no member have the number `usize::MAX`.
pub(crate) fn member_numbers(data_type: &DataType) -> [usize; 256] {
    let mut numbers = [usize::MAX; 256];
    if let DataType::Union(members, _) = data_type {
        for (number, (id, _)) in members.iter().enumerate() {
            numbers[usize::from(id.cast_unsigned())] = number;
        }
    }
    numbers
}

/// Returns the rows of child number `child` that belong to `rows` of an array, which must be [`straight`].
pub(super) fn child_range(array: &ArrayData, child: usize, rows: &Range<usize>) -> Result<Range<usize>> {
    let range = match array.data_type() {
        DataType::List(_) | DataType::Map(..) => offset_at(array, rows.start, 4)?..offset_at(array, rows.end, 4)?,
        DataType::LargeList(_) => offset_at(array, rows.start, 8)?..offset_at(array, rows.end, 8)?,
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

/// Returns the rows of member number `member` of a dense union, which must be [`straight`], that `rows` of it refer to.
///
/// Looks at these rows only: it is called for each row below nulls.
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

/// Returns offset number `row` of an array; 0 for an empty array without offsets.
pub(super) fn offset_at(array: &ArrayData, row: usize, width: usize) -> Result<usize> {
    let bytes = array.buffers().first().map_or(&[][..], |offsets| offsets.as_slice());
    if array.is_empty() && bytes.is_empty() {
        return Ok(0);
    }
    let at = (array.offset() + row) * width;
    let offset = bytes.get(at..at + width).map(|raw| match raw.first_chunk::<8>() {
        Some(raw) => i64::from_le_bytes(*raw),
        None => raw.first_chunk().map_or(-1, |raw| i32::from_le_bytes(*raw).into()),
    });
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| Error::invalid(format!("row {row}: an offset is missing or negative")))
}
