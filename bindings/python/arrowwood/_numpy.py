"""Converts columns and datasets to NumPy arrays."""

import operator
import os

import numpy as np

from arrowwood import _arrowwood
from arrowwood._errors import CopyNeeded, InvalidArgument


def to_numpy(column, copy=None):
    """Returns the values of `column` as an array; see ``Column.to_numpy``."""
    dtype, parts, shape, order = column._parts()
    if copy is False:
        _refuse_copies(column, dtype, parts)
    has_nulls = any(nulls is not None for _, nulls in parts)
    if dtype is None or (dtype == "bool" and has_nulls):
        return np.fromiter(column, dtype=object, count=len(column))
    arrays = [_array(values, nulls, dtype, has_nulls) for values, nulls in parts]
    if shape is not None:
        arrays = [array.reshape(-1, *shape) for array in arrays] or [np.empty((0, *shape), dtype)]
    if order is not None:
        arrays = [array.transpose(0, *(axis + 1 for axis in order)) for array in arrays]
    if len(arrays) == 1:
        return arrays[0].copy() if copy and not arrays[0].flags.writeable else arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def matrix(dataset):
    """Returns the columns of `dataset` as an array of two dimensions; see ``Dataset.to_numpy``."""
    rows, count = dataset.shape
    block = dataset._block()
    if block is not None:
        return np.asarray(block).view(dataset._dtypes()[0]).reshape(count, rows).T
    columns = [to_numpy(dataset.column(number)) for number in range(count)]
    dtype = _common_dtype([column.dtype for column in columns])
    transposed = np.empty((count, rows), dtype)
    for number, values in enumerate(columns):
        is_object = dtype == object and values.dtype != object  # noqa: E721, NumPy's object dtype equals it
        transposed[number] = np.fromiter(dataset.column(number), object, rows) if is_object else values
    return transposed.T


def _common_dtype(dtypes):
    """Returns a type that can hold values of all `dtypes`."""
    kinds = {dtype.kind for dtype in dtypes}
    if not kinds:
        return np.dtype("float64")
    if kinds <= set("iuf") or len(kinds) == 1:
        return np.result_type(*dtypes)
    return np.dtype(object)


def matrix_of(dataset, dtype=None, copy=None):
    """Returns the columns of `dataset` as an array of `dtype`; implements ``__array__``."""
    if copy is False:
        raise CopyNeeded("the columns of a dataset are no array without a copy; take one column")
    array = matrix(dataset)
    if dtype is None or array.dtype == dtype:
        return array
    for number in range(dataset.num_columns):
        _refuse_nulls(dataset.column(number), dtype)
    return array.astype(dtype)


def _refuse_nulls(column, dtype):
    """Refuses nulls in integers and booleans: NumPy would convert NaN and NaT to arbitrary values."""
    if np.dtype(dtype).kind in "iub" and column.null_count:
        advice = "write column.drop_nulls(), or a type of floats"
        raise InvalidArgument(f"column {column.name!r} has nulls, and {np.dtype(dtype)} has none: {advice}")


def as_array(column, dtype=None, copy=None):
    """Returns the values of `column` as an array of `dtype`; implements ``__array__``."""
    array = to_numpy(column, copy)
    if dtype is None or array.dtype == dtype:
        return array
    _refuse_nulls(column, dtype)
    if copy is False:
        raise CopyNeeded(f"column {column.name!r} is {array.dtype}, and cannot become {dtype} without a copy")
    return array.astype(dtype)


_COMPARISONS = {
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}

_ARITHMETIC = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.remainder: operator.mod,
}


def ufunc(function, method, inputs, keywords):
    """Applies a NumPy ufunc to columns, expressions and other values; see ``Column.__array_ufunc__``."""
    compare = _COMPARISONS.get(function) if method == "__call__" and not keywords else None
    # NumPy passes its scalars as arrays without dimensions.
    inputs = [value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value for value in inputs]
    if compare is not None and any(np.isscalar(value) for value in inputs):
        left, right = (value.item() if _is_exact_in_python(value) else value for value in inputs)
        return _swap_operands(compare)(right, left) if np.isscalar(left) else compare(left, right)
    if any(isinstance(value, _arrowwood.Expression) for value in inputs):
        compute = _ARITHMETIC.get(function) if method == "__call__" and not keywords else None
        if compute is None or not any(np.isscalar(value) for value in inputs):
            return NotImplemented
        return compute(*(value.item() if _is_exact_in_python(value) else value for value in inputs))
    arrays = [to_numpy(value) if isinstance(value, _arrowwood.Column) else value for value in inputs]
    return getattr(function, method)(*arrays, **(keywords or {}))


