"""Adds hints to ``AttributeError`` and ``TypeError`` for names that other libraries have.

A hint is a tuple of ways to write the call. The last item may be a remark, which begins with a semicolon.

`tests/python/test_hints.py` runs each way, and compares its result with the library that has the name. Ways whose
results differ for nulls or NaN are not listed. `ds` and `other` stand for datasets, `column` for a column, `x` and `y`
for numbers, `s` for text, `ts` and `d` for a time and a duration, and `k` for a column to group by.
"""


def _sql(expression):
    """Returns the way to add a column by SQL."""
    return f'ds.sql("select *, {expression} as z from self")'


def _polars(expression):
    """Returns the way to add a column by Polars."""
    return f"aw.scan(ds).with_columns(z={expression}).collect()"


def _polars_in_place(expression):
    """Returns the way to replace the column of an expression by Polars."""
    return f"aw.scan(ds).with_columns({expression}).collect()"


def _pandas_methods(*names):
    """Returns hints to call methods of pandas data frames."""
    return {name: (f"ds.to_pandas().{name}()",) for name in names}


_CATEGORIES = '; where one x has categories and the other text: aw.scan(…).cast({"x": pl.String})'
_JOIN = (
    'ds.sql("select * from self join other using (x)", other=other)',
    'aw.scan(ds).join(aw.scan(other), on="x").collect()',
    _CATEGORIES,
)
_JOIN_ASOF = (
    'ds.sql("select * from self asof left join other using (ts) order by ts", other=other)',
    'aw.scan(ds).join_asof(aw.scan(other), on="ts").collect()',
)
_ROLLING = (
    'ds.to_polars()["y"].rolling_mean(10)',
    'ds.sql("select *, case when count(y) over w = 10 then avg(y) over w end as z from self '
    'window w as (order by ts rows 9 preceding)")',
)
_SHIFT = (
    'ds.sql("select *, lag(y) over (order by ts) as z from self")',
    _polars('pl.col("y").shift(1)'),
)
_DIFF = (
    'ds.sql("select *, y - lag(y) over (order by ts) as z from self")',
    _polars('pl.col("y").diff()'),
)
_EWM = 'ds.to_pandas()["y"].ewm(span=10).mean()'
_CORR = 'ds.to_pandas()[["x", "y"]]'
_UPPER = (
    'ds.sql("select *, upper(s) as z from self")',
    'aw.scan(ds).with_columns(z=pl.col("s").str.to_uppercase()).collect()',
)
_HOURS = (
    "ds.sql(\"set timezone='UTC'; select *, hour(ts) as z from self\")",
    'aw.scan(ds).with_columns(z=pl.col("ts").dt.hour()).collect()',
    '; with the zone that DuckDB is to see times in; aw.col("ts").dt.hour() in conditions and aggregates',
)
_DROP = ('ds.select([name for name in ds.columns if name != "x"])',)
_NO_INDEX = 'ds.sort("x")', "; rows have numbers, and no other index: ds[7]"
_ORDER = "; NaN is behind the numbers, and null behind NaN"
_NAN = "; NaN is not null"

