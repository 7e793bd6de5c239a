"""Prepares tables and columns of Python, NumPy and pandas for the compiled module."""

import sys
from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument, RowOutOfRange

_EXPORTS = ("__arrow_c_stream__", "__arrow_c_array__")
_FINER_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}


def batches(data):
    """Returns whether `data` is a list or iterator of tables that export Arrow data, and its items from the first."""
    if isinstance(data, list):
        return bool(data) and all(_exports(part) for part in data), data
    if not isinstance(data, Iterator) or _exports(data):
        return False, data
    first = next(data, None)
    items = chain([] if first is None else [first], data)
    return first is not None and _exports(first), items


def hugging_face(data):
    """Returns a dataset over the table and the row order of a Hugging Face dataset; None for anything else."""
    if type(data).__module__.partition(".")[0] != "datasets":
        return None
    if isinstance(data, Mapping):
        splits = ", ".join(repr(name) for name in data)
        raise InvalidArgument(
            f"expected one dataset, got the splits {splits}: choose one, such as splits[{next(iter(data), 'train')!r}]"
        )
    if not hasattr(data, "data") or not hasattr(data.data, "table"):
        return None
    dataset = _arrowwood.from_arrow(data.data.table)
    order = getattr(data, "_indices", None)
    return dataset if order is None else dataset._view_of(order.column(0).to_numpy().astype("<u8").tobytes())


def table(data):
    """Returns `data`, or a table to read in its place.

    A pandas frame keeps an index that has a name, as with pyarrow, and becomes columns where pyarrow is missing.
    """
    dataset = hugging_face(data)
    if dataset is not None:
        return dataset
    if type(data).__name__ == "LazyFrame":
        raise TypeError("expected rows, got LazyFrame, which has none yet: give what its method collect() returns")
    if not (_is_pandas(data) and hasattr(data, "columns")):
        return data
    index, names = data.index, _index_names(data)
    if not _exports(data):
        return _columns(data, names)
    is_range = type(index).__name__ == "RangeIndex"
    if any(name is not None for name in names):
        # pyarrow stores a range index as metadata only, even with a name; repeat(1) turns it into values.
        return data.set_axis(index.repeat(1), axis=0) if is_range else data
    return data if is_range else data.reset_index(drop=True)


def _index_names(frame):
    """Returns the names of a pandas frame's index, one for each level, None for a level without a name."""
    columns = set(map(str, frame.columns))
    for name in frame.index.names:
        if name is not None and str(name) in columns:
            raise InvalidArgument(
                f"the index and a column are called {name!r}: give df.reset_index(drop=True), or rename one"
            )
    return frame.index.names


def _columns(frame, names):
    """Returns the columns of a pandas frame, followed by the levels of its index that have names."""
    columns = {str(name): frame.iloc[:, number] for number, name in enumerate(frame.columns)}
    levels = {
        str(name): sys.modules["pandas"].Series(frame.index.get_level_values(level))
        for level, name in enumerate(names)
        if name is not None
    }
    return columns | levels


def column(name, data):
    """Returns a column as an object that exports Arrow data, a list of objects, or the parts of a NumPy array."""
    if isinstance(data, list) or _exports(data):
        return data
    if isinstance(data, str | bytes | bytearray | Mapping):
        raise TypeError(_expected(name, data))
    if _is_pandas(data) and hasattr(data, "isna"):
        series = sys.modules["pandas"].Series(data)
        if _exports(series):
            return series
        nulls = np.asarray(data.isna())
        # Without a dtype, to_numpy() turns nullable numbers into floats, which rounds them.
        dtype = getattr(data.dtype, "numpy_dtype", None)
        if dtype is not None and dtype.kind in "biuf":
            values = data.to_numpy(dtype=dtype, na_value=dtype.type(0))
        else:
            values = data.to_numpy()
        parts = _parts(name, values, nulls)
        if isinstance(parts, tuple) and parts[0].startswith("timestamp"):
            # Times without a zone are local in pandas, but may be in UTC in NumPy.
            kind, *rest = parts
            return f"naive {kind}", *rest
        return parts
    if isinstance(data, np.ma.MaskedArray):
        return _parts(name, data.data, np.ma.getmaskarray(data))
    if hasattr(data, "__array__") or _has_buffer(data):
        return _parts(name, np.asarray(data), None)
    try:
        return list(iter(data))
    except TypeError as error:
        raise TypeError(_expected(name, data)) from error


def scalar(value):
    """Returns a NumPy scalar as a Python object, or as (type, number) for a time; None for NaT."""
    if value.dtype.kind not in "mM":
        return value.item()
    if np.isnat(value):
        return None
    if value.dtype.kind == "M" and np.datetime_data(value.dtype)[0] in "YMWD":
        # The caller, which knows the column, checks the range of the day.
        return "date32", int(value.astype("M8[D]").astype("i8"))
    kind, values, _, _ = _parts("value", value.reshape(1), None)
    return kind, int(values[0])


