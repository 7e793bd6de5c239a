//! Appends arrays to the buffers of a segment.
//!
//! [`IncomingRows::new`] checks the rows, [`IncomingRows::rows_that_fit`] counts those that fit,
//! [`IncomingRows::write`] writes them. A failed write (a full disk, for example) leaves bytes behind that no commit
//! refers to.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{NullBuffer, bit_mask};
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use super::children::{child_range, each_child, member_numbers, offset_at};
use super::decode::{decoded, decoded_type, text_kind};
use super::dictionary_entries::DictionaryEntries;
use super::dictionary_keys::{add_categories, keys_of, text_at};
use super::normalize::straight;
use super::plan::{Plan, PlanNode, ROWS, Storage, UNION_OFFSET};
use super::sink::RowSink;
use crate::array::room_for;
use crate::array::value_bytes::encode_view;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{MAX_INLINE, VIEW_WIDTH, field_type_name, is_ordered, type_name};

/// The size in bytes of the scratch memory through which rebased numbers are copied.
const CHUNK: usize = 64 << 10;
/// The number of bytes that are passed to the kernel at a time, which stay in the cache meanwhile.
const LARGE_CHUNK: usize = 4 * CHUNK;

/// Rows on their way into a table: one array for each column, in the table's order.
#[derive(Debug)]
pub(crate) struct IncomingRows {
    pub arrays: Vec<ArrayData>,
    pub rows: usize,
    /// The keys of each dictionary's column.
    keys: Vec<GatheredKeys>,
    /// The number of entries of each dictionary that are written even if no row has them: all entries of ordered
    /// categories, which are compared by their order in the dictionary.
    categories: Vec<usize>,
}

/// The keys of the values of an array from row `start` on; rows before it are used by no list.
#[derive(Clone, Debug, Default)]
struct GatheredKeys {
    start: usize,
    keys: Vec<u32>,
}

impl IncomingRows {
    /// Matches columns to the table's by name, checks types and nulls, and adds new texts to the dictionaries.
    ///
    /// # Errors
    /// `SchemaMismatch` naming the column, for another type and for ordered categories in another order;
    /// `InvalidArgument` naming the column and, for a null and for text that is not UTF-8, the row.
    pub fn new(
        plan: &Plan,
        fields: &[FieldRef],
        arrays: &[ArrayData],
        rows: usize,
        entries: &mut [DictionaryEntries],
    ) -> Result<IncomingRows> {
        let mut matched = Vec::with_capacity(plan.columns.len());
        for node in &plan.columns {
            let name = node.field.name();
            let number = fields.iter().position(|field| field.name() == name);
            let array = number.and_then(|number| arrays.get(number));
            let array = array.ok_or_else(|| mismatch(format!("column '{name}' of the table is missing")))?;
            if array.len() != rows {
                let got = array.len();
                return Err(Error::invalid_argument(format!("column '{name}' has {got} rows, expected {rows}")));
            }
            let array = storable(node, array).map_err(|e| e.context(format_args!("column '{name}'")))?;
            matched.push(array);
        }

        if let Some(unknown) =
            fields.iter().find(|field| plan.columns.iter().all(|node| node.field.name() != field.name()))
        {
            return Err(mismatch(format!("the table has no column '{}'", unknown.name())));
        }
        if fields.len() > plan.columns.len() {
            return Err(mismatch("a column comes twice"));
        }
        let dictionaries = plan.dictionaries.len();
        let keys = vec![GatheredKeys::default(); dictionaries];
        let mut incoming = IncomingRows { arrays: matched, rows, keys, categories: vec![0; dictionaries] };

        for (number, node) in plan.columns.iter().enumerate() {
            let array = incoming.arrays[number].clone();
            let name = node.field.name();
            let gathered = incoming.gather_categories(node, fields, &array, entries);
            let gathered = gathered.and_then(|()| incoming.gather(node, &array, 0..rows, entries));
            gathered.map_err(|e| e.context(format_args!("column '{name}'")))?;
        }

        Ok(incoming)
    }

