"""Tests that `write` accepts Python, NumPy, pandas, Polars and Arrow data, and that pyarrow reads the same values."""

import array
import datetime as dt
import io
import sys
import uuid
import zoneinfo
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import arrowwood as aw

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def write_and_read(data, schema=None):
    """Writes data, and returns the table that pyarrow reads."""
    sink = io.BytesIO()
    aw.write(data, sink, schema=schema)
    table = pa.ipc.open_file(sink.getvalue()).read_all()
    table.validate(full=True)
    return table


def write_column(values, type=None, nullable=True):
    """Writes values as the column `x`, and returns the array that pyarrow reads."""
    schema = None if type is None else pa.schema([pa.field("x", type, nullable)])
    return write_and_read({"x": values}, schema)["x"].combine_chunks()


# Values without a schema, by the names of their types.
INFERRED = {
    "bool": [True, None, False],
    "int": [1, None, -(2**63), 2**63 - 1],
    "large int": [0, None, 2**64 - 1],
    "float": [1.5, None, float("inf")],
    "int and float": [1, None, 2.5, 2**53],
    "str": ["", "żółć", None],
    "bytes": [b"", b"\0\xff", None],
    "datetime": [dt.datetime(2000, 2, 29, 12, 30, 45, 678), None, dt.datetime(1, 1, 1)],
    "datetime UTC": [dt.datetime(2000, 1, 1, tzinfo=dt.UTC), None],
    "datetime zone": [dt.datetime(2000, 7, 1, 12, tzinfo=BERLIN), dt.datetime(1900, 1, 1, tzinfo=BERLIN)],
    "datetime offset": [dt.datetime(2000, 7, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30)))],
    "date": [dt.date(2000, 2, 29), None, dt.date.min, dt.date.max],
    "time": [dt.time(1, 2, 3, 4), None, dt.time.max],
    "timedelta": [dt.timedelta(days=-3, microseconds=7), None, dt.timedelta(days=100_000)],
    "decimal": [Decimal("1.5"), None, Decimal("-200.25"), Decimal("1E+3"), Decimal(0)],
    "large decimal": [Decimal("9" * 60 + ".5"), Decimal("-1")],
    "list": [[1, None], None, [], [2**40]],
    "list of lists": [[[1.5], None, []], None],
    "dict": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
    "list of dicts": [[{"a": dt.date(2000, 1, 1)}], [], None],
    "None": [None, None],
    "empty": [],
}


@pytest.mark.parametrize("values", INFERRED.values(), ids=INFERRED)
def test_types_are_inferred_like_in_pyarrow(values):
    # pyarrow infers no type for large unsigned integers.
    expected = pa.array(values, pa.uint64() if 2**64 - 1 in values else None)
    assert write_column(values) == expected and write_column(values).type == expected.type
    assert write_column(tuple(values)) == write_column(value for value in values) == expected


def test_columns_of_a_list_of_dicts_are_the_union_of_all_keys():
    rows = [{"a": 1}, {"b": "x", "a": None}, {}, {"c": [1.5]}]
    expected = pa.table({"a": [1, None, None, None], "b": [None, "x", None, None], "c": [None, None, None, [1.5]]})
    assert write_and_read(rows) == write_and_read(iter(rows)) == expected
    assert write_and_read([]).shape == write_and_read({}).shape == (0, 0)