def to_python(value):
    """Returns a NumPy scalar or array as Python objects, except for times: Python's have no nanoseconds."""
    if value.dtype.kind in "mM" and np.ndim(value):
        return list(value)
    # A record is no list.
    return None if value.dtype.kind == "V" else value.tolist()


def is_mask(data):
    """Returns whether `data` has booleans, a mask, instead of row numbers."""
    if isinstance(data, list):
        return bool(data) and all(isinstance(flag, bool | np.bool_) for flag in data)
    kind = getattr(data, "dtype", None) if hasattr(data, "dtype") else getattr(data, "type", None)
    return str(kind).lower() in ("bool", "boolean", "bool[pyarrow]")


def mask(data, rows):
    """Returns the numbers of the rows for which a mask is true; nulls count as false."""
    array = np.asarray(data)
    if array.shape != (rows,):
        raise InvalidArgument(f"a mask has one boolean for each of {rows} rows, got an array of shape {array.shape}")
    if array.dtype == object:
        array = np.fromiter((flag is True or flag is np.True_ for flag in array), bool, rows)
    return np.flatnonzero(array).astype("<i8")


def indices(data):
    """Returns row numbers as a contiguous array of int64."""
    array = np.asarray(data)
    if array.size == 0:
        return np.empty(0, "<i8")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        advice = ""
        if array.dtype == bool:
            advice = '; rows are picked by a condition or a mask in brackets: ds[ds["x"] > 1], ds[mask]'
        elif array.ndim == 0:
            advice = "; the first rows are ds.head(5)"
        raise TypeError(f"expected row numbers, integers in one dimension, got {array.dtype} in {array.ndim}{advice}")
    if array.dtype == "uint64" and (array > np.iinfo("i8").max).any():
        raise RowOutOfRange(f"row {array.max()} is beyond 63 bits")
    return np.ascontiguousarray(array, "<i8")


def _parts(name, array, nulls):
    """Returns (type, contiguous values, null mask or None, shape), or a list of objects."""
    if array.ndim == 0 or array.dtype.kind in "Vc" or array.dtype.itemsize > 8 and array.dtype.kind in "iuf":
        raise TypeError(_expected(name, array))
    if array.dtype.kind not in "biufmM":
        return _objects(array, nulls)
    kind, values = array.dtype.name, array.ravel()
    nulls = None if nulls is None else nulls.ravel()
    if values.dtype.kind in "mM":
        nat = np.isnat(values)
        kind, values = _times(name, values, nat)
        nulls = nat if nulls is None else nulls | nat
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    nulls = np.ascontiguousarray(nulls, "bool") if nulls is not None and nulls.any() else None
    return kind, values, nulls, array.shape


def _objects(array, nulls):
    """Returns the values of an array as lists, with None for nulls."""
    if nulls is None or not nulls.any():
        return array.tolist()
    objects = array.astype(object)
    objects[nulls] = None
    return objects.tolist()


def _times(name, values, nat):
    """Returns the type and the numbers of times or durations."""
    kind = values.dtype.kind
    unit, count = np.datetime_data(values.dtype)
    target_unit = "s" if kind == "m" and unit in ("W", "D") else _FINER_UNITS.get(unit, unit)
    if target_unit not in ("D", "s", "ms", "us", "ns") or (kind == "m" and unit in ("Y", "M")):
        raise TypeError(f"column {name!r}: expected times in units from years to nanoseconds, got {values.dtype}")
    converted = values.astype(f"{kind}8[{target_unit}]")
    if (unit, count) != (target_unit, 1) and not (converted.astype(values.dtype) == values)[~nat].all():
        raise OverflowError(f"column {name!r}: a value of {values.dtype} does not fit into 64 bits of {target_unit}")
    if target_unit != "D":
        return f"{'timestamp' if kind == 'M' else 'duration'}[{target_unit}]", converted.view("i8")
    days = np.where(nat, 0, converted.view("i8"))
    if (days != days.astype("i4")).any():
        raise OverflowError(f"column {name!r}: a day does not fit into date32")
    return "date32", days.astype("i4")


def _is_pandas(data):
    return type(data).__module__.partition(".")[0] == "pandas"


def _exports(data):
    """Returns whether `data` exports Arrow data, which pandas can only do with pyarrow."""
    if not any(hasattr(data, name) for name in _EXPORTS):
        return False
    try:
        return not _is_pandas(data) or __import__("pyarrow") is not None
    except ImportError:
        return False


def _has_buffer(data):
    try:
        return memoryview(data) is not None
    except TypeError:
        return False


def _expected(name, data):
    """Returns the message for a column of an unknown type."""
    actual = f"NumPy {data.dtype}" if isinstance(data, np.ndarray) else type(data).__name__
    return f"column {name!r}: expected a list, a NumPy array of one dimension or more, or Arrow data, got {actual}"
