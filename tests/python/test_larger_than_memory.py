"""A file larger than the memory a process may have is scanned where it lies."""

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
# The size of the file, and of the memory that there is for reading it, whoever's it is: the system's copy of the file
# counts where a control group can be made, the process' own memory always.
LIMIT = 256 << 20


class Sparse:
    """A file in which zeros take no space."""

    def __init__(self, path):
        self.file, self.closed = open(path, "wb"), False

    def write(self, data):
        data = memoryview(data)
        if len(data) > 1 << 20:
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
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "zeros.arrow"
    zeros = np.memmap(path.with_suffix(".zeros"), dtype="int64", mode="w+", shape=ROWS)
    sink = Sparse(path)
    batch = pa.record_batch([pa.array(zeros)], names=["n"])
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema) as writer:
        writer.write_batch(batch)
    sink.close()
    path.with_suffix(".zeros").unlink()
    # A few values, at places that the reader has to find.
    values = aw.map(path, mode="r+", dtype="int64")
    behind = len(values) - ROWS - 1
    for row in range(0, ROWS, ROWS // 8):
        values[behind + row] = row + 1
    values.close()
    assert path.stat().st_size >= 8 * ROWS == 8 << 30
    yield path
    path.unlink()


@contextmanager
def control_group():
    """Limits what joins it; gives the file to join by, or `None` where it can't be made."""
    own = Path("/proc/self/cgroup").read_text().splitlines()
    hierarchy = next((line.split(":")[2] for line in own if "memory" in line.split(":")[1].split(",")), None)
    if hierarchy is not None:
        root, limit = Path("/sys/fs/cgroup/memory" + hierarchy), "memory.limit_in_bytes"
    else:
        root, limit = Path("/sys/fs/cgroup" + own[0].split(":")[2]), "memory.max"
    group = root / f"arrowwood-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        (group / limit).write_text(str(LIMIT))
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
own = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1]) << 10
before = own()
resource.setrlimit(resource.RLIMIT_DATA, (before + limit, before + limit))
ds = aw.open(path)
places = np.arange(0, len(ds), len(ds) // 10_000)
answers = [ds["n"].sum(), ds["n"].max(), ds.take(places)["n"].sum(), ds["n"].approx_quantile(0.5)]
print(json.dumps({"answers": answers, "own": own() - before}))
"""


def test_a_scan_takes_no_more_memory_than_there_is(large):
    with control_group() as procs:
        arguments = [sys.executable, "-c", SCAN, large, str(procs or ""), str(LIMIT)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = range(0, ROWS, ROWS // 8)
    taken = set(range(0, ROWS, ROWS // 10_000))
    assert found["answers"] == [sum(rows) + 8, rows[-1] + 1, sum(row + 1 for row in rows if row in taken), 0.0]
    assert found["own"] < 64 << 20


def test_the_limit_is_one(large):
    """Reading the column into memory of its own fails."""
    read = SCAN.replace('ds["n"].sum()', 'ds["n"].to_numpy(copy=True).sum()')
    done = subprocess.run(
        [sys.executable, "-c", read, large, "", str(LIMIT)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode != 0 and "MemoryError" in done.stderr + done.stdout, done.stderr
