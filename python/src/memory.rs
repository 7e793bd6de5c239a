//! Memory that Python knows of: where ours is, for `export`, and that of others by the buffer protocol, to be opened,
//! written to, or closed.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrowwood::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::{Result, invalid_argument};

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

/// The bytes of any object with the buffer protocol, in place. The object is kept, and its buffer held, as long as
/// anything uses the bytes.
pub fn buffer_bytes(object: &Bound<'_, PyAny>) -> Result<Bytes> {
    let held = PyUntypedBuffer::get(object)?;
    if !held.is_c_contiguous() {
        return Err(invalid_argument("the buffer is not contiguous; give a contiguous copy"));
    }
    let len = held.len_bytes();
    let Some(start) = NonNull::new(held.buf_ptr().cast::<u8>()) else {
        return Ok(Bytes::from(Vec::new()));
    };
    let owner = Arc::new(AssertUnwindSafe(held));
    // SAFETY: a contiguous buffer is `len` readable bytes from `start` on until it is released, which dropping the
    // owner does. That nobody writes to it meanwhile is the contract of `open` for bytes as it is for files; what a breach
    // may do is told in `Bytes::from_mapping`.
    Ok(Bytes::from(unsafe { Buffer::from_custom_allocation(start, len, owner) }))
}

/// Memory of others that is written to from its start on.
pub struct MemoryWriter {
    held: PyUntypedBuffer,
    at: usize,
}

impl MemoryWriter {
    /// The memory of an object with the buffer protocol that lets it be written to.
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
        let len = bytes.len().min(self.held.len_bytes() - self.at);
        let start = self.held.buf_ptr().cast::<u8>();
        // SAFETY: a contiguous buffer is `len_bytes` bytes from `start` on, and `at` is inside or at the end of them.
        let into = unsafe { start.add(self.at) };
        // SAFETY: `len` bytes are left behind `at`, and stay in place and writable while the buffer is held. Whoever else
        // looks at memory that was given to be written to expects it to change. `copy`: the bytes may be its own.
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

/// The descriptor with the number that Python's ``os.dup`` has just given.
pub fn owned_fd(number: &Bound<'_, PyAny>) -> Result<OwnedFd> {
    let number = number.extract::<i32>()?;
    // SAFETY: a new descriptor that nobody else knows of, so that closing it is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether `object` has the buffer protocol.
pub fn supports_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `object` is a live object and the thread is attached, as the `Bound` proves.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}
