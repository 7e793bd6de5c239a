"""Tests tables whose schema changes, against the casts of pyarrow."""

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


def with_nulls(numbered_values, every):
    """Returns the values of pairs of number and value, with null instead for one of `every` numbers."""
    return [None if number % every == 1 else value for number, value in numbered_values]


def make_old_rows(start, stop):
    """Returns the rows of numbers `start` to `stop`, with the schema OLD."""
    numbers = range(start, stop)
    columns = [
        list(numbers),
        with_nulls([(n, n % 256 - 128) for n in numbers], every=3),
        with_nulls([(n, n * 977 % 65_536) for n in numbers], every=4),
        with_nulls([(n, n / 7) for n in numbers], every=5),
        with_nulls([(n, f"s{n % 9}") for n in numbers], every=7),
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, OLD)], schema=OLD)


def make_new_rows(start, stop):
    """Returns the rows of numbers `start` to `stop`, with the columns of the schema NEW."""
    numbers = range(start, stop)
    new_columns = {
        "d": pa.array([f"v{n % 3}" for n in numbers]).dictionary_encode(),
        "l": pa.array([[n, None] for n in numbers], pa.list_(pa.int64())),
        "t": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * len(numbers), pa.timestamp("us", "UTC")),
    }
    table = make_old_rows(start, stop)
    for name, values in new_columns.items():
        table = table.append_column(name, values)
    return cast_to_new(table)


def cast_to_new(table):
    """Casts rows to the schema NEW with pyarrow; text keeps the type that it had first."""
    columns = []
    for field in NEW:
        type = pa.string() if field.name == "s" else field.type
        if field.name in table.column_names:
            columns.append(table[field.name].cast(type))
        else:
            columns.append(pa.nulls(len(table), type))
    return pa.table(columns, names=NEW.names)


def sum_by_group(table):
    """Returns the sum of `a` for each value of `d`, as pyarrow calculates it."""
    with_text = table.set_column(table.schema.get_field_index("d"), "d", table["d"].cast(pa.string()))
    # The sum of a group without values is 0.
    options = pc.ScalarAggregateOptions(min_count=0)
    groups = with_text.group_by("d").aggregate([("a", "sum", options)])
    return {row["d"]: row["a_sum"] for row in groups.to_pylist()}


def assert_equals_table(ds, expected):
    """Checks the rows of a dataset and what it calculates from them against a pyarrow table."""
    assert ds.to_arrow().to_pylist() == expected.to_pylist()
    assert ds.to_arrow().schema.field("s").type == pa.string()
    assert ds[7] == expected.slice(7, 1).to_pylist()[0]
    row_numbers = [250, 3, 199, 200]
    assert ds[row_numbers].to_arrow().to_pylist() == expected.take(row_numbers).to_pylist()
    assert ds["b"].sum() == pc.sum(expected["b"]).as_py()
    assert ds["c"].mean() == pytest.approx(pc.mean(expected["c"]).as_py())
    filtered = ds.filter((aw.col("b") > 60_000) & aw.col("a").is_not_null())
    assert len(filtered) == len(expected.filter((pc.field("b") > 60_000) & pc.field("a").is_valid()))
    groups = ds.aggregate(by="d", a="sum").to_arrow()
    assert {row["d"]: row["a"] for row in groups.to_pylist()} == sum_by_group(expected)
    assert ds.sort("b").to_arrow()["b"].to_pylist()[:5] == expected.sort_by("b")["b"].to_pylist()[:5]
    sizes = [len(split.open()) for split in ds.splits(3)]
    assert sizes and sum(sizes) == len(expected)


def test_old_rows_are_cast_as_pyarrow_casts_them(path):
    with aw.writer(path, OLD, segment_rows=64) as writer:
        writer.append(make_old_rows(0, 200))
    opened_before = aw.open(path)
    with aw.writer(path, NEW, segment_rows=64) as writer:
        writer.append(make_new_rows(200, 300))
    expected = pa.concat_tables([cast_to_new(make_old_rows(0, 200)), make_new_rows(200, 300)])
    assert opened_before.to_arrow().schema.equals(OLD)
    assert opened_before.to_arrow().to_pylist() == make_old_rows(0, 200).to_pylist()
    # Check the table before and after it is compacted.
    for _ in range(2):
        for ds in (aw.open(path), opened_before.refresh()):
            assert_equals_table(ds, expected)
        assert aw.check(path).is_good
        aw.compact(path)


