"""Runs a benchmark that prints a table as JSON, prints it for people, plots it, and puts it into docs/benchmarks.md.

    python bench/report.py NAME PROGRAM [ARGUMENT …]

The plot is docs/plots/NAME.svg; the table goes between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import json
import subprocess
import sys
from pathlib import Path

import plot

DOCS = Path(__file__).parent.parent / "docs"


def main(name, program):
    run = subprocess.run([*program, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    table = json.loads(run.stdout)
    text = markdown(table)
    print(text)
    shown = table["plotted"]
    names, rows = [name for name, _ in table["rows"]], [cells for _, cells in table["rows"]]
    values = [list(column) for column in zip(*rows)][:shown]
    plot.bars(DOCS / "plots" / f"{name}.svg", table["title"], table["unit"], names, table["columns"][:shown], values)
    put(DOCS / "benchmarks.md", name, text)


def markdown(table):
    columns = table["columns"]
    lines = [f"| {table['unit']} | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for name, cells in table["rows"]:
        lines.append(f"| {name} | " + " | ".join(map(figure, cells)) + " |")
    if table["promises"]:
        lines += ["", "| ratio | wanted | reached |", "| --- | --- | --- |"]
    for what, wanted, reached in table["promises"]:
        mark = "" if reached >= wanted else "**"
        lines.append(f"| {what} | ≥ {wanted:g} × | {mark}{reached:.2f} ×{mark} |")
    return "\n".join(lines)


def figure(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def put(page, name, text):
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    page.write_text(before + start + text + end + rest.split(end)[1], encoding="utf-8")


def grid_of(header, rows):
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def put_section(page, title, text):
    """Puts a section into a page: in the place of the one with this title, else at the end."""
    before, *rest = page.read_text(encoding="utf-8").split(f"\n## {title}\n")
    _, *behind = rest[0].split("\n## ", 1) if rest else [""]
    page.write_text(
        f"{before.rstrip()}\n\n## {title}\n{text}\n" + "".join(f"\n## {more}" for more in behind), encoding="utf-8"
    )


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
