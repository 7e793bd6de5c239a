"""Hints for methods of other libraries: the messages of ``AttributeError``."""

# What is an engine's. `ds`, `other`, `x` and `y` stand for what the user has.
_JOIN = (
    'ds.sql("select * from self join other using (x)", other=other), or aw.scan(ds).join(aw.scan(other), on="x").collect(); '
    'where one x has categories and the other text: aw.scan(…).cast({"x": pl.String})'
)
_WINDOW = (
    'ds.sql("select *, avg(y) over (order by x rows 9 preceding) from self"), or ds.to_polars()["y"].rolling_mean(10)'
)
_SHIFT = 'ds.sql("select *, lag(y) over (order by x) as shifted from self"), or ds.to_polars()["y"].shift(1)'
_DIFF = 'ds.sql("select *, y - lag(y) over (order by x) as diff from self"), or ds.to_polars()["y"].diff()'
_RANK = 'ds.sql("select *, rank() over (order by y) as rank from self"), or ds.to_polars()["y"].rank()'
_RESAMPLE = (
    "ds.sql(\"select time_bucket(interval '1 hour', ts) as hour, avg(y) as y from self group by hour order by hour\"), or "
    'aw.scan(ds).group_by(pl.col("ts").dt.truncate("1h")).agg(pl.col("y").mean()).collect()'
)
_PIVOT = 'ds.sql("pivot self on x using sum(y)"), or ds.to_pandas().pivot_table(values="y", columns="x")'
_UNPIVOT = 'ds.sql("unpivot self on x, y"), or ds.to_polars().unpivot(["x", "y"])'
_GROUP = 'ds.aggregate(by="x", y="mean")'
_COMPUTE = 'ds.sql("select *, x * 2 as y from self"), or aw.scan(ds).with_columns(y=pl.col("x") * 2).collect()'
_CAST = 'ds.sql("select x::double as x from self"), or aw.scan(ds).cast({"x": pl.Float64}).collect()'
_CLIP = 'ds.sql("select least(greatest(x, 0), 10) as x from self"), or aw.scan(ds).with_columns(pl.col("x").clip(0, 10)).collect()'
_FILL = 'ds.sql("select coalesce(x, 0) as x from self"), or aw.scan(ds).fill_null(0).collect()'
_INTERPOLATE = 'aw.scan(ds).with_columns(pl.col("y").interpolate()).collect()'
_CUMULATE = (
    'ds.sql("select *, sum(y) over (order by x rows unbounded preceding) as total from self"), or np.cumsum(ds["y"])'
)
_ROWS = "for row in ds.rows()"
_PICK = 'ds[7], ds[10:20], ds[[3, 1]], ds["x"][7]'
_TIMES = (
    """aw.col("x").dt.hour() in conditions and aggregates, ds.sql("set timezone='UTC'; select hour(x) as hour from self"), with the zone that DuckDB is to see times in, """
    "or column.to_arrow() and pyarrow.compute"
)
_TENSORS = 'torch.from_numpy(ds["x"].to_numpy(copy=True)): docs/tasks/train.md'

