"""Tests rows by number and by predicate, and computations on columns, against pyarrow and NumPy."""

import datetime as dt
import decimal
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import arrowwood as aw
from conftest import ipc_of, same, write_ipc
from waits import PATIENCE


@pytest.fixture(scope="module")
def table():
    """Numbers, text, keys, times, decimals and lists, with nulls."""
    random = np.random.default_rng(7)
    rows = 5_000
    number = random.integers(-50, 50, rows)
    mask = random.random(rows) < 0.2
    words = np.array(["apple", "pear", "fig", "a longer word than twelve", ""])[random.integers(0, 5, rows)]
    price = random.normal(100, 20, rows)
    price[::97] = np.nan
    moments = np.datetime64("2020-01-01", "ms") + random.integers(0, 10**11, rows)
    return pa.table(
        {
            "n": pa.array(number, mask=mask),
            "u": pa.array((number + 50).astype("uint8")),
            "price": pa.array(price, mask=np.roll(mask, 1)),
            "word": pa.array(words, mask=np.roll(mask, 2)),
            "key": pa.array(words, mask=np.roll(mask, 2)).dictionary_encode(),
            "flag": pa.array(number % 3 == 0, mask=np.roll(mask, 3)),
            "when": pa.array(moments, mask=np.roll(mask, 4)).cast(pa.timestamp("ms", "UTC")),
            "money": pa.array(
                [None if m else decimal.Decimal(int(n)) / 8 for n, m in zip(number, mask)], pa.decimal128(9, 3)
            ),
            "pair": pa.array([[int(n), 1] for n in number], pa.list_(pa.int64(), 2)),
            "row": pa.array(np.arange(rows)),
        }
    )


@pytest.fixture(scope="module", params=[("file", None), ("stream", 700), ("file", 64)])
def both(request, table):
    format, rows = request.param
    return aw.open(ipc_of(table, format, rows)), table


def rows_of(ds):
    return ds["row"].to_pylist()


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "uint64", ">i4", list, pa.array])
def test_take(both, dtype):
    ds, table = both
    wanted = [5, 3, 200, 3, 0, 255]
    given = list(wanted) if dtype is list else pa.array(wanted) if dtype is pa.array else np.array(wanted, dtype)
    taken = ds.take(given)
    assert all(map(same, taken.to_pylist(), [ds[i] for i in wanted]))
    assert rows_of(taken) == wanted == rows_of(ds[given])
    assert taken.to_arrow().drop_columns("price").equals(table.drop_columns("price").take(wanted))
    assert [row["row"] for row in ds.__getitems__(given)] == wanted


def test_take_from_the_end_and_out_of_range(both):
    ds, table = both
    assert rows_of(ds.take([-1, 0, -len(ds)])) == [len(ds) - 1, 0, 0]
    assert rows_of(ds.take([])) == [] == rows_of(ds.take(np.array([], "float64")))
    for row in (len(ds), -len(ds) - 1, 2**63, 2**70):
        with pytest.raises(aw.RowOutOfRange, match=str(row)):
            ds.take([0, row])
        with pytest.raises(aw.RowOutOfRange):
            ds.__getitems__([0, row])
    with pytest.raises(aw.RowOutOfRange):
        ds.take(np.array([2**63 + 1], "uint64"))
    for wrong in (np.array([1.5]), np.array([[1, 2]]), np.array([True])):
        with pytest.raises(TypeError, match="row numbers"):
            ds.take(wrong)
    with pytest.raises(TypeError):
        ds.take([1.5])


def comparisons(table):
    moment = table["when"].drop_null()[17].as_py()
    yield from (("n", value) for value in (0, -7, 2.5, 1000, -1e300, float("nan"), decimal.Decimal("3.0")))
    yield from (("u", value) for value in (-1, 0, 99, 256, np.int8(3), 2**70))
    yield from (("price", value) for value in (100, 99.5, float("inf"), float("nan"), np.float32(100), 2**53 + 1))
    yield from (("word", value) for value in ("fig", "", "zzz", "a longer word than twelve"))
    yield from (("key", value) for value in ("fig", "", "zzz"))
    yield from (("flag", value) for value in (True, False))
    yield ("when", moment)
    yield ("when", moment.astimezone(dt.timezone(dt.timedelta(hours=5))) + dt.timedelta(microseconds=1))
    yield from (("money", value) for value in (decimal.Decimal("1.125"), 2, 1.1))


