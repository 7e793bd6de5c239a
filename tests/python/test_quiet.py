"""Nothing goes wrong without a word: comparisons, membership, truth, followers that wait for rows that never come."""

import asyncio
import datetime as dt
import os
import pathlib
import re
import subprocess
import sys
import threading
import tomllib

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import asleep, join, wait_until

ROWS = {"price": [1.0, 2.0, None], "name": ["a", "b", None], "flag": [True, None, False]}


@pytest.fixture
def ds(tmp_path):
    aw.write(ROWS, tmp_path / "rows.arrow")
    return aw.open(tmp_path / "rows.arrow")


# ---- a dataset beside others ----


def test_in_asks_for_the_name_of_a_column(ds):
    for frame in (ds, ds.to_pandas(), ds.to_polars(), ds.schema):
        assert "price" in frame and "cost" not in frame
    assert "\ud800" not in ds and "\ud800" not in ds.schema and ds.schema["price"] not in ds.schema
    for value in (7, ds[0], None, ds["price"]):
        with pytest.raises(TypeError, match=re.escape('ds[ds["x"] == 7]')):
            value in ds
    assert 2.0 in ds["price"] and 3.0 not in ds["price"]


def test_equal_datasets_are_asked_for_by_an_engine(ds):
    same = aw.open(ds.path)
    for compare in (
        lambda: ds == same,
        lambda: ds != same,
        lambda: ds == 7,
        lambda: ds < same,
        lambda: [same].index(ds),
    ):
        with pytest.raises(TypeError, match=re.escape("ds.to_arrow().equals(other.to_arrow())")):
            compare()
    assert ds.to_arrow().equals(same.to_arrow()) and ds in [ds] and {ds: 1}[ds] == 1 and ds not in {same}


def test_schemas_are_those_of_any_library(ds):
    theirs = ds.to_arrow().schema
    assert ds.schema == theirs and theirs == ds.schema and not ds.schema != theirs
    assert ds.schema["price"] == theirs.field("price") and ds.schema["price"] != theirs.field("name")
    assert ds.schema != theirs.set(0, pa.field("price", pa.float32())) and ds.schema != "price: float64"


@pytest.mark.parametrize("truth", [bool, lambda x: not x, lambda x: x and True, lambda x: [row for row in [1] if x]])
def test_columns_have_no_truth(ds, truth):
    for column in (ds["flag"], aw.col("flag"), ds["price"] > 1):
        with pytest.raises(TypeError, match=r"&, \| and ~"):
            truth(column)
    assert bool(ds) and not ds[:0]


def test_names_of_columns_are_compared_before_they_are_put_together():
    flag = aw.col("flag")
    for call in (lambda: flag & (aw.col("n") > 1), lambda: 1 & flag, lambda: flag | flag, lambda: ~flag):
        with pytest.raises(TypeError, match=re.escape('(aw.col("a") > 1) & (aw.col("b") == 2)')):
            call()


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ("price > 1", "select * from self where x > 1"),
        (pl.col("price") > 1, 'aw.scan(ds).filter(pl.col("x") > 1)'),
        (lambda row: row["price"] > 1, "for row in ds.rows()"),
        ([True, False, True], "ds[mask]"),
        (np.array([True, False, True]), "ds[mask]"),
        (aw.col("flag"), 'aw.col("flag") == True'),
        (7, 'ds.filter(aw.col("x") > 1)'),
    ],
    ids=str,
)
def test_what_is_no_condition_shows_the_line_to_write(ds, condition, line):
    with pytest.raises(TypeError, match=re.escape(line)):
        ds.filter(condition)
    with pytest.raises(TypeError, match="where: expected a condition"):
        ds.aggregate(n="count", where=condition)


def test_brackets_take_no_condition_of_another_library(ds):
    with pytest.raises(TypeError, match=re.escape("ds.filter(aw.col")):
        ds[pl.col("price") > 1]
    with pytest.raises(TypeError, match="rows are picked by number or slice, got float 1.5"):
        ds[1.5]
    with pytest.raises(TypeError, match="columns are picked by number"):
        ds.column(1.5)


