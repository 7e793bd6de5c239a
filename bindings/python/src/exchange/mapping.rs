//! `map` and `Mapping`: a file as typed memory.
//!
//! ```text
//! Mapping ── offset, len, dtype ──▶ Owner ── until close() ──▶ arrowwood::Mapping
//! ```
//! Slices and views share the owner, so closing one closes all. Whoever reads takes a handle of the mapping out of the
//! owner first and keeps it to the end of the call: memory that is in use is never unmapped.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use arrowwood::mapping::MutexExt;
use arrowwood::readable::escape_hidden;
use arrowwood::{Error, ErrorKind, Mode, View};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView};

use super::dtype::{Dtype, PyElement, element, with_type};
use super::memory::RawBuffer;
use crate::arguments::index::{Index, index};
use crate::arguments::numbers::count;
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument, out_of_range, type_error};
use crate::interpreter::py_call::{CallPy, guard};

/// Map a file of any size into memory, without reading it.
///
/// Args:
///     path: a regular file.
///     mode: ``"r"`` read-only; ``"r+"`` read and write, stores are visible at once to other processes that map the
///         file; ``"c"`` copy-on-write, stores stay in this process and never reach the file.
///     dtype: the elements' type, such as ``"float64"``: a boolean, integer or float of fixed width in little-endian
///         order. Bytes (``uint8``) by default.
///     offset: the offset of the first element in bytes, aligned or not.
///     length: the number of elements; by default all.
///
/// Raises:
///     NotFound, PermissionDenied: as for opening any file.
///     InvalidArgument: an invalid mode, type, offset or length, or bytes that are not a whole number of elements.
#[pyfunction]
#[pyo3(signature = (path, mode = "r", dtype = None, offset = 0, length = None))]
pub fn map(
    path: PathBuf,
    mode: &str,
    dtype: Option<&Bound<'_, PyAny>>,
    offset: i64,
    length: Option<i64>,
) -> Result<Mapping> {
    let dtype = dtype.map_or(Ok(Dtype::UInt8), Dtype::parse)?;
    let offset = count("offset", offset)? as usize;
    let length = length.map(|length| count("length", length)).transpose()?.map(|length| length as usize);
    let mapping = arrowwood::Mapping::open(&path, Mode::parse(mode)?)?;
    let len = elements(&mapping, dtype, offset, length).map_err(|e| e.at(&path))?;
    let state = Mutex::new(MappingState { mapping: Some(mapping), exports: 0 });
    Ok(Mapping { owner: Arc::new(SharedMapping { state, path, mode: mode.into() }), dtype, offset, len })
}

/// Returns the number of elements from byte `offset` on: `length`, or all, which must be a whole number.
fn elements(mapping: &arrowwood::Mapping, dtype: Dtype, offset: usize, length: Option<usize>) -> Result<usize, Error> {
    let len = with_type!(dtype, T => mapping.view::<T>(offset, length)?.len());
    let rest = (mapping.len() - offset) % dtype.width();
    if length.is_none() && rest != 0 {
        return Err(uneven(mapping.len() - offset, dtype));
    }
    Ok(len)
}

fn uneven(bytes: usize, dtype: Dtype) -> Error {
    let name = dtype.name();
    let width = dtype.width();
    let message = format!("{bytes} bytes are no whole number of {name} elements of {width} bytes; give a length");
    Error::new(ErrorKind::InvalidArgument, message)
}

/// The state shared by all slices and views of one mapping.
struct SharedMapping {
    state: Mutex<MappingState>,
    path: PathBuf,
    mode: String,
}

struct MappingState {
    /// `None` once closed.
    mapping: Option<arrowwood::Mapping>,
    /// Buffers that others hold.
    exports: usize,
}

impl SharedMapping {
    fn state(&self) -> MutexGuard<'_, MappingState> {
        self.state.lock_ignoring_poison()
    }

    fn mapping(&self) -> Result<arrowwood::Mapping> {
        self.state().mapping.clone().ok_or_else(|| self.closed())
    }

    fn closed(&self) -> PyArrowwoodError {
        Error::new(ErrorKind::Closed, "the mapping is closed").at(&self.path).into()
    }

    fn close(&self) -> Result<()> {
        let mut state = self.state();
        if state.exports > 0 {
            let message = format!("cannot close the mapping: {} exported buffers still point into it", state.exports);
            return Err(Error::new(ErrorKind::Busy, message).at(&self.path).into());
        }
        state.mapping = None;
        Ok(())
    }
}

