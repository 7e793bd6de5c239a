//! Bytes with an owner, and arrays over them. **Fence two**: the only casts of memory to arrays.
//!
//! [`Bytes`] is what the format code sees: it cannot tell a mapping from a `Vec`. Bodies are sliced in place as
//! [`arrow_buffer::Buffer`]s; metadata is *copied* out by [`Bytes::read_at`], so that the checked bytes are the ones
//! used, even if another process rewrites the file.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Fields, UnionMode};

use super::fetch::{Fetch, ensure};
use crate::blocking;
use crate::error::{Error, Result};
use crate::map::{
    GrowableBuffer, Mapping, UnmappedFile, can_allocate, free_memory, guard, is_memory_short, mappings_are_scarce,
};
use crate::types::{fixed_size, fixed_size_or_zero, type_name};

/// Immutable bytes: a mapping, memory, the mapping of a file into which they are fetched, or a file that is only read.
#[derive(Clone, Debug)]
pub struct Bytes {
    /// Empty for a file that is only read.
    data: Buffer,
    mapping: Option<Mapping>,
    /// What brings bytes that are not there yet. Where it is, `data` and `mapping` are only looked at where it was asked.
    fetch: Option<Arc<dyn Fetch>>,
    /// What opens the same bytes of a store again.
    address: Option<Arc<Path>>,
    /// A file of which metadata is read, and no bytes are in place.
    unmapped: Option<Arc<UnmappedFile>>,
}

impl Bytes {
    /// The bytes of a mapping, in place.
    ///
    /// # Errors
    /// `InvalidArgument` for a writable mapping: checked bytes must not change.
    pub fn from_mapping(mapping: Mapping) -> Result<Bytes> {
        if mapping.mode().is_writable() {
            return Err(Error::invalid_argument(
                "a writable mapping can't be opened as Arrow data; map the file with mode 'r'",
            ));
        }
        let base = mapping.base();
        let len = mapping.len();
        // SAFETY: the range stays mapped while the owner, a handle of the same mapping, lives. This process does not
        // store to it: the mapping is only read, refused above otherwise. That other processes don't change the bytes
        // of arrays is the contract of `open`, and the promise of the table format, except for bits after the last row
        // of a bitmap, which are never read. In a breach this crate yields wrong values and makes no access outside the
        // range: it bounds every length and offset as it loads it, and lets kernels of arrow-rs, which load them again,
        // have copies (`StableCopies`). That does not go for arrays that were handed out (`to_record_batches`, `chunks`, the C
        // data interface): whoever reads them trusts what was checked, and depends on the contract.
        let data = unsafe { Buffer::from_custom_allocation(base, len, Arc::new(mapping.clone())) };
        Ok(Bytes { data, mapping: Some(mapping), fetch: None, address: None, unmapped: None })
    }

    /// As [`Bytes::from_mapping`]; a copy where the process is near its limit of mappings.
    ///
    /// # Errors
    /// Those of [`Bytes::from_mapping`] and [`Bytes::copy_of_mapping`].
    pub(crate) fn from_mapping_or_copy(mapping: Mapping) -> Result<Bytes> {
        if mappings_are_scarce() { Bytes::copy_of_mapping(&mapping) } else { Bytes::from_mapping(mapping) }
    }

    /// The bytes of a file that is not mapped: [`Bytes::read_at`] reads them, and nothing else finds any.
    pub(crate) fn from_unmapped_file(file: UnmappedFile) -> Bytes {
        Bytes { unmapped: Some(Arc::new(file)), ..Bytes::from(Vec::new()) }
    }