    /// Adds all values of a column of ordered categories, whose field is one of `given`.
    fn gather_categories(
        &mut self,
        node: &PlanNode,
        given: &[FieldRef],
        array: &ArrayData,
        entries: &mut [DictionaryEntries],
    ) -> Result<()> {
        if let Storage::Keys { number, .. } = node.kind
            && is_ordered(&node.field)
            && given.iter().any(|field| field.name() == node.field.name() && is_ordered(field))
        {
            add_categories(array, &mut entries[number])?;
            self.categories[number] = entries[number].len();
        }
        Ok(())
    }

    /// Finds the keys of all dictionary-encoded values.
    fn gather(
        &mut self,
        node: &PlanNode,
        array: &ArrayData,
        rows: Range<usize>,
        entries: &mut [DictionaryEntries],
    ) -> Result<()> {
        if let Storage::Keys { number, .. } = node.kind {
            #[cfg_attr(not(test), expect(unused_mut, reason = "a test breaks them"))]
            let mut keys = keys_of(array, rows.clone(), &mut entries[number])?;
            if node.nulls.is_none() && !keys.is_empty() && entries[number].len() == 0 {
                // All are null by their struct or list, without validity of their own: their key must be the key of a
                // value.
                entries[number].add_any(node.field.data_type())?;
            }
            #[cfg(test)]
            super::fault_injection::forget_key(&mut keys);
            self.keys[number] = GatheredKeys { start: rows.start, keys };
            return Ok(());
        }
        each_child(node, array, &rows, |child, array, range| self.gather(child, array, range, entries))
    }