OPERATORS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


def plain(column, value):
    """The column as Python values that compare exactly."""
    if isinstance(value, float) and column.type == pa.decimal128(9, 3):
        value = decimal.Decimal(str(value))
    return column.to_pylist(), value


@pytest.mark.parametrize("operator", OPERATORS)
def test_filter_compares_as_python_does(both, operator):
    import operator as python

    ds, table = both
    short = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
    compare = getattr(python, short[operator])
    for name, value in comparisons(table):
        values, exact = plain(table[name], value)
        holds = [None if v is None else bool(compare(v, exact)) for v in values]
        predicate = compare(aw.col(name), value)
        assert rows_of(ds.filter(predicate)) == [i for i, h in enumerate(holds) if h], (name, value)
        assert rows_of(ds.filter(~predicate)) == [i for i, h in enumerate(holds) if h is False], (name, value)


@pytest.mark.parametrize("operator", OPERATORS)
def test_filter_compares_as_pyarrow_does(both, operator):
    ds, table = both
    mask = getattr(pc, operator)(table["price"], 100.0)
    python = {"equal": "__eq__", "not_equal": "__ne__", "less": "__lt__", "less_equal": "__le__", "greater": "__gt__"}
    found = ds.filter(getattr(aw.col("price"), python.get(operator, "__ge__"))(100.0))
    expected = table.filter(mask)
    assert rows_of(found) == expected["row"].to_pylist()
    assert found.select(["word", "key", "pair"]).to_pylist() == expected.select(["word", "key", "pair"]).to_pylist()


def test_predicates_are_put_together(both):
    ds, table = both
    found = ds.filter((aw.col("price") > 100) & aw.col("word").is_in(["fig", "pear"]) | aw.col("n").is_null())
    price, word, n = table["price"], table["word"], table["n"]
    mask = pc.or_kleene(pc.and_kleene(pc.greater(price, 100), pc.is_in(word, pa.array(["fig", "pear"]))), pc.is_null(n))
    assert rows_of(found) == table.filter(mask)["row"].to_pylist()
    assert rows_of(ds.filter(aw.col("key").is_not_null())) == table.filter(pc.is_valid(table["key"]))["row"].to_pylist()
    when = np.datetime64("2021-06-01")
    mask = pc.greater_equal(
        table["when"], pa.scalar(when.astype("M8[ms]"), pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    )
    assert rows_of(ds.filter(aw.col("when") >= when)) == table.filter(mask)["row"].to_pylist()


def test_columns_make_predicates(both):
    ds, table = both
    rows = range(len(table))
    n, price, word = (table[name].to_pylist() for name in ("n", "price", "word"))
    asked = {
        "==": (ds["n"] == 7, [i for i in rows if n[i] == 7]),
        "!=": (ds["n"] != 7, [i for i in rows if n[i] not in (None, 7)]),
        "<": (ds["n"] < 0, [i for i in rows if n[i] is not None and n[i] < 0]),
        "<=": (ds["n"] <= 0, [i for i in rows if n[i] is not None and n[i] <= 0]),
        ">": (ds["price"] > 100, [i for i in rows if price[i] is not None and price[i] > 100]),
        ">=": (ds["word"] >= "fig", [i for i in rows if word[i] is not None and word[i] >= "fig"]),
        "turned": (3 < ds["n"], [i for i in rows if n[i] is not None and n[i] > 3]),
        "turned by NumPy": (np.int64(3) < ds["n"], [i for i in rows if n[i] is not None and n[i] > 3]),
        "a float of NumPy": (
            np.float64(99.5) >= ds["price"],
            [i for i in rows if price[i] is not None and price[i] <= 99.5],
        ),
        "is_in": (ds["word"].is_in(["fig", ""]), [i for i in rows if word[i] in ("fig", "")]),
        "is_null": (ds["n"].is_null(), [i for i in rows if n[i] is None]),
        "is_not_null": (ds["n"].is_not_null(), [i for i in rows if n[i] is not None]),
    }
    asked["&"] = (
        (ds["n"] > 0) & (ds["word"] == "fig"),
        [i for i in rows if n[i] is not None and n[i] > 0 and word[i] == "fig"],
    )
    asked["|"] = ((ds["n"] == 1) | (aw.col("n") == 2), [i for i in rows if n[i] in (1, 2)])
    asked["~"] = (~(ds["n"] > 0), [i for i in rows if n[i] is not None and n[i] <= 0])
    for name, (predicate, expected) in asked.items():
        assert isinstance(predicate, aw.Predicate), name
        assert rows_of(ds[predicate]) == rows_of(ds.filter(predicate)) == expected, name
        assert ds.aggregate(where=predicate, rows="count")["rows"].to_pylist() == [len(expected)], name
        assert ds["row"][predicate].to_pylist() == expected, name
        # The same rows without the column, or as another slice of all.
        assert rows_of(ds.select(["row"])[predicate]) == rows_of(ds[:][predicate]) == expected, name
        assert ds.select(["row"])[predicate].columns == ["row"], name
        assert ds.select(["row"]).aggregate(where=predicate, rows=("row", "count"))["rows"].to_pylist() == [
            len(expected)
        ], name
    assert rows_of(ds[10:20][ds[10:20]["n"].is_not_null()]) == [i for i in range(10, 20) if n[i] is not None]


def test_predicates_of_other_rows_are_refused(both):
    ds, table = both
    of_others = [
        ds[1:],
        ds[:-1],
        aw.open(ipc_of(table)),
        aw.from_arrow(table),
        ds.take(range(len(ds))),
        aw.concat([ds, ds]),
    ]
    for other in of_others:
        for condition in (other["n"] > 3, (ds["n"] > 3) & (other["n"] > 3), ~other["n"].is_null()):
            for call in (
                ds.filter,
                ds.__getitem__,
                ds["row"].__getitem__,
                lambda condition: ds.aggregate(where=condition, rows="count"),
            ):
                with pytest.raises(aw.InvalidArgument, match=r'other rows.*aw\.col\("n"\)'):
                    call(condition)
        # A condition on a name applies to any rows with that column.
        assert len(other.filter(aw.col("n") > 3)) >= 0
    twice = aw.from_arrow(pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["a", "a"]))
    with pytest.raises(aw.InvalidArgument, match="both called"):
        twice[twice.column(1) > 3]
    assert twice.column(1)[twice.column(1) > 3].to_pylist() == [4]


