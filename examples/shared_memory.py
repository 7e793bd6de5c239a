"""Shares memory between processes without copies: Arrowwood writes and pyarrow reads in place, and the other way round.

A file in `/dev/shm` is memory with a name. A memfd is memory without a name, whose descriptor a process passes to its
children, or to any process with `SCM_RIGHTS`. Readers map either and get Arrow arrays over the bytes of the writer.
Arrow for Java, Go and JavaScript can read them too (`make interop`).

    $ python examples/shared_memory.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import arrowwood as aw

# Reads with pyarrow alone. A memfd is opened by its name in /proc.
READER = """
import sys, pyarrow as pa
open_as = pa.ipc.open_stream if sys.argv[1] == "stream" else pa.ipc.open_file
table = pa.concat_tables(open_as(pa.memory_map(path)).read_all() for path in sys.argv[2:])
copied = pa.total_allocated_bytes()
total = sum(chunk.to_numpy().sum() for chunk in table["x"].chunks)
print(f"{table.num_rows:,} rows, sum {total:.0f},", "in place" if copied < 4096 else f"{copied} bytes copied")
"""

WRITER = """
import sys, numpy as np, pyarrow as pa
table = pa.table({"n": np.arange(int(sys.argv[2])), "x": np.arange(int(sys.argv[2])) / 2})
with pa.OSFile(sys.argv[1], "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
"""


def run_python(script, *arguments, pass_fds=()):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=pass_fds).stdout.strip()


def make_rows(count):
    return {"n": np.arange(count), "x": np.arange(count) / 2}


def share_by_name(folder, count):
    """Writes a stream to shared memory, which the reader opens by its path."""
    path = folder / "rows.arrows"
    aw.write(make_rows(count), path, format="stream")
    return run_python(READER, "stream", path)


def share_by_descriptor(count):
    """Writes a stream to memory without a name, whose descriptor the reader inherits."""
    memory = os.memfd_create("rows")
    with open(memory, "wb") as sink:
        aw.write(make_rows(count), sink, format="stream")
        sink.flush()
        return run_python(READER, "stream", f"/proc/self/fd/{memory}", pass_fds=[memory])


def share_growing_table(folder, count):
    """Appends to a table in shared memory. Its committed rows are valid Arrow files at any time."""
    schema = aw.open(folder / "rows.arrows").schema
    with aw.writer(folder / "table", schema) as writer:
        writer.append(make_rows(count))
        writer.commit()
        return run_python(READER, "file", *sorted((folder / "table").glob("*.arrow")))


def read_from_pyarrow(folder, count):
    """Opens a stream in place that pyarrow writes."""
    path = folder / "theirs.arrows"
    run_python(WRITER, path, count)
    ds = aw.open(path)
    return f"{len(ds):,} rows, sum {ds['x'].sum():.0f}, {'copied' if ds.footprint.copied else 'in place'}"


def main(rows=1_000_000):
    # Without /dev/shm any folder works too, but uses the disk.
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        folder = Path(folder)
        print("a file in shared memory:", share_by_name(folder, rows))
        print("a descriptor passed on: ", share_by_descriptor(rows))
        print("a table that grows:     ", share_growing_table(folder, rows))
        print("the other way:          ", read_from_pyarrow(folder, rows))


if __name__ == "__main__":
    main()
