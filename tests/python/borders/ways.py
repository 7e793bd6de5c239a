"""Defines ``BORDERS``: the ways in which values enter and leave Arrowwood.

The function of a border takes a :class:`Sample`, passes its values over the border and back, and asserts that they are
the same. It raises :class:`Refused` if one side refuses them.
"""

import contextlib
import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

import arrowwood as aw
from waits import PATIENCE

from . import c, values
from .kinds import Case, ForeignCase, ForeignTable

ARROW_STREAM = "application/vnd.apache.arrow.stream"


class Refused(Exception):
    """Raised with a message when a border refuses values."""


class Sample:
    """A value set of a type on its way over a border."""

    # The rows of a segment in tables that are compacted.
    segment_rows = 2

    def __init__(self, case: Case, set_name: str, workspace):
        self.case, self.set_name, self.workspace = case, set_name, workspace
        self.is_foreign = isinstance(case, ForeignCase)

    @cached_property
    def table(self) -> pa.Table | ForeignTable:
        """The values as the column ``x``, beside row numbers in ``n``."""
        return self.case.table(self.set_name)

    def schema(self) -> aw.Schema:
        return aw.from_arrow(self.table).schema

    def table_schema(self):
        """Returns the schema of a growing table for the values, see :func:`values.table_type`."""
        if self.is_foreign:
            return self.schema()
        field = self.table.schema.field("x")
        return self.table.schema.set(1, field.with_type(values.table_type(field.type)))

    def field(self) -> pa.Field:
        """Returns pyarrow's field of ``x``."""
        return self.table.schema.field("x")

    def python_values(self) -> list:
        """Returns the values of ``x`` as Python objects."""
        if self.is_foreign:
            return [row["x"] for row in self.table.to_pylist()]
        if self.set_name == "least":
            raise Refused("Python: its classes hold no such time, and NumPy takes the number for null")
        return [values.to_python(scalar) for scalar in values.column_scalars(self.table)]

    def pyarrow_table(self) -> pa.Table:
        if self.is_foreign:
            raise Refused("pyarrow: KeyError: it has no such type")
        return self.table

    def pandas_frame(self, **options):
        """Returns the values as a DataFrame that pyarrow makes."""
        table = self.pyarrow_table()
        if not table.num_rows:
            # pyarrow crashes on list views without a chunk. It can't make an empty table of every type.
            with contextlib.suppress(pa.ArrowNotImplementedError):
                table = table.schema.empty_table()
        data_type = table.schema.field("x").type
        if pa.types.is_run_end_encoded(data_type) and not options:
            # pandas has no run-end encoding, and pyarrow crashes on run-end encoded times with a zone.
            chunks = [pc.run_end_decode(chunk) for chunk in table["x"].chunks]
            table = table.set_column(1, "x", pa.chunked_array(chunks, data_type.value_type))
        return call_library("pandas", lambda: table.to_pandas(**options))

    def assert_same(self, data, from_text: bool = False, schema=None) -> None:
        """Asserts that Arrow data has the same values, and the type of `schema`, or else of the sample.

        `from_text` ignores the order of dictionaries, which text does not preserve.
        """
        if self.is_foreign:
            dataset = aw.from_arrow(data)
            assert dataset.dtypes[1] == self.case.name, dataset.dtypes
            self.assert_same_values(tuple(x) if x is not None else x for x in dataset["x"].to_pylist())
            return
        table = pa.table(data)
        table.validate(full=True)
        actual = table.schema.field("x")
        expected = schema.field("x") if schema else self.field()
        if from_text and pa.types.is_dictionary(expected.type):
            unordered = pa.dictionary(expected.type.index_type, expected.type.value_type)
            expected = expected.with_type(unordered)
        assert actual.equals(expected, check_metadata=True), f"{actual} instead of {expected}"
        self.assert_same_table(table)

    def assert_same_table(self, table: pa.Table) -> None:
        assert_same_columns(table, self.table)

    def assert_same_values(self, python_values: Iterable) -> None:
        actual = values.comparable(list(python_values))
        expected = values.comparable(self.python_values())
        assert actual == expected, f"{actual} instead of {expected}"

    def path(self, name: str = "x.arrow") -> str:
        return self.workspace.path(name)


