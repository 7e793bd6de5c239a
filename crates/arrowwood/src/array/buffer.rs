//! Holds bytes with an owner, and makes arrays over them. **Fence two**: the only casts of memory to arrays.
//!
//! The format code uses [`Bytes`], which hide whether they are a mapping or a `Vec`. Bodies are sliced in place as
//! [`arrow_buffer::Buffer`]s; metadata is *copied* out by [`Bytes::read_at`] and its like, so that the checked bytes are the ones
//! used, even if another process rewrites the file.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, UnionMode};

use super::byte_order::{count_ones, require_little_endian};
use super::fetch::{Fetch, ensure};
use crate::blocking;
use crate::error::{Error, Result};
use crate::map::{
    GrowableBuffer, Mapping, UnmappedFile, can_allocate, free_memory, guard, is_memory_short, mappings_are_scarce,
};
use crate::types::{fixed_size, fixed_size_or_zero, type_name};

/// Immutable bytes in a mapping, in memory, in an object store, or in a file that is only read.
///
/// Those of a store are fetched into a mapped file.
#[derive(Clone)]
pub struct Bytes {
    // bytes of                  data                        mapping            fetch                  unmapped
    // a mapped file             its pages                   the mapping
    // memory                    the memory
    // a store                   pages of a sparse file      the file's         fetches missing pages
    // a file that isn't mapped  empty                                                                 the file
    //
    // Bytes of a store are undefined until they are fetched: every method that reads `data` or `mapping` fetches them
    // first. Parsers copy metadata with `read_to_vec` and check the copy; bodies are sliced in place.
    data: Buffer,
    mapping: Option<Mapping>,
    fetch: Option<Arc<dyn Fetch>>,
    /// The address that opens the same bytes of a store again.
    address: Option<Arc<Path>>,
    unmapped: Option<Arc<UnmappedFile>>,
}