_OF_DATASET = {
    **dict.fromkeys(["join", "merge", "join_asof", "merge_asof"], _JOIN),
    **dict.fromkeys(["rolling", "expanding", "ewm"], _WINDOW),
    **dict.fromkeys(["shift"], _SHIFT),
    **dict.fromkeys(["diff", "pct_change"], _DIFF),
    **dict.fromkeys(["rank"], _RANK),
    **dict.fromkeys(["resample", "group_by_dynamic", "upsample"], _RESAMPLE),
    **dict.fromkeys(["cumsum", "cum_sum", "cumulative_eval"], _CUMULATE),
    **dict.fromkeys(["clip"], _CLIP),
    **dict.fromkeys(["cast", "astype", "convert_dtypes"], _CAST),
    **dict.fromkeys(["interpolate"], _INTERPOLATE),
    **dict.fromkeys(["pivot", "pivot_table"], _PIVOT),
    **dict.fromkeys(["melt", "unpivot", "stack"], _UNPIVOT),
    **dict.fromkeys(["group_by", "groupby", "agg"], _GROUP),
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
            "hstack",
            "with_row_index",
            "abs",
            "round",
            "replace",
        ],
        _COMPUTE,
    ),
    **dict.fromkeys(["fillna", "fill_null", "fill_nan", "ffill", "bfill"], _FILL),
    **dict.fromkeys(["iterrows", "itertuples", "iter_rows"], _ROWS),
    **dict.fromkeys(["loc", "iloc", "at", "iat"], _PICK),
    **dict.fromkeys(
        ["explode", "corr", "cov", "lazy", "partition_by", "transpose"], 'ds.sql("select … from self"), or aw.scan(ds)'
    ),
    **dict.fromkeys(["where", "query", "mask"], 'ds.filter(aw.col("x") > 1), or ds[ds["x"] > 1]'),
    **dict.fromkeys(["nlargest", "top_k"], 'ds.sort("x", descending=True)[:5]'),
    **dict.fromkeys(["nsmallest", "bottom_k"], 'ds.sort("x")[:5]'),
    **dict.fromkeys(["duplicated", "is_duplicated", "is_unique"], 'len(ds.unique("x")) < len(ds)'),
    **dict.fromkeys(["reverse"], "ds[::-1]"),
    **dict.fromkeys(["gather_every", "take_every", "shard"], "ds[0::4]"),
    **dict.fromkeys(["gather"], "ds.take([3, 1])"),
    **dict.fromkeys(["slice", "limit"], "ds[10:20], or ds.head(10)"),
    **dict.fromkeys(["first"], "ds[0]"),
    **dict.fromkeys(["last"], "ds[-1]"),
    **dict.fromkeys(["item"], 'ds["x"][0]'),
    **dict.fromkeys(["get", "get_column", "to_series"], 'ds["x"]'),
    **dict.fromkeys(["get_columns", "items", "iter_columns"], "[ds[name] for name in ds.columns]"),
    **dict.fromkeys(["keys", "features"], "ds.columns, or ds.schema"),
    **dict.fromkeys(["values"], "ds.to_numpy()"),
    **dict.fromkeys(["empty", "is_empty"], "len(ds) == 0"),
    **dict.fromkeys(["count", "len", "num_rows", "nrows"], "len(ds)"),
    **dict.fromkeys(["size", "ndim"], "ds.shape"),
    **dict.fromkeys(
        ["copy", "clone", "persist", "compute", "cache"],
        "ds.collect(), which is in memory; a dataset itself never changes",
    ),
    **dict.fromkeys(["memory_usage", "estimated_size"], "ds.nbytes, or ds.mapped"),
    **dict.fromkeys(["glimpse", "show"], "print(ds), or ds.describe()"),
    **dict.fromkeys(["null_count"], 'ds["x"].null_count'),
    **dict.fromkeys(
        ["set_index", "reset_index", "sort_index"], 'ds.sort("x"); rows have numbers, and no other index: ds[7]'
    ),
    **dict.fromkeys(["rename_column", "rename_columns", "with_columns_renamed"], 'ds.rename({"x": "z"})'),
    **dict.fromkeys(["remove_columns"], 'ds.select("x", "y"), the columns that stay'),
    **dict.fromkeys(["to_torch", "to_tensor", "with_format", "set_format"], _TENSORS),
    **dict.fromkeys(["equals"], "ds.to_arrow().equals(other.to_arrow())"),
    **dict.fromkeys(["sort_values", "sort_by"], 'ds.sort("x")'),
    "drop_duplicates": 'ds.unique("x")',
    "dropna": 'ds.drop_nulls("x")',
    "drop": 'ds.select("x", "y"), the columns that stay',
    **dict.fromkeys(["to_dict", "to_dicts"], "ds.to_pylist()"),
    **dict.fromkeys(["to_table", "read_all", "arrow"], "ds.to_arrow()"),
    **dict.fromkeys(["df", "to_df"], "ds.to_pandas()"),
    "close": "del ds; the files are closed with the last dataset, column or array that has their memory",
    **dict.fromkeys(["to_parquet", "write_parquet", "sink_parquet"], "ds.sql(\"copy self to 'x.parquet'\")"),
    **dict.fromkeys(["to_csv", "write_csv"], "ds.sql(\"copy self to 'x.csv'\")"),
    **dict.fromkeys(["to_json", "write_json", "write_ndjson"], "ds.sql(\"copy self to 'x.json'\")"),
    **dict.fromkeys(["to_feather", "write_ipc"], 'aw.write(ds, "x.arrow")'),
    **dict.fromkeys(["concat", "append", "vstack", "extend"], "aw.concat([ds, other])"),
    **dict.fromkeys(["height", "index"], "len(ds)"),
    **dict.fromkeys(["width"], "ds.num_columns"),
    **dict.fromkeys(["info", "collect_schema"], "ds.schema"),
    **dict.fromkeys(["mean", "sum", "min", "max", "median", "std", "var"], 'ds["x"].{name}(), or ds.describe()'),
    **dict.fromkeys(["value_counts", "n_unique", "is_null"], 'ds["x"].{name}()'),
    "nunique": 'ds["x"].n_unique()',
    **dict.fromkeys(["isna", "isnull"], 'ds["x"].is_null()'),
    "quantile": 'ds["x"].quantile(0.5)',
    "plot": 'plt.plot(ds["x"], ds["y"])',
}

