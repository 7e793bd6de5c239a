"""Tests hints, which say what to write instead of a name of another library.

Each way that a hint shows is run, and its result is compared with the library that has the name.
"""

import contextlib
import io
import pathlib
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import arrowwood as aw
from arrowwood import _hints
from sameness import COLUMNS, PANDAS, POLARS, ROWS, TABLE, difference

# Tables to join with. The keys have a duplicate and one that the sample has not.
JOIN_KEYS = pa.table({"x": [1, 5, 5, 100], "w": ["one", "five", "cinq", "hundred"]})
JOIN_TIMES = pa.table({"ts": TABLE["ts"].take([0, 9, 20]), "w": [1, 2, 3]})

# The other table in hints about two tables, where it is not some rows of the sample.
OTHER_TABLES = {
    "join": JOIN_KEYS,
    "merge": JOIN_KEYS,
    "join_asof": JOIN_TIMES,
    "merge_asof": JOIN_TIMES,
    "hstack": TABLE.rename_columns([f"other_{name}" for name in TABLE.column_names]),
    "equals": TABLE,
}

# The columns for names that don't work with columns of lists.
SUPPORTED_COLUMNS = {"n_unique": ["x", "k"]}

# Marks a name whose hint is checked by a function in `CUSTOM_CHECKS`.
CUSTOM = "custom"

