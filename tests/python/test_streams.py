"""Streams of record batches through files, pipes, sockets and memory."""

import contextlib
import io
import os
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import ipc_of
from waits import PATIENCE


def table(rows=1000):
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "price": pa.array([None if i % 7 == 0 else i / 4 for i in range(rows)], pa.float64()),
            "text": pa.array([None if i % 5 == 0 else f"row {i}" for i in range(rows)]),
            "symbol": pa.array([f"S{i % 3}" for i in range(rows)]).dictionary_encode(),
            "list": pa.array([list(range(i % 4)) for i in range(rows)], pa.list_(pa.int32())),
        }
    )


def sent(sink, data, step=100, **options):
    with aw.stream_writer(sink, data.schema, **options) as writer:
        for start in range(0, len(data), step):
            writer.write(data.slice(start, step))
    return writer


def plain(data):
    """With dictionaries decoded."""
    return data.set_column(3, "symbol", data["symbol"].cast(pa.string()))


def same(dataset, data):
    assert plain(pa.table(dataset)).combine_chunks().equals(plain(data).combine_chunks())


def sinks(tmp_path):
    memory = io.BytesIO()
    yield "object", memory, memory.getvalue
    path = tmp_path / "x.arrows"
    yield "path", path, path.read_bytes
    descriptor = os.open(tmp_path / "y.arrows", os.O_CREAT | os.O_RDWR)
    yield "descriptor", descriptor, lambda: os.pread(descriptor, 1 << 30, 0)
    room = bytearray(1 << 20)
    yield "memory", room, lambda: bytes(room)
    array = np.zeros(1 << 20, dtype="uint8")
    yield "array", array, array.tobytes


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_every_sink_and_every_source(tmp_path, compression):
    data = table()
    for _, sink, what in sinks(tmp_path):
        sent(sink, data, compression=compression)
        stream = what()
        same(aw.open(stream), data)
        assert pa.ipc.open_stream(stream).read_all().num_rows == 1000
        path = tmp_path / "z.arrows"
        path.write_bytes(stream)
        sources = [
            lambda: stream,
            lambda: path,
            lambda: str(path),
            lambda: io.BytesIO(stream),
            lambda: open(path, "rb"),
            lambda: open(path, "rb", buffering=0),
            lambda: os.open(path, os.O_RDONLY),
            lambda: np.frombuffer(stream, dtype="uint8"),
        ]
        for source in sources:
            reader = aw.read_stream(source())
            batches = list(reader)
            assert [len(batch) for batch in batches] == [100] * 10
            assert list(reader) == []
            same(aw.concat(batches), data)
            reader = aw.read_stream(source())
            first = next(reader)
            assert len(first) == 100 and reader.schema.names == data.schema.names
            rest = reader.read_all()
            assert rest.num_batches == 1
            same(rest, data.slice(100))


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_a_socket_both_ways(timeout):
    data = table()
    here, there = socket.socketpair()
    here.settimeout(timeout)
    there.settimeout(timeout)
    sender = threading.Thread(daemon=True, target=lambda: (sent(here, data), here.close()))
    sender.start()
    same(aw.read_stream(there).read_all(), data)
    sender.join()


def test_batches_come_while_the_stream_goes_on():
    data = table(200)
    out, into = os.pipe()
    with aw.stream_writer(into, data.schema) as writer:
        os.close(into)
        reader = aw.read_stream(out)
        for start in (0, 100):
            writer.write(data.slice(start, 100))
            same(next(reader), data.slice(start, 100))
    assert list(reader) == []
    os.close(out)


def test_a_pipe_with_a_name(tmp_path):
    data = table()
    path = tmp_path / "pipe"
    os.mkfifo(path)
    sender = threading.Thread(daemon=True, target=lambda: sent(path, data))
    sender.start()
    same(aw.read_stream(path).read_all(), data)
    sender.join()


def test_the_standard_streams_of_a_child():
    program = (
        "import sys, arrowwood as aw\n"
        "with aw.stream_writer(sys.stdout.buffer) as out:\n"
        "    for batch in aw.read_stream(sys.stdin.buffer): out.write(batch)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    data = table(300)
    writer = aw.stream_writer(child.stdin, data.schema)
    reader = None
    for start in range(0, 300, 100):
        writer.write(data.slice(start, 100))
        child.stdin.flush()
        reader = reader or aw.read_stream(child.stdout)
        same(next(reader), data.slice(start, 100))
    writer.close()
    child.stdin.close()
    assert list(reader) == []
    assert child.wait() == 0


def test_the_schema_is_that_of_the_first_rows_or_given():
    memory = io.BytesIO()
    with aw.stream_writer(memory) as writer:
        assert writer.schema is None
        writer.write({"a": [1, 2], "b": ["x", None]})
        writer.write([{"b": "y", "a": 3}])
        with pytest.raises(aw.ColumnNotFound):
            writer.write({"c": [1]})
        assert writer.schema.names == ["a", "b"]
        assert writer.nbytes == len(memory.getvalue())
    assert aw.open(memory.getvalue()).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "y"}]
    with pytest.raises(aw.Closed):
        writer.write({"a": [1], "b": ["x"]})