_DATASET_HINTS = {
    **dict.fromkeys(["join", "merge"], _JOIN),
    **dict.fromkeys(["join_asof", "merge_asof"], _JOIN_ASOF),
    "rolling": _ROLLING,
    "expanding": ('ds.to_pandas()["y"].expanding().mean()',),
    "ewm": (_EWM,),
    "shift": _SHIFT,
    "diff": _DIFF,
    "pct_change": (_polars('pl.col("y").pct_change()'),),
    "rank": (_polars('pl.col("y").rank()'),),
    "resample": ('ds.to_pandas().resample("1h", on="ts")["y"].mean()',),
    "group_by_dynamic": (
        "ds.sql(\"select time_bucket(interval '1 hour', ts) as ts, avg(y) as y from self group by 1 order by 1\")",
        'aw.scan(ds).group_by(pl.col("ts").dt.truncate("1h")).agg(pl.col("y").mean()).sort("ts").collect()',
    ),
    "upsample": ('ds.to_polars().upsample("ts", every="20m")',),
    **dict.fromkeys(["cumsum", "cum_sum"], (_polars('pl.col("y").cum_sum()'),)),
    "clip": (_polars_in_place('pl.col("x").clip(0, 10)'),),
    **dict.fromkeys(
        ["cast", "astype"],
        ('ds.sql("select * replace (x::double as x) from self")', 'aw.scan(ds).cast({"x": pl.Float64}).collect()'),
    ),
    **_pandas_methods("convert_dtypes", "stack"),
    "interpolate": (_polars_in_place('pl.col("y").interpolate()'),),
    "pivot": ('ds.to_polars().pivot("k", index="ts", values="y")',),
    "pivot_table": ('ds.to_pandas().pivot_table(values="y", columns="k")',),
    **dict.fromkeys(
        ["melt", "unpivot"],
        ('ds.to_polars().unpivot(["x", "y"])', 'ds.to_pandas().melt(value_vars=["x", "y"])'),
    ),
    **dict.fromkeys(["group_by", "groupby"], ('ds.aggregate(by="k", y="mean")',)),
    "agg": ('ds.aggregate(y="mean")', '; of groups: ds.aggregate(by="k", y="mean")'),
    **dict.fromkeys(
        [
            "with_columns",
            "assign",
            "apply",
            "map",
            "map_rows",
            "transform",
            "eval",
            "insert",
            "insert_column",
            "add_column",
        ],
        (_sql("x * 2"), _polars('pl.col("x") * 2')),
    ),
    "hstack": ("ds.to_polars().hstack(other.to_polars())",),
    "with_row_index": ("ds.to_polars().with_row_index()",),
    "abs": (_sql("abs(x)"), _polars('pl.col("x").abs()')),
    "round": (_polars_in_place('pl.col("y").round(1)'),),
    "replace": (_polars_in_place('pl.col("x").replace(1, 5)'),),
    "fill_null": (
        'ds.sql("select * replace (coalesce(x, 0) as x) from self")',
        _polars_in_place('pl.col("x").fill_null(0)'),
    ),
    "fillna": (_polars_in_place('pl.col("y").fill_nan(0).fill_null(0)'),),
    "fill_nan": (_polars_in_place('pl.col("y").fill_nan(0)'),),
    "ffill": ('aw.scan(ds).fill_null(strategy="forward").collect()', _NAN),
    "bfill": ('aw.scan(ds).fill_null(strategy="backward").collect()', _NAN),
    **dict.fromkeys(["iterrows", "itertuples", "iter_rows"], ("[row for row in ds.rows()]",)),
    "iloc": ("ds[7]", "ds[10:20]", "ds[[3, 1]]", 'ds["x"][7]'),
    **dict.fromkeys(["loc", "at", "iat"], ("ds[7]", 'ds["x"][7]', "; rows have numbers, and no other index")),
    "explode": ('aw.scan(ds).explode("items").collect()',),
    "corr": (_CORR + ".corr()",),
    "cov": (_CORR + ".cov()",),
    "lazy": ("aw.scan(ds)",),
    "partition_by": ('ds.to_polars().partition_by("k")',),
    "transpose": ('ds.to_polars().select("x", "y").transpose()', 'ds.to_pandas()[["x", "y"]].T'),
    "query": ('ds.filter(aw.col("x") > 1)', 'ds[ds["x"] > 1]'),
    "where": ('ds.filter(aw.col("x") > 1)', "; pandas' where keeps all rows: ds.to_pandas().where(…)"),
    "mask": ('ds.to_pandas().mask(ds.to_pandas()["x"] > 1)', '; the rows of a condition: ds[ds["x"] > 1]'),
    **dict.fromkeys(["nlargest", "top_k"], ('ds.sort("x", descending=True)[:5]', _ORDER)),
    **dict.fromkeys(["nsmallest", "bottom_k"], ('ds.sort("x")[:5]', _ORDER)),
    "duplicated": ('ds.to_pandas().duplicated("x")', '; whether there are any: len(ds.unique("x")) < len(ds)'),
    "is_duplicated": (
        'ds.to_polars().select("x").is_duplicated()',
        '; whether there are any: len(ds.unique("x")) < len(ds)',
    ),
    "is_unique": ('ds.to_polars().select("x").is_unique()', '; whether all are: len(ds.unique("x")) == len(ds)'),
    "reverse": ("ds[::-1]",),
    **dict.fromkeys(["gather_every", "take_every"], ("ds[0::4]",)),
    "shard": ("ds[0::4]", "; every fourth row, as contiguous=False; ranges of rows: ds.splits(4)"),
    "gather": ("ds.take([3, 1])",),
    "slice": ("ds[10:20]",),
    "limit": ("ds.head(10)",),
    "first": ("ds[0]",),
    "last": ("ds[-1]",),
    "item": ('ds["x"][0]',),
    **dict.fromkeys(["get", "get_column", "to_series"], ('ds["x"]',)),
    "column_names": ("ds.columns",),
    **dict.fromkeys(["get_columns", "iter_columns"], ("[ds[name] for name in ds.columns]",)),
    "items": ("dict(ds).items()",),
    "features": ("ds.schema",),
    "values": ("ds.to_numpy()", "; the columns: dict(ds).values()"),
    **dict.fromkeys(["empty", "is_empty"], ("len(ds) == 0",)),
    "count": ('ds["x"].count()', "; the number of rows: len(ds)"),
    **dict.fromkeys(["len", "num_rows", "nrows", "height"], ("len(ds)",)),
    "size": ("ds.shape[0] * ds.shape[1]",),
    "ndim": ("len(ds.shape)",),
    **dict.fromkeys(
        ["copy", "clone", "persist", "compute", "cache"],
        ("ds.collect()", "; which is in memory; a dataset itself never changes"),
    ),
    **dict.fromkeys(["memory_usage", "estimated_size"], ("ds.nbytes", "; where the bytes are: ds.footprint")),
    **dict.fromkeys(["glimpse", "show"], ("print(ds)", "ds.describe()")),
    "info": ("ds.schema", "ds.describe()"),
    "collect_schema": ("ds.schema",),
    "null_count": ('ds["x"].null_count',),
    **dict.fromkeys(["set_index", "reset_index", "sort_index"], _NO_INDEX),
    "index": ("range(len(ds))", "; rows have numbers, and no other index: ds[7]"),
    **dict.fromkeys(["rename_column", "rename_columns", "with_columns_renamed"], ('ds.rename({"x": "z"})',)),
    **dict.fromkeys(["remove_columns", "drop"], _DROP),
    **dict.fromkeys(
        ["to_torch", "to_tensor", "with_format", "set_format"],
        (
            'torch.from_numpy(ds["n"].to_numpy(copy=True))',
            "; batches for training: ds.loader(256), docs/tasks/train.md",
        ),
    ),
    "equals": ("ds.to_polars().equals(other.to_polars())",),
    **dict.fromkeys(["sort_values", "sort_by"], ('ds.sort("x")',)),
    "drop_duplicates": ('ds.unique("x")',),
    "dropna": ('ds.drop_nulls("x")', '; NaN stays; without both: ds[~np.isnan(ds["y"])]'),
    "drop_nans": ('aw.scan(ds).drop_nans("y").collect()',),
    "to_dict": ("{name: ds[name].to_pylist() for name in ds.columns}", "; the rows: ds.to_pylist()"),
    "to_dicts": ("ds.to_pylist()",),
    **dict.fromkeys(["to_table", "read_all", "arrow"], ("ds.to_arrow()",)),
    **dict.fromkeys(["df", "to_df"], ("ds.to_pandas()",)),
    "close": ("del ds", "; the files are closed with the last dataset, column or array that has their memory"),
    **dict.fromkeys(
        ["to_parquet", "write_parquet", "sink_parquet"],
        ('aw.write(ds, "x.parquet")',),
    ),
    **dict.fromkeys(["to_csv", "write_csv", "sink_csv"], ("ds.sql(\"copy self to 'x.csv'\")",)),
    **dict.fromkeys(["to_json", "write_json"], ("ds.sql(\"copy self to 'x.json' (array true)\")",)),
    **dict.fromkeys(["write_ndjson", "sink_ndjson"], ("ds.sql(\"copy self to 'x.json'\")",)),
    **dict.fromkeys(["to_feather", "write_ipc", "sink_ipc"], ('aw.write(ds, "x.arrow")',)),
    "to_excel": ('ds.to_pandas().to_excel("x.xlsx")',),
    **dict.fromkeys(["concat", "append", "vstack", "extend"], ("aw.concat([ds, other])",)),
    "width": ("ds.num_columns",),
    **dict.fromkeys(
        ["mean", "sum", "min", "max", "median", "std", "var"], ('ds["x"].{name}()', "; of all columns: ds.describe()")
    ),
    "value_counts": ('ds["x"].value_counts()',),
    "n_unique": ("len(ds.unique())", '; of a column: ds["x"].n_unique()'),
    "nunique": ('ds["x"].drop_nulls().n_unique()', "; NaN is one value"),
    "is_null": ('ds["x"].is_null()',),
    **dict.fromkeys(["isna", "isnull"], ('ds["x"].is_null()', '; NaN is not null; for both: np.isnan(ds["y"])')),
    "quantile": ('ds["x"].quantile(0.5)',),
    "plot": ('plt.plot(ds["x"], ds["y"])',),
}