# The meaning of each name: one or more expressions of `df` (Polars), `pd_df` (pandas) and others. Every way of the hint
# must agree with every expression. The order of rows does not matter if the expression begins with ~.
DATASET = {
    "column_names": "df.columns",
    "join": "~df.join(pl_other, on='x')",
    "merge": "~pd_df.merge(pd_other, on='x')",
    **dict.fromkeys(["join_asof"], "df.join_asof(pl_other, on='ts')"),
    "merge_asof": "pd.merge_asof(pd_df, pd_other, on='ts')",
    "rolling": "pd_df['y'].rolling(10).mean()",
    "expanding": "pd_df['y'].expanding().mean()",
    "ewm": "pd_df['y'].ewm(span=10).mean()",
    "shift": ["df['y'].shift(1)", "pd_df['y'].shift(1)"],
    "diff": ["df['y'].diff()", "pd_df['y'].diff()"],
    "pct_change": "df['y'].pct_change()",
    "rank": "df['y'].rank()",
    "resample": "pd_df.resample('1h', on='ts')['y'].mean()",
    "group_by_dynamic": "df.group_by_dynamic('ts', every='1h').agg(pl.col('y').mean())",
    "upsample": "df.upsample('ts', every='20m')",
    "cumsum": "df['y'].cum_sum()",
    "cum_sum": "df['y'].cum_sum()",
    "clip": ["df['x'].clip(0, 10)", "pd_df['x'].clip(0, 10)"],
    **dict.fromkeys(["cast", "astype"], ["df.cast({'x': pl.Float64})", "pd_df.astype({'x': 'float64'})"]),
    "convert_dtypes": "pd_df.convert_dtypes()",
    "stack": "pd_df.stack()",
    "interpolate": "df['y'].interpolate()",
    "pivot": "df.pivot('k', index='ts', values='y')",
    "pivot_table": "pd_df.pivot_table(values='y', columns='k')",
    "melt": "~pd_df.melt(value_vars=['x', 'y'])",
    "unpivot": "~df.unpivot(['x', 'y'])",
    "group_by": "df.group_by('k', maintain_order=True).agg(pl.col('y').mean())",
    "groupby": "df.group_by('k', maintain_order=True).agg(pl.col('y').mean())",
    "agg": "df.select(pl.col('y').mean())",
    "with_columns": "df.with_columns(z=pl.col('x') * 2)",
    "assign": "pd_df.assign(z=pd_df['x'] * 2)",
    **dict.fromkeys(
        ["apply", "map", "map_rows", "transform", "eval", "insert", "insert_column", "add_column"], "df['x'] * 2"
    ),
    "hstack": "df.hstack(pl_other)",
    "with_row_index": "df.with_row_index()",
    "abs": ["df['x'].abs()", "pd_df['x'].abs()"],
    "round": ["df['y'].round(1)", "pd_df['y'].round(1)"],
    "replace": ["df['x'].replace(1, 5)", "pd_df['x'].replace(1, 5)"],
    "fill_null": "df['x'].fill_null(0)",
    "fillna": ["pd_df['y'].fillna(0)"],
    "fill_nan": "df['y'].fill_nan(0)",
    "ffill": ["df.fill_null(strategy='forward')", "pd_df[['x']].ffill()['x']"],
    "bfill": ["df.fill_null(strategy='backward')", "pd_df[['x']].bfill()['x']"],
    **dict.fromkeys(["iterrows", "itertuples", "iter_rows"], "list(df.iter_rows(named=True))"),
    "iloc": CUSTOM,
    **dict.fromkeys(["loc", "at", "iat"], CUSTOM),
    "explode": "df.explode('items')",
    "corr": "pd_df[['x', 'y']].corr()",
    "cov": "pd_df[['x', 'y']].cov()",
    "lazy": "df.lazy()",
    "partition_by": "df.partition_by('k')",
    "transpose": CUSTOM,
    "query": ["df.filter(pl.col('x') > 1)", "pd_df.query('x > 1')['x']"],
    "where": "df.filter(pl.col('x') > 1)",
    "mask": "pd_df.mask(pd_df['x'] > 1)",
    "nlargest": ["df['x'].top_k(5)", "pd_df['x'].nlargest(5)"],
    "top_k": ["df['x'].top_k(5)", "pd_df['x'].nlargest(5)"],
    "nsmallest": ["df['x'].bottom_k(5)", "pd_df['x'].nsmallest(5)"],
    "bottom_k": ["df['x'].bottom_k(5)", "pd_df['x'].nsmallest(5)"],
    "duplicated": "pd_df.duplicated('x')",
    "is_duplicated": "df.select('x').is_duplicated()",
    "is_unique": "df.select('x').is_unique()",
    "reverse": "df.reverse()",
    **dict.fromkeys(["gather_every", "take_every"], "df.gather_every(4)"),
    "shard": "datasets.Dataset(table).shard(4, 0, contiguous=False)[:]",
    "gather": ["df[[3, 1]]", "pd_df.take([3, 1])"],
    "slice": "df.slice(10, 10)",
    "limit": "df.limit(10)",
    "first": "df.row(0, named=True)",
    "last": "df.row(-1, named=True)",
    "item": "df['x'].first()",
    **dict.fromkeys(
        ["get", "get_column", "to_series"], ["df.get_column('x')", "df.select('x').to_series()", "pd_df.get('x')"]
    ),
    **dict.fromkeys(["get_columns", "iter_columns"], "df.get_columns()"),
    "items": "[(name, df[name]) for name in df.columns]",
    "features": CUSTOM,
    "values": "pd_df.values",
    **dict.fromkeys(["empty", "is_empty"], ["pd_df.empty", "df.is_empty()"]),
    "count": ["df.count()['x'].item()", "pd_df.count()['x']"],
    **dict.fromkeys(["len", "num_rows", "nrows", "height"], ["df.height", "len(pd_df)", "table.num_rows"]),
    "size": "pd_df.size",
    "ndim": "pd_df.ndim",
    **dict.fromkeys(["copy", "clone", "persist", "compute", "cache"], ["df.clone()", "pd_df.copy()['x']"]),
    **dict.fromkeys(["memory_usage", "estimated_size"], CUSTOM),
    **dict.fromkeys(["glimpse", "show", "info"], CUSTOM),
    "collect_schema": CUSTOM,
    "null_count": "df['x'].null_count()",
    **dict.fromkeys(["set_index", "reset_index", "sort_index"], "pd_df.set_index('x').sort_index().reset_index()['x']"),
    "index": "list(pd_df.index)",
    **dict.fromkeys(
        ["rename_column", "rename_columns", "with_columns_renamed"],
        ["df.rename({'x': 'z'})", "datasets.Dataset(table).rename_column('x', 'z')[:]"],
    ),
    **dict.fromkeys(["remove_columns", "drop"], ["df.drop('x')", "datasets.Dataset(table).remove_columns('x')[:]"]),
    **dict.fromkeys(["to_torch", "to_tensor", "with_format", "set_format"], "torch.tensor(df['n'].to_list()).tolist()"),
    "equals": ["df.equals(pl_other)", "pd_df.equals(pd_other)"],
    **dict.fromkeys(["sort_values", "sort_by"], ["pd_df.sort_values('x', kind='stable')", "table.sort_by('x')['x']"]),
    "drop_duplicates": "pd_df.drop_duplicates('x')",
    "dropna": "pd_df.dropna(subset='x')",
    "drop_nans": "df.drop_nans('y')",
    "to_dict": "df.to_dict(as_series=False)",
    "to_dicts": "df.to_dicts()",
    **dict.fromkeys(["to_table", "read_all", "arrow"], "table"),
    **dict.fromkeys(["df", "to_df"], "pd_df"),
    "close": CUSTOM,
    **dict.fromkeys(["to_parquet", "write_parquet", "sink_parquet"], CUSTOM),
    **dict.fromkeys(["to_csv", "write_csv", "sink_csv"], CUSTOM),
    **dict.fromkeys(["to_json", "write_json", "write_ndjson", "sink_ndjson"], CUSTOM),
    **dict.fromkeys(["to_feather", "write_ipc", "sink_ipc"], CUSTOM),
    "to_excel": CUSTOM,
    **dict.fromkeys(["concat", "append", "vstack", "extend"], "df.vstack(pl_other)"),
    "width": ["df.width", "table.num_columns"],
    **{name: f"df['x'].{name}()" for name in ("mean", "sum", "min", "max", "median", "std", "var")},
    "value_counts": "~df['x'].value_counts()",
    "n_unique": "df.n_unique()",
    "nunique": "pd_df['x'].nunique()",
    "is_null": "df.filter(df['x'].is_null())",
    **dict.fromkeys(["isna", "isnull"], "pd_df[pd_df['x'].isna()]['n']"),
    "quantile": "pd_df['x'].quantile(0.5)",
    "plot": CUSTOM,
}

