"""Tests partitioned tables: directories named key=value with a writer each, which are read as one dataset."""

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
# Appends rows to the partition of a host, after the rows that it has.
WRITER = """
import sys, arrowwood as aw
table, host, row_count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with aw.writer(table, "n: int64 not null, value: float64", partition={"host": host}, segment_rows=500) as writer:
    start = writer.rows
    for n in range(start, start + row_count):
        writer.append_row(n=n, value=n / 2)
        if n % 7 == 0:
            writer.commit()
"""


@pytest.fixture
def table(tmp_path):
    return tmp_path / "ticks"


def start_writer(table, host, row_count):
    """Starts a process that appends rows to a partition."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(table), host, str(row_count)])


def write_partition(table, host, row_count, **options):
    with aw.writer(table, SCHEMA, partition={"host": host}, **options) as writer:
        writer.append({"n": range(row_count), "value": [n / 2 for n in range(row_count)]})


def group_by_host(hosts, numbers):
    """Returns the numbers of each host, in order."""
    groups = {}
    for host, n in zip(hosts, numbers, strict=True):
        groups.setdefault(host, []).append(n)
    return groups


def numbers_by_host(rows):
    """Returns the numbers of each host in a dataset, in order."""
    return group_by_host(rows["host"].to_pylist(), rows["n"].to_pylist())


# ---- reading ----


def test_reader_sees_rows_of_several_writers_after_one_is_killed(table):
    row_counts = {"a": 3000, "b": 3000, "killed": 10**9}
    writers = {host: start_writer(table, host, row_count) for host, row_count in row_counts.items()}
    wait_until(lambda: any(table.glob("host=killed/*.arrow")), "there is a segment of the writer that is to be killed")
    ds = aw.open(table)
    while (
        writers["a"].poll() is None or writers["b"].poll() is None or numbers_by_host(ds).get("killed", [0])[-1] < 100
    ):
        ds = ds.refresh()
        for host, numbers in numbers_by_host(ds).items():
            assert numbers == list(range(len(numbers))), host
    writers["killed"].kill()
    writers["killed"].wait()
    ds = ds.refresh()
    numbers = numbers_by_host(ds)
    assert len(numbers["a"]) == len(numbers["b"]) == 3000 and len(numbers["killed"]) >= 100
    # A new writer continues after the rows of the killed one.
    assert start_writer(table, "killed", 50).wait() == 0
    assert len(numbers_by_host(ds.refresh())["killed"]) == len(numbers["killed"]) + 50


@pytest.fixture
def sorted_table(table):
    """A table of the partitions a, b and c with 100, 50 and 25 rows, in the order of ``n``."""
    for host, row_count in {"a": 100, "b": 50, "c": 25}.items():
        write_partition(table, host, row_count, sorted_by="n")
    return table


def test_dataset_has_partitions_as_a_column(sorted_table):
    ds = aw.open(sorted_table)
    assert [field.name for field in ds.schema] == ["n", "value", "host"] and len(ds) == 175
    partitions = [(partition.values, len(partition.rows)) for partition in ds.partitions]
    assert partitions == [({"host": "a"}, 100), ({"host": "b"}, 50), ({"host": "c"}, 25)]
    assert ds[120] == {"n": 20, "value": 10.0, "host": "b"} and ds[-1]["host"] == "c"
    assert ds.head(3)["host"].to_pylist() == ["a"] * 3


def test_queries_over_partitions(sorted_table):
    ds = aw.open(sorted_table)
    counts = ds.aggregate(by="host", rows="count")
    counts_by_host = dict(zip(counts["host"].to_pylist(), counts["rows"].to_pylist(), strict=True))
    assert counts_by_host == {"a": 100, "b": 50, "c": 25}
    filtered = ds.filter((aw.col("host") == "b") & (aw.col("n") < 3))
    assert filtered["n"].to_pylist() == [0, 1, 2] and set(filtered["host"].to_pylist()) == {"b"}
    assert numbers_by_host(ds.between(20, 25)) == {
        "a": list(range(20, 26)),
        "b": list(range(20, 26)),
        "c": list(range(20, 25)),
    }
    assert numbers_by_host(ds.filter(aw.col("n") >= 98)) == {"a": [98, 99]}


def test_partitioned_dataset_is_exported(sorted_table):
    """The column of partitions survives pickling, splits, and export as Arrow data."""
    ds = aw.open(sorted_table)
    unpickled = pickle.loads(pickle.dumps(ds[90:110]))
    assert unpickled.to_arrow() == ds[90:110].to_arrow()
    hosts = []
    for split in ds.splits(4):
        hosts += split.open().to_arrow()["host"].to_pylist()
    assert hosts == ds["host"].to_pylist()
    assert ds.to_arrow().schema.field("host").type == pa.dictionary(pa.int32(), pa.string())
    assert pa.table(ds)["host"].to_pylist() == ds["host"].to_pylist()


def test_engines_query_partitions(table):
    for host, row_count in {"a": 100, "b": 50}.items():
        write_partition(table, host, row_count)
    ds = aw.open(table)
    pytest.importorskip("duckdb")
    assert ds.sql("select max(n) as maximum from self where host = 'b'")[0] == {"maximum": 49}
    assert aw.sql(f"select count(*) as n from \"{table}\" where host = 'a'")[0] == {"n": 100}
    pl = pytest.importorskip("polars")
    assert aw.scan(table).filter(pl.col("host") == "b").select(pl.col("n").sum()).collect().item() == sum(range(50))
    assert ds.to_polars()["host"].to_list() == ["a"] * 100 + ["b"] * 50
    assert ds.to_pandas()["host"].value_counts().to_dict() == {"a": 100, "b": 50}


def test_types_of_partitions_are_inferred_or_given(table):
    for day in ("2026-01-31", "2026-02-01"):
        for shard in (9, 10, None):
            with aw.writer(table, SCHEMA, partition={"day": day, "shard": shard}) as writer:
                writer.append_row(n=shard or 0, value=None)
    inferred = aw.open(table)
    assert [field.type for field in inferred.schema][2:] == ["date32", "int64"]
    # Partitions are ordered by their values, not by the names of directories; null is last.
    assert inferred["shard"].to_pylist() == [9, 10, None] * 2
    assert inferred.filter(aw.col("day") == dt.date(2026, 2, 1))["n"].to_pylist() == [9, 10, 0]
    typed = aw.open(table, partitioning={"day": "utf8", "shard": "int16"})
    assert typed[0] == {"n": 9, "value": None, "day": "2026-01-31", "shard": 9}
    assert [field.type for field in typed.schema][2:] == ["utf8", "int16"]
    with pytest.raises(aw.ColumnNotFound, match="hour"):
        aw.open(table, partitioning={"hour": "utf8"})
    with pytest.raises(aw.InvalidData, match="'2026-01-31'"):
        aw.open(table, partitioning={"day": "int64"})


def test_mixed_layouts_and_schemas_are_refused(table):
    write_partition(table, "a", 1)
    with pytest.raises(aw.InvalidArgument, match="holds partitions"):
        aw.writer(table, SCHEMA)
    with pytest.raises(aw.SchemaMismatch, match="'host'"):
        aw.writer(table, SCHEMA, partition={"zone": "x"})
    with pytest.raises(aw.SchemaMismatch, match="'value' is float64 and int64"):
        aw.writer(table, "n: int64 not null, value: int64", partition={"host": "b"})
    assert not (table / "host=b").exists()
    unpartitioned = table.parent / "unpartitioned"
    aw.writer(unpartitioned, SCHEMA).close()
    with pytest.raises(aw.InvalidArgument, match="without partitions"):
        aw.writer(unpartitioned, SCHEMA, partition={"host": "b"})
    (unpartitioned / "host=b").mkdir()
    with pytest.raises(aw.InvalidData, match="host=b"):
        aw.open(unpartitioned)


# ---- writing ----


def test_partition_has_one_writer(table):
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


# Texts that need escaping in the name of a directory, or have a meaning there.
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
    # Valid on Linux only.
    "a<b>c|d?",
    "ends with a dot.",
    "ends with a space ",
    # Equal on file systems that ignore case or normal forms.
    "AAPL",
    "aapl",
    "Aapl",
    "__hive_default_partition__",
    "u\u0308",
    "Ü",
    "東京",
]


# Hive takes these directories for null.
HIVE_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")


def read_names_with_duckdb(table, folder):
    """Returns the hosts and numbers that DuckDB finds in copies of the directories: it doesn't read Arrow files."""
    duckdb = pytest.importorskip("duckdb")
    for partition in aw.open(table).partitions:
        copy = folder / partition.path.name
        copy.mkdir(parents=True)
        (copy / "0.csv").write_text(f"n\n{partition.rows['n'][0]}\n")
    options = "hive_partitioning=true, hive_types_autocast=false"
    rows = duckdb.sql(f"select host, n from read_csv('{folder}/*/0.csv', {options})").fetchall()
    return zip(*rows, strict=True)


