"""Tests expressions in conditions and in aggregates, against Polars."""

import datetime as dt
import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arrowwood as aw

ROW = st.tuples(
    st.one_of(st.none(), st.integers(-(10**9), 10**9)),
    st.one_of(st.none(), st.integers(-300, 300)),
    st.one_of(st.none(), st.floats(-1e6, 1e6, width=64)),
    st.one_of(st.none(), st.floats(-1000, 1000, width=32)),
    st.one_of(st.none(), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))),
    st.one_of(st.none(), st.sampled_from(["", "IBM", "AAPL", "A.B", "żółć"])),
)
NAMES = ["n", "small", "x", "short", "ts", "text"]
TYPES = [pa.int64(), pa.int16(), pa.float64(), pa.float32(), pa.timestamp("us"), pa.string()]

INT = {aw.col: "int64", pl.col: pl.Int64}
FLOAT = {aw.col: "float64", pl.col: pl.Float64}

# Expressions of Arrowwood and of Polars: `c` makes a column of either.
EXPRESSIONS = {
    "n + small": lambda c: c("n") + c("small"),
    "n - 7": lambda c: c("n") - 7,
    "7 - small": lambda c: 7 - c("small"),
    "n * small": lambda c: c("n") * c("small"),
    "n / small": lambda c: c("n") / c("small"),
    "n % small": lambda c: c("n") % c("small"),
    "7 % n": lambda c: 7 % c("n"),
    "x * 2.5 + n": lambda c: c("x") * 2.5 + c("n"),
    "-x": lambda c: -c("x"),
    "x % 3.5": lambda c: c("x") % 3.5,
    "short * small": lambda c: c("short") * c("small"),
    "short * 0.1": lambda c: c("short") * 0.1,
    "short * n": lambda c: c("short") * c("n"),
    "short / short": lambda c: c("short") / c("short"),
    "cast": lambda c: c("x").cast(INT[c]),
    "cast to floats": lambda c: c("n").cast(FLOAT[c]) / 3,
    **{
        part: (lambda part: lambda c: getattr(c("ts").dt, part)())(part)
        for part in ["year", "month", "day", "weekday", "hour", "minute", "second"]
    },
}


def table(rows):
    columns = list(zip(*rows)) if rows else [[] for _ in NAMES]
    return pa.table({name: pa.array(values, kind) for name, values, kind in zip(NAMES, columns, TYPES)})


def same(ours, theirs):
    if ours is None or theirs is None or isinstance(ours, float) and math.isnan(ours):
        return ours == theirs or ours is not None and theirs is not None and math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(ROW, max_size=60))
def test_conditions_and_aggregates_are_those_of_polars(rows):
    arrow = table(rows)
    ds, frame = aw.from_arrow(arrow), pl.DataFrame(arrow)
    for name, make in EXPRESSIONS.items():
        ours, theirs = make(aw.col), make(pl.col)
        values = frame.select(v=theirs)["v"]
        # NaN is larger than all else to Polars, and to ours as to IEEE 754 nothing.
        numbers = values.is_not_null() & ~values.is_nan() if values.dtype.is_float() else values.is_not_null()
        nan = values.is_nan().fill_null(False) if values.dtype.is_float() else values.is_null() & values.is_not_null()
        for limit in (0, 3, -2.5):
            assert ds.filter(ours > limit).shape[0] == frame.filter(numbers & (values > limit)).height, (name, limit)
            assert ds.filter(~(ours >= limit)).shape[0] == frame.filter(numbers & (values < limit) | nan).height, (
                name,
                limit,
            )
        assert ds.filter(ours.is_null()).shape[0] == values.null_count(), name
        found = ds.aggregate(sum=ours, mean=ours, count=(ours, "count"), least=(ours, "min"))[0]
        # Sums of floats of 32 bits are computed in 64.
        wide = values.cast(pl.Float64) if values.dtype.is_float() else values.cast(pl.Int64)
        assert found["count"] == len(values) - values.null_count(), name
        assert same(found["sum"], wide.sum()), (name, found["sum"], wide.sum())
        assert same(found["mean"], wide.mean()), name
        some = wide.drop_nulls().drop_nans() if wide.dtype.is_float() else wide.drop_nulls()
        if len(some):
            assert same(float(found["least"]), float(some.min())), name
    assert ds.filter(aw.col("x") > aw.col("n")).shape[0] == frame.filter(pl.col("x") > pl.col("n")).height
    assert ds[ds["small"] <= ds["n"]].shape[0] == frame.filter(pl.col("small") <= pl.col("n")).height
    for text in ["", "A", "B", ".", "IBM", "ół", "A|B", "^I", "[A-I]+B?", "(?i)ib", "ó.", r"\bI", "$"]:
        for literal in [False, True]:
            found = ds.filter(aw.col("text").str.contains(text, literal=literal)).shape[0]
            assert found == frame.filter(pl.col("text").str.contains(text, literal=literal)).height, (text, literal)
        assert (
            ds.filter(aw.col("text").str.starts_with(text)).shape[0]
            == frame.filter(pl.col("text").str.starts_with(text)).height
        )
        assert (
            ds.filter(~aw.col("text").str.ends_with(text)).shape[0]
            == frame.filter(~pl.col("text").str.ends_with(text)).height
        )