    /// Returns the number of rows, from row `from` on, that fit into a segment filled up to `counters`.
    pub fn rows_that_fit(
        &self,
        plan: &Plan,
        from: usize,
        counters: &[u64],
        limits: &[u64],
        entries: &[DictionaryEntries],
    ) -> Result<usize> {
        assert!(from <= self.rows, "row {from} of {}", self.rows);
        let count = counters[ROWS];
        let max_count = limits[ROWS];
        assert!(count <= max_count, "a segment of {max_count} rows has {count}");
        let all = (self.rows - from).min((max_count - count) as usize);
        if self.fits(plan, from..from + all, counters, limits, entries)? {
            return Ok(all);
        }
        // The most rows that are known to fit, and the least that are known not to.
        let mut low = 0;
        let mut high = all;
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.fits(plan, from..from + middle, counters, limits, entries)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Returns true if `rows` fit into a segment filled up to `counters`.
    fn fits(
        &self,
        plan: &Plan,
        rows: Range<usize>,
        counters: &[u64],
        limits: &[u64],
        entries: &[DictionaryEntries],
    ) -> Result<bool> {
        let needed = self.counters_after(plan, rows, counters, entries)?;
        assert_eq!(needed.len(), limits.len(), "a limit for each counter");
        Ok(needed.iter().zip(limits).all(|(needed, limit)| needed <= limit))
    }

    /// Returns what `counters` would be after appending `rows`.
    pub fn counters_after(
        &self,
        plan: &Plan,
        rows: Range<usize>,
        counters: &[u64],
        entries: &[DictionaryEntries],
    ) -> Result<Vec<u64>> {
        let mut needed = RequiredCounters { plan, entries, counters: counters.to_vec() };
        needed.counters[ROWS] += rows.len() as u64;
        for (node, array) in plan.columns.iter().zip(&self.arrays) {
            self.add_needs(node, array, rows.clone(), &mut needed)?;
        }
        Ok(needed.counters)
    }

    /// Adds to the counters what `rows` of a node and its children need.
    fn add_needs(
        &self,
        node: &PlanNode,
        array: &ArrayData,
        rows: Range<usize>,
        needed: &mut RequiredCounters<'_>,
    ) -> Result<()> {
        match node.kind {
            Storage::Bytes { counter, .. } => needed.counters[counter] += text_len(array, rows.clone(), 0)?,
            Storage::Views { counter } => needed.counters[counter] += text_len(array, rows.clone(), MAX_INLINE + 1)?,
            Storage::Keys { number, .. } => {
                needed.add_entries(number, self.keys(number, &rows)?, self.categories[number])
            }
            Storage::List { counter, .. } | Storage::ListViews { counter, .. } => {
                needed.counters[counter] += child_range(array, 0, &rows)?.len() as u64;
            }
            Storage::DenseUnion { first } => {
                for member in 0..node.children.len() {
                    needed.counters[first + member] += child_range(array, member, &rows)?.len() as u64;
                }
            }
            _ => (),
        }
        each_child(node, array, &rows, |child, array, range| self.add_needs(child, array, range, needed))
    }

    /// Returns the keys of rows of the column with dictionary `number`.
    fn keys(&self, number: usize, rows: &Range<usize>) -> Result<&[u32]> {
        let GatheredKeys { start, keys } = &self.keys[number];
        let range = rows.start.checked_sub(*start).zip(rows.end.checked_sub(*start));
        range.and_then(|(from, to)| keys.get(from..to)).ok_or_else(|| {
            let known = *start..start + keys.len();
            Error::internal(format_args!("keys of rows {rows:?} of dictionary {number}, which has those of {known:?}"))
        })
    }

    /// Appends rows, which must fit.
    pub fn write(&self, rows: Range<usize>, into: &mut impl RowSink, entries: &[DictionaryEntries]) -> Result<()> {
        let plan = into.plan().clone();
        let at = into.fill_state().rows();
        assert!(rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert_eq!(plan.columns.len(), self.arrays.len(), "an array for each column");
        for (node, array) in plan.columns.iter().zip(&self.arrays) {
            self.write_node(&NewRows { node, at, array, rows: rows.clone() }, into, entries)?;
        }
        into.fill_state().counters[ROWS] += rows.len() as u64;
        Ok(())
    }

    /// Appends rows to a node and its children, and counts them.
    fn write_node(&self, new: &NewRows<'_>, into: &mut impl RowSink, entries: &[DictionaryEntries]) -> Result<()> {
        let &NewRows { node, at, array, ref rows } = new;
        if let Some(counter) = node.nulls {
            into.fill_state().counters[counter] += put_validity(into, node.region, at, array.nulls(), rows)?;
        }

        match node.kind {
            Storage::Fixed { width } => put_values(into, new, width, node.values_region())?,
            Storage::Bits => {
                let bits = array.buffers().first().map_or(&[][..], |bits| bits.as_slice());
                put_bits(into, node.values_region(), at, Some((bits, array.offset() + rows.start)), rows.len())?;
            }
            Storage::Bytes { width, counter } => put_text(into, new, width, counter)?,
            Storage::Views { counter } => put_views(into, new, counter)?,
            Storage::Keys { number, width } => {
                let keys = self.keys(number, rows)?;
                let used = keys.iter().max().map_or(0, |&key| key as usize + 1);
                let entry_count = entries[number].len();
                if used > entry_count && node.nulls.is_none() {
                    return Err(Error::internal("a key of no value, in a column without nulls"));
                }
                into.put_entries(number, &entries[number], used.max(self.categories[number]).min(entry_count))?;
                put_numbers(into, node.values_region(), at, keys, width)?;
            }
            Storage::List { width, counter } => {
                let base = into.fill_state().counters[counter];
                put_offsets(into, new, width, base)?;
            }
            Storage::ListViews { width, counter } => put_list_views(into, new, width, counter)?,
            Storage::SparseUnion => put_values(into, new, 1, node.region)?,
            Storage::DenseUnion { first } => {
                put_values(into, new, 1, node.region)?;
                put_members(into, new, first)?;
            }
            Storage::Nothing | Storage::FixedList { .. } | Storage::Struct => (),
        }

        self.write_children(new, into, entries)
    }

    /// Writes the rows of all children after the existing ones, and counts them.
    fn write_children(&self, new: &NewRows<'_>, into: &mut impl RowSink, entries: &[DictionaryEntries]) -> Result<()> {
        let parent = new.node;
        for (number, (node, array)) in parent.children.iter().zip(new.array.child_data()).enumerate() {
            let rows = child_range(new.array, number, &new.rows)?;
            let at = parent.child_rows(number, new.at, &into.fill_state().counters);
            let at =
                at.ok_or_else(|| Error::internal(format_args!("the items of {} lists can't be counted", new.at)))?;
            let count = rows.len() as u64;
            self.write_node(&NewRows { node, at, array, rows }, into, entries)?;
            match parent.kind {
                Storage::List { counter, .. } | Storage::ListViews { counter, .. } => {
                    into.fill_state().counters[counter] += count
                }
                Storage::DenseUnion { first } => into.fill_state().counters[first + number] += count,
                _ => (),
            }
        }
        Ok(())
    }
}

/// Rows of an array that are appended to a node, beginning at its row `at`.
struct NewRows<'a> {
    node: &'a PlanNode,
    at: u64,
    array: &'a ArrayData,
    rows: Range<usize>,
}

/// The counters that a segment would have.
struct RequiredCounters<'a> {
    plan: &'a Plan,
    entries: &'a [DictionaryEntries],
    counters: Vec<u64>,
}