def test_any_text_is_a_partition(table, tmp_path):
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
    names = [partition.path.name for partition in ds.partitions]
    assert "".join(names).isascii() and len({name.lower() for name in names}) == len(VALUES)
    others = [read_with_pyarrow(table), read_with_polars(table), read_names_with_duckdb(table, tmp_path / "names")]
    for hosts, numbers in others:
        hosts_by_number = dict(zip(numbers, hosts, strict=True))
        for n, value in enumerate(VALUES):
            assert value in HIVE_NULLS or hosts_by_number[n] == value
        assert len(hosts_by_number) == len(VALUES)


def test_writer_routes_rows_to_partitions(table):
    random.seed(7)
    start = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    rows = [{"ts": start + dt.timedelta(hours=n), "host": random.choice("abc"), "n": n} for n in range(100)]
    row_without_host = {"ts": start, "host": None, "n": 100}
    schema = "ts: timestamp[us, UTC] not null, host: utf8, n: int64"
    with aw.writer(table, schema, partition_by=["day(ts)", "host"]) as writer:
        for offset in range(0, 100, 30):
            writer.append(rows[offset : offset + 30])
        writer.append_row(**row_without_host)
        assert not table.exists() or len(aw.open(table)) == 0
        writer.commit()
        assert len(aw.open(table)) == 101
        writer.append_row(ts=start, host="late", n=101)
        writer.rollback()
    ds = aw.open(table)
    assert [field.name for field in ds.schema] == ["ts", "n", "day", "host"]
    # Rows are in the order of days, hosts with null last, and appends.
    expected = sorted(
        [*rows, row_without_host],
        key=lambda row: (row["ts"].date(), row["host"] is None, row["host"] or "", row["n"]),
    )
    assert [(row["day"], row["host"], row["n"]) for row in ds] == [
        (row["ts"].date(), row["host"], row["n"]) for row in expected
    ]


