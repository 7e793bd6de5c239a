"""The page of the matrix, docs/borders.md: made of the tables alone, which the tests hold against what happens."""

import sys
from itertools import groupby, product
from pathlib import Path

from .kinds import KINDS
from .large import LARGE, WAYS, is_tried
from .refusals import REFUSALS, refusal_of
from .ways import BORDERS

HEAD = """\
# Types at the borders

Each Arrow type over each way in and out of Arrowwood, as values of {sets} sets: typical ones, extreme ones, those that are
special to the type (NaN, a quotation mark, a null inside of a dictionary), with nulls, only nulls, none, a slice, several
chunks. What is expected is what pyarrow makes of them, or the plain value of Python.

Made by `make borders-page`; the tests in `tests/python/borders/` compare each cell with what happens, in a short form with
every other test, and with all values by `make borders`.

✓: all values come through, of the same type. ✓ with a number: all but some values, which are refused. A number: refused, with a
message. [Below](#what-is-refused) is which, and why. {cells:,} cells: {good:,} take all values, {part:,} all but some, {bad:,} are
refused. Nothing is changed without a word.

The types, in the order of the tables, where … stands for those between two of them: {types}.
"""

LARGE_HEAD = """\
Types whose arrays have more rows, items or bytes than 31 bits count: rows of `int8` and `bool`, which has nulls, items of
lists, entries of the dictionary, and bytes of all others. Those of `utf8` are in two batches, as its offsets have 32 bits, and
views have many buffers. `make borders-large` runs each cell in a process of its own, and compares all values with those that
were made. Ways that take values one by one, try three codecs or refuse all alike are tried with text alone, and none that
makes an object of each of 2<sup>31</sup> rows or items. {cells:,} cells: {good:,} take all values, {bad:,} refuse them with a message;
nothing is aborted, or wraps around.
"""


def status(border, kind):
    """The refusals of a cell: of all values, or of some sets of them."""
    found = {name: refusal_of(border, kind, name) for name in kind.sets}
    whole = found["some"]
    return whole, [] if whole else sorted({it for it in found.values() if it}, key=REFUSALS.index)


def shown(border, kind):
    whole, some = status(border, kind)
    if whole:
        return str(REFUSALS.index(whole) + 1)
    numbers = ", ".join(str(REFUSALS.index(it) + 1) for it in some)
    return f"✓<sup>{numbers}</sup>" if numbers else "✓"


def counts(border):
    states = [status(border, kind) for kind in KINDS]
    bad = sum(whole is not None for whole, _ in states)
    part = sum(bool(some) for _, some in states)
    return len(KINDS) - bad - part, part, bad


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def family(names):
    """Neighbours in the list of types, by the first and the last of them where they are many."""
    if len(names) > 4:
        return f"`{names[0]}` … `{names[-1]}` ({len(names)})"
    return ", ".join(f"`{name}`" for name in names)


def group_tables():
    for group, borders in groupby(BORDERS, lambda border: border.group):
        borders = list(borders)
        yield f"## {group}\n"
        rows = [(kind.name, [shown(border, kind) for border in borders]) for kind in KINDS]
        # Neighbours that are alike are one line.
        lines = [[family([name for name, _ in alike]), *cells] for cells, alike in groupby(rows, lambda row: row[1])]
        yield table(["type", *(border.name for border in borders)], lines)
        yield table(
            ["way", "", "✓", "✓ but some", "refused"],
            [[border.name, border.about, *map(str, counts(border))] for border in borders],
        )


def large_shown(border, kind):
    if not is_tried(border, kind):
        return ""
    it = refusal_of(border, kind, "large")
    return str(REFUSALS.index(it) + 1) if it else "✓"


def large_table():
    yield "## More than 2 GiB\n"
    rows = [(border.name, [large_shown(border, kind) for kind in LARGE]) for border in WAYS]
    cells = [cell for _, row in rows for cell in row if cell]
    good = cells.count("✓")
    yield LARGE_HEAD.format(cells=len(cells), good=good, bad=len(cells) - good)
    # Neighbours that are alike are one line.
    lines = [[", ".join(name for name, _ in alike), *cells] for cells, alike in groupby(rows, lambda row: row[1])]
    yield table(["way", *(f"`{kind.name}`" for kind in LARGE)], lines)


def refusals():
    yield "## What is refused\n"
    cells = {it: {} for it in REFUSALS}
    large = [cell for cell in product(WAYS, LARGE) if is_tried(*cell)]
    for border, kind in [*product(BORDERS, KINDS), *large]:
        for it in {refusal_of(border, kind, name) for name in kind.sets} - {None}:
            cells[it].setdefault(border.name, set()).add(kind.name)
    yield table(
        ["", "ways, and how many types", "message", "why"],
        [
            [
                str(number),
                ", ".join(f"{name} {len(kinds)}" for name, kinds in cells[it].items()),
                f"`{it.message}`",
                it.why,
            ]
            for number, it in enumerate(REFUSALS, start=1)
        ],
    )


def page():
    good, part, bad = (sum(column) for column in zip(*map(counts, BORDERS)))
    sets = len({name for kind in KINDS for name in kind.sets})
    types = ", ".join(f"`{kind.name}`" for kind in KINDS)
    head = HEAD.format(types=types, sets=sets, cells=good + part + bad, good=good, part=part, bad=bad)
    return "\n".join([head, *group_tables(), *large_table(), *refusals()])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
