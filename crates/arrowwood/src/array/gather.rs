//! Gathers rows of several arrays of one type, in any order.
//!
//! Every offset is loaded once and bounded, so that rows of unchecked columns can be gathered: ten thousand rows of a
//! large file cost ten thousand rows. The result must be checked instead.

use std::cell::Cell;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, Field, FieldRef, UnionFields, UnionMode};

use super::access::{Bits, Texts, fixed_values, fixed_width};
use super::value::{find_run, value};
use super::{ArrayParts, UncheckedArray, Value, build_buffer, merge_dictionaries, room_for, value_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{BufferRole, MAX_INLINE, VIEW_WIDTH, fixed_size, has_bits, is_ordered, layout};

/// A row: the number of its array, and the number of the row there.
pub(crate) type Pick = (u32, usize);

/// Adjacent items: the number of their array, and their range there.
type ItemRange = (u32, Range<usize>);

/// The number of items that may always be copied, however few bytes they have: a caller may repeat rows.
const FREE_ITEMS: usize = 1 << 24;

/// Buffers and children of an array.
type BuffersAndChildren = (Vec<Buffer>, Vec<UncheckedArray>);

/// Returns the rows `picks` of the arrays `from`, all of type `data_type`.
///
/// # Errors
/// `Unsupported` if there are too many rows for the offsets or keys of the type.
pub(crate) fn gather(data_type: &DataType, from: &[&UncheckedArray], picks: &[Pick]) -> Result<UncheckedArray> {
    gather_as(data_type, false, from, picks)
}

/// Gathers like [`gather`], for a column of `field`: the dictionaries of ordered categories are merged in their order.
///
/// # Errors
/// The errors of `gather`; `InvalidArgument` if ordered dictionaries contradict each other.
pub(crate) fn gather_column(field: &Field, from: &[&UncheckedArray], picks: &[Pick]) -> Result<UncheckedArray> {
    gather_as(field.data_type(), is_ordered(field), from, picks)
}

/// Gathers like [`gather_column`], for values inside of others, which are not compared by their order: rows whose
/// categories contradict each other are gathered too.
fn gather_nested(field: &Field, from: &[&UncheckedArray], picks: &[Pick]) -> Result<UncheckedArray> {
    match gather_column(field, from, picks) {
        Err(e) if e.kind() == ErrorKind::InvalidArgument => gather(field.data_type(), from, picks),
        gathered => gathered,
    }
}

fn gather_as(
    data_type: &DataType,
    is_ordered: bool,
    from: &[&UncheckedArray],
    picks: &[Pick],
) -> Result<UncheckedArray> {
    use DataType::*;
    debug_assert!(picks.iter().all(|&(array, _)| (array as usize) < from.len()), "a row of an unknown array");
    let validity = if layout(data_type).has_validity() { validity(from, picks) } else { None };
    let (buffers, children) = match data_type {
        Null => (Vec::new(), Vec::new()),
        Boolean => (vec![bits(from, picks)], Vec::new()),
        Utf8 | Binary => (texts::<4>(from, picks)?, Vec::new()),
        LargeUtf8 | LargeBinary => (texts::<8>(from, picks)?, Vec::new()),
        Utf8View | BinaryView => (views(from, picks)?, Vec::new()),
        Dictionary(index, values) => {
            let (keys, dictionary) = merge_dictionaries::keys((index, values), is_ordered, from, picks)?;
            (vec![keys], vec![dictionary])
        }
        List(field) | Map(field, _) => lists::<4>(field, from, picks)?,
        LargeList(field) => lists::<8>(field, from, picks)?,
        ListView(field) => list_views::<4>(field, from, picks)?,
        LargeListView(field) => list_views::<8>(field, from, picks)?,
        FixedSizeList(field, size) => (Vec::new(), vec![fixed_lists(field, from, picks, *size)?]),
        Struct(fields) => (Vec::new(), structs(fields, from, picks)?),
        Union(fields, mode) => union(fields, from, picks, *mode)?,
        RunEndEncoded(ends, values) => (Vec::new(), runs(ends, values, from, picks)?),
        _ => (vec![fixed(data_type, from, picks)?], Vec::new()),
    };
    Ok(ArrayParts { data_type: data_type.clone(), len: picks.len(), validity, buffers, children }.assemble())
}

fn validity(from: &[&UncheckedArray], picks: &[Pick]) -> Option<(Buffer, usize)> {
    // Regardless of the declared count, which is not checked either.
    let bitmaps: Vec<_> = from.iter().map(|array| array.nulls()).collect();
    if bitmaps.iter().all(Option::is_none) {
        return None;
    }
    let bits = BooleanBuffer::collect_bool(picks.len(), |i| {
        let (array, row) = picks[i];
        bitmaps[array as usize].is_none_or(|bitmap| row < bitmap.len() && bitmap.is_valid(row))
    });
    let nulls = picks.len() - bits.count_set_bits();
    (nulls > 0).then(|| (bits.into_inner(), nulls))
}

fn bits(from: &[&UncheckedArray], picks: &[Pick]) -> Buffer {
    let sources: Vec<_> = from.iter().map(Bits::new).collect();
    let bits = BooleanBuffer::collect_bool(picks.len(), |i| {
        let (array, row) = picks[i];
        sources[array as usize].get(row)
    });
    bits.into_inner()
}

fn fixed(data_type: &DataType, from: &[&UncheckedArray], picks: &[Pick]) -> Result<Buffer> {
    let width = layout(data_type).value_roles().find_map(|role| match role {
        BufferRole::Values { width, .. } => Some(width),
        _ => None,
    });
    match width {
        // Values of a width of 0 have no bytes, and neither have types without values of their own.
        None | Some(0) => Ok(Buffer::default()),
        Some(1) => gather_fixed::<1>(from, picks),
        Some(2) => gather_fixed::<2>(from, picks),
        Some(4) => gather_fixed::<4>(from, picks),
        Some(8) => gather_fixed::<8>(from, picks),
        Some(16) => gather_fixed::<16>(from, picks),
        Some(32) => gather_fixed::<32>(from, picks),
        Some(width) => gather_fixed_width(width, from, picks),
    }
}

/// Gathers values of `N` bytes.
pub(crate) fn gather_fixed<const N: usize>(from: &[&UncheckedArray], picks: &[Pick]) -> Result<Buffer> {
    picked::<N>(&from.iter().map(fixed_values).collect::<Vec<_>>(), picks)
}

/// Gathers values of `width` bytes from bytes that begin at the first row.
pub(crate) fn gather_fixed_bytes(width: usize, from: &[&[u8]], picks: &[Pick]) -> Result<Buffer> {
    build_buffer(picks.len().saturating_mul(width), |out| gather_fixed_into(width, from, picks, out))
}

/// Copies values of `width` bytes, from bytes that begin at the first row, to `out`, which has room for them.
pub(crate) fn gather_fixed_into(width: usize, from: &[&[u8]], picks: &[Pick], out: &mut [u8]) -> Result<()> {
    match width {
        1 => picked_into::<1, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        2 => picked_into::<2, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        4 => picked_into::<4, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        8 => picked_into::<8, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        16 => picked_into::<16, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        32 => picked_into::<32, _>(from, picks, out, |bytes| bytes.as_chunks().0),
        width => {
            assert_eq!(Some(out.len()), picks.len().checked_mul(width), "not exactly one value for each row");
            for (out, &(array, row)) in out.chunks_exact_mut(width).zip(picks) {
                let start = row.saturating_mul(width);
                let value = from.get(array as usize).and_then(|bytes| bytes.get(start..start.saturating_add(width)));
                out.copy_from_slice(value.ok_or_else(no_row)?);
            }
            Ok(())
        }
    }
}

fn picked<const N: usize>(sources: &[&[[u8; N]]], picks: &[Pick]) -> Result<Buffer> {
    build_buffer(picks.len() * N, |out| picked_into(sources, picks, out, |values| values))
}

/// Copies rows of `sources`. `values` returns the values of a source from its first row on.
#[inline(always)]
fn picked_into<const N: usize, T>(
    sources: &[&[T]],
    picks: &[Pick],
    out: &mut [u8],
    values: impl Fn(&[T]) -> &[[u8; N]],
) -> Result<()> {
    let out = out.as_chunks_mut::<N>().0;
    assert_eq!(out.len(), picks.len(), "not exactly one value for each row");
    let is_missing = Cell::new(false);
    match sources {
        [only] => {
            let only = values(only);
            out.iter_mut().zip(picks).for_each(|(out, &(_, row))| copy(out, only.get(row), &is_missing));
        }
        _ => out.iter_mut().zip(picks).for_each(|(out, &(array, row))| {
            copy(out, sources.get(array as usize).and_then(|source| values(source).get(row)), &is_missing);
        }),
    }
    if is_missing.get() { Err(no_row()) } else { Ok(()) }
}

/// Copies a value, or records that there is none.
#[inline(always)]
fn copy<const N: usize>(out: &mut [u8; N], value: Option<&[u8; N]>, is_missing: &Cell<bool>) {
    match value {
        Some(value) => *out = *value,
        None => record_missing(is_missing),
    }
}

/// Records a missing value. A separate function, so that the loop stays fast.
#[cold]
#[inline(never)]
fn record_missing(is_missing: &Cell<bool>) {
    is_missing.set(true);
}

#[cold]
fn no_row() -> Error {
    Error::invalid("fewer values than rows")
}

fn gather_fixed_width(width: usize, from: &[&UncheckedArray], picks: &[Pick]) -> Result<Buffer> {
    build_buffer(picks.len().saturating_mul(width), |out| {
        for (out, &(array, row)) in out.chunks_exact_mut(width).zip(picks) {
            let array = from[array as usize];
            let bytes = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
            let start = (array.offset() + row).saturating_mul(width);
            out.copy_from_slice(bytes.get(start..start.saturating_add(width)).ok_or_else(no_row)?);
        }
        Ok(())
    })
}

/// Gathers text or bytes as offsets and data.
fn texts<const N: usize>(from: &[&UncheckedArray], picks: &[Pick]) -> Result<Vec<Buffer>> {
    let sources = from.iter().map(Texts::try_new).collect::<Result<Vec<_>>>()?;
    let mut offsets = OffsetsBuilder::<N>::with_rows(picks.len())?;
    let mut end = 0;
    for &(array, row) in picks {
        end += sources[array as usize].get_valid(row)?.len();
        offsets.push(end)?;
    }
    let data = build_buffer(end, |mut out| {
        for &(array, row) in picks {
            let bytes = sources[array as usize].get_valid(row)?;
            let room = std::mem::take(&mut out).split_at_mut_checked(bytes.len());
            let (head, rest) = room.ok_or_else(text_changed)?;
            head.copy_from_slice(bytes);
            out = rest;
        }
        if out.is_empty() { Ok(()) } else { Err(text_changed()) }
    })?;
    Ok(vec![offsets.finish(), data])
}

/// Returns the error for text whose length is not the one that was read before.
#[cold]
fn text_changed() -> Error {
    Error::new(ErrorKind::FileChanged, "the text changed while it was read")
}

/// Gathers views over one buffer. They can't point further than 2 GiB.
fn views(from: &[&UncheckedArray], picks: &[Pick]) -> Result<Vec<Buffer>> {
    let sources = from.iter().map(Texts::try_new).collect::<Result<Vec<_>>>()?;
    let mut views = room_for::<[u8; VIEW_WIDTH]>(picks.len() as u64, "views of values")?;
    let mut data = Vec::new();
    for &(array, row) in picks {
        let bytes = sources[array as usize].get_valid(row)?;
        views.push(value_bytes::encode_view(bytes, data.len() as u64));
        if bytes.len() > MAX_INLINE {
            data.try_reserve(bytes.len()).map_err(|_| Error::out_of_memory("no memory for the bytes of values"))?;
            data.extend_from_slice(bytes);
            i32::try_from(data.len()).map_err(|_| too_many_values())?;
        }
    }
    let views = Buffer::from_vec(views.into_flattened());
    Ok(if data.is_empty() { vec![views] } else { vec![views, Buffer::from_vec(data)] })
}

/// Gathers lists with offsets.
fn lists<const N: usize>(field: &FieldRef, from: &[&UncheckedArray], picks: &[Pick]) -> Result<BuffersAndChildren> {
    let ranges = item_ranges(from, picks)?;
    let values = children_of(field, from, 0)?;
    let mut offsets = OffsetsBuilder::<N>::with_rows(picks.len())?;
    let mut end = 0usize;
    for (_, items) in &ranges {
        end = end.checked_add(items.len()).ok_or_else(too_many_values)?;
        offsets.push(end)?;
    }
    Ok((vec![offsets.finish()], vec![items(field, &values, &ranges)?]))
}

/// Gathers list views. Each gets a copy of its items, unless that would make more items than the arrays have: then
/// views that overlap share their items as before.
fn list_views<const N: usize>(
    field: &FieldRef,
    from: &[&UncheckedArray],
    picks: &[Pick],
) -> Result<BuffersAndChildren> {
    let ranges = item_ranges(from, picks)?;
    let values = children_of(field, from, 0)?;
    let sizes: Vec<u8> = ranges.iter().flat_map(|(_, items)| items.len().to_le_bytes().into_iter().take(N)).collect();
    let available = values.iter().fold(0, |sum: usize, values| sum.saturating_add(values.len()));
    let (ranges, starts) = if total_items(&ranges).is_ok_and(|items| items <= available) {
        let starts = starts_in_turn(&ranges);
        (ranges, starts)
    } else {
        merge_ranges(&ranges)
    };
    assert_eq!(starts.len(), picks.len(), "each list has a start");

    let mut offsets = OffsetsBuilder::<N> { bytes: Vec::with_capacity(picks.len() * N) };
    for start in starts {
        offsets.push(start)?;
    }
    Ok((vec![offsets.finish(), Buffer::from_vec(sizes)], vec![items(field, &values, &ranges)?]))
}

/// Returns the items of each list; none for a null.
fn item_ranges(from: &[&UncheckedArray], picks: &[Pick]) -> Result<Vec<ItemRange>> {
    let mut ranges: Vec<ItemRange> = room_for(picks.len() as u64, "lists")?;
    for &(array, row) in picks {
        let items = match value(from[array as usize], row)? {
            Value::List(items) | Value::Map(items) => items.range(),
            _ => 0..0,
        };
        ranges.push((array, items));
    }
    Ok(ranges)
}

/// Returns the start of each range if all of them are concatenated.
fn starts_in_turn(ranges: &[ItemRange]) -> Vec<usize> {
    let mut starts = Vec::with_capacity(ranges.len());
    let mut next = 0;
    for (_, items) in ranges {
        starts.push(next);
        next += items.len();
    }
    starts
}

/// Merges ranges that overlap or touch, so that items of many lists are copied once. Returns the merged ranges, and the
/// start of each of `ranges` in their concatenation.
fn merge_ranges(ranges: &[ItemRange]) -> (Vec<ItemRange>, Vec<usize>) {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&number| (ranges[number].0, ranges[number].1.start));
    let mut merged: Vec<ItemRange> = Vec::new();
    let mut starts = vec![0; ranges.len()];
    // The items in all merged ranges but the last.
    let mut before = 0;
    for number in order {
        let (array, items) = &ranges[number];
        match merged.last_mut() {
            Some((last_array, last_items)) if last_array == array && items.start <= last_items.end => {
                debug_assert!(last_items.start <= items.start, "ranges are sorted by their start");
                starts[number] = before + (items.start - last_items.start);
                last_items.end = last_items.end.max(items.end);
            }
            last => {
                before += last.map_or(0, |(_, last_items)| last_items.len());
                starts[number] = before;
                merged.push((*array, items.clone()));
            }
        }
    }
    (merged, starts)
}

