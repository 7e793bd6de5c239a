"""Provides a sample for Arrowwood, Polars and pandas, and makes their results comparable."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import arrowwood as aw

NAN = float("nan")

# Nulls, NaN, duplicates, negative numbers, empty text, letters beyond ASCII, times and lists.
COLUMNS = {
    "x": pa.array([3, 1, None, 2, 1, 0, 7, 5, 5, 12, -4, 9] * 2, pa.int64()),
    "y": pa.array([0.5, None, NAN, 2.25, -1.0, 0.5, 1e3, 0.0, -2.5, None, 3.5, 1.5] * 2, pa.float64()),
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
ROWS = aw.concat([TABLE[:7], TABLE[7:7], TABLE[7:]])
POLARS = pl.from_arrow(TABLE)
PANDAS = TABLE.to_pandas()


def cell(value):
    """Returns a value as a Python object, with None for the nulls of pandas."""
    if isinstance(value, np.generic | pd.Timestamp | pd.Timedelta):
        value = (
            value.item()
            if isinstance(value, np.generic)
            else value.to_pydatetime()
            if isinstance(value, pd.Timestamp)
            else value.to_pytimedelta()
        )
    if isinstance(value, aw.MonthDayNano) and not value.months:
        # DuckDB turns durations into intervals.
        return datetime.timedelta(days=value.days, microseconds=value.nanoseconds / 1000)
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, list | tuple | np.ndarray | pl.Series):
        return [cell(part) for part in value]
    if isinstance(value, dict):
        return {name: cell(part) for name, part in value.items()}
    return float(value) if isinstance(value, decimal.Decimal) else value


def plain(given):
    """Returns a result as a dict of lists, a list, or a value; and whether its nulls may be NaN."""
    if isinstance(given, aw.Predicate):
        given = ROWS.filter(given)
    if isinstance(given, pl.LazyFrame):
        given = given.collect()
    if isinstance(given, aw.Dataset | pa.Table):
        return {name: cell(given[name].to_pylist()) for name in given.schema.names}, False
    if isinstance(given, pl.DataFrame):
        return {name: cell(given[name].to_list()) for name in given.columns}, False
    if isinstance(given, pd.DataFrame):
        return {str(name): cell(given[name].tolist()) for name in given.columns}, True
    if isinstance(given, aw.Column | pa.ChunkedArray):
        return cell(given.to_pylist()), False
    if isinstance(given, pl.Series):
        return cell(given.to_list()), False
    if isinstance(given, pd.Series | pd.Index | np.ndarray):
        return cell(given.tolist()), True
    if isinstance(given, aw.Mapping):
        return given.tolist(), False
    if isinstance(given, range | type({}.items())):
        given = list(given)
    if isinstance(given, list | tuple):
        parts = [plain(part) for part in given]
        return [part for part, _ in parts], any(loose for _, loose in parts)
    if isinstance(given, dict):
        parts = {name: plain(part) for name, part in given.items()}
        return {name: part for name, (part, _) in parts.items()}, any(loose for _, loose in parts.values())
    return cell(given), isinstance(given, np.generic)


def agrees(left, right, loose=False):
    """Returns whether two plain results are the same; `loose` accepts NaN for null."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(agrees(left[name], right[name], loose) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(agrees(a, b, loose) for a, b in zip(left, right))
    numbers = (int, float)
    if isinstance(left, numbers) and isinstance(right, numbers):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if loose and (left is None or right is None):
        other = right if left is None else left
        return other is None or isinstance(other, float) and math.isnan(other)
    if isinstance(left, datetime.datetime) and isinstance(right, datetime.datetime):
        return left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return type(left) is type(right) and left == right


def in_order(answer):
    """Returns the rows of a result, ordered by their text."""

    def key(value):
        if isinstance(value, tuple | list):
            return repr([key(part) for part in value])
        if value is None or isinstance(value, float) and math.isnan(value):
            return "null"
        return repr(float(value) if isinstance(value, int) else value)

    if isinstance(answer, dict):
        rows = sorted(zip(*answer.values()), key=key)
        return {name: [row[at] for row in rows] for at, name in enumerate(answer)}
    return sorted(answer, key=key)


def difference(ours, theirs, is_ordered=True, is_loose=False):
    """Describes the difference of two results; None if they are the same. If `is_loose`, NaN is null."""
    left, ours_loose = plain(ours)
    right, theirs_loose = plain(theirs)
    if isinstance(left, dict) and isinstance(right, list):
        # Compares one column of the rows.
        name = "z" if "z" in left else getattr(theirs, "name", None)
        left = left[name if name in left else list(left)[0]]
    if isinstance(left, dict) and isinstance(right, dict) and set(left) == set(right):
        left = {name: left[name] for name in right}
    if not is_ordered:
        left, right = in_order(left), in_order(right)
    loose = is_loose or ours_loose or theirs_loose
    if agrees(left, right, loose):
        return None
    if isinstance(left, dict) and isinstance(right, dict) and list(left) == list(right):
        (name, *_) = [name for name in left if not agrees(left[name], right[name], loose)]
        return f"column {name!r}: {left[name]!r}\nis not\n{right[name]!r}"
    return f"{left!r}\nis not\n{right!r}"
