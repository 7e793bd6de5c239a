"""What to write instead of what other libraries have: the message of an ``AttributeError``."""

# What is an engine's. `ds`, `other`, `x` and `y` stand for what the user has.
_JOIN = 'ds.sql("select * from self join other using (x)", other=other), or aw.scan(ds).join(aw.scan(other), on="x").collect()'
_WINDOW = 'ds.sql("select *, avg(y) over (order by x rows 9 preceding) from self"), or ds.to_polars()["y"].rolling_mean(10)'
_PIVOT = 'ds.sql("pivot self on x using sum(y)"), or ds.to_pandas().pivot_table(values="y", columns="x")'
_UNPIVOT = 'ds.sql("unpivot self on columns(*)"), or ds.to_polars().unpivot()'
_GROUP = 'ds.aggregate(by="x", y="mean")'
_COMPUTE = 'ds.sql("select *, x * 2 as y from self"), or aw.scan(ds).with_columns(y=pl.col("x") * 2).collect()'
_FILL = 'ds.sql("select coalesce(x, 0) as x from self"), or aw.scan(ds).fill_null(0).collect()'
_ROWS = "for row in ds.rows()"
_PICK = 'ds[7], ds[10:20], ds[[3, 1]], ds["x"][7]'

_OF_DATASET = {
    **dict.fromkeys(["join", "merge", "join_asof", "merge_asof"], _JOIN),
    **dict.fromkeys(["rolling", "expanding", "ewm", "shift", "diff", "cumsum", "rank", "resample", "group_by_dynamic"], _WINDOW),
    **dict.fromkeys(["pivot", "pivot_table"], _PIVOT),
    **dict.fromkeys(["melt", "unpivot", "stack"], _UNPIVOT),
    **dict.fromkeys(["group_by", "groupby", "agg"], _GROUP),
    **dict.fromkeys(["with_columns", "assign", "apply", "map", "map_rows", "transform", "eval", "insert", "cast", "astype"], _COMPUTE),
    **dict.fromkeys(["fillna", "fill_null", "interpolate"], _FILL),
    **dict.fromkeys(["iterrows", "itertuples", "iter_rows"], _ROWS),
    **dict.fromkeys(["loc", "iloc", "at", "iat"], _PICK),
    **dict.fromkeys(["explode", "corr", "cov", "query", "lazy"], 'ds.sql("select … from self"), or aw.scan(ds)'),
    **dict.fromkeys(["sort_values", "sort_by"], 'ds.sort("x")'),
    "drop_duplicates": 'ds.unique("x")',
    "dropna": 'ds.drop_nulls("x")',
    "drop": 'ds.select("x", "y"), the columns that stay',
    **dict.fromkeys(["to_dict", "to_dicts"], "ds.to_pylist()"),
    **dict.fromkeys(["to_parquet", "write_parquet"], "ds.sql(\"copy self to 'x.parquet'\")"),
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
    **dict.fromkeys(["cast", "astype"], 'ds.sql("select x::float as x from self"), or column.to_numpy().astype(…)'),
    **dict.fromkeys(["str", "dt", "list", "struct"], 'ds.sql("select … from self"), or column.to_arrow() and pyarrow.compute'),
    **dict.fromkeys(["rolling", "rolling_mean", "expanding", "ewm", "shift", "diff", "rank", "resample"], _WINDOW),
    **dict.fromkeys(["cumsum", "cum_sum"], "np.cumsum(column)"),
    **dict.fromkeys(["apply", "map", "map_elements", "transform"], "[f(value) for value in column], or NumPy's functions, such as np.sqrt(column)"),
    **dict.fromkeys(["fillna", "fill_null"], _FILL),
    **dict.fromkeys(["isin"], "column.is_in([…])"),
    **dict.fromkeys(["between"], "column.is_between(low, high)"),
    **dict.fromkeys(["isna", "isnull"], "column.is_null()"),
    **dict.fromkeys(["notna", "notnull"], "column.is_not_null()"),
    **dict.fromkeys(["nunique"], "column.n_unique()"),
    **dict.fromkeys(["dropna"], "column.drop_nulls()"),
    **dict.fromkeys(["sort_values"], "column.sort()"),
    **dict.fromkeys(["values", "to_list", "tolist"], "column.to_numpy(), or column.to_pylist()"),
    **dict.fromkeys(["to_pandas", "to_frame"], "ds.to_pandas()"),
    **dict.fromkeys(["to_polars"], "ds.to_polars()"),
    **dict.fromkeys(["argmin", "argmax", "argsort", "round", "abs", "sqrt", "log", "exp", "clip"], "np.{name}(column)"),
    **dict.fromkeys(["head"], "column[:5]"),
    **dict.fromkeys(["tail"], "column[-5:]"),
    **dict.fromkeys(["shape", "size"], "len(column)"),
    **dict.fromkeys(["type"], "column.dtype"),
}


def of_dataset(name, columns):
    """Raise the error of a dataset that has no `name`."""
    if name in columns:
        raise AttributeError(f"a dataset has columns in brackets: ds[{name!r}]", name=name)
    raise _error("Dataset", name, _OF_DATASET)


def of_column(name):
    """Raise the error of a column that has no `name`."""
    raise _error("Column", name, _OF_COLUMN)


def _error(kind, name, hints):
    if name not in hints:
        return AttributeError(f"'arrowwood.{kind}' object has no attribute {name!r}", name=name)
    instead = hints[name].replace("{name}", name)
    return AttributeError(f"'arrowwood.{kind}' has no {name!r}; write {instead}", name=name)