    /// The first `len` bytes.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn prefix(&self, len: usize) -> Bytes {
        Bytes { data: self.data.slice_with_length(0, len), ..self.clone() }
    }

    /// The bytes of an object in a store: `mapping` is of a file of its size, into which `fetch` brings the bytes that are
    /// asked for, before anyone looks at them. `address` opens the same object again.
    ///
    /// # Errors
    /// `InvalidArgument` for a writable mapping.
    pub fn from_fetch(mapping: Mapping, fetch: Arc<dyn Fetch>, address: &Path) -> Result<Bytes> {
        blocking::enable_waits();
        Ok(Bytes { fetch: Some(fetch), address: Some(address.into()), ..Bytes::from_mapping(mapping)? })
    }

    /// A copy of the bytes of `mapping` in memory.
    ///
    /// # Errors
    /// `Io` if there is no memory for the copy, or reading the file fails; `FileChanged`.
    pub fn copy_of_mapping(mapping: &Mapping) -> Result<Bytes> {
        let mut copy = zeroed(mapping.len())?;
        mapping.read_at(0, &mut copy)?;
        Ok(Bytes::from(copy))
    }

    /// A copy of the bytes, in memory of our own.
    ///
    /// # Errors
    /// `Io` if there is no memory for the copy, and those of [`Bytes::read_at`].
    pub fn to_memory(&self) -> Result<Bytes> {
        let mut copy = zeroed(self.len())?;
        self.read_at(0, &mut copy)?;
        Ok(Bytes { address: self.address.clone(), ..Bytes::from(copy) })
    }

    /// What opens the same bytes of a store again, with what is secret in it; `None` for others.
    pub(crate) fn store_address(&self) -> Option<&Arc<Path>> {
        self.address.as_ref()
    }

    /// `len` bytes, all of which `fill` must write, or fail; large buffers use memory touched before, or cheaper to
    /// touch. `no_memory` is the error where there is none.
    pub(crate) fn build_buffer<E>(
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
        no_memory: impl FnOnce(io::Error) -> E,
    ) -> Result<Buffer, E> {
        const LARGE: usize = 256 << 10;
        if len >= LARGE {
            let mut buffer =
                GrowableBuffer::with_len(len).map_err(|e| no_memory(io::Error::new(io::ErrorKind::OutOfMemory, e)))?;
            return match fill(buffer.as_mut_slice()) {
                Ok(()) => Ok(Bytes::from(buffer).data),
                Err(e) => {
                    // A length that data only claims takes no memory.
                    buffer.discard();
                    Err(e)
                }
            };
        }
        let mut bytes = vec![0; len];
        fill(&mut bytes)?;
        Ok(Buffer::from_vec(bytes))
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.unmapped.as_ref().map_or(self.data.len(), |file| file.len())
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the first byte. What is there means nothing before it was fetched, if the bytes are from a store.
    pub fn address(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// The mapping behind the bytes, if there is one that can be read: bytes that are fetched have none.
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref().filter(|_| self.fetch.is_none())
    }

    /// What brings the bytes, if they are in a store.
    pub(crate) fn fetch(&self) -> Option<&Arc<dyn Fetch>> {
        self.fetch.as_ref()
    }

    /// Returns when bytes `offset .. offset + len` are there: at once, but for those in a store.
    ///
    /// # Errors
    /// Those of the store; an internal error for a file that is not mapped.
    fn ensure(&self, offset: usize, len: usize) -> Result<()> {
        if self.unmapped.is_some() {
            return Err(Error::internal("values of a file were asked for before it was mapped"));
        }
        match &self.fetch {
            Some(fetch) if len > 0 => ensure(fetch, &[Range { start: offset, end: offset + len }]),
            _ => Ok(()),
        }
    }

    /// Whether there are bytes `offset .. offset + len`, here or in a store.
    fn has(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len())
    }

    /// Bytes `offset .. offset + len` in place; `None` if they are not all there, as those in a store never are: see
    /// `bring`.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        let is_there = self.fetch.is_none() && self.unmapped.is_none() && self.has(offset, len);
        is_there.then(|| self.data.slice_with_length(offset, len))
    }

    /// As [`Bytes::slice`], of bytes in a store once they are here.
    pub(crate) fn fetch_slice(&self, offset: usize, len: usize) -> Result<Option<Buffer>> {
        if !self.has(offset, len) {
            return Ok(None);
        }
        self.ensure(offset, len)?;
        Ok(Some(self.data.slice_with_length(offset, len)))
    }

    /// Bytes `offset .. offset + len` for reading, once they are here; `None` if there are not as many.
    pub(crate) fn get(&self, offset: usize, len: usize) -> Result<Option<&[u8]>> {
        if !self.has(offset, len) {
            return Ok(None);
        }
        self.ensure(offset, len)?;
        Ok(self.data.get(offset..offset + len))
    }

    /// Copies bytes `offset .. offset + into.len()`; from a mapped file by pread(2), which touches no page.
    ///
    /// # Errors
    /// `InvalidData` if the bytes end before; `Io`, `FileChanged`.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        if let Some(file) = &self.unmapped {
            return Ok(file.read_at(offset, into)?);
        }
        if let Some(mapping) = &self.mapping {
            if self.has(offset, into.len()) {
                self.ensure(offset, into.len())?;
            }
            return Ok(mapping.read_at(offset, into)?);
        }
        let end = offset.saturating_add(into.len());
        let from = self.data.get(offset..end).ok_or_else(|| {
            let wanted = into.len();
            let len = self.len();
            Error::invalid(format!("reading {wanted} bytes at offset {offset} of only {len}"))
        })?;
        // They may be those of a mapped file.
        guard(|| {
            into.copy_from_slice(from);
            Ok(())
        })
    }
}

