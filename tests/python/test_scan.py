"""Tests that lazy Polars frames over datasets give the same results as Polars gives over its own frames."""

import datetime as dt
import functools
import gc
import math
import operator
import pathlib
import random
import re
import shutil

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from arrowwood._engines import polars_scan as _scan
from conftest import error_without_module, write_damaged_text, write_ipc

UTC = dt.UTC


def make_column(rng, values, type):
    """Returns 2,000 random choices of `values`, one in ten of which is null."""
    return pa.array([None if rng.random() < 0.1 else rng.choice(values) for _ in range(2_000)], type)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The path of a file with nulls in all columns, NaN, infinities, and zeros of both signs."""
    column = functools.partial(make_column, random.Random(1))
    start = dt.datetime(2020, 1, 1)
    words = ["a", "B", "", "zebra", "ä", "a longer text than twelve bytes"]
    table = pa.table(
        {
            "f": column([0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf, 100.25], pa.float64()),
            "g": column([0.1, math.nan, 1.5, 2.0], pa.float32()),
            "i": column([*range(-5, 6), 2**62], pa.int64()),
            "u": column([0, 1, 200, 255], pa.uint8()),
            "s": column(words, pa.string()),
            "v": column(words, pa.string_view()),
            "k": column(words, pa.string()).dictionary_encode(),
            "b": column([True, False], pa.bool_()),
            "d": column([start.date() + dt.timedelta(n) for n in range(5)], pa.date32()),
            "t": column([start + dt.timedelta(n) for n in range(5)], pa.timestamp("us")),
            "z": column([start + dt.timedelta(n) for n in range(5)], pa.timestamp("s", "UTC")),
            "w": column([dt.timedelta(n) for n in range(5)], pa.duration("us")),
            "l": column([[1], [], None], pa.list_(pa.int64())),
        }
    )
    return write_ipc(tmp_path_factory.mktemp("scan") / "x.arrow", table, max_rows=300)


# Values that each column is compared with.
VALUES = {
    "f": [0.0, 1.5, math.nan, math.inf, 3],
    "g": [0.1, 1.5, 2],
    "i": [0, 3, 2.5, 2**62, 2**62 + 1],
    "u": [1, 255, 300, -1],
    "s": ["a", "b", "", "ä"],
    "v": ["a", "a longer text than twelve bytes"],
    "k": ["a", "nowhere"],
    "b": [True, False],
    "d": [dt.date(2020, 1, 3), dt.datetime(2020, 1, 3, 12)],
    "t": [dt.datetime(2020, 1, 3), dt.date(2020, 1, 3), dt.datetime(2020, 1, 3, 0, 0, 0, 1)],
    "z": [dt.datetime(2020, 1, 3, tzinfo=UTC), dt.datetime(2020, 1, 3, 0, 0, 0, 1, tzinfo=UTC)],
    "w": [dt.timedelta(2)],
}


def simple_conditions():
    """Yields conditions without `and` and `or`: comparisons of each column, and some of other kinds."""
    for name, values in VALUES.items():
        column = pl.col(name)
        for value in values:
            yield from [column == value, column != value, column.eq_missing(value)]
            if name != "b":
                yield from [column < value, column <= value, column > value, column >= value]
        yield column.is_in([value for value in values if type(value) is type(values[0])])
        yield from [column.is_null(), column.is_not_null()]
        if name not in ("k", "b"):
            for closed in ["both", "left", "right", "none"]:
                yield column.is_between(values[0], values[1 % len(values)], closed=closed)
    yield from [
        pl.col("b"),
        ~pl.col("b"),
        pl.col("f").is_nan(),
        pl.col("s").str.len_bytes() > 2,
        pl.col("f") > pl.col("g"),
    ]
    yield pl.col("l").list.len() == 1


def collect_or_error_type(lazy):
    try:
        return lazy.collect()
    except pl.exceptions.PolarsError as e:
        return type(e)


def assert_same_result(actual, expected):
    """Checks that two lazy frames give the same columns and rows, or fail with the same type of error."""
    actual, expected = collect_or_error_type(actual), collect_or_error_type(expected)
    if isinstance(expected, type):
        assert actual is expected
    else:
        assert actual.equals(expected, null_equal=True) and actual.schema == expected.schema


def assert_same_filtered(ours, polars, condition):
    assert_same_result(ours.filter(condition), polars.filter(condition))


def test_simple_conditions_select_the_same_rows(path):
    ours, polars = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    for condition in simple_conditions():
        assert_same_filtered(ours, polars, condition)
        assert_same_filtered(ours, polars, ~condition)


def test_random_compound_conditions_select_the_same_rows(path):
    ours, polars = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    rng, conditions = random.Random(2), list(simple_conditions())
    for _ in range(400):
        a, b, c = rng.sample(conditions, 3)
        condition = rng.choice([a & b, a | b, a & b | c, (a | b) & c, ~(a & b), ~(a | b) & ~c, a ^ b, a & b & c])
        assert_same_filtered(ours, polars, condition)


def test_common_conditions_are_translated(path):
    """Without this test, a translation that left all conditions to Polars would pass."""
    schema = pl.DataFrame(aw.open(path).head(0)).schema
    is_translated = {}
    for name, value in [
        ("f", 1.5),
        ("i", 3),
        ("s", "a"),
        ("v", "a"),
        ("k", "a"),
        ("d", VALUES["d"][0]),
        ("t", VALUES["t"][0]),
        ("z", VALUES["z"][0]),
    ]:
        literal = pl.lit(value, pl.String if name == "k" else schema[name])
        condition = _scan._Condition(aw.open(path), pl.col(name) != literal)
        is_translated[name] = condition.is_exact and condition.predicate is not None
    assert all(is_translated.values()), is_translated
    partly_known = (pl.col("s") == "a") & (pl.col("s").str.len_bytes() > 2)
    condition = _scan._Condition(aw.open(path), partly_known)
    assert condition.predicate is not None and not condition.is_exact


def test_projections_slices_and_groups_give_the_same_rows(path):
    ours, polars = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    positive = pl.col("i") > 0
    for query in [
        lambda lazy: lazy,
        lambda lazy: lazy.select("s", "f"),
        lambda lazy: lazy.select(pl.len()),
        lambda lazy: lazy.head(7),
        lambda lazy: lazy.head(0),
        lambda lazy: lazy.tail(3),
        lambda lazy: lazy.slice(5, 10),
        lambda lazy: lazy.head(50).filter(positive),
        lambda lazy: lazy.filter(positive).head(50),
        lambda lazy: lazy.filter(positive).select("s"),
        lambda lazy: lazy.with_columns(x=pl.col("i") * 2).filter(pl.col("x") > 2).select("x"),
        lambda lazy: lazy.rename({"i": "j"}).filter(pl.col("j") == 3),
        lambda lazy: lazy.filter(positive).group_by("k", maintain_order=True).agg(pl.col("i").sum()),
    ]:
        assert_same_result(query(ours), query(polars))


def test_small_pieces_give_the_same_rows(path, monkeypatch):
    monkeypatch.setattr(_scan, "_BATCH_ROWS", 123)
    test_projections_slices_and_groups_give_the_same_rows(path)
    rows = aw.scan(path).filter(pl.col("k") == "a").collect(engine="streaming")
    assert len(rows) == aw.open(path).filter(aw.col("k") == "a")["k"].count()


def test_scan_reads_the_commit_that_was_newest_when_it_was_called(tmp_path):
    with aw.writer(tmp_path / "t", pa.schema({"n": pa.int64()})) as writer:
        assert aw.scan(tmp_path / "t").collect().shape == (0, 1)
        writer.append({"n": [1, 2]})
        writer.commit()
        lazy = aw.scan(tmp_path / "t")
        writer.append({"n": [3]})
        writer.commit()
        assert lazy.collect()["n"].to_list() == [1, 2]
        assert aw.scan(aw.open(tmp_path / "t")).collect()["n"].to_list() == [1, 2, 3]


@pytest.mark.parametrize(
    "type", [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("ms"), pa.timestamp("s", "UTC")]
)
def test_bounds_of_a_sorted_column_select_the_same_rows(tmp_path, type):
    storage = pa.int32() if type == pa.date32() else pa.int64()
    values = pa.array([0, 1, 1, 1, 2, 5, 5, 9], storage).cast(type)
    schema = pa.schema([pa.field("k", type, nullable=False)])
    with aw.writer(tmp_path / "t", schema, sorted_by="k", segment_rows=16) as writer:
        writer.append(pa.table({"k": values}))
        writer.commit()
    ours, polars = aw.scan(tmp_path / "t"), pl.DataFrame(aw.open(tmp_path / "t")).lazy()
    k = pl.col("k")
    for value in polars.collect()["k"]:
        for condition in [
            k == value,
            k < value,
            k <= value,
            k > value,
            k >= value,
            k.is_between(value, value),
            k != value,
        ]:
            assert_same_filtered(ours, polars, condition)
            assert_same_filtered(ours, polars, condition & (k >= value))
            assert_same_filtered(ours, polars, condition | (k == value))


def test_errors_name_the_cause(tmp_path, path):
    with pytest.raises(aw.NotFound):
        aw.scan(tmp_path / "nowhere")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        aw.scan(path).filter(pl.col("nope") > 1).collect()
    damaged = write_damaged_text(tmp_path / "text.arrow")
    with pytest.raises(pl.exceptions.ComputeError, match="(?i)utf-?8"):
        aw.scan(damaged).collect()
    expected = "ImportError: scan() needs polars; install it: pip install 'arrowwood[polars]'"
    assert error_without_module("polars", "aw.scan('x')") == expected


SORTED_ROWS = 20_000_000


@pytest.fixture(scope="module")
def sorted_table(tmp_path_factory):
    """The path of a table with one row per millisecond, sorted by time; `price` is half the row's number."""
    path = tmp_path_factory.mktemp("sorted") / "t"
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us"), nullable=False),
            pa.field("price", pa.float64()),
            pa.field("qty", pa.int64()),
        ]
    )
    batch_rows = SORTED_ROWS // 10
    with aw.writer(path, schema, sorted_by="ts", sync="never") as writer:
        for start in range(0, SORTED_ROWS, batch_rows):
            n = np.arange(start, start + batch_rows)
            writer.append({"ts": (n * 1000).astype("datetime64[us]"), "price": n * 0.5, "qty": n % 1000})
            writer.commit()
    yield path
    shutil.rmtree(path)