def test_a_table_that_has_grown_has_other_rows(tmp_path):
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


def test_what_is_no_condition_says_what_to_write(both):
    ds, _ = both
    for condition in (ds["n"] == 1, aw.col("n") == 1):
        for call in (bool, lambda condition: condition and True, lambda condition: not condition):
            with pytest.raises(TypeError, match=r"ds\.filter\(…\)"):
                call(condition)
    with pytest.raises(TypeError, match="of rows only"):
        1 < ds["n"] < 3
    for column in (ds["n"], aw.col("n")):
        for nothing in (None, np.datetime64("NaT"), pd.NaT, pd.NA):
            for compare in ("__eq__", "__ne__", "__lt__"):
                with pytest.raises(TypeError, match="is_null"):
                    getattr(column, compare)(nothing)
        with pytest.raises(TypeError, match="is_null"):
            column.is_in([1, None])
        for several in ([1, 2], np.array([1, 2]), pa.array([1, 2])):
            with pytest.raises(TypeError, match="is_in"):
                column == several
        for other in (ds["n"], aw.col("n")):
            assert len(ds.filter(column >= other)) == ds["n"].count() and len(ds.filter(column != other)) == 0
        with pytest.raises(aw.Unsupported, match=r"ds\.sql"):
            ds.filter(column > aw.col("word"))
        with pytest.raises(TypeError, match="unhashable"):
            hash(column)
    # Booleans are no row numbers, though Python has them among its integers; in brackets there is one for each row.
    for mask in ([True, False], np.array([True, False]), ds["flag"], True):
        with pytest.raises(TypeError):
            ds.take(mask)
    for mask, error in (
        ([True, False], aw.InvalidArgument),
        (np.array([True, False]), aw.InvalidArgument),
        (True, TypeError),
    ):
        for call in (ds.__getitem__, ds["n"].__getitem__):
            with pytest.raises(error):
                call(mask)
    assert 7 in ds["n"] and 1000 not in ds["n"]


