//! Encodes arrays as the buffers of a record batch: cut to their rows, with offsets that begin at 0, in the order of
//! the layout.
//!
//! Buffers are used in place if possible. Only bitmaps that begin inside a byte, offsets that do not begin at 0, and
//! views that mostly belong to other rows are copied. The values are checked, but every position is bounds-checked
//! again, as the file that they are in may have changed.

use std::ops::Range;
use std::sync::LazyLock;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

use crate::array::slice;
use crate::error::{Error, Result};
use crate::ipc::framing::Node;
use crate::types::{BufferRole, MAX_INLINE, VIEW_WIDTH, fixed_size, number_width};

/// The lists of a record batch, and the buffers they describe.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Length and null count of each field node.
    pub nodes: Vec<(i64, i64)>,
    pub buffers: Vec<Buffer>,
    /// Number of data buffers of each node of views.
    pub variadics: Vec<i64>,
}

/// Maps the keys of dictionary-encoded arrays to the keys of the written file.
pub(super) trait KeyMapper {
    /// Returns the keys of `array`, `array.len()` of them from the buffer's start on.
    fn keys(&mut self, id: i64, array: &ArrayData) -> Result<Buffer>;
}

impl Body {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.buffers.clear();
        self.variadics.clear();
    }

    /// Adds rows of a column of numbers without nulls, in place. Returns false for any other column.
    pub(super) fn add_plain(&mut self, node: &Node, array: &ArrayData, rows: &Range<usize>) -> bool {
        let has_nulls = array.nulls().is_some_and(|nulls| nulls.null_count() > 0);
        let (Some(width), false) = (node.plain_width(), has_nulls) else { return false };
        debug_assert!(rows.end <= array.len(), "rows {rows:?} of an array of {}", array.len());
        let from = (array.offset() + rows.start) * width;
        let len = rows.len() * width;
        let Some(values) = array.buffers().first().filter(|values| from + len <= values.len()) else { return false };
        self.nodes.push((rows.len() as i64, 0));
        self.buffers.extend([no_bytes(), values.slice_with_length(from, len)]);
        true
    }

    /// Adds all rows of `array`, the values of `node`.
    pub(super) fn add(&mut self, node: &Node, array: &ArrayData, keys: &mut impl KeyMapper) -> Result<()> {
        let nulls = if array.data_type() == &DataType::Null { array.len() } else { array.null_count() };
        self.nodes.push((array.len() as i64, nulls as i64));
        if node.layout.has_validity() {
            self.buffers.push(validity(array)?);
        }
        if let Some((id, _)) = &node.dictionary {
            self.buffers.push(keys.keys(*id, array)?);
            return Ok(());
        }
        let children = match array.data_type() {
            DataType::RunEndEncoded(..) => return self.add_runs(node, array, keys),
            DataType::Utf8View | DataType::BinaryView => self.add_views(array)?,
            DataType::ListView(_) | DataType::LargeListView(_) => self.add_list_views(array)?,
            DataType::Union(_, UnionMode::Dense) => self.add_dense(array)?,
            _ => self.add_values(node, array)?,
        };
        assert_eq!(node.children.len(), children.len(), "a child of {} would be lost", array.data_type());
        node.children.iter().zip(&children).try_for_each(|(child, array)| self.add(child, array, keys))
    }

    /// Adds the buffers. Like the functions below, returns the children to add after them.
    fn add_values(&mut self, node: &Node, array: &ArrayData) -> Result<Vec<ArrayData>> {
        for (number, role) in node.layout.value_roles().enumerate() {
            let buffer = buffer_of(array, number)?;
            self.buffers.push(match role {
                BufferRole::Offsets { width } => offsets(array, &buffer, width)?,
                BufferRole::Data => data_of(array, &buffer)?,
                BufferRole::Bits => bits(&buffer, array.offset(), array.len())?,
                role => rows_of(&buffer, role, array)?,
            });
        }
        children_of(array)
    }

    /// Cuts runs to the array's rows: ends count from its first row, and the last one is its length.
    fn add_runs(&mut self, node: &Node, array: &ArrayData, keys: &mut impl KeyMapper) -> Result<()> {
        let ([run_ends, values], [_, values_node]) = (array.child_data(), &node.children[..]) else {
            return Err(Error::invalid("run-end encoding has 2 children"));
        };
        let from = array.offset();
        let to = array.offset() + array.len();
        let first = run_at(run_ends, from)?;
        let end = if array.is_empty() { first } else { run_at(run_ends, to - 1)? + 1 };

        let width = number_width(run_ends.data_type())?;
        let mut ends = Vec::new();
        for run in first..end.min(run_ends.len()) {
            let run_end = number(run_ends, RUN_ENDS, width, run_ends.offset() + run)?.min(to);
            let Some(run_end) = run_end.checked_sub(from).filter(|&run_end| run_end > 0) else {
                return Err(Error::invalid("run ends are not in order"));
            };
            ends.extend_from_slice(&run_end.to_le_bytes()[..width]);
        }

        self.nodes.push(((ends.len() / width) as i64, 0));
        self.buffers.push(no_bytes());
        self.buffers.push(Buffer::from_vec(ends));
        self.add(values_node, &cut(values, first..end)?, keys)
    }

    /// Adds string or binary views. The views of a slice may use little of their data.
    fn add_views(&mut self, array: &ArrayData) -> Result<Vec<ArrayData>> {
        let views = rows_of(&buffer_of(array, 0)?, BufferRole::Views, array)?;
        let data = array.buffers().get(1..);
        let data = data.ok_or_else(|| Error::internal("an array of views without its views"))?;

        let mut used = UsedRanges::new(data.iter().map(|buffer| buffer.len()));
        for row in 0..array.len() {
            if let Some((number, range)) = far_view(array, &views, row) {
                used.add(number, range)?;
            }
        }
        if used.is_mostly_used() {
            self.variadics.push(data.len() as i64);
            self.buffers.push(views);
            self.buffers.extend(data.iter().cloned());
            return Ok(Vec::new());
        }

        self.buffers.push(moved_views(array, &views, &used));
        let parts = data.iter().zip(&used.ranges).filter(|(_, range)| !range.is_empty());
        let before = self.buffers.len();
        self.buffers.extend(parts.map(|(buffer, range)| buffer.slice_with_length(range.start, range.len())));
        self.variadics.push((self.buffers.len() - before) as i64);
        Ok(Vec::new())
    }

    /// Adds list views. The views of a slice may use little of their child.
    fn add_list_views(&mut self, array: &ArrayData) -> Result<Vec<ArrayData>> {
        let width = offset_width(array.data_type());
        let starts = rows_of(&buffer_of(array, 0)?, BufferRole::Starts { width }, array)?;
        let sizes = rows_of(&buffer_of(array, 1)?, BufferRole::Sizes { width }, array)?;
        let child = child_of(array, 0)?;

        let mut used = UsedRanges::new([child.len()]);
        for row in 0..array.len() {
            used.add(0, list_items(array, row)?)?;
        }
        if used.is_mostly_used() {
            self.buffers.extend([starts, sizes]);
            return Ok(vec![child.clone()]);
        }

        let mut starts = Vec::new();
        let mut sizes = Vec::new();
        for row in 0..array.len() {
            let items = list_items(array, row)?;
            let start = if items.is_empty() { 0 } else { items.start - used.ranges[0].start };
            starts.extend_from_slice(&start.to_le_bytes()[..width]);
            sizes.extend_from_slice(&items.len().to_le_bytes()[..width]);
        }
        self.buffers.extend([Buffer::from_vec(starts), Buffer::from_vec(sizes)]);
        Ok(vec![cut(child, used.ranges[0].clone())?])
    }

    /// Adds a dense union. The rows of a slice may use little of its children.
    fn add_dense(&mut self, array: &ArrayData) -> Result<Vec<ArrayData>> {
        self.buffers.push(rows_of(&buffer_of(array, 0)?, BufferRole::TypeIds, array)?);
        let starts = rows_of(&buffer_of(array, 1)?, BufferRole::Starts { width: NARROW }, array)?;

        let mut used = UsedRanges::new(array.child_data().iter().map(ArrayData::len));
        let slots = (0..array.len()).map(|row| union_slot(array, row)).collect::<Result<Vec<_>>>()?;
        for slot in &slots {
            used.add(slot.number, slot.row..slot.row.saturating_add(1))?;
        }
        if used.is_mostly_used() {
            self.buffers.push(starts);
            return Ok(array.child_data().to_vec());
        }

        let mut moved = Vec::with_capacity(slots.len());
        for slot in &slots {
            moved.push(((slot.row - used.ranges[slot.number].start) as u32).to_le_bytes());
        }
        self.buffers.push(Buffer::from_vec(moved.into_flattened()));
        array.child_data().iter().zip(used.ranges).map(|(child, range)| cut(child, range)).collect()
    }
}

