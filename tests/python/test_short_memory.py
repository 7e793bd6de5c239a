"""Calls that take more memory than there is raise ``MemoryError``, and go on working afterwards."""

import subprocess
import sys

import pytest

from waits import PATIENCE

# 256 MiB of numbers in two batches, of which the process may take 64 MiB more than it has.
PRELUDE = """
import io, resource, sys
import numpy as np
import pandas
import pyarrow as pa
import arrowwood as aw

path, call = sys.argv[1:]
rows = 1 << 24
batches = [{"n": np.arange(rows), "x": np.linspace(1, 0, rows)}] * 2
aw.write([pa.table(batch) for batch in batches], path)
aw.write([pa.table(batch) for batch in batches], path + "s", format="stream")
ds = aw.open(path)
large = aw.from_arrow(pa.table({"text": ["x" * (1 << 20)]}))
buffer = aw.Buffer()
ds["n"].sum(), ds[:5].collect(), ds[:5].sort("x"), ds[:5].to_pandas(), ds[:5].to_numpy(), ds[:5].sample(2)
ds[:5].aggregate(x="median"), pa.table(ds[:5])
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (64 << 20), resource.RLIM_INFINITY))
try:
    exec(call)
except MemoryError as error:
    print(type(error).__name__)
print(ds["n"][:5].to_pylist())
"""

CALLS = [
    "ds.collect()",
    "ds.sort('x')",
    "ds.to_numpy()",
    "ds.to_pandas()",
    "ds.aggregate(by='n', x='sum')",
    "buffer.write(bytes(32 << 20)), buffer.write(bytes(32 << 20)), buffer.write(bytes(32 << 20))",
    "ds['x'].to_numpy(copy=True)",
]


@pytest.mark.parametrize("call", CALLS)
def test_short_memory_is_a_memory_error(tmp_path, call):
    child = [sys.executable, "-c", PRELUDE, str(tmp_path / "large.arrow"), call]
    done = subprocess.run(child, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[0, 1, 2, 3, 4]"
    assert done.stdout.splitlines()[0] in ("OutOfMemory", "MemoryError", "_ArrayMemoryError"), done.stdout
