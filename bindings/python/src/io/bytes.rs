//! Destinations and sources of bytes: files, descriptors, sockets, Python's file objects, memory.

use std::fs::File;
use std::io::{self, BufWriter, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;

use arrowwood::Error;
use arrowwood::mapping::os as system;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

use super::path::{check_not_url, extract_path};
use crate::exchange::buffer::{Buffer, BufferSink};
use crate::exchange::memory::{MemoryWriter, owned_file};
use crate::interpreter::errors::{PendingException, Result, type_error};
use crate::interpreter::lock::DroppedWithLock;
use crate::interpreter::py_call::{CallPy, attach};

/// Returns true if a pipe, or a device like a terminal, is at `path`.
pub fn is_pipe(path: &Path) -> bool {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| system::is_pipe(kind) || system::is_character_device(kind))
}

/// Opens the pipe or device at `path`, for reading or writing; returns `None` if it is neither. While the other end is
/// not open, Python handles signals in between, so that Ctrl-C ends the wait.
pub fn open_pipe(py: Python<'_>, path: &Path, mode: &str) -> Result<Option<File>> {
    if !is_pipe(path) {
        return Ok(None);
    }
    let os = py.import("os")?;
    let flags = os.getattr(mode)?.bitor(os.getattr("O_CLOEXEC")?)?;
    match os.call_py_method("open", (path, flags)) {
        Ok(number) => Ok(Some(owned_file(&number)?)),
        Err(problem) if problem.is_instance_of::<PyOSError>(py) => {
            let number = problem.value(py).getattr("errno")?.extract::<Option<i32>>()?;
            let error = number.map_or_else(|| io::Error::other(problem), io::Error::from_raw_os_error);
            Err(Error::io("opening the pipe", &error).at(path).into())
        }
        Err(problem) => Err(problem.into()),
    }
}

/// The maximum number of bytes that a file object is asked for at once.
const MAX_READ: usize = 1 << 20;
/// The number of bytes that a file object is given at once.
const WRITE_BUFFER: usize = 64 << 10;

/// A method of a Python object: one that takes bytes and returns their number, or one that returns bytes.
pub struct FileObject {
    method: DroppedWithLock<Py<PyAny>>,
    /// Where an exception of the method is stored.
    problem: PendingException,
}

impl FileObject {
    pub fn new(method: Bound<'_, PyAny>, problem: &PendingException) -> FileObject {
        FileObject { method: DroppedWithLock::new(method.unbind()), problem: problem.clone() }
    }
}

