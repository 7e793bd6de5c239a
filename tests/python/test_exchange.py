"""Arrow data in and out by capsules; zero copies are proved by addresses inside of the mapping."""

import gc
import io
import pathlib
import sys
import weakref

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import same, write_ipc


@pytest.fixture
def table():
    rows = 1000
    return pa.table(
        {
            "number": pa.array(np.arange(rows, dtype="float64")),
            "text": pa.array([f"row {i}" for i in range(rows)]),
            "view": pa.array([f"a row with the number {i}" for i in range(rows)], pa.string_view()),
            "key": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
            "flag": pa.array([True, None] * (rows // 2)),
            "list": pa.array([[i, None] for i in range(rows)]),
            "struct": pa.array([{"m": i} for i in range(rows)]),
        }
    )


@pytest.fixture
def path(tmp_path, table):
    return write_ipc(tmp_path / "x.arrow", table, max_rows=400)


def mapped_ranges(path):
    """The addresses at which this process has `path` mapped, once for each mapping."""
    lines = [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    bounds = [line.split()[0].split("-") for line in lines]
    return [range(int(start, 16), int(end, 16)) for start, end in bounds]


def mapped_range(path):
    """The addresses at which this process has `path` mapped, of one that is mapped once."""
    ranges = mapped_ranges(path)
    assert ranges, f"{path} is not mapped"
    return ranges[0]


def buffers(array):
    """Returns all non-empty buffers of a pyarrow array, including buffers of children and dictionaries."""
    if isinstance(array, pa.ChunkedArray):
        return [buffer for chunk in array.chunks for buffer in buffers(chunk)]
    own = [buffer for buffer in array.buffers() if buffer is not None and buffer.size]
    return own + (buffers(array.dictionary) if isinstance(array, pa.DictionaryArray) else [])


def test_pyarrow_gets_the_mapping_itself(path, table):
    ds = aw.open(path)
    got, inside = pa.table(ds), mapped_range(path)
    assert got == table and got.column("number").num_chunks == 3
    for column in got.columns:
        found = buffers(column)
        assert found and all(buffer.address in inside for buffer in found)
    assert ds.footprint.copied == 0
    before = pa.total_allocated_bytes()
    kept = pa.table(ds), ds.to_arrow(), pa.chunked_array(ds["text"])
    assert pa.total_allocated_bytes() == before
    del ds, kept
    gc.collect()
    assert got == table


def test_columns_go_out_as_their_own_type(path, table):
    ds = aw.open(path)
    for name in table.column_names:
        column = ds[name].to_arrow()
        assert isinstance(column, pa.ChunkedArray) and column == table[name]
        assert all(buffer.address in mapped_range(path) for buffer in buffers(column))
        assert pa.field(ds[name]) == table.schema.field(name)
    assert pa.schema(ds) == pa.schema(ds.schema) == table.schema


def test_slices_and_selections_go_out(path, table):
    ds = aw.open(path)
    for part, other in [
        (ds[350:850], table[350:850]),
        (ds.select(["text", "struct"])[399:401], table.select(["text", "struct"])[399:401]),
    ]:
        assert pa.table(part).to_pylist() == other.to_pylist()
        pa.table(part).validate(full=True)
        inside = mapped_range(path)
        assert all(buffer.address in inside for column in pa.table(part).columns for buffer in buffers(column))


def test_numpy_gets_the_mapping_itself(path):
    column = aw.open(path)["number"]
    for chunk in column.chunks():
        array = np.asarray(chunk)
        assert array.ctypes.data in mapped_range(path)
        assert array.ctypes.data == pa.chunked_array(chunk).chunk(0).buffers()[1].address
    assert column.map_reduce(lambda a: a.ctypes.data in mapped_range(path), lambda a, b: a and b)


def test_arrays_keep_the_mapping(path):
    array = aw.open(path)["number"].chunks()[0].to_numpy()
    gc.collect()
    assert array[399] == 399.0 and mapped_range(path)
    del array
    gc.collect()
    with pytest.raises(AssertionError):
        mapped_range(path)


def test_datafusion_gets_the_mapping_itself(path):
    import datafusion

    context = datafusion.SessionContext()
    ds = aw.open(path)
    context.from_arrow(ds, "t")
    assert context.sql("select sum(number) s, count(*) n from t").to_pydict() == {"s": [499500.0], "n": [1000]}
    batches = context.sql("select number, text from t").collect()
    inside = mapped_range(path)
    for batch in batches:
        assert batch.column(0).buffers()[1].address in inside and batch.column(1).buffers()[2].address in inside


def test_a_table_of_datafusion_needs_its_package(path, monkeypatch):
    import datafusion

    monkeypatch.setitem(sys.modules, "arrowwood_datafusion", None)
    with pytest.raises(ImportError, match="pip install arrowwood-datafusion; or hand over the rows: ctx.from_arrow"):
        datafusion.SessionContext().register_table("t", aw.open(path))
    with pytest.raises(aw.Unsupported, match="from_arrow"):
        datafusion.SessionContext().register_table("t", aw.from_arrow(pa.table({"n": [1]})))


def test_polars(path, table):
    ds = aw.open(path)
    frame = pl.DataFrame(ds)
    assert frame.equals(ds.to_polars()) and frame["number"].sum() == 499500.0
    assert frame["text"].to_list() == table["text"].to_pylist()
    number = pl.Series(ds["number"].chunks()[0]).to_numpy(allow_copy=False)
    assert number.ctypes.data in mapped_range(path)


def test_pandas(path, table):
    pd.testing.assert_frame_equal(aw.open(path).to_pandas(), table.to_pandas())


def test_duckdb(path):
    ds = aw.open(path)
    reader = pa.RecordBatchReader.from_stream(ds)  # noqa: F841, DuckDB finds it by its name
    assert duckdb.sql("select sum(number), min(text), count(distinct key) from reader").fetchall() == [
        (499500.0, "row 0", 2)
    ]


def test_from_arrow(path, table):
    inside = table["number"].chunk(0).buffers()[1].address
    sources = [
        table,
        table.to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        pl.DataFrame(table.drop_columns(["view"])),
        aw.open(path),
        pa.StructArray.from_arrays(table.combine_chunks().to_batches()[0].columns, names=table.column_names),
    ]
    for source in sources:
        ds = aw.from_arrow(source)
        assert len(ds) == 1000 and ds[-1]["number"] == 999.0 and same(ds[7]["list"], [7, None])
        assert [row["text"] for row in ds.rows(3, 6)] == ["row 3", "row 4", "row 5"]
    assert aw.from_arrow(table)["number"].to_numpy(copy=False).ctypes.data == inside
    one = aw.from_arrow(pa.array([1, None, 3]))
    assert one.columns == ["values"] and one["values"].to_pylist() == [1, None, 3]


def test_schemas_come_in_with_their_metadata():
    schema = pa.schema([pa.field("a", pa.int8(), False, {"k": "v"})], {"m": "n"})
    batch = pa.record_batch([pa.array([1], pa.int8())], schema)
    for source in [pa.Table.from_batches([batch]), batch]:
        ds = aw.from_arrow(source)
        assert ds.schema["a"].metadata == {"k": "v"} and not ds.schema["a"].nullable
    assert aw.from_arrow(pa.Table.from_batches([batch])).schema.metadata == {"m": "n"}


def test_imported_data_is_kept_and_let_go(table):
    data = pa.py_buffer(bytearray(table["number"].chunk(0).buffers()[1].to_pybytes()))
    array = pa.Array.from_buffers(pa.float64(), 1000, [None, data])
    alive = weakref.ref(data)
    ds = aw.from_arrow(pa.table({"x": array}))
    del data, array
    gc.collect()
    assert ds["x"].sum() == 499500.0
    del ds
    gc.collect()
    assert alive() is None


def test_streams_go_round(table):
    again = aw.from_arrow(aw.from_arrow(table).to_arrow())
    assert again.to_arrow() == table
    sink = io.BytesIO()
    aw.write(pl.DataFrame({"a": [1, 2], "b": ["x", None]}), sink)
    assert aw.open(sink.getvalue()).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_what_exports_nothing_or_nonsense():
    class Bad:
        def __arrow_c_stream__(self, requested_schema=None):
            return 7

    class Raises:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ZeroDivisionError

    class Wrong:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.schema([]).__arrow_c_schema__()

    class Twice:
        capsule = pa.table({"a": [1]}).__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    for source, error in [(7, TypeError), (None, TypeError), (Bad(), TypeError), (Raises(), ZeroDivisionError)]:
        with pytest.raises(error):
            aw.from_arrow(source)
    with pytest.raises(ValueError):
        aw.from_arrow(Wrong())
    assert len(aw.from_arrow(Twice())) == 1
    with pytest.raises(aw.Error):
        aw.from_arrow(Twice())


def test_a_failing_producer_is_heard():
    def batches():
        yield pa.record_batch({"a": [1]})
        raise RuntimeError("the well is dry")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    with pytest.raises(aw.Error, match="the well is dry"):
        aw.from_arrow(reader)


def test_an_unused_capsule_is_freed(path):
    ds = aw.open(path)
    for _ in range(100):
        ds.__arrow_c_stream__()
        ds.__arrow_c_schema__()
        ds["text"].__arrow_c_stream__()
    ref = weakref.ref(ds)
    del ds
    gc.collect()
    assert ref() is None
    with pytest.raises(AssertionError):
        mapped_range(path)


class Once:
    """Hands out the same capsules each time."""

    def __init__(self, exporter, kind):
        self.found = getattr(exporter, kind)()
        setattr(type(self), kind, lambda self, requested_schema=None: self.found)


@pytest.mark.parametrize("kind", ["__arrow_c_array__", "__arrow_c_stream__"])
def test_what_was_taken_before_says_so(kind):
    given = type("Given", (Once,), {})(pa.record_batch({"x": [1]}), kind)
    assert aw.from_arrow(given).to_pylist() == [{"x": 1}]
    for call in (aw.from_arrow, lambda data: aw.write(data, aw.Buffer()), lambda data: aw.concat([data])):
        with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
            call(given)
    given = type("Given", (Once,), {})(pa.array([1]) if kind == "__arrow_c_array__" else pa.chunked_array([[1]]), kind)
    aw.write({"x": given}, aw.Buffer())
    with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
        aw.write({"x": given}, aw.Buffer())


def test_a_schema_that_was_taken_before_says_so(tmp_path):
    given = type("Given", (Once,), {})(pa.schema({"x": pa.int64()}), "__arrow_c_schema__")
    aw.Builder(given)
    for call in (lambda: aw.Builder(given), lambda: aw.writer(tmp_path / "t", given)):
        with pytest.raises(aw.InvalidArgument, match="taken before; export it anew"):
            call()
    with pytest.raises(aw.InvalidArgument, match="names and types of columns, got int64"):
        aw.Builder(pa.field("x", pa.int64()))


def test_one_column_of_any_library():
    class Nanoarrow:
        """A nanoarrow array: both protocols, and no struct."""

        def __arrow_c_array__(self, requested_schema=None):
            return pa.array([1, None, 3]).__arrow_c_array__()

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([[1, None], [3]]).__arrow_c_stream__()

    values = [1, None, 3]
    for given in (pa.array(values), pa.chunked_array([values[:1], values[1:]]), pl.Series("n", values), Nanoarrow()):
        ds = aw.from_arrow(given)
        assert ds.columns == ["values"] and ds["values"].to_pylist() == values
        assert aw.concat([given, given])["values"].to_pylist() == values * 2
        assert aw.write(given, buffer := aw.Buffer()) is None and aw.open(buffer)["values"].to_pylist() == values
    empty = aw.from_arrow(pa.chunked_array([], pa.int8()))
    assert (len(empty), empty["values"].dtype) == (0, "int8")
    assert aw.from_arrow(aw.from_arrow(pa.table({"x": values}))["x"])["values"].to_pylist() == values


def test_metadata_comes_with_a_stream():
    table = pa.table({"x": pa.array([1])}, metadata={"k": "v"})
    assert aw.from_arrow(table).schema.metadata == {"k": "v"}
    rows = pa.table({"n": [1, 2]}).select([])
    assert len(aw.from_arrow(rows)) == rows.num_rows == 2


def test_rows_that_are_null_as_a_whole_are_refused():
    nulls = pa.array([{"a": 1}, None])
    for given in (nulls, pa.chunked_array([nulls])):
        with pytest.raises(aw.InvalidArgument, match="flatten"):
            aw.from_arrow(given)
