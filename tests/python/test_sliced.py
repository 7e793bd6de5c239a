"""Tests the import of pyarrow arrays that are slices of longer arrays, also at inner levels of nested types."""

import datetime as dt
import decimal
import io
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arrowwood as aw
from conftest import same

LEAF_VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=4),
    pa.large_binary(): st.binary(max_size=4),
    pa.string_view(): st.text(max_size=20),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.null(): st.none(),
    pa.decimal128(9, 2): st.decimals(-1000, 1000, places=2),
    pa.decimal32(5, 1): st.decimals(-1000, 1000, places=1),
    pa.timestamp("us", "UTC"): st.datetimes(
        dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)
    ),
    pa.date32(): st.dates(),
}

NESTED_LAYOUTS = ["struct", "list", "fixed", "map", "dictionary", "sparse", "dense", "runs"]


def draw_slice(draw, array: pa.Array, rows: int) -> pa.Array:
    """Returns ``rows`` rows of an array, from a random start."""
    start = draw(st.integers(0, len(array) - rows))
    return array.slice(start, rows)


def draw_integers(draw, low: int, high: int, count: int) -> list[int]:
    return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))


def draw_offsets(draw, max_length: int, count: int) -> list[int]:
    """Returns the offsets of ``count`` lists of at most ``max_length`` values."""
    lengths = draw_integers(draw, 0, max_length, count)
    return [sum(lengths[:n]) for n in range(count + 1)]


def draw_dense_union(draw, children: list[pa.Array], rows: int) -> pa.Array:
    types = draw_integers(draw, 0, len(children) - 1, rows)
    # The offsets into one child must not decrease.
    child_offsets = {}
    for number, child in enumerate(children):
        offsets = [draw(st.integers(0, len(child) - 1)) for _ in range(types.count(number))]
        child_offsets[number] = iter(sorted(offsets))
    offsets = [next(child_offsets[number]) for number in types]
    return pa.UnionArray.from_dense(pa.array(types, pa.int8()), pa.array(offsets, pa.int32()), children)


@st.composite
def arrays(draw, rows: int, depth: int = 3) -> pa.Array:
    """Generates an array of ``rows`` rows and of any type. It is a slice of a longer array, and so are its children."""
    length = rows + draw(st.integers(0, 3))

    def draw_child(count):
        return draw(arrays(count, depth - 1))

    layouts = ["leaf"] if depth == 0 else ["leaf", *NESTED_LAYOUTS]
    mask = pa.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), pa.bool_())
    match draw(st.sampled_from(layouts)):
        case "leaf":
            data_type = draw(st.sampled_from(list(LEAF_VALUES)))
            values = draw(st.lists(st.none() | LEAF_VALUES[data_type], min_size=length, max_size=length))
            array = pa.array(values, data_type)
        case "struct":
            children = [draw_child(length) for _ in range(draw(st.integers(1, 3)))]
            array = pa.StructArray.from_arrays(children, [f"m{n}" for n in range(len(children))], mask=mask)
        case "list":
            offsets = draw_offsets(draw, 3, length)
            list_class = draw(st.sampled_from([pa.ListArray, pa.LargeListArray]))
            offset_type = pa.int32() if list_class is pa.ListArray else pa.int64()
            array = list_class.from_arrays(pa.array(offsets, offset_type), draw_child(offsets[-1]), mask=mask)
        case "fixed":
            size = draw(st.integers(1, 3))
            array = pa.FixedSizeListArray.from_arrays(draw_child(length * size), size, mask=mask)
        case "map":
            offsets = draw_offsets(draw, 2, length)
            entries = offsets[-1]
            keys = draw_slice(draw, pa.array([f"k{n}" for n in range(entries + 2)]), entries)
            array = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, draw_child(entries), mask=mask)
        case "dictionary":
            values = draw_child(draw(st.integers(1, 4)))
            key = st.none() | st.integers(0, len(values) - 1)
            keys = draw(st.lists(key, min_size=length, max_size=length))
            array = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), values)
        case "sparse":
            types = pa.array(draw_integers(draw, 0, 1, length), pa.int8())
            array = pa.UnionArray.from_sparse(types, [draw_child(length), draw_child(length)])
        case "dense":
            array = draw_dense_union(draw, [draw_child(3), draw_child(2)], length)
        case "runs":
            # pyarrow doesn't support runs whose values are run-end encoded, too.
            values = draw(
                arrays(length or 1, depth - 1).filter(lambda array: not pa.types.is_run_end_encoded(array.type))
            )
            ends = pa.array(range(1, len(values) + 1), pa.int32())
            array = pa.RunEndEncodedArray.from_arrays(ends, values)
    return draw_slice(draw, array, rows)


