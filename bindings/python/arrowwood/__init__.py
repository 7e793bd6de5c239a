"""Arrowwood opens Apache Arrow data of any size in place, by memory mapping, in microseconds.

>>> import arrowwood as aw
>>> ds = aw.open("flights.arrow")        # metadata is read, no value is touched
>>> ds["price"].mean()                   # at the speed of memory
>>> ds[700_000_000]                      # a row, as a dict

Three classes: :class:`Dataset`, a table of rows, made by :func:`open`; :class:`Writer`, which appends to a growing
table, made by :func:`writer`; and :class:`Mapping`, a file as typed memory, made by :func:`map`. Datasets pass to
pyarrow, Polars, pandas, DataFusion and DuckDB without copying.
"""

from arrowwood._arrowwood import (
    Aggregation,
    Buffer,
    Builder,
    Column,
    Dataset,
    Expression,
    Field,
    Follow,
    Mapping,
    PartitionedWriter,
    Predicate,
    Schema,
    StreamReader,
    StreamWriter,
    TextConditions,
    TimeParts,
    Writer,
    __version__,
    aggregation,
    alter,
    check,
    col,
    compact,
    concat,
    drop_partition,
    follow,
    from_arrow,
    map,
    open,
    read_csv,
    read_json,
    read_stream,
    repair,
    stream_writer,
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
    InternalError,
    InvalidArgument,
    InvalidData,
    IoError,
    NotFound,
    OutOfMemory,
    PermissionDenied,
    RowOutOfRange,
    SchemaMismatch,
    Unsupported,
)
from arrowwood._types import Finding, Footprint, Message, MonthDayNano, Partition, Repaired, Report, Split

__all__ = [
    "Aggregation",
    "AsyncRemoteWriter",
    "Buffer",
    "Builder",
    "Busy",
    "Closed",
    "Column",
    "ColumnNotFound",
    "Connection",
    "CopyNeeded",
    "Dataset",
    "Error",
    "Expression",
    "Field",
    "FileChanged",
    "Finding",
    "Follow",
    "Footprint",
    "InternalError",
    "InvalidArgument",
    "InvalidData",
    "IoError",
    "Loader",
    "Mapping",
    "Message",
    "MonthDayNano",
    "NotFound",
    "OutOfMemory",
    "Partition",
    "PartitionedWriter",
    "PermissionDenied",
    "Predicate",
    "RemoteFollow",
    "RemoteTable",
    "RemoteWriter",
    "Repaired",
    "Report",
    "RowOutOfRange",
    "Schema",
    "SchemaMismatch",
    "Server",
    "Split",
    "StreamReader",
    "StreamWriter",
    "TextConditions",
    "TimeParts",
    "Unsupported",
    "View",
    "Writer",
    "__version__",
    "aggregation",
    "alter",
    "check",
    "col",
    "compact",
    "concat",
    "connect",
    "dask",
    "drop_partition",
    "follow",
    "from_arrow",
    "map",
    "open",
    "read_csv",
    "read_json",
    "read_parquet",
    "read_stream",
    "repair",
    "scan",
    "serve",
    "sql",
    "stream_writer",
    "view",
    "write",
    "writer",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arrowwood._engines.dask import dask
    from arrowwood._engines.duckdb import sql
    from arrowwood._engines.parquet import read_parquet
    from arrowwood._engines.polars_scan import scan
    from arrowwood._loader import Loader
    from arrowwood._remote import AsyncRemoteWriter, Connection, RemoteFollow, RemoteTable, RemoteWriter, connect
    from arrowwood._serve import Server, serve
    from arrowwood._view import View, view

# Maps names to modules that are imported on first use, as they take longer to import than a file takes to open.
_LAZY_IMPORTS = {
    "Loader": "arrowwood._loader",
    "AsyncRemoteWriter": "arrowwood._remote",
    "Connection": "arrowwood._remote",
    "RemoteFollow": "arrowwood._remote",
    "RemoteTable": "arrowwood._remote",
    "RemoteWriter": "arrowwood._remote",
    "Server": "arrowwood._serve",
    "connect": "arrowwood._remote",
    "dask": "arrowwood._engines.dask",
    "read_parquet": "arrowwood._engines.parquet",
    "scan": "arrowwood._engines.polars_scan",
    "serve": "arrowwood._serve",
    "sql": "arrowwood._engines.duckdb",
    "View": "arrowwood._view",
    "view": "arrowwood._view",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _LAZY_IMPORTS:
        # Python itself looks up names with underscores, and needs no hint.
        if not name.startswith("_"):
            import_module("arrowwood._hints").raise_for_module(name)
        raise AttributeError(f"module 'arrowwood' has no attribute {name!r}", name=name)

    value = globals()[name] = getattr(import_module(_LAZY_IMPORTS[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_IMPORTS})
