"""Calls that take more memory than there is raise ``MemoryError``, and nothing ends the process."""

import json
import subprocess
import sys

import pytest

from waits import PATIENCE

# Two batches of half a million rows. Each call is made with a few rows first, so that modules are imported; then the
# process may take some MiB more than it has.
PRELUDE = """
import io, json, os, pickle, resource, sys
import numpy as np
import pandas
import pyarrow as pa
import arrowwood as aw

room, folder, calls = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
rows = 1 << 19
def batch(rows, seed):
    n = np.random.default_rng(seed).permutation(rows)
    text = pa.array(n).cast(pa.string())
    columns = {"n": n, "x": n / rows, "s": text, "d": pa.array(n % 1000).cast(pa.string()).dictionary_encode()}
    columns["l"] = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), n)
    return pa.table(columns | {"b": n % 3 == 0, "t": pa.array(n).cast(pa.timestamp("us"))})

batches = [batch(rows, 1), batch(rows, 2)]
aw.write(batches, folder + "/large.arrow")
aw.write(batches, folder + "/large.arrows", format="stream")
flat = pa.concat_tables(batches).select(["n", "x", "s"])
large = flat.to_pandas()
large.to_csv(folder + "/large.csv", index=False)
large.to_json(folder + "/large.json", orient="records", lines=True)
large[:5].to_csv(folder + "/small.csv", index=False)
large[:5].to_json(folder + "/small.json", orient="records", lines=True)
del batches, flat, large
whole = aw.open(folder + "/large.arrow")
first = whole["n"][:5].to_pylist()
buffer = aw.Buffer()
page = aw.from_arrow(pa.table({"text": ["x" * (1 << 20)]}))
for number, call in enumerate(calls):
    print(call, end="", flush=True)
    given = dict(globals(), ds=whole[:5], CSV=folder + "/small.csv", JSON=folder + "/small.json", OUT=f"{folder}/small{number}")
    eval(call, given)
    given = dict(globals(), ds=whole, CSV=folder + "/large.csv", JSON=folder + "/large.json", OUT=f"{folder}/large{number}")
    in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (room << 20), resource.RLIM_INFINITY))
    try:
        made, outcome = eval(call, given), "done"
    except Exception as error:
        made, outcome = None, f"{type(error).__name__}: {error}"
        is_memory = isinstance(error, MemoryError)
        outcome = ("MemoryError " if is_memory else "") + outcome
    del made, given
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(" => ", outcome.splitlines()[0], sep="", flush=True)
    assert whole["n"][:5].to_pylist() == first
"""

# `to_polars` and `to_pandas` are left out: an allocation of Polars or pyarrow that fails may end the process.
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


@pytest.mark.parametrize("room", [4, 24])
def test_short_memory_is_a_memory_error(tmp_path, room):
    child = [sys.executable, "-c", PRELUDE, str(room), str(tmp_path), json.dumps(CALLS)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=PATIENCE)
    outcomes = [line.split(" => ") for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, outcomes[-1:], done.stderr)
    assert [call for call, _ in outcomes] == CALLS
    wrong = [outcome for outcome in outcomes if not outcome[1].startswith(("done", "MemoryError"))]
    assert not wrong, wrong
    assert room > 24 or sum(outcome.startswith("MemoryError") for _, outcome in outcomes) > len(CALLS) // 4
