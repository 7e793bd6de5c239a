"""Datasets cut into ranges of rows, which other processes open for themselves."""

from typing import TYPE_CHECKING

from arrowwood._errors import InvalidArgument
from arrowwood._types import Split

if TYPE_CHECKING:
    from arrowwood import Dataset


def splits(dataset: "Dataset", n: int) -> list[Split]:
    """About `n` ranges; see ``Dataset.splits``."""
    if n < 1:
        raise InvalidArgument(f"splits(): n must be at least 1, got {n}")
    rows = len(dataset)
    return cut(dataset, [number * rows // n for number in range(1, n)])


def cut(dataset: "Dataset", at: list[int]) -> list[Split]:
    """Ranges that end before the rows `at`, which ascend, and at the end of each file."""
    rows = len(dataset)
    places = dataset._places() if rows else []
    if places is None:
        raise InvalidArgument("splits(): rows in memory are in no file that others could open; write them to one first")
    versions = dict(dataset._versions())
    found, done, wanted = [], 0, iter([*at, rows])
    end = next(wanted)
    for path, first, count, _, partition in places:
        inside = 0
        while inside < count:
            while end <= done + inside:
                end = next(wanted)
            size = min(count, end - done) - inside
            found.append(Split(str(path), first + inside, size, tuple(partition), versions.get(path)))
            inside += size
        done += count
    return found