COLUMN = {
    "cast": "df['x'].cast(pl.Float32)",
    "astype": "pd_df['x'].astype('float32')",
    "str": ["df['s'].str.to_uppercase()", "pd_df['s'].str.upper()"],
    "list": "df['items'].list.len()",
    "struct": "df['p'].struct.field('a')",
    "dt": ["df['ts'].dt.hour()", "pd_df['ts'].dt.hour"],
    "rolling": "pd_df['y'].rolling(10).mean()",
    "rolling_mean": "df['y'].rolling_mean(10)",
    "rolling_sum": "df['y'].rolling_sum(10)",
    **{
        name: DATASET[name]
        for name in ("expanding", "ewm", "shift", "diff", "pct_change", "rank", "resample", "interpolate")
    },
    "explode": "df['items'].explode()",
    "corr": "pd_df['x'].corr(pd_df['y'])",
    "cut": "pd.cut(pd_df['y'], 3)",
    "qcut": "pd.qcut(pd_df['y'], 3)",
    "replace": ["df['x'].replace(1, 5)", "pd_df['x'].replace(1, 5)"],
    **dict.fromkeys(["cumsum", "cum_sum"], ["df['x'].cum_sum()", "pd_df['x'].cumsum()"]),
    "clip": ["df['x'].clip(0, 10)", "pd_df['x'].clip(0, 10)"],
    **{name: DATASET[name] for name in ("nlargest", "top_k", "nsmallest", "bottom_k")},
    "mode": CUSTOM,
    **dict.fromkeys(
        ["idxmax", "arg_max", "argmax"], ["df['x'].arg_max()", "pd_df['x'].idxmax()", "pd_df['x'].argmax()"]
    ),
    **dict.fromkeys(
        ["idxmin", "arg_min", "argmin"], ["df['x'].arg_min()", "pd_df['x'].idxmin()", "pd_df['x'].argmin()"]
    ),
    "hist": "list(np.histogram(pd_df['x'].dropna()))",
    "plot": CUSTOM,
    "is_nan": "df['y'].is_nan()",
    "isnan": "np.isnan(pd_df['x'])",
    **dict.fromkeys(["filter", "query", "where"], ["df['x'].filter(df['x'] > 1)", "pd_df.query('x > 1')['x']"]),
    **dict.fromkeys(["gather", "take"], ["df['x'].gather([3, 1])", "pd_df['x'].take([3, 1])"]),
    "slice": "df['x'].slice(10, 10)",
    "limit": "df['x'].limit(10)",
    **dict.fromkeys(["first", "item"], "df['x'].first()"),
    "last": "df['x'].last()",
    "reverse": "df['x'].reverse()",
    **dict.fromkeys(["gather_every", "take_every"], "df['x'].gather_every(4)"),
    **dict.fromkeys(["sample", "shuffle"], CUSTOM),
    **dict.fromkeys(["is_empty", "empty"], ["df['x'].is_empty()", "pd_df['x'].empty"]),
    **dict.fromkeys(["copy", "clone"], ["pd_df['x'].copy()"]),
    **dict.fromkeys(["product", "prod"], ["df['x'].product()", "pd_df['x'].prod()"]),
    **dict.fromkeys(["apply", "map", "map_elements", "transform"], "pd_df['x'].map(f)"),
    "fill_null": "df['x'].fill_null(0)",
    "fillna": "pd_df['y'].fillna(0)",
    "fill_nan": "df['y'].fill_nan(0)",
    "ffill": "df['y'].forward_fill()",
    "bfill": "df['y'].backward_fill()",
    "isin": ["df.filter(df['x'].is_in([1, 2]))", "pd_df[pd_df['x'].isin([1, 2])]['n']"],
    "between": ["df.filter(df['x'].is_between(1, 5))", "pd_df[pd_df['x'].between(1, 5)]['n']"],
    **dict.fromkeys(["isna", "isnull"], "pd_df[pd_df['x'].isna()]['n']"),
    **dict.fromkeys(["notna", "notnull"], "pd_df[pd_df['x'].notna()]['n']"),
    "nunique": "pd_df['x'].nunique()",
    "dropna": "pd_df['x'].dropna()",
    "drop_nans": "df['y'].drop_nans()",
    "sort_values": ["pd_df['x'].sort_values()", "df['x'].sort(nulls_last=True)"],
    "values": "pd_df['x'].values",
    **dict.fromkeys(["to_list", "tolist"], "df['x'].to_list()"),
    "to_pandas": ["pd_df['x']", "df['x'].to_pandas()"],
    "to_frame": ["df['x'].to_frame()", "pd_df['x'].to_frame()"],
    "to_polars": "df['x']",
    "describe": CUSTOM,
    "argsort": "pd_df['x'].argsort(kind='stable')",
    "arg_sort": "df['x'].arg_sort(nulls_last=True)",
    **{name: f"pd_df['x'].pipe(np.{name})" for name in ("round", "abs", "sqrt", "log", "exp")},
    "head": "pd_df['x'].head()",
    "tail": "pd_df['x'].tail()",
    "shape": "list(pd_df['x'].shape)",
    **dict.fromkeys(["size", "len", "num_rows"], ["pd_df['x'].size", "df['x'].len()"]),
    "type": "str(table['x'].type)",
}

