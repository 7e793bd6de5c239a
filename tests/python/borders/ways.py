"""The borders of the matrix: how values come in and go out, each a function there and back."""

import contextlib
import csv
import io
import json
import os
import tempfile
from functools import cached_property
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
from .kinds import Foreign

ARROW_STREAM = "application/vnd.apache.arrow.stream"


class Refused(Exception):
    """That a border does not take a value, with the message."""


class Sample:
    """Values of a kind on their way over a border, and how they are compared."""

    # Of the tables that are compacted.
    segment_rows = 2

    def __init__(self, kind, name, place):
        self.kind, self.name, self.place = kind, name, place
        self.is_foreign = isinstance(kind, Foreign)

    @cached_property
    def table(self):
        return self.kind.table(self.name)

    def schema(self):
        """Of both columns, for whatever takes one."""
        return aw.from_arrow(self.table).schema

    def grown(self):
        """The schema of a table for the values: for runs and dictionaries that can't grow, that of their values."""
        if self.is_foreign:
            return self.schema()
        field = self.table.schema.field("x")
        return self.table.schema.set(1, field.with_type(values.grown(field.type)))

    def field(self):
        """The field of ``x`` in pyarrow."""
        return self.table.schema.field("x")

    def rows(self):
        """The plain values of ``x``."""
        if self.is_foreign:
            return [row["x"] for row in self.table.to_pylist()]
        if self.name == "least":
            raise Refused("Python: its classes hold no such time, and NumPy takes the number for null")
        return [values.plain(scalar) for scalar in values.scalars(self.table)]

    def frame(self, **options):
        """pyarrow's frame of pandas."""
        table = self.pyarrow()
        # Of no rows, pyarrow needs a chunk: without, it ends the process over list views.
        with contextlib.suppress(pa.ArrowNotImplementedError):
            table = table if table.num_rows else table.schema.empty_table()
        kind = table.schema.field("x").type
        if pa.types.is_run_end_encoded(kind) and not options:
            # pandas has no runs, and pyarrow ends the process over those of times with a zone.
            chunks = [pc.run_end_decode(chunk) for chunk in table["x"].chunks]
            table = table.set_column(1, "x", pa.chunked_array(chunks, kind.value_type))
        return peer("pandas", lambda: table.to_pandas(**options))

    def pyarrow(self):
        if self.is_foreign:
            raise Refused("pyarrow: KeyError: it has no such type")
        return self.table

    def same(self, found, is_text=False, schema=None):
        """That the Arrow data `found`, maybe read from text, are the values, of the same type or that of `schema`."""
        if self.is_foreign:
            found = aw.from_arrow(found)
            assert found.dtypes[1] == self.kind.name, found.dtypes
            return self.same_rows(tuple(x) if x is not None else x for x in found["x"].to_pylist())
        found = pa.table(found)
        found.validate(full=True)
        field = found.schema.field("x")
        expected = schema.field("x") if schema else self.field()
        if is_text and pa.types.is_dictionary(expected.type):
            # Text says nothing of an order: categories are numbered as they come.
            kind = expected.type
            expected = expected.with_type(pa.dictionary(kind.index_type, kind.value_type))
        assert field.equals(expected, check_metadata=True), f"{field} instead of {expected}"
        self.same_values(found)

    def same_values(self, found):
        found, wanted = ([values.plain(x) for x in values.scalars(table)] for table in (found, self.table))
        assert values.key(found) == values.key(wanted), f"{found} instead of {wanted}"

    def same_rows(self, found):
        found, wanted = values.key(list(found)), values.key(self.rows())
        assert found == wanted, f"{found} instead of {wanted}"

    def path(self, name="x.arrow"):
        return self.place.path(name)


# ---- Python ----


def rows_as_dicts(sample):
    """Nulls are left out of every other row."""
    with aw.writer(sample.path("t"), sample.schema()) as writer:
        rows = [{"n": n, "x": x} for n, x in enumerate(sample.rows())]
        writer.append([row if row["x"] is not None or row["n"] % 2 else {"n": row["n"]} for row in rows])
    sample.same(aw.open(sample.path("t")))


