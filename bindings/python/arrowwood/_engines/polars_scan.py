"""Makes Polars lazy frames over datasets."""

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from arrowwood import _arrowwood
from arrowwood._engines.polars import refuse_unknown
from arrowwood._errors import Unsupported
from arrowwood._extras import engine

if TYPE_CHECKING:
    import polars as pl

# The rows of a batch for Polars: enough for all threads, and few compared to the memory of any machine.
_BATCH_ROWS = 4 << 20

_OPERATORS = {"Eq": "__eq__", "NotEq": "__ne__", "Lt": "__lt__", "LtEq": "__le__", "Gt": "__gt__", "GtEq": "__ge__"}
_OPPOSITE = {"Gt": "__le__", "GtEq": "__lt__"}
_BOUNDS_BY_CLOSED = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
_TICKS_PER_SECOND = {
    "s": 1,
    "ms": 10**3,
    "us": 10**6,
    "ns": 10**9,
    "Milliseconds": 10**3,
    "Microseconds": 10**6,
    "Nanoseconds": 10**9,
}


def scan(source: Any) -> "pl.LazyFrame":
    """A Polars lazy frame over the data at a path: ``aw.scan("ticks/").filter(pl.col("price") > 100).collect()``.

    Only requested columns are read, only the first rows if no more are needed, and in a table sorted by a column only
    the rows between a condition's bounds. Comparisons with values are evaluated by ``Dataset.filter``, all other
    conditions by Polars. A growing table is used as of now.

    Args:
        source: a dataset, or any source of ``open``.

    Raises:
        ImportError: Polars is not installed: ``pip install 'arrowwood[polars]'``.
        NotFound, PermissionDenied, InvalidData: the data cannot be opened.
        Unsupported: Polars has no such columns: intervals, unions, decimals of 256 bits or with a negative scale, or
            two of the same name.
    """
    engine("polars", "scan()", "polars")
    plugins = engine("polars.io.plugins", "scan()", "polars")
    dataset = source if isinstance(source, _arrowwood.Dataset) else _arrowwood.open(source)
    _check_columns(dataset)

    def read(columns: list[str] | None, predicate: Any, rows: int | None, _size: int | None) -> Iterator[Any]:
        return _read(dataset, columns, predicate, rows)

    return plugins.register_io_source(read, schema=dataset.head(0).to_polars().schema)


def _check_columns(dataset: Any) -> None:
    """Refuses columns that Polars can't have."""
    refuse_unknown(dataset, "scan()")
    names = set()
    for field in dataset.schema:
        if field.name in names:
            raise Unsupported(f"scan(): two columns are called {field.name!r}, and Polars knows columns by name")
        names.add(field.name)


def _read(dataset: Any, columns: list[str] | None, predicate: Any, rows: int | None) -> Iterator[Any]:
    """Yields data frames of the rows that meet a condition of Polars."""
    if rows is not None:
        dataset = dataset.head(rows)
    native = None
    is_exact = True
    if predicate is not None:
        condition = _Condition(dataset, predicate)
        native = condition.predicate
        is_exact = condition.is_exact
    if native is not None:
        dataset = dataset._narrowed(native)
    if columns is not None:
        dataset = dataset.select(columns)
    # Yields at least one batch, as a result without rows still has columns.
    for start in range(0, max(len(dataset), 1), _BATCH_ROWS):
        batch = dataset[start : start + _BATCH_ROWS]
        if native is not None:
            batch = batch.filter(native)
        frame = batch.to_polars()
        yield frame if is_exact else frame.filter(predicate)


