"""The rows that the live tests write, and their comparison with the rows that a reader returns.

The values of a row follow from its number. `row`, `ts` and `price` depend on the whole number; the other columns repeat
every PERIOD rows, so a reader's rows can be compared with slices of arrays that are built once.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

PERIOD = 1 << 14
START_US = 1_700_000_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SYMBOLS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        # The first period adds an entry to the dictionary every 16 rows.
        pa.field("symbol", SYMBOLS, nullable=False),
        pa.field("price", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("list", pa.list_(pa.int32())),
    ]
)


def symbol_value(number: int) -> str:
    return f"S{number % PERIOD // 16}"


def text_value(number: int) -> str | None:
    number %= PERIOD
    if number % 13 == 5:
        return None
    return f"{number:x}" * (number % 4)


def list_value(number: int) -> list[int] | None:
    number %= PERIOD
    if number % 17 == 3:
        return None
    return [number + k for k in range(number % 5)]


def row_values(number: int) -> dict:
    """Returns the row with this number as Python values."""
    return {
        "row": number,
        "ts": EPOCH + timedelta(microseconds=START_US + number // 3 * 10),
        "symbol": symbol_value(number),
        "price": None if number % 10 == 3 else number * 0.25,
        "text": text_value(number),
        "list": list_value(number),
    }


class ExpectedRows:
    """Builds expected rows as Arrow data, and compares tables with them."""

    def __init__(self):
        # Two periods, so that any range of up to PERIOD rows is one slice.
        numbers = range(2 * PERIOD)
        self.periodic_columns = {
            "symbol": pa.array([symbol_value(number) for number in numbers]),
            "text": pa.array([text_value(number) for number in numbers]),
            "list": pa.array([list_value(number) for number in numbers], pa.list_(pa.int32())),
        }

    def columns(self, start: int, count: int) -> dict[str, pa.Array]:
        """Returns the columns of rows `start .. start + count`, with symbols as text. `count` is at most PERIOD."""
        numbers = np.arange(start, start + count)
        periodic = {name: array.slice(start % PERIOD, count) for name, array in self.periodic_columns.items()}
        return {
            "row": pa.array(numbers),
            "ts": pa.array(START_US + numbers // 3 * 10).cast(SCHEMA.field("ts").type),
            "symbol": periodic["symbol"],
            "price": pa.array(numbers * 0.25, mask=numbers % 10 == 3),
            "text": periodic["text"],
            "list": periodic["list"],
        }

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        columns = self.columns(start, count)
        # Symbols are plain text here: the table's writer encodes them as a dictionary.
        fields = [field.with_type(columns[field.name].type) for field in SCHEMA]
        return pa.record_batch(list(columns.values()), schema=pa.schema(fields))

    def find_difference(self, table: pa.Table | pa.RecordBatch, start: int) -> str:
        """Compares `table` with the rows from `start` on. Returns a description of the first difference, or ''."""
        table.validate(full=True)
        for offset in range(0, table.num_rows, PERIOD):
            count = min(PERIOD, table.num_rows - offset)
            expected_columns = self.columns(start + offset, count)
            if table.column_names != list(expected_columns):
                return f"columns {table.column_names}"
            for name, expected in expected_columns.items():
                actual = to_array(table.column(name).slice(offset, count), expected.type)
                if not actual.equals(expected):
                    return describe_difference(name, actual, expected, start + offset)
        return ""


def to_array(column: pa.Array | pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
    """Converts a column to a single array of `data_type`, decoding dictionaries."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    # Some versions of pyarrow return a chunked array from combine_chunks.
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type.equals(data_type) else column.cast(data_type)


def describe_difference(name: str, actual: pa.Array, expected: pa.Array, start: int) -> str:
    for offset, (left, right) in enumerate(zip(actual.to_pylist(), expected.to_pylist())):
        if left != right:
            return f"row {start + offset}, {name}: {left!r} instead of {right!r}"
    return f"from row {start}, {name}: equal values, unequal arrays"
