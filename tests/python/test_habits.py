"""Tests code that users of pandas and Polars write in notebooks: it works, or the error says what to write."""

import datetime
import pickle
import re
from collections.abc import Mapping as AbstractMapping
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import arrowwood as aw

COLUMNS = {
    "a": [3, 1, 2, 1],
    "b": ["x", None, "y", "x"],
    "flag": [True, False, True, None],
    "price": [0.1, 6.548509988835309, None, 2.5],
}


@pytest.fixture
def ds(tmp_path):
    aw.write(COLUMNS, tmp_path / "rows.arrow")
    return aw.open(tmp_path / "rows.arrow")


def test_several_columns(ds):
    names = ["b", "a"]
    for found in (ds[names], ds.select("b", "a"), ds.select(names), ds.select("b", ["a"])):
        assert found.columns == names and found.to_pylist() == [{"b": row["b"], "a": row["a"]} for row in ds]
    assert ds.columns == list(COLUMNS)
    assert ds.dtypes == ["int64", "utf8", "bool", "float64"]
    assert ds._ipython_key_completions_() == list(COLUMNS)
    with pytest.raises(TypeError, match=re.escape('ds[["a", "b"]]')):
        ds["a", "b"]
    with pytest.raises(TypeError, match="expected names of columns, got 3"):
        ds.select(3)
    with pytest.raises(aw.ColumnNotFound, match="'c'"):
        ds[["a", "c"]]


@given(
    length=st.integers(0, 30),
    cut=st.slices(30),
    start=st.one_of(st.none(), st.integers(-40, 40)),
    stop=st.one_of(st.none(), st.integers(-40, 40)),
    step=st.one_of(st.none(), st.integers(-9, 9).filter(bool)),
)
def test_slices_with_steps_are_those_of_lists(length, cut, start, stop, step):
    numbers = list(range(length))
    half = length // 2
    table = aw.concat([pa.table({"n": pa.array(part, pa.int64())}) for part in (numbers[:half], numbers[half:])])
    for each in (slice(start, stop, step), cut):
        assert table[each]["n"].to_pylist() == table["n"][each].to_pylist() == numbers[each]
        assert [row["n"] for row in table[each]] == numbers[each]


def test_a_slice_goes_somewhere(ds):
    with pytest.raises(aw.InvalidArgument, match="must not be 0"):
        ds[::0]
    assert ds[::-1][0] == ds[-1] and len(ds[::3]) == 2


def test_masks_choose_rows(ds):
    flags = [True, False, True, True]
    expected = [row for row, flag in zip(ds.to_pylist(), flags) if flag]
    for mask in (
        flags,
        np.array(flags),
        pd.Series(flags),
        pl.Series(flags),
        pa.array(flags),
        aw.from_arrow(pa.array(flags))["values"],
    ):
        assert ds[mask].to_pylist() == expected, type(mask)
        assert ds["a"][mask].to_pylist() == [row["a"] for row in expected]
    # A null chooses nothing, as in a condition.
    assert ds[ds["flag"]].to_pylist() == ds[ds["flag"] == True].to_pylist() == [ds[0], ds[2]]  # noqa: E712
    assert ds[ds["a"] > 1].to_pylist() == ds[ds["a"].to_numpy() > 1].to_pylist() == [ds[0], ds[2]]
    with pytest.raises(aw.InvalidArgument, match="one boolean for each of 4 rows"):
        ds[np.array([True])]
    with pytest.raises(TypeError, match=re.escape("ds[mask]")):
        ds.take(np.array(flags))
    assert ds["a"][[0, -1]].to_pylist() == [3, 1]


VALUES = {
    "int": st.one_of(st.none(), st.integers(-3, 3)),
    "float": st.one_of(st.none(), st.floats(-2, 2, width=16), st.just(float("inf"))),
    "text": st.one_of(st.none(), st.text("ab", max_size=2)),
}
TYPES = pa.schema({"int": pa.int64(), "float": pa.float64(), "text": pa.string()})


