"""Compares the cost of operations in Java with Arrow Java and Rust: `jvm.py CALLS FOLDER PYTHON JAVA...`.

CALLS is the Rust program that makes the data (`bench/src/bin/calls.rs`), and JAVA the command that runs
`dev.arrowwood.arrow.Figures`. tech.ml.dataset is measured too if ARROWWOOD_TMD_CP is a class path with it. Prints
minima and medians of all turns.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from calls import format_duration

TURNS = 3

# The name of a benchmark, the rival that it is compared with, and the benchmark of `calls.rs` that does the same.
ROWS = [
    ("open + rows", "Arrow Java: load", "open + rows + free"),
    ("open + first row", "Arrow Java: first row", "open + first row + free"),
    ("open + sum", "Arrow Java: sum", "open + sum of 5,600,000"),
    ("Arrow Java's vectors over ours: load", "Arrow Java: load", None),
    ("tech.ml.dataset over ours: load", "tech.ml.dataset, mapped: load", None),
    ("tech.ml.dataset over ours: first row", "tech.ml.dataset, mapped: first row", None),
    ("tech.ml.dataset over ours: dfn/sum", "tech.ml.dataset, mapped: dfn/sum", None),
    ("Clojure: open + aw/sum", "tech.ml.dataset, mapped: dfn/sum", "open + sum of 5,600,000"),
    ("Clojure: open + map-reduce", "tech.ml.dataset, mapped: dfn/sum", None),
    ("5,600 batches: all chunks as segments", "5,600 batches: array stream", None),
    ("5,600 batches: chunks + sum by hand", "5,600 batches: array stream + sum by hand",
     "5,600 batches: open + chunks + sum by hand"),
    ("5,600 batches: sum", None, "5,600 batches: open + sum"),
    ("10,000 records appended, one commit", None, "10,000 rows appended one by one, one commit"),
    ("10,000 records with an Instant appended, one commit", None, "10,000 rows appended one by one, one commit"),
    ("commit in Python, seen by a follower", None, None),
]  # fmt: skip


def run_benchmarks(*command):
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line.split("\t") for line in output.splitlines() if line.count("\t") == 2)
    return {name: (float(minimum), float(median)) for name, minimum, median in lines}


def main(calls, folder, python, *java):
    if not (Path(folder) / "many.stream").exists():
        subprocess.run([calls, "make", folder], check=True)
    turns = []
    for _ in range(TURNS):
        for table in ("java-table", "followed", "rust-table"):
            subprocess.run(["rm", "-rf", str(Path(folder) / table)], check=True)
        turn = run_benchmarks(*java, folder, python)
        if "ARROWWOOD_TMD_CP" in os.environ:
            turn |= run_benchmarks(*java[:-1], "clojure.main", "-m", "arrowwood.figures", folder)
        turns.append({**turn, **{f"Rust: {n}": f for n, f in run_benchmarks(calls, folder).items()}})

    if "ARROWWOOD_TMD_CP" not in os.environ:
        print("tech.ml.dataset is left out: it is not on Maven Central; set ARROWWOOD_TMD_CP to a class path with it\n")
    print("| least / median | Java | rival | rival ÷ Java | Rust |\n| --- | --- | --- | --- | --- |")
    for name, rival, rust in (row for row in ROWS if row[0] in turns[0]):
        java_cell, java_minimum = format_cell(turns, name)
        rival_cell, rival_minimum = format_cell(turns, rival)
        ratio = f"{rival_minimum / java_minimum:,.1f}" if java_minimum and rival_minimum else ""
        if rival_cell:
            rival_cell += f" ({rival})"
        print(f"| {name} | {java_cell} | {rival_cell} | {ratio} | {format_cell(turns, f'Rust: {rust}')[0]} |")


def format_cell(turns, name):
    """Returns the cell of a benchmark and its minimum, or an empty cell if it was not measured."""
    if name is None or name not in turns[0]:
        return "", None
    minimum = min(turn[name][0] for turn in turns)
    median = statistics.median(turn[name][1] for turn in turns)
    return f"{format_duration(minimum)} / {format_duration(median)}", minimum


if __name__ == "__main__":
    main(*sys.argv[1:])
