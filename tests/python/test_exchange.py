"""Tests the exchange of Arrow data with other libraries by capsules. Addresses prove that nothing was copied."""

import gc
import io
import pathlib
import sys
import weakref

import datafusion
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import same, write_ipc

ROWS = 1000
# The sum of the column `number`.
SUM = 499_500.0


@pytest.fixture
def table():
    return pa.table(
        {
            "number": pa.array(np.arange(ROWS, dtype="float64")),
            "text": pa.array([f"row {i}" for i in range(ROWS)]),
            "view": pa.array([f"a row with the number {i}" for i in range(ROWS)], pa.string_view()),
            "key": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
            "flag": pa.array([True, None] * (ROWS // 2)),
            "list": pa.array([[i, None] for i in range(ROWS)]),
            "struct": pa.array([{"m": i} for i in range(ROWS)]),
        }
    )


@pytest.fixture
def path(tmp_path, table):
    return write_ipc(tmp_path / "x.arrow", table, max_rows=400)


def mapped_ranges(path) -> list[range]:
    """Returns the ranges of addresses at which this process has mapped ``path``."""
    ranges = []
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            start, end = line.split()[0].split("-")
            ranges.append(range(int(start, 16), int(end, 16)))
    return ranges


def mapped_range(path) -> range:
    """Returns the range of addresses of a file that this process has mapped once."""
    ranges = mapped_ranges(path)
    assert ranges, f"{path} is not mapped"
    return ranges[0]


def buffers(array) -> list[pa.Buffer]:
    """Returns all non-empty buffers of a pyarrow array, including buffers of children and dictionaries."""
    if isinstance(array, pa.ChunkedArray):
        return [buffer for chunk in array.chunks for buffer in buffers(chunk)]
    non_empty = [buffer for buffer in array.buffers() if buffer is not None and buffer.size]
    if isinstance(array, pa.DictionaryArray):
        non_empty += buffers(array.dictionary)
    return non_empty


def assert_in_mapping(array, path) -> None:
    addresses = mapped_range(path)
    assert all(buffer.address in addresses for buffer in buffers(array))


def assert_not_mapped(path) -> None:
    gc.collect()
    assert mapped_ranges(path) == []


# ---- Export ----


def test_export_to_pyarrow_copies_nothing(path, table):
    ds = aw.open(path)
    exported = pa.table(ds)
    assert exported == table
    assert exported.column("number").num_chunks == 3
    for column in exported.columns:
        assert buffers(column)
        assert_in_mapping(column, path)
    assert ds.footprint.copied == 0

    allocated = pa.total_allocated_bytes()
    more_exports = pa.table(ds), ds.to_arrow(), pa.chunked_array(ds["text"])
    assert pa.total_allocated_bytes() == allocated

    del ds, more_exports
    gc.collect()
    assert exported == table


def test_export_of_a_column_keeps_its_type(path, table):
    ds = aw.open(path)
    for name in table.column_names:
        column = ds[name].to_arrow()
        assert isinstance(column, pa.ChunkedArray)
        assert column == table[name]
        assert_in_mapping(column, path)
        assert pa.field(ds[name]) == table.schema.field(name)
    assert pa.schema(ds) == pa.schema(ds.schema) == table.schema


def test_export_of_rows_and_columns_copies_nothing(path, table):
    ds = aw.open(path)
    for part, expected in [
        (ds[350:850], table[350:850]),
        (ds.select(["text", "struct"])[399:401], table.select(["text", "struct"])[399:401]),
    ]:
        exported = pa.table(part)
        assert exported.to_pylist() == expected.to_pylist()
        exported.validate(full=True)
        for column in exported.columns:
            assert_in_mapping(column, path)


def test_export_to_numpy_copies_nothing(path):
    column = aw.open(path)["number"]
    for chunk in column.chunks():
        array = np.asarray(chunk)
        assert array.ctypes.data in mapped_range(path)
        assert array.ctypes.data == pa.chunked_array(chunk).chunk(0).buffers()[1].address
    assert column.map_reduce(lambda array: array.ctypes.data in mapped_range(path), lambda a, b: a and b)


def test_numpy_array_keeps_the_file_mapped(path):
    array = aw.open(path)["number"].chunks()[0].to_numpy()
    gc.collect()
    assert array[399] == 399.0
    assert mapped_ranges(path)
    del array
    assert_not_mapped(path)


def test_export_to_datafusion_copies_nothing(path):
    context = datafusion.SessionContext()
    ds = aw.open(path)
    context.from_arrow(ds, "t")
    assert context.sql("select sum(number) s, count(*) n from t").to_pydict() == {"s": [SUM], "n": [ROWS]}
    addresses = mapped_range(path)
    for batch in context.sql("select number, text from t").collect():
        _, numbers = batch.column(0).buffers()
        _, _, text = batch.column(1).buffers()
        assert numbers.address in addresses
        assert text.address in addresses


def test_datafusion_table_needs_another_package(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "arrowwood_datafusion", None)
    context = datafusion.SessionContext()
    with pytest.raises(ImportError, match="pip install arrowwood-datafusion; or hand over the rows: ctx.from_arrow"):
        context.register_table("t", aw.open(path))
    with pytest.raises(aw.Unsupported, match="from_arrow"):
        context.register_table("t", aw.from_arrow(pa.table({"n": [1]})))


def test_export_to_polars(path, table):
    ds = aw.open(path)
    frame = pl.DataFrame(ds)
    assert frame.equals(ds.to_polars())
    assert frame["number"].sum() == SUM
    assert frame["text"].to_list() == table["text"].to_pylist()
    numbers = pl.Series(ds["number"].chunks()[0]).to_numpy(allow_copy=False)
    assert numbers.ctypes.data in mapped_range(path)


def test_export_to_pandas(path, table):
    pd.testing.assert_frame_equal(aw.open(path).to_pandas(), table.to_pandas())


def test_export_to_duckdb(path):
    ds = aw.open(path)
    reader = pa.RecordBatchReader.from_stream(ds)  # noqa: F841, DuckDB finds it by its name
    query = duckdb.sql("select sum(number), min(text), count(distinct key) from reader")
    assert query.fetchall() == [(SUM, "row 0", 2)]


def test_unused_capsules_are_freed(path):
    ds = aw.open(path)
    for _ in range(100):
        ds.__arrow_c_stream__()
        ds.__arrow_c_schema__()
        ds["text"].__arrow_c_stream__()
    reference = weakref.ref(ds)
    del ds
    gc.collect()
    assert reference() is None
    assert_not_mapped(path)


# ---- Import ----


def test_from_arrow_takes_tables_batches_and_streams(path, table):
    batch = table.combine_chunks().to_batches()[0]
    sources = [
        table,
        table.to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        pl.DataFrame(table.drop_columns(["view"])),
        aw.open(path),
        pa.StructArray.from_arrays(batch.columns, names=table.column_names),
    ]
    for source in sources:
        ds = aw.from_arrow(source)
        assert len(ds) == ROWS
        assert ds[-1]["number"] == 999.0
        assert same(ds[7]["list"], [7, None])
        assert [row["text"] for row in ds.rows(3, 6)] == ["row 3", "row 4", "row 5"]


def test_from_arrow_copies_nothing(table):
    address = table["number"].chunk(0).buffers()[1].address
    assert aw.from_arrow(table)["number"].to_numpy(copy=False).ctypes.data == address


def test_from_arrow_names_the_column_of_an_array():
    ds = aw.from_arrow(pa.array([1, None, 3]))
    assert ds.columns == ["values"]
    assert ds["values"].to_pylist() == [1, None, 3]


def test_from_arrow_keeps_metadata_and_nullability():
    schema = pa.schema([pa.field("a", pa.int8(), False, {"k": "v"})], {"m": "n"})
    batch = pa.record_batch([pa.array([1], pa.int8())], schema)
    for source in [pa.Table.from_batches([batch]), batch]:
        field = aw.from_arrow(source).schema["a"]
        assert field.metadata == {"k": "v"}
        assert not field.nullable
    assert aw.from_arrow(pa.Table.from_batches([batch])).schema.metadata == {"m": "n"}


def test_from_arrow_keeps_the_metadata_of_a_table():
    table = pa.table({"x": pa.array([1])}, metadata={"k": "v"})
    assert aw.from_arrow(table).schema.metadata == {"k": "v"}


def test_from_arrow_keeps_the_rows_of_a_table_without_columns():
    table = pa.table({"n": [1, 2]}).select([])
    assert len(aw.from_arrow(table)) == table.num_rows == 2


def test_imported_buffers_live_as_long_as_the_dataset(table):
    data = pa.py_buffer(bytearray(table["number"].chunk(0).buffers()[1].to_pybytes()))
    array = pa.Array.from_buffers(pa.float64(), ROWS, [None, data])
    reference = weakref.ref(data)
    ds = aw.from_arrow(pa.table({"x": array}))
    del data, array
    gc.collect()
    assert ds["x"].sum() == SUM
    del ds
    gc.collect()
    assert reference() is None


def test_imported_data_can_be_exported(table):
    imported = aw.from_arrow(aw.from_arrow(table).to_arrow())
    assert imported.to_arrow() == table


def test_write_takes_a_frame_of_polars():
    sink = io.BytesIO()
    aw.write(pl.DataFrame({"a": [1, 2], "b": ["x", None]}), sink)
    assert aw.open(sink.getvalue()).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


class ArrayLike:
    """Exports an array by both protocols, like an array of nanoarrow."""

    def __arrow_c_array__(self, requested_schema=None):
        return pa.array([1, None, 3]).__arrow_c_array__()

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.chunked_array([[1, None], [3]]).__arrow_c_stream__()


def test_arrays_of_any_library_become_one_column():
    values = [1, None, 3]
    sources = [
        pa.array(values),
        pa.chunked_array([values[:1], values[1:]]),
        pl.Series("n", values),
        ArrayLike(),
    ]
    for source in sources:
        ds = aw.from_arrow(source)
        assert ds.columns == ["values"]
        assert ds["values"].to_pylist() == values
        assert aw.concat([source, source])["values"].to_pylist() == values * 2
        buffer = aw.Buffer()
        assert aw.write(source, buffer) is None
        assert aw.open(buffer)["values"].to_pylist() == values


def test_from_arrow_takes_an_empty_array():
    empty = aw.from_arrow(pa.chunked_array([], pa.int8()))
    assert (len(empty), empty["values"].dtype) == (0, "int8")


def test_from_arrow_takes_a_column():
    column = aw.from_arrow(pa.table({"x": [1, None, 3]}))["x"]
    assert aw.from_arrow(column)["values"].to_pylist() == [1, None, 3]


# ---- Exporters that are refused ----


class NumberExporter:
    def __arrow_c_stream__(self, requested_schema=None):
        return 7


class RaisingExporter:
    def __arrow_c_stream__(self, requested_schema=None):
        raise ZeroDivisionError


class SchemaInsteadOfStream:
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.schema([]).__arrow_c_schema__()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (7, TypeError),
        (None, TypeError),
        (NumberExporter(), TypeError),
        (RaisingExporter(), ZeroDivisionError),
        (SchemaInsteadOfStream(), ValueError),
    ],
)
def test_sources_that_export_no_stream_are_refused(source, error):
    with pytest.raises(error):
        aw.from_arrow(source)


