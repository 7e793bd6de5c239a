"""What calls cost from C, beside the Rust API: `calls.py C RUST FOLDER`, both programs in turns.

Minima and medians of all turns, in nanoseconds; the last column is the C figure by Rust's, by their minima.
"""

import statistics
import subprocess
import sys
from pathlib import Path

TURNS = 3


def figures(program, folder):
    said = subprocess.run([program, folder], capture_output=True, text=True, check=True).stdout
    lines = (line.split("\t") for line in said.splitlines())
    return {name: (float(least), float(median)) for name, least, median in lines}


def shown(nanoseconds):
    for unit, factor in (("ns", 1), ("µs", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * factor or unit == "ms":
            value = nanoseconds / factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def main(c, rust, folder):
    subprocess.run([rust, "make", folder], check=True)
    taken = {"C": [], "Rust": []}
    for _ in range(TURNS):
        for name, program in (("C", c), ("Rust", rust)):
            for table in ("c-table", "rust-table"):
                subprocess.run(["rm", "-rf", str(Path(folder) / table)], check=True)
            taken[name].append(figures(program, folder))
    print("| least / median | C | Rust | C ÷ Rust |\n| --- | --- | --- | --- |")
    for what in taken["C"][0]:
        least = {name: min(turn[what][0] for turn in turns) for name, turns in taken.items()}
        middle = {name: statistics.median(turn[what][1] for turn in turns) for name, turns in taken.items()}
        cells = [f"{shown(least[name])} / {shown(middle[name])}" for name in ("C", "Rust")]
        print(f"| {what} | {cells[0]} | {cells[1]} | {least['C'] / least['Rust']:.2f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