def assert_same_columns(actual: pa.Table, expected: pa.Table) -> None:
    """Asserts that ``x`` has the same values in two tables, of types that may differ."""
    actual = [values.to_python(scalar) for scalar in values.column_scalars(actual)]
    expected = [values.to_python(scalar) for scalar in values.column_scalars(expected)]
    assert values.comparable(actual) == values.comparable(expected), f"{actual} instead of {expected}"


def assert_same_tables(actual: pa.Table, expected: pa.Table) -> None:
    """Asserts that two tables have the same schema, and the same values in ``x``."""
    assert actual.schema.equals(expected.schema), f"{actual.schema} instead of {expected.schema}"
    assert_same_columns(actual, expected)


def call_library(name: str, call: Callable[[], Any]) -> Any:
    """Returns the result of another library, or raises :class:`Refused` if it fails.

    Arrowwood can't exchange values that the other library does not support.
    """
    try:
        return call()
    except (KeyboardInterrupt, Refused):
        raise
    # Panics of Polars derive from `BaseException`.
    except BaseException as problem:
        raise Refused(f"{name}: {type(problem).__name__}: {problem}") from None


# ---- Python ----


def append_dicts(sample):
    rows = []
    for number, value in enumerate(sample.python_values()):
        # Nulls are missing keys in every other row.
        is_left_out = value is None and number % 2 == 0
        rows.append({"n": number} if is_left_out else {"n": number, "x": value})
    with aw.writer(sample.path("t"), sample.schema()) as writer:
        writer.append(rows)
    sample.assert_same(aw.open(sample.path("t")))


def append_single_rows(sample):
    builder = aw.Builder(sample.schema())
    for number, value in enumerate(sample.python_values()):
        builder.append_row(n=number, x=value)
    sample.assert_same(builder.finish())


def append_lists(sample):
    builder = aw.Builder(sample.schema())
    rows = sample.python_values()
    builder.append({"n": list(range(len(rows))), "x": rows})
    sample.assert_same(builder.finish())


def infer_types(sample):
    """Writes Python values without a schema; they have to be the same, of any type."""
    expected = sample.python_values()
    aw.write({"n": list(range(len(expected))), "x": expected}, sample.path())
    actual = aw.open(sample.path())["x"].to_pylist()
    if sample.case.name.startswith("decimal"):
        # A column has one scale, so that the texts of decimals differ.
        assert actual == expected
    else:
        sample.assert_same_values(actual)


def read_pylist(sample):
    dataset = aw.from_arrow(sample.table)
    column = dataset["x"].to_pylist()
    assert values.comparable([row["x"] for row in dataset]) == values.comparable(column)
    sample.assert_same_values(column)


# ---- Arrow ----


def append_arrow(sample):
    with aw.writer(sample.path("t"), sample.table_schema()) as writer:
        writer.append(sample.table)
        writer.append(sample.table)
        writer.rollback()
        writer.append(sample.table)
    sample.assert_same(aw.open(sample.path("t")), schema=sample.table_schema())


def build_from_arrow(sample):
    builder = aw.Builder(sample.schema())
    builder.append(sample.table)
    sample.assert_same(builder.finish())


def compact_table(sample):
    with aw.writer(sample.path("t"), sample.schema(), segment_rows=sample.segment_rows) as writer:
        writer.append(sample.table)
    aw.compact(sample.path("t"), rewrite=True)
    sample.assert_same(aw.open(sample.path("t")))


def convert_from_arrow(sample):
    sample.assert_same(aw.from_arrow(sample.table))
    sample.assert_same(aw.from_arrow(sample.table).collect())