_COLUMN_HINTS = {
    **dict.fromkeys(
        ["cast", "astype"], ('ds.sql("select x::double as x from self")["x"]', 'column.to_numpy().astype("float32")')
    ),
    "str": (*_UPPER, '; aw.col("s").str.contains("A") in conditions'),
    "list": (
        'aw.scan(ds).with_columns(z=pl.col("items").list.len()).collect()',
        'ds.sql("select *, len(items) as z from self")',
    ),
    "struct": (
        'aw.scan(ds).with_columns(z=pl.col("p").struct.field("a")).collect()',
        'ds.sql("select *, p.a as z from self")',
    ),
    "dt": _HOURS,
    **dict.fromkeys(["rolling", "rolling_mean"], _ROLLING),
    "rolling_sum": ('ds.to_polars()["y"].rolling_sum(10)',),
    "expanding": ('ds.to_pandas()["y"].expanding().mean()',),
    "ewm": (_EWM,),
    "shift": _SHIFT,
    "diff": _DIFF,
    "pct_change": (_polars('pl.col("y").pct_change()'),),
    "rank": (_polars('pl.col("y").rank()'),),
    "resample": ('ds.to_pandas().resample("1h", on="ts")["y"].mean()',),
    "interpolate": (_polars_in_place('pl.col("y").interpolate()'),),
    "explode": ('ds.to_polars()["items"].explode()',),
    "corr": ('ds.to_pandas()["x"].corr(ds.to_pandas()["y"])',),
    "cut": ('pd.cut(ds.to_pandas()["y"], 3)',),
    "qcut": ('pd.qcut(ds.to_pandas()["y"], 3)',),
    "replace": (_polars_in_place('pl.col("x").replace(1, 5)'),),
    **dict.fromkeys(["cumsum", "cum_sum"], ('ds.to_polars()["x"].cum_sum()',)),
    "clip": ("np.clip(column, 0, 10)",),
    **dict.fromkeys(["nlargest", "top_k"], ("column.sort(descending=True)[:5]", _ORDER)),
    **dict.fromkeys(["nsmallest", "bottom_k"], ("column.sort()[:5]", _ORDER)),
    "mode": ("column.drop_nulls().value_counts()", "; the most frequent first"),
    **dict.fromkeys(
        ["idxmax", "arg_max", "argmax"], ("np.nanargmax(column)", "; np.argmax takes a null for the largest")
    ),
    **dict.fromkeys(
        ["idxmin", "arg_min", "argmin"], ("np.nanargmin(column)", "; np.argmin takes a null for the smallest")
    ),
    "hist": ("np.histogram(column[~np.isnan(column)])",),
    "plot": ('plt.plot(ds["x"], ds["y"])',),
    "is_nan": ('ds.to_polars()["y"].is_nan()', "; np.isnan(column) is true for null, too"),
    "isnan": ("np.isnan(column)", "; true for null, too"),
    **dict.fromkeys(["filter", "query"], ("column[column > 1]",)),
    "where": ("column[column > 1]", '; pandas\' where keeps all values: ds.to_pandas()["x"].where(…)'),
    **dict.fromkeys(["gather", "take"], ("column[[3, 1]]",)),
    "slice": ("column[10:20]",),
    "limit": ("column[:10]",),
    **dict.fromkeys(["first", "item"], ("column[0]",)),
    "last": ("column[-1]",),
    "reverse": ("column[::-1]",),
    **dict.fromkeys(["gather_every", "take_every"], ("column[::4]",)),
    "sample": ('ds.sample(5)["x"]',),
    "shuffle": ('ds.shuffle()["x"]',),
    **dict.fromkeys(["is_empty", "empty"], ("len(column) == 0",)),
    **dict.fromkeys(["copy", "clone"], ("column.to_numpy(copy=True)", "; a column itself never changes")),
    **dict.fromkeys(["product", "prod"], ("np.nanprod(column)",)),
    **dict.fromkeys(
        ["apply", "map", "map_elements", "transform"],
        ("[f(value) for value in column]", "; or NumPy's functions, such as np.sqrt(column)"),
    ),
    "fill_null": ('ds.sql("select coalesce(x, 0) as x from self")["x"]', 'ds.to_polars()["x"].fill_null(0)'),
    "fillna": ('ds.to_polars()["y"].fill_nan(0).fill_null(0)',),
    "fill_nan": ('ds.to_polars()["y"].fill_nan(0)',),
    "ffill": ('ds.to_polars()["y"].forward_fill()', _NAN),
    "bfill": ('ds.to_polars()["y"].backward_fill()', _NAN),
    "isin": ("column.is_in([1, 2])",),
    "between": ("column.is_between(1, 5)",),
    **dict.fromkeys(["isna", "isnull"], ("column.is_null()", "; NaN is not null; for both: np.isnan(column)")),
    **dict.fromkeys(["notna", "notnull"], ("column.is_not_null()", "; NaN is not null; for both: ~np.isnan(column)")),
    "nunique": ("column.drop_nulls().n_unique()", "; NaN is one value"),
    "dropna": ("column.drop_nulls()", "; NaN stays; without both: column[~np.isnan(column)]"),
    "drop_nans": ('ds.to_polars()["y"].drop_nans()',),
    "sort_values": ("column.sort()",),
    "values": ("column.to_numpy()",),
    **dict.fromkeys(["to_list", "tolist"], ("column.to_pylist()",)),
    "to_pandas": ('ds[["x"]].to_pandas()["x"]',),
    "to_frame": ('ds[["x"]]',),
    "to_polars": ('ds.to_polars()["x"]',),
    "describe": ('ds[["x"]].describe()',),
    **dict.fromkeys(["argsort", "arg_sort"], ("np.argsort(column, stable=True)", "; NaN and null are last")),
    **dict.fromkeys(["round", "abs", "sqrt", "log", "exp"], ("np.{name}(column)",)),
    "head": ("column[:5]",),
    "tail": ("column[-5:]",),
    "shape": ("(len(column),)",),
    **dict.fromkeys(["size", "len", "num_rows"], ("len(column)",)),
    "type": ("column.dtype",),
}