@given(
    st.lists(st.fixed_dictionaries(VALUES), max_size=20),
    st.lists(
        st.tuples(st.sampled_from(list(VALUES)), st.booleans()), min_size=1, max_size=3, unique_by=lambda by: by[0]
    ),
)
def test_sort_is_that_of_polars(rows, by):
    table = pa.Table.from_pylist(rows, TYPES)
    names, descending = [name for name, _ in by], [flag for _, flag in by]
    theirs = pl.from_arrow(table).sort(names, descending=descending, nulls_last=True, maintain_order=True)
    ours = aw.from_arrow(table).sort(*names, descending=descending)
    assert ours.to_pylist() == theirs.to_dicts() == ours.collect().to_pylist()
    (name, flag), *_ = by
    assert (
        aw.from_arrow(table)[name].sort(descending=flag).to_pylist()
        == pl.from_arrow(table)[name].sort(descending=flag, nulls_last=True).to_list()
    )


def test_sort_is_a_view(ds):
    found = ds.sort("price", descending=True)
    assert found.footprint.copied == 0 and found[0]["price"] == 6.548509988835309 and found[-1]["price"] is None
    assert found.columns == ds.columns
    with pytest.raises(aw.InvalidArgument, match="name of a column"):
        ds.sort()
    with pytest.raises(aw.InvalidArgument, match="2 values of descending for 1 columns"):
        ds.sort("a", descending=[True, False])
    with pytest.raises(aw.Unsupported, match="sorting by column 'items'"):
        aw.from_arrow(pa.table({"items": [[1]]})).sort("items")


@given(st.lists(st.fixed_dictionaries(VALUES), max_size=20), st.lists(st.sampled_from(list(VALUES)), unique=True))
def test_unique_is_that_of_polars(rows, names):
    table = pa.Table.from_pylist(rows, TYPES)
    theirs = pl.from_arrow(table).unique(names or None, keep="first", maintain_order=True)
    ours = aw.from_arrow(table)
    assert ours.unique(*names).to_pylist() == theirs.to_dicts()
    for name in VALUES:
        assert ours[name].unique().to_pylist() == pl.from_arrow(table)[name].unique(maintain_order=True).to_list()
        assert ours[name].drop_nulls().to_pylist() == pl.from_arrow(table)[name].drop_nulls().to_list()
    assert ours.drop_nulls(*names).to_pylist() == pl.from_arrow(table).drop_nulls(names or None).to_dicts()


def test_rename(ds, tmp_path):
    swapped = ds.rename({"a": "price", "price": "a"})
    assert swapped.columns == ["price", "b", "flag", "a"] and swapped["a"].to_pylist() == COLUMNS["price"]
    assert swapped[swapped["a"] > 1]["price"].to_pylist() == [1, 1]
    assert pickle.loads(pickle.dumps(swapped)).to_pylist() == swapped.to_pylist()
    assert ds.columns == list(COLUMNS)
    with pytest.raises(aw.ColumnNotFound, match="'c'"):
        ds.rename({"c": "d"})
    with pytest.raises(aw.InvalidArgument, match="two columns would be called 'b'"):
        ds.rename({"a": "b"})
    with pytest.raises(aw.InvalidArgument, match="renamed"):
        swapped.splits(2)


def test_renamed_columns_of_a_sorted_table_are_searched_as_they_are_called(tmp_path):
    """Two swapped names must not exchange the bounds of the sorted column and another one."""
    with aw.writer(tmp_path / "t", "n: int64 not null, back: int64", sorted_by="n") as writer:
        writer.append({"n": range(100), "back": range(100, 0, -1)})
    table = aw.open(tmp_path / "t")
    swapped = table.rename({"n": "back", "back": "n"})
    assert swapped.sorted_by == "back" and table.sorted_by == "n"
    assert swapped[aw.col("n") > 98]["back"].to_pylist() == [0, 1]
    assert swapped.between(3, 4)["back"].to_pylist() == [3, 4]
    only = table.rename({"n": "m", "back": "n"}).select("n")
    assert only.sorted_by is None and only[aw.col("n") > 98]["n"].to_pylist() == [100, 99]


