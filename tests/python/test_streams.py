"""Tests streams of record batches through files, pipes, sockets and memory."""

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

ROWS_PER_BATCH = 100
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def make_table(rows=1000):
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "price": pa.array([None if i % 7 == 0 else i / 4 for i in range(rows)], pa.float64()),
            "text": pa.array([None if i % 5 == 0 else f"row {i}" for i in range(rows)]),
            "symbol": pa.array([f"S{i % 3}" for i in range(rows)]).dictionary_encode(),
            "list": pa.array([list(range(i % 4)) for i in range(rows)], pa.list_(pa.int32())),
        }
    )


def write_stream(sink, table, **options):
    """Writes a table to a path, descriptor, file object, socket or buffer, in batches of 100 rows."""
    with aw.stream_writer(sink, table.schema, **options) as writer:
        for start in range(0, len(table), ROWS_PER_BATCH):
            writer.write(table.slice(start, ROWS_PER_BATCH))


@contextlib.contextmanager
def written_in_thread(sink, table):
    """Writes a stream in another thread during a block, and closes a socket afterwards."""

    def write():
        write_stream(sink, table)
        if isinstance(sink, socket.socket):
            sink.close()

    thread = threading.Thread(daemon=True, target=write)
    thread.start()
    yield
    thread.join()


def decode_symbols(table):
    return table.set_column(table.schema.get_field_index("symbol"), "symbol", table["symbol"].cast(pa.string()))


def assert_same_rows(dataset, table):
    """Compares a dataset with a table of `make_table`, whose dictionaries may have another order."""
    assert decode_symbols(pa.table(dataset)).combine_chunks().equals(decode_symbols(table).combine_chunks())


def write_to_each_kind_of_sink(table, folder, compression):
    """Writes a stream to sinks of each kind; yields the bytes that each received."""
    options = {"compression": compression}
    file_object = io.BytesIO()
    write_stream(file_object, table, **options)
    yield file_object.getvalue()

    path = folder / "x.arrows"
    write_stream(path, table, **options)
    yield path.read_bytes()

    descriptor = os.open(folder / "y.arrows", os.O_CREAT | os.O_RDWR)
    write_stream(descriptor, table, **options)
    yield os.pread(descriptor, 1 << 30, 0)
    os.close(descriptor)

    buffer = bytearray(1 << 20)
    write_stream(buffer, table, **options)
    yield bytes(buffer)

    array = np.zeros(1 << 20, dtype="uint8")
    write_stream(array, table, **options)
    yield array.tobytes()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_streams_round_trip_over_all_sinks_and_sources(tmp_path, compression):
    table = make_table()
    for stream in write_to_each_kind_of_sink(table, tmp_path, compression):
        assert_same_rows(aw.open(stream), table)
        assert pa.ipc.open_stream(stream).read_all().num_rows == 1000
        path = tmp_path / "z.arrows"
        path.write_bytes(stream)
        open_functions = [
            lambda: stream,
            lambda: path,
            lambda: str(path),
            lambda: io.BytesIO(stream),
            lambda: open(path, "rb"),
            lambda: open(path, "rb", buffering=0),
            lambda: os.open(path, os.O_RDONLY),
            lambda: np.frombuffer(stream, dtype="uint8"),
        ]
        for open_source in open_functions:
            reader = aw.read_stream(open_source())
            batches = list(reader)
            assert [len(batch) for batch in batches] == [ROWS_PER_BATCH] * 10
            assert list(reader) == []
            assert_same_rows(aw.concat(batches), table)
            reader = aw.read_stream(open_source())
            first = next(reader)
            assert len(first) == ROWS_PER_BATCH and reader.schema.names == table.schema.names
            rest = reader.read_all()
            assert rest.num_batches == 1
            assert_same_rows(rest, table.slice(ROWS_PER_BATCH))


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_sockets_carry_a_stream(timeout):
    table = make_table()
    sending, receiving = socket.socketpair()
    sending.settimeout(timeout)
    receiving.settimeout(timeout)
    with written_in_thread(sending, table):
        assert_same_rows(aw.read_stream(receiving).read_all(), table)


def test_a_batch_can_be_read_before_the_next_is_written():
    table = make_table(200)
    read_end, write_end = os.pipe()
    with aw.stream_writer(write_end, table.schema) as writer:
        os.close(write_end)
        reader = aw.read_stream(read_end)
        for start in (0, 100):
            writer.write(table.slice(start, 100))
            assert_same_rows(next(reader), table.slice(start, 100))
    assert list(reader) == []
    os.close(read_end)


def test_named_pipes_carry_a_stream(tmp_path):
    table = make_table()
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with written_in_thread(path, table):
        assert_same_rows(aw.read_stream(path).read_all(), table)