def test_functions_of_numpy_take_columns():
    ds = aw.from_arrow(pa.table({"x": [1.0, 4.0, None], "y": [1, 2, 3]}))
    assert np.array_equal(np.sqrt(ds["x"]), [1, 2, np.nan], equal_nan=True)
    assert (np.add(ds["y"], ds["y"]) == [2, 4, 6]).all() and np.add.reduce(ds["y"]) == 6
    assert (np.arange(3) * ds["y"] == [0, 2, 6]).all() and (np.array([1, 0, 3]) == ds["y"]).tolist() == [
        True,
        False,
        True,
    ]
    out = np.empty(3)
    assert np.multiply(ds["y"], 2, out=out) is out and out.tolist() == [2, 4, 6]


def test_what_cannot_be_compared_says_so(both):
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
    with pytest.raises(TypeError, match="together by &"):
        bool(aw.col("n") > 3)
    with pytest.raises(TypeError):
        ds.filter("n > 3")
    with pytest.raises(TypeError, match="several values"):
        aw.col("word").is_in("fig")
    assert repr((aw.col("n") > 3) & ~aw.col("word").is_null()) == "(n > 3) & (~(word is null))"
    assert repr(aw.col("n")) == 'col("n")'


def test_sample_and_shuffle(both):
    ds, table = both
    drawn = rows_of(ds.sample(100, seed=1))
    assert len(set(drawn)) == 100 and drawn == rows_of(ds.sample(100, seed=1)) != rows_of(ds.sample(100, seed=2))
    assert drawn[:10] == rows_of(ds.sample(10, seed=1))
    assert rows_of(ds.sample(100)) != rows_of(ds.sample(100))
    with pytest.raises(aw.InvalidArgument, match="different rows"):
        ds.sample(len(ds) + 1)
    with pytest.raises(aw.InvalidArgument):
        ds.sample(-1)
    view = ds.shuffle(seed=1)
    order = rows_of(view)
    assert sorted(order) == list(range(len(ds))) != order
    assert [view[i]["row"] for i in (0, 17, -1)] == [order[0], order[17], order[-1]]
    assert rows_of(view[10:20]) == order[10:20] == [row["row"] for row in view.rows(10, 20)]
    assert view.select(["word", "row"])[3] == {"word": table["word"][order[3]].as_py(), "row": order[3]}
    assert view["n"].sum() == pc.sum(table["n"]).as_py()
    assert view.shuffle(seed=2)[0]["row"] == rows_of(view.shuffle(seed=2))[0]
    assert rows_of(view.take([3, 1])) == [order[3], order[1]]
    assert aw.from_arrow(view)["row"].to_pylist() == order


def naive_groups(table, by, where=None):
    """Rows of each group, in the order in which groups appear."""
    keys = list(zip(*(table[name].to_pylist() for name in by))) if by else [()] * len(table)
    groups = {}
    for row, key in enumerate(keys):
        if where is None or where[row]:
            groups.setdefault(tuple("nan" if k != k else k for k in key), []).append(row)
    return groups


@pytest.mark.parametrize(
    "by", [["key"], ["word"], ["n"], ["u", "flag"], ["key", "word", "n"], ["when"], ["money"], ["price"], []]
)
def test_aggregate(both, by):
    ds, table = both
    asked = dict(
        rows="count",
        mean=("price", "mean"),
        total=("n", "sum"),
        low=("n", "min"),
        high=("price", "max"),
        filled=("n", "count"),
        var=("price", "var"),
        std=("n", "std"),
        paid=("money", "sum"),
        last=("when", "max"),
        first=("word", "min"),
        final=("key", "max"),
        any=("flag", "max"),
        cheap=("money", "mean"),
    )
    found = ds.aggregate(by, where=aw.col("row") >= 7, **asked)
    found.validate()
    assert repr(ds.filter(aw.col("row") >= 7).aggregate(by, **asked).to_pylist()) == repr(found.to_pylist())
    groups = naive_groups(table, by, [row >= 7 for row in range(len(table))])
    assert len(found) == len(groups)
    assert found.schema.names[: len(by)] == by and [found.schema[name].type for name in by] == [
        ds.schema[name].type for name in by
    ]
    columns = {name: table[name].to_pylist() for name in table.column_names}
    for result, (key, rows) in zip(found, groups.items()):
        values = {name: [v for v in (column[row] for row in rows) if v is not None] for name, column in columns.items()}
        assert tuple("nan" if result[name] != result[name] else result[name] for name in by) == key
        assert result["rows"] == len(rows) and result["filled"] == len(values["n"])
        assert result["total"] == sum(values["n"]) and result["paid"] == sum(values["money"])
        assert result["low"] == min(values["n"], default=None) and result["last"] == max(values["when"], default=None)
        assert result["first"] == min(values["word"], default=None) and result["final"] == max(
            values["key"], default=None
        )
        assert result["any"] == max(values["flag"], default=None)
        price = np.array(values["price"])
        assert same(
            result["high"],
            None if not len(price) else float(np.nanmax(price)) if not np.isnan(price).all() else float("nan"),
        )
        close(result["mean"], price.mean() if len(price) else None)
        close(result["var"], price.var(ddof=1) if len(price) > 1 else None)
        close(result["std"], np.std(values["n"], ddof=1) if len(values["n"]) > 1 else None)
        close(result["cheap"], float(sum(values["money"])) / len(values["money"]) if values["money"] else None)


