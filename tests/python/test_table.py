"""Tests growing tables: appending, commits, readers and followers, other processes, segments and aggregations."""

import datetime as dt
import decimal
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pytest

import arrowwood as aw
from waits import PATIENCE, join, wait_until

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("symbol", pa.string()),
        pa.field("price", pa.float64()),
        pa.field("qty", pa.int64(), nullable=False),
    ]
)
EPOCH = dt.datetime(1970, 1, 1)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


def timestamp(microseconds):
    return EPOCH + dt.timedelta(microseconds=microseconds)


def make_row(number):
    return {
        "ts": timestamp(number),
        "symbol": None if number % 11 == 5 else f"s{number % 7}",
        "price": None if number % 10 == 3 else number / 2,
        "qty": number,
    }


def make_rows(start, stop):
    return [make_row(number) for number in range(start, stop)]


def make_table(start, stop):
    return pa.Table.from_pylist(make_rows(start, stop), SCHEMA)


def read_by_pyarrow(path):
    """Returns the rows of a table as pyarrow reads them from its files."""
    rows = []
    for file in sorted(path.iterdir()):
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        table.validate(full=True)
        rows += table.to_pylist()
    return rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ticks"


# ---- Appending ----


@pytest.mark.parametrize("dictionary", [[], ["symbol"]])
def test_append_accepts_rows_columns_and_frames(path, dictionary):
    pandas = pytest.importorskip("pandas")
    with aw.writer(path, SCHEMA, dictionary=dictionary, sorted_by="ts") as writer:
        writer.append(make_table(0, 5))
        writer.append(make_table(5, 9).to_batches()[0])
        writer.append({name: make_table(9, 12)[name] for name in reversed(SCHEMA.names)})
        writer.append(make_rows(12, 20))
        writer.append_row(**make_row(20))
        writer.append(pandas.DataFrame(make_table(21, 25).to_pandas()))
        writer.append(pl.from_arrow(make_table(25, 30)))
        writer.append(aw.from_arrow(make_table(30, 33)))
        numbers = np.arange(33, 40)
        lists = {name: make_table(33, 40)[name].to_pylist() for name in ["symbol", "price"]}
        writer.append({"ts": numbers.astype("datetime64[us]"), "qty": numbers} | lists)
        assert (writer.rows, writer.committed_rows) == (40, 0)
        assert len(aw.open(path)) == 0
    assert writer.is_closed
    ds = aw.open(path)
    assert ds.to_pylist() == make_rows(0, 40)
    assert ds.sorted_by == "ts"
    assert read_by_pyarrow(path) == make_rows(0, 40)


def test_integers_are_times_in_the_unit_of_the_column(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append_row(ts=1, qty=1)
        writer.append({"ts": [2, 3], "qty": [2, 3]})
        writer.append([{"ts": 4, "qty": 4}])
        with pytest.raises(TypeError, match="'ts'"):
            writer.append(pa.table({"ts": [5], "qty": [5]}))
    assert aw.open(path)["ts"].to_pylist() == [timestamp(number) for number in range(1, 5)]


# The types that a table can grow, and a value of each.
GROWING_TYPES = {
    "i8": (pa.int8(), -5),
    "u16": (pa.uint16(), 60000),
    "f16": (pa.float16(), 1.5),
    "f32": (pa.float32(), 0.25),
    "bool": (pa.bool_(), True),
    "date32": (pa.date32(), dt.date(2020, 1, 2)),
    "date64": (pa.date64(), dt.date(2020, 1, 2)),
    "time": (pa.time64("us"), dt.time(1, 2, 3, 4)),
    "duration": (pa.duration("ms"), dt.timedelta(milliseconds=7)),
    "tz": (pa.timestamp("ns", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
    "dec": (pa.decimal128(10, 2), decimal.Decimal("12.34")),
    "dec256": (pa.decimal256(50, 3), decimal.Decimal("1.234")),
    "fsb": (pa.binary(3), b"abc"),
    "utf8": (pa.string(), "text"),
    "large": (pa.large_string(), ""),
    "view": (pa.string_view(), "a long text that has no room in a view"),
    "binary": (pa.binary(), b"\0\1"),
    "large_binary": (pa.large_binary(), b"x" * 50),
    "binary_view": (pa.binary_view(), b"y" * 13),
    "dict": (pa.dictionary(pa.int32(), pa.string()), "entry"),
    "list": (pa.list_(pa.int16()), [1, None, 3]),
    "large_list": (pa.large_list(pa.string()), ["a", None]),
    "fsl": (pa.list_(pa.float32(), 2), [1.5, 2.5]),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]), {"a": 1, "b": ["x", "y"]}),
    "nested": (
        pa.list_(pa.struct([("d", pa.dictionary(pa.int32(), pa.string())), ("x", pa.list_(pa.bool_(), 3))])),
        [{"d": "e", "x": [True, False, None]}, {"d": None, "x": None}],
    ),
    "interval": (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3])),
}