/// The ranges of some children or buffers that rows refer to, to decide whether a copy of these alone is worthwhile.
struct UsedRanges {
    /// The smallest range of each that has all used items or bytes.
    ranges: Vec<Range<usize>>,
    /// The number of items or bytes of each.
    lengths: Vec<usize>,
}

impl UsedRanges {
    fn new(lengths: impl IntoIterator<Item = usize>) -> UsedRanges {
        let lengths: Vec<usize> = lengths.into_iter().collect();
        UsedRanges { ranges: vec![0..0; lengths.len()], lengths }
    }

    fn add(&mut self, number: usize, range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (used, length) = self.ranges.get_mut(number).zip(self.lengths.get(number)).ok_or_else(outside)?;
        if range.end > *length {
            return Err(outside());
        }
        *used = if used.start == used.end { range } else { used.start.min(range.start)..used.end.max(range.end) };
        debug_assert!(used.end <= *length, "{used:?} of {length} are in use");
        Ok(())
    }

    /// Returns true if at least half is in use, which makes a copy not worthwhile.
    fn is_mostly_used(&self) -> bool {
        let used = self.ranges.iter().map(Range::len).fold(0, usize::saturating_add);
        let total = self.lengths.iter().copied().fold(0, usize::saturating_add);
        used.saturating_mul(2) >= total
    }
}