@pytest.mark.parametrize("share", [0.02, 0.6])
def test_many_groups_of_filtered_rows(share):
    """More groups than one table holds: the rows are partitioned first."""
    random = np.random.default_rng(7)
    rows = 400_000
    keys = random.integers(0, 60_000, rows) * 7_919_000_003
    ds = aw.from_arrow(
        pa.table({"key": keys, "v": random.random(rows), "text": [f"t{key % 30_011}" for key in keys.tolist()]})
    )
    condition = aw.col("v") < share
    for by in ("key", "text", ["key", "text"]):
        found = ds.filter(condition).aggregate(by, n="count", total=("v", "sum"), high=("v", "max"))
        assert len(found) > 2_000
        assert found.to_arrow().equals(
            ds.aggregate(by, where=condition, n="count", total=("v", "sum"), high=("v", "max")).to_arrow()
        )
    frame = (
        pl.from_arrow(ds.to_arrow())
        .filter(pl.col("v") < share)
        .group_by("key")
        .agg(n=pl.len(), high=pl.col("v").max())
        .sort("key")
    )
    ours = pl.from_arrow(ds.filter(condition).aggregate("key", n="count", high=("v", "max")).to_arrow()).sort("key")
    assert (
        ours["key"].equals(frame["key"])
        and ours["n"].to_list() == frame["n"].to_list()
        and ours["high"].equals(frame["high"])
    )


def close(found, expected):
    assert (found is None) == (expected is None)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_aggregate_names(both):
    ds, table = both
    assert ds.aggregate("key", price="mean").schema.names == ["key", "price"]
    assert ds.aggregate(price=("price", "count"), n=("n", "count")).to_pylist() == [
        {"price": len(table) - table["price"].null_count, "n": len(table) - table["n"].null_count}
    ]
    assert ds[:0].aggregate("key", price="mean").to_pylist() == []
    assert ds[:0].aggregate(price="mean", t=("n", "sum"), w=("word", "min")).to_pylist() == [
        {"price": None, "t": 0, "w": None}
    ]
    assert ds.aggregate("word", where=aw.col("n") > 1000, n="sum").to_pylist() == []
    for problem, asked in (
        (aw.ColumnNotFound, {"x": "mean"}),
        (aw.InvalidArgument, {"n": "average"}),
        (aw.InvalidArgument, {"key": "max"}),
        (aw.Unsupported, {"word": "mean"}),
        (TypeError, {"n": 3}),
    ):
        with pytest.raises(problem):
            ds.aggregate("key", **asked)
    with pytest.raises(aw.Unsupported, match="grouping"):
        ds.aggregate("pair", n="sum")
    with pytest.raises(TypeError, match="expected a condition"):
        ds.aggregate("key", where="n > 3", n="sum")


def test_sums_that_do_not_fit_are_errors():
    ds = aw.from_arrow(pa.table({"k": [1, 1, 2], "n": [2**63 - 1, 1, -5], "u": pa.array([2**64 - 1, 0, 5], "uint64")}))
    assert ds.aggregate("k", u="sum")["u"].to_pylist() == [2**64 - 1, 5]
    with pytest.raises(aw.InvalidArgument, match="fit"):
        ds.aggregate("k", n="sum")
    assert ds["n"].sum() == 2**63 - 5


def test_reductions(both):
    ds, table = both
    price = table["price"].drop_null().to_numpy()
    n = table["n"].drop_null().to_numpy()
    close(ds["n"].var(), n.var(ddof=1))
    close(ds["n"].std(), n.std(ddof=1))
    assert np.isnan(ds["price"].var())
    for q in (0, 0.25, 0.5, 0.9, 1):
        close(ds["n"].quantile(q), np.quantile(n, q))
        close(ds["price"].quantile(q), np.nanquantile(price, q))
        close(
            ds["money"].quantile(q), float(np.quantile([float(v) for v in table["money"].drop_null().to_pylist()], q))
        )
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


