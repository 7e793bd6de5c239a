"""Draws the plot of the README, docs/plots/opening.svg, from the tables of docs/rivals.md."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from plot import dots  # noqa: E402

UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
MEASURE = "open + first row"


def column(page, title):
    """Returns the milliseconds of `MEASURE` by library, from the table under the heading that begins with `title`."""
    lines = page.split(f"### {title}:", 1)[1].split("\n### ", 1)[0].splitlines()
    rows = [[cell.strip(" *~") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    head = next(index for index, line in enumerate(lines) if MEASURE in line)
    measure = [cell.strip() for cell in lines[head].strip("|").split("|")].index(MEASURE)
    milliseconds = {}
    for name, *cells in rows:
        if number := re.match(r"([\d.,]+) (ns|µs|ms|s)\b", cells[measure - 1]):
            milliseconds[name] = float(number[1].replace(",", "")) * UNITS[number[2]]
    return milliseconds


def draw(path):
    page = (ROOT / "docs/rivals.md").read_text()
    small, large = column(page, "1.stream"), column(page, "4g_one.stream")
    names = sorted((name for name in small if name in large), key=large.get)
    values = {"95 MB": [small[name] for name in names], "4 GiB": [large[name] for name in names]}
    dots(path, "From the path of a stream to its first row, one batch", "milliseconds, logarithmic", names, values)


if __name__ == "__main__":
    draw(ROOT / "docs/plots/opening.svg")
