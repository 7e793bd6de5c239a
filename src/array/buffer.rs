//! Bytes with an owner, and the arrays made of them. **Fence two**: the only casts of memory to arrays.
//!
//! [`Bytes`] is what the format code sees: it cannot tell a mapping from a `Vec`. Bodies are sliced in place as
//! [`arrow_buffer::Buffer`]s; metadata is *copied* out by [`Bytes::read_at`], so that what was checked is what is
//! used, even when another process rewrites the file.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, UnionMode};

use crate::error::{Error, ErrorKind, Result};
use crate::map::{GrowableBuffer, Mapping};
use crate::types::layout;

/// Immutable bytes: a mapping, or memory.
#[derive(Clone, Debug)]
pub struct Bytes {
    data: Buffer,
    mapping: Option<Mapping>,
}

impl Bytes {
    /// The bytes of a mapping, in place.
    ///
    /// # Errors
    /// `InvalidArgument` for a mapping that can be stored into: what was checked has to stay as it is.
    pub fn of_mapping(mapping: Mapping) -> Result<Bytes> {
        if mapping.mode().is_writable() && mapping.path().is_some() {
            return Err(Error::argument(
                "a writable mapping can't be opened as Arrow data; map the file with mode 'r'",
            ));
        }
        let region = mapping.region();
        let (base, len): (NonNull<u8>, usize) = (region.base(), region.len());
        // SAFETY: the range stays mapped while the owner, a handle of the same mapping, lives. That nobody changes it
        // meanwhile is the contract of `open` (see the crate's page on trust); every length and offset read from it
        // is loaded once and bounded, so a breach yields wrong values and no access outside of the range.
        let data = unsafe { Buffer::from_custom_allocation(base, len, Arc::new(mapping.clone())) };
        Ok(Bytes { data, mapping: Some(mapping) })
    }

    /// A copy of the bytes of `mapping`, in memory of our own.
    ///
    /// # Errors
    /// `Io` without memory for the copy, or where reading the file fails; `FileChanged`.
    pub fn copied_from(mapping: &Mapping) -> Result<Bytes> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(mapping.len())
            .map_err(|_| Error::new(ErrorKind::Io, format!("no memory for a copy of {} bytes", mapping.len())))?;
        copy.resize(mapping.len(), 0);
        mapping.read_at(0, &mut copy)?;
        Ok(Bytes::from(copy))
    }

    /// `len` bytes that `fill` writes: large ones in memory that was touched before, or that is cheaper to touch first.
    pub(crate) fn filled(len: usize, fill: impl FnOnce(&mut [u8]) -> io::Result<()>) -> io::Result<Buffer> {
        const LARGE: usize = 256 << 10;
        if len >= LARGE {
            let mut buffer = GrowableBuffer::exact(len).map_err(io::Error::other)?;
            fill(buffer.as_mut_slice())?;
            return Ok(Bytes::from(buffer).data);
        }
        let mut bytes = vec![0; len];
        fill(&mut bytes)?;
        Ok(Buffer::from_vec(bytes))
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// The mapping behind the bytes, if there is one.
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    /// Bytes `offset .. offset + len` in place, or `None` where they are not all there.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        let end = offset.checked_add(len)?;
        (end <= self.len()).then(|| self.data.slice_with_length(offset, len))
    }

    /// Bytes `offset .. offset + len` to be looked at, or `None` where they are not all there.
    pub(crate) fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.data.get(offset..offset.checked_add(len)?)
    }

    /// A copy of bytes `offset .. offset + into.len()`; of a mapped file by pread(2), which touches no page.
    ///
    /// # Errors
    /// `InvalidData` where the bytes end before; `Io`, `FileChanged`.
    pub fn read_at(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        if let Some(mapping) = &self.mapping {
            return mapping.read_at(offset, into);
        }
        let end = offset.saturating_add(into.len());
        let from = self.data.get(offset..end).ok_or_else(|| {
            let (wanted, len) = (into.len(), self.len());
            Error::invalid(format!("reading {wanted} bytes at offset {offset} of only {len}"))
        })?;
        into.copy_from_slice(from);
        Ok(())
    }
}

impl From<Buffer> for Bytes {
    fn from(data: Buffer) -> Bytes {
        Bytes { data, mapping: None }
    }
}

impl From<GrowableBuffer> for Bytes {
    /// Without copying; the memory stays where it is.
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

/// The parts of an array, before they are put together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub data_type: DataType,
    pub len: usize,
    /// Validity bitmap and null count.
    pub validity: Option<(Buffer, usize)>,
    pub buffers: Vec<Buffer>,
    pub children: Vec<ArrayData>,
}

impl Parts {
    /// Puts an array together whose buffers are long enough for its length, as `ipc::decode` has checked, but whose
    /// *values* (offsets, UTF-8, keys …) may still be anything. Such an array goes to the cell accessors, which bound
    /// every load, and to anyone else only after `validate::check`.
    pub(crate) fn assemble(self) -> ArrayData {
        let nulls = self.validity.map(|(bits, count)| {
            let bits = BooleanBuffer::new(bits, 0, self.len);
            // SAFETY: the declared count is compared with the bitmap by `validate::check`; until then it is only shown.
            unsafe { NullBuffer::new_unchecked(bits, count) }
        });
        let builder = ArrayDataBuilder::new(self.data_type)
            .len(self.len)
            .nulls(nulls)
            .buffers(self.buffers)
            .child_data(self.children);
        // SAFETY: see above: lengths checked by the decoder, values checked before the array leaves the crate.
        unsafe { builder.build_unchecked() }
    }
}