def test_columns_of_all_growing_types(path):
    schema = pa.schema({name: data_type for name, (data_type, _) in GROWING_TYPES.items()})
    columns = {name: pa.array([value, None, value], data_type) for name, (data_type, value) in GROWING_TYPES.items()}
    table = pa.table(columns, schema)
    # `append_row` doesn't take all types: the others are null.
    scalars = {name: value for name, (data_type, value) in GROWING_TYPES.items() if not pa.types.is_nested(data_type)}
    del scalars["interval"]
    null_row = dict.fromkeys(GROWING_TYPES)

    appended = []
    with aw.writer(path, schema) as writer:
        for number in range(1, 40):
            for part in [table.slice(0, number % 4), table.slice(2, 1)]:
                writer.append(part)
                appended.append(part)
            writer.commit()
        writer.append_row(**scalars)
        writer.append_row(**null_row)

    actual = pa.table(aw.open(path))
    actual.validate(full=True)
    expected = pa.concat_tables(appended)
    assert actual.slice(0, len(expected)).to_pylist() == expected.to_pylist()
    assert actual.to_pylist()[-1] == null_row
    for file in path.iterdir():
        for source in [pa.memory_map(str(file)), pa.OSFile(str(file))]:
            read = pa.ipc.open_file(source).read_all()
            read.validate(full=True)
            assert read.to_pylist() == actual.to_pylist()


@pytest.mark.parametrize(
    "data_type",
    [
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.dictionary(pa.int8(), pa.bool_()),
        pa.dictionary(pa.int32(), pa.list_(pa.int8())),
    ],
)
def test_writer_refuses_types_that_cannot_grow(path, data_type):
    with pytest.raises(aw.Unsupported, match="column 'x'.*can't grow"):
        aw.writer(path, pa.schema([("x", data_type)]))


@pytest.mark.parametrize(
    ("change", "error", "message", "row_message"),
    [
        ({"qty": None}, aw.InvalidArgument, "qty.*row 1.*null", "qty"),
        ({"qty": "x"}, TypeError, "column 'qty', row 1", "qty"),
        ({"price": "x"}, TypeError, "column 'price', row 1", "price"),
        ({"ts": EPOCH}, aw.InvalidArgument, "column 'ts', row 1.*less", "ts"),
        ({"ts": None}, aw.InvalidArgument, "ts.*row 1", "ts"),
        ({"other": 1}, aw.ColumnNotFound, "other", "other"),
    ],
)
def test_failed_append_of_rows_does_not_change_the_table(path, change, error, message, row_message):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=64) as writer:
        writer.append(make_table(0, 100))
        writer.commit()
        first, second, third = make_rows(100, 103)
        with pytest.raises(error, match=message):
            writer.append([first, second | change, third])
        assert writer.rows == 100
        with pytest.raises((error, aw.InvalidArgument), match=row_message):
            writer.append_row(**second | change)
        assert writer.rows == 100
        writer.append(make_table(100, 110))
    assert aw.open(path).to_pylist() == read_by_pyarrow(path) == make_rows(0, 110)


def test_failed_append_of_columns_does_not_change_the_table(path):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=64) as writer:
        writer.append(make_table(0, 100))
        writer.commit()
        with pytest.raises(TypeError, match="column 'price', row 0"):
            writer.append(pa.table({"ts": make_table(0, 1)["ts"], "qty": [1], "symbol": ["x"], "price": ["text"]}))
        with pytest.raises(aw.SchemaMismatch, match="qty"):
            writer.append({"ts": [EPOCH]})
        with pytest.raises(aw.InvalidArgument, match="length|has"):
            writer.append({"ts": [EPOCH], "qty": [1, 2]})
        assert writer.rows == 100
        writer.append(make_table(100, 110))
    assert aw.open(path).to_pylist() == read_by_pyarrow(path) == make_rows(0, 110)