def test_describe(both):
    ds, table = both
    found = ds.describe().to_pylist()
    assert [row["statistic"] for row in found] == [
        "count",
        "null_count",
        "mean",
        "std",
        "min",
        "25%",
        "50%",
        "75%",
        "max",
    ]
    n = table["n"].drop_null().to_numpy()
    expected = [
        len(n),
        table["n"].null_count,
        n.mean(),
        n.std(ddof=1),
        n.min(),
        *np.quantile(n, [0.25, 0.5, 0.75]),
        n.max(),
    ]
    np.testing.assert_allclose([row["n"] for row in found], expected)
    words = table["word"].drop_null().to_pylist()
    assert [row["word"] for row in found] == [
        str(len(words)),
        str(table["word"].null_count),
        None,
        None,
        min(words),
        None,
        None,
        None,
        max(words),
    ]
    assert found[2]["flag"] == pytest.approx(pc.mean(table["flag"]).as_py())
    assert ds[:0].describe()["n"].to_pylist() == [0, 0] + [None] * 7


def test_lists_of_one_length_are_rows_of_two_dimensions(tmp_path):
    numbers = np.arange(24, dtype="float32").reshape(6, 4)
    column = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), 4)
    path = write_ipc(tmp_path / "vectors.arrow", pa.table({"v": column, "i": np.arange(6)}))
    ds = aw.open(path)
    found = ds["v"].to_numpy(copy=False)
    assert found.shape == (6, 4) and found.dtype == "float32" and not found.flags.writeable
    assert (found == numbers).all() and (ds[2:5]["v"].to_numpy(copy=False) == numbers[2:5]).all()
    assert not found.flags.owndata and (np.asarray(ds["v"]) == numbers).all()
    in_batches = aw.open(ipc_of(pa.table({"v": column}), "file", 2))
    assert (in_batches["v"].to_numpy() == numbers).all()
    with pytest.raises(aw.CopyNeeded, match="3 chunks"):
        in_batches["v"].to_numpy(copy=False)
    assert (ds.take([5, 0])["v"].to_numpy() == numbers[[5, 0]]).all()
    assert aw.from_arrow(pa.table({"v": column[1:3]}))["v"].to_numpy().tolist() == numbers[1:3].tolist()
    assert ds[:0]["v"].to_numpy().shape == (0, 4)
    holed = aw.from_arrow(pa.table({"v": pa.array([[1, 2], None], pa.list_(pa.int8(), 2))}))
    assert holed["v"].to_numpy().tolist() == [[1, 2], None]


def rows_in_child(dataset, queue):
    queue.put((dataset.to_pylist(), dataset.footprint.mapped > 0))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_datasets_travel_to_workers_as_paths(tmp_path, stocks, method):
    import multiprocessing
    import pickle

    path = write_ipc(tmp_path / "stocks.arrow", stocks, max_rows=100)
    ds = aw.open(path, validate="full")[50:250].select(["price", "symbol"])
    assert len(pickle.dumps(ds)) < 500
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=rows_in_child, args=(ds, queue))
    worker.start()
    found = queue.get(timeout=PATIENCE)
    worker.join()
    assert found == (ds.to_pylist(), True)


def test_pickled_tables_have_the_rows_that_they_had(tmp_path):
    import pickle

    path = tmp_path / "table"
    with aw.writer(path, pa.schema({"n": pa.int64()}), segment_rows=1000) as writer:
        writer.append({"n": list(range(2500))})
        writer.commit()
        ds = aw.open(path)
        pickled, part = pickle.dumps(ds), pickle.dumps(ds[990:2010])
        writer.append({"n": [-1]})
        writer.commit()
        assert pickle.loads(pickled)["n"].to_pylist() == list(range(2500))
        assert pickle.loads(part)["n"].to_pylist() == list(range(990, 2010)) and len(part) < 500
        writer.drop_before(1000)
        with pytest.raises(aw.RowOutOfRange, match="no longer exist"):
            pickle.loads(pickled)
        later = aw.open(path)[5:10]
        assert pickle.loads(pickle.dumps(later))["n"].to_pylist() == later["n"].to_pylist() == list(range(1005, 1010))
    two = aw.open([write_ipc(tmp_path / f"{i}.arrow", pa.table({"n": [i, i + 10]})) for i in range(2)])
    assert pickle.loads(pickle.dumps(two))["n"].to_pylist() == [0, 10, 1, 11]
    memory = aw.from_arrow(pa.table({"n": [1, 2, 3]}))
    assert pickle.loads(pickle.dumps(memory[1:]))["n"].to_pylist() == [2, 3]
    assert pickle.loads(pickle.dumps(two[:0])).to_pylist() == []


