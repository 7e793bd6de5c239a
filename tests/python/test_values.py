"""Tests the Python values of each Arrow type against pyarrow, and the reductions of columns."""

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import arrowwood as aw
from conftest import same, write_ipc

D = decimal.Decimal
NEW_YORK = "America/New_York"


def open_column(tmp_path, array, format="file"):
    """Writes the array with pyarrow and opens it as a column."""
    table = pa.table({"x": array})
    return aw.open(write_ipc(tmp_path / "x", table, format))["x"]


def make_signed(bits):
    """Returns an array of signed integers with the least and the greatest value."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return pa.array([0, 1, None, low, high], getattr(pa, f"int{bits}")())


def make_unsigned(bits):
    """Returns an array of unsigned integers with the least and the greatest value."""
    low, high = 0, 2**bits - 1
    return pa.array([0, 1, None, low, high], getattr(pa, f"uint{bits}")())


INSTANTS = [dt.datetime(2000, 2, 29, 12, 30, 45), None, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1, 1, 1)]
MAX_INSTANT = dt.datetime(9999, 12, 31, 23, 59, 59)
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("d", pa.bool_())]))])

ARRAYS = {
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False] * 5),
    **{f"int{bits}": make_signed(bits) for bits in [8, 16, 32, 64]},
    **{f"uint{bits}": make_unsigned(bits) for bits in [8, 16, 32, 64]},
    "float16": pa.array(np.array([0.5, -2, np.inf, 65504], "float16")),
    "float32": pa.array([0.1, None, math.inf, math.nan, -0.0], pa.float32()),
    "float64": pa.array([0.1, None, -math.inf, math.nan, 5e-324]),
    "decimal32": pa.array([D("1.23"), None, D("-99999.99")], pa.decimal32(7, 2)),
    "decimal64": pa.array([D("1.23"), None, D("-9999.99")], pa.decimal64(18, 2)),
    "decimal128": pa.array([D("1.23"), None, D("-" + "9" * 36 + ".99")], pa.decimal128(38, 2)),
    "decimal128 whole": pa.array([D("12300"), None], pa.decimal128(10, -2)),
    "decimal256": pa.array([D("1.50"), None, D("-" + "9" * 70 + ".123456")], pa.decimal256(76, 6)),
    "utf8": pa.array(["", "a", None, "żółć 🪵", "x" * 1000]),
    "large_utf8": pa.array(["", "a", None, "żółć 🪵"], pa.large_string()),
    "utf8_view": pa.array(["", "a", None, "żółć 🪵", "x" * 12, "x" * 13], pa.string_view()),
    "binary": pa.array([b"", b"\0\xff", None]),
    "large_binary": pa.array([b"", b"\0\xff", None], pa.large_binary()),
    "binary_view": pa.array([b"", b"\0\xff", None, b"y" * 100], pa.binary_view()),
    "fixed_size_binary": pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)),
    "date32": pa.array([dt.date(2000, 2, 29), None, dt.date.min, dt.date.max, dt.date(1900, 3, 1)]),
    "date64": pa.array([dt.date(2000, 2, 29), None, dt.date(1, 1, 1), dt.date(1969, 12, 31)], pa.date64()),
    "time32 s": pa.array([dt.time(1, 2, 3), None, dt.time(23, 59, 59)], pa.time32("s")),
    "time32 ms": pa.array([dt.time(1, 2, 3, 4000), None, dt.time.min], pa.time32("ms")),
    "time64 us": pa.array([dt.time(1, 2, 3, 4), None, dt.time.max], pa.time64("us")),
    "time64 ns": pa.array([dt.time(1, 2, 3, 4), None, dt.time.max], pa.time64("ns")),
    **{f"timestamp {unit}": pa.array([*INSTANTS, MAX_INSTANT], pa.timestamp(unit)) for unit in ["s", "ms", "us"]},
    "timestamp ns": pa.array([*INSTANTS[:3], dt.datetime(2262, 4, 11)], pa.timestamp("ns")),
    "timestamp UTC": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
    "timestamp zone": pa.array(INSTANTS[:3], pa.timestamp("ms", NEW_YORK)),
    "timestamp zone ns": pa.array(INSTANTS[:3], pa.timestamp("ns", NEW_YORK)),
    "timestamp offset": pa.array(INSTANTS[:3], pa.timestamp("s", "+05:30")),
    "timestamp offset west": pa.array(INSTANTS[:3], pa.timestamp("s", "-08:00")),
    "duration": pa.array(
        [dt.timedelta(days=-3, seconds=1), None, dt.timedelta(days=100_000_000, microseconds=7)], pa.duration("us")
    ),
    "duration s": pa.array([0, None, -1, 86400 * 400], pa.duration("s")),
    "duration ns": pa.array([1000, None, -1000, 10**15], pa.duration("ns")),
    "interval": pa.array([(1, -2, 3), None, (-14, 400, -(10**15))], pa.month_day_nano_interval()),
    "list": pa.array([[1, None], None, [], [3]]),
    "large_list": pa.array([["a", None], None, [], ["c"]], pa.large_list(pa.string())),
    "list_view": pa.array([[1, None], None, [], [3]], pa.list_view(pa.int64())),
    "large_list_view": pa.array([[1, None], None, [], [3]], pa.large_list_view(pa.int64())),
    "fixed_size_list": pa.array([[1, None], None, [3, 4]], pa.list_(pa.int8(), 2)),
    "list of lists": pa.array([[[1], [], None], None, [[2, 3]]]),
    "struct": pa.array([{"a": 1, "b": "x", "c": {"d": True}}, None, {"a": None, "b": None, "c": None}], STRUCT),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "dictionary of numbers": pa.array([1.5, None, 2.5, 1.5]).dictionary_encode(),
    "dictionary of dates": pa.array([dt.date(2000, 1, 1), None, dt.date(2000, 1, 1)]).dictionary_encode(),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays([2, 3, 6], ["a", None, "c"]),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([1, None]), pa.array(["a", "b"])],
    ),
    "sparse_union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, None, None]), pa.array(["a", "b", "c"])]
    ),
    "list of struct": pa.array([[{"a": 1}, None], None, []], pa.list_(pa.struct([("a", pa.int8())]))),
    "map of map": pa.array([[(1, [("k", 2)])]], pa.map_(pa.int8(), pa.map_(pa.string(), pa.int8()))),
}


@pytest.mark.parametrize("format", ["file", "stream"])
@pytest.mark.parametrize("name", ARRAYS)
def test_values_match_pyarrow(tmp_path, name, format):
    array = ARRAYS[name]
    expected = array.to_pylist()
    column = open_column(tmp_path, array, format)
    by_index = [column[i] for i in range(len(column))]
    for values in (column.to_pylist(), list(column), by_index):
        assert same(values, expected)
        for value, expected_value in zip(values, expected, strict=True):
            assert has_comparable_type(value, expected_value)
    assert same(column[1:].to_pylist(), expected[1:])
    assert column.null_count == expected.count(None)
    assert same([column[-1]], expected[-1:])


def has_comparable_type(value, expected):
    """Returns whether a value has the type of pyarrow's, as far as both use types of the standard library."""
    # pyarrow returns nanoseconds as types of pandas.
    if hasattr(expected, "to_pydatetime") or hasattr(expected, "to_pytimedelta"):
        return True
    # pyarrow has its own type of intervals, which is a tuple, and returns half floats as NumPy's.
    if isinstance(expected, tuple | np.floating):
        return True
    return isinstance(value, type(expected))