/// Ends what works in steps while memory is short. Rust ends a program whose small allocations fail; what the bindings have
/// instead, [`ReserveAllocator`](crate::map::ReserveAllocator), gives them what a step needs.
///
/// # Errors
/// `Io` if the system has refused memory, and refuses it still.
pub(crate) fn check_memory() -> Result<()> {
    if is_memory_short() { Err(Error::out_of_memory("no memory is left")) } else { Ok(()) }
}

/// Whether memory has room for as many bytes, as far as the system tells.
pub(crate) fn has_room(bytes: u64) -> bool {
    /// Bytes for which no question is worth its time.
    const FEW: u64 = 1 << 20;
    /// Bytes for which it is not worth to read files of the system.
    const LITTLE: u64 = 64 << 20;
    if bytes <= LITTLE {
        bytes <= FEW || can_allocate(bytes as usize)
    } else {
        free_memory().is_none_or(|free| bytes <= free)
    }
}

/// Room for `len` values, which data may only claim, or for none of them; `of` says what they are.
///
/// # Errors
/// `Io` if there is no memory for them. The system may promise more than there is, so it is asked what is left, too.
pub(crate) fn room_for<T>(len: u64, of: &str) -> Result<Vec<T>> {
    check_memory()?;
    let bytes = len.saturating_mul(size_of::<T>() as u64);
    let no_room = || Error::out_of_memory(format!("{len} {of} have no room in memory"));
    if !has_room(bytes) {
        return Err(no_room());
    }
    let mut room = Vec::new();
    room.try_reserve_exact(usize::try_from(len).map_err(|_| no_room())?).map_err(|_| no_room())?;
    Ok(room)
}

/// Room for the bits of `rows` rows.
///
/// # Errors
/// As [`room_for`].
pub(crate) fn room_for_bits(rows: usize) -> Result<BooleanBufferBuilder> {
    let bytes = room_for::<u8>(rows.div_ceil(8) as u64, "bytes of bits")?;
    Ok(BooleanBufferBuilder::new_from_buffer(MutableBuffer::from(bytes), 0))
}

/// The maximum size in bytes of a column of nulls: a schema may describe more than fits into memory.
const MOST_NULLS: u64 = 64 << 30;

/// As many nulls of the type.
///
/// # Errors
/// `Unsupported` if they take more than 64 GiB, `Io` if there is no memory for them.
pub(crate) fn nulls(data_type: &DataType, rows: usize) -> Result<ArrayData> {
    let bytes = null_width(data_type).saturating_mul(rows as u64);
    let what = || format!("{rows} nulls of {}", type_name(data_type));
    if bytes > MOST_NULLS {
        return Err(Error::unsupported(format!("{} take more than {MOST_NULLS} bytes", what())));
    }
    if !has_room(bytes) {
        return Err(Error::out_of_memory(format!("{} have no room in memory", what())));
    }
    Ok(ArrayData::new_null(data_type, rows))
}

/// The minimum size in bytes of a null of the type.
fn null_width(data_type: &DataType) -> u64 {
    let all = |fields: &Fields| fields.iter().map(|field| null_width(field.data_type())).fold(0, u64::saturating_add);
    match data_type {
        DataType::FixedSizeList(item, size) => {
            null_width(item.data_type()).saturating_mul(u64::try_from(*size).unwrap_or(u64::MAX)).saturating_add(1)
        }
        DataType::FixedSizeBinary(size) => u64::try_from(*size).unwrap_or(u64::MAX),
        DataType::Struct(fields) => all(fields).saturating_add(1),
        DataType::Union(fields, _) => {
            fields.iter().map(|(_, field)| null_width(field.data_type())).fold(8, u64::saturating_add)
        }
        other => other.primitive_width().map_or(32, |width| width as u64 + 1),
    }
}