def test_append_refuses_null_members_of_values(path):
    struct_type = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    list_type = pa.list_(pa.field("item", pa.int64(), nullable=False))
    lists = pa.array([None, [1], []], pa.list_(pa.int64()))

    def make_structs(members):
        """Returns three structs, the first of which is null."""
        field = pa.field("a", pa.int64())
        return pa.StructArray.from_arrays([pa.array(members)], fields=[field], mask=pa.array([True, False, False]))

    with aw.writer(path, pa.schema([("s", struct_type), ("l", list_type)])) as writer:
        with pytest.raises((aw.InvalidArgument, TypeError), match="row 1"):
            writer.append(pa.table({"s": make_structs([None, None, 9]), "l": lists}))
        # A member may be null in a struct that is null itself.
        writer.append(pa.table({"s": make_structs([None, 8, 9]), "l": lists}))
    assert aw.open(path)["s"].to_pylist() == [None, {"a": 8}, {"a": 9}]


# ---- Commits ----


def test_rollback_discards_rows(path):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=64) as writer:
        writer.append(make_table(0, 100))
        writer.commit()
        writer.append(make_rows(100, 103))
        writer.rollback()
        assert writer.rows == 100
        # These rows need several segments.
        writer.append(make_table(100, 300))
        writer.rollback()
        writer.append(make_table(100, 110))
    assert aw.open(path).to_pylist() == read_by_pyarrow(path) == make_rows(0, 110)


def test_exception_rolls_back(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 10))
    with pytest.raises(KeyError), aw.writer(path) as writer:
        writer.append(make_table(10, 20))
        raise KeyError
    assert aw.open(path).to_pylist() == read_by_pyarrow(path) == make_rows(0, 10)


def test_closed_writer_cannot_be_used(path):
    with aw.writer(path, SCHEMA) as writer:
        pass
    for use in [writer.commit, writer.sync, lambda: writer.append(make_table(0, 1)), lambda: writer.rows]:
        with pytest.raises(aw.Closed, match="closed"):
            use()
    writer.close()


def test_segments_fill_up_and_snapshots_stay_valid(path):
    snapshots = []
    with aw.writer(path, SCHEMA, segment_rows=100, sync="never") as writer:
        ds = aw.open(path)
        rows = 0
        for count in [1, 99, 1, 250, 3, 1000, 46, 100, 100]:
            writer.append(make_table(rows, rows + count))
            writer.commit()
            rows += count
            previous = ds
            ds = previous.refresh()
            assert previous is not ds
            assert ds.refresh() is ds
            assert len(ds) == rows
            snapshots.append(ds)
            assert read_by_pyarrow(path) == make_rows(0, rows)

    assert len(list(path.iterdir())) == 16
    for snapshot in snapshots:
        assert snapshot.to_pylist() == make_rows(0, len(snapshot))
        assert pa.table(snapshot).to_pylist() == make_rows(0, len(snapshot))
    assert pa.dataset.dataset(path, format="ipc").to_table().to_pylist() == make_rows(0, rows)
    assert ds[150] == make_row(150)
    assert ds[-1] == make_row(rows - 1)
    assert ds["qty"].sum() == sum(range(rows))
    assert ds[95:305].to_pylist() == make_rows(95, 305)
    assert len(ds.messages) >= 16
    assert ds.num_batches == 16


def test_reopened_table_can_be_extended(path):
    for run in range(6):
        # The schema and the dictionaries may be repeated.
        options = {"schema": SCHEMA, "dictionary": ["symbol"]} if run % 2 == 0 else {}
        with aw.writer(path, **options) as writer:
            assert writer.rows == 37 * run
            assert writer.durable_rows == 37 * run or run == 0
            writer.append(make_table(37 * run, 37 * run + 37))
    assert aw.open(path).to_pylist() == make_rows(0, 37 * 6)
    assert read_by_pyarrow(path) == make_rows(0, 37 * 6)


def test_replica_refuses_positions_until_it_is_promoted(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 10))
        # `arrowwood pull` records the origin of rows.
        writer.commit(positions={"arrowwood/numbering": 7})
    with aw.writer(path) as writer:
        writer.append(make_table(10, 20))
        for durable in (False, True):
            with pytest.raises(aw.InvalidArgument, match="arrowwood promote TABLE"):
                writer.commit(positions={"kafka/0": 5}, durable=durable)
        assert len(aw.open(path)) == 10
        assert "kafka/0" not in writer.positions

        # Rows without positions can't be taken for repeated ones.
        writer.commit()
        writer.promote({"kafka/0": 5})
        assert aw.open(path).positions["kafka/0"] == 5
        assert writer.durable_rows == 20
        with pytest.raises(aw.InvalidArgument, match="no replica, or was promoted"):
            writer.promote()
        writer.append(make_table(20, 30))
        writer.commit(positions={"kafka/0": 6})
    assert aw.open(path).positions["kafka/0"] == 6
    assert aw.open(path).to_pylist() == make_rows(0, 30)
    with aw.writer(path) as writer, pytest.raises(aw.InvalidArgument, match="no replica"):
        writer.promote({"kafka/0": 0})
    assert aw.open(path).positions["kafka/0"] == 6


