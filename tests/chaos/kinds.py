"""Kinds of tables, and their rows: what a row holds follows from its `id`, which no other row of the table ever has."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)
TYPES = {
    "ts": "timestamp[s] not null",
    "g": "int32",
    "s": "utf8",
    "d": "utf8",
    "l": "list<int32>",
    "st": "struct<a: int32, b: utf8>",
    "v": "float64",
    "q": "int16",
    "b": "bool",
}
# What a column of numbers is widened to, step by step.
WIDER = {"int16": "int32", "int32": "int64"}
# The partitions that rows go to.
PARTITIONS = ["a", "b", "c/d"]


def value(name, row, late):
    """The value of a column in row `row`, an id."""
    match name:
        case "id":
            return row
        case "ts":
            return EPOCH + timedelta(seconds=seconds(row, late))
        case "g":
            return None if row % 11 == 4 else row % 5
        case "s":
            return None if row % 7 == 3 else f"{row:x}" * (row % 4) if row % 29 else "long " * 300 + str(row)
        case "d":
            return f"key {row % 9}" if row % 23 else None
        case "l":
            return None if row % 13 == 7 else [row + k for k in range(row % 4)]
        case "st":
            return {"a": row, "b": None if row % 3 == 0 else str(row)}
        case "v":
            return None if row % 10 == 3 else row * 0.25
        case "q":
            return row % 1000
        case "b":
            return row % 3 == 0
        case "key":
            return PARTITIONS[row % len(PARTITIONS)]
        case _:
            # One that was added later: "new0", "new1", …
            return row * 10 + int(name[3:])


def seconds(row, late):
    """The time of a row: never decreasing, but where rows may be late."""
    return row // 3 if not late else row // 3 + 40 * (row * 7919 % 5 == 0)


@dataclass
class Kind:
    """A table: its columns, and the options that are never changed."""

    columns: dict
    sorted_by: str | None = None
    late: bool = False
    dictionary: list = field(default_factory=list)
    index: list = field(default_factory=list)

    @classmethod
    def roll(cls, dice):
        names = [name for name in TYPES if name not in ("ts", "q") and dice.random() < 0.4]
        columns = {"id": "int64 not null", "ts": TYPES["ts"], "q": TYPES["q"], **{name: TYPES[name] for name in names}}
        order = dice.choice([None, "refuse", "accept", "accept"])
        return cls(
            columns,
            sorted_by="ts" if order else None,
            late=order == "accept",
            dictionary=["d"] if "d" in columns and dice.random() < 0.7 else [],
            index=[name for name in ("id", "g", "d") if name in columns and dice.random() < 0.3],
        )

    def schema(self):
        return ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())

    def row(self, row, columns):
        return {name: value(name, row, self.late) for name in columns}
