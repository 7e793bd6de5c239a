"""Reads and writes Arrow with pyarrow for run.py: `read FOLDER` or `write FOLDER`."""

import json
import sys
from pathlib import Path

import pyarrow as pa


def read_all(folder):
    for path in sorted(folder.iterdir()):
        if path.suffix in (".arrow", ".stream"):
            try:
                line = {"rows": rows_of(path)}
            except Exception as e:
                line = {"error": f"{type(e).__name__}: {e}"}
            print(json.dumps({"file": path.name, **line}))


def rows_of(path):
    if path.suffix == ".stream":
        batches = list(pa.ipc.open_stream(path))
    else:
        reader = pa.ipc.open_file(path)
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    rows = []
    for batch in batches:
        batch.validate(full=True)
        rows += [[cell(column, row) for column in batch.columns] for row in range(batch.num_rows)]
    return rows


def cell(column, row):
    """In the spelling that examples/samples/main.rs defines."""
    if not isinstance(column, pa.UnionArray):
        return spelled(column[row])
    # Not from the scalar: of a null in a sparse union it names the first member, whichever it is of.
    member = column.type.type_codes.index(column.type_codes[row].as_py())
    at = row if column.type.mode == "sparse" else column.offsets[row].as_py()
    return {column.type.field(member).name: spelled(column.field(member)[at])}


def spelled(scalar):
    kind = scalar.type
    if isinstance(scalar, pa.UnionScalar):
        return {kind.field(kind.type_codes.index(scalar.type_code)).name: spelled(scalar.value)}
    if isinstance(scalar, (pa.DictionaryScalar, pa.RunEndEncodedScalar)):
        return None if scalar.value is None else spelled(scalar.value)
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return scalar.as_py() if kind.extension_name == "arrow.bool8" else spelled(scalar.value)
    if pa.types.is_integer(kind):
        return str(scalar.as_py())
    if pa.types.is_decimal(kind):
        sign, digits, _ = scalar.as_py().as_tuple()
        return f"{(-1) ** sign * int(''.join(map(str, digits)))}e-{kind.scale}"
    if any(is_it(kind) for is_it in PLAIN):
        value = scalar.as_py()
        return "0x" + value.hex() if isinstance(value, bytes) else value
    return temporal(scalar) or nested(scalar)


PLAIN = (
    pa.types.is_boolean,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def temporal(scalar):
    kind = scalar.type
    if pa.types.is_date32(kind):
        return f"date {scalar.value}"
    if pa.types.is_date64(kind):
        return f"date {scalar.value // 86_400_000}"
    if pa.types.is_time(kind):
        return f"time {scalar.value}{kind.unit}"
    if pa.types.is_duration(kind):
        return f"duration {scalar.value}{kind.unit}"
    if pa.types.is_timestamp(kind):
        return f"timestamp {scalar.value}{kind.unit}" + (f" {kind.tz}" if kind.tz else "")
    if pa.types.is_interval(kind):
        months, days, nanoseconds = scalar.as_py()
        return f"interval {months} {days} {nanoseconds}"
    return None


def nested(scalar):
    kind = scalar.type
    if pa.types.is_map(kind):
        return [[spelled(entry[0]), spelled(entry[1])] for entry in scalar.values]
    if pa.types.is_struct(kind):
        return {field.name: spelled(scalar[i]) for i, field in enumerate(kind)}
    return [spelled(item) for item in scalar.values]


def write_both(folder):
    """The rows that run.py expects, as a file and as a stream."""
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([
        ("i", pa.int32()), ("n", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", words),
        ("l", pa.list_(pa.int32())), ("b", pa.bool_()),
    ])  # fmt: skip
    first = [[1, None], [2**53 + 1, None], [0.5, None], ["a", None], keys([0, None]), [[1, 2], None], [True, None]]
    second = [[-3], [-1], [-1.5], ["ünï"], keys([1]), [[]], [False]]
    batches = [pa.record_batch(columns, schema=schema) for columns in (first, second)]
    for name, new in (("pyarrow.arrow", pa.ipc.new_file), ("pyarrow.stream", pa.ipc.new_stream)):
        with new(str(folder / name), schema) as writer:
            for batch in batches:
                writer.write(batch)


def keys(keys):
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), ["x", "y"])


if __name__ == "__main__":
    {"read": read_all, "write": write_both}[sys.argv[1]](Path(sys.argv[2]))