@pytest.mark.parametrize(("zone", "offset_hours"), [(NEW_YORK, -5), ("UTC", 0), ("+05:30", 5.5), ("Asia/Kolkata", 5.5)])
def test_timestamps_have_their_zone(tmp_path, zone, offset_hours):
    midnight = dt.datetime(2000, 1, 1)
    value = open_column(tmp_path, pa.array([midnight], pa.timestamp("ms", zone)))[0]
    assert value.utcoffset() == dt.timedelta(hours=offset_hours)
    assert value == midnight.replace(tzinfo=dt.UTC)


def test_timestamps_have_daylight_saving_time(tmp_path):
    value = open_column(tmp_path, pa.array([dt.datetime(2000, 7, 1)], pa.timestamp("ns", NEW_YORK)))[0]
    assert value.utcoffset() == dt.timedelta(hours=-4)
    assert value.tzinfo.key == NEW_YORK


def test_fold_distinguishes_a_repeated_hour(tmp_path):
    # The clocks in New York went from 2 am to 1 am between these instants, which are in UTC.
    instants = [dt.datetime(2024, 11, 3, 5, 30), dt.datetime(2024, 11, 3, 6, 30)]
    before, after = open_column(tmp_path, pa.array(instants, pa.timestamp("s", NEW_YORK)))
    assert (before.hour, before.fold) == (1, 0)
    assert (after.hour, after.fold) == (1, 1)


def test_unknown_zone_is_named(tmp_path):
    column = open_column(tmp_path, pa.array([0], pa.timestamp("s", "Mars/Olympus")))
    with pytest.raises(aw.Unsupported, match="Mars/Olympus"):
        column[0]
    assert column.to_numpy()[0] == np.datetime64(0, "s")


