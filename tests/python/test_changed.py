"""Tests mapped files that are truncated while Python uses them.

Arrowwood's calls raise FileChanged; faults in other code reach the handler of SIGBUS that was there before.
"""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from waits import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the handler of faults is for Linux")

# Begins each program. Programs truncate files to one or two pages, so that later pages fault.
SETUP = """
import os, sys
import pyarrow as pa
path = sys.argv[1]
def write_file():
    table = pa.table({"n": pa.array(range(300_000)), "text": [f"row {i}" for i in range(300_000)]})
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
write_file()
"""

# Calls methods of datasets and columns before and after a truncation.
CALLS = """
import arrowwood as aw
def check_raises(call):
    write_file()
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
check_raises(lambda data: data["n"].sum())
check_raises(lambda data: data["text"].min())
check_raises(lambda data: data[299_999])
check_raises(lambda data: data["text"][299_999])
check_raises(lambda data: data["n"].to_numpy(copy=True))
check_raises(lambda data: data.tail(3).to_pylist())
check_raises(lambda data: data.validate())
write_file()
data = aw.open(path)
os.truncate(path, 8192)
try:
    data.to_arrow()
except (aw.FileChanged, pa.ArrowInvalid) as e:
    # Consumers of a C stream raise their own exception, with our message.
    assert "truncated" in str(e), e
write_file()
data = aw.open(path)
os.truncate(path, 8192)
assert "truncated" in repr(data), repr(data)
write_file()
mapping = aw.map(path)
os.truncate(path, 8192)
try:
    mapping[100_000]
except aw.FileChanged:
    print("alive")
"""

# pyarrow reads an exported array after a truncation.
EXPORTED_ARRAY = """
import arrowwood as aw
table = aw.open(path).to_arrow()
os.truncate(path, 8192)
print("before", flush=True)
print(table["n"][299_999])
"""

# NumPy reads a truncated file that it has mapped itself.
FOREIGN_MAPPING = """
import arrowwood as aw, numpy as np
aw.open(path)["n"].sum()
other = path + ".other"
open(other, "wb").write(bytes(1 << 20))
array = np.memmap(other, mode="r")
os.truncate(other, 0)
print("before", flush=True)
print(array[1 << 19])
"""

# Passes memory in a mapping of a truncated file to Arrowwood: the mapping itself, views of it, and NumPy and Arrow
# arrays over it.
MAPPED_ARGUMENTS = """
import arrowwood as aw, numpy as np
n = 100_000
rows = aw.from_arrow(pa.table({"a": range(10)}))
table = path + ".table"
writer = aw.writer(table, pa.schema({"x": "float64"}), sync="never")
writer.append({"x": [1.0]})
buffer = aw.Buffer()
buffer.write(b"abc")
other = path + ".other"
open(other, "wb").write(bytes(8 * n))
target = aw.map(other, "r+", dtype="float64")
streams = aw.stream_writer(open(path + ".stream", "wb"), pa.schema({"x": "float64"}))
builder = aw.Builder(pa.schema({"x": "float64"}))

def as_table(m):
    return pa.table({"x": pa.array(np.asarray(m))})

CALLS = {
    "a slice of itself": lambda m: m.__setitem__(slice(0, n), m[0:n]),
    "part of itself": lambda m: m.__setitem__(slice(0, 9), m[n - 9 : n]),
    "a slice of another": lambda m: target.__setitem__(slice(0, n), m),
    "a view": lambda m: target.__setitem__(slice(0, n), np.asarray(m)),
    "an iterator": lambda m: target.__setitem__(slice(0, n), iter(m)),
    "Buffer.write": lambda m: buffer.write(m),
    "Buffer.write of a view": lambda m: buffer.write(np.asarray(m)[n // 2 :]),
    "take": lambda m: rows.take(m.view("int64")[n - 2 : n]),
    "rows in brackets": lambda m: rows[np.asarray(m.view("int64"))[n - 2 : n]],
    "strided rows": lambda m: rows[np.asarray(m.view("int64"))[::-1000]],
    "rows for a loader": lambda m: rows.__getitems__(m.view("int64")[n - 2 : n]),
    "is_in": lambda m: aw.col("a").is_in(np.asarray(m)[n - 2 : n]),
    "write": lambda m: aw.write({"x": m}, path + ".written"),
    "write of a view": lambda m: aw.write({"x": np.asarray(m)[::-1]}, path + ".written"),
    "write of rows": lambda m: aw.write({"x": np.asarray(m).reshape(-1, 10)}, path + ".written"),
    "write to memory": lambda m: aw.write({"x": m}, aw.Buffer()),
    "write to a file object": lambda m: aw.write({"x": m}, open(path + ".written", "wb")),
    "write of Arrow data": lambda m: aw.write(as_table(m), path + ".written"),
    "write compressed": lambda m: aw.write({"x": m}, path + ".written", compression="lz4"),
    "Writer.append": lambda m: writer.append({"x": m}),
    "Writer.append of Arrow data": lambda m: writer.append(as_table(m)),
    "Writer.append with a cast": lambda m: writer.append({"x": m.view("int64")}),
    "Builder.append": lambda m: builder.append({"x": m}),
    "StreamWriter.write": lambda m: streams.write({"x": m}),
    "sum": lambda m: aw.from_arrow(as_table(m))["x"].sum(),
    "open": lambda m: aw.open(m).num_columns,
    "tolist": lambda m: m.tolist(),
    "tobytes": lambda m: m.tobytes(),
}
stream = pa.BufferOutputStream()
with pa.ipc.new_stream(stream, pa.schema({"x": "float64"})) as out:
    out.write_table(pa.table({"x": np.zeros(2 * n)}))
stream = stream.getvalue().to_pybytes()
path = path + ".bin"
for mode in ("r", "r+", "c"):
    for name, call in CALLS.items():
        open(path, "wb").write(stream[: 8 * n] if name == "open" else bytes(8 * n))
        m = aw.map(path, mode, dtype="float64")
        os.truncate(path, 0 if name == "open" else 4096)
        try:
            call(m)
        except aw.FileChanged as e:
            assert e.path == path, (name, e.path)
        except aw.InvalidArgument as e:
            assert mode == "r" and name in ("a slice of itself", "part of itself") and "read-only" in str(e), (name, e)
        else:
            raise SystemExit(f"{mode}, {name}: nothing was raised")
        assert bytes(buffer) == b"abc", name
# No failed call has added rows, and writer and builder still work.
writer.append({"x": [2.0]})
writer.close()
assert aw.open(table)["x"].to_pylist() == [1.0, 2.0]
builder.append({"x": [3.0]})
assert builder.finish()["x"].to_pylist() == [3.0]
print("alive")
"""