_OF_COLUMN = {
    **dict.fromkeys(
        ["cast", "astype"], 'ds.sql("select x::double as x from self"), or column.to_numpy().astype("float32")'
    ),
    "str": 'aw.col("x").str.contains("A") in conditions, ds.sql("select … from self"), or column.to_arrow() and pyarrow.compute',
    **dict.fromkeys(["list", "struct"], 'ds.sql("select … from self"), or column.to_arrow() and pyarrow.compute'),
    **dict.fromkeys(["dt"], _TIMES),
    **dict.fromkeys(["rolling", "rolling_mean", "rolling_sum", "expanding", "ewm"], _WINDOW),
    **dict.fromkeys(["shift"], _SHIFT),
    **dict.fromkeys(["diff", "pct_change"], _DIFF),
    **dict.fromkeys(["rank"], _RANK),
    **dict.fromkeys(["resample"], _RESAMPLE),
    **dict.fromkeys(["interpolate"], _INTERPOLATE),
    **dict.fromkeys(["explode", "corr", "cut", "qcut", "replace"], 'ds.sql("select … from self"), or aw.scan(ds)'),
    **dict.fromkeys(["cumsum", "cum_sum"], "np.cumsum(column)"),
    **dict.fromkeys(["clip"], "np.clip(column, 0, 10)"),
    **dict.fromkeys(["nlargest", "top_k"], "column.sort(descending=True)[:5]"),
    **dict.fromkeys(["nsmallest", "bottom_k"], "column.sort()[:5]"),
    **dict.fromkeys(["mode"], "column.value_counts()"),
    **dict.fromkeys(["idxmax", "arg_max"], "np.argmax(column)"),
    **dict.fromkeys(["idxmin", "arg_min"], "np.argmin(column)"),
    **dict.fromkeys(["hist"], "np.histogram(column)"),
    **dict.fromkeys(["plot"], 'plt.plot(ds["x"], ds["y"])'),
    **dict.fromkeys(["is_nan", "isnan"], "np.isnan(column)"),
    **dict.fromkeys(["filter", "where", "query"], "column[column > 1]"),
    **dict.fromkeys(["gather", "take"], "column[[3, 1]]"),
    **dict.fromkeys(["slice", "limit"], "column[10:20]"),
    **dict.fromkeys(["first", "item"], "column[0]"),
    **dict.fromkeys(["last"], "column[-1]"),
    **dict.fromkeys(["reverse"], "column[::-1]"),
    **dict.fromkeys(["gather_every", "take_every"], "column[::4]"),
    **dict.fromkeys(["sample", "shuffle"], 'ds.sample(5)["x"]'),
    **dict.fromkeys(["is_empty", "empty"], "len(column) == 0"),
    **dict.fromkeys(["copy", "clone"], "column.to_numpy(copy=True)"),
    **dict.fromkeys(["product", "prod"], "np.prod(column)"),
    **dict.fromkeys(
        ["apply", "map", "map_elements", "transform"],
        "[f(value) for value in column], or NumPy's functions, such as np.sqrt(column)",
    ),
    **dict.fromkeys(["fillna", "fill_null", "fill_nan", "ffill", "bfill"], _FILL),
    **dict.fromkeys(["isin"], "column.is_in([…])"),
    **dict.fromkeys(["between"], "column.is_between(low, high)"),
    **dict.fromkeys(["isna", "isnull"], "column.is_null()"),
    **dict.fromkeys(["notna", "notnull"], "column.is_not_null()"),
    **dict.fromkeys(["nunique"], "column.n_unique()"),
    **dict.fromkeys(["dropna"], "column.drop_nulls()"),
    **dict.fromkeys(["sort_values"], "column.sort()"),
    **dict.fromkeys(["values", "to_list", "tolist"], "column.to_numpy(), or column.to_pylist()"),
    **dict.fromkeys(["to_pandas", "to_frame"], 'ds[["x"]].to_pandas()'),
    **dict.fromkeys(["to_polars"], 'ds.to_polars()["x"]'),
    **dict.fromkeys(["argmin", "argmax", "argsort", "round", "abs", "sqrt", "log", "exp"], "np.{name}(column)"),
    **dict.fromkeys(["head"], "column[:5]"),
    **dict.fromkeys(["tail"], "column[-5:]"),
    **dict.fromkeys(["shape", "size", "len", "num_rows"], "len(column)"),
    **dict.fromkeys(["type"], "column.dtype"),
}


_EXPRESSION = 'ds.sql("select …, {name}(x) from self"), or aw.scan(ds) and Polars: pl.col("x").{name}()'