impl RequiredCounters<'_> {
    /// Adds the entries of dictionary `number` up to the largest of `keys`, and the first `min_count`.
    fn add_entries(&mut self, number: usize, keys: &[u32], min_count: usize) {
        let used = keys.iter().max().map_or(0, |&key| key as usize + 1).max(min_count);
        let dictionary = &self.plan.dictionaries[number];
        let count = used.min(self.entries[number].len());
        let counters = &mut self.counters;
        counters[dictionary.entries] = counters[dictionary.entries].max(count as u64);
        if let Some(bytes) = dictionary.bytes() {
            counters[bytes] = counters[bytes].max(self.entries[number].bytes(count));
        }
    }
}

/// Returns the columns of an arrow-rs record batch.
pub(crate) fn batch_arrays(batch: &RecordBatch) -> Vec<ArrayData> {
    batch.columns().iter().map(|column| column.to_data()).collect()
}

/// Returns a column as it is stored in `node`: decoded, [`straight`], and checked.
fn storable(node: &PlanNode, array: &ArrayData) -> Result<ArrayData> {
    let have = decoded_type(node.field.data_type(), array.data_type());
    check_type(node, &have, array.data_type())?;
    let array = straight(&decoded(array, &have)?)?;
    check_nulls(node, &array, 0..array.len())?;
    check_text(node, &array, 0..array.len())?;
    Ok(array)
}

fn mismatch(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::SchemaMismatch, message)
}

/// Checks that an array of type `have`, once decoded, can be stored in the node: the types are equal, or both are text,
/// however encoded. Its type was `given`.
fn check_type(node: &PlanNode, have: &DataType, given: &DataType) -> Result<()> {
    if is_appendable_type(node.field.data_type(), have) {
        return Ok(());
    }
    Err(mismatch(format!("the table has {}, got {}", field_type_name(&node.field), type_name(given))))
}

/// Returns true if values of type `have` are appended to columns of type `want`.
pub(crate) fn is_appendable_type(want: &DataType, have: &DataType) -> bool {
    use DataType::*;
    match (want, have) {
        (
            List(want) | LargeList(want) | ListView(want) | LargeListView(want),
            List(have) | LargeList(have) | ListView(have) | LargeListView(have),
        ) => is_appendable_type(want.data_type(), have.data_type()),
        // Libraries call the entries of a map, and their two members, differently.
        (Map(want, _), Map(have, _)) => match (want.data_type(), have.data_type()) {
            (Struct(want), Struct(have)) => {
                want.len() == have.len()
                    && want.iter().zip(have).all(|(w, h)| is_appendable_type(w.data_type(), h.data_type()))
            }
            _ => false,
        },
        (Union(want, a), Union(have, b)) => {
            a == b
                && want.len() == have.len()
                && want.iter().zip(have.iter()).all(|((i, w), (j, h))| {
                    i == j && w.name() == h.name() && is_appendable_type(w.data_type(), h.data_type())
                })
        }
        (FixedSizeList(want, n), FixedSizeList(have, m)) => {
            n == m && is_appendable_type(want.data_type(), have.data_type())
        }
        (Struct(want), Struct(have)) => {
            want.len() == have.len()
                && want
                    .iter()
                    .zip(have)
                    .all(|(w, h)| w.name() == h.name() && is_appendable_type(w.data_type(), h.data_type()))
        }
        (Timestamp(a, x), Timestamp(b, y)) => a == b && (x == y || is_utc(x) && is_utc(y)),
        _ if text_kind(want).is_some_and(|kind| text_kind(have) == Some(kind)) => true,
        (Dictionary(_, want), Dictionary(_, have)) => want == have,
        (Dictionary(_, want), have) => **want == *have,
        _ => want == have,
    }
}