def test_conditions_between_two_values(ds):
    for low, high in ((1, 2), (2, 2.5), (3, 1)):
        expected = [row for row in ds.to_pylist() if low <= row["a"] <= high]
        assert ds[ds["a"].is_between(low, high)].to_pylist() == expected
        assert ds.filter(aw.col("a").is_between(low, high)).to_pylist() == expected


@given(st.lists(st.tuples(st.sampled_from(["x", "y", None]), VALUES["int"], VALUES["float"]), max_size=40))
def test_medians_and_unique_values_of_groups_are_those_of_polars(rows):
    columns = {"by": pl.String, "int": pl.Int64, "float": pl.Float64}
    theirs = pl.DataFrame(rows, schema=columns, orient="row")
    ours = aw.from_arrow(theirs)
    asked = {
        "middle": ("int", "median"),
        "other": ("float", "median"),
        "n": ("int", "n_unique"),
        "m": ("float", "n_unique"),
    }
    expected = theirs.group_by("by", maintain_order=True).agg(
        middle=pl.col("int").median(),
        other=pl.col("float").median(),
        n=pl.col("int").n_unique(),
        m=pl.col("float").n_unique(),
    )
    found = ours.aggregate("by", **asked)
    assert found.to_pylist() == expected.to_dicts()
    some = ours.aggregate("by", where=aw.col("int") > 0, n=("float", "n_unique"), own=("by", "n_unique"))
    kept = theirs.filter(pl.col("int") > 0).group_by("by", maintain_order=True)
    assert some.to_pylist() == kept.agg(n=pl.col("float").n_unique(), own=pl.lit(1)).to_dicts()
    (whole,) = ours.aggregate(**asked).to_pylist()
    assert whole["n"] == theirs["int"].n_unique() and whole["middle"] == theirs["int"].median() == ours["int"].median()


def test_functions_of_numpy_take_columns_and_keywords(ds):
    column, array = ds["a"], np.array(COLUMNS["a"])
    for call in (
        lambda x: np.mean(x, axis=0),
        lambda x: np.std(x, ddof=1),
        lambda x: np.var(x),
        lambda x: np.sum(x, dtype="float64"),
        lambda x: np.max(x, initial=7),
        lambda x: np.min(x),
        lambda x: np.median(x),
        lambda x: np.quantile(x, [0.1, 0.9]),
        lambda x: np.unique(x, return_counts=True),
        lambda x: np.argsort(x, kind="stable"),
        lambda x: np.concatenate([x, x]),
        lambda x: np.stack((x, x), axis=1),
        lambda x: np.where(np.greater(x, array * 0 + 1), x, 0),
        lambda x: np.histogram(x, bins=3),
        lambda x: np.interp(2.5, array.cumsum(), x),
    ):
        found, expected = call(column), call(array)
        for ours, theirs in zip(found, expected) if isinstance(found, tuple) else [(found, expected)]:
            np.testing.assert_array_equal(ours, theirs)
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    # Nulls become NaN, as in arrays.
    assert np.isnan(np.mean(ds["price"])) and np.nanmax(ds["price"]) == ds["price"].max()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("join", "ds.sql("),
        ("merge", "aw.scan(ds).join"),
        ("rolling", "(order by ts rows 9 preceding)"),
        ("pivot", "ds.to_polars().pivot("),
        ("group_by", "ds.aggregate(by="),
        ("with_columns", "aw.scan(ds).with_columns"),
        ("dropna", "ds.drop_nulls("),
        ("sort_values", "ds.sort("),
        ("to_parquet", 'aw.write(ds, "x.parquet")'),
        ("iloc", "ds[10:20]"),
        ("price", "ds['price']"),
        ("mean", 'ds["x"].mean()'),
        ("nothing", "has no attribute 'nothing'"),
    ],
)
def test_what_a_dataset_has_not_says_what_to_write(ds, name, hint):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(ds, name)
    assert not hasattr(ds, name)


