//! The buffer protocol (Python's C API, *Buffer Protocol*): our memory for others to read and write. Memory of others
//! is in `memory`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

use arrow_buffer::Buffer;
use arrowwood::GrowableBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::buffer::Buffer as Growable;
use super::mapping::Mapping;
use super::memory::RawBuffer;

/// Shape (one number) and strides (one number) of an exported buffer, which must live as long as it.
type ShapeAndStrides = [ffi::Py_ssize_t; 2];

/// Describes `memory` of `owner` in `view`, as far as `flags` ask for it.
///
/// # Safety
/// `view` must point to a `Py_buffer` to be filled, as in the call of a `bf_getbuffer` slot.
unsafe fn fill(view: *mut ffi::Py_buffer, flags: c_int, owner: Bound<'_, PyAny>, memory: &RawBuffer) -> PyResult<()> {
    if memory.readonly && flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("the memory is read-only; map it with mode 'r+' or 'c' to write"));
    }
    let size = memory.len.checked_mul(memory.width);
    assert!(size.is_some_and(|size| isize::try_from(size).is_ok()), "a buffer is larger than the address space");
    let geometry: Box<ShapeAndStrides> = Box::new([memory.len.cast_signed(), memory.width.cast_signed()]);
    let shape: *mut ffi::Py_ssize_t = Box::into_raw(geometry).cast();
    let filled = ffi::Py_buffer {
        buf: memory.address as *mut c_void,
        obj: owner.into_ptr(),
        len: (memory.len * memory.width).cast_signed(),
        itemsize: memory.width.cast_signed(),
        readonly: memory.readonly.into(),
        ndim: 1,
        format: if flags & ffi::PyBUF_FORMAT != 0 { memory.format.as_ptr().cast_mut() } else { std::ptr::null_mut() },
        shape: if flags & ffi::PyBUF_ND == ffi::PyBUF_ND { shape } else { std::ptr::null_mut() },
        strides: if flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES {
            shape.wrapping_add(1)
        } else {
            std::ptr::null_mut()
        },
        suboffsets: std::ptr::null_mut(),
        internal: shape.cast(),
    };
    // SAFETY: the caller vouches for `view`, which is not initialised yet, so nothing is dropped by the write.
    unsafe { view.write(filled) };
    Ok(())
}

/// Frees the allocations of `fill`.
///
/// # Safety
/// `view` must have been filled by `fill`, and be released once.
unsafe fn free(view: *mut ffi::Py_buffer) {
    // SAFETY: the caller vouches for `view`, which CPython keeps alive during `bf_releasebuffer`.
    let geometry = unsafe { (*view).internal }.cast::<ShapeAndStrides>();
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
        // The mapping cannot be closed while exports are counted, which keeps the invariant of `RawBuffer`.
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
        // Bytes are neither moved nor forgotten while exports are counted, which keeps the invariant of `RawBuffer`.
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

/// Columns of one type, concatenated in their own memory, which NumPy may write to.
#[pyclass(frozen, module = "arrowwood._arrowwood", name = "_Block")]
pub struct Block {
    memory: GrowableBuffer,
    width: usize,
    format: &'static CStr,
}

impl Block {
    /// Creates a block of the items of `width` bytes in `memory`; `format` is their code in Python's `struct` module.
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
        // The view keeps `slf` alive, `slf` is frozen and never looks at its memory, which stays where it is: that
        // keeps the invariant of `RawBuffer`.
        let memory = RawBuffer {
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
pub struct ValuesBuffer {
    buffer: Buffer,
    width: usize,
    format: &'static CStr,
}

impl ValuesBuffer {
    /// Creates a view of the items of `width` bytes in `buffer`; `format` is their code in Python's `struct` module.
    pub fn new(buffer: Buffer, width: usize, format: &'static CStr) -> ValuesBuffer {
        assert!(buffer.len().is_multiple_of(width), "{} bytes of values of {width} bytes", buffer.len());
        ValuesBuffer { buffer, width, format }
    }
}

#[pymethods]
impl ValuesBuffer {
    /// The values as a read-only buffer.
    ///
    /// # Safety
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        // The view keeps `slf` alive, `slf` is frozen and keeps the buffer, which keeps the invariant of `RawBuffer`.
        let memory = RawBuffer {
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
