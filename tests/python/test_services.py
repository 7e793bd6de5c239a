"""Tables in services: writers that take turns, schemas as text, followers of several tables and of asyncio,
retention."""

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


def fill(path, rows=1000, step=dt.timedelta(seconds=1), **options):
    """A table of a row a second, in segments of 100."""
    with aw.writer(path, SCHEMA, sorted_by="ts", segment_rows=100, **options) as writer:
        writer.append({"ts": [START + i * step for i in range(rows)], "n": range(rows)})
    return path


def numbers(follower):
    return [n for rows in follower for n in rows["n"].to_pylist()]


# ---- writers ----


def test_a_writer_waits_for_another(path):
    first = aw.writer(path, "n: int64")
    with pytest.raises(aw.Busy, match="being written by process"):
        aw.writer(path, wait=0.05)
    opened = []
    waiting = asleep(lambda: opened.append(aw.writer(path, wait=PATIENCE)))
    assert opened == []
    first.close()
    join(waiting)
    with opened[0] as second:
        second.append_row(n=1)
    for wait in (-1, float("nan")):
        with pytest.raises(aw.InvalidArgument, match="wait: expected a number of seconds"):
            aw.writer(path, wait=wait)


WORKER = """
import sys, arrowwood as aw
for n in range(20):
    with aw.writer(sys.argv[1], "worker: int64, n: int64", wait=float(sys.argv[3])) as writer:
        writer.append_row(worker=int(sys.argv[2]), n=n)
"""


