"""Tests tables in services: writers that wait, schemas and times as text, followers, asyncio, and retention."""

import asyncio
import datetime as dt
import json
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, asleep, join, until

UTC = dt.UTC
START = dt.datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "ts: timestamp[us, UTC] not null, n: int64"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


def seconds_after_start(seconds):
    return START + dt.timedelta(seconds=seconds)


def create_table(path, row_count=1000, **options):
    """Creates a table with a row per second, in segments of 100 rows."""
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=100, **options) as writer:
        writer.append({"ts": [seconds_after_start(n) for n in range(row_count)], "n": range(row_count)})
    return path


def commit_row(writer, **row):
    writer.append_row(**row)
    writer.commit()


def read_numbers(follower):
    """Returns the numbers of all rows of a follower until its timeout."""
    return [n for rows in follower for n in rows["n"].to_pylist()]


# ---- writers ----


def test_writer_waits_for_another(path):
    first = aw.writer(path, "n: int64")
    with pytest.raises(aw.Busy, match="being written by process"):
        aw.writer(path, wait=0.05)
    opened = []
    thread = asleep(lambda: opened.append(aw.writer(path, wait=PATIENCE)))
    assert opened == []
    first.close()
    join(thread)
    with opened[0] as second:
        second.append_row(n=1)


@pytest.mark.parametrize("wait", [-1, float("nan")])
def test_invalid_wait_is_refused(path, wait):
    with pytest.raises(aw.InvalidArgument, match="wait: expected a number of seconds"):
        aw.writer(path, "n: int64", wait=wait)


WORKER = """
import sys, arrowwood as aw
path, worker, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
for n in range(20):
    with aw.writer(path, "worker: int64, n: int64", wait=wait) as writer:
        writer.append_row(worker=worker, n=n)
"""


def test_processes_take_turns_at_writing(path):
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, path, str(worker), str(PATIENCE)]) for worker in range(4)
    ]
    assert [process.wait() for process in processes] == [0] * 4
    rows = aw.open(path).to_pylist()
    assert len(rows) == 80
    for worker in range(4):
        assert [row["n"] for row in rows if row["worker"] == worker] == list(range(20))


CREATE_TABLE = """
import sys
import arrowwood as aw
with aw.writer(sys.argv[1], "n: int64", wait=float(sys.argv[2])) as writer:
    writer.append({"n": [1, 2]})
"""


def test_processes_that_create_a_table_at_once_take_turns(tmp_path):
    """Creation used to fail if another process made the folder at the same moment."""
    for number in range(5):
        path = tmp_path / f"t{number}"
        command = [sys.executable, "-c", CREATE_TABLE, str(path), str(PATIENCE)]
        processes = [subprocess.Popen(command) for _ in range(4)]
        assert [process.wait(PATIENCE) for process in processes] == [0] * 4
        assert len(aw.open(path)) == 8


def test_waiting_for_uncommitted_rows_is_refused(path):
    with aw.writer(path, "n: int64") as writer:
        writer.append({"n": [1, 2]})
        with pytest.raises(aw.InvalidArgument, match="2 durable rows, and 0 are committed"):
            writer.wait_durable(2)
        writer.commit()
        writer.wait_durable(2)
        assert writer.durable_rows == 2


# ---- schemas, times and JSON ----


def test_schema_is_text_a_dict_or_arrow(tmp_path):
    expected = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), False), pa.field("n", pa.int64())])
    types = {"ts": "timestamp[us, UTC] not null", "n": "int64"}
    for number, schema in enumerate((SCHEMA, types, expected)):
        aw.writer(tmp_path / str(number), schema).close()
        assert pa.schema(aw.open(tmp_path / str(number)).schema) == expected
    builder = aw.Builder('a: list<int8>, "b c": float')
    builder.append_row(**{"a": [1], "b c": 2.5})
    assert builder.finish().to_pylist() == [{"a": [1], "b c": 2.5}]
    aw.write({"n": [1]}, tmp_path / "n.arrow", schema={"n": "int8"})
    assert aw.open(tmp_path / "n.arrow").dtypes == ["int8"]


