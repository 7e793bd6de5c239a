"""Arrow data of others that is cut anywhere, also inside: what comes in is what pyarrow says it is."""

import datetime as dt
import decimal
import io

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arrowwood as aw
from conftest import same

LEAVES = {
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


def slices(array, draw, rows):
    """`rows` rows of an array that has more."""
    return array.slice(draw(st.integers(0, len(array) - rows)), rows)


@st.composite
def arrays(draw, rows, depth=3):
    """An array of `rows` rows of some type, cut out of a longer one, as are the arrays inside of it."""
    more = rows + draw(st.integers(0, 3))
    inside = lambda count: draw(arrays(count, depth - 1))
    kinds = (
        ["leaf"] if depth == 0 else ["leaf", "struct", "list", "fixed", "map", "dictionary", "sparse", "dense", "runs"]
    )
    mask = pa.array(draw(st.lists(st.booleans(), min_size=more, max_size=more)), pa.bool_())
    match draw(st.sampled_from(kinds)):
        case "leaf":
            kind = draw(st.sampled_from(list(LEAVES)))
            values = draw(st.lists(st.none() | LEAVES[kind], min_size=more, max_size=more))
            made = pa.array(values, kind)
        case "struct":
            children = [inside(more) for _ in range(draw(st.integers(1, 3)))]
            made = pa.StructArray.from_arrays(children, [f"m{n}" for n in range(len(children))], mask=mask)
        case "list":
            lengths = draw(st.lists(st.integers(0, 3), min_size=more, max_size=more))
            ends = [sum(lengths[:n]) for n in range(more + 1)]
            kind = draw(st.sampled_from([pa.ListArray, pa.LargeListArray]))
            offsets = pa.array(ends, pa.int32() if kind is pa.ListArray else pa.int64())
            made = kind.from_arrays(offsets, inside(ends[-1]), mask=mask)
        case "fixed":
            size = draw(st.integers(1, 3))
            made = pa.FixedSizeListArray.from_arrays(inside(more * size), size, mask=mask)
        case "map":
            lengths = draw(st.lists(st.integers(0, 2), min_size=more, max_size=more))
            ends = [sum(lengths[:n]) for n in range(more + 1)]
            keys = slices(pa.array([f"k{n}" for n in range(ends[-1] + 2)]), draw, ends[-1])
            made = pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, inside(ends[-1]), mask=mask)
        case "dictionary":
            values = inside(draw(st.integers(1, 4)))
            keys = draw(st.lists(st.none() | st.integers(0, len(values) - 1), min_size=more, max_size=more))
            made = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), values)
        case "sparse":
            types = pa.array(draw(st.lists(st.integers(0, 1), min_size=more, max_size=more)), pa.int8())
            made = pa.UnionArray.from_sparse(types, [inside(more), inside(more)])
        case "dense":
            children = [inside(3), inside(2)]
            types = draw(st.lists(st.integers(0, 1), min_size=more, max_size=more))
            # Those of one child may not go back.
            at = {n: iter(sorted(draw(st.integers(0, len(children[n]) - 1)) for t in types if t == n)) for n in (0, 1)}
            offsets = pa.array([next(at[n]) for n in types], pa.int32())
            made = pa.UnionArray.from_dense(pa.array(types, pa.int8()), offsets, children)
        case "runs":
            # pyarrow has no runs of runs.
            values = draw(
                arrays(more or 1, depth - 1).filter(lambda array: not pa.types.is_run_end_encoded(array.type))
            )
            ends = pa.array(range(1, len(values) + 1), pa.int32())
            made = pa.RunEndEncodedArray.from_arrays(ends, values)
    return slices(made, draw, rows)


def expected(array):
    return array.to_pylist()


def written(data):
    """Returns the rows that we write, read by pyarrow."""
    sink = io.BytesIO()
    aw.write(data, sink, format="stream")
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_arrays_that_are_cut_anywhere(data):
    draw = data.draw
    rows = draw(st.integers(0, 5))
    array = draw(arrays(rows))
    values = expected(array)
    table = pa.table({"x": array})
    alone = [] if pa.types.is_struct(array.type) else [aw.from_arrow(array)]
    for made in (aw.from_arrow(table), aw.from_arrow(pa.record_batch([array], ["x"])), *alone):
        assert same(made.column(0).to_pylist(), values), array.type
        start = draw(st.integers(0, rows))
        assert same(made[start:].column(0).to_pylist(), values[start:]), array.type
    ds = aw.from_arrow(table)
    assert ds["x"].null_count == sum(value is None for value in values)
    back = ds.to_arrow()
    back.validate(full=True)
    assert same(back["x"].to_pylist(), values)
    order = draw(st.lists(st.integers(0, rows - 1), max_size=4)) if rows else []
    assert same(ds.take(order)["x"].to_pylist(), [values[row] for row in order])
    calls = [lambda: aw.concat([ds, ds[1:]]).collect()["x"].to_pylist(), lambda: built(table)]
    for call in [lambda: written(table)["x"].to_pylist(), *calls]:
        try:
            found = call()
        except aw.Unsupported:
            continue
        assert same(found, values + values[1:] if len(found) > rows else values)


def built(table):
    builder = aw.Builder(table.schema)
    builder.append(table)
    return builder.finish()["x"].to_pylist()


CUT = {
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


@pytest.mark.parametrize("array", CUT.values(), ids=CUT)
def test_a_table_without_its_first_row(array, tmp_path):
    table = pa.table({"x": array, "n": range(len(array))})
    for cut in (table[1:], table[1:2], table[:-1], table[2:2]):
        values = cut["x"].to_pylist()
        assert aw.from_arrow(cut)["x"].to_pylist() == values
        assert written(cut)["x"].to_pylist() == values
        try:
            assert built(cut.select(["x"])) == values
        except aw.Unsupported as problem:
            assert "union" in str(problem) or "dictionary" in str(problem)


def test_decimals_that_are_cut(tmp_path):
    numbers = [decimal.Decimal(n) / 4 for n in range(10)]
    table = pa.table({"x": pa.array([{"d": n} for n in numbers], pa.struct({"d": pa.decimal64(9, 2)}))})[3:7]
    assert [row["d"] for row in aw.from_arrow(table)["x"].to_pylist()] == numbers[3:7]
