"""Files that change under Python: our calls raise FileChanged, and everybody else's faults go where they went before."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the handler of faults is for Linux")

SETUP = """
import os, sys
import pyarrow as pa
path = sys.argv[1]
def make():
    table = pa.table({"n": pa.array(range(300_000)), "text": [f"row {i}" for i in range(300_000)]})
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
make()
"""

CALLS = """
import arrowwood as aw
def changed(call):
    make()
    data = aw.open(path)
    call(data)
    os.truncate(path, 8192)
    for _ in range(2):
        try:
            call(data)
        except aw.FileChanged as e:
            assert path in str(e), e
        else:
            raise SystemExit("nothing was raised")
changed(lambda data: data["n"].sum())
changed(lambda data: data["text"].min())
changed(lambda data: data[299_999])
changed(lambda data: data["text"][299_999])
changed(lambda data: data["n"].to_numpy(copy=True))
changed(lambda data: data.tail(3).to_pylist())
changed(lambda data: data.validate())
data = aw.open((make(), path)[1])
os.truncate(path, 8192)
try:
    data.to_arrow()
except (aw.FileChanged, pa.ArrowInvalid) as e:
    # What goes through a C stream is an exception of its consumer's, with our sentence.
    assert "truncated" in str(e), e
data = aw.open((make(), path)[1])
os.truncate(path, 8192)
assert "truncated" in repr(data), repr(data)
mapping = aw.map((make(), path)[1])
os.truncate(path, 8192)
try:
    mapping[100_000]
except aw.FileChanged:
    print("alive")
"""

EXPORTED = """
import arrowwood as aw
table = aw.open(path).to_arrow()
os.truncate(path, 8192)
print("before", flush=True)
print(table["n"][299_999])
"""

FOREIGN = """
import arrowwood as aw, numpy as np
aw.open(path)["n"].sum()
other = path + ".other"
open(other, "wb").write(bytes(1 << 20))
array = np.memmap(other, mode="r")
os.truncate(other, 0)
print("before", flush=True)
print(array[1 << 19])
"""


def run(tmp_path, code, **environment):
    arguments = [sys.executable, "-c", textwrap.dedent(SETUP + code), str(tmp_path / "a.arrow")]
    environment = {**os.environ, **environment}
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.parametrize("faulthandler", ["", "before", "after"])
def test_our_calls_raise(tmp_path, faulthandler):
    enable = "import faulthandler; faulthandler.enable()\n"
    code = {"": CALLS, "before": enable + CALLS, "after": CALLS.replace("aw\n", "aw\n" + enable, 1)}[faulthandler]
    done = run(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_exported_arrays_die_as_without_us(tmp_path):
    done = run(tmp_path, EXPORTED)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr


def test_foreign_faults_reach_the_handler_before(tmp_path):
    done = run(tmp_path, "import faulthandler; faulthandler.enable()\n" + FOREIGN)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr
    assert "Bus error" in done.stderr and "Current thread" in done.stderr


def test_foreign_faults_without_a_handler(tmp_path):
    done = run(tmp_path, FOREIGN)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "before\n"), done.stderr


def test_a_signal_from_outside_still_ends_the_process(tmp_path):
    done = run(tmp_path, "import arrowwood as aw; aw.open(path); os.kill(os.getpid(), 7)\nprint('alive')")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, ""), done.stderr


def test_the_handler_can_be_switched_off(tmp_path):
    done = run(tmp_path, CALLS, ARROWWOOD_SIGBUS="off")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, ""), done.stderr
