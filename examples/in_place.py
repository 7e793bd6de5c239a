"""The walk of "Memory Mapping, Clojure, and Apache Arrow", in Python.

A CSV file becomes a dataset, the dataset an Arrow stream; the stream is mapped and taken apart message by message; its
dictionary is read by hand from offsets and bytes, its columns from their buffers; and 10,000 copies of it, 5.6 million
rows in one batch, are opened, looked at and summed up in place, beside pyarrow on the same machine.

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
    from vega_datasets import data  # carries the file itself: nothing is downloaded

    return Path(data.stocks.filepath)


def read(csv):
    """The CSV file as a dataset; symbols as a dictionary, dates like `Jan 1 2000` as dates."""
    return aw.read_csv(csv, dictionary=["symbol"])


def take_apart(ds, path):
    """Writes `ds` as a stream and returns its mapping and its messages."""
    aw.write(ds, path, format="stream")
    return aw.map(path), aw.open(path).messages


def place_of(message, field, name):
    """Where a buffer of a message lies in the file: first byte and bytes."""
    found = next(b for b in message["buffers"] if (b["field"], b["name"]) == (field, name))
    return message["body_offset"] + found["offset"], found["length"]


def dictionary_by_hand(mapping, message):
    """The strings of a dictionary batch, from its offsets and its bytes."""
    at, _ = place_of(message, "symbol", "offsets")
    offsets = np.asarray(mapping[at : at + 4 * (message["rows"] + 1)].view("int32"))
    at, length = place_of(message, "symbol", "data")
    text = mapping[at : at + length].tobytes()
    return [text[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:])]


def columns_by_hand(mapping, message, symbols):
    """The columns of a record batch, from their buffers: symbols, dates and prices."""

    def buffer(field, name, dtype, width):
        at, _ = place_of(message, field, name)
        return np.asarray(mapping[at : at + width * message["rows"]].view(dtype))

    keys = buffer("symbol", "keys", "int8", 1)
    dates = buffer("date", "values", "int32", 4).astype("datetime64[D]")
    return np.array(symbols)[keys], dates, buffer("price", "values", "float64", 8)


def copies(ds):
    """`ds` 10,000 times in one batch: symbol a dictionary with int8 keys, date a timestamp, price float64."""
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
    """The median time of `work`, after one run that is not counted."""
    work()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def ours(path):
    """Open, first row and sum, each from a fresh mapping."""
    return {
        "open, schema and row count known": lambda: len(aw.open(path)),
        "open + first row": lambda: aw.open(path)[0],
        "open + sum of price": lambda: aw.open(path)["price"].sum(),
    }


def pyarrows(path):
    """The same with pyarrow over a memory map."""
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
    """For each question both answers, which must agree, and both times in seconds."""
    rows = []
    for (what, mine), theirs in zip(ours(path).items(), pyarrows(path).values()):
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
    mapping.close()  # unmaps at once; refused while an array still points into it

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
