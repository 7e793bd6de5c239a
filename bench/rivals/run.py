"""Arrowwood beside its rivals: one command, one table per file, see README.md."""

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


# One contender with one file, in a process of its own.


def cell(name, file, what, budget):
    contender = CONTENDERS[name]
    try:
        contender.load()
    except (ImportError, AttributeError) as e:
        return {"absent": f"{name}: left out, {e}"}
    try:
        gc.collect()
        gc.freeze()  # what the imports made is looked at no more: later collections are short
        gc.disable()
        return memory(contender, file) if what == "memory" else times(contender, file, budget * 10**9)
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)[-1]
        return {"failed": f"{type(e).__name__}: {e} ({Path(at.filename).name}:{at.lineno})"}


def opened(contender, file):
    held = contender(file)
    return held, held.names, held.rows


def clock(budget, *calls):
    """Each call's median and minimum, the calls taking turns. The first round warms up and isn't
    counted, unless it alone uses the budget up: then it is all there is, and marked as rough."""
    taken = [[] for _ in calls]
    start = perf_counter_ns()
    while len(taken[0]) < 4 or (perf_counter_ns() - start < budget and len(taken[0]) < 5000):
        for call, kept in zip(calls, taken):
            begin = perf_counter_ns()
            result = call()
            kept.append(perf_counter_ns() - begin)
            del result  # closing is not part of opening
        if kept[-1] > 10**6:
            gc.collect()  # some contenders leave cycles that hold the whole file
        if len(kept) == 1 and perf_counter_ns() - start > budget:
            break
    return [summary(kept[1:] or kept, rough=len(kept) == 1) for kept in taken]


def summary(kept, rough):
    return {"median": statistics.median(kept), "min": min(kept), "n": len(kept), "rough": rough}


def times(contender, file, budget):
    make = lambda: contender(file)
    if contender.sums_only:
        out = {"wrong": unequal([("open + sum", make().total(), file["sum"])])}
        if contender.beside:
            # On a busy machine a ratio of times taken in turns is worth more than one of two processes.
            contender.beside.load()
            turns = lambda: make().total(), lambda: contender.beside(file).total()
            out["open_sum"], out["beside"] = clock(2 * budget, *turns)
        else:
            (out["open_sum"],) = clock(budget, lambda: make().total())
        return out
    out = {"wrong": wrong(make, file)}
    starts = {
        "open": lambda: opened(contender, file),
        "schema": lambda: (held := make(), held.schema()),
        "first": lambda: make().first(),
        "last": lambda: make().last(),
        "open_sum": lambda: make().total(),
    }
    for key, call in starts.items():
        if key != "schema" or contender.schema:
            (out[key],) = clock(budget, call)
    held = make()
    held.sum(), held.row(0)  # some read only now
    (out["sum"],) = clock(budget, held.sum)
    out["row"], out["rows"] = rows(held, file["rows"], budget)
    return out


def rows(held, count, budget):
    draw = random.Random(2)
    places = [draw.randrange(count) for _ in range(10_000)]
    tens = itertools.cycle(zip(*[iter(places)] * 10))

    def some(places):
        for i in places:
            held.row(i)

    (ten,) = clock(budget, lambda: some(next(tens)))  # also touches the file for what follows
    if not ten["rough"]:
        (ten,) = clock(budget, lambda: some(next(tens)))
    if ten["median"] * 1000 > budget:
        return scaled(ten, 0.1), scaled(ten, 1000) | {"rough": True}
    return scaled(ten, 0.1), *clock(budget, lambda: some(places))


def scaled(one, by):
    return one | {key: one[key] * by for key in ("median", "min")}


def wrong(make, file):
    held, (first, last) = make(), (want for _, want in file["samples"][:2])
    names = [("schema only", list(make().schema()), file["names"])] if make().schema else []
    return unequal(
        [
            *names,
            ("names", list(held.names), file["names"]),
            ("rows", held.rows, file["rows"]),
            ("open + sum", make().total(), file["sum"]),
            ("sum", held.sum(), file["sum"]),
            ("open + first row", plain(make().first()), first),
            ("open + last row", plain(make().last()), last),
            *((f"row {i}", plain(held.row(i)), want) for i, want in file["samples"]),
        ]
    )


