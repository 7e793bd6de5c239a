"""Compares results of Arrowwood with results of Polars and pandas on the same sample."""

import datetime
import decimal
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import arrowwood as aw

# Nulls, NaN, duplicates, negative numbers, empty text, letters beyond ASCII, times and lists.
COLUMNS = {
    "x": pa.array([3, 1, None, 2, 1, 0, 7, 5, 5, 12, -4, 9] * 2, pa.int64()),
    "y": pa.array([0.5, None, math.nan, 2.25, -1.0, 0.5, 1e3, 0.0, -2.5, None, 3.5, 1.5] * 2, pa.float64()),
    "n": pa.array([*range(24)], pa.int64()),
    "flag": pa.array([True, None, False] * 8, pa.bool_()),
    "s": pa.array(["A b", "ab a", None, "", "été Ab", "\tcab ", "zz", "aaa"] * 3, pa.string()),
    "k": pa.array(["b", "a", None, "b", "c", "a"] * 4, pa.string()),
    "ts": pa.array([datetime.datetime(2024, 2, 28, 22, 10) + i * datetime.timedelta(minutes=40) for i in range(24)]),
    "d": pa.array([None if i % 5 == 4 else datetime.timedelta(seconds=37 * i - 90) for i in range(24)]),
    "items": pa.array([None if i % 7 == 3 else [*range(i % 4 + 1)] for i in range(24)], pa.list_(pa.int64())),
    "p": pa.array([{"a": i} for i in range(24)]),
}
TABLE = pa.table(COLUMNS)
# Batches of several lengths, also an empty one.
ROWS = aw.concat([TABLE[:7], TABLE[7:7], TABLE[7:]])
POLARS = pl.from_arrow(TABLE)
PANDAS = TABLE.to_pandas()


def pandas_scalar_to_python(value: Any) -> Any:
    """Converts a scalar of NumPy or pandas, and returns other values unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, pd.Timedelta):
        return value.to_pytimedelta()
    return value


def to_python(value: Any) -> Any:
    """Returns a value as a Python object, with None for the nulls of pandas."""
    value = pandas_scalar_to_python(value)
    if isinstance(value, aw.MonthDayNano) and not value.months:
        # DuckDB turns durations into intervals.
        return datetime.timedelta(days=value.days, microseconds=value.nanoseconds / 1000)
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, list | tuple | np.ndarray | pl.Series):
        return [to_python(item) for item in value]
    if isinstance(value, dict):
        return {name: to_python(member) for name, member in value.items()}
    return float(value) if isinstance(value, decimal.Decimal) else value


class PlainResult(NamedTuple):
    """A result as a dict of lists, a list, or a value, and whether its library uses NaN for nulls."""

    value: Any
    has_nan_for_null: bool


def to_plain(result: Any) -> PlainResult:
    """Converts a result of Arrowwood, pyarrow, Polars, pandas or NumPy to Python objects."""
    if isinstance(result, aw.Predicate):
        result = ROWS.filter(result)
    if isinstance(result, pl.LazyFrame):
        result = result.collect()
    if isinstance(result, aw.Dataset | pa.Table):
        columns = {name: to_python(result[name].to_pylist()) for name in result.schema.names}
        return PlainResult(columns, has_nan_for_null=False)
    if isinstance(result, pl.DataFrame):
        columns = {name: to_python(result[name].to_list()) for name in result.columns}
        return PlainResult(columns, has_nan_for_null=False)
    if isinstance(result, pd.DataFrame):
        columns = {str(name): to_python(result[name].tolist()) for name in result.columns}
        return PlainResult(columns, has_nan_for_null=True)
    if isinstance(result, aw.Column | pa.ChunkedArray):
        return PlainResult(to_python(result.to_pylist()), has_nan_for_null=False)
    if isinstance(result, pl.Series):
        return PlainResult(to_python(result.to_list()), has_nan_for_null=False)
    if isinstance(result, pd.Series | pd.Index | np.ndarray):
        return PlainResult(to_python(result.tolist()), has_nan_for_null=True)
    if isinstance(result, aw.Mapping):
        return PlainResult(result.tolist(), has_nan_for_null=False)
    if isinstance(result, range | type({}.items())):
        result = list(result)
    if isinstance(result, list | tuple):
        items = [to_plain(item) for item in result]
        return PlainResult([item.value for item in items], any(item.has_nan_for_null for item in items))
    if isinstance(result, dict):
        members = {name: to_plain(member) for name, member in result.items()}
        value = {name: member.value for name, member in members.items()}
        return PlainResult(value, any(member.has_nan_for_null for member in members.values()))
    return PlainResult(to_python(result), has_nan_for_null=isinstance(result, np.generic))


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def is_same(left: Any, right: Any, nan_is_null: bool = False) -> bool:
    """Returns whether two plain values are the same, apart from rounding and time zones.

    `nan_is_null` accepts NaN for null.
    """
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(is_same(left[name], right[name], nan_is_null) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_same(*pair, nan_is_null) for pair in zip(left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if nan_is_null and (left is None or right is None):
        other = right if left is None else left
        return other is None or is_nan(other)
    if isinstance(left, datetime.datetime) and isinstance(right, datetime.datetime):
        return left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return type(left) is type(right) and left == right


def sort_key(value: Any) -> str:
    """Returns a text by which rows are sorted; null and NaN, and 1 and 1.0, have the same."""
    if isinstance(value, tuple | list):
        return repr([sort_key(item) for item in value])
    if value is None or is_nan(value):
        return "null"
    return repr(float(value) if isinstance(value, int) else value)


def sort_rows(result: dict | list) -> dict | list:
    """Returns a dict of columns or a list with its rows sorted."""
    if isinstance(result, dict):
        rows = sorted(zip(*result.values()), key=sort_key)
        return {name: [row[index] for row in rows] for index, name in enumerate(result)}
    return sorted(result, key=sort_key)


def difference(ours: Any, theirs: Any, is_ordered: bool = True, is_loose: bool = False) -> str | None:
    """Describes the difference of two results, or returns None if they are the same.

    Rows are compared in any order unless `is_ordered`. If `is_loose`, NaN is null, as it is if either library has NaN
    for null.
    """
    left, left_has_nan = to_plain(ours)
    right, right_has_nan = to_plain(theirs)
    if isinstance(left, dict) and isinstance(right, list):
        # Compares one column of the rows.
        name = "z" if "z" in left else getattr(theirs, "name", None)
        left = left[name if name in left else list(left)[0]]
    if isinstance(left, dict) and isinstance(right, dict) and set(left) == set(right):
        left = {name: left[name] for name in right}
    if not is_ordered:
        left, right = sort_rows(left), sort_rows(right)
    nan_is_null = is_loose or left_has_nan or right_has_nan
    if is_same(left, right, nan_is_null):
        return None
    if isinstance(left, dict) and isinstance(right, dict) and list(left) == list(right):
        name = next(name for name in left if not is_same(left[name], right[name], nan_is_null))
        return f"column {name!r}: {left[name]!r}\nis not\n{right[name]!r}"
    return f"{left!r}\nis not\n{right!r}"