# ---- Opening a writer ----


def test_writer_of_a_new_table_needs_a_schema(path):
    with pytest.raises(aw.NotFound, match="no schema"):
        aw.writer(path)


def test_second_writer_is_refused(path):
    with aw.writer(path, SCHEMA) as writer:
        with pytest.raises(aw.Busy, match=f"process {os.getpid()}"):
            aw.writer(path)
        assert len(aw.open(path)) == writer.rows


def test_writer_refuses_another_schema(path):
    aw.writer(path, SCHEMA).close()
    with pytest.raises(aw.SchemaMismatch, match="'price' is float64 and float32"):
        aw.writer(path, SCHEMA.set(2, pa.field("price", pa.float32())))
    with pytest.raises(aw.SchemaMismatch, match="'qty' is int64 and utf8"):
        aw.writer(path, SCHEMA.set(3, pa.field("qty", pa.string())))


def test_writer_refuses_options_with_missing_columns(path):
    with pytest.raises(aw.ColumnNotFound, match="'nope'"):
        aw.writer(path, SCHEMA, sorted_by="nope")
    with pytest.raises(aw.ColumnNotFound, match="'nope'"):
        aw.writer(path, SCHEMA, dictionary=["nope"])


def test_writer_refuses_columns_of_one_name(path):
    with pytest.raises(aw.InvalidArgument, match="two columns are called 'a'"):
        aw.writer(path, pa.schema([("a", pa.int64()), ("a", pa.int64())]))
    assert not path.exists()


@pytest.mark.parametrize("sync", ["often", 0, False, True, -1, float("nan")])
def test_writer_refuses_an_invalid_sync_option(path, sync):
    with pytest.raises(aw.InvalidArgument, match="sync must be"):
        aw.writer(path, SCHEMA, sync=sync)


def test_writer_refuses_files_and_directories_with_other_files(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(aw.InvalidArgument, match="other files"):
        aw.writer(tmp_path / "mine", SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="a file"):
        aw.writer(tmp_path / "mine" / "notes.txt", SCHEMA)


def test_settings_are_not_copied_with_a_schema(path, tmp_path):
    with aw.writer(path, SCHEMA, sorted_by="ts") as writer:
        writer.append(make_table(0, 5))
    aw.compact(path)
    with aw.writer(tmp_path / "other", aw.open(path).schema) as writer:
        writer.append(pa.concat_tables([make_table(3, 5), make_table(0, 2)]))
    aw.compact(tmp_path / "other")
    assert aw.open(tmp_path / "other").sorted_by is None


def test_writer_stays_in_its_directory(tmp_path, monkeypatch):
    for name in ["a", "b"]:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with aw.writer("ticks", SCHEMA, segment_rows=4) as writer:
            writer.append(make_table(0, 3))
    monkeypatch.chdir(tmp_path / "a")
    ds = aw.open("ticks")
    with aw.writer("ticks", segment_rows=4) as writer:
        monkeypatch.chdir(tmp_path / "b")
        writer.append(make_table(3, 30))
    assert ds.refresh().to_pylist() == aw.open(tmp_path / "a" / "ticks").to_pylist() == make_rows(0, 30)
    assert aw.open(tmp_path / "b" / "ticks").to_pylist() == make_rows(0, 3)


# ---- Sorted tables ----


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.decimal128(10, 4), [decimal.Decimal("1.5"), decimal.Decimal("1.25"), decimal.Decimal("2")]),
        (pa.float64(), [100, 1.5, 200]),
        (pa.float32(), [1.1, 1.0, 1.2]),
        (pa.duration("ns"), [dt.timedelta(seconds=10), dt.timedelta(seconds=1), dt.timedelta(seconds=11)]),
        (pa.date64(), [dt.date(2020, 1, 6), dt.date(2020, 1, 2), dt.date(2020, 1, 7)]),
        (pa.timestamp("s"), [dt.datetime(2020, 1, 6), dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 7)]),
        (pa.time32("s"), [dt.time(2), dt.time(1), dt.time(3)]),
        (pa.uint64(), [2**63 + 5, 7, 2**63 + 6]),
        (pa.string(), ["b", "a", "c"]),
    ],
)
def test_sorted_table_refuses_lesser_values(path, data_type, values):
    value, less, greater = values
    with aw.writer(path, pa.schema([("x", data_type)]), sorted_by="x") as writer:

        def append_row(value):
            writer.append_row(x=value)

        def append_table(value):
            writer.append(pa.table({"x": pa.array([value], data_type)}))

        for append in [append_row, append_table]:
            append_row(value)
            with pytest.raises(aw.InvalidArgument):
                append(less)
            append(value)
            append(greater)
            writer.rollback()

            append_table(value)
            with pytest.raises(aw.InvalidArgument):
                append(less)
            append(greater)
            writer.rollback()
        append_table(value)

    with aw.writer(path) as writer:
        with pytest.raises(aw.InvalidArgument):
            writer.append(pa.table({"x": pa.array([less], data_type)}))
        with pytest.raises(aw.InvalidArgument):
            writer.append_row(x=less)
        writer.append_row(x=greater)

    ds = aw.open(path)
    if data_type == pa.float32():
        # The nearest float of 32 bits is stored.
        value = ds["x"][0]
    assert len(ds.between(value, value)) == 1
    assert len(ds.between(less, value)) == 1