impl Bytes {
    /// Returns the bytes of a mapping, in place.
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
        // have copies (`StableCopies`). This is not true for arrays that were handed out (`to_record_batches`,
        // `chunks`, the C data interface): their readers trust the checked values, and depend on the contract.
        let data = unsafe { Buffer::from_custom_allocation(base, len, Arc::new(mapping.clone())) };
        Ok(Bytes { data, mapping: Some(mapping), fetch: None, address: None, unmapped: None })
    }

    /// Returns the bytes of a mapping, in place, or as a copy if the process is near its limit of mappings.
    ///
    /// # Errors
    /// The errors of [`Bytes::from_mapping`] and [`Bytes::copy_of_mapping`].
    pub(crate) fn from_mapping_or_copy(mapping: Mapping) -> Result<Bytes> {
        if mappings_are_scarce() { Bytes::copy_of_mapping(&mapping) } else { Bytes::from_mapping(mapping) }
    }

    /// Returns the bytes of a file that is not mapped. Only [`Bytes::read_at`] and its like can read them.
    pub(crate) fn from_unmapped_file(file: UnmappedFile) -> Bytes {
        Bytes { unmapped: Some(Arc::new(file)), ..Bytes::from(Vec::new()) }
    }

    /// Returns the first `len` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn prefix(&self, len: usize) -> Bytes {
        Bytes { data: self.data.slice_with_length(0, len), ..self.clone() }
    }

    /// Returns the bytes of an object in a store.
    ///
    /// `mapping` maps a file of the object's size, into which `fetch` fetches bytes before they are read. `address`
    /// opens the same object again.
    ///
    /// # Errors
    /// `InvalidArgument` for a writable mapping.
    pub fn from_fetch(mapping: Mapping, fetch: Arc<dyn Fetch>, address: &Path) -> Result<Bytes> {
        blocking::enable_waits();
        Ok(Bytes { fetch: Some(fetch), address: Some(address.into()), ..Bytes::from_mapping(mapping)? })
    }

    /// Returns a copy of the bytes of `mapping` in memory.
    ///
    /// # Errors
    /// `Io` if there is no memory for the copy, or reading the file fails; `FileChanged`.
    pub fn copy_of_mapping(mapping: &Mapping) -> Result<Bytes> {
        let mut copy = reserve_copy(mapping.len())?;
        copy.resize(mapping.len(), 0);
        mapping.read_at(0, &mut copy)?;
        Ok(Bytes::from(copy))
    }

    /// Returns a copy of the bytes in memory.
    ///
    /// # Errors
    /// `Io` if there is no memory for the copy, and the errors of [`Bytes::read_at`].
    pub fn to_memory(&self) -> Result<Bytes> {
        let mut copy = reserve_copy(self.len())?;
        self.read_into(0, self.len(), &mut copy)?;
        Ok(Bytes { address: self.address.clone(), ..Bytes::from(copy) })
    }

    /// Returns the address that opens the same bytes of a store again, secrets included; `None` for other bytes.
    pub(crate) fn store_address(&self) -> Option<&Arc<Path>> {
        self.address.as_ref()
    }

    /// Returns `len` bytes, all of which `fill` must write, or fail. Large buffers use memory that was touched before,
    /// or is cheaper to touch. `no_memory` returns the error for a failed allocation.
    pub(crate) fn build_buffer<E>(
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
        no_memory: impl FnOnce(io::Error) -> E,
    ) -> Result<Buffer, E> {
        /// The length from which on memory of its own is worthwhile.
        const LARGE: usize = 256 << 10;
        if len >= LARGE {
            let mut buffer =
                GrowableBuffer::with_len(len).map_err(|e| no_memory(io::Error::new(io::ErrorKind::OutOfMemory, e)))?;
            if let Err(e) = fill(buffer.as_mut_slice()) {
                // A length that data only claims takes no memory.
                buffer.discard();
                return Err(e);
            }
            let data = Bytes::from(buffer).data;
            assert_eq!(data.len(), len, "the buffer has another length than was asked for");
            return Ok(data);
        }
        let mut bytes = vec![0; len];
        fill(&mut bytes)?;
        Ok(Buffer::from_vec(bytes))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.unmapped.as_ref().map_or(self.data.len(), |file| file.len())
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the first byte. Bytes of a store are undefined before they are fetched.
    pub fn address(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// Returns the mapping of the bytes, if it can be read directly. Bytes of a store have none.
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref().filter(|_| self.fetch.is_none())
    }

    /// Returns the means to fetch the bytes, if they are in a store.
    pub(crate) fn fetch(&self) -> Option<&Arc<dyn Fetch>> {
        self.fetch.as_ref()
    }

    /// Waits until bytes `offset .. offset + len` can be read: returns at once for bytes that are not in a store.
    ///
    /// # Errors
    /// The errors of the store; an internal error for a file that is not mapped.
    #[inline]
    fn ensure(&self, offset: usize, len: usize) -> Result<()> {
        if self.fetch.is_none() && self.unmapped.is_none() {
            return Ok(());
        }
        self.fetch_range(offset, len)
    }

    #[cold]
    fn fetch_range(&self, offset: usize, len: usize) -> Result<()> {
        if self.unmapped.is_some() {
            return Err(Error::internal("values of a file were asked for before it was mapped"));
        }
        match &self.fetch {
            Some(fetch) if len > 0 => ensure(fetch, &[Range { start: offset, end: offset + len }]),
            _ => Ok(()),
        }
    }

    /// Returns true if bytes `offset .. offset + len` exist, here or in a store.
    fn has(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len())
    }

    /// Returns bytes `offset .. offset + len` in place; `None` if some of them don't exist.
    ///
    /// Also `None` for bytes in a store, which have to be fetched.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        let is_in_place = self.fetch.is_none() && self.unmapped.is_none();
        (is_in_place && self.has(offset, len)).then(|| self.data.slice_with_length(offset, len))
    }

    /// Returns bytes `offset .. offset + len` in place, like [`Bytes::slice`], after they are fetched from a store.
    pub(crate) fn fetch_slice(&self, offset: usize, len: usize) -> Result<Option<Buffer>> {
        if !self.has(offset, len) {
            return Ok(None);
        }
        self.ensure(offset, len)?;
        Ok(Some(self.data.slice_with_length(offset, len)))
    }

    /// Returns bytes `offset .. offset + len` for reading, after they are fetched; `None` if some of them don't exist.
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
        let from = self.memory(offset, into.len())?;
        // The bytes may be a slice of a mapped file.
        guard(|| {
            into.copy_from_slice(from);
            Ok(())
        })
    }

    /// Returns a copy of `len` bytes from `offset` on, made as [`Bytes::read_at`] makes it. The caller bounds `len`.
    ///
    /// # Errors
    /// The errors of [`Bytes::read_at`].
    pub(crate) fn read_to_vec(&self, offset: usize, len: usize) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        self.read_into(offset, len, &mut copy)?;
        Ok(copy)
    }

    /// Replaces the contents of `copy` as [`Bytes::read_to_vec`] makes them, in the memory that it has. Bytes in memory
    /// are copied without filling it with zeros first.
    ///
    /// # Errors
    /// The errors of [`Bytes::read_at`]; `copy` holds any bytes then.
    pub(crate) fn read_into(&self, offset: usize, len: usize, copy: &mut Vec<u8>) -> Result<()> {
        if self.unmapped.is_some() || self.mapping.is_some() {
            copy.resize(len, 0);
            return self.read_at(offset, copy);
        }
        let from = self.memory(offset, len)?;
        copy.clear();
        guard(|| {
            copy.extend_from_slice(from);
            Ok(())
        })
    }

    /// Returns `len` bytes of memory from `offset` on, which may be a slice of a mapped file.
    fn memory(&self, offset: usize, len: usize) -> Result<&[u8]> {
        debug_assert!(self.unmapped.is_none() && self.mapping.is_none(), "these bytes are in a file");
        self.data.get(offset..offset.saturating_add(len)).ok_or_else(|| {
            let room = self.len();
            Error::invalid(format!("reading {len} bytes at offset {offset} of only {room}"))
        })
    }
}