def test_invalid_schema_is_refused(path):
    for schema, error, message in (
        ("n int64", aw.InvalidArgument, "at character 1"),
        ({"n": "in64"}, aw.InvalidArgument, "column 'n': expected a type"),
        ({"n": "int64, m: int64"}, TypeError, "expected the type of column n"),
        ({"n": int}, TypeError, "as text such as"),
        (7, TypeError, "expected text such as"),
    ):
        with pytest.raises(error, match=message):
            aw.writer(path, schema)
    assert not path.exists()


def test_schema_may_have_text_for_a_dictionary_of_the_table(path):
    aw.writer(path, "n: int64, user: utf8", dictionary=["user"]).close()
    with aw.writer(path, "n: int64, user: utf8") as writer:
        writer.append_row(n=1, user="a")
    assert aw.open(path).dtypes == ["int64", "dictionary<int32, utf8>"]
    # The error names only the column that differs.
    with pytest.raises(aw.SchemaMismatch, match="'user' is not in the given one"):
        aw.writer(path, "n: int64")


EVENTS = [
    '{"ts": "2026-01-01T00:00:00Z", "day": "2026-01-01", "at": "08:30:00.5", "local": "2026-01-01T08:30:00"}',
    '{"ts": "2026-01-01T02:00:01.000002+01:00", "day": null, "at": null, "local": "2026-01-02"}',
]
TIMES_SCHEMA = "ts: timestamp[us, UTC] not null, day: date, at: time, local: timestamp[ms]"


def test_times_as_text_are_appended_like_by_the_command(path, tmp_path):
    events = [json.loads(event) for event in EVENTS]
    with aw.writer(path, TIMES_SCHEMA) as writer:
        writer.append(events)
        writer.append_row(**events[1])
        writer.append({"ts": [event["ts"] for event in events]})
    by_command = tmp_path / "by_command"
    aw.writer(by_command, TIMES_SCHEMA).close()
    command = [sys.executable, "-m", "arrowwood._cli", "append", by_command, "-"]
    subprocess.run(command, input="\n".join(EVENTS), text=True, check=True, cwd=tmp_path)
    rows = aw.open(path).to_pylist()
    assert rows[:2] == aw.open(by_command).to_pylist() and rows[2] == rows[1]
    assert rows[0]["ts"] == START and rows[0]["at"] == dt.time(8, 30, 0, 500_000)
    assert rows[1]["ts"] == START + dt.timedelta(hours=1, seconds=1, microseconds=2)
    assert [row["ts"] for row in rows[3:]] == [row["ts"] for row in rows[:2]]


def test_invalid_times_as_text_are_refused(path):
    with aw.writer(path, TIMES_SCHEMA) as writer:
        for row, message in (
            ({"ts": "soon"}, "expected timestamp"),
            ({"ts": "2026-01-01T00:00:00"}, "has a time zone"),
            ({"ts": "2026-01-01"}, "has a time zone"),
            ({"ts": START, "local": "2026-01-01T00:00:00Z"}, "expected timestamp"),
            ({"ts": START, "day": "2026-02-30"}, "expected date32"),
            ({"ts": START, "at": "25:00:00"}, "expected time64"),
        ):
            with pytest.raises(TypeError, match=message):
                writer.append([row])
            with pytest.raises(TypeError, match=message):
                writer.append_row(**row)
        with pytest.raises(aw.InvalidArgument, match="does not fit"):
            writer.append_row(ts=START, local="2026-01-01T00:00:00.000001")
        assert writer.rows == 0


