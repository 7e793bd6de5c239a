"""Compares appending to a table from Python with pyarrow's stream writer, in turns: `growing.py [FOLDER]`.

Prints the medians.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import arrowwood as aw

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("symbol", pa.string(), nullable=False),
        pa.field("price", pa.float64(), nullable=False),
        pa.field("qty", pa.int64(), nullable=False),
    ]
)
SYMBOLS = ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]


def make_batch(rows):
    numbers = range(rows)
    columns = [pa.array(numbers, pa.int64()).cast(pa.timestamp("us")), [SYMBOLS[i % 5] for i in numbers]]
    columns += [[i * 0.25 for i in numbers], list(numbers)]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)


def time_arrowwood_writer(folder, data, count):
    """Returns the seconds that a table takes for `count` appends and commits of a batch."""
    path = folder / "ticks"
    shutil.rmtree(path, ignore_errors=True)
    writer = aw.writer(path, SCHEMA, sync="never")
    start = time.perf_counter()
    for _ in range(count):
        writer.append(data)
        writer.commit()
    elapsed = time.perf_counter() - start
    writer.close()
    assert len(aw.open(path)) == count * data.num_rows
    return elapsed


def time_pyarrow_stream(folder, data, count):
    """Returns the seconds that a stream takes for `count` writes and flushes of a batch."""
    path = folder / "ticks.arrows"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
        start = time.perf_counter()
        for _ in range(count):
            writer.write_batch(data)
            sink.flush()
        elapsed = time.perf_counter() - start
    path.unlink()
    return elapsed


def medians_in_turns(rounds, *functions):
    """Calls functions that return seconds in turns, and returns the median of each."""
    times = [[function() for function in functions] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times)]


def main(folder):
    data = make_batch(10_000)
    ours, theirs = medians_in_turns(
        7, lambda: time_arrowwood_writer(folder, data, 1000), lambda: time_pyarrow_stream(folder, data, 1000)
    )
    print(
        f"append + commit of 10,000-row batches   {10 / ours:6.1f} M rows/s   pyarrow stream + flush {10 / theirs:6.1f}   ratio {theirs / ours:.2f}"
    )
    shutil.rmtree(folder / "ticks", ignore_errors=True)
    writer = aw.writer(folder / "ticks", SCHEMA, sync="never")
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        for i in range(200_000):
            writer.append_row(ts=i, symbol="MSFT", price=1.5, qty=i)
            writer.commit()
        rates.append(0.2 / (time.perf_counter() - start))
    print(f"append_row + commit                     {statistics.median(rates):6.2f} M rows/s")
    dataset = aw.open(folder / "ticks")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(1_000_000):
            dataset.refresh()
        times.append(time.perf_counter() - start)
    print(f"refresh with nothing new                {statistics.median(times) * 1000:6.0f} ns")
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