def test_between_selects_rows_by_the_sort_column(path):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=30) as writer:
        writer.append(pa.concat_tables([make_table(0, 100), make_table(99, 100), make_table(99, 100)]))
    ds = aw.open(path)
    assert ds.between(timestamp(25), timestamp(65))["qty"].to_pylist() == list(range(25, 66))
    assert len(ds.between(timestamp(99), timestamp(1000))) == 3
    assert len(ds.between(timestamp(-5), timestamp(-1))) == 0
    assert len(ds.between(timestamp(7), timestamp(6))) == 0
    assert ds.between(10, 12)["qty"].to_pylist() == [10, 11, 12]
    assert ds.select(["qty"]).between(timestamp(3), timestamp(4)).to_pylist() == [{"qty": 3}, {"qty": 4}]
    assert ds[50:].between(timestamp(45), timestamp(52))["qty"].to_pylist() == [50, 51, 52]
    with pytest.raises((aw.InvalidArgument, TypeError)):
        ds.between("a", "b")
    with pytest.raises(aw.InvalidArgument, match="sorted_by"):
        aw.from_arrow(make_table(0, 3)).between(1, 2)


LATE_SCHEMA = "ts: timestamp[ms] not null, host: utf8"


def test_compact_sorts_late_rows(tmp_path):
    path = str(tmp_path / "load")
    with aw.writer(path, LATE_SCHEMA, sorted_by="ts", late="accept", segment_rows=4) as writer:
        for second in [1, 5, 3, 2, 8, 6, 4, 9, 7, 10]:
            writer.append({"ts": [f"2026-01-01T00:00:{second:02}"], "host": [str(second)]})
        writer.commit()
        before = aw.open(path)
        assert writer.compact(sort=True) > 0
        hosts = aw.open(path)["host"].to_pylist()
        assert hosts[:8] == ["1", "2", "3", "4", "5", "6", "8", "9"]
        assert hosts[8:] == ["7", "10"], "the live segment is not sorted"
        with pytest.raises(aw.FileChanged, match="open the table again"):
            before["host"].to_pylist()
    assert aw.compact(path, sort=True, rewrite=True) > 0
    assert aw.open(path)["host"].to_pylist() == [str(second) for second in range(1, 11)]
    assert aw.compact(path, sort=True) == 0


def test_compact_cannot_sort_a_table_without_sort_column(path):
    with aw.writer(path, LATE_SCHEMA) as writer, pytest.raises(aw.InvalidArgument, match="sorted_by"):
        writer.compact(sort=True)


# ---- Compaction and retention ----


def test_compact_and_drop_before_keep_snapshots_and_followers(path):
    with aw.writer(path, SCHEMA, segment_rows=50, dictionary=["symbol"], sorted_by="ts") as writer:
        writer.append(make_table(0, 230))
        writer.commit()
        snapshot = aw.open(path)
        follower = aw.follow(path, start=100, timeout=0.05)
        late_follower = aw.follow(path, start=0)

        assert writer.compact() == 4
        assert aw.open(path).to_pylist() == snapshot.to_pylist() == make_rows(0, 230)

        assert writer.drop_before(120) == 100
        ds = aw.open(path)
        assert ds.first_row == 100
        assert ds.to_pylist() == make_rows(100, 230)
        assert snapshot.to_pylist() == make_rows(0, 230)
        refreshed = snapshot.refresh()
        assert refreshed.first_row == 100
        assert refreshed.refresh() is refreshed
        assert refreshed.to_pylist() == ds.to_pylist()

        writer.append(make_table(230, 400))
        writer.commit()
        assert snapshot.refresh().first_row == 100
        assert next(follower).first_row == 100
        with pytest.raises(aw.RowOutOfRange, match="100 rows were dropped"):
            next(late_follower)
    with pytest.raises(StopIteration):
        next(follower)


