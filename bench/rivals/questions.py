"""Asks arrowwood and its rivals questions about columns and rows, in turns. Prints medians, and compares the answers.

    python bench/rivals/questions.py [--quick] [--data DIR] [--results FOLDER]
    python bench/rivals/questions.py --only WORD … [--rounds 11] [--data DIR] [--results FOLDER]

With --results, the times are also written to FOLDER/questions.json, and their medians to FOLDER/questions.md. With
--only, only questions whose titles have one of the words are asked, and their results are replaced in the files.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

import arrowwood as aw
import data
from format_questions import format_line, format_questions
from run import machine, progress, warm

sys.path.append(str(Path(__file__).resolve().parent.parent))
import grouping
from question import OURS, Question, engines, same_groups
from report import write_result

ROUNDS = 11


def reductions(path, name):
    ds, table = aw.open(path), pa.ipc.open_stream(pa.memory_map(path)).read_all()
    ours, theirs = ds["price"], table["price"]
    frame, array = pl.from_arrow(table.select(["price"])), ds["price"].to_numpy()
    series = table.select(["price"]).to_pandas(types_mapper=pd.ArrowDtype)["price"]
    db, fusion = engines(table)
    what = {
        "sum": (ours.sum, lambda: pc.sum(theirs).as_py(), frame["price"].sum, array.sum),
        "min": (ours.min, lambda: pc.min(theirs).as_py(), frame["price"].min, array.min),
        "max": (ours.max, lambda: pc.max(theirs).as_py(), frame["price"].max, array.max),
        "std": (ours.std, lambda: pc.stddev(theirs, ddof=1).as_py(), frame["price"].std, lambda: array.std(ddof=1)),
        "median": (
            lambda: ours.quantile(0.5),
            lambda: pc.quantile(theirs, 0.5)[0].as_py(),
            frame["price"].median,
            lambda: np.median(array),
        ),
    }
    for function, (a, b, c, d) in what.items():
        sql = f"select {'stddev_samp' if function == 'std' else function}(price) from t"
        ways = {OURS: a, "pyarrow": b, "polars": c, "numpy": d, "pandas": getattr(series, function)}
        ways["duckdb"] = lambda sql=sql: db.sql(sql).fetchall()[0][0]
        if function != "median":
            # DataFusion's median copies the column, and takes minutes for a large one.
            sql = sql.replace("stddev_samp", "stddev")
            ways["datafusion"] = lambda sql=sql: fusion.sql(sql).to_arrow_table().column(0)[0].as_py()
        elif len(table) > 100_000_000:
            # The other libraries copy the column, for which memory is too short.
            ways = {name: ways[name] for name in (OURS, "polars", "duckdb")}
        shows = (
            "One column that is mapped and has been read before, as each library reads its own view of the same pages. "
            "It shows how near to the speed of memory a reduction comes; it does not show the first touch of a page."
        )
        yield Question(f"{function} of {name}", ways, shows)


def mean_by_group(path, name, key="symbol"):
    ds = aw.open(path)
    table = pa.ipc.open_stream(pa.memory_map(path)).read_all()
    frame = pl.from_arrow(table)
    pandas = table.select([key, "price"]).to_pandas()
    db, fusion = engines(table)
    sql = f"select {key}, avg(price) from t where price > 100 group by 1"
    where = pc.field("price") > 100
    ways = {
        OURS: lambda: ds.aggregate(by=key, where=aw.col("price") > 100, mean=("price", "mean")),
        "pyarrow": lambda: (
            pds.dataset(table)
            .to_table(columns=[key, "price"], filter=where)
            .group_by(key)
            .aggregate([("price", "mean")])
        ),
        "polars": lambda: (
            frame.lazy().filter(pl.col("price") > 100).group_by(key).agg(pl.col("price").mean()).collect()
        ),
        "duckdb": lambda: db.sql(sql).to_arrow_table(),
        "datafusion": lambda: fusion.sql(sql).to_arrow_table(),
        "pandas": lambda: pandas[pandas["price"] > 100].groupby(key, observed=True)["price"].mean().reset_index(),
    }
    shows = (
        "A filter and a mean for each key in one question, from data that is mapped; Polars and pandas ask frames that "
        "they have made of it before, which copies text and is not counted. It shows fused passes over few groups; it says nothing "
        "of many groups, nor of joins."
    )
    return Question(f"mean(price) by {key} where price > 100, {name}", ways, shows, same_groups)


def write_utf8_copy(path, folder):
    """Writes the stocks with text instead of a dictionary. Returns the path."""
    copy_path = folder / "utf8.stream"
    if not copy_path.exists():
        table = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        table = table.set_column(0, "symbol", table["symbol"].cast(pa.string())).combine_chunks()
        with pa.ipc.new_stream(str(copy_path), table.schema) as writer:
            writer.write_table(table)
    return str(copy_path)


def gathers(path, name):
    ds, table = aw.open(path), pa.ipc.open_stream(pa.memory_map(path)).read_all()
    frame = pl.from_arrow(table)
    row_numbers = np.random.default_rng(3).integers(0, len(ds), 10_000)
    rows = row_numbers.tolist()
    indices = pa.array(row_numbers)
    ways = {
        OURS: lambda: ds.take(row_numbers)["price"].to_numpy(),
        "pyarrow": lambda: table.take(indices)["price"].to_numpy(),
        "polars": lambda: frame[row_numbers]["price"].to_numpy(),
    }
    shows = (
        "All columns of 10,000 rows anywhere, at once. It shows what finding a row's batch costs, and the cache misses of "
        "each value; it does not show pages that have to come from a disk."
    )
    yield Question(f"take of 10,000 rows, {name}", ways, shows)
    few_rows = rows[:500]
    ways = {
        OURS: lambda: [ds[i]["price"] for i in few_rows],
        "pyarrow": lambda: [table.slice(i, 1).to_pylist()[0]["price"] for i in few_rows],
        "polars": lambda: [frame.row(i, named=True)["price"] for i in few_rows],
    }
    try:
        import datasets

        hf = datasets.Dataset.from_file(path)
        ways["Hugging Face"] = lambda: [hf[i]["price"] for i in few_rows]
    except ImportError:
        pass
    shows = (
        "500 rows one by one, each as a dict of Python values, as a training loop without batches does. Mostly the price of "
        "making Python objects."
    )
    yield Question(f"500 random rows as dicts, {name}", ways, shows)


def pyarrow_price(reader, row):
    """Reads all batches and returns the price of a row."""
    return reader.read_all().slice(row, 1).to_pylist()[0]["price"]


def many_batches(folder):
    paths_by_kind = {}
    schema = pa.schema({"id": pa.int64(), "price": pa.float64()})
    for kind, open_writer in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        paths_by_kind[kind] = folder / f"100000.{kind}"
        if paths_by_kind[kind].exists():
            continue
        with open_writer(str(paths_by_kind[kind]), schema) as writer:
            for number in range(100_000):
                ids = np.arange(number * 56, number * 56 + 56)
                writer.write_batch(pa.record_batch([ids, ids * 0.25], schema=schema))
    file, stream = str(paths_by_kind["file"]), str(paths_by_kind["stream"])
    row = 3_333_333

    shows = "From the path to one row in the middle of 100,000 batches of 56 rows: {}"
    yield Question(
        "open a file of 100,000 batches, one row",
        {
            OURS: lambda: aw.open(file)[row]["price"],
            "pyarrow": lambda: pyarrow_price(pa.ipc.open_file(pa.memory_map(file)), row),
        },
        shows.format(
            "a file has a footer that says where they are, and the number of rows of each stands in the batch."
        ),
    )
    yield Question(
        "open a stream of 100,000 batches, one row",
        {
            OURS: lambda: aw.open(stream)[row]["price"],
            "pyarrow": lambda: pyarrow_price(pa.ipc.open_stream(pa.memory_map(stream)), row),
        },
        shows.format("a stream has to be walked, message by message."),
    )
    ds = aw.open(stream)
    table = pa.ipc.open_stream(pa.memory_map(stream)).read_all()
    yield Question(
        "sum over 100,000 batches",
        {OURS: ds["price"].sum, "pyarrow": lambda: pc.sum(table["price"]).as_py()},
        "A scan of open data: what each batch costs beside its 56 values.",
    )


def run_loader(seed, path, kind, count, barrier, results):
    """Fetches random batches of 64 rows as dicts, as a worker of a training job does."""
    if kind == OURS:
        before = private_bytes()
        ds = aw.open(path)
    else:
        import datasets

        before = private_bytes()
        ds = datasets.Dataset.from_file(path)
    fetch = ds.__getitems__
    len(ds)
    random = np.random.default_rng(seed)
    row_numbers = random.integers(0, len(ds), (count, 64)).tolist()
    fetch(row_numbers[0])
    barrier.wait()
    start = perf_counter()
    for batch in row_numbers:
        fetch(batch)
    results.put((count * 64, perf_counter() - start, private_bytes() - before))


def private_bytes():
    with open("/proc/self/smaps_rollup") as lines:
        # Private pages include file pages that only this process maps, so anonymous pages are counted instead.
        return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024


def measure_workers(path, kind, count):
    """Runs four workers. Returns their rows per second, and the private memory that they added by fetching."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    started = [context.Process(target=run_loader, args=(n, path, kind, count, barrier, results)) for n in range(4)]
    for process in started:
        process.start()
    worker_results = [results.get(timeout=300) for _ in started]
    for process in started:
        process.join()
    return sum(rows for rows, _, _ in worker_results) / max(taken for _, taken, _ in worker_results), sum(
        added_bytes for _, _, added_bytes in worker_results
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the 4 GiB file, fewer rounds")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "arrowwood-rivals"))
    parser.add_argument("--stocks", help="the 560 rows (default: those in the package vega_datasets)")
    parser.add_argument("--only", nargs="+", help="words in the titles of the questions to ask")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    rounds = 3 if args.quick else args.rounds
    report = {"machine": machine(), "questions": []}
    for question in questions(args):
        if args.only and not any(word in question.title for word in args.only):
            continue
        taken = question.ask(rounds)
        taken = {name: [round(seconds, 9) for seconds in times] for name, times in taken.items()}
        report["questions"].append({"title": question.title, "shows": question.shows, "taken": taken})
        print(format_line(question.title, taken), flush=True)
    progress("")
    if not args.quick and not args.only:
        report["loaders"] = measure_loaders(args)
    if args.results:
        json_path = args.results / "questions.json"
        if args.only:
            report = merge_reports(report, json.loads(json_path.read_text()))
        write_result(args.results, "questions", "Questions to columns and rows", format_questions(report))
        json_path.write_text(json.dumps(report, indent=1, default=str) + "\n")


def merge_reports(report, before):
    """Returns the earlier report with the results of the questions that were asked now."""
    new_questions = {question["title"]: question for question in report["questions"]}
    questions = [new_questions.pop(question["title"], question) for question in before["questions"]]
    return {**before, "questions": questions + list(new_questions.values())}


def questions(args):
    args.data.mkdir(parents=True, exist_ok=True)
    paths = {}
    for variant in ["1", "5600"] + ([] if args.quick or args.only else ["4g_one"]):
        progress(f"data of {variant}")
        files, note = data.make(args.data, variant, args.stocks or data.default_stocks())
        for file in files:
            if file["format"] == "stream":
                paths[variant] = str(file["path"])
                warm(file["path"])
    one, many = paths["1"], paths["5600"]
    yield from reductions(one, "5.6 M float64 (45 MB)")
    if large := paths.get("4g_one"):
        yield from reductions(large, "253 M float64 (2 GB)")
    yield mean_by_group(one, "5.6 M rows, dictionary, one batch")
    yield mean_by_group(many, "5.6 M rows, dictionary, 5,600 batches")
    yield mean_by_group(write_utf8_copy(one, args.data), "5.6 M rows, utf8, one batch")
    yield from gathers(one, "one batch")
    yield from gathers(many, "5,600 batches")
    yield from many_batches(args.data)
    yield from grouping.questions(args.data, 200_000 if args.quick else 5_000_000)


def measure_loaders(args):
    files, _ = data.make(args.data, "4g", args.stocks or data.default_stocks())
    path = next(str(file["path"]) for file in files if file["format"] == "stream")
    progress("four workers, the file is read once")
    warm(path)
    figures = {}
    for kind in (OURS, "Hugging Face"):
        progress(f"four workers, {kind}")
        try:
            figures[kind] = measure_workers(path, kind, 1000)
        except Exception as e:
            print(f"four workers, {kind}: {e}")
    for kind, (rate, added_bytes) in figures.items():
        print(f"four workers on 4 GiB: {kind} {rate:,.0f} rows/s, {added_bytes / 2**20:.1f} MiB of private memory more")
    return figures


if __name__ == "__main__":
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    main()