def unequal(checks):
    def same(got, want):
        return got == want or (type(want) is float and abs(got - want) <= 1e-9 * abs(want))

    return [f"{what}: {got!r}, wanted {want!r}" for what, got, want in checks if not same(got, want)]


def plain(row):
    """Instants as milliseconds; a date without a time zone raises, another type is shown as itself."""

    def value(v):
        if isinstance(v, datetime):
            return (v - EPOCH) / timedelta(milliseconds=1)
        return v if type(v) in (str, float) else repr(v)

    return {k: value(v) for k, v in row.items()}


def memory(contender, file):
    if contender.sums_only or not (before := resident()):
        return {}
    held = opened(contender, file)
    after = resident()
    assert held[2] == file["rows"]
    return {"memory": [b - a for a, b in zip(before, after)]}


def resident():
    """Resident and private bytes; nothing where the system doesn't say."""
    try:
        with open("/proc/self/status") as f:
            lines = dict(line.split(":", 1) for line in f)
        return [int(lines[k].split()[0]) * 1024 for k in ("VmRSS", "RssAnon")]
    except (OSError, KeyError):
        return None


# All of them, and what is printed.


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--quick", action="store_true", help="without the 4 GiB files, a fifth of the time each")
    p.add_argument("--json", type=Path, metavar="FILE")
    p.add_argument("--markdown", type=Path, metavar="FILE")
    p.add_argument("--data", type=Path, metavar="DIR", default=Path(tempfile.gettempdir(), "arrowwood-rivals"))
    p.add_argument("--only", nargs="+", metavar="VARIANT", help="1, 86, 5600, 4g, 4g_one, or one file: 1.stream")
    p.add_argument("--stocks", metavar="CSV", help="the 560 rows (default: those in the package vega_datasets)")
    p.add_argument("--cell", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.cell:
        return print("\n" + json.dumps(cell(**json.loads(args.cell))))
    notes, tables, failures = [], {}, []
    for file in files(args, notes):
        tables[Path(file["path"]).name] = table = {"about": file, "cells": {}}
        for name in CONTENDERS:
            measure(name, file, 0.2 if args.quick else 1.0, table["cells"], notes, failures)
    progress("")
    report = {"machine": machine(), "notes": notes, "failures": failures, "tables": tables, "figures": figures(tables)}
    print(render(report, markdown=False))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))
    if args.markdown:
        # A page has a title and more before it, and behind it what `make bench-jvm` measures.
        before = args.markdown.read_text() if args.markdown.exists() else MEASURED
        title = before.partition(MEASURED)[0]
        _, heading, jvm = before.partition("\n### On the JVM\n")
        args.markdown.write_text(title + render(report, markdown=True) + "\n" + heading + jvm)
    if failures:
        sys.exit(f"{len(failures)} FAILED:\n" + "\n".join(failures))


def files(args, notes):
    import data  # here, because it imports what only some of the cells' processes should hold

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
        made, note = data.make(args.data, variant, args.stocks or data.default_stocks())
        notes += [note] if note else []
        for file in made:
            if variant in only or f"{variant}.{file['format']}" in only:
                warm(file["path"])
                yield file


def warm(path):
    """Reads the file once: what is measured is a file that is in the page cache."""
    piece = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as f:
        while f.readinto(piece):
            pass


def measure(name, file, budget, cells, notes, failures):
    from data import available

    contender, where = CONTENDERS[name], Path(file["path"]).name
    if file["format"] not in contender.formats or (contender.one_batch and not file["layout"]):
        return
    if contender.copies and file["bytes"] * 2.5 > available():
        notes.append(f"{where}, {name}: left out, it copies and memory is short")
        return
    progress(f"{where}: {name}")
    got = {}
    for what in ("times", "memory"):
        got |= process(name, file, what, budget)
        if "absent" in got:
            notes += [got["absent"]] if got["absent"] not in notes else []
            return
    if wrong := got.pop("failed", None) or "; ".join(got.pop("wrong")):
        failures.append(f"{where}, {name}: {wrong}")
        return
    cells[name] = got


def process(name, file, what, budget):
    request = json.dumps({"name": name, "file": file, "what": what, "budget": budget})
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--cell", request], capture_output=True, text=True, timeout=300
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"failed": f"{what} took over 5 minutes"}
    except (IndexError, ValueError):
        return {"failed": f"{what} ended with {done.returncode}: {done.stderr[-500:]}"}


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