/// A file as typed memory. Slices and views share it; closing one closes all.
///
/// It has the buffer protocol: ``np.asarray(mapping)`` copies nothing, and can be written to in the modes ``r+`` and
/// ``c``. Any use after :meth:`close` raises :class:`Closed`.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Mapping {
    owner: Arc<SharedMapping>,
    dtype: Dtype,
    /// The offset of the first element in bytes.
    offset: usize,
    /// The number of elements.
    len: usize,
}

impl Mapping {
    /// Counts a buffer as exported, and returns its memory.
    pub fn export(&self) -> Result<RawBuffer> {
        let mut state = self.owner.state();
        let mapping = state.mapping.as_ref().ok_or_else(|| self.owner.closed())?;
        let memory = RawBuffer {
            address: mapping.address() + self.offset,
            len: self.len,
            width: self.dtype.width(),
            format: self.dtype.format(),
            readonly: !mapping.mode().is_writable(),
        };
        state.exports += 1;
        Ok(memory)
    }

    /// Counts a buffer as given back.
    pub fn release(&self) {
        let mut state = self.owner.state();
        assert!(state.exports > 0, "a buffer of the mapping was released twice");
        state.exports -= 1;
    }

    fn elements<T: PyElement>(&self) -> Result<View<T>> {
        Ok(self.owner.mapping()?.view(self.offset, Some(self.len))?)
    }

    fn part(&self, start: u64, count: u64) -> Mapping {
        let start = start.min(self.len as u64) as usize;
        let len = count.min((self.len - start) as u64) as usize;
        Mapping { owner: self.owner.clone(), offset: self.offset + start * self.dtype.width(), len, ..*self }
    }

    fn index(&self, key: &Bound<'_, PyAny>) -> Result<Index> {
        match index(key, "element", || Ok(self.len as u64))? {
            Index::At(number) if number >= self.len as u64 => {
                Err(out_of_range(format!("element {number} of {}", self.len)))
            }
            index => Ok(index),
        }
    }

    fn get<'py>(&self, py: Python<'py>, at: usize) -> Result<Bound<'py, PyAny>> {
        Ok(with_type!(self.dtype, T => self.elements::<T>()?.get(at)?.object(py)?))
    }

    fn assign<T: PyElement>(&self, values: &Bound<'_, PyAny>) -> Result<()> {
        if !self.owner.mapping()?.mode().is_writable() {
            let message = "the mapping is read-only; map it with mode 'r+' or 'c' to store into it";
            return Err(PyArrowwoodError::from(Error::new(ErrorKind::InvalidArgument, message).at(&self.owner.path)));
        }
        // The values may be in a mapping themselves.
        let values: Vec<T> = match guard(|| same_bytes(values, self.dtype))? {
            Some(bytes) => bytes.as_bytes().chunks_exact(T::WIDTH).map(T::from_bytes).collect(),
            None => values.try_iter()?.map(|value| element(&value?, self.dtype)).collect::<Result<_>>()?,
        };
        if values.len() != self.len {
            return Err(invalid_argument(format!("{} values for a slice of {} elements", values.len(), self.len)));
        }
        let view = self.elements::<T>()?;
        Ok(values.into_iter().enumerate().try_for_each(|(i, value)| view.set(i, value))?)
    }
}

/// Copies the bytes of `values`, if they are a buffer of exactly this type.
fn same_bytes<'py>(values: &Bound<'py, PyAny>, dtype: Dtype) -> Result<Option<Bound<'py, PyBytes>>> {
    let Ok(view) = PyMemoryView::from(values) else { return Ok(None) };
    let format: String = view.getattr("format")?.extract()?;
    if view.getattr("ndim")?.extract::<usize>()? != 1 || !dtype.is_format(&format, view.getattr("itemsize")?.extract()?)
    {
        return Ok(None);
    }
    Ok(Some(view.call_py_method("tobytes", ())?.cast_into().map_err(PyErr::from)?))
}

