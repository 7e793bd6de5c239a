"""Lazy frames of Polars over datasets give what Polars gives over its own frames, whatever they are asked."""

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
from arrowwood import _scan
from conftest import error_without_module, write_damaged_text, write_ipc

UTC = dt.UTC


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Nulls everywhere, NaN, infinities, zeros of both signs."""
    chance = random.Random(1)
    rows = 2_000

    def column(values, type):
        return pa.array([None if chance.random() < 0.1 else chance.choice(values) for _ in range(rows)], type)

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


CONDITIONS = {
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


def leaves():
    for name, values in CONDITIONS.items():
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


def same(ours, theirs):
    """Frames of equal columns and rows, or one and the same error."""
    found = []
    for lazy in [ours, theirs]:
        try:
            found.append(lazy.collect())
        except pl.exceptions.PolarsError as problem:
            found.append(type(problem))
    if isinstance(found[1], type):
        assert found[0] is found[1]
    else:
        assert found[0].equals(found[1], null_equal=True) and found[0].schema == found[1].schema


def test_every_condition(path):
    ours, theirs = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    for condition in leaves():
        same(ours.filter(condition), theirs.filter(condition))
        same(ours.filter(~condition), theirs.filter(~condition))


def test_conditions_put_together(path):
    ours, theirs = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    chance, single = random.Random(2), list(leaves())
    for _ in range(400):
        a, b, c = chance.sample(single, 3)
        condition = chance.choice([a & b, a | b, a & b | c, (a | b) & c, ~(a & b), ~(a | b) & ~c, a ^ b, a & b & c])
        same(ours.filter(condition), theirs.filter(condition))


def test_most_conditions_are_ours(path):
    """A translation that gave up on everything would pass all other tests."""
    seen = {}
    for name, value in [
        ("f", 1.5),
        ("i", 3),
        ("s", "a"),
        ("v", "a"),
        ("k", "a"),
        ("d", CONDITIONS["d"][0]),
        ("t", CONDITIONS["t"][0]),
        ("z", CONDITIONS["z"][0]),
    ]:
        schema = pl.DataFrame(aw.open(path).head(0)).schema
        condition = pl.col(name) != pl.lit(value, schema[name] if name != "k" else pl.String)
        found = _scan._Condition(aw.open(path), condition)
        seen[name] = found.is_exact and found.predicate is not None
    assert all(seen.values()), seen
    part = _scan._Condition(aw.open(path), (pl.col("s") == "a") & (pl.col("s").str.len_bytes() > 2))
    assert part.predicate is not None and not part.is_exact


def test_columns_rows_and_order(path):
    ours, theirs = aw.scan(path), pl.DataFrame(aw.open(path)).lazy()
    positive = pl.col("i") > 0
    for way in [
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
        same(way(ours), way(theirs))


def test_pieces(path, monkeypatch):
    monkeypatch.setattr(_scan, "_PIECE", 123)
    test_columns_rows_and_order(path)
    assert len(aw.scan(path).filter(pl.col("k") == "a").collect(engine="streaming")) == sum(
        aw.open(path).filter(aw.col("k") == "a")["k"].count() for _ in [0]
    )


def test_a_table_is_taken_as_it_is_now(tmp_path):
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
    "kind", [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.timestamp("ms"), pa.timestamp("s", "UTC")]
)
def test_bounds_of_a_sorted_column(tmp_path, kind):
    values = pa.array([0, 1, 1, 1, 2, 5, 5, 9], pa.int64() if kind != pa.date32() else pa.int32()).cast(kind)
    with aw.writer(
        tmp_path / "t", pa.schema([pa.field("k", kind, nullable=False)]), sorted_by="k", segment_rows=16
    ) as writer:
        writer.append(pa.table({"k": values}))
        writer.commit()
    ours, theirs = aw.scan(tmp_path / "t"), pl.DataFrame(aw.open(tmp_path / "t")).lazy()
    for at in range(len(values)):
        value = theirs.collect()["k"][at]
        k = pl.col("k")
        for condition in [
            k == value,
            k < value,
            k <= value,
            k > value,
            k >= value,
            k.is_between(value, value),
            k != value,
        ]:
            same(ours.filter(condition), theirs.filter(condition))
            same(ours.filter(condition & (k >= value)), theirs.filter(condition & (k >= value)))
            same(ours.filter(condition | (k == value)), theirs.filter(condition | (k == value)))


def test_errors_are_ordinary(tmp_path, path):
    with pytest.raises(aw.NotFound):
        aw.scan(tmp_path / "nowhere")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        aw.scan(path).filter(pl.col("nope") > 1).collect()
    damaged = write_damaged_text(tmp_path / "text.arrow")
    with pytest.raises(Exception, match="(?i)utf-?8"):
        aw.scan(damaged).collect()
    wanted = "ImportError: scan() needs polars; install it: pip install 'arrowwood[polars]'"
    assert error_without_module("polars", "aw.scan('x')") == wanted


ROWS = 20_000_000


@pytest.fixture(scope="module")
def sorted_table(tmp_path_factory):
    path = tmp_path_factory.mktemp("sorted") / "t"
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us"), nullable=False),
            pa.field("price", pa.float64()),
            pa.field("qty", pa.int64()),
        ]
    )
    with aw.writer(path, schema, sorted_by="ts", sync="never") as writer:
        for start in range(0, ROWS, ROWS // 10):
            n = np.arange(start, start + ROWS // 10)
            writer.append({"ts": (n * 1000).astype("datetime64[us]"), "price": n * 0.5, "qty": n % 1000})
            writer.commit()
    yield path
    shutil.rmtree(path)


def touched(path):
    """The bytes of files below `path` that this process has looked at, and up to 64 KiB around each place: what the
    system has put into its page tables. Unlike what is resident it doesn't depend on how far a disk reads ahead.
    """
    counts = re.findall(
        rf"{re.escape(str(path))}/.*?\nRss:\s*(\d+) kB", pathlib.Path("/proc/self/smaps").read_text(), re.S
    )
    return sum(map(int, counts)) << 10


@pytest.mark.parametrize("way", ["between", "filter", "aggregate", "scan"])
def test_a_thousandth_of_a_sorted_table_touches_a_hundredth_of_it(sorted_table, way):
    whole = sum(file.stat().st_size for file in sorted_table.iterdir())
    assert touched(sorted_table) == 0
    ds = aw.open(sorted_table)
    low, count = 3_000_000 * 1000, ROWS // 1000
    wanted = sum(n * 0.5 for n in range(3_000_000, 3_000_000 + count))
    high = low + count * 1000
    epoch = dt.datetime(1970, 1, 1)
    first, last = (epoch + dt.timedelta(microseconds=n) for n in (low, high))
    inside = (aw.col("ts") >= first) & (aw.col("ts") < last)
    if way == "between":
        found = ds.between(low, high - 1)["price"].sum()
    elif way == "filter":
        found = ds.filter(inside)["price"].sum()
    elif way == "aggregate":
        found = ds.aggregate(where=inside, sum=("price", "sum"))[0]["sum"]
    else:
        lazy = aw.scan(ds).filter((pl.col("ts") >= first) & (pl.col("ts") < last))
        found = lazy.select(pl.col("price").sum()).collect().item()
        del lazy
    assert found == pytest.approx(wanted, rel=1e-12)
    seen = touched(sorted_table)
    assert 0 < seen <= whole * 0.01, f"{seen:,} of {whole:,} bytes"
    # Shows that the count works: reading everything touches more.
    ds["qty"].sum()
    assert touched(sorted_table) > whole * 0.3
    del ds
    gc.collect()


@pytest.mark.parametrize("n", [100, 600, 1500])
def test_conditions_of_many_parts(n):
    """Each part is a level of the tree that Polars writes down: from 500 on there was a RecursionError."""
    lazy = aw.scan(aw.from_arrow(pa.table({"a": range(10)})))
    some = functools.reduce(operator.or_, [pl.col("a") == number for number in range(5, n)])
    none = functools.reduce(operator.and_, [pl.col("a") != number for number in range(5, n)])
    assert lazy.filter(some).collect()["a"].to_list() == [5, 6, 7, 8, 9]
    assert lazy.filter(none).collect()["a"].to_list() == [0, 1, 2, 3, 4]


UNION = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
UNKNOWN = [
    pa.array([None], pa.month_day_nano_interval()),
    pa.array([None], pa.list_(pa.month_day_nano_interval())),
    pa.StructArray.from_arrays([pa.array([1]), UNION], ["x", "y"]),
    UNION,
    pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
]


@pytest.mark.parametrize("column", UNKNOWN, ids=lambda column: str(column.type))
def test_columns_that_polars_does_not_know_are_named(column):
    """Polars panicked over them, which no ``except Exception`` catches."""
    ds = aw.from_arrow(pa.table({"a": [1], "odd": column}))
    with pytest.raises(aw.Unsupported, match="column 'odd'"):
        aw.scan(ds)
    assert aw.scan(ds.select(["a"])).collect().rows() == [(1,)]


def test_columns_of_one_name_are_refused():
    """Polars panicked over these as well."""
    with pytest.raises(aw.Unsupported, match="two columns are called 'a'"):
        aw.scan(aw.from_arrow(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])))
