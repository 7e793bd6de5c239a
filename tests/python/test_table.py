"""Tests growing tables from Python: input, output, and errors."""

import datetime as dt
import decimal
import multiprocessing
import os
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


def rows(start, stop):
    return [
        {
            "ts": EPOCH + dt.timedelta(microseconds=i),
            "symbol": None if i % 11 == 5 else f"s{i % 7}",
            "price": None if i % 10 == 3 else i / 2,
            "qty": i,
        }
        for i in range(start, stop)
    ]


def table(start, stop):
    return pa.Table.from_pylist(rows(start, stop), SCHEMA)


def stock(path):
    """All rows as pyarrow reads them from the files."""
    files = sorted(path.iterdir())
    tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in files]
    for found in tables:
        found.validate(full=True)
    return [row for found in tables for row in found.to_pylist()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ticks"


@pytest.mark.parametrize("dictionary", [[], ["symbol"]])
def test_every_way_of_appending(path, dictionary):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    with aw.writer(path, SCHEMA, dictionary=dictionary, sorted_by="ts") as writer:
        writer.append(table(0, 5))
        writer.append(table(5, 9).to_batches()[0])
        writer.append({name: table(9, 12)[name] for name in reversed(SCHEMA.names)})
        writer.append(rows(12, 20))
        writer.append_row(**rows(20, 21)[0])
        writer.append(pandas.DataFrame(table(21, 25).to_pandas()))
        writer.append(polars.from_arrow(table(25, 30)))
        writer.append(aw.from_arrow(table(30, 33)))
        numbers = np.arange(33, 40)
        columns = {"ts": numbers.astype("datetime64[us]"), "qty": numbers}
        writer.append(columns | {name: table(33, 40)[name].to_pylist() for name in ["symbol", "price"]})
        assert (writer.rows, writer.committed_rows) == (40, 0)
        assert len(aw.open(path)) == 0
    found = aw.open(path)
    assert found.to_pylist() == rows(0, 40)
    assert stock(path) == rows(0, 40)
    assert writer.is_closed and found.sorted_by == "ts"


def test_all_types_that_grow(path):
    fields = {
        "i8": pa.int8(), "u16": pa.uint16(), "f16": pa.float16(), "f32": pa.float32(), "bool": pa.bool_(),
        "date32": pa.date32(), "date64": pa.date64(), "time": pa.time64("us"), "duration": pa.duration("ms"),
        "tz": pa.timestamp("ns", "UTC"), "dec": pa.decimal128(10, 2), "dec256": pa.decimal256(50, 3),
        "fsb": pa.binary(3), "utf8": pa.string(), "large": pa.large_string(), "view": pa.string_view(),
        "binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view(),
        "dict": pa.dictionary(pa.int32(), pa.string()), "list": pa.list_(pa.int16()), "large_list": pa.large_list(pa.string()),
        "fsl": pa.list_(pa.float32(), 2), "struct": pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
        "nested": pa.list_(pa.struct([("d", pa.dictionary(pa.int32(), pa.string())), ("x", pa.list_(pa.bool_(), 3))])),
        "interval": pa.month_day_nano_interval(),
    }  # fmt: skip
    day = dt.date(2020, 1, 2)
    values = {
        "i8": -5, "u16": 60000, "f16": 1.5, "f32": 0.25, "bool": True, "date32": day, "date64": day,
        "time": dt.time(1, 2, 3, 4), "duration": dt.timedelta(milliseconds=7), "tz": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        "dec": decimal.Decimal("12.34"), "dec256": decimal.Decimal("1.234"), "fsb": b"abc", "utf8": "text", "large": "",
        "view": "a long text that has no room in a view", "binary": b"\0\1", "large_binary": b"x" * 50,
        "binary_view": b"y" * 13, "dict": "entry", "list": [1, None, 3], "large_list": ["a", None], "fsl": [1.5, 2.5],
        "struct": {"a": 1, "b": ["x", "y"]}, "nested": [{"d": "e", "x": [True, False, None]}, {"d": None, "x": None}],
        "interval": pa.MonthDayNano([1, 2, 3]),
    }  # fmt: skip
    schema = pa.schema(fields)
    empty = dict.fromkeys(fields)
    whole = pa.table({name: pa.array([values[name], None, values[name]], fields[name]) for name in fields}, schema)
    with aw.writer(path, schema) as writer:
        for count in range(1, 40):
            writer.append(whole.slice(0, count % 4))
            writer.append(whole.slice(2, 1))
            writer.commit()
        flat = {name: value for name, value in values.items() if not pa.types.is_nested(fields[name])}
        writer.append_row(**{name: value for name, value in flat.items() if name != "interval"})
        writer.append_row(**empty)
    found = pa.table(aw.open(path))
    found.validate(full=True)
    expected = pa.concat_tables(
        [whole.slice(start, n) for count in range(1, 40) for start, n in [(0, count % 4), (2, 1)]]
    )
    assert found.slice(0, len(expected)).to_pylist() == expected.to_pylist()
    assert found.to_pylist()[-1] == empty
    for file in path.iterdir():
        for source in [pa.memory_map(str(file)), pa.OSFile(str(file))]:
            theirs = pa.ipc.open_file(source).read_all()
            theirs.validate(full=True)
            assert theirs.to_pylist() == found.to_pylist()


@pytest.mark.parametrize(
    "data",
    [pa.run_end_encoded(pa.int32(), pa.int8()), pa.dictionary(pa.int8(), pa.bool_()),
     pa.dictionary(pa.int32(), pa.list_(pa.int8()))],
)  # fmt: skip
def test_types_that_do_not_grow_are_refused_at_creation(path, data):
    with pytest.raises(aw.Unsupported, match="column 'x'.*can't grow"):
        aw.writer(path, pa.schema([("x", data)]))


def test_segments_roll_over_and_snapshots_stay(path):
    snapshots = []
    with aw.writer(path, SCHEMA, segment_rows=100, sync="never") as writer:
        dataset = aw.open(path)
        done = 0
        for step in [1, 99, 1, 250, 3, 1000, 46, 100, 100]:
            writer.append(table(done, done + step))
            writer.commit()
            done += step
            older, dataset = dataset, dataset.refresh()
            assert older is not dataset and dataset.refresh() is dataset
            assert len(dataset) == done
            snapshots.append((done, dataset))
            assert stock(path) == rows(0, done)
    assert len(list(path.iterdir())) == 16
    for count, snapshot in snapshots:
        assert snapshot.to_pylist() == rows(0, count)
        assert pa.table(snapshot).to_pylist() == rows(0, count)
    assert pa.dataset.dataset(path, format="ipc").to_table().to_pylist() == rows(0, done)
    assert dataset[150] == rows(150, 151)[0] and dataset[-1] == rows(done - 1, done)[0]
    assert dataset["qty"].sum() == sum(range(done))
    assert dataset[95:305].to_pylist() == rows(95, 305)
    assert len(dataset.messages) >= 16 and dataset.num_batches == 16


def test_reopened_tables_go_on(path):
    for run in range(6):
        with aw.writer(
            path, SCHEMA if run % 2 == 0 else None, dictionary=["symbol"] if run % 2 == 0 else None
        ) as writer:
            assert writer.rows == 37 * run == writer.durable_rows or run == 0
            writer.append(table(37 * run, 37 * run + 37))
    assert aw.open(path).to_pylist() == rows(0, 37 * 6)
    assert stock(path) == rows(0, 37 * 6)


def test_compact_and_drop_while_readers_go_on(path):
    with aw.writer(path, SCHEMA, segment_rows=50, dictionary=["symbol"], sorted_by="ts") as writer:
        writer.append(table(0, 230))
        writer.commit()
        before, follower = aw.open(path), aw.follow(path, start=100, timeout=0.05)
        late = aw.follow(path, start=0)
        assert writer.compact() == 4
        assert aw.open(path).to_pylist() == before.to_pylist() == rows(0, 230)
        assert writer.drop_before(120) == 100
        after = aw.open(path)
        assert after.first_row == 100 and after.to_pylist() == rows(100, 230)
        assert before.to_pylist() == rows(0, 230)
        now = before.refresh()
        assert now.first_row == 100 and now.refresh() is now and now.to_pylist() == after.to_pylist()
        writer.append(table(230, 400))
        writer.commit()
        assert before.refresh().first_row == 100
        assert next(follower).first_row == 100
        with pytest.raises(aw.RowOutOfRange, match="100 rows were dropped"):
            next(late)
    with pytest.raises(StopIteration):
        next(follower)
    assert aw.compact(path) > 0 and aw.compact(path) == 0
    assert aw.open(path).to_pylist() == stock(path) == rows(100, 400)
    opened = aw.open(path)
    assert opened.sorted_by == "ts"
    with aw.writer(path) as writer:
        assert writer.rows == 400
        with pytest.raises(aw.InvalidArgument, match="'ts', row 0"):
            writer.append(rows(5, 6))
        writer.append(rows(400, 410))
    assert opened.refresh().to_pylist() == rows(100, 410)


def test_a_failed_append_leaves_the_table_as_it_was(path):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=64) as writer:
        writer.append(table(0, 100))
        writer.commit()
        good = rows(100, 103)
        for change, error, message in [
            ({"qty": None}, aw.InvalidArgument, "qty.*row 1.*null"),
            ({"qty": "x"}, TypeError, "column 'qty', row 1"),
            ({"price": "x"}, TypeError, "column 'price', row 1"),
            ({"ts": EPOCH}, aw.InvalidArgument, "column 'ts', row 1.*less"),
            ({"ts": None}, aw.InvalidArgument, "ts.*row 1"),
            ({"other": 1}, aw.ColumnNotFound, "other"),
        ]:
            bad = [good[0], good[1] | change, good[2]]
            with pytest.raises(error, match=message):
                writer.append(bad)
            assert writer.rows == 100
            with pytest.raises(
                (error, aw.InvalidArgument), match=message.split(".*")[0].split(",")[0].strip("column' ")
            ):
                writer.append_row(**bad[1])
            assert writer.rows == 100
        with pytest.raises(TypeError, match="column 'price', row 0"):
            writer.append(pa.table({"ts": table(0, 1)["ts"], "qty": [1], "symbol": ["x"], "price": ["text"]}))
        with pytest.raises(aw.SchemaMismatch, match="qty"):
            writer.append({"ts": [EPOCH]})
        with pytest.raises(aw.InvalidArgument, match="length|has"):
            writer.append({"ts": [EPOCH], "qty": [1, 2]})
        writer.append(good)
        writer.rollback()
        assert writer.rows == 100
        writer.append(table(100, 300))
        writer.rollback()
        writer.append(table(100, 110))
    assert aw.open(path).to_pylist() == stock(path) == rows(0, 110)