EXPRESSION = {
    "isin": "df.filter(pl.col('x').is_in([1, 2]))",
    "between": "df.filter(pl.col('x').is_between(1, 5))",
    "astype": "df.select(sum=pl.col('x').cast(pl.Float64).sum())",
    **dict.fromkeys(["isna", "isnull"], "df.filter(pl.col('x').is_null())"),
    **dict.fromkeys(["notna", "notnull"], "df.filter(pl.col('x').is_not_null())"),
    **{
        name: f"df.select({name}=(pl.col('x') * 2).{name}())"
        for name in ("sum", "mean", "min", "max", "median", "std", "var", "count")
    },
    **{name: f"df.select({name}=pl.col('x').{name}())" for name in ("first", "last", "n_unique")},
    "nunique": "pd_df['x'].nunique()",
    **{name: f"df['y'].{name}()" for name in ("exp", "floor", "ceil", "sqrt", "log", "round", "rank", "is_nan")},
    "abs": "df['x'].abs()",
    "pow": "df['y'].pow(2)",
    "clip": "df['x'].clip(0, 10)",
    "fill_null": "df['x'].fill_null(0)",
    "fillna": "pd_df['y'].fillna(0)",
    "shift": "df['y'].shift(1)",
    "diff": "df['y'].diff()",
    **dict.fromkeys(["cum_sum", "cumsum"], "df['y'].cum_sum()"),
    "over": "~df.select(z=pl.col('x').mean().over('k'))['z']",
    "alias": "df.select(pl.col('x').alias('z'))['z']",
}

TIME_PARTS = {
    "truncate": "df['ts'].dt.truncate('1h')",
    "floor": "pd_df['ts'].dt.floor('1h')",
    "round": ["df['ts'].dt.round('1h')"],
    "date": ["df['ts'].dt.date()", "pd_df['ts'].dt.date"],
    "strftime": ["df['ts'].dt.strftime('%Y-%m-%d')", "pd_df['ts'].dt.strftime('%Y-%m-%d')"],
    "to_string": "df['ts'].dt.to_string('%Y-%m-%d')",
    "offset_by": "df['ts'].dt.offset_by('1mo')",
    **{name: f"df['ts'].dt.{name}()" for name in ("week", "ordinal_day", "iso_year", "is_leap_year")},
    "quarter": ["df['ts'].dt.quarter()", "pd_df['ts'].dt.quarter"],
    **dict.fromkeys(["dayofyear", "day_of_year"], "pd_df['ts'].dt.dayofyear"),
    **dict.fromkeys(["dayofweek", "day_of_week"], CUSTOM),
    "total_seconds": "df['d'].dt.total_seconds()",
    **{name: f"df['ts'].dt.{name}()" for name in ("millisecond", "microsecond", "nanosecond")},
}

