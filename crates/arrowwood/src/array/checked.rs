//! Turns unchecked arrays into trusted ones, by checking them once.
#![allow(unsafe_code)]

use std::sync::{Mutex, OnceLock};

use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Fields, UnionMode};

use super::byte_order::count_ones;
use super::prefetch::prefetch;
use super::unchecked::UncheckedArray;
use super::validate;
use crate::error::{Error, Result};
use crate::map::MutexExt;
use crate::types::layout::children;
use crate::types::{fixed_size, layout};

/// The limit of bytes of a buffer that are requested before they are checked.
const MAX_PREFETCH: usize = 8 << 20;

impl UncheckedArray {
    /// Checks everything about the array: the number and lengths of buffers and children, and values. Does not check
    /// dictionaries again that are the same rows of the same memory as one of the `checked` ones.
    ///
    /// # Errors
    /// `InvalidData`, naming the row and what was expected.
    pub(crate) fn checked(self, checked: &[&ArrayData]) -> Result<ArrayData> {
        check_all(&self, checked)?;
        // SAFETY: checked just above; bitmaps that are left out have no nulls then.
        Ok(unsafe { self.without_idle_bitmaps().assume_checked() })
    }

    /// Checks only the structure of the array and its dictionaries: the number and lengths of buffers and children.
    ///
    /// # Safety
    /// Users of the array must bound each access that depends on one of its values.
    ///
    /// # Errors
    /// `InvalidData`, naming what was expected.
    pub(crate) unsafe fn structure_checked(self) -> Result<ArrayData> {
        check_structure(&self)?;
        check_structure_of_dictionaries(&self)?;
        // SAFETY: the caller guarantees that arbitrary values are acceptable.
        Ok(unsafe { self.without_idle_bitmaps().assume_checked() })
    }

    /// Makes the checks of [`UncheckedArray::checked`].
    pub(crate) fn check(&self, checked: &[&ArrayData]) -> Result<()> {
        check_all(self, checked)
    }
}

fn check_all(array: &UncheckedArray, checked: &[&ArrayData]) -> Result<()> {
    check_structure(array)?;
    prefetch_values(array);
    validate::check(array)?;
    check_dictionaries(array, checked)
}

/// Requests the pages that a check is about to read: a dictionary or its keys often have fewer than the device reads
/// ahead.
fn prefetch_values(array: &UncheckedArray) {
    if !array.data_type().is_nested() && !validate::is_trivial(array.data_type()) {
        prefetch(array, 0..array.len(), MAX_PREFETCH);
    }
}

/// Checks the dictionaries in an array that are not among the `checked` ones.
fn check_dictionaries(array: &UncheckedArray, checked: &[&ArrayData]) -> Result<()> {
    let is_coded = matches!(array.data_type(), DataType::Dictionary(..));
    for child in array.child_data() {
        if !is_coded {
            check_dictionaries(child, checked)?;
        } else if !checked.iter().any(|values| child.is_same(UncheckedArray::from_ref(values))) {
            check_all(child, checked).map_err(|e| e.context("its dictionary"))?;
        }
    }
    Ok(())
}

/// Checks the structure of the dictionaries in an array.
fn check_structure_of_dictionaries(array: &UncheckedArray) -> Result<()> {
    let is_coded = matches!(array.data_type(), DataType::Dictionary(..));
    array.child_data().iter().try_for_each(|child| {
        if is_coded {
            check_structure(child).map_err(|e| e.context("its dictionary"))?;
        }
        check_structure_of_dictionaries(child)
    })
}

