"""``aw.connect``: tables of other machines, as if they were here."""

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


def rows(start, stop):
    numbers = range(start, stop)
    return {
        "n": list(numbers),
        "symbol": [f"S{n % 3}" if n % 5 else None for n in numbers],
        "x": [n / 4 for n in numbers],
    }


def numbers(dataset):
    return dataset["n"].to_numpy().tolist()


def test_rows_are_those_of_the_files(db, tmp_path):
    assert db.tables() == [] and "ticks" not in db
    ticks = db.create("ticks", SCHEMA)
    assert list(db) == ["ticks"] and len(ticks) == 0 and numbers(ticks.rows()) == []
    with aw.writer(tmp_path / "data" / "ticks") as writer:
        writer.append(rows(0, 1000))
    mapped = aw.open(tmp_path / "data" / "ticks")
    assert len(ticks) == 1000 and ticks.first_row == 0 and ticks.durable_rows == 1000
    assert str(ticks.schema) == str(mapped.schema)
    assert ticks.rows().to_pylist() == mapped.to_pylist()
    assert ticks[-10:].to_pylist() == mapped[-10:].to_pylist()
    assert ticks[5:7].to_pylist() == mapped[5:7].to_pylist()
    some = ticks.rows(10, 500, columns=["x", "n"], where="symbol = 'S1' and x > 100", limit=3)
    expected = [row for row in mapped[10:500].to_pylist() if row["symbol"] == "S1" and row["x"] > 100][:3]
    assert some.to_pylist() == [{"x": row["x"], "n": row["n"]} for row in expected]


def test_files_of_this_machine_are_mapped(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)
    with ticks.writer() as writer:
        writer.append(rows(0, 1))
    assert ticks.path == str((tmp_path / "data" / "ticks").resolve())
    assert ticks.open().footprint.copied == 0 and numbers(ticks.open()) == [0]


@contextlib.contextmanager
def another_program(answer):
    """Its URL. Answers a request of a path with the status and the body that `answer` gives."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{other.server_port}"
    other.shutdown()


def test_a_path_of_another_machine_is_not_opened(tmp_path):
    told = {"path": str(tmp_path)}
    with another_program(lambda _: (200, json.dumps(told).encode())) as url:
        ticks = aw.connect(url)["ticks"]
        assert ticks.path is None
        found = tmp_path.stat()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for machine, path in [("another", None), (boot, str(tmp_path))]:
            told["place"] = f"{machine}:{found.st_dev}:{found.st_ino}"
            assert ticks.path == path


def test_a_table_for_late_rows(db, tmp_path):
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


def test_a_table_of_a_schema_that_text_does_not_say(db, tmp_path):
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
    found = aw.open(tmp_path / "data" / "t")
    assert found.to_arrow().schema.remove_metadata() == schema
    assert list(db.create("t", schema).schema) == list(table.schema) == list(found.schema)
    with pytest.raises(aw.SchemaMismatch):
        db.create("t", schema.set(1, pa.field("level", pa.dictionary(pa.int8(), pa.string()))))
    with pytest.raises(aw.Unsupported, match="can't grow in a table"):
        db.create("u", pa.schema([("x", pa.run_end_encoded(pa.int32(), pa.int64()))]))


def test_what_is_wrong_says_so(server, db):
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
    server.close()
    with pytest.raises(aw.IoError, match="arrowwood serve"):
        db.tables()
    with pytest.raises(aw.IoError, match="nowhere"):
        aw.serve("/nowhere")


def test_a_server_ends_with_its_process(tmp_path):
    """It went on for ever where a script forgot to close it. A fork that ends does not end it."""
    script = """
import os
import arrowwood as aw

server = aw.serve(".")
if os.fork() == 0:
    raise SystemExit
os.wait()
print(server.connect().tables(), server.url)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("[] http://")
    with pytest.raises(aw.IoError, match="refused"):
        aw.connect(done.stdout.split()[1]).tables()