def test_workers_take_turns(path):
    worker = [sys.executable, "-c", WORKER, path]
    workers = [subprocess.Popen([*worker, str(number), str(PATIENCE)]) for number in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    rows = aw.open(path).to_pylist()
    assert len(rows) == 80
    for number in range(4):
        assert [row["n"] for row in rows if row["worker"] == number] == list(range(20))


def test_a_schema_is_text_or_types_by_name(path, tmp_path):
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


def test_what_a_table_encodes_need_not_be_said_again(path):
    """Only what differs is named: not text that the table has as a dictionary since it was made."""
    aw.writer(path, "n: int64, user: utf8", dictionary=["user"]).close()
    with aw.writer(path, "n: int64, user: utf8") as writer:
        writer.append_row(n=1, user="a")
    assert aw.open(path).dtypes == ["int64", "dictionary<int32, utf8>"]
    with pytest.raises(aw.SchemaMismatch, match="'user' is not in the given one"):
        aw.writer(path, "n: int64")


EVENTS = [
    '{"ts": "2026-01-01T00:00:00Z", "day": "2026-01-01", "at": "08:30:00.5", "local": "2026-01-01T08:30:00"}',
    '{"ts": "2026-01-01T02:00:01.000002+01:00", "day": null, "at": null, "local": "2026-01-02"}',
]
TIMES = "ts: timestamp[us, UTC] not null, day: date, at: time, local: timestamp[ms]"


def test_times_in_json_are_appended_as_the_command_does(path, tmp_path):
    rows = [json.loads(event) for event in EVENTS]
    with aw.writer(path, TIMES) as writer:
        writer.append(rows)
        writer.append_row(**rows[1])
        writer.append({"ts": [row["ts"] for row in rows]})
    other = tmp_path / "other"
    aw.writer(other, TIMES).close()
    command = [sys.executable, "-m", "arrowwood._cli", "append", other, "-"]
    subprocess.run(command, input="\n".join(EVENTS), text=True, check=True, cwd=tmp_path)
    found = aw.open(path).to_pylist()
    assert found[:2] == aw.open(other).to_pylist() and found[2] == found[1]
    assert found[0]["ts"] == START and found[0]["at"] == dt.time(8, 30, 0, 500_000)
    assert found[1]["ts"] == START + dt.timedelta(hours=1, seconds=1, microseconds=2)
    assert [row["ts"] for row in found[3:]] == [row["ts"] for row in found[:2]]


def test_texts_that_are_no_times_are_refused(path):
    with aw.writer(path, TIMES) as writer:
        for row, message in (
            ({"ts": "soon"}, "expected timestamp"),
            ({"ts": "2026-01-01T00:00:00"}, "has a time zone"),
            ({"ts": "2026-01-01"}, "has a time zone"),
            ({"ts": START, "local": "2026-01-01T00:00:00Z"}, "expected timestamp"),
            ({"ts": START, "day": "2026-02-30"}, "expected date32"),
            ({"ts": START, "at": "25:00:00"}, "expected time64"),
        ):
            for append in (lambda: writer.append([row]), lambda: writer.append_row(**row)):
                with pytest.raises(TypeError, match=message):
                    append()
        with pytest.raises(aw.InvalidArgument, match="does not fit"):
            writer.append_row(ts=START, local="2026-01-01T00:00:00.000001")
        assert writer.rows == 0


def test_json_is_read_in_lines_and_arrays(tmp_path):
    rows = [{"n": 1, "text": 'a,]\n"b'}, {"n": 2, "text": None}]
    lines = "\n".join(json.dumps(row) for row in rows)
    for text in (lines, json.dumps(rows), json.dumps(rows, indent=2), "\ufeff" + json.dumps(rows)):
        (tmp_path / "rows.json").write_text(text)
        assert aw.read_json(tmp_path / "rows.json").to_pylist() == rows
        with open(tmp_path / "rows.json") as file:
            assert aw.read_json(file, schema="n: int8, text: utf8", dictionary=["text"]).dtypes[0] == "int8"
    (tmp_path / "rows.json").write_text(json.dumps(rows)[:-1])
    with pytest.raises(aw.InvalidData, match="rows.json.*cut off"):
        aw.read_json(tmp_path / "rows.json")
    with pytest.raises(aw.NotFound):
        aw.read_json(tmp_path / "none.json")


# ---- followers ----


def test_dropped_rows_are_a_gap_and_no_jump(path):
    fill(path)
    with aw.writer(path) as writer:
        early = aw.follow(path, start=0, timeout=0)
        behind = aw.follow(path, start=50, timeout=0)
        assert len(next(behind)) == 950
        held = next(aw.follow(path, start=300, timeout=0))
        assert writer.drop_before(650) == 600
        with pytest.raises(aw.RowOutOfRange, match="from row 5: 595 rows were dropped .* is now is 600"):
            aw.follow(path, start=5)
        # Nothing was committed since it looked, and the rows that it knew of are gone.
        for _ in range(2):
            with pytest.raises(aw.RowOutOfRange, match="from row 0: 600 rows were dropped"):
                next(early)
        assert early.next_row == 0 and early.lag == 1000
        # Rows that were handed out stay.
        assert held["n"].to_pylist() == list(range(300, 1000))
        # One that has read all of them goes on.
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 1000}])
        writer.commit()
        assert numbers(behind) == [1000]
        again = aw.follow(path, start=aw.open(path).first_row, timeout=0)
        assert numbers(again) == list(range(600, 1001))


def test_a_follower_that_is_overtaken_says_so(path):
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