def test_compacted_table_can_be_extended(path):
    with aw.writer(path, SCHEMA, segment_rows=50, dictionary=["symbol"], sorted_by="ts") as writer:
        writer.append(make_table(0, 230))
        writer.commit()
        assert writer.compact() == 4
        assert writer.drop_before(120) == 100
        writer.append(make_table(230, 400))
    assert aw.compact(path) > 0
    assert aw.compact(path) == 0
    assert aw.open(path).to_pylist() == read_by_pyarrow(path) == make_rows(100, 400)

    ds = aw.open(path)
    assert ds.sorted_by == "ts"
    with aw.writer(path) as writer:
        assert writer.rows == 400
        with pytest.raises(aw.InvalidArgument, match="'ts', row 0"):
            writer.append(make_rows(5, 6))
        writer.append(make_rows(400, 410))
    assert ds.refresh().to_pylist() == make_rows(100, 410)


def test_reading_dropped_rows_is_an_error(path):
    with aw.writer(path, SCHEMA, segment_rows=4) as writer:
        writer.append(make_table(0, 6))
    aw.compact(path)
    snapshot = aw.open(path)
    with aw.writer(path) as writer:
        # This snapshot has not read its rows before they are dropped.
        unread_snapshot = aw.open(path)
        writer.append(make_table(6, 26))
        writer.commit()
        assert writer.drop_before(12) > 0
        assert snapshot.refresh().to_pylist() == aw.open(path).to_pylist()
        with pytest.raises(aw.NotFound, match="drop_before"):
            unread_snapshot.to_pylist()


def test_compact_follows_a_symbolic_link(path, tmp_path):
    with aw.writer(path, SCHEMA, segment_rows=10) as writer:
        writer.append(make_table(0, 25))
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "here"
    link.symlink_to(path)
    assert aw.compact(link) == 3
    assert aw.open(link).to_pylist() == make_rows(0, 25)


# ---- Large values and full segments ----


def test_values_may_be_larger_than_a_segment(path):
    schema = pa.schema([("text", pa.string()), ("items", pa.list_(pa.int64()))])
    large = "x" * 3_000_000
    with aw.writer(path, schema, segment_rows=1000) as writer:
        writer.append([{"text": "a", "items": [1]}])
        for i in range(5):
            writer.append([{"text": large + str(i), "items": list(range(200_000))}])
            writer.append_row(text=large + str(i), items=None)
        writer.commit()
    ds = aw.open(path)
    assert [len(text) for text in ds["text"].to_pylist()] == [1] + [3_000_001] * 10
    assert ds[1]["items"] == list(range(200_000))
    assert len(list(path.iterdir())) > 1


def test_first_row_may_be_larger_than_the_first_segment(path):
    schema = pa.schema([("s", pa.string()), ("items", pa.list_(pa.int64()))])
    large = "x" * 6_000_000
    with aw.writer(path, schema) as writer:
        empty = aw.open(path)
        writer.append([{"s": large, "items": list(range(9_000_000))}])
        writer.commit()
        assert len(empty.refresh()) == 1
        writer.append([{"s": "y", "items": []}])
    assert [len(text) for text in aw.open(path)["s"].to_pylist()] == [6_000_000, 1]
    with aw.writer(path) as writer:
        writer.append([{"s": large * 2, "items": None}])
    ds = aw.open(path)
    assert len(ds) == 3
    assert len(ds[0]["items"]) == 9_000_000


def test_first_row_from_append_row_may_be_larger_than_the_first_segment(path):
    with aw.writer(path, pa.schema([("s", pa.string())])) as writer:
        writer.append_row(s="x" * 5_000_000)
        writer.append_row(s="y")
        writer.commit()
        assert [len(row["s"]) for row in read_by_pyarrow(path)] == [5_000_000, 1]