/// Returns true if a time zone is UTC, however it is called.
fn is_utc(zone: &Option<Arc<str>>) -> bool {
    zone.as_deref().is_some_and(|zone| ["UTC", "Etc/UTC", "+00:00", "Z"].contains(&zone))
}

/// Checks that no value of a node declared without nulls is null. The array must be [`straight`].
fn check_nulls(node: &PlanNode, array: &ArrayData, rows: Range<usize>) -> Result<()> {
    let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return check_child_nulls(node, array, &rows);
    };
    if node.nulls.is_none()
        && let Some(row) = rows.clone().find(|&row| nulls.is_null(row))
    {
        let name = node.field.name();
        return Err(Error::invalid_argument(format!("row {row}: null, and '{name}' is declared without nulls")));
    }
    // Values below a null are arbitrary.
    let has_child_nulls =
        array.child_data().iter().any(|child| child.null_count() > 0 || !child.child_data().is_empty());
    if node.children.is_empty() || !has_child_nulls {
        return Ok(());
    }
    rows.filter(|&row| nulls.is_valid(row)).try_for_each(|row| check_child_nulls(node, array, &(row..row + 1)))
}

/// Checks that text is UTF-8: programs that pass arrays through the C data interface vouch for it, and readers refuse a
/// column with any that is not. Text below a null may be anything, and is left out when it is written. The array must
/// be [`straight`].
fn check_text(node: &PlanNode, array: &ArrayData, rows: Range<usize>) -> Result<()> {
    let is_sound = match array.data_type() {
        // The values of a dictionary are checked as they get their keys.
        _ if matches!(node.kind, Storage::Keys { .. }) => return Ok(()),
        DataType::Utf8 | DataType::LargeUtf8 => is_text(array, &rows)?,
        other => *other != DataType::Utf8View,
    };
    for row in if is_sound { 0..0 } else { rows.clone() } {
        text_at(array, row).map_err(|e| {
            let advice = "decode it as what it is, such as Latin-1, or make the column binary";
            Error::invalid_argument(format!("row {row}: {}; {advice}", e.message()))
        })?;
    }
    each_child(node, array, &rows, check_text)
}

