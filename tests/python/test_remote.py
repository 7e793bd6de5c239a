"""Tests ``aw.connect``: reading, writing and following tables of a server, also over broken connections."""

import asyncio
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import arrowwood as aw
from waits import PATIENCE, asleep, is_asleep, join, until, wait_until

SCHEMA = "n: int not null, symbol: category, x: float"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "data").mkdir()
    with aw.serve(tmp_path / "data") as server:
        yield server


@pytest.fixture
def db(server):
    with server.connect() as db:
        yield db


def make_rows(start, stop):
    """Returns columns for SCHEMA, whose `n` counts from `start` to `stop`."""
    numbers = range(start, stop)
    return {
        "n": list(numbers),
        "symbol": [f"S{n % 3}" if n % 5 else None for n in numbers],
        "x": [n / 4 for n in numbers],
    }


def read_numbers(dataset):
    return dataset["n"].to_numpy().tolist()


def test_rows_equal_the_rows_of_the_mapped_table(db, tmp_path):
    assert db.tables() == [] and "ticks" not in db
    ticks = db.create("ticks", SCHEMA)
    assert list(db) == ["ticks"] and len(ticks) == 0 and read_numbers(ticks.rows()) == []
    with aw.writer(tmp_path / "data" / "ticks") as writer:
        writer.append(make_rows(0, 1000))
    mapped = aw.open(tmp_path / "data" / "ticks")
    assert len(ticks) == 1000 and ticks.first_row == 0 and ticks.durable_rows == 1000
    assert str(ticks.schema) == str(mapped.schema)
    assert ticks.rows().to_pylist() == mapped.to_pylist()
    assert ticks[-10:].to_pylist() == mapped[-10:].to_pylist()
    assert ticks[5:7].to_pylist() == mapped[5:7].to_pylist()
    selected = ticks.rows(10, 500, columns=["x", "n"], where="symbol = 'S1' and x > 100", limit=3)
    expected = [row for row in mapped[10:500].to_pylist() if row["symbol"] == "S1" and row["x"] > 100][:3]
    assert selected.to_pylist() == [{"x": row["x"], "n": row["n"]} for row in expected]


def test_tables_on_the_same_machine_can_be_mapped(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)
    with ticks.writer() as writer:
        writer.append(make_rows(0, 1))
    assert ticks.path == str((tmp_path / "data" / "ticks").resolve())
    assert ticks.open().footprint.copied == 0 and read_numbers(ticks.open()) == [0]