_EXPRESSION_HINTS = {
    "isin": ('ds.filter(aw.col("x").is_in([1, 2]))',),
    "between": ('ds.filter(aw.col("x").is_between(1, 5))',),
    "astype": ('ds.aggregate(sum=aw.col("x").cast("float64"))',),
    **dict.fromkeys(["isna", "isnull"], ('ds.filter(aw.col("x").is_null())', _NAN)),
    **dict.fromkeys(["notna", "notnull"], ('ds.filter(aw.col("x").is_not_null())', _NAN)),
    **dict.fromkeys(
        ["sum", "mean", "min", "max", "median", "std", "var", "count"], ('ds.aggregate({name}=aw.col("x") * 2)',)
    ),
    **dict.fromkeys(
        ["first", "last", "n_unique"],
        ('ds.aggregate({name}="x")', '; of what is computed: aw.scan(ds).select((pl.col("x") * 2).{name}()).collect()'),
    ),
    "nunique": ('ds.aggregate(where=aw.col("x").is_not_null(), n_unique="x")["n_unique"][0]',),
    "abs": (_sql("abs(x)"), _polars('pl.col("x").abs()')),
    "exp": (_sql("exp(y)"), _polars('pl.col("y").exp()')),
    "floor": (_sql("floor(y)"), _polars('pl.col("y").floor()')),
    "ceil": (_sql("ceil(y)"), _polars('pl.col("y").ceil()')),
    "pow": (_sql("pow(y, 2)"), _polars('pl.col("y").pow(2)')),
    "sqrt": (_polars('pl.col("y").sqrt()'), "; DuckDB's refuses negative numbers"),
    "log": (_polars('pl.col("y").log()'), "; DuckDB's log has base 10, and its ln refuses what is not positive"),
    "round": (_polars('pl.col("y").round()'), "; DuckDB's rounds halves away from zero"),
    "clip": (_polars('pl.col("x").clip(0, 10)'),),
    "fill_null": (_sql("coalesce(x, 0)"), _polars('pl.col("x").fill_null(0)')),
    "fillna": (_polars('pl.col("y").fill_nan(0).fill_null(0)'),),
    "shift": _SHIFT,
    "diff": _DIFF,
    "rank": (_polars('pl.col("y").rank()'),),
    **dict.fromkeys(["cum_sum", "cumsum"], (_polars('pl.col("y").cum_sum()'),)),
    "over": (_sql("avg(x) over (partition by k)"), _polars('pl.col("x").mean().over("k")')),
    "is_nan": (_sql("isnan(y)"), _polars('pl.col("y").is_nan()')),
    "alias": ('ds.rename({"x": "z"})', _sql("x")),
}