/// Checks that an array has the buffers and children of its type, each long enough for its rows, without reading them.
fn check_structure(array: &UncheckedArray) -> Result<()> {
    let end = array
        .offset()
        .checked_add(array.len())
        .ok_or_else(|| structure_error(array, "more rows than can be counted"))?;
    let layout = layout(array.data_type());
    let roles = layout.value_roles();
    let buffers = array.buffers();
    let mut expected = 0;
    for (number, role) in roles.enumerate() {
        let needed = role.bytes_for(end);
        let len = buffers.get(number).map(|buffer| buffer.len());
        if needed.is_none() || len.is_none_or(|len| Some(len) < needed) {
            return Err(structure_error(
                array,
                format_args!("a buffer of {len:?} bytes, expected {needed:?} at least"),
            ));
        }
        expected += 1;
    }

    if buffers.len() != expected && !(layout.variadic && buffers.len() > expected) {
        return Err(structure_error(array, format_args!("{} buffers, expected {expected}", buffers.len())));
    }
    if array.nulls().is_some_and(|nulls| nulls.len() != array.len() || !layout.has_validity()) {
        return Err(structure_error(array, "a validity bitmap of the wrong length, or where none is expected"));
    }
    check_children(array, end)?;
    match array.data_type() {
        DataType::Dictionary(..) => Ok(()),
        _ => array.child_data().iter().try_for_each(check_structure),
    }
}

/// Checks the types of the children, and their lengths as far as they follow from `end`, the row after the array's
/// last.
fn check_children(array: &UncheckedArray, end: usize) -> Result<()> {
    let child_data = array.child_data();
    let is_coded = matches!(array.data_type(), DataType::Dictionary(..) | DataType::RunEndEncoded(..));
    if child_data.is_empty() && !is_coded && !array.data_type().is_nested() {
        return Ok(());
    }
    let fields = children(array.data_type());
    let mut types = fields.iter().map(|field| field.data_type());
    let dictionary = match array.data_type() {
        DataType::Dictionary(_, values) => Some(&**values),
        _ => None,
    };
    let count = fields.len() + usize::from(dictionary.is_some());
    if child_data.len() != count
        || !child_data.iter().all(|child| types.next().or(dictionary) == Some(child.data_type()))
    {
        return Err(structure_error(array, "children of types that differ from its own"));
    }

    let min_rows = match array.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some(end),
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok().and_then(|size| end.checked_mul(size)),
        DataType::RunEndEncoded(..) => child_data.iter().map(UncheckedArray::len).max(),
        _ => Some(0),
    };
    if min_rows.is_some_and(|min_rows| child_data.iter().all(|child| child.len() >= min_rows)) {
        Ok(())
    } else {
        Err(structure_error(array, format_args!("a child of fewer rows than {min_rows:?}")))
    }
}

fn structure_error(array: &UncheckedArray, what: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{} of {} rows: {what}", array.data_type(), array.len()))
}

/// Returns columns as a struct without nulls. Each column was checked by itself, and nothing else needs a check.
///
/// # Errors
/// `InvalidArgument` if the columns don't have the fields' types, or not `len` rows.
pub(crate) fn struct_from_columns(fields: &Fields, len: usize, columns: Vec<ArrayData>) -> Result<ArrayData> {
    let is_match = columns.len() == fields.len()
        && fields
            .iter()
            .zip(&columns)
            .all(|(field, column)| field.data_type() == column.data_type() && column.len() == len);
    if !is_match {
        return Err(Error::invalid_argument(format!("columns that don't match the fields or {len} rows")));
    }
    let builder = ArrayDataBuilder::new(DataType::Struct(fields.clone())).len(len).child_data(columns);
    // SAFETY: a struct without nulls has nothing but its children, of the right types and length as seen above.
    Ok(unsafe { builder.build_unchecked() })
}

/// An array that is checked when it is first needed as a trusted one. Threads that need it at the same time may each
/// check it; after a success nobody checks it again, and after an error the next thread does.
#[derive(Debug)]
pub(crate) struct LazyCheckedArray {
    array: UncheckedArray,
    is_checked: OnceLock<()>,
}