/// Fails while memory is short, to end an operation that works in steps. Rust aborts a program whose small allocations
/// fail; the allocator of the bindings, [`ReserveAllocator`](crate::map::ReserveAllocator), has enough in reserve for a
/// step.
///
/// # Errors
/// `Io` if the system has refused memory, and refuses it still.
pub(crate) fn check_memory() -> Result<()> {
    if is_memory_short() { Err(Error::out_of_memory("no memory is left")) } else { Ok(()) }
}

/// Returns true if memory has room for `bytes` bytes, as far as the system tells.
pub(crate) fn has_room(bytes: u64) -> bool {
    /// The limit of bytes for which the system is not asked.
    const MAX_UNCHECKED: u64 = 1 << 20;
    /// The limit of bytes for which it is not worthwhile to read files of the system.
    const MAX_ESTIMATED: u64 = 64 << 20;
    if bytes <= MAX_ESTIMATED {
        bytes <= MAX_UNCHECKED || can_allocate(bytes as usize)
    } else {
        free_memory().is_none_or(|free| bytes <= free)
    }
}

/// Returns a vector with room for `len` values, a number that data may only claim. `what` names the values in errors.
///
/// # Errors
/// `Io` if there is no memory for them. The system may promise more memory than it has, so the free memory is checked
/// too.
pub(crate) fn room_for<T>(len: u64, what: &str) -> Result<Vec<T>> {
    check_memory()?;
    if has_room(len.saturating_mul(size_of::<T>() as u64))
        && let Ok(capacity) = usize::try_from(len)
    {
        let mut room = Vec::new();
        if room.try_reserve_exact(capacity).is_ok() {
            return Ok(room);
        }
    }
    Err(Error::out_of_memory(format!("{len} {what} have no room in memory")))
}

/// Returns a builder with room for the bits of `rows` rows.
///
/// # Errors
/// The errors of [`room_for`].
pub(crate) fn room_for_bits(rows: usize) -> Result<BooleanBufferBuilder> {
    let bytes = room_for::<u8>(rows.div_ceil(8) as u64, "bytes of bits")?;
    Ok(BooleanBufferBuilder::new_from_buffer(MutableBuffer::from(bytes), 0))
}

/// The limit of bytes of a column of nulls: a schema may describe more than fits into memory.
const MAX_NULL_BYTES: u64 = 64 << 30;