def test_polars_pandas_and_duckdb_read_rows_of_both_schemas(path):
    pytest.importorskip("polars")
    aw.writer(path, OLD).close()
    with aw.writer(path) as writer:
        writer.append(make_old_rows(0, 20))
    with aw.writer(path, NEW) as writer:
        writer.append(make_new_rows(20, 30))
    expected = pa.concat_tables([cast_to_new(make_old_rows(0, 20)), make_new_rows(20, 30)])
    ds = aw.open(path)
    assert ds.to_polars()["b"].to_list() == expected["b"].to_pylist()
    assert ds.to_pandas()["n"].tolist() == expected["n"].to_pylist()
    assert aw.scan(ds).select("t").collect()["t"].null_count() == 20
    pytest.importorskip("duckdb")
    (row,) = ds.sql("SELECT count(d) AS d, sum(b) AS b FROM self WHERE n >= 10").to_arrow().to_pylist()
    assert row["d"] == 10 and int(row["b"]) == pc.sum(expected["b"].slice(10)).as_py()


def test_other_readers_need_the_schema_or_a_rewritten_table(path):
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

    # pyarrow takes the schema of the first file unless it is given one.
    with_first_schema = pads.dataset(path, format="ipc")
    assert with_first_schema.schema.names == ["n", "s"]
    assert with_first_schema.to_table(columns=["s"])["s"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        with_first_schema.to_table()
    with_table_schema = pads.dataset(path, schema=aw.open(path).to_arrow().schema, format="ipc")
    assert with_table_schema.to_table().to_pylist() == expected

    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT * FROM with_table_schema").fetchall() == [tuple(row.values()) for row in expected]
    with pytest.raises(duckdb.InvalidInputException, match="not in range"):
        duckdb.sql("SELECT * FROM with_first_schema").fetchall()

    pl = pytest.importorskip("polars")
    files = sorted(path.glob("*.arrow"))
    with pytest.raises(pl.exceptions.SchemaError):
        pl.scan_ipc(path / "*.arrow").collect()
    concatenated = pl.concat([pl.scan_ipc(file) for file in files], how="diagonal_relaxed")
    assert concatenated.collect().to_dicts() == expected

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
    dataset = pads.dataset(path, schema=aw.open(path).to_arrow().schema, format="ipc")
    context = datafusion.SessionContext()
    with pytest.raises(ValueError, match="Schema error"):
        context.sql(f"CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '{path}/'")
    context.register_dataset("dataset", dataset)
    assert len(context.sql("SELECT * FROM dataset WHERE vol IS NULL").to_pydict()["n"]) == 2


def test_alter_returns_whether_the_schema_changed(path):
    with aw.writer(path, "n: int32 not null, s: category") as writer:
        writer.append_row(n=1, s="x")
        with pytest.raises(aw.Busy, match="written by process"):
            aw.alter(path, add="vol: int64")
    assert aw.alter(path, add={"vol": "int64"}, widen={"n": "int64"}, nullable=["n"])
    assert not aw.alter(path, add=pa.schema([("vol", pa.int64())]), widen="n: int64", nullable=["n"])
    assert not aw.alter(path)
    assert aw.open(path).schema.names == ["n", "s", "vol"] and aw.open(path).dtypes[0] == "int64"
    assert aw.open(path)[0] == {"n": 1, "s": "x", "vol": None}
    for options, error, message in (
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
            aw.alter(path, **options)
    with pytest.raises(aw.NotFound):
        aw.alter(path.parent / "none", add="n: int64")


def test_alter_changes_all_partitions(path):
    for host in ("a1", "b7"):
        with aw.writer(path, "n: int32", partition={"host": host}) as writer:
            writer.append({"n": [1]})
            if host == "b7":
                with pytest.raises(aw.Busy, match="1 of 2 partitions.*host=b7"):
                    aw.alter(path, add="vol: float64")
    assert aw.alter(path, add="vol: float64") and not aw.alter(path, add="vol: float64")
    assert [aw.open(path / f"host={host}").columns for host in ("a1", "b7")] == [["n", "vol"]] * 2
    assert aw.open(path)[1] == {"n": 1, "vol": None, "host": "b7"}


def test_rows_appended_without_a_new_column_are_null_in_it(path):
    aw.writer(path, "n: int64").close()
    with aw.writer(path, "n: int64, vol: float64") as writer:
        writer.append({"n": [1]})
        writer.append_row(n=2)
        writer.append_row(n=3, vol=0.5)
    assert aw.open(path)["vol"].to_pylist() == [None, None, 0.5]


def test_a_follower_gets_rows_with_the_new_schema(path):
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
