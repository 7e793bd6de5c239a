"""The C library on the other side of a border, by ctypes and the C data interface of pyarrow."""

import ctypes
import os
from functools import cache
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
LIBRARY = Path(os.environ.get("ARROWWOOD_C_LIBRARY") or TARGET / "debug/libarrowwood.so")


class Failed(Exception):
    """What a call of the library says."""


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("os_error", ctypes.c_int32), ("message", ctypes.c_char_p)]


class WriteOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("format", ctypes.c_int32),
        ("compression", ctypes.c_int32),
        ("max_rows", ctypes.c_uint64),
    ]


class Stream(ctypes.Structure):
    """``ArrowArrayStream``."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "data")]


@cache
def library():
    return ctypes.CDLL(str(LIBRARY))


def call(name, *arguments):
    error = Error()
    if getattr(library(), f"arrowwood_{name}")(*arguments, ctypes.byref(error)):
        message = error.message.decode()
        library().arrowwood_error_clear(ctypes.byref(error))
        raise Failed(message)


class Handle:
    """A dataset or a writer."""

    def __init__(self, kind, make, *arguments):
        self.kind, self.pointer = kind, ctypes.c_void_p()
        call(make, *arguments, ctypes.byref(self.pointer))

    def __enter__(self):
        return self.pointer

    def __exit__(self, *_):
        getattr(library(), f"arrowwood_{self.kind}_free")(self.pointer)


def stream_of(data):
    """A stream of the C data interface over what exports one."""
    stream = Stream()
    pa.RecordBatchReader.from_stream(data)._export_to_c(ctypes.addressof(stream))
    return stream


def table_of(dataset):
    """What the library exports of a dataset."""
    stream = Stream()
    call("dataset_stream", dataset, 0, ctypes.byref(stream))
    return pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all()


def taken_over(table):
    """`table` through an import and an export."""
    stream = stream_of(table)
    with Handle("dataset", "import_stream", ctypes.byref(stream)) as dataset:
        return table_of(dataset)


def copied(source, target, is_stream):
    with Handle("dataset", "open", source.encode(), None) as dataset:
        options = WriteOptions(ctypes.sizeof(WriteOptions), is_stream, 0, 0)
        call("write", dataset, target.encode(), ctypes.byref(options))


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


def column_of(values, valid):
    """A column of the bytes of each value: with offsets, where `values` is a list."""
    whole = values if isinstance(values, bytes) else b"".join(values)
    column = Column(whole, len(whole), None, 0, bytes(valid), len(valid))
    if isinstance(values, list):
        ends = [sum(map(len, values[:at])) for at in range(len(values) + 1)]
        column.offsets = (ctypes.c_int64 * len(ends))(*ends)
        column.offset_count = len(ends)
    return column


def appended_columns(schema, path, rows, columns):
    """A table at `path` with the rows of columns."""
    exported = (ctypes.c_char * 72)()
    schema._export_to_c(ctypes.addressof(exported))
    with Handle("writer", "writer_open", path.encode(), ctypes.byref(exported), None) as writer:
        given = (Column * len(columns))(*columns)
        call("writer_append_columns", writer, ctypes.c_uint64(rows), given, ctypes.c_size_t(len(columns)))
        call("writer_close", writer)


def appended(table, path, grown):
    """A table at `path`, of the schema `grown`, with the rows of `table`."""
    schema = (ctypes.c_char * 72)()
    grown._export_to_c(ctypes.addressof(schema))
    stream = stream_of(table)
    with Handle("writer", "writer_open", path.encode(), ctypes.byref(schema), None) as writer:
        call("writer_append_stream", writer, ctypes.byref(stream))
        call("writer_close", writer)
