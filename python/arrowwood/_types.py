"""Small classes that are easier written in Python."""

from collections import namedtuple


class MonthDayNano(namedtuple("MonthDayNano", ["months", "days", "nanoseconds"])):
    """A calendar interval; months and days have no fixed length, so the three are kept apart."""

    __slots__ = ()


class Footprint(namedtuple("Footprint", ["mapped", "resident", "copied"])):
    """Where a dataset's bytes are.

    Attributes:
        mapped: bytes mapped from files.
        resident: those of them that lie in physical memory now, whoever brought them there.
        copied: bytes that had to be copied (decompressed, byte-swapped, dictionaries put together from deltas).
    """

    __slots__ = ()


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