class _Condition:
    """A Polars condition as one of our predicates, which matches the same rows, or more if it is not exact."""

    def __init__(self, dataset: Any, condition: Any) -> None:
        self._types = {field.name: field.type for field in dataset.schema}
        self.is_exact = True
        self.predicate = None
        try:
            tree = json.loads(condition.meta.serialize(format="json"))
            self.predicate = self._conjunction(tree)
        except (_Untranslatable, ValueError, RecursionError):
            # RecursionError: a condition with hundreds of parts nests as many levels deep.
            self.is_exact = False

    def _conjunction(self, node: Any) -> Any:
        """Returns a predicate for conditions that must all hold, without the parts that can't be translated."""
        binary = node.get("BinaryExpr") if isinstance(node, dict) else None
        if binary is None or binary["op"] not in ("And", "LogicalAnd"):
            return self._predicate(node)
        parts = []
        for side in (binary["left"], binary["right"]):
            try:
                parts.append(self._conjunction(side))
            except _Untranslatable:
                self.is_exact = False
        if not parts:
            raise _Untranslatable
        return parts[0] if len(parts) == 1 else parts[0] & parts[1]

    def _predicate(self, node: Any) -> Any:
        match node:
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                return self._predicate(left) & self._predicate(right)
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                return self._predicate(left) | self._predicate(right)
            case {"BinaryExpr": {"left": {"Column": name}, "op": op, "right": {"Literal": literal}}} if (
                op in _OPERATORS
            ):
                return self._compare(name, op, literal)
            case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
                return self._function(inputs, function)
            case {"Column": name} if self._types.get(name) == "bool":
                return _arrowwood.col(name) == True  # noqa: E712
        raise _Untranslatable

    def _function(self, inputs: Any, function: Any) -> Any:
        match inputs, function:
            case [inner], "Not":
                return ~self._predicate(inner)
            case [{"Column": name}], "IsNull" if name in self._types:
                return _arrowwood.col(name).is_null()
            case [{"Column": name}], "IsNotNull" if name in self._types:
                return _arrowwood.col(name).is_not_null()
            case [{"Column": name}, {"Literal": low}, {"Literal": high}], {"IsBetween": {"closed": closed}}:
                lower, upper = _BOUNDS_BY_CLOSED[closed]
                return self._compare(name, lower, low) & self._compare(name, upper, high)
            case [{"Column": name}, {"Literal": {"Scalar": {"List": data}}}], {"IsIn": {"nulls_equal": False}}:
                return self._is_in(name, data)
        raise _Untranslatable

    def _compare(self, name: str, op: str, literal: Any) -> Any:
        column = _arrowwood.col(name)
        value = self._value(name, op, literal)
        if isinstance(value, float) and op in _OPPOSITE:
            # NaN is greater than all numbers in Polars, and here not less than any: negate the opposite comparison.
            return ~getattr(column, _OPPOSITE[op])(value)
        return getattr(column, _OPERATORS[op])(value)

    def _value(self, name: str, op: str, literal: Any) -> Any:
        """Returns a literal as a value of the column; Polars has cast both to one type."""
        kind = self._types.get(name, "")
        match literal:
            case {"Scalar": {"String": str(text)}} if (
                _is_text(kind) or _is_text_dictionary(kind) and op in ("Eq", "NotEq")
            ):
                return text
            case {"Scalar": {"Boolean": bool(flag)}} if kind == "bool" and op in ("Eq", "NotEq"):
                return flag
            case {"Scalar": {"Float64": float(number)}} if kind == "float64":
                return number
            case {"Scalar": {"Float32": float(number)}} if kind == "float32":
                # The text has just enough digits to identify a float of 32 bits.
                return float(np.float32(number))
            case {"Scalar": {"Date": int(days)}} if kind == "date32":
                return days
            case {"Scalar": {"Datetime": [int(ticks), str(unit), zone]}} if kind.startswith("timestamp["):
                return _ticks(kind, ticks, unit, zone)
            case {"Scalar": dict(scalar)} if _is_integer(kind) and kind in (type_name.lower() for type_name in scalar):
                (number,) = scalar.values()
                return number
        raise _Untranslatable

    def _is_in(self, name: str, data: list[int]) -> Any:
        kind = self._types.get(name, "")
        if not (_is_text(kind) or _is_text_dictionary(kind) or _is_integer(kind)):
            raise _Untranslatable
        values = engine("polars", "scan()", "polars").read_ipc_stream(io.BytesIO(bytes(data))).to_series().to_list()
        expected_type = int if _is_integer(kind) else str
        if not all(type(value) is expected_type for value in values):
            raise _Untranslatable
        return _arrowwood.col(name).is_in(values)


class _Untranslatable(Exception):
    """Reports a part of a condition that our predicates can't express."""


def _is_text(kind: str) -> bool:
    return kind in ("utf8", "large_utf8", "utf8_view")


def _is_text_dictionary(kind: str) -> bool:
    return kind.startswith("dictionary<") and kind.endswith(("utf8>", "utf8_view>"))


def _is_integer(kind: str) -> bool:
    return kind.removeprefix("u") in ("int8", "int16", "int32", "int64")


def _ticks(kind: str, ticks: int, unit: str, zone: Any) -> int:
    """Converts a time to the unit of a column of type `kind`."""
    column_unit, _, column_zone = kind.removeprefix("timestamp[").removesuffix("]").partition(", ")
    literal_zone = zone.get("inner", "") if isinstance(zone, dict) else zone or ""
    # Ticks of times with any zone count in UTC, so zones need not be equal.
    if bool(column_zone) != bool(literal_zone):
        raise _Untranslatable
    if column_unit not in _TICKS_PER_SECOND or unit not in _TICKS_PER_SECOND:
        raise _Untranslatable
    column_ticks, remainder = divmod(ticks * _TICKS_PER_SECOND[column_unit], _TICKS_PER_SECOND[unit])
    if remainder:
        raise _Untranslatable
    return column_ticks