@contextlib.contextmanager
def serve_responses(respond):
    """Serves HTTP during a block, and yields the URL; `respond` returns the status and body for a path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = respond(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_path_is_none_if_the_table_is_on_another_machine(tmp_path):
    table_info = {"path": str(tmp_path)}
    with serve_responses(lambda _: (200, json.dumps(table_info).encode())) as url:
        ticks = aw.connect(url)["ticks"]
        assert ticks.path is None
        stat = tmp_path.stat()
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for machine, path in [("another", None), (boot_id, str(tmp_path))]:
            table_info["place"] = f"{machine}:{stat.st_dev}:{stat.st_ino}"
            assert ticks.path == path


def test_create_a_table_that_accepts_late_rows(db, tmp_path):
    load = db.create("load", "ts: int64 not null, host: text", sorted_by="ts", late="accept", index=["host"])
    with load.writer() as writer:
        writer.append({"ts": [5, 7, 6], "host": ["a", "b", "a"]})
    table = aw.open(tmp_path / "data" / "load")
    assert table.between(5, 6)["ts"].to_pylist() == [5, 6] and table.sorted_by is None
    db.create("load", "ts: int64 not null, host: text", sorted_by="ts", late="accept")
    with pytest.raises(aw.SchemaMismatch):
        db.create("load", "ts: int64 not null, host: text", sorted_by="ts", late="refuse")
    with pytest.raises(aw.InvalidArgument, match="accept or refuse"):
        db.create("other", "ts: int64 not null", sorted_by="ts", late="maybe")


def test_create_a_table_with_an_arrow_schema(db, tmp_path):
    """This schema can't be written as text."""
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema(
        [
            pa.field("id", pa.uuid()),
            pa.field("level", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
            pa.field("s", pa.struct([pa.field("a", pa.int32(), nullable=False)])),
            pa.field("m", pa.map_(pa.string(), pa.int32(), keys_sorted=True)),
        ]
    )
    table = db.create("t", schema)
    mapped = aw.open(tmp_path / "data" / "t")
    assert mapped.to_arrow().schema.remove_metadata() == schema
    assert list(db.create("t", schema).schema) == list(table.schema) == list(mapped.schema)
    with pytest.raises(aw.SchemaMismatch):
        db.create("t", schema.set(1, pa.field("level", pa.dictionary(pa.int8(), pa.string()))))
    with pytest.raises(aw.Unsupported, match="can't grow in a table"):
        db.create("u", pa.schema([("x", pa.run_end_encoded(pa.int32(), pa.int64()))]))


def test_errors_of_the_server_have_their_own_types(server, db):
    ticks = db.create("ticks", SCHEMA)
    with pytest.raises(aw.NotFound, match="nothing"):
        len(db["nothing"])
    with pytest.raises(aw.RowOutOfRange):
        ticks.rows(5)
    with pytest.raises(aw.InvalidArgument, match="volume"):
        ticks.rows(where="volume > 5")
    with pytest.raises(aw.SchemaMismatch):
        db.create("ticks", "n: text")
    with pytest.raises(TypeError, match="slice"):
        ticks[5]
    with pytest.raises(TypeError, match="name"):
        db[5]
    server.close()
    with pytest.raises(aw.IoError, match="arrowwood serve"):
        db.tables()
    with pytest.raises(aw.IoError, match="nowhere"):
        aw.serve("/nowhere")


def test_connect_refuses_unsuitable_urls():
    for url in [
        "localhost:7447",
        "ftp://localhost",
        "http://localhost/v1",
        "http://",
        "http://u:p@localhost",
        "http://h:x",
    ]:
        with pytest.raises(aw.InvalidArgument):
            aw.connect(url)
    with pytest.raises(aw.InvalidArgument, match="without TLS"):
        aw.connect("http://data.example.org:7447", token="aw_1")


def test_a_server_ends_with_its_process(tmp_path):
    """A script may forget to close its server. The end of a forked child does not end it."""
    script = """
import os
import arrowwood as aw

server = aw.serve(".")
if os.fork() == 0:
    raise SystemExit
os.wait()
print(server.connect().tables(), server.url)
"""
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert (process.returncode, process.stderr) == (0, "") and process.stdout.startswith("[] http://")
    url = process.stdout.split()[1]
    with pytest.raises(aw.IoError, match="refused"):
        aw.connect(url).tables()


def add_token(token_file, *arguments):
    command = [sys.executable, "-m", "arrowwood._cli", "token", "add", "--token-file", token_file, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_tokens_limit_what_a_client_may_do(tmp_path):
    (tmp_path / "data").mkdir()
    token_file = tmp_path / "tokens.json"
    read_token = add_token(token_file, "r", "--read", "*")
    write_token = add_token(token_file, "p", "--write", "ticks")
    aw.writer(tmp_path / "data" / "ticks", SCHEMA).close()
    with aw.serve(tmp_path / "data", token_file=token_file) as server:
        for invalid_token in [None, "aw_1_wrong"]:
            with pytest.raises(aw.PermissionDenied):
                server.connect(token=invalid_token).tables()
        db = server.connect(token=read_token)
        assert db.tables() == ["ticks"]
        with pytest.raises(aw.PermissionDenied, match="may not write"):
            db["ticks"].writer()

        # A client that may only write sees the schema, but no rows.
        ticks = server.connect(token=write_token)["ticks"]
        assert str(ticks.schema) == str(db["ticks"].schema)
        for n, producer in enumerate([None, "s1"]):
            with ticks.writer(producer) as writer:
                writer.append(make_rows(n, n + 1))
        with pytest.raises(aw.PermissionDenied):
            ticks.rows()
        assert read_numbers(db["ticks"].rows()) == [0, 1]

        # A refused request with a body does not break the next one on its connection.
        writer = ticks.writer()
        for n in range(2, 22):
            with pytest.raises(aw.PermissionDenied):
                ticks._connection.create("other", SCHEMA)
            writer.append(make_rows(n, n + 1))
            assert writer.commit() == n
        assert read_token not in "\n".join(server.log) and read_token not in repr(db)


def test_a_writer_commits_at_the_end_of_its_block_unless_it_failed(db):
    ticks = db.create("ticks", SCHEMA)
    with ticks.writer() as writer:
        writer.append(make_rows(0, 10))
        writer.append_row(n=10, x=2.5)
        assert writer.commit() == 0 and writer.durable_rows == 11 and writer.commit() is None
        with pytest.raises(aw.InvalidArgument):
            writer.append_row(n=None)
        writer.append(make_rows(11, 12))
    assert read_numbers(ticks.rows()) == list(range(12))
    with pytest.raises(ZeroDivisionError), ticks.writer() as writer:
        writer.append(make_rows(12, 13))
        raise ZeroDivisionError
    assert len(ticks) == 12


class Proxy:
    """Forwards connections to a server, drops responses to commits, and breaks connections."""

    def __init__(self, url):
        self.target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        # The number of responses to commits that are still to be dropped.
        self.responses_to_drop = 0
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                if self.listener.fileno() < 0:
                    return
                continue
            try:
                server = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, True), daemon=True).start()

    def pump(self, source, sink, is_response):
        try:
            while data := source.recv(1 << 16):
                if is_response and self.responses_to_drop > 0 and b'"sequence":' in data:
                    self.responses_to_drop -= 1
                    break
                sink.sendall(data)
        except OSError:
            pass  # The other thread has shut the sockets down.
        shut_down(source)
        shut_down(sink)

    def break_all(self):
        while self.sockets:
            shut_down(self.sockets.pop())


