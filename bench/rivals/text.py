"""Converts CSV and JSON lines to Arrow with arrowwood, Polars, DuckDB and pyarrow: seconds and peak memory.

    $ python bench/rivals/text.py [--mb 200] [--folder .] [--results FOLDER]

The text has times, numbers and words. Each conversion runs in a process of its own, which measures itself after
its imports. The libraries take turns, and the counts and sums of what they read must be equal. With --results the
figures are also written to FOLDER/text.md.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from report import format_table, write_result

OURS = "arrowwood"
IPC = "pl.scan_{scan}.sink_ipc(out, compression='uncompressed') or out"
WRITE = """
def write(reader, out):
    with pa.ipc.new_file(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return out
"""
POLARS, DUCKDB, PYARROW = (
    "import polars as pl",
    "import duckdb, pyarrow as pa",
    "import pyarrow as pa, pyarrow.{} as text_of",
)

# The imports of each library and the expression that is timed, by format and target.
WAYS = {
    ("csv", "to an Arrow file"): {
        OURS: ("from arrowwood import _arrowwood", "_arrowwood._run_cli(['arrowwood', 'import', text, out]) or out"),
        "polars": (POLARS, IPC.format(scan="csv(text, try_parse_dates=True)")),
        "duckdb": (DUCKDB + WRITE, "write(duckdb.sql(f\"from read_csv('{text}')\").to_arrow_reader(100_000), out)"),
        "pyarrow": (PYARROW.format("csv") + WRITE, "write(text_of.open_csv(text), out)"),
    },
    ("csv", "into memory"): {
        OURS: ("import arrowwood as aw", "aw.read_csv(text)"),
        "polars": (POLARS, "pl.read_csv(text, try_parse_dates=True)"),
        "duckdb": (DUCKDB, "duckdb.sql(f\"from read_csv('{text}')\").to_arrow_table()"),
        "pyarrow": (PYARROW.format("csv"), "text_of.read_csv(text)"),
    },
    ("jsonl", "to an Arrow file"): {
        OURS: ("from arrowwood import _arrowwood", "_arrowwood._run_cli(['arrowwood', 'import', text, out]) or out"),
        "polars": (POLARS, IPC.format(scan="ndjson(text)")),
        "duckdb": (DUCKDB + WRITE, "write(duckdb.sql(f\"from read_json('{text}')\").to_arrow_reader(100_000), out)"),
        "pyarrow": (PYARROW.format("json") + WRITE, "write(text_of.open_json(text), out)"),
    },
    ("jsonl", "into memory"): {
        OURS: ("import arrowwood as aw", "aw.read_json(text)"),
        "polars": (POLARS, "pl.read_ndjson(text)"),
        "duckdb": (DUCKDB, "duckdb.sql(f\"from read_json('{text}')\").to_arrow_table()"),
        "pyarrow": (PYARROW.format("json"), "text_of.read_json(text)"),
    },
}

MEASURE = """
import json, resource, sys, time
text, out = sys.argv[1:]
{imports}
start = time.perf_counter()
kept = {run}
taken = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
import pyarrow, pyarrow.compute
table = pyarrow.ipc.open_file(pyarrow.memory_map(kept)).read_all() if isinstance(kept, str) else pyarrow.table(kept)
answer = [table.num_rows, pyarrow.compute.sum(table["volume"]).as_py(), pyarrow.compute.sum(table["price"]).as_py()]
print(json.dumps([taken, peak, answer, str(table["ts"].type)]))
"""

SHOWS = (
    "By `bench/rivals/text.py`: text of {mb} MB with times, words, numbers and a note of some words. Each library uses all cores. The memory "
    "is the maximum of the process, with its imports and the pages of mapped text. Times stay text in: {texts}."
)


def make(path, size):
    is_csv = path.suffix == ".csv"
    with path.open("w") as file:
        if is_csv:
            file.write("ts,symbol,price,volume,note\n")
        row = 0
        while file.tell() < size:
            file.write("".join(line(i, is_csv) for i in range(row, row + 20_000)))
            row += 20_000


def line(i, is_csv):
    ts = f"2026-{1 + i // 2_000_000 % 12:02}-{1 + i // 86_400 % 28:02}T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000:03}"
    symbol, price, volume = "AAPL IBM MSFT GOOG".split()[i % 4], 100 + i % 977 / 8, i * 7919 % 100_003
    if is_csv:
        return f"{ts},{symbol},{price},{volume},note of row {i}\n"
    return f'{{"ts": "{ts}", "symbol": "{symbol}", "price": {price}, "volume": {volume}, "note": "note of row {i}"}}\n'


def measure(ways, text, out, runs):
    """Returns the seconds and the peak memory of each library in each run, and the type that it read times as."""
    taken, peaks, types, answers = ({name: [] for name in ways} for _ in range(4))
    for _ in range(runs):
        for name, (imports, run) in ways.items():
            line = [sys.executable, "-c", MEASURE.format(imports=imports, run=run), str(text), str(out)]
            found = json.loads(subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout)
            for into, value in zip((taken, peaks, answers, types), found):
                into[name].append(value)
    for name, answer in answers.items():
        assert answer == answers[OURS], f"{text}: {name} has read {answer[0]}, {OURS} {answers[OURS][0]}"
    return taken, peaks, types


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    lines, left = [], set()
    for (kind, goal), ways in WAYS.items():
        text = options.folder / f"text-{options.mb}.{kind}"
        if not text.exists():
            make(text, options.mb * 1_000_000)
        text.read_bytes()
        taken, peaks, types = measure(ways, text, options.folder / "text.arrow", options.runs)
        ours = statistics.median(taken[OURS])
        for name in ways:
            low, middle, high = statistics.quantiles(taken[name], n=4)
            ratio = f"×{middle / ours:.2f}"
            peak = f"{max(peaks[name]) / 2**20:,.0f} MiB"
            left |= {f"{name} {kind}"} if "string" in types[name][0] else set()
            what = "CSV" if kind == "csv" else "JSON lines"
            seconds = f"{middle:.2f} s", f"± {(high - low) / 2:.2f} s"
            lines.append([f"{what} {goal}", name, *seconds, f"**{ratio}**" if middle < ours else ratio, peak])
    header = ["", "", "median", "spread", "against arrowwood", "memory at most"]
    table = format_table(header, lines)
    print(table)
    if options.results:
        shows = SHOWS.format(mb=options.mb, texts=", ".join(sorted(left)) or "none")
        write_result(options.results, "text", f"Text of {options.mb} MB to Arrow", shows, table)


if __name__ == "__main__":
    main()