def test_writer_limits_the_partitions_that_are_open(table):
    with aw.writer(table, "key: int64, n: int64", partition_by="key", sync="never") as writer:
        for start in (0, 1000, 2000):
            writer.append({"key": [n % 100 for n in range(1000)], "n": range(start, start + 1000)})
            writer.commit()
            assert writer.num_open <= 64
            ds = aw.open(table)
            assert len(ds.partitions) == 100 and len(ds) == start + 1000
    for key in (0, 99):
        assert ds.filter(aw.col("key") == key)["n"].to_pylist() == [n for n in range(3000) if n % 100 == key]
    with pytest.raises(aw.Closed):
        writer.append_row(key=1)
    assert len(aw.open(table)) == 3000


def test_exception_discards_rows_of_all_partitions(table):
    """Rows that wait in memory, because too many partitions are open, are discarded as well."""
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
    for call in [writer.commit, writer.sync, lambda: writer.append_row(key=1, n=1)]:
        with pytest.raises(aw.Closed, match="closed"):
            call()


def test_failed_append_must_be_rolled_back(table):
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


def test_invalid_partition_by_is_refused(table):
    for partition_by, error in {
        "x": aw.ColumnNotFound,
        "week(n)": aw.InvalidArgument,
        "day(n)": aw.InvalidArgument,
    }.items():
        with pytest.raises(error, match="partition_by"):
            aw.writer(table, "key: utf8, n: int64", partition_by=partition_by)


