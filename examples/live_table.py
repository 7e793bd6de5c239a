"""A table that grows: one process appends, another follows it, and stock Arrow libraries map the same folder meanwhile.

The writer is this script again, in a process of its own. Half-way it is killed without a chance to tidy up; all that it
had committed is there, and a second one goes on.

    $ python examples/live_table.py
"""

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import arrowwood as aw

SCHEMA = pa.schema(
    [
        pa.field("sent", pa.int64(), False),
        pa.field("symbol", pa.string(), False),
        pa.field("price", pa.float64(), False),
    ]
)
SYMBOLS = ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]


def append(path, rows, rest):
    """What the writing process does: a row, a commit, a rest."""
    with aw.writer(path) as w:
        for number in range(w.rows, w.rows + rows):
            w.append_row(sent=time.time_ns(), symbol=SYMBOLS[number % 5], price=100 + number % 17 / 4)
            w.commit()
            time.sleep(rest)


def writer(path, rows, rest):
    """Starts a process that appends."""
    arguments = ["--append", str(path), "--rows", str(rows), "--rest", str(rest)]
    return subprocess.Popen([sys.executable, __file__, *arguments])


def show(rows):
    """Prints rows as they come, with their age, and returns their ages in microseconds."""
    now = time.time_ns()
    for number, row in enumerate(rows.to_pylist(), rows.first_row):
        print(
            f"row {number:<5} {row['symbol']:5} {row['price']:>7.2f}   seen after {(now - row['sent']) / 1000:,.0f} µs"
        )
    return [(now - row["sent"]) / 1000 for row in rows.to_pylist()]


def follow(path, start, count):
    """Shows `count` rows from number `start` on, as they come."""
    ages = []
    for rows in aw.follow(path, start=start, timeout=10):
        ages += show(rows)
        if len(ages) >= count:
            break
    print(f"median: {statistics.median(ages):,.0f} µs")


def with_pyarrow(path):
    dataset = importlib.import_module("pyarrow.dataset")
    table = dataset.dataset(path, format="arrow").to_table()
    return table.num_rows, table["price"].to_pylist()[-1]


def with_polars(path):
    polars = importlib.import_module("polars")
    frame = polars.scan_ipc(f"{path}/").select("price").collect()
    return frame.height, frame["price"][-1]


def with_duckdb(path):
    duckdb = importlib.import_module("duckdb")
    ds = aw.open(path)
    return duckdb.from_arrow(ds.to_arrow()).aggregate("count(*), last(price)").fetchall()[0]


def others(path):
    """The libraries that are installed here read the folder while it grows."""
    for name, read in [("pyarrow", with_pyarrow), ("polars", with_polars), ("duckdb", with_duckdb)]:
        try:
            version = importlib.import_module(name).__version__
        except ImportError:
            continue
        rows, price = read(path)
        print(f"{name:8} {version:8} {rows:>5} rows, the last price is {price}")


def title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def walk(path):
    title("Another process appends a row every 50 ms; this one follows it")
    aw.writer(path, SCHEMA, dictionary=["symbol"]).close()
    process = writer(path, 1000, 0.05)  # more than it gets to
    follow(path, 0, 20)

    title("A snapshot stays as it was; refresh() finds what was committed since")
    before = aw.open(path)
    rows = len(before)
    time.sleep(0.3)
    print(f"{rows} rows before, {len(before.refresh())} now, {len(before)} still in the snapshot")

    title("Stock libraries map the same files, while rows are appended")
    others(path)

    title("The writer is killed (SIGKILL); another goes on")
    process.kill()
    process.wait()
    rows = len(aw.open(path))
    print(f"{rows} rows are there")
    process = writer(path, 5, 0.05)
    follow(path, rows, 5)
    process.wait()

    title("Compacted: an Arrow file like any other")
    aw.compact(path)
    for file in sorted(Path(path).iterdir()):
        print(f"{file.name}  {file.stat().st_size:,} bytes")
    print(aw.open(path))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--append", metavar="TABLE", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=1000, help=argparse.SUPPRESS)
    parser.add_argument("--rest", type=float, default=0.05, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.append:
        append(arguments.append, arguments.rows, arguments.rest)
    else:
        with tempfile.TemporaryDirectory() as folder:
            walk(str(Path(folder) / "ticks"))