/// Returns `rows` nulls of the type.
///
/// # Errors
/// `Unsupported` if they take more than 64 GiB, `Io` if there is no memory for them.
pub(crate) fn nulls(data_type: &DataType, rows: usize) -> Result<ArrayData> {
    let bytes = null_width(data_type).saturating_mul(rows as u64);
    if bytes > MAX_NULL_BYTES {
        let name = type_name(data_type);
        return Err(Error::unsupported(format!("{rows} nulls of {name} take more than {MAX_NULL_BYTES} bytes")));
    }
    if !has_room(bytes) {
        let name = type_name(data_type);
        return Err(Error::out_of_memory(format!("{rows} nulls of {name} have no room in memory")));
    }
    if data_type.is_nested() {
        // arrow-rs writes the numbers of some nested types in the processor's order.
        require_little_endian("a column of nulls of a nested type")?;
    }
    Ok(ArrayData::new_null(data_type, rows))
}

/// Returns the minimum size in bytes of a null of the type.
fn null_width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::FixedSizeList(item, size) => {
            null_width(item.data_type()).saturating_mul(u64::try_from(*size).unwrap_or(u64::MAX)).saturating_add(1)
        }
        DataType::FixedSizeBinary(size) => u64::try_from(*size).unwrap_or(u64::MAX),
        DataType::Struct(fields) => {
            fields.iter().map(|field| null_width(field.data_type())).fold(1, u64::saturating_add)
        }
        DataType::Union(fields, _) => {
            fields.iter().map(|(_, field)| null_width(field.data_type())).fold(8, u64::saturating_add)
        }
        other => other.primitive_width().map_or(32, |width| width as u64 + 1),
    }
}

/// Allocates memory for a copy of `len` bytes.
fn reserve_copy(len: usize) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(len).map_err(|_| Error::out_of_memory(format!("no memory for a copy of {len} bytes")))?;
    Ok(copy)
}

/// Shows how many bytes there are: they may be gigabytes, and the address of a store may contain secrets.
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("len", &self.len()).finish_non_exhaustive()
    }
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

/// Returns rows `start .. start + len` of `array`, sharing its buffers.
///
/// Throughout this crate the children of a struct, a fixed-size list and a sparse union are cut with it and its own
/// offset is 0; every other type keeps its children whole and moves its offset. (arrow-rs moves the offset *and* cuts
/// the children of structs inside, and then cuts them again.)
///
/// # Panics
/// If the rows are out of bounds, which callers must rule out.
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
        _ => return with_counted_nulls(array.slice(start, len)),
    };

    let children = array.child_data().iter().map(|child| slice(child, from * factor, len * factor)).collect();
    let nulls = array.nulls().map(|nulls| nulls.slice(start, len));
    let builder = ArrayDataBuilder::new(array.data_type().clone());
    let builder = builder.len(len).nulls(nulls).buffers(buffers).child_data(children);
    // SAFETY: buffers, children and validity belong to an array of this type, each cut to the same `len` rows, which
    // are inside, as asserted above. So the values are as valid as in `array`.
    with_counted_nulls(unsafe { builder.build_unchecked() })
}

/// Counts the nulls of an array that arrow-rs has cut: on big-endian processors it miscounts them, see [`count_ones`].
fn with_counted_nulls(array: ArrayData) -> ArrayData {
    let Some(nulls) = array.nulls().filter(|_| cfg!(target_endian = "big")) else { return array };
    let bits = nulls.inner().clone();
    let null_count = bits.len() - count_ones(&bits);
    // SAFETY: the nulls were just counted.
    let nulls = unsafe { NullBuffer::new_unchecked(bits, null_count) };
    // SAFETY: nothing but the null count has changed, which is right.
    unsafe { array.into_builder().nulls(Some(nulls)).build_unchecked() }
}

