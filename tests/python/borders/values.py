"""Values of pyarrow as plain ones of Python, of JSON and of CSV, by rules of our own: nothing here asks Arrowwood."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# The days of the years that chrono has.
CALENDAR = [int(np.datetime64(day, "D").astype("i8")) for day in ("-262143-01-01", "262142-12-31")]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def scalars(table):
    return [scalar for chunk in table["x"].chunks for scalar in chunk]


def plain(scalar):
    """What ``as_py()`` gives, but numpy's times where Python's classes don't hold them."""
    kind = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        of_its_own = kind.extension_name in ("arrow.uuid", "arrow.bool8")
        return None if not scalar.is_valid else scalar.as_py() if of_its_own else plain(scalar.value)
    if isinstance(scalar, pa.UnionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        return None if scalar.value is None else plain(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_map(kind):
        return [(plain(key), plain(value)) for key, value in (entry.values() for entry in scalar.values)]
    if pa.types.is_struct(kind):
        return {field.name: plain(scalar[at]) for at, field in enumerate(kind)}
    if pa.types.is_nested(kind):
        return [plain(item) for item in scalar.values]
    if pa.types.is_interval(kind):
        return tuple(scalar.as_py())
    return time_of(scalar) if pa.types.is_temporal(kind) else scalar.as_py()


def grown(kind):
    """The type for a table: that of the values of runs, and of dictionaries of what can't be in those of tables."""
    if pa.types.is_run_end_encoded(kind):
        return grown(kind.value_type)
    if pa.types.is_dictionary(kind) and (pa.types.is_boolean(kind.value_type) or pa.types.is_nested(kind.value_type)):
        return grown(kind.value_type)
    if pa.types.is_list(kind) and grown(kind.value_type) != kind.value_type:
        return pa.list_(kind.value_field.with_type(grown(kind.value_type)))
    return kind


def storage(array):
    """An array of what the values are stored as, without dictionaries, runs and extensions."""
    if isinstance(array, pa.ExtensionArray):
        return storage(array.storage)
    if pa.types.is_dictionary(array.type) and not pa.types.is_nested(array.type.value_type):
        if is_text(array.type.value_type):
            # pyarrow decodes no dictionaries of views.
            return pa.array(array.to_pylist(), array.type.value_type)
        return storage(array.dictionary_decode())
    return storage(pc.run_end_decode(array)) if pa.types.is_run_end_encoded(array.type) else array


def as_in_c(chunks):
    """The bytes of the values of arrays, a list of them for text and bytes, and which are valid; nothing if nested."""
    parts = [as_in_memory(storage(chunk)) for chunk in chunks]
    valid = [scalar.is_valid for chunk in chunks for scalar in storage(chunk)]
    if any(isinstance(part, list) for part in parts):
        return [text for part in parts for text in part], valid
    return b"".join(parts), valid


def as_in_memory(array):
    kind = array.type
    if pa.types.is_boolean(kind):
        return bytes(bool(scalar.as_py()) for scalar in array)
    if pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return b""
    if is_text(kind) or is_bytes(kind):
        return [
            text.encode() if isinstance(text, str) else text for text in (scalar.as_py() or b"" for scalar in array)
        ]
    whole = array.buffers()[1]
    start, width = array.offset * kind.byte_width, kind.byte_width
    return whole.to_pybytes()[start : start + len(array) * width] if whole is not None else b""


def is_text(kind):
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_bytes(kind):
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def time_of(scalar):
    kind, value = scalar.type, scalar.value
    unit = getattr(kind, "unit", None)
    if unit == "ns" and value % 1000:
        return np.timedelta64(value, unit) if not pa.types.is_timestamp(kind) else np.datetime64(value, unit)
    if unit == "ns":
        # pyarrow would give objects of pandas.
        coarse = {pa.types.is_time: pa.time64("us"), pa.types.is_duration: pa.duration("us")}
        kind = next((to for is_it, to in coarse.items() if is_it(kind)), None) or pa.timestamp("us", kind.tz)
        return pa.scalar(value // 1000, kind).as_py()
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_duration(kind):
            return np.timedelta64(value, unit)
        return np.datetime64(value // 86_400_000 if pa.types.is_date64(kind) else value, unit or "D")


def key(value):
    """`value` so that equal keys are the same value of the same type: NaN is one value, and zero has a sign."""
    if isinstance(value, dict):
        return {name: key(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [key(item) for item in value]
    return (type(value).__name__, str(value))


# ---- text ----


def as_json(scalar):
    """The value as ``arrowwood cat --json`` has it by the documentation of ``Value::to_json``."""
    kind = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        if not scalar.is_valid:
            return None
        name = kind.extension_name
        # The classes of Python that pyarrow has for them.
        own = {"arrow.uuid": lambda: str(scalar.as_py()), "arrow.bool8": scalar.as_py}
        return own[name]() if name in own else as_json(scalar.value)
    if isinstance(scalar, pa.UnionScalar | pa.DictionaryScalar | pa.RunEndEncodedScalar):
        return None if scalar.value is None else as_json(scalar.value)
    if not scalar.is_valid:
        return None
    if pa.types.is_map(kind):
        pairs = [[as_json(key), as_json(value)] for key, value in (entry.values() for entry in scalar.values)]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else pairs
    if pa.types.is_struct(kind):
        return {field.name: as_json(scalar[at]) for at, field in enumerate(kind)}
    if pa.types.is_nested(kind):
        return [as_json(item) for item in scalar.values]
    if pa.types.is_temporal(kind):
        return text_of(scalar)
    return number_of(scalar)


def number_of(scalar):
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
        # The shortest digits that mean the same in 32 bits.
        return value if pa.types.is_float64(scalar.type) else float(str(np.float32(value)))
    return value


def text_of(scalar):
    """ISO 8601; the count and its unit where chrono, which we write dates by, has no calendar."""
    kind = scalar.type
    if pa.types.is_interval(kind):
        months, days, nanos = scalar.as_py()
        return span(months, days, nanos)
    if pa.types.is_duration(kind):
        nanos = scalar.value * (10**9 // UNITS[kind.unit])
        days, nanos = toward_zero(nanos, 86_400 * 10**9)
        return span(0, days, nanos)
    if pa.types.is_date(kind):
        days = scalar.value // (86_400_000 if pa.types.is_date64(kind) else 1)
        return day(days) or f"{days} days"
    seconds, rest = divmod(scalar.value, UNITS[kind.unit])
    fraction = f".{rest:0{len(str(UNITS[kind.unit])) - 1}}" if kind.unit != "s" and rest else ""
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
    if pa.types.is_time(kind):
        return clock
    return f"{day(days)}T{clock}{'Z' if kind.tz else ''}" if day(days) else f"{scalar.value} {kind.unit}"


def day(days):
    """The date, or nothing outside of chrono's quarter of a million years."""
    if not CALENDAR[0] <= days <= CALENDAR[1]:
        return None
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    return f"{int(year):04}-{month}-{day}" if 0 <= int(year) <= 9999 else f"{int(year):+05}-{month}-{day}"


def toward_zero(number, unit):
    whole = abs(number) // unit * (1 if number >= 0 else -1)
    return whole, number - whole * unit


def span(months, days, nanos):
    years, months = toward_zero(months, 12)
    seconds, nanos = toward_zero(nanos, 10**9)
    minutes, seconds = toward_zero(seconds, 60)
    hours, minutes = toward_zero(minutes, 60)
    sign = "-" if seconds < 0 or nanos < 0 else ""
    fraction = f"{abs(nanos):09}".rstrip("0")
    second = f"{sign}{abs(seconds)}{'.' + fraction if fraction else ''}S" if seconds or nanos else ""
    before = [f"{count}{unit}" for count, unit in [(years, "Y"), (months, "M"), (days, "D")] if count]
    time = [f"{count}{unit}" for count, unit in [(hours, "H"), (minutes, "M")] if count]
    if not (before or time or second):
        return "PT0S"
    return "P" + "".join(before) + ("T" + "".join(time) + second if time or second else "")


def json_lines(table):
    """Lines of JSON; a null's member is left out in every other line."""
    lines = []
    for at, scalar in enumerate(scalars(table)):
        value = as_json(scalar)
        row = {"n": at} if value is None and at % 2 else {"n": at, "x": value}
        lines.append(json.dumps(row))
    return "".join(line + "\n" for line in lines)


def csv_cell(scalar):
    value = as_json(scalar)
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set('",\r\n') else text


def csv_text(table):
    rows = "".join(f"{at},{csv_cell(scalar)}\n" for at, scalar in enumerate(scalars(table)))
    return "n,x\n" + rows