def test_an_exception_rolls_back(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 10))
    with pytest.raises(KeyError), aw.writer(path) as writer:
        writer.append(table(10, 20))
        raise KeyError
    assert aw.open(path).to_pylist() == stock(path) == rows(0, 10)
    for use in [writer.commit, writer.sync, lambda: writer.append(table(0, 1)), lambda: writer.rows]:
        with pytest.raises(aw.Closed, match="closed"):
            use()
    writer.close()


def test_a_replica_takes_no_positions_until_it_is_promoted(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 10))
        # `arrowwood pull` records the origin of rows.
        writer.commit(positions={"arrowwood/numbering": 7})
    with aw.writer(path) as writer:
        writer.append(table(10, 20))
        for durable in (False, True):
            with pytest.raises(aw.InvalidArgument, match="arrowwood promote TABLE"):
                writer.commit(positions={"kafka/0": 5}, durable=durable)
        assert len(aw.open(path)) == 10 and "kafka/0" not in writer.positions
        # Rows without positions are never repetitions.
        writer.commit()
        writer.promote({"kafka/0": 5})
        assert aw.open(path).positions["kafka/0"] == 5 and writer.durable_rows == 20
        with pytest.raises(aw.InvalidArgument, match="no replica, or was promoted"):
            writer.promote()
        writer.append(table(20, 30))
        writer.commit(positions={"kafka/0": 6})
    assert aw.open(path).positions["kafka/0"] == 6
    assert aw.open(path).to_pylist() == rows(0, 30)
    with aw.writer(path) as writer, pytest.raises(aw.InvalidArgument, match="no replica"):
        writer.promote({"kafka/0": 0})
    assert aw.open(path).positions["kafka/0"] == 6


