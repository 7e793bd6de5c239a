//! The buffer protocol, both ways (Python's C API, *Buffer Protocol*): our memory for others to read and write, and
//! memory of others to open. All unsafe code about memory is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrowwood::{Bytes, GrowableBuffer};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer::Buffer as Growable;
use crate::errors::{Result, argument};
use crate::mapping::Mapping;

/// Elements of one fixed width, side by side.
///
/// Invariant: whoever makes one keeps `len * width` bytes from `address` on readable (writable, unless `readonly`)
/// until the buffer is given back.
pub struct Memory {
    pub address: usize,
    pub len: usize,
    pub width: usize,
    pub format: &'static CStr,
    pub readonly: bool,
}

/// Shape (one number) and strides (one number) of an exported buffer, which must live as long as it.
type Geometry = [ffi::Py_ssize_t; 2];

/// Describes `memory` of `owner` in `view`, as far as `flags` ask for it.
///
/// # Safety
/// `view` must point to a `Py_buffer` to be filled, as in the call of a `bf_getbuffer` slot.
unsafe fn fill(view: *mut ffi::Py_buffer, flags: c_int, owner: Bound<'_, PyAny>, memory: &Memory) -> PyResult<()> {
    if memory.readonly && flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("the memory is read-only; map it with mode 'r+' or 'c' to write"));
    }
    let geometry: Box<Geometry> = Box::new([memory.len.cast_signed(), memory.width.cast_signed()]);
    let shape: *mut ffi::Py_ssize_t = Box::into_raw(geometry).cast();
    let if_asked = |flag: c_int, pointer| if flags & flag == flag { pointer } else { std::ptr::null_mut() };
    let filled = ffi::Py_buffer {
        buf: memory.address as *mut c_void,
        obj: owner.into_ptr(),
        len: (memory.len * memory.width).cast_signed(),
        itemsize: memory.width.cast_signed(),
        readonly: memory.readonly.into(),
        ndim: 1,
        format: if flags & ffi::PyBUF_FORMAT != 0 { memory.format.as_ptr().cast_mut() } else { std::ptr::null_mut() },
        shape: if_asked(ffi::PyBUF_ND, shape),
        strides: if_asked(ffi::PyBUF_STRIDES, shape.wrapping_add(1)),
        suboffsets: std::ptr::null_mut(),
        internal: shape.cast(),
    };
    // SAFETY: the caller vouches for `view`, which is not initialised yet, so nothing is dropped by the write.
    unsafe { view.write(filled) };
    Ok(())
}

/// Frees what `fill` allocated.
///
/// # Safety
/// `view` must have been filled by `fill`, and be released once.
unsafe fn free(view: *mut ffi::Py_buffer) {
    // SAFETY: the caller vouches for `view`, which CPython keeps alive during `bf_releasebuffer`.
    let geometry = unsafe { (*view).internal }.cast::<Geometry>();
    // SAFETY: `fill` made the pointer by `Box::into_raw`, and this is the only release.
    drop(unsafe { Box::from_raw(geometry) });
}

#[pymethods]
impl Mapping {
    /// The elements as a buffer; read-only in mode `r`.
    ///
    /// # Safety
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.clone();
        // The mapping cannot be closed while exports are counted, which keeps the invariant of `Memory`.
        let memory = this.get().export()?;
        // SAFETY: `view` is what CPython gave to the slot.
        unsafe { fill(view, flags, slf.into_any(), &memory) }.inspect_err(|_| this.get().release())
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    /// CPython calls it once for each buffer that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `view` was filled by `__getbuffer__` and is released this once.
        unsafe { free(view) };
        self.release();
    }
}

#[pymethods]
impl Growable {
    /// The bytes there are now as a buffer.
    ///
    /// # Safety
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.clone();
        // Bytes are neither moved nor forgotten while exports are counted, which keeps the invariant of `Memory`.
        let memory = this.get().export();
        // SAFETY: `view` is what CPython gave to the slot.
        unsafe { fill(view, flags, slf.into_any(), &memory) }.inspect_err(|_| this.get().release())
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    /// CPython calls it once for each buffer that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `view` was filled by `__getbuffer__` and is released this once.
        unsafe { free(view) };
        self.release();
    }
}