def rows_one_by_one(sample):
    builder = aw.Builder(sample.schema())
    for n, x in enumerate(sample.rows()):
        builder.append_row(n=n, x=x)
    sample.same(builder.finish())


def columns_as_lists(sample):
    builder = aw.Builder(sample.schema())
    rows = sample.rows()
    builder.append({"n": list(range(len(rows))), "x": rows})
    sample.same(builder.finish())


def appended_arrow(sample):
    with aw.writer(sample.path("t"), sample.grown()) as writer:
        writer.append(sample.table)
        writer.append(sample.table)
        writer.rollback()
        writer.append(sample.table)
    sample.same(aw.open(sample.path("t")), schema=sample.grown())


def built_arrow(sample):
    builder = aw.Builder(sample.schema())
    builder.append(sample.table)
    sample.same(builder.finish())


def compacted(sample):
    with aw.writer(sample.path("t"), sample.schema(), segment_rows=sample.segment_rows) as writer:
        writer.append(sample.table)
    aw.compact(sample.path("t"), rewrite=True)
    sample.same(aw.open(sample.path("t")))


def from_arrow(sample):
    sample.same(aw.from_arrow(sample.table))
    sample.same(aw.from_arrow(sample.table).collect())


def c_stream(sample):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return aw.from_arrow(sample.table).__arrow_c_stream__(requested_schema)

    sample.same(aw.from_arrow(Stream()))
    if not sample.is_foreign:
        sample.same(aw.from_arrow(pa.RecordBatchReader.from_stream(sample.table)))


def written_file(sample):
    aw.write(sample.table, sample.path())
    sample.same(aw.open(sample.path()) if sample.is_foreign else pa.ipc.open_file(sample.path()).read_all())


def written_stream(sample):
    for codec in (None, "lz4", "zstd"):
        aw.write(sample.table, sample.path("x.arrows"), compression=codec)
        found = aw.open(sample.path("x.arrows"))
        sample.same(found if sample.is_foreign else pa.ipc.open_stream(sample.path("x.arrows")).read_all())


def opened_file(sample):
    with pa.ipc.new_file(sample.path(), sample.pyarrow().schema) as sink:
        sink.write_table(sample.table)
    sample.same(aw.open(sample.path(), validate="full"))


def opened_stream(sample):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, sample.pyarrow().schema) as stream:
        stream.write_table(sample.table)
    sample.same(aw.open(sink.getvalue(), validate="full"))
    sample.same(aw.read_stream(io.BytesIO(sink.getvalue())).read_all())


def to_pylist(sample):
    rows = aw.from_arrow(sample.table)
    found = rows["x"].to_pylist()
    assert values.key([row["x"] for row in rows]) == values.key(found)
    sample.same_rows(found)


def inferred(sample):
    """Plain values, written without a schema, are the same values, of any type."""
    rows = sample.rows()
    aw.write({"n": list(range(len(rows))), "x": rows}, sample.path())
    found = aw.open(sample.path())["x"].to_pylist()
    if sample.kind.name.startswith("decimal"):
        # Their scale is that of the column.
        assert found == rows
    else:
        sample.same_rows(found)


# ---- other libraries of Python ----


def to_numpy(sample):
    array = aw.from_arrow(sample.table)["x"].to_numpy()
    found = [from_numpy(item) for item in array]
    wanted = sample.rows()
    if sample.kind.name == "arrow.fixed_shape_tensor" and array.ndim == 3:
        found = [from_numpy(item.ravel()) for item in array]
    if array.dtype.kind in "fmM":
        # These have one value for null and for what is no number.
        found, wanted = [[None if x != x else x for x in side] for side in (found, wanted)]
    if array.dtype.kind == "f" and pa.types.is_integer(getattr(sample.kind.type, "storage_type", sample.kind.type)):
        wanted = [None if x is None else float(x) for x in wanted]
    if array.dtype.kind in "mM":
        found, wanted = map(list, (array, [x if x is None else np.array([x], array.dtype)[0] for x in times(sample)]))
        found = [None if np.isnat(x) else x for x in found]
    assert values.key(found) == values.key(wanted), f"{found} instead of {wanted}"