def test_opening_says_what_is_wrong(path, tmp_path):
    with pytest.raises(aw.NotFound, match="no schema"):
        aw.writer(path)
    with aw.writer(path, SCHEMA) as writer:
        with pytest.raises(aw.Busy, match=f"process {os.getpid()}"):
            aw.writer(path)
        assert len(aw.open(path)) == writer.rows
    other = SCHEMA.set(2, pa.field("price", pa.float32()))
    with pytest.raises(aw.SchemaMismatch, match="'price' is float64 and float32"):
        aw.writer(path, other)
    with pytest.raises(aw.SchemaMismatch, match="'qty' is int64 and utf8"):
        aw.writer(path, SCHEMA.set(3, pa.field("qty", pa.string())))
    with pytest.raises(aw.ColumnNotFound, match="'nope'"):
        aw.writer(tmp_path / "other", SCHEMA, sorted_by="nope")
    with pytest.raises(aw.ColumnNotFound, match="'nope'"):
        aw.writer(tmp_path / "other", SCHEMA, dictionary=["nope"])
    with pytest.raises(aw.InvalidArgument, match="sync must be"):
        aw.writer(path, sync="often")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(aw.InvalidArgument, match="other files"):
        aw.writer(tmp_path / "mine", SCHEMA)
    with pytest.raises(aw.InvalidArgument, match="a file"):
        aw.writer(tmp_path / "mine" / "notes.txt", SCHEMA)


