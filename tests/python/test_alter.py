"""Tests tables whose schema changes, against pyarrow's casts."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import arrowwood as aw

OLD = pa.schema(
    [
        pa.field("n", pa.int64(), False),
        ("a", pa.int8()),
        ("b", pa.uint16()),
        ("c", pa.float32()),
        ("s", pa.string()),
    ]
)
NEW = pa.schema(
    [
        pa.field("n", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.int64()),
        ("c", pa.float64()),
        ("s", pa.large_string()),
        ("d", pa.dictionary(pa.int32(), pa.string())),
        ("l", pa.list_(pa.int64())),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ticks"


def old_rows(start, stop):
    def some(every, values):
        return [None if n % every == 1 else value for n, value in zip(range(start, stop), values)]

    columns = [
        list(range(start, stop)),
        some(3, [n % 256 - 128 for n in range(start, stop)]),
        some(4, [n * 977 % 65_536 for n in range(start, stop)]),
        some(5, [n / 7 for n in range(start, stop)]),
        some(7, [f"s{n % 9}" for n in range(start, stop)]),
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, OLD)], schema=OLD)


def new_rows(start, stop):
    table = old_rows(start, stop)
    more = {
        "d": pa.array([f"v{n % 3}" for n in range(start, stop)]).dictionary_encode(),
        "l": pa.array([[n, None] for n in range(start, stop)], pa.list_(pa.int64())),
        "t": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * (stop - start), pa.timestamp("us", "UTC")),
    }
    for name, values in more.items():
        table = table.append_column(name, values)
    return as_new(table)


def as_new(table):
    """The rows as pyarrow casts them, with text of the type that the table keeps."""
    columns = []
    for field in NEW:
        kind = pa.string() if field.name == "s" else field.type
        if field.name in table.column_names:
            columns.append(table[field.name].cast(kind))
        else:
            columns.append(pa.nulls(len(table), kind))
    return pa.table(columns, names=NEW.names)


def plain(table):
    return table.to_pylist()


def test_old_rows_are_what_pyarrow_casts_them_to(path):
    with aw.writer(path, OLD, segment_rows=64) as writer:
        writer.append(old_rows(0, 200))
    held = aw.open(path)
    with aw.writer(path, NEW, segment_rows=64) as writer:
        writer.append(new_rows(200, 300))
    expected = pa.concat_tables([as_new(old_rows(0, 200)), new_rows(200, 300)])
    assert held.to_arrow().schema.equals(OLD) and plain(held.to_arrow()) == plain(old_rows(0, 200))
    for _ in range(2):
        for ds in (aw.open(path), held.refresh()):
            assert plain(ds.to_arrow()) == plain(expected)
            assert ds.to_arrow().schema.field("s").type == pa.string()
            assert ds[7] == {**expected.slice(7, 1).to_pylist()[0]}
            assert ds[[250, 3, 199, 200]].to_arrow().to_pylist() == expected.take([250, 3, 199, 200]).to_pylist()
            assert ds["b"].sum() == pc.sum(expected["b"]).as_py()
            assert ds["c"].mean() == pytest.approx(pc.mean(expected["c"]).as_py())
            assert len(ds.filter((aw.col("b") > 60_000) & aw.col("a").is_not_null())) == len(
                expected.filter((pc.field("b") > 60_000) & pc.field("a").is_valid())
            )
            groups = ds.aggregate(by="d", a="sum").to_arrow()
            ours = {row["d"]: row["a"] for row in groups.to_pylist()}
            by_text = expected.set_column(5, "d", expected["d"].cast(pa.string())).group_by("d")
            theirs = by_text.aggregate([("a", "sum", pc.ScalarAggregateOptions(min_count=0))])  # of nulls alone: 0
            assert ours == {row["d"]: row["a_sum"] for row in theirs.to_pylist()}
            assert ds.sort("b").to_arrow()["b"].to_pylist()[:5] == expected.sort_by("b")["b"].to_pylist()[:5]
            assert [len(split.open()) for split in ds.splits(3)] and sum(len(s.open()) for s in ds.splits(3)) == 300
        assert aw.check(path).is_good
        aw.compact(path)


def test_engines_take_both(path):
    pytest.importorskip("polars")
    aw.writer(path, OLD).close()
    with aw.writer(path) as writer:
        writer.append(old_rows(0, 20))
    with aw.writer(path, NEW) as writer:
        writer.append(new_rows(20, 30))
    expected = pa.concat_tables([as_new(old_rows(0, 20)), new_rows(20, 30)])
    ds = aw.open(path)
    assert ds.to_polars()["b"].to_list() == expected["b"].to_pylist()
    assert ds.to_pandas()["n"].tolist() == expected["n"].to_pylist()
    assert aw.scan(ds).select("t").collect()["t"].null_count() == 20
    pytest.importorskip("duckdb")
    found = ds.sql("SELECT count(d) AS d, sum(b) AS b FROM self WHERE n >= 10").to_arrow().to_pylist()
    assert found[0]["d"] == 10 and int(found[0]["b"]) == pc.sum(expected["b"].slice(10)).as_py()


def test_what_other_readers_make_of_two_schemas(path):
    """Tests the example of docs/engines.md."""
    with aw.writer(path, "n: int32, s: text") as writer:
        writer.append({"n": [1, 2], "s": ["a", "b"]})
    with aw.writer(path, "n: int64, s: text, vol: float64") as writer:
        writer.append({"n": [1 << 40], "s": ["c"], "vol": [0.5]})
    expected = [
        {"n": 1, "s": "a", "vol": None},
        {"n": 2, "s": "b", "vol": None},
        {"n": 1 << 40, "s": "c", "vol": 0.5},
    ]
    assert aw.open(path).to_arrow().to_pylist() == expected
    first = pads.dataset(path, format="ipc")
    assert first.schema.names == ["n", "s"]
    assert first.to_table(columns=["s"])["s"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        first.to_table()
    whole = pads.dataset(path, schema=aw.open(path).to_arrow().schema, format="ipc")
    assert whole.to_table().to_pylist() == expected
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT * FROM whole").fetchall() == [tuple(row.values()) for row in expected]
    with pytest.raises(duckdb.InvalidInputException, match="not in range"):
        duckdb.sql("SELECT * FROM first").fetchall()
    pl = pytest.importorskip("polars")
    files = sorted(path.glob("*.arrow"))
    with pytest.raises(pl.exceptions.SchemaError):
        pl.scan_ipc(path / "*.arrow").collect()
    joined = pl.concat([pl.scan_ipc(file) for file in files], how="diagonal_relaxed")
    assert joined.collect().to_dicts() == expected
    aw.compact(path, rewrite=True)
    assert pl.scan_ipc(path / "*.arrow").collect().to_dicts() == expected
    assert pads.dataset(path, format="ipc").to_table().to_pylist() == expected


def test_datafusion_refuses_two_schemas(path):
    datafusion = pytest.importorskip("datafusion")
    aw.writer(path, "n: int32").close()
    with aw.writer(path) as writer:
        writer.append({"n": [1, 2]})
    with aw.writer(path, "n: int64, vol: float64") as writer:
        writer.append({"n": [1 << 40], "vol": [0.5]})
    whole = pads.dataset(path, schema=aw.open(path).to_arrow().schema, format="ipc")
    ctx = datafusion.SessionContext()
    with pytest.raises(Exception, match="Schema error"):
        ctx.sql(f"CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '{path}/'")
    ctx.register_dataset("whole", whole)
    assert len(ctx.sql("SELECT * FROM whole WHERE vol IS NULL").to_pydict()["n"]) == 2


def test_alter_says_whether_it_changed_anything(path):
    with aw.writer(path, "n: int32 not null, s: category") as writer:
        writer.append_row(n=1, s="x")
        with pytest.raises(aw.Busy, match="written by process"):
            aw.alter(path, add="vol: int64")
    assert aw.alter(path, add={"vol": "int64"}, widen={"n": "int64"}, nullable=["n"])
    assert not aw.alter(path, add=pa.schema([("vol", pa.int64())]), widen="n: int64", nullable=["n"])
    assert not aw.alter(path)
    assert aw.open(path).schema.names == ["n", "s", "vol"] and aw.open(path).dtypes[0] == "int64"
    assert aw.open(path)[0] == {"n": 1, "s": "x", "vol": None}
    for wrong, error, message in (
        ({"widen": {"n": "int32"}}, aw.SchemaMismatch, "'n' is int64 and int32"),
        ({"widen": {"m": "int32"}}, aw.ColumnNotFound, "no column 'm'; there are 'n', 's', 'vol'"),
        ({"nullable": ["m"]}, aw.ColumnNotFound, "no column 'm'"),
        ({"add": {"n": "text"}}, aw.SchemaMismatch, "already, of int64"),
        ({"add": "m: int64 not null"}, aw.SchemaMismatch, "'m' is new and not null"),
        ({"add": "m: run_end_encoded<int32, int8>"}, aw.Unsupported, "'m'"),
        ({"add": "m: flaot"}, aw.InvalidArgument, "flaot"),
        ({"add": 7}, TypeError, "expected text such as"),
    ):
        with pytest.raises(error, match=message):
            aw.alter(path, **wrong)
    with pytest.raises(aw.NotFound):
        aw.alter(path.parent / "none", add="n: int64")


def test_all_partitions_are_altered(path):
    for host in ("a1", "b7"):
        with aw.writer(path, "n: int32", partition={"host": host}) as writer:
            writer.append({"n": [1]})
            if host == "b7":
                with pytest.raises(aw.Busy, match="1 of 2 partitions.*host=b7"):
                    aw.alter(path, add="vol: float64")
    assert aw.alter(path, add="vol: float64") and not aw.alter(path, add="vol: float64")
    assert [aw.open(path / f"host={host}").columns for host in ("a1", "b7")] == [["n", "vol"]] * 2
    assert aw.open(path)[1] == {"n": 1, "vol": None, "host": "b7"}


def test_rows_without_the_new_columns_are_null_there(path):
    aw.writer(path, "n: int64").close()
    with aw.writer(path, "n: int64, vol: float64") as writer:
        writer.append({"n": [1]})
        writer.append_row(n=2)
        writer.append_row(n=3, vol=0.5)
    assert aw.open(path)["vol"].to_pylist() == [None, None, 0.5]


def test_a_follower_has_the_schema_that_the_table_has(path):
    writer = aw.writer(path, "n: int32")
    writer.append({"n": [1]})
    writer.commit()
    rows = aw.follow(path, start=0, timeout=0.05)
    assert next(rows).to_arrow().to_pylist() == [{"n": 1}]
    writer.close()
    aw.alter(path, add="vol: float64", widen="n: int64")
    with aw.writer(path) as writer:
        writer.append({"n": [1 << 40], "vol": [0.5]})
    assert [batch.to_arrow().to_pylist() for batch in rows] == [[{"n": 1 << 40, "vol": 0.5}]]


def test_rows_of_a_refreshed_dataset_have_its_new_columns(tmp_path):
    path = str(tmp_path / "table")
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": [0]})
    old = aw.open(path)
    assert old[0] == {"n": 0}
    aw.alter(path, add="x: int64")
    with aw.writer(path) as writer:
        writer.append({"n": [1], "x": [7]})
    new = old.refresh()
    assert new[1] == {"n": 1, "x": 7}
    assert new.to_pylist() == [{"n": 0, "x": None}, {"n": 1, "x": 7}]
    assert list(new[1:]) == [{"n": 1, "x": 7}]
    assert old[0] == {"n": 0}