_TIME_PARTS_HINTS = {
    **dict.fromkeys(["truncate", "floor"], (_sql("date_trunc('hour', ts)"), _polars('pl.col("ts").dt.truncate("1h")'))),
    "round": (_polars('pl.col("ts").dt.round("1h")'),),
    "date": (_sql("ts::date"), _polars('pl.col("ts").dt.date()')),
    **dict.fromkeys(
        ["strftime", "to_string"], (_sql("strftime(ts, '%Y-%m-%d')"), _polars("pl.col(\"ts\").dt.strftime('%Y-%m-%d')"))
    ),
    "offset_by": (_sql("ts + interval '1 month'"), _polars('pl.col("ts").dt.offset_by("1mo")')),
    "week": (_sql("week(ts)"), _polars('pl.col("ts").dt.week()')),
    "quarter": (_sql("quarter(ts)"), _polars('pl.col("ts").dt.quarter()')),
    **dict.fromkeys(
        ["ordinal_day", "dayofyear", "day_of_year"], (_sql("dayofyear(ts)"), _polars('pl.col("ts").dt.ordinal_day()'))
    ),
    **dict.fromkeys(
        ["dayofweek", "day_of_week"], ('aw.col("ts").dt.weekday() - 1', "; weekday() is 1 on Monday, as in Polars")
    ),
    "total_seconds": (_polars('pl.col("d").dt.total_seconds()'),),
    **{
        name: (_polars(f'pl.col("ts").dt.{name}()'),)
        for name in ("millisecond", "microsecond", "nanosecond", "iso_year", "is_leap_year")
    },
}