def test_what_a_column_has_not_says_what_to_write(ds):
    for name, hint in (
        ("cast", "::double"),
        ("str", "ds.sql"),
        ("dt", "set timezone='UTC'; select *, hour(ts)"),
        ("isin", "is_in"),
        ("argmax", "np.nanargmax(column)"),
        ("x", "'x'"),
    ):
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(ds["a"], name)
    for name, hint in (("sqrt", 'pl.col("y").sqrt()'), ("isin", "is_in"), ("between", "is_between"), ("x", "'x'")):
        with pytest.raises(AttributeError, match=re.escape(hint)):
            getattr(aw.col("a"), name)


def test_arithmetic_of_a_column_says_what_to_write(ds):
    column = ds["a"]
    for compute in (lambda x: x + 1, lambda x: 1 - x, lambda x: x * 2.5, lambda x: x / x, lambda x: 7 % x):
        with pytest.raises(TypeError, match=re.escape("column.to_numpy()") + ".*" + re.escape('aw.col("a")')):
            compute(column)
    # Operations that make sense for a column still work.
    values = column.to_numpy()
    for found, expected in (
        (column + values, values + values),
        (values - column, values - values),
        (column * np.float64(2), values * 2.0),
    ):
        np.testing.assert_array_equal(found, expected)
    assert (column + pd.Series(values)).tolist() == (values + values).tolist()
    assert repr(column + aw.col("a")) == repr(aw.col("a") + column) == "(a + a)"


def test_objects_of_other_libraries_in_the_wrong_place(ds, tmp_path):
    """The error says what to call instead."""
    with pytest.raises(TypeError, match="got DataFrame; .*aw.from_arrow"):
        aw.open(pl.DataFrame({"a": [1]}))
    with (tmp_path / "rows.arrow").open("rb") as file, pytest.raises(TypeError, match=r"aw.open\(file.read\(\)\)"):
        aw.open(file)
    for take in (aw.from_arrow, lambda frame: aw.write(frame, tmp_path / "lazy.arrow"), aw.Builder("a: int").append):
        with pytest.raises(TypeError, match=r"LazyFrame.*collect\(\)"):
            take(pl.LazyFrame({"a": [1]}))
    with pytest.raises(TypeError, match=re.escape("got bytes b'a\\n1\\n'; io.BytesIO(text)")):
        aw.read_csv(b"a\n1\n")
    with pytest.raises(TypeError, match=re.escape("np.quantile(column, [0.1, 0.9])")):
        ds["a"].quantile([0.1, 0.9])
    with pytest.raises(aw.InvalidArgument, match="rows.arrow: only a whole table can be followed"):
        aw.follow(tmp_path / "rows.arrow")
    with pytest.raises(aw.InvalidArgument, match="rows.arrow: a table is a directory, and this is a file"):
        aw.compact(tmp_path / "rows.arrow")
    for options in ({"sorted_by": "a"}, {"index": ["a"]}):
        with pytest.raises(aw.InvalidArgument, match="column 'a' is list<int64>, which has no order here"):
            aw.writer(tmp_path / "t", "a: list<int>", **options)
    with pytest.raises(aw.NotFound, match=re.escape(f"in {tmp_path / 'none'}, which does not exist")):
        aw.writer(tmp_path / "none" / "t", "a: int")


def test_tables_print_as_people_read(ds):
    text = str(ds)
    assert "6.54851\n" in text and "6.548509" not in text and "6.54851<" in ds._repr_html_()
    assert "6.548509988835309" in repr(ds["price"]) and ds[1]["price"] == 6.548509988835309
    described = str(ds.describe())
    assert "0.957427" in described and not re.search(r"\d\.\d{7}", described)


@pytest.mark.parametrize("name", ["z.csv", "z.TSV", "z.json", "z.jsonl", "z.ndjson"])
def test_write_makes_no_file_of_another_format(ds, tmp_path, name):
    with pytest.raises(aw.InvalidArgument, match=re.escape(f"copy self to '{name}'")):
        aw.write(ds, tmp_path / name)
    assert not (tmp_path / name).exists()


DECIMALS = [Decimal("-0.57"), Decimal("-0.01"), None, Decimal("5.00"), Decimal("99999.99")]