def function(function, inputs, keywords):
    """Applies any other NumPy function to columns; see ``Column.__array_function__``."""
    return function(*_arrays(inputs), **{name: _arrays(value) for name, value in keywords.items()})


def _arrays(value):
    """Returns `value` with arrays in place of columns, also within lists, as for ``np.stack``."""
    if isinstance(value, _arrowwood.Column):
        return to_numpy(value)
    if type(value) in (list, tuple):
        return type(value)([_arrays(item) for item in value])
    return value


def _is_exact_in_python(value):
    """Returns whether `value` is a NumPy scalar that a Python object represents exactly."""
    return isinstance(value, np.generic) and value.dtype.kind not in "mM"


def _swap_operands(compare):
    """Returns the comparison that gives the same result with its operands swapped."""
    mirrors = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}
    return mirrors.get(compare, compare)


def dlpack(column, stream, max_version, dl_device, copy):
    """Returns the values of `column` as a capsule; see ``Column.__dlpack__``."""
    try:
        array = to_numpy(column, False if copy is False else None)
    except CopyNeeded as needed:
        raise BufferError(str(needed)) from needed
    if array.dtype.kind not in "biufc":
        raise BufferError(f"column {column.name!r} of {column.dtype} is no numbers, which is what DLPack has")
    knows_read_only = max_version is not None and max_version[0] >= 1
    if not array.flags.writeable:
        # PyTorch ignores the read-only flag, and consumers of DLPack before 1.0 can't see it.
        writable = _remapped_private(array)
        if writable is not None:
            array = writable
        elif not knows_read_only and copy is not False:
            array = array.copy()
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    # NumPy before 2.1 knows only the first option; consumers expect its TypeError, and retry with fewer options.
    return array.__dlpack__(**{name: value for name, value in options.items() if value is not None})


def _remapped_private(array):
    """Maps the values of `array` again, copy on write, so that writes change neither the file nor other arrays.

    Returns ``None`` if the values are not in a mapped file.
    """
    # Our arrays have no negative strides.
    length = array.itemsize + sum(
        (count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True)
    )
    start = array.__array_interface__["data"][0]
    location = _find_mapping(start, start + length) if array.size else None
    if location is None:
        return None
    path, offset = location
    try:
        private_bytes = np.asarray(_arrowwood.map(path, "c", offset=offset, length=length))
    except (OSError, ValueError):
        # The file was removed, or memory for writable pages is short.
        return None
    return np.ndarray(array.shape, array.dtype, private_bytes, 0, array.strides)


def _find_mapping(low, high):
    """Returns path and offset of the file data mapped from address `low` to `high`; None if there is no such file."""
    try:
        maps = open("/proc/self/maps", encoding="utf-8", errors="surrogateescape")
    except OSError:
        # Only Linux tells.
        return None
    with maps:
        for line in maps:
            addresses, _, offset, _, inode, *path = line.split(maxsplit=5)
            start, end = (int(address, 16) for address in addresses.split("-"))
            if start <= low and high <= end:
                break
        else:
            return None
    path = path[0].rstrip("\n").replace("\\012", "\n") if path else ""
    try:
        is_same_file = path.startswith("/") and os.stat(path).st_ino == int(inode)
    except OSError:
        is_same_file = False
    return (path, int(offset, 16) + low - start) if is_same_file else None


def _refuse_copies(column, dtype, parts):
    """Refuses columns whose values can't become an array in place."""
    reason = None
    if dtype in (None, "bool", "datetime64[D]"):
        reason = f"NumPy does not hold {column.dtype} the way Arrow does"
    elif len(parts) != 1:
        reason = f"it lies in {len(parts)} chunks, not in one"
    elif parts[0][1] is not None:
        reason = "it has nulls"
    if reason:
        raise CopyNeeded(f"column {column.name!r} cannot become an array without a copy: {reason}")


def _array(values, nulls, dtype, has_nulls):
    """Returns the values of a chunk as an array, with NaN or NaT for nulls."""
    array = view_as(values, np.dtype(dtype))
    # All chunks must get the same type, so chunks without nulls are converted as well.
    if has_nulls and array.dtype.kind in "iu":
        array = array.astype("float64")
    if nulls is not None:
        if not array.flags.writeable:
            array = array.copy()
        array[np.frombuffer(nulls, dtype="bool")] = np.nan if array.dtype.kind == "f" else "NaT"
    return array


def view_as(values, dtype):
    """Returns a buffer of values as an array of `dtype`, in place if the width of values is the same."""
    array = np.asarray(values)
    # NumPy has another width only for 32-bit dates. Booleans arrive as bytes that were unpacked for this array.
    is_same_layout = array.dtype.itemsize == dtype.itemsize and dtype.kind != "b"
    return array.view(dtype) if is_same_layout else array.astype(dtype)
