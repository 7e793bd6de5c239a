"""Writes the tables and plots of docs/performance.md from the results of the last release in bench/results.

python bench/rivals/performance_page.py [--docs docs]
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import plot  # noqa: E402
from format_questions import OURS, format_ratio  # noqa: E402
from report import format_duration, format_table, replace_table  # noqa: E402

UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
MEMORY = "MiB"

# The contenders of run.py that are ways of a library. The page has the fastest.
LIBRARIES = {
    "pyarrow": ["pyarrow mapped", "pyarrow copying"],
    "Polars": ["polars read", "polars scan"],
    "DuckDB": ["duckdb over pyarrow"],
    "Hugging Face": ["Hugging Face datasets"],
    "numpy.memmap": ["numpy.memmap (floor)"],
}
# The files of run.py, and what the page shows of each.
OPENED = {
    "1.stream": ("stream, 95 MB, 1 batch", ["open", "open + first row", "random row", "open + sum", MEMORY]),
    "1.file": ("file, 95 MB, 1 batch", ["schema only", "sum, warm", MEMORY]),
    "86.stream": ("stream, 95 MB, 86 batches", ["open", "open + sum"]),
    "86.file": ("file, 95 MB, 86 batches", ["schema only", "open + sum"]),
    "5600.stream": ("stream, 97 MB, 5,600 batches", ["open", "open + first row", "open + sum"]),
    "5600.file": ("file, 97 MB, 5,600 batches", ["open"]),
    "4g_one.stream": ("stream, 4 GiB, 1 batch", ["open", "open + first row", "open + sum", MEMORY]),
    "4g.stream": ("stream, 4 GiB, 4,096 batches", ["open", "open + last row"]),
    "4g.file": (
        "file, 4 GiB, 4,096 batches",
        ["open", "open + first row", "open + last row", "random row", "open + sum", MEMORY],
    ),
}

ENGINES = {"pyarrow": "pyarrow", "polars": "Polars", "duckdb": "DuckDB", "datafusion": "DataFusion"}
# What the page calls the questions of questions.py and text.py that it shows.
ASKED = {
    "sum of 253 M float64 (2 GB)": "sum of 253 M float64",
    "min of 253 M float64 (2 GB)": "min of the same",
    "std of 253 M float64 (2 GB)": "standard deviation of the same",
    "median of 253 M float64 (2 GB)": "median of the same",
    "mean(price) by symbol where price > 100, 5.6 M rows, dictionary, one batch": "mean by 5 keys where a condition holds, 5.6 M rows, dictionary",
    "mean(price) by symbol where price > 100, 5.6 M rows, dictionary, 5,600 batches": "the same in 5,600 batches",
    "mean(price) by symbol where price > 100, 5.6 M rows, utf8, one batch": "the same in one batch, keys as text",
    "mean by 1,000 keys, int64, scattered": "mean by 1,000 integers, 5 M rows",
    "mean by 1,000,000 keys, int64, scattered": "mean by 1,000,000 integers",
    "mean by 1,000 keys, text": "mean by 1,000 texts",
    "mean by 1,000,000 keys, text": "mean by 1,000,000 texts",
    "mean by two keys, 900,000 pairs": "mean by 900,000 pairs of integers",
    "distinct integers of 1,000 groups": "distinct integers of 1,000 groups",
    "median of 1,000 groups": "median of 1,000 groups",
    "ds.filter(v > 90).aggregate(…) by 1,000 keys": "`ds.filter(v > 90).aggregate(…)` by 1,000 integers",
    "rows of which v > 90": "rows where a number is above 90",
    "rows of which a text equals one": "rows where a text equals another",
    "rows of which a text begins with one": "rows where a text begins with another",
    "take of 10,000 rows, one batch": "10,000 rows anywhere at once, one batch",
    "take of 10,000 rows, 5,600 batches": "the same in 5,600 batches",
    "500 random rows as dicts, one batch": "500 random rows, each as a dict",
    "open a stream of 100,000 batches, one row": "open a stream of 100,000 batches and read a row",
    "CSV to an Arrow file": "CSV of 200 MB to an Arrow file",
    "CSV into memory": "CSV of 200 MB into memory",
    "JSON lines to an Arrow file": "JSON lines of 200 MB to an Arrow file",
    "JSON lines into memory": "JSON lines of 200 MB into memory",
}

# Rows of growing.md, and whether Arrowwood is slower than what it is compared with.
GROWING = {
    "append + commit of 64 Ki rows, against pwrite(2) of as many bytes": True,
    "append + commit of 10,000 rows from Python, against pyarrow's stream writer + flush (QuestDB on such a machine: 23 M rows/s)": True,
    "one row + commit, 4 columns, Rust (QuestDB: 6.5 to 9.4 M/s)": True,
    "`append_row` + commit, Python": False,
    "durable commit of a row, against pwrite + fdatasync of one page": True,
    "commit → a spinning reader in another process": False,
    "commit → a sleeping follower, 1,000 commits a second": False,
    "what followers cost the writer of 10,000 commits a second, of its time, beside 1 and 10 of them": False,
    "one row + commit at full speed beside 1 and 10 followers, against alone, on two cores": False,
    "`refresh()` with nothing new, Rust, Python": False,
    "`refresh()` with a new row, and its 4 values": False,
    "sum of 56 M rows of a live table, against one dense file": False,
    "bytes on disk after closing, against one dense file": False,
    "open a table of 1,000 segments, to its first row": False,
    "`refresh()` over the end of a segment, 10, 1,000, 5,000 segments": False,
}

# Sections of growth.md that have a plot.
PLOTTED = ["rows", "batches", "keys"]


def read_tables(path):
    """Returns the lines of the table below each heading, which ends before a colon, as lists of cells."""
    tables = {}
    for section in re.split("^##? ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        title = re.split("[:\n]", section, maxsplit=1)[0]
        lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
        if lines:
            tables[title] = [[cell.strip() for cell in line] for line in lines]
    return tables


def read_opening(results):
    """Returns the cells of opening.md by file, contender and measure."""
    cells = {}
    for file, (head, _, *rows) in read_tables(results / "opening.md").items():
        cells[file] = {name: dict(zip(head[1:], row)) for name, *row in rows}
    return cells


def milliseconds(cell):
    """Returns the time of a cell such as `**~1.61 s ×0.94**`."""
    number, unit = re.match(r"[*~]*([\d.,]+) (\w+)", cell).groups()
    return float(number.replace(",", "")) * UNITS[unit]


def ratio(cell):
    """Returns the ratio of a cell such as `**~1.61 s ×0.94**`."""
    text = ("~" if "~" in cell else "") + re.search(r"×[\d.,]+", cell)[0]
    return f"**{text}**" if cell.startswith("**") else text


def mark_losses(rows):
    """Returns the rows of a table, those with a figure in bold with a bold name."""
    return [[f"**{name}**", *cells] if any("**" in cell for cell in cells) else [name, *cells] for name, *cells in rows]


def opening_table(results):
    rows = []
    opening = read_opening(results)
    for file, (label, measures) in OPENED.items():
        contenders = opening[file]
        for measure in measures:
            # The memory is that of the way that opens fastest.
            timed = "open" if measure == MEMORY else measure
            cells = []
            for ways in LIBRARIES.values():
                measured = [contenders[way] for way in ways if contenders.get(way, {}).get(timed, "–") != "–"]
                fastest = min(measured, key=lambda way: milliseconds(way[timed]), default=None)
                cells.append(
                    "" if fastest is None else fastest[measure] if measure == MEMORY else ratio(fastest[measure])
                )
            what = "MiB added by open (private)" if measure == MEMORY else measure
            rows.append([f"{label}: {what}", contenders[OURS][measure], *cells])
    return format_table(["", "Arrowwood", *LIBRARIES], mark_losses(rows))


def questions_table(results):
    figures = {}
    for question in json.loads((results / "questions.json").read_text())["questions"]:
        taken = question["taken"]
        ours = format_duration(statistics.median(taken[OURS]) * 1e9)
        figures[question["title"]] = {OURS: ours} | {name: format_ratio(taken, name) for name in taken if name != OURS}
    ((_, _, *rows),) = read_tables(results / "text.md").values()
    for title, name, time, _, ratio, _ in rows:
        figures.setdefault(title, {})[name] = time if name == OURS else ratio
    rows = [[label, *(figures[title].get(name, "") for name in [OURS, *ENGINES])] for title, label in ASKED.items()]
    return format_table(["", "Arrowwood", *ENGINES.values()], mark_losses(rows))


def growing_table(results):
    ((_, _, *rows),) = read_tables(results / "growing.md").values()
    reached = {figure: cell.replace("**", "") for figure, _, cell in rows}
    rows = [[f"**{figure}**" if is_slower else figure, reached[figure]] for figure, is_slower in GROWING.items()]
    return format_table(["", "reached"], rows)


def draw_opening(results, path):
    files, measure = read_opening(results), "open + first row"
    small, large = files["1.stream"], files["4g_one.stream"]
    names = [name for name in large if name in small and small[name][measure] != "–"]
    names.sort(key=lambda name: milliseconds(large[name][measure]))
    values = {
        label: [milliseconds(file[name][measure]) for name in names]
        for label, file in (("95 MB", small), ("4 GiB", large))
    }
    plot.dots(path, "From the path of a stream to its first row, one batch", "milliseconds, logarithmic", names, values)


def draw_growth(results, kind, path):
    (_, *sizes), _, *rows = read_tables(results / "growth.md")[kind]
    series = {name: [milliseconds(cell) for cell in cells] for name, *cells in rows}
    sizes = [int(size.replace(",", "")) for size in sizes]
    plot.lines(path, f"How cost grows with {kind}", kind, "ms", sizes, series)


def write(results, docs):
    page, plots = docs / "performance.md", docs / "plots"
    replace_table(page, "opening", opening_table(results))
    replace_table(page, "questions", questions_table(results))
    replace_table(page, "growing", growing_table(results))
    draw_opening(results, plots / "opening.svg")
    for kind in PLOTTED:
        draw_growth(results, kind, plots / f"growth-{kind}.svg")


def last_results():
    """Returns the folder of the last release that was measured."""
    version = lambda folder: [int(number) for number in folder.name.split(".")]
    return max((ROOT / "bench/results").iterdir(), key=version)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    write(last_results(), parser.parse_args().docs)