def test_error_of_a_producer_is_reported():
    def failing_batches():
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("the well is dry")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), failing_batches())
    with pytest.raises(aw.Error, match="the well is dry"):
        aw.from_arrow(reader)


@pytest.mark.parametrize("as_array", [lambda array: array, lambda array: pa.chunked_array([array])])
def test_arrays_with_null_structs_are_refused(as_array):
    structs = pa.array([{"a": 1}, None])
    with pytest.raises(aw.InvalidArgument, match="flatten"):
        aw.from_arrow(as_array(structs))


# ---- Capsules that were consumed ----


def export_once(exporter, method):
    """Returns an object whose ``method`` returns the same capsules, which can be consumed once, at each call."""
    capsules = getattr(exporter, method)()
    # The protocol looks the method up in the class.
    exporter_class = type("ExportOnce", (), {method: lambda self, requested_schema=None: capsules})
    return exporter_class()


@pytest.mark.parametrize("method", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_consumed_data_is_refused(method):
    source = export_once(pa.record_batch({"x": [1]}), method)
    assert aw.from_arrow(source).to_pylist() == [{"x": 1}]
    for call in (aw.from_arrow, lambda data: aw.write(data, aw.Buffer()), lambda data: aw.concat([data])):
        with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
            call(source)


@pytest.mark.parametrize(
    ("array", "method"),
    [(pa.array([1]), "__arrow_c_array__"), (pa.chunked_array([[1]]), "__arrow_c_stream__")],
    ids=["array", "stream"],
)
def test_consumed_column_is_refused(array, method):
    source = export_once(array, method)
    aw.write({"x": source}, aw.Buffer())
    with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
        aw.write({"x": source}, aw.Buffer())


def test_consumed_schema_is_refused(tmp_path):
    schema = export_once(pa.schema({"x": pa.int64()}), "__arrow_c_schema__")
    aw.Builder(schema)
    for call in (lambda: aw.Builder(schema), lambda: aw.writer(tmp_path / "t", schema)):
        with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
            call()


def test_field_instead_of_a_schema_is_refused():
    with pytest.raises(aw.InvalidArgument, match="names and types of columns, got int64"):
        aw.Builder(pa.field("x", pa.int64()))
