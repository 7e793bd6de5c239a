"""Tests that calls without enough memory raise ``MemoryError``, and do not end the process."""

import json
import subprocess
import sys

import pytest

from waits import PATIENCE

# Makes two batches of half a million rows, then evaluates each call twice: with a few rows, so that modules are
# imported, and with all rows, when the address space may grow by `headroom_mib` only. Prints a line for each call.
PROGRAM = """
import io, json, os, pickle, resource, sys
import numpy as np
import pandas
import pyarrow as pa
import arrowwood as aw

headroom_mib, folder, calls = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
BATCH_ROWS = 1 << 19

def make_batch(seed):
    n = np.random.default_rng(seed).permutation(BATCH_ROWS)
    text = pa.array(n).cast(pa.string())
    return pa.table({
        "n": n,
        "x": n / BATCH_ROWS,
        "s": text,
        "d": pa.array(n % 1000).cast(pa.string()).dictionary_encode(),
        "l": pa.ListArray.from_arrays(np.arange(BATCH_ROWS + 1, dtype=np.int32), n),
        "b": n % 3 == 0,
        "t": pa.array(n).cast(pa.timestamp("us")),
    })

def make_scope(dataset, size, number):
    # Defines the names that calls use.
    files = {"CSV": f"{folder}/{size}.csv", "JSON": f"{folder}/{size}.json", "OUT": f"{folder}/{size}{number}"}
    return globals() | files | {"ds": dataset}

def limit_address_space():
    in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (headroom_mib << 20), resource.RLIM_INFINITY))

batches = [make_batch(1), make_batch(2)]
aw.write(batches, folder + "/large.arrow")
aw.write(batches, folder + "/large.arrows", format="stream")
frame = pa.concat_tables(batches).select(["n", "x", "s"]).to_pandas()
for size, rows in (("large", frame), ("small", frame[:5])):
    rows.to_csv(f"{folder}/{size}.csv", index=False)
    rows.to_json(f"{folder}/{size}.json", orient="records", lines=True)
del batches, frame, rows
all_rows = aw.open(folder + "/large.arrow")
first_values = all_rows["n"][:5].to_pylist()
buffer = aw.Buffer()
page = aw.from_arrow(pa.table({"text": ["x" * (1 << 20)]}))
for number, call in enumerate(calls):
    print(call, end="", flush=True)
    eval(call, make_scope(all_rows[:5], "small", number))
    scope = make_scope(all_rows, "large", number)
    limit_address_space()
    try:
        result, outcome = eval(call, scope), "done"
    except Exception as error:
        result, outcome = None, f"{type(error).__name__}: {error}"
        if isinstance(error, MemoryError):
            outcome = "MemoryError " + outcome
    del result, scope
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(" => ", outcome.splitlines()[0], sep="", flush=True)
    assert all_rows["n"][:5].to_pylist() == first_values
"""

# `to_polars` and `to_pandas` are left out, because a failed allocation in Polars or pyarrow may end the process.
CALLS = """
ds.collect()
ds.sort("x")
ds.sort("s")
ds.sort("d", "n")
ds["s"].sort()
ds.select("n", "x").to_numpy()
ds.to_arrow()
ds.to_pylist()
list(ds.rows())
list(ds)
ds.sample(len(ds) // 2)
ds.shuffle(1).collect()
ds.take(np.arange(len(ds))[::-1])
ds[list(range(5)) * (len(ds) // 5)]
ds[np.arange(len(ds)) % 2 == 0]
ds.filter(ds["x"] > 0.5).collect()
ds.filter((ds["x"] > 0.5) & (ds["s"] != "7")).collect()
ds.filter(ds["s"].is_in(ds["s"][:100_000].to_pylist()))
ds.filter(aw.col("s").str.contains("7")).collect()
ds.filter(aw.col("n") + aw.col("x") > 3)
ds.unique("n")
ds.unique("s")
ds.unique("d")
ds.drop_nulls().collect()
ds.aggregate(by="n", x="sum")
ds.aggregate(by="s", x="median", n="n_unique")
ds.aggregate(by="d", x="median")
ds.aggregate(x="median", n="n_unique", s="n_unique")
ds.describe()
ds.train_test_split(test_size=0.5)
ds.validate()
ds["n"].to_pylist()
ds["s"].to_pylist()
ds["l"].to_pylist()
list(ds["t"])
ds["n"].unique()
ds["s"].n_unique()
ds["s"].value_counts()
ds["d"].value_counts()
ds["x"].quantile(0.3)
ds["x"].approx_quantile(0.3)
ds["x"].var()
ds["n"].drop_nulls()
ds["x"].to_numpy(copy=True)
np.asarray(ds["s"])
np.asarray(ds["x"])
ds.filter(aw.col("n") + 1 > 3).collect()
ds["x"].map_reduce(lambda a: a.sum(), lambda a, b: a + b)
aw.read_csv(CSV)
aw.read_csv(CSV, dictionary=["s"])
aw.read_json(JSON)
aw.read_json(JSON, dictionary=["s"])
aw.write(ds, OUT)
aw.write(ds.sort("x"), OUT)
aw.write(ds, OUT, compression="zstd")
aw.write(ds, OUT, compression="lz4")
aw.writer(OUT, ds.select("n", "x", "s").schema).append(ds.select("n", "x", "s"))
aw.writer(OUT, ds.select("n", "x", "s").schema).append(ds.select("n", "x", "s").sort("x"))
aw.open(folder + "/large.arrow")["n"].sum()
aw.from_arrow(ds.to_arrow()).sort("n")
aw.concat([ds, ds]).collect()
next(iter(ds.loader(batch_size=1 << 20)))
aw.read_stream(open(folder + "/large.arrows", "rb")).read_all()
pickle.dumps(ds.shuffle(1))
pa.table(ds.filter(ds["x"] > 0.5))
buffer.write(bytes(len(ds) * 40))
page.take(np.zeros(len(ds), dtype=int))
""".strip().splitlines()


@pytest.mark.parametrize("headroom_mib", [4, 24])
def test_calls_without_enough_memory_raise_memory_error(tmp_path, headroom_mib):
    command = [sys.executable, "-c", PROGRAM, str(headroom_mib), str(tmp_path), json.dumps(CALLS)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    lines = [line.split(" => ") for line in process.stdout.splitlines()]
    assert process.returncode == 0, (process.returncode, lines[-1:], process.stderr)
    assert [call for call, _ in lines] == CALLS
    unexpected = [(call, outcome) for call, outcome in lines if not outcome.startswith(("done", "MemoryError"))]
    assert not unexpected, unexpected
    # The limit is effective: many of the calls fail.
    failed_count = sum(outcome.startswith("MemoryError") for _, outcome in lines)
    assert failed_count > len(CALLS) // 4
