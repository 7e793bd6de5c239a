"""Calls the C library through ctypes, and exchanges data with it through pyarrow's C data interface."""

import ctypes
import itertools
import os
from functools import cache
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
LIBRARY = Path(os.environ.get("ARROWWOOD_C_LIBRARY") or TARGET / "debug/libarrowwood.so")

# The size of the struct `ArrowSchema`.
SCHEMA_SIZE = 72


class CallFailed(Exception):
    """Raised with the message of a function that returned an error."""


class Error(ctypes.Structure):
    """``arrowwood_error``."""

    _fields_ = [("code", ctypes.c_int32), ("os_error", ctypes.c_int32), ("message", ctypes.c_char_p)]


class WriteOptions(ctypes.Structure):
    """``arrowwood_write_options``."""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("format", ctypes.c_int32),
        ("compression", ctypes.c_int32),
        ("max_rows", ctypes.c_uint64),
    ]


class Column(ctypes.Structure):
    """``arrowwood_column``."""

    _fields_ = [
        ("values", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("offsets", ctypes.POINTER(ctypes.c_int64)),
        ("offset_count", ctypes.c_size_t),
        ("valid", ctypes.c_char_p),
        ("valid_count", ctypes.c_size_t),
    ]


class Stream(ctypes.Structure):
    """``ArrowArrayStream``."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "data")]


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY))


def call(name: str, *arguments) -> None:
    """Calls ``arrowwood_NAME`` with a trailing error argument, and raises :class:`CallFailed` if it fails."""
    error = Error()
    if getattr(library(), f"arrowwood_{name}")(*arguments, ctypes.byref(error)):
        message = error.message.decode()
        library().arrowwood_error_clear(ctypes.byref(error))
        raise CallFailed(message)


class Handle:
    """Owns a pointer to a dataset or a writer, and frees it on exit."""

    def __init__(self, kind: str, constructor: str, *arguments):
        self.kind, self.pointer = kind, ctypes.c_void_p()
        call(constructor, *arguments, ctypes.byref(self.pointer))

    def __enter__(self):
        return self.pointer

    def __exit__(self, *_):
        getattr(library(), f"arrowwood_{self.kind}_free")(self.pointer)


def export_stream(data) -> Stream:
    """Returns the C stream of an object with ``__arrow_c_stream__``."""
    stream = Stream()
    pa.RecordBatchReader.from_stream(data)._export_to_c(ctypes.addressof(stream))
    return stream


def export_schema(schema: pa.Schema) -> ctypes.Array:
    """Returns a buffer with the C struct of a schema."""
    buffer = (ctypes.c_char * SCHEMA_SIZE)()
    schema._export_to_c(ctypes.addressof(buffer))
    return buffer


def import_and_export(table: pa.Table) -> pa.Table:
    """Returns `table` after the library has imported it as a dataset and exported it again."""
    source, result = export_stream(table), Stream()
    with Handle("dataset", "import_stream", ctypes.byref(source)) as dataset:
        call("dataset_stream", dataset, 0, ctypes.byref(result))
        return pa.RecordBatchReader._import_from_c(ctypes.addressof(result)).read_all()


def copy_file(source: str, target: str, is_stream: bool) -> None:
    """Opens the file `source`, and writes it to `target` as an Arrow file or stream."""
    with Handle("dataset", "open", source.encode(), None) as dataset:
        options = WriteOptions(ctypes.sizeof(WriteOptions), int(is_stream), 0, 0)
        call("write", dataset, target.encode(), ctypes.byref(options))


def make_column(values: bytes | list[bytes], valid: list[bool]) -> Column:
    """Returns a column of the bytes of all values, or of a list with the bytes of each text."""
    data = values if isinstance(values, bytes) else b"".join(values)
    column = Column(data, len(data), None, 0, bytes(valid), len(valid))
    if isinstance(values, list):
        offsets = list(itertools.accumulate(map(len, values), initial=0))
        column.offsets = (ctypes.c_int64 * len(offsets))(*offsets)
        column.offset_count = len(offsets)
    return column


def append_columns(schema: pa.Schema, path: str, row_count: int, columns: list[Column]) -> None:
    """Creates a table at `path`, and appends columns of C values."""
    c_schema = export_schema(schema)
    with Handle("writer", "writer_open", path.encode(), ctypes.byref(c_schema), None) as writer:
        array = (Column * len(columns))(*columns)
        call("writer_append_columns", writer, ctypes.c_uint64(row_count), array, ctypes.c_size_t(len(columns)))
        call("writer_close", writer)


def append_stream(data, path: str, schema: pa.Schema) -> None:
    """Creates a table at `path`, and appends `data` as a C stream."""
    c_schema = export_schema(schema)
    stream = export_stream(data)
    with Handle("writer", "writer_open", path.encode(), ctypes.byref(c_schema), None) as writer:
        call("writer_append_stream", writer, ctypes.byref(stream))
        call("writer_close", writer)