/// Returns true if all text of these rows, including text below nulls, is UTF-8, each from its own first byte on.
fn is_text(array: &ArrayData, rows: &Range<usize>) -> Result<bool> {
    let width = offset_width(array.data_type());
    let start = offset_at(array, rows.start, width)?;
    let bytes = array.buffers().get(1).and_then(|text| text.get(start..offset_at(array, rows.end, width).ok()?));
    let bytes = bytes.ok_or_else(|| Error::invalid("text ends past its buffer"))?;
    if bytes.is_ascii() {
        return Ok(true);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(false) };
    for row in rows.clone() {
        let at = offset_at(array, row, width)?.checked_sub(start);
        if !at.is_some_and(|at| text.is_char_boundary(at)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_child_nulls(node: &PlanNode, array: &ArrayData, rows: &Range<usize>) -> Result<()> {
    each_child(node, array, rows, check_nulls)
}

/// Returns the width of a text type's offsets; `None` for types without such offsets.
fn text_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Utf8 | DataType::Binary => Some(4),
        DataType::LargeUtf8 | DataType::LargeBinary => Some(8),
        _ => None,
    }
}

/// Returns the width of the offsets of text or lists.
fn offset_width(data_type: &DataType) -> usize {
    let is_short = matches!(data_type, DataType::List(_) | DataType::Map(..));
    text_width(data_type).unwrap_or(if is_short { 4 } else { 8 })
}

/// Returns the total length in bytes of the texts of at least `min_len` bytes.
fn text_len(array: &ArrayData, rows: Range<usize>, min_len: usize) -> Result<u64> {
    if let (Some(width), 0) = (text_width(array.data_type()), min_len) {
        let from = offset_at(array, rows.start, width)?;
        let to = offset_at(array, rows.end, width)?;
        let len = to.checked_sub(from).map(|len| len as u64);
        return len.ok_or_else(|| Error::invalid("text offsets are not in order"));
    }
    rows.map(|row| Ok(text_at(array, row)?.filter(|text| text.len() >= min_len).map_or(0, |text| text.len() as u64)))
        .sum()
}

/// Appends validity bits. Returns the number of nulls among them.
fn put_validity(
    into: &mut impl RowSink,
    region: usize,
    at: u64,
    nulls: Option<&NullBuffer>,
    rows: &Range<usize>,
) -> Result<u64> {
    let source = nulls.map(|nulls| (nulls.validity(), nulls.offset() + rows.start));
    let set = put_bits(into, region, at, source, rows.len())?;
    Ok((rows.len() - set) as u64)
}

/// Writes `count` bits at bit `at`: from the given bit of `source` on, or set bits. Returns the number of set bits.
fn put_bits(
    into: &mut impl RowSink,
    region: usize,
    at: u64,
    source: Option<(&[u8], usize)>,
    count: usize,
) -> Result<usize> {
    if count == 0 {
        return Ok(0);
    }
    let shift = (at % 8) as usize;
    let mut scratch = std::mem::take(into.scratch());
    scratch.clear();
    let bytes = (shift + count).div_ceil(8);
    if bytes > scratch.capacity() {
        // Rows without bytes may be any number.
        scratch = room_for(bytes as u64, "bytes of bits")?;
    }
    scratch.resize(bytes, 0);
    let set = match source {
        Some((bits, from)) if bits.len() * 8 >= from + count => {
            count - bit_mask::set_bits(&mut scratch, bits, shift, from, count)
        }
        Some(_) => return Err(Error::invalid("a bitmap is shorter than its array")),
        None => {
            scratch.fill(0xff);
            scratch[0] &= 0xff << shift;
            count
        }
    };

    // The tail may contain bits of rows that were rolled back.
    scratch[0] |= into.fill_state().tails[region] & !(0xff << shift);
    let rest = (shift + count) % 8;
    let last = scratch.len() - 1;
    if rest > 0 {
        scratch[last] &= !(0xff << rest);
    }
    into.fill_state().tails[region] = if rest > 0 { scratch[last] } else { 0 };
    let done = into.put(region, at / 8, &scratch);
    *into.scratch() = scratch;
    done.map(|()| set)
}

/// Appends values of `width` bytes each, such as the type ids of a union.
fn put_values(into: &mut impl RowSink, new: &NewRows<'_>, width: usize, region: usize) -> Result<()> {
    let NewRows { at, array, rows, .. } = new;
    let from = (array.offset() + rows.start) * width;
    let to = (array.offset() + rows.end) * width;
    let bytes = array.buffers().first().and_then(|values| values.get(from..to));
    let bytes = bytes.ok_or_else(|| Error::invalid("fewer values than rows"))?;
    put_large(into, region, at * width as u64, bytes)
}

/// Writes `bytes` in chunks small enough to stay in the cache while the kernel copies them.
fn put_large(into: &mut impl RowSink, region: usize, mut at: u64, bytes: &[u8]) -> Result<()> {
    for chunk in bytes.chunks(LARGE_CHUNK) {
        into.put(region, at, chunk)?;
        at += chunk.len() as u64;
    }
    Ok(())
}

/// Writes `make` of each item of `source`, `N` bytes each, at byte `at` of the region.
fn put_words<T, const N: usize>(
    into: &mut impl RowSink,
    region: usize,
    mut at: u64,
    source: &[T],
    mut make: impl FnMut(&T) -> [u8; N],
) -> Result<()> {
    let mut scratch = std::mem::take(into.scratch());
    let mut done = Ok(());
    for chunk in source.chunks(CHUNK / N) {
        scratch.resize(N * chunk.len(), 0);
        for (word, item) in scratch.as_chunks_mut::<N>().0.iter_mut().zip(chunk) {
            *word = make(item);
        }
        done = done.and_then(|()| into.put(region, at, &scratch));
        at += scratch.len() as u64;
    }
    *into.scratch() = scratch;
    done
}

/// Decodes an offset of 32 bits.
fn narrow(raw: &[u8; 4]) -> u64 {
    u32::from_le_bytes(*raw).into()
}

/// Decodes an offset of 64 bits.
fn wide(raw: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*raw)
}