fn fixed_lists(field: &FieldRef, from: &[&UncheckedArray], picks: &[Pick], size: i32) -> Result<UncheckedArray> {
    let size = fixed_size(size)?;
    if let Some(rows) = whole_rows(field.data_type(), from, picks, size)? {
        return Ok(rows);
    }
    let mut ranges: Vec<ItemRange> = Vec::with_capacity(picks.len());
    for &(array, row) in picks {
        let start = (from[array as usize].offset() + row).checked_mul(size).ok_or_else(too_many_values)?;
        let end = start.checked_add(size).ok_or_else(too_many_values)?;
        ranges.push((array, start..end));
    }
    items(field, &children_of(field, from, 0)?, &ranges)
}

fn total_items(ranges: &[ItemRange]) -> Result<usize> {
    ranges.iter().try_fold(0usize, |sum, (_, items)| sum.checked_add(items.len())).ok_or_else(too_many_values)
}

/// Returns the items `ranges` of the arrays `values`. A few bytes can claim any number of items: items without bytes
/// are only counted, and others are refused before they are listed if there are more than the bytes of the values
/// justify.
fn items(field: &FieldRef, values: &[&UncheckedArray], ranges: &[ItemRange]) -> Result<UncheckedArray> {
    let len = total_items(ranges)?;
    for (array, items) in ranges {
        if !items.is_empty() && values.get(*array as usize).is_none_or(|values| items.end > values.len()) {
            return Err(missing_rows(field));
        }
    }
    if !has_bits(field.data_type()) && !values.iter().any(|values| has_nulls(values)) {
        return without_bits(field.data_type(), len);
    }

    let max_len = values.iter().fold(FREE_ITEMS, |sum, values| sum.saturating_add(buffer_bits(values)));
    if len > max_len {
        return Err(Error::unsupported(format!(
            "{len} items of '{}' are more than the bytes behind them justify; take fewer rows at a time",
            field.name()
        )));
    }
    let mut picks = room_for::<Pick>(len as u64, "items of lists")?;
    for (array, items) in ranges {
        picks.extend(items.clone().map(|item| (*array, item)));
    }
    assert_eq!(picks.len(), len, "the items of all ranges are gathered");
    gather_nested(field, values, &picks)
}