_OF_EXPRESSION = {
    "isin": 'aw.col("x").is_in([…])',
    "between": 'aw.col("x").is_between(low, high)',
    "astype": 'aw.col("x").cast("float64")',
    **dict.fromkeys(["isna", "isnull"], 'aw.col("x").is_null()'),
    **dict.fromkeys(["notna", "notnull"], 'aw.col("x").is_not_null()'),
    **dict.fromkeys(
        ["sum", "mean", "min", "max", "count", "median", "std", "var", "first", "last", "n_unique"],
        'ds.aggregate({name}=aw.col("x") * 2)',
    ),
    **dict.fromkeys(
        ["abs", "sqrt", "exp", "log", "round", "floor", "ceil", "pow", "fill_null", "fillna", "clip"], _EXPRESSION
    ),
    **dict.fromkeys(["shift", "diff", "rank", "cum_sum", "cumsum", "over", "is_nan", "alias"], _EXPRESSION),
}
_OF_TIME_PARTS = {
    **dict.fromkeys(
        [
            "truncate",
            "floor",
            "round",
            "date",
            "strftime",
            "to_string",
            "offset_by",
            "week",
            "quarter",
            "ordinal_day",
            "total_seconds",
        ],
        _EXPRESSION.replace('pl.col("x").', 'pl.col("x").dt.'),
    ),
}
_OF_TEXT_CONDITIONS = {
    "startswith": 'aw.col("x").str.starts_with("A")',
    "endswith": 'aw.col("x").str.ends_with("A")',
    **dict.fromkeys(
        [
            "match",
            "len",
            "len_chars",
            "lower",
            "upper",
            "to_lowercase",
            "to_uppercase",
            "replace",
            "split",
            "slice",
            "extract",
            "strip",
        ],
        _EXPRESSION.replace('pl.col("x").', 'pl.col("x").str.'),
    ),
}


_SQL_READER = "aw.sql(\"from read_csv('x.csv', …)\"), which has the options of DuckDB"

# Keywords of the readers of other libraries.
_OF_KEYWORD = {
    **dict.fromkeys(["dtype", "dtypes"], 'schema_overrides={"zip": "utf8"}, or schema=, which also chooses columns'),
    **dict.fromkeys(["usecols", "columns"], '.select("x", "y") behind it, or schema=, which chooses columns'),
    **dict.fromkeys(["nrows", "n_rows"], ".head(5) behind it"),
    **dict.fromkeys(["names", "new_columns"], '.rename({"x": "z"}) behind it'),
    **dict.fromkeys(["parse_dates", "try_parse_dates"], 'schema_overrides={"at": "timestamp[us]"}; dates and times are recognised'),
}
_OF_CSV_KEYWORD = {
    **dict.fromkeys(["sep", "separator"], 'delimiter=";"'),
    **dict.fromkeys(["na_values"], 'null_values=["-"]'),
    **dict.fromkeys(["has_header"], "header=False"),
    **dict.fromkeys(["quotechar", "quote_char"], "quote=\"'\""),
    **dict.fromkeys(["decimal_comma"], 'decimal=","'),
    **dict.fromkeys(
        ["skiprows", "skip_rows", "comment", "comment_prefix", "on_bad_lines", "ignore_errors", "encoding"], _SQL_READER
    ),
}


def of_keyword(function, name):
    """Raise the error of `function`, which has no keyword `name`."""
    hints = _OF_KEYWORD | (_OF_CSV_KEYWORD if function == "read_csv" else {})
    hint = f"; write {hints[name]}" if name in hints else ""
    raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def of_dataset(name, columns):
    """Raise the error of a dataset that has no `name`."""
    if name in columns:
        raise AttributeError(f"a dataset has columns in brackets: ds[{name!r}]", name=name)
    raise _error("Dataset", name, _OF_DATASET)


def of_column(name):
    """Raise the error of a column that has no `name`."""
    raise _error("Column", name, _OF_COLUMN)


def of_expression(name):
    """Raise the error of an expression that has no `name`."""
    raise _error("Expression", name, _OF_EXPRESSION)


def of_time_parts(name):
    """Raise the error of an expression's `dt` that has no `name`."""
    raise _error("TimeParts", name, _OF_TIME_PARTS)


def of_text_conditions(name):
    """Raise the error of an expression's `str` that has no `name`."""
    raise _error("TextConditions", name, _OF_TEXT_CONDITIONS)


def _error(kind, name, hints):
    if name not in hints:
        return AttributeError(f"'arrowwood.{kind}' object has no attribute {name!r}", name=name)
    instead = hints[name].replace("{name}", name)
    return AttributeError(f"'arrowwood.{kind}' has no {name!r}; write {instead}", name=name)