def times(sample):
    return [scalar.value for scalar in values.scalars(sample.table)] if not sample.is_foreign else sample.rows()


def from_numpy(item):
    if isinstance(item, np.ndarray):
        return [from_numpy(part) for part in item.tolist()]
    return item.item() if isinstance(item, np.generic) and item.dtype.kind not in "mM" else item


def numpy_in(sample):
    """Numbers and booleans with a mask, times, and all else as objects."""
    rows, kind = sample.rows(), sample.kind.type
    is_plain = kind is not None and (pa.types.is_primitive(kind) and not pa.types.is_interval(kind))
    if is_plain and pa.types.is_temporal(kind) and not pa.types.is_time(kind):
        array = sample.table["x"].to_numpy()
    elif is_plain and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        mask = [x is None for x in rows]
        array = np.ma.array([0 if x is None else x for x in rows], kind.to_pandas_dtype(), mask=mask)
    else:
        array = np.empty(len(rows), object)
        array[:] = rows
    builder = aw.Builder(sample.schema())
    builder.append({"n": np.arange(len(array)), "x": array})
    sample.same(builder.finish())


def pandas_out(sample):
    import pandas

    wanted = sample.frame()
    pandas.testing.assert_frame_equal(aw.from_arrow(sample.table).to_pandas(), wanted)


def pandas_arrow_out(sample):
    import pandas

    wanted = sample.frame(types_mapper=pandas.ArrowDtype)
    found = aw.from_arrow(sample.table).to_pandas(arrow=True)
    assert list(found.dtypes) == list(wanted.dtypes)
    sample.same(pa.Table.from_pandas(found, sample.table.schema, preserve_index=False).replace_schema_metadata())


def pandas_in(sample):
    frame = sample.frame()
    wanted = peer("pandas", lambda: pa.Table.from_pandas(frame, preserve_index=False))
    found = pa.table(aw.from_arrow(frame))
    assert found.schema.equals(wanted.schema), f"{found.schema} instead of {wanted.schema}"
    equal(found, wanted)
    builder = aw.Builder(sample.schema())
    builder.append(frame)
    wanted = peer("pandas", lambda: pa.Table.from_pandas(frame, sample.table.schema, preserve_index=False))
    equal(pa.table(builder.finish()), wanted)


def polars_out(sample):
    import polars

    wanted = peer("polars", lambda: polars.DataFrame(sample.pyarrow()))
    found = aw.from_arrow(sample.table).to_polars()
    assert found.schema == wanted.schema, f"{found.schema} instead of {wanted.schema}"
    equal(found.to_arrow(), wanted.to_arrow())


def polars_in(sample):
    import polars

    frame = peer("polars", lambda: polars.DataFrame(sample.pyarrow()))
    peer("polars", lambda: pa.table(frame))
    equal(pa.table(aw.from_arrow(frame)), pa.table(frame))
    sink = io.BytesIO()
    aw.write(frame, sink)
    equal(pa.ipc.open_file(sink.getvalue()).read_all(), pa.table(frame))


def peer(name, call):
    """What the other library makes of it, if it can: no one can take more over a border than the other side does."""
    try:
        return call()
    except BaseException as problem:
        if isinstance(problem, KeyboardInterrupt | Refused):
            raise
        raise Refused(f"{name}: {type(problem).__name__}: {problem}") from None


def equal(found, wanted):
    assert found.schema.equals(wanted.schema), f"{found.schema} instead of {wanted.schema}"
    found, wanted = ([values.plain(scalar) for scalar in values.scalars(table)] for table in (found, wanted))
    assert values.key(found) == values.key(wanted), f"{found} instead of {wanted}"


# ---- text ----