# ---- following ----


def test_follower_finds_new_partitions_and_misses_no_row(table):
    write_partition(table, "a", 10)
    follower = aw.follow(table, start=0, timeout=PATIENCE)
    writers = [start_writer(table, host, 2000) for host in ("a", "b", "c")]
    seen = {}
    while sum(map(len, seen.values())) < 6010:
        for host, numbers in numbers_by_host(next(follower)).items():
            seen.setdefault(host, []).extend(numbers)
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert seen == {"a": list(range(2010)), "b": list(range(2000)), "c": list(range(2000))}
    assert follower.next_row == {"host=a": 2010, "host=b": 2000, "host=c": 2000} and follower.lag == 0


def test_follower_continues_where_another_one_was(table):
    for host in ("a", "b"):
        write_partition(table, host, 10)
    follower = aw.follow(table, start=0, timeout=0)
    assert sum(map(len, follower)) == 20
    assert follower.next_row == {"host=a": 10, "host=b": 10} and follower.lag == 0
    with aw.writer(table, partition={"host": "b"}) as writer:
        writer.append_row(n=10)
    assert follower.lag == 1
    write_partition(table, "c", 3)
    later = [numbers_by_host(rows) for rows in aw.follow(table, start=follower.next_row, timeout=0)]
    assert sorted(later, key=str) == [{"b": [10]}, {"c": [0, 1, 2]}]
    assert list(aw.follow(table, timeout=0)) == []
    with pytest.raises(aw.InvalidArgument, match="numbered in each"):
        aw.follow(table, start=5)


def test_follower_reads_a_dropped_partition_to_its_end(table):
    write_partition(table, "a", 10)
    write_partition(table, "b", 10)
    with aw.follow(table, start=0, timeout=0.01) as follower:
        assert wait_for_rows(follower) == {"a": list(range(10))}
        aw.drop_partition(table, {"host": "b"})
        assert wait_for_rows(follower) == {"b": list(range(10))} and list(follower) == []
        write_partition(table, "b", 2)
        assert wait_for_rows(follower) == {"b": [0, 1]} and list(follower) == []


def wait_for_rows(follower):
    """Returns the next rows of a follower with a short timeout."""
    return numbers_by_host(wait_until(lambda: next(follower, None), "there are more rows"))


# ---- the command ----


def run_command(*arguments):
    command = [sys.executable, "-m", "arrowwood._cli", *arguments]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_command_reads_checks_and_compacts_partitions(table):
    write_partition(table, "a", 3)
    write_partition(table, "b", 2)
    path = str(table)
    assert run_command("head", "-n", "1", "--csv", path).splitlines()[1] == "0,0.0,a"
    assert run_command("tail", "-n", "1", "--csv", path).splitlines()[1] == "1,0.5,b"
    assert "host" in run_command("schema", path)
    assert "rows         5" in run_command("stat", path)
    assert "5 rows" in run_command("check", path)
    assert "2 files rewritten" in run_command("compact", path)
    assert "5 rows" in run_command("check", path)


