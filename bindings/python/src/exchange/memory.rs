//! Memory shared with Python: descriptions of our own memory, for `export`, and the memory of other objects, which the
//! buffer protocol opens for reading or writing.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrowwood::mapping::os;
use arrowwood::{Bytes, Error, ErrorKind};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::lock::DroppedWithLock;

/// Elements of one fixed width, side by side.
///
/// Invariant: the creator keeps `len * width` bytes from `address` on readable (writable, unless `readonly`)
/// until the buffer is given back.
pub struct RawBuffer {
    pub address: usize,
    pub len: usize,
    pub width: usize,
    pub format: &'static CStr,
    pub readonly: bool,
}

/// Returns the bytes of any object with the buffer protocol, in place. The object is kept, and its buffer held, as long
/// as anything uses the bytes.
pub fn buffer_bytes(object: &Bound<'_, PyAny>) -> Result<Bytes> {
    let held = PyUntypedBuffer::get(object)?;
    if !held.is_c_contiguous() {
        return Err(invalid_argument("the buffer is not contiguous; give a contiguous copy"));
    }
    let len = held.len_bytes();
    let Some(start) = NonNull::new(held.buf_ptr().cast::<u8>()) else {
        return Ok(Bytes::from(Vec::new()));
    };
    let owner = Arc::new(AssertUnwindSafe(DroppedWithLock::new(held)));
    // SAFETY: a contiguous buffer is `len` readable bytes from `start` on until it is released, which dropping the
    // owner does. No one writes to it meanwhile, by the contract of `open` for bytes, which is the same as for files;
    // `Bytes::from_mapping` says what a breach may do.
    Ok(Bytes::from(unsafe { Buffer::from_custom_allocation(start, len, owner) }))
}

/// Returns the bytes of any object with the buffer protocol as an Arrow buffer, in place, as [`buffer_bytes`].
pub fn arrow_buffer(object: &Bound<'_, PyAny>) -> Result<Buffer> {
    let bytes = buffer_bytes(object)?;
    let buffer = bytes.slice(0, bytes.len());
    Ok(buffer.ok_or_else(|| Error::new(ErrorKind::Internal, "memory of Python has no slice of all its bytes"))?)
}

/// Writes to memory of another object, from its start on.
pub struct MemoryWriter {
    held: PyUntypedBuffer,
    at: usize,
}

impl MemoryWriter {
    /// Creates a writer to the memory of an object with the buffer protocol, which must be writable.
    pub fn for_type(object: &Bound<'_, PyAny>) -> Result<MemoryWriter> {
        let held = PyUntypedBuffer::get(object)?;
        if held.readonly() || !held.is_c_contiguous() {
            return Err(invalid_argument("the buffer can't be written to, or is not contiguous"));
        }
        Ok(MemoryWriter { held, at: 0 })
    }
}

impl io::Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(self.at <= self.held.len_bytes(), "wrote past the end of the memory of Python");
        let len = bytes.len().min(self.held.len_bytes() - self.at);
        let start = self.held.buf_ptr().cast::<u8>();
        // SAFETY: a contiguous buffer is `len_bytes` bytes from `start` on, and `at` is inside or at the end of them.
        let into = unsafe { start.add(self.at) };
        // SAFETY: `len` bytes are left behind `at`, and stay in place and writable while the buffer is held. Other
        // readers of memory that was given to be written to expect it to change. `copy`: the bytes may be its own.
        unsafe { std::ptr::copy(bytes.as_ptr(), into, len) };
        self.at += len;
        Ok(len)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        slices.iter().try_fold(0, |sum, slice| Ok(sum + self.write(slice)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the file whose descriptor has the number that Python's ``os.dup`` or ``os.open`` has just returned.
pub fn owned_file(number: &Bound<'_, PyAny>) -> Result<File> {
    let number = number.extract::<i32>()?;
    // SAFETY: the descriptor is new and has no other owner, so that closing it is ours.
    Ok(unsafe { os::file_from_descriptor(number) })
}

/// Returns true if `object` has the buffer protocol.
pub fn supports_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `object` is a live object and the thread is attached, as the `Bound` proves.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}