impl LazyCheckedArray {
    /// Creates it from an array, whose bitmaps with a null count of 0 are dropped.
    pub(crate) fn new(array: UncheckedArray) -> LazyCheckedArray {
        let array = array.without_idle_bitmaps();
        LazyCheckedArray { array, is_checked: OnceLock::new() }
    }

    /// Returns the array, with unchecked values.
    #[inline]
    pub(crate) fn unchecked(&self) -> &UncheckedArray {
        &self.array
    }

    /// Returns the array, with checked values. `dictionaries` returns the dictionaries in it that were checked before.
    #[inline]
    pub(crate) fn checked(&self, dictionaries: impl FnOnce() -> Result<Vec<ArrayData>>) -> Result<&ArrayData> {
        if self.is_checked.get().is_none() {
            let checked = dictionaries()?;
            self.array.check(&checked.iter().collect::<Vec<_>>())?;
            self.is_checked.get_or_init(|| ());
        }
        // SAFETY: checked just above, or before: nothing but that sets the mark, and the array is never another.
        Ok(unsafe { self.array.assume_checked_ref() })
    }
}

impl From<ArrayData> for LazyCheckedArray {
    /// Marks the array as checked, as trusted arrays are.
    fn from(array: ArrayData) -> LazyCheckedArray {
        LazyCheckedArray { array: array.into(), is_checked: OnceLock::from(()) }
    }
}

impl From<UncheckedArray> for LazyCheckedArray {
    fn from(array: UncheckedArray) -> LazyCheckedArray {
        LazyCheckedArray::new(array)
    }
}

/// Checks a growing column: its arrays share their bytes, and each extends the previous one, so that only new rows are
/// checked.
///
/// The mutex is held during a check, so of several threads with the same new rows only one checks them. A check that
/// fails or panics leaves the rows that were checked before, or none: the new ones are recorded last.
#[derive(Debug, Default)]
pub(crate) struct IncrementalCheck(Mutex<CheckedPart>);

/// The rows that were checked last.
#[derive(Debug, Default)]
struct CheckedPart {
    rows: usize,
    /// The addresses and lengths of the parts of the array.
    extents: Vec<CheckedExtent>,
    /// The number of nulls, for each array whose rows match the column's.
    nulls: Vec<usize>,
}

/// A buffer by its address and length, or the rows of an array by its offset and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CheckedExtent {
    start: usize,
    len: usize,
}

impl CheckedExtent {
    /// Returns true if this is the `earlier` extent, or has become longer.
    fn extends(&self, earlier: &CheckedExtent) -> bool {
        self.start == earlier.start && earlier.len <= self.len
    }
}

/// The number of nulls among rows of which none was checked.
const NO_NULLS: usize = 0;

impl IncrementalCheck {
    /// Returns the array, with checked values. Checks all of it if it does not extend the previous one, and all
    /// dictionaries except the `checked` ones.
    ///
    /// The contract of [`open`](crate::open()) guarantees that checked rows are unchanged: committed rows never change.
    pub(crate) fn checked(&self, array: UncheckedArray, checked: &[&ArrayData]) -> Result<ArrayData> {
        check_structure(&array)?;
        let mut extents = Vec::new();
        add_extents(&array, &mut extents);
        let mut done = self.0.lock_ignoring_poison();
        let is_longer = done.extents.len() == extents.len()
            && extents.iter().zip(&done.extents).all(|(extent, earlier)| extent.extends(earlier));
        if !is_longer {
            *done = CheckedPart::default();
        }

        let from = done.rows;
        let to = array.len();
        assert!(from <= to, "{from} rows of an array of {to} are checked");
        let mut nulls = Vec::with_capacity(done.nulls.len());
        count_nulls(&array, from, &mut done.nulls.iter().copied(), &mut nulls)?;

        if from == 0 {
            prefetch_values(&array);
        }
        if from < to || !is_longer {
            validate::check(&array.slice(from, to - from))?;
        }

        *done = CheckedPart { rows: to, extents, nulls };
        drop(done);
        check_dictionaries(&array, checked)?;
        // SAFETY: structure, dictionaries and counts of nulls are checked above. Values are checked from row `from` on.
        // The values before were checked as rows of an array over the same bytes, whose buffers and children were no
        // longer than these, so that they point inside of these as well. Bitmaps that are left out have no nulls then.
        Ok(unsafe { array.without_idle_bitmaps().assume_checked() })
    }
}

