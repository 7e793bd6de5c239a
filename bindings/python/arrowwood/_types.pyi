"""The fields of these classes, and their types, which at run time would cost the import of `typing`."""

from pathlib import Path
from typing import NamedTuple

from arrowwood import Dataset

class MonthDayNano(NamedTuple):
    """A calendar interval; months and days have no fixed length, so the three are kept apart."""

    months: int
    days: int
    nanoseconds: int

class Footprint(NamedTuple):
    """Where a dataset's bytes are.

    `mapped` bytes of files, `resident` those of them that are in physical memory, whichever process read them, and
    `copied` bytes, which had to be copied: decompressed, byte-swapped, or dictionaries put together from deltas.
    """

    mapped: int
    resident: int
    copied: int

class Finding(NamedTuple):
    """Something that a check has found: the file, the byte where one is known, and what was expected and found.

    It `is_damage`, or it is worth knowing, and may be what a writer leaves that was killed.
    """

    path: Path
    offset: int | None
    message: str
    is_damage: bool

class Repaired(NamedTuple):
    """What a repair has done: rows kept, rows given up (None if unknown), and where the damaged files are now."""

    kept: int
    given_up: int | None
    moved: list[Path]

class Partition(NamedTuple):
    """A partition: its directory, its values as text by column (None for null), and its rows."""

    path: Path
    values: dict[str, str | None]
    rows: Dataset

class Report(NamedTuple):
    """The findings of a check, and the result of a repair (None if nothing was needed)."""

    rows: int
    batches: int
    segments: int
    findings: list[Finding]
    repaired: Repaired | None

    @property
    def is_good(self) -> bool:
        """Whether nothing is damaged."""

class Split(NamedTuple):
    """Rows of a file or table by number, made by ``Dataset.splits``: all that another process needs to open them.

    `path` is absolute, `first_row` counts from the very first row that the table ever had, and there are so many
    `rows`. `partition` has the columns of a partition that the rows are in, each with its type and its value as text.
    `version` tells the file or table from another one at the same path; None is not checked. Where the rows lie
    elsewhere on another machine: ``split._replace(path=...)``, and ``version=None`` for a copy of a table.
    """

    path: str
    first_row: int
    rows: int
    partition: tuple[tuple[str, str, str | None], ...] = ()
    version: str | None = None

    def open(self) -> Dataset:
        """The rows, in place: those that existed when the split was made, even if the table has grown since.

        Raises:
            FileChanged: there is another file or table at the path now.
            RowOutOfRange: they no longer exist, for example after ``Writer.drop_before``.
            NotFound, PermissionDenied, InvalidData: as for opening any file.
        """

class Message(dict[str, object]):
    """One message of an Arrow file or stream, as data; it prints as text."""

    def __init__(self, fields: dict[str, object], text: str) -> None: ...
