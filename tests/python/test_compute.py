"""Tests taking, filtering, grouping and reducing rows against pyarrow, NumPy and Python, and pickling of datasets."""

import datetime as dt
import decimal
import functools
import math
import multiprocessing
import operator
import os
import pickle
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import arrowwood as aw
from conftest import ipc_of, same, unix_only, write_ipc
from waits import PATIENCE


@pytest.fixture(scope="module")
def table():
    """A table of numbers, text, dictionaries, times, decimals and lists, with nulls."""
    rng = np.random.default_rng(7)
    rows = 5_000
    number = rng.integers(-50, 50, rows)
    is_null = rng.random(rows) < 0.2
    words = np.array(["apple", "pear", "fig", "a longer word than twelve", ""])[rng.integers(0, 5, rows)]
    price = rng.normal(100, 20, rows)
    price[::97] = np.nan
    times = np.datetime64("2020-01-01", "ms") + rng.integers(0, 10**11, rows)
    money = [None if null else decimal.Decimal(int(n)) / 8 for n, null in zip(number, is_null)]
    return pa.table(
        {
            "n": pa.array(number, mask=is_null),
            "u": pa.array((number + 50).astype("uint8")),
            "price": pa.array(price, mask=np.roll(is_null, 1)),
            "word": pa.array(words, mask=np.roll(is_null, 2)),
            "key": pa.array(words, mask=np.roll(is_null, 2)).dictionary_encode(),
            "flag": pa.array(number % 3 == 0, mask=np.roll(is_null, 3)),
            "when": pa.array(times, mask=np.roll(is_null, 4)).cast(pa.timestamp("ms", "UTC")),
            "money": pa.array(money, pa.decimal128(9, 3)),
            "pair": pa.array([[int(n), 1] for n in number], pa.list_(pa.int64(), 2)),
            "row": pa.array(np.arange(rows)),
        }
    )


@pytest.fixture(scope="module", params=[("file", None), ("stream", 700), ("file", 64)])
def both(request, table):
    """A dataset in one or several batches, and the same rows as a pyarrow table."""
    format, max_rows = request.param
    return aw.open(ipc_of(table, format, max_rows)), table


def row_numbers(ds):
    return ds["row"].to_pylist()


