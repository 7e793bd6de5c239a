"""Compares query engines over datasets with the same engines over the same files, in turns.

    python bench/engines.py [FOLDER] [--quick]

Prints medians, and checks that the answers are equal. FOLDER gets 4 GiB of data (a tenth with --quick), and must be on
a disk, as bytes that are read are counted.
"""

import argparse
import gc
import os
import pathlib
import pickle
import re
import shutil
import statistics
import tempfile
import time

import dask
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from distributed import Client, LocalCluster, get_worker

import arrowwood as aw
from turns import medians

ROUNDS = 9


def write_stocks(path):
    """Writes 5.6 M rows in one batch: the stocks of vega_datasets, repeated ten thousand times."""
    from vega_datasets import data

    table = pa.Table.from_pandas(data.stocks(), preserve_index=False)
    symbol = pa.array(np.tile(table["symbol"].to_numpy(zero_copy_only=False), 10_000)).dictionary_encode()
    symbol = symbol.cast(pa.dictionary(pa.int8(), pa.string()))
    date = np.tile(table["date"].to_numpy().astype("datetime64[ms]"), 10_000)
    aw.write(pa.table({"symbol": symbol, "date": date, "price": np.tile(table["price"].to_numpy(), 10_000)}), path)


def comparable_rows(answer):
    """Returns rows in a comparable form: sorted, and rounded, as engines add numbers in different orders."""
    return sorted((str(row[0]), round(row[1], 6)) for row in map(tuple, answer))


def compare_sql(path):
    connection = duckdb.connect()
    connection.register("theirs", pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    ours = aw.open(path)
    query = "select symbol, avg(price) as mean from {} group by symbol"
    seconds, results = medians(
        {
            "ours": lambda: ours.sql(query.format("self")),
            "theirs": lambda: connection.sql(query.format("theirs")).to_arrow_table(),
        },
        ROUNDS,
    )
    assert comparable_rows(row.values() for row in results["ours"]) == comparable_rows(
        row.values() for row in results["theirs"].to_pylist()
    )
    yield "`ds.sql` group mean of 5.6 M rows, against DuckDB over pyarrow's mapping", "≤ 1.1 ×", format_ratio(seconds)


def compare_scan(path):
    def query(lazy):
        return lazy.filter(pl.col("price") > 100).group_by("symbol").agg(pl.col("price").mean()).collect()

    seconds, results = medians(
        {"ours": lambda: query(aw.scan(path)), "theirs": lambda: query(pl.scan_ipc(path))}, ROUNDS
    )
    assert comparable_rows(results["ours"].iter_rows()) == comparable_rows(results["theirs"].iter_rows())
    yield "`aw.scan` filter + group of 5.6 M rows, against `pl.scan_ipc`", "≤ 0.5 ×", format_ratio(seconds)


def write_sorted_table(path, rows):
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us"), nullable=False),
            pa.field("price", pa.float64()),
            pa.field("qty", pa.int64()),
        ]
    )
    with aw.writer(path, schema, sorted_by="ts", sync="never") as writer:
        for start in range(0, rows, 1 << 20):
            n = np.arange(start, min(start + (1 << 20), rows))
            writer.append({"ts": (n * 1000).astype("datetime64[us]"), "price": n * 0.5, "qty": n % 1000})
            writer.commit()
        writer.sync()


def evict_from_page_cache(path):
    """Removes the pages of a table's files from the page cache."""
    for file in path.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def mapped_bytes(path):
    """Returns how many bytes of the files in `path` are in this process's page tables.

    That is up to 64 KiB around each byte that it has read.
    """
    counts = re.findall(
        rf"{re.escape(str(path))}/.*?\nRss:\s*(\d+) kB", pathlib.Path("/proc/self/smaps").read_text(), re.S
    )
    return sum(map(int, counts)) << 10


