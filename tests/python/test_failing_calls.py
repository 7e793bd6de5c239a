"""Tests that failed system calls are errors, and not taken for a missing file, damage or the end of data."""

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

TABLE_OPERATIONS = [name for name, (begins_with, *_) in operations.OPERATIONS.items() if "table" in begins_with]

# Operations make many calls: one in 40 fails here, and all of them in `make failing-calls`.
EVERY = "40"
ROWS = 5


def skip_without_preloading():
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("a library is compiled with cc, and preloaded")


def run_operation(*arguments):
    """Runs an operation again and again, and fails another of its system calls each time."""
    skip_without_preloading()
    command = [sys.executable, PROGRAM, *arguments, "--every", EVERY]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if "needs root" in process.stderr:
        pytest.skip("root can pretend another boot")
    assert process.returncode == 0, process.stderr


@pytest.fixture
def table(tmp_path):
    """The path of a table with the rows 0 to 4."""
    path = str(tmp_path / "table")
    with aw.writer(path, "n: int") as writer:
        writer.append({"n": range(ROWS)})
    return path


@pytest.mark.parametrize("operation", operations.OPERATIONS)
def test_failed_calls_lose_no_rows(operation):
    run_operation(operation)


@pytest.mark.parametrize("operation", TABLE_OPERATIONS)
def test_failed_calls_after_a_reboot_lose_no_rows(operation):
    run_operation(operation, "--rebooted")


# Fails one call of the first `open` of the process, then opens and writes the table without failures.
FAIL_FIRST_OPEN = """
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


def test_open_succeeds_after_a_failed_call_in_the_first_open(table, tmp_path):
    """Failures must not be cached with what a process reads once, such as the boot ID."""
    skip_without_preloading()
    environment = {**os.environ, "LD_PRELOAD": operations.build(str(tmp_path))}
    kinds = str(operations.OPEN | operations.READ)
    call, has_failed = 0, True
    # Fail the first call, then the second, until `open` makes fewer calls than that.
    while has_failed:
        call += 1
        command = [sys.executable, "-c", FAIL_FIRST_OPEN, table, kinds, str(call)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert process.returncode == 0, f"call {call}: {process.stderr}"
        has_failed = int(process.stdout) > 0
    assert call > 5


# Makes the first call of the process without a free file descriptor, then makes all calls with the usual limit.
EXHAUST_DESCRIPTORS = """
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
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
lowest_free = os.dup(0)
os.close(lowest_free)
resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
try:
    raise SystemExit(f"{first}: {calls[first]()} without a descriptor")
except aw.IoError as e:
    assert e.errno == errno.EMFILE, e
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
calls[first]()
for call in calls.values():
    call()
assert len(aw.open(path)) == 5
"""


@pytest.mark.parametrize("first", ["open", "writer", "compact", "check"])
def test_calls_succeed_once_descriptors_are_free_again(first, table):
    command = [sys.executable, "-c", EXHAUST_DESCRIPTORS, table, first]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert process.returncode == 0, process.stderr
