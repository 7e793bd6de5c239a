"""Repeats the steps of the article "Memory Mapping, Clojure, and Apache Arrow" in Python.

Converts a CSV file to an Arrow stream, maps it, and lists its messages. Reads the dictionary from its offsets and
bytes, and the columns from their buffers. Then opens 10,000 copies of the data, 5.6 million rows in one batch, reads
and sums them up in place, and compares the times with pyarrow.

    $ pip install pyarrow vega_datasets
    $ python examples/in_place.py

The stocks data (560 rows: symbol, date, price) comes with the package vega_datasets; pass another path to use that.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import arrowwood as aw

COPIES = 10_000


def stocks_csv():
    from vega_datasets import data  # the package contains the file, so nothing is downloaded

    return Path(data.stocks.filepath)


def read(csv):
    """Reads the CSV file, with symbols as a dictionary. Texts such as `Jan 1 2000` become dates."""
    return aw.read_csv(csv, dictionary=["symbol"])


def take_apart(ds, path):
    """Writes `ds` as a stream and returns its mapping and its messages."""
    aw.write(ds, path, format="stream")
    return aw.map(path), aw.open(path).messages


def locate_buffer(message, field, name):
    """Returns the offset of a buffer of a message in the file, and its length."""
    buffer = next(b for b in message["buffers"] if (b["field"], b["name"]) == (field, name))
    return message["body_offset"] + buffer["offset"], buffer["length"]


def dictionary_by_hand(mapping, message):
    """Reads the strings of a dictionary batch from its offsets and bytes."""
    start, _ = locate_buffer(message, "symbol", "offsets")
    offsets = np.asarray(mapping[start : start + 4 * (message["rows"] + 1)].view("int32"))
    start, length = locate_buffer(message, "symbol", "data")
    text = mapping[start : start + length].tobytes()
    return [text[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:])]


def columns_by_hand(mapping, message, symbols):
    """Reads the columns of a record batch from their buffers: symbols, dates and prices."""

    def buffer(field, name, dtype, width):
        start, _ = locate_buffer(message, field, name)
        return np.asarray(mapping[start : start + width * message["rows"]].view(dtype))

    keys = buffer("symbol", "keys", "int8", 1)
    dates = buffer("date", "values", "int32", 4).astype("datetime64[D]")
    return np.array(symbols)[keys], dates, buffer("price", "values", "float64", 8)


def copies(ds):
    """Returns the rows 10,000 times in one batch: symbol as a dictionary with int8 keys, date as a timestamp."""
    table = ds.to_arrow()
    symbol = table["symbol"].combine_chunks()
    keys = np.tile(symbol.indices.to_numpy(), COPIES).astype("int8")
    dates = np.tile(table["date"].to_numpy().astype("datetime64[ms]"), COPIES)
    columns = {
        "symbol": pa.DictionaryArray.from_arrays(pa.array(keys), symbol.dictionary),
        "date": pa.array(dates, pa.timestamp("ms", "UTC")),
        "price": pa.array(np.tile(table["price"].to_numpy(), COPIES)),
    }
    return pa.table(columns)


def median_seconds(work, seconds=0.5):
    """Returns the median seconds of a function, after one call that is not counted."""
    work()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def arrowwood_functions(path):
    """Returns functions that open the file and read the first row or the sum."""
    return {
        "open, schema and row count known": lambda: len(aw.open(path)),
        "open + first row": lambda: aw.open(path)[0],
        "open + sum of price": lambda: aw.open(path)["price"].sum(),
    }


def pyarrow_functions(path):
    """Returns the same functions with pyarrow and a memory map."""
    import pyarrow.compute as pc

    def table():
        return pa.ipc.open_stream(pa.memory_map(str(path))).read_all()

    def first():
        t = table()
        return {name: t[name][0].as_py() for name in t.column_names}

    return {
        "open, schema and row count known": lambda: table().num_rows,
        "open + first row": first,
        "open + sum of price": lambda: pc.sum(table()["price"]).as_py(),
    }


def compare(path):
    """Checks that both libraries return the same, and returns the seconds of both for each function."""
    rows = []
    for (what, mine), theirs in zip(arrowwood_functions(path).items(), pyarrow_functions(path).values()):
        a, b = mine(), theirs()
        assert a == b or abs(a - b) <= 1e-9 * abs(b), f"{what}: {a} and {b}"
        rows.append((what, median_seconds(mine), median_seconds(theirs)))
    return rows


def title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")


def walk(csv, folder):
    title("A CSV file as a dataset")
    ds = read(csv)
    print(ds)

    title("Written as an Arrow stream, mapped, taken apart message by message")
    mapping, messages = take_apart(ds, folder / "stocks.arrow")
    for message in messages:
        print(message)

    title("The dictionary by hand, from its offsets and bytes")
    symbols = dictionary_by_hand(mapping, messages[1])
    print(symbols)

    title("The columns by hand, from their buffers")
    for column in columns_by_hand(mapping, messages[2], symbols):
        print(column[:3], "…", column[-3:])
    del column
    mapping.close()  # unmaps the file; this fails while an array still refers to the mapping

    path = folder / "big.arrow"
    title(f"{COPIES:,} copies, one batch, opened in place")
    aw.write(copies(ds), path, format="stream")
    print(aw.open(path))

    title("How long it takes here, beside pyarrow on the same mapped file (medians)")
    print(f"{'':34}{'arrowwood':>12}{'pyarrow':>12}{'ratio':>8}")
    for what, mine, theirs in compare(path):
        print(f"{what:34}{mine * 1e6:>9,.1f} µs{theirs * 1e6:>9,.1f} µs{theirs / mine:>7.1f}×")
    print(f"\nsum of price: {aw.open(path)['price'].sum()}, bytes copied: {aw.open(path).footprint.copied}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        walk(Path(sys.argv[1]) if len(sys.argv) > 1 else stocks_csv(), Path(folder))
