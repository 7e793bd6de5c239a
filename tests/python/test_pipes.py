"""Named pipes and devices: refused where a file is needed, and never in the way of Ctrl-C."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import ipc_of
from waits import is_asleep, wait_until


@pytest.fixture
def pipe(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    return path


def test_a_pipe_can_not_be_mapped(pipe):
    for call in (aw.open, aw.map, aw.check, lambda path: aw.map(path, "r+"), lambda path: aw.open([path])):
        with pytest.raises(aw.InvalidArgument, match="pipe can't be mapped; read_stream") as problem:
            call(pipe)
        assert problem.value.path == pipe
    with pytest.raises(aw.InvalidArgument, match="only regular files"):
        aw.open("/dev/zero")
    with pytest.raises(aw.InvalidArgument, match="this is a directory"):
        aw.map(os.path.dirname(pipe))


def sent(path, data):
    """A thread that writes `data` to the pipe."""
    thread = threading.Thread(target=lambda: open(path, "wb").write(data))
    thread.start()
    return thread


def test_what_comes_through_a_pipe(pipe):
    table = pa.table({"x": range(10_000)})
    thread = sent(pipe, ipc_of(table, "stream"))
    assert aw.read_stream(pipe).read_all().to_arrow() == table
    thread.join()
    thread = sent(pipe, b"a,b\n1,x\n2,y\n")
    assert aw.read_csv(pipe).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    thread.join()
    thread = sent(pipe, b"a,b\n1\n")
    with pytest.raises(aw.InvalidData) as problem:
        aw.read_csv(pipe)
    assert problem.value.path == pipe
    thread.join()
    found = []
    thread = threading.Thread(target=lambda: found.append(open(pipe, "rb").read()))
    thread.start()
    aw.write(table, pipe, format="stream")
    thread.join()
    assert pa.ipc.open_stream(found[0]).read_all() == table
    assert os.path.exists(pipe)


CALLS = {
    "read_stream": "aw.read_stream(path)",
    "read_csv": "aw.read_csv(path)",
    "write": "aw.write({'x': [1]}, path)",
    "stream_writer": "aw.stream_writer(path)",
    "the first byte of a stream": "os.open(path, os.O_RDWR); aw.read_stream(path)",
    "the first byte of a text": "os.open(path, os.O_RDWR); aw.read_csv(path)",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_nobody_at_the_other_end_and_ctrl_c(pipe, call):
    code = f"import os, arrowwood as aw\npath = {pipe!r}\nprint('ready', flush=True)\n{call}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"

    def is_interrupted():
        if is_asleep(process):
            process.send_signal(signal.SIGINT)
        return process.poll() is not None

    wait_until(is_interrupted, "Ctrl-C has ended it")
    assert process.stderr.read().splitlines()[-1].startswith("KeyboardInterrupt")


def test_a_pipe_that_can_not_be_opened(tmp_path, pipe):
    from conftest import unprivileged

    os.chmod(pipe, 0)
    os.chmod(tmp_path, 0o755)
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        with unprivileged(), pytest.raises(aw.PermissionDenied, match="pipe"):
            aw.read_stream("pipe")
    finally:
        os.chdir(before)


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="leases are Linux's")
def test_a_file_that_somebody_has_a_lease_on(tmp_path):
    path = str(tmp_path / "leased.arrow")
    aw.write({"x": [1, 2]}, path)
    holder = """
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR)
signal.signal(signal.SIGIO, lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK))
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if process.stdout.readline() != "leased\n":
        pytest.skip("no leases on this file system")
    assert aw.open(path)["x"].to_pylist() == [1, 2]
    process.communicate("")