def assert_close(actual, expected):
    assert (actual is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("container", ["int64", "int16", "uint8", "uint64", ">i4", list, pa.array])
def test_take_returns_rows_in_the_given_order(both, container):
    ds, table = both
    expected = [5, 3, 200, 3, 0, 255]
    rows = np.array(expected, container) if isinstance(container, str) else container(expected)
    taken = ds.take(rows)
    assert all(map(same, taken.to_pylist(), [ds[row] for row in expected]))
    assert row_numbers(taken) == expected == row_numbers(ds[rows])
    # pyarrow does not take NaN for equal.
    assert taken.to_arrow().drop_columns("price").equals(table.drop_columns("price").take(expected))
    assert [row["row"] for row in ds.__getitems__(rows)] == expected


def test_take_counts_negative_numbers_from_the_end_and_refuses_others(both):
    ds, _ = both
    assert row_numbers(ds.take([-1, 0, -len(ds)])) == [len(ds) - 1, 0, 0]
    assert row_numbers(ds.take([])) == [] == row_numbers(ds.take(np.array([], "float64")))
    for row in (len(ds), -len(ds) - 1, 2**63, 2**70):
        with pytest.raises(aw.RowOutOfRange, match=str(row)):
            ds.take([0, row])
        with pytest.raises(aw.RowOutOfRange):
            ds.__getitems__([0, row])
    with pytest.raises(aw.RowOutOfRange):
        ds.take(np.array([2**63 + 1], "uint64"))
    for invalid in (np.array([1.5]), np.array([[1, 2]]), np.array([True])):
        with pytest.raises(TypeError, match="row numbers"):
            ds.take(invalid)
    with pytest.raises(TypeError):
        ds.take([1.5])


def comparisons(table):
    """Yields pairs of a column's name and a value that it is compared with."""
    time = table["when"].drop_null()[17].as_py()
    yield from (("n", value) for value in (0, -7, 2.5, 1000, -1e300, float("nan"), decimal.Decimal("3.0")))
    yield from (("u", value) for value in (-1, 0, 99, 256, np.int8(3), 2**70))
    yield from (("price", value) for value in (100, 99.5, float("inf"), float("nan"), np.float32(100), 2**53 + 1))
    yield from (("word", value) for value in ("fig", "", "zzz", "a longer word than twelve"))
    yield from (("key", value) for value in ("fig", "", "zzz"))
    yield from (("flag", value) for value in (True, False))
    yield ("when", time)
    yield ("when", time.astimezone(dt.timezone(dt.timedelta(hours=5))) + dt.timedelta(microseconds=1))
    yield from (("money", value) for value in (decimal.Decimal("1.125"), 2, 1.1))


# Python's operators, by the names of pyarrow's functions.
OPERATORS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_filter_compares_as_python_does(both, name):
    ds, table = both
    compare = OPERATORS[name]
    for column, value in comparisons(table):
        exact_value = value
        if isinstance(value, float) and column == "money":
            # Floating-point numbers are compared with decimals by their shortest text.
            exact_value = decimal.Decimal(str(value))
        results = [None if cell is None else bool(compare(cell, exact_value)) for cell in table[column].to_pylist()]
        true_rows = [row for row, result in enumerate(results) if result]
        false_rows = [row for row, result in enumerate(results) if result is False]
        predicate = compare(aw.col(column), value)
        assert row_numbers(ds.filter(predicate)) == true_rows, (column, value)
        assert row_numbers(ds.filter(~predicate)) == false_rows, (column, value)


@pytest.mark.parametrize("name", OPERATORS)
def test_filter_compares_as_pyarrow_does(both, name):
    ds, table = both
    expected = table.filter(getattr(pc, name)(table["price"], 100.0))
    filtered = ds.filter(OPERATORS[name](aw.col("price"), 100.0))
    assert row_numbers(filtered) == expected["row"].to_pylist()
    assert filtered.select(["word", "key", "pair"]).to_pylist() == expected.select(["word", "key", "pair"]).to_pylist()


def test_compound_predicates_equal_pyarrow(both):
    ds, table = both
    filtered = ds.filter((aw.col("price") > 100) & aw.col("word").is_in(["fig", "pear"]) | aw.col("n").is_null())
    price, word, n = table["price"], table["word"], table["n"]
    mask = pc.or_kleene(pc.and_kleene(pc.greater(price, 100), pc.is_in(word, pa.array(["fig", "pear"]))), pc.is_null(n))
    assert row_numbers(filtered) == table.filter(mask)["row"].to_pylist()

    filtered = ds.filter(aw.col("key").is_not_null())
    assert row_numbers(filtered) == table.filter(pc.is_valid(table["key"]))["row"].to_pylist()

    bound = np.datetime64("2021-06-01")
    arrow_bound = pa.scalar(bound.astype("M8[ms]"), pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    mask = pc.greater_equal(table["when"], arrow_bound)
    assert row_numbers(ds.filter(aw.col("when") >= bound)) == table.filter(mask)["row"].to_pylist()


def rows_where(table, condition, *names):
    """Returns the numbers of rows for which a Python function of some columns is true; nulls are not passed to it."""
    columns = [table[name].to_pylist() for name in names]
    return [row for row, values in enumerate(zip(*columns)) if None not in values and condition(*values)]


def test_columns_make_predicates(both):
    ds, table = both
    where = functools.partial(rows_where, table)
    null_rows = [row for row, n in enumerate(table["n"].to_pylist()) if n is None]
    predicates = {
        "==": (ds["n"] == 7, where(lambda n: n == 7, "n")),
        "!=": (ds["n"] != 7, where(lambda n: n != 7, "n")),
        "<": (ds["n"] < 0, where(lambda n: n < 0, "n")),
        "<=": (ds["n"] <= 0, where(lambda n: n <= 0, "n")),
        ">": (ds["price"] > 100, where(lambda price: price > 100, "price")),
        ">=": (ds["word"] >= "fig", where(lambda word: word >= "fig", "word")),
        "reversed": (3 < ds["n"], where(lambda n: n > 3, "n")),
        "reversed with a NumPy integer": (np.int64(3) < ds["n"], where(lambda n: n > 3, "n")),
        "reversed with a NumPy float": (np.float64(99.5) >= ds["price"], where(lambda price: price <= 99.5, "price")),
        "is_in": (ds["word"].is_in(["fig", ""]), where(lambda word: word in ("fig", ""), "word")),
        "is_null": (ds["n"].is_null(), null_rows),
        "is_not_null": (ds["n"].is_not_null(), where(lambda n: True, "n")),
        "&": ((ds["n"] > 0) & (ds["word"] == "fig"), where(lambda n, word: n > 0 and word == "fig", "n", "word")),
        "|": ((ds["n"] == 1) | (aw.col("n") == 2), where(lambda n: n in (1, 2), "n")),
        "~": (~(ds["n"] > 0), where(lambda n: n <= 0, "n")),
    }
    for name, (predicate, expected) in predicates.items():
        assert isinstance(predicate, aw.Predicate), name
        assert row_numbers(ds[predicate]) == row_numbers(ds.filter(predicate)) == expected, name
        assert ds.aggregate(where=predicate, rows="count")["rows"].to_pylist() == [len(expected)], name
        assert ds["row"][predicate].to_pylist() == expected, name
        # Predicates also apply to the same rows without the column, and to a slice of all rows.
        without_column = ds.select(["row"])
        assert row_numbers(without_column[predicate]) == row_numbers(ds[:][predicate]) == expected, name
        assert without_column[predicate].columns == ["row"], name
        counts = without_column.aggregate(where=predicate, rows=("row", "count"))
        assert counts["rows"].to_pylist() == [len(expected)], name
    part = ds[10:20]
    assert row_numbers(part[part["n"].is_not_null()]) == [row for row in range(10, 20) if row not in null_rows]


def test_predicates_of_other_rows_are_refused(both):
    ds, table = both
    other_datasets = [
        ds[1:],
        ds[:-1],
        aw.open(ipc_of(table)),
        aw.from_arrow(table),
        ds.take(range(len(ds))),
        aw.concat([ds, ds]),
    ]
    calls = [
        ds.filter,
        ds.__getitem__,
        ds["row"].__getitem__,
        lambda predicate: ds.aggregate(where=predicate, rows="count"),
    ]
    for other in other_datasets:
        for predicate in (other["n"] > 3, (ds["n"] > 3) & (other["n"] > 3), ~other["n"].is_null()):
            for call in calls:
                with pytest.raises(aw.InvalidArgument, match=r'other rows.*aw\.col\("n"\)'):
                    call(predicate)
        # A predicate of a name applies to any rows with that column.
        assert len(other.filter(aw.col("n") > 3)) >= 0


def test_predicates_of_duplicate_column_names_are_refused():
    ds = aw.from_arrow(pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["a", "a"]))
    with pytest.raises(aw.InvalidArgument, match="both called"):
        ds[ds.column(1) > 3]
    assert ds.column(1)[ds.column(1) > 3].to_pylist() == [4]


def test_predicates_do_not_apply_to_a_refreshed_table(tmp_path):
    with aw.writer(tmp_path / "t", pa.schema({"x": "int64"})) as writer:
        writer.append({"x": [1, 2, 3]})
        writer.commit()
        before = aw.open(tmp_path / "t")
        writer.append({"x": [4]})
        writer.commit()
    condition = before["x"] > 1
    assert before[condition]["x"].to_pylist() == [2, 3]
    with pytest.raises(aw.InvalidArgument, match="other rows"):
        before.refresh()[condition]


def test_predicates_have_no_truth_value(both):
    ds, _ = both
    for predicate in (ds["n"] == 1, aw.col("n") == 1):
        for call in (bool, lambda predicate: predicate and True, lambda predicate: not predicate):
            with pytest.raises(TypeError, match=r"ds\.filter\(…\)"):
                call(predicate)
    with pytest.raises(TypeError, match="together by &"):
        bool(aw.col("n") > 3)
    with pytest.raises(TypeError, match="of rows only"):
        1 < ds["n"] < 3


def test_columns_refuse_comparisons_with_nulls_and_lists(both):
    ds, _ = both
    for column in (ds["n"], aw.col("n")):
        for null in (None, np.datetime64("NaT"), pd.NaT, pd.NA):
            for compare in (operator.eq, operator.ne, operator.lt):
                with pytest.raises(TypeError, match="is_null"):
                    compare(column, null)
        with pytest.raises(TypeError, match="is_null"):
            column.is_in([1, None])
        for values in ([1, 2], np.array([1, 2]), pa.array([1, 2])):
            with pytest.raises(TypeError, match="is_in"):
                column == values
        for other in (ds["n"], aw.col("n")):
            assert len(ds.filter(column >= other)) == ds["n"].count() and len(ds.filter(column != other)) == 0
        with pytest.raises(aw.Unsupported, match=r"ds\.sql"):
            ds.filter(column > aw.col("word"))
        with pytest.raises(TypeError, match="unhashable"):
            hash(column)
    assert 7 in ds["n"] and 1000 not in ds["n"]


def test_booleans_are_masks_and_no_row_numbers(both):
    """Python counts booleans as integers."""
    ds, _ = both
    for mask in ([True, False], np.array([True, False]), ds["flag"], True):
        with pytest.raises(TypeError):
            ds.take(mask)
    # Masks need one boolean for each row.
    for mask, error in (
        ([True, False], aw.InvalidArgument),
        (np.array([True, False]), aw.InvalidArgument),
        (True, TypeError),
    ):
        for call in (ds.__getitem__, ds["n"].__getitem__):
            with pytest.raises(error):
                call(mask)


def test_numpy_functions_take_columns():
    ds = aw.from_arrow(pa.table({"x": [1.0, 4.0, None], "y": [1, 2, 3]}))
    assert np.array_equal(np.sqrt(ds["x"]), [1, 2, np.nan], equal_nan=True)
    assert (np.add(ds["y"], ds["y"]) == [2, 4, 6]).all() and np.add.reduce(ds["y"]) == 6
    assert (np.arange(3) * ds["y"] == [0, 2, 6]).all()
    assert (np.array([1, 0, 3]) == ds["y"]).tolist() == [True, False, True]
    out = np.empty(3)
    assert np.multiply(ds["y"], 2, out=out) is out and out.tolist() == [2, 4, 6]


def test_incomparable_types_are_refused(both):
    ds, _ = both
    for predicate in (
        aw.col("word") > 3,
        aw.col("n") == "x",
        aw.col("when") < dt.datetime(2020, 1, 1),
        aw.col("flag") > 1,
    ):
        with pytest.raises(aw.InvalidArgument, match="can't be compared"):
            ds.filter(predicate)
    with pytest.raises(aw.ColumnNotFound):
        ds.filter(aw.col("nothing") > 3)
    with pytest.raises(TypeError):
        ds.filter("n > 3")
    with pytest.raises(TypeError, match="several values"):
        aw.col("word").is_in("fig")


def test_predicates_have_a_readable_repr():
    assert repr((aw.col("n") > 3) & ~aw.col("word").is_null()) == "(n > 3) & (~(word is null))"
    assert repr(aw.col("n")) == 'col("n")'


def test_sample_depends_on_its_seed(both):
    ds, _ = both
    sampled = row_numbers(ds.sample(100, seed=1))
    assert len(set(sampled)) == 100
    assert sampled == row_numbers(ds.sample(100, seed=1)) != row_numbers(ds.sample(100, seed=2))
    assert sampled[:10] == row_numbers(ds.sample(10, seed=1))
    assert row_numbers(ds.sample(100)) != row_numbers(ds.sample(100))
    with pytest.raises(aw.InvalidArgument, match="different rows"):
        ds.sample(len(ds) + 1)
    with pytest.raises(aw.InvalidArgument):
        ds.sample(-1)


def test_a_shuffled_dataset_has_the_same_rows_in_one_order(both):
    ds, table = both
    shuffled = ds.shuffle(seed=1)
    order = row_numbers(shuffled)
    assert sorted(order) == list(range(len(ds))) != order
    assert [shuffled[i]["row"] for i in (0, 17, -1)] == [order[0], order[17], order[-1]]
    assert row_numbers(shuffled[10:20]) == order[10:20] == [row["row"] for row in shuffled.rows(10, 20)]
    assert shuffled.select(["word", "row"])[3] == {"word": table["word"][order[3]].as_py(), "row": order[3]}
    assert shuffled["n"].sum() == pc.sum(table["n"]).as_py()
    assert shuffled.shuffle(seed=2)[0]["row"] == row_numbers(shuffled.shuffle(seed=2))[0]
    assert row_numbers(shuffled.take([3, 1])) == [order[3], order[1]]
    assert aw.from_arrow(shuffled)["row"].to_pylist() == order


def replace_nan(value):
    """Returns "nan" for NaN, which is not equal to itself."""
    return "nan" if value != value else value


def group_rows(table, by, first_row):
    """Returns the numbers of the rows from `first_row` on by key, with groups in the order of their first rows."""
    keys = list(zip(*(table[name].to_pylist() for name in by))) if by else [()] * len(table)
    groups = {}
    for row, key in enumerate(keys):
        if row >= first_row:
            groups.setdefault(tuple(map(replace_nan, key)), []).append(row)
    return groups


def max_ignoring_nan(values):
    """Returns None without values, and NaN if there is nothing else."""
    numbers = [value for value in values if not math.isnan(value)]
    if numbers:
        return max(numbers)
    return float("nan") if values else None


def mean_or_none(values):
    return sum(values) / len(values) if values else None


def sample_variance(values):
    return np.var(values, ddof=1) if len(values) > 1 else None


def sample_deviation(values):
    return np.std(values, ddof=1) if len(values) > 1 else None


@pytest.mark.parametrize(
    "by", [["key"], ["word"], ["n"], ["u", "flag"], ["key", "word", "n"], ["when"], ["money"], ["price"], []]
)
def test_aggregates_of_groups_equal_python(both, by):
    ds, table = both
    aggregates = {
        "rows": "count",
        "n_count": ("n", "count"),
        "n_sum": ("n", "sum"),
        "n_min": ("n", "min"),
        "n_std": ("n", "std"),
        "price_mean": ("price", "mean"),
        "price_max": ("price", "max"),
        "price_var": ("price", "var"),
        "money_sum": ("money", "sum"),
        "money_mean": ("money", "mean"),
        "when_max": ("when", "max"),
        "word_min": ("word", "min"),
        "key_max": ("key", "max"),
        "flag_max": ("flag", "max"),
    }
    first_row = 7
    result = ds.aggregate(by, where=aw.col("row") >= first_row, **aggregates)
    result.validate()
    of_filtered_rows = ds.filter(aw.col("row") >= first_row).aggregate(by, **aggregates)
    assert repr(of_filtered_rows.to_pylist()) == repr(result.to_pylist())
    assert result.schema.names[: len(by)] == by
    assert [result.schema[name].type for name in by] == [ds.schema[name].type for name in by]

    groups = group_rows(table, by, first_row)
    assert len(result) == len(groups)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for actual, (key, rows) in zip(result, groups.items()):
        values = {name: [column[row] for row in rows if column[row] is not None] for name, column in columns.items()}
        assert tuple(replace_nan(actual[name]) for name in by) == key
        assert actual["rows"] == len(rows)
        assert actual["n_count"] == len(values["n"])
        assert actual["n_sum"] == sum(values["n"])
        assert actual["n_min"] == min(values["n"], default=None)
        assert_close(actual["n_std"], sample_deviation(values["n"]))
        assert_close(actual["price_mean"], np.mean(values["price"]) if values["price"] else None)
        assert same(actual["price_max"], max_ignoring_nan(values["price"]))
        assert_close(actual["price_var"], sample_variance(values["price"]))
        assert actual["money_sum"] == sum(values["money"])
        money_mean = mean_or_none(values["money"])
        assert_close(actual["money_mean"], None if money_mean is None else float(money_mean))
        assert actual["when_max"] == max(values["when"], default=None)
        assert actual["word_min"] == min(values["word"], default=None)
        assert actual["key_max"] == max(values["key"], default=None)
        assert actual["flag_max"] == max(values["flag"], default=None)


@pytest.mark.parametrize("share", [0.02, 0.6])
def test_aggregates_of_many_groups_equal_polars(share):
    """There are more groups than one hash table holds, so the rows are partitioned first."""
    rng = np.random.default_rng(7)
    rows = 400_000
    keys = rng.integers(0, 60_000, rows) * 7_919_000_003
    values = rng.random(rows)
    texts = [f"t{key % 30_011}" for key in keys.tolist()]
    ds = aw.from_arrow(pa.table({"key": keys, "v": values, "text": texts}))
    predicate = aw.col("v") < share
    for by in ("key", "text", ["key", "text"]):
        aggregates = {"n": "count", "total": ("v", "sum"), "largest": ("v", "max")}
        of_filtered_rows = ds.filter(predicate).aggregate(by, **aggregates)
        assert len(of_filtered_rows) > 2_000
        assert of_filtered_rows.to_arrow().equals(ds.aggregate(by, where=predicate, **aggregates).to_arrow())

    expected = (
        pl.from_arrow(ds.to_arrow())
        .filter(pl.col("v") < share)
        .group_by("key")
        .agg(n=pl.len(), largest=pl.col("v").max())
        .sort("key")
    )
    result = ds.filter(predicate).aggregate("key", n="count", largest=("v", "max"))
    actual = pl.from_arrow(result.to_arrow()).sort("key")
    assert actual["key"].equals(expected["key"])
    assert actual["n"].to_list() == expected["n"].to_list()
    assert actual["largest"].equals(expected["largest"])


def test_aggregate_names_its_columns_and_refuses_unknown_ones(both):
    ds, table = both
    assert ds.aggregate("key", price="mean").schema.names == ["key", "price"]
    counts = ds.aggregate(price=("price", "count"), n=("n", "count")).to_pylist()
    assert counts == [{"price": len(table) - table["price"].null_count, "n": len(table) - table["n"].null_count}]
    assert ds[:0].aggregate("key", price="mean").to_pylist() == []
    without_rows = ds[:0].aggregate(price="mean", t=("n", "sum"), w=("word", "min")).to_pylist()
    assert without_rows == [{"price": None, "t": 0, "w": None}]
    assert ds.aggregate("word", where=aw.col("n") > 1000, n="sum").to_pylist() == []
    for error, aggregates in (
        (aw.ColumnNotFound, {"x": "mean"}),
        (aw.InvalidArgument, {"n": "average"}),
        (aw.InvalidArgument, {"key": "max"}),
        (aw.Unsupported, {"word": "mean"}),
        (TypeError, {"n": 3}),
    ):
        with pytest.raises(error):
            ds.aggregate("key", **aggregates)
    with pytest.raises(aw.Unsupported, match="grouping"):
        ds.aggregate("pair", n="sum")
    with pytest.raises(TypeError, match="expected a condition"):
        ds.aggregate("key", where="n > 3", n="sum")


def test_sums_of_groups_that_overflow_are_errors():
    ds = aw.from_arrow(pa.table({"k": [1, 1, 2], "n": [2**63 - 1, 1, -5], "u": pa.array([2**64 - 1, 0, 5], "uint64")}))
    assert ds.aggregate("k", u="sum")["u"].to_pylist() == [2**64 - 1, 5]
    with pytest.raises(aw.InvalidArgument, match="fit"):
        ds.aggregate("k", n="sum")
    assert ds["n"].sum() == 2**63 - 5


def test_reductions_equal_numpy_and_python(both):
    ds, table = both
    price = table["price"].drop_null().to_numpy()
    n = table["n"].drop_null().to_numpy()
    money = [float(value) for value in table["money"].drop_null().to_pylist()]
    assert_close(ds["n"].var(), n.var(ddof=1))
    assert_close(ds["n"].std(), n.std(ddof=1))
    assert np.isnan(ds["price"].var())
    for q in (0, 0.25, 0.5, 0.9, 1):
        assert_close(ds["n"].quantile(q), np.quantile(n, q))
        assert_close(ds["price"].quantile(q), np.nanquantile(price, q))
        assert_close(ds["money"].quantile(q), np.quantile(money, q))
    with pytest.raises(aw.InvalidArgument, match="between 0 and 1"):
        ds["n"].quantile(2)
    assert ds["flag"].any() is True and ds["flag"].all() is False
    assert ds.filter(aw.col("flag") == True)["flag"].all() is True  # noqa: E712
    assert ds[:0]["flag"].any() is False and ds[:0]["flag"].all() is True and ds[:0]["n"].quantile(0.5) is None
    for name in ("n", "word", "key", "flag", "when", "money", "u"):
        values = table[name].to_pylist()
        assert ds[name].n_unique() == len(set(values))
        counts = {row[name]: row["count"] for row in ds[name].value_counts()}
        assert counts == {value: values.count(value) for value in set(values)}
        assert list(counts.values()) == sorted(counts.values(), reverse=True)
    for name in ("word", "pair"):
        for method in ("var", "std", "any", "all"):
            with pytest.raises(aw.Unsupported):
                getattr(ds[name], method)()


def test_describe_equals_numpy(both):
    ds, table = both
    description = ds.describe().to_pylist()
    statistics = ["count", "null_count", "mean", "std", "min", "25%", "50%", "75%", "max"]
    assert [row["statistic"] for row in description] == statistics
    n = table["n"].drop_null().to_numpy()
    quartiles = np.quantile(n, [0.25, 0.5, 0.75])
    expected = [len(n), table["n"].null_count, n.mean(), n.std(ddof=1), n.min(), *quartiles, n.max()]
    np.testing.assert_allclose([row["n"] for row in description], expected)
    words = table["word"].drop_null().to_pylist()
    counts = [str(len(words)), str(table["word"].null_count)]
    expected = [*counts, None, None, min(words), None, None, None, max(words)]
    assert [row["word"] for row in description] == expected
    assert description[2]["flag"] == pytest.approx(pc.mean(table["flag"]).as_py())
    assert ds[:0].describe()["n"].to_pylist() == [0, 0] + [None] * 7


def test_fixed_size_lists_become_matrices(tmp_path):
    matrix = np.arange(24, dtype="float32").reshape(6, 4)
    column = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 4)
    ds = aw.open(write_ipc(tmp_path / "vectors.arrow", pa.table({"v": column, "i": np.arange(6)})))
    view = ds["v"].to_numpy(copy=False)
    assert view.shape == (6, 4) and view.dtype == "float32" and not view.flags.writeable
    assert (view == matrix).all() and (ds[2:5]["v"].to_numpy(copy=False) == matrix[2:5]).all()
    assert not view.flags.owndata and (np.asarray(ds["v"]) == matrix).all()
    assert (ds.take([5, 0])["v"].to_numpy() == matrix[[5, 0]]).all()
    assert aw.from_arrow(pa.table({"v": column[1:3]}))["v"].to_numpy().tolist() == matrix[1:3].tolist()
    assert ds[:0]["v"].to_numpy().shape == (0, 4)

    in_batches = aw.open(ipc_of(pa.table({"v": column}), "file", 2))
    assert (in_batches["v"].to_numpy() == matrix).all()
    with pytest.raises(aw.CopyNeeded, match="3 chunks"):
        in_batches["v"].to_numpy(copy=False)

    with_null = aw.from_arrow(pa.table({"v": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))}))
    assert with_null["v"].to_numpy().tolist() == [[1, 2], None]