def test_mappings_are_compared_as_arrays_and_store_what_fits(tmp_path):
    np.arange(4, dtype="uint8").tofile(tmp_path / "bytes")
    one, other = aw.map(tmp_path / "bytes"), aw.map(tmp_path / "bytes")
    for compare in (
        lambda: one == other,
        lambda: one != one.tobytes(),
        lambda: one[1:] == one[1:],
        lambda: one < other,
    ):
        with pytest.raises(TypeError, match="np.array_equal"):
            compare()
    assert np.array_equal(one, other) and {one: 1}[one] == 1 and one in [one]
    flags = aw.map(tmp_path / "bytes", "c", "bool")
    for wrong in ("x", None, 2, 0.5, [True]):
        with pytest.raises(TypeError, match="expected a bool, 0 or 1"):
            flags[0] = wrong
    flags[0:3] = [True, np.False_, 1]
    assert flags[0:3].tolist() == [True, False, True]
    for dtype, large in (("float32", 1e300), ("float16", 65_520), ("float32", -1e39)):
        floats = aw.map(tmp_path / "bytes", "c", dtype)
        for store in (lambda: floats.__setitem__(0, large), lambda: floats.__setitem__(slice(0, 1), [large])):
            with pytest.raises(aw.InvalidArgument, match=f"does not fit into {dtype}"):
                store()
        floats[0] = float("inf")
        assert floats[0] == float("inf")
    with pytest.raises(TypeError, match="elements are picked by number or slice, got str 'x'"):
        one["x"]


# ---- arguments ----


def test_wrong_types_are_type_errors_and_wrong_values_are_ours(tmp_path, ds):
    with aw.writer(tmp_path / "t", "n: int64", wait=float("inf")) as writer:
        for call, says in (
            (lambda: aw.follow(tmp_path / "t", start="1"), "follow: start: expected the number of a row, got str '1'"),
            (
                lambda: aw.follow(tmp_path / "t", start=True),
                "follow: start: expected the number of a row, got bool True",
            ),
            (lambda: aw.follow(tmp_path / "t", start=[0]), "follow: start: expected the number of a row, got list"),
            (lambda: aw.follow([tmp_path / "t"], start=0), "a list of one row's number for each table"),
            (
                lambda: aw.follow(tmp_path / "t", timeout="1"),
                "follow: timeout: expected a number of seconds, got str '1'",
            ),
            (lambda: aw.writer(tmp_path / "t", wait="1"), "writer: wait: expected a number of seconds, got str '1'"),
            (lambda: writer.commit(positions="x"), "expected positions to be a dict of numbers by name, got str 'x'"),
            (lambda: writer.commit(positions={"x": "1"}), "expected positions to be a dict of integers, got str '1'"),
            (lambda: writer.commit(positions={1: 1}), "dict of numbers by name, got int 1"),
            (lambda: writer.commit(positions={"x": True}), "dict of integers, got bool True"),
            (lambda: writer.wait_durable("x"), "wait_durable: expected the number of a row, got str 'x'"),
            (lambda: writer.drop_before(True), "drop_before: expected a row's number or a time, got bool True"),
            (lambda: aw.col(3), "col: expected the name of a column, got int 3"),
            (lambda: ds.rename(["price"]), "rename: expected a dict of new names by the old ones, got list"),
            (lambda: ds.aggregate(by=3), "the name of a column, or a list of names, got int 3"),
            (lambda: ds.sample(1, seed="x"), "seed: expected an integer, got str 'x'"),
            (
                lambda: aw.writer(tmp_path / "u", "s: text", dictionary="s"),
                "writer: dictionary: expected a list of names, got str 's'",
            ),
            (lambda: ds.sort("price", descending="yes"), "a bool or a list of them, got str 'yes'"),
        ):
            with pytest.raises(TypeError, match=re.escape(says)) as problem:
                call()
            assert not isinstance(problem.value, aw.Error)
        for call, says in (
            (lambda: aw.follow(tmp_path / "t", start=-1), "not negative and within 64 bits, got -1"),
            (lambda: aw.follow(tmp_path / "t", start=2**70), "not negative and within 64 bits"),
            (lambda: aw.follow(tmp_path / "t", timeout=-1), "a number of seconds that is not negative, got -1"),
            (lambda: aw.follow(tmp_path / "t", timeout=float("nan")), "that is not negative, got nan"),
            (lambda: ds.shuffle(seed=-1), "seed: expected an integer, not negative and within 64 bits, got -1"),
            (lambda: aw.writer(tmp_path / "u", "n: int64", segment_rows=0), "segment_rows must be at least 1, got 0"),
            (lambda: aw.write(ds, aw.Buffer(), max_rows=0), "max_rows must be at least 1, got 0"),
            (lambda: writer.commit(positions={"x": 2**63}), "the position 'x' must fit into 64 bits"),
        ):
            with pytest.raises(aw.InvalidArgument, match=re.escape(says)):
                call()
        writer.commit(positions={"x": np.int64(7)})
        assert writer.positions == {"x": 7}


