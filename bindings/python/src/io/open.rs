//! `open`: a path, a glob, a directory, bytes, or a list of those.

use std::path::PathBuf;

use arrowwood::{OpenOptions, concat_opened, is_url};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::path::extract_path;
use crate::dataset::dataset::Dataset;
use crate::dataset::reopen::{OpenArgs, PlaceArg, parse_place};
use crate::exchange::capsule::extract_schema;
use crate::exchange::memory;
use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::py_call::guard;

/// Open Arrow IPC data in place: metadata is read, no value is touched.
///
/// The file must not be rewritten while it is open; one that only grows, or is replaced by a rename, is fine. If it
/// is rewritten or truncated, calls raise :class:`FileChanged` as soon as they notice; arrays passed to other
/// libraries in place are not protected.
///
/// Args:
///     source: a path (also with ``~``, or ``file://``), a glob, a directory of ``*.arrow`` files or of partitions
///         (``key=value``), a URL (``s3://bucket/path``, ``https://host/path``; the URL of a folder ends in ``/``),
///         which is read by ranges, any object with the buffer protocol (``bytes``, ``memoryview``, ``mmap.mmap``,
///         :class:`Mapping`; used in place and kept alive), or a list of those, whose rows are concatenated and whose
///         schemas must agree.
///     validate: when offsets, text and dictionary keys are checked: ``"lazy"`` when a column is first used as a
///         whole, ``"full"`` now.
///     copy: read everything into memory first; the only sound way if other processes may write the file.
///     strict: raise :class:`CopyNeeded`, naming the buffer, if data can't be used without a copy.
///     partial: accept truncated data, up to its last whole batch.
///     partitioning: types of partition columns, as a dict by name or text such as ``"host: utf8, day: date32"``. By
///         default types are inferred from all values: ``int64``, ``date32``, else a dictionary of text.
///
/// Raises:
///     NotFound: there is no such file, or no matching file.
///     PermissionDenied: reading the file is not permitted.
///     InvalidData: the bytes are not Arrow IPC data; the message says what they look like instead.
///     SchemaMismatch: several files have different schemas; the message names two and the first difference.
///     InvalidArgument: rows of a table are in two sources, as in the table and in objects that were pushed from it.
///     Unsupported: valid Arrow data that this version cannot read.
#[pyfunction]
#[pyo3(signature = (source, *, validate = "lazy", copy = false, strict = false, partial = false, partitioning = None))]
pub fn open(
    source: &Bound<'_, PyAny>,
    validate: &str,
    copy: bool,
    strict: bool,
    partial: bool,
    partitioning: Option<&Bound<'_, PyAny>>,
) -> Result<Dataset> {
    let how = OpenArgs::new(validate, copy, strict, partial)?;
    if let Some(types) = partitioning {
        let types = extract_schema(types)?;
        let path = extract_path(source)?
            .ok_or_else(|| invalid_argument("open: partitioning needs a directory of partitions"))?;
        return Ok(Dataset::with_open_args(source.py().detach(|| how.open().partitions(path, &types))?, how));
    }
    Ok(Dataset::with_open_args(any(source, how.open(), copy)?, how))
}

/// The rows that a recipe names.
#[pyfunction]
pub fn _open_places(py: Python<'_>, places: Vec<PlaceArg>, how: (String, bool, bool, bool)) -> Result<Dataset> {
    let how = OpenArgs::new(&how.0, how.1, how.2, how.3)?;
    let places = places.into_iter().map(parse_place).collect::<Result<Vec<_>>>()?;
    Ok(Dataset::with_open_args(py.detach(|| how.open().file_slices(&places))?, how))
}

fn any(source: &Bound<'_, PyAny>, how: OpenOptions, copy: bool) -> Result<arrowwood::Dataset> {
    let py = source.py();
    if let Some(path) = name_of(source)? {
        return Ok(py.detach(|| how.path(path))?);
    }
    if source.is_instance_of::<PyList>() || source.is_instance_of::<PyTuple>() {
        return each(&source.try_iter()?.collect::<Result<Vec<_>, _>>()?, how, copy);
    }
    let bytes = memory::buffer_bytes(source)?;
    // The bytes may belong to a mapping of ours, whose file can be truncated.
    Ok(py.detach(|| guard(|| how.bytes(if copy { bytes.to_memory()? } else { bytes })))?)
}

/// Opens the rows of all `sources`.
fn each(sources: &[Bound<'_, PyAny>], how: OpenOptions, copy: bool) -> Result<arrowwood::Dataset> {
    let names = sources.iter().map(name_of).collect::<Result<Vec<_>>>()?;
    if let (Some(paths), Some(source)) = (names.iter().cloned().collect::<Option<Vec<_>>>(), sources.first()) {
        return Ok(source.py().detach(|| how.paths(&paths))?);
    }
    let opened = sources.iter().map(|source| any(source, how, copy)).collect::<Result<Vec<_>>>()?;
    assert_eq!(names.len(), opened.len(), "each source must be opened once");
    let names: Vec<PathBuf> = names
        .into_iter()
        .enumerate()
        .map(|(number, name)| name.unwrap_or_else(|| format!("source[{number}]").into()))
        .collect();
    Ok(concat_opened(&names.iter().map(PathBuf::as_path).collect::<Vec<_>>(), &opened)?)
}

/// Returns `source` if it is a path or a URL; `None` for bytes and lists.
fn name_of(source: &Bound<'_, PyAny>) -> Result<Option<PathBuf>> {
    url_of(source).map_or_else(|| extract_path(source), |url| Ok(Some(url)))
}

/// Returns `source` if it is the URL of an object that can be opened.
fn url_of(source: &Bound<'_, PyAny>) -> Option<PathBuf> {
    source.cast::<PyString>().ok()?.to_str().ok().map(PathBuf::from).filter(|path| is_url(path))
}
