"""One memory, several processes, no copies: Arrowwood writes and stock pyarrow reads in place, and the reverse.

Files in `/dev/shm` are memory with a name; a memfd is memory without one, whose descriptor a process passes on to its
children (or, by `SCM_RIGHTS`, to anyone). Readers map either, and get Arrow arrays over the very bytes that the writer
wrote. Java's, Go's and JavaScript's Arrow read the same bytes (`make interop`).

    $ python examples/shared_memory.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import arrowwood as aw

# Stock pyarrow, which knows nothing of Arrowwood. A memfd is opened by its name in /proc.
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


def child(script, *arguments, pass_fds=()):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=pass_fds).stdout.strip()


def rows(count):
    return {"n": np.arange(count), "x": np.arange(count) / 2}


def by_name(folder, count):
    """A stream in shared memory, opened by its path."""
    path = folder / "rows.arrows"
    aw.write(rows(count), path, format="stream")
    return child(READER, "stream", path)


def by_descriptor(count):
    """A stream in memory without a name, opened by the descriptor that a child has got."""
    memory = os.memfd_create("rows")
    with open(memory, "wb") as sink:
        aw.write(rows(count), sink, format="stream")
        sink.flush()
        return child(READER, "stream", f"/proc/self/fd/{memory}", pass_fds=[memory])


def while_it_grows(folder, count):
    """A growing table in shared memory: what is committed is Arrow files for others, at any time."""
    schema = aw.open(folder / "rows.arrows").schema
    with aw.writer(folder / "table", schema) as writer:
        writer.append(rows(count))
        writer.commit()
        return child(READER, "file", *sorted((folder / "table").glob("*.arrow")))


def the_other_way(folder, count):
    """A stream that pyarrow writes, opened in place here."""
    path = folder / "theirs.arrows"
    child(WRITER, path, count)
    ds = aw.open(path)
    return f"{len(ds):,} rows, sum {ds['x'].sum():.0f}, {'copied' if ds.footprint.copied else 'in place'}"


def main(rows=1_000_000):
    # Where there is no /dev/shm, any folder does as well, but for the disk.
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        folder = Path(folder)
        print("a file in shared memory:", by_name(folder, rows))
        print("a descriptor passed on: ", by_descriptor(rows))
        print("a table that grows:     ", while_it_grows(folder, rows))
        print("the other way:          ", the_other_way(folder, rows))


if __name__ == "__main__":
    main()
