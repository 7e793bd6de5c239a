//! Computes the memory that values take once each row has its own copy: keys, views and runs may all refer to the same
//! long value.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

use crate::typed_array::typed;

/// The bytes that decoding needs for each row in addition to its value.
const ROW_OVERHEAD: u64 = 16;
/// The numbers of children of arrays: the values of a dictionary and of runs, and the items of a list.
const DICTIONARY_VALUES: usize = 0;
const RUN_VALUES: usize = 1;
const LIST_ITEMS: usize = 0;

/// Returns true if values of type `have` may take more memory as type `want`: if they are stored once and referred to
/// many times.
pub(crate) fn may_grow(want: &DataType, have: &DataType) -> bool {
    use DataType::*;
    match (want, have) {
        (Dictionary(_, want), Dictionary(_, have)) => may_grow(want, have),
        (_, Dictionary(..) | RunEndEncoded(..) | Utf8View | BinaryView) => true,
        (
            List(want) | LargeList(want) | FixedSizeList(want, _) | ListView(want) | LargeListView(want) | Map(want, _),
            List(have) | LargeList(have) | FixedSizeList(have, _) | ListView(have) | LargeListView(have) | Map(have, _),
        ) => may_grow(want.data_type(), have.data_type()),
        (Union(want, _), Union(have, _)) => {
            want.iter().zip(have.iter()).any(|((_, w), (_, h))| may_grow(w.data_type(), h.data_type()))
        }
        (Struct(want), Struct(have)) => want.iter().zip(have).any(|(w, h)| may_grow(w.data_type(), h.data_type())),
        _ => false,
    }
}

/// Returns the size in bytes of the texts of `array`, and of the values of its runs and dictionaries, counting each
/// reference. If it is more than `max_bytes`, the result may be any number above that.
pub(crate) fn copied_bytes(want: &DataType, array: &ArrayData, max_bytes: u64) -> u64 {
    use DataType::*;
    match (want, array.data_type()) {
        (Dictionary(_, want), Dictionary(..)) => copied_child_bytes(want, array, DICTIONARY_VALUES, max_bytes),
        (Dictionary(_, want), RunEndEncoded(..)) => copied_child_bytes(want, array, RUN_VALUES, max_bytes)
            .saturating_add(ROW_OVERHEAD.saturating_mul(array.len() as u64)),
        (_, Dictionary(_, values)) => {
            let Some(sizes) = referenced_sizes(array, max_bytes) else { return u64::MAX };
            let overhead = if is_text(values) { 0 } else { ROW_OVERHEAD };
            sizes.into_iter().fold(0, |sum, size| sum.saturating_add(size).saturating_add(overhead))
        }
        (_, RunEndEncoded(..)) => run_bytes(array, max_bytes),
        (_, Utf8View | BinaryView) => sum(&lengths(array)),
        (
            List(want) | LargeList(want) | FixedSizeList(want, _) | ListView(want) | LargeListView(want) | Map(want, _),
            _,
        ) => copied_child_bytes(want.data_type(), array, LIST_ITEMS, max_bytes),
        (Union(members, _), _) => {
            let members = members.iter().map(|(_, member)| member.data_type()).enumerate();
            members
                .map(|(number, want)| copied_child_bytes(want, array, number, max_bytes))
                .fold(0, u64::saturating_add)
        }
        (Struct(fields), _) => {
            let fields = fields.iter().map(|field| field.data_type()).enumerate();
            fields.map(|(number, want)| copied_child_bytes(want, array, number, max_bytes)).fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

/// As [`copied_bytes`], for a child of `array`. The sent type may have fewer children than the table's: the missing
/// ones take no bytes here, and the table refuses them.
fn copied_child_bytes(want: &DataType, array: &ArrayData, number: usize, max_bytes: u64) -> u64 {
    array.child_data().get(number).map_or(0, |child| copied_bytes(want, child, max_bytes))
}

/// Returns the bytes of the values of runs, counting each value once for each row of its run.
fn run_bytes(array: &ArrayData, max_bytes: u64) -> u64 {
    let [ends, values] = array.child_data() else { return u64::MAX };
    let Some(sizes) = sizes(values, max_bytes) else { return u64::MAX };
    let mut start = array.offset() as u64;
    let last_end = (array.offset() + array.len()) as u64;
    let mut bytes = 0u64;
    for (end, size) in run_ends(ends).into_iter().zip(sizes) {
        // A slice may begin or end inside of a run. The rows are not validated yet: ends may be in any order.
        let end = end.clamp(start, last_end);
        bytes = bytes.saturating_add((end - start).saturating_mul(size.saturating_add(ROW_OVERHEAD)));
        start = end;
    }
    bytes
}

fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, &size| sum.saturating_add(size))
}

fn run_ends(ends: &ArrayData) -> Vec<u64> {
    use arrow_array::types::{Int16Type, Int32Type, Int64Type};
    let array = typed(ends);
    match ends.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().values().iter().map(|&end| end as u64).collect(),
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|&end| end as u64).collect(),
        _ => array.as_primitive::<Int64Type>().values().iter().map(|&end| end as u64).collect(),
    }
}