#[pymethods]
impl Mapping {
    fn __len__(&self) -> Result<usize> {
        self.owner.mapping()?;
        Ok(self.len)
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let this = slf.get();
        match this.index(key)? {
            Index::At(at) => this.get(slf.py(), at as usize),
            Index::Span(start, count) => {
                this.owner.mapping()?;
                Ok(Bound::new(slf.py(), this.part(start, count))?.into_any())
            }
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<()> {
        match self.index(key)? {
            Index::At(at) => with_type!(self.dtype, T => {
                let value: T = element(value, self.dtype)?;
                Ok(self.elements::<T>()?.set(at as usize, value)?)
            }),
            Index::Span(start, count) => {
                let part = self.part(start, count);
                with_type!(self.dtype, T => part.assign::<T>(value))
            }
        }
    }

    /// Libraries disagree about == of memory: a boolean, or one for each element.
    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, _operator: CompareOp) -> Result<bool> {
        let message = "mappings are compared as arrays: np.asarray(mapping) == np.asarray(other), \
                       np.array_equal(mapping, other); `mapping is other` says whether they are the same object";
        Err(type_error(message))
    }

    /// The hash of the object's identity.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    fn __iter__(slf: Bound<'_, Self>) -> Result<MappingIterator> {
        slf.get().owner.mapping()?;
        Ok(MappingIterator { mapping: slf.unbind(), next: 0 })
    }

    /// The same bytes as elements of another type. Their number must be a multiple of its size.
    fn view(&self, dtype: &Bound<'_, PyAny>) -> Result<Mapping> {
        self.owner.mapping()?;
        let dtype = Dtype::parse(dtype)?;
        let bytes = self.nbytes();
        if !bytes.is_multiple_of(dtype.width()) {
            return Err(uneven(bytes, dtype).at(&self.owner.path).into());
        }
        Ok(Mapping { owner: self.owner.clone(), dtype, offset: self.offset, len: bytes / dtype.width() })
    }

    /// The elements' type, as NumPy names it.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// The number of bytes of the elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.len * self.dtype.width()
    }

    /// The path as given.
    #[getter]
    fn path(&self) -> &std::ffi::OsStr {
        self.owner.path.as_os_str()
    }

    /// ``"r"``, ``"r+"`` or ``"c"``.
    #[getter]
    fn mode(&self) -> &str {
        &self.owner.mode
    }

    /// The number of bytes of the whole file that are in physical memory, whichever process loaded them.
    #[getter]
    fn resident(&self) -> Result<usize> {
        Ok(self.owner.mapping()?.resident()?)
    }

    /// Whether the mapping is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.owner.state().mapping.is_none()
    }

    /// A copy of the bytes.
    fn tobytes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let mapping = self.owner.mapping()?;
        let offset = self.offset;
        let len = self.nbytes();
        Ok(PyBytes::new_with(py, len, |bytes| {
            py.detach(|| mapping.read_at(offset, bytes))
                .map_err(|e| PyArrowwoodError::from(e.at(&self.owner.path)).into())
        })?)
    }

    /// The elements as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        with_type!(self.dtype, T => {
            for element in self.elements::<T>()?.to_vec()? {
                list.append(element.object(py)?)?;
            }
        });
        Ok(list)
    }

    /// Write changed pages back to the file and wait until they are on the disk. Other processes see stores without
    /// it.
    fn flush(&self, py: Python<'_>) -> Result<()> {
        let mapping = self.owner.mapping()?;
        Ok(py.detach(|| mapping.flush())?)
    }

    /// Unmap the file now. Raises :class:`Busy`, a ``BufferError``, while a buffer of it is in use elsewhere.
    fn close(&self) -> Result<()> {
        self.owner.close()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Result<Bound<'_, Self>> {
        slf.get().owner.mapping()?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<()> {
        self.owner.close()
    }

    fn __repr__(&self) -> String {
        let path = self.owner.path.to_string_lossy();
        let path = escape_hidden(&path);
        let mode = &self.owner.mode;
        let dtype = self.dtype.name();
        let closed = if self.closed() { ", closed" } else { "" };
        format!("<arrowwood.Mapping of '{path}': {dtype}[{}], mode '{mode}'{closed}>", self.len)
    }
}

/// The elements of a mapping, one after the other.
#[pyclass(module = "arrowwood")]
pub struct MappingIterator {
    mapping: Py<Mapping>,
    next: usize,
}

#[pymethods]
impl MappingIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let mapping = self.mapping.get();
        if self.next >= mapping.len {
            return Ok(None);
        }
        self.next += 1;
        mapping.get(py, self.next - 1).map(Some)
    }
}
