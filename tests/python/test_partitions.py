"""Partitions: tables of several writers as one dataset, by directories called key=value,
and what others make of them."""

import datetime as dt
import os
import pickle
import random
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.dataset
import pytest

import arrowwood as aw
from waits import PATIENCE, wait_until

SCHEMA = "n: int64 not null, value: float64"
WRITER = """
import sys, arrowwood as aw
table, host, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
with aw.writer(table, "n: int64 not null, value: float64", partition={"host": host}, segment_rows=500) as writer:
    start = writer.rows
    for n in range(start, start + rows):
        writer.append_row(n=n, value=n / 2)
        if n % 7 == 0:
            writer.commit()
"""


@pytest.fixture
def table(tmp_path):
    return tmp_path / "ticks"


def start_writer(table, host, rows):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(table), host, str(rows)])


def fill(table, host, rows, **options):
    with aw.writer(table, SCHEMA, partition={"host": host}, **options) as writer:
        writer.append({"n": range(rows), "value": [n / 2 for n in range(rows)]})


def by_host(rows):
    """The numbers of each host, in order."""
    found = {}
    for host, n in zip(rows["host"].to_pylist(), rows["n"].to_pylist(), strict=True):
        found.setdefault(host, []).append(n)
    return found


# ---- reading ----


def test_writers_of_several_processes_one_of_which_is_killed(table):
    writers = {host: start_writer(table, host, 3000 if host != "killed" else 10**9) for host in ("a", "b", "killed")}
    wait_until(lambda: any(table.glob("host=killed/*.arrow")), "there is a segment of the writer that is to be killed")
    ds = aw.open(table)
    while writers["a"].poll() is None or writers["b"].poll() is None or by_host(ds).get("killed", [0])[-1] < 100:
        ds = ds.refresh()
        for host, numbers in by_host(ds).items():
            assert numbers == list(range(len(numbers))), host
    writers["killed"].kill()
    writers["killed"].wait()
    ds = ds.refresh()
    known = by_host(ds)
    assert len(known["a"]) == len(known["b"]) == 3000 and len(known["killed"]) >= 100
    # Another writer goes on where the killed one was.
    assert start_writer(table, "killed", 50).wait() == 0
    assert len(by_host(ds.refresh())["killed"]) == len(known["killed"]) + 50


def test_questions_over_partitions(table):
    for host, rows in {"a": 100, "b": 50, "c": 25}.items():
        fill(table, host, rows, sorted_by="n")
    ds = aw.open(table)
    assert [field.name for field in ds.schema] == ["n", "value", "host"] and len(ds) == 175
    assert [(p.values, len(p.rows)) for p in ds.partitions] == [
        ({"host": h}, n) for h, n in [("a", 100), ("b", 50), ("c", 25)]
    ]
    assert ds[120] == {"n": 20, "value": 10.0, "host": "b"} and ds[-1]["host"] == "c"
    counts = ds.aggregate(by="host", rows="count")
    found = zip(counts["host"].to_pylist(), counts["rows"].to_pylist(), strict=True)
    assert dict(found) == {"a": 100, "b": 50, "c": 25}
    few = ds.filter((aw.col("host") == "b") & (aw.col("n") < 3))
    assert few["n"].to_pylist() == [0, 1, 2] and set(few["host"].to_pylist()) == {"b"}
    assert by_host(ds.between(20, 25)) == {
        "a": list(range(20, 26)),
        "b": list(range(20, 26)),
        "c": [20, 21, 22, 23, 24],
    }
    assert by_host(ds.filter(aw.col("n") >= 98)) == {"a": [98, 99]}
    assert ds.head(3)["host"].to_pylist() == ["a"] * 3
    # Elsewhere: pickled, split, as Arrow data.
    again = pickle.loads(pickle.dumps(ds[90:110]))
    assert again.to_arrow() == ds[90:110].to_arrow()
    assert sum((split.open().to_arrow()["host"].to_pylist() for split in ds.splits(4)), []) == ds["host"].to_pylist()
    assert ds.to_arrow().schema.field("host").type == pa.dictionary(pa.int32(), pa.string())
    assert pa.table(ds)["host"].to_pylist() == ds["host"].to_pylist()