fn has_nulls(array: &UncheckedArray) -> bool {
    array.nulls().is_some() || array.child_data().iter().any(has_nulls)
}

/// Returns `len` values of a type [without bits](has_bits), none of them null.
fn without_bits(data_type: &DataType, len: usize) -> Result<UncheckedArray> {
    let (buffers, children) = match data_type {
        DataType::FixedSizeBinary(_) => (vec![Buffer::default()], Vec::new()),
        DataType::FixedSizeList(item, 0) => (Vec::new(), vec![UncheckedArray::empty(item.data_type())]),
        DataType::FixedSizeList(item, size) => {
            let items = len.checked_mul(fixed_size(*size)?).ok_or_else(too_many_values)?;
            (Vec::new(), vec![without_bits(item.data_type(), items)?])
        }
        DataType::Struct(fields) => {
            (Vec::new(), fields.iter().map(|field| without_bits(field.data_type(), len)).collect::<Result<_>>()?)
        }
        _ => (Vec::new(), Vec::new()),
    };
    Ok(ArrayParts { data_type: data_type.clone(), len, validity: None, buffers, children }.assemble())
}

/// Returns the number of bits in the buffers of an array and its children. Each value has at least one, unless it is
/// part of a run.
fn buffer_bits(array: &UncheckedArray) -> usize {
    let nulls = array.nulls().map_or(0, |nulls| nulls.len());
    let buffers = array.buffers().iter().map(|buffer| buffer.len().saturating_mul(8));
    let children = array.child_data().iter().map(buffer_bits);
    buffers.chain(children).fold(nulls, usize::saturating_add)
}

