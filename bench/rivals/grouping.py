"""Questions about groups: few and very many, of keys of all kinds, and about conditions,
on a table that is made here."""

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


def table(rows):
    random = np.random.default_rng(1)
    columns = {"v": random.random(rows) * 100, "n": random.integers(0, 1000, rows)}
    for count in (1_000, 100_000, 1_000_000):
        keys = random.integers(0, count, rows)
        columns[f"near{count}"] = keys
        columns[f"far{count}"] = (keys.astype(np.uint64) * MIX).astype(np.int64)
        columns[f"text{count}"] = pa.array(np.char.add("name-", keys.astype(str)))
    columns["key300"], columns["key3000"] = random.integers(0, 300, rows), random.integers(0, 3000, rows)
    return pa.table(columns)


def made(folder, rows):
    path = folder / f"groups-{rows}.arrow"
    if not path.exists():
        whole = table(rows)
        with pa.ipc.new_file(str(path), whole.schema) as writer:
            writer.write_table(whole, max_chunksize=1 << 20)
    return str(path)


def sorted_answer(answer):
    """Numbers and texts of all columns, by the keys."""
    whole = pl.from_arrow(pa.table(answer)) if not isinstance(answer, pl.DataFrame) else answer
    whole = whole.rename({old: str(new) for new, old in enumerate(whole.columns)})
    return whole.sort(whole.columns[:-1])


def same(a, b):
    a, b = sorted_answer(a), sorted_answer(b)
    texts = [name for name, kind in a.schema.items() if not kind.is_numeric()]
    numbers = [name for name in a.columns if name not in texts]
    near = all(np.allclose(a[name].to_numpy(), b[name].to_numpy(), rtol=1e-9) for name in numbers)
    return a.shape == b.shape and near and all(a[name].equals(b[name]) for name in texts)


def clickhouse(sql, groups_table):
    """The answer of chdb, which finds the table by its name here."""
    return chdb.query(sql.replace(" from t", " from Python(groups_table)"), "ArrowTable")


def questions(folder, rows=5_000_000):
    path = made(folder, rows)
    ds, whole = aw.open(path), pa.ipc.open_file(pa.memory_map(path)).read_all()
    frame = pl.from_arrow(whole)
    db, fusion = engines(whole)

    def ask(sql):
        ways = {"duckdb": lambda: db.sql(sql).to_arrow_table(), "datafusion": lambda: fusion.sql(sql).to_arrow_table()}
        return ways | ({"chdb": lambda: clickhouse(sql, whole)} if chdb else {})

    def grouped(title, by, ours, theirs, sql, shows, pyarrow=None, leave=()):
        lazy = frame.lazy().group_by(by).agg(theirs)
        ways = {OURS: lambda: ds.aggregate(by=by, x=ours), "polars": lazy.collect}
        if pyarrow:
            ways["pyarrow"] = lambda: whole.group_by(by).aggregate([pyarrow]).select([*by, "_".join(pyarrow)])
        ways |= ask(f"select {', '.join(by)}, {sql} from t group by {', '.join(by)}")
        return Question(title, {name: way for name, way in ways.items() if name not in leave}, shows, same)

    v = pl.col("v")
    for kind, name in (("near", "int64, close together"), ("far", "int64, scattered"), ("text", "text")):
        for count in (1_000, 100_000, 1_000_000):
            title, key = f"mean by {count:,} keys, {name}", [f"{kind}{count}"]
            yield grouped(title, key, ("v", "mean"), v.mean(), "avg(v)", BY_KEY, ("v", "mean"))
    two = ["key300", "key3000"]
    yield grouped("mean by two keys, 900,000 pairs", two, ("v", "mean"), v.mean(), "avg(v)", OTHERS, ("v", "mean"))
    key = ["near1000"]
    distinct = pl.col("n").n_unique(), "count(distinct n)", OTHERS, ("n", "count_distinct")
    yield grouped("distinct integers of 1,000 groups", key, ("n", "n_unique"), *distinct)
    # DataFusion's median of groups takes a list of each group's values, and minutes; that of chdb is of a sample.
    yield grouped(
        "median of 1,000 groups", key, ("v", "median"), v.median(), "median(v)", OTHERS, leave=["datafusion", "chdb"]
    )
    text = pl.col("text100000")
    yield grouped("smallest text of 1,000 groups", key, ("text100000", "min"), text.min(), "min(text100000)", OTHERS)
    # The others' first value is that of any thread.
    others = ["duckdb", "datafusion", "chdb"]
    yield grouped("first value of 1,000 groups", key, ("v", "first"), v.first(), "first(v)", OTHERS, leave=others)

    condition = aw.col("v") > 90
    ways = {
        OURS: lambda: ds.filter(condition).aggregate(by=key, x=("v", "mean")),
        f"{OURS}, where=": lambda: ds.aggregate(by=key, where=condition, x=("v", "mean")),
        "polars": frame.lazy().filter(v > 90).group_by(key).agg(v.mean()).collect,
        **ask("select near1000, avg(v) from t where v > 90 group by 1"),
    }
    yield Question("ds.filter(v > 90).aggregate(…) by 1,000 keys", ways, CONDITIONS, same)
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
    for title, (ours, theirs, arrows) in conditions.items():
        names = ["near1000" if title == "v > 90" else "text1000", "v"]
        own = ds[names], frame.select(names), whole.select(names)
        ways = {
            OURS: lambda own=own, ours=ours: own[0].filter(ours)["v"].to_numpy(),
            "polars": lambda own=own, theirs=theirs: own[1].filter(theirs)["v"].to_numpy(),
            "pyarrow": lambda own=own, arrows=arrows: own[2].filter(arrows)["v"].to_numpy(),
        }
        yield Question(f"rows of which {title}", ways, CONDITIONS)
