"""Rows gathered in memory: builders, buffers that grow, many batches as one, data frames; memory between processes."""

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


# ---- builders ----

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string()), ("list", pa.list_(pa.int8()))])


def test_a_builder_takes_what_a_writer_takes():
    builder = aw.Builder(SCHEMA)
    builder.append_row(n=1, text="one", list=[1])
    builder.append_row(n=2)
    builder.append({"n": [3, 4], "text": [None, "four"], "list": [[], [4, 4]]})
    builder.append([{"n": 5, "text": "five", "list": None}])
    builder.append(pa.table({"n": [6], "text": ["six"], "list": pa.array([[6]], pa.list_(pa.int8()))}))
    builder.append(pd.DataFrame({"n": [7], "text": ["seven"], "list": [None]}))
    assert (len(builder), list(builder.schema.names)) == (7, ["n", "text", "list"])
    ds = builder.finish()
    assert ds.num_batches == 1
    assert [row[0] for row in map(ds.row, range(7))] == [1, 2, 3, 4, 5, 6, 7]
    assert list(ds["text"]) == ["one", None, None, "four", "five", "six", "seven"]
    assert list(ds["list"]) == [[1], None, [], [4, 4], None, [6], None]


def test_a_refused_row_leaves_a_builder_as_it_was():
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


def test_a_finished_builder_is_closed():
    builder = aw.Builder(SCHEMA)
    assert len(builder.finish()) == 0
    uses = [lambda: builder.append_row(n=1), lambda: builder.append([{"n": 1}]), builder.finish, lambda: len(builder)]
    for use in uses:
        with pytest.raises(aw.Closed, match="finished"):
            use()
    assert "finished" in repr(builder)


def test_a_type_that_cannot_grow_is_named():
    with pytest.raises(aw.Unsupported, match="column 'runs'"):
        aw.Builder(pa.schema([("runs", pa.run_end_encoded(pa.int32(), pa.int8()))]))


