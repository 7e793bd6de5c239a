"""Tests the matrix of types and borders in its short form: every cell, with some values and nulls. `make borders` tests
all values, `make borders-large` values of more than 2 GiB, and `make borders-page` writes the page of all results."""

import os
import tempfile
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow.flight")

from borders import page
from borders.kinds import KINDS
from borders.large import LARGE, WAYS, is_tried
from borders.matrix import Place, check, names_of
from borders.refusals import REFUSALS
from borders.ways import BORDERS, is_here

ALL = bool(os.environ.get("ARROWWOOD_ALL_BORDERS"))
PAGE = Path(__file__).parents[2] / "docs/borders.md"


@pytest.fixture(scope="module")
def place():
    # Tables are synced, which takes no time in memory.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, Place(Path(folder)) as place:
        yield place


@pytest.mark.parametrize("border", BORDERS, ids=repr)
def test_values_are_the_same_behind_the_border_or_refused(border, place):
    if not is_here(border):
        pytest.skip("what it takes is not built here")
    wrong = [problem for kind in KINDS for name in names_of(kind, ALL) for problem in check(kind, border, name, place)]
    assert not wrong, "\n".join([f"{len(wrong)} cells:", *wrong])


def test_the_page_is_current():
    assert PAGE.read_text() == page.page(), "run `make borders-page`"


@pytest.mark.parametrize("kind", LARGE, ids=repr)
def test_large_values_are_the_same_from_any_row_on(kind):
    assert kind.window(0, 27)[3:].equals(kind.window(3, 27))
    assert kind.rows > kind.step and not kind.window(0, 9).equals(kind.window(9, 18))


def test_each_refusal_is_of_some_cell():
    large = [cell for cell in product(WAYS, LARGE) if is_tried(*cell)]
    used = {
        id(page.refusal_of(border, kind, name))
        for border, kind in [*product(BORDERS, KINDS), *large]
        for name in kind.sets
    }
    assert [it.message for it in REFUSALS if id(it) not in used] == []
