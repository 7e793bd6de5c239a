"""Compares how arrowwood and its rivals open and read files. Prints one table for each file.

    python bench/rivals/run.py [--quick] [--only 1 5600.stream …] [--json FILE] [--results FOLDER] [--data DIR]

With --results, the tables are also written to FOLDER/opening.md. docs/performance.md says what is measured, and how.
The files are made once and stay in --data. Exits with 1 if a contender fails or gives a wrong answer.
"""

import argparse
import gc
import importlib.metadata
import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter_ns

from contenders import CONTENDERS

sys.path.append(str(Path(__file__).resolve().parent.parent))
from report import format_duration, write_result

OURS, MIB = "arrowwood", 1 << 20
MEASURES = {
    "open": "open",
    "schema": "schema only",
    "first": "open + first row",
    "last": "open + last row",
    "row": "random row",
    "rows": "10,000 random rows",
    "open_sum": "open + sum",
    "sum": "sum, warm",
}
PACKAGES = ("arrowwood", "pyarrow", "polars", "duckdb", "datasets", "numpy")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# ---- a contender with a file, in a process of its own ----


def measure_cell(name, file, what, budget):
    contender = CONTENDERS[name]
    try:
        contender.load()
    except (ImportError, AttributeError) as e:
        return {"absent": f"{name}: left out, {e}"}
    try:
        gc.collect()
        gc.freeze()  # excludes the imported modules from later collections
        gc.disable()
        return measure_memory(contender, file) if what == "memory" else measure_times(contender, file, budget * 10**9)
    # The report lists any failure of a contender, and the other contenders are measured.
    except Exception as e:
        frame = traceback.extract_tb(e.__traceback__)[-1]
        return {"failed": f"{type(e).__name__}: {e} ({Path(frame.filename).name}:{frame.lineno})"}


def open_and_inspect(contender, file):
    instance = contender(file)
    return instance, instance.names, instance.rows


def time_calls(budget, *calls):
    """Returns the median and minimum of each call. The calls take turns.

    The first round warms up and isn't counted. If it uses up the budget, it is the only round, and marked as rough.
    """
    durations_of_calls = [[] for _ in calls]
    start = perf_counter_ns()
    while len(durations_of_calls[0]) < 4 or (perf_counter_ns() - start < budget and len(durations_of_calls[0]) < 5000):
        for call, durations in zip(calls, durations_of_calls):
            begin = perf_counter_ns()
            result = call()
            durations.append(perf_counter_ns() - begin)
            del result  # closing is not part of opening
        if durations[-1] > 10**6:
            gc.collect()  # some contenders leave reference cycles that keep the whole file in memory
        if len(durations) == 1 and perf_counter_ns() - start > budget:
            break
    return [summary(durations[1:] or durations, rough=len(durations) == 1) for durations in durations_of_calls]


def summary(durations, rough):
    return {"median": statistics.median(durations), "min": min(durations), "n": len(durations), "rough": rough}


def measure_times(contender, file, budget):
    open_contender = lambda: contender(file)
    if contender.sums_only:
        out = {"wrong": list_differences([("open + sum", open_contender().total(), file["sum"])])}
        if contender.beside:
            # On a busy machine, a ratio is more reliable if the calls take turns than if two processes are compared.
            contender.beside.load()
            turns = lambda: open_contender().total(), lambda: contender.beside(file).total()
            out["open_sum"], out["beside"] = time_calls(2 * budget, *turns)
        else:
            (out["open_sum"],) = time_calls(budget, lambda: open_contender().total())
        return out
    out = {"wrong": find_wrong_answers(open_contender, file)}
    starts = {
        "open": lambda: open_and_inspect(contender, file),
        "schema": lambda: (instance := open_contender(), instance.schema()),
        "first": lambda: open_contender().first(),
        "last": lambda: open_contender().last(),
        "open_sum": lambda: open_contender().total(),
    }
    for key, call in starts.items():
        if key != "schema" or contender.schema:
            (out[key],) = time_calls(budget, call)
    instance = open_contender()
    instance.sum(), instance.row(0)  # some contenders read the file only now
    (out["sum"],) = time_calls(budget, instance.sum)
    out["row"], out["rows"] = measure_rows(instance, file["rows"], budget)
    return out