@pytest.mark.parametrize("kind", [pa.decimal32(7, 2), pa.decimal64(7, 2), pa.decimal128(7, 2)], ids=str)
@pytest.mark.parametrize("count", [1, 7])
def test_decimals_of_any_width_reach_polars(kind, count):
    """Polars mistakes decimals of 32 and 64 bits for decimals of 128."""
    table = pa.concat_tables([pa.table({"d": pa.array(DECIMALS, kind), "n": range(5)})] * count)
    ds = aw.from_arrow(table)[1:]
    expected = (DECIMALS * count)[1:]
    assert ds.to_polars()["d"].to_list() == expected and ds.to_polars().schema["d"] == pl.Decimal(7, 2)
    lazy = aw.scan(ds)
    assert lazy.collect()["d"].to_list() == expected and lazy.select("n").collect().height == len(expected)
    positive = [value for value in expected if value is not None and value > 0]
    assert lazy.filter(pl.col("d") > 0).collect()["d"].to_list() == positive


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal256(20, 2),
        pa.decimal128(10, -2),
        pa.decimal32(5, -1),
        pa.struct({"d": pa.decimal32(7, 2)}),
        pa.list_view(pa.int8()),
        pa.list_(pa.large_list_view(pa.string())),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_types_that_polars_has_not_are_refused(kind):
    ds = aw.from_arrow(pa.table({"d": pa.nulls(1, kind), "n": [1]}))
    for call in (ds.to_polars, lambda: aw.scan(ds)):
        with pytest.raises(aw.Unsupported, match=r"Polars has no type for column 'd', .*leave it out: ds.select"):
            call()
    assert ds.select("n").to_polars()["n"].to_list() == [1]


@pytest.mark.parametrize("zone", ["+05:30", "Mars/Base", "-03:00", "Asia/Kolkata"])
def test_times_in_a_zone_that_polars_has_not_are_the_same_times_in_utc(zone):
    """Polars panicked, which is no ``Exception``."""
    ticks = [0, None, 1_700_000_000_000_000]
    ds = aw.from_arrow(pa.table({"t": pa.array(ticks, pa.timestamp("us", zone)), "n": [1, 2, 3]}))
    for frame in (ds.to_polars(), aw.scan(ds).collect(), aw.scan(ds).filter(pl.col("n") > 0).collect()):
        assert frame["t"].to_physical().to_list() == ticks
        is_known = zone in ("-03:00", "Asia/Kolkata")
        assert (frame["t"].dtype == pl.Datetime("us", "UTC")) != is_known
    late = datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC)
    assert aw.scan(ds).filter(pl.col("t") > late).collect()["n"].to_list() == [3]


def test_times_inside_of_others_in_a_zone_that_polars_has_not_are_refused():
    times = pa.array([0], pa.timestamp("us", "+05:30"))
    for inner in (pa.ListArray.from_arrays([0, 1], times), pa.StructArray.from_arrays([times], ["t"])):
        ds = aw.from_arrow(pa.table({"t": inner, "n": [1]}))
        for call in (ds.to_polars, lambda ds=ds: aw.scan(ds)):
            with pytest.raises(aw.Unsupported, match=r"Polars has no type for column 't', .*leave it out: ds.select"):
                call()


def test_a_sum_that_does_not_fit_leaves_the_description():
    """The mean of wide decimals, whose sum has no type, is known all the same."""
    large = Decimal(10) ** 75 * 9
    ds = aw.from_arrow(pa.table({"d": pa.array([large] * 9, pa.decimal256(76, 0)), "n": range(9)}))
    with pytest.raises(aw.InvalidArgument, match="does not fit"):
        ds["d"].sum()
    assert ds["d"].mean() == pytest.approx(float(large))
    described = {row["statistic"]: row for row in ds.describe()}
    assert described["mean"]["n"] == 4 and described["mean"]["d"] == pytest.approx(float(large))


@pytest.mark.parametrize("value", [1e300, 1e299, -7e306, 0.1e300])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_large_values_that_are_equal_do_not_vary(value, count):
    values = pa.array([value] * count)
    assert aw.from_arrow(pa.table({"x": values}))["x"].var() == 0
    grouped = aw.from_arrow(pa.table({"x": values, "by": [1] * count})).aggregate("by", x="var")
    assert grouped["x"].to_pylist() == [0]


