"""Tests that a process can scan a file that is larger than the memory it may use.

The file has 8 GiB. The limit is 256 MiB for the memory of the process, and also for the page cache of the file if a
control group can be created.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE

ROWS = 1 << 30
# The rows with other values than zero: row + 1.
NONZERO_ROWS = range(0, ROWS, ROWS // 8)
TAKEN_ROWS = range(0, ROWS, ROWS // 10_000)
MEMORY_LIMIT = 256 << 20
MAX_SCAN_MEMORY = 64 << 20
# Larger writes of pyarrow are zeros.
MAX_METADATA_SIZE = 1 << 20


class SparseFile:
    """A writable file that seeks over large writes, which are zeros, so that they take no space on disk."""

    def __init__(self, path):
        self.file, self.closed = open(path, "wb"), False

    def write(self, data):
        data = memoryview(data)
        if len(data) > MAX_METADATA_SIZE:
            self.file.seek(len(data), os.SEEK_CUR)
        else:
            self.file.write(data)
        return len(data)

    def tell(self):
        return self.file.tell()

    def flush(self):
        self.file.flush()

    def close(self):
        if not self.closed:
            self.file.truncate(self.file.tell())
            self.file.close()
            self.closed = True


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """Returns the path of a sparse Arrow file with a column ``n`` that is zero but in a few rows."""
    path = tmp_path_factory.mktemp("large") / "zeros.arrow"
    zeros_path = path.with_suffix(".zeros")
    zeros = np.memmap(zeros_path, dtype="int64", mode="w+", shape=ROWS)
    batch = pa.record_batch([pa.array(zeros)], names=["n"])
    sink = SparseFile(path)
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema) as writer:
        writer.write_batch(batch)
    sink.close()
    zeros_path.unlink()
    with aw.map(path, mode="r+", dtype="int64") as words:
        # The column is followed by one word, the end of the stream.
        column_start = len(words) - ROWS - 1
        for row in NONZERO_ROWS:
            words[column_start + row] = row + 1
    assert path.stat().st_size >= 8 * ROWS == 8 << 30
    yield path
    path.unlink()


@contextmanager
def limited_control_group():
    """Creates a control group with the limit; yields the file to join it by, or None if it can't be created."""
    memberships = [line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines()]
    memory_groups = [group for _, controllers, group in memberships if "memory" in controllers.split(",")]
    if memory_groups:
        parent, limit_name = Path("/sys/fs/cgroup/memory" + memory_groups[0]), "memory.limit_in_bytes"
    else:
        # Version 2 has one hierarchy for all controllers.
        parent, limit_name = Path("/sys/fs/cgroup" + memberships[0][2]), "memory.max"
    group = parent / f"arrowwood-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        (group / limit_name).write_text(str(MEMORY_LIMIT))
        yield group / "cgroup.procs"
    except OSError:
        yield None
    finally:
        group.rmdir()


SCAN = """
import json, os, resource, sys
path, procs, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
if procs:
    open(procs, "w").write(str(os.getpid()))
import numpy as np
import arrowwood as aw

def anonymous_bytes():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1]) << 10

before = anonymous_bytes()
resource.setrlimit(resource.RLIMIT_DATA, (before + limit, before + limit))
ds = aw.open(path)
rows = np.arange(0, len(ds), len(ds) // 10_000)
results = [ds["n"].sum(), ds["n"].max(), ds.take(rows)["n"].sum(), ds["n"].approx_quantile(0.5)]
print(json.dumps({"results": results, "memory": anonymous_bytes() - before}))
"""


def run_limited(code, path, procs=None):
    command = [sys.executable, "-c", code, path, str(procs or ""), str(MEMORY_LIMIT)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_scan_of_a_large_file_stays_within_the_limit(large_file):
    with limited_control_group() as procs:
        process = run_limited(SCAN, large_file, procs)
        assert process.returncode == 0, process.stderr
    output = json.loads(process.stdout)
    total = sum(row + 1 for row in NONZERO_ROWS)
    taken_total = sum(row + 1 for row in NONZERO_ROWS if row in TAKEN_ROWS)
    assert output["results"] == [total, NONZERO_ROWS[-1] + 1, taken_total, 0.0]
    assert output["memory"] < MAX_SCAN_MEMORY


def test_copying_the_column_exceeds_the_limit(large_file):
    """Checks that the limit of the other test is effective."""
    code = SCAN.replace('ds["n"].sum()', 'ds["n"].to_numpy(copy=True).sum()')
    process = run_limited(code, large_file)
    assert process.returncode != 0 and "MemoryError" in process.stderr + process.stdout, process.stderr