class StreamExporter:
    """An object that exports a C stream and nothing else."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __arrow_c_stream__(self, requested_schema=None):
        return self.dataset.__arrow_c_stream__(requested_schema)


def pass_c_stream(sample):
    sample.assert_same(aw.from_arrow(StreamExporter(aw.from_arrow(sample.table))))
    if not sample.is_foreign:
        sample.assert_same(aw.from_arrow(pa.RecordBatchReader.from_stream(sample.table)))


def write_file(sample):
    aw.write(sample.table, sample.path())
    if sample.is_foreign:
        sample.assert_same(aw.open(sample.path()))
    else:
        sample.assert_same(pa.ipc.open_file(sample.path()).read_all())


def write_streams(sample):
    path = sample.path("x.arrows")
    for codec in (None, "lz4", "zstd"):
        aw.write(sample.table, path, compression=codec)
        # Opened in any case: Arrowwood has to read its own streams, too.
        dataset = aw.open(path)
        sample.assert_same(dataset if sample.is_foreign else pa.ipc.open_stream(path).read_all())


def open_file(sample):
    with pa.ipc.new_file(sample.path(), sample.pyarrow_table().schema) as writer:
        writer.write_table(sample.table)
    sample.assert_same(aw.open(sample.path(), validate="full"))


def open_stream(sample):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, sample.pyarrow_table().schema) as writer:
        writer.write_table(sample.table)
    sample.assert_same(aw.open(sink.getvalue(), validate="full"))
    sample.assert_same(aw.read_stream(io.BytesIO(sink.getvalue())).read_all())


# ---- NumPy, pandas and Polars ----


def convert_to_numpy(sample):
    array = aw.from_arrow(sample.table)["x"].to_numpy()
    actual = [numpy_to_python(item) for item in array]
    expected = sample.python_values()
    if sample.case.name == "arrow.fixed_shape_tensor" and array.ndim == 3:
        actual = [numpy_to_python(item.ravel()) for item in array]
    if array.dtype.kind in "fmM":
        # Null and NaN or NaT are one value.
        actual = [None if x != x else x for x in actual]
        expected = [None if x != x else x for x in expected]
    if array.dtype.kind == "f" and pa.types.is_integer(getattr(sample.case.type, "storage_type", sample.case.type)):
        # Integers with nulls become floats.
        expected = [None if x is None else float(x) for x in expected]
    if array.dtype.kind in "mM":
        actual = [None if np.isnat(x) else x for x in array]
        expected = [x if x is None else np.array([x], array.dtype)[0] for x in time_ticks(sample)]
    assert values.comparable(actual) == values.comparable(expected), f"{actual} instead of {expected}"


def time_ticks(sample):
    """Returns times as integers of their unit."""
    if sample.is_foreign:
        return sample.python_values()
    return [scalar.value for scalar in values.column_scalars(sample.table)]


def numpy_to_python(item):
    if isinstance(item, np.ndarray):
        return [numpy_to_python(part) for part in item.tolist()]
    return item.item() if isinstance(item, np.generic) and item.dtype.kind not in "mM" else item


def append_numpy(sample):
    """Appends times as pyarrow's array, numbers and booleans as a masked array, and all other values as objects."""
    rows, data_type = sample.python_values(), sample.case.type
    is_primitive = data_type is not None and pa.types.is_primitive(data_type) and not pa.types.is_interval(data_type)
    if is_primitive and pa.types.is_temporal(data_type) and not pa.types.is_time(data_type):
        array = sample.table["x"].to_numpy()
    elif is_primitive and is_number_or_boolean(data_type):
        mask = [x is None for x in rows]
        array = np.ma.array([0 if x is None else x for x in rows], data_type.to_pandas_dtype(), mask=mask)
    else:
        array = np.empty(len(rows), object)
        array[:] = rows
    builder = aw.Builder(sample.schema())
    builder.append({"n": np.arange(len(array)), "x": array})
    sample.assert_same(builder.finish())


def is_number_or_boolean(data_type):
    return pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_boolean(data_type)


def convert_to_pandas(sample):
    import pandas

    expected = sample.pandas_frame()
    pandas.testing.assert_frame_equal(aw.from_arrow(sample.table).to_pandas(), expected)