def test_a_dataset_is_a_dict_of_its_columns(ds, tmp_path):
    """It was one of the first two names of each row."""
    columns = dict(ds)
    assert list(columns) == ds.keys() == ds.columns == list({**ds})
    assert {name: column.to_pylist() for name, column in columns.items()} == COLUMNS
    counts = dict(ds["b"].value_counts())
    assert dict(zip(counts["b"], counts["count"])) == {"x": 2, None: 1, "y": 1}
    assert dict(ds[["a", "b"]][:0]).keys() == {"a", "b"}


def test_keys_make_a_dataset_nothing_else(ds, tmp_path):
    """Libraries that look for keys before Arrow data or rows still accept datasets."""
    duckdb = pytest.importorskip("duckdb")
    table = pa.table(COLUMNS)
    assert not isinstance(ds, AbstractMapping) and [*ds] == table.to_pylist()
    assert pa.table(ds) == table and pl.DataFrame(ds).equals(pl.from_arrow(table))
    assert pd.DataFrame.from_arrow(ds).equals(table.to_pandas())
    assert duckdb.sql("from ds").fetchall() == [tuple(row.values()) for row in table.to_pylist()]
    for data in (ds, [ds], iter([ds, ds[:0]])):
        aw.write(data, tmp_path / "again.arrow")
        assert aw.open(tmp_path / "again.arrow").to_arrow() == table
    builder = aw.Builder(ds.schema)
    builder.append(ds)
    assert builder.finish().to_arrow() == table and aw.concat([ds, ds]).shape == (8, 4)
    assert pickle.loads(pickle.dumps(ds)).to_arrow() == table


def test_a_name_in_an_aggregate_means_one_thing():
    """Ambiguous calls are refused, and the error says what to write for each meaning."""
    ds = aw.from_arrow(
        pa.table({"k": ["a", "a"], "n": [1, None], "mean": [2.0, 4.0], "max": [9.0, 7.0], "count": [3, 5]})
    )

    def ways(**columns):
        with pytest.raises(aw.InvalidArgument, match="is ambiguous, as ") as raised:
            ds.aggregate(**columns)
        first, second = re.search(r": write (.*?) for .*, or (.*?) for ", str(raised.value)).groups()
        return [next(iter(eval(f"ds.aggregate({way})", {"ds": ds})[0].values())) for way in (first, second)]

    assert ways(n="count") == [1, 2]
    assert ways(count="count") == [2, 2]
    assert ways(mean="max") == [4.0, 8.0]
    assert ways(max="mean") == [8.0, 4.0]
    assert ways(sum="count") == [8, 2]
    with pytest.raises(aw.InvalidArgument, match='n="count" is ambiguous.*rows="count" for the number of rows'):
        ds.aggregate("k", n="count")
    with pytest.raises(aw.InvalidArgument, match='write .*, or rows_1="count"'):
        ds.rename({"k": "rows"}).aggregate(n="count")
    # One of the two has no meaning, or both have the same.
    assert ds.select("k", "n").aggregate(rows="count")[0] == {"rows": 2}
    assert ds.select("n", "max").aggregate(mean="max")[0] == {"mean": 8.0}
    assert ds.select("n", "mean").aggregate(mean="max")[0] == {"mean": 4.0}
    assert ds.aggregate(mean="mean", max="max")[0] == {"mean": 3.0, "max": 9.0}
    assert ds.aggregate(max="n", rows="count", n="sum")[0] == {"max": 1, "rows": 2, "n": 1}


def test_a_name_in_an_aggregation_means_one_thing(tmp_path):
    with aw.writer(tmp_path / "t", "n: int, mean: float, max: float") as writer:
        writer.append_row(mean=1.0, max=2.0)
    for columns in ({"n": "count"}, {"mean": "max"}):
        with pytest.raises(aw.InvalidArgument, match="is ambiguous"):
            aw.aggregation(tmp_path / "t", **columns)
    assert aw.aggregation(tmp_path / "t", rows="count").refresh()[0] == {"rows": 1}