fn add_extents(array: &UncheckedArray, into: &mut Vec<CheckedExtent>) {
    into.push(CheckedExtent { start: array.offset(), len: array.len() });
    // A bitmap is as long as its array. An array with another bitmap is another array.
    let bitmap = array.nulls().map_or(0, |nulls| nulls.bits().values().as_ptr() as usize);
    into.push(CheckedExtent { start: bitmap, len: 0 });
    for buffer in array.buffers() {
        into.push(CheckedExtent { start: buffer.as_ptr() as usize, len: buffer.len() });
    }
    for child in array.child_data() {
        add_extents(child, into);
    }
}

/// Counts the nulls from row `from` on, and adds the known number for earlier rows, of the array and the children whose
/// rows match its own. The other children are checked as a whole.
fn count_nulls(
    array: &UncheckedArray,
    from: usize,
    known: &mut impl Iterator<Item = usize>,
    into: &mut Vec<usize>,
) -> Result<()> {
    let before = known.next().unwrap_or(NO_NULLS);
    let mut count = 0;
    if let Some(nulls) = array.nulls() {
        let rest = nulls.bits().slice(from, array.len() - from);
        count = before + rest.len() - count_ones(&rest);
        validate::check_declared(nulls, count)?;
    }
    into.push(count);
    let factor = match array.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => 1,
        DataType::FixedSizeList(_, size) => fixed_size(*size)?,
        _ => return Ok(()),
    };
    // Such arrays have an offset of 0 here: all rows of their children are their own.
    let start = (array.offset() + from) * factor;
    array.child_data().iter().try_for_each(|child| count_nulls(child, start.min(child.len()), known, into))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, StringArray, StringViewArray};
    use arrow_buffer::Buffer;

    use super::super::unchecked::ArrayParts;
    use super::*;

    fn int64(len: usize, bytes: usize, validity: Option<(&[u8], usize)>) -> UncheckedArray {
        let validity = validity.map(|(bits, nulls)| (Buffer::from_slice_ref(bits), nulls));
        let buffers = vec![Buffer::from_vec(vec![0u8; bytes])];
        ArrayParts { data_type: DataType::Int64, len, validity, buffers, children: Vec::new() }.assemble()
    }

    #[test]
    fn arrays_with_too_few_bytes_are_rejected() {
        assert!(int64(3, 24, None).checked(&[]).is_ok());
        assert!(int64(3, 23, None).checked(&[]).is_err());
        let no_buffers = ArrayParts { buffers: Vec::new(), ..parts_of(int64(3, 24, None)) };
        assert!(no_buffers.assemble().checked(&[]).is_err());
        let item = std::sync::Arc::new(arrow_schema::Field::new("item", DataType::Int64, true));
        let lists = |children: Vec<UncheckedArray>, size: i32| {
            let data_type = DataType::FixedSizeList(item.clone(), size);
            ArrayParts { data_type, len: 2, validity: None, buffers: Vec::new(), children }.assemble().checked(&[])
        };
        assert!(lists(vec![int64(6, 48, None)], 3).is_ok());
        assert!(lists(vec![int64(5, 48, None)], 3).is_err());
        assert!(lists(vec![int64(6, 40, None)], 3).is_err());
        assert!(lists(vec![UncheckedArray::from(StringArray::from(vec!["a"; 6]).to_data())], 3).is_err());
        assert!(lists(Vec::new(), 0).is_err());
        let data_type = DataType::Dictionary(Box::new(DataType::Int64), Box::new(DataType::Utf8));
        let without_values = ArrayParts { data_type, ..parts_of(int64(3, 24, None)) };
        assert!(without_values.assemble().checked(&[]).is_err());
    }

    fn parts_of(array: UncheckedArray) -> ArrayParts {
        let data_type = array.data_type().clone();
        let len = array.len();
        ArrayParts { data_type, len, validity: None, buffers: array.buffers().to_vec(), children: Vec::new() }
    }

    #[test]
    fn null_counts_come_from_the_bitmap() {
        assert_eq!(int64(3, 24, Some((&[0b101], 1))).checked(&[]).unwrap().null_count(), 1);
        assert!(int64(3, 24, Some((&[0b101], 2))).checked(&[]).is_err());
        // A bitmap with a null that isn't declared is an error. A bitmap without nulls is dropped.
        let hidden = int64(3, 24, Some((&[0b101], 0)));
        assert!(hidden.is_null(1) && hidden.clone().checked(&[]).is_err());
        assert!(IncrementalCheck::default().checked(hidden, &[]).is_err());
        assert!(int64(3, 24, Some((&[0b111], 0))).checked(&[]).unwrap().nulls().is_none());
        let check = IncrementalCheck::default();
        assert!(check.checked(int64(3, 24, Some((&[0b111], 0))), &[]).unwrap().nulls().is_none());
    }

    #[test]
    fn only_the_known_dictionary_skips_checks() {
        let good = StringArray::from(vec!["a", "b"]).to_data();
        let equal = StringArray::from(vec!["a", "b"]).to_data();
        let bad = UncheckedArray::from(good.clone());
        let bad =
            ArrayParts { buffers: vec![bad.buffers()[0].clone(), Buffer::from_slice_ref([0xff; 2])], ..parts_of(bad) };
        let keys = |values: UncheckedArray| {
            let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
            let buffers = vec![Buffer::from_slice_ref([1u8, 0])];
            ArrayParts { data_type, len: 2, validity: None, buffers, children: vec![values] }.assemble()
        };
        assert!(keys(good.clone().into()).checked(&[&good]).is_ok());
        assert!(keys(equal.into()).checked(&[&good]).is_ok());
        assert!(keys(bad.assemble()).checked(&[&good]).is_err());
    }

    /// Returns the first rows of an array of views, whose data buffer has `bytes` bytes.
    fn prefix(views: &Buffer, data: &Buffer, rows: usize, bytes: usize) -> UncheckedArray {
        let buffers = vec![views.slice_with_length(0, 16 * rows), data.slice_with_length(0, bytes)];
        ArrayParts { data_type: DataType::Utf8View, len: rows, validity: None, buffers, children: Vec::new() }
            .assemble()
    }

    #[test]
    fn incremental_checks_start_again_when_an_array_shrinks() {
        let texts = ["a text that is long enough", "another one that is long", "and a third of that length"];
        let array = StringViewArray::from_iter_values(texts).to_data();
        let views = &array.buffers()[0];
        let data = &array.buffers()[1];
        let ends: Vec<usize> = texts.iter().scan(0, |end, text| (*end += text.len(), Some(*end)).1).collect();
        let check = IncrementalCheck::default();
        for rows in [1, 2, 2, 1, 3] {
            assert_eq!(check.checked(prefix(views, data, rows, ends[rows - 1]), &[]).unwrap().len(), rows);
        }
        // The views of earlier rows point beyond a data buffer that has shrunk.
        let check = IncrementalCheck::default();
        check.checked(prefix(views, data, 2, ends[1]), &[]).unwrap();
        assert!(check.checked(prefix(views, data, 3, ends[0]), &[]).is_err());
        assert!(check.checked(prefix(views, data, 1, ends[0] - 1), &[]).is_err());
        assert!(check.checked(prefix(views, data, 2, ends[0]), &[]).is_err());
        assert!(check.checked(prefix(views, data, 3, ends[2]), &[]).is_ok());
    }
}