_TEXT_CONDITIONS_HINTS = {
    "startswith": ('ds.filter(aw.col("s").str.starts_with("A"))',),
    "endswith": ('ds.filter(aw.col("s").str.ends_with("a"))',),
    "match": ('ds.filter(aw.col("s").str.contains("^[A-C]"))',),
    "fullmatch": ('ds.filter(aw.col("s").str.contains("^(?:[a-c]+)$"))',),
    **dict.fromkeys(["len", "len_chars"], (_sql("length(s)"), _polars('pl.col("s").str.len_chars()'))),
    **dict.fromkeys(["lower", "to_lowercase"], (_sql("lower(s)"), _polars('pl.col("s").str.to_lowercase()'))),
    **dict.fromkeys(["upper", "to_uppercase"], _UPPER),
    "replace": (
        _polars('pl.col("s").str.replace("a", "b")'),
        "; the first one, as in Polars; all, as in pandas: str.replace_all",
    ),
    "replace_all": (_sql("replace(s, 'a', 'b')"), _polars('pl.col("s").str.replace_all("a", "b", literal=True)')),
    "split": (_sql("string_split(s, ' ')"), _polars('pl.col("s").str.split(" ")')),
    "slice": (_sql("substr(s, 1, 3)"), _polars('pl.col("s").str.slice(0, 3)')),
    "extract": (
        _polars('pl.col("s").str.extract("([a-c]+)")'),
        "; DuckDB's regexp_extract gives '' where nothing matches",
    ),
    **dict.fromkeys(
        ["strip", "strip_chars"], (_polars('pl.col("s").str.strip_chars()'), "; DuckDB's trim leaves tabs")
    ),
}