def test_standard_streams_of_a_child_carry_streams():
    code = (
        "import sys, arrowwood as aw\n"
        "with aw.stream_writer(sys.stdout.buffer) as out:\n"
        "    for batch in aw.read_stream(sys.stdin.buffer): out.write(batch)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    table = make_table(300)
    writer = aw.stream_writer(child.stdin, table.schema)
    reader = None
    for start in range(0, 300, 100):
        writer.write(table.slice(start, 100))
        child.stdin.flush()
        if reader is None:
            # The child writes its schema after the first batch.
            reader = aw.read_stream(child.stdout)
        assert_same_rows(next(reader), table.slice(start, 100))
    writer.close()
    child.stdin.close()
    assert list(reader) == []
    assert child.wait() == 0


def test_the_first_rows_determine_the_schema():
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


def test_an_exception_leaves_a_stream_without_its_end():
    schema = pa.schema([("a", pa.int64())])
    interrupted, complete = io.BytesIO(), io.BytesIO()
    with pytest.raises(KeyError), aw.stream_writer(interrupted, schema) as writer:
        writer.write({"a": [1]})
        raise KeyError
    with aw.stream_writer(complete, schema) as writer:
        writer.write({"a": [1]})
    assert complete.getvalue() == interrupted.getvalue() + END_OF_STREAM


def test_a_mapped_stream_survives_a_new_one_at_its_path(tmp_path):
    path = tmp_path / "x.arrows"
    write_stream(path, make_table())
    opened_before = aw.open(path)
    write_stream(path, make_table(10))
    assert_same_rows(opened_before, make_table())
    assert len(aw.open(path)) == 10


def test_truncated_and_invalid_streams_are_errors():
    table = make_table(200)
    sink = io.BytesIO()
    write_stream(sink, table)
    truncated = sink.getvalue()[:-200]
    reader = aw.read_stream(io.BytesIO(truncated))
    assert_same_rows(next(reader), table.slice(0, 100))
    with pytest.raises(aw.InvalidData, match="truncated"):
        next(reader)
    assert list(reader) == []
    with pytest.raises(aw.InvalidData, match="truncated"):
        aw.read_stream(io.BytesIO(truncated)).read_all()
    with pytest.raises(aw.InvalidData):
        aw.read_stream(io.BytesIO(b"GET / HTTP/1.1\r\n\r\n"))
    two_gigabytes_of_metadata = b"\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(aw.InvalidData):
        aw.read_stream(io.BytesIO(two_gigabytes_of_metadata + bytes(1000))).read_all()


def test_writing_to_a_closed_socket_is_an_error():
    sending, receiving = socket.socketpair()
    receiving.close()
    with pytest.raises(aw.IoError):
        aw.stream_writer(sending, make_table(200).schema)


class BrokenFile:
    """A file object whose calls raise an exception."""

    def write(self, data):
        raise ZeroDivisionError

    def read(self, size):
        raise ZeroDivisionError


def test_exceptions_of_file_objects_are_passed_on():
    with pytest.raises(ZeroDivisionError):
        aw.stream_writer(BrokenFile(), make_table().schema)
    with pytest.raises(ZeroDivisionError):
        aw.read_stream(BrokenFile())


def test_stream_writer_refuses_unsuitable_sinks_and_options():
    with pytest.raises(aw.IoError):
        write_stream(bytearray(100), make_table())
    with pytest.raises(aw.InvalidArgument):
        aw.stream_writer(b"not to be written", make_table().schema)
    with pytest.raises(aw.InvalidArgument):
        aw.stream_writer(io.BytesIO(), make_table().schema, compression="snappy")
    with pytest.raises(TypeError):
        aw.stream_writer(3.5)


class Gate(io.RawIOBase):
    """A file object whose calls wait while it is shut."""

    def __init__(self, data=b""):
        self.file = io.BytesIO(data)
        self.opened, self.reached = threading.Event(), threading.Event()
        self.opened.set()

    def open(self):
        self.opened.set()

    def shut(self):
        self.opened.clear()
        self.reached.clear()

    def pass_through(self):
        self.reached.set()
        assert self.opened.wait(PATIENCE)

    def read(self, size):
        self.pass_through()
        # Return few bytes, so that no batch is read ahead.
        return self.file.read(min(size, 64))

    def write(self, data):
        self.pass_through()
        return self.file.write(data)


@contextlib.contextmanager
def held_up(gate, call):
    """Starts a call in another thread that waits at the gate during the block; yields its future."""
    gate.shut()
    with ThreadPoolExecutor(1) as pool:
        try:
            future = pool.submit(call)
            assert gate.reached.wait(PATIENCE)
            yield future
        finally:
            gate.open()
    future.result()


def stream_of_ids(rows):
    return ipc_of(make_table(rows).select(["id"]), "stream", ROWS_PER_BATCH)


def test_reading_in_a_second_thread_is_refused():
    """The second thread must not see an early end of the stream, which would lose rows without an error."""
    gate = Gate(stream_of_ids(300))
    reader = aw.read_stream(gate)
    assert len(next(reader)) == 100
    with held_up(gate, lambda: next(reader)) as future:
        for call in (lambda: next(reader), reader.read_all, lambda: list(reader)):
            with pytest.raises(aw.Busy, match="another call is using the stream"):
                call()
    assert future.result()["id"][0] == 100
    assert reader.read_all()["id"].to_pylist() == list(range(200, 300))
    assert list(reader) == []


def test_a_reader_closed_during_a_read_stays_closed():
    gate = Gate(stream_of_ids(300))
    gate_reference = weakref.ref(gate)
    reader = aw.read_stream(gate)
    with held_up(gate, lambda: next(reader)) as future:
        reader.close()
        with pytest.raises(aw.Busy):
            next(reader)
    assert len(future.result()) == 100
    assert list(reader) == [] and len(reader.read_all()) == 0
    # The closed reader has released its source.
    del gate
    assert gate_reference() is None


def test_writing_in_a_second_thread_is_refused():
    """The second thread must not be told that the stream is closed, and closing it must not be ignored."""
    gate = Gate()
    writer = aw.stream_writer(gate, pa.schema({"id": pa.int64()}))
    bytes_before = writer.nbytes
    with held_up(gate, lambda: writer.write({"id": [1]})):
        for call in (lambda: writer.write({"id": [2]}), writer.close):
            with pytest.raises(aw.Busy, match="another call is using the stream"):
                call()
        assert writer.nbytes == bytes_before > 0
    writer.write({"id": [3]})
    assert writer.nbytes == len(gate.file.getvalue())
    with held_up(gate, lambda: writer.write({"id": [4]})), pytest.raises(KeyError), writer:
        raise KeyError
    with pytest.raises(aw.Closed):
        writer.write({"id": [5]})
    assert aw.open(gate.file.getvalue()).to_pylist() == [{"id": 1}, {"id": 3}, {"id": 4}]


def test_nonblocking_descriptors_are_refused():
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with pytest.raises(TypeError, match="set_blocking"):
        aw.read_stream(read_end)
    os.close(read_end)
    os.close(write_end)


def make_random_batches(rng):
    batches = []
    for _ in range(rng.integers(1, 6)):
        rows = int(rng.integers(0, 5000))
        nulls = rng.random(rows) < rng.choice([0, 0.1])
        batches.append(
            pa.record_batch(
                {
                    "a": pa.array(rng.integers(0, 1 << 40, rows)),
                    "b": pa.array(rng.random(rows), mask=nulls),
                    "c": pa.array(rng.integers(0, 100, rows).astype("int8"), mask=nulls),
                }
            )
        )
    return batches


def write_batches(descriptor, batches):
    with os.fdopen(descriptor, "wb") as file, pa.ipc.new_stream(file, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def test_read_all_equals_pyarrow_for_random_batches_of_numbers():
    """Columns of numbers are read from a pipe into their final buffers, without a batch in between."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        batches = make_random_batches(rng)
        read_end, write_end = os.pipe()
        sender = threading.Thread(daemon=True, target=write_batches, args=(write_end, batches))
        sender.start()
        rows = aw.read_stream(read_end).read_all()
        sender.join()
        os.close(read_end)
        assert pa.table(rows).combine_chunks().equals(pa.Table.from_batches(batches).combine_chunks())


def test_a_dictionary_may_have_a_null_entry_wherever_it_is_gathered(tmp_path):
    """Builders, and streams of file objects and servers, once refused such dictionaries; readers of memory did not."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "c"]))
    numbers = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None], pa.int32()), pa.array([None, 7]))
    lists = pa.ListArray.from_arrays([0, 1, 3, 3, 4], texts)
    table = pa.table({"text": texts, "number": numbers, "list": lists})
    expected = {"text": ["a", None, None, "c"], "number": [7, None, 7, None], "list": [["a"], [None, None], [], ["c"]]}
    part = table.slice(1, 2)
    expected_with_part = {name: values + values[1:3] for name, values in expected.items()}

    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
        writer.write_table(part)
    for source in (sink.getvalue(), io.BytesIO(sink.getvalue())):
        assert aw.read_stream(source).read_all().to_arrow().to_pydict() == expected_with_part

    with aw.writer(tmp_path / "table", table.schema) as writer:
        writer.append(table)
        writer.append(part)
    assert aw.open(tmp_path / "table").to_arrow().to_pydict() == expected_with_part

    (tmp_path / "file.arrow").write_bytes(ipc_of(table))
    with aw.serve(tmp_path) as server:
        connection = aw.connect(server.url)
        assert connection["file.arrow"].rows().to_arrow().to_pydict() == expected
        assert connection["table"].rows().to_arrow().to_pydict() == expected_with_part

    not_null = pa.schema([table.schema.field("text").with_nullable(False)])
    with aw.writer(tmp_path / "not_null", not_null) as writer:
        with pytest.raises(aw.InvalidArgument, match="row 1: null, and 'text' is declared without nulls"):
            writer.append(pa.table([texts], not_null))
