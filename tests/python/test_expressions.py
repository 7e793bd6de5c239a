"""Compares expressions in conditions and aggregates with Polars."""

import datetime as dt
import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arrowwood as aw

# Random rows: a value, or null, for each of the columns `NAMES`.
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

# The types to cast to, by the function that makes columns.
INT64 = {aw.col: "int64", pl.col: pl.Int64}
FLOAT64 = {aw.col: "float64", pl.col: pl.Float64}

# Expressions by name; `c` is the function `col` of Arrowwood or of Polars.
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
    "cast": lambda c: c("x").cast(INT64[c]),
    "cast to floats": lambda c: c("n").cast(FLOAT64[c]) / 3,
    "year": lambda c: c("ts").dt.year(),
    "month": lambda c: c("ts").dt.month(),
    "day": lambda c: c("ts").dt.day(),
    "weekday": lambda c: c("ts").dt.weekday(),
    "hour": lambda c: c("ts").dt.hour(),
    "minute": lambda c: c("ts").dt.minute(),
    "second": lambda c: c("ts").dt.second(),
}


PATTERNS = ["", "A", "B", ".", "IBM", "ół", "A|B", "^I", "[A-I]+B?", "(?i)ib", "ó.", r"\bI", "$"]


def make_table(rows):
    columns = list(zip(*rows)) if rows else [[] for _ in NAMES]
    return pa.table({name: pa.array(values, kind) for name, values, kind in zip(NAMES, columns, TYPES)})


def is_same(ours, theirs):
    """Returns whether two numbers are the same apart from rounding; NaN equals NaN, and None equals None."""
    if ours is None or theirs is None:
        return ours is None and theirs is None
    if math.isnan(ours):
        return math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)


def count_filtered(ds, predicate):
    return ds.filter(predicate).shape[0]


def check_conditions(name, ds, frame, expression, values):
    """Compares the numbers of rows that conditions on an expression select; `values` are its values in Polars."""
    is_float = values.dtype.is_float()
    # NaN is the largest number in Polars, and compares false with all numbers in Arrowwood, as in IEEE 754.
    is_number = values.is_not_null() & ~values.is_nan() if is_float else values.is_not_null()
    is_nan = values.is_nan().fill_null(False) if is_float else pl.repeat(False, len(values), eager=True)
    for limit in (0, 3, -2.5):
        assert count_filtered(ds, expression > limit) == frame.filter(is_number & (values > limit)).height, (
            name,
            limit,
        )
        below_or_nan = is_number & (values < limit) | is_nan
        assert count_filtered(ds, ~(expression >= limit)) == frame.filter(below_or_nan).height, (name, limit)
    assert count_filtered(ds, expression.is_null()) == values.null_count(), name


def check_aggregates(name, ds, expression, values):
    """Compares aggregates of an expression; `values` are its values in Polars."""
    row = ds.aggregate(sum=expression, mean=expression, count=(expression, "count"), minimum=(expression, "min"))[0]
    # Arrowwood computes sums in 64 bits.
    wide = values.cast(pl.Float64 if values.dtype.is_float() else pl.Int64)
    assert row["count"] == len(values) - values.null_count(), name
    assert is_same(row["sum"], wide.sum()), (name, row["sum"], wide.sum())
    assert is_same(row["mean"], wide.mean()), name
    numbers = wide.drop_nulls().drop_nans() if wide.dtype.is_float() else wide.drop_nulls()
    if len(numbers):
        assert is_same(float(row["minimum"]), float(numbers.min())), name


@settings(max_examples=30, deadline=None)
@given(st.lists(ROW, max_size=60))
def test_conditions_and_aggregates_agree_with_polars(rows):
    table = make_table(rows)
    ds, frame = aw.from_arrow(table), pl.DataFrame(table)
    for name, make_expression in EXPRESSIONS.items():
        values = frame.select(v=make_expression(pl.col))["v"]
        check_conditions(name, ds, frame, make_expression(aw.col), values)
        check_aggregates(name, ds, make_expression(aw.col), values)
    assert count_filtered(ds, aw.col("x") > aw.col("n")) == frame.filter(pl.col("x") > pl.col("n")).height
    assert ds[ds["small"] <= ds["n"]].shape[0] == frame.filter(pl.col("small") <= pl.col("n")).height
    our_text, their_text = aw.col("text").str, pl.col("text").str
    for pattern in PATTERNS:
        for literal in [False, True]:
            expected = frame.filter(their_text.contains(pattern, literal=literal)).height
            assert count_filtered(ds, our_text.contains(pattern, literal=literal)) == expected, (pattern, literal)
        assert count_filtered(ds, our_text.starts_with(pattern)) == frame.filter(their_text.starts_with(pattern)).height
        assert count_filtered(ds, ~our_text.ends_with(pattern)) == frame.filter(~their_text.ends_with(pattern)).height