def test_threads_share_a_builder():
    builder = aw.Builder(pa.schema([("n", pa.int64())]))

    def append(start):
        for number in range(start, start + 500):
            builder.append_row(n=number)
            builder.append({"n": [number, number]})

    threads = [threading.Thread(target=append, args=(start,)) for start in (0, 1000, 2000)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    values = builder.finish()["n"].to_numpy()
    expected = np.repeat(np.concatenate([np.arange(start, start + 500) for start in (0, 1000, 2000)]), 3)
    assert np.array_equal(np.sort(values), expected)


# ---- memory that grows ----


def table_of(rows, batch):
    table = pa.table({"n": np.arange(rows), "x": np.arange(rows) / 8, "text": [f"row {i}" for i in range(rows)]})
    return pa.Table.from_batches(table.to_batches(max_chunksize=batch))


def test_a_stream_in_a_buffer_is_opened_in_place():
    buffer = aw.Buffer()
    table = table_of(1000, 100)
    aw.write(table, buffer, format="stream")
    assert bytes(buffer) == stream_of(table)
    ds = aw.open(buffer)
    assert ds.to_arrow().equals(table)
    values = ds.head(1)["x"].to_numpy(copy=False)
    start = np.frombuffer(buffer, dtype="uint8").ctypes.data
    assert start < values.ctypes.data < start + len(buffer)


def stream_of(table):
    sink = io.BytesIO()
    aw.write(table, sink, format="stream")
    return sink.getvalue()


@pytest.mark.parametrize("format", ["file", "stream"])
def test_others_write_to_a_buffer_and_read_it(format):
    buffer = aw.Buffer()
    table = table_of(10, 5)
    buffer.write(ipc_of(table, format))
    aw.write(table, buffer, format=format)
    once = len(ipc_of(table, format))
    opened = pa.ipc.open_stream if format == "stream" else pa.ipc.open_file
    assert opened(memoryview(buffer)[once:]).read_all().equals(table)


def test_writes_are_counted_and_of_any_bytes():
    buffer = aw.Buffer()
    assert [buffer.write(b"ab"), buffer.write(bytearray(b"c")), buffer.write(np.arange(2, dtype="<u2"))] == [2, 1, 4]
    assert (bytes(buffer), len(buffer)) == (b"abc\0\0\1\0", 7)
    buffer.flush()
    with pytest.raises(TypeError, match="str"):
        buffer.write("text")
    buffer.write(buffer)
    assert bytes(buffer) == 2 * b"abc\0\0\1\0"


def test_views_stay_while_a_buffer_grows():
    buffer = aw.Buffer()
    buffer.write(b"begin")
    view = memoryview(buffer)
    assert view.readonly
    address = np.frombuffer(view, "uint8").ctypes.data
    for _ in range(64):
        buffer.write(bytes(1 << 16))
    assert (bytes(view), len(buffer)) == (b"begin", 5 + (64 << 16))
    assert np.frombuffer(buffer, "uint8").ctypes.data == address
    with pytest.raises(aw.Busy):
        buffer.truncate(1)
    with pytest.raises(aw.Busy):
        buffer.clear()
    view.release()
    with pytest.raises(aw.InvalidArgument):
        buffer.truncate(len(buffer) + 1)
    with pytest.raises(aw.InvalidArgument):
        buffer.truncate(-1)
    buffer.truncate(3)
    assert bytes(buffer) == b"beg"
    buffer.clear()
    assert (len(buffer), bytes(buffer)) == (0, b"")


def test_a_buffer_that_would_have_to_move_stays_where_its_views_are():
    """Addresses are limited, so the buffer cannot reserve many, and would have to move with views of it in use."""
    import subprocess
    import sys

    script = """
import resource, arrowwood as aw
in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (512 << 20), resource.RLIM_INFINITY))
buffer = aw.Buffer()
buffer.write(b"begin")
view = memoryview(buffer)
try:
    for _ in range(64):
        buffer.write(bytes(1 << 20))
except aw.Busy as problem:
    assert "release" in str(problem), problem
    before = len(buffer)
    try:
        aw.write({"n": list(range(1 << 18))}, buffer, format="stream")
    except aw.Busy:
        assert bytes(view) == b"begin"
        view.release()
        buffer.write(bytes(1 << 20))
        assert bytes(memoryview(buffer)[:5]) == b"begin"
        print("busy")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("busy\n", 0), done.stdout + done.stderr


def test_a_dataset_outlives_its_buffer():
    buffer = aw.Buffer()
    aw.write(table_of(100, 100), buffer, format="stream")
    ds = aw.open(buffer)
    del buffer
    others = [aw.Buffer() for _ in range(4)]
    [other.write(b"\xff" * 100_000) for other in others]
    assert list(ds["n"]) == list(range(100))


# ---- many batches as one ----


def test_collect_makes_one_batch():
    table = table_of(1000, 7)
    ds = aw.open(ipc_of(table, "stream"))
    one = ds.collect()
    assert (ds.num_batches, one.num_batches) == (143, 1)
    assert one.to_arrow().equals(table.combine_chunks())
    assert one[10:20].collect().to_pylist() == ds[10:20].to_pylist()
    assert one["x"].to_numpy(copy=False).flags.aligned


# Every type that pyarrow makes a data frame of, with values and nulls in it.
UTC = dt.UTC
UNITS = ("s", "ms", "us", "ns")
DAYS = [dt.datetime(2020, 1, day) for day in (1, 2, 3)]
INSTANTS = [day.replace(tzinfo=UTC) for day in DAYS]
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


def column(name, nulls, batches):
    data_type, values = TYPES[name]
    values = [None, *values[1:]] if nulls else values
    plain = pa.array(values, data_type.value_type if name == "dictionary" else data_type)
    # One dictionary for all batches.
    plain = plain.dictionary_encode() if name == "dictionary" else plain
    return pa.chunked_array([plain] * batches)


def table_with(names, nulls, batches):
    return pa.table([column(name, nulls, batches) for name in names], names=names)


def same_frame(ds, table):
    expected = table.to_pandas()
    frame = ds.to_pandas()
    assert_frame_equal(frame, expected, check_freq=False)
    assert list(frame.dtypes) == list(expected.dtypes)
    assert type(frame.index) is type(expected.index)
    return frame


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_frames_are_those_of_pyarrow(name, nulls, batches):
    table = table_with([name], nulls, batches)
    same_frame(aw.open(ipc_of(table, "stream")), table)
    same_frame(aw.from_arrow(table), table)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_frames_of_several_columns_are_those_of_pyarrow(data):
    names = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=6))
    batches = data.draw(st.integers(1, 5))
    columns = [column(name, data.draw(st.booleans()), batches) for name in names]
    table = pa.table(columns, names=[f"{number} {name}" for number, name in enumerate(names)])
    ds = aw.open(ipc_of(table, "stream"))
    same_frame(ds, table)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 15), st.integers(0, 15))))
    # No rows are of no batch, so there is no dictionary either.
    if len(ds[start:stop]) > 0 or "dictionary" not in names:
        same_frame(ds[start:stop], table.slice(start, stop - start))


def test_columns_of_one_name_keep_their_types():
    """pyarrow gives a column the extension type of another one of its name."""
    columns = [column(name, False, 2) for name in ("string", "int8", "timestamp[us, UTC]", "float64")]
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
def test_what_pandas_has_noted_comes_back(index):
    frame = pd.DataFrame({"n": [1, 2, 3], "x": [0.5, 1.5, 2.5]}, INDICES[index])
    frame["maybe"] = pd.array([1, None, 3], "Int64")
    frame["whole"] = pd.array([1, 2, 3], "Int32")
    table = pa.Table.from_pandas(frame)
    ds = aw.from_arrow(table)
    assert_frame_equal(ds.to_pandas(), frame)
    same_frame(ds, table)
    same_frame(ds[1:], table.slice(1))
    same_frame(ds.select(["x", "n"]), table.select(["x", "n"]))


def test_what_pandas_has_noted_of_the_frame_and_its_columns_comes_back():
    frame = pd.DataFrame([[1, 2], [3, 4]])
    assert_frame_equal(aw.from_arrow(pa.Table.from_pandas(frame)).to_pandas(), frame)
    frame.attrs["note"] = "kept"
    assert aw.from_arrow(pa.Table.from_pandas(frame)).to_pandas().attrs == frame.attrs


def test_a_frame_can_be_written_to_and_the_file_stays(tmp_path):
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


def test_a_frame_of_one_type_is_one_block():
    frame = aw.from_arrow(pa.table({name: np.arange(3.0) for name in "abc"})).to_pandas()
    assert frame._mgr.is_single_block
    assert np.shares_memory(frame["a"].to_numpy(), frame["b"].to_numpy().base)


def test_arrow_columns_are_not_copied():
    table = table_of(1000, 1000)
    ds = aw.open(ipc_of(table, "stream"))
    frame = ds.to_pandas(arrow=True)
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
    chunk = frame["x"].array.__arrow_array__().chunk(0)
    assert chunk.buffers()[1].address == ds["x"].to_numpy(copy=False).ctypes.data
    assert_frame_equal(frame, table.to_pandas(types_mapper=pd.ArrowDtype))


def test_many_small_batches_are_gathered_for_polars():
    pl = pytest.importorskip("polars")
    table = table_of(1000, 10)
    frame = aw.open(ipc_of(table, "stream")).to_polars()
    assert (frame.n_chunks(), aw.open(ipc_of(table_of(60, 1), "stream")).to_polars().n_chunks()) == (1, 60)
    assert frame.equals(pl.DataFrame(table))


# ---- arrays of two dimensions ----


def test_numbers_of_one_type_are_one_array():
    table = pa.table({"x": np.arange(10.0), "y": np.arange(10.0) * 2})
    array = aw.open(ipc_of(table, "stream", max_rows=3)).to_numpy()
    assert (array.shape, array.dtype) == ((10, 2), "float64")
    assert array.flags.f_contiguous and array.flags.writeable
    assert np.array_equal(array, table.to_pandas().to_numpy())


MIXED = [["int8", "int64"], ["int64", "float32"], ["uint64", "int8"], ["float16", "float32"]]
# With nulls these are objects.
MIXED_BOOLS = [(["bool", "bool"], False), (["bool", "int8"], False)]


@pytest.mark.parametrize(("names", "nulls"), [(names, nulls) for names in MIXED for nulls in (0, 1)] + MIXED_BOOLS)
def test_mixed_columns_are_arrays_as_pandas_has_them(names, nulls):
    columns = [column(name, nulls, 2) for name in names]
    table = pa.table(columns, names=["a", "b"])
    expected = table.to_pandas().to_numpy()
    array = aw.from_arrow(table).to_numpy()
    assert array.dtype == expected.dtype
    assert all(map(np.array_equal, array.astype("f8").T, expected.astype("f8").T, [True, True]))


@pytest.mark.parametrize("kind", [pa.list_view(pa.int8()), pa.list_(pa.large_list_view(pa.string()))], ids=str)
def test_views_of_lists_without_rows_become_a_data_frame(kind):
    """pyarrow ends the process where there is no batch of them."""
    ds = aw.from_arrow(pa.table({"n": pa.chunked_array([], pa.int8()), "a": pa.chunked_array([], kind)}))
    for frame in (ds.to_pandas(), ds.select("a").to_pandas(), ds.to_pandas(arrow=True)):
        assert len(frame) == 0 and frame.columns[-1] == "a"


def test_arrays_of_objects_and_of_nothing():
    table = pa.table({"n": [1, 2], "text": ["a", None], "when": pa.array([0, 1], pa.timestamp("ns"))})
    array = aw.from_arrow(table).to_numpy()
    assert (array.dtype, array[0, 0], array[1, 1], array.shape) == (object, 1, None, (2, 3))
    assert aw.from_arrow(table.select([])).to_numpy().size == 0
    assert aw.from_arrow(table.slice(0, 0).select(["n"])).to_numpy().shape == (0, 1)


# ---- memory of several processes ----


def test_shared_memory_example(capsys):
    spec = importlib.util.spec_from_file_location("shared_memory", ROOT / "examples/shared_memory.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(rows=10_000)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("10,000 rows" in line and "in place" in line for line in lines), lines


PEAK = """
import sys
import arrowwood as aw

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

ds = aw.open(sys.argv[1])
for name in ds.columns:
    ds[name].sum()                          # every page of the file is resident from here on
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as f:
    f.write("5")                            # the peak begins anew (proc(5))
whole = ds.collect()
print(status("VmHWM") - before, whole.nbytes, whole.num_batches)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="Linux only")
@pytest.mark.parametrize("rows", [131_072, 8192])
def test_collect_takes_no_more_memory_than_what_it_makes(tmp_path, rows):
    # `ARROWWOOD_COLLECT_MIB=1024` is the size that was asked for.
    size = int(os.environ.get("ARROWWOOD_COLLECT_MIB", "256")) << 20
    path = tmp_path / "large.arrows"
    numbers = np.arange(rows, dtype="float64")
    batch = pa.record_batch({f"c{i}": numbers + i for i in range(16)})
    with pa.ipc.new_stream(str(path), batch.schema) as writer:
        for _ in range(size // batch.nbytes):
            writer.write_batch(batch)
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    peak, output, batches = map(int, done.stdout.split())
    assert (output, batches) == (size, 1)
    assert peak <= 1.05 * output


def nested_keys(values, keys=None):
    keys = range(len(values)) if keys is None else keys
    return aw.from_arrow(pa.table({"x": pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(values))}))


