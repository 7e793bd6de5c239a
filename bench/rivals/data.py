"""Makes the files that all contenders read, and describes their contents.

Expected contents are computed from the formula that filled a file and never by a reader, so that no contender is
checked against another.
"""

import csv
import hashlib
import json
import math
import os
import random
import shutil
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

# Variants of the data: formats, rows per batch, and how many GB of disk are needed.
VARIANTS = {
    "1": (("stream", "file"), 5_600_000, 1),
    "86": (("stream", "file"), 65_536, 1),
    "5600": (("stream", "file"), 1_000, 1),
    "4g": (("stream", "file"), 7_281, 20),
    # The same columns as in the small files, so that only the size differs.
    "4g_one": (("stream",), 560 * 451_152, 20),
}
WIDE_BATCHES, WIDE_ROWS, WIDE_COLUMNS = 4_096, 7_281, 16
COPIES = 10_000  # how often the small files repeat the 560 rows


def default_stocks():
    from vega_datasets import data  # the package contains the file, so nothing is downloaded

    return data.stocks.filepath


class Stocks:
    """The columns symbol, date and price of the CSV file, repeated."""

    sum_column = "price"

    def __init__(self, source, times):
        with open(source, newline="") as f:
            self.base = [(r["symbol"], epoch_ms(r["date"]), float(r["price"])) for r in csv.DictReader(f)]
        self.rows = len(self.base) * times
        self.total = math.fsum(r[2] for r in self.base) * times
        self.dictionary = list(dict.fromkeys(r[0] for r in self.base))
        self.times = times

    def row(self, i):
        return dict(zip(("symbol", "date", "price"), self.base[i % len(self.base)]))

    def batches(self, size):
        symbols, dates, prices = zip(*self.base)
        keys = self.repeated_array([self.dictionary.index(symbol) for symbol in symbols], "i1")
        all_rows = pa.record_batch(
            {
                "symbol": pa.DictionaryArray.from_arrays(keys, pa.array(self.dictionary)),
                "date": self.repeated_array(dates, "i8").cast(pa.timestamp("ms", "UTC")),
                "price": self.repeated_array(prices, "f8"),
            }
        )
        return (all_rows.slice(start, size) for start in range(0, self.rows, size))

    def repeated_array(self, values, dtype):
        return pa.array(np.tile(np.array(values, dtype), self.times))


class Wide:
    """Columns v0 … v15 and a name of 12 letters: 144 bytes per row, so that a batch is 1 MiB."""

    sum_column = "v0"
    dictionary = None
    rows = WIDE_BATCHES * WIDE_ROWS

    def __init__(self):
        full, rest = divmod(self.rows, 1009)
        self.total = (full * sum(range(1009)) + sum(range(rest))) / 4

    def row(self, i):
        return {f"v{k}": (i + k) % 1009 / 4 for k in range(WIDE_COLUMNS)} | {"name": f"row{i:09d}"}

    def batches(self, size):
        for start in range(0, self.rows, size):
            numbers = np.arange(start, start + size)
            columns = {f"v{k}": (numbers + k) % 1009 / 4 for k in range(WIDE_COLUMNS)}
            yield pa.record_batch(columns | {"name": row_names(numbers)})


def row_names(numbers):
    """Returns an array of names such as "row000000001", computed without a Python object for each."""
    letters = np.empty((len(numbers), 12), "u1")
    letters[:, :3] = list(b"row")
    for digit in range(9):
        letters[:, 11 - digit] = numbers // 10**digit % 10 + ord("0")
    ends = np.arange(0, letters.size + 1, 12, dtype="i4")
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))


def epoch_ms(text):
    when = datetime.strptime(text, "%b %d %Y").replace(tzinfo=UTC)
    return int(when.timestamp()) * 1000


def make(folder, variant, source):
    """Returns the descriptions of a variant's files, and a note if it is left out. Writes files that are missing."""
    formats, size, disk = VARIANTS[variant]
    with open(source, "rb") as f:
        key = f"1 {hashlib.sha256(f.read()).hexdigest()}"
    paths = [folder / f"{variant}.{fmt}" for fmt in formats]
    descriptions = [read_description(path, key) for path in paths]
    if not all(descriptions):
        if (free := shutil.disk_usage(folder).free / 1e9) < disk:
            return [], f"{variant}: left out, {disk} GB of free disk wanted, {free:.0f} there"
        if variant == "4g_one" and available() < 8e9:
            return [], f"{variant}: left out, 8 GB of free memory wanted to make it"
        content = Wide() if variant == "4g" else Stocks(source, size // 560 if variant == "4g_one" else COPIES)
        for index, path in enumerate(paths):
            descriptions[index] = descriptions[index] or write(path, key, content, size)
    return descriptions, None


def read_description(path, key):
    """Returns the description of a file, or None if the file is missing or was made from other data."""
    try:
        about = json.loads(path.with_suffix(path.suffix + ".json").read_text())
        is_current = about["key"] == key and about["bytes"] == path.stat().st_size
        return about | {"path": str(path)} if is_current else None  # the folder may have been moved
    except (OSError, ValueError, KeyError):
        return None


def write(path, key, content, size):
    """Writes a file and its description. Returns the description."""
    fmt = path.suffix[1:]
    temporary = path.with_suffix(".part")
    batches = iter(content.batches(size))
    first = next(batches)
    with (pa.ipc.new_stream if fmt == "stream" else pa.ipc.new_file)(temporary, first.schema) as out:
        out.write_batch(first)
        for batch in batches:
            out.write_batch(batch)
    with open(temporary, "rb") as f:
        os.fsync(f.fileno())  # otherwise the disk is still busy during the measurements
    os.replace(temporary, path)
    about = describe(path, fmt, key, content, size)
    # Written last, so that an interrupted run leaves no file that looks complete.
    path.with_suffix(path.suffix + ".json").write_text(json.dumps(about))
    return about


def describe(path, fmt, key, content, size):
    rng = random.Random(1)
    row_numbers = [0, content.rows - 1, *(rng.randrange(content.rows) for _ in range(6))]
    return {
        "key": key,
        "path": str(path),
        "format": fmt,
        "bytes": path.stat().st_size,
        "rows": content.rows,
        "batches": -(-content.rows // size),
        "names": list(content.row(0)),
        "sum_column": content.sum_column,
        "sum": content.total,
        "samples": [[number, content.row(number)] for number in row_numbers],
        "dictionary": content.dictionary,
        "layout": layout(path, fmt) if content.rows == size else None,
    }


def layout(path, fmt):
    """Returns the offset and type of each column's values, for contenders that don't read Arrow."""
    whole = pa.memory_map(str(path)).read_buffer()
    source = pa.BufferReader(whole)
    batch = next(pa.ipc.open_stream(source)) if fmt == "stream" else pa.ipc.open_file(source).get_batch(0)
    places = {}
    for name, column in zip(batch.schema.names, batch.columns):
        values = column.indices if pa.types.is_dictionary(column.type) else column
        dtype = {"int8": "i1", "double": "f8"}.get(str(values.type), "i8")
        places[name] = [values.buffers()[1].address - whole.address, dtype]
    return places


def available():
    """Returns the free memory in bytes, or infinity if the system doesn't tell."""
    try:
        with open("/proc/meminfo") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except OSError:
        return math.inf