def test_tokens_have_rights(tmp_path):
    (tmp_path / "data").mkdir()
    file = tmp_path / "tokens.json"
    command = [sys.executable, "-m", "arrowwood._cli", "token", "add", "--token-file", file]
    add = lambda *rights: subprocess.run([*command, *rights], capture_output=True, text=True, check=True).stdout.strip()
    token, producer = add("r", "--read", "*"), add("p", "--write", "ticks")
    aw.writer(tmp_path / "data" / "ticks", SCHEMA).close()
    with aw.serve(tmp_path / "data", token_file=file) as server:
        for wrong in [None, "aw_1_wrong"]:
            with pytest.raises(aw.PermissionDenied):
                server.connect(token=wrong).tables()
        db = server.connect(token=token)
        assert db.tables() == ["ticks"]
        with pytest.raises(aw.PermissionDenied, match="may not write"):
            db["ticks"].writer()
        # Who may only write has the schema, and no rows.
        ticks = server.connect(token=producer)["ticks"]
        assert str(ticks.schema) == str(db["ticks"].schema)
        for n, name in enumerate([None, "s1"]):
            with ticks.writer(name) as writer:
                writer.append(rows(n, n + 1))
        with pytest.raises(aw.PermissionDenied):
            ticks.rows()
        assert numbers(db["ticks"].rows()) == [0, 1]
        # A request whose body was refused is no reason for the next to fail.
        writer = ticks.writer()
        for n in range(2, 22):
            with pytest.raises(aw.PermissionDenied):
                ticks._connection.create("other", SCHEMA)
            writer.append(rows(n, n + 1))
            assert writer.commit() == n
        assert token not in "\n".join(server.log) and token not in repr(db)


def test_a_writer_appends_all_or_nothing(db):
    ticks = db.create("ticks", SCHEMA)
    with ticks.writer() as writer:
        writer.append(rows(0, 10))
        writer.append_row(n=10, x=2.5)
        assert writer.commit() == 0 and writer.durable_rows == 11 and writer.commit() is None
        with pytest.raises(aw.InvalidArgument):
            writer.append_row(n=None)
        writer.append(rows(11, 12))
    assert numbers(ticks.rows()) == list(range(12))
    with pytest.raises(ZeroDivisionError), ticks.writer() as writer:
        writer.append(rows(12, 13))
        raise ZeroDivisionError
    assert len(ticks) == 12


