"""Measures how cost grows with size over four orders of magnitude: rows, batches, columns, keys, segments and files.

    $ python bench/rivals/growth.py [--only rows keys …] [--folder DIR] [--results FOLDER]

Prints medians of runs taken in turns, and compares the answers. With --results, the tables are also written to
FOLDER/growth.md. Files are written to a temporary folder. The file of ten billion rows is sparse: it has 80 GB, of
which the disk holds some megabytes.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

import arrowwood as aw

sys.path.append(str(Path(__file__).resolve().parent.parent))
from report import format_table, put_section, write_result
from turns import medians

MIX = np.uint64(0x9E3779B97F4A7C15)


def write_arrow_file(folder, name, table, rows_a_batch=1 << 20):
    path = str(folder / f"{name}.arrow")
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return path


def read_mapped(path):
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def rounds(size, max_size):
    return 7 if size < max_size / 10 else 3


def rows(folder):
    """Sum, median and mean by 1,000 keys. A median is selected among all rows,
    and beyond 131,072 of them from a sample first: hence the step at 100,000."""
    medians_by_name = {}
    sizes = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
    random = np.random.default_rng(1)
    for size in sizes:
        table = pa.table({"key": random.integers(0, 1000, size), "v": random.random(size)})
        path = write_arrow_file(folder, f"rows-{size}", table)
        ds, whole, frame = aw.open(path), read_mapped(path), pl.from_arrow(read_mapped(path))
        mean = frame.lazy().group_by("key").agg(pl.col("v").mean())
        ways = {
            "sum": ds["v"].sum,
            "sum, pyarrow": lambda: pc.sum(whole["v"]).as_py(),
            "median": lambda: ds["v"].quantile(0.5),
            "median, Polars": lambda: frame["v"].median(),
            "mean by 1,000 keys": lambda: len(ds.aggregate(by="key", x=("v", "mean"))),
            "mean by 1,000 keys, Polars": lambda: len(mean.collect()),
            "a random row": lambda: ds[size // 3]["v"],
        }
        measure(
            medians_by_name, ways, rounds(size, sizes[-1]), same=[("sum", "sum, pyarrow"), ("median", "median, Polars")]
        )
        os.remove(path)
    return "rows", sizes, medians_by_name


def batches(folder):
    """Open, sum and gather of 10 million values in more and more batches.
    From 10,000 batches on their headers take longer than their values."""
    medians_by_name = {}
    sizes = [10, 100, 1_000, 10_000, 100_000]
    table = pa.table({"v": np.arange(10_000_000.0)})
    places = np.random.default_rng(2).integers(0, len(table), 10_000)
    for size in sizes:
        path = write_arrow_file(folder, "batches", table, len(table) // size)
        ds, whole = aw.open(path), read_mapped(path)
        ways = {
            "open + last row": lambda: aw.open(path)[-1]["v"],
            "open + last row, pyarrow": lambda: pa.ipc.open_file(pa.memory_map(path)).read_all()["v"][-1].as_py(),
            "sum": ds["v"].sum,
            "sum, pyarrow": lambda: pc.sum(whole["v"]).as_py(),
            "10,000 rows": lambda: ds.take(places)["v"].to_numpy().sum(),
            "10,000 rows, pyarrow": lambda: whole.take(pa.array(places))["v"].to_numpy().sum(),
        }
        measure(
            medians_by_name,
            ways,
            3 if size > 1000 else 7,
            same=[("sum", "sum, pyarrow"), ("10,000 rows", "10,000 rows, pyarrow")],
        )
    return "batches", sizes, medians_by_name


def columns(folder):
    """Open, and one value of one row, of more and more columns."""
    medians_by_name = {}
    sizes = [10, 100, 1_000, 10_000, 100_000]
    for size in sizes:
        table = pa.table({f"c{number}": np.arange(10.0) for number in range(size)})
        path = write_arrow_file(folder, "columns", table)
        last = f"c{size - 1}"
        ds = aw.open(path)
        ways = {
            "open": lambda: aw.open(path).num_columns,
            "open, pyarrow": lambda: len(pa.ipc.open_file(pa.memory_map(path)).schema),
            "open + sum of the last column": lambda: aw.open(path)[last].sum(),
            "open + sum of the last column, pyarrow": lambda: pc.sum(
                pa.ipc.open_file(pa.memory_map(path)).get_batch(0)[last]
            ).as_py(),
            "sum of the last column": lambda: ds[last].sum(),
        }
        measure(medians_by_name, ways, 3 if size > 1000 else 7, same=[("open", "open, pyarrow")])
    return "columns", sizes, medians_by_name


def keys(folder):
    """Mean by more and more keys of five million rows. Beyond some 10,000 groups rows are partitioned before they are
    grouped, which takes a pass more: hence the step between 10,000 and 100,000 keys."""
    medians_by_name = {}
    sizes = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
    random = np.random.default_rng(3)
    for size in sizes:
        near = random.integers(0, size, 5_000_000)
        far = (near.astype(np.uint64) * MIX).astype(np.int64)
        table = pa.table({"near": near, "far": far, "v": random.random(5_000_000)})
        table = table.append_column("text", pc.cast(table["near"], pa.string()))
        path = write_arrow_file(folder, "keys", table)
        ds, frame = aw.open(path), pl.from_arrow(read_mapped(path))
        ways = {}
        for kind, name in (("near", "close together"), ("far", "scattered"), ("text", "text")):
            theirs = frame.lazy().group_by(kind).agg(pl.col("v").mean())
            ways[name] = lambda kind=kind: len(ds.aggregate(by=kind, x=("v", "mean")))
            ways[f"{name}, Polars"] = lambda theirs=theirs: len(theirs.collect())
        measure(
            medians_by_name,
            ways,
            3,
            same=[(name, f"{name}, Polars") for name in ("close together", "scattered", "text")],
        )
    return "keys", sizes, medians_by_name


def segments(folder):
    """A table in more and more segments of 64 rows.
    To open it is to list its directory and to look at the last segments; a sum maps each of them."""
    medians_by_name = {}
    sizes = [1, 10, 100, 1_000, 10_000]
    batch = pa.record_batch({"v": np.arange(64.0)})
    for size in sizes:
        path = folder / f"table-{size}"
        with aw.writer(path, schema=batch.schema, segment_rows=64) as writer:
            for _ in range(size):
                writer.append(batch)
                writer.commit()
        ds = aw.open(path)
        ways = {
            "open + row count": lambda: len(aw.open(path)),
            "open + last row": lambda: aw.open(path)[-1]["v"],
            "sum": ds["v"].sum,
        }
        measure(medians_by_name, ways, 3 if size > 1000 else 7, same=[])
    return "segments", sizes, medians_by_name


def shards(folder):
    """More and more files as one dataset. Of more than 256 files, only metadata is read, on all cores,
    and each is mapped when its values are read."""
    medians_by_name = {}
    sizes = [10, 100, 1_000, 10_000, 100_000]
    schema = pa.schema({"v": pa.float64()})
    shards = folder / "shards"
    shards.mkdir()
    file_count = 0
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, schema) as writer:
        writer.write_batch(pa.record_batch([np.arange(8.0)], schema=schema))
    content = content.getvalue().to_pybytes()
    for size in sizes:
        for number in range(file_count, size):
            (shards / f"{number:06}.arrow").write_bytes(content)
        file_count = size
        pattern = str(shards / "*.arrow")
        ways = {"open": lambda: aw.open(pattern).num_columns, "open + row count": lambda: len(aw.open(pattern))}
        if size <= 10_000:
            ways["open + row count, pyarrow"] = lambda: pds.dataset(str(shards), format="ipc").count_rows()
        measure(medians_by_name, ways, 3 if size > 1000 else 7, same=[])
    return "shards", sizes, medians_by_name


def billions(folder):
    """Ten billion rows in a sparse file of 80 GB, beside fewer."""
    medians_by_name = {}
    sizes = [1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000]
    for size in sizes:
        path = write_sparse_stream(folder / f"sparse-{size}.arrows", size)
        ds = aw.open(path)
        places = np.random.default_rng(4).integers(0, size, 1000)
        assert len(ds) == size and ds[-1]["n"] == 0
        ways = {
            "open + row count": lambda: len(aw.open(path)),
            "a row": lambda: ds[size // 3 * 2]["n"],
            "1,000 rows": lambda: len(ds.take(places)),
            "a part of a third": lambda: len(ds[size // 3 : size // 3 * 2]),
        }
        measure(medians_by_name, ways, 5, same=[])
        os.remove(path)
    return "billions", sizes, medians_by_name


def write_sparse_stream(path, count):
    """Writes a stream of zeros in batches of a million rows, of which only the headers take space on disk."""
    batch = pa.record_batch({"n": np.zeros(1_000_000, "int64")})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue().to_pybytes()
    body, end = 8_000_000, 8
    header = len(whole) - end - body
    with pa.BufferReader(whole) as reader:
        pa.ipc.read_message(reader)
        opening = reader.tell()
    with open(path, "wb") as file:
        file.write(whole[:opening])
        for _ in range(count // 1_000_000):
            file.write(whole[opening:header])
            file.seek(body, 1)
        file.write(whole[-end:])
    return str(path)


def measure(medians_by_name, ways, count, same):
    """Measures functions, and adds a column of medians to `medians_by_name`."""
    times, answers = medians(ways, count)
    for ours, theirs in same:
        assert np.isclose(answers[ours], answers[theirs], rtol=1e-9), f"{ours}: {answers[ours]} and {answers[theirs]}"
    for name in ways:
        medians_by_name.setdefault(name, [])
    for name, row in medians_by_name.items():
        row.append(times.get(name))


KINDS = {function.__name__: function for function in (rows, batches, columns, keys, segments, shards, billions)}
WORDS = {"billions": "rows of a sparse stream, in batches of a million"}


def format_seconds(seconds):
    if seconds is None:
        return "–"
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    if options.results and not (options.results / "growth.md").exists():
        write_result(
            options.results,
            "growth",
            "How cost grows with size",
            "By `bench/rivals/growth.py`: medians, all in the page cache.",
        )
    for kind in options.only:
        start = perf_counter()
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            name, sizes, medians_by_name = KINDS[kind](Path(folder))
        table = format_table(
            [WORDS.get(name, name), *(f"{size:,}" for size in sizes)],
            [[row, *map(format_seconds, times)] for row, times in medians_by_name.items()],
        )
        print(f"{table}\n({perf_counter() - start:.0f} s)\n", flush=True)
        if options.results:
            put_section(options.results / "growth.md", name, table)


if __name__ == "__main__":
    main()
