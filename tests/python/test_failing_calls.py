"""Reads of a file that fail: an error of the system is an error, and never taken for absence, damage or an end."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE

# Does something with copies of a table or a file, of which one read after the other fails, until none does. Prints how
# many have failed. What a table holds afterwards is what it held before.
OPERATE = """
import ctypes, os, shutil, sys
import arrowwood as aw

original, home, operation, number, lasting, is_rebooted = sys.argv[1:]
number, lasting = int(number), lasting == "True"
READ = 1
libc = ctypes.CDLL(None, use_errno=True)
if is_rebooted == "True":
    boot = os.path.join(home, "boot")
    with open(boot, "w") as file:
        file.write("00000007-0000-4000-8000-000000000001\\n")
    assert libc.unshare(0x20000) == 0, "no namespace of mounts"
    libc.mount(b"none", b"/", None, 0x44000, None)
    assert libc.mount(boot.encode(), b"/proc/sys/kernel/random/boot_id", None, 0x1000, None) == 0, "no boot id"


def write(path):
    writer = aw.writer(path)
    assert writer.dropped_rows == 0, f"{writer.dropped_rows} rows dropped"
    writer.close()


operations = {
    "open": lambda path: aw.open(path)["n"].to_pylist(),
    "write": write,
    "alter": lambda path: aw.alter(path, add="m: int64"),
    "compact": aw.compact,
    "check": lambda path: damage(aw.check(path)),
    "repair": lambda path: damage(aw.repair(path)),
    "partial": lambda path: aw.open(path, partial=True)["n"].to_pylist(),
}


def damage(report):
    assert report.is_good and report.repaired is None, report


expected = aw.open(original)["n"].to_pylist()
failed = 0
for when in range(1, 100_000):
    path = os.path.join(home, f"{operation}-{when}")
    if os.path.isdir(original):
        shutil.copytree(original, path)
    else:
        shutil.copyfile(original, path)
    libc.fail_calls(READ, when, number, lasting)
    try:
        found = operations[operation](path)
        assert found is None or isinstance(found, int) or found == expected or libc.failed_calls() == 0, f"{when}: {found}"
    except (OSError, MemoryError, aw.Error) as e:
        assert not isinstance(e, (aw.InvalidData, aw.NotFound, aw.FileChanged)), f"{when}: {e!r}"
    count = libc.failed_calls()
    libc.fail_calls(0, 0, 0, False)
    there = aw.open(path)["n"].to_pylist()
    assert there == expected, f"{when}: {len(there)} rows of {len(expected)}"
    assert sorted(name for name in os.listdir(home) if "damaged" in name) == [], os.listdir(home)
    if count == 0:
        break
    failed += count
print(failed)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A function that lets reads of an operation fail, in a process of its own."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("a library is compiled with cc, and preloaded")
    home = tmp_path_factory.mktemp("library")
    library = home / "failing_calls.so"
    source = Path(__file__).parents[1] / "support/failing_calls.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)

    def fail(original, home, operation, number, lasting, is_rebooted=False):
        arguments = map(str, (original, home, operation, number, lasting, is_rebooted))
        done = subprocess.run(
            [sys.executable, "-c", OPERATE, *arguments],
            env={**os.environ, "LD_PRELOAD": str(library)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if "no namespace" in done.stderr or "no boot id" in done.stderr:
            pytest.skip("root can pretend another boot")
        assert done.returncode == 0, done.stderr[-2000:]
        assert int(done.stdout) > 0

    return fail


WRITE = """
import os, sys
import arrowwood as aw
writer = aw.writer(sys.argv[1], "n: int64", sync="never", segment_rows=20)
for start in range(0, 50, 10):
    writer.append({"n": list(range(start, start + 10))})
    writer.commit(durable=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of durable rows whose writer was killed."""
    path = tmp_path_factory.mktemp("tables") / "table"
    subprocess.run([sys.executable, "-c", WRITE, str(path)], check=False)
    return path


@pytest.mark.parametrize("is_rebooted", [False, True], ids=["same boot", "other boot"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("operation", ["open", "write", "alter", "compact", "check", "repair"])
def test_reads_of_a_table_that_fail_cost_no_row(failing, table, tmp_path, operation, lasting, is_rebooted):
    for number in (errno.EIO, errno.ENOMEM) if operation in ("write", "check") else (errno.EIO,):
        home = tmp_path / str(number)
        home.mkdir()
        failing(table, home, operation, number, lasting, is_rebooted)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("operation", ["open", "check", "repair", "partial"])
def test_reads_of_a_file_that_fail_are_no_damage(failing, tmp_path, operation, lasting):
    original = tmp_path / "original.arrow"
    aw.write(aw.from_arrow(pa.table({"n": list(range(3000))})), str(original))
    failing(original, tmp_path, operation, errno.EIO, lasting)