/// Appends the ends of texts or lists, rebased to begin at `base`.
fn put_offsets(into: &mut impl RowSink, new: &NewRows<'_>, width: usize, base: u64) -> Result<()> {
    let NewRows { node, at, array, rows } = new;
    let region = node.values_region();
    if rows.is_empty() {
        return Ok(());
    }
    let source = offset_width(array.data_type());
    let first = offset_at(array, rows.start, source)? as u64;
    let shift = base.wrapping_sub(first);
    let offsets = array.buffers().first().map_or(&[][..], |offsets| offsets.as_slice());
    let range = (array.offset() + rows.start + 1) * source..(array.offset() + rows.end + 1) * source;
    let offsets = offsets.get(range).ok_or_else(|| Error::internal("fewer offsets than rows"))?;
    let start = (at + 1) * width as u64;
    let mut last = first;
    let mut is_sorted = true;
    let mut next = |offset: u64| {
        is_sorted &= offset >= last;
        last = offset;
        offset.wrapping_add(shift)
    };

    let (fours, _) = offsets.as_chunks();
    let (eights, _) = offsets.as_chunks();
    match (source, width) {
        (4, 4) => put_words(into, region, start, fours, |raw| (next(narrow(raw)) as u32).to_le_bytes())?,
        (4, _) => put_words(into, region, start, fours, |raw| next(narrow(raw)).to_le_bytes())?,
        (_, 4) => put_words(into, region, start, eights, |raw| (next(wide(raw)) as u32).to_le_bytes())?,
        _ => put_words(into, region, start, eights, |raw| next(wide(raw)).to_le_bytes())?,
    }

    if is_sorted { Ok(()) } else { Err(Error::invalid("offsets are not in order")) }
}

/// Writes `numbers`, `width` bytes each, as rows `at ..` of the region.
fn put_numbers<T: Copy + Into<u64>>(
    into: &mut impl RowSink,
    region: usize,
    at: u64,
    numbers: &[T],
    width: usize,
) -> Result<()> {
    let start = at * width as u64;
    match width {
        1 => put_words(into, region, start, numbers, |&n| [n.into() as u8]),
        2 => put_words(into, region, start, numbers, |&n| (n.into() as u16).to_le_bytes()),
        4 => put_words(into, region, start, numbers, |&n| (n.into() as u32).to_le_bytes()),
        _ => put_words(into, region, start, numbers, |&n| n.into().to_le_bytes()),
    }
}

