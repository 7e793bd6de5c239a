//! Reads flatbuffers with every access checked: no verifier pass, no trust, no panic.
//!
//! A table is `[i32 back-offset to its vtable][fields …]`; the vtable is `[u16 own bytes][u16 table bytes][u16 field
//! offset …]`, an offset of 0 meaning "default". References are u32 distances forward from where they stand. All
//! little-endian. (FlatBuffers documentation, *Internals*.) Arrow's tables and field numbers: `format/*.fbs`.

use crate::error::{Error, Result};

/// The size in bytes of a reference, and of the length in front of a vector.
const REFERENCE: usize = 4;
/// The offset in a vtable of its first slot, after its own length and the length of its tables.
const FIRST_SLOT: usize = 4;
/// The size in bytes of a vtable's slot: the offset of a field in the table.
const SLOT: usize = 2;

/// A table inside a flatbuffer.
#[derive(Clone, Copy, Debug)]
pub(in crate::ipc) struct FlatTable<'a> {
    bytes: &'a [u8],
    /// The byte at which the table starts.
    start: usize,
    /// The byte at which its vtable starts.
    vtable: usize,
    vtable_len: usize,
}

/// The bytes at which a table and its vtable start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TablePosition {
    table: usize,
    vtable: usize,
}

/// A vector of structs, scalars or references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    /// The byte at which the first element starts.
    start: usize,
    len: usize,
    stride: usize,
}

/// Reads the `N` bytes at `offset`.
#[inline]
fn read<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N]> {
    let value = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    value.copied().ok_or_else(|| past_end(bytes, offset))
}

#[cold]
fn past_end(bytes: &[u8], offset: usize) -> Error {
    Error::invalid(format!("metadata ends at byte {} before a value at byte {offset}", bytes.len()))
}

/// Returns the target of the reference at `offset`.
fn follow(bytes: &[u8], offset: usize) -> Result<usize> {
    Ok(offset.saturating_add(u32::from_le_bytes(read(bytes, offset)?) as usize))
}

impl<'a> FlatTable<'a> {
    /// Returns the root table of a flatbuffer.
    pub(in crate::ipc) fn root(bytes: &'a [u8]) -> Result<FlatTable<'a>> {
        FlatTable::parse(bytes, follow(bytes, 0)?)
    }

    fn parse(bytes: &'a [u8], start: usize) -> Result<FlatTable<'a>> {
        let back = i32::from_le_bytes(read(bytes, start)?);
        let vtable = (start as i64).checked_sub(i64::from(back)).and_then(|v| usize::try_from(v).ok());
        let vtable = vtable.ok_or_else(|| Error::invalid(format!("metadata: table at byte {start} has no vtable")))?;
        let vtable_len = u16::from_le_bytes(read(bytes, vtable)?) as usize;
        debug_assert!(start < bytes.len() && vtable < bytes.len(), "both have been read from");
        Ok(FlatTable { bytes, start, vtable, vtable_len })
    }

    /// Returns the table without the bytes in front of it. Builders write everything a table refers to after it, so the
    /// remaining bytes are its whole content.
    pub(super) fn without_prefix(&self) -> FlatTable<'a> {
        let first = self.start.min(self.vtable);
        FlatTable { bytes: &self.bytes[first..], start: self.start - first, vtable: self.vtable - first, ..*self }
    }

    /// Returns the bytes that the table is in.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the position of the table in [`FlatTable::bytes`]. Tables with the same bytes and position are equal.
    pub(super) fn table_position(&self) -> TablePosition {
        TablePosition { table: self.start, vtable: self.vtable }
    }

    /// Returns the position of field number `field`, or `None` if it has its default.
    fn position(&self, field: usize) -> Result<Option<usize>> {
        let slot = FIRST_SLOT + SLOT * field;
        if slot + SLOT > self.vtable_len {
            return Ok(None);
        }
        let offset = u16::from_le_bytes(read(self.bytes, self.vtable + slot)?) as usize;
        Ok((offset != 0).then_some(self.start + offset))
    }

    fn scalar<const N: usize>(&self, field: usize) -> Result<Option<[u8; N]>> {
        self.position(field)?.map(|offset| read(self.bytes, offset)).transpose()
    }

    pub(super) fn u8(&self, field: usize) -> Result<u8> {
        Ok(self.scalar(field)?.map_or(0, u8::from_le_bytes))
    }

    pub(super) fn bool(&self, field: usize) -> Result<bool> {
        Ok(self.u8(field)? != 0)
    }

    pub(super) fn i16(&self, field: usize) -> Result<i16> {
        Ok(self.scalar(field)?.map_or(0, i16::from_le_bytes))
    }

    pub(super) fn i16_or(&self, field: usize, default: i16) -> Result<i16> {
        Ok(self.scalar(field)?.map_or(default, i16::from_le_bytes))
    }

    pub(super) fn i32_or(&self, field: usize, default: i32) -> Result<i32> {
        Ok(self.scalar(field)?.map_or(default, i32::from_le_bytes))
    }

    pub(super) fn i64(&self, field: usize) -> Result<i64> {
        Ok(self.scalar(field)?.map_or(0, i64::from_le_bytes))
    }

    pub(in crate::ipc) fn table(&self, field: usize) -> Result<Option<FlatTable<'a>>> {
        let Some(offset) = self.position(field)? else { return Ok(None) };
        FlatTable::parse(self.bytes, follow(self.bytes, offset)?).map(Some)
    }

