//! `Buffer`: memory that grows.

use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard};

use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind, GrowableBuffer};
use pyo3::prelude::*;

use super::memory;
use super::memory::RawBuffer;
use crate::interpreter::errors::{PendingException, PyArrowwoodError, Result, invalid_argument, type_error};
use crate::interpreter::py_call::guard;

/// Memory that grows at its end without being moved, and can be opened in place.
///
/// It has ``write(bytes)``, so Arrow data can be written to it, and the read-only buffer protocol: a ``memoryview``
/// of it, or a dataset opened from it by :func:`open`, covers the bytes present at that time, and does not change
/// when more are written.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Buffer {
    inner: Mutex<BufferState>,
}

/// The bytes, and how many buffers of them are in use elsewhere.
struct BufferState {
    bytes: GrowableBuffer,
    exports: usize,
}

impl BufferState {
    /// Checks that `more` bytes can be appended: in place, or by moving all bytes while no view is in use.
    ///
    /// # Errors
    /// `Busy` if the bytes would have to move while views are in use.
    fn check(&self, more: usize) -> arrowwood::Result<()> {
        let stays = self.bytes.len().saturating_add(more) <= self.bytes.capacity();
        if stays || self.exports == 0 || self.bytes.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the buffer would have to move to grow by {more} bytes, but {} views of it are in use; release them first",
            self.exports
        );
        Err(Error::new(ErrorKind::Busy, message))
    }

    fn append(&mut self, bytes: &[u8]) -> arrowwood::Result<()> {
        self.check(bytes.len())?;
        let before = self.bytes.len();
        self.bytes.extend_from_slice(bytes)?;
        assert_eq!(self.bytes.len(), before + bytes.len(), "all bytes must be appended");
        Ok(())
    }
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, BufferState> {
        // Held for as long as bytes are copied, never while the interpreter is waited for.
        self.inner.lock_ignoring_poison()
    }

    /// Returns the current bytes, which stay in place until `release`.
    pub fn export(&self) -> RawBuffer {
        let mut inner = self.lock();
        inner.exports += 1;
        RawBuffer { address: inner.bytes.address(), len: inner.bytes.len(), width: 1, format: c"B", readonly: true }
    }

    /// Gives back bytes that `export` returned.
    pub fn release(&self) {
        let mut inner = self.lock();
        assert!(inner.exports > 0, "a view of the buffer was released twice");
        inner.exports -= 1;
    }
}

/// Writes to a buffer without asking the interpreter for anything.
pub struct BufferSink {
    pub buffer: Py<Buffer>,
    /// The reason why it took no more bytes.
    pub problem: PendingException,
}

impl io::Write for BufferSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut inner = self.buffer.get().lock();
        let total = slices.iter().map(|slice| slice.len()).sum();
        let written = inner.check(total).and_then(|()| slices.iter().try_for_each(|slice| inner.append(slice)));
        // Making the exception waits for the interpreter's lock, and who has that may wait for this one.
        drop(inner);
        written.map(|()| total).map_err(|error| self.problem.store(PyArrowwoodError::from(error).into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[pymethods]
impl Buffer {
    #[new]
    fn new() -> Buffer {
        Buffer { inner: Mutex::new(BufferState { bytes: GrowableBuffer::new(), exports: 0 }) }
    }

    /// Append the bytes of any object with the buffer protocol; return their number.
    ///
    /// Raises:
    ///     Busy: the memory would have to move, which it cannot while a view of it is in use.
    ///     FileChanged: the bytes are those of a mapped file that was truncated; nothing was appended.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<usize> {
        if !memory::supports_buffer(data) {
            let got = data.get_type().name()?;
            return Err(type_error(format!("expected an object with the buffer protocol, got {got}")));
        }
        let whole = memory::arrow_buffer(data)?;
        py.detach(|| {
            let mut inner = self.lock();
            let before = inner.bytes.len();
            guard(|| inner.append(&whole)).inspect_err(|_| inner.bytes.truncate(before))
        })?;
        Ok(whole.len())
    }

    /// Does nothing: written bytes are visible at once.
    fn flush(&self) {}

    /// Discard all bytes from `length` on; the memory is kept for reuse.
    ///
    /// Raises:
    ///     Busy: a view of the buffer is in use.
    ///     InvalidArgument: there are fewer bytes.
    fn truncate(&self, length: i64) -> Result<()> {
        let mut inner = self.lock();
        let len = usize::try_from(length).ok().filter(|&len| len <= inner.bytes.len());
        let len =
            len.ok_or_else(|| invalid_argument(format!("length {length} of a buffer of {} bytes", inner.bytes.len())))?;
        if inner.exports > 0 {
            let message = format!("{} views of the buffer are in use; release them first", inner.exports);
            return Err(PyArrowwoodError::from(Error::new(ErrorKind::Busy, message)));
        }
        inner.bytes.truncate(len);
        Ok(())
    }

    /// Discard all bytes, as ``truncate(0)``.
    fn clear(&self) -> Result<()> {
        self.truncate(0)
    }

    fn __len__(&self) -> usize {
        self.lock().bytes.len()
    }

    fn __repr__(&self) -> String {
        format!("<arrowwood.Buffer: {} bytes>", self.lock().bytes.len())
    }
}