#[cold]
fn outside() -> Error {
    Error::invalid("a value is outside of what its array holds")
}

/// The bytes of a view with the number of the buffer that holds its value.
const VIEW_BUFFER: Range<usize> = 8..12;
/// The bytes of a view with the offset of its value in the buffer.
const VIEW_OFFSET: Range<usize> = 12..16;

/// Returns the buffer and range that the view of row `row` points to; `None` if the view holds the value itself.
fn far_view(array: &ArrayData, views: &[u8], row: usize) -> Option<(usize, Range<usize>)> {
    let view = views.as_chunks::<VIEW_WIDTH>().0.get(row)?.as_chunks::<4>().0;
    let [len, _, number, start] = [0, 1, 2, 3].map(|word| u32::from_le_bytes(view[word]) as usize);
    let is_far = len > MAX_INLINE && array.nulls().is_none_or(|nulls| nulls.is_valid(row));
    is_far.then(|| (number, start..start.saturating_add(len)))
}

/// Renumbers the buffers of views and moves their offsets according to `used`; views of nulls become empty.
fn moved_views(array: &ArrayData, views: &[u8], used: &UsedRanges) -> Buffer {
    let mut new_numbers = Vec::with_capacity(used.ranges.len());
    let mut next = 0u32;
    for range in &used.ranges {
        new_numbers.push(next);
        next += u32::from(!range.is_empty());
    }

    let mut moved = views.to_vec();
    for (row, view) in moved.as_chunks_mut::<VIEW_WIDTH>().0.iter_mut().enumerate() {
        if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
            *view = [0; VIEW_WIDTH];
        } else if let Some((number, range)) = far_view(array, views, row) {
            let offset = (range.start - used.ranges[number].start) as u32;
            view[VIEW_BUFFER].copy_from_slice(&new_numbers[number].to_le_bytes());
            view[VIEW_OFFSET].copy_from_slice(&offset.to_le_bytes());
        }
    }
    Buffer::from_vec(moved)
}

/// Returns the children, cut to the rows of the array.
fn children_of(array: &ArrayData) -> Result<Vec<ArrayData>> {
    let range = match array.data_type() {
        DataType::List(_) | DataType::Map(..) | DataType::LargeList(_) => enclosed_range(array)?,
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size(*size)?;
            let end = (array.offset() + array.len()).checked_mul(size).ok_or_else(outside)?;
            array.offset() * size..end
        }
        DataType::Union(..) => array.offset()..array.offset() + array.len(),
        _ => 0..array.len(),
    };
    array.child_data().iter().map(|child| cut(child, range.clone())).collect()
}