def test_read_json_accepts_lines_and_arrays(tmp_path):
    path = tmp_path / "rows.json"
    rows = [{"n": 1, "text": 'a,]\n"b'}, {"n": 2, "text": None}]
    lines = "\n".join(json.dumps(row) for row in rows)
    for text in (lines, json.dumps(rows), json.dumps(rows, indent=2), "\ufeff" + json.dumps(rows)):
        path.write_text(text)
        assert aw.read_json(path).to_pylist() == rows
        with open(path) as file:
            assert aw.read_json(file, schema="n: int8, text: utf8", dictionary=["text"]).dtypes[0] == "int8"


def test_read_json_of_an_incomplete_or_missing_file_raises(tmp_path):
    (tmp_path / "rows.json").write_text('[{"n": 1}')
    with pytest.raises(aw.InvalidData, match="rows.json.*cut off"):
        aw.read_json(tmp_path / "rows.json")
    with pytest.raises(aw.NotFound):
        aw.read_json(tmp_path / "none.json")


# ---- followers ----


def test_follower_behind_dropped_rows_raises(path):
    create_table(path)
    with aw.writer(path) as writer:
        at_first_row = aw.follow(path, start=0, timeout=0)
        assert writer.drop_before(650) == 600
        with pytest.raises(aw.RowOutOfRange, match="from row 5: 595 rows were dropped .* is now is 600"):
            aw.follow(path, start=5)
        # The error is repeated, and the follower skips no rows.
        for _ in range(2):
            with pytest.raises(aw.RowOutOfRange, match="from row 0: 600 rows were dropped"):
                next(at_first_row)
        assert at_first_row.next_row == 0 and at_first_row.lag == 1000


def test_follower_that_has_read_all_rows_continues_after_a_drop(path):
    create_table(path)
    with aw.writer(path) as writer:
        follower = aw.follow(path, start=50, timeout=0)
        assert len(next(follower)) == 950
        rows = next(aw.follow(path, start=300, timeout=0))
        assert writer.drop_before(650) == 600
        # Rows that a follower has returned stay valid.
        assert rows["n"].to_pylist() == list(range(300, 1000))
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 1000}])
        writer.commit()
        assert read_numbers(follower) == [1000]
        new_follower = aw.follow(path, start=aw.open(path).first_row, timeout=0)
        assert read_numbers(new_follower) == list(range(600, 1001))


def test_overtaken_follower_raises(path):
    """The rows that it has not read yet are appended and dropped between two reads."""
    with aw.writer(path, "n: int64", segment_rows=100) as writer:
        follower = aw.follow(path, timeout=0)
        writer.append({"n": range(50)})
        writer.commit()
        assert len(next(follower)) == 50
        writer.append({"n": range(50, 1000)})
        writer.commit()
        writer.drop_before(800)
        with pytest.raises(aw.RowOutOfRange, match="from row 50: 750 rows were dropped"):
            next(follower)


@pytest.fixture
def three_tables(tmp_path):
    """The paths and writers of three tables with a row each, which has the table's number."""
    paths = [tmp_path / name for name in "abc"]
    writers = [aw.writer(path, "n: int64") for path in paths]
    for number, writer in enumerate(writers):
        commit_row(writer, n=number)
    yield paths, writers
    for writer in writers:
        writer.close()


def write_in_turns(writers, numbers):
    """Commits each number with the next writer."""
    for index, n in enumerate(numbers):
        commit_row(writers[index % len(writers)], n=n)


def test_follower_of_several_tables(three_tables):
    paths, writers = three_tables
    follower = aw.follow(paths, start=[0, None, 0], timeout=PATIENCE)
    assert follower.lag == 2 and follower.next_rows == [0, 1, 0]
    assert sorted(n for _ in range(2) for n in next(follower)["n"]) == [0, 2]
    with pytest.raises(aw.InvalidArgument, match="next_rows"):
        follower.next_row
    thread = threading.Thread(target=write_in_turns, args=(writers, range(100, 200)))
    thread.start()
    seen = []
    while len(seen) < 100:
        seen += next(follower)["n"].to_pylist()
    thread.join()
    assert sorted(seen) == list(range(100, 200))
    # Rows of one table come in order.
    for start in range(100, 103):
        assert [n for n in seen if n % 3 == start % 3] == list(range(start, 200, 3))
    assert follower.lag == 0 and sum(follower.next_rows) == 103
    # Another follower can continue from these rows.
    later = aw.follow([aw.open(path) for path in paths], start=follower.next_rows, timeout=0)
    assert list(later) == []


