"""Converts scalars of pyarrow to values of Python, JSON and CSV.

The conversions never call Arrowwood: tests compare its results with them.
"""

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MILLISECONDS_PER_DAY = 86_400_000
NANOSECONDS_PER_SECOND = 10**9
SECONDS_PER_DAY = 86_400
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# The range of dates of the crate chrono, with which Arrowwood formats dates, in days since 1970.
MIN_CHRONO_DAY = int(np.datetime64("-262143-01-01", "D").astype("i8"))
MAX_CHRONO_DAY = int(np.datetime64("262142-12-31", "D").astype("i8"))

# Extension types whose values pyarrow converts to a special Python class.
EXTENSIONS_WITH_PYTHON_CLASS = ("arrow.uuid", "arrow.bool8")


def column_scalars(table: pa.Table) -> list[pa.Scalar]:
    """Returns the scalars of the column ``x``."""
    return [scalar for chunk in table["x"].chunks for scalar in chunk]


# ---- Python ----


def to_python(scalar: pa.Scalar) -> Any:
    """Returns what ``as_py()`` returns, but a NumPy time if it is out of range of Python's classes."""
    data_type = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        if not scalar.is_valid:
            return None
        if data_type.extension_name in EXTENSIONS_WITH_PYTHON_CLASS:
            return scalar.as_py()
        return to_python(scalar.value)
    if isinstance(scalar, pa.UnionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        return None if scalar.value is None else to_python(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_map(data_type):
        entries = (entry.values() for entry in scalar.values)
        return [(to_python(key), to_python(value)) for key, value in entries]
    if pa.types.is_struct(data_type):
        return {field.name: to_python(scalar[index]) for index, field in enumerate(data_type)}
    if pa.types.is_nested(data_type):
        return [to_python(item) for item in scalar.values]
    if pa.types.is_interval(data_type):
        return tuple(scalar.as_py())
    if pa.types.is_temporal(data_type):
        return _time_to_python(scalar)
    return scalar.as_py()


def _time_to_python(scalar: pa.Scalar) -> Any:
    data_type, value = scalar.type, scalar.value
    unit = getattr(data_type, "unit", None)
    if unit == "ns":
        return _nanoseconds_to_python(data_type, value)
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_duration(data_type):
            return np.timedelta64(value, unit)
        count = value // MILLISECONDS_PER_DAY if pa.types.is_date64(data_type) else value
        return np.datetime64(count, unit or "D")


def _nanoseconds_to_python(data_type: pa.DataType, value: int) -> Any:
    if value % 1000:
        return np.datetime64(value, "ns") if pa.types.is_timestamp(data_type) else np.timedelta64(value, "ns")
    # Converts as microseconds, because pyarrow returns pandas objects for nanoseconds.
    if pa.types.is_time(data_type):
        microseconds = pa.time64("us")
    elif pa.types.is_duration(data_type):
        microseconds = pa.duration("us")
    else:
        microseconds = pa.timestamp("us", data_type.tz)
    return pa.scalar(value // 1000, microseconds).as_py()


def comparable(value: Any) -> Any:
    """Returns a key that is equal for the same values of the same type: NaN equals NaN, and -0.0 differs from 0.0."""
    if isinstance(value, dict):
        return {name: comparable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return (type(value).__name__, str(value))


# ---- Arrow ----


def table_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type that a column of a growing table has for values of `data_type`.

    Tables have no run-end encoded columns and no dictionaries of booleans or nested values; both become the type of
    their values.
    """
    if pa.types.is_run_end_encoded(data_type):
        return table_type(data_type.value_type)
    if pa.types.is_dictionary(data_type):
        value_type = data_type.value_type
        if pa.types.is_boolean(value_type) or pa.types.is_nested(value_type):
            return table_type(value_type)
    if pa.types.is_list(data_type) and table_type(data_type.value_type) != data_type.value_type:
        return pa.list_(data_type.value_field.with_type(table_type(data_type.value_type)))
    return data_type


def decode_storage(array: pa.Array) -> pa.Array:
    """Returns the values without dictionary, run-end encoding and extension type."""
    if isinstance(array, pa.ExtensionArray):
        return decode_storage(array.storage)
    if pa.types.is_dictionary(array.type) and not pa.types.is_nested(array.type.value_type):
        if is_text(array.type.value_type):
            # `dictionary_decode` does not support views.
            return pa.array(array.to_pylist(), array.type.value_type)
        return decode_storage(array.dictionary_decode())
    return pc.run_end_decode(array) if pa.types.is_run_end_encoded(array.type) else array


def to_c_values(chunks: list[pa.Array]) -> tuple[bytes | list[bytes], list[bool]]:
    """Returns what a C program passes for a column: its values, and whether each one is valid.

    The values are the bytes of an array of C, or a list with the bytes of each text; those of nested types are empty.
    """
    arrays = [decode_storage(chunk) for chunk in chunks]
    parts = [_value_bytes(array) for array in arrays]
    valid = [scalar.is_valid for array in arrays for scalar in array]
    if any(isinstance(part, list) for part in parts):
        return [text for part in parts for text in part], valid
    return b"".join(parts), valid


def _value_bytes(array: pa.Array) -> bytes | list[bytes]:
    data_type = array.type
    if pa.types.is_boolean(data_type):
        return bytes(bool(scalar.as_py()) for scalar in array)
    if pa.types.is_null(data_type) or pa.types.is_nested(data_type) or pa.types.is_dictionary(data_type):
        return b""
    if is_text(data_type):
        return [(scalar.as_py() or "").encode() for scalar in array]
    if is_binary(data_type):
        return [scalar.as_py() or b"" for scalar in array]
    values = array.buffers()[1]
    if values is None:
        return b""
    width = data_type.byte_width
    return values.to_pybytes()[array.offset * width : (array.offset + len(array)) * width]


def is_text(data_type: pa.DataType) -> bool:
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)


def is_binary(data_type: pa.DataType) -> bool:
    return pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_binary_view(data_type)


# ---- JSON and CSV ----


def to_json(scalar: pa.Scalar) -> Any:
    """Returns the value that ``arrowwood cat --json`` prints, as documented for ``Value::to_json``."""
    data_type = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        if not scalar.is_valid:
            return None
        if data_type.extension_name == "arrow.uuid":
            return str(scalar.as_py())
        if data_type.extension_name == "arrow.bool8":
            return scalar.as_py()
        return to_json(scalar.value)
    if isinstance(scalar, pa.UnionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        return None if scalar.value is None else to_json(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_map(data_type):
        entries = (entry.values() for entry in scalar.values)
        pairs = [[to_json(key), to_json(value)] for key, value in entries]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else pairs
    if pa.types.is_struct(data_type):
        return {field.name: to_json(scalar[index]) for index, field in enumerate(data_type)}
    if pa.types.is_nested(data_type):
        return [to_json(item) for item in scalar.values]
    if pa.types.is_temporal(data_type):
        return format_time(scalar)
    return _plain_to_json(scalar)


def _plain_to_json(scalar: pa.Scalar) -> Any:
    value = scalar.as_py()
    if isinstance(value, bytes):
        return value.hex()
    if pa.types.is_decimal(scalar.type):
        return f"{value:f}"
    if pa.types.is_floating(scalar.type):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        # Prints the shortest digits that read back as the same 32-bit float.
        return value if pa.types.is_float64(scalar.type) else float(str(np.float32(value)))
    return value


def format_time(scalar: pa.Scalar) -> str:
    """Formats a time as ISO 8601, or as a count with its unit if the date is out of range of chrono."""
    data_type = scalar.type
    if pa.types.is_interval(data_type):
        months, days, nanoseconds = scalar.as_py()
        return format_interval(months, days, nanoseconds)
    if pa.types.is_duration(data_type):
        nanoseconds = scalar.value * (NANOSECONDS_PER_SECOND // TICKS_PER_SECOND[data_type.unit])
        days, nanoseconds = divmod_toward_zero(nanoseconds, SECONDS_PER_DAY * NANOSECONDS_PER_SECOND)
        return format_interval(0, days, nanoseconds)
    if pa.types.is_date(data_type):
        days = scalar.value // (MILLISECONDS_PER_DAY if pa.types.is_date64(data_type) else 1)
        return format_date(days) or f"{days} days"
    seconds, ticks = divmod(scalar.value, TICKS_PER_SECOND[data_type.unit])
    days, seconds = divmod(seconds, SECONDS_PER_DAY)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if ticks:
        digits = len(str(TICKS_PER_SECOND[data_type.unit])) - 1
        clock += f".{ticks:0{digits}}"
    if pa.types.is_time(data_type):
        return clock
    date = format_date(days)
    if date is None:
        return f"{scalar.value} {data_type.unit}"
    return f"{date}T{clock}{'Z' if data_type.tz else ''}"


def format_date(days: int) -> str | None:
    """Formats days since 1970 as a date, or returns None if they are out of range of chrono."""
    if not MIN_CHRONO_DAY <= days <= MAX_CHRONO_DAY:
        return None
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    if 0 <= int(year) <= 9999:
        return f"{int(year):04}-{month}-{day}"
    return f"{int(year):+05}-{month}-{day}"


def format_interval(months: int, days: int, nanoseconds: int) -> str:
    """Formats an interval as an ISO 8601 duration."""
    years, months = divmod_toward_zero(months, 12)
    seconds, nanoseconds = divmod_toward_zero(nanoseconds, NANOSECONDS_PER_SECOND)
    minutes, seconds = divmod_toward_zero(seconds, 60)
    hours, minutes = divmod_toward_zero(minutes, 60)
    date = "".join(f"{count}{unit}" for count, unit in [(years, "Y"), (months, "M"), (days, "D")] if count)
    time = "".join(f"{count}{unit}" for count, unit in [(hours, "H"), (minutes, "M")] if count)
    if seconds or nanoseconds:
        sign = "-" if seconds < 0 or nanoseconds < 0 else ""
        fraction = f"{abs(nanoseconds):09}".rstrip("0")
        time += f"{sign}{abs(seconds)}{'.' + fraction if fraction else ''}S"
    if not (date or time):
        return "PT0S"
    return f"P{date}" + (f"T{time}" if time else "")


def divmod_toward_zero(number: int, divisor: int) -> tuple[int, int]:
    """Returns quotient and remainder like ``divmod``, but rounds toward zero."""
    quotient = abs(number) // divisor * (1 if number >= 0 else -1)
    return quotient, number - quotient * divisor


def json_lines(table: pa.Table) -> str:
    """Returns the table as lines of JSON; in every other line, a null is a missing member."""
    lines = []
    for number, scalar in enumerate(column_scalars(table)):
        value = to_json(scalar)
        is_left_out = value is None and number % 2 == 1
        row = {"n": number} if is_left_out else {"n": number, "x": value}
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)


def csv_text(table: pa.Table) -> str:
    """Returns the table as CSV with a header."""
    lines = [f"{number},{csv_field(scalar)}\n" for number, scalar in enumerate(column_scalars(table))]
    return "n,x\n" + "".join(lines)


def csv_field(scalar: pa.Scalar) -> str:
    """Returns a field of CSV: empty for null, quoted where it has to be."""
    value = to_json(scalar)
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not text or set(text) & set('",\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