def send_rows(dataset, queue):
    """Runs in a child, and sends the rows of a dataset and whether they are mapped."""
    queue.put((dataset.to_pylist(), dataset.footprint.mapped > 0))


@pytest.mark.parametrize("method", [pytest.param("fork", marks=unix_only), "spawn"])
def test_datasets_are_sent_to_workers_as_paths(tmp_path, stocks, method):
    path = write_ipc(tmp_path / "stocks.arrow", stocks, max_rows=100)
    ds = aw.open(path, validate="full")[50:250].select(["price", "symbol"])
    assert len(pickle.dumps(ds)) < 500
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=send_rows, args=(ds, queue))
    worker.start()
    received = queue.get(timeout=PATIENCE)
    worker.join()
    assert received == (ds.to_pylist(), True)


def test_pickled_tables_keep_their_rows_while_the_table_changes(tmp_path):
    path = tmp_path / "table"
    with aw.writer(path, pa.schema({"n": pa.int64()}), segment_rows=1000) as writer:
        writer.append({"n": list(range(2500))})
        writer.commit()
        ds = aw.open(path)
        pickled, pickled_slice = pickle.dumps(ds), pickle.dumps(ds[990:2010])
        writer.append({"n": [-1]})
        writer.commit()
        assert pickle.loads(pickled)["n"].to_pylist() == list(range(2500))
        assert pickle.loads(pickled_slice)["n"].to_pylist() == list(range(990, 2010)) and len(pickled_slice) < 500
        writer.drop_before(1000)
        with pytest.raises(aw.RowOutOfRange, match="no longer exist"):
            pickle.loads(pickled)
        later = aw.open(path)[5:10]
        assert pickle.loads(pickle.dumps(later))["n"].to_pylist() == later["n"].to_pylist() == list(range(1005, 1010))