def touched_bytes(path):
    """Returns how many bytes of the files below `path` are in this process's page tables.

    These are the pages that the process has read, and up to 64 KiB around each. Unlike the number of pages in the page
    cache, it doesn't depend on how far a disk reads ahead.
    """
    smaps = pathlib.Path("/proc/self/smaps").read_text()
    sizes = re.findall(rf"{re.escape(str(path))}/.*?\nRss:\s*(\d+) kB", smaps, re.S)
    return sum(map(int, sizes)) << 10


@pytest.mark.parametrize("method", ["between", "filter", "aggregate", "scan"])
def test_a_thousandth_of_a_sorted_table_touches_a_hundredth_of_it(sorted_table, method):
    table_bytes = sum(file.stat().st_size for file in sorted_table.iterdir())
    assert touched_bytes(sorted_table) == 0
    ds = aw.open(sorted_table)
    first_row, rows = 3_000_000, SORTED_ROWS // 1000
    expected = sum(n * 0.5 for n in range(first_row, first_row + rows))
    low, high = first_row * 1000, (first_row + rows) * 1000  # microseconds, without the last one
    epoch = dt.datetime(1970, 1, 1)
    start, end = (epoch + dt.timedelta(microseconds=n) for n in (low, high))
    predicate = (aw.col("ts") >= start) & (aw.col("ts") < end)
    if method == "between":
        total = ds.between(low, high - 1)["price"].sum()
    elif method == "filter":
        total = ds.filter(predicate)["price"].sum()
    elif method == "aggregate":
        total = ds.aggregate(where=predicate, sum=("price", "sum"))[0]["sum"]
    else:
        lazy = aw.scan(ds).filter((pl.col("ts") >= start) & (pl.col("ts") < end))
        total = lazy.select(pl.col("price").sum()).collect().item()
        del lazy
    assert total == pytest.approx(expected, rel=1e-12)
    touched = touched_bytes(sorted_table)
    assert 0 < touched <= table_bytes * 0.01, f"{touched:,} of {table_bytes:,} bytes"
    # Reading a whole column touches more, so the count works.
    ds["qty"].sum()
    assert touched_bytes(sorted_table) > table_bytes * 0.3
    # Unmap the table for the next test.
    del ds
    gc.collect()