def test_command_follows_new_partitions(table):
    write_partition(table, "a", 3)
    write_partition(table, "b", 2)
    command = [sys.executable, "-m", "arrowwood._cli", "tail", "-f", "-n", "1", "--csv", str(table)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    header, last_row = process.stdout.readline(), process.stdout.readline()
    assert header and last_row == "1,0.5,b\n"
    write_partition(table, "c", 1)
    assert process.stdout.readline() == "0,0.0,c\n"
    process.send_signal(signal.SIGINT)
    process.wait()


# ---- other readers while tables are written ----


def read_with_pyarrow(table):
    """Returns the hosts and the numbers of all rows, like the other readers."""
    rows = pa.dataset.dataset(table, format="ipc", partitioning="hive").to_table(columns=["n", "host"])
    return rows["host"].to_pylist(), rows["n"].to_pylist()


def read_with_polars(table):
    pl = pytest.importorskip("polars")
    rows = pl.scan_ipc(f"{table}/**/*.arrow", hive_partitioning=True).select("n", "host").collect()
    return rows["host"].to_list(), rows["n"].to_list()


def read_with_datafusion(table):
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    context.sql("set datafusion.runtime.list_files_cache_limit = '0K'")
    columns = "n bigint, value double, host varchar"
    query = f"create external table t ({columns}) stored as arrow partitioned by (host) location '{table}/'"

    def has_created_table():
        try:
            return context.sql(query) is not None
        except ValueError as e:
            # It takes a file that has no name yet, beside the partitions, for one of the table.
            if "mixed partition values" not in str(e):
                raise
            return False

    wait_until(has_created_table, "all files that DataFusion lists are in partitions")
    rows = pa.Table.from_batches(context.sql("select n, host from t").collect())
    return rows["host"].to_pylist(), rows["n"].to_pylist()


OTHER_READERS = [read_with_pyarrow, read_with_polars, read_with_datafusion]


@pytest.mark.parametrize("read", OTHER_READERS)
def test_other_readers_see_consistent_rows_during_writes(table, read):
    for host in ("a", "b"):
        write_partition(table, host, 600, segment_rows=500)
    writers = [start_writer(table, host, 20_000) for host in ("a", "b")]
    read_count = 0
    try:
        while any(writer.poll() is None for writer in writers) or read_count < 3:
            groups = group_by_host(*read(table))
            for host, numbers in groups.items():
                # Readers take files in any order.
                assert sorted(numbers) == list(range(len(numbers))), host
                assert len(numbers) >= 600
            read_count += 1
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert sorted(groups) == ["a", "b"]


def test_server_and_process_write_different_partitions(table):
    """Rows of both are seen by local readers, by other libraries, and through the server."""
    flight = pytest.importorskip("pyarrow.flight")
    for host in ("a1", "a2"):
        write_partition(table, host, 0)
    with aw.serve(table) as server, server.connect() as db, aw.follow(table, start=0, timeout=PATIENCE) as follower:
        local_writer = start_writer(table, "a2", 3000)
        seen = {"a1": [], "a2": []}
        with db["host=a1"].writer(producer="s1") as remote_writer:
            for start in range(0, 3000, 50):
                numbers = range(start, start + 50)
                remote_writer.append({"n": numbers, "value": [n / 2 for n in numbers]})
                remote_writer.commit()
                follow_until(follower, seen, "a1", start + 50)
        with pytest.raises(aw.Busy):
            aw.writer(table, partition={"host": "a1"})
        assert local_writer.wait() == 0
        follow_until(follower, seen, "a2", 3000)
        expected = {"a1": list(range(3000)), "a2": list(range(3000))}
        assert seen == expected == numbers_by_host(aw.open(table)) == numbers_by_host(aw.open(table).refresh())
        for read in OTHER_READERS:
            groups = group_by_host(*read(table))
            assert {host: sorted(numbers) for host, numbers in groups.items()} == expected, read.__name__
        assert sorted(db.tables()) == ["host=a1", "host=a2"]
        with flight.connect(server.url.replace("http://", "grpc+tcp://")) as client:
            for host, numbers in expected.items():
                assert db[f"host={host}"].rows()["n"].to_pylist() == numbers
                assert client.do_get(flight.Ticket(f"host={host}")).read_all()["n"].to_pylist() == numbers
        # Both the writer's last response and the server tell how many rows are durable.
        assert remote_writer.durable_rows == 3000 == db["host=a2"].durable_rows


def follow_until(follower, seen, host, row_count):
    """Adds rows of a follower to `seen` until a host has a number of rows."""
    while len(seen[host]) < row_count:
        for other_host, numbers in numbers_by_host(next(follower)).items():
            seen[other_host] += numbers


def write_single_rows(table, host, row_count):
    """Commits each row by itself."""
    with aw.writer(table, SCHEMA, partition={"host": host}) as writer:
        for n in range(row_count):
            writer.append_row(n=n)
            writer.commit()


def test_threads_write_different_partitions(table):
    hosts = [f"h{number}" for number in range(8)]
    threads = [threading.Thread(target=write_single_rows, args=(table, host, 200)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers_by_host(aw.open(table)) == {host: list(range(200)) for host in hosts}