def test_what_is_no_regular_expression_is_refused():
    for pattern, says in [("(", "unclosed group"), ("a(?=b)", "look-around"), (r"(a)\1", "backreference")]:
        with pytest.raises(aw.InvalidArgument, match=f"the regular expression .*{says}"):
            aw.col("x").str.contains(pattern)
        assert "contains" in repr(aw.col("x").str.contains(pattern, literal=True))


def test_groups_of_what_is_computed(tmp_path):
    with aw.writer(tmp_path / "trades", "symbol: category, price: float64, qty: int64") as writer:
        board = aw.aggregation(
            tmp_path / "trades",
            by="symbol",
            where=aw.col("qty") % 2 == 1,
            volume=(aw.col("price") * aw.col("qty"), "sum"),
        )
        rng = np.random.default_rng(0)
        for count in [10, 20_000, 7]:
            writer.append(
                {
                    "symbol": [f"S{n}" for n in rng.integers(0, 9, count)],
                    "price": rng.normal(100, 1, count),
                    "qty": rng.integers(1, 100, count),
                }
            )
            writer.commit()
            ds = aw.open(tmp_path / "trades")
            volume = aw.col("price") * aw.col("qty")
            found = ds.aggregate("symbol", where=aw.col("qty") % 2 == 1, volume=(volume, "sum"))
            assert board.refresh().to_pylist() == found.to_pylist()
            frame = pl.DataFrame(ds.to_arrow()).filter(pl.col("qty") % 2 == 1).group_by("symbol", maintain_order=True)
            theirs = frame.agg(volume=(pl.col("price") * pl.col("qty")).sum()).to_dicts()
            assert found.to_pylist() == [
                {"symbol": row["symbol"], "volume": pytest.approx(row["volume"])} for row in theirs
            ]


def test_what_is_refused():
    ds = aw.from_arrow(pa.table({"n": [2**61, 1], "text": ["a", "b"]}))
    with pytest.raises(aw.InvalidArgument, match=r"\(n \* 4\) does not fit an integer of 64 bits in row 0"):
        ds.filter(aw.col("n") * 4 > 0)
    assert ds.aggregate(where=aw.col("n") < 9, sum=aw.col("n") * 4).to_pylist() == [{"sum": 4}]
    with pytest.raises(aw.Unsupported, match=r"ask DuckDB or Polars .* ds.sql"):
        ds.filter(aw.col("text") * 2 > 0)
    with pytest.raises(aw.Unsupported, match="ask DuckDB or Polars"):
        ds.filter(aw.col("n") > aw.col("text"))
    with pytest.raises(TypeError):
        aw.col("n") + None
    with pytest.raises(TypeError):
        bool(aw.col("n") + 1)
    for wrong, says in [
        (lambda: aw.col("n").sqrt, "pl.col"),
        (lambda: aw.col("n").dt.truncate, "dt.truncate"),
        (lambda: aw.col("n").str.lower, "str.to_lowercase"),
        (lambda: aw.col("n").sum, "ds.aggregate"),
    ]:
        with pytest.raises(AttributeError, match=says):
            wrong()
    with pytest.raises(aw.InvalidArgument, match="no function"):
        ds.aggregate(total=aw.col("n") * 2)
    assert repr(aw.col("n") * 2 + 1) == "((n * 2) + 1)" and repr(aw.col("n")) == 'col("n")'
    assert (
        ds.filter(np.int64(2) * aw.col("n") == 2).shape == ds.filter(aw.col("n") * np.float64(2) == 2).shape == (1, 2)
    )


def test_an_expression_of_too_many_operations_is_an_error_at_once():
    ds = aw.from_arrow(pa.table({"n": [1, 2]}))
    e = aw.col("n") + ds["n"]
    for _ in range(60):
        e = e + e
    with pytest.raises(aw.InvalidArgument, match="at most 4096 of them"):
        ds.filter(e > 0)
