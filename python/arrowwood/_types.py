"""Small classes that are easier written in Python."""

from collections import namedtuple


MonthDayNano = namedtuple("MonthDayNano", ["months", "days", "nanoseconds"])
MonthDayNano.__doc__ = "A calendar interval; months and days have no fixed length, so the three are kept apart."

Footprint = namedtuple("Footprint", ["mapped", "resident", "copied"])
Footprint.__doc__ = """Where a dataset's bytes are.

`mapped` bytes of files, `resident` those of them that lie in physical memory now, whoever brought them there, and
`copied` bytes, which had to be copied: decompressed, byte-swapped, or dictionaries put together from deltas.
"""


Finding = namedtuple("Finding", ["path", "offset", "message", "is_damage"])
Finding.__doc__ = """Something that a check has found: the file, the byte where one is known, and what was expected and found.

It `is_damage`, or it is worth knowing, and may be what a writer leaves that was killed.
"""

Repaired = namedtuple("Repaired", ["kept", "given_up", "moved"])
Repaired.__doc__ = """What a repair has done: rows kept, rows given up (None if unknown), and where the damaged files are now."""


_Report = namedtuple("_Report", ["rows", "batches", "segments", "findings", "repaired"])


class Report(_Report):
    """What a check has found, and what a repair has done (None where nothing had to be)."""

    __slots__ = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)


class Message(dict):
    """One message of an Arrow file or stream, as data; it prints as text."""

    __slots__ = ("_text",)

    def __init__(self, fields: dict[str, object], text: str) -> None:
        super().__init__(fields)
        self._text = text

    def __repr__(self) -> str:
        return self._text


for _class in [MonthDayNano, Footprint, Finding, Repaired, Report, Message]:
    _class.__module__ = "arrowwood"