    pub(super) fn string(&self, field: usize) -> Result<Option<&'a str>> {
        let Some(bytes) = self.vector(field, 1)? else { return Ok(None) };
        std::str::from_utf8(bytes.bytes())
            .map(Some)
            .map_err(|e| Error::invalid(format!("metadata: a name is not UTF-8: {e}")))
    }

    /// Returns the vector at `field`, whose elements take `stride` bytes each.
    pub(super) fn vector(&self, field: usize, stride: usize) -> Result<Option<Vector<'a>>> {
        let Some(offset) = self.position(field)? else { return Ok(None) };
        let prefix = follow(self.bytes, offset)?;
        let len = u32::from_le_bytes(read(self.bytes, prefix)?) as usize;
        let start = prefix + REFERENCE;
        let room = self.bytes.len() - start;
        if len.checked_mul(stride).is_none_or(|wanted| wanted > room) {
            let message = format!("metadata: a vector of {len} elements of {stride} bytes has only {room} bytes");
            return Err(Error::invalid(message));
        }
        Ok(Some(Vector { bytes: self.bytes, start, len, stride }))
    }

    /// Returns the tables that the vector at `field` refers to; none if the field is absent.
    pub(super) fn tables(&self, field: usize) -> Result<impl Iterator<Item = Result<FlatTable<'a>>> + use<'a>> {
        let vector = self.vector(field, REFERENCE)?;
        Ok(vector.into_iter().flat_map(|vector| (0..vector.len).map(move |i| vector.table(i))))
    }
}

impl<'a> Vector<'a> {
    pub(in crate::ipc) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.start..self.start + self.len * self.stride]
    }

    pub(super) fn i64(&self, element: usize, offset: usize) -> Result<i64> {
        debug_assert!(offset + 8 <= self.stride, "a number past the end of its element");
        Ok(i64::from_le_bytes(read(self.bytes, self.element(element)? + offset)?))
    }

    pub(super) fn i32(&self, element: usize, offset: usize) -> Result<i32> {
        debug_assert!(offset + 4 <= self.stride, "a number past the end of its element");
        Ok(i32::from_le_bytes(read(self.bytes, self.element(element)? + offset)?))
    }

    fn table(&self, element: usize) -> Result<FlatTable<'a>> {
        FlatTable::parse(self.bytes, follow(self.bytes, self.element(element)?)?)
    }

    /// Returns the byte at which an element starts.
    fn element(&self, element: usize) -> Result<usize> {
        if element < self.len {
            Ok(self.start + element * self.stride)
        } else {
            Err(Error::invalid(format!("metadata: element {element} of a vector of {}", self.len)))
        }
    }
}