def convert_to_arrow_backed_pandas(sample):
    import pandas

    expected = sample.pandas_frame(types_mapper=pandas.ArrowDtype)
    actual = aw.from_arrow(sample.table).to_pandas(arrow=True)
    assert list(actual.dtypes) == list(expected.dtypes)
    table = pa.Table.from_pandas(actual, sample.table.schema, preserve_index=False)
    sample.assert_same(table.replace_schema_metadata())


def convert_from_pandas(sample):
    frame = sample.pandas_frame()
    inferred = call_library("pandas", lambda: pa.Table.from_pandas(frame, preserve_index=False))
    assert_same_tables(pa.table(aw.from_arrow(frame)), inferred)
    builder = aw.Builder(sample.schema())
    builder.append(frame)
    typed = call_library("pandas", lambda: pa.Table.from_pandas(frame, sample.table.schema, preserve_index=False))
    assert_same_tables(pa.table(builder.finish()), typed)


def convert_to_polars(sample):
    import polars

    expected = call_library("polars", lambda: polars.DataFrame(sample.pyarrow_table()))
    actual = aw.from_arrow(sample.table).to_polars()
    assert actual.schema == expected.schema, f"{actual.schema} instead of {expected.schema}"
    assert_same_tables(actual.to_arrow(), expected.to_arrow())


def convert_from_polars(sample):
    import polars

    frame = call_library("polars", lambda: polars.DataFrame(sample.pyarrow_table()))
    expected = call_library("polars", lambda: pa.table(frame))
    assert_same_tables(pa.table(aw.from_arrow(frame)), expected)
    sink = io.BytesIO()
    aw.write(frame, sink)
    assert_same_tables(pa.ipc.open_file(sink.getvalue()).read_all(), expected)


# ---- text ----


