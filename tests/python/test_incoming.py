"""Tests Python's tables as input of `write`, against pyarrow's reading of the result."""

import array
import datetime as dt
import decimal
import io
import sys
import uuid
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import arrowwood as aw

D = decimal.Decimal
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def written(data, schema=None):
    """Returns `data` after `write`, read by pyarrow."""
    sink = io.BytesIO()
    aw.write(data, sink, schema=schema)
    table = pa.ipc.open_file(sink.getvalue()).read_all()
    table.validate(full=True)
    return table


def column(values, type=None, nullable=True):
    """The one column that `values` become."""
    schema = type and pa.schema([pa.field("x", type, nullable)])
    return written({"x": values}, schema)["x"].combine_chunks()


# ---- without a schema ----

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
    "decimal": [D("1.5"), None, D("-200.25"), D("1E+3"), D(0)],
    "large decimal": [D("9" * 60 + ".5"), D("-1")],
    "list": [[1, None], None, [], [2**40]],
    "list of lists": [[[1.5], None, []], None],
    "dict": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
    "list of dicts": [[{"a": dt.date(2000, 1, 1)}], [], None],
    "None": [None, None],
    "nothing": [],
}


@pytest.mark.parametrize("values", INFERRED.values(), ids=INFERRED)
def test_inferred_as_pyarrow_does(values):
    expected = pa.array(values, pa.uint64() if 2**64 - 1 in values else None)
    assert column(values) == expected and column(values).type == expected.type
    assert column(tuple(values)) == column(value for value in values) == expected


def test_rows_have_the_columns_of_all_rows():
    rows = [{"a": 1}, {"b": "x", "a": None}, {}, {"c": [1.5]}]
    expected = pa.table({"a": [1, None, None, None], "b": [None, "x", None, None], "c": [None, None, None, [1.5]]})
    assert written(rows) == written(iter(rows)) == expected
    assert written([]).shape == written({}).shape == (0, 0)