def test_between(path):
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=30) as writer:
        writer.append(pa.concat_tables([table(0, 100), table(99, 100), table(99, 100)]))
    found = aw.open(path)
    at = lambda i: EPOCH + dt.timedelta(microseconds=i)
    assert found.between(at(25), at(65))["qty"].to_pylist() == list(range(25, 66))
    assert len(found.between(at(99), at(1000))) == 3
    assert len(found.between(at(-5), at(-1))) == len(found.between(at(7), at(6))) == 0
    assert found.between(10, 12)["qty"].to_pylist() == [10, 11, 12]
    assert found.select(["qty"]).between(at(3), at(4)).to_pylist() == [{"qty": 3}, {"qty": 4}]
    assert found[50:].between(at(45), at(52))["qty"].to_pylist() == [50, 51, 52]
    with pytest.raises((aw.InvalidArgument, TypeError)):
        found.between("a", "b")
    with pytest.raises(aw.InvalidArgument, match="sorted_by"):
        aw.from_arrow(table(0, 3)).between(1, 2)


def test_values_larger_than_a_segment(path):
    schema = pa.schema([("text", pa.string()), ("items", pa.list_(pa.int64()))])
    large = "x" * 3_000_000
    with aw.writer(path, schema, segment_rows=1000) as writer:
        writer.append([{"text": "a", "items": [1]}])
        for i in range(5):
            writer.append([{"text": large + str(i), "items": list(range(200_000))}])
            writer.append_row(text=large + str(i), items=None)
        writer.commit()
    found = aw.open(path)
    assert [len(text) for text in found["text"].to_pylist()] == [1] + [3_000_001] * 10
    assert found[1]["items"] == list(range(200_000))
    assert len(list(path.iterdir())) > 1


