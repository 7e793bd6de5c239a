"""Growing tables from Python, beside pyarrow's stream writer, in one run: medians, in turns.

python bench/growing.py [FOLDER]
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


def batch(rows):
    numbers = range(rows)
    columns = [pa.array(numbers, pa.int64()).cast(pa.timestamp("us")), [SYMBOLS[i % 5] for i in numbers]]
    columns += [[i * 0.25 for i in numbers], list(numbers)]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)


def arrowwood(folder, data, count):
    path = folder / "ticks"
    shutil.rmtree(path, ignore_errors=True)
    writer = aw.writer(path, SCHEMA, sync="never")
    start = time.perf_counter()
    for _ in range(count):
        writer.append(data)
        writer.commit()
    taken = time.perf_counter() - start
    writer.close()
    assert len(aw.open(path)) == count * data.num_rows
    return taken


def stream(folder, data, count):
    path = folder / "ticks.arrows"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as writer:
        start = time.perf_counter()
        for _ in range(count):
            writer.write_batch(data)
            sink.flush()
        taken = time.perf_counter() - start
    path.unlink()
    return taken


def in_turns(rounds, *works):
    times = [[work() for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times)]


def main(folder):
    data = batch(10_000)
    ours, theirs = in_turns(7, lambda: arrowwood(folder, data, 1000), lambda: stream(folder, data, 1000))
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