@pytest.mark.parametrize("n", [100, 600, 1500])
def test_conditions_of_many_parts_select_the_same_rows(n):
    """Each part nests the serialized condition one level deeper: 500 levels once caused a RecursionError."""
    lazy = aw.scan(aw.from_arrow(pa.table({"a": range(10)})))
    any_equal = functools.reduce(operator.or_, [pl.col("a") == number for number in range(5, n)])
    none_equal = functools.reduce(operator.and_, [pl.col("a") != number for number in range(5, n)])
    assert lazy.filter(any_equal).collect()["a"].to_list() == [5, 6, 7, 8, 9]
    assert lazy.filter(none_equal).collect()["a"].to_list() == [0, 1, 2, 3, 4]


UNION = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
UNSUPPORTED_COLUMNS = [
    pa.array([None], pa.month_day_nano_interval()),
    pa.array([None], pa.list_(pa.month_day_nano_interval())),
    pa.StructArray.from_arrays([pa.array([1]), UNION], ["x", "y"]),
    UNION,
    pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
]


@pytest.mark.parametrize("column", UNSUPPORTED_COLUMNS, ids=lambda column: str(column.type))
def test_columns_of_unsupported_types_are_refused(column):
    """Polars would panic, which ``except Exception`` does not catch."""
    ds = aw.from_arrow(pa.table({"a": [1], "odd": column}))
    with pytest.raises(aw.Unsupported, match="column 'odd'"):
        aw.scan(ds)
    assert aw.scan(ds.select(["a"])).collect().rows() == [(1,)]


def test_duplicate_column_names_are_refused():
    """Polars would panic."""
    with pytest.raises(aw.Unsupported, match="two columns are called 'a'"):
        aw.scan(aw.from_arrow(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])))
