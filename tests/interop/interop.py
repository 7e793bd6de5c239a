"""Reads and writes Arrow with pyarrow for run.py: `read FOLDER` or `write FOLDER`."""

import json
import sys
from pathlib import Path

import pyarrow as pa

MILLISECONDS_PER_DAY = 86_400_000


def read_folder(folder: Path):
    """Prints a line of JSON for each Arrow file of a folder."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".arrow", ".stream"):
            try:
                line = {"rows": read_rows(path)}
            # Any error is the answer for this file, and compared with what run.py expects.
            except Exception as e:
                line = {"error": f"{type(e).__name__}: {e}"}
            print(json.dumps({"file": path.name, **line}))


def read_rows(path: Path) -> list:
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


def cell(column: pa.Array, row: int):
    """Returns a value of a column in the spelling that examples/samples/main.rs defines."""
    if not isinstance(column, pa.UnionArray):
        return spell(column[row])
    # The scalar of a null in a sparse union always names the first member, so the array's type codes are used instead.
    member = column.type.type_codes.index(column.type_codes[row].as_py())
    index = row if column.type.mode == "sparse" else column.offsets[row].as_py()
    return {column.type.field(member).name: spell(column.field(member)[index])}


def spell(scalar: pa.Scalar):
    data_type = scalar.type
    if isinstance(scalar, pa.UnionScalar):
        member = data_type.type_codes.index(scalar.type_code)
        return {data_type.field(member).name: spell(scalar.value)}
    if isinstance(scalar, (pa.DictionaryScalar, pa.RunEndEncodedScalar)):
        return None if scalar.value is None else spell(scalar.value)
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar):
        return scalar.as_py() if data_type.extension_name == "arrow.bool8" else spell(scalar.value)
    if pa.types.is_integer(data_type):
        return str(scalar.as_py())
    if pa.types.is_decimal(data_type):
        sign, digits, _ = scalar.as_py().as_tuple()
        return f"{(-1) ** sign * int(''.join(map(str, digits)))}e-{data_type.scale}"
    if any(is_type(data_type) for is_type in JSON_TYPES):
        value = scalar.as_py()
        return "0x" + value.hex() if isinstance(value, bytes) else value
    return spell_temporal(scalar) or spell_nested(scalar)


# Types whose values are JSON values, or hexadecimal text for bytes.
JSON_TYPES = (
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


def spell_temporal(scalar: pa.Scalar) -> str | None:
    data_type = scalar.type
    if pa.types.is_date32(data_type):
        return f"date {scalar.value}"
    if pa.types.is_date64(data_type):
        return f"date {scalar.value // MILLISECONDS_PER_DAY}"
    if pa.types.is_time(data_type):
        return f"time {scalar.value}{data_type.unit}"
    if pa.types.is_duration(data_type):
        return f"duration {scalar.value}{data_type.unit}"
    if pa.types.is_timestamp(data_type):
        return f"timestamp {scalar.value}{data_type.unit}" + (f" {data_type.tz}" if data_type.tz else "")
    if pa.types.is_interval(data_type):
        months, days, nanoseconds = scalar.as_py()
        return f"interval {months} {days} {nanoseconds}"
    return None


def spell_nested(scalar: pa.Scalar) -> list | dict:
    data_type = scalar.type
    if pa.types.is_map(data_type):
        return [[spell(entry[0]), spell(entry[1])] for entry in scalar.values]
    if pa.types.is_struct(data_type):
        return {field.name: spell(scalar[i]) for i, field in enumerate(data_type)}
    return [spell(item) for item in scalar.values]


def write_files(folder: Path):
    """Writes the rows that run.py expects as a file and as a stream."""
    schema = pa.schema([
        ("i", pa.int32()), ("n", pa.int64()), ("f", pa.float64()), ("s", pa.string()),
        ("d", pa.dictionary(pa.int8(), pa.string())), ("l", pa.list_(pa.int32())), ("b", pa.bool_()),
    ])  # fmt: skip
    first = [
        [1, None],
        [2**53 + 1, None],
        [0.5, None],
        ["a", None],
        dictionary_array([0, None]),
        [[1, 2], None],
        [True, None],
    ]
    second = [[-3], [-1], [-1.5], ["ünï"], dictionary_array([1]), [[]], [False]]
    batches = [pa.record_batch(columns, schema=schema) for columns in (first, second)]
    for name, open_writer in (("pyarrow.arrow", pa.ipc.new_file), ("pyarrow.stream", pa.ipc.new_stream)):
        with open_writer(str(folder / name), schema) as writer:
            for batch in batches:
                writer.write(batch)


def dictionary_array(keys: list) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), ["x", "y"])


if __name__ == "__main__":
    {"read": read_folder, "write": write_files}[sys.argv[1]](Path(sys.argv[2]))
