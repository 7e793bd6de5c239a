"""Runs a benchmark that prints a table as JSON, and prints the table in Markdown.

    python bench/report.py [--results FOLDER] NAME PROGRAM [ARGUMENT …]

With --results, the table is also written to FOLDER/NAME.md.
"""

import argparse
import json
import subprocess
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path)
    parser.add_argument("name")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    run = subprocess.run([*options.program, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    table = json.loads(run.stdout)
    text = markdown(table)
    print(text)
    if options.results:
        write_result(options.results, options.name, table["title"], f"By `make bench-{options.name}`.", text)


def markdown(table):
    rows = [[name, *map(format_figure, cells)] for name, cells in table["rows"]]
    text = format_table([table["unit"], *table["columns"]], rows)
    if table["promises"]:
        promises = [format_promise(*promise) for promise in table["promises"]]
        text += "\n\n" + format_table(["ratio", "wanted", "reached"], promises)
    return text


def format_promise(what, wanted, reached):
    mark = "" if reached >= wanted else "**"
    return [what, f"≥ {wanted:g} ×", f"{mark}{reached:.2f} ×{mark}"]


def format_figure(value):
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_duration(nanoseconds):
    """Formats a time with three digits."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")):
        if nanoseconds >= size * 0.9995 or unit == "ns":
            x = nanoseconds / size
            return f"{x:.{2 if x < 9.995 else 1 if x < 99.95 else 0}f} {unit}"


def format_table(header, rows):
    """Formats a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def write_result(folder, name, title, *parts):
    """Writes the results of a benchmark to `folder`, which is bench/results/VERSION for a release."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text("\n\n".join([f"# {title}", *parts]) + "\n", encoding="utf-8")


def put_section(path, title, text):
    """Replaces the section of a file with this title, or appends it."""
    before, *rest = path.read_text(encoding="utf-8").split(f"\n## {title}\n")
    _, *later_sections = rest[0].split("\n## ", 1) if rest else [""]
    after = "".join(f"\n## {section}" for section in later_sections)
    path.write_text(f"{before.rstrip()}\n\n## {title}\n\n{text}\n{after}", encoding="utf-8")


def replace_table(page, name, text):
    """Replaces the text between the comments of a table."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    page.write_text(before + start + text + end + rest.split(end)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