def run_command(*arguments: object, stdin: bytes = b"") -> str:
    """Runs the command in this process, and returns its output as text."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        redirect_command(arguments, source, output)
        output.seek(0)
        return output.read().decode()


def redirect_command(arguments: Iterable[object], source: IO[bytes], output: IO[bytes]) -> None:
    """Runs the command in this process, with standard input and output redirected to two files.

    Raises :class:`Refused` with standard error if the command fails.
    """
    with tempfile.TemporaryFile() as errors:
        saved = [os.dup(descriptor) for descriptor in range(3)]
        try:
            for descriptor, file in enumerate((source, output, errors)):
                os.dup2(file.fileno(), descriptor)
            code = aw._arrowwood._run_cli(["arrowwood", *map(str, arguments)])
        finally:
            for descriptor, copy in enumerate(saved):
                os.dup2(copy, descriptor)
                os.close(copy)
        errors.seek(0)
        if code:
            raise Refused(errors.read().decode().strip())


def cat(sample: Sample, format: str) -> str:
    """Writes a file, and returns what ``arrowwood cat`` prints of it."""
    aw.write(sample.table, sample.path())
    return run_command("cat", f"--{format}", sample.path())


def json_out(sample):
    actual = [json.loads(line) for line in cat(sample, "json").splitlines()]
    scalars = values.column_scalars(sample.pyarrow_table())
    expected = [{"n": number, "x": values.to_json(scalar)} for number, scalar in enumerate(scalars)]
    assert actual == expected, f"{actual} instead of {expected}"


def json_in(sample):
    lines = io.StringIO(values.json_lines(sample.pyarrow_table()))
    sample.assert_same(aw.read_json(lines, schema=sample.schema()), from_text=True)


def json_round_trip(sample):
    lines = io.StringIO(cat(sample, "json"))
    sample.assert_same(aw.read_json(lines, schema=sample.schema()), from_text=True)


def json_to_pyarrow(sample):
    schema = sample.pyarrow_table().schema
    text = cat(sample, "json").encode()
    if not text:
        return
    if "binary" in sample.case.name:
        raise Refused("pyarrow reads text as bytes, but JSON has no bytes: Arrowwood writes hexadecimal digits")
    options = pa_json.ParseOptions(explicit_schema=schema)
    table = call_library("pyarrow", lambda: pa_json.read_json(io.BytesIO(text), parse_options=options))
    call_library("pyarrow", lambda: table.validate(full=True))
    if "not null" in sample.case.name:
        raise Refused("pyarrow: it makes members nullable")
    sample.assert_same(table)


def csv_out(sample):
    actual = list(csv.reader(io.StringIO(cat(sample, "csv"), newline="")))
    expected = list(csv.reader(io.StringIO(values.csv_text(sample.pyarrow_table()), newline="")))
    if "float" in sample.case.name and not pa.types.is_nested(sample.case.type):
        # Python prints an exponent for other numbers than Arrowwood.
        actual, expected = normalize_floats(actual), normalize_floats(expected)
    assert actual == expected, f"{actual} instead of {expected}"


def normalize_floats(lines):
    """Returns rows of CSV, without the header, with floats as Python prints them."""
    return [[*fields, str(float(last or "nan"))] for *fields, last in lines[1:]]


def csv_in(sample):
    text = io.StringIO(values.csv_text(sample.pyarrow_table()))
    sample.assert_same(aw.read_csv(text, schema=sample.schema()), from_text=True)


def csv_round_trip(sample):
    text = io.StringIO(cat(sample, "csv"), newline="")
    sample.assert_same(aw.read_csv(text, schema=sample.schema()), from_text=True)


def csv_to_pyarrow(sample):
    schema = sample.pyarrow_table().schema
    if "binary" in sample.case.name:
        raise Refused("pyarrow reads text as bytes, but CSV has no bytes: Arrowwood writes hexadecimal digits")
    convert_options = pa_csv.ConvertOptions(
        column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    parse_options = pa_csv.ParseOptions(newlines_in_values=True)
    text = io.BytesIO(cat(sample, "csv").encode())
    table = call_library(
        "pyarrow", lambda: pa_csv.read_csv(text, parse_options=parse_options, convert_options=convert_options)
    )
    sample.assert_same(table)


def csv_from_pyarrow(sample):
    """Reads CSV of pyarrow, of types that pyarrow itself can read back."""
    table = sample.pyarrow_table()
    if "binary" in sample.case.name:
        raise Refused("pyarrow writes bytes unchanged, which may not be text; Arrowwood reads hexadecimal digits")
    if pa.types.is_timestamp(sample.case.type) and sample.set_name in ("extreme", "least"):
        raise Refused("pyarrow writes years without four digits as 16-bit years, or not at all")
    if pa.types.is_date(sample.case.type) and sample.set_name == "extreme":
        raise Refused("pyarrow writes '<value out of range>' for some")
    sink = io.BytesIO()
    call_library("pyarrow", lambda: pa_csv.write_csv(table, sink))
    dataset = aw.read_csv(io.BytesIO(sink.getvalue()), schema=sample.schema())
    sample.assert_same(dataset, from_text=True)


def append_json(sample):
    """Appends lines of JSON with ``arrowwood append``."""
    aw.writer(sample.path("t"), sample.schema()).close()
    run_command("append", sample.path("t"), stdin=values.json_lines(sample.pyarrow_table()).encode())
    sample.assert_same(aw.open(sample.path("t")))


# ---- the server ----


def create_served_table(sample: Sample, schema=None) -> str:
    """Creates an empty table in the server's folder, and returns its name."""
    name = sample.workspace.new_name()
    aw.writer(sample.workspace.served / name, schema or sample.schema()).close()
    return name


def write_served_file(sample: Sample, data) -> str:
    """Writes an Arrow file to the server's folder, and returns its name."""
    name = sample.workspace.new_name() + ".arrow"
    aw.write(data, sample.workspace.served / name)
    return name


def send_request(method: str, url: str, body: bytes | None = None, headers: dict | None = None) -> bytes:
    """Returns the body of the response, or raises :class:`Refused` if its status is an error."""
    request = Request(url, data=body, method=method, headers=headers or {})
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            return response.read()
    except HTTPError as problem:
        raise Refused(f"{problem.code}: {problem.read().decode()}") from None