fn cut(array: &ArrayData, rows: Range<usize>) -> Result<ArrayData> {
    if rows.start > rows.end || rows.end > array.len() {
        return Err(outside());
    }
    Ok(slice(array, rows.start, rows.len()))
}

fn buffer_of(array: &ArrayData, number: usize) -> Result<Buffer> {
    let buffer = array.buffers().get(number).cloned();
    buffer.ok_or_else(|| Error::invalid(format!("{} without buffer {number}", array.data_type())))
}

/// Returns child number `number`.
pub(super) fn child_of(array: &ArrayData, number: usize) -> Result<&ArrayData> {
    let child = array.child_data().get(number);
    child.ok_or_else(|| Error::invalid(format!("{} without child {number}", array.data_type())))
}

/// The number of the buffer of offsets of strings and lists, or of the starts of list views.
const OFFSETS: usize = 0;
/// The number of the buffer of sizes of list views.
const SIZES: usize = 1;
/// The number of the buffer of offsets of a dense union, after its type ids.
const UNION_OFFSETS: usize = 1;
/// The number of the only buffer of run ends.
const RUN_ENDS: usize = 0;

/// The size in bytes of an offset, but for the large variants of types.
const NARROW: usize = 4;
/// The size in bytes of an offset of the large variants of types.
const WIDE: usize = 8;

/// Returns the bytes of each offset of a type.
fn offset_width(data_type: &DataType) -> usize {
    use DataType::*;
    match data_type {
        LargeUtf8 | LargeBinary | LargeList(_) | LargeListView(_) => WIDE,
        _ => NARROW,
    }
}

/// Returns element `index` of a buffer of offsets, sizes or run ends of `width` bytes.
pub(super) fn number(array: &ArrayData, buffer: usize, width: usize, index: usize) -> Result<usize> {
    debug_assert!(matches!(width, 1 | 2 | 4 | 8), "numbers of {width} bytes");
    let bytes = array.buffers().get(buffer).map_or(&[][..], |b| b.as_slice());
    let raw = index.checked_mul(width).and_then(|start| bytes.get(start..start.checked_add(width)?));
    let raw = raw.ok_or_else(outside)?;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(raw);
    let is_negative = raw.last().is_some_and(|&last| last >= 0x80);
    match usize::try_from(u64::from_le_bytes(wide)) {
        Ok(number) if !is_negative => Ok(number),
        _ => Err(Error::invalid("an offset, size or run end is negative")),
    }
}

/// Returns the run of row `row` of the run-end encoded array: the first that ends after it.
pub(super) fn run_at(run_ends: &ArrayData, row: usize) -> Result<usize> {
    let width = number_width(run_ends.data_type())?;
    let mut low = 0;
    let mut high = run_ends.len();
    while low < high {
        let middle = low + (high - low) / 2;
        if number(run_ends, RUN_ENDS, width, run_ends.offset() + middle)? <= row {
            low = middle + 1
        } else {
            high = middle
        }
    }
    Ok(low)
}

/// Returns the rows of the child that belong to row `row` of a list of any kind; none for a null.
pub(super) fn list_items(array: &ArrayData, row: usize) -> Result<Range<usize>> {
    let index = array.offset() + row;
    if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(0..0);
    }
    // The widths are constants, as this is called for each row.
    let (start, end) = match array.data_type() {
        DataType::ListView(_) => {
            let start = number(array, OFFSETS, NARROW, index)?;
            (start, start.saturating_add(number(array, SIZES, NARROW, index)?))
        }
        DataType::LargeListView(_) => {
            let start = number(array, OFFSETS, WIDE, index)?;
            (start, start.saturating_add(number(array, SIZES, WIDE, index)?))
        }
        DataType::LargeList(_) => (number(array, OFFSETS, WIDE, index)?, number(array, OFFSETS, WIDE, index + 1)?),
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size(*size)?;
            let start = index.saturating_mul(size);
            (start, start.saturating_add(size))
        }
        _ => (number(array, OFFSETS, NARROW, index)?, number(array, OFFSETS, NARROW, index + 1)?),
    };
    if start <= end && end <= child_of(array, 0)?.len() { Ok(start..end) } else { Err(outside()) }
}

