"""Tests that a process exits normally while daemon threads are inside calls of Arrowwood."""

import subprocess
import sys

import pytest

from waits import PATIENCE

# Defines the data that the calls use, and `exit_during`, which returns from the main thread while two daemon threads
# repeat a call. Every call runs Python code, where it calls `pause`.
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
pauses = threading.Semaphore(0)


def pause(value=None, *_):
    pauses.release()
    time.sleep(0.001)
    return value


class SlowFile:
    def __init__(self, data=stream.getvalue()):
        self.data = data
        self.position = 0

    def read(self, size=-1):
        pause()
        end = None if size < 0 else self.position + min(size, 100)
        chunk = self.data[self.position : end]
        self.position += len(chunk)
        return chunk

    def write(self, data):
        pause()
        return len(data)


class SlowExporter:
    def __arrow_c_stream__(self, requested_schema=None):
        pause()
        return table.__arrow_c_stream__()


def generate_rows(count=50):
    for number in range(count):
        pause()
        yield {"x": number, "y": 0.5}


def generate_tables(count=50):
    for _ in range(count):
        pause()
        yield table


def repeat(call):
    path = f"{folder}/{threading.get_ident()}"
    while True:
        call(path)


def exit_during(call):
    for _ in range(2):
        threading.Thread(target=repeat, args=(call,), daemon=True).start()
    for _ in range(20):
        pauses.acquire()
"""

CALLS = {
    "read_stream": "lambda path: list(aw.read_stream(SlowFile()))",
    "read_all": "lambda path: aw.read_stream(SlowFile()).read_all()",
    "map_reduce": "lambda path: ds['x'].map_reduce(pause, lambda a, b: pause(a))",
    "write": "lambda path: aw.write(generate_rows(), path)",
    "write of tables": "lambda path: aw.write(generate_tables(), path)",
    "write to an object": "lambda path: aw.write(table, SlowFile(), format='stream')",
    "write of an export": "lambda path: aw.write(SlowExporter(), path)",
    "append": "lambda path: aw.writer(path + 't', table.schema).append(generate_rows())",
    "builder": "lambda path: aw.Builder(table.schema).append(generate_rows())",
    "stream_writer": "lambda path: aw.stream_writer(SlowFile(), table.schema).write(table)",
    "from_arrow": "lambda path: aw.from_arrow(SlowExporter())",
    "read_csv": r"lambda path: aw.read_csv(SlowFile(b'x,y\n1,2\n'))",
    "read_json": r"""lambda path: aw.read_json(SlowFile(b'{"x": 1}\n'))""",
    "validate": "lambda path: ds.validate(pause)",
    "check": "lambda path: (aw.check(folder + '/x.arrow'), pause())",
    "follow": "lambda path: [pause(rows) for rows in aw.follow(folder + '/table', start=0, timeout=0.001)]",
    # Not `to_pandas`: pyarrow's own conversion aborts or hangs at such an exit, even for a pyarrow table.
    "to_polars": "lambda path: (ds.to_polars(), ds.to_numpy(), ds.to_arrow(), pause())",
    "aggregate": "lambda path: (ds.aggregate(by='x', y='mean'), ds.sort('y'), ds[aw.col('x') > 5], pause())",
}


@pytest.mark.parametrize("call", CALLS)
def test_process_exits_while_daemon_threads_are_in_a_call(tmp_path, call):
    """CPython unwinds the stack of a daemon thread that asks for the interpreter at exit, and Rust aborts on that."""
    code = f"{PRELUDE}\nexit_during({CALLS[call]})"
    for _ in range(3):
        command = [sys.executable, "-c", code, str(tmp_path)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert (process.returncode, process.stderr) == (0, ""), call
