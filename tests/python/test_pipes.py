"""Tests named pipes, devices and leased files: where they are refused, read and written, and that Ctrl-C ends waits."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import ipc_of, unprivileged
from waits import is_asleep, wait_until


@pytest.fixture
def pipe(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    return path


def start_sending(path: str, data: bytes) -> threading.Thread:
    """Starts a thread that writes ``data`` to the pipe."""

    def send():
        with open(path, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def map_writable(path):
    return aw.map(path, "r+")


def open_list(path):
    return aw.open([path])


@pytest.mark.parametrize("call", [aw.open, aw.map, aw.check, map_writable, open_list])
def test_mapping_a_pipe_is_refused(pipe, call):
    with pytest.raises(aw.InvalidArgument, match="pipe can't be mapped; read_stream") as caught:
        call(pipe)
    assert caught.value.path == pipe


def test_mapping_a_device_or_directory_is_refused(tmp_path):
    with pytest.raises(aw.InvalidArgument, match="only regular files"):
        aw.open("/dev/zero")
    with pytest.raises(aw.InvalidArgument, match="this is a directory"):
        aw.map(str(tmp_path))


def test_read_stream_reads_a_pipe(pipe):
    table = pa.table({"x": range(10_000)})
    sender = start_sending(pipe, ipc_of(table, "stream"))
    assert aw.read_stream(pipe).read_all().to_arrow() == table
    sender.join()


def test_read_csv_reads_a_pipe(pipe):
    sender = start_sending(pipe, b"a,b\n1,x\n2,y\n")
    assert aw.read_csv(pipe).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    sender.join()


def test_an_error_in_csv_from_a_pipe_has_its_path(pipe):
    sender = start_sending(pipe, b"a,b\n1\n")
    with pytest.raises(aw.InvalidData) as caught:
        aw.read_csv(pipe)
    assert caught.value.path == pipe
    sender.join()


def test_write_sends_a_stream_into_a_pipe(pipe):
    table = pa.table({"x": range(10_000)})
    received = []

    def receive():
        with open(pipe, "rb") as file:
            received.append(file.read())

    receiver = threading.Thread(target=receive)
    receiver.start()
    aw.write(table, pipe, format="stream")
    receiver.join()
    assert pa.ipc.open_stream(received[0]).read_all() == table
    assert os.path.exists(pipe)


# Opening a pipe for reading and writing succeeds without another process, so that only the first byte is waited for.
CALLS = {
    "read_stream": "aw.read_stream(path)",
    "read_csv": "aw.read_csv(path)",
    "write": "aw.write({'x': [1]}, path)",
    "stream_writer": "aw.stream_writer(path)",
    "the first byte of a stream": "os.open(path, os.O_RDWR); aw.read_stream(path)",
    "the first byte of a text": "os.open(path, os.O_RDWR); aw.read_csv(path)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_the_wait_for_the_other_end_of_a_pipe(pipe, call):
    code = f"import os, arrowwood as aw\npath = {pipe!r}\nprint('ready', flush=True)\n{call}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"

    # A signal that arrives before the call blocks may be handled by Python earlier or later, so it is repeated.
    def has_ended_after_ctrl_c():
        if is_asleep(process):
            process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(has_ended_after_ctrl_c, "Ctrl-C has ended it")
    assert process.stderr.read().splitlines()[-1].startswith("KeyboardInterrupt")


def test_a_pipe_without_permission_is_refused(tmp_path, pipe, monkeypatch):
    os.chmod(pipe, 0)
    os.chmod(tmp_path, 0o755)
    # A relative path, because the parents of `tmp_path` are closed to other users.
    monkeypatch.chdir(tmp_path)
    with unprivileged(), pytest.raises(aw.PermissionDenied, match="pipe"):
        aw.read_stream("pipe")


# Takes a write lease, and gives it up when another process opens the file.
LEASE_HOLDER = """
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR)
signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="leases are Linux's")
def test_open_waits_for_the_end_of_a_lease(tmp_path):
    path = str(tmp_path / "leased.arrow")
    aw.write({"x": [1, 2]}, path)
    command = [sys.executable, "-c", LEASE_HOLDER, path]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "leased\n":
        pytest.skip("no leases on this file system")
    assert aw.open(path)["x"].to_pylist() == [1, 2]
    holder.communicate("")