def test_columns_of_full_segments_are_one_array(path):
    """The columns of full segments are mapped contiguously, so that they need no copy."""
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("x", pa.float32()), ("text", pa.string())])
    numbers = np.arange(600_000)
    table = pa.table({"n": numbers, "x": numbers.astype("float32"), "text": numbers.astype(str)}, schema)
    with aw.writer(path, schema) as writer:
        writer.append(table)
        writer.commit()
        ds = aw.open(path)
        assert ds.num_batches == 4
        for name, dtype in [("n", "int64"), ("x", "float32")]:
            values = ds[name].to_numpy(copy=False)
            assert values.dtype == dtype
            assert (values == numbers).all()
            assert (ds[name][70_000:500_000].to_numpy(copy=False) == numbers[70_000:500_000]).all()

        writer.append(table.slice(0, 1))
        writer.commit()
        assert (values == numbers).all()
        assert ds.refresh()["n"].to_numpy(copy=False)[-1] == 0

        writer.append_row(n=1, x=None, text="")
        writer.commit()
        refreshed = ds.refresh()
        assert refreshed["n"].to_numpy(copy=False)[-1] == 1
        # A null becomes NaN, which needs a copy.
        with pytest.raises(aw.CopyNeeded):
            refreshed["x"].to_numpy(copy=False)
        assert np.isnan(refreshed["x"].to_numpy()[-1])

    assert aw.compact(path) == 4
    compacted = aw.open(path)
    assert compacted.num_batches == 1
    assert compacted["n"].to_numpy(copy=False)[-1] == 1


# ---- Readers and followers ----


def test_follow_returns_every_row_once(path):
    rows = 2000
    received = []

    def follow():
        for ds in aw.follow(path, start=0, timeout=PATIENCE):
            received.extend(ds["qty"].to_pylist())
            if len(received) >= rows:
                return

    with aw.writer(path, SCHEMA, segment_rows=70) as writer:
        follower = threading.Thread(target=follow)
        follower.start()
        for start in range(0, rows, 10):
            writer.append(make_table(start, start + 10))
            writer.commit()
        join(follower)
    assert received == list(range(rows))


def test_follow_ends_after_its_timeout(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 3))
        writer.commit()
        assert list(aw.follow(path, timeout=0.01)) == []
        assert [len(ds) for ds in aw.follow(aw.open(path), start=1, timeout=0.01)] == [2]


def test_follow_refuses_a_dataset_that_is_no_table():
    with pytest.raises(aw.InvalidArgument, match="whole table"):
        aw.follow(aw.from_arrow(make_table(0, 1)))


def test_reading_needs_no_write_permission(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 5))
        writer.commit()
        for file in path.iterdir():
            file.chmod(0o444)
        path.chmod(0o555)
        try:
            assert aw.open(path).to_pylist() == make_rows(0, 5)
            follower = aw.follow(path, timeout=PATIENCE)
            writer.append(make_table(5, 6))
            writer.commit()
            assert len(next(follower)) == 1
        finally:
            path.chmod(0o755)


def test_pyarrow_sees_the_last_of_many_commits(path):
    """Frequent commits are published to other Arrow libraries from time to time, and the last one by a timer."""
    with aw.writer(path, SCHEMA) as writer:
        for number in range(3000):
            writer.append_row(**make_row(number))
            writer.commit()
        wait_until(lambda: len(read_by_pyarrow(path)) >= 3000, "stock readers see the last commit")
        assert read_by_pyarrow(path) == make_rows(0, 3000)


def test_stream_reader_refuses_a_segment(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 5))
    data = next(path.iterdir()).read_bytes()
    # Without its first 8 bytes, an Arrow file is a stream.
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(data[8:]).read_all()


def test_copy_of_a_table_during_writes_can_be_opened(path, tmp_path):
    copies = [tmp_path / f"copy{i}" for i in range(10)]
    with aw.writer(path, pa.schema([("n", pa.int64())])) as writer:
        is_done = threading.Event()

        def write_rows():
            n = 0
            while not is_done.is_set():
                writer.append_row(n=n)
                writer.commit()
                n += 1

        thread = threading.Thread(target=write_rows)
        thread.start()
        try:
            for copy in copies:
                shutil.copytree(path, copy)
        finally:
            is_done.set()
            thread.join()
    for copy in copies:
        numbers = aw.open(copy)["n"].to_pylist()
        assert numbers == list(range(len(numbers)))


# ---- Other processes ----

# Commits seven rows at a time, and prints how many are committed.
ROWS_PER_COMMIT = 7
WRITE_UNTIL_KILLED = """
import sys, arrowwood as aw, pyarrow as pa
writer = aw.writer(sys.argv[1], pa.schema([("n", pa.int64())]), segment_rows=1000)
n = writer.rows
while True:
    for _ in range(7):
        writer.append_row(n=n)
        n += 1
    writer.commit()
    print(n, flush=True)
"""