def test_engines(table):
    for host, rows in {"a": 100, "b": 50}.items():
        fill(table, host, rows)
    ds = aw.open(table)
    pytest.importorskip("duckdb")
    assert ds.sql("select max(n) as most from self where host = 'b'")[0] == {"most": 49}
    assert aw.sql(f"select count(*) as n from \"{table}\" where host = 'a'")[0] == {"n": 100}
    pl = pytest.importorskip("polars")
    assert aw.scan(table).filter(pl.col("host") == "b").select(pl.col("n").sum()).collect().item() == sum(range(50))
    assert ds.to_polars()["host"].to_list() == ["a"] * 100 + ["b"] * 50
    assert ds.to_pandas()["host"].value_counts().to_dict() == {"a": 100, "b": 50}


def test_types_are_inferred_or_given(table):
    for day in ("2026-01-31", "2026-02-01"):
        for shard in (9, 10, None):
            with aw.writer(table, SCHEMA, partition={"day": day, "shard": shard}) as writer:
                writer.append_row(n=shard or 0, value=None)
    ds = aw.open(table)
    assert [field.type for field in ds.schema][2:] == ["date32", "int64"]
    # In the order of their values, not of names; null last.
    assert ds["shard"].to_pylist() == [9, 10, None] * 2
    assert ds.filter(aw.col("day") == dt.date(2026, 2, 1))["n"].to_pylist() == [9, 10, 0]
    given = aw.open(table, partitioning={"day": "utf8", "shard": "int16"})
    assert given[0] == {"n": 9, "value": None, "day": "2026-01-31", "shard": 9}
    assert [field.type for field in given.schema][2:] == ["utf8", "int16"]
    with pytest.raises(aw.ColumnNotFound, match="hour"):
        aw.open(table, partitioning={"hour": "utf8"})
    with pytest.raises(aw.InvalidData, match="'2026-01-31'"):
        aw.open(table, partitioning={"day": "int64"})


def test_what_mixes_is_refused(table):
    fill(table, "a", 1)
    with pytest.raises(aw.InvalidArgument, match="holds partitions"):
        aw.writer(table, SCHEMA)
    with pytest.raises(aw.SchemaMismatch, match="'host'"):
        aw.writer(table, SCHEMA, partition={"zone": "x"})
    with pytest.raises(aw.SchemaMismatch, match="'value' is float64 and int64"):
        aw.writer(table, "n: int64 not null, value: int64", partition={"host": "b"})
    assert not (table / "host=b").exists()
    plain = table.parent / "plain"
    aw.writer(plain, SCHEMA).close()
    with pytest.raises(aw.InvalidArgument, match="without partitions"):
        aw.writer(plain, SCHEMA, partition={"host": "b"})
    (plain / "host=b").mkdir()
    with pytest.raises(aw.InvalidData, match="host=b"):
        aw.open(plain)


# ---- writing ----


def test_two_writers_of_one_partition(table):
    with aw.writer(table, SCHEMA, partition={"host": "a"}) as writer:
        with pytest.raises(aw.Busy, match=f"process {os.getpid()}"):
            aw.writer(table, SCHEMA, partition={"host": "a"})
        with aw.writer(table, partition={"host": "b"}) as other:
            assert [field.name for field in other.schema] == ["n", "value"] and other.path.name == "host=b"
        with pytest.raises(aw.Busy, match=f"process {os.getpid()}"):
            aw.drop_partition(table, {"host": "a"})
        writer.append_row(n=1)
    assert aw.drop_partition(table, {"host": "a"}) and not aw.drop_partition(table, {"host": "a"})
    assert len(aw.open(table)) == 0


VALUES = [
    "a/b",
    "..",
    ".",
    "",
    "100%",
    "%41",
    "key=value",
    "two words",
    "ü",
    "a\nb",
    "__HIVE_DEFAULT_PARTITION__",
    "'\"",
    "x" * 200,
]


