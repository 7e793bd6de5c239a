"""Threads that are in a call when the interpreter ends: the process ends as usual."""

import subprocess
import sys

import pytest

from waits import PATIENCE

# What they have, and how the main thread ends: while both threads are in a call that calls Python code.
PRELUDE = """
import io, sys, threading, time
import numpy as np
import pyarrow as pa
import arrowwood as aw

folder = sys.argv[1]
table = pa.table({"x": list(range(1000)), "y": [n / 2 for n in range(1000)]})
stream = io.BytesIO()
with pa.ipc.new_stream(stream, table.schema) as writer:
    writer.write_table(table, max_chunksize=10)
aw.write(table, folder + "/x.arrow", max_rows=10)
ds = aw.open(folder + "/x.arrow")
with aw.writer(folder + "/table", table.schema) as writer:
    writer.append(table)
calls = threading.Semaphore(0)


def nap(*given):
    calls.release()
    time.sleep(0.001)
    return given[0] if given else None


class Slow:
    def __init__(self, data=stream.getvalue()):
        self.data, self.at = data, 0

    def read(self, most=-1):
        nap()
        found = self.data[self.at :] if most < 0 else self.data[self.at : self.at + min(most, 100)]
        self.at += len(found)
        return found

    def write(self, data):
        nap()
        return len(data)


class Exporting:
    def __arrow_c_stream__(self, requested_schema=None):
        nap()
        return table.__arrow_c_stream__()


def rows(count=50):
    for number in range(count):
        nap()
        yield {"x": number, "y": 0.5}


def tables(count=50):
    for _ in range(count):
        nap()
        yield table


def repeat(call):
    number = threading.get_ident()
    while True:
        call(f"{folder}/{number}")


def end(call):
    for _ in range(2):
        threading.Thread(target=repeat, args=(call,), daemon=True).start()
    for _ in range(20):
        calls.acquire()
"""

CALLS = {
    "read_stream": "lambda path: list(aw.read_stream(Slow()))",
    "read_all": "lambda path: aw.read_stream(Slow()).read_all()",
    "map_reduce": "lambda path: ds['x'].map_reduce(nap, lambda a, b: nap(a))",
    "write": "lambda path: aw.write(rows(), path)",
    "write of tables": "lambda path: aw.write(tables(), path)",
    "write to an object": "lambda path: aw.write(table, Slow(), format='stream')",
    "write of an export": "lambda path: aw.write(Exporting(), path)",
    "append": "lambda path: aw.writer(path + 't', table.schema).append(rows())",
    "builder": "lambda path: aw.Builder(table.schema).append(rows())",
    "stream_writer": "lambda path: aw.stream_writer(Slow(), table.schema).write(table)",
    "from_arrow": "lambda path: aw.from_arrow(Exporting())",
    "read_csv": r"lambda path: aw.read_csv(Slow(b'x,y\n1,2\n'))",
    "read_json": r"""lambda path: aw.read_json(Slow(b'{"x": 1}\n'))""",
    "validate": "lambda path: ds.validate(nap)",
    "check": "lambda path: (aw.check(folder + '/x.arrow'), nap())",
    "follow": "lambda path: [nap(found) for found in aw.follow(folder + '/table', start=0, timeout=0.001)]",
    "to_pandas": "lambda path: (ds.to_pandas(), ds.to_polars(), ds.to_numpy(), ds.to_arrow(), nap())",
    "aggregate": "lambda path: (ds.aggregate(by='x', y='mean'), ds.sort('y'), ds[aw.col('x') > 5], nap())",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_daemon_thread_in_a_call_does_not_abort_the_process(tmp_path, call):
    """CPython unwinds the stacks of such threads where they ask for the interpreter. Rust answers that by an abort."""
    for _ in range(3):
        child = [sys.executable, "-c", f"{PRELUDE}\nend({CALLS[call]})", str(tmp_path)]
        done = subprocess.run(child, capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, ""), call
