"""Tests datasets in memory: builders, buffers, collected batches, data frames, arrays, and shared memory."""

import datetime as dt
import decimal
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import arrowwood as aw
from conftest import ipc_of

ROOT = pathlib.Path(__file__).parents[2]


def make_table(rows, batch_rows):
    table = pa.table({"n": np.arange(rows), "x": np.arange(rows) / 8, "text": [f"row {i}" for i in range(rows)]})
    return pa.Table.from_batches(table.to_batches(max_chunksize=batch_rows))


# ---- Builders ----

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string()), ("list", pa.list_(pa.int8()))])


def test_builder_appends_rows_columns_and_tables():
    builder = aw.Builder(SCHEMA)
    builder.append_row(n=1, text="one", list=[1])
    builder.append_row(n=2)
    builder.append({"n": [3, 4], "text": [None, "four"], "list": [[], [4, 4]]})
    builder.append([{"n": 5, "text": "five", "list": None}])
    builder.append(pa.table({"n": [6], "text": ["six"], "list": pa.array([[6]], pa.list_(pa.int8()))}))
    builder.append(pd.DataFrame({"n": [7], "text": ["seven"], "list": [None]}))
    assert len(builder) == 7
    assert list(builder.schema.names) == ["n", "text", "list"]

    ds = builder.finish()
    assert ds.num_batches == 1
    assert [ds.row(i)[0] for i in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    assert list(ds["text"]) == ["one", None, None, "four", "five", "six", "seven"]
    assert list(ds["list"]) == [[1], None, [], [4, 4], None, [6], None]


def test_failed_append_does_not_change_a_builder():
    builder = aw.Builder(SCHEMA)
    builder.append_row(n=1)
    with pytest.raises(aw.SchemaMismatch, match="n"):
        builder.append_row(text="no number")
    with pytest.raises(aw.ColumnNotFound, match="m"):
        builder.append_row(m=1)
    with pytest.raises(aw.InvalidArgument):
        builder.append({"n": [2, None], "text": ["a", "b"], "list": [None, None]})
    assert len(builder) == 1
    assert builder.finish().row(0) == (1, None, None)


def test_finished_builder_is_closed():
    builder = aw.Builder(SCHEMA)
    assert len(builder.finish()) == 0
    for use in (
        lambda: builder.append_row(n=1),
        lambda: builder.append([{"n": 1}]),
        builder.finish,
        lambda: len(builder),
    ):
        with pytest.raises(aw.Closed, match="finished"):
            use()
    assert "finished" in repr(builder)


def test_builder_names_a_column_of_an_unsupported_type():
    with pytest.raises(aw.Unsupported, match="column 'runs'"):
        aw.Builder(pa.schema([("runs", pa.run_end_encoded(pa.int32(), pa.int8()))]))


def test_threads_share_a_builder():
    builder = aw.Builder(pa.schema([("n", pa.int64())]))
    starts = (0, 1000, 2000)

    def append_numbers(start):
        for number in range(start, start + 500):
            builder.append_row(n=number)
            builder.append({"n": [number, number]})

    threads = [threading.Thread(target=append_numbers, args=(start,)) for start in starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    numbers = builder.finish()["n"].to_numpy()
    expected = np.repeat(np.concatenate([np.arange(start, start + 500) for start in starts]), 3)
    assert np.array_equal(np.sort(numbers), expected)


# ---- Buffers ----


def encode_stream(table):
    sink = io.BytesIO()
    aw.write(table, sink, format="stream")
    return sink.getvalue()


def test_stream_in_a_buffer_is_opened_in_place():
    buffer = aw.Buffer()
    table = make_table(rows=1000, batch_rows=100)
    aw.write(table, buffer, format="stream")
    assert bytes(buffer) == encode_stream(table)

    ds = aw.open(buffer)
    assert ds.to_arrow().equals(table)
    values = ds.head(1)["x"].to_numpy(copy=False)
    start = np.frombuffer(buffer, dtype="uint8").ctypes.data
    assert start < values.ctypes.data < start + len(buffer)


@pytest.mark.parametrize("format", ["file", "stream"])
def test_pyarrow_reads_what_was_appended_to_a_buffer(format):
    buffer = aw.Buffer()
    table = make_table(rows=10, batch_rows=5)
    first = ipc_of(table, format)
    buffer.write(first)
    aw.write(table, buffer, format=format)
    open_ipc = pa.ipc.open_stream if format == "stream" else pa.ipc.open_file
    assert open_ipc(memoryview(buffer)[len(first) :]).read_all().equals(table)


def test_buffer_takes_bytes_of_any_type():
    buffer = aw.Buffer()
    assert buffer.write(b"ab") == 2
    assert buffer.write(bytearray(b"c")) == 1
    assert buffer.write(np.arange(2, dtype="<u2")) == 4
    assert bytes(buffer) == b"abc\0\0\1\0"
    assert len(buffer) == 7
    buffer.flush()
    with pytest.raises(TypeError, match="str"):
        buffer.write("text")
    buffer.write(buffer)
    assert bytes(buffer) == 2 * b"abc\0\0\1\0"


def test_views_stay_valid_while_a_buffer_grows():
    buffer = aw.Buffer()
    buffer.write(b"begin")
    view = memoryview(buffer)
    assert view.readonly
    address = np.frombuffer(view, "uint8").ctypes.data
    for _ in range(64):
        buffer.write(bytes(1 << 16))
    assert bytes(view) == b"begin"
    assert len(buffer) == 5 + (64 << 16)
    assert np.frombuffer(buffer, "uint8").ctypes.data == address


def test_buffer_with_views_cannot_shrink():
    buffer = aw.Buffer()
    buffer.write(b"begin")
    view = memoryview(buffer)
    with pytest.raises(aw.Busy):
        buffer.truncate(1)
    with pytest.raises(aw.Busy):
        buffer.clear()
    view.release()
    buffer.truncate(3)
    assert bytes(buffer) == b"beg"


def test_truncate_and_clear_shrink_a_buffer():
    buffer = aw.Buffer()
    buffer.write(b"begin")
    with pytest.raises(aw.InvalidArgument):
        buffer.truncate(len(buffer) + 1)
    with pytest.raises(aw.InvalidArgument):
        buffer.truncate(-1)
    buffer.truncate(3)
    assert bytes(buffer) == b"beg"
    buffer.clear()
    assert len(buffer) == 0
    assert bytes(buffer) == b""


# The address space is limited, so that the buffer can't reserve enough of it to grow in place.
GROW_BUFFER_WITH_VIEW = """
import resource, arrowwood as aw
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (512 << 20), resource.RLIM_INFINITY))
buffer = aw.Buffer()
buffer.write(b"begin")
view = memoryview(buffer)
try:
    for _ in range(64):
        buffer.write(bytes(1 << 20))
except aw.Busy as error:
    assert "release" in str(error), error
    try:
        aw.write({"n": list(range(1 << 18))}, buffer, format="stream")
    except aw.Busy:
        assert bytes(view) == b"begin"
        view.release()
        buffer.write(bytes(1 << 20))
        assert bytes(memoryview(buffer)[:5]) == b"begin"
        print("busy")
"""


def test_buffer_with_views_does_not_move():
    result = subprocess.run([sys.executable, "-c", GROW_BUFFER_WITH_VIEW], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("busy\n", 0), result.stdout + result.stderr


def test_dataset_outlives_its_buffer():
    buffer = aw.Buffer()
    aw.write(make_table(rows=100, batch_rows=100), buffer, format="stream")
    ds = aw.open(buffer)
    del buffer
    # These would reuse the memory if it was freed.
    other_buffers = [aw.Buffer() for _ in range(4)]
    for other in other_buffers:
        other.write(b"\xff" * 100_000)
    assert list(ds["n"]) == list(range(100))


# ---- Collecting batches ----


def test_collect_makes_one_batch():
    table = make_table(rows=1000, batch_rows=7)
    ds = aw.open(ipc_of(table, "stream"))
    collected = ds.collect()
    assert (ds.num_batches, collected.num_batches) == (143, 1)
    assert collected.to_arrow().equals(table.combine_chunks())
    assert collected[10:20].collect().to_pylist() == ds[10:20].to_pylist()
    assert collected["x"].to_numpy(copy=False).flags.aligned


# Prints by how much `collect` increases the peak of memory, and the size of its result.
MEASURE_COLLECT = """
import sys
import arrowwood as aw

def read_status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

ds = aw.open(sys.argv[1])
for name in ds.columns:
    ds[name].sum()  # makes every page of the file resident
before = read_status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # resets the peak: see proc(5)
collected = ds.collect()
print(read_status("VmHWM") - before, collected.nbytes, collected.num_batches)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="Linux only")
@pytest.mark.parametrize("batch_rows", [131_072, 8192])
def test_collect_needs_memory_for_its_result_only(tmp_path, batch_rows):
    # Larger sizes can be chosen for a run by hand.
    size = int(os.environ.get("ARROWWOOD_COLLECT_MIB", "256")) << 20
    path = tmp_path / "large.arrows"
    numbers = np.arange(batch_rows, dtype="float64")
    batch = pa.record_batch({f"c{i}": numbers + i for i in range(16)})
    with pa.ipc.new_stream(str(path), batch.schema) as writer:
        for _ in range(size // batch.nbytes):
            writer.write_batch(batch)

    command = [sys.executable, "-c", MEASURE_COLLECT, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, collected_bytes, batches = map(int, result.stdout.split())
    assert (collected_bytes, batches) == (size, 1)
    assert peak <= 1.05 * collected_bytes


def make_dictionary_column(values):
    """Returns a dataset with one row for each value of a dictionary with keys of 8 bits."""
    keys = pa.array(range(len(values)), pa.int8())
    return aw.from_arrow(pa.table({"x": pa.DictionaryArray.from_arrays(keys, pa.array(values))}))


def nest_in_struct(ds):
    """Returns a dataset whose column `s` has the column `x` as its only member."""
    dictionary = ds["x"].to_arrow().chunk(0)
    return aw.from_arrow(pa.table({"s": pa.StructArray.from_arrays([dictionary], ["d"])}))


NESTED_VALUES = [lambda n: {"a": n}, lambda n: [n, None], lambda n: {"a": [{"b": n}]}]


@pytest.mark.parametrize("make_value", NESTED_VALUES, ids=["struct", "list", "both"])
def test_collect_merges_dictionaries_of_nested_values(make_value):
    # Each part has the same 100 values, at different keys.
    parts = [make_dictionary_column([make_value((n + shift) % 100) for n in range(100)]) for shift in (0, 1, 50)]
    ds = aw.concat(parts)
    collected = ds.collect()
    assert collected.num_batches == 1
    assert collected.to_pylist() == ds.to_pylist()
    assert collected["x"].dtype.startswith("dictionary<int8")

    nested_parts = [nest_in_struct(part) for part in parts]
    nested_rows = [row for part in nested_parts for row in part.to_pylist()]
    assert aw.concat(nested_parts).collect().to_pylist() == nested_rows


@pytest.mark.parametrize("make_value", NESTED_VALUES, ids=["struct", "list", "both"])
def test_collect_refuses_more_values_than_keys(make_value):
    first = make_dictionary_column([make_value(n) for n in range(100)])
    second = make_dictionary_column([make_value(n) for n in range(100, 200)])
    ds = aw.concat([first, second])
    with pytest.raises(aw.Unsupported, match="can't be made one"):
        ds.collect()
    # Fewer rows use fewer values.
    assert ds.take([0, 150]).to_pylist() == [{"x": make_value(0)}, {"x": make_value(150)}]


# ---- Data frames ----

UNITS = ("s", "ms", "us", "ns")
DAYS = [dt.datetime(2020, 1, day) for day in (1, 2, 3)]
INSTANTS = [day.replace(tzinfo=dt.UTC) for day in DAYS]

# Types that pyarrow converts to pandas, each with three values.
TYPES = {
    "bool": (pa.bool_(), [True, False, True]),
    "int8": (pa.int8(), [1, -2, 3]),
    "int64": (pa.int64(), [1, -(2**60), 3]),
    "uint64": (pa.uint64(), [1, 2**63 + 1, 3]),
    "float16": (pa.float16(), [np.float16(0.5), np.float16(1), np.float16(-2)]),
    "float32": (pa.float32(), [0.5, 1.5, float("inf")]),
    "float64": (pa.float64(), [0.5, -0.0, float("nan")]),
    "date32": (pa.date32(), [dt.date(2020, 1, 2), dt.date(1960, 1, 1), dt.date(2020, 1, 4)]),
    "date64": (pa.date64(), [dt.date(2020, 1, 2), dt.date(1960, 1, 1), dt.date(2020, 1, 4)]),
    "time32": (pa.time32("s"), [dt.time(1), dt.time(2), dt.time(3)]),
    "time64": (pa.time64("us"), [dt.time(1), dt.time(2), dt.time(3)]),
    **{f"timestamp[{unit}]": (pa.timestamp(unit), DAYS) for unit in UNITS},
    "timestamp[us, UTC]": (pa.timestamp("us", "UTC"), INSTANTS),
    "timestamp[ns, zone]": (pa.timestamp("ns", "Europe/Paris"), INSTANTS),
    **{f"duration[{unit}]": (pa.duration(unit), [dt.timedelta(day) for day in (1, 2, 3)]) for unit in UNITS},
    "decimal": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), decimal.Decimal("-2.00"), decimal.Decimal("0.01")]),
    "string": (pa.string(), ["a", "", "ünï"]),
    "large_string": (pa.large_string(), ["a", "", "ünï"]),
    "string_view": (pa.string_view(), ["a", "", "longer than twelve bytes"]),
    "binary": (pa.binary(), [b"a", b"", b"\0"]),
    "fixed": (pa.binary(2), [b"ab", b"cd", b"\0\0"]),
    "list": (pa.list_(pa.int32()), [[1], [], [2, 3]]),
    "fixed list": (pa.list_(pa.int32(), 2), [[1, 2], [3, 4], [5, 6]]),
    "struct": (pa.struct({"x": pa.int32()}), [{"x": 1}, {"x": None}, {"x": 3}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], [("b", 2)]]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    "null": (pa.null(), [None, None, None]),
}


def make_column(name, has_null, batches):
    """Returns `batches` chunks of the values of a type, the first of which may be null."""
    data_type, values = TYPES[name]
    if has_null:
        values = [None, *values[1:]]
    if pa.types.is_dictionary(data_type):
        # All batches share one dictionary.
        chunk = pa.array(values, data_type.value_type).dictionary_encode()
    else:
        chunk = pa.array(values, data_type)
    return pa.chunked_array([chunk] * batches)


def assert_same_frame(ds, table):
    """Asserts that a dataset becomes the same data frame as a table of pyarrow."""
    expected = table.to_pandas()
    frame = ds.to_pandas()
    assert_frame_equal(frame, expected, check_freq=False)
    assert list(frame.dtypes) == list(expected.dtypes)
    assert type(frame.index) is type(expected.index)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("has_null", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_frame_of_a_column_matches_pyarrow(name, has_null, batches):
    table = pa.table({name: make_column(name, has_null, batches)})
    assert_same_frame(aw.open(ipc_of(table, "stream")), table)
    assert_same_frame(aw.from_arrow(table), table)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_frame_of_several_columns_matches_pyarrow(data):
    names = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=6))
    batches = data.draw(st.integers(1, 5))
    columns = [make_column(name, data.draw(st.booleans()), batches) for name in names]
    table = pa.table(columns, names=[f"{number} {name}" for number, name in enumerate(names)])
    ds = aw.open(ipc_of(table, "stream"))
    assert_same_frame(ds, table)

    start, stop = sorted(data.draw(st.tuples(st.integers(0, 15), st.integers(0, 15))))
    # An empty slice has no batch, and so no dictionary.
    if len(ds[start:stop]) > 0 or "dictionary" not in names:
        assert_same_frame(ds[start:stop], table.slice(start, stop - start))


def test_columns_with_duplicate_names_keep_their_types():
    """pyarrow gives a column the extension type of another one of its name."""
    columns = [make_column(name, False, 2) for name in ("string", "int8", "timestamp[us, UTC]", "float64")]
    frame = aw.from_arrow(pa.table(columns, names=["a", "a", "a", "b"])).to_pandas()
    expected = pa.table(columns, names=list("wxyz")).to_pandas()
    expected.columns = ["a", "a", "a", "b"]
    assert_frame_equal(frame, expected)


INDICES = {
    "range": None,
    "other range": pd.RangeIndex(5, 11, 2),
    "named range": pd.RangeIndex(3, name="row"),
    "text": pd.Index(["x", "y", "z"], name="key"),
    "several": pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["n", None]),
    "times": pd.DatetimeIndex(["2020-01-01", "2020-01-02", "2020-01-05"]),
}


@pytest.mark.parametrize("index", INDICES)
def test_index_and_extension_types_of_pandas_are_restored(index):
    frame = pd.DataFrame({"n": [1, 2, 3], "x": [0.5, 1.5, 2.5]}, INDICES[index])
    frame["maybe"] = pd.array([1, None, 3], "Int64")
    frame["whole"] = pd.array([1, 2, 3], "Int32")
    table = pa.Table.from_pandas(frame)
    ds = aw.from_arrow(table)
    assert_frame_equal(ds.to_pandas(), frame)
    assert_same_frame(ds, table)
    assert_same_frame(ds[1:], table.slice(1))
    assert_same_frame(ds.select(["x", "n"]), table.select(["x", "n"]))


def test_column_numbers_and_attributes_of_pandas_are_restored():
    frame = pd.DataFrame([[1, 2], [3, 4]])
    assert_frame_equal(aw.from_arrow(pa.Table.from_pandas(frame)).to_pandas(), frame)
    frame.attrs["note"] = "kept"
    assert aw.from_arrow(pa.Table.from_pandas(frame)).to_pandas().attrs == frame.attrs


def test_writing_to_a_frame_does_not_change_the_file(tmp_path):
    path = tmp_path / "numbers.arrow"
    aw.write({"x": np.arange(100.0), "y": np.arange(100.0), "n": np.arange(100)}, path)
    before = path.read_bytes()
    for ds in (aw.open(path), aw.open(path).select(["x", "y"]), aw.concat([aw.open(path)] * 3)):
        frame = ds.to_pandas()
        frame.iloc[0, 0] = -1.0
        frame.loc[:, "y"] += 1
        assert (frame.iloc[0, 0], frame["y"].iloc[1]) == (-1.0, 2.0)
        array = ds.select(["x", "y"]).to_numpy()
        array[0, 0] = -1.0
    assert path.read_bytes() == before
    assert aw.open(path)["x"][0] == 0.0


def test_frame_of_one_type_is_one_block():
    frame = aw.from_arrow(pa.table({name: np.arange(3.0) for name in "abc"})).to_pandas()
    assert frame._mgr.is_single_block
    assert np.shares_memory(frame["a"].to_numpy(), frame["b"].to_numpy().base)


def test_frame_with_arrow_types_copies_nothing():
    table = make_table(rows=1000, batch_rows=1000)
    ds = aw.open(ipc_of(table, "stream"))
    frame = ds.to_pandas(arrow=True)
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
    chunk = frame["x"].array.__arrow_array__().chunk(0)
    assert chunk.buffers()[1].address == ds["x"].to_numpy(copy=False).ctypes.data
    assert_frame_equal(frame, table.to_pandas(types_mapper=pd.ArrowDtype))


@pytest.mark.parametrize("data_type", [pa.list_view(pa.int8()), pa.list_(pa.large_list_view(pa.string()))], ids=str)
def test_frame_of_list_views_without_rows(data_type):
    """pyarrow crashes when it converts a column of list views without chunks."""
    ds = aw.from_arrow(pa.table({"n": pa.chunked_array([], pa.int8()), "a": pa.chunked_array([], data_type)}))
    for frame in (ds.to_pandas(), ds.select("a").to_pandas(), ds.to_pandas(arrow=True)):
        assert len(frame) == 0
        assert frame.columns[-1] == "a"


def test_many_small_batches_are_merged_for_polars():
    pl = pytest.importorskip("polars")
    many_batches = make_table(rows=1000, batch_rows=10)
    frame = aw.open(ipc_of(many_batches, "stream")).to_polars()
    assert frame.n_chunks() == 1
    assert frame.equals(pl.DataFrame(many_batches))
    # Fewer batches are not copied.
    few_batches = make_table(rows=60, batch_rows=1)
    assert aw.open(ipc_of(few_batches, "stream")).to_polars().n_chunks() == 60


# ---- Two-dimensional arrays ----


def test_columns_of_one_type_become_one_array():
    table = pa.table({"x": np.arange(10.0), "y": np.arange(10.0) * 2})
    array = aw.open(ipc_of(table, "stream", max_rows=3)).to_numpy()
    assert (array.shape, array.dtype) == ((10, 2), "float64")
    assert array.flags.f_contiguous
    assert array.flags.writeable
    assert np.array_equal(array, table.to_pandas().to_numpy())


NUMBERS = [["int8", "int64"], ["int64", "float32"], ["uint64", "int8"], ["float16", "float32"]]
# Columns of bools with nulls become objects, which the test does not compare.
BOOLS = [["bool", "bool"], ["bool", "int8"]]


@pytest.mark.parametrize(
    ("names", "has_null"),
    [(names, has_null) for names in NUMBERS for has_null in (False, True)] + [(names, False) for names in BOOLS],
)
def test_columns_of_several_types_become_the_array_of_pandas(names, has_null):
    columns = [make_column(name, has_null, 2) for name in names]
    table = pa.table(columns, names=["a", "b"])
    expected = table.to_pandas().to_numpy()
    array = aw.from_arrow(table).to_numpy()
    assert array.dtype == expected.dtype
    assert np.array_equal(array.astype("f8"), expected.astype("f8"), equal_nan=True)


def test_columns_of_text_become_objects():
    table = pa.table({"n": [1, 2], "text": ["a", None], "when": pa.array([0, 1], pa.timestamp("ns"))})
    array = aw.from_arrow(table).to_numpy()
    assert (array.dtype, array.shape) == (object, (2, 3))
    assert array[0, 0] == 1
    assert array[1, 1] is None


def test_arrays_without_columns_or_rows():
    table = pa.table({"n": [1, 2]})
    assert aw.from_arrow(table.select([])).to_numpy().size == 0
    assert aw.from_arrow(table.slice(0, 0)).to_numpy().shape == (0, 1)


# ---- Shared memory ----


def test_shared_memory_example_copies_nothing(capsys):
    spec = importlib.util.spec_from_file_location("shared_memory", ROOT / "examples/shared_memory.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(rows=10_000)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("10,000 rows" in line and "in place" in line for line in lines), lines