def test_a_stream_that_an_exception_broke_off_has_no_end():
    memory = io.BytesIO()
    with pytest.raises(KeyError), aw.stream_writer(memory, pa.schema([("a", pa.int64())])) as writer:
        writer.write({"a": [1]})
        raise KeyError
    whole = io.BytesIO()
    with aw.stream_writer(whole, pa.schema([("a", pa.int64())])) as writer:
        writer.write({"a": [1]})
    assert whole.getvalue() == memory.getvalue() + b"\xff\xff\xff\xff\0\0\0\0"


def test_what_was_mapped_stays_when_a_path_is_written_anew(tmp_path):
    path = tmp_path / "x.arrows"
    sent(path, table())
    before = aw.open(path)
    sent(path, table(10))
    same(before, table())
    assert len(aw.open(path)) == 10


def test_peers_that_break_off_lie_or_are_gone():
    data = table(200)
    memory = io.BytesIO()
    sent(memory, data)
    cut = memory.getvalue()[:-200]
    reader = aw.read_stream(io.BytesIO(cut))
    same(next(reader), data.slice(0, 100))
    with pytest.raises(aw.InvalidData, match="truncated"):
        next(reader)
    assert list(reader) == []
    with pytest.raises(aw.InvalidData, match="truncated"):
        aw.read_stream(io.BytesIO(cut)).read_all()
    with pytest.raises(aw.InvalidData):
        aw.read_stream(io.BytesIO(b"GET / HTTP/1.1\r\n\r\n"))
    # A message that says it has two gigabytes of metadata.
    with pytest.raises(aw.InvalidData):
        aw.read_stream(io.BytesIO(b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(1000))).read_all()
    here, there = socket.socketpair()
    there.close()
    with pytest.raises(aw.IoError):
        aw.stream_writer(here, data.schema)


def test_what_a_file_object_raises_is_passed_on():
    class Broken:
        def write(self, data):
            raise ZeroDivisionError

        def read(self, size):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        aw.stream_writer(Broken(), table().schema)
    with pytest.raises(ZeroDivisionError):
        aw.read_stream(Broken())
    with pytest.raises(aw.IoError):
        sent(bytearray(100), table())
    with pytest.raises(aw.InvalidArgument):
        aw.stream_writer(b"not to be written", table().schema)
    with pytest.raises(aw.InvalidArgument):
        aw.stream_writer(io.BytesIO(), table().schema, compression="snappy")
    with pytest.raises(TypeError):
        aw.stream_writer(3.5)


class Gate(io.RawIOBase):
    """A file object in which calls wait while it is shut."""

    def __init__(self, data=b""):
        self.file = io.BytesIO(data)
        self.open, self.reached = threading.Event(), threading.Event()
        self.open.set()

    def shut(self):
        self.open.clear()
        self.reached.clear()

    def pass_through(self):
        self.reached.set()
        assert self.open.wait(PATIENCE)

    def read(self, size):
        self.pass_through()
        # Few bytes, so that no batch is read ahead.
        return self.file.read(min(size, 64))

    def write(self, data):
        self.pass_through()
        return self.file.write(data)


@contextlib.contextmanager
def held_up(gate, call):
    """The future of a call in another thread, which waits at the gate meanwhile."""
    gate.shut()
    with ThreadPoolExecutor(1) as pool:
        try:
            future = pool.submit(call)
            assert gate.reached.wait(PATIENCE)
            yield future
        finally:
            gate.open.set()
    future.result()


def test_a_second_thread_is_told_that_the_stream_is_being_read():
    """It saw the end of the stream, or got a dataset without rows, and rows were lost without an error."""
    gate = Gate(ipc_of(table(300).select(["id"]), "stream", 100))
    reader = aw.read_stream(gate)
    assert len(next(reader)) == 100
    with held_up(gate, lambda: next(reader)) as waiting:
        for call in (lambda: next(reader), reader.read_all, lambda: list(reader)):
            with pytest.raises(aw.Busy, match="another call is using the stream"):
                call()
    assert waiting.result()["id"][0] == 100
    assert reader.read_all()["id"].to_pylist() == list(range(200, 300))
    assert list(reader) == []


