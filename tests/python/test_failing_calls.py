"""Calls of the system that fail: an error of it is an error, and never taken for absence, damage or an end."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

import arrowwood as aw
from waits import PATIENCE

PROGRAM = os.path.join(os.path.dirname(__file__), "..", "failing_calls", "operations.py")
spec = importlib.util.spec_from_file_location("operations", PROGRAM)
operations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(operations)

OF_TABLES = [name for name, (begins_with, *_) in operations.OPERATIONS.items() if "table" in begins_with]


def run(*arguments):
    """Lets some calls of an operation fail; `make failing-calls` has all."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("a library is compiled with cc, and preloaded")
    command = [sys.executable, PROGRAM, *arguments, "--every", "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if "needs root" in done.stderr:
        pytest.skip("root can pretend another boot")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("operation", operations.OPERATIONS)
def test_calls_that_fail_cost_no_row(operation):
    run(operation)


@pytest.mark.parametrize("operation", OF_TABLES)
def test_calls_that_fail_after_a_restart_cost_no_row(operation):
    run(operation, "--rebooted")


FIRST = """
import ctypes, errno, sys
import arrowwood as aw
path, kinds, when = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None)
libc.fail_calls_of.restype = ctypes.c_bool
libc.fail_calls.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_bool]
assert libc.fail_calls_of(b"_arrowwood")
libc.fail_calls(kinds, when, errno.EMFILE, False)
try:
    aw.open(path)
except aw.IoError as e:
    assert e.errno == errno.EMFILE, e
failed = libc.failed_calls()
libc.fail_calls(0, 0, 0, False)
assert len(aw.open(path)) == 5
aw.writer(path).close()
print(failed)
"""


def test_a_call_that_fails_at_the_first_table_of_a_process_is_forgotten(tmp_path):
    """Nothing is remembered of it: the id of the boot, for one, is read once for a process."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("a library is compiled with cc, and preloaded")
    environment = {**os.environ, "LD_PRELOAD": operations.build(str(tmp_path))}
    path = str(tmp_path / "table")
    with aw.writer(path, "n: int") as writer:
        writer.append({"n": range(5)})
    failed = []
    while not failed or failed[-1]:
        command = [sys.executable, "-c", FIRST, path, str(operations.OPEN | operations.READ), str(len(failed) + 1)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"call {len(failed) + 1}: {done.stderr}"
        failed.append(int(done.stdout))
    assert len(failed) > 5


SHORT = """
import errno, os, resource, sys
import arrowwood._progress
import arrowwood as aw
path, first = sys.argv[1:]
calls = {
    "open": lambda: len(aw.open(path)),
    "writer": lambda: aw.writer(path).close(),
    "compact": lambda: aw.compact(path),
    "check": lambda: aw.check(path).rows,
}
most = resource.getrlimit(resource.RLIMIT_NOFILE)
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, most[1]))
try:
    raise SystemExit(f"{first}: {calls[first]()} without a descriptor")
except aw.IoError as e:
    assert e.errno == errno.EMFILE, e
resource.setrlimit(resource.RLIMIT_NOFILE, most)
calls[first]()
for call in calls.values():
    call()
assert len(aw.open(path)) == 5
"""


@pytest.mark.parametrize("first", ["open", "writer", "compact", "check"])
def test_a_process_that_had_no_descriptor_for_its_first_table_opens_it_later(first, tmp_path):
    path = str(tmp_path / "table")
    with aw.writer(path, "n: int") as writer:
        writer.append({"n": range(5)})
    done = subprocess.run([sys.executable, "-c", SHORT, path, first], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