def test_datasets_of_several_files_and_in_memory_can_be_pickled(tmp_path):
    paths = [write_ipc(tmp_path / f"{i}.arrow", pa.table({"n": [i, i + 10]})) for i in range(2)]
    two_files = aw.open(paths)
    assert pickle.loads(pickle.dumps(two_files))["n"].to_pylist() == [0, 10, 1, 11]
    assert pickle.loads(pickle.dumps(two_files[:0])).to_pylist() == []
    in_memory = aw.from_arrow(pa.table({"n": [1, 2, 3]}))
    assert pickle.loads(pickle.dumps(in_memory[1:]))["n"].to_pylist() == [2, 3]


def replace_file(path, numbers):
    """Replaces a file by a new one with the column `n`."""
    next_path = path.with_suffix(".next")
    aw.write({"n": numbers}, next_path)
    next_path.replace(path)


@unix_only
def test_unpickling_fails_if_the_file_was_replaced(tmp_path):
    path = tmp_path / "f.arrow"
    aw.write({"n": [3, 1, 2]}, path)
    ds = aw.open(path)
    views = [ds, ds[1:], ds.sort("n"), ds.rename({"n": "m"}), ds.loader(2, seed=1)]
    pickled_views = [pickle.dumps(view) for view in views]
    split = ds.splits(1)[0]
    for pickled in pickled_views:
        pickle.loads(pickled)
    # Tools such as joblib hash the pickled dataset: equal files must give equal bytes.
    assert pickle.dumps(aw.open(path)) == pickled_views[0]
    replace_file(path, [30, 10, 20])
    assert pickle.dumps(aw.open(path)) != pickled_views[0]
    for pickled in pickled_views:
        with pytest.raises(aw.FileChanged, match="it was replaced or overwritten; open it anew"):
            pickle.loads(pickled)
    with pytest.raises(aw.FileChanged, match="f.arrow"):
        split.open()
    assert split._replace(version=None).open()["n"].to_pylist() == [30, 10, 20]