TEXT_CONDITIONS = {
    "startswith": ["df.filter(pl.col('s').str.starts_with('A'))", "pd_df[pd_df['s'].str.startswith('A') == True]['n']"],
    "endswith": ["df.filter(pl.col('s').str.ends_with('a'))", "pd_df[pd_df['s'].str.endswith('a') == True]['n']"],
    "match": "pd_df[pd_df['s'].str.match('[A-C]') == True]['n']",
    "fullmatch": "pd_df[pd_df['s'].str.fullmatch('[a-c]+') == True]['n']",
    "len": ["pd_df['s'].str.len()"],
    "len_chars": "df['s'].str.len_chars()",
    "lower": "pd_df['s'].str.lower()",
    "upper": "pd_df['s'].str.upper()",
    "to_lowercase": "df['s'].str.to_lowercase()",
    "to_uppercase": "df['s'].str.to_uppercase()",
    "replace": "df['s'].str.replace('a', 'b')",
    "replace_all": ["df['s'].str.replace_all('a', 'b')", "pd_df['s'].str.replace('a', 'b')"],
    "split": ["df['s'].str.split(' ')", "pd_df['s'].str.split(' ')"],
    "slice": ["df['s'].str.slice(0, 3)", "pd_df['s'].str.slice(0, 3)"],
    "extract": "df['s'].str.extract('([a-c]+)')",
    "strip": "pd_df['s'].str.strip()",
    "strip_chars": "df['s'].str.strip_chars()",
}

MODULE = {
    **dict.fromkeys(["DataFrame", "Table", "table", "from_dict", "from_pydict"], "pl.DataFrame({'x': [1, 2]})"),
    **dict.fromkeys(["from_pandas", "from_polars", "from_dataframe"], CUSTOM),
    **dict.fromkeys(["from_pylist", "from_dicts", "from_records", "from_list"], "pl.from_dicts([{'x': 1}, {'x': 2}])"),
    "from_numpy": "pl.from_numpy(np.arange(3), schema=['x'])",
    "lit": CUSTOM,
    "read_excel": CUSTOM,
    "scan_csv": "pl.scan_csv('x.csv')",
    "scan_ndjson": "pl.scan_ndjson('x.json')",
    "read_ndjson": "pl.read_ndjson('x.json')",
    "scan_parquet": "pl.scan_parquet('x.parquet')",
    "scan_ipc": "pl.scan_ipc('x.arrow')",
    **dict.fromkeys(["read_ipc", "read_feather", "open_file", "read_table"], "pl.read_ipc('x.arrow')"),
    "read_ipc_stream": CUSTOM,
    "open_stream": CUSTOM,
    **dict.fromkeys(["memmap", "memory_map"], "np.memmap('x.bin', 'float64', 'r').tolist()"),
    **dict.fromkeys(["concat_tables", "concatenate", "concatenate_datasets"], "pl.concat([df, pl_other])"),
    "merge": "~pd_df.merge(pd_other, on='x')",
    "dataset": CUSTOM,
    "DataLoader": CUSTOM,
}

# The hints of each kind of object, and the meanings of the names.
KINDS = {
    "Dataset": (_hints._DATASET_HINTS, DATASET),
    "Column": (_hints._COLUMN_HINTS, COLUMN),
    "Expression": (_hints._EXPRESSION_HINTS, EXPRESSION),
    "TimeParts": (_hints._TIME_PARTS_HINTS, TIME_PARTS),
    "TextConditions": (_hints._TEXT_CONDITIONS_HINTS, TEXT_CONDITIONS),
    "module": (_hints._MODULE_HINTS, MODULE),
}
CASES = [(kind, name) for kind, (hints, _) in KINDS.items() for name in hints]


def double(value):
    """Doubles a value, for hints about functions that are applied to values."""
    is_null = value is None or value != value
    return None if is_null else value * 2


@pytest.fixture
def names(tmp_path, monkeypatch, request):
    """Returns the names that hints and meanings use."""
    monkeypatch.chdir(tmp_path)
    name = request.node.callspec.params["name"]
    table = TABLE.select(SUPPORTED_COLUMNS[name]) if name in SUPPORTED_COLUMNS else TABLE
    other = OTHER_TABLES.get(name, table[3:9])
    return {
        "aw": aw,
        "pa": pa,
        "pl": pl,
        "pd": pd,
        "np": np,
        "ds": ROWS.select(table.column_names),
        "column": ROWS["x"],
        "other": aw.from_arrow(other),
        "df": pl.from_arrow(table),
        "pd_df": table.to_pandas(),
        "table": table,
        "pl_other": pl.from_arrow(other),
        "pd_other": other.to_pandas(),
        "f": double,
        "array": np.arange(3),
    }


def write_sample_files():
    """Writes the files that hints of the module name, into the current directory."""
    table = TABLE.select(["x", "n", "k"])
    frame = pl.from_arrow(table)
    frame.write_csv("x.csv")
    frame.write_ndjson("x.json")
    frame.write_parquet("x.parquet")
    aw.write(table, "x.arrow")
    aw.write(table, "x.arrows")
    np.arange(5.0).tofile("x.bin")