def test_invalid_regular_expressions_are_refused():
    for pattern, message in [("(", "unclosed group"), ("a(?=b)", "look-around"), (r"(a)\1", "backreference")]:
        with pytest.raises(aw.InvalidArgument, match=f"the regular expression .*{message}"):
            aw.col("x").str.contains(pattern)
        assert "contains" in repr(aw.col("x").str.contains(pattern, literal=True))


def test_grouped_aggregates_of_expressions(tmp_path):
    """Aggregates of a growing table agree with those of all rows, and with Polars."""
    volume = aw.col("price") * aw.col("qty")
    is_odd = aw.col("qty") % 2 == 1
    rng = np.random.default_rng(0)
    with aw.writer(tmp_path / "trades", "symbol: category, price: float64, qty: int64") as writer:
        aggregation = aw.aggregation(tmp_path / "trades", by="symbol", where=is_odd, volume=(volume, "sum"))
        for row_count in [10, 20_000, 7]:
            writer.append(
                {
                    "symbol": [f"S{n}" for n in rng.integers(0, 9, row_count)],
                    "price": rng.normal(100, 1, row_count),
                    "qty": rng.integers(1, 100, row_count),
                }
            )
            writer.commit()
            ds = aw.open(tmp_path / "trades")
            actual = ds.aggregate("symbol", where=is_odd, volume=(volume, "sum")).to_pylist()
            assert aggregation.refresh().to_pylist() == actual
            groups = pl.DataFrame(ds.to_arrow()).filter(pl.col("qty") % 2 == 1).group_by("symbol", maintain_order=True)
            expected = groups.agg(volume=(pl.col("price") * pl.col("qty")).sum()).to_dicts()
            assert actual == [{"symbol": row["symbol"], "volume": pytest.approx(row["volume"])} for row in expected]


def test_overflow_and_unsupported_types_are_errors():
    ds = aw.from_arrow(pa.table({"n": [2**61, 1], "text": ["a", "b"]}))
    with pytest.raises(aw.InvalidArgument, match=r"\(n \* 4\) does not fit an integer of 64 bits in row 0"):
        ds.filter(aw.col("n") * 4 > 0)
    # Rows that the condition leaves out are not computed.
    assert ds.aggregate(where=aw.col("n") < 9, sum=aw.col("n") * 4).to_pylist() == [{"sum": 4}]
    with pytest.raises(aw.Unsupported, match=r"ask DuckDB or Polars .* ds.sql"):
        ds.filter(aw.col("text") * 2 > 0)
    with pytest.raises(aw.Unsupported, match="ask DuckDB or Polars"):
        ds.filter(aw.col("n") > aw.col("text"))
    with pytest.raises(TypeError):
        aw.col("n") + None
    with pytest.raises(TypeError):
        bool(aw.col("n") + 1)
    with pytest.raises(aw.InvalidArgument, match="no function"):
        ds.aggregate(total=aw.col("n") * 2)


def test_unknown_attributes_name_an_alternative():
    for access, message in [
        (lambda: aw.col("n").sqrt, "pl.col"),
        (lambda: aw.col("n").dt.truncate, "dt.truncate"),
        (lambda: aw.col("n").str.lower, "str.to_lowercase"),
        (lambda: aw.col("n").sum, "ds.aggregate"),
    ]:
        with pytest.raises(AttributeError, match=message):
            access()


def test_expressions_have_a_repr_and_accept_numpy_scalars():
    assert repr(aw.col("n") * 2 + 1) == "((n * 2) + 1)" and repr(aw.col("n")) == 'col("n")'
    ds = aw.from_arrow(pa.table({"n": [2**61, 1], "text": ["a", "b"]}))
    assert ds.filter(np.int64(2) * aw.col("n") == 2).shape == (1, 2)
    assert ds.filter(aw.col("n") * np.float64(2) == 2).shape == (1, 2)


def test_expression_with_too_many_operations_is_refused():
    ds = aw.from_arrow(pa.table({"n": [1, 2]}))
    expression = aw.col("n") + ds["n"]
    # Each turn doubles the number of operations, so that it can't be evaluated in any time.
    for _ in range(60):
        expression = expression + expression
    with pytest.raises(aw.InvalidArgument, match="at most 4096 of them"):
        ds.filter(expression > 0)