def test_follow_gets_every_row_once(path):
    with aw.writer(path, SCHEMA, segment_rows=70) as writer:
        seen = []

        def read():
            for new in aw.follow(path, start=0, timeout=PATIENCE):
                seen.extend(new["qty"].to_pylist())
                if len(seen) >= 2000:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        for i in range(200):
            writer.append(table(10 * i, 10 * i + 10))
            writer.commit()
        join(reader)
    assert seen == list(range(2000))


def test_follow_ends_after_its_timeout(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 3))
        writer.commit()
        assert list(aw.follow(path, timeout=0.01)) == []
        assert [len(found) for found in aw.follow(aw.open(path), start=1, timeout=0.01)] == [2]
    with pytest.raises(aw.InvalidArgument, match="whole table"):
        aw.follow(aw.from_arrow(table(0, 1)))


WRITE = """
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


def test_a_killed_writer_loses_nothing_that_was_committed(path):
    acknowledged = 0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            acknowledged = int(line)
            if acknowledged % 1000 > 900:
                break
        with pytest.raises(aw.Busy, match=f"process {child.pid}"):
            aw.writer(path)
        child.kill()
        acknowledged = max([acknowledged] + [int(line) for line in child.stdout.read().split("\n")[:-1]])
        child.wait()
        found = aw.open(path)
        assert acknowledged <= len(found) and len(found) % 7 == 0
        assert found["n"].to_pylist() == list(range(len(found)))
        with aw.writer(path) as writer:
            # The next writer finishes a commit that was prepared.
            assert writer.rows - len(found) in (0, 7)
            assert len(aw.open(path)) == writer.rows


def test_a_fork_is_refused(path):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 5))
        writer.commit()

        def child(results):
            try:
                writer.append(table(5, 6))
                results.put("appended")
            except aw.Busy as error:
                results.put(str(error))
            results.put(len(aw.open(path)))

        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        process = context.Process(target=child, args=(results,))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert "fork" in results.get() and results.get() == 5
        writer.append(table(5, 6))
    assert len(aw.open(path)) == 6


def test_readers_need_no_right_to_write(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 5))
        writer.commit()
        for file in path.iterdir():
            file.chmod(0o444)
        path.chmod(0o555)
        try:
            assert aw.open(path).to_pylist() == rows(0, 5)
            follower = aw.follow(path, timeout=PATIENCE)
            writer.append(table(5, 6))
            writer.commit()
            assert len(next(follower)) == 1
        finally:
            path.chmod(0o755)


def test_stock_readers_see_a_commit_soon(path):
    """Many commits in no time: the last of them is published by a timer."""
    with aw.writer(path, SCHEMA) as writer:
        for i in range(3000):
            writer.append_row(**rows(i, i + 1)[0])
            writer.commit()
        wait_until(lambda: len(stock(path)) >= 3000, "stock readers see the last commit")
        assert stock(path) == rows(0, 3000)


def test_a_stream_reader_gets_an_error(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append(table(0, 5))
    data = next(path.iterdir()).read_bytes()
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(data[8:]).read_all()


def test_columns_over_full_segments_are_one_array(path):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("x", pa.float32()), ("text", pa.string())])
    count = 600_000
    numbers = np.arange(count)
    batch = pa.table({"n": numbers, "x": numbers.astype("float32"), "text": numbers.astype(str)}, schema)
    with aw.writer(path, schema) as writer:
        writer.append(batch)
        writer.commit()
        found = aw.open(path)
        assert found.num_batches == 4
        for name, dtype in [("n", "int64"), ("x", "float32")]:
            values = found[name].to_numpy(copy=False)
            assert values.dtype == dtype and (values == numbers).all()
            assert (found[name][70_000:500_000].to_numpy(copy=False) == numbers[70_000:500_000]).all()
        writer.append(batch.slice(0, 1))
        writer.commit()
        assert (values == numbers).all()
        assert found.refresh()["n"].to_numpy(copy=False)[-1] == 0
        writer.append_row(n=1, x=None, text="")
        writer.commit()
        newest = found.refresh()
        assert newest["n"].to_numpy(copy=False)[-1] == 1
        with pytest.raises(aw.CopyNeeded):
            newest["x"].to_numpy(copy=False)
        assert np.isnan(newest["x"].to_numpy()[-1])
    assert aw.compact(path) == 4
    merged = aw.open(path)
    assert merged.num_batches == 1 and merged["n"].to_numpy(copy=False)[-1] == 1


# ---- found by a review ----


def test_integers_stand_for_times_in_the_unit_of_the_column(path):
    with aw.writer(path, SCHEMA) as writer:
        writer.append_row(ts=1, qty=1)
        writer.append({"ts": [2, 3], "qty": [2, 3]})
        writer.append([{"ts": 4, "qty": 4}])
        with pytest.raises(TypeError, match="'ts'"):
            writer.append(pa.table({"ts": [5], "qty": [5]}))
    assert aw.open(path)["ts"].to_pylist() == [row["ts"] for row in rows(1, 5)]


def test_a_first_row_larger_than_the_first_segment(path):
    schema = pa.schema([("s", pa.string()), ("items", pa.list_(pa.int64()))])
    large = "x" * 6_000_000
    with aw.writer(path, schema) as writer:
        early = aw.open(path)
        writer.append([{"s": large, "items": list(range(9_000_000))}])
        writer.commit()
        assert len(early.refresh()) == 1
        writer.append([{"s": "y", "items": []}])
    assert [len(text) for text in aw.open(path)["s"].to_pylist()] == [6_000_000, 1]
    with aw.writer(path) as writer:
        writer.append([{"s": large * 2, "items": None}])
    assert len(aw.open(path)) == 3 and len(aw.open(path)[0]["items"]) == 9_000_000


def test_a_first_row_larger_than_the_first_segment_one_by_one(path):
    with aw.writer(path, pa.schema([("s", pa.string())])) as writer:
        writer.append_row(s="x" * 5_000_000)
        writer.append_row(s="y")
        writer.commit()
        assert [len(row["s"]) for row in stock(path)] == [5_000_000, 1]


def test_a_writer_stays_in_its_folder(tmp_path, monkeypatch):
    for name in ["a", "b"]:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with aw.writer("ticks", SCHEMA, segment_rows=4) as writer:
            writer.append(table(0, 3))
    monkeypatch.chdir(tmp_path / "a")
    reader = aw.open("ticks")
    with aw.writer("ticks", segment_rows=4) as writer:
        monkeypatch.chdir(tmp_path / "b")
        writer.append(table(3, 30))
    assert reader.refresh().to_pylist() == aw.open(tmp_path / "a" / "ticks").to_pylist() == rows(0, 30)
    assert aw.open(tmp_path / "b" / "ticks").to_pylist() == rows(0, 3)


def test_a_null_below_a_value_is_refused_where_there_are_none(path):
    kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    items = pa.list_(pa.field("item", pa.int64(), nullable=False))
    with aw.writer(path, pa.schema([("s", kind), ("l", items)])) as writer:
        struct = pa.StructArray.from_arrays(
            [pa.array([None, None, 9])], fields=[pa.field("a", pa.int64())], mask=pa.array([True, False, False])
        )
        lists = pa.array([None, [1], []], pa.list_(pa.int64()))
        with pytest.raises((aw.InvalidArgument, TypeError), match="row 1"):
            writer.append(pa.table({"s": struct, "l": lists}))
        fine = pa.StructArray.from_arrays(
            [pa.array([None, 8, 9])], fields=[pa.field("a", pa.int64())], mask=pa.array([True, False, False])
        )
        writer.append(pa.table({"s": fine, "l": lists}))
    assert aw.open(path)["s"].to_pylist() == [None, {"a": 8}, {"a": 9}]


def test_columns_of_one_name_are_refused(path):
    with pytest.raises(aw.InvalidArgument, match="two columns are called 'a'"):
        aw.writer(path, pa.schema([("a", pa.int64()), ("a", pa.int64())]))
    assert not path.exists()


@pytest.mark.parametrize(
    ("kind", "values"),
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
def test_order_is_kept_however_rows_come(path, kind, values):
    first, less, more = values
    one = lambda value: pa.table({"x": pa.array([value], kind)})
    with aw.writer(path, pa.schema([("x", kind)]), sorted_by="x") as writer:
        for append in [lambda value: writer.append_row(x=value), lambda value: writer.append(one(value))]:
            writer.append_row(x=first)
            with pytest.raises(aw.InvalidArgument):
                append(less)
            append(first)
            append(more)
            writer.rollback()
            writer.append(one(first))
            with pytest.raises(aw.InvalidArgument):
                append(less)
            append(more)
            writer.rollback()
        writer.append(one(first))
    with aw.writer(path) as writer:
        with pytest.raises(aw.InvalidArgument):
            writer.append(one(less))
        with pytest.raises(aw.InvalidArgument):
            writer.append_row(x=less)
        writer.append_row(x=more)
    # No float of 32 bits is 1.1: the nearest one is stored.
    first = aw.open(path)["x"][0] if kind == pa.float32() else first
    assert len(aw.open(path).between(first, first)) == 1
    assert len(aw.open(path).between(less, first)) == 1


def test_a_child_of_a_fork_does_not_keep_the_lock(path):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    writer = aw.writer(path, SCHEMA)
    # The child ends when all write ends of its pipe are closed.
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writes)
        os.read(reads, 1)
        os._exit(0)
    try:
        writer.close()
        aw.writer(path).close()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(reads)
        os.close(writes)


def test_odd_times_between_syncs_are_refused(path):
    for sync in [0, False, True, -1, float("nan")]:
        with pytest.raises(aw.InvalidArgument, match="sync must be"):
            aw.writer(path, SCHEMA, sync=sync)


def test_settings_of_another_table_are_not_taken_over(path, tmp_path):
    with aw.writer(path, SCHEMA, sorted_by="ts") as writer:
        writer.append(table(0, 5))
    aw.compact(path)
    with aw.writer(tmp_path / "other", aw.open(path).schema) as writer:
        writer.append(pa.concat_tables([table(3, 5), table(0, 2)]))
    aw.compact(tmp_path / "other")
    assert aw.open(tmp_path / "other").sorted_by is None


def test_retention_that_outruns_a_reader(path):
    with aw.writer(path, SCHEMA, segment_rows=4) as writer:
        writer.append(table(0, 6))
    aw.compact(path)
    whole = aw.open(path)
    with aw.writer(path) as writer:
        late = aw.open(path)
        writer.append(table(6, 26))
        writer.commit()
        assert writer.drop_before(12) > 0
        assert whole.refresh().to_pylist() == aw.open(path).to_pylist()
        with pytest.raises(aw.NotFound, match="drop_before"):
            late.to_pylist()


def test_a_link_to_a_table(path, tmp_path):
    with aw.writer(path, SCHEMA, segment_rows=10) as writer:
        writer.append(table(0, 25))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "here").symlink_to(path)
    assert aw.compact(tmp_path / "links" / "here") == 3
    assert aw.open(tmp_path / "links" / "here").to_pylist() == rows(0, 25)


def test_a_copy_of_a_table_that_is_being_written_opens(path, tmp_path):
    import shutil

    with aw.writer(path, pa.schema([("n", pa.int64())])) as writer:
        stop = threading.Event()

        def write():
            n = 0
            while not stop.is_set():
                writer.append_row(n=n)
                writer.commit()
                n += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for i in range(10):
                shutil.copytree(path, tmp_path / f"copy{i}")
        finally:
            stop.set()
            thread.join()
    for i in range(10):
        found = aw.open(tmp_path / f"copy{i}")["n"].to_pylist()
        assert found == list(range(len(found)))


def test_late_rows_are_put_in_order(tmp_path):
    path = str(tmp_path / "load")
    schema = "ts: timestamp[ms] not null, host: utf8"
    with aw.writer(path, schema, sorted_by="ts", late="accept", segment_rows=4) as writer:
        for second in [1, 5, 3, 2, 8, 6, 4, 9, 7, 10]:
            writer.append({"ts": [f"2026-01-01T00:00:{second:02}"], "host": [str(second)]})
        writer.commit()
        held = aw.open(path)
        assert writer.compact(sort=True) > 0
        hosts = aw.open(path)["host"].to_pylist()
        assert hosts[:8] == ["1", "2", "3", "4", "5", "6", "8", "9"] and hosts[8:] == ["7", "10"], (
            "the live segment stays"
        )
        with pytest.raises(aw.FileChanged, match="open the table again"):
            held["host"].to_pylist()
    assert aw.compact(path, sort=True, rewrite=True) > 0
    assert aw.open(path)["host"].to_pylist() == [str(second) for second in range(1, 11)]
    assert aw.compact(path, sort=True) == 0
    plain = str(tmp_path / "plain")
    with aw.writer(plain, schema) as writer, pytest.raises(aw.InvalidArgument, match="sorted_by"):
        writer.compact(sort=True)


def test_aggregations_go_on_with_new_rows(tmp_path):
    path = tmp_path / "ticks"
    with aw.writer(path, "symbol: category, price: float64, qty: int64") as writer:
        board = aw.aggregation(
            path, by="symbol", where=aw.col("qty") > 0, mean="price", last="price", n="count", most=("qty", "max")
        )
        assert board.refresh().to_pylist() == [] and board.rows_read == 0
        rng = np.random.default_rng(0)
        for count in [1, 10, 20_000, 0, 30_000, 5]:
            price = rng.normal(0, 1e6, count)
            qty = rng.integers(-5, 100, count)
            writer.append({"symbol": [f"S{n}" for n in rng.integers(0, 9, count)], "price": price, "qty": qty})
            writer.commit()
            found = board.refresh()
            expected = aw.open(path).aggregate(
                by="symbol",
                where=aw.col("qty") > 0,
                mean=("price", "mean"),
                last=("price", "last"),
                n="count",
                most=("qty", "max"),
            )
            assert found.to_pylist() == expected.to_pylist() and found.schema == expected.schema
            assert board.rows_read < count + 16_384 and len(board.dataset) == len(aw.open(path))
        frame = pl.DataFrame(aw.open(path).to_arrow()).filter(pl.col("qty") > 0)
        lasts = frame.group_by("symbol", maintain_order=True).agg(
            last=pl.col("price").last(), first=pl.col("price").first()
        )
        ours = aw.open(path).aggregate("symbol", where=aw.col("qty") > 0, last="price", first="price")
        assert ours.to_pylist() == [
            {"symbol": row["symbol"], "last": row["last"], "first": row["first"]} for row in lasts.to_dicts()
        ]
    with pytest.raises(aw.Unsupported, match="median can't be kept up to date"):
        aw.aggregation(path, by="symbol", price="median")
    with pytest.raises(aw.NotFound):
        aw.aggregation(tmp_path / "missing", by="symbol", n="count")
    with pytest.raises(aw.InvalidArgument, match="expected 'sum'"):
        aw.aggregation(path, middle="price")