def test_unpickling_accepts_a_copy_with_the_same_modification_time(tmp_path):
    path = tmp_path / "f.arrow"
    aw.write({"n": [30, 10, 20]}, path)
    os.utime(path, ns=(0, 0))
    pickled = pickle.dumps(aw.open(path))
    shutil.copy2(path, tmp_path / "copy.arrow")
    os.replace(tmp_path / "copy.arrow", path)
    assert pickle.loads(pickled)["n"].to_pylist() == [30, 10, 20]


def test_unpickling_fails_if_the_table_was_replaced(tmp_path):
    path = tmp_path / "t"
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": [1, 2, 3]})
    pickled = pickle.dumps(aw.open(path))
    assert pickle.loads(pickled)["n"].to_pylist() == [1, 2, 3]
    shutil.rmtree(path)
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": [10, 20, 30]})
    with pytest.raises(aw.FileChanged, match="replaced"):
        pickle.loads(pickled)


def test_a_pickled_stream_keeps_its_rows_while_the_file_grows(tmp_path):
    path = tmp_path / "stream.arrows"
    with open(path, "wb") as sink, pa.ipc.new_stream(sink, pa.schema({"n": pa.int64()})) as writer:
        writer.write_batch(pa.record_batch({"n": [1, 2]}))
        sink.flush()
        pickled = pickle.dumps(aw.open(path))
        writer.write_batch(pa.record_batch({"n": [3]}))
    assert pickle.loads(pickled)["n"].to_pylist() == [1, 2]