def post_rows(sample: Sample, body: bytes, media_type: str, schema=None) -> None:
    name = create_served_table(sample, schema)
    url = f"{sample.workspace.server.url}/v1/tables/{name}/rows"
    send_request("POST", url, body, {"Content-Type": media_type, "Ack": "visible"})
    sample.assert_same(aw.open(sample.workspace.served / name), schema=schema)


def post_json(sample):
    post_rows(sample, values.json_lines(sample.pyarrow_table()).encode(), "application/x-ndjson")


def post_csv(sample):
    post_rows(sample, values.csv_text(sample.pyarrow_table()).encode(), "text/csv")


def post_arrow(sample):
    sink = io.BytesIO()
    aw.write(sample.table, sink, format="stream")
    post_rows(sample, sink.getvalue(), ARROW_STREAM, sample.table_schema())


def get_rows(sample: Sample, format: str) -> bytes:
    name = write_served_file(sample, sample.table)
    return send_request("GET", f"{sample.workspace.server.url}/v1/tables/{name}/rows?format={format}")


def get_arrow(sample):
    body = get_rows(sample, "arrow")
    sample.assert_same(aw.open(body) if sample.is_foreign else pa.ipc.open_stream(body).read_all())


def get_json(sample):
    assert get_rows(sample, "jsonl").decode() == cat(sample, "json")


def get_csv(sample):
    assert get_rows(sample, "csv").decode() == cat(sample, "csv")


def write_through_client(sample):
    with sample.workspace.server.connect() as db:
        table = db.create(sample.workspace.new_name(), sample.schema())
        with table.writer() as writer:
            writer.append(sample.table)
        sample.assert_same(table.rows())


def flight_put(sample):
    import pyarrow.flight as flight

    name = create_served_table(sample, sample.table_schema())
    descriptor = flight.FlightDescriptor.for_path(name)
    table = sample.pyarrow_table()
    writer, answers = sample.workspace.flight.do_put(descriptor, table.schema)
    try:
        # Closing may raise the server's error as well.
        with contextlib.closing(writer):
            writer.write_table(table)
            writer.done_writing()
            if table.num_rows:
                json.loads(answers.read().to_pybytes())
    except (flight.FlightError, pa.ArrowException) as problem:
        raise Refused(str(problem).partition(". gRPC client debug")[0]) from None
    sample.assert_same(aw.open(sample.workspace.served / name), schema=sample.table_schema())


def flight_get(sample):
    import pyarrow.flight as flight

    name = write_served_file(sample, sample.pyarrow_table())
    sample.assert_same(sample.workspace.flight.do_get(flight.Ticket(name)).read_all())


LINE_PROTOCOL_FORMATS = {
    "float64": repr,
    "int64": lambda x: f"{x}i",
    "uint64": lambda x: f"{x}u",
    "bool": lambda x: str(x).lower(),
    "utf8": lambda x: '"' + x.replace("\\", "\\\\").replace('"', '\\"') + '"',
}


def post_line_protocol(sample):
    """Posts values as fields, or ``dictionary<int32, utf8>`` as a tag."""
    format_value = LINE_PROTOCOL_FORMATS.get(sample.case.name)
    is_tag = sample.case.name == "dictionary<int32, utf8>"
    if format_value is None and not is_tag:
        raise Refused("line protocol has only floats, integers, unsigned integers, booleans, text and tags")
    name = sample.workspace.new_name()
    lines = []
    for number, value in enumerate(sample.python_values()):
        tag = field = ""
        if value is not None and is_tag:
            tag = f",x={value}"
        elif value is not None:
            field = f",x={format_value(value)}"
        lines.append(f"{name}{tag} n={number}i{field} {number}\n")
    time = pa.field("time", pa.timestamp("ns", "UTC"), nullable=False)
    fields = [pa.field(field.name, field.type) for field in sample.table.schema]
    aw.writer(sample.workspace.served / name, pa.schema([time, *fields])).close()
    send_request("POST", f"{sample.workspace.server.url}/write", "".join(lines).encode(), {"Ack": "visible"})
    sample.assert_same(aw.open(sample.workspace.served / name)[["n", "x"]])