/// Copies the items of lists of `size` values of fixed width list by list. Returns `None` if there are nulls among the
/// items, or for other types.
fn whole_rows(
    item: &DataType,
    from: &[&UncheckedArray],
    picks: &[Pick],
    size: usize,
) -> Result<Option<UncheckedArray>> {
    let Some(width) = fixed_width(item) else { return Ok(None) };
    let items: Vec<_> = from.iter().filter_map(|array| array.child_data().first()).collect();
    if size == 0 || items.len() < from.len() || items.iter().any(|items| items.nulls().is_some()) {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(items.len());
    for (items, lists) in items.into_iter().zip(from) {
        let start =
            lists.offset().checked_mul(size).and_then(|start| start.checked_add(items.offset())?.checked_mul(width));
        let (Some(buffer), Some(start)) = (items.buffers().first(), start) else { return Ok(None) };
        let Some(values) = buffer.get(start..) else { return Ok(None) };
        bytes.push(values);
    }
    let Some(row_width) = width.checked_mul(size) else { return Ok(None) };
    let len = picks.len().checked_mul(size).ok_or_else(too_many_values)?;
    let buffers = vec![gather_fixed_bytes(row_width, &bytes, picks)?];
    Ok(Some(ArrayParts { data_type: item.clone(), len, validity: None, buffers, children: Vec::new() }.assemble()))
}

fn structs(fields: &[FieldRef], from: &[&UncheckedArray], picks: &[Pick]) -> Result<Vec<UncheckedArray>> {
    fields.iter().enumerate().map(|(number, field)| child(field, from, number, picks)).collect()
}

fn union(
    fields: &UnionFields,
    from: &[&UncheckedArray],
    picks: &[Pick],
    mode: UnionMode,
) -> Result<BuffersAndChildren> {
    let ids = gather_fixed::<1>(from, picks)?;
    let fields: Vec<_> = fields.iter().collect();
    if mode == UnionMode::Sparse {
        let rows: Vec<Pick> = picks.iter().map(|&(array, row)| (array, from[array as usize].offset() + row)).collect();
        let mut children = Vec::with_capacity(fields.len());
        for (number, (_, field)) in fields.iter().enumerate() {
            children.push(child(field, from, number, &rows)?);
        }
        return Ok((vec![ids], children));
    }

    let mut offsets = Vec::new();
    let mut picks_by_member = vec![Vec::new(); fields.len()];
    for (&(array, row), &id) in picks.iter().zip(ids.as_slice()) {
        let starts = from[array as usize].buffers().get(1).map_or(&[][..], |buffer| buffer.as_slice());
        let start = starts.as_chunks::<4>().0.get(from[array as usize].offset() + row);
        let member = fields.iter().position(|(member, _)| *member == id.cast_signed());
        let (Some(start), Some(member)) = (start, member) else { return Err(Error::invalid("a union's member")) };
        offsets.push((picks_by_member[member].len() as u32).to_le_bytes());
        picks_by_member[member].push((array, u32::from_le_bytes(*start) as usize));
    }
    assert_eq!(offsets.len(), picks.len(), "each row of the union has a type id");
    let mut children = Vec::with_capacity(fields.len());
    for (number, (_, field)) in fields.iter().enumerate() {
        children.push(child(field, from, number, &picks_by_member[number])?);
    }
    Ok((vec![ids, Buffer::from_vec(offsets.into_flattened())], children))
}

fn runs(ends: &Field, values: &FieldRef, from: &[&UncheckedArray], picks: &[Pick]) -> Result<Vec<UncheckedArray>> {
    let width = ends.data_type().primitive_width().unwrap_or(8);
    let mut runs = Vec::<Pick>::new();
    let mut run_ends = Vec::new();
    for (row, &(array, picked)) in picks.iter().enumerate() {
        let whole = from[array as usize];
        let source_ends = whole.child_data().first().ok_or_else(|| Error::invalid("runs without ends"))?;
        let run = (array, find_run(source_ends, whole.offset() + picked)?);
        if runs.last() == Some(&run) {
            run_ends.pop();
        } else {
            runs.push(run);
        }
        run_ends.push(row + 1);
    }
    assert_eq!(run_ends.len(), runs.len(), "each run has an end");

    let largest = i64::MAX as u64 >> (64 - 8 * width);
    if run_ends.last().is_some_and(|&end| end as u64 > largest) {
        return Err(too_many_values());
    }
    let bytes: Vec<u8> = run_ends.iter().flat_map(|end| end.to_le_bytes().into_iter().take(width)).collect();
    let data_type = ends.data_type().clone();
    let len = runs.len();
    let buffers = vec![Buffer::from_vec(bytes)];
    let run_ends = ArrayParts { data_type, len, validity: None, buffers, children: Vec::new() }.assemble();
    Ok(vec![run_ends, child(values, from, 1, &runs)?])
}

/// Gathers rows of child number `number` of the arrays.
fn child(field: &FieldRef, from: &[&UncheckedArray], number: usize, picks: &[Pick]) -> Result<UncheckedArray> {
    let children = children_of(field, from, number)?;
    for &(array, row) in picks {
        if children.get(array as usize).is_none_or(|child| row >= child.len()) {
            return Err(missing_rows(field));
        }
    }
    gather_nested(field, &children, picks)
}

/// Returns child number `number` of each of the arrays.
fn children_of<'a>(field: &FieldRef, from: &[&'a UncheckedArray], number: usize) -> Result<Vec<&'a UncheckedArray>> {
    from.iter().map(|array| array.child_data().get(number).ok_or_else(|| missing_rows(field))).collect()
}

fn missing_rows(field: &FieldRef) -> Error {
    Error::invalid(format!("rows outside of the values of '{}'", field.name()))
}

/// Builds offsets of `N` bytes.
struct OffsetsBuilder<const N: usize> {
    bytes: Vec<u8>,
}

impl<const N: usize> OffsetsBuilder<N> {
    fn with_rows(rows: usize) -> Result<OffsetsBuilder<N>> {
        let mut bytes = room_for(((rows + 1) * N) as u64, "bytes of offsets")?;
        bytes.resize(N, 0);
        Ok(OffsetsBuilder { bytes })
    }

    #[inline]
    fn push(&mut self, end: usize) -> Result<()> {
        if N == 4 && i32::try_from(end).is_err() || i64::try_from(end).is_err() {
            return Err(too_many_values());
        }
        self.bytes.extend_from_slice(&end.to_le_bytes()[..N]);
        Ok(())
    }

    fn finish(self) -> Buffer {
        Buffer::from_vec(self.bytes)
    }
}

/// Returns the error for more rows than offsets or keys can tell apart.
pub(crate) fn too_many_values() -> Error {
    Error::unsupported("more values than the offsets or keys of the type can count")
}