def test_any_text_is_a_partition(table):
    for n, value in enumerate(VALUES):
        with aw.writer(table, SCHEMA, partition={"host": value}) as writer:
            writer.append_row(n=n)
    ds = aw.open(table)
    assert dict(zip(ds["n"].to_pylist(), ds["host"].to_pylist(), strict=True)) == dict(enumerate(VALUES))
    for n, value in enumerate(VALUES):
        assert ds.filter(aw.col("host") == value)["n"].to_pylist() == [n]
    with pytest.raises(aw.InvalidArgument, match="255"):
        aw.writer(table, SCHEMA, partition={"host": "x" * 300})
    with pytest.raises(aw.InvalidArgument, match="expected text"):
        aw.writer(table, SCHEMA, partition={"host": 1.5})
    # Others decode the same; what Hive would take for null aside.
    theirs = pa.dataset.dataset(table, format="ipc", partitioning="hive").to_table().to_pydict()
    assert {n: v for n, v in zip(theirs["n"], theirs["host"], strict=True) if n not in (3, 10)} == {
        n: v for n, v in enumerate(VALUES) if n not in (3, 10)
    }


def test_rows_go_to_the_partitions_they_belong_to(table):
    random.seed(7)
    start = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    rows = [{"ts": start + dt.timedelta(hours=n), "host": random.choice("abc"), "n": n} for n in range(100)]
    schema = "ts: timestamp[us, UTC] not null, host: utf8, n: int64"
    with aw.writer(table, schema, partition_by=["day(ts)", "host"]) as writer:
        for at in range(0, 100, 30):
            writer.append(rows[at : at + 30])
        writer.append_row(ts=start, host=None, n=100)
        assert not table.exists() or len(aw.open(table)) == 0
        writer.commit()
        assert len(aw.open(table)) == 101
        writer.append_row(ts=start, host="late", n=101)
        writer.rollback()
    ds = aw.open(table)
    assert [field.name for field in ds.schema] == ["ts", "n", "day", "host"]
    expected = sorted(rows, key=lambda row: (row["ts"].date(), row["host"], row["n"]))
    expected.insert(
        next(i for i, row in enumerate(expected) if row["ts"].day == 1), {"ts": start, "host": None, "n": 100}
    )
    assert [(row["day"], row["host"], row["n"]) for row in ds] == [
        (row["ts"].date(), row["host"], row["n"]) for row in expected
    ]


def test_more_partitions_than_are_open(table):
    with aw.writer(table, "key: int64, n: int64", partition_by="key", sync="never") as writer:
        for round in range(3):
            writer.append({"key": [n % 100 for n in range(1000)], "n": range(1000 * round, 1000 * round + 1000)})
            writer.commit()
            assert writer.num_open <= 64
            ds = aw.open(table)
            assert len(ds.partitions) == 100 and len(ds) == 1000 * round + 1000
    for key in (0, 99):
        assert ds.filter(aw.col("key") == key)["n"].to_pylist() == [n for n in range(3000) if n % 100 == key]
    with pytest.raises(aw.Closed):
        writer.append_row(key=1)
    assert len(aw.open(table)) == 3000


def test_an_exception_commits_rows_of_no_partition(table):
    """Also none of those that wait in memory, as many partitions being open as may be."""
    schema = "key: int64 not null, n: int64"
    with aw.writer(table, schema, partition_by="key") as writer:
        writer.append({"key": range(70), "n": [0] * 70})
    with pytest.raises(KeyError), aw.writer(table, schema, partition_by="key") as writer:
        writer.append({"key": range(80), "n": [1] * 80})
        writer.append_row(key=3, n=2)
        raise KeyError
    with pytest.raises(TypeError), aw.writer(table, schema, partition_by="key") as writer:
        writer.append({"key": range(80), "n": [3] * 80})
        writer.append_row(key=3, n="x")
    assert sorted((row["key"], row["n"]) for row in aw.open(table).to_pylist()) == [(key, 0) for key in range(70)]
    for use in [writer.commit, writer.sync, lambda: writer.append_row(key=1, n=1)]:
        with pytest.raises(aw.Closed, match="closed"):
            use()