# ---- C ----


def call_c(call: Callable[[], Any]) -> Any:
    """Returns the result of the C library, or raises :class:`Refused` if it fails."""
    try:
        return call()
    except c.CallFailed as problem:
        raise Refused(str(problem)) from None


def c_import(sample):
    sample.assert_same(call_c(lambda: c.import_and_export(sample.pyarrow_table())))


def c_write(sample):
    """Opens a file of pyarrow in C, and writes it as a file and as a stream."""
    open_file(sample)
    call_c(lambda: c.copy_file(sample.path(), sample.path("y.arrow"), is_stream=False))
    sample.assert_same(pa.ipc.open_file(sample.path("y.arrow")).read_all())
    call_c(lambda: c.copy_file(sample.path(), sample.path("y.arrows"), is_stream=True))
    sample.assert_same(pa.ipc.open_stream(sample.path("y.arrows")).read_all())


def c_append(sample):
    call_c(lambda: c.append_stream(sample.pyarrow_table(), sample.path("t"), sample.table_schema()))
    sample.assert_same(aw.open(sample.path("t")), schema=sample.table_schema())


def c_append_columns(sample):
    table = sample.pyarrow_table()
    columns = [c.make_column(*values.to_c_values(table[name].chunks)) for name in ("n", "x")]
    call_c(lambda: c.append_columns(sample.table_schema(), sample.path("t"), table.num_rows, columns))
    sample.assert_same(aw.open(sample.path("t")), schema=sample.table_schema())


# ---- the borders ----


@dataclass(frozen=True, eq=False, repr=False)
class Border:
    """A column of the matrix: the heading of its group, its own heading, its function, and its description."""

    group: str
    name: str
    run: Callable[[Sample], None] | None
    about: str

    def __repr__(self):
        return self.name