def test_follower_of_several_tables_checks_its_arguments(three_tables):
    paths, _ = three_tables
    with pytest.raises(aw.InvalidArgument, match="1 first rows for 3 tables"):
        aw.follow(paths, start=[0])
    with pytest.raises(aw.InvalidArgument, match="needs a table"):
        aw.follow([], start=None)


def test_between_searches_several_tables(tmp_path):
    paths = [create_table(tmp_path / name, row_count=250) for name in ("a", "b")]
    rows = aw.open(paths).between(seconds_after_start(5), "2026-01-01T00:00:07Z")
    assert rows["n"].to_pylist() == [5, 6, 7] * 2
    aw.writer(tmp_path / "unsorted", SCHEMA).close()
    with pytest.raises(aw.InvalidArgument, match="sorted_by"):
        aw.open([paths[0], tmp_path / "unsorted"]).between(1, 2)


def test_close_ends_a_waiting_follower(path):
    aw.writer(path, "n: int64").close()
    with aw.follow(path) as follower:
        results = []
        thread = asleep(lambda: results.append(list(follower)))
        follower.close()
        join(thread)
        assert results == [[]] and list(follower) == []
    with aw.follow(path) as follower:
        pass
    assert list(follower) == []


def test_lag_does_not_wait_for_a_waiting_follower(path):
    with aw.writer(path, "n: int64") as writer:
        follower = aw.follow(path, timeout=PATIENCE)
        results = []
        thread = asleep(lambda: results.append(next(follower)))
        assert follower.lag == 0
        writer.append({"n": range(3)})
        assert follower.lag == 0 and results == []
        writer.commit()
        join(thread)
        assert len(results[0]) == 3 and follower.lag == 0
        writer.append({"n": range(7)})
        assert follower.lag == 0
        writer.commit()
        assert follower.lag == 7 and follower.next_row == 3
        assert len(next(follower)) == 7 and follower.lag == 0 and follower.next_row == 10


# ---- followers with asyncio ----


async def read_thousand_rows(path, numbers):
    async for rows in aw.follow(path, start=0, timeout=PATIENCE):
        numbers += rows["n"].to_pylist()
        if len(numbers) == 1000:
            return


async def write_thousand_rows(writer, readers):
    """Commits 10 rows at a time, and waits after every other commit until all readers have its rows."""
    for end in range(10, 1001, 10):
        writer.append({"n": range(end - 10, end)})
        writer.commit()
        if end % 20 == 0:
            await until(lambda: all(len(numbers) == end for numbers in readers), "both have seen the commit")


def test_async_for_returns_every_row_once(path):
    async def main():
        readers = [], []
        with aw.writer(path, "n: int64", segment_rows=70) as writer:
            await asyncio.gather(
                *(read_thousand_rows(path, numbers) for numbers in readers), write_thousand_rows(writer, readers)
            )
        return readers

    assert asyncio.run(main()) == (list(range(1000)), list(range(1000)))


def follower_threads():
    """Returns the threads in which tasks wait for rows."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("arrowwood-follow")}


def test_async_for_ends_after_its_timeout(path):
    aw.writer(path, "n: int64").close()

    async def main():
        return [rows async for rows in aw.follow(path, timeout=0.05)]

    assert asyncio.run(main()) == []


def test_async_for_ends_when_the_follower_is_closed(path):
    aw.writer(path, "n: int64").close()

    async def close_when_waiting(follower, threads_before):
        await until(lambda: follower_threads() - threads_before, "a task waits for rows")
        follower.close()

    async def main():
        follower = aw.follow(path)
        closing = asyncio.create_task(close_when_waiting(follower, follower_threads()))
        rows = [rows async for rows in follower]
        await closing
        return rows

    assert asyncio.run(main()) == []


# Cancels tasks that wait for rows, and prints the rows that the next task gets each time.
CANCEL_TASKS = """
import asyncio, sys, threading
import arrowwood as aw
from arrowwood import _follow
from waits import is_asleep, until