def test_several_tables_are_followed_at_once(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    writers = [aw.writer(path, "n: int64") for path in paths]
    for number, writer in enumerate(writers):
        writer.append_row(n=number)
        writer.commit()
    follower = aw.follow(paths, start=[0, None, 0], timeout=PATIENCE)
    assert follower.lag == 2 and follower.next_rows == [0, 1, 0]
    assert sorted(n for _ in range(2) for n in next(follower)["n"]) == [0, 2]
    with pytest.raises(aw.InvalidArgument, match="next_rows"):
        follower.next_row

    def write():
        for i in range(100):
            writer = writers[i % 3]
            writer.append_row(n=100 + i)
            writer.commit()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while len(seen) < 100:
        seen += next(follower)["n"].to_pylist()
    thread.join()
    assert sorted(seen) == list(range(100, 200))
    for number in range(3):
        assert [n for n in seen if n % 3 == (100 + number) % 3] == list(range(100 + number, 200, 3))
    assert follower.lag == 0 and sum(follower.next_rows) == 103
    # All that is needed to go on later.
    later = aw.follow([aw.open(path) for path in paths], start=follower.next_rows, timeout=0)
    assert list(later) == []
    for tables, start, message in ((paths, [0], "1 first rows for 3 tables"), ([], None, "needs a table")):
        with pytest.raises(aw.InvalidArgument, match=message):
            aw.follow(tables, start=start)
    [writer.close() for writer in writers]


def test_between_looks_into_several_tables(tmp_path):
    paths = [fill(tmp_path / name, rows=250) for name in ("a", "b")]
    both = aw.open(paths)
    found = both.between(START + dt.timedelta(seconds=5), "2026-01-01T00:00:07Z")
    assert found["n"].to_pylist() == [5, 6, 7] * 2
    aw.writer(tmp_path / "plain", SCHEMA).close()
    with pytest.raises(aw.InvalidArgument, match="sorted_by"):
        aw.open([paths[0], tmp_path / "plain"]).between(1, 2)


def test_close_ends_a_follower_that_waits(path):
    aw.writer(path, "n: int64").close()
    with aw.follow(path) as follower:
        found = []
        thread = asleep(lambda: found.append(list(follower)))
        follower.close()
        join(thread)
        assert found == [[]] and list(follower) == []
    with aw.follow(path) as follower:
        pass
    assert list(follower) == []


def test_async_for_gets_every_row_once(path):
    async def main():
        both = [], []
        with aw.writer(path, "n: int64", segment_rows=70) as writer:

            async def write():
                for i in range(100):
                    writer.append({"n": range(10 * i, 10 * i + 10)})
                    writer.commit()
                    if i % 2:
                        await until(lambda: all(len(seen) == 10 * i + 10 for seen in both), "both have seen the commit")

            async def read(seen):
                async for rows in aw.follow(path, start=0, timeout=PATIENCE):
                    seen += rows["n"].to_pylist()
                    if len(seen) == 1000:
                        return

            await asyncio.gather(*map(read, both), write())
        return both

    assert asyncio.run(main()) == (list(range(1000)), list(range(1000)))


def waiting():
    """The threads in which tasks wait for rows."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("arrowwood-follow")}


def test_async_for_ends_after_its_timeout_or_when_closed(path):
    aw.writer(path, "n: int64").close()

    async def main():
        assert [rows async for rows in aw.follow(path, timeout=0.05)] == []
        follower, before = aw.follow(path), waiting()

        async def close():
            await until(lambda: waiting() - before, "a task waits for rows")
            follower.close()

        closing = asyncio.create_task(close())
        assert [rows async for rows in follower] == []
        await closing

    asyncio.run(main())


CANCELLED = """
import asyncio, sys, threading
import arrowwood as aw
from arrowwood import _follow
from waits import is_asleep, until

class Pool:
    # The thread of a follower, with how often it has begun to wait for rows, and has ended to.
    begun = ended = 0

    def __init__(self, pool):
        self.pool = pool

    def submit(self, work, *arguments):
        def wait():
            Pool.begun += 1
            work(*arguments)
            Pool.ended += 1
        return self.pool.submit(wait)

thread_of = _follow._thread
_follow._thread = lambda follow: Pool(thread_of(follow))

def sleeps(number):
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("arrowwood-follow")]
    return Pool.begun == number and all(map(is_asleep, threads))

async def main(path):
    writer = aw.writer(path, "n: int64")
    follower = aw.follow(path)

    async def first():
        return await anext(follower)

    # Cancels the task when it has begun, during its first wait, and during a later one.
    for turns in (0, 1, 2):
        before = Pool.begun
        task = asyncio.create_task(first())
        await asyncio.sleep(0)
        if turns:
            await until(lambda: sleeps(before + turns), f"it waits for the {turns}. time")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        else:
            raise SystemExit("it was not cancelled")
        writer.append_row(n=1)
        writer.commit()
        writer.append_row(n=2)
        writer.commit()
        if turns:
            await until(lambda: Pool.begun == Pool.ended, "the thread has rows, or has given up")
        # The next task gets the rows that came in between.
        seen = []
        while len(seen) < 2:
            seen += (await anext(follower))["n"].to_pylist()
        print(seen)
    # One is still waiting when the loop ends.
    before = Pool.begun
    asyncio.create_task(first())
    await until(lambda: Pool.begun > before, "it waits")