def replaced(path, rows):
    """Another file at `path`, with as many rows."""
    aw.write({"n": rows}, path.with_suffix(".next"))
    path.with_suffix(".next").rename(path)


def test_what_was_pickled_knows_its_file(tmp_path):
    import os
    import pickle
    import shutil

    path = tmp_path / "f.arrow"
    aw.write({"n": [3, 1, 2]}, path)
    ds = aw.open(path)
    shapes = [ds, ds[1:], ds.sort("n"), ds.rename({"n": "m"}), ds.loader(2, seed=1)]
    before = [pickle.dumps(shape) for shape in shapes]
    split = ds.splits(1)[0]
    for pickled in before:
        pickle.loads(pickled)
    # A hash of the pickled dataset, as joblib makes one, is the same while the file is, and for a copy in its place.
    assert pickle.dumps(aw.open(path)) == before[0]
    replaced(path, [30, 10, 20])
    assert pickle.dumps(aw.open(path)) != before[0]
    for pickled in before:
        with pytest.raises(aw.FileChanged, match="it was replaced or overwritten; open it anew"):
            pickle.loads(pickled)
    with pytest.raises(aw.FileChanged, match="f.arrow"):
        split.open()
    # A copy that has kept its time is the same.
    os.utime(path, ns=(0, 0))
    pickled = pickle.dumps(aw.open(path))
    shutil.copy2(path, tmp_path / "copy.arrow")
    os.rename(tmp_path / "copy.arrow", path)
    assert pickle.loads(pickled)["n"].to_pylist() == [30, 10, 20]
    assert split._replace(version=None).open()["n"].to_pylist() == [30, 10, 20]


def test_what_was_pickled_knows_its_table(tmp_path):
    import pickle
    import shutil

    for rows in [[1, 2, 3], [10, 20, 30]]:
        with aw.writer(tmp_path / "t", "n: int64") as writer:
            writer.append({"n": rows})
        if rows == [1, 2, 3]:
            pickled = pickle.dumps(aw.open(tmp_path / "t"))
            assert pickle.loads(pickled)["n"].to_pylist() == rows
            shutil.rmtree(tmp_path / "t")
    with pytest.raises(aw.FileChanged, match="replaced"):
        pickle.loads(pickled)


def test_what_was_pickled_of_a_stream_has_its_rows_when_it_has_grown(tmp_path):
    import pickle

    path = tmp_path / "stream.arrows"
    with open(path, "wb") as sink, pa.ipc.new_stream(sink, pa.schema({"n": pa.int64()})) as writer:
        writer.write_batch(pa.record_batch({"n": [1, 2]}))
        sink.flush()
        pickled = pickle.dumps(aw.open(path))
        writer.write_batch(pa.record_batch({"n": [3]}))
    assert pickle.loads(pickled)["n"].to_pylist() == [1, 2]


def test_quantiles_beside_infinities():
    """The line between two values once was drawn by their difference, which infinities and large numbers don't have."""
    inf, large = float("inf"), 1.7e308
    for values, q, expected in [
        ([inf, inf, inf], 0.25, inf),
        ([-inf, -inf, 1.0], 0.25, -inf),
        ([-inf, 5.0], 0.5, -inf),
        ([-large, large], 0.5, 0.0),
    ]:
        assert aw.from_arrow(pa.table({"x": values}))["x"].quantile(q) == expected


def test_approx_quantile_of_few_numbers():
    """A sample of rows that are nearly all null once stood for the few numbers, or found none."""
    values = pa.concat_arrays([pa.array([0.0]), pa.nulls(3_000_000, pa.float64())])
    ds = aw.from_arrow(pa.table({"x": values, "text": pa.nulls(len(values), pa.string())}))
    assert ds["x"].approx_quantile(0.5) == 0.0
    for q in (-0.1, 1.1, float("nan")):
        with pytest.raises(aw.InvalidArgument):
            ds["x"].approx_quantile(q)
    with pytest.raises(aw.Unsupported):
        ds["text"].approx_quantile(0.5)