def test_a_stream_closed_while_a_thread_waits_stays_closed():
    gate = Gate(ipc_of(table(300).select(["id"]), "stream", 100))
    source = weakref.ref(gate)
    reader = aw.read_stream(gate)
    with held_up(gate, lambda: next(reader)) as waiting:
        reader.close()
        with pytest.raises(aw.Busy):
            next(reader)
    assert len(waiting.result()) == 100
    assert list(reader) == [] and len(reader.read_all()) == 0
    del gate
    assert source() is None


def test_a_second_thread_is_told_that_the_stream_is_being_written():
    """It was told that the stream was closed, and closing it did nothing."""
    gate = Gate()
    writer = aw.stream_writer(gate, pa.schema({"id": pa.int64()}))
    sent = writer.nbytes
    with held_up(gate, lambda: writer.write({"id": [1]})):
        for call in (lambda: writer.write({"id": [2]}), writer.close):
            with pytest.raises(aw.Busy, match="another call is using the stream"):
                call()
        assert writer.nbytes == sent > 0
    writer.write({"id": [3]})
    assert writer.nbytes == len(gate.file.getvalue())
    with held_up(gate, lambda: writer.write({"id": [4]})), pytest.raises(KeyError), writer:
        raise KeyError
    with pytest.raises(aw.Closed):
        writer.write({"id": [5]})
    assert aw.open(gate.file.getvalue()).to_pylist() == [{"id": 1}, {"id": 3}, {"id": 4}]


def test_a_descriptor_that_does_not_wait_is_refused():
    out, into = os.pipe()
    os.set_blocking(out, False)
    with pytest.raises(TypeError, match="set_blocking"):
        aw.read_stream(out)
    os.close(out)
    os.close(into)


def test_random_batches_of_numbers_go_straight_to_their_columns():
    random = np.random.default_rng(7)
    for _ in range(20):
        batches = []
        for _ in range(random.integers(1, 6)):
            rows = int(random.integers(0, 5000))
            nulls = random.random(rows) < random.choice([0, 0.1])
            batches.append(
                pa.record_batch(
                    {
                        "a": pa.array(random.integers(0, 1 << 40, rows)),
                        "b": pa.array(random.random(rows), mask=nulls),
                        "c": pa.array(random.integers(0, 100, rows).astype("int8"), mask=nulls),
                    }
                )
            )
        out, into = os.pipe()

        def send():
            with os.fdopen(into, "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)

        sender = threading.Thread(daemon=True, target=send)
        sender.start()
        got = aw.read_stream(out).read_all()
        sender.join()
        os.close(out)
        assert pa.table(got).combine_chunks().equals(pa.Table.from_batches(batches).combine_chunks())


def test_a_dictionary_may_have_a_null_entry_wherever_it_is_gathered(tmp_path):
    """From memory such rows were null; a builder, and so a stream of an object or a server, refused the dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "c"]))
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None], pa.int32()), pa.array([None, 7]))
    lists = pa.ListArray.from_arrays([0, 1, 3, 3, 4], texts)
    data = pa.table({"text": texts, "number": numbers, "list": lists})
    expected = {"text": ["a", None, None, "c"], "number": [7, None, 7, None], "list": [["a"], [None, None], [], ["c"]]}
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
        writer.write_table(data.slice(1, 2))
    expected = {name: values + values[1:3] for name, values in expected.items()}
    for source in (sink.getvalue(), io.BytesIO(sink.getvalue())):
        assert aw.read_stream(source).read_all().to_arrow().to_pydict() == expected
    with aw.writer(tmp_path / "table", data.schema) as writer:
        writer.append(data)
        writer.append(data.slice(1, 2))
    assert aw.open(tmp_path / "table").to_arrow().to_pydict() == expected
    (tmp_path / "file.arrow").write_bytes(ipc_of(data))
    with aw.serve(tmp_path) as server:
        rows = aw.connect(server.url)["file.arrow"].rows()
        assert rows.to_arrow().to_pydict() == {name: values[:4] for name, values in expected.items()}
        assert aw.connect(server.url)["table"].rows().to_arrow().to_pydict() == expected
    plain = data.schema.field("text").with_nullable(False)
    with aw.writer(tmp_path / "plain", pa.schema([plain])) as writer:
        with pytest.raises(aw.InvalidArgument, match="row 1: null, and 'text' is declared without nulls"):
            writer.append(pa.table([texts], pa.schema([plain])))