def test_text_that_is_no_unicode_names_its_column(tmp_path, ds):
    """Decoding bytes with surrogateescape gives such text."""
    text = b"caf\xe9".decode(errors="surrogateescape")
    says = r"column 's', row 0: expected text, got str 'caf\udce9', which has lone surrogates"
    with aw.writer(tmp_path / "t", "n: int64, s: utf8, c: category") as writer:
        for call in (
            lambda: writer.append_row(n=1, s=text),
            lambda: writer.append({"n": [1], "s": [text]}),
            lambda: writer.append([{"n": 1, "s": text}]),
            lambda: aw.write({"s": [text]}, aw.Buffer()),
            lambda: aw.write({"s": np.array([text])}, aw.Buffer()),
            lambda: aw.write({"s": [[text]]}, aw.Buffer()),
        ):
            with pytest.raises(aw.InvalidArgument, match=re.escape(says)):
                call()
        with pytest.raises(aw.InvalidArgument, match="column 'c'"):
            writer.append_row(c=text)
        assert writer.rows == 0
    with pytest.raises(aw.InvalidArgument, match="column 'name', row 0: expected text"):
        ds[ds["name"] == text]
    for look in (lambda: ds[text], lambda: ds.column(text)):
        with pytest.raises(aw.ColumnNotFound):
            look()


def test_busy_says_how_to_wait(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64"):
        with pytest.raises(aw.Busy, match=re.escape("aw.writer(…, wait=10) waits up to ten seconds for it")):
            aw.writer(tmp_path / "t")
        with pytest.raises(aw.Busy, match="waited 0.01 seconds for it"):
            aw.writer(tmp_path / "t", wait=0.01)


def test_extras_that_messages_name_are_there():
    root = pathlib.Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = [
        *(root / "python").rglob("*.py"),
        *(root / "python").rglob("*.rs"),
        *(root / "docs").rglob("*.md"),
        root / "README.md",
    ]
    named = set()
    for source in sources:
        named |= set(re.findall(r"(?:arrowwood|\.)\[(\w+)\]'", source.read_text()))
        named |= set(re.findall(r'engine\("[\w.]+", "\w+\(\)", "(\w+)"\)', source.read_text()))
    assert {"sql", "polars", "dask"} <= named <= set(extras)


def test_nulls_become_no_numbers():
    """NumPy converts NaN to the smallest integer, and to True."""
    times = [dt.datetime(2026, 1, 1), None]
    ds = aw.from_arrow(pa.table({"n": [2**53 + 1, None], "flag": [True, None], "ts": times}))
    for name, dtype in (
        ("n", "int64"),
        ("n", "uint8"),
        ("n", "bool"),
        ("flag", "bool"),
        ("flag", "int8"),
        ("ts", "int64"),
    ):
        with pytest.raises(aw.InvalidArgument, match=re.escape(f"column '{name}' has nulls, and {dtype} has none")):
            np.asarray(ds[name], dtype=dtype)
        assert len(np.asarray(ds[name].drop_nulls(), dtype=dtype)) == 1
    assert np.isnan(np.asarray(ds["n"], dtype="float32")[1])
    assert np.asarray(ds["n"].drop_nulls(), dtype="int64")[0] == 2**53 + 1


def test_row_numbers_are_integers(ds):
    for wrong in ([1.5], [None, 1], [[0, 1]], ["x", 1][::-1]):
        with pytest.raises(TypeError, match="expected row numbers, got"):
            ds[wrong]
    with pytest.raises(TypeError, match="is_in of column 'price' expects several values, got int 5"):
        ds["price"].is_in(5)


# ---- columns of nothing, and of times ----


def test_columns_of_nulls_are_columns():
    """JSON and pandas give such columns if all values are unknown."""
    table = pa.table({"x": pa.nulls(4), "y": [2, 1, 2, 1]})
    ds, frame = aw.from_arrow(table), pl.from_arrow(table)
    assert ds["x"].n_unique() == frame["x"].n_unique() == 1 and ds["x"].unique().to_pylist() == [None]
    assert (
        ds["x"].min() is frame["x"].min() is None and ds["x"].count() == 0 and ds["x"].sort().to_pylist() == [None] * 4
    )
    assert ds["x"].value_counts().to_pylist() == [{"x": None, "count": 4}]
    assert ds.sort("x", "y")["y"].to_pylist() == frame.sort("x", "y")["y"].to_list()
    assert ds.unique().to_pylist() == frame.unique(maintain_order=True).to_dicts()
    assert ds.aggregate("x", y="sum").to_pylist() == [{"x": None, "y": 6}]
    assert ds.aggregate(["y", "x"], n="count").to_pylist() == [{"y": 2, "x": None, "n": 2}, {"y": 1, "x": None, "n": 2}]
    assert ds.aggregate("y", x="n_unique")["x"].to_pylist() == [1, 1]
    assert ds.drop_nulls().to_pylist() == []
    for call in (ds["x"].sum, ds["x"].mean, ds["x"].median, lambda: ds.aggregate("y", x="sum")):
        with pytest.raises(aw.Unsupported, match="column 'x' of type null is not supported"):
            call()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_described_with_their_quartiles(unit, zone):
    numbers = [10, 20, None, 31, 50, 40]
    column = pa.array(numbers, pa.timestamp(unit, zone))
    described = {row["statistic"]: row for row in aw.from_arrow(pa.table({"ts": column, "n": numbers})).describe()}
    shown = aw.from_arrow(pa.table({"ts": pa.array([20, 31, 40], pa.timestamp(unit, zone))}))
    for number, share in enumerate(("25%", "50%", "75%")):
        assert described[share]["n"] == [20, 31, 40][number]
        assert described[share]["ts"] == shown[number : number + 1].describe().to_pylist()[4]["ts"]


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.duration("ms")], ids=str
)
def test_dates_and_lengths_of_time_have_quartiles(kind):
    values = pa.array([86_400_000 * n if kind == pa.date64() else n for n in (1, 2, 3, 4, 5)], pa.int64())
    column = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    rows = aw.from_arrow(pa.table({"x": column})).describe().to_pylist()
    one = [aw.from_arrow(pa.table({"x": column[n : n + 1]})).describe().to_pylist()[4]["x"] for n in range(5)]
    assert [row["x"] for row in rows[4:]] == one


