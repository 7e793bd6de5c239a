"""Questions about groups and conditions: few and many groups, and all kinds of keys."""

from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import arrowwood as aw

try:
    import chdb
except ImportError:
    chdb = None
from question import OURS, Question, engines

MIX = np.uint64(0x9E3779B97F4A7C15)
BY_KEY = (
    "Groups by one key of five million rows in random order. Keys that lie close together are row numbers, codes and the like; "
    "scattered ones could be hashes. It shows how far the groups' memory is from the processor; it says nothing of sorted keys, "
    "which are cheaper everywhere."
)
OTHERS = "Other aggregates and other keys than means by one: which of them a library does in one pass, and which it sorts for."
CONDITIONS = "Rows chosen by a condition, on their own and before groups, as people write it."


def make_table(rows):
    random = np.random.default_rng(1)
    columns = {"v": random.random(rows) * 100, "n": random.integers(0, 1000, rows)}
    for count in (1_000, 100_000, 1_000_000):
        keys = random.integers(0, count, rows)
        columns[f"near{count}"] = keys
        columns[f"far{count}"] = (keys.astype(np.uint64) * MIX).astype(np.int64)
        columns[f"text{count}"] = pa.array(np.char.add("name-", keys.astype(str)))
    columns["key300"], columns["key3000"] = random.integers(0, 300, rows), random.integers(0, 3000, rows)
    return pa.table(columns)


def write_groups_file(folder, rows):
    path = folder / f"groups-{rows}.arrow"
    if not path.exists():
        table = make_table(rows)
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=1 << 20)
    return str(path)


def sort_by_keys(answer):
    """Returns an answer as a data frame with numbered columns, sorted by its keys."""
    table = pl.from_arrow(pa.table(answer)) if not isinstance(answer, pl.DataFrame) else answer
    table = table.rename({old: str(new) for new, old in enumerate(table.columns)})
    return table.sort(table.columns[:-1])


def is_same(a, b):
    a, b = sort_by_keys(a), sort_by_keys(b)
    texts = [name for name, kind in a.schema.items() if not kind.is_numeric()]
    numbers = [name for name in a.columns if name not in texts]
    near = all(np.allclose(a[name].to_numpy(), b[name].to_numpy(), rtol=1e-9) for name in numbers)
    return a.shape == b.shape and near and all(a[name].equals(b[name]) for name in texts)


def filter_values(data, condition):
    """Filters a dataset, data frame or table. Returns the column v."""
    return data.filter(condition)["v"].to_numpy()


def query_chdb(sql, groups_table):
    """Asks chdb, which finds the argument `groups_table` by its name."""
    return chdb.query(sql.replace(" from t", " from Python(groups_table)"), "ArrowTable")


def questions(folder, rows=5_000_000):
    path = write_groups_file(folder, rows)
    ds, table = aw.open(path), pa.ipc.open_file(pa.memory_map(path)).read_all()
    frame = pl.from_arrow(table)
    db, fusion = engines(table)

    def sql_functions(sql):
        ways = {"duckdb": lambda: db.sql(sql).to_arrow_table(), "datafusion": lambda: fusion.sql(sql).to_arrow_table()}
        return ways | ({"chdb": lambda: query_chdb(sql, table)} if chdb else {})

    def grouped_question(title, by, arrowwood_aggregate, polars_aggregate, sql, shows, pyarrow=None, left_out=()):
        lazy = frame.lazy().group_by(by).agg(polars_aggregate)
        ways = {OURS: lambda: ds.aggregate(by=by, x=arrowwood_aggregate), "polars": lazy.collect}
        if pyarrow:
            ways["pyarrow"] = lambda: table.group_by(by).aggregate([pyarrow]).select([*by, "_".join(pyarrow)])
        ways |= sql_functions(f"select {', '.join(by)}, {sql} from t group by {', '.join(by)}")
        return Question(title, {name: way for name, way in ways.items() if name not in left_out}, shows, is_same)

    v = pl.col("v")
    for kind, name in (("near", "int64, close together"), ("far", "int64, scattered"), ("text", "text")):
        for count in (1_000, 100_000, 1_000_000):
            title, key = f"mean by {count:,} keys, {name}", [f"{kind}{count}"]
            yield grouped_question(title, key, ("v", "mean"), v.mean(), "avg(v)", BY_KEY, ("v", "mean"))
    two = ["key300", "key3000"]
    yield grouped_question(
        "mean by two keys, 900,000 pairs", two, ("v", "mean"), v.mean(), "avg(v)", OTHERS, ("v", "mean")
    )
    key = ["near1000"]
    distinct = pl.col("n").n_unique(), "count(distinct n)", OTHERS, ("n", "count_distinct")
    yield grouped_question("distinct integers of 1,000 groups", key, ("n", "n_unique"), *distinct)
    # DataFusion's median of groups collects lists and takes minutes, and chdb's median is that of a sample.
    yield grouped_question(
        "median of 1,000 groups", key, ("v", "median"), v.median(), "median(v)", OTHERS, left_out=["datafusion", "chdb"]
    )
    text = pl.col("text100000")
    yield grouped_question(
        "smallest text of 1,000 groups", key, ("text100000", "min"), text.min(), "min(text100000)", OTHERS
    )
    # The other libraries return the first value of any thread.
    others = ["duckdb", "datafusion", "chdb"]
    yield grouped_question(
        "first value of 1,000 groups", key, ("v", "first"), v.first(), "first(v)", OTHERS, left_out=others
    )

    condition = aw.col("v") > 90
    ways = {
        OURS: lambda: ds.filter(condition).aggregate(by=key, x=("v", "mean")),
        f"{OURS}, where=": lambda: ds.aggregate(by=key, where=condition, x=("v", "mean")),
        "polars": frame.lazy().filter(v > 90).group_by(key).agg(v.mean()).collect,
        **sql_functions("select near1000, avg(v) from t where v > 90 group by 1"),
    }
    yield Question("ds.filter(v > 90).aggregate(…) by 1,000 keys", ways, CONDITIONS, is_same)
    name, twenty = "text1000", [f"name-{n}" for n in range(20)]
    conditions = {
        "v > 90": (condition, v > 90, pc.field("v") > 90),
        "a text equals one": (aw.col(name) == "name-7", pl.col(name) == "name-7", pc.field(name) == "name-7"),
        "a text begins with one": (
            aw.col(name).str.starts_with("name-77"),
            pl.col(name).str.starts_with("name-77"),
            pc.starts_with(pc.field(name), "name-77"),
        ),
        "a text is one of twenty": (
            aw.col(name).is_in(twenty),
            pl.col(name).is_in(twenty),
            pc.field(name).isin(twenty),
        ),
    }
    for title, (arrowwood_condition, polars_condition, pyarrow_condition) in conditions.items():
        names = ["near1000" if title == "v > 90" else "text1000", "v"]
        ways = {
            OURS: partial(filter_values, ds[names], arrowwood_condition),
            "polars": partial(filter_values, frame.select(names), polars_condition),
            "pyarrow": partial(filter_values, table.select(names), pyarrow_condition),
        }
        yield Question(f"rows of which {title}", ways, CONDITIONS)