def test_structs_have_the_members_of_all_rows():
    assert column([{"a": 1}, {"b": "x"}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


# ---- NumPy ----

TIMES = ["2000-02-29T12:34:56", "NaT", "1969-12-31T23:59:59"]
ARRAYS = {
    "bool": np.array([True, False] * 5),
    **{kind: np.array([0, 1, 100], kind) for kind in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()},
    **{kind: np.array([0.5, -1, np.inf], kind) for kind in ["float16", "float32", "float64"]},
    "big end": np.array([1, 2, 3], ">i4"),
    "strided": np.arange(10)[::3],
    "backwards": np.arange(10.0)[::-1],
    **{f"datetime {unit}": np.array(TIMES, f"datetime64[{unit}]") for unit in ["D", "s", "ms", "us", "ns"]},
    **{f"timedelta {unit}": np.array([1, "NaT", -(10**9)], f"timedelta64[{unit}]") for unit in ["s", "ms", "us", "ns"]},
    "str": np.array(["a", "żółć", ""]),
    "bytes": np.array([b"a", b"bcd"]),
    "objects": np.array(["a", None, "b"], object),
    "nothing": np.array([], "int16"),
}


@pytest.mark.parametrize("values", ARRAYS.values(), ids=ARRAYS)
def test_numpy_as_pyarrow_takes_it(values):
    native = values.astype(values.dtype.newbyteorder("="))
    expected = pa.array(np.ascontiguousarray(native))
    if expected.type == pa.timestamp("s") or values.dtype.kind != "M":
        assert column(values) == expected
    assert column(values).type == expected.type and column(values).to_pylist() == expected.to_pylist()


def test_numpy_in_coarse_units():
    assert column(np.array(["2000-01", "NaT"], "datetime64[M]")).to_pylist() == [dt.date(2000, 1, 1), None]
    assert column(np.array(["2000-01-01T05"], "datetime64[h]")).to_pylist() == [dt.datetime(2000, 1, 1, 5)]
    assert column(np.array([2], "timedelta64[D]")).to_pylist() == [dt.timedelta(2)]
    for values in [np.array([1], "timedelta64[Y]"), np.array([1], "datetime64[ps]"), np.array([1j]), np.array(3)]:
        with pytest.raises(TypeError, match="column 'x'"):
            column(values)
    with pytest.raises(OverflowError, match="column 'x'"):
        column(np.array([2**40], "datetime64[D]"))


def test_other_arrays():
    rows = np.arange(6, dtype="float32").reshape(3, 2)
    assert column(rows) == pa.array(rows.tolist(), pa.list_(pa.float32(), 2))
    assert column(rows.T) == pa.array(rows.T.tolist(), pa.list_(pa.float32(), 3))
    assert column(np.ma.array([1, 2, 3], "int8", mask=[0, 1, 0])) == pa.array([1, None, 3], pa.int8())
    assert column(array.array("d", [1.5, 2.5])) == column(memoryview(np.array([1.5, 2.5]))) == pa.array([1.5, 2.5])
    planes = np.arange(8).reshape(2, 2, 2)
    assert column(planes) == pa.FixedShapeTensorArray.from_numpy_ndarray(planes)
    lists = pa.list_(pa.list_(pa.int64(), 2), 2)
    assert column(planes, lists) == pa.array([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], lists)
    assert column([np.array([1, 2]), np.int8(3).repeat(2)]) == pa.array([[1, 2], [3, 3]])
    assert column([np.float32(1.5), np.float64(2), 3]) == pa.array([1.5, 2.0, 3.0])
    assert column([np.int8(1), np.uint64(2)]) == pa.array([1, 2]) and column([np.bool_(True)]) == pa.array([True])
    assert column([np.datetime64("2000-01-01T00:00:01", "ms"), np.datetime64("NaT")]).to_pylist() == [
        dt.datetime(2000, 1, 1, 0, 0, 1),
        None,
    ]


DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 >i4 >f8 "
DTYPES += "datetime64[D] datetime64[s] datetime64[ms] datetime64[us] datetime64[ns] timedelta64[s] timedelta64[ns]"


def of_shape(item, shape):
    """Lists of one length of `item`, as a row of an array of this shape is;
    a tensor where it has dimensions of its own."""
    is_number = pa.types.is_integer(item) or pa.types.is_floating(item)
    if len(shape) > 2 and 0 not in shape[1:] and is_number:
        return pa.fixed_shape_tensor(item, shape[1:])
    for size in reversed(shape[1:]):
        item = pa.list_(item, size)
    return item


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_arrays_keep_type_and_shape(data):
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES.split())))
    shape = data.draw(numpy_strategies.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    elements = (
        numpy_strategies.from_dtype(dtype.newbyteorder("="), allow_nan=False)
        if dtype.kind not in "mM"
        else st.integers(-(10**5), 10**5)
    )
    values = data.draw(
        numpy_strategies.arrays(dtype.newbyteorder("=") if dtype.kind not in "mM" else "i8", shape, elements=elements)
    )
    values = values.astype(dtype)
    # As it lies in memory, turned round, and every other one.
    given = data.draw(
        st.sampled_from([values, np.asfortranarray(values), values[::-1], values[..., ::-1], values[::2]])
    )
    item = pa.array(np.zeros(0, dtype.newbyteorder("="))).type
    got = column(given)
    assert got.type == of_shape(item, given.shape) and len(got) == len(given)
    is_tensor = isinstance(got.type, pa.FixedShapeTensorType)
    flat = got.storage if is_tensor else got
    expected = given.reshape(len(given), flat.type.list_size) if is_tensor else given
    assert flat.to_pylist() == pa.array(expected.astype(object).tolist(), flat.type).to_pylist() or dtype.kind in "mM"
    while pa.types.is_fixed_size_list(flat.type):
        flat = flat.flatten()
    raw = (
        flat.cast(pa.int32()).cast(pa.int64())
        if item == pa.date32()
        else flat.cast(pa.int64())
        if dtype.kind in "mM"
        else flat
    )
    native = given.astype("i8") if dtype.kind in "mM" else given.astype(dtype.newbyteorder("="))
    assert raw.to_numpy(zero_copy_only=False).tolist() == native.ravel().tolist()
    # And back.
    ds = aw.from_arrow(pa.table({"x": got}))
    if dtype.kind in "iuf" and 0 not in given.shape[1:]:
        back = ds["x"].to_numpy()
        assert back.shape == given.shape and back.dtype == dtype.newbyteorder("=") and (back == native).all()


def test_numbers_of_numpy_in_lists_keep_their_type():
    floats = np.array([1.5, 2], "float32")
    assert column([np.float32(1.5), None, np.float32(2)]) == pa.array([1.5, None, 2], pa.float32())
    assert column([floats, None, floats[:0]]) == pa.array([[1.5, 2], None, []], pa.list_(pa.float32()))
    assert column([floats.reshape(1, 2)]) == pa.array([[[1.5, 2]]], pa.list_(pa.list_(pa.float32())))
    assert column([{"a": np.int8(1)}, {"a": np.int8(2)}]) == pa.array([{"a": 1}, {"a": 2}], pa.struct({"a": pa.int8()}))
    assert column([floats[:0], floats]).type == column([None, floats]).type == pa.list_(pa.float32())
    # Beside others they are what Python's own would be.
    assert column([np.uint8(1), 300]) == pa.array([1, 300]) and column([np.float32(1), 2]) == pa.array([1.0, 2.0])
    assert column([np.array([1], "uint8"), [300]]) == pa.array([[1], [300]])
    assert column([np.int8(1), np.float16(0.5)]) == pa.array([1, 0.5])
    nanos = np.array(["2000-01-01T00:00:00.000000001", "NaT"], "datetime64[ns]")
    expected = pa.array(nanos)
    assert column([nanos]) == pa.array([expected.to_pylist()], pa.list_(pa.timestamp("ns")))
    assert column([{"t": nanos}])[0].as_py()["t"] == expected.to_pylist()
    assert column([[nanos[0]]]).type == pa.list_(pa.timestamp("ns"))
    for wrong in (np.zeros(1, [("a", "i4")])[0], np.complex64(1), np.longdouble(1)):
        with pytest.raises(TypeError, match="column 'x', row 0"):
            column([wrong])


def test_masks_of_any_shape():
    planes = np.ma.array(np.arange(8, dtype="int16").reshape(2, 2, 2), mask=np.arange(8).reshape(2, 2, 2) % 3 == 0)
    expected = [[[None, 1], [2, None]], [[4, 5], [None, 7]]]
    assert column(planes) == pa.array(expected, pa.list_(pa.list_(pa.int16(), 2), 2))
    words = np.ma.array([["a", "b"], ["c", "d"]], mask=[[0, 1], [0, 0]])
    assert column(words).to_pylist() == [["a", None], ["c", "d"]]


# ---- Arrow and data frames ----


def test_arrow_columns():
    chunks = pa.chunked_array([[1, 2], [3, None, 5]])
    structs = pa.array([{"a": 1}, None, {"a": 2}, {"a": 3}, {"a": 4}])
    columns = {"c": chunks, "s": structs, "p": pl.Series([1.5] * 5), "l": list("abcde"), "n": np.arange(5)}
    got = written({**columns, "a": aw.from_arrow(pa.table({"x": chunks}))["x"]})
    assert got["c"].num_chunks == 2 and got["c"] == got["a"] == chunks
    assert got["s"].combine_chunks() == structs and got["p"].to_pylist() == [1.5] * 5
    assert got["l"].to_pylist() == list("abcde") and got["n"].to_pylist() == list(range(5))
    assert column(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist() == ["a", "b", "a"]


def test_tables_are_cast_to_the_schema():
    schema = pa.schema([("a", pa.int8()), ("b", pa.dictionary(pa.int32(), pa.string())), ("c", pa.list_(pa.float32()))])
    table = pa.table({"b": ["x", None], "a": [1, 2], "c": pa.array([[1, 2], None], pa.large_list(pa.int16()))})
    expected = [{"a": 1, "b": "x", "c": [1.0, 2.0]}, {"a": 2, "b": None, "c": None}]
    for data in [table, pl.DataFrame(table), table.to_batches()[0], aw.from_arrow(table), table.to_pylist()]:
        got = written(data, schema)
        assert got.schema == schema and got.to_pylist() == expected


def frame():
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
def test_pandas(monkeypatch, has_pyarrow):
    if not has_pyarrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    nanos = pa.timestamp("ns")
    sinks = [io.BytesIO(), io.BytesIO()]
    aw.write(frame(), sinks[0])
    aw.write(dict(frame().items()), sinks[1])
    monkeypatch.undo()
    for sink in sinks:
        table = pa.ipc.open_file(sink.getvalue()).read_all()
        assert table.column_names == list("ifstn")
        assert table["i"].to_pylist() == [1, 2, 3] and table["f"].to_pylist() == [1.5, None, 2.5]
        assert table["s"].to_pylist() == ["a", None, "c"] and table["n"].to_pylist() == [1, None, 3]
        times = [946684800 * 10**9, None, 946774923 * 10**9 + 4]
        assert table["t"].cast(nanos) == pa.chunked_array([pa.array(times, nanos)])


def test_polars():
    table = written(pl.DataFrame({"a": [1, None], "b": ["x", "y"]}))
    assert table.to_pydict() == {"a": [1, None], "b": ["x", "y"]}


# ---- with a schema ----

INTEGERS = {f"{sign}int{bits}": bits for sign in ["", "u"] for bits in [8, 16, 32, 64]}
INSTANT = dt.datetime(2000, 2, 29, 12, 30, 45)
TYPED = {
    pa.bool_(): [True, False],
    **{getattr(pa, name)(): [0, 1, 2.0] for name in INTEGERS},
    **{kind: [0.5, -2, 1] for kind in [pa.float16(), pa.float32(), pa.float64()]},
    **{kind: ["", "żółć", "x" * 100] for kind in [pa.string(), pa.large_string(), pa.string_view()]},
    **{kind: [b"", b"\0\xff", b"y" * 100] for kind in [pa.binary(), pa.large_binary(), pa.binary_view()]},
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.date32(): [dt.date(2000, 2, 29), dt.date.min],
    pa.date64(): [dt.date(2000, 2, 29), dt.date.max],
    **{kind: [dt.time(1, 2, 3), dt.time(23, 59, 59)] for kind in [pa.time32("s"), pa.time32("ms")]},
    **{kind: [dt.time(1, 2, 3, 4), dt.time.max] for kind in [pa.time64("us"), pa.time64("ns")]},
    **{pa.timestamp(unit): [INSTANT, dt.datetime(1969, 12, 31)] for unit in ["s", "ms", "us", "ns"]},
    pa.timestamp("ms", "UTC"): [INSTANT.replace(tzinfo=BERLIN), INSTANT.replace(tzinfo=dt.UTC)],
    **{pa.duration(unit): [dt.timedelta(days=-3, seconds=1)] for unit in ["s", "ms", "us", "ns"]},
    pa.decimal32(7, 2): [D("1.23"), D("-99999.99"), 5],
    pa.decimal64(18, 2): [D("1.2"), D("-9E+3")],
    pa.decimal128(38, 2): [D("9" * 36 + ".99"), -7],
    pa.decimal256(76, 6): [D("-" + "9" * 70 + ".123456")],
    pa.decimal128(10, -2): [D("12300"), 100],
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
def test_typed(type):
    values = TYPED[type]
    holes = [*values, None, *values]
    expected = pa.array(holes, type)
    assert column(holes, type) == expected and column([], type).type == type
    rows = written([{"x": value} for value in holes], pa.schema([("x", type)]))
    assert rows["x"].combine_chunks() == expected
    assert column(expected, type) == expected
    if None not in values:
        assert column(values, type, nullable=False) == pa.array(values, type)
        with pytest.raises((ValueError, TypeError), match=f"'x', row {len(values)}: .*not nullable"):
            column(holes, type, nullable=False)
    with pytest.raises(TypeError, match=r"column 'x', row 1: expected \w+.*, got object <object"):
        column([None, object()], type)


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
    (pa.decimal128(4, 2), [D("100")], aw.InvalidArgument, r"row 0: expected decimal128\(4, 2\)"),
    (pa.decimal128(4, 2), [D("0.001")], aw.InvalidArgument, "row 0: "),
    (pa.decimal128(4, 2), [D("NaN")], aw.InvalidArgument, "row 0: NaN"),
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
    ("type", "values", "error", "message"), REFUSED, ids=[f"{r[0]} {n}" for n, r in enumerate(REFUSED)]
)
def test_values_that_do_not_fit(type, values, error, message):
    with pytest.raises(error, match=f"column 'x'(, |.*){message}" if "row" in message else message):
        column(list(values), type)


@pytest.mark.parametrize(
    ("type", "stored"),
    [
        ("time64[ns]", pa.array([1, 86_399_999_999_999, 1_000_000_007]).cast(pa.time64("ns"))),
        ("time64[us]", pa.array([0, 1]).cast(pa.time64("us"))),
        ("decimal256(76, -3)", pa.array([D(10) ** 76 * 3, None, D("-7E+3")], pa.decimal256(76, -3))),
    ],
    ids=["nanoseconds", "microseconds", "tens"],
)
def test_values_of_rows_can_be_appended(type, stored):
    """Times with nanoseconds are of a class of NumPy's that has no name for them; Python's decimals have no end."""
    ds = aw.from_arrow(pa.table({"x": stored}))
    builder = aw.Builder(f"x: {type}")
    for row in ds:
        builder.append_row(**row)
    builder.append(ds.to_pylist())
    assert builder.finish().to_arrow()["x"].combine_chunks() == pa.concat_arrays([stored, stored])
    assert len(ds.filter(aw.col("x") == ds[0]["x"])) == 1


def test_times_outside_of_pythons_years_can_be_appended_in_their_zone():
    """Columns return NumPy's times, in UTC; times within Python's years don't say whether they are in UTC."""
    far = np.array([2**60, -(2**60), 253_402_300_800], "i8")
    for zone in ["Europe/Berlin", "+05:30", "UTC"]:
        kind = pa.timestamp("s", zone)
        stored = pa.array(far, pa.int64()).cast(kind)
        ds = aw.from_arrow(pa.table({"x": stored}))
        assert all(isinstance(row["x"], np.datetime64) for row in ds)
        builder = aw.Builder(pa.schema([("x", kind)]))
        for row in ds:
            builder.append_row(**row)
        builder.append(ds.to_pylist())
        assert builder.finish().to_arrow()["x"].combine_chunks() == pa.concat_arrays([stored, stored])
        if zone != "UTC":
            near = [np.datetime64("9999-12-31T00:00:00"), np.datetime64("2000-01-01"), np.datetime64(1, "ns")]
            for value in near:
                with pytest.raises(TypeError, match="it has no time zone"):
                    aw.Builder(pa.schema([("x", pa.timestamp("ns", zone))])).append_row(x=value)


def test_times_of_day_are_compared_with_lengths_of_days():
    """NumPy and Python have no times of day with nanoseconds: columns give their length since midnight."""
    ds = aw.from_arrow(pa.table({"t": pa.array([1, 2000, None, 86_399_999_999_999], pa.time64("ns"))}))
    assert len(ds.filter(ds["t"] == ds[0]["t"])) == 1
    assert len(ds.filter(ds["t"] <= dt.timedelta(microseconds=2))) == 2
    assert len(ds.filter(ds["t"] >= np.timedelta64(86_399_999_999_999, "ns"))) == 1
    for value in [dt.timedelta(1), dt.timedelta(-1)]:
        with pytest.raises(aw.InvalidArgument, match="can't be compared"):
            ds.filter(ds["t"] == value)


def test_what_is_lossless_fits():
    assert column([INSTANT.replace(hour=0, minute=0, second=0)], pa.date32()).to_pylist() == [INSTANT.date()]
    assert column([dt.date(2000, 1, 1)], pa.timestamp("ms")).to_pylist() == [dt.datetime(2000, 1, 1)]
    assert column([pd.Timestamp(7), pd.NaT, pd.NA], pa.timestamp("ns")).cast("int64").to_pylist() == [7, None, None]
    assert column([pd.Timedelta(7), pd.NaT], pa.duration("ns")).cast("int64").to_pylist() == [7, None]
    assert column([np.datetime64("2000-01-01T00", "s")], pa.timestamp("ms", "UTC")).cast("int64").to_pylist() == [
        946684800000
    ]
    assert column([uuid.UUID(int=1)], pa.binary(16)).to_pylist() == [bytes(15) + b"\1"]
    assert column([bytearray(b"ab"), memoryview(b"c")], pa.binary()).to_pylist() == [b"ab", b"c"]
    assert column(np.array([1.0, 2.0]), pa.int8()).to_pylist() == [1, 2]
    zoned = pa.timestamp("us", "UTC")
    assert column(np.array(["1970-01-01T00:00:01", "NaT"], "datetime64[s]"), zoned) == pa.array([10**6, None], zoned)


def test_numpy_that_does_not_fit():
    for values, type in [(np.array([1, 300]), pa.int8()), (np.array([1, 1.5]), pa.int64())]:
        with pytest.raises(aw.InvalidArgument, match=f"column 'x', row 1: expected {type}"):
            column(values, type)
    with pytest.raises(TypeError, match="column 'x', row 0: expected utf8"):
        column(np.array([1]), pa.string())


SCHEMA = pa.schema([pa.field("a", pa.int64(), False), ("b", pa.string())])


def test_columns_are_found_by_name():
    expected = pa.table({"a": [1, 2], "b": ["x", None]}, SCHEMA)
    assert written({"b": ["x", None], "a": [1, 2]}, SCHEMA) == expected
    assert written([{"b": "x", "a": 1}, {"a": 2}], SCHEMA) == expected
    assert written({"a": [1, 2]}, SCHEMA)["b"].to_pylist() == [None, None]
    assert written([], SCHEMA) == written({}, SCHEMA) == SCHEMA.empty_table()
    with pytest.raises(aw.SchemaMismatch, match="column 'a' is missing"):
        written({"b": ["x"]}, SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="column 'a', row 1: .*not nullable"):
        written([{"a": 1}, {"b": "x"}], SCHEMA)
    for data in [{"a": [1], "c": [2]}, [{"a": 1, "c": 2}], pa.table({"a": [1], "c": [2]})]:
        with pytest.raises(aw.ColumnNotFound, match="no column 'c'; there are a, b"):
            written(data, SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="column 'a', row 1: .*not nullable"):
        written(pa.table({"a": [1, None]}), SCHEMA)


def test_lengths_must_agree():
    with pytest.raises(aw.InvalidArgument, match="'a' has 1, 'b' has 2"):
        written({"a": [1], "b": np.arange(2)})


def test_what_is_no_table():
    for data in [None, 7, "abc", object()]:
        with pytest.raises(TypeError, match="expected a dict of columns, a list of dicts"):
            written(data)
    for data in [[1, 2], [{"a": 1}, None], [[1]]]:
        with pytest.raises(TypeError, match=r"row \d: expected a dict"):
            written(data)
    for column in ["abc", b"abc", 5, None, {"b": 1}]:
        with pytest.raises(TypeError, match="column 'a': expected a list"):
            written({"a": column})
    for data in [{1: [2]}, [{1: 2}]]:
        with pytest.raises(TypeError, match="name must be a str"):
            written(data)
    with pytest.raises(ZeroDivisionError):
        written({"a": (1 // n for n in [1, 0])})


def test_what_never_ends():
    inner, whole = [], np.empty((), object)
    inner.append(inner)
    whole[()] = [whole]
    for value in [inner, whole]:
        with pytest.raises(aw.InvalidArgument, match="column 'x', row 1: .* nested"):
            column([None, value])
        with pytest.raises(TypeError, match="column 'x', row 0: expected int64"):
            column([value], pa.list_(pa.int64()))
    whole[()] = whole
    for value in [whole, np.longdouble(1.5), np.complex64(1j)]:
        with pytest.raises(TypeError, match="column 'x', row 0: expected"):
            column([value])
        with pytest.raises(TypeError, match="column 'x', row 0: expected float64"):
            column([value], pa.float64())


def test_mixed_types():
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
            column(values)
    with pytest.raises(aw.InvalidArgument, match="column 'x', row 0"):
        column([2**64])


# ---- any values ----

NAIVE = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
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
    (pa.timestamp("ns"), NAIVE),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(BERLIN), min_value=dt.datetime(1950, 1, 1))),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-(10**6)), dt.timedelta(10**6))),
    (pa.decimal128(20, 5), st.decimals(-(10**14), 10**14, places=5)),
]
TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda pair: (pa.list_(pair[0]), st.lists(st.none() | pair[1], max_size=4))),
        inner.map(lambda pair: (pa.list_(pair[0], 2), st.lists(st.none() | pair[1], min_size=2, max_size=2))),
        inner.map(lambda pair: (pa.struct([("m", pair[0])]), st.fixed_dictionaries({"m": st.none() | pair[1]}))),
    ),
    max_leaves=3,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_values_as_pyarrow_has_them(data):
    type, values = data.draw(TYPES)
    values = data.draw(st.lists(st.none() | values, max_size=12))
    expected = pa.array(values, type)
    assert column(values, type) == expected
    if pa.types.is_list(type):
        assert column(expected.cast(pa.large_list(type.value_type)), type) == expected


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SCALARS).flatmap(lambda pair: st.lists(st.none() | pair[1], max_size=12)))
def test_any_values_inferred_as_pyarrow_does(values):
    try:
        expected = pa.array(values)
    except OverflowError:  # an integer beyond 64 bits, which pyarrow infers no type for
        assume(False)
    assert column(values) == expected


def test_nullable_numbers_of_pandas_keep_every_digit(tmp_path):
    large = [2**53 + 1, None, 3]
    for name, arrow in [("Int64", "int64"), ("UInt64", "uint64"), ("int64[pyarrow]", "int64")]:
        ds = written({"a": pd.array(large, dtype=name)})
        assert (ds["a"].to_pylist(), str(ds["a"].type)) == (large, arrow), name
    small = written({"a": pd.array([1, None], dtype="Int32"), "f": pd.array([1.5, None], dtype="Float32")})
    assert [str(column.type) for column in small.columns] == ["int32", "float"]
    with aw.writer(tmp_path / "t", "a: int64") as writer:
        writer.append({"a": pd.array(large, dtype="Int64")})
    assert aw.open(tmp_path / "t")["a"].to_pylist() == large