# ---- engines ----


KEYS = [pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())]


@pytest.mark.parametrize("left", KEYS, ids=str)
@pytest.mark.parametrize("right", KEYS, ids=str)
def test_the_join_of_the_hint_takes_text_and_categories(left, right):
    names = {
        "ds": aw.from_arrow(pa.table({"x": pa.array(["a", "b", "c"]).cast(left), "y": [1, 2, 3]})),
        "other": aw.from_arrow(pa.table({"x": pa.array(["c", "a"]).cast(right), "z": [30, 10]})),
        "aw": aw,
        "pl": pl,
    }
    with pytest.raises(AttributeError) as problem:
        names["ds"].join
    lines, _, remedy = str(problem.value).partition("; write ")[2].partition("; ")
    by_sql, by_polars = lines.split(", or ")
    if pa.types.is_dictionary(left) != pa.types.is_dictionary(right):
        with pytest.raises(pl.exceptions.SchemaError, match="str on|cat on"):
            eval(by_polars, names)
        # What the remedy says of aw.scan(…), of both.
        _, _, cast = remedy.partition("aw.scan(…)")
        by_polars = by_polars.replace("aw.scan(ds)", f"aw.scan(ds){cast}").replace(
            "aw.scan(other)", f"aw.scan(other){cast}"
        )
    expected = [{"x": "a", "y": 1, "z": 10}, {"x": "c", "y": 3, "z": 30}]
    assert sorted(eval(by_sql, names).to_pylist(), key=lambda row: row["x"]) == expected
    assert sorted(eval(by_polars, names).to_dicts(), key=lambda row: row["x"]) == expected


# ---- times without a zone ----

