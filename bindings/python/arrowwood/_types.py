"""Defines small classes that are easier to write in Python than in Rust."""

from collections import namedtuple

from arrowwood._errors import RowOutOfRange

MonthDayNano = namedtuple("MonthDayNano", ["months", "days", "nanoseconds"])
MonthDayNano.__doc__ = "A calendar interval; months and days have no fixed length, so the three are kept apart."

Footprint = namedtuple("Footprint", ["mapped", "resident", "copied"])
Footprint.__doc__ = """Where a dataset's bytes are.

`mapped` bytes of files, `resident` those of them that are in physical memory, whichever process read them, and
`copied` bytes, which had to be copied: decompressed, byte-swapped, or dictionaries put together from deltas.
"""


Finding = namedtuple("Finding", ["path", "offset", "message", "is_damage"])
Finding.__doc__ = """Something that a check has found: the file, the byte where one is known, and what was expected and found.

It `is_damage`, or it is worth knowing, and may be what a writer leaves that was killed.
"""

Repaired = namedtuple("Repaired", ["kept", "given_up", "moved"])
Repaired.__doc__ = (
    """What a repair has done: rows kept, rows given up (None if unknown), and where the damaged files are now."""
)


Partition = namedtuple("Partition", ["path", "values", "rows"])
Partition.__doc__ = """A partition: its directory, its values as text by column (None for null), and its rows."""


_Report = namedtuple("_Report", ["rows", "batches", "segments", "findings", "repaired"])


class Report(_Report):
    """The findings of a check, and the result of a repair (None if nothing was needed)."""

    __slots__ = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)


_Split = namedtuple("_Split", ["path", "first_row", "rows", "partition", "version"], defaults=[(), None])


class Split(_Split):
    """Rows of a file or table by number, made by ``Dataset.splits``: all that another process needs to open them.

    `path` is absolute, `first_row` counts from the very first row that the table ever had, and there are so many
    `rows`. `partition` has the columns of a partition that the rows are in, each with its type and its value as text.
    `version` tells the file or table from another one at the same path; None is not checked. Where the rows lie
    elsewhere on another machine: ``split._replace(path=...)``, and ``version=None`` for a copy of a table.
    """

    __slots__ = ()

    def __repr__(self):
        """Omits passwords and signatures in the URL of an object."""
        path = self._path_without_secrets()
        return _Split.__repr__(self._replace(path=path) if path != self.path else self)

    def _path_without_secrets(self):
        from arrowwood import _arrowwood

        return _arrowwood._without_secrets(self.path)

    def open(self):
        """The rows, in place: those that existed when the split was made, even if the table has grown since.

        Raises:
            FileChanged: there is another file or table at the path now.
            RowOutOfRange: they no longer exist, for example after ``Writer.drop_before``.
            NotFound, PermissionDenied, InvalidData: as for opening any file.
        """
        from arrowwood import _arrowwood

        dataset = _arrowwood.open(self.path)
        if self.version is not None:
            dataset._check_versions([(self.path, self.version)])
        if self.partition:
            dataset = dataset._in_partition(list(self.partition))
        start = self.first_row - dataset.first_row
        rows = dataset[start : start + self.rows] if start >= 0 else dataset[:0]
        if len(rows) == self.rows:
            return rows
        first, end = dataset.first_row, dataset.first_row + len(dataset)
        raise RowOutOfRange(
            f"{self._path_without_secrets()}: opening rows {self.first_row} to {self.first_row + self.rows}: there are rows {first} to "
            f"{end}; make the splits anew",
            self._path_without_secrets(),
        )


class Message(dict):
    """One message of an Arrow file or stream, as data; it prints as text."""

    __slots__ = ("_text",)

    def __init__(self, fields: dict[str, object], text: str) -> None:
        super().__init__(fields)
        self._text = text

    def __repr__(self) -> str:
        return self._text


for _class in [MonthDayNano, Footprint, Finding, Repaired, Report, Split, Message, Partition]:
    _class.__module__ = "arrowwood"