/// Memory for a copy.
fn zeroed(len: usize) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(len).map_err(|_| Error::out_of_memory(format!("no memory for a copy of {len} bytes")))?;
    copy.resize(len, 0);
    Ok(copy)
}

impl From<Buffer> for Bytes {
    fn from(data: Buffer) -> Bytes {
        Bytes { data, mapping: None, fetch: None, address: None, unmapped: None }
    }
}

impl From<GrowableBuffer> for Bytes {
    /// Makes bytes of the memory without copying; it stays in place.
    fn from(buffer: GrowableBuffer) -> Bytes {
        let (memory, base, len) = buffer.into_parts();
        // SAFETY: `len` bytes from `base` on have been written and stay in place while `memory`, the owner, lives; the
        // buffer that could write to them is gone.
        Bytes::from(unsafe { Buffer::from_custom_allocation(base, len, memory) })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(data: Vec<u8>) -> Bytes {
        Bytes::from(Buffer::from_vec(data))
    }
}

/// Rows `start .. start + len` of `array`, sharing its buffers. Panics if they are out of bounds, which callers rule
/// out.
///
/// Throughout this crate the children of a struct, a fixed-size list and a sparse union are cut with it and its own
/// offset is 0; every other type keeps its children whole and moves its offset. (arrow-rs moves the offset *and* cuts
/// the children of structs inside, and then cuts them again.)
pub(crate) fn slice(array: &ArrayData, start: usize, len: usize) -> ArrayData {
    if start == 0 && len == array.len() {
        return array.clone();
    }
    assert!(start <= array.len() && len <= array.len() - start, "rows past the array's last");
    let from = array.offset() + start;
    let (buffers, factor, from) = match array.data_type() {
        DataType::Struct(_) => (Vec::new(), 1, start),
        DataType::FixedSizeList(_, size) => (Vec::new(), fixed_size_or_zero(*size), from),
        DataType::Union(_, UnionMode::Sparse) => (vec![array.buffers()[0].slice_with_length(from, len)], 1, from),
        // arrow-rs treats the buffers of an array without rows as empty, and then misses the bytes before the offset.
        _ if len == 0 && array.child_data().is_empty() => return ArrayData::new_empty(array.data_type()),
        _ => return array.slice(start, len),
    };
    let children = array.child_data().iter().map(|child| slice(child, from * factor, len * factor)).collect();
    let nulls = array.nulls().map(|nulls| nulls.slice(start, len));
    let builder = ArrayDataBuilder::new(array.data_type().clone());
    let builder = builder.len(len).nulls(nulls).buffers(buffers).child_data(children);
    // SAFETY: buffers, children and validity are those of an array of this type, each cut to the same `len` rows, which
    // are inside, as asserted above. So the values are as good as those of `array`.
    unsafe { builder.build_unchecked() }
}

/// `array`, including all nested arrays, with children cut as by [`slice`]: in arrays from other libraries the offset
/// of a struct, a fixed-size list or a sparse union applies to its children as well, which are whole.
///
/// # Errors
/// `InvalidArgument` if a child has fewer rows than its parent.
pub(crate) fn normalize_offsets(array: &ArrayData) -> Result<ArrayData> {
    if array.is_empty() && array.child_data().is_empty() {
        // Buffers of no rows may be missing, whatever the offset is.
        return Ok(ArrayData::new_empty(array.data_type()));
    }
    let children = array.child_data().iter().map(normalize_offsets).collect::<Result<Vec<_>>>()?;
    let offset = array.offset();
    let len = array.len();
    let builder = ArrayDataBuilder::new(array.data_type().clone()).len(len).nulls(array.nulls().cloned());
    let per_row = match array.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => 1,
        DataType::FixedSizeList(_, size) => fixed_size(*size)?,
        _ => {
            let builder = builder.offset(offset).buffers(array.buffers().to_vec()).child_data(children);
            // SAFETY: the parts of an array of this type; the children are the same values as before.
            return Ok(unsafe { builder.build_unchecked() });
        }
    };
    let short =
        || Error::invalid_argument(format!("an array of type {} has a child too short", type_name(array.data_type())));
    let start = offset.checked_mul(per_row).ok_or_else(short)?;
    let rows = len.checked_mul(per_row).ok_or_else(short)?;
    let end = start.checked_add(rows).ok_or_else(short)?;
    if children.iter().any(|child| child.len() < end) {
        return Err(short());
    }
    let buffers = match array.data_type() {
        DataType::Union(..) => {
            let types = array.buffers().first().filter(|types| types.len() >= end).ok_or_else(short)?;
            vec![types.slice_with_length(offset, len)]
        }
        _ => Vec::new(),
    };
    let children = children.iter().map(|child| slice(child, start, rows)).collect();
    let builder = builder.buffers(buffers).child_data(children);
    // SAFETY: as in `slice`: children, types and validity, each cut to the rows of the array, which are inside of them.
    Ok(unsafe { builder.build_unchecked() })
}