def measure_rows(instance, count, budget):
    """Returns the time of a random row, and of 10,000 rows, which is extrapolated if it exceeds the budget."""
    rng = random.Random(2)
    row_numbers = [rng.randrange(count) for _ in range(10_000)]
    tens = itertools.cycle(zip(*[iter(row_numbers)] * 10))

    (ten,) = time_calls(budget, lambda: read_rows(instance, next(tens)))  # warms up the file for the calls that follow
    if not ten["rough"]:
        (ten,) = time_calls(budget, lambda: read_rows(instance, next(tens)))
    if ten["median"] * 1000 > budget:
        return scale(ten, 0.1), scale(ten, 1000) | {"rough": True}
    return scale(ten, 0.1), *time_calls(budget, lambda: read_rows(instance, row_numbers))


def read_rows(instance, row_numbers):
    for number in row_numbers:
        instance.row(number)


def scale(times, factor):
    return times | {key: times[key] * factor for key in ("median", "min")}


def find_wrong_answers(open_contender, file):
    instance, (first, last) = open_contender(), (row for _, row in file["samples"][:2])
    names = [("schema only", list(open_contender().schema()), file["names"])] if open_contender().schema else []
    return list_differences(
        [
            *names,
            ("names", list(instance.names), file["names"]),
            ("rows", instance.rows, file["rows"]),
            ("open + sum", open_contender().total(), file["sum"]),
            ("sum", instance.sum(), file["sum"]),
            ("open + first row", comparable_row(open_contender().first()), first),
            ("open + last row", comparable_row(open_contender().last()), last),
            *((f"row {i}", comparable_row(instance.row(i)), row) for i, row in file["samples"]),
        ]
    )


def list_differences(checks):
    """Returns messages for the checks, which are `(name, actual, expected)`, whose values differ."""
    differences = []
    for name, actual, expected in checks:
        if not is_close(actual, expected):
            differences.append(f"{name}: {actual!r}, wanted {expected!r}")
    return differences


def is_close(actual, expected):
    return actual == expected or (type(expected) is float and abs(actual - expected) <= 1e-9 * abs(expected))


def comparable_row(row):
    """Returns a row with times as milliseconds. A time without a zone raises, and other types become text."""

    comparable = {}
    for name, value in row.items():
        if isinstance(value, datetime):
            comparable[name] = (value - EPOCH) / timedelta(milliseconds=1)
        else:
            comparable[name] = value if type(value) in (str, float) else repr(value)
    return comparable


def measure_memory(contender, file):
    if contender.sums_only or not (before := resident_bytes()):
        return {}
    instance = open_and_inspect(contender, file)
    after = resident_bytes()
    assert instance[2] == file["rows"]
    return {"memory": [b - a for a, b in zip(before, after)]}


def resident_bytes():
    """Returns the resident and private bytes of this process, or None if the system doesn't tell."""
    try:
        with open("/proc/self/status") as f:
            lines = dict(line.split(":", 1) for line in f)
        return [int(lines[k].split()[0]) * 1024 for k in ("VmRSS", "RssAnon")]
    except (OSError, KeyError):
        return None