class Proxy:
    """Passes bytes on between clients and a server, and breaks connections."""

    def __init__(self, url):
        self.target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.drop_answers, self.open = 0, []
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
                there = socket.create_connection(self.target)
            except OSError:
                client.close()
                continue
            self.open += [client, there]
            threading.Thread(target=self.pump, args=(client, there, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(there, client, True), daemon=True).start()

    def pump(self, source, sink, is_answer):
        try:
            while data := source.recv(1 << 16):
                if is_answer and self.drop_answers > 0 and b'"sequence":' in data:
                    self.drop_answers -= 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def break_all(self):
        while self.open:
            try:
                self.open.pop().shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_commit_whose_answer_is_lost_is_there_once(server):
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    with ticks.writer("s1") as writer:
        for n in range(20):
            proxy.drop_answers = n % 3
            writer.append(rows(n, n + 1))
            writer.commit()
        assert writer.sequence == 20
    # A later process of the same name goes on.
    again = ticks.writer("s1", epoch=1)
    assert again.sequence == 20
    again.append(rows(20, 21))
    again.commit()
    late = ticks.writer("s1", epoch=0)
    late.append(rows(99, 100))
    with pytest.raises(aw.Closed, match="replaced"):
        late.commit()
    assert numbers(ticks.rows()) == list(range(21))
    # Without a name it is not known.
    proxy.drop_answers = 1
    writer = ticks.writer()
    writer.append(rows(21, 22))
    with pytest.raises(aw.IoError):
        writer.commit()
    with pytest.raises(aw.Busy, match="rollback"):
        writer.append(rows(22, 23))
    for _ in range(2):
        with pytest.raises(aw.IoError, match="may be in the table or not: commit.again=True. .* rollback"):
            writer.commit()
    assert numbers(ticks.rows()) == list(range(22))
    assert writer.commit(again=True) == 22 and writer.commit() is None
    assert numbers(ticks.rows()) == [*range(22), 21]
    proxy.drop_answers = 1
    writer.append(rows(23, 24))
    with pytest.raises(aw.IoError):
        writer.commit()
    writer.rollback()
    writer.append(rows(24, 25))
    assert writer.commit() == 24
    assert numbers(ticks.rows())[22:] == [21, 23, 24]


def test_what_a_producer_gives_up_is_not_taken_for_what_follows(server):
    """The number of a commit that is there, though its answer was lost, is not given to other rows."""
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    writer = ticks.writer("s1", retry=0)
    proxy.drop_answers = 1
    writer.append(rows(0, 1))
    with pytest.raises(aw.IoError):
        writer.commit()
    proxy.drop_answers = 0
    writer.rollback()
    writer.append(rows(1, 2))
    assert writer.commit() == 1 and writer.sequence == 2
    assert numbers(ticks.rows()) == [0, 1]


@pytest.mark.parametrize("producer", [None, "s1"])
def test_rows_that_the_server_could_not_take_are_sent_by_the_next_commit(db, tmp_path, producer):
    ticks = db.create("ticks", SCHEMA)
    writer = ticks.writer(producer, retry=0)
    with aw.writer(tmp_path / "data" / "ticks"):
        writer.append(rows(0, 3))
        for _ in range(2):
            with pytest.raises(aw.Busy):
                writer.commit()
        with pytest.raises(aw.Busy, match="not acknowledged"):
            writer.append(rows(3, 4))
    assert len(ticks) == 0
    assert writer.commit() == 0 and writer.commit() is None
    assert numbers(ticks.rows()) == [0, 1, 2]


@pytest.mark.parametrize("producer", [None, "s1"])
def test_rows_of_a_coroutine_that_the_server_could_not_take_are_sent_by_the_next_commit(db, tmp_path, producer):
    ticks = db.create("ticks", SCHEMA)

    async def produce():
        async with ticks.async_writer(producer, retry=0) as writer:
            with aw.writer(tmp_path / "data" / "ticks"):
                writer.append(rows(0, 2))
                for _ in range(2):
                    with pytest.raises(aw.Busy):
                        await writer.commit()
            assert await writer.commit() == 0 and await writer.commit() is None

    asyncio.run(produce())
    assert numbers(ticks.rows()) == [0, 1]


def test_two_writers_of_one_name_are_told(db):
    ticks = db.create("ticks", SCHEMA)
    told = "another writer that uses the name; these rows are not in the table: .* epoch"
    first, second = ticks.writer("s1"), ticks.writer("s1")
    first.append(rows(0, 2))
    assert first.commit() == 0
    second.append(rows(5, 7))
    for _ in range(2):
        with pytest.raises(aw.Closed, match=told):
            second.commit()

    async def lose():
        async with ticks.async_writer("s1") as third:
            first.append(rows(2, 4))
            assert first.commit() == 2
            third.append(rows(9, 10))
            await third.commit()

    with pytest.raises(aw.Closed, match=told):
        asyncio.run(lose())
    # One that takes over goes on, and the first is told.
    with ticks.writer("s1", epoch=1) as third:
        third.append(rows(4, 6))
    first.append(rows(8, 9))
    with pytest.raises(aw.Closed, match="replaced"):
        first.commit()
    assert numbers(ticks.rows()) == list(range(6))


def test_a_producer_outlives_servers(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    server = aw.serve(folder, listen=listen)
    server.connect().create("ticks", SCHEMA)
    n = 0

    def restart():
        nonlocal server
        for kill in range(12):
            # At any moment of a commit, as the writer goes on meanwhile; of those behind the first ones, too.
            wanted = n + kill % 4
            wait_until(lambda: n > wanted, "the producer goes on")
            server._running._process.send_signal(signal.SIGKILL)
            server.close()
            server = aw.serve(folder, listen=listen)

    thread = threading.Thread(target=restart)
    writer = aw.connect(f"http://{listen}")["ticks"].writer("s1", retry=PATIENCE)
    thread.start()
    while thread.is_alive() or n < 20:
        writer.append(rows(n, n + 1))
        writer.commit()
        n += 1
    join(thread)
    server.close()
    assert numbers(aw.open(folder / "ticks")) == list(range(n))


def test_a_connection_that_was_idle_is_made_anew(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    server = aw.serve(folder)
    db = server.connect()
    writer = db.create("ticks", SCHEMA).writer()
    # Meanwhile the server closes the connection, here by being another one.
    server.close()
    with aw.serve(folder, listen=server.url.removeprefix("http://")):
        db._used -= 60
        writer.append(rows(0, 1))
        assert writer.commit() == 0


def test_following_goes_on_over_broken_connections(server, tmp_path):
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)
    ticks = aw.connect(proxy.url)["ticks"]
    seen = []

    def follow():
        with ticks.follow(0) as coming:
            for some in coming:
                seen.extend(numbers(some))
                assert coming.next_row == len(seen)
                if len(seen) == 100:
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    with aw.writer(tmp_path / "data" / "ticks") as writer:
        for n in range(100):
            writer.append(rows(n, n + 1))
            writer.commit()
            if n % 20 == 10:
                proxy.break_all()
            else:
                wait_until(lambda: len(seen) == n + 1, "the follower has the row")
    join(thread)
    assert seen == list(range(100))


def test_a_follower_is_told_of_rows_that_were_put_in_order_while_it_was_away(server, tmp_path):
    path = tmp_path / "data" / "late"
    with aw.writer(path, "n: int", sorted_by="n", late="accept", segment_rows=64) as writer:
        writer.append({"n": [*range(10, 100), *range(10), *range(100, 200)]})
    proxy = Proxy(server.url)
    late = aw.connect(proxy.url)["late"]
    with late.follow(0, timeout=PATIENCE) as coming:
        # Reads one record batch of the answer before the connection breaks.
        assert len(next(coming)) > 0
        proxy.break_all()
        assert aw.compact(path, sort=True) > 0
        with pytest.raises(aw.FileChanged, match="put in order"):
            while True:
                next(coming)
    assert numbers(late.rows()) == list(range(200))


def test_a_follower_goes_on_while_its_table_is_compacted(server, tmp_path):
    path = tmp_path / "data" / "ticks"
    with aw.writer(path, SCHEMA, segment_rows=64) as writer:
        writer.append(rows(0, 200))
    seen = []
    with server.connect()["ticks"].follow(0, timeout=PATIENCE) as coming:
        for n in range(200, 1000, 100):
            aw.compact(path)
            with aw.writer(path, segment_rows=64) as writer:
                writer.append(rows(n, n + 100))
            while len(seen) < n + 100:
                seen += numbers(next(coming))
    assert seen == list(range(1000))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_said_and_costs_nothing(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "arrowwood", disk], stderr=subprocess.DEVNULL
    ).returncode:
        pytest.skip("a small disk can't be mounted here")
    try:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1 << 20))
        with aw.serve(disk) as server, server.connect() as db:
            ticks = db.create("ticks", "n: int not null")
            writer, sent = ticks.writer(producer="s1", retry=0.2), 0
            with pytest.raises(aw.IoError, match="disk is full"):
                while True:
                    writer.append({"n": list(range(sent, sent + 50_000))})
                    sent += 50_000
                    writer.commit()
            assert 0 < len(ticks.rows()) < sent
            ballast.unlink()
            # The rows that were refused are kept by their writer, and there once.
            writer.commit()
            assert numbers(ticks.rows()) == list(range(sent))
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_follower_misses_a_server_that_has_vanished(db):
    """Without a goodbye: the system asks after 45 seconds, and not after hours."""
    db.create("ticks", SCHEMA)
    with db["ticks"].follow() as coming:
        alive = coming._answer._socket
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert alive.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert [alive.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [45, 15, 3]


def test_following_ends(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)
    # One that waits longer goes on meanwhile.
    longer, got = ticks.follow(timeout=PATIENCE), []
    thread = asleep(lambda: got.append(list(longer)))
    assert list(ticks.follow(timeout=0.2)) == [] and got == []
    # Closed by another thread.
    longer.close()
    join(thread)
    assert got == [[]]
    with aw.writer(tmp_path / "data" / "ticks") as writer:
        writer.append(rows(0, 50))
        writer.commit()
        got, coming = [], ticks.follow(10, columns=["n"], timeout=0.3)
        while len(got) < 40:
            # On a busy machine they may take longer.
            got += numbers(wait_until(lambda: next(coming, None), "there are more rows"))
        assert got == list(range(10, 50)) and list(coming) == []
    with pytest.raises(aw.RowOutOfRange):
        ticks.follow(1000)


def test_threads_that_share_a_follower_take_turns(db, tmp_path):
    """One took the other's reading for the end of the answer, and closed that under it: an AttributeError."""
    ticks = db.create("ticks", SCHEMA)
    with ThreadPoolExecutor(4) as pool, ticks.follow(0) as coming:
        following = [pool.submit(lambda: sum(map(numbers, coming), [])) for _ in range(4)]
        with aw.writer(tmp_path / "data" / "ticks") as writer:
            for n in range(100):
                writer.append(rows(n, n + 1))
                writer.commit()
                wait_until(lambda: coming.next_row == n + 1, "one of them has the row")
    assert sorted(sum((one.result() for one in following), [])) == list(range(100))


def asleep_readers():
    """How many threads wait for rows that tasks have asked for."""
    return sum(is_asleep(thread) for thread in threading.enumerate() if thread.name == "arrowwood-remote")


def test_following_in_asyncio(db, tmp_path):
    ticks = db.create("ticks", SCHEMA)

    async def first():
        async for some in ticks.follow(0):
            return numbers(some)

    async def main():
        task = asyncio.create_task(first())
        await until(lambda: asleep_readers() == 1, "it waits for rows")
        with aw.writer(tmp_path / "data" / "ticks") as writer:
            writer.append(rows(0, 3))
        return await asyncio.wait_for(task, PATIENCE)

    assert asyncio.run(main()) == [0, 1, 2]


def test_rows_that_come_when_a_task_is_cancelled_are_there_for_the_next(db):
    ticks = db.create("ticks", SCHEMA)

    async def main():
        with ticks.follow(0) as coming:
            waiting = asyncio.create_task(anext(coming))
            await until(lambda: asleep_readers() == 1, "it waits for rows")
            waiting.cancel()
            async with ticks.async_writer() as writer:
                writer.append(rows(0, 3))
            assert numbers(await asyncio.wait_for(anext(coming), PATIENCE)) == [0, 1, 2]
            # More of them than asyncio has threads to share.
            others = [ticks.follow(0) for _ in range(40)]
            assert [numbers(it) for it in await asyncio.gather(*(anext(other) for other in others))] == [[0, 1, 2]] * 40
            idle = [asyncio.create_task(anext(other)) for other in others]
            await until(lambda: asleep_readers() == 40, "all wait for rows")
            for other in others:
                other.close()
            ended = await asyncio.gather(*idle, return_exceptions=True)
            assert all(isinstance(it, StopAsyncIteration) for it in ended)

    asyncio.run(main())


def test_writers_in_coroutines(server, db):
    ticks = db.create("ticks", SCHEMA)

    async def produce(number):
        async with server.connect()["ticks"].async_writer(f"s{number}") as writer:
            for n in range(5):
                writer.append_row(n=10 * number + n)
                assert await writer.commit() is not None and writer.sequence == n + 1
            assert writer.durable_rows >= 5
            writer.append_row(n=10 * number + 5)

    async def main():
        await asyncio.gather(*(produce(number) for number in range(8)))
        with pytest.raises(ZeroDivisionError):
            async with ticks.async_writer() as writer:
                writer.append(rows(0, 5))
                raise ZeroDivisionError
        async with ticks.async_writer() as writer:
            writer.append(rows(0, 5))
            writer.rollback()
            assert await writer.commit() is None
        with pytest.raises(aw.NotFound):
            async with db["nothing"].async_writer():
                pass
        with pytest.raises(aw.Closed):
            ticks.async_writer().append(rows(0, 1))

    asyncio.run(main())
    expected = [[10 * number + n for n in range(6)] for number in range(8)]
    found = numbers(ticks.rows())
    assert (
        sorted(found) == sum(expected, [])
        and [[n for n in found if n // 10 == number] for number in range(8)] == expected
    )


def test_a_commit_whose_task_is_cancelled_goes_on(server):
    """Neither lost nor there twice: the next call has its outcome."""
    server.connect().create("ticks", SCHEMA)
    proxy = Proxy(server.url)

    async def main():
        async with aw.connect(proxy.url)["ticks"].async_writer("s1") as writer:
            writer.append(rows(0, 3))
            proxy.drop_answers = 2
            commit = asyncio.create_task(writer.commit())
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            with pytest.raises(aw.Busy):
                writer.append(rows(3, 4))
            assert await writer.commit() == 0 and writer.sequence == 1
            writer.append(rows(3, 4))

    asyncio.run(main())
    assert proxy.drop_answers == 0
    assert numbers(server.connect()["ticks"].rows()) == [0, 1, 2, 3]


def test_an_answer_that_breaks_off_in_its_header_is_no_data():
    """Whatever comes of the header: it is an error of the connection,
    after which followers go on and writers try again."""
    whole = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.apache.arrow.stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for end in [*range(0, len(whole), 7), len(whole)]:
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer(listener=listener, end=end):
                client, _ = listener.accept()
                client.recv(1 << 16)
                client.sendall(whole[:end])
                client.close()

            threading.Thread(target=answer, daemon=True).start()
            with pytest.raises(aw.IoError):
                _ = aw.connect(f"http://127.0.0.1:{listener.getsockname()[1]}")["t"].schema


def test_what_another_program_answers_is_refused():
    def answer(path):
        body = json.dumps(["not", "facts"]).encode() if path.endswith("ticks") else b"<html>"
        return 404 if "gone" in path else 200, body

    with another_program(answer) as url:
        db = aw.connect(url)
        for ask in [db.tables, lambda: len(db["ticks"]), db["ticks"].rows, db["ticks"].follow, lambda: len(db["gone"])]:
            with pytest.raises(aw.Error):
                ask()