/// Columns of one type, one behind the other, in memory that nobody else has: NumPy may write to it.
#[pyclass(frozen, module = "arrowwood._arrowwood", name = "_Block")]
pub struct Block {
    memory: GrowableBuffer,
    width: usize,
    format: &'static CStr,
}

impl Block {
    /// The items of `width` bytes that `memory` holds; `format` is their code in Python's `struct` module.
    pub fn new(memory: GrowableBuffer, width: usize, format: &'static CStr) -> Block {
        Block { memory, width, format }
    }
}

#[pymethods]
impl Block {
    /// The values as a buffer that can be written to.
    ///
    /// # Safety
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        // The view keeps `slf` alive, `slf` is frozen and never looks at its memory, which stays where it is: that keeps
        // the invariant of `Memory`.
        let memory = Memory {
            address: this.memory.address(),
            len: this.memory.len() / this.width.max(1),
            width: this.width,
            format: this.format,
            readonly: false,
        };
        // SAFETY: `view` is what CPython gave to the slot.
        unsafe { fill(view, flags, slf.into_any(), &memory) }
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    /// CPython calls it once for each buffer that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `view` was filled by `__getbuffer__` and is released this once.
        unsafe { free(view) };
    }
}

/// Fixed-width values of one chunk, for NumPy to look at in place.
#[pyclass(frozen, module = "arrowwood._arrowwood", name = "_Values")]
pub struct Values {
    buffer: Buffer,
    width: usize,
    format: &'static CStr,
}

impl Values {
    /// The items of `width` bytes that `buffer` holds; `format` is their code in Python's `struct` module.
    pub fn new(buffer: Buffer, width: usize, format: &'static CStr) -> Values {
        Values { buffer, width, format }
    }
}

#[pymethods]
impl Values {
    /// The values as a read-only buffer.
    ///
    /// # Safety
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        // The view keeps `slf` alive, `slf` is frozen and keeps the buffer, which keeps the invariant of `Memory`.
        let memory = Memory {
            address: this.buffer.as_ptr() as usize,
            len: this.buffer.len() / this.width.max(1),
            width: this.width,
            format: this.format,
            readonly: true,
        };
        // SAFETY: `view` is what CPython gave to the slot.
        unsafe { fill(view, flags, slf.into_any(), &memory) }
    }

    /// Gives a buffer back.
    ///
    /// # Safety
    /// CPython calls it once for each buffer that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `view` was filled by `__getbuffer__` and is released this once.
        unsafe { free(view) };
    }
}

/// The bytes of any object with the buffer protocol, in place. The object is kept, and its buffer held, as long as
/// anything uses the bytes.
pub fn bytes_of(object: &Bound<'_, PyAny>) -> Result<Bytes> {
    let held = PyUntypedBuffer::get(object)?;
    if !held.is_c_contiguous() {
        return Err(argument("the buffer is not contiguous; give a contiguous copy"));
    }
    let len = held.len_bytes();
    let Some(start) = NonNull::new(held.buf_ptr().cast::<u8>()) else {
        return Ok(Bytes::from(Vec::new()));
    };
    let owner = Arc::new(AssertUnwindSafe(held));
    // SAFETY: a contiguous buffer is `len` readable bytes from `start` on until it is released, which dropping the
    // owner does. That nobody writes to it meanwhile is the contract of `open` for bytes as it is for files: every
    // offset read from it is loaded once and bounded.
    Ok(Bytes::from(unsafe { Buffer::from_custom_allocation(start, len, owner) }))
}

/// Memory of others that is written to from its start on.
pub struct Room {
    held: PyUntypedBuffer,
    at: usize,
}

impl Room {
    /// The memory of an object with the buffer protocol that lets it be written to.
    pub fn of(object: &Bound<'_, PyAny>) -> Result<Room> {
        let held = PyUntypedBuffer::get(object)?;
        if held.readonly() || !held.is_c_contiguous() {
            return Err(argument("the buffer can't be written to, or is not contiguous"));
        }
        Ok(Room { held, at: 0 })
    }
}

impl io::Write for Room {
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
pub fn owned(number: &Bound<'_, PyAny>) -> Result<OwnedFd> {
    let number = number.extract::<i32>()?;
    // SAFETY: a new descriptor that nobody else knows of, so that closing it is ours.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Whether `object` has the buffer protocol.
pub fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `object` is a live object and the thread is attached, as the `Bound` proves.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}
