"""Compares the cost of calls from C with the Rust API: `calls.py C RUST FOLDER` runs both programs in turns.

Prints minima and medians of all turns. The last column is the ratio of the minima.
"""

import statistics
import subprocess
import sys
from pathlib import Path

TURNS = 3


def run_benchmarks(program, folder):
    """Returns the minimum and median of each benchmark of a program, in nanoseconds."""
    output = subprocess.run([program, folder], capture_output=True, text=True, check=True).stdout
    lines = (line.split("\t") for line in output.splitlines())
    return {name: (float(minimum), float(median)) for name, minimum, median in lines}


def format_duration(nanoseconds):
    for unit, factor in (("ns", 1), ("µs", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * factor or unit == "ms":
            value = nanoseconds / factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def main(c, rust, folder):
    subprocess.run([rust, "make", folder], check=True)
    results = {"C": [], "Rust": []}
    for _ in range(TURNS):
        for name, program in (("C", c), ("Rust", rust)):
            for table in ("c-table", "rust-table"):
                subprocess.run(["rm", "-rf", str(Path(folder) / table)], check=True)
            results[name].append(run_benchmarks(program, folder))
    print("| least / median | C | Rust | C ÷ Rust |\n| --- | --- | --- | --- |")
    for benchmark in results["C"][0]:
        minima = {name: min(turn[benchmark][0] for turn in turns) for name, turns in results.items()}
        medians = {name: statistics.median(turn[benchmark][1] for turn in turns) for name, turns in results.items()}
        cells = [f"{format_duration(minima[name])} / {format_duration(medians[name])}" for name in ("C", "Rust")]
        print(f"| {benchmark} | {cells[0]} | {cells[1]} | {minima['C'] / minima['Rust']:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