def test_killed_writer_loses_no_committed_rows(path):
    acknowledged = 0
    for _ in range(5):
        command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            acknowledged = int(line)
            # Kills the writer when it is about to begin a new segment.
            if acknowledged % 1000 > 900:
                break
        with pytest.raises(aw.Busy, match=f"process {process.pid}"):
            aw.writer(path)
        process.kill()
        # The last line may be incomplete.
        complete_lines = process.stdout.read().split("\n")[:-1]
        acknowledged = max([acknowledged, *map(int, complete_lines)])
        process.wait()

        ds = aw.open(path)
        assert acknowledged <= len(ds)
        assert len(ds) % ROWS_PER_COMMIT == 0
        assert ds["n"].to_pylist() == list(range(len(ds)))
        with aw.writer(path) as writer:
            # The next writer completes a commit that was prepared.
            assert writer.rows - len(ds) in (0, ROWS_PER_COMMIT)
            assert len(aw.open(path)) == writer.rows


@needs_fork
def test_forked_process_cannot_use_the_writer(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(make_table(0, 5))
        writer.commit()

        def append_in_child(results):
            try:
                writer.append(make_table(5, 6))
                results.put("appended")
            except aw.Busy as error:
                results.put(str(error))
            results.put(len(aw.open(path)))

        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        process = context.Process(target=append_in_child, args=(results,))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert "fork" in results.get()
        assert results.get() == 5
        writer.append(make_table(5, 6))
    assert len(aw.open(path)) == 6


@needs_fork
def test_forked_process_does_not_keep_the_lock(path):
    writer = aw.writer(path, SCHEMA)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        # Waits until the parent closes the pipe, also if the parent crashes.
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        writer.close()
        aw.writer(path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read_end)
        os.close(write_end)


# ---- Aggregations ----

# The states of groups are kept after each block of so many rows.
BLOCK_ROWS = 16_384


def test_aggregation_is_updated_with_new_rows(tmp_path):
    path = tmp_path / "ticks"
    condition = aw.col("qty") > 0
    with aw.writer(path, "symbol: category, price: float64, qty: int64") as writer:
        aggregation = aw.aggregation(
            path, by="symbol", where=condition, mean="price", last="price", n="count", most=("qty", "max")
        )
        assert aggregation.refresh().to_pylist() == []
        assert aggregation.rows_read == 0

        rng = np.random.default_rng(0)
        for count in [1, 10, 20_000, 0, 30_000, 5]:
            price = rng.normal(0, 1e6, count)
            qty = rng.integers(-5, 100, count)
            symbol = [f"S{n}" for n in rng.integers(0, 9, count)]
            writer.append({"symbol": symbol, "price": price, "qty": qty})
            writer.commit()

            groups = aggregation.refresh()
            ds = aw.open(path)
            expected = ds.aggregate(
                by="symbol",
                where=condition,
                mean=("price", "mean"),
                last=("price", "last"),
                n="count",
                most=("qty", "max"),
            )
            assert groups.to_pylist() == expected.to_pylist()
            assert groups.schema == expected.schema
            # Rows before the last full block are not read again.
            assert aggregation.rows_read < count + BLOCK_ROWS
            assert len(aggregation.dataset) == len(ds)


def test_first_and_last_match_polars(tmp_path):
    path = tmp_path / "ticks"
    rng = np.random.default_rng(0)
    with aw.writer(path, "symbol: category, price: float64, qty: int64") as writer:
        for count in [1, 10, 20_000, 0, 30_000, 5]:
            price = rng.normal(0, 1e6, count)
            qty = rng.integers(-5, 100, count)
            symbol = [f"S{n}" for n in rng.integers(0, 9, count)]
            writer.append({"symbol": symbol, "price": price, "qty": qty})
            writer.commit()
    ds = aw.open(path)
    groups = ds.aggregate("symbol", where=aw.col("qty") > 0, last="price", first="price")
    frame = pl.DataFrame(ds.to_arrow()).filter(pl.col("qty") > 0)
    expected = frame.group_by("symbol", maintain_order=True).agg(
        last=pl.col("price").last(), first=pl.col("price").first()
    )
    assert groups.to_pylist() == expected.to_dicts()


def test_aggregation_refuses_what_cannot_be_updated(tmp_path):
    path = tmp_path / "ticks"
    aw.writer(path, "symbol: category, price: float64").close()
    with pytest.raises(aw.Unsupported, match="median can't be kept up to date"):
        aw.aggregation(path, by="symbol", price="median")
    with pytest.raises(aw.NotFound):
        aw.aggregation(tmp_path / "missing", by="symbol", n="count")
    with pytest.raises(aw.InvalidArgument, match="expected 'sum'"):
        aw.aggregation(path, middle="price")
