"""Writes docs/borders.md, the page of the matrix, from the types, the borders and the table of refusals.

The page shows expected results; the tests compare them with actual ones.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path

from .kinds import TYPE_CASES, Case
from .large import LARGE_BORDERS, LARGE_CASES, LargeCase, is_tested
from .refusals import REFUSALS, Refusal, find_refusal
from .ways import BORDERS, Border

INTRODUCTION = """\
# Types at the borders

What happens to each Arrow type on each way in and out of Arrowwood:

- ✓: all values come through with the same type.
- ✓ with a number: some values are refused with [the error](#what-is-refused) of that number.
- a number: all values are refused.

No border changes a value silently. Of {cells:,} cells, {good:,} accept all values, {part:,} refuse some, and {bad:,} refuse all.

Each cell is tested with up to {sets} sets of values: typical, extreme and special ones (NaN, a quotation mark, a null inside a
dictionary), with nulls, only nulls, no values, a slice, several chunks. The expected values are pyarrow's, or plain Python
values. Every run of the tests compares some of the values, and `make borders` all of them. `make borders-page` writes this page.

In the tables, … stands for the types between two others in this order: {types}.
"""

LARGE_INTRODUCTION = """\
These are arrays of more than 2<sup>31</sup> rows (`int8`, and `bool` with nulls), list items, or bytes (all others; the
dictionary in its entries). The values of `utf8` are in two batches, as its offsets have 32 bits. `make borders-large` runs each
cell in a process of its own and compares all values. Of {cells:,} cells, {good:,} accept all values, and {bad:,} refuse them with
an error; none aborts or overflows. Ways that convert values one by one, test three codecs or refuse every type alike are tested
with text only, and ways that would make an object for each of 2<sup>31</sup> rows or items not at all.
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


# The rows of the last table, without repetitions: messages and reasons.
ERRORS = list(dict.fromkeys((refusal.message, refusal.why) for refusal in REFUSALS))


def format_number(refusal: Refusal) -> str:
    """Formats the number of a refusal in the last table."""
    return str(ERRORS.index((refusal.message, refusal.why)) + 1)


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
    """Lists names of types in the order of the tables; long runs by the first and the last one."""
    order = {case.name: number for number, case in enumerate(TYPE_CASES)}
    parts = []
    for _, run in groupby(enumerate(names), lambda item: order[item[1]] - item[0]):
        run = [f"`{name}`" for _, name in run]
        parts += [f"{run[0]} … {run[-1]}"] if len(run) > MAX_LISTED_TYPES else run
    return ", ".join(parts)


def merge_equal(rows: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[list[str], list[str]]]:
    """Merges pairs of a name and cells that have equal cells; yields lists of names with their cells."""
    names_by_cells = {}
    for name, cells in rows:
        names_by_cells.setdefault(tuple(cells), []).append(name)
    for cells, names in names_by_cells.items():
        yield names, list(cells)


def group_sections() -> Iterator[str]:
    """Yields the headings and tables of the groups of borders."""
    for group, borders in groupby(BORDERS, lambda border: border.group):
        borders = list(borders)
        yield f"## {group}\n"
        columns = merge_equal((border.name, [format_cell(border, case) for case in TYPE_CASES]) for border in borders)
        headings, columns = zip(*columns, strict=True)
        rows = zip((case.name for case in TYPE_CASES), zip(*columns, strict=True), strict=True)
        lines = [[format_types(names), *cells] for names, cells in merge_equal(rows)]
        accepted = [line for line in lines if set(line[1:]) == {ACCEPTED}]
        lines = [line for line in lines if line not in accepted]
        lines += [["all others", *cells] for _, *cells in accepted]
        yield format_table(["type", *map(", ".join, headings)], lines)
        yield format_table(["way", ""], [[border.name, border.about] for border in borders])


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
    lines = [[", ".join(names), *cells] for names, cells in merge_equal(rows)]
    yield format_table(["way", *(f"`{case.name}`" for case in LARGE_CASES)], lines)


def refusal_section() -> Iterator[str]:
    yield "## What is refused\n"
    rows = [[str(number), f"`{message}`", why] for number, (message, why) in enumerate(ERRORS, 1)]
    yield format_table(["", "part of the message", "why"], rows)


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