# ---- all contenders, and the report ----


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the 4 GiB files, a fifth of the time each")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    parser.add_argument("--data", type=Path, metavar="DIR", default=Path(tempfile.gettempdir(), "arrowwood-rivals"))
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="1, 86, 5600, 4g, 4g_one, or one file: 1.stream")
    parser.add_argument("--stocks", metavar="CSV", help="the 560 rows (default: those in the package vega_datasets)")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.results and args.only:
        parser.error("--results needs all files")
    if args.cell:
        return print("\n" + json.dumps(measure_cell(**json.loads(args.cell))))
    notes, tables, failures = [], {}, []
    for file in files(args, notes):
        tables[Path(file["path"]).name] = table = {"about": file, "cells": {}}
        for name in CONTENDERS:
            measure(name, file, 0.2 if args.quick else 1.0, table["cells"], notes, failures)
    progress("")
    report = {
        "machine": machine(),
        "notes": notes,
        "failures": failures,
        "tables": tables,
        "figures": promised_figures(tables),
    }
    print(render(report, markdown=False))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))
    if args.results:
        write_result(args.results, "opening", "Opening and reading", render(report, markdown=True))
    if failures:
        sys.exit(f"{len(failures)} FAILED:\n" + "\n".join(failures))


def files(args, notes):
    """Yields the descriptions of the files to measure, after making and reading them."""
    import data  # imported here, as the processes of contenders should not load what it imports

    args.data.mkdir(parents=True, exist_ok=True)
    only = args.only or list(data.VARIANTS)
    if unknown := {o.split(".")[0] for o in only} - set(data.VARIANTS):
        sys.exit(f"no such variant: {', '.join(unknown)}; there are {', '.join(data.VARIANTS)}")
    for variant in data.VARIANTS:
        if not any(o.split(".")[0] == variant for o in only):
            continue
        if args.quick and variant.startswith("4g"):
            notes.append(f"{variant}: left out, --quick")
            continue
        progress(f"data of {variant}")
        variant_files, note = data.make(args.data, variant, args.stocks or data.default_stocks())
        notes += [note] if note else []
        for file in variant_files:
            if variant in only or f"{variant}.{file['format']}" in only:
                warm(file["path"])
                yield file


def warm(path):
    """Reads a file once, so that it is in the page cache."""
    piece = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as f:
        while f.readinto(piece):
            pass


def measure(name, file, budget, cells, notes, failures):
    """Measures a contender with a file, and adds the result to `cells`, `notes` or `failures`."""
    from data import available

    contender, where = CONTENDERS[name], Path(file["path"]).name
    if file["format"] not in contender.formats or (contender.one_batch and not file["layout"]):
        return
    if contender.copies and file["bytes"] * 2.5 > available():
        notes.append(f"{where}, {name}: left out, it copies and memory is short")
        return
    progress(f"{where}: {name}")
    result = {}
    for what in ("times", "memory"):
        result |= run_process(name, file, what, budget)
        if "absent" in result:
            notes += [result["absent"]] if result["absent"] not in notes else []
            return
    if failure := result.pop("failed", None) or "; ".join(result.pop("wrong")):
        failures.append(f"{where}, {name}: {failure}")
        return
    cells[name] = result