def evaluate(expression: str, names: dict):
    """Returns the result of an expression, without what it prints."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # NumPy warns of logarithms and roots of negative numbers.
        warnings.simplefilter("ignore", RuntimeWarning)
        return eval(expression, dict(names))


def assert_agree(way: str, meaning: str, names: dict) -> None:
    """Asserts that a way of a hint and the meaning of the name have the same result."""
    is_ordered = not meaning.startswith("~")
    expected = evaluate(meaning.removeprefix("~"), names)
    problem = difference(evaluate(way, names), expected, is_ordered=is_ordered)
    assert problem is None, f"{way} is not {meaning}:\n{problem}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_hint_has_a_meaning(kind):
    hints, meanings = KINDS[kind]
    assert set(hints) == set(meanings)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_hint_agrees_with_the_meaning_of_the_name(kind, name, names):
    hints, meanings = KINDS[kind]
    if kind == "module":
        write_sample_files()
    ways = _hints.ways(hints[name], name)
    if meanings[name] == CUSTOM:
        CUSTOM_CHECKS[f"{kind}.{name}"](ways, names)
        return
    for module in ("torch", "datasets"):
        if module in str(meanings[name]) + str(hints[name]):
            names[module] = pytest.importorskip(module)
    expressions = [meanings[name]] if isinstance(meanings[name], str) else meanings[name]
    for way in ways:
        for expression in expressions:
            assert_agree(way, expression, names)


# ---- Custom checks: functions of the ways and the names ----


def check_each(*meanings: str) -> Callable:
    """Returns a check that each way agrees with the meaning at the same position."""

    def check(ways, names):
        assert len(ways) == len(meanings)
        for way, meaning in zip(ways, meanings):
            assert_agree(way, meaning, names)

    return check


def check_written(read: Callable, columns: list[str]) -> Callable:
    """Returns a check that each way writes the columns, and that `read` returns them."""

    def check(ways, names):
        for way in ways:
            evaluate(way, names | {"ds": ROWS.select(columns)})
            problem = difference(read(), POLARS.select(columns))
            assert problem is None, f"{way}:\n{problem}"

    return check


def check_runs(ways, names):
    for way in ways:
        evaluate(way, names)


def check_plot(ways, names):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    names["plt"] = pytest.importorskip("matplotlib.pyplot")
    for way in ways:
        (line,) = evaluate(way, names)
        assert difference(line.get_ydata(), PANDAS["y"]) is None
    names["plt"].close("all")


def check_close(ways, names):
    for way in ways:
        exec(way, names)
    assert "ds" not in names


def check_schema(ways, names):
    first, *others = ways
    assert {field.name for field in evaluate(first, names)} == set(TABLE.column_names)
    check_runs(others, names)


def check_size(ways, names):
    (way,) = ways
    numbers = pl.DataFrame({"n": range(1000), "y": [0.5] * 1000})
    assert evaluate(way, names | {"ds": aw.from_arrow(numbers)}) == numbers.estimated_size()


def check_mode(ways, names):
    (way,) = ways
    counts = evaluate(way, names)
    most_frequent = {row["x"] for row in counts if row["count"] == counts[0]["count"]}
    assert most_frequent == set(PANDAS["x"].mode())
    assert most_frequent <= set(POLARS["x"].drop_nulls().mode())


def check_sample(ways, names):
    """Checks that a way returns five values, or all values in another order."""
    (way,) = ways
    values = evaluate(way, names).to_pylist()
    all_values = ROWS["x"].to_pylist()
    assert set(values) <= set(all_values)
    if len(values) != 5:
        # Values may be None, which can't be compared with numbers.
        assert sorted(map(repr, values)) == sorted(map(repr, all_values))


def check_describe(ways, names):
    (way,) = ways
    statistics = {row["statistic"]: row["x"] for row in evaluate(way, names)}
    expected = PANDAS["x"].describe()
    assert difference([statistics[name] for name in expected.index], list(expected)) is None


def check_from_frame(ways, names):
    for way in ways:
        for frame in (names["df"], names["pd_df"][["x", "n"]]):
            assert difference(evaluate(way, names | {"df": frame}), frame) is None


def check_day_of_week(ways, names):
    (way,) = ways
    days = ROWS.aggregate(by="n", sum=evaluate(way, names))["sum"]
    assert difference(days, PANDAS["ts"].dt.dayofweek) is None


def check_literal(ways, names):
    (way,) = ways
    total = ROWS.aggregate(sum=evaluate(way, names))["sum"]
    assert difference(total, POLARS.select((pl.col("x") * pl.lit(2)).sum())["x"]) is None


def check_read_stream(ways, names):
    for way in ways:
        result = evaluate(way, names)
        rows = result if isinstance(result, aw.Dataset) else result.read_all()
        assert difference(rows, pl.read_ipc_stream("x.arrows")) is None


def check_open_folder(ways, names):
    pathlib.Path("folder").mkdir()
    aw.write(TABLE[:5], "folder/a.arrow")
    aw.write(TABLE[5:], "folder/b.arrow")
    (way,) = ways
    assert difference(evaluate(way, names), pyarrow.dataset.dataset("folder", format="ipc").to_table()) is None


def check_loader(ways, names):
    (way,) = ways
    batches = evaluate(way, names | {"ds": ROWS.select("n")})
    assert sorted(n for batch in batches for n in batch["n"]) == list(range(24))


def check_excel(ways, names):
    # openpyxl is no dependency of the tests, so this usually does not run.
    pytest.importorskip("openpyxl")
    check_runs(ways, names)


TEXT_COLUMNS = ["x", "y", "n", "k"]
JSON_COLUMNS = ["x", "n", "s", "k"]
CHECK_CSV = check_written(lambda: pd.read_csv("x.csv"), TEXT_COLUMNS)
CHECK_JSON = check_written(lambda: pl.read_json("x.json"), JSON_COLUMNS)
CHECK_JSON_LINES = check_written(lambda: pl.read_ndjson("x.json"), JSON_COLUMNS)
CHECK_PARQUET = check_written(lambda: pl.read_parquet("x.parquet"), list(COLUMNS))
CHECK_ARROW = check_written(lambda: pl.read_ipc("x.arrow"), list(COLUMNS))
CHECK_LOC = check_each("df.row(7, named=True)", "pd_df.loc[7, 'x']")

CUSTOM_CHECKS = {
    "Dataset.iloc": check_each(
        "df.row(7, named=True)", "pd_df.iloc[10:20]['n']", "pd_df.iloc[[3, 1]]['n']", "pd_df['x'].iloc[7]"
    ),
    **{f"Dataset.{name}": CHECK_LOC for name in ("loc", "at", "iat")},
    "Dataset.transpose": check_each("df.select('x', 'y').transpose()", "pd_df[['x', 'y']].transpose()"),
    **{f"Dataset.{name}": check_schema for name in ("features", "collect_schema", "info")},
    **{f"Dataset.{name}": check_size for name in ("memory_usage", "estimated_size")},
    **{f"Dataset.{name}": check_runs for name in ("glimpse", "show")},
    "Dataset.close": check_close,
    **{f"Dataset.{name}": CHECK_PARQUET for name in ("to_parquet", "write_parquet", "sink_parquet")},
    **{f"Dataset.{name}": CHECK_CSV for name in ("to_csv", "write_csv", "sink_csv")},
    **{f"Dataset.{name}": CHECK_JSON for name in ("to_json", "write_json")},
    **{f"Dataset.{name}": CHECK_JSON_LINES for name in ("write_ndjson", "sink_ndjson")},
    **{f"Dataset.{name}": CHECK_ARROW for name in ("to_feather", "write_ipc", "sink_ipc")},
    "Dataset.to_excel": check_excel,
    "Dataset.plot": check_plot,
    "Column.plot": check_plot,
    "Column.mode": check_mode,
    "Column.sample": check_sample,
    "Column.shuffle": check_sample,
    "Column.describe": check_describe,
    "TimeParts.dayofweek": check_day_of_week,
    "TimeParts.day_of_week": check_day_of_week,
    **{f"module.{name}": check_from_frame for name in ("from_pandas", "from_polars", "from_dataframe")},
    "module.lit": check_literal,
    "module.read_excel": check_excel,
    "module.read_ipc_stream": check_read_stream,
    "module.open_stream": check_read_stream,
    "module.dataset": check_open_folder,
    "module.DataLoader": check_loader,
}


# ---- Keywords of readers ----

CSV = "zip,at,x\n01234,2024-01-02,1\n00001,2024-01-03,2\n"

# The text for keywords about the form of CSV.
CSV_VARIANTS = {
    "sep": CSV.replace(",", ";"),
    "separator": CSV.replace(",", ";"),
    "na_values": CSV.replace("1\n", "-\n"),
    "quotechar": CSV.replace("01234", "'01,234'"),
    "quote_char": CSV.replace("01234", "'01,234'"),
    "decimal_comma": CSV.replace(",", ";").replace(";1\n", ";1,5\n"),
}

# The meaning of each keyword in the reader that has it.
KEYWORDS = {
    "dtype": "pd.read_csv(file, dtype={'zip': 'str'})",
    "dtypes": "pl.read_csv(file, schema_overrides={'zip': pl.String})",
    "usecols": "pd.read_csv(file, dtype={'zip': 'str'}, usecols=['x', 'zip'])[['x', 'zip']]",
    "columns": "pl.read_csv(file, schema_overrides={'zip': pl.String}, columns=['x', 'zip'])[['x', 'zip']]",
    "nrows": "pd.read_csv(file, dtype={'zip': 'str'}, nrows=5)",
    "n_rows": "pl.read_csv(file, schema_overrides={'zip': pl.String}, n_rows=5)",
    "names": "pd.read_csv(file, dtype={'zip': 'str'}, names=['zip', 'at', 'z'], header=0)",
    "new_columns": "pl.read_csv(file, schema_overrides={'zip': pl.String}, new_columns=['zip', 'at', 'z'])",
    "parse_dates": "pd.read_csv(file, dtype={'zip': 'str'}, parse_dates=['at'])['at']",
    "try_parse_dates": "pl.read_csv(file, try_parse_dates=True)['at'].cast(pl.Datetime)",
    "sep": "pd.read_csv(file, dtype={'zip': 'str'}, sep=';')",
    "separator": "pl.read_csv(file, schema_overrides={'zip': pl.String}, separator=';')",
    "na_values": "pd.read_csv(file, na_values=['-'])['x']",
    "has_header": "list(pl.read_csv(file, has_header=False, infer_schema=False))",
    "quotechar": "pd.read_csv(file, dtype={'zip': 'str'}, quotechar=\"'\")",
    "quote_char": "pl.read_csv(file, schema_overrides={'zip': pl.String}, quote_char=\"'\")",
    "decimal_comma": "pl.read_csv(file, decimal_comma=True, separator=';')['x']",
}

KEYWORD_HINTS = _hints._READER_KEYWORD_HINTS | _hints._CSV_KEYWORD_HINTS
SQL_KEYWORDS = [name for name, hint in KEYWORD_HINTS.items() if hint is _hints._SQL_READER]
READER_KEYWORDS = [name for name in KEYWORD_HINTS if name not in SQL_KEYWORDS]


@pytest.mark.parametrize("name", SQL_KEYWORDS)
def test_hint_to_read_csv_by_sql_agrees_with_pandas(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = CSV_VARIANTS.get(name, CSV)
    # The options skip the first line.
    (tmp_path / "x.csv").write_text("\n" + text)
    (way,) = _hints.ways(KEYWORD_HINTS[name])
    rows = eval(way.replace("…", "skip = 1, comment = '#', ignore_errors = true, encoding = 'utf-8'"))
    assert difference(rows.select("x"), pd.read_csv(io.StringIO(text))[["x"]]) is None


@pytest.mark.parametrize("name", READER_KEYWORDS)
def test_hint_of_a_keyword_agrees_with_its_meaning(name):
    text = CSV_VARIANTS.get(name, CSV)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; write "):
        aw.read_csv(io.StringIO(text), **{name: None})

    rows = eval(expression_of_keyword(name), {"aw": aw, "io": io, "text": text})
    expected = eval(KEYWORDS[name], {"pd": pd, "pl": pl, "file": io.StringIO(text)})
    if isinstance(expected, list):
        actual = [rows[column] for column in rows.columns]
    elif isinstance(expected, pd.Series | pl.Series):
        actual = rows[expected.name]
    else:
        # We read dates, and other libraries read text.
        actual = rows.select([column for column in rows.columns if column != "at"])
        expected = expected[[column for column in expected.columns if column != "at"]]
    problem = difference(actual, expected)
    assert problem is None, problem


def expression_of_keyword(name: str) -> str:
    """Returns the expression that a hint suggests: keywords of `read_csv`, or an expression after its call."""
    (way,) = _hints.ways(KEYWORD_HINTS[name])
    arguments = ["io.StringIO(text)"]
    suffix = ""
    if way.endswith(" behind it"):
        suffix = way.removesuffix(" behind it")
    else:
        arguments.append(way)
    if not any("overrides" in argument or "header" in argument for argument in arguments):
        # Keeps leading zeros, as the meanings do.
        arguments.append('schema_overrides={"zip": "utf8"}')
    if name == "decimal_comma":
        arguments.append('delimiter=";"')
    return f"aw.read_csv({', '.join(arguments)}){suffix}"


# ---- Names ----


def test_module_suggests_what_to_write():
    with pytest.raises(AttributeError, match="no attribute 'DataFrame'; write aw.from_arrow"):
        aw.DataFrame
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        aw.nothing
    with pytest.raises(ImportError, match="cannot import name 'DataFrame'"):
        from arrowwood import DataFrame  # noqa: F401
    assert not hasattr(aw, "DataFrame")
    assert "DataFrame" not in dir(aw)


@pytest.mark.parametrize("kind", KINDS)
def test_hints_are_for_missing_names_only(kind):
    """Looking up an existing name never asks for a hint."""
    hints, _ = KINDS[kind]
    existing_names = dir(aw) if kind == "module" else dir(getattr(aw, kind))
    assert not set(hints) & set(existing_names)