/// Appends where lists begin, and their sizes; `counter` counts the items.
fn put_list_views(into: &mut impl RowSink, new: &NewRows<'_>, width: usize, counter: usize) -> Result<()> {
    let NewRows { node, at, array, rows } = new;
    let source = offset_width(array.data_type());
    let base = into.fill_state().counters[counter];
    let first = offset_at(array, rows.start, source)?;
    let mut starts = Vec::with_capacity(rows.len());
    let mut sizes = Vec::with_capacity(rows.len());
    let mut start = first;
    for row in rows.clone() {
        let end = offset_at(array, row + 1, source)?;
        let size = end.checked_sub(start).ok_or_else(|| Error::invalid("offsets are not in order"))?;
        starts.push(base + (start - first) as u64);
        sizes.push(size as u64);
        start = end;
    }
    put_numbers(into, node.values_region(), *at, &starts, width)?;
    put_numbers(into, node.sizes_region(), *at, &sizes, width)
}

/// Appends the offsets of a dense union, whose members have as many rows as the counters from `first` on.
fn put_members(into: &mut impl RowSink, new: &NewRows<'_>, first: usize) -> Result<()> {
    let NewRows { node, at, array, rows } = new;
    let mut next = into.fill_state().counters[first..first + node.children.len()].to_vec();
    let numbers = member_numbers(array.data_type());
    let ids = array.buffers().first().and_then(|ids| ids.get(array.offset() + rows.start..array.offset() + rows.end));
    let ids = ids.ok_or_else(|| Error::invalid("fewer type ids than rows"))?;
    let mut offsets = Vec::with_capacity(ids.len());
    for &id in ids {
        let member = next.get_mut(numbers[usize::from(id)]);
        let member = member.ok_or_else(|| Error::invalid(format!("type id {id}, which no member has")))?;
        offsets.push(*member);
        *member += 1;
    }
    put_numbers(into, node.values_region(), *at, &offsets, UNION_OFFSET)
}

/// Appends texts with offsets of `width` bytes; `counter` counts their bytes. They are copied at once where that is
/// possible.
fn put_text(into: &mut impl RowSink, new: &NewRows<'_>, width: usize, counter: usize) -> Result<()> {
    let NewRows { node, at, array, rows } = new;
    let base = into.fill_state().counters[counter];
    let has_nulls = array.nulls().is_some_and(|nulls| nulls.null_count() > 0);
    let may_copy = match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 if has_nulls => is_text(array, rows)?,
        _ => true,
    };
    if let Some(source) = text_width(array.data_type())
        && may_copy
    {
        put_offsets(into, new, width, base)?;
        let range = offset_at(array, rows.start, source)?..offset_at(array, rows.end, source)?;
        let text = array.buffers().get(1).and_then(|text| text.get(range));
        let text = text.ok_or_else(|| Error::invalid("text ends past its buffer"))?;
        put_large(into, node.text_region(), base, text)?;
        into.fill_state().counters[counter] = base + text.len() as u64;
        return Ok(());
    }

    let mut ends = Vec::with_capacity(rows.len());
    let mut text = Vec::new();
    for row in rows.clone() {
        // A null takes no bytes of text.
        text.extend_from_slice(text_at(array, row)?.unwrap_or(&[]));
        ends.push(base + text.len() as u64);
    }

    put_numbers(into, node.values_region(), at + 1, &ends, width)?;
    put_large(into, node.text_region(), base, &text)?;
    into.fill_state().counters[counter] = base + text.len() as u64;
    Ok(())
}

/// Appends texts with views; `counter` counts the bytes of the texts that no view contains.
fn put_views(into: &mut impl RowSink, new: &NewRows<'_>, counter: usize) -> Result<()> {
    let NewRows { node, at, array, rows } = new;
    let base = into.fill_state().counters[counter];
    let mut views = Vec::with_capacity(rows.len());
    let mut text = Vec::new();
    for row in rows.clone() {
        let value = text_at(array, row)?.unwrap_or(&[]);
        views.push(encode_view(value, base + text.len() as u64));
        if value.len() > MAX_INLINE {
            text.extend_from_slice(value);
        }
    }
    put_words(into, node.values_region(), VIEW_WIDTH as u64 * at, &views, |view: &[u8; VIEW_WIDTH]| *view)?;
    put_large(into, node.text_region(), base, &text)?;
    into.fill_state().counters[counter] = base + text.len() as u64;
    Ok(())
}
