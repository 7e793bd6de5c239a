"""Arrowwood opens Apache Arrow data of any size in place, by memory mapping, in microseconds.

>>> import arrowwood as aw
>>> ds = aw.open("flights.arrow")        # metadata is read, no value is touched
>>> ds["price"].mean()                   # at the speed of memory
>>> ds[700_000_000]                      # a row, as a dict

Three nouns: :class:`Dataset`, a table of rows made by :func:`open`; :class:`Writer`, which appends to a growing table,
made by :func:`writer`; and :class:`Mapping`, a file as typed memory made by :func:`map`. Datasets pass to pyarrow, Polars, pandas, DataFusion and DuckDB without copying.
"""

from arrowwood._arrowwood import (
    Column,
    Dataset,
    Field,
    Follow,
    Mapping,
    Schema,
    Writer,
    __version__,
    check,
    compact,
    concat,
    follow,
    from_arrow,
    map,
    open,
    read_csv,
    repair,
    write,
    writer,
)
from arrowwood._errors import (
    Busy,
    Closed,
    ColumnNotFound,
    CopyNeeded,
    Error,
    FileChanged,
    InvalidArgument,
    InvalidData,
    IoError,
    NotFound,
    PermissionDenied,
    RowOutOfRange,
    SchemaMismatch,
    Unsupported,
)
from arrowwood._types import Finding, Footprint, Message, MonthDayNano, Repaired, Report

__all__ = [
    "Busy",
    "Closed",
    "Column",
    "ColumnNotFound",
    "CopyNeeded",
    "Dataset",
    "Error",
    "Field",
    "FileChanged",
    "Finding",
    "Follow",
    "Footprint",
    "InvalidArgument",
    "InvalidData",
    "IoError",
    "Mapping",
    "Message",
    "MonthDayNano",
    "NotFound",
    "PermissionDenied",
    "Repaired",
    "Report",
    "RowOutOfRange",
    "Schema",
    "SchemaMismatch",
    "Unsupported",
    "Writer",
    "__version__",
    "check",
    "compact",
    "concat",
    "follow",
    "from_arrow",
    "map",
    "open",
    "read_csv",
    "repair",
    "write",
    "writer",
]