def command(*arguments, given=None):
    """What the command prints, run in this process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as source:
        source.write(given or b"")
        source.seek(0)
        run_command(arguments, source, out)
        out.seek(0)
        return out.read().decode()


def run_command(arguments, source, out):
    """Runs the command in this process, between two files."""
    with tempfile.TemporaryFile() as told:
        kept = [os.dup(number) for number in range(3)]
        try:
            for number, file in enumerate((source, out, told)):
                os.dup2(file.fileno(), number)
            code = aw._arrowwood._run_cli(["arrowwood", *map(str, arguments)])
        finally:
            for number, file in enumerate(kept):
                os.dup2(file, number)
                os.close(file)
        told.seek(0)
        if code:
            raise Refused(told.read().decode().strip())


def printed(sample, format):
    aw.write(sample.table, sample.path())
    return command("cat", f"--{format}", sample.path())


def json_out(sample):
    found = [json.loads(line) for line in printed(sample, "json").splitlines()]
    wanted = [{"n": at, "x": values.as_json(x)} for at, x in enumerate(values.scalars(sample.pyarrow()))]
    assert found == wanted, f"{found} instead of {wanted}"


def json_in(sample):
    sample.same(aw.read_json(io.StringIO(values.json_lines(sample.pyarrow())), schema=sample.schema()), is_text=True)


def json_there_and_back(sample):
    sample.same(aw.read_json(io.StringIO(printed(sample, "json")), schema=sample.schema()), is_text=True)


def json_to_pyarrow(sample):
    schema = sample.pyarrow().schema
    text = printed(sample, "json").encode()
    if not text:
        return
    if "binary" in sample.kind.name:
        raise Refused("pyarrow takes text for bytes, and JSON has no bytes: they are written as hexadecimal digits")
    options = pa_json.ParseOptions(explicit_schema=schema)
    found = peer("pyarrow", lambda: pa_json.read_json(io.BytesIO(text), parse_options=options))
    peer("pyarrow", lambda: found.validate(full=True))
    if "not null" in sample.kind.name:
        raise Refused("pyarrow: it makes members nullable")
    sample.same(found)


def csv_out(sample):
    found = list(csv.reader(io.StringIO(printed(sample, "csv"), newline="")))
    wanted = list(csv.reader(io.StringIO(values.csv_text(sample.pyarrow()), newline="")))
    if "float" in sample.kind.name and not pa.types.is_nested(sample.kind.type):
        # Python has other rules for when a number gets an exponent.
        found, wanted = ([[*row[:-1], str(float(row[-1] or "nan"))] for row in side[1:]] for side in (found, wanted))
    assert found == wanted, f"{found} instead of {wanted}"


def csv_in(sample):
    sample.same(aw.read_csv(io.StringIO(values.csv_text(sample.pyarrow())), schema=sample.schema()), is_text=True)


def csv_there_and_back(sample):
    sample.same(aw.read_csv(io.StringIO(printed(sample, "csv"), newline=""), schema=sample.schema()), is_text=True)


def csv_to_pyarrow(sample):
    schema = sample.pyarrow().schema
    if "binary" in sample.kind.name:
        raise Refused("pyarrow takes text for bytes, and CSV has no bytes: they are written as hexadecimal digits")
    options = pa_csv.ConvertOptions(
        column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    text = printed(sample, "csv").encode()
    parse = pa_csv.ParseOptions(newlines_in_values=True)
    sample.same(
        peer("pyarrow", lambda: pa_csv.read_csv(io.BytesIO(text), parse_options=parse, convert_options=options))
    )


def csv_from_pyarrow(sample):
    """What pyarrow writes, of types that pyarrow itself reads again."""
    table = sample.pyarrow()
    sink = io.BytesIO()
    if "binary" in sample.kind.name:
        raise Refused("pyarrow writes bytes as they are, which are text or none; we read hexadecimal digits")
    if pa.types.is_timestamp(sample.kind.type) and sample.name in ("extreme", "least"):
        raise Refused("pyarrow writes years that have not four digits as years of 16 bits, or not at all")
    if pa.types.is_date(sample.kind.type) and sample.name == "extreme":
        raise Refused("pyarrow writes '<value out of range>' for some")
    peer("pyarrow", lambda: pa_csv.write_csv(table, sink))
    sample.same(aw.read_csv(io.BytesIO(sink.getvalue()), schema=sample.schema()), is_text=True)


def appended_json(sample):
    """The command ``append`` with lines of JSON."""
    aw.writer(sample.path("t"), sample.schema()).close()
    command("append", sample.path("t"), given=values.json_lines(sample.pyarrow()).encode())
    sample.same(aw.open(sample.path("t")))


# ---- the server ----


def served_table(sample, schema=None):
    name = sample.place.new_name()
    aw.writer(sample.place.served / name, schema or sample.schema()).close()
    return name


def ask(method, url, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(url, data=body, method=method, headers=headers), timeout=PATIENCE) as answer:
            return answer.read()
    except HTTPError as problem:
        raise Refused(f"{problem.code}: {problem.read().decode()}") from None


def post(sample, body, media_type, schema=None):
    name = served_table(sample, schema)
    url = f"{sample.place.server.url}/v1/tables/{name}/rows"
    ask("POST", url, body, content_type=media_type, Ack="visible")
    sample.same(aw.open(sample.place.served / name), schema=schema)
    return url


def http_json_in(sample):
    post(sample, values.json_lines(sample.pyarrow()).encode(), "application/x-ndjson")


def http_csv_in(sample):
    post(sample, values.csv_text(sample.pyarrow()).encode(), "text/csv")


def http_arrow_in(sample):
    sink = io.BytesIO()
    aw.write(sample.table, sink, format="stream")
    post(sample, sink.getvalue(), ARROW_STREAM, sample.grown())


def served_file(sample, format):
    name = sample.place.new_name() + ".arrow"
    aw.write(sample.table, sample.place.served / name)
    return ask("GET", f"{sample.place.server.url}/v1/tables/{name}/rows?format={format}")


def http_arrow_out(sample):
    body = served_file(sample, "arrow")
    sample.same(aw.open(body) if sample.is_foreign else pa.ipc.open_stream(body).read_all())


def http_json_out(sample):
    assert served_file(sample, "jsonl").decode() == printed(sample, "json")


def http_csv_out(sample):
    assert served_file(sample, "csv").decode() == printed(sample, "csv")


def connected(sample):
    """``aw.connect``: a table is created, appended to, and read."""
    with sample.place.server.connect() as db:
        table = db.create(sample.place.new_name(), sample.schema())
        with table.writer() as writer:
            writer.append(sample.table)
        sample.same(table.rows())


def flight_put(sample):
    import pyarrow.flight as flight

    name = served_table(sample, sample.grown())
    descriptor = flight.FlightDescriptor.for_path(name)
    table = sample.pyarrow()
    writer, answers = sample.place.flight.do_put(descriptor, table.schema)
    try:
        writer.write_table(table)
        writer.done_writing()
        if table.num_rows:
            json.loads(answers.read().to_pybytes())
    except (flight.FlightError, pa.ArrowException) as problem:
        raise Refused(str(problem).partition(". gRPC client debug")[0]) from None
    finally:
        try:
            writer.close()
        except (flight.FlightError, pa.ArrowException) as problem:
            raise Refused(str(problem).partition(". gRPC client debug")[0]) from None
    sample.same(aw.open(sample.place.served / name), schema=sample.grown())


def flight_get(sample):
    import pyarrow.flight as flight

    name = sample.place.new_name() + ".arrow"
    aw.write(sample.pyarrow(), sample.place.served / name)
    sample.same(sample.place.flight.do_get(flight.Ticket(name)).read_all())


# ---- other languages ----


def in_c(call):
    try:
        return call()
    except c.Failed as problem:
        raise Refused(str(problem)) from None


def c_import(sample):
    sample.same(in_c(lambda: c.taken_over(sample.pyarrow())))


def c_write(sample):
    """Files of pyarrow, which C opens and writes again."""
    opened_file(sample)
    for name, is_stream in (("y.arrow", 0), ("y.arrows", 1)):
        in_c(lambda: c.copied(sample.path(), sample.path(name), is_stream))
        new = pa.ipc.open_stream if is_stream else pa.ipc.open_file
        sample.same(new(sample.path(name)).read_all())


def c_append(sample):
    in_c(lambda: c.appended(sample.pyarrow(), sample.path("t"), sample.grown()))
    sample.same(aw.open(sample.path("t")), schema=sample.grown())


def c_columns(sample):
    """Columns of C values, of all chunks."""
    table = sample.pyarrow()
    columns = [c.column_of(*values.as_in_c(table[name].chunks)) for name in ("n", "x")]
    in_c(lambda: c.appended_columns(sample.grown(), sample.path("t"), table.num_rows, columns))
    sample.same(aw.open(sample.path("t")), schema=sample.grown())


LINE = {
    "float64": lambda x: repr(x),
    "int64": lambda x: f"{x}i",
    "uint64": lambda x: f"{x}u",
    "bool": lambda x: str(x).lower(),
    "utf8": lambda x: '"' + x.replace("\\", "\\\\").replace('"', '\\"') + '"',
}


def line_protocol(sample):
    """A field of its type, and ``dictionary<int32, utf8>`` as a tag."""
    spell = LINE.get(sample.kind.name)
    is_tag = sample.kind.name == "dictionary<int32, utf8>"
    if spell is None and not is_tag:
        raise Refused("line protocol has floats, integers, unsigned, booleans and text, and tags")
    name = sample.place.new_name()
    lines = []
    for at, x in enumerate(sample.rows()):
        tag = "" if not is_tag or x is None else f",x={x}"
        field = "" if is_tag or x is None else f",x={spell(x)}"
        lines.append(f"{name}{tag} n={at}i{field} {at}\n")
    schema = [("time", pa.timestamp("ns", "UTC"), False), *((field.name, field.type) for field in sample.table.schema)]
    aw.writer(sample.place.served / name, pa.schema([pa.field(*field) for field in schema])).close()
    ask("POST", f"{sample.place.server.url}/write", "".join(lines).encode(), Ack="visible")
    sample.same(aw.open(sample.place.served / name)[["n", "x"]])


# ---- the borders ----


class Border:
    """A column of the matrix: its heading, what it is called in full, and the function."""

    def __init__(self, group, name, run, about):
        self.group, self.name, self.run, self.about = group, name, run, about

    def __repr__(self):
        return self.name


BORDERS = [
    Border("Python", "dicts", rows_as_dicts, "rows as dicts are appended to a table"),
    Border("Python", "row", rows_one_by_one, "`append_row` of a `Builder`"),
    Border("Python", "lists", columns_as_lists, "columns as lists are appended to a `Builder`"),
    Border("Python", "inferred", inferred, "columns as lists, of which `aw.write` finds the type; values are compared"),
    Border("Python", "pylist", to_pylist, "`to_pylist`, and rows by iteration"),
    Border(
        "Arrow",
        "append",
        appended_arrow,
        "Arrow data is appended to a table; runs, and dictionaries that can't grow, to one of their values' type",
    ),
    Border("Arrow", "build", built_arrow, "Arrow data is appended to a `Builder`"),
    Border("Arrow", "compact", compacted, "Arrow data is appended to a table of several segments, which are compacted"),
    Border("Arrow", "from_arrow", from_arrow, "`aw.from_arrow` of pyarrow's table and `to_arrow`"),
    Border("Arrow", "C stream", c_stream, "`aw.from_arrow` of any object with `__arrow_c_stream__`"),
    Border("Arrow", "write", written_file, "`aw.write` of a file, which pyarrow reads"),
    Border("Arrow", "write stream", written_stream, "`aw.write` of streams, plain, lz4 and zstd, which pyarrow reads"),
    Border("Arrow", "open", opened_file, "a file of pyarrow's is opened"),
    Border("Arrow", "open stream", opened_stream, "a stream of pyarrow's is opened, and read from an object"),
    Border("Frames", "NumPy out", to_numpy, "`column.to_numpy()`"),
    Border("Frames", "NumPy in", numpy_in, "the array that pyarrow makes is appended to a `Builder`"),
    Border("Frames", "pandas out", pandas_out, "`to_pandas()`, compared with pyarrow's"),
    Border("Frames", "pandas arrow", pandas_arrow_out, "`to_pandas(arrow=True)`"),
    Border("Frames", "pandas in", pandas_in, "`from_arrow` of a frame, and a frame is appended to a `Builder`"),
    Border("Frames", "Polars out", polars_out, "`to_polars()`, compared with what Polars makes of pyarrow's table"),
    Border("Frames", "Polars in", polars_in, "`from_arrow` and `write` of a frame"),
    Border("Text", "JSON out", json_out, "`arrowwood cat --json`"),
    Border("Text", "JSON in", json_in, "`read_json(schema=)` of what Python's `json` writes"),
    Border("Text", "JSON back", json_there_and_back, "`read_json(schema=)` of what `cat --json` writes"),
    Border("Text", "JSON append", appended_json, "`arrowwood append` of JSON lines"),
    Border("Text", "JSON pyarrow", json_to_pyarrow, "pyarrow reads what `cat --json` writes"),
    Border("Text", "CSV out", csv_out, "`arrowwood cat --csv`"),
    Border("Text", "CSV in", csv_in, "`read_csv(schema=)` of what Python writes"),
    Border("Text", "CSV back", csv_there_and_back, "`read_csv(schema=)` of what `cat --csv` writes"),
    Border("Text", "CSV to pyarrow", csv_to_pyarrow, "pyarrow reads what `cat --csv` writes"),
    Border("Text", "CSV of pyarrow", csv_from_pyarrow, "`read_csv(schema=)` of what pyarrow writes"),
    Border("Server", "POST JSON", http_json_in, "JSON lines are posted"),
    Border("Server", "POST CSV", http_csv_in, "CSV is posted"),
    Border("Server", "POST Arrow", http_arrow_in, "an Arrow stream is posted, to a table as for `append`"),
    Border("Server", "GET Arrow", http_arrow_out, "a file is read as an Arrow stream"),
    Border("Server", "GET JSON", http_json_out, "a file is read as JSON lines: those of `cat --json`"),
    Border("Server", "GET CSV", http_csv_out, "a file is read as CSV: that of `cat --csv`"),
    Border("Server", "connect", connected, "`aw.connect`: a table is created, appended to, and read"),
    Border("Server", "DoPut", flight_put, "Arrow Flight's `DoPut` by pyarrow, to a table as for `append`"),
    Border("Server", "DoGet", flight_get, "Arrow Flight's `DoGet` by pyarrow"),
    Border("Server", "line protocol", line_protocol, "InfluxDB line protocol is posted"),
    Border("C", "C import", c_import, "`arrowwood_import_stream` and `arrowwood_dataset_stream`"),
    Border("C", "C write", c_write, "`arrowwood_open` of pyarrow's file and `arrowwood_write`, which pyarrow reads"),
    Border("C", "C append", c_append, "`arrowwood_writer_append_stream`, to a table as for `append`"),
    Border("C", "C columns", c_columns, "`arrowwood_writer_append_columns` of C's values, to a table as for `append`"),
    # These run in the tests of jvm/, with the files and refusals that samples.py writes.
    Border("Java, Clojure", "Java open", None, "pyarrow's file is opened, and its rows are read"),
    Border("Java, Clojure", "Java write", None, "`Dataset.write` of a file and a stream"),
    Border("Java, Clojure", "Java append", None, "a dataset is appended to a table as for `append`"),
    Border("Java, Clojure", "Java rows", None, "rows of Java's values are appended to a table"),
    Border("Java, Clojure", "Clojure open", None, "pyarrow's file is opened, and its rows are read"),
    Border("Java, Clojure", "Clojure write", None, "`write` of a file and a stream"),
    Border("Java, Clojure", "Clojure append", None, "a dataset is appended to a table as for `append`"),
    Border("Java, Clojure", "Clojure rows", None, "rows of Clojure's values are appended to a table"),
]


def is_here(border):
    """Whether what the border takes is built."""
    return border.run is not None and (border.group != "C" or c.LIBRARY.exists())