impl Write for FileObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = attach(|py| {
            let written = self.method.bind(py).call_py((&PyBytes::new(py, bytes),))?;
            // Raw files write less than all and say so; others may say nothing.
            if written.is_none() { Ok(bytes.len()) } else { written.extract() }
        });
        match written {
            Ok(written) if written <= bytes.len() => Ok(written),
            Ok(_) => Err(io::Error::other("the file object says that it wrote more than it was given")),
            Err(problem) => Err(self.problem.store(problem)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for FileObject {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // Enough to be worth a call, but no memory for bytes that may never arrive.
        let max_bytes = into.len().min(MAX_READ);
        let received = attach(|py| {
            let bytes = self.method.bind(py).call_py((max_bytes,))?;
            let bytes = bytes.cast::<PyBytes>()?.as_bytes();
            if let Some(into) = into.get_mut(..bytes.len()) {
                into.copy_from_slice(bytes);
            }
            Ok(bytes.len())
        });
        match received {
            Ok(received) if received <= into.len() => Ok(received),
            Ok(_) => Err(io::Error::other("the file object gave more than it was asked for")),
            Err(problem) => Err(self.problem.store(problem)),
        }
    }
}

/// Where a stream goes.
pub enum Sink {
    File(File, PendingException),
    FileObject(BufWriter<FileObject>),
    Buffer(BufferSink),
    MemoryWriter(MemoryWriter),
}

impl Sink {
    /// A path (what is there is replaced, and stays as it is for those who have it open), a file descriptor, a socket,
    /// an object with ``write(bytes)``, a `Buffer`, or memory that can be written to.
    pub fn open(target: &Bound<'_, PyAny>, problem: &PendingException) -> Result<Sink> {
        if let Ok(buffer) = target.cast::<Buffer>() {
            return Ok(Sink::Buffer(BufferSink { buffer: buffer.clone().unbind(), problem: problem.clone() }));
        }
        if let Some(write) = target.getattr_opt("write")? {
            return Ok(Sink::for_method(write, problem));
        }
        if let Some(descriptor) = descriptor(target)? {
            return Ok(Sink::File(descriptor, problem.clone()));
        }
        if let Some(send) = target.getattr_opt("sendall")? {
            return Ok(Sink::for_method(send, problem));
        }
        match extract_path(target)? {
            Some(path) => {
                check_not_url("this", &path)?;
                if let Some(pipe) = open_pipe(target.py(), &path, "O_WRONLY")? {
                    return Ok(Sink::File(pipe, problem.clone()));
                }
                let file = target.py().detach(|| replace_file(&path));
                let file = file.map_err(|e| Error::io("creating the file", &e).at(&path))?;
                Ok(Sink::File(file, problem.clone()))
            }
            None => Ok(Sink::MemoryWriter(MemoryWriter::for_type(target)?)),
        }
    }

    /// Returns a sink that calls `method` with the bytes.
    fn for_method(method: Bound<'_, PyAny>, problem: &PendingException) -> Sink {
        Sink::FileObject(BufWriter::with_capacity(WRITE_BUFFER, FileObject::new(method, problem)))
    }
}

/// Creates an empty file at `path`. An existing file is removed first, as it may be mapped.
fn replace_file(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        std::fs::remove_file(path)?;
    }
    File::options().write(true).create(true).truncate(true).open(path)
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file, problem) => problem.check_interrupt(file.write(bytes)),
            Sink::FileObject(object) => object.write(bytes),
            Sink::Buffer(buffer) => buffer.write(bytes),
            Sink::MemoryWriter(room) => room.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Sink::File(file, problem) => problem.check_interrupt(file.write_vectored(slices)),
            Sink::FileObject(object) => object.write_vectored(slices),
            Sink::Buffer(buffer) => buffer.write_vectored(slices),
            Sink::MemoryWriter(room) => room.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::FileObject(object) => object.flush(),
            _ => Ok(()),
        }
    }
}

/// A source of a stream that is not in memory.
pub enum Source {
    File(File, PendingException),
    FileObject(FileObject),
}

impl Source {
    /// A file descriptor, a socket, or an object with ``read(size)``; `None` for anything else.
    pub fn open(source: &Bound<'_, PyAny>, problem: &PendingException) -> Result<Option<Source>> {
        // Data that has arrived is returned without waiting for more.
        for name in ["read1", "read"] {
            if let Some(read) = source.getattr_opt(name)? {
                return Ok(Some(Source::FileObject(FileObject::new(read, problem))));
            }
        }
        if let Some(descriptor) = descriptor(source)? {
            return Ok(Some(Source::File(descriptor, problem.clone())));
        }
        let receive = source.getattr_opt("recv")?;
        Ok(receive.map(|receive| Source::FileObject(FileObject::new(receive, problem))))
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::File(file, problem) => problem.check_interrupt(file.read(into)),
            Source::FileObject(object) => object.read(into),
        }
    }

    fn read_vectored(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Source::File(file, problem) => problem.check_interrupt(file.read_vectored(slices)),
            Source::FileObject(object) => object.read_vectored(slices),
        }
    }
}

/// Duplicates the descriptor that `object` is, or that the socket `object` has. A descriptor that does not wait, such
/// as a socket's with a timeout, is used by the object's methods.
fn descriptor(object: &Bound<'_, PyAny>) -> Result<Option<File>> {
    let py = object.py();
    let number = match object.getattr_opt("fileno")? {
        Some(fileno)
            if object.getattr_opt("gettimeout")?.is_none_or(|get| get.call_py(()).is_ok_and(|t| t.is_none())) =>
        {
            fileno.call_py(())?
        }
        None if object.is_instance_of::<PyInt>() => object.clone(),
        _ => return Ok(None),
    };
    let os = py.import("os")?;
    if !os.call_py_method("get_blocking", (&number,))?.extract::<bool>()? {
        return Err(type_error("the file descriptor does not wait; give one that does (os.set_blocking)"));
    }
    Ok(Some(owned_file(&os.call_py_method("dup", (number,))?)?))
}
