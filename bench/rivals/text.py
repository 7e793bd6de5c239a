"""CSV to Arrow files, beside Polars: seconds and the most memory of a process, of one text with times, numbers and words.

    $ python bench/rivals/text.py [--mb 200] [--folder .]

Each is a process of its own, timed from the inside after its imports. Polars parses times as well (`try_parse_dates`).
"""

import argparse
import subprocess
import sys
from pathlib import Path

PROGRAMS = {
    "arrowwood import": """
from arrowwood import _arrowwood
run = lambda: _arrowwood._run_cli(["arrowwood", "import", text, out])""",
    "Polars sink_ipc": """
import polars as pl
run = lambda: pl.scan_csv(text, try_parse_dates=True).sink_ipc(out)""",
    "arrowwood read_csv": """
import arrowwood as aw
run = lambda: aw.read_csv(text)""",
    "Polars read_csv": """
import polars as pl
run = lambda: pl.read_csv(text, try_parse_dates=True)""",
}

MEASURE = """
import resource, sys, time
text, out = sys.argv[1:]
{program}
start = time.perf_counter()
kept = run()
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def make(path, size):
    with path.open("w") as file:
        file.write("ts,symbol,price,volume,note\n")
        row = 0
        while file.tell() < size:
            rows = range(row, row + 20_000)
            file.write(
                "".join(
                    f"2026-{1 + i // 2_000_000 % 12:02}-{1 + i // 86_400 % 28:02}T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000:03},"
                    f"{'AAPL IBM MSFT GOOG'.split()[i % 4]},{100 + i % 977 / 8},{i * 7919 % 100_003},note of row {i}\n"
                    for i in rows
                )
            )
            row += 20_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    text = options.folder / f"text-{options.mb}.csv"
    if not text.exists():
        make(text, options.mb * 1_000_000)
    text.read_bytes()
    for name, program in PROGRAMS.items():
        found = []
        for _ in range(options.runs):
            line = [sys.executable, "-c", MEASURE.format(program=program), str(text), str(options.folder / "text.arrow")]
            found.append([float(value) for value in subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()])
        seconds = sorted(seconds for seconds, _ in found)[len(found) // 2]
        print(f"{name:20} {seconds:6.2f} s, {max(peak for _, peak in found):7.0f} MiB at most")


if __name__ == "__main__":
    main()