def measure_pruning(path, rows):
    low, count = rows // 2 * 1000, rows // 1000
    expected = sum(n * 0.5 for n in range(rows // 2, rows // 2 + count))
    high = low + (count - 1) * 1000
    times = [np.datetime64(value, "us").item() for value in (low, high)]
    queries = {
        "ds.between": lambda ds: ds.between(low, high)["price"].sum(),
        "aw.scan": lambda ds: (
            aw.scan(ds).filter(pl.col("ts").is_between(*times)).select(pl.col("price").sum()).collect().item()
        ),
        "ds.filter": lambda ds: ds.filter((aw.col("ts") >= low) & (aw.col("ts") <= high))["price"].sum(),
    }
    total_bytes = sum(file.stat().st_size for file in path.iterdir())
    for name, query in queries.items():
        evict_from_page_cache(path)
        ds = aw.open(path)
        start = time.perf_counter()
        result = query(ds)
        seconds = time.perf_counter() - start
        assert abs(result - expected) < 1e-6 * expected
        mapped, read = mapped_bytes(path), ds.footprint.resident
        del ds
        measured = f"{mapped / total_bytes:.2%} ({read / total_bytes:.1%} with what the disk read ahead, {seconds * 1e3:.0f} ms)"
        yield f"`{name}` of 0.1 % of {rows / 1e6:.3g} M sorted rows, cold: bytes looked at", "≤ 1 %", measured


def wait_for_idle_scheduler(client):
    """Waits until the scheduler has dropped all results, which it would otherwise return again."""
    gc.collect()
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        time.sleep(0.01)


def compare_workers(path, rows):
    frame = aw.dask(path, npartitions=8)
    total = frame["x"].sum()
    worker_addresses = frame.map_partitions(
        lambda part: pd.Series([get_worker().address] * bool(len(part))), meta=("who", object)
    )
    graph_bytes = len(pickle.dumps(dict(total.optimize().dask)))
    seconds = {}
    for n in (1, 2):
        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            assert len(set(worker_addresses.compute(scheduler=client))) == n
            times = []
            for _ in range(ROUNDS + 1):
                wait_for_idle_scheduler(client)
                start = time.perf_counter()
                assert total.compute(scheduler=client) == rows
                times.append(time.perf_counter() - start)
            seconds[n] = statistics.median(times[1:])
    two, one = seconds[2], seconds[1]
    yield (
        f"Dask, sum of {rows / 1e6:.4g} M rows: two workers, against one",
        "≥ 1.5 ×",
        f"{one / two:.2f} × ({two * 1e3:.0f} ms)",
    )
    yield "the same: bytes of the graph that the scheduler gets", "≤ 1 MB", f"{graph_bytes / 1e3:.0f} kB"


def measure_splits(path):
    schema = pa.schema({"n": pa.int64()})
    with aw.writer(path, schema, segment_rows=16, sync="never") as writer:
        writer.append({"n": np.arange(16_000)})
    ds = aw.open(path)
    files = len(list(path.glob("*.arrow")))
    seconds, results = medians({"splits": lambda: ds.splits(1000)}, ROUNDS)
    assert len(results["splits"]) == 1000
    yield f"1,000 splits of a table of {files:,} segments", "< 20 ms", f"{seconds['splits'] * 1e3:.2f} ms"


def format_ratio(seconds):
    return (
        f"{seconds['ours'] / seconds['theirs']:.2f} × ({seconds['ours'] * 1e3:.1f} : {seconds['theirs'] * 1e3:.1f} ms)"
    )


def measure_all(folder, quick):
    write_stocks(folder / "stocks.arrow")
    yield from compare_sql(folder / "stocks.arrow")
    yield from compare_scan(folder / "stocks.arrow")
    rows = 5_600_000 if quick else 56_000_000
    write_sorted_table(folder / "sorted", rows)
    yield from measure_pruning(folder / "sorted", rows)
    rows = 25_600_000 if quick else 256_000_000
    aw.write({"x": np.ones(rows)}, folder / "ones.arrow")
    yield from compare_workers(folder / "ones.arrow", rows)
    yield from measure_splits(folder / "small")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="arrowwood-engines-", dir=arguments.folder))
    try:
        print("| figure | wanted | reached |\n| --- | --- | --- |")
        with dask.config.set({"distributed.admin.system-monitor.gil.enabled": False}):
            for figure, expected, measured in measure_all(folder, arguments.quick):
                print(f"| {figure} | {expected} | {measured} |", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
