"""Tests the matrix of types and borders: each type passes each border, or is refused as listed.

Only some sets of values are tested by default. `make borders` tests all of them, `make borders-large` tests values of
more than 2 GiB, and `make borders-page` writes the page of results.
"""

import os
import tempfile
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("polars")
pytest.importorskip("pyarrow.flight")

from borders import page
from borders.kinds import TYPE_CASES
from borders.large import LARGE_BORDERS, LARGE_CASES, is_tested
from borders.matrix import Workspace, check_cell
from borders.refusals import REFUSALS, find_refusal
from borders.ways import BORDERS, is_available

TESTS_ALL_SETS = bool(os.environ.get("ARROWWOOD_ALL_BORDERS"))
DEFAULT_SETS = ("nulls", "extreme", "odd")
PAGE = Path(__file__).parents[2] / "docs/borders.md"


@pytest.fixture(scope="module")
def workspace():
    # Uses a file system in memory, where syncing tables takes no time.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, Workspace(Path(folder)) as workspace:
        yield workspace


@pytest.mark.parametrize("border", BORDERS, ids=repr)
def test_border_preserves_values_or_refuses_them_as_listed(border, workspace):
    if not is_available(border):
        pytest.skip("its library is not built")
    problems = []
    for case in TYPE_CASES:
        for set_name in case.value_sets:
            if TESTS_ALL_SETS or set_name in DEFAULT_SETS:
                problems += check_cell(case, border, set_name, workspace)
    assert not problems, "\n".join([f"{len(problems)} cells:", *problems])


def test_page_is_current():
    assert PAGE.read_text() == page.format_page(), "run `make borders-page`"


@pytest.mark.parametrize("case", LARGE_CASES, ids=repr)
def test_windows_of_large_types_are_consistent(case):
    """A row has the same value in each window, and windows differ."""
    assert case.make_window(0, 27)[3:].equals(case.make_window(3, 27))
    assert case.rows > case.window_rows and not case.make_window(0, 9).equals(case.make_window(9, 18))


def test_each_refusal_applies_to_a_cell():
    large_cells = [cell for cell in product(LARGE_BORDERS, LARGE_CASES) if is_tested(*cell)]
    used = {
        find_refusal(border, case, set_name)
        for border, case in [*product(BORDERS, TYPE_CASES), *large_cells]
        for set_name in case.value_sets
    }
    assert [refusal.message for refusal in REFUSALS if refusal not in used] == []