def run_process(name, file, what, budget):
    request = json.dumps({"name": name, "file": file, "what": what, "budget": budget})
    try:
        child = subprocess.run(
            [sys.executable, __file__, "--cell", request], capture_output=True, text=True, timeout=300
        )
        return json.loads(child.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": f"{what} took over 5 minutes"}
    except (IndexError, ValueError):
        return {"failed": f"{what} ended with {child.returncode}: {child.stderr[-500:]}"}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def machine():
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return f"Python {platform.python_version()}, {', '.join(versions)}; {platform.system()}, {os.cpu_count()} cores"


def median_of(tables, file, key, name=OURS):
    return tables.get(file, {}).get("cells", {}).get(name, {}).get(key, {}).get("median")


def format_figure(what, wanted, ours, theirs, limit):
    if not (ours and theirs):
        return [what, wanted, "–", "not measured"]
    reached = f"{ours / theirs:.3g} ({format_duration(ours)} : {format_duration(theirs)})"
    return [what, wanted, reached, "met" if ours / theirs <= limit else "NOT met"]


def figure_against_pyarrow(tables, what, file, key, part):
    ours, theirs = median_of(tables, file, key), median_of(tables, file, key, "pyarrow mapped")
    return format_figure(what, f"≤ 1/{part} of pyarrow mapped", ours, theirs, 1 / part)


def promised_figures(tables):
    """Returns the rows of the table that compares measured figures with the promised ones."""
    rss = tables.get("4g.file", {}).get("cells", {}).get(OURS, {}).get("memory")
    limit = "limit of the sum, 2 threads"
    return [
        figure_against_pyarrow(tables, "open one batch of 95 MB", "1.stream", "open", 3),
        figure_against_pyarrow(tables, "open + first row", "1.stream", "first", 3),
        format_figure(
            "open: 4 GiB against 95 MB, one batch",
            "≤ 1.2",
            median_of(tables, "4g_one.stream", "open"),
            median_of(tables, "1.stream", "open"),
            1.2,
        ),
        figure_against_pyarrow(tables, "open 4 GiB of 4,096 batches, file format", "4g.file", "open", 100),
        [
            "memory it adds",
            "< 8 MiB",
            f"{rss[0] / MIB:.1f} MiB" if rss else "–",
            "not measured" if not rss else "met" if rss[0] < 8 * MIB else "NOT met",
        ],
        figure_against_pyarrow(tables, "open + row count, stream of 5,600 batches", "5600.stream", "open", 8),
        figure_against_pyarrow(tables, "one random row as a dict", "1.stream", "row", 3),
        format_figure(
            "open + sum of 5.6 M float64, taking turns with the limit",
            "≤ 1.25 × the limit, two threads",
            median_of(tables, "1.stream", "beside", limit),
            median_of(tables, "1.stream", "open_sum", limit),
            1.25,
        ),
    ]


def render(report, markdown):
    parts = [
        f"Measured with {report['machine']}. Medians; ~ = one run or extrapolated; ×3.0 = three times as long as"
        f" {OURS}{', **bold** = shorter' if markdown else ''}. MiB: resident (private) after one open."
    ]
    parts += [f"- {note}" for note in report["notes"]] + [f"- FAILED {f}" for f in report["failures"]]
    for name, table in report["tables"].items():
        about = table["about"]
        parts += [
            "",
            f"## {name}: {about['rows']:,} rows, {about['batches']:,} batches, {about['bytes'] / 1e6:,.0f} MB",
            "",
        ]
        parts += grid(["", *MEASURES.values(), "MiB"], contender_lines(table["cells"], markdown), markdown)
    parts += ["", "## Figures", ""] + grid(["figure", "wanted", "reached", ""], report["figures"], markdown)
    return "\n".join(parts)


def contender_lines(cells, markdown):
    lines = []
    for name, result in cells.items():
        lines.append(
            [name, *(time_text(cells, name, key, markdown) for key in MEASURES), memory_text(cells, name, markdown)]
        )
        if not markdown:
            lines.append(
                ["  minimum", *(format_duration(result[k]["min"]) if k in result else "" for k in MEASURES), ""]
            )
    return lines


def time_text(cells, name, key, markdown):
    result, ours = cells[name].get(key), cells.get(OURS, {}).get(key)
    if not result:
        return "–"
    text = ("~" if result["rough"] else "") + format_duration(result["median"])
    if not ours or name == OURS:
        return text
    ratio = result["median"] / ours["median"]
    text += f" ×{ratio:,.{2 if ratio < 1 else 1 if ratio < 100 else 0}f}"
    return f"**{text}**" if markdown and ratio < 1 else text


def memory_text(cells, name, markdown):
    result, ours = cells[name].get("memory"), cells.get(OURS, {}).get("memory")
    if not result:
        return "–"
    text = f"{result[0] / MIB:,.1f} ({result[1] / MIB:,.1f})"
    return f"**{text}**" if markdown and ours and result[0] < ours[0] else text


def grid(head, lines, markdown):
    if markdown:
        return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    return ["  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in (head, *lines)]


if __name__ == "__main__":
    main()