ZONES = ["UTC", "Europe/Berlin"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "2026-01-31 12:00:00.5", "2026-01-31"])
def test_text_without_an_offset_is_no_instant_anywhere(tmp_path, text, zone):
    schema = f"ts: timestamp[us, {zone}], n: int64"
    with aw.writer(tmp_path / "t", schema, sorted_by="ts") as writer:
        for call in (
            lambda: writer.append_row(ts=text, n=1),
            lambda: writer.append([{"ts": text, "n": 1}]),
            lambda: writer.append({"ts": [text], "n": [1]}),
            lambda: aw.read_csv(file(tmp_path, "x.csv", f"ts,n\n{text},1\n"), schema=schema),
            lambda: aw.read_json(file(tmp_path, "x.json", f'{{"ts": "{text}", "n": 1}}\n'), schema=schema),
            lambda: aw.open(tmp_path / "t").between(text, text),
        ):
            with pytest.raises((TypeError, aw.Error), match="the column has a time zone"):
                call()
        with pytest.raises(aw.InvalidArgument, match="compare it with a time instead of text"):
            aw.open(tmp_path / "t").filter(aw.col("ts") > text)
    for given in (f"ts,n\n{text},1\n", f'{{"ts": "{text}", "n": 1}}\n'):
        done = run_arrowwood("append", tmp_path / "t", given=given)
        assert done.returncode != 0 and "the column has a time zone: write the time's offset" in done.stderr, (
            done.stderr
        )
    done = run_arrowwood("append", tmp_path / "t", given=f'{{"ts": "{text[:10]}T12:00:00+01:00", "n": 1}}\n')
    assert done.returncode == 0 and aw.open(tmp_path / "t")[0]["ts"] == dt.datetime(2026, 1, 31, 11, tzinfo=dt.UTC)


def run_arrowwood(*arguments, given):
    command = [pathlib.Path(sys.executable).with_name("arrowwood"), *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True)


def file(folder, name, text):
    (folder / name).write_text(text)
    return folder / name


# ---- followers ----


def test_a_follower_does_not_wait_for_rows_far_ahead(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64", segment_rows=2) as writer:
        writer.append({"n": range(5)})
        writer.commit()
        says = "following from row 7: the table has 5 rows so far, and the next one is number 5"
        with pytest.raises(aw.RowOutOfRange, match=says):
            aw.follow(tmp_path / "t", start=7)
        with pytest.raises(aw.RowOutOfRange, match=says):
            aw.follow([tmp_path / "t", tmp_path / "t"], start=[0, 7])
        writer.drop_before(4)
        with pytest.raises(aw.RowOutOfRange, match="the table has 1 row so far, and the next one is number 5"):
            aw.follow(tmp_path / "t", start=6)
        with aw.follow(tmp_path / "t", start=5, timeout=0) as following:
            assert list(following) == []
            writer.append({"n": [5]})
            writer.commit()
            assert [rows["n"].to_pylist() for rows in following] == [[5]]


def test_rows_of_several_tables_say_which_they_are_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        with aw.writer(name, "n: int64") as writer:
            writer.append({"n": [ord(name)]})
    found = {rows.path.name: rows["n"][0] for rows in aw.follow(["a", "b"], start=[0, 0], timeout=0)}
    assert found == {"a": 97, "b": 98}
    assert aw.open("a").path == tmp_path / "a" and aw.open("a")[:1].path == tmp_path / "a"
    assert aw.open(["a", "b"]).path is None and aw.from_arrow(pa.table({"n": [1]})).path is None


def mapped(path):
    """How many mappings, descriptors and threads of the process are a follower's of the table at `path`."""
    maps = sum(str(path) in line for line in pathlib.Path("/proc/self/maps").read_text().splitlines())
    descriptors = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            descriptors += str(path) in os.readlink(f"/proc/self/fd/{each}")
        except FileNotFoundError:
            pass
    return maps, descriptors, sum("arrowwood-follow" in thread.name for thread in threading.enumerate())


def test_closing_a_follower_lets_go_of_files_and_threads(tmp_path):
    """At once, and not when it is collected."""
    path = tmp_path / "t"
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": range(5)})

    async def first(following):
        async for rows in following:
            return len(rows)

    async def nothing(following):
        async for _ in following:
            raise AssertionError

    before = mapped(path)
    with aw.follow(path, start=0, timeout=0.01) as following:
        assert asyncio.run(first(following)) == 5
        asyncio.run(nothing(following))
        assert sum(mapped(path)) > sum(before)
    # The thread ends after its last wait.
    wait_until(lambda: mapped(path) == before, "the follower has let go")
    assert following.next_row == 5
    assert list(following) == []
    with pytest.raises(aw.Closed):
        following.lag
    following.close()


def test_a_follower_that_waits_elsewhere_lets_go_when_it_is_closed(tmp_path):
    path = tmp_path / "t"
    aw.writer(path, "n: int64").close()
    before = mapped(path)
    following = aw.follow(path)
    found = []
    thread = asleep(lambda: found.extend(following))
    following.close()
    join(thread)
    assert found == [] and mapped(path) == before