class CountingPool:
    # The thread of a follower; counts how many waits for rows have begun and ended.
    begun = ended = 0

    def __init__(self, pool):
        self.pool = pool

    def submit(self, work, *arguments):
        def wait():
            CountingPool.begun += 1
            work(*arguments)
            CountingPool.ended += 1
        return self.pool.submit(wait)

make_pool = _follow._thread
_follow._thread = lambda follow: CountingPool(make_pool(follow))

def is_waiting(wait_number):
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("arrowwood-follow")]
    return CountingPool.begun == wait_number and all(map(is_asleep, threads))

def commit_row(writer, n):
    writer.append_row(n=n)
    writer.commit()

async def main(path):
    writer = aw.writer(path, "n: int64")
    follower = aw.follow(path)

    async def read_next():
        return await anext(follower)

    # Cancels a task when it has begun, during its first wait, and during its second one.
    for waits in (0, 1, 2):
        begun_before = CountingPool.begun
        task = asyncio.create_task(read_next())
        await asyncio.sleep(0)
        if waits:
            await until(lambda: is_waiting(begun_before + waits), f"it waits for the {waits}. time")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        else:
            raise SystemExit("it was not cancelled")
        commit_row(writer, 1)
        commit_row(writer, 2)
        if waits:
            await until(lambda: CountingPool.begun == CountingPool.ended, "the thread has rows, or has given up")
        numbers = []
        while len(numbers) < 2:
            numbers += (await anext(follower))["n"].to_pylist()
        print(numbers)
    # A task that still waits does not keep the process from ending.
    begun_before = CountingPool.begun
    asyncio.create_task(read_next())
    await until(lambda: CountingPool.begun > begun_before, "it waits")