def shut_down(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def test_a_named_producer_commits_once_if_responses_are_lost(server):
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    with ticks.writer("s1") as writer:
        for n in range(20):
            proxy.responses_to_drop = n % 3
            writer.append(make_rows(n, n + 1))
            writer.commit()
        assert writer.sequence == 20
    # A later writer with the same name and a newer epoch continues.
    successor = ticks.writer("s1", epoch=1)
    assert successor.sequence == 20
    successor.append(make_rows(20, 21))
    successor.commit()
    outdated = ticks.writer("s1", epoch=0)
    outdated.append(make_rows(99, 100))
    with pytest.raises(aw.Closed, match="replaced"):
        outdated.commit()
    assert read_numbers(ticks.rows()) == list(range(21))


def test_a_writer_without_a_name_leaves_lost_responses_to_its_caller(server):
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    writer = ticks.writer()
    proxy.responses_to_drop = 1
    writer.append(make_rows(0, 1))
    with pytest.raises(aw.IoError):
        writer.commit()
    with pytest.raises(aw.Busy, match="rollback"):
        writer.append(make_rows(1, 2))
    for _ in range(2):
        with pytest.raises(aw.IoError, match="may be in the table or not: commit.again=True. .* rollback"):
            writer.commit()
    assert read_numbers(ticks.rows()) == [0]

    # Sending the rows again duplicates them, as they were committed.
    assert writer.commit(again=True) == 1 and writer.commit() is None
    assert read_numbers(ticks.rows()) == [0, 0]

    # Giving up rows does not remove them if they were committed.
    proxy.responses_to_drop = 1
    writer.append(make_rows(2, 3))
    with pytest.raises(aw.IoError):
        writer.commit()
    writer.rollback()
    writer.append(make_rows(3, 4))
    assert writer.commit() == 3
    assert read_numbers(ticks.rows()) == [0, 0, 2, 3]


def test_rollback_does_not_reuse_the_sequence_number_of_a_lost_response(server):
    """If other rows got the number, the server would take them for duplicates of rows that it has."""
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    writer = ticks.writer("s1", retry=0)
    proxy.responses_to_drop = 1
    writer.append(make_rows(0, 1))
    with pytest.raises(aw.IoError):
        writer.commit()
    proxy.responses_to_drop = 0
    writer.rollback()
    writer.append(make_rows(1, 2))
    assert writer.commit() == 1 and writer.sequence == 2
    assert read_numbers(ticks.rows()) == [0, 1]


@pytest.mark.parametrize("producer", [None, "s1"])
def test_commit_sends_rows_again_that_the_server_refused(db, tmp_path, producer):
    ticks = db.create("ticks", SCHEMA)
    writer = ticks.writer(producer, retry=0)
    with aw.writer(tmp_path / "data" / "ticks"):
        writer.append(make_rows(0, 3))
        for _ in range(2):
            with pytest.raises(aw.Busy):
                writer.commit()
        with pytest.raises(aw.Busy, match="not acknowledged"):
            writer.append(make_rows(3, 4))
    assert len(ticks) == 0
    assert writer.commit() == 0 and writer.commit() is None
    assert read_numbers(ticks.rows()) == [0, 1, 2]


@pytest.mark.parametrize("producer", [None, "s1"])
def test_async_commit_sends_rows_again_that_the_server_refused(db, tmp_path, producer):
    ticks = db.create("ticks", SCHEMA)

    async def produce():
        async with ticks.async_writer(producer, retry=0) as writer:
            with aw.writer(tmp_path / "data" / "ticks"):
                writer.append(make_rows(0, 2))
                for _ in range(2):
                    with pytest.raises(aw.Busy):
                        await writer.commit()
            assert await writer.commit() == 0 and await writer.commit() is None

    asyncio.run(produce())
    assert read_numbers(ticks.rows()) == [0, 1]


def test_writers_that_share_a_name_are_refused(db):
    ticks = db.create("ticks", SCHEMA)
    message = "another writer that uses the name; these rows are not in the table: .* epoch"
    first, second = ticks.writer("s1"), ticks.writer("s1")
    first.append(make_rows(0, 2))
    assert first.commit() == 0
    second.append(make_rows(5, 7))
    for _ in range(2):
        with pytest.raises(aw.Closed, match=message):
            second.commit()

    async def commit_after_first():
        async with ticks.async_writer("s1") as third:
            first.append(make_rows(2, 4))
            assert first.commit() == 2
            third.append(make_rows(9, 10))
            await third.commit()

    with pytest.raises(aw.Closed, match=message):
        asyncio.run(commit_after_first())
    # A newer epoch takes over the name.
    with ticks.writer("s1", epoch=1) as successor:
        successor.append(make_rows(4, 6))
    first.append(make_rows(8, 9))
    with pytest.raises(aw.Closed, match="replaced"):
        first.commit()
    assert read_numbers(ticks.rows()) == list(range(6))


class RestartingServer:
    """A server that is killed and started again at the same address."""

    def __init__(self, folder):
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.server = aw.serve(folder, listen=self.address)

    def restart(self):
        self.server._process._popen.send_signal(signal.SIGKILL)
        self.server.close()
        self.server = aw.serve(self.folder, listen=self.address)


def test_a_producer_commits_each_row_once_while_servers_are_killed(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    restarting = RestartingServer(folder)
    restarting.server.connect().create("ticks", SCHEMA)
    committed = 0

    def restart_repeatedly():
        for restart in range(12):
            # Wait for some commits, so that some servers are killed during their first commit and others later.
            threshold = committed + restart % 4
            wait_until(lambda: committed > threshold, "the producer goes on")
            restarting.restart()

    thread = threading.Thread(target=restart_repeatedly)
    writer = aw.connect(f"http://{restarting.address}")["ticks"].writer("s1", retry=PATIENCE)
    thread.start()
    while thread.is_alive() or committed < 20:
        writer.append(make_rows(committed, committed + 1))
        writer.commit()
        committed += 1
    join(thread)
    restarting.server.close()
    assert read_numbers(aw.open(folder / "ticks")) == list(range(committed))


def test_an_idle_connection_is_opened_again(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    server = aw.serve(folder)
    db = server.connect()
    writer = db.create("ticks", SCHEMA).writer()
    # A new server at the address does not know the connection, as if it had closed it for idleness.
    server.close()
    with aw.serve(folder, listen=server.url.removeprefix("http://")):
        db._last_used -= 60
        writer.append(make_rows(0, 1))
        assert writer.commit() == 0


def test_followers_reconnect_after_broken_connections(server, tmp_path):
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    followed = []

    def follow():
        with ticks.follow(0) as batches:
            for batch in batches:
                followed.extend(read_numbers(batch))
                assert batches.next_row == len(followed)
                if len(followed) == 100:
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    with aw.writer(tmp_path / "data" / "ticks") as writer:
        for n in range(100):
            writer.append(make_rows(n, n + 1))
            writer.commit()
            if n % 20 == 10:
                proxy.break_all()
            else:
                wait_until(lambda: len(followed) == n + 1, "the follower has the row")
    join(thread)
    assert followed == list(range(100))


def test_a_follower_fails_if_rows_were_sorted_while_it_was_disconnected(server, tmp_path):
    path = tmp_path / "data" / "late"
    with aw.writer(path, "n: int", sorted_by="n", late="accept", segment_rows=64) as writer:
        writer.append({"n": [*range(10, 100), *range(10), *range(100, 200)]})
    proxy = Proxy(server.url)
    late = aw.connect(proxy.url)["late"]
    with late.follow(0, timeout=PATIENCE) as batches:
        # Read one batch of the response before the connection breaks.
        assert len(next(batches)) > 0
        proxy.break_all()
        assert aw.compact(path, sort=True) > 0
        with pytest.raises(aw.FileChanged, match="put in order"):
            while True:
                next(batches)
    assert read_numbers(late.rows()) == list(range(200))


def test_a_follower_gets_all_rows_while_its_table_is_compacted(server, tmp_path):
    path = tmp_path / "data" / "ticks"
    with aw.writer(path, SCHEMA, segment_rows=64) as writer:
        writer.append(make_rows(0, 200))
    followed = []
    with server.connect()["ticks"].follow(0, timeout=PATIENCE) as batches:
        for n in range(200, 1000, 100):
            aw.compact(path)
            with aw.writer(path, segment_rows=64) as writer:
                writer.append(make_rows(n, n + 100))
            while len(followed) < n + 100:
                followed += read_numbers(next(batches))
    assert followed == list(range(1000))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "arrowwood", disk]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("a small disk can't be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_rows_refused_by_a_full_disk_are_committed_later(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    with aw.serve(small_disk) as server, server.connect() as db:
        ticks = db.create("ticks", "n: int not null")
        writer, appended = ticks.writer(producer="s1", retry=0.2), 0
        with pytest.raises(aw.IoError, match="disk is full"):
            while True:
                writer.append({"n": list(range(appended, appended + 50_000))})
                appended += 50_000
                writer.commit()
        assert 0 < len(ticks.rows()) < appended
        ballast.unlink()
        writer.commit()
        assert read_numbers(ticks.rows()) == list(range(appended))


def test_followers_detect_a_vanished_server_by_keepalive(db):
    """The system probes an idle connection after 45 seconds instead of hours."""
    db.create("ticks", SCHEMA)
    with db["ticks"].follow() as batches:
        connection = batches._response._socket
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [connection.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [45, 15, 3]


def test_followers_end_by_timeout_and_by_close(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)
    # A follower with a short timeout ends, and one with a long timeout waits until it is closed.
    waiting, results = ticks.follow(timeout=PATIENCE), []
    thread = asleep(lambda: results.append(list(waiting)))
    assert list(ticks.follow(timeout=0.2)) == [] and results == []
    waiting.close()
    join(thread)
    assert results == [[]]

    with aw.writer(tmp_path / "data" / "ticks") as writer:
        writer.append(make_rows(0, 50))
        writer.commit()
        followed, batches = [], ticks.follow(10, columns=["n"], timeout=0.3)
        while len(followed) < 40:
            # Rows may arrive after the timeout on a busy machine.
            followed += read_numbers(wait_until(lambda: next(batches, None), "there are more rows"))
        assert followed == list(range(10, 50)) and list(batches) == []
    with pytest.raises(aw.RowOutOfRange):
        ticks.follow(1000)


def test_threads_that_share_a_follower_get_each_row_once(db, tmp_path):
    """One thread must not take another one's read for the end of the response."""
    ticks = db.create("ticks", SCHEMA)
    with ThreadPoolExecutor(4) as pool, ticks.follow(0) as batches:

        def follow():
            return [n for batch in batches for n in read_numbers(batch)]

        futures = [pool.submit(follow) for _ in range(4)]
        with aw.writer(tmp_path / "data" / "ticks") as writer:
            for n in range(100):
                writer.append(make_rows(n, n + 1))
                writer.commit()
                wait_until(lambda: batches.next_row == n + 1, "one of them has the row")
    assert sorted(n for future in futures for n in future.result()) == list(range(100))


def count_sleeping_readers():
    """Returns how many of the threads that read for asyncio tasks wait for rows."""
    return sum(is_asleep(thread) for thread in threading.enumerate() if thread.name == "arrowwood-remote")


def test_async_followers_get_rows(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)

    async def read_first_batch():
        async for batch in ticks.follow(0):
            return read_numbers(batch)

    async def main():
        task = asyncio.create_task(read_first_batch())
        await until(lambda: count_sleeping_readers() == 1, "it waits for rows")
        with aw.writer(tmp_path / "data" / "ticks") as writer:
            writer.append(make_rows(0, 3))
        return await asyncio.wait_for(task, PATIENCE)

    assert asyncio.run(main()) == [0, 1, 2]


def test_rows_that_arrive_for_a_cancelled_task_go_to_the_next(db):
    ticks = db.create("ticks", SCHEMA)

    async def main():
        with ticks.follow(0) as batches:
            cancelled = asyncio.create_task(anext(batches))
            await until(lambda: count_sleeping_readers() == 1, "it waits for rows")
            cancelled.cancel()
            async with ticks.async_writer() as writer:
                writer.append(make_rows(0, 3))
            assert read_numbers(await asyncio.wait_for(anext(batches), PATIENCE)) == [0, 1, 2]

    asyncio.run(main())


def test_many_async_followers_wait_at_once(db):
    """There are more of them than asyncio's executor has threads."""
    ticks = db.create("ticks", SCHEMA)
    with ticks.writer() as writer:
        writer.append(make_rows(0, 3))

    async def main():
        followers = [ticks.follow(0) for _ in range(40)]
        batches = await asyncio.gather(*(anext(follower) for follower in followers))
        assert [read_numbers(batch) for batch in batches] == [[0, 1, 2]] * 40
        tasks = [asyncio.create_task(anext(follower)) for follower in followers]
        await until(lambda: count_sleeping_readers() == 40, "all wait for rows")
        for follower in followers:
            follower.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, StopAsyncIteration) for result in results)

    asyncio.run(main())


def test_async_writers_commit_concurrently(server, db):
    ticks = db.create("ticks", SCHEMA)

    async def produce(producer):
        async with server.connect()["ticks"].async_writer(f"s{producer}") as writer:
            for n in range(5):
                writer.append_row(n=10 * producer + n)
                assert await writer.commit() is not None and writer.sequence == n + 1
            assert writer.durable_rows >= 5
            writer.append_row(n=10 * producer + 5)

    async def main():
        await asyncio.gather(*(produce(producer) for producer in range(8)))

    asyncio.run(main())
    numbers = read_numbers(ticks.rows())
    assert len(numbers) == 8 * 6
    for producer in range(8):
        assert [n for n in numbers if n // 10 == producer] == [10 * producer + n for n in range(6)]


def test_async_writers_drop_uncommitted_rows_on_errors_and_rollback(db):
    ticks = db.create("ticks", SCHEMA)

    async def main():
        with pytest.raises(ZeroDivisionError):
            async with ticks.async_writer() as writer:
                writer.append(make_rows(0, 5))
                raise ZeroDivisionError
        async with ticks.async_writer() as writer:
            writer.append(make_rows(0, 5))
            writer.rollback()
            assert await writer.commit() is None
        with pytest.raises(aw.NotFound):
            async with db["nothing"].async_writer():
                pass
        with pytest.raises(aw.Closed):
            ticks.async_writer().append(make_rows(0, 1))

    asyncio.run(main())
    assert len(ticks) == 0


def test_a_commit_continues_if_its_task_is_cancelled(server):
    """Its rows are neither lost nor duplicated: the next call returns its result."""
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)

    async def main():
        async with aw.connect(proxy.url)["ticks"].async_writer("s1") as writer:
            writer.append(make_rows(0, 3))
            proxy.responses_to_drop = 2
            commit = asyncio.create_task(writer.commit())
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            with pytest.raises(aw.Busy):
                writer.append(make_rows(3, 4))
            assert await writer.commit() == 0 and writer.sequence == 1
            writer.append(make_rows(3, 4))

    asyncio.run(main())
    assert proxy.responses_to_drop == 0
    assert read_numbers(server.connect()["ticks"].rows()) == [0, 1, 2, 3]


def send_response(listener, response):
    client, _ = listener.accept()
    client.recv(1 << 16)
    client.sendall(response)
    client.close()


def test_a_response_that_ends_in_its_header_is_a_connection_error():
    """Followers and writers try again after errors of the connection, and after no others."""
    header = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apache.arrow.stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for end in [*range(0, len(header), 7), len(header)]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=send_response, args=(listener, header[:end]), daemon=True).start()
            with pytest.raises(aw.IoError):
                _ = aw.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")["t"].schema


def test_responses_of_another_program_are_errors():
    def respond(path):
        body = b'["unexpected"]' if path.endswith("ticks") else b"<html>"
        return 404 if "gone" in path else 200, body

    with serve_responses(respond) as url:
        db = aw.connect(url)
        for call in [
            db.tables,
            lambda: len(db["ticks"]),
            db["ticks"].rows,
            db["ticks"].follow,
            lambda: len(db["gone"]),
        ]:
            with pytest.raises(aw.Error):
                call()