# Writes a stream into a mapping of a truncated file.
MAPPED_TARGET = """
import arrowwood as aw
target = path + ".bin"
open(target, "wb").write(bytes(1 << 22))
m = aw.map(target, "r+")
os.truncate(target, 4096)
rows = aw.open(path)
for call in (lambda: aw.stream_writer(m).write(rows), lambda: aw.write(rows, m)):
    try:
        call()
    except aw.FileChanged as e:
        assert e.path == target, e
    else:
        raise SystemExit("nothing was raised")
print("alive")
"""


ENABLE_FAULTHANDLER = "import faulthandler; faulthandler.enable()\n"


def run(tmp_path, code, **environment):
    """Runs a program after `SETUP`, and returns the completed process."""
    arguments = [sys.executable, "-c", textwrap.dedent(SETUP + code), str(tmp_path / "a.arrow")]
    environment = {**os.environ, **environment}
    # The watchdog of `make test` sets this variable; here programs enable the handler themselves.
    environment.pop("PYTHONFAULTHANDLER", None)
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=PATIENCE)


def assert_survives(process):
    assert (process.returncode, process.stdout) == (0, "alive\n"), process.stderr


def assert_killed_by_sigbus(process, output):
    assert (process.returncode, process.stdout) == (-signal.SIGBUS, output), process.stderr


@pytest.mark.parametrize("faulthandler", ["", "before", "after"])
def test_calls_raise_after_truncation_with_and_without_faulthandler(tmp_path, faulthandler):
    code = {
        "": CALLS,
        "before": ENABLE_FAULTHANDLER + CALLS,
        "after": CALLS.replace("aw\n", "aw\n" + ENABLE_FAULTHANDLER, 1),
    }[faulthandler]
    assert_survives(run(tmp_path, code))


def test_calls_raise_for_arguments_in_a_truncated_mapping(tmp_path):
    assert_survives(run(tmp_path, MAPPED_ARGUMENTS))


def test_writing_a_stream_into_a_truncated_mapping_raises(tmp_path):
    assert_survives(run(tmp_path, MAPPED_TARGET))


def test_faults_in_exported_arrays_kill_the_process(tmp_path):
    assert_killed_by_sigbus(run(tmp_path, EXPORTED_ARRAY), "before\n")


def test_foreign_faults_reach_the_previous_handler(tmp_path):
    process = run(tmp_path, ENABLE_FAULTHANDLER + FOREIGN_MAPPING)
    assert_killed_by_sigbus(process, "before\n")
    assert "Bus error" in process.stderr and "Current thread" in process.stderr


def test_foreign_faults_without_a_handler_kill_the_process(tmp_path):
    assert_killed_by_sigbus(run(tmp_path, FOREIGN_MAPPING), "before\n")


def test_a_signal_sent_by_kill_ends_the_process(tmp_path):
    code = "import arrowwood as aw; aw.open(path); os.kill(os.getpid(), 7)\nprint('alive')"
    assert_killed_by_sigbus(run(tmp_path, code), "")


def test_the_handler_can_be_switched_off(tmp_path):
    assert_killed_by_sigbus(run(tmp_path, CALLS, ARROWWOOD_SIGBUS="off"), "")