def test_fields_of_structs_are_the_union_of_all_keys():
    assert write_column([{"a": 1}, {"b": "x"}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


TIMES = ["2000-02-29T12:34:56", "NaT", "1969-12-31T23:59:59"]
ARRAYS = {
    "bool": np.array([True, False] * 5),
    **{name: np.array([0, 1, 100], name) for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()},
    **{name: np.array([0.5, -1, np.inf], name) for name in ["float16", "float32", "float64"]},
    "big-endian": np.array([1, 2, 3], ">i4"),
    "strided": np.arange(10)[::3],
    "reversed": np.arange(10.0)[::-1],
    **{f"datetime {unit}": np.array(TIMES, f"datetime64[{unit}]") for unit in ["D", "s", "ms", "us", "ns"]},
    **{f"timedelta {unit}": np.array([1, "NaT", -(10**9)], f"timedelta64[{unit}]") for unit in ["s", "ms", "us", "ns"]},
    "str": np.array(["a", "żółć", ""]),
    "bytes": np.array([b"a", b"bcd"]),
    "objects": np.array(["a", None, "b"], object),
    "empty": np.array([], "int16"),
}


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS)
def test_numpy_arrays_become_the_same_columns_as_in_pyarrow(values):
    native = values.astype(values.dtype.newbyteorder("="))
    expected = pa.array(np.ascontiguousarray(native))
    if expected.type == pa.timestamp("s") or values.dtype.kind != "M":
        assert write_column(values) == expected
    assert write_column(values).type == expected.type and write_column(values).to_pylist() == expected.to_pylist()


def test_numpy_times_in_units_unknown_to_arrow_are_converted_or_refused():
    assert write_column(np.array(["2000-01", "NaT"], "datetime64[M]")).to_pylist() == [dt.date(2000, 1, 1), None]
    assert write_column(np.array(["2000-01-01T05"], "datetime64[h]")).to_pylist() == [dt.datetime(2000, 1, 1, 5)]
    assert write_column(np.array([2], "timedelta64[D]")).to_pylist() == [dt.timedelta(2)]
    for values in [np.array([1], "timedelta64[Y]"), np.array([1], "datetime64[ps]"), np.array([1j]), np.array(3)]:
        with pytest.raises(TypeError, match="column 'x'"):
            write_column(values)
    with pytest.raises(OverflowError, match="column 'x'"):
        write_column(np.array([2**40], "datetime64[D]"))


def test_matrices_become_fixed_size_lists():
    matrix = np.arange(6, dtype="float32").reshape(3, 2)
    assert write_column(matrix) == pa.array(matrix.tolist(), pa.list_(pa.float32(), 2))
    assert write_column(matrix.T) == pa.array(matrix.T.tolist(), pa.list_(pa.float32(), 3))


def test_arrays_of_more_dimensions_become_tensors_or_nested_lists():
    planes = np.arange(8).reshape(2, 2, 2)
    assert write_column(planes) == pa.FixedShapeTensorArray.from_numpy_ndarray(planes)
    lists = pa.list_(pa.list_(pa.int64(), 2), 2)
    assert write_column(planes, lists) == pa.array([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], lists)


def test_masked_arrays_and_buffers_become_columns():
    assert write_column(np.ma.array([1, 2, 3], "int8", mask=[0, 1, 0])) == pa.array([1, None, 3], pa.int8())
    floats = [1.5, 2.5]
    assert write_column(array.array("d", floats)) == pa.array(floats)
    assert write_column(memoryview(np.array(floats))) == pa.array(floats)


def test_lists_of_numpy_values_become_columns():
    assert write_column([np.array([1, 2]), np.int8(3).repeat(2)]) == pa.array([[1, 2], [3, 3]])
    assert write_column([np.float32(1.5), np.float64(2), 3]) == pa.array([1.5, 2.0, 3.0])
    assert write_column([np.int8(1), np.uint64(2)]) == pa.array([1, 2])
    assert write_column([np.bool_(True)]) == pa.array([True])
    times = [np.datetime64("2000-01-01T00:00:01", "ms"), np.datetime64("NaT")]
    assert write_column(times).to_pylist() == [dt.datetime(2000, 1, 1, 0, 0, 1), None]


DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 >i4 >f8 "
DTYPES += "datetime64[D] datetime64[s] datetime64[ms] datetime64[us] datetime64[ns] timedelta64[s] timedelta64[ns]"


def column_type(item, shape):
    """Returns the type of a column of arrays: a tensor if rows have several dimensions, else nested lists."""
    is_number = pa.types.is_integer(item) or pa.types.is_floating(item)
    if len(shape) > 2 and 0 not in shape[1:] and is_number:
        return pa.fixed_shape_tensor(item, shape[1:])
    for size in reversed(shape[1:]):
        item = pa.list_(item, size)
    return item


def flatten(lists):
    while pa.types.is_fixed_size_list(lists.type):
        lists = lists.flatten()
    return lists


@st.composite
def numpy_arrays(draw):
    """Draws an array of any type and shape, contiguous or not."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES.split())))
    shape = draw(numpy_strategies.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    if dtype.kind in "mM":
        storage, elements = np.dtype("i8"), st.integers(-(10**5), 10**5)
    else:
        storage = dtype.newbyteorder("=")
        elements = numpy_strategies.from_dtype(storage, allow_nan=False)
    values = draw(numpy_strategies.arrays(storage, shape, elements=elements)).astype(dtype)
    layouts = [values, np.asfortranarray(values), values[::-1], values[..., ::-1], values[::2]]
    return draw(st.sampled_from(layouts))


@settings(deadline=None, max_examples=200)
@given(numpy_arrays())
def test_numpy_arrays_keep_type_shape_and_values(values):
    dtype = values.dtype
    is_time = dtype.kind in "mM"
    item = pa.array(np.zeros(0, dtype.newbyteorder("="))).type
    column = write_column(values)
    assert column.type == column_type(item, values.shape) and len(column) == len(values)
    is_tensor = isinstance(column.type, pa.FixedShapeTensorType)
    lists = column.storage if is_tensor else column
    if not is_time:
        rows = values.reshape(len(values), lists.type.list_size) if is_tensor else values
        assert lists.to_pylist() == pa.array(rows.astype(object).tolist(), lists.type).to_pylist()

    # Times are compared as integers.
    items = flatten(lists)
    if item == pa.date32():
        items = items.cast(pa.int32()).cast(pa.int64())
    elif is_time:
        items = items.cast(pa.int64())
    native = values.astype("i8" if is_time else dtype.newbyteorder("="))
    assert items.to_numpy(zero_copy_only=False).tolist() == native.ravel().tolist()

    # Columns of numbers become arrays of the same shape again.
    if dtype.kind in "iuf" and 0 not in values.shape[1:]:
        back = aw.from_arrow(pa.table({"x": column}))["x"].to_numpy()
        assert back.shape == values.shape and back.dtype == dtype.newbyteorder("=") and (back == native).all()


def test_numpy_values_in_lists_keep_their_type():
    floats = np.array([1.5, 2], "float32")
    assert write_column([np.float32(1.5), None, np.float32(2)]) == pa.array([1.5, None, 2], pa.float32())
    assert write_column([floats, None, floats[:0]]) == pa.array([[1.5, 2], None, []], pa.list_(pa.float32()))
    assert write_column([floats.reshape(1, 2)]) == pa.array([[[1.5, 2]]], pa.list_(pa.list_(pa.float32())))
    assert write_column([{"a": np.int8(1)}, {"a": np.int8(2)}]) == pa.array(
        [{"a": 1}, {"a": 2}], pa.struct({"a": pa.int8()})
    )
    assert write_column([floats[:0], floats]).type == write_column([None, floats]).type == pa.list_(pa.float32())
    # Mixed types become the types of Python's numbers.
    assert write_column([np.uint8(1), 300]) == pa.array([1, 300]) and write_column([np.float32(1), 2]) == pa.array(
        [1.0, 2.0]
    )
    assert write_column([np.array([1], "uint8"), [300]]) == pa.array([[1], [300]])
    assert write_column([np.int8(1), np.float16(0.5)]) == pa.array([1, 0.5])
    nanos = np.array(["2000-01-01T00:00:00.000000001", "NaT"], "datetime64[ns]")
    expected = pa.array(nanos)
    assert write_column([nanos]) == pa.array([expected.to_pylist()], pa.list_(pa.timestamp("ns")))
    assert write_column([{"t": nanos}])[0].as_py()["t"] == expected.to_pylist()
    assert write_column([[nanos[0]]]).type == pa.list_(pa.timestamp("ns"))
    for unsupported in (np.zeros(1, [("a", "i4")])[0], np.complex64(1), np.longdouble(1)):
        with pytest.raises(TypeError, match="column 'x', row 0"):
            write_column([unsupported])


def test_masks_of_several_dimensions_become_nulls():
    planes = np.ma.array(np.arange(8, dtype="int16").reshape(2, 2, 2), mask=np.arange(8).reshape(2, 2, 2) % 3 == 0)
    expected = [[[None, 1], [2, None]], [[4, 5], [None, 7]]]
    assert write_column(planes) == pa.array(expected, pa.list_(pa.list_(pa.int16(), 2), 2))
    words = np.ma.array([["a", "b"], ["c", "d"]], mask=[[0, 1], [0, 0]])
    assert write_column(words).to_pylist() == [["a", None], ["c", "d"]]


def test_columns_of_different_libraries_are_combined():
    chunks = pa.chunked_array([[1, 2], [3, None, 5]])
    structs = pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}, {"a": 4}])
    columns = {"c": chunks, "s": structs, "p": pl.Series([1.5] * 5), "l": list("abcde"), "n": np.arange(5)}
    table = write_and_read({**columns, "a": aw.from_arrow(pa.table({"x": chunks}))["x"]})
    assert table["c"].num_chunks == 2 and table["c"] == table["a"] == chunks
    assert table["s"].combine_chunks() == structs and table["p"].to_pylist() == [1.5] * 5
    assert table["l"].to_pylist() == list("abcde") and table["n"].to_pylist() == list(range(5))
    assert write_column(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist() == ["a", "b", "a"]


def test_tables_are_cast_to_the_schema():
    schema = pa.schema([("a", pa.int8()), ("b", pa.dictionary(pa.int32(), pa.string())), ("c", pa.list_(pa.float32()))])
    table = pa.table({"b": ["x", None], "a": [1, 2], "c": pa.array([[1, 2], None], pa.large_list(pa.int16()))})
    expected = [{"a": 1, "b": "x", "c": [1.0, 2.0]}, {"a": 2, "b": None, "c": None}]
    for data in [table, pl.DataFrame(table), table.to_batches()[0], aw.from_arrow(table), table.to_pylist()]:
        actual = write_and_read(data, schema)
        assert actual.schema == schema and actual.to_pylist() == expected


def make_frame():
    return pd.DataFrame(
        {
            "i": [1, 2, 3],
            "f": [1.5, np.nan, 2.5],
            "s": ["a", None, "c"],
            "t": pd.to_datetime(["2000-01-01", None, "2000-01-02T01:02:03.000000004"], format="ISO8601"),
            "n": pd.array([1, None, 3], "Int64"),
        },
        index=["x", "y", "z"],
    )


@pytest.mark.parametrize("has_pyarrow", [True, False])
def test_pandas_frames_are_written_with_and_without_pyarrow(monkeypatch, has_pyarrow):
    frame = make_frame()
    sinks = [io.BytesIO(), io.BytesIO()]
    with monkeypatch.context() as patch:
        if not has_pyarrow:
            patch.setitem(sys.modules, "pyarrow", None)
        aw.write(frame, sinks[0])
        aw.write(dict(frame.items()), sinks[1])
    nanoseconds = pa.timestamp("ns")
    times = [946684800 * 10**9, None, 946774923 * 10**9 + 4]
    for sink in sinks:
        table = pa.ipc.open_file(sink.getvalue()).read_all()
        assert table.column_names == list("ifstn")
        assert table["i"].to_pylist() == [1, 2, 3] and table["f"].to_pylist() == [1.5, None, 2.5]
        assert table["s"].to_pylist() == ["a", None, "c"] and table["n"].to_pylist() == [1, None, 3]
        assert table["t"].cast(nanoseconds) == pa.chunked_array([pa.array(times, nanoseconds)])


def test_polars_frames_are_written():
    table = write_and_read(pl.DataFrame({"a": [1, None], "b": ["x", "y"]}))
    assert table.to_pydict() == {"a": [1, None], "b": ["x", "y"]}


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
INSTANT = dt.datetime(2000, 2, 29, 12, 30, 45)
# Values for each type of a schema.
TYPED = {
    pa.bool_(): [True, False],
    **{type: [0, 1, 2.0] for type in INTEGERS},
    **{type: [0.5, -2, 1] for type in [pa.float16(), pa.float32(), pa.float64()]},
    **{type: ["", "żółć", "x" * 100] for type in [pa.string(), pa.large_string(), pa.string_view()]},
    **{type: [b"", b"\0\xff", b"y" * 100] for type in [pa.binary(), pa.large_binary(), pa.binary_view()]},
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.date32(): [dt.date(2000, 2, 29), dt.date.min],
    pa.date64(): [dt.date(2000, 2, 29), dt.date.max],
    **{type: [dt.time(1, 2, 3), dt.time(23, 59, 59)] for type in [pa.time32("s"), pa.time32("ms")]},
    **{type: [dt.time(1, 2, 3, 4), dt.time.max] for type in [pa.time64("us"), pa.time64("ns")]},
    **{pa.timestamp(unit): [INSTANT, dt.datetime(1969, 12, 31)] for unit in ["s", "ms", "us", "ns"]},
    pa.timestamp("ms", "UTC"): [INSTANT.replace(tzinfo=BERLIN), INSTANT.replace(tzinfo=dt.UTC)],
    **{pa.duration(unit): [dt.timedelta(days=-3, seconds=1)] for unit in ["s", "ms", "us", "ns"]},
    pa.decimal32(7, 2): [Decimal("1.23"), Decimal("-99999.99"), 5],
    pa.decimal64(18, 2): [Decimal("1.2"), Decimal("-9E+3")],
    pa.decimal128(38, 2): [Decimal("9" * 36 + ".99"), -7],
    pa.decimal256(76, 6): [Decimal("-" + "9" * 70 + ".123456")],
    pa.decimal128(10, -2): [Decimal("12300"), 100],
    pa.dictionary(pa.int32(), pa.string()): ["a", "b", "a"],
    pa.dictionary(pa.int8(), pa.int64()): [5, 6, 5],
    pa.list_(pa.int8()): [[1, None], [], [3]],
    pa.large_list(pa.string()): [["a", None], [], ["c"]],
    pa.list_(pa.float32(), 2): [[1.5, None], (3, 4)],
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.date32()))]): [
        {"a": 1, "b": [dt.date.max]},
        {"b": None, "a": None},
    ],
    pa.null(): [None],
}


@pytest.mark.parametrize("type", TYPED, ids=str)
def test_values_become_the_type_of_the_schema(type):
    values = TYPED[type]
    with_null = [*values, None, *values]
    expected = pa.array(with_null, type)
    assert write_column(with_null, type) == expected and write_column([], type).type == type
    rows = write_and_read([{"x": value} for value in with_null], pa.schema([("x", type)]))
    assert rows["x"].combine_chunks() == expected
    assert write_column(expected, type) == expected
    if None not in values:
        assert write_column(values, type, nullable=False) == pa.array(values, type)
        with pytest.raises((ValueError, TypeError), match=f"'x', row {len(values)}: .*not nullable"):
            write_column(with_null, type, nullable=False)
    with pytest.raises(TypeError, match=r"column 'x', row 1: expected \w+.*, got object <object"):
        write_column([None, object()], type)


# Type, values, error, and what its message says.
REFUSED = [
    (pa.int8(), [1, 128], aw.InvalidArgument, "row 1: expected int8, got int 128"),
    (pa.uint16(), [-1], aw.InvalidArgument, "row 0: expected uint16, got int -1"),
    (pa.uint64(), [2**64], aw.InvalidArgument, "row 0: expected uint64"),
    (pa.int64(), [2**200], aw.InvalidArgument, "row 0: "),
    (pa.int64(), [1.5], aw.InvalidArgument, "row 0: expected int64, got float 1.5"),
    (pa.int64(), [float("nan")], aw.InvalidArgument, "row 0: expected int64, got float nan"),
    (pa.int64(), [1, "2"], TypeError, "row 1: expected int64, got str '2'"),
    (pa.int64(), [True], TypeError, "row 0: expected int64, got bool True"),
    (pa.bool_(), [1], TypeError, "row 0: expected bool, got int 1"),
    (pa.float64(), [2**53 + 1], aw.InvalidArgument, "row 0: expected float64"),
    (pa.float32(), [1e300], aw.InvalidArgument, "row 0: expected float32"),
    (pa.float16(), [1e5], aw.InvalidArgument, "row 0: expected float16"),
    (pa.float64(), ["1.5"], TypeError, "row 0: expected float64, got str '1.5'"),
    (pa.string(), [b"x"], TypeError, "row 0: expected utf8, got bytes b'x'"),
    (pa.binary(), ["x"], TypeError, "row 0: expected binary, got str 'x'"),
    (pa.binary(3), [b"ab"], aw.InvalidArgument, r"row 0: expected fixed_size_binary\[3\], got bytes b'ab'"),
    (pa.date32(), [INSTANT], aw.InvalidArgument, "row 0: expected date32, got datetime"),
    (pa.timestamp("s"), [INSTANT.replace(microsecond=1)], aw.InvalidArgument, r"row 0: expected timestamp\[s\]"),
    (pa.timestamp("ns"), [dt.datetime(1, 1, 1)], aw.InvalidArgument, r"row 0: expected timestamp\[ns\]"),
    (pa.timestamp("s"), [INSTANT.replace(tzinfo=dt.UTC)], TypeError, r"row 0: expected timestamp\[s\]"),
    (pa.timestamp("s", "UTC"), [INSTANT], TypeError, r"row 0: expected timestamp\[s, UTC\]"),
    (pa.decimal128(4, 2), [Decimal("100")], aw.InvalidArgument, r"row 0: expected decimal128\(4, 2\)"),
    (pa.decimal128(4, 2), [Decimal("0.001")], aw.InvalidArgument, "row 0: "),
    (pa.decimal128(4, 2), [Decimal("NaN")], aw.InvalidArgument, "row 0: NaN"),
    (pa.decimal128(4, 2), [1.5], TypeError, "row 0: "),
    (pa.dictionary(pa.int8(), pa.int64()), range(200), aw.InvalidArgument, "column 'x': "),
    (pa.list_(pa.int8()), [[1], [2, 300]], aw.InvalidArgument, "row 1: expected int8, got int 300"),
    (pa.list_(pa.int8()), [[1], 5], TypeError, "row 1: expected list<int8>, got int 5"),
    (pa.list_(pa.int8()), ["ab"], TypeError, "row 0: expected list<int8>, got str 'ab'"),
    (pa.list_(pa.int8(), 2), [[1]], aw.InvalidArgument, r"row 0: expected fixed_size_list<int8>\[2\], got a list of 1"),
    (
        pa.struct([("a", pa.int8())]),
        [{"a": 1, "b": 2}],
        TypeError,
        "row 0: expected struct<a: int8>, got a dict with 'b'",
    ),
    (pa.struct([("a", pa.int8())]), [[1]], TypeError, "row 0: expected struct<a: int8>"),
    (pa.struct([pa.field("a", pa.int8(), False)]), [{}], aw.InvalidArgument, "row 0: .*'a'.*not nullable"),
    (pa.month_day_nano_interval(), [1], TypeError, "row 0: expected interval.month_day_nano., got int"),
    (pa.dense_union([pa.field("a", pa.int8())]), [1], aw.Unsupported, "column 'x': making dense_union"),
]


@pytest.mark.parametrize(
    ("type", "values", "error", "message"), REFUSED, ids=[f"{case[0]} {n}" for n, case in enumerate(REFUSED)]
)
def test_values_that_do_not_fit_are_refused(type, values, error, message):
    with pytest.raises(error, match=f"column 'x'(, |.*){message}" if "row" in message else message):
        write_column(list(values), type)


@pytest.mark.parametrize(
    ("type", "array"),
    [
        ("time64[ns]", pa.array([1, 86_399_999_999_999, 1_000_000_007]).cast(pa.time64("ns"))),
        ("time64[us]", pa.array([0, 1]).cast(pa.time64("us"))),
        ("decimal256(76, -3)", pa.array([Decimal(10) ** 76 * 3, None, Decimal("-7E+3")], pa.decimal256(76, -3))),
    ],
    ids=["nanoseconds", "microseconds", "tens"],
)
def test_values_of_rows_can_be_appended(type, array):
    """Rows return times with nanoseconds as NumPy timedeltas, and decimals of any length."""
    ds = aw.from_arrow(pa.table({"x": array}))
    builder = aw.Builder(f"x: {type}")
    for row in ds:
        builder.append_row(**row)
    builder.append(ds.to_pylist())
    assert builder.finish().to_arrow()["x"].combine_chunks() == pa.concat_arrays([array, array])
    assert len(ds.filter(aw.col("x") == ds[0]["x"])) == 1


def test_times_beyond_python_years_can_be_appended_to_columns_with_a_zone():
    """Rows have such times as NumPy times in UTC. NumPy times that Python could represent have no clear zone."""
    far = np.array([2**60, -(2**60), 253_402_300_800], "i8")
    for zone in ["Europe/Berlin", "+05:30", "UTC"]:
        type = pa.timestamp("s", zone)
        array = pa.array(far, pa.int64()).cast(type)
        ds = aw.from_arrow(pa.table({"x": array}))
        assert all(isinstance(row["x"], np.datetime64) for row in ds)
        builder = aw.Builder(pa.schema([("x", type)]))
        for row in ds:
            builder.append_row(**row)
        builder.append(ds.to_pylist())
        assert builder.finish().to_arrow()["x"].combine_chunks() == pa.concat_arrays([array, array])
        if zone != "UTC":
            for value in [np.datetime64("9999-12-31T00:00:00"), np.datetime64("2000-01-01"), np.datetime64(1, "ns")]:
                with pytest.raises(TypeError, match="it has no time zone"):
                    aw.Builder(pa.schema([("x", pa.timestamp("ns", zone))])).append_row(x=value)


def test_times_of_day_are_compared_with_durations_since_midnight():
    """Python and NumPy have no times of day with nanoseconds, so columns give durations."""
    ds = aw.from_arrow(pa.table({"t": pa.array([1, 2000, None, 86_399_999_999_999], pa.time64("ns"))}))
    assert len(ds.filter(ds["t"] == ds[0]["t"])) == 1
    assert len(ds.filter(ds["t"] <= dt.timedelta(microseconds=2))) == 2
    assert len(ds.filter(ds["t"] >= np.timedelta64(86_399_999_999_999, "ns"))) == 1
    for value in [dt.timedelta(1), dt.timedelta(-1)]:
        with pytest.raises(aw.InvalidArgument, match="can't be compared"):
            ds.filter(ds["t"] == value)


def test_values_are_converted_without_loss():
    assert write_column([INSTANT.replace(hour=0, minute=0, second=0)], pa.date32()).to_pylist() == [INSTANT.date()]
    assert write_column([dt.date(2000, 1, 1)], pa.timestamp("ms")).to_pylist() == [dt.datetime(2000, 1, 1)]
    assert write_column([pd.Timestamp(7), pd.NaT, pd.NA], pa.timestamp("ns")).cast("int64").to_pylist() == [
        7,
        None,
        None,
    ]
    assert write_column([pd.Timedelta(7), pd.NaT], pa.duration("ns")).cast("int64").to_pylist() == [7, None]
    times = write_column([np.datetime64("2000-01-01T00", "s")], pa.timestamp("ms", "UTC"))
    assert times.cast("int64").to_pylist() == [946684800000]
    assert write_column([uuid.UUID(int=1)], pa.binary(16)).to_pylist() == [bytes(15) + b"\1"]
    assert write_column([bytearray(b"ab"), memoryview(b"c")], pa.binary()).to_pylist() == [b"ab", b"c"]
    assert write_column(np.array([1.0, 2.0]), pa.int8()).to_pylist() == [1, 2]
    zoned = pa.timestamp("us", "UTC")
    assert write_column(np.array(["1970-01-01T00:00:01", "NaT"], "datetime64[s]"), zoned) == pa.array(
        [10**6, None], zoned
    )


def test_numpy_values_that_do_not_fit_are_refused():
    for values, type in [(np.array([1, 300]), pa.int8()), (np.array([1, 1.5]), pa.int64())]:
        with pytest.raises(aw.InvalidArgument, match=f"column 'x', row 1: expected {type}"):
            write_column(values, type)
    with pytest.raises(TypeError, match="column 'x', row 0: expected utf8"):
        write_column(np.array([1]), pa.string())


SCHEMA = pa.schema([pa.field("a", pa.int64(), False), ("b", pa.string())])


def test_columns_are_matched_by_name():
    expected = pa.table({"a": [1, 2], "b": ["x", None]}, SCHEMA)
    assert write_and_read({"b": ["x", None], "a": [1, 2]}, SCHEMA) == expected
    assert write_and_read([{"b": "x", "a": 1}, {"a": 2}], SCHEMA) == expected
    assert write_and_read({"a": [1, 2]}, SCHEMA)["b"].to_pylist() == [None, None]
    assert write_and_read([], SCHEMA) == write_and_read({}, SCHEMA) == SCHEMA.empty_table()
    with pytest.raises(aw.SchemaMismatch, match="column 'a' is missing"):
        write_and_read({"b": ["x"]}, SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="column 'a', row 1: .*not nullable"):
        write_and_read([{"a": 1}, {"b": "x"}], SCHEMA)
    for data in [{"a": [1], "c": [2]}, [{"a": 1, "c": 2}], pa.table({"a": [1], "c": [2]})]:
        with pytest.raises(aw.ColumnNotFound, match="no column 'c'; there are a, b"):
            write_and_read(data, SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="column 'a', row 1: .*not nullable"):
        write_and_read(pa.table({"a": [1, None]}), SCHEMA)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(aw.InvalidArgument, match="'a' has 1, 'b' has 2"):
        write_and_read({"a": [1], "b": np.arange(2)})


def test_data_that_is_no_table_is_refused():
    for data in [None, 7, "abc", object()]:
        with pytest.raises(TypeError, match="expected a dict of columns, a list of dicts"):
            write_and_read(data)
    for data in [[1, 2], [{"a": 1}, None], [[1]]]:
        with pytest.raises(TypeError, match=r"row \d: expected a dict"):
            write_and_read(data)
    for values in ["abc", b"abc", 5, None, {"b": 1}]:
        with pytest.raises(TypeError, match="column 'a': expected a list"):
            write_and_read({"a": values})
    for data in [{1: [2]}, [{1: 2}]]:
        with pytest.raises(TypeError, match="name must be a str"):
            write_and_read(data)
    with pytest.raises(ZeroDivisionError):
        write_and_read({"a": (1 // n for n in [1, 0])})


def test_values_that_contain_themselves_are_refused():
    recursive_list, scalar = [], np.empty((), object)
    recursive_list.append(recursive_list)
    scalar[()] = [scalar]
    for value in [recursive_list, scalar]:
        with pytest.raises(aw.InvalidArgument, match="column 'x', row 1: .* nested"):
            write_column([None, value])
        with pytest.raises(TypeError, match="column 'x', row 0: expected int64"):
            write_column([value], pa.list_(pa.int64()))
    # `item` of these NumPy scalars returns no Python value.
    scalar[()] = scalar
    for value in [scalar, np.longdouble(1.5), np.complex64(1j)]:
        with pytest.raises(TypeError, match="column 'x', row 0: expected"):
            write_column([value])
        with pytest.raises(TypeError, match="column 'x', row 0: expected float64"):
            write_column([value], pa.float64())


def test_columns_of_mixed_types_are_refused():
    for values, message in [
        ([1, "x"], "row 1: expected int64, got str 'x'"),
        (["x", None, 1], "row 2: expected utf8, got int 1"),
        ([True, 1], "row 1: expected bool, got int 1"),
        ([[1], [2, "x"]], "row 1: expected int64, got str 'x'"),
        ([[1], 2], "row 1: expected list<int64>, got int 2"),
        ([{"a": 1}, [2]], "row 1: expected struct<a: int64>"),
        ([-1, 2**63], "row 1: expected int64, got int 9223372036854775808"),
        ([INSTANT, INSTANT.replace(tzinfo=dt.UTC)], "row 1: expected timestamp"),
        ([object()], "row 0: expected a value that Arrow has a type for, got object"),
    ]:
        with pytest.raises(TypeError, match=f"column 'x', {message}"):
            write_column(values)
    with pytest.raises(aw.InvalidArgument, match="column 'x', row 0"):
        write_column([2**64])


# Strategies for random values.

NAIVE_DATETIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
# Pairs of a type and a strategy for its values.
SCALARS = [
    (pa.bool_(), st.booleans()),
    *[(getattr(pa, f"int{bits}")(), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for bits in [8, 16, 32, 64]],
    *[(getattr(pa, f"uint{bits}")(), st.integers(0, 2**bits - 1)) for bits in [8, 16, 32, 64]],
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text()),
    (pa.string_view(), st.text()),
    (pa.dictionary(pa.int32(), pa.string()), st.text(max_size=1)),
    (pa.binary(), st.binary()),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("ns"), NAIVE_DATETIMES),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(BERLIN), min_value=dt.datetime(1950, 1, 1))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-(10**6)), dt.timedelta(10**6))),
    (pa.decimal128(20, 5), st.decimals(-(10**14), 10**14, places=5)),
]


def list_of(pair):
    type, values = pair
    return pa.list_(type), st.lists(st.none() | values, max_size=4)


def fixed_size_list_of(pair):
    type, values = pair
    return pa.list_(type, 2), st.lists(st.none() | values, min_size=2, max_size=2)


def struct_of(pair):
    type, values = pair
    return pa.struct([("m", type)]), st.fixed_dictionaries({"m": st.none() | values})


NESTED = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(inner.map(list_of), inner.map(fixed_size_list_of), inner.map(struct_of)),
    max_leaves=3,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_values_with_a_schema_equal_pyarrow(data):
    type, values = data.draw(NESTED)
    values = data.draw(st.lists(st.none() | values, max_size=12))
    expected = pa.array(values, type)
    assert write_column(values, type) == expected
    if pa.types.is_list(type):
        large = expected.cast(pa.large_list(type.value_type))
        try:
            large.validate(full=True)
        except pa.ArrowInvalid:
            # For a null struct, pyarrow makes key 0 of a dictionary, even of an empty one.
            with pytest.raises(aw.InvalidData, match="key 0 of a dictionary of 0 values"):
                write_column(large, type)
        else:
            assert write_column(large, type) == expected


def test_keys_of_null_structs_in_an_empty_dictionary():
    struct = pa.struct([("m", pa.dictionary(pa.int32(), pa.string()))])
    array = pa.array([[None]], pa.large_list(struct))
    with pytest.raises(aw.InvalidData, match="column 'x': row 0: key 0 of a dictionary of 0 values"):
        write_column(array, pa.list_(struct))
    written = write_column([[None]], pa.list_(struct))
    assert written.to_pylist() == [[None]]
    written.validate(full=True)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SCALARS).flatmap(lambda pair: st.lists(st.none() | pair[1], max_size=12)))
def test_random_values_without_a_schema_equal_pyarrow(values):
    try:
        expected = pa.array(values)
    except OverflowError:
        # pyarrow infers no type for integers of 2**63 and more.
        assume(False)
    assert write_column(values) == expected


def test_nullable_pandas_integers_keep_every_digit(tmp_path):
    # Floating-point numbers can't represent the first value.
    values = [2**53 + 1, None, 3]
    for dtype, arrow_type in [("Int64", "int64"), ("UInt64", "uint64"), ("int64[pyarrow]", "int64")]:
        table = write_and_read({"a": pd.array(values, dtype=dtype)})
        assert (table["a"].to_pylist(), str(table["a"].type)) == (values, arrow_type), dtype
    narrow = write_and_read({"a": pd.array([1, None], dtype="Int32"), "f": pd.array([1.5, None], dtype="Float32")})
    assert [str(column.type) for column in narrow.columns] == ["int32", "float"]
    with aw.writer(tmp_path / "t", "a: int64") as writer:
        writer.append({"a": pd.array(values, dtype="Int64")})
    assert aw.open(tmp_path / "t")["a"].to_pylist() == values
