"""Random kinds of tables, and the values of their rows. A row's values follow from its `id`, which is never reused."""

import random
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
# The keys of partitions; one has a character that is escaped in names of directories.
PARTITIONS = ["a", "b", "c/d"]
GROUPS = 1000


def value(name: str, row_id: int, is_late: bool):
    """Returns the value of a column in the row with this id."""
    match name:
        case "id":
            return row_id
        case "ts":
            return EPOCH + timedelta(seconds=row_seconds(row_id, is_late))
        case "g":
            return None if row_id % 11 == 4 else row_id % 5
        case "s":
            return text_value(row_id)
        case "d":
            return f"key {row_id % 9}" if row_id % 23 else None
        case "l":
            return None if row_id % 13 == 7 else [row_id + k for k in range(row_id % 4)]
        case "st":
            return {"a": row_id, "b": None if row_id % 3 == 0 else str(row_id)}
        case "v":
            return None if row_id % 10 == 3 else row_id * 0.25
        case "q":
            return row_id % GROUPS
        case "b":
            return row_id % 3 == 0
        case "key":
            return PARTITIONS[row_id % len(PARTITIONS)]
        case _:
            # A column that was added later: "new0", "new1", …
            return row_id * 10 + int(name[3:])


def text_value(row_id: int) -> str | None:
    if row_id % 7 == 3:
        return None
    if row_id % 29 == 0:
        return "long " * 300 + str(row_id)
    return f"{row_id:x}" * (row_id % 4)


def row_seconds(row_id: int, is_late: bool) -> int:
    """Returns the time of a row. Times never decrease, except in tables that accept late rows."""
    if not is_late:
        return row_id // 3
    return row_id // 3 + 40 * (row_id * 7919 % 5 == 0)


@dataclass
class Kind:
    """The columns of a table, and the options that are never changed."""

    columns: dict[str, str]
    sorted_by: str | None = None
    late: bool = False
    dictionary: list[str] = field(default_factory=list)
    index: list[str] = field(default_factory=list)

    @classmethod
    def random(cls, rng: random.Random) -> "Kind":
        names = [name for name in TYPES if name not in ("ts", "q") and rng.random() < 0.4]
        columns = {"id": "int64 not null", "ts": TYPES["ts"], "q": TYPES["q"], **{name: TYPES[name] for name in names}}
        order = rng.choice([None, "refuse", "accept", "accept"])
        return cls(
            columns,
            sorted_by="ts" if order else None,
            late=order == "accept",
            dictionary=["d"] if "d" in columns and rng.random() < 0.7 else [],
            index=[name for name in ("id", "g", "d") if name in columns and rng.random() < 0.3],
        )

    def schema(self) -> str:
        return ", ".join(f"{name}: {data_type}" for name, data_type in self.columns.items())

    def row(self, row_id: int, columns: list[str]) -> dict:
        return {name: value(name, row_id, self.late) for name in columns}
