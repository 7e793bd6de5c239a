"""The rows of the live tests: row i of a table is what `i` says, whoever writes or reads it.

`row`, `ts` and `price` go on for ever; the other columns repeat after PERIOD rows, so that what a reader got can be
compared with slices of arrays that are made once.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

PERIOD = 1 << 14
START = 1_700_000_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SYMBOLS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        # A new entry every 16 rows, for one period.
        pa.field("symbol", SYMBOLS, nullable=False),
        pa.field("price", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("list", pa.list_(pa.int32())),
    ]
)


def text(i):
    i %= PERIOD
    return None if i % 13 == 5 else f"{i:x}" * (i % 4)


def items(i):
    i %= PERIOD
    return None if i % 17 == 3 else [i + k for k in range(i % 5)]


def row(i):
    """Row `i` as Python values."""
    return {
        "row": i,
        "ts": EPOCH + timedelta(microseconds=START + i // 3 * 10),
        "symbol": f"S{i % PERIOD // 16}",
        "price": None if i % 10 == 3 else i * 0.25,
        "text": text(i),
        "list": items(i),
    }


def periodic():
    # Twice, so that any run of up to PERIOD rows is one slice.
    numbers = range(2 * PERIOD)
    return {
        "symbol": pa.array([f"S{i % PERIOD // 16}" for i in numbers]),
        "text": pa.array([text(i) for i in numbers]),
        "list": pa.array([items(i) for i in numbers], pa.list_(pa.int32())),
    }


class Expected:
    """What rows must be."""

    def __init__(self):
        self.periodic = periodic()

    def columns(self, start, count):
        """Rows `start ..`, at most PERIOD of them, with the symbols as text."""
        numbers = np.arange(start, start + count)
        part = {name: array.slice(start % PERIOD, count) for name, array in self.periodic.items()}
        return {
            "row": pa.array(numbers),
            "ts": pa.array(START + numbers // 3 * 10).cast(SCHEMA.field("ts").type),
            "symbol": part["symbol"],
            "price": pa.array(numbers * 0.25, mask=numbers % 10 == 3),
            "text": part["text"],
            "list": part["list"],
        }

    def batch(self, start, count):
        columns = self.columns(start, count)
        # The table makes a dictionary of it.
        fields = [field.with_type(columns[field.name].type) for field in SCHEMA]
        return pa.record_batch(list(columns.values()), schema=pa.schema(fields))

    def complaint(self, table, start):
        """What is wrong with a table or record batch that should be rows `start ..`; nothing if all is right."""
        table.validate(full=True)
        for at in range(0, table.num_rows, PERIOD):
            count = min(PERIOD, table.num_rows - at)
            wanted = self.columns(start + at, count)
            if table.column_names != list(wanted):
                return f"columns {table.column_names}"
            for name, want in wanted.items():
                got = plain(table.column(name).slice(at, count), want.type)
                if not got.equals(want):
                    return difference(name, got, want, start + at)
        return ""


def plain(column, data_type):
    """The column as one array without a dictionary, in the types that the writer used."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type.equals(data_type) else column.cast(data_type)


def difference(name, got, want, start):
    pairs = zip(got.to_pylist(), want.to_pylist())
    for number, (left, right) in enumerate(pairs):
        if left != right:
            return f"row {start + number}, {name}: {left!r} instead of {right!r}"
    return f"from row {start}, {name}: equal values, unequal arrays"
