"""Tests that mistakes cause errors which say what to write, instead of silently wrong results."""

import asyncio
import datetime as dt
import os
import pathlib
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import asleep, join, wait_until

ROOT = pathlib.Path(__file__).parents[2]
COLUMNS = {"price": [1.0, 2.0, None], "name": ["a", "b", None], "flag": [True, None, False]}


@pytest.fixture
def ds(tmp_path):
    aw.write(COLUMNS, tmp_path / "rows.arrow")
    return aw.open(tmp_path / "rows.arrow")


@pytest.fixture
def table(tmp_path):
    """Returns the path of an empty table."""
    aw.writer(tmp_path / "t", "n: int64").close()
    return tmp_path / "t"


# ---- Operators of datasets, schemas and columns ----


def test_in_operator_looks_up_column_names(ds):
    for frame in (ds, ds.to_pandas(), ds.to_polars(), ds.schema):
        assert "price" in frame
        assert "cost" not in frame
    assert ds.schema["price"] not in ds.schema
    for value in (7, ds[0], None, ds["price"]):
        with pytest.raises(TypeError, match=re.escape('ds[ds["x"] == 7]')):
            value in ds


def test_in_operator_accepts_lone_surrogates(ds):
    assert "\ud800" not in ds
    assert "\ud800" not in ds.schema


def test_in_operator_looks_up_values_of_a_column(ds):
    assert 2.0 in ds["price"]
    assert 3.0 not in ds["price"]


def test_datasets_cannot_be_compared(ds):
    other = aw.open(ds.path)
    for compare in (
        lambda: ds == other,
        lambda: ds != other,
        lambda: ds == 7,
        lambda: ds < other,
        lambda: [other].index(ds),
    ):
        with pytest.raises(TypeError, match=re.escape("ds.to_arrow().equals(other.to_arrow())")):
            compare()
    assert ds.to_arrow().equals(other.to_arrow())


def test_datasets_have_an_identity(ds):
    assert ds in [ds]
    assert {ds: 1}[ds] == 1
    assert ds not in {aw.open(ds.path)}


def test_schemas_can_be_compared_with_pyarrow(ds):
    schema = ds.to_arrow().schema
    assert ds.schema == schema
    assert schema == ds.schema
    assert not ds.schema != schema
    assert ds.schema["price"] == schema.field("price")
    assert ds.schema["price"] != schema.field("name")
    assert ds.schema != schema.set(0, pa.field("price", pa.float32()))
    assert ds.schema != "price: float64"


@pytest.mark.parametrize(
    "use_as_condition", [bool, lambda x: not x, lambda x: x and True, lambda x: [row for row in [1] if x]]
)
def test_columns_have_no_truth_value(ds, use_as_condition):
    for column in (ds["flag"], aw.col("flag"), ds["price"] > 1):
        with pytest.raises(TypeError, match=r"&, \| and ~"):
            use_as_condition(column)


def test_datasets_are_true_if_they_have_rows(ds):
    assert bool(ds)
    assert not ds[:0]


def test_column_names_cannot_be_combined_without_a_comparison():
    flag = aw.col("flag")
    for combine in (lambda: flag & (aw.col("n") > 1), lambda: 1 & flag, lambda: flag | flag, lambda: ~flag):
        with pytest.raises(TypeError, match=re.escape('(aw.col("a") > 1) & (aw.col("b") == 2)')):
            combine()