/// The position of a union's value.
pub(super) struct UnionSlot {
    pub id: i8,
    /// The number of the child.
    pub number: usize,
    pub row: usize,
}

/// Returns the position of the value of row `row` of a union.
pub(super) fn union_slot(array: &ArrayData, row: usize) -> Result<UnionSlot> {
    let index = array.offset() + row;
    let DataType::Union(fields, mode) = array.data_type() else { return Err(Error::invalid("not a union")) };
    let id = array.buffers().first().and_then(|ids| ids.get(index)).ok_or_else(outside)?.cast_signed();
    let Some(child) = fields.iter().position(|(child_id, _)| child_id == id) else {
        return Err(Error::invalid(format!("type id {id} is none of the union's")));
    };
    let row = match mode {
        UnionMode::Sparse => index,
        UnionMode::Dense => number(array, UNION_OFFSETS, NARROW, index)?,
    };
    Ok(UnionSlot { id, number: child, row })
}

fn validity(array: &ArrayData) -> Result<Buffer> {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => bits(nulls.buffer(), nulls.offset(), nulls.len()),
        _ => Ok(no_bytes()),
    }
}

/// Returns the empty buffer, a clone of a single one.
fn no_bytes() -> Buffer {
    static NONE: LazyLock<Buffer> = LazyLock::new(|| Buffer::from_vec(Vec::<u8>::new()));
    NONE.clone()
}

fn bits(buffer: &Buffer, offset: usize, len: usize) -> Result<Buffer> {
    if offset.checked_add(len).is_some_and(|end| end.div_ceil(8) <= buffer.len()) {
        Ok(BooleanBuffer::new(buffer.clone(), offset, len).sliced())
    } else {
        Err(Error::invalid("a bitmap is too short"))
    }
}

/// Returns the bytes of the array's rows, for roles with a fixed number of bytes for each.
fn rows_of(buffer: &Buffer, role: BufferRole, array: &ArrayData) -> Result<Buffer> {
    if let (Some(start), Some(len)) = (role.bytes_for(array.offset()), role.bytes_for(array.len()))
        && start.checked_add(len).is_some_and(|end| end <= buffer.len())
    {
        return Ok(buffer.slice_with_length(start, len));
    }
    Err(Error::invalid(format!("a {} buffer is too short", role.name())))
}

/// Returns the range from the first to the last offset of the array's rows.
fn enclosed_range(array: &ArrayData) -> Result<Range<usize>> {
    if array.is_empty() {
        return Ok(0..0);
    }
    let width = offset_width(array.data_type());
    let start = number(array, OFFSETS, width, array.offset())?;
    let end = number(array, OFFSETS, width, array.offset() + array.len())?;
    if start <= end { Ok(start..end) } else { Err(Error::invalid("offsets are not in order")) }
}

/// Returns the offsets of the array's rows, rebased to begin at 0.
fn offsets(array: &ArrayData, buffer: &Buffer, width: usize) -> Result<Buffer> {
    if array.is_empty() {
        return Ok(Buffer::from_vec(vec![0u8; width]));
    }
    let first = enclosed_range(array)?.start;
    let rows = buffer.slice_with_length(array.offset() * width, (array.len() + 1) * width);
    Ok(match (first, width) {
        (0, _) => rows,
        (_, WIDE) => map_numbers(&rows, |raw| u64::from_le_bytes(raw).wrapping_sub(first as u64).to_le_bytes()),
        _ => map_numbers(&rows, |raw| u32::from_le_bytes(raw).wrapping_sub(first as u32).to_le_bytes()),
    })
}

fn map_numbers<const N: usize>(numbers: &[u8], convert: impl Fn([u8; N]) -> [u8; N]) -> Buffer {
    let converted: Vec<[u8; N]> = numbers.as_chunks::<N>().0.iter().map(|&raw| convert(raw)).collect();
    Buffer::from_vec(converted.into_flattened())
}

/// Returns the bytes of the array's text or binary values.
fn data_of(array: &ArrayData, data: &Buffer) -> Result<Buffer> {
    let range = enclosed_range(array)?;
    if range.end <= data.len() {
        Ok(data.slice_with_length(range.start, range.len()))
    } else {
        Err(Error::invalid("offsets end past their data"))
    }
}