_SQL_READER = ("aw.sql(\"from read_csv('x.csv', …)\")", "; which has the options of DuckDB")

# Keywords of readers in other libraries. A way replaces the keyword, or follows the call.
_READER_KEYWORD_HINTS = {
    **dict.fromkeys(["dtype", "dtypes"], ('schema_overrides={"zip": "utf8"}', "; schema= also chooses columns")),
    **dict.fromkeys(["usecols", "columns"], ('.select("x", "zip") behind it', "; or schema=, which chooses columns")),
    **dict.fromkeys(["nrows", "n_rows"], (".head(5) behind it",)),
    **dict.fromkeys(["names", "new_columns"], ('.rename({"x": "z"}) behind it',)),
    **dict.fromkeys(
        ["parse_dates", "try_parse_dates"],
        ('schema_overrides={"at": "timestamp[us]"}', "; dates and times are recognised"),
    ),
}
_CSV_KEYWORD_HINTS = {
    **dict.fromkeys(["sep", "separator"], ('delimiter=";"',)),
    "na_values": ('null_values=["-"]',),
    "has_header": ("header=False",),
    **dict.fromkeys(["quotechar", "quote_char"], ('quote="\'"',)),
    "decimal_comma": ('decimal=","',),
    **dict.fromkeys(
        ["skiprows", "skip_rows", "comment", "comment_prefix", "on_bad_lines", "ignore_errors", "encoding"], _SQL_READER
    ),
}

