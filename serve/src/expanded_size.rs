//! How much memory values take once each row has its own: keys, views and runs may all refer to the same long value.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

use crate::numbers::typed;

/// The bytes that decoding needs for each row besides those of its value.
const PLACE: u64 = 16;

/// Whether values of type `have` may take more memory as type `want`: values stored once and referred to many times.
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

/// The size in bytes of the texts of `array`, and of the values of its runs and dictionaries, counting each reference. More
/// than `most` may be any number that is more.
pub(crate) fn copied_bytes(want: &DataType, array: &ArrayData, most: u64) -> u64 {
    use DataType::*;
    let child = |number: usize, want: &DataType| {
        array.child_data().get(number).map_or(0, |child| copied_bytes(want, child, most))
    };
    let all = |children: &mut dyn Iterator<Item = (usize, &DataType)>| {
        children.map(|(number, want)| child(number, want)).fold(0, u64::saturating_add)
    };
    match (want, array.data_type()) {
        (Dictionary(_, want), Dictionary(..)) => child(0, want),
        (Dictionary(_, want), RunEndEncoded(..)) => {
            child(1, want).saturating_add(PLACE.saturating_mul(array.len() as u64))
        }
        (_, Dictionary(_, values)) => {
            let place = if is_text(values) { 0 } else { PLACE };
            referred(array, most).map_or(u64::MAX, |sizes| {
                sizes.fold(0, |sum: u64, size| sum.saturating_add(size).saturating_add(place))
            })
        }
        (_, RunEndEncoded(..)) => bytes_of_runs(array, most),
        (_, Utf8View | BinaryView) => lengths(array).into_iter().fold(0, u64::saturating_add),
        (
            List(want) | LargeList(want) | FixedSizeList(want, _) | ListView(want) | LargeListView(want) | Map(want, _),
            _,
        ) => child(0, want.data_type()),
        (Union(members, _), _) => all(&mut members.iter().map(|(_, member)| member.data_type()).enumerate()),
        (Struct(fields), _) => all(&mut fields.iter().map(|field| field.data_type()).enumerate()),
        _ => 0,
    }
}

/// The bytes of the values of runs, each as often as its run is long.
fn bytes_of_runs(array: &ArrayData, most: u64) -> u64 {
    let [ends, values] = array.child_data() else { return u64::MAX };
    let Some(sizes) = sizes(values, most) else { return u64::MAX };
    let (from, to) = (array.offset() as u64, (array.offset() + array.len()) as u64);
    let mut start = from;
    let mut bytes = 0u64;
    for (end, size) in run_ends(ends).into_iter().zip(sizes) {
        let end = end.clamp(start, to);
        bytes = bytes.saturating_add((end - start).saturating_mul(size.saturating_add(PLACE)));
        start = end;
    }
    bytes
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

/// The size in bytes of each value that a key of a dictionary refers to; none if there are no values, and all keys are
/// null. `None` if there are more than `most` bytes have room for.
fn referred(array: &ArrayData, most: u64) -> Option<impl Iterator<Item = u64>> {
    let typed = typed(array);
    let keys = typed.as_any_dictionary();
    let sizes = sizes(&keys.values().to_data(), most)?;
    let keys = if sizes.is_empty() { Vec::new() } else { keys.normalized_keys() };
    Some(keys.into_iter().map(move |key| sizes.get(key).copied().unwrap_or(0)))
}

/// The size in bytes of each value, as it is in an array without runs and dictionaries. `None` if there are more values than
/// `most` bytes have room for.
fn sizes(values: &ArrayData, most: u64) -> Option<Vec<u64>> {
    use DataType::*;
    let len = values.len();
    if len as u64 > most / PLACE {
        return None;
    }
    let child = |number: usize| values.child_data().get(number).and_then(|child| sizes(child, most));
    let sum = |items: &[u64]| items.iter().fold(0, |sum: u64, &size| sum.saturating_add(size));
    let array = typed(values);
    macro_rules! lists {
        ($lists:expr) => {{
            let lists = $lists;
            let items = child(0)?;
            let list = |pair: &[_]| sum(items.get(pair[0] as usize..pair[1] as usize).unwrap_or_default());
            lists.value_offsets().windows(2).map(list).collect()
        }};
    }
    macro_rules! list_views {
        ($views:expr) => {{
            let views = $views;
            let items = child(0)?;
            let list = |(&start, &size)| sum(items.get(start as usize..(start + size) as usize).unwrap_or_default());
            views.value_offsets().iter().zip(views.value_sizes()).map(list).collect()
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
            let (items, size) = (child(0)?, usize::try_from(*size).unwrap_or(0));
            let items = |row: usize| items.get(row * size..)?.get(..size);
            (0..len).map(|row| sum(items(values.offset() + row).unwrap_or_default())).collect()
        }
        Struct(_) | Union(..) => sizes_of_members(values, most)?,
        Dictionary(..) => {
            let sizes: Vec<_> = referred(values, most)?.collect();
            if sizes.is_empty() { vec![0; len] } else { sizes }
        }
        RunEndEncoded(..) => sizes_in_runs(values, most)?,
        FixedSizeBinary(size) => vec![u64::try_from(*size).unwrap_or(0); len],
        other => vec![other.primitive_width().unwrap_or(1) as u64; len],
    })
}

/// As [`sizes`], of structs and unions: those of all members together.
fn sizes_of_members(values: &ArrayData, most: u64) -> Option<Vec<u64>> {
    // A row of a dense union may be anywhere in its member: the longest is taken.
    let is_dense = matches!(values.data_type(), DataType::Union(_, UnionMode::Dense));
    let mut whole = vec![0u64; values.len()];
    for child in values.child_data() {
        let sizes = sizes(child, most)?;
        let longest = sizes.iter().copied().max().unwrap_or(0);
        for (row, whole) in whole.iter_mut().enumerate() {
            let own = if is_dense { longest } else { sizes.get(values.offset() + row).copied().unwrap_or(0) };
            *whole = whole.saturating_add(own);
        }
    }
    Some(whole)
}

/// As [`sizes`], of values in runs.
fn sizes_in_runs(values: &ArrayData, most: u64) -> Option<Vec<u64>> {
    let [ends, runs] = values.child_data() else { return None };
    let sizes = sizes(runs, most)?;
    let ends = run_ends(ends);
    let run = |row: usize| ends.partition_point(|&end| end <= row as u64);
    let size = |row: usize| sizes.get(run(values.offset() + row)).copied().unwrap_or(0);
    Some((0..values.len()).map(size).collect())
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// The length of each text.
fn lengths(values: &ArrayData) -> Vec<u64> {
    let array = typed(values);
    let all = |lengths: &mut dyn Iterator<Item = usize>| lengths.map(|len| len as u64).collect();
    match array.data_type() {
        DataType::Utf8 => all(&mut array.as_string::<i32>().offsets().lengths()),
        DataType::LargeUtf8 => all(&mut array.as_string::<i64>().offsets().lengths()),
        DataType::Binary => all(&mut array.as_binary::<i32>().offsets().lengths()),
        DataType::LargeBinary => all(&mut array.as_binary::<i64>().offsets().lengths()),
        DataType::Utf8View => all(&mut array.as_string_view().lengths().map(|len| len as usize)),
        DataType::BinaryView => all(&mut array.as_binary_view().lengths().map(|len| len as usize)),
        _ => Vec::new(),
    }
}