@pytest.mark.parametrize(
    ("type", "raw", "expected"),
    [
        (pa.timestamp("ns"), 1, np.datetime64(1, "ns")),
        (pa.timestamp("ns", "UTC"), 1_001, np.datetime64(1_001, "ns")),
        (pa.timestamp("s"), 253402300800, np.datetime64("10000-01-01T00:00:00", "s")),
        (pa.timestamp("s"), -62135596801, np.datetime64(-62135596801, "s")),
        (pa.timestamp("s", "UTC"), 2**62, np.datetime64(2**62, "s")),
        (pa.timestamp("s", "+05:30"), 253402300799, np.datetime64(253402300799, "s")),
        (pa.timestamp("s", NEW_YORK), -62135596800, np.datetime64(-62135596800, "s")),
        (pa.date32(), 2932897, np.datetime64(2932897, "D")),
        (pa.date32(), -(2**31), np.datetime64(-(2**31), "D")),
        (pa.duration("ns"), -1, np.timedelta64(-1, "ns")),
        (pa.duration("s"), 2**62, np.timedelta64(2**62, "s")),
        (pa.time64("ns"), 5, np.timedelta64(5, "ns")),
    ],
)
def test_values_out_of_range_for_python_are_numpy_values(tmp_path, type, raw, expected):
    storage = pa.int32() if type.bit_width == 32 else pa.int64()
    value = open_column(tmp_path, pa.array([raw], storage).view(type))[0]
    assert value == expected
    assert value.dtype == expected.dtype


@pytest.mark.parametrize(
    "type",
    [pa.timestamp("s"), pa.timestamp("ns", NEW_YORK), pa.date64(), pa.time64("us"), pa.duration("ms")],
    ids=str,
)
def test_extreme_raw_values_do_not_crash(tmp_path, type):
    column = open_column(tmp_path, pa.array([2**63 - 1, -(2**63)], pa.int64()).view(type))
    assert len(column.to_pylist()) == 2


def test_decimals_are_exact_and_keep_their_scale(tmp_path):
    column = open_column(tmp_path, pa.array([D("1.20"), D("0.00"), D("-3.07")], pa.decimal128(30, 2)))
    assert [str(value) for value in column] == ["1.20", "0.00", "-3.07"]
    assert column.sum() == D("-1.87")


def test_decimals_do_not_depend_on_the_context(tmp_path):
    with decimal.localcontext() as context:
        context.prec = 3
        assert str(open_column(tmp_path, ARRAYS["decimal256"])[2]) == "-" + "9" * 70 + ".123456"


def test_intervals_have_named_fields(tmp_path):
    value = open_column(tmp_path, ARRAYS["interval"])[0]
    assert value == aw.MonthDayNano(1, -2, 3)
    assert (value.months, value.days, value.nanoseconds) == (1, -2, 3)


def test_struct_with_duplicate_field_names_is_refused(tmp_path):
    array = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(aw.InvalidArgument, match="'a'"):
        open_column(tmp_path, array)[0]


def test_extension_types_keep_their_names(tmp_path):
    array = pa.array([b"0123456789abcdef"], pa.uuid())
    column = open_column(tmp_path, array)
    assert column[0] == array[0].as_py()
    assert column.field.metadata["ARROW:extension:name"] == "arrow.uuid"
    assert column.to_arrow().type == pa.uuid()


@pytest.mark.parametrize("name", ["int8", "int64", "uint64", "float32", "float64", "bool", "decimal128", "utf8"])
def test_reductions_match_pyarrow_and_numpy(tmp_path, name):
    array = ARRAYS[name]
    column = open_column(tmp_path, array)
    assert column.count() == len(array) - array.null_count
    # These floats contain NaN, which pyarrow ignores.
    if name not in ("float32", "float64"):
        assert column.min() == pc.min(array).as_py()
        assert column.max() == pc.max(array).as_py()
    if name == "utf8":
        with pytest.raises(aw.Unsupported, match="'x'"):
            column.sum()
    elif name != "decimal128":
        numbers = [float(value) for value in array.to_pylist() if value is not None]
        assert same(float(column.sum()), float(np.sum(numbers)))
        assert isinstance(column.mean(), float)


def test_reductions_of_an_empty_column(tmp_path):
    column = open_column(tmp_path, pa.array([], pa.int64()))
    assert column.sum() == 0
    assert column.count() == 0
    assert column.mean() is None
    assert column.min() is None
    assert column.max() is None


def test_sums_of_integers_do_not_wrap(tmp_path):
    assert open_column(tmp_path, pa.array([2**63 - 1] * 3)).sum() == 3 * (2**63 - 1)