/// Returns the size in bytes of each value that a key of a dictionary refers to; no sizes if there are no values, and
/// all keys are null. `None` if there are more values than `max_bytes` have room for.
fn referenced_sizes(array: &ArrayData, max_bytes: u64) -> Option<Vec<u64>> {
    let array = typed(array);
    let dictionary = array.as_any_dictionary();
    let sizes = sizes(&dictionary.values().to_data(), max_bytes)?;
    if sizes.is_empty() {
        return Some(Vec::new());
    }
    Some(dictionary.normalized_keys().into_iter().map(|key| size_at(&sizes, key)).collect())
}

/// Returns the size of a value. The rows are not validated yet: a reference to a value that doesn't exist has size 0
/// here, and is refused later.
fn size_at(sizes: &[u64], index: usize) -> u64 {
    sizes.get(index).map_or(0, |&size| size)
}

/// Returns the size of a range of items; as in [`size_at`], an invalid range has size 0.
fn size_of_range(sizes: &[u64], start: usize, end: usize) -> u64 {
    sizes.get(start..end).map_or(0, sum)
}

/// Returns the size in bytes of each value, as it is in an array without runs and dictionaries. `None` if there are
/// more values than `max_bytes` have room for.
fn sizes(values: &ArrayData, max_bytes: u64) -> Option<Vec<u64>> {
    use DataType::*;
    let len = values.len();
    if len as u64 > max_bytes / ROW_OVERHEAD {
        return None;
    }
    let array = typed(values);
    macro_rules! lists {
        ($lists:expr) => {{
            let items = sizes(values.child_data().first()?, max_bytes)?;
            let offsets = $lists.value_offsets().windows(2);
            offsets.map(|pair| size_of_range(&items, pair[0] as usize, pair[1] as usize)).collect()
        }};
    }
    macro_rules! list_views {
        ($views:expr) => {{
            let views = $views;
            let items = sizes(values.child_data().first()?, max_bytes)?;
            let views = views.value_offsets().iter().zip(views.value_sizes());
            views
                .map(|(&start, &size)| {
                    size_of_range(&items, start as usize, (start as usize).saturating_add(size as usize))
                })
                .collect()
        }};
    }
    Some(match values.data_type() {
        text if is_text(text) => lengths(values),
        List(_) => lists!(array.as_list::<i32>()),
        LargeList(_) => lists!(array.as_list::<i64>()),
        Map(..) => lists!(array.as_map()),
        ListView(_) => list_views!(array.as_list_view::<i32>()),
        LargeListView(_) => list_views!(array.as_list_view::<i64>()),
        FixedSizeList(_, size) => {
            let items = sizes(values.child_data().first()?, max_bytes)?;
            // The library refuses types with a negative size when it opens the rows.
            let size = usize::try_from(*size).ok()?;
            let rows = values.offset()..values.offset() + len;
            rows.map(|row| size_of_range(&items, row * size, (row + 1) * size)).collect()
        }
        Struct(_) | Union(..) => member_sizes(values, max_bytes)?,
        Dictionary(..) => {
            let sizes = referenced_sizes(values, max_bytes)?;
            if sizes.is_empty() { vec![0; len] } else { sizes }
        }
        RunEndEncoded(..) => value_sizes_in_runs(values, max_bytes)?,
        FixedSizeBinary(size) => vec![u64::try_from(*size).ok()?; len],
        other => vec![other.primitive_width().unwrap_or(1) as u64; len],
    })
}

/// As [`sizes`], for structs and unions: the total of all members.
fn member_sizes(values: &ArrayData, max_bytes: u64) -> Option<Vec<u64>> {
    // A row of a dense union may be anywhere in its member: each counts as the longest.
    let is_dense = matches!(values.data_type(), DataType::Union(_, UnionMode::Dense));
    let mut totals = vec![0u64; values.len()];
    for child in values.child_data() {
        let sizes = sizes(child, max_bytes)?;
        let longest = sizes.iter().copied().fold(0, u64::max);
        for (row, total) in totals.iter_mut().enumerate() {
            let size = if is_dense { longest } else { size_at(&sizes, values.offset() + row) };
            *total = total.saturating_add(size);
        }
    }
    Some(totals)
}

/// As [`sizes`], for values in runs.
fn value_sizes_in_runs(values: &ArrayData, max_bytes: u64) -> Option<Vec<u64>> {
    let [ends, runs] = values.child_data() else { return None };
    let sizes = sizes(runs, max_bytes)?;
    let ends = run_ends(ends);
    let rows = values.offset()..values.offset() + values.len();
    Some(rows.map(|row| size_at(&sizes, ends.partition_point(|&end| end <= row as u64))).collect())
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// Returns the length of each text.
fn lengths(values: &ArrayData) -> Vec<u64> {
    let array = typed(values);
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().offsets().lengths().map(|len| len as u64).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().offsets().lengths().map(|len| len as u64).collect(),
        DataType::Binary => array.as_binary::<i32>().offsets().lengths().map(|len| len as u64).collect(),
        DataType::LargeBinary => array.as_binary::<i64>().offsets().lengths().map(|len| len as u64).collect(),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).collect(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).collect(),
        _ => Vec::new(),
    }
}