_MEMORY = (
    'aw.from_arrow(pa.table({"x": [1, 2]}))',
    'aw.from_arrow(pl.DataFrame({"x": [1, 2]}))',
    'aw.from_arrow(pd.DataFrame({"x": [1, 2]}))',
)
_MODULE_HINTS = {
    **dict.fromkeys(["DataFrame", "Table", "table", "from_dict", "from_pydict"], _MEMORY),
    **dict.fromkeys(["from_pandas", "from_polars", "from_dataframe"], ("aw.from_arrow(df)",)),
    **dict.fromkeys(
        ["from_pylist", "from_dicts", "from_records", "from_list"],
        ('aw.from_arrow(pa.Table.from_pylist([{"x": 1}, {"x": 2}]))',),
    ),
    "from_numpy": ('aw.from_arrow(pa.table({"x": array}))',),
    "lit": ('aw.col("x") * 2', "; a value stands for itself"),
    "read_excel": ('aw.from_arrow(pd.read_excel("x.xlsx"))',),
    "scan_csv": ('aw.scan(aw.read_csv("x.csv"))', 'pl.scan_csv("x.csv")'),
    **dict.fromkeys(["scan_ndjson", "read_ndjson"], ('aw.read_json("x.json")',)),
    "scan_parquet": ('aw.scan(aw.read_parquet("x.parquet"))', 'pl.scan_parquet("x.parquet")'),
    "scan_ipc": ('aw.scan("x.arrow")',),
    **dict.fromkeys(["read_ipc", "read_feather", "open_file", "read_table"], ('aw.open("x.arrow")',)),
    **dict.fromkeys(["read_ipc_stream", "open_stream"], ('aw.read_stream("x.arrows")', 'aw.open("x.arrows")')),
    **dict.fromkeys(["memmap", "memory_map"], ('aw.map("x.bin", dtype="float64")',)),
    **dict.fromkeys(["concat_tables", "concatenate", "concatenate_datasets"], ("aw.concat([ds, other])",)),
    "merge": _JOIN,
    "dataset": ('aw.open("folder/*.arrow")',),
    "DataLoader": ("ds.loader(256, seed=1)",),
}


def raise_for_keyword(function, name):
    """Raises ``TypeError`` for `function`, which has no keyword `name`."""
    hints = _READER_KEYWORD_HINTS | (_CSV_KEYWORD_HINTS if function == "read_csv" else {})
    hint = f"; write {_format_hint(hints[name])}" if name in hints else ""
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def raise_for_module(name):
    """Raises ``AttributeError`` for the module, which has no `name`."""
    hint = f"; write {_format_hint(_MODULE_HINTS[name])}" if name in _MODULE_HINTS else ""
    raise AttributeError(f"module 'arrowwood' has no attribute {name!r}{hint}", name=name)


def raise_for_dataset(name, columns):
    """Raises ``AttributeError`` for a dataset, which has no attribute `name`."""
    if name in columns:
        raise AttributeError(f"a dataset has columns in brackets: ds[{name!r}]", name=name)
    raise _attribute_error("Dataset", name, _DATASET_HINTS)


def raise_for_column(name):
    """Raises ``AttributeError`` for a column, which has no attribute `name`."""
    raise _attribute_error("Column", name, _COLUMN_HINTS)


def raise_for_expression(name):
    """Raises ``AttributeError`` for an expression, which has no attribute `name`."""
    raise _attribute_error("Expression", name, _EXPRESSION_HINTS)


def raise_for_time_parts(name):
    """Raises ``AttributeError`` for an expression's `dt`, which has no attribute `name`."""
    raise _attribute_error("TimeParts", name, _TIME_PARTS_HINTS)


def raise_for_text_conditions(name):
    """Raises ``AttributeError`` for an expression's `str`, which has no attribute `name`."""
    raise _attribute_error("TextConditions", name, _TEXT_CONDITIONS_HINTS)


def _attribute_error(kind, name, hints):
    if name not in hints:
        return AttributeError(f"'arrowwood.{kind}' object has no attribute {name!r}", name=name)
    return AttributeError(f"'arrowwood.{kind}' has no {name!r}; write {_format_hint(hints[name], name)}", name=name)


def ways(hint, name=""):
    """Returns the ways of a hint, without its remark."""
    return [way.replace("{name}", name) for way in hint if not way.startswith(";")]


def _format_hint(hint, name=""):
    """Returns a hint as text."""
    remark = "".join(part for part in hint if part.startswith(";"))
    return ", or ".join(ways(hint, name)) + remark.replace("{name}", name)
