"""Small classes that are easier written in Python."""

from collections import namedtuple


MonthDayNano = namedtuple("MonthDayNano", ["months", "days", "nanoseconds"])
MonthDayNano.__doc__ = "A calendar interval; months and days have no fixed length, so the three are kept apart."

Footprint = namedtuple("Footprint", ["mapped", "resident", "copied"])
Footprint.__doc__ = """Where a dataset's bytes are.

`mapped` bytes of files, `resident` those of them that lie in physical memory now, whoever brought them there, and
`copied` bytes, which had to be copied: decompressed, byte-swapped, or dictionaries put together from deltas.
"""


class Message(dict):
    """One message of an Arrow file or stream, as data; it prints as text."""

    __slots__ = ("_text",)

    def __init__(self, fields: dict[str, object], text: str) -> None:
        super().__init__(fields)
        self._text = text

    def __repr__(self) -> str:
        return self._text


for _class in [MonthDayNano, Footprint, Message]:
    _class.__module__ = "arrowwood"