def test_many_quantiles_at_once():
    values = np.random.default_rng(5).normal(size=1_500_000)
    column = aw.from_arrow(pa.table({"x": values}))["x"]
    for q in (0.0, 0.001, 0.5, 0.77, 1.0):
        assert column.quantile(q) == pytest.approx(np.quantile(values, q), rel=1e-12, abs=1e-12)


def test_sums_of_dictionaries_without_values():
    """The scale of decimals once was that of the first value, and durations had no sum."""
    none = pa.DictionaryArray.from_arrays(pa.nulls(2, pa.int8()), pa.array([], pa.decimal128(10, 2)))
    assert str(aw.from_arrow(pa.table({"d": none}))["d"].sum()) == "0.00"
    spans = pa.array([5, 7, 5], pa.duration("s")).dictionary_encode()
    ds = aw.from_arrow(pa.table({"d": spans}))
    assert ds["d"].sum() == ds.aggregate(sum=("d", "sum"))[0]["sum"] == dt.timedelta(seconds=17)


def test_the_mean_of_durations_is_not_supported_however_large_they_are():
    """Where their sum did not fit, the error was that of the sum."""
    for values in ([1], [2**62, 2**62]):
        for array in (pa.array(values, pa.duration("s")), pa.array(values, pa.duration("s")).dictionary_encode()):
            with pytest.raises(aw.Unsupported, match="mean"):
                aw.from_arrow(pa.table({"d": array}))["d"].mean()


@pytest.mark.parametrize("micros", [1 - 2**63, -(2**63) // 10**6 * 10**6 + 10**6, 2**63 - 1])
def test_the_longest_durations_are_compared_and_appended(micros):
    """Whole seconds before the first are more than 64 bits count, of some that fit."""
    span = dt.timedelta(microseconds=micros)
    ds = aw.from_arrow(pa.table({"d": pa.array([micros, 0], pa.duration("us"))}))
    assert len(ds.filter(aw.col("d") == span)) == len(ds.filter(aw.col("d").is_in([span]))) == 1
    builder = aw.Builder("d: duration[us]")
    builder.append_row(d=span)
    assert builder.finish()["d"].to_pylist() == [span]


def test_tables_sorted_by_day(tmp_path):
    """A table is sorted by the day of a date64, and conditions compare milliseconds: rows were lost between."""
    day = 86_400_000
    millis = [0, day + 5, day + 3, day + 9, day + 1, 2 * day]
    rows = pa.array(millis, pa.int64()).view(pa.date64())
    with aw.writer(tmp_path / "t", pa.schema([pa.field("d", pa.date64(), nullable=False)]), sorted_by="d") as writer:
        writer.append(pa.table({"d": rows}))
        writer.commit()
    table, plain = aw.open(tmp_path / "t"), aw.from_arrow(pa.table({"d": rows}))
    for literal in (dt.datetime(1970, 1, 2), dt.date(1970, 1, 2)):
        for condition in (aw.col("d") <= literal, aw.col("d") < literal, aw.col("d") == literal, aw.col("d") > literal):
            try:
                expected = plain.filter(condition).to_pylist()
            except aw.InvalidArgument:
                continue
            assert table.filter(condition).to_pylist() == expected


def test_parts_of_two_tables_at_one_path(tmp_path):
    """Parts of tables that had one path, one after the other, once counted as one table in order."""
    schema = pa.schema([pa.field("s", pa.int64(), nullable=False)])
    parts = []
    for values, rows in (([10, 11], slice(0, 2)), ([1, 2, 3, 4], slice(2, 4))):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        with aw.writer(tmp_path / "t", schema, sorted_by="s") as writer:
            writer.append({"s": values})
            writer.commit()
        parts.append(aw.open(tmp_path / "t")[rows])
    both = aw.concat(parts)
    assert both.filter(aw.col("s") > 5).to_pylist() == [{"s": 10}, {"s": 11}]
    with pytest.raises(aw.InvalidArgument, match="several"):
        both.between(5, 20)
    assert aw.concat(parts[::-1]).to_pylist() == [{"s": n} for n in (3, 4, 10, 11)]
