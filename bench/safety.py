"""What safety costs, and what it buys: arrowwood and pyarrow in turns on the same file.

    $ python bench/safety.py stocks.arrow price

Prints medians and ratios of: open + first row, which checks that row alone, against pyarrow, which checks nothing; full
validation against pyarrow's `validate(full=True)`; the sum of a column of the same data compressed with lz4 and zstd.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import arrowwood as aw


def in_turns(ours, theirs, seconds=2.0):
    """Medians of both, measured A B A B … after a run of each that is not counted."""
    ours(), theirs()
    times, end = ([], []), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 7:
        for work, into in zip((ours, theirs), times):
            start = time.perf_counter()
            work()
            into.append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def show(what, ours, theirs):
    a, b = in_turns(ours, theirs)
    print(f"{what:64}{a * 1e6:12,.1f} µs{b * 1e6:12,.1f} µs   ratio {a / b:.2f}")


def table(path):
    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


def main(path, column, folder):
    numbers = [f.name for f in aw.open(path).schema if f.type in ("float64", "int64", "timestamp[ms, UTC]")]
    show(
        "open + first row of fixed-width columns: arrowwood, pyarrow",
        lambda: aw.open(path).select(numbers)[0],
        lambda: table(path).select(numbers).slice(0, 1).to_pylist(),
    )
    show(
        "open + full validation: arrowwood, pyarrow",
        lambda: aw.open(path).validate(),
        lambda: table(path).validate(full=True),
    )
    for codec in ("lz4", "zstd"):
        packed = Path(folder) / f"{codec}.arrow"
        aw.write(aw.open(path), packed, compression=codec, max_rows=1 << 20)
        assert abs(aw.open(packed)[column].sum() - pc.sum(table(packed)[column]).as_py()) < 1e-3
        show(
            f"open + sum of a column, {codec}: arrowwood, pyarrow",
            lambda: aw.open(packed)[column].sum(),
            lambda: pc.sum(table(packed)[column]).as_py(),
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], sys.argv[2], folder)