/// Whether arrow-rs can concatenate `parts`, arrays of one type: it concatenates the values of different dictionaries,
/// and panics if there are more than the keys can address.
pub(crate) fn keys_suffice(parts: &[&ArrayData]) -> bool {
    let Some(first) = parts.first() else { return true };
    let child = |number: usize| parts.iter().filter_map(|part| part.child_data().get(number)).collect::<Vec<_>>();
    if let DataType::Dictionary(index, _) = first.data_type() {
        let values = child(0);
        let bits = 8 * index.primitive_width().unwrap_or(8) as u32 - u32::from(index.is_signed_integer());
        if values.iter().all(|other| other.ptr_eq(values[0])) {
            // A dictionary may have values that no key can have.
            return values[0].len() as u128 <= 1 << bits;
        }
        let all: u128 = values.iter().map(|values| values.len() as u128).sum();
        if all >= 1 << bits {
            return false;
        }
    }
    (0..first.child_data().len()).all(|number| keys_suffice(&child(number)))
}

/// Whether the offsets and run ends of the type can count all items and rows of the arrays; arrow-rs takes that for granted,
/// and that there is memory for a bit of each row, and for a run end of each if they are `inside` of others.
pub(crate) fn fits_one_array(arrays: &[&ArrayData], inside: bool) -> Result<bool> {
    let Some(first) = arrays.first() else { return Ok(true) };
    let children = |number: usize| arrays.iter().filter_map(move |array| array.child_data().get(number));
    let sum = |lengths: &mut dyn Iterator<Item = usize>| lengths.fold(0, usize::saturating_add);
    let rows = sum(&mut arrays.iter().map(|array| array.len()));
    if arrays.iter().any(|array| array.nulls().is_some()) {
        drop(room_for_bits(rows)?);
    }
    let is_counted = match first.data_type() {
        DataType::List(_) | DataType::Map(..) | DataType::ListView(_) => {
            sum(&mut children(0).map(ArrayData::len)) <= i32::MAX as usize
        }
        DataType::RunEndEncoded(ends, _) => {
            if inside {
                drop(room_for::<u64>(rows as u64, "run ends")?);
            }
            let width = ends.data_type().primitive_width().unwrap_or(8);
            rows as u64 <= i64::MAX as u64 >> (64 - 8 * width)
        }
        _ => true,
    };
    let mut fit = is_counted;
    for number in 0..first.child_data().len() {
        fit = fit && fits_one_array(&children(number).collect::<Vec<_>>(), true)?;
    }
    Ok(fit)
}

/// Reads a byte of each page of the buffers of `array` and its children.
pub(crate) fn touch_pages(array: &ArrayData) {
    /// The minimum page size.
    const PAGE: usize = 4096;
    let bitmap = array.nulls().map(NullBuffer::buffer);
    for buffer in array.buffers().iter().chain(bitmap) {
        for byte in buffer.iter().step_by(PAGE).chain(buffer.last()) {
            std::hint::black_box(*byte);
        }
    }
    array.child_data().iter().for_each(touch_pages);
}

/// `array` with its buffers, and those of its children, aligned for arrow-rs; unaligned ones are copied.
pub(crate) fn aligned(mut array: ArrayData) -> ArrayData {
    array.align_buffers();
    array
}

/// `array` as a typed array of arrow-rs; unaligned buffers are copied.
pub(crate) fn to_array(array: ArrayData) -> ArrayRef {
    make_array(aligned(array))
}

/// `len` bytes, all of which `fill` writes, or fails: bytes it leaves out may have any earlier content.
pub(crate) fn build_buffer(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
    Bytes::build_buffer(len, fill, |e| Error::io("making room for rows", &e))
}