BORDERS = [
    Border("Python", "dicts", append_dicts, "rows as dicts are appended to a table"),
    Border("Python", "row", append_single_rows, "`append_row` of a `Builder`"),
    Border("Python", "lists", append_lists, "columns as lists are appended to a `Builder`"),
    Border(
        "Python", "inferred", infer_types, "columns as lists, of which `aw.write` finds the type; values are compared"
    ),
    Border("Python", "pylist", read_pylist, "`to_pylist`, and rows by iteration"),
    Border(
        "Arrow",
        "append",
        append_arrow,
        "Arrow data is appended to a table; runs, and dictionaries that can't grow, to one of their values' type",
    ),
    Border("Arrow", "build", build_from_arrow, "Arrow data is appended to a `Builder`"),
    Border(
        "Arrow", "compact", compact_table, "Arrow data is appended to a table of several segments, which are compacted"
    ),
    Border("Arrow", "from_arrow", convert_from_arrow, "`aw.from_arrow` of pyarrow's table and `to_arrow`"),
    Border("Arrow", "C stream", pass_c_stream, "`aw.from_arrow` of any object with `__arrow_c_stream__`"),
    Border("Arrow", "write", write_file, "`aw.write` of a file, which pyarrow reads"),
    Border("Arrow", "write stream", write_streams, "`aw.write` of streams, plain, lz4 and zstd, which pyarrow reads"),
    Border("Arrow", "open", open_file, "a file of pyarrow's is opened"),
    Border("Arrow", "open stream", open_stream, "a stream of pyarrow's is opened, and read from an object"),
    Border("Frames", "NumPy out", convert_to_numpy, "`column.to_numpy()`"),
    Border("Frames", "NumPy in", append_numpy, "the array that pyarrow makes is appended to a `Builder`"),
    Border("Frames", "pandas out", convert_to_pandas, "`to_pandas()`, compared with pyarrow's"),
    Border("Frames", "pandas arrow", convert_to_arrow_backed_pandas, "`to_pandas(arrow=True)`"),
    Border(
        "Frames", "pandas in", convert_from_pandas, "`from_arrow` of a frame, and a frame is appended to a `Builder`"
    ),
    Border(
        "Frames", "Polars out", convert_to_polars, "`to_polars()`, compared with what Polars makes of pyarrow's table"
    ),
    Border("Frames", "Polars in", convert_from_polars, "`from_arrow` and `write` of a frame"),
    Border("Text", "JSON out", json_out, "`arrowwood cat --json`"),
    Border("Text", "JSON in", json_in, "`read_json(schema=)` of what Python's `json` writes"),
    Border("Text", "JSON back", json_round_trip, "`read_json(schema=)` of what `cat --json` writes"),
    Border("Text", "JSON append", append_json, "`arrowwood append` of JSON lines"),
    Border("Text", "JSON pyarrow", json_to_pyarrow, "pyarrow reads what `cat --json` writes"),
    Border("Text", "CSV out", csv_out, "`arrowwood cat --csv`"),
    Border("Text", "CSV in", csv_in, "`read_csv(schema=)` of what Python writes"),
    Border("Text", "CSV back", csv_round_trip, "`read_csv(schema=)` of what `cat --csv` writes"),
    Border("Text", "CSV to pyarrow", csv_to_pyarrow, "pyarrow reads what `cat --csv` writes"),
    Border("Text", "CSV of pyarrow", csv_from_pyarrow, "`read_csv(schema=)` of what pyarrow writes"),
    Border("Server", "POST JSON", post_json, "JSON lines are posted"),
    Border("Server", "POST CSV", post_csv, "CSV is posted"),
    Border("Server", "POST Arrow", post_arrow, "an Arrow stream is posted, to a table as for `append`"),
    Border("Server", "GET Arrow", get_arrow, "a file is read as an Arrow stream"),
    Border("Server", "GET JSON", get_json, "a file is read as JSON lines: those of `cat --json`"),
    Border("Server", "GET CSV", get_csv, "a file is read as CSV: that of `cat --csv`"),
    Border("Server", "connect", write_through_client, "`aw.connect`: a table is created, appended to, and read"),
    Border("Server", "DoPut", flight_put, "Arrow Flight's `DoPut` by pyarrow, to a table as for `append`"),
    Border("Server", "DoGet", flight_get, "Arrow Flight's `DoGet` by pyarrow"),
    Border("Server", "line protocol", post_line_protocol, "InfluxDB line protocol is posted"),
    Border("C", "C import", c_import, "`arrowwood_import_stream` and `arrowwood_dataset_stream`"),
    Border("C", "C write", c_write, "`arrowwood_open` of pyarrow's file and `arrowwood_write`, which pyarrow reads"),
    Border("C", "C append", c_append, "`arrowwood_writer_append_stream`, to a table as for `append`"),
    Border(
        "C",
        "C columns",
        c_append_columns,
        "`arrowwood_writer_append_columns` of C's values, to a table as for `append`",
    ),
    # Tested in bindings/jvm, with files and expected refusals from samples.py.
    Border("Java, Clojure", "Java open", None, "pyarrow's file is opened, and its rows are read"),
    Border("Java, Clojure", "Java write", None, "`Dataset.write` of a file and a stream"),
    Border("Java, Clojure", "Java append", None, "a dataset is appended to a table as for `append`"),
    Border("Java, Clojure", "Java rows", None, "rows of Java's values are appended to a table"),
    Border("Java, Clojure", "Clojure open", None, "pyarrow's file is opened, and its rows are read"),
    Border("Java, Clojure", "Clojure write", None, "`write` of a file and a stream"),
    Border("Java, Clojure", "Clojure append", None, "a dataset is appended to a table as for `append`"),
    Border("Java, Clojure", "Clojure rows", None, "rows of Clojure's values are appended to a table"),
]


def is_available(border: Border) -> bool:
    """Returns whether the border can run from Python, with a library that is built."""
    return border.run is not None and (border.group != "C" or c.LIBRARY.exists())