asyncio.run(main(sys.argv[1]))
"""


def test_a_cancelled_task_loses_no_row_and_keeps_nobody(path):
    command, environment = (
        [sys.executable, "-c", CANCELLED, path],
        os.environ | {"PYTHONPATH": os.path.dirname(__file__)},
    )
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert (done.stdout, done.stderr, done.returncode) == ("[1, 2]\n" * 3, "", 0)


def test_lag_does_not_wait_for_one_that_waits(path):
    with aw.writer(path, "n: int64") as writer:
        follower = aw.follow(path, timeout=PATIENCE)
        found = []
        thread = asleep(lambda: found.append(next(follower)))
        assert follower.lag == 0
        writer.append({"n": range(3)})
        assert follower.lag == 0 and found == []
        writer.commit()
        join(thread)
        assert len(found[0]) == 3 and follower.lag == 0
        writer.append({"n": range(7)})
        assert follower.lag == 0
        writer.commit()
        assert follower.lag == 7 and follower.next_row == 3
        assert len(next(follower)) == 7 and follower.lag == 0 and follower.next_row == 10


# ---- retention ----


@pytest.mark.parametrize(
    "bound", [START + dt.timedelta(seconds=650), "2026-01-01T00:10:50Z", "2026-01-01T01:10:50+01:00", 650], ids=str
)
def test_rows_are_dropped_by_time_or_number(path, bound):
    fill(path)
    with aw.writer(path) as writer:
        assert writer.drop_before(bound) == 600
        assert aw.open(path).first_row == 600
        assert writer.drop_before(bound) == 0


def test_what_is_no_time_drops_nothing(path, tmp_path):
    fill(path)
    with aw.writer(path) as writer:
        for bound in ("soon", dt.datetime(2026, 1, 2), [1], None, -1):
            with pytest.raises((aw.InvalidArgument, TypeError)):
                writer.drop_before(bound)
        assert aw.open(path).first_row == 0
        # The live segment stays, whatever is in it.
        assert writer.drop_before(START + dt.timedelta(days=400)) == aw.open(path).first_row >= 900
    with (
        aw.writer(tmp_path / "plain", SCHEMA) as writer,
        pytest.raises(aw.InvalidArgument, match="created with sorted_by"),
    ):
        writer.drop_before(START)


@pytest.mark.parametrize("keep", ["5min", "300 s", dt.timedelta(minutes=5), "0.0034722222222222222 d"], ids=str)
def test_a_writer_keeps_rows_by_time(path, keep):
    fill(path)
    with aw.writer(path, keep=keep) as writer:
        writer.append([{"ts": START + dt.timedelta(seconds=1000), "n": 1000}])
        writer.commit()
        table = aw.open(path)
        # Whole segments: the oldest row that is kept is in one with rows that are not.
        assert table.first_row == 700 and table[0]["n"] == 700
        assert len(table.between(START + dt.timedelta(seconds=700), START + dt.timedelta(days=1))) == 301


def test_a_refresh_has_none_of_the_rows_that_a_writer_has_not_kept(path):
    fill(path)
    with aw.writer(path, keep="5min") as writer:
        before, board = aw.open(path), aw.aggregation(path, rows="count", oldest=("n", "first"))
        unread = aw.aggregation(path, rows="count", oldest=("n", "first"))
        assert board.refresh().to_pylist() == [{"rows": 1000, "oldest": 0}]
        # It drops rows, and appends none.
        writer.commit()
        kept = aw.open(path)["n"].to_pylist()
        assert kept[0] > 0 and before.refresh()["n"].to_pylist() == kept
        assert board.refresh().to_pylist() == [{"rows": len(kept), "oldest": kept[0]}]
    with aw.writer(path, keep="5min") as writer:
        writer.append([{"ts": START + dt.timedelta(seconds=1000), "n": 1000}])
        writer.commit()
        for _ in range(2):
            after = before.refresh()
            assert (after.first_row, after["n"].to_pylist()) == (700, list(range(700, 1001)))
            for aggregation in (board, unread):
                assert aggregation.refresh().to_pylist() == [{"rows": 301, "oldest": 700}]
        assert before.first_row == 0


def test_a_writer_keeps_so_many_bytes(path):
    fill(path, rows=20_000)
    size = sum(file.stat().st_blocks * 512 for file in path.iterdir())
    with aw.writer(path, keep=f"{size // 2} B") as writer:
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 20_000}])
        writer.commit()
        kept = sum(file.stat().st_blocks * 512 for file in path.glob("*.arrow"))
        assert size // 4 < kept <= size // 2 + (1 << 20)
        assert aw.open(path)[-1]["n"] == 20_000 and 5_000 < aw.open(path).first_row < 15_000


def test_a_writer_that_keeps_less_than_a_segment_keeps_the_newest(path):
    """Nothing was removed as long as the newest segment alone took more."""
    fill(path)
    with aw.writer(path, keep="1 kB") as writer:
        writer.append([{"ts": START + dt.timedelta(days=1), "n": 1000}])
        writer.commit()
        newest = max(int(file.stem) for file in path.glob("*.arrow"))
        assert aw.open(path).first_row == newest >= 900
        assert aw.open(path)[-1]["n"] == 1000


@pytest.mark.parametrize("keep", ["x", "5", "-1 h", "1 month", "", 5, dt.timedelta(hours=-1), "nan h"], ids=str)
def test_what_is_to_be_kept_is_a_time_or_a_size(path, keep):
    with pytest.raises(aw.InvalidArgument, match="keep must be"):
        aw.writer(path, SCHEMA, sorted_by="ts", keep=keep)


def test_only_tables_in_the_order_of_time_keep_rows_by_time(path):
    with pytest.raises(aw.InvalidArgument, match="created with sorted_by"):
        aw.writer(path, SCHEMA, keep="1h")
    with pytest.raises(aw.InvalidArgument, match="created with sorted_by"):
        aw.writer(path, SCHEMA, keep="1h")


RACE = """
import sys
import arrowwood as aw
with aw.writer(sys.argv[1], "n: int64", wait=float(sys.argv[2])) as writer:
    writer.append({"n": [1, 2]})
