"""Measures what validation costs: arrowwood and pyarrow take turns on the same file.

    $ python bench/safety.py stocks.arrow price

Prints medians and ratios of opening a file and reading the first row, where arrowwood validates that row and pyarrow
nothing; of full validation in both; and of the sum of a column that is compressed with lz4 and zstd.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import arrowwood as aw


def time_in_turns(ours, theirs, seconds=2.0):
    """Returns the medians of both functions, called in turns after one uncounted call of each."""
    ours(), theirs()
    times, end = ([], []), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 7:
        for function, seconds_of_work in zip((ours, theirs), times):
            start = time.perf_counter()
            function()
            seconds_of_work.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def print_medians(title, ours, theirs):
    a, b = time_in_turns(ours, theirs)
    print(f"{title:64}{a * 1e6:12,.1f} µs{b * 1e6:12,.1f} µs   ratio {a / b:.2f}")


def read_with_pyarrow(path):
    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


def main(path, column, folder):
    numbers = [field.name for field in aw.open(path).schema if field.type in ("float64", "int64", "timestamp[ms, UTC]")]
    print_medians(
        "open + first row of fixed-width columns: arrowwood, pyarrow",
        lambda: aw.open(path).select(numbers)[0],
        lambda: read_with_pyarrow(path).select(numbers).slice(0, 1).to_pylist(),
    )
    print_medians(
        "open + full validation: arrowwood, pyarrow",
        lambda: aw.open(path).validate(),
        lambda: read_with_pyarrow(path).validate(full=True),
    )
    for codec in ("lz4", "zstd"):
        compressed = Path(folder) / f"{codec}.arrow"
        aw.write(aw.open(path), compressed, compression=codec, max_rows=1 << 20)
        assert abs(aw.open(compressed)[column].sum() - pc.sum(read_with_pyarrow(compressed)[column]).as_py()) < 1e-3
        print_medians(
            f"open + sum of a column, {codec}: arrowwood, pyarrow",
            lambda: aw.open(compressed)[column].sum(),
            lambda: pc.sum(read_with_pyarrow(compressed)[column]).as_py(),
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1], sys.argv[2], folder)
