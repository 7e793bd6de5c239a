"""Tests idioms of pandas, Polars and NumPy users: each works, or fails with an error that says what to write."""

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


def test_several_columns_are_selected_by_name(ds):
    names = ["b", "a"]
    expected = [{"b": row["b"], "a": row["a"]} for row in ds]
    for selected in (ds[names], ds.select("b", "a"), ds.select(names), ds.select("b", ["a"])):
        assert selected.columns == names and selected.to_pylist() == expected
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
    valid_slice=st.slices(30),
    start=st.one_of(st.none(), st.integers(-40, 40)),
    stop=st.one_of(st.none(), st.integers(-40, 40)),
    step=st.one_of(st.none(), st.integers(-9, 9).filter(bool)),
)
def test_slices_select_the_same_rows_as_in_lists(length, valid_slice, start, stop, step):
    numbers = list(range(length))
    half = length // 2
    table = aw.concat([pa.table({"n": pa.array(part, pa.int64())}) for part in (numbers[:half], numbers[half:])])
    for rows in (slice(start, stop, step), valid_slice):
        assert table[rows]["n"].to_pylist() == table["n"][rows].to_pylist() == numbers[rows]
        assert [row["n"] for row in table[rows]] == numbers[rows]


def test_slices_refuse_a_step_of_zero(ds):
    with pytest.raises(aw.InvalidArgument, match="must not be 0"):
        ds[::0]
    assert ds[::-1][0] == ds[-1] and len(ds[::3]) == 2


def test_boolean_masks_select_rows(ds):
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
    # Null counts as false, as in conditions.
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
        st.tuples(st.sampled_from(list(VALUES)), st.booleans()), min_size=1, max_size=3, unique_by=lambda key: key[0]
    ),
)
def test_sort_equals_polars(rows, keys):
    table = pa.Table.from_pylist(rows, TYPES)
    ds, frame = aw.from_arrow(table), pl.from_arrow(table)
    names, descending = [name for name, _ in keys], [is_descending for _, is_descending in keys]
    expected = frame.sort(names, descending=descending, nulls_last=True, maintain_order=True)
    actual = ds.sort(*names, descending=descending)
    assert actual.to_pylist() == expected.to_dicts() == actual.collect().to_pylist()
    name, is_descending = keys[0]
    expected_values = frame[name].sort(descending=is_descending, nulls_last=True).to_list()
    assert ds[name].sort(descending=is_descending).to_pylist() == expected_values


def test_sort_copies_no_rows(ds):
    rows = ds.sort("price", descending=True)
    assert rows.footprint.copied == 0 and rows[0]["price"] == 6.548509988835309 and rows[-1]["price"] is None
    assert rows.columns == ds.columns
    with pytest.raises(aw.InvalidArgument, match="name of a column"):
        ds.sort()
    with pytest.raises(aw.InvalidArgument, match="2 values of descending for 1 columns"):
        ds.sort("a", descending=[True, False])
    with pytest.raises(aw.Unsupported, match="sorting by column 'items'"):
        aw.from_arrow(pa.table({"items": [[1]]})).sort("items")


@given(st.lists(st.fixed_dictionaries(VALUES), max_size=20), st.lists(st.sampled_from(list(VALUES)), unique=True))
def test_unique_and_drop_nulls_equal_polars(rows, names):
    table = pa.Table.from_pylist(rows, TYPES)
    ds, frame = aw.from_arrow(table), pl.from_arrow(table)
    expected = frame.unique(names or None, keep="first", maintain_order=True)
    assert ds.unique(*names).to_pylist() == expected.to_dicts()
    for name in VALUES:
        assert ds[name].unique().to_pylist() == frame[name].unique(maintain_order=True).to_list()
        assert ds[name].drop_nulls().to_pylist() == frame[name].drop_nulls().to_list()
    assert ds.drop_nulls(*names).to_pylist() == frame.drop_nulls(names or None).to_dicts()


def test_rename_changes_names_and_nothing_else(ds):
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


def test_rename_keeps_the_bounds_of_a_sorted_column(tmp_path):
    """Two swapped names must not exchange the bounds of the sorted column and another one."""
    with aw.writer(tmp_path / "t", "n: int64 not null, back: int64", sorted_by="n") as writer:
        writer.append({"n": range(100), "back": range(100, 0, -1)})
    table = aw.open(tmp_path / "t")
    swapped = table.rename({"n": "back", "back": "n"})
    assert swapped.sorted_by == "back" and table.sorted_by == "n"
    assert swapped[aw.col("n") > 98]["back"].to_pylist() == [0, 1]
    assert swapped.between(3, 4)["back"].to_pylist() == [3, 4]
    unsorted_column = table.rename({"n": "m", "back": "n"}).select("n")
    assert unsorted_column.sorted_by is None
    assert unsorted_column[aw.col("n") > 98]["n"].to_pylist() == [100, 99]