def test_a_failed_append_must_be_rolled_back(table):
    with aw.writer(table, "key: utf8, n: int64 not null", partition_by="key", sorted_by="n") as writer:
        writer.append({"key": ["a", "b"], "n": [5, 5]})
        writer.commit()
        with pytest.raises(aw.InvalidArgument, match="less than the row before"):
            writer.append({"key": ["a", "b"], "n": [6, 4]})
        with pytest.raises(aw.InvalidArgument, match="roll back"):
            writer.commit()
        writer.rollback()
        writer.append({"key": ["a", "b"], "n": [7, 7]})
    assert aw.open(table)["n"].to_pylist() == [5, 7, 5, 7]
    for by, kind in {"x": aw.ColumnNotFound, "week(n)": aw.InvalidArgument, "day(n)": aw.InvalidArgument}.items():
        with pytest.raises(kind, match="partition_by"):
            aw.writer(table, "key: utf8, n: int64", partition_by=by)


# ---- following ----


def test_followers_find_partitions_and_miss_nothing(table):
    fill(table, "a", 10)
    follower = aw.follow(table, start=0, timeout=PATIENCE)
    writers = [start_writer(table, host, 2000) for host in ("a", "b", "c")]
    seen = {}
    for rows in follower:
        for host, numbers in by_host(rows).items():
            seen.setdefault(host, []).extend(numbers)
        if sum(map(len, seen.values())) == 6010:
            break
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert seen == {"a": list(range(2010)), "b": list(range(2000)), "c": list(range(2000))}
    # Another one goes on where this one was.
    assert follower.next_row == {"host=a": 2010, "host=b": 2000, "host=c": 2000} and follower.lag == 0
    with aw.writer(table, partition={"host": "b"}) as writer:
        writer.append_row(n=2000)
    assert follower.lag == 1
    fill(table, "d", 3)
    later = [by_host(rows) for rows in aw.follow(table, start=follower.next_row, timeout=0)]
    assert sorted(later, key=str) == [{"b": [2000]}, {"d": [0, 1, 2]}]
    assert list(aw.follow(table, timeout=0)) == []
    with pytest.raises(aw.InvalidArgument, match="numbered in each"):
        aw.follow(table, start=5)


def test_a_dropped_partition_is_followed_to_its_end(table):
    fill(table, "a", 10)
    fill(table, "b", 10)
    with aw.follow(table, start=0, timeout=0.01) as follower:

        def following():
            return by_host(wait_until(lambda: next(follower, None), "there are more rows"))

        assert following() == {"a": list(range(10))}
        aw.drop_partition(table, {"host": "b"})
        assert following() == {"b": list(range(10))} and list(follower) == []
        fill(table, "b", 2)
        assert following() == {"b": [0, 1]} and list(follower) == []


# ---- the command ----