def figures(tables):
    def at(file, key, name=OURS):
        return tables.get(file, {}).get("cells", {}).get(name, {}).get(key, {}).get("median")

    def figure(what, wanted, ours, theirs, limit):
        if not (ours and theirs):
            return [what, wanted, "–", "not measured"]
        reached = f"{ours / theirs:.3g} ({duration(ours)} : {duration(theirs)})"
        return [what, wanted, reached, "met" if ours / theirs <= limit else "NOT met"]

    def against(what, file, key, part):
        return figure(what, f"≤ 1/{part} of pyarrow mapped", at(file, key), at(file, key, "pyarrow mapped"), 1 / part)

    rss = tables.get("4g.file", {}).get("cells", {}).get(OURS, {}).get("memory")
    limit = "limit of the sum, 2 threads"
    return [
        against("open one batch of 95 MB", "1.stream", "open", 3),
        against("open + first row", "1.stream", "first", 3),
        figure(
            "open: 4 GiB against 95 MB, one batch", "≤ 1.2", at("4g_one.stream", "open"), at("1.stream", "open"), 1.2
        ),
        against("open 4 GiB of 4,096 batches, file format", "4g.file", "open", 100),
        [
            "memory it adds",
            "< 8 MiB",
            f"{rss[0] / MIB:.1f} MiB" if rss else "–",
            "not measured" if not rss else "met" if rss[0] < 8 * MIB else "NOT met",
        ],
        against("open + row count, stream of 5,600 batches", "5600.stream", "open", 8),
        against("one random row as a dict", "1.stream", "row", 3),
        figure(
            "open + sum of 5.6 M float64, taking turns with the limit",
            "≤ 1.25 × the limit, two threads",
            at("1.stream", "beside", limit),
            at("1.stream", "open_sum", limit),
            1.25,
        ),
    ]


def duration(ns):
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")):
        if ns >= size * 0.9995 or unit == "ns":
            x = ns / size
            return f"{x:.{2 if x < 9.995 else 1 if x < 99.95 else 0}f} {unit}"


# What a report begins with.
MEASURED = "Measured with "


def render(report, markdown):
    parts = [
        f"{MEASURED}{report['machine']}. Medians; ~ = one run or extrapolated; ×3.0 = three times as long as"
        f" {OURS}{', **bold** = shorter' if markdown else ''}. MiB: resident (private) after one open."
    ]
    parts += [f"- {note}" for note in report["notes"]] + [f"- FAILED {f}" for f in report["failures"]]
    for name, table in report["tables"].items():
        about = table["about"]
        parts += [
            "",
            f"### {name}: {about['rows']:,} rows, {about['batches']:,} batches, {about['bytes'] / 1e6:,.0f} MB",
            "",
        ]
        parts += grid(["", *MEASURES.values(), "MiB"], contender_lines(table["cells"], markdown), markdown)
    parts += ["", "### Figures", ""] + grid(["figure", "wanted", "reached", ""], report["figures"], markdown)
    return "\n".join(parts)


def contender_lines(cells, markdown):
    lines = []
    for name, got in cells.items():
        lines.append(
            [name, *(time_text(cells, name, key, markdown) for key in MEASURES), memory_text(cells, name, markdown)]
        )
        if not markdown:
            lines.append(["  minimum", *(duration(got[k]["min"]) if k in got else "" for k in MEASURES), ""])
    return lines


def time_text(cells, name, key, markdown):
    got, ours = cells[name].get(key), cells.get(OURS, {}).get(key)
    if not got:
        return "–"
    text = ("~" if got["rough"] else "") + duration(got["median"])
    if not ours or name == OURS:
        return text
    ratio = got["median"] / ours["median"]
    text += f" ×{ratio:,.{2 if ratio < 1 else 1 if ratio < 100 else 0}f}"
    return f"**{text}**" if markdown and ratio < 1 else text


def memory_text(cells, name, markdown):
    got, ours = cells[name].get("memory"), cells.get(OURS, {}).get("memory")
    if not got:
        return "–"
    text = f"{got[0] / MIB:,.1f} ({got[1] / MIB:,.1f})"
    return f"**{text}**" if markdown and ours and got[0] < ours[0] else text


def grid(head, lines, markdown):
    if markdown:
        return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)]
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    return ["  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in (head, *lines)]


if __name__ == "__main__":
    main()