"""


def test_processes_that_make_a_table_at_the_same_time_take_turns(tmp_path):
    """One of them found that the folder was there a moment after it was not, and failed."""
    for number in range(5):
        path = tmp_path / f"t{number}"
        makers = [subprocess.Popen([sys.executable, "-c", RACE, str(path), str(PATIENCE)]) for _ in range(4)]
        assert [maker.wait(PATIENCE) for maker in makers] == [0] * 4
        assert len(aw.open(path)) == 8


def test_closing_drops_what_is_not_kept(tmp_path):
    """Writers that commit once, as they are closed, never dropped anything."""
    path = tmp_path / "t"
    for _ in range(2):
        with aw.writer(path, "ts: timestamp[us]", sorted_by="ts", segment_rows=10, keep="60 s") as writer:
            first = writer.rows
            writer.append({"ts": [i * 10_000_000 for i in range(first, first + 1000)]})
    assert len(aw.open(path)) <= 20


def test_waiting_for_rows_that_are_not_committed_is_refused(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64") as writer:
        writer.append({"n": [1, 2]})
        with pytest.raises(aw.InvalidArgument, match="2 durable rows, and 0 are committed"):
            writer.wait_durable(2)
        writer.commit()
        writer.wait_durable(2)
        assert writer.durable_rows == 2