@pytest.mark.parametrize(
    "value", [lambda n: {"a": n}, lambda n: [n, None], lambda n: {"a": [{"b": n}]}], ids=["struct", "list", "both"]
)
def test_dictionaries_of_nested_values_become_one(value):
    turned = [nested_keys([value((n + shift) % 100) for n in range(100)]) for shift in (0, 1, 50)]
    whole = aw.concat(turned)
    one = whole.collect()
    assert one.num_batches == 1 and one.to_pylist() == whole.to_pylist()
    assert one["x"].dtype.startswith("dictionary<int8")
    # 200 different values are more than keys of 8 bits can tell apart.
    many = aw.concat([nested_keys([value(n) for n in range(100)]), nested_keys([value(n) for n in range(100, 200)])])
    with pytest.raises(aw.Unsupported, match="can't be made one"):
        many.collect()
    # Where few of them are used they fit after all, and rows are rows anyway.
    assert many.take([0, 150]).to_pylist() == [{"x": value(0)}, {"x": value(150)}]
    inside = [
        aw.from_arrow(pa.table({"s": pa.StructArray.from_arrays([part["x"].to_arrow().chunk(0)], ["d"])}))
        for part in turned
    ]
    assert aw.concat(inside).collect().to_pylist() == [row for part in inside for row in part.to_pylist()]