def test_verbs_of_the_command(table):
    fill(table, "a", 3)
    fill(table, "b", 2)

    def run(*arguments):
        done = subprocess.run([sys.executable, "-m", "arrowwood._cli", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("head", "-n", "1", "--csv", str(table)).splitlines()[1] == "0,0.0,a"
    assert run("tail", "-n", "1", "--csv", str(table)).splitlines()[1] == "1,0.5,b"
    assert "host" in run("schema", str(table)) and "rows         5" in run("stat", str(table))
    assert "5 rows" in run("check", str(table)) and "2 files rewritten" in run("compact", str(table))
    assert "5 rows" in run("check", str(table))
    command = [sys.executable, "-m", "arrowwood._cli", "tail", "-f", "-n", "1", "--csv", str(table)]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert [follower.stdout.readline() for _ in range(2)][1] == "1,0.5,b\n"
    fill(table, "c", 1)
    assert follower.stdout.readline() == "0,0.0,c\n"
    follower.send_signal(signal.SIGINT)
    follower.wait()


# ---- others, while it is written ----


def read_pyarrow(table):
    found = pa.dataset.dataset(table, format="ipc", partitioning="hive").to_table(columns=["n", "host"])
    return found["host"].to_pylist(), found["n"].to_pylist()


def read_polars(table):
    pl = pytest.importorskip("polars")
    found = pl.scan_ipc(f"{table}/**/*.arrow", hive_partitioning=True).select("n", "host").collect()
    return found["host"].to_list(), found["n"].to_list()


def read_datafusion(table):
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    columns = "n bigint, value double, host varchar"
    context.sql(f"create external table t ({columns}) stored as arrow partitioned by (host) location '{table}/'")
    found = pa.Table.from_batches(context.sql("select n, host from t").collect())
    return found["host"].to_pylist(), found["n"].to_pylist()


@pytest.mark.parametrize("read", [read_pyarrow, read_polars, read_datafusion])
def test_other_readers_while_partitions_are_written(table, read):
    for host in ("a", "b"):
        fill(table, host, 600, segment_rows=500)
    writers = [start_writer(table, host, 20_000) for host in ("a", "b")]
    reads = 0
    try:
        while any(writer.poll() is None for writer in writers) or reads < 3:
            found = {}
            for host, n in zip(*read(table), strict=True):
                found.setdefault(host, []).append(n)
            for host, numbers in found.items():
                # Files come in any order.
                assert sorted(numbers) == list(range(len(numbers))), host
                assert len(numbers) >= 600
            reads += 1
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert sorted(found) == ["a", "b"]


def test_a_server_writes_one_partition_and_a_process_another(table):
    """Neither needs to know of the other; local readers, other libraries and readers through the server see both."""
    flight = pytest.importorskip("pyarrow.flight")
    for host in ("a1", "a2"):
        fill(table, host, 0)
    with aw.serve(table) as server, server.connect() as db, aw.follow(table, start=0, timeout=PATIENCE) as follower:
        local = start_writer(table, "a2", 3000)
        seen = {"a1": [], "a2": []}
        with db["host=a1"].writer(producer="s1") as remote:
            for n in range(0, 3000, 50):
                remote.append({"n": range(n, n + 50), "value": [k / 2 for k in range(n, n + 50)]})
                remote.commit()
                while len(seen["a1"]) < n + 50:
                    for host, numbers in by_host(next(follower)).items():
                        seen[host] += numbers
        with pytest.raises(aw.Busy):
            aw.writer(table, partition={"host": "a1"})
        assert local.wait() == 0
        while len(seen["a2"]) < 3000:
            for host, numbers in by_host(next(follower)).items():
                seen[host] += numbers
        expected = {"a1": list(range(3000)), "a2": list(range(3000))}
        assert seen == expected == by_host(aw.open(table)) == by_host(aw.open(table).refresh())
        hosts = ["a1"] * 3000 + ["a2"] * 3000
        for read in (read_pyarrow, read_polars, read_datafusion):
            found = read(table)
            assert sorted(zip(*found, strict=True)) == sorted(zip(hosts, 2 * list(range(3000)), strict=True)), (
                read.__name__
            )
        assert sorted(db.tables()) == ["host=a1", "host=a2"]
        client = flight.connect(server.url.replace("http://", "grpc+tcp://"))
        for host, numbers in expected.items():
            assert db[f"host={host}"].rows()["n"].to_pylist() == numbers
            assert client.do_get(flight.Ticket(f"host={host}")).read_all()["n"].to_pylist() == numbers
        # Its own answer says which of them are durable.
        assert remote.durable_rows == 3000 == db["host=a2"].durable_rows
        client.close()


def test_threads_write_partitions_of_their_own(table):
    def work(host):
        with aw.writer(table, SCHEMA, partition={"host": host}) as writer:
            for n in range(200):
                writer.append_row(n=n)
                writer.commit()

    threads = [threading.Thread(target=work, args=(f"h{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert by_host(aw.open(table)) == {f"h{number}": list(range(200)) for number in range(8)}
