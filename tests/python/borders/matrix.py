"""Runs cells of the matrix of borders: a value set of a type, over one border."""

import itertools
import shutil
from pathlib import Path

import arrowwood as aw

from .kinds import Case
from .refusals import find_refusal
from .ways import Border, Refused, Sample

# A border need not refuse sets without values.
SETS_WITHOUT_VALUES = ("empty", "all null")


class Workspace:
    """A folder for files, a server with a folder of its own, and a Flight client of the server."""

    def __init__(self, folder: Path):
        self.folder, self.served = folder / "files", folder / "served"
        self.served.mkdir()
        self.numbers = itertools.count()
        self.server = aw.serve(self.served)
        import pyarrow.flight as flight

        self.flight = flight.connect(self.server.url.replace("http://", "grpc+tcp://"))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def new_name(self) -> str:
        """Returns a name that no table of the server has."""
        return f"t{next(self.numbers)}"

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.flight.close()
        self.server.close()


class WrongValues(Exception):
    """Raised when values differ behind a border."""


def run_cell(
    case: Case, border: Border, set_name: str, workspace: Workspace, sample_class: type[Sample] = Sample
) -> str | None:
    """Returns None if the values are the same behind the border, or the message if it refuses them."""
    workspace.clear()
    try:
        border.run(sample_class(case, set_name, workspace))
    except AssertionError as problem:
        raise WrongValues(str(problem)) from None
    except Refused as problem:
        return str(problem)
    except Exception as problem:
        # Any other exception of a border is a refusal, which has to be in the table of refusals.
        return f"{type(problem).__name__}: {problem}"
    return None


def check_cell(case: Case, border: Border, set_name: str, workspace: Workspace) -> list[str]:
    """Runs a cell, and returns a list of what is wrong with it."""
    try:
        message = run_cell(case, border, set_name, workspace)
    except WrongValues as problem:
        return [f"{border}, {case}, {set_name}: wrong: {problem}"]
    return compare_with_refusals(case, border, set_name, message)


def compare_with_refusals(case: Case, border: Border, set_name: str, message: str | None) -> list[str]:
    """Returns a list of differences between a cell's result and the table of refusals.

    `message` is the cell's refusal, or None if it accepted the values.
    """
    cell = f"{border}, {case}, {set_name}"
    expected = find_refusal(border, case, set_name)
    if message is None:
        if expected and set_name not in SETS_WITHOUT_VALUES:
            return [f"{cell}: taken, though listed as refused: {expected.message}"]
    elif not expected:
        return [f"{cell}: refused: {message}"]
    elif expected.message not in message and set_name not in SETS_WITHOUT_VALUES:
        return [f"{cell}: refused by another message than {expected.message!r}: {message}"]
    return []