/// Rows `start .. start + len` of `array`, sharing its buffers. The caller has made sure that they are inside.
///
/// Throughout this crate the children of a struct, a fixed-size list and a sparse union are cut with it and its own
/// offset is 0; every other type keeps its children whole and moves its offset. (arrow-rs moves the offset *and* cuts
/// the children of structs inside, and then cuts them again.)
pub(crate) fn slice(array: &ArrayData, start: usize, len: usize) -> ArrayData {
    if start == 0 && len == array.len() {
        return array.clone();
    }
    let from = array.offset() + start;
    let (buffers, factor, from) = match array.data_type() {
        DataType::Struct(_) => (Vec::new(), 1, start),
        DataType::FixedSizeList(_, size) => (Vec::new(), usize::try_from(*size).unwrap_or(0), from),
        DataType::Union(_, UnionMode::Sparse) => (vec![array.buffers()[0].slice_with_length(from, len)], 1, from),
        _ => return array.slice(start, len),
    };
    let children = array.child_data().iter().map(|child| slice(child, from * factor, len * factor)).collect();
    let nulls = array.nulls().map(|nulls| nulls.slice(start, len));
    let builder = ArrayDataBuilder::new(array.data_type().clone());
    let builder = builder.len(len).nulls(nulls).buffers(buffers).child_data(children);
    // SAFETY: buffers, children and validity are those of an array of this type, each cut to the same `len` rows.
    unsafe { builder.build_unchecked() }
}

/// `array` with its buffers, and those of its children, aligned for arrow-rs; copied where they are not.
pub(crate) fn aligned(mut array: ArrayData) -> ArrayData {
    array.align_buffers();
    array
}

/// `array` as arrow-rs holds it: typed, and with its buffers aligned for that, by a copy where they are not.
pub(crate) fn to_array(array: ArrayData) -> ArrayRef {
    make_array(aligned(array))
}

/// The bytes that rows `rows` of `array` take in its buffers and its children's, dictionaries apart.
pub(crate) fn bytes_of(array: &ArrayData, rows: Range<usize>) -> u64 {
    let count = rows.len();
    let validity = if array.nulls().is_some() { count.div_ceil(8) } else { 0 };
    let roles = layout(array.data_type());
    let own: usize = roles.value_roles().filter_map(|role| role.bytes_for(count)).sum();
    (validity + own) as u64 + nested_bytes(array, rows)
}

fn nested_bytes(array: &ArrayData, rows: Range<usize>) -> u64 {
    let at = |row: usize| array.offset() + row;
    let child = |number: usize, rows: Range<usize>| {
        array.child_data().get(number).map_or(0, |c| bytes_of(c, rows.start.min(c.len())..rows.end.min(c.len())))
    };
    let all = |shift: usize| {
        (0..array.child_data().len()).map(|n| child(n, rows.start + shift..rows.end + shift)).sum::<u64>()
    };
    let whole = || array.child_data().iter().map(|child| bytes_of(child, 0..child.len())).sum::<u64>();
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => span::<4>(array, rows.start, rows.end).len() as u64,
        DataType::LargeUtf8 | DataType::LargeBinary => span::<8>(array, rows.start, rows.end).len() as u64,
        DataType::Utf8View | DataType::BinaryView => array.buffers().iter().skip(1).map(|b| b.len() as u64).sum(),
        DataType::List(_) | DataType::Map(..) => child(0, span::<4>(array, rows.start, rows.end)),
        DataType::LargeList(_) => child(0, span::<8>(array, rows.start, rows.end)),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            child(0, at(rows.start).saturating_mul(size)..at(rows.end).saturating_mul(size))
        }
        DataType::Struct(_) => all(0),
        DataType::Union(_, UnionMode::Sparse) => all(array.offset()),
        DataType::Dictionary(..) => 0,
        _ => whole(),
    }
}

/// What offsets number `start` and `end` of `array` enclose; nothing where they make no sense.
fn span<const N: usize>(array: &ArrayData, start: usize, end: usize) -> Range<usize> {
    let offset = |row: usize| {
        let bytes = array.buffers().first()?.get((array.offset() + row) * N..)?.first_chunk::<N>()?;
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(wide)).ok()
    };
    let most = array.child_data().first().map_or_else(|| array.buffers().get(1).map_or(0, Buffer::len), ArrayData::len);
    match (offset(start), offset(end)) {
        (Some(from), Some(to)) if from <= to && to <= most => from..to,
        _ => 0..0,
    }
}

/// `len` bytes that `fill` writes.
pub(crate) fn filled(len: usize, fill: impl FnOnce(&mut [u8])) -> Result<Buffer> {
    let fill = |out: &mut [u8]| {
        fill(out);
        Ok(())
    };
    Bytes::filled(len, fill).map_err(|e| Error::io("making room for rows", &e))
}