def test_is_between_includes_both_bounds(ds):
    for low, high in ((1, 2), (2, 2.5), (3, 1)):
        expected = [row for row in ds.to_pylist() if low <= row["a"] <= high]
        assert ds[ds["a"].is_between(low, high)].to_pylist() == expected
        assert ds.filter(aw.col("a").is_between(low, high)).to_pylist() == expected


@given(st.lists(st.tuples(st.sampled_from(["x", "y", None]), VALUES["int"], VALUES["float"]), max_size=40))
def test_medians_and_unique_counts_of_groups_equal_polars(rows):
    frame = pl.DataFrame(rows, schema={"by": pl.String, "int": pl.Int64, "float": pl.Float64}, orient="row")
    ds = aw.from_arrow(frame)
    aggregates = {
        "int_median": ("int", "median"),
        "float_median": ("float", "median"),
        "int_count": ("int", "n_unique"),
        "float_count": ("float", "n_unique"),
    }
    expected = frame.group_by("by", maintain_order=True).agg(
        int_median=pl.col("int").median(),
        float_median=pl.col("float").median(),
        int_count=pl.col("int").n_unique(),
        float_count=pl.col("float").n_unique(),
    )
    assert ds.aggregate("by", **aggregates).to_pylist() == expected.to_dicts()

    filtered = ds.aggregate(
        "by", where=aw.col("int") > 0, float_count=("float", "n_unique"), key_count=("by", "n_unique")
    )
    expected = (
        frame.filter(pl.col("int") > 0)
        .group_by("by", maintain_order=True)
        .agg(float_count=pl.col("float").n_unique(), key_count=pl.lit(1))
    )
    assert filtered.to_pylist() == expected.to_dicts()

    (row,) = ds.aggregate(**aggregates).to_pylist()
    assert row["int_count"] == frame["int"].n_unique()
    assert row["int_median"] == frame["int"].median() == ds["int"].median()


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def test_numpy_functions_accept_columns(ds):
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
        for actual, expected in zip(as_tuple(call(column)), as_tuple(call(array)), strict=True):
            np.testing.assert_array_equal(actual, expected)
            assert np.asarray(actual).dtype == np.asarray(expected).dtype
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
def test_missing_dataset_attributes_name_the_alternative(ds, name, hint):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(ds, name)
    assert not hasattr(ds, name)


def test_missing_column_attributes_name_the_alternative(ds):
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


def test_column_arithmetic_names_the_alternative(ds):
    column = ds["a"]
    for compute in (lambda x: x + 1, lambda x: 1 - x, lambda x: x * 2.5, lambda x: x / x, lambda x: 7 % x):
        with pytest.raises(TypeError, match=re.escape("column.to_numpy()") + ".*" + re.escape('aw.col("a")')):
            compute(column)
    # Operations with arrays, series and expressions work.
    values = column.to_numpy()
    for actual, expected in (
        (column + values, values + values),
        (values - column, values - values),
        (column * np.float64(2), values * 2.0),
    ):
        np.testing.assert_array_equal(actual, expected)
    assert (column + pd.Series(values)).tolist() == (values + values).tolist()
    assert repr(column + aw.col("a")) == repr(aw.col("a") + column) == "(a + a)"


def test_wrong_arguments_are_errors_that_name_the_alternative(ds, tmp_path):
    with pytest.raises(TypeError, match="got DataFrame; .*aw.from_arrow"):
        aw.open(pl.DataFrame({"a": [1]}))
    with (tmp_path / "rows.arrow").open("rb") as file, pytest.raises(TypeError, match=r"aw.open\(file.read\(\)\)"):
        aw.open(file)
    lazy = pl.LazyFrame({"a": [1]})
    for call in (
        lambda: aw.from_arrow(lazy),
        lambda: aw.write(lazy, tmp_path / "lazy.arrow"),
        lambda: aw.Builder("a: int").append(lazy),
    ):
        with pytest.raises(TypeError, match=r"LazyFrame.*collect\(\)"):
            call()
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