def test_quantiles_between_infinities_and_large_numbers():
    """The difference of two such values, by which an interpolation could be calculated, is NaN or overflows."""
    inf, large = float("inf"), 1.7e308
    for values, q, expected in [
        ([inf, inf, inf], 0.25, inf),
        ([-inf, -inf, 1.0], 0.25, -inf),
        ([-inf, 5.0], 0.5, -inf),
        ([-large, large], 0.5, 0.0),
    ]:
        assert aw.from_arrow(pa.table({"x": values}))["x"].quantile(q) == expected


def test_approx_quantile_finds_few_numbers_among_nulls():
    """A sample of all rows would rarely contain one of the numbers."""
    values = pa.concat_arrays([pa.array([0.0]), pa.nulls(3_000_000, pa.float64())])
    ds = aw.from_arrow(pa.table({"x": values, "text": pa.nulls(len(values), pa.string())}))
    assert ds["x"].approx_quantile(0.5) == 0.0
    for q in (-0.1, 1.1, float("nan")):
        with pytest.raises(aw.InvalidArgument):
            ds["x"].approx_quantile(q)
    with pytest.raises(aw.Unsupported):
        ds["text"].approx_quantile(0.5)


def test_quantiles_of_many_numbers_equal_numpy():
    values = np.random.default_rng(5).normal(size=1_500_000)
    column = aw.from_arrow(pa.table({"x": values}))["x"]
    for q in (0.0, 0.001, 0.5, 0.77, 1.0):
        assert column.quantile(q) == pytest.approx(np.quantile(values, q), rel=1e-12, abs=1e-12)