def write_stream(data) -> list:
    """Returns the values of the column `x` after we wrote it and pyarrow read it."""
    sink = io.BytesIO()
    aw.write(data, sink, format="stream")
    return pa.ipc.open_stream(sink.getvalue()).read_all()["x"].to_pylist()


def build(table: pa.Table) -> list:
    """Returns the values of the column `x` after a builder gathered the table."""
    builder = aw.Builder(table.schema)
    builder.append(table)
    return builder.finish()["x"].to_pylist()


def call_if_supported(function: Callable[[], list]) -> list | None:
    """Returns the result, or None if the function does not support the type of the column."""
    try:
        return function()
    except aw.Unsupported:
        return None


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_sliced_arrays_keep_their_values(data):
    draw = data.draw
    rows = draw(st.integers(0, 5))
    array = draw(arrays(rows))
    values = array.to_pylist()
    table = pa.table({"x": array})

    imported = [aw.from_arrow(table), aw.from_arrow(pa.record_batch([array], ["x"]))]
    # A struct array is imported as several columns.
    if not pa.types.is_struct(array.type):
        imported.append(aw.from_arrow(array))
    for ds in imported:
        assert same(ds.column(0).to_pylist(), values), array.type
        start = draw(st.integers(0, rows))
        assert same(ds[start:].column(0).to_pylist(), values[start:]), array.type

    ds = aw.from_arrow(table)
    assert ds["x"].null_count == values.count(None)
    exported = ds.to_arrow()
    exported.validate(full=True)
    assert same(exported["x"].to_pylist(), values)
    order = draw(st.lists(st.integers(0, rows - 1), max_size=4)) if rows else []
    assert same(ds.take(order)["x"].to_pylist(), [values[row] for row in order])

    for copy_values in (write_stream, build):
        copied = call_if_supported(lambda: copy_values(table))
        assert copied is None or same(copied, values)
    collected = call_if_supported(lambda: aw.concat([ds, ds[1:]]).collect()["x"].to_pylist())
    assert collected is None or same(collected, values + values[1:])


NESTED_ARRAYS = {
    "struct in struct": pa.array([{"s": {"t": 1}}, {"s": None}, {"s": {"t": 3}}]),
    "fixed-size list of struct": pa.array(
        [[{"a": 1}, None], None, [{"a": 2}, {"a": None}]], pa.list_(pa.struct({"a": pa.int8()}), 2)
    ),
    "list of struct": pa.array([[{"a": 1}, None], None, [{"a": 2}]]),
    "dictionary of struct": pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0]), pa.array([{"a": 0}, {"a": 1}, {"a": 2}]).slice(1)
    ),
    "sparse union of struct": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([{"a": 1}, {"a": 2}, None]), pa.array([{"b": 1}, {"b": None}, None])]
    ),
    "map of struct": pa.array(
        [[("k", {"a": 1})], None, [("l", None)]], pa.map_(pa.string(), pa.struct({"a": pa.int8()}))
    ),
}


@pytest.mark.parametrize("array", NESTED_ARRAYS.values(), ids=NESTED_ARRAYS)
def test_sliced_tables_keep_their_values(array):
    table = pa.table({"x": array, "n": range(len(array))})
    for part in (table[1:], table[1:2], table[:-1], table[2:2]):
        values = part["x"].to_pylist()
        assert aw.from_arrow(part)["x"].to_pylist() == values
        assert write_stream(part) == values
        try:
            assert build(part.select(["x"])) == values
        except aw.Unsupported as error:
            assert "union" in str(error) or "dictionary" in str(error)


def test_sliced_decimals_in_a_struct_keep_their_values():
    numbers = [decimal.Decimal(n) / 4 for n in range(10)]
    column = pa.array([{"d": n} for n in numbers], pa.struct({"d": pa.decimal64(9, 2)}))
    ds = aw.from_arrow(pa.table({"x": column})[3:7])
    assert [row["d"] for row in ds["x"].to_pylist()] == numbers[3:7]
