"""Lazy frames of Polars over datasets."""

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from arrowwood import _arrowwood
from arrowwood._errors import Unsupported
from arrowwood._extras import engine
from arrowwood._polars import refuse_unknown

if TYPE_CHECKING:
    import polars as pl

# Rows that are handed to Polars at once: enough for all threads, and few beside the memory of any machine.
_PIECE = 4 << 20

_OPERATORS = {"Eq": "__eq__", "NotEq": "__ne__", "Lt": "__lt__", "LtEq": "__le__", "Gt": "__gt__", "GtEq": "__ge__"}
_OPPOSITE = {"Gt": "__le__", "GtEq": "__lt__"}
_CLOSED = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
_UNITS = {
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
    _refuse_unknown(dataset)

    def read(columns: list[str] | None, predicate: Any, rows: int | None, _size: int | None) -> Iterator[Any]:
        return _read(dataset, columns, predicate, rows)

    return plugins.register_io_source(read, schema=dataset.head(0).to_polars().schema)


def _refuse_unknown(dataset: Any) -> None:
    refuse_unknown(dataset, "scan()")
    seen = set()
    for field in dataset.schema:
        if field.name in seen:
            raise Unsupported(f"scan(): two columns are called {field.name!r}, and Polars knows columns by name")
        seen.add(field.name)


def _read(dataset: Any, columns: list[str] | None, predicate: Any, rows: int | None) -> Iterator[Any]:
    if rows is not None:
        dataset = dataset.head(rows)
    ours, is_all = None, predicate is None
    if predicate is not None:
        condition = _Condition(dataset, predicate)
        ours, is_all = condition.predicate, condition.is_exact
    if ours is not None:
        dataset = dataset._narrowed(ours)
    if columns is not None:
        dataset = dataset.select(columns)
    # One piece at least, as even no rows have columns.
    for start in range(0, max(len(dataset), 1), _PIECE):
        piece = dataset[start : start + _PIECE]
        if ours is not None:
            piece = piece.filter(ours)
        frame = piece.to_polars()
        yield frame if is_all else frame.filter(predicate)


class _Condition:
    """The part of a Polars condition that our predicates can express; it matches all of its rows, and maybe more."""

    def __init__(self, dataset: Any, condition: Any) -> None:
        self._types = {field.name: field.type for field in dataset.schema}
        self.is_exact = True
        self.predicate = None
        try:
            tree = json.loads(condition.meta.serialize(format="json"))
            self.predicate = self._conjunction(tree)
        except (_Unknown, ValueError, RecursionError):
            # Of hundreds of parts, each is a level of the tree.
            self.is_exact = False

    def _conjunction(self, node: Any) -> Any:
        """The predicate of conditions that must all hold, leaving out those that are unknown here."""
        binary = node.get("BinaryExpr") if isinstance(node, dict) else None
        if binary is None or binary["op"] not in ("And", "LogicalAnd"):
            return self._predicate(node)
        found = []
        for side in (binary["left"], binary["right"]):
            try:
                found.append(self._conjunction(side))
            except _Unknown:
                self.is_exact = False
        if not found:
            raise _Unknown
        return found[0] if len(found) == 1 else found[0] & found[1]

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
            case {"Function": {"input": inputs, "function": {"Boolean": what}}}:
                return self._function(inputs, what)
            case {"Column": name} if self._types.get(name) == "bool":
                return _arrowwood.col(name) == True  # noqa: E712
        raise _Unknown

    def _function(self, inputs: Any, what: Any) -> Any:
        match inputs, what:
            case [inner], "Not":
                return ~self._predicate(inner)
            case [{"Column": name}], "IsNull" if name in self._types:
                return _arrowwood.col(name).is_null()
            case [{"Column": name}], "IsNotNull" if name in self._types:
                return _arrowwood.col(name).is_not_null()
            case [{"Column": name}, {"Literal": low}, {"Literal": high}], {"IsBetween": {"closed": closed}}:
                least, most = _CLOSED[closed]
                return self._compare(name, least, low) & self._compare(name, most, high)
            case [{"Column": name}, {"Literal": {"Scalar": {"List": data}}}], {"IsIn": {"nulls_equal": False}}:
                return self._is_in(name, data)
        raise _Unknown

    def _compare(self, name: str, op: str, literal: Any) -> Any:
        column, value = _arrowwood.col(name), self._value(name, op, literal)
        if isinstance(value, float) and op in _OPPOSITE:
            # To Polars NaN is greater than all else, to us it is not less either.
            return ~getattr(column, _OPPOSITE[op])(value)
        return getattr(column, _OPERATORS[op])(value)

    def _value(self, name: str, op: str, literal: Any) -> Any:
        """The literal as a value of the column; Polars has made both of one type."""
        kind = self._types.get(name, "")
        match literal:
            case {"Scalar": {"String": str(text)}} if _is_text(kind) or _is_key(kind) and op in ("Eq", "NotEq"):
                return text
            case {"Scalar": {"Boolean": bool(flag)}} if kind == "bool" and op in ("Eq", "NotEq"):
                return flag
            case {"Scalar": {"Float64": float(number)}} if kind == "float64":
                return number
            case {"Scalar": {"Float32": float(number)}} if kind == "float32":
                # It is written with as many digits as tell it from other floats of 32 bits.
                return float(np.float32(number))
            case {"Scalar": {"Date": int(days)}} if kind == "date32":
                return days
            case {"Scalar": {"Datetime": [int(ticks), str(unit), zone]}} if kind.startswith("timestamp["):
                return _ticks(kind, ticks, unit, zone)
            case {"Scalar": dict(scalar)} if _is_integer(kind) and kind in (found.lower() for found in scalar):
                (number,) = scalar.values()
                return number
        raise _Unknown

    def _is_in(self, name: str, data: list[int]) -> Any:
        kind = self._types.get(name, "")
        if not (_is_text(kind) or _is_key(kind) or _is_integer(kind)):
            raise _Unknown
        values = engine("polars", "scan()", "polars").read_ipc_stream(io.BytesIO(bytes(data))).to_series().to_list()
        wanted = int if _is_integer(kind) else str
        if not all(type(value) is wanted for value in values):
            raise _Unknown
        return _arrowwood.col(name).is_in(values)


class _Unknown(Exception):
    """A part of a condition that our predicates can't express."""


def _is_text(kind: str) -> bool:
    return kind in ("utf8", "large_utf8", "utf8_view")


def _is_key(kind: str) -> bool:
    return kind.startswith("dictionary<") and kind.endswith(("utf8>", "utf8_view>"))


def _is_integer(kind: str) -> bool:
    return kind.removeprefix("u") in ("int8", "int16", "int32", "int64")


def _ticks(kind: str, ticks: int, unit: str, zone: Any) -> int:
    """A time in the unit of the column of type `kind`."""
    ours, _, ours_zone = kind.removeprefix("timestamp[").removesuffix("]").partition(", ")
    theirs_zone = zone.get("inner", "") if isinstance(zone, dict) else zone or ""
    exact, rest = divmod(ticks * _UNITS.get(ours, 0), _UNITS.get(unit, 0) or 1)
    # With a zone, whichever it is, ticks are counted in UTC.
    if rest or ours not in _UNITS or unit not in _UNITS or bool(ours_zone) != bool(theirs_zone):
        raise _Unknown
    return exact
