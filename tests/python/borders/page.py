"""Writes docs/borders.md, the page of the matrix, from the types, the borders and the table of refusals.

The page shows expected results; the tests compare them with actual ones.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

from .kinds import TYPE_CASES, Case
from .large import LARGE_BORDERS, LARGE_CASES, LargeCase, is_tested
from .refusals import REFUSALS, Refusal, find_refusal
from .ways import BORDERS, Border

INTRODUCTION = """\
# Types at the borders

Each Arrow type over each way in and out of Arrowwood, with {sets} sets of values: typical ones, extreme ones, special ones (NaN, a
quotation mark, a null inside a dictionary), with nulls, only nulls, no values, a slice, several chunks. The expected values are
pyarrow's, or plain Python values.

`make borders-page` writes this page. The tests in `tests/python/borders/` compare each cell with the actual result: some of the
values in every test run, and all of them in `make borders`.

✓: all values come through with the same type. ✓ with a number: some values are refused. A number: all values are refused, with an
error message. [The last table](#what-is-refused) lists the messages and the reasons. {cells:,} cells: {good:,} accept all values,
{part:,} refuse some, and {bad:,} refuse all. No border changes a value silently.

The types, in the order of the tables, in which … stands for the types between two others: {types}.
"""

LARGE_INTRODUCTION = """\
Types whose arrays have more than 2<sup>31</sup> rows (`int8`, and `bool` with nulls), list items, or bytes (all others; the
dictionary in its entries). The values of `utf8` are in two batches, as its offsets have 32 bits, and views have many buffers.
`make borders-large` runs each cell in its own process, and compares all values with the original ones. Ways that convert values
one by one, test three codecs or refuse every type alike are tested with text only; ways that would make an object for each of
2<sup>31</sup> rows or items are left out. {cells:,} cells: {good:,} accept all values, and {bad:,} refuse them with a message; none aborts or overflows.
"""

ACCEPTED = "✓"
# Longer runs of types with equal results are shown by the first and the last one.
MAX_LISTED_TYPES = 4


@dataclass
class Counts:
    """The number of types that a border accepts with all values, with some, or not at all."""

    good: int = 0
    part: int = 0
    bad: int = 0


def format_number(refusal: Refusal) -> str:
    """Formats the number of a refusal in the last table."""
    return str(REFUSALS.index(refusal) + 1)


def full_refusal(border: Border, case: Case) -> Refusal | None:
    """Returns the refusal of all values of a type, or None."""
    return find_refusal(border, case, "some")


def list_refusals(border: Border, case: Case) -> list[Refusal]:
    """Returns the refusals that apply to any value set of a type, in the order of the table."""
    refusals = {find_refusal(border, case, set_name) for set_name in case.value_sets}
    return sorted(refusals - {None}, key=REFUSALS.index)


def format_cell(border: Border, case: Case) -> str:
    refusal = full_refusal(border, case)
    if refusal:
        return format_number(refusal)
    numbers = ", ".join(map(format_number, list_refusals(border, case)))
    return f"{ACCEPTED}<sup>{numbers}</sup>" if numbers else ACCEPTED


def count_results(borders: list[Border]) -> Counts:
    counts = Counts()
    for border, case in product(borders, TYPE_CASES):
        if full_refusal(border, case):
            counts.bad += 1
        elif list_refusals(border, case):
            counts.part += 1
        else:
            counts.good += 1
    return counts


def format_table(headings: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def format_types(names: list[str]) -> str:
    """Lists the names of successive types, or the first and the last one if there are many."""
    if len(names) > MAX_LISTED_TYPES:
        return f"`{names[0]}` … `{names[-1]}` ({len(names)})"
    return ", ".join(f"`{name}`" for name in names)


def merge_equal_rows(rows: list[tuple[str, list[str]]]) -> Iterator[tuple[list[str], list[str]]]:
    """Merges successive pairs of a name and cells that have equal cells; yields lists of names with their cells."""
    for cells, equal_rows in groupby(rows, lambda row: row[1]):
        yield [name for name, _ in equal_rows], cells


def group_sections() -> Iterator[str]:
    """Yields the headings and tables of the groups of borders."""
    for group, borders in groupby(BORDERS, lambda border: border.group):
        borders = list(borders)
        yield f"## {group}\n"
        rows = [(case.name, [format_cell(border, case) for border in borders]) for case in TYPE_CASES]
        lines = [[format_types(names), *cells] for names, cells in merge_equal_rows(rows)]
        yield format_table(["type", *(border.name for border in borders)], lines)
        summary = []
        for border in borders:
            counts = count_results([border])
            summary.append([border.name, border.about, str(counts.good), str(counts.part), str(counts.bad)])
        yield format_table(["way", "", ACCEPTED, f"{ACCEPTED} but some", "refused"], summary)


def format_large_cell(border: Border, case: LargeCase) -> str:
    if not is_tested(border, case):
        return ""
    refusal = find_refusal(border, case, "large")
    return format_number(refusal) if refusal else ACCEPTED


def large_section() -> Iterator[str]:
    yield "## More than 2 GiB\n"
    rows = [(border.name, [format_large_cell(border, case) for case in LARGE_CASES]) for border in LARGE_BORDERS]
    tested = [cell for _, cells in rows for cell in cells if cell]
    good = tested.count(ACCEPTED)
    yield LARGE_INTRODUCTION.format(cells=len(tested), good=good, bad=len(tested) - good)
    lines = [[", ".join(names), *cells] for names, cells in merge_equal_rows(rows)]
    yield format_table(["way", *(f"`{case.name}`" for case in LARGE_CASES)], lines)


def refusal_section() -> Iterator[str]:
    yield "## What is refused\n"
    types_by_border = {refusal: {} for refusal in REFUSALS}
    large_cells = [cell for cell in product(LARGE_BORDERS, LARGE_CASES) if is_tested(*cell)]
    for border, case in [*product(BORDERS, TYPE_CASES), *large_cells]:
        for refusal in list_refusals(border, case):
            types_by_border[refusal].setdefault(border.name, set()).add(case.name)
    rows = []
    for refusal, types in types_by_border.items():
        borders = ", ".join(f"{name} {len(names)}" for name, names in types.items())
        rows.append([format_number(refusal), borders, f"`{refusal.message}`", refusal.why])
    yield format_table(["", "ways, and how many types", "message", "why"], rows)


def format_page() -> str:
    counts = count_results(BORDERS)
    introduction = INTRODUCTION.format(
        types=", ".join(f"`{case.name}`" for case in TYPE_CASES),
        sets=len({set_name for case in TYPE_CASES for set_name in case.value_sets}),
        cells=counts.good + counts.part + counts.bad,
        good=counts.good,
        part=counts.part,
        bad=counts.bad,
    )
    return "\n".join([introduction, *group_sections(), *large_section(), *refusal_section()])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(format_page())
