"""Cuts datasets into ranges of rows, which other processes open for themselves."""

from typing import TYPE_CHECKING

from arrowwood._errors import InvalidArgument
from arrowwood._types import Split

if TYPE_CHECKING:
    from arrowwood import Dataset


def splits(dataset: "Dataset", n: int) -> list[Split]:
    """Returns about `n` ranges of rows; implements ``Dataset.splits``."""
    if n < 1:
        raise InvalidArgument(f"splits(): n must be at least 1, got {n}")
    rows = len(dataset)
    return split_at(dataset, [number * rows // n for number in range(1, n)])


def split_at(dataset: "Dataset", boundaries: list[int]) -> list[Split]:
    """Returns ranges that end before each of the ascending rows `boundaries`, and at the end of each file."""
    row_count = len(dataset)
    places = dataset._places() if row_count else []
    if places is None:
        raise InvalidArgument("splits(): rows in memory are in no file that others could open; write them to one first")
    versions = dict(dataset._versions())
    ranges = []
    rows_before = 0
    remaining_ends = iter([*boundaries, row_count])
    end = next(remaining_ends)
    for path, first, count, _, partition in places:
        offset = 0
        while offset < count:
            while end <= rows_before + offset:
                end = next(remaining_ends)
            size = min(count, end - rows_before) - offset
            ranges.append(Split(str(path), first + offset, size, tuple(partition), versions.get(path)))
            offset += size
        rows_before += count
    return ranges
