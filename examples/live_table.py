"""Appends to a table in one process, follows it in another, and reads it with other Arrow libraries meanwhile.

The writer is another process of this script. It is killed midway: all committed rows remain, and a second writer
continues.

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


def append_rows(path, rows, pause):
    """Appends and commits single rows, with a pause after each. The writer process runs this."""
    with aw.writer(path) as w:
        for number in range(w.rows, w.rows + rows):
            w.append_row(sent=time.time_ns(), symbol=SYMBOLS[number % 5], price=100 + number % 17 / 4)
            w.commit()
            time.sleep(pause)


def start_writer(path, rows, pause):
    """Starts the writer process."""
    arguments = ["--append", str(path), "--rows", str(rows), "--pause", str(pause)]
    return subprocess.Popen([sys.executable, __file__, *arguments])


def print_rows(rows):
    """Prints rows with their ages, and returns the ages in microseconds."""
    now = time.time_ns()
    for number, row in enumerate(rows.to_pylist(), rows.first_row):
        print(
            f"row {number:<5} {row['symbol']:5} {row['price']:>7.2f}   seen after {(now - row['sent']) / 1000:,.0f} µs"
        )
    return [(now - row["sent"]) / 1000 for row in rows.to_pylist()]


def follow(path, start, count):
    """Prints `count` new rows as they are committed, from number `start` on."""
    ages = []
    for rows in aw.follow(path, start=start, timeout=10):
        ages += print_rows(rows)
        if len(ages) >= count:
            break
    print(f"median: {statistics.median(ages):,.0f} µs")


def read_with_pyarrow(path):
    dataset = importlib.import_module("pyarrow.dataset")
    table = dataset.dataset(path, format="arrow").to_table()
    return table.num_rows, table["price"].to_pylist()[-1]


def read_with_polars(path):
    polars = importlib.import_module("polars")
    frame = polars.scan_ipc(f"{path}/").select("price").collect()
    return frame.height, frame["price"][-1]


def read_with_duckdb(path):
    duckdb = importlib.import_module("duckdb")
    ds = aw.open(path)
    return duckdb.from_arrow(ds.to_arrow()).aggregate("count(*), last(price)").fetchall()[0]


def read_with_other_libraries(path):
    """Reads the growing table with the libraries that are installed."""
    for name, read in [("pyarrow", read_with_pyarrow), ("polars", read_with_polars), ("duckdb", read_with_duckdb)]:
        try:
            version = importlib.import_module(name).__version__
        except ImportError:
            continue
        rows, price = read(path)
        print(f"{name:8} {version:8} {rows:>5} rows, the last price is {price}")


def print_title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def walk(path):
    print_title("Another process appends a row every 50 ms; this one follows it")
    aw.writer(path, SCHEMA, dictionary=["symbol"]).close()
    process = start_writer(path, 1000, 0.05)  # more rows than it has time for
    follow(path, 0, 20)

    print_title("A snapshot stays as it was; refresh() finds what was committed since")
    before = aw.open(path)
    rows = len(before)
    time.sleep(0.3)
    print(f"{rows} rows before, {len(before.refresh())} now, {len(before)} still in the snapshot")

    print_title("Stock libraries map the same files, while rows are appended")
    read_with_other_libraries(path)

    print_title("The writer is killed (SIGKILL); another goes on")
    process.kill()
    process.wait()
    rows = len(aw.open(path))
    print(f"{rows} rows are there")
    process = start_writer(path, 5, 0.05)
    follow(path, rows, 5)
    process.wait()

    print_title("Compacted: an Arrow file like any other")
    aw.compact(path)
    for file in sorted(Path(path).iterdir()):
        print(f"{file.name}  {file.stat().st_size:,} bytes")
    print(aw.open(path))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--append", metavar="TABLE", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=1000, help=argparse.SUPPRESS)
    parser.add_argument("--pause", type=float, default=0.05, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.append:
        append_rows(arguments.append, arguments.rows, arguments.pause)
    else:
        with tempfile.TemporaryDirectory() as folder:
            walk(str(Path(folder) / "ticks"))