def test_sums_of_dictionaries_without_values():
    """The scale of a sum of decimals is the scale of the type, also without a value to take it from."""
    nulls = pa.DictionaryArray.from_arrays(pa.nulls(2, pa.int8()), pa.array([], pa.decimal128(10, 2)))
    assert str(aw.from_arrow(pa.table({"d": nulls}))["d"].sum()) == "0.00"


def test_sums_of_dictionaries_of_durations():
    durations = pa.array([5, 7, 5], pa.duration("s")).dictionary_encode()
    ds = aw.from_arrow(pa.table({"d": durations}))
    assert ds["d"].sum() == ds.aggregate(sum=("d", "sum"))[0]["sum"] == dt.timedelta(seconds=17)


def test_the_mean_of_durations_is_unsupported_also_if_their_sum_overflows():
    for values in ([1], [2**62, 2**62]):
        for array in (pa.array(values, pa.duration("s")), pa.array(values, pa.duration("s")).dictionary_encode()):
            with pytest.raises(aw.Unsupported, match="mean"):
                aw.from_arrow(pa.table({"d": array}))["d"].mean()


@pytest.mark.parametrize("microseconds", [1 - 2**63, -(2**63) // 10**6 * 10**6 + 10**6, 2**63 - 1])
def test_the_longest_durations_are_compared_and_appended(microseconds):
    """Some fit 64 bits, though their whole seconds, rounded down, don't fit in microseconds."""
    duration = dt.timedelta(microseconds=microseconds)
    ds = aw.from_arrow(pa.table({"d": pa.array([microseconds, 0], pa.duration("us"))}))
    assert len(ds.filter(aw.col("d") == duration)) == len(ds.filter(aw.col("d").is_in([duration]))) == 1
    builder = aw.Builder("d: duration[us]")
    builder.append_row(d=duration)
    assert builder.finish()["d"].to_pylist() == [duration]


def test_filters_of_a_table_sorted_by_date64_lose_no_rows(tmp_path):
    """Such a table is sorted by day, while conditions compare milliseconds."""
    day = 86_400_000
    milliseconds = [0, day + 5, day + 3, day + 9, day + 1, 2 * day]
    dates = pa.array(milliseconds, pa.int64()).view(pa.date64())
    with aw.writer(tmp_path / "t", pa.schema([pa.field("d", pa.date64(), nullable=False)]), sorted_by="d") as writer:
        writer.append(pa.table({"d": dates}))
        writer.commit()
    table, unsorted = aw.open(tmp_path / "t"), aw.from_arrow(pa.table({"d": dates}))
    for literal in (dt.datetime(1970, 1, 2), dt.date(1970, 1, 2)):
        for condition in (aw.col("d") <= literal, aw.col("d") < literal, aw.col("d") == literal, aw.col("d") > literal):
            assert table.filter(condition).to_pylist() == unsorted.filter(condition).to_pylist()


def test_parts_of_two_tables_with_one_path_are_not_searched_as_one(tmp_path):
    """The tables existed one after the other, so their rows are not in order together."""
    path = tmp_path / "t"
    schema = pa.schema([pa.field("s", pa.int64(), nullable=False)])
    parts = []
    for values, rows in (([10, 11], slice(0, 2)), ([1, 2, 3, 4], slice(2, 4))):
        shutil.rmtree(path, ignore_errors=True)
        with aw.writer(path, schema, sorted_by="s") as writer:
            writer.append({"s": values})
            writer.commit()
        parts.append(aw.open(path)[rows])
    concatenated = aw.concat(parts)
    assert concatenated.filter(aw.col("s") > 5).to_pylist() == [{"s": 10}, {"s": 11}]
    with pytest.raises(aw.InvalidArgument, match="several"):
        concatenated.between(5, 20)
    assert aw.concat(parts[::-1]).to_pylist() == [{"s": n} for n in (3, 4, 10, 11)]
