"""Runs a benchmark that prints a table as JSON, and writes the table and a plot of it to the docs.

    python bench/report.py NAME PROGRAM [ARGUMENT …]

The plot is docs/plots/NAME.svg. The table is printed, and replaces the text between `<!-- NAME -->` and `<!-- end of
NAME -->` in docs/benchmarks.md.
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
    plotted_columns = table["plotted"]
    names, rows = [name for name, _ in table["rows"]], [cells for _, cells in table["rows"]]
    values = [list(column) for column in zip(*rows)][:plotted_columns]
    plot.bars(
        DOCS / "plots" / f"{name}.svg", table["title"], table["unit"], names, table["columns"][:plotted_columns], values
    )
    replace_table(DOCS / "benchmarks.md", name, text)


def markdown(table):
    columns = table["columns"]
    lines = [f"| {table['unit']} | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for name, cells in table["rows"]:
        lines.append(f"| {name} | " + " | ".join(map(format_figure, cells)) + " |")
    if table["promises"]:
        lines += ["", "| ratio | wanted | reached |", "| --- | --- | --- |"]
    for what, wanted, reached in table["promises"]:
        mark = "" if reached >= wanted else "**"
        lines.append(f"| {what} | ≥ {wanted:g} × | {mark}{reached:.2f} ×{mark} |")
    return "\n".join(lines)


def format_figure(value):
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def replace_table(page, name, text):
    """Replaces the text between the comments of a table."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    page.write_text(before + start + text + end + rest.split(end)[1], encoding="utf-8")


def format_table(header, rows):
    """Formats a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def put_section(page, title, text):
    """Replaces the section of a page with this title, or appends it."""
    before, *rest = page.read_text(encoding="utf-8").split(f"\n## {title}\n")
    _, *later_sections = rest[0].split("\n## ", 1) if rest else [""]
    after = "".join(f"\n## {section}" for section in later_sections)
    page.write_text(f"{before.rstrip()}\n\n## {title}\n{text}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