@pytest.mark.parametrize(
    ("condition", "remedy"),
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
def test_invalid_conditions_are_refused(ds, condition, remedy):
    with pytest.raises(TypeError, match=re.escape(remedy)):
        ds.filter(condition)
    with pytest.raises(TypeError, match="where: expected a condition"):
        ds.aggregate(n="count", where=condition)


def test_invalid_indices_are_refused(ds):
    with pytest.raises(TypeError, match=re.escape("ds.filter(aw.col")):
        ds[pl.col("price") > 1]
    with pytest.raises(TypeError, match="rows are picked by number or slice, got float 1.5"):
        ds[1.5]
    with pytest.raises(TypeError, match="columns are picked by number"):
        ds.column(1.5)
    for row_numbers in ([1.5], [None, 1], [[0, 1]], [1, "x"]):
        with pytest.raises(TypeError, match="expected row numbers, got"):
            ds[row_numbers]


def test_is_in_refuses_a_single_value(ds):
    with pytest.raises(TypeError, match="is_in of column 'price' expects several values, got int 5"):
        ds["price"].is_in(5)


# ---- Mappings of binary files ----


@pytest.fixture
def binary_file(tmp_path):
    np.arange(4, dtype="uint8").tofile(tmp_path / "bytes")
    return tmp_path / "bytes"


def test_mappings_are_compared_by_numpy(binary_file):
    mapping = aw.map(binary_file)
    other = aw.map(binary_file)
    for compare in (
        lambda: mapping == other,
        lambda: mapping != mapping.tobytes(),
        lambda: mapping[1:] == mapping[1:],
        lambda: mapping < other,
    ):
        with pytest.raises(TypeError, match="np.array_equal"):
            compare()
    assert np.array_equal(mapping, other)
    assert {mapping: 1}[mapping] == 1
    assert mapping in [mapping]


def test_mapping_refuses_a_key_that_is_no_integer(binary_file):
    with pytest.raises(TypeError, match="elements are picked by number or slice, got str 'x'"):
        aw.map(binary_file)["x"]


def test_mapping_of_bools_stores_bools_only(binary_file):
    flags = aw.map(binary_file, "c", "bool")
    for value in ("x", None, 2, 0.5, [True]):
        with pytest.raises(TypeError, match="expected a bool, 0 or 1"):
            flags[0] = value
    flags[0:3] = [True, np.False_, 1]
    assert flags[0:3].tolist() == [True, False, True]


@pytest.mark.parametrize(("dtype", "value"), [("float32", 1e300), ("float16", 65_520), ("float32", -1e39)])
def test_mapping_of_floats_refuses_values_out_of_range(binary_file, dtype, value):
    floats = aw.map(binary_file, "c", dtype)
    with pytest.raises(aw.InvalidArgument, match=f"does not fit into {dtype}"):
        floats[0] = value
    with pytest.raises(aw.InvalidArgument, match=f"does not fit into {dtype}"):
        floats[0:1] = [value]
    floats[0] = float("inf")
    assert floats[0] == float("inf")


# ---- Arguments ----


class Refusal(NamedTuple):
    """A call with a dataset, an open writer and a folder, and what the message of its exception contains."""

    call: Callable[[aw.Dataset, aw.Writer, pathlib.Path], object]
    message: str


WRONG_TYPES = [
    Refusal(
        lambda ds, writer, folder: aw.follow(folder / "t", start="1"),
        "follow: start: expected the number of a row, got str '1'",
    ),
    Refusal(
        lambda ds, writer, folder: aw.follow(folder / "t", start=True),
        "follow: start: expected the number of a row, got bool True",
    ),
    Refusal(
        lambda ds, writer, folder: aw.follow(folder / "t", start=[0]),
        "follow: start: expected the number of a row, got list",
    ),
    Refusal(lambda ds, writer, folder: aw.follow([folder / "t"], start=0), "a list of one row's number for each table"),
    Refusal(
        lambda ds, writer, folder: aw.follow(folder / "t", timeout="1"),
        "follow: timeout: expected a number of seconds, got str '1'",
    ),
    Refusal(
        lambda ds, writer, folder: aw.writer(folder / "t", wait="1"),
        "writer: wait: expected a number of seconds, got str '1'",
    ),
    Refusal(
        lambda ds, writer, folder: writer.commit(positions="x"),
        "expected positions to be a dict of numbers by name, got str 'x'",
    ),
    Refusal(
        lambda ds, writer, folder: writer.commit(positions={"x": "1"}),
        "expected positions to be a dict of integers, got str '1'",
    ),
    Refusal(lambda ds, writer, folder: writer.commit(positions={1: 1}), "dict of numbers by name, got int 1"),
    Refusal(lambda ds, writer, folder: writer.commit(positions={"x": True}), "dict of integers, got bool True"),
    Refusal(
        lambda ds, writer, folder: writer.wait_durable("x"),
        "wait_durable: expected the number of a row, got str 'x'",
    ),
    Refusal(
        lambda ds, writer, folder: writer.drop_before(True),
        "drop_before: expected a row's number or a time, got bool True",
    ),
    Refusal(lambda ds, writer, folder: aw.col(3), "col: expected the name of a column, got int 3"),
    Refusal(
        lambda ds, writer, folder: ds.rename(["price"]),
        "rename: expected a dict of new names by the old ones, got list",
    ),
    Refusal(lambda ds, writer, folder: ds.aggregate(by=3), "the name of a column, or a list of names, got int 3"),
    Refusal(lambda ds, writer, folder: ds.sample(1, seed="x"), "seed: expected an integer, got str 'x'"),
    Refusal(
        lambda ds, writer, folder: aw.writer(folder / "u", "s: text", dictionary="s"),
        "writer: dictionary: expected a list of names, got str 's'",
    ),
    Refusal(lambda ds, writer, folder: ds.sort("price", descending="yes"), "a bool or a list of them, got str 'yes'"),
]

WRONG_VALUES = [
    Refusal(lambda ds, writer, folder: aw.follow(folder / "t", start=-1), "not negative and within 64 bits, got -1"),
    Refusal(lambda ds, writer, folder: aw.follow(folder / "t", start=2**70), "not negative and within 64 bits"),
    Refusal(
        lambda ds, writer, folder: aw.follow(folder / "t", timeout=-1),
        "a number of seconds that is not negative, got -1",
    ),
    Refusal(lambda ds, writer, folder: aw.follow(folder / "t", timeout=float("nan")), "that is not negative, got nan"),
    Refusal(
        lambda ds, writer, folder: ds.shuffle(seed=-1),
        "seed: expected an integer, not negative and within 64 bits, got -1",
    ),
    Refusal(
        lambda ds, writer, folder: aw.writer(folder / "u", "n: int64", segment_rows=0),
        "segment_rows must be at least 1, got 0",
    ),
    Refusal(lambda ds, writer, folder: aw.write(ds, aw.Buffer(), max_rows=0), "max_rows must be at least 1, got 0"),
    Refusal(lambda ds, writer, folder: writer.commit(positions={"x": 2**63}), "the position 'x' must fit into 64 bits"),
]


@pytest.fixture
def writer(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64", wait=float("inf")) as writer:
        yield writer


@pytest.mark.parametrize("refusal", WRONG_TYPES, ids=lambda refusal: refusal.message)
def test_wrong_type_is_a_type_error(tmp_path, ds, writer, refusal):
    with pytest.raises(TypeError, match=re.escape(refusal.message)) as caught:
        refusal.call(ds, writer, tmp_path)
    assert not isinstance(caught.value, aw.Error)


@pytest.mark.parametrize("refusal", WRONG_VALUES, ids=lambda refusal: refusal.message)
def test_wrong_value_is_an_invalid_argument(tmp_path, ds, writer, refusal):
    with pytest.raises(aw.InvalidArgument, match=re.escape(refusal.message)):
        refusal.call(ds, writer, tmp_path)


def test_commit_accepts_positions_of_numpy(writer):
    writer.commit(positions={"x": np.int64(7)})
    assert writer.positions == {"x": 7}


def test_text_with_lone_surrogates_names_its_column(tmp_path, ds):
    """Decoding bytes with ``surrogateescape`` returns such text."""
    text = b"caf\xe9".decode(errors="surrogateescape")
    message = r"column 's', row 0: expected text, got str 'caf\udce9', which has lone surrogates"
    with aw.writer(tmp_path / "t", "n: int64, s: utf8, c: category") as writer:
        for store in (
            lambda: writer.append_row(n=1, s=text),
            lambda: writer.append({"n": [1], "s": [text]}),
            lambda: writer.append([{"n": 1, "s": text}]),
            lambda: aw.write({"s": [text]}, aw.Buffer()),
            lambda: aw.write({"s": np.array([text])}, aw.Buffer()),
            lambda: aw.write({"s": [[text]]}, aw.Buffer()),
        ):
            with pytest.raises(aw.InvalidArgument, match=re.escape(message)):
                store()
        with pytest.raises(aw.InvalidArgument, match="column 'c'"):
            writer.append_row(c=text)
        assert writer.rows == 0
    with pytest.raises(aw.InvalidArgument, match="column 'name', row 0: expected text"):
        ds[ds["name"] == text]
    for look_up in (lambda: ds[text], lambda: ds.column(text)):
        with pytest.raises(aw.ColumnNotFound):
            look_up()


def test_busy_error_explains_how_to_wait(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64"):
        with pytest.raises(aw.Busy, match=re.escape("aw.writer(…, wait=10) waits up to ten seconds for it")):
            aw.writer(tmp_path / "t")
        with pytest.raises(aw.Busy, match="waited 0.01 seconds for it"):
            aw.writer(tmp_path / "t", wait=0.01)


def test_extras_in_messages_and_docs_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = [
        *(ROOT / "bindings/python").rglob("*.py"),
        *(ROOT / "bindings/python").rglob("*.rs"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]
    named = set()
    for source in sources:
        text = source.read_text()
        named |= set(re.findall(r"(?:arrowwood|\.)\[(\w+)\]'", text))
        named |= set(re.findall(r'engine\("[\w.]+", "\w+\(\)", "(\w+)"\)', text))
    assert {"sql", "polars", "dask"} <= named
    assert named <= set(extras)


# ---- Nulls, times and durations ----


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("n", "int64"), ("n", "uint8"), ("n", "bool"), ("flag", "bool"), ("flag", "int8"), ("ts", "int64")],
)
def test_nulls_are_not_converted_to_integers_or_bools(name, dtype):
    """NumPy converts NaN to the smallest integer, and to True."""
    times = [dt.datetime(2026, 1, 1), None]
    ds = aw.from_arrow(pa.table({"n": [2**53 + 1, None], "flag": [True, None], "ts": times}))
    with pytest.raises(aw.InvalidArgument, match=re.escape(f"column '{name}' has nulls, and {dtype} has none")):
        np.asarray(ds[name], dtype=dtype)
    assert len(np.asarray(ds[name].drop_nulls(), dtype=dtype)) == 1


def test_nulls_are_nan_in_floats_and_can_be_dropped():
    # This integer has no exact float64.
    column = aw.from_arrow(pa.table({"n": [2**53 + 1, None]}))["n"]
    assert np.isnan(np.asarray(column, dtype="float32")[1])
    assert np.asarray(column.drop_nulls(), dtype="int64")[0] == 2**53 + 1


def test_columns_of_type_null_match_polars():
    """JSON and pandas give such columns if all values are unknown."""
    table = pa.table({"x": pa.nulls(4), "y": [2, 1, 2, 1]})
    ds = aw.from_arrow(table)
    frame = pl.from_arrow(table)
    assert ds["x"].n_unique() == frame["x"].n_unique() == 1
    assert ds["x"].unique().to_pylist() == [None]
    assert ds["x"].min() is frame["x"].min() is None
    assert ds["x"].count() == 0
    assert ds["x"].sort().to_pylist() == [None] * 4
    assert ds["x"].value_counts().to_pylist() == [{"x": None, "count": 4}]
    assert ds.sort("x", "y")["y"].to_pylist() == frame.sort("x", "y")["y"].to_list()
    assert ds.unique().to_pylist() == frame.unique(maintain_order=True).to_dicts()
    assert ds.drop_nulls().to_pylist() == []


def test_columns_of_type_null_can_be_grouped_by():
    ds = aw.from_arrow(pa.table({"x": pa.nulls(4), "y": [2, 1, 2, 1]}))
    assert ds.aggregate("x", y="sum").to_pylist() == [{"x": None, "y": 6}]
    assert ds.aggregate(["y", "x"], n="count").to_pylist() == [{"y": 2, "x": None, "n": 2}, {"y": 1, "x": None, "n": 2}]
    assert ds.aggregate("y", x="n_unique")["x"].to_pylist() == [1, 1]


def test_columns_of_type_null_have_no_sum_or_mean():
    ds = aw.from_arrow(pa.table({"x": pa.nulls(4), "y": [2, 1, 2, 1]}))
    for call in (ds["x"].sum, ds["x"].mean, ds["x"].median, lambda: ds.aggregate("y", x="sum")):
        with pytest.raises(aw.Unsupported, match="column 'x' of type null is not supported"):
            call()


def describe_one(value: pa.Array) -> object:
    """Returns how `describe` shows a single value of a column: as the minimum."""
    rows = aw.from_arrow(pa.table({"x": value})).describe().to_pylist()
    return rows[4]["x"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_describe_has_quartiles_of_timestamps(unit, zone):
    numbers = [10, 20, None, 31, 50, 40]
    times = pa.array(numbers, pa.timestamp(unit, zone))
    statistics = {row["statistic"]: row for row in aw.from_arrow(pa.table({"ts": times, "n": numbers})).describe()}
    for share, quartile in [("25%", 20), ("50%", 31), ("75%", 40)]:
        assert statistics[share]["n"] == quartile
        assert statistics[share]["ts"] == describe_one(pa.array([quartile], pa.timestamp(unit, zone)))


@pytest.mark.parametrize(
    "data_type", [pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.duration("ms")], ids=str
)
def test_describe_has_quartiles_of_dates_and_durations(data_type):
    # `date64` counts milliseconds, and has whole days only.
    unit = 86_400_000 if data_type == pa.date64() else 1
    storage_type = pa.int32() if data_type.bit_width == 32 else pa.int64()
    column = pa.array([unit * n for n in range(1, 6)], storage_type).cast(data_type)
    rows = aw.from_arrow(pa.table({"x": column})).describe().to_pylist()
    # The last five statistics are the minimum, the quartiles and the maximum.
    assert [row["x"] for row in rows[4:]] == [describe_one(column[n : n + 1]) for n in range(5)]


# ---- Times without a zone ----


def run_append(table: pathlib.Path, text: str) -> subprocess.CompletedProcess:
    command = [pathlib.Path(sys.executable).with_name("arrowwood"), "append", table]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def write_text(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "2026-01-31 12:00:00.5", "2026-01-31"])
def test_text_without_an_offset_is_no_instant(tmp_path, text, zone):
    schema = f"ts: timestamp[us, {zone}], n: int64"
    csv = f"ts,n\n{text},1\n"
    json = f'{{"ts": "{text}", "n": 1}}\n'
    table = tmp_path / "t"
    with aw.writer(table, schema, sorted_by="ts") as writer:
        for parse in (
            lambda: writer.append_row(ts=text, n=1),
            lambda: writer.append([{"ts": text, "n": 1}]),
            lambda: writer.append({"ts": [text], "n": [1]}),
            lambda: aw.read_csv(write_text(tmp_path / "x.csv", csv), schema=schema),
            lambda: aw.read_json(write_text(tmp_path / "x.json", json), schema=schema),
            lambda: aw.open(table).between(text, text),
        ):
            with pytest.raises((TypeError, aw.Error), match="the column has a time zone"):
                parse()
        with pytest.raises(aw.InvalidArgument, match="compare it with a time instead of text"):
            aw.open(table).filter(aw.col("ts") > text)

    for rows in (csv, json):
        result = run_append(table, rows)
        assert result.returncode != 0
        assert "the column has a time zone: write the time's offset" in result.stderr, result.stderr

    result = run_append(table, f'{{"ts": "{text[:10]}T12:00:00+01:00", "n": 1}}\n')
    assert result.returncode == 0
    assert aw.open(table)[0]["ts"] == dt.datetime(2026, 1, 31, 11, tzinfo=dt.UTC)


# ---- Hints that suggest a join ----

KEY_TYPES = [pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())]


@pytest.mark.parametrize("left_type", KEY_TYPES, ids=str)
@pytest.mark.parametrize("right_type", KEY_TYPES, ids=str)
def test_join_hint_works_for_text_and_categories(left_type, right_type):
    names = {
        "ds": aw.from_arrow(pa.table({"x": pa.array(["a", "b", "c"]).cast(left_type), "y": [1, 2, 3]})),
        "other": aw.from_arrow(pa.table({"x": pa.array(["c", "a"]).cast(right_type), "z": [30, 10]})),
        "aw": aw,
        "pl": pl,
    }
    with pytest.raises(AttributeError) as caught:
        names["ds"].join
    # The message is "…; write SQL, or POLARS; …aw.scan(…)CAST", with a cast for keys of different types.
    expressions, _, remark = str(caught.value).partition("; write ")[2].partition("; ")
    sql_expression, polars_expression = expressions.split(", or ")
    if pa.types.is_dictionary(left_type) != pa.types.is_dictionary(right_type):
        with pytest.raises(pl.exceptions.SchemaError, match="str on|cat on"):
            eval(polars_expression, names)
        _, _, cast = remark.partition("aw.scan(…)")
        for scan in ("aw.scan(ds)", "aw.scan(other)"):
            polars_expression = polars_expression.replace(scan, scan + cast)
    expected = [{"x": "a", "y": 1, "z": 10}, {"x": "c", "y": 3, "z": 30}]
    assert sorted(eval(sql_expression, names).to_pylist(), key=lambda row: row["x"]) == expected
    assert sorted(eval(polars_expression, names).to_dicts(), key=lambda row: row["x"]) == expected


# ---- Followers ----


def test_follow_refuses_a_start_beyond_the_next_row(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64", segment_rows=2) as writer:
        writer.append({"n": range(5)})
        writer.commit()
        message = "following from row 7: the table has 5 rows so far, and the next one is number 5"
        with pytest.raises(aw.RowOutOfRange, match=message):
            aw.follow(tmp_path / "t", start=7)
        with pytest.raises(aw.RowOutOfRange, match=message):
            aw.follow([tmp_path / "t", tmp_path / "t"], start=[0, 7])

        writer.drop_before(4)
        with pytest.raises(aw.RowOutOfRange, match="the table has 1 row so far, and the next one is number 5"):
            aw.follow(tmp_path / "t", start=6)

        with aw.follow(tmp_path / "t", start=5, timeout=0) as follower:
            assert list(follower) == []
            writer.append({"n": [5]})
            writer.commit()
            assert [rows["n"].to_pylist() for rows in follower] == [[5]]


def test_followed_rows_have_the_path_of_their_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, number in [("a", 1), ("b", 2)]:
        with aw.writer(name, "n: int64") as writer:
            writer.append({"n": [number]})
    numbers = {rows.path.name: rows["n"][0] for rows in aw.follow(["a", "b"], start=[0, 0], timeout=0)}
    assert numbers == {"a": 1, "b": 2}


def test_datasets_of_one_table_have_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ["a", "b"]:
        with aw.writer(name, "n: int64") as writer:
            writer.append({"n": [1]})
    assert aw.open("a").path == tmp_path / "a"
    assert aw.open("a")[:1].path == tmp_path / "a"
    assert aw.open(["a", "b"]).path is None
    assert aw.from_arrow(pa.table({"n": [1]})).path is None


class Resources(NamedTuple):
    """The number of resources of this process that belong to a table and its followers."""

    mappings: int
    descriptors: int
    threads: int


def count_resources(path: pathlib.Path) -> Resources:
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    descriptors = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptors += str(path) in os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            # The descriptor was closed since they were listed.
            continue
    return Resources(
        mappings=sum(str(path) in line for line in maps),
        descriptors=descriptors,
        threads=sum("arrowwood-follow" in thread.name for thread in threading.enumerate()),
    )


async def read_first(follower) -> int:
    """Returns the number of rows of the first dataset."""
    async for rows in follower:
        return len(rows)


async def assert_no_more_rows(follower):
    async for _ in follower:
        raise AssertionError


def test_closed_follower_releases_files_and_threads(tmp_path):
    """They are released at once, and not when the follower is garbage-collected."""
    path = tmp_path / "t"
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": range(5)})
    before = count_resources(path)
    with aw.follow(path, start=0, timeout=0.01) as follower:
        assert asyncio.run(read_first(follower)) == 5
        asyncio.run(assert_no_more_rows(follower))
        assert sum(count_resources(path)) > sum(before)
    # The thread ends after its last wait.
    wait_until(lambda: count_resources(path) == before, "the follower has let go")
    assert follower.next_row == 5
    assert list(follower) == []
    with pytest.raises(aw.Closed):
        follower.lag
    follower.close()


def test_follower_can_be_closed_while_another_thread_waits(table):
    before = count_resources(table)
    follower = aw.follow(table)
    received = []
    thread = asleep(lambda: received.extend(follower))
    follower.close()
    join(thread)
    assert received == []
    assert count_resources(table) == before
