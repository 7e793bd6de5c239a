//! Reads flatbuffers with every access checked: no verifier pass, no trust, no panic.
//!
//! A table is `[i32 back-offset to its vtable][fields …]`; the vtable is `[u16 own bytes][u16 table bytes][u16 field
//! offset …]`, an offset of 0 meaning "default". References are u32 distances forward from where they stand. All
//! little-endian. (FlatBuffers documentation, *Internals*.) Arrow's tables and field numbers: `format/*.fbs`.

use crate::error::{Error, Result};

/// A table inside a flatbuffer.
#[derive(Clone, Copy, Debug)]
pub(in crate::ipc) struct FlatTable<'a> {
    bytes: &'a [u8],
    at: usize,
    vtable: usize,
    vtable_len: usize,
}

/// A vector of structs, scalars or references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    at: usize,
    len: usize,
    stride: usize,
}

fn raw<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    at.checked_add(N)
        .and_then(|end| bytes.get(at..end))
        .and_then(|found| found.try_into().ok())
        .ok_or_else(|| Error::invalid(format!("metadata ends at byte {} before a value at byte {at}", bytes.len())))
}

fn reference(bytes: &[u8], at: usize) -> Result<usize> {
    Ok(at.saturating_add(u32::from_le_bytes(raw(bytes, at)?) as usize))
}

impl<'a> FlatTable<'a> {
    /// The root table of a flatbuffer.
    pub(in crate::ipc) fn root(bytes: &'a [u8]) -> Result<FlatTable<'a>> {
        FlatTable::at(bytes, reference(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], at: usize) -> Result<FlatTable<'a>> {
        let back = i32::from_le_bytes(raw(bytes, at)?);
        let vtable = (at as i64).checked_sub(i64::from(back)).and_then(|v| usize::try_from(v).ok());
        let vtable = vtable.ok_or_else(|| Error::invalid(format!("metadata: table at byte {at} has no vtable")))?;
        let vtable_len = u16::from_le_bytes(raw(bytes, vtable)?) as usize;
        Ok(FlatTable { bytes, at, vtable, vtable_len })
    }

    /// The table among the bytes from its first on. Builders write what a table refers to behind it, so those are all that it
    /// consists of.
    pub(super) fn alone(&self) -> FlatTable<'a> {
        let first = self.at.min(self.vtable);
        FlatTable { bytes: &self.bytes[first..], at: self.at - first, vtable: self.vtable - first, ..*self }
    }

    /// Returns the bytes it is in, and the places of table and vtable among them: all that reading it depends on.
    pub(super) fn content(&self) -> (&'a [u8], (usize, usize)) {
        (self.bytes, (self.at, self.vtable))
    }

    /// Returns the position of field number `field`, or `None` if it has its default.
    fn position(&self, field: usize) -> Result<Option<usize>> {
        let slot = 4 + 2 * field;
        if slot + 2 > self.vtable_len {
            return Ok(None);
        }
        let offset = u16::from_le_bytes(raw(self.bytes, self.vtable + slot)?) as usize;
        Ok((offset != 0).then_some(self.at + offset))
    }

    fn scalar<const N: usize>(&self, field: usize) -> Result<Option<[u8; N]>> {
        self.position(field)?.map(|at| raw(self.bytes, at)).transpose()
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
        self.position(field)?.map(|at| FlatTable::at(self.bytes, reference(self.bytes, at)?)).transpose()
    }

    pub(super) fn string(&self, field: usize) -> Result<Option<&'a str>> {
        let Some(bytes) = self.vector(field, 1)? else { return Ok(None) };
        std::str::from_utf8(bytes.bytes())
            .map(Some)
            .map_err(|e| Error::invalid(format!("metadata: a name is not UTF-8: {e}")))
    }

    /// The vector at `field`, whose elements take `stride` bytes: 4 for references.
    pub(super) fn vector(&self, field: usize, stride: usize) -> Result<Option<Vector<'a>>> {
        let Some(at) = self.position(field)? else { return Ok(None) };
        let at = reference(self.bytes, at)?;
        let len = u32::from_le_bytes(raw(self.bytes, at)?) as usize;
        let room = self.bytes.len().saturating_sub(at + 4);
        if len.checked_mul(stride).is_none_or(|wanted| wanted > room) {
            let message = format!("metadata: a vector of {len} elements of {stride} bytes has only {room} bytes");
            return Err(Error::invalid(message));
        }
        Ok(Some(Vector { bytes: self.bytes, at: at + 4, len, stride }))
    }

    /// The references of the vector at `field` as tables; none where the field is absent.
    pub(super) fn tables(&self, field: usize) -> Result<impl Iterator<Item = Result<FlatTable<'a>>> + use<'a>> {
        let vector = self.vector(field, 4)?;
        let len = vector.map_or(0, |v| v.len);
        Ok((0..len).filter_map(move |i| vector.map(|v| v.table(i))))
    }
}

impl<'a> Vector<'a> {
    pub(in crate::ipc) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.at..self.at + self.len * self.stride]
    }

    pub(super) fn i64(&self, element: usize, offset: usize) -> Result<i64> {
        Ok(i64::from_le_bytes(raw(self.bytes, self.element(element)? + offset)?))
    }

    pub(super) fn i32(&self, element: usize, offset: usize) -> Result<i32> {
        Ok(i32::from_le_bytes(raw(self.bytes, self.element(element)? + offset)?))
    }

    fn table(&self, element: usize) -> Result<FlatTable<'a>> {
        FlatTable::at(self.bytes, reference(self.bytes, self.element(element)?)?)
    }

    fn element(&self, element: usize) -> Result<usize> {
        if element < self.len {
            Ok(self.at + element * self.stride)
        } else {
            Err(Error::invalid(format!("metadata: element {element} of a vector of {}", self.len)))
        }
    }
}