def test_printed_tables_have_rounded_numbers(ds):
    text = str(ds)
    assert "6.54851\n" in text and "6.548509" not in text and "6.54851<" in ds._repr_html_()
    assert "6.548509988835309" in repr(ds["price"]) and ds[1]["price"] == 6.548509988835309
    description = str(ds.describe())
    assert "0.957427" in description and not re.search(r"\d\.\d{7}", description)


@pytest.mark.parametrize("name", ["z.csv", "z.TSV", "z.json", "z.jsonl", "z.ndjson"])
def test_write_refuses_names_of_text_formats(ds, tmp_path, name):
    with pytest.raises(aw.InvalidArgument, match=re.escape(f"copy self to '{name}'")):
        aw.write(ds, tmp_path / name)
    assert not (tmp_path / name).exists()


DECIMALS = [Decimal("-0.57"), Decimal("-0.01"), None, Decimal("5.00"), Decimal("99999.99")]


@pytest.mark.parametrize("type", [pa.decimal32(7, 2), pa.decimal64(7, 2), pa.decimal128(7, 2)], ids=str)
@pytest.mark.parametrize("count", [1, 7])
def test_decimals_of_any_width_reach_polars(type, count):
    """Polars mistakes decimals of 32 and 64 bits for decimals of 128."""
    table = pa.concat_tables([pa.table({"d": pa.array(DECIMALS, type), "n": range(5)})] * count)
    ds = aw.from_arrow(table)[1:]
    expected = (DECIMALS * count)[1:]
    assert ds.to_polars()["d"].to_list() == expected and ds.to_polars().schema["d"] == pl.Decimal(7, 2)
    lazy = aw.scan(ds)
    assert lazy.collect()["d"].to_list() == expected and lazy.select("n").collect().height == len(expected)
    positive = [value for value in expected if value is not None and value > 0]
    assert lazy.filter(pl.col("d") > 0).collect()["d"].to_list() == positive