/// Returns `array`, including all nested arrays, with children cut as by [`slice`]. In arrays from other libraries the
/// offset of a struct, a fixed-size list or a sparse union applies to its children as well, which are whole.
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

    let (Some(start), Some(rows)) = (offset.checked_mul(per_row), len.checked_mul(per_row)) else {
        return Err(child_too_short(array.data_type()));
    };
    let Some(end) = start.checked_add(rows).filter(|&end| children.iter().all(|child| child.len() >= end)) else {
        return Err(child_too_short(array.data_type()));
    };

    let buffers = match array.data_type() {
        DataType::Union(..) => match array.buffers().first() {
            Some(type_ids) if type_ids.len() >= end => vec![type_ids.slice_with_length(offset, len)],
            _ => return Err(child_too_short(array.data_type())),
        },
        _ => Vec::new(),
    };
    let children = children.iter().map(|child| slice(child, start, rows)).collect();
    let builder = builder.buffers(buffers).child_data(children);
    // SAFETY: as in `slice`: children, types and validity, each cut to the rows of the array, which are inside of them.
    Ok(unsafe { builder.build_unchecked() })
}

fn child_too_short(data_type: &DataType) -> Error {
    Error::invalid_argument(format!("an array of type {} has a child too short", type_name(data_type)))
}

/// Returns true if arrow-rs can concatenate `parts`, arrays of one type. It concatenates the values of different
/// dictionaries, and panics if there are more than the keys can address.
pub(crate) fn keys_suffice(parts: &[&ArrayData]) -> bool {
    let Some(first) = parts.first() else { return true };
    if let DataType::Dictionary(index, _) = first.data_type() {
        let values = children_of(parts, 0);
        let bits =
            8 * index.primitive_width().unwrap_or(size_of::<u64>()) as u32 - u32::from(index.is_signed_integer());
        if values.iter().all(|other| other.ptr_eq(values[0])) {
            // A dictionary may have values that no key can have.
            return values[0].len() as u128 <= 1 << bits;
        }
        let total: u128 = values.iter().map(|values| values.len() as u128).sum();
        if total >= 1 << bits {
            return false;
        }
    }
    (0..first.child_data().len()).all(|number| keys_suffice(&children_of(parts, number)))
}

/// Returns child number `number` of each array that has it.
fn children_of<'a>(arrays: &[&'a ArrayData], number: usize) -> Vec<&'a ArrayData> {
    arrays.iter().filter_map(|array| array.child_data().get(number)).collect()
}

/// Returns the number of rows of all arrays.
fn total_rows(arrays: &[&ArrayData]) -> usize {
    arrays.iter().map(|array| array.len()).fold(0, usize::saturating_add)
}

/// Returns true if the offsets and run ends of the type can count all items and rows of the arrays. arrow-rs relies on
/// it, and on memory for a bit of each row, and for a run end of each if the arrays `are_nested` in others.
pub(crate) fn fits_one_array(arrays: &[&ArrayData], are_nested: bool) -> Result<bool> {
    let Some(first) = arrays.first() else { return Ok(true) };
    let rows = total_rows(arrays);
    if arrays.iter().any(|array| array.nulls().is_some()) {
        drop(room_for_bits(rows)?);
    }
    let is_counted = match first.data_type() {
        DataType::List(_) | DataType::Map(..) | DataType::ListView(_) => {
            total_rows(&children_of(arrays, 0)) <= i32::MAX as usize
        }
        DataType::RunEndEncoded(ends, _) => {
            if are_nested {
                drop(room_for::<u64>(rows as u64, "run ends")?);
            }
            let width = ends.data_type().primitive_width().unwrap_or(8);
            rows as u64 <= i64::MAX as u64 >> (64 - 8 * width)
        }
        _ => true,
    };
    if !is_counted {
        return Ok(false);
    }
    for number in 0..first.child_data().len() {
        if !fits_one_array(&children_of(arrays, number), true)? {
            return Ok(false);
        }
    }
    Ok(true)
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

/// Returns `array` with all buffers, its children's included, aligned for arrow-rs. Unaligned buffers are copied.
pub(crate) fn aligned(mut array: ArrayData) -> ArrayData {
    array.align_buffers();
    array
}

/// Returns `array` as a typed array of arrow-rs. Unaligned buffers are copied.
pub(crate) fn to_array(array: ArrayData) -> ArrayRef {
    make_array(aligned(array))
}

/// Returns `len` bytes, all of which `fill` must write, or fail: bytes that it leaves out may have any earlier content.
pub(crate) fn build_buffer(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Buffer> {
    Bytes::build_buffer(len, fill, |e| Error::io("making room for rows", &e))
}
