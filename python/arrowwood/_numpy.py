"""Columns and datasets as NumPy arrays."""

import operator
import os

import numpy as np

from arrowwood import _arrowwood
from arrowwood._errors import CopyNeeded, InvalidArgument


def to_numpy(column, copy=None):
    """The values of `column` as an array; see ``Column.to_numpy``."""
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
        arrays = [array.transpose(0, *(at + 1 for at in order)) for array in arrays]
    if len(arrays) == 1:
        return arrays[0].copy() if copy and not arrays[0].flags.writeable else arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def matrix(dataset):
    """The columns of `dataset` as an array of two dimensions; see ``Dataset.to_numpy``."""
    rows, count = dataset.shape
    block = dataset._block()
    if block is not None:
        return np.asarray(block).view(dataset._dtypes()[0]).reshape(count, rows).T
    columns = [to_numpy(dataset.column(number)) for number in range(count)]
    dtype = _common([column.dtype for column in columns])
    whole = np.empty((count, rows), dtype)
    for number, values in enumerate(columns):
        is_object = dtype == object and values.dtype != object  # noqa: E721, a type of NumPy is equal to it
        whole[number] = np.fromiter(dataset.column(number), object, rows) if is_object else values
    return whole.T


def _common(dtypes):
    """The type of an array that holds values of all `dtypes`."""
    kinds = {dtype.kind for dtype in dtypes}
    if not kinds:
        return np.dtype("float64")
    return np.result_type(*dtypes) if kinds <= set("iuf") or len(kinds) == 1 else np.dtype(object)


def matrix_of(dataset, dtype=None, copy=None):
    """The columns of `dataset` as an array of `dtype`, as NumPy asks for it by ``__array__``."""
    if copy is False:
        raise CopyNeeded("the columns of a dataset are no array without a copy; take one column")
    array = matrix(dataset)
    if dtype is None or array.dtype == dtype:
        return array
    for number in range(dataset.num_columns):
        _refuse_nulls(dataset.column(number), dtype)
    return array.astype(dtype)


def _refuse_nulls(column, dtype):
    """Integers and booleans: NumPy would make something of NaN and NaT that nobody has written."""
    if np.dtype(dtype).kind in "iub" and column.null_count:
        advice = "write column.drop_nulls(), or a type of floats"
        raise InvalidArgument(f"column {column.name!r} has nulls, and {np.dtype(dtype)} has none: {advice}")


def as_array(column, dtype=None, copy=None):
    """The values of `column` as an array of `dtype`, as NumPy asks for it by ``__array__``."""
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
    """A function of NumPy's on columns, or on expressions, and whatever else; see ``Column.__array_ufunc__``."""
    compare = _COMPARISONS.get(function) if method == "__call__" and not keywords else None
    # NumPy makes arrays of no dimension of its scalars.
    inputs = [value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value for value in inputs]
    if compare is not None and any(np.isscalar(value) for value in inputs):
        left, right = (value.item() if _is_plain(value) else value for value in inputs)
        return _turned(compare)(right, left) if np.isscalar(left) else compare(left, right)
    if any(isinstance(value, _arrowwood.Expression) for value in inputs):
        compute = _ARITHMETIC.get(function) if method == "__call__" and not keywords else None
        if compute is None or not any(np.isscalar(value) for value in inputs):
            return NotImplemented
        return compute(*(value.item() if _is_plain(value) else value for value in inputs))
    arrays = [to_numpy(value) if isinstance(value, _arrowwood.Column) else value for value in inputs]
    return getattr(function, method)(*arrays, **(keywords or {}))


def function(function, inputs, keywords):
    """Any other function of NumPy's on columns; see ``Column.__array_function__``."""
    return function(*_arrays(inputs), **{name: _arrays(value) for name, value in keywords.items()})


def _arrays(value):
    """`value` with arrays in place of columns, which may be in lists, as for ``np.stack``."""
    if isinstance(value, _arrowwood.Column):
        return to_numpy(value)
    if type(value) in (list, tuple):
        return type(value)([_arrays(item) for item in value])
    return value


def _is_plain(value):
    """Whether it is a scalar that Python has a class for, and nothing is lost by that."""
    return isinstance(value, np.generic) and value.dtype.kind not in "mM"


def _turned(compare):
    turned = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}
    return turned.get(compare, compare)


def dlpack(column, stream, max_version, dl_device, copy):
    """The values of `column` as a capsule; see ``Column.__dlpack__``."""
    try:
        array = to_numpy(column, False if copy is False else None)
    except CopyNeeded as needed:
        raise BufferError(str(needed)) from needed
    if array.dtype.kind not in "biufc":
        raise BufferError(f"column {column.name!r} of {column.dtype} is no numbers, which is what DLPack has")
    is_told = max_version is not None and max_version[0] >= 1
    if not array.flags.writeable:
        # PyTorch does not heed that values are read-only, and others can't be told.
        private = _private(array)
        if private is not None:
            array = private
        elif not is_told and copy is not False:
            array = array.copy()
    asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    # NumPy before 2.1 knows the first one only; its TypeError is what consumers expect then, and ask for less.
    return array.__dlpack__(**{name: value for name, value in asked.items() if value is not None})


def _private(array):
    """The values of `array`, which are those of a mapped file, in a mapping of their own: pages that are written to are
    copied, so that neither the file nor anybody else sees that. ``None`` if there is no such file."""
    # No stride of ours is negative.
    length = array.itemsize + sum(
        (count - 1) * stride for count, stride in zip(array.shape, array.strides, strict=True)
    )
    start = array.__array_interface__["data"][0]
    found = _mapped_at(start, start + length) if array.size else None
    if found is None:
        return None
    path, offset = found
    try:
        bytes_there = np.asarray(_arrowwood.map(path, "c", offset=offset, length=length))
    except (OSError, ValueError):
        # The file is no longer there, or memory that may be written to is short.
        return None
    return np.ndarray(array.shape, array.dtype, bytes_there, 0, array.strides)


def _mapped_at(low, high):
    """The path of the file that is mapped from address `low` to `high`, and the offset of `low` in it, if any is."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            addresses, _, offset, _, inode, *path = line.split(maxsplit=5)
            start, end = (int(address, 16) for address in addresses.split("-"))
            if start <= low and high <= end:
                break
        else:
            return None
    path = path[0].rstrip("\n").replace("\\012", "\n") if path else ""
    try:
        is_there = path.startswith("/") and os.stat(path).st_ino == int(inode)
    except OSError:
        is_there = False
    return (path, int(offset, 16) + low - start) if is_there else None


def _refuse_copies(column, dtype, parts):
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
    array = _plain(values, np.dtype(dtype))
    # All chunks must get the same type, so a chunk without nulls follows those that have some.
    if has_nulls and array.dtype.kind in "iu":
        array = array.astype("float64")
    if nulls is not None:
        if not array.flags.writeable:
            array = array.copy()
        array[np.frombuffer(nulls, dtype="bool")] = np.nan if array.dtype.kind == "f" else "NaT"
    return array


def _plain(values, dtype):
    array = np.asarray(values)
    # Dates of 32 bits are the one type that NumPy holds in another width, booleans come as bytes made for this array.
    in_place = array.dtype.itemsize == dtype.itemsize and dtype.kind != "b"
    return array.view(dtype) if in_place else array.astype(dtype)