@pytest.mark.parametrize(
    "type",
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
def test_types_unknown_to_polars_are_refused(type):
    ds = aw.from_arrow(pa.table({"d": pa.nulls(1, type), "n": [1]}))
    for call in (ds.to_polars, lambda: aw.scan(ds)):
        with pytest.raises(aw.Unsupported, match=r"Polars has no type for column 'd', .*leave it out: ds.select"):
            call()
    assert ds.select("n").to_polars()["n"].to_list() == [1]


@pytest.mark.parametrize("zone", ["+05:30", "Mars/Base", "-03:00", "Asia/Kolkata"])
def test_times_in_a_zone_unknown_to_polars_become_utc(zone):
    """Polars would panic, which is not an ``Exception``."""
    ticks = [0, None, 1_700_000_000_000_000]
    ds = aw.from_arrow(pa.table({"t": pa.array(ticks, pa.timestamp("us", zone)), "n": [1, 2, 3]}))
    for frame in (ds.to_polars(), aw.scan(ds).collect(), aw.scan(ds).filter(pl.col("n") > 0).collect()):
        assert frame["t"].to_physical().to_list() == ticks
        is_zone_known = zone in ("-03:00", "Asia/Kolkata")
        assert (frame["t"].dtype == pl.Datetime("us", "UTC")) != is_zone_known
    late = datetime.datetime(2023, 1, 1, tzinfo=datetime.UTC)
    assert aw.scan(ds).filter(pl.col("t") > late).collect()["n"].to_list() == [3]


def test_nested_times_in_a_zone_unknown_to_polars_are_refused():
    times = pa.array([0], pa.timestamp("us", "+05:30"))
    for nested in (pa.ListArray.from_arrays([0, 1], times), pa.StructArray.from_arrays([times], ["t"])):
        ds = aw.from_arrow(pa.table({"t": nested, "n": [1]}))
        for call in (ds.to_polars, lambda ds=ds: aw.scan(ds)):
            with pytest.raises(aw.Unsupported, match=r"Polars has no type for column 't', .*leave it out: ds.select"):
                call()


def test_describe_has_a_mean_where_the_sum_overflows():
    large = Decimal(10) ** 75 * 9
    ds = aw.from_arrow(pa.table({"d": pa.array([large] * 9, pa.decimal256(76, 0)), "n": range(9)}))
    with pytest.raises(aw.InvalidArgument, match="does not fit"):
        ds["d"].sum()
    assert ds["d"].mean() == pytest.approx(float(large))
    description = {row["statistic"]: row for row in ds.describe()}
    assert description["mean"]["n"] == 4 and description["mean"]["d"] == pytest.approx(float(large))


@pytest.mark.parametrize("value", [1e300, 1e299, -7e306, 0.1e300])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_variance_of_equal_large_values_is_zero(value, count):
    values = pa.array([value] * count)
    assert aw.from_arrow(pa.table({"x": values}))["x"].var() == 0
    grouped = aw.from_arrow(pa.table({"x": values, "by": [1] * count})).aggregate("by", x="var")
    assert grouped["x"].to_pylist() == [0]


def test_dict_of_a_dataset_has_its_columns(ds):
    """Without ``keys()``, `dict` would take rows of two columns for pairs of key and value."""
    columns = dict(ds)
    assert list(columns) == ds.keys() == ds.columns == list({**ds})
    assert {name: column.to_pylist() for name, column in columns.items()} == COLUMNS
    counts = dict(ds["b"].value_counts())
    assert dict(zip(counts["b"], counts["count"])) == {"x": 2, None: 1, "y": 1}
    assert dict(ds[["a", "b"]][:0]).keys() == {"a", "b"}


def test_a_dataset_with_keys_is_not_taken_for_a_mapping(ds, tmp_path):
    """Libraries that look for ``keys()`` before Arrow data or rows still read rows."""
    duckdb = pytest.importorskip("duckdb")
    table = pa.table(COLUMNS)
    assert not isinstance(ds, AbstractMapping) and [*ds] == table.to_pylist()
    assert pa.table(ds) == table and pl.DataFrame(ds).equals(pl.from_arrow(table))
    assert pd.DataFrame.from_arrow(ds).equals(table.to_pandas())
    assert duckdb.sql("from ds").fetchall() == [tuple(row.values()) for row in table.to_pylist()]
    for data in (ds, [ds], iter([ds, ds[:0]])):
        aw.write(data, tmp_path / "copy.arrow")
        assert aw.open(tmp_path / "copy.arrow").to_arrow() == table
    builder = aw.Builder(ds.schema)
    builder.append(ds)
    assert builder.finish().to_arrow() == table and aw.concat([ds, ds]).shape == (8, 4)
    assert pickle.loads(pickle.dumps(ds)).to_arrow() == table


def evaluate_suggestions(ds, **aggregates):
    """Aggregates with ambiguous names; returns the results of the two calls that the error suggests."""
    with pytest.raises(aw.InvalidArgument, match="is ambiguous, as ") as raised:
        ds.aggregate(**aggregates)
    suggestions = re.search(r": write (.*?) for .*, or (.*?) for ", str(raised.value)).groups()
    rows = [eval(f"ds.aggregate({arguments})", {"ds": ds})[0] for arguments in suggestions]
    return [next(iter(row.values())) for row in rows]


def test_ambiguous_aggregates_are_refused():
    ds = aw.from_arrow(
        pa.table({"k": ["a", "a"], "n": [1, None], "mean": [2.0, 4.0], "max": [9.0, 7.0], "count": [3, 5]})
    )
    assert evaluate_suggestions(ds, n="count") == [1, 2]
    assert evaluate_suggestions(ds, count="count") == [2, 2]
    assert evaluate_suggestions(ds, mean="max") == [4.0, 8.0]
    assert evaluate_suggestions(ds, max="mean") == [8.0, 4.0]
    assert evaluate_suggestions(ds, sum="count") == [8, 2]
    with pytest.raises(aw.InvalidArgument, match='n="count" is ambiguous.*rows="count" for the number of rows'):
        ds.aggregate("k", n="count")
    with pytest.raises(aw.InvalidArgument, match='write .*, or rows_1="count"'):
        ds.rename({"k": "rows"}).aggregate(n="count")
    # These have only one meaning, or two with the same result.
    assert ds.select("k", "n").aggregate(rows="count")[0] == {"rows": 2}
    assert ds.select("n", "max").aggregate(mean="max")[0] == {"mean": 8.0}
    assert ds.select("n", "mean").aggregate(mean="max")[0] == {"mean": 4.0}
    assert ds.aggregate(mean="mean", max="max")[0] == {"mean": 3.0, "max": 9.0}
    assert ds.aggregate(max="n", rows="count", n="sum")[0] == {"max": 1, "rows": 2, "n": 1}


def test_ambiguous_aggregations_are_refused(tmp_path):
    with aw.writer(tmp_path / "t", "n: int, mean: float, max: float") as writer:
        writer.append_row(mean=1.0, max=2.0)
    for columns in ({"n": "count"}, {"mean": "max"}):
        with pytest.raises(aw.InvalidArgument, match="is ambiguous"):
            aw.aggregation(tmp_path / "t", **columns)
    assert aw.aggregation(tmp_path / "t", rows="count").refresh()[0] == {"rows": 1}