asyncio.run(main(sys.argv[1]))
"""


def test_cancelled_task_loses_no_row_and_does_not_block_exit(path):
    command = [sys.executable, "-c", CANCEL_TASKS, path]
    # The program imports `waits` from this folder.
    env = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    process = subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE)
    assert (process.stdout, process.stderr, process.returncode) == ("[1, 2]\n" * 3, "", 0)


# ---- retention ----


@pytest.mark.parametrize(
    "bound", [seconds_after_start(650), "2026-01-01T00:10:50Z", "2026-01-01T01:10:50+01:00", 650], ids=str
)
def test_drop_before_a_time_or_row_drops_whole_segments(path, bound):
    create_table(path)
    with aw.writer(path) as writer:
        assert writer.drop_before(bound) == 600
        assert aw.open(path).first_row == 600
        assert writer.drop_before(bound) == 0


def test_drop_before_keeps_the_segment_being_written(path):
    create_table(path)
    with aw.writer(path) as writer:
        assert writer.drop_before(START + dt.timedelta(days=400)) == aw.open(path).first_row >= 900


def test_drop_before_an_invalid_bound_drops_nothing(path):
    create_table(path)
    with aw.writer(path) as writer:
        for bound in ("soon", dt.datetime(2026, 1, 2), [1], None, -1):
            with pytest.raises((aw.InvalidArgument, TypeError)):
                writer.drop_before(bound)
        assert aw.open(path).first_row == 0


def test_drop_before_a_time_needs_a_sorted_table(path):
    with aw.writer(path, SCHEMA) as writer, pytest.raises(aw.InvalidArgument, match="created with sorted_by"):
        writer.drop_before(START)


@pytest.mark.parametrize("keep", ["5min", "300 s", dt.timedelta(minutes=5), "0.0034722222222222222 d"], ids=str)
def test_writer_keeps_rows_for_a_time(path, keep):
    create_table(path)
    with aw.writer(path, keep=keep) as writer:
        writer.append([{"ts": seconds_after_start(1000), "n": 1000}])
        writer.commit()
        ds = aw.open(path)
        # Whole segments are dropped: the oldest one that stays may begin with older rows.
        assert ds.first_row == 700 and ds[0]["n"] == 700
        assert len(ds.between(seconds_after_start(700), START + dt.timedelta(days=1))) == 301


def test_refresh_and_aggregations_leave_out_dropped_rows(path):
    create_table(path)
    with aw.writer(path, keep="5min") as writer:
        dataset = aw.open(path)
        refreshed = aw.aggregation(path, rows="count", oldest=("n", "first"))
        never_refreshed = aw.aggregation(path, rows="count", oldest=("n", "first"))
        assert refreshed.refresh().to_pylist() == [{"rows": 1000, "oldest": 0}]
        # A commit without new rows drops old ones, too.
        writer.commit()
        numbers = aw.open(path)["n"].to_pylist()
        assert numbers[0] > 0 and dataset.refresh()["n"].to_pylist() == numbers
        assert refreshed.refresh().to_pylist() == [{"rows": len(numbers), "oldest": numbers[0]}]
    with aw.writer(path, keep="5min") as writer:
        writer.append([{"ts": seconds_after_start(1000), "n": 1000}])
        writer.commit()
        # The second refresh finds no change.
        for _ in range(2):
            newest = dataset.refresh()
            assert (newest.first_row, newest["n"].to_pylist()) == (700, list(range(700, 1001)))
            for aggregation in (refreshed, never_refreshed):
                assert aggregation.refresh().to_pylist() == [{"rows": 301, "oldest": 700}]
        assert dataset.first_row == 0


def disk_usage(path, pattern="*"):
    """Returns the bytes that files take on disk."""
    return sum(file.stat().st_blocks * 512 for file in path.glob(pattern))


def test_writer_keeps_rows_up_to_a_size(path):
    create_table(path, row_count=20_000)
    size = disk_usage(path)
    with aw.writer(path, keep=f"{size // 2} B") as writer:
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 20_000}])
        writer.commit()
        assert size // 4 < disk_usage(path, "*.arrow") <= size // 2 + (1 << 20)
        assert aw.open(path)[-1]["n"] == 20_000 and 5_000 < aw.open(path).first_row < 15_000


def test_writer_that_keeps_less_than_a_segment_keeps_the_newest_one(path):
    """Such writers used to drop nothing while the newest segment alone was larger."""
    create_table(path)
    with aw.writer(path, keep="1 kB") as writer:
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 1000}])
        writer.commit()
        newest_segment = max(int(file.stem) for file in path.glob("*.arrow"))
        assert aw.open(path).first_row == newest_segment >= 900
        assert aw.open(path)[-1]["n"] == 1000


def test_closing_a_writer_drops_old_rows(path):
    """Writers that commit only when they are closed used to drop nothing."""
    for _ in range(2):
        with aw.writer(path, "ts: timestamp[us]", sorted_by="ts", segment_rows=10, keep="60 s") as writer:
            first = writer.rows
            writer.append({"ts": [row * 10_000_000 for row in range(first, first + 1000)]})
    assert len(aw.open(path)) <= 20


@pytest.mark.parametrize("keep", ["x", "5", "-1 h", "1 month", "", 5, dt.timedelta(hours=-1), "nan h"], ids=str)
def test_invalid_keep_is_refused(path, keep):
    with pytest.raises(aw.InvalidArgument, match="keep must be"):
        aw.writer(path, SCHEMA, sorted_by="ts", keep=keep)


def test_keep_for_a_time_needs_a_sorted_table(path):
    # The second call must not find a table that the first one has created.
    for _ in range(2):
        with pytest.raises(aw.InvalidArgument, match="created with sorted_by"):
            aw.writer(path, SCHEMA, keep="1h")
